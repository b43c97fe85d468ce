"""The peers of the sphere's benchmark compute what this package computes."""

import os
from functools import partial

import numpy as np
import pytest

before = dict(os.environ)
from benchmarks import sphere as bench  # noqa: E402

os.environ.clear()  # importing it fixes the threads, which is not for the other tests
os.environ.update(before)

from mfbook.experiments.sphere import start  # noqa: E402
from mfbook.measure import Measure  # noqa: E402
from mfbook.sphere import SphereEnergy, settle  # noqa: E402


@pytest.mark.parametrize("peer", [bench.usual, bench.direct], ids=["usual", "direct"])
@pytest.mark.parametrize("d, n", [(2, 1), (2, 500), (2, 501), (3, 60), (3, 501), (16, 60)])
def test_peers_agree_with_the_package(d, n, peer, monkeypatch):
    monkeypatch.setattr(bench, "ROWS", 500 if n > 60 and d == 2 else 25)
    mu = Measure(start(d, n=n).atoms)
    for beta in (0.1, 1.0, 50.0):
        ours = SphereEnergy(beta).velocity(mu.atoms, mu)
        assert np.abs(peer(mu.atoms, beta) - ours).max() < bench.TOLERANCE


@pytest.fixture
def quick(monkeypatch):
    """One call instead of a measured time; few particles and short runs."""
    monkeypatch.setattr(bench, "seconds", lambda run, least=0.05: (run(), 2.0)[1])
    monkeypatch.setattr(bench, "settle", partial(settle, horizon=20.0))
    monkeypatch.setattr(bench, "start", lambda d=2, n=20: start(d, n=n))
    goals = {(d, 20, name): goal for (d, _, name), goal in bench.GOALS.items()}
    monkeypatch.setattr(bench, "GOALS", goals)


def test_tables(quick, capsys):
    bench.step(2, 20, (1.0, 10.0), 1)
    text = capsys.readouterr().out
    assert text.count(">= 5000") == 2 and text.count(">= 500") == 4 and "time / mfbook" in text
    bench.step(3, 20, (5.0,), 2)
    assert ">= 8" in capsys.readouterr().out
    bench.whole_runs(1)
    text = capsys.readouterr().out
    assert text.count("ascent") == 3 and text.count("descent") == 3
    bench.minimisers(1)
    assert capsys.readouterr().out.count("2 relu") == 3


def test_a_wrong_peer_is_noticed(quick, monkeypatch, capsys):
    monkeypatch.setattr(bench, "direct", lambda x, beta: -bench.usual(x, beta))
    with pytest.raises(AssertionError, match="direct"):
        bench.step(2, 20, (1.0,), 1)


def test_time_of_a_call():
    calls = []
    assert bench.seconds(lambda: calls.append(1), 0.0) >= 0 and len(calls) == 1
    bench.seconds(lambda: calls.append(sum(range(1000))), 0.002)
    assert len(calls) > 3
