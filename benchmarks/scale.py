"""Sizes beyond the book: heads to a million, particles to ten million, and the machine's limits.

One evaluation by one thread: time, memory, and how much arithmetic it is by formula. Beside other
code where that can run at all: a peer that visits rows of particles one after another is timed on a
few rows, and its time is multiplied.
"""

from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from mfbook.book.experiments.sphere import start
from mfbook.models.attention import kernel
from mfbook.models.sphere import SphereEnergy, forces

from .heads import Problem
from .machine import limits
from .sphere import TOLERANCE, direct, usual
from .timing import interleaved, peak_memory, seconds

#: Pairs of particles that a peer visits in one timed call, and its rounds.
PAIRS, ROUNDS = 4_000_000, 3
#: Seconds after which a run is not repeated.
ENOUGH = 1.0

HEADS = tuple(4**j for j in range(5, 11))
TASK = Problem(8, 4, 8, 16, 64, 1024)
CIRCLE, CIRCLE_BETA = tuple(10**k for k in range(3, 8)), 10.0
SPHERE, SPHERE_BETA = (1000, 3000, 10_000, 30_000, 100_000), 5.0


@dataclass(frozen=True)
class Work:
    """What one evaluation executes, counted by formula.

    ``flops`` are the multiplications and additions of matrix products; ``exp`` exponentials;
    ``product`` numbers that pass through a product or a sum of arrays, ``complex`` the same for
    complex numbers; ``bytes`` what has to come from memory or go there.
    """

    flops: int
    exp: int
    product: int
    complex: int
    bytes: int

    def __add__(self, other):
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return Work(*(a + b for a, b in pairs))

    def times(self, factor: int):
        """The same so many times."""
        return Work(*(factor * value for value in asdict(self).values()))


def heads_work(p: Problem) -> Work:
    """Risk and gradient of M heads on S sequences of T tokens.

    For each head and sequence there are T - 1 queries with an earlier token and P = T(T-1)/2 pairs.
    A query costs a product of a d x d matrix with a vector (2 d^2), a pair an inner product of
    length d (2 d): forward two of each, for the gradient three, and one more of each where the
    attention weights are computed again. For each pair the softmax takes an exponential and two
    passes, its derivative three. Each head costs 6 products of d x k matrices (2 d^2 k), and 8
    where the weights are computed again, and its D numbers are read twice and written once.
    """
    queries, pairs = p.T - 1, p.T * (p.T - 1) // 2
    again = p.work * pairs * 8 > kernel.KEEP
    each = Work(
        flops=(5 + again) * (2 * p.d**2 * queries + 2 * p.d * pairs),
        exp=(1 + again) * pairs,
        product=(2 * (1 + again) + 3) * pairs,
        complex=0,
        bytes=0,
    )
    per_head = Work((7 + again) * 2 * p.d**2 * p.k, 0, 0, 0, 8 * 3 * 4 * p.d * p.k)
    return each.times(p.work) + per_head.times(p.M)


def circle_work(n: int, beta: float, normalised: bool) -> Work:
    """Velocities of n particles from K Fourier coefficients.

    The powers z^k, k < K, are products of s small and t large ones, s and t about sqrt(K). For the
    moments and again for the values they are made by s + t - 3 complex products; the moments take t
    more and a matrix product (8 s t), each kind of value t more, a sum of t, and a matrix product.
    """
    K = len(forces.fourier(beta))
    s = int(np.ceil(np.sqrt(K)))
    t = -(-K // s)
    values = 2 if normalised else 1
    return Work(
        flops=8 * s * t * (1 + values),
        exp=0,
        product=t * values,
        complex=2 * (s + t - 3) + t * (1 + values),
        bytes=8 * (2 + 2 + 1 + 2),  # points twice, weights, velocities
    ).times(n)


def sphere_work(n: int, d: int) -> Work:
    """Velocities of n particles in R^d by pairs of blocks of 256.

    A pair of different blocks costs for each pair of particles one exponential, an inner product of
    length d + 1 and two products of that length with the result; a block with itself one less, but
    visits every pair twice. For each pair of blocks the second one's 4 (d + 1) numbers are moved.
    """
    size = np.diff(np.append(np.arange(0, n, forces.BLOCK), n))
    own = int((size**2).sum())
    pairs = (n * n - own) // 2
    blocks = len(size) * (len(size) + 1) // 2
    return Work(
        flops=(6 * pairs + 4 * own) * (d + 1),
        exp=pairs + own,
        product=0,
        complex=0,
        bytes=8 * 4 * (d + 1) * blocks * forces.BLOCK,
    )


def evaluate(run) -> tuple[dict, object]:
    """Times and memory of one evaluation, repeated up to ``ENOUGH`` seconds; and its result."""
    result, peak = peak_memory(run)
    times = [seconds(run, 0.02)]
    while len(times) < 7 and sum(times) + times[0] < ENOUGH:
        times.append(seconds(run, 0.02))
    return {"seconds": times, "peak": peak}, result


def said(text: str) -> None:
    """Show that something is going on."""
    print(f"    {text}", flush=True)


def heads(sizes=HEADS, task=TASK) -> dict:
    """Logits and gradients against the number of heads."""
    rows = []
    for M in sizes:
        problem = Problem(task.d, task.k, task.T, task.V, task.S, M)
        _ = problem.mu, problem.risk  # made before memory is counted
        measured, _ = evaluate(problem.ours)
        row = {"size": M, **measured, "work": asdict(heads_work(problem))}
        rows.append(row)
        said(f"M = {M}: {row['seconds'][0]:.3g} s")
    return {"kind": "growth", "title": f"{task}".rsplit(", M=", 1)[0], "per": task.S, "rows": rows}


def particles(d: int, beta: float, sizes, variants=(False,)) -> dict:
    """Velocities of all particles against their number, with and without normalisation."""
    rows = []
    for n in sizes:
        mu = start(d, n=n)
        for normalised in variants:
            F = SphereEnergy(beta, normalised=normalised)
            run = partial(F.velocity, mu.atoms, mu)
            work = circle_work(n, beta, normalised) if d == 2 else sphere_work(n, d)
            measured, velocities = evaluate(run)
            row = {"size": n, "normalised": normalised, **measured, "work": asdict(work)}
            if not normalised:
                row["peers"] = beside(mu, beta, velocities)
            rows.append(row)
            said(f"N = {n}{', normalised' * normalised}: {row['seconds'][0]:.3g} s")
    where = "circle" if d == 2 else f"sphere in R^{d}"
    return {"kind": "growth", "title": f"{where}, beta={beta:g}", "per": 1, "rows": rows}


def beside(mu, beta: float, ours) -> dict:
    """Times of the peers for all particles, measured on the first few, which have to agree."""
    count = int(np.clip(PAIRS // mu.size, 1, mu.size))
    runs = {
        "usual": partial(usual, mu.atoms, beta, count),
        "direct": partial(direct, mu.atoms, beta, count),
    }
    found = {"rows": count}
    for name, run in runs.items():
        error = float(np.abs(run() - ours[:count]).max())
        assert error < TOLERANCE, (name, mu.size, error)
    for name, times in interleaved(runs, ROUNDS).items():
        found[name] = [one * mu.size / count for one in times]
    return found


def machine_limits() -> dict:
    """What the machine can do, as a result of its own kind."""
    return {"kind": "limits", "rates": limits()}


# The limits are measured before and after, because a processor changes its clock rate.
STEPS = {
    "limits-before": machine_limits,
    "heads": heads,
    "circle": partial(particles, 2, CIRCLE_BETA, CIRCLE, (False, True)),
    "sphere": partial(particles, 3, SPHERE_BETA, SPHERE),
    "limits-after": machine_limits,
}
