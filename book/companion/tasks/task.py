"""A task: tokens, labels and what is known about the best answer; baselines to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from companion.tasks.sentences import sentence_data
from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure
from mfbook.space import Space


@dataclass(frozen=True, eq=False)
class Task:
    r"""Tokens, labels and the fixed projection to the vocabulary.

    Parameters
    ----------
    X : array_like, shape (S, T, d)
        Tokens, embedded.
    Y : array_like, shape (S, T, V)
        Labels: one-hot or probability vectors.
    W_U : array_like, shape (d, V)
        Fixed projection to the vocabulary. The tasks of this module have rows that sum to zero: a
        constant added to all logits changes nothing, and this is the representative without one.
    name : str
        What the task is called.
    tokens : array_like of int, shape (S, T), optional
        The word at each position, an index into ``words``; -1 where there is none.
    words : tuple of str, optional
        The V words of the vocabulary.
    teacher : Measure, optional
        The measure whose predictions are the labels.
    optimal_risk : float, optional
        Infimum of the risk over measures on R^D, in nats per token, where it is known: attained
        by the teacher, or approached by heads of growing norm.
    held_out : Task, optional
        More of the same for evaluation.

    Raises
    ------
    TypeError, ValueError
        If a shape is wrong, an entry is NaN or infinite, a label is not a probability vector, or a
        token is not the index of a word.

    Examples
    --------
    >>> task = Task(np.zeros((2, 3, 1)), np.full((2, 3, 2), 0.5), [[1.0, -1.0]], "toss a coin")
    >>> task
    Task('toss a coin': 2 sequences of 3 tokens in R^1, vocabulary 2)
    >>> float(task.risk(HeadShape(1, 1, 1))(Measure.dirac(np.zeros(4))))
    0.6931471805599453
    >>> both = Task(task.X, task.Y, task.W_U, "two coins", held_out=task)
    >>> float(both.held_out_risk(HeadShape(1, 1, 1))(Measure.dirac(np.zeros(4))))
    0.6931471805599453
    """

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
        X = validate.array(self.X, "X", ("S", "T", "d"))
        W_U = validate.array(self.W_U, "W_U", (X.shape[2], "V"))
        Y = validate.probabilities(self.Y, "Y", (*X.shape[:2], W_U.shape[1]))
        for name, value in (("X", X), ("Y", Y), ("W_U", W_U)):
            object.__setattr__(self, name, validate.frozen(value))
        validate.instance(self.name, "name", str)
        if self.words is not None:
            known = isinstance(self.words, (tuple, list))
            if not known or not all(isinstance(word, str) for word in self.words):
                raise TypeError(f"words: expected a tuple of str, got {self.words!r}")
            if len(self.words) != Y.shape[2]:
                raise ValueError(f"words: expected {Y.shape[2]} of them, got {len(self.words)}")
            object.__setattr__(self, "words", tuple(self.words))
        if self.tokens is not None:
            tokens = validate.plain(self.tokens, "tokens")
            if tokens.dtype.kind not in "iu":
                raise TypeError(f"tokens: expected integers, got dtype {tokens.dtype}")
            validate.array(tokens, "tokens", X.shape[:2])
            if tokens.min() < -1 or tokens.max() >= Y.shape[2]:
                raise ValueError(
                    f"tokens: expected integers from -1 to {Y.shape[2] - 1}, "
                    f"got {tokens.min()} to {tokens.max()}"
                )
            object.__setattr__(self, "tokens", validate.frozen(tokens))
        if self.optimal_risk is not None:
            risk = validate.finite(self.optimal_risk, "optimal_risk")
            object.__setattr__(self, "optimal_risk", risk)
        if self.teacher is not None:
            validate.instance(self.teacher, "teacher", Measure)
        if self.held_out is not None:
            other = validate.instance(self.held_out, "held_out", Task)
            if not np.array_equal(other.W_U, self.W_U):
                raise ValueError("held_out: expected the same W_U, got another")

    def __repr__(self) -> str:
        S, T, d = self.X.shape
        more = "" if self.held_out is None else f", {len(self.held_out.X)} sequences held out"
        return (
            f"Task({self.name!r}: {S} sequences of {T} tokens in R^{d}, "
            f"vocabulary {self.Y.shape[2]}{more})"
        )

    @classmethod
    def from_sentences(
        cls,
        sentences: Sequence[str],
        *,
        projection: str = "identity",
        rng: Seed | None = None,
        end: str = ".",
        name: str = "sentences",
    ) -> Task:
        r"""Sentences of your own: predict each word from those before it.

        Words are what stands between spaces; the vocabulary has them in the order in which they
        first occur. A token is the one-hot vector of its word beside its position
        :math:`(\cos\frac{\pi t}{T+1},\sin\frac{\pi t}{T+1})`, so :math:`d=V+2`. T is one less than
        the longest sentence has words; shorter ones are filled up with ``end``.

        Parameters
        ----------
        sentences : sequence of str
            At least one, of two words or more.
        projection : str
            How logits are read off: ``"identity"`` from the coordinates of the words, or
            ``"random"``, normal entries of variance 1/d, whose rows are shifted to sum zero.
        rng : numpy.random.Generator or int, optional
            Source of randomness, or a seed; for ``"random"``, and only then.
        end : str
            The word that fills up.
        name : str
            What the task is called.

        Returns
        -------
        Task

        Raises
        ------
        TypeError, ValueError
            If a sentence is no text or has fewer than two words, ``end`` is not one word, the
            projection is unknown, or ``rng`` is missing or not needed.

        Examples
        --------
        >>> task = Task.from_sentences(["the cat sat on the mat", "the dog sat"])
        >>> task
        Task('sentences': 2 sequences of 5 tokens in R^9, vocabulary 7)
        >>> task.sequence(1), task.words[task.Y[1, 1].argmax()]
        (('the', 'dog', 'sat', '.', '.'), 'sat')
        """
        return cls(**sentence_data(sentences, projection, rng, end), name=name)

    def risk(
        self, shape: HeadShape, space: Space | None = None, dtype: type = np.float64
    ) -> AttentionRisk:
        """Cross-entropy risk of a measure over heads on this task.

        Parameters
        ----------
        shape : HeadShape
            With the task's token dimension d.
        space : space, optional
            Where heads live: all of R^D (default) or ``shape.ball(radius)``.
        dtype : numpy.float64 or numpy.float32, optional
            Precision.

        Returns
        -------
        AttentionRisk
            On the sequences of the task.
        """
        if validate.instance(shape, "shape", HeadShape).d != self.X.shape[2]:
            raise ValueError(f"shape: expected d = {self.X.shape[2]} as the tokens, got {shape}")
        return AttentionRisk(self.X, self.Y, self.W_U, shape, space, dtype)

    def held_out_risk(
        self, shape: HeadShape, space: Space | None = None, dtype: type = np.float64
    ) -> AttentionRisk:
        """Risk on the sequences set aside; takes what :meth:`risk` takes.

        Parameters
        ----------
        shape, space, dtype
            As of :meth:`risk`.

        Returns
        -------
        AttentionRisk
            On the sequences set aside.

        Raises
        ------
        ValueError
            If the task has none.
        """
        return _evaluation(self).risk(shape, space, dtype)

    def sequence(self, s: int) -> tuple[str, ...]:
        """Words of one sequence; where there is no word, the empty string.

        Parameters
        ----------
        s : int
            Which.

        Returns
        -------
        tuple of str
            Its words.

        Raises
        ------
        ValueError
            If the task has no words.

        Examples
        --------
        >>> from companion.tasks import copy_task
        >>> copy_task(sequences=1, tokens=6, vocabulary=3, lag=1, rng=0).sequence(0)
        ('', 'b', 'b', 'a', 'a', 'a')
        """
        if self.tokens is None or self.words is None:
            raise ValueError(f"tokens, words: expected a task that has both, got {self!r}")
        row = self.tokens[validate.index(s, "s", len(self.tokens))]
        return tuple(self.words[i] if i >= 0 else "" for i in row)


def entropy(Y: ArrayLike) -> float:
    r"""Mean entropy of labels, :math:`-\frac1{ST}\sum_{s,t}\langle y_{s,t},\log y_{s,t}\rangle`.

    In nats per token. It is the least risk that any predictor can have on these labels.

    Parameters
    ----------
    Y : array_like, shape (S, T, V)
        Labels.

    Returns
    -------
    float
        In nats per token.

    Examples
    --------
    >>> entropy([[[0.5, 0.5], [0.0, 1.0]]])
    0.34657359027997264
    """
    Y = validate.probabilities(Y, "Y", ("S", "T", "V"))
    return float(entr(Y).sum(axis=-1).mean())


def bits_per_character(nats: float) -> float:
    r"""Convert a risk from nats to bits: divide by :math:`\ln2`; infinite if too large for a float.

    Parameters
    ----------
    nats : float
        A risk in nats per character.

    Returns
    -------
    float
        Bits.

    Examples
    --------
    >>> round(bits_per_character(np.log(29)), 3)
    4.858
    """
    return validate.finite(nats, "nats") / float(np.log(2))


def unigram_bits(task: Task, smoothing: float = 0.5) -> float:
    r"""Bits per token of the best constant prediction, on the sequences held out.

    The law of the label is counted on the task's own sequences:
    :math:`\hat p(b)=\frac{n_b+\alpha}{n+\alpha V}`, :math:`n_b=\sum_{s,t}y_{s,t,b}`.

    Parameters
    ----------
    task : Task
        With ``held_out``.
    smoothing : float
        Pseudo-count :math:`\alpha`, positive; by default 1/2 (Krichevsky and Trofimov).

    Returns
    -------
    float
        Bits per token.

    Raises
    ------
    TypeError, ValueError
        If the task has nothing held out or ``smoothing`` is not positive.

    Examples
    --------
    >>> from companion.tasks import text_task
    >>> task = text_task(sequences=256, tokens=8, held_out=64, rng=0)
    >>> bigram_bits(task) < unigram_bits(task) < bits_per_character(np.log(29))
    True
    """
    other = _evaluation(task)
    counts = task.Y.sum(axis=(0, 1)) + _smoothing(smoothing)
    return float(-(other.Y @ np.log2(counts / counts.sum())).mean())


def bigram_bits(task: Task, smoothing: float = 0.5) -> float:
    r"""Bits per token of the best prediction from the current word, on the sequences held out.

    The law of the label given the word at hand is counted on the task's own sequences:
    :math:`\hat p(b\mid a)=\frac{n_{ab}+\alpha}{n_a+\alpha V}`. A layer that beats it has used
    more than the last word.

    Parameters
    ----------
    task : Task
        With ``held_out`` and ``tokens``.
    smoothing : float
        Pseudo-count :math:`\alpha`, positive; by default 1/2 (Krichevsky and Trofimov).

    Returns
    -------
    float
        Bits per token.

    Raises
    ------
    TypeError, ValueError
        If the task has nothing held out or no tokens, or ``smoothing`` is not positive.

    Examples
    --------
    >>> from companion.tasks import text_task
    >>> task = text_task(sequences=256, tokens=8, held_out=64, rng=0)
    >>> bigram_bits(task) < unigram_bits(task)
    True
    """
    other = _evaluation(task)
    if task.tokens is None or other.tokens is None:
        raise ValueError(f"task: expected one with tokens, got {task!r}")
    V = task.Y.shape[2]
    counts = np.full((V + 1, V), _smoothing(smoothing))
    np.add.at(counts, task.tokens, task.Y)  # "no word" is -1: the last row
    law = np.log2(counts / counts.sum(axis=1, keepdims=True))
    return float(-(other.Y * law[other.tokens]).sum(axis=-1).mean())


def _evaluation(task: Task) -> Task:
    """The held-out part of a task, or an error that says there is none."""
    held_out = validate.instance(task, "task", Task).held_out
    if held_out is None:
        raise ValueError(f"task: expected one with sequences held out, got {task!r}")
    return held_out


def _smoothing(smoothing) -> float:
    return validate.positive(smoothing, "smoothing", largest=validate.LARGEST)
