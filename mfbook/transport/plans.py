"""Exact transport: optimal plans, Wasserstein distances, and the geodesic between two measures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.transport.solvers import (
    check_pair,
    cost_matrix,
    mean_length,
    monotone,
    scaled,
    simplex,
    uniform,
)

__all__ = ["Plan", "displacement", "optimal_plan", "wasserstein"]


@dataclass(frozen=True, eq=False)
class Plan:
    r"""A transport plan :math:`\sum_k m_k\,\delta_{(x_{i_k},\,y_{j_k})}`, pair by pair.

    - ``source, target`` (K,): Atoms of the first and of the second measure.
    - ``mass`` (K,): The mass each pair moves, positive, sum one.
    - ``cost``: The distance :math:`W_p`, not its p-th power.
    """

    source: np.ndarray
    target: np.ndarray
    mass: np.ndarray
    cost: float


def optimal_plan(mu: Measure, nu: Measure, p: float = 2, *, memory: float = 2**31) -> Plan:
    r"""Cheapest way to move one measure to another: a minimiser of the problem that defines W_p.

    .. math:: W_p^p(\mu,\nu)=\min_{\pi}\;\int|x-y|^p\,d\pi(x,y)
        \quad\text{over }\pi\text{ with marginals }\mu,\nu

    - ``mu, nu``: With real atoms in the same space.
    - ``p``: Order.
    - ``memory``: Bytes the matrices of a solver may take; the line needs none.

    Notes
    -----
    On the line the quantiles are coupled (Villani, *Topics in Optimal Transportation*, 2003,
    Theorem 2.18). With a point mass there is one plan, the product. Equal numbers of equal weights
    go to ``scipy.optimize.linear_sum_assignment``, all else to ``ot.emd``. Atoms without weight
    are dropped; except in a product so are pairs whose mass is rounding, about 1e-15. The distance
    is computed from the differences of the chosen pairs.
    """
    check_pair(mu, nu)
    p = validate.real(p, "p")  # 2.0 is 2
    if p not in (1, 2):
        raise ValueError(f"p: expected 1 or 2, got {p:g}")
    memory = validate.positive(memory, "memory")
    (first, x, a), (second, y, b), exponent = scaled(mu, nu)
    if len(a) == 1 or len(b) == 1:
        i, j = (part.ravel() for part in np.indices((len(a), len(b))))
        mass = a[i] * b[j]
    elif mu.dim == 1:
        i, j, mass = monotone(x[:, 0], a, y[:, 0], b)
    elif uniform(a, b):
        i, j = scipy.optimize.linear_sum_assignment(cost_matrix(x, y, p, memory, "assignment"))
        mass = a
    else:
        i, j, mass, _ = simplex(x, a, y, b, p, memory)
    cost = math.ldexp(mean_length(x[i] - y[j], mass, p), exponent)
    source, target, mass = map(validate.frozen, (first[i], second[j], mass))
    return Plan(source, target, mass, cost)


def wasserstein(mu: Measure, nu: Measure, p: float = 2, *, memory: float = 2**31) -> float:
    r"""Wasserstein distance :math:`W_p(\mu,\nu)`, exact up to rounding.

    The cost of :func:`optimal_plan`, which says how it is found and what raises.

    - ``mu, nu``: In the same space.
    - ``p``: 1 or 2.
    - ``memory``: Bytes that a matrix of costs may take.

    Examples
    --------
    >>> mu = Measure([[0.0, 0.0], [1.0, 0.0]])
    >>> wasserstein(mu, mu.map(lambda x: x + [3.0, 4.0]))
    5.0
    """
    return optimal_plan(mu, nu, p, memory=memory).cost


def displacement(mu: Measure, nu: Measure, s: float, plan: Plan | None = None) -> Measure:
    r"""McCann's interpolation, :math:`((1-s)x+sy)_\#\pi`: the geodesic of :math:`W_2`.

    Each pair of the optimal plan moves at constant speed along a straight line, so
    :math:`W_2(\mu,\mu_s)=s\,W_2(\mu,\nu)`; unlike :func:`mfbook.measure.mixture`, where mass
    vanishes here and appears there.

    - ``mu, nu``: The ends, with real atoms in the same space.
    - ``s``: In [0, 1].
    - ``plan``: The optimal plan for p=2, to use it for many s. Default: computed.

    Notes
    -----
    McCann (1997); Villani, *Topics in Optimal Transportation* (2003), Section 5.1.
    """
    check_pair(mu, nu)
    s = validate.positive(s, "s", allow_zero=True)
    if s > 1:
        raise ValueError(f"s: expected a number in [0, 1], got {s}")
    plan = optimal_plan(mu, nu) if plan is None else validate.instance(plan, "plan", Plan)
    for name, m, index in (("mu", mu, plan.source), ("nu", nu, plan.target)):
        marginal = np.bincount(index, plan.mass, m.size)
        if len(marginal) != m.size or np.abs(marginal - m.weights).max() > validate.SUM_TOLERANCE:
            raise ValueError(f"plan: expected the weights of {name} as a marginal, got others")
    return Measure((1 - s) * mu.atoms[plan.source] + s * nu.atoms[plan.target], plan.mass)
