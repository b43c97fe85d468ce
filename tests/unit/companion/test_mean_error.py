"""The mean error over draws: the limit against the coin."""

import numpy as np
import pytest

from companion.mathematics.mean_error import mean_error_coefficient
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.bounds import leading_coefficient
from mfbook.confinement import Ridge
from mfbook.measure import Measure

ONE = HeadShape(1, 1, 1)
COIN = AttentionRisk([[[1.0]]], [[[0.5, 0.5]]], [[1.0, -1.0]], ONE)
PAIR = np.array([[0, 0, 1, 1], [0, 0, 1, -1.0]])


# ---------------------------------------------------------------- the limit


def test_coefficient_of_the_coin_is_the_one_by_hand():
    times = np.array([0.0, 0.3, 1.0])
    beta = mean_error_coefficient(COIN, Measure(PAIR), times)
    assert np.allclose(beta, np.exp(-4 * times) / 2, rtol=2e-3)


def test_coefficient_is_that_of_chapter_4_at_the_start():
    shape, rng = HeadShape(2, 1, 1), np.random.default_rng(0)
    Y = rng.dirichlet(np.ones(3), size=(2, 3))
    R = AttentionRisk(rng.normal(size=(2, 3, 2)), Y, rng.normal(size=(2, 3)), shape)
    mu = Measure(rng.normal(size=(4, shape.size)), rng.dirichlet(np.ones(4)))
    found = mean_error_coefficient(R, mu, [0.0])[0]
    assert found == pytest.approx(leading_coefficient(R, mu), rel=1e-3)
    # a potential is linear in the law
    assert mean_error_coefficient(R + Ridge(0.7), mu, [0.0])[0] == pytest.approx(found, rel=1e-6)
