"""Tests on several workers: a file stays together, and long files come first."""

import pytest

from tools.chapters import ROOT

pytest_plugins = "pytester"

FILE = """
import os
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.{mark}


@pytest.mark.parametrize("i", range(4))
def test_leaves_a_trace(i):
    with open("{folder}/trace", "a") as file:
        file.write(f"{{Path(__file__).stem}} {{os.environ['PYTEST_XDIST_WORKER']}} {{i}}\\n")
    time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.by_turn
def test_files_stay_together_and_long_ones_come_first(pytester):
    pytester.makeconftest((ROOT / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers =\n    slow: long\n    usual: short")
    marks = {"test_a": "usual", "test_b": "usual", "test_c": "slow", "test_d": "slow"}
    for name, mark in marks.items():
        pytester.makepyfile(**{name: FILE.format(mark=mark, folder=pytester.path)})
    pytester.runpytest("-n", "2").assert_outcomes(passed=16)
    rows = [line.split() for line in (pytester.path / "trace").read_text().splitlines()]
    for name in marks:
        assert [i for file, _, i in rows if file == name] == ["0", "1", "2", "3"]
        assert len({worker for file, worker, _ in rows if file == name}) == 1
    first = {worker: file for file, worker, _ in reversed(rows)}
    assert sorted(first.values()) == ["test_c", "test_d"]
