"""The least first variation on circles and spheres: a bracket that holds and closes."""

import math

import numpy as np
import pytest

from mfbook.landscape import least_first_variation
from mfbook.measure import Measure
from mfbook.models.activations import Activation, leaky_relu
from mfbook.models.sphere import SphereEnergy, fourier_coefficients
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Sphere

ACTIVATIONS = ("relu", "leaky_relu", "gelu", "silu", "tanh", "linear")
B2 = np.array([[1.5, 0.4], [0.4, -0.8]])
#: No bound on its second derivative is known.
SINE = Activation(
    "sine", np.sin, lambda s: 2 - 2 * np.cos(s), np.cos, tuple(np.pi * np.arange(-3, 4))
)
#: Two lines, of which nothing is known; and one steeper line on either side.
BENT = Activation(
    "bent",
    lambda s: np.where(s > 0, 3 * s, s / 2),
    lambda s: np.where(s > 0, 3 * s * s, s * s / 2),
    lambda s: np.where(s > 0, 3.0, 0.5),
    analytic=False,
)


def energy(beta, activation="relu", seed=0, J=2, d=2, *, scale=1.0, bias=False, B=None):
    rng = np.random.default_rng(seed)
    a = Sphere().sample(rng, J, d)
    omega = scale * rng.normal(size=J)
    b = rng.normal(size=J) / 2 if bias else None
    return SphereEnergy(beta, a, omega, activation, bias=b, B=B)


def random_measure(seed, n, d=2):
    rng = np.random.default_rng(seed)
    return Measure(Sphere().sample(rng, n, d), rng.dirichlet(np.ones(n)))


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def circle(n):
    return on_circle(2 * np.pi * np.arange(n) / n)


def curvature(F, d=2):
    """The documented bound on second derivatives, to which the tolerance is relative."""
    total = 1.0 if F.B is None else np.abs(np.linalg.eigvalsh(F.B)).max()
    for j, omega in enumerate(() if F.omega is None else F.omega):
        b = 0.0 if F.bias is None else F.bias[j]
        centre = abs(float(F.activation.sigma(np.array([b]))[0]))
        total += abs(omega) * (F.activation.lipschitz(1 + abs(b)) + centre)
    return total


def rounding(F):
    return 1e-14 * (1 + 1 / F.beta + (0 if F.omega is None else np.abs(F.omega).sum()))


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bound_is_below_a_dense_search_on_the_circle(activation, bias):
    B = np.array([[1.0, 0.5], [0.5, -2.0]])
    for seed, beta in enumerate((1e-3, 1.0, 30.0, 1000.0)):
        for matrix in (None, B):
            F = energy(beta, activation, seed, 3, bias=bias, B=matrix)
            mu = random_measure(seed, 5)
            least = F.at(mu).minimise(0)
            dense = F.at(mu).first_variation(circle(20_000)).min()
            rounding = 1e-14 * (1 + 1 / beta) + 1e-15 * np.abs(F.omega).sum()
            assert least.lower_bound <= dense + rounding
            assert least.value <= dense + rounding
            assert least.converged
            assert least.value - least.lower_bound <= 2e-13 + 1e-14 / beta
            assert least.value == pytest.approx(
                F.at(mu).first_variation(least.point[None])[0], abs=rounding
            )


@pytest.mark.parametrize("d", (3, 4))
@pytest.mark.parametrize("activation", ("relu", "gelu", "tanh"))
def test_bound_is_below_a_dense_search_on_spheres(d, activation):
    for seed, beta in enumerate((0.1, 5.0)):
        F = energy(beta, activation, seed, 3, d, bias=seed == 1)
        mu = random_measure(seed, 20, d)
        least = F.at(mu).minimise(0)
        x = Sphere().sample(np.random.default_rng(9), 20_000, d)
        dense = F.at(mu).first_variation(x).min()
        assert least.converged
        assert least.lower_bound <= least.value <= dense + 1e-12
        assert least.value - least.lower_bound <= 1e-12
        gap = frank_wolfe_gap(F, mu, 0)
        assert 0 <= gap.found <= gap.rigorous


def test_a_small_budget_is_admitted_and_still_bounds():
    F = energy(5.0, "relu", 1, 3, 5)
    mu = random_measure(0, 30, 5)
    full = F.at(mu).minimise(0)
    bounds = []
    for budget in (1, 10_000, 100_000):
        least = F.at(mu).minimise(0, budget=budget)
        assert not least.converged
        assert np.isfinite(least.lower_bound) and least.lower_bound <= full.value
        bounds.append(least.lower_bound)
    assert bounds == sorted(bounds)
    G = energy(5.0, "relu", 1)
    least = G.at(random_measure(0, 30)).minimise(0, budget=3000)
    assert not least.converged and least.lower_bound < least.value


# ----------------------------------------------------------------------- budgets and tolerances


CASES = {
    "relu": (energy(30.0, "relu", 3, 3, scale=0.3, bias=True), random_measure(3, 5)),
    "sine": (energy(30.0, SINE, 3, 3, scale=0.3, bias=True), random_measure(3, 5)),
    "bent": (energy(3.0, BENT, 1, 3, scale=2.0, bias=True, B=B2), random_measure(4, 7)),
    "relu, sphere": (energy(1.0, "relu", 3, 3, 3, bias=True), random_measure(5, 4, 3)),
    "bent, sphere": (energy(4.0, BENT, 2, 2, 3, scale=2.0), random_measure(6, 4, 3)),
    "tanh, general": (
        energy(2.0, "tanh", 1, 3, 3, B=np.diag([1.0, -2.0, 0.5])),
        random_measure(1, 6, 3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bracket_holds_whenever_it_is_asked_to_stop(name):
    F, mu = CASES[name]
    local, d = F.at(mu), mu.dim
    x = circle(20_000) if d == 2 else Sphere().sample(0, 20_000, d)
    values, room = local.first_variation(x), rounding(F)
    bounds = []
    for tolerance, budget in (
        *((1e-14, b) for b in (1, 1500, 8000, 50_000, 2_000_000)),
        *((t, 2_000_000) for t in (3.0, 0.03, 1e-4)),
    ):
        found = local.minimise(0, tolerance=tolerance, budget=budget)
        assert np.linalg.norm(found.point) == pytest.approx(1, abs=1e-14)
        assert found.value == pytest.approx(local.first_variation(found.point[None])[0], abs=room)
        assert found.lower_bound <= min(found.value, values.min() + room)
        width = found.value - found.lower_bound
        assert not found.converged or width <= tolerance * curvature(F) + 2 * room
        assert np.isfinite(found.lower_bound)
        if tolerance == 1e-14:
            bounds.append((found.lower_bound, found.evaluations))
            assert (budget > 1 or not found.converged) and (budget < 10**6 or found.converged)
        else:
            assert found.converged and found.evaluations <= bounds[-1][1]
    low, spent = np.array(bounds).T
    # more of a budget never loosens the bound
    assert (np.diff(low) >= -room).all() and (np.diff(spent) >= 0).all() and spent[0] < spent[-1]


# ------------------------------------------------------------------------------ known minima


@pytest.mark.parametrize("d", (2, 3, 8, 9, 40))
@pytest.mark.parametrize("beta", (0.01, 1.0, 20.0))
def test_one_atom_without_units(d, beta):
    """Least at the antipode, where Jensen's inequality is an equality, in any dimension."""
    x = random_measure(d, 1, d).atoms
    found = least_first_variation(
        SphereEnergy(beta), x, np.ones(1), 0, budget=10**7 if d == 2 else 9000
    )
    exact = math.exp(-2 * beta) / beta
    assert found.value == pytest.approx(exact, abs=1e-14 + 1e-14 / beta)
    assert -3e-14 * (1 + 1 / beta) <= found.lower_bound - exact <= 0
    if beta < 10:
        assert found.point @ x[0] == pytest.approx(-1, abs=1e-9)
    assert found.converged or d > 2


def test_beyond_eight_dimensions_the_bound_is_crude_and_says_so():
    F, mu = SphereEnergy(1.0), random_measure(0, 4, 9)
    mean = np.linalg.norm(mu.weights @ mu.atoms)
    found = F.at(mu).minimise(0)
    assert not found.converged
    assert found.lower_bound == pytest.approx(math.exp(-mean - 1), rel=1e-12) and (
        found.lower_bound <= F.at(mu).first_variation(Sphere().sample(1, 2000, 9)).min()
    )
    gap = frank_wolfe_gap(F, mu, 0)
    assert 0 <= gap.found <= gap.rigorous < np.inf and not gap.converged


@pytest.mark.parametrize("beta", (0.05, 2.0, 40.0))
def test_a_flat_function_is_bounded_at_once(beta):
    """Equal atoms at equal angles: constant, so no division of the circle would ever end."""
    F, n = SphereEnergy(beta), 200
    found = least_first_variation(F, circle(n), np.full(n, 1 / n), 0, budget=1)
    assert found.converged
    assert found.value == pytest.approx(fourier_coefficients(beta)[0] / beta, rel=1e-12)
    assert 0 <= found.value - found.lower_bound <= 1e-13 * (1 + 1 / beta)


def test_a_minimum_at_the_seam():
    """Symmetric atoms: the minimum is at the angle zero, where the search begins and ends."""
    w = np.array([0.2, 0.4, 0.4])
    atoms = on_circle(np.array([np.pi, 2.0, -2.0]))
    found = least_first_variation(SphereEnergy(4.0), atoms, w, 0)
    exact = (np.exp(4.0 * (atoms[:, 0] - 1)) / 4) @ w
    assert found.value == pytest.approx(exact, abs=1e-16) and found.converged
    np.testing.assert_allclose(found.point, [1, 0], atol=1e-8)


@pytest.mark.parametrize("activation", ("relu", leaky_relu(0.3), BENT))
@pytest.mark.parametrize("bias", (-0.3, 0.0, 0.6))
def test_a_minimum_beside_a_kink(activation, bias):
    """A strong unit and an atom behind it: a function of the height alone, by a fine grid."""
    a, omega, beta = np.eye(2)[:1], np.array([40.0]), 1.0
    F = SphereEnergy(beta, a, omega, activation, bias=[bias])
    found = least_first_variation(F, -a, np.ones(1), 0)
    height = np.linspace(-1, 1, 2_000_001)
    profile = np.exp(beta * (-height - 1)) / beta + 20 * F.activation.primitive(height + bias)
    assert found.converged and found.lower_bound <= profile.min() + 1e-13
    assert found.value == pytest.approx(profile.min(), abs=1e-9)
    assert found.point[0] == pytest.approx(height[profile.argmin()], abs=1e-5)


# --------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize("d", (2, 3))
@pytest.mark.parametrize("seed", range(3))
def test_rotations_permutations_repetitions_and_idle_parts(d, seed):
    rng = np.random.default_rng(seed)
    F = energy(3.0, ("gelu", "relu", SINE)[seed], seed, 3, d, bias=True)
    mu = random_measure(seed, 6, d)
    found = F.at(mu).minimise(0)
    assert found.converged and F.at(mu).minimise(0).point.tolist() == found.point.tolist()
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    turned = SphereEnergy(3.0, Sphere().project(F.a @ turn), F.omega, F.activation, bias=F.bias)
    other = turned.at(Measure(Sphere().project(mu.atoms @ turn), mu.weights)).minimise(1)
    order = rng.permutation(6)
    twice = Measure(
        np.concatenate([mu.atoms[order], mu.atoms, Sphere().sample(9, 1, d)]),
        np.concatenate([0.3 * mu.weights[order], 0.7 * mu.weights, [0.0]]),
    )
    G = SphereEnergy(
        3.0,
        np.concatenate([F.a[::-1], F.a[:1]]),
        np.append(F.omega[::-1], 0.0 if seed < 2 else 1e-200),
        F.activation,
        bias=np.append(F.bias[::-1], 0.3),
    )
    for changed in (other, F.at(twice).minimise(2), G.at(mu).minimise(3)):
        assert changed.converged and changed.value == pytest.approx(found.value, abs=1e-12)
        assert changed.lower_bound <= found.value + 1e-13


@pytest.mark.parametrize("beta", (1e-3, 1.0, 50.0, 1e4))
def test_many_atoms_against_a_sum_over_all(beta):
    F, mu = energy(beta, "gelu", seed=1), random_measure(3, 4000)
    found = F.at(mu).minimise(0)
    x = np.concatenate([found.point[None], circle(2000)])
    direct = np.exp(beta * (x @ mu.atoms.T - 1)) @ mu.weights / beta + F.potential(x) / 2
    assert found.value == pytest.approx(direct[0], abs=1e-13 * (1 + 1 / beta))
    assert found.lower_bound <= direct.min() + 1e-14 and found.converged


def test_what_is_refused():
    mu = random_measure(0, 2, 3)
    for F in (SphereEnergy(1.001e10), energy(1.001e10, d=3)):
        with pytest.raises(ValueError, match="^F: .*beta"):
            least_first_variation(F, mu.atoms, mu.weights, 0)
    with pytest.raises(TypeError, match="^F: "):
        least_first_variation(lambda mu: 0.0, mu.atoms, mu.weights, 0)
    for F, atoms in ((energy(1.0, d=3), np.eye(2)), (SphereEnergy(1.0), 2 * np.eye(2))):
        with pytest.raises(ValueError, match="^atoms: "):
            least_first_variation(F, atoms, np.full(2, 0.5), 0)
