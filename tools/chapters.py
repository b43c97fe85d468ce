"""What the notebooks and statements.yml say, read in one place.

The statement index (``book/_ext``), the tool that runs the notebooks and the tests all read the
chapters through these functions.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
CHECK_MIME = "application/vnd.mfbook.check+json"


@dataclass(frozen=True)
class Statement:
    """One numbered statement: of the paper, or of this book."""

    id: str
    number: str
    title: str
    kind: str
    chapter: str


@dataclass(frozen=True)
class CheckCell:
    """One cell that checks a statement, with the check that is stored in its output."""

    statement: str
    chapter: str
    anchor: str
    cell_id: str
    check: dict | None


def statements(book: Path = BOOK) -> list[Statement]:
    """Every statement of statements.yml, in its order."""
    listed = yaml.safe_load((book / "statements.yml").read_text(encoding="utf-8"))
    return [
        Statement(chapter=chapter, **entry)
        for chapter, entries in listed.items()
        for entry in entries
    ]


def chapters(book: Path = BOOK) -> list[Path]:
    """The notebooks of the book, in the order of their names."""
    return sorted(book.glob("*.ipynb"))


def read(path: Path) -> dict:
    """A notebook as plain data."""
    return json.loads(path.read_text(encoding="utf-8"))


def text(lines: str | list[str]) -> str:
    """The text of a notebook field, which may be stored as a list of lines."""
    return lines if isinstance(lines, str) else "".join(lines)


def statement_of(metadata: dict) -> str | None:
    """The identifier of the statement that a cell with this metadata checks."""
    return metadata.get("mfbook", {}).get("statement")


def anchor(statement: str, occurrence: int) -> str:
    """The HTML id of the ``occurrence``-th (from 1) check cell of a statement in a chapter."""
    return f"check-{statement}" + (f"-{occurrence}" if occurrence > 1 else "")


def stored_checks(cell: dict) -> list[dict]:
    """The checks in the stored outputs of a cell."""
    return [
        output["data"][CHECK_MIME]
        for output in cell.get("outputs", [])
        if CHECK_MIME in output.get("data", {})
    ]


def check_cells(path: Path) -> list[CheckCell]:
    """The check cells of one chapter, in order."""
    cells, seen = [], {}
    for cell in read(path)["cells"]:
        name = statement_of(cell["metadata"])
        if name is None:
            continue
        seen[name] = seen.get(name, 0) + 1
        checks = stored_checks(cell)
        cells.append(
            CheckCell(
                statement=name,
                chapter=path.stem,
                anchor=anchor(name, seen[name]),
                cell_id=cell["id"],
                check=checks[0] if checks else None,
            )
        )
    return cells


def figure(path: Path, name: str) -> str:
    """The stored picture of a named figure of a chapter, PNG in base64."""
    for cell in read(path)["cells"]:
        if cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") == name:
            return text(cell["outputs"][0]["data"]["image/png"])
    raise ValueError(f"name: {path.name} has no figure {name!r}")


def source_hash(*sources: str) -> str:
    """A short hash of the sources of one cell, or of all cells of a chapter."""
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]
