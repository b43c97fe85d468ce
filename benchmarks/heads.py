"""What every program computes with heads: logits and gradients, descent, flow, a sweep of runs.

Everybody starts from the same heads, sees the same sequences in the same order, makes the same
steps in float64 with one thread, and has to find the same. The peers are given the indices and
labels that this package draws for itself, and their compilation and the conversion of the heads
are not counted; this package's checks, and what it records at the start and at the end, are.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mfbook.flow import gradient_flow, sgd
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape
from mfbook.models.attention.ensemble import sgd_ensemble

#: What is computed: title, how far a peer may be from this package, relative to what is found, and
#: heads (of a gradient) or steps with which the forms of a peer are compared.
KINDS = {
    "gradient": ("", 1e-10, 256),
    "descent": ("descent, {0.batch} sequences a step, {0.steps} steps; ", 1e-8, 4),
    "flow": ("flow by Runge-Kutta steps, {0.steps} steps; ", 1e-8, 1),
    "sweep": ("{0.runs} runs of descent, 1 sequence a step, {0.steps} steps; ", 1e-8, 4),
}


@dataclass(frozen=True)
class Problem:
    """A random task with random heads, and what to do; k is also the value dimension.

    ``kind`` is "gradient" (logits and gradients), "descent" (one run), "flow" (Runge-Kutta steps
    of the gradient flow on all sequences) or "sweep" (many runs with one sequence in each step).
    """

    d: int
    k: int
    T: int
    V: int
    S: int
    M: int
    kind: str = "gradient"
    steps: int = 1
    rate: float = 1.0
    batch: int = 1
    runs: int = 1

    def __str__(self) -> str:
        sizes = f"d={self.d}, k=v={self.k}, T={self.T}, V={self.V}, S={self.S}, M={self.M}"
        return KINDS[self.kind][0].format(self) + sizes

    @property
    def work(self) -> int:
        """Heads times sequences times steps; a Runge-Kutta step counts once, not four times."""
        sequences = self.S if self.kind in ("gradient", "flow") else self.batch
        return self.runs * self.M * sequences * self.steps

    @property
    def short(self) -> "Problem":
        """The same with fewer heads or steps."""
        count, gradient = KINDS[self.kind][2], self.kind == "gradient"
        return replace(self, M=min(self.M, count)) if gradient else replace(self, steps=count)

    @cached_property
    def risk(self) -> AttentionRisk:
        """The task."""
        rng = np.random.default_rng(0)
        Y = np.eye(self.V)[rng.integers(self.V, size=(self.S, self.T))]
        X = rng.normal(size=(self.S, self.T, self.d))
        W_U = rng.normal(size=(self.d, self.V)) / np.sqrt(self.d)
        return AttentionRisk(X, Y, W_U, HeadShape(self.d, self.k, self.k))

    @cached_property
    def start(self) -> np.ndarray:
        """Heads of all runs, (R, M, D)."""
        shape = (self.runs, self.M, self.risk.shape.size)
        return np.random.default_rng(1).normal(scale=0.5, size=shape)

    @cached_property
    def mu(self) -> Measure:
        """Heads of the first run."""
        return Measure(self.start[0])

    @cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices (steps, R, b) and label words (steps, R, b, T) of every run's samples."""
        rngs = [np.random.default_rng(r) for r in range(self.runs)]
        draws = [[self.risk.draw(rng, self.batch) for rng in rngs] for _ in range(self.steps)]
        index, uniform = (np.array([[a[i] for a in row] for row in draws]) for i in (0, 1))
        return index, self.risk.labels(index, uniform).argmax(axis=-1)

    def ours(self, record=lambda mu: [0.0]):
        """By this package. A sweep returns what it records, since keeping heads would cost time."""
        F, times = self.risk, [0.0, self.rate * self.steps]
        if self.kind == "gradient":
            local = F.at(self.mu)
            return local.logits, local.gradient(self.mu.atoms)
        if self.kind == "flow":
            return gradient_flow(F, self.mu, times, method="rk4", step=self.rate).atoms
        if self.kind == "descent":
            return sgd(F, self.mu, times, self.rate, 0, batch=self.batch).atoms
        return sgd_ensemble(F, self.start, times, self.rate, range(self.runs), record)

    @cached_property
    def expected(self) -> list[tuple[np.ndarray, float]]:
        """What has to be found, and the size to which errors are relative: how far heads went."""
        found = self.ours(lambda mu: mu.atoms.ravel())
        if self.kind == "gradient":
            return [(one, abs(one).max()) for one in found]
        ends = found[-1].reshape(self.start.shape)
        return [(ends, abs(ends - self.start).max())]

    def disagreement(self, *theirs) -> float:
        """Largest difference of what a peer found, which has to be rounding."""
        pairs = zip(theirs, self.expected, strict=True)
        error = max(float(abs(a - b).max() / scale) for a, (b, scale) in pairs)
        if not error <= KINDS[self.kind][1]:
            raise AssertionError(f"{self}: differs by {error:.1e}")
        return error
