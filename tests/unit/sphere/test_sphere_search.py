"""The least first variation on circles and spheres: a bracket that holds and closes."""

import math

import numpy as np
import pytest
from examples import SINE, bend, circle, on_circle, on_sphere, points
from examples import sphere_energy as energy

from mfbook.activations import NAMED, Activation, leaky_relu
from mfbook.measure import Measure
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Sphere
from mfbook.sphere import SphereEnergy, funk_hecke

B2 = np.array([[1.5, 0.4], [0.4, -0.8]])
#: Two lines, of which nothing is known; and one steeper line on either side.
BENT = Activation(
    "bent",
    lambda s: np.where(s > 0, 3 * s, s / 2),
    lambda s: np.where(s > 0, 3 * s * s, s * s / 2),
    lambda s: np.where(s > 0, 3.0, 0.5),
    analytic=False,
)


def zigzag(a, start=-np.inf):
    """A triangular wave with slopes 1 and -1: its potential is made of parabolas.

    A unit whose scores run through it has the largest second derivative that is allowed wherever
    its own direction is at a right angle, and wells at all odd multiples of 2a. Below ``start``, a
    multiple of 4a, it is zero.
    """

    def at(s):
        return np.mod(s + a, 4 * a) - a

    return Activation(
        "zigzag",
        lambda s: (s > start) * np.where(at(s) < a, -at(s), at(s) - 2 * a),
        lambda s: (
            (s > start) * np.where(at(s) < a, -(at(s) ** 2), (at(s) - 2 * a) ** 2 - 2 * a * a)
        ),
        lambda s: (s > start) * np.where(at(s) < a, -1.0, 1.0),
    )


def rounding(F):
    return 1e-14 * (1 + 1 / F.beta + (0 if F.omega is None else np.abs(F.omega).sum()))


def assert_bracket(F, mu, found, tolerance=1e-14, samples=20_000):
    """Below all values on a fine grid, attained, and as narrow as it says."""
    local, room = F.at(mu), rounding(F)
    x = circle(samples) if mu.dim == 2 else points(9, samples, mu.dim)
    assert np.linalg.norm(found.point) == pytest.approx(1, abs=1e-14)
    assert found.value == pytest.approx(local.first_variation(found.point[None])[0], abs=room)
    assert -np.inf < found.lower_bound <= min(found.value, local.first_variation(x).min() + room)
    width = found.value - found.lower_bound
    assert not found.converged or width <= tolerance * bend(F) + 20 * room


# ------------------------------------------------------------------- against a dense search


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("activation", NAMED)
def test_bound_is_below_a_dense_search_on_the_circle(activation, bias):
    for seed, beta in enumerate((1e-3, 1.0, 30.0, 1000.0)):
        for matrix in (None, B2):
            F, mu = energy(beta, activation, seed=seed, bias=bias, B=matrix), on_sphere(seed, 5, 2)
            found = F.at(mu).minimise(0)
            assert found.converged
            assert_bracket(F, mu, found)


@pytest.mark.parametrize("d", (3, 4))
@pytest.mark.parametrize("activation", ("relu", "gelu", "tanh"))
def test_bound_is_below_a_dense_search_on_spheres(d, activation):
    F, mu = energy(5.0, activation, d, bias=d == 3), on_sphere(d, 10, d)
    found = F.at(mu).minimise(0)
    assert found.converged
    assert_bracket(F, mu, found)
    gap = frank_wolfe_gap(F, mu, 0)
    assert 0 <= gap.found <= gap.rigorous


CASES = {
    "relu": (energy(30.0, "relu", seed=3, scale=0.3, bias=True), on_sphere(3, 5, 2)),
    "sine": (energy(30.0, SINE, seed=3, scale=0.3, bias=True), on_sphere(3, 5, 2)),
    "bent": (energy(3.0, BENT, seed=1, scale=2.0, bias=True, B=B2), on_sphere(4, 7, 2)),
    "relu, sphere": (energy(1.0, "relu", 3, seed=3, bias=True), on_sphere(5, 4, 3)),
    "bent, sphere": (energy(4.0, BENT, 3, seed=2, J=2, scale=2.0), on_sphere(6, 4, 3)),
    "tanh, general": (
        energy(2.0, "tanh", 3, seed=1, B=np.diag([1.0, -2.0, 0.5])), on_sphere(1, 6, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_bracket_holds_whenever_it_is_asked_to_stop(name):
    F, mu = CASES[name]
    bounds = []
    for budget in (1, 1500, 8000, 50_000, 2_000_000):
        found = F.at(mu).minimise(0, budget=budget)
        assert_bracket(F, mu, found)
        bounds.append((found.lower_bound, found.evaluations))
        assert (budget > 1 or not found.converged) and (budget < 10**6 or found.converged)
    low, spent = np.array(bounds).T
    # more of a budget never loosens the bound
    assert (np.diff(low) >= -rounding(F)).all() and (np.diff(spent) >= 0).all()
    for tolerance in (3.0, 0.03, 1e-4):
        found = F.at(mu).minimise(0, tolerance=tolerance)
        assert found.converged and found.evaluations <= spent[-1]
        assert_bracket(F, mu, found, tolerance)


# ------------------------------------------------------------------------------ known minima


def test_wells_between_the_nodes_of_a_grid():
    """Many wells of a fine zigzag on the circle; which is deepest is decided by an atom."""
    t = np.linspace(0, 2 * np.pi, 20_001)
    x = on_circle(*t)
    for seed in range(120):
        rng = np.random.default_rng(seed)
        u, y = points(rng, 2, 2)
        a = rng.uniform(0.01, 0.02)
        omega, beta = rng.uniform(0.3, 3) / a, 10 ** rng.uniform(-1, 1)
        bias, start = rng.uniform(-0.5, 0.5), -np.inf
        if seed >= 90:  # flat on the scores of units without a bias
            start = 4 * a * np.ceil(1 / (4 * a))
            bias += start + 0.5
        F = SphereEnergy(beta, u[None], [omega], zigzag(a, start), bias=[bias])
        profile = np.exp(beta * (x @ y - 1)) / beta + F.potential(x) / 2
        found = F.at(Measure(y[None])).minimise(0, tolerance=1e-8)
        assert found.converged and found.lower_bound <= profile.min() + rounding(F)


@pytest.mark.parametrize("d", (3, 4))
@pytest.mark.parametrize("seed", (6, 8, 29, 42, 0, 1))
def test_wells_on_the_sphere_where_the_steepest_top_decides(seed, d):
    """One strong unit, one atom: many rings of wells. Half the bound loses the deepest of four.

    One descent may end in the wrong ring, and the right one lies behind a top whose second
    derivative attains its bound.
    """
    t = np.linspace(0, 2 * np.pi, 20_001)
    rng = np.random.default_rng(seed)
    u, y = points(rng, 2, d)
    a = rng.uniform(0.1, 0.3)
    omega, beta = rng.uniform(3, 30) / a, 10 ** rng.uniform(-1, 1)
    F = SphereEnergy(beta, u[None], [omega], zigzag(a))
    v = y - (y @ u) * u  # the least value is on the great circle through both
    x = np.cos(t)[:, None] * u + np.sin(t)[:, None] * v / np.linalg.norm(v)
    profile = np.exp(beta * (x @ y - 1)) / beta + F.potential(x) / 2
    found = F.at(Measure(y[None])).minimise(seed, starts=1, tolerance=1e-6)
    assert found.lower_bound <= profile.min() + rounding(F)
    assert not found.converged or found.value <= profile.min() + 1e-6 * bend(F)


@pytest.mark.parametrize("d", (2, 3, 8, 9, 40))
@pytest.mark.parametrize("beta", (0.01, 1.0, 20.0))
def test_one_atom_without_units(d, beta):
    """Least at the antipode, where Jensen's inequality is an equality, in any dimension."""
    x, budget = points(d, 1, d), 10**7 if d == 2 else 9000
    found = SphereEnergy(beta).at(Measure(x)).minimise(0, budget=budget)
    exact = math.exp(-2 * beta) / beta
    assert found.value == pytest.approx(exact, abs=1e-14 + 1e-14 / beta)
    assert -3e-14 * (1 + 1 / beta) <= found.lower_bound - exact <= 0
    if beta < 10:
        assert found.point @ x[0] == pytest.approx(-1, abs=1e-9)
    assert found.converged or d > 2


@pytest.mark.parametrize("beta", (0.05, 2.0, 40.0))
def test_a_flat_function_is_bounded_at_once(beta):
    """Equal atoms at equal angles: constant, so no division of the circle would ever end."""
    n = 200
    found = SphereEnergy(beta).at(Measure(circle(n))).minimise(0, budget=1)
    assert found.converged
    assert found.value == pytest.approx(funk_hecke(beta, 2, 0) / beta, rel=1e-12)
    assert 0 <= found.value - found.lower_bound <= 1e-13 * (1 + 1 / beta)


def test_a_gap_in_a_ring_is_found_by_the_search():
    """The place of a missing atom, a hundredth of a radian wide; also where the search begins."""
    ring = circle(400)
    for i in (0, 1, 77, 250):
        F, mu = SphereEnergy(1e4), Measure(np.delete(ring, i, axis=0))
        found = F.at(mu).minimise(0, budget=1)
        np.testing.assert_allclose(found.point, ring[i], atol=1e-8)


@pytest.mark.parametrize("activation", ("relu", leaky_relu(0.3), BENT))
@pytest.mark.parametrize("bias", (-0.3, 0.0, 0.6))
@pytest.mark.parametrize("d", (2, 3))
def test_a_minimum_beside_a_kink(activation, bias, d):
    """A strong unit and an atom behind it: a function of the height alone, by a fine grid."""
    a, beta = np.eye(d)[:1], 1.0
    F = SphereEnergy(beta, a, [40.0], activation, bias=[bias])
    found = F.at(Measure(-a)).minimise(0, tolerance=1e-14 if d == 2 else 1e-7)
    height = np.linspace(-1, 1, 200_001)
    profile = np.exp(beta * (-height - 1)) / beta + 20 * F.activation.primitive(height + bias)
    assert found.converged and found.lower_bound <= profile.min() + 1e-13
    assert found.value == pytest.approx(profile.min(), abs=1e-7)
    assert found.point[0] == pytest.approx(height[profile.argmin()], abs=1e-3)


# --------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize("d", (2, 3))
@pytest.mark.parametrize("seed", range(3))
def test_rotations_permutations_repetitions_and_idle_parts(d, seed):
    rng, project = np.random.default_rng(seed), Sphere().project
    F = energy(3.0, ("gelu", "relu", SINE)[seed], d, seed=seed, bias=True)
    mu = on_sphere(seed, 6, d)
    found = F.at(mu).minimise(0)
    assert found.converged and F.at(mu).minimise(0).point.tolist() == found.point.tolist()
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    turned = SphereEnergy(3.0, project(F.a @ turn), F.omega, F.activation, bias=F.bias)
    order = rng.permutation(6)
    twice = Measure(
        np.concatenate([mu.atoms[order], mu.atoms, points(9, 1, d)]),
        np.concatenate([0.3 * mu.weights[order], 0.7 * mu.weights, [0.0]]),
    )
    G = SphereEnergy(
        3.0,
        np.concatenate([F.a[::-1], F.a[:1]]),
        np.append(F.omega[::-1], 0.0 if seed < 2 else 1e-200),
        F.activation,
        bias=np.append(F.bias[::-1], 0.3),
    )
    nu = Measure(project(mu.atoms @ turn), mu.weights)
    for functional, measure in ((turned, nu), (F, twice), (G, mu)):
        changed = functional.at(measure).minimise(1)
        assert changed.converged and changed.value == pytest.approx(found.value, abs=1e-12)
        assert changed.lower_bound <= found.value + 1e-13
