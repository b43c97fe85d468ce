"""The minimiser on the circle and the search behind its certificate, against brute force."""

import numpy as np
import pytest
from scipy.optimize import brentq, nnls
from scipy.special import ive

from mfbook.equilibria.minimiser import (
    minimise_on_circle,
    simplex_qp,
)
from mfbook.landscape import (
    least_first_variation,
)
from mfbook.measure import Measure
from mfbook.models.activations import Activation
from mfbook.models.sphere import SphereEnergy
from mfbook.models.sphere.on_circle import (
    local_minima,
)
from mfbook.models.sphere.on_sphere import (
    SphereVariation,
    _cells,
)
from mfbook.models.sphere.search import (
    CircleVariation,
    unit_vectors,
)
from mfbook.models.sphere.units import (
    Units,
)
from mfbook.optimise import frank_wolfe_gap
from mfbook.optimise.simplex import (
    _equality,
)
from mfbook.space import Sphere

ACTIVATIONS = ("relu", "leaky_relu", "gelu", "tanh", "linear")
BETAS = (1e-3, 0.01, 1.0, 10.0, 50.0, 200.0, 1000.0)


def energy(beta, activation="relu", seed=0, J=2, d=2, *, scale=1.0, bias=False, B=None):
    rng = np.random.default_rng(seed)
    a = Sphere().sample(rng, J, d)
    omega = scale * rng.normal(size=J)
    b = rng.normal(size=J) / 2 if bias else None
    return SphereEnergy(beta, a, omega, activation, bias=b, B=B)


def random_measure(seed, n, d=2):
    rng = np.random.default_rng(seed)
    return Measure(Sphere().sample(rng, n, d), rng.dirichlet(np.ones(n)))


def circle(n):
    return unit_vectors(2 * np.pi * np.arange(n) / n)


def quadratic(F, atoms):
    """E on fixed atoms as (G, c): half w G w + c w, written down afresh."""
    B = np.eye(2) if F.B is None else F.B
    s = np.abs(np.linalg.eigvalsh(B)).max()
    return np.exp(F.beta * (atoms @ B @ atoms.T - s)) / F.beta, F.potential(atoms) / 2


def weights_by_nnls(F, atoms):
    """Optimal weights by nonnegative least squares; the constraint sum w = 1 by its multiplier.

    Minimising half w G w + (c - level) w over w >= 0 gives a mass that grows with the level.
    """
    G, c = quadratic(F, atoms)
    G = G + 1e-13 * np.trace(G) / len(c) * np.eye(len(c))
    L = np.linalg.cholesky(G)

    def solve(level):
        return nnls(L.T, np.linalg.solve(L, level - c), maxiter=1000 * len(c))[0]

    level = brentq(lambda t: solve(t).sum() - 1, c.min(), c.max() + 2 * G.max(), xtol=1e-15)
    w = solve(level)
    return w / w.sum()


def assert_optimal(F, found, tolerance=1e-10, points=100_000):
    """First-order conditions through the energy's own first variation."""
    local = F.at(found.measure)
    on = local.first_variation(found.measure.atoms)
    everywhere = local.first_variation(circle(points))
    assert np.ptp(on) <= tolerance
    assert everywhere.min() >= on.max() - tolerance
    assert abs(found.multiplier - on.mean()) <= tolerance
    assert abs(found.value - F(found.measure)) <= tolerance


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("beta", (0.1, 1.0, 10.0, 50.0))
def test_value_agrees_with_an_independent_quadratic_program(activation, beta):
    F = energy(beta, activation, seed=4, bias=activation == "tanh")
    found = minimise_on_circle(F)
    assert found.converged and 0 <= found.gap <= 1e-13
    # a grid that contains the support: the QP must put the mass there by itself
    atoms = np.concatenate([found.measure.atoms, circle(60)])
    w = weights_by_nnls(F, atoms)
    G, c = quadratic(F, atoms)
    assert abs(w @ G @ w / 2 + c @ w - found.value) <= 1e-8
    # and without the support the value is above, by the error of the grid
    grid = circle(240)
    G, c = quadratic(F, grid)
    w = weights_by_nnls(F, grid)
    excess = w @ G @ w / 2 + c @ w - found.value
    curvature = CircleVariation(F).curvature
    assert -1e-10 <= excess <= curvature * (np.pi / 240) ** 2


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("activation", ("relu", "gelu", "tanh"))
def test_optimality_conditions_for_all_temperatures(beta, activation):
    for seed, J in ((1, 2), (3, 5)):
        F = energy(beta, activation, seed, J)
        found = minimise_on_circle(F)
        assert found.converged and 0 <= found.gap <= 1e-13
        assert np.all(found.measure.weights > 0)
        assert_optimal(F, found)


def test_optimality_with_a_matrix_in_the_kernel():
    B = np.array([[1.5, 0.4], [0.4, 0.8]])
    for beta in (0.5, 20.0):
        F = energy(beta, "relu", seed=2, B=B)
        # the default tolerance is at the rounding of this kernel
        found = minimise_on_circle(F, tolerance=1e-12)
        assert found.converged
        assert_optimal(F, found)


def test_support_at_a_kink():
    """Two opposite ReLU units that repel: atoms sit where the units switch on."""
    F = SphereEnergy(20.0, [[1.0, 0.0], [-0.6, 0.8]], [3.0, 3.0])
    found = minimise_on_circle(F)
    assert found.converged
    assert_optimal(F, found)
    kinks = np.mod(CircleVariation(F).kinks, 2 * np.pi)
    theta = np.mod(np.arctan2(*found.measure.atoms.T[::-1]), 2 * np.pi)
    assert np.abs(theta[:, None] - kinks).min() < 0.1


def test_dead_zone_has_many_atoms():
    """Where all units are off the minimiser is a long chain; the gap certifies it."""
    F = energy(50.0, "relu", seed=2)
    found = minimise_on_circle(F)
    assert found.converged and found.measure.size > 10
    assert_optimal(F, found)


@pytest.mark.parametrize("activation", ("relu", "gelu"))
def test_rotation_equivariance(activation):
    F = energy(10.0, activation, seed=7)
    c, s = np.cos(0.7), np.sin(0.7)
    R = np.array([[c, -s], [s, c]])
    one = minimise_on_circle(F)
    two = minimise_on_circle(SphereEnergy(10.0, F.a @ R.T, F.omega, activation))
    assert abs(one.value - two.value) <= 1e-12
    moved = one.measure.map(lambda x: x @ R.T)
    test = circle(50)
    np.testing.assert_allclose(
        F.at(two.measure).first_variation(test) - F._v(test) / 2,
        F.at(moved).first_variation(test) - F._v(test) / 2,
        atol=1e-6,
    )


def test_order_of_units_does_not_matter():
    F = energy(30.0, "relu", seed=5, J=4)
    order = [2, 0, 3, 1]
    G = SphereEnergy(30.0, F.a[order], F.omega[order])
    assert abs(minimise_on_circle(F).value - minimise_on_circle(G).value) <= 1e-13


@pytest.mark.parametrize("sign", (1.0, -1.0))
@pytest.mark.parametrize("activation", ("relu", "gelu", "tanh"))
def test_one_unit_has_a_symmetric_minimiser(sign, activation):
    F = SphereEnergy(8.0, [[0.6, 0.8]], [sign], activation)
    found = minimise_on_circle(F)
    assert found.converged
    # the minimiser is unique: reflection about the unit leaves the first variation as it is
    a = F.a[0]
    x = circle(101)
    mirrored = 2 * (x @ a)[:, None] * a - x
    local = F.at(found.measure)
    np.testing.assert_allclose(local.first_variation(x), local.first_variation(mirrored), atol=1e-7)


@pytest.mark.parametrize("beta", BETAS)
def test_pure_attention_is_uniform(beta):
    F = SphereEnergy(beta)
    found = minimise_on_circle(F)
    assert found.converged and found.gap <= 1e-13
    assert np.ptp(found.measure.weights) == 0
    assert found.value == pytest.approx(ive(0, beta) / (2 * beta), rel=1e-12)
    assert_optimal(F, found, points=5000)


def test_weak_linear_units_have_a_density():
    """Remark 5.5: with a linear activation a continuum of stationary points is possible."""
    F = energy(2.0, "linear", seed=0, scale=0.02, bias=True)
    found = minimise_on_circle(F)
    assert found.converged
    assert_optimal(F, found)
    # delta E is the same constant everywhere
    assert np.ptp(F.at(found.measure).first_variation(circle(500))) <= 1e-12
    strong = minimise_on_circle(energy(2.0, "linear", seed=0, bias=True))
    assert strong.converged and strong.measure.size < 10


def test_gap_bounds_the_excess_energy():
    for seed in range(4):
        F = energy([0.1, 5.0, 50.0, 500.0][seed], ("relu", "gelu", "tanh", "relu")[seed], seed)
        least = minimise_on_circle(F)
        for n in (1, 3, 40):
            mu = random_measure(seed + n, n)
            gap = frank_wolfe_gap(F, mu, 0)
            assert -1e-13 <= F(mu) - least.value <= gap.rigorous
            assert gap.found <= gap.rigorous <= gap.found + 1e-13 * (1 + 1 / F.beta)
            assert gap.converged
        own = frank_wolfe_gap(F, least.measure, 0)
        assert own.rigorous <= 1e-12 * (1 + 1 / F.beta)


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


def test_series_and_direct_sums_agree():
    """Many atoms are summed by the Fourier series."""
    for beta in (1e-3, 1.0, 50.0, 1e4):
        F = energy(beta, "gelu", seed=1)
        mu = random_measure(3, 4000)
        parts = CircleVariation(F)
        series = parts.at(mu.atoms, mu.weights)
        theta = np.linspace(0, 6, 40)
        x = unit_vectors(theta)
        tangent = np.stack([-x[:, 1], x[:, 0]], axis=1)
        direct = parts.potential(x, tangent)
        for row, K in zip(direct, parts.kernel(x, tangent, mu.atoms), strict=True):
            row += K @ mu.weights
        assert series.cost < mu.size
        error = np.abs(series(theta) - direct).max(axis=1)
        assert error[0] <= 1e-13 and error[1] <= 1e-12 and error[2] <= 1e-10


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_derivatives_on_the_circle(activation):
    F = energy(7.0, activation, seed=3, J=4, bias=True, B=np.array([[1.0, 0.3], [0.3, 2.0]]))
    mu = random_measure(1, 6)
    f = CircleVariation(F).at(mu.atoms, mu.weights)
    theta, h = np.random.default_rng(0).uniform(0, 6, 20), 1e-5
    up, middle, down = f(theta + h), f(theta), f(theta - h)
    np.testing.assert_allclose((up[0] - down[0]) / (2 * h), middle[1], atol=1e-8)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * h), middle[2], atol=1e-7)
    full = F.at(mu).first_variation(unit_vectors(theta))
    np.testing.assert_allclose(middle[0] + 1 / F.beta, full, atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_constants_bound_the_derivatives(activation):
    """The bounds of the module's text against the largest derivatives found."""
    theta = np.linspace(0, 2 * np.pi, 4001)
    for seed, beta in enumerate((0.1, 1.0, 40.0)):
        F = energy(beta, activation, seed, 3, bias=True)
        parts = CircleVariation(F)
        mu = random_measure(seed, 1)
        f = parts.at(mu.atoms, mu.weights)
        second = f(theta)[2]
        assert np.abs(second).max() <= parts.curvature
        # away from kinks the third derivative by differences
        kinked = np.abs(np.subtract.outer(theta, np.mod(parts.kinks, 2 * np.pi))).min(
            axis=1, initial=np.inf
        )
        smooth = (kinked > 0.01)[:-1] & (kinked > 0.01)[1:]
        third = np.diff(second)[smooth] / np.diff(theta)[smooth]
        assert np.abs(third).max() <= parts.third * (1 + 1e-9)
        units = Units.of(F, 2)
        half_v = F.potential(unit_vectors(theta)) / 2
        assert units.least <= half_v.min() and np.abs(half_v).max() <= units.size


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
    # the crude bound stands where nothing was searched
    assert bounds[0] >= SphereVariation(F, mu.atoms, mu.weights).jensen() - 1e-13
    G = energy(5.0, "relu", 1)
    least = G.at(random_measure(0, 30)).minimise(0, budget=3000)
    assert not least.converged and least.lower_bound < least.value


def test_cells_cover_the_sphere_and_lie_in_their_caps():
    rng = np.random.default_rng(0)
    for d in (2, 3, 5):
        m = 40
        centre = rng.uniform(-0.7, 0.7, (m, d - 1))
        half = np.broadcast_to(rng.uniform(0.01, 0.3, (m, 1)), (m, d - 1))
        face = rng.integers(2 * d, size=m)
        x, reach = _cells(face, centre, half)
        for _ in range(20):
            inside, _ = _cells(face, centre + half * rng.uniform(-1, 1, half.shape), half)
            assert np.all(Sphere().distance(x, inside) <= reach)


def test_units_with_an_activation_of_ones_own():
    """Without a known bound on sigma'' the first-order bound does the work."""
    own = Activation(
        "sine", np.sin, lambda s: 2 - 2 * np.cos(s), np.cos, tuple(np.pi * np.arange(-3, 4))
    )
    rng = np.random.default_rng(0)
    F = SphereEnergy(5.0, Sphere().sample(rng, 3, 2), [2.0, -1.0, 0.5], own)
    assert not np.isfinite(CircleVariation(F).third)
    found = minimise_on_circle(F)
    assert found.converged
    assert_optimal(F, found)


def test_simplex_qp_meets_its_conditions():
    rng = np.random.default_rng(0)
    for n in (1, 2, 10, 40):
        A = rng.normal(size=(n, n))
        G, c = A @ A.T + 1e-3 * np.eye(n), rng.normal(size=n)
        w = simplex_qp(G, c, np.eye(n)[0])
        slope = G @ w + c
        assert w.min() >= 0 and w.sum() == pytest.approx(1, abs=1e-14)
        level = w @ slope
        scale = np.abs(G).max()
        assert slope.min() >= level - 1e-11 * scale
        assert np.abs(slope[w > 1e-12] - level).max() <= 1e-11 * scale


def test_bad_input():
    with pytest.raises(TypeError, match="SphereEnergy"):
        minimise_on_circle(lambda mu: 0.0)
    with pytest.raises(ValueError, match="circle"):
        minimise_on_circle(energy(1.0, d=3))
    with pytest.raises(ValueError, match="positive definite"):
        minimise_on_circle(energy(1.0, B=np.diag([1.0, -1.0])))
    with pytest.raises(ValueError, match="tolerance"):
        minimise_on_circle(energy(1.0), tolerance=0)
    with pytest.raises(ValueError, match="maxiter"):
        minimise_on_circle(energy(1.0), maxiter=0)
    mu = random_measure(0, 3)
    F = energy(1.0)
    with pytest.raises(ValueError, match="budget"):
        F.at(mu).minimise(0, budget=0)
    with pytest.raises(TypeError, match="rng"):
        least_first_variation(F, mu.atoms, mu.weights, None)
    assert F.at(mu).minimise(0, ridge=1.0) is NotImplemented


def test_unfinished_runs_say_so():
    F = energy(50.0, "relu", seed=2)
    found = minimise_on_circle(F, maxiter=1, tolerance=1e-16)
    assert not found.converged and np.isfinite(found.gap) and found.gap > 1e-16
    assert found.value >= minimise_on_circle(F).value - 1e-13


@pytest.mark.slow
def test_hundred_draws_up_to_large_beta():
    for seed in range(30):
        for beta in (1e-3, 1.0, 50.0, 1000.0):
            for activation in ("relu", "gelu", "tanh"):
                found = minimise_on_circle(energy(beta, activation, seed, 2 + seed % 4))
                assert 0 <= found.gap <= 1e-11
                assert found.converged or beta == 1000.0


def test_equal_atoms_share_their_weight():
    """The system is singular, and every division of the weight solves it."""
    w = _equality(np.ones((3, 3)), np.zeros(3), np.array([True, True, False]))
    assert w[:2].sum() == pytest.approx(1, abs=1e-14) and w[2] == 0


def test_simplex_qp_stops_after_its_steps():
    first = np.eye(3)[0]
    assert simplex_qp(np.eye(3), np.zeros(3), first, maxiter=1).tolist() == first.tolist()


def test_a_constant_function_has_its_minimum_at_a_node():
    nodes = np.linspace(0, 2 * np.pi, 5)
    theta, value = local_minima(lambda t: np.array([0 * t + 2, 0 * t, 0 * t]), nodes)
    assert theta.tolist() == [0.0] and value.tolist() == [2.0]


def test_in_many_dimensions_the_gap_is_bounded_without_a_search():
    """Nine dimensions, no unit: branch and bound is given up, Jensen's inequality is left."""
    mu = Measure(Sphere().sample(np.random.default_rng(0), 4, 9))
    gap = frank_wolfe_gap(SphereEnergy(1.0), mu, 0)
    assert 0 <= gap.found <= gap.rigorous < np.inf and not gap.converged
