"""The peers of the sphere's benchmark compute what this package computes."""

import os
from functools import partial

import numpy as np
import pytest

before = dict(os.environ)
from benchmarks import sphere as bench  # noqa: E402
from benchmarks import tables, timing  # noqa: E402

os.environ.clear()  # importing it fixes the threads, which is not for the other tests
os.environ.update(before)

from mfbook.book.experiments.sphere import start  # noqa: E402
from mfbook.equilibria import settle  # noqa: E402
from mfbook.measure import Measure  # noqa: E402
from mfbook.models.sphere import SphereEnergy  # noqa: E402


@pytest.mark.parametrize("peer", [bench.usual, bench.direct], ids=["usual", "direct"])
@pytest.mark.parametrize("d, n", [(2, 1), (2, 500), (2, 501), (3, 60), (3, 501), (16, 60)])
def test_peers_agree_with_the_package(d, n, peer, monkeypatch):
    monkeypatch.setattr(bench, "ROWS", 500 if n > 60 and d == 2 else 25)
    monkeypatch.setattr(bench, "BLOCK", 25 * n)
    mu = Measure(start(d, n=n).atoms)
    for beta in (0.1, 1.0, 50.0):
        ours = SphereEnergy(beta).velocity(mu.atoms, mu)
        assert np.abs(peer(mu.atoms, beta) - ours).max() < bench.TOLERANCE
        first = peer(mu.atoms, beta, (n + 1) // 2)
        assert np.abs(first - ours[: (n + 1) // 2]).max() < bench.TOLERANCE


@pytest.fixture
def quick(monkeypatch):
    """One call instead of a measured time; few particles and short runs."""
    for module in (bench, timing):
        monkeypatch.setattr(module, "seconds", lambda run, least=0.05: (run(), 2.0)[1])
    monkeypatch.setattr(bench, "MOST", 5)
    monkeypatch.setattr(bench, "settle", partial(settle, horizon=20.0))
    monkeypatch.setattr(bench, "start", lambda d=2, n=20: start(d, n=n))
    goals = {(d, 20, name): goal for (d, _, name), goal in bench.GOALS.items()}
    monkeypatch.setattr(bench, "GOALS", goals)


def test_tables(quick, capsys):
    tables.show("sphere/circle-1000", bench.steps([(2, 20, (1.0, 10.0))], 1))
    text = capsys.readouterr().out
    assert text.count("5,000, missed") == 2 and text.count("500, missed") == 2
    assert "time / mfbook" in text
    tables.show("sphere/higher", bench.steps([(3, 20, (5.0,))], 2))
    assert "8, missed" in capsys.readouterr().out
    tables.show("sphere/whole-runs", bench.whole_runs(1))
    text = capsys.readouterr().out
    assert text.count("ascent") == 3 and text.count("descent") == 3
    tables.show("sphere/minimisers", bench.minimisers(1))
    assert capsys.readouterr().out.count("2 relu") == 3


def test_a_part_of_the_rows_stands_for_all(quick):
    (one,) = bench.step(2, 20, (1.0,), 1)
    seconds = {program["name"]: program["seconds"] for program in one["programs"]}
    assert seconds == {"mfbook": [2.0], "usual": [2.0 * 20 / 5], "direct": [2.0]}


def test_a_wrong_peer_is_noticed(quick, monkeypatch):
    monkeypatch.setattr(bench, "direct", lambda x, beta: -bench.usual(x, beta))
    with pytest.raises(AssertionError, match="direct"):
        bench.step(2, 20, (1.0,), 1)


def test_time_of_a_call():
    calls = []
    assert timing.seconds(lambda: calls.append(1), 0.0) >= 0 and len(calls) == 1
    timing.seconds(lambda: calls.append(sum(range(1000))), 0.002)
    assert len(calls) > 3
