"""Solvers of the optimal transport problem, and the arithmetic that all distances share."""

from __future__ import annotations

import math
import warnings

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.measure import Measure

#: Pivots the network simplex may take; a backstop, as problems that fit need far fewer.
MAX_PIVOTS = 10**8
#: Matrices as large as the cost that a solver holds at its peak (measured), the cost included.
MATRICES = {"assignment": 1, "simplex": 4}
#: Entries of a block of distances or projections.
BLOCK = 2**20


def check_pair(mu, nu) -> None:
    """Raise unless both are measures with real atoms in the same space."""
    for name, m in (("mu", mu), ("nu", nu)):
        validate.instance(m, name, Measure)
        if np.iscomplexobj(m.atoms):
            raise TypeError(f"{name}: expected real atoms, got complex ones")
    if mu.dim != nu.dim:
        raise ValueError(f"nu: expected atoms in R^{mu.dim} as mu has, got R^{nu.dim}")


def scaled(mu, nu):
    """Index, position and mass of atoms that have some; positions times 2^-exponent, exactly."""
    largest = max(np.abs(mu.atoms).max(), np.abs(nu.atoms).max())
    exponent = int(np.frexp(np.float64(largest))[1])
    parts = []
    for m in (mu, nu):
        index = np.flatnonzero(m.weights)
        mass = m.weights[index]
        atoms = np.ldexp(m.atoms[index].astype(np.float64), -exponent)
        parts.append((index, atoms, mass / mass.sum()))
    return *parts, exponent


def mean_length(difference, mass, p: float) -> float:
    """(sum_k m_k |d_k|^p)^(1/p) of rows d_k, without overflow or underflow of the powers."""
    scale = np.abs(difference).max()
    if scale == 0:
        return 0.0
    square = ((difference / scale) ** 2).sum(axis=1)
    return float(scale) * float(mass @ square ** (p / 2)) ** (1 / p)


def _resolution(n: int) -> float:
    """Mass that rounding alone can make when n weights are added and subtracted."""
    return 4 * np.finfo(np.float64).eps * math.sqrt(n)


def uniform(a, b) -> bool:
    """Whether the weights are equal, and as many of one measure as of the other."""
    return len(a) == len(b) and np.ptp(a) == 0 and np.ptp(b) == 0


def monotone(x, a, y, b):
    """Optimal plan on the line, which couples equal quantiles."""
    i, j = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    if uniform(a, b):
        return i, j, a
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left, right = left / left[-1], right / right[-1]
    level = np.sort(np.concatenate([left, right]))
    # levels that differ by rounding are one level
    level = level[np.diff(level, append=2) > _resolution(len(level))]
    mass = np.diff(level, prepend=0)
    middle = level - mass / 2
    return i[np.searchsorted(left, middle)], j[np.searchsorted(right, middle)], mass


def cost_matrix(x, y, p: float, memory: float, solver: str):
    """|x_i - y_j|^p of all pairs, if the solver then fits in the memory."""
    # differences, not the expanded square: that one cancels for clouds far from the origin
    needed = 8 * len(x) * len(y) * MATRICES[solver]
    if needed > memory:
        raise ValueError(
            f"memory: {len(x)} times {len(y)} atoms need {needed / 1e9:.3g} GB, more than the "
            f"{memory / 1e9:.3g} GB allowed; use sliced_w2, or fewer atoms"
        )
    return scipy.spatial.distance.cdist(x, y, "euclidean" if p == 1 else "sqeuclidean")


def simplex(x, a, y, b, p: float, memory: float):
    """Optimal plan and the potential of the targets, by the network simplex."""
    # here, not at the top: POT imports every array library it finds (seconds for torch and jax)
    from ot.lp import emd

    cost = cost_matrix(x, y, p, memory, "simplex")
    scale = cost.max() or 1.0
    cost /= scale
    with warnings.catch_warnings():
        # what POT warns of is raised below
        warnings.simplefilter("ignore")
        flow, log = emd(a, b, cost, numItermax=MAX_PIVOTS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"optimal transport was not solved: {log['warning']}")
    i, j = np.nonzero(flow > _resolution(len(a) + len(b)))
    return i, j, flow[i, j], scale * log["v"]
