"""The pieces of the certified search on the sphere, each against its definition."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import spies

from mfbook.landscape import (
    least_first_variation,
)
from mfbook.measure import Measure
from mfbook.models.activations import GELU, LEAKY_RELU, LINEAR, RELU, TANH, Activation, leaky_relu
from mfbook.models.sphere import SphereEnergy, forces, search
from mfbook.models.sphere.on_circle import (
    CircleLandscape,
    local_minima,
)
from mfbook.models.sphere.on_sphere import (
    SphereVariation,
)
from mfbook.models.sphere.search import (
    SLACK,
    CircleVariation,
    least_on_circle,
    unit_vectors,
)
from mfbook.models.sphere.units import (
    Units,
)
from mfbook.space import Sphere

#: No bound on its second derivative is known.
SINE = Activation(
    "sine", np.sin, lambda s: 2 - 2 * np.cos(s), np.cos, tuple(np.pi * np.arange(-3, 4))
)
B2 = np.array([[1.5, 0.4], [0.4, -0.8]])


def energy(beta, activation="gelu", d=2, J=3, seed=0, bias=True, B=None, scale=1.0):
    rng = np.random.default_rng(seed)
    a = Sphere().sample(rng, J, d)
    b = rng.uniform(-0.8, 0.8, J) if bias else None
    return SphereEnergy(beta, a, scale * rng.normal(size=J), activation, bias=b, B=B)


def cloud(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return Sphere().sample(rng, n, d), rng.dirichlet(np.ones(n))


def along(f, h):
    """Second differences of values on an equidistant grid of spacing h."""
    return (f[2:] - 2 * f[1:-1] + f[:-2]) / h**2


# ------------------------------------------------------------------------------------- constants


def test_rounding_is_subtracted_in_units_of_it():
    assert SLACK == 2.0**-49


@pytest.mark.parametrize("f", (GELU, TANH, LINEAR))
def test_the_bound_on_the_second_derivative_of_an_activation_is_attained(f):
    s, h = np.linspace(-8, 8, 160_001), 1e-4
    largest = np.abs((f.slope(s + h / 2) - f.slope(s - h / 2)) / h).max()
    assert search._curvature(f) == pytest.approx(largest, rel=1e-6, abs=1e-11)


def bent(name, positive, negative):
    """An activation of which only the slopes on both sides of zero are given."""
    return Activation(
        name, None, None, lambda s: np.where(s > 0, positive(s), negative(s)), analytic=False
    )


def test_two_lines_are_recognised_and_nothing_else():
    one, zero = (lambda s: 1.0 + 0 * s), (lambda s: 0.0 * s)
    for f in (RELU, LEAKY_RELU, leaky_relu(0.3), leaky_relu(1.0)):
        assert search._curvature(f) == 0
    for f in (
        bent("my_relu", one, zero),
        bent("relu_decreasing", one, lambda s: -one(s)),
        bent("relu_falling", lambda s: -one(s), zero),
        bent("relu_squared", lambda s: 2 * s, zero),
        bent("leaky_relu_exponential", one, lambda s: np.exp(np.minimum(s, 0))),
        bent("relu_shifted", lambda s: 1.0 * (s > 0.5), zero),
        bent("relu_saturated", lambda s: 1.0 * (s < 6), zero),
        bent("relu_slow_start", lambda s: np.where(s > 1e-6, 1.0, 0.5), zero),
    ):
        assert search._curvature(f) == np.inf


@pytest.mark.parametrize("name", ("relu", "leaky_relu", "gelu", "tanh", "linear"))
def test_constants_of_the_units(name):
    F = energy(1.0, name, J=4, seed=3)
    units = Units.of(F, 2)
    f = F.activation
    kappa = {"gelu": 2 / math.sqrt(2 * math.pi), "tanh": 4 / math.sqrt(27)}.get(name, 0.0)
    assert units.kappa == pytest.approx(kappa, rel=1e-14)
    each, third, low, size = [], 0.0, 0.0, 0.0
    for a, w, b in zip(F.a, F.omega, F.bias, strict=True):
        j = len(each)
        z = np.linspace(-1 - abs(b), 1 + abs(b), 20_001)
        slope = np.abs(f.slope(z)).max()
        assert units.slope[j] == pytest.approx(slope, rel=1e-6)
        centre = abs(float(f.sigma(np.array([b]))[0]))
        assert units.centre[j] == pytest.approx(centre, rel=1e-15)
        each.append(abs(w) * (units.slope[j] + centre))
        third += abs(w) * (kappa + 2 * units.slope[j] + centre)
        # the range on 513 nodes, and what a chord can miss between two of them
        g = [w * float(f.primitive(np.array(b - 1 + i / 256))) / 2 for i in range(513)]
        room = abs(w) * units.slope[j] / 256**2 / 8
        assert units._ranges[0][j] == pytest.approx(min(g) - room, rel=1e-13, abs=1e-16)
        assert units._ranges[1][j] == pytest.approx(max(g) + room, rel=1e-13, abs=1e-16)
        low += min(g) - room
        size += max(abs(min(g) - room), abs(max(g) + room))
        np.testing.assert_array_equal(units.a[j], a)
    np.testing.assert_allclose(units.each, each, rtol=1e-14)
    assert units.curvature == pytest.approx(sum(each), rel=1e-14)
    assert units.third == pytest.approx(third, rel=1e-13)
    assert units.least == pytest.approx(low, rel=1e-13)
    assert units.size == pytest.approx(size, rel=1e-13)
    assert units.linear == (name == "linear")
    assert units.kinked == name.endswith("relu")


def test_the_range_of_a_relu_is_exact_up_to_the_room_for_chords():
    units = Units.of(SphereEnergy(1.0, [[1.0, 0.0]], [-4.0]), 2)
    room = 4 * 2.0**-16 / 8
    assert units._ranges[0].tolist() == [-2 - room]
    assert units._ranges[1].tolist() == [room]
    assert units.least == -2 - room and units.size == 2 + room


@pytest.mark.parametrize("f", (RELU, GELU, SINE))
def test_no_units_contribute_nothing(f):
    F = SphereEnergy(1.0, activation=f)
    units = Units.of(F, 5)
    assert units.a.shape == (0, 5) and len(units.omega) == len(units.bias) == 0
    assert (units.curvature, units.third, units.least, units.size) == (0, 0, 0, 0)
    assert units.linear and CircleVariation(F).units.a.shape == (0, 2)


def test_one_unit_without_a_bound_on_its_third_derivative():
    assert Units.of(SphereEnergy(1.0, [[1.0, 0.0]], [1.0], SINE), 2).third == np.inf
    assert Units.of(SphereEnergy(1.0, [[1.0, 0.0]], [-3.0], "relu"), 2).third == 6


@pytest.mark.parametrize("beta", (1e-4, 1.0, 300.0))
@pytest.mark.parametrize("s", (1.0, 2.0))
def test_bounds_on_the_derivatives_of_attention_are_nearly_attained(beta, s):
    """At an atom |f''| = s; |f'''| has its bound for small beta and 80 % of it for large."""
    F = SphereEnergy(beta, B=s * np.eye(2))
    x, w = np.array([[1.0, 0.0]]), np.ones(1)
    parts = CircleVariation(F)
    h = 1e-3 / math.sqrt(1 + beta * s)
    f = parts.at(x, w)(h * np.arange(-4000, 4001))
    assert np.abs(f[2]).max() == pytest.approx(parts.curvature, rel=1e-12)
    assert np.abs(f[2]).max() <= parts.curvature * (1 + 1e-15)
    third = np.abs(np.diff(f[2]) / h).max() / parts.third
    assert {1e-4: 0.999, 1.0: 0.74, 300.0: 0.79}[beta] < third <= 1
    assert parts.third == pytest.approx(s * math.sqrt(1 + 3 * beta * s), rel=1e-15)
    on_sphere = SphereVariation(F, x, w)
    assert (on_sphere.curvature, on_sphere.third) == (parts.curvature, parts.third)
    assert parts.spacing == pytest.approx((1 + beta * s) ** -0.5, rel=1e-15)
    # values are between minus the scale and zero, and both are attained in the limits
    assert parts.offset == 1 / beta
    values = parts.at(x, w)(np.linspace(0, 2 * np.pi, 1001))[0]
    assert -parts.scale <= values.min() and values.max() <= 1e-16
    if beta != 1.0:
        assert values.min() == pytest.approx(-parts.scale, rel=1e-3)


@pytest.mark.parametrize("name", ("relu", "gelu"))
def test_constants_of_both_parts_are_added(name):
    F = energy(3.0, name, B=B2, seed=1)
    units, s = Units.of(F, 2), np.abs(np.linalg.eigvalsh(B2)).max()
    x, w = cloud(4)
    for f in (CircleVariation(F), SphereVariation(F, x, w)):
        assert f.curvature == pytest.approx(s + units.curvature, rel=1e-13)
        assert f.third == pytest.approx(s * math.sqrt(1 + 9 * s) + units.third, rel=1e-13)
    assert CircleVariation(F).scale == pytest.approx(min(2 * s, 1 / 3) + units.size, rel=1e-13)
    assert SphereVariation(F, x, w).scale == pytest.approx(1 / 3 + units.size, rel=1e-13)
    low = CircleVariation(SphereEnergy(0.01, F.a, F.omega, name, bias=F.bias))
    assert low.scale == pytest.approx(2 + units.size, rel=1e-13)


# --------------------------------------------------------------------- functions on the circle


def test_kinks_are_where_the_argument_changes_its_sign():
    a = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0], [0.0, -1.0]]
    F = SphereEnergy(1.0, a, [1.0, -2.0, 0.0, 3.0, 1.0], "relu", bias=[0.4, -0.2, 0.1, 1.0, 2.0])
    parts = CircleVariation(F)
    # a unit without weight has none, nor one that only touches zero or does not reach it
    assert len(parts.kinks) == 4
    for unit in (0, 1):
        z = unit_vectors(parts.kinks) @ F.a[unit] + F.bias[unit]
        assert np.count_nonzero(np.abs(z) < 1e-15) == 2
    smooth = CircleVariation(SphereEnergy(1.0, a, np.ones(5), "tanh"))
    assert len(smooth.kinks) == 0
    np.testing.assert_allclose(unit_vectors(parts.direction), a, atol=1e-15)
    grid = parts.grid(6)
    expected = sorted([*(i * math.pi / 3 for i in range(7)), *(parts.kinks % (2 * math.pi))])
    np.testing.assert_allclose(grid, expected, atol=1e-15)
    assert grid[0] == 0 and grid[-1] == 2 * math.pi
    assert len(smooth.grid(6)) == 7


@pytest.mark.parametrize("B", (None, B2))
def test_kernel_and_potential_against_loops(B):
    F = energy(2.5, "tanh", B=B, seed=4)
    parts = CircleVariation(F)
    matrix = np.eye(2) if B is None else B
    s = np.abs(np.linalg.eigvalsh(matrix)).max()
    theta = np.array([0.3, 2.0, 5.5])
    phi = np.array([1.0, 4.0])
    x, y = unit_vectors(theta), unit_vectors(phi)
    tangent = unit_vectors(theta + np.pi / 2)

    def k(t, p):
        value = unit_vectors(t) @ matrix @ unit_vectors(p)
        return (np.exp(2.5 * (value - s)) - 1) / 2.5

    h = 1e-4
    K, first, second = parts.kernel(x, tangent, y)
    mixed = parts.mixed(x, tangent)
    for i, t in enumerate(theta):
        for j, p in enumerate(phi):
            assert K[i, j] == pytest.approx(k(t, p), abs=1e-14)
            assert first[i, j] == pytest.approx((k(t + h, p) - k(t - h, p)) / (2 * h), abs=1e-6)
            bend = (k(t + h, p) - 2 * k(t, p) + k(t - h, p)) / h**2
            assert second[i, j] == pytest.approx(bend, abs=1e-5)
        for j, p in enumerate(theta):
            cross = sum(
                m * n * k(t + m * h, p + n * h) for m, n in itertools.product((1, -1), repeat=2)
            )
            assert mixed[i, j] == pytest.approx(cross / (4 * h * h), abs=1e-5)
    rows = parts.potential(x, tangent)
    assert rows.shape == (3, 3)
    half = [F.potential(unit_vectors(theta + m * h)) / 2 for m in (-1, 0, 1)]
    np.testing.assert_allclose(rows[0], half[1], rtol=1e-14)
    np.testing.assert_allclose(rows[1], (half[2] - half[0]) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(rows[2], (half[2] - 2 * half[1] + half[0]) / h**2, atol=1e-5)
    alone = CircleVariation(SphereEnergy(2.5)).potential(x, tangent)
    assert alone.shape == (3, 3) and not alone.any()


@pytest.mark.parametrize("beta", (0.02, 4.0, 90.0))
def test_many_atoms_are_summed_by_the_series(beta):
    parts = CircleVariation(energy(beta, "relu"))
    terms = len(forces.fourier(beta))
    y, w = cloud(3 * terms + 1)
    few, many = parts.at(y[:-1], w[:-1]), parts.at(y, w)
    # more than three atoms for each coefficient
    assert few.cost == 3 * terms + 3
    assert terms + 3 <= many.cost <= terms + 2 * math.ceil(math.sqrt(terms)) + 3
    theta = np.linspace(-1, 7, 23)
    direct = few(theta)
    x = unit_vectors(theta)
    last = parts.kernel(x, unit_vectors(theta + np.pi / 2), y[-1:])
    direct += np.stack([K[:, 0] * w[-1] for K in last])
    error = np.abs(many(theta) - direct).max(axis=1)
    assert (error <= [1e-14 * (1 + 1 / math.sqrt(beta)), 1e-13, 1e-11]).all()
    turned = CircleVariation(energy(beta, B=B2)).at(y, w)
    assert turned.cost == len(w) + 3 and turned._rows is None
    mean = sum(
        v * float(many(np.array([t]))[0, 0]) for v, t in zip(w, np.arctan2(*y.T[::-1]), strict=True)
    )
    assert many.mean() == pytest.approx(mean, abs=1e-14)


@pytest.mark.parametrize("block", (1, 4, 17, 1 << 18))
def test_blocks_do_not_change_sums_and_every_point_is_counted(monkeypatch, block):
    y, w = cloud(3)
    theta = np.linspace(0, 6, 11)
    f = CircleVariation(energy(2.0)).at(y, w)
    z, v = cloud(3, 3)
    g = SphereVariation(energy(2.0, "relu", d=3), z, v)
    x, reach = Sphere().sample(np.random.default_rng(1), 11, 3), np.linspace(0.1, 1, 11)
    whole, both, plain = f(theta), g(x, reach), g(x)
    assert f.evaluations == 11 and g.evaluations == 22 and f.cost == g.cost == 6
    rows = []
    inner, outer = CircleLandscape._block, SphereVariation._block
    monkeypatch.setattr(CircleLandscape, "_block", lambda s, t: rows.append(len(t)) or inner(s, t))
    monkeypatch.setattr(
        SphereVariation, "_block", lambda s, t, r: rows.append(len(t)) or outer(s, t, r)
    )
    monkeypatch.setattr(search, "BLOCK", block)
    np.testing.assert_allclose(f(theta), whole, rtol=1e-13, atol=1e-15)
    for one, other in zip(g(x, reach), both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
    assert g(x)[2] is None and plain[2] is None
    np.testing.assert_allclose(g(x)[1], plain[1], rtol=1e-13, atol=1e-15)
    assert f.evaluations == 22 and g.evaluations == 55
    # at most as many pairs as a block holds, one point at least
    assert max(rows) == min(max(block // 6, 1), 11)
    assert sum(rows) == 11 * 4


# ------------------------------------------------------------------------------- local minima


def recorded(slope, bend, value):
    seen = []

    def f(t):
        seen.append(np.array(t))
        return np.array([value(t), slope(t), bend(t)])

    return f, seen


def test_a_parabola_is_minimised_by_the_first_guess():
    """The slopes at the ends vanish in between where their line does."""
    f, seen = recorded(lambda t: 2 * (t - 1.25), lambda t: 2 + 0 * t, lambda t: (t - 1.25) ** 2)
    theta, value = local_minima(f, np.array([0.0, 1.0, 2.0, 3.0]))
    assert theta.tolist() == [1.25] and value.tolist() == [0.0]
    assert [len(t) for t in seen] == [4, 1, 1]


def test_given_values_at_nodes_are_not_computed_again():
    f, seen = recorded(lambda t: 2 * (t - 1.25), lambda t: 2 + 0 * t, lambda t: (t - 1.25) ** 2)
    nodes = np.array([0.0, 1.0, 2.0, 3.0])
    values = f(nodes)
    assert local_minima(f, nodes, values)[0].tolist() == [1.25]
    assert [len(t) for t in seen] == [4, 1, 1]


def test_minima_at_nodes_are_found_once_each():
    f, _ = recorded(
        lambda t: 2 * (t - 1) * (t - 3) * (2 * t - 4),
        lambda t: 2 * ((t - 1) + (t - 3)) * (2 * t - 4) + 4 * (t - 1) * (t - 3),
        lambda t: (t - 1) ** 2 * (t - 3) ** 2,
    )
    theta, value = local_minima(f, np.array([0, 1, 2.5, 3, 4]))
    assert theta.tolist() == [1.0, 3.0] and value.tolist() == [0.0, 0.0]


def test_without_a_change_of_sign_the_least_node_is_returned():
    f, seen = recorded(lambda t: -1 + 0 * t, lambda t: 0 * t, lambda t: 3 - t)
    theta, value = local_minima(f, np.array([0.0, 0.5, 2.0]))
    assert theta.tolist() == [2.0] and value.tolist() == [1.0] and len(seen) == 1


def test_newton_steps_converge_quadratically():
    f, seen = recorded(lambda t: np.sin(t - 2), lambda t: np.cos(t - 2), lambda t: -np.cos(t - 2))
    theta, value = local_minima(f, np.array([1.0, 2.7]))
    assert theta[0] == pytest.approx(2, abs=1e-15) and value[0] == -1
    errors = [abs(t[0] - 2) for t in seen[1:-1]]
    # the error of Newton's method for a sine is a third of its cube
    for now, after in itertools.pairwise(errors):
        assert after <= now**3 and (after >= now**3 / 4 or now < 1e-4)
    assert len(errors) <= 4


def test_a_step_out_of_the_bracket_is_a_bisection():
    """Newton's method for an arctangent diverges from afar."""
    f, seen = recorded(
        lambda t: np.arctan(40 * (t - 1)),
        lambda t: 40 / (1 + (40 * (t - 1)) ** 2),
        lambda t: 0 * t,
    )
    theta, _ = local_minima(f, np.array([0.0, 3.1]))
    assert theta[0] == pytest.approx(1, abs=1e-14)
    low, high = 0.0, 3.1
    t = [float(s[0]) for s in seen[1:]]
    bisections = 0
    for now, after in itertools.pairwise(t[:-1]):
        slope, bend = float(np.arctan(40 * (now - 1))), 40 / (1 + (40 * (now - 1)) ** 2)
        low, high = (now, high) if slope < 0 else (low, now)
        newton = now - slope / bend
        outside = not low < newton < high
        bisections += outside
        assert after == pytest.approx((low + high) / 2 if outside else newton, abs=1e-13)
    assert bisections >= 1 and len(t) < 20


@pytest.mark.parametrize("bend", (0.0, -2.0))
def test_where_the_curvature_is_no_help_the_bracket_is_halved(bend):
    root = 1 + 1 / np.pi
    f, seen = recorded(lambda t: np.sinh(t - root), lambda t: bend + 0 * t, lambda t: t - root)
    theta, value = local_minima(f, np.array([0.0, 2.0]))
    assert theta[0] == pytest.approx(root, abs=2e-9) and value[0] == theta[0] - root
    low, high = 0.0, 2.0
    for now, after in itertools.pairwise([float(t[0]) for t in seen[1:-1]]):
        low, high = (now, high) if now < root else (low, now)
        assert after == pytest.approx((low + high) / 2, abs=1e-15)
    assert 28 <= len(seen) <= 34


# ---------------------------------------------------------------------- bounds of single cells


def stub(rows, curvature, third):
    parts = SimpleNamespace(curvature=curvature, third=third)
    fields = {"parts": parts, "curvature": curvature, "third": third}

    class Function:
        def __call__(self, *_):
            return rows

    f = Function()
    f.__dict__.update(fields)
    return f


def least_taylor(value, slope, bend, h, M, L):
    """The larger of both bounds, the parabola minimised over candidates."""
    crude = value - abs(slope) * h - M * h * h / 2
    if not math.isfinite(L):
        return crude
    at = [-h, h]
    if bend > 0 and abs(slope) < bend * h:
        at.append(-slope / bend)
    return max(crude, min(value + slope * t + bend * t * t / 2 for t in at) - L * h**3 / 6)


CASES = [
    (value, slope, bend, h)
    for value in (0.0, 1.5)
    for slope in (0.0, 0.25, -0.25, 2.0)
    for bend in (-1.0, 0.0, 0.5, 3.0)
    for h in (0.01, 0.125, 0.5)
]


@pytest.mark.parametrize("third", (0.0, 0.7, 40.0, np.inf))
def test_lower_bound_on_an_interval_and_on_a_cap(third):
    value, slope, bend, h = np.array(CASES).T
    expected = [least_taylor(*case, 4.0, third) for case in CASES]
    f = stub((value, slope, bend), 4.0, third)
    lower, at = search._taylor_bound(f, 0 * h, h)
    np.testing.assert_allclose(lower, expected, rtol=1e-14, atol=1e-15)
    assert at is value
    gradient = np.stack([0.6 * slope, 0 * slope, -0.8 * slope], axis=1)
    lower, at = search._cap_bound(stub((value, gradient, bend), 4.0, third), 0 * gradient, h)
    np.testing.assert_allclose(lower, expected, rtol=1e-14, atol=1e-15)
    assert at is value


@pytest.mark.parametrize("name", ("gelu", "tanh", "linear"))
def test_bounds_hold_on_every_interval_and_are_tight_on_small_ones(name):
    y, w = cloud(3, seed=2)
    f = CircleVariation(energy(5.0, name, seed=2)).at(y, w)
    for n in (20, 200):
        nodes = np.linspace(0, 2 * np.pi, n + 1)
        centre, half = (nodes[1:] + nodes[:-1]) / 2, np.diff(nodes) / 2
        lower, _ = search._taylor_bound(f, centre, half)
        t = centre[:, None] + half[:, None] * np.linspace(-1, 1, 101)
        least = f(t.ravel())[0].reshape(t.shape).min(axis=1)
        looseness = f.parts.third * half**3 / 3 + f.parts.curvature * (half / 100) ** 2
        assert (lower <= least + 1e-15).all() and (least - lower <= looseness).all()


def test_bounds_hold_on_caps():
    y, w = cloud(5, 3, seed=2)
    rng = np.random.default_rng(0)
    for name in ("relu", "gelu"):
        f = SphereVariation(energy(3.0, name, d=3, seed=2), y, w)
        x, reach = Sphere().sample(rng, 30, 3), np.full(30, 0.05)
        lower, value = search._cap_bound(f, x, reach)
        np.testing.assert_array_equal(value, f(x)[0])
        for i in range(30):
            v = rng.normal(size=(200, 3))
            v -= (v @ x[i])[:, None] * x[i]
            v /= np.linalg.norm(v, axis=1)[:, None]
            r = reach[i] * np.sqrt(rng.uniform(size=(200, 1)))
            inside = np.cos(r) * x[i] + np.sin(r) * v
            assert lower[i] <= f(inside)[0].min() + 1e-15


# ------------------------------------------------------------------------------ Fourier bound


@pytest.mark.parametrize("beta", (0.05, 3.0))
def test_fourier_bound_is_the_constant_less_all_other_coefficients(beta):
    y, w = cloud(7, seed=5)
    F = energy(beta, "linear", seed=6, scale=0.3)
    for G, linear in ((F, True), (SphereEnergy(beta), False)):
        f = CircleVariation(G).at(y, w)
        n = 256
        c = np.fft.rfft(f(2 * np.pi * np.arange(n) / n)[0]) / n
        found = search._fourier_bound(f)
        assert found == pytest.approx(c[0].real - 2 * np.abs(c[1:]).sum(), abs=1e-12)
        assert found <= f(np.linspace(0, 7, 500))[0].min()
        assert f.parts.units.linear and (len(f.parts.units.omega) > 0) == linear
    units = Units.of(F, 2)
    half = F.potential(unit_vectors(2 * np.pi * np.arange(16) / 16)) / 2
    c = np.fft.fft(half)[:3] / 16 * [1, 2, 2]
    np.testing.assert_allclose(search._linear_series(units), c, atol=1e-15)
    for other in (energy(beta, "linear", B=B2), energy(beta, "gelu"), SphereEnergy(beta, B=B2)):
        assert search._fourier_bound(CircleVariation(other).at(y, w)) == -np.inf


def test_a_short_series_takes_the_terms_of_linear_units():
    """At a tiny beta the kernel has fewer coefficients than a linear unit."""
    beta = 1e-9
    assert len(forces.fourier(beta)) <= 3
    F = SphereEnergy(beta, [[0.6, 0.8]], [0.5], "linear", bias=[0.25])
    f = CircleVariation(F).at(*cloud(3))
    n = 64
    c = np.fft.rfft(f(2 * np.pi * np.arange(n) / n)[0]) / n
    bound = c[0].real - 2 * np.abs(c[1:]).sum()
    assert search._fourier_bound(f) == pytest.approx(bound, abs=1e-13)


# -------------------------------------------------------------------- the search on the circle


def watched(monkeypatch, name):
    """Arguments and results of every call of one function of the module."""
    log, inner = [], getattr(search, name)

    def spy(*arguments):
        log.append((arguments, inner(*arguments)))
        return log[-1][1]

    monkeypatch.setattr(search, name, spy)
    return log


@pytest.mark.parametrize("budget", (1, 3000, 20_000, 20_000_000))
@pytest.mark.parametrize("tolerance", (1e-14, 3e-2))
@pytest.mark.parametrize("name", ("relu", "tanh", "sine"))
def test_rounds_of_the_search_on_the_circle(monkeypatch, name, tolerance, budget):
    if name == "sine":
        name = SINE
    y, w = cloud(5, seed=3)
    f = CircleVariation(energy(30.0, name, seed=3, scale=0.3)).at(y, w)
    f(np.zeros(7))
    log, polished = watched(monkeypatch, "_taylor_bound"), watched(monkeypatch, "local_minima")
    found = least_on_circle(f, tolerance=tolerance, budget=budget)
    assert found.evaluations == f.evaluations - 7
    evaluations = found.evaluations - sum(len(arguments[1]) for arguments, _ in log)
    (_, nodes, values), (minima, minimal) = polished[0]
    # 64 intervals and 16 for each length of the kernel, and all kinks
    np.testing.assert_array_equal(nodes, f.parts.grid(64 + int(16 * math.sqrt(31))))
    np.testing.assert_array_equal(values, f(nodes))
    best, theta = min(zip(minimal, minima, strict=True))
    best, theta = min((best, theta), (values[0].min(), nodes[values[0].argmin()]))
    room, proved = tolerance * f.parts.curvature, -np.inf
    left, right = nodes[:-1], nodes[1:]
    for number, ((_, centre, half), (lower, values)) in enumerate(log):
        np.testing.assert_allclose(centre - half, left, atol=1e-13)
        np.testing.assert_allclose(centre + half, right, atol=1e-13)
        evaluations += len(centre)
        if values.min() < best:
            best, theta = values.min(), centre[values.argmin()]
        proved = max(proved, min(best - room, lower.min()))
        opened = lower < best - room
        # the four quarters of all that are open
        quarters = np.linspace(left[opened], right[opened], 5, axis=1)
        left, right = quarters[:, :-1].ravel(), quarters[:, 1:].ravel()
        over = (evaluations + 4 * opened.sum()) * f.cost > budget
        assert (number == len(log) - 1) == (not opened.any() or over)
        assert found.converged == (not opened.any()) or not over
    assert (found.value, found.theta) == (best, theta)
    assert found.lower_bound == pytest.approx(min(proved, best) - SLACK * f.parts.scale, abs=1e-17)
    assert found.lower_bound < min(proved, best)
    assert len(log) > 1 or budget < 20_000 or tolerance > 1e-3


def test_the_budget_is_in_pairs_and_met_exactly(monkeypatch):
    y, w = cloud(5, seed=3)
    parts = CircleVariation(energy(30.0, "tanh", seed=3, scale=0.3))
    log = watched(monkeypatch, "_taylor_bound")
    f = parts.at(y, w)
    least_on_circle(f)
    spent = f.evaluations - sum(len(arguments[1]) for arguments, _ in log)
    two = spent + len(log[0][0][1]) + len(log[1][0][1])
    assert len(log) > 2
    for budget, rounds in ((two * f.cost, 2), (two * f.cost - 1, 1)):
        log.clear()
        found = least_on_circle(parts.at(y, w), budget=budget)
        assert len(log) == rounds and not found.converged
    assert found.lower_bound < found.value


def test_a_bound_at_the_level_is_enough_on_the_circle(monkeypatch):
    """Cells whose bound is the best value less the tolerance are closed; equal values stay."""
    f = CircleVariation(energy(2.0, "tanh")).at(*cloud(3))
    theta, value = min(zip(*local_minima(f, f.parts.grid(86)), strict=True), key=lambda p: p[1])
    rounds = []

    def bound(f, centre, half):
        rounds.append(len(centre))
        return np.full(len(centre), level if len(rounds) == 1 else 1.0), np.full(len(centre), value)

    monkeypatch.setattr(search, "_taylor_bound", bound)
    level = value - 0.125 * f.parts.curvature
    found = least_on_circle(f, tolerance=0.125, points=86)
    assert rounds == [86] and found.converged
    assert (found.theta, found.value) == (theta, value)
    assert found.lower_bound == level - SLACK * f.parts.scale
    # without a tolerance it is 1e-14
    for share, expected in ((1.5e-14, [86, 4 * 86]), (0.9e-14, [86])):
        rounds.clear()
        level = value - share * f.parts.curvature
        assert least_on_circle(f, points=86).converged and rounds == expected
    rounds.clear()
    monkeypatch.setattr(search, "_fourier_bound", lambda f: value - 0.125 * f.parts.curvature)
    assert least_on_circle(f, tolerance=0.125, points=86).converged and not rounds


def test_a_bound_at_the_level_is_enough_on_spheres(monkeypatch):
    f = SphereVariation(SphereEnergy(1.0), *cloud(4, 3))
    value, point = 0.25, np.array([0.0, 0.6, 0.8])
    level = value - 0.125 * f.curvature
    rounds = []

    def bound(f, x, reach):
        rounds.append(len(x))
        return np.full(len(x), level), np.full(len(x), value)

    monkeypatch.setattr(search, "_cap_bound", bound)
    found = search._branch_and_bound(f, value, point, 0.125, 10**6)
    assert rounds == [6] and found[1] is point and found[0::2] == (value, level) and found[3]


def test_the_number_of_intervals_can_be_given(monkeypatch):
    f = CircleVariation(energy(1.0, "tanh")).at(*cloud(3))
    log = watched(monkeypatch, "_taylor_bound")
    found = least_on_circle(f, points=10)
    np.testing.assert_allclose(log[0][0][1], np.pi / 10 * np.arange(1, 20, 2), atol=1e-15)
    assert found.converged


def test_a_minimum_at_the_seam_is_a_node(monkeypatch):
    """Symmetric atoms: the slope is zero up to rounding, and no interval has a change of sign."""
    y = np.array([[-1.0, 0.0], [np.cos(2), np.sin(2)], [np.cos(2), -np.sin(2)]])
    f = CircleVariation(SphereEnergy(4.0)).at(y, np.array([0.2, 0.4, 0.4]))
    log = watched(monkeypatch, "local_minima")
    found = least_on_circle(f)
    (_, nodes, values), (_, minimal) = log[0]
    assert values[1, 0] >= 0 > values[1, -1] and len(minimal) == 1
    assert np.mod(found.theta, 2 * np.pi) == 0 and found.converged
    assert found.value == values[0].min() < minimal[0] - 0.01


def test_a_flat_function_is_bounded_by_its_series_at_once(monkeypatch):
    n = 64
    log = watched(monkeypatch, "_taylor_bound")
    f = CircleVariation(SphereEnergy(2.0)).at(unit_vectors(2 * np.pi * np.arange(n) / n), [1 / n])
    f.w = np.full(n, 1 / n)
    found = least_on_circle(f)
    assert found.converged and not log
    c = search._fourier_bound(f)
    assert found.lower_bound == min(c, found.value) - SLACK * f.parts.scale
    # where the coefficients leave a room, intervals are tried and the better bound is kept
    y, w = cloud(6, seed=1)
    g = CircleVariation(SphereEnergy(0.5)).at(y, w)
    low = least_on_circle(g, budget=1, points=3)
    lower = log[0][1][0].min()
    assert low.lower_bound == max(search._fourier_bound(g), lower) - SLACK * g.parts.scale
    assert search._fourier_bound(g) > lower
    # within the tolerance the series is enough
    gap = (least_on_circle(g).value - search._fourier_bound(g)) / g.parts.curvature
    log.clear()
    assert least_on_circle(g, tolerance=1.001 * gap).converged and not log
    assert least_on_circle(g, tolerance=0.999 * gap).converged and log


# --------------------------------------------------------------------------- functions on spheres


def differences(f, x, h=1e-4):
    """A basis of the tangent space at a point, slopes and Hessian of f in normal coordinates."""
    basis = np.linalg.svd(x[None])[2][1:]
    steps = [h * np.array(p) for p in itertools.product((-1, 0, 1), repeat=2)]
    grid = [
        np.cos(t) * x + np.sinc(t / np.pi) * (p @ basis) for p in steps for t in [math.hypot(*p)]
    ]
    v = f(np.array(grid))[0].reshape(3, 3)
    slopes = np.array([v[2, 1] - v[0, 1], v[1, 2] - v[1, 0]]) / (2 * h)
    cross = (v[2, 2] - v[2, 0] - v[0, 2] + v[0, 0]) / (4 * h * h)
    return basis, slopes, [[along(v[:, 1], h)[0], cross], [cross, along(v[1], h)[0]]]


@pytest.mark.parametrize("B", (None, np.diag([1.0, -2.0, 0.5])))
@pytest.mark.parametrize("name", ("gelu", "tanh", "linear"))
def test_gradient_and_hessian_on_the_sphere(name, B):
    F = energy(2.0, name, d=3, seed=1, B=B)
    y, w = cloud(4, 3, seed=1)
    f = SphereVariation(F, y, w)
    x = Sphere().sample(np.random.default_rng(2), 6, 3)
    value, gradient, least = f(x, np.full(6, 0.1))
    np.testing.assert_allclose(value, F.at(Measure(y, w)).first_variation(x), rtol=1e-13)
    np.testing.assert_allclose((gradient * x).sum(axis=1), 0, atol=1e-14)
    for i in range(6):
        basis, slopes, H = differences(f, x[i])
        np.testing.assert_allclose(basis @ gradient[i], slopes, atol=1e-7)
        assert least[i] == pytest.approx(np.linalg.eigvalsh(H)[0], abs=1e-6)


def test_units_whose_kink_is_near_enter_with_a_bound_alone():
    a = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0, 0.0, -1.0]])
    omega, bias = np.array([1.5, -2.0, 0.7]), np.array([0.0, 0.25, -0.5])
    y, w = cloud(4, 3)
    x = np.array([[0.6, 0.8, 0.0], [0.0, -0.6, 0.8], [0.36, 0.48, 0.8]])
    F = SphereEnergy(2.0, a, omega, "relu", bias=bias)
    f = SphereVariation(F, y, w)
    for reach in (1e-3, 0.25, 0.5, 0.6, 2.0):
        found = f(x, np.full(3, reach))
        np.testing.assert_allclose(found[0], F.at(Measure(y, w)).first_variation(x), rtol=1e-14)
        for i in range(3):
            near = [j for j in range(3) if abs(a[j] @ x[i] + bias[j]) <= reach]
            far = [j for j in range(3) if j not in near]
            rest = SphereEnergy(2.0)
            if far:
                rest = SphereEnergy(2.0, a[far], omega[far], "relu", bias=bias[far])
            g = np.linalg.eigvalsh(differences(SphereVariation(rest, y, w), x[i])[2])[0]
            for j in near:
                ell, b = 1.0, bias[j]
                whole = abs(omega[j]) * (ell + max(b, 0))
                g -= min(whole, max(-omega[j], 0) * ell + 2 * reach * abs(omega[j]) * ell)
            assert found[2][i] == pytest.approx(g, abs=1e-6)


def test_how_negative_a_kinked_unit_can_be_is_bounded():
    rng = np.random.default_rng(0)
    steep = Activation(
        "steep",
        lambda s: np.where(s > 0, 3 * s, s / 2),
        lambda s: np.where(s > 0, 3 * s * s, s * s / 2),
        lambda s: np.where(s > 0, 3.0, 0.5),
        analytic=False,
    )
    for f, omega in itertools.product((RELU, leaky_relu(0.3), steep), (-1.5, 0.8)):
        F = SphereEnergy(1.0, [[1.0, 0.0, 0.0]], [omega], f, bias=[0.2])
        g = SphereVariation(F, *cloud(2, 3))
        for r in (0.01, 0.2):
            z = rng.uniform(-2 * r, 2 * r, 5000)
            p = z - 0.2
            q2 = (1 - p * p) * rng.uniform(0, 1, 5000)
            second = omega * (f.slope(z) * q2 - f.sigma(z) * p)
            worst = g._worst(np.array([r]))
            assert worst.shape == (1, 1) and second.min() >= -worst[0, 0]
            ell = f.lipschitz()
            whole = abs(omega) * (ell + float(f.sigma(np.array(0.2))))
            expected = min(whole, (max(-omega, 0) + 2 * r * abs(omega)) * ell)
            assert worst[0, 0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("B", (None, np.diag([1.0, -2.0, 0.5])))
def test_jensens_bound(B):
    F = energy(0.7, "tanh", d=3, B=B)
    y, w = cloud(6, 3)
    f = SphereVariation(F, y, w)
    mean = sum(v * (p if B is None else B @ p) for v, p in zip(w, y, strict=True))
    s = 1.0 if B is None else 2.0
    expected = math.exp(-0.7 * (math.hypot(*mean) + s)) / 0.7 + f.units.least
    assert f.jensen() == pytest.approx(expected, rel=1e-13)
    assert f.jensen() <= f(Sphere().sample(np.random.default_rng(0), 500, 3))[0].min()
    # one atom and no perceptron: attained at the antipode
    alone = SphereVariation(SphereEnergy(0.7), y[:1], np.ones(1))
    assert alone.jensen() == pytest.approx(alone(-y[:1])[0][0], rel=1e-14)


def test_descents_ask_scipy_for_what_is_documented(monkeypatch):
    seen = spies.watch(monkeypatch, search)
    f = SphereVariation(energy(2.0, "gelu", d=3), *cloud(4, 3))
    start = np.array([0.36, 0.48, 0.8])
    value, point, success = f.descend(start)
    assert len(seen) == 1
    assert seen[0].options == {"maxiter": 500, "ftol": 0.0, "gtol": 1e-9}
    np.testing.assert_array_equal(seen[0].start, start)
    assert seen[0].slope == pytest.approx(seen[0].difference, abs=1e-8)
    assert seen[0].value == f(start[None])[0][0]
    assert math.hypot(*point) == pytest.approx(1, abs=1e-15) and success
    assert value == f(point[None])[0][0] == pytest.approx(seen[0].run.fun, rel=1e-14)
    assert np.linalg.norm(f(point[None])[1]) <= 1e-8


@pytest.mark.parametrize("share, flat", ((0.99, True), (1.01, False)))
def test_a_run_that_stops_on_flat_ground_is_a_success(monkeypatch, share, flat):
    beta = 0.1
    f = SphereVariation(SphereEnergy(beta, B=2 * np.eye(3)), np.eye(3)[:1], np.ones(1))
    # the slope at the angle t from the antipode is 2 exp(-4 beta) t; the curvature's bound is 2
    t = share * 1e-6 * math.exp(4 * beta)
    at = -np.array([math.cos(t), math.sin(t), 0.0])
    for success in (False, True):
        run = SimpleNamespace(x=3 * at, success=success)
        monkeypatch.setattr(search, "minimize", lambda *_, run=run, **__: run)
        value, point, fine = f.descend(np.array([0.0, 1.0, 0.0]))
        np.testing.assert_allclose(point, at, atol=1e-15)
        assert fine == (flat or success)
        assert value == pytest.approx(math.exp(-4 * beta) / beta, rel=1e-11)


# --------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize("d", (2, 3, 4))
def test_faces_and_caps_against_loops(d):
    rng = np.random.default_rng(d)
    face = np.arange(2 * d)
    centre = rng.uniform(-0.6, 0.6, (2 * d, d - 1))
    half = rng.uniform(0.01, 0.4, (2 * d, d - 1))

    def lift(k, u):
        p = list(u)
        p.insert(k // 2, 1.0 if k % 2 == 0 else -1.0)
        return np.array(p) / math.hypot(*p)

    x, reach = search._cells(face, centre, half)
    np.testing.assert_allclose(
        search._on_face(face, centre), [lift(k, u) for k, u in zip(face, centre, strict=True)]
    )
    for k in face:
        c = lift(k, centre[k])
        corners = [
            lift(k, centre[k] + half[k] * s) for s in itertools.product((1, -1), repeat=d - 1)
        ]
        np.testing.assert_allclose(x[k], c, atol=1e-15)
        far = max(math.acos(c @ p) for p in corners)
        assert far * (1 + 0.9e-6) <= reach[k] <= far * (1 + 1.1e-6)


def test_small_caps_are_not_lost_to_rounding():
    half = np.array([[1e-9, 2e-9]])
    _, reach = search._cells(np.array([4]), np.zeros((1, 2)), half)
    assert reach[0] == pytest.approx(math.hypot(1e-9, 2e-9), rel=1e-5)


def volume(centre, half):
    return float(np.prod(2 * half, axis=1).sum())


@pytest.mark.parametrize("budget", (1, 1500, 8000, 2_000_000))
@pytest.mark.parametrize("tolerance", (1e-14, 3e-2))
@pytest.mark.parametrize("name", ("relu", "tanh"))
def test_rounds_of_branch_and_bound(monkeypatch, name, tolerance, budget):
    d = 3
    y, w = cloud(4, d, seed=3)
    f = SphereVariation(energy(1.0, name, d=d, seed=3, scale=0.5), y, w)
    f(y)
    spent = f.evaluations
    bounds, cells = watched(monkeypatch, "_cap_bound"), watched(monkeypatch, "_cells")
    start = f.descend(y[0])[:2] if tolerance < 1e-3 else (np.inf, None)
    spent = f.evaluations
    value, point, proved, closed = search._branch_and_bound(f, *start, tolerance, budget)
    assert f.evaluations - spent == sum(len(c[0][0]) for c in cells)
    best, at = start
    room, expected, evaluations = tolerance * f.curvature, -np.inf, 0
    boxes = {(k, (0.0,) * (d - 1), (1.0,) * (d - 1)) for k in range(2 * d)}
    for number, ((faces, centre, half), (x, reach)) in enumerate(cells):
        (_, points, radii), (lower, values) = bounds[number]
        assert points is x and radii is reach
        rows = list(zip(faces, map(tuple, centre), map(tuple, half), strict=True))
        assert set(rows) == boxes and len(rows) == len(boxes)
        evaluations += len(rows)
        if values.min() < best:
            best, at = values.min(), x[values.argmin()]
        expected = max(expected, min(best - room, lower.min()))
        # every open box is cut into two along its longest side
        boxes = set()
        for (k, c, h), low in zip(rows, lower, strict=True):
            if low < best - room:
                axis = h.index(max(h))
                smaller = tuple(v / 2 if i == axis else v for i, v in enumerate(h))
                for sign in (1, -1):
                    moved = tuple(
                        v + sign * smaller[i] if i == axis else v for i, v in enumerate(c)
                    )
                    boxes.add((k, moved, smaller))
        over = (evaluations + len(boxes)) * f.cost > budget
        assert (number == len(cells) - 1) == (not boxes or over)
    assert closed == (not boxes) and value == best and proved == expected
    np.testing.assert_array_equal(point, at)
    assert (budget > 1 or not closed) and (budget < 10**6 or closed)


def test_the_budget_of_branch_and_bound_is_met_exactly(monkeypatch):
    f = SphereVariation(SphereEnergy(1.0), *cloud(4, 3, seed=3))
    log = watched(monkeypatch, "_cells")
    search._branch_and_bound(f, np.inf, None, 1e-14, 20_000)
    sizes = [len(arguments[0]) for arguments, _ in log]
    for budget, rounds in ((sum(sizes[:3]) * f.cost, 3), (sum(sizes[:3]) * f.cost - 1, 2)):
        log.clear()
        assert not search._branch_and_bound(f, np.inf, None, 1e-14, budget)[3]
        assert len(log) == rounds


@pytest.mark.parametrize("reach, rounds", ((0.99e-8, 1), (1e-8, 2)))
def test_cells_of_the_size_of_rounding_are_not_cut(monkeypatch, reach, rounds):
    f = SphereVariation(SphereEnergy(1.0), *cloud(4, 3))
    inner, sizes = search._cells, iter([reach, 1e-9])
    calls = []

    def cells(*boxes):
        calls.append(boxes)
        x, radius = inner(*boxes)
        return x, np.full_like(radius, next(sizes))

    monkeypatch.setattr(search, "_cells", cells)
    monkeypatch.setattr(search, "_cap_bound", lambda f, x, r: (np.full(len(x), -9.0), f(x)[0]))
    _, _, proved, closed = search._branch_and_bound(f, np.inf, None, 1e-14, 10**9)
    assert len(calls) == rounds and proved == -9 and not closed


# ---------------------------------------------------------------------------- what is returned


def test_on_the_circle_the_constant_is_added_again(monkeypatch):
    F = energy(0.3, "tanh")
    y, w = cloud(4)
    log = []
    inner = search.least_on_circle

    def spy(f, **options):
        log.append((options, inner(f, **options)))
        return log[-1][1]

    monkeypatch.setattr(search, "least_on_circle", spy)
    found = least_first_variation(F, y, w, 0)
    options, bracket = log[0]
    assert options == {"tolerance": 1e-14, "budget": 20_000_000}
    assert found.value == bracket.value + 1 / 0.3
    assert found.lower_bound == bracket.lower_bound + 1 / 0.3 - SLACK / 0.3
    assert (found.converged, found.evaluations) == (True, bracket.evaluations)
    np.testing.assert_array_equal(found.point, unit_vectors(bracket.theta))
    least_first_variation(F, y, w, 0, tolerance=0.5, budget=7)
    assert log[1][0] == {"tolerance": 0.5, "budget": 7}


@pytest.mark.parametrize("starts", (1, 5))
def test_starts_on_spheres(monkeypatch, starts):
    F = energy(2.0, "tanh", d=3, J=2)
    y, w = cloud(6, 3)
    w[:3] = 0
    w /= w.sum()
    seen, runs = [], []
    inner = SphereVariation.__call__

    def call(self, x, reach=None):
        seen.append(np.array(x))
        return inner(self, x, reach)

    def descend(self, x):
        runs.append(x)
        return -2.0 if len(runs) == 3 else -1.0 + len(runs) / 10, x, True

    monkeypatch.setattr(SphereVariation, "__call__", call)
    monkeypatch.setattr(SphereVariation, "descend", descend)
    bounds = []
    monkeypatch.setattr(
        search,
        "_branch_and_bound",
        lambda f, value, point, *rest: bounds.append(rest) or (value, point, -3.0, True),
    )
    found = least_first_variation(F, y, w, 4, starts=starts)
    seeds = seen[0]
    # atoms that have weight, random points, and the units' directions both ways
    assert seeds.shape == (2 * starts + 4, 3)
    assert all(any(np.array_equal(x, p) for p in y[3:]) for x in seeds[:starts])
    np.testing.assert_allclose(np.linalg.norm(seeds, axis=1), 1, atol=1e-14)
    assert not any(np.array_equal(x, p) for x in seeds[starts : 2 * starts] for p in y)
    np.testing.assert_array_equal(seeds[2 * starts :], np.concatenate([F.a, -F.a]))
    values = F.at(Measure(y, w)).first_variation(seeds)
    best = sorted(range(len(seeds)), key=lambda i: values[i])[:starts]
    np.testing.assert_array_equal(runs, seeds[best])
    assert found.value == (-2.0 if starts == 5 else -0.9)
    np.testing.assert_array_equal(found.point, runs[2 if starts == 5 else 0])
    assert bounds == [(1e-14, 20_000_000)]
    f = SphereVariation(F, y, w)
    assert found.lower_bound == found.value or found.lower_bound < found.value
    assert found.lower_bound == min(max(-3.0, f.jensen()) - SLACK * f.scale, found.value)
    least_first_variation(F, y, w, 4)
    assert len(seen[1]) == 2 * 8 + 4


@pytest.mark.parametrize("success", (False, True))
@pytest.mark.parametrize("closed", (False, True))
def test_what_is_returned_on_spheres(monkeypatch, success, closed):
    F = energy(2.0, "tanh", d=3, J=2)
    y, w = cloud(6, 3)
    point = np.array([0.0, 0.6, 0.8])
    f = SphereVariation(F, y, w)
    value, crude = float(f(point[None])[0][0]), f.jensen()
    monkeypatch.setattr(SphereVariation, "descend", lambda self, x: (value, point, success))
    for proved in (value - 1e-3, crude - 1.0, value + 1.0):
        monkeypatch.setattr(
            search, "_branch_and_bound", lambda *_, p=proved: (value, point, p, closed)
        )
        found = least_first_variation(F, y, w, 0)
        assert found.lower_bound == min(max(proved, crude) - SLACK * f.scale, value)
        assert found.value == value and found.converged == (success and closed)
        assert found.evaluations == 2 * 8 + 4


@pytest.mark.parametrize("d, searched", ((8, True), (9, False)))
def test_the_largest_dimension_that_is_searched(monkeypatch, d, searched):
    calls = []
    monkeypatch.setattr(
        search, "_branch_and_bound", lambda f, v, x, *_: calls.append(v) or (v, x, v, True)
    )
    F, (y, w) = SphereEnergy(1.0), cloud(3, d)
    found = least_first_variation(F, y, w, 0, starts=2)
    f = SphereVariation(F, y, w)
    assert bool(calls) == searched == found.converged
    bound = found.value if searched else f.jensen()
    assert found.lower_bound == bound - SLACK * f.scale


def test_the_sharpest_kernel_that_is_searched(monkeypatch):
    monkeypatch.setattr(search, "_least_on_sphere", lambda *_: "searched")
    y, w = cloud(2, 3)
    assert least_first_variation(SphereEnergy(1e10), y, w, 0) == "searched"
    with pytest.raises(ValueError, match=r"^F: expected beta of at most 1e\+10"):
        least_first_variation(SphereEnergy(1.001e10), y, w, 0)


def test_a_function_is_no_energy():
    with pytest.raises(TypeError, match="^F: expected"):
        least_first_variation(lambda mu: 0.0, *cloud(2), 0)


def test_atoms_are_on_the_sphere_of_the_energy():
    F = energy(1.0, d=3)
    for atoms in (2 * np.eye(3)[:1], np.eye(2)[:1]):
        with pytest.raises(ValueError, match="^atoms: "):
            least_first_variation(F, atoms, np.ones(1), 0)
    with pytest.raises(ValueError, match="^atoms: "):
        least_first_variation(SphereEnergy(1.0), 2 * np.eye(3)[:1], np.ones(1), 0)


@pytest.mark.parametrize("beta", (0.5, 80.0))
def test_curvature_around_one_atom_in_closed_form(beta):
    """Across the direction to the atom the curvature is cot times slope: least of all nearby."""
    y = -np.ones(3) / math.sqrt(3)
    v = np.array([1.0, -1.0, 0.0]) / math.sqrt(2)
    f = SphereVariation(SphereEnergy(beta), y[None], np.ones(1))
    t = np.array([0.01, 0.1, 0.3])
    _, gradient, least = f(np.outer(np.cos(t), y) + np.outer(np.sin(t), v), 0 * t)
    e = np.exp(beta * (np.cos(t) - 1))
    np.testing.assert_allclose(np.linalg.norm(gradient, axis=1), np.sin(t) * e, rtol=1e-12)
    np.testing.assert_allclose(least, -np.cos(t) * e, rtol=1e-12)


def test_curvature_at_the_end_of_a_strong_linear_unit():
    a = np.array([[0.6, 0.0, 0.8]])
    f = SphereVariation(SphereEnergy(1.0, a, [-20.0], "linear"), -a, np.ones(1))
    # 20 from the unit, which is -10 cos^2, and exp(-2) from the atom at the other end
    assert f(a, np.zeros(1))[2][0] == pytest.approx(20 + math.exp(-2), rel=1e-13)
