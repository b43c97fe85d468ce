"""A deliberately naive implementation of the model, differentiated by autograd.

One head, one sequence at a time, each formula as it is written in the book. It shares no code with
the package.
"""

import autograd.numpy as np
import numpy as onp
from autograd import grad

from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure


class Program:
    """The model on tokens X (S, T, d), labels Y (S, T, V) and W_U (d, V)."""

    def __init__(self, X, Y, W_U, d, k, v):
        self.X, self.Y, self.W_U = X, Y, W_U
        self.d, self.k, self.v = d, k, v

    def matrices(self, theta):
        d, k, v = self.d, self.k, self.v
        W_Q = np.reshape(theta[: d * k], (d, k))
        W_K = np.reshape(theta[d * k : 2 * d * k], (d, k))
        W_V = np.reshape(theta[2 * d * k : 2 * d * k + d * v], (d, v))
        W_O = np.reshape(theta[2 * d * k + d * v :], (v, d))
        return W_Q, W_K, W_V, W_O

    def scores(self, X, W_Q, W_K):
        return np.dot(np.dot(X, W_Q), np.dot(X, W_K).T) / self.k**0.5

    def mask(self, T):
        return onp.where(onp.tri(T), 0.0, -onp.inf)

    def attention(self, theta, X):
        W_Q, W_K, _, _ = self.matrices(theta)
        e = np.exp(self.scores(X, W_Q, W_K) + self.mask(len(X)))
        return e / np.sum(e, axis=1, keepdims=True)

    def feature(self, theta, X):
        _, _, W_V, W_O = self.matrices(theta)
        attended = np.dot(self.attention(theta, X), X)
        return np.dot(np.dot(np.dot(attended, W_V), W_O), self.W_U)

    def features(self, theta):
        return np.array([[self.feature(h, X) for X in self.X] for h in theta])

    def logits(self, atoms, weights):
        total = 0
        for w, theta in zip(weights, atoms, strict=True):
            total = total + w * np.array([self.feature(theta, X) for X in self.X])
        return total

    def law(self, f):
        e = np.exp(f)
        return e / np.sum(e, axis=-1, keepdims=True)

    def residual(self, atoms, weights):
        return self.law(self.logits(atoms, weights)) - self.Y

    def average(self, over_tokens):
        """Expectation over sequences of the mean over tokens, from an array (S, T)."""
        return np.mean(over_tokens)

    def risk(self, atoms, weights):
        f = self.logits(atoms, weights)
        loss = np.log(np.sum(np.exp(f), axis=-1)) - np.sum(self.Y * f, axis=-1)
        return self.average(loss)

    def psi(self, theta, residual):
        """First variation at one head, for a given residual."""
        phi = np.array([self.feature(theta, X) for X in self.X])
        return self.average(np.sum(residual * phi, axis=-1))

    def psi_gradient(self, theta, residual):
        return grad(self.psi)(theta, residual)


def relative(value, expected):
    """Largest error relative to the largest entry of what is expected."""
    value, expected = onp.asarray(value), onp.asarray(expected)
    assert value.shape == expected.shape
    return onp.abs(value - expected).max() / onp.abs(expected).max()


def differences(R, program, mu, x):
    """Relative difference between the package and a program, quantity by quantity."""
    atoms, weights = onp.array(mu.atoms), onp.array(mu.weights)
    residual = program.residual(atoms, weights)
    return {
        "logits": relative(R.logits(mu), program.logits(atoms, weights)),
        "residual": relative(R.residual(mu), residual),
        "risk": relative(R(mu), program.risk(atoms, weights)),
        "first_variation": relative(
            R.first_variation(x, mu), [program.psi(h, residual) for h in x]
        ),
        "gradient": relative(R.gradient(x, mu), [program.psi_gradient(h, residual) for h in x]),
    }


def leak(features, X, rng):
    """Largest change of a position's features when only later tokens change, over its size."""
    before, largest = features(X), 0.0
    for t in range(1, X.shape[1]):
        changed = X.copy()
        changed[:, t:] += rng.normal(size=changed[:, t:].shape)
        moved = onp.abs(features(changed) - before)
        assert moved[..., t:, :].max() > 1e-3  # the present does see the change
        largest = max(largest, moved[..., :t, :].max())
    return largest / onp.abs(before).max()


def make(seed=0, S=3, T=4, d=3, k=2, v=2, V=5, soft=True, **options):
    """A random problem: the package's risk and the naive program for the same data."""
    rng = onp.random.default_rng(seed)
    X, W_U = rng.normal(size=(S, T, d)), rng.normal(size=(d, V))
    if soft:
        Y = rng.dirichlet(onp.ones(V), size=(S, T))
    else:
        Y = onp.eye(V)[rng.integers(V, size=(S, T))]
    return AttentionRisk(X, Y, W_U, HeadShape(d, k, v), **options), Program(X, Y, W_U, d, k, v)


def heads(seed, n, shape, scale=0.7):
    """Random heads, shape (n, D)."""
    return scale * onp.random.default_rng(seed).normal(size=(n, shape.size))


def measure(seed, n, shape, weighted=True, scale=0.7):
    """A random measure with n atoms."""
    weights = onp.random.default_rng([seed, 1]).dirichlet(onp.ones(n)) if weighted else None
    return Measure(heads(seed, n, shape, scale), weights)
