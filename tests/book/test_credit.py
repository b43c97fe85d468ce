"""Who is credited for what, and which statements rest on a formula that was restored.

A box of what is not in the paper ends in a credit line with one of three verdicts. Errata and
statements that rest on a formula which our text of the papers lacks say so, as a question.
"""

import re

import pytest
from pybtex.database import parse_file

from tools.chapters import BOOK, chapters, read, text

VERDICTS = ("Known", "Known method", "No earlier statement found")
CREDIT = re.compile(rf"\*\*Credit\.\*\* (?P<verdict>{'|'.join(VERDICTS)})(?P<mark>[.:])(?P<why>.*)")
#: Chapters with boxes that have no credit line yet. It only shrinks: a chapter that has all of
#: them is taken out.
NOT_YET = {
    "01-introduction",
    "02-model",
    "03-assumptions",
    "04-static",
    "05-dynamics",
    "06-long-time",
    "07-stability",
    "08-discussion",
    "a-sphere-circle",
    "a-sphere-extremal",
    "a-sphere-higher",
    "a-sphere-localisation",
    "a-sphere-scaling",
    "b-primer",
    "c-audit",
}


def boxes(source: str) -> list[tuple[str, str]]:
    """Title and content of the boxes of the class ``beyond`` in Markdown."""
    fence = r"^(?P<colons>:{3,})\{admonition\} (?P<title>[^\n]+)\n(?P<inside>.*?)^(?P=colons) *$"
    found = re.finditer(fence, source, re.MULTILINE | re.DOTALL)
    return [(m["title"], m["inside"]) for m in found if ":class: beyond\n" in m["inside"]]


def credit(inside: str) -> str | None:
    """What is wrong with the credit line at the end of a box."""
    last = re.split(r"\n\s*\n", inside.strip())[-1]
    line = CREDIT.fullmatch(" ".join(last.split()))
    if line is None:
        return "the last paragraph is no credit line"
    if line["why"].count("**Credit.**"):
        return "two credit lines"
    if len(re.sub(r"\{cite(:\w)?\}`[^`]*`", "name", line["why"]).split()) < 3:
        return "the verdict has no sentence"
    return None


PAGES = {
    **{
        path.stem: "\n\n".join(
            text(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "markdown"
        )
        for path in chapters()
    },
    **{path.stem: path.read_text(encoding="utf-8") for path in sorted(BOOK.glob("*.md"))},
}
WITH_BOXES = [
    pytest.param(
        name,
        marks=[pytest.mark.xfail(reason="not yet", strict=True)] if name in NOT_YET else [],
        id=name,
    )
    for name, page in PAGES.items()
    if boxes(page)
]


@pytest.mark.parametrize("name", WITH_BOXES)
def test_every_box_beyond_the_paper_says_whom_it_is_due_to(name):
    """A chapter that passes is taken out of NOT_YET."""
    wrong = {title: found for title, inside in boxes(PAGES[name]) if (found := credit(inside))}
    assert not wrong, "\n".join(f"{title}: {what}" for title, what in wrong.items())


def test_the_boxes_are_found():
    assert sum(len(boxes(page)) for page in PAGES.values()) >= 70
    assert not NOT_YET - {name for name, page in PAGES.items() if boxes(page)}


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("mark", [". By", ": by"])
def test_a_credit_line(verdict, mark):
    line = f"**Credit.** {verdict}{mark} {{cite:t}}`x`, of old."
    assert credit(f":class: beyond\nA statement.\n\n{line}") is None


@pytest.mark.parametrize(
    "last",
    [
        "A statement without one.",
        "**Credit.** New. It is ours alone.",
        "**Credit.** Known method",
        "**Credit.** Known. {cite}`x`",
        "**Credit.** Known. By name, long ago. **Credit.** Known. By name, long ago.",
        "**Credit.** Known. By name, long ago.\n\nA paragraph after it.",
        "A sentence. **Credit.** Known. By name, long ago.",
    ],
)
def test_what_is_no_credit_line(last):
    assert credit(f":class: beyond\nA statement.\n\n{last}")


def test_what_is_cited_is_in_the_bibliography():
    entries = parse_file(str(BOOK / "references.bib")).entries
    for name, page in PAGES.items():
        for keys in re.findall(r"\{cite(?::\w)?\}`([^`]+)`", page):
            missing = {key.strip() for key in keys.split(",")} - set(entries)
            assert not missing, f"{name}: {missing}"


def test_entries_of_the_bibliography_are_complete():
    for key, entry in parse_file(str(BOOK / "references.bib")).entries.items():
        assert entry.persons.get("author"), key
        assert {"title", "year"} <= set(entry.fields), key
        place = {"journal", "booktitle", "publisher", "note"} & set(entry.fields)
        assert place, f"{key}: nowhere to be found"
