r"""One engine for every flow: atoms move along a velocity field, weights stay.

A measure with finitely many atoms remains one, so a flow of measures is an ordinary differential
equation of its atoms. What moves them is a field ``field(x, mu) -> velocity``; for the Wasserstein
gradient flow of F it is :math:`-\nabla\,\delta F/\delta\mu`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.flow.adaptive import adaptive
from mfbook.flow.learning_rate import LearningRate
from mfbook.flow.run import Run, fixed, shown
from mfbook.flow.solvers import RK4, Adaptive, Euler
from mfbook.flow.trajectory import Trajectory
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure
from mfbook.space import Space

__all__ = ["dissipation", "flow", "gradient_flow", "sgd"]


def dissipation(F: Functional, mu: Measure) -> float:
    r"""Dissipation :math:`\mathcal D(\mu)=\int\|\nabla\,\delta F/\delta\mu\|^2d\mu` (equation 38).

    On a space with constraints the gradient is replaced by the velocity that is allowed. It is
    infinite beyond the range of floating-point numbers.

    >>> from mfbook.confinement import Ridge
    >>> dissipation(Ridge(2.0), Measure([[1.0], [3.0]]))
    20.0
    """
    validate.functional(F)
    gradient = F.at(check_measure(mu)).gradient(mu.atoms)
    if not np.isfinite(gradient).all():
        return float("inf")
    v = F.space.tangent(mu.atoms, -gradient)
    with np.errstate(over="ignore"):
        return float(mu.weights @ (v * v).sum(axis=1))


def gradient_flow(
    F: Functional,
    mu: Measure,
    times: ArrayLike,
    xi: LearningRate | Callable | None = None,
    *,
    solver: Adaptive | Euler | RK4 | None = None,
    events: Sequence[Callable] = (),
    dense: bool = False,
    progress: bool | None = None,
) -> Trajectory:
    r"""Wasserstein gradient flow of any functional, from a measure with finitely many atoms.

    .. math:: \dot\theta_i=-\nabla\frac{\delta F}{\delta\mu}(\theta_i;\mu_\tau)
              \quad\text{in rescaled time, or}\quad
              \dot\theta_i=-2\xi(t)\,\nabla\frac{\delta F}{\delta\mu}(\theta_i;\mu_t)

    (equations (20) and (21)), up to the integrator's error: finite measures stay finite. F
    decreases along it, :math:`dF/d\tau=-\mathcal D`; an increase beyond the tolerance is reported
    in the result. The options are those of :func:`flow`.

    >>> from mfbook.confinement import Ridge
    >>> run = gradient_flow(Ridge(1.0), Measure([[1.0], [-2.0]]), [0.0, 1.0])
    >>> bool(np.allclose(run.end.atoms.ravel(), [np.exp(-1), -2 * np.exp(-1)]))
    True
    """
    validate.functional(F)
    return _solve(Run(None, mu, times, F.space, xi, events, F), solver, dense, progress)


def flow(
    field: Callable,
    mu: Measure,
    times: ArrayLike,
    space: Space | None = None,
    *,
    xi: LearningRate | Callable | None = None,
    solver: Adaptive | Euler | RK4 | None = None,
    events: Sequence[Callable] = (),
    functional: Functional | None = None,
    dense: bool = False,
    progress: bool | None = None,
) -> Trajectory:
    r"""Move the atoms of a measure along a velocity field that may depend on the measure.

    .. math:: \dot\theta_i=2\xi(t)\,\text{field}(\theta_i;\mu_t),\qquad
              \mu_t=\sum_iw_i\delta_{\theta_i(t)}

    - ``field``: ``field(x, mu)`` returns velocities, shape (n, D), at the points x, shape (n, D).
    - ``mu``, ``times`` (n_t,): State at the first of the increasing times that are returned.
    - ``space``: Velocities are projected on its tangent spaces. Default: all of R^D.
    - ``xi``: Learning-rate profile. Default: rescaled time, the factor :math:`2\xi` is one.
    - ``solver``: Default: ``Adaptive()``.
    - ``events``: ``event(t, mu)`` returns a number; its zeros are located. With the attribute
      ``terminal`` true the flow ends there; ``direction`` (+1 or -1) selects crossings, as in
      SciPy. Adaptive solvers only.
    - ``functional``: Recorded along the curve as ``value``.
    - ``dense``: Keep the interpolant, for ``Trajectory.at``; adaptive solvers only.
    - ``progress``: Show a bar. Default: after two seconds, on a terminal or in a notebook.

    What was computed is returned in any case, also when the run is interrupted: ``completed`` says
    whether the end was reached, ``reason`` why not and what to try.
    """
    validate.function(field, "field")
    run = Run(field, mu, times, space, xi, events, functional)
    return _solve(run, solver, dense, progress)


def sgd(
    F: Functional,
    mu: Measure,
    times: ArrayLike,
    epsilon: float,
    rng: validate.Seed,
    *,
    batch: int = 1,
    xi: LearningRate | Callable | None = None,
    progress: bool | None = None,
) -> Trajectory:
    r"""Stochastic gradient descent (19): every step sees fresh samples, shared by all atoms.

    .. math:: \theta_i^{n+1}=\theta_i^n-2\varepsilon\,\xi(n\varepsilon)\,g_i^n,\qquad
              g_i^n=\nabla\frac{\delta F_n}{\delta\mu}(\theta_i^n;\mu^n),\qquad
              F_n=\texttt{F.sample(rng, batch)}

    For an attention risk a sample is ``batch`` sequences drawn with replacement, with their labels
    drawn from the soft labels; then :math:`\mathbb E[g_i^n\mid\text{past}]=G(\theta_i^n;\mu^n)`.
    Without noise the steps are those of ``gradient_flow(..., solver=Euler(epsilon))``. Weights may
    differ, and M equal atoms of weight 1/M move as one of weight one.

    - ``mu``, ``times`` (n_t,): State at the first of the increasing multiples of ``epsilon``.
    - ``xi, progress``: As for :func:`mfbook.flow.flow`.

    ``value`` and ``dissipation`` are those of F, not of the samples. What was computed is returned
    in any case, also when interrupted; a run in which F rises far above its start is given up.

    >>> from mfbook.confinement import Ridge
    >>> run = sgd(Ridge(1.0), Measure([[1.0]]), [0.0, 1.0], epsilon=0.25, rng=0)
    >>> float(run.end.atoms[0, 0]) == 0.75**4
    True
    """
    validate.functional(F, methods=("at", "sample"))
    epsilon, batch = validate.positive(epsilon, "epsilon"), validate.count(batch, "batch")
    rng = validate.generator(rng)
    run = Run(None, mu, times, F.space, xi, (), F, draw=lambda: F.sample(rng, batch))
    with shown(progress, f"descent of {run.mu.size} atoms") as bar:
        return fixed(run, "sgd", epsilon, bar, "epsilon")


def _solve(run, solver, dense, progress) -> Trajectory:
    solver = Adaptive() if solver is None else solver
    validate.instance(solver, "solver", (Adaptive, Euler, RK4))
    dense = validate.flag(dense, "dense")
    if isinstance(solver, Adaptive):
        span, largest = float(run.tau[-1] - run.tau[0]), validate.LARGEST
        # their error norms square velocities, and their matrices divide by steps
        if not (span == 0 or 1 / largest <= span <= largest):
            raise ValueError(
                f"times: expected rescaled times from {1 / largest:g} to {largest:g} apart for an "
                f"adaptive solver, got {span:g}"
            )
    elif dense or run.events:
        name = "dense" if dense else "events"
        raise ValueError(f"{name}: steps of fixed length have no interpolant; use Adaptive()")
    with shown(progress, f"flow of {run.mu.size} atoms") as bar, warnings.catch_warnings():
        # LSODA's warnings repeat what the result says
        warnings.filterwarnings("ignore", "lsoda", UserWarning)
        if isinstance(solver, Adaptive):
            return adaptive(run, solver, dense, bar)
        return fixed(run, type(solver).__name__, solver.step, bar)
