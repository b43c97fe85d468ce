"""The same numbers again: on other versions, with other threads, blocks, workers; with equal seeds.

Deviations are largest absolute differences within an entry over its largest absolute value, see
tools/reproduce.py. What may differ is the order of sums, so 1e-8 is far above rounding (largest
deviation seen: 1e-12) and far below any change of a formula. ``make matrix`` does the same in
environments with the oldest and the newest versions.
"""

import ast
import importlib
import json
import os
import re
import subprocess
import sys

import joblib
import nbformat
import numpy as np
import pytest

from tools import reproduce, run_notebooks
from tools.chapters import ROOT

#: Sizes of blocks in the package: module, name, what else they may be, and the numbers they touch.
#: Where a module imports the constant of another, it is replaced where it is used.
SIZES = [
    ("models.attention.kernel", "HEADS", (7, 1000), ("attention",)),
    ("models.attention.kernel", "SEQUENCES", (3, 1000), ("attention",)),
    ("models.attention.kernel", "KEEP", (0,), ("attention",)),
    ("models.attention.ensemble", "BLOCK", (50, 7), ("descent",)),
    ("models.attention.ensemble", "AHEAD", (3,), ("descent",)),
    ("models.network", "BLOCK", (1000,), ("network",)),
    ("bounds.approximation", "BLOCK", (5000,), ("attention",)),
    ("models.tokens.energy", "PAIRS", (3000,), ("token_flows",)),
    ("models.sphere.forces", "BLOCK", (32, 2048), ("sphere",)),
    ("models.sphere.forces", "CHUNKS", ((32, 32), (8192, 8192)), ("sphere",)),
    ("models.sphere.on_circle", "BLOCK", (100,), ("minimiser",)),
    ("models.sphere.on_sphere", "BLOCK", (100,), ("minimiser",)),
    ("landscape.extremal", "BLOCK", (3,), ("potentials",)),
    ("equilibria.clusters", "NEIGHBOURS", (1, 40), ("settling",)),
    ("transport.estimates", "BLOCK", (300,), ("distances",)),
    ("transport.lipschitz", "BLOCK", (100,), ("distances",)),
]
#: Names of such constants.
NAMES = re.compile(r"BLOCK|CHUNK|HEADS|SEQUENCES|KEEP|AHEAD|PAIRS|NEIGHBOURS|BATCH|ROWS")
#: Groups whose numbers come from seeds.
SEEDED = ("measures", "descent", "distances", "exercises", "minimiser", "sweeps")


@pytest.fixture(scope="module")
def here() -> dict:
    """Numbers of this environment, as the tests run: with one thread."""
    return reproduce.numbers()


def worst(found: dict, stored: dict) -> str:
    """The entry that deviates most, with its deviation; empty if all agree."""
    errors = reproduce.deviations(found, stored)
    name = max(errors, key=errors.get)
    return f"{name}: {errors[name]:.2g}" if errors[name] > reproduce.TOLERANCE else ""


def test_numbers_are_the_stored_ones(here):
    assert sum(map(len, here.values())) > 500
    assert worst(here, reproduce.load()) == ""


def test_a_deviation_is_found():
    stored = {"a": [3.0, 4.0], "b": [0.0], "c": [1.0]}
    same = {"a": [3.0, 4.0 + 2e-8], "b": [0.0], "c": [1.0]}
    assert worst(same, stored) == ""
    assert worst({**same, "a": [3.0 + 8e-8, 4.0]}, stored).startswith("a: 2e-08")
    assert worst({**same, "b": [2e-8]}, stored).startswith("b: 2e-08")
    assert worst({"a": [3.0, 4.0], "b": [0.0]}, stored) == "c: inf"
    assert worst({**same, "new": [1.0]}, stored) == "new: inf"
    assert worst({**same, "c": [np.nan]}, stored) == "c: inf"
    assert worst({**same, "c": [1.0, 1.0]}, stored) == "c: inf"


def test_the_stored_numbers_say_where_they_come_from():
    about = json.loads(reproduce.REFERENCE.read_text())
    assert about["command"] == reproduce.COMMAND
    assert set(about["versions"]) == {"python", *reproduce.PACKAGES}


@pytest.mark.parametrize(
    ("module", "name", "size", "groups"),
    [
        pytest.param(module, name, size, groups, id=f"{module}.{name}={size}")
        for module, name, sizes, groups in SIZES
        for size in sizes
    ],
)
def test_sizes_of_blocks_do_not_matter(monkeypatch, here, module, name, size, groups):
    monkeypatch.setattr(importlib.import_module(f"mfbook.{module}"), name, size)
    found = reproduce.numbers(groups)
    assert worst(found, {key: here[key] for key in found}) == ""


def test_every_size_of_blocks_is_varied():
    found = set()
    for path in (ROOT / "mfbook").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "mfbook").with_suffix("").parts)
        if module.startswith("book."):
            continue  # the width of a drawing, the plan of an experiment
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in ast.walk(ast.Tuple(targets)):
                if isinstance(target, ast.Name) and NAMES.search(target.id):
                    found.add((module, target.id))
    # what one module defines and two others use
    found -= {("transport.solvers", "BLOCK"), ("models.sphere.units", "BLOCK")}
    found |= {(f"transport.{module}", "BLOCK") for module in ("estimates", "lipschitz")}
    found |= {(f"models.sphere.{module}", "BLOCK") for module in ("on_circle", "on_sphere")}
    assert found == {(module, name) for module, name, *_ in SIZES}


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_shards_and_threads_of_workers_do_not_matter(here, n):
    F, mu = reproduce.shards(reproduce.risk(), n), reproduce.heads()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        g = reproduce.spread(F.gradient(mu.atoms, mu), 10)
        found = {"sweeps: risk in shards": [F(mu)], "sweeps: gradient in shards": g}
    assert worst(found, {key: here[key] for key in found}) == ""


def test_the_same_seeds_give_the_same_bytes(here):
    for name, again in reproduce.numbers(SEEDED).items():
        assert again.tobytes() == here[name].tobytes(), name


def test_check_of_notebooks_sees_a_change(tmp_path, monkeypatch, capsys):
    path = tmp_path / "01-x.ipynb"
    cell = nbformat.v4.new_code_cell("1 + 1", id="sum")
    monkeypatch.setattr(run_notebooks, "FIGURES", tmp_path / "figures")

    class Client:
        """Executes nothing: puts an output there."""

        seconds = {0: 0.1}

        def __init__(self, notebook):
            self.notebook = notebook

        def execute(self):
            data = {"text/plain": "2"}
            output = nbformat.v4.new_output("execute_result", data, execution_count=1)
            self.notebook.cells[0].update(outputs=[output], execution_count=1)

    monkeypatch.setattr(run_notebooks, "client_of", lambda notebook, folder: Client(notebook))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    path.write_text(nbformat.writes(notebook) + "\n")
    assert run_notebooks.check(path) == ["01-x.ipynb"]
    path.write_text(run_notebooks.execute(path).text)
    before = path.read_bytes()
    assert run_notebooks.check(path) == []
    path.write_text(path.read_text().replace('"2"', '"3"'))
    with pytest.raises(SystemExit, match="other bytes"):
        run_notebooks.main(["--check", str(path)])
    assert path.read_bytes() == before.replace(b'"2"', b'"3"'), "a check writes nothing"
    assert "differs in 01-x.ipynb" in capsys.readouterr().out


@pytest.mark.weekly
@pytest.mark.slow
def test_threads_of_linear_algebra_do_not_matter(tmp_path):
    """The stored numbers were made with one thread."""
    two = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run(
        [sys.executable, "tools/reproduce.py", "--output", tmp_path / "two"],
        cwd=ROOT, env={**os.environ, **two}, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert worst(reproduce.load(tmp_path / "two"), reproduce.load()) == ""


@pytest.mark.slow
def test_workers_of_a_sweep_do_not_matter(here):
    with joblib.parallel_config(n_jobs=2):
        found = reproduce.numbers(["sweeps"])
    assert worst(found, {key: here[key] for key in found}) == ""
