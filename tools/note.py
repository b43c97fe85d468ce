"""Print what is new as a note that stands alone: ``make note``.

``book/note.md`` says the setting, and names the results (``mf-take``). Their boxes, proofs and
credits are taken from the rendered pages on which they stand (tools/note.js), so that each is
written once; the works that they cite follow. Typesetting is that of the whole book (tools/pdf.py).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools.chapters import ROOT  # noqa: E402
from tools.pdf import CHROMIUM, FACES, FLAGS, HOST, SHEETS, SITE, PdfError, answer  # noqa: E402

#: What a referee reads in an evening.
LONGEST = 12
TITLE = "Attention heads as particles: what is new"
#: Smaller than the book, and no page of its own for anything.
STYLE = """
html { font-size: 9.2pt; --pst-font-size-base: 9.2pt; }
body { width: 174mm; line-height: 1.29; }
@page { margin: 18mm 18mm 17mm; }
article, nav.pdf-contents { break-before: auto; }
article h1 { margin-bottom: 0.7rem; font-size: 1.7rem; }
article.bd-article h2 { margin: 1.1rem 0 0.4rem; font-size: 1.25rem; }
.bd-article div:is(.note-result, .note-proof) { margin: 0.5em 0; background: none; }
.bd-article div.note-result {
  padding: 0.35em 0.8em 0.1em; border: 0.6pt solid #789; border-left-width: 2pt;
}
.bd-article div.note-proof { padding: 0 0 0 0.8em; border-width: 0 0 0 0.6pt; border-color: #aaa; }
.bd-article div.note-result > .admonition-title { color: #111; }
.bd-article div.note-proof > .admonition-title {
  float: left; margin: 0 0.6em 0 0; font-style: italic; font-weight: 400;
}
.bd-article div.note-proof > .admonition-title:has(+ ol) { float: none; }
.bd-article div.math { margin: 0.3em 0 0.45em; }
.bd-article p { margin-bottom: 0.4em; overflow: visible; }
.bd-article ul.note-works { font-size: 0.85em; }
.bd-article li { margin-bottom: 0.15em; }
"""


@dataclass(frozen=True)
class Note:
    """What came out: the titles of the results, the number of pages, what did not fit."""

    results: tuple[str, ...]
    pages: int
    clipped: tuple[str, ...]


def document(author: str) -> str:
    """The document before the page is put into it."""
    faces = "".join(
        f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: {style}; '
        f"src: url(/faces/{file}.ttf); }}"
        for family, weight, style, file in FACES
    )
    sheets = "".join(f'<link rel="stylesheet" href="/_static/{name}">' for name in SHEETS)
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f'<title>{TITLE}</title><meta name="author" content="{author}">'
        f'<link rel="icon" href="data:,">{sheets}<style>{faces}</style>'
        f'<link rel="stylesheet" href="/pdf.css"><style>{STYLE}</style></head>'
        f"<body><main></main></body></html>"
    )


def print_note(site: Path, output: Path) -> Note:
    """Print the note from a rendered book.

    Parameters
    ----------
    site : Path
        The rendered book.
    output : Path
        The file to write.

    Raises
    ------
    PdfError
        If Chromium or a page is not there, or a result that is named has no box with a proof.
    """
    from playwright.sync_api import Error, sync_playwright
    from pypdf import PdfReader

    if not (site / "note.html").is_file():
        raise PdfError(f"not rendered in {site}: note (run: make book)")
    if not Path(CHROMIUM).is_file():
        raise PdfError(f"no Chromium at {CHROMIUM} (apt-get install chromium, or set CHROMIUM)")
    author = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["author"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 800, "height": 1100}, color_scheme="light")
        page.emulate_media(media="print")
        page.route("**/*", lambda route: answer(route, site, document(author)))
        page.goto(f"{HOST}/")
        for name in ("pdf.js", "note.js"):
            page.add_script_tag(path=ROOT / "tools" / name)
        try:
            results = page.evaluate("() => note.join('note.html')")
        except Error as error:
            raise PdfError(error.message) from None
        page.evaluate("() => pdf.typeset('note')")
        page.evaluate("() => pdf.fit()")
        clipped = page.evaluate("() => pdf.clipped()")
        output.parent.mkdir(parents=True, exist_ok=True)
        page.pdf(path=output, prefer_css_page_size=True, print_background=True, tagged=True)
        browser.close()
    with PdfReader(output) as reader:
        return Note(tuple(results), len(reader.pages), tuple(clipped))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print what is new as a note that stands alone.")
    parser.add_argument("output", nargs="?", type=Path, default=ROOT / "_build" / "note.pdf")
    parser.add_argument("--site", type=Path, default=SITE, help="the rendered book")
    chosen = parser.parse_args(arguments)
    try:
        note = print_note(chosen.site, chosen.output)
    except PdfError as error:
        sys.exit(str(error))
    print(f"{chosen.output}: {len(note.results)} results with proofs on {note.pages} pages")
    if note.clipped:
        sys.exit("too wide for the page:\n" + "\n".join(note.clipped))
    if note.pages > LONGEST:
        sys.exit(f"{note.pages} pages; it should have {LONGEST} at the most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
