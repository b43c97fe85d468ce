"""The minimiser on the circle: its certificate, against brute force, closed forms, invariances."""

import numpy as np
import pytest
from scipy.optimize import brentq, nnls
from scipy.special import ive

from mfbook.equilibria import minimise_on_circle
from mfbook.landscape import least_first_variation
from mfbook.measure import Measure
from mfbook.models.activations import Activation
from mfbook.models.sphere import SphereEnergy
from mfbook.optimise import frank_wolfe_gap
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


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def circle(n):
    return on_circle(2 * np.pi * np.arange(n) / n)


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
    b = np.zeros(2) if F.bias is None else np.abs(F.bias)
    curvature = 1 + np.abs(F.omega) @ (2 * F.activation.lipschitz(2.0) + b)
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
    assert np.abs(found.measure.atoms @ F.a.T).min() < 0.1


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
        F.at(two.measure).first_variation(test) - F.potential(test) / 2,
        F.at(moved).first_variation(test) - F.potential(test) / 2,
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


def test_units_with_an_activation_of_ones_own():
    """Without a known bound on sigma'' the first-order bound does the work."""
    own = Activation(
        "sine", np.sin, lambda s: 2 - 2 * np.cos(s), np.cos, tuple(np.pi * np.arange(-3, 4))
    )
    rng = np.random.default_rng(0)
    F = SphereEnergy(5.0, Sphere().sample(rng, 3, 2), [2.0, -1.0, 0.5], own)
    found = minimise_on_circle(F)
    assert found.converged
    assert_optimal(F, found)


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


@pytest.mark.slow
def test_hundred_draws_up_to_large_beta():
    for seed in range(30):
        for beta in (1e-3, 1.0, 50.0, 1000.0):
            for activation in ("relu", "gelu", "tanh"):
                found = minimise_on_circle(energy(beta, activation, seed, 2 + seed % 4))
                assert 0 <= found.gap <= 1e-11
                assert found.converged or beta == 1000.0


# --------------------------------------------------------------------------- what is promised


def random_energy(seed):
    """Any kernel and any units, with kinks, biases, a matrix, many weights of either sign."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 2))
    return energy(
        10 ** rng.uniform(-2, 3),
        ACTIVATIONS[seed % 5],
        seed,
        int(rng.integers(1, 5)),
        scale=10 ** rng.uniform(-3, 1),
        bias=bool(rng.integers(2)),
        B=A @ A.T + 0.2 * np.eye(2) if rng.integers(3) == 0 else None,
    )


def assert_certified(F, found, tolerance):
    """What is said about the measure is true of it, and the gap holds for its neighbours."""
    mu, local = found.measure, F.at(found.measure)
    weight = 0.0 if F.omega is None else np.abs(F.omega).sum()
    size = 1e-14 * (1 + 1 / F.beta + weight)
    angles = np.mod(np.arctan2(*mu.atoms.T[::-1]), 2 * np.pi)
    assert (np.diff(angles) > 0).all() and (mu.weights > 0).all()
    assert mu.weights.sum() == pytest.approx(1, abs=1e-14)
    mean = mu.weights @ local.first_variation(mu.atoms)
    assert found.value == pytest.approx(F(mu), abs=10 * size)
    assert found.multiplier == pytest.approx(mean, abs=10 * size)
    dense = local.first_variation(circle(20_000)).min()
    assert mean - dense - 10 * size <= found.gap
    assert found.gap <= mean - local.minimise(0).lower_bound + 10 * size
    assert found.converged == (found.gap <= tolerance)
    rng = np.random.default_rng(mu.size)
    for step in (0.0, 1e-4, 1e-2, 1.0):
        w = mu.weights * np.exp(step * rng.normal(size=mu.size))
        nu = Measure(on_circle(angles + step * rng.normal(size=mu.size)), w / w.sum())
        assert F(nu) >= found.value - found.gap - 10 * size
    alone = min(F(Measure.dirac(x)) for x in circle(40))
    assert alone >= found.value - found.gap - 10 * size


@pytest.mark.parametrize("seed", range(3, 11))
def test_certificate_of_finished_and_of_unfinished_runs(seed):
    F, gaps, least = random_energy(seed), [], []
    for maxiter in (1, 3, 50):
        found = minimise_on_circle(F, maxiter=maxiter, tolerance=1e-12)
        assert found.rounds <= maxiter
        assert_certified(F, found, 1e-12)
        gaps.append(found.gap), least.append(found.value - found.gap)
    # the best of all rounds is returned, not the last
    assert (np.diff(gaps) <= 1e-12).all() and found.converged
    assert max(least) <= found.value + 1e-11


@pytest.mark.parametrize("seed", (0, 1, 3, 4))
def test_less_is_done_for_a_larger_tolerance(seed):
    F = random_energy(seed)
    runs = [minimise_on_circle(F, tolerance=t) for t in (10.0, 1e-2, 1e-5, 1e-12)]
    for tolerance, found in zip((10.0, 1e-2, 1e-5, 1e-12), runs, strict=True):
        assert_certified(F, found, tolerance)
        assert found.value <= runs[-1].value + found.gap + 1e-12
    assert (np.diff([f.rounds for f in runs]) >= 0).all() and runs[0].rounds == 0
    assert runs[0].evaluations < runs[-1].evaluations or runs[-1].rounds == 0


@pytest.mark.parametrize("angle", (0.0, 0.2))
@pytest.mark.parametrize("sign", (1, -1))
def test_a_density_that_would_be_negative_is_refused(angle, sign):
    """A linear unit: the density is 1 + A cos(2 (theta - alpha)), and A = 1 is the limit."""
    beta = 2.0
    limit = 2 * ive(2, beta) * 2 / beta
    a = [[np.cos(angle), np.sin(angle)]]
    below, above = (SphereEnergy(beta, a, [sign * A * limit], "linear") for A in (0.999, 1.001))
    smooth, cut = minimise_on_circle(below), minimise_on_circle(above, tolerance=1e-12)
    assert np.ptp(below.at(smooth.measure).first_variation(circle(500))) <= 1e-13
    # 2 <cos(2 (theta - alpha))> is the amplitude
    second = 2 * smooth.measure.weights @ (2 * (smooth.measure.atoms @ a[0]) ** 2 - 1)
    assert second == pytest.approx(-sign * 0.999, abs=1e-12)
    assert cut.converged and (cut.measure.weights > 0).all()
    assert_optimal(above, cut)


def test_the_density_of_a_weak_smooth_unit_in_closed_form():
    """Its coefficients make the first variation constant, which a long series decides."""
    beta = 100.0
    F = SphereEnergy(beta, [[0.6, 0.8]], [2e-4], "tanh", bias=[0.5])
    mu = minimise_on_circle(F, tolerance=1e-12).measure
    t = 2 * np.pi * np.arange(600) / 600
    k = np.arange(1, 15)
    v = F.potential(on_circle(t)) / 2 @ np.exp(-1j * np.outer(t, k)) / 300
    moments = 2 * mu.weights @ np.exp(-1j * np.outer(np.arctan2(*mu.atoms.T[::-1]), k))
    np.testing.assert_allclose(moments, -beta * v / ive(k, beta), atol=1e-10)
    assert np.ptp(F.at(mu).first_variation(circle(1000))) <= 1e-12


def test_a_scaled_identity_is_another_temperature():
    F = energy(6.0, "gelu", 4, bias=True)
    for s in (0.25, 3.0):
        G = SphereEnergy(6.0 / s, F.a, s * F.omega, "gelu", bias=F.bias, B=s * np.eye(2))
        one, other = minimise_on_circle(F), minimise_on_circle(G, tolerance=1e-12)
        assert other.value == pytest.approx(s * one.value, abs=1e-11)


def test_repeated_idle_and_divided_units():
    F = energy(12.0, "relu", 3, J=3, bias=True)
    value = minimise_on_circle(F).value
    a, bias = np.concatenate([F.a, F.a, F.a[:1]]), np.concatenate([F.bias, F.bias, [0.1]])
    G = SphereEnergy(12.0, a, [*0.3 * F.omega, *0.7 * F.omega, 0.0], "relu", bias=bias)
    assert minimise_on_circle(G).value == pytest.approx(value, abs=1e-13)


def test_a_steep_activation_of_ones_own():
    """Too steep for a series or a bound on its curvature; what is said still holds."""
    k = 1000.0
    steep = Activation(
        "steep",
        lambda z: np.tanh(k * z),
        lambda z: 2 * np.logaddexp(k * z, -k * z) / k - 2 * np.log(2) / k,
        lambda z: k / np.cosh(np.clip(k * z, -300, 300)) ** 2,
        (0.0,),
    )
    F = SphereEnergy(20.0, [[1.0, 0.0]], [1.0], steep, bias=[0.3])
    assert_certified(F, minimise_on_circle(F, tolerance=1e-9, maxiter=20), 1e-9)


def test_the_sharpest_kernel_and_the_least_definite_matrix():
    with pytest.raises(ValueError, match="^F: .*beta"):
        minimise_on_circle(SphereEnergy(1.001e10))
    least = SphereEnergy(1.0, B=[[1e-3, 0.0], [0.0, 1.0]])
    assert_certified(least, minimise_on_circle(least), 1e-13)
    with pytest.raises(ValueError, match="^F: .*positive definite"):
        minimise_on_circle(SphereEnergy(1.0, B=[[-1e-3, 0.0], [0.0, 1.0]]))
