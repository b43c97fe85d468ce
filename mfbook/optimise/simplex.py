"""Quadratic programs over the simplex."""

import numpy as np
import scipy


def simplex_qp(G, c):
    r"""Minimise :math:`\frac12w^\top Gw+c^\top w` over the probability simplex.

    Primal-dual interior-point method (Mehrotra's predictor and corrector). Where many weights are
    optimal it ends in the middle of them, and a singular G does no harm: G (n, n) need be positive
    semidefinite only on differences of probability vectors. All weights (n,) are positive; one that
    should be zero is about 1e-17 by its multiplier.
    """
    n = len(c)
    w, mean = np.full(n, 1 / n), G.mean(axis=1)
    # the same problem on the simplex, of size one, whose matrix is positive semidefinite
    G, c = G - mean - mean[:, None] + mean.mean(), c + mean
    c = c - c.min()
    size = np.abs(G).max() + c.max()
    if size == 0:
        return w
    G, c = G / size, c / size
    slope = G @ w + c
    multiplier = slope.min() - 0.1
    slack = slope - multiplier
    ridge = 2e-16  # rounding in a singular G may be more: then it grows
    for _ in range(60):
        rest = G @ w + c - multiplier - slack
        product = w @ slack
        if product <= 1e-21 and np.abs(rest).max() <= 1e-15:
            break
        try:
            factor = scipy.linalg.cho_factor(G + np.diag(slack / w + ridge), check_finite=False)
        except np.linalg.LinAlgError:
            ridge *= 10
            continue
        ones = scipy.linalg.cho_solve(factor, np.ones(n), check_finite=False)

        def direction(target, factor=factor, ones=ones, rest=rest, w=w, slack=slack):
            """Newton's step to where weight times slack is less by the target."""
            free = scipy.linalg.cho_solve(factor, -rest - target / w, check_finite=False)
            rise = (1 - w.sum() - free.sum()) / ones.sum()
            step = free + rise * ones
            return step, rise, -(target + slack * step) / w

        dw, _, ds = direction(w * slack)
        ahead = (w + _most(w, dw) * dw) @ (slack + _most(slack, ds) * ds)
        centre = (ahead / product) ** 3 * product / n
        dw, rise, ds = direction(w * slack + dw * ds - centre)
        t = min(_most(w, dw, 0.995), _most(slack, ds, 0.995))
        w, multiplier, slack = w + t * dw, multiplier + t * rise, slack + t * ds
    return w / w.sum()


def _most(x, step, share: float = 1.0) -> float:
    """Length of the step, up to one, that goes this share of the way to the boundary."""
    return share / max(share, (-step / x).max())
