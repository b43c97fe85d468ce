"""Quadratic programs over the simplex: against all supports, and their conditions."""

from itertools import combinations

import numpy as np
import pytest

from mfbook.optimise.simplex import simplex_qp


def by_supports(G, c):
    """The best among the critical points of all faces."""
    n, best = len(c), (np.inf, ())
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            i = list(support)
            K = np.block([[G[np.ix_(i, i)], np.ones((size, 1))], [np.ones((1, size)), 0]])
            w = np.zeros(n)
            w[i] = np.linalg.solve(K, [*-c[i], 1.0])[:size]
            if w.min() >= 0:
                best = min(best, (w @ G @ w / 2 + c @ w, tuple(w)))
    return np.array(best[1])


def instance(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return A @ A.T + 0.1 * np.eye(n), rng.normal(size=n) * 3, rng.dirichlet(np.ones(n))


# in the last two the multiplier rises although the energy falls
@pytest.mark.parametrize(
    ("seed", "n"), [(s, n) for s in range(4) for n in (1, 2, 4, 6)] + [(39, 3), (141, 3)]
)
def test_against_all_supports(seed, n):
    G, c, start = instance(seed, n)
    expected, kept = by_supports(G, c), start.copy()
    for w in (start, np.eye(n)[0], np.eye(n)[-1]):
        np.testing.assert_allclose(simplex_qp(G, c, w), expected, atol=1e-12)
        for size in (1e-24, 1e12):
            np.testing.assert_allclose(simplex_qp(size * G, size * c, w), expected, atol=1e-12)
        # a constant, in c or in G, changes nothing on the simplex
        np.testing.assert_allclose(simplex_qp(G, c + 50, w), expected, atol=1e-11)
        np.testing.assert_allclose(simplex_qp(G - 50, c, w), expected, atol=1e-11)
    assert np.array_equal(start, kept)


def nearly_equal(size):
    """Sixty atoms within a tenth of the kernel's length: in floating point G is singular."""
    t = np.linspace(0, 0.1, 60)
    return size * np.exp(-((t[:, None] - t) ** 2) / 2), size * 1e-3 * np.cos(40 * t)


@pytest.mark.parametrize(
    ("G", "c"),
    [*(instance(n, n)[:2] for n in (1, 2, 10, 40)), *map(nearly_equal, (1e-6, 1.0, 1e6))],
    ids=["1", "2", "10", "40", "tiny", "singular", "huge"],
)
def test_conditions_of_a_minimum(G, c):
    """A probability vector; the slope is constant on the support, and least there."""
    n, size = len(c), np.abs(G).max() + np.abs(c).max()
    for start in (np.full(n, 1 / n), np.eye(n)[0]):
        w = simplex_qp(G, c, start)
        slope = G @ w + c
        assert w.min() >= 0 and w.sum() == pytest.approx(1, abs=1e-14)
        assert slope.min() >= w @ slope - 1e-11 * size
        assert np.abs(slope[w > 1e-9] - w @ slope).max() <= 3e-8 * size


@pytest.mark.parametrize("seed", range(4))
def test_equal_atoms_share_their_weight(seed):
    """The system is singular, and every division of the weight solves it."""
    G, c, _ = instance(seed, 4)
    once, twice = simplex_qp(G, c, np.eye(4)[seed]), np.arange(8) % 4
    w = simplex_qp(G[np.ix_(twice, twice)], c[twice], np.repeat([0.125, 0.125], 4))
    np.testing.assert_allclose(w[:4] + w[4:], once, atol=1e-9)


def test_weights_that_end_together():
    c, w = np.array([-7.0, 0.0, 0.0]), np.array([0.5, 0.25, 0.25])
    assert simplex_qp(np.eye(3), c, w).tolist() == [1, 0, 0]


def test_it_stops_after_its_steps_with_a_probability_vector():
    G, c, _ = instance(5, 8)
    values = []
    for steps in range(1, 12):
        w = simplex_qp(G, c, np.eye(8)[0], maxiter=steps)
        assert w.min() >= 0 and w.sum() == pytest.approx(1, abs=1e-14)
        values.append(w @ G @ w / 2 + c @ w)
    assert np.diff(values).max() <= 1e-12 and values[-1] < values[0]
