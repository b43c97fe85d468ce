"""Appendix A: forces, whole runs and the minimiser, beside two kinds of code for the same numbers.

``python -m benchmarks.sphere`` prints every table. *Usual* is code as it is usually written: all
pairwise differences and their trigonometric functions on the circle, all pairwise inner products
and projections in an array (N, N, d) on spheres. *Direct* is the best we know that visits every
pair: one matrix product, one exponential in place, one more product. Both are chunked where the
arrays would not fit the cache, and agree with this package to 1e-12. CPU times, one thread.
"""

import argparse
import tracemalloc
from functools import partial
from time import process_time

import numpy as np

from mfbook.experiments.sphere import energy, start
from mfbook.report import table
from mfbook.space import Sphere
from mfbook.sphere import SphereEnergy, minimise_on_circle, settle

from .heads import machine

TOLERANCE = 1e-12
#: Rows of the pairwise arrays held at a time.
ROWS = 500
#: Goals of time / mfbook.
GOALS = {
    (2, 1000, "usual"): 200, (2, 10_000, "usual"): 5000,
    (2, 1000, "direct"): 40, (2, 10_000, "direct"): 500,
    (3, 500, "usual"): 8, (3, 2000, "usual"): 8,
}  # fmt: skip


def seconds(run, least: float = 0.05) -> float:
    """CPU time of one call, from as many as take ``least`` seconds together."""
    count, begin = 0, process_time()
    while count == 0 or process_time() - begin < least:
        run()
        count += 1
    return (process_time() - begin) / count


def usual(x, beta):
    """Velocities of ascent without perceptron, by pairwise trigonometry or pairwise vectors."""
    n, d = x.shape
    if d == 2:
        angle = np.arctan2(x[:, 1], x[:, 0])
        force = np.empty(n)
        for i in range(0, n, ROWS):
            u = angle[i : i + ROWS, None] - angle
            pairs = np.exp(beta * (np.cos(u) - 1)) * np.sin(u)
            force[i : i + ROWS] = -pairs.mean(axis=1)
        return force[:, None] * np.stack([-x[:, 1], x[:, 0]], axis=1)
    out = np.empty_like(x)
    for i in range(0, n, ROWS):
        own = x[i : i + ROWS]
        inner = (own[:, None] * x).sum(axis=2)
        projected = x[None] - inner[:, :, None] * own[:, None]
        pairs = np.exp(beta * (inner - 1))[:, :, None] * projected
        out[i : i + ROWS] = pairs.mean(axis=1)
    return out


def direct(x, beta):
    """The same by matrix products and one exponential of every pair."""
    n, out = len(x), np.empty_like(x)
    for i in range(0, n, ROWS):
        e = (beta * x[i : i + ROWS]) @ x.T
        e -= beta
        np.exp(e, out=e)
        out[i : i + ROWS] = e @ x / n
    return Sphere().tangent(x, out)


def step(d: int, n: int, betas, rounds: int) -> None:
    """One evaluation of all velocities."""
    x, w, rows = start(d, n=n).atoms, np.full(n, 1 / n), []
    for beta in betas:
        field = SphereEnergy(beta).field(ascent=True)
        runs = {
            "mfbook": partial(field.at_atoms, x, w),
            "usual": partial(usual, x, beta), "direct": partial(direct, x, beta),
        }  # fmt: skip
        ours = runs["mfbook"]()
        times = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                times[name].append(seconds(run))
        for name in ("usual", "direct"):
            error = np.abs(runs[name]() - ours).max()
            assert error < TOLERANCE, (name, beta, error)
            ratio = np.divide(times[name], times["mfbook"])
            low, middle, high = np.quantile(ratio, (0.25, 0.5, 0.75))
            goal = GOALS.get((d, n, name))
            rows.append(
                {
                    "beta": beta,
                    "peer": name,
                    "mfbook, ms": f"{np.median(times['mfbook']) * 1e3:.3g}",
                    "peer, ms": f"{np.median(times[name]) * 1e3:.3g}",
                    "time / mfbook": f"{middle:.3g}",
                    "quartiles": f"{low:.3g} to {high:.3g}",
                    "goal": f">= {goal}" if goal else "",
                    "differs by": f"{error:.0e}",
                }
            )
    table(rows, f"d = {d}, N = {n}: one evaluation; medians of {rounds} interleaved rounds")
    print()


def whole_runs(rounds: int) -> None:
    """From the uniform draw to the stopping rule, without perceptron.

    The usual code needs hours: its time is the number of Euler steps of the protocol, counted with
    our forces (they agree to rounding), times that of one usual step, measured in the same round.
    """
    rows, mu = [], start()
    for ascent in (True, False):
        for beta in (1.0, 10.0, 50.0):
            F = SphereEnergy(beta)
            euler = settle(F, mu, ascent=ascent, method="euler")
            run = partial(settle, F, mu, ascent=ascent)
            end, ratios, own = run(), [], []
            for _ in range(rounds):
                one = seconds(partial(usual, mu.atoms, beta))
                own.append(seconds(run, 0.0))
                ratios.append(one * euler.steps / own[-1])
            rows.append(
                {
                    "flow": "ascent" if ascent else "descent",
                    "beta": beta,
                    "Euler steps": euler.steps,
                    "stiff steps": end.steps,
                    "clusters, Euler": euler.clusters.count,
                    "clusters, stiff": end.clusters.count,
                    "mfbook, s": f"{np.median(own):.3g}",
                    "usual / mfbook": f"{np.median(ratios):.4g}",
                    "goal": ">= 1000",
                }
            )
    table(rows, f"N = 1000 on the circle, whole runs: medians of {rounds} rounds")
    print()


def minimisers(rounds: int) -> None:
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
                    "certified gap": f"{end.gap:.1e}",
                    "ms": f"{np.median([seconds(run) for _ in range(rounds)]) * 1e3:.3g}",
                    "goal": "gap <= 1e-12 in <= 50 ms",
                }
            )
    table(rows, "minimiser on the circle")
    print()


def scaling() -> None:
    """Time and memory of one evaluation on the circle against the number of particles."""
    rows, times, sizes = [], [], [10**k for k in range(3, 7)]
    for n in sizes:
        x, w = start(n=n).atoms, np.full(n, 1 / n)
        field = SphereEnergy(10.0).field(ascent=True)
        field.at_atoms(x, w)
        times.append(seconds(partial(field.at_atoms, x, w), 0.2))
        tracemalloc.start()
        field.at_atoms(x, w)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append(
            {
                "N": n,
                "seconds": f"{times[-1]:.3g}",
                "ns per particle": f"{times[-1] / n * 1e9:.3g}",
                "peak memory, MB": f"{peak / 1e6:.3g}",
                "bytes per particle": f"{peak / n:.3g}",
            }
        )
    table(rows, "circle, beta = 10: one evaluation; memory beyond the particles")
    exponent, _ = np.polyfit(np.log(sizes), np.log(times), 1)
    print(f"time grows as N^{exponent:.2f} (least squares)")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    rounds = parser.parse_args().rounds
    print(machine(), end="\n\n")
    for n in (1000, 10_000):
        step(2, n, (1.0, 10.0, 50.0), rounds)
    for d, n in ((3, 500), (3, 2000), (16, 2000)):
        step(d, n, (5.0,), rounds)
    whole_runs(rounds)
    minimisers(rounds)
    scaling()


if __name__ == "__main__":
    main()
