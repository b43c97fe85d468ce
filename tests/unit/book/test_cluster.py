"""A cluster of several processes: workers and clients that are killed, and the same numbers.

One local Dask cluster serves all tests; each runs with as many workers as are alive again.
"""

import gc
import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
from cluster_tasks import Mortal, row

from mfbook.book.experiments.propagation import descent_row
from mfbook.book.sweep import grid, sweep
from mfbook.book.tasks import copy_task
from mfbook.flow import gradient_flow
from mfbook.measure import Measure
from mfbook.models.attention import HeadShape
from mfbook.models.attention.parallel import ParallelSum, shards
from tools.chapters import BOOK

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.by_turn,
    pytest.mark.slow,
    # connections of a killed worker are left to the garbage collector, in all of Dask's threads
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as cluster:  # fmt: skip
        yield cluster
    gc.collect()  # what killed workers left open is collected here, where it is expected


@pytest.fixture
def dask(cluster):
    """The cluster as joblib's backend."""
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        with joblib.parallel_config(backend="dask"):
            yield client


@pytest.fixture(autouse=True)
def patience():
    """A call that waits for a task that is lost has to fail, not to hang."""

    def stop(*_):
        raise TimeoutError("no result after five minutes")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def calls(folder, file="calls"):
    file = folder / file
    return sorted(map(int, file.read_text().split())) if file.exists() else []


def waiting_for(condition):
    """Wait until something is so; ``patience`` ends what never comes."""
    while not condition():
        time.sleep(0.05)


def numbers(n):
    return [np.random.default_rng(seed).normal(size=4) for seed in range(n)]


def finished(folder, n, **options):
    """Run a sweep to its end: all its numbers, and what was finished is not computed again."""
    cells = grid(seed=range(n), folder=[str(folder)], **options)
    assert np.array_equal(sweep(row, cells, cache=folder / "cache", progress=False), numbers(n))
    assert calls(folder) == list(range(n))


def test_a_sweep_gives_the_same_numbers(dask):
    """Rows of the experiment of Chapter 5: one process, two processes, a Dask cluster."""
    cells = grid(M=[16], epsilon=[0.25, 0.125], seed=range(3), times=[(0.0, 2.0)])
    there = sweep(descent_row, cells, progress=False)
    for choice in ({"backend": "sequential"}, {"backend": "loky", "n_jobs": 2}):
        with joblib.parallel_config(**choice):
            assert np.array_equal(sweep(descent_row, cells, progress=False), there)


def test_a_worker_killed_in_the_middle_costs_nothing(dask, tmp_path):
    (tmp_path / "kill-3").write_text("once")
    finished(tmp_path, 8)
    assert not (tmp_path / "kill-3").exists(), "no worker was killed"


def test_a_cell_that_kills_every_worker_ends_the_sweep_by_name(dask, cluster, tmp_path):
    cells, cache = grid(seed=range(6), folder=[str(tmp_path)]), tmp_path / "cache"
    (tmp_path / "kill-4").write_text("always")
    sweep(row, cells[:3], cache=cache, progress=False)
    patient, cluster.scheduler.allowed_failures = cluster.scheduler.allowed_failures, 0
    try:
        with pytest.raises(distributed.scheduler.KilledWorker) as caught:
            sweep(row, cells, cache=cache, progress=False)
    finally:
        cluster.scheduler.allowed_failures = patient
    assert "kept in" in caught.value.__notes__[0]
    (tmp_path / "kill-4").unlink()
    finished(tmp_path, 6)


def test_on_one_machine_a_killed_process_ends_the_sweep_and_it_goes_on(tmp_path):
    cells, cache = grid(seed=range(5), folder=[str(tmp_path)]), tmp_path / "cache"
    (tmp_path / "kill-4").write_text("once")
    sweep(row, cells[:2], cache=cache, progress=False)
    error = joblib.externals.loky.process_executor.TerminatedWorkerError
    with pytest.raises(error, match="unexpectedly terminated") as caught:
        sweep(row, cells, cache=cache, n_jobs=2, progress=False)
    assert "kept in" in caught.value.__notes__[-1]
    got = sweep(row, cells, cache=cache, n_jobs=2, progress=False)
    assert np.array_equal(got, numbers(5))
    assert calls(tmp_path)[:2] == [0, 1] and set(calls(tmp_path)) == set(range(5))


CLIENT = """
import sys, distributed, joblib
from cluster_tasks import row
from mfbook.book.sweep import grid, sweep
cells = grid(seed=range(6), folder=[sys.argv[2]], gate=[1])
with distributed.Client(sys.argv[1]), joblib.parallel_config(backend="dask"):
    sweep(row, cells, cache=sys.argv[2] + "/cache", progress=False)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_an_interrupted_client_goes_on_where_it_stopped(dask, cluster, tmp_path, how):

    def clients():
        """Whom the scheduler serves, its own workers left out."""
        names = dask.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
        return {name for name in names if not name.startswith("Client-worker")}

    before = clients()
    said = tmp_path / "said"  # not a pipe: a full one would stop the process
    with said.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, cluster.scheduler_address, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(HERE)}, stderr=file,
        )  # fmt: skip
        waiting_for(lambda: calls(tmp_path) or process.poll() is not None)
        while process.poll() is None:  # a signal that comes while a library catches it is lost
            process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
    assert process.returncode != 0
    if how == signal.SIGINT:
        assert "KeyboardInterrupt" in said.read_text()
    # cells that workers are at end; others are given up when the scheduler knows that none asks
    waiting_for(lambda: clients() == before)
    (tmp_path / "open").touch()
    waiting_for(lambda: calls(tmp_path) == calls(tmp_path, "begun"))
    done = calls(tmp_path)
    assert 0 < len(done) < 6, "it was meant to be stopped in the middle"
    finished(tmp_path, 6, gate=[1])


SHAPE = HeadShape(4, 2, 2)
R = copy_task(sequences=90, tokens=5, vocabulary=3, lag=1, rng=0).risk(SHAPE, SHAPE.ball(3.0))
MU = Measure(R.space.sample(np.random.default_rng(1), 12))
POINTS = R.space.sample(np.random.default_rng(2), 5)


def answers(F):
    local = F.at(MU)
    own, value = local.gradient(MU.atoms), local.value
    return [own, value, local.first_variation(POINTS), local.gradient(POINTS), local.Z]


def test_one_risk_on_processes_and_on_a_cluster(dask):
    """The bits of the same shards in one thread, and the whole risk up to rounding."""
    F = shards(R, 4)
    there = answers(F)
    for choice in (
        {"backend": "dask", "scatter": F.data},
        {"backend": "loky", "n_jobs": 2},
        {"backend": "sequential"},
    ):
        with joblib.parallel_config(**choice):
            assert all(map(np.array_equal, answers(F), there))
    for got, expected in zip(there, answers(R), strict=True):
        assert np.abs(got - expected).max() <= 1e-12 * np.abs(expected).max()


def test_a_flow_survives_a_killed_worker(dask, tmp_path):
    """The worker dies in the middle of a step; what it was asked is asked of another."""
    order = tmp_path / "die"
    whole = shards(R, 4)
    F = ParallelSum([(a, Mortal(part, order)) for a, part in whole.terms], R.space)
    times, options = [0.0, 1.0], {"method": "rk4", "step": 0.5}
    with joblib.parallel_config(backend="sequential"):
        alone = gradient_flow(whole, MU, times, **options)
    with joblib.parallel_config(backend="dask", scatter=F.data):
        F(MU)
        order.touch()
        there = gradient_flow(F, MU, times, **options)
    assert not order.exists(), "no worker was killed"
    assert np.array_equal(there.atoms, alone.atoms)
    assert np.array_equal(there.value, alone.value)


def test_shards_that_died_with_their_worker_are_sent_again(dask, cluster):
    """Dask keeps one copy of what was scattered: the only one is lost with its worker."""
    F, before = shards(R, 4), R(MU)
    with joblib.parallel_config(backend="dask", scatter=F.data):
        assert F(MU) == pytest.approx(before, rel=1e-12)
        while any(len(places) > 1 for places in dask.who_has().values()):
            dask.amm.run_once()
            time.sleep(0.05)
        (owner, *_) = next(places for places in dask.who_has().values() if places)
        nanny = next(n for n in cluster.workers.values() if n.worker_address == owner)
        os.kill(nanny.process.pid, signal.SIGKILL)
        assert F(MU) == pytest.approx(before, rel=1e-12)


def test_the_page_prints_what_it_says(cluster, tmp_path, monkeypatch, capsys):
    """The blocks of "From laptop to cluster", with this cluster in the place of theirs."""
    page = (BOOK / "cluster.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"] * 4
    client = distributed.Client
    monkeypatch.setattr("dask.distributed.Client", lambda **_: client(cluster))
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, content in blocks:
        if kind == "python":
            capsys.readouterr()
            exec(compile(content, "cluster.md", "exec"), names)
        else:
            assert capsys.readouterr().out == content
    # the folder is the client's, although its workers were started elsewhere
    assert len(list((tmp_path / "cache").rglob("output.pkl"))) == 8
