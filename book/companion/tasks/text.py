r"""Real text without a download: the English prose in the documentation that ships with CPython.

The module ``pydoc_data.topics`` of the standard library holds the language reference as plain
text, about 465,000 characters of prose, code, grammar and tables. What is kept here is the prose.
It differs between Python releases; :func:`corpus_hash` says which text a number belongs to.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import replace
from functools import cache

import numpy as np

from companion.tasks.embedding import join, positions, tied, words
from companion.tasks.task import Task
from mfbook._validate import Seed

#: The characters of a cleaned text, in the order of their token ids.
ALPHABET = "abcdefghijklmnopqrstuvwxyz .,"

#: Share of a text, at its end, that is set aside for evaluation.
HELD_OUT_SHARE = 0.1
# Bullets, numbers of lists and footnotes, and the labels of version notes.
MARKER = re.compile(
    r"^(?:[*+-]|\d+\.|\[\d+\]"
    r"|(?:Note|CPython implementation detail"
    r"|(?:Added|New|Changed|Deprecated)[a-z ]* [\d.]+):)\s+"
)
# An unquoted word: inside a sentence, unlike a name, a number or a literal.
WORD = re.compile(r"(?<!\S)\(?[A-Za-z][a-z’'-]*[.,;:)]*(?!\S)")
SENTENCE = re.compile(r"""["(*]*[A-Z"].*[.:?!)"]""", re.DOTALL)
# A paragraph of prose has at least this many plain words, and at least this share of them.
WORDS, SHARE = 8, 0.75
QUOTES = str.maketrans("", "", "\"'*`‘’“”")


def prose(document: str) -> str:
    """Keep the paragraphs that are English sentences; drop code, grammar, tables and headings.

    A paragraph stays if it starts and ends like a sentence, has at least 8 plain words and at
    least three quarters of its words are plain (not quoted, no digits or symbols). Bullets and
    labels are stripped. A paragraph that occurs twice stays once, so that text set aside for
    evaluation is not a copy of text used for training.
    """
    kept: dict[str, None] = {}
    for block in re.split(r"\n[ \t]*\n", document):
        paragraph = MARKER.sub("", " ".join(block.split()))
        plain = len(WORD.findall(paragraph))
        enough = plain >= max(WORDS, SHARE * len(paragraph.split()))
        if enough and SENTENCE.fullmatch(paragraph):
            kept[paragraph] = None
    return "\n".join(kept)


def clean(text: str) -> str:
    """Reduce a text to the 29 characters of ``ALPHABET``: a to z, space, point and comma.

    Accents go, letters become lower case, quotation marks and emphasis vanish, points and commas
    inside words or numbers and everything else become spaces; spaces are joined, and none stays
    before a point or a comma. Cleaning twice changes nothing.
    """
    text = unicodedata.normalize("NFKD", text).casefold()
    text = "".join(c for c in text if not unicodedata.combining(c)).translate(QUOTES)
    text = re.sub(r"[.,](?=\w)", " ", text)
    text = re.sub(r"[^a-z.,]+", " ", text)
    return re.sub(r" ?([.,])[ .,]*", r"\1 ", text).lstrip(" .,").rstrip(" ")


@cache
def corpus() -> str:
    """Return the prose of CPython's own documentation, cleaned to ``ALPHABET``."""
    from pydoc_data.topics import topics  # some systems ship a Python without it

    return clean(prose("\n\n".join(topics.values())))


def corpus_hash() -> str:
    """Return the first 16 digits of the SHA-256 of the corpus: it tells Python releases apart."""
    return hashlib.sha256(corpus().encode()).hexdigest()[:16]


def text_task(
    *, sequences: int, tokens: int, held_out: int, rng: Seed, text: str | None = None
) -> Task:
    r"""Predict the next character of English text, given the last few.

    The text is cut in two, the last tenth for evaluation, and each part into windows of T
    characters that do not overlap; of these, S and S' are drawn without replacement. The label of
    a character is the one that follows it in the text.

    A token is a pair :math:`x_t=(e,p_t)` of unit vectors: the 29 characters are the corners of a
    regular simplex in :math:`\mathbb R^{28}`, all at the same distance, so nothing about English is
    built in; the position is
    :math:`p_t=(\cos\frac{\pi t}T,\sin\frac{\pi t}T,\cos\frac{2\pi t}T,\sin\frac{2\pi t}T)/\sqrt2`.
    So d = 32 and :math:`\|x_t\|=\sqrt2`. ``W_U`` holds the characters again (tied embeddings): its
    rows sum to zero, its operator norm is :math:`\sqrt{29/28}`.
    """
    S, T = sequences, tokens
    rng = np.random.default_rng(rng)
    text = corpus() if text is None else clean(text)
    ids = np.array([ALPHABET.index(c) for c in text])
    cut = round((1 - HELD_OUT_SHARE) * len(ids))
    # drawn first: with one seed it stays the same when the number of sequences changes
    rest = _windows_task(_windows(ids[cut:], T, held_out, rng))
    return replace(_windows_task(_windows(ids[:cut], T, S, rng)), held_out=rest)


def _windows(ids, T: int, n: int, rng) -> np.ndarray:
    """n windows of T characters and the next one, (n, T + 1); no character is twice a label."""
    start = T * np.sort(rng.choice(max(len(ids) - 1, 0) // T, size=n, replace=False))
    return ids[start[:, None] + np.arange(T + 1)]


def _windows_task(windows) -> Task:
    V, ids = len(ALPHABET), windows[:, :-1]
    X = join(words(V)[ids], positions(ids.shape[1], 2))
    return Task(X, np.eye(V)[windows[:, 1:]], tied(V, 4), "text", ids, tuple(ALPHABET))
