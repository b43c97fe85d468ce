"""Sweeps: order, cache, interruption; the hash of the code. On clusters: test_cluster.py."""

import ast
import importlib
import linecache
import sys
from pathlib import Path

import numpy as np
import pytest

from mfbook.book import sweep as module
from mfbook.book.sweep import code_hash, grid, sweep


def draw(seed, folder, scale=1.0):
    """A row that leaves a trace of having been computed, and stops in the middle of a sweep."""
    if (Path(folder) / f"stop-{seed}").exists():
        raise KeyboardInterrupt
    with open(Path(folder) / "calls", "a") as file:
        file.write(f"{seed}\n")
    return scale * np.random.default_rng(seed).normal(size=3)


def calls(folder):
    file = Path(folder) / "calls"
    return file.read_text().split() if file.exists() else []


def test_grid_runs_through_the_last_axis_fastest():
    assert grid(a=[1, 2], b=["x", "y"]) == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip
    assert grid() == [{}]


def test_results_come_in_the_order_of_the_cells(tmp_path):
    cells = grid(seed=[3, 1, 2], folder=[str(tmp_path)])
    got = sweep(draw, cells, progress=False)
    expected = [np.random.default_rng(s).normal(size=3) for s in (3, 1, 2)]
    assert np.array_equal(got, expected)


def test_finished_cells_are_not_computed_again(tmp_path):
    cache, cells = tmp_path / "cache", grid(seed=range(4), folder=[str(tmp_path)])
    first = sweep(draw, cells[:2], cache=cache, progress=False)
    again = sweep(draw, cells, cache=cache, progress=False)
    assert sorted(calls(tmp_path)) == ["0", "1", "2", "3"]
    assert np.array_equal(first, again[:2])
    sweep(draw, [{**c, "scale": 2.0} for c in cells], cache=cache, progress=False)
    assert len(calls(tmp_path)) == 8


def test_a_folder_is_the_same_by_name_and_as_a_path(tmp_path):
    cells = grid(seed=range(3), folder=[str(tmp_path)])
    for cache in (str(tmp_path / "cache"), tmp_path / "cache"):
        sweep(draw, cells, cache=cache, progress=False)
    assert calls(tmp_path) == ["0", "1", "2"]


def test_other_code_is_noticed_in_every_folder(tmp_path, monkeypatch):
    """joblib alone compares the code in the first folder that a process uses, and in no other."""
    monkeypatch.syspath_prepend(tmp_path)
    cells = [{"x": 1.0}]
    for change, expected in (("x + 1", 2.0), ("x + 1 + 1", 3.0)):
        (tmp_path / "changing.py").write_text(f"def f(x):\n    return {change}\n")
        importlib.invalidate_caches()
        sys.modules.pop("changing", None)
        linecache.checkcache()
        f = importlib.import_module("changing").f
        for folder in ("a", "b"):
            assert sweep(f, cells, cache=tmp_path / folder, progress=False) == [expected]


def test_an_interrupted_sweep_keeps_what_is_done_and_goes_on(tmp_path):
    cache, cells = tmp_path / "cache", grid(seed=range(5), folder=[str(tmp_path)])
    (tmp_path / "stop-3").touch()
    with pytest.raises(KeyboardInterrupt):
        sweep(draw, cells, cache=cache, progress=False)
    assert calls(tmp_path) == ["0", "1", "2"]
    (tmp_path / "stop-3").unlink()
    got = sweep(draw, cells, cache=cache, progress=False)
    assert calls(tmp_path) == ["0", "1", "2", "3", "4"]
    assert np.array_equal(got, sweep(draw, cells, progress=False))


def test_progress_names_the_sweep_and_what_is_known(tmp_path, capfd):
    cells = grid(seed=range(3), folder=[str(tmp_path)])
    sweep(draw, cells[:2], cache=tmp_path / "cache", progress=False)
    capfd.readouterr()
    sweep(draw, cells, cache=tmp_path / "cache")
    assert "draw: 3 cells, 2 of them known" in capfd.readouterr().err


def fail(seed):
    raise ArithmeticError("no")


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


def test_an_error_names_its_cell_and_says_what_is_kept(tmp_path):
    with pytest.raises(ArithmeticError, match="no") as caught:
        sweep(fail, [{"seed": 7}], cache=tmp_path, progress=False)
    assert caught.value.__notes__ == [
        "in the cell {'seed': 7} of a sweep",
        f"what is finished is kept in {str(tmp_path)!r}: the same call goes on",
    ]
    with pytest.raises(ArithmeticError) as caught:
        sweep(fail, [{"seed": 7}], progress=False)
    assert len(caught.value.__notes__) == 1


@pytest.mark.parametrize(
    "arguments, options, error, name",
    [
        (("draw", [{"seed": 1}]), {}, TypeError, "function"),
        ((draw, []), {}, ValueError, "cells"),
        ((draw, [{}]), {}, ValueError, r"cells\[0\]"),
        ((draw, [{"seed": 1}, 3]), {}, TypeError, r"cells\[1\]"),
        ((draw, [{1: 2}]), {}, TypeError, r"cells\[0\]"),
        ((draw, [{"seed": 1}]), {"n_jobs": 0}, ValueError, "n_jobs"),
        ((draw, [{"seed": 1}]), {"n_jobs": 1.5}, TypeError, "n_jobs"),
        ((draw, [{"seed": 1}]), {"cache": 3}, TypeError, "cache"),
    ],
)
def test_bad_input_is_named(arguments, options, error, name):
    with pytest.raises(error, match=name):
        sweep(*arguments, **options)


def test_hash_ignores_words_and_sees_code(tmp_path, monkeypatch):
    source = '"""Words."""\n\n\ndef f(x):\n    """More words."""\n    return x + 1  # why\n'
    monkeypatch.setattr(module, "__file__", str(tmp_path / "book" / "sweep.py"))

    def after(text):
        (tmp_path / "part.py").write_text(text)
        return code_hash("part")

    assert ast.parse(source)
    same = after(source)
    assert same == after(source.replace("More words", "Other words").replace("# why", "# for"))
    assert same != after(source.replace("x + 1", "x + 2"))
    with pytest.raises(ValueError, match="modules"):
        code_hash("nothing")


def test_hash_covers_subpackages():
    assert code_hash("flow") != code_hash("measure")
    assert code_hash("flow", "measure") != code_hash("measure", "flow")


def test_nothing_is_said_to_be_known_without_a_cache(tmp_path, capfd):
    sweep(dict, [{"a": 1}, {"a": 2}])
    said = capfd.readouterr().err
    assert "dict: 2 cells" in said and "known" not in said
    sweep(draw, grid(seed=[1], folder=[str(tmp_path)]), cache=tmp_path / "c", progress=False)
    out, err = capfd.readouterr()
    assert out == err == ""


@pytest.mark.parametrize("n_jobs", [1, 2, -1, True, -2, 0])
def test_numbers_of_processes(n_jobs, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "run", lambda tasks, **o: asked.append(o["n_jobs"]) or tasks)
    if n_jobs in (-2, 0) or n_jobs is True:
        with pytest.raises((TypeError, ValueError), match="^n_jobs: expected"):
            sweep(dict, [{"a": 1}], n_jobs=n_jobs, progress=False)
    else:
        sweep(dict, [{"a": 1}], n_jobs=n_jobs, progress=False)
        assert asked == [n_jobs]
