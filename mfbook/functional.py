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
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.measure import Measure, check_measure, mixture
from mfbook.space import Euclidean, Space

__all__ = [
    "Centred",
    "Combination",
    "Functional",
    "FunctionalCheck",
    "Linearisable",
    "Local",
    "Minimisable",
    "Minimum",
    "check_functional",
]


@runtime_checkable
class Local(Protocol):
    """What a functional is at one measure: its value, and its first variation as a function.

    What it may be besides, and what for: :class:`Minimisable`, :class:`Linearisable`,
    :class:`Centred`.
    """

    @property
    def value(self) -> float:
        """The functional at the measure."""

    def first_variation(self, x: np.ndarray) -> np.ndarray:
        """Values at the points ``x``, shape (n, D) to (n,)."""

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradients in ``x``, shape (n, D) to (n, D)."""


@runtime_checkable
class Minimisable(Protocol):
    """A local that knows the least value of its first variation: certificates ask for it.

    Examples
    --------
    >>> from mfbook import Measure, SphereEnergy
    >>> local = SphereEnergy(1.0).at(Measure([[1.0, 0.0]]))
    >>> isinstance(local, Minimisable), local.minimise(0).converged
    (True, True)
    """

    def minimise(
        self, rng: Seed, ridge: float = 0.0, space: Space | None = None, **options: Any
    ) -> Minimum:
        """Minimum of the first variation plus ``ridge/2`` times the squared norm over the space.

        Parameters
        ----------
        rng : numpy.random.Generator or int
            Draws where a search starts.
        ridge : float
            Strength of what is added.
        space : space, optional
            Where the minimum is sought, if not in the space of the functional.
        **options
            Of the search.

        Returns
        -------
        Minimum
            With a rigorous lower bound; ``NotImplemented`` where none is known.
        """


@runtime_checkable
class Linearisable(Protocol):
    """A local that stiff integrators can use.

    Examples
    --------
    >>> from mfbook import Measure, SphereEnergy
    >>> local = SphereEnergy(1.0).at(Measure([[1.0, 0.0], [0.0, 1.0]]))
    >>> isinstance(local, Linearisable)
    True
    >>> local.linearised(-1.0).solve(0.1, np.zeros((2, 2)))
    array([[0., 0.],
           [0., 0.]])
    """

    def linearised(self, scale: float) -> Any:
        """Object whose ``solve(c, b)`` solves :math:`(I-cJ)k=b`.

        Parameters
        ----------
        scale : float
            J is ``scale`` times the Jacobian of the (tangential) gradients at all atoms in all
            atoms, and b is tangent, shape (n, D).

        Returns
        -------
        object
            The system; ``NotImplemented`` where there is none.
        """


@runtime_checkable
class Centred(Protocol):
    """A local whose first variation is ``ridge/2`` times the squared norm, whatever the measure.

    Searches of a risk with such a term treat it in closed form.

    Examples
    --------
    >>> from mfbook import Measure, Ridge
    >>> local = Ridge(0.5).at(Measure([[1.0, 0.0]]))
    >>> isinstance(local, Centred), local.ridge
    (True, 0.5)
    """

    @property
    def ridge(self) -> float:
        """Strength of the ridge."""


@dataclass(frozen=True)
class Minimum:
    """The outcome of a search for the least value of a first variation.

    ``value`` is attained at ``point``, so it bounds the minimum from above. ``lower_bound`` is
    proved and bounds it from below (minus infinity where nothing is proved). ``converged`` says
    whether the local searches met their tolerance.

    Attributes
    ----------
    point : array, shape (D,)
        Where the least value was found.
    value : float
        The value there: an upper bound.
    lower_bound : float
        What no point is below.
    converged : bool
        Whether the searches met their tolerance.
    evaluations : int
        Points at which the first variation was computed.

    Examples
    --------
    >>> from mfbook.models.sphere import SphereEnergy
    >>> found = SphereEnergy(1.0).at(Measure([[1.0, 0.0]])).minimise(rng=0)
    >>> found.point.round(6) + 0.0, found.converged, bool(found.lower_bound <= found.value)
    (array([-1.,  0.]), True, True)
    """

    point: np.ndarray
    value: float
    lower_bound: float
    converged: bool
    evaluations: int


class Functional:
    """Conveniences for anything with ``at(mu)``: calls, sums, multiples, a change of space.

    A subclass defines ``at`` and, if it has data, ``sample``. ``space`` defaults to all of R^D.

    Examples
    --------
    >>> from mfbook.models.confinement import Ridge
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

    Parameters
    ----------
    terms : tuple of (float, functional)
        Coefficients and functionals.
    space : space, optional
        Where atoms live. Default: the space of the terms; the whole space gives way to another.

    Raises
    ------
    TypeError
        If a term is not a functional or a coefficient is not a finite real number.
    ValueError
        If there is no term, or two live on different spaces and ``space`` does not decide.

    Examples
    --------
    >>> from mfbook.models.confinement import Ridge
    >>> F = Ridge(1.0) + 2 * Ridge(0.5)
    >>> float(F(Measure([[1.0], [3.0]])))
    5.0
    >>> len(Combination(((1.0, F), (0.5, Ridge(2.0)))).terms)
    3
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
    space: object

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


@dataclass(frozen=True)
class FunctionalCheck:
    """Relative errors found by :func:`check_functional`, and whether all are small.

    Attributes
    ----------
    first_variation : float
        Central difference of F along the mixture against the integral of its first variation.
    gradient : float
        Central difference of the first variation along tangent vectors against the gradient.
    complex_step_x : float
        Derivative of the first variation by complex step in ``x`` against the gradient.
    complex_step_mu : float
        Derivative of F by complex step in the atoms against weight times gradient.
    tolerance : float
        What an error may be.
    """

    first_variation: float
    gradient: float
    complex_step_x: float
    complex_step_mu: float
    tolerance: float = field(default=1e-6)

    @property
    def ok(self) -> bool:
        """Whether every error is a number below the tolerance."""
        errors = (
            self.first_variation,
            self.gradient,
            self.complex_step_x,
            self.complex_step_mu,
        )
        return all(e <= self.tolerance for e in errors)


def check_functional(
    F: Functional, mu: Measure, rng: Seed, *, step: float = 1e-5, tolerance: float = 1e-6
) -> FunctionalCheck:
    r"""Test that a functional, its first variation and its gradient belong together.

    Four independent derivatives are compared: central differences of :math:`F` along a mixture
    and of :math:`\delta F` along tangent vectors, and complex steps of :math:`\delta F` in x and
    of F in the atoms, for which :math:`\partial F/\partial\theta_i=w_i\nabla\delta F(\theta_i)`.
    Complex steps return wrong derivatives silently where a program uses ``abs``, ``norm`` or
    ``conj``; this is the check to run on a new model.

    Parameters
    ----------
    F : functional
        Anything with ``at(mu)`` and ``space``.
    mu : Measure
        Where to test; real atoms in ``F.space``.
    rng : numpy.random.Generator or int
        Draws the second measure and the directions.
    step : float
        Of the central differences; their error is of order ``step**2``.
    tolerance : float
        What an error relative to the derivative's size may be.

    Returns
    -------
    FunctionalCheck
        The errors; ``.ok`` says whether all pass.

    Raises
    ------
    TypeError, ValueError
        If ``mu`` is not a measure with real atoms, or ``step`` is not in (0, 1/2].

    Examples
    --------
    >>> from mfbook.models.confinement import Ridge
    >>> check_functional(Ridge(0.5), Measure([[1.0, 2.0], [0.0, 1.0]]), rng=0).ok
    True
    """
    validate.functional(F)
    rng, tolerance = validate.generator(rng), validate.positive(tolerance, "tolerance")
    step = validate.positive(step, "step")
    if step > 0.5:
        raise ValueError(f"step: expected a number in (0, 1/2], got {step}")
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
    scale = np.max(size)
    error = np.max(np.abs(np.asarray(measured) - stated))
    return float(error / scale) if scale > 0 else float(error)
