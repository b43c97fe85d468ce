"""Write the edition of the book for JupyterLab, where links and folds work without Sphinx.

JupyterLab renders MyST one file at a time. So links to other files and citations become plain
links, lists that Sphinx makes are written out, hidden and folded cells are collapsed, and figures
get their captions as text. What jupyterlab-myst renders stays, and so does the code.

    python tools/for_lab.py _build/lab      a copy of the book (make lab)
    python tools/for_lab.py --in-place      the book of this folder (postBuild, in Binder's image)

A link with ``#cell-id=`` scrolls in a file that is open; JupyterLab opens another at its top.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools import chapters as book  # noqa: E402

#: Cells whose code the page hides; of the last two kinds the outputs, too.
HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
#: Directives that are written out here; others are rendered by jupyterlab-myst.
WRITTEN = (
    "statement-index|statement-links|restored-formulas|figure-index|source-figures|bibliography|"
    "glossary|eval-rst|explorable"
)
LIST = re.compile(rf"^(`{{3,}})\{{({WRITTEN})\}}.*\n((?:.*\n)*?)\1[ ]*$", re.M)
ROLE = re.compile(r"(?<!`)\{([a-z][\w:-]*)\}`([^`]+)`")
EXPLICIT = re.compile(r"(.*?)\s*<([^<>]+)>", re.S)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(#([^\s()]+)\)")
FIELD = re.compile(r"^\s+(\w+) = \{(.*)\},?$", re.M)
#: What is said before a figure that computes in the rendered page only.
STILL = (
    "*Here, in JupyterLab, the next figure is a still picture. It can be played and dragged on "
    "the rendered page of this chapter, which `make book` writes.*"
)
#: What JupyterLab would write into a notebook that it opens, and so mark it as changed.
PYTHON = {
    "codemirror_mode": {"name": "ipython", "version": 3}, "file_extension": ".py",
    "mimetype": "text/x-python", "name": "python", "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3", "version": platform.python_version(),
}  # fmt: skip
#: What can be linked to, with its title: a target, a directive with a label, an equation.
LABELS = (
    r"^\((?P<label>[\w-]+)\)=(?:\n+#+ (?P<title>.+))?",
    r"^ *[`:]{3,}\{[\w:-]+\} *(?P<title>.*)\n(?: *:\w+:.*\n)*? *:(?:label|name): (?P<label>\S+)",
    r"\$\$ \((?P<label>[\w-]+)\)(?P<title>)",
    r"^#{1,3} (?P<title>(?P<label>.+))$",
)


@dataclass(frozen=True)
class Place:
    """Where a label is: the file, the cell if it is a chapter, and what it is called."""

    file: str
    cell: str | None
    title: str = ""


def pages(source: Path = book.BOOK) -> list[Path]:
    """The files of the book that a reader opens: chapters first."""
    return [*book.chapters(source), *sorted(source.glob("*.md")), *sorted(source.glob("api/*.md"))]


def authors(entry: dict[str, str]) -> str:
    """Family names of the authors: of one or two all, else the first."""
    names = [name.partition(",")[0].strip() for name in entry["author"].split(" and ")]
    return " and ".join(names) if len(names) <= 2 else f"{names[0]} et al."


class Edition:
    """What links need to know about the whole book, and how its pages are translated."""

    def __init__(self, source: Path = book.BOOK):
        bib = (source / "references.bib").read_text(encoding="utf-8")
        bib = re.sub(r"(?<= = \{).*(?=\})", lambda field: re.sub("[{}]", "", field[0]), bib)
        entries = re.split(r"^@\w+\{", bib, flags=re.M)[1:]
        self.references = {e.partition(",")[0]: dict(FIELD.findall(e)) for e in entries}
        self.source = source
        self.numbers = {s.id: s.number.partition(",")[0] for s in book.statements(source)}
        self.files: dict[str, Place] = {}
        self.places: dict[str, Place] = {}
        for path in pages(source):
            self._collect(path, path.relative_to(source).as_posix())

    def _collect(self, path: Path, file: str) -> None:
        """Note where the labels of a page are; in small letters, as Sphinx compares them."""
        if path.suffix == ".md":
            texts = [(None, path.read_text(encoding="utf-8"))]
        else:
            texts = [(cell["id"], book.text(cell["source"])) for cell in book.read(path)["cells"]
                     if cell["cell_type"] == "markdown"]  # fmt: skip
            drawn = [figure for figure in book.figures(path) if figure.kind == "figure"]
            for figure in book.figures(path):
                title = f"Figure {drawn.index(figure) + 1}" if figure in drawn else ""
                self.places[figure.name] = Place(file, figure.cell_id, title)
            for check in book.check_cells(path):
                place = Place(file, check.cell_id, self.numbers.get(check.statement, ""))
                self.places[check.anchor.lower()] = self.places[check.statement.lower()] = place
        for cell, text in texts:
            for found in (f for pattern in LABELS for f in re.finditer(pattern, text, re.M)):
                label = re.sub(r"[^\w\- ]", "", found["label"].lower()).strip().replace(" ", "-")
                title = self.numbers.get(found["label"], "") or (found["title"] or "").strip()
                self.places[label] = Place(file, cell, title)
        title = re.search(r"^# (.+)$", "\n".join(text for _, text in texts), re.M)
        self.files[file.removesuffix(path.suffix)] = Place(file, None, title[1] if title else file)

    def link(self, label: str, words: str, page: str) -> str:
        """A link to a label from the page of a file; without words those of the label."""
        symbol = label.startswith("symbol-")
        place = Place("notation.md", None) if symbol else self.places[label.lower()]
        words = words or place.title or "there"
        if place.file == page and not place.cell:
            return f"[{words}](#{label})"
        cell = f"#cell-id={place.cell}" if place.cell else ""
        return f"[{words}]({'../' * page.count('/')}{place.file}{cell})"

    def role(self, name: str, inside: str, page: str) -> str:
        """What stands for a role in JupyterLab."""
        explicit, up = EXPLICIT.fullmatch(inside), "../" * page.count("/")
        words, target = explicit.groups() if explicit else ("", inside)
        if name in ("ref", "prf:ref", "numref"):
            return self.link(target, words, page)
        if name == "eq":  # jupyterlab-myst finds equations of one page
            own = self.places[target.lower()].file == page
            return f"{{eq}}`{inside}`" if own else self.link(target, words or "equation", page)
        if name == "doc":
            place = self.files[target.lstrip("/")]
            return f"[{words or place.title}]({up}{place.file})"
        if name in ("term", "download"):
            return f"[{words or target}]({up}{'notation.md' if name == 'term' else target})"
        if name in ("cite", "cite:p", "cite:t"):
            form = "[{} ({})]({})" if name == "cite:t" else "[{}, {}]({})"
            works = [self.references[key.strip()] for key in inside.split(",")]
            cited = [form.format(authors(w), w["year"], f"{up}bibliography.md") for w in works]
            return ", ".join(cited) if name == "cite:t" else f"({'; '.join(cited)})"
        if name.removeprefix("py:") in ("func", "class", "meth", "mod", "attr", "data", "obj"):
            return f"`{words or (target.rpartition('.')[2] if target[0] == '~' else target)}`"
        raise KeyError(f"role {name}")

    def list(self, name: str, inside: str, page: str) -> str:
        """What stands for a list that Sphinx makes."""
        if name == "eval-rst":
            modules = dict.fromkeys(re.findall(r"auto\w+:: ([\w.]+)", inside))
            calls = ", ".join(f"`help({module})`" for module in modules)
            return f"In a notebook, {calls} prints what the rendered page lists here."
        if name == "explorable":
            return "The figure at this place moves on the rendered page; the chapter has a picture."
        if name == "glossary":
            entries = re.findall(r"((?:^\S.*\n)+)((?:^[ ]+.*\n|^\n)+)", inside + "\n", re.M)
            entries = [(words.strip().replace("\n", ", "), text.split()) for words, text in entries]
            return "\n\n".join(f"**{words}.** {' '.join(text)}" for words, text in entries)
        if name == "bibliography":
            entries = sorted(self.references.values(), key=lambda e: (authors(e), e["year"]))
            shown = ("author", "title", "journal", "booktitle", "publisher", "year", "note")
            return "\n".join("- " + ". ".join(e[k] for k in shown if k in e) for e in entries)
        if name == "figure-index":
            drawn = [f for path in book.in_reading_order(self.source) for f in book.figures(path)]
            listed = [(f.chapter, f.name, f.name, f.caption) for f in drawn]
        else:
            kind = {"restored-formulas": "restored", "source-figures": "figures"}.get(name, "id")
            listed = [(s.chapter, book.anchor(s.id, 1), s.number,
                       s.restored if kind == "restored" else s.title)
                      for s in book.statements(self.source) if getattr(s, kind)]  # fmt: skip
        lines: dict[str, str] = {}
        for chapter, label, words, rest in listed:
            lines.setdefault(chapter, f"\n**{self.files[chapter].title}**\n\n")
            lines[chapter] += f"- {self.link(label, words, page)}: {rest}\n"
        return "".join(lines.values())

    def translated(self, text: str, page: str) -> str:
        """A text for JupyterLab, on the page of this file."""
        try:
            text = LIST.sub(lambda found: self.list(found[2], found[3], page), text)
            text = ROLE.sub(lambda found: self.role(found[1], found[2], page), text)
            return LINK.sub(lambda found: self.link(found[2], found[1], page), text)
        except KeyError as unknown:
            raise ValueError(f"{page}: unknown: {unknown.args[0]}") from None

    def chapter(self, notebook: dict, page: str) -> dict:
        """A chapter for JupyterLab; the code of its cells, and their outputs, are the same."""
        cells, drawn = [], 0
        for cell in notebook["cells"]:
            source, metadata = book.text(cell["source"]), cell["metadata"]
            tags, own = set(metadata.get("tags", [])), metadata.get("mfbook", {})
            colab = "remove-cell" in tags and "google.colab" in source
            if colab or cell["id"].startswith("caption-"):
                continue
            if cell["cell_type"] == "markdown":
                lines = self.translated(source, page).splitlines(keepends=True)
                cells.append({**cell, "source": lines})
                continue
            if any("mf-explore" in book.text(output.get("data", {}).get("text/html", ""))
                   for output in cell.get("outputs", ())):  # fmt: skip
                still = {"cell_type": "markdown", "id": f"caption-still-{len(cells)}"}
                cells.append({**still, "metadata": {}, "source": STILL.splitlines(keepends=True)})
            # the parameters of a chapter, which a reader may change, are shown
            if tags & HIDDEN or (own.get("does") and not own.get("open")):
                hidden = {"source_hidden": True} if "parameters" not in tags else {}
                if tags & {"hide-cell", "remove-cell"}:
                    hidden["outputs_hidden"] = True
                cell = {**cell, "metadata": {**metadata, "jupyter": hidden}}
            cells.append(cell)
            if figure := metadata.get("mystnb", {}).get("figure"):
                drawn += 1
                text = f"**Figure {drawn}.** {self.translated(figure['caption'], page)}"
                below = {"cell_type": "markdown", "id": f"caption-{drawn}", "metadata": {}}
                cells.append({**below, "source": text.splitlines(keepends=True)})
        return {**notebook, "cells": cells}


def write(target: Path, source: Path = book.BOOK) -> list[Path]:
    """Write the edition into a folder, perhaps that of the book, unless something leads nowhere."""
    edition, texts = Edition(source), {}
    for path in pages(source):
        name = path.relative_to(source).as_posix()
        if path.suffix == ".md":
            texts[name] = edition.translated(path.read_text(encoding="utf-8"), name)
        else:
            made = edition.chapter(book.read(path), name)
            made["metadata"] = {**made["metadata"], "language_info": PYTHON}
            texts[name] = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    if target.resolve() != source.resolve():
        left = shutil.ignore_patterns("_[etv]*", "__pycache__")
        shutil.copytree(source, target, ignore=left, dirs_exist_ok=True)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return [target / name for name in texts]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = book.BOOK if sys.argv[1] == "--in-place" else Path(sys.argv[1])
    print(f"{len(write(folder))} files for JupyterLab: jupyter lab {folder}/01-introduction.ipynb")
