r"""The mean error over draws of heads, and its coefficient of 1/M (Chapter 5b).

M heads are drawn independently from a law :math:`\mu` and follow the gradient flow. With the risk
:math:`U_t(\mu)=R(\mu_t)` as a functional of the initial law, and i.i.d. :math:`\theta,\theta'`,

.. math:: \mathbb E\,U_t(\hat\mu_M)-U_t(\mu)=\frac1{2M}\int_0^1\!\!\int_0^1
          s\,\mathbb E\,D^2U_t(\mu_{s,v})[\delta_\theta-\delta_{\theta'}]^2\,dv\,ds,

where the :math:`\mu_{s,v}` are laws on the support of :math:`\mu`. What follows computes the limit
of the right side, and sums the left side over all draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.influence import influence
from mfbook.functional import Functional
from mfbook.measure import Measure

__all__ = ["mean_error_coefficient", "mean_over_draws"]


def mean_error_coefficient(
    F: Functional, mu: Measure, times: ArrayLike, *, step: float = 0.01, rtol: float = 1e-6
) -> np.ndarray:
    r"""Coefficient of 1/M in the mean error of the flow from M heads drawn from a measure.

    .. math:: \mathbb E\,U_t(\hat\mu_M)-U_t(\mu)=\frac{\beta_t}M+O(M^{-2}),\qquad
              \beta_t=\tfrac12\sum_iw_i\,D^2U_t(\mu)[\delta_{\theta_i}-\mu]^2
              =\tfrac12\Big(\sum_iw_i\partial_{ii}U_t-\sum_{il}w_iw_l\partial_{il}U_t\Big)

    Here :math:`U_t(\mu)=F(\mu_t)` along its gradient flow. Each second derivative is a central
    difference of the first variation of ``influence``. Chapter 5b.
    """
    w, step = mu.weights, step
    total = 0.0
    for i in range(mu.size):
        h = (np.arange(mu.size) == i) - w
        move = step * min(1.0, w[i])  # keeps all weights positive
        up, down = (
            influence(F, Measure(mu.atoms, w + side * h), times, rtol=rtol)
            for side in (move, -move)
        )
        total = total + w[i] * ((up - down) @ h) / (4 * move)
    return np.asarray(total)


def mean_over_draws(values: Callable, weights: ArrayLike, M: int) -> np.ndarray:
    r"""Exact mean, over M independent draws from finitely many atoms, of a quantity of their law.

    .. math:: \mathbb E\,U(\hat\mu_M)=\sum_{n_1+\dots+n_m=M}\frac{M!}{n_1!\cdots n_m!}
              \,w_1^{n_1}\cdots w_m^{n_m}\;U\Big(\frac{n_1}M,\dots,\frac{n_m}M\Big)

    For two atoms it is Bernstein's polynomial of degree M. There are
    :math:`\binom{M+m-1}{m-1}` terms. Chapter 5b.
    """
    w = np.asarray(weights, dtype=float)
    M, m = M, len(w)
    total: np.ndarray | float = 0.0
    for bars in combinations(range(M + m - 1), m - 1):
        edges = np.array([-1, *bars, M + m - 1])
        n = np.diff(edges) - 1
        if (w[n > 0] == 0).any():
            continue
        log = math.lgamma(M + 1) - sum(math.lgamma(c + 1) for c in n)
        chance = math.exp(log + float(n[n > 0] @ np.log(w[n > 0])))
        value = np.asarray(values(tuple(int(c) for c in n)), dtype=float)
        total = total + chance * value
    return np.asarray(total)
