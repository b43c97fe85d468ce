"""Logits and gradients of all heads: this package beside NumPy, PyTorch and JAX.

``python -m benchmarks.heads`` prints the comparison, the time against the number of heads, and the
memory. All in float64 with one thread each. Times are CPU time of the process, all its threads
together, so that another process on the machine, or a second thread, changes no ratio.
"""

import argparse
import os
import platform
import tracemalloc
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from time import process_time, sleep

import numpy as np

from mfbook import attention
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure
from mfbook.report import table

from .peers import PEERS

CHUNKS = (4, 8, 16, 32, 64, 128, 1024)
TOLERANCE = 1e-10


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


# The two sizes, and the ratios to each peer that the kernel was designed to reach.
GOALS = (
    (
        Problem(8, 4, 8, 16, 64, 1024),
        {"NumPy": 3.5, "PyTorch": 10, "PyTorch, fused attention": 10, "JAX": 2.5},
    ),
    (
        Problem(16, 8, 16, 32, 32, 1024),
        {"NumPy": 2.5, "PyTorch": 4, "PyTorch, fused attention": 4, "JAX": 2},
    ),
)


def seconds(run) -> float:
    """CPU time of one run."""
    start = process_time()
    run()
    elapsed = process_time() - start
    sleep(0.05)  # let the threads of a runtime free their memory: not on the next one's account
    return elapsed


def disagreement(problem, result) -> float:
    """Largest difference from this package, relative to the largest entry."""
    logits, gradients = result
    gradient = np.concatenate([np.asarray(g).reshape(problem.M, -1) for g in gradients], axis=1)
    pairs = zip((np.asarray(logits), gradient), problem.ours(), strict=True)
    return max(float(abs(a - b).max() / abs(b).max()) for a, b in pairs)


def best(problem, peer):
    """Try every form and chunk size of a peer; the fastest that agrees, and its description."""
    trials = []
    for form, step in peer(problem).items():
        for chunk in (c for c in CHUNKS if c <= problem.M):
            run = step(chunk)
            error = disagreement(problem, run())  # also warms up and compiles
            if not error <= TOLERANCE:
                raise AssertionError(f"{form}, chunk {chunk}: differs by {error:.1e}")
            trials.append((min(seconds(run) for _ in range(3)), form, chunk, run, error))
    _, form, chunk, run, error = min(trials, key=lambda trial: trial[0])
    return run, form, str(chunk), error


def compare(problem, goals, rounds) -> None:
    """One table: all competitors at their best, run in turn, round after round."""
    ours = f"{min(attention.HEADS, problem.M)} x {min(attention.SEQUENCES, problem.S)} sequences"
    runs = {"mfbook": (problem.ours, "head last", ours, 0.0)}
    skipped = []
    for name, peer in PEERS.items():
        try:
            runs[name] = best(problem, peer)
        except ImportError as error:
            skipped.append(f"{name} skipped: {error}")
    problem.ours()
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (run, *_) in runs.items():
            times[name].append(seconds(run))
    rows = []
    for name, (_, form, chunk, error) in runs.items():
        # the ratio of each round, so that a drift of the clock rate cancels
        ratio = np.divide(times[name], times["mfbook"])
        low, middle, high = np.quantile(ratio, (0.25, 0.5, 0.75))
        rows.append(
            {
                "competitor": name,
                "form": form,
                "chunk (heads)": chunk,
                "ns per head x sequence": f"{np.median(times[name]) / problem.work * 1e9:.0f}",
                "time / mfbook": f"{middle:.2f}" if name in goals else "1",
                "quartiles": f"{low:.2f} to {high:.2f}" if name in goals else "",
                "goal": f">= {goals[name]:g}" if name in goals else "",
                "differs by": f"{error:.0e}" if name in goals else "",
            }
        )
    table(rows, f"{problem}: medians of {rounds} interleaved rounds")
    print("\n".join(skipped), end="\n\n" if skipped else "\n")


def scaling() -> None:
    """Time and memory against the number of heads."""
    sizes = [4**j for j in range(2, 9)]
    rows, times = [], []
    for M in sizes:
        problem = Problem(8, 4, 8, 16, 64, M)
        problem.ours()
        times.append(np.median([seconds(problem.ours) for _ in range(max(2, min(30, 2**15 // M)))]))
        tracemalloc.start()  # NumPy reports its arrays; task and heads exist already
        problem.ours()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append(
            {
                "M": M,
                "seconds": float(times[-1]),
                "ns per head x sequence": f"{times[-1] / problem.work * 1e9:.0f}",
                "peak memory, MB": f"{peak / 1e6:.1f}",
                "KB per head": f"{peak / M / 1e3:.1f}",
            }
        )
    table(rows, "d=8, k=v=4, T=8, V=16, S=64: time, and peak memory beyond the task and the heads")
    for first in (0, sizes.index(1024)):
        exponent, _ = np.polyfit(np.log(sizes[first:]), np.log(times[first:]), 1)
        print(f"from M = {sizes[first]}: time grows as M^{exponent:.2f} (least squares)")


def machine() -> str:
    """What was measured, and on what."""
    versions = [f"Python {platform.python_version()}"]
    for name in ("numpy", "torch", "jax"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return f"{processor} (NumPy uses {', '.join(simd) or 'baseline SIMD'}); {', '.join(versions)}"


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25, help="interleaved rounds (default 25)")
    rounds = parser.parse_args().rounds
    print(machine(), end="\n\n")
    for problem, goals in GOALS:
        compare(problem, goals, rounds)
    scaling()


if __name__ == "__main__":
    main()
