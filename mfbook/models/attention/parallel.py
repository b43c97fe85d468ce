r"""One functional on many processors: a weighted sum whose terms are evaluated side by side.

Functionals form a vector space, and a risk over S sequences is a sum over parts of them,

.. math:: R(\mu)=\sum_i\frac{S_i}{S}R_i(\mu),

so one large risk is evaluated in parallel as a sweep is: by joblib, on the backend that the
reader chooses, without a change of the computation::

    F = shards(R, 8)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        run = gradient_flow(F, mu, times)

Without a backend the terms are evaluated one after the other. They are added in their order, so
the result depends on how many terms there are, but not on how many workers, nor on which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from uuid import uuid4

import numpy as np
from joblib import delayed

from mfbook import _validate as validate
from mfbook._jobs import gather
from mfbook._types import Seed
from mfbook.functional import Combination, Functional, Local, Minimum
from mfbook.measure import Measure
from mfbook.models.attention.best_head import best_head
from mfbook.models.attention.loss import draw_labels
from mfbook.models.attention.risk import AttentionRisk
from mfbook.models.attention.shape import HeadShape
from mfbook.space import Space

__all__ = ["ParallelSum", "ShardedRisk", "shards"]


@dataclass(frozen=True, eq=False)
class ParallelSum(Functional):
    r"""A linear combination :math:`\sum_ia_iF_i` whose terms are evaluated by joblib.

    The same functional as :class:`mfbook.functional.Combination`. A term may be any functional
    that can be pickled, for instance one of your own that reads its data where it is evaluated.

    Parameters
    ----------
    terms : tuple of (float, functional)
        Coefficients and functionals.
    space : space, optional
        Where atoms live. Default: as for a combination.

    Raises
    ------
    TypeError, ValueError
        As for a combination.

    Notes
    -----
    Where workers share memory (threads), nothing is sent. To a process, a call sends each term
    and the measure; joblib maps large arrays of a term into the memory of local processes, and on
    a Dask cluster ``parallel_config(backend="dask", scatter=F.data)`` sends the terms once, for
    all calls. What a term computes at the last measure is remembered where it was computed, and
    computed again where it is not known.

    Examples
    --------
    >>> from mfbook.models.confinement import Ridge
    >>> F = ParallelSum(((1.0, Ridge(1.0)), (2.0, Ridge(0.5))))
    >>> float(F(Measure([[1.0], [3.0]])))
    5.0
    """

    terms: tuple
    space: Space = None  # type: ignore[assignment]

    def __post_init__(self):
        whole = Combination(self.terms, self.space)
        object.__setattr__(self, "terms", whole.terms)
        object.__setattr__(self, "space", whole.space)

    @property
    def jumps(self) -> bool:
        """Whether the gradient of a term jumps."""
        return any(getattr(F, "jumps", False) for F in self.data)

    @property
    def data(self) -> list:
        """The functionals without coefficients: what a cluster may be sent in advance."""
        return [F for _, F in self.terms]

    def at(self, mu: Measure) -> Local:
        """The sum at ``mu``; terms are evaluated when something is asked of it."""
        return _ParallelLocal(self, validate.instance(mu, "mu", Measure))

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Every term as a function of the weights."""
        atoms = validate.array(atoms, "atoms", ("n", "D"), allow_complex=True)
        kept = _memories(self.terms)

        def evaluate(w):
            parts = _map(_at_weights, self, kept, atoms, w)
            return self._sum(value for value, _ in parts), self._sum(slope for _, slope in parts)

        return evaluate

    def sample(self, rng: Seed, n: int) -> Functional:
        """Every term sampled from the same generator, one after the other."""
        rng = validate.generator(rng)
        return ParallelSum(tuple((a, F.sample(rng, n)) for a, F in self.terms), self.space)

    def _sum(self, parts):
        """Combine one result for each term, in the order of the terms."""
        return sum(a * part for (a, _), part in zip(self.terms, parts, strict=True))


class ShardedRisk(ParallelSum):
    """The attention risk over the sequences of several risks, each of which is one term.

    Every sequence counts the same, so this is the risk of all sequences together; what is
    computed for it agrees with that risk up to rounding. :func:`shards` makes it from one risk.

    Parameters
    ----------
    parts : sequence of AttentionRisk
        With the same shape of heads, length of sequences, ``W_U``, space and precision.

    Attributes
    ----------
    shape : HeadShape

    Raises
    ------
    TypeError, ValueError
        If there is no part, or one of them is no attention risk or differs from the first.

    Notes
    -----
    ``sample`` draws the sequences that the whole risk draws from the same generator, and returns
    a plain risk: the few sequences of one step are not worth sending.
    """

    def __init__(self, parts: Iterable[AttentionRisk]) -> None:
        parts = tuple(validate.items(parts, "parts"))
        if not parts:
            raise ValueError("parts: expected at least one risk, got none")
        for i, part in enumerate(parts):
            validate.instance(part, f"parts[{i}]", AttentionRisk)
            for name, same in _likeness(part, parts[0]):
                if not same:
                    raise ValueError(f"parts[{i}]: expected the {name} of parts[0]")
        sizes = [len(part.X) for part in parts]
        terms = ((size / sum(sizes), part) for size, part in zip(sizes, parts, strict=True))
        super().__init__(tuple(terms), parts[0].space)

    def __repr__(self) -> str:
        S, (T, V) = sum(len(part.X) for part in self.data), self.data[0].Y.shape[1:]
        return f"ShardedRisk({len(self.terms)} shards, {S} sequences of {T} tokens, vocabulary {V})"

    @property
    def shape(self) -> HeadShape:
        """Shape of a head."""
        return self.data[0].shape

    @property
    def X(self) -> np.ndarray:
        """Tokens of all sequences, put together."""
        return np.concatenate([part.X for part in self.data])

    def at(self, mu: Measure) -> Local:
        """The risk at ``mu``; shards are evaluated when something is asked of it."""
        return _ShardedLocal(self, validate.instance(mu, "mu", Measure))

    def sample(self, rng: Seed, n: int) -> AttentionRisk:
        """Return the risk of n fresh sequences, the ones that the whole risk would draw."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        parts, first = self.data, self.data[0]
        ends = np.cumsum([len(part.X) for part in parts])
        index = rng.integers(ends[-1], size=n)
        uniform = rng.random((n, first.Y.shape[1], 1))
        of = np.searchsorted(ends, index, side="right")
        at = index - (ends - [len(part.X) for part in parts])[of]
        X = np.array([parts[i].X[j] for i, j in zip(of, at, strict=True)])
        Y = np.array([parts[i].Y[j] for i, j in zip(of, at, strict=True)])
        return AttentionRisk(
            X, draw_labels(Y, uniform), first.W_U, first.shape, first.space, first.dtype
        )


def shards(R: AttentionRisk, n: int) -> ShardedRisk:
    r"""Split a risk over its sequences into n parts of nearly equal size.

    More shards than workers, two to four times as many, even out their times. Shards of fewer
    than 64 sequences compute with small blocks and gain nothing.

    Parameters
    ----------
    R : AttentionRisk
        The risk to cut.
    n : int
        Number of shards, at most the number of sequences.

    Returns
    -------
    ShardedRisk
        The same risk up to rounding. It holds copies: ``R`` is not needed any more.

    Raises
    ------
    TypeError, ValueError
        If ``R`` is no attention risk, or has fewer than n sequences.

    Examples
    --------
    >>> import joblib
    >>> from mfbook.models.attention import HeadShape
    >>> from mfbook.book.tasks import copy_task
    >>> R = copy_task(sequences=20, tokens=4, vocabulary=3, lag=1, rng=0).risk(HeadShape(4, 1, 1))
    >>> mu = Measure(np.random.default_rng(1).normal(size=(5, 16)))
    >>> F = shards(R, 3)
    >>> with joblib.parallel_config(backend="threading", n_jobs=2):
    ...     bool(abs(F(mu) - R(mu)) < 1e-15)
    True
    >>> len(F.data), F.X.shape == R.X.shape, F.shape
    (3, True, HeadShape(d=4, k=1, v=1))
    """
    validate.instance(R, "R", AttentionRisk)
    n = validate.count(n, "n")
    if n > len(R.X):
        raise ValueError(f"n: expected at most the number of sequences {len(R.X)}, got {n}")
    parts = zip(np.array_split(R.X, n), np.array_split(R.Y, n), strict=True)
    return ShardedRisk([AttentionRisk(X, Y, R.W_U, R.shape, R.space, R.dtype) for X, Y in parts])


def _likeness(one: AttentionRisk, other: AttentionRisk):
    """What two parts of one risk have in common, by name."""
    yield "shape of heads", one.shape == other.shape
    yield "length of sequences", one.X.shape[1] == other.X.shape[1]
    yield "W_U", np.array_equal(one.W_U, other.W_U)
    yield "space", one.space == other.space
    yield "precision", one.dtype == other.dtype


class _ParallelLocal:
    """A sum at one measure. Each question is one round of tasks, one task for each term."""

    def __init__(self, functional, mu):
        self.functional, self.mu = functional, mu
        self._kept = _memories(functional.terms)

    def _ask(self, *question) -> list:
        return _map(_answer, self.functional, self._kept, self.mu, question)

    @cached_property
    def _own(self):
        """Value and gradient at the own atoms, in one round: what a step of a flow asks for."""
        values, gradients = zip(*self._ask("both"), strict=True)
        return self.functional._sum(values), self.functional._sum(gradients)

    @cached_property
    def value(self) -> float:
        """F(mu)."""
        known = "_own" in self.__dict__
        return self._own[0] if known else self.functional._sum(self._ask("value"))

    def first_variation(self, x) -> np.ndarray:
        """First variation at points x (n, D); shape (n,)."""
        return self.functional._sum(self._ask("first_variation", x))

    def gradient(self, x) -> np.ndarray:
        """Gradient of the first variation at points x; shape (n, D)."""
        if x is self.mu.atoms:
            return self._own[1].copy()
        return self.functional._sum(self._ask("gradient", x))


class _ShardedLocal(_ParallelLocal):
    """A sharded risk at one measure: also what the search for the best head needs."""

    @property
    def risk(self) -> ShardedRisk:
        """The risk."""
        return self.functional

    @cached_property
    def Z(self) -> np.ndarray:
        """Residual seen from the tokens, for all sequences (S, T, d)."""
        return np.concatenate(self._ask("Z"))

    def correlation(self, theta) -> np.ndarray:
        """As :meth:`mfbook.models.attention.AttentionLocal.correlation`."""
        return self.functional._sum(self._ask("correlation", theta))

    def minimise(self, rng, ridge: float = 0.0, space=None, **options) -> Minimum:
        """As :meth:`mfbook.models.attention.AttentionLocal.minimise`."""
        space = self.functional.space if space is None else space
        return best_head(self, rng, ridge, space, **validate.options(options, best_head))


# What is remembered of one measure in a process that was sent tasks: {(question, term): memory}.
_ARRIVED: dict[tuple, _Memory] = {}


class _Memory:
    """What one term has computed at one measure, in this process.

    It is sent without its content. Where it arrives it is the memory that arrived before under
    this name, if there is one; those of other measures are let go.
    """

    def __init__(self, owner: str, term: int):
        self.name, self.content = (owner, term), None

    def __reduce__(self):
        return _arrive, self.name


def _arrive(owner: str, term: int) -> _Memory:
    for name in [name for name in list(_ARRIVED) if name[0] != owner]:
        _ARRIVED.pop(name, None)
    return _ARRIVED.setdefault((owner, term), _Memory(owner, term))


def _memories(terms) -> list[_Memory]:
    owner = uuid4().hex
    return [_Memory(owner, i) for i in range(len(terms))]


def _map(task, functional, kept, *arguments) -> list:
    """One task for each term; results in the order of the terms."""
    errors = np.geterr()  # of the caller's thread: others have their own
    # one task in a batch: joblib would put terms together, since they seem short
    tasks = [
        delayed(task)(F, memory, errors, *arguments)
        for F, memory in zip(functional.data, kept, strict=True)
    ]
    return gather(tasks, prefer="threads", batch_size=1)


def _answer(F, memory, errors, mu, question):
    """What a term is asked at a measure."""
    with np.errstate(**errors):
        if memory.content is None:
            memory.content = F.at(mu)
        local, (name, *x) = memory.content, question
        if name == "both":
            return local.value, local.gradient(mu.atoms)
        return getattr(local, name)(*x) if x else getattr(local, name)


def _at_weights(F, memory, errors, atoms, w):
    """A term and its slope as a function of the weights."""
    with np.errstate(**errors):
        if memory.content is None:
            memory.content = F.over_weights(atoms)
        return memory.content(w)
