"""The search for the best head: its closed form, its draws, its bound, each written out again."""

import numpy as np
import pytest
from examples import hard

from mfbook.measure import Measure
from mfbook.models.attention import HeadShape
from mfbook.models.attention import best_head as _best_head
from mfbook.models.attention.best_head import _boundary, _least, correlation_bound
from mfbook.models.confinement import Ridge


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


@pytest.mark.parametrize("radius", [0.05, 0.4, 0.8, 1.2, 5.0])
@pytest.mark.parametrize("offset", [0.0, 1.5])
def test_correlation_bound_is_the_least_of_the_three(radius, offset):
    rng = np.random.default_rng(3)
    X, Z = rng.normal(size=(4, 3, 2)) + offset, rng.normal(size=(4, 3, 2))
    assert correlation_bound(X, Z, radius, 3) == pytest.approx(
        min(bounds(X, Z, radius, 3)), rel=1e-12
    )


@pytest.mark.parametrize("radius", [0.05, 0.5, 1.2, 8.0])
def test_correlation_bound_at_any_scale(radius):
    """Scores have the product of two tokens and of two matrices."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 5, 3))
    X[..., 2] *= 0.1
    bound = correlation_bound(X, Z, radius, 2)
    for c in (1e-3, 1e3):
        assert correlation_bound(c * X, Z, radius / c, 2) == pytest.approx(c * bound, rel=1e-12)
        assert correlation_bound(X, c * Z, radius, 2) == pytest.approx(c * bound, rel=1e-12)


def test_each_of_the_three_bounds_is_the_least_somewhere():
    rng, least = np.random.default_rng(5), set()
    for _ in range(20):
        T, far = rng.integers(2, 6), rng.choice([0.0, 1.0, 4.0])
        X, Z = rng.normal(size=(3, T, 2)) + far, rng.normal(size=(3, T, 2))
        r = rng.choice([0.1, 0.5, 1.0, 3.0])
        three = bounds(X, Z, r, 2)
        assert correlation_bound(X, Z, r, 2) == pytest.approx(min(three), rel=1e-12)
        least.add(int(np.argmin(three)))
    # steep attention, tokens around the origin, and a residual at the last of them
    X, Z = np.array([[[1.0, 0], [0, 1], [-1, 0], [0, -1]]]), np.full((1, 4, 2), 0.01)
    Z[0, -1] = 1, 0.5
    three = bounds(X, Z, 10.0, 2)
    assert three[0] < min(three[1:]) - 1e-4
    assert correlation_bound(X, Z, 10.0, 2) == pytest.approx(three[0], rel=1e-12)
    least.add(int(np.argmin(three)))
    assert least == {0, 1, 2}


def test_correlation_bound_where_the_residual_vanishes():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2))
    Z[0, 1] = 0
    whole = correlation_bound(X, Z, 1.0, 1)
    nearly = Z.copy()
    nearly[0, 1] = 1e-13
    assert whole == pytest.approx(correlation_bound(X, nearly, 1.0, 1), rel=1e-11)
    assert correlation_bound(X, 0 * Z, 1.0, 1) == 0


@pytest.mark.parametrize("ridge", [0.0, 0.05, 0.5, 100.0])
def test_least_values_are_those_of_the_heads(ridge):
    """The closed form is the first variation, ridge included, of the head it returns."""
    R = hard(1, d=3, k=2, v=2)
    shape, radius = R.shape, 1.3
    local = (R + Ridge(ridge)).at(Measure(np.zeros((1, shape.size)))) if ridge else None
    local = local or R.at(Measure(np.zeros((1, shape.size))))
    attention = R.at(Measure(np.zeros((1, shape.size))))
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(7, 2 * shape.d * shape.k))
    least, heads = _least(attention, scores, ridge, radius)
    assert least.shape == (7,) and heads.shape == (7, shape.size)
    np.testing.assert_array_equal(heads[:, : scores.shape[1]], scores)
    np.testing.assert_allclose(local.first_variation(heads), least, atol=1e-12)
    # no other values with the same scores do better
    C = attention.correlation(heads)
    for _ in range(50):
        other = heads.copy()
        other[:, scores.shape[1] :] = R.space.project(rng.normal(size=heads.shape) * 9)[
            :, scores.shape[1] :
        ] * (radius / R.space.radius)
        assert (local.first_variation(other) >= least - 1e-12).all()
    if ridge == 100.0:
        assert np.linalg.svd(C)[1].max() < ridge
        assert not heads[:, scores.shape[1] :].any()
        np.testing.assert_allclose(least, 50 * (scores**2).sum(axis=1), rtol=1e-15)


def test_random_scores_are_on_the_boundary_in_both_matrices():
    shape = HeadShape(3, 2, 1)
    draws = _boundary(np.random.default_rng(0), shape, 2.5, 400).reshape(400, 2, 6)
    np.testing.assert_allclose(np.linalg.norm(draws, axis=2), 2.5, rtol=1e-14)
    # uniform directions, and those of the two matrices are independent: five standard errors
    allowed = 5 * 2.5**2 / 6 / np.sqrt(400)
    second = np.einsum("nai,nbj->abij", draws, draws) / 400
    expected = np.einsum("ab,ij->abij", np.eye(2), np.eye(6)) * 2.5**2 / 6
    assert np.abs(second - expected).max() < 1.5 * allowed


@pytest.fixture
def searched(monkeypatch):
    """What the search asks of SciPy: starting points, options, values and slopes."""
    seen = []
    minimize = _best_head.minimize

    def spy(objective, q, **options):
        value, slope = objective(q)
        step = 1e-6 * np.random.default_rng(len(seen)).normal(size=q.shape)
        change = (objective(q + step)[0] - objective(q - step)[0]) / 2
        run = minimize(objective, q, **options)
        seen.append((value, change, slope @ step, options["options"], run))
        return run

    monkeypatch.setattr(_best_head, "minimize", spy)
    return seen


@pytest.mark.parametrize("ridge", [0.0, 0.03])
def test_the_search_descends_along_its_gradient_and_reports_what_it_did(searched, ridge):
    R = hard(1)
    mu = Measure(R.space.sample(np.random.default_rng(1), 5), [0.1, 0.4, 0.2, 0.2, 0.1])
    local = R.at(mu)
    least = local.minimise(0, ridge=ridge, starts=4, pool=20, maxiter=60)
    assert len(searched) == 4
    for _, change, stated, options, _ in searched:
        assert change == pytest.approx(stated, rel=1e-5, abs=1e-13)
        assert options == {"maxiter": 60, "ftol": 1e-13, "gtol": 1e-9 * R.space.radius}
    # one evaluation for each candidate (uniform attention, 5 heads of the measure, 20 draws)
    assert least.evaluations == 26 + sum(run.nfev for *_, run in searched)
    assert least.converged == all(run.success for *_, run in searched)
    assert least.value <= min(run.fun for *_, run in searched) + 1e-12
    # the searches begin at the best candidates
    values = [value for value, *_ in searched]
    assert values == sorted(values)
    sigma = correlation_bound(R.X, local.Z, R.space.radius, R.shape.k)
    assert least.lower_bound == pytest.approx(
        -(R.space.radius**2) * max(sigma - ridge, 0), rel=1e-14
    )


def test_effort_by_default(searched):
    R = hard(1)
    least = R.at(Measure(np.zeros((1, R.shape.size)))).minimise(0)
    assert [options["maxiter"] for *_, options, _ in searched] == [200] * 6
    # uniform attention, the head of the measure, 192 draws
    assert least.evaluations == 194 + sum(run.nfev for *_, run in searched)


def test_the_search_says_when_it_was_cut_short(searched):
    R = hard(1)
    least = R.at(Measure(np.zeros((1, R.shape.size)))).minimise(0, starts=3, pool=9, maxiter=1)
    assert not least.converged
    assert [run.success for *_, run in searched].count(False) >= 1


def test_candidates_are_the_heaviest_heads_and_draws_of_every_size(monkeypatch):
    asked = []
    least = _best_head._least

    def spy(local, scores, ridge, radius):
        asked.append(scores)
        return least(local, scores, ridge, radius)

    monkeypatch.setattr(_best_head, "_least", spy)
    R = hard(2)
    size, radius = 2 * R.shape.d * R.shape.k, R.space.radius
    heads = R.space.sample(np.random.default_rng(4), 6)
    mu = Measure(heads, [0.05, 0.3, 0.1, 0.25, 0.2, 0.1])
    R.at(mu).minimise(0, starts=1, pool=3, maxiter=1)
    first = asked[0]
    assert len(first) == 1 + 3 + 3
    assert not first[0].any()
    np.testing.assert_array_equal(first[1:4], heads[[1, 3, 4], :size])
    asked.clear()
    R.at(mu).minimise(0, starts=1, pool=4000, maxiter=1)
    norms = np.linalg.norm(asked[0][7:].reshape(4000, 2, -1), axis=2) / radius
    np.testing.assert_allclose(norms[:, 0], norms[:, 1], rtol=1e-13)
    # the square root of a uniform number: mean 2/3, standard deviation 1/sqrt(18)
    assert abs(norms[:, 0].mean() - 2 / 3) < 5 / np.sqrt(18 * 4000)
    assert norms.max() <= 1
