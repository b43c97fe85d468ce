r"""Where the flows of Appendix A stop: every setup of the simulations, for every temperature.

``python -m mfbook.book.experiments.sphere`` computes the file ``sphere.npz`` of ``book/data``.
"""

from __future__ import annotations

import numpy as np

from mfbook import _validate as validate
from mfbook.book.experiments import _stored
from mfbook.book.sweep import grid, sweep
from mfbook.equilibria import second_order, settle
from mfbook.measure import Measure
from mfbook.models.sphere.energy import SphereEnergy
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Sphere

__all__ = [
    "BETAS",
    "PARTICLES",
    "SCALES",
    "cells",
    "energy",
    "load",
    "main",
    "perceptron",
    "run",
    "select",
    "start",
]

FILE = _stored.FOLDER / "sphere.npz"
COMMAND = "python -m mfbook.book.experiments.sphere"
#: Modules whose code decides the stored numbers.
MODULES = (
    "models/sphere", "models/activations", "equilibria", "flow/rosenbrock", "optimise", "measure",
    "space", "book/experiments/sphere",
)  # fmt: skip

#: Inverse temperatures of the simulations.
BETAS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0, 25.0, 35.0, 50.0)
#: Particles on the circle and on spheres.
PARTICLES = {2: 1000, 3: 500}
#: Dimensions beyond 3, and their temperatures.
HIGHER, HIGHER_BETAS = (4, 8, 16), (1.0, 10.0, 50.0)
#: Time up to which they run, with the protocol's Euler steps.
HIGHER_HORIZON = 300.0
#: Draws of the particles by which the sensitivity is measured, and their temperature.
DRAWS, DRAWS_BETA = 50, 25.0
#: Temperatures at which the scale of the perceptron is varied.
SCALED_BETAS = (5.0, 25.0)
#: Most steps of a stiff run: flows with ReLUs at large beta need not settle.
MOST = 3000
#: Factors of the perceptron's weights whose effect on the time to converge is measured.
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def perceptron(d: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the perceptron of Appendix A in dimension d: d random units, the same in every run.

    Directions are standard normal vectors, normalised; weights are standard normal numbers times
    ``scale``. The seed is 0: nothing was selected.

    Returns
    -------
    a : array, shape (d, d)
    omega : array, shape (d,)

    Examples
    --------
    >>> a, omega = perceptron(2)
    >>> omega.round(2)
    array([-0.54,  0.36])
    """
    d = validate.count(d, "d", least=2)
    rng = np.random.default_rng(0)
    a = rng.normal(size=(d, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, validate.positive(scale, "scale", allow_zero=True) * rng.normal(size=d)


def energy(
    beta: float, units: str = "none", normalised: bool = False, d: int = 2, scale: float = 1.0
) -> SphereEnergy:
    """Energy of one setup; ``units`` is ``"none"`` or the name of an activation.

    Examples
    --------
    >>> energy(5.0, "gelu")
    SphereEnergy(beta=5, 2 gelu units)
    """
    if units == "none":
        return SphereEnergy(beta, normalised=normalised)
    return SphereEnergy(beta, *perceptron(d, scale), units, normalised)


def start(d: int = 2, seed: int = 0, n: int | None = None) -> Measure:
    """Particles drawn uniformly from the sphere, all of one mass: 1000 on the circle, else 500.

    Examples
    --------
    >>> start().size, start(3).size
    (1000, 500)
    """
    n = PARTICLES.get(d, PARTICLES[3]) if n is None else validate.count(n, "n")
    return Measure(Sphere().sample(np.random.default_rng([7, seed, d]), n, d))


def cells() -> list[dict]:
    """Every run of the sweep, as keyword arguments of :func:`run`."""
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
    protocol's horizon) or for at most 3000 steps; in higher dimension with the protocol's Euler
    steps up to time 300.

    Returns
    -------
    dict
        ``count``, ``time``, ``steps``, ``stopped``, ``speed``, ``value``, ``least``: number of
        clusters, time and steps of the run, whether the stopping rule holds, largest speed,
        energy, and the least eigenvalue of the Hessian of the energy that the flow descends.
        ``gap_found`` and ``gap``: both ends of the certificate, for descent. ``masses`` and
        ``centres``: the clusters.
    """
    if direction not in ("ascent", "descent"):
        raise ValueError(f"direction: expected 'ascent' or 'descent', got {direction!r}")
    F, ascent = energy(beta, units, normalised, d, scale), direction == "ascent"
    how = {"most": MOST} if d <= 3 else {"method": "euler", "horizon": HIGHER_HORIZON}
    end = settle(F, start(d, seed), ascent=ascent, **how)
    out = {
        "count": end.clusters.count, "time": end.times[-1], "steps": end.steps,
        "stopped": end.stopped, "speed": end.speed[-1], "value": end.value[-1],
        "least": np.nan, "gap_found": np.nan, "gap": np.nan,
        "masses": end.clusters.masses, "centres": end.clusters.centres,
    }  # fmt: skip
    if d <= 3:
        spectrum = second_order(F, end.measure).eigenvalues
        out["least"] = float(-spectrum[-1] if ascent else spectrum[0])
    if not ascent:
        gap = frank_wolfe_gap(F, end.measure, 0)
        out["gap_found"], out["gap"] = gap.found, gap.rigorous
    return out


def compute(cache_folder, jobs: int) -> dict[str, np.ndarray]:
    """All runs: one array for each quantity, and the clusters of all runs in a row."""
    todo = cells()
    # the costly runs first, so that no process is left with one at the end
    order = sorted(range(len(todo)), key=lambda i: (-min(todo[i]["d"], 3), -todo[i]["beta"]))
    results = sweep(run, [todo[i] for i in order], cache=cache_folder, n_jobs=jobs)
    rows = [row for _, row in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]
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


def load() -> dict:
    """The stored results: one array for each quantity over the runs, and ``about``.

    The clusters of run i are ``masses[first[i]:first[i + 1]]`` and likewise ``centres``, whose
    coordinates beyond the run's dimension are 0.
    """
    return _stored.load(FILE)


def select(data: dict, **wanted) -> np.ndarray:
    """Which runs have all the given values; unless given, seed 0 and scale 1.

    Examples
    --------
    >>> data = {"beta": np.array([1.0, 5.0]), "seed": np.zeros(2), "scale": np.ones(2)}
    >>> select(data, beta=5.0)
    array([False,  True])
    """
    wanted = {"seed": 0, "scale": 1.0} | wanted
    unknown = sorted(set(wanted) - set(data))
    if unknown:
        raise ValueError(f"wanted: expected names among {sorted(data)}, got {unknown}")
    return np.logical_and.reduce([data[name] == value for name, value in wanted.items()])


def main() -> None:
    """Compute and store everything."""
    cost = f"{len(cells())} runs of 500 to 1000 particles: an hour of one core"
    _stored.main(FILE, COMMAND, MODULES, cost, compute)


if __name__ == "__main__":
    # run as the module of this name, so that the cache knows the functions by one name
    from mfbook.book.experiments.sphere import main as run_all

    run_all()
