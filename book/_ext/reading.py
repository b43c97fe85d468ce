"""What helps reading: permanent anchors, error reports, origins of a page, links.

* A statement of a paper is reached by its number too (``05-dynamics.html#theorem-5-2``); one
  without a box by its identifier, at its check cell.
* Under each statement and each check stand its permanent address and a link to report an error,
  under each check also the wrong programs that it has been seen to catch.
* Numbers of statements and of chapters in running text are links.
* Under each figure stands a link to its data, the files of ``book/figures``.
* Each page says from which commit and versions it was built, and how long its cells took.
* Rows of the notation page have anchors; each chapter lists the symbols first used there.
* The search leads first to a statement whose number or title it is asked for, and to a symbol.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode

from docutils import nodes
from sphinx.addnodes import index, pending_xref
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools import chapters as book  # noqa: E402

#: Packages whose versions decide the numbers on a page.
NUMERICAL = ("numpy", "scipy", "pot", "matplotlib")
#: Where the data of the figures lie in the rendered book.
DATA = "data"
#: Statements of the papers have the paper's prefix before their number.
PREFIXES = ("hy-", "agr-")


# --- where a page comes from ---------------------------------------------------------------------


@cache
def commit() -> tuple[str, str]:
    """The commit that is built, with a plus if files differ from it, and its date."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", book.ROOT, *arguments], capture_output=True, text=True)
        return done.stdout.strip()

    name = git("describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+")
    return name or "unknown", git("log", "-1", "--format=%cs")


@cache
def address() -> str:
    """The public address of the repository, which pyproject.toml has; empty if there is none."""
    project = tomllib.loads((book.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "")


@cache
def timings() -> dict:
    """The seconds of chapters and checks, measured when the notebooks were run with ``--times``."""
    path = book.BOOK / "timings.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def report_address(what: str, page: str, anchor: str) -> str:
    """The address at which a reader reports an error, with the place filled in; empty if none."""
    if not address():
        return ""
    name, _ = commit()
    place = f"{page}.html#{anchor}" if anchor else f"{page}.html"
    body = f"Where: {place}\nBuilt from commit: {name}\n\nWhat is wrong, and what it should be:\n"
    return f"{address()}/issues/new?" + urlencode({"title": f"Error: {what}", "body": body})


def origin(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Write at the end of a page what it was built from."""
    if doctree is None or "body" not in context:
        return
    name, date = commit()
    built = html.escape(name)
    if name.rstrip("+") != "unknown":
        built = f"<code>{built}</code>"
        if address():
            link = f"{address()}/commit/{name.rstrip('+')}"
            built = f'<a class="external" href="{html.escape(link)}">{built}</a>'
        built += " with local changes" if name.endswith("+") else ""
        built += f" ({date})"
    lines = [
        f"Built from commit {built} with mfbook {version('mfbook')}, "
        f"Jupyter Book {version('jupyter-book')} and Sphinx {version('sphinx')}."
    ]
    entry = timings().get(pagename)
    if entry:
        # read, not asked of the environment: rendering needs no matplotlib
        constraints = (book.ROOT / "constraints.txt").read_text(encoding="utf-8")
        pinned = dict(re.findall(r"^([\w-]+)==(.+)$", constraints, re.M))
        used = ", ".join(f"{package} {pinned[package]}" for package in NUMERICAL)
        lines.append(
            f"Its cells took {duration(entry['seconds'])} in all, on one thread; they run with the "
            f"pinned versions: {used}."
        )
    report = html.escape(report_address(f"on {pagename}", pagename, ""))
    if report:
        lines.append(f'<a class="external" href="{report}">Report an error on this page</a>.')
    context["body"] += f'<div class="mf-origin"><p>{" ".join(lines)}</p></div>'


#: In words: a letter and its index, a power; and what is no text.
INDEX = re.compile(r"((?<![A-Za-z0-9_])[A-Za-z]|[^\W\d_a-zA-Z]|∂)_([A-Za-z0-9]+|[^\W\d_])")
POWER = re.compile(r"\^(?:\(([^()]*)\)|(\w))")
MARKUP = re.compile(r"(<code.*?</code>|<[^>]*>)", re.DOTALL)


def set_signs(text: str) -> str:
    """Indices and powers of a table or line as they are written.

    >>> set_signs("<td>λ_c, M^(-1/2); <code>W_Q</code>, dirac_stability</td>")
    '<td>λ<sub>c</sub>, M<sup>-1/2</sup>; <code>W_Q</code>, dirac_stability</td>'
    """
    pieces = MARKUP.split(text)
    for i in range(0, len(pieces), 2):
        lowered = INDEX.sub(r"\1<sub>\2</sub>", pieces[i])
        pieces[i] = POWER.sub(r"<sup>\1\2</sup>", lowered)
    return "".join(pieces)


def tidy_tables(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Left-align columns of words in printed tables; ``2.8e-11`` on one line; indices lowered."""
    if doctree is None or "body" not in context:
        return

    def tidy(table: re.Match) -> str:
        rows = [re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", r) for r in table[0].split("</tr>")[:-1]]
        columns = list(zip(*rows[1:], strict=True)) if len({len(r) for r in rows}) == 1 else []
        words = [all(re.match(r"[^\W\d]", cell) for cell in column) for column in columns]
        count = iter(range(len(rows) * len(words)))

        def align(cell: re.Match) -> str:
            return f'<{cell[1]} class="mf-words"' if words[next(count) % len(words)] else cell[0]

        text = re.sub(r"<(t[hd])\b", align, table[0]) if any(words) else table[0]
        return re.sub(r"(?<=>)(\d(?:\.\d+)?e-\d+)(?=<)", r'<span class="mf-number">\1</span>', text)

    context["body"] = re.sub(
        r'(?s)<table class="mf-(?:table|check)">.*?</table>', tidy, context["body"]
    )
    places = r'(?s)<table class="[^"]*\bmf-.*?</table>|<summary>.*?</summary>'
    context["body"] = re.sub(places, lambda found: set_signs(found[0]), context["body"])


def duration(value: float | None) -> str:
    """A duration for a reader.

    >>> duration(0.012), duration(2.34), duration(None)
    ('< 0.1 s', '2.3 s', '')
    """
    if value is None:
        return ""
    return "< 0.1 s" if value < 0.1 else f"{value:.2g} s"


# --- permanent addresses -------------------------------------------------------------------------


def addresses(identifier: str, number: str) -> list[str]:
    """The anchors of a statement besides its identifier: its numbers in the paper.

    >>> addresses("hy-theorem-5-2", "Theorem 5.2, (23)–(25)")
    ['theorem-5-2']
    >>> addresses("hy-remark-7-6", "Remarks 7.6 and 7.9"), addresses("mf-gauge", "Structure 2")
    (['remark-7-6', 'remark-7-9'], [])
    """
    if not identifier.startswith(PREFIXES):
        return []
    title = number.partition(",")[0]
    kind = title.split()[0].lower().removesuffix("s")
    numbers = re.findall(r"\d+(?:\.\d+)*", title)
    return [f"{kind}-{name.replace('.', '-')}" for name in numbers]


#: Words that readers search for and the book does not use, and the labels that they want.
WANTED = {"mode collapse": "q-clusters", "rank collapse": "q-clusters"}


def offer(doctree: nodes.document, words: str, anchor: str) -> None:
    """Let a search for these words lead to an anchor of this page first.

    The element with this anchor must have content, which the search quotes.
    """
    doctree += index(entries=[("single", words, anchor, "main", None)])


def offer_places(app: Sphinx, doctree: nodes.document) -> None:
    """Let searches find the statements of this page by number and title, and what is wanted."""
    boxes = {box["ids"][0] for box in doctree.findall(nodes.Element) if box.get("realtype")}
    for statement in book.statements(Path(app.srcdir)):
        if statement.chapter == app.env.docname:
            box = statement.id if statement.id in boxes else book.anchor(statement.id, 1)
            kind = statement.number.split()[0].removesuffix("s")
            places = addresses(statement.id, statement.number)
            numbers = [place.partition("-")[2].replace("-", ".") for place in places]
            named = [f"{kind} ({n})" if kind == "Equation" else f"{kind} {n}" for n in numbers]
            for words in [*(named or [statement.number]), statement.title.partition(";")[0]]:
                offer(doctree, words, box)
    for words, label in WANTED.items():
        if label in doctree.ids:
            offer(doctree, words, doctree.ids[label]["ids"][0])


def footnote(docname: str, anchor: str, what: str) -> nodes.paragraph:
    """The line under a statement: its address, and where to report an error, if there is one."""
    line = nodes.paragraph(classes=["mf-about"])
    here = nodes.reference("", "Permalink", refuri=f"#{anchor}", internal=True)
    here["classes"].append("mf-permalink")
    here["reftitle"] = f"Address of {what}"
    line += here
    if address():
        there = nodes.reference("", "Report an error", refuri=report_address(what, docname, anchor))
        there["reftitle"] = f"Report an error in {what}"
        line += [nodes.Text(" · "), there]
    return line


def row_with(words: str, rows: list[str]) -> str:
    """The row of a check that a wrong program fails, as a reader finds it in the table.

    >>> row_with("slope", ["least error", "slope in M"])
    'slope in M'
    >>> row_with("slope", ["slope in M", "slope in ε"])
    'one of 2 rows with “slope”'
    """
    same = [name for name in rows if words in name]
    return same[0] if len(same) == 1 else f"one of {len(same)} rows with “{words}”"


def caught(wrong: list[book.WrongProgram], rows: list[str]) -> nodes.raw:
    """The wrong programs that a check catches and the rows that fail, folded away."""
    many = f"{len(wrong)} wrong programs" if len(wrong) > 1 else "one wrong program"
    lines = "".join(
        f"<tr><td>{html.escape(w.name)}</td><td>{html.escape(row_with(w.row, rows))}</td></tr>"
        for w in wrong
    )
    return nodes.raw(
        "",
        f'<details class="mf-caught"><summary>Seen to fail for {many}</summary>'
        "<p>Each is the program of this page with one mistake; the tests of the book run them.</p>"
        '<table class="mf-wrong"><thead><tr><th scope="col">the mistake</th>'
        '<th scope="col">a row that fails</th></tr></thead>'
        f"<tbody>{lines}</tbody></table></details>",
        format="html",
    )


def mark_statements(app: Sphinx, doctree: nodes.document) -> None:
    """Give statements their permanent anchors and the line that names them."""
    docname = app.env.docname
    source = Path(app.srcdir)
    listed = {s.id: s for s in book.statements(source)}
    wrong, checks, notebook = {}, {}, source / f"{docname}.ipynb"
    if notebook.exists():
        wrong = book.wrong_programs(book.read(notebook))
        checks = {cell.anchor: cell for cell in book.check_cells(notebook)}
    taken = set(doctree.ids)

    def anchors(node: nodes.Element, *names: str) -> list[str]:
        fresh = [name for name in dict.fromkeys(names) if name not in taken]
        taken.update(fresh)
        if fresh:
            node.parent.insert(node.parent.index(node), nodes.target(ids=fresh))
        return fresh

    boxed = set()
    for box in list(doctree.findall(nodes.Element)):
        if "realtype" not in box or not box["ids"] or box["realtype"] == "proof":
            continue
        label = box["ids"][0]
        if label not in listed and re.fullmatch(r"\w+-\d+", label):
            continue  # a box without a label of its own
        boxed.add(label)
        what, fresh = box["title"], []
        if label in listed:
            what = f"{listed[label].number}, {listed[label].title}"
            fresh = anchors(box, *addresses(label, listed[label].number))
        box += footnote(docname, fresh[0] if fresh else label, what)
    for cell in list(doctree.findall(nodes.container)):
        name = book.statement_of(cell.get("cell_metadata", {}) or {})
        if name is None:
            continue
        statement = listed[name]
        if name not in boxed:
            boxed.add(name)
            anchors(cell, name, *addresses(name, statement.number))
        anchor = next(i for i in cell["ids"] if i.startswith("check-"))
        cell += footnote(docname, anchor, f"the check of {statement.number}, {statement.title}")
        if anchor in checks and checks[anchor].check and checks[anchor].cell_id in wrong:
            rows = [row["what"] for row in checks[anchor].check["rows"]]
            cell += caught(wrong[checks[anchor].cell_id], rows)


# --- numbers in the text -------------------------------------------------------------------------

#: A mention of statements of a paper: "Theorem 5.2", "Remarks 6.7 and 6.8", "Figures 3 to 5".
KINDS = "Lemma|Proposition|Theorem|Corollary|Remark|Assumption|Definition|Figure"
NUMBER = r"\d+(?:\.\d+)?"
MENTION = re.compile(rf"\b({KINDS})s?\s{NUMBER}(?:(?:,\s|,?\sand\s|\sto\s){NUMBER}\b)*")
#: A mention of a part of the book: "Chapter 5", "Appendix C".
PART = re.compile(r"\b(?:Chapters?\s(\d)|Appendix\s([A-D]))\b")
#: Pages that mention numbers of both papers, and link by hand.
BY_HAND = ("errata", "glossary", "bibliography", "statements", "figures", "notation")
#: Where a number in the text is no mention, or has a link already.
PLAIN = (nodes.title, nodes.reference, pending_xref, nodes.literal, nodes.literal_block, nodes.raw,
         nodes.target, nodes.math, nodes.math_block, nodes.figure)  # fmt: skip


@cache
def targets(source: Path) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Where a mention leads: (prefix, kind, number) to page and anchor."""
    boxed = {
        label
        for path in book.chapters(source)
        for cell in book.read(path)["cells"]
        for label in re.findall(r"^(?::label: |\()([\w-]+)\)?=?$", book.text(cell["source"]), re.M)
    }
    found = {}
    for statement in book.statements(source):
        prefix = statement.id.partition("-")[0]
        name = statement.id if statement.id in boxed else book.anchor(statement.id, 1)
        for place in addresses(statement.id, statement.number):
            kind, _, number = place.partition("-")
            found[prefix, kind, number.replace("-", ".")] = (statement.chapter, name)
    return found


def parts(source: Path) -> dict[str, str]:
    """The page of a chapter by its number or letter."""
    return {path.stem.lstrip("0")[0].upper(): path.stem for path in reversed(book.chapters(source))}


def link_mentions(app: Sphinx, doctree: nodes.document) -> None:
    """Make links of the numbers of statements and chapters in running text, once a paragraph."""
    page = app.env.docname
    if page in BY_HAND or page.startswith("api"):
        return
    source = Path(app.srcdir)
    order = ("agr", "hy") if re.match(r"a\d?-", page) else ("hy", "agr")
    for block in list(doctree.findall(nodes.paragraph)):
        around, own = block.parent, set()
        while around is not None:
            own.update(around.get("ids", ()) if "realtype" in around else ())
            around = around.parent
        seen = set(own)
        for piece in list(block.findall(nodes.Text)):
            above = piece.parent
            while above is not block and not isinstance(above, PLAIN):
                above = above.parent
            if above is block:
                new = list(_linked(piece.astext(), page, order, source, seen))
                if len(new) > 1:
                    piece.parent.replace(piece, new)


def _linked(text: str, page: str, order: tuple, source: Path, seen: set) -> Iterator[nodes.Node]:
    """The text with links for what it mentions."""
    places = []
    for mention in MENTION.finditer(text):
        if mention[1] == "Figure" and order[0] != "agr":
            continue
        for number in re.finditer(rf"(?:{KINDS})?s?\s?({NUMBER})\b", mention[0]):
            keys = [(prefix, mention[1].lower(), number[1]) for prefix in order]
            found = [targets(source)[key] for key in keys if key in targets(source)]
            if found:
                space = len(number[0]) - len(number[0].lstrip())
                start, end = number.start() + space, number.end()
                places.append((mention.start() + start, mention.start() + end, found[0]))
    for mention in PART.finditer(text):
        name = parts(source).get(mention[1] or mention[2])
        if name:
            places.append((mention.start(), mention.end(), (name, "")))
    at = 0
    for start, end, (name, anchor) in sorted(places):
        key = anchor or name
        if start < at or key in seen or (name == page and not anchor):
            continue
        seen.add(key)
        yield nodes.Text(text[at:start])
        where = ("" if name == page else f"{name}.html") + (f"#{anchor}" if anchor else "")
        yield nodes.reference("", text[start:end], refuri=where, internal=True)
        at = end
    yield nodes.Text(text[at:])


# --- symbols -------------------------------------------------------------------------------------


def symbol_id(symbol: str) -> str:
    r"""The anchor of a row of the notation page.

    >>> symbol_id(r"$\theta$"), symbol_id("$W_Q, W_K$"), symbol_id("SOPD")
    ('symbol-theta', 'symbol-w-q-w-k', 'symbol-sopd')
    """
    words = re.findall(r"[A-Za-z]+|\d+", symbol.replace(r"\mathcal", "cal").replace(r"\mathbb", ""))
    return "symbol-" + "-".join(words).lower()


def typed(symbol: str) -> str:
    r"""A symbol as one types it into a search, or nothing if letters do not say it.

    >>> typed(r"$\lambda_c = \sigma_1(\bar G)$"), typed(r"$W_Q, W_K$"), typed(r"$\int f\,d\mu$")
    ('λ_c', 'W_Q', '')
    """
    first = re.split(r"\s*[=,]", symbol.strip("$"))[0]
    plain = html.unescape(re.sub(r"\\(?:var)?([A-Za-z]+) ?", r"&\1;", first))
    return plain if re.fullmatch(r"[^\W\d_]+(?:_\w+)?", plain) else ""


def symbols(source: Path) -> list[tuple[str, str, str]]:
    """The rows of the notation page: symbol, anchor, chapter of first use."""
    rows: list[tuple[str, str, str]] = []
    for line in (source / "notation.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 5 or cells[0] == "symbol" or set(cells[0]) <= set("-:"):
            continue
        name = symbol_id(cells[0])
        before = sum(anchor == name or anchor.startswith(f"{name}--") for _, anchor, _ in rows)
        chapter = re.search(r"\w+", cells[4].upper())
        rows.append(
            (cells[0], name + f"--{before + 1}" * bool(before), chapter[0] if chapter else "")
        )
    return rows


def anchor_symbols(app: Sphinx, doctree: nodes.document) -> None:
    """Give the rows of the notation page their anchors, and make them targets of links."""
    if app.env.docname != "notation":
        return
    anchors = [anchor for _, anchor, _ in symbols(Path(app.srcdir))]
    rows = [
        row
        for table in doctree.findall(nodes.table)
        if len(list(table.findall(nodes.colspec))) == 5
        for body in table.findall(nodes.tbody)
        for row in body.findall(nodes.row)
    ]
    labels = app.env.domains["std"]
    for row, anchor in zip(rows, anchors, strict=True):
        row["ids"].append(anchor)
        labels.anonlabels[anchor] = "notation", anchor
        labels.labels[anchor] = "notation", anchor, row[0].astext()
    for symbol, anchor, _ in symbols(Path(app.srcdir)):
        name = typed(symbol)
        if "_" in name or not name.isascii():  # a letter alone is too little to search for
            offer(doctree, name, anchor)


def list_symbols(app: Sphinx, doctree: nodes.document) -> None:
    """List on a chapter the symbols that are first used there, with links to their rows."""
    head = re.match(r"0?(\w+?)-", app.env.docname)
    if head is None or not doctree.children or not isinstance(doctree[0], nodes.section):
        return
    chapter = "A" if app.env.docname == "a2-statements" else head[1].upper()
    own = [row for row in symbols(Path(app.srcdir)) if row[2] == chapter]
    if not own:
        return
    line = nodes.paragraph(classes=["mf-symbols"])
    place = "Symbols of this appendix" if chapter == "A" else "Symbols first used here"
    line += nodes.Text(f"{place}; each leads to its name in Python: ")
    for i, (symbol, anchor, _) in enumerate(own):
        link = nodes.reference("", "", refuri=f"notation.html#{anchor}", internal=True)
        parts = enumerate(symbol.split("$"))
        link += [nodes.math("", part) if i % 2 else nodes.Text(part) for i, part in parts if part]
        line += [nodes.Text(", "), link] if i else [link]
    line += nodes.Text(".")
    top = doctree[0]
    first = next((i for i, n in enumerate(top) if isinstance(n, nodes.section)), len(top))
    cell = next((i for i, n in enumerate(top) if "cell" in n.get("classes", [])), first)
    top.insert(min(first, cell), line)


# --- figures -------------------------------------------------------------------------------------


def link_data(app: Sphinx, doctree: nodes.document) -> None:
    """Put an anchor at each interactive figure, and under each figure a link to its data."""
    notebook = Path(app.srcdir) / f"{app.env.docname}.ipynb"
    if not notebook.exists():
        return
    listed = {figure.name: figure for figure in book.figures(notebook)}
    by_cell = {figure.cell_id: figure for figure in listed.values()}
    order = [cell["id"] for cell in book.read(notebook)["cells"]]
    for cell in list(doctree.findall(nodes.container)):
        if "cell_index" not in cell:
            continue
        figure = by_cell.get(order[cell["cell_index"]])
        if figure is None:
            continue
        if figure.kind != "figure":
            cell["ids"].append(figure.name)
        if figure.csv is not None:
            link = nodes.reference("", "Data (CSV)", refuri=f"{DATA}/{figure.csv.name}")
            link["reftitle"] = f"The data of figure {figure.name}"
            cell += nodes.paragraph("", "", link, classes=["mf-about"])


def copy_data(app: Sphinx, exception) -> None:
    """Copy the data of the figures into the rendered book."""
    folder = Path(app.srcdir) / "figures"
    if exception is None and app.builder.format == "html" and folder.is_dir():
        shutil.copytree(folder, Path(app.outdir) / DATA, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    app.connect("doctree-read", mark_statements, priority=600)
    app.connect("doctree-read", anchor_symbols)
    app.connect("doctree-read", offer_places, priority=650)
    app.connect("doctree-read", list_symbols)
    app.connect("doctree-read", link_data)
    app.connect("doctree-read", link_mentions)
    app.connect("html-page-context", origin, priority=800)
    app.connect("html-page-context", tidy_tables)
    app.connect("build-finished", copy_data)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
