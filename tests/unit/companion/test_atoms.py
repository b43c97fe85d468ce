"""Bounds on the number of atoms and on their masses, against minimisers and closed forms."""

import math

import numpy as np
import pytest
from examples import on_circle
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from companion.mathematics.atoms import atom_count_bounds, local_mass_bound
from mfbook.measure import Measure
from mfbook.sphere import SphereEnergy, minimise_on_circle


def units(degrees, weights, beta):
    return SphereEnergy(beta, on_circle(*np.radians(degrees)), weights)


def count(F):
    """Atoms of the computed minimiser, which stands for the true one where it is resolved."""
    found = minimise_on_circle(F)
    assert found.gap < 1e-12
    return found.measure.size


DRAWS = [
    (degrees, weights, beta)
    for seed in range(8)
    for rng in [np.random.default_rng(seed)]
    for degrees, weights in [(rng.uniform(0, 360, 3), rng.normal(size=3))]
    for beta in (2.0, 10.0, 50.0)
]


@pytest.mark.parametrize(("degrees", "weights", "beta"), DRAWS)
def test_the_minimisers_of_random_units_lie_between_the_bounds(degrees, weights, beta):
    F = units(degrees, weights, beta)
    found = atom_count_bounds(F)
    n = count(F)
    assert found.least <= n <= found.most
    angle = np.arctan2(*minimise_on_circle(F).measure.atoms.T[::-1])
    for left, right, most in found.arcs:
        inside = np.mod(angle - left, 2 * math.pi) <= right - left
        assert inside.sum() <= most


@pytest.mark.parametrize("beta", [1.0, 8.0, 40.0])
def test_a_dead_arc_needs_atoms_in_proportion_to_its_length(beta):
    """Two repelling units at ±(90° − ℓ/2) leave an arc ℓ dead; the formula by quadrature."""
    for width in (0.5, 1.0, 2.0):
        half = 90 - math.degrees(width) / 2
        F = units([half, -half], [3.0, 0.7], beta)
        mass = quad(lambda u, b=beta: math.exp(b * (math.cos(u) - 1)), -math.pi, math.pi)[0]
        v_mean, lam0 = 3.7 / 4, mass / (2 * math.pi)
        expected = max(width / mass, 1 / (lam0 + beta * v_mean))
        assert atom_count_bounds(F).least == pytest.approx(expected, rel=1e-9)
        assert count(F) <= atom_count_bounds(F).most


def test_one_strong_attracting_unit_holds_one_atom_for_every_beta():
    """δ_a is the minimiser for κ ≥ 1 and β ≥ 2: the bound from above does not grow with β."""
    most = [atom_count_bounds(units([20.0], [-1.2], beta)).most for beta in (5.0, 100.0, 3000.0)]
    assert count(units([20.0], [-1.2], 100.0)) == 1
    assert all(1 <= n <= 8 for n in most)


@given(turn=st.floats(0, 360), beta=st.floats(2, 200))
@settings(max_examples=20, deadline=None)
def test_a_turn_or_a_mirror_of_all_units_changes_nothing_but_the_grid(turn, beta):
    degrees, weights = np.array([10.0, 130.0, -75.0]), [0.8, 0.5, -0.3]
    first = atom_count_bounds(units(degrees, weights, beta))
    for other in (degrees + turn, -degrees):
        second = atom_count_bounds(units(other, weights, beta))
        assert second.least == pytest.approx(first.least, rel=1e-9)
        assert second.most == pytest.approx(first.most, abs=1 + 0.02 * first.most)


def test_an_analytic_potential_has_no_bound():
    """Opposite units of equal weight make v constant: the minimiser is the uniform law."""
    F = SphereEnergy(3.0, [[1.0, 0], [-1.0, 0], [0, 1.0], [0, -1.0]], [0.5] * 4)
    assert atom_count_bounds(F).most == math.inf


@pytest.mark.parametrize(("beta", "L"), [(0.1, 0.0), (0.3, 0.5), (1 / 3, 0.9)])
def test_a_tight_pair_attains_the_bound_on_masses(beta, L):
    """A pair held by one unit of weight −L, where v''/2 = L, and one atom opposite, at rest."""
    delta = 1e-3
    q = math.exp(-beta * (1 + math.cos(delta / 2)))
    inner = math.cos(delta / 2) * math.exp(beta * (math.cos(delta) - 1))
    m = (q + L * math.cos(delta / 2)) / (inner + q)
    F = SphereEnergy(beta, [[1.0, 0.0]], [-L])
    mu = Measure(on_circle(-delta / 2, delta / 2, math.pi), [m / 2, m / 2, 1 - m])
    assert np.abs(F.velocity(mu.atoms, mu)).max() < 1e-15
    assert m == pytest.approx(local_mass_bound(beta, L, delta), rel=1e-5)
    assert m <= local_mass_bound(beta, L, delta)


def test_masses_of_minimisers_respect_the_local_bound():
    for degrees, weights, beta in DRAWS:
        F = units(degrees, weights, beta)
        mu = minimise_on_circle(F).measure
        angle = np.arctan2(mu.atoms[:, 1], mu.atoms[:, 0])[:, None] - np.radians(degrees)
        # one-sided second derivatives differ at a kink only, where no atom of a minimiser sits
        half = -((np.cos(angle) > 0) * np.cos(2 * angle)) @ weights
        for m, kappa in zip(mu.weights, half, strict=True):
            assert m <= local_mass_bound(beta, kappa) + 1e-9
