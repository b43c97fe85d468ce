"""nbval with this book's comparison: nbval executes the cells, compare_outputs judges them."""

import sys
from functools import cache
from pathlib import Path

import pytest

from tools.chapters import BOOK, DATA_MIME, WIDGET_MIME, figure_name, is_stored, statement_of
from tools.compare_outputs import difference, table_difference

#: Tag of cells whose figure shows rounding errors, or trajectories that rounding changes, so that
#: its points lie elsewhere on another processor: of its data only the structure is compared.
ROUNDING = "rounding"


@cache
def corpus_difference() -> str | None:
    """Why outputs computed from the text corpus cannot be compared here, or ``None``."""
    sys.path.append(str(BOOK))  # without the project's settings pytest does not know it
    from companion.tasks import corpus_hash

    recorded, here = (BOOK / "corpus_hash.txt").read_text().strip(), corpus_hash()
    if recorded != here:
        return f"the text that ships with this Python ({here}) is not the recorded one ({recorded})"
    return None


def without_data(outputs: list[dict]) -> tuple[list[dict], list[str]]:
    """Outputs as notebooks store them, and the data of figures that came with them."""
    data = [o["data"][DATA_MIME] for o in outputs if DATA_MIME in o.get("data", {})]
    return [
        {**o, "data": {k: v for k, v in o["data"].items() if k not in (DATA_MIME, WIDGET_MIME)}}
        if "data" in o else o
        for o in outputs
    ], data  # fmt: skip


def data_difference(notebook: Path, cell, data: list[str]) -> str | None:
    """What differs between the data of a figure and those in book/figures, or ``None``."""
    name = figure_name(notebook.stem, cell)
    if not data or notebook.parent != BOOK or not is_stored(name):
        return None
    stored = BOOK / "figures" / f"{name}.csv"
    if not stored.exists():
        return f"{stored.relative_to(BOOK)} does not exist: run the chapter with `make run`"
    exact = ROUNDING not in cell.metadata.get("tags", [])
    found = table_difference(stored.read_text(encoding="utf-8"), data[0], numbers=exact)
    return found and f"{stored.name}: {found}"


def compared(notebook: Path, cell, stored: list, fresh: list, *, exact: bool = False) -> str | None:
    """What differs between the outputs of a cell or the data of its figure, or ``None``."""
    shown, data = without_data(fresh)
    return difference(stored, shown, exact=exact) or data_difference(notebook, cell, data)


def is_comparable(cell) -> bool:
    """Whether a cell can be compared here: it may depend on a text that is another here."""
    return "corpus" not in cell.metadata.get("tags", []) or corpus_difference() is None


def compare_outputs(self, test, ref, skip_compare=None) -> bool:
    """Compare fresh outputs with stored ones; takes the place of nbval's method of this name."""
    if not is_comparable(self.cell):
        pytest.skip(f"executed, not compared: {corpus_difference()}")
    found = compared(Path(self.path), self.cell, ref, test)
    statement = statement_of(self.cell.metadata)
    self.comparison_traceback = [f"{statement}: {found}" if statement else found] if found else []
    return found is None


def install() -> None:
    """Put the comparison in place."""
    from nbval.plugin import IPyNbCell

    IPyNbCell.compare_outputs = compare_outputs
