"""Flows step by step: integrators, clocks, events, saved runs, written out again with loops."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from mfbook import _validate as validate
from mfbook.flow import (
    Rosenbrock,
    Trajectory,
    check_profile,
    checkpoint,
    constant,
    custom,
    descent,
    dissipation,
    engine,
    flow,
    gradient_flow,
    integrators,
    learning_rate,
    polynomial_decay,
    sgd,
    warmup_cosine,
)
from mfbook.flow.grid import step_numbers
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.confinement import Anchor, Ridge
from mfbook.space import Ball, Euclidean, Sphere

# ------------------------------------------------------------------------------- rosenbrock

D = 1 - 1 / np.sqrt(2)
E32 = 6 + np.sqrt(2)


class Dense:
    """(I - c J) k = b for a matrix J."""

    def __init__(self, J):
        self.J = np.atleast_2d(J)

    def solve(self, c, b):
        return np.linalg.solve(np.eye(len(self.J)) - c * self.J, b)


def pendulum(y):
    return np.array([y[1], -9 * np.sin(y[0]) - 0.3 * y[1], -40 * (y[2] - np.cos(y[0]))])


def slopes(y):
    return np.array([[0, 1, 0], [-9 * np.cos(y[0]), -0.3, 0], [-40 * np.sin(y[0]), 0, -40]])


def stages(y, h):
    """Stages, end and estimated error of one step of the pair, with matrices."""
    W = np.linalg.inv(np.eye(3) - h * D * slopes(y))
    k1 = W @ pendulum(y)
    middle = pendulum(y + h / 2 * k1)
    k2 = k1 + W @ (middle - k1)
    end = y + h * k2
    k3 = W @ (pendulum(end) - E32 * (k2 - middle) - 2 * (k1 - pendulum(y)))
    return k1, k2, end, h / 6 * (k1 - 2 * k2 + k3)


def norm_of(kind, error, y, rtol, atol):
    parts = [abs(e) / (atol + rtol * abs(s)) for e, s in zip(error, y, strict=True)]
    return max(parts) if kind == "max" else np.sqrt(sum(p**2 for p in parts) / len(parts))


def pair(kind, y, h, end, rtol, atol, longest):
    """Accepted steps (t, y, next step, trials, stages) by the rules that the class states."""
    t = 0.5
    while t < end:
        h, trials, refused = min(h, longest), 0, False
        while True:
            step, trials = min(h, end - t), trials + 1
            k1, k2, new, error = stages(y, step)
            larger = np.maximum(np.abs(y), np.abs(new))
            error = norm_of(kind, error, larger, rtol, atol)
            factor = min(10, max(0.2, 0.9 / error ** (1 / 3)))
            if error < 1:
                break
            h, refused = step * factor, True
        h = step * (min(factor, 1) if refused else factor)
        t += step
        yield t, new, h, trials, (y, k1, k2, step)
        y = new


@pytest.mark.parametrize("kind", ["rms", "max"])
@pytest.mark.parametrize("longest", [np.inf, 0.11])
def test_steps_of_the_rosenbrock_pair(kind, longest):
    start, rtol, atol = np.array([2.0, 0.5, -1.0]), 2e-3, 1e-4
    solver = Rosenbrock(
        lambda t, y: pendulum(y), 0.5, start, 3.5, lambda t, y: Dense(slopes(y)),
        rtol=rtol, atol=atol, norm=kind, first_step=0.5, max_step=longest,
    )  # fmt: skip
    trials, n, refused = 0, 0, 0
    for t, y, h, m, (y_old, k1, k2, step) in pair(kind, start, 0.5, 3.5, rtol, atol, longest):
        assert solver.status == "running"
        solver.step()
        trials, n, refused = trials + m, n + 1, refused + (m > 1)
        assert solver.t == pytest.approx(t, rel=1e-12)
        np.testing.assert_allclose(solver.y, y, rtol=1e-9)
        # the last step is what is left, and its growth is not asked for
        assert solver.h_abs == pytest.approx(h, rel=1e-7)
        assert (solver.njev, solver.nlu, solver.nfev) == (n, trials, 1 + 2 * trials)
        inner, s = solver.dense_output(), np.array([0.0, 0.3, 0.5, 1.0])
        expected = [
            y_old + step * (x * (1 - x) * k1 + x * (x - 2 * D) * k2) / (1 - 2 * D) for x in s
        ]
        np.testing.assert_allclose(inner(t - step + s * step).T, expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(inner(t - 0.7 * step), expected[1], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(solver.f, pendulum(solver.y), rtol=1e-13)
    assert solver.status == "finished" and solver.t == 3.5 and refused >= 1


@pytest.mark.parametrize("kind", ["rms", "max"])
@pytest.mark.parametrize("longest", [np.inf, 1e-5])
def test_first_step_of_the_rosenbrock_pair(kind, longest):
    """The rule of Hairer, Norsett and Wanner for an estimate of order two."""
    rtol, atol = 2e-3, 1e-4

    def first(y, field, end=3.5):
        calls = []
        solver = Rosenbrock(
            lambda t, y: calls.append(y) or field(y), 0.5, y, end, lambda t, y: None,
            rtol=rtol, atol=atol, norm=kind, max_step=longest,
        )  # fmt: skip
        assert len(calls) == solver.nfev == 2
        return solver.h_abs

    def rule(y, field, end=3.5):
        f, length = field(y), end - 0.5
        d0, d1 = norm_of(kind, y, y, rtol, atol), norm_of(kind, f, y, rtol, atol)
        h0 = min(length, 1e-6 if d0 < 1e-5 or d1 < 1e-5 else d0 / d1 / 100)
        d2 = norm_of(kind, field(y + h0 * f) - f, y, rtol, atol) / h0
        h1 = max(1e-6, h0 / 1000) if max(d1, d2) <= 1e-15 else np.cbrt(0.01 / max(d1, d2))
        return min(100 * h0, h1, length, longest)

    y = np.array([2.0, 0.5, -1.0])
    for scale in (1e-9, 1e-3, 1.0, 1e6):

        def field(y, scale=scale):
            return scale * pendulum(y)

        assert first(y, field) == pytest.approx(rule(y, field), rel=1e-6)
        assert first(y, field, 0.5 + 1e-4) == pytest.approx(rule(y, field, 0.5 + 1e-4), rel=1e-6)
        assert first(0 * y, field) == pytest.approx(rule(0 * y, field), rel=1e-6)

    def steep(y):
        return -50 * y**3

    assert first(y, steep) == pytest.approx(rule(y, steep), rel=1e-6)
    faint = 1.5e-15 * atol  # relative to what is allowed at zero: just above the least slope

    def hardly(y):
        return np.full(3, faint)

    assert first(0 * y, hardly) == pytest.approx(rule(0 * y, hardly), rel=1e-6)
    assert first(1e-10 * y, pendulum) == pytest.approx(rule(1e-10 * y, pendulum), rel=1e-6)
    for level in (0.0, 1e-21, 1e-12):  # hardly any motion

        def still(y, level=level):
            return np.full(3, level)

        assert first(y, still) == pytest.approx(rule(y, still), rel=1e-6)


def still_solver(values, **options):
    """A solver for a field whose values come one by one, and the Jacobian zero."""
    values = iter(values)
    return Rosenbrock(
        lambda t, y: np.array([float(next(values))]), 0.0, [0.0], 60.0,
        lambda t, y: SimpleNamespace(solve=lambda c, b: b), rtol=0.0, atol=1.0, **options,
    )  # fmt: skip


def test_an_error_of_one_is_refused_and_the_next_step_does_not_grow():
    # the error is h/6 times the second difference of the three values
    solver = still_solver([0, 0, 1, 0, 0.5], first_step=6.0)
    solver.step()
    assert solver.nlu == 2 and solver.t == 5.4  # shortened by the margin
    # the error was 0.45: a step that was not refused would grow
    assert solver.h_abs == 5.4
    solver = still_solver([0, 0, 0.5], first_step=6.0)
    solver.step()
    assert solver.nlu == 1 and solver.h_abs == pytest.approx(6 * 0.9 * 2 ** (1 / 3), rel=1e-12)
    # a shortening by more than a fifth, and a growth by more than ten, are not allowed
    solver = still_solver([0, 0, 1e6, 0, 0], first_step=6.0)
    solver.step()
    assert solver.t == pytest.approx(1.2) and solver.h_abs == pytest.approx(1.2)
    solver = still_solver([0, 0, 1e-9, 0, 1e-9], first_step=0.5)
    for t, h in ((0.5, 5.0), (5.5, 50.0)):
        solver.step()
        assert solver.t == t and solver.h_abs == h


def test_without_any_error_a_step_is_ten_times_the_last():
    solver = still_solver(itertools.repeat(1.0), first_step=0.5)
    for t, h in ((0.5, 5.0), (5.5, 50.0), (55.5, 500.0), (60.0, 45.0)):
        solver.step()
        assert solver.t == t and solver.h_abs == h
    assert solver.status == "finished" and solver.y[0] == 60.0


def test_a_field_that_is_not_finite_halves_the_step_down_to_ten_spacings():
    values = itertools.chain([1.0], itertools.repeat(np.nan))
    tried = []

    def field(t, y):
        tried.append(t)
        return np.array([next(values)])

    solver = Rosenbrock(
        field, 1.0, [0.0], 3.0, lambda t, y: SimpleNamespace(solve=lambda c, b: b), first_step=1.0
    )
    message = solver.step()
    assert solver.status == "failed" and message == Rosenbrock.TOO_SMALL_STEP
    # 2^-48 is at least ten times 2^-52, and 2^-49 is not
    assert solver.nlu == 49 and solver.t == 1.0
    assert tried[1:] == [1 + 2.0**-k / n for k in range(49) for n in (2, 1)]
    # the least step is tried, and a saved one that is shorter is lengthened to it
    solver = Rosenbrock(
        lambda t, y: np.ones(1), 1.0, [0.0], 3.0,
        lambda t, y: SimpleNamespace(solve=lambda c, b: b), first_step=1e-17,
    )  # fmt: skip
    solver.step()
    assert solver.status == "running" and solver.t == 1 + 10 * np.spacing(1.0)


def test_arguments_of_the_rosenbrock_solver():
    def make(t0=0.0, end=1.0, linearised=lambda t, y: None, **options):
        return Rosenbrock(lambda t, y: -y, t0, [1.0], end, linearised, **options)

    # the ends of what is allowed
    assert make(first_step=1.0).h_abs == 1.0
    assert make(rtol=0.0).rtol == 0 and make(atol=0.0).atol == 0
    assert make(max_step=0.25, first_step=0.5).max_step == 0.25
    assert make(end=0.0).h_abs == 0.0
    defaults = make()
    assert (defaults.rtol, defaults.atol, defaults.norm) == (1e-3, 1e-6, "rms")
    assert defaults.max_step == np.inf
    for options, name in (
        ({"rtol": 0.0, "atol": 0.0}, "rtol, atol"), ({"rtol": -1e-9}, "rtol, atol"),
        ({"atol": -1e-9}, "rtol, atol"), ({"rtol": np.nan}, "rtol, atol"),
        ({"max_step": 0.0}, "max_step"), ({"max_step": -1.0}, "max_step"),
        ({"first_step": 0.0}, "first_step"), ({"first_step": 1.0 + 1e-9}, "first_step"),
        ({"norm": "l2"}, "norm"), ({"norm": 2}, "norm"), ({"end": -1.0}, "t_bound"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            make(**options)
    for options, name in (
        ({"linearised": 3}, "linearised"), ({"vectorized": "no"}, "vectorized"),
        ({"first_step": "1"}, "first_step"), ({"max_step": None}, "max_step"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"^{name}: expected"):
            make(**options)
    with pytest.raises(TypeError, match=r"^linearised: expected an object with solve\(c, b\)"):
        make(linearised=lambda t, y: 3).step()


# ------------------------------------------------------------------------------- integrators


class Bar:
    """A progress bar that remembers what it showed."""

    def __init__(self, **options):
        self.options, self.n, self.shown = options, options.get("initial", 0), []

    def update(self, by=1):
        self.n += by
        self.shown.append(self.n)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def close(self):
        pass


def decay(x, mu):
    return -x


ONE = Measure([[1.0]])


def test_what_has_escaped():
    largest = validate.LARGEST
    for fine in (0.0, largest, -largest):
        assert not integrators.escaped(np.array([1.0, fine]))
    for bad in (np.nextafter(largest, np.inf), -1.01 * largest, np.inf, -np.inf, np.nan):
        assert integrators.escaped(np.array([1.0, bad]))


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_progress_of_fixed_steps_is_the_share_that_is_done(method, monkeypatch):
    bars = []
    monkeypatch.setattr(engine, "tqdm", lambda **o: bars.append(Bar(**o)) or bars[-1])
    run = flow(decay, ONE, [0.5, 0.75, 1.5], method=method, step=0.25)
    assert bars[0].shown == pytest.approx([25, 50, 75, 100]) and run.steps == 4
    assert bars[0].options["total"] == 100 and bars[0].options["disable"] is True
    flow(decay, ONE, [0.5], method=method, step=0.25, progress=True)
    assert bars[1].shown == [] and bars[1].options["disable"] is False


def test_progress_of_adaptive_steps_is_the_share_of_the_clock(monkeypatch):
    bars, times = [], []
    monkeypatch.setattr(engine, "tqdm", lambda **o: bars.append(Bar(**o)) or bars[-1])

    class Spied(integrators.ADAPTIVE["RK23"]):
        def step(self):
            message = super().step()
            times.append(self.t)
            return message

    monkeypatch.setitem(integrators.ADAPTIVE, "RK23", Spied)
    run = flow(decay, ONE, [0.5, 2.5], xi=constant(1.0), method="RK23", rtol=1e-4)
    assert bars[0].shown == pytest.approx([100 * (t - 1) / 4 for t in times])
    assert run.steps == len(times) and bars[0].n == pytest.approx(100)


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_one_fixed_step(method):
    """One step of x' = 2 xi(t) x^2 written out; the middle rate counts four times."""
    h, t, x = 0.125, 0.5, 0.8

    def rate(s):
        return 0.3 + s * s

    def slope(s, y):
        return 2 * rate(s) * y * y

    k1 = slope(t, x)
    k2 = slope(t + h / 2, x + h * k1 / 2)
    k3 = slope(t + h / 2, x + h * k2 / 2)
    k4 = slope(t + h, x + h * k3)
    expected = x + (h * k1 if method == "euler" else h * (k1 + 2 * k2 + 2 * k3 + k4) / 6)
    run = flow(lambda y, mu: y**2, Measure([[x]]), [t, t + h], xi=rate, method=method, step=h)
    assert run.end.atoms[0, 0] == pytest.approx(expected, rel=1e-15)
    assert run.evaluations == (1 if method == "euler" else 4) and run.steps == 1


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_time_of_the_step_that_escapes(method):
    """Every step multiplies by about 1e15 or 1e58: the range of 1e75 is left in a known one."""
    run = flow(lambda x, mu: 4e15 * x, ONE, [1.0, 1.25, 5.0], method=method, step=0.25)
    last = 1 + 0.25 * (4 if method == "euler" else 1)
    assert run.reason == f"left the range of floating-point numbers after t = {last:g}"
    assert not run.completed and run.t.tolist() == [1.0, 1.25]
    assert run.steps == (4 if method == "euler" else 1)


def test_the_monitor_sees_the_last_step():
    """Euler with a step of three overshoots: the only step is an increase, by 4 in x^2."""
    run = gradient_flow(Ridge(1.0), ONE, [0, 3.0], method="euler", step=3.0)
    assert run.increase == pytest.approx((4 - 1) / 2, rel=1e-12)
    assert gradient_flow(Ridge(1.0), ONE, [0, 2.0], method="euler", step=2.0).increase == 0


CROSSED = {(-1, 0): True, (-1, 1): True, (1, 0): True, (1, -1): True, (0, 1): False,
           (0, -1): False, (0, 0): False, (-1, -0.5): False, (0.5, 1): False}  # fmt: skip


@pytest.mark.parametrize(("ends", "crosses"), CROSSED.items())
@pytest.mark.parametrize("direction", [None, -1, 0, 1, 3])
def test_zeros_of_events_in_one_step(ends, crosses, direction):
    """A zero at the end of a step counts, one at its start was counted before."""
    a, b = map(float, ends)

    def event(t, mu):
        return a + (b - a) * float(mu)

    if direction is not None:
        event.direction = direction
    run = SimpleNamespace(events=[event], measure=lambda y: y, found=[[]],
                          tau=np.array([0.0, 1.0]), times=np.array([0.0, 2.0]),
                          profile=SimpleNamespace(tau=lambda t: t / 2))  # fmt: skip
    solver = SimpleNamespace(t_old=0.0, t=1.0, y=1.0)
    now, stop = integrators._locate(run, solver, lambda tau: tau, [a])
    assert now == [b] and stop is None
    if crosses and (direction in (None, 0) or direction * (b - a) > 0):
        assert run.found == [[pytest.approx(2 * a / (a - b), rel=1e-12)]]
    else:
        assert run.found == [[]]


def test_events_of_one_step_in_their_order_up_to_the_first_that_ends_it():
    def at(level, **attributes):
        def event(t, mu):
            return float(mu) - level

        event.__dict__.update(attributes)
        return event

    events = [at(0.75), at(0.5, terminal=True), at(0.25), at(0.6, terminal=True), at(0.3)]
    for chosen, stop in ((events, 0.5), (events[::2], None), (events[::-1], 0.5)):
        run = SimpleNamespace(events=chosen, measure=lambda y: y, found=[[] for _ in chosen],
                              tau=np.array([0.0, 1.0]), times=np.array([0.0, 1.0]),
                              profile=SimpleNamespace(tau=lambda t: t))  # fmt: skip
        solver = SimpleNamespace(t_old=0.0, t=1.0, y=1.0)
        before = [event(0, 0.0) for event in chosen]
        _, found = integrators._locate(run, solver, lambda tau: tau, before)
        assert found == (None if stop is None else pytest.approx(stop, abs=1e-12))
        for event, times in zip(chosen, run.found, strict=True):
            level = -event(0, 0.0)
            expected = [level] if stop is None or level <= stop else []
            assert times == pytest.approx(expected, abs=1e-12)


def test_time_from_the_clock():
    """The inverse of the clock; where it stands still, the first time that was asked for."""
    run = SimpleNamespace(tau=np.array([1.0, 2.0, 2.0, 2.0, 5.0]), times=np.arange(10.0, 60, 10),
                          profile=SimpleNamespace(tau=lambda t: 2 + 3 * ((t - 40) / 10) ** 2
                                                  if t >= 40 else 1 + (t - 10) / 10))  # fmt: skip
    table = {1.0: 10, 1.5: 15, 2.0: 20, 2.75: 45, 5.0: 50, 0.5: 10, 6.0: 50}
    for tau, t in table.items():
        assert integrators._time(run, tau) == pytest.approx(t, abs=1e-12)


def test_an_event_that_ends_the_flow_between_two_output_times():
    """The state there is the last record, at its own time, after those that were asked for."""

    def end(t, mu):
        return t - 0.8

    end.terminal = True
    run = flow(decay, ONE, [0.0, 0.25, 0.5, 3.0], events=[end], xi=constant(1.0),
               method="DOP853", dense=True)  # fmt: skip
    assert run.t == pytest.approx([0, 0.25, 0.5, 0.8], abs=1e-12)
    assert run.tau == pytest.approx(2 * run.t, abs=1e-12)
    assert run.atoms.ravel() == pytest.approx(np.exp(-2 * run.t), abs=1e-7)
    assert run.completed and run.reason == "a terminal event" and len(run.value) == 4
    assert run.at(0.8 - 1e-9).atoms[0, 0] == pytest.approx(np.exp(-1.6), abs=1e-7)


@pytest.mark.parametrize("method", [*integrators.EXPLICIT, "Radau", "BDF", "LSODA"])
def test_every_state_comes_from_the_piece_of_its_own_step(method):
    """Between its ends each interpolant is used, and no other: the error stays small."""
    run = flow(lambda x, mu: x @ [[0, 1], [-1, 0]], Measure([[1.0, 0.0]]),
               np.linspace(0, 6, 31), method=method, dense=True, rtol=1e-5, atol=1e-7)  # fmt: skip
    turned = np.stack([np.cos(run.t), np.sin(run.t)], axis=1)
    assert np.abs(run.atoms[:, 0] - turned).max() < 1e-2
    for t, atoms in zip(run.t, run.atoms, strict=True):
        np.testing.assert_allclose(run.at(t).atoms, atoms, atol=1e-12)


def test_evaluations_are_those_of_the_solver_and_records_are_free():
    for method in integrators.EXPLICIT:
        calls = []

        def field(x, mu, calls=calls):
            calls.append(x)
            return -x

        run = flow(field, ONE, [0.0, 1.0], method=method, rtol=1e-5)
        solver = integrators.ADAPTIVE[method](lambda t, y: -y, 0.0, [1.0], 1.0, rtol=1e-5,
                                              atol=1e-10)  # fmt: skip
        steps = 0
        while solver.status == "running":
            solver.step()
            steps += 1
        solver.dense_output()  # for a record within the last step; DOP853 evaluates for it
        assert (run.evaluations, run.steps) == (solver.nfev, steps)
        assert len(calls) == solver.nfev + 3  # the start by which a run is known, and two records


def test_the_step_of_a_saved_run_is_cut_to_what_is_left(monkeypatch):
    """Steps of a resumed solver begin with the saved one, and never go beyond the end."""
    asked = []

    class Spied(integrators.ADAPTIVE["BDF"]):
        def __init__(self, fun, t0, y0, t_bound, **options):
            asked.append((t0, t_bound, options))
            super().__init__(fun, t0, y0, t_bound, **options)

    monkeypatch.setitem(integrators.ADAPTIVE, "BDF", Spied)
    run = engine._Run(decay, ONE, [0.0, 2.0], None, None, (), None)
    for tau, h, first in ((0.5, 0.25, 0.25), (1.5, 9.0, 0.5), (0.5, None, None)):
        integrators._solver(run, "BDF", {"y": np.ones(1)}, tau, h, 1e-5, 1e-7)
        t0, end, options = asked.pop()
        assert (t0, end, options.pop("first_step", None)) == (tau, 2.0, first)
        assert options == {"rtol": 1e-5, "atol": 1e-7}


def test_what_a_saved_run_keeps_of_its_solver():
    for method, solver in integrators.ADAPTIVE.items():
        options = {"linearised": lambda t, y: Dense(-1.0)} if method == "rosenbrock" else {}
        one = solver(lambda t, y: -y, 0.0, np.ones(1), 1.0, first_step=0.01, **options)
        one.step()
        arrays, h = integrators._state(one, method)
        assert np.array_equal(arrays["y"], one.y)
        assert ("f" in arrays) is (method in (*integrators.EXPLICIT, "rosenbrock"))
        assert h == (one.step_size if method == "LSODA" else one.h_abs)
        if method not in integrators.ONE_STEP:
            assert arrays["y"] is not one.y


# ------------------------------------------------------------------------------- engine


def started(F=None, mu=ONE, times=(0.0, 1.0), field=None, xi=None, space=None):
    if field is None:
        field = engine._Descent(F) if F is not None else decay
    return engine._Run(field, mu, times, space, xi, (), F)


def test_dissipation_at_the_edge_of_the_numbers():
    mu = Measure([[3.0], [4.0]], [0.25, 0.75])
    assert dissipation(Ridge(2.0), mu) == 0.25 * 36 + 0.75 * 64
    for slope, expected in ((np.inf, np.inf), (np.nan, np.inf), (1e200, np.inf), (-3.0, 9.0)):

        class Steep(Functional):
            def at(self, mu, slope=slope):
                return SimpleNamespace(gradient=lambda x: np.full(x.shape, slope))

        assert dissipation(Steep(), mu) == expected
    on = Measure([[0.6, 0.8]])
    F = Anchor(1.0, [5.0, 0.0]).on(Sphere())
    # only what is tangent counts: (5, 0) minus its part along (0.6, 0.8)
    assert dissipation(F, on) == pytest.approx(25 - 9, rel=1e-14)


def test_spans_of_time_that_adaptive_methods_take():
    largest = validate.LARGEST

    def still(x, mu):
        return 0 * x

    for span in (largest, 1 / largest):
        assert flow(still, ONE, [0.0, span]).completed
    assert flow(still, ONE, [0.9 * largest, 1.5 * largest]).completed
    for span in (np.nextafter(largest, np.inf), np.nextafter(1 / largest, 0), 1e100, 1e-100):
        with pytest.raises(ValueError, match="^times: expected rescaled times from 1e-75 to 1e"):
            flow(still, ONE, [0.0, span])
        assert flow(still, ONE, [0.0, span], method="euler", step=span).completed


def test_where_a_flow_may_start():
    largest = validate.LARGEST
    assert flow(lambda x, mu: 0 * x, Measure([[largest]]), [0.0, 1.0]).completed
    with pytest.raises(ValueError, match="^mu: expected atoms below 1e"):
        engine.check_start(Measure([[1.0], [-1.01 * largest]]), Euclidean())
    with pytest.raises(ValueError, match="^mu: expected atoms in .*, atom 1 is outside"):
        engine.check_start(Measure([[1.0, 0.0], [0.9, 0.0], [2.0, 0.0]]), Sphere())
    engine.check_start(Measure([[1.0, 0.0]]), SimpleNamespace(tangent=None, retract=None))


def test_a_clock_may_go_back_by_rounding_only():
    for end, factor in ((0.5, 1.0), (8.0, 8.0)):
        for share, allowed in ((0.9, True), (1.1, False)):
            back = share * 1e-12 * factor
            xi = custom(lambda t: 0 * t + 1,
                        clock=lambda t, b=back, e=end: np.where(t == 1, e - b, np.minimum(t, 0.5)
                                                                * 2 * e))  # fmt: skip
            if allowed:
                run = started(times=[0.0, 0.5, 1.0], xi=xi)
                np.testing.assert_array_equal(run.tau, [0.0, end, end])
            else:
                with pytest.raises(ValueError, match="^xi: expected a finite, increasing clock"):
                    started(times=[0.0, 0.5, 1.0], xi=xi)


def test_linear_systems_return_the_normal_part():
    """On a sphere the tangent part is solved for; at the pole it is the first coordinate."""
    asked = []

    class Half:
        def solve(self, c, b):
            asked.append((c, b))
            return b / (1 + c)

    linear = engine._Linear(Half(), Measure([[0.0, 1.0]]), Sphere())
    np.testing.assert_allclose(linear.solve(3.0, np.array([4.0, 5.0])), [1.0, 5.0])
    assert asked[0][0] == 3.0 and asked[0][1].tolist() == [[4.0, 0.0]]
    assert np.isnan(linear.solve(1.0, np.array([np.inf, 0.0]))).all() and len(asked) == 1


def test_increase_beyond_what_rounding_and_the_tolerance_explain():
    run, heights = started(Ridge(1.0)), iter([2.0, 2.5, 2.25, 2.375, 1.0, 1.0])
    run.value = lambda mu: next(heights)
    eps = np.finfo(float).eps
    for allowed, expected in (
        (0.0, 0.0), (0.25, 0.25 - 64 * eps * 2.5), (0.0, 0.25 - 64 * eps * 2.5),
        (0.0, 0.25 - 64 * eps * 2.5), (0.0, 0.25 - 64 * eps * 2.5), (-1.0, 1 - 64 * eps),
    ):  # fmt: skip
        run.monitor(np.ones(1), allowed)
        assert run.increase == expected
    # what is no gradient flow has no value that should fall
    run = started()
    run.monitor(np.ones(1), 0.0)
    assert run.energy is None and run.increase == 0 and run.allowed(np.ones(1), 1.0, 1.0) == 0


def test_values_in_single_precision_round_more():
    run = started(Ridge(1.0))
    single = SimpleNamespace(at=lambda mu: SimpleNamespace(value=np.float32(2.0)))
    run.functional = single
    assert run.value(ONE) == 2.0 and run._eps == np.finfo(np.float32).eps
    run.functional = SimpleNamespace(at=lambda mu: SimpleNamespace(value=3))
    assert run.value(ONE) == 3.0 and run._eps == np.finfo(float).eps
    assert np.isnan(started().value(ONE))


def test_what_an_error_of_the_allowed_size_can_change():
    """Twice the tolerance allows twice the change, and the gradient weighs its atoms."""
    mu = Measure([[3.0, 0.0], [0.0, -4.0]], [0.25, 0.75])
    run = started(Ridge(2.0), mu)
    run.velocity(mu.atoms)
    slope = np.sqrt((0.25 * 6) ** 2 + (0.75 * 8) ** 2)
    for rtol, atol in ((1e-3, 1e-5), (0.0, 1e-4), (1e-2, 0.0)):
        change = slope * (atol + rtol * 4) * np.sqrt(4)
        assert run.allowed(mu.atoms.ravel(), rtol, atol) == pytest.approx(change, rel=1e-14)


def test_records_are_free_and_weigh_their_atoms():
    mu = Measure([[3.0, 0.0], [0.0, -4.0]], [0.25, 0.75])
    run = started(Ridge(1.0), mu)
    run.record(mu.atoms)
    ((atoms, value, speed),) = run.records
    assert np.array_equal(atoms, mu.atoms) and run.evaluations == 0
    assert value == pytest.approx((0.25 * 9 + 0.75 * 16) / 2)
    assert speed == pytest.approx(0.25 * 9 + 0.75 * 16)


def test_the_functional_is_asked_once_at_each_state():
    asked = []

    class Watched(Ridge):
        def at(self, mu):
            asked.append(mu.atoms.copy())
            return super().at(mu)

    run = gradient_flow(Watched(1.0), ONE, [0.0, 0.25, 0.5], method="euler", step=0.25)
    # the start by which the run is known; each record; each step
    assert len(asked) == 1 + 3 + 2 + 0 and run.evaluations == 2
    known = started(Watched(1.0))
    known.velocity(ONE.atoms)
    asked.clear()
    assert known.value(Measure([[1.0]])) == 0.5 and not asked
    assert known.value(Measure([[2.0]])) == 2.0 and len(asked) == 1


def test_a_run_is_known_by_all_of_its_arguments():
    def key(*arguments, **changes):
        return started(**{"field": decay, **changes}).key(*arguments)

    same = key("RK45", 1e-3)
    assert key("RK45", 1e-3) == same
    others = [
        key("RK23", 1e-3), key("RK45", 2e-3), key("RK45"),
        key("RK45", 1e-3, mu=Measure([[1.5]])), key("RK45", 1e-3, times=(0.0, 2.0)),
        key("RK45", 1e-3, xi=constant(0.7)), key("RK45", 1e-3, field=lambda x, mu: -2 * x),
        key("RK45", 1e-3, F=Ridge(1.0)), key("RK45", 1e-3, space=Ball(9.0, (1,))),
    ]  # fmt: skip
    assert len({same, *others}) == 10
    run = started()
    run.key("RK45")
    assert run.evaluations == 0


# ------------------------------------------------------------------------------- saved runs


def test_probe_is_one_number():
    assert checkpoint.probe([[1.0, 2.0], [3.0, 4.0]]) == (
        f"{sum((i + 1) * np.cos(i) for i in range(4)):.6e}"
    )
    assert checkpoint.probe([-0.0]) == checkpoint.probe([0.0]) == "0.000000e+00"


def test_fingerprint_ignores_addresses_only():
    class Thing:
        pass

    assert checkpoint.fingerprint(Thing()) == checkpoint.fingerprint(Thing())
    assert checkpoint.fingerprint("at 1") != checkpoint.fingerprint("at 2")
    assert checkpoint.fingerprint(np.ones(2)) != checkpoint.fingerprint(np.array([1.0, 2.0]))


def test_a_saving_is_due_after_half_a_minute(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    store = checkpoint.Checkpoint(tmp_path / "run.npz", "key")
    assert store.load() is None
    for passed, due in ((0.0, False), (30.0, False), (30.5, True)):
        now[0] = 100 + passed
        assert store.due is due
    store.save({"a": np.arange(3)}, {"n": 7})
    assert not store.due
    now[0] += 30.5
    assert store.due
    loaded = store.load()
    assert loaded.pop("a").tolist() == [0, 1, 2] and loaded == {"n": 7}
    with pytest.raises(ValueError, match="belongs to a run with other arguments"):
        checkpoint.Checkpoint(tmp_path / "run.npz", "other").load()
    nothing = checkpoint.Checkpoint(None, "key")
    now[0] += 100
    assert not nothing.due and nothing.load() is None and nothing.save({}, {}) is None
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


# ------------------------------------------------------------------------------- descent


def test_descent_saves_when_it_is_due_and_shows_each_step(tmp_path, monkeypatch):
    bars, saved, now = [], [], [0.0]
    monkeypatch.setattr(descent, "tqdm", lambda **o: bars.append(Bar(**o)) or bars[-1])
    original = checkpoint.Checkpoint.save

    def save(self, arrays, about):
        saved.append((about["n"], len(arrays["states"])))
        original(self, arrays, about)

    def clock():
        now[0] += 10  # seconds between two looks at the clock
        return now[0]

    monkeypatch.setattr(checkpoint.Checkpoint, "save", save)
    monkeypatch.setattr(checkpoint.time, "monotonic", clock)

    def run():
        return sgd(Ridge(1.0), ONE, [0.25, 0.5, 2.0], 0.25, 1, checkpoint=tmp_path / "run.npz")

    first = run()
    assert bars[0].options["total"] == 8 and bars[0].options["initial"] == 1
    assert bars[0].shown == [2, 3, 4, 5, 6, 7, 8] and bars[0].options["disable"] is True
    # made at 10, looked at from 20 on: beyond 30 seconds at the fourth look
    assert saved == [(4, 2), (8, 2)] or saved[0] == (4, 2)
    assert saved[-1][0] == 8 and first.steps == first.evaluations == 8
    again = run()
    assert bars[1].options["initial"] == 8 and bars[1].shown == []
    np.testing.assert_array_equal(again.atoms, first.atoms)


def test_the_step_in_which_descent_escapes():
    """A rate of 1e20: each step multiplies by 1 - 1e20."""
    run = sgd(Ridge(1.0), ONE, [0.0, 1.0, 9.0], 1.0, 1, xi=lambda t: 5e19 + 0 * t)
    assert run.reason == "left the range of floating-point numbers in step 4"
    assert not run.completed and run.t.tolist() == [0.0, 1.0] and run.steps == 3
    assert run.tau.tolist() == [0.0, 1e20]
    fine = sgd(Ridge(1.0), ONE, [0.0, 2.0], 1.0, 1)
    assert fine.reason == "reached t = 2" and fine.completed and fine.method == "sgd"


def test_samples_of_descent_are_as_large_as_asked():
    asked = []

    class Watched(Ridge):
        def sample(self, rng, n):
            asked.append(n)
            return self

    sgd(Watched(1.0), ONE, [0.0, 1.0], 0.5, 1)
    sgd(Watched(1.0), ONE, [0.0, 0.5], 0.5, 1, batch=7)
    assert asked == [1, 1, 7]


# ------------------------------------------------------------------------------- clocks


def test_quadrature_goes_on_from_the_largest_time_that_is_known(monkeypatch):
    asked, quad = [], learning_rate.quad

    def spy(f, a, b, **options):
        asked.append((a, b))
        assert options == {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 200}
        return quad(f, a, b, **options)

    monkeypatch.setattr(learning_rate, "quad", spy)
    xi = custom(lambda t: 1 + t, breaks=[1.0, 2.0, 3.0])
    for t, pieces in (
        (2.5, [(0, 1), (1, 2), (2, 2.5)]), (2.5, []), (2.75, [(2.5, 2.75)]),
        (1.0, [(0, 1)]), (2.0, [(1, 2)]), (0.5, [(0, 0.5)]), (3.0, [(2.75, 3)]),
        (4.0, [(3, 4)]), (0.0, []),
    ):  # fmt: skip
        asked.clear()
        assert xi.tau(t) == pytest.approx(2 * t + t * t, rel=1e-13)
        assert asked == pieces


def test_profiles_written_out():
    t = np.array([0.0, 0.3, 1.0, 2.5, 4.0, 7.0])
    np.testing.assert_allclose(polynomial_decay(0.7, 2.0, 1.5)(t), 0.7 / (1 + t / 2) ** 1.5)
    p, w, e, f = 1.3, 1.0, 4.0, 0.2
    rates = [
        p * s / w if s < w else f + (p - f) / 2 * (1 + np.cos(np.pi * (s - w) / (e - w)))
        if s < e else f for s in t
    ]  # fmt: skip
    xi = warmup_cosine(p, warmup=w, end=e, floor=f)
    np.testing.assert_allclose(xi(t), rates, rtol=1e-14)
    clock = custom(xi.profile, breaks=(w, e))
    np.testing.assert_allclose(xi.tau(t), clock.tau(t), rtol=1e-12)
    assert xi.breaks == (w, e) and xi.diverges is True
    assert constant(0.25).diverges is True and custom(np.cos).diverges is None
    assert custom(np.cos, breaks=[3, 1, 0]).breaks == (0.0, 1.0, 3.0)


def test_shapes_and_types_of_rates_and_clocks():
    xi = custom(lambda t: 0.5, clock=lambda t: 3)
    np.testing.assert_array_equal(xi([1.0, 2.0]), [0.5, 0.5])
    np.testing.assert_array_equal(xi.tau([[1.0], [2.0]]), [[3.0], [3.0]])
    assert isinstance(xi(1), float) and isinstance(xi.tau(1), float)
    by_quadrature = custom(lambda t: 0.5)
    np.testing.assert_allclose(by_quadrature.tau([[1.0, 2.0]]), [[1.0, 2.0]])
    assert isinstance(by_quadrature.tau(1), float)
    assert custom(lambda t: True)(1.0) == 1.0 and custom(lambda t: 0)(1.0) == 0.0
    for clock, error in ((lambda t: "a", TypeError), (lambda t: np.ones(3), ValueError),
                         (lambda t: np.nan, ValueError), (lambda t: 1j, TypeError)):  # fmt: skip
        with pytest.raises(error, match="^xi: expected"):
            custom(lambda t: 0.5, clock=clock).tau([1.0, 2.0])
    for t in (True, 1j, "a", None):
        with pytest.raises(TypeError, match="^t: expected"):
            xi(t)
    for t in (-1e-300, np.inf, [0.0, np.nan]):
        with pytest.raises(ValueError, match="^t: expected finite times >= 0"):
            xi(t)
    with pytest.raises(ValueError, match=r"got -2.0 at time 3.0 \(mine\)"):
        custom(lambda t: 1 - t, name="mine")([0.5, 3.0, 4.0])


def test_report_on_a_profile():
    report = check_profile(custom(lambda t: 1 + t * t, clock=lambda t: 2 * t + t**3), 3.0, 4)
    assert (report.largest, report.least, report.slope) == (10.0, 1.0, 5.0)
    assert report.tau == 33.0 and report.diverges is None
    assert report.clock_error == pytest.approx(33 - 24, rel=1e-12) and not report.holds
    two = check_profile(constant(0.5), 3.0, 2)
    assert two.slope == 0 and two.holds and two.clock_error <= 1e-12
    for tau, error, diverges, holds in (
        (0.5, 1e-8, True, True), (0.5, 1.1e-8, True, False), (4.0, 4e-8, None, True),
        (4.0, 4.1e-8, None, False), (4.0, 0.0, False, False),
    ):  # fmt: skip
        found = learning_rate.ProfileCheck(1.0, 0.0, 1.0, tau, error, diverges)
        assert found.holds is holds


# ------------------------------------------------------------------------------- trajectories


def test_a_trajectory_says_what_happened():
    def made(**changes):
        parts = {"t": [0.0, 1.5], "tau": [0.0, 3.0], "atoms": np.zeros((2, 4, 3)),
                 "weights": np.full(4, 0.25), "value": [1.0, 2.0], "dissipation": [0.0, 0.0],
                 "completed": True, "reason": "why", "method": "euler", "steps": 3,
                 "evaluations": 6}  # fmt: skip
        return Trajectory(**{**parts, **changes})

    text = "Trajectory(4 atoms in R^3 at 2 times up to t = 1.5, euler, 6 evaluations"
    assert repr(made()) == text + ")"
    assert repr(made(increase=0.125)) == text + ", increases by up to 0.12)"
    assert repr(made(completed=False)) == text + ", stopped: why)"
    assert made().increase == 0 and made().events == ()
    run = made(_dense=lambda t: np.full((4, 3), t))
    for t in (0.0, 0.25, 1.5):  # the ends belong to it
        assert run.at(t).atoms[0, 0] == t
    with pytest.raises(ValueError, match=r"^t: expected a time in \[0.0, 1.5\]"):
        run.at(np.nextafter(1.5, 2))
    late = made(t=[1.0, 1.5], _dense=lambda t: np.full((4, 3), t))
    with pytest.raises(ValueError, match=r"^t: expected a time in \[1.0, 1.5\]"):
        late.at(0.5)
    np.testing.assert_array_equal(run.integrate(lambda x: 1j + x[:, 0]), [1j, 1j])
    for bad in (3, None):
        with pytest.raises(TypeError, match="^path: expected"):
            run.save(bad)
        with pytest.raises(TypeError, match="^path: expected"):
            Trajectory.load(bad)
    with pytest.raises(TypeError, match="^f: expected"):
        run.integrate(3)


def test_only_what_may_move_is_dissipated():
    """An atom on the boundary that is drawn outwards stays, and one that is drawn inwards goes."""
    ball = Ball(1.0, (2,))
    for centre, speed in (([2.0, 0.0], 0.0), ([0.25, 0.0], 0.75**2)):
        F, mu = Anchor(1.0, centre).on(ball), Measure([[1.0, 0.0]])
        assert sgd(F, mu, [0.0, 0.25], 0.25, 1).dissipation[0] == speed
        assert gradient_flow(F, mu, [0.0]).dissipation[0] == dissipation(F, mu) == speed


def test_what_is_used_where_nothing_is_said():
    mu = Measure([[1e-3, 0.5]])
    plain = gradient_flow(Ridge(1.0), mu, [0.0, 3.0])
    stated = gradient_flow(
        Ridge(1.0), mu, [0.0, 3.0], method="DOP853", rtol=1e-8, atol=1e-10, dense=False
    )
    np.testing.assert_array_equal(plain.atoms, stated.atoms)
    other = gradient_flow(Ridge(1.0), mu, [0.0, 3.0], atol=2e-10)
    assert not np.array_equal(plain.atoms, other.atoms)
    with pytest.raises(ValueError, match="^t: this trajectory has no interpolant"):
        plain.at(1.0)
    with pytest.raises(TypeError, match="^F: expected"):
        dissipation(3, mu)
    assert constant()(3.0) == 0.5
    bump = custom(lambda t: np.exp(-np.abs(np.asarray(t) - 0.3)))
    assert check_profile(bump, 1.0) == check_profile(bump, 1.0, 4097)
    assert check_profile(bump, 1.0).slope != check_profile(bump, 1.0, 4098).slope


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_a_state_that_escapes_is_not_taken(method):
    """The step is within the range of numbers, and the sum is not."""
    start, speed = 0.85 * validate.LARGEST, 0.2 * validate.LARGEST
    run = flow(lambda x, mu: np.full(x.shape, speed), Measure([[start]]), [0.0, 2.0],
               method=method, step=1.0)  # fmt: skip
    assert run.reason == "left the range of floating-point numbers after t = 0" and run.steps == 0


def test_a_zero_that_the_interpolant_has_at_the_start_is_there():
    run = SimpleNamespace(events=[lambda t, mu: float(mu)], measure=lambda y: y, found=[[]],
                          tau=np.array([0.0, 1.0]), times=np.array([0.0, 1.0]),
                          profile=SimpleNamespace(tau=lambda t: t))  # fmt: skip
    solver = SimpleNamespace(t_old=0.0, t=1.0, y=1.0)
    integrators._locate(run, solver, lambda tau: tau, [-1e-17])
    assert run.found == [[0.0]]


def test_a_time_beyond_the_last_piece_by_rounding():
    run = SimpleNamespace(mu=ONE, project=lambda x: x, profile=SimpleNamespace(tau=lambda t: t))
    pieces = [(1.0, lambda tau: ("first", tau)), (2.0, lambda tau: ("second", tau))]
    at = integrators._interpolant(run, pieces)
    beyond = np.nextafter(2.0, 3)
    for t, piece in ((0.0, "first"), (1.0, "first"), (1.5, "second"), (beyond, "second")):
        assert at(t) == (piece, t)
    assert integrators._interpolant(run, [])(0.0) is ONE.atoms


def test_numbers_of_steps_are_exact():
    n = 2**53
    np.testing.assert_array_equal(step_numbers([0.0, float(n)], 1.0, "step"), [0, n])
    with pytest.raises(ValueError, match=r"^step: expected at most 2\^53 steps"):
        step_numbers([0.0, float(n + 2)], 1.0, "step")


def test_a_first_step_fits_into_the_interval():
    def make(first):
        return Rosenbrock(lambda t, y: -y, 1.0, [1.0], 2.0, lambda t, y: None, first_step=first)

    assert make(1.0).h_abs == 1.0
    with pytest.raises(ValueError, match="^first_step: expected a step within the interval"):
        make(1.5)
