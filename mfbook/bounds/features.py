"""Bounds on the feature map and its derivatives, Proposition 3.4 (Chapter 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = [
    "FeatureBounds",
    "data_radii",
    "feature_bound",
    "feature_bounds",
    "hessian_attained",
    "hessian_bound",
    "jacobian_bound",
    "score_bound",
    "sharp_jacobian_bound",
    "third_moment_constant",
]


def score_bound(R_X: float, r: float, k: int) -> float:
    r"""Bound g on the attention scores, the one number that says how sharp a head can be.

    .. math:: |\langle x_tW_Q,\,x_uW_K\rangle|/\sqrt k\;\le\;g=R_X^2r^2/\sqrt k

    Cauchy–Schwarz; attained by two equal tokens. Chapter 3, Proposition 3.4.

    - ``R_X``: Largest token norm.
    - ``r``: Largest operator norm of a matrix of the head.
    - ``k``: Query and key dimension.
    """
    R_X, r = validate.positive(R_X, "R_X"), validate.positive(r, "r")
    # products: a float power raises where it overflows, a product is infinite
    return (R_X * r) * (R_X * r) / math.sqrt(validate.count(k, "k"))


def _radii(R_X, R_U, r, k) -> tuple[float, float, float, float]:
    """The three radii as floats, and the bound on scores."""
    g = score_bound(R_X, r, k)
    return float(R_X), validate.positive(R_U, "R_U"), float(r), g


def third_moment_constant() -> float:
    r"""Constant :math:`c_3=4/(3\sqrt3)` of a third mixed moment of bounded variables.

    .. math:: |\mathbb E[(s-\bar s)^2(x-\bar x)]|\le c_3\qquad\text{if }|s|\le1,\ |x|\le1

    Equality for s = x = ±1 with :math:`P(s=1)=(1-1/\sqrt3)/2` (and its mirror image). Proved in
    Chapter 3; it enters :func:`hessian_bound`.
    """
    return 4 / (3 * math.sqrt(3))


def feature_bound(R_X: float, R_U: float, r: float) -> float:
    r"""Bound B on the feature map (Proposition 3.4 made explicit).

    .. math:: \|\varphi_t(X;\theta)\|\le B=R_XR_U\,r^2

    An attended token is an average of tokens, so its norm is at most :math:`R_X`; three matrices
    follow. Attained by one token. Derived in Chapter 3.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
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

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.
    """
    R_X, R_U, r, g = _radii(R_X, R_U, r, k)
    return math.sqrt(2) * R_X * R_U * r * math.hypot(1, g)


def sharp_jacobian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Least possible L: the bound of :func:`jacobian_bound`, sharpened.

    .. math:: \|\nabla_\theta\varphi_t\|_{op}\le\sqrt2\,R_XR_U\,r\,\max(1,g)

    A token average m leaves a variance of at most :math:`R_X^2-\|m\|^2`, so both effects of
    :func:`jacobian_bound` cannot be largest at once. Attained by one token if g <= 1, and by two
    opposite tokens if g >= 1 and k >= 2. If g > 1 and k = 1 it is the supremum over the length of
    the sequence: two opposite tokens, one of them exp(2g) times as often. Beyond the paper;
    derived in Chapter 3.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.
    """
    R_X, R_U, r, g = _radii(R_X, R_U, r, k)
    return math.sqrt(2) * R_X * R_U * r * max(1.0, g)


def hessian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Bound H on the second derivative of the feature map (Proposition 3.4 made explicit).

    .. math:: \|\nabla_\theta^2\varphi_t\|_{op}\le H=\tfrac12R_XR_U\Big[1+g+2c_3g^2
              +\sqrt{(1-g-2c_3g^2)^2+16g^2}\Big]

    The largest eigenvalue of the form :math:`(g+2c_3g^2)n^2+4g\,nw+w^2` in the sizes n of
    (W_Q, W_K) and w of (W_V, W_O) in a direction. Derived in Chapter 3. How far it is from the
    least possible constant is bounded by :func:`hessian_attained`: not at all in the limits of
    small and of large g, by a factor of 1.62 at most in between.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.
    """
    R_X, R_U, r, g = _radii(R_X, R_U, r, k)
    a = g + 2 * third_moment_constant() * g * g
    return R_X * R_U * (1 + a + math.hypot(1 - a, 4 * g)) / 2


def hessian_attained(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Second derivative that is attained: no valid H is smaller than this.

    .. math:: R_XR_U\max_{|\beta|\le1}\left\|\begin{pmatrix}g\omega-4g^2\beta\omega&2g\omega\\
              2g\omega&\beta\end{pmatrix}\right\|_{op},\qquad\omega=1-\beta^2

    All tokens are equal or opposite, repeated so that the attended one is the fraction
    :math:`\beta` of them; the four matrices have rank one and are aligned. It is a supremum over
    the length of the sequence. Chapter 3; a search over all heads and tokens finds nothing larger.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.
    """
    R_X, R_U, r, g = _radii(R_X, R_U, r, k)
    if not math.isfinite(g * g):
        return math.inf

    def norm(mu):
        w = 1 - mu**2
        a = g * w - 4 * g * g * mu * w
        return (np.abs(a + mu) + np.hypot(a - mu, 4 * g * w)) / 2

    # several local maxima: a grid finds the right one, a bounded search its value
    grid = np.linspace(-1, 1, 2001)
    i = int(norm(grid).argmax())
    near = (grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
    found = scipy.optimize.minimize_scalar(
        lambda mu: -norm(mu), bounds=near, options={"xatol": 1e-12}
    )
    largest = max(float(norm(grid[i])), -float(found.fun))
    return R_X * R_U * largest


@dataclass(frozen=True)
class FeatureBounds:
    """The three constants of Proposition 3.4: for the feature map and its two derivatives.

    - ``B, L, H``: Bounds on the logits of one head, and on its first and second derivative.
    """

    B: float
    L: float
    H: float


def feature_bounds(R_X: float, R_U: float, r: float, k: int) -> FeatureBounds:
    """Return B, L and H of Proposition 3.4 together.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.

    Returns with the attributes ``B``, ``L`` and ``H``.
    """
    return FeatureBounds(
        feature_bound(R_X, R_U, r), jacobian_bound(R_X, R_U, r, k), hessian_bound(R_X, R_U, r, k)
    )


def data_radii(X: ArrayLike, W_U: ArrayLike) -> tuple[float, float]:
    r"""Radii :math:`R_X=\max\|x\|` and :math:`R_U=\|W_U\|_{op}` of given data.

    - ``X`` (S, T, d): Tokens.
    - ``W_U`` (d, V): Fixed projection to the vocabulary.
    """
    X = validate.array(X, "X", ("S", "T", "d"), largest=validate.LARGEST)
    W_U = validate.array(W_U, "W_U", (X.shape[2], "V"), largest=validate.LARGEST)
    return float(np.linalg.norm(X, axis=-1).max()), float(np.linalg.norm(W_U, 2))
