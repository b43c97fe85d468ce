r"""Explicit constants: one function for every constant that the paper leaves unnamed.

The letters are those of the book. Tokens have norm at most :math:`R_X`, the projection to the
vocabulary has operator norm at most :math:`R_U`, each of the four matrices of a head has operator
norm at most r (so a head of ``shape.ball(r)`` qualifies), and attention scores are at most
:math:`g=R_X^2r^2/\sqrt k` in absolute value. Norms of parameters are Euclidean (Frobenius).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from . import _validate as validate
from .attention import AttentionRisk, features, softmax
from .measure import Measure

__all__ = [
    "DriftLipschitz",
    "FeatureBounds",
    "GrowthBound",
    "data_radii",
    "drift_lipschitz",
    "feature_bound",
    "feature_bounds",
    "feature_variance",
    "growth_bound",
    "hessian_attained",
    "hessian_bound",
    "jacobian_bound",
    "leading_coefficient",
    "loss_lipschitz",
    "loss_smoothness",
    "monte_carlo_rate",
    "score_bound",
    "sharp_jacobian_bound",
    "sharp_rate",
    "softmax_lipschitz",
    "third_moment_constant",
    "variance_rate",
]

# Heads are treated in blocks whose feature maps hold about this many numbers (32 MB).
BLOCK = 2**22


# ---------------------------------------------------------------- softmax and loss (Chapter 2)


def softmax_lipschitz() -> float:
    r"""Lipschitz constant 1/2 of the softmax.

    .. math:: 0\preceq J(f)=\operatorname{diag}(p)-pp^\top\preceq\tfrac12 I

    :math:`u^\top Ju` is the variance of :math:`u_I`, I drawn from p. It is at most
    :math:`(\max u-\min u)^2/4\le\|u\|^2/2`; equality at two equally likely words. Sharpens
    Lemma 2.1 of the paper, which has 1; derived in Chapter 2.

    Examples
    --------
    >>> softmax_lipschitz()
    0.5
    """
    return 0.5


def loss_lipschitz() -> float:
    r"""Lipschitz constant of the loss in the logits, the largest norm of a residual.

    .. math:: \|\nabla_f\ell(f,y)\|=\|p-y\|_2\le\sqrt2

    The distance of two probability vectors; it is approached by a certain and wrong prediction.
    Used in Theorem 4.1 of the paper; derived in Chapter 2.

    Examples
    --------
    >>> loss_lipschitz()
    1.4142135623730951
    """
    return math.sqrt(2)


def loss_smoothness() -> float:
    r"""Lipschitz constant 1/2 of the gradient of the loss in the logits.

    .. math:: \nabla_f^2\ell(f,y)=J(f)\preceq\tfrac12 I

    The same bound as :func:`softmax_lipschitz`, since the gradient is p - y; derived in Chapter 2.

    Examples
    --------
    >>> loss_smoothness()
    0.5
    """
    return softmax_lipschitz()


# ---------------------------------------------------------------- features (Chapter 3)


def score_bound(R_X: float, r: float, k: int) -> float:
    r"""Bound g on the attention scores, the one number that says how sharp a head can be.

    .. math:: |\langle x_tW_Q,\,x_uW_K\rangle|/\sqrt k\;\le\;g=R_X^2r^2/\sqrt k

    Cauchy–Schwarz; attained by two equal tokens. Chapter 3, Proposition 3.4.

    Parameters
    ----------
    R_X : float
        Largest token norm.
    r : float
        Largest operator norm of a matrix of the head.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> score_bound(R_X=1.0, r=2.0, k=4)
    2.0
    """
    R_X, r = validate.positive(R_X, "R_X"), validate.positive(r, "r")
    # products: a float power raises where it overflows, a product is infinite
    return (R_X * r) * (R_X * r) / math.sqrt(validate.count(k, "k"))


def third_moment_constant() -> float:
    r"""Constant :math:`c_3=4/(3\sqrt3)` of a third mixed moment of bounded variables.

    .. math:: |\mathbb E[(s-\bar s)^2(x-\bar x)]|\le c_3\qquad\text{if }|s|\le1,\ |x|\le1

    Equality for s = x = ±1 with :math:`P(s=1)=(1-1/\sqrt3)/2` (and its mirror image). Proved in
    Chapter 3; it enters :func:`hessian_bound`.

    Examples
    --------
    >>> round(third_moment_constant(), 6)
    0.7698
    """
    return 4 / (3 * math.sqrt(3))


def feature_bound(R_X: float, R_U: float, r: float) -> float:
    r"""Bound B on the feature map (Proposition 3.4 made explicit).

    .. math:: \|\varphi_t(X;\theta)\|\le B=R_XR_U\,r^2

    An attended token is an average of tokens, so its norm is at most :math:`R_X`; three matrices
    follow. Attained by one token. Derived in Chapter 3.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a finite positive number.

    Examples
    --------
    >>> feature_bound(R_X=2.0, R_U=1.0, r=3.0)
    18.0
    """
    R_X, R_U = validate.positive(R_X, "R_X"), validate.positive(R_U, "R_U")
    r = validate.positive(r, "r")
    return R_X * R_U * r * r


def jacobian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Bound L on the derivative of the feature map (Proposition 3.4 made explicit).

    .. math:: \|\nabla_\theta\varphi_t\|_{op}\le L=\sqrt2\,R_XR_U\,r\sqrt{1+g^2}

    A direction of size n in (W_Q, W_K) changes :math:`\varphi` by at most
    :math:`\sqrt2R_XR_Urgn`, one of size w in (W_V, W_O) by :math:`\sqrt2R_XR_Urw`;
    Cauchy–Schwarz with :math:`n^2+w^2=1`. Derived in Chapter 3.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> round(jacobian_bound(R_X=1.0, R_U=1.0, r=1.0, k=1), 12)
    2.0
    """
    g = score_bound(R_X, r, k)
    return math.sqrt(2) * R_X * validate.positive(R_U, "R_U") * r * math.hypot(1, g)


def sharp_jacobian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Least possible L: the bound of :func:`jacobian_bound`, sharpened.

    .. math:: \|\nabla_\theta\varphi_t\|_{op}\le\sqrt2\,R_XR_U\,r\,\max(1,g)

    A token average m leaves a variance of at most :math:`R_X^2-\|m\|^2`, so both effects of
    :func:`jacobian_bound` cannot be largest at once. Attained by one token if g <= 1, and by two
    opposite tokens if g >= 1 and k >= 2. Beyond the paper; derived in Chapter 3.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> round(sharp_jacobian_bound(R_X=1.0, R_U=1.0, r=1.0, k=1) ** 2, 12)
    2.0
    """
    g = score_bound(R_X, r, k)
    return math.sqrt(2) * R_X * validate.positive(R_U, "R_U") * r * max(1.0, g)


def hessian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Bound H on the second derivative of the feature map (Proposition 3.4 made explicit).

    .. math:: \|\nabla_\theta^2\varphi_t\|_{op}\le H=\tfrac12R_XR_U\Big[1+g+2c_3g^2
              +\sqrt{(1-g-2c_3g^2)^2+16g^2}\Big]

    The largest eigenvalue of the form :math:`(g+2c_3g^2)n^2+4g\,nw+w^2` in the sizes n of
    (W_Q, W_K) and w of (W_V, W_O) in a direction. Derived in Chapter 3. How far it is from the
    least possible constant is bounded by :func:`hessian_attained`: not at all in the limits of
    small and of large g, by a factor of 1.62 at most in between.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> round(hessian_bound(R_X=1.0, R_U=1.0, r=1.0, k=1), 4)
    3.9128
    """
    g = score_bound(R_X, r, k)
    a = g + 2 * third_moment_constant() * g * g
    return R_X * validate.positive(R_U, "R_U") * (1 + a + math.hypot(1 - a, 4 * g)) / 2


def hessian_attained(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Second derivative that is attained: no valid H is smaller than this.

    .. math:: R_XR_U\max_{|\mu|\le1}\left\|\begin{pmatrix}gw-4g^2\mu w&2gw\\2gw&\mu\end{pmatrix}
              \right\|_{op},\qquad w=1-\mu^2

    All tokens are equal or opposite, repeated so that the attended one is the fraction
    :math:`\mu` of them; the four matrices have rank one and are aligned. It is a supremum over
    the length of the sequence. Chapter 3; a search over all heads and tokens finds nothing larger.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> round(hessian_attained(R_X=1.0, R_U=1.0, r=1.0, k=1), 4)
    3.0203
    """
    g, R_U = score_bound(R_X, r, k), validate.positive(R_U, "R_U")
    if not math.isfinite(g):
        return math.inf

    def norm(mu):
        w = 1 - mu**2
        a = g * w - 4 * g**2 * mu * w
        return (np.abs(a + mu) + np.hypot(a - mu, 4 * g * w)) / 2

    # several local maxima: a grid finds the right one, a bounded search its value
    grid = np.linspace(-1, 1, 2001)
    i = int(norm(grid).argmax())
    near = (grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
    found = minimize_scalar(lambda mu: -norm(mu), bounds=near, options={"xatol": 1e-12})
    largest = max(float(norm(grid[i])), -float(found.fun))
    return R_X * R_U * largest


@dataclass(frozen=True)
class FeatureBounds:
    """The three constants of Proposition 3.4: for the feature map and its two derivatives."""

    B: float
    L: float
    H: float


def feature_bounds(R_X: float, R_U: float, r: float, k: int) -> FeatureBounds:
    """Return B, L and H of Proposition 3.4 together.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> feature_bounds(R_X=1.0, R_U=1.0, r=1.0, k=1).B
    1.0
    """
    return FeatureBounds(
        feature_bound(R_X, R_U, r), jacobian_bound(R_X, R_U, r, k), hessian_bound(R_X, R_U, r, k)
    )


def data_radii(X, W_U) -> tuple[float, float]:
    r"""Radii :math:`R_X=\max\|x\|` and :math:`R_U=\|W_U\|_{op}` of given data.

    Parameters
    ----------
    X : array_like, shape (S, T, d)
        Tokens.
    W_U : array_like, shape (d, V)
        Fixed projection to the vocabulary.

    Returns
    -------
    (float, float)

    Raises
    ------
    TypeError, ValueError
        If a shape is wrong or an entry is NaN or infinite.

    Examples
    --------
    >>> data_radii([[[3.0, 4.0], [1.0, 0.0]]], [[2.0, 0.0], [0.0, 1.0]])
    (5.0, 2.0)
    """
    X = validate.array(X, "X", ("S", "T", "d"))
    W_U = validate.array(W_U, "W_U", (X.shape[2], "V"))
    return float(np.linalg.norm(X, axis=-1).max()), float(np.linalg.norm(W_U, 2))


# ---------------------------------------------------------------- drift and growth (Chapter 3)


@dataclass(frozen=True)
class DriftLipschitz:
    r"""Lipschitz constants of the drift :math:`G(\theta;\mu)`, in the head and in the measure."""

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

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> round(drift_lipschitz(R_X=1.0, R_U=1.0, r=1.0, k=1).measure, 12)
    2.0
    """
    bounds = feature_bounds(R_X, R_U, r, k)
    return DriftLipschitz(loss_lipschitz() * bounds.H, softmax_lipschitz() * bounds.L * bounds.L)


@dataclass(frozen=True)
class GrowthBound:
    r"""How large one head can be after a time :math:`\tau`.

    Attributes
    ----------
    values : float
        Bound on :math:`\|W_V\|+\|W_O\|`.
    query_slope : float
        Bound on :math:`\|\nabla_{W_Q}\Psi\|/\|W_K\|` and :math:`\|\nabla_{W_K}\Psi\|/\|W_Q\|`.
    queries : float
        Bound on :math:`\|W_Q\|+\|W_K\|`.
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

    Parameters
    ----------
    R_X, R_U : float
        Largest token norm, operator norm of ``W_U``.
    k : int
        Query and key dimension.
    tau : float
        Rescaled time, at least 0.
    values, queries : float
        :math:`N_V(0)` and :math:`N_Q(0)`, sums of Frobenius norms.

    Raises
    ------
    TypeError, ValueError
        If a radius is not positive, ``k`` is not a positive integer or another number is negative.

    Examples
    --------
    >>> growth_bound(R_X=1.0, R_U=1.0, k=1, tau=0.0, values=2.0, queries=3.0).queries
    3.0
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


# ---------------------------------------------------------------- approximation (Chapter 4)


def monte_carlo_rate(B: float, M: int) -> float:
    r"""Bound of Theorem 4.1 with its constant.

    .. math:: 0\le\inf R_M-\inf R\le\sqrt2\,B/\sqrt M

    M independent heads give logits within :math:`B/\sqrt M` in the mean, and the loss is
    :math:`\sqrt2`-Lipschitz. Derived in Chapter 4.

    Parameters
    ----------
    B : float
        Bound on the feature map.
    M : int
        Number of heads.

    Raises
    ------
    TypeError, ValueError
        If ``B`` is not a finite positive number or ``M`` is not a positive integer.

    Examples
    --------
    >>> round(monte_carlo_rate(B=1.0, M=8), 12)
    0.5
    """
    return loss_lipschitz() * validate.positive(B, "B") / math.sqrt(validate.count(M, "M"))


def sharp_rate(B: float, M: int) -> float:
    r"""Bound :math:`B^2/(4M)` on :math:`\inf R_M-\inf R`: the rate is 1/M.

    The loss is 1/2-smooth and the logits of sampled heads are unbiased, so the first-order term
    has mean zero and the second is at most :math:`\frac14\mathbb E\|\hat f-f\|^2\le B^2/(4M)`.
    Beyond the paper; derived in Chapter 4.

    Parameters
    ----------
    B : float
        Bound on the feature map.
    M : int
        Number of heads.

    Raises
    ------
    TypeError, ValueError
        If ``B`` is not a finite positive number or ``M`` is not a positive integer.

    Examples
    --------
    >>> sharp_rate(B=2.0, M=10)
    0.1
    """
    B = validate.positive(B, "B")
    return loss_smoothness() / 2 * B * B / validate.count(M, "M")


def variance_rate(sigma2: float, M: int) -> float:
    r"""Bound :math:`\sigma^2/(4M)` on the mean excess risk of M heads drawn from a measure.

    .. math:: \mathbb E\,R(\hat\mu_M)-R(\mu)\le\frac{\sigma^2}{4M}

    As :func:`sharp_rate`, with the variance of :func:`feature_variance` itself instead of its
    bound. Beyond the paper; derived in Chapter 4.

    Parameters
    ----------
    sigma2 : float
        Feature variance, at least 0.
    M : int
        Number of heads.

    Raises
    ------
    TypeError, ValueError
        If ``sigma2`` is negative or not finite, or ``M`` is not a positive integer.

    Examples
    --------
    >>> variance_rate(sigma2=4.0, M=10)
    0.1
    """
    sigma2 = validate.positive(sigma2, "sigma2", allow_zero=True)
    return loss_smoothness() / 2 * sigma2 / validate.count(M, "M")


def feature_variance(risk: AttentionRisk, mu: Measure) -> float:
    r"""Variance of the feature map over the heads of a measure.

    .. math:: \sigma^2=\mathbb E\Big[\frac1T\sum_t\int\|\varphi_t-f_t\|^2\,d\mu\Big]\le B^2

    Chapter 4. Memory does not grow with the number of heads.

    Parameters
    ----------
    risk : AttentionRisk
    mu : Measure
        Real heads.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or the heads do not fit the risk.

    Examples
    --------
    Two opposite heads on one token: features 1 and -1.

    >>> from mfbook.attention import HeadShape
    >>> R = AttentionRisk([[[1.0]]], [[[1.0, 0.0]]], [[1.0, 0.0]], HeadShape(1, 1, 1))
    >>> feature_variance(R, Measure([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, -1.0]]))
    1.0
    """
    return _over_heads(risk, mu, lambda z, p: (z**2).sum(axis=-1))


def leading_coefficient(risk: AttentionRisk, mu: Measure) -> float:
    r"""Coefficient of 1/M in the mean excess risk of M heads drawn from a measure.

    .. math:: \mathbb E\,R(\hat\mu_M)-R(\mu)=\frac{\kappa}{M}+O(M^{-2}),\qquad
              \kappa=\tfrac12\,\mathbb E\Big[\frac1T\sum_t
              \operatorname{tr}\big(J(f_t)\operatorname{Cov}_\mu\varphi_t\big)\Big]

    Second-order expansion of the loss at the mean-field logits; at most :math:`\sigma^2/4`.
    Beyond the paper; derived in Chapter 4.

    Parameters
    ----------
    risk : AttentionRisk
    mu : Measure
        Real heads.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or the heads do not fit the risk.

    Examples
    --------
    >>> from mfbook.attention import HeadShape
    >>> R = AttentionRisk([[[1.0]]], [[[1.0, 0.0]]], [[1.0, 0.0]], HeadShape(1, 1, 1))
    >>> leading_coefficient(R, Measure([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, -1.0]]))
    0.125
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
    sequences = max(1, BLOCK // (T * (T + V)))
    for i in range(0, S, sequences):
        s = slice(i, i + sequences)
        heads = max(1, BLOCK // (len(f[s]) * T * (T + V)))
        for j in range(0, mu.size, heads):
            h = slice(j, j + heads)
            z = features(mu.atoms[h], risk.X[s], risk.W_U, risk.shape) - f[s]
            total += mu.weights[h] @ quantity(z, p[s]).sum(axis=(1, 2))
    return float(total) / (S * T)
