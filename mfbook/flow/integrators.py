r"""How the engine advances: steps of fixed length, SciPy's adaptive solvers, located events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.flow.grid import step_numbers
from mfbook.flow.trajectory import Trajectory
from mfbook.flow.watch import Watch

EXPLICIT = ("RK23", "RK45", "DOP853")
ADAPTIVE = (*EXPLICIT, "Radau", "BDF", "LSODA", "rosenbrock")
#: State, velocity there and next step: all that these know.
ONE_STEP = (*EXPLICIT, "rosenbrock")
FIXED = ("euler", "rk4")


class Escaped(Exception):
    """An atom or a velocity is not a finite number."""


def escaped(x) -> bool:
    """Whether an atom is too large for any computation with it, or not a number."""
    return not float(np.abs(x).max()) <= validate.LARGEST


class Linear:
    """A linearised system for vectors that need not be tangent: their normal part is returned.

    Stages of a step are evaluated at different points, so none is tangent at all of them.
    """

    def __init__(self, linear, mu, space):
        self.linear, self.mu, self.space = linear, mu, space

    def solve(self, c, b) -> np.ndarray:
        """Solution k of (I - c J) k = b, shape (n D,)."""
        b = b.reshape(self.mu.atoms.shape)
        if escaped(b):
            return np.full(b.size, np.nan)  # the integrator tries a shorter step
        along = self.space.tangent(self.mu.atoms, b)
        return (self.linear.solve(c, along) + (b - along)).ravel()


def fixed(run, method, store, bar, budget, step) -> Trajectory:
    """Euler or classical Runge-Kutta steps of equal length in time."""
    numbers = step_numbers(run.times, step, "step")
    y, n, *known = store.load(run.mu.atoms, int(numbers[0]), *run.state)
    run.state = known
    total = max(1, int(numbers[-1] - numbers[0]))
    reason = ""
    try:
        while len(run.records) < len(numbers):
            if n == numbers[len(run.records)]:
                run.record(y)
                continue
            if run.evaluations >= budget:
                reason = f"the budget of {budget} evaluations was spent at t = {n * step:g}"
                break
            y, n = _step(run, method, y, n * step, step), n + 1
            run.steps += 1
            store.mark(y, n, *run.state)
            bar.update(100 * (n - numbers[0]) / total - bar.n)
        run.monitor(y, 0.0)
    except Escaped:
        reason = f"left the range of floating-point numbers after t = {n * step:g}"
    return run.result(method, reason)


def _step(run, method, y, t, h) -> np.ndarray:
    """One step of length h from the atoms y at time t."""
    rate, v = 2 * run.profile(t), run.velocity(y)
    run.monitor(y, 0.0)  # here, because the functional is known at y
    if method == "euler":
        step = h * rate * v
    else:
        middle, late = 2 * run.profile(t + h / 2), 2 * run.profile(t + h)
        a = rate * v
        b = middle * run.velocity(y + h / 2 * a)
        c = middle * run.velocity(y + h / 2 * b)
        d = late * run.velocity(y + h * c)
        step = h / 6 * (a + 2 * b + 2 * c + d)
    if escaped(step):
        raise Escaped
    moved = run.space.retract(y, step)
    run.measure(moved)  # raises Escaped
    return moved


def adaptive(run, method, store, bar, budget, rtol, atol, dense) -> Trajectory:
    """SciPy's solvers in rescaled time, one step at a time."""
    start, end = float(run.tau[0]), float(run.tau[-1])
    tau, y, within, *known = store.load(start, run.mu.atoms.ravel(), {}, *run.state)
    run.state = known
    pieces: list = []
    reason, stopped, solver = "", None, None

    def due(tau):
        return len(run.records) < len(run.tau) and run.tau[len(run.records)] <= tau

    try:
        while due(tau):  # the start, and times at which a profile of zero has not moved the clock
            run.record(y)
        if len(run.records) < len(run.tau):
            run.monitor(y, 0.0)
            previous = [_height(run, event, tau, y) for event in run.events]
            solver = _solver(run, method, y, tau, within, rtol, atol)
            watch = Watch(solver, budget, end)
        while solver is not None and solver.status == "running":
            reason = watch.verdict(run.evaluations, partial(_time, run, solver.t))
            if reason:
                break
            before = solver.nfev
            message = solver.step()
            watch.step(solver.t, run.evaluations, solver.nfev - before)
            if solver.status == "running" and solver.step_size < 10 * np.spacing(solver.t):
                solver.status, message = "failed", solver.TOO_SMALL_STEP  # LSODA would go on
            if solver.status == "failed":
                reason = f"the solver failed at t = {_time(run, solver.t):g}: {message}"
                break
            run.steps += 1
            inner: Any = solver.dense_output() if dense or run.events or due(solver.t) else None
            solver.y = run.project(solver.y).ravel()
            run.monitor(solver.y, run.allowed(solver.y, rtol, atol))
            stop = None
            if run.events:
                previous, stop = _locate(run, solver, inner, previous)
            last = solver.t if stop is None else stop
            while due(last):
                at = run.tau[len(run.records)]
                run.record(solver.y if at == solver.t else inner(at))
            if dense:
                pieces.append((last, inner))
            if stop is not None:
                stopped, reason = _time(run, stop), "a terminal event"
                reached = run.times[len(run.records) - 1]
                if reached < stopped:
                    run.record(inner(stop))
                stopped = max(reached, stopped)
                break
            within = {name: getattr(solver, name, None) for name in ("f", "h_abs")}
            store.mark(solver.t, solver.y, within, *run.state)
            bar.update(100 * (solver.t - start) / (end - start) - bar.n)
    except Escaped:
        at = tau if solver is None else solver.t
        reason = f"left the range of floating-point numbers after t = {_time(run, at):g}"
    return run.result(method, reason, stopped, _interpolant(run, pieces) if dense else None)


def _solver(run, method, y, tau, within, rtol, atol):
    """A solver at the start, or where a checkpoint was saved: ``within`` it, all that it knows."""
    end, counted, options = float(run.tau[-1]), run.evaluations, {}
    if method == "rosenbrock":
        options["linearised"] = lambda _, y: run.linearised(y)
    solver = _class(method)(
        lambda _, y: run.velocity(y).ravel(), tau, y, end, rtol=rtol, atol=atol, **options
    )
    if within:  # so that it goes on with the same bits
        vars(solver).update(within)
        run.evaluations = counted
    return solver


def _class(method) -> Any:
    """The solver's class."""
    if method != "rosenbrock":
        return getattr(scipy.integrate, method)
    # here: with SciPy's solvers, a quarter of a second that only a computation needs
    from mfbook.flow.rosenbrock import Rosenbrock

    return Rosenbrock


def _time(run, tau: float) -> float:
    """A time at which the clock shows ``tau``; where it stands still, the first one recorded."""
    i = int(np.searchsorted(run.tau, tau))
    if i == 0 or i == len(run.tau) or run.tau[i] == tau:
        return float(run.times[min(i, len(run.tau) - 1)])

    def height(t):
        return run.profile.tau(t) - tau

    a, b = run.times[i - 1], run.times[i]
    if not height(a) < 0 < height(b):  # by rounding
        return float(b)
    return float(scipy.optimize.brentq(height, a, b, xtol=1e-13, rtol=1e-13))


def _height(run, event, tau, y) -> float:
    """What an event function says of a state."""
    return validate.real(event(_time(run, tau), run.measure(y)), "events")


def _locate(run, solver, inner, previous):
    """Zeros of the events in the last step; the rescaled time of the first terminal one."""
    now = [_height(run, event, solver.t, solver.y) for event in run.events]
    hits = []
    for i, (event, a, b) in enumerate(zip(run.events, previous, now, strict=True)):
        direction = getattr(event, "direction", 0)
        if not (a < 0 <= b or b <= 0 < a) or direction * (b - a) < 0:
            continue

        def height(tau, event=event):
            return _height(run, event, tau, inner(tau))

        # the interpolant may miss a zero that lies exactly at an end
        sides = height(solver.t_old), height(solver.t)
        if sides[0] * sides[1] <= 0:
            hits.append(
                (float(scipy.optimize.brentq(height, solver.t_old, solver.t, xtol=1e-13)), i)
            )
        else:
            hits.append((float(solver.t), i))
    stop = None
    for tau, i in sorted(hits):
        run.found.append((i, _time(run, tau)))
        if getattr(run.events[i], "terminal", False):
            stop = tau
            break
    return now, stop


def _interpolant(run, pieces) -> Callable:
    """One function of time from the interpolants of all steps."""
    ends = np.array([tau for tau, _ in pieces])
    first = run.mu.atoms

    def at(t):
        if not pieces:
            return first
        tau = run.profile.tau(t)
        return run.project(pieces[min(np.searchsorted(ends, tau), len(pieces) - 1)][1](tau))

    return at
