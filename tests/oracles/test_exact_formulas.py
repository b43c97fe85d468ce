"""Formulas with constants that other tests see only through inequalities, written out again."""

from types import SimpleNamespace

import numpy as np
import pytest
from examples import small_risk
from scipy import stats
from scipy.integrate import quad

from mfbook import bounds
from mfbook.bounds import approximation
from mfbook.flow import gradient_flow
from mfbook.landscape import (
    arrangement,
    collinear_maximum,
    diagonal_maximum,
    extremal,
    maximise_potential,
    minimise_potential,
    nonnegative_maximum,
)
from mfbook.measure import Measure
from mfbook.models.confinement import Ridge
from mfbook.stability import kl_fit


@pytest.mark.parametrize(("k", "R_X", "R_U"), [(1, 1.3, 0.7), (4, 0.6, 1.9)])
def test_growth_is_that_of_its_own_slopes(k, R_X, R_U):
    c = np.sqrt(2) * R_X * R_U
    for tau, values, queries in ((0.7, 0.8, 1.1), (0.2, 2.0, 0.3)):
        bound = bounds.growth_bound(R_X, R_U, k, tau, values, queries)
        assert bound.values == pytest.approx(values * np.exp(c * tau), rel=1e-14)
        # d/dt |W_V|, |W_O| <= c times the other; the scores' derivative has |W_V| |W_O| <= v^2 / 4
        slope = c * R_X**2 / np.sqrt(k) * bound.values**2 / 4
        assert bound.query_slope == pytest.approx(slope, rel=1e-14)

        def rate(t, values=values, queries=queries):
            return bounds.growth_bound(R_X, R_U, k, t, values, queries).query_slope

        exponent = quad(rate, 0, tau, epsabs=0, epsrel=1e-13)[0]
        assert bound.queries == pytest.approx(queries * np.exp(exponent), rel=1e-12)


@pytest.mark.parametrize("block", [40, 200, 1000, 4000])
def test_heads_are_treated_in_the_largest_blocks_that_fit(monkeypatch, block):
    risk, rng = small_risk(1)
    S, T, V = risk.Y.shape
    mu = Measure(rng.normal(size=(23, risk.shape.size)))
    asked, features = [], approximation.features

    def spy(theta, X, W_U, shape):
        asked.append((len(theta), len(X)))
        return features(theta, X, W_U, shape)

    monkeypatch.setattr(approximation, "features", spy)
    monkeypatch.setattr(approximation, "BLOCK", block)
    bounds.feature_variance(risk, mu)
    one = T * (T + V)  # numbers of one head on one sequence: its attention and its features
    sequences = max(1, min(S, block // one))
    heads = max(1, block // (sequences * one))
    assert max(n for n, s in asked if s == sequences) == min(heads, 23)
    assert asked[0][1] == sequences
    assert all(n * s * one <= block or (n, s) == (1, 1) for n, s in asked)
    assert sum(n * s for n, s in asked) == 23 * S


def test_no_variance_gives_no_excess():
    assert bounds.variance_rate(0.0, 5) == 0


def test_interval_of_the_exponent_is_students():
    rng = np.random.default_rng(5)
    E = rng.permutation(np.geomspace(1.0, 1e-4, 41))
    D = E**1.4 * np.exp(0.3 * rng.normal(size=41))
    fit = kl_fit(E, D, blocks=6)
    order = np.argsort(-E)
    slopes = [np.polyfit(np.log(E[i]), np.log(D[i]), 1)[0] for i in np.array_split(order, 6)]
    np.testing.assert_allclose(fit.slopes, slopes, rtol=1e-10)
    low, high = stats.t.interval(0.95, 5, np.mean(slopes), stats.sem(slopes))
    assert fit.interval == pytest.approx((low / 2, high / 2), rel=1e-10)
    assert fit.alpha == pytest.approx(np.polyfit(np.log(E), np.log(D), 1)[0] / 2, rel=1e-10)


def test_least_number_of_points_of_a_fit():
    E = np.geomspace(1, 0.1, 6)
    assert kl_fit(E, E, blocks=3).alpha == pytest.approx(0.5)
    with pytest.raises(ValueError, match="gap: expected at least 8 points, got 6"):
        kl_fit(E, E, blocks=4)


def test_runge_kutta_is_of_fourth_order_when_the_rate_moves():
    def rate(t):
        return 0.5 + 0.4 * np.sin(5 * t)

    def clock(t):  # twice the integral of the rate
        return t + 0.16 * (1 - np.cos(5 * t))

    start, errors, steps = Measure([[1.0, -2.0]]), [], np.array([1 / 32, 1 / 64, 1 / 128])
    for h in steps:
        run = gradient_flow(Ridge(1.0), start, [0.5, 1.5], xi=rate, method="rk4", step=h)
        exact = start.atoms * np.exp(clock(0.5) - clock(1.5))
        errors.append(np.abs(run.end.atoms - exact).max())
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(order - 4) < 0.2 and errors[-1] < 1e-9


def crossings(height, direction=0, **options):
    """Times at which ``height`` of the one coordinate x = e^-t changes its sign."""

    def event(t, mu):
        return height(mu.atoms[0, 0])

    event.direction = direction
    run = gradient_flow(Ridge(1.0), Measure([[1.0]]), [0, 3.0], events=[event], **options)
    return run.events[0]


def test_events_in_one_direction_only():
    at = -np.log(0.3)
    for direction, expected in ((0, [at]), (-1, [at]), (1, [])):
        np.testing.assert_allclose(crossings(lambda x: x - 0.3, direction), expected, atol=1e-8)
        np.testing.assert_allclose(crossings(lambda x: 0.3 - x, -direction), expected, atol=1e-8)


def test_an_event_that_is_zero_from_the_start_is_no_crossing():
    assert len(crossings(lambda x: x - 1.0)) == 0
    assert len(crossings(lambda x: 0.0 * x)) == 0


def test_a_step_that_ends_at_a_zero_is_counted_once():
    """The height is exactly zero at the end of a step and stays so, or goes on."""
    seen = []
    gradient_flow(
        Ridge(1.0),
        Measure([[1.0]]),
        [0, 3.0],
        events=[lambda t, mu: seen.append(mu.atoms[0, 0]) or 1],
    )
    middle = seen[len(seen) // 2]  # a state at the end of a step
    for sign in (1, -1):
        found = crossings(lambda x, s=sign: s * (x - middle))
        np.testing.assert_allclose(found, [-np.log(middle)], atol=1e-8)
        found = crossings(lambda x, s=sign: s * max(x - middle, 0.0))
        np.testing.assert_allclose(found, [-np.log(middle)], atol=1e-8)


def test_fixed_steps_count_and_finish_wherever_they_start(capsys):
    run = gradient_flow(
        Ridge(0.1), Measure([[1.0]]), [2.0, 3.0, 4.0], method="euler", step=0.25, progress=True
    )
    assert run.steps == 8 and run.completed
    assert "100%" in capsys.readouterr().err


def test_an_ascent_in_the_first_adaptive_step_is_reported():
    class Rising(Ridge):
        """Whose stated gradient points uphill."""

        def at(self, mu):
            local = super().at(mu)
            return SimpleNamespace(value=local.value, gradient=lambda x: -local.gradient(x))

    run = gradient_flow(Rising(1.0), Measure([[1.0]]), [0.0, 0.01], rtol=1e-9)
    assert run.steps == 1
    risen = Ridge(1.0)(run.end) - Ridge(1.0)(Measure([[1.0]]))
    assert 0 < run.increase <= risen


# ------------------------------------------------------------------ arrangements of hyperplanes


@pytest.mark.parametrize(
    ("L", "d"), [(1, 2), (2, 2), (5, 2), (2, 3), (3, 3), (5, 3), (4, 4), (6, 4)]
)
def test_number_of_faces_is_that_of_all_cells_of_all_flats(L, d):
    c = np.random.default_rng(L + 10 * d).normal(size=(L, d))
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    faces = 0
    for basis, through in extremal._all_flats(c):
        rest = c[~through] @ basis.T
        if len(basis) == 1:
            faces += 2
        else:
            faces += len(arrangement.cells(rest)[0])
    assert extremal._count_faces(L, d) == faces
    if d == 2:  # L lines cut the circle in 2 L points and as many arcs
        assert faces == 4 * L


def test_faces_are_refused_beyond_the_limit():
    arrangement.refuse_many(arrangement.MOST_FACES)
    with pytest.raises(ValueError, match="a: expected directions with at most 2000000 faces"):
        arrangement.refuse_many(arrangement.MOST_FACES + 1)


def test_table_of_the_least_potential_is_that_of_the_opposite_weights():
    rng = np.random.default_rng(7)
    a = rng.normal(size=(4, 3))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    omega = rng.normal(size=4)
    low, high = minimise_potential(a, omega), maximise_potential(a, -omega)
    for name in ("matrices", "eigenvalues", "values"):
        np.testing.assert_allclose(
            getattr(low.candidates, name), -getattr(high.candidates, name), atol=1e-14
        )
    matrices = [
        sum(w * np.outer(x, x) for w, x, on in zip(omega, a, active, strict=True) if on)
        + np.zeros((3, 3))
        for active in low.candidates.regions.active
    ]
    np.testing.assert_allclose(low.candidates.matrices, matrices, atol=1e-13)
    assert not np.signbit(maximise_potential(a, -np.abs(omega)).value)


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_collinear_units_that_tie(scale):
    a1 = np.array([0.6, 0.8])
    # both ends have the same sum up to rounding: two maximisers, with opposite signs
    top = collinear_maximum(a1, [1, 1, -1], scale * np.array([0.1, 0.2, 0.3]))
    assert top.value == pytest.approx(0.3 * scale, rel=1e-15)
    np.testing.assert_array_equal(top.points, [a1, -a1])
    np.testing.assert_array_equal(top.signs, [[1, 1, -1], [-1, -1, 1]])
    np.testing.assert_array_equal(top.spans, [a1[None], -a1[None]])
    one = collinear_maximum(a1, [1, 1, -1], scale * np.array([0.1, 0.2, 0.3 - 1e-9]))
    np.testing.assert_array_equal(one.points, [a1])
    # nothing to gain at one end, a loss at the other: half a circle
    half = collinear_maximum(a1, [1, -1], scale * np.array([-1.0, 0.0]))
    assert half.value == 0 and half.kind == "continuum"
    np.testing.assert_array_equal(half.points, [-a1])
    np.testing.assert_array_equal(half.signs, [[-1, 1]])
    # a loss at both: the two points of the equator, where no unit is active
    none = collinear_maximum(a1, [1, -1], scale * np.array([-1.0, -2.0]))
    np.testing.assert_allclose(np.abs(none.points @ a1), 0, atol=1e-16)
    np.testing.assert_allclose(none.points[0], -none.points[1])
    assert none.value == 0 and not none.signs.any()


def test_collinear_signs_are_checked_one_by_one():
    for signs in ([1, 0, -1], [1, -1, 2]):
        with pytest.raises(ValueError, match="signs: expected entries 1 or -1"):
            collinear_maximum([1.0, 0.0], signs, [1.0, 1.0, 1.0])
    assert collinear_maximum([1.0, 0.0], [1], [2.0]).value == 2


def test_diagonal_units_that_tie():
    top = diagonal_maximum([3.0, 1.0, 3.0], 4)
    assert top.value == 3 and top.kind == "continuum"
    (point,) = top.points
    np.testing.assert_allclose(point, np.array([1, 0, 1, 0]) / np.sqrt(2), rtol=1e-15)
    np.testing.assert_array_equal(top.signs, [[True, False, True]])
    np.testing.assert_array_equal(top.spans[0], np.eye(4)[[0, 2]])


def test_nonnegative_blocks_are_connected_whatever_their_order():
    a = np.array([[0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0.8, 0, 0.6], [0, 0, 0.8, 0.6]])[
        :, [3, 1, 0, 2]
    ]
    top = nonnegative_maximum(a, [1.0, 1.0, 1.0, 1.0])
    gram = np.einsum("jk,jl->kl", a, a)
    values, vectors = np.linalg.eigh(gram)
    assert top.value == pytest.approx(values[-1], rel=1e-14)
    np.testing.assert_allclose(np.abs(top.points[0] @ vectors[:, -1]), 1, rtol=1e-12)
    assert (top.points >= 0).all()
