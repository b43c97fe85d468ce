"""Stability reports: verdicts at their thresholds, defaults, sampled extremes, fits of rates."""

import numpy as np
import pytest
from spies import watch
from test_searches import Noted, two_heads
from test_stability import Energy, symmetric

from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.models.confinement import Anchor, Ridge
from mfbook.space import Ball
from mfbook.stability import (
    best_alternative,
    curvature_margin,
    dirac_stability,
    kl_constant,
    kl_envelope,
    kl_fit,
    kl_length,
    monotone,
    radial,
    radial_drift,
    second_variation,
    stationarity,
    strong_monotonicity,
)
from mfbook.stability.dirac import DiracStability
from mfbook.stability.monotone import CurvatureMargin

ORIGIN = Measure([[0.0, 0.0]])


# ------------------------------------------------------------------------------- point masses


@pytest.mark.parametrize(
    ("deviation", "translation", "verdict"),
    [
        (0.75, 0.75, "stable"),
        (0.5, 0.75, "neutral"),  # an eigenvalue of the size of the tolerance counts as zero
        (0.75, 0.5, "neutral"),
        (-0.5, 0.75, "neutral"),
        (0.75, -0.5, "neutral"),
        (-0.75, 0.75, "splitting"),
        (-0.75, -0.5, "splitting"),
        (0.75, -0.75, "translation"),
        (-0.75, -0.75, "translation"),
    ],
)
def test_verdicts_at_their_thresholds(deviation, translation, verdict):
    H, K = np.diag([deviation, 2.0]), np.diag([translation - deviation, 0.0])
    report = DiracStability(
        np.zeros(2), H, K, np.array([deviation, 2.0]), np.array([translation, 2.0]),
        np.eye(2)[0], np.eye(2)[0], 0.0, 0.5,
    )  # fmt: skip
    assert report.verdict == verdict
    assert (report.split_rate, report.translation_rate) == (-deviation, -translation)
    np.testing.assert_array_equal(report.H_tr, np.diag([translation, 2.0]))


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_tolerances_are_relative_to_the_largest_eigenvalue_and_one(size):
    unit = max(1.0, size)
    for own, shared in ((1.0, 0.0), (0.25, 0.75), (-1.0, 1.5)):  # the largest of either spectrum
        F = Energy(np.diag([shared, 0.0]) * size, np.diag([own, 0.0]) * size)
        report = dirac_stability(F, [0.0, 0.0])
        largest = max(1.0, size * max(abs(own), abs(own + shared)))
        assert report.tolerance == pytest.approx(1e-9 * largest, rel=1e-12, abs=0)
        loose = dirac_stability(F, [0.0, 0.0], tolerance=0.125)
        assert loose.tolerance == pytest.approx(0.125 * largest, rel=1e-12)
        tight = dirac_stability(F, [0.0, 0.0], tolerance=1e-20)
        assert tight.tolerance == pytest.approx(100 * 2.0**-52 * largest, rel=1e-12, abs=0)
    # how stationary a point has to be; on the line of an anchor the gradient is the distance
    F = Anchor(size, [0.0, 0.0])
    for share, fits in ((0.9, True), (1.1, False)):
        for options in ({}, {"stationary": 1e-7}, {"stationary": 1e-3}):
            limit = options.get("stationary", 1e-7)
            theta = [share * limit * unit / size, 0.0]
            if fits:
                found = dirac_stability(F, theta, **options)
                assert found.gradient_norm == pytest.approx(share * limit * unit, rel=1e-12)
            else:
                with pytest.raises(ValueError, match="^theta: expected a stationary point"):
                    dirac_stability(F, theta, **options)
    # a point at exactly the limit is accepted
    assert dirac_stability(Ridge(1.0), [0.25], stationary=0.25).gradient_norm == 0.25


def test_directions_of_a_point_mass():
    rng = np.random.default_rng(3)
    A, B = symmetric(rng, 3), symmetric(rng, 3)
    report = dirac_stability(Energy(A, B), np.zeros(3))
    for v, H, least in (
        (report.split_direction, B, report.deviations[0]),
        (report.translation_direction, A + B, report.translations[0]),
    ):
        assert v @ v == pytest.approx(1, rel=1e-12)
        np.testing.assert_allclose(H @ v, least * v, atol=1e-12)
        assert least == pytest.approx(np.linalg.eigvalsh(H)[0], rel=1e-12)


# ------------------------------------------------------------------------------- monotonicity


def test_margin_is_the_difference():
    assert CurvatureMargin(2.0, 0.5).margin == 1.5


def test_numbers_of_samples_by_default(monkeypatch):
    A, B = np.diag([0.5, -0.2]), np.diag([1.0, 2.0])
    F = Noted(A, B)
    curvature_margin(F, [0.0, 0.0], 0, 1.0)
    measures = [mu for mu in F.asked if not np.iscomplexobj(mu.atoms)]
    assert len(measures) == 16 and all(mu.size == 2 for mu in measures)
    searches = watch(monkeypatch, monotone)
    report = strong_monotonicity(Energy(A, B), Measure(np.eye(2)), 0, 1.0)
    assert len(report.quotients) == 64 and report.parent.tolist() == [0] * 4 + [1] * 4
    # six for the lone particle; three of the sample, the lowest direction, the lone one
    assert [s.options for s in searches] == [{**monotone.DESCENT, "maxiter": 500}] * 11
    same = strong_monotonicity(
        Energy(A, B), Measure(np.eye(2)), 0, 1.0,
        near="W2", parts=4, couplings=64, descents=3, maxiter=500,
    )  # fmt: skip
    np.testing.assert_array_equal(same.quotients, report.quotients)
    assert same.constant == report.constant
    searches = watch(monkeypatch, radial)
    drift = radial_drift(Energy(A, B), ORIGIN, [2.0], 5)
    assert [s.options for s in searches] == [{"maxiter": 200}] * 4
    u = np.random.default_rng(5).normal(size=(256, 2))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    assert drift.sampled[0] == pytest.approx(((u @ B) * u).sum(axis=1).min(), rel=1e-12)


def test_least_numbers_of_samples():
    F = Energy(np.diag([0.5, -0.2]), np.diag([1.0, 2.0]))
    one = strong_monotonicity(F, ORIGIN, 0, 1.0, parts=1, couplings=1, descents=0, maxiter=1)
    assert one.quotients.shape == (1,) and one.constant == one.quotients[0]
    # one particle: every coupling moves it as a whole, and sees both matrices
    moved = one.worst.atoms[0]
    assert one.constant == pytest.approx(moved @ (F.A + F.B) @ moved / (moved @ moved), rel=1e-9)
    many = strong_monotonicity(F, ORIGIN, 0, 1.0, couplings=30, descents=0)
    assert many.constant == many.quotients.min() < np.median(many.quotients)
    descended = strong_monotonicity(F, ORIGIN, 0, 1.0, parts=1, couplings=1, descents=1)
    assert descended.constant == pytest.approx(1.5, rel=1e-6)
    assert curvature_margin(F, [0.0, 0.0], 0, 1.0, samples=1, parts=1).ell == pytest.approx(0.5)
    for name in ("parts", "couplings", "maxiter"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            strong_monotonicity(F, ORIGIN, 0, 1.0, **{name: 0})
    for name in ("samples", "parts"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            curvature_margin(F, [0.0, 0.0], 0, 1.0, **{name: 0})
    for name in ("samples", "maxiter"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            radial_drift(F, ORIGIN, [1.0], 0, **{name: 0})


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_couplings_have_the_distances_that_are_reported(near):
    F = Noted(np.diag([0.5, -0.2]), np.diag([1.0, 2.0]))
    mu = Measure(np.eye(2), [0.3, 0.7])
    few = {"parts": 3, "couplings": 20, "descents": 1, "maxiter": 1}
    report = strong_monotonicity(F, mu, 0, 0.5, near=near, **few)
    tried = [nu for nu in F.asked if nu.size == 6 and not np.iscomplexobj(nu.atoms)]

    def extent(nu):
        squares = ((nu.atoms - mu.atoms[report.parent]) ** 2).sum(axis=1)
        return np.sqrt(nu.weights @ squares if near == "W2" else squares.max())

    found = np.array([extent(nu) for nu in tried])
    np.testing.assert_allclose(found[:20], report.distances, rtol=1e-9)
    # then the lowest direction, at the least distance
    assert found[20] == pytest.approx(0.5e-3, rel=1e-9)
    for nu in tried[:20]:
        np.testing.assert_allclose(np.bincount(report.parent, nu.weights), mu.weights)


class Waves(Energy):
    """The sum of cos(x) and 5 m^2, with m the mean: held at odd multiples of pi only."""

    def __init__(self):
        super().__init__(10 * np.eye(1), np.zeros((1, 1)))

    def at(self, mu):
        local = super().at(mu)
        first, gradient = local.first_variation, local.gradient
        local.value += mu.weights @ np.cos(mu.atoms[:, 0])
        local.first_variation = lambda x: first(x) + np.cos(x[:, 0])
        local.gradient = lambda x: gradient(x) - np.sin(x)
        return local


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("j", [0, 1])
def test_lowest_direction_splits_the_atom_that_is_held_least(j, parts):
    mu = Measure(np.pi * np.array([[j], [1 - j]]), [0.3, 0.7])
    delta, w = monotone._lowest(Waves(), mu, parts)
    # both parts of the atom at 0 go apart, at mean square one
    exact = np.zeros((2 * parts, 1))
    exact[j * parts], exact[j * parts + 1] = 1, -1
    exact /= np.sqrt(2 * mu.weights[j] / parts)
    np.testing.assert_allclose(delta * np.sign(delta[j * parts]), exact, rtol=1e-12)
    split = Measure(np.repeat(mu.atoms, parts, axis=0), w)
    assert sum(second_variation(Waves(), split, delta)) == pytest.approx(-1, rel=1e-9)


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_lone_particles_start_half_way(monkeypatch, near):
    searches = watch(monkeypatch, monotone)
    F = Energy(np.diag([0.5, -0.2]), np.diag([1.0, 2.0]))
    strong_monotonicity(F, ORIGIN, 0, 0.5, near=near, couplings=2, descents=2, maxiter=1)
    reach = 0.5 if near == "Winf" else 0.5 / np.sqrt(monotone.LITTLE)
    for search in searches[:4]:
        d = Ball(reach, (2,)).chart(search.start[None])[0][0]
        assert np.linalg.norm(d) == pytest.approx(reach / 2, rel=1e-9)


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_couplings_of_several_atoms_stay_within_the_radius(near):
    F, mu = two_heads()
    few = {"parts": 3, "couplings": 4, "descents": 1, "maxiter": 5}
    report = strong_monotonicity(F, mu, 4, 0.3, near=near, **few)
    delta = report.worst.atoms - mu.atoms[report.parent]
    squares = (delta**2).sum(axis=1)
    extent = np.sqrt(report.worst.weights @ squares if near == "W2" else squares.max())
    assert 0.3e-3 * (1 - 1e-9) <= extent <= 0.3 * (1 + 1e-9)
    shares = np.bincount(report.parent, report.worst.weights)
    np.testing.assert_allclose(shares, mu.weights, rtol=1e-12)
    # the quotient of the worst measure, written out
    force = F.gradient(report.worst.atoms, report.worst) - F.gradient(mu.atoms, mu)[report.parent]
    w = report.worst.weights
    value = (w @ (force * delta).sum(axis=1)) / (w @ squares)
    assert report.constant == pytest.approx(value, rel=1e-8)
    assert report.constant <= report.quotients.min()
    assert (report.distances <= 0.3).all() and (report.distances >= 0.3e-3).all()


# -------------------------------------------------------------------------------- radial drift


def test_radii_from_the_least_to_the_largest():
    F, few = Energy(np.zeros((2, 2)), np.diag([1.0, 2.0])), {"samples": 5, "descents": 1}
    ends = [1 / validate.LARGEST, 1.0, validate.LARGEST]
    report = radial_drift(F, ORIGIN, ends, 0, **few)
    np.testing.assert_allclose(report.least, 1.0, atol=1e-5)
    np.testing.assert_array_equal(report.radii, ends)
    for bad in (0.0, -1.0, 0.5 / validate.LARGEST):
        with pytest.raises(ValueError, match="^radii: expected positive numbers"):
            radial_drift(F, ORIGIN, [1.0, bad], 0, **few)


def test_samples_of_the_drift():
    asked = []

    class Counted(Energy):
        def at(self, mu):
            local = super().at(mu)
            gradient = local.gradient
            local.gradient = lambda x: asked.append(np.array(x)) or gradient(x)
            return local

    B = np.diag([1.0, 2.0])
    report = radial_drift(Counted(0 * B, B), ORIGIN, [2.0, 3.0], 0, descents=0)
    assert [len(x) for x in asked] == [256, 256]
    for r, x, point, least in zip(report.radii, asked, report.points, report.least, strict=True):
        drift = (x @ B * x).sum(axis=1) / r**2
        np.testing.assert_allclose(point, x[drift.argmin()], rtol=1e-14)
        assert least == pytest.approx(drift.min(), rel=1e-12)


# ------------------------------------------------------------------------------------ supports


def test_atoms_without_weight_are_off_the_support():
    F = Ridge(2.0).on(Ball(5.0, (1,)))
    mu = Measure([[1.0], [3.0]], [1.0, 0.0])
    report = stationarity(F, mu)
    assert report.norms.tolist() == [2.0, 6.0] and report.worst == 2.0 and report.dissipation == 4.0
    # F = int x^2: the best head is the origin, and it takes all the weight
    best = best_alternative(F, mu, 0)
    assert best.values.tolist() == [1.0, 9.0] and best.spread == 0.0
    assert best.least == pytest.approx(0, abs=1e-12)
    assert best.violation == pytest.approx(1.0) and best.share == 1.0
    assert best.gain == pytest.approx(1.0, abs=1e-9)
    # two atoms with weight
    both = best_alternative(F, Measure([[1.0], [2.0]], [0.5, 0.5]), 0)
    assert (both.spread, both.share) == (3.0, 1.0)
    assert (both.violation, both.gain) == pytest.approx((4.0, 2.5))
    # nothing is gained at the best head itself
    none = best_alternative(F, Measure([[0.0]]), 0)
    assert none.gain == none.violation == none.least == none.share == 0


def test_best_share_inside_the_interval():
    """F = m^2 / 2 - b m with m the mean: a head at r in the mixture with 0 is best at b / r."""
    A = np.eye(1)

    class Linear(Energy):
        def at(self, mu):
            local = super().at(mu)
            first, gradient = local.first_variation, local.gradient
            local.value -= 0.5 * local.mean[0]
            local.first_variation = lambda x: first(x) - 0.5 * x[:, 0]
            local.gradient = lambda x: gradient(x) - 0.5
            return local

        def over_weights(self, atoms):
            return lambda w: (self(Measure(atoms, w)), None)

    F = Linear(A, np.zeros((1, 1)), Ball(2.0, (1,)))
    report = best_alternative(F, Measure([[0.0]]), 0)
    assert report.point == pytest.approx([2.0])
    assert report.share == pytest.approx(0.25, abs=1e-7)
    assert report.gain == pytest.approx(0.125, rel=1e-9)
    assert report.least == pytest.approx(-1.0) and report.violation == pytest.approx(1.0)


# --------------------------------------------------------------------------------------- rates


def test_fit_is_that_of_its_blocks():
    rng = np.random.default_rng(0)
    E = np.geomspace(1.0, 1e-3, 12)
    D = 2 * E**1.4 * np.exp(0.1 * rng.normal(size=12))
    shuffled = rng.permutation(12)
    fit = kl_fit(E[shuffled], D[shuffled], blocks=3)
    x, y = np.log(E), np.log(D)
    slopes = [np.polyfit(x[i : i + 4], y[i : i + 4], 1)[0] for i in (0, 4, 8)]
    np.testing.assert_allclose(fit.slopes, slopes, rtol=1e-12)  # from the largest E on
    assert fit.slope == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-12)
    assert fit.alpha == pytest.approx(fit.slope / 2)
    half = 4.302652729749464 * np.std(slopes, ddof=1) / np.sqrt(3)  # Student's with 2 degrees
    assert fit.interval == pytest.approx(
        ((np.mean(slopes) - half) / 2, (np.mean(slopes) + half) / 2), rel=1e-9
    )
    assert fit.c == pytest.approx((D / E ** (2 * fit.alpha)).min(), rel=1e-12)
    assert fit.c == kl_constant(E, D, fit.alpha)
    default = kl_fit(np.geomspace(1, 1e-3, 16), np.geomspace(1, 1e-6, 16))
    assert len(default.slopes) == 8


def test_what_a_fit_refuses():
    E, D = [1.0, 0.5, 0.25, 0.125], [1.0, 0.5, 0.25, 0.125]
    assert kl_fit(E, D, blocks=2).alpha == pytest.approx(0.5)
    with pytest.raises(ValueError, match="^gap: expected at least 4 points, got 3"):
        kl_fit(E[:3], D[:3], blocks=2)
    with pytest.raises(ValueError, match="^blocks: "):
        kl_fit(E, D, blocks=1)
    with pytest.raises(ValueError, match="^gap: .* all are 0.25 in block 1"):
        kl_fit([1.0, 0.5, 0.25, 0.25], D, blocks=2)
    with pytest.raises(ValueError, match="^gap: expected positive numbers, got 0"):
        kl_fit([1.0, 0.5, 0.25, 0.0], D, blocks=2)
    with pytest.raises(ValueError, match="^dissipation: expected positive numbers, got 0"):
        kl_fit(E, [1.0, 0.5, 0.25, 0.0], blocks=2)


def test_exponents_from_a_half_to_one():
    for f in (lambda alpha: kl_length(1.0, 1.0, alpha), lambda a: kl_envelope([1.0], 1.0, 1.0, a)):
        for bad in (0.499999, 1.0, 1.5):
            with pytest.raises(ValueError, match="^alpha: "):
                f(bad)
        assert np.isfinite(f(0.5)) and np.isfinite(f(0.999))
    assert kl_envelope([0.0, 1.0], 3.0, 2.0, 0.5).tolist() == [3.0, 3 * np.exp(-2)]
    with pytest.raises(ValueError, match="^tau: "):
        kl_envelope([1.0, -1e-9], 1.0, 1.0, 0.5)
    assert kl_constant([1.0], [2.0], 0.25) == 2.0  # a fitted exponent may fall short
    # written out: E0 = 2, c = 3, alpha = 3/4
    exact = (2**-0.5 + 0.5 * 3 * np.array([0.0, 1.0, 5.0])) ** -2.0
    np.testing.assert_allclose(kl_envelope([0.0, 1.0, 5.0], 2.0, 3.0, 0.75), exact, rtol=1e-13)
    assert kl_length(2.0, 3.0, 0.75) == pytest.approx(2**0.25 / (0.25 * np.sqrt(3)), rel=1e-14)
