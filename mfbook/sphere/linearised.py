r"""How the velocities of all particles respond to moving them: the exact Jacobian of the flow.

In tangent frames :math:`T_i` (columns span the tangent space at :math:`x_i`), moving particle l by
:math:`T_l\eta_l` changes the field at particle i, measured in its own frame, by

.. math:: \delta_{il}\big(T_i^\top[\beta\textstyle\sum_jw_jK_{ij}z_jz_j^\top
          +\sum_k\omega_k\sigma'(s_{ik})a_ka_k^\top]T_i-\langle x_i,G_i\rangle\big)\eta_i
          +w_lK_{il}\,T_i^\top(B+\beta z_l\,x_i^\top B)T_l\,\eta_l,

with :math:`z=By` and :math:`G` the ambient gradient. On the circle with B = I the second part has
rank twice the number of Fourier terms, so that an implicit step costs O(N K^2).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from . import forces

#: Rows of a dense Jacobian that are still reasonable: 5000 squared numbers are 200 MB.
LARGEST = 5000


def frames(x) -> np.ndarray:
    """Orthonormal bases (n, d, d-1) of the tangent spaces at unit vectors x (n, d).

    On the circle the basis is the direction of increasing angle. In higher dimension it is the
    image of the standard basis under the reflection that maps the first axis to x.
    """
    n, d = x.shape
    if d == 2:
        return np.stack([-x[:, 1], x[:, 0]], axis=1)[:, :, None]
    # Householder: I - 2 v v^T with v along x - s e_1, s = -sign(x_1) for stability
    sign = np.where(x[:, 0] > 0, -1.0, 1.0)
    v = x.copy()
    v[:, 0] -= sign
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return np.eye(d)[None, :, 1:] - 2 * v[:, :, None] * v[:, None, 1:]


def jacobian(F, x, w, normalised: bool) -> np.ndarray:
    """Dense Jacobian of the field at all atoms, shape (n (d-1), n (d-1)), in frames."""
    n, d = x.shape
    T = frames(x)
    z = x if F.B is None else x @ F.B
    K = np.exp(F.beta * (x @ z.T - F.shift))
    Z = K @ w
    G = (K * w) @ z
    # the part of each particle's own position, as an evaluation point
    own = F.beta * np.einsum("ij,jp,jq->ipq", K * w, z, z, optimize=True)
    # as a source: w_l K_il (B + beta z_l (B x_i)^T), measured in the frames
    inner = np.einsum("idp,jd->ijp", T, z)  # T_i^T z_l
    BT = T if F.B is None else np.einsum("de,iep->idp", F.B, T)
    source = np.einsum("idp,jdq->ipjq", T, BT, optimize=True)
    tilt = np.einsum("id,jdq->ijq", z, T)  # (B x_i)^T T_l
    source += F.beta * inner.transpose(0, 2, 1)[:, :, :, None] * tilt[:, None]
    source *= (K * w)[:, None, :, None]
    if normalised:
        t = np.einsum("idp,id->ip", T, G)
        own = own / Z[:, None, None]
        own -= F.beta * np.einsum("ip,iq->ipq", G / Z[:, None], G / Z[:, None])
        dZ = F.beta * (K * w)[:, :, None] * tilt
        source -= (t / Z[:, None])[:, :, None, None] * dZ[:, None]
        source /= Z[:, None, None, None]
        G = G / Z[:, None]
    if F.a is not None:
        slope = F.activation.slope(F.scores(x)) * F.omega
        own = own + np.einsum("nj,jp,jq->npq", slope, F.a, F.a, optimize=True)
        G = G + F._drift(x)
    block = np.einsum("ndp,nde,neq->npq", T, own, T, optimize=True)
    block -= (x * G).sum(axis=1)[:, None, None] * np.eye(d - 1)
    i = np.arange(n)
    source[i, :, i] += block
    return source.reshape(n * (d - 1), n * (d - 1))


class Linearised:
    """The matrix J of a linearised flow, as what implicit steps need: solutions of (I - cJ)k = b.

    Made by :func:`linearise`.
    """

    def __init__(self, x, factor):
        self.x, self._factor, self._known = x, factor, (None, None)

    def solve(self, c: float, b) -> np.ndarray:
        """Return k with (I - c J) k = b, both shape (n, d); what is normal in b stays."""
        if self._known[0] != c:
            self._known = c, self._factor(c)
        T = frames(self.x)
        inside = np.einsum("idp,id->ip", T, b)
        change = self._known[1](inside.ravel()).reshape(inside.shape) - inside
        return b + np.einsum("idp,ip->id", T, change)


def linearise(F, x, w, scale: float, normalised: bool) -> Linearised:
    """Linearisation of the flow with velocity ``scale`` times u, at the atoms x (n, d).

    Raises
    ------
    ValueError
        If the Jacobian would be dense with more than 5000 rows.
    """
    n, d = x.shape
    rank = 2 * (len(forces.fourier(F.beta)) - 1) if d == 2 and F.B is None else n
    if d == 2 and F.B is None and 2 * rank < n:
        return Linearised(x, _low_rank(F, x, w, scale, normalised))
    if n * (d - 1) > LARGEST:
        raise ValueError(
            f"mu: expected at most {LARGEST} coordinates for a dense Jacobian, got {n * (d - 1)}; "
            "merge particles or choose an explicit method"
        )
    J = scale * jacobian(F, x, w, normalised)

    def dense(c):
        factors = lu_factor(np.eye(len(J)) - c * J, check_finite=False)
        return lambda b: lu_solve(factors, b, check_finite=False)

    return Linearised(x, dense)


def _low_rank(F, x, w, scale, normalised):
    r"""Jacobian on the circle, :math:`D+U^\top V`: Woodbury's formula for each c."""
    sums = forces.CircleSums.of(x, w, F.beta)
    coefficients = forces.fourier(F.beta)
    k = np.arange(len(coefficients))
    even = coefficients * k * k / F.beta  # of -h''/beta
    # terms below 1e-13 of the largest change no digit that an implicit step uses
    k = k[: int(np.flatnonzero(even > 1e-13 * even.max())[-1]) + 1][1:]
    root, odd = np.sqrt(even[k])[:, None], (coefficients[k] * k)[:, None]  # odd: of -h'
    powers = forces.powers(forces.as_complex(x), np.empty((len(k) + 1, len(x)), complex))[1:]
    cos, sin = root * powers.real, root * powers.imag
    Z, t, curvature = sums(x, "Ztc", own=True)
    U = np.concatenate([cos, sin])
    V = w * U
    if normalised:
        # d(t/Z) = dt/Z - t dZ/Z^2, and dZ has the antisymmetric kernel
        ratio = t / Z * (odd / root**2)
        U = (U - np.concatenate([ratio * sin, -ratio * cos])) / Z
        curvature = curvature / Z - F.beta * (t / Z) ** 2
    D = scale * (curvature + _own_slope(F, x))
    U = scale * U

    def factor(c):
        S = 1 - c * D
        small = np.eye(len(U)) - c * (V / S) @ U.T
        factors = lu_factor(small, check_finite=False)

        def solve(b):
            first = b / S
            return first + c * (lu_solve(factors, V @ first, check_finite=False) @ U) / S

        return solve

    return factor


def _own_slope(F, x):
    """Second derivative of half the potential along the circle."""
    if F.a is None:
        return 0.0
    turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    slope = F.activation.slope(F.scores(x)) * F.omega
    return (slope * (turned @ F.a.T) ** 2).sum(axis=1) - (x * F._drift(x)).sum(axis=1)

