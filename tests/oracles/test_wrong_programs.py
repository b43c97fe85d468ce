"""Plausible wrong programs: for each, a comparison of ``test_attention.py`` is seen to fail.

Each class is the naive program with one mistake. The package is compared with it as it is compared
with the right one, so a package with that mistake would fail in the same place.
"""

import autograd.numpy as np
import numpy as onp
import pytest
from reference import Program, differences, heads, leak, make, measure, relative

from mfbook.models.confinement import Ridge

NOTICED = 1e-3  # seven orders above what the comparison tolerates


class MaskDropped(Program):
    def mask(self, T):
        return onp.zeros((T, T))


class MaskHidesTheTokenItself(Program):
    def mask(self, T):
        visible = onp.tri(T, k=-1)
        visible[0, 0] = 1  # the first row would be empty
        return onp.where(visible, 0.0, -onp.inf)


class ScaleMissing(Program):
    def scores(self, X, W_Q, W_K):
        return np.dot(np.dot(X, W_Q), np.dot(X, W_K).T)


class ScaledByTheTokenDimension(Program):
    def scores(self, X, W_Q, W_K):
        return np.dot(np.dot(X, W_Q), np.dot(X, W_K).T) / self.d**0.5


class QueriesAndKeysExchanged(Program):
    def scores(self, X, W_Q, W_K):
        return super().scores(X, W_K, W_Q)


class SoftmaxOverQueries(Program):
    def attention(self, theta, X):
        W_Q, W_K, _, _ = self.matrices(theta)
        e = np.exp(self.scores(X, W_Q, W_K) + self.mask(len(X)))
        return e / np.sum(e, axis=0, keepdims=True)


class OutputTransposed(Program):
    def matrices(self, theta):
        W_Q, W_K, W_V, W_O = super().matrices(theta)
        return W_Q, W_K, W_V, np.reshape(W_O, (self.d, self.v)).T


class WeightsIgnored(Program):
    def logits(self, atoms, weights):
        return super().logits(atoms, onp.full(len(weights), 1 / len(weights)))


class SumForMeanOverHeads(Program):
    def logits(self, atoms, weights):
        return super().logits(atoms, onp.asarray(weights) * len(weights))


class SumForMeanOverTokens(Program):
    def average(self, over_tokens):
        return np.sum(np.mean(over_tokens, axis=0))


class MeanOverHardLabelsOnly(Program):
    """Soft labels replaced by the likeliest word."""

    def __init__(self, X, Y, W_U, d, k, v):
        super().__init__(X, onp.eye(Y.shape[-1])[Y.argmax(axis=-1)], W_U, d, k, v)


class ResidualReversed(Program):
    def residual(self, atoms, weights):
        return self.Y - self.law(self.logits(atoms, weights))


class ResidualOfLogits(Program):
    def residual(self, atoms, weights):
        return self.logits(atoms, weights) - self.Y


class LawOverTheWrongAxis(Program):
    def law(self, f):
        e = np.exp(f)
        return e / np.sum(e, axis=-2, keepdims=True)


class GradientDoubled(Program):
    def psi_gradient(self, theta, residual):
        return 2 * super().psi_gradient(theta, residual)


class GradientWithoutAttention(Program):
    """The dependence of the attention weights on the head is forgotten."""

    def psi_gradient(self, theta, residual):
        gradient = super().psi_gradient(theta, residual)
        gradient[: 2 * self.d * self.k] = 0
        return gradient


FORWARD = {"logits", "residual", "risk", "first_variation", "gradient"}
WRONG = {
    MaskDropped: FORWARD,
    MaskHidesTheTokenItself: FORWARD,
    ScaleMissing: FORWARD,
    ScaledByTheTokenDimension: FORWARD,
    QueriesAndKeysExchanged: FORWARD,
    SoftmaxOverQueries: FORWARD,
    OutputTransposed: FORWARD,
    WeightsIgnored: FORWARD,
    SumForMeanOverHeads: FORWARD,
    SumForMeanOverTokens: {"risk", "first_variation", "gradient"},
    MeanOverHardLabelsOnly: FORWARD - {"logits"},
    ResidualReversed: {"residual", "first_variation", "gradient"},
    ResidualOfLogits: {"residual", "first_variation", "gradient"},
    LawOverTheWrongAxis: {"residual", "first_variation", "gradient"},
    GradientDoubled: {"gradient"},
    GradientWithoutAttention: {"gradient"},
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda c: c.__name__)
def test_comparison_with_a_wrong_program_fails(wrong):
    R, right = make(1)
    mu, x = measure(2, 3, R.shape), heads(3, 2, R.shape)
    program = wrong(right.X, right.Y, right.W_U, right.d, right.k, right.v)
    errors = differences(R, program, mu, x)
    assert {name for name, error in errors.items() if error > NOTICED} == WRONG[wrong]
    assert all(error < 1e-10 for name, error in errors.items() if name not in WRONG[wrong])


def test_a_program_without_mask_leaks():
    R, right = make(4, T=5)
    theta = heads(5, 2, R.shape)

    def phi(kind):
        return lambda X: kind(X, right.Y, right.W_U, 3, 2, 2).features(theta)

    assert leak(phi(MaskDropped), onp.array(R.X), onp.random.default_rng(6)) > NOTICED
    assert leak(phi(SoftmaxOverQueries), onp.array(R.X), onp.random.default_rng(6)) > NOTICED
    assert leak(phi(Program), onp.array(R.X), onp.random.default_rng(6)) < 1e-15


def test_gradient_of_unweighted_heads_is_not_the_derivative_of_the_risk():
    """dR/dtheta_i is w_i G(theta_i): with the weight forgotten the comparison fails."""
    from autograd import grad

    R, program = make(7)
    mu = measure(8, 3, R.shape)
    total = grad(program.risk)(onp.array(mu.atoms), mu.weights)
    assert relative(R.gradient(mu.atoms, mu), total) > NOTICED


def test_ridge_without_its_half_is_noticed():
    mu = measure(9, 3, make()[0].shape)
    without_half = 0.3 * mu.integrate((mu.atoms**2).sum(axis=1))
    assert relative(Ridge(0.3)(mu), without_half) > NOTICED


def test_naive_exponentials_overflow_where_the_package_does_not():
    """The reference is right for moderate logits only: the test of large ones is not idle."""
    R, program = make(10)
    mu = measure(11, 2, R.shape, scale=30.0)
    assert R.logits(mu).max() > 1000
    with onp.errstate(all="ignore"):
        assert not onp.isfinite(program.risk(onp.array(mu.atoms), mu.weights))
    assert onp.isfinite(R(mu))
