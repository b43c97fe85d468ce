r"""Cascades of splits from a single head, on many small tasks, and what they could reach.

A cascade trains one head under ridge, splits every head into two that differ by a hair, trains on,
and repeats this. Its risks :math:`R_\lambda` are compared with two convex problems: the best law
of heads that attend to all alike, and the infimum over all laws, in which attending costs nothing.
Training here is descent to a stationary layer of heads of equal weight (BFGS), not the flow.

    python -m companion.experiments.cascade        (a minute on one core)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from companion.experiments import _stored
from companion.mathematics.landscape.uniform import best_uniform
from companion.tasks import entropy
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.attention.features import cross_entropy, softmax
from mfbook.measure import Measure

SHAPE = HeadShape(d=2, k=1, v=1)
TASKS, SEQUENCES, TOKENS = 60, 5, 3
#: Three words at equal angles.
W_U = np.array([[1.0, -0.5, -0.5], [0.0, np.sqrt(0.75), -np.sqrt(0.75)]])
#: Ridge in units of the task's critical ridge, below which heads grow out of zero.
SHARES = (0.15, 0.3, 0.5)
HEADS = (1, 2, 4, 8, 16, 32)
#: Size of the hair, random first heads, and heads that are added to approach the infimum.
HAIR, STARTS, ADDED = 1e-2, 3, 16
STEPS, TOLERANCE = 2000, 1e-7
#: Of a descent: pairs of steps that are kept, and halvings of a step.
MEMORY, TRIALS = 12, 15
#: Ends of the infimum that are near enough.
CLOSE = 1e-5
#: Grid of queries and keys for the infimum: angles, and lengths of the score matrix.
ANGLES, LENGTHS = 20, (0.0, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 1e4)

FILE = _stored.FOLDER / "cascade.npz"
COMMAND = "python -m companion.experiments.cascade"


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    """Tokens (tasks, S, T, 2) and soft labels (tasks, S, T, 3) of all tasks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(TASKS, SEQUENCES, TOKENS, SHAPE.d))
    return X, rng.dirichlet([0.5] * 3, size=(TASKS, SEQUENCES, TOKENS))


def risk(task: int) -> AttentionRisk:
    """The risk of one task."""
    X, Y = data()
    return AttentionRisk(X[task], Y[task], W_U, SHAPE)


@cache
def critical() -> np.ndarray:
    r"""Critical ridge :math:`\lambda_c=\sigma_1(\bar G)` of each task."""
    X, Y = data()
    seen = X.cumsum(axis=2) / np.arange(1, TOKENS + 1)[:, None]
    G = np.einsum("rsta,rstb->rab", seen, (1 / 3 - Y) @ W_U.T) / (SEQUENCES * TOKENS)
    return np.linalg.norm(G, 2, axis=(1, 2))


def _attended(x: np.ndarray, X: np.ndarray) -> tuple:
    """Of heads x (R, M, 8): queries, keys and values at tokens X, attention, attended values."""
    q, k, v, o = np.moveaxis(x.reshape(*x.shape[:2], 4, 2), 2, 0)
    a, b, w = (np.einsum("rmd,rstd->rmst", z, X) for z in (q, k, v))
    A, h = [], np.empty_like(w)
    for t in range(X.shape[2]):
        s = a[..., t, None] * b[..., : t + 1]
        weight = np.exp(s - s.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        h[..., t] = (weight * w[..., : t + 1]).sum(axis=-1)
        A.append(weight)
    return a, b, w, o, A, h


def evaluate(x, X, Y, attend, write) -> tuple[np.ndarray, np.ndarray]:
    """Risk with ridge of layers (R, M, 8) of heads with k = v = 1, and M times its gradient.

    Each layer has tokens, labels and ridges (on attending, on writing) of its own.
    """
    R, M, _ = x.shape
    S, T = X.shape[1:3]
    a, b, w, o, A, h = _attended(x, X)
    f = np.einsum("rmst,rmd->rstd", h, o) / M @ W_U
    Z = (softmax(f) - Y) @ W_U.T / (S * T)
    dh = np.einsum("rstd,rmd->rmst", Z, o)
    da, db, dw = np.empty_like(a), np.zeros_like(b), np.zeros_like(w)
    for t, weight in enumerate(A):
        back = weight * dh[..., t, None]
        dw[..., : t + 1] += back
        back = back * (w[..., : t + 1] - h[..., t, None])
        da[..., t] = (back * b[..., : t + 1]).sum(axis=-1)
        db[..., : t + 1] += back * a[..., t, None]
    gradient = [np.einsum("rmst,rstd->rmd", z, X) for z in (da, db, dw)]
    gradient.append(np.einsum("rmst,rstd->rmd", h, Z))
    ridge = np.repeat(np.stack([attend, write], axis=-1), 4, axis=-1)[:, None]
    value = cross_entropy(f, Y).mean(axis=(1, 2)) + (ridge * x * x).sum(axis=(1, 2)) / (2 * M)
    return value, np.stack(gradient, axis=2).reshape(x.shape) + ridge * x


def descend(
    x: np.ndarray, evaluate: Callable, steps: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Descend from every row of x by L-BFGS; rows that are done leave. Points and values."""
    point, value = x.copy(), np.zeros(len(x))
    runs, stuck = np.arange(len(x)), np.zeros(len(x), bool)
    x = x.copy()
    f, g = evaluate(x, runs)
    pairs: list = []
    for n in range(steps + 1):
        done = (np.abs(g).max(axis=1) <= tolerance) | stuck | (n == steps)
        if done.any():
            point[runs[done]], value[runs[done]] = x[done], f[done]
            keep = ~done
            runs, x, f, g = runs[keep], x[keep], f[keep], g[keep]
            pairs = [tuple(part[keep] for part in pair) for pair in pairs]
            if not len(runs):
                break
        d = _direction(g, pairs)
        slope = (g * d).sum(axis=1)
        uphill = ~(slope < 0)
        d[uphill] = -g[uphill]
        slope = (g * d).sum(axis=1)
        moved, f_moved, g_moved = x.copy(), f.copy(), g.copy()
        waiting, length = np.arange(len(x)), 1.0
        for _ in range(TRIALS):
            there = x[waiting] + length * d[waiting]
            f_there, g_there = evaluate(there, runs[waiting])
            good = f_there <= f[waiting] + 1e-4 * length * slope[waiting]
            i = waiting[good]
            moved[i], f_moved[i], g_moved[i] = there[good], f_there[good], g_there[good]
            waiting = waiting[~good]
            if not len(waiting):
                break
            length *= 0.3
        stuck = np.zeros(len(x), bool)
        stuck[waiting] = True
        s, y = moved - x, g_moved - g
        sy = (s * y).sum(axis=1)
        curved = sy > 1e-10 * np.sqrt((s * s).sum(axis=1) * (y * y).sum(axis=1))
        pairs = [*pairs[1 - MEMORY :], (s, y, np.where(curved, 1 / np.where(curved, sy, 1), 0.0))]
        x, f, g = moved, f_moved, g_moved
    return point, value


def _direction(g: np.ndarray, pairs: list) -> np.ndarray:
    """Minus the approximate inverse Hessian times the gradient, by the two loops."""
    d, heights = -g, []
    if not pairs:
        return d * np.minimum(1, 0.5 / np.sqrt((g * g).sum(axis=1)))[:, None]
    for s, y, r in reversed(pairs):
        heights.append(r * (s * d).sum(axis=1))
        d = d - heights[-1][:, None] * y
    s, y, r = pairs[-1]
    curved = r > 0
    d = d * np.where(curved, 1 / np.where(curved, r * (y * y).sum(axis=1), 1), 1.0)[:, None]
    for (s, y, r), height in zip(pairs, reversed(heights), strict=True):
        d = d + s * (height - r * (y * d).sum(axis=1))[:, None]
    return d


def train(x, tasks, attend, write, steps=STEPS, moves=1.0) -> tuple[np.ndarray, np.ndarray]:
    """Descend from layers x (R, M, 8) of some tasks; heads and values. ``moves`` masks entries."""
    X, Y = (part[tasks] for part in data())
    shape, M = x.shape[1:], x.shape[1]

    def objective(flat, runs):
        heads = flat.reshape(-1, *shape)
        value, slope = evaluate(heads, X[runs], Y[runs], attend[runs], write[runs])
        return M * value, (slope * moves).reshape(len(flat), -1)

    point, value = descend(x.reshape(len(x), -1), objective, steps, TOLERANCE)
    return point.reshape(x.shape), value / M


def cascade(
    share: float, tasks: np.ndarray, rounds: int = len(HEADS)
) -> tuple[list[np.ndarray], np.ndarray]:
    """Layers after some rounds, of M = 1, 2, 4, ... heads, and their values (rounds, tasks).

    The random numbers of a task do not depend on the other tasks.
    """
    lam = share * critical()[tasks]
    rngs = [np.random.default_rng([task, round(1000 * share)]) for task in tasks]

    def noise(M):
        return np.array([rng.normal(size=(M, SHAPE.size)) for rng in rngs])

    runs = [train(1.5 * noise(1), tasks, lam, lam) for _ in range(STARTS)]
    best = np.argmin([value for _, value in runs], axis=0)
    layers = [np.array([runs[b][0][i] for i, b in enumerate(best)])]
    values = [np.array([runs[b][1][i] for i, b in enumerate(best)])]
    for M in HEADS[1:rounds]:
        split = np.repeat(layers[-1], 2, axis=1)
        x, value = train(split + HAIR * noise(M), tasks, lam, lam)
        layers.append(x)
        values.append(value)
    return layers, np.array(values)


@cache
def _grid() -> np.ndarray:
    """Queries and keys (n, 4): all pairs of directions, all lengths."""
    angle = np.pi * np.arange(ANGLES) / ANGLES
    half = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pairs = [np.r_[q, k] for q in half for k in np.r_[half, -half]]
    return np.concatenate([np.sqrt(length) * np.array(pairs) for length in LENGTHS])


@cache
def _grid_features(task: int) -> np.ndarray:
    """What each head of the grid attends to, shape (n, S T, 2)."""
    X, y, parts = data()[0][task][None], _grid(), []
    for axis in np.eye(2):
        heads = np.concatenate([y, np.broadcast_to([*axis, 0, 0], y.shape)], axis=1)
        parts.append(_attended(heads[None], X)[-1][0].reshape(len(y), -1))
    return np.stack(parts, axis=-1)


def _tangent(task: int, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    r"""Matrices C over the grid, their :math:`\sigma_1`, and :math:`R-\langle\nabla R,f\rangle`."""
    X, Y = (part[task] for part in data())
    f = np.zeros_like(Y)
    if len(heads):
        *_, o, _, h = _attended(heads[None], X[None])
        f = np.einsum("rmst,rmd->rstd", h, o)[0] / len(heads) @ W_U
    r = (softmax(f) - Y) / (SEQUENCES * TOKENS)
    C = np.einsum("nia,ib->nab", _grid_features(task), (r @ W_U.T).reshape(-1, 2))
    square, determinant = (
        (C * C).sum(axis=(1, 2)),
        C[:, 0, 0] * C[:, 1, 1] - C[:, 0, 1] * C[:, 1, 0],
    )
    largest = np.sqrt((square + np.sqrt(np.maximum(square**2 - 4 * determinant**2, 0))) / 2)
    return C, largest, cross_entropy(f, Y).mean() - float((r * f).sum())


def infimum(share: float, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Upper and lower ends for the infimum of :math:`R_\lambda` over all laws, (tasks,) each.

    Heads of the grid that gain most are added one by one, what they write is optimised by descent,
    in the end also how they attend, and attending costs nothing. The lower end is that of the
    tangent, with the largest :math:`\sigma_1(C)` over the grid in the place of the supremum.
    """
    lam, wanted = share * critical()[tasks], np.arange(len(tasks))
    value, lower, x = np.empty(len(tasks)), np.empty(len(tasks)), np.zeros((len(tasks), 0, 8))
    tangents = [_tangent(t, heads) for t, heads in zip(tasks, x, strict=True)]
    only_write = np.r_[np.zeros(4), np.ones(4)]
    for M in range(1, ADDED + 1):
        new = np.empty((len(wanted), 1, SHAPE.size))
        for row, (C, largest, _) in enumerate(tangents):
            best = largest.argmax()
            U, _, Vt = np.linalg.svd(C[best])
            new[row] = np.r_[_grid()[best], 0.1 * U[:, 0], -0.1 * Vt[0]]
        # each head has weight 1/M: what the others write stays as it is
        x = np.concatenate([x * np.where(only_write, np.sqrt(M / max(M - 1, 1)), 1), new], axis=1)
        free = np.zeros(len(wanted))
        x, value[wanted] = train(x, tasks[wanted], free, lam[wanted], 200, only_write)
        if M == ADDED:  # off the grid
            x, value[wanted] = train(x, tasks[wanted], free, lam[wanted], 300)
        tangents = [_tangent(t, heads) for t, heads in zip(tasks[wanted], x, strict=True)]
        for i, (_, largest, plane) in zip(wanted, tangents, strict=True):
            excess = max(largest.max() / lam[i] - 1, 0)
            lower[i] = plane - excess * (value[i] - entropy(data()[1][tasks[i]]))
        still = value[wanted] - lower[wanted] > CLOSE
        wanted, x = wanted[still], x[still]
        tangents = [tangent for tangent, on in zip(tangents, still, strict=True) if on]
        if not len(wanted):
            break
    return value, lower


def compute(every=None) -> dict[str, np.ndarray]:
    """Everything; nothing here takes long enough to be kept by ``every``."""
    tasks, found = np.arange(TASKS), []
    for share in SHARES:
        layers, values = cascade(share, tasks)
        upper, lower = infimum(share, tasks)
        laws = [best_uniform(risk(t), share * critical()[t], tolerance=1e-9) for t in range(TASKS)]
        found.append({
            "value": values, "infimum": upper, "infimum_low": lower,
            "uniform": np.array([law.value for law in laws]),
            "least": np.array([least_curvature(t, share, layers[-1][t]) for t in range(TASKS)]),
            "price": np.array([price(x, share * critical()) for x in layers]),
            "attends": np.array([np.abs(x[..., :4]).max(axis=(1, 2)) for x in layers]),
        } | {n: np.array([getattr(law, n) for law in laws]) for n in ("pull", "rank")})  # fmt: skip
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def price(x: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """What layers (R, M, 8) pay for attending, the ridge on queries and keys; shape (R,)."""
    return ridge * (x[..., :4] ** 2).sum(axis=2).mean(axis=1) / 2


def least_curvature(task: int, share: float, heads: np.ndarray) -> float:
    r"""Least eigenvalue of the matrices :math:`H_j` of a layer (M, 8), divided by the ridge."""
    local, steps = risk(task).at(Measure(heads)), 1e-30j * np.eye(SHAPE.size)
    H = np.stack([local.gradient(heads + e).imag / 1e-30 for e in steps], axis=1)
    least = np.linalg.eigvalsh((H + H.transpose(0, 2, 1)) / 2).min()
    return float(least / (share * critical()[task]) + 1)


def load() -> dict:
    """The stored results: arrays with the axes share, (round,) task, and ``about``."""
    return _stored.load(FILE)


if __name__ == "__main__":
    _stored.main("cascade", "three strengths of ridge, 60 cascades each: a minute of one core")
