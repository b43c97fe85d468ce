"""The second paper's program beside ours, run by run, where somebody has fetched its files.

The program has no licence, so nothing of it is here. ``MFBOOK_PUBLISHED`` names a folder with the
repository that the paper links; its own functions run there, with its own seeds. Without the folder
this step is left out and the stored result of an earlier time stays.
"""

import importlib
import os
import sys
from pathlib import Path
from time import process_time

import numpy as np

from mfbook.book.experiments.sphere import source_draw
from mfbook.equilibria import Protocol, settle

#: The environment variable with the folder.
VARIABLE = "MFBOOK_PUBLISHED"
#: d, beta, direction, units, normalised, most steps: some to the stopping rule, some far beyond the
#: time at which a first particle crosses a kink.
SETUPS = (
    (2, 1.0, "ascent", "none", False, 2000), (2, 1.0, "ascent", "relu", False, 2000),
    (2, 1.0, "ascent", "gelu", True, 2000), (2, 10.0, "ascent", "relu", True, 1000),
    (2, 1.0, "descent", "none", False, 1500), (2, 5.0, "descent", "relu", False, 1000),
    (2, 5.0, "descent", "gelu", False, 1000),
    (3, 1.0, "ascent", "none", True, 3000), (3, 10.0, "ascent", "gelu", False, 3000),
    (3, 1.0, "descent", "relu", False, 3000), (3, 10.0, "descent", "gelu", True, 3000),
    (8, 10.0, "descent", "relu", False, 500),
)  # fmt: skip
#: A difference of two programs that compute the same: rounding, grown for some time.
SAME = 1e-9


def missing() -> str:
    """Why there is nothing to run, or an empty string."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        return f"{VARIABLE} names no folder with the published program"
    if not (Path(folder) / "wgf_circle").is_dir() or not (Path(folder) / "wgf_sphere").is_dir():
        return f"{VARIABLE}={folder}: there is no wgf_circle or wgf_sphere"
    return ""


def theirs(setup) -> dict:
    """Positions at snapshots, number of steps, whether the rule holds, masses, seconds."""
    d, beta, direction, units, normalised, most = setup
    sys.path.insert(0, os.environ[VARIABLE])
    try:
        names = ("dynamics", "analysis", "runner") if d == 2 else (
            "dynamics_S2", "analysis_S2", "runner_S2",
        )  # fmt: skip
        room = "wgf_circle" if d == 2 else "wgf_sphere"
        dynamics, analysis, runner = (importlib.import_module(f"{room}.{one}") for one in names)
    finally:
        sys.path.remove(os.environ[VARIABLE])
    rules = dynamics.SimulationConfig(
        beta=beta, dt=0.1, num_steps=most, save_every=10, self_attention=True,
        attention_mode="normalized" if normalised else "unnormalized",
        ascending=direction == "ascent", integrator="euler",
    )  # fmt: skip
    layer = {
        "n_units": d, "activation": units, "weight_scale": 1.0, "weight_scale_mode": "std",
        "gradient_mlp": True,
    }  # fmt: skip
    particles = np.random.default_rng(42)
    if d == 2:
        x, seed, go = (
            dynamics.sample_theta0(particles, 1000),
            777,
            runner._simulate_until_convergence,
        )
    else:
        x, seed = dynamics.sample_points_on_sphere(particles, 500, d), 111
        layer["dimension"], go = d, runner._simulate_until_convergence_s2
    perceptron = None
    if units != "none":
        rng = np.random.default_rng(seed)
        perceptron = dynamics.sample_mlp_params(rng, dynamics.MLPConfig(**layer))
    threshold = min(0.5 / np.sqrt(beta), np.pi / (2 * d))
    begin = process_time()
    _, seen, steps, why = go(x, rules, perceptron, threshold, 5, most, 1e-4, 1.0)
    took = process_time() - begin
    masses = analysis.cluster_masses if d == 2 else analysis.cluster_masses_s2
    if d == 2:
        masses, seen = masses(seen[-1], threshold), np.stack([np.cos(seen), np.sin(seen)], axis=-1)
    else:
        masses = masses(seen[-1], threshold)
    return {
        "seen": seen, "steps": steps, "stopped": why in (True, "convergence"), "masses": masses,
        "seconds": took,
    }  # fmt: skip


def row(setup) -> dict:
    """One setup with both programs."""
    d, beta, direction, units, normalised, most = setup
    other, draw = theirs(setup), source_draw(d)
    begin, ascent = process_time(), direction == "ascent"
    F, rules = draw.energy(beta, units, normalised), Protocol(most=most, repelled=most)
    ours = settle(F, draw.start, ascent=ascent, protocol=rules, record=1)
    took = process_time() - begin
    both = min(len(ours.atoms), len(other["seen"]))
    # unit vectors: the distance of positions in degrees
    apart = np.linalg.norm(ours.atoms[:both] - other["seen"][:both], axis=2).max(axis=1)
    late = apart > SAME
    masses = np.sort(ours.clusters.masses)[::-1]
    return {
        "d": d, "beta": beta, "direction": direction, "units": units, "normalised": normalised,
        "steps": [int(other["steps"]), ours.steps],
        "stopped": [bool(other["stopped"]), ours.stopped],
        "clusters": [len(other["masses"]), ours.clusters.count],
        "masses": float(np.abs(masses - other["masses"]).max())
        if len(masses) == len(other["masses"]) else None,
        "until": float(ours.times[np.argmax(late) if late.any() else both - 1]),
        "apart": float(np.degrees(apart.max())), "median": float(np.degrees(np.median(
            np.linalg.norm(ours.atoms[both - 1] - other["seen"][both - 1], axis=1)))),
        "same": not late.any(), "seconds": [other["seconds"], took],
    }  # fmt: skip


def compare(setups=SETUPS) -> dict:
    """All setups; both programs end at the same clusters or the row says so."""
    return {"kind": "published", "rows": [row(setup) for setup in setups]}
