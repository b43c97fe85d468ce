"""The mean error over draws: sums against brute force, the limit against the coin."""

import itertools
import math

import numpy as np
import pytest

from companion.mathematics.mean_error import mean_error_coefficient, mean_over_draws
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.bounds import leading_coefficient
from mfbook.confinement import Ridge
from mfbook.measure import Measure

ONE = HeadShape(1, 1, 1)
COIN = AttentionRisk([[[1.0]]], [[[0.5, 0.5]]], [[1.0, -1.0]], ONE)
PAIR = np.array([[0, 0, 1, 1], [0, 0, 1, -1.0]])


# ---------------------------------------------------------------- exact means


def test_sums_agree_with_all_sequences_of_draws():
    w = np.array([0.5, 0.3, 0.2])

    def U(counts):
        return np.array([counts[0] * counts[1] ** 2, math.exp(-counts[2])])

    brute = 0.0
    for draws in itertools.product(range(3), repeat=4):
        counts = tuple(draws.count(i) for i in range(3))
        brute = brute + np.prod(w[list(draws)]) * U(counts)
    assert np.allclose(mean_over_draws(U, w, 4), brute, rtol=1e-12)


@pytest.mark.parametrize("M", [1, 2, 7])
def test_two_atoms_give_the_polynomial_of_bernstein(M):
    w = 0.3
    cube = mean_over_draws(lambda n: (n[0] / M) ** 3, [w, 1 - w], M)
    central = w * (1 - w) * (1 - 2 * w) / M**2
    assert cube == pytest.approx(w**3 + 3 * w * w * (1 - w) / M + central, rel=1e-12)


def test_an_atom_without_mass_is_never_drawn():
    seen = []
    assert mean_over_draws(lambda n: seen.append(n) or 1.0, [0.0, 1.0], 5) == pytest.approx(1)
    assert seen == [(0, 5)]


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
