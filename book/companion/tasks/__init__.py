r"""Tasks: tokens and labels to learn, with what is known about the best answer.

Four kinds, from the most artificial to the least: a *teacher* whose own predictions are the
labels, so that the optimum is known exactly; *copying* the word a fixed number of positions ago;
*induction*, which must find an earlier occurrence of the word at hand; and the next character of
English *text*. Embeddings are fixed; one layer of heads is all that learns.
"""

from companion.tasks.synthetic import copy_head, copy_task, induction_task, teacher_student
from companion.tasks.task import Task, bigram_bits, bits_per_character, entropy, unigram_bits
from companion.tasks.text import ALPHABET, clean, corpus, corpus_hash, prose, text_task

__all__ = [
    "ALPHABET", "Task", "bigram_bits", "bits_per_character", "clean", "copy_head", "copy_task",
    "corpus", "corpus_hash", "entropy", "induction_task", "prose", "teacher_student", "text_task",
    "unigram_bits",
]  # fmt: skip
