r"""The attention kernel as a function of the angle: derivatives, coefficients, concentration.

On the circle the kernel between two points at angle u is

.. math:: h(u)=e^{\beta(\cos u-1)},\qquad h''(u)=\beta e^{\beta(\cos u-1)}(\beta\sin^2u-\cos u).

It is concave near 0 and convex further out. In descent the first drives the atoms of a cluster
apart, the second lets the rest press them together: that is Theorem 3.5 of Álvarez-López,
Geshkovski and Ruiz-Balet (arXiv 2601.21366). All numbers of results here are theirs. The
functions make the theorem explicit for every :math:`\beta`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from mfbook import _validate as validate

__all__ = [
    "funk_hecke",
    "kernel",
]

#: Logarithm of the share of the last harmonic, below which a sum over harmonics has converged.
NEGLIGIBLE = -46.0

#: Largest inverse temperature and degree for which harmonics are listed: seconds.
SHARPEST, HARMONICS = 1e10, 10**7


def kernel(u: ArrayLike, beta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Kernel on the circle and its first two derivatives in the angle, equation (5.7).

    .. math:: h=e^{\beta(\cos u-1)},\quad h'=-\beta\sin u\,h,\quad
              h''=\beta(\beta\sin^2u-\cos u)\,h

    The exponent is computed as :math:`-2\beta\sin^2(u/2)`, which does not cancel at small angles.

    - ``u``: Angles in radians, of any shape.
    - ``beta``: Inverse temperature, positive.
    """
    beta, u = validate.scale(beta, "beta"), validate.array(u, "u", (...,))
    sine = np.sin(u)
    h = np.exp(-2 * beta * np.sin(u / 2) ** 2)
    # the factor beta next to h, which vanishes first: no product overflows
    return h, -beta * sine * h, beta * h * (beta * sine**2 - np.cos(u))


def funk_hecke(beta: float, d: int, k: ArrayLike, *, log: bool = False) -> np.ndarray:
    r"""Eigenvalues of the kernel on :math:`S^{d-1}`, Lemma 5.1: all are positive.

    .. math:: \int e^{\beta(\langle x,y\rangle-1)}Y_k(y)\,d\sigma(y)=\lambda_kY_k(x),\qquad
              \lambda_k=\Gamma(\tfrac d2)\Big(\frac2\beta\Big)^{\frac d2-1}
              I_{k+\frac d2-1}(\beta)\,e^{-\beta}

    for every spherical harmonic :math:`Y_k` of degree k; :math:`\sigma` is the uniform
    probability measure. On the circle these are the Fourier coefficients
    :math:`e^{-\beta}I_k(\beta)`. Hence the kernel is strictly positive definite, and the energy
    strictly convex along mixtures.

    The Bessel function underflows long before its product with the prefactor does (d = 200,
    :math:`\beta=1`), so it is not called. The ratios
    :math:`\lambda_{k+1}/\lambda_k=I_{\nu+1}/I_\nu=:r_\nu` with :math:`\nu=k+\frac d2-1` obey

    .. math:: r_{\nu-1}=\frac{\beta}{2\nu+\beta r_\nu},

    downwards a stable recurrence of positive numbers, and :math:`\sum_kN_k\lambda_k=1`, the
    kernel's value at x = y, fixes the scale; :math:`N_k` is the number of independent harmonics
    of degree k.

    - ``beta``: Inverse temperature, positive.
    - ``d``: Dimension of the ambient space, at least 2.
    - ``k``: Degrees, at least 0.
    - ``log``: Return :math:`\log\lambda_k`, which does not underflow.
    """
    beta, d = _countable(beta), validate.count(d, "d", least=2)
    log, degrees = validate.flag(log, "log"), validate.plain(k, "k")
    if degrees.dtype.kind not in "iu" or degrees.size == 0:
        raise TypeError(f"k: expected integers, got {k!r}")
    if (degrees < 0).any():
        raise ValueError(f"k: expected degrees >= 0, got {degrees.min()}")
    if degrees.max() > HARMONICS:
        raise ValueError(f"k: expected degrees up to {HARMONICS:g}, got {degrees.max()}")
    K = max(64, int(degrees.max()) + 1)
    while True:
        # log(lambda_k / lambda_0), and the share of degree k in the sum that is one
        relative = _log_ratios(beta, d, K)
        share = relative + _log_multiplicity(d, K)
        largest = share.max()
        # the shares are log-concave: where one is negligible so is all that follows
        if share[-1] <= largest + NEGLIGIBLE:
            break
        K *= 2
    total = largest + math.log(np.exp(share - largest).sum())
    values = relative[degrees] - total
    return values if log else np.exp(values)


def _countable(beta) -> float:
    """An inverse temperature whose harmonics can be listed: about nine times its root."""
    beta = validate.scale(beta, "beta")
    if beta > SHARPEST:
        raise ValueError(f"beta: expected at most {SHARPEST:g}, got {beta:g}")
    return beta


def _log_ratios(beta: float, d: int, K: int) -> np.ndarray:
    r"""Return :math:`\log(\lambda_k/\lambda_0)` for k < K."""
    # all ratios are below 1; from 1 at a higher degree the recurrence contracts the error, by the
    # product of the ratios on the way, to less than rounding
    ratio, ratios = 1.0, np.empty(K)
    for k in range(K + K // 2, 0, -1):
        ratio = beta / (2 * k + d - 2 + beta * ratio)
        if k < K:
            ratios[k] = ratio
    ratios[0] = 1.0
    return np.log(ratios).cumsum()


def _log_multiplicity(d: int, K: int) -> np.ndarray:
    r"""Logarithm of the number of harmonics, :math:`N_k=\frac{2k+d-2}{k}\binom{k+d-3}{k-1}`."""
    k = np.arange(1, K)
    count = np.log(2 * k + d - 2) + gammaln(k + d - 2) - gammaln(k + 1) - gammaln(d - 1)
    return np.concatenate([[0.0], count])


def _angle(versine: float) -> float:
    """Angle in [0, pi] whose cosine is 1 - versine."""
    return 2 * math.asin(math.sqrt(min(versine / 2, 1.0)))
