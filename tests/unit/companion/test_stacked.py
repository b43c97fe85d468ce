"""The bound for two empty layers: against searches over its two numbers, and against laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.mathematics.layers import HeadRidge, StackedRisk, label
from companion.mathematics.stacked import stacked_cost, stacked_gain, stacked_threshold
from mfbook.attention import HeadShape
from mfbook.bounds import data_radii
from mfbook.measure import Measure


@pytest.mark.parametrize("P", [0.0, 0.3, 1.0, 1.7, 40.0])
def test_cost_is_the_least_sum(P):
    s_1 = np.linspace(0, 20, 400_001)
    assert stacked_cost(P) == pytest.approx((s_1 + P / (1 + s_1)).min(), abs=1e-8)


@given(st.integers(2, 6), st.floats(0.01, 5), st.integers(0, 10**6))
def test_no_logits_of_that_norm_gain_more(V, size, seed):
    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=(200, V)), rng.dirichlet(0.2 * np.ones(V), size=200)
    f[0], y[0] = np.r_[V - 1, -np.ones(V - 1)], np.eye(V)[0]  # here it is attained
    f *= size / np.linalg.norm(f, axis=1, keepdims=True)
    gain = np.log(V) - np.log(np.exp(f).sum(axis=1)) + (y * f).sum(axis=1)
    most = stacked_gain(size / 6, 2.0, 3.0, V)
    assert gain.max() <= most + 1e-12
    assert gain[0] == pytest.approx(most, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("c", [1.0, 0.3, 0.1, 0.02, 1e-4])
def test_one_token_attains_the_threshold(c):
    """Sizes p and q of two heads that tell a sign, on a grid."""
    top = 3 / np.sqrt(c)
    p, q = np.meshgrid(np.linspace(0, top, 1500), np.linspace(1e-6, top, 1500))
    gain = np.log(2) - np.log1p(np.exp(-2 * c * q * (1 + p)))
    best = (2 * gain / (p + q)).max()
    found = stacked_threshold(1.0, np.sqrt(2) * c, 2)
    assert best <= found * (1 + 1e-9)
    assert best >= found * (1 - 1e-3)
    assert 2 * c <= found <= 2 * max(c, np.sqrt(c * np.log(2))) * (1 + 1e-12)


@given(st.integers(0, 10**6))
def test_above_the_threshold_no_law_is_better_than_two_empty_layers(seed):
    rng, shape = np.random.default_rng(seed), HeadShape(2, 1, 1)
    W_U = rng.normal(size=(2, 3)) * 10 ** rng.uniform(-2, 0)
    Y = np.eye(3)[rng.integers(3, size=(2, 3))]
    F = StackedRisk(rng.normal(size=(2, 3, 2)), Y, W_U, shape)
    F = F + HeadRidge(stacked_threshold(*data_radii(F.X, W_U), 3))
    heads = rng.normal(size=(2, 2, shape.size)) * 10 ** rng.uniform(-2, 1)
    assert F(Measure(label(*heads))) >= np.log(3)


def test_extreme_data():
    assert stacked_threshold(1e-300, 1e-300, 2) == 0
    assert 0 < stacked_threshold(1e-200, 1e-108, 2) < 1e-100
    assert stacked_threshold(1e200, 1e200, 2) == np.inf
