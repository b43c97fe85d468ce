"""Print the book to one PDF: ``make pdf``, or ``python tools/pdf.py --pages 02-model 04-static``.

The rendered pages (``make book``) are joined to one document in a headless Chromium (tools/pdf.js),
typeset by the site's own MathJax, and printed twice: the second time with the page numbers that
the first one gave. What is too wide for the page is made smaller, and named if it still does not
fit. pypdf finds the pages that links lead to, and adds outline and title.
"""

from __future__ import annotations

import argparse
import html
import io
import mimetypes
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools.chapters import ROOT  # noqa: E402
from tools.set_address import address  # noqa: E402

SITE = ROOT / "_build" / "html"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
#: The first version that prints what @page rules put into the margins.
OLDEST = 131
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
#: Printing twice is enough where filling in the page numbers moves nothing.
PASSES = 4
#: Nobody is asked: every request is answered from the site's folder, or refused.
HOST = "http://book.invalid"
#: The site's own sheets that also serve paper. The theme's are for screens.
SHEETS = ("pygments.css", "sphinx-design.min.css", "mfbook.css", "reading.css", "folding.css")
FACES = (
    ("Book Serif", 400, "normal", "STIXGeneral"),
    ("Book Serif", 400, "italic", "STIXGeneralItalic"),
    ("Book Serif", 600, "normal", "STIXGeneralBol"),
    ("Book Serif", 600, "italic", "STIXGeneralBolIta"),
    ("Book Signs", 400, "normal", "DejaVuSerif"),
    ("Book Mono", 400, "normal", "DejaVuSansMono"),
    ("Book Mono", 600, "normal", "DejaVuSansMono-Bold"),
    ("Book Mono", 400, "italic", "DejaVuSansMono-Oblique"),
)
#: The papers that the book is about, as references.bib names them.
PAPERS = ("huan2026", "alvarez2026")
LICENCES = "Text and figures CC BY 4.0; code BSD-3-Clause"


class PdfError(Exception):
    """What is missing or wrong, in words for the terminal."""


@dataclass(frozen=True)
class Page:
    """One page of the site. ``level`` 1 is a chapter, 2 a page below one; how many there are."""

    name: str
    part: str
    level: int
    below: int


@dataclass(frozen=True)
class Entry:
    """A line of the table of contents and of the outline: level 0 is a part, 1 a chapter."""

    level: int
    title: str
    anchor: str


@dataclass(frozen=True)
class Printed:
    """What came out: the lines of the table of contents, where links lead, what did not fit."""

    pages: int
    entries: tuple[Entry, ...]
    page_of: dict[str, int]
    smaller: tuple[tuple[str, float], ...]
    clipped: tuple[str, ...]


def listed(toc: Path = ROOT / "_toc.yml") -> list[Page]:
    """Every page that ``_toc.yml`` names, in order; the first page comes first."""
    tree = yaml.safe_load(toc.read_text(encoding="utf-8"))
    found = [Page(tree["root"], "", 1, 0)]

    def add(entries: list, part: str, level: int):
        for entry in entries:
            sections = entry.get("sections", [])
            found.append(Page(entry["file"], part, level, len(sections)))
            add(sections, part, level + 1)

    for part in tree["parts"]:
        add(part["chapters"], part["caption"], 1)
    return found


#: Enough of LaTeX for headings.
SIGNS = {
    "alpha": "α", "beta": "β", "delta": "δ", "epsilon": "ϵ", "gamma": "γ", "infty": "∞",
    "lambda": "λ", "mu": "μ", "sqrt": "√", "tau": "τ", "theta": "θ", "varepsilon": "ε",
}  # fmt: skip
RAISED = str.maketrans("0123456789-+/nk", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᐟⁿᵏ")


def plain(title: str) -> str:
    r"""A heading with LaTeX as text, for the outline.

    >>> plain(r"Heads: \(M^{-1/2}\) and \(1/\sqrt\beta\)")
    'Heads: M⁻¹ᐟ² and 1/√β'
    """
    text = re.sub(r"\\([A-Za-z]+) ?", lambda sign: SIGNS.get(sign[1], sign[1]), title)
    text = re.sub(r"\^(?:\{([^}]*)\}|(\w))", lambda up: (up[1] or up[2]).translate(RAISED), text)
    return re.sub(r"\s+", " ", re.sub(r"\\[()]|[{}]", "", text)).strip()


def git(*arguments: str) -> str:
    """What git says, or nothing where there is no repository."""
    done = subprocess.run(
        ["git", "-C", ROOT, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else ""


def papers() -> str:
    """The papers that the book is about, a paragraph each."""
    from pybtex.database import parse_file

    entries = parse_file(str(ROOT / "book" / "references.bib")).entries
    lines = []
    for paper in map(entries.__getitem__, PAPERS):
        names = ", ".join(
            " ".join([*person.first_names, *person.last_names])
            for person in paper.persons["author"]
        )
        title, note, year = (paper.fields[name] for name in ("title", "note", "year"))
        lines.append(f"<p>{names}: <i>{title}</i>. {note}, {year}.</p>")
    return "".join(lines)


def title_page(config: dict, project: dict) -> str:
    """The first page as HTML. A repository without a public address is not named."""
    commit = git("log", "-1", "--format=%h of %cs")
    if commit and git("status", "--porcelain", "--untracked-files=no"):
        commit += ", with changes that are not committed"
    lines = {
        "Version": project["version"],
        "Commit": commit,
        "Source": address(),
        "Licence": LICENCES,
        "Papers": papers(),
    }
    notes = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in lines.items() if text)
    return (
        f'<header class="pdf-title"><h1>{html.escape(config["title"])}</h1>'
        f'<p class="pdf-subtitle">{html.escape(project["description"])}</p>'
        f'<p class="pdf-authors">{html.escape(config["author"])}</p><dl>{notes}</dl></header>'
    )


def frame(config: dict, project: dict) -> str:
    """The document before the pages of the book are put into it."""
    faces = "".join(
        f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: {style}; '
        f"src: url(/faces/{file}.ttf); }}"
        for family, weight, style, file in FACES
    )
    sheets = "".join(f'<link rel="stylesheet" href="/_static/{name}">' for name in SHEETS)
    running = f'@page {{ @top-left {{ content: "{config["title"]}"; }} }}'
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f"<title>{html.escape(config['title'])}</title>"
        f'<link rel="icon" href="data:,">{sheets}<style>{faces}{running}</style>'
        f'<link rel="stylesheet" href="/pdf.css"></head><body>{title_page(config, project)}'
        f'<nav class="pdf-contents"><h2>Contents</h2></nav><main></main></body></html>'
    )


def answer(route, site: Path, document: str) -> None:
    """Give the browser the document, a face, the style sheet, or a file of the site."""
    import matplotlib

    path = unquote(urlsplit(route.request.url).path).lstrip("/")
    if not route.request.url.startswith(HOST):
        route.abort()
    elif path == "":
        route.fulfill(body=document, content_type="text/html")
    elif path == "pdf.css":
        route.fulfill(path=ROOT / "tools" / "pdf.css")
    else:
        faces = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        file = faces / path.removeprefix("faces/") if path.startswith("faces/") else site / path
        if file.is_file():
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            route.fulfill(path=file, content_type=kind)
        else:
            route.fulfill(status=404, body=f"no file {path}")


def destinations(pdf: bytes) -> dict[str, tuple[int, float]]:
    """Where the named destinations are: the number of the page, and the height on it."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(pdf))
    number = {page.indirect_reference.idnum: i for i, page in enumerate(reader.pages, 1)}
    return {
        name.removeprefix("/"): (number[place.page.idnum], float(place.top))
        for name, place in reader.named_destinations.items()
    }


def pages_of(places: dict[str, tuple[int, float]]) -> dict[str, int]:
    """The numbers of the pages alone."""
    return {name: number for name, (number, _) in places.items()}


def print_book(site: Path, names: list[str], output: Path, say=lambda line: None) -> Printed:
    """Print these pages of the site to a file; if none is named, the book without its API.

    A hundred pages of signatures serve better where one can search and click. The page that lists
    them stays, and says where they are.
    """
    from playwright.sync_api import sync_playwright

    book = listed()
    unknown = sorted(set(names) - {page.name for page in book})
    if unknown:
        raise PdfError(f"--pages: _toc.yml does not list {', '.join(unknown)}")
    chosen = [page for page in book if (page.name in names if names else page.level == 1)]
    absent = [page.name for page in chosen if not (site / f"{page.name}.html").is_file()]
    if absent:
        raise PdfError(f"not rendered in {site}: {', '.join(absent)} (run: make book)")
    if not Path(CHROMIUM).is_file():
        raise PdfError(f"no Chromium at {CHROMIUM} (apt-get install chromium, or set CHROMIUM)")
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    document = frame(config, project)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        if int(browser.version.split(".")[0]) < OLDEST:
            raise PdfError(f"Chromium {browser.version} is too old: {OLDEST} or later is needed")
        page = browser.new_page(viewport={"width": 800, "height": 1100}, color_scheme="light")
        page.set_default_timeout(600_000)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: errors.append(f"no answer: {request.url[:200]}"))
        page.on(
            "response",
            lambda got: got.status >= 400 and errors.append(f"{got.status}: {got.url[:200]}"),
        )
        page.emulate_media(media="print")
        page.route("**/*", lambda route: answer(route, site, document))
        page.goto(f"{HOST}/")
        page.add_script_tag(path=ROOT / "tools" / "pdf.js")
        lines = page.evaluate("list => pdf.join(list)", [vars(one) for one in chosen])
        say(f"{len(chosen)} pages joined")
        page.evaluate("name => pdf.typeset(name)", chosen[0].name)
        say("mathematics typeset")
        smaller = page.evaluate("() => pdf.fit()")
        clipped = page.evaluate("() => pdf.clipped()")
        say(f"{len(smaller)} equations and tables made smaller, {len(clipped)} do not fit")

        def pdf(tagged: bool) -> bytes:
            return page.pdf(prefer_css_page_size=True, print_background=True, tagged=tagged)

        # once for the numbers of pages, then with them, until they stay
        places, printed = {}, pdf(tagged=False)
        for _ in range(PASSES):
            say("printed")
            found = destinations(printed)
            if pages_of(found) == pages_of(places):
                break
            places = found
            page.evaluate("numbers => pdf.fill(numbers)", pages_of(places))
            printed = pdf(tagged=True)
        else:
            raise PdfError(f"page numbers still move after {PASSES} times")
        browser.close()
    if errors:
        raise PdfError("\n".join(dict.fromkeys(errors)))
    entries = tuple(Entry(e["level"], plain(e["title"]), e["anchor"]) for e in lines)
    pages = finish(printed, entries, found, config, project, output)
    return Printed(pages, entries, pages_of(found), tuple(map(tuple, smaller)), tuple(clipped))


def finish(pdf: bytes, entries, places: dict, config: dict, project: dict, output: Path) -> int:
    """Add outline and title, write the file, and return the number of its pages."""
    from pypdf import PdfWriter
    from pypdf.generic import Fit

    writer = PdfWriter(io.BytesIO(pdf), incremental=True)
    above: dict[int, object] = {}
    for entry in entries:
        number, top = places[entry.anchor]
        above = {level: item for level, item in above.items() if level < entry.level}
        above[entry.level] = writer.add_outline_item(
            title=entry.title,
            page_number=number - 1,
            parent=above[max(above)] if above else None,
            is_open=False,
            fit=Fit.xyz(left=0, top=top),
        )
    about = {
        "/Title": config["title"],
        "/Author": config["author"],
        "/Subject": project["description"],
        "/Keywords": ", ".join(project["keywords"]),
        "/Creator": f"mfbook {project['version']}",
    }
    date = git("log", "-1", "--format=%cd", "--date=format-local:D:%Y%m%d%H%M%SZ")
    if date:
        about |= {"/CreationDate": date, "/ModDate": date}
    writer.add_metadata(about)
    output.parent.mkdir(parents=True, exist_ok=True)
    writer.write(output)
    return len(writer.pages)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the rendered book to one PDF.")
    parser.add_argument("output", nargs="?", type=Path, default=ROOT / "_build" / "mfbook.pdf")
    parser.add_argument("--pages", nargs="+", default=[], metavar="NAME", help="these pages only")
    parser.add_argument("--site", type=Path, default=SITE, help="the rendered book")
    chosen = parser.parse_args(arguments)
    start = time.perf_counter()

    def say(line: str):
        print(f"{time.perf_counter() - start:6.1f} s  {line}", file=sys.stderr)

    try:
        printed = print_book(chosen.site, chosen.pages, chosen.output, say)
    except PdfError as error:
        sys.exit(str(error))
    size = chosen.output.stat().st_size / 1e6
    say(f"{chosen.output}: {printed.pages} pages, {size:.1f} MB")
    if printed.clipped:
        sys.exit("too wide for the page:\n" + "\n".join(printed.clipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
