"""The page of questions: links lead somewhere; numbers and formulas stand where they lead.

An answer is as strong as the page that it is taken from as long as that page says it. So numbers
have to stand in what the linked pages print, formulas in their text.
"""

import re
from functools import cache
from pathlib import Path

from prose import parameters, quoted, shown

from tools.chapters import BOOK, chapters, check_cells, read, text

PAGE = BOOK / "questions.md"
QUESTION = re.compile(
    r"^\((?P<anchor>[^)\n]*)\)=\n### (?P<heading>.+)\n\n"
    r"```\{index\} (?P<words>.+)\n```\n\n(?P<answer>(?:.+\n)+)"
    r"\n\*(?:In numbers|As a formula|The (?:command|rule|list)):\* (?P<decides>(?:.+\n)*?.*?)"
    r"\s\*Where:\*\s(?P<shown>(?:.+\n)+)",
    re.M,
)
FORMULA = re.compile(r"\$([^$]+)\$")
LINK = re.compile(r"\[[^\]]*\]\(#([^)\s]+)\)")
DOCUMENT = re.compile(r"\{doc\}`(?:[^`<]*<)?([\w-]+)>?`")
TERM = re.compile(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`", re.S)
#: A symbol with the value that it is given: no claim, and the value is looked for as a number.
VALUE = re.compile(r"-?[\d./]+|[\\a-zA-Z]+=[\d./]+|[\\a-zA-Z]+=\\frac\d\d")


# --------------------------------------------------------------------------------------
# what the pages of the book define and say
# --------------------------------------------------------------------------------------


@cache
def words(page: Path) -> str:
    """The text of a page, without outputs."""
    if page.suffix == ".md":
        return page.read_text(encoding="utf-8")
    cells = (cell for cell in read(page)["cells"] if cell["cell_type"] == "markdown")
    return "\n\n".join(text(cell["source"]) for cell in cells)


@cache
def homes() -> dict[str, set[Path]]:
    """The pages on which a label is defined. Sphinx looks labels up in small letters."""
    found: dict[str, set[Path]] = {}
    for page in [*chapters(), *sorted(BOOK.glob("*.md"))]:
        if page == PAGE:
            continue
        names = re.findall(r"^\(([\w-]+)\)=$|^:(?:label|name): (\S+)$", words(page), re.M)
        labels = [first or second for first, second in names]
        if page.suffix == ".ipynb":
            labels += [cell.anchor for cell in check_cells(page)]
        for label in labels:
            found.setdefault(label.lower(), set()).add(page)
    return found


@cache
def terms() -> set[str]:
    """The words of the glossary."""
    entries = words(BOOK / "notation.md").partition("```{glossary}")[2]
    return {line.lower() for line in entries.splitlines() if re.match(r"\S", line)}


def plain(formula: str) -> str:
    """A formula without what only sets it: spaces, sizes of brackets and fractions."""
    formula = re.sub(r"\\(?:[,;:! ]|(?:big|Big|bigg|Bigg|left|right)(?![a-z])[lr]?)", "", formula)
    formula = re.sub(r"\\[dt]frac", r"\\frac", formula)
    return re.sub(r"[\s&]", "", formula)


@cache
def formulas(page: Path) -> str:
    return plain(words(page))


def says(page: Path, literal: str) -> bool:
    """Whether a page prints a number, computes with it, or has it in its text."""
    if page.suffix == ".md":
        return bool(re.search(rf"(?<![\d.]){re.escape(literal)}(?!\d|\.\d)", words(page)))
    return (
        shown(page, literal)
        or shown(page, f"{literal}.0")
        or any(float(literal) == value for value in parameters(page))
    )


# --------------------------------------------------------------------------------------
# the rules
# --------------------------------------------------------------------------------------


def problems(page: str) -> list[str]:
    """What is wrong with the page of questions."""
    found = list(QUESTION.finditer(page))
    wrong = [f"{len(found)} questions"] if len(found) < 55 else []
    if len(found) != len(re.findall(r"^### ", page, re.M)):
        wrong.append(
            "a question has no answer, nothing that decides, or no place where it is shown"
        )
    for part in ("anchor", "heading", "answer"):
        told = [" ".join(m[part].lower().split()) for m in found]
        wrong += [f"twice: {one}" for one in sorted(set(told)) if told.count(one) > 1]
    wanted = [word.lower() for m in found for word in searched(m)]
    wrong += [f"twice in the index: {one}" for one in set(wanted) if wanted.count(one) > 1]
    introduced = page.partition("**Symbols.**")[2].partition("\n## ")[0]
    symbols = plain(introduced)
    for formula in map(plain, FORMULA.findall(introduced)):
        if "=" in formula and not any(formula in formulas(chapter) for chapter in chapters()):
            wrong.append(f"no chapter has the formula {formula}")
    for m in found:
        name = m["anchor"]
        wrong += [f"{name}: {what}" for what in of_one(m, symbols)]
    return wrong


def searched(m: re.Match) -> list[str]:
    """The words under which a question stands in the index, where search looks first."""
    return [word.strip().removeprefix("! ") for word in m["words"].split(",")]


def of_one(m: re.Match, symbols: str) -> list[str]:
    """What is wrong with one question."""
    wrong = [] if re.fullmatch(r"q(-[a-z0-9]+)+", m["anchor"]) else ["its anchor"]
    if not all(word.strip().startswith("! ") for word in m["words"].split(",")):
        wrong.append("words of the index that search does not put first")
    if m["heading"].replace(",", "") not in searched(m):
        wrong.append("not in the index")
    prose = FORMULA.sub("X", TERM.sub(r"\1", m["answer"]))
    if len(prose.split()) > 60:
        wrong.append(f"{len(prose.split())} words")
    if len(sentences := re.split(r"(?<=[.?])\s+(?=[A-Z])", prose.strip())) != 2:
        wrong.append(f"{len(sentences)} sentences")
    if not re.search(r"[$`\d]|\]\(#", m["decides"]):
        wrong.append("no number and no formula decides")
    whole = m["answer"] + m["decides"] + m["shown"]
    pages: set[Path] = set()
    for label in LINK.findall(whole):
        home = homes().get(label.lower(), set())
        if not home:
            wrong.append(f"no anchor {label}")
        pages |= home
    for document in DOCUMENT.findall(whole):
        here = [
            path for path in (BOOK / f"{document}.md", BOOK / f"{document}.ipynb") if path.exists()
        ]
        pages.update(here)
        wrong += [] if here else [f"no page {document}"]
    wrong += [f"no word {word}" for word in map(" ".join, map(str.split, TERM.findall(whole)))
              if word.lower() not in terms()]  # fmt: skip
    if not LINK.search(m["shown"]) and not DOCUMENT.search(m["shown"]):
        wrong.append("no link says where it is shown")
    claims = m["answer"] + m["decides"]
    given = {number.literal for number in quoted(m["heading"])}
    for number in quoted(claims):
        if number.literal not in given and not any(says(page, number.literal) for page in pages):
            wrong.append(f"no linked page prints {number.literal}: '... {number.context} ...'")
    for formula in map(plain, FORMULA.findall(claims)):
        where = [symbols, *map(formulas, pages)]
        if not VALUE.fullmatch(formula) and not any(formula in source for source in where):
            wrong.append(f"no linked page has the formula {formula}")
    return wrong


def test_answers_are_short_and_stand_where_they_lead():
    wrong = problems(PAGE.read_text(encoding="utf-8"))
    assert not wrong, "\n".join(wrong)
