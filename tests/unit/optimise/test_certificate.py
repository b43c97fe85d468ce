"""The Frank-Wolfe gap and head boosting, against known optima and brute search."""

from types import SimpleNamespace

import numpy as np
import pytest
from examples import hard, problem

from mfbook.functional import Functional, Minimum
from mfbook.measure import Measure, mixture
from mfbook.models.attention import AttentionRisk
from mfbook.models.attention.best_head import correlation_bound
from mfbook.models.confinement import Anchor, Ridge
from mfbook.optimise import Gap, boost, certificate, frank_wolfe_gap, optimal_weights
from mfbook.space import Sphere


def test_bracket_contains_the_excess_risk_of_many_measures():
    for seed in range(3):
        R, teacher = problem(seed)
        rng = np.random.default_rng(seed)
        for n in (1, 2, 7):
            mu = Measure(R.space.sample(rng, n), rng.dirichlet(np.ones(n)))
            gap = frank_wolfe_gap(R, mu, rng)
            excess = R(mu) - R(teacher)
            assert 0 < excess <= gap.rigorous
            assert gap.found <= gap.rigorous
            # the teacher is one candidate head law: the found gap must beat its average
            local = R.at(mu)
            towards = mu.integrate(local.first_variation(mu.atoms)) - teacher.integrate(
                local.first_variation(teacher.atoms)
            )
            assert gap.found >= towards - 1e-9
            assert excess <= towards + 1e-12


def test_gap_vanishes_at_the_teacher_and_not_beside_it():
    R, teacher = problem(0)
    gap = frank_wolfe_gap(R, teacher, 0)
    assert gap.found <= 1e-13 and gap.rigorous <= 1e-13
    beside = mixture(teacher, Measure(np.zeros((1, R.shape.size))), 0.1)
    assert frank_wolfe_gap(R, beside, 0).found > 1e-5


@pytest.mark.parametrize("ridge", [0.0, 0.02, 0.5, 50.0])
def test_closed_form_in_values_beats_every_sampled_head(ridge):
    R = hard(1)
    F = R + Ridge(ridge) if ridge else R
    mu = Measure(np.zeros((1, R.shape.size)))
    local, rng = F.at(mu), np.random.default_rng(0)
    least = local.minimise(rng)
    assert least.value == pytest.approx(local.first_variation(least.point[None])[0], abs=1e-12)
    assert least.lower_bound <= least.value <= 1e-15
    # brute force: random heads, random heads with the found scores, and the boundary
    heads = R.space.sample(rng, 1000)
    same_scores = heads.copy()
    same_scores[:, : 2 * R.shape.d * R.shape.k] = least.point[: 2 * R.shape.d * R.shape.k]
    far = R.space.project(50 * same_scores)
    for candidates in (heads, same_scores, far):
        assert local.first_variation(candidates).min() >= least.value - 1e-12


def test_one_model_with_ridges_is_searched_and_nothing_else():
    """a R + ridges has the minimum of a times (R + ridges / a); other sums have no closed form."""
    R = hard(1)
    mu = Measure(R.space.sample(1, 3), [0.2, 0.3, 0.5])
    few = {"starts": 2, "pool": 8, "maxiter": 20}
    one = (R + Ridge(0.05)).at(mu).minimise(0, **few)
    for F in (2 * R + Ridge(0.01) + 3 * Ridge(0.03), 2 * (R + Ridge(0.05))):
        found = F.at(mu).minimise(0, **few)
        np.testing.assert_allclose(found.point, one.point, rtol=1e-7, atol=1e-10)
        assert found.value == pytest.approx(2 * one.value, rel=1e-10)
        assert found.lower_bound == pytest.approx(2 * one.lower_bound, rel=1e-12)
        assert found.value == pytest.approx(F.first_variation(found.point[None], mu)[0], rel=1e-9)
    for F in (-1 * R, 0.0 * R + Ridge(1.0), R + R, R + Anchor(0.1, np.zeros(mu.dim))):
        assert F.on(R.space).at(mu).minimise(0) is NotImplemented


def test_a_search_that_is_cut_short_has_a_bound_that_holds():
    R = hard(1)
    mu = Measure(np.zeros((1, R.shape.size)))
    whole = R.at(mu).minimise(0)
    cut = R.at(mu).minimise(0, starts=3, pool=9, maxiter=1)
    assert whole.converged and not cut.converged
    assert cut.lower_bound <= whole.value <= cut.value + 1e-12


class Known(Functional):
    """First variation x^2, with a stated minimum."""

    def __init__(self, least):
        self.least = least

    def at(self, mu):
        return SimpleNamespace(
            first_variation=lambda x: x[:, 0] ** 2, minimise=lambda rng, **options: self.least
        )


def test_both_ends_of_the_gap():
    mu, mean = Measure([[2.0], [0.5], [1.0]], [0.25, 0.25, 0.5]), 25 / 16
    for value, lower, point, found, rigorous in (
        (-1.0, -2.0, 9.0, mean + 1, mean + 2),
        (0.125, 0.0625, 9.0, mean - 0.125, mean - 0.0625),
        (0.75, -1.0, 0.5, mean - 0.25, mean + 1),  # an atom is better than what was found
        (0.75, 0.5, 0.5, mean - 0.25, mean - 0.25),  # rounding has put the bound above it
    ):
        for converged in (True, False):
            gap = frank_wolfe_gap(
                Known(Minimum(np.array([9.0]), value, lower, converged, 7)), mu, 0
            )
            assert (gap.found, gap.rigorous) == pytest.approx((found, rigorous))
            assert gap.point == [point] and gap.converged is converged
    closed = Known(Minimum(np.array([1.0]), 1.0 + 1e-15, 1.0 + 1e-15, True, 1))
    gap = frank_wolfe_gap(closed, Measure([[1.0]]), 0)
    assert (gap.found, gap.rigorous) == (0, 0)  # never negative


def test_search_recovers_a_planted_best_head():
    """One query decides: the search must reach the value of exhaustive sampling, and more."""
    R = hard(5, d=2, k=1, v=1, T=4, S=6, radius=2.5)
    mu = Measure(np.zeros((1, R.shape.size)))
    local = R.at(mu)
    angle = np.linspace(0, 2 * np.pi, 73)
    circle = 2.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    size = np.linspace(0, 1, 21)
    query, key, scale = np.meshgrid(np.arange(73), np.arange(73), size, indexing="ij")
    scores = np.concatenate(
        [scale.reshape(-1, 1) * circle[query.ravel()], circle[key.ravel()]], axis=1
    )
    C = local.correlation(np.concatenate([scores, np.zeros((len(scores), 4))], axis=1))
    exhaustive = -(2.5**2) * np.linalg.svd(C)[1][:, 0].max()
    assert local.minimise(0).value <= exhaustive + 1e-9


@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_correlation_bound_holds_for_all_scores(radius, seed):
    R = hard(seed, radius=radius)
    mu = Measure(np.zeros((1, R.shape.size)))
    local = R.at(mu)
    bound = correlation_bound(R.X, local.Z, radius, R.shape.k)
    heads = R.space.sample(np.random.default_rng(seed), 400)
    heads = np.concatenate([heads, R.space.project(100 * heads)])
    sampled = np.linalg.svd(local.correlation(heads))[1][:, 0].max()
    found = -local.minimise(seed).value / radius**2
    assert sampled <= found + 1e-9
    assert found <= bound
    # never worse than the plain triangle inequality
    size = np.linalg.norm(R.X, axis=2)
    plain = np.maximum.accumulate(size, axis=1) * np.linalg.norm(local.Z, axis=2)
    assert bound <= plain.mean() + 1e-12


def test_correlation_bound_is_attained_for_tiny_scores():
    """As the radius falls attention becomes uniform and the bound becomes exact."""
    R = hard(3, radius=1e-3)
    local = R.at(Measure(np.zeros((1, R.shape.size))))
    exact = np.linalg.svd(local.correlation(np.zeros((1, R.shape.size))))[1][0, 0]
    assert correlation_bound(R.X, local.Z, 1e-3, R.shape.k) == pytest.approx(exact, rel=1e-4)


def test_over_weights_agrees_with_the_functional():
    R = hard(2)
    rng = np.random.default_rng(0)
    atoms = R.space.sample(rng, 6)
    for F in (R, R + Ridge(0.3), 2 * R + Anchor(0.1, np.ones(R.shape.size))):
        w = rng.dirichlet(np.ones(6))
        value, slope = F.over_weights(atoms)(w)
        mu = Measure(atoms, w)
        assert value == pytest.approx(F(mu), rel=1e-13)
        np.testing.assert_allclose(slope, F.first_variation(atoms, mu), rtol=1e-12, atol=1e-14)


def test_optimal_weights_satisfy_the_support_condition():
    R = hard(4)
    atoms = R.space.sample(np.random.default_rng(1), 12)
    mu, done = optimal_weights(R, atoms)
    psi = R.first_variation(atoms, mu)
    assert done
    assert mu.integrate(psi) - psi.min() <= 1e-6
    assert (mu.weights[psi > psi.min() + 1e-4] <= 1e-4).all()


def test_optimal_weights_recover_the_teacher():
    R, teacher = problem(6)
    others = R.space.sample(np.random.default_rng(0), 4)
    mu, _ = optimal_weights(R, np.concatenate([others, teacher.atoms]))
    assert R(mu) - R(teacher) <= 1e-9
    np.testing.assert_allclose(mu.weights[4:], teacher.weights, atol=1e-3)


def test_boosting_lowers_the_risk_and_reports_the_truth():
    R, teacher = problem(7)
    start = Measure(np.zeros((1, R.shape.size)))
    result = boost(R, start, 0, 5)
    assert len(result.value) == 6 and not result.converged
    assert (np.diff(result.value) < 1e-12).all()
    assert result.value[-1] == pytest.approx(R(result.measure), rel=1e-12)
    excess = result.value - R(teacher)
    assert (excess <= result.rigorous).all() and (result.found <= result.rigorous).all()
    assert excess[-1] < 0.2 * excess[0]
    polished = boost(R, start, 0, 5, polish=40)
    assert polished.value[-1] - R(teacher) < 0.5 * excess[-1]
    assert R.space.contains(polished.measure.atoms).all()


def test_progress_of_boosting_changes_no_number(capsys):
    R, _ = problem(7)
    start, few = Measure(np.zeros((1, R.shape.size))), {"starts": 1, "pool": 8}
    quiet = boost(R, start, 0, 2, **few)
    assert capsys.readouterr().err == ""
    loud = boost(R, start, 0, 2, progress=True, **few)
    shown = capsys.readouterr().err
    assert "2/2" in shown and shown.endswith("\n")
    assert np.array_equal(quiet.value, loud.value) and np.array_equal(quiet.found, loud.found)


def test_boosting_stops_when_the_gap_is_closed():
    R, teacher = problem(8)
    result = boost(R, teacher, 0, 5, tolerance=1e-6)
    assert result.converged and len(result.value) == 1


def test_same_seed_same_bracket():
    R = hard(9)
    mu = Measure(R.space.sample(np.random.default_rng(0), 2))
    a, b = (frank_wolfe_gap(R, mu, 3) for _ in range(2))
    assert (a.found, a.rigorous) == (b.found, b.rigorous)
    np.testing.assert_array_equal(a.point, b.point)


class Linear(Functional):
    """A functional without closed form: the integral of <c, x> on the sphere."""

    space = Sphere()

    def __init__(self, c):
        self.c = np.asarray(c)

    def at(self, mu):
        return LinearLocal(self.c, mu)


class LinearLocal:
    def __init__(self, c, mu):
        self.c, self.mu = c, mu

    @property
    def value(self):
        return self.mu.weights @ self.first_variation(self.mu.atoms)

    def first_variation(self, x):
        return x @ self.c

    def gradient(self, x):
        return np.broadcast_to(self.c, x.shape)


def test_any_functional_gets_a_found_gap_and_no_false_certificate():
    c = np.array([3.0, 0.0, 4.0])
    mu = Measure([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    gap = frank_wolfe_gap(Linear(c), mu, 0)
    assert gap.found == pytest.approx(1.5 + 5.0, abs=1e-8)
    assert gap.rigorous == np.inf and gap.converged
    cut = frank_wolfe_gap(Linear(c), mu, 0, starts=5, maxiter=1)
    assert not cut.converged and cut.found <= gap.found + 1e-12
    result = boost(Linear(c), mu, 0, 3, tolerance=1e-6)
    assert result.converged
    np.testing.assert_allclose(result.measure.merge(1e-4).atoms, [-c / 5], atol=1e-4)


def test_anchored_risk_has_no_certificate():
    R = hard(10)
    F = R + Anchor(0.1, np.zeros(R.shape.size))
    gap = frank_wolfe_gap(F, Measure(np.zeros((1, R.shape.size))), 0, starts=2)
    assert gap.rigorous == np.inf and gap.found > 0


def test_bad_input():
    R = hard(11)
    zero = Measure(np.zeros((1, R.shape.size)))
    outside = Measure(np.full((1, R.shape.size), 10.0))
    with pytest.raises(ValueError, match="mu: expected atoms in Ball.*atom 0 is outside"):
        frank_wolfe_gap(R, outside, 0)
    with pytest.raises(TypeError, match="rng"):
        frank_wolfe_gap(R, zero, None)
    with pytest.raises(ValueError, match="starts"):
        frank_wolfe_gap(R, zero, 0, starts=0)
    with pytest.raises(ValueError, match="space: expected shape.ball"):
        frank_wolfe_gap(AttentionRisk(R.X, R.Y, R.W_U, R.shape), zero, 0)
    with pytest.raises(ValueError, match="rounds"):
        boost(R, zero, 0, 0)
    with pytest.raises(ValueError, match="tolerance"):
        boost(R, zero, 0, 1, tolerance=-1.0)
    with pytest.raises(ValueError, match="start"):
        optimal_weights(R, np.zeros((2, R.shape.size)), [0.5, 0.2])
    with pytest.raises(ValueError, match="atoms"):
        optimal_weights(R, np.zeros(R.shape.size))


def test_boosting_that_is_interrupted_keeps_what_it_has(monkeypatch):
    R, teacher = problem(0)
    rng, done = np.random.default_rng(0), []

    def gap(F, mu, seed, **options):
        if len(done) == rounds:
            raise KeyboardInterrupt
        done.append(mu)
        return Gap(1.0, 2.0, R.space.sample(rng, 1)[0], True, 1)

    monkeypatch.setattr(certificate, "frank_wolfe_gap", gap)
    rounds = 2
    kept = boost(R, teacher, 0, 5)
    assert kept.value.tolist() == [R(mu) for mu in done] and not kept.converged
    rounds = 0
    done.clear()
    with pytest.raises(KeyboardInterrupt):
        boost(R, teacher, 0, 5)
