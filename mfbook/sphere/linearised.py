r"""How the velocities of all particles respond to moving them: the exact Jacobian of the flow.

In tangent frames :math:`T_i` (columns span the tangent space at :math:`x_i`), moving particle l by
:math:`T_l\eta_l` changes the field at particle i, measured in its own frame, by

.. math:: \delta_{il}\big(T_i^\top[\beta\textstyle\sum_jw_jK_{ij}z_jz_j^\top
          +\sum_k\omega_k\sigma'(s_{ik})a_ka_k^\top]T_i-\langle x_i,G_i\rangle\big)\eta_i
          +w_lK_{il}\,T_i^\top(B+\beta z_l\,x_i^\top B)T_l\,\eta_l,

with :math:`z=By` and :math:`G` the ambient gradient. On the circle with B = I the second part has
rank twice the number of Fourier terms, so that an implicit step costs O(N K^2).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from mfbook.sphere import forces
from mfbook.sphere.forces import SHARPEST, turned

#: Rows of a dense Jacobian that are still reasonable: 5000 squared numbers are 200 MB.
LARGEST = 5000


def frames(x: np.ndarray) -> np.ndarray:
    """Orthonormal bases (n, d, d-1) of the tangent spaces at unit vectors x (n, d)."""
    d = x.shape[1]
    if d == 2:
        return turned(x)[:, :, None]
    # the other axes after the reflection I - 2 v v^T, v along x - s e_1, which maps s e_1 to x;
    # s = -sign(x_1) for stability
    v = x.copy()
    v[:, 0] += np.where(x[:, 0] > 0, 1.0, -1.0)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return np.eye(d)[None, :, 1:] - 2 * v[:, :, None] * v[:, None, 1:]


def jacobian(F, x, w, normalised: bool) -> np.ndarray:
    """Dense Jacobian of the field at all atoms, shape (n (d-1), n (d-1)), in frames."""
    n, d = x.shape
    T, z = frames(x), x if F.B is None else x @ F.B
    K = F.beta * (x @ z.T - F.shift)
    if normalised:  # only quotients count, and they survive far away from all weight
        K -= K[:, w > 0].max(axis=1, keepdims=True)
        np.minimum(K, 0, out=K)
    np.exp(K, out=K)
    K *= w
    if normalised:
        K /= K.sum(axis=1, keepdims=True)
    G = K @ z
    # d(N/Z) = dN/Z - (N/Z) dZ/Z: as without Z, with z - N/Z in the place of z
    mean = G if normalised else np.zeros_like(G)
    # each particle as an evaluation point: its own second derivative
    own = F.beta * ((K @ squares(z)).reshape(n, d, d) - mean[:, :, None] * mean[:, None])
    # each particle as a source: w_l K_il (B + beta z_l (B x_i)^T), measured in the frames
    flat = np.ascontiguousarray(T.transpose(0, 2, 1)).reshape(n * (d - 1), d)  # rows: frame vectors
    J = (flat @ (flat if F.B is None else flat @ F.B).T).reshape(n, d - 1, n, d - 1)
    inner = (flat @ z.T).reshape(n, d - 1, n, 1) - (mean[:, None] @ T).reshape(n, d - 1, 1, 1)
    J += (F.beta * inner) * (z @ flat.T).reshape(n, 1, n, d - 1)
    J *= K[:, None, :, None]
    if F.a is not None:
        slope = F.activation.slope(F._scores(x)) * F.omega
        own += (slope @ squares(F.a)).reshape(n, d, d)
        G = G + F._drift(x)
    i = np.arange(n)
    J[i, :, i] += T.transpose(0, 2, 1) @ own @ T
    J[i, :, i] -= (x * G).sum(axis=1)[:, None, None] * np.eye(d - 1)
    return J.reshape(n * (d - 1), n * (d - 1))


def squares(z):
    """The matrices z z^T of rows, flat."""
    return (z[:, :, None] * z[:, None]).reshape(-1, z.shape[1] ** 2)


class Linearised:
    """Jacobian J of the flow with velocity ``scale`` times u at the atoms x, for implicit steps."""

    def __init__(self, F: Any, x: np.ndarray, w: np.ndarray, scale: float) -> None:
        (n, d), self._frames = x.shape, frames(x)
        circle = d == 2 and F.B is None and F.beta <= SHARPEST
        if circle and 4 * (len(forces.fourier(F.beta)) - 1) < n:
            self._factor = _low_rank(F, x, w, scale)
        elif n * (d - 1) <= LARGEST:
            self._factor = _dense(scale * jacobian(F, x, w, F.normalised))
        else:
            raise ValueError(
                f"mu: expected at most {LARGEST} coordinates for a dense Jacobian, got "
                f"{n * (d - 1)}; merge particles or choose an explicit method"
            )
        self._known: tuple[float, Callable] | None = None

    def solve(self, c: float, b: np.ndarray) -> np.ndarray:
        """Return k with (I - c J) k = b, both shape (n, d); what is normal in b stays."""
        T = self._frames
        if self._known is None or self._known[0] != c:
            self._known = c, self._factor(c)
        # integrators try steps that are too long: where b is not finite, k is not
        with np.errstate(over="ignore", invalid="ignore"):
            inside = (b[:, None] @ T)[:, 0]
            change = self._known[1](inside.ravel()).reshape(inside.shape) - inside
            return b + (T @ change[:, :, None])[:, :, 0]


def _dense(J):
    def factor(c):
        factors = scipy.linalg.lu_factor(np.eye(len(J)) - c * J, check_finite=False)
        return lambda b: scipy.linalg.lu_solve(factors, b, check_finite=False)

    return factor


def _low_rank(F, x, w, scale):
    r"""Jacobian on the circle, a diagonal plus rank 2K: Woodbury's formula for each c.

    The small matrix holds sums over particles of products of cosines and sines of k and l times
    the angle. Products are sums of cosines and sines of k - l and k + l times it, so 2K + 1 moments
    are enough: O(N K) for the matrix, O(K^3) to factor it.
    """
    coefficients = forces.fourier(F.beta)
    k = np.arange(len(coefficients))
    even = coefficients * k * k / F.beta  # of -h''/beta
    # terms below 1e-13 of the largest change no digit that an implicit step uses
    k = k[1 : int(np.flatnonzero(even > 1e-13 * even.max())[-1]) + 1]
    order = len(k)
    root = np.sqrt(even[k])
    odd = coefficients[k] * k / root  # of -h', for the change of Z
    modes = forces.Powers(forces.as_complex(x), 2 * order + 1, chunk=len(x))
    Z, t, curvature = forces.CircleSums(x, w, F.beta)("Ztc")
    if normalised := F.normalised:
        curvature = curvature / Z - F.beta * (t / Z) ** 2
    else:
        Z = np.ones(len(x))
    ratio = t / Z
    D = scale * (curvature + _own_slope(F, x))
    difference, total = np.abs(k[:, None] - k), k[:, None] + k
    sign = np.sign(k - k[:, None])

    def gram(weights):
        """Sums of weights times cos cos, cos sin, sin cos, sin sin."""
        m = modes.moments(weights)
        cc, ss = m.real[difference] + m.real[total], m.real[difference] - m.real[total]
        cs = m.imag[total] + sign * m.imag[difference]
        return cc / 2, cs / 2, cs.T / 2, ss / 2

    def factor(c):
        S = 1 - c * D
        cc, cs, sc, ss = gram(w / (S * Z))
        small = np.block([[cc, cs], [sc, ss]]) * np.tile(root, 2)
        if normalised:  # d(t/Z) = dt/Z - t dZ/Z^2, and dZ has the antisymmetric kernel
            cc, cs, sc, ss = gram(w * ratio / (S * Z))
            small -= np.block([[cs, -cc], [ss, -sc]]) * np.tile(odd, 2)
        small *= -c * scale * np.tile(root, 2)[:, None]
        small[np.diag_indices(2 * order)] += 1
        factors = scipy.linalg.lu_factor(small, check_finite=False, overwrite_a=True)

        def solve(b):
            first = b / S
            m = root * modes.moments(w * first)[1 : order + 1]
            m = scipy.linalg.lu_solve(factors, np.concatenate([m.real, m.imag]), check_finite=False)
            m = m[:order] - 1j * m[order:]
            back = modes.polynomial(np.append(0, root * m)[None])[0]
            if normalised:
                back -= ratio * modes.polynomial(np.append(0, -1j * odd * m)[None])[0]
            return first + c * scale * back / (S * Z)

        return solve

    return factor


def _own_slope(F, x):
    """Second derivative of half the potential along the circle."""
    if F.a is None:
        return 0.0
    slope = F.activation.slope(F._scores(x)) * F.omega
    return (slope * (turned(x) @ F.a.T) ** 2).sum(axis=1) - (x * F._drift(x)).sum(axis=1)
