"""Lipschitz constants of the drift, and how far a head can travel (Chapter 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mfbook import _validate as validate
from mfbook.bounds.features import feature_bounds
from mfbook.bounds.loss import loss_lipschitz, softmax_lipschitz

__all__ = [
    "DriftLipschitz",
    "GrowthBound",
    "drift_lipschitz",
    "growth_bound",
]


@dataclass(frozen=True)
class DriftLipschitz:
    r"""Lipschitz constants of the drift :math:`G(\theta;\mu)`, in the head and in the measure.

    - ``head, measure``: Constants in the head, and in the measure for :math:`W_1`.
    """

    head: float
    measure: float


def drift_lipschitz(R_X: float, R_U: float, r: float, k: int) -> DriftLipschitz:
    r"""Lipschitz constants of the gradient field (equation (26) made explicit).

    .. math:: \|G(\theta;\mu)-G(\theta';\nu)\|\le\sqrt2\,H\,\|\theta-\theta'\|
              +\tfrac12L^2\,W_1(\mu,\nu)

    :math:`G=\mathbb E\frac1T\sum_t\nabla\varphi_t^\top r_t` with :math:`\|r_t\|\le\sqrt2`; the
    residual is 1/2-Lipschitz in the logits and these are L-Lipschitz in the measure. Measures
    live on the convex set of heads with radius r, and L is that of :func:`jacobian_bound`.
    Derived in Chapter 3.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.

    Returns with the attributes ``head`` and ``measure``.
    """
    bounds = feature_bounds(R_X, R_U, r, k)
    return DriftLipschitz(loss_lipschitz() * bounds.H, softmax_lipschitz() * bounds.L * bounds.L)


@dataclass(frozen=True)
class GrowthBound:
    r"""How large one head can be after a time :math:`\tau`.

    - ``values``: Bound on :math:`\|W_V\|+\|W_O\|`.
    - ``query_slope``: Bound on :math:`\|\nabla_{W_Q}\Psi\|/\|W_K\|` and
      :math:`\|\nabla_{W_K}\Psi\|/\|W_Q\|`.
    - ``queries``: Bound on :math:`\|W_Q\|+\|W_K\|`.
    """

    values: float
    query_slope: float
    queries: float


def growth_bound(
    R_X: float, R_U: float, k: int, tau: float, values: float, queries: float
) -> GrowthBound:
    r"""Bound on a head along the bare gradient flow: the compact set is automatic.

    With :math:`c=\sqrt2R_XR_U`, :math:`N_V=\|W_V\|+\|W_O\|` and :math:`N_Q=\|W_Q\|+\|W_K\|`,

    .. math:: N_V(\tau)&\le e^{c\tau}N_V(0),\\
              \|\nabla_{W_Q}\Psi\|&\le\frac{cR_X^2}{\sqrt k}\|W_K\|\|W_V\|\|W_O\|,\\
              N_Q(\tau)&\le N_Q(0)\exp\Big(\frac{R_X^2N_V(0)^2}{8\sqrt k}
              \big(e^{2c\tau}-1\big)\Big).

    :math:`\Psi=\langle W_VW_O,C\rangle` with :math:`\|C\|\le c`; then Gronwall's inequality
    twice. The bound holds for the flow, for explicit Euler with any step, and for stochastic
    gradients, in the rescaled time :math:`\tau=\int2\xi`. It does not depend on the other heads.
    Beyond the paper (Remark 3.3 assumes it); derived in Chapter 3. The last bound is infinite
    where it exceeds the largest float.

    - ``R_X, R_U``: Largest token norm, operator norm of ``W_U``.
    - ``k``: Query and key dimension.
    - ``tau``: Rescaled time, at least 0.
    - ``values, queries``: :math:`N_V(0)` and :math:`N_Q(0)`, sums of Frobenius norms.

    Returns bounds on the sizes after the time ``tau``.
    """
    R_X, R_U = validate.positive(R_X, "R_X"), validate.positive(R_U, "R_U")
    k, tau = validate.count(k, "k"), validate.positive(tau, "tau", allow_zero=True)
    values = validate.positive(values, "values", allow_zero=True)
    queries = validate.positive(queries, "queries", allow_zero=True)
    c = loss_lipschitz() * R_X * R_U
    with np.errstate(over="ignore"):
        v = float(values * np.exp(c * tau)) if values else 0.0
        start = R_X * values * R_X * values / (8 * math.sqrt(k))
        exponent = start * np.expm1(2 * c * tau) if start else 0.0
        q = float(queries * np.exp(exponent)) if queries else 0.0
    # ||W_V|| ||W_O|| <= v^2 / 4
    return GrowthBound(v, c * R_X * R_X / math.sqrt(k) * (v * v) / 4, q)
