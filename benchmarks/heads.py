"""Logits and gradients of all heads: this package beside NumPy, PyTorch and JAX.

All in float64 with one thread each; every competitor in its fastest form, chosen in short trials.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np

from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape, kernel

from .peers import PEERS
from .timing import interleaved, seconds

CHUNKS = (4, 16, 32, 64, 128)
TOLERANCE = 1e-10
#: Heads with which the forms and chunk sizes of a peer are compared.
TRIAL = 256
#: Seconds between two runs.
REST = 0.05


@dataclass(frozen=True)
class Problem:
    """A random task and random heads."""

    d: int
    k: int  # also the value dimension
    T: int
    V: int
    S: int
    M: int

    def __str__(self) -> str:
        return f"d={self.d}, k=v={self.k}, T={self.T}, V={self.V}, S={self.S}, M={self.M}"

    @property
    def work(self) -> int:
        """Heads times sequences: times are given per unit of it."""
        return self.M * self.S

    @cached_property
    def risk(self) -> AttentionRisk:
        """The task."""
        rng = np.random.default_rng(0)
        Y = np.eye(self.V)[rng.integers(self.V, size=(self.S, self.T))]
        X = rng.normal(size=(self.S, self.T, self.d))
        W_U = rng.normal(size=(self.d, self.V)) / np.sqrt(self.d)
        return AttentionRisk(X, Y, W_U, HeadShape(self.d, self.k, self.k))

    @cached_property
    def mu(self) -> Measure:
        """The heads."""
        rng = np.random.default_rng(1)
        return Measure(rng.normal(scale=0.5, size=(self.M, self.risk.shape.size)))

    @property
    def heads(self) -> list[np.ndarray]:
        """W_Q, W_K, W_V, W_O of all heads, each contiguous."""
        return [np.ascontiguousarray(W) for W in self.risk.shape.split(self.mu.atoms)]

    def ours(self) -> tuple[np.ndarray, np.ndarray]:
        """Logits and gradients by this package."""
        local = self.risk.at(self.mu)
        return local.logits, local.gradient(self.mu.atoms)


def disagreement(problem, result) -> float:
    """Largest difference from this package, relative to the largest entry."""
    logits, gradients = result
    gradient = np.concatenate([np.asarray(g).reshape(problem.M, -1) for g in gradients], axis=1)
    pairs = zip((np.asarray(logits), gradient), problem.ours(), strict=True)
    return max(float(abs(a - b).max() / abs(b).max()) for a, b in pairs)


@cache
def fastest(name: str, short: Problem) -> tuple[str, int]:
    """Try every form and chunk size of a peer on a short problem; form and chunk of the fastest."""
    trials = []
    for form, step in PEERS[name](short).items():
        for chunk in (c for c in CHUNKS if c <= short.M):
            run = step(chunk)
            _agreement(short, run, form, chunk)  # also warms up and compiles
            trials.append((min(seconds(run) for _ in range(3)), form, chunk))
    return min(trials)[1:]


def best(name: str, problem: Problem) -> tuple:
    """A peer in its fastest form: the run, its description and its disagreement."""
    form, chunk = fastest(name, replace(problem, M=min(TRIAL, problem.M)))
    run = PEERS[name](problem)[form](chunk)
    return run, f"{form}, {chunk} heads", _agreement(problem, run, form, chunk)


def _agreement(problem, run, form, chunk) -> float:
    error = disagreement(problem, run())
    if not error <= TOLERANCE:
        raise AssertionError(f"{form}, chunk {chunk}: differs by {error:.1e}")
    return error


def compare(problem, goals, rounds) -> dict:
    """All competitors at their best, run in turn, round after round."""
    ours = f"{min(kernel.HEADS, problem.M)} heads x {min(kernel.SEQUENCES, problem.S)}"
    runs = {"mfbook": (problem.ours, ours, 0.0)}
    skipped = []
    for name in PEERS:
        try:
            runs[name] = best(name, problem)
        except ImportError as error:
            skipped.append(f"{name}: {error}")
    problem.ours()
    times = interleaved({name: run for name, (run, *_) in runs.items()}, rounds, rest=REST)
    return {
        "title": str(problem),
        "unit": "ns per head and sequence",
        "per": 1e9 / problem.work,
        "programs": [
            {
                "name": name,
                "form": form,
                "seconds": times[name],
                "error": error,
                "goal": goals.get(name),
            }
            for name, (_, form, error) in runs.items()
        ],
        "skipped": skipped,
    }


# Sizes, the ratios to each peer that the kernel was designed to reach, and rounds.
SMALL = (
    Problem(8, 4, 8, 16, 64, 1024),
    {"NumPy": 3.5, "PyTorch": 10, "PyTorch, fused attention": 10, "JAX": 2.5},
    9,
)
MANY = (replace(SMALL[0], M=4096), {}, 3)
WIDE = (
    Problem(16, 8, 16, 32, 32, 1024),
    {"NumPy": 2.5, "PyTorch": 4, "PyTorch, fused attention": 4, "JAX": 2},
    9,
)


def measure(*sizes) -> dict:
    """Several sizes, as a result of the kind "comparisons"."""
    return {"kind": "comparisons", "comparisons": [compare(*size) for size in sizes]}


STEPS = {"small": partial(measure, SMALL, MANY), "wide": partial(measure, WIDE)}
