"""A task: tokens, labels and what is known about the best answer; baselines to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from companion.tasks.embedding import join
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure
from mfbook.space import Euclidean, Space

#: Counts of every word that has not been seen.
SMOOTHING = 0.5


@dataclass(frozen=True, eq=False)
class Task:
    """Tokens, labels and the fixed projection to the vocabulary."""

    X: np.ndarray
    Y: np.ndarray
    W_U: np.ndarray
    name: str
    tokens: np.ndarray | None = None
    words: tuple[str, ...] | None = None
    teacher: Measure | None = None
    optimal_risk: float | None = None
    held_out: Task | None = None

    def __post_init__(self):
        for name in ("X", "Y", "W_U"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    def __repr__(self) -> str:
        S, T, d = self.X.shape
        more = "" if self.held_out is None else f", {len(self.held_out.X)} sequences held out"
        return (
            f"Task({self.name!r}: {S} sequences of {T} tokens in R^{d}, "
            f"vocabulary {self.Y.shape[2]}{more})"
        )

    @classmethod
    def from_sentences(cls, sentences: Sequence[str], end: str = ".") -> Task:
        r"""Sentences of your own: predict each word from those before it.

        Words are what stands between spaces; the vocabulary has them in the order in which they
        first occur. A token is the one-hot vector of its word beside its position
        :math:`(\cos\frac{\pi t}{T+1},\sin\frac{\pi t}{T+1})`, so :math:`d=V+2`. T is one less than
        the longest sentence has words; shorter ones are filled up with ``end``. ``W_U`` reads the
        word off its token.
        """
        if isinstance(sentences, str) or not len(sentences):
            raise ValueError(f"sentences: expected a list of at least one, got {sentences!r}")
        lines = [line.split() for line in sentences]
        longest = max(map(len, lines))
        lines = [[*line, *[end.strip()] * (longest - len(line))] for line in lines]
        words = tuple(dict.fromkeys(word for line in lines for word in line))
        ids = np.array([[words.index(word) for word in line] for line in lines])
        V, T, one_hot = len(words), longest - 1, np.eye(len(words))
        angle = np.pi / (T + 1) * np.arange(T)
        X = join(one_hot[ids[:, :-1]], np.stack([np.cos(angle), np.sin(angle)], axis=1))
        return cls(X, one_hot[ids[:, 1:]], np.eye(V + 2, V), "sentences", ids[:, :-1], words)

    def risk(self, shape: HeadShape, space: Space | None = None) -> AttentionRisk:
        """Cross-entropy risk of a measure over heads on this task."""
        return AttentionRisk(self.X, self.Y, self.W_U, shape, space or Euclidean())

    def held_out_risk(self, shape: HeadShape, space: Space | None = None) -> AttentionRisk:
        """Risk on the sequences set aside."""
        return self.held_out.risk(shape, space)

    def sequence(self, s: int) -> tuple[str, ...]:
        """Words of one sequence; where there is no word, the empty string."""
        return tuple(self.words[i] if i >= 0 else "" for i in self.tokens[s])


def entropy(Y: ArrayLike) -> float:
    r"""Mean entropy of labels, :math:`-\frac1{ST}\sum_{s,t}\langle y_{s,t},\log y_{s,t}\rangle`.

    In nats per token. It is the least risk that any predictor can have on these labels.
    """
    return float(entr(np.asarray(Y, dtype=float)).sum(axis=-1).mean())


def bits_per_character(nats: float) -> float:
    r"""A risk in bits: nats over :math:`\ln2`."""
    return nats / float(np.log(2))


def unigram_bits(task: Task) -> float:
    r"""Bits per token of the best constant prediction, on the sequences held out.

    The law of the label is counted on the task's own sequences:
    :math:`\hat p(b)=\frac{n_b+\alpha}{n+\alpha V}`, :math:`n_b=\sum_{s,t}y_{s,t,b}`.
    """
    counts = task.Y.sum(axis=(0, 1)) + SMOOTHING
    return float(-(task.held_out.Y @ np.log2(counts / counts.sum())).mean())


def bigram_bits(task: Task) -> float:
    r"""Bits per token of the best prediction from the current word, on the sequences held out.

    The law of the label given the word at hand is counted on the task's own sequences:
    :math:`\hat p(b\mid a)=\frac{n_{ab}+\alpha}{n_a+\alpha V}`. A layer that beats it has used
    more than the last word.
    """
    other, V = task.held_out, task.Y.shape[2]
    counts = np.full((V + 1, V), SMOOTHING)
    np.add.at(counts, task.tokens, task.Y)  # "no word" is -1: the last row
    law = np.log2(counts / counts.sum(axis=1, keepdims=True))
    return float(-(other.Y * law[other.tokens]).sum(axis=-1).mean())
