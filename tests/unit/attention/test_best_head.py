"""The search for the best head: its bound written out, its minimum against dense searches."""

import numpy as np
import pytest
from examples import hard, zero

from mfbook.attention.best_head import correlation_bound
from mfbook.confinement import Ridge
from mfbook.measure import Measure


def bounds(X, Z, r, k):
    """The three bounds as the docstring states them, token by token."""
    S, T, d = X.shape
    norm = np.linalg.norm
    E, largest, first, weight, Q, kappas = np.zeros((d, d)), [], [], [], np.zeros((d, d)), []
    lengths, directions = [], []
    for s in range(S):
        for t in range(T):
            seen, x, z = X[s, : t + 1], X[s, t], Z[s, t]
            mean = seen.mean(axis=0)
            diameter = max(norm(a - b) for a in seen for b in seen)
            kappa = np.tanh(r**2 * norm(x) * diameter / (4 * np.sqrt(k)))
            largest.append(max(norm(u) for u in seen))
            weight.append(min(kappa * diameter, max(norm(u - mean) for u in seen)))
            kappas.append(kappa)
            lengths.append(norm(z))
            directions.append(np.outer(z, z) / norm(z))
            E += np.outer(mean, z) / (S * T)
            Q += 2 * norm(z) * kappa * sum(np.outer(u - mean, u - mean) for u in seen) / (S * T)
            first.append(mean)

    def spread(w):
        w = np.array(w)
        mass = (w * lengths).mean()
        return mass, norm(np.tensordot(w, directions, 1) / (S * T), 2)

    a, b = spread(largest)
    c, e = spread(weight)
    _, g = spread(kappas)
    centre = norm(E, 2)
    return np.sqrt(a * b), centre + np.sqrt(c * e), centre + np.sqrt(norm(Q, 2) * g)


def test_correlation_bound_is_the_least_of_the_three():
    rng, least = np.random.default_rng(5), set()
    cases = []
    for r in (0.05, 0.1, 0.5, 1.0, 3.0, 5.0):
        for far in (0.0, 1.0, 4.0):
            T = rng.integers(2, 6)
            cases.append((rng.normal(size=(3, T, 2)) + far, rng.normal(size=(3, T, 2)), r))
    # steep attention, tokens around the origin, and a residual at the last of them
    X, Z = np.array([[[1.0, 0], [0, 1], [-1, 0], [0, -1]]]), np.full((1, 4, 2), 0.01)
    Z[0, -1] = 1, 0.5
    cases.append((X, Z, 10.0))
    for X, Z, r in cases:
        three, bound = bounds(X, Z, r, 3), correlation_bound(X, Z, r, 3)
        assert bound == pytest.approx(min(three), rel=1e-12)
        least.add(int(np.argmin(three)))
        # scores have the product of two tokens and of two matrices
        for c in (1e-3, 1e3):
            assert correlation_bound(c * X, Z, r / c, 3) == pytest.approx(c * bound, rel=1e-12)
            assert correlation_bound(X, c * Z, r, 3) == pytest.approx(c * bound, rel=1e-12)
    assert least == {0, 1, 2}


def test_correlation_bound_where_the_residual_vanishes():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2))
    Z[0, 1] = 0
    nearly = Z.copy()
    nearly[0, 1] = 1e-13
    assert correlation_bound(X, Z, 1.0, 1) == pytest.approx(
        correlation_bound(X, nearly, 1.0, 1), rel=1e-11
    )
    assert correlation_bound(X, 0 * Z, 1.0, 1) == 0


@pytest.mark.parametrize(("radius", "seed"), [(0.3, 0), (1.0, 1), (3.0, 0), (30.0, 1)])
def test_correlation_bound_holds_for_all_scores(radius, seed):
    R = hard(seed, radius=radius)
    local = R.at(zero(R))
    bound = correlation_bound(R.X, local.Z, radius, R.shape.k)
    heads = R.space.sample(np.random.default_rng(seed), 400)
    heads = np.concatenate([heads, R.space.project(100 * heads)])
    sampled = np.linalg.svd(local.correlation(heads))[1][:, 0].max()
    least = local.minimise(seed, starts=2, pool=64)
    assert sampled - 1e-9 <= -least.value / radius**2 <= bound
    assert least.lower_bound == pytest.approx(-(radius**2) * bound, rel=1e-13)
    # never worse than the plain triangle inequality
    size = np.linalg.norm(R.X, axis=2)
    plain = np.maximum.accumulate(size, axis=1) * np.linalg.norm(local.Z, axis=2)
    assert bound <= plain.mean() + 1e-12


def test_correlation_bound_is_attained_for_tiny_scores():
    """As the radius falls attention becomes uniform and the bound becomes exact."""
    R = hard(3, radius=1e-3)
    local = R.at(zero(R))
    exact = np.linalg.svd(local.correlation(np.zeros((1, R.shape.size))))[1][0, 0]
    assert correlation_bound(R.X, local.Z, 1e-3, R.shape.k) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("ridge", [0.0, 0.02, 0.5, 50.0])
def test_found_head_beats_every_sampled_head(ridge):
    R = hard(1)
    F = R + Ridge(ridge) if ridge else R
    local, rng = F.at(zero(R)), np.random.default_rng(0)
    least = local.minimise(rng)
    assert least.value == pytest.approx(local.first_variation(least.point[None])[0], abs=1e-12)
    assert least.lower_bound <= least.value <= 1e-15
    # random heads, random values with the found scores, and the boundary
    heads, scores = R.space.sample(rng, 1000), sum(R.shape.blocks[:2])
    same_scores = heads.copy()
    same_scores[:, :scores] = least.point[:scores]
    for candidates in (heads, same_scores, R.space.project(50 * same_scores)):
        assert local.first_variation(candidates).min() >= least.value - 1e-12
    # moves of the head, drawn back into the balls, gain nothing to first order
    near = R.space.project(least.point + 1e-4 * rng.normal(size=heads.shape))
    assert local.first_variation(near).min() >= least.value - 1e-6
    if ridge == 50.0:  # the ridge outweighs every correlation
        assert not least.point[scores:].any()


@pytest.mark.parametrize("seed", range(2))
def test_search_never_ends_above_a_head_of_the_measure(seed):
    """Even one that is cut short begins at the heads that are there; its bound holds anyway."""
    R = hard(seed)
    rng = np.random.default_rng(seed)
    mu = Measure(R.space.sample(rng, 5), rng.dirichlet(np.ones(5)))
    local = R.at(mu)
    whole, cut = (local.minimise(0, pool=9, **few) for few in ({}, {"starts": 1, "maxiter": 1}))
    assert whole.converged and not cut.converged and cut.evaluations < whole.evaluations
    assert cut.lower_bound == pytest.approx(whole.lower_bound, rel=1e-13)
    assert cut.lower_bound <= whole.value <= cut.value + 1e-12
    assert cut.value <= local.first_variation(mu.atoms).min() + 1e-12
