"""What can be said without running a chapter: documentation, types, style, numbers in prose."""

import importlib
import inspect
import math
import re
import subprocess
import sys
from typing import Protocol

import pytest
from prose import Quoted, quoted, sentences, shown

import mfbook
from companion.experiments import propagation, sphere
from companion.experiments import text as stored_text
from companion.tasks import ALPHABET
from tools.chapters import BOOK, ROOT, chapters, read
from tools.compare_outputs import split

#: A page of timings, which are results of one machine: `make bench` writes it.
TIMINGS = ("trust.md",)
#: A page that quotes the chapters: test_questions.py looks for its numbers there.
QUOTING = ("questions.md",)
#: Pages without code.
PROSE_PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in BOOK.rglob("*.md")
    if path.name not in (*TIMINGS, *QUOTING)
)

# --------------------------------------------------------------------------------------
# the public surface: what the modules export, and the public methods of its classes
# --------------------------------------------------------------------------------------

#: The public modules are those that have a page.
MODULES = [
    name
    for page in sorted((ROOT / "book" / "api").glob("*.md"))
    for name in re.findall(r"automodule:: (\S+)", page.read_text())
    if "experiments" not in name
]
EXPORTED = {
    f"{o.__module__}.{o.__qualname__}": o
    for module in map(importlib.import_module, MODULES)
    for o in (getattr(module, name) for name in getattr(module, "__all__", ()))
    if inspect.isclass(o) or inspect.isfunction(o)
}


def function_of(attribute):
    """The function behind a method, a property or a cached property; None for other attributes."""
    for name in ("__func__", "fget", "func"):
        attribute = getattr(attribute, name, attribute)
    return attribute if inspect.isfunction(attribute) else None


#: Public methods and properties, by the name of their class and their own.
METHODS = {
    (owner, name): function_of(attribute)
    for owner, cls in EXPORTED.items()
    if inspect.isclass(cls)
    for name, attribute in vars(cls).items()
    if not name.startswith("_") and function_of(attribute)
}
PUBLIC = {**EXPORTED, **{f"{owner}.{name}": f for (owner, name), f in METHODS.items()}}


def test_what_is_public_says_what_it_is():
    """One sentence first; what one calls every day also shows how."""
    first = {name: (inspect.getdoc(o) or "").partition("\n\n")[0] for name, o in PUBLIC.items()}
    assert not {name for name, line in first.items() if not re.search(r"[.:?]$", line)}
    everyday = [getattr(mfbook, name) for name in mfbook.__all__]
    functions = [f for f in everyday if inspect.isfunction(f)]
    assert not {f.__name__ for f in functions if ">>>" not in inspect.getdoc(f)}


# --------------------------------------------------------------------------------------
# types and style
# --------------------------------------------------------------------------------------


def unhinted(obj) -> set[str]:
    """Arguments (and "return") of a public function, or of a class, that have no hint."""
    if inspect.isclass(obj):
        # the fields of a dataclass are its hints; a protocol is never called
        fields = "__dataclass_fields__" in vars(obj) or Protocol in obj.__bases__
        if fields or "__init__" not in vars(obj):
            return set()
        obj = obj.__init__
    obj = inspect.unwrap(obj)
    named = {*inspect.signature(obj).parameters, "return"} - {"self", "cls"}
    return named - set(obj.__annotations__)


def test_public_signatures_have_hints():
    assert not {name: unhinted(obj) for name, obj in PUBLIC.items() if unhinted(obj)}


def run(*command) -> None:
    """A tool of the environment, which must find nothing."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.weekly
@pytest.mark.slow
def test_types():
    """Hints agree with the code, and with calls as users write them (typed_use.py)."""
    run("mypy", "--cache-dir", ".mypy_cache")


def test_lint_and_format():
    run("ruff", "check", "--quiet", ".")
    run("ruff", "format", "--check", "--quiet", ".")


# --------------------------------------------------------------------------------------
# every number in prose is tied to something that nbval or another test compares
# --------------------------------------------------------------------------------------

#: Pages beside the chapters hold no results, which would grow old there. What they may say:
PAGES = {
    ("book/errata.md", "2.9"): None,  # an equation of the second paper
    ("book/errata.md", "500"): sphere.PARTICLES[3],
    ("book/notation.md", "1.44"): 1 / math.log(2),
    ("README.md", "4096"): 2**12,  # the figure of Chapter 4 spans this many heads
}
#: What a formula in the metadata of a cell may use: functions, and settings of stored results.
FORMULAS = {
    **vars(math), "round": round, "int": int, "len": len,
    "propagation": propagation, "text": stored_text, "sphere": sphere, "ALPHABET": ALPHABET,
}  # fmt: skip


def follows(number: Quoted, path, formula: str) -> bool:
    """Whether a number is what its formula gives; ``out`` is a number that an output shows."""

    def out(literal):
        assert shown(path, literal), f"{literal} is in no output"
        return float(split(literal)[1][0])

    return number.rounds(eval(formula, {**FORMULAS, "out": out}))


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_numbers_in_prose_are_tied_to_what_is_compared(path):
    """Each is listed in its cell, a parameter, in the data of its figure, or follows from others.

    The metadata of the cell say what it follows from (``derived``: a formula for each), and
    which numbers name statements or equations (``names``: a pattern).
    """
    own = {cell["id"]: cell["metadata"].get("mfbook", {}) for cell in read(path)["cells"]}
    unused = {(name, number) for name, about in own.items() for number in about.get("derived", ())}
    untied = []
    for sentence in sentences(path):
        number, about = sentence.number, own[sentence.cell]
        if formula := about.get("derived", {}).get(number.literal):
            unused.discard((sentence.cell, number.literal))
            tied = follows(number, path, formula)
        else:
            names = about.get("names")
            tied = sentence.tied or (names and re.fullmatch(names, number.literal))
        if not tied:
            untied.append(f"{sentence.cell}: {number.literal} in '... {number.context} ...'")
    assert not untied, "\n".join(untied)
    assert not unused, "not in the text any more"


def test_pages_beside_the_chapters_hold_no_results():
    """Numbers of statements and equations stand in the columns of notation.md; it has no others."""
    for page in ["README.md", *PROSE_PAGES]:
        prose = (ROOT / page).read_text(encoding="utf-8")
        if page.endswith("notation.md"):
            prose = re.sub(r"\|[ (]*\d+\.\d+\)?(?:, \(?\d+\.\d+\)?)* (?=\|)", "| ", prose)
        if page.endswith("index.md"):  # minutes of a path
            prose = re.sub(r"\(\d+ min\)", "", prose)
        for number in quoted(prose):
            assert (page, number.literal) in PAGES, (page, number)
            value = PAGES[page, number.literal]
            assert value is None or number.rounds(value), (page, number)


def test_a_measured_number_is_found_wherever_it_stands():
    found = quoted(
        "The slope is $-0.498$ (Theorem 4.1, {eq}`eq-7`), within 3 % of [0.5](x-0.7.html), at "
        "most $3\\cdot10^{-4}$ or 2·10⁻⁷, for 16,384 windows; `0.9` and $$0.8$$ and (17) and 7 "
        "are not results."
    )
    assert [n.literal for n in found] == [r"3\cdot10^{-4}", "2·10⁻⁷", "0.498", "3", "0.5", "16,384"]
    assert [n.value for n in found] == [3e-4, 2e-7, 0.498, 3, 0.5, 16384]
