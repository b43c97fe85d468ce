"""Sweeps: order, cache, interruption; the hash of the code. On clusters: test_cluster.py."""

import importlib
import linecache
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mfbook.book.sweep import code_hash, grid, sweep
from tools.chapters import ROOT


def draw(seed, folder, scale=1.0):
    """A row that leaves a trace of having been computed, and stops in the middle of a sweep."""
    if (Path(folder) / f"stop-{seed}").exists():
        raise KeyboardInterrupt
    with open(Path(folder) / "calls", "a") as file:
        file.write(f"{seed}\n")
    return scale * np.random.default_rng(seed).normal(size=3)


def calls(folder):
    return (Path(folder) / "calls").read_text().split()


def test_finished_cells_are_not_computed_again(tmp_path, capfd):
    """Results come in the order of the cells; a folder is the same by name and as a path."""
    cache, cells = tmp_path / "cache", grid(seed=[3, 1, 2, 0], folder=[str(tmp_path)])
    sweep(draw, cells[:2], cache=str(cache), progress=False)
    assert "".join(capfd.readouterr()) == ""
    got = sweep(draw, cells, cache=cache)
    assert np.array_equal(got, [np.random.default_rng(s).normal(size=3) for s in (3, 1, 2, 0)])
    assert calls(tmp_path) == ["3", "1", "2", "0"]
    assert "draw: 4 cells, 2 of them known" in capfd.readouterr().err
    doubled = sweep(draw, [{**c, "scale": 2.0} for c in cells], cache=cache, progress=False)
    assert len(calls(tmp_path)) == 8 and np.array_equal(doubled, 2 * np.array(got))


def test_other_code_is_noticed_in_every_folder(tmp_path, monkeypatch, capfd, caplog):
    """joblib alone compares the code in the first folder that a process uses, and in no other."""
    monkeypatch.syspath_prepend(tmp_path)
    for change, expected in (("x + 1", 2.0), ("x + 1 + 1", 3.0)):
        (tmp_path / "changing.py").write_text(f"def f(x):\n    return {change}\n")
        importlib.invalidate_caches()
        sys.modules.pop("changing", None)
        linecache.checkcache()
        f = importlib.import_module("changing").f
        for folder in ("a", "b"):
            assert sweep(f, [{"x": 1.0}], cache=tmp_path / folder, progress=False) == [expected]
    assert "".join(capfd.readouterr()) == "" and not caplog.records


def test_an_interrupted_sweep_keeps_what_is_done_and_goes_on(tmp_path):
    cache, cells = tmp_path / "cache", grid(seed=range(5), folder=[str(tmp_path)])
    (tmp_path / "stop-3").touch()
    with pytest.raises(KeyboardInterrupt):
        sweep(draw, cells, cache=cache, progress=False)
    (tmp_path / "stop-3").unlink()
    got = sweep(draw, cells, cache=cache, progress=False)
    assert calls(tmp_path) == ["0", "1", "2", "3", "4"], "nothing is computed twice"
    assert np.array_equal(got, sweep(draw, cells, progress=False))


def fail(seed):
    raise ArithmeticError("no")


def test_an_error_names_its_cell_and_says_what_is_kept(tmp_path):
    for cache, notes in ((tmp_path, 2), (None, 1)):
        with pytest.raises(ArithmeticError, match="no") as caught:
            sweep(fail, [{"seed": 7}], cache=cache, progress=False)
        said = caught.value.__notes__
        assert len(said) == notes and "{'seed': 7}" in said[0]
        assert cache is None or str(tmp_path) in said[1]


HASHES = """
from pathlib import Path
import mfbook
from mfbook.book.sweep import code_hash
file = Path(mfbook.__file__).parent / "measure.py"
body = file.read_text()
body = body[body.index("from __future__"):]
for change in ("", "# a comment\\n", "x = 1\\n"):
    file.write_text('"Other words."\\n' + change + body)
    print(code_hash("measure"))
"""


def test_hash_ignores_words_and_sees_code(tmp_path):
    """In a copy of the package, whose source is changed."""
    shutil.copytree(ROOT / "mfbook", tmp_path / "mfbook")
    done = subprocess.run(
        [sys.executable, "-c", HASHES], cwd=tmp_path, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    words, comment, code = done.stdout.split()
    assert words == comment == code_hash("measure") != code
    assert code_hash("flow") != code_hash("measure")
