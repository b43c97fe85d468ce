"""Print what each page of the rendered book weighs on a first visit: with all that it loads.

Each page is opened from disk in a headless Chromium, and the files that it asks for are counted,
as they are and compressed as most servers send them.
"""

import gzip
import os
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.chapters import ROOT

SITE = ROOT / "_build" / "html"
#: No page may be heavier than this, in bytes; with reasons, some may.
LIMIT = 3_000_000
#: Interactive figures of two panels or of spheres, 15 to 20 pictures each page.
EXCEPTIONS = {
    "b-primer.html": 3_500_000,
    "a-sphere-circle.html": 3_300_000,
    "a-sphere-higher.html": 3_800_000,
}
#: Already compressed; a server sends them as they are.
COMPRESSED = {".png", ".woff", ".woff2", ".jpg"}


@cache
def sizes(file: Path) -> tuple[int, int]:
    """The size of a file in bytes, and compressed."""
    content = file.read_bytes()
    small = len(content) if file.suffix in COMPRESSED else len(gzip.compress(content, 6))
    return len(content), small


def weight(addresses: set[str], root: str) -> tuple[int, int]:
    """Bytes behind the addresses a page asked for, raw and compressed; ``root`` is the site's."""
    paths = {
        unquote(urlsplit(address).path.removeprefix(urlsplit(root).path))
        for address in addresses
        if address.startswith(root)
    }
    both = [sizes(SITE / path) for path in paths]
    return sum(raw for raw, _ in both), sum(small for _, small in both)


def measure(pages: list[Path]) -> dict[str, tuple[int, int]]:
    """Open the pages and weigh them."""
    from playwright.sync_api import sync_playwright

    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        for path in pages:
            page, asked = browser.new_page(), set()
            page.on("request", lambda request, asked=asked: asked.add(request.url))
            page.goto(path.as_uri())
            page.evaluate("() => window.MathJax?.startup?.promise")
            page.evaluate("() => document.fonts.ready")
            page.close()
            found[str(path.relative_to(SITE))] = weight(asked, SITE.as_uri() + "/")
        browser.close()
    return found


def main() -> None:
    pages = [path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts]
    if not pages:
        sys.exit("the site is not built: make book")
    print("   raw kB   gzip kB  page")
    for path, (raw, small) in sorted(measure(pages).items(), key=lambda item: -item[1][0]):
        print(f"{raw / 1000:9.0f} {small / 1000:9.0f}  {path}")


if __name__ == "__main__":
    main()
