"""Transport: closed forms, other solvers, the axioms of a distance, duality and geodesics."""

import itertools
import math
import subprocess
import sys

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import norm

from mfbook import transport
from mfbook.measure import Measure
from mfbook.transport import (
    Plan,
    coupled_distance,
    direction,
    discrepancy,
    displacement,
    distance_to,
    dual_witness,
    estimates,
    lipschitz,
    optimal_plan,
    random_functions,
    saturated,
    sliced_w2,
    solvers,
    wasserstein,
)

seeds = st.integers(0, 10**6)
orders = pytest.mark.parametrize("p", [1, 2])


def cloud(seed, n=6, dim=3, uniform=False):
    rng = np.random.default_rng(seed)
    return Measure(rng.normal(size=(n, dim)), None if uniform else rng.dirichlet(np.ones(n)))


def lengths(x, y):
    return np.linalg.norm(x[:, None] - y, axis=2)


def by_linear_program(mu, nu, p):
    """The definition itself: minimise over all matrices with the two marginals."""
    n, m = mu.size, nu.size
    marginals = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    weights = np.concatenate([mu.weights, nu.weights])
    cost = lengths(mu.atoms, nu.atoms) ** p
    return linprog(cost.ravel(), A_eq=marginals, b_eq=weights, method="highs").fun ** (1 / p)


# ---------------------------------------------------------------------------------------------
# exact distances against other solvers


@orders
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_equal_weights_against_all_permutations(p, dim):
    mu, nu = cloud(0, 5, dim, uniform=True), cloud(1, 5, dim, uniform=True)
    cost = lengths(mu.atoms, nu.atoms) ** p
    best = min(cost[range(5), list(order)].mean() for order in itertools.permutations(range(5)))
    assert wasserstein(mu, nu, p) == pytest.approx(best ** (1 / p), rel=1e-13)


@orders
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 7), (6, 6), (9, 4)])
def test_unequal_weights_against_the_linear_program(p, dim, n, m):
    mu, nu = cloud(2, n, dim), cloud(3, m, dim)
    expected = by_linear_program(mu, nu, p)
    assert wasserstein(mu, nu, p) == pytest.approx(expected, rel=1e-9)
    cost = lengths(mu.atoms, nu.atoms) ** p
    peer = ot.emd2(np.array(mu.weights), np.array(nu.weights), cost) ** (1 / p)
    assert wasserstein(mu, nu, p) == pytest.approx(peer, rel=1e-12)


@orders
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("dim", [1, 2])
def test_plan_has_the_marginals_and_the_cost(p, uniform, dim):
    mu, nu = cloud(4, 30, dim, uniform), cloud(5, 30, dim, uniform)
    plan = optimal_plan(mu, nu, p)
    assert (plan.mass > 0).all()
    assert len(plan.mass) <= 59
    for index, m in ((plan.source, mu), (plan.target, nu)):
        np.testing.assert_allclose(np.bincount(index, plan.mass, 30), m.weights, atol=1e-14)
    step = np.linalg.norm(mu.atoms[plan.source] - nu.atoms[plan.target], axis=1)
    assert plan.cost == wasserstein(mu, nu, p)
    assert plan.cost == pytest.approx((plan.mass @ step**p) ** (1 / p), rel=1e-14)
    for a in (plan.source, plan.target, plan.mass):
        assert not a.flags.writeable


@orders
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("dim", [1, 4])
def test_translation(p, uniform, dim):
    """A squared distance that is not rooted, or a sum that is no mean, is seen here."""
    mu = cloud(6, 20, dim, uniform)
    for size in (1e-6, 0.3, 7.0, 1e6):
        c = np.full(dim, size)
        moved = wasserstein(mu, mu.map(lambda x, c=c: x + c), p)
        assert moved == pytest.approx(np.linalg.norm(c), rel=1e-10 if size >= 0.3 else 1e-8)


@orders
@pytest.mark.parametrize("uniform", [True, False])
def test_small_clouds_far_from_the_origin(p, uniform):
    """The expanded square |x|^2 - 2<x, y> + |y|^2 would lose every digit here."""
    x, y = cloud(7, 8, 3, uniform), cloud(8, 8, 3, uniform)
    far = [m.map(lambda a: np.round(a * 2**20) / 2**20 + 2.0**30) for m in (x, y)]
    near = [m.map(lambda a: a - 2.0**30) for m in far]
    assert wasserstein(*far, p) == pytest.approx(wasserstein(*near, p), rel=1e-12)


@orders
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("scale", [1e-250, 1e-150, 1e150, 1e250])
def test_scales_whose_squares_are_no_floats(p, uniform, dim, scale):
    mu, nu = cloud(9, 6, dim, uniform), cloud(10, 6, dim, uniform)
    small, large = (m.map(lambda x: x * scale) for m in (mu, nu))
    assert wasserstein(small, large, p) == pytest.approx(scale * wasserstein(mu, nu, p), rel=1e-12)
    sliced = sliced_w2(small, large, 0, 10)
    assert sliced.distance == pytest.approx(scale * sliced_w2(mu, nu, 0, 10).distance, rel=1e-12)
    coupled = Measure(large.atoms, small.weights)
    assert 0 < coupled_distance(small, coupled) < 1e3 * scale


def test_gaussian_quantiles_on_the_line():
    q = norm.ppf((np.arange(500) + 0.5) / 500)[:, None]
    mu, nu = Measure(1.5 + 0.7 * q), Measure((-0.25 + 2.0 * q)[::-1])
    expected = math.sqrt(1.75**2 + 1.3**2 * (q**2).mean())
    assert wasserstein(mu, nu) == pytest.approx(expected, rel=1e-13)


@orders
def test_points_of_unequal_weight_on_the_line(p):
    """A quarter of the mass goes from 0 to 1, a half from 0 to 3, a quarter stays at 3."""
    mu, nu = Measure([[3.0], [0.0]], [0.25, 0.75]), Measure([[1.0], [3.0]], [0.25, 0.75])
    expected = {1: 0.25 * 1 + 0.5 * 3, 2: math.sqrt(0.25 * 1 + 0.5 * 9)}
    assert wasserstein(mu, nu, p) == pytest.approx(expected[p], rel=1e-14)
    # the same in the plane, where another solver is at work
    plane = [m.map(lambda x: x @ [[0.6, 0.8]]) for m in (mu, nu)]
    assert wasserstein(*plane, p) == pytest.approx(expected[p], rel=1e-14)


@orders
@pytest.mark.parametrize("dim", [1, 2])
def test_descriptions_of_one_measure(p, dim):
    """Weights are not atoms: double weight, repeated atoms and atoms of no weight."""
    x, nu = cloud(11, 4, dim).atoms, cloud(12, 5, dim)
    weighted = Measure(x, [0.2, 0.4, 0.2, 0.2])
    repeated = Measure(x[[0, 1, 2, 1, 3]])
    padded = Measure(np.concatenate([[[99.0] * dim], x]), [0.0, 0.2, 0.4, 0.2, 0.2])
    d = wasserstein(weighted, nu, p)
    for same in (repeated, repeated.merge(), padded):
        assert wasserstein(same, nu, p) == pytest.approx(d, rel=1e-12)
        assert wasserstein(nu, same, p) == pytest.approx(d, rel=1e-12)
        assert wasserstein(same, weighted, p) < 1e-12
    for plan, index in (
        (optimal_plan(padded, nu, p), "source"),
        (optimal_plan(nu, padded, p), "target"),
    ):
        marginal = np.bincount(getattr(plan, index), plan.mass, 5)
        np.testing.assert_allclose(marginal, padded.weights, atol=1e-15)


@pytest.mark.parametrize("n", [3, 1000])
def test_rounding_of_weights_moves_no_mass_across_a_gap(n):
    """Mass of 1e-16 over a distance of 1e3 would make 1e-5 of nothing."""
    rng = np.random.default_rng(13)
    mu = Measure(1e3 * rng.normal(size=(n, 1)), rng.dirichlet(np.ones(n)))
    order = rng.permutation(n)
    shuffled = Measure(mu.atoms[order], mu.weights[order] / mu.weights[order].sum())
    assert wasserstein(mu, shuffled) == 0
    if n == 3:
        plane = [m.map(lambda x: np.hstack([x, x])) for m in (mu, shuffled)]
        assert wasserstein(*plane) == 0


def test_single_precision_is_computed_in_double():
    mu, nu = cloud(14, 5), cloud(15, 5)
    single = [Measure(m.atoms.astype(np.float32), m.weights) for m in (mu, nu)]
    double = [m.map(lambda x: x.astype(np.float64)) for m in single]
    assert wasserstein(*single) == wasserstein(*double)


# ---------------------------------------------------------------------------------------------
# properties


@orders
@given(seed=seeds, dim=st.integers(1, 3), uniform=st.booleans())
def test_axioms_of_a_distance(p, seed, dim, uniform):
    a, b, c = (cloud(seed + k, 5 + k * (not uniform), dim, uniform) for k in range(3))
    ab, bc, ac = (wasserstein(*pair, p) for pair in ((a, b), (b, c), (a, c)))
    assert wasserstein(a, a, p) == 0
    assert ab > 0
    assert wasserstein(b, a, p) == pytest.approx(ab, rel=1e-12)
    assert ac <= (ab + bc) * (1 + 1e-12)


@orders
@given(seed=seeds, uniform=st.booleans())
def test_invariance(p, seed, uniform):
    mu, nu = cloud(seed, 6, 3, uniform), cloud(seed + 1, 6, 3, uniform)
    rng = np.random.default_rng(seed)
    order, rotation = rng.permutation(6), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    d = wasserstein(mu, nu, p)
    shuffled = Measure(mu.atoms[order], mu.weights[order])
    assert wasserstein(shuffled, nu, p) == pytest.approx(d, rel=1e-12)
    assert wasserstein(shuffled, mu, p) == 0
    turned = [m.map(lambda x: 2 * x @ rotation) for m in (mu, nu)]
    assert wasserstein(*turned, p) == pytest.approx(2 * d, rel=1e-12)


@given(seeds, st.integers(1, 4))
def test_order_of_the_distances(seed, dim):
    mu = cloud(seed, 6, dim)
    nu = Measure(cloud(seed + 1, 6, dim).atoms, mu.weights)
    w1, w2 = wasserstein(mu, nu, 1), wasserstein(mu, nu, 2)
    assert w1 <= w2 * (1 + 1e-12)
    assert w2 <= coupled_distance(mu, nu) * (1 + 1e-12)
    sliced = sliced_w2(mu, nu, seed, 20)
    assert sliced.distance <= w2 * (1 + 1e-12)
    if dim == 1:
        assert sliced.distance == pytest.approx(w2, rel=1e-12)
        assert sliced.error < 1e-12 * w2


def test_coupled_distance():
    mu = Measure([[0.0, 0.0], [1.0, 1.0]], [0.25, 0.75])
    nu = Measure([[3.0, 4.0], [1.0, 3.0]], [0.25, 0.75])
    assert coupled_distance(mu, nu) == pytest.approx(math.sqrt(0.25 * 25 + 0.75 * 4), rel=1e-15)
    assert coupled_distance(mu, mu) == 0


# ---------------------------------------------------------------------------------------------
# sliced distance


def test_sliced_distance_of_a_translation():
    """The mean square is |c|^2 / D, within five standard errors that are themselves small."""
    dim, c = 5, np.array([1.0, -2.0, 0.5, 3.0, 0.0])
    mu = cloud(16, 10, dim)
    found = sliced_w2(mu, mu.map(lambda x: x + c), 17, 2000)
    exact = np.linalg.norm(c) / math.sqrt(dim)
    assert 0 < found.error < 0.03 * exact
    assert abs(found.distance - exact) < 5 * found.error
    assert abs(found.distance**2 - exact**2) < 10 * found.distance * found.error


def test_error_of_the_sliced_distance_is_the_spread_of_repetitions():
    mu, nu = cloud(18, 8, 4), cloud(19, 7, 4)
    rng = np.random.default_rng(20)
    runs = [sliced_w2(mu, nu, rng, 50) for _ in range(60)]
    spread = np.std([run.distance for run in runs], ddof=1)
    # 60 repetitions know their spread to 10 per cent
    assert np.mean([run.error for run in runs]) == pytest.approx(spread, rel=0.4)


def test_sliced_distance_is_symmetric_for_unequal_weights():
    mu, nu = cloud(0, 6, 2), cloud(1, 9, 2)
    assert sliced_w2(mu, nu, 3).distance == pytest.approx(sliced_w2(nu, mu, 3).distance, rel=1e-12)


@given(seeds, st.integers(1, 12), st.integers(1, 12))
def test_plans_on_the_line_are_monotone(seed, n, m):
    mu, nu = cloud(seed, n, 1), cloud(seed + 1, m, 1)
    plan = optimal_plan(mu, nu, 2)
    x, y = mu.atoms[plan.source, 0], nu.atoms[plan.target, 0]
    heavy = plan.mass > 1e-12
    y = y[heavy][np.lexsort((y[heavy], x[heavy]))]
    assert (np.diff(y) >= 0).all() and len(y) <= n + m - 1
    np.testing.assert_allclose(np.bincount(plan.source, plan.mass, n), mu.weights, atol=1e-12)
    np.testing.assert_allclose(np.bincount(plan.target, plan.mass, m), nu.weights, atol=1e-12)


def test_sliced_distance_by_hand(monkeypatch):
    """Blocks of any size give the numbers of one direction after the other."""
    mu, nu = cloud(21, 6, 3), cloud(22, 9, 3)
    u = np.random.default_rng(23).normal(size=(7, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    squares = [
        wasserstein(*(m.map(lambda x, v=v: x @ v[:, None]) for m in (mu, nu))) ** 2 for v in u
    ]
    found = sliced_w2(mu, nu, 23, 7)
    assert found.distance == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-12)
    error = np.std(squares, ddof=1) / math.sqrt(7) / (2 * found.distance)
    assert found.error == pytest.approx(error, rel=1e-12)
    monkeypatch.setattr(estimates, "BLOCK", 30)
    assert sliced_w2(mu, nu, 23, 7).distance == pytest.approx(found.distance, rel=1e-14)


def test_sliced_distance_repeats_with_the_seed():
    mu, nu = cloud(24), cloud(25)
    assert sliced_w2(mu, nu, 1) == sliced_w2(mu, nu, np.random.default_rng(1))
    assert sliced_w2(mu, nu, 1) != sliced_w2(mu, nu, 2)
    assert sliced_w2(mu, mu, 1) == transport.SlicedDistance(0.0, 0.0)
    assert sliced_w2(mu, nu, 1, 1).error == math.inf


# ---------------------------------------------------------------------------------------------
# test functions and duality


def test_test_functions_have_lipschitz_constant_one():
    rng = np.random.default_rng(26)
    x = rng.normal(size=(200, 3)) * rng.exponential(2, size=(200, 1))
    gap = lengths(x, x)
    for f in random_functions(27, 3, 12):
        values = f(x)
        assert values.shape == (200,)
        assert (np.abs(values[:, None] - values) <= gap * (1 + 1e-12) + 1e-14).all()
        size = np.linalg.norm(f.gradient(x), axis=1)
        assert size.max() <= 1 + 1e-14
        if not f.name.startswith("saturated"):
            np.testing.assert_allclose(size, 1, rtol=1e-14)


@pytest.mark.parametrize("f", random_functions(28, 3, 6), ids=lambda f: f.name)
def test_gradients_of_test_functions(f):
    x, h = np.random.default_rng(29).normal(size=(20, 3)), 1e-5
    numeric = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(f.gradient(x), np.transpose(numeric), atol=1e-8)


def test_values_of_test_functions():
    x = [[3.0, 4.0], [0.0, 0.0]]
    np.testing.assert_allclose(direction([0.0, -2.0])(x), [-4, 0])
    np.testing.assert_allclose(distance_to([0.0, 0.0])(x), [5, 0])
    np.testing.assert_array_equal(distance_to([0.0, 0.0]).gradient(x), [[0.6, 0.8], [0, 0]])
    expected = 2 * np.tanh((np.array([3.0, 0.0]) - 1) / 2)
    np.testing.assert_allclose(saturated([5.0, 0.0], 1.0, 2.0)(x), expected)
    assert direction([1.0], "height").name == "height"
    assert [f.name for f in random_functions(0, 2, 2)] == ["direction 0", "distance 1"]


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_test_functions_at_huge_and_tiny_points(scale):
    x = scale * np.array([[3.0, 4.0], [-3.0, -4.0]])
    np.testing.assert_allclose(direction(x[0])(x), [5 * scale, -5 * scale], rtol=1e-14)
    np.testing.assert_allclose(distance_to([0.0, 0.0])(x), [5 * scale] * 2, rtol=1e-14)
    np.testing.assert_allclose(distance_to(x[0])(x), [0, 10 * scale], rtol=1e-14)
    np.testing.assert_allclose(distance_to(x[1]).gradient(x)[0], [0.6, 0.8], rtol=1e-14)
    step = saturated(x[0], width=1e-10)
    assert np.abs(step(x)).max() <= 1e-10
    assert np.isfinite(step.gradient(x)).all()


@given(seeds, st.integers(1, 4), st.booleans())
def test_no_test_function_sees_more_than_w1(seed, dim, uniform):
    mu, nu = cloud(seed, 6, dim, uniform), cloud(seed + 1, 6, dim, uniform)
    w1 = wasserstein(mu, nu, 1)
    for f in random_functions(seed, dim, 9):
        found = discrepancy(f, mu, nu)
        assert found <= w1 * (1 + 1e-12)
        assert found == pytest.approx(abs(mu.integrate(f(mu.atoms)) - nu.integrate(f(nu.atoms))))


@given(seeds, st.integers(1, 4), st.booleans())
def test_witness_attains_w1_and_is_lipschitz(seed, dim, uniform):
    mu, nu = cloud(seed, 7, dim, uniform), cloud(seed + 1, 5 + 2 * uniform, dim, uniform)
    f = dual_witness(mu, nu)
    assert f.distance == pytest.approx(wasserstein(mu, nu, 1), rel=1e-12)
    assert f.value == pytest.approx(f.distance, rel=1e-9)
    signed = mu.integrate(f(mu.atoms)) - nu.integrate(f(nu.atoms))
    assert signed == pytest.approx(f.value, rel=1e-12)
    assert discrepancy(f, mu, nu) == pytest.approx(f.distance, rel=1e-9)
    x = np.random.default_rng(seed).normal(size=(40, dim)) * 3
    values = f(x)
    assert (np.abs(values[:, None] - values) <= lengths(x, x) + 1e-12).all()


def test_witness_in_blocks_and_with_atoms_of_no_weight(monkeypatch):
    mu, nu = cloud(30, 7, 2), Measure(cloud(31, 4, 2).atoms, [0.5, 0.0, 0.2, 0.3])
    f, x = dual_witness(mu, nu), cloud(32, 25, 2).atoms
    assert len(f.centres) == 3
    expected = f(x)
    monkeypatch.setattr(lipschitz, "BLOCK", 12)
    np.testing.assert_array_equal(f(x), expected)
    assert dual_witness(mu, mu).value == pytest.approx(0, abs=1e-15)


def test_witness_of_two_points_is_the_distance_between_them():
    f = dual_witness(Measure([[3.0, 4.0]]), Measure([[0.0, 0.0]]))
    assert f.value == pytest.approx(5, rel=1e-15)
    x = cloud(33, 10, 2).atoms
    np.testing.assert_allclose(f(x) - f([[0.0, 0.0]]), np.linalg.norm(x, axis=1), atol=1e-14)


# ---------------------------------------------------------------------------------------------
# displacement interpolation


@given(seeds, st.integers(1, 3), st.booleans())
def test_displacement_has_constant_speed(seed, dim, uniform):
    mu, nu = cloud(seed, 6, dim, uniform), cloud(seed + 1, 6 - (not uniform), dim, uniform)
    plan = optimal_plan(mu, nu)
    path = {s: displacement(mu, nu, s, plan) for s in (0, 0.2, 0.7, 1)}
    d = plan.cost
    assert wasserstein(path[0], mu) < 1e-7 * d
    assert wasserstein(path[1], nu) < 1e-7 * d
    for s, t in ((0, 0.2), (0.2, 0.7), (0.7, 1), (0, 0.7)):
        assert wasserstein(path[s], path[t]) == pytest.approx((t - s) * d, rel=1e-9)
    np.testing.assert_array_equal(displacement(mu, nu, 0.2).atoms, path[0.2].atoms)


def test_displacement_of_a_translation_is_a_translation():
    mu = cloud(34, 10, 2)
    half = displacement(mu, mu.map(lambda x: x + [2.0, 0.0]), 0.5)
    assert wasserstein(half, mu.map(lambda x: x + [1.0, 0.0])) < 1e-7


# ---------------------------------------------------------------------------------------------
# what is refused

MU, NU, PLANE = Measure([[0.0], [1.0]]), Measure([[2.0], [3.0]]), cloud(35, 4, 2)
RIGHT = Measure(PLANE.atoms + 1, PLANE.weights)
PAIRS = {
    "wasserstein": wasserstein,
    "optimal_plan": optimal_plan,
    "sliced_w2": lambda mu, nu: sliced_w2(mu, nu, 0),
    "coupled_distance": coupled_distance,
    "discrepancy": lambda mu, nu: discrepancy(direction([1.0]), mu, nu),
    "dual_witness": dual_witness,
    "displacement": lambda mu, nu: displacement(mu, nu, 0.5),
}


def refused(call, name, error):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"{name}: ")
    return str(caught.value)


@pytest.mark.parametrize("call", PAIRS.values(), ids=PAIRS)
def test_what_is_no_pair_of_measures(call):
    call(MU, NU)
    for bad in (None, "mu", MU.atoms, [MU], Measure([[1j], [0.0]])):
        refused(lambda bad=bad: call(bad, MU), "mu", TypeError)
        refused(lambda bad=bad: call(MU, bad), "nu", TypeError)
    refused(lambda: call(MU, Measure([[0.0, 1.0]] * 2)), "nu", ValueError)
    refused(lambda: call(MU, Measure([[np.nan], [0.0]])), "atoms", ValueError)


BAD = {
    "p=3": (lambda: wasserstein(MU, NU, 3), "p", ValueError),
    "p=0": (lambda: wasserstein(MU, NU, 0), "p", ValueError),
    "p=True": (lambda: optimal_plan(MU, NU, True), "p", TypeError),
    "p=inf": (lambda: optimal_plan(MU, NU, math.inf), "p", TypeError),
    "p='2'": (lambda: wasserstein(MU, NU, "2"), "p", TypeError),
    "memory=0": (lambda: wasserstein(MU, NU, memory=0), "memory", ValueError),
    "memory=-1": (lambda: dual_witness(MU, NU, memory=-1), "memory", ValueError),
    "memory=None": (lambda: optimal_plan(MU, NU, memory=None), "memory", TypeError),
    "rng=None": (lambda: sliced_w2(MU, NU, None), "rng", TypeError),
    "rng=-1": (lambda: random_functions(-1, 2, 3), "rng", TypeError),
    "projections=0": (lambda: sliced_w2(MU, NU, 0, 0), "projections", ValueError),
    "projections=1.5": (lambda: sliced_w2(MU, NU, 0, 1.5), "projections", TypeError),
    "sizes": (lambda: coupled_distance(MU, Measure([[0.0]])), "nu", ValueError),
    "weights": (
        lambda: coupled_distance(MU, Measure([[0.0], [1.0]], [0.4, 0.6])),
        "nu",
        ValueError,
    ),
    "s=2": (lambda: displacement(MU, NU, 2), "s", ValueError),
    "s=-1": (lambda: displacement(MU, NU, -1), "s", ValueError),
    "s=nan": (lambda: displacement(MU, NU, math.nan), "s", ValueError),
    "s=None": (lambda: displacement(MU, NU, None), "s", TypeError),
    "plan=1": (lambda: displacement(MU, NU, 0.5, 1), "plan", TypeError),
    "another plan": (
        lambda: displacement(MU, NU, 0.5, optimal_plan(MU, Measure([[0.0]]))),
        "plan",
        ValueError,
    ),
    "a plan of more atoms": (
        lambda: displacement(MU, NU, 0.5, optimal_plan(MU, Measure([[0.0]] * 3))),
        "plan",
        ValueError,
    ),
    "f=None": (lambda: discrepancy(None, MU, NU), "f", TypeError),
    "f of wrong shape": (lambda: discrepancy(lambda x: x, MU, NU), "f(atoms)", ValueError),
    "f of NaN": (lambda: discrepancy(lambda x: x[:, 0] * np.nan, MU, NU), "f(atoms)", ValueError),
    "u=0": (lambda: direction([0.0, 0.0]), "u", ValueError),
    "u of strings": (lambda: saturated(["a"]), "u", TypeError),
    "u=nan": (lambda: direction([np.nan]), "u", ValueError),
    "u, a number": (lambda: saturated(1.0), "u", ValueError),
    "point=inf": (lambda: distance_to([np.inf]), "point", ValueError),
    "point=None": (lambda: distance_to(None), "point", TypeError),
    "offset=nan": (lambda: saturated([1.0], np.nan), "offset", ValueError),
    "offset=None": (lambda: saturated([1.0], None), "offset", TypeError),
    "width=0": (lambda: saturated([1.0], width=0), "width", ValueError),
    "width='1'": (lambda: saturated([1.0], width="1"), "width", TypeError),
    "dim=0": (lambda: random_functions(0, 0, 3), "dim", ValueError),
    "n=0": (lambda: random_functions(0, 2, 0), "n", ValueError),
    "n=1.0": (lambda: random_functions(0, 2, 1.0), "n", TypeError),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_arguments(kind):
    refused(*BAD[kind])


@pytest.mark.parametrize(
    "f", [*random_functions(0, 2, 3), dual_witness(PLANE, RIGHT)], ids=lambda f: type(f).__name__
)
def test_bad_points(f):
    calls = [f] if isinstance(f, transport.Witness) else [f, f.gradient]
    for call in calls:
        for bad in ([1.0, 2.0], [[1.0]], [[np.nan, 0.0]], np.zeros((0, 2))):
            refused(lambda call=call, bad=bad: call(bad), "x", ValueError)
        refused(lambda call=call: call([[1j, 0.0]]), "x", TypeError)


def test_problems_that_do_not_fit():
    big = Measure(np.zeros((3000, 2)))
    message = refused(lambda: wasserstein(big, big, memory=1e6), "memory", ValueError)
    for part in ("3000 times 3000 atoms", "0.072 GB", "0.001 GB", "sliced_w2", "resample"):
        assert part in message
    huge = Measure(np.zeros((20_000, 2)), np.r_[0.5, np.full(19_999, 0.5 / 19_999)])
    refused(lambda: wasserstein(huge, huge), "memory", ValueError)
    refused(lambda: dual_witness(huge, huge), "memory", ValueError)
    line = Measure(np.arange(20_000.0)[:, None])
    assert wasserstein(line, line.map(lambda x: x + 1), memory=1) == pytest.approx(1, rel=1e-13)
    assert wasserstein(PLANE, RIGHT, memory=4 * 8 * 16) > 0
    refused(lambda: wasserstein(PLANE, RIGHT, memory=4 * 8 * 16 - 1), "memory", ValueError)


def test_a_solver_that_stops_early_is_no_answer(monkeypatch):
    monkeypatch.setattr(solvers, "MAX_PIVOTS", 1)
    for call in (wasserstein, dual_witness):
        with pytest.raises(RuntimeError, match="not solved: numItermax reached"):
            call(cloud(36, 20), cloud(37, 20))


def test_bad_input_draws_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    for call in (
        lambda: sliced_w2(MU, PLANE, rng),
        lambda: sliced_w2(MU, NU, rng, 0),
        lambda: random_functions(rng, 2, 0),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert rng.bit_generator.state == before


def test_nothing_heavy_is_imported_with_the_module():
    """POT imports every array library it finds; only unequal weights need it."""
    code = (
        "import sys, mfbook.transport as t\n"
        "from mfbook.measure import Measure\n"
        "t.wasserstein(Measure([[0.0, 0.0]]), Measure([[1.0, 0.0]]))\n"
        "print(sorted({'ot', 'torch', 'jax', 'tensorflow', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_plans_are_values_that_cannot_be_changed():
    plan = optimal_plan(MU, NU)
    assert isinstance(plan, Plan)
    with pytest.raises(AttributeError):
        plan.cost = 0.0


# ---------------------------------------------------------------------------------------------
# ends of what is allowed, counts, and what is used where nothing is said


def test_weights_of_coupled_atoms_may_differ_by_rounding():
    def moved(by):
        return Measure([[3.0], [4.0]], [0.5 + by, 0.5 - by])

    assert coupled_distance(Measure([[0.0], [0.0]]), moved(0.9e-12)) == pytest.approx(
        math.sqrt(12.5), rel=1e-11
    )
    refused(lambda: coupled_distance(MU, moved(1.5e-12)), "nu", ValueError)


def test_an_assignment_needs_one_matrix_and_the_simplex_four():
    mu, nu = cloud(40, 5, uniform=True), cloud(41, 5, uniform=True)
    for p in (1, 2):
        assert wasserstein(mu, nu, p, memory=8 * 25) == wasserstein(mu, nu, p)
        refused(lambda p=p: wasserstein(mu, nu, p, memory=8 * 25 - 1), "memory", ValueError)
    mu, nu = cloud(40, 5), cloud(41, 3)
    assert dual_witness(mu, nu, memory=32 * 15).value > 0
    refused(lambda: dual_witness(mu, nu, memory=32 * 15 - 1), "memory", ValueError)


def test_two_gibibytes_are_allowed_where_nothing_is_said(monkeypatch):
    asked, matrix = [], solvers.cost_matrix

    def spy(x, y, p, memory, solver):
        asked.append((p, memory, solver))
        return matrix(x, y, p, memory, solver)

    monkeypatch.setattr(solvers, "cost_matrix", spy)
    mu, nu = cloud(40, 4), cloud(41, 3)
    plan, distance = optimal_plan(mu, nu), wasserstein(mu, nu)
    assert plan.cost == distance == optimal_plan(mu, nu, 2).cost
    dual_witness(mu, nu)
    assert asked == [(2, 2**31, "simplex")] * 3 + [(1, 2**31, "simplex")]


@pytest.mark.parametrize("block", [1, 19, 20, 60, 10**6])
def test_lines_are_projected_on_in_blocks_that_fit(monkeypatch, block):
    """Six atoms and four: sixty numbers hold six lines; one line at least is taken."""
    asked = []

    class Watched:
        def normal(self, size):
            asked.append(size)
            return np.random.default_rng(len(asked)).normal(size=size)

    monkeypatch.setattr(estimates.validate, "generator", lambda rng: Watched())
    monkeypatch.setattr(estimates, "BLOCK", block)
    sliced_w2(cloud(42, 6, 2), cloud(43, 4, 2), 0)  # a hundred lines
    lines = max(1, block // 10)
    sizes = [min(lines, 100 - k) for k in range(0, 100, lines)]
    assert asked == [(n, 2) for n in sizes]


def test_sliced_distance_from_its_lines(monkeypatch):
    lengths = iter([3.0, 4.0, 0.0, 0.0, 5.0])
    monkeypatch.setattr(estimates, "mean_length", lambda *_: next(lengths))
    two = sliced_w2(MU, NU, 0, 2)  # clouds of size up to 3: lengths are in quarters
    assert two.distance == pytest.approx(4 * math.sqrt(12.5), rel=1e-14)
    spread = math.sqrt(((9 - 12.5) ** 2 + (16 - 12.5) ** 2) / 1)
    assert two.error == pytest.approx(4 * spread / math.sqrt(2) / (2 * math.sqrt(12.5)), rel=1e-13)
    none = sliced_w2(MU, NU, 0, 2)
    assert (none.distance, none.error) == (0.0, 0.0)
    one = sliced_w2(MU, NU, 0, 1)
    assert one.distance == 20.0 and one.error == math.inf


def test_steps_have_widths_from_a_half_to_two():
    steps = random_functions(3, 1, 240)[2::3]
    widths = np.array([np.abs(f([[1e12], [-1e12]])).max() for f in steps])
    # all in the interval, and some in each quarter of it
    assert widths.min() >= 0.5 and widths.max() <= 2
    assert (np.histogram(widths, 4, (0.5, 2))[0] > 0).all()


def test_a_step_is_at_the_origin_and_of_width_one_where_nothing_is_said():
    x = np.array([[0.3, 1.0], [-2.0, 0.5]])
    np.testing.assert_allclose(saturated([0.0, 3.0])(x), np.tanh(x[:, 1]), rtol=1e-15)
    f = saturated([0.0, -3.0], 0.25, 2.0, "mine")
    level = np.tanh((-x[:, 1] - 0.25) / 2)
    np.testing.assert_allclose(f(x), 2 * level, rtol=1e-15)
    np.testing.assert_allclose(f.gradient(x), np.outer(1 - level**2, [0, -1]), atol=1e-16)
    assert f.name == "mine" and saturated([1.0]).name == "saturated"
    assert [direction([1.0]).name, distance_to([1.0]).name] == ["direction", "distance"]


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_directions_of_any_size(size):
    f = direction([3 * size, -4 * size])
    np.testing.assert_allclose(f([[5.0, 0.0], [0.0, 5.0]]), [3, -4], rtol=1e-14)
    np.testing.assert_allclose(f.gradient([[1.0, 1.0]] * 3), [[0.6, -0.8]] * 3, rtol=1e-14)


def test_plans_between_few_and_many_atoms():
    """A point mass is coupled with all; p decides the cost."""
    many = Measure([[0.0, 3.0], [4.0, 0.0], [0.0, 0.0]], [0.5, 0.25, 0.25])
    point = Measure([[0.0, 0.0]])
    for mu, nu in ((many, point), (point, many)):
        assert wasserstein(mu, nu, 1) == pytest.approx(2.5, rel=1e-15)
        assert wasserstein(mu, nu) == pytest.approx(math.sqrt(0.5 * 9 + 0.25 * 16), rel=1e-15)
        plan = optimal_plan(mu, nu)
        assert sorted(plan.source + plan.target) == [0, 1, 2]
        np.testing.assert_array_equal(plan.mass, [0.5, 0.25, 0.25])


def test_ends_of_the_geodesic_and_of_the_marginals():
    plan = optimal_plan(PLANE, RIGHT)
    for s, atoms in ((0, PLANE.atoms), (1, RIGHT.atoms), (0.25, PLANE.atoms + 0.25)):
        state = displacement(PLANE, RIGHT, s, plan)
        order = np.argsort(plan.source)
        np.testing.assert_allclose(state.atoms[order], atoms, rtol=1e-13, atol=1e-13)
    other = Measure(PLANE.atoms, np.roll(PLANE.weights, 1))
    refused(lambda: displacement(other, RIGHT, 0.5, plan), "plan", ValueError)
    refused(lambda: displacement(PLANE, other, 0.5, plan), "plan", ValueError)


def test_witness_of_one_point_and_many():
    f = dual_witness(Measure([[1.0, 0.0], [0.0, 2.0]], [0.25, 0.75]), Measure([[0.0, 0.0]]))
    assert f.distance == pytest.approx(1.75, rel=1e-14) == f.value
    np.testing.assert_allclose(f([[3.0, 4.0]]) - f([[0.0, 0.0]]), [5.0], rtol=1e-14)
    same = dual_witness(Measure([[2.0, 2.0]] * 2), Measure([[2.0, 2.0]] * 3))
    assert same.value == same.distance == 0


def test_warnings_of_the_simplex_are_not_shown(recwarn, monkeypatch):
    monkeypatch.setattr(solvers, "MAX_PIVOTS", 1)
    with pytest.raises(RuntimeError, match="not solved"):
        wasserstein(cloud(36, 20), cloud(37, 20))
    assert not recwarn.list


def test_a_product_keeps_every_pair_and_needs_no_matrix():
    """Elsewhere mass of the size of rounding is dropped; here all of it is exact."""
    many = Measure([[0.0, 3.0], [4.0, 0.0], [1.0, 1.0]], [0.5, 0.5, 1e-17])
    point = Measure([[0.0, 0.0]])
    for mu, nu in ((many, point), (point, many)):
        plan = optimal_plan(mu, nu, memory=1)
        np.testing.assert_array_equal(plan.mass, [0.5, 0.5, 1e-17])
    line = optimal_plan(Measure([[0.0], [1.0], [2.0]], [0.5, 0.5, 1e-17]), MU)
    assert len(line.mass) == 2


def test_a_plan_that_is_given_does_not_excuse_other_measures():
    plan = optimal_plan(MU, NU)
    refused(lambda: displacement(MU, Measure([[1j], [0.0]]), 0.5, plan), "nu", TypeError)
    refused(lambda: displacement(MU, Measure([[0.0, 1.0]] * 2), 0.5, plan), "nu", ValueError)
    refused(lambda: displacement(MU.atoms, NU, 0.5, plan), "mu", TypeError)
