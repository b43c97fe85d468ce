r"""How the engine advances with SciPy's adaptive solvers: one step at a time, events, kinks."""

import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.flow.run import Run, Stopped, why
from mfbook.flow.solvers import EXPLICIT, Adaptive
from mfbook.flow.trajectory import Trajectory
from mfbook.space import Ball


def adaptive(run: Run, chosen: Adaptive, dense: bool, bar) -> Trajectory:
    """SciPy's solvers in rescaled time, one step at a time."""
    start, end = float(run.tau[0]), float(run.tau[-1])
    y = run.mu.atoms.ravel()
    method, rtol, atol = chosen.settings(run.jumps)
    free = chosen.method is None and not run.jumps  # to change the method on the way
    name, reason, end_at = method, "", None
    pieces: list = []
    solver: Any = None

    def begin(tau, y):
        kind = getattr(scipy.integrate, method)
        solver = kind(lambda _, y: run.velocity(y).ravel(), tau, y, end, rtol=rtol, atol=atol)
        return solver, Watch(run, solver, chosen.budget)

    try:
        while run.due(start):  # and times at which a profile of zero has not moved the clock
            run.record(y)
        if run.due(end):
            run.monitor(y)
            previous = [_height(run, event, start, y) for event in run.events]
            if held := isinstance(run.space, Ball) and method in EXPLICIT:
                run.hold(y)
            solver, watch = begin(start, y)
        while run.due(end):
            touched = run.active is not None and run.active.any()
            if free and (other := "RK23" if touched else watch.better()):
                at = clock_time(run, solver.t)
                name = f"{method} up to t = {at:.3g}, then {other}" if run.steps else other
                free, method = False, other
                if method == "RK23":
                    _, rtol, atol = chosen.settings(True)
                else:
                    held, run.active = False, None
                solver, watch = begin(solver.t, solver.y)
            if reason := watch.verdict():
                break
            message = watch.step()
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
            run.monitor(solver.y, rtol, atol)
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
        if not run.records:
            raise
        at = clock_time(run, start if solver is None else solver.t)
        reason = why(error, at, "; try smaller tolerances or a shorter horizon")
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


class Watch:
    """Takes the steps of a solver, and counts evaluations and rejected steps.

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

    def __init__(self, run, solver, budget: int):
        self.run, self.solver, self.budget = run, solver, budget
        self.stages = getattr(solver, "n_stages", None)  # explicit ones only
        self.seen: deque = deque(maxlen=self.WINDOW)  # (time, evaluations, attempts) of steps

    def step(self) -> str | None:
        """Take one step; what the solver says if it fails."""
        before = self.solver.nfev
        message = self.solver.step()
        if self.stages is not None:
            attempts = (self.solver.nfev - before) // self.stages
            self.seen.append((self.solver.t, self.run.evaluations, attempts))
        return message

    def _suffices(self) -> bool:
        """Whether the budget will do at the pace of the steps that were seen, or it is early."""
        spent = self.run.evaluations
        if len(self.seen) < self.WINDOW or spent < self.SHARE * self.budget:
            return True
        (before, count, _), (now, _, _) = self.seen[0], self.seen[-1]
        return spent + (spent - count) * (self.run.tau[-1] - now) / (now - before) <= self.budget

    def better(self) -> str:
        """Another method, where the one at work is the wrong one; empty where it is not."""
        last = list(self.seen)[-self.FEW :]
        if len(last) == self.FEW and sum(row[2] for row in last) > 2 * self.FEW:
            return "RK23"
        return "LSODA" if self.solver.n <= self.LARGEST and not self._suffices() else ""

    def verdict(self) -> str:
        """Why the flow should stop now; empty where it should not."""
        attempts, spent = sum(row[2] for row in self.seen), self.run.evaluations >= self.budget
        if not spent and (attempts <= 2 * self.WINDOW or self._suffices()):
            return ""
        budget = f"the budget of {self.budget} evaluations"
        at = f"t = {clock_time(self.run, self.solver.t):g}"
        if spent:
            return (
                f"{budget} was spent at {at}; try a stiff method, Adaptive(method='LSODA'), a "
                "larger budget or a shorter horizon"
            )
        reason = (
            f"{budget} will not suffice after {at}, where steps collapse, as at kinks of ReLU: "
            f"{attempts - self.WINDOW} of {attempts} were rejected; "
            "Adaptive(rtol=1e-4, atol=1e-7, method='RK23') passes over kinks"
        )
        # through adaptive, the engine and flow or gradient_flow to the line that called it
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
