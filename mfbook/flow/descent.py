r"""Stochastic gradient descent on M heads, as in equation (19)."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _progress
from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.flow.checkpoint import Checkpoint
from mfbook.flow.grid import step_numbers
from mfbook.flow.integrators import escaped
from mfbook.flow.learning_rate import LearningRate, as_profile
from mfbook.flow.trajectory import Trajectory
from mfbook.functional import Functional
from mfbook.measure import Measure, check_start

__all__ = ["sgd"]


def sgd(
    F: Functional,
    mu: Measure,
    times: ArrayLike,
    epsilon: float,
    rng: Seed,
    *,
    batch: int = 1,
    xi: LearningRate | Callable | None = None,
    progress: bool | None = None,
    checkpoint: str | PathLike | None = None,
) -> Trajectory:
    r"""Stochastic gradient descent (19): every step sees fresh samples, shared by all atoms.

    .. math:: \begin{aligned}
              \theta_i^{n+1}&=\theta_i^n-2\varepsilon\,\xi(n\varepsilon)\,g_i^n,\\
              g_i^n&=\nabla\frac{\delta F_n}{\delta\mu}(\theta_i^n;\mu^n),\qquad
              F_n=\texttt{F.sample(rng, batch)}
              \end{aligned}

    For an attention risk a sample is ``batch`` sequences drawn with replacement, with their labels
    drawn from the soft labels; then :math:`\mathbb E[g_i^n\mid\text{past}]=G(\theta_i^n;\mu^n)`.
    Without noise the steps are those of ``gradient_flow(..., method="euler", step=epsilon)``.

    - ``F``: With ``sample(rng, n)``; its own ``value`` is recorded.
    - ``mu``: State at ``times[0]``; weights may differ, and M equal atoms of weight 1/M move as one
      of weight one.
    - ``times`` (n_t,): Increasing multiples of ``epsilon`` at which the state is returned.
    - ``epsilon``: Step, positive.
    - ``rng``: Source of randomness, or a seed.
    - ``batch``: Samples in one step, at least 1.
    - ``xi``: Learning-rate profile. Default: rescaled time, the factor :math:`2\xi` is one.
    - ``progress``: Show a progress bar with the time that is left. Default: after two seconds, on a
      terminal or in a notebook.
    - ``checkpoint``: File that is written every 30 seconds and when the run is interrupted; calling
      again with the same arguments goes on from there and gives the same bits.

    Returns ``dissipation`` is that of F, not of the samples.

    Examples
    --------
    >>> from mfbook.confinement import Ridge
    >>> run = sgd(Ridge(1.0), Measure([[1.0]]), [0.0, 1.0], epsilon=0.25, rng=0)
    >>> float(run.end.atoms[0, 0]) == 0.75**4
    True
    """
    validate.functional(F, methods=("at", "sample"))
    check_start(mu, F.space)
    epsilon = validate.positive(epsilon, "epsilon")
    numbers, batch = step_numbers(times, epsilon, "epsilon"), validate.count(batch, "batch")
    profile, rng = as_profile(xi), validate.generator(rng)
    times = np.asarray(times, dtype=float)
    F.at(mu)  # refuses atoms of another dimension before anything is drawn
    store = Checkpoint(
        checkpoint, lambda: F.at(mu).gradient(mu.atoms), mu.atoms, mu.weights, times, epsilon,
        batch, profile(times), np.round(profile.tau(times), 9), rng.bit_generator.state, F.space,
    )  # fmt: skip
    n, x, states, drawn = store.load(int(numbers[0]), mu.atoms, [], rng.bit_generator.state)
    rng.bit_generator.state = drawn
    reason = ""
    bar = _progress.bar(
        progress, total=int(numbers[-1]), initial=n, unit="step",
        desc=f"descent of {mu.size} atoms",
    )  # fmt: skip
    with bar, store:
        while True:
            store.mark(n, x, states, rng.bit_generator.state)
            if len(states) < len(numbers) and n == numbers[len(states)]:
                states.append(x)
            if len(states) == len(numbers):
                break
            state = Measure(x, mu.weights)
            rate = 2 * epsilon * profile(n * epsilon)
            with np.errstate(over="ignore", invalid="ignore"):
                g = F.sample(rng, batch).at(state).gradient(state.atoms)
                step = g if escaped(g) else rate * F.space.tangent(x, -g)
                moved = step if escaped(step) else F.space.retract(x, step)
            if escaped(moved):
                reason = f"left the range of floating-point numbers in step {n + 1}"
                break
            x, n = moved, n + 1
            bar.update()
    return _trajectory(F, mu, profile, times[: len(states)], states, n, reason)


def _trajectory(F, mu, profile, times, states, n, reason) -> Trajectory:
    """Values of F itself along the run."""
    values, speeds = [], []
    for x in states:
        state = Measure(x, mu.weights)
        local = F.at(state)
        v = F.space.tangent(state.atoms, -local.gradient(state.atoms))
        values.append(local.value)
        speeds.append(mu.weights @ (v * v).sum(axis=1))
    return Trajectory(
        times, profile.tau(times), np.array(states), mu.weights, np.array(values),
        np.array(speeds), completed=not reason, reason=reason or f"reached t = {times[-1]:g}",
        method="sgd", steps=n, evaluations=n,
    )  # fmt: skip
