"""Write the edition of the book for JupyterLab, where links and folds work without Sphinx.

JupyterLab renders MyST one file at a time. Roles that lead to other files become links to files,
with words that say where they lead; citations get their authors and years; lists that Sphinx makes
are written out from the same sources. Hidden and folded cells are collapsed, figures get their
captions as text, and the cell that prepares Colab is left out. Boxes, exercises and formulas, which
jupyterlab-myst renders, stay, and so does the code of every cell.

    python tools/for_lab.py _build/lab      a copy of the book's pages and chapters (make lab)
    python tools/for_lab.py --in-place      the book of this folder (postBuild, in Binder's image)

A link with ``#cell-id=`` scrolls in a file that is open; JupyterLab opens another at its top.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools import chapters as book  # noqa: E402
from tools.citations import authors, bibliography, cited, reference  # noqa: E402

#: Cells that the page hides; of a solution its outputs too.
HIDDEN = {"hide-input", "hide-cell", "remove-cell", "remove-input"}
#: Directives that jupyterlab-myst renders in one file.
RENDERED = re.compile(
    r"prf:\w+|exercise|solution(?:-start|-end)?|admonition|figure|table|index|math|note"
)
#: A line that opens a directive, and one that opens or closes any block.
DIRECTIVE = re.compile(r"^(?P<indent>[ ]*)(?P<fence>`{3,}|:{3,})\{(?P<name>[\w:-]+)\}", re.M)
FENCE = re.compile(r"[ ]*(?P<fence>`{3,}|:{3,})(?P<info>[^`]*)$")
ROLE = re.compile(r"(?<!`)\{(?P<name>[a-z][\w:-]*)\}`(?P<words>[^`]+)`")
EXPLICIT = re.compile(r"(?P<words>.*?)\s*<(?P<target>[^<>]+)>", re.S)
LINK = re.compile(r"(?<!!)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])*)\]\(#(?P<target>[^\s()]+)\)")
#: What can be linked to: a label or name, a target above a heading, an equation, an HTML anchor.
LABEL = re.compile(r"^\s*:(?:label|name): (\S+)", re.M)
TARGET = re.compile(r"^\(([\w-]+)\)=", re.M)
EQUATION = re.compile(r"\$\$ \(([\w-]+)\)")
SPAN = re.compile(r'<span id="([^"]+)">')
#: Begins where a word begins, or each character of a picture would be tried.
FILE = re.compile(r"(?<![\w/-])[\w/-]+\.(?:png|csv|yml)\b")
HEADING = re.compile(r"^#{1,3} (.+)$", re.M)
#: Roles that name an object of the package.
OBJECTS = {"func", "class", "meth", "mod", "attr", "data", "obj"}


@dataclass(frozen=True)
class Place:
    """Where a label is: the file, the cell if it is a chapter, and the title of what it marks."""

    file: str
    cell: str | None
    title: str = ""


@dataclass(frozen=True)
class Edition:
    """What links need to know about the whole book.

    Attributes
    ----------
    places : dict of Place
        Where each label is; labels in small letters, as Sphinx compares them.
    files, titles : dict of str
        The file and the title of each page, by its name in ``{doc}``.
    numbers : dict of str
        The numbers of statements by their labels.
    references : dict of dict
        The entries of references.bib.
    lists : dict of callable
        What stands for each directive of this book, as a function of the page's file.
    """

    places: dict[str, Place]
    files: dict[str, str]
    titles: dict[str, str]
    numbers: dict[str, str]
    references: dict[str, dict[str, str]]
    lists: dict[str, Callable[[str], str]] = field(default_factory=dict)


# --- what is there -------------------------------------------------------------------------------


def pages(source: Path = book.BOOK) -> list[Path]:
    """The files of the book that a reader opens: chapters first."""
    return [*book.chapters(source), *sorted(source.glob("*.md")), *sorted(source.glob("api/*.md"))]


def slug(title: str) -> str:
    """The anchor of a heading.

    >>> slug("What $M$ heads lose, and why")
    'what-m-heads-lose-and-why'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def labels(text: str) -> tuple[dict[str, str], list[str]]:
    """The labels in a text with the titles of what they mark, and anchors of what was moved."""
    found = {}
    for match in TARGET.finditer(text):
        heading = HEADING.match(text, match.end() + 1)
        found[match[1]] = heading[1].strip() if heading else ""
    for match in LABEL.finditer(text):
        opened = list(DIRECTIVE.finditer(text, 0, match.start()))
        line = text[opened[-1].end() : text.index("\n", opened[-1].end())] if opened else ""
        found[match[1]] = line.strip()
    found.update(dict.fromkeys(EQUATION.findall(text), ""))
    headings = {slug(title): title.strip() for title in HEADING.findall(text)}
    return headings | found, SPAN.findall(text)


def collect(source: Path = book.BOOK) -> Edition:
    """Read the labels, titles and references of the whole book."""
    places: dict[str, Place] = {}
    moved: dict[str, Place] = {}
    files: dict[str, str] = {}
    titles: dict[str, str] = {}
    for path in pages(source):
        name = str(path.relative_to(source))
        page = name.removesuffix(path.suffix)
        files[page] = name
        if path.suffix == ".md":
            texts: list[tuple[str | None, str]] = [(None, path.read_text(encoding="utf-8"))]
        else:
            cells = book.read(path)["cells"]
            written = [cell for cell in cells if cell["cell_type"] == "markdown"]
            texts = [(cell["id"], book.text(cell["source"])) for cell in written]
            for check in book.check_cells(path):
                places[check.anchor] = Place(name, check.cell_id)
                moved.setdefault(check.statement, Place(name, check.cell_id))
            captioned = 0
            for figure in book.figures(path):
                captioned += figure.kind == "figure"
                title = f"Figure {captioned}" if figure.kind == "figure" else ""
                places[figure.name] = Place(name, figure.cell_id, title)
        for cell_id, text in texts:
            heading = re.search(r"^# (.+)$", text, re.M)
            if heading:
                titles.setdefault(page, heading[1].strip())
            marked, anchors = labels(text)
            for label, title in marked.items():
                places.setdefault(label, Place(name, cell_id, title))
            for anchor in anchors:
                moved.setdefault(anchor, Place(name, cell_id))
    statements = {statement.id: statement for statement in book.statements(source)}
    numbers = {name: statement.number.partition(",")[0] for name, statement in statements.items()}
    for check_of, number in list(numbers.items()):
        numbers[book.anchor(check_of, 1)] = number
    every = {label.lower(): place for label, place in (moved | places).items()}
    numbers = {label.lower(): number for label, number in numbers.items()}
    found = Edition(every, files, titles, numbers, bibliography(source))
    found.lists.update(lists(source, found))
    return found


# --- lists that Sphinx makes ---------------------------------------------------------------------


def lists(source: Path, edition: Edition) -> dict[str, Callable[[str], str]]:
    """What stands in JupyterLab for each directive of this book: a function of the page's file."""
    listed = book.statements(source)

    def line(statement: book.Statement, page: str, rest: str = "") -> str:
        link = address(edition.places[book.anchor(statement.id, 1).lower()], page)
        return f"- [{statement.number}]({link}): {rest or statement.title}"

    def statement_index(page: str) -> str:
        parts = []
        for chapter, group in groupby(listed, key=lambda statement: statement.chapter):
            parts += [f"**{part(f'{chapter}.ipynb')}**", "\n".join(line(s, page) for s in group)]
        return "\n\n".join(parts)

    def restored(page: str) -> str:
        return "\n".join(line(s, page, s.restored) for s in listed if s.restored)

    def figure_index(page: str) -> str:
        parts = []
        for path in book.in_reading_order(source):
            drawn = [
                f"- [{figure.name}]({address(Place(path.name, figure.cell_id), page)}): "
                f"{figure.caption}"
                for figure in book.figures(path)
            ]
            parts += [f"**{part(path.name)}**", "\n".join(drawn)] if drawn else []
        return "\n\n".join(parts)

    def source_figures(page: str) -> str:
        return "\n".join(line(statement, page) for statement in listed if statement.figures)

    def mistakes(page: str) -> str:
        file = "tests/oracles/wrong_mathematics.py"
        return f"The list is in the file `{file}` of the repository, and on the rendered page."

    def references(page: str) -> str:
        found = sorted(edition.references.values(), key=lambda e: (authors(e), e["year"]))
        return "\n".join(f"- {reference(entry)}" for entry in found)

    return {
        "statement-index": statement_index,
        "statement-links": statement_index,
        "restored-formulas": restored,
        "figure-index": figure_index,
        "source-figures": source_figures,
        "mistakes-by-hand": mistakes,
        "bibliography": references,
    }


# --- one text ------------------------------------------------------------------------------------


def part(file: str) -> str:
    """What the book calls a chapter.

    >>> part("04b-certificates.ipynb"), part("a-sphere-circle.ipynb"), part("b-primer.ipynb")
    ('Chapter 4b', 'Appendix A, circle', 'Appendix B')
    """
    number, _, rest = PurePosixPath(file).stem.partition("-")
    if number[0].isdigit():
        return f"Chapter {number.lstrip('0')}"
    subject = rest.removeprefix("sphere-") if rest.startswith("sphere-") else ""
    return f"Appendix {number.upper()}" + f", {subject}" * bool(subject)


def address(place: Place, page: str) -> str:
    """The address of a place for a link on a page."""
    up = "../" * (len(PurePosixPath(page).parts) - 1)
    return up + place.file + (f"#cell-id={place.cell}" if place.cell else "")


def linked(label: str, words: str, page: str, edition: Edition) -> str:
    """A link to a label, with words that say in which chapter it is, if that is another.

    Raises
    ------
    ValueError
        If the book has no such label.
    """
    if label.startswith("symbol-"):
        place = Place("notation.md", None)
    else:
        known = edition.places.get(label.lower())
        if known is None:
            raise ValueError(f"{page}: nothing has the label {label!r}")
        place = known
    if place.file == page and not place.cell:
        return f"[{words}](#{label})"
    if place.cell and place.file != page:
        where = part(place.file)
        number = edition.numbers.get(label.lower(), "")
        names = [number] if re.search(r"\d", number) and not re.search(r"\d", words) else []
        names += [] if where in words or words == where.split()[-1] else [where]
        words = ", ".join([words, *names])
    return f"[{words}]({address(place, page)})"


def role(name: str, words: str, page: str, edition: Edition) -> str:
    """What stands for a role in JupyterLab.

    Raises
    ------
    ValueError
        If the role is unknown, or leads nowhere.
    """
    explicit = EXPLICIT.fullmatch(words)
    shown, target = (explicit["words"], explicit["target"]) if explicit else ("", words)
    up = "../" * (len(PurePosixPath(page).parts) - 1)
    if name == "doc":
        key = target.lstrip("/")
        if key not in edition.titles:
            raise ValueError(f"{page}: there is no page {target!r}")
        return f"[{shown or edition.titles[key]}]({up}{edition.files[key]})"
    if name == "term":
        return f"[{shown or target}]({up}glossary.md)"
    if name in ("cite", "cite:t", "cite:p"):
        keys = [key.strip() for key in words.split(",")]
        if unknown := set(keys) - set(edition.references):
            raise ValueError(f"{page}: references.bib has no {sorted(unknown)}")
        return cited(name, [edition.references[key] for key in keys], f"{up}bibliography.md")
    if name in ("ref", "prf:ref", "numref"):
        known = edition.places.get(target.lower())
        title = edition.numbers.get(target.lower()) or (known.title if known else "")
        return linked(target, shown or title or "there", page, edition)
    if name == "eq":
        known = edition.places.get(target.lower())
        if known is not None and known.file == page:
            return f"{{eq}}`{words}`"
        return linked(target, "equation", page, edition)
    if name == "download":
        return f"[{shown or target}]({target})"
    if name == "index":
        return shown or target
    if name.removeprefix("py:") in OBJECTS:
        return f"`{shown or target.lstrip('~').rpartition('.' if target[0] == '~' else ' ')[2]}`"
    raise ValueError(f"{page}: unknown role {name!r}")


def glossary(inside: str) -> str:
    """The entries of a glossary as paragraphs, with their words in bold.

    >>> glossary("\\natom\\npoint mass\\n  A point\\n  with a weight.\\n")
    '**atom, point mass.** A point with a weight.'
    """
    entries, words = [], []
    for block in re.findall(r"(?m)^(\S.*)$|((?:^[ ]+.*$\n?|^$\n)+)", inside):
        if block[0]:
            words.append(block[0].strip())
        elif words and block[1].strip():
            entries.append(f"**{', '.join(words)}.** " + " ".join(block[1].split()))
            words = []
    return "\n\n".join(entries)


def made(text: str, page: str, edition: Edition) -> str:
    """The text with the lists that Sphinx makes written out.

    Raises
    ------
    ValueError
        If a directive is unknown.
    """
    at = 0
    while found := DIRECTIVE.search(text, at):
        name = found["name"]
        if RENDERED.fullmatch(name):
            at = found.end()
            continue
        closing = re.compile(rf"^{found['indent']}{found['fence']}[ ]*$\n?", re.M)
        end = closing.search(text, found.end())
        if end is None or name not in {"eval-rst", "glossary", *edition.lists}:
            raise ValueError(f"{page}: unknown directive {name!r}")
        inside = text[found.end() : end.start()]
        if name == "glossary":
            new = glossary(inside)
        elif name == "eval-rst":
            modules = re.findall(r"auto\w+:: ([\w.]+)", inside)
            calls = ", ".join(f"`help({module})`" for module in dict.fromkeys(modules))
            new = f"In a notebook, {calls} prints what the rendered page lists here."
        else:
            new = edition.lists[name](page)
        text = f"{text[: found.start()]}{new}\n{text[end.end() :]}"
        at = found.start() + len(new)
    return text


def blocks(text: str) -> list[tuple[bool, str]]:
    """A text in pieces: whether each is a block of code, and its lines.

    >>> blocks("a\\n```python\\nb\\n```\\n```{note}\\nc\\n```")
    [(False, 'a\\n'), (True, '```python\\nb\\n```\\n'), (False, '```{note}\\nc\\n```')]
    """
    open_blocks: list[tuple[str, bool]] = []
    lines = []
    for line in text.splitlines(keepends=True):
        inside = bool(open_blocks) and open_blocks[-1][1]
        found = FENCE.match(line.rstrip("\n"))
        if found and open_blocks and not found["info"].strip():
            if found["fence"].startswith(open_blocks[-1][0]):
                open_blocks.pop()
        elif found and not inside:
            inside = not found["info"].startswith("{")
            open_blocks.append((found["fence"], inside))
        lines.append((inside, line))
    return [
        (code, "".join(line for _, line in group))
        for code, group in groupby(lines, key=lambda entry: entry[0])
    ]


def translated(text: str, page: str, edition: Edition) -> str:
    """A text for JupyterLab, on the page of this file; blocks of code stay as they are."""

    def by_role(found: re.Match) -> str:
        return role(found["name"], found["words"], page, edition)

    def by_link(found: re.Match) -> str:
        return linked(found["target"], found["words"], page, edition)

    return "".join(
        piece if code else LINK.sub(by_link, ROLE.sub(by_role, piece))
        for code, piece in blocks(made(text, page, edition))
    )


# --- one chapter ---------------------------------------------------------------------------------


def prepares_colab(cell: dict) -> bool:
    """Whether a cell fetches the book on Colab and does nothing elsewhere."""
    hidden = "remove-cell" in cell["metadata"].get("tags", [])
    return cell["cell_type"] == "code" and hidden and "google.colab" in book.text(cell["source"])


def collapsed(metadata: dict) -> dict:
    """Metadata that collapse a cell in JupyterLab, if the page hides or folds its code.

    The parameters of a chapter, which a reader may change, are shown.
    """
    own, tags = metadata.get("mfbook", {}), set(metadata.get("tags", []))
    if own.get("open") or "parameters" in tags or not (tags & HIDDEN or own.get("does")):
        return metadata
    hide = {"source_hidden": True}
    if tags & {"hide-cell", "remove-cell"}:
        hide["outputs_hidden"] = True
    return {**metadata, "jupyter": {**metadata.get("jupyter", {}), **hide}}


def caption(cell: dict, number: int) -> dict:
    """A cell with the caption of the figure that a cell draws."""
    figure = cell["metadata"]["mystnb"]["figure"]
    text = f"**Figure {number}.** {figure['caption']}"
    return {"cell_type": "markdown", "id": f"caption-{number}", "metadata": {}, "source": text}


def chapter(notebook: dict, page: str, edition: Edition) -> dict:
    """A chapter for JupyterLab; the code of its cells, and their outputs, are the same."""
    cells, drawn = [], 0
    known = {cell["id"] for cell in notebook["cells"]}
    for cell in copy.deepcopy(notebook["cells"]):
        if prepares_colab(cell):
            continue
        if cell["cell_type"] == "markdown":
            source = translated(book.text(cell["source"]), page, edition)
            cells.append({**cell, "source": source.splitlines(keepends=True)})
            continue
        cells.append({**cell, "metadata": collapsed(cell["metadata"])})
        if "figure" in cell["metadata"].get("mystnb", {}):
            drawn += 1
            below = caption(cell, drawn)
            if below["id"] in known:
                continue  # this is the edition already
            source = translated(below["source"], page, edition)
            cells.append({**below, "source": source.splitlines(keepends=True)})
    return {**notebook, "cells": cells}


# --- the whole book ------------------------------------------------------------------------------


def write(target: Path, source: Path = book.BOOK) -> list[Path]:
    """Write the edition into a folder, which may be that of the book; the files that are written.

    Raises
    ------
    ValueError
        If a role or directive is unknown, or something leads nowhere; then nothing is written.
    """
    edition = collect(source)
    texts = {}
    for path in pages(source):
        name = str(path.relative_to(source))
        if path.suffix == ".md":
            texts[name] = translated(path.read_text(encoding="utf-8"), name, edition)
        else:
            made_of = chapter(book.read(path), name, edition)
            texts[name] = json.dumps(made_of, indent=1, ensure_ascii=False) + "\n"
    for name, text in texts.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")
    if target.resolve() != source.resolve():
        needed = {name for text in texts.values() for name in FILE.findall(text)}
        for name in sorted(needed):
            if (source / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, target / name)
    return [target / name for name in texts]


def main(arguments: list[str] | None = None) -> int:
    """Write the edition where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("folder", nargs="?", type=Path, help="where to write the edition")
    where.add_argument("--in-place", action="store_true", help="rewrite the book of this folder")
    given = parser.parse_args(arguments)
    target = book.BOOK if given.in_place else given.folder
    try:
        written = write(target)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(written)} files for JupyterLab in {target}")
    if not given.in_place:
        print(f"To open it: .venv/bin/jupyter lab {target}/01-introduction.ipynb")
    return 0


if __name__ == "__main__":
    sys.exit(main())
