"""Newton's method, and checks of second derivatives: what is accepted, what refused, how often."""

from importlib import import_module

import numpy as np
import pytest
from scipy.special import ive

from mfbook.equilibria import SecondOrder, newton, velocity_jacobian
from mfbook.equilibria import second_order as report_on
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.sphere import SphereEnergy, forces, frames, linearised
from mfbook.space import Ball, Euclidean, Sphere
from mfbook.stability import atomic, atomic_stability

second_order = import_module("mfbook.equilibria.second_order")
SPHERE = Sphere()
WEIGHTS = np.array([0.2, 0.3, 0.5])
ANGLES = np.array([0.0, np.pi / 2, np.pi])
EPS = 2.0**-52


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# ---------------------------------------------------------------------------------------------
# Newton's method on a landscape that is written down: values, slopes, one Hessian


class Landscape:
    """Values by the number of evaluations; slopes along the circle and the Hessian patched in."""

    beta, activation, normalised = 1.0, None, False

    def __init__(self, monkeypatch, values, hessian=None, slopes=None):
        self.values, self.seen = values, []
        if hessian is not None:
            monkeypatch.setattr(second_order, "_hessian", lambda F, x, w: np.array(hessian))

        def gradient(F, mu):
            slope = np.asarray(slopes(len(self.seen)) if callable(slopes) else slopes, float)
            tangent = np.stack([-mu.atoms[:, 1], mu.atoms[:, 0]], axis=1)
            return slope[:, None] * tangent

        def speed(F, mu):
            return float(np.abs(slopes(len(self.seen)) if callable(slopes) else slopes).max())

        monkeypatch.setattr(second_order, "_gradient", gradient)
        monkeypatch.setattr(second_order, "_speed", speed)  # without the rounding of tangents

    def at(self, mu):
        return None

    def __call__(self, mu):
        self.seen.append(mu.atoms)
        return self.values(len(self.seen) - 1)


def falling(k):
    return -float(k)


START = Measure(on_circle(ANGLES), WEIGHTS)
BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]


def moves(F, start=START):
    """Tangent steps to the first trial point: the projection turns eta into its arc tangent."""
    x, y = start.atoms, F.seen[1]
    return (x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]) / (x * y).sum(axis=1)


def one_step(monkeypatch, values, g, basis=BASIS, **options):
    """The step that is tried first, in the metric of L^2."""
    F = Landscape(monkeypatch, falling, basis @ np.diag(values) @ basis.T, g)
    newton(F, START, maxiter=1, **options)
    return np.sqrt(WEIGHTS) * moves(F)


@pytest.mark.parametrize(
    ("values", "shift"), [((1, 2, 5), 0), ((-1, 2, 5), 2), ((-0.25, 0, 1), 0.5)]
)
def test_a_step_solves_the_shifted_system(monkeypatch, values, shift):
    g = np.array([0.02, -0.01, 0.03])
    H = BASIS @ np.diag(values) @ BASIS.T
    wanted = np.linalg.solve(H + shift * np.eye(3), -np.sqrt(WEIGHTS) * g)
    np.testing.assert_allclose(one_step(monkeypatch, values, g), wanted, rtol=1e-9)


@pytest.mark.parametrize(("values", "shift"), [((0, 2, 5), 5e-12), ((0, 0.2, 0.5), 1e-12)])
def test_the_least_shift_is_rounding_of_the_largest_eigenvalue(monkeypatch, values, shift):
    g = [shift / 5, 0, 0]
    step = one_step(monkeypatch, values, g, np.eye(3), tolerance=1e-14)
    np.testing.assert_allclose(step, [-np.sqrt(0.2) / 5, 0, 0], rtol=1e-9)


@pytest.mark.parametrize(
    ("g", "factor"), [((3, -1, 0.2), 1 / 6), ((0.1, 0.8, 0.5), 0.625), ((0.49, 0.1, -0.4), 1)]
)
def test_no_particle_moves_by_more_than_half(monkeypatch, g, factor):
    step = one_step(monkeypatch, (1, 1, 1), g) / np.sqrt(WEIGHTS)
    np.testing.assert_allclose(step, -factor * np.array(g), rtol=1e-9)


@pytest.mark.parametrize("along", [3e-8, -3e-8, 0.0])
def test_where_nothing_pulls_the_step_follows_descending_curvature(monkeypatch, along):
    g = (along * BASIS[:, 0] + 2e-8 * BASIS[:, 1]) / np.sqrt(WEIGHTS)
    step = BASIS.T @ one_step(monkeypatch, (-1, 2, 5), g)
    if along:
        # downhill, and 1e-3 further
        assert step[0] == pytest.approx(-along - np.sign(along) * 1e-3, abs=1e-12)
    else:
        assert abs(step[0]) == pytest.approx(1e-3, abs=1e-12)
    np.testing.assert_allclose(step[1:], [-2e-8 / 4, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("slope", "least", "tolerance", "escapes"),
    [
        (1e-7, -1, 1e-10, True),
        (1.01e-7, -1, 1e-10, False),
        (1e-3, -1, 1e-3, True),
        (1.01e-3, -1, 1e-3, False),
        (5e-8, -1e-8, 1e-8, False),
        (5e-8, -1.01e-8, 1e-8, True),
    ],
)
def test_when_the_step_follows_curvature(monkeypatch, slope, least, tolerance, escapes):
    values, g = (least, 2, 5), [0, slope, 0]
    step = one_step(monkeypatch, values, g, np.eye(3), tolerance=tolerance)
    assert abs(step[0]) == pytest.approx(1e-3 * escapes, abs=1e-9)
    assert step[1] == pytest.approx(-slope * np.sqrt(0.3) / (2 - 2 * least), rel=1e-6)


@pytest.mark.parametrize(
    ("slope", "least", "converged"),
    [(1e-6, -1e-6, True), (1.01e-6, 0, False), (0, -1.01e-6, False), (0, 0, True)],
)
def test_convergence_is_both_numbers_within_the_tolerance(monkeypatch, slope, least, converged):
    F = Landscape(monkeypatch, falling, np.diag([least, 1, 2]), [0, slope, 0])
    end = newton(F, START, tolerance=1e-6, maxiter=3)
    assert end.converged == converged and end.iterations == (0 if converged else 3)
    assert (end.gradient, end.least) == (slope, least)
    assert len(F.seen) == 1 + end.iterations
    assert (end.measure.atoms == F.seen[-1]).all() and (end.measure.weights == WEIGHTS).all()


def test_default_tolerance_and_number_of_steps(monkeypatch):
    for slope, steps in ((1.5e-10, 200), (0.9e-10, 0)):
        F = Landscape(monkeypatch, falling, np.eye(3), [0, slope, 0])
        end = newton(F, START)
        assert (end.iterations, end.converged) == (steps, steps == 0)


def test_steps_are_counted_until_the_velocity_is_small(monkeypatch):
    slopes = {0: 0.1, 1: 0.1, 2: 1e-2, 3: 0.0}
    F = Landscape(monkeypatch, falling, np.eye(3), lambda k: [0, slopes[k], 0])
    end = newton(F, START)
    assert end.converged and end.iterations == 2 and len(F.seen) == 3
    angles = np.arctan2(*end.measure.atoms.T[::-1])
    turned = ANGLES - [0, np.arctan(0.1) + np.arctan(0.01), 0]
    np.testing.assert_allclose(angles, turned, atol=1e-14)


def test_every_step_is_compared_with_the_one_before(monkeypatch):
    """7 is less than the first energy, not than the last: it is refused."""
    values = [10.0, 5.0, 7.0, 4.0]
    F = Landscape(monkeypatch, lambda k: values[k], np.eye(3), [0, 0.1, 0])
    end = newton(F, START, maxiter=2)
    assert len(F.seen) == 4 and end.iterations == 2 and not end.converged
    turn = np.diff([np.arctan2(*x[1][::-1]) for x in F.seen])
    np.testing.assert_allclose(-np.tan(turn[0]), 0.1, rtol=1e-9)
    np.testing.assert_allclose(-np.tan(turn[1] + turn[2]), 0.05, rtol=1e-9)


@pytest.mark.parametrize("accepted", [0, 1])
def test_newton_stops_where_no_step_helps(monkeypatch, accepted):
    F = Landscape(monkeypatch, lambda k: -float(min(k, accepted)), np.eye(3), [0, 0.1, 0])
    monkeypatch.setattr(second_order, "_speed", lambda F, mu: 0.11)
    end = newton(F, START)
    assert not end.converged and end.iterations == accepted
    assert len(F.seen) == 1 + accepted + 40
    assert (end.measure.atoms == F.seen[accepted]).all()
    assert (end.gradient, end.least) == (pytest.approx(0.1), 1.0)


def test_steps_are_halved_forty_times(monkeypatch):
    F = Landscape(monkeypatch, lambda k: 0.0, None, [0, 0.1, 0])
    eta = np.array([[0, 0.0], [-0.4, 0], [0, 0.2]])
    x, energy, moved = second_order._backtrack(F, START.atoms, WEIGHTS, eta, 0.0, 0.1)
    assert not moved and energy == 0 and (x == START.atoms).all()
    assert len(F.seen) == 40
    for k, y in enumerate(F.seen):
        wanted = START.atoms + eta / 2**k
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("energy", "noise"), [(0.0, 1e-13), (0.5, 1e-13), (-1e6, 1e-7), (8.0, 8e-13)]
)
@pytest.mark.parametrize(
    ("side", "slower", "moved"),
    [
        (-1.01, False, True), (-1.0, False, False), (-0.99, False, False), (-0.99, True, True),
        (1.0, True, True), (1.01, True, False), (0, True, True), (0, False, False),
    ],
)  # fmt: skip
def test_what_falls_by_less_than_rounding_must_be_slower(
    monkeypatch, energy, noise, side, slower, moved
):
    if abs(side) == 1:  # the bound itself, as it is rounded
        value = energy + side * (1e-13 * max(1.0, abs(energy)))
    else:
        value = energy + side * noise
    speed = np.nextafter(0.1, 0) if slower else 0.1
    F = Landscape(monkeypatch, lambda k: value, None, [speed, 0, 0])
    eta = np.array([[0, 0.1], [0, 0], [0, 0]])
    x, found, accepted = second_order._backtrack(F, START.atoms, WEIGHTS, eta, energy, 0.1)
    assert accepted == moved
    assert len(F.seen) == (1 if moved else 40)
    assert found == (value if moved else energy)
    if moved:
        assert (x == F.seen[0]).all() and x[0, 1] == pytest.approx(np.sin(np.arctan(0.1)))


def test_descending_directions_are_those_beyond_the_tolerance():
    for tolerance in (1e-9, 1e-3, 0.0):
        given = {} if tolerance == 1e-9 else {"tolerance": tolerance}

        def sopd(gradient, least, given=given):
            values = np.array([least, 7.0])
            return SecondOrder(START, gradient, values, np.zeros((2, 3, 2))).sopd(**given)

        more = np.nextafter(tolerance, 1)
        assert sopd(tolerance, -tolerance) and sopd(0.0, 1.0)
        assert not sopd(more, 0.0) and not sopd(0.0, -more)


def test_the_hessian_is_symmetric_in_the_metric_of_the_measure():
    F, mu = circle_energy(True, True), Measure(SPHERE.sample(0, 3, 2), WEIGHTS)
    H = second_order._hessian(F, mu.atoms, mu.weights)
    J = linearised.jacobian(F, mu.atoms, mu.weights, False)
    root = np.sqrt(WEIGHTS)
    wanted = [[root[i] * J[i, j] / root[j] for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(H, wanted, rtol=1e-13)
    assert (H == H.T).all()


@pytest.mark.parametrize(
    ("mu", "error"),
    [
        (Measure([[2.0, 0.0]]), ValueError),
        ("a measure", TypeError),
        (Measure([[1.0 + 0j, 0.0]]), TypeError),
        (Measure(np.eye(2), [1.0, 0.0]), ValueError),
    ],
)
def test_what_is_no_measure_on_the_sphere(mu, error):
    weightless = isinstance(mu, Measure) and mu.weights.min() == 0
    for call in (report_on, newton) if weightless else (velocity_jacobian, report_on, newton):
        with pytest.raises(error, match="^mu: expected"):
            call(SphereEnergy(1.0), mu)


def test_modes_are_eigenvectors_of_the_jacobian():
    F, mu = circle_energy(False, True), Measure(SPHERE.sample(0, 3, 2), WEIGHTS)
    report, J = report_on(F, mu), velocity_jacobian(F, mu)
    assert report.measure is mu
    tangent = np.stack([-mu.atoms[:, 1], mu.atoms[:, 0]], axis=1)
    along = (report.modes * tangent).sum(axis=2)
    np.testing.assert_allclose(along @ J.T, report.eigenvalues[:, None] * along, atol=1e-13)


def test_a_pair_that_repels_ends_antipodal_up_to_rounding():
    """Where energies are rounded, the velocities decide."""
    mu = Measure([[1.0, 0.0], [0.6, 0.8]])
    checked, real = [], second_order._speed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_order, "_speed", lambda F, mu: checked.append(mu) or real(F, mu))
        end = newton(SphereEnergy(1.0), mu, tolerance=1e-15)
    assert end.converged and len(checked) > 1
    np.testing.assert_allclose(end.measure.atoms[0], -end.measure.atoms[1], atol=1e-14)


@pytest.mark.parametrize("name", ["beta", "activation"])
def test_what_lacks_a_part_is_no_energy(name):
    F = type("Part", (), {name: 1.0})()
    with pytest.raises(TypeError, match="^F: expected a SphereEnergy"):
        report_on(F, START)


def test_modes_are_normalised_in_the_measure_even_for_tiny_weights():
    mu = Measure(SPHERE.sample(0, 4, 3), [1e-9, 0.1, 0.2, 0.7 - 1e-9])
    report = report_on(SphereEnergy(2.0), mu)
    gram = np.einsum("i,aid,bid->ab", mu.weights, report.modes, report.modes)
    np.testing.assert_allclose(gram, np.eye(8), atol=1e-12)
    assert report.eigenvalues.shape == (8,) and report.modes.shape == (8, 4, 3)


# ---------------------------------------------------------------------------------------------
# linear systems of stiff integrators


@pytest.mark.parametrize("d", [2, 3, 5])
def test_frames_are_orthonormal_everywhere(d):
    axis = np.eye(d)
    near = axis[0] + 1e-9 * axis[1]
    x = np.concatenate([axis, -axis, [near, -near], SPHERE.sample(0, 20, d)])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    whole = np.concatenate([x[:, :, None], frames(x)], axis=2)
    np.testing.assert_allclose(whole.transpose(0, 2, 1) @ whole, np.eye(d)[None] + 0 * whole,
                               atol=4e-16)  # fmt: skip


def test_the_largest_dense_system(monkeypatch):
    monkeypatch.setattr(linearised, "LARGEST", 24)
    F = SphereEnergy(1.0)
    x = SPHERE.sample(0, 13, 3)
    F.field().linearised(Measure(x[:12]))
    with pytest.raises(ValueError, match="at most 24 coordinates for a dense Jacobian, got 26"):
        F.field().linearised(Measure(x))
    with pytest.raises(ValueError, match="got 27"):
        F.field().linearised(Measure(SPHERE.sample(0, 9, 4)))


def circle_energy(normalised, units, beta=3.0):
    rng = np.random.default_rng(1)
    a, omega, bias = (SPHERE.sample(rng, 3, 2), rng.normal(size=3), rng.normal(size=3) / 2)
    parts = (a, omega, "tanh", normalised, bias) if units else (None, None, "relu", normalised)
    return SphereEnergy(beta, *parts)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("scale", [2.5, -0.3])
def test_low_rank_systems_are_scaled_as_dense_ones(normalised, units, scale):
    F, rng = circle_energy(normalised, units), np.random.default_rng(2)
    x, w = SPHERE.sample(rng, 110, 2), rng.dirichlet(np.ones(110))
    J = scale * linearised.jacobian(F, x, w, normalised)
    solver = linearised._low_rank(F, x, w, scale, normalised)
    b = rng.normal(size=110)
    for c in (0.4, -1.3):
        found = solver(c)(b)
        np.testing.assert_allclose(found - c * J @ found, b, atol=1e-11)


@pytest.mark.parametrize("n", [8, 110])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(n, bad):
    F, x = SphereEnergy(1.0), SPHERE.sample(0, n, 2)
    b = SPHERE.tangent(x, np.ones((n, 2)))
    b[3] = bad
    linear = F.field().linearised(Measure(x))
    assert not np.isfinite(linear.solve(0.5, b)).any()
    b[3] = 0
    assert np.isfinite(linear.solve(0.5, b)).all()


@pytest.mark.parametrize("n", [4, 5, 8, 9])
def test_tables_of_modes_come_in_pieces(monkeypatch, n):
    monkeypatch.setattr(forces, "CHUNKS", (2, 4))
    angles, w = 0.3 + np.arange(n) ** 1.5, np.linspace(0.1, 1, n)
    modes, z = linearised._Modes(on_circle(angles), 7), np.exp(1j * angles)
    moments = [sum(w * z**k) for k in range(7)]
    np.testing.assert_allclose(modes.moments(w, 7), moments, atol=1e-13)
    assert modes.moments(w, 3).shape == (3,)
    c = np.array([0.5, 1j, 2 - 1j, 0.25])
    wanted = sum(c[k] * z**k for k in range(4)).real
    np.testing.assert_allclose(modes.polynomial(c), wanted, atol=1e-13)


def test_the_sharpest_kernel_has_low_rank(monkeypatch):
    used, x = [], SPHERE.sample(0, 100, 2)
    monkeypatch.setattr(linearised, "SHARPEST", 0.5)
    monkeypatch.setattr(linearised, "_low_rank", lambda *a: used.append(a[0].beta))
    for beta in (0.25, 0.5, 0.6):
        SphereEnergy(beta).field().linearised(Measure(x))
    assert used == [0.25, 0.5]


def test_normalised_attention_far_from_all_weight():
    """A particle without weight sees the other alone, however far and whatever the temperature."""
    for beta in (1.0, 1e4):
        F = SphereEnergy(beta, normalised=True)
        J = velocity_jacobian(F, Measure(on_circle(np.array([0.0, 3.0])), [1.0, 0.0]))
        np.testing.assert_allclose(J, [[0, 0], [np.cos(3), -np.cos(3)]], atol=1e-12)


@pytest.mark.parametrize("beta", [0.05, 1.0, 30.0])
def test_terms_of_the_low_rank(monkeypatch, beta):
    """k^2 I_k falls below 1e-13 of its largest; sums over cosines of twice the order."""
    counts, real = [], linearised._Modes
    monkeypatch.setattr(linearised, "_Modes", lambda x, n: counts.append(n) or real(x, n))
    x = SPHERE.sample(0, 20, 2)
    linearised._low_rank(SphereEnergy(beta), x, np.full(20, 0.05), 1.0, False)
    size = [k**2 * ive(k, beta) for k in range(len(forces.fourier(beta)))]
    order = max(k for k, s in enumerate(size) if s > 1e-13 * max(size))
    assert counts == [2 * order + 1]


def test_systems_are_factored_once_for_each_step():
    calls = []

    def factor(c):
        calls.append(c)
        return lambda b: b / (1 + c)

    x = on_circle(ANGLES)
    linear = linearised.Linearised(x, factor)
    b = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
    for c in (0.5, 0.5, 1.0, 0.5):
        k = linear.solve(c, b)
        tangent = SPHERE.tangent(x, b)
        np.testing.assert_allclose(k, b - tangent + tangent / (1 + c), atol=1e-15)
    assert calls == [0.5, 1.0, 0.5]
    with pytest.raises(ValueError, match=r"^b: expected real numbers of shape \(3, 2\)"):
        linear.solve(0.5, b[:2])
    with pytest.raises(ValueError, match="^b: expected real numbers"):
        linear.solve(0.5, b + 0j)


# ---------------------------------------------------------------------------------------------
# which second derivatives are refused


class Scripted(Functional):
    """Gradients that are linear in the moves of points and atoms, with errors on both sides."""

    def __init__(self, x, w, slope, H, K, errors=(0.0, 0.0), space=None, dtype=np.float64):
        self.x, self.w, self.slope, self.H, self.K = x, w, slope, H, K
        self.errors, self.space, self.dtype = errors, space or Euclidean(), np.dtype(dtype)
        self.step = float(np.finfo(dtype).eps) ** (1 / 3)
        self.asked = []

    def at(self, mu):
        return ScriptedLocal(self, mu.atoms)


class ScriptedLocal:
    def __init__(self, F, atoms):
        self.F, self.atoms = F, atoms

    def gradient(self, points):
        F = self.F
        if (points == F.x).all() and (self.atoms == F.x).all():
            return F.slope
        moved = (points - F.x) + (self.atoms - F.x)
        F.asked.append(F.x + moved)
        if (self.atoms == F.x).all():
            found, error = np.einsum("jab,ja->jb", F.H, moved), F.errors[0]
        else:
            found, error = np.einsum("l,jlab,lb->ja", F.w, F.K, moved), F.errors[1]
        found[1, 0] += F.step * error * np.sign(moved[0, 0])
        return found


def tolerated(size, D, points=0.0, slope=0.0, eps=EPS):
    """A part 1e-4 of the size, and what rounding takes from differences over eps^(1/3)."""
    h = eps ** (1 / 3)
    part = 1e-4 + 100 * eps**0.5 + eps * (1 + points) / h
    return part * size * D**0.5 + 1000 * eps * (1 + slope / h)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("size", "points", "slope", "dtype", "D"),
    [
        (1.0, 1.0, 0.0, np.float64, 2),
        (30.0, 1.0, 0.0, np.float64, 5),
        (1e-9, 1.0, 0.0, np.float64, 2),
        (1.0, 2e6, 0.0, np.float64, 3),
        (1.0, 1.0, 3e6, np.float64, 3),
        (1.0, 1.0, 2.0, np.float32, 3),
        (1.0, 0.0, 0.0, np.float64, 2),
    ],
)
def test_how_large_a_disagreement_is_refused(which, size, points, slope, dtype, D):
    """The other pair agrees and sets the size."""
    x, w = np.zeros((2, D)), np.array([0.25, 0.75])
    x[0, 1], x[1, 0] = -points, points / 2
    H, K = np.zeros((2, D, D)), np.zeros((2, 2, D, D))
    if which:
        H[0, 1, 1] = -size
    else:
        K[0, 0, 0, 0] = -size
    g = np.zeros((2, D))
    g[1, 1] = -slope
    bound = tolerated(size, D, points, slope, float(np.finfo(dtype).eps))
    for factor, fine in ((1 - 1e-9, True), (1 + 1e-9, False)):
        errors = np.zeros(2)
        errors[which] = factor * bound
        F = Scripted(x, w, g, H, K, errors, dtype=dtype)
        if fine:
            atomic._compare(F, Measure(x, w), H, K)
        else:
            with pytest.raises(ValueError, match=f"disagree in {'HK'[which]} by"):
                atomic._compare(F, Measure(x, w), H, K)


@pytest.mark.parametrize("which", ["H", "K"])
def test_how_large_an_asymmetry_is_refused(which):
    x, w = np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([0.25, 0.75])
    bound = tolerated(2.0, 2, 1.0)
    for factor, fine in ((1 - 1e-9, True), (1 + 1e-9, False)):
        H, K = np.zeros((2, 2, 2)), np.zeros((2, 2, 2, 2))
        H[0] = 2 * np.eye(2)
        if which == "H":
            H[1, 0, 1] = factor * bound
        else:
            K[1, 0, 0, 1], K[0, 1, 1, 0] = 1.0, 1.0 - factor * bound
        F = Scripted(x, w, np.zeros((2, 2)), H, K)
        if fine:
            atomic._compare(F, Measure(x, w), H, K)
        else:
            with pytest.raises(ValueError, match="second derivatives are not symmetric"):
                atomic._compare(F, Measure(x, w), H, K)


@pytest.mark.parametrize("space", [Euclidean(), Ball(9.0, (3,)), SPHERE])
def test_derivatives_are_checked_along_one_direction(space):
    m, D = 30, 3
    x, w = SPHERE.sample(0, m, D), np.full(m, 1 / m)
    H, K = np.zeros((m, D, D)), np.zeros((m, m, D, D))
    F = Scripted(x, w, np.zeros((m, D)), H, K, space=space)
    atomic._compare(F, Measure(x, w), H, K)
    ahead, behind = F.asked[0], F.asked[1]
    assert len(F.asked) == 4 and (F.asked[2] == ahead).all() and (F.asked[3] == behind).all()
    v = (ahead - behind) / (2 * F.step)
    assert np.abs(v).max() < 1 if space is not SPHERE else (np.abs(v) < np.sqrt(D)).all()
    # of the size of one, in all directions
    assert (v.max(axis=0) > 0.5).all() and (v.min(axis=0) < -0.5).all()
    if space is SPHERE:
        np.testing.assert_allclose(np.linalg.norm(ahead, axis=1), 1, atol=1e-14)
        np.testing.assert_allclose((v * x).sum(axis=1), 0, atol=1e-9)
    else:
        np.testing.assert_allclose(ahead + behind, 2 * x, atol=1e-14)


def test_atoms_must_stay_inside_a_ball_that_is_a_little_smaller():
    F = Curved(np.eye(2)).on(Ball(1.0, (2,)))
    atomic_stability(F, Measure([[0.0, 1 - 1.5e-6]]))
    with pytest.raises(ValueError, match="atom 1 is on its boundary"):
        atomic_stability(F, Measure([[0.0, 0.5], [0.0, 1 - 0.5e-6]]))


class Single(Functional):
    """Half the square of the mean, in single precision."""

    dtype = np.dtype(np.float32)

    def at(self, mu):
        kind = np.complex64 if np.iscomplexobj(mu.atoms) else np.float32
        mean = mu.weights.astype(np.float32) @ mu.atoms.astype(kind)
        return type("Local", (), {"gradient": lambda _, x: mean + 0 * x.astype(np.float32)
                                  if not np.iscomplexobj(x) else mean + 0 * x})()  # fmt: skip


def test_steps_times_tiny_weights_are_normal_numbers_in_single_precision():
    report = atomic_stability(Single(), Measure([[1.0, 0.5], [0.25, 2.0]], [1 - 1e-22, 1e-22]))
    np.testing.assert_allclose(report.K, np.eye(2) + np.zeros((2, 2, 1, 1)), atol=1e-6)


class Curved(Functional):
    """Gradient x B, with B a little asymmetric."""

    def __init__(self, B):
        self.B = np.asarray(B)

    def at(self, mu):
        return type("Local", (), {"gradient": lambda _, x: x @ self.B, "value": 0.0,
                                  "first_variation": lambda _, x: 0 * x[:, 0]})()  # fmt: skip


def test_tolerated_asymmetry_is_halved_on_both_sides():
    for B in ([[1.0, 5e-5], [0.0, 1.0]], [[1.0, 0.0], [5e-5, 1.0]]):
        report = atomic_stability(Curved(B), Measure([[1.0, 0.5]]))
        np.testing.assert_allclose(report.deviations[0], [1 - 2.5e-5, 1 + 2.5e-5], rtol=1e-12)
        np.testing.assert_allclose(report.collective, [1 - 2.5e-5, 1 + 2.5e-5], rtol=1e-12)
