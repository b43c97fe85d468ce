"""Stationarity, the best alternative, radial drift: against sampled points and exact values."""

import numpy as np
import pytest
from examples import Energy, problem, random_laws, symmetric
from reference import make, measure
from scipy.special import rel_entr

from mfbook.confinement import Ridge
from mfbook.measure import Measure, mixture
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Ball
from mfbook.stability import best_alternative, radial_drift, stationarity


def test_stationarity_is_the_dissipation():
    R, _ = make(2)
    mu = measure(2, 3, R.shape)
    report = stationarity(R, mu)
    norms = np.linalg.norm(R.gradient(mu.atoms, mu), axis=1)
    np.testing.assert_allclose(report.norms, norms, rtol=1e-14)
    assert report.dissipation == pytest.approx(mu.weights @ norms**2, rel=1e-13)
    assert report.worst == pytest.approx(norms.max(), rel=1e-14)
    # an atom without weight is off the support
    for i in range(3):
        light = stationarity(R, Measure(mu.atoms, np.eye(3)[i]))
        assert light.worst == light.norms[i]
    # on the boundary of a ball only what is allowed counts
    pulled = Energy(np.zeros((2, 2)), -np.eye(2), Ball(1.0, (2,)))
    assert stationarity(pulled, Measure([[1.0, 0.0], [0.0, -1.0]])).worst < 1e-15
    assert stationarity(pulled, Measure([[0.5, 0.0]])).worst == 0.5


SMALL = dict(d=3, k=1, v=1, T=4, V=4, S=8, radius=2.0, heads=2)


@pytest.mark.parametrize("seed", range(2))
def test_certificate_bounds_the_true_gap(seed):
    R, teacher = problem(seed, **SMALL)
    for mu in random_laws(R, seed, (1, 2, 5)):
        report = best_alternative(R, mu, seed, starts=1, pool=16)
        p, y = R.residual(mu) + R.Y, R.Y
        excess = rel_entr(y, p).sum(axis=-1).mean()
        assert 0 < excess <= report.rigorous and report.found <= report.rigorous
        # what one head gains is at most what is there, and at most the linear rate
        assert 0 < report.gain <= min(excess, report.found) + 1e-12
        psi = R.first_variation(mu.atoms, mu)
        np.testing.assert_allclose(report.values, psi, atol=1e-14)
        assert report.spread == pytest.approx(np.ptp(psi), abs=1e-14)
        assert report.violation == pytest.approx(psi.max() - report.least, abs=1e-14)
        at = R.first_variation(report.point[None], mu)[0]
        assert report.least == pytest.approx(at, abs=1e-14) and at <= psi.min()
        assert R.space.contains(report.point[None]).all()
    # nothing is to be gained at the teacher
    report = best_alternative(R, teacher, 0, starts=2)
    assert max(report.violation, report.gain, report.spread) < 1e-13


def test_gain_is_that_of_the_best_mixture():
    R, _ = problem(1, **SMALL)
    mu = Measure(R.space.sample(1, 3), [0.5, 0.3, 0.2])
    few = {"starts": 1, "pool": 16}
    for F in (R, R + Ridge(0.01)):
        report = best_alternative(F, mu, 0, **few)
        shares = np.linspace(0, 1, 101)
        point = Measure.dirac(report.point)
        line = np.array([F(mixture(mu, point, s)) for s in shares])
        # the line is convex and flat at its minimum: the grid misses half a step squared of it
        bend = np.diff(line, 2).max()
        assert 0 <= report.gain - (F(mu) - line.min()) <= bend
        assert report.gain == pytest.approx(F(mu) - F(mixture(mu, point, report.share)), abs=1e-14)
        assert abs(report.share - shares[line.argmin()]) <= 1 / 100
        assert report.found == pytest.approx(frank_wolfe_gap(F, mu, 0, **few).found, rel=1e-12)
    # weightless atoms are off the support: they are no part of the violation
    light = Measure(np.concatenate([mu.atoms, R.space.sample(5, 4)]), [0.5, 0.3, 0.2, 0, 0, 0, 0])
    own, more = (best_alternative(R, nu, 0, **few) for nu in (mu, light))
    assert more.spread == pytest.approx(own.spread, abs=1e-12)
    assert more.values.shape == (7,) and np.ptp(more.values) > more.spread


def test_best_head_of_a_ridge_takes_all_the_weight():
    F = Ridge(2.0).on(Ball(5.0, (1,)))
    for mu, spread, violation, gain in (
        (Measure([[1.0], [3.0]], [1.0, 0.0]), 0.0, 1.0, 1.0),  # the second is off the support
        (Measure([[1.0], [2.0]]), 3.0, 4.0, 2.5),
        (Measure([[0.0]]), 0.0, 0.0, 0.0),
    ):
        best = best_alternative(F, mu, 0)
        assert (best.spread, best.least) == pytest.approx((spread, 0), abs=1e-12)
        assert (best.violation, best.gain) == pytest.approx((violation, gain), abs=1e-9)
        assert best.share == (gain > 0)


# ---------------------------------------------------------------------------------------------
# radial drift


@pytest.mark.parametrize("descents", [0, 1])
def test_radial_drift_of_a_quadratic_energy_is_its_least_eigenvalue(descents):
    """At any radius with a descent; without, it is the best sample."""
    B = symmetric(np.random.default_rng(4), 4)
    F, mu = Energy(np.zeros((4, 4)), B), Measure(np.zeros((1, 4)))
    report = radial_drift(F, mu, [1e-74, 0.1, 7.0, 1e74], 0, descents=descents)
    np.testing.assert_allclose(np.linalg.norm(report.points, axis=1), report.radii, rtol=1e-12)
    drift = (report.points @ B * report.points).sum(axis=1) / report.radii**2
    np.testing.assert_allclose(report.least, drift, rtol=1e-9)
    least = np.linalg.eigvalsh(B)[0]
    if descents:
        np.testing.assert_allclose(report.least, least, atol=1e-5)
    else:
        assert (report.least > least + 1e-3).all()


def test_radial_drift_beats_a_cloud_and_is_odd():
    R = make(6, d=2, k=1, v=1, soft=False)[0]
    mu, radii = measure(6, 2, R.shape), np.array([0.5, 2.0])
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(2_000, R.shape.size))
    cloud /= np.linalg.norm(cloud, axis=1, keepdims=True)
    few = {"samples": 64, "descents": 2}
    up, down = (radial_drift(s * R, mu, radii, 0, **few) for s in (1, -1))
    for i, r in enumerate(radii):
        values = (R.gradient(r * cloud, mu) * cloud).sum(axis=1) / r
        assert up.least[i] <= values.min() and values.max() <= -down.least[i]
        # D is small: the cloud comes close
        assert up.least[i] >= 2 * values.min()
        at = up.points[i]
        quotient = R.gradient(at[None], mu)[0] @ at / r**2
        assert up.least[i] == pytest.approx(quotient, rel=1e-10)
    # the first variation is odd in W_O: as low as it is high, so no sphere of the bare model
    # has an inward field
    np.testing.assert_allclose(up.least, down.least, rtol=1e-5)
    assert (up.least < 0).all()
