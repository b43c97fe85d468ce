"""What this book adds to Sphinx: the statement index, anchors on check cells, and some repairs.

* ``{statement-index}`` lists every statement of ``statements.yml`` with its check cells,
  ``{statement-links}`` their numbers alone, ``{restored-formulas}`` what is to be compared with
  the printed paper.
* A cell with metadata ``mfbook.statement`` gets the HTML id ``check-<statement>`` and is a target
  for ``{ref}``.
* The repository's address is taken from pyproject.toml; without one, no button leads there.
* Repairs. The theme loads Thebe's settings twice, although Thebe is off, which is an error on
  every page. The vendored MathJax must be copied but not loaded file by file, which is what
  Jupyter Book does with a static folder it knows. sphinx-proof and sphinx-exercise give several
  elements of a page the same id, and the former names the kind of a statement whose title names
  it. Of dataclasses autodoc shows what is not there.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from itertools import groupby
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reading import address, duration, table  # noqa: E402

from tools import chapters as book  # noqa: E402

COLUMNS = (
    ("statement", 30),
    ("case", 30),
    ("measured and stated", 22),
    ("ratio", 8),
    ("verdict", 10),
)


def _number(statement: book.Statement) -> tuple[int, ...]:
    """By what the statements of a paper are sorted: 7.5 before 7.10; equations after them."""
    found = re.search(r"\d+(?:\.\d+)*", statement.number)
    return (not found or "." not in found[0], *map(int, found[0].split(".") if found else ()))


#: Whose statements those of a prefix are.
SOURCES = (("hy-", "The paper"), ("agr-", "The second paper, on the sphere"), ("mf-", "This book"))


class StatementLinks(SphinxDirective):
    """The numbers of all statements as links to their first check, a line for each chapter."""

    def run(self) -> list[nodes.Node]:
        source = Path(self.env.srcdir)
        self.env.note_dependency(str(source / "statements.yml"))
        result: list[nodes.Node] = []
        for prefix, title in SOURCES:
            listed = [s for s in book.statements(source) if s.id.startswith(prefix)]
            result.append(nodes.paragraph("", "", nodes.strong(text=title)))
            lines = nodes.bullet_list(classes=["mf-links"])
            for chapter, group in groupby(listed, key=lambda statement: statement.chapter):
                line = nodes.paragraph()
                line += nodes.reference(
                    "", self._name(chapter), refuri=f"{chapter}.html", internal=True
                )
                line += nodes.Text(": ")
                ours = prefix == "mf-"
                for i, statement in enumerate(group if ours else sorted(group, key=_number)):
                    link = nodes.reference(
                        "", statement.number, internal=True,
                        refuri=f"{chapter}.html#{book.anchor(statement.id, 1)}",
                    )  # fmt: skip
                    link["reftitle"] = statement.title
                    line += [nodes.Text(" · "), link] if i else [link]
                lines += nodes.list_item("", line)
            result.append(lines)
        return result

    @staticmethod
    def _name(chapter: str) -> str:
        """What a page is called: its number, or the letter of its appendix and its subject."""
        number, _, rest = chapter.partition("-")
        if number[0].isdigit():  # 04b is a page beside Chapter 4
            return f"Chapter {number.lstrip('0')}"
        subject = rest.removeprefix("sphere-") if rest.startswith("sphere-") else ""
        return f"Appendix {number.upper()}" + (f", {subject}" if subject else "")


class RestoredFormulas(SphinxDirective):
    """What to look for in print, for each statement with a formula that words do not fix."""

    def run(self) -> list[nodes.Node]:
        source = Path(self.env.srcdir)
        self.env.note_dependency(str(source / "statements.yml"))
        asked = [s for s in book.statements(source) if s.restored]
        result: list[nodes.Node] = []
        for prefix, title in SOURCES:
            rows = [
                [[self._link(s)], [nodes.Text(s.restored)]]
                for s in asked
                if s.id.startswith(prefix)
            ]
            if rows:
                result.append(nodes.paragraph("", "", nodes.strong(text=title)))
                columns = (("statement", 25), ("what to look for in print", 75))
                result.append(table(["mf-restored"], columns, rows))
        return result

    def _link(self, statement: book.Statement) -> nodes.Node:
        return pending_xref(
            "", nodes.inline(text=statement.number), refdomain="std", reftype="ref",
            reftarget=book.anchor(statement.id, 1).lower(), refexplicit=True,
            refdoc=self.env.docname, refwarn=True,
        )  # fmt: skip


class StatementIndex(SphinxDirective):
    """The table of statements of each chapter, read from the stored notebooks."""

    def run(self) -> list[nodes.Node]:
        source = Path(self.env.srcdir)
        timings_file = source / "timings.json"
        timings = json.loads(timings_file.read_text()) if timings_file.exists() else {}
        for path in (source / "statements.yml", timings_file):
            self.env.note_dependency(str(path))
        result: list[nodes.Node] = []
        listed = book.statements(source)
        for chapter, group in groupby(listed, key=lambda statement: statement.chapter):
            notebook = source / f"{chapter}.ipynb"
            cells = book.check_cells(notebook) if notebook.exists() else []
            self.env.note_dependency(str(notebook))
            times = timings.get(chapter, {})
            result.append(self._heading(chapter, notebook.exists(), times.get("seconds")))
            result.append(self._table(list(group), cells))
        return result

    def _heading(self, chapter: str, exists: bool, total: float | None) -> nodes.Node:
        heading = nodes.paragraph(classes=["mf-index-chapter"])
        if exists:
            link = pending_xref(
                "", nodes.inline(text=chapter), refdomain="std", reftype="doc",
                reftarget=f"/{chapter}", refexplicit=False, refdoc=self.env.docname, refwarn=True,
            )  # fmt: skip
            heading += link
        else:
            heading += nodes.Text(chapter)
        if total is not None:
            heading += nodes.Text(f" (the whole chapter runs in {duration(total)})")
        return heading

    def _table(self, listed: list, cells: list) -> nodes.Node:
        rows, marks = [], []
        for statement in listed:
            own = [cell for cell in cells if cell.statement == statement.id]
            if not own:
                title = nodes.inline(text=f"{statement.number}: {statement.title}")
                rows.append([[title], [nodes.Text("no check yet")], [], [], []])
            for cell in own:
                rows.append(self._check_row(statement, cell))
            paper = statement.id.startswith(("hy-", "agr-"))
            marks += ["mf-paper" if paper else "mf-beyond"] * max(len(own), 1)
        return table(["mf-index"], COLUMNS, rows, marks)

    def _check_row(self, statement, cell) -> list[list[nodes.Node]]:
        number = pending_xref(
            "", nodes.strong(text=statement.number), refdomain="std", reftype="ref",
            reftarget=cell.anchor.lower(), refexplicit=True, refdoc=self.env.docname, refwarn=True,
        )  # fmt: skip
        mark = " (formula restored)" if statement.restored else ""
        title = [number, nodes.Text(f": {statement.title}{mark}")]
        if cell.check is None:
            return [title, [nodes.Text("not run")], [], [], []]
        word = "holds" if cell.check["holds"] else "fails"
        verdict = nodes.inline(text=word, classes=[f"mf-{word}"])
        return [title, *([nodes.Text(words)] for words in book.own_row(cell.check)), [verdict]]


def forget_drafts(app: Sphinx, doctree: nodes.document) -> None:
    """Let all nodes of a page name it as their document.

    Those of an ``eval-rst`` block name the draft that they were read into, which knows Sphinx's
    whole environment, so that it would be stored with every such page: 24 MB instead of one.
    """
    for node in doctree.findall():
        node.document = doctree


def anchor_check_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Give the check cells their HTML ids and register them as reference targets."""
    labels = app.env.domains["std"]
    seen: dict[str, int] = {}
    for cell in doctree.findall(nodes.container):
        name = book.statement_of(cell.get("cell_metadata", {}) or {})
        if name is None:
            continue
        seen[name] = seen.get(name, 0) + 1
        anchor = book.anchor(name, seen[name])
        cell["ids"].append(anchor)
        # a reference looks for its target in small letters
        labels.anonlabels[anchor.lower()] = app.env.docname, anchor
        labels.labels[anchor.lower()] = app.env.docname, anchor, f"check of {name}"


def label_theorem_boxes(app: Sphinx, doctree: nodes.document) -> None:
    """Make the label of an unnumbered theorem box a target of ``[text](#label)`` and ``{ref}``.

    sphinx-proof makes only its numbered boxes referable, and the paper's numbers are in our titles.
    """
    domain = app.env.domains["std"]
    for box in doctree.findall(nodes.Element):
        if "realtype" in box and box["ids"]:
            label = box["ids"][0]
            domain.anonlabels[label] = app.env.docname, label
            domain.labels[label] = app.env.docname, label, box["title"]


def tidy_theorem_boxes(app: Sphinx, pagename: str, templatename: str, context: dict, doctree):
    """Keep a box's id on the box alone, and its kind out of a title that says it already."""
    if "body" in context:
        body = re.sub(r' id="(proof|exercise|solution)-content"', "", context["body"])
        body = re.sub(r'( id="([^"]+)">\s*<p class="admonition-title") id="\2"', r"\1", body)
        kind = r'<span class="caption-number">(\w+) </span>(?=\1 )'
        context["body"] = re.sub(kind, "", body)


def write_defaults_readably(app, what, name, obj, options, signature, returns):
    """Show a default that is a class by its name, not by its representation."""
    if signature is not None:
        return re.sub(r"<class '([\w.]+)'>", r"\1", signature), returns


def skip_fields_that_are_classes(app, what, name, obj, skip, options):
    """Leave out a dataclass field whose default is a class; autodoc takes it for a nested class."""
    return True if what == "class" and isinstance(obj, type) else None


def configure(app: Sphinx, config) -> None:
    """Put in the repository's address, if it has one, and the vendored files."""
    options = config.html_theme_options
    options["repository_url"] = address()
    if not address():
        options["use_repository_button"] = options["use_issues_button"] = False
        options["launch_buttons"] = {}
    config.html_static_path.append("_vendor")


def drop_thebe(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Leave Thebe's scripts out of the page."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in str(getattr(script, "filename", script) or "").lower()
        and "THEBE_JS_URL" not in getattr(script, "attributes", {}).get("body", "")
    ]


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    # A build makes millions of nodes and keeps most of them: looking for garbage as often as Python
    # does takes a fifth of its time. Not at all would be faster still, but takes 2.7 GB.
    gc.set_threshold(100_000, 50, 1000)
    app.add_directive("statement-index", StatementIndex)
    app.add_directive("statement-links", StatementLinks)
    app.add_directive("restored-formulas", RestoredFormulas)
    app.connect("config-inited", configure)
    app.connect("doctree-read", anchor_check_cells)
    app.connect("doctree-read", label_theorem_boxes)
    app.connect("doctree-read", forget_drafts, priority=900)
    app.connect("html-page-context", tidy_theorem_boxes)
    app.connect("autodoc-process-signature", write_defaults_readably)
    app.connect("autodoc-skip-member", skip_fields_that_are_classes)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
