"""Descent from several starts: SciPy's L-BFGS-B in the coordinates of a space."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
import scipy


class Charted(Protocol):
    """A space with unconstrained coordinates, as those of :mod:`mfbook.space` have."""

    def chart(self, q: np.ndarray) -> tuple[np.ndarray, Callable]: ...

    def unchart(self, x: np.ndarray) -> np.ndarray: ...


class Descent(NamedTuple):
    """Where a descent ended.

    - ``point`` (n, D): In the space.
    - ``value``: Of the objective there.
    - ``converged``: Whether the solver's own tolerance was met.
    - ``evaluations``: Calls of the objective.
    """

    point: np.ndarray
    value: float
    converged: bool
    evaluations: int


def descend(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    space: Charted,
    starts: Iterable[np.ndarray],
    **options,
) -> list[Descent]:
    r"""Descend from each start inside the space.

    - ``objective``: From points (n, D) of the space to a number and its Euclidean gradient (n, D).
    - ``space``: Its chart maps all of :math:`\mathbb R^D` onto it, so that no constraint is left.
    - ``starts`` (n, D): Points of the space.
    - ``**options``: Of SciPy's L-BFGS-B: ``maxiter``, ``ftol``, ``gtol``, ...

    Returns one for each start, in their order.
    """

    def from_one(start):
        def in_coordinates(q):
            x, back = space.chart(q.reshape(start.shape))
            value, slope = objective(x)
            return float(value), back(slope).ravel()

        q = space.unchart(start).ravel()
        run = scipy.optimize.minimize(
            in_coordinates, q, jac=True, method="L-BFGS-B", options=options
        )
        point = space.chart(run.x.reshape(start.shape))[0]
        return Descent(point, float(run.fun), bool(run.success), int(run.nfev))

    return [from_one(np.asarray(start)) for start in starts]
