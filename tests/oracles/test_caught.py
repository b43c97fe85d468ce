"""Under each check the book names wrong programs that it catches; they are those of the tests."""

import pytest

from tools.chapters import BOOK, chapters, check_cells, read, text
from tools.wrong_programs import collect, row, stored

STORED = stored()
CHECKS = [
    pytest.param(path.stem, cell, id=f"{path.stem}:{cell.cell_id}")
    for path in chapters()
    for cell in check_cells(path)
]


def test_the_book_names_what_the_tests_try():
    assert collect() == STORED, "run tools/wrong_programs.py"


@pytest.mark.parametrize("chapter, cell", CHECKS)
def test_check_has_wrong_programs_whose_rows_it_shows(chapter, cell):
    wrong = STORED.get(chapter, {}).get(cell.cell_id, {})
    if not wrong:
        cells = read(BOOK / f"{chapter}.ipynb")["cells"]
        at = [c["id"] for c in cells].index(cell.cell_id)
        assert "This check fails" in text(cells[at + 1]["source"])
        return
    rows = [entry["what"] for entry in cell.check["rows"]]
    for name, words in wrong.items():
        assert row(words, rows)  # raises where no row has these words
        assert 3 < len(name) < 80 and not name.endswith(".")
