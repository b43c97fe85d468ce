r"""Heads that attend to all alike: the best law of them under ridge, and what content would add.

A *uniform* law has heads with :math:`W_Q=W_K=0`. Its prediction depends on
:math:`N=\int W_VW_O\,d\mu` only, whose least cost under ridge is :math:`\lambda\|N\|_*`, the sum
of the singular values. So the best uniform law is a convex problem over one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure


@dataclass(frozen=True, eq=False)
class UniformLaw:
    """A best uniform law, and how much its heads would gain by attending to content."""

    N: np.ndarray
    value: float
    gap: float
    C: np.ndarray
    content: np.ndarray
    pull: float

    @property
    def size(self) -> float:
        r"""Nuclear norm :math:`\|N\|_*`: the mean size of what balanced heads write."""
        return float(np.linalg.svd(self.N, compute_uv=False).sum())

    @property
    def rank(self) -> int:
        """Number of singular values of N above 1e-6 of the largest (zero if N vanishes)."""
        values = np.linalg.svd(self.N, compute_uv=False)
        return int((values > 1e-6 * max(values[0], 1e-6)).sum())

    def head(self, shape: HeadShape) -> np.ndarray:
        """Return the cheapest head with :math:`W_VW_O=N` that attends to all alike; shape (D,)."""
        U, values, Vt = np.linalg.svd(self.N)
        n, d = min(shape.v, shape.d), shape.d
        # a pair of singular vectors has a common sign, which the solver does not determine
        sign = np.where(np.arange(1, d + 1) @ U < 0, -1.0, 1.0)
        W_V, W_O = np.zeros((d, shape.v)), np.zeros((shape.v, d))
        root = np.sqrt(values[:n]) * sign[:n]
        W_V[:, :n], W_O[:n] = U[:, :n] * root, root[:, None] * Vt[:n]
        return shape.join(np.zeros((d, shape.k)), np.zeros((d, shape.k)), W_V, W_O)


def content_matrix(risk: AttentionRisk, mu: Measure, N: ArrayLike) -> np.ndarray:
    r"""What a head that writes N gains to first order when it begins to attend by content.

    .. math:: \mathbf D_N(\mu)=\mathbb E\frac1T\sum_tx_t\,(\operatorname{Cov}_tN Z_t)^\top,
              \qquad \frac d{dB}\Psi\Big|_{B=0}=\mathbf D_N

    with :math:`B=W_QW_K^\top/\sqrt k` the score matrix, :math:`\operatorname{Cov}_t` the covariance
    of the tokens seen at position t and :math:`Z_t=W_U(p_t-y_t)` at :math:`\mu`. It is linear in N.
    At an atom with :math:`W_Q=W_K=0` the Hessian of the first variation with ridge has in these
    directions the eigenvalues :math:`\lambda\pm\sigma_i(\mathbf D_N)/\sqrt k`.
    """
    S, T, d = risk.X.shape
    N = np.asarray(N, dtype=float)
    Z, D = risk.at(mu).Z, np.zeros((d, d))
    for t in range(T):
        seen = risk.X[:, : t + 1] - risk.X[:, : t + 1].mean(axis=1, keepdims=True)
        spread = np.einsum("sua,sub->sab", seen, seen) / (t + 1)
        D += np.einsum("sa,sbc,sc->ab", risk.X[:, t], spread, Z[:, t] @ N.T)
    return D / (S * T)


def best_uniform(
    risk: AttentionRisk, ridge: float, *, tolerance: float = 1e-10, steps: int = 20_000
) -> UniformLaw:
    r"""Return the best law of heads that attend to all alike, under ridge.

    .. math:: \min_N\;R(N)+\lambda\|N\|_*

    by accelerated proximal gradient steps with restarts. For every N

    .. math:: R(N)+\lambda\|N\|_*-\min\le\langle N,C\rangle+\lambda\|N\|_*
              +(\sigma_1(C)-\lambda)_+\frac{R(0)}\lambda,

    which bounds the error and stops the steps: a convex function lies above its tangent, and a
    minimiser has :math:`\lambda\|N\|_*\le R(0)`.
    """
    S, T, d = risk.X.shape
    seen = risk.X.cumsum(axis=1) / np.arange(1, T + 1)[:, None]
    flat = seen.reshape(-1, d)
    smooth = 0.5 * np.linalg.norm(flat, 2) ** 2 / (S * T) * np.linalg.norm(risk.W_U, 2) ** 2
    step = 1 / max(smooth, 1e-300)

    def slope(N):
        local = risk.at(_uniform(N, risk.shape))
        return local.value, np.einsum("sta,stb->ab", seen, local.Z) / (S * T)

    def shrink(N):
        U, values, Vt = np.linalg.svd(N)
        values = np.maximum(values - ridge * step, 0)
        return (U * values) @ Vt

    N = ahead = np.zeros((d, d))
    start, momentum = slope(N)[0], 1.0
    for n in range(steps):
        if n % 20 == 0:
            R, C = slope(N)
            cost = ridge * np.linalg.svd(N, compute_uv=False).sum()
            excess = max(np.linalg.norm(C, 2) - ridge, 0) * start / ridge
            gap = float((N * C).sum() + cost + excess)
            if gap <= tolerance:
                break
        moved = shrink(ahead - step * slope(ahead)[1])
        if ((ahead - moved) * (moved - N)).sum() > 0:  # the momentum points uphill
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - N)
        N, momentum = moved, following
    R, C = slope(N)
    content = content_matrix(risk, _uniform(N, risk.shape), N)
    cost = ridge * np.linalg.svd(N, compute_uv=False).sum()
    pull = np.linalg.norm(content, 2) / (ridge * np.sqrt(risk.shape.k))
    return UniformLaw(N, float(R + cost), max(gap, 0.0), C, content, float(pull))


def _uniform(N: np.ndarray, shape: HeadShape) -> Measure:
    """A law of uniform heads with this mean of what they write, at any cost."""
    d, v = shape.d, shape.v
    groups = -(-d // v)  # heads that write v rows of N each
    W_V, W_O = np.zeros((groups, d, v)), np.zeros((groups, v, d))
    for row in range(d):
        W_V[row // v, row, row % v], W_O[row // v, row % v] = groups, N[row]
    zero = np.zeros((groups, d, shape.k))
    return Measure(shape.join(zero, zero, W_V, W_O))
