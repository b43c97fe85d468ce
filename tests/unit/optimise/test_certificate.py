"""The Frank-Wolfe gap and head boosting, against known optima and brute search."""

from types import SimpleNamespace

import numpy as np
import pytest
from examples import hard, problem, random_laws, zero

from mfbook.attention import AttentionRisk
from mfbook.confinement import Anchor, Ridge
from mfbook.functional import Functional, Minimum
from mfbook.measure import Measure, mixture
from mfbook.optimise import boost, frank_wolfe_gap, optimal_weights
from mfbook.space import Sphere


@pytest.mark.parametrize("seed", range(3))
def test_bracket_contains_the_excess_risk_of_many_measures(seed):
    R, teacher = problem(seed)
    for mu in random_laws(R, seed, (1, 2, 7)):
        gap = frank_wolfe_gap(R, mu, seed, starts=3)
        excess = R(mu) - R(teacher)
        # the teacher is one candidate head law: the found gap must beat its average
        local = R.at(mu)
        ends = [m.integrate(local.first_variation(m.atoms)) for m in (mu, teacher)]
        towards = ends[0] - ends[1]
        assert 0 < excess <= towards + 1e-12 and towards - 1e-9 <= gap.found <= gap.rigorous
    gap = frank_wolfe_gap(R, teacher, 0, starts=2)
    assert gap.found <= 1e-13 and gap.rigorous <= 1e-13
    assert frank_wolfe_gap(R, mixture(teacher, zero(R), 0.1), 0, starts=2).found > 1e-5


@pytest.mark.parametrize("radius", [0.2, 1.0, 2.5, 12.0])
def test_rigorous_end_holds_for_sampled_and_searched_heads(radius):
    """On many laws the bound on the correlation is above all that is drawn and all that is found.

    The bound is read off the certificate: nothing there raises one that is too small.
    """
    tightest = np.inf
    for seed in range(6):
        R = hard(seed, radius=radius) if seed % 2 else problem(seed, radius=radius)[0]
        rng = np.random.default_rng(100 + seed)
        n = int(rng.integers(1, 6))
        mu = Measure(R.space.sample(rng, n), rng.dirichlet(np.ones(n)))
        gap = frank_wolfe_gap(R, mu, rng, starts=3, pool=64)
        local = R.at(mu)
        bound = (gap.rigorous - mu.integrate(local.first_variation(mu.atoms))) / radius**2
        heads = R.space.sample(rng, 300)
        heads = np.concatenate([heads, R.space.project(100 * heads), 0 * heads[:1]])
        drawn = np.linalg.norm(local.correlation(heads), 2, axis=(1, 2)).max()
        searched = -local.first_variation(gap.point[None])[0] / radius**2
        assert searched >= drawn - 1e-6 and bound >= max(drawn, searched) - 1e-12
        # no larger than the longest token times the residual, in the mean
        longest = np.maximum.accumulate(np.linalg.norm(R.X, axis=2), axis=1)
        assert bound <= (longest * np.linalg.norm(local.Z, axis=2)).mean() + 1e-12
        tightest = min(tightest, bound / searched)
    assert tightest < 1.9  # so a bound that is half as large is refused above


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
        F = F.on(R.space)
        assert F.at(mu).minimise(0) is NotImplemented
        gap = frank_wolfe_gap(F, mu, 0, starts=1, maxiter=3)
        assert gap.rigorous == np.inf and gap.found >= 0


class Known(Functional):
    """First variation x^2, or a multiple of it, with a stated minimum."""

    def __init__(self, least, size=1.0):
        self.least, self.size = least, size

    def at(self, mu):
        return SimpleNamespace(
            first_variation=lambda x: self.size * x[:, 0] ** 2,
            minimise=lambda rng, **options: self.least,
        )


def test_both_ends_of_the_gap():
    mu, mean = Measure([[2.0], [0.5], [1.0]], [0.25, 0.25, 0.5]), 25 / 16
    for value, lower, point, found, rigorous in (
        (-1.0, -2.0, 9.0, mean + 1, mean + 2),
        (0.125, 0.0625, 9.0, mean - 0.125, mean - 0.0625),
        (0.75, -1.0, 0.5, mean - 0.25, mean + 1),  # an atom is better than what was found
        (0.125, 0.125 + 1e-13, 9.0, mean - 0.125, mean - 0.125),  # rounding put the bound above
        (0.125, 0.25, 9.0, mean - 0.125, mean - 0.25),  # a wrong bound, which is not hidden
        (0.75, 0.5, 0.5, mean - 0.25, mean - 0.5),  # the same, against an atom
        (0.125, 0.125 + 1e-10, 9.0, mean - 0.125, mean - 0.125 - 1e-10),
    ):
        # rounding is relative to the size of the functional, where that is large
        for converged, size in ((True, 1.0), (False, 1.0), (True, 2.0**20)):
            least = Minimum(np.array([9.0]), size * value, size * lower, converged, 7)
            gap = frank_wolfe_gap(Known(least, size), mu, 0)
            ends = size * found, size * rigorous
            assert (gap.found, gap.rigorous) == pytest.approx(ends, rel=1e-15)
            assert (gap.rigorous < gap.found) == (rigorous < found)
            assert gap.point == [point] and gap.converged is converged
    closed = Known(Minimum(np.array([1.0]), 1.0 + 1e-15, 1.0 + 1e-15, True, 1))
    gap = frank_wolfe_gap(closed, Measure([[1.0]]), 0)
    assert (gap.found, gap.rigorous) == (0, 0)  # never negative


class Linear(Functional):
    """A functional without closed form: the integral of <c, x> on the sphere."""

    space = Sphere()

    def __init__(self, c):
        self.c = np.asarray(c)

    def at(self, mu):
        return SimpleNamespace(
            value=mu.weights @ mu.atoms @ self.c,
            first_variation=lambda x: x @ self.c,
            gradient=lambda x: np.broadcast_to(self.c, x.shape),
        )


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


# ---------------------------------------------------------------------------------------------
# weights and boosting


def test_over_weights_agrees_with_the_functional():
    R = hard(2)
    atoms, w = R.space.sample(0, 6), np.random.default_rng(0).dirichlet(np.ones(6))
    mu = Measure(atoms, w)
    for F in (R, 2 * R + Anchor(0.1, np.ones(R.shape.size))):
        value, slope = F.over_weights(atoms)(w)
        assert value == pytest.approx(F(mu), rel=1e-13)
        np.testing.assert_allclose(slope, F.first_variation(atoms, mu), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("start", [None, [0.5, 0.25, 0.125, 0.125, *[0] * 8]])
def test_optimal_weights_satisfy_the_support_condition(start):
    R = hard(4)
    atoms = R.space.sample(np.random.default_rng(1), 12)
    mu, done = optimal_weights(R, atoms, start)
    psi = R.first_variation(atoms, mu)
    assert done and mu.integrate(psi) - psi.min() <= 1e-6
    assert (mu.weights[psi > psi.min() + 1e-4] <= 1e-4).all()


def test_optimal_weights_recover_the_teacher():
    R, teacher = problem(6)
    others = R.space.sample(np.random.default_rng(0), 4)
    mu, _ = optimal_weights(R, np.concatenate([others, teacher.atoms]))
    assert R(mu) - R(teacher) <= 1e-9
    np.testing.assert_allclose(mu.weights[4:], teacher.weights, atol=1e-3)


def test_boosting_lowers_the_risk_and_reports_the_truth():
    R, teacher = problem(7)
    few = {"starts": 2, "pool": 64}
    result = boost(R, zero(R), 0, 4, **few)
    assert len(result.value) == 5 and not result.converged
    assert (np.diff(result.value) < 1e-12).all()
    assert result.value[-1] == pytest.approx(R(result.measure), rel=1e-12)
    excess = result.value - R(teacher)
    assert (excess <= result.rigorous).all() and (result.found <= result.rigorous).all()
    assert excess[-1] < 0.2 * excess[0]
    assert result.atoms[-1] == result.measure.size and result.measure.weights.min() > 1e-10
    polished = boost(R, zero(R), 0, 4, polish=40, **few)
    assert polished.value[-1] - R(teacher) < 0.5 * excess[-1]
    assert (np.diff(polished.value) < 1e-12).all()
    assert R.space.contains(polished.measure.atoms).all()
    done = boost(R, teacher, 0, 5, tolerance=1e-6)
    assert done.converged and len(done.value) == 1


class Barrier(Linear):
    """Convex, and infinite where no mass is left on one half of the sphere."""

    def at(self, mu):
        local, kept = super().at(mu), mu.weights @ (mu.atoms[:, 0] > 0)
        local.value -= 0.5 * np.log(kept)
        local.first_variation = lambda x: x @ self.c - 0.5 * (x[:, 0] > 0) / kept
        return local


def test_boosting_keeps_the_old_heads_while_it_weighs_the_new():
    """With w on the old head, 2w - 1 - log(w) / 2 is least at 1/4."""
    mu = Measure([[1.0, 0.0, 0.0]])
    result = boost(Barrier([1.0, 0.0, 0.0]), mu, 0, 1, starts=4)
    assert result.value == pytest.approx([1, -0.5 + np.log(2)], abs=1e-8)
    np.testing.assert_allclose(result.measure.weights, [0.25, 0.75], atol=1e-4)


class Stopped(Functional):
    """A functional at which somebody presses Ctrl-C after some evaluations."""

    def __init__(self, F, calls):
        self.F, self.calls, self.space = F, calls, F.space

    def at(self, mu):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return self.F.at(mu)

    def over_weights(self, atoms):
        return self.F.over_weights(atoms)


def test_runs_repeat_and_an_interrupted_one_keeps_what_it_has(capsys):
    """The rounds that are done, with the same bits, or the interrupt itself if there are none."""
    R, few = hard(7), {"starts": 1, "pool": 4, "maxiter": 2}
    whole, lengths = boost(R, zero(R), 0, 3, progress=True, **few), set()
    assert "3/3" in capsys.readouterr().err
    for calls in range(40):
        try:
            kept = boost(Stopped(R, calls), zero(R), 0, 3, **few)
        except KeyboardInterrupt:
            assert not lengths
            continue
        lengths.add(len(kept.value))
        assert not kept.converged and kept.value[-1] >= R(kept.measure) - 1e-12
        for name in ("value", "found", "rigorous", "atoms"):
            expected = getattr(whole, name)[: len(kept.value)]
            np.testing.assert_array_equal(getattr(kept, name), expected)
    assert lengths == {1, 2, 3, 4} and capsys.readouterr().err == ""


def test_bad_input():
    R = hard(11)
    outside = Measure(np.full((1, R.shape.size), 10.0))
    for name, call in (
        ("mu", lambda: frank_wolfe_gap(R, outside, 0)),
        ("starts", lambda: frank_wolfe_gap(R, zero(R), 0, starts=0)),
        ("space", lambda: frank_wolfe_gap(AttentionRisk(R.X, R.Y, R.W_U, R.shape), zero(R), 0)),
        ("start", lambda: optimal_weights(R, np.zeros((2, R.shape.size)), [0.5, 0.2])),
        ("start", lambda: optimal_weights(R, np.zeros((2, R.shape.size)), [1.0])),
        ("pol", lambda: frank_wolfe_gap(R, zero(R), 0, pol=2)),
        ("budget", lambda: boost(R + Ridge(0.1), zero(R), 0, 1, budget=2)),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            call()
