"""What one head can reach: against heads, against sampled maxima, and in closed form."""

import numpy as np
import pytest

from companion.mathematics.reach import head_reach
from mfbook.attention import AttentionRisk, HeadShape, softmax
from mfbook.measure import Measure


def problem(seed, S, T, d):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(S, T, d)), rng.normal(size=(S, T, d))


def correlation(X, Z, G):
    """E (1/T) sum_t (A X)_t Z_t^T with scores x_t^T G x_u, by loops."""
    S, T, d = X.shape
    C = np.zeros((d, d))
    for x, z in zip(X, Z, strict=True):
        for t in range(T):
            weights = np.exp(x[: t + 1] @ (G.T @ x[t]))
            C += np.outer(weights @ x[: t + 1] / weights.sum(), z[t])
    return C / (S * T)


def heads(rng, d, k, radius, n):
    """Score matrices of heads on the boundary of the balls."""
    for _ in range(n):
        Q, K = rng.normal(size=(2, d, k))
        yield radius**2 * Q @ K.T / (np.linalg.norm(Q) * np.linalg.norm(K) * np.sqrt(k))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("slope", [None, 0.0, 0.7, 1.0])
def test_no_head_is_above_the_bound(d, slope):
    X, Z = problem(d, 2, 3, d)
    for radius in (0.3, 1.0, 2.0):
        bound = head_reach(X, radius, 2, slope=slope, budget=500).bound(Z)
        found = [
            np.linalg.norm(correlation(X, Z, G), 2)
            for G in heads(np.random.default_rng(1), d, 2, radius, 30)
        ]
        assert max(found) <= bound


def test_a_head_of_the_model_is_below_the_bound():
    X, _ = problem(5, 3, 4, 3)
    rng, shape = np.random.default_rng(6), HeadShape(3, 2, 2)
    risk = AttentionRisk(X, softmax(rng.normal(size=(3, 4, 5))), rng.normal(size=(3, 5)), shape)
    space = shape.ball(1.5)
    local = risk.at(Measure(space.sample(rng, 3)))
    found = np.linalg.norm(local.correlation(space.project(9 * space.sample(rng, 200))), 2, (1, 2))
    assert found.max() <= head_reach(X, 1.5, 2).bound(local.Z)


@pytest.mark.parametrize("slope", [None, 0.0, 0.5])
def test_ends_are_just_above_sampled_maxima(slope):
    X, _ = problem(7, 2, 4, 2)
    reach = head_reach(X, 1.2, 1, slope=slope, tolerance=0.02)
    rng = np.random.default_rng(8)
    angle = rng.uniform(0, 2 * np.pi, 20_000)
    size = np.sqrt(rng.uniform(size=20_000))
    disc = size[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for s in range(2):
        for t in range(1, 4):
            seen = X[s, : t + 1]
            h = disc * 1.2**2 * np.linalg.norm(X[s, t])
            weights = np.exp(h @ seen.T)
            attended = weights @ seen / weights.sum(axis=1, keepdims=True) - seen.mean(axis=0)
            left = (attended - h @ reach.slopes[s, t].T) @ reach.directions.T
            for end, sampled in zip(
                reach.ends[:, s, t], (left.max(axis=0), (-left).max(axis=0)), strict=True
            ):
                assert (end >= sampled - 1e-12).all()
                assert end.max() <= 1.05 * np.abs(left).max() + 1e-12


@pytest.mark.parametrize("d", [1, 2, 3])
def test_equal_tokens_leave_nothing_to_choose(d):
    token, Z = problem(10, 3, 1, d)
    X, Z = np.repeat(token, 4, axis=1), np.repeat(Z, 4, axis=1)
    C = np.einsum("sti,stj->ij", X, Z) / 12
    assert head_reach(X, 3.0, 1).bound(Z) == pytest.approx(np.linalg.norm(C, 2), rel=1e-9)


def test_opposite_wishes_cancel():
    X = np.array([[[-1.0], [1.0]], [[1.0], [-1.0]]])
    Z = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    free, shared = (head_reach(X, 1.0, 1, slope=s, tolerance=0.01).bound(Z) for s in (0, 0.8))
    h = np.arctanh(np.sqrt(0.2))
    assert free == pytest.approx(np.tanh(1) / 2, rel=0.01)
    assert shared == pytest.approx((np.tanh(h) - 0.8 * h) / 2, rel=0.01)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_more_directions_do_not_raise_the_bound_much_and_stay_above(d):
    X, Z = problem(12, 2, 3, d)
    reach = head_reach(X, 1.0, 2)
    finer = reach.refined(Z, 2, cells=10)
    assert len(finer.directions) > len(reach.directions)
    assert finer.bound(Z) <= 1.01 * reach.bound(Z)
    found = [
        np.linalg.norm(correlation(X, Z, G), 2)
        for G in heads(np.random.default_rng(13), d, 2, 1.0, 50)
    ]
    assert max(found) <= finer.bound(Z)


def test_bound_is_exact_to_first_order():
    X, Z = problem(15, 2, 4, 1)
    errors = []
    for radius in (0.1, 0.2):
        c = radius**2
        truth = max(abs(correlation(X, Z, np.array([[g]])))[0, 0] for g in np.linspace(-c, c, 401))
        errors.append(head_reach(X, radius, 1, slope=1.0, tolerance=0.01).bound(Z) - truth)
    assert errors[0] >= 0
    assert errors[1] / errors[0] > 12  # of order radius^4
