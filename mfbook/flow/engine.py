r"""One engine for every flow: atoms move along a velocity field, weights stay.

A measure with finitely many atoms remains one, so a flow of measures is an ordinary differential
equation of its atoms. What moves them is a field ``field(x, mu) -> velocity``; for the Wasserstein
gradient flow of F it is :math:`-\nabla\,\delta F/\delta\mu`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _progress
from mfbook import _validate as validate
from mfbook.flow.integrators import (
    ESCAPED,
    Linear,
    Stopped,
    adaptive,
    check_rise,
    escaped,
    fixed,
    time_grid,
)
from mfbook.flow.learning_rate import LearningRate, as_profile
from mfbook.flow.solvers import RK4, Adaptive, Euler
from mfbook.flow.trajectory import Trajectory
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure, check_start
from mfbook.space import Euclidean, Space

__all__ = ["dissipation", "flow", "gradient_flow"]


def dissipation(F: Functional, mu: Measure) -> float:
    r"""Dissipation :math:`\mathcal D(\mu)=\int\|\nabla\,\delta F/\delta\mu\|^2d\mu` (equation 38).

    On a space with constraints the gradient is replaced by the velocity that is allowed. It is
    infinite beyond the range of floating-point numbers.

    Examples
    --------
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
    **options: Any,
) -> Trajectory:
    r"""Wasserstein gradient flow of any functional, from a measure with finitely many atoms.

    .. math:: \dot\theta_i=-\nabla\frac{\delta F}{\delta\mu}(\theta_i;\mu_\tau)
              \quad\text{in rescaled time, or}\quad
              \dot\theta_i=-2\xi(t)\,\nabla\frac{\delta F}{\delta\mu}(\theta_i;\mu_t)

    (equations (20) and (21)), up to the integrator's error: finite measures stay finite. F
    decreases along it, :math:`dF/d\tau=-\mathcal D`; an increase beyond the tolerance is reported
    in the result. ``times``, ``xi`` and the ``options``, above all ``solver``, are those of
    :func:`flow`.

    Examples
    --------
    >>> from mfbook.confinement import Ridge
    >>> run = gradient_flow(Ridge(1.0), Measure([[1.0], [-2.0]]), [0.0, 1.0])
    >>> bool(np.allclose(run.end.atoms.ravel(), [np.exp(-1), -2 * np.exp(-1)]))
    True
    """
    validate.functional(F)
    for name in ("space", "functional"):
        if name in options:
            raise TypeError(f"{name}: a gradient flow takes it from F")
    return flow(_Descent(F), mu, times, F.space, xi=xi, functional=F, **options)


class _Descent:
    """The field of steepest descent; the engine asks F itself, and keeps what it knows of it."""

    def __init__(self, F):
        self.F = F

    def __call__(self, x, mu):  # pragma: no cover
        return -self.F.at(mu).gradient(x)

    def linearised(self, mu):
        """The system of all atoms linearised, where the functional offers it."""
        local = self.F.at(mu)
        linearised = getattr(local, "linearised", None)
        return linearised(-1.0) if linearised else NotImplemented


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
      For ``Adaptive(method="rosenbrock")`` it also has ``linearised(mu)``, an object whose
      ``solve(c, b)`` solves :math:`(I-cJ)k=b` with the Jacobian J of the velocities of all atoms.
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
    solver = Adaptive() if solver is None else solver
    validate.instance(solver, "solver", (Adaptive, Euler, RK4))
    dense = validate.flag(dense, "dense")
    run = _Run(field, mu, times, space, xi, events, functional)
    if isinstance(solver, Adaptive):
        span, largest = float(run.tau[-1] - run.tau[0]), validate.LARGEST
        # their error norms square velocities, and their matrices divide by steps
        if not (span == 0 or 1 / largest <= span <= largest):
            raise ValueError(
                f"times: expected rescaled times from {1 / largest:g} to {largest:g} apart for an "
                f"adaptive solver, got {span:g}"
            )
        if solver.method == "rosenbrock":
            run.linearised(mu.atoms)  # refuses a field that has none
    elif dense or run.events:
        name = "dense" if dense else "events"
        raise ValueError(f"{name}: steps of fixed length have no interpolant; use Adaptive()")
    bar = _progress.bar(
        progress, total=100, miniters=0, desc=f"flow of {mu.size} atoms",
        bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed} elapsed, {remaining} left",
    )  # fmt: skip
    # what is not finite is found and reported; LSODA's warnings repeat what the result says
    with bar, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lsoda", UserWarning)
            if isinstance(solver, Adaptive):
                return adaptive(run, solver, dense, bar)
            return fixed(run, solver, bar)


class _Run:
    """The problem, what has been recorded, and the bookkeeping that both kinds of method share."""

    def __init__(self, field, mu, times, space, xi, events, functional):
        validate.function(field, "field")
        self.space: Any = Euclidean() if space is None else validate.space(space)
        check_start(mu, self.space)
        if functional is not None:
            validate.functional(functional, "functional")
        if not isinstance(events, Sequence) or not all(map(callable, events)):
            raise TypeError(f"events: expected a sequence of callables, got {events!r}")
        self.field, self.mu, self.functional = field, mu, functional
        self.gradient = isinstance(field, _Descent)
        self.jumps = self.gradient and bool(getattr(functional, "jumps", False))
        self.times, self.profile = time_grid(times), as_profile(xi)
        self.tau = self._clock()
        self.events, self.found = tuple(events), []  # (number of the event, time)
        self.steps, self.increase, self.first = 0, 0.0, np.inf  # the last: F at the start
        self.energy: float | None = None
        self.records: list = []  # (atoms, value, speed) at the times reached
        self.active: Any = None  # in a product of balls: those that hold atoms back
        self._raw: Any = None  # the last velocity before it was projected
        self._local: Any = None  # the last measure, and the functional there
        self._eps = np.finfo(float).eps
        self.evaluations = 0
        try:
            self.velocity(mu.atoms)
        except Stopped:
            raise ValueError("field: expected finite velocities at the start") from None
        self.evaluations = 0

    def _clock(self) -> np.ndarray:
        """Rescaled times, without decreases by rounding where the profile is nearly zero."""
        self.profile(self.times)  # refuses negative rates, by name
        tau = np.asarray(self.profile.tau(self.times))
        if (np.diff(tau) < -1e-12 * max(1.0, abs(float(tau[-1])))).any():
            raise ValueError(f"xi: expected a finite, increasing clock, got tau = {tau}")
        return np.maximum.accumulate(tau)

    def due(self, tau) -> bool:
        """Whether a state is to be recorded at a rescaled time up to ``tau``."""
        return len(self.records) < len(self.tau) and self.tau[len(self.records)] <= tau

    def project(self, y) -> np.ndarray:
        """Nearest permitted atoms, shape (n, D)."""
        x = np.reshape(y, self.mu.atoms.shape)
        if isinstance(self.space, Euclidean):
            return x
        if escaped(x):
            raise Stopped(ESCAPED)
        return self.space.retract(x, np.zeros_like(x))

    def measure(self, y) -> Measure:
        """The state as a measure."""
        if escaped(y):
            raise Stopped(ESCAPED)
        return Measure(self.project(y), self.mu.weights)

    def velocity(self, y) -> np.ndarray:
        """Velocity in rescaled time, shape (n, D)."""
        mu = self.measure(y)
        self.evaluations += 1
        if self.gradient:
            local = self.functional.at(mu)
            v = -local.gradient(mu.atoms)
            self._local = (mu, local)
        else:
            v = validate.plain(self.field(mu.atoms, mu), "field")
        if v.dtype.kind not in "iuf":
            raise TypeError(f"field: expected real velocities, got dtype {v.dtype}")
        if v.shape != mu.atoms.shape:
            raise ValueError(f"field: expected velocities {mu.atoms.shape}, got {v.shape}")
        if escaped(v):
            raise Stopped(ESCAPED)
        if isinstance(self.space, Euclidean):
            return v
        self._raw = v
        if self.active is not None:
            return self.space.along(mu.atoms, v, self.active)
        v = self.space.tangent(mu.atoms, v)
        if not np.isfinite(v).all():
            raise Stopped(ESCAPED)
        return v

    def hold(self, y, near: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """State and velocity at the start of a step, during which the same balls stay active.

        At the boundary of a ball the projected velocity jumps, and a solver whose stages fall on
        both sides would reject step after step. Which balls the atoms press against is decided
        here, once for each step, as in projected gradient methods; the state is projected after it.
        An atom that was held stays at the boundary if it is ``near`` to it and still pressed there.
        """
        self.velocity(y)
        x = self.project(y)
        if self.active is not None:
            pressed = self.space.active(x, self._raw, near) & self.active
            x = self.space.pin(x, pressed)
        self.active = self.space.active(x, self._raw)
        return x.ravel(), self.space.along(x, self._raw, self.active).ravel()

    def pinned(self, inner, active, tau) -> np.ndarray:
        """Between two steps: on the boundary where the atoms were held there at both."""
        return self.space.pin(self.project(inner(tau)), active).ravel()

    def overshoot(self, y) -> float:
        """Root mean square of what a step went beyond balls that did not hold it back."""
        beyond = np.reshape(y, self.mu.atoms.shape) - self.project(y)
        free = np.repeat(~self.active, self.space.blocks, axis=1)
        return float(np.sqrt(np.mean(np.where(free, beyond, 0) ** 2)))

    def linearised(self, y) -> Linear:
        """The velocities of all atoms linearised in all atoms."""
        mu = self.measure(y)
        linear = getattr(self.field, "linearised", lambda mu: NotImplemented)(mu)
        if linear is NotImplemented:
            owner = self.functional if self.gradient else self.field
            raise ValueError(f"solver: 'rosenbrock' needs a linearisation, and {owner!r} has none")
        return Linear(linear, mu, self.space)

    def value(self, mu) -> float:
        """The functional; at the state of the last evaluation it is known already."""
        if self.functional is None:
            return np.nan
        if self._local is not None and np.array_equal(self._local[0].atoms, mu.atoms):
            value = self._local[1].value
        else:
            value = self.functional.at(mu).value
        self._eps = np.finfo((np.asarray(value) * 1.0).dtype).eps
        return float(value)

    def monitor(self, y, allowed: float) -> None:
        """Compare the functional with its value one step ago."""
        if not self.gradient:
            return
        energy = self.value(self.measure(y))
        if self.energy is not None:
            rounding = 64 * float(self._eps) * max(1.0, abs(energy))
            self.increase = max(self.increase, energy - self.energy - allowed - rounding)
        else:
            self.first = energy
        self.energy = energy
        check_rise(energy, self.first)

    def allowed(self, y, rtol, atol) -> float:
        """How much the value may rise by the error of a step: |<gradient, error>|, Cauchy-Schwarz.

        The solver keeps the root mean square of error / (atol + rtol |y|) below one.
        """
        if not self.gradient:
            return 0.0
        mu, local = self._local
        slope = mu.weights[:, None] * local.gradient(mu.atoms)
        return float(np.linalg.norm(slope) * (atol + rtol * np.abs(y).max()) * np.sqrt(y.size))

    def record(self, y) -> None:
        """Store the state at the next requested time."""
        mu, held, self.active = self.measure(y), self.active, None
        v = self.velocity(y)
        self.active = held
        self.evaluations -= 1  # not one of the integrator's
        speed = float(mu.weights @ (v * v).sum(axis=1))
        self.records.append((mu.atoms, self.value(mu), speed))

    def result(self, method, reason="", stopped=None, dense=None) -> Trajectory:
        """The trajectory; ``stopped`` is the time of a terminal event."""
        n = len(self.records)
        t, tau = self.times[:n], self.tau[:n]
        if stopped is not None:
            t = np.append(t[: n - 1], stopped)
            tau = np.append(tau[: n - 1], self.profile.tau(stopped))
        self._local = None  # the interpolant keeps this object, not what F remembers
        atoms, value, dissipation = (np.array([row[i] for row in self.records]) for i in range(3))
        found = [[t for i, t in self.found if i == k] for k in range(len(self.events))]
        return Trajectory(
            t, tau, atoms, self.mu.weights, value, dissipation,
            completed=not reason or stopped is not None,
            reason=reason or f"reached t = {t[-1]:g}", method=method, steps=self.steps,
            evaluations=self.evaluations, increase=self.increase,
            events=tuple(map(np.array, found)), _dense=dense,
        )  # fmt: skip
