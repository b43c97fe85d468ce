"""Indexes, written as Markdown from ``statements.yml`` and the stored notebooks.

* ``{statement-index}`` lists every statement with its check cells, ``{statement-links}`` their
  numbers alone, ``{restored-formulas}`` what is to be compared with the printed paper.
* ``{figure-index}`` lists every figure, ``{source-figures}`` the figures of a paper.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from docutils import nodes
from reading import DATA, duration, timings
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tools import chapters as book

#: Whose statements those of a prefix are.
SOURCES = (("hy-", "The paper"), ("agr-", "The second paper, on the sphere"), ("mf-", "This book"))


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>$#|&])", r"\\\1", text)


def table(kind: str, widths: str, titles: list[str], rows: list[list[str]]) -> str:
    """A table of class ``kind``."""
    lines = ["* - " + "\n  - ".join(row) for row in [titles, *rows]]
    options = f":class: {kind}\n:header-rows: 1\n:widths: {widths}"
    return f"```{{list-table}}\n{options}\n\n" + "\n".join(lines) + "\n```\n"


def heading(chapter: str, rest: str = "") -> str:
    return f":::{{container}} mf-index-chapter\n{{doc}}`/{chapter}`{rest}\n:::\n"


def listed(source: Path, *prefixes: str) -> list[book.Statement]:
    return [s for s in book.statements(source) if s.id.startswith(prefixes)]


def statement_index(source: Path) -> list[str]:
    """The statements of each chapter with their checks, as stored in the notebooks."""
    titles = ["statement", "case", "measured and stated", "ratio", "verdict"]
    result = []
    for chapter, group in groupby(book.statements(source), key=lambda s: s.chapter):
        cells, rows = book.check_cells(source / f"{chapter}.ipynb"), []
        for statement in group:
            own = [cell for cell in cells if cell.statement == statement.id]
            rows += [check_row(statement, cell) for cell in own]
        total = duration(timings().get(chapter, {}).get("seconds"))
        result.append(heading(chapter, total and f" (the whole chapter runs in {plain(total)})"))
        result.append(table("mf-index", "30 30 22 8 10", titles, rows))
    return result


def check_row(statement: book.Statement, cell: book.CheckCell) -> list[str]:
    mark = " (formula restored)" if statement.restored else ""
    title = (
        f"**{{ref}}`{statement.number} <{cell.anchor.lower()}>`**: {plain(statement.title)}{mark}"
    )
    if cell.check is None:
        return [title, "not run", "", "", ""]
    word = "holds" if cell.check["holds"] else "fails"
    verdict = f'<span class="mf-{word}">{word}</span>'
    return [title, *map(plain, book.own_row(cell.check)), verdict]


def order(statement: book.Statement) -> tuple[int, ...]:
    """By what the statements of a paper are sorted: 7.5 before 7.10; equations after them."""
    found = re.search(r"\d+(?:\.\d+)*", statement.number)
    return (not found or "." not in found[0], *map(int, found[0].split(".") if found else ()))


def called(chapter: str) -> str:
    """What a page is called: its number, or the letter of its appendix.

    >>> called("04b-certificates"), called("a1-figures")
    ('Chapter 4b', 'Appendix A1')
    """
    number = chapter.partition("-")[0]
    return f"Chapter {number.lstrip('0')}" if number[0].isdigit() else f"Appendix {number.upper()}"


def statement_links(source: Path) -> list[str]:
    """The numbers of all statements as links to their first check, a line for each chapter."""
    result = []
    for prefix, title in SOURCES:
        result.append(f"**{title}**\n\n:::{{container}} mf-links")
        for chapter, group in groupby(listed(source, prefix), key=lambda s: s.chapter):
            own = sorted(group, key=order if prefix != "mf-" else bool)
            links = [f"{{ref}}`{s.number} <{book.anchor(s.id, 1).lower()}>`" for s in own]
            result.append(f"* {{doc}}`{called(chapter)} </{chapter}>`: " + " · ".join(links))
        result.append(":::\n")
    return result


def restored_formulas(source: Path) -> list[str]:
    """What to look for in print, for each statement with a formula that words do not fix."""
    result = []
    for prefix, title in SOURCES:
        rows = [[f"{{ref}}`{s.number} <{book.anchor(s.id, 1).lower()}>`", plain(s.restored)]
                for s in listed(source, prefix) if s.restored]  # fmt: skip
        if rows:
            titles = ["statement", "what to look for in print"]
            result += [f"**{title}**\n", table("mf-restored", "25 75", titles, rows)]
    return result


def first_sentence(text: str) -> str:
    """What a figure shows, from its caption: as far as a stop or semicolon outside brackets.

    >>> first_sentence("Risk against $M$. Bands: 95 %.")
    'Risk against $M$.'
    >>> first_sentence("Left: counts (13 values; 5 draws) against β; grey: a line.")
    'Counts (13 values; 5 draws) against β'
    """
    text = re.sub(r"^(?:Left|Above|Top): (\w)", lambda first: first[1].upper(), text)
    for stop in re.finditer(r"[.;](?=\s)", text):
        before = text[: stop.start()]
        if before.count("(") == before.count(")"):
            return before + stop[0].rstrip(";")
    return text


def figure_row(figure: book.Figure) -> list[str]:
    """What a figure shows, and its data."""
    kind = " (interactive)" * (figure.kind != "figure")
    link = f"<a href='{figure.chapter}.html#{figure.name}'>{first_sentence(figure.caption)}</a>"
    named = f"title='Data of {figure.name}'"
    data = figure.csv and f"<a href='{DATA}/{figure.csv.name}' {named}>CSV</a>"
    return [link + kind, data or ""]


def figure_index(source: Path) -> list[str]:
    """Every figure of the book."""
    result = []
    for notebook in book.in_reading_order(source):
        if rows := [figure_row(figure) for figure in book.figures(notebook)]:
            result.append(heading(notebook.stem))
            result.append(table("mf-figures", "88 12", ["figure", "data"], rows))
    return result


def source_figures(source: Path) -> list[str]:
    """The figures of a paper, and what reproduces each."""
    found = sorted((s for s in book.statements(source) if s.figures), key=order)
    figures = {f.name: f for path in book.chapters(source) for f in book.figures(path)}
    rows = []
    for s in found:
        what = f"**<a href='{s.chapter}.html#{s.id}'>{s.number}</a>**: {plain(s.title)}"
        rows += [[what * (not i), *figure_row(figures[f])] for i, f in enumerate(s.figures)]
    return [table("mf-figures", "28 60 12", ["its figure", "ours", "data"], rows)]


class Index(SphinxDirective):
    """The Markdown of one of the functions above."""

    def run(self) -> list[nodes.Node]:
        source = Path(self.env.srcdir)
        for path in (source / "statements.yml", *book.chapters(source)):
            self.env.note_dependency(str(path))
        write = globals()[self.name.replace("-", "_")]
        return self.parse_text_to_nodes("\n".join(write(source)))


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    statements = ("statement-index", "statement-links", "restored-formulas")
    for name in (*statements, "figure-index", "source-figures"):
        app.add_directive(name, Index)
    return {"parallel_read_safe": True}
