"""One functional in parallel: the numbers of the serial one, whoever computes them."""

import pickle
from dataclasses import dataclass

import joblib
import numpy as np
import pytest

from mfbook import parallel
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.certificate import frank_wolfe_gap, optimal_weights
from mfbook.confinement import Ridge
from mfbook.flow import gradient_flow, sgd
from mfbook.functional import Functional, check_functional
from mfbook.measure import Measure
from mfbook.parallel import ParallelSum, ShardedRisk, shards

SHAPE = HeadShape(3, 2, 1)
BALL = SHAPE.ball(2.0)


def risk(sequences=23, space=BALL, seed=0, V=4, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sequences, 5, 3))
    Y = rng.dirichlet(np.ones(V), size=(sequences, 5))
    return AttentionRisk(X, Y, np.ones((3, V)) + np.eye(3, V), SHAPE, space, **options)


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


def close(got, expected):
    """Sums of the same terms in another order: equal to a few units of the last digits."""
    return all(
        np.abs(g - e).max() <= 1e-13 * np.abs(e).max() for g, e in zip(got, expected, strict=True)
    )


@pytest.mark.parametrize("n", [1, 2, 5, 23])
def test_shards_are_the_whole_risk(n):
    """Sizes differ (23 = 5 + 5 + 5 + 4 + 4), so a plain mean over shards would be wrong."""
    assert close(answers(shards(R, n)), answers(R))


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_the_number_of_workers_changes_no_bit(workers):
    F = shards(R, 5)
    alone = answers(F)
    with joblib.parallel_config(backend="threading", n_jobs=workers):
        together = answers(F)
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_it_is_a_functional():
    F = shards(R, 3)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert check_functional(F, MU, rng=0).ok
        assert check_functional(F + Ridge(0.3), MU, rng=0).ok


def test_flow_descent_gap_and_weights_are_those_of_the_whole():
    F, times = shards(R, 4), [0.0, 0.5, 1.0]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        for G, H in ((F, R), (F + Ridge(0.1), R + Ridge(0.1))):
            one, other = (gradient_flow(f, MU, times, method="rk4", step=0.25) for f in (G, H))
            assert close([one.atoms, one.value], [other.atoms, other.value])
            one, other = (sgd(f, MU, times, 0.25, 3, batch=3) for f in (G, H))
            assert close([one.atoms, one.value], [other.atoms, other.value])
            one, other = (frank_wolfe_gap(f, MU, 5, starts=1, pool=8, maxiter=5) for f in (G, H))
            assert one.found == pytest.approx(other.found, rel=1e-9)
            assert one.rigorous == pytest.approx(other.rigorous, rel=1e-12)
            assert np.isfinite(one.rigorous)
    one, other = (optimal_weights(f, POINTS)[0].weights for f in (F, R))
    assert np.allclose(one, other, atol=1e-6)


def test_samples_are_those_of_the_whole():
    one, other = shards(R, 4).sample(9, 40), R.sample(9, 40)
    assert np.array_equal(one.X, other.X) and np.array_equal(one.Y, other.Y)
    assert one.space == other.space and one.dtype == other.dtype


def test_parts_may_come_from_anywhere():
    parts = [risk(7, seed=3), risk(2, seed=4)]
    X, Y = (np.concatenate([getattr(part, name) for part in parts]) for name in "XY")
    whole = AttentionRisk(X, Y, R.W_U, SHAPE, BALL)
    F = ShardedRisk(parts)
    assert close(answers(F), answers(whole))
    assert np.array_equal(F.X, X)
    assert repr(F) == "ShardedRisk(2 shards, 9 sequences of 5 tokens, vocabulary 4)"


def test_single_precision_stays_single():
    single = risk(dtype=np.float32)
    F = shards(single, 3)
    assert F.at(MU).gradient(POINTS).dtype == np.float32
    assert np.allclose(F.gradient(POINTS, MU), single.gradient(POINTS, MU), rtol=1e-4, atol=1e-6)


@dataclass(frozen=True)
class Counting(Functional):
    """A ridge that counts in a list how often it is evaluated at a measure."""

    calls: list

    def at(self, mu):
        self.calls.append(1)
        return Ridge(1.0).at(mu)


def test_a_measure_is_evaluated_once_where_memory_is_shared():
    calls = []
    F = ParallelSum(((2.0, Counting(calls)), (3.0, Ridge(1.0))))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        local = F.at(MU)
        assert not calls
        local.gradient(MU.atoms), local.value, local.first_variation(POINTS)
    assert len(calls) == 1
    assert local.value == pytest.approx(5 * Ridge(1.0)(MU), rel=1e-14)


def test_the_gradient_belongs_to_the_caller():
    local = shards(R, 2).at(MU)
    first = local.gradient(MU.atoms)
    first[:] = 0
    assert np.abs(local.gradient(MU.atoms)).max() > 0


def test_a_memory_is_sent_empty_and_found_again_where_it_arrived():
    """What a process computed at the last measure is kept there; another measure replaces it."""
    memory = parallel._Memory("first", 0)
    memory.content = "large"
    there = pickle.loads(pickle.dumps(memory))
    assert there is not memory and there.content is None
    there.content = "computed there"
    assert pickle.loads(pickle.dumps(memory)) is there
    pickle.loads(pickle.dumps(parallel._Memory("second", 0)))
    assert pickle.loads(pickle.dumps(memory)).content is None
    parallel._ARRIVED.clear()


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


def test_sample_of_a_sum_samples_its_terms():
    F = ParallelSum(((0.5, R), (0.5, Ridge(1.0)))).sample(3, 2)
    G = (0.5 * R + 0.5 * Ridge(1.0)).sample(3, 2)
    assert isinstance(F, ParallelSum)
    assert F(MU) == pytest.approx(G(MU), rel=1e-14)


@pytest.mark.parametrize(
    "call, error, name",
    [
        (lambda: shards(Ridge(1.0), 2), TypeError, "R"),
        (lambda: shards(R, 0), ValueError, "n"),
        (lambda: shards(R, 24), ValueError, "n"),
        (lambda: shards(R, 2.0), TypeError, "n"),
        (lambda: ShardedRisk([]), ValueError, "parts"),
        (lambda: ShardedRisk([R, Ridge(1.0)]), TypeError, r"parts\[1\]"),
        (lambda: ShardedRisk([R, risk(space=None)]), ValueError, r"parts\[1\].*space"),
        (lambda: ShardedRisk([R, risk(V=5)]), ValueError, r"parts\[1\].*W_U"),
        (lambda: ShardedRisk([R, risk(dtype=np.float32)]), ValueError, r"parts\[1\].*precision"),
        (lambda: ParallelSum(()), ValueError, "terms"),
        (lambda: ParallelSum(((1.0, "R"),)), TypeError, "terms"),
        (lambda: shards(R, 2).at(3), TypeError, "mu"),
        (lambda: shards(R, 2)(Measure([[1.0]])), ValueError, "mu"),
        (lambda: shards(R, 2).sample(0, 0), ValueError, "n"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, name):
    with pytest.raises(error, match=rf"^{name}"):
        call()
