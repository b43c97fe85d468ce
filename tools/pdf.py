"""Print the rendered book (``make book``) to one PDF: ``make pdf``, or some of its pages.

    python tools/pdf.py _build/mfbook.pdf [02-model 04-static ...]

The browser prints each page of the table of contents as it prints it for a reader, and pypdf joins
them, with an outline. Pages below others (the API) serve better where one can search, and are left
out; so are links to what is not printed.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import yaml
from playwright.sync_api import sync_playwright
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, NameObject

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
MARGIN = dict.fromkeys(("top", "right", "bottom", "left"), "18mm")
#: What a page shows to be clicked, and headings stay with what follows.
STYLE = """
.mf-permalink, .toggle-button, details.hide > summary { display: none !important; }
h1, h2, h3, h4, .admonition-title { break-after: avoid; }
"""


def listed() -> list[str]:
    """The pages of the table of contents that are printed, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *(entry["file"] for part in toc["parts"] for entry in part["chapters"])]


def printed(names: list[str]) -> list[tuple[str, bytes]]:
    """The title and the PDF of each page."""
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(color_scheme="light")
        page.emulate_media(media="print")
        for name in names:
            page.goto((SITE / f"{name}.html").as_uri())
            page.add_style_tag(content=STYLE)
            page.evaluate("() => document.fonts.ready.then(() => {})")
            sheets = page.pdf(format="A4", margin=MARGIN, print_background=True)
            found.append((page.title().rpartition(" — ")[0] or page.title(), sheets))
        browser.close()
    return found


def lead_inside(writer: PdfWriter, starts: dict[str, int]) -> None:
    """Let links to pages that are printed lead there; take out links to other files."""
    for page in writer.pages:
        kept = ArrayObject()
        for reference in page.get("/Annots", ()):
            note = reference.get_object()
            address = note.get("/A", {}).get("/URI", "")
            name = address.removeprefix(SITE.as_uri() + "/").partition(".html")[0]
            if name in starts:
                del note["/A"]
                target = writer.pages[starts[name]].indirect_reference
                note[NameObject("/Dest")] = ArrayObject([target, NameObject("/Fit")])
            if name in starts or not address.startswith("file:"):
                kept.append(reference)
        page[NameObject("/Annots")] = kept


def main() -> None:
    """Print the named pages, or all, to the file that is named first."""
    output, names = Path(sys.argv[1]), sys.argv[2:] or listed()
    if lacking := [name for name in names if not (SITE / f"{name}.html").is_file()]:
        sys.exit(f"not rendered: {', '.join(lacking)} (run: make book)")
    writer, starts = PdfWriter(), {}
    for name, (title, sheets) in zip(names, printed(names), strict=True):
        starts[name] = len(writer.pages)
        writer.append(io.BytesIO(sheets), outline_item=title)
    lead_inside(writer, starts)
    writer.add_metadata({"/Title": "Attention heads as particles"})
    writer.write(output)
    print(f"{output}: {len(writer.pages)} pages")


if __name__ == "__main__":
    main()
