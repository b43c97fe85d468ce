"""One functional in parallel: the numbers of the serial one, whoever computes them."""

import pickle
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from joblib.parallel import ParallelBackendBase, get_active_backend

from mfbook import _jobs
from mfbook.flow import gradient_flow, sgd
from mfbook.functional import Functional, check_functional
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape, parallel
from mfbook.models.attention.parallel import ParallelSum, ShardedRisk, shards
from mfbook.models.confinement import Ridge
from mfbook.optimise import frank_wolfe_gap, optimal_weights

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


# ------------------------------------------------------------------------------- what is asked


def test_terms_and_space_are_those_of_a_combination():
    F = ParallelSum([(2, Ridge(1.0)), (1, R)])
    whole = 2 * Ridge(1.0) + R
    assert F.terms == ((2.0, F.terms[0][1]), (1.0, R)) and isinstance(F.terms, tuple)
    assert F.space == whole.space == BALL and F.data == [F.terms[0][1], R]
    assert ParallelSum(((1.0, R),), SHAPE.ball(5.0)).space == SHAPE.ball(5.0)


def test_only_what_is_asked_for_is_computed(monkeypatch):
    asked, answer = [], parallel._answer

    def spy(F, memory, errors, mu, question):
        asked.append(question[0])
        return answer(F, memory, errors, mu, question)

    monkeypatch.setattr(parallel, "_answer", spy)
    local = ParallelSum(((2.0, Ridge(1.0)),)).at(MU)
    assert local.value == local.value == pytest.approx(2 * Ridge(1.0)(MU))
    assert asked == ["value"]
    local = ParallelSum(((2.0, Ridge(1.0)),)).at(MU)
    asked.clear()
    assert np.allclose(local.gradient(MU.atoms), 2 * MU.atoms)
    assert local.value == pytest.approx(2 * Ridge(1.0)(MU))  # with the gradient, in one round
    assert np.allclose(local.gradient(POINTS), 2 * POINTS)
    assert asked == ["both", "gradient"]


def test_every_term_is_one_task(monkeypatch):
    options, gather = [], parallel.gather

    def spy(tasks, **given):
        options.append((len(tasks), given))
        return gather(tasks, **given)

    monkeypatch.setattr(parallel, "gather", spy)
    shards(R, 5)(MU)
    assert options == [(5, {"prefer": "threads", "batch_size": 1})]


def test_memories_of_one_measure_live_side_by_side():
    first, second = parallel._memories(((1.0, R), (1.0, R)))
    assert first.name[0] == second.name[0] and (first.name[1], second.name[1]) == (0, 1)
    assert parallel._memories(((1.0, R),))[0].name[0] != first.name[0]
    there = pickle.loads(pickle.dumps(first))
    there.content = "kept"
    other = pickle.loads(pickle.dumps(second))
    assert pickle.loads(pickle.dumps(first)).content == "kept" and other is not there
    # what has arrived can be sent on
    assert there.name == first.name and pickle.loads(pickle.dumps(there)) is there
    parallel._ARRIVED.clear()


def test_weights_of_complex_atoms():
    F = ParallelSum(((2.0, Ridge(1.0)), (1.0, Ridge(3.0))))
    whole, w = 2 * Ridge(1.0) + Ridge(3.0), np.array([0.1, 0.2, 0.3, 0.4])
    for one, other in zip(
        F.over_weights(POINTS * 1j)(w), whole.over_weights(POINTS * 1j)(w), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-14)


def test_the_search_for_the_best_head_is_that_of_the_package(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "mfbook.models.attention.parallel.best_head",
        lambda local, rng, ridge, space, **o: asked.append((local, rng, ridge, space, o)),
    )
    F = shards(R, 2)
    local, other = F.at(MU), SHAPE.ball(9.0)
    local.minimise(3)
    local.minimise(4, 0.5, other, starts=2)
    assert asked == [(local, 3, 0.0, BALL, {}), (local, 4, 0.5, other, {"starts": 2})]
    assert local.risk is F and F.shape == SHAPE


def test_parts_that_do_not_fit_together():
    rng, Y = np.random.default_rng(0), np.full((4, 3, 4), 0.25)
    shorter = AttentionRisk(rng.normal(size=(4, 3, 3)), Y, R.W_U, SHAPE, BALL)
    other = AttentionRisk(R.X, R.Y, R.W_U, HeadShape(3, 1, 1))
    for part, what in ((shorter, "length of sequences"), (other, "shape of heads")):
        with pytest.raises(ValueError, match=rf"^parts\[2\]: expected the {what} of parts\[0\]"):
            ShardedRisk([R, R, part])


# ------------------------------------------------------------------------------- lost on a cluster


def test_what_a_cluster_has_lost_is_sent_again_three_times(monkeypatch):
    for losses, scattered, expected in (
        (0, True, 1), (3, True, 4), (4, True, None), (1, False, None),
    ):  # fmt: skip
        calls, sent = [], []

        def lost(tasks, calls=calls, losses=losses, **options):
            calls.append((tasks, options))
            if len(calls) <= losses:
                raise CancelledError
            return ["done"]

        def again(backend, sent=sent, scattered=scattered):
            sent.append(backend)
            return scattered

        monkeypatch.setattr(_jobs, "run", lost)
        monkeypatch.setattr(_jobs, "_sent_again", again)
        if expected is None:
            with pytest.raises(CancelledError):
                _jobs.gather(["task"], n_jobs=2)
            assert len(calls) == (4 if scattered else 1)
        else:
            assert _jobs.gather(["task"], n_jobs=2) == ["done"] and len(calls) == expected
        assert all(call == (["task"], {"n_jobs": 2}) for call in calls)
        assert all(isinstance(backend, ParallelBackendBase) for backend in sent)


def test_scattered_data_is_scattered_again():
    asked = []

    def scatter(data, broadcast):
        asked.append((data, broadcast))
        return [f"future {x}" for x in data]

    backend = SimpleNamespace(_scatter=["a", "b"], client=SimpleNamespace(scatter=scatter))
    assert _jobs._sent_again(backend) is True and asked == [(["a", "b"], True)]
    assert backend.data_futures == {id("a"): "future a", id("b"): "future b"}
    for empty in (SimpleNamespace(_scatter=[]), SimpleNamespace()):
        assert _jobs._sent_again(empty) is False


class DaskDistributedBackend:
    """What joblib's backend has of it that matters here."""

    def __init__(self):
        self.jobs = []

    def submit(self, task, callback):
        self.jobs.append((task, callback))
        return SimpleNamespace(add_done_callback=lambda f: self.jobs.append(f))

    def retrieve_result_callback(self, result):
        return f"retrieved {result}"


def test_a_task_that_a_cluster_gives_up_ends_the_call():
    backend, heard = DaskDistributedBackend(), []
    _jobs._report_lost_tasks(backend)
    job = backend.submit("task", heard.append)
    (task, callback), finished = backend.jobs
    assert task == "task" and callback == heard.append and hasattr(job, "add_done_callback")
    error = RuntimeError("killed")
    for cancelled, problem, expected in (
        (False, None, []), (True, None, []), (True, error, []), (False, error, [error]),
    ):  # fmt: skip
        heard.clear()

        def exception(cancelled=cancelled, problem=problem):
            assert not cancelled  # Dask raises then
            return problem

        finished(SimpleNamespace(cancelled=lambda c=cancelled: c, exception=exception))
        assert heard == expected
    assert backend.retrieve_result_callback("result") == "retrieved result"
    with pytest.raises(CancelledError):
        backend.retrieve_result_callback(CancelledError())
    # closed once, and for Dask only
    submit = backend.submit
    _jobs._report_lost_tasks(backend)
    assert backend.submit is submit
    other = SimpleNamespace()
    _jobs._report_lost_tasks(other)
    assert vars(other) == {}


def test_every_call_closes_the_gaps_of_its_own_backend(monkeypatch):
    seen = []
    monkeypatch.setattr(_jobs, "_report_lost_tasks", seen.append)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert _jobs.run([joblib.delayed(abs)(-1)]) == [1]
        assert seen == [get_active_backend()[0]] or type(seen[0]).__name__ == "ThreadingBackend"


def test_one_part_is_enough():
    F, one = shards(R, 1), R.sample(5, 3)
    assert F.shape == SHAPE and np.array_equal(F.sample(5, 3).X, one.X)
    assert repr(F) == "ShardedRisk(1 shards, 23 sequences of 5 tokens, vocabulary 4)"
