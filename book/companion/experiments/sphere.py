r"""Where the flows of Appendix A stop: every setup of the simulations, for every temperature.

There are two draws of particles and perceptron. The *source's* is the one of the published
simulations: the program that the paper links names its seeds and says how it draws
(:func:`source_draw`), and what it computes is determined by that. The *second* is ours
(:func:`perceptron`, :func:`start`): what holds for both is less likely to be luck.

    python -m companion.experiments.sphere             (an hour of one core)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from companion.experiments import _stored
from companion.experiments._stored import grid
from mfbook.measure import Measure
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Sphere
from mfbook.sphere import Explicit, SphereEnergy, Stiff, settle

FILE = _stored.FOLDER / "sphere.npz"
COMMAND = "python -m companion.experiments.sphere"

#: Particles on the circle and on spheres.
PARTICLES = {2: 1000, 3: 500}
#: Seeds of the published simulations: particles; perceptron on the circle and on spheres.
PARTICLE_SEED, PERCEPTRON_SEED = 42, {2: 777, 3: 111}
WAYS, UNITS = ("ascent", "descent"), ("none", "relu", "gelu")
#: Inverse temperatures of the simulations; those of dimensions beyond 3.
BETAS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0, 25.0, 35.0, 50.0)
HIGHER, HIGHER_SOURCE_BETAS = (4, 8, 16), (1.0, 5.0, 10.0, 25.0, 50.0)
#: Draws of the particles by which the sensitivity is measured; temperature of these, and of
#: descents with weights of the perceptron times other factors.
DRAWS, DRAWS_BETA, SCALES = 50, 25.0, (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Scales at which Theorem 3.5 says something about the source's perceptron, and temperatures.
WEAK = {2: (0.0625, 0.125, 0.25, 0.375, 0.5), 3: (0.03125, 0.0625, 0.125, 0.1875, 0.25)}
WEAK_BETAS = (1.0, 5.0, 10.0, 25.0, 50.0)
#: Further draws of particles and perceptron together, and their temperature.
FURTHER, FURTHER_BETA = 10, 10.0
#: Descents that go on longer: dimension, units, temperatures, and most steps (0: the source's).
LONGER = ((4, "relu", HIGHER_SOURCE_BETAS, 0), (8, "relu", (10.0, 50.0), 20_000),
          (8, "gelu", (10.0, 50.0), 20_000))  # fmt: skip
#: Published descents with ReLU on the circle whose paths are stored: temperatures, every so
#: many-th token, and about how many times.
PATHS_BETAS, PATHS_EVERY, PATHS_TIMES = (1.0, 5.0, 10.0, 50.0), 4, 120

#: Particles nearer to each other than this move as one in the stored runs with Euler's method.
COLLAPSE = 1e-10
#: Most steps of a stiff run, second and source's draw: flows with ReLUs at large beta need not
#: settle. Most Euler steps beyond three dimensions.
MOST, STIFF_MOST, HIGHER_MOST = 3000, 20_000, 3000
#: Most Euler steps on the sphere: normalised descent with a perceptron from a temperature on, which
#: does not settle in ten times as many, and repulsion beside a run that takes more.
SPHERE_MOST, SPHERE_FROM, BESIDE_MOST = 20_000, 3.0, 3000
#: Most clusters of a run whose centres are stored.
PLACED = 100

#: What a selected run has, unless asked for otherwise.
USUAL = {"rule": "source", "start": 0, "perceptron": 0, "scale": 1.0, "particles": 0, "beside": ""}


@dataclass(frozen=True, eq=False)
class Draw:
    """Particles and perceptron of one simulation."""

    start: Measure
    a: np.ndarray = field(repr=False)
    omega: np.ndarray = field(repr=False)

    def energy(self, beta: float, units: str = "none", normalised: bool = False) -> SphereEnergy:
        """Energy of one setup; ``units`` is ``"none"`` or the name of an activation."""
        perceptron = () if units == "none" else (self.a, self.omega, units)
        return SphereEnergy(beta, *perceptron, normalised=normalised)

    def asleep(self, x: np.ndarray) -> np.ndarray:
        """Whether no unit is active at the points x (n, d): the dead zone of ReLU."""
        return (np.asarray(x) @ self.a.T <= 0).all(axis=1)


def perceptron(d: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Perceptron of our second draw, the same in every run; seed 0: nothing was selected."""
    return _units(np.random.default_rng(0), d, scale)


def _units(rng: np.random.Generator, d: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """d units: normal vectors divided by their lengths, and normal weights times ``scale``."""
    a = rng.normal(size=(d, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, scale * rng.normal(size=d)


def start(d: int = 2, seed: int = 0, n: int | None = None) -> Measure:
    """Particles of our second draw, uniform on the sphere: 1000 on the circle, else 500."""
    n = n or PARTICLES[min(d, 3)]
    return Measure(Sphere().sample(np.random.default_rng([7, seed, d]), n, d))


def energy(
    beta: float, units: str = "none", normalised: bool = False, d: int = 2, scale: float = 1.0
) -> SphereEnergy:
    """Energy of one setup with our second perceptron."""
    return Draw(start(d, n=1), *perceptron(d, scale)).energy(beta, units, normalised)


def source_draw(
    d: int, *, start: int = 0, perceptron: int = 0, n: int | None = None, scale: float = 1.0
) -> Draw:
    r"""Return what the published simulations drew, number by number.

    The particles have seed 42, the perceptron 777 on the circle and 111 on spheres; NumPy's default
    generator. On the circle n angles are uniform on :math:`[0,2\pi)` radians, on spheres n standard
    normal vectors are divided by their lengths. Further draws have seeds of their own, integers
    below :math:`2^{31}-1` from a generator with the first seed.

    The seeds are named in the program's text for the circle and :math:`S^2`; that the second one
    was used for d > 3 too is our reading.
    """
    n, rng = n or PARTICLES[min(d, 3)], _generator(PARTICLE_SEED, start)
    if d == 2:
        angle = rng.uniform(0.0, 2 * np.pi, n)
        x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        x = rng.normal(size=(n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    units = _units(_generator(PERCEPTRON_SEED[min(d, 3)], perceptron), d, scale)
    return Draw(Measure(x), *units)


def _generator(seed: int, index: int) -> np.random.Generator:
    """Generator of the draw of this index."""
    rng = np.random.default_rng(seed)
    return np.random.default_rng(int(rng.integers(0, 2**31 - 1, size=index)[-1])) if index else rng


def second_cells() -> list[dict]:
    """Every run of the second draw, as arguments of :func:`second`."""
    return grid(d=[2, 3], beta=BETAS, direction=WAYS, units=UNITS, normalised=(False, True))


def second(d: int, beta: float, direction: str, units: str, normalised: bool = False) -> dict:
    """One run with the second draw, by the stiff integrator: how many clusters it ends with."""
    F, how = energy(beta, units, normalised, d), Stiff(most=MOST)
    end = settle(F, start(d), how, ascent=direction == "ascent")
    return {"count": end.clusters.count, "stopped": end.completed, "value": end.value[-1]}


def source_cells() -> list[dict]:
    """Runs of the source's draw, as arguments of :func:`published`, that need no other run."""

    def setups(**axes) -> list[dict]:
        known = {"direction": WAYS, "units": UNITS, "normalised": [False]}
        return [{**USUAL, "most": 0, **cell} for cell in grid(**{**known, **axes})]

    def alone(cell) -> bool:
        return (cell["direction"], cell["units"]) == ("descent", "none")

    def hard(cell) -> bool:
        way = cell["d"] == 3 and cell["normalised"] and cell["direction"] == "descent"
        return way and cell["beta"] >= SPHERE_FROM

    figures = setups(d=[2, 3], beta=BETAS, normalised=(False, True))
    # repulsion without a perceptron on the sphere has no rule of its own there
    out = [
        {**cell, "most": SPHERE_MOST * hard(cell)}
        for cell in figures if not (cell["d"] == 3 and alone(cell))
    ]  # fmt: skip
    # the cap binds for these only
    out += setups(d=[2], beta=BETAS[:3], direction=["descent"], units=["none"], rule=["uncapped"])
    # the animations on the sphere have twice as many particles
    shown = setups(d=[3], beta=[1.0], normalised=(False, True), particles=[1000])
    out += [cell for cell in shown if not alone(cell)]
    out += setups(d=HIGHER, beta=HIGHER_SOURCE_BETAS, most=[HIGHER_MOST])
    fall = {"direction": ["descent"], "units": ["relu"]}
    for d, units, betas, most in LONGER:
        out += setups(**fall | {"units": [units]}, d=[d], beta=betas, rule=["longer"], most=[most])
    drawn = setups(d=[2], beta=[DRAWS_BETA], units=["none", "gelu"], start=range(1, DRAWS))
    out += [cell for cell in drawn if not alone(cell)]
    out += [{**cell, "rule": "stiff"} for cell in figures]
    for i in range(1, FURTHER + 1):
        out += setups(
            d=[2], beta=[FURTHER_BETA], units=["relu"], rule=["stiff"], start=[i], perceptron=[i]
        )
    for d, scales in WEAK.items():
        out += setups(**fall, d=[d], beta=WEAK_BETAS, rule=["stiff"], scale=scales)
    others = [scale for scale in SCALES if scale not in (1.0, *WEAK[2])]
    return out + setups(**fall, d=[2], beta=[DRAWS_BETA], rule=["stiff"], scale=others)


def beside_cells(cells: list[dict], steps) -> list[dict]:
    """Repulsion without a perceptron on the sphere: as many steps as each run with one took.

    At most ``BESIDE_MOST`` of them; ``steps`` are those of the runs of :func:`source_cells`.
    """
    return [
        {**cell, "units": "none", "beside": cell["units"], "most": min(int(taken), BESIDE_MOST)}
        for cell, taken in zip(cells, steps, strict=True)
        if (cell["d"], cell["direction"], cell["rule"]) == (3, "descent", "source")
    ]


def published(
    d: int, beta: float, direction: str, units: str, normalised: bool = False,
    rule: str = "source", start: int = 0, perceptron: int = 0, scale: float = 1.0,
    particles: int = 0, beside: str = "", most: int = 0,
) -> dict:  # fmt: skip
    """One run with the source's draw; of its end, centres of few clusters in few dimensions."""
    draw = source_draw(d, start=start, perceptron=perceptron, scale=scale, n=particles or None)
    F, ascent = draw.energy(beta, units, normalised), direction == "ascent"
    rules = Explicit(cap=rule != "uncapped", collapse=COLLAPSE)
    rules = replace(rules, most=most) if most else rules
    if beside:  # as many steps as another run: no stopping rule
        rules = replace(rules, window=most)
    if rule == "stiff":
        rules = Stiff(threshold=rules.threshold(beta, d), most=most or STIFF_MOST)
    end = settle(F, draw.start, rules, ascent=ascent)
    mu, found = end.end, end.clusters
    centres = np.zeros((found.count, 3))
    if d <= 3 and found.count <= PLACED:
        centres[:, :d] = found.centres
    return {
        "count": found.count, "time": end.t[-1], "steps": end.steps, "stopped": end.completed,
        "value": end.value[-1],
        "gap": np.nan if d > 3 or ascent else frank_wolfe_gap(F, mu, 0).rigorous,
        "dead_start": draw.start.weights @ draw.asleep(draw.start.atoms),
        "dead": mu.weights @ draw.asleep(mu.atoms),
        "masses": found.masses.astype(np.float32), "centres": centres.astype(np.float32),
        "asleep": draw.asleep(np.nan_to_num(found.centres)),
    }  # fmt: skip


def paths(beta: float) -> dict:
    """Paths of a published descent with ReLU on the circle; hundredths of a degree."""
    draw = source_draw(2)
    run = settle(draw.energy(beta, "relu"), draw.start, Explicit(collapse=COLLAPSE), record=1)
    even = np.geomspace(1, 1 + run.t[-1], PATHS_TIMES) - 1
    kept = np.unique(np.searchsorted(run.t, even - 1e-9))
    x = run.atoms[kept]
    degrees = np.degrees(np.arctan2(x[:, ::PATHS_EVERY, 1], x[:, ::PATHS_EVERY, 0]))
    return {
        "t": run.t[kept], "degrees": np.round(100 * degrees).astype(np.int16),
        "dead": draw.asleep(x.reshape(-1, 2)).reshape(len(kept), -1).mean(axis=1),
        "count": run.clusters.count, "stopped": run.completed, "rise": np.diff(run.value).max(),
    }  # fmt: skip


def load_paths() -> dict[float, dict]:
    """The stored results of :func:`paths`, by temperature; angles in degrees."""
    out = {beta: _part(f"paths_{beta:g}_") for beta in PATHS_BETAS}
    return {beta: run | {"degrees": run["degrees"] / 100} for beta, run in out.items()}


def compute(every: Callable) -> dict[str, np.ndarray]:
    """All runs of both draws, and the paths."""

    def dear(cell) -> float:
        slow = cell["direction"] == "descent" and cell["units"] == "relu"
        return (10 if slow else 1) * min(cell["d"], 3) * (1 + cell["beta"])

    cells = source_cells()
    rows = every(published, cells, cost=lambda cell: dear(cell) + cell["most"])
    more = beside_cells(cells, [row["steps"] for row in rows])
    out = _named("source", cells + more, rows + every(published, more))
    cells = second_cells()
    out |= _named("second", cells, every(second, cells, cost=dear))
    for beta, run in zip(PATHS_BETAS, every(paths, grid(beta=PATHS_BETAS)), strict=True):
        out |= {f"paths_{beta:g}_{name}": np.asarray(value) for name, value in run.items()}
    return out


def _named(draw: str, cells: list[dict], rows: list[dict]) -> dict[str, np.ndarray]:
    """One array for each argument and each quantity; clusters of all runs in a row."""
    of_clusters = ("masses", "centres", "asleep")
    out = {name: np.array([cell[name] for cell in cells]) for name in cells[0]}
    for name in rows[0]:
        values = [row[name] for row in rows]
        out[name] = np.concatenate(values) if name in of_clusters else np.array(values)
    if "masses" in rows[0]:
        out["first"] = np.cumsum([0, *out["count"]])
    return {f"{draw}_{name}": values for name, values in out.items()}


def _part(mark: str) -> dict:
    """Stored arrays whose names begin with the mark."""
    data = _stored.load(FILE)
    return {name[len(mark) :]: data[name] for name in data if name.startswith(mark)}


def load(draw: str = "second") -> dict:
    """The stored results of a draw: one array for each quantity over the runs, and ``about``.

    Clusters of run i are ``masses[first[i]:first[i + 1]]``, likewise ``centres`` and ``asleep``.
    """
    return {**_part(f"{draw}_"), "about": _stored.load(FILE)["about"]}


def select(data: dict, **wanted) -> np.ndarray:
    """Which runs have all the given values, and the usual ones where none is given."""
    wanted = {name: value for name, value in USUAL.items() if name in data} | wanted
    return np.logical_and.reduce([data[name] == value for name, value in wanted.items()])


if __name__ == "__main__":
    _stored.main("sphere", "A thousand runs of 500 to 1000 particles: an hour of one core")
