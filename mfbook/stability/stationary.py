r"""A single head brought to rest: where :func:`dirac_stability` can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.optimise.descent import descend
from mfbook.stability.atomic import atomic_stability, functional

__all__ = ["StationaryHead", "stationary_head"]

#: Newton steps after the descent: each squares the distance where H + K is regular.
POLISH = 4
#: Eigenvalues of H + K below this share of the largest are flat directions, left alone.
FLAT = 1e-10


@dataclass(frozen=True, eq=False)
class StationaryHead:
    r"""Where the descent of one head ended.

    - ``theta`` (D,)
    - ``value``: :math:`F(\delta_\theta)`.
    - ``gradient_norm``: Norm of :math:`\nabla\delta F(\theta;\delta_\theta)`, in the directions
      that the space allows.
    - ``converged``: Whether it is at most the tolerance.
    - ``evaluations``: Evaluations of the functional in the descent.
    """

    theta: np.ndarray = field(repr=False)
    value: float
    gradient_norm: float
    converged: bool
    evaluations: int


def stationary_head(
    F: Functional, start: ArrayLike, *, tolerance: float = 1e-7, maxiter: int = 2000
) -> StationaryHead:
    r"""Descend with one head, :math:`\theta\mapsto F(\delta_\theta)`, to a stationary point.

    The gradient of :math:`F(\delta_\theta)` in :math:`\theta` is
    :math:`\nabla\delta F(\theta;\delta_\theta)`, so the head stops where :func:`dirac_stability`
    may be asked. SciPy's L-BFGS-B in the coordinates of the space, then a few Newton steps with
    :math:`H+K`. It need not converge: without confinement a head may grow for ever.

    - ``F``: Any one; for the Newton steps it has to accept complex points and atoms.
    - ``start`` (D,): In ``F.space``.
    - ``tolerance``: Gradient norm at which it counts as stationary, positive.
    - ``maxiter``: Iterations of the descent, at least 1.

    Returns ``converged`` says whether the point is stationary.

    Examples
    --------
    >>> from mfbook.confinement import Anchor
    >>> from mfbook.stability import dirac_stability
    >>> F = Anchor(2.0, [1.0, 0.0])
    >>> end = stationary_head(F, [3.0, -1.0])
    >>> end.converged, bool(end.gradient_norm < 1e-7), dirac_stability(F, end.theta).verdict
    (True, True, 'stable')
    """
    functional(F)
    theta = validate.array(start, "start", ("D",), largest=validate.LARGEST).astype(float)
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    space: Any = F.space
    if getattr(space, "dim", len(theta)) != len(theta):
        raise ValueError(f"start: expected a point of R^{space.dim}, got R^{len(theta)}")
    if not space.contains(theta[None]).all():
        raise ValueError(f"start: expected a point of {space}, got one outside")
    with validate.naming("start"):
        F.at(Measure.dirac(theta))  # refuses heads of another dimension

    def objective(x):
        local = F.at(Measure(x))
        return float(local.value), local.gradient(x)

    (run,) = descend(
        objective, space, [theta[None]], maxiter=maxiter, maxfun=20 * maxiter,
        ftol=0.0, gtol=min(tolerance, 1e-9),
    )  # fmt: skip
    best = run.point[0]
    norm = _slope(F, best)
    for _ in range(POLISH):
        if norm <= 1e-3 * tolerance:
            break
        moved = _newton(F, best)
        if moved is None or not (closer := _slope(F, moved)) < norm:
            break
        best, norm = moved, closer
    value = float(F.at(Measure.dirac(best)).value)
    return StationaryHead(
        validate.frozen(best), value, norm, bool(norm <= tolerance), run.evaluations
    )


def _slope(F, theta) -> float:
    """Norm of the velocity of a single head."""
    x = theta[None]
    return float(np.linalg.norm(F.space.tangent(x, -F.at(Measure(x)).gradient(x))))


def _newton(F, theta) -> np.ndarray | None:
    """One Newton step with H + K; None where there is no linearisation."""
    try:
        report = atomic_stability(F, Measure.dirac(theta))
    except (TypeError, ValueError):  # at the boundary of a ball, or no complex steps
        return None
    modes = report.modes[:, 0]
    curved = np.abs(report.collective) > FLAT * np.abs(report.collective).max(initial=0.0)
    along = modes[curved] @ report.gradient[0] / report.collective[curved]
    return F.space.retract(theta[None], -(along @ modes[curved])[None])[0]
