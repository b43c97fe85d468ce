"""What a page shows at first: claims, figures and one line for each check; code on request.

* The code of a cell is folded under a line that says what it does: ``does`` in the cell's metadata
  ``mfbook``. A cell with ``open: true`` shows its code: it *is* the mathematics of the page.
* ``table`` in the same place folds the cell's outputs too, a figure among them, under the words
  that it holds. What one can touch stays open.
* The cell of a statement is open: code, table, and a line with the statement's own row and its
  verdict, which opens to the address and the wrong programs that the check refuses.
* The cells with ``setup: true`` are one fold.
* A cell to play with (``plots.try_it``) needs a kernel: its picture, which does not move here, is
  folded under a line that says what the cell does in JupyterLab.
* A switch at the top of a page opens all of them; the browser remembers it (``folding.js``).

Without a script every fold is still opened by hand, and what is folded is found by a search.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools import chapters as book  # noqa: E402

SWITCH = (
    '<div class="mf-switch" role="group" aria-label="What this page shows">'
    '<button type="button" aria-pressed="true">Read</button>'
    '<button type="button" aria-pressed="false">Code</button></div>'
)

#: How the paragraph below a check begins that names the mistakes which it notices.
MISTAKES = "This check fails"


class Fold(nodes.General, nodes.Element):
    """A part of the page under one line."""


def fold(kind: str, line: list[nodes.Node], *children: nodes.Node) -> Fold:
    """Put ``children`` under a line; ``kind`` is ``code``, ``check``, ``table`` or ``try``."""
    summary = nodes.inline(classes=["mf-line"])
    summary += line
    return Fold("", summary, *children, kind=kind)


def visit_fold(translator, node: Fold) -> None:
    summary, *_ = node.children
    translator.body.append(f'<details class="mf-fold mf-{node["kind"]}"><summary>')
    summary.walkabout(translator)
    translator.body.append("</summary>")
    del node[0]


def depart_fold(translator, node: Fold) -> None:
    translator.body.append("</details>")


def lines_of_code(count: int) -> str:
    """How much code is folded.

    >>> lines_of_code(1), lines_of_code(12)
    ('1 line of code', '12 lines of code')
    """
    return f"{count} line of code" if count == 1 else f"{count} lines of code"


def verdict(number: str, check: dict) -> list[nodes.Node]:
    """The line of a statement: its own row with the least room, and whether it holds."""
    word = nodes.strong(text="holds" if check["holds"] else "fails")
    word["classes"].append("mf-holds" if check["holds"] else "mf-fails")
    what, sides, ratio = book.own_row(check)
    ratio = f" ({ratio})" if ratio else ""
    return [nodes.Text(f"{number} · {what}: {sides}{ratio} · "), word]


def to_be_tried(does: str) -> str:
    """The line over the picture of a cell to play with.

    >>> to_be_tried("Trains a layer that you choose.")
    'Try it in JupyterLab: trains a layer that you choose.'
    """
    return f"Try it in JupyterLab: {does[:1].lower()}{does[1:]}".removesuffix(": ")


def _part(cell: nodes.Element, element: str) -> nodes.Element | None:
    return next((node for node in cell if node.get("nb_element") == element), None)


def _shows(output: nodes.Element | None, kind: str) -> bool:
    """Whether an output has an element of this class: mf-check, mf-explore, mf-try-it."""
    found = output.findall(nodes.raw) if output is not None else ()
    return any(f'class="{kind}' in raw.astext() for raw in found)


def fold_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Fold the code, the checks and the long tables of a chapter."""
    source, docname = Path(app.srcdir), app.env.docname
    notebook = source / f"{docname}.ipynb"
    if not notebook.exists():
        return
    content = book.read(notebook)
    stored = {cell["id"]: cell for cell in content["cells"]}
    order = list(stored)
    numbers = {statement.id: statement.number for statement in book.statements(source)}
    setup: list[nodes.Node] = []
    for cell in list(doctree.findall(nodes.container)):
        if "cell_index" not in cell or cell.get("nb_element") != "cell_code":
            continue
        name = order[cell["cell_index"]]
        own = cell.get("cell_metadata", {}).get("mfbook", {})
        if cell.get("hide_mode") == "all":
            continue  # the solution of an exercise is folded as a whole
        cell.attributes.pop("hide_mode", None)
        code, output = _part(cell, "cell_code_source"), _part(cell, "cell_code_output")
        if own.get("setup"):
            setup.append(cell)
            continue
        to_try = _shows(output, "mf-try-it")
        if code is not None and not own.get("open"):
            count = lines_of_code(len(book.text(stored[name]["source"]).splitlines()))
            does = own.get("does")
            line = [nodes.Text(f"{does} ")] if does and not to_try else []
            line.append(nodes.inline(text=count, classes=["mf-count"]))
            place = cell.index(code)
            cell.remove(code)
            code = fold("code", line, code)
            cell.insert(place, code)
        if output is None:
            continue
        if to_try:
            parts = [part for part in cell if part is not output]
            cell.children = []
            cell += fold("try", [nodes.Text(to_be_tried(own.get("does", "")))], output, *parts)
            continue
        checks = book.stored_checks(stored[name])
        if len(checks) == 1:
            number = numbers[checks[0]["statement"]]
            line = verdict(number, checks[0])
            if own.get("open"):
                rest = [part for part in cell if part not in (code, output)]
                cell.children = []
                cell += [code, output, fold("check", line, *_mistakes(cell), *rest)]
            else:
                _fold_check(cell, output, line, own.get("table"))
            continue
        if own.get("table"):
            place = cell.index(output)
            cell.remove(output)
            # a figure to touch stays open
            live = [part for part in output if _shows(part, "mf-explore")]
            for part in live:
                output.remove(part)
            cell.insert(place, fold("table", [nodes.Text(own["table"])], output))
            if live:
                shown = nodes.container(classes=["cell_output"], nb_element="cell_code_output")
                shown += live
                cell.insert(place + 1, shown)

    if setup:
        count = sum(len(book.text(stored[order[c["cell_index"]]]["source"]).splitlines())
                    for c in setup)  # fmt: skip
        codes = [part for cell in setup for part in cell if isinstance(part, nodes.Element)]
        line = [nodes.Text("Setup: imports, parameters, data "),
                nodes.inline(text=lines_of_code(count), classes=["mf-count"])]  # fmt: skip
        for cell in setup:
            cell.children = []
        setup[0]["classes"].append("mf-setup")
        setup[0] += fold("code", line, *codes)
    picture_first(doctree, setup[:1])


def picture_first(doctree: nodes.document, setup: list[nodes.Node]) -> None:
    """Put Setup, and tables that are folded before the first picture, below that picture."""
    cells = [c for c in doctree.findall(nodes.container) if "cell_index" in c]
    pictures = (cell for cell in cells if _has_picture(cell))
    if (first := next(pictures, None)) is None:
        return
    before = cells[: cells.index(first)]
    tables = [cell for cell in before if any(f["kind"] == "table" for f in cell.findall(Fold))]
    for cell in reversed(setup + [cell for cell in tables if cell not in setup]):
        cell.parent.remove(cell)
        first.parent.insert(first.parent.index(first) + 1, cell)


def _has_picture(cell: nodes.Element) -> bool:
    kinds = ("mf-explore", "mf-frames")
    return any(cell.findall(nodes.image)) or any(_shows(cell, kind) for kind in kinds)


def _mistakes(cell: nodes.Element) -> list[nodes.Node]:
    """The paragraph after a check's cell, taken from there, if it says when the check fails."""
    place = cell.parent.index(cell) + 1
    after = cell.parent[place] if place < len(cell.parent) else None
    if not isinstance(after, nodes.paragraph) or not after.astext().startswith(MISTAKES):
        return []
    cell.parent.remove(after)
    after["classes"].append("mf-mistakes")
    return [after]


def _fold_check(cell, output, line: list[nodes.Node], table: str | None) -> None:
    """One line for the check; what else the cell shows stays where it is, or is a ``table``."""
    tables = [part for part in output if _shows(part, "mf-check")]
    for part in tables:
        output.remove(part)
    rest = [part for part in cell if part is not output]
    shown = nodes.container(classes=["cell_output"], nb_element="cell_code_output")
    shown += tables
    cell.children = []
    if output.children:
        cell += fold("table", [nodes.Text(table)], output) if table else output
    cell += fold("check", line, shown, *_mistakes(cell), *rest)


def switch(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Put the switch under the title of a page that has something folded."""
    if 'class="mf-fold' in context.get("body", ""):
        context["body"] = re.sub(r"</h1>", lambda end: end[0] + SWITCH, context["body"], count=1)


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    app.add_node(Fold, html=(visit_fold, depart_fold))
    app.connect("doctree-read", fold_cells, priority=700)
    app.connect("html-page-context", switch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
