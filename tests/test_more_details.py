"""Promises of tokens, flows, tasks and distances that other tests see only from afar."""

import importlib
import linecache
import pickle
import sys
import warnings
from concurrent.futures import CancelledError, Future
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from reference import make

from mfbook import _jobs, functional
from mfbook._validate import LARGEST, SUM_TOLERANCE
from mfbook.book import report
from mfbook.book.sweep import sweep
from mfbook.book.tasks import (
    Task,
    copy_head,
    copy_task,
    embedding,
    induction_head,
    induction_task,
    teacher_student,
    text,
)
from mfbook.bounds.derivatives import derivative_norms, directional_derivatives
from mfbook.flow import (
    checkpoint,
    flow,
    gradient_flow,
    integrators,
    learning_rate,
    polynomial_decay,
    sgd,
    warmup_cosine,
)
from mfbook.flow.engine import LEAST_RTOL
from mfbook.flow.influence import influence
from mfbook.measure import Measure
from mfbook.models import layers, network, tokens
from mfbook.models.attention import HeadShape, parallel
from mfbook.models.attention import side_by_side as _side_by_side
from mfbook.models.attention.ensemble import ensemble_gradient
from mfbook.models.confinement import Ridge
from mfbook.models.tokens import TokenEnergy, centred_kernel, particle_jacobian, sinkhorn_potential
from mfbook.transport import Plan, coupled_distance, displacement, random_functions, solvers

influence_module = importlib.import_module("mfbook.flow.influence")

# ------------------------------------------------------------------------------- tokens


def cloud(seed, n, scale):
    rng = np.random.default_rng(seed)
    return Measure(scale * rng.normal(size=(n, 2)), rng.dirichlet(np.ones(n)))


def sinkhorn_steps(mu, n):
    """The first n iterates f - |x|^2/2, and how far each is from a solution, by loops."""
    x, w, size = mu.atoms, mu.weights, mu.size
    f, iterates, errors = 0.5 * (x**2).sum(axis=1), [], []
    for _ in range(n):
        T = np.zeros(size)
        for i in range(size):
            T[i] = np.log(sum(w[j] * np.exp(x[i] @ x[j] - f[j]) for j in range(size)))
        iterates.append(f - 0.5 * (x**2).sum(axis=1))
        errors.append(np.abs(T - f).max())
        f = (f + T) / 2
    return iterates, errors


@pytest.mark.parametrize(("scale", "wide"), [(0.2, False), (3.0, True)])
def test_sinkhorn_iterations_one_by_one(scale, wide):
    mu = cloud(0, 5, scale)
    iterates, errors = sinkhorn_steps(mu, 12)
    for n in range(1, 13):
        f = sinkhorn_potential(mu, maxiter=n, tolerance=1e-300)
        assert f.iterations == n and not f.converged
        np.testing.assert_allclose(f.excess, iterates[n - 1], rtol=1e-11, atol=1e-13)
        assert f.error == pytest.approx(errors[n - 1], rel=1e-6, abs=1e-13)
    # the tolerance is in multiples of the largest excess, or of one
    n = 6
    size = max(1.0, np.abs(iterates[n - 1]).max())
    assert bool(size > 1) is wide
    for factor, expected in ((1 + 1e-5, n), (1 - 1e-5, n + 1)):
        f = sinkhorn_potential(mu, tolerance=factor * errors[n - 1] / size)
        assert f.converged and f.iterations == expected
    if not wide:  # met where it is equal
        error = sinkhorn_potential(mu, maxiter=n).error
        assert sinkhorn_potential(mu, tolerance=error).iterations == n


@pytest.mark.parametrize("size", [0.25, 1.0, 4.0])
def test_steps_of_the_jacobian_of_tokens(size):
    mu, seen = Measure([[size, 0.0], [0.0, size / 2]]), []
    particle_jacobian(lambda x, nu: seen.append(x) or x, mu)
    steps = sorted(
        {round(float(np.abs(x - mu.atoms).max() * max(1, size) / 1e-3), 6) for x in seen}
    )
    assert steps == [1, 2, 3]


def test_defaults_of_sinkhorn_are_those_of_its_documentation():
    mu = cloud(0, 5, 1.0)
    found = sinkhorn_potential(mu)
    stated = sinkhorn_potential(mu, tolerance=1e-14, maxiter=2000)
    assert (found.iterations, found.error) == (stated.iterations, stated.error)
    assert found.converged and found.error <= 1e-14 * max(1.0, np.abs(found.excess).max())


def test_an_atom_without_weight_has_what_the_formula_says():
    x, w = np.array([[0.0, 1.0], [1.5, 0.0], [1.0, 1.0]]), np.array([0.25, 0.75, 0.0])
    f = sinkhorn_potential(Measure(x, w), maxiter=3)
    np.testing.assert_array_equal(
        f.excess[:2], sinkhorn_potential(Measure(x[:2], w[:2]), maxiter=3).excess
    )
    gaussian = np.exp(-((x[2] - x) ** 2).sum(axis=1) / 2)
    assert f.excess[2] == pytest.approx(np.log(w @ (gaussian * np.exp(-f.excess))), rel=1e-14)


def test_logarithms_of_means_in_rows_that_fit(monkeypatch):
    rng, asked = np.random.default_rng(0), []
    s, y, w = (
        rng.normal(size=(7, 6)),
        rng.normal(size=(6, 2)),
        np.array([1, 2, 0, 3, 1, 3]) / 10,
    )

    def scores(rows):
        if rows is None:
            return 7
        asked.append((rows.start, rows.stop))
        return s[rows]

    for pairs, rows in ((12, 2), (3, 1), (30, 6), (1000, 200)):
        monkeypatch.setattr(tokens, "PAIRS", pairs)  # five atoms have weight
        asked.clear()
        logs, means = tokens._log_mean(scores, w, y)
        assert asked == [(a, a + rows) for a in range(0, 7, rows)]
        np.testing.assert_allclose(logs, np.log(np.exp(s) @ w), rtol=1e-13)
        np.testing.assert_allclose(
            means, (np.exp(s) * w) @ y / (np.exp(s) @ w)[:, None], rtol=1e-12
        )


def test_masses_are_varied_by_hundredths_down_to_the_lightest():
    mu, seen = Measure([[0.0], [1.0]], [1 - 1e-8, 1e-8]), []

    def potential(x, nu):
        seen.append(nu.weights)
        return x[:, 0]

    centred_kernel(potential, mu)
    for j, w in enumerate(mu.weights):
        other = mu.weights[1 - j]
        steps = [-(nu[1 - j] - other) / other for nu in seen[6 * j : 6 * j + 6]]
        np.testing.assert_allclose(steps, w / 100 * np.array([-3, -2, -1, 1, 2, 3]), rtol=1e-5)
    with pytest.raises(ValueError, match="mu: expected positive weights, at least 1e-08"):
        centred_kernel(potential, Measure([[0.0], [1.0]], [1 - 9e-9, 9e-9]))


def test_scores_beyond_the_range_of_exponentials():
    """Scores of 640 and more, whose exponentials or sums of exponentials are no numbers."""
    shape = HeadShape(1, 1, 1)
    X = np.array([[[[2.0], [-1.0], [1.5], [-2.0], [0.5]]]])
    Y, W_U = np.full((1, 1, 5, 2), 0.5), np.array([[1.0, -1.0]])
    risk, _ = make(0)
    risk = type(risk)(X[0], Y[0], W_U, shape)
    for score in (1.0, 590.0, 640.0, 708.0, 720.0, 800.0, 1100.0, 1300.0):
        # the largest score relative to the query's own: |-2| times |2 - (-2)|
        theta = np.array([[-score / 8, 1.0, 0.3, 0.2]])
        g = ensemble_gradient(theta.T[:, None], X, Y, W_U, shape)
        expected = risk.gradient(theta, Measure(theta))[0]
        np.testing.assert_allclose(g[:, 0, 0], expected, rtol=1e-9, atol=1e-12)
    assert np.exp(_side_by_side.LARGEST) * 1e40 < np.inf


# ------------------------------------------------------------------------------- learning rates


def test_rates_at_the_edge_of_what_diverges():
    assert [polynomial_decay(1.0, 1.0, p).diverges for p in (0.5, 1.0, 1.5)] == [
        True,
        True,
        False,
    ]
    flat = warmup_cosine(1.0, warmup=0.0, end=1.0, floor=1.0)  # a floor as high as the peak
    np.testing.assert_allclose(flat([0.0, 0.3, 1.0, 9.0]), 1, rtol=1e-15)
    assert [flat.tau(t) for t in (0.0, 0.25, 3.0)] == [0.0, 0.5, 6.0]
    assert flat.diverges
    assert not warmup_cosine(1.0, warmup=0.0, end=1.0, floor=0.0).diverges


# ------------------------------------------------------------------------------- flows


def test_least_relative_tolerance_is_that_of_scipy():
    eps = np.finfo(float).eps
    run = gradient_flow(Ridge(1.0), Measure([[1.0]]), [0, 1e-3], rtol=100 * eps)
    assert run.completed and LEAST_RTOL == 100 * eps
    with pytest.raises(ValueError, match="rtol: expected at least 2.22e-14"):
        gradient_flow(Ridge(1.0), Measure([[1.0]]), [0, 1e-3], rtol=np.nextafter(100 * eps, 0))


def test_lsoda_reports_and_does_not_warn():
    """Where its step becomes too small LSODA warns; the trajectory says so already."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = gradient_flow(TokenEnergy(), Measure([[1.0, 0.0]]), [0, 1.0], method="LSODA")
    assert not run.completed


def test_parts_of_a_fingerprint_do_not_run_together():
    assert checkpoint.fingerprint(1, 23) != checkpoint.fingerprint(12, 3)
    assert checkpoint.fingerprint("a", np.eye(2)) != checkpoint.fingerprint(
        "a", np.eye(2) * 1.0 + 1
    )
    assert checkpoint.fingerprint(np.zeros(4)) != checkpoint.fingerprint(np.zeros((2, 2)))
    assert checkpoint.fingerprint(np.zeros(2)) != checkpoint.fingerprint(np.zeros(4, np.float32))
    assert len(checkpoint.fingerprint(1)) == 16


@pytest.mark.parametrize("method", ["rk4", "RK45", "sgd"])
def test_a_run_that_is_finished_is_saved(method, tmp_path):
    """Asked again, it is read and not computed: nothing is evaluated but the start."""
    file, mu = tmp_path / "run.npz", Measure([[1.0], [2.0]])
    asked = []

    class Watched(Ridge):
        def at(self, mu):
            asked.append(mu.atoms)
            return super().at(mu)

    def run():
        F = Watched(0.5)
        if method == "sgd":
            return sgd(F, mu, [0.0, 1.0], 0.125, 1, checkpoint=file)
        step = {"step": 0.125} if method == "rk4" else {}
        return gradient_flow(F, mu, [0.0, 1.0], method=method, checkpoint=file, **step)

    first = run()
    assert file.exists()
    before = len(asked)
    again = run()
    assert len(asked) - before < before / 2
    np.testing.assert_array_equal(first.atoms, again.atoms)
    assert (first.steps, first.evaluations) == (again.steps, again.evaluations)


def push(x, mu):
    return np.full_like(x, 0.6 * LARGEST)


def test_fixed_steps_name_the_last_time_with_atoms():
    """Two steps of 0.6 times the largest number: the first stays in the range."""
    run = flow(push, Measure([[0.0]]), [0.0, 1.0, 2.0, 3.0], method="euler", step=1.0)
    assert run.reason.endswith("after t = 1") and run.steps == 1
    np.testing.assert_array_equal(run.t, [0, 1])
    np.testing.assert_array_equal(run.atoms[:, 0, 0], [0, 0.6 * LARGEST])


@pytest.mark.parametrize("method", ["euler", "rk4", "RK45"])
def test_interrupted_at_each_of_the_first_uses(method, tmp_path):
    """From the very first evaluation on there is a state to go on from."""
    step = {"step": 0.5} if method in ("euler", "rk4") else {}
    left = [0]

    class Interrupted(Ridge):
        def at(self, mu):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return super().at(mu)

    def run(uses, file):
        left[0] = uses
        mu = Measure([[1.0], [2.0]])
        return gradient_flow(
            Interrupted(0.5), mu, [0.0, 1.0], method=method, checkpoint=file, **step
        )

    whole = run(10**6, None)
    for uses in range(1, 5):
        file = tmp_path / f"{uses}.npz"
        with pytest.raises(KeyboardInterrupt):
            run(uses, file)
        again = run(10**6, file)
        np.testing.assert_array_equal(again.atoms, whole.atoms)
        assert (again.steps, again.evaluations) == (whole.steps, whole.evaluations)


def test_interpolant_beyond_its_end_by_rounding():
    run = SimpleNamespace(
        mu=Measure([[0.0]]),
        profile=SimpleNamespace(tau=lambda t: t * (1 + 1e-15)),
        project=lambda y: y,
    )
    pieces = [(1.0, lambda tau: "first"), (2.0, lambda tau: "second")]
    at = integrators._interpolant(run, pieces)
    assert [at(t) for t in (0.0, 0.9, 1.1, 2.0)] == ["first", "first", "second", "second"]


# ------------------------------------------------------------------------------- influence


def test_influence_is_linear_in_what_is_asked_at_any_scale():
    R, _ = make(2, S=2, T=3, d=2, k=1, v=1, V=3)
    mu = Measure(np.random.default_rng(3).normal(size=(3, R.shape.size)))

    def scaled(c):
        class Asked:
            def __call__(self, x):
                return c * (x**2).sum(axis=1)

            def gradient(self, x):
                return 2 * c * x

        return Asked()

    one = influence(R, mu, [0.5], scaled(1.0))
    assert np.abs(one).max() > 0.1
    for c in (1e-150, 1e150):
        np.testing.assert_allclose(influence(R, mu, [0.5], scaled(c)) / c, one, rtol=1e-6)


def test_tolerances_of_influence(monkeypatch):
    asked, original = [], influence_module.gradient_flow

    def spy(F, mu, grid, **options):
        asked.append(options)
        return original(F, mu, grid, **options)

    monkeypatch.setattr(influence_module, "gradient_flow", spy)
    influence(Ridge(1.0), Measure([[1.0], [2.0]]), [0.5], rtol=1e-6)
    assert asked == [pytest.approx({"rtol": 1e-8, "atol": 1e-10, "dense": True})]


# ------------------------------------------------------------------------------- tasks


def test_smallest_tasks():
    task = copy_task(sequences=5, tokens=3, vocabulary=2, lag=1, rng=0)
    shape = HeadShape(3, 2, 1)
    head = copy_head(shape, tokens=3, lag=1, scale=20.0)
    assert task.risk(shape)(Measure.dirac(head)) - task.optimal_risk < 1e-3
    with pytest.raises(ValueError, match="shape: expected d >= 3"):
        copy_head(HeadShape(2, 2, 1), tokens=3, lag=1, scale=1.0)
    induction = induction_task(sequences=6, tokens=2, vocabulary=2, rng=0)
    assert induction.X.shape == (6, 2, 3)
    shape = HeadShape(3, 2, 1)
    assert induction_head(shape, scale=1.0).shape == (shape.size,)
    taught = teacher_student(shape, sequences=2, tokens=1, vocabulary=2, heads=1, rng=0)
    assert taught.Y.shape == (2, 1, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: copy_head((3, 2, 1), tokens=3, lag=1, scale=1.0),
        lambda: induction_head((3, 2, 1), scale=1.0),
        lambda: teacher_student((3, 2, 1), sequences=1, tokens=1, vocabulary=2, heads=1, rng=0),
    ],
)
def test_shapes_of_heads_are_no_tuples(call):
    with pytest.raises(TypeError, match="^shape: expected"):
        call()


def test_induction_sequences_follow_one_map():
    V, T = 4, 9
    task = induction_task(sequences=30, tokens=T, vocabulary=V, rng=1)
    corners = embedding.words(V)
    assert (task.tokens[:, 0] == -1).all() and (task.tokens[:, 1:] >= 0).all()
    for ids, X, Y in zip(task.tokens, task.X, task.Y, strict=True):
        follows = {}
        for t in range(T):
            before = ids[t - 1] if t > 0 else -1
            mark = 1 if t == 0 else -1
            np.testing.assert_allclose(X[t], [*corners[ids[t]], *corners[before], mark])
            if t >= 2:
                assert follows.setdefault(ids[t - 1], ids[t]) == ids[t]
            known = follows.get(ids[t]) if t > 0 else None
            expected = np.full(V, 1 / V) if known is None else np.eye(V)[known]
            np.testing.assert_array_equal(Y[t], expected)


def test_positions_are_pairs_of_cosine_and_sine():
    p = embedding.positions(5, 3)
    for t in range(5):
        angles = [np.pi * t * j / 5 for j in (1, 2, 3)]
        pairs = [part for a in angles for part in (np.cos(a), np.sin(a))]
        np.testing.assert_allclose(p[t], np.array(pairs) / np.sqrt(3), atol=1e-15)


def test_prose_at_the_edge():
    eight = "The loop below counts to three and stops."
    assert text.prose(eight) == eight
    assert text.prose("The loop below counts to three then.") == ""  # seven words
    # nine of twelve words are plain: three quarters
    edge = "The loop below counts to three and then stops x1 x2 x3 end."
    assert len(edge.split()) == 13
    assert text.prose(edge) == edge
    twelve = "The loop below counts to three and it x1 x2 x3 stops."
    assert text.prose(twelve) == twelve
    assert text.prose("The loop below counts to three and x0 x1 x2 x3 stops.") == ""


def test_texts_that_are_too_short_for_a_window():
    with pytest.raises(ValueError, match="held_out: expected at most 0, the windows of 1 char"):
        text.text_task(sequences=1, tokens=1, held_out=1, rng=0, text="a")
    with pytest.raises(ValueError, match="n: expected at most 0"):
        text._windows(np.array([3]), 1, 1, np.random.default_rng(0), "n")
    found = text._windows(np.array([3, 4]), 1, 1, np.random.default_rng(0), "n")
    np.testing.assert_array_equal(found, [[3, 4]])


def test_rows_of_the_projection_sum_to_zero_up_to_rounding():
    X, Y, eps = np.ones((1, 1, 1)), np.full((1, 1, 2), 0.5), np.finfo(float).eps
    for size in (1.0, 4.0):  # relative to the sum of sizes, and to one
        limit = 4 * 2 * eps * 2 * size
        for row in ([size, -size + 0.9 * limit], [-size, size - 0.9 * limit], [1e-20, 1e-20]):
            Task(X, Y, np.array([row]), "small")
        for row in ([size, -size + 1.2 * limit], [-size, size - 1.2 * limit]):
            with pytest.raises(ValueError, match="W_U: expected rows that sum to zero"):
                Task(X, Y, np.array([row]), "large")
    for words in (("a", "b"), ["a", "b"]):
        assert Task(X, Y, np.array([[1.0, -1.0]]), "n", words=words).words == ("a", "b")


def test_numbers_of_words_go_from_none_to_the_last():
    X, Y, W_U = np.ones((1, 3, 1)), np.full((1, 3, 2), 0.5), np.array([[1.0, -1.0]])
    task = Task(X, Y, W_U, "n", tokens=np.array([[-1, 0, 1]]), words=("a", "b"))
    assert task.sequence(0) == ("", "a", "b")
    for wrong in ([[-2, 0, 1]], [[-1, 0, 2]]):
        with pytest.raises(ValueError, match="tokens: expected integers from -1 to 1"):
            Task(X, Y, W_U, "n", tokens=np.array(wrong))


def test_names_of_words_are_letters_as_long_as_they_suffice():
    assert embedding.names(3) == ("a", "b", "c")
    assert embedding.names(26)[-1] == "z" and embedding.names(27)[-1] == "26"


# ------------------------------------------------------------------------------- parallel


def test_all_processors_may_be_asked_for():
    with joblib.parallel_config(backend="threading"):
        assert sweep(dict, [{"a": 1}, {"a": 2}], n_jobs=-1, progress=False) == [
            {"a": 1},
            {"a": 2},
        ]
    with pytest.raises(ValueError, match="n_jobs"):
        sweep(dict, [{"a": 1}], n_jobs=-2, progress=False)


def test_a_sweep_says_nothing_but_its_progress(tmp_path, capfd, caplog, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for change in ("x", "x + 1"):  # other code for the same folder: it is cleared
        (tmp_path / "silent.py").write_text(f"def f(x):\n    return {change}\n")
        importlib.invalidate_caches()
        sys.modules.pop("silent", None)
        linecache.checkcache()
        f = importlib.import_module("silent").f
        sweep(f, [{"x": 1}], cache=tmp_path / "cache", progress=False)
    assert "".join(capfd.readouterr()) == "" and not caplog.records
    sweep(f, [{"x": 1}, {"x": 2}])
    assert "f: 2 cells:" in capfd.readouterr().err


class DaskDistributedBackend:
    """What is used of joblib's backend for Dask, which is recognised by its name."""

    def __init__(self, scatter=()):
        self.asked, self.scattered, self._scatter = [], [], list(scatter)
        self.client = self

    def submit(self, task, callback=None):
        self.asked.append((task, callback))
        return Future()

    def retrieve_result_callback(self, out):
        return "retrieved", out

    def scatter(self, data, broadcast):
        self.scattered.append((data, broadcast))
        return [f"future of {part}" for part in data]


def test_a_lost_task_of_dask_ends_the_call():
    backend, told = DaskDistributedBackend(), []
    _jobs._report_lost_tasks(backend)
    wrapped = backend.submit
    _jobs._report_lost_tasks(backend)
    assert backend.submit is wrapped  # once is enough
    error = RuntimeError("killed")
    jobs = [backend.submit("task", told.append) for _ in range(3)]
    assert backend.asked == [("task", told.append)] * 3
    jobs[0].set_result(1)  # joblib hears of results in another way
    jobs[1].cancel()
    assert told == []
    jobs[2].set_exception(error)
    assert told == [error]
    assert backend.retrieve_result_callback(3) == ("retrieved", 3)
    with pytest.raises(RuntimeError, match="killed"):
        backend.retrieve_result_callback(error)

    class Other(DaskDistributedBackend):
        pass

    other = Other()
    _jobs._report_lost_tasks(other)
    assert "submit" not in vars(other)


def test_what_dask_lost_is_sent_again(monkeypatch):
    class Calls:
        """joblib's Parallel, cancelled as often as it is told to."""

        def __init__(self, **options):
            seen.append(options)

        def __call__(self, tasks):
            if len(seen) <= losses:
                raise CancelledError
            return list(tasks)

    backend, seen = DaskDistributedBackend(["a", "b"]), []
    monkeypatch.setattr(_jobs, "Parallel", Calls)
    monkeypatch.setattr(_jobs, "get_active_backend", lambda: (backend, 2))
    for losses in range(4):
        seen.clear()
        backend.scattered.clear()
        assert _jobs.gather([1, 2], prefer="threads") == [1, 2]
        assert seen == [{"prefer": "threads"}] * (losses + 1)
        assert backend.scattered == [(["a", "b"], True)] * losses
    assert "submit" in vars(backend)  # lost tasks are reported
    first, second = backend._scatter
    expected = {id(first): "future of a", id(second): "future of b"}
    assert backend.data_futures == expected
    for losses, parts in ((4, ["a"]), (1, [])):  # too often, or nothing to send
        seen.clear()
        backend._scatter = parts
        with pytest.raises(CancelledError):
            _jobs.gather([1, 2])
        assert len(seen) == losses


def test_memories_of_one_sum_live_side_by_side():
    def sent(memory):
        return pickle.loads(pickle.dumps(memory))

    kept = parallel._memories([(1.0, None), (2.0, None)])
    first, second = map(sent, kept)
    assert first is not second
    assert sent(kept[0]) is first and sent(kept[1]) is second
    assert sent(first) is first  # also from there to somewhere else
    parallel._ARRIVED.clear()


def test_terms_are_sent_one_by_one(monkeypatch):
    options, gather = [], parallel.gather
    monkeypatch.setattr(parallel, "gather", lambda t, **o: options.append(o) or gather(t, **o))
    F = parallel.ParallelSum(((2.0, Ridge(1.0)), (0.5, Ridge(3.0))))
    assert F(Measure([[2.0]])) == pytest.approx(2 * 2 + 0.5 * 6)
    assert options == [{"prefer": "threads", "batch_size": 1}]


# ------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("shape", [HeadShape(1, 1, 1), HeadShape(2, 1, 1), HeadShape(2, 2, 1)])
def test_norms_of_the_derivatives_by_brute_force(shape):
    rng = np.random.default_rng(4)
    theta, X, W_U = (
        rng.normal(size=(3, shape.size)),
        rng.normal(size=(4, shape.d)),
        None,
    )
    W_U = rng.normal(size=(shape.d, 2))
    norms = derivative_norms(theta, X, W_U, shape)
    D, unit = shape.size, np.eye(shape.size)
    for n, head in enumerate(theta):
        value, J, H = np.zeros(2), np.zeros((2, D)), np.zeros((2, D, D))

        def along(h, head=head):
            return [p[0] for p in directional_derivatives(head[None], h[None], X, W_U, shape)]

        for i in range(D):
            value, J[:, i], _ = along(unit[i])
            for j in range(D):
                up, down = (along(unit[i] + s * unit[j])[2] for s in (1, -1))
                H[:, i, j] = (up - down) / 4
        angles = np.linspace(0, np.pi, 2001)
        e = np.column_stack([np.cos(angles), np.sin(angles)])
        largest = np.abs(np.linalg.eigvalsh(np.einsum("av,vij->aij", e, H))).max()
        assert norms.value[n] == pytest.approx(np.linalg.norm(value), rel=1e-12)
        assert norms.first[n] == pytest.approx(np.linalg.svd(J)[1][0], rel=1e-12)
        assert largest <= norms.second[n] * (1 + 1e-9) <= largest * (1 + 2e-6)
        assert 0 <= norms.share[n] <= 1


def test_share_of_the_scores_in_the_largest_second_derivative():
    # one token: the scores do not matter, and v o bends along (1, 1) in the values alone
    norms = derivative_norms([[1.0, 1.0, 3.0, 4.0]], [[1.0]], [[1.0]], HeadShape(1, 1, 1))
    assert norms.share[0] == pytest.approx(0, abs=1e-12)
    # two opposite tokens and large values: the second derivative is in the scores alone
    norms = derivative_norms([[0.0, 0.0, 1e6, 1.0]], [[1.0], [-1.0]], [[1.0]], HeadShape(1, 1, 1))
    assert norms.share[0] == pytest.approx(1, rel=1e-6)


# ------------------------------------------------------------------------------- test functions


def test_kinds_of_random_functions_take_turns():
    names = [f.name for f in random_functions(0, 2, 11)]
    kinds = ("direction", "distance", "saturated")
    assert names == [f"{kinds[k % 3]} {k}" for k in range(11)]


@pytest.mark.parametrize("difference, allowed", [(0.9e-12, True), (1.1e-12, False)])
def test_weights_of_coupled_measures_agree_to_twelve_digits(difference, allowed):
    mu = Measure([[0.0], [1.0]], [0.5, 0.5])
    nu = Measure([[3.0], [1.0]], [0.5 + difference, 0.5 - difference])
    if allowed:
        assert coupled_distance(mu, nu) == pytest.approx(3 / np.sqrt(2))
    else:
        with pytest.raises(ValueError, match="nu: expected the weights of mu"):
            coupled_distance(mu, nu)


def test_memory_of_a_solver_is_what_its_matrices_take():
    x, y = np.zeros((5, 2)), np.ones((4, 2))
    for solver, matrices in (("assignment", 1), ("simplex", 4)):
        needed = 8 * 5 * 4 * matrices
        for p in (1, 2):
            cost = solvers.cost_matrix(x, y, p, needed, solver)
            np.testing.assert_allclose(cost, np.full((5, 4), np.sqrt(2) ** p), rtol=1e-15)
        with pytest.raises(ValueError, match="memory: 5 times 4 atoms need"):
            solvers.cost_matrix(x, y, 1, needed - 1, solver)


def test_masses_are_scaled_to_one_where_weights_are_off_by_rounding():
    mu = Measure([[1.0], [2.0], [3.0]], [0.25, 0.25, 0.5 + 0.9 * SUM_TOLERANCE])
    (_, _, a), (_, _, b), _ = solvers.scaled(mu, Measure([[1.0]]))
    assert abs(a.sum() - 1) <= 4 * np.finfo(float).eps < SUM_TOLERANCE / 4 and b.sum() == 1
    np.testing.assert_allclose(a[:2] / a[2], mu.weights[:2] / mu.weights[2], rtol=1e-15)


def test_ends_of_a_displacement():
    mu, nu = Measure([[0.0], [4.0]]), Measure([[1.0], [3.0]])
    np.testing.assert_array_equal(displacement(mu, nu, 0).atoms, mu.atoms)
    np.testing.assert_array_equal(displacement(mu, nu, 1).atoms, nu.atoms)
    with pytest.raises(ValueError, match="s: expected a number in"):
        displacement(mu, nu, np.nextafter(1, 2))
    swapped = Plan(np.array([0, 1]), np.array([0, 1]), np.array([0.6, 0.4]), 1.0)
    with pytest.raises(ValueError, match="plan: expected the weights of mu as a marginal"):
        displacement(mu, nu, 0.5, swapped)


# ------------------------------------------------------------------------------- reports, layers


def test_tables_are_complete_markup(monkeypatch):
    shown = []
    monkeypatch.setattr(report, "show", lambda *parts: shown.append(parts))
    report.table([{"a<b": 1, "c": "x&y"}, {"a<b": 2.5, "c": None}], "one > two")
    cells = "<tr><td>1</td><td>x&amp;y</td></tr><tr><td>2.5</td><td>None</td></tr>"
    assert shown == [(
        "one > two\na<b  c\n---  ----\n1    x&y\n2.5  None",
        '<table class="mf-table"><caption>one &gt; two</caption><thead><tr>'
        '<th scope="col">a&lt;b</th><th scope="col">c</th></tr></thead>'
        f"<tbody>{cells}</tbody></table>",
    )]  # fmt: skip
    shown.clear()
    rows = (report.equal("x", 1.0, 2.0, 0.25), report.at_most("y", 0.3, 1.0))
    report.Check("name", rows, "a note").show()
    text, markup, data = shown[0]
    assert text == (
        "quantity  measured     stated      ratio  holds\n"
        "--------  --------  -  ----------  -----  -----\n"
        "x         1.0       =  2.0 ± 0.25         NO\n"
        "y         0.3       ≤  1.0         3.33   yes\n"
        "name: fails; a note"
    )
    assert markup.count("<td") == 13 and 'colspan="6">name: fails; a note</td>' in markup
    assert data["holds"] is False and data["ratio"] == 3.33


@pytest.mark.parametrize("relation", ["<", "", "<=>", 3, None, ["<="]])
def test_relations_that_no_row_has(relation):
    with pytest.raises(ValueError, match="relation: expected '<=', '>=' or '='"):
        report.Row("x", 1.0, relation, 1.0)


def test_noise_ends_where_it_is_said_to_end():
    for x, kept in ((1e-12, 1e-12), (-1e-12, -1e-12), (0.99e-12, 0.0)):
        row = report.at_most("x", x, 1.0)
        assert report.Check("s", (row,)).as_dict()["rows"][0]["measured"] == kept
    assert report.at_most("x", 1e-9, 1.0).ratio is None
    assert report.at_most("x", 1.1e-9, 1.0).ratio == pytest.approx(1 / 1.1e-9)
    assert report.at_most("x", 1.0, 0.0).ratio == 0
    assert report.at_most("x", 1.0, -1e-300).ratio is None


def test_labels_are_read_by_their_sign():
    rng, shape = np.random.default_rng(0), HeadShape(3, 2, 1)
    Y = rng.dirichlet(np.ones(4), size=(2, 3))
    F = layers.StackedRisk(rng.normal(size=(2, 3, 3)), Y, rng.normal(size=(3, 4)), shape)
    heads = rng.normal(size=(4, shape.size))
    results = []
    for labels in ([-1, -1, 1, 1], [0, -0.5, 0.25, 7.0]):
        mu = Measure(np.column_stack([labels, heads]))
        local = F.at(mu)
        gradient = local.gradient(mu.atoms)
        results.append([local.value, local.first_variation(mu.atoms), gradient])
        assert (gradient[:, 0] == 0).all() and (np.abs(gradient[:, 1:]).max(axis=1) > 0).all()
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_of_two_layers():
    shape = HeadShape(1, 1, 1)
    Y, one = [[[0.5, 0.5]]], [[[1.0]]]
    layers.StackedRisk([[[1e20]]], Y, [[1e20, 1.0]], shape)
    for X, W_U, name in (([[[1.1e20]]], [[1.0, 1.0]], "X"), (one, [[1.1e20, 1.0]], "W_U")):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            layers.StackedRisk(X, Y, W_U, shape)


def test_neurons_in_blocks_that_fit(monkeypatch):
    F = network.TwoLayerRisk(np.ones((7, 1)), np.ones(7))
    theta = np.ones((10, 3))
    for block, rows in ((21, 3), (20, 2), (3, 1), (10**6, 10)):
        monkeypatch.setattr(network, "BLOCK", block)
        parts = [(part, s.shape) for part, s in F._blocks(theta)]
        sizes = [len(theta[part]) for part, _ in parts]
        assert sizes[0] == rows and sum(sizes) == 10 and max(sizes) == rows
        assert all(shape == (n, 7) for n, (_, shape) in zip(sizes, parts, strict=True))


# ------------------------------------------------------------------------------- functionals


def test_limits_of_the_check_of_a_functional():
    edge = functional.FunctionalCheck(1e-6, 1e-6, 1e-6, 1e-6)
    assert edge.ok and edge.tolerance == 1e-6
    assert not functional.FunctionalCheck(1e-6, 1e-6, 1.1e-6, 1e-6).ok
    mu = Measure([[1.0, 2.0], [0.5, 1.0]])
    assert functional.check_functional(Ridge(0.5), mu, 0, step=0.5).ok  # a quadratic: exact
    with pytest.raises(ValueError, match="step: expected a number in"):
        functional.check_functional(Ridge(0.5), mu, 0, step=np.nextafter(0.5, 1))


def test_minimum_of_a_combination_takes_positive_coefficients_only():
    R, _ = make(2, S=2, T=3, d=2, k=1, v=1, V=3)
    R = R.on(R.shape.ball(1.0))
    mu = Measure(0.1 * np.random.default_rng(3).normal(size=(3, 8)))
    options = {"starts": 1, "pool": 4, "maxiter": 3}
    for a, b in ((1.0, 0.2), (0.5, 0.2), (2.0, 0.0)):
        local = (a * R + b * Ridge(1.0)).on(R.space).at(mu)
        found = local.minimise(0, **options)
        value = local.first_variation(found.point[None])[0]
        # a ridge counts half the square
        assert found.value == pytest.approx(value, rel=1e-9)
        assert found.lower_bound <= found.value
    assert (-1.0 * R).at(mu).minimise(0) is NotImplemented
    assert (0.0 * R + Ridge(1.0)).at(mu).minimise(0) is NotImplemented
    assert (R + R).at(mu).minimise(0) is NotImplemented


# ------------------------------------------------------------------------------- profiles


def test_limits_of_the_check_of_a_profile():
    def found(tau, error, diverges=None):
        return learning_rate.ProfileCheck(1.0, 0.0, 1.0, tau, error, diverges)

    assert found(0.1, 1e-8).holds and not found(0.1, 1.1e-8).holds
    assert found(10.0, 1e-7).holds and not found(10.0, 1.1e-7).holds
    assert found(1.0, 0.0, True).holds and not found(1.0, 0.0, False).holds
    two = learning_rate.check_profile(polynomial_decay(1.0, 1.0, 1.0), 3.0, samples=2)
    assert (two.largest, two.least, two.slope) == (1.0, 0.25, 0.25)
    assert two.tau == pytest.approx(2 * np.log(4), rel=1e-14)


def test_quadrature_goes_on_from_the_times_it_knows():
    asked = []

    def rate(t):
        asked.append(float(np.max(t)))
        return np.where(t < 1.0, 1.0, 3.0) + 0 * t

    xi = learning_rate.custom(rate, breaks=[1.0])
    assert xi.tau(2.0) == pytest.approx(8.0, rel=1e-14)
    asked.clear()
    assert xi.tau(3.0) == pytest.approx(14.0, rel=1e-14) and min(asked) > 2
    asked.clear()
    assert xi.tau(2.0) == pytest.approx(8.0, rel=1e-14) and asked == []
    assert xi.tau(0.5) == pytest.approx(1.0, rel=1e-14) and max(asked) < 0.5
    assert xi.tau(0.0) == 0.0
