"""Sizes beyond the book: heads to a million, particles to ten million, and the machine's limits.

One evaluation by one thread: time, memory, and how much arithmetic it is by formula. Beside other
code where that can run at all: a peer that visits rows of particles one after another is timed on a
few rows, and its time is multiplied.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from mfbook.book.experiments.sphere import start
from mfbook.models.attention import kernel
from mfbook.models.sphere import SphereEnergy, forces

from .heads import Problem
from .machine import limits
from .sphere import agreement, direct, usual
from .timing import interleaved, peak_memory, seconds

#: Pairs of particles that a peer visits in one timed call, and its rounds.
PAIRS, ROUNDS = 4_000_000, 3
#: Seconds after which a run is not repeated.
ENOUGH = 1.0

HEADS = tuple(4**j for j in range(5, 11))
TASK = Problem(8, 4, 8, 16, 64, 1024)
CIRCLE, CIRCLE_BETA = tuple(10**k for k in range(3, 8)), 10.0
SPHERE, SPHERE_BETA = (1000, 3000, 10_000, 30_000, 100_000), 5.0

#: What an evaluation executes, by the formulas that page.md explains: multiplications and additions
#: of matrix products, exponentials, numbers and complex numbers that pass through a product or a
#: sum of arrays, bytes that come from memory or go there.
WORK = ("flops", "exp", "product", "complex", "bytes")


def heads_work(p: Problem) -> tuple[int, ...]:
    """Risk and gradient of M heads on S sequences of T tokens.

    A query costs 2 d^2, a pair of tokens 2 d: forward two of each, for the gradient three, and one
    more of each where attention weights are computed again. A softmax takes two passes, its
    derivative three. A head's D numbers are read twice and written once.
    """
    pairs, units = p.T * (p.T - 1) // 2, p.M * p.S
    again = units * pairs * 8 > kernel.KEEP
    each, per_head = 2 * p.d**2 * (p.T - 1) + 2 * p.d * pairs, 2 * p.d**2 * p.k
    flops = units * (5 + again) * each + p.M * (7 + again) * per_head
    passed = units * (5 + 2 * again) * pairs
    return flops, units * (1 + again) * pairs, passed, 0, p.M * 8 * 3 * 4 * p.d * p.k


def circle_work(n: int, beta: float, normalised: bool) -> tuple[int, ...]:
    """Velocities of n particles from K Fourier coefficients.

    The powers z^k, k < K, are products of s small and t large ones, made for the moments and again
    for the values by s + t - 3 complex products. The moments take t more and a matrix product
    (8 s t), each kind of value t more, a sum of t, and a matrix product. Points are read twice.
    """
    K = len(forces.fourier(beta))
    s = int(np.ceil(np.sqrt(K)))
    t, values = -(-K // s), 1 + normalised
    products = 2 * (s + t - 3) + t * (1 + values)
    return n * 8 * s * t * (1 + values), 0, n * t * values, n * products, n * 8 * (2 + 2 + 1 + 2)


def sphere_work(n: int, d: int) -> tuple[int, ...]:
    """Velocities of n particles in R^d by pairs of blocks.

    For each pair of particles there are an exponential and three products of length d + 1, one of
    them less in a block with itself, which visits every pair twice.
    """
    size = np.diff(np.append(np.arange(0, n, forces.BLOCK), n))
    own = int((size**2).sum())
    pairs, blocks = (n * n - own) // 2, len(size) * (len(size) + 1) // 2
    moved = 8 * 4 * (d + 1) * blocks * forces.BLOCK
    return (6 * pairs + 4 * own) * (d + 1), pairs + own, 0, 0, moved


def evaluate(run, work: tuple, **which) -> tuple[dict, object]:
    """A row with times and memory of one evaluation, repeated up to ``ENOUGH``; and its result."""
    result, peak = peak_memory(run)
    times = [seconds(run, 0.02)]
    while len(times) < 7 and sum(times) + times[0] < ENOUGH:
        times.append(seconds(run, 0.02))
    print("   ", which, f"{times[0]:.3g} s", flush=True)  # something is going on
    row = {**which, "seconds": times, "peak": peak}
    return row | {"work": dict(zip(WORK, work, strict=True))}, result


def heads(sizes=HEADS, task=TASK) -> dict:
    """Logits and gradients against the number of heads."""
    rows = []
    for M in sizes:
        problem = replace(task, M=M)
        _ = problem.mu, problem.risk  # made before memory is counted
        rows.append(evaluate(problem.ours, heads_work(problem), size=M)[0])
    return {"kind": "growth", "title": f"{task}".rsplit(", M=", 1)[0], "per": task.S, "rows": rows}


def particles(d: int, beta: float, sizes, variants=(False,)) -> dict:
    """Velocities of all particles against their number, with and without normalisation."""
    rows = []
    for n in sizes:
        mu = start(d, n=n)
        for normalised in variants:
            run = partial(SphereEnergy(beta, normalised=normalised).velocity, mu.atoms, mu)
            work = circle_work(n, beta, normalised) if d == 2 else sphere_work(n, d)
            row, velocities = evaluate(run, work, size=n, normalised=normalised)
            if not normalised:
                row["peers"] = beside(mu, beta, velocities)
            rows.append(row)
    where = "circle" if d == 2 else f"sphere in R^{d}"
    return {"kind": "growth", "title": f"{where}, beta={beta:g}", "per": 1, "rows": rows}


def beside(mu, beta: float, ours) -> dict:
    """Times of the peers for all particles, measured on the first few, which have to agree."""
    count = int(np.clip(PAIRS // mu.size, 1, mu.size))
    runs = {peer.__name__: partial(peer, mu.atoms, beta, count) for peer in (usual, direct)}
    for run in runs.values():
        agreement(ours, run())
    times = interleaved(runs, ROUNDS)
    whole = {name: [one * mu.size / count for one in own] for name, own in times.items()}
    return {"rows": count, **whole}


# The limits are measured before and after, because a processor changes its clock rate.
STEPS = {
    "limits-before": lambda: {"kind": "limits", "rates": limits()},
    "heads": heads,
    "circle": partial(particles, 2, CIRCLE_BETA, CIRCLE, (False, True)),
    "sphere": partial(particles, 3, SPHERE_BETA, SPHERE),
    "limits-after": lambda: {"kind": "limits", "rates": limits()},
}
