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

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook._blocks import blocks
from mfbook.space import Sphere
from mfbook.sphere import forces
from mfbook.sphere.forces import SHARPEST

#: Rows of a dense Jacobian that are still reasonable: 5000 squared numbers are 200 MB.
LARGEST = 5000


def frames(x: np.ndarray) -> np.ndarray:
    """Orthonormal bases (n, d, d-1) of the tangent spaces at unit vectors x (n, d).

    On the circle the basis is the direction of increasing angle. In higher dimension it is the
    image of the standard basis under the reflection that maps the first axis to x.

    - ``x`` (n, d): Unit vectors.
    """
    x = validate.array(x, "x", ("n", "d"))
    if x.shape[1] < 2:
        raise ValueError(f"x: expected points in R^d with d >= 2, got d = {x.shape[1]}")
    if not Sphere().contains(x).all():
        raise ValueError("x: expected unit vectors")
    return _frames(x)


def _frames(x) -> np.ndarray:
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
    T = _frames(x)
    z = x if F.B is None else x @ F.B
    K = F.beta * (x @ z.T - F.shift)
    if normalised:  # only quotients count, and they survive far away from all weight
        K -= K[:, w > 0].max(axis=1, keepdims=True)
        np.minimum(K, 0, out=K)
    np.exp(K, out=K)
    K *= w
    Z, G = K.sum(axis=1), K @ z
    flat = np.ascontiguousarray(T.transpose(0, 2, 1)).reshape(n * (d - 1), d)  # rows: frame vectors
    # each particle as an evaluation point: its own second derivative
    own = F.beta * (K @ (z[:, :, None] * z[:, None]).reshape(n, d * d)).reshape(n, d, d)
    # each particle as a source: w_l K_il (B + beta z_l (B x_i)^T), measured in the frames
    source = flat @ (flat if F.B is None else flat @ F.B).T
    source = source.reshape(n, d - 1, n, d - 1)
    inner = (flat @ z.T).reshape(n, d - 1, n, 1)  # T_i^T z_l
    tilt = (z @ flat.T).reshape(n, 1, n, d - 1)  # (B x_i)^T T_l
    source += (F.beta * inner) * tilt
    source *= K[:, None, :, None]
    if normalised:
        # d(N/Z) = dN/Z - N dZ/Z^2
        part = (flat.reshape(n, d - 1, d) @ G[:, :, None]).reshape(n, d - 1, 1, 1)
        ratio = Z[:, None, None]
        own = own / ratio - F.beta * (G[:, :, None] * G[:, None]) / ratio**2
        source -= part / ratio[..., None] * (F.beta * K[:, None, :, None] * tilt)
        source /= ratio[..., None]
        G = G / Z[:, None]
    if F.a is not None:
        slope = F.activation.slope(F._scores(x)) * F.omega
        squares = (F.a[:, :, None] * F.a[:, None]).reshape(-1, d * d)
        own = own + (slope @ squares).reshape(n, d, d)
        G = G + F._drift(x)
    block = T.transpose(0, 2, 1) @ own @ T
    block -= (x * G).sum(axis=1)[:, None, None] * np.eye(d - 1)
    i = np.arange(n)
    source[i, :, i] += block
    return source.reshape(n * (d - 1), n * (d - 1))


class Linearised:
    """The matrix J of a linearised flow, as what implicit steps need: solutions of (I - cJ)k = b.

    Made by :meth:`Field.linearised`.
    """

    def __init__(self, x: np.ndarray, factor: Callable) -> None:
        self.x, self._factor = x, factor
        self._known: tuple[float, Callable] | None = None

    @cached_property
    def _frames(self) -> np.ndarray:
        return _frames(self.x)

    def solve(self, c: float, b: np.ndarray) -> np.ndarray:
        """Return k with (I - c J) k = b, both shape (n, d); what is normal in b stays.

        Where b is not finite, k is not: integrators try steps that are too long.

        - ``c``: A step.
        - ``b`` (n, d): Any vectors.

        Returns shape (n, d): The solution.
        """
        c, b = validate.finite(c, "c"), validate.plain(b, "b")
        if b.dtype.kind not in "biuf" or b.shape != self.x.shape:
            raise ValueError(
                f"b: expected real numbers of shape {self.x.shape}, got {b.dtype} {b.shape}"
            )
        if self._known is None or self._known[0] != c:
            self._known = c, self._factor(c)
        T = self._frames
        with np.errstate(over="ignore", invalid="ignore"):
            inside = (b[:, None] @ T)[:, 0]
            change = self._known[1](inside.ravel()).reshape(inside.shape) - inside
            return b + (T @ change[:, :, None])[:, :, 0]


def linearise(F, x, w, scale: float, normalised: bool) -> Linearised:
    """Linearisation of the flow with velocity ``scale`` times u, at the atoms x (n, d)."""
    n, d = x.shape
    series = d == 2 and F.B is None and F.beta <= SHARPEST
    rank = 2 * (len(forces.fourier(F.beta)) - 1) if series else n
    if series and 2 * rank < n:
        return Linearised(x, _low_rank(F, x, w, scale, normalised))
    if n * (d - 1) > LARGEST:
        raise ValueError(
            f"mu: expected at most {LARGEST} coordinates for a dense Jacobian, got {n * (d - 1)}; "
            "merge particles or choose an explicit method"
        )
    J = scale * jacobian(F, x, w, normalised)

    def dense(c):
        factors = scipy.linalg.lu_factor(np.eye(len(J)) - c * J, check_finite=False)
        return lambda b: scipy.linalg.lu_solve(factors, b, check_finite=False)

    return Linearised(x, dense)


class _Modes:
    """Moments and polynomials of all particles at once, from one table of powers."""

    def __init__(self, x, count):
        z = forces.as_complex(x)
        self.powers = [forces.Powers(z[part], count) for part in blocks(len(z), forces.CHUNKS[1])]
        self.parts = np.cumsum([0, *(p.low.shape[1] for p in self.powers)])

    def moments(self, w, count):
        """Sums of w z^k over the particles, k < count."""
        pieces = np.split(w, self.parts[1:-1])
        total: Any = sum(p.moments(v) for p, v in zip(self.powers, pieces, strict=True))
        return total[:count]

    def polynomial(self, c):
        """Real parts of sum_k c_k z^k at the particles."""
        size = self.powers[0].s * self.powers[0].t
        c = np.append(c, np.zeros(size - len(c)))[None]
        return np.concatenate([p.polynomial(c)[0] for p in self.powers])


def _low_rank(F, x, w, scale, normalised):
    r"""Jacobian on the circle, a diagonal plus rank 2K: Woodbury's formula for each c.

    The small matrix holds sums over particles of products of cosines and sines of k and l times
    the angle. Products are sums of cosines and sines of k - l and k + l times it, so 2K + 1 moments
    are enough: O(N K) for the matrix, O(K^3) to factor it.
    """
    sums = forces.CircleSums.of(x, w, F.beta)
    coefficients = forces.fourier(F.beta)
    k = np.arange(len(coefficients))
    even = coefficients * k * k / F.beta  # of -h''/beta
    # terms below 1e-13 of the largest change no digit that an implicit step uses
    k = k[1 : int(np.flatnonzero(even > 1e-13 * even.max())[-1]) + 1]
    order = len(k)
    root = np.sqrt(even[k])
    odd = coefficients[k] * k / root  # of -h', for the change of Z
    modes = _Modes(x, 2 * order + 1)
    Z, t, curvature = sums(x, "Ztc", own=True)
    if normalised:
        curvature = curvature / Z - F.beta * (t / Z) ** 2
    else:
        Z = np.ones(len(x))
    ratio = t / Z
    D = scale * (curvature + _own_slope(F, x))
    difference, total = np.abs(k[:, None] - k), k[:, None] + k
    sign = np.sign(k - k[:, None])

    def gram(weights):
        """Sums of weights times cos cos, cos sin, sin cos, sin sin."""
        m = modes.moments(weights, 2 * order + 1)
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
            m = root * modes.moments(w * first, order + 1)[1:]
            m = scipy.linalg.lu_solve(factors, np.concatenate([m.real, m.imag]), check_finite=False)
            m = m[:order] - 1j * m[order:]
            back = modes.polynomial(np.append(0, root * m))
            if normalised:
                back = back - ratio * modes.polynomial(np.append(0, -1j * odd * m))
            return first + c * scale * back / (S * Z)

        return solve

    return factor


def _own_slope(F, x):
    """Second derivative of half the potential along the circle."""
    if F.a is None:
        return 0.0
    turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    slope = F.activation.slope(F._scores(x)) * F.omega
    return (slope * (turned @ F.a.T) ** 2).sum(axis=1) - (x * F._drift(x)).sum(axis=1)
