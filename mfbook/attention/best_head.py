r"""The best head against a residual: closed form in (W_V, W_O), a search in (W_Q, W_K), a bound.

At a fixed measure the first variation is
:math:`\Psi(\theta)=\langle W_VW_O,C(W_Q,W_K)\rangle`. With the ridge
:math:`\frac\lambda2\|\theta\|^2` added and each matrix in a Frobenius ball of radius r,

.. math:: \min_{W_V,W_O}=-r^2\max(\sigma_1(C)-\lambda,0)+\tfrac\lambda2(\|W_Q\|^2+\|W_K\|^2),

attained at the leading singular pair of C. What remains is a search over (W_Q, W_K), which only
ever *finds* something, and a bound on :math:`\sigma_1(C)` that holds for all of them.
"""

import numpy as np

from mfbook import _validate as validate
from mfbook.functional import Minimum
from mfbook.optimise.descent import descend
from mfbook.space import Ball


def best_head(
    local, rng, ridge: float, space, *, starts: int = 6, pool: int = 192, maxiter: int = 200
) -> Minimum:
    """Minimise the first variation of an attention risk over the balls; see ``Minimum``."""
    rng = validate.generator(rng)
    starts, pool = validate.count(starts, "starts"), validate.count(pool, "pool")
    maxiter = validate.count(maxiter, "maxiter")
    ridge = validate.positive(ridge, "ridge", allow_zero=True, largest=validate.LARGEST)
    shape = local.risk.shape
    if not isinstance(space, Ball) or space.blocks != shape.blocks:
        raise ValueError(
            f"space: expected shape.ball(radius), so that a minimum exists, got {space!r}"
        )
    radius, size = space.radius, sum(shape.blocks[:2])

    # candidates: random scores of every size, uniform attention, and the heads already there
    sizes, draws = rng.uniform(size=(pool, 1)) ** 0.5, rng.normal(size=(pool, 2, shape.blocks[0]))
    draws = radius * draws / np.linalg.norm(draws, axis=2, keepdims=True)
    candidates = sizes * draws.reshape(pool, -1)
    heaviest = np.argsort(-local.mu.weights, kind="stable")[:pool]
    own = space.project(local.mu.atoms[heaviest].real)[:, :size]
    candidates = np.concatenate([np.zeros((1, size)), own, candidates])
    values = _least(local, candidates, ridge, radius)[0]

    best, converged, evaluations = np.inf, True, len(candidates)
    coordinates = Ball(radius, shape.blocks[:2])

    def objective(scores):
        value, head = _least(local, scores, ridge, radius)
        # envelope theorem: differentiate with the optimal (W_V, W_O) held fixed
        return value[0], local.gradient(head)[:, :size] + ridge * scores

    tried = candidates[np.argsort(values, kind="stable")[:starts], None]
    options = {"maxiter": maxiter, "ftol": 1e-13, "gtol": 1e-9 * radius}
    for start, end in zip(tried, descend(objective, coordinates, tried, **options), strict=True):
        evaluations += end.evaluations
        converged &= end.converged
        least, heads = _least(local, np.concatenate([end.point, start]), ridge, radius)
        if least.min() < best:
            best, point = float(least.min()), heads[least.argmin()]
    sigma = correlation_bound(local.risk.X, local.Z, radius, shape.k)
    lower = -(radius**2) * max(sigma - ridge, 0.0)
    return Minimum(point, best, float(lower), converged, evaluations)


def _least(local, scores, ridge, radius):
    """Least values over (W_V, W_O) for given (W_Q, W_K) (n, 2dk), and the heads (n, D)."""
    shape = local.risk.shape
    n, rest = len(scores), sum(shape.blocks[2:])
    C = local.correlation(np.concatenate([scores, np.zeros((n, rest))], axis=1))
    left, sigma, right = np.linalg.svd(C)
    worth = sigma[:, 0] > ridge
    W_V, W_O = np.zeros((n, shape.d, shape.v)), np.zeros((n, shape.v, shape.d))
    W_V[:, :, 0] = -radius * worth[:, None] * left[:, :, 0]
    W_O[:, 0, :] = radius * worth[:, None] * right[:, 0, :]
    heads = np.concatenate([scores, W_V.reshape(n, -1), W_O.reshape(n, -1)], axis=1)
    least = -(radius**2) * np.maximum(sigma[:, 0] - ridge, 0) + ridge / 2 * (scores**2).sum(1)
    return least, heads


def correlation_bound(X, Z, radius: float, k: int) -> float:
    r"""Upper bound on :math:`\sigma_1(C)` over all (W_Q, W_K) of Frobenius norm at most r.

    :math:`C=\mathbb E\frac1T\sum_t(AX)_tZ_t^\top`. Three bounds, each proved in Chapter 4, of which
    the least is returned. With the longest visible token :math:`\|X\|_t=\max_{u\le t}\|x_u\|`, the
    causal mean :math:`\bar x_t`, and :math:`\Delta_t\ge\|(AX)_t-\bar x_t\|`:

    1. :math:`\sqrt{\mathbb E[\|X\|\|Z\|]\;\lambda_1(\mathbb E[\|X\|ZZ^\top/\|Z\|])}`, never more
       than :math:`\mathbb E[\|X\|\|Z\|]`;
    2. :math:`\sigma_1(\mathbb E\,\bar xZ^\top)+\sqrt{\mathbb E[\Delta\|Z\|]\;
       \lambda_1(\mathbb E[\Delta\,ZZ^\top/\|Z\|])}`;
    3. the same with directions: :math:`\sigma_1(\mathbb E\,\bar xZ^\top)+
       \sqrt{\lambda_1(\mathbb E[\epsilon\|Z\|Q])\;\lambda_1(\mathbb E[\epsilon ZZ^\top/\|Z\|])}`,
       where :math:`\epsilon_t=\tanh(g_t/2)`,
       :math:`Q_t=2\sum_{u\le t}(x_u-\bar x_t)(x_u-\bar x_t)^\top`.

    Scores of two visible tokens differ by at most
    :math:`2g_t=r^2\|x_t\|\operatorname{diam}_t/\sqrt k`, so the attended token is within
    :math:`\tanh(g_t/2)\operatorname{diam}_t` of the causal mean.

    - ``X, Z`` (S, T, d): Tokens, and residuals seen from the tokens, :math:`Z_t=W_Ur_t`.
    """
    S, T, d = X.shape
    size, length = np.linalg.norm(X, axis=2), np.linalg.norm(Z, axis=2)
    seen = np.tri(T, dtype=bool)
    mean = X.cumsum(axis=1) / np.arange(1, T + 1)[:, None]
    # (S, t, u): distance of token u from the causal mean at t; (S, u, u'): between tokens
    from_mean = np.linalg.norm(X[:, None] - mean[:, :, None], axis=3)
    apart = np.linalg.norm(X[:, None] - X[:, :, None], axis=3)
    diameter = np.array([apart[:, : t + 1, : t + 1].max(axis=(1, 2)) for t in range(T)]).T
    epsilon = np.tanh(radius**2 * size * diameter / (4 * np.sqrt(k)))
    delta = np.minimum(epsilon * diameter, np.where(seen, from_mean, 0).max(axis=2))
    largest = np.where(seen, size[:, None], 0).max(axis=2)

    def top(weight):
        """Largest eigenvalue of E[weight Z Z^T / |Z|]."""
        w = weight / np.where(length > 0, length, 1)
        return np.linalg.eigvalsh(np.einsum("st,sti,stj->ij", w, Z, Z) / (S * T))[-1]

    def product(weight):
        return np.sqrt((weight * length).mean() * top(weight))

    centre = np.linalg.svd(np.einsum("sti,stj->ij", mean, Z) / (S * T))[1][0]
    spread = np.zeros((d, d))
    for t in range(T):
        away = X[:, : t + 1] - mean[:, t, None]
        spread += 2 * np.einsum("s,sui,suj->ij", (length * epsilon)[:, t], away, away) / (S * T)
    directional = np.sqrt(np.linalg.eigvalsh(spread)[-1] * top(epsilon))
    return float(min(product(largest), centre + product(delta), centre + directional))
