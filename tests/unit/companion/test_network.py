"""Two-layer networks: against autograd, loops and closed forms, and on bad input."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from hypothesis import given
from hypothesis import strategies as st

from companion.mathematics.network import TwoLayerRisk, neurons
from mfbook.activations import Activation
from mfbook.functional import check_functional
from mfbook.measure import Measure
from mfbook.stability import atomic_stability

SOFTPLUS = Activation(
    "softplus",
    lambda s: np.log1p(np.exp(s)),
    lambda s: np.nan * s,  # networks need no primitive
    lambda s: 1 / (1 + np.exp(-s)),
)


def problem(seed, activation="tanh", n=7, d=3):
    rng = np.random.default_rng(seed)
    return TwoLayerRisk(rng.normal(size=(n, d)), rng.normal(size=n), activation)


def law(seed, m=4, d=3):
    rng = np.random.default_rng(seed)
    return Measure(rng.normal(size=(m, d + 2)), rng.dirichlet(np.ones(m)))


@given(st.integers(0, 10**6), st.sampled_from(["tanh", "relu", "linear"]))
def test_value_and_gradient_agree_with_loops_and_autograd(seed, activation):
    """w_j G(theta_j) is the derivative of the loss in theta_j; the atoms of mu are permuted."""
    F, mu = problem(seed, activation), law(seed + 1)
    sigma = {"tanh": anp.tanh, "relu": lambda s: anp.maximum(s, 0), "linear": lambda s: s}

    def loss(theta):
        total = 0.0
        for x, y in zip(F.X, F.Y, strict=True):
            f = 0.0
            for w, a in zip(mu.weights, theta, strict=True):
                f = f + w * a[0] * sigma[activation](anp.dot(a[1:-1], x) + a[-1])
            total = total + (f - y) ** 2
        return total / (2 * len(F.X))

    assert F(mu) == pytest.approx(loss(mu.atoms), rel=1e-12)
    expected = grad(loss)(np.array(mu.atoms))
    G = F.gradient(mu.atoms, mu)
    assert np.abs(mu.weights[:, None] * G - expected).max() < 1e-12 * max(1, np.abs(G).max())
    order = np.random.default_rng(seed).permutation(4)
    split = Measure(np.repeat(mu.atoms[order], 2, axis=0), np.repeat(mu.weights[order] / 2, 2))
    assert F(split) == pytest.approx(F(mu), rel=1e-12)
    assert np.allclose(F.gradient(mu.atoms[order], split), G[order], rtol=1e-10, atol=1e-12)
    if activation == "tanh":  # (a, w, b) and (-a, -w, -b) answer the same
        assert np.allclose(F.output(Measure(-mu.atoms, mu.weights)), F.output(mu), atol=1e-14)
    if activation == "linear":  # the mean slope alone counts
        one = Measure([[1.0, *(mu.weights @ (mu.atoms[:, :1] * mu.atoms[:, 1:]))]])
        assert np.allclose(F.output(one), F.output(mu), atol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "linear", "relu", "leaky_relu", SOFTPLUS])
def test_first_variation_gradient_and_complex_steps_belong_together(activation):
    F, mu = problem(1, activation), law(1)
    assert check_functional(F, mu, 1).ok
    phi = neurons(mu.atoms, F.X, activation)
    assert np.abs(mu.weights @ phi - F.output(mu)).max() < 1e-14
    atoms = mu.atoms * np.exp(0.1j * np.arange(4))[:, None] if activation == "tanh" else mu.atoms
    value, slope = F.over_weights(atoms)(mu.weights)
    mu = Measure(atoms, mu.weights)
    assert value == pytest.approx(F(mu), rel=1e-12)
    np.testing.assert_allclose(slope, F.first_variation(atoms, mu), rtol=1e-10)


def test_one_linear_neuron_is_least_squares():
    """With a = 1 held fixed: L is the quadratic of linear regression, its minimum is solved for."""
    F = problem(3, "linear", n=9)
    A = np.column_stack([F.X, np.ones(9)])
    best, (rest,), *_ = np.linalg.lstsq(A, F.Y, rcond=None)
    mu = Measure([[1.0, *best]])
    assert F(mu) == pytest.approx(rest / 18, rel=1e-12)
    assert np.abs(F.gradient(mu.atoms, mu)).max() < 1e-14  # a too: the residual is orthogonal to A
    report = atomic_stability(F, mu)
    # H + K = Hessian of theta -> L(delta_theta); in (w, b) it is A^T A / n
    H = (report.H[0] + report.K[0, 0])[1:, 1:]
    assert np.abs(H - A.T @ A / 9).max() < 1e-13 and report.collective[0] > -1e-12
