r"""The attention kernel as a function of the angle: derivatives, coefficients, concentration.

On the circle the kernel between two points at angle u is

.. math:: h(u)=e^{\beta(\cos u-1)},\qquad h''(u)=\beta e^{\beta(\cos u-1)}(\beta\sin^2u-\cos u).

It is concave near 0 and convex further out. In descent the first drives the atoms of a cluster
apart, the second lets the rest press them together: that is Theorem 3.5 of Álvarez-López,
Geshkovski and Ruiz-Balet (arXiv 2601.21366). All numbers of results here are theirs. The
functions make the theorem explicit for every :math:`\beta`.
"""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = ["anticoncentration", "funk_hecke", "kernel"]


def kernel(u: ArrayLike, beta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Kernel on the circle and its first two derivatives in the angle u in radians, (5.7).

    .. math:: h=e^{\beta(\cos u-1)},\quad h'=-\beta\sin u\,h,\quad
              h''=\beta(\beta\sin^2u-\cos u)\,h
    """
    beta, u = validate.scale(beta, "beta"), validate.array(u, "u", (...,))
    sine = np.sin(u)
    h = np.exp(-2 * beta * np.sin(u / 2) ** 2)  # which does not cancel at small angles
    # the factor beta next to h, which vanishes first: no product overflows
    return h, -beta * sine * h, beta * h * (beta * sine**2 - np.cos(u))


def funk_hecke(beta: float, d: int, k: ArrayLike) -> np.ndarray:
    r"""Eigenvalues of the kernel on :math:`S^{d-1}` for degrees k, Lemma 5.1: all are positive.

    .. math:: \int e^{\beta(\langle x,y\rangle-1)}Y_k(y)\,d\sigma(y)=\lambda_kY_k(x),\qquad
              \lambda_k=\Gamma(\tfrac d2)\Big(\frac2\beta\Big)^{\frac d2-1}
              I_{k+\frac d2-1}(\beta)\,e^{-\beta}

    for every spherical harmonic :math:`Y_k` of degree k; :math:`\sigma` is the uniform
    probability measure. On the circle these are the Fourier coefficients
    :math:`e^{-\beta}I_k(\beta)`. Hence the kernel is strictly positive definite, and the energy
    strictly convex along mixtures.
    """
    beta, d = validate.scale(beta, "beta"), validate.count(d, "d", least=2)
    k = validate.array(k, "k", (...,))
    if (k < 0).any() or (k % 1).any():
        raise ValueError(f"k: expected degrees 0, 1, 2, ..., got {k.tolist()}")
    order = k + d / 2 - 1
    special = scipy.special
    bessel = special.ive(order, beta)
    # I underflows long before its product with the prefactor does: there its power series
    small = bessel < 1e-250
    series = np.log(special.hyp0f1(order + 1, np.where(small, beta**2 / 4, 0))) - beta
    series += order * math.log(beta / 2) - special.gammaln(order + 1)
    log = np.where(small, series, np.log(np.where(small, 1, bessel)))
    return np.exp(log + special.gammaln(d / 2) - (d / 2 - 1) * math.log(beta / 2))


def anticoncentration(beta: float, gamma: float = 0.5) -> tuple[float, float]:
    r"""Constants a and b of Theorem 3.5, exact for every :math:`\beta`.

    .. math:: a=-\max_{|u|\le\gamma/\sqrt\beta}\frac{h''(u)}\beta,\qquad
              b=\max_u\frac{h''(u)}\beta

    With :math:`c=\cos u` one has :math:`h''/\beta=g(c)=e^{\beta(c-1)}(\beta(1-c^2)-c)` and
    :math:`g'=e^{\beta(c-1)}(\beta^2-1-3\beta c-\beta^2c^2)`. One root of the bracket is below -1.
    The other, :math:`c_+=(\sqrt{5+4\beta^2}-3)/(2\beta)`, is below 1, and at least -1 if and only
    if :math:`\beta\ge\frac13`. So g increases up to :math:`c_+` and decreases beyond it:

    .. math:: b=\begin{cases}e^{\beta(c_+-1)}(2c_++1/\beta)&\beta\ge\frac13\\
              e^{-2\beta}&\beta\le\frac13\end{cases}

    and the largest value near 0 is at the end of the interval, or b if the interval reaches
    :math:`c_+`. As :math:`\beta\to\infty`: :math:`a\to(1-\gamma^2)e^{-\gamma^2/2}`, which is
    0.6619 for the paper's :math:`\gamma=\frac12`, and :math:`b\to2e^{-3/2}`.

    The theorem says something only if a > 0, that is :math:`\gamma/\sqrt\beta<u_*`: if and only if
    :math:`\gamma<1` and :math:`\beta` is above a threshold, 0.1183 for :math:`\gamma=\frac12`.
    """
    beta, gamma = validate.scale(beta, "beta"), validate.scale(gamma, "gamma")
    reach = min(gamma / math.sqrt(beta), math.pi)
    if beta >= 1 / 3:
        # beta (1 - c_+), rationalised
        drop = (6 * beta + 2) / (2 * beta + 3 + math.hypot(math.sqrt(5), 2 * beta))
        b = math.exp(-drop) * (2 + (1 - 2 * drop) / beta)
        if reach >= 2 * math.asin(math.sqrt(min(drop / beta / 2, 1.0))):  # the angle of c_+
            return -b, b
    else:
        b = math.exp(-2 * beta)
    sine, half = math.sin(reach), math.sin(reach / 2)
    return math.exp(-2 * beta * half * half) * (math.cos(reach) - beta * sine * sine), b
