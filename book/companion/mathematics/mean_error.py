r"""The mean error over draws of heads, and its coefficient of 1/M (Chapter 5b).

M heads are drawn independently from a law :math:`\mu` and follow the gradient flow. With the risk
:math:`U_t(\mu)=R(\mu_t)` as a functional of the initial law, and i.i.d. :math:`\theta,\theta'`,

.. math:: \mathbb E\,U_t(\hat\mu_M)-U_t(\mu)=\frac1{2M}\int_0^1\!\!\int_0^1
          s\,\mathbb E\,D^2U_t(\mu_{s,v})[\delta_\theta-\delta_{\theta'}]^2\,dv\,ds,

where the :math:`\mu_{s,v}` are laws on the support of :math:`\mu`. What follows computes the limit
of the right side, and sums the left side over all draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.influence import influence
from mfbook.functional import Functional
from mfbook.measure import Measure


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
    w, total = mu.weights, 0.0
    for i, h in enumerate(np.eye(mu.size) - w):
        move = step * min(1.0, w[i])  # keeps all weights positive
        up, down = (
            influence(F, Measure(mu.atoms, w + side * h), times, rtol=rtol)
            for side in (move, -move)
        )
        total = total + w[i] * ((up - down) @ h) / (4 * move)
    return np.asarray(total)
