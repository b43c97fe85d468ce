"""One functional in parallel: the numbers of the serial one, whoever computes them."""

import joblib
import numpy as np
import pytest

from mfbook.flow import gradient_flow, sgd
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape
from mfbook.models.attention.parallel import ParallelSum, ShardedRisk, shards
from mfbook.models.confinement import Ridge
from mfbook.optimise import frank_wolfe_gap, optimal_weights

SHAPE = HeadShape(3, 2, 1)
BALL = SHAPE.ball(2.0)


def risk(sequences=23, space=BALL, seed=0, T=5, V=4, shape=SHAPE, **options):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(sequences, T, 3)), rng.dirichlet(np.ones(V), size=(sequences, T))
    return AttentionRisk(X, Y, np.ones((3, V)) + np.eye(3, V), shape, space, **options)


R = risk()
MU = Measure(BALL.sample(np.random.default_rng(1), 6), np.arange(1, 7) / 21)
POINTS = BALL.sample(np.random.default_rng(2), 4)


def answers(F):
    """Everything that can be asked of a risk at a measure."""
    local = F.at(MU)
    value, slope = F.over_weights(POINTS)(np.array([0.1, 0.2, 0.3, 0.4]))
    return [
        local.value, local.first_variation(POINTS), local.gradient(POINTS),
        local.gradient(MU.atoms), F.at(MU).gradient(MU.atoms), local.Z,
        local.correlation(POINTS), value, slope,
    ]  # fmt: skip


def close(got, expected, tolerance=1e-13):
    """Sums of the same terms in another order: equal to a few units of the last digits."""
    return all(
        np.abs(g - e).max() <= tolerance * np.abs(e).max()
        for g, e in zip(got, expected, strict=True)
    )


@pytest.mark.parametrize("n", [1, 5, 23])
def test_shards_are_the_whole_risk_whatever_the_number_of_workers(n):
    """Sizes differ (23 = 5 + 5 + 5 + 4 + 4), so a plain mean over shards would be wrong."""
    F = shards(R, n)
    alone = answers(F)
    assert close(alone, answers(R)) and F.shape == SHAPE
    for workers in (2, 8):
        with joblib.parallel_config(backend="threading", n_jobs=workers):
            assert all(map(np.array_equal, answers(F), alone))
    one, other = F.sample(9, 40), R.sample(9, 40)
    assert np.array_equal(one.X, other.X) and np.array_equal(one.Y, other.Y)
    assert one.space == other.space and one.dtype == other.dtype


def test_processes_give_the_bits_of_one_thread_at_one_measure_after_another():
    """What a process remembers of one measure is not taken for another."""
    F = shards(R, 3)
    measures = [MU, Measure(MU.atoms[::-1], MU.weights), MU]
    alone = [(F(mu), F.gradient(POINTS, mu)) for mu in measures]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        locals_ = [F.at(mu) for mu in measures]
        there = [(local.value, local.gradient(POINTS)) for local in locals_]
    for (value, gradient), (one, other) in zip(there, alone, strict=True):
        assert value == one and np.array_equal(gradient, other)


def test_flow_descent_gap_and_weights_are_those_of_the_whole():
    F, times = shards(R, 4), [0.0, 0.5]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        for pair in ((F, R), (F + Ridge(0.1), R + Ridge(0.1))):
            one, other = (gradient_flow(f, MU, times, method="rk4", step=0.25) for f in pair)
            assert close([one.atoms, one.value], [other.atoms, other.value])
            one, other = (sgd(f, MU, times, 0.25, 3, batch=3) for f in pair)
            assert close([one.atoms, one.value], [other.atoms, other.value])
        one, other = (frank_wolfe_gap(f, MU, 5, starts=1, pool=8, maxiter=5) for f in pair)
        assert one.found == pytest.approx(other.found, rel=1e-9)
        assert one.rigorous == pytest.approx(other.rigorous, rel=1e-12)
        assert np.isfinite(one.rigorous)
        wide = SHAPE.ball(9.0)
        one, other = (f.at(MU).minimise(3, 0.5, wide, starts=1) for f in (F, R))
        assert one.value == pytest.approx(other.value, rel=1e-9)
    one, other = (optimal_weights(f, POINTS)[0].weights for f in (F, R))
    assert np.allclose(one, other, atol=1e-6)


def test_parts_may_come_from_anywhere_and_in_single_precision():
    parts = [risk(7, seed=3), risk(2, seed=4)]
    X, Y = (np.concatenate([getattr(part, name) for part in parts]) for name in "XY")
    F = ShardedRisk(parts)
    assert close(answers(F), answers(AttentionRisk(X, Y, R.W_U, SHAPE, BALL)))
    assert np.array_equal(F.X, X)
    single = risk(dtype=np.float32)
    gradient = shards(single, 3).gradient(POINTS, MU)
    assert gradient.dtype == np.float32
    assert np.allclose(gradient, single.gradient(POINTS, MU), rtol=1e-4, atol=1e-6)


def test_a_sum_of_any_functionals_is_their_combination():
    F, whole = ParallelSum([(2, Ridge(1.0)), (1, R)]), 2 * Ridge(1.0) + R
    assert F.space == whole.space == BALL and len(F.data) == 2
    assert ParallelSum(((1.0, R),), SHAPE.ball(5.0)).space == SHAPE.ball(5.0)
    assert close([F(MU), F.gradient(POINTS, MU)], [whole(MU), whole.gradient(POINTS, MU)])
    one, other = F.sample(3, 2), whole.sample(3, 2)
    assert isinstance(one, ParallelSum) and one(MU) == pytest.approx(other(MU), rel=1e-14)
    w = np.array([0.1, 0.2, 0.3, 0.4])
    assert close(*(G.over_weights(POINTS * (1 + 0.1j))(w) for G in (F, whole)), 1e-12)


def test_the_gradient_belongs_to_the_caller():
    local = shards(R, 2).at(MU)
    first = local.gradient(MU.atoms)
    expected = first.copy()
    first[:] = 0
    assert np.array_equal(local.gradient(MU.atoms), expected)


class Overflowing(Functional):
    def at(self, mu):
        return type("Local", (), {"value": float(np.exp(np.float64(1000)))})()


def test_workers_treat_floating_point_errors_as_the_caller_does():
    F = ParallelSum(((1.0, Overflowing()), (1.0, Overflowing())))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        with np.errstate(over="ignore"):
            assert F(MU) == np.inf  # a warning would be an error here
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            F(MU)


@pytest.mark.parametrize(
    "part",
    [
        Ridge(1.0),
        risk(space=None),
        risk(V=5),
        risk(T=3),
        risk(shape=HeadShape(3, 1, 2)),
        risk(dtype=np.float32),
    ],
    ids=["kind", "space", "vocabulary", "length", "shape", "precision"],
)
def test_parts_that_do_not_fit_together(part):
    with pytest.raises((TypeError, ValueError), match=r"^parts\[2\]"):
        ShardedRisk([R, R, part])


def test_more_shards_than_sequences_are_refused():
    with pytest.raises(ValueError, match="^n:"):
        shards(R, 24)
    with pytest.raises(ValueError, match="^mu:"):
        shards(R, 2)(Measure([[1.0]]))
