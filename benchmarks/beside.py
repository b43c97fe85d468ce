"""Heads: logits and gradients, and training, of this package beside NumPy, PyTorch and JAX.

All in float64 with one thread each; every peer in its fastest form, chosen in short trials.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from mfbook.models.attention import kernel

from . import peers
from .heads import Problem
from .timing import comparison, interleaved, seconds

#: Seconds between two runs.
REST = 0.05


def checked(problem, peer, chunk) -> tuple:
    """A peer's run, and how far it is from this package; this also warms it up and compiles it."""
    run, layout = peer(problem, chunk)
    return run, problem.disagreement(*layout.read(run()))


def best(problem, forms, chunks) -> tuple:
    """The fastest form and chunk size in short trials: its run, description and disagreement."""
    trials, short = [], problem.short
    for form, peer in forms.items():
        for chunk in [chunk for chunk in chunks if chunk <= short.M] or [short.M]:
            run, _ = checked(short, peer, chunk)
            trials.append((min(seconds(run) for _ in range(3)), form, chunk))
    _, form, chunk = min(trials)
    run, error = checked(problem, forms[form], chunk)
    return run, form + (f", {chunk} heads" if chunks else ""), error


def ours(problem) -> tuple:
    """The same of this package."""
    problem.ours()
    blocks = f"{min(kernel.HEADS, problem.M)} heads x {min(kernel.SEQUENCES, problem.S)}"
    return problem.ours, blocks if problem.kind == "gradient" else "", 0.0


def compare(problems, forms, chunks, goals, rounds=3) -> list[dict]:
    """One comparison for each problem; of several, one for all together has the goals."""
    programs, skipped = {"mfbook": [ours(problem) for problem in problems]}, []
    for name, own in forms.items():
        try:
            programs[name] = [best(problem, own, chunks) for problem in problems]
        except ImportError as error:
            skipped.append(f"{name}: {error}")
    runs = {(name, i): one[0] for name, own in programs.items() for i, one in enumerate(own)}
    times = interleaved(runs, rounds, rest=REST)
    per = "head and sequence" if problems[0].kind == "gradient" else "head, sequence and step"

    def found(title, group, goals):
        work = sum(problems[i].work for i in group)
        rows = []
        for name, own in programs.items():
            total = np.sum([times[name, i] for i in group], axis=0).tolist()
            form = own[group[0]][1] if len(group) == 1 else ""
            rows.append((name, form, total, max(own[i][2] for i in group), goals.get(name)))
        return comparison(title, f"ns per {per}", 1e9 / work, rows, skipped)

    if len(problems) == 1:
        return [found(str(problems[0]), [0], goals)]
    alone = [found(str(problem), [i], {}) for i, problem in enumerate(problems)]
    return [*alone, found("all sizes together", range(len(problems)), goals)]


def measure(*comparisons) -> dict:
    """Several of them, as a result of the kind "comparisons"."""
    found = [one for arguments in comparisons for one in compare(*arguments)]
    return {"kind": "comparisons", "comparisons": found}


SMALL, WIDE = Problem(8, 4, 8, 16, 64, 1024), Problem(16, 8, 16, 32, 32, 1024)
DESCENT = replace(SMALL, kind="descent", steps=64, rate=2**-6, batch=16)
FLOW = replace(SMALL, kind="flow", steps=4, rate=2**-4)
RUNS = Problem(4, 2, 5, 5, 16, 16, kind="sweep", steps=64, rate=2**-4, runs=50)
# The ratios to each peer that the package was designed to reach.
GOALS_SMALL = {"NumPy": 3.5, "PyTorch": 10, "PyTorch, fused attention": 10, "JAX": 2.5}
GOALS_WIDE = {"NumPy": 2.5, "PyTorch": 4, "PyTorch, fused attention": 4, "JAX": 2}
TRAINED = (peers.TRAINING, (128, 1024), {"PyTorch": 8, "JAX": 3})
CHUNKS = (4, 16, 32, 64, 128)
MANY = ([replace(SMALL, M=4096)], peers.HEADS, CHUNKS, {})
PARTS = {
    "heads": {
        "small": partial(measure, ([SMALL], peers.HEADS, CHUNKS, GOALS_SMALL, 9), MANY),
        "wide": partial(measure, ([WIDE], peers.HEADS, CHUNKS, GOALS_WIDE, 9)),
    },
    "training": {
        "descent": partial(measure, ([DESCENT], *TRAINED)),
        "flow": partial(measure, ([FLOW], *TRAINED)),
        "sweep": partial(
            measure, ([replace(RUNS, M=4**i) for i in range(2, 6)], peers.SWEEP, (), {"JAX": 2})
        ),
    },
}
