r"""What the support of a stationary measure says: stationarity and optimality.

Stationary means :math:`\nabla\delta F(\theta;\mu)=0` on the support (Theorem 6.3). Optimal means
that no alternative head has a smaller first variation (Theorem 4.3, equation (60)).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from mfbook._validate import Seed
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure
from mfbook.optimise import frank_wolfe_gap
from mfbook.stability.atomic import functional

__all__ = ["Alternative", "Stationarity", "best_alternative", "stationarity"]


@dataclass(frozen=True, eq=False)
class Stationarity:
    """How far a measure is from being stationary.

    ``norms`` (m,) of the gradient of the first variation at the atoms, as far as the space allows;
    ``worst``, the largest of an atom that has weight; and ``dissipation``, their mean square (38).
    """

    norms: np.ndarray = field(repr=False)
    worst: float
    dissipation: float


def stationarity(F: Functional, mu: Measure) -> Stationarity:
    r"""Test :math:`\nabla\delta F(\theta;\mu)=0` at the atoms that have weight.

    Equivalent to vanishing dissipation (Theorem 6.3, equations (40) and (41)).

    >>> from mfbook.confinement import Ridge
    >>> report = stationarity(Ridge(2.0), Measure([[0.0], [1.0]]))
    >>> report.norms.tolist(), report.dissipation
    ([0.0, 2.0], 2.0)
    """
    functional(F)
    check_measure(mu)
    v = F.space.tangent(mu.atoms, -F.at(mu).gradient(mu.atoms))
    norms = np.sqrt(squares := (v * v).sum(axis=1))
    return Stationarity(norms, float(norms[mu.weights > 0].max()), float(mu.weights @ squares))


@dataclass(frozen=True, eq=False)
class Alternative:
    """The best alternative head found, and what (60) says of a measure.

    - ``point`` (D,): Head with the least first variation found, which is ``least``.
    - ``values`` (m,): First variation at the atoms of the measure.
    - ``spread``: Largest minus least of them over atoms with weight; zero at an optimum.
    - ``violation``: Largest of them minus ``least``: (60) says that it is not positive.
    - ``found, rigorous``: Both ends of the gap, the mean of ``values`` minus the minimum.
    - ``share, gain``: Weight of the head in its best mixture with the measure, which lowers F by
      ``gain``.
    """

    point: np.ndarray = field(repr=False)
    least: float
    values: np.ndarray = field(repr=False)
    spread: float
    violation: float
    found: float
    rigorous: float
    share: float
    gain: float


def best_alternative(F: Functional, mu: Measure, rng: Seed, **options: Any) -> Alternative:
    """Search the head that violates equation (60) most, and what adding it would gain.

    - ``F``: Convex along mixtures, with a compact space that holds the atoms.
    - ``**options``: Of the search, :func:`~mfbook.optimise.frank_wolfe_gap`.
    """
    gap = frank_wolfe_gap(F, mu, rng, **options)
    local = F.at(mu)
    values = local.first_variation(mu.atoms)
    least = min(float(local.first_variation(gap.point[None])[0]), float(values.min()))
    heavy = values[mu.weights > 0]
    evaluate = F.over_weights(np.concatenate([mu.atoms, gap.point[None]]))

    def mixed(s):
        return evaluate(np.append((1 - s) * mu.weights, s))[0]

    run = scipy.optimize.minimize_scalar(mixed, bounds=(0, 1), options={"xatol": 1e-10})
    # the search looks inside the interval: either end may be better
    share = min((0.0, float(run.x), 1.0), key=mixed)
    return Alternative(
        gap.point, least, values, float(np.ptp(heavy)), float(heavy.max() - least), gap.found,
        gap.rigorous, share, float(mixed(0.0) - mixed(share)),
    )  # fmt: skip
