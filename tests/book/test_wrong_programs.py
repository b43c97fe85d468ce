"""The wrong programs of the chapters are refused, each by its check and in the row that it names.

They stand in the metadata of the cells that they change (:class:`tools.chapters.WrongProgram`). For
a wrong program the cells that its check needs run, one of them with its mistake.
"""

import contextlib
import io
import warnings

import pytest
from matplotlib import pyplot

from tools.chapters import BOOK, cells_for, chapters, check_cells, read, text
from tools.chapters import wrong_programs as programs

PATHS = {path.stem: path for path in chapters()}
WRONG = [
    pytest.param(stem, wrong, id=f"{stem}: {check}: {wrong.name}")
    for stem, path in PATHS.items()
    for check, wrongs in programs(read(path)).items()
    for wrong in wrongs
]


def failed_rows(notebook, wrong):
    """The rows of the check that fail when one of the cells it needs has its mistake."""
    names, refused = {}, None
    for i in cells_for(notebook, wrong.check):
        cell = notebook["cells"][i]
        mistake = (wrong.replace, wrong.by) if cell["id"] == wrong.cell_id else ("", "")
        names["result"] = refused = None
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text(cell["source"]).replace(*mistake), cell["id"], "exec"), names)
        except AssertionError:
            refused = names["result"]
        except Exception:  # a cell on the way may not survive the mistake
            if cell["id"] in (wrong.cell_id, wrong.check):
                raise
    return [row.what for row in refused.rows if not row.holds] if refused else []


@pytest.fixture(autouse=True)
def place(monkeypatch):
    pyplot.switch_backend("agg")
    monkeypatch.chdir(BOOK)  # some cells read what lies beside them
    yield
    pyplot.close("all")


@pytest.mark.weekly
@pytest.mark.parametrize("stem, wrong", WRONG)
def test_wrong_program_is_refused(stem, wrong):
    with warnings.catch_warnings(action="ignore"):  # a mistake may overflow
        failed = failed_rows(read(PATHS[stem]), wrong)
    assert any(wrong.row in what for what in failed), f"“{wrong.row}” does not, {failed} fail"


@pytest.mark.parametrize("stem", PATHS)
def test_a_check_has_at_most_two_wrong_programs_and_they_fit_the_cells(stem):
    notebook, checks = read(PATHS[stem]), check_cells(PATHS[stem])
    sources = {cell["id"]: text(cell["source"]) for cell in notebook["cells"]}
    assert set(programs(notebook)) <= {cell.cell_id for cell in checks}
    for cell in checks:
        wrongs = programs(notebook).get(cell.cell_id, [])
        assert len({wrong.name for wrong in wrongs}) == len(wrongs) <= 2, cell.cell_id
        for wrong in wrongs:
            assert sources[wrong.cell_id].count(wrong.replace) == 1, wrong
            assert list(sources).index(wrong.cell_id) <= list(sources).index(wrong.check), wrong
            assert any(wrong.row in row["what"] for row in cell.check["rows"]), wrong
