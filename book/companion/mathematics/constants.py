"""Constants that one page alone shows."""

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
