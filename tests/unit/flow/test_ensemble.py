"""Many runs side by side: the same numbers as run by run, for every way of cutting the work."""

import numpy as np
import pytest
from reference import heads, make

from mfbook.attention import AttentionRisk, HeadShape
from mfbook.flow import sgd, warmup_cosine
from mfbook.flow.ensemble import ensemble_gradient, sgd_ensemble
from mfbook.measure import Measure

TIMES, EPS = [0.0, 0.25, 1.0], 0.125
XI = warmup_cosine(1.0, warmup=0.5, end=1.0, floor=0.1)
NOTICED = 1e-3

# sizes of the problem, then runs, heads, sequences in a step
CASES = {
    "plain": (dict(), 3, 4, 1),
    "batch": (dict(), 3, 4, 3),
    "one of everything": (dict(S=1, T=1, d=1, k=1, v=1, V=2), 1, 1, 1),
    "wide keys": (dict(d=4, k=3, v=1, V=3), 2, 5, 2),
    "long and wide": (dict(T=9, d=5, k=2, v=3, V=3), 3, 2, 2),
    "hard labels": (dict(soft=False), 4, 3, 2),
    "many runs": (dict(d=2, k=1, v=1, T=2), 50, 45, 1),
}


def starts(R, runs, M, seed=11):
    return heads(seed, runs * M, R.shape).reshape(runs, M, -1)


def together(R, atoms, seeds, **options):
    """All states of all runs, shape (n_t, R, M, D)."""
    return sgd_ensemble(R, atoms, TIMES, EPS, seeds, lambda mu: mu.atoms, **options)


def one_by_one(R, atoms, seeds, weights=None, **options):
    weights = [None] * len(atoms) if weights is None else weights
    each = zip(atoms, weights, seeds, strict=True)
    runs = [sgd(R, Measure(a, w), TIMES, EPS, seed, **options).atoms for a, w, seed in each]
    return np.stack(runs, axis=1)


@pytest.mark.parametrize("name", CASES)
def test_same_as_run_by_run(name):
    """Also the generators: they go on where those of single runs would."""
    sizes, runs, M, batch = CASES[name]
    R, _ = make(5, **sizes)
    atoms = starts(R, runs, M)
    before = atoms.copy()
    weights = np.random.default_rng(1).dirichlet(np.ones(M), size=runs)
    for w, xi in ((None, None), (weights, XI)):
        ours, theirs = ([np.random.default_rng(20 + r) for r in range(runs)] for _ in range(2))
        a = together(R, atoms, ours, weights=w, batch=batch, xi=xi)
        b = one_by_one(R, atoms, theirs, weights=w, batch=batch, xi=xi)
        assert np.abs(a - b).max() < 1e-12
        assert [g.random() for g in ours] == [g.random() for g in theirs]
    assert np.array_equal(a[0], atoms) and np.array_equal(atoms, before)


def test_many_heads_and_many_steps():
    R, _ = make(5, d=2, k=1, v=1, T=2)
    atoms, times = starts(R, 1, 5000), [0.0, 80 / 64]
    a = sgd_ensemble(R, atoms, times, 1 / 64, [3], lambda mu: mu.atoms)
    assert np.abs(a[-1, 0] - sgd(R, Measure(atoms[0]), times, 1 / 64, 3).end.atoms).max() < 1e-12


def test_first_time_and_what_is_observed(capsys):
    R, _ = make(5)
    atoms, seen = starts(R, 2, 3), []
    weights = [[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]]

    def observe(mu):
        seen.append(mu.weights.tolist())
        return [R(mu), mu.size]

    options = {"weights": weights, "xi": XI, "progress": True}
    values = sgd_ensemble(R, atoms, [0.25, 1.0], EPS, [3, 4], observe, **options)
    assert values.shape == (2, 2, 2) and (values[..., 1] == 3).all() and seen == weights * 2
    for r in range(2):
        alone = sgd(R, Measure(atoms[r], weights[r]), [0.25, 1.0], EPS, 3 + r, xi=XI)
        assert np.abs(values[:, r, 0] - alone.value).max() < 1e-12
    one = sgd_ensemble(R, atoms, [0.5], EPS, [3, 4], lambda mu: mu.atoms)
    assert np.array_equal(one[0], atoms) and "12/12" in capsys.readouterr().err


@pytest.mark.parametrize("score", [1.0, 590.0, 640.0, 708.0, 720.0, 800.0, 1300.0])
def test_scores_beyond_the_range_of_exponentials(score):
    """The largest score relative to the query's own: |-2| times |2 - (-2)| / 8 of it."""
    X = np.array([[[[2.0], [-1.0], [1.5], [-2.0], [0.5]]]])
    Y, W_U, shape = np.full((1, 1, 5, 2), 0.5), np.array([[1.0, -1.0]]), HeadShape(1, 1, 1)
    theta = np.array([[-score / 8, 1.0, 0.3, 2e4]])
    g = ensemble_gradient(theta.T[:, None], X, Y, W_U, shape)
    expected = AttentionRisk(X[0], Y[0], W_U, shape).gradient(theta, Measure(theta))[0]
    np.testing.assert_allclose(g[:, 0, 0], expected, rtol=1e-9, atol=1e-14 * abs(expected).max())


def test_in_balls_a_run_is_that_of_sgd():
    R, _ = make(4)
    F = R.on(R.shape.ball(0.5))
    start = np.array([F.space.retract(x, 0 * x) for x in starts(R, 2, 3)])
    seen = sgd_ensemble(F, start, [0, 4], 0.25, [1, 2], lambda mu: mu.atoms)
    for r in range(2):
        alone = sgd(F, Measure(start[r]), [0, 4], 0.25, r + 1)
        np.testing.assert_allclose(seen[-1, r], alone.end.atoms, atol=1e-12)
    free = sgd_ensemble(R, start, [0, 4], 0.25, [1, 2], lambda mu: mu.atoms)
    assert np.abs(seen - free).max() > NOTICED  # heads were held back


R, _ = make(5)


def test_heads_that_are_no_longer_finite_are_reported():
    R, _ = make(5)
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="step 4"):
        sgd_ensemble(R, starts(R, 2, 3), [0, 4e200], 1e200, [0, 1], lambda mu: mu.atoms.ravel())
