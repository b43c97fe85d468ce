r"""Functionals on measures: the one idea of the package.

A functional :math:`F` on probability measures has a first variation :math:`\delta F/\delta\mu`,

.. math:: \frac{d}{ds}F\big((1-s)\mu+s\nu\big)\Big|_{s=0}=\int\frac{\delta F}{\delta\mu}(x;\mu)\,
          d(\nu-\mu)(x),

and the Wasserstein gradient flow of :math:`F` moves every atom along
:math:`-\nabla_x\,\delta F/\delta\mu`. To add a model, write one class with a method ``at(mu)`` that
returns an object with ``value``, ``first_variation(x)`` and ``gradient(x)``. Whatever needs the
measure only once (for attention heads: the logits and the residual) is computed in ``at``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mfbook import _validate as validate
from mfbook.measure import Measure, check_measure, mixture
from mfbook.space import Euclidean, Space

__all__ = ["Combination", "Functional", "FunctionalCheck", "Local", "Minimum", "check_functional"]


class Local(Protocol):
    r"""What a functional is at one measure: its value, and its first variation as a function.

    It may offer besides, and algorithms ask for it,

    - ``minimise(rng, ridge=0.0, space=None, **options)``: the :class:`Minimum` of the first
      variation plus ``ridge/2`` times the squared norm over ``space``, with a rigorous lower bound
      (certificates); ``NotImplemented`` where none is known.
    - ``ridge``: a number, if the first variation is ``ridge/2`` times the squared norm (searches
      absorb it).
    """

    @property
    def value(self) -> float:
        """The functional at the measure."""

    def first_variation(self, x: np.ndarray) -> np.ndarray:
        """Values at the points ``x``, shape (n, D) to (n,)."""

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradients in ``x``, shape (n, D) to (n, D)."""


@dataclass(frozen=True)
class Minimum:
    """The outcome of a search for the least value of a first variation.

    - ``point`` (D,), ``value``: The best that was found: the minimum is at most the value.
    - ``lower_bound``: Proved; minus infinity where nothing is.
    - ``converged``: Whether the local searches met their tolerance.
    - ``evaluations``: Points at which the first variation was computed.
    """

    point: np.ndarray = field(repr=False)
    value: float
    lower_bound: float
    converged: bool
    evaluations: int


class Functional:
    """Calls, sums, multiples and a change of space for what defines ``at`` and maybe ``sample``.

    >>> from mfbook import Measure, Ridge
    >>> F, mu = Ridge(2.0), Measure([[1.0], [3.0]])
    >>> float(F(mu)), F.first_variation(mu.atoms, mu), F.gradient(mu.atoms, mu).ravel()
    (5.0, array([1., 9.]), array([2., 6.]))
    """

    space: Space = Euclidean()

    @property
    def jumps(self) -> bool:
        """Whether the gradient jumps somewhere, as at a kink of ReLU; a flow asks."""
        return False

    def at(self, mu: Measure) -> Local:
        """Everything that needs ``mu`` only once."""
        raise NotImplementedError(f"{type(self).__name__} does not define at(mu)")

    def sample(self, rng: validate.Seed, n: int) -> Functional:
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

        def evaluate(w):
            local = self.at(Measure(atoms, w))
            return local.value, local.first_variation(atoms)

        return evaluate

    def on(self, space: Space) -> Combination:
        """Return the same functional with atoms confined to ``space``."""
        return Combination(((1.0, self),), space)

    def __add__(self, other: Functional) -> Combination:
        return _sum(self, 1.0, other)

    def __sub__(self, other: Functional) -> Combination:
        return _sum(self, -1.0, other)

    def __mul__(self, a: float) -> Combination:
        return Combination(((a, self),)) if np.isscalar(a) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Combination:
        return Combination(((-1.0, self),))


def _sum(F, a, G):
    return Combination(((1.0, F), (a, G))) if validate.has(G, ("at",)) else NotImplemented


@dataclass(frozen=True)
class Combination(Functional):
    r"""A linear combination :math:`\sum_i a_iF_i` of functionals.

    Usually written as arithmetic: ``R + Ridge(0.1)``, ``0.5 * F1 + 0.5 * F2``, ``-F``. The space
    is by default that of the terms; the whole space gives way to another.
    """

    terms: tuple
    space: Space = None  # type: ignore[assignment]

    def __post_init__(self):
        flat, spaces = [], []
        for a, F in self.terms:
            validate.functional(F, "terms")
            a, inner = validate.finite(a, "terms"), getattr(F, "terms", ((1.0, F),))
            flat += [(a * b, G) for b, G in inner]
            spaces += [] if isinstance(F.space, Euclidean) else [F.space]
        if not flat:
            raise ValueError("terms: expected at least one functional, got none")
        if self.space is None:
            if any(other != spaces[0] for other in spaces):
                raise ValueError(f"terms: expected one space, got {spaces}")
            object.__setattr__(self, "space", spaces[0] if spaces else Euclidean())
        validate.space(self.space)
        object.__setattr__(self, "terms", tuple(flat))

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

    def sample(self, rng: validate.Seed, n: int) -> Combination:
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

    def minimise(self, rng, ridge: float = 0.0, **options) -> Minimum:
        """That of the one term that offers it, if its coefficient is positive, plus ridges."""
        models = [(a, L) for a, L in self.terms if hasattr(L, "minimise")]
        ridges = [(b, L.ridge) for b, L in self.terms if hasattr(L, "ridge")]
        if len(models) != 1 or models[0][0] <= 0 or len(ridges) + 1 != len(self.terms):
            return NotImplemented
        ((a, model),) = models
        total = ridge + sum(b * lam for b, lam in ridges)
        m = model.minimise(rng, ridge=total / a, space=self.space, **options)
        return Minimum(m.point, a * m.value, a * m.lower_bound, m.converged, m.evaluations)


@dataclass(frozen=True)
class FunctionalCheck:
    """Relative errors found by :func:`check_functional`, and whether all are small (``ok``)."""

    first_variation: float
    gradient: float
    complex_step_x: float
    complex_step_mu: float
    tolerance: float = 1e-6

    @property
    def ok(self) -> bool:
        """Whether every error is a number below the tolerance."""
        errors = self.first_variation, self.gradient, self.complex_step_x, self.complex_step_mu
        return all(e <= self.tolerance for e in errors)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {error:.1g}" for name, error in vars(self).items())
        return f"FunctionalCheck({'ok' if self.ok else 'not ok'}: {parts})"


def check_functional(
    F: Functional, mu: Measure, rng: validate.Seed, *, step: float = 1e-5, tolerance: float = 1e-6
) -> FunctionalCheck:
    r"""Test that a functional, its first variation and its gradient belong together.

    Run it on a new model. It compares central differences (of this ``step``) of :math:`F` along a
    mixture and of :math:`\delta F` along tangent vectors, and complex steps of :math:`\delta F` in
    x and of F in the atoms, where :math:`\partial F/\partial\theta_i=w_i\nabla\delta F(\theta_i)`;
    complex steps are wrong where a program uses ``abs``, ``norm`` or ``conj``. Errors are relative.

    >>> from mfbook import Measure, Ridge
    >>> check_functional(Ridge(0.5), Measure([[1.0, 2.0], [0.0, 1.0]]), rng=0).ok
    True
    """
    validate.functional(F)
    rng, tolerance = validate.generator(rng), validate.positive(tolerance, "tolerance")
    step = validate.positive(step, "step", largest=0.5)
    check_measure(mu, largest=validate.LARGEST)
    space, x = F.space, mu.atoms

    # a second measure nearby, and the derivative in the middle of the segment between the two
    nearby = space.retract(x, space.tangent(x, rng.normal(size=x.shape) / np.sqrt(mu.dim)))
    nu = Measure(nearby, rng.dirichlet(np.ones(mu.size)))
    middle = F.at(mixture(mu, nu, 0.5))
    measured = (F(mixture(mu, nu, 0.5 + step)) - F(mixture(mu, nu, 0.5 - step))) / (2 * step)
    terms = nu.weights * middle.first_variation(nu.atoms) - mu.weights * middle.first_variation(x)
    mixture_error = _relative(measured, terms.sum(), np.abs(terms).sum())

    local = F.at(mu)
    for name, shape in (("first_variation", x.shape[:1]), ("gradient", x.shape)):
        if (got := np.shape(getattr(local, name)(x))) != shape:
            raise ValueError(f"F: expected {name} of shape {shape}, got {got}")
    v = space.tangent(x, rng.normal(size=x.shape))
    v = -space.tangent(x, -v)  # on the boundary of a ball: along it, so that -v is allowed too
    gradient = local.gradient(x)
    stated = (gradient * v).sum(axis=1)
    along = space.tangent(x, gradient) if np.isfinite(gradient).all() else gradient
    size = np.linalg.norm(along, axis=1) * np.linalg.norm(v, axis=1)
    up, down = (local.first_variation(space.retract(x, s * step * v)) for s in (1, -1))
    gradient_error = _relative((up - down) / (2 * step), stated, size)

    tiny = 1e-30
    moved = space.retract(x, 1j * tiny * v)
    x_error = _relative(np.imag(local.first_variation(moved)) / tiny, stated, size)
    slope = np.imag(F(Measure(moved, mu.weights))) / tiny
    mu_error = _relative(slope, mu.weights @ stated, mu.weights @ size)
    return FunctionalCheck(mixture_error, gradient_error, x_error, mu_error, tolerance)


def _relative(measured, stated, size) -> float:
    """Largest error relative to the largest size (absolute where the size vanishes)."""
    return float(np.max(np.abs(np.asarray(measured) - stated)) / (np.max(size) or 1.0))
