"""Flows: order, exact solutions, conservation, clocks, events, failures."""

import itertools
import warnings

import numpy as np
import pytest
from examples import same_bits
from hypothesis import given
from hypothesis import strategies as st
from reference import make, measure, relative
from scipy.integrate import simpson
from scipy.linalg import expm

from companion.mathematics.network import TwoLayerRisk
from mfbook.confinement import Anchor, Ridge
from mfbook.flow import (
    RK4,
    Adaptive,
    Euler,
    constant,
    custom,
    dissipation,
    flow,
    gradient_flow,
    polynomial_decay,
    warmup_cosine,
)
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.space import Ball, Sphere

R, PROGRAM = make(0)
MU = measure(1, 4, R.shape)
START = Measure([[1.0, 0.5], [-0.3, 2.0], [0.2, -0.7]], [0.5, 0.2, 0.3])
ONE = Measure([[1.0]])
A = np.array([[-0.5, 1.0], [-1.0, -0.2]])
B = np.array([[0.1, 0.3], [-0.2, 0.4]])
ADAPTIVE = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]
FIXED = {"euler": Euler, "rk4": RK4}
STEP_LENGTHS = 1 / np.array([8, 16, 32, 64])
EXACT = {"solver": Adaptive(rtol=1e-11, atol=1e-13)}
DECAY = polynomial_decay(0.9, 0.5, 0.7)
PROFILES = {
    "rescaled time": None,
    "constant": constant(0.8),
    "decay": DECAY,
    "warm-up and cosine": warmup_cosine(1.2, warmup=0.5, end=1.5, floor=0.1),
    "custom with a jump": custom(lambda t: np.where(t < 1.0, 0.2, 0.9), breaks=[1.0]),
}
PAUSE = custom(lambda t: np.where((t < 1) | (t >= 2), 0.5, 0.0), breaks=[1.0, 2.0])


def linear(x, mu):
    """Every particle turns, and is drawn along by the mean."""
    return x @ A + mu.integrate(mu.atoms) @ B


def linear_solution(mu, tau):
    """Closed form: the mean solves m' = m (A + B), deviations from it solve y' = y A."""
    mean = mu.weights @ mu.atoms
    return (mu.atoms - mean) @ expm(tau * A) + mean @ expm(tau * (A + B))


def height(x, mu):
    """Gradient of the last coordinate: ambient, to be projected."""
    return np.broadcast_to([0.0, 0.0, 1.0], x.shape)


def still(x, mu):
    return 0 * x


def chosen(method, step, rtol):
    """A solver by its name, with a step or tolerances, whichever it takes."""
    if method in FIXED:
        return FIXED[method](step)
    return Adaptive(rtol=rtol, atol=1e-2 * rtol, method=method)


@pytest.mark.parametrize("problem", ["attention", "sphere", "clock"])
@pytest.mark.parametrize(("method", "expected"), [("euler", 1), ("rk4", 4)])
def test_order_of_the_fixed_steps(method, expected, problem):
    field, mu, space = linear, START, None
    if problem == "attention":
        field, mu = (lambda x, m: -R.at(m).gradient(x)), MU
    if problem == "sphere":
        space, mu = Sphere(), Measure(Sphere().project(START.atoms), START.weights)
    xi = DECAY if problem == "clock" else None
    exact, *ends = (
        flow(field, mu, [0, 1], space, xi=xi, solver=solver).end.atoms
        for solver in (Adaptive(rtol=1e-12, atol=1e-14), *map(FIXED[method], STEP_LENGTHS))
    )
    x, y = np.log(STEP_LENGTHS), np.log([np.abs(end - exact).max() for end in ends])
    slope, intercept = np.polyfit(x, y, 1)
    bend = np.abs(slope * x + intercept - y).max() / np.ptp(x)
    # the next term of the expansion bends the line; the bend bounds the error of the slope
    assert abs(slope - expected) < 0.05 + 4 * bend and bend < 0.05


@pytest.mark.parametrize("method", ADAPTIVE)
def test_tolerance_controls_the_error(method):
    ends = (flow(linear, START, [0, 2.0], solver=chosen(method, 0, rtol)).end.atoms
            for rtol in (1e-4, 1e-6, 1e-8))  # fmt: skip
    errors = [np.abs(end - linear_solution(START, 2.0)).max() for end in ends]
    assert errors[2] < errors[1] < errors[0] < 1e-2 and errors[2] < 1e-5


@pytest.mark.parametrize("name", PROFILES)
def test_interacting_particles(name):
    run = flow(linear, START, np.linspace(0, 2, 5), xi=PROFILES[name], **EXACT)
    for tau, atoms in zip(run.tau, run.atoms, strict=True):
        assert np.abs(atoms - linear_solution(START, tau)).max() < 1e-10
    assert np.isnan(run.value).all() and run.weights.tolist() == START.weights.tolist()


@given(st.permutations(range(4)), st.integers(0, 99), st.sampled_from([0.0, 0.3, 1.0]))
def test_order_and_splitting_of_heads_do_not_matter(p, seed, share):
    """A part without weight is carried along."""
    mu = measure(seed, 4, R.shape)
    w = mu.weights[p]
    other = Measure(mu.atoms[[*p, p[0]]], [share * w[0], *w[1:], (1 - share) * w[0]])
    a, b = (gradient_flow(R, m, [0, 0.5], solver=RK4(0.25)) for m in (mu, other))
    assert np.abs(a.end.atoms[[*p, p[0]]] - b.end.atoms).max() < 1e-12
    assert relative(b.value, a.value) < 1e-12


@pytest.mark.parametrize("name", PROFILES)
def test_energy_is_dissipated(name):
    """In time, and in rescaled time; jumps and kinks are at points of the grid."""
    F, xi, cuts = R + Ridge(0.2), PROFILES[name], [0.0, 0.5, 1.0, 1.5, 2.0]
    t = np.unique([np.linspace(a, b, 33) for a, b in itertools.pairwise(cuts)])
    run = gradient_flow(F, MU, t, xi, solver=Adaptive(rtol=1e-9, atol=1e-11))
    kinks = name.startswith(("custom", "warm-up"))  # in time; D is smooth in rescaled time
    np.testing.assert_allclose(
        run.dissipated(), run.value[0] - run.value, atol=1e-5 if kinks else 1e-6
    )
    lost = 0.0
    for a, b in itertools.pairwise(cuts):
        piece = (t >= a) & (t <= b)
        inside = np.clip(t[piece], a, b - 1e-13)  # at a jump the rate before it
        rate = 1.0 if xi is None else 2 * xi(inside)
        lost += simpson(rate * run.dissipation[piece], x=t[piece])
    assert relative(run.value[0] - run.value[-1], lost) < 1e-6
    assert run.increase == 0 and (np.diff(run.value) < 0).all()
    assert run.dissipation[-1] == pytest.approx(dissipation(F, run.end), rel=1e-12)
    assert run.value[-1] == pytest.approx(F(run.end), rel=1e-12)


def test_only_what_may_move_is_dissipated():
    """Drawn outwards on the boundary an atom stays; on a sphere the tangent part counts."""
    ball, edge = Ball(1.0, (2,)), Measure([[1.0, 0.0]])
    for centre, speed in (([2.0, 0.0], 0.0), ([0.25, 0.0], 0.75**2)):
        F = Anchor(1.0, centre).on(ball)
        assert gradient_flow(F, edge, [0.0]).dissipation[0] == pytest.approx(speed)
        assert dissipation(F, edge) == pytest.approx(speed)
    F = Anchor(1.0, [5.0, 0.0]).on(Sphere())
    assert dissipation(F, Measure([[0.6, 0.8]])) == pytest.approx(25 - 9, rel=1e-14)
    mu = Measure([[3.0], [4.0]], [0.25, 0.75])
    assert dissipation(Ridge(2.0), mu) == pytest.approx(0.25 * 36 + 0.75 * 64)


class Geodesics(Sphere):
    """The circle with steps along it: a space of a user's own."""

    def retract(self, x, v):
        angle = np.linalg.norm(v, axis=1, keepdims=True)
        return np.cos(angle) * x + np.sinc(angle / np.pi) * v


def test_steps_are_those_of_the_space():
    start, times = Measure(Sphere().sample(0, 3, 2)), np.linspace(0, 2, 5)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    run = flow(lambda x, mu: x @ turn, start, times, Geodesics(), solver=Euler(0.5))
    for t, atoms in zip(times, run.atoms, strict=True):
        np.testing.assert_allclose(atoms, start.atoms @ expm(t * turn), atol=1e-13)


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_a_clock_that_stands_still(method):
    times = [0.0, 0.5, 1.0, 1.2, 1.7, 2.0, 3.0]
    run = gradient_flow(R, MU, times, PAUSE, solver=Adaptive(rtol=1e-11, atol=1e-13, method=method))
    assert run.tau == pytest.approx([0, 0.5, 1, 1, 1, 1, 2], abs=1e-12)
    assert np.abs(run.atoms[2] - run.atoms[5]).max() < 1e-12 and run.completed
    assert np.abs(run.end.atoms - gradient_flow(R, MU, [0, 2.0], **EXACT).end.atoms).max() < 1e-8
    never = custom(lambda t: 0 * t)
    nothing = gradient_flow(R, MU, [0, 1.0, 2.0], never, solver=Adaptive(method=method))
    assert np.array_equal(nothing.atoms, np.array([MU.atoms] * 3)) and nothing.steps == 0
    assert nothing.dissipated().tolist() == [0, 0, 0]
    half = crossing(np.exp(-1.0), terminal=True)
    run = gradient_flow(Ridge(1.0), ONE, [0, 1.0, 1.5, 2.0, 4.0], PAUSE, events=[half],
                        solver=Adaptive(method=method))  # fmt: skip
    assert (np.diff(run.t) >= 0).all() and 1 - 1e-6 < run.t[-1] <= 2 + 1e-6
    assert run.end.atoms[0, 0] == pytest.approx(np.exp(-1), abs=1e-6)


@pytest.mark.parametrize("method", [*ADAPTIVE, *FIXED])
def test_flow_on_the_sphere(method):
    mu, dense = Measure(Sphere().sample(0, 5, 3)), method not in FIXED
    solver = chosen(method, 0.01, 1e-7)
    run = flow(height, mu, [0, 0.5, 2.0], Sphere(), dense=dense, solver=solver)
    inner = [run.at(t).atoms for t in (0.123, 1.0)] if dense else []
    assert np.abs(np.linalg.norm([*run.atoms, *inner], axis=2) - 1).max() < 1e-12
    # z' = 1 - z^2
    z = np.tanh(np.arctanh(mu.atoms[:, 2]) + run.t[:, None])
    assert np.abs(run.atoms[..., 2] - z).max() < (0.02 if method == "euler" else 1e-5)


@pytest.mark.parametrize("method", [*ADAPTIVE[1:], *FIXED])
def test_flow_in_a_ball(method):
    """Drawn to a point outside: straight to the boundary, then along it to the nearest point."""
    ball, a = Ball(1.0, (2, 1)), np.array([2.0, 0.0, 0.5])
    mu = Measure([[0.0, 0.9, 0.0], [-0.5, 0.1, 0.9]])
    run = gradient_flow(Anchor(1.0, a).on(ball), mu, [0.0, 0.25, 12.0],
                        solver=chosen(method, 0.05, 1e-5))  # fmt: skip
    assert run.completed and ball.contains(run.atoms.reshape(-1, 3)).all()
    assert np.abs(run.end.atoms - [1.0, 0.0, 0.5]).max() < 1e-3 and run.dissipation[-1] < 1e-6


def test_sliding_along_the_boundary_of_a_ball():
    """For the velocity (2, 0): first a chord, then the arc, with phi' = -2 sin phi on it."""
    ball, phi = Ball(1.0, (2,)), 2.0
    run = flow(lambda x, m: np.broadcast_to([2.0, 0.0], x.shape),
               Measure([[np.cos(phi), np.sin(phi)]]), [0, 2.0], ball,
               solver=Adaptive(rtol=1e-7))  # fmt: skip
    left = 2.0 + np.cos(phi)  # the chord has the length -2 cos phi
    angle = 2 * np.arctan(np.tan((np.pi - phi) / 2) * np.exp(-2 * left))
    assert np.abs(run.end.atoms[0] - [np.cos(angle), np.sin(angle)]).max() < 1e-4


def crossing(level, **attributes):
    def event(t, mu):
        return mu.atoms[0, 0] - level

    event.__dict__.update(attributes)
    return event


@pytest.mark.parametrize("method", ADAPTIVE)
def test_events_and_what_is_between_the_records(method):
    """The first coordinate is cos t."""
    events = [crossing(0.0), crossing(0.0, direction=1), crossing(0.0, direction=-1), crossing(2.0)]
    times = np.linspace(0, 8, 9)
    run, alone = (
        flow(lambda x, mu: x @ [[0, 1], [-1, 0]], Measure([[1.0, 0.0]]), times, events=seen,
             dense=dense, solver=Adaptive(rtol=1e-7, atol=1e-9, method=method))
        for seen, dense in ((events, True), ((), False))
    )  # fmt: skip
    zeros = np.pi * np.array([0.5, 1.5, 2.5])
    for found, expected in zip(run.events, (zeros, zeros[1:2], zeros[::2], []), strict=True):
        assert found == pytest.approx(expected, abs=1e-4)
    assert run.completed and np.abs(run.atoms - alone.atoms).max() < 1e-14
    for t in [*times, 0.123, 4.567]:
        assert np.abs(run.at(t).atoms - [[np.cos(t), np.sin(t)]]).max() < 1e-3
    for t, atoms in zip(run.t, run.atoms, strict=True):
        np.testing.assert_allclose(run.at(t).atoms, atoms, atol=1e-12)


@pytest.mark.parametrize("name", PROFILES)
def test_terminal_event_in_time(name):
    """Ridge halves the first atom at tau = log 2; the time is the inverse of the clock."""
    xi, half = PROFILES[name], crossing(0.5, terminal=True)
    mu, times = Measure([[1.0], [3.0]]), [0, 0.1, 0.9, 3.0]
    run = gradient_flow(Ridge(1.0), mu, times, xi, events=[half, crossing(0.2)], dense=True)
    assert run.completed and "event" in run.reason and len(run.events[1]) == 0
    assert run.tau[-1] == pytest.approx(np.log(2), abs=1e-7)
    assert run.t[-1] == run.events[0][0] and (np.diff(run.t) > 0).all()
    assert run.tau == pytest.approx(run.t if xi is None else xi.tau(run.t), rel=1e-12)
    for end in (run.end, run.at(float(run.t[-1]))):
        assert end.atoms.ravel() == pytest.approx([0.5, 1.5], abs=1e-7)


LEVELS = st.lists(st.sampled_from(np.arange(1, 20, 2) / 20), min_size=1, max_size=6, unique=True)


@given(LEVELS, st.sets(st.integers(0, 5), max_size=2), st.sampled_from(["RK45", "LSODA"]))
def test_events_up_to_the_one_that_ends_the_flow(levels, terminal, method):
    """x = t, and hardly any steps: several events in one, in any order, also at an output time."""
    events = [crossing(level, terminal=i in terminal) for i, level in enumerate(levels)]
    events.append(lambda t, mu: t - 0.425)
    run = flow(lambda x, mu: 0 * x + 1, Measure([[0.0]]), [0, 0.35, 0.8], events=events,
               solver=Adaptive(method=method))  # fmt: skip
    stops = [level for i, level in enumerate(levels) if i in terminal and level < 0.8]
    end = min(stops, default=0.8)
    # an event at an output time comes just before or after it
    times = np.unique(np.round(run.t, 9))
    assert run.completed and times == pytest.approx(sorted({0, min(0.35, end), end}), abs=1e-9)
    for level, times in zip([*levels, 0.425], run.events, strict=True):
        assert times == pytest.approx([level] if level <= end else [], abs=1e-9)


@pytest.mark.parametrize("direction", [None, -1, 0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_zero_at_an_end_counts_once(sign, direction):
    """At the end of the run it counts, at its start it does not, nor where nothing changes."""

    def event(at):
        def value(t, mu):
            return sign * (t - at)

        if direction is not None:
            value.direction = direction
        return value

    events = [event(0.0), event(1.0), event(2.0), lambda t, mu: 0.0]
    run = flow(still, START, [0, 1.0, 2.0], events=events)
    counted = direction in (None, 0, sign)
    assert [len(times) for times in run.events] == [0, counted, counted, 0]
    assert not counted or run.events[2] == pytest.approx([2.0])


def test_a_step_that_is_too_large_shows():
    run = gradient_flow(Ridge(1.0), START, [0, 5.0], solver=Euler(2.5))
    # each step multiplies by -3/2; the last of two increases is the largest
    assert run.increase == pytest.approx(run.value[0] * 1.5**2 * (1.5**2 - 1), rel=1e-9)
    assert "increases" in repr(run) and run.completed
    for kind in (Euler, RK4):  # x' = -10 x blows up, long before any number overflows
        long = gradient_flow(Ridge(10.0), ONE, [0.0, 5.0], solver=kind(0.5))
        assert not long.completed and "F rose from" in long.reason and "Adaptive()" in long.reason
    fine = gradient_flow(Ridge(1.0), START, [0, 5.0], solver=Euler(0.5))
    assert fine.increase == 0 and "increases" not in repr(fine)


EXPLODING = {
    "in finite time": (lambda x, mu: x**2, ONE),
    "exponentially": (-Ridge(3.0), ONE),
    "all heads": (-R, measure(0, 2, R.shape, scale=20.0)),
}


@pytest.mark.parametrize(
    ("name", "method"),
    [*itertools.product(EXPLODING, FIXED), *itertools.product(list(EXPLODING)[:2], ADAPTIVE)],
)
def test_blow_up_is_reported(name, method):
    """What was reached before is returned, and nothing of it is infinite."""
    (what, mu), step = EXPLODING[name], 50.0 if name == "all heads" else 0.25
    start = gradient_flow if isinstance(what, Functional) else flow
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = start(what, mu, [0, step, 1e6], solver=chosen(method, step, 1e-3))
    assert not run.completed and run.t[0] == 0 and len(run.t) == len(run.atoms) <= 2
    assert np.isfinite(run.atoms).all() and run.reason in repr(run) and "stopped" in repr(run)
    assert name == "all heads" or run.t.tolist() == [0, 0.25]


@pytest.mark.parametrize("method", ADAPTIVE)
def test_failure_of_the_solver_is_reported(method):
    """x' = -1/x reaches zero at t = 1/2 with infinite speed."""
    run = flow(lambda x, mu: -1 / x, ONE, [0, 0.25, 1.0], solver=Adaptive(rtol=1e-5, method=method))
    assert not run.completed and run.t.tolist() == [0.0, 0.25] and run.reason in repr(run)


def test_trajectory_gives_measures_that_nobody_changes():
    run = gradient_flow(Ridge(1.0), START, [0, 0.5, 1.0], dense=True)
    assert len(run) == 3 and run.measure(1).weights.tolist() == START.weights.tolist()
    assert np.array_equal(run.end.atoms, run.atoms[2])
    for name in ("t", "tau", "atoms", "weights", "value", "dissipation"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(run, name)[...] = 0
    bare = gradient_flow(Ridge(1.0), START, [0, 0.5])
    for curve, bad in ((run, 1.0 + 1e-9), (run, -0.1), (bare, 0.1)):
        with pytest.raises(ValueError, match="^t:"):
            curve.at(bad)


BALL = Ball(1.0, (2, 1))
FAR = Measure([[2.0, 0.0, 0.0]])
STEPS = {"solver": RK4(1)}
BAD = [
    ("field", "not finite", lambda x, mu: x * np.nan, START, STEPS),
    ("mu", "off the sphere", height, FAR, {"space": Sphere()}),
    ("mu", "outside", height, FAR, {"space": BALL}),
    ("mu", "huge", linear, Measure([[1e80, 0.0]]), {}),
    ("times", "no multiple", still, START, {"times": [0, 1.2], **STEPS}),
    ("times", "the same multiple", still, START, {"times": [0, 1, 1 + 1e-12], **STEPS}),
    ("step", "too small", still, START, {"solver": Euler(1e-30)}),
    ("solver", "a word", still, START, {"solver": "RK45"}),
    ("xi", "negative at a time", still, START,
     {"xi": custom(lambda t: np.where(t == 1.0, -1.0, 1.0), clock=lambda t: t)}),
    ("xi", "clock decreases", still, START, {"xi": custom(lambda t: 1 + 0 * t, clock=np.cos)}),
    ("events", "fixed steps", still, START, {"events": [crossing(0)], **STEPS}),
    ("dense", "fixed steps", still, START, {"dense": True, **STEPS}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what", "mu", "given_"),
    [pytest.param(n, w, mu, o, id=f"{n}-{why}") for n, why, w, mu, o in BAD],
)
def test_arguments_that_do_not_fit_together(name, what, mu, given_):
    start = gradient_flow if isinstance(what, Functional) else flow
    with pytest.raises((TypeError, ValueError), match=f"^{name}:"):
        start(what, mu, **{"times": [0, 1], **given_})


# ------------------------------------------------------------------------- flows that would not end

INPUTS = np.random.default_rng(0).uniform(-2, 2, (12, 1))
KINKED = TwoLayerRisk(INPUTS, np.sin(2 * INPUTS[:, 0]), "relu")
NEURONS = Measure(np.random.default_rng(1).normal(size=(20, 3)))


class Own(Functional):
    """A functional with kinks that does not say so."""

    def at(self, mu):
        return KINKED.at(mu)


def test_a_network_with_kinks_takes_a_solver_that_passes_over_them():
    run = gradient_flow(KINKED, NEURONS, [0.0, 5.0])
    assert run.completed and run.method == "RK23" and run.evaluations < 5000
    loose = Adaptive(rtol=1e-4, atol=1e-7, method="RK23")
    same_bits(run, gradient_flow(Own(), NEURONS, [0, 5], solver=loose))
    fine = gradient_flow(KINKED, NEURONS, [0.0, 5.0], solver=Adaptive(rtol=1e-5, atol=1e-8))
    assert abs(run.value[-1] - fine.value[-1]) < 1e-4
    both = KINKED + Ridge(0.1)
    assert both.jumps and not (Ridge(1.0) + Ridge(2.0)).jumps and not Functional().jumps
    assert gradient_flow(both, NEURONS, [0.0, 1.0]).method == "RK23"
    smooth = TwoLayerRisk(INPUTS, INPUTS[:, 0], "tanh")
    assert not smooth.jumps and gradient_flow(smooth, NEURONS, [0.0, 1.0]).method == "DOP853"


def test_steps_that_collapse_at_kinks_are_noticed():
    assert gradient_flow(Own(), NEURONS, [0.0, 5.0]).method.endswith("then RK23")
    with pytest.warns(RuntimeWarning, match="as at kinks.*method='RK23'"):
        run = gradient_flow(Own(), NEURONS, [0.0, 0.01, 1e4], solver=Adaptive(method="DOP853"))
    assert not run.completed and "as at kinks" in run.reason and run.evaluations < 100_000
    assert len(run) < 3


def test_a_budget_that_is_spent():
    whole = gradient_flow(R, MU, [0.0, 0.5, 2.0])
    part = gradient_flow(R, MU, [0.0, 0.5, 2.0], solver=Adaptive(budget=whole.evaluations // 2))
    assert whole.completed and not part.completed and "stopped: the budget of" in repr(part)
    assert "try a stiff method" in part.reason and part.evaluations < whole.evaluations
    n = len(part)
    assert n < 3 and (part.atoms == whole.atoms[:n]).all()


@pytest.mark.parametrize("solver", [Adaptive(), Euler(0.01)])
def test_what_is_interrupted_is_not_lost(solver):
    def field(x, mu):
        if x[0, 0] < 0.5:
            raise KeyboardInterrupt
        return -x

    run = flow(field, ONE, [0.0, 0.25, 0.5, 2.0], solver=solver)
    assert not run.completed and run.t.tolist() == [0.0, 0.25, 0.5] and "interrupted" in run.reason


def test_a_stiff_horizon_is_given_to_a_stiff_method():
    """An explicit method would take millions of steps to this horizon."""
    run = gradient_flow(Ridge(1e6) + Anchor(1.0, [3.0]), ONE, [0.0, 100.0])
    assert run.completed and run.method.endswith("LSODA") and run.evaluations < 20_000
    assert run.end.atoms[0, 0] == pytest.approx(3 / (1e6 + 1), abs=1e-8)
