r"""How the engine advances: steps of fixed length, SciPy's adaptive solvers, located events."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.flow.solvers import EXPLICIT, Adaptive
from mfbook.flow.trajectory import Trajectory
from mfbook.space import Ball

#: A functional that rises so far above its start in a descent: the steps are too long.
RUNAWAY = 1e6
ESCAPED = "left the range of floating-point numbers after"


class Stopped(Exception):
    """Why a flow cannot go on, in words that a time follows."""


def stopped(error, t: float, hint: str = "") -> str:
    """The reason of an outcome, with what to try."""
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted at t = {t:g}"
    return f"{error} t = {t:g}{hint}"


def shorter(h: float) -> str:
    """What to try against steps of length h."""
    return f": steps of {h:g} may be too long; shorten them, or use Adaptive() for a flow"


def escaped(x) -> bool:
    """Whether an atom is too large for any computation with it, or not a number."""
    return not float(np.abs(x).max()) <= validate.LARGEST


def check_rise(value: float, first: float) -> None:
    """Give up a descent of a functional that has risen far above its start."""
    if value > first + RUNAWAY * (1 + abs(first)):
        raise Stopped(f"F rose from {first:.3g} to {value:.3g}, and a descent lowers it, by")


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


def fixed(run, solver, bar) -> Trajectory:
    """Euler or classical Runge-Kutta steps of equal length in time."""
    h, method = solver.step, type(solver).__name__
    numbers = step_numbers(run.times, h, "step")
    y, n, reason = run.mu.atoms, int(numbers[0]), ""
    total = max(1, int(numbers[-1] - numbers[0]))
    try:
        while len(run.records) < len(numbers):
            if n == numbers[len(run.records)]:
                run.record(y)
                continue
            y, n = _step(run, method, y, n * h, h), n + 1
            run.steps += 1
            bar.update(100 * (n - numbers[0]) / total - bar.n)
        run.monitor(y, 0.0)
    except (Stopped, KeyboardInterrupt) as error:
        reason = stopped(error, n * h, shorter(h))
    return run.result(method, reason)


def _step(run, method, y, t, h) -> np.ndarray:
    """One step of length h from the atoms y at time t."""
    rate, v = 2 * run.profile(t), run.velocity(y)
    run.monitor(y, 0.0)  # here, because the functional is known at y
    if method == "Euler":
        step = h * rate * v
    else:
        middle, late = 2 * run.profile(t + h / 2), 2 * run.profile(t + h)
        a = rate * v
        b = middle * run.velocity(y + h / 2 * a)
        c = middle * run.velocity(y + h / 2 * b)
        d = late * run.velocity(y + h * c)
        step = h / 6 * (a + 2 * b + 2 * c + d)
    if escaped(step):
        raise Stopped(ESCAPED)
    moved = run.space.retract(y, step)
    run.measure(moved)  # raises Stopped
    return moved


def adaptive(run, chosen: Adaptive, dense, bar) -> Trajectory:
    """SciPy's solvers in rescaled time, one step at a time."""
    start, end = float(run.tau[0]), float(run.tau[-1])
    y = run.mu.atoms.ravel()
    method, rtol, atol = chosen.settings(run.jumps)
    free = chosen.method is None and not run.jumps  # to change the method on the way
    name, reason, end_at = method, "", None
    pieces: list = []
    solver: Any = None
    try:
        while run.due(start):  # and times at which a profile of zero has not moved the clock
            run.record(y)
        if len(run.records) < len(run.tau):
            run.monitor(y, 0.0)
            previous = [_height(run, event, start, y) for event in run.events]
            if held := isinstance(run.space, Ball) and method in EXPLICIT:
                run.hold(y)
            solver = _solver(run, method, y, start, rtol, atol)
            watch = Watch(solver, chosen.budget, end)
        while solver is not None and solver.status == "running":
            touched = run.active is not None and run.active.any()
            if free and (other := "RK23" if touched else watch.better(run.evaluations, y.size)):
                if run.steps:
                    name = f"{method} up to t = {clock_time(run, solver.t):.3g}, then {other}"
                else:
                    name = other
                free, method = False, other
                if method == "RK23":
                    _, rtol, atol = chosen.settings(True)
                else:
                    held, run.active = False, None
                solver = _solver(run, method, solver.y, solver.t, rtol, atol)
                watch = Watch(solver, chosen.budget, end)
            if reason := watch.verdict(run.evaluations, partial(clock_time, run, solver.t)):
                break
            before = solver.nfev
            message = solver.step()
            watch.step(solver.t, run.evaluations, solver.nfev - before)
            if solver.status == "running" and solver.step_size < 10 * np.spacing(solver.t):
                solver.status, message = "failed", solver.TOO_SMALL_STEP  # LSODA would go on
            if solver.status == "failed":
                reason = f"the solver failed at t = {clock_time(run, solver.t):g}: {message}"
                break
            run.steps += 1
            needed = dense or run.events or run.due(solver.t)
            inner: Any = solver.dense_output() if needed else None
            if held:
                inner = _shorten(run, solver, inner, atol + rtol * run.space.radius)
            solver.y = run.project(solver.y).ravel()
            if held and solver.status == "running":
                active, near = run.active, 10 * (atol + rtol * run.space.radius)
                solver.y, solver.f = run.hold(solver.y, near)
                if inner is not None:
                    inner = partial(run.pinned, inner, active & run.active)
            run.monitor(solver.y, run.allowed(solver.y, rtol, atol))
            stop = None
            if run.events:
                previous, stop = _locate(run, solver, inner, previous)
            last = solver.t if stop is None else stop
            while run.due(last):
                at = run.tau[len(run.records)]
                run.record(solver.y if at == solver.t else inner(at))
            if dense:
                pieces.append((last, inner))
            if stop is not None:
                end_at, reason = clock_time(run, stop), "a terminal event"
                reached = run.times[len(run.records) - 1]
                if reached < end_at:
                    run.record(inner(stop))
                end_at = max(reached, end_at)
                break
            bar.update(100 * (solver.t - start) / (end - start) - bar.n)
    except (Stopped, KeyboardInterrupt) as error:
        at = clock_time(run, start if solver is None else solver.t)
        reason = stopped(error, at, "; try smaller tolerances or a shorter horizon")
    return run.result(name, reason, end_at, _interpolant(run, pieces) if dense else None)


def _shorten(run, solver, inner, allowed):
    """End a step where it leaves a ball by more than is allowed; the next one slides along it."""

    def excess(tau):
        return run.overshoot(inner(tau)) - allowed

    if run.overshoot(solver.y) > allowed:
        inner = solver.dense_output() if inner is None else inner
        if excess(solver.t_old) < 0 < excess(solver.t):
            t = scipy.optimize.brentq(excess, solver.t_old, solver.t, rtol=1e-12)
            solver.t, solver.y, solver.status = t, inner(t), "running"
    return inner


def _solver(run, method, y, tau, rtol, atol):
    """One of SciPy's solvers, or ours."""
    options: dict[str, Any] = {"rtol": rtol, "atol": atol}
    if method == "rosenbrock":
        # here: with SciPy's solvers, a quarter of a second that only a computation needs
        from mfbook.flow.rosenbrock import Rosenbrock

        kind: Any = Rosenbrock
        options["linearised"] = lambda _, y: run.linearised(y)
    else:
        kind = getattr(scipy.integrate, method)
    end = float(run.tau[-1])
    return kind(lambda _, y: run.velocity(y).ravel(), tau, y, end, **options)


class Watch:
    """Counts evaluations, and rejected steps of the explicit solvers.

    Where the velocity is smooth, few steps are rejected, also if it is stiff. Where it jumps, as
    with the slope of ReLU or at the boundary of a ball, the error of a step over the jump falls
    only with the length of the step, and most attempts are in vain.
    """

    #: Steps that are looked back on: before another method is taken, and before a run is given up.
    FEW, WINDOW = 10, 100
    #: Share of the budget that is spent before that: steps may collapse for a while.
    SHARE = 0.01
    #: Coordinates up to which a stiff problem is given to LSODA, which needs a Jacobian.
    LARGEST = 400

    def __init__(self, solver, budget: int, end: float):
        self.stages = getattr(solver, "n_stages", None)  # explicit ones only
        self.budget, self.end = budget, end
        self.seen: deque = deque(maxlen=self.WINDOW)  # (time, evaluations, attempts) of steps

    def step(self, tau: float, evaluations: int, own: int) -> None:
        """Note a step that ended at ``tau`` and took ``own`` evaluations of the solver."""
        if self.stages is not None:
            self.seen.append((tau, evaluations, own // self.stages))

    def _suffices(self, evaluations) -> bool:
        """Whether the budget will do at the pace of the steps that were seen, or it is early."""
        if len(self.seen) < self.WINDOW or evaluations < self.SHARE * self.budget:
            return True
        (before, count, _), (now, _, _) = self.seen[0], self.seen[-1]
        needed = (evaluations - count) * (self.end - now) / (now - before)
        return evaluations + needed <= self.budget

    def better(self, evaluations: int, size: int) -> str:
        """Another method, where the one at work is the wrong one; empty where it is not."""
        last = list(self.seen)[-self.FEW :]
        if len(last) == self.FEW and sum(row[2] for row in last) > 2 * self.FEW:
            return "RK23"
        return "LSODA" if size <= self.LARGEST and not self._suffices(evaluations) else ""

    def verdict(self, evaluations: int, time: Callable[[], float]) -> str:
        """Why the flow should stop now, at ``time()``; empty where it should not."""
        if evaluations >= self.budget:
            return (
                f"the budget of {self.budget} evaluations was spent at t = {time():g}; try a stiff "
                "method, Adaptive(method='LSODA'), a larger budget or a shorter horizon"
            )
        attempts = sum(row[2] for row in self.seen)
        if attempts <= 2 * self.WINDOW or self._suffices(evaluations):
            return ""
        reason = (
            f"the budget of {self.budget} evaluations will not suffice after t = {time():g}, where "
            f"steps collapse, as at kinks of ReLU: {attempts - self.WINDOW} of {attempts} were "
            "rejected; Adaptive(rtol=1e-4, atol=1e-7, method='RK23') passes over kinks"
        )
        # through adaptive, flow and gradient_flow to the line that called it
        warnings.warn(reason, RuntimeWarning, stacklevel=5)
        return reason


def clock_time(run, tau: float) -> float:
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
    return validate.real(event(clock_time(run, tau), run.measure(y)), "events")


def _locate(run, solver, inner, previous):
    """Zeros of the events in the last step; the rescaled time of the first terminal one."""
    now = [_height(run, event, solver.t, solver.y) for event in run.events]
    hits = []
    for i, (event, a, b) in enumerate(zip(run.events, previous, now, strict=True)):
        if not (a < 0 <= b or b <= 0 < a) or getattr(event, "direction", 0) * (b - a) < 0:
            continue

        def height(tau, event=event):
            return _height(run, event, tau, inner(tau))

        at = float(solver.t)
        # the interpolant may miss a zero that lies exactly at an end
        if height(solver.t_old) * height(solver.t) <= 0:
            at = float(scipy.optimize.brentq(height, solver.t_old, solver.t, xtol=1e-13))
        hits.append((at, i))
    for tau, i in sorted(hits):
        run.found.append((i, clock_time(run, tau)))
        if getattr(run.events[i], "terminal", False):
            return now, tau
    return now, None


def _interpolant(run, pieces) -> Callable:
    """One function of time from the interpolants of all steps."""
    ends = np.array([tau for tau, _ in pieces])

    def at(t):
        if not pieces:
            return run.mu.atoms
        tau = run.profile.tau(t)
        return run.project(pieces[min(np.searchsorted(ends, tau), len(pieces) - 1)][1](tau))

    return at


def time_grid(times) -> np.ndarray:
    """Strictly increasing finite times, the first at least 0."""
    t = validate.array(times, "times", ("n",)).astype(float)
    if t[0] < 0 or (np.diff(t) <= 0).any():
        raise ValueError(f"times: expected increasing times >= 0, got {t}")
    return t


def step_numbers(times, step: float, name: str) -> np.ndarray:
    """How many steps lead to each time; every time has to be a multiple of the step."""
    t = time_grid(times)
    with np.errstate(over="ignore"):
        n = np.rint(t / step)
    if n[-1] > 2**53:
        raise ValueError(f"{name}: expected at most 2^53 steps to time {t[-1]}, got {n[-1]:g}")
    off = np.abs(n * step - t)
    if (off > 1e-9 * np.maximum(t, step)).any() or (np.diff(n) == 0).any():
        i = int(off.argmax())
        raise ValueError(f"times: expected different multiples of {name} = {step}, got {t[i]}")
    return n.astype(np.int64)
