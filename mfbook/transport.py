r"""Distances between measures by optimal transport, and the geodesic of :math:`W_2`.

Exact distances between n atoms cost up to :math:`O(n^3)`. The solver is chosen by the problem:
sorting on the line, assignment for equal weights, the network simplex of POT otherwise.
:func:`coupled_distance` bounds the distance from above without any.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.measure import Measure, check_pair

__all__ = ["Plan", "coupled_distance", "displacement", "optimal_plan", "wasserstein"]

#: Pivots the network simplex may take; a backstop, as problems that fit need far fewer.
MAX_PIVOTS = 10**8
#: Entries a matrix of costs may have: 2 GiB, and the network simplex holds four such matrices.
LARGEST = 2**28


def coupled_distance(mu: Measure, nu: Measure) -> float:
    r"""Distance of atoms paired as they come, :math:`(\sum_iw_i|x_i-y_i|^2)^{1/2}\ge W_2`.

    The right distance for two runs from the same atoms: it needs no solver, and it does not
    suffer from the dimension as the distance of independent samples does.

    >>> coupled_distance(Measure([[0.0], [1.0]]), Measure([[1.0], [0.0]]))
    1.0
    """
    check_pair(mu, nu)
    if mu.size != nu.size:
        raise ValueError(f"nu: expected {mu.size} atoms as mu has, got {nu.size}")
    error = np.abs(mu.weights - nu.weights).max()
    if error > 1e-12:
        raise ValueError(f"nu: expected the weights of mu, got weights that differ by {error:.3g}")
    return mean_length(mu.atoms - nu.atoms, mu.weights, 2)


@dataclass(frozen=True, eq=False)
class Plan:
    r"""A transport plan :math:`\sum_k m_k\,\delta_{(x_{i_k},\,y_{j_k})}`, pair by pair.

    - ``source, target`` (K,): Indices of atoms of the first and of the second measure.
    - ``mass`` (K,): The mass each pair moves, positive, sum one.
    - ``cost``: The distance :math:`W_p`, not its p-th power.
    """

    source: np.ndarray = field(repr=False)
    target: np.ndarray = field(repr=False)
    mass: np.ndarray = field(repr=False)
    cost: float


def optimal_plan(mu: Measure, nu: Measure, p: float = 2) -> Plan:
    r"""Cheapest way to move one measure to another: a minimiser of the problem that defines W_p.

    .. math:: W_p^p(\mu,\nu)=\min_{\pi}\;\int|x-y|^p\,d\pi(x,y)
        \quad\text{over }\pi\text{ with marginals }\mu,\nu

    p is 1 or 2, and both measures have real atoms in the same space.

    On the line the quantiles are coupled (Villani, *Topics in Optimal Transportation*, 2003,
    Theorem 2.18). Equal numbers of equal weights go to ``scipy.optimize.linear_sum_assignment``,
    all else to ``ot.emd``. Atoms without weight are dropped, and so are pairs whose mass is
    rounding, about 1e-15, but none of a product. The distance is computed from the differences of
    the chosen pairs.
    """
    check_pair(mu, nu)
    p = validate.real(p, "p")  # 2.0 is 2
    if p not in (1, 2):
        raise ValueError(f"p: expected 1 or 2, got {p:g}")
    (first, x, a), (second, y, b) = _supported(mu), _supported(nu)
    if len(a) == 1 or len(b) == 1:  # the product is the only plan
        i, j = (part.ravel() for part in np.indices((len(a), len(b))))
        mass = a[i] * b[j]
    elif mu.dim == 1:
        i, j, mass = _monotone(x[:, 0], a, y[:, 0], b)
    elif _uniform(a, b):
        i, j = scipy.optimize.linear_sum_assignment(_costs(x, y, p))
        mass = a
    else:
        i, j, mass, _ = simplex(x, a, y, b, p)
    source, target, mass = map(validate.frozen, (first[i], second[j], mass))
    return Plan(source, target, mass, mean_length(x[i] - y[j], mass, p))


def wasserstein(mu: Measure, nu: Measure, p: float = 2) -> float:
    r"""Wasserstein distance :math:`W_p(\mu,\nu)`, exact up to rounding.

    The cost of :func:`optimal_plan`, which says how it is found and what raises.

    >>> mu = Measure([[0.0, 0.0], [1.0, 0.0]])
    >>> wasserstein(mu, mu.map(lambda x: x + [3.0, 4.0]))
    5.0
    """
    return optimal_plan(mu, nu, p).cost


def displacement(mu: Measure, nu: Measure, s: float, plan: Plan | None = None) -> Measure:
    r"""McCann's interpolation, :math:`((1-s)x+sy)_\#\pi`: the geodesic of :math:`W_2`.

    Each pair of the optimal plan moves at constant speed along a straight line, so
    :math:`W_2(\mu,\mu_s)=s\,W_2(\mu,\nu)`; unlike :func:`mfbook.measure.mixture`, where mass
    vanishes here and appears there.

    - ``plan``: The optimal plan for p=2, to use it for many s in [0, 1]. Default: computed.

    McCann (1997); Villani, *Topics in Optimal Transportation* (2003), Section 5.1.
    """
    check_pair(mu, nu)
    s = validate.positive(s, "s", allow_zero=True, largest=1)
    plan = optimal_plan(mu, nu) if plan is None else validate.instance(plan, "plan", Plan)
    for name, m, index in (("mu", mu, plan.source), ("nu", nu, plan.target)):
        marginal = np.bincount(index, plan.mass, m.size)
        if len(marginal) != m.size or np.abs(marginal - m.weights).max() > validate.SUM_TOLERANCE:
            raise ValueError(f"plan: expected the weights of {name} as a marginal, got others")
    return Measure((1 - s) * mu.atoms[plan.source] + s * nu.atoms[plan.target], plan.mass)


def _supported(m):
    """Index, position and mass of the atoms that have some."""
    index = np.flatnonzero(m.weights)
    mass = m.weights[index]
    return index, m.atoms[index], mass / mass.sum()


def mean_length(difference, mass, p: float) -> float:
    """(sum_k m_k |d_k|^p)^(1/p) of rows d_k."""
    return float(mass @ (difference**2).sum(axis=1) ** (p / 2)) ** (1 / p)


def _resolution(n: int) -> float:
    """Mass that rounding alone can make when n weights are added and subtracted."""
    return 4 * np.finfo(np.float64).eps * math.sqrt(n)


def _uniform(a, b) -> bool:
    """Whether the weights are equal, and as many of one measure as of the other."""
    return len(a) == len(b) and np.ptp(a) == 0 and np.ptp(b) == 0


def _monotone(x, a, y, b):
    """Optimal plan on the line, which couples equal quantiles."""
    i, j = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    if _uniform(a, b):
        return i, j, a
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left, right = left / left[-1], right / right[-1]
    level = np.sort(np.concatenate([left, right]))
    # levels that differ by rounding are one level
    level = level[np.diff(level, append=2) > _resolution(len(level))]
    mass = np.diff(level, prepend=0)
    middle = level - mass / 2
    return i[np.searchsorted(left, middle)], j[np.searchsorted(right, middle)], mass


def _costs(x, y, p: float):
    """|x_i - y_j|^p of all pairs."""
    if len(x) * len(y) > LARGEST:
        raise ValueError(f"mu: {len(x)} times {len(y)} atoms of nu need more than 2 GiB of memory")
    # differences, not the expanded square: that one cancels for clouds far from the origin
    return scipy.spatial.distance.cdist(x, y, "euclidean" if p == 1 else "sqeuclidean")


def simplex(x, a, y, b, p: float):
    """Optimal plan and the potential of the targets, by the network simplex."""
    # here, not at the top: POT imports every array library it finds (seconds for torch and jax)
    from ot.lp import emd

    cost = _costs(x, y, p)
    scale = cost.max() or 1.0
    cost /= scale
    with warnings.catch_warnings(action="ignore"):  # what POT warns of is raised below
        flow, log = emd(a, b, cost, numItermax=MAX_PIVOTS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"optimal transport was not solved: {log['warning']}")
    i, j = np.nonzero(flow > _resolution(len(a) + len(b)))
    return i, j, flow[i, j], scale * log["v"]
