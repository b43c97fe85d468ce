r"""What one head can reach: an upper bound on :math:`\sigma_1(C)` over all (W_Q, W_K).

With :math:`G=W_QW_K^\top/\sqrt k` the query at position t meets its keys through
:math:`h_t=G^\top x_t`. It attends to :math:`m_t(h)=\sum_j\operatorname{softmax}(\langle
h,x_j\rangle)_j\,x_j`, and :math:`C=\mathbb E\frac1T\sum_tm_tZ_t^\top`. All positions share G. For
any matrices :math:`L_t` write :math:`m_t(h)=\bar x_t+L_th+\Delta_t(h)`. With
:math:`c=r^2/\sqrt k`, :math:`\rho_t=c\|x_t\|`, :math:`a_t=\langle Z_t,v\rangle`

.. math:: u^\top Cv\le B(u,v)=u^\top\bar Cv
          +c\,\sigma_1\Big(\mathbb E\tfrac1T\sum_ta_tx_t(L_t^\top u)^\top\Big)
          +\mathbb E\tfrac1T\sum_t\big(a_t^+E_t(u)+a_t^-E_t(-u)\big),\qquad
          E_t(u)=\max_{\|h\|\le\rho_t}\langle u,\Delta_t(h)\rangle .

The linear part is bounded once, for the head; only what is left may be chosen position by position.
B is convex in u and in v, so its maximum over two spheres is bounded by its values at the corners
of two polytopes (Chapter 4b).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook.bounds import third_moment_constant

#: Cubes along an axis at the start, in a ball of so many dimensions.
START = {1: 32, 2: 12, 3: 8, 4: 6, 5: 4}


@dataclass(frozen=True, eq=False)
class Reach:
    """What heads with queries and keys in balls can attend to. Made by :func:`head_reach`."""

    X: np.ndarray
    scale: float
    directions: np.ndarray
    cells: np.ndarray
    slopes: np.ndarray
    ends: np.ndarray
    _options: tuple

    def bound(self, Z: ArrayLike) -> float:
        r"""Upper bound on :math:`\sigma_1(\mathbb E\frac1T\sum_t(AX)_tZ_t^\top)` over all heads."""
        return float(self._cellwise(Z).max(initial=0.0))

    def refined(self, Z: ArrayLike, rounds: int, *, cells: int = 40) -> Reach:
        """Add directions where the bound for a residual is largest."""
        new = self
        for _ in range(rounds):
            new = new._divided(np.argsort(-new._cellwise(Z), kind="stable")[:cells])
        return new

    def _corners(self, Z):
        """B at all directions and at the corners v of a polytope around the unit ball of Z."""
        S, T, d = self.X.shape
        Z = np.asarray(Z, dtype=float) / (S * T)
        _, s, basis = np.linalg.svd(Z.reshape(-1, d), full_matrices=False)
        basis = basis[s > 1e-13 * max(s[0], 1e-300)]
        if not len(basis):
            return np.zeros((len(self.directions), 1)), np.zeros((d, d))
        corners = _sphere(len(basis), fine=True)
        half = corners[corners @ np.linspace(1, 1.7, len(basis)) > 0] @ basis / _inradius(corners)
        V = np.concatenate([half, -half])
        mean = self.X.cumsum(axis=1) / np.arange(1, T + 1)[:, None]
        centre = np.einsum("sti,stj->ij", mean, Z)
        a = (Z.reshape(-1, d) @ V.T).reshape(S * T, -1)
        up, down = self.ends.reshape(2, S * T, -1)
        B = up.T @ np.maximum(a, 0) + down.T @ np.maximum(-a, 0)
        # the linear part is linear in v, u and G: one tensor
        rows = np.einsum("sti,stab,stj->jiab", self.X, self.slopes, Z, optimize=True)
        linear = np.einsum("jiab,ua,vj->uvib", rows, self.directions, half, optimize=True)
        linear = np.linalg.eigvalsh(linear @ linear.swapaxes(2, 3))[..., -1]
        B += self.scale * np.tile(np.sqrt(np.maximum(linear, 0)), 2)
        return B + self.directions @ centre @ V.T, centre, B

    def _cellwise(self, Z):
        """Bound on B over each cell of directions and all v."""
        B, centre, *rest = self._corners(Z)
        if not rest:
            return np.zeros(1)
        corners = self.directions[self.cells]
        gram = corners @ corners.swapaxes(1, 2)
        inverse = np.linalg.inv(corners)

        def over(values):
            # u = sum c_i u_i with c >= 0 and |u| = 1: B(u) <= sum c_i B(u_i), linear in u
            at = np.maximum(values, 0)[self.cells]
            rough = at.max(axis=1) * np.linalg.norm(inverse.sum(axis=2), axis=1)[:, None]
            rough = np.minimum(rough, np.sqrt(((inverse @ at) ** 2).sum(axis=1)))
            return _over_cones(gram, at, rough).max(axis=1)

        apart = np.linalg.norm(centre, 2) + over(rest[0])  # the mean part on its own
        return np.minimum(over(B), apart)

    def _divided(self, worst):
        """With the longest edges of these cells divided."""
        U, cells, halves = self.directions, self.cells, []
        added: dict[tuple[int, int], int] = {}
        if U.shape[1] == 1:
            return self
        for cell in cells[worst]:
            i, j = np.unravel_index((U[cell] @ U[cell].T).argmin(), (len(cell), len(cell)))
            edge = (min(cell[i], cell[j]), max(cell[i], cell[j]))
            middle = added.setdefault(edge, len(U) + len(added))
            for end in (i, j):
                half = cell.copy()
                half[end] = middle
                halves.append(half)
        new = np.array([U[first] + U[second] for first, second in added])
        new /= np.linalg.norm(new, axis=1, keepdims=True)
        ends, _ = _reach(self.X, self.scale, new, self.slopes, *self._options)
        return replace(
            self,
            directions=np.concatenate([U, new]),
            cells=np.concatenate([np.delete(cells, worst, axis=0), halves]),
            ends=np.concatenate([self.ends, ends], axis=3),
        )


def head_reach(
    X: ArrayLike,
    radius: float,
    k: int,
    *,
    slope: float | None = None,
    tolerance: float = 0.1,
    budget: int = 5000,
) -> Reach:
    r"""Bound what heads with :math:`\|W_Q\|,\|W_K\|\le r` can attend to, in many directions."""
    X = np.asarray(X, dtype=float)
    if X.shape[2] > 5:
        raise ValueError(f"X: expected at most 5 dimensions, got {X.shape[2]}")
    scale, options, corners = radius**2 / np.sqrt(k), (tolerance, budget), _sphere(X.shape[2])
    used, cells = np.unique(_facets(corners), return_inverse=True)
    directions = corners[used]
    ends, slopes = _reach(X, scale, directions, slope, *options)
    return Reach(X, scale, directions, cells.reshape(-1, X.shape[2]), slopes, ends, options)


def _over_cones(gram, at, rough):
    """Largest sum c_i at_i over c >= 0 with c' gram c = 1; ``rough`` where none may be largest."""
    d = at.shape[1]
    cell, v = np.nonzero(rough > at.max())
    b, found = at[cell, :, v], at[cell, :, v].max(axis=1)
    for chosen in product((False, True), repeat=d):
        face = np.flatnonzero(chosen)
        if len(face) < 2:
            continue
        inverse = np.linalg.inv(gram[:, face[:, None], face])[cell]
        c = (inverse @ b[:, face, None])[..., 0]
        value = np.sqrt(np.maximum((c * b[:, face]).sum(axis=1), 0))
        found = np.where((c >= 0).all(axis=1), np.maximum(found, value), found)
    rough[cell, v] = found
    return rough


def _reach(X, scale, U, slope, tolerance, budget):
    """Bounds on E_t in directions U, shape (2, S, T, n), and slopes (S, T, d, d)."""
    S, T, d = X.shape
    # the two ends of u are those of -u in the other order
    sign = np.where(U @ np.linspace(1, 1.7, d) > 0, 1, -1)
    once, back = np.unique(
        np.round(sign[:, None] * U, 12), axis=0, return_index=True, return_inverse=True
    )[1:]
    back = back.ravel()
    swapped = sign != sign[once][back]
    U = U[once]
    ends, slopes = np.zeros((2, S, T, len(U))), np.zeros((S, T, d, d))
    for t in range(1, T):
        K = X[:, : t + 1] - X[:, : t + 1].mean(axis=1, keepdims=True)
        rho = scale * np.linalg.norm(X[:, t], axis=1)
        # positions that see the same tokens are bounded once
        same = np.round(np.concatenate([K.reshape(S, -1), rho[:, None]], axis=1), 12)
        _, first, which = np.unique(same, axis=0, return_index=True, return_inverse=True)
        for i, s in enumerate(first):
            given = slope[s, t] if isinstance(slope, np.ndarray) else slope
            who = which.ravel() == i
            end, slopes[who, t] = _position(K[s], rho[s], U, given, tolerance, budget)
            ends[:, who, t] = end[:, None]
    ends = ends[..., back]
    return np.where(swapped, ends[::-1], ends), slopes


def _position(K, rho, U, slope, tolerance, budget):
    """Bounds on E(u), E(-u), shape (2, n), and the slope, for centred keys K (j, d)."""
    d = K.shape[1]
    _, s, basis = np.linalg.svd(K, full_matrices=False)
    basis = basis[s > 1e-12 * max(s[0], 1e-300)]
    y = K @ U.T
    free = np.array([y.max(axis=0), -y.min(axis=0)])  # attention on one key
    if not len(basis) or rho == 0:
        return 0 * free, np.zeros((d, d))
    keys = K @ basis.T
    start, half = _cubes(rho, len(basis))
    if slope is None:
        p = _softmax(start @ keys.T)
        heavy = start * (start**2).sum(axis=1, keepdims=True) ** 2
        L = np.linalg.solve(heavy.T @ start, heavy.T @ (p @ keys))
    elif np.ndim(slope):
        L = basis @ slope.T @ basis.T
    else:
        L = slope * keys.T @ keys / len(keys)
    if np.ndim(slope) and not L.any():
        return free, np.zeros((d, d))
    # a fit is worth its linear part only if it leaves much less than free attention does
    enough = 0.8 * free.mean() if slope is None else np.inf
    near = _cover(keys, rho, basis @ U.T, L, start, half, tolerance, budget, enough)
    if not L.any():
        near = np.minimum(near, free)
    elif near.mean() > enough:
        return free, np.zeros((d, d))
    return near, (basis.T @ L @ basis).T


def _cover(keys, rho, U, L, H, half, tolerance, budget, enough):
    """Bounds on max and -min of <u, Delta(h)> over |h| <= rho by cubes, divided where needed."""
    m = keys.shape[1]
    y = keys @ U
    Y = np.ptp(y, axis=0) / 2
    apart = np.abs(keys[:, None] - keys).sum(axis=2).max() / 2
    squares = (keys[:, :, None] * keys[:, None]).reshape(len(keys), -1)
    corners = np.array(list(product((-0.5, 0.5), repeat=m)))
    done = best = np.zeros((2, U.shape[1]))
    while len(H):
        p = _softmax(H @ keys.T)
        m_h = p @ keys
        cov = (p @ squares).reshape(-1, m, m) - m_h[:, :, None] * m_h[:, None]
        seen = m_h @ U
        value = seen - H @ L @ U
        tau = half * apart
        variance = half**2 * np.abs(cov).sum(axis=(1, 2))  # of the change of scores, at most
        second = np.full(len(H), third_moment_constant() * tau**2)
        if tau < 5:  # weights change by a factor exp(2 tau) at most
            second = np.minimum(second, 2 * np.exp(2 * tau) * variance)
        # by Taylor; or: the weights change by at most tanh(tau / 2), and put all on one key
        taylor = half * np.abs((cov - L).reshape(-1, m) @ U).reshape(len(H), m, -1).sum(axis=1)
        taylor += second[:, None] * (Y / 2)
        linear, far = half * np.abs(L @ U).sum(axis=0), 2 * Y * np.tanh(tau / 2)
        top = value + np.minimum(taylor, linear + np.minimum(far, y.max(axis=0) - seen))
        low = -value + np.minimum(taylor, linear + np.minimum(far, seen - y.min(axis=0)))
        inside = (H**2).sum(axis=1) <= rho**2
        values = value[inside]
        best = np.maximum(best, [values.max(axis=0, initial=0), -values.min(axis=0, initial=0)])
        goal = best + tolerance * best.max()
        again = ((top > goal[0]) | (low > goal[1])).any(axis=1)
        if again.sum() * 2**m > budget or best.mean() > enough:
            again[:] = False
        ends = [x[~again].max(axis=0, initial=0) for x in (top, low)]
        done = np.maximum(done, ends)
        half /= 2
        H = (H[again][:, None] + half * 2 * corners).reshape(-1, m)
        H = H[(np.maximum(np.abs(H) - half, 0) ** 2).sum(axis=1) <= rho**2]
    return done


def _cubes(rho, m):
    """Centres and half-width of cubes that cover a ball."""
    n = START[m]
    half = rho / n
    axis = (2 * np.arange(n) + 1 - n) * half
    H = np.stack(np.meshgrid(*[axis] * m, indexing="ij"), axis=-1).reshape(-1, m)
    return H[(np.maximum(np.abs(H) - half, 0) ** 2).sum(axis=1) <= rho**2], half


def _softmax(s):
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _sphere(d, fine=False):
    """Unit vectors, with each its opposite, whose hull is near the ball."""
    if d == 1:
        return np.array([[1.0], [-1.0]])
    if d == 2:
        angle = 2 * np.pi * np.arange(64) / 64
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if d == 3:
        return _icosahedron(3 if fine else 2)
    V = np.array([x for x in product((-1, 0, 1), repeat=d) if any(x)], dtype=float)
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def _icosahedron(times):
    """Corners of an icosahedron whose edges are divided in two so many times."""
    golden = (1 + np.sqrt(5)) / 2
    V = np.array([[0, s, t * golden] for s in (-1, 1) for t in (-1, 1)])
    V = np.concatenate([np.roll(V, i, axis=1) for i in range(3)])
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    for _ in range(times):
        F = scipy.spatial.ConvexHull(V).simplices
        edges = np.sort(np.concatenate([F[:, [0, 1]], F[:, [1, 2]], F[:, [0, 2]]]), axis=1)
        middle = V[np.unique(edges, axis=0)].sum(axis=1)
        V = np.concatenate([V, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
    return V


def _facets(V):
    """Simplices of the hull, one of each opposite pair of facets."""
    d = V.shape[1]
    if d == 1:
        return np.array([[0]])
    hull = scipy.spatial.ConvexHull(V)
    return hull.simplices[hull.equations[:, :d] @ np.linspace(1, 1.7, d) >= -1e-9]


def _inradius(V):
    """Distance of the boundary of the hull from 0."""
    return 1.0 if V.shape[1] == 1 else -scipy.spatial.ConvexHull(V).equations[:, -1].max()
