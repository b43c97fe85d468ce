"""Quadratic programs over the simplex."""

from __future__ import annotations

import numpy as np


def simplex_qp(G, c, w, *, maxiter: int = 20_000):
    r"""Minimise :math:`\frac12w^\top Gw+c^\top w` over the probability simplex.

    Primal active-set method: solve for the free weights; go as far as weights stay positive; free
    the weight with the most negative multiplier. G need be positive definite only on differences.

    Parameters
    ----------
    G : array, shape (n, n)
    c : array, shape (n,)
    w : array, shape (n,)
        A probability vector to start from; its support is free.

    Returns
    -------
    array, shape (n,)
    """
    free = w > 0
    scale = np.abs(c).max() + np.abs(G).max()
    twice = np.inf
    for _ in range(maxiter):
        target = _equality(G, c, free)
        # walk to the target, dropping what reaches zero; the last free atom is on its target
        while (falling := free & (target < 0)).any():
            ratio = np.full(len(c), np.inf)
            np.divide(w, w - target, out=ratio, where=falling)
            step = ratio.min()
            w = w + step * (target - w)
            free &= ratio > step
            target = _equality(G, c, free)
        w = target
        slope = G @ w + c
        reduced = slope - w @ slope
        reduced[free] = np.inf
        i = int(reduced.argmin())
        last, twice = twice, w @ (slope + c)
        # nearly equal atoms make G singular: then rounding alone keeps the method busy
        if reduced[i] >= -1e-15 * scale or twice >= last - 2e-17 * scale:
            break
        free[i] = True
    return w / w.sum()


def _equality(G, c, free):
    """Weights on the free atoms that sum to one and make the slope constant there."""
    i = np.flatnonzero(free)
    n = len(i)
    K = np.ones((n + 1, n + 1))
    K[:n, :n], K[n, n] = G[np.ix_(i, i)], 0
    right = np.append(-c[i], 1)
    try:
        solution = np.linalg.solve(K, right)
    except np.linalg.LinAlgError:
        solution = np.linalg.lstsq(K, right)[0]
    w = np.zeros(len(c))
    w[i] = solution[:n]
    return w
