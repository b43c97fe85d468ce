"""What the notebooks and statements.yml say, read in one place.

The statement index (``book/_ext``), the tool that runs the notebooks and the tests all read the
chapters through these functions.
"""

from __future__ import annotations

import ast
import hashlib
import html
import json
import re
import symtable
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
sys.path.append(str(BOOK))  # Sphinx and stock pytest do not know it
from companion.report.digits import written  # noqa: E402

CHECK_MIME = "application/vnd.mfbook.check+json"
#: The data of a figure beside its picture; in stored notebooks they are files of book/figures.
DATA_MIME = "application/vnd.mfbook.data+csv"
#: Controls that live in a kernel: another on each run, and none without one.
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Statement:
    """One numbered statement: of the paper, or of this book."""

    id: str
    number: str
    title: str
    kind: str
    chapter: str
    #: The names of the figures that reproduce it, for a statement that is a figure of a paper.
    figures: tuple[str, ...] = ()
    #: What to look for in print, where our text of the paper lacks a formula that words do not fix.
    restored: str = ""


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
    listed = _parsed((book / "statements.yml").read_text(encoding="utf-8"))
    return [
        Statement(chapter=chapter, **entry)
        for chapter, entries in listed.items()
        for entry in entries
    ]


@cache
def _parsed(source: str) -> dict:
    """YAML as plain data; parsed once, since every page of the book asks for the statements."""
    return yaml.safe_load(source)


def chapters(book: Path = BOOK) -> list[Path]:
    """The notebooks of the book, in the order of their names."""
    return sorted(book.glob("*.ipynb"))


def in_reading_order(book: Path = BOOK) -> list[Path]:
    """The notebooks of the book, in the order of the table of contents."""
    toc = yaml.safe_load((book.parent / "_toc.yml").read_text(encoding="utf-8"))
    names = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [path for name in names if (path := book / f"{name}.ipynb").exists()]


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


#: How a relation is written.
SIGNS = {"<=": "≤", ">=": "≥", "=": "="}


def own_row(check: dict) -> tuple[str, str, str]:
    """The statement's row with the least room: what, measured against stated, ratio.

    >>> row = {"what": "M = 64", "measured": 0.0112, "relation": "<=", "reference": 3.235,
    ...        "ratio": 288.8, "control": False}
    >>> own_row({"rows": [row]})
    ('M = 64', '0.0112 ≤ 3.235', '×289')
    """
    own = [row for row in check["rows"] if not row.get("control")]
    failing = [row for row in own if not row.get("holds", True)]
    row = min(failing or own, key=lambda row: row.get("ratio") or float("inf"))
    measured, stated = (
        "not finite" if x is None else written(x) for x in (row["measured"], row["reference"])
    )
    if row["measured"] == 0 and row["relation"] == "<=" and 0 < row["reference"] < 1e-9:
        measured = "rounding"
    if row["relation"] == "=" and (row.get("tolerance") or 0) > 1e-6:
        stated += f" ± {written(row['tolerance'], 3)}"
    ratio = f"×{written(row['ratio'], 3)}" if row.get("ratio") else ""
    return row["what"], f"{measured} {SIGNS[row['relation']]} {stated}", ratio


@dataclass(frozen=True)
class WrongProgram:
    """A mistake in one cell of a chapter that a check cell refuses: a text replaced by another."""

    name: str
    cell_id: str
    replace: str
    by: str
    check: str
    #: Words of a row of the check that fails.
    row: str


def wrong_programs(notebook: dict) -> dict[str, list[WrongProgram]]:
    """The wrong programs of a notebook, ``wrong`` in the metadata of its cells, by check cell."""
    found: dict[str, list[WrongProgram]] = {}
    for cell in notebook["cells"]:
        for wrong in cell["metadata"].get("mfbook", {}).get("wrong", ()):
            found.setdefault(wrong["check"], []).append(WrongProgram(cell_id=cell["id"], **wrong))
    return found


def figure(path: Path, name: str) -> str:
    """The stored picture of a named figure of a chapter, PNG in base64."""
    for cell in read(path)["cells"]:
        if cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") == name:
            return text(cell["outputs"][0]["data"]["image/png"])
    raise ValueError(f"name: {path.name} has no figure {name!r}")


@dataclass(frozen=True)
class Figure:
    """One figure of a chapter: a picture, interactive frames, or one that computes in the page."""

    chapter: str
    cell_id: str
    name: str
    caption: str
    alt: str
    kind: str
    csv: Path | None


def figures(path: Path) -> list[Figure]:
    """The figures of one chapter in order, with the file of their data if it is there."""
    found = []
    for cell in read(path)["cells"]:
        outputs = cell.get("outputs", [])
        shown = "".join(text(o.get("data", {}).get("text/html", "")) for o in outputs)
        settings = cell["metadata"].get("mystnb", {})
        if "figure" in settings:
            kind, name = "figure", settings["figure"]["name"]
            caption, alt = settings["figure"]["caption"], settings["image"]["alt"]
        elif interactive := re.search('<figure class="mf-(frames|explore|try-it)', shown):
            kind, name = interactive[1], f"{interactive[1]}-{path.stem}-{cell['id']}"
            caption = html.unescape(re.search("<figcaption>(.*?)</figcaption>", shown, re.S)[1])
            alt = html.unescape(re.search(r'\balt="([^"]*)"', shown)[1])
        else:
            continue
        csv = path.parent / "figures" / f"{name}.csv"
        found.append(
            Figure(path.stem, cell["id"], name, caption, alt, kind, csv if csv.exists() else None)
        )
    return found


def figure_name(chapter: str, cell: dict) -> str:
    """The name of the figure that a cell draws, which is that of the file with its data."""
    settings = cell["metadata"].get("mystnb", {})
    if "figure" in settings:
        return settings["figure"]["name"]
    call = re.search(r"plots\.(frames|explorable|try_it)\(", text(cell["source"]))
    kind = {"explorable": "explore", "try_it": "try-it"}.get(call[1] if call else "", "frames")
    return f"{kind}-{chapter}-{cell['id']}"


def is_stored(name: str) -> bool:
    """Whether the data of a figure are stored: not those of one picture of many that a cell draws.

    >>> is_stored("fig-static-rates"), is_stored("try-it-04-static-try")
    (True, False)
    """
    return not name.startswith("try-it-")


#: Statements that surely assign their names.
ASSIGNING = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Names:
    """Names of a cell: assigned (perhaps, surely), and read from others (at all, in functions)."""

    assigned: set[str]
    surely: set[str]
    read: set[str]
    later: set[str]


class _Generators(ast.NodeTransformer):
    """Comprehensions as generators, which have a scope of their own in every version of Python."""

    def visit_ListComp(self, node):
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node):
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def names_of(source: str) -> Names:
    found = Names(set(), set(), set(), set())
    for statement in _Generators().visit(ast.parse(source)).body:
        top = symtable.symtable(ast.unparse(statement), "cell", "exec")
        symbols = top.get_symbols()
        assigned = {s.get_name() for s in symbols
                    if s.is_assigned() or s.is_imported() or s.is_namespace()}  # fmt: skip
        read = {s.get_name() for s in symbols if s.is_referenced()}
        inner = [(table, False) for table in top.get_children()]
        while inner:
            table, deferred = inner.pop()
            # generators run where they stand, functions when they are called
            deferred = deferred or table.get_name() != "genexpr"
            names = {s.get_name() for s in table.get_symbols() if s.is_global()}
            read |= names
            found.later.update(names if deferred else ())
            inner += [(child, deferred) for child in table.get_children()]
        if isinstance(statement, ast.For):  # its own names are assigned before they are read
            targets, over = (
                {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
                for part in (statement.target, statement.iter)
            )
            read -= targets - over
        found.read.update(read - found.surely)
        found.assigned.update(assigned)
        found.surely.update(assigned if isinstance(statement, ASSIGNING) else ())
    return found


def cells_for(notebook: dict, cell_id: str) -> list[int]:
    """Places of the code cells that draw a figure: it and what runs before it.

    Other figures and exercises are left out, unless a name that they assign may be read.

    Raises
    ------
    ValueError
        If there is no code cell of this id.
    """
    cells = notebook["cells"]
    places = [i for i, cell in enumerate(cells) if cell["cell_type"] == "code"]
    if cell_id not in (cells[i]["id"] for i in places):
        raise ValueError(f"cell_id: no code cell {cell_id!r}")
    names = {i: names_of(text(cells[i]["source"])) for i in places}
    aside = {i for i in places if "hide-input" in cells[i]["metadata"].get("tags", [])
             or cells[i]["id"].startswith("ex-")}  # fmt: skip
    last = next(i for i in places if cells[i]["id"] == cell_id)
    before = [i for i in places if i < last]
    needed, wanted = [last], names[last].read
    for i in reversed(before):
        # functions of earlier cells read their names when they are called
        called = set().union(*(names[k].later for k in before if k < i and k not in aside))
        if i not in aside or names[i].assigned & (wanted | called):
            needed = [i, *needed]
            wanted = (wanted - names[i].surely) | names[i].read
    return needed


def source_hash(*sources: str) -> str:
    """A short hash of the sources of one cell, or of all cells of a chapter."""
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]
