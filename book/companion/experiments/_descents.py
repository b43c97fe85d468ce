"""Many small descents side by side: limited-memory BFGS on arrays, one row for each problem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Pairs of steps that are kept, and halvings of a step.
MEMORY, TRIALS = 12, 15


def descend(
    x: np.ndarray, evaluate: Callable, steps: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Descend from every row of x; rows that are done leave the array. Points and values."""
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
