"""Formulas with constants that other tests see only through inequalities, written out again."""

import numpy as np
import pytest
from scipy.integrate import quad

from mfbook import bounds
from mfbook.flow import gradient_flow
from mfbook.landscape import (
    collinear_maximum,
    maximise_potential,
    minimise_potential,
    nonnegative_maximum,
)
from mfbook.measure import Measure
from mfbook.models.confinement import Ridge


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


def test_events_are_crossings_in_their_direction():
    at = -np.log(0.3)
    for direction, expected in ((0, [at]), (-1, [at]), (1, [])):
        np.testing.assert_allclose(crossings(lambda x: x - 0.3, direction), expected, atol=1e-8)
        np.testing.assert_allclose(crossings(lambda x: 0.3 - x, -direction), expected, atol=1e-8)
    # what is zero from the start crosses nothing
    assert len(crossings(lambda x: x - 1.0)) == len(crossings(lambda x: 0.0 * x)) == 0


# ------------------------------------------------------------------ arrangements of hyperplanes


def test_too_many_units_are_refused_before_any_work():
    a = np.random.default_rng(0).normal(size=(200, 6))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    for find in (maximise_potential, minimise_potential):
        with pytest.raises(ValueError, match="^a: "):
            find(a, np.ones(200))


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
