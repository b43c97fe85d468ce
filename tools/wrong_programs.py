"""The wrong programs that the checks of the book have been seen to catch, for its readers.

A test of a chapter makes a mistake in the program of a page and sees a check fail, in a row that it
names (``tests/book/chapter_runner.py``). This script copies what these tests say to
``book/wrong_programs.json``, from which the pages name the wrong programs under each check:

    python tools/wrong_programs.py

Chapters 2 and 3 have tests of their own, and say in their text what their checks catch.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools.chapters import BOOK, ROOT, chapters, read  # noqa: E402

#: By chapter, check cell and name of the wrong program: words of the row that fails.
Caught = dict[str, dict[str, dict[str, str]]]
STORED = "wrong_programs.json"


def stored(book: Path = BOOK) -> Caught:
    """What the pages show."""
    return json.loads((book / STORED).read_text(encoding="utf-8"))


def collect(tests: Path = ROOT / "tests" / "book") -> Caught:
    """What the tests of the chapters say, in the order of the cells."""
    if str(tests) not in sys.path:
        sys.path.insert(0, str(tests))
    runner = importlib.import_module("chapter_runner")
    pages = {
        path.stem: [cell["id"] for cell in read(path)["cells"] if cell["cell_type"] == "code"]
        for path in chapters()
    }
    found: Caught = {}
    for file in sorted(tests.glob("test_chapter_*.py")):
        for test in vars(importlib.import_module(file.stem)).values():
            if not isinstance(test, type) or not issubclass(test, runner.Chapter) or not test.wrong:
                continue
            page, cells = next((p, ids) for p, ids in pages.items() if set(test.cells) <= set(ids))
            of = found.setdefault(page, {cell: {} for cell in cells if cell in test.cells})
            for name, run, words, *_ in test.wrong:
                check = run.split()[-1]
                if name in of[check]:
                    raise ValueError(f"{file.name}: {name!r} is there twice for {check}")
                of[check][name] = words
    return {
        page: {cell: wrong for cell, wrong in found[page].items() if wrong}
        for page in pages
        if page in found
    }


def row(words: str, rows: list[str]) -> str:
    """The row of a check that a wrong program fails, as a reader finds it in the table.

    >>> row("slope", ["least error", "slope in M"])
    'slope in M'
    >>> row("slope", ["slope in M", "slope in ε"])
    'one of 2 rows with “slope”'
    """
    same = [name for name in rows if words in name]
    if not same:
        raise ValueError(f"words: no row with {words!r}")
    return same[0] if len(same) == 1 else f"one of {len(same)} rows with “{words}”"


def main() -> None:
    """Write the file."""
    caught = collect()
    text = json.dumps(caught, ensure_ascii=False, indent=1)
    (BOOK / STORED).write_text(text + "\n", encoding="utf-8")
    counts = [len(wrong) for page in caught.values() for wrong in page.values()]
    print(f"{sum(counts)} wrong programs of {len(counts)} checks")


if __name__ == "__main__":
    main()
