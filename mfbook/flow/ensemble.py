r"""Many training runs side by side: repetitions of stochastic gradient descent in one array.

One step of equation (19) with one sequence and few heads is so little work that calling it costs
more than computing it. A statistical claim needs many repetitions, so they are advanced together:
all heads of all runs stand in one array, each run with its own data. The numbers are those of
:func:`mfbook.flow.sgd`, run by run, with the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._work import bar as progress_bar
from mfbook._work import blocks
from mfbook.attention.risk import AttentionRisk
from mfbook.attention.shape import HeadShape
from mfbook.attention.side_by_side import Layer, empty
from mfbook.flow.learning_rate import LearningRate, as_profile
from mfbook.flow.run import step_numbers
from mfbook.functional import Combination
from mfbook.measure import Measure
from mfbook.space import Euclidean

__all__ = ["ensemble_gradient", "sgd_ensemble"]

#: Heads of one block of work: enough to hide the cost of a call, few enough for the cache.
BLOCK = 2048
#: Steps whose data are drawn at once.
AHEAD = 32


def sgd_ensemble(
    F: Any,
    atoms: ArrayLike,
    times: ArrayLike,
    epsilon: float,
    rngs: Sequence,
    observe: Callable[[Measure], np.ndarray],
    *,
    weights: ArrayLike | None = None,
    batch: int = 1,
    xi: LearningRate | Callable | None = None,
    progress: bool | None = None,
) -> np.ndarray:
    r"""Independent runs of :func:`mfbook.flow.sgd`, advanced together; what is observed of each.

    - ``F``: An attention risk, perhaps ``R.on(shape.ball(r))``: a step then ends at
      the nearest heads that are permitted.
    - ``atoms`` (R, M, D), ``weights`` (R, M): Heads of R runs at ``times[0]``; default weight 1/M.
    - ``rngs``: One source of randomness, or seed, for each run.
    - ``observe``: Takes the measure of one run and returns numbers, shape (q,).

    All else is as in :func:`mfbook.flow.sgd`. Returns what was observed, shape (n_t, R, q).
    """
    space = getattr(F, "space", None)
    if isinstance(F, Combination) and [a for a, _ in F.terms] == [1.0]:  # R.on(space)
        F = F.terms[0][1]
    F = validate.instance(F, "F", AttentionRisk)
    atoms = validate.array(atoms, "atoms", ("R", "M", F.shape.size))
    R, M = atoms.shape[:2]
    if weights is not None:
        weights = validate.probabilities(weights, "weights", (R, M))
    epsilon, batch = validate.positive(epsilon, "epsilon"), validate.count(batch, "batch")
    numbers, profile = step_numbers(times, epsilon, "epsilon"), as_profile(xi)
    validate.function(observe, "observe")
    if not np.iterable(rngs) or len(rngs := list(rngs)) != R:
        raise ValueError(f"rngs: expected a generator or seed for each of {R} runs, got {rngs!r}")
    rngs = [validate.generator(rng, "rngs") for rng in rngs]

    first, steps = int(numbers[0]), int(numbers[-1] - numbers[0])
    rates, seen = 2 * epsilon * profile(np.arange(first, first + steps) * epsilon), []
    desc = f"{R} runs of {M} heads, step {epsilon:g}"
    with progress_bar(progress, total=R * steps, desc=desc, unit="step") as bar:
        # runs know nothing of each other: a few of them stay in the cache for all their steps
        for runs in blocks(R, BLOCK // M):
            own = None if weights is None else weights[runs]
            theta, g = empty(2, atoms.shape[2], *atoms[runs].shape[:2])
            theta[:] = atoms[runs].transpose(2, 0, 1)
            kernel = _Kernel(F.W_U, F.shape, own, theta, g, batch, F.X.shape[1])
            data: Iterator = _data(F, rngs[runs], batch, steps)
            rows: list = []
            for n in range(steps + 1):
                if first + n == numbers[len(rows)]:
                    rows.append(_observed(theta, own, observe, first + n))
                if n < steps:
                    with np.errstate(over="ignore", invalid="ignore"):  # found when observed
                        X, Y = next(data)
                        kernel.gradient(X, Y, rates[n])
                        _step(space, theta, g)
                    bar.update(theta.shape[1])
            seen.append(rows)
    return np.concatenate(seen, axis=1)


def _step(space, theta, g) -> None:
    """One step of all heads (D, R, m), as ``sgd`` takes it."""
    if isinstance(space, Euclidean):
        theta -= g
        return
    x, v = (a.reshape(len(a), -1).T for a in (theta, -g))
    theta[:] = space.retract(x, space.tangent(x, v)).T.reshape(theta.shape)


def _data(F, rngs, batch, steps):
    """Tokens (R, b, T, d) and labels of one step after the other, drawn as ``sgd`` draws them."""
    for n in range(0, steps, AHEAD):
        draws = [[F.draw(rng, batch) for rng in rngs] for _ in range(min(AHEAD, steps - n))]
        index, uniform = (
            np.array([[run[part] for run in step] for step in draws]) for part in (0, 1)
        )
        yield from zip(F.X[index], F.labels(index, uniform), strict=True)


def _observed(theta, weights, observe, n) -> np.ndarray:
    """What is observed of each run after step n, shape (R, q); NaN is a number here."""
    if not np.isfinite(theta).all():
        raise FloatingPointError(f"a head is not finite after step {n}; smaller epsilon?")
    runs = [None] * theta.shape[1] if weights is None else weights
    seen = [observe(Measure(theta[:, r].T, w)) for r, w in enumerate(runs)]
    values = validate.plain(seen, "observe")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"observe: expected real numbers, got {seen[0]!r}")
    return values.astype(float)


def ensemble_gradient(
    theta: np.ndarray, X: np.ndarray, Y: np.ndarray, W_U: np.ndarray, shape: HeadShape
) -> np.ndarray:
    r"""Stochastic gradients (17) of many runs, each on its own sequences.

    .. math:: g_{r,m}=\frac1{bT}\sum_{s\le b}\sum_t\nabla\varphi_t(X_{r,s};\theta_{r,m})^\top
              \big(p_t-y_t\big)

    with the logits of run r averaged over its own M heads.

    - ``theta`` (D, R, M): Heads of R runs, the head index last.
    - ``X`` (R, b, T, d), ``Y`` (R, b, T, V): Tokens and labels of each run's sequences.
    """
    validate.instance(shape, "shape", HeadShape)
    theta = validate.array(theta, "theta", (shape.size, "R", "M"), largest=validate.LARGEST)
    _, R, M = theta.shape
    X = validate.array(X, "X", (R, "b", "T", shape.d), largest=validate.LARGEST)
    W_U = validate.array(W_U, "W_U", (shape.d, "V"), largest=validate.LARGEST)
    Y = validate.array(Y, "Y", (*X.shape[:3], W_U.shape[1]), largest=validate.LARGEST)
    G = np.empty(theta.shape)
    for r in blocks(R, BLOCK // M):
        kernel = _Kernel(W_U, shape, None, theta[:, r], G[:, r], *X.shape[1:3])
        kernel.gradient(X[r], Y[r])
    return G


class _Kernel:
    """One step of R runs: heads ``theta`` (D, R, M) are read, gradients written into ``out``.

    In buffers that all steps share: new arrays would be fresh pages of memory in every step, which
    costs as much as the arithmetic.
    """

    def __init__(self, W_U, shape, weights, theta, out, b, T):
        M = theta.shape[2]
        self.W_U = W_U
        w = np.full(theta.shape[1:], 1 / M) if weights is None else weights
        self.blocks: Any = [
            Layer(shape, theta[..., m], out[..., m], w[:, m], b, T) for m in blocks(M, BLOCK)
        ]

    def gradient(self, X, Y, rate=1.0):
        """``rate`` times the stochastic gradients, for tokens (R, b, T, d) and labels."""
        z = sum(block.forward(X) for block in self.blocks)
        f = self.W_U.T @ z.reshape(-1, z.shape[-1]).T  # word first: fast sums over words
        f -= f.max(axis=0)
        np.exp(f, out=f)
        f /= f.sum(axis=0)
        f -= Y.reshape(-1, len(f)).T
        dual = (f.T @ (self.W_U.T * (rate / (X.shape[1] * X.shape[2])))).reshape(X.shape)
        for block in self.blocks:
            block.backward(dual)
