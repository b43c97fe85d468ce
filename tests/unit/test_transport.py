"""Transport: closed forms, other solvers, the axioms of a distance, duality and geodesics."""

import math

import numpy as np
import ot.lp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from companion.mathematics.lipschitz import (
    direction,
    discrepancy,
    distance_to,
    dual_witness,
    saturated,
)
from mfbook.measure import Measure
from mfbook.transport import (
    coupled_distance,
    displacement,
    optimal_plan,
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
@given(seed=seeds, n=st.integers(1, 12), m=st.integers(1, 12), dim=st.integers(1, 2))
def test_plan_has_the_marginals_and_the_cost(p, seed, n, m, dim):
    mu, nu = cloud(seed, n, dim, seed % 2), cloud(seed + 1, m, dim, seed % 2)
    plan = optimal_plan(mu, nu, p)
    assert (plan.mass > 0).all() and len(plan.mass) <= n + m - 1
    for index, measure in ((plan.source, mu), (plan.target, nu)):
        marginal = np.bincount(index, plan.mass, measure.size)
        np.testing.assert_allclose(marginal, measure.weights, atol=1e-12)
    step = np.linalg.norm(mu.atoms[plan.source] - nu.atoms[plan.target], axis=1)
    assert plan.cost == wasserstein(mu, nu, p)
    assert plan.cost == pytest.approx((plan.mass @ step**p) ** (1 / p), rel=1e-14)
    if dim == 1:  # equal quantiles are coupled
        heavy = plan.mass > 1e-12
        x, y = mu.atoms[plan.source[heavy], 0], nu.atoms[plan.target[heavy], 0]
        assert (np.diff(y[np.lexsort((y, x))]) >= 0).all()


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
@pytest.mark.parametrize("scale", [1e-75, 1e74])
def test_tiny_and_huge_distances(p, uniform, dim, scale):
    mu, nu = cloud(9, 6, dim, uniform), cloud(10, 6, dim, uniform)
    small, large = (m.map(lambda x: x * scale) for m in (mu, nu))
    assert wasserstein(small, large, p) == pytest.approx(scale * wasserstein(mu, nu, p), rel=1e-12)
    coupled = Measure(large.atoms, small.weights)
    assert 0 < coupled_distance(small, coupled) < 1e3 * scale


@orders
@pytest.mark.parametrize("dim", [1, 2])
def test_descriptions_of_one_measure(p, dim):
    """Weights are not atoms: double weight, repeated atoms and atoms of no weight."""
    x, nu = cloud(11, 4, dim).atoms, cloud(12, 5, dim)
    weighted = Measure(x, [0.2, 0.4, 0.2, 0.2])
    repeated = Measure(x[[0, 1, 2, 1, 3]])
    padded = Measure(np.concatenate([[[99.0] * dim], x]), [0.0, 0.2, 0.4, 0.2, 0.2])
    rounded = Measure(x, weighted.weights * (1 + 9e-10))  # a sum that is accepted as one
    d = wasserstein(weighted, nu, p)
    for same in (repeated, repeated.merge(), padded, rounded):
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


# ---------------------------------------------------------------------------------------------
# properties


@orders
@given(seed=seeds, dim=st.integers(1, 3), uniform=st.booleans())
def test_axioms_and_invariances(p, seed, dim, uniform):
    a, b, c = (cloud(seed + k, 5 + k * (not uniform), dim, uniform) for k in range(3))
    ab, bc, ac = (wasserstein(*pair, p) for pair in ((a, b), (b, c), (a, c)))
    assert wasserstein(a, a, p) == 0 < ab
    assert wasserstein(b, a, p) == pytest.approx(ab, rel=1e-12)
    assert ac <= (ab + bc) * (1 + 1e-12)
    rng = np.random.default_rng(seed)
    order, rotation = rng.permutation(5), np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    shuffled = Measure(a.atoms[order], a.weights[order])
    assert wasserstein(shuffled, b, p) == pytest.approx(ab, rel=1e-12)
    assert wasserstein(shuffled, a, p) == 0
    turned = [m.map(lambda x: 2 * x @ rotation) for m in (a, b)]
    assert wasserstein(*turned, p) == pytest.approx(2 * ab, rel=1e-12)


@given(seeds, st.integers(1, 4))
def test_order_of_the_distances(seed, dim):
    mu = cloud(seed, 6, dim)
    nu = Measure(cloud(seed + 1, 6, dim).atoms, mu.weights)
    w1, w2, coupled = wasserstein(mu, nu, 1), wasserstein(mu, nu, 2), coupled_distance(mu, nu)
    assert w1 <= w2 * (1 + 1e-12) <= coupled * (1 + 2e-12)
    squares = ((mu.atoms - nu.atoms) ** 2).sum(axis=1)
    assert coupled == pytest.approx(math.sqrt(mu.weights @ squares), rel=1e-14)


# ---------------------------------------------------------------------------------------------
# test functions and duality


def some(seed, dim, n):
    """Test functions on R^dim of all three kinds."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < n:
        u, v, w = rng.normal(size=(3, dim))
        step = saturated(w, rng.normal(), rng.uniform(0.5, 2), "saturated")
        found += [direction(u), distance_to(v), step]
    return found[:n]


@given(seeds, st.integers(1, 4), st.booleans())
def test_no_test_function_sees_more_than_w1(seed, dim, uniform):
    mu, nu = cloud(seed, 6, dim, uniform), cloud(seed + 1, 6, dim, uniform)
    w1 = wasserstein(mu, nu, 1)
    for f in some(seed, dim, 9):
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


# ---------------------------------------------------------------------------------------------
# what is refused

MU, NU, PLANE = Measure([[0.0], [1.0]]), Measure([[2.0], [3.0]]), cloud(35, 4, 2)
RIGHT = Measure(PLANE.atoms + 1, PLANE.weights)
PLAN, ROLLED = optimal_plan(PLANE, RIGHT), Measure(PLANE.atoms, np.roll(PLANE.weights, 1))
BIG = Measure(np.zeros((20_000, 2)), np.r_[0.5, np.full(19_999, 0.5 / 19_999)])


def refused(call, name, error=ValueError):
    with pytest.raises(error, match=rf"^{name}\b"):
        call()


BAD = {
    "order": (lambda: wasserstein(MU, NU, 3), "p"),
    "sizes": (lambda: coupled_distance(MU, Measure([[0.0]])), "nu"),
    "weights": (lambda: coupled_distance(MU, Measure(MU.atoms, [0.5 + 2e-12, 0.5 - 2e-12])), "nu"),
    "another plan": (lambda: displacement(ROLLED, RIGHT, 0.5, PLAN), "plan"),
    "another target": (lambda: displacement(PLANE, ROLLED, 0.5, PLAN), "plan"),
    "a plan of more atoms": (
        lambda: displacement(MU, NU, 0.5, optimal_plan(MU, Measure([[0.0]] * 3))), "plan"
    ),
    "two gibibytes": (lambda: wasserstein(BIG, BIG), "mu"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_bad_arguments(kind):
    refused(*BAD[kind])


def test_weights_equal_up_to_rounding_are_coupled():
    assert coupled_distance(MU, Measure(MU.atoms, [0.5 + 9e-13, 0.5 - 9e-13])) == 0
    line = Measure(np.arange(20_000.0)[:, None])
    assert wasserstein(line, line.map(lambda x: x + 1)) == pytest.approx(1, rel=1e-13)


def test_a_solver_that_stops_early_is_no_answer(recwarn, monkeypatch):
    whole = ot.lp.emd
    monkeypatch.setattr(
        ot.lp, "emd", lambda *a, **options: whole(*a, **options | {"numItermax": 1})
    )
    for call in (wasserstein, dual_witness):
        with pytest.raises(RuntimeError, match="not solved"):
            call(cloud(36, 20), cloud(37, 20))
    assert not recwarn.list
