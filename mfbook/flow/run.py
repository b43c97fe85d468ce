r"""A flow that is being computed: the problem, what is recorded, and steps of fixed length."""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mfbook import _validate as validate
from mfbook._work import bar as progress_bar
from mfbook.flow.learning_rate import as_profile
from mfbook.flow.trajectory import Trajectory
from mfbook.measure import Measure, check_start
from mfbook.space import Euclidean

#: A functional that rises so far above its start in a descent: the steps are too long.
RUNAWAY = 1e6
#: One that ends so far above its start is not said to be completed.
FAR = 10.0
ESCAPED = "left the range of floating-point numbers after"


class Stopped(Exception):
    """Why a flow cannot go on, in words that a time follows."""


def why(error, t: float, hint: str) -> str:
    """The reason of an outcome, with what to try."""
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted at t = {t:g}"
    return f"{error} t = {t:g}{hint}"


def escaped(x) -> bool:
    """Whether an atom is too large for any computation with it, or not a number."""
    return not float(np.abs(x).max()) <= validate.LARGEST


@contextmanager
def shown(progress: bool | None, what: str):
    """A bar; no warnings of numbers that are not finite, which are found and reported."""
    bar = progress_bar(
        progress, total=100, miniters=0, desc=what,
        bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed} elapsed, {remaining} left",
    )  # fmt: skip
    with bar, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        yield bar


class Run:
    """The problem, what has been recorded, and the bookkeeping that all methods share.

    Without a ``field`` it is the gradient flow of the functional. ``draw`` is then what returns the
    functional of the next step, in stochastic descent a random copy.
    """

    def __init__(self, field, mu, times, space, xi, events, functional, draw=None):
        self.space: Any = Euclidean() if space is None else validate.space(space)
        check_start(mu, self.space)
        if functional is not None:
            validate.functional(functional, "functional")
        if not isinstance(events, Sequence) or not all(map(callable, events)):
            raise TypeError(f"events: expected a sequence of callables, got {events!r}")
        self.field, self.mu, self.functional, self.draw = field, mu, functional, draw
        self.jumps = field is None and bool(getattr(functional, "jumps", False))
        self.times, self.profile = time_grid(times), as_profile(xi)
        self.tau = self._clock()
        self.events, self.found = tuple(events), []  # (number of the event, time)
        self.steps, self.evaluations, self.increase = 0, 0, 0.0
        self.values: tuple = ()  # of F at the start, and one step ago
        self.records: list = []  # (atoms, value, speed) at the times reached
        self.active: Any = None  # in a product of balls: those that hold atoms back
        self._last: Any = None  # measure, functional there and velocity, of the last evaluation
        try:
            self.ambient(mu, functional)
        except Stopped:
            raise ValueError("field: expected finite velocities at the start") from None

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
        if escaped(y):
            raise Stopped(ESCAPED)
        x = np.reshape(y, self.mu.atoms.shape)
        return x if isinstance(self.space, Euclidean) else self.space.retract(x, np.zeros_like(x))

    def measure(self, y) -> Measure:
        """The state as a measure."""
        return Measure(self.project(y), self.mu.weights)

    def ambient(self, mu, F) -> np.ndarray:
        """Velocity in rescaled time before it is projected on the space, shape (n, D)."""
        if self.field is None:
            local = F.at(mu)
            v = -local.gradient(mu.atoms)
            self._last = mu, local, v
        else:
            v = validate.plain(self.field(mu.atoms, mu), "field")
        if v.dtype.kind not in "iuf":
            raise TypeError(f"field: expected real velocities, got dtype {v.dtype}")
        if v.shape != mu.atoms.shape:
            raise ValueError(f"field: expected velocities {mu.atoms.shape}, got {v.shape}")
        if escaped(v):
            raise Stopped(ESCAPED)
        return v

    def velocity(self, y) -> np.ndarray:
        """Velocity in rescaled time, shape (n, D)."""
        mu = self.measure(y)
        self.evaluations += 1
        v = self.ambient(mu, self.functional if self.draw is None else self.draw())
        if isinstance(self.space, Euclidean):
            return v
        if self.active is not None:
            return self.space.along(mu.atoms, v, self.active)
        return self.space.tangent(mu.atoms, v)

    def hold(self, y, near: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """State and velocity at the start of a step, during which the same balls stay active.

        At the boundary of a ball the projected velocity jumps, and a solver whose stages fall on
        both sides would reject step after step. Which balls the atoms press against is decided
        here, once for each step, as in projected gradient methods; the state is projected after it.
        An atom that was held stays at the boundary if it is ``near`` to it and still pressed there.
        """
        mu = self.measure(y)
        self.evaluations += 1
        x, v = mu.atoms, self.ambient(mu, self.functional)
        if self.active is not None:
            x = self.space.pin(x, self.space.active(x, v, near) & self.active)
        self.active = self.space.active(x, v)
        return x.ravel(), self.space.along(x, v, self.active).ravel()

    def pinned(self, inner, active, tau) -> np.ndarray:
        """Between two steps: on the boundary where the atoms were held there at both."""
        return self.space.pin(self.project(inner(tau)), active).ravel()

    def overshoot(self, y) -> float:
        """Root mean square of what a step went beyond balls that did not hold it back."""
        beyond = np.reshape(y, self.mu.atoms.shape) - self.project(y)
        free = np.repeat(~self.active, self.space.blocks, axis=1)
        return float(np.sqrt(np.mean(np.where(free, beyond, 0) ** 2)))

    def value(self, mu):
        """The functional; at the state of the last evaluation it is known already."""
        if self.functional is None:
            return np.nan
        if self._last is not None and np.array_equal(self._last[0].atoms, mu.atoms):
            return self._last[1].value
        return self.functional.at(mu).value

    def monitor(self, y, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Compare the functional of a gradient flow with its value one step ago.

        The error of a step may raise it by |<gradient, error>| (Cauchy-Schwarz), as the solver
        keeps the root mean square of error / (atol + rtol |y|) below one.
        """
        if self.field is not None or self.draw is not None:
            return
        mu, _, v = self._last
        slope = float(np.linalg.norm(mu.weights[:, None] * v))
        allowed = slope * (atol + rtol * np.abs(y).max()) * np.sqrt(y.size)
        value = self.value(self.measure(y))
        now, eps = float(value), float(np.finfo((np.asarray(value) * 1.0).dtype).eps)
        first, before = self.values or (now, now)
        rise = now - before - allowed - 64 * eps * max(1.0, abs(now))
        self.increase = max(self.increase, float(rise))
        self.values = first, now
        check_rise(now, first)

    def record(self, y) -> None:
        """Store the state at the next requested time."""
        mu = self.measure(y)
        v = self.space.tangent(mu.atoms, self.ambient(mu, self.functional))
        speed = float(mu.weights @ (v * v).sum(axis=1))
        self.records.append((mu.atoms, float(self.value(mu)), speed))
        if self.draw is not None:  # nothing else looks at the functional there
            check_rise(self.records[-1][1], self.records[0][1])

    def result(self, method, reason="", stopped=None, dense=None) -> Trajectory:
        """The trajectory; ``stopped`` is the time of a terminal event."""
        n = len(self.records)
        t, tau = self.times[:n], self.tau[:n]
        if stopped is not None:
            t = np.append(t[: n - 1], stopped)
            tau = np.append(tau[: n - 1], self.profile.tau(stopped))
        self._last = None  # the interpolant keeps this object, not what F remembers
        atoms, value, dissipation = (np.array(column) for column in zip(*self.records, strict=True))
        found = [[t for i, t in self.found if i == k] for k in range(len(self.events))]
        first, last = value[0], value[-1]
        if not reason and last > first + FAR * (1 + abs(first)):
            reason = f"F rose from {first:.3g} to {last:.3g}: the steps are too long, shorten them"
        return Trajectory(
            t, tau, atoms, self.mu.weights, value, dissipation,
            completed=not reason or stopped is not None,
            reason=reason or f"reached t = {t[-1]:g}", method=method, steps=self.steps,
            evaluations=self.evaluations, increase=self.increase,
            events=tuple(map(np.array, found)), _dense=dense,
        )  # fmt: skip


def check_rise(value: float, first: float) -> None:
    """Give up a descent of a functional that has risen far above its start."""
    if value > first + RUNAWAY * (1 + abs(first)):
        raise Stopped(f"F rose from {first:.3g} to {value:.3g}, and a descent lowers it, by")


def fixed(run: Run, method: str, h: float, bar, name: str = "step") -> Trajectory:
    """Steps of equal length h in time, explicit Euler or classical Runge-Kutta."""
    numbers = step_numbers(run.times, h, name)
    y, n, reason = run.mu.atoms, int(numbers[0]), ""
    total = max(1, int(numbers[-1]) - n)
    try:
        while len(run.records) < len(numbers):
            if n == numbers[len(run.records)]:
                run.record(y)
                continue
            y, n = _step(run, method, y, n * h, h), n + 1
            run.steps += 1
            bar.update(100 * run.steps / total - bar.n)
        run.monitor(y)
    except (Stopped, KeyboardInterrupt) as error:
        if not run.records:
            raise
        hint = f": steps of {h:g} may be too long; shorten them, or use Adaptive() for a flow"
        reason = why(error, n * h, hint)
    return run.result(method, reason)


def _step(run, method, y, t, h) -> np.ndarray:
    """One step of length h from the atoms y at time t."""
    rate, v = 2 * run.profile(t), run.velocity(y)
    run.monitor(y)  # here, because the functional is known at y
    if method == "RK4":
        middle, late = 2 * run.profile(t + h / 2), 2 * run.profile(t + h)
        a = rate * v
        b = middle * run.velocity(y + h / 2 * a)
        c = middle * run.velocity(y + h / 2 * b)
        d = late * run.velocity(y + h * c)
        step = h / 6 * (a + 2 * b + 2 * c + d)
    else:
        step = h * rate * v
    if escaped(step):
        raise Stopped(ESCAPED)
    moved = run.space.retract(y, step)
    if escaped(moved):
        raise Stopped(ESCAPED)
    return moved


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
