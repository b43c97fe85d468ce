"""References without Sphinx: the entries of references.bib, and how a text cites them."""

from __future__ import annotations

import re
from pathlib import Path


def bibliography(source: Path) -> dict[str, dict[str, str]]:
    """The entries of references.bib: fields by the key, with every field on one line."""
    entries = {}
    written = (source / "references.bib").read_text(encoding="utf-8")
    for entry in re.split(r"^@", written, flags=re.M):
        head = re.match(r"\w+\{([\w-]+),", entry)
        if head:
            fields = re.findall(r"^\s+(\w+) = \{(.*)\},?$", entry, re.M)
            entries[head[1]] = {name: re.sub(r"[{}]", "", value) for name, value in fields}
    return entries


def authors(entry: dict[str, str]) -> str:
    """Family names of the authors: of one or two all, else the first.

    >>> authors({"author": "Huan, Cheng and Yuan, Hongwei"})
    'Huan and Yuan'
    >>> authors({"author": "de Bruijn, N. and Erdős, Paul and Rényi, Alfréd"})
    'de Bruijn et al.'
    """
    names = [name.partition(",")[0].strip() for name in entry["author"].split(" and ")]
    return " and ".join(names) if len(names) <= 2 else f"{names[0]} et al."


def cited(role: str, entries: list[dict[str, str]], to: str) -> str:
    """A citation as links to the bibliography: in the text (``cite:t``), or in brackets.

    >>> huan = {"author": "Huan, Cheng and Yuan, Hongwei", "year": "2026"}
    >>> cited("cite:t", [huan], "b.md"), cited("cite:p", [huan], "b.md")
    ('[Huan and Yuan (2026)](b.md)', '([Huan and Yuan, 2026](b.md))')
    """
    if role == "cite:t":
        return ", ".join(f"[{authors(e)} ({e['year']})]({to})" for e in entries)
    return "(" + "; ".join(f"[{authors(e)}, {e['year']}]({to})" for e in entries) + ")"


def reference(entry: dict[str, str]) -> str:
    """One line of the bibliography."""
    names = [" ".join(reversed(re.split(r",\s*", n))) for n in entry["author"].split(" and ")]
    people = " and ".join([", ".join(names[:-1]), names[-1]] if names[:-1] else names)
    where = entry.get("journal") or entry.get("booktitle") or entry.get("publisher", "")
    volume = entry.get("volume", "") + (f"({entry['number']})" if "number" in entry else "")
    pages = entry.get("pages", "").replace("--", "–")
    place = ", ".join(filter(None, (f"*{where}*" if where else "", volume, pages)))
    parts = [people, entry["title"], place, entry["year"], entry.get("note", "")]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."
