"""Many runs side by side: the same numbers as run by run, for every way of cutting the work."""

import numpy as np
import pytest
import test_wrong_programs as wrong
from hypothesis import given
from hypothesis import strategies as st
from reference import Program, heads, make, relative

from mfbook.flow import polynomial_decay, sgd, warmup_cosine
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape, ensemble
from mfbook.models.attention.ensemble import _Kernel, ensemble_gradient, sgd_ensemble
from mfbook.models.attention.side_by_side import Pairs, Positions
from mfbook.models.confinement import Ridge

TIMES, EPS = [0.0, 0.25, 1.0], 0.125
XI = warmup_cosine(1.0, warmup=0.5, end=1.0, floor=0.1)
NOTICED = 1e-3

# sizes of the problem, then runs, heads, sequences in a step
CASES = {
    "plain": (dict(), 3, 4, 1),
    "batch": (dict(), 3, 4, 3),
    "one of everything": (dict(S=1, T=1, d=1, k=1, v=1, V=2), 1, 1, 1),
    "wide keys": (dict(d=4, k=3, v=1, V=3), 2, 5, 2),
    "wide values": (dict(d=4, k=1, v=3, V=3), 5, 2, 1),
    "long": (dict(T=9, d=2, k=1, v=1), 2, 3, 1),
    "long and wide": (dict(T=9, d=5, k=2, v=2, V=3), 3, 2, 2),
    "long and wider": (dict(T=12, d=6, k=1, v=3, V=3), 2, 3, 1),
    "hard labels": (dict(soft=False), 4, 3, 2),
}


def starts(R, runs, M, seed=11):
    return heads(seed, runs * M, R.shape).reshape(runs, M, -1)


def together(R, atoms, seeds, **options):
    """All states of all runs, shape (n_t, R, M, D)."""
    return sgd_ensemble(R, atoms, TIMES, EPS, seeds, lambda mu: mu.atoms, **options)


def one_by_one(R, atoms, seeds, weights=None, **options):
    weights = [None] * len(atoms) if weights is None else weights
    runs = [
        sgd(R, Measure(a, w), TIMES, EPS, seed, **options)
        for a, w, seed in zip(atoms, weights, seeds, strict=True)
    ]
    return np.stack([run.atoms for run in runs], axis=1)


# ---------------------------------------------------------------------------------------------
# runs


@pytest.mark.parametrize("xi", [None, XI, polynomial_decay(0.9, 0.5, 0.7)], ids=["tau", "w", "p"])
@pytest.mark.parametrize("name", CASES)
def test_same_as_run_by_run(name, xi):
    sizes, runs, M, batch = CASES[name]
    R, _ = make(5, **sizes)
    atoms, seeds = starts(R, runs, M), list(range(20, 20 + runs))
    weights = np.random.default_rng(1).dirichlet(np.ones(M), size=runs)
    for w in (None, weights):
        a = together(R, atoms, seeds, weights=w, batch=batch, xi=xi)
        b = one_by_one(R, atoms, seeds, weights=w, batch=batch, xi=xi)
        assert np.abs(a - b).max() < 1e-12
        assert np.array_equal(a[0], atoms)


@pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 8, 9, 12, 100])
@pytest.mark.parametrize(("runs", "M"), [(5, 4), (1, 7), (7, 1)])
def test_how_the_work_is_cut_does_not_matter(block, runs, M, monkeypatch):
    """Blocks of several runs with a rest, of one run, and of a part of the heads of one run."""
    monkeypatch.setattr(ensemble, "BLOCK", block)
    R, _ = make(5)
    atoms, seeds = starts(R, runs, M), list(range(20, 20 + runs))
    weights = np.random.default_rng(1).dirichlet(np.ones(M), size=runs)
    a = together(R, atoms, seeds, weights=weights, batch=2)
    assert np.abs(a - one_by_one(R, atoms, seeds, weights=weights, batch=2)).max() < 1e-12


def test_generators_go_on_where_single_runs_would():
    R, _ = make(5)
    ours, theirs = ([np.random.default_rng(s) for s in (1, 2)] for _ in range(2))
    atoms = starts(R, 2, 3)
    together(R, atoms, ours, batch=3)
    one_by_one(R, atoms, theirs, batch=3)
    assert [g.random() for g in ours] == [g.random() for g in theirs]


def test_first_time_and_what_is_observed():
    R, _ = make(5)
    atoms, seen = starts(R, 2, 3), []
    weights = [[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]]

    def observe(mu):
        seen.append(mu)
        return [R(mu), mu.size]

    values = sgd_ensemble(R, atoms, [0.25, 1.0], EPS, [3, 4], observe, weights=weights, xi=XI)
    assert values.shape == (2, 2, 2) and (values[..., 1] == 3).all()
    assert [mu.weights.tolist() for mu in seen] == weights * 2
    for r in range(2):
        alone = sgd(R, Measure(atoms[r], weights[r]), [0.25, 1.0], EPS, 3 + r, xi=XI)
        assert np.abs(values[:, r, 0] - alone.value).max() < 1e-12
    one = sgd_ensemble(R, atoms, [0.5], EPS, [3, 4], lambda mu: mu.atoms)
    assert np.array_equal(one[0], atoms)


def test_inputs_are_not_changed():
    R, _ = make(5)
    atoms = starts(R, 2, 3)
    before = atoms.copy()
    a, b = (together(R, atoms, [1, 2]) for _ in range(2))
    assert np.array_equal(atoms, before) and np.array_equal(a, b)


@given(st.permutations(range(4)), st.permutations(range(3)), st.integers(0, 99))
def test_permutations_of_heads_and_of_runs(p, q, seed):
    R, _ = make(5)
    atoms, seeds = starts(R, 3, 4, seed), np.array([1, 2, 3])
    a = together(R, atoms, seeds)
    b = together(R, atoms[q][:, p], seeds[q])
    assert np.abs(a[:, q][:, :, p] - b).max() < 1e-12


@pytest.mark.slow
def test_many_heads():
    """More heads than a block holds, without a change of its size."""
    R, _ = make(5, d=2, k=1, v=1)
    atoms = starts(R, 1, ensemble.BLOCK + 3)
    a = together(R, atoms, [3])
    assert np.abs(a - one_by_one(R, atoms, [3])).max() < 1e-12


# ---------------------------------------------------------------------------------------------
# gradients


def data(sizes, runs, batch, seed=3):
    """Tokens (R, b, T, d) and labels (R, b, T, V) of each run, and what they share."""
    R, _ = make(seed, **{**sizes, "S": runs * batch})
    X = R.X.reshape(runs, batch, *R.X.shape[1:])
    return X, R.Y.reshape(runs, batch, *R.Y.shape[1:]), R.W_U, R.shape


def laid_out(theta):
    """Heads (R, M, D) with the head index last."""
    return np.ascontiguousarray(theta.transpose(2, 0, 1))


@pytest.mark.parametrize("name", CASES)
def test_gradient_against_the_risk_and_the_naive_program(name):
    sizes, runs, M, batch = CASES[name]
    X, Y, W_U, shape = data(sizes, runs, batch)
    theta = heads(4, runs * M, shape).reshape(runs, M, -1)
    g = ensemble_gradient(laid_out(theta), X, Y, W_U, shape)
    assert g.shape == (shape.size, runs, M)
    for r in range(runs):
        mu = Measure(theta[r])
        expected = AttentionRisk(X[r], Y[r], W_U, shape).gradient(theta[r], mu)
        scale = max(np.abs(expected).max(), 1e-3)
        assert np.abs(g[:, r].T - expected).max() < 1e-13 * scale + 1e-15
        program = Program(X[r], Y[r], W_U, shape.d, shape.k, shape.v)
        residual = program.residual(theta[r], mu.weights)
        naive = np.array([program.psi_gradient(h, residual) for h in theta[r]])
        assert np.abs(g[:, r].T - naive).max() < 1e-12 * scale + 1e-15


@pytest.mark.parametrize("sizes", [dict(), dict(T=9, d=5)], ids=["short", "long"])
@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_large_logits(scale, sizes):
    """Logits and scores far beyond what a naive exponential holds."""
    X, Y, W_U, shape = data(sizes, 3, 2)
    theta = heads(4, 12, shape, scale).reshape(3, 4, -1)
    g = ensemble_gradient(laid_out(theta), X, Y, W_U, shape)
    for r in range(3):
        R, mu = AttentionRisk(X[r], Y[r], W_U, shape), Measure(theta[r])
        assert scale < 100 or np.abs(R.logits(mu)).max() > 1e4
        assert relative(g[:, r].T, R.gradient(theta[r], mu)) < 1e-10
    assert np.isfinite(g).all()


@pytest.mark.parametrize("score", [1.0, 590.0, 640.0, 708.0, 720.0, 800.0, 1300.0])
def test_scores_beyond_the_range_of_exponentials(score):
    """The largest score relative to the query's own: |-2| times |2 - (-2)| / 8 of it."""
    X = np.array([[[[2.0], [-1.0], [1.5], [-2.0], [0.5]]]])
    Y, W_U, shape = np.full((1, 1, 5, 2), 0.5), np.array([[1.0, -1.0]]), HeadShape(1, 1, 1)
    theta = np.array([[-score / 8, 1.0, 0.3, 0.2]])
    g = ensemble_gradient(theta.T[:, None], X, Y, W_U, shape)
    expected = AttentionRisk(X[0], Y[0], W_U, shape).gradient(theta, Measure(theta))[0]
    np.testing.assert_allclose(g[:, 0, 0], expected, rtol=1e-9, atol=1e-12)


def test_progress_changes_no_number(capsys):
    R, _ = make(seed=1)
    start, seeds = starts(R, 3, 2), [1, 2, 3]
    quiet = together(R, start, seeds)
    assert capsys.readouterr().err == ""
    loud = together(R, start, seeds, progress=True)
    assert "24/24" in capsys.readouterr().err and np.array_equal(quiet, loud)


def test_runs_do_not_see_each_other():
    X, Y, W_U, shape = data({}, 3, 2)
    theta = laid_out(heads(4, 12, shape).reshape(3, 4, -1))
    g = ensemble_gradient(theta, X, Y, W_U, shape)
    other_theta, other_X = theta.copy(), X.copy()
    other_theta[:, 1] += 1
    other_X[1] += 1
    h = ensemble_gradient(other_theta, other_X, Y, W_U, shape)
    assert np.array_equal(g[:, [0, 2]], h[:, [0, 2]]) and np.abs(g - h)[:, 1].max() > NOTICED


def test_the_future_is_not_seen():
    """The last label and token change; the gradient on the first position alone does not."""
    X, Y, W_U, shape = data({}, 2, 1)
    theta = laid_out(heads(4, 6, shape).reshape(2, 3, -1))
    whole = ensemble_gradient(theta, X, Y, W_U, shape)
    changed = X.copy()
    changed[:, :, -1] += 1
    # the logits at earlier positions stay: make the last residual irrelevant by its share
    first = ensemble_gradient(theta, X[:, :, :3], Y[:, :, :3], W_U, shape)
    again = ensemble_gradient(theta, changed[:, :, :3], Y[:, :, :3], W_U, shape)
    assert np.array_equal(first, again) and np.abs(whole - first).max() > NOTICED


# ---------------------------------------------------------------------------------------------
# bad input

R, _ = make(5)
START = starts(R, 2, 3)
LOW, _ = make(5, dtype=np.float32)
GOOD = dict(F=R, atoms=START, times=[0, 0.5], epsilon=0.25, rngs=[1, 2], observe=lambda mu: [0.0])
BAD = {
    "F": [(None, TypeError), (R + Ridge(0.1), TypeError), (LOW, ValueError),
          (AttentionRisk(R.X, R.Y, R.W_U, R.shape, R.shape.ball(1.0)), ValueError)],
    "atoms": [(START[0], ValueError), (START[..., 1:], ValueError), (START[:, :0], ValueError),
              (START[:0], ValueError), (START + 0j, TypeError), (START * np.nan, ValueError),
              ("x", TypeError)],
    "times": [([], ValueError), ([0, 0.3], ValueError), ([0.5, 0.25], ValueError),
              ([-0.25, 0], ValueError), ("x", TypeError)],
    "epsilon": [(0.0, ValueError), (-0.25, ValueError), (np.nan, ValueError), (None, TypeError)],
    "rngs": [([1], ValueError), ([1, 2, 3], ValueError), ([1, None], TypeError),
             ([1, -1], TypeError), (3, TypeError)],
    "observe": [(None, TypeError)],
    "weights": [(np.ones((2, 3)), ValueError), ([0.2, 0.3, 0.5], ValueError),
                ([[0.5, 0.5]] * 2, ValueError), ([[1.5, -0.5, 0]] * 2, ValueError)],
    "batch": [(0, ValueError), (1.0, TypeError)],
    "xi": [(0.5, TypeError), (lambda t: -1 + 0 * t, ValueError),
           (lambda t: np.nan * t, ValueError)],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    for value, error in BAD[name]:
        with pytest.raises(error) as caught:
            sgd_ensemble(**{**GOOD, name: value})
        assert type(caught.value) is error
        assert str(caught.value).startswith(f"{name}: "), str(caught.value)


def test_gradient_refuses_sizes_that_do_not_fit():
    X, Y, W_U, shape = data({}, 2, 1)
    theta = laid_out(heads(4, 6, shape).reshape(2, 3, -1))
    for args in (
        (theta[1:], X, Y, W_U), (theta[:, 1:], X, Y, W_U), (theta, X[..., 1:], Y, W_U),
        (theta, X, Y[..., 1:], W_U), (theta, X, Y, W_U[1:]),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            ensemble_gradient(*args, shape)


# ---------------------------------------------------------------------------------------------
# wrong programs


def naive(program, sign=-1.0, weigh=False):
    """The runs of ``together`` from START, with gradients of a naive program."""
    ends = []
    for x, w, seed in zip(START, WEIGHTS, (1, 2), strict=True):
        rng = np.random.default_rng(seed)
        for _ in range(round(TIMES[-1] / EPS)):
            F = R.sample(rng, 1)
            p = program(F.X, F.Y, F.W_U, F.shape.d, F.shape.k, F.shape.v)
            residual = p.residual(x, w)
            g = np.array([p.psi_gradient(h, residual) for h in x])
            x = x + sign * EPS * (w[:, None] * g if weigh else g)
        ends.append(x)
    return np.array(ends)


WEIGHTS = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
WRONG = {
    "mask dropped": dict(program=wrong.MaskDropped),
    "scale missing": dict(program=wrong.ScaleMissing),
    "weights ignored": dict(program=wrong.WeightsIgnored),
    "sum for mean over heads": dict(program=wrong.SumForMeanOverHeads),
    "sum for mean over tokens": dict(program=wrong.SumForMeanOverTokens),
    "attention frozen": dict(program=wrong.GradientWithoutAttention),
    "gradient doubled": dict(program=wrong.GradientDoubled),
    "factor 2 lost": dict(program=Program, sign=-0.5),
    "ascent": dict(program=Program, sign=1.0),
    "weights in the velocity": dict(program=Program, weigh=True),
}


def test_right_program_agrees():
    assert relative(together(R, START, [1, 2], weights=WEIGHTS)[-1], naive(Program)) < 1e-12


@pytest.mark.parametrize("name", WRONG)
def test_comparison_notices_a_wrong_program(name):
    ours = together(R, START, [1, 2], weights=WEIGHTS)[-1]
    assert relative(ours, naive(**WRONG[name])) > NOTICED


def test_comparison_notices_shared_randomness_and_a_late_rate():
    right = one_by_one(R, START, [1, 2], xi=XI)
    assert relative(together(R, START, [1, 1], xi=XI), right) > NOTICED

    def late(t):
        return XI(np.asarray(t) + EPS)

    assert relative(together(R, START, [1, 2], xi=late), right) > NOTICED


def test_shape_of_heads_is_used():
    """k and v exchanged fit into the same number of parameters, and give another gradient."""
    X, Y, W_U, shape = data(dict(d=4, k=3, v=1), 2, 1)
    theta = laid_out(heads(4, 6, shape).reshape(2, 3, -1))
    g = ensemble_gradient(theta, X, Y, W_U, shape)
    assert np.abs(g - ensemble_gradient(theta, X, Y, W_U, HeadShape(4, 1, 3))).max() > NOTICED


def test_every_step_has_its_data():
    R, _ = make(seed=1)
    steps = ensemble.AHEAD + 1
    drawn = list(ensemble._data(R, [np.random.default_rng(0)], 2, steps))
    assert len(drawn) == steps
    assert all(X.shape == (1, 2, *R.X.shape[1:]) for X, _ in drawn)


def test_heads_that_are_no_longer_finite_are_reported():
    R, _ = make(seed=1)
    with np.errstate(all="ignore"):
        with pytest.raises(FloatingPointError, match="not finite after step 4; smaller epsilon"):
            sgd_ensemble(R, starts(R, 1, 2), [0, 4e200], 1e200, [0], lambda mu: mu.atoms.ravel())


@pytest.mark.parametrize(
    "T, d, block",
    [(1, 8, Positions), (2, 32, Pairs), (2, 33, Positions), (5, 8, Pairs), (6, 8, Positions)],
)
def test_pairs_side_by_side_while_they_are_few(T, d, block):
    shape = HeadShape(d, 1, 1)
    theta = np.zeros((shape.size, 2, 3))
    kernel = _Kernel(np.zeros((d, 4)), shape, None, theta, np.empty_like(theta), 1, T)
    assert [type(part) for part in kernel.blocks] == [block]
