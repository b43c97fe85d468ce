"""Promises of tokens, flows, tasks and distances that other tests see only from afar."""

import importlib
import linecache
import pickle
import sys
import warnings
from concurrent.futures import CancelledError, Future

import joblib
import numpy as np
import pytest
from mfbook import _jobs, _side_by_side, parallel, tokens
from mfbook.attention import HeadShape
from mfbook.confinement import Ridge
from mfbook.derivatives import derivative_norms, directional_derivatives
from mfbook.ensemble import ensemble_gradient
from mfbook.flow import checkpoint, gradient_flow, polynomial_decay, sgd, warmup_cosine
from mfbook.flow.engine import LEAST_RTOL
from mfbook.influence import influence
from mfbook.measure import Measure
from mfbook.sweep import sweep
from mfbook.tasks import (
    copy_head,
    copy_task,
    embedding,
    induction_head,
    induction_task,
    teacher_student,
    text,
)
from mfbook.tokens import (
    TokenEnergy,
    centred_kernel,
    particle_jacobian,
    sinkhorn_potential,
)
from mfbook.transport import random_functions
from reference import make

influence_module = importlib.import_module("mfbook.influence")

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
        {
            round(float(np.abs(x - mu.atoms).max() * max(1, size) / 1e-3), 6)
            for x in seen
        }
    )
    assert steps == [1, 2, 3]


def test_an_atom_without_weight_has_what_the_formula_says():
    x, w = np.array([[0.0, 1.0], [1.5, 0.0], [1.0, 1.0]]), np.array([0.25, 0.75, 0.0])
    f = sinkhorn_potential(Measure(x, w), maxiter=3)
    np.testing.assert_array_equal(
        f.excess[:2], sinkhorn_potential(Measure(x[:2], w[:2]), maxiter=3).excess
    )
    gaussian = np.exp(-((x[2] - x) ** 2).sum(axis=1) / 2)
    assert f.excess[2] == pytest.approx(
        np.log(w @ (gaussian * np.exp(-f.excess))), rel=1e-14
    )


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
        np.testing.assert_allclose(
            steps, w / 100 * np.array([-3, -2, -1, 1, 2, 3]), rtol=1e-5
        )
    with pytest.raises(
        ValueError, match="mu: expected positive weights, at least 1e-08"
    ):
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
    flat = warmup_cosine(
        1.0, warmup=0.0, end=1.0, floor=1.0
    )  # a floor as high as the peak
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
        gradient_flow(
            Ridge(1.0), Measure([[1.0]]), [0, 1e-3], rtol=np.nextafter(100 * eps, 0)
        )


def test_lsoda_reports_and_does_not_warn():
    """Where its step becomes too small LSODA warns; the trajectory says so already."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = gradient_flow(
            TokenEnergy(), Measure([[1.0, 0.0]]), [0, 1.0], method="LSODA"
        )
    assert not run.completed


def test_parts_of_a_fingerprint_do_not_run_together():
    assert checkpoint.fingerprint(1, 23) != checkpoint.fingerprint(12, 3)
    assert checkpoint.fingerprint("a", np.eye(2)) != checkpoint.fingerprint(
        "a", np.eye(2) * 1.0 + 1
    )
    assert checkpoint.fingerprint(np.zeros(4)) != checkpoint.fingerprint(
        np.zeros((2, 2))
    )
    assert checkpoint.fingerprint(np.zeros(2)) != checkpoint.fingerprint(
        np.zeros(4, np.float32)
    )
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
        np.testing.assert_allclose(
            influence(R, mu, [0.5], scaled(c)) / c, one, rtol=1e-6
        )


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
        lambda: teacher_student(
            (3, 2, 1), sequences=1, tokens=1, vocabulary=2, heads=1, rng=0
        ),
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
    with pytest.raises(
        ValueError, match="held_out: expected at most 0, the windows of 1 char"
    ):
        text.text_task(sequences=1, tokens=1, held_out=1, rng=0, text="a")
    with pytest.raises(ValueError, match="n: expected at most 0"):
        text._windows(np.array([3]), 1, 1, np.random.default_rng(0), "n")
    found = text._windows(np.array([3, 4]), 1, 1, np.random.default_rng(0), "n")
    np.testing.assert_array_equal(found, [[3, 4]])


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
    monkeypatch.setattr(
        parallel, "gather", lambda t, **o: options.append(o) or gather(t, **o)
    )
    F = parallel.ParallelSum(((2.0, Ridge(1.0)), (0.5, Ridge(3.0))))
    assert F(Measure([[2.0]])) == pytest.approx(2 * 2 + 0.5 * 6)
    assert options == [{"prefer": "threads", "batch_size": 1}]


# ------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize(
    "shape", [HeadShape(1, 1, 1), HeadShape(2, 1, 1), HeadShape(2, 2, 1)]
)
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
            return [
                p[0]
                for p in directional_derivatives(head[None], h[None], X, W_U, shape)
            ]

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
    norms = derivative_norms(
        [[1.0, 1.0, 3.0, 4.0]], [[1.0]], [[1.0]], HeadShape(1, 1, 1)
    )
    assert norms.share[0] == pytest.approx(0, abs=1e-12)
    # two opposite tokens and large values: the second derivative is in the scores alone
    norms = derivative_norms(
        [[0.0, 0.0, 1e6, 1.0]], [[1.0], [-1.0]], [[1.0]], HeadShape(1, 1, 1)
    )
    assert norms.share[0] == pytest.approx(1, rel=1e-6)


# ------------------------------------------------------------------------------- test functions


def test_kinds_of_random_functions_take_turns():
    names = [f.name for f in random_functions(0, 2, 11)]
    kinds = ("direction", "distance", "saturated")
    assert names == [f"{kinds[k % 3]} {k}" for k in range(11)]
