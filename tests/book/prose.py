"""Numbers in prose: which of them look measured, and what in the same notebook accounts for them.

nbval compares outputs and never reads a sentence. So every number of a sentence that could be a
result is looked for in what nbval does compare.
"""

from __future__ import annotations

import ast
import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from bs4 import BeautifulSoup

from tools.chapters import figures, read, text
from tools.compare_outputs import PLAIN

#: Numbers that name something: a statement, an equation, a page, an exercise; "3 to 12" too.
NAMED = (
    r"\b(?:Theorem|Lemma|Proposition|Corollar|Remark|Definition|Assumption|Chapter|Section|Appendix|"
    r"[Ee]quation|[Ii]nequalit|Figure|Exercise|[Ee]xercise|Part|part|Step|[Vv]ersion|Python)"
    r"(?:s|y|ies)?\s+\(?\d+(?:\.\d+)*\)?(?:(?:,|\s+and|\s+to|–)\s*\(?\d+(?:\.\d+)*\)?)*"
)
#: What is no prose: code, options of directives, targets of links, HTML, roles, labels, displayed
#: formulas (they define), numbers of equations.
NO_PROSE = (
    r"^\*Paths\.\*[^\n]*$",  # steps of a path, counted
    r"^```+(?:bash|console|json|python|text|toml|yaml)\n.*?^```+ *$",
    r"`[^`\n]*`",
    r"^:[\w-]+:[^\n]*$",
    r"^[ \t]*```+[^\n]*$",
    r"\]\([^)]*\)",
    r"https?://\S+",
    r"\d{4}-\d\d-\d\d",
    r"arXiv:\S+",
    r"<[^>\n]*>",
    r"\$\$.*?\$\$",
    r"\([\w-]+\)=",
    r"\b[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+\b",
    NAMED,
    r"\(\d{1,2}\)(?:\s*(?:–|to|and|,)\s*\(\d{1,2}\))*",
)
#: 0.5, 1024, 16,384, 20 000, 1e-8; not the digits of a name.
NUMBER = re.compile(
    r"(?<![\w.^_{/])(\d{1,3}(?:[, ]\d{3})+(?!\d)|\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w]|\.\d)"
)
#: 3\\cdot10^{-4} in formulas, 3·10⁻⁴ as in outputs.
POWER = re.compile(
    r"(?:(\d+(?:\.\d+)?)(?:\s*\\cdot\s*|·))?10(?:\^\{(-?\d+)\}|\^(\d)|([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
)


@dataclass(frozen=True)
class Quoted:
    """A number of a sentence: as it is written, what it is, and the words around it."""

    literal: str
    value: float
    context: str

    def rounds(self, value: float) -> bool:
        """Whether this is ``value``, rounded to the digits that are written."""
        alone = re.match(r"10[\^⁻⁰¹²³⁴⁵⁶⁷⁸⁹]", self.literal)
        digits = "1" if alone else re.match(r"[\d., ]*", self.literal)[0]
        _, _, fraction = digits.partition(".")
        power = round(math.log10(self.value / float(re.sub("[, ]", "", digits) or 1)))
        half = 0.5 * 10.0 ** (power - len(fraction))
        return abs(value - self.value) <= half * (1 + 1e-9)


def quoted(prose: str) -> list[Quoted]:
    """Numbers that could be measured: all but those of one digit, and those that name something."""
    prose = prose.replace("\\,", " ").replace("\\%", "%").replace("{,}", ",")
    for pattern in NO_PROSE:
        prose = re.sub(pattern, " § ", prose, flags=re.M | re.S)
    found = []
    # a power of ten counts as one number, with its factor
    for m in POWER.finditer(prose):
        value = float(f"{m[1] or 1}e{m[2] or m[3] or m[4].translate(PLAIN)}")
        found.append(Quoted(m[0], value, _around(prose, m)))
    prose = POWER.sub(lambda m: "§" * len(m[0]), prose)
    for m in NUMBER.finditer(prose):
        value = float(re.sub("[, ]", "", m[1]))
        share = re.match(r"\s*(?:%|per cent)", prose[m.end() :])
        if share or "." in m[1] or "e" in m[1] or value >= 10:
            found.append(Quoted(m[1], value, _around(prose, m)))
    return found


def _around(prose: str, match: re.Match) -> str:
    return " ".join(prose[max(0, match.start() - 40) : match.end() + 30].split())


@cache
def words_shown(path: Path) -> str:
    """Everything in the outputs of a notebook that a reader can read: no markup, no pictures."""
    lines = []
    for cell in read(path)["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            page = BeautifulSoup(text(data.get("text/html", "")), "html.parser")
            for hidden in page(["script", "style"]):
                hidden.decompose()
            plain = text(output.get("text", data.get("text/plain", "")))
            lines += [plain, page.get_text(" ")]
    return "\n".join(lines)


def shown(path: Path, literal: str) -> bool:
    """Whether a number stands in an output of a notebook."""
    return bool(re.search(rf"(?<![\d.]){re.escape(literal)}(?!\d|\.\d)", words_shown(path)))


def _constants(node: ast.AST) -> Iterator[float]:
    """Numbers of a program, with products, quotients and powers of them: ``2**14``, ``4 * 25``."""
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and type(child.value) in (int, float):
            yield abs(child.value)
        elif isinstance(child, ast.BinOp) and not any(
            isinstance(inner, (ast.Name, ast.Call, ast.Attribute)) for inner in ast.walk(child)
        ):
            try:
                value = eval(compile(ast.Expression(child), "constants", "eval"))
            except (TypeError, ArithmeticError):
                continue
            if isinstance(value, (int, float)):
                yield abs(value)


@cache
def parameters(path: Path) -> frozenset[float]:
    """The numbers that stand in the code of a notebook, shares in per cent too."""
    code = (cell for cell in read(path)["cells"] if cell["cell_type"] == "code")
    values = {value for cell in code for value in _constants(ast.parse(text(cell["source"])))}
    return frozenset(values | {100 * value for value in values if 0 < value < 1})


@cache
def landmarks(path: Path, name: str) -> frozenset[float]:
    """What a caption can say of a figure, from its data: where series end, turn and cross zero.

    Of short series every value counts, since a reader sees them one by one.
    """
    file = path.parent / "figures" / f"{name}.csv"
    if not file.exists():
        return frozenset()
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    series = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(lines):
        for column, value in row.items():
            number = re.fullmatch(r"-?\d[\d.]*(e[-+]?\d+)?", value)
            if number and column not in ("frame", "series", *"ijkl"):
                series[row.get("frame"), row["series"]][column].append(float(value))
    found = set()
    for columns in series.values():
        for values in columns.values():
            found |= set(values if len(values) <= 64 else (values[0], values[-1]))
            found |= {min(values), max(values)}
        first, *others = map(np.array, columns.values())
        for x, y in ((first, y) for y in others if y.shape == first.shape and len(y) > 2):
            turns = np.flatnonzero(np.diff(np.sign(np.diff(y)))) + 1
            if len(turns) <= 8:  # a curve; the turns of a noisy series are nothing to speak of
                found |= {*x[turns], *y[turns]}
            up = np.flatnonzero(y[:-1] * y[1:] < 0)
            found |= {*(x[up] - y[up] * (x[up + 1] - x[up]) / (y[up + 1] - y[up]))}
    return frozenset(abs(float(value)) for value in found)


@dataclass(frozen=True)
class Sentence:
    """A number of a chapter's prose, with the cell it is in and the figure whose caption it is."""

    path: Path
    cell: str
    number: Quoted
    listed: bool = False
    figure: str | None = None

    @property
    def tied(self) -> bool:
        """Whether an output, a parameter or the data of the figure account for it.

        In a text cell a result must be listed in the metadata (and test_book.py looks for
        what is listed in the outputs). A caption belongs to one figure and needs no list.
        """
        if self.listed or _among(self.number.value, parameters(self.path)):
            return True
        if self.figure is None:
            return False
        return shown(self.path, self.number.literal) or any(
            self.number.rounds(value) for value in landmarks(self.path, self.figure)
        )


def _among(number: float, values: Iterable[float]) -> bool:
    # 10^{-3} and 1e-3, 100 * 0.07 and 7 are rounded differently
    return any(math.isclose(number, value, rel_tol=1e-12) for value in values)


def sentences(path: Path) -> Iterator[Sentence]:
    """Every number of a chapter that could be measured: of its text, captions and alt texts."""
    for cell in read(path)["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        listed = {n.lstrip("-") for n in cell["metadata"].get("mfbook", {}).get("numbers", [])}
        for number in quoted(text(cell["source"])):
            yield Sentence(path, cell["id"], number, number.literal in listed)
    for figure in figures(path):
        for words in (figure.caption, figure.alt):
            for number in quoted(words):
                yield Sentence(path, figure.cell_id, number, figure=figure.name)
