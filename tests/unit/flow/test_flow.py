"""Flows: order, exact solutions, conservation, clocks, events, checkpoints, failures."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import heads, make, measure, relative
from scipy.integrate import simpson
from scipy.linalg import expm

from mfbook.flow import (
    Rosenbrock,
    Trajectory,
    constant,
    custom,
    dissipation,
    flow,
    gradient_flow,
    polynomial_decay,
    warmup_cosine,
)
from mfbook.flow import checkpoint as checkpoint_module
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.attention import HeadShape
from mfbook.models.confinement import Anchor, Ridge
from mfbook.space import Ball, Euclidean, Sphere

R, PROGRAM = make(0)
MU = measure(1, 4, R.shape)
START = Measure([[1.0, 0.5], [-0.3, 2.0], [0.2, -0.7]], [0.5, 0.2, 0.3])
A = np.array([[-0.5, 1.0], [-1.0, -0.2]])
B = np.array([[0.1, 0.3], [-0.2, 0.4]])
ADAPTIVE = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]
EXACT = {"rtol": 1e-11, "atol": 1e-13}
PROFILES = {
    "rescaled time": None,
    "constant": constant(0.8),
    "decay": polynomial_decay(0.9, 0.5, 0.7),
    "warm-up and cosine": warmup_cosine(1.2, warmup=0.5, end=1.5, floor=0.1),
    "custom with a jump": custom(lambda t: np.where(t < 1.0, 0.2, 0.9), breaks=[1.0]),
}


def linear(x, mu):
    """Every particle turns, and is drawn along by the mean."""
    return x @ A + mu.integrate(mu.atoms) @ B


def linear_solution(mu, tau):
    """Closed form: the mean solves m' = m (A + B), deviations from it solve y' = y A."""
    mean = mu.weights @ mu.atoms
    return (mu.atoms - mean) @ expm(tau * A) + mean @ expm(tau * (A + B))


def order(errors, steps):
    """Slope of log error on log step, and how far from a line the points are."""
    x, y = np.log(steps), np.log(errors)
    slope, intercept = np.polyfit(x, y, 1)
    return slope, np.abs(slope * x + intercept - y).max() / np.ptp(x)


def same_bits(a, b):
    """Whether two trajectories agree in everything that was computed."""
    for name in ("t", "tau", "atoms", "weights", "value", "dissipation"):
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name
    for name in ("completed", "reason", "method", "steps", "evaluations", "increase"):
        assert getattr(a, name) == getattr(b, name), name
    assert list(map(list, a.events)) == list(map(list, b.events))


# ---------------------------------------------------------------------------------------------
# order


@pytest.mark.parametrize("problem", ["attention", "linear", "sphere", "clock"])
@pytest.mark.parametrize(("method", "expected"), [("euler", 1), ("rk4", 4)])
def test_order_of_the_fixed_steps(method, expected, problem):
    field, mu, space, xi = linear, START, None, None
    if problem == "attention":
        field, mu = (lambda x, m: -R.at(m).gradient(x)), MU
    if problem == "sphere":
        space, mu = Sphere(), Measure(Sphere().project(START.atoms), START.weights)
    if problem == "clock":
        xi = polynomial_decay(0.9, 0.5, 0.7)
    exact = flow(field, mu, [0.0, 1.0], space, xi=xi, rtol=1e-12, atol=1e-14).end.atoms
    steps = 1 / np.array([8, 16, 32, 64])
    ends = [flow(field, mu, [0, 1], space, xi=xi, method=method, step=h).end.atoms for h in steps]
    slope, residual = order([np.abs(end - exact).max() for end in ends], steps)
    # the next term of the expansion bends the line; the bend bounds the error of the slope
    assert abs(slope - expected) < 0.05 + 4 * residual
    assert residual < 0.05


def test_tolerance_controls_the_error():
    for method in ADAPTIVE:
        errors = [
            np.abs(
                flow(linear, START, [0, 2.0], method=method, rtol=rtol, atol=1e-2 * rtol).end.atoms
                - linear_solution(START, 2.0)
            ).max()
            for rtol in (1e-4, 1e-6, 1e-8)
        ]
        assert errors[2] < errors[1] < errors[0] < 1e-2 and errors[2] < 1e-5


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
    assert run.end.atoms[0, 0] == pytest.approx(expected, rel=1e-14)
    assert run.evaluations == (1 if method == "euler" else 4) and run.steps == 1


class Dense:
    """(I - c J) k = b for a matrix J."""

    def __init__(self, J):
        self.J = J

    def solve(self, c, b):
        return np.linalg.solve(np.eye(len(self.J)) - c * self.J, b)


@pytest.mark.parametrize("norm", ["rms", "max"])
def test_steps_of_the_rosenbrock_pair(norm):
    """Every step that is taken, written out with matrices, and its error is what was asked."""

    def field(y):
        return np.array([y[1], -9 * np.sin(y[0]) - 0.3 * y[1], -40 * (y[2] - np.cos(y[0]))])

    def slopes(y):
        return np.array([[0, 1, 0], [-9 * np.cos(y[0]), -0.3, 0], [-40 * np.sin(y[0]), 0, -40]])

    solver = Rosenbrock(
        lambda t, y: field(y), 0.5, [2.0, 0.5, -1.0], 3.5, lambda t, y: Dense(slopes(y)),
        rtol=2e-3, atol=1e-4, norm=norm, max_step=0.2, first_step=0.2,
    )  # fmt: skip
    d, e32, errors, n = 1 / (2 + np.sqrt(2)), 6 + np.sqrt(2), [], 0
    while solver.status == "running":
        y, n = solver.y, n + 1
        solver.step()
        h = solver.t - solver.t_old
        W = np.linalg.inv(np.eye(3) - h * d * slopes(y))
        k1 = W @ field(y)
        middle = field(y + h / 2 * k1)
        k2 = k1 + W @ (middle - k1)
        np.testing.assert_allclose(solver.y, y + h * k2, rtol=1e-9, atol=1e-12)
        k3 = W @ (field(solver.y) - e32 * (k2 - middle) - 2 * (k1 - field(y)))
        size = 1e-4 + 2e-3 * np.maximum(np.abs(y), np.abs(solver.y))
        error = h / 6 * np.abs(k1 - 2 * k2 + k3) / size
        errors.append(error.max() if norm == "max" else np.sqrt((error**2).mean()))
        s = np.array([0.0, 0.3, 1.0])
        within = y + h * (np.outer(s * (1 - s), k1) + np.outer(s * (s - 2 * d), k2)) / (1 - 2 * d)
        found = solver.dense_output()(solver.t_old + s * h).T
        np.testing.assert_allclose(found, within, rtol=1e-8, atol=1e-9)
        assert h <= 0.2 * (1 + 1e-12)
    assert solver.t == 3.5 and 0.2 < max(errors) < 1 and solver.nlu > solver.njev == n


# ---------------------------------------------------------------------------------------------
# exact solutions


@pytest.mark.parametrize("method", ["DOP853", "Radau", "LSODA"])
def test_ridge_and_anchor_contract_exponentially(method):
    times, a = np.array([0.0, 0.4, 1.5]), np.array([2.0, -1.0])
    run = gradient_flow(Ridge(0.7), START, times, method=method, **EXACT)
    decay = np.exp(-0.7 * times)
    assert np.abs(run.atoms - decay[:, None, None] * START.atoms).max() < 1e-8
    assert np.allclose(run.value, decay**2 * Ridge(0.7)(START), rtol=1e-7)
    assert np.allclose(run.dissipation, 2 * 0.7 * run.value, rtol=1e-12)
    run = gradient_flow(Anchor(0.7, a), START, times, method=method, **EXACT)
    assert np.abs(run.atoms - a - decay[:, None, None] * (START.atoms - a)).max() < 1e-8
    assert run.increase == 0 and run.completed and run.reason == "reached t = 1.5"


@pytest.mark.parametrize("name", PROFILES)
def test_interacting_particles(name):
    times = np.linspace(0, 2, 5)
    run = flow(linear, START, times, xi=PROFILES[name], **EXACT)
    for tau, atoms in zip(run.tau, run.atoms, strict=True):
        assert np.abs(atoms - linear_solution(START, tau)).max() < 1e-10
    assert np.isnan(run.value).all() and run.weights.tolist() == START.weights.tolist()


def test_adaptive_methods_agree():
    ends = [
        gradient_flow(R, MU, [0, 1.0], method=m, rtol=1e-7, atol=1e-9).end.atoms for m in ADAPTIVE
    ]
    assert max(np.abs(end - ends[2]).max() for end in ends) < 1e-5


def test_one_atom_and_atoms_without_weight():
    run = flow(linear, Measure.dirac(START.atoms[0]), [0, 1.0], **EXACT)
    assert np.abs(run.end.atoms - START.atoms[0] @ expm(A + B)).max() < 1e-10
    lone = Measure(MU.atoms, [0.25, 0.75, 0.0, 0.0])
    with_ghosts = gradient_flow(R, lone, [0, 1.0], **EXACT)
    without = gradient_flow(R, Measure(MU.atoms[:2], [0.25, 0.75]), [0, 1.0], **EXACT)
    assert np.abs(with_ghosts.end.atoms[:2] - without.end.atoms).max() < 1e-9
    assert np.abs(with_ghosts.end.atoms[2:] - MU.atoms[2:]).max() > 1e-3  # ghosts are carried along


# ---------------------------------------------------------------------------------------------
# energy


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("F", [R, R + Ridge(0.2)], ids=["risk", "with ridge"])
def test_energy_is_dissipated(F, name):
    xi = PROFILES[name]
    t = np.unique([*np.linspace(0, 1, 161), *np.linspace(1, 2, 161)])
    run = gradient_flow(F, MU, t, xi, **EXACT)
    rate = np.ones_like(t) if xi is None else 2 * xi(t)
    # in rescaled time, and in time; the jump and the kinks are at points of the grid
    pieces = [(t <= 1), (t >= 1)]
    if name == "warm-up and cosine":
        pieces = [t <= 0.5, (t >= 0.5) & (t <= 1.5), t >= 1.5]
    lost = 0.0
    for piece in pieces:
        r = rate[piece].copy()
        if name == "custom with a jump" and piece[0]:
            r[-1] = 0.4  # the rate before the jump
        lost += simpson(r * run.dissipation[piece], x=t[piece])
    assert relative(run.value[0] - run.value[-1], lost) < 1e-6
    assert run.increase == 0 and (np.diff(run.value) < 0).all()
    inside = slice(10, 150)
    slope = np.gradient(run.value, run.tau, edge_order=2)[inside]
    assert np.abs(slope + run.dissipation[inside]).max() < 1e-3 * run.dissipation.max()
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


@pytest.mark.parametrize("lam", [None, 0.3])
def test_conserved_quantities(lam):
    """W_Q^T W_Q - W_K^T W_K and W_V^T W_V - W_O W_O^T of every head; ridge makes them decay."""
    F = R if lam is None else R + Ridge(lam)
    run = gradient_flow(F, MU, [0.0, 0.7, 2.0], polynomial_decay(0.9, 0.5, 0.7), **EXACT)

    def quantities(theta):
        W_Q, W_K, W_V, W_O = R.shape.split(theta)
        T = np.swapaxes
        return T(W_Q, 1, 2) @ W_Q - T(W_K, 1, 2) @ W_K, T(W_V, 1, 2) @ W_V - W_O @ T(W_O, 1, 2)

    for first, *later in zip(*map(quantities, run.atoms), strict=True):
        for tau, value in zip(run.tau[1:], later, strict=True):
            assert np.abs(value - first * np.exp(-2 * (lam or 0) * tau)).max() < 1e-8
    assert np.abs(run.atoms[-1] - run.atoms[0]).max() > 0.1


# ---------------------------------------------------------------------------------------------
# time


@pytest.mark.parametrize("name", PROFILES)
def test_the_rate_changes_the_clock_only(name):
    xi = constant() if PROFILES[name] is None else PROFILES[name]
    times = np.array([0.3, 0.8, 1.4, 2.0])
    slow, plain = gradient_flow(R, MU, times, xi), gradient_flow(R, MU, xi.tau(times))
    assert np.array_equal(slow.atoms, plain.atoms) and np.array_equal(slow.value, plain.value)
    assert np.array_equal(slow.tau, plain.t) and slow.evaluations == plain.evaluations


def test_euler_uses_the_rate_at_the_start_of_each_step():
    xi, eps, x = warmup_cosine(1.0, 0.5, 1.0, 0.1), 0.125, np.array(MU.atoms)
    run = gradient_flow(R, MU, [0.25, 1.0], xi, method="euler", step=eps)
    for n in range(2, 8):
        x = x - 2 * eps * xi(n * eps) * R.gradient(x, Measure(x, MU.weights))
    assert np.abs(run.end.atoms - x).max() < 1e-14
    assert run.steps == run.evaluations == 6


def test_first_time_need_not_be_zero():
    xi = polynomial_decay(0.9, 0.5, 0.7)
    both = gradient_flow(R, MU, [0.0, 0.5, 2.0], xi, **EXACT)
    rest = gradient_flow(R, both.measure(1), [0.5, 2.0], xi, **EXACT)
    assert np.abs(rest.end.atoms - both.end.atoms).max() < 1e-9
    both = gradient_flow(R, MU, [0.0, 0.5, 2.0], xi, method="rk4", step=0.25)
    rest = gradient_flow(R, both.measure(1), [0.5, 2.0], xi, method="rk4", step=0.25)
    assert np.array_equal(rest.end.atoms, both.end.atoms)


@pytest.mark.parametrize("method", [*ADAPTIVE, "euler", "rk4"])
@pytest.mark.parametrize("t", [0.0, 1.5])
def test_one_time(method, t):
    options = {"step": 0.5} if method in ("euler", "rk4") else {"dense": True}
    run = gradient_flow(R, MU, [t], method=method, **options)
    assert np.array_equal(run.atoms[0], MU.atoms) and run.completed and len(run) == 1
    assert run.value[0] == R(MU) and run.dissipation[0] == dissipation(R, MU)
    assert run.steps == run.evaluations == 0
    if options.get("dense"):
        assert np.array_equal(run.at(t).atoms, MU.atoms)


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_a_clock_that_stands_still(method):
    xi = custom(lambda t: np.where((t < 1) | (t >= 2), 0.5, 0.0), breaks=[1.0, 2.0])
    times = [0.0, 0.5, 1.0, 1.2, 1.7, 2.0, 3.0]
    run = gradient_flow(R, MU, times, xi, method=method, **EXACT)
    assert run.tau == pytest.approx([0, 0.5, 1, 1, 1, 1, 2], abs=1e-12)
    assert np.array_equal(run.atoms[2], run.atoms[5]) and run.completed
    assert np.abs(run.end.atoms - gradient_flow(R, MU, [0, 2.0], **EXACT).end.atoms).max() < 1e-8
    nothing = gradient_flow(R, MU, [0, 1.0, 2.0], custom(lambda t: 0 * t), method=method)
    assert np.array_equal(nothing.atoms, np.array([MU.atoms] * 3)) and nothing.steps == 0
    late = gradient_flow(R, MU, [1.0, 1.5, 2.0, 2.5], xi, method=method, **EXACT)
    assert np.array_equal(late.atoms[2], MU.atoms) and late.tau[-1] == pytest.approx(1.5)


def test_terminal_event_while_the_clock_stands_still():
    xi = custom(lambda t: np.where((t < 1) | (t >= 2), 0.5, 0.0), breaks=[1.0, 2.0])

    def half(t, mu):
        return mu.atoms[0, 0] - np.exp(-1.0)

    half.terminal = True
    run = gradient_flow(Ridge(1.0), Measure([[1.0]]), [0, 1.0, 1.5, 2.0, 4.0], xi, events=[half])
    assert (np.diff(run.t) >= 0).all() and 1 - 1e-6 < run.t[-1] <= 2 + 1e-6
    assert run.end.atoms[0, 0] == pytest.approx(np.exp(-1), abs=1e-8)


# ---------------------------------------------------------------------------------------------
# particles


@pytest.mark.parametrize("method", ["DOP853", "euler"])
def test_two_equal_particles_are_one_of_double_weight(method):
    twice = Measure(np.concatenate([MU.atoms, MU.atoms[:1]]), [0.1, 0.2, 0.3, 0.2, 0.2])
    once = Measure(MU.atoms, [0.3, 0.2, 0.3, 0.2])
    options = {"step": 0.25} if method == "euler" else EXACT
    a, b = (gradient_flow(R, mu, [0, 1.0], method=method, **options) for mu in (twice, once))
    assert np.abs(a.end.atoms[:4] - b.end.atoms).max() < 1e-9
    assert np.abs(a.end.atoms[4] - a.end.atoms[0]).max() < 1e-12
    assert a.value[-1] == pytest.approx(b.value[-1], abs=1e-10)


@given(st.permutations(range(4)), st.integers(0, 99))
def test_permutation_of_heads_commutes_with_the_flow(p, seed):
    mu = measure(seed, 4, R.shape)
    permuted = Measure(mu.atoms[p], mu.weights[p])
    a, b = (gradient_flow(R, m, [0, 0.5], method="rk4", step=0.25) for m in (mu, permuted))
    assert np.abs(a.end.atoms[p] - b.end.atoms).max() < 1e-12


def test_atoms_in_float32():
    low, _ = make(0, dtype=np.float32)
    mu = Measure(MU.atoms.astype(np.float32), MU.weights)
    exact = gradient_flow(R, MU, [0, 1.0], **EXACT).end.atoms
    for options in ({"rtol": 1e-4, "atol": 1e-5}, {"method": "rk4", "step": 0.125}):
        run = gradient_flow(low, mu, [0, 0.5, 1.0], **options)
        assert np.abs(run.end.atoms - exact).max() < 1e-3
        assert run.increase == 0  # rounding of float32 is not an increase


# ---------------------------------------------------------------------------------------------
# spaces


def height(x, mu):
    """Gradient of the last coordinate: ambient, to be projected."""
    return np.broadcast_to([0.0, 0.0, 1.0], x.shape)


@pytest.mark.parametrize("method", [*ADAPTIVE, "euler", "rk4"])
def test_flow_on_the_sphere(method):
    mu = Measure(Sphere().sample(0, 5, 3))
    options = {"step": 0.01} if method in ("euler", "rk4") else {"rtol": 1e-7, "atol": 1e-9}
    run = flow(height, mu, [0, 0.5, 2.0], Sphere(), method=method, **options)
    assert np.abs(np.linalg.norm(run.atoms, axis=2) - 1).max() < 1e-12
    # z' = 1 - z^2
    z = np.tanh(np.arctanh(mu.atoms[:, 2]) + run.t[:, None])
    assert np.abs(run.atoms[..., 2] - z).max() < (0.02 if method == "euler" else 1e-5)


@pytest.mark.parametrize("method", [*ADAPTIVE[1:], "euler", "rk4"])
def test_flow_in_a_ball(method):
    """Drawn to a point outside: straight to the boundary, then along it to the nearest point."""
    ball, a = Ball(1.0, (2, 1)), np.array([2.0, 0.0, 0.5])
    mu = Measure([[0.0, 0.9, 0.0], [-0.5, 0.1, 0.9]])
    options = {"step": 0.05} if method in ("euler", "rk4") else {"rtol": 1e-6, "atol": 1e-8}
    run = gradient_flow(Anchor(1.0, a).on(ball), mu, [0.0, 0.25, 12.0], method=method, **options)
    assert run.completed and ball.contains(run.atoms.reshape(-1, 3)).all()
    assert np.abs(run.end.atoms - [1.0, 0.0, 0.5]).max() < 1e-4
    assert run.dissipation[-1] < 1e-8


def test_sliding_along_the_boundary_of_a_ball():
    """On the circle y' = P b has the angle phi' = -2 sin phi for b = (2, 0)."""
    ball, phi = Ball(1.0, (2,)), 2.0
    mu = Measure([[np.cos(phi), np.sin(phi)]])
    run = flow(lambda x, m: np.broadcast_to([2.0, 0.0], x.shape), mu, [0, 2.0], ball, **EXACT)
    angle = 2 * np.arctan(np.tan(phi / 2) * np.exp(-2 * 2.0))
    # the first quarter turns inwards: a chord, then the arc
    x = np.array([-np.cos(phi), np.sin(phi)])
    left = 2.0 - (x[0] - np.cos(phi)) / 2
    angle = 2 * np.arctan(np.tan((np.pi - phi) / 2) * np.exp(-2 * left))
    assert np.abs(run.end.atoms[0] - [np.cos(angle), np.sin(angle)]).max() < 1e-6


# ---------------------------------------------------------------------------------------------
# events and dense output


def crossing(level, **attributes):
    def event(t, mu):
        return mu.atoms[0, 0] - level

    event.__dict__.update(attributes)
    return event


TURN = Measure([[1.0, 0.0]])


def turn(x, mu):
    """The first coordinate is cos t."""
    return x @ [[0, 1], [-1, 0]]


@pytest.mark.parametrize("method", ADAPTIVE)
def test_events_are_located(method):
    events = [crossing(0.0), crossing(0.0, direction=1), crossing(0.0, direction=-1), crossing(2.0)]
    run = flow(turn, TURN, [0, 1.0, 8.0], method=method, events=events, rtol=1e-9, atol=1e-11)
    zeros = np.pi * np.array([0.5, 1.5, 2.5])
    close = 1e-4 if method in ("BDF", "LSODA") else 1e-6
    assert np.abs(run.events[0] - zeros).max() < close
    assert np.abs(run.events[1] - zeros[1]).max() < close and len(run.events[1]) == 1
    assert np.abs(run.events[2] - zeros[::2]).max() < close and len(run.events[2]) == 2
    assert len(run.events[3]) == 0 and run.completed and run.t[-1] == 8.0


@pytest.mark.parametrize("name", PROFILES)
def test_terminal_event_in_time(name):
    """Ridge halves the first atom at tau = log 2; the time is the inverse of the clock."""
    xi = PROFILES[name]
    half = crossing(0.5, terminal=True)
    mu, times = Measure([[1.0], [3.0]]), [0, 0.1, 0.9, 3.0]
    run = gradient_flow(Ridge(1.0), mu, times, xi, events=[half, crossing(0.2)], dense=True)
    assert run.completed and run.reason == "a terminal event" and len(run.events[1]) == 0
    assert run.tau[-1] == pytest.approx(np.log(2), abs=1e-7)
    assert run.t[-1] == run.events[0][0] and (xi is None or xi.tau(run.t[-1]) == run.tau[-1])
    assert run.end.atoms.ravel() == pytest.approx([0.5, 1.5], abs=1e-7)
    assert run.at(float(run.t[-1])).atoms.ravel() == pytest.approx([0.5, 1.5], abs=1e-7)
    assert (np.diff(run.t) > 0).all()


@pytest.mark.parametrize("end", [np.log(2), np.log(2) - 1e-9, np.log(2) + 1e-9])
def test_terminal_event_near_an_output_time(end):
    for times in ([0, end], [0, 0.1, end, 2.0]):
        half = crossing(0.5, terminal=True)
        run = gradient_flow(Ridge(1.0), Measure([[1.0]]), times, events=[half], **EXACT)
        assert run.completed and abs(run.t[-1] - np.log(2)) < 1e-8
        assert len(run.t) == len(run.atoms) == len(run.value) and (np.diff(run.t) >= 0).all()


def test_events_of_time_and_first_of_two():
    def clock(t, mu):
        return t - 0.75

    clock.terminal = True
    run = gradient_flow(Ridge(1.0), Measure([[1.0]]), [0, 2.0], constant(1.0),
                        events=[crossing(0.5), clock, crossing(0.1)])  # fmt: skip
    assert [e.tolist() for e in run.events] == [
        [pytest.approx(np.log(2) / 2, abs=1e-7)], [pytest.approx(0.75, abs=1e-9)], []
    ]  # fmt: skip
    assert run.end.atoms[0, 0] == pytest.approx(np.exp(-1.5), abs=1e-7)


@pytest.mark.parametrize("method", ADAPTIVE)
def test_dense_output(method):
    xi = warmup_cosine(1.2, warmup=0.5, end=1.5, floor=0.1)
    run = flow(linear, START, [0, 2.0], xi=xi, method=method, dense=True, rtol=1e-9, atol=1e-11)
    for t in np.linspace(0, 2, 23):
        error = np.abs(run.at(t).atoms - linear_solution(START, xi.tau(t))).max()
        assert error < (1e-4 if method in ("RK23", "BDF", "LSODA") else 1e-6)
    assert run.at(0).weights.tolist() == START.weights.tolist()


def test_dense_output_stays_in_the_space():
    mu = Measure(Sphere().sample(0, 5, 3))
    run = flow(height, mu, [0, 2.0], Sphere(), dense=True)
    for t in (0.0, 0.123, 1.0, 2.0):
        assert np.abs(np.linalg.norm(run.at(t).atoms, axis=1) - 1).max() < 1e-12


def test_dense_output_does_not_change_the_result():
    a, b = (gradient_flow(R, MU, [0, 1.0], dense=dense) for dense in (False, True))
    assert np.array_equal(a.atoms, b.atoms) and a.steps == b.steps


@pytest.mark.parametrize("method", ADAPTIVE)
def test_the_interpolant_passes_through_the_records(method):
    run = flow(turn, TURN, np.linspace(0, 6, 31), method=method, dense=True, rtol=1e-5, atol=1e-7)
    for t, atoms in zip(run.t, run.atoms, strict=True):
        np.testing.assert_allclose(run.at(t).atoms, atoms, atol=1e-12)
        assert np.abs(atoms - [[np.cos(t), np.sin(t)]]).max() < 1e-2


def still(x, mu):
    return 0 * x


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_events_up_to_the_one_that_ends_the_flow(method):
    """x = t, and hardly any steps: several events in one, in any order of the list."""
    levels = {0.75: False, 0.5: True, 0.25: False, 0.6: True, 0.3: False, 1.5: False}
    for order in (list(levels), list(levels)[::-1], [0.75, 0.25, 0.3]):
        events = [crossing(level, terminal=levels[level]) for level in order]
        run = flow(lambda x, mu: 0 * x + 1, Measure([[0.0]]), [0, 1.0], events=events,
                   method=method)  # fmt: skip
        end = 0.5 if 0.5 in order else 1.0
        assert run.completed and run.t[-1] == pytest.approx(end, abs=1e-9)
        for level, times in zip(order, run.events, strict=True):
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

    def zero(t, mu):
        return 0.0

    run = flow(still, START, [0, 1.0, 2.0], events=[event(0.0), event(1.0), event(2.0), zero])
    counted = direction in (None, 0, sign)
    assert [len(times) for times in run.events] == [0, counted, counted, 0]
    assert not counted or run.events[2] == pytest.approx([2.0])


# ---------------------------------------------------------------------------------------------
# increase, blow-up, failure


def test_a_step_that_is_too_large_shows():
    run = gradient_flow(Ridge(1.0), START, [0, 5.0], method="euler", step=2.5)
    assert run.increase > 0 and "increases by up to" in repr(run) and run.completed
    # each step multiplies by -3/2; the last of two increases is the largest
    assert run.increase == pytest.approx(run.value[0] * 1.5**2 * (1.5**2 - 1), rel=1e-9)
    fine = gradient_flow(Ridge(1.0), START, [0, 5.0], method="euler", step=0.5)
    assert fine.increase == 0 and "increases" not in repr(fine)


def test_ascent_shows_as_an_increase():
    """A functional whose gradient has the wrong sign is found by the monitor."""

    @dataclass(frozen=True)
    class Reversed(Functional):
        def at(self, mu):
            local = R.at(mu)
            wrong = type("Local", (), {})()
            wrong.value, wrong.gradient = local.value, lambda x: -local.gradient(x)
            return wrong

    for options in ({}, {"method": "Radau"}, {"method": "euler", "step": 0.25}):
        assert gradient_flow(Reversed(), MU, [0, 0.5], **options).increase > 1e-4


def square(x, mu):
    return x**2


@pytest.mark.parametrize("method", [*ADAPTIVE, "euler", "rk4"])
@pytest.mark.parametrize("problem", ["in finite time", "exponential", "functional"])
def test_blow_up_is_reported(method, problem):
    fixed = method in ("euler", "rk4")
    options = {"step": 0.25} if fixed else {"rtol": 1e-4, "atol": 1e-6}
    times, mu = [0.0, 0.5, 1000.0], Measure([[1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if problem == "in finite time":
            run = flow(square, mu, times, method=method, **options)
            if run.reason.startswith("the solver"):
                assert float(run.reason.split()[6].rstrip(":")) == pytest.approx(1, abs=0.01)
            assert run.reason.startswith(("the solver failed at t = ", "left the range"))
        elif problem == "exponential":
            run = flow(lambda x, m: 3 * x, mu, times, method=method, **options)
            assert run.reason.startswith("left the range of floating-point numbers after t = ")
        else:
            run = gradient_flow(-Ridge(3.0), mu, times, method=method, **options)
            assert run.value[-1] == pytest.approx(-1.5 * run.atoms[-1, 0, 0] ** 2)
    assert not run.completed and run.t.tolist() == [0.0, 0.5] and len(run.atoms) == 2
    assert "stopped: " in repr(run) and np.isfinite(run.atoms).all()


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_a_run_keeps_what_it_had_before_it_left_the_range(method):
    run = flow(lambda x, mu: 0 * x + 6e74, Measure([[0.0]]), [0, 1.0, 2.0, 3.0], method=method,
               step=1.0)  # fmt: skip
    assert not run.completed and run.steps == 1 and run.t.tolist() == [0, 1]
    assert run.atoms.ravel() == pytest.approx([0, 6e74])


@pytest.mark.parametrize("method", ADAPTIVE)
def test_failure_of_the_solver_is_reported(method):
    """x' = -1/x reaches zero at t = 1/2 with infinite speed."""
    run = flow(lambda x, mu: -1 / x, Measure([[1.0]]), [0, 0.25, 1.0], method=method, rtol=1e-5)
    assert not run.completed and run.t.tolist() == [0.0, 0.25] and run.reason in repr(run)
    assert run.reason.startswith("the solver failed at t = 0.5") or method in ("BDF", "LSODA")


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_heads_that_explode_are_reported(method):
    """Ascent of the risk with a step that is far too large: every head grows in every step."""
    mu = measure(0, 2, R.shape, scale=20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = gradient_flow(-R, mu, [0, 50.0, 1e6], method=method, step=50.0)
    assert not run.completed and run.reason.startswith("left the range")
    assert np.isfinite(run.value).all()


def test_errors_of_the_field_are_not_hidden():
    def wrong(x, mu):
        raise ZeroDivisionError("mine")

    for method, options in (("DOP853", {}), ("LSODA", {}), ("rk4", {"step": 0.5})):
        with pytest.raises(ZeroDivisionError, match="mine"):
            flow(wrong, START, [0, 1.0], method=method, **options)


# ---------------------------------------------------------------------------------------------
# checkpoints


class Interrupted:
    """A functional or field that is interrupted at its n-th use."""

    def __init__(self, inner, n, space=Euclidean()):  # noqa: B008
        self.inner, self.left, self.space = inner, n, space

    def count(self):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def at(self, mu):
        self.count()
        return self.inner.at(mu)

    def __call__(self, x, mu):
        self.count()
        return self.inner(x, mu)


METHODS = {
    "RK23": {"rtol": 1e-5, "atol": 1e-7},
    "RK45": {},
    "DOP853": {},
    "euler": {"step": 0.125},
    "rk4": {"step": 0.125},
}
TIMES = [0.0, 0.25, 0.375, 1.0, 1.125, 1.25]


def interrupt_everywhere(run, path, uses, every=1):
    """Interrupt a run at each of its first uses of the field in turn, and let it go on."""
    for n in range(0, uses, every):
        path.unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt):
            run(n)
        yield run(10**9)


@pytest.mark.parametrize("method", METHODS)
def test_interrupted_and_resumed_gives_the_same_bits(method, tmp_path):
    """At any evaluation: in a stage, in the interpolant, in a value, or in a record."""
    path, xi = tmp_path / "run.npz", polynomial_decay(0.9, 0.5, 0.7)

    def run(n, checkpoint=path):
        F = Interrupted(R, n)
        result = gradient_flow(F, MU, TIMES, xi, method=method, checkpoint=checkpoint,
                               **METHODS[method])  # fmt: skip
        result.__dict__["uses"] = n - F.left
        return result

    whole = run(10**9, None)
    for resumed in interrupt_everywhere(run, path, whole.__dict__["uses"], 7):
        same_bits(resumed, whole)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    # once it is finished nothing is computed but what recognises the run
    again = run(10**9)
    same_bits(again, whole)
    assert again.__dict__["uses"] <= 2


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_resumed_with_events_and_on_the_sphere(method, tmp_path):
    path, mu = tmp_path / "run.npz", Measure(Sphere().sample(0, 3, 3))

    def seen(t, mu):
        return np.sin(1.5 * t) + 0.1 * mu.atoms[0, 2]

    def run(n, checkpoint=path):
        field = Interrupted(height, n)
        return flow(field, mu, [0, 0.5, 3.0], Sphere(), xi=constant(0.7), method=method,
                    events=[seen], checkpoint=checkpoint)  # fmt: skip

    whole = run(10**9, None)
    assert len(whole.events[0]) == 1
    for resumed in interrupt_everywhere(run, path, whole.evaluations, 13):
        same_bits(resumed, whole)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_multistep_and_implicit_methods_resume_to_tolerance(method, tmp_path):
    path = tmp_path / "run.npz"

    def run(n, checkpoint=path):
        return flow(Interrupted(linear, n), START, [0, 0.3, 2.0], method=method,
                    rtol=1e-8, atol=1e-10, checkpoint=checkpoint)  # fmt: skip

    whole = run(10**9, None)
    for resumed in interrupt_everywhere(run, path, whole.evaluations, 97):
        assert np.abs(resumed.atoms - whole.atoms).max() < 1e-5
        assert resumed.completed and np.array_equal(resumed.t, whole.t)


@pytest.mark.parametrize("method", METHODS)
def test_saved_regularly_and_atomically(method, tmp_path, monkeypatch):
    """With a saving after every step, even a run that is killed goes on; a crash costs nothing."""
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    path, options = tmp_path / "run.npz", METHODS[method]
    counted = Interrupted(R, 10**9)
    whole = gradient_flow(counted, MU, TIMES, method=method, **options)
    uses = 10**9 - counted.left

    class Killed(Exception):
        pass

    class Fragile(Interrupted):
        def count(self):
            self.left -= 1
            if self.left < 0:
                raise Killed

    with pytest.raises(Killed):
        gradient_flow(Fragile(R, uses // 2), MU, TIMES, method=method, checkpoint=path, **options)
    before = path.read_bytes()

    def broken(*_, **__):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.np, "savez", broken)
        with pytest.raises(OSError, match="disk full"):
            gradient_flow(R, MU, TIMES, method=method, checkpoint=path, **options)
    assert path.read_bytes() == before
    F = Interrupted(R, 10**9)
    same_bits(gradient_flow(F, MU, TIMES, method=method, checkpoint=path, **options), whole)
    assert 10**9 - F.left < 0.75 * uses  # what was saved is not done again


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    base = dict(F=R, mu=MU, times=[0, 0.5], xi=constant(0.6), method="RK45", rtol=1e-6, atol=1e-8)
    gradient_flow(**base, checkpoint=path)
    gradient_flow(**base, checkpoint=str(path))
    others = {
        "F": -R, "F ": R + Ridge(0.1), "F  ": R.on(R.shape.ball(9.0)),
        "mu": Measure(MU.atoms), "mu ": Measure(1.01 * MU.atoms, MU.weights),
        "times": [0, 0.25, 0.5], "xi": constant(0.61), "xi ": custom(lambda t: 0.6 + t * (0.5 - t)),
        "method": "DOP853", "rtol": 1e-7, "atol": 1e-9, "events": [crossing(0.0)],
    }  # fmt: skip
    for name, value in others.items():
        with pytest.raises(ValueError, match="^checkpoint: .*other arguments"):
            gradient_flow(**{**base, name.strip(): value}, checkpoint=path)
    with pytest.raises(ValueError, match="^checkpoint: .*other arguments"):
        gradient_flow(R, MU, [0, 0.5], constant(0.6), method="rk4", step=0.5, checkpoint=path)


def test_bad_checkpoints(tmp_path):
    def run(checkpoint, **options):
        gradient_flow(R, MU, [0, 0.5], checkpoint=checkpoint, **options)

    for content in (b"", b"nonsense", b"PK\x03\x04 broken"):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match="^checkpoint: "):
            run(tmp_path / "bad.npz")
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    for name in ("array.npy", "arrays.npz"):
        with pytest.raises(ValueError, match="^checkpoint: "):
            run(tmp_path / name)
    with pytest.raises(ValueError, match="^checkpoint: .*existing folder"):
        run(tmp_path / "nowhere" / "run.npz")
    for bad in (3, True, ["a"]):
        with pytest.raises(TypeError, match="^checkpoint: "):
            run(bad)
    with pytest.raises(ValueError, match="^checkpoint: "):
        run(tmp_path / "run.npz", dense=True)


# ---------------------------------------------------------------------------------------------
# trajectories


def test_trajectory_round_trip(tmp_path):
    runs = [
        gradient_flow(R, MU, [0, 0.5, 1.0], events=[crossing(MU.atoms[0, 0] - 1e-3), crossing(9)]),
        flow(square, Measure([[1.0]]), [0, 0.5, 2.0]),
        gradient_flow(Ridge(1.0), START, [0, 5.0], method="euler", step=2.5),
    ]
    for i, run in enumerate(runs):
        run.save(tmp_path / f"{i}.npz")
        back = Trajectory.load(str(tmp_path / f"{i}.npz"))
        same_bits(run, back)
        assert repr(back) == repr(run) and len(back) == len(run)
    np.savez(tmp_path / "other.npz", about="{}")
    (tmp_path / "text.npz").write_text("a text")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ValueError, match="^path: "):
            Trajectory.load(tmp_path / name)
    for missing in (tmp_path / "missing.npz", tmp_path):
        with pytest.raises(FileNotFoundError, match="^path: "):
            Trajectory.load(missing)


def test_trajectory_gives_measures_and_integrals():
    run = gradient_flow(Ridge(1.0), START, [0, 0.5, 1.0], dense=True, **EXACT)
    assert len(run) == 3 and run.measure(1).weights.tolist() == START.weights.tolist()
    assert np.array_equal(run.end.atoms, run.atoms[2])
    assert run.at(0).atoms == pytest.approx(START.atoms, abs=1e-15)
    second = run.integrate(lambda x: (x**2).sum(axis=1))
    assert second.shape == (3,) and np.allclose(second / 2, run.value, rtol=1e-12)
    mean = run.integrate(lambda x: x)
    assert mean.shape == (3, 2) and np.allclose(mean[0], START.weights @ START.atoms)
    for name in ("t", "tau", "atoms", "weights", "value", "dissipation"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(run, name)[...] = 0
    for bad in (1.0 + 1e-9, np.nan, -0.1):
        with pytest.raises(ValueError, match="^t: "):
            run.at(bad)
    with pytest.raises(TypeError, match="^t: "):
        run.at([0.5])
    with pytest.raises(ValueError, match="^t: .*dense=True"):
        gradient_flow(Ridge(1.0), START, [0, 0.5]).at(0.1)


def test_progress_is_shown_on_demand(capsys):
    gradient_flow(R, MU, [0, 0.5])
    assert capsys.readouterr().err == ""
    gradient_flow(R, MU, [0, 0.5], progress=True)
    gradient_flow(R, MU, [0, 0.5], method="euler", step=0.25, progress=True)
    shown = capsys.readouterr().err
    assert "flow of 4 atoms, DOP853: 100%" in shown and "flow of 4 atoms, euler: 100%" in shown
    quiet, loud = (gradient_flow(R, MU, [0, 0.5], progress=p) for p in (False, True))
    same_bits(quiet, loud)


# ---------------------------------------------------------------------------------------------
# bad input

BALL = Ball(1.0, (2, 1))
BAD = {
    "F": [(lambda: gradient_flow(None, MU, [0, 1]), TypeError),
          (lambda: gradient_flow(linear, MU, [0, 1]), TypeError),
          (lambda: gradient_flow(type("F", (), {"at": R.at})(), MU, [0, 1]), TypeError)],
    "field": [(lambda: flow(None, MU, [0, 1]), TypeError),
              (lambda: flow(lambda x, mu: x[0], MU, [0, 1]), ValueError),
              (lambda: flow(lambda x, mu: 0.0, MU, [0, 1]), ValueError),
              (lambda: flow(lambda x, mu: 1j * x, MU, [0, 1]), TypeError),
              (lambda: flow(lambda x, mu: None, MU, [0, 1]), TypeError),
              (lambda: flow(lambda x, mu: x / 0, MU, [0, 1]), ValueError),
              (lambda: flow(lambda x, mu: x * np.nan, MU, [0, 1], method="euler", step=1),
               ValueError)],
    "mu": [(lambda: gradient_flow(R, MU.atoms, [0, 1]), TypeError),
           (lambda: gradient_flow(R, Measure(MU.atoms + 0j), [0, 1]), TypeError),
           (lambda: gradient_flow(R, START, [0, 1]), ValueError),
           (lambda: flow(height, Measure([[2.0, 0.0, 0.0]]), [0, 1], Sphere()), ValueError),
           (lambda: flow(height, Measure([[2.0, 0.0, 0.0]]), [0, 1], BALL), ValueError),
           (lambda: flow(height, START, [0, 1], BALL), ValueError),
           (lambda: flow(linear, Measure([[1e80, 0.0]]), [0, 1]), ValueError)],
    "space": [(lambda: flow(linear, START, [0, 1], "sphere"), TypeError)],
    "times": [(lambda: flow(linear, START, []), ValueError),
              (lambda: flow(linear, START, [0, 0]), ValueError),
              (lambda: flow(still, START, [0, 1e100]), ValueError),
              (lambda: flow(still, START, [0, 1e-100]), ValueError),
              (lambda: flow(linear, START, [1, 0]), ValueError),
              (lambda: flow(linear, START, [-1, 0]), ValueError),
              (lambda: flow(linear, START, [0, np.nan]), ValueError),
              (lambda: flow(linear, START, [0, np.inf]), ValueError),
              (lambda: flow(linear, START, 1.0), ValueError),
              (lambda: flow(linear, START, "now"), TypeError),
              (lambda: flow(linear, START, [0, 1j]), TypeError),
              (lambda: flow(linear, START, [0, 0.3], method="euler", step=0.25), ValueError),
              (lambda: flow(linear, START, [0.1, 0.5], method="rk4", step=0.25), ValueError),
              (lambda: flow(linear, START, [0, 1, 1 + 1e-12], method="rk4", step=1), ValueError)],
    "step": [(lambda: flow(linear, START, [0, 1], method="euler"), ValueError),
             (lambda: flow(linear, START, [0, 1], method="euler", step=0.0), ValueError),
             (lambda: flow(linear, START, [0, 1], method="euler", step=-0.5), ValueError),
             (lambda: flow(linear, START, [0, 1], method="rk4", step=np.nan), ValueError),
             (lambda: flow(linear, START, [0, 1], method="rk4", step="1"), TypeError),
             (lambda: flow(linear, START, [0, 1], method="rk4", step=1e-30), ValueError),
             (lambda: flow(linear, START, [0, 1e300], method="rk4", step=1e-30), ValueError),
             (lambda: flow(linear, START, [0, 1], step=0.5), ValueError)],
    "method": [(lambda: flow(linear, START, [0, 1], method="Euler"), ValueError),
               (lambda: flow(linear, START, [0, 1], method=None), ValueError),
               (lambda: flow(linear, START, [0, 1], method=["RK45"]), ValueError)],
    "rtol": [(lambda: flow(linear, START, [0, 1], rtol=0.0), ValueError),
             (lambda: flow(linear, START, [0, 1], rtol=1e-16), ValueError),
             (lambda: flow(linear, START, [0, 1], rtol=None), TypeError)],
    "atol": [(lambda: flow(linear, START, [0, 1], atol=0.0), ValueError),
             (lambda: flow(linear, START, [0, 1], atol=[1e-6]), TypeError)],
    "xi": [(lambda: flow(linear, START, [0, 1], xi=0.5), TypeError),
           (lambda: flow(linear, START, [0, 1], xi=lambda t: -1 + 0 * t), ValueError),
           (lambda: flow(linear, START, [0, 1], xi=lambda t: 0.5 - t), ValueError),
           (lambda: flow(linear, START, [0, 1], xi=lambda t: np.nan * t), ValueError),
           (lambda: flow(linear, START, [0, 0.5, 1],
                         xi=custom(lambda t: np.where(t == 0.5, -1.0, 1.0), clock=lambda t: t)),
            ValueError),
           (lambda: flow(linear, START, [0, 1], xi=custom(lambda t: 1 + 0 * t, clock=np.cos)),
            ValueError),
           (lambda: flow(linear, START, [0, 1],
                         xi=custom(lambda t: 1 + 0 * t, clock=lambda t: t * np.inf)), ValueError)],
    "events": [(lambda: flow(linear, START, [0, 1], events=crossing(0)), TypeError),
               (lambda: flow(linear, START, [0, 1], events=[3]), TypeError),
               (lambda: flow(linear, START, [0, 1], events="ab"), TypeError),
               (lambda: flow(linear, START, [0, 1], events=[crossing(0)], method="rk4", step=1),
                ValueError)],
    "functional": [(lambda: flow(linear, START, [0, 1], functional=linear), TypeError),
                   (lambda: gradient_flow(R, MU, [0, 1], functional=R), TypeError)],
    "space ": [(lambda: gradient_flow(R, MU, [0, 1], space=Sphere()), TypeError)],
    "dense": [(lambda: flow(linear, START, [0, 1], dense=True, method="rk4", step=1), ValueError)],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    for call, error in BAD[name]:
        with pytest.raises(error) as caught, np.errstate(all="ignore"):
            call()
        assert type(caught.value) is error
        assert str(caught.value).startswith(f"{name.strip()}: "), str(caught.value)


# ---------------------------------------------------------------------------------------------
# wrong programs

NOTICED = 1e-3


def test_comparisons_notice_a_wrong_flow():
    """Each mistake moves the end, or breaks the balance of energy, far beyond the tolerances."""
    xi, t = polynomial_decay(0.9, 0.5, 0.7), np.linspace(0, 1, 65)

    def gradient(x, mu):
        return R.at(mu).gradient(x)

    def wrong(field, clock=xi):
        return flow(field, MU, t, xi=clock, functional=R)

    right = wrong(lambda x, mu: -gradient(x, mu))
    assert relative(right.end.atoms, gradient_flow(R, MU, t, xi).end.atoms) < 1e-12
    halved = wrong(lambda x, mu: -gradient(x, mu), custom(lambda t: xi(t) / 2))
    weighted = wrong(lambda x, mu: -mu.weights[:, None] * gradient(x, mu))
    ascent = wrong(gradient)

    def balance(run):
        return relative(run.value[0] - run.value[-1], simpson(2 * xi(t) * run.dissipation, x=t))

    assert balance(right) < 1e-6
    for run in (halved, weighted, ascent):
        assert relative(run.end.atoms, right.end.atoms) > NOTICED
        assert balance(run) > NOTICED or run is weighted
    # weights in the velocity: the mass that is moved no longer pays for the decrease
    assert relative(weighted.dissipation[0], dissipation(R, MU)) > NOTICED
    assert ascent.value[-1] > ascent.value[0]


def test_comparisons_notice_the_rate_at_the_end_of_the_step():
    xi, eps = warmup_cosine(1.0, 0.5, 1.0, 0.1), 0.125
    right = gradient_flow(R, MU, [0, 1.0], xi, method="euler", step=eps)
    late = custom(lambda t: xi(t + eps), clock=xi.clock)
    wrong = gradient_flow(R, MU, [0, 1.0], late, method="euler", step=eps)
    assert relative(wrong.end.atoms, right.end.atoms) > NOTICED


def test_conservation_notices_heads_that_are_mixed():
    """With W_O read transposed the second quantity is no longer conserved."""
    shape = HeadShape(2, 1, 1)
    small, _ = make(3, d=2, k=1, v=1)
    mu = Measure(heads(4, 3, shape))

    def scaled(x, m):
        g = -small.at(m).gradient(x)
        g[:, 6:] *= 2
        return g

    end = flow(scaled, mu, [0, 1.0], **EXACT).end.atoms
    W_Q, W_K, W_V, W_O = (np.squeeze(W) for W in shape.split(end))
    V, O = (np.squeeze(W) for W in shape.split(mu.atoms)[2:])  # noqa: E741
    assert np.abs((W_V**2 - W_O**2 - V**2 + O**2).sum(axis=1)).max() > NOTICED


def test_an_event_at_an_output_time_ends_there():
    """One record at that time, not two."""

    def end(t, mu):
        return t - 1.0

    end.terminal = True
    run = flow(turn, TURN, [0, 0.5, 1.0, 8.0], events=[end])
    assert run.completed and run.reason == "a terminal event"
    assert np.allclose(run.t, [0, 0.5, 1.0], rtol=0, atol=1e-12)
