"""What M heads lose against infinitely many, Theorem 4.1 and sharper (Chapter 4)."""

from __future__ import annotations

import math

import numpy as np

from mfbook import _validate as validate
from mfbook._blocks import blocks
from mfbook.attention import AttentionRisk, features, softmax
from mfbook.bounds.loss import loss_lipschitz, loss_smoothness
from mfbook.measure import Measure

__all__ = [
    "feature_variance",
    "leading_coefficient",
    "monte_carlo_rate",
    "sharp_rate",
    "variance_rate",
]


# Heads are treated in blocks whose feature maps hold about this many numbers (32 MB).
BLOCK = 2**22


def monte_carlo_rate(B: float, M: int) -> float:
    r"""Bound of Theorem 4.1 with its constant.

    .. math:: 0\le\inf R_M-\inf R\le\sqrt2\,B/\sqrt M

    M independent heads give logits within :math:`B/\sqrt M` in the mean, and the loss is
    :math:`\sqrt2`-Lipschitz. Derived in Chapter 4.

    - ``B``: Bound on the feature map.
    - ``M``: Number of heads.
    """
    return loss_lipschitz() * validate.positive(B, "B") / math.sqrt(validate.count(M, "M"))


def sharp_rate(B: float, M: int) -> float:
    r"""Bound :math:`B^2/(4M)` on :math:`\inf R_M-\inf R`: the rate is 1/M.

    The loss is 1/2-smooth and the logits of sampled heads are unbiased, so the first-order term
    has mean zero and the second is at most :math:`\frac14\mathbb E\|\hat f-f\|^2\le B^2/(4M)`.
    Beyond the paper; derived in Chapter 4.

    - ``B``: Bound on the feature map.
    - ``M``: Number of heads.
    """
    B = validate.positive(B, "B")
    return loss_smoothness() / 2 * B * B / validate.count(M, "M")


def variance_rate(sigma2: float, M: int) -> float:
    r"""Bound :math:`\sigma^2/(4M)` on the mean excess risk of M heads drawn from a measure.

    .. math:: \mathbb E\,R(\hat\mu_M)-R(\mu)\le\frac{\sigma^2}{4M}

    As :func:`sharp_rate`, with the variance of :func:`feature_variance` itself instead of its
    bound. Beyond the paper; derived in Chapter 4.

    - ``sigma2``: Feature variance, at least 0.
    - ``M``: Number of heads.
    """
    sigma2 = validate.positive(sigma2, "sigma2", allow_zero=True)
    return loss_smoothness() / 2 * sigma2 / validate.count(M, "M")


def feature_variance(risk: AttentionRisk, mu: Measure) -> float:
    r"""Variance of the feature map over the heads of a measure.

    .. math:: \sigma^2=\mathbb E\Big[\frac1T\sum_t\int\|\varphi_t-f_t\|^2\,d\mu\Big]\le B^2

    Chapter 4. Memory does not grow with the number of heads.

    - ``risk``: With the sequences to average over.
    - ``mu``: Real heads.
    """
    return _over_heads(risk, mu, lambda z, p: (z**2).sum(axis=-1))


def leading_coefficient(risk: AttentionRisk, mu: Measure) -> float:
    r"""Coefficient of 1/M in the mean excess risk of M heads drawn from a measure.

    .. math:: \mathbb E\,R(\hat\mu_M)-R(\mu)=\frac{\kappa}{M}+O(M^{-2}),\qquad
              \kappa=\tfrac12\,\mathbb E\Big[\frac1T\sum_t
              \operatorname{tr}\big(J(f_t)\operatorname{Cov}_\mu\varphi_t\big)\Big]

    Second-order expansion of the loss at the mean-field logits; at most :math:`\sigma^2/4`.
    Beyond the paper; derived in Chapter 4.

    - ``risk``: With the sequences to average over.
    - ``mu``: Real heads.
    """

    def variance(z, p):  # tr(J z z^T) is the variance of z_I for I drawn from p
        return (p * (z - (p * z).sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1)

    return _over_heads(risk, mu, variance) / 2


def _over_heads(risk, mu, quantity) -> float:
    """Integrate E (1/T) sum_t quantity(phi_t - f_t, p_t) over the heads, block by block."""
    if not isinstance(risk, AttentionRisk):
        raise TypeError(f"risk: expected an AttentionRisk, got {type(risk).__name__}")
    f = risk.logits(mu)
    if np.iscomplexobj(f):
        raise TypeError("mu: expected real heads, got complex ones")
    p = softmax(f)
    S, T, V = f.shape
    total = 0.0
    # attention takes T numbers for each token and head, features V
    for s in blocks(S, BLOCK // (T * (T + V))):
        for h in blocks(mu.size, BLOCK // (len(f[s]) * T * (T + V))):
            z = features(mu.atoms[h], risk.X[s], risk.W_U, risk.shape) - f[s]
            total += mu.weights[h] @ quantity(z, p[s]).sum(axis=(1, 2))
    return float(total) / (S * T)
