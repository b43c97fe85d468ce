r"""Explicit constants: one function for every constant that the paper leaves unnamed.

The letters are those of the book. Tokens have norm at most :math:`R_X`, the projection to the
vocabulary has operator norm at most :math:`R_U`, each of the four matrices of a head has operator
norm at most r (so a head of ``shape.ball(r)`` qualifies), and attention scores are at most
:math:`g=R_X^2r^2/\sqrt k` in absolute value, with the query dimension k. Norms of parameters are
Euclidean (Frobenius). The loss is :math:`\sqrt2`-Lipschitz in the logits and the softmax
1/2-Lipschitz. Constants beyond the range of floating-point numbers are infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._work import blocks
from mfbook.attention import AttentionRisk, features, softmax
from mfbook.measure import Measure, check_measure

__all__ = [
    "FeatureBounds", "GrowthBound", "confinement_bound", "data_radii", "feature_bound",
    "feature_bounds", "feature_variance", "growth_bound", "hessian_bound", "jacobian_bound",
    "leading_coefficient", "propagation_log10", "score_bound", "third_moment_constant",
    "token_reach",
]  # fmt: skip

# Heads are treated in blocks whose feature maps hold about this many numbers (32 MB).
BLOCK = 2**22


def _positive(**sizes) -> list[float]:
    return [validate.positive(value, name) for name, value in sizes.items()]


def score_bound(R_X: float, r: float, k: int) -> float:
    r"""Bound :math:`|\langle x_tW_Q,x_uW_K\rangle|/\sqrt k\le g=R_X^2r^2/\sqrt k` on the scores."""
    R_X, r = _positive(R_X=R_X, r=r)
    # products: a float power raises where it overflows, a product is infinite
    return (R_X * r) * (R_X * r) / math.sqrt(validate.count(k, "k"))


def third_moment_constant() -> float:
    r"""Constant :math:`c_3=4/(3\sqrt3)` of a third mixed moment of bounded variables.

    .. math:: |\mathbb E[(s-\bar s)^2(x-\bar x)]|\le c_3\qquad\text{if }|s|\le1,\ |x|\le1

    Equality for s = x = ±1 with :math:`P(s=1)=(1-1/\sqrt3)/2`. Proved in Chapter 3.
    """
    return 4 / (3 * math.sqrt(3))


def feature_bound(R_X: float, R_U: float, r: float) -> float:
    r"""Bound B on the feature map (Proposition 3.4 made explicit).

    .. math:: \|\varphi_t(X;\theta)\|\le B=R_XR_U\,r^2

    Attained by one token. Derived in Chapter 3.
    """
    R_X, R_U, r = _positive(R_X=R_X, R_U=R_U, r=r)
    return R_X * R_U * r * r


def jacobian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Bound L on the derivative of the feature map (Proposition 3.4 made explicit).

    .. math:: \|\nabla_\theta\varphi_t\|_{op}\le L=\sqrt2\,R_XR_U\,r\sqrt{1+g^2}

    Derived in Chapter 3.
    """
    R_U, g = validate.positive(R_U, "R_U"), score_bound(R_X, r, k)
    return math.sqrt(2) * R_X * R_U * r * math.hypot(1, g)


def hessian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Bound H on the second derivative of the feature map (Proposition 3.4 made explicit).

    .. math:: \|\nabla_\theta^2\varphi_t\|_{op}\le H=\tfrac12R_XR_U\Big[1+g+2c_3g^2
              +\sqrt{(1-g-2c_3g^2)^2+16g^2}\Big]

    The largest eigenvalue of :math:`(g+2c_3g^2)n^2+4g\,nw+w^2` in the sizes n of (W_Q, W_K) and
    w of (W_V, W_O) in a direction. Chapter 3 derives it, and shows that it is the least possible
    constant in the limits of small and of large g, and at most 1.62 times it in between.
    """
    R_U, g = validate.positive(R_U, "R_U"), score_bound(R_X, r, k)
    a = g + 2 * third_moment_constant() * g * g
    return R_X * R_U * (1 + a + math.hypot(1 - a, 4 * g)) / 2


@dataclass(frozen=True)
class FeatureBounds:
    """The bounds of Proposition 3.4: on the logits of one head and their two derivatives."""

    B: float
    L: float
    H: float


def feature_bounds(R_X: float, R_U: float, r: float, k: int) -> FeatureBounds:
    """Return B, L and H of Proposition 3.4 together."""
    return FeatureBounds(
        feature_bound(R_X, R_U, r), jacobian_bound(R_X, R_U, r, k), hessian_bound(R_X, R_U, r, k)
    )


def data_radii(X: ArrayLike, W_U: ArrayLike) -> tuple[float, float]:
    r"""Radii :math:`R_X=\max\|x\|` of tokens (S, T, d) and :math:`R_U=\|W_U\|_{op}`."""
    X = validate.array(X, "X", ("S", "T", "d"), largest=validate.LARGEST)
    W_U = validate.array(W_U, "W_U", (X.shape[2], "V"), largest=validate.LARGEST)
    return float(np.linalg.norm(X, axis=-1).max()), float(np.linalg.norm(W_U, 2))


def token_reach(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""How far attention reaches among tokens (S, T, d), and how much it gains by turning (S, T).

    .. math:: \max_{u\le t}\|x_u\|\qquad\text{and}\qquad W\Big(\frac{t-1}e\Big)
              \max_{u,u'\le t}\|x_u-x_{u'}\|\qquad(W\text{ of Lambert})

    The mean of :math:`\|Z_t\|` times the first bounds :math:`\lambda^*`, above which no head pays
    for its ridge (Chapter 6).
    """
    pairs, ends = np.linalg.norm(X[:, :, None] - X[:, None], axis=3), range(1, X.shape[1] + 1)
    wide = np.stack([pairs[:, :t, :t].max(axis=(1, 2)) for t in ends], axis=1)
    turns = scipy.special.lambertw(np.arange(X.shape[1]) / np.e).real * wide
    return np.maximum.accumulate(np.linalg.norm(X, axis=2), axis=1), turns


def confinement_bound(risk: AttentionRisk, mu: Measure | None = None) -> float:
    r"""Ridge :math:`\bar\lambda` above which no head moves outwards, in the field of one law.

    .. math:: \bar\lambda=\mathbb E\frac1T\sum_t\|Z_t\|\,(\text{the sum of both reaches of }t)

    with :func:`token_reach`; heads then shrink at the rate :math:`\lambda-\bar\lambda`. Without a
    law :math:`\|Z_t\|\le\sqrt2R_U` makes it hold in every field. Remark 6.7, derived in Chapter 6b.
    """
    lengths, turns = token_reach(risk.X)
    reach = lengths + turns
    if mu is None:
        return float(np.sqrt(2) * np.linalg.norm(risk.W_U, 2) * reach.mean())
    return float((np.linalg.norm(risk.at(mu).Z, axis=2) * reach).mean())


@dataclass(frozen=True)
class GrowthBound:
    r"""Bounds on :math:`N_V` (``values``) and :math:`N_Q` (``queries``) of :func:`growth_bound`."""

    values: float
    queries: float


def growth_bound(
    R_X: float, R_U: float, k: int, tau: float, values: float, queries: float
) -> GrowthBound:
    r"""Bound on a head along the bare gradient flow: the compact set is automatic.

    With :math:`c=\sqrt2R_XR_U`, ``values`` :math:`N_V(0)` and ``queries`` :math:`N_Q(0)`, where
    :math:`N_V=\|W_V\|+\|W_O\|` and :math:`N_Q=\|W_Q\|+\|W_K\|` (Frobenius),

    .. math:: N_V(\tau)\le e^{c\tau}N_V(0),\qquad N_Q(\tau)\le N_Q(0)\exp\Big(
              \frac{R_X^2N_V(0)^2}{8\sqrt k}\big(e^{2c\tau}-1\big)\Big).

    It holds for the flow, for explicit Euler with any step and for stochastic gradients, in the
    rescaled time :math:`\tau=\int2\xi`, whatever the other heads do. Beyond the paper (Remark 3.3
    assumes it); derived in Chapter 3.
    """
    R_X, R_U = _positive(R_X=R_X, R_U=R_U)
    k, tau = validate.count(k, "k"), validate.positive(tau, "tau", allow_zero=True)
    values = validate.positive(values, "values", allow_zero=True)
    queries = validate.positive(queries, "queries", allow_zero=True)
    c = math.sqrt(2) * R_X * R_U
    start = R_X * values * R_X * values / (8 * math.sqrt(k))
    with np.errstate(over="ignore"):  # 0 times infinity: what is zero stays zero
        exponent = start * np.expm1(2 * c * tau) if start else 0.0
        grown = zip((values, queries), (c * tau, exponent), strict=True)
        return GrowthBound(*(float(x * np.exp(rate)) if x else 0.0 for x, rate in grown))


def propagation_log10(
    R_X: float, R_U: float, r: float, k: int, *, M: int, epsilon: float, tau: float
) -> float:
    r"""Decimal logarithm of a bound on how far M heads under SGD are from the characteristics.

    With :math:`\xi=\frac12`, heads and characteristics in the product of balls of radius r, and
    :math:`|x|_M^2=\frac1M\sum_i\|x_i\|^2`,

    .. math:: \big(\mathbb E|\theta^n-\bar\theta(n\varepsilon)|_M^2\big)^{1/2}
              \le e^{\Gamma\tau}\Big[\tfrac{LB}{2\sqrt M}\,\tau
              +\tfrac{\sqrt2}2L\big(\sqrt2H+\tfrac12L^2\big)\varepsilon\,\tau
              +\sqrt2\,L\sqrt{\varepsilon\,\tau}\Big]

    where :math:`\Gamma=\sqrt2H` if :math:`\varepsilon\le4/L^2` and :math:`\sqrt2H+\frac12L^2` else.
    A version of Theorem 5.2 in mean square, for one n; derived in Chapter 5.
    """
    M = validate.count(M, "M")
    epsilon, tau = validate.positive(epsilon, "epsilon"), validate.positive(tau, "tau")
    c = feature_bounds(R_X, R_U, r, k)
    # Lipschitz constants of the drift in the head and in the measure (26), size of one gradient
    head, measure, size = math.sqrt(2) * c.H, 0.5 * c.L * c.L, math.sqrt(2) * c.L
    euler = epsilon * tau * size * ((head + measure) / 2)
    noise = size * math.sqrt(epsilon * tau)
    sampling = 0.5 * c.L * c.B * tau / math.sqrt(M)
    exponent = (head + (measure if epsilon * measure > 2 else 0.0)) * tau
    return exponent / math.log(10) + math.log10(euler + noise + sampling)


def feature_variance(risk: AttentionRisk, mu: Measure) -> float:
    r"""Variance of the feature map over the heads of a measure.

    .. math:: \sigma^2=\mathbb E\Big[\frac1T\sum_t\int\|\varphi_t-f_t\|^2\,d\mu\Big]\le B^2
    """
    return _over_heads(risk, mu, lambda z, p: (z**2).sum(axis=-1))


def leading_coefficient(risk: AttentionRisk, mu: Measure) -> float:
    r"""Coefficient of 1/M in the mean excess risk of M heads drawn from a measure.

    .. math:: \mathbb E\,R(\hat\mu_M)-R(\mu)=\frac{\kappa}{M}+O(M^{-2}),\qquad
              \kappa=\tfrac12\,\mathbb E\Big[\frac1T\sum_t
              \operatorname{tr}\big(J(f_t)\operatorname{Cov}_\mu\varphi_t\big)\Big]

    At most :math:`\sigma^2/4`. Beyond the paper; derived in Chapter 4.
    """

    def variance(z, p):  # tr(J z z^T) is the variance of z_I for I drawn from p
        return (p * (z - (p * z).sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1)

    return _over_heads(risk, mu, variance) / 2


def _over_heads(risk, mu, quantity) -> float:
    """Integrate E (1/T) sum_t quantity(phi_t - f_t, p_t) over the heads, block by block."""
    check_measure(mu)
    f = validate.instance(risk, "risk", AttentionRisk).logits(mu)
    (S, T, V), p = f.shape, softmax(f)
    total = 0.0
    # attention takes T numbers for each token and head, features V
    for s in blocks(S, BLOCK // (T * (T + V))):
        for h in blocks(mu.size, BLOCK // (len(f[s]) * T * (T + V))):
            z = features(mu.atoms[h], risk.X[s], risk.W_U, risk.shape) - f[s]
            total += mu.weights[h] @ quantity(z, p[s]).sum(axis=(1, 2))
    return float(total) / (S * T)
