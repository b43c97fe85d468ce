"""The permanent addresses of the book: those that were promised, and those that its pages have.

``book/anchors.txt`` lists every address that people may cite, as ``page.html#anchor``. A line is
never removed or changed; this script adds the addresses of what is new, after ``make book``:

    python tools/anchors.py
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
PROMISED = ROOT / "book" / "anchors.txt"
#: What can be cited: statements by identifier and by number, checks, figures, errata, questions.
CITABLE = re.compile(
    r"(hy|agr|mf|check|fig|frames|explore|try-it|erratum|q)-\S+"
    r"|(definition|lemma|proposition|theorem|corollary|remark|assumption|equation|figure|section)"
    r"(-\d+)+"
)


class Identifiers(HTMLParser):
    """The ids of a page in their order."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name == "id" and value]


def identifiers(page: Path) -> list[str]:
    """The ids on a rendered page."""
    return Identifiers(page.read_text(encoding="utf-8")).found


def present(site: Path = SITE) -> list[str]:
    """Every citable address of the rendered book."""
    return [
        f"{page.name}#{name}"
        for page in sorted(site.glob("*.html"))
        if page.name not in ("prf-prf.html", "genindex.html")
        for name in identifiers(page)
        if CITABLE.fullmatch(name)
    ]


def promised(file: Path = PROMISED) -> list[str]:
    """Every address that was promised."""
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def main() -> None:
    """Add the new addresses to the list."""
    before = promised()
    lost = sorted(set(before) - set(present()))
    if lost:
        sys.exit("these addresses were promised and are gone: " + ", ".join(lost))
    new = [address for address in present() if address not in set(before)]
    PROMISED.write_text("\n".join(sorted({*before, *new})) + "\n", encoding="utf-8")
    print(f"{len(new)} new addresses, {len(before) + len(new)} in all")


if __name__ == "__main__":
    main()
