"""Appendix A: forces, whole runs and the minimiser, beside two kinds of code for the same numbers.

*Usual* is code as it is usually written: all pairwise differences and their trigonometric
functions on the circle, all pairwise inner products and projections in an array (N, N, d) on
spheres. *Direct* is the best we know that visits every pair: one matrix product, one exponential in
place, one more product, in blocks that stay in cache. Both agree with this package to 1e-12.
"""

from functools import partial
from itertools import product

import numpy as np

from mfbook.book.experiments.sphere import source_draw
from mfbook.equilibria import Protocol, minimise_on_circle, settle
from mfbook.models.sphere import SphereEnergy
from mfbook.space import Sphere

from .timing import comparison, interleaved, seconds

TOLERANCE = 1e-12
#: Rows of the pairwise arrays that usual code holds at a time, and the most that it is timed on.
ROWS, MOST = 500, 1000
#: Pairs that direct code holds at a time: half a megabyte, two to three times as fast as ``ROWS``.
BLOCK = 2**16
BETAS = (1.0, 10.0, 50.0)
#: Goals of time / mfbook.
GOALS = {
    (2, 1000): {"usual": 200, "direct": 40},
    (2, 10_000): {"usual": 5000, "direct": 500},
    (3, 500): {"usual": 8},
    (3, 2000): {"usual": 8},
}


def usual(x, beta, count=None):
    """Velocities of ascent without perceptron, by pairwise trigonometry or pairwise vectors.

    With ``count`` only those of so many first particles.
    """
    angle = np.arctan2(x[:, 1], x[:, 0])

    def circle(own):
        u = angle[own, None] - angle
        force = -(np.exp(beta * (np.cos(u) - 1)) * np.sin(u)).mean(axis=1)
        return force[:, None] * np.stack([-x[own, 1], x[own, 0]], axis=1)

    def sphere(own):
        inner = (x[own, None] * x).sum(axis=2)
        projected = x - inner[:, :, None] * x[own, None]
        return (np.exp(beta * (inner - 1))[:, :, None] * projected).mean(axis=1)

    return by_rows(circle if x.shape[1] == 2 else sphere, ROWS, count or len(x))


def direct(x, beta, count=None):
    """The same by matrix products and one exponential of every pair."""

    def block(own):
        e = (beta * x[own]) @ x.T
        e -= beta
        np.exp(e, out=e)
        return e @ x / len(x)

    forces = by_rows(block, max(1, BLOCK // len(x)), count or len(x))
    return Sphere().tangent(x[:count], forces)


def by_rows(block, rows: int, count: int):
    """What ``block`` finds for the first ``count`` particles, given so many at a time."""
    slices = (slice(i, min(i + rows, count)) for i in range(0, count, rows))
    return np.concatenate([block(own) for own in slices])


def agreement(ours, theirs) -> float:
    """Largest difference of velocities of the first particles, which has to be rounding."""
    error = float(np.abs(theirs - ours[: len(theirs)]).max())
    assert error < TOLERANCE, f"velocities differ by {error:.1e}"
    return error


def velocities(sizes, rounds: int = 5) -> dict:
    """One evaluation of all velocities for each of ``sizes``, (d, N, inverse temperature).

    The usual code, which visits one row of particles after another, is timed on a part of the rows.
    """
    found = []
    for d, n, beta in sizes:
        x, rows = source_draw(d, n=n).start.atoms, min(n, MOST)
        runs = {
            "mfbook": partial(SphereEnergy(beta).field(ascent=True).at_atoms, x, np.full(n, 1 / n)),
            "usual": partial(usual, x, beta, rows),
            "direct": partial(direct, x, beta),
        }
        ours = runs["mfbook"]()
        errors = {name: agreement(ours, run()) for name, run in runs.items()}
        times = interleaved(runs, rounds, least=0.05)
        times["usual"] = [one * n / rows for one in times["usual"]]
        goals = GOALS.get((d, n), {})
        title = f"{'circle' if d == 2 else f'd={d}'}, N={n}, beta={beta:g}"
        programs = [(name, "", times[name], errors[name], goals.get(name)) for name in runs]
        found.append(comparison(title, "ms", 1e3, programs))
    return {"kind": "comparisons", "comparisons": found}


def whole_runs(rounds: int = 5, mu=None) -> dict:
    """From the published draw to its stopping rule, without perceptron.

    The usual code needs hours: its time is the number of Euler steps of the protocol, counted with
    our forces (they agree to rounding), times that of one usual step, measured in the same round.
    """
    found, mu, form = (
        [],
        mu or source_draw(2).start,
        "{0.steps} steps, {0.clusters.count} cluster{1}",
    )
    for ascent, beta in product((True, False), BETAS):
        F = SphereEnergy(beta)
        euler = settle(F, mu, ascent=ascent, protocol=Protocol())
        run = partial(settle, F, mu, ascent=ascent)
        end = run()
        times = interleaved({"usual": partial(usual, mu.atoms, beta), "mfbook": run}, rounds)
        whole = [euler.steps * one for one in times["usual"]]
        forms = [form.format(one, "s" * (one.clusters.count != 1)) for one in (end, euler)]
        programs = [
            ("mfbook", forms[0], times["mfbook"], None, None),
            ("usual", forms[1], whole, None, 1000),
        ]
        title = f"{'ascent' if ascent else 'descent'}, N={mu.size}, beta={beta:g}"
        found.append(comparison(title, "s", 1, programs))
    return {"kind": "comparisons", "comparisons": found}


def minimisers(rounds: int = 5) -> dict:
    """The certified minimiser on the circle, with the published perceptron."""
    rows = []
    for units, beta in product(("relu", "gelu"), BETAS):
        run = partial(minimise_on_circle, source_draw(2).energy(beta, units))
        end, times = run(), [seconds(run, 0.05) for _ in range(rounds)]
        row = {"units": f"2 {units}", "beta": beta, "atoms": end.measure.size, "gap": end.gap}
        rows.append({**row, "seconds": times})
    return {"kind": "minimisers", "rows": rows, "goal": {"gap": 1e-12, "seconds": 0.05}}


STEPS = {
    "circle-1000": partial(velocities, [(2, 1000, beta) for beta in BETAS]),
    "circle-10000": partial(velocities, [(2, 10_000, beta) for beta in BETAS]),
    "higher": partial(velocities, [(3, 500, 5.0), (3, 2000, 5.0), (16, 2000, 5.0)]),
    "whole-runs": whole_runs,
    "minimisers": minimisers,
}
