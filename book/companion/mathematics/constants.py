"""Constants and bounds that one page alone shows."""

import math

import numpy as np
import scipy

from mfbook.bounds import score_bound


def sharp_jacobian_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Least possible L of Proposition 3.4: a sharper bound than ``jacobian_bound``.

    .. math:: \|\nabla_\theta\varphi_t\|_{op}\le\sqrt2\,R_XR_U\,r\,\max(1,g)

    Attained by one token if g <= 1, by two opposite tokens if g >= 1 and k >= 2; if g > 1 and
    k = 1 it is a supremum over the length of the sequence. Derived in Chapter 3.
    """
    return math.sqrt(2) * R_X * R_U * r * max(1.0, score_bound(R_X, r, k))


def hessian_attained(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Second derivative that is attained: no valid H is smaller than this.

    .. math:: R_XR_U\max_{|\beta|\le1}\left\|\begin{pmatrix}g\omega-4g^2\beta\omega&2g\omega\\
              2g\omega&\beta\end{pmatrix}\right\|_{op},\qquad\omega=1-\beta^2

    All tokens are equal or opposite, repeated so that the attended one is the fraction
    :math:`\beta` of them; the four matrices have rank one and are aligned. It is a supremum over
    the length of the sequence. Chapter 3; a search over all heads and tokens finds nothing larger.
    """
    g = score_bound(R_X, r, k)
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


def kl_envelope(tau: np.ndarray, E0: float, c: float, alpha: float) -> np.ndarray:
    r"""Bound of Theorem 6.10 on the gap at times after the inequality begins.

    .. math:: E\le E_0e^{-c\tau}\ (\alpha=\tfrac12),\qquad
              E\le\big(E_0^{-(2\alpha-1)}+(2\alpha-1)c\tau\big)^{-1/(2\alpha-1)}\ (\alpha>\tfrac12)
    """
    if alpha == 0.5:
        return E0 * np.exp(-c * tau)
    power = 2 * alpha - 1
    return E0 * np.exp(-np.log1p(power * c * E0**power * tau) / power)  # alpha may be near 1/2


def inflection(beta: float) -> float:
    r"""Angle up to which the kernel on the circle is concave, Lemma 5.3.

    .. math:: \cos u_*=\frac{\sqrt{1+4\beta^2}-1}{2\beta},\qquad
              u_*\sim\frac1{\sqrt\beta}\ (\beta\to\infty),\quad u_*\to\frac\pi2\ (\beta\to0)

    Computed from :math:`1-\cos u_*` without cancellation.
    """
    root = math.hypot(1, 2 * beta)
    return 2 * math.asin(math.sqrt((1 + 1 / (root + 2 * beta)) / (root + 1) / 2))
