"""Two stacked layers: against a program with loops, against one layer, and on bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.mathematics.layers import HeadRidge, StackedRisk, label
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.functional import check_functional
from mfbook.measure import Measure

SHAPE = HeadShape(3, 2, 1)


def problem(seed, S=3, T=4, V=4):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(S, T, SHAPE.d)), rng.dirichlet(np.ones(V), size=(S, T))
    return StackedRisk(X, Y, rng.normal(size=(SHAPE.d, V)), SHAPE)


def law(seed, m=2, n=3):
    rng = np.random.default_rng(seed)
    atoms = label(rng.normal(size=(m, SHAPE.size)), rng.normal(size=(n, SHAPE.size)))
    return Measure(atoms, rng.dirichlet(np.ones(m + n)))


def naive(F, mu):
    """The definition, with loops."""
    total = 0.0

    def write(tokens, sign):
        out = np.zeros_like(tokens)
        for w, atom in zip(mu.weights, mu.atoms, strict=True):
            if np.sign(atom[0]) != sign:
                continue
            W_Q, W_K, W_V, W_O = SHAPE.split(atom[1:])
            for t in range(len(tokens)):
                e = [np.exp(tokens[t] @ W_Q @ W_K.T @ tokens[u] / np.sqrt(SHAPE.k))
                     for u in range(t + 1)]  # fmt: skip
                for u in range(t + 1):
                    out[t] += 2 * w * e[u] / sum(e) * (tokens[u] @ W_V @ W_O)
        return out

    for tokens, labels in zip(F.X, F.Y, strict=True):
        f = write(tokens + write(tokens, -1), 1) @ F.W_U
        total += np.mean([np.log(np.exp(g).sum()) - y @ g for g, y in zip(f, labels, strict=True)])
    return total / len(F.X)


@given(st.integers(0, 10**6))
def test_value_agrees_with_loops_and_derivatives_with_the_value(seed):
    F, mu = problem(seed), law(seed + 1)
    assert abs(F(mu) - naive(F, mu)) < 1e-12
    assert check_functional(F, mu, seed).ok


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_silent_first_layer_leaves_one_layer(size):
    """With scores of any size."""
    F, rng = problem(0), np.random.default_rng(1)
    heads, silent = rng.normal(size=(2, 5, SHAPE.size))
    heads[:, : SHAPE.blocks[0]] *= size
    silent[:, -SHAPE.blocks[3] :] = 0
    one, mu = AttentionRisk(F.X, F.Y, F.W_U, SHAPE), Measure(heads)
    two = Measure(label(silent, heads))
    assert F(two) == pytest.approx(one(mu), rel=1e-12)
    G = F.gradient(two.atoms, two)[5:, 1:]  # half of the mass is theirs
    np.testing.assert_allclose(G, 2 * one.gradient(heads, mu), rtol=1e-8, atol=1e-10)


@given(st.integers(0, 10**6))
def test_correlation_gives_the_first_variation(seed):
    F, mu = problem(seed), law(seed + 1)
    local, x = F.at(mu), law(seed + 2, 3, 2).atoms
    C = local.correlation(x)
    for head, matrix, value in zip(x[:, 1:], C, local.first_variation(x), strict=True):
        *_, W_V, W_O = SHAPE.split(head)
        assert value == pytest.approx(((W_V @ W_O) * matrix).sum(), rel=1e-10, abs=1e-13)


@given(st.floats(0.01, 10), st.integers(0, 10**6))
def test_ridge_on_heads_leaves_labels_alone(lam, seed):
    mu = law(seed)
    F = HeadRidge(lam)
    size = (mu.atoms[:, 1:] ** 2).sum(axis=1)
    assert F(mu) == pytest.approx(lam / 2 * (mu.weights @ size), rel=1e-12)
    assert (F.gradient(mu.atoms, mu)[:, 0] == 0).all()
    assert check_functional(problem(0) + F, mu, seed).ok
