r"""Heads that attend to all alike: the best law of them under ridge, and what content would add.

A *uniform* law has heads with :math:`W_Q=W_K=0`. Its prediction depends on
:math:`N=\int W_VW_O\,d\mu` only, whose least cost under ridge is :math:`\lambda\|N\|_*`, the sum
of the singular values. So the best uniform law is a convex problem over one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure

__all__ = ["UniformLaw", "best_uniform", "content_matrix"]


@dataclass(frozen=True, eq=False)
class UniformLaw:
    r"""A best uniform law, and how much its heads would gain by attending to content.

    Attributes
    ----------
    N : array, shape (d, d)
        Minimiser of :math:`R(N)+\lambda\|N\|_*`.
    value : float
        That minimum: the least :math:`R_\lambda` of uniform laws.
    gap : float
        Bound on how far ``value`` is above the true minimum.
    C : array, shape (d, d)
        Correlation :math:`C(0;\nu)=\nabla R(N)`, of norm at most :math:`\lambda` up to the gap.
    content : array, shape (d, d)
        :func:`content_matrix` of N.
    pull : float
        :math:`\Gamma=\sigma_1(\mathbf D_N)/(\lambda\sqrt k)`. Above 1 every law with finitely many
        atoms is unstable under splitting.

    Examples
    --------
    >>> Y = [[[1, 0], [1, 0]]]
    >>> risk = AttentionRisk([[[0.0], [1.0]]], Y, [[1.0, -1.0]], HeadShape(1, 1, 1))
    >>> law = best_uniform(risk, 0.1)
    >>> law.rank, bool(np.isclose(law.size, np.log(4)))
    (1, True)
    >>> law.head(risk.shape).round(3)
    array([0.   , 0.   , 1.177, 1.177])
    """

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
        r"""Return the cheapest head with :math:`W_VW_O=N` that attends to all alike; shape (D,).

        Parameters
        ----------
        shape : HeadShape
            Sizes of the head, v at least the rank of N.

        Returns
        -------
        array, shape (D,)

        Raises
        ------
        TypeError, ValueError
            If no such head has this shape.
        """
        validate.instance(shape, "shape", HeadShape)
        if shape.d != len(self.N):
            raise ValueError(f"shape: expected d = {len(self.N)}, got {shape.d}")
        if shape.v < self.rank:
            raise ValueError(f"shape: expected v ≥ {self.rank}, the rank of N, got {shape.v}")
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

    Parameters
    ----------
    risk : AttentionRisk
        The task; its heads have the k of the score matrix.
    mu : Measure
        The law that leaves the residual.
    N : array_like, shape (d, d)
        What the head writes, :math:`W_VW_O`.

    Returns
    -------
    array, shape (d, d)

    Raises
    ------
    TypeError, ValueError
        If N is no real d x d matrix, or mu does not fit the risk.

    Examples
    --------
    A sequence of two tokens, 0 and 1, whose labels are the first of two words: D is
    :math:`-\frac14(1-p)N`, here with an empty layer.

    >>> Y = [[[1, 0], [1, 0]]]
    >>> risk = AttentionRisk([[[0.0], [1.0]]], Y, [[1.0, -1.0]], HeadShape(1, 1, 1))
    >>> content_matrix(risk, Measure(np.zeros((1, 4))), [[2.0]])
    array([[-0.25]])
    """
    validate.instance(risk, "risk", AttentionRisk)
    S, T, d = risk.X.shape
    N = validate.array(N, "N", (d, d)).astype(float)
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

    Parameters
    ----------
    risk : AttentionRisk
        The task; its k enters the pull.
    ridge : float
        Strength :math:`\lambda`, positive.
    tolerance : float
        The steps end when the bound is at most this.
    steps : int
        Most steps.

    Returns
    -------
    UniformLaw

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong type or sign.

    Examples
    --------
    With one sequence of the tokens 0 and 1, :math:`N=\log\frac{1-2\lambda}{2\lambda}` and
    :math:`\Gamma=N/2`.

    >>> Y = [[[1, 0], [1, 0]]]
    >>> risk = AttentionRisk([[[0.0], [1.0]]], Y, [[1.0, -1.0]], HeadShape(1, 1, 1))
    >>> law = best_uniform(risk, 0.1)
    >>> bool(np.isclose(law.N[0, 0], np.log(4))), bool(np.isclose(law.pull, np.log(2)))
    (True, True)
    """
    validate.instance(risk, "risk", AttentionRisk)
    ridge = validate.positive(ridge, "ridge")
    tolerance = validate.positive(tolerance, "tolerance")
    steps = validate.count(steps, "steps")
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
