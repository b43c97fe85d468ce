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
    return A @ A.T + 0.1 * np.eye(n), rng.normal(size=n) * 3


@pytest.mark.parametrize(("seed", "n"), [(s, n) for s in range(4) for n in (1, 2, 4, 6)])
def test_against_all_supports(seed, n):
    G, c = instance(seed, n)
    expected = by_supports(G, c)
    for size in (1e-24, 1.0, 1e12):
        np.testing.assert_allclose(simplex_qp(size * G, size * c), expected, atol=1e-12)
    # a constant, in c or in G, changes nothing on the simplex
    np.testing.assert_allclose(simplex_qp(G, c + 50), expected, atol=1e-11)
    np.testing.assert_allclose(simplex_qp(G - 50, c), expected, atol=1e-11)


def nearly_equal(size):
    """Sixty atoms within a tenth of the kernel's length: in floating point G is singular."""
    t = np.linspace(0, 0.1, 60)
    return size * np.exp(-((t[:, None] - t) ** 2) / 2), size * 1e-3 * np.cos(40 * t)


@pytest.mark.parametrize(
    ("G", "c"),
    [*(instance(n, n) for n in (1, 2, 10, 40)), *map(nearly_equal, (1e-6, 1.0, 1e6))],
    ids=["1", "2", "10", "40", "tiny", "singular", "huge"],
)
def test_conditions_of_a_minimum(G, c):
    """A probability vector; the slope is constant on the support, and least there."""
    w, size = simplex_qp(G, c), np.abs(G).max() + np.abs(c).max()
    slope = G @ w + c
    assert w.min() >= 0 and w.sum() == pytest.approx(1, abs=1e-14)
    assert slope.min() >= w @ slope - 1e-14 * size
    assert np.abs(slope[w > 1e-9] - w @ slope).max() <= 1e-11 * size


def test_it_ends_amid_all_minima():
    """Equal points share their weight, and where nothing matters all weights are equal."""
    G, c = instance(0, 4)
    once, twice = simplex_qp(G, c), np.arange(8) % 4
    w = simplex_qp(G[np.ix_(twice, twice)], c[twice])
    np.testing.assert_allclose(w[:4], once / 2, atol=1e-9)
    np.testing.assert_allclose(w[4:], once / 2, atol=1e-9)
    assert simplex_qp(np.full((5, 5), 3.0), np.full(5, -2.0)).tolist() == [0.2] * 5
