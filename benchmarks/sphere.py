"""Appendix A: forces, whole runs and the minimiser, beside two kinds of code for the same numbers.

*Usual* is code as it is usually written: all pairwise differences and their trigonometric
functions on the circle, all pairwise inner products and projections in an array (N, N, d) on
spheres. *Direct* is the best we know that visits every pair: one matrix product, one exponential in
place, one more product, in blocks that stay in cache. Both agree with this package to 1e-12.
"""

from functools import partial

import numpy as np

from mfbook.book.experiments.sphere import energy, start
from mfbook.equilibria import minimise_on_circle, settle
from mfbook.models.sphere import SphereEnergy
from mfbook.space import Sphere

from .timing import interleaved, seconds

TOLERANCE = 1e-12
#: Rows of the pairwise arrays that usual code holds at a time, and the most that it is timed on.
ROWS, MOST = 500, 1000
#: Pairs that direct code holds at a time: half a megabyte, two to three times as fast as ``ROWS``.
BLOCK = 2**16
#: Goals of time / mfbook.
GOALS = {
    (2, 1000, "usual"): 200, (2, 10_000, "usual"): 5000,
    (2, 1000, "direct"): 40, (2, 10_000, "direct"): 500,
    (3, 500, "usual"): 8, (3, 2000, "usual"): 8,
}  # fmt: skip


def usual(x, beta, count=None):
    """Velocities of ascent without perceptron, by pairwise trigonometry or pairwise vectors.

    With ``count`` only those of so many first particles.
    """
    n, d = x.shape
    count = n if count is None else count
    out = np.empty((count, d))
    if d == 2:
        angle = np.arctan2(x[:, 1], x[:, 0])
        for i in range(0, count, ROWS):
            own = slice(i, min(i + ROWS, count))
            u = angle[own, None] - angle
            force = -(np.exp(beta * (np.cos(u) - 1)) * np.sin(u)).mean(axis=1)
            out[own] = force[:, None] * np.stack([-x[own, 1], x[own, 0]], axis=1)
        return out
    for i in range(0, count, ROWS):
        own = x[i : min(i + ROWS, count)]
        inner = (own[:, None] * x).sum(axis=2)
        projected = x[None] - inner[:, :, None] * own[:, None]
        pairs = np.exp(beta * (inner - 1))[:, :, None] * projected
        out[i : i + len(own)] = pairs.mean(axis=1)
    return out


def direct(x, beta, count=None):
    """The same by matrix products and one exponential of every pair."""
    n = len(x)
    count = n if count is None else count
    out, rows = np.empty((count, x.shape[1])), max(1, BLOCK // n)
    for i in range(0, count, rows):
        own = slice(i, min(i + rows, count))
        e = (beta * x[own]) @ x.T
        e -= beta
        np.exp(e, out=e)
        out[own] = e @ x / n
    return Sphere().tangent(x[:count], out)


def step(d: int, n: int, betas, rounds: int) -> list[dict]:
    """One evaluation of all velocities, for each inverse temperature.

    The usual code, which visits one row of particles after another, is timed on a part of the rows.
    """
    x, w, found = start(d, n=n).atoms, np.full(n, 1 / n), []
    rows = min(n, MOST)
    for beta in betas:
        field = SphereEnergy(beta).field(ascent=True)
        runs = {
            "mfbook": partial(field.at_atoms, x, w),
            "usual": partial(usual, x, beta, rows), "direct": partial(direct, x, beta),
        }  # fmt: skip
        ours, errors = runs["mfbook"](), {}
        for name in runs:
            theirs = runs[name]()
            errors[name] = float(np.abs(theirs - ours[: len(theirs)]).max())
            assert errors[name] < TOLERANCE, (name, beta, errors[name])
        times = interleaved(runs, rounds, least=0.05)
        times["usual"] = [one * n / rows for one in times["usual"]]
        found.append(
            {
                "title": f"{'circle' if d == 2 else f'd={d}'}, N={n}, beta={beta:g}",
                "unit": "ms",
                "per": 1e3,
                "programs": [
                    {
                        "name": name,
                        "form": "",
                        "seconds": times[name],
                        "error": errors[name],
                        "goal": GOALS.get((d, n, name)),
                    }
                    for name in runs
                ],
                "skipped": [],
            }
        )
    return found


def steps(sizes, rounds: int) -> dict:
    """Several of them; ``sizes`` are (d, N, inverse temperatures)."""
    found = [one for size in sizes for one in step(*size, rounds)]
    return {"kind": "comparisons", "comparisons": found}


def whole_runs(rounds: int) -> dict:
    """From the uniform draw to the stopping rule, without perceptron.

    The usual code needs hours: its time is the number of Euler steps of the protocol, counted with
    our forces (they agree to rounding), times that of one usual step, measured in the same round.
    """
    found, mu = [], start()
    for ascent in (True, False):
        for beta in (1.0, 10.0, 50.0):
            F = SphereEnergy(beta)
            euler = settle(F, mu, ascent=ascent, method="euler")
            run = partial(settle, F, mu, ascent=ascent)
            end = run()
            times = interleaved({"usual": partial(usual, mu.atoms, beta), "mfbook": run}, rounds)
            whole = [euler.steps * one for one in times["usual"]]
            flow = "ascent" if ascent else "descent"
            found.append(
                {
                    "title": f"{flow}, N={mu.size}, beta={beta:g}",
                    "unit": "s",
                    "per": 1,
                    "programs": [
                        {
                            "name": name,
                            "form": f"{steps} steps, {_clusters(clusters)}",
                            "seconds": seconds,
                            "error": None,
                            "goal": goal,
                        }
                        for name, steps, clusters, seconds, goal in (
                            ("mfbook", end.steps, end.clusters.count, times["mfbook"], None),
                            ("usual", euler.steps, euler.clusters.count, whole, 1000),
                        )
                    ],
                    "skipped": [],
                }
            )
    return {"kind": "comparisons", "comparisons": found}


def _clusters(count: int) -> str:
    return f"{count} cluster" + "s" * (count != 1)


def minimisers(rounds: int) -> dict:
    """The certified minimiser on the circle."""
    rows = []
    for units in ("relu", "gelu"):
        for beta in (1.0, 10.0, 50.0):
            F = energy(beta, units)
            run = partial(minimise_on_circle, F)
            end = run()
            rows.append(
                {
                    "units": f"2 {units}",
                    "beta": beta,
                    "atoms": end.measure.size,
                    "gap": float(end.gap),
                    "seconds": [seconds(run, 0.05) for _ in range(rounds)],
                }
            )
    return {"kind": "minimisers", "rows": rows, "goal": {"gap": 1e-12, "seconds": 0.05}}


BETAS = (1.0, 10.0, 50.0)
STEPS = {
    "circle-1000": partial(steps, [(2, 1000, BETAS)], 5),
    "circle-10000": partial(steps, [(2, 10_000, BETAS)], 5),
    "higher": partial(steps, [(3, 500, (5.0,)), (3, 2000, (5.0,)), (16, 2000, (5.0,))], 5),
    "whole-runs": partial(whole_runs, 5),
    "minimisers": partial(minimisers, 5),
}
