"""The rooms of the package: what may import what, and the names at the door."""

import ast
import graphlib
import subprocess
import sys

import pytest

import mfbook
from tools.chapters import BOOK, ROOT

#: From the ground up. A room imports itself, what stands below it, and nothing beside it.
FLOORS = [
    {"_validate", "_work"},
    {"measure", "space"},
    {"functional", "transport", "activations"},
    {"confinement", "optimise"},
    {"attention"},
    {"flow"},
    {"stability", "bounds"},
    {"sphere"},
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def imports(path):
    """Modules of the package that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("mfbook."))
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: imports are absolute"
            if node.module.split(".")[0] != "mfbook":
                continue
            folder = ROOT.joinpath(*node.module.split("."))
            for alias in node.names:
                file = (folder / alias.name).with_suffix(".py")
                inside = file.exists() or (folder / alias.name).is_dir()
                yield f"{node.module}.{alias.name}" if inside else node.module


FILES = [
    path for path in sorted((ROOT / "mfbook").rglob("*.py"))
    if path != ROOT / "mfbook" / "__init__.py"
]  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    """What each module imports of the others."""
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in FILES
    }
    return {name: set(imports(path)) - {name} for name, path in names.items()}


def test_a_room_imports_what_stands_below_it(graph):
    for name, others in graph.items():
        own = name.split(".")[1]
        for module in others:
            other = module.split(".")[1]
            assert other == own or LEVEL[other] < LEVEL[own], f"{name} imports {module}"


def test_no_two_files_import_each_other(graph):
    known = {name: others & graph.keys() for name, others in graph.items()}
    list(graphlib.TopologicalSorter(known).static_order())  # raises where there is a circle


def test_no_file_is_long():
    long = {p.name: n for p in FILES if (n := len(p.read_text().splitlines())) > 470}
    assert not long


def test_the_door_has_the_names_of_everyday_use():
    assert 20 <= len(mfbook.__all__) <= 30
    page = (BOOK / "api.md").read_text(encoding="utf-8")
    for name in mfbook.__all__:
        assert getattr(mfbook, name).__name__ == name
        assert f"`mf.{name}`" in page


@pytest.mark.parametrize("code, without", [
    ("import mfbook", {"matplotlib", "ot", "joblib", "tqdm"}),
    # POT imports every array library that it finds; only unequal weights need it
    ("from mfbook import Measure as M; import mfbook.transport as t; t.wasserstein("
     "M([[0.0, 0.0]]), M([[1.0, 0.0]]))", {"matplotlib", "ot", "torch", "jax", "tensorflow"}),
])  # fmt: skip
def test_what_is_not_needed_is_not_imported(code, without):
    code += "; import sys; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not without & set(done.stdout.split())


def test_the_door_imports_nothing_that_only_a_computation_needs():
    code = "import sys, mfbook; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        f"scipy.{part}"
        for part in ("integrate", "optimize", "sparse", "spatial", "special", "stats")
    }
    assert not heavy & set(done.stdout.split())
