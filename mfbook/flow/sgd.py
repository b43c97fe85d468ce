r"""Stochastic gradient descent on M heads, as in equation (19)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _progress
from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.flow.integrators import ESCAPED, Stopped, check_rise, escaped, shorter, step_numbers
from mfbook.flow.integrators import stopped as why
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
) -> Trajectory:
    r"""Stochastic gradient descent (19): every step sees fresh samples, shared by all atoms.

    .. math:: \begin{aligned}
              \theta_i^{n+1}&=\theta_i^n-2\varepsilon\,\xi(n\varepsilon)\,g_i^n,\\
              g_i^n&=\nabla\frac{\delta F_n}{\delta\mu}(\theta_i^n;\mu^n),\qquad
              F_n=\texttt{F.sample(rng, batch)}
              \end{aligned}

    For an attention risk a sample is ``batch`` sequences drawn with replacement, with their labels
    drawn from the soft labels; then :math:`\mathbb E[g_i^n\mid\text{past}]=G(\theta_i^n;\mu^n)`.
    Without noise the steps are those of ``gradient_flow(..., solver=Euler(epsilon))``. Weights may
    differ, and M equal atoms of weight 1/M move as one of weight one.

    - ``mu``, ``times`` (n_t,): State at the first of the increasing multiples of ``epsilon``.
    - ``xi``: Learning-rate profile. Default: rescaled time, the factor :math:`2\xi` is one.
    - ``progress``: Show a bar. Default: after two seconds, on a terminal or in a notebook.

    ``value`` and ``dissipation`` are those of F, not of the samples. What was computed is returned
    in any case, also when interrupted; a run in which F rises far above its start is given up.

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
    n, x, reason = int(numbers[0]), mu.atoms, ""
    rows: list[tuple] = []
    bar = _progress.bar(
        progress, total=int(numbers[-1]), initial=n, unit="step",
        desc=f"descent of {mu.size} atoms",
    )  # fmt: skip
    try:
        with bar, np.errstate(over="ignore", invalid="ignore"):
            while True:
                state = Measure(x, mu.weights)
                if n == numbers[len(rows)]:
                    rows.append(_row(F, state))
                    check_rise(rows[-1][1], rows[0][1])
                    if len(rows) == len(numbers):
                        break
                g = F.sample(rng, batch).at(state).gradient(x)
                rate = 2 * epsilon * profile(n * epsilon)
                step = g if escaped(g) else rate * F.space.tangent(x, -g)
                moved = step if escaped(step) else F.space.retract(x, step)
                if escaped(moved):
                    raise Stopped(ESCAPED)
                x, n = moved, n + 1
                bar.update()
    except (Stopped, KeyboardInterrupt) as error:
        if not rows:
            raise
        reason = why(error, n * epsilon, shorter(epsilon))
    times = times[: len(rows)]
    atoms, value, speed = (np.array(column) for column in zip(*rows, strict=True))
    return Trajectory(
        times, profile.tau(times), atoms, mu.weights, value, speed, completed=not reason,
        reason=reason or f"reached t = {times[-1]:g}", method="sgd", steps=n, evaluations=n,
    )  # fmt: skip


def _row(F, mu) -> tuple:
    """Atoms, value of F itself, and its dissipation."""
    local = F.at(mu)
    v = F.space.tangent(mu.atoms, -local.gradient(mu.atoms))
    return mu.atoms, local.value, mu.weights @ (v * v).sum(axis=1)
