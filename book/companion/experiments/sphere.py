r"""Where the flows of Appendix A stop: every setup of the simulations, for every temperature.

There are two draws of particles and perceptron. The *source's* is the one of the published
simulations: the program that the paper links names its seeds and says how it draws
(:func:`source_draw`), and what it computes is determined by that. The *second* is ours
(:func:`perceptron`, :func:`start`): what holds for both is less likely to be luck.

``python -m companion.experiments.sphere`` computes the file ``sphere.npz`` of ``book/data``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from companion.experiments import _stored
from companion.experiments._draws import (  # what a chapter names as one module
    PARTICLE_SEED,
    PARTICLES,
    PERCEPTRON_SEED,
    Draw,
    energy,
    perceptron,
    source_draw,
    start,
)  # fmt: skip
from companion.experiments._stored import evaluate, grid
from mfbook.optimise import frank_wolfe_gap
from mfbook.sphere import Explicit, Stiff, clusters, second_order, settle

__all__ = [
    "BETAS", "PARTICLES", "PARTICLE_SEED", "PERCEPTRON_SEED", "SCALES", "Draw", "cells",
    "differences", "energy", "load", "load_paths", "main", "paths", "perceptron", "published",
    "run", "select", "source_cells", "source_draw", "start",
]  # fmt: skip

FILE = _stored.FOLDER / "sphere.npz"
COMMAND = "python -m companion.experiments.sphere"

#: Inverse temperatures of the simulations.
BETAS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0, 25.0, 35.0, 50.0)
#: Dimensions beyond 3, and their temperatures: of the second draw, and of the source's.
HIGHER, HIGHER_BETAS, HIGHER_SOURCE_BETAS = (4, 8, 16), (1.0, 10.0, 50.0), (1, 5, 10, 25, 50)
#: Time up to which they run, with explicit steps.
HIGHER_HORIZON = 300.0
#: Draws of the particles by which the sensitivity is measured, and their temperature.
DRAWS, DRAWS_BETA = 50, 25.0
#: Temperatures at which the scale of the perceptron is varied.
SCALED_BETAS = (5.0, 25.0)
#: Most steps of a stiff run: flows with ReLUs at large beta need not settle.
MOST = 3000
#: Factors of the perceptron's weights whose effect on the time to converge is measured.
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

#: Particles nearer to each other than this move as one in the stored runs with Euler's method.
COLLAPSE = 1e-10
#: Most steps of a stiff run with the source's draw.
STIFF_MOST = 20_000
#: Most Euler steps beyond three dimensions, and with other scales of the perceptron.
HIGHER_MOST, SCALED_MOST = 3000, 50_000
#: Descents that go on longer: dimension, units, temperatures, and most steps (0: the source's).
LONGER = ((4, "relu", HIGHER_SOURCE_BETAS, 0), (8, "relu", (10, 50), 20_000),
          (8, "gelu", (10, 50), 20_000))  # fmt: skip
#: Published descents with ReLU on the circle whose paths are stored: temperatures, every so
#: many-th token, and about how many times.
PATHS_BETAS, PATHS_EVERY, PATHS_TIMES = (1.0, 5.0, 10.0, 50.0), 4, 120
#: Most Euler steps on the sphere: normalised descent with a perceptron from a temperature on, which
#: does not settle in ten times as many, and repulsion beside a run that takes more.
SPHERE_MOST, SPHERE_FROM, BESIDE_MOST = 20_000, 3.0, 3000
#: Scales at which Theorem 3.5 says something about the source's perceptron, and temperatures.
WEAK = {2: (0.0625, 0.125, 0.25, 0.375, 0.5), 3: (0.03125, 0.0625, 0.125, 0.1875, 0.25)}
WEAK_BETAS = (1.0, 5.0, 10.0, 25.0, 50.0)
#: Further draws of particles and perceptron together, their temperature, and most Euler steps.
FURTHER, FURTHER_BETA, FURTHER_MOST = 10, 10.0, 3000
#: Most clusters of a run whose centres are stored.
PLACED = 100
#: What says which run of the source's draw a stored row is.
KEYS = (
    "d", "beta", "direction", "units", "normalised", "rule", "start", "perceptron", "scale",
    "particles", "between", "beside", "most",
)  # fmt: skip


def cells() -> list[dict]:
    """Every run of the second draw, as keyword arguments of :func:`run`."""
    directions, units = ("ascent", "descent"), ("none", "relu", "gelu")
    both = (False, True)
    out = grid(d=[2, 3], beta=BETAS, direction=directions, units=units, normalised=both)
    out += grid(d=HIGHER, beta=HIGHER_BETAS, direction=directions, units=units, normalised=[False])
    out = [{**cell, "seed": 0, "scale": 1.0} for cell in out]
    scaled = grid(
        d=[2], beta=SCALED_BETAS, direction=directions, units=units[1:], normalised=both, seed=[0],
        scale=[s for s in SCALES if s != 1],
    )  # fmt: skip
    drawn = grid(
        d=[2], beta=[DRAWS_BETA], direction=directions, units=["none", "gelu"], normalised=[False],
        seed=range(1, DRAWS), scale=[1.0],
    )  # fmt: skip
    return out + scaled + [c for c in drawn if (c["direction"], c["units"]) != ("descent", "none")]


def run(
    d: int,
    beta: float,
    direction: str,
    units: str,
    normalised: bool = False,
    seed: int = 0,
    scale: float = 1.0,
) -> dict:
    """One run to the stopping rule; what is stored of its end.

    On the circle and on the sphere in three dimensions with stiff steps up to time 20,000 (the
    published horizon) or for at most 3000 steps; in higher dimension with explicit
    steps up to time 300.
    """
    F, ascent = energy(beta, units, normalised, d, scale), direction == "ascent"
    steps = round(10 * HIGHER_HORIZON)
    how = Stiff(most=MOST) if d <= 3 else Explicit(most=steps, repelled=steps)
    end = settle(F, start(d, seed), how, ascent=ascent)
    out = {
        "count": end.clusters.count, "time": end.t[-1], "steps": end.steps,
        "stopped": end.completed, "speed": end.speed[-1], "value": end.value[-1],
        "least": np.nan, "gap_found": np.nan, "gap": np.nan,
        "masses": end.clusters.masses, "centres": end.clusters.centres,
    }  # fmt: skip
    if d <= 3:
        spectrum = second_order(F, end.end).eigenvalues
        out["least"] = float(-spectrum[-1] if ascent else spectrum[0])
    if not ascent:
        gap = frank_wolfe_gap(F, end.end, 0)
        out["gap_found"], out["gap"] = gap.found, gap.rigorous
    return out


def source_cells() -> list[dict]:
    """Runs of the source's draw, as arguments of :func:`published`, that need no other run."""
    directions, units = ("ascent", "descent"), ("none", "relu", "gelu")
    both = (False, True)
    usual = {
        "rule": "source", "start": 0, "perceptron": 0, "scale": 1.0, "particles": 0, "between": 10,
        "beside": "", "most": 0,
    }  # fmt: skip

    def setups(**axes) -> list[dict]:
        known = {"direction": directions, "units": units, "normalised": [False]}
        return [{**usual, **cell} for cell in grid(**{**known, **axes})]

    def free(cell) -> bool:
        return (cell["direction"], cell["units"]) == ("descent", "none")

    figures = setups(d=[2, 3], beta=BETAS, normalised=both)
    # repulsion without a perceptron on the sphere has no rule of its own there
    out = [cell for cell in figures if not (cell["d"] == 3 and free(cell))]
    for i, cell in enumerate(out):
        hard = cell["d"] == 3 and cell["normalised"] and cell["direction"] == "descent"
        if hard and cell["beta"] >= SPHERE_FROM:
            out[i] = {**cell, "most": SPHERE_MOST}
    # the cap binds for these only
    out += [
        {**cell, "rule": "uncapped"} for cell in figures if cell["d"] == 2 and cell["beta"] < 0.4
    ]
    # the animations on the sphere have twice as many particles
    shown = setups(d=[3], beta=[1.0], normalised=both, particles=[1000])
    out += [cell for cell in shown if not free(cell)]
    out += setups(d=HIGHER, beta=map(float, HIGHER_SOURCE_BETAS), most=[HIGHER_MOST])
    for d, units_, betas, most in LONGER:
        out += setups(
            d=[d], beta=map(float, betas), direction=["descent"], units=[units_], rule=["longer"],
            most=[most],
        )  # fmt: skip
    drawn = setups(d=[2], beta=[DRAWS_BETA], units=["none", "gelu"], start=range(1, DRAWS))
    out += [cell for cell in drawn if not free(cell)]
    out += [{**cell, "rule": "stiff"} for cell in figures]
    # the stiff integrator is faster on the circle, Euler on the sphere
    for d, rule, most in ((2, "stiff", 0), (3, "source", FURTHER_MOST)):
        further = setups(d=[d], beta=[FURTHER_BETA], units=units[1:], rule=[rule], most=[most])
        out += [
            {**cell, "start": i, "perceptron": i}
            for i in range(1, FURTHER + 1) for cell in further
        ]  # fmt: skip
    weak = [
        setups(d=[d], beta=WEAK_BETAS, direction=["descent"], units=["relu"], scale=scales)
        for d, scales in WEAK.items()
    ]
    scales = [scale for scale in SCALES if scale != 1]
    scaled = setups(d=[2], beta=SCALED_BETAS, units=units[1:], scale=scales)
    stiff = [{**cell, "rule": "stiff"} for cell in [*sum(weak, []), *scaled]]
    # a setup may be in both lists
    out += [cell for i, cell in enumerate(stiff) if cell not in stiff[:i]]
    return out + [{**cell, "most": SCALED_MOST} for cell in scaled]


def published(
    d: int,
    beta: float,
    direction: str,
    units: str,
    normalised: bool = False,
    rule: str = "source",
    start: int = 0,
    perceptron: int = 0,
    scale: float = 1.0,
    particles: int = 0,
    between: int = 10,
    beside: str = "",
    most: int = 0,
) -> dict:
    """One run with the source's draw; what is stored of its end."""
    draw = source_draw(d, start=start, perceptron=perceptron, scale=scale, n=particles or None)
    F, ascent = draw.energy(beta, units, normalised), direction == "ascent"
    rules = Explicit(cap=rule != "uncapped", between=between, collapse=COLLAPSE)
    rules = replace(rules, most=most) if most else rules
    if beside:  # as many steps as another run: no stopping rule
        rules = replace(rules, window=most, repelled=most)
    if rule == "stiff":
        limit, threshold = most or STIFF_MOST, rules.threshold(beta, d)
        end = settle(F, draw.start, ascent=ascent, solver=Stiff(threshold=threshold, most=limit))
    else:
        end = settle(F, draw.start, ascent=ascent, solver=rules)
    mu, wide = end.end, replace(rules, cap=False).threshold(beta, d)
    linkage = "arcs" if d == 2 else "single"
    uncapped = clusters(mu, threshold=wide, linkage=linkage).count
    out = {
        "count": end.clusters.count, "time": end.t[-1], "steps": end.steps,
        "stopped": end.completed, "speed": end.speed[-1], "value": end.value[-1],
        "least": np.nan, "gap_found": np.nan, "gap": np.nan, "reason": end.reason,
        "atoms": mu.size, "uncapped": uncapped,
        "dead_start": draw.start.weights @ draw.asleep(draw.start.atoms),
        "dead": mu.weights @ draw.asleep(mu.atoms),
        "masses": end.clusters.masses, "centres": end.clusters.centres,
    }  # fmt: skip
    if d <= 3:
        spectrum = second_order(F, mu).eigenvalues
        out["least"] = float(-spectrum[-1] if ascent else spectrum[0])
    if d <= 3 and not ascent:
        gap = frank_wolfe_gap(F, mu, 0)
        out["gap_found"], out["gap"] = gap.found, gap.rigorous
    return out


def paths(beta: float) -> dict:
    """Paths of a published descent with ReLU on the circle, to its stop or 200,000 steps."""
    draw = source_draw(2)
    F, rules = draw.energy(beta, "relu"), Explicit(collapse=COLLAPSE)
    run = settle(F, draw.start, solver=rules, record=1)
    even = np.geomspace(1, 1 + run.t[-1], PATHS_TIMES) - 1
    kept = np.unique(np.searchsorted(run.t, even - 1e-9))
    x = run.atoms[kept]
    shown = x[:, ::PATHS_EVERY]
    return {
        "t": run.t[kept], "degrees": np.degrees(np.arctan2(shown[..., 1], shown[..., 0])),
        "dead": draw.asleep(x.reshape(-1, 2)).reshape(len(kept), -1).mean(axis=1),
        "count": run.clusters.count, "stopped": run.completed, "rise": np.diff(run.value).max(),
    }  # fmt: skip


def paths_arrays(found: dict[float, dict]) -> dict[str, np.ndarray]:
    """Arrays of several paths; angles in hundredths of a degree."""
    out: dict[str, np.ndarray] = {}
    for beta, run in found.items():
        arrays = {"degrees": np.round(100 * run["degrees"]).astype(np.int16)}
        out |= {f"paths_{beta:g}_{name}": np.asarray(v) for name, v in (run | arrays).items()}
    return out


def load_paths() -> dict[float, dict]:
    """The stored results of :func:`paths`, by temperature; angles to a hundredth of a degree."""
    data, names = _stored.load(FILE), ("t", "degrees", "dead", "count", "stopped", "rise")
    out = {b: {name: data[f"paths_{b:g}_{name}"] for name in names} for b in PATHS_BETAS}
    return {b: run | {"degrees": run["degrees"] / 100} for b, run in out.items()}


def beside_cells(rows: list[dict]) -> list[dict]:
    """Repulsion without a perceptron on the sphere: as many steps as each run with one took.

    At most ``BESIDE_MOST`` of them, and with the first draw only. ``rows`` are cells of
    :func:`source_cells` with the ``steps`` of their runs.
    """
    out = []
    for row in rows:
        if (row["d"], row["direction"], row["rule"], row["start"]) == (3, "descent", "source", 0):
            most = min(row["steps"], BESIDE_MOST)
            cell = {key: row[key] for key in KEYS}
            out.append({**cell, "units": "none", "beside": row["units"], "most": most})
    return out


def compute(cache_folder, jobs: int) -> dict[str, np.ndarray]:
    """All runs of both draws; names of arrays of the source's begin with ``source_``."""
    source = compute_source(cache_folder, jobs)
    second = compute_second(cache_folder, jobs)
    cells = [{"beta": beta} for beta in PATHS_BETAS]
    found = evaluate(paths, cells, cache=cache_folder, n_jobs=jobs)
    followed = paths_arrays(dict(zip(PATHS_BETAS, found, strict=True)))
    return second | {f"source_{name}": values for name, values in source.items()} | followed


def compute_source(cache_folder, jobs: int) -> dict[str, np.ndarray]:
    """All runs of the source's draw, in the form of :func:`load`."""

    def rows(todo):
        order = sorted(range(len(todo)), key=lambda i: -_cost(todo[i]))
        results = evaluate(published, [todo[i] for i in order], cache=cache_folder, n_jobs=jobs)
        return [
            row for _, row in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])
        ]

    todo = source_cells()
    found = rows(todo)
    taken = [{**cell, "steps": row["steps"]} for cell, row in zip(todo, found, strict=True)]
    more = beside_cells(taken)
    return source_arrays(todo + more, found + rows(more))


def source_arrays(todo: list[dict], rows: list[dict]) -> dict[str, np.ndarray]:
    """Arrays of runs with the source's draw, and which clusters lie where no unit is active.

    Beyond three dimensions, and of runs with more than ``PLACED`` clusters, no centres are kept.
    """
    asleep, kept = [], []
    for cell, row in zip(todo, rows, strict=True):
        draw = source_draw(cell["d"], perceptron=cell["perceptron"])
        asleep.append(draw.asleep(np.nan_to_num(row["centres"])))
        centres = np.zeros((row["count"], 3))
        if cell["d"] <= 3 and row["count"] <= PLACED:
            centres[:, : cell["d"]] = row["centres"]
        kept.append({**row, "centres": centres})
    return _as_arrays(todo, kept) | {"asleep": np.concatenate(asleep)}


def _cost(cell: dict) -> float:
    """A guess of how long a run takes: the costly ones first, so that no process is left alone."""
    slow = cell["direction"] == "descent" and cell["units"] == "relu"
    return (10 if slow else 1) * min(cell["d"], 3) * (1 + cell["beta"]) + cell["most"]


def compute_second(cache_folder, jobs: int) -> dict[str, np.ndarray]:
    """All runs of the second draw: an array for each quantity, and the clusters of all in a row."""
    todo = cells()
    # the costly runs first, so that no process is left with one at the end
    order = sorted(range(len(todo)), key=lambda i: (-min(todo[i]["d"], 3), -todo[i]["beta"]))
    results = evaluate(run, [todo[i] for i in order], cache=cache_folder, n_jobs=jobs)
    rows = [row for _, row in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]
    return _as_arrays(todo, rows)


def _as_arrays(todo: list[dict], rows: list[dict]) -> dict[str, np.ndarray]:
    """One array for each argument and each quantity."""
    ragged = ("masses", "centres")
    out = {name: np.array([cell[name] for cell in todo]) for name in todo[0]}
    out |= {name: np.array([row[name] for row in rows]) for name in rows[0] if name not in ragged}
    sizes = [len(row["masses"]) for row in rows]
    width = max(row["centres"].shape[1] for row in rows)
    centres = [np.pad(r["centres"], ((0, 0), (0, width - r["centres"].shape[1]))) for r in rows]
    return out | {
        "first": np.concatenate([[0], np.cumsum(sizes)]),
        "masses": np.concatenate([row["masses"] for row in rows]).astype(np.float32),
        "centres": np.concatenate(centres).astype(np.float32),
    }


def load(draw: str = "second") -> dict:
    """The stored results: one array for each quantity over the runs, and ``about``.

    The clusters of run i are ``masses[first[i]:first[i + 1]]`` and likewise ``centres``, whose
    coordinates beyond the run's dimension are 0.
    """
    data, mark = _stored.load(FILE), "source_"
    if draw == "second":
        others = (mark, "paths_")
        return {name: values for name, values in data.items() if not name.startswith(others)}
    own = {name[len(mark) :]: data[name] for name in data if name.startswith(mark)}
    return {**own, "about": data["about"]}


#: What a selected run has, unless asked for otherwise.
USUAL = {
    "seed": 0, "start": 0, "perceptron": 0, "scale": 1.0, "rule": "source", "particles": 0,
    "between": 10, "beside": "",
}  # fmt: skip


def select(data: dict, **wanted) -> np.ndarray:
    """Which runs have all the given values; unless given, seed 0 and scale 1.

    With the source's draw also: the first particles and perceptron, the published rules, the usual
    number of particles and spacing of snapshots, and a run with a stopping rule of its own.
    """
    wanted = {name: value for name, value in USUAL.items() if name in data} | wanted
    return np.logical_and.reduce([data[name] == value for name, value in wanted.items()])


def differences(
    data: dict, i: int, other: dict | None = None, j: int = 0
) -> tuple[float, float, float]:
    """How far the clusters of two stored runs differ, each matched with one of the other."""
    other, ends = data if other is None else other, []
    for results, k in ((data, i), (other, j)):
        part = slice(int(results["first"][k]), int(results["first"][k + 1]))
        ends.append([results[name][part].astype(float) for name in ("masses", "centres")])
    (m, x), (n, y) = ends
    if len(m) != len(n):
        return float(len(n) - len(m)), np.nan, np.nan
    width = min(x.shape[1], y.shape[1])
    x, y = (z[:, :width] / np.linalg.norm(z[:, :width], axis=1, keepdims=True) for z in (x, y))
    away = 2 * np.arcsin(np.minimum(np.linalg.norm(x[:, None] - y, axis=2) / 2, 1.0))
    rows, columns = linear_sum_assignment(away)
    mass = np.abs(m[rows] - n[columns]).max()
    return 0.0, float(mass), float(away[rows, columns].max())


def main() -> None:
    """Compute and store everything."""
    count = len(cells()) + len(source_cells())
    cost = f"{count} runs of 500 to 1000 particles: an hour or two of one core"
    _stored.main(FILE, COMMAND, cost, compute)


if __name__ == "__main__":
    # run as the module of this name, so that the cache knows the functions by one name
    from companion.experiments.sphere import main as run_all

    run_all()
