"""Who is credited for what, and which statements rest on a formula that was restored.

A box of what is not in the paper ends in a credit line with one of three verdicts. Errata and
statements that rest on a formula which our text of the papers lacks say so, as a question.
"""

import re

import pytest
from pybtex.database import parse_file

from tools.chapters import BOOK, chapters, read, statements, text

VERDICTS = ("Known", "Known method", "No earlier statement found")
CREDIT = re.compile(rf"\*\*Credit\.\*\* (?P<verdict>{'|'.join(VERDICTS)})(?P<mark>[.:])(?P<why>.*)")
#: Chapters with boxes that have no credit line yet. It only shrinks: a chapter that has all of
#: them is taken out.
NOT_YET: set[str] = set()


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
        assert "$" not in entry.fields["title"], f"{key}: the page shows the dollar"


#: Errata that depend on a formula which our text of the paper lacks and its words do not fix.
RESTORED = {
    "erratum-letters",
    "erratum-lemma-2-1",
    "erratum-proposition-3-4",
    "erratum-remark-3-5",
    "erratum-theorem-4-1",
    "erratum-gronwall",
    "erratum-theorem-5-2",
    "erratum-remark-6-7",
    "erratum-theorem-7-1",
    "erratum-remark-7-2",
    "erratum-theorem-7-8",
    "erratum-section-8-identifiability",
    "erratum-2-normalised-flow",
    "erratum-2-corollary-3-6",
    "erratum-2-section-3-3",
    "erratum-2-remark-5-2",
    "erratum-2-remark-5-6",
    "erratum-2-proposition-6-1",
    "erratum-2-remark-6-2",
}
#: Statements whose restored formula has an entry of its own among the errata.
WITH_ERRATUM = {
    "hy-lemma-2-1": "erratum-lemma-2-1",
    "hy-proposition-3-4": "erratum-proposition-3-4",
    "hy-remark-3-5": "erratum-remark-3-5",
    "hy-theorem-4-1": "erratum-theorem-4-1",
    "hy-theorem-5-2": "erratum-theorem-5-2",
    "hy-remark-6-7": "erratum-remark-6-7",
    "hy-theorem-7-1": "erratum-theorem-7-1",
    "hy-remark-7-2": "erratum-remark-7-2",
    "hy-theorem-7-8": "erratum-theorem-7-8",
    "hy-section-8-identifiability": "erratum-section-8-identifiability",
    "agr-corollary-3-6": "erratum-2-corollary-3-6",
    "agr-section-3-3": "erratum-2-section-3-3",
    "agr-remark-5-2": "erratum-2-remark-5-2",
    "agr-remark-5-6": "erratum-2-remark-5-6",
    "agr-proposition-6-1": "erratum-2-proposition-6-1",
    "agr-remark-6-2": "erratum-2-remark-6-2",
}
#: Statements with such a formula of which no entry of the errata depends on it.
ALONE = {
    "hy-assumption-3-2",
    "hy-equation-19",
    "hy-theorem-6-6",
    "hy-theorem-6-10",
    "hy-theorem-7-5",
    "agr-theorem-3-5",
}
KINDS = (
    "Error",
    "Gap",
    "Question",
    "Overstated",
    "Not needed",
    "Scope",
    "Sharpened",
    "Figure",
    "Wording",
)
ASKED = re.compile(r"\*To be compared with the printed formula\*: (?:[^.?]|\.(?=\d))*\?")


def entries() -> dict[str, str]:
    """The entries of the errata page by their anchors."""
    page = PAGES["errata"].partition("(erratum-main)=")[2]
    pieces = re.split(r"^\((erratum-[\w-]+)\)=\n", page, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(body.split())
        for name, body in zip(pieces[::2], pieces[1::2], strict=True)
        if re.match(r"#{3,4} .*\n\*", body)
    }


def test_errata_on_a_restored_formula_ask_for_the_printed_one():
    asking = {name for name, body in entries().items() if ASKED.search(body)}
    assert asking == RESTORED
    spoken = {name for name, body in entries().items() if "printed formula" in body}
    assert spoken == RESTORED, "as a question that ends in a question mark"


def test_statements_on_a_restored_formula_are_marked():
    marked = {statement.id for statement in statements() if statement.restored}
    assert marked == ALONE | set(WITH_ERRATUM)
    assert set(WITH_ERRATUM.values()) <= RESTORED
    assert all(statement.restored[-1:] in ("", "?") for statement in statements())
    assert "{restored-formulas}" in PAGES["errata"]


def test_errata_are_listed_by_kind():
    """An entry opens its parts with their kinds, and the list by kind leads to each of them."""
    listed = {kind: set() for kind in KINDS}
    by_kind = PAGES["errata"].partition("(erratum-kinds)=")[2].partition("(erratum-main)=")[0]
    for kind, lines in re.findall(r"^\*\*([\w ]+)\*\*.*\n((?:[: ] .*\n)+)", by_kind, re.MULTILINE):
        listed[kind] |= set(re.findall(r"\(#(erratum-[\w-]+)\)", lines))
    said = {kind: set() for kind in KINDS}
    for name, body in entries().items():
        found = [k for k in KINDS if re.search(rf"(?<!\*)\*{k}\b[^*]*\.\*(?!\*)", body)]
        assert found, f"{name} does not say of which kind it is"
        for kind in found:
            said[kind].add(name)
    assert said == listed


def test_what_rests_on_a_restored_formula_is_no_error_and_no_gap():
    for name in RESTORED:
        assert not re.search(r"(?<!\*)\*(Error|Gap)\b", entries()[name]), name
    for name, body in entries().items():
        if re.search(r"(?<!\*)\*Question\b", body):
            assert name in RESTORED, f"{name}: a question without what to look for"
