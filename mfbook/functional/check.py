"""A test of a functional: do value, first variation and gradient belong together?"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.functional.functional import Functional
from mfbook.measure import Measure, check_measure, mixture

__all__ = [
    "FunctionalCheck",
    "check_functional",
]


@dataclass(frozen=True)
class FunctionalCheck:
    """Relative errors found by :func:`check_functional`, and whether all are small.

    - ``first_variation``: Central difference of F along the mixture against the integral of its
      first variation.
    - ``gradient``: Central difference of the first variation along tangent vectors against the
      gradient.
    - ``complex_step_x``: Derivative of the first variation by complex step in ``x`` against the
      gradient.
    - ``complex_step_mu``: Derivative of F by complex step in the atoms against weight times
      gradient.
    - ``tolerance``: What an error may be.
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

    - ``F``: Anything with ``at(mu)`` and ``space``.
    - ``mu``: Where to test; real atoms in ``F.space``.
    - ``rng``: Draws the second measure and the directions.
    - ``step``: Of the central differences; their error is of order ``step**2``.
    - ``tolerance``: What an error relative to the derivative's size may be.

    Returns the errors; ``.ok`` says whether all pass.

    Examples
    --------
    >>> from mfbook.confinement import Ridge
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
