"""The cell of a statement: open, short, and complete after the page's Setup.

Setup (the cells with ``setup`` in their metadata) and one statement's cell alone give the check
that is stored; where the bound leaves more than a factor of 2, the page says why.
"""

import contextlib
import io
import json

import pytest
from matplotlib import pyplot

from tools.chapters import BOOK, CHECK_MIME, chapters, check_cells, read, text
from tools.compare_outputs import difference

LINES, COLUMNS, ROOM = 12, 92, 2
PATHS = {path.stem: path for path in chapters()}


def cells_of(path) -> list[tuple[int, dict]]:
    """The statements' cells of a chapter with their places."""
    cells = read(path)["cells"]
    return [(i, c) for i, c in enumerate(cells) if c["metadata"].get("mfbook", {}).get("statement")]


@pytest.mark.parametrize("stem", PATHS)
def test_a_statement_has_one_open_cell_of_twelve_lines(stem):
    named = [cell.statement for cell in check_cells(PATHS[stem])]
    assert len(named) == len(set(named))
    for _, cell in cells_of(PATHS[stem]):
        lines = text(cell["source"]).splitlines()
        assert cell["metadata"]["mfbook"].get("open"), cell["id"]
        assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS, cell["id"]
        assert lines[-1].startswith("assert "), cell["id"]


@pytest.mark.parametrize("stem", PATHS)
def test_a_bound_with_room_says_why(stem):
    cells = read(PATHS[stem])["cells"]
    for place, cell in cells_of(PATHS[stem]):
        check = next(o["data"][CHECK_MIME] for o in cell["outputs"] if CHECK_MIME in o["data"])
        after = text(cells[place + 1]["source"]) if place + 1 < len(cells) else ""
        if (check["ratio"] or 1) > ROOM:
            assert "**Room.**" in after, f"{cell['id']}: room {check['ratio']}, and no word of it"


@pytest.mark.slow
@pytest.mark.parametrize("stem", PATHS)
def test_setup_and_the_cell_alone_give_what_is_stored(stem, monkeypatch):
    monkeypatch.chdir(BOOK)
    pyplot.switch_backend("agg")
    setup = {"__name__": "__main__"}
    for cell in read(PATHS[stem])["cells"]:
        if cell["metadata"].get("mfbook", {}).get("setup"):
            exec(text(cell["source"]), setup)
    for _, cell in cells_of(PATHS[stem]):
        names = dict(setup)  # laws and tasks are immutable
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text(cell["source"]), cell["id"], "exec"), names)
        stored = next(o for o in cell["outputs"] if CHECK_MIME in o["data"])
        fresh = json.loads(json.dumps(names["result"].as_dict()))
        only = [{"output_type": "display_data", "data": {CHECK_MIME: d}, "metadata": {}}
                for d in (stored["data"][CHECK_MIME], fresh)]  # fmt: skip
        assert not difference(only[:1], only[1:]), cell["id"]
