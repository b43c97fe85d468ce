r"""First and second derivatives of the feature map, and the heads at which they are largest.

The bounds L and H of Proposition 3.4 are worth what the comparison with true values shows. This
module has the derivatives in closed form (the formula from which Chapter 3 derives H), their
operator norms for given heads, and a search for the largest norm over all heads of radius r and
all tokens of norm :math:`R_X`.

Everything is at the last position, which sees every token: position t of a sequence is the last
one of its first t tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook._validate import Seed
from mfbook.attention import HeadShape
from mfbook.optimise.descent import descend
from mfbook.space import Euclidean


def directional_derivatives(
    theta: ArrayLike,
    h: ArrayLike,
    X: ArrayLike,
    W_U: ArrayLike,
    shape: HeadShape,
    log_counts: ArrayLike = (0.0,),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Feature map at the last position and its first two derivatives along a direction.

    With scores :math:`s_u`, attention weights A and attended token :math:`m=\mathbb E_A[x]`, a head
    moving along :math:`h=(q,\kappa,a,b)` has, at time 0,

    .. math:: m'&=\operatorname{Cov}_A(s',x),\qquad
              m''=\operatorname{Cov}_A(s'',x)+\mathbb E_A[(s'-\bar s')^2(x-\bar x)],\\
              D\varphi[h]&=[m'W_VW_O+m(aW_O+W_Vb)]W_U,\\
              D^2\varphi[h,h]&=[m''W_VW_O+2m'(aW_O+W_Vb)+2m\,ab]W_U.

    Each token counts as often as ``log_counts`` says. Exact up to rounding; see Chapter 3.
    """
    theta, h, X, W_U = map(np.asarray, (theta, h, X, W_U))
    W_Q, W_K, W_V, W_O = shape._split(theta)
    q, kappa, a, b = shape._split(h)
    query = X[..., -1:, :]
    tokens = np.swapaxes(X, -1, -2) / np.sqrt(shape.k)

    def scores(left, right):
        return (query @ left) @ (np.swapaxes(right, -1, -2) @ tokens)

    s = scores(W_Q, W_K) + np.asarray(log_counts)[..., None, :]
    A = np.exp(s - s.real.max(axis=-1, keepdims=True))
    A = A / A.sum(axis=-1, keepdims=True)

    def covariance(change):
        """Covariance of a score (n, 1, T) with the tokens under the attention weights."""
        weighted = A * change
        return (weighted - A * weighted.sum(axis=-1, keepdims=True)) @ X

    first = scores(q, W_K) + scores(W_Q, kappa)
    centred = first - (A * first).sum(axis=-1, keepdims=True)
    m, m1 = A @ X, covariance(first)
    m2 = covariance(2 * scores(q, kappa)) + covariance(centred * centred)
    C, C1, C2 = W_V @ W_O, a @ W_O + W_V @ b, 2 * (a @ b)
    moved = (m @ C, m1 @ C + m @ C1, m2 @ C + 2 * (m1 @ C1) + m @ C2)
    return tuple((z @ W_U)[..., 0, :] for z in moved)


@dataclass(frozen=True)
class DerivativeNorms:
    """Operator norms of the derivatives of the feature map of n heads."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray
    share: np.ndarray


def derivative_norms(
    theta: ArrayLike, X: ArrayLike, W_U: ArrayLike, shape: HeadShape, *, iterations: int = 100
) -> DerivativeNorms:
    r"""Operator norms of the first and second derivative of the feature map at given heads.

    The first is the largest singular value of the V × D Jacobian. The second is the maximum of
    :math:`\langle D^2\varphi[h,h],e\rangle` over unit vectors h and e: in turn, h is the leading
    eigenvector for given e and e is parallel to :math:`D^2\varphi[h,h]`; neither step can lower
    the value.
    """
    theta, X, W_U = (np.asarray(a, dtype=float) for a in (theta, X, W_U))
    n, D = theta.shape
    unit = np.eye(D)

    def along(directions):
        """Derivatives of every head along every direction, (n, p, V) each."""
        p = len(directions)
        heads, h = np.repeat(theta, p, axis=0), np.tile(directions, (n, 1))
        sequences = X if X.ndim == 2 else np.repeat(X, p, axis=0)
        parts = directional_derivatives(heads, h, sequences, W_U, shape)
        return (part.reshape(n, p, -1) for part in parts)

    value, J, diagonal = along(unit)
    # polarisation: D2[i, j] = (D2[i + j, i + j] - D2[i, i] - D2[j, j]) / 2, exact for a quadratic
    i, j = np.triu_indices(D, 1)
    *_, pairs = along(unit[i] + unit[j])
    second = np.zeros((n, D, D, diagonal.shape[-1]))
    second[:, i, j] = second[:, j, i] = (pairs - diagonal[:, i] - diagonal[:, j]) / 2
    second[:, np.arange(D), np.arange(D)] = diagonal

    rows = np.arange(n)

    def climb(e):
        """The best direction for given e, its value, and the next e."""
        e = e / np.maximum(np.linalg.norm(e, axis=-1, keepdims=True), np.finfo(float).tiny)
        values, vectors = np.linalg.eigh(np.einsum("nijv,nv->nij", second, e))
        h = vectors[rows, :, np.abs(values).argmax(axis=1)]
        e = np.einsum("nijv,ni,nj->nv", second, h, h)
        return h, np.linalg.norm(e, axis=-1), e

    # starts: directions of the logits, and the axes and pairs of axes that bend most
    starts = [np.tile(e, (n, 1)) for e in np.linalg.svd(W_U, full_matrices=False)[2][:4]]
    for bends in (diagonal, pairs):
        starts.append(bends[rows, np.linalg.norm(bends, axis=-1).argmax(axis=1)])
    reached = [climb(climb(e)[2]) for e in starts]
    winner = np.argmax([norm for _, norm, _ in reached], axis=0)
    h, best, e = (np.array(part)[winner, rows] for part in zip(*reached, strict=True))
    for _ in range(iterations):
        previous = best
        h, best, e = climb(e)
        if (best <= previous * (1 + 1e-9)).all():
            break
    share = (h[:, : 2 * shape.d * shape.k] ** 2).sum(axis=1)
    return DerivativeNorms(
        np.linalg.norm(value[:, 0], axis=-1), np.linalg.norm(J, ord=2, axis=(1, 2)), best, share
    )


@dataclass(frozen=True)
class Extreme:
    """Where :func:`largest_derivative` found the largest derivative."""

    value: float
    theta: np.ndarray
    direction: np.ndarray
    X: np.ndarray
    counts: np.ndarray
    converged: bool


def largest_derivative(
    order: int,
    shape: HeadShape,
    r: float,
    rng: Seed,
    *,
    R_X: float = 1.0,
    R_U: float = 1.0,
    tokens: int = 3,
    starts: int = 8,
) -> Extreme:
    r"""Search for the largest derivative of the feature map over all heads and all tokens.

    Maximises :math:`\langle D^j\varphi[h,\dots,h],e\rangle` over heads of ``shape.ball(r)``, unit
    directions h and e, tokens of norm at most :math:`R_X`, and the numbers of times each token
    occurs, with :math:`W_U=R_UI`. Ascent by L-BFGS from random starts on the boundary of the balls;
    its gradient is a complex step of :func:`directional_derivatives`, exact up to rounding. What
    it returns is attained (in the numbers of times: approached by long sequences), so it bounds
    every valid constant from below.
    """
    rng, T, D, d = np.random.default_rng(rng), tokens, shape.size, shape.d
    ends = np.cumsum([*shape.blocks, T * d, D, d])
    W_U = R_U * np.eye(d)

    def unpack(z):
        *matrices, x, h, e, log_counts = np.split(z, ends, axis=-1)
        theta = np.concatenate([_into_ball(W, r) for W in matrices], axis=-1)
        X = _into_ball(x.reshape(*z.shape[:-1], T, d), R_X)
        return theta, h / _norm(h), X, e / _norm(e), log_counts

    def objective(z):
        # one complex step for each variable, all in one batch
        theta, h, X, e, log_counts = unpack(z + 1e-30j * np.eye(z.size))
        D_phi = directional_derivatives(theta, h, X, W_U, shape, log_counts)[order]
        value = (D_phi * e).sum(axis=-1)
        return -value[0].real, -value.imag[None] / 1e-30

    def start():
        # matrices and tokens on the boundary of their balls, every token equally often
        *matrices, x, h, e = np.split(rng.normal(size=ends[-1]), ends[:-1])
        on_boundary = [np.pi / 2 * W / _norm(W) for W in (*matrices, x.reshape(T, d))]
        return np.concatenate([*(W.ravel() for W in on_boundary), h, e, np.zeros(T)])[None]

    options = {"maxiter": 1000, "maxfun": 1000, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-8}
    found = descend(objective, Euclidean(), [start() for _ in range(starts)], **options)
    best = min(found, key=lambda end: end.value)
    theta, h, X, _, log_counts = unpack(best.point[0])
    counts = np.exp(log_counts - log_counts.max())
    return Extreme(
        value=-best.value,
        theta=theta,
        direction=h,
        X=X,
        counts=counts / counts.sum(),
        converged=best.converged,
    )


def _norm(z):
    """Length of each row, as the analytic function sqrt(sum z^2)."""
    return np.sqrt((z * z).sum(axis=-1, keepdims=True))


def _into_ball(z, radius):
    """A smooth map onto the closed ball that reaches the boundary at finite arguments."""
    size = _norm(z)
    return radius * np.sin(size) / size * z
