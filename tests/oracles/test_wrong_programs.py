"""Plausible wrong programs: for each, a comparison of ``test_attention.py`` is seen to fail.

Each is the naive program with one mistake. The package is compared with it as it is compared
with the right one, so a package with that mistake would fail in the same place.
"""

import autograd.numpy as np
import numpy as onp
import pytest
from reference import Program, differences, heads, leak, make, measure

NOTICED = 1e-3  # seven orders above what the comparison tolerates


def with_mistake(name, **methods):
    """The program with some methods replaced; each takes what it replaces as ``right``."""

    def method(attribute, new):
        return lambda self, *args: new(self, getattr(Program, attribute).__get__(self), *args)

    return type(name, (Program,), {k: method(k, new) for k, new in methods.items()})


def hidden(self, right, T):
    """A mask that hides the token itself; the first row would be empty."""
    visible = onp.tri(T, k=-1)
    visible[0, 0] = 1
    return onp.where(visible, 0.0, -onp.inf)


def over_queries(self, right, theta, X):
    W_Q, W_K, _, _ = self.matrices(theta)
    e = np.exp(self.scores(X, W_Q, W_K) + self.mask(len(X)))
    return e / np.sum(e, axis=0, keepdims=True)


def transposed(self, right, theta):
    *others, W_O = right(theta)
    return *others, np.reshape(W_O, (self.d, self.v)).T


def hardened(self, right, X, Y, *rest):
    """Soft labels replaced by the likeliest word."""
    right(X, onp.eye(Y.shape[-1])[Y.argmax(axis=-1)], *rest)


def without_attention(self, right, theta, residual):
    """The dependence of the attention weights on the head is forgotten."""
    gradient = right(theta, residual)
    gradient[: 2 * self.d * self.k] = 0
    return gradient


RESIDUAL = {"residual", "first_variation", "gradient"}
FORWARD = {"logits", "risk"} | RESIDUAL
MISTAKES = {
    "MaskDropped": (FORWARD, dict(mask=lambda self, right, T: onp.zeros((T, T)))),
    "MaskHidesTheTokenItself": (FORWARD, dict(mask=hidden)),
    "ScaleMissing": (FORWARD, dict(scores=lambda self, right, *a: right(*a) * self.k**0.5)),
    "ScaledByTheTokenDimension": (
        FORWARD, dict(scores=lambda self, right, *a: right(*a) * (self.k / self.d) ** 0.5),
    ),
    "QueriesAndKeysExchanged": (FORWARD, dict(scores=lambda self, right, X, Q, K: right(X, K, Q))),
    "SoftmaxOverQueries": (FORWARD, dict(attention=over_queries)),
    "OutputTransposed": (FORWARD, dict(matrices=transposed)),
    "WeightsIgnored": (
        FORWARD, dict(logits=lambda self, right, x, w: right(x, onp.full(len(w), 1 / len(w)))),
    ),
    "SumForMeanOverHeads": (
        FORWARD, dict(logits=lambda self, right, x, w: right(x, onp.asarray(w) * len(w))),
    ),
    "SumForMeanOverTokens": (
        {"risk", "first_variation", "gradient"},
        dict(average=lambda self, right, a: np.sum(np.mean(a, axis=0))),
    ),
    "MeanOverHardLabelsOnly": (FORWARD - {"logits"}, dict(__init__=hardened)),
    "ResidualReversed": (RESIDUAL, dict(residual=lambda self, right, *a: -right(*a))),
    "ResidualOfLogits": (
        RESIDUAL, dict(residual=lambda self, right, *a: self.logits(*a) - self.Y),
    ),
    "LawOverTheWrongAxis": (
        RESIDUAL,
        dict(law=lambda self, right, f: np.exp(f) / np.sum(np.exp(f), axis=-2, keepdims=True)),
    ),
    "GradientDoubled": ({"gradient"}, dict(psi_gradient=lambda self, right, *a: 2 * right(*a))),
    "GradientWithoutAttention": ({"gradient"}, dict(psi_gradient=without_attention)),
}  # fmt: skip
WRONG = {name: with_mistake(name, **methods) for name, (_, methods) in MISTAKES.items()}


@pytest.mark.parametrize("name", WRONG)
def test_comparison_with_a_wrong_program_fails(name):
    R, right = make(1)
    mu, x = measure(2, 3, R.shape), heads(3, 2, R.shape)
    program = WRONG[name](right.X, right.Y, right.W_U, right.d, right.k, right.v)
    errors = differences(R, program, mu, x)
    seen, _ = MISTAKES[name]
    assert {quantity for quantity, error in errors.items() if error > NOTICED} == seen
    assert all(error < 1e-10 for quantity, error in errors.items() if quantity not in seen)


def test_a_program_without_mask_leaks():
    R, right = make(4, T=5)
    theta = heads(5, 2, R.shape)
    for kind, least in ((WRONG["MaskDropped"], NOTICED), (Program, 0)):
        program = kind(right.X, right.Y, right.W_U, 3, 2, 2)

        def phi(X, program=program):
            program.X = X
            return program.features(theta)

        found = leak(phi, onp.array(R.X), onp.random.default_rng(6))
        assert found > least if least else found < 1e-15
