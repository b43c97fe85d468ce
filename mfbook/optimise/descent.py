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

    Attributes
    ----------
    point : array, shape (n, D)
        In the space.
    value : float
        Of the objective there.
    converged : bool
        Whether the solver's own tolerance was met.
    evaluations : int
        Calls of the objective.
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

    Parameters
    ----------
    objective : callable
        From points (n, D) of the space to a number and its Euclidean gradient (n, D).
    space : Charted
        Its chart maps all of :math:`\mathbb R^D` onto it, so that no constraint is left.
    starts : iterable of arrays, shape (n, D)
        Points of the space.
    **options
        Of SciPy's L-BFGS-B: ``maxiter``, ``ftol``, ``gtol``, ...

    Returns
    -------
    list of Descent
        One for each start, in their order.

    Examples
    --------
    The point of the unit disk that is closest to (3, 4):

    >>> from mfbook.space import Ball
    >>> def distance(x):
    ...     return ((x - [3, 4])**2).sum() / 2, x - [3, 4]
    >>> end, = descend(distance, Ball(1.0, (2,)), np.zeros((1, 1, 2)) + 0.1, ftol=0)
    >>> end.point.round(4), round(end.value, 6), end.converged
    (array([[0.6, 0.8]]), 8.0, True)
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
