"""Descent from several starts: SciPy's L-BFGS-B in the coordinates of a space."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy

from mfbook.measure import Measure


class Descent(NamedTuple):
    """Where a descent ended; ``converged`` says whether the solver's tolerance was met."""

    point: np.ndarray
    value: float
    converged: bool
    evaluations: int


def descend(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    space: Any,
    starts: Iterable[np.ndarray],
    **options,
) -> list[Descent]:
    r"""Descend from each start (n, D) inside the space, and say where each ended.

    - ``objective``: From points (n, D) of the space to a number and its Euclidean gradient (n, D).
    - ``space``: Its ``chart`` maps all of :math:`\mathbb R^D` onto it: no constraint is left.
    - ``**options``: Of SciPy's L-BFGS-B: ``maxiter``, ``ftol``, ``gtol``, ...
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


def downhill(F, mu: Measure, **options) -> Measure:
    """Move all atoms downhill at fixed weights, inside the space."""

    def objective(x):
        local = F.at(Measure(x, mu.weights))
        return local.value, mu.weights[:, None] * local.gradient(x)

    (run,) = descend(objective, F.space, [mu.atoms], **options)
    return Measure(run.point, mu.weights)
