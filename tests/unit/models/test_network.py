"""Two-layer networks: against autograd, loops and closed forms, and on bad input."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from hypothesis import given, settings
from hypothesis import strategies as st

import mfbook.models.network as network
from mfbook.flow import dissipation, gradient_flow, sgd
from mfbook.functional import check_functional
from mfbook.measure import Measure, mixture
from mfbook.models.activations import Activation
from mfbook.models.network import TwoLayerRisk, neurons
from mfbook.optimise import optimal_weights
from mfbook.stability import atomic_stability, second_variation

SMOOTH = ("tanh", "gelu", "linear")
SOFTPLUS = Activation(
    "softplus",
    lambda s: np.log1p(np.exp(s)),
    lambda s: np.nan * s,  # networks need no primitive
    lambda s: 1 / (1 + np.exp(-s)),
)


def problem(seed, activation="tanh", n=7, d=3):
    rng = np.random.default_rng(seed)
    return TwoLayerRisk(rng.normal(size=(n, d)), rng.normal(size=n), activation)


def law(seed, m=4, d=3, weighted=True):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(m)) if weighted else None
    return Measure(rng.normal(size=(m, d + 2)), weights)


def naive(F, mu, sigma):
    """The definition, with loops."""
    total = 0.0
    for x, y in zip(F.X, F.Y, strict=True):
        f = sum(
            w * a[0] * sigma(sum(a[1 + k] * x[k] for k in range(len(x))) + a[-1])
            for w, a in zip(mu.weights, mu.atoms, strict=True)
        )
        total += (f - y) ** 2
    return total / (2 * len(F.X))


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_agrees_with_loops(seed):
    F, mu = problem(seed), law(seed + 1)
    assert abs(F(mu) - naive(F, mu, np.tanh)) < 1e-12 * max(1, F(mu))


@pytest.mark.parametrize("activation", ["tanh", "relu", "linear"])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_agrees_with_autograd(activation, seed):
    """m dL/dtheta_j = gradient of the first variation at theta_j, through the parameter loss."""
    F, mu = problem(seed, activation), law(seed + 10, weighted=False)
    sigma = {"tanh": anp.tanh, "relu": lambda s: anp.maximum(s, 0), "linear": lambda s: s}
    m = mu.size

    def loss(theta):
        s = anp.dot(theta[:, 1:-1], F.X.T) + theta[:, -1:]
        f = anp.dot(theta[:, 0], sigma[activation](s)) / m
        return anp.mean((f - F.Y) ** 2) / 2

    expected = m * grad(loss)(mu.atoms)
    assert np.abs(F.gradient(mu.atoms, mu) - expected).max() < 1e-13
    assert F(mu) == pytest.approx(float(loss(mu.atoms)), rel=1e-13)


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky_relu", SOFTPLUS])
@pytest.mark.parametrize("seed", range(2))
def test_first_variation_gradient_and_complex_steps_belong_together(activation, seed):
    assert check_functional(problem(seed, activation), law(seed), seed).ok


def test_one_linear_neuron_is_least_squares():
    """With a = 1 held fixed: L is the quadratic of linear regression, its minimum is solved for."""
    F = problem(3, "linear", n=9)
    A = np.column_stack([F.X, np.ones(9)])
    best, (rest,), *_ = np.linalg.lstsq(A, F.Y, rcond=None)
    mu = Measure([[1.0, *best]])
    assert F(mu) == pytest.approx(rest / 18, rel=1e-12)
    assert np.abs(F.gradient(mu.atoms, mu)).max() < 1e-14  # a too: the residual is orthogonal to A
    K = atomic_stability(F, mu).collective
    # H + K = Hessian of theta -> L(delta_theta); in (w, b) it is A^T A / n
    report = atomic_stability(F, mu)
    H = (report.H[0] + report.K[0, 0])[1:, 1:]
    assert np.abs(H - A.T @ A / 9).max() < 1e-13
    assert K[0] > -1e-12


def test_linear_network_depends_on_the_mean_slope_alone():
    F, mu = problem(4, "linear"), law(5)
    slope = mu.weights @ (mu.atoms[:, :1] * mu.atoms[:, 1:])
    one = Measure([[1.0, *slope]])
    assert np.abs(F.output(mu) - F.output(one)).max() < 1e-13
    assert F(mu) == pytest.approx(F(one), rel=1e-12)


def test_value_along_mixtures_is_a_parabola():
    """L((1-s) mu + s nu) has second difference E (f_nu - f_mu)^2."""
    F, mu, nu = problem(6), law(7), law(8, m=3)
    left, middle, right = (F(mixture(mu, nu, s)) for s in (0.0, 0.5, 1.0))
    expected = ((F.output(mu) - F.output(nu)) ** 2).mean() / 8
    assert (left + right) / 2 - middle == pytest.approx(expected, rel=1e-12)


def test_order_of_neurons_and_splitting_of_weights_do_not_matter():
    F, mu = problem(9), law(10)
    order = np.random.default_rng(11).permutation(mu.size)
    turned = Measure(mu.atoms[order], mu.weights[order])
    doubled = Measure(np.repeat(mu.atoms, 2, axis=0), np.repeat(mu.weights / 2, 2))
    x = law(12).atoms
    for nu in (turned, doubled):
        assert F(nu) == pytest.approx(F(mu), rel=1e-13)
        assert np.abs(F.gradient(x, nu) - F.gradient(x, mu)).max() < 1e-14
    assert np.abs(F.gradient(x[order], mu) - F.gradient(x, mu)[order]).max() < 1e-15


def test_tanh_neurons_come_in_pairs():
    """(a, w, b) and (-a, -w, -b) answer the same: tanh is odd."""
    F, mu = problem(13), law(14)
    flipped = Measure(-mu.atoms, mu.weights)
    assert np.abs(F.output(mu) - F.output(flipped)).max() < 1e-15


def test_blocks_change_nothing(monkeypatch):
    F, mu = problem(15), law(16, m=11)
    before = F(mu), F.first_variation(mu.atoms, mu), F.gradient(mu.atoms, mu)
    monkeypatch.setattr(network, "BLOCK", 3 * len(F.X))
    after = F(mu), F.first_variation(mu.atoms, mu), F.gradient(mu.atoms, mu)
    for a, b in zip(before, after, strict=True):
        assert np.abs(np.asarray(a) - b).max() < 1e-14


def test_optimal_weights_solve_the_convex_problem():
    F, mu = problem(17), law(18, m=12)
    best, converged = optimal_weights(F, mu.atoms)
    value, slope = F.over_weights(mu.atoms)(best.weights)
    assert converged
    assert value == pytest.approx(F(best), rel=1e-12)
    assert np.abs(slope - F.first_variation(mu.atoms, best)).max() < 1e-13
    assert best.weights @ slope - slope.min() < 1e-5


def test_weights_of_complex_neurons_and_of_too_large_ones():
    F, mu = problem(18), law(19)
    atoms = mu.atoms * np.exp(0.1j * np.arange(4))[:, None]
    value, slope = F.over_weights(atoms)(mu.weights)
    mu = Measure(atoms, mu.weights)
    assert value == pytest.approx(F(mu), rel=1e-13)
    np.testing.assert_allclose(slope, F.first_variation(atoms, mu), rtol=1e-12)
    with pytest.raises(ValueError, match="^atoms: "):
        problem(18, "linear").over_weights([[1e200, 1e200, 0.0, 0.0, 0.0]])


def test_flow_dissipates_and_samples_are_unbiased():
    F, mu = problem(19), law(20)
    run = gradient_flow(F, mu, [0, 1e-4, 1.0])
    assert run.increase == 0
    slope = (run.value[1] - run.value[0]) / 1e-4
    assert slope == pytest.approx(-dissipation(F, mu), rel=1e-3)

    copies = [TwoLayerRisk(F.X[[i]], F.Y[[i]]).gradient(mu.atoms, mu) for i in range(len(F.X))]
    assert np.abs(np.mean(copies, axis=0) - F.gradient(mu.atoms, mu)).max() < 1e-13
    drawn = F.sample(21, 50)
    rows = {(*x, y) for x, y in zip(F.X, F.Y, strict=True)}
    assert len(drawn.X) == 50
    assert all((*x, y) in rows for x, y in zip(drawn.X, drawn.Y, strict=True))
    assert drawn.activation is F.activation
    assert sgd(F, mu, [0, 1.0], 0.125, 22).completed


def test_second_variation_agrees_with_differences():
    F, mu = problem(23, "gelu"), law(24)
    eta = np.random.default_rng(25).normal(size=mu.atoms.shape)
    h = 1e-4
    up, down = (F(Measure(mu.atoms + s * eta, mu.weights)) for s in (h, -h))
    assert sum(second_variation(F, mu, eta)) == pytest.approx((up + down - 2 * F(mu)) / h**2, 1e-6)


def test_saturated_neurons_stay_finite():
    F = problem(26)
    far = Measure([[1.0, 1e150, -1e150, 1e150, 0.0], [-1.0, 1e-300, 0.0, 0.0, 1e300]])
    assert np.isfinite(F(far)) and np.isfinite(F.gradient(far.atoms, far)).all()
    assert np.abs(F.output(far)).max() <= 1


def test_neurons_are_the_features_of_the_output():
    F, mu = problem(27, SOFTPLUS), law(28)
    assert np.abs(mu.weights @ neurons(mu.atoms, F.X, SOFTPLUS) - F.output(mu)).max() < 1e-14
    assert "softplus" in repr(F)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": np.zeros(3)}, ValueError, "X: expected shape"),
        ({"X": np.zeros((0, 2)), "Y": np.zeros(0)}, ValueError, "X"),
        ({"X": np.full((3, 2), np.nan)}, ValueError, "X: expected finite"),
        ({"X": np.zeros((3, 2), complex)}, TypeError, "X"),
        ({"X": None}, TypeError, "X"),
        ({"Y": np.zeros(4)}, ValueError, "Y: expected shape"),
        ({"Y": np.zeros((3, 1))}, ValueError, "Y: expected shape"),
        ({"Y": [0.0, 1.0, np.inf]}, ValueError, "Y: expected finite"),
        ({"Y": "abc"}, TypeError, "Y"),
        ({"activation": "tahn"}, ValueError, "activation: expected one of"),
        ({"activation": np.tanh}, TypeError, "activation"),
    ],
)
def test_bad_data_are_refused_by_name(change, error, message):
    arguments = {"X": np.zeros((3, 2)), "Y": np.zeros(3)} | change
    with pytest.raises(error, match=message):
        TwoLayerRisk(**arguments)


def test_wrong_measures_and_points_are_refused():
    F = problem(29)
    with pytest.raises(TypeError, match="mu: expected a Measure"):
        F.at(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="neurons .a, w, b. in R.5"):
        F.at(Measure(np.zeros((2, 4))))
    local = F.at(law(30))
    for call in (local.first_variation, local.gradient):
        with pytest.raises(ValueError, match="x: expected shape"):
            call(np.zeros((2, 4)))
        with pytest.raises(ValueError, match="x: expected finite"):
            call(np.full((2, 5), np.inf))
    with pytest.raises(TypeError, match="rng"):
        F.sample(None, 3)
    with pytest.raises(ValueError, match="n: expected"):
        F.sample(0, 0)
    with pytest.raises(ValueError, match="theta: expected shape"):
        neurons(np.zeros((2, 4)), F.X)
    with pytest.raises(ValueError, match="X: expected shape"):
        neurons(np.zeros((2, 5)), F.Y)


def test_data_are_frozen_copies():
    X, Y = np.ones((3, 2)), np.ones(3)
    F = TwoLayerRisk(X, Y)
    X[0] = 7
    assert F.X[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        F.Y[0] = 2
