"""What keeps a flow from running without end: a budget, and an eye on the steps."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

#: Evaluations of the field that an adaptive solver may use where nothing is said.
BUDGET = 1_000_000
#: What passes over jumps of the velocity: a low order, and a tolerance that asks no more.
OVER_KINKS: dict[str, Any] = {"method": "RK23", "rtol": 1e-4, "atol": 1e-7}
#: Share of the budget that is spent before a flow is given up: steps may collapse for a while.
SHARE = 0.01
#: Steps that are looked back on.
WINDOW = 100


class Watch:
    """Counts evaluations, and rejected steps of the explicit solvers.

    Where the velocity is smooth, few steps are rejected, also if it is stiff. Where it jumps, as
    with the slope of ReLU, the error of a step over the jump falls only with the length of the
    step, and most attempts are in vain.
    """

    def __init__(self, solver, budget: int, end: float):
        self.stages = getattr(solver, "n_stages", None)  # explicit ones only
        self.budget, self.end = budget, end
        self.seen: deque = deque(maxlen=WINDOW)  # (time, evaluations, attempts) of steps

    def step(self, tau: float, evaluations: int, own: int) -> None:
        """Note a step that ended at ``tau`` and took ``own`` evaluations of the solver."""
        if self.stages is not None:
            self.seen.append((tau, evaluations, own // self.stages))

    def verdict(self, evaluations: int, time: Callable[[], float]) -> str:
        """Why the flow should stop now, at ``time()``; empty where it should not."""
        if evaluations >= self.budget:
            return f"the budget of {self.budget} evaluations was spent at t = {time():g}"
        attempts = sum(row[2] for row in self.seen)
        early = len(self.seen) < WINDOW or evaluations < SHARE * self.budget
        if early or attempts <= 2 * WINDOW:
            return ""
        (before, count, _), (now, _, _) = self.seen[0], self.seen[-1]
        needed = (evaluations - count) * (self.end - now) / (now - before)
        if evaluations + needed <= self.budget:
            return ""
        better = ", ".join(f"{name}={value!r}" for name, value in OVER_KINKS.items())
        reason = (
            f"the budget of {self.budget} evaluations will not suffice after t = {time():g}, where "
            f"steps collapse, as at kinks of ReLU: {attempts - WINDOW} of {attempts} were "
            f"rejected; {better} passes over kinks"
        )
        # through adaptive, flow and gradient_flow to the line that called it
        warnings.warn(reason, RuntimeWarning, stacklevel=5)
        return reason
