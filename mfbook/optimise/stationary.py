r"""A law at rest near a given one: Newton's method on all positions, the weights kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure, check_start
from mfbook.optimise.descent import downhill
from mfbook.space import Ball

__all__ = ["Rest", "stationary_head", "stationary_near"]

#: Size of complex steps, which have no cancellation.
TINY = 1e-30
#: Speeds below this are rounding.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Rest:
    r"""Where a search for a stationary law ended.

    - ``value``: :math:`F(\mu)`.
    - ``speed``: Largest norm of :math:`\nabla\delta F` at an atom, in the directions that the space
      allows.
    - ``completed``: Whether it is at most the tolerance; if not, ``reason`` says what happened.
    """

    measure: Measure
    value: float
    speed: float
    completed: bool
    reason: str

    def __repr__(self) -> str:
        ended = f"value {self.value:.6g}, speed {self.speed:.1g}: {self.reason}"
        return f"Rest({self.measure!r}, {ended})"


def stationary_near(
    F: Functional, mu: Measure, *, tolerance: float = 1e-9, rcond: float = 1e-6, steps: int = 30
) -> Rest:
    r"""Law near ``mu``, with its weights, where every :math:`\nabla\delta F(\theta_i;\mu)=0`.

    Newton's method on the positions, with the Jacobian by complex steps: F has to accept complex
    points and atoms. ``mu`` must be close, as the end of a flow is: Newton's method also finds
    saddles and maxima.

    - ``rcond``: Directions in which the Jacobian is less than this share of its norm stay as they
      are, such as those of a gauge.

    >>> from mfbook import Anchor
    >>> stationary_near(Anchor(2.0, [1.0, 0.0]), Measure([[3.0, -1.0]])).measure.atoms
    array([[1., 0.]])
    """
    validate.functional(F)
    check_start(mu, F.space)
    tolerance = validate.positive(tolerance, "tolerance")
    rcond, steps = validate.positive(rcond, "rcond"), validate.count(steps, "steps")
    return _newton(F, mu, tolerance, rcond, steps)


def stationary_head(
    F: Functional, start: ArrayLike, *, tolerance: float = 1e-7, maxiter: int = 2000
) -> Rest:
    r"""Descend with one head, :math:`\theta\mapsto F(\delta_\theta)`, to a stationary point.

    The gradient of :math:`F(\delta_\theta)` in :math:`\theta` is
    :math:`\nabla\delta F(\theta;\delta_\theta)`, so the head stops where
    :func:`~mfbook.stability.dirac_stability` may be asked. L-BFGS-B in the coordinates of the
    space, then Newton's method. Without confinement a head may grow for ever.

    >>> from mfbook.confinement import Anchor
    >>> end = stationary_head(Anchor(2.0, [1.0, 0.0]), [3.0, -1.0])
    >>> end.completed, end.measure.atoms.round(6) + 0.0
    (True, array([[1., 0.]]))
    """
    validate.functional(F)
    theta = validate.array(start, "start", ("D",), largest=validate.LARGEST).astype(float)
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    with validate.naming("start"):
        check_start(mu := Measure.dirac(theta), F.space)
        F.at(mu)  # refuses heads of another dimension
    limits = {"maxiter": maxiter, "maxfun": 20 * maxiter}
    mu = downhill(F, mu, ftol=0.0, gtol=min(tolerance, 1e-9), **limits)
    reached = _rest(F, mu, tolerance)
    try:
        rest = _newton(F, reached.measure, tolerance, rcond=1e-10, steps=8)
    except (TypeError, ValueError):  # no complex steps
        return reached
    return min(rest, reached, key=lambda end: end.speed)


def _newton(F, mu: Measure, tolerance: float, rcond: float, steps: int) -> Rest:
    space, shape, before = F.space, mu.atoms.shape, np.inf
    for _ in range(steps):
        G = _velocity(F, mu.atoms, mu.weights)
        speed = np.abs(G).max()
        if speed < ROUNDING or before <= min(speed, tolerance):
            break
        if isinstance(space, Ball) and not space.contains(mu.atoms * (1 + 1e-6)).all():
            return _rest(F, mu, tolerance, "an atom is at the edge of its ball")
        columns = []
        for e in np.eye(G.size):
            moved = space.retract(mu.atoms, 1j * TINY * e.reshape(shape))
            columns.append(_velocity(F, moved, mu.weights).imag.ravel() / TINY)
        # least squares: directions without curvature are in the kernel and stay as they are
        step = np.linalg.lstsq(np.array(columns).T, G.ravel(), rcond=rcond)[0].reshape(shape)
        if not np.abs(step).max() < validate.LARGEST:
            return _rest(F, mu, tolerance, "Newton's method went astray; start nearer")
        mu, before = Measure(space.retract(mu.atoms, -step), mu.weights), speed
    return _rest(F, mu, tolerance, f"not at rest after {steps} steps")


def _velocity(F, x, w) -> np.ndarray:
    """Gradients at the atoms x of weights w, as far as the space allows to go down."""
    return -F.space.tangent(x, -F.at(Measure(x, w)).gradient(x))


def _rest(F, mu: Measure, tolerance: float, otherwise: str = "the descent ended early") -> Rest:
    speed = float(np.linalg.norm(_velocity(F, mu.atoms, mu.weights), axis=1).max())
    done = speed <= tolerance
    return Rest(mu, float(F(mu)), speed, done, "at rest" if done else otherwise)
