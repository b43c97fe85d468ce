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
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ive

from .. import _validate as validate

__all__ = [
    "anticoncentration",
    "cluster_mass_bound",
    "fourier_coefficients",
    "funk_hecke",
    "heavy_atom_bound",
    "inflection",
    "kernel",
    "single_cluster_excluded",
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

    Parameters
    ----------
    u : array_like
        Angles in radians, of any shape.
    beta : float
        Inverse temperature, positive.

    Returns
    -------
    h, h', h'' : arrays, shape of ``u``

    Raises
    ------
    TypeError, ValueError
        If ``beta`` is not a finite positive number or ``u`` is not finite.

    Examples
    --------
    >>> [float(value) for value in kernel(0.0, 3.0)]
    [1.0, -0.0, -3.0]
    """
    beta, u = validate.scale(beta, "beta"), validate.array(u, "u", (...,))
    sine = np.sin(u)
    h = np.exp(-2 * beta * np.sin(u / 2) ** 2)
    # the factor beta next to h, which vanishes first: no product overflows
    return h, -beta * sine * h, beta * h * (beta * sine**2 - np.cos(u))


def fourier_coefficients(beta: float, tolerance: float = 1e-16) -> np.ndarray:
    r"""Fourier coefficients of the kernel on the circle, as many as matter.

    .. math:: e^{\beta(\cos u-1)}=c_0+2\sum_{k\ge1}c_k\cos ku,\qquad c_k=e^{-\beta}I_k(\beta)>0

    All are positive and decrease; they sum to 1 over all integers k, the kernel's value at 0. So
    ``tolerance`` is relative to the kernel's largest value. The force is the derivative divided
    by :math:`\beta`: for a small :math:`\beta` it needs a tolerance smaller by that factor.

    Parameters
    ----------
    beta : float
        Inverse temperature, positive.
    tolerance : float
        The first coefficient below it and all that follow are left out.

    Returns
    -------
    array, shape (K,)
        :math:`c_0,\dots,c_{K-1}`; at least one.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a finite positive number.

    Examples
    --------
    >>> [len(fourier_coefficients(beta)) for beta in (0.01, 1.0, 10.0, 50.0)]
    [6, 15, 31, 61]
    """
    beta = _countable(beta)
    tolerance = validate.positive(tolerance, "tolerance")
    K = 64
    while (c := ive(np.arange(K), beta))[-1] >= tolerance:
        K *= 2
    return c[: max(1, int(np.argmax(c < tolerance)))]


def funk_hecke(beta: float, d: int, k: ArrayLike, *, log: bool = False) -> np.ndarray:
    r"""Eigenvalues of the kernel on :math:`S^{d-1}`, Lemma 5.1: all are positive.

    .. math:: \int e^{\beta(\langle x,y\rangle-1)}Y_k(y)\,d\sigma(y)=\lambda_kY_k(x),\qquad
              \lambda_k=\Gamma(\tfrac d2)\Big(\frac2\beta\Big)^{\frac d2-1}
              I_{k+\frac d2-1}(\beta)\,e^{-\beta}

    for every spherical harmonic :math:`Y_k` of degree k; :math:`\sigma` is the uniform
    probability measure. On the circle these are :func:`fourier_coefficients`. Hence the kernel
    is strictly positive definite, and the energy strictly convex along mixtures.

    The Bessel function underflows long before its product with the prefactor does (d = 200,
    :math:`\beta=1`), so it is not called. The ratios
    :math:`\lambda_{k+1}/\lambda_k=I_{\nu+1}/I_\nu=:r_\nu` with :math:`\nu=k+\frac d2-1` obey

    .. math:: r_{\nu-1}=\frac{\beta}{2\nu+\beta r_\nu},

    downwards a stable recurrence of positive numbers, and :math:`\sum_kN_k\lambda_k=1`, the
    kernel's value at x = y, fixes the scale; :math:`N_k` is the number of independent harmonics
    of degree k.

    Parameters
    ----------
    beta : float
        Inverse temperature, positive.
    d : int
        Dimension of the ambient space, at least 2.
    k : int or array_like of int
        Degrees, at least 0.
    log : bool
        Return :math:`\log\lambda_k`, which does not underflow.

    Returns
    -------
    array, shape of ``k``

    Raises
    ------
    TypeError, ValueError
        If an argument is not such a number.

    Examples
    --------
    >>> bool(np.isclose(funk_hecke(2.0, 3, 0), (1 - np.exp(-4)) / 4))
    True
    >>> np.allclose(funk_hecke(5.0, 2, range(9)), fourier_coefficients(5.0)[:9])
    True
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


def inflection(beta: float) -> float:
    r"""Angle up to which the kernel is concave, Lemma 5.3.

    .. math:: \cos u_*=\frac{\sqrt{1+4\beta^2}-1}{2\beta},\qquad
              u_*\sim\frac1{\sqrt\beta}\ (\beta\to\infty),\quad u_*\to\frac\pi2\ (\beta\to0)

    Computed from :math:`1-\cos u_*` without cancellation.

    Parameters
    ----------
    beta : float
        Inverse temperature.

    Returns
    -------
    float
        An angle.

    Raises
    ------
    TypeError, ValueError
        If ``beta`` is not a finite positive number.

    Examples
    --------
    >>> round(inflection(1e6) * 1e3, 6)
    1.0
    """
    beta = validate.scale(beta, "beta")
    root = math.hypot(1, 2 * beta)
    return _angle((1 + 1 / (root + 2 * beta)) / (root + 1))


def _angle(versine: float) -> float:
    """Angle in [0, pi] whose cosine is 1 - versine."""
    return 2 * math.asin(math.sqrt(min(versine / 2, 1.0)))


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
    0.6619 for :math:`\gamma=\frac12`, and :math:`b\to2e^{-3/2}`.

    The theorem says something only if a > 0, that is if :math:`\gamma/\sqrt\beta<u_*`. Since
    :math:`\beta=\cos u_*/\sin^2u_*`, and :math:`u^2\cos u/\sin^2u` decreases from 1 to 0 on
    :math:`(0,\frac\pi2)`, this holds if and only if :math:`\gamma<1` and :math:`\beta` is above a
    threshold: about 0.1183 for :math:`\gamma=\frac12`. For :math:`\gamma\ge1` it never holds.

    Parameters
    ----------
    beta : float
        Inverse temperature, positive.
    gamma : float
        Size of a cluster in units of :math:`1/\sqrt\beta`, positive; the paper has one half.

    Returns
    -------
    a, b : float
        b is positive; a may have either sign, and a >= -b.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a finite positive number.

    Examples
    --------
    >>> a, b = anticoncentration(1e8)
    >>> round(a, 4), round(b, 4)
    (0.6619, 0.4463)
    >>> anticoncentration(0.118)[0] > 0, anticoncentration(0.119)[0] > 0
    (False, True)
    """
    beta, gamma = validate.scale(beta, "beta"), validate.scale(gamma, "gamma")
    reach = min(gamma / math.sqrt(beta), math.pi)
    if beta >= 1 / 3:
        # beta (1 - c_+), rationalised
        drop = (6 * beta + 2) / (2 * beta + 3 + math.hypot(math.sqrt(5), 2 * beta))
        b = math.exp(-drop) * (2 + (1 - 2 * drop) / beta)
        if reach >= _angle(drop / beta):
            return -b, b
    else:
        b = math.exp(-2 * beta)
    sine, half = math.sin(reach), math.sin(reach / 2)
    return math.exp(-2 * beta * half * half) * (math.cos(reach) - beta * sine * sine), b


def cluster_mass_bound(beta: float, lipschitz_omega: float, gamma: float = 0.5) -> float:
    r"""Largest mass of a cluster in a second-order state of descent on the circle, Theorem 3.5.

    .. math:: m(C)\le\frac{b+\operatorname{Lip}(\sigma)\|\omega\|_1}{a+b}

    for every set C of two or more atoms with pairwise distances at most :math:`\gamma/\sqrt\beta`
    in a second-order critical measure with finitely many atoms; constants of
    :func:`anticoncentration`. The paper states limits of large :math:`\beta`; this is the same
    argument for every :math:`\beta`. Move the atoms of C by :math:`\eta` with
    :math:`\sum_Cm_i\eta_i=0`. Pairs inside C contribute at most
    :math:`-a\,m(C)\sum m_i\eta_i^2`, pairs across at most :math:`b(1-m(C))\sum m_i\eta_i^2`, and
    :math:`|\frac12v''|=|\sum_j\omega_j(\sigma'\sin^2-\sigma\cos)|\le\operatorname{Lip}\|\omega\|_1`
    because :math:`\sigma(0)=0`. The sum must not be negative. Single atoms are not bounded.

    Parameters
    ----------
    beta : float
        Inverse temperature, positive.
    lipschitz_omega : float
        :math:`\operatorname{Lip}(\sigma)\|\omega\|_1`, at least 0; the Lipschitz constant on
        [-1, 1] is enough.
    gamma : float
        Size of a cluster in units of :math:`1/\sqrt\beta`.

    Returns
    -------
    float
        At most 1. It is 1, and says nothing, unless ``lipschitz_omega < a``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not such a number.

    Examples
    --------
    >>> round(cluster_mass_bound(1e8, 0.0), 4)
    0.4027
    >>> cluster_mass_bound(50.0, 0.7), cluster_mass_bound(0.1, 0.0)
    (1.0, 1.0)
    """
    a, b = anticoncentration(beta, gamma)
    size = validate.positive(lipschitz_omega, "lipschitz_omega", allow_zero=True)
    # also covers a <= 0, where the quotient may be 0 / 0
    return (b + size) / (a + b) if size < a else 1.0


def single_cluster_excluded(beta: float, lipschitz_omega: float, gamma: float = 0.5) -> bool:
    r"""Whether Theorem 3.5 excludes that all atoms, two or more, form one cluster.

    .. math:: \operatorname{Lip}(\sigma)\|\omega\|_1<a

    Arguments and errors as in :func:`cluster_mass_bound`.

    Parameters
    ----------
    beta, lipschitz_omega, gamma : float
        As of :func:`cluster_mass_bound`.

    Returns
    -------
    bool
        Whether the condition holds.

    Examples
    --------
    >>> single_cluster_excluded(50.0, 0.5), single_cluster_excluded(50.0, 0.7)
    (True, False)
    """
    a, _ = anticoncentration(beta, gamma)
    return validate.positive(lipschitz_omega, "lipschitz_omega", allow_zero=True) < a


def heavy_atom_bound(
    beta: float,
    kappa: float,
    m_bar: float,
    gamma: float = 0.5,
    arcs: float | Sequence[float] = 2 * math.pi,
) -> tuple[float, float]:
    r"""Number of atoms of mass at least :math:`\kappa`: Corollary 3.6 and the trivial bound.

    .. math::
        \#\{i:m_i\ge\kappa\}&\le N\,\frac{\max(\bar m,\kappa)}\kappa,\quad
        N=\sum_l\Big\lceil\frac{\ell_l\sqrt\beta}\gamma\Big\rceil,\\
        \#\{i:m_i\ge\kappa\}&\le\frac1\kappa

    for a measure as in Theorem 3.5 whose support lies in arcs of lengths :math:`\ell_l`. The
    arcs are cut into N pieces shorter than a cluster; each holds a single atom, or mass at most
    :math:`\bar m`.

    The first bound is smaller than the second if and only if :math:`N\max(\bar m,\kappa)<1`. For
    :math:`\gamma=\frac12` the bound on clusters is never below 0.3838 (its value at
    :math:`\beta=1.618` and no perceptron), so that needs :math:`N\le2`. On the whole circle with
    :math:`\beta\ge1` it is always weaker, since there :math:`N\ge13`.

    Parameters
    ----------
    beta : float
        Inverse temperature, positive.
    kappa : float
        Mass of a heavy atom, in (0, 1].
    m_bar : float
        Bound on the mass of a cluster, in (0, 1]: :func:`cluster_mass_bound`.
    gamma : float
        Size of a cluster in units of :math:`1/\sqrt\beta`, the same as for ``m_bar``.
    arcs : float or sequence of float
        Lengths of the arcs that hold the support, in radians; at most one turn in total.

    Returns
    -------
    corollary, trivial : float
        Neither is rounded down to an integer.

    Raises
    ------
    TypeError, ValueError
        If an argument is not such a number.

    Examples
    --------
    >>> heavy_atom_bound(1.0, 0.1, 0.5)
    (65.0, 10.0)
    """
    beta, gamma = validate.scale(beta, "beta"), validate.scale(gamma, "gamma")
    kappa, m_bar = validate.scale(kappa, "kappa"), validate.scale(m_bar, "m_bar")
    for name, value in (("kappa", kappa), ("m_bar", m_bar)):
        if value > 1:
            raise ValueError(f"{name}: expected a mass in (0, 1], got {value:g}")
    lengths = validate.array(np.atleast_1d(validate.plain(arcs, "arcs")), "arcs", ("n",))
    if (lengths <= 0).any():
        raise ValueError(f"arcs: expected positive lengths, got {lengths.min():g}")
    if lengths.sum() > 2 * math.pi * (1 + 1e-12):
        raise ValueError(f"arcs: expected at most one turn in total, got {lengths.sum():g}")
    pieces = np.ceil(lengths * math.sqrt(beta) / gamma).sum()
    return float(pieces) * max(m_bar, kappa) / kappa, 1 / kappa
