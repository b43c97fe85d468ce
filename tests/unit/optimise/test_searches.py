"""The searches behind certificates and constants: slopes, starts, options, and what they report."""

import numpy as np
import pytest
from examples import Energy, hard, small, symmetric
from spies import watch

from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.confinement import Anchor, Ridge
from mfbook.optimise import boost, certificate, frank_wolfe_gap, optimal_weights
from mfbook.space import Ball
from mfbook.stability import (
    atomic_stability,
    curvature_margin,
    monotone,
    radial,
    radial_drift,
    second_variation,
    strong_monotonicity,
)
from mfbook.stability.monotone import LITTLE, NEAREST, _lone, _lowest


def two_heads():
    """An attention risk with an anchor, and two heads of different weights."""
    R, _, theta = small(1)
    return R + Anchor(0.4, np.zeros(len(theta))), Measure(np.stack([theta, -theta]), [0.3, 0.7])


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_quotients_descend_along_their_gradient(monkeypatch, near):
    # a small step: a lone particle moves by little in the chart of a large ball
    searches = watch(monkeypatch, monotone, step=1e-8)
    F, mu = two_heads()
    few = {"parts": 3, "couplings": 6, "descents": 2, "maxiter": 7}
    report = strong_monotonicity(F, mu, 0, 0.3, near=near, **few)
    # four searches for the lone particle; then the two best couplings, the lowest direction, it
    assert len(searches) == 4 + 4
    until_rounding = {"ftol": 1e-15, "gtol": 1e-9, "maxls": 50, "maxcor": 30, "maxiter": 7}
    for search in searches:
        assert search.options == until_rounding
        assert search.difference == pytest.approx(search.slope, rel=1e-3, abs=3e-3)
    best = np.sort(report.quotients)[:2]
    np.testing.assert_allclose([s.value for s in searches[4:6]], best, rtol=1e-6)
    blocks = (6 * mu.dim,) if near == "W2" else (mu.dim,) * 6
    lowest = Ball(0.3, blocks).chart(searches[6].start[None])[0].reshape(len(blocks), -1)
    assert np.linalg.norm(lowest, axis=1).max() == pytest.approx(0.3 * NEAREST, rel=1e-6)
    assert report.constant <= min(search.value for search in searches[4:]) + 1e-9
    reached = [s.run.fun for s in searches[4:]]
    assert report.constant == pytest.approx(min([*best, *reached]), rel=1e-6) or any(
        fun < report.constant for fun in reached
    )


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("together", [True, False])
def test_lowest_direction_has_the_least_form(parts, together):
    rng = np.random.default_rng(4)
    A = (-1 if together else 1) * np.diag([2.0, 1.5, 1.0])
    F = Energy(A, symmetric(rng, 3))
    mu = Measure(rng.normal(size=(2, 3)), [0.25, 0.75])
    delta, w = _lowest(F, mu, parts)
    np.testing.assert_allclose(w, np.repeat(mu.weights / parts, parts), rtol=1e-15)
    assert w @ (delta**2).sum(axis=1) == pytest.approx(1, rel=1e-12)
    spectrum = atomic_stability(F, mu)
    least = spectrum.collective[0]
    if parts > 1:
        least = min(least, spectrum.deviations.min())
    split = Measure(np.repeat(mu.atoms, parts, axis=0), w)
    assert sum(second_variation(F, split, delta)) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_lone_particle_is_where_the_others_hold_it_least(near):
    F, mu = two_heads()
    delta, w = _lone(F, mu, np.random.default_rng(0), 0.5, near, 3, 4, 200)
    (at,) = np.flatnonzero((delta**2).sum(axis=1))
    j = at // 3
    assert at % 3 == 0
    np.testing.assert_allclose(w.reshape(2, 3).sum(axis=1), mu.weights, rtol=1e-15)
    assert w[at] == pytest.approx(mu.weights[j] * LITTLE, rel=1e-15)
    assert np.ptp(w.reshape(2, 3)[j, 1:]) == 0 and np.ptp(w.reshape(2, 3)[1 - j]) == 0
    reach = 0.5 if near == "Winf" else 0.5 / np.sqrt(LITTLE)
    assert 0 < np.linalg.norm(delta[at]) <= reach * (1 + 1e-12)

    local = F.at(mu)
    rest = local.gradient(mu.atoms)[j]

    def holds(d):
        force = local.gradient(mu.atoms[j] + d) - rest
        return (force * d).sum(axis=1) / (d * d).sum(axis=1)

    rng = np.random.default_rng(1)
    tried = rng.normal(size=(4000, mu.dim))
    tried *= reach * rng.random((4000, 1)) ** 3 / np.linalg.norm(tried, axis=1, keepdims=True)
    assert holds(delta[at][None])[0] <= holds(tried).min()


class Noted(Energy):
    """A quadratic energy that keeps what it was asked."""

    def __init__(self, A, B):
        super().__init__(A, B)
        self.asked = []

    def at(self, mu):
        self.asked.append(mu)
        return super().at(mu)


def test_margin_samples_the_whole_ball_and_its_centre_first():
    theta, rng = np.array([3.0, -2.0]), np.random.default_rng(0)
    F = Noted(np.diag([0.5, -0.2]), symmetric(rng, 2))
    margin = curvature_margin(F, theta, 1, 0.25, samples=200, parts=3)
    measures = [mu for mu in F.asked if not np.iscomplexobj(mu.atoms)]
    assert len(measures) == 200 and all(mu.size == 3 for mu in measures)
    np.testing.assert_array_equal(measures[0].atoms, [theta] * 3)
    size = np.array([np.linalg.norm(mu.atoms - theta, axis=1) for mu in measures[1:]]) / 0.25
    assert size.max() <= 1
    # uniform in the disc: the mean square is 1/2 with standard deviation 1/sqrt(12)
    assert abs((size**2).mean() - 0.5) < 5 / np.sqrt(12 * size.size)
    weights = np.array([mu.weights for mu in measures])
    assert (np.ptp(weights, axis=1) > 0).all()
    assert margin.m == pytest.approx(np.linalg.eigvalsh(F.B)[0], rel=1e-12)
    assert margin.ell == pytest.approx(0.5, rel=1e-12)


def test_least_distance_of_a_coupling():
    report = strong_monotonicity(Ridge(1.0), Measure([[0.0, 0.0]]), 0, 2.0, couplings=400)
    share = np.log(report.distances / 2.0) / np.log(NEAREST)
    assert 0 <= share.min() and share.max() <= 1
    # distances are spread evenly on a logarithmic scale
    assert abs(share.mean() - 0.5) < 5 / np.sqrt(12 * 400)


def test_radial_quotients_descend_along_their_gradient(monkeypatch):
    searches = watch(monkeypatch, radial)
    F, mu = two_heads()
    report = radial_drift(F, mu, [0.5, 2.0], 0, samples=30, descents=3, maxiter=9)
    assert len(searches) == 6
    for search in searches:
        assert search.options == {"maxiter": 9}
        assert np.linalg.norm(search.start) == pytest.approx(1, rel=1e-12)
        assert search.difference == pytest.approx(search.slope, rel=1e-5, abs=1e-8)
    for i, r in enumerate(report.radii):
        mine = searches[3 * i : 3 * i + 3]
        # the best of the samples first
        assert report.sampled[i] == pytest.approx(mine[0].value, rel=1e-12)
        assert [s.value for s in mine] == sorted(s.value for s in mine)
        assert report.least[i] == pytest.approx(min(s.run.fun for s in mine), rel=1e-12)
        x = report.points[i]
        assert np.linalg.norm(x) == pytest.approx(r, rel=1e-12)
        drift = F.gradient(x[None], mu)[0] @ x / r**2
        assert drift == pytest.approx(report.least[i], rel=1e-9)


def test_radial_drift_without_descents_is_the_best_sample():
    F, mu = two_heads()
    report = radial_drift(F, mu, [1.0], 3, samples=17, descents=0)
    np.testing.assert_array_equal(report.least, report.sampled)
    u = np.random.default_rng(3).normal(size=(17, mu.dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    drift = (F.gradient(u, mu) * u).sum(axis=1)
    assert report.least[0] == pytest.approx(drift.min(), rel=1e-12)


# --------------------------------------------------------------------------- Frank-Wolfe


def test_general_search_starts_around_the_atoms_and_counts(monkeypatch):
    searches = watch(monkeypatch, certificate)
    rng = np.random.default_rng(0)
    F = Energy(np.zeros((3, 3)), np.eye(3))
    mu = Measure(100 + rng.normal(size=(2, 3)), [0.2, 0.8])
    gap = frank_wolfe_gap(F, mu, 1, starts=300, maxiter=50)
    assert len(searches) == 300
    for search in searches[:5]:
        assert search.options == {"maxiter": 50, "ftol": 1e-15, "gtol": 1e-10}
    away = np.array([s.start for s in searches]) - 100
    # normal with the atoms' root mean square as its standard deviation: five standard errors
    scale = np.sqrt((mu.atoms**2).mean())
    assert abs(away.std() / scale - 1) < 5 / np.sqrt(2 * away.size)
    assert gap.evaluations == 2 + sum(s.run.nfev for s in searches)
    assert gap.converged == all(s.run.success for s in searches)
    assert gap.found == pytest.approx(mu.weights @ (mu.atoms**2).sum(axis=1) / 2, rel=1e-12)
    np.testing.assert_allclose(gap.point, 0, atol=1e-8)
    short = frank_wolfe_gap(F, mu, 1, starts=2, maxiter=1)
    assert short.converged == all(s.run.success for s in searches[300:])


def test_atom_of_the_measure_is_taken_where_the_search_finds_no_better():
    class Kink(Functional):
        """A first variation that is least at one atom, in a hole no search falls into."""

        def at(self, mu):
            return self

        value = 0.0

        def first_variation(self, x):
            return np.where((x == 1).all(axis=1), -3.0, (x**2).sum(axis=1))

        def gradient(self, x):
            return 2 * x

    mu = Measure([[0.5, 0.0], [1.0, 1.0]], [0.5, 0.5])
    gap = frank_wolfe_gap(Kink(), mu, 0)
    np.testing.assert_array_equal(gap.point, [1, 1])
    assert gap.found == pytest.approx((0.25 - 3) / 2 + 3)


def test_weights_start_equal_and_slopes_vanish_along_rays(monkeypatch):
    searches = watch_weights(monkeypatch)
    R = hard(3)
    atoms = R.space.sample(np.random.default_rng(0), 4)
    optimal_weights(R, atoms, tolerance=1e-7)
    optimal_weights(R, atoms, [0.4, 0.3, 0.2, 0.1])
    (first, one), (second, two) = searches
    np.testing.assert_allclose(first["x0"], 0.25, rtol=1e-15)
    np.testing.assert_array_equal(second["x0"], [0.4, 0.3, 0.2, 0.1])
    assert one["options"] == {"ftol": 1e-7, "maxiter": 500}
    assert two["options"] == {"ftol": 1e-12, "maxiter": 500}
    w = np.array([0.1, 0.2, 0.3, 0.4])
    for _, asked in searches:
        value, slope = asked["fun"](w)
        assert value == pytest.approx(R(Measure(atoms, w)), rel=1e-13)
        assert asked["fun"](3 * w)[0] == pytest.approx(value, rel=1e-13)
        assert w @ slope == pytest.approx(0, abs=1e-15)
        direction = np.array([1.0, -2, 0.5, 0.5])
        change = (
            asked["fun"](w + 1e-5 * direction)[0] - asked["fun"](w - 1e-5 * direction)[0]
        ) / 2e-5
        assert slope @ direction == pytest.approx(change, rel=1e-6)
        assert asked["constraints"]["fun"](w) == pytest.approx(0, abs=1e-15)
        assert asked["constraints"]["fun"](2 * w) == pytest.approx(1)


def watch_weights(monkeypatch):
    seen, minimize = [], certificate.minimize

    def spy(fun, x0, **others):
        seen.append(({"x0": np.array(x0)}, {"fun": fun, **others}))
        return minimize(fun, x0, **others)

    monkeypatch.setattr(certificate, "minimize", spy)
    return seen


def test_boosting_begins_a_round_with_a_fair_share_for_the_new_head(monkeypatch):
    starts = []
    original = certificate.optimal_weights

    def spy(F, atoms, start=None, **options):
        starts.append((len(atoms), np.array(start)))
        return original(F, atoms, start, **options)

    monkeypatch.setattr(certificate, "optimal_weights", spy)
    R = hard(4)
    mu = Measure(R.space.sample(np.random.default_rng(0), 3), [0.2, 0.3, 0.5])
    result = boost(R, mu, 0, 2, starts=2, pool=20)
    n, start = starts[0]
    assert n == 4
    np.testing.assert_allclose(start, [0.15, 0.225, 0.375, 0.25], rtol=1e-14)
    n, start = starts[1]
    assert start[-1] == pytest.approx(1 / n) and start.sum() == pytest.approx(1)
    assert result.atoms[0] == 3 and result.atoms[1] == n - 1


def test_light_heads_are_dropped_and_the_rest_sums_to_one():
    mu = certificate._drop(Measure([[0.0], [1.0], [2.0]], [1e-9, 0.25, 0.75 - 1e-9]))
    np.testing.assert_array_equal(mu.atoms, [[1.0], [2.0]])
    assert mu.weights.sum() == pytest.approx(1, abs=1e-15)
    assert certificate._drop(Measure([[0.0], [1.0]], [1.1e-9, 1 - 1.1e-9])).size == 2


def test_polish_descends_and_never_makes_it_worse(monkeypatch):
    searches = watch(monkeypatch, certificate)
    R = hard(5)
    mu = Measure(R.space.sample(np.random.default_rng(0), 2), [0.3, 0.7])
    better = certificate._polish(R, mu, 25)
    (search,) = searches
    assert search.options["maxiter"] == 25
    assert search.difference == pytest.approx(search.slope, rel=1e-6)
    assert R(better) < R(mu)
    np.testing.assert_array_equal(better.weights, mu.weights)
    monkeypatch.setattr(certificate, "_descend", lambda *_: type("Run", (), {"x": search.start})())
    assert certificate._polish(R, mu, 1) is mu or R(certificate._polish(R, mu, 1)) < R(mu)
