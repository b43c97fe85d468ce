"""Promises of the kernels that no other test would miss: sizes of blocks, bounds, counts, ends."""

from types import SimpleNamespace

import numpy as np
import pytest
from reference import heads, make
from spies import watch

from mfbook import functional
from mfbook._validate import SUM_TOLERANCE, probabilities
from mfbook.book.tasks import copy_task
from mfbook.bounds import derivatives
from mfbook.bounds.derivatives import directional_derivatives, largest_derivative
from mfbook.flow import gradient_flow, sgd
from mfbook.flow.grid import step_numbers, time_grid
from mfbook.functional import Functional, check_functional
from mfbook.measure import Measure
from mfbook.models import attention
from mfbook.models.attention import (
    AttentionRisk,
    HeadShape,
    attention_weights,
    cross_entropy,
    ensemble,
    softmax,
)
from mfbook.models.attention.ensemble import sgd_ensemble
from mfbook.space import Ball
from mfbook.transport import distance_to, lipschitz, random_functions, sliced_w2
from mfbook.transport.solvers import monotone, scaled

# ------------------------------------------------------------------------------- attention


def one_head(scores_size, dtype=np.float64):
    """Two opposite tokens of length 3 and a head whose scores are +- 9 times ``scores_size``."""
    shape = HeadShape(1, 1, 1)
    risk = AttentionRisk([[[3.0], [-3.0]]], [[[1.0, 0], [0, 1]]], [[1.0, -1]], shape, dtype=dtype)
    return risk, np.array([[scores_size, 1.0, 1.0, 1.0]], dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_are_called_small_exactly_while_no_sum_of_exponentials_overflows(dtype):
    # relative to the query's own, a score is at most 2 |x|^2 |B| = 18 |B| here
    limit = float(np.log(float(np.finfo(dtype).max) / 16)) / 18
    for factor, expected in ((0.999, True), (1.001, False), (100.0, False)):
        risk, theta = one_head(factor * limit, dtype)
        B, small = attention._score_matrices(theta, risk)
        assert small is expected
        assert B.shape == (1, 1, 1) and B[0, 0, 0] == pytest.approx(factor * limit, rel=1e-4)
        value = risk(Measure(theta))
        right = cross_entropy(
            attention.features(theta, risk.X, risk.W_U, risk.shape)[0].astype(float), risk.Y
        ).mean()
        assert value == pytest.approx(right, rel=1e-12, abs=10 * float(np.finfo(dtype).eps))


def test_largest_token_and_largest_head_decide():
    shape = HeadShape(2, 1, 1)
    X = np.array([[[0.1, 0], [3.0, 4.0]], [[0.2, 0.1], [0, 0.3]]])
    risk = AttentionRisk(X, np.full((2, 2, 2), 0.5), np.eye(2), shape)
    # |x|^2 = 25, |B|_F = |q| |k|
    limit = float(np.log(np.finfo(float).max / 16)) / 50
    theta = np.zeros((3, shape.size))
    theta[1, :4] = [0.6, 0.8, limit * 0.999, 0]
    assert attention._score_matrices(theta, risk)[1]
    theta[2, :4] = [0.6, 0.8, 0, limit * 1.001]
    assert not attention._score_matrices(theta, risk)[1]


def test_buffers_begin_on_a_cache_line():
    for size in (1, 7, 1000):
        for dtype in (np.float32, np.float64, np.complex128):
            buffer = attention._aligned(size, dtype)
            assert buffer.shape == (size,) and buffer.dtype == dtype
            assert buffer.__array_interface__["data"][0] % 64 == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_are_kept_exactly_while_they_fit(monkeypatch, dtype):
    R, _ = make(0, d=3, k=1, v=1)
    R = AttentionRisk(R.X, R.Y, R.W_U, R.shape, dtype=dtype)
    mu = Measure(heads(0, 5, R.shape))
    S, T = R.X.shape[:2]
    needed = 5 * S * T * (T - 1) // 2 * np.dtype(dtype).itemsize
    gradients = []
    for keep, expected in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(attention, "KEEP", keep)
        local = R.at(mu)
        assert (local._kept is not None) is expected
        gradients.append(local.gradient(mu.atoms))
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(*gradients, rtol=tolerance, atol=tolerance)
    if expected is False:
        assert local._kept is None


def test_kept_weights_are_those_of_the_heads():
    R, _ = make(1, d=2, k=1, v=1)
    mu = Measure(heads(1, 3, R.shape))
    kept = R.at(mu)._kept
    A = attention_weights(mu.atoms, R.X, R.shape)
    S, T = R.X.shape[:2]
    assert len(kept) == T - 1
    for i, block in enumerate(kept, 1):
        np.testing.assert_allclose(block, A[:, :, i, :i].transpose(2, 1, 0), rtol=1e-12)


def test_complex_and_real_logits_agree():
    f = np.random.default_rng(0).normal(size=(3, 4)) * 30
    np.testing.assert_allclose(softmax(f + 0j).real, softmax(f), rtol=1e-13)
    assert softmax(f).dtype == np.float64 and softmax(f + 0j).dtype == np.complex128


# ------------------------------------------------------------------------------- derivatives


def test_into_ball_keeps_directions_and_stays_inside():
    z = np.random.default_rng(0).normal(size=(50, 3)) * 4
    x = derivatives._into_ball(z, 2.5)
    size = np.linalg.norm(z, axis=1)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 2.5 * np.abs(np.sin(size)), rtol=1e-12)
    np.testing.assert_allclose(np.abs((x * z).sum(axis=1)), np.linalg.norm(x, axis=1) * size)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_ascent_of_a_derivative_follows_its_gradient(monkeypatch, order):
    searches = watch(monkeypatch, derivatives)
    shape = HeadShape(2, 1, 2)
    sizes = {"R_X": 1.2, "R_U": 0.7, "tokens": 3, "starts": 2}
    found = largest_derivative(order, shape, 1.5, 4, **sizes)
    values = [-search.run.fun for search in searches]
    assert len(searches) == 2 and found.value == max(values)
    assert found.agreeing == sum(v >= found.value * (1 - 1e-6) for v in values)
    assert found.converged == searches[int(np.argmax(values))].run.success
    for search in searches:
        assert search.difference == pytest.approx(search.slope, rel=1e-5, abs=1e-8)
        assert search.options == {"maxiter": 1000, "maxfun": 1000, "maxcor": 20,
                                  "ftol": 1e-14, "gtol": 1e-8}  # fmt: skip
        ends = np.cumsum([*shape.blocks, 2, 2, 2, shape.size, 2])
        *blocks, h, e, log_counts = np.split(search.start, ends)
        # four matrices and three tokens on the boundary of their balls: the sine is one there
        np.testing.assert_allclose([np.linalg.norm(b) for b in blocks], np.pi / 2, rtol=1e-14)
        assert not log_counts.any()
    assert found.counts.sum() == pytest.approx(1, rel=1e-15) and (found.counts > 0).all()
    derivative = directional_derivatives(
        found.theta[None], found.direction[None], found.X, 0.7 * np.eye(2), shape, found.counts
    )[order][0]
    assert np.linalg.norm(derivative) == pytest.approx(found.value, rel=1e-6)
    assert np.linalg.norm(found.direction) == pytest.approx(1, rel=1e-12)
    assert np.linalg.norm(found.X, axis=1).max() <= 1.2 * (1 + 1e-12)


# --------------------------------------------------------------------- functionals and arguments


class Square(Functional):
    """Half the mean square, with parts that can be made wrong."""

    def __init__(self, first=1.0, slope=1.0, space=None):
        self.first, self.slope = first, slope
        if space is not None:
            self.space = space

    def at(self, mu):
        return SimpleNamespace(
            value=(mu.weights * (mu.atoms**2).sum(axis=1)).sum() / 2,
            first_variation=lambda x: self.first * (x**2).sum(axis=1) / 2,
            gradient=lambda x: self.slope * x,
        )


def test_relative_errors_are_relative_to_what_is_stated():
    mu = Measure(np.random.default_rng(0).normal(size=(4, 3)))
    assert check_functional(Square(), mu, 0).ok
    for share in (1.5, 3.0):
        report = check_functional(Square(slope=share), mu, 0)
        assert report.gradient == pytest.approx((share - 1) / share, rel=0.5)
        assert report.complex_step_x == pytest.approx(report.gradient, rel=1e-4)
        report = check_functional(Square(first=share, slope=share), mu, 0)
        assert report.gradient < 1e-8 and report.first_variation > 0.1
        # the slope of the value along the atoms is 1 / share of what the gradient states
        assert report.complex_step_mu > 1e-4
    assert functional._relative(2.0, 0.0, 0.0) == 2.0
    assert functional._relative(2.0, 1.5, 4.0) == 0.125


def test_directions_of_the_check_are_allowed_both_ways_on_a_boundary():
    asked = []

    class Watched(Square):
        def at(self, mu):
            local = super().at(mu)
            first = local.first_variation
            local.first_variation = lambda x: asked.append(x) or first(x)
            return local

    ball = Ball(1.0, (3,))
    on = np.random.default_rng(1).normal(size=(5, 3))
    on /= np.linalg.norm(on, axis=1, keepdims=True)
    assert check_functional(Watched(space=ball), Measure(on), 0).gradient < 1e-6
    real = [x for x in asked if not np.iscomplexobj(x)]
    up, down = real[-2:]
    np.testing.assert_allclose(up + down, 2 * on, atol=1e-9)


def test_probabilities_may_be_off_by_what_rounding_explains():
    n = 10_000
    p = np.full(n, np.float32(1) / np.float32(n), np.float32)
    p[0] += np.float32(n * np.finfo(np.float32).eps)  # a quarter of what is allowed
    assert probabilities(p, "p", (n,)).sum() == pytest.approx(1, abs=1e-12)
    with pytest.raises(ValueError, match="p: expected to sum to 1"):
        probabilities(p + np.float32(5 * np.finfo(np.float32).eps), "p", (n,))
    q = np.array([0.5, 0.5 + 0.9 * SUM_TOLERANCE])
    np.testing.assert_array_equal(probabilities(q, "p", (2,)), q)
    with pytest.raises(ValueError, match="sum"):
        probabilities(np.array([0.5, 0.5 + 1.1 * SUM_TOLERANCE]), "p", (2,))
    np.testing.assert_array_equal(probabilities([0.0, 1.0], "p", (2,)), [0, 1])


# ------------------------------------------------------------------------------- runs side by side


def test_runs_together_cover_all_of_them_once():
    for R, M in ((7, ensemble.BLOCK), (7, 2 * ensemble.BLOCK), (70, 1), (9, ensemble.BLOCK // 2)):
        parts = ensemble._together(R, M)
        assert [r for part in parts for r in range(*part.indices(R))] == list(range(R))
        assert max(p.stop - p.start for p in parts) == min(R, max(1, ensemble.BLOCK // M))


def test_progress_of_runs_counts_every_step(capsys):
    R = copy_task(sequences=8, tokens=4, vocabulary=3, lag=1, rng=0).risk(HeadShape(4, 1, 1))
    start = np.random.default_rng(1).normal(size=(3, 2, 16))
    quiet = sgd_ensemble(R, start, [0.5, 1.5], 0.25, [1, 2, 3], lambda mu: [R(mu)])
    assert capsys.readouterr().err == ""
    loud = sgd_ensemble(R, start, [0.5, 1.5], 0.25, [1, 2, 3], lambda mu: [R(mu)], progress=True)
    assert "12/12" in capsys.readouterr().err
    np.testing.assert_array_equal(quiet, loud)


def test_a_head_that_is_lost_is_reported_with_its_step():
    R = copy_task(sequences=8, tokens=4, vocabulary=3, lag=1, rng=0).risk(HeadShape(4, 1, 1))
    start = np.random.default_rng(1).normal(size=(1, 2, 16))
    with pytest.raises(FloatingPointError, match="after step 6"):
        sgd_ensemble(
            R, start, [1.0, 1.5], 0.25, [1], lambda mu: [R(mu)], xi=lambda t: 1e200 + 0 * t
        )


def test_draws_ahead_are_those_of_one_step_after_the_other(monkeypatch):
    R = copy_task(sequences=8, tokens=4, vocabulary=3, lag=1, rng=0).risk(HeadShape(4, 1, 1))
    start = np.random.default_rng(1).normal(size=(1, 2, 16))
    generator = np.random.default_rng(5)
    sgd_ensemble(R, start, [0.0, 1.25], 0.25, [generator], lambda mu: [0.0])
    other = np.random.default_rng(5)
    for _ in range(5):  # five steps draw five times, not more
        R.draw(other, 1)
    assert generator.random() == other.random()


# ------------------------------------------------------------------------------- time and transport


def test_grids_of_time():
    np.testing.assert_array_equal(time_grid([0.0]), [0])
    with pytest.raises(ValueError, match="increasing times, got 1.0 before 1.0"):
        time_grid([0.0, 1.0, 1.0])
    np.testing.assert_array_equal(step_numbers([0.5, 0.75], 0.25, "step"), [2, 3])
    # a time may be off by a billionth of itself, and not by more
    np.testing.assert_array_equal(step_numbers([0, 100 * (1 + 0.9e-9)], 1.0, "step"), [0, 100])
    with pytest.raises(ValueError, match="times: expected multiples of step = 1.0, got 100.0"):
        step_numbers([0, 100 * (1 + 1.1e-9)], 1.0, "step")


def test_the_record_of_descent_is_that_of_its_states():
    R = copy_task(sequences=8, tokens=4, vocabulary=3, lag=1, rng=0).risk(HeadShape(4, 1, 1))
    mu = Measure(np.random.default_rng(0).normal(size=(3, 16)), [0.2, 0.3, 0.5])
    run = sgd(R, mu, [0.0, 0.5], 0.25, 1)
    for i in range(2):
        state = run.measure(i)
        G = R.gradient(state.atoms, state)
        assert run.dissipation[i] == pytest.approx(state.weights @ (G**2).sum(axis=1), rel=1e-13)
        assert run.value[i] == pytest.approx(R(state), rel=1e-13)


@pytest.mark.parametrize("method", ["DOP9", None, 3, ("RK45",)])
def test_methods_that_do_not_exist(method):
    with pytest.raises(ValueError, match="method: expected one of"):
        gradient_flow(Square(), Measure([[1.0]]), [0, 1], method=method)


def test_monotone_plan_has_the_right_marginals():
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (3, 5), (40, 17)):
        x, y = rng.normal(size=n), rng.normal(size=m)
        a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
        i, j, mass = monotone(x, a, y, b)
        np.testing.assert_allclose(np.bincount(i, mass, n), a, atol=1e-15)
        np.testing.assert_allclose(np.bincount(j, mass, m), b, atol=1e-15)
        order = np.lexsort((y[j], x[i]))
        assert (np.diff(y[j][order]) >= 0).all() and len(mass) <= n + m - 1
        # sums that are off by rounding do not matter
        again = monotone(x, a * (1 + 1e-12), y, b)
        np.testing.assert_allclose(np.bincount(again[0], again[2], n), a, atol=1e-11)


def test_scaled_clouds_have_size_one_half_to_one_and_whole_mass():
    mu = Measure(np.array([[300.0, 1], [2, 5], [0, 0]]), [0.5, 0.5, 0.0])
    nu = Measure(np.array([[-700.0, 1]]))
    (i, x, a), (j, y, b), exponent = scaled(mu, nu)
    assert exponent == 10 and np.abs(y).max() == 700 / 1024
    np.testing.assert_array_equal(i, [0, 1])
    np.testing.assert_array_equal(j, [0])
    np.testing.assert_array_equal(x, mu.atoms[:2] / 1024)
    np.testing.assert_array_equal(a, [0.5, 0.5])
    np.testing.assert_array_equal(b, [1.0])


def test_test_functions_are_measured_in_rows_that_fit(monkeypatch):
    asked, cdist = [], lipschitz.cdist

    def spy(x, y, *rest):
        asked.append((len(x), len(y)))
        return cdist(x, y, *rest)

    monkeypatch.setattr(lipschitz, "cdist", spy)
    monkeypatch.setattr(lipschitz, "BLOCK", 60)
    rng = np.random.default_rng(0)
    x, centres, values = rng.normal(size=(20, 2)), rng.normal(size=(7, 2)), rng.normal(size=7)
    found = lipschitz._mcshane(x, centres, values)
    naive = (np.linalg.norm(x[:, None] - centres, axis=2) - values).min(axis=1)
    np.testing.assert_allclose(found, naive, rtol=1e-14)
    assert max(n for n, _ in asked) == 60 // 7
    assert all(m == 7 for _, m in asked)


def test_distance_is_right_at_the_centre_and_close_to_the_ends_of_the_numbers():
    f = distance_to([1.0, 2.0])
    x = np.array([[1.0, 2.0], [4.0, 6.0]])
    np.testing.assert_array_equal(f(x), [0, 5])
    np.testing.assert_allclose(f.gradient(x), [[0, 0], [0.6, 0.8]])
    np.testing.assert_allclose(distance_to([0.0, 0.0])([[3e300, 4e300]]), 5e300)


def test_random_functions_are_of_every_kind():
    functions = random_functions(np.random.default_rng(0), 3, 30)
    assert len({f.name.split()[0] for f in functions}) >= 3


def test_sliced_distance_is_symmetric_for_unequal_weights():
    rng = np.random.default_rng(0)
    mu = Measure(rng.normal(size=(6, 2)), rng.dirichlet(np.ones(6)))
    nu = Measure(rng.normal(size=(9, 2)) + 1, rng.dirichlet(np.ones(9)))
    ab, ba = sliced_w2(mu, nu, 3), sliced_w2(nu, mu, 3)
    assert ab.distance == pytest.approx(ba.distance, rel=1e-12)


def test_norms_of_heads_with_sequences_of_their_own():
    shape, rng = HeadShape(2, 1, 1), np.random.default_rng(3)
    theta, W_U = rng.normal(size=(3, shape.size)), rng.normal(size=(2, 4))
    X = rng.normal(size=(3, 5, 2))
    together = derivatives.derivative_norms(theta, X, W_U, shape)
    for i in range(3):
        alone = derivatives.derivative_norms(theta[i : i + 1], X[i], W_U, shape)
        for name in ("value", "first", "second", "share"):
            found, expected = getattr(together, name)[i], getattr(alone, name)[0]
            assert found == pytest.approx(expected, rel=1e-6), name


@pytest.mark.parametrize("sizes", [(2, 2, 1), (3, 1, 2), (2, 1, 3)])
def test_share_of_the_scores_is_that_of_the_direction_that_bends_most(sizes):
    shape, rng = HeadShape(*sizes), np.random.default_rng(1)
    D, d = shape.size, shape.d
    theta, W_U = rng.normal(size=(1, D)), rng.normal(size=(d, 3))
    X = rng.normal(size=(4, d))
    # the form of second derivatives, by polarisation along all pairs of axes
    unit = np.eye(D)

    def along(h):
        heads = np.repeat(theta, len(h), axis=0)
        return directional_derivatives(heads, h, X, W_U, shape)[2]

    form = np.empty((D, D, 3))
    for i in range(D):
        form[i] = (along(unit[i] + unit) - along(unit[i] - unit)) / 4
    best, share = 0.0, None
    for _ in range(60):  # ascent from many directions of the logits
        e = rng.normal(size=3)
        for _ in range(60):
            values, vectors = np.linalg.eigh(form @ e)
            h = vectors[:, np.abs(values).argmax()]
            e = np.einsum("ijv,i,j->v", form, h, h)
            e, size = e / np.linalg.norm(e), np.linalg.norm(e)
        if size > best:
            best, share = size, (h[: 2 * d * shape.k] ** 2).sum()
    norms = derivatives.derivative_norms(theta, X, W_U, shape)
    assert norms.second[0] == pytest.approx(best, rel=1e-6)
    assert norms.share[0] == pytest.approx(share, abs=1e-3)


def test_derivatives_name_a_shape_that_is_none():
    with pytest.raises(TypeError, match="^shape: expected a HeadShape, got str"):
        derivatives.derivative_norms(np.zeros((1, 8)), np.ones((3, 2)), np.eye(2), "shape")
    with pytest.raises(TypeError, match="^shape: expected a HeadShape, got str"):
        largest_derivative(1, "shape", 1.0, 0)


@pytest.mark.parametrize("events", [[3], [lambda t, mu: 1.0, 3], iter([lambda t, mu: 1.0]), "abc"])
def test_events_that_are_none(events):
    with pytest.raises(TypeError, match="^events: expected a sequence of callables"):
        gradient_flow(Square(), Measure([[1.0]]), [0, 1], events=events)
