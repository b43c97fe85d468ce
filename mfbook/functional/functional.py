"""Functionals on measures, and their sums and multiples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.functional.protocols import Centred, Linearisable, Local, Minimisable, Minimum
from mfbook.measure import Measure
from mfbook.space import Euclidean, Space

__all__ = [
    "Combination",
    "Functional",
]


class Functional:
    """Conveniences for anything with ``at(mu)``: calls, sums, multiples, a change of space.

    A subclass defines ``at`` and, if it has data, ``sample``. ``space`` defaults to all of R^D.

    Examples
    --------
    >>> from mfbook.confinement import Ridge
    >>> F, mu = Ridge(2.0), Measure([[1.0], [3.0]])
    >>> float(F(mu)), F.first_variation(mu.atoms, mu), F.gradient(mu.atoms, mu).ravel()
    (5.0, array([1., 9.]), array([2., 6.]))
    >>> local = F.at(mu)
    >>> isinstance(local, Local), bool(local.value == F(mu))
    (True, True)
    >>> value, slope = F.over_weights(mu.atoms)(mu.weights)
    >>> bool((slope == local.first_variation(mu.atoms)).all())
    True

    Without data every sample is the functional itself; ``on`` confines atoms:

    >>> from mfbook.space import Ball
    >>> F.sample(0, n=8) is F, F.on(Ball(3.0, (1,))).space
    (True, Ball(radius=3.0, blocks=(1,)))
    """

    space: Space = Euclidean()

    @property
    def jumps(self) -> bool:
        """Whether the gradient jumps somewhere, as at a kink of ReLU; a flow asks.

        Examples
        --------
        >>> from mfbook import Ridge
        >>> Ridge(1.0).jumps
        False
        """
        return False

    def at(self, mu: Measure) -> Local:
        """Everything that needs ``mu`` only once."""
        raise NotImplementedError(f"{type(self).__name__} does not define at(mu)")

    def sample(self, rng: Seed, n: int) -> Functional:
        """Return an unbiased random copy made from n fresh samples; without data: itself."""
        return self

    def __call__(self, mu: Measure) -> float:
        """Value F(mu)."""
        return self.at(mu).value

    def first_variation(self, x: np.ndarray, mu: Measure) -> np.ndarray:
        """First variation of F at ``mu``, at the points ``x`` of shape (n, D); shape (n,)."""
        return self.at(mu).first_variation(x)

    def gradient(self, x: np.ndarray, mu: Measure) -> np.ndarray:
        """Gradient in ``x`` of the first variation at ``mu``; shape (n, D)."""
        return self.at(mu).gradient(x)

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return the function ``w -> (F, dF/dw)`` of the weights at fixed atoms (n, D)."""
        atoms = validate.array(atoms, "atoms", ("n", "D"), allow_complex=True)
        with validate.naming("atoms"):
            self.at(Measure(atoms))  # refuses atoms of another dimension

        def evaluate(w):
            local = self.at(Measure(atoms, w))
            return local.value, local.first_variation(atoms)

        return evaluate

    def on(self, space: Space) -> Combination:
        """Return the same functional with atoms confined to ``space``."""
        return Combination(((1.0, self),), space)

    def __add__(self, other: Functional) -> Combination:
        return Combination(((1.0, self), (1.0, other))) if _is_functional(other) else NotImplemented

    def __sub__(self, other: Functional) -> Combination:
        if not _is_functional(other):
            return NotImplemented
        return Combination(((1.0, self), (-1.0, other)))

    def __mul__(self, a: float) -> Combination:
        return Combination(((a, self),)) if np.isscalar(a) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Combination:
        return Combination(((-1.0, self),))


def _is_functional(F) -> bool:
    return callable(getattr(F, "at", None)) and not isinstance(F, type)


@dataclass(frozen=True)
class Combination(Functional):
    r"""A linear combination :math:`\sum_i a_iF_i` of functionals.

    Usually written as arithmetic: ``R + Ridge(0.1)``, ``0.5 * F1 + 0.5 * F2``, ``-F``.

    - ``terms``: Coefficients and functionals.
    - ``space``: Where atoms live. Default: the space of the terms; the whole space gives way to
      another.
    """

    terms: tuple
    space: Space = None  # type: ignore[assignment]

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(self, terms: tuple, space: Space | None = None) -> None: ...

    def __post_init__(self):
        try:
            terms = tuple((a, F) for a, F in self.terms)
        except (TypeError, ValueError):
            raise TypeError(
                f"terms: expected pairs of a number and a functional, got {self.terms!r}"
            ) from None
        if not terms:
            raise ValueError("terms: expected at least one functional, got none")
        flat = []
        for a, F in terms:
            if not _is_functional(F):
                raise TypeError(f"terms: expected functionals with at(mu), got {F!r}")
            if isinstance(a, bool) or not isinstance(a, Real) or not np.isfinite(float(a)):
                raise TypeError(f"terms: expected finite real coefficients, got {a!r}")
            inner = F.terms if isinstance(F, Combination) else ((1.0, F),)
            flat += [(float(a) * b, G) for b, G in inner]
        space = self.space
        if space is None:
            spaces = [F.space for _, F in terms if not isinstance(F.space, Euclidean)]
            if any(other != spaces[0] for other in spaces):
                raise ValueError(f"terms: expected one space, got {spaces}")
            space = spaces[0] if spaces else Euclidean()
        validate.space(space)
        object.__setattr__(self, "terms", tuple(flat))
        object.__setattr__(self, "space", space)

    def at(self, mu: Measure) -> Local:
        """Every term at ``mu``."""
        return _CombinationLocal(tuple((a, F.at(mu)) for a, F in self.terms), self.space)

    @property
    def jumps(self) -> bool:
        """Whether the gradient of a term jumps."""
        return any(getattr(F, "jumps", False) for _, F in self.terms)

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Every term as a function of the weights."""
        terms = [(a, F.over_weights(atoms)) for a, F in self.terms]

        def evaluate(w):
            parts = [(a, *f(w)) for a, f in terms]
            return sum(a * value for a, value, _ in parts), sum(a * g for a, _, g in parts)

        return evaluate

    def sample(self, rng: Seed, n: int) -> Combination:
        """Every term sampled from the same generator, one after the other."""
        rng = validate.generator(rng)
        return Combination(tuple((a, F.sample(rng, n)) for a, F in self.terms), self.space)


@dataclass(frozen=True)
class _CombinationLocal:
    terms: tuple
    space: Space

    @property
    def value(self) -> float:
        return sum(a * local.value for a, local in self.terms)

    def first_variation(self, x):
        return sum(a * local.first_variation(x) for a, local in self.terms)

    def gradient(self, x):
        return sum(a * local.gradient(x) for a, local in self.terms)

    def linearised(self, scale: float):
        """Linearisation of one term that offers it; see ``Local``."""
        (a, local), *others = self.terms
        known = not others and isinstance(local, Linearisable)
        return local.linearised(a * scale) if known else NotImplemented

    def minimise(self, rng, ridge: float = 0.0, **options) -> Minimum:
        """Minimum of one term that knows its own, plus ridges; see ``Local``."""
        models = [(a, L) for a, L in self.terms if isinstance(L, Minimisable)]
        ridges = [(a, L) for a, L in self.terms if not isinstance(L, Minimisable)]
        if (
            len(models) != 1
            or models[0][0] <= 0
            or any(not isinstance(L, Centred) for _, L in ridges)
        ):
            return NotImplemented  # known for one model with positive coefficient plus ridges
        ((a, model),) = models
        total = ridge + sum(b * L.ridge for b, L in ridges)
        m = model.minimise(rng, ridge=total / a, space=self.space, **options)
        return Minimum(m.point, a * m.value, a * m.lower_bound, m.converged, m.evaluations)
