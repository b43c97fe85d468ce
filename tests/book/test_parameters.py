"""Chapters run with other parameters, and no statement fails that is true.

A chapter begins with a cell of parameters (tag ``parameters``), which a reader may change. Its
metadata hold settings to try, ``"mfbook": {"settings": [{"heads": 8}, ...]}``.
"""

import ast
import os

import nbformat
import pytest
from nbclient import NotebookClient

from tools.chapters import BOOK, chapters, read, text

IDS = [path.stem for path in chapters()]


def parameters(path) -> tuple[dict, list[dict]]:
    """The values that a reader may change, and the settings to try."""
    cells = read(path)["cells"]
    cell = next(c for c in cells if "parameters" in c["metadata"].get("tags", []))
    lines = ast.parse(text(cell["source"])).body
    values = {line.targets[0].id: ast.literal_eval(line.value) for line in lines}
    return values, cell["metadata"]["mfbook"]["settings"]


def faults(path, setting) -> list[str]:
    """Cells that fail with other parameters."""
    notebook = nbformat.read(path, as_version=4)
    cell = next(c for c in notebook.cells if "parameters" in c["metadata"].get("tags", []))
    cell.source += "".join(f"\n{name} = {value!r}" for name, value in setting.items())
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    NotebookClient(
        notebook, timeout=1200, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": str(BOOK)}},
    ).execute()  # fmt: skip
    return [
        f"{c.id}: {output.ename}: {output.evalue}"
        for c in notebook.cells if c.cell_type == "code"
        for output in c.outputs if output.output_type == "error"
    ]  # fmt: skip


@pytest.mark.parametrize("path", chapters(), ids=IDS)
def test_a_chapter_has_parameters_and_settings_that_change_them(path):
    values, settings = parameters(path)
    assert len(values) >= 2 and len(settings) >= 3
    for setting in settings:
        assert setting and all(values[name] != value for name, value in setting.items())
    assert len({name for setting in settings for name in setting}) >= 2


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.parametrize("path", chapters(), ids=IDS)
def test_a_chapter_runs_with_other_parameters(path):
    for setting in parameters(path)[1]:
        assert not faults(path, setting), setting
