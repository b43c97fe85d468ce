r"""One engine for every flow: atoms move along a velocity field, weights stay.

A measure with finitely many atoms remains one, so a flow of measures is an ordinary differential
equation of its atoms. What moves them is a field ``field(x, mu) -> velocity``; for the Wasserstein
gradient flow of F it is :math:`-\nabla\,\delta F/\delta\mu`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _progress
from mfbook import _validate as validate
from mfbook.flow.checkpoint import Checkpoint
from mfbook.flow.grid import time_grid
from mfbook.flow.integrators import (
    ADAPTIVE,
    FIXED,
    ONE_STEP,
    Escaped,
    Linear,
    adaptive,
    escaped,
    fixed,
)
from mfbook.flow.learning_rate import LearningRate, as_profile
from mfbook.flow.trajectory import Trajectory
from mfbook.flow.watch import BUDGET, OVER_KINKS
from mfbook.functional import Functional, Linearisable
from mfbook.measure import Measure, check_measure, check_start
from mfbook.space import Euclidean, Space

__all__ = ["dissipation", "flow", "gradient_flow"]

#: SciPy's solvers replace a smaller relative tolerance by this one.
LEAST_RTOL = 100 * np.finfo(float).eps
#: What integrates velocities without jumps where nothing is said.
SMOOTH: dict[str, Any] = {"method": "DOP853", "rtol": 1e-8, "atol": 1e-10}


def dissipation(F: Functional, mu: Measure) -> float:
    r"""Dissipation :math:`\mathcal D(\mu)=\int\|\nabla\,\delta F/\delta\mu\|^2d\mu` (equation 38).

    On a space with constraints the gradient is replaced by the velocity that is allowed. It is
    infinite beyond the range of floating-point numbers.

    - ``F``: Along whose gradient flow.
    - ``mu``: Where; in ``F.space``.

    Returns not negative.

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

    (equations (20) and (21)). It solves the equation exactly up to the integrator's error: finite
    measures stay finite. F decreases along it, :math:`dF/d\tau=-\mathcal D`; an increase beyond
    the tolerance is reported in the result.

    - ``F``: Anything with ``at(mu)`` and ``space``.
    - ``mu``: State at ``times[0]``; in ``F.space``.
    - ``times, xi, **options``: As in :func:`flow`.

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
    """The field of steepest descent; the engine keeps what it knows of F at the state."""

    def __init__(self, F):
        self.F = F

    def __call__(self, x, mu):  # pragma: no cover: the engine asks F itself
        return -self.F.at(mu).gradient(x)

    def linearised(self, mu):
        """The system of all atoms linearised, where the functional offers it."""
        local = self.F.at(mu)
        return local.linearised(-1.0) if isinstance(local, Linearisable) else NotImplemented


def flow(
    field: Callable,
    mu: Measure,
    times: ArrayLike,
    space: Space | None = None,
    *,
    xi: LearningRate | Callable | None = None,
    method: str | None = None,
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    budget: int | None = None,
    events: Sequence[Callable] = (),
    functional: Functional | None = None,
    dense: bool = False,
    progress: bool | None = None,
    checkpoint: str | PathLike | None = None,
) -> Trajectory:
    r"""Move the atoms of a measure along a velocity field that may depend on the measure.

    .. math:: \dot\theta_i=2\xi(t)\,\text{field}(\theta_i;\mu_t),\qquad
              \mu_t=\sum_iw_i\delta_{\theta_i(t)}

    - ``field``: ``field(x, mu)`` returns velocities, shape (n, D), at the points x, shape (n, D).
    - ``mu``: State at ``times[0]``, with real atoms.
    - ``times`` (n_t,): Increasing times at which the state is returned.
    - ``space``: Where atoms live. Default: all of R^D. Velocities are projected on its tangent
      spaces.
    - ``xi``: Learning-rate profile. Default: rescaled time, the factor :math:`2\xi` is one.
    - ``method``: Default: ``"DOP853"``, and ``"RK23"`` for the gradient flow of a functional whose
      gradient ``jumps``, as that of a network with ReLU. Else one of SciPy's adaptive solvers
      ``"RK23"``, ``"RK45"``, ``"DOP853"``, ``"Radau"``, ``"BDF"``, ``"LSODA"``, our
      ``"rosenbrock"``, or ``"euler"``, ``"rk4"`` with a fixed step. The adaptive ones run in the
      time :math:`\tau`, in which the equation is autonomous whatever the profile. ``"rosenbrock"``
      is for stiff problems with many atoms: order 2, and for each step it asks the field for
      ``linearised(mu)``, an object whose ``solve(c, b)`` solves :math:`(I-cJ)k=b` with the Jacobian
      J of the velocities of all atoms in all atoms, for tangent b of shape (n, D). A gradient flow
      asks ``F.at(mu).linearised(-1.0)``, where J is minus one times the Jacobian of the gradients.
    - ``step``: Step of ``"euler"`` and ``"rk4"``, in the units of ``times``; times have to be
      multiples of it. Euler uses :math:`\xi` at the start of each step, as stochastic descent does.
    - ``rtol, atol``: Tolerances of the adaptive solvers, for the root mean square over all
      coordinates. Default: 1e-8 and 1e-10, and 1e-4 and 1e-7 where the gradient jumps.
    - ``budget``: Evaluations of the field after which the flow stops, says so in ``reason``, and
      has the states up to there. Default: a million; for a fixed step, none. It also stops where
      rejected steps pile up, as at kinks, and the budget will not suffice at that pace.
    - ``events``: ``event(t, mu)`` returns a number; its zeros are located. With the attribute
      ``terminal`` true the flow ends there; ``direction`` (+1 or -1) selects crossings, as in
      SciPy.
    - ``functional``: Recorded along the curve as ``value``.
    - ``dense``: Keep the interpolant, for ``Trajectory.at``; adaptive methods only.
    - ``progress``: Show a progress bar with the time that is left. Default: after two seconds, on a
      terminal or in a notebook, on standard error.
    - ``checkpoint``: File that is written every 30 seconds and when the run is interrupted; calling
      again with the same arguments goes on from there and gives the same bits. Not for Radau, BDF
      and LSODA, which look back on more than one step. It is a pickle: load your own only.

    Returns ``completed`` and ``reason`` say whether and why it stopped early: the solver's step
    became too small, an atom left the range of floating-point numbers, or the budget was spent or
    could not suffice.

    Warns
    -----
    RuntimeWarning
        If it stops because rejected steps pile up, as they do where the velocity jumps.
    """
    jumps = isinstance(field, _Descent) and getattr(functional, "jumps", False)
    default = OVER_KINKS if jumps else SMOOTH
    method = default["method"] if method is None else method
    if not isinstance(method, str) or method not in (*ADAPTIVE, *FIXED):
        raise ValueError(f"method: expected one of {[*ADAPTIVE, *FIXED]}, got {method!r}")
    rtol = validate.positive(default["rtol"] if rtol is None else rtol, "rtol")
    if rtol < LEAST_RTOL:
        raise ValueError(f"rtol: expected at least {LEAST_RTOL:.3g}, got {rtol!r}")
    atol = validate.positive(default["atol"] if atol is None else atol, "atol")
    if budget is not None:
        budget = validate.count(budget, "budget")
    dense = validate.flag(dense, "dense")
    if dense and checkpoint is not None:
        raise ValueError("checkpoint: interpolants are not saved; use dense=False")
    if checkpoint is not None and method not in (*ONE_STEP, *FIXED):
        raise ValueError(f"checkpoint: the method {method!r} keeps more than its last step")
    run = _Run(field, mu, times, space, xi, events, functional)
    if method == "rosenbrock":
        run.linearised(mu.atoms)  # refuses a field that has none
    if method in FIXED:
        if step is None:
            raise ValueError(f"step: the method {method!r} needs one")
        if dense:
            raise ValueError(f"dense: the method {method!r} has no interpolant")
        if run.events:
            raise ValueError(f"events: the method {method!r} does not locate any")
        limit = np.inf if budget is None else budget  # the number of steps is known
        compute: Callable = fixed
        arguments: tuple = (validate.positive(step, "step"),)
    else:
        if step is not None:
            raise ValueError(f"step: the method {method!r} chooses its own")
        # their error norms square velocities, and their matrices divide by steps
        span, largest = float(run.tau[-1] - run.tau[0]), validate.LARGEST
        if not (span == 0 or 1 / largest <= span <= largest):
            raise ValueError(
                f"times: expected rescaled times from {1 / largest:g} to {largest:g} apart for the "
                f"method {method!r}, got {span:g}"
            )
        compute, arguments = adaptive, (rtol, atol, dense)
        limit = BUDGET if budget is None else budget
    bar = _progress.bar(
        progress, total=100, miniters=0, desc=f"flow of {mu.size} atoms, {method}",
        bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed} elapsed, {remaining} left",
    )  # fmt: skip
    # what is not finite is found and reported; LSODA's warnings repeat what the result says
    with bar, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lsoda", UserWarning)
            with Checkpoint(checkpoint, *run.key(), method, *arguments) as store:
                return compute(run, method, store, bar, limit, *arguments)


class _Run:
    """The problem, what has been recorded, and the bookkeeping that both kinds of method share."""

    def __init__(self, field, mu, times, space, xi, events, functional):
        if not callable(field):
            raise TypeError(f"field: expected a callable field(x, mu), got {field!r}")
        self.space = Euclidean() if space is None else validate.space(space)
        check_start(mu, self.space)
        if functional is not None:
            validate.functional(functional, "functional")
        if not isinstance(events, Sequence) or not all(map(callable, events)):
            raise TypeError(f"events: expected a sequence of callables, got {events!r}")
        self.field, self.mu, self.functional = field, mu, functional
        self.gradient = isinstance(field, _Descent)
        self.times, self.profile = time_grid(times), as_profile(xi)
        self.tau = self._clock()
        self.events = tuple(events)
        self.found: list = []  # (number of the event, time)
        self.evaluations = self.steps = 0
        self.increase: float = 0.0
        self.energy: float | None = None
        self.records: list = []  # (atoms, value, speed) at the times reached
        self._local: Any = None  # the last measure, and the functional there
        self._eps = np.finfo(float).eps

    def _clock(self) -> np.ndarray:
        """Rescaled times, without decreases by rounding where the profile is nearly zero."""
        self.profile(self.times)  # refuses negative rates, by name
        tau = np.asarray(self.profile.tau(self.times))
        slack = 1e-12 * max(1.0, abs(float(tau[-1])))
        if not np.isfinite(tau).all() or (np.diff(tau) < -slack).any():
            raise ValueError(f"xi: expected a finite, increasing clock, got tau = {tau}")
        return np.maximum.accumulate(tau)

    def key(self) -> tuple:
        """Which run this is, as :class:`Checkpoint` asks it."""
        try:
            v = self.velocity(self.mu.atoms)
        except Escaped:
            raise ValueError("field: expected finite velocities at the start") from None
        self.evaluations = 0
        return (
            lambda: v, self.mu.atoms, self.mu.weights, self.times, np.round(self.tau, 9),
            self.profile(self.times), len(self.events), self.functional is None, self.space,
        )  # fmt: skip

    @property
    def state(self) -> list:
        """What changes in the course of the run."""
        return [self.records, self.found, self.evaluations, self.steps, self.increase, self.energy]

    @state.setter
    def state(self, parts):
        self.records, self.found, self.evaluations, self.steps, self.increase, self.energy = parts

    def project(self, y) -> np.ndarray:
        """Nearest permitted atoms, shape (n, D)."""
        x = np.reshape(y, self.mu.atoms.shape)
        if isinstance(self.space, Euclidean):
            return x
        if escaped(x):
            raise Escaped
        return self.space.retract(x, np.zeros_like(x))

    def measure(self, y) -> Measure:
        """The state as a measure."""
        if escaped(y):
            raise Escaped
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
            raise Escaped
        if isinstance(self.space, Euclidean):
            return v
        v = self.space.tangent(mu.atoms, v)
        if not np.isfinite(v).all():
            raise Escaped
        return v

    def linearised(self, y) -> Linear:
        """The velocities of all atoms linearised in all atoms."""
        mu = self.measure(y)
        make = getattr(self.field, "linearised", None)
        linear = NotImplemented if make is None else make(mu)
        if linear is NotImplemented:
            owner = self.functional if self.gradient else self.field
            raise ValueError(f"method: 'rosenbrock' needs a linearisation, and {owner!r} has none")
        return Linear(linear, mu, self.space)

    def value(self, mu) -> float:
        """The functional; at the state of the last evaluation it is known already."""
        if self.functional is None:
            return np.nan
        known = self._local
        if known is not None and np.array_equal(known[0].atoms, mu.atoms):
            value = known[1].value
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
        self.energy = energy

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
        mu = self.measure(y)
        v = self.velocity(y)
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
