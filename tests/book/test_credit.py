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


def test_every_box_beyond_the_paper_says_whom_it_is_due_to():
    found = {name: boxes(page) for name, page in PAGES.items()}
    wrong = [
        f"{name}, {title}: {what}"
        for name, of_page in found.items()
        for title, inside in of_page
        if (what := credit(inside))
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(map(len, found.values())) >= 40


@pytest.mark.parametrize(
    "last",
    [
        "A statement without one.",
        "**Credit.** New. It is ours alone.",
        "**Credit.** Known. {cite}`x`",
        "**Credit.** Known. By name, long ago.\n\nA paragraph after it.",
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


#: Errata on a restored formula that belong to no single statement.
WITHOUT_STATEMENT = {"letters", "gronwall", "theorem-6-6-5", "2-normalised-flow"}
#: Statements with such a formula of which no entry of the errata depends on it.
ALONE = {
    "hy-assumption-3-2", "hy-equation-19", "hy-equation-26", "hy-theorem-6-6", "hy-theorem-6-10",
    "hy-theorem-7-5", "agr-theorem-3-5",
}  # fmt: skip
KINDS = (
    "Error", "Gap", "Question", "Overstated", "Not needed", "Scope", "Sharpened", "Figure",
    "Wording",
)  # fmt: skip
ASKED = re.compile(r"\*Check in print\*: (?:[^.?]|\.(?=\d))*\?")


def entries() -> dict[str, str]:
    """The entries of the errata page by their anchors."""
    page = PAGES["errata"].partition("(erratum-main)=")[2]
    pieces = re.split(r"^\((erratum-[\w-]+)\)=\n", page, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(body.split())
        for name, body in zip(pieces[::2], pieces[1::2], strict=True)
        if re.match(r"#{3,4} .*\n\*", body)
    }


def asking() -> set[str]:
    """Errata that depend on a formula which our text of the paper lacks: they ask for it."""
    return {name for name, body in entries().items() if ASKED.search(body)}


def test_errata_on_a_restored_formula_ask_for_the_printed_one():
    spoken = {name for name, body in entries().items() if "Check in print" in body}
    assert spoken == asking(), "as a question that ends in a question mark"


def test_statements_on_a_restored_formula_are_marked():
    """Each with an erratum that asks, or among those of which no erratum depends on it."""
    marked = {statement.id for statement in statements() if statement.restored}
    errata = {name.removeprefix("erratum-") for name in asking()}
    assert errata >= WITHOUT_STATEMENT
    errata -= WITHOUT_STATEMENT
    with_erratum = {f"agr-{n[2:]}" if n.startswith("2-") else f"hy-{n}" for n in errata}
    assert marked == ALONE | with_erratum and not ALONE & with_erratum
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
    for name in asking():
        assert not re.search(r"(?<!\*)\*(Error|Gap)\b", entries()[name]), name
    for name, body in entries().items():
        if re.search(r"(?<!\*)\*Question\b", body):
            assert name in asking(), f"{name}: a question without what to look for"
