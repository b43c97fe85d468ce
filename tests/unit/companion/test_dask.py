"""Stored experiments on a cluster: joblib's Dask backend, and a worker that dies on the way."""

import logging
import os
import signal
from pathlib import Path

import joblib
import numpy as np
import pytest

from companion.experiments._stored import evaluate, grid
from companion.experiments.propagation import descent_row

pytestmark = [
    pytest.mark.weekly,
    # connections of a killed worker are left to the garbage collector
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def row(seed, folder):
    """Risks of a short descent; the first worker that finds the file ``kill`` dies at seed 3."""
    if seed == 3 and (order := Path(folder) / "kill").exists():
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return descent_row(16, 0.25, seed, times=(0.0, 4.0))


def test_a_lost_worker_costs_nothing_and_what_is_finished_is_kept(tmp_path):
    distributed = pytest.importorskip("distributed")
    cells = grid(seed=range(8), folder=[str(tmp_path)])
    here = evaluate(row, cells, cache=tmp_path / "here", n_jobs=1)
    (tmp_path / "kill").touch()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        there = evaluate(row, cells, cache=tmp_path / "there", n_jobs=None)
    assert not (tmp_path / "kill").exists(), "no worker was killed"
    assert np.array_equal(here, there)
    finished = evaluate(row, cells, cache=tmp_path / "there", n_jobs=1)
    assert np.array_equal(here, finished)
    assert len(list((tmp_path / "there").rglob("output.pkl"))) == 8
