r"""The paths through the book on its first page: how long they take, and what they leave undefined.

A path is a numbered list under a heading of ``book/index.md``; each of its steps is a link to a
place, or to a whole page, with its minutes. What is read at a place is the section around it: from
its heading to the next, without what is folded (solutions, proofs in dropdowns, code). Two hundred
words take a minute, a formula in the line is a word, a displayed one ten, a figure takes 20 s.

A symbol of a path has to be introduced in the paragraph where it is first used, or before, or at
the step itself: *the risk $R$*, *$M$ heads*, *let $M$ ...*, *where $B$ bounds ...*, *$S=...$*, or
by a link to its row on the page of notation. Of a whole page also what it introduces later counts,
and the rows that are linked at its head.

    python tools/paths.py            # minutes and missing symbols of each step
    python tools/paths.py --write    # put both into book/index.md
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

for folder in (
    Path(__file__).resolve().parents[1],
    Path(__file__).resolve().parents[1] / "book/_ext",
):
    sys.path.insert(0, str(folder))
import reading  # noqa: E402

from tools.chapters import BOOK, read, text  # noqa: E402

#: A reader's words in a minute, and minutes for a figure.
WORDS, FIGURE = 200, 1 / 3
#: A step of a path: number, link to a place or a page, minutes, and what else is said.
STEP = re.compile(
    r"^\d+\. (?:\[(?P<words>[^\]]+)\]\(#(?P<anchor>[\w-]+)\)|\{doc\}`(?P<page>[^`]+)`)"
    r" \((?P<minutes>\d+) min\)(?P<rest>.*(?:\n   .*)*)",
    re.MULTILINE,
)
HEADING = re.compile(r"^#{1,4} ", re.MULTILINE)
#: Fences that are folded on the page, or are exercises and code.
FOLDED = re.compile(
    r"^(?P<fence>`{3,}|:{3,})(?P<head>\{[\w:-]+\}[^\n]*\n(?:(?:^:[\w-]+:[^\n]*|\s*)\n)*)"
    r".*?^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
MATH = re.compile(r"\$\$(?P<shown>.+?)\$\$|\$(?P<inline>[^$]+?)\$", re.DOTALL)


# --- what is read -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A stretch of a page without a heading inside: its text, figures, and what leads to it."""

    text: str
    figures: int
    anchors: frozenset[str]


def without_folds(source: str) -> str:
    r"""Markdown without exercises, solutions and what a page folds.

    >>> without_folds("Open.\n```{solution} x\n:class: dropdown\nClosed.\n```\nOpen.")
    'Open.\n\nOpen.'
    """

    def keep(fence: re.Match) -> str:
        kind = fence["head"]
        closed = re.match(r"\{(?:exercise|solution|code|raw)", kind) or "dropdown" in kind
        return "" if closed else fence[0]

    return FOLDED.sub(keep, source)


def slug(heading: str) -> str:
    """The anchor that MyST gives a heading."""
    plain = re.sub(r"\{\w+\}`([^`<]*?)(?: <[^>]*>)?`", r"\1", heading.lower())
    return re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")


def pieces(page: str, book: Path = BOOK) -> list[Piece]:
    """The sections of a page in their order."""
    notebook = book / f"{page}.ipynb"
    cells = (
        read(notebook)["cells"]
        if notebook.exists()
        else [{"cell_type": "markdown", "source": (book / f"{page}.md").read_text("utf-8")}]
    )
    found: list[Piece] = []
    words, figures, anchors = [], 0, set()

    def close() -> None:
        if words:
            found.append(Piece("\n\n".join(words), figures, frozenset(anchors)))

    for cell in cells:
        source = text(cell["source"])
        if cell["cell_type"] != "markdown":
            own = cell["metadata"].get("mystnb", {}).get("figure", {})
            if own:
                words.append(own.get("caption", ""))
                anchors.add(own.get("name"))
            figures += bool(own) or bool(re.search(r"plots\.(frames|explorable)\(", source))
            if statement := cell["metadata"].get("mfbook", {}).get("statement"):
                anchors.add(f"check-{statement}")
            if cell["metadata"].get("mfbook", {}).get("open"):
                words.append(re.sub(r"[^\w\s#]", " ", source).replace("#", ""))
            continue
        # a label stands on the line before its heading
        parts = re.split(
            r"^(?=(?:\([\w-]+\)=\n)+#{1,4} )|^(?<!\)=\n)(?=#{1,4} )", source, flags=re.MULTILINE
        )
        for i, part in enumerate(parts):
            if re.match(r"(?:\([\w-]+\)=\n)*#{1,4} ", part):
                close()
                words, figures, anchors = [], 0, set()
                anchors.add(slug(re.search(r"^#{1,4} (.*)", part, re.MULTILINE)[1]))
            elif i == 0 and not part.strip():
                continue
            for match in re.finditer(
                r"^\(([\w-]+)\)=$|^:(?:label|name): (\S+)", part, re.MULTILINE
            ):
                anchors.add(match[1] or match[2])
            figures += len(re.findall(r"^```\{figure\}", part, re.MULTILINE))
            words.append(without_folds(part))
    close()
    return found


def where(anchor: str, book: Path = BOOK) -> tuple[str, Piece]:
    """The page and the section that an anchor leads to."""
    pages = sorted(path.stem for path in [*book.glob("*.ipynb"), *book.glob("*.md")])
    for page in pages:
        for piece in pieces(page, book):
            if anchor in piece.anchors:
                return page, piece
    raise ValueError(f"{anchor}: on no page")


def whole(page: str, book: Path = BOOK) -> Piece:
    """A page up to its exercises."""
    found = pieces(page, book)
    last = next((i for i, p in enumerate(found) if "exercises" in p.anchors), len(found))
    return Piece(
        "\n\n".join(p.text for p in found[:last]),
        sum(p.figures for p in found[:last]),
        frozenset().union(*(p.anchors for p in found[:last])),
    )


def plain(source: str) -> str:
    """Markdown as it is read: no labels, options, roles and addresses."""
    source = re.sub(
        r"^(?:`{3,}|:{3,})(?:\{[\w:-]+\})?|^:[\w-]+:.*$|^\([\w-]+\)=$", " ", source, flags=re.M
    )
    source = re.sub(r"\{[\w:]+\}`([^`<]*?)(?: ?<[^>`]*>)?`", r"\1", source)
    source = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)]*)\)", r"\1", source)
    return re.sub(r"<[a-z/][^>\n]*>", "", source)


def minutes(piece: Piece) -> float:
    """How long a section takes to read.

    >>> round(minutes(Piece("word " * 400, 3, frozenset())), 1)
    3.0
    """
    read_ = plain(piece.text)
    shown = len(re.findall(r"\$\$.+?\$\$", read_, re.DOTALL))
    words = MATH.sub(lambda m: " formula ", read_)
    return (
        len(re.findall(r"[\w’'-]*[A-Za-z0-9][\w’'-]*", words)) + 9 * shown
    ) / WORDS + FIGURE * piece.figures


# --- symbols ------------------------------------------------------------------------------------

#: Everyone's symbols: sets, derivatives, Landau's, the identity, letters that count or integrate.
UNIVERSAL = set("d e i j l m n o s t u x I O".split()) | set(
    r"\mathbb{R} \mathbb{N} \mathbb{E} \mathbb{P} \mathbf{1} \pi \partial \nabla".split()
)
GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma "
    "tau phi varphi chi psi omega ell Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega partial "
    "nabla"
).split()
LETTER = r"\\math\w+\{\w\}|\\(?:" + "|".join(GREEK) + r")(?![A-Za-z])|[A-Za-z]"
SYMBOL = re.compile(rf"(?:{LETTER})(?:_<\w+>)?(?:\^\*)?")
#: What is no symbol: names of operators, words, environments; accents; spaces.
NO_SYMBOL = re.compile(
    r"\\(?:operatorname|text|mathrm|textrm|begin|end|tag|label|hspace)\*?\{[^{}]*\}"
    r"|\\(?!math)(?!(?:" + "|".join(GREEK) + r")(?![A-Za-z]))[A-Za-z]+|\\[,;:! |]|&"
)


def symbols(formula: str) -> list[str]:
    r"""The symbols of a formula in their order; a label or a star makes another, an index does not.

    >>> symbols(r"R(\mu)=\mathbb E\frac1T\sum_t\ell(f_t,y_t)")
    ['R', '\\mu', '\\mathbb{E}', 'T', '\\ell', 'f', 'y']
    >>> symbols(r"\lambda_c,\ W_Q,\ \theta^*_{i+1},\ \delta_{\theta_i},\ \operatorname{tr}A^\top")
    ['\\lambda_<c>', 'W_<Q>', '\\theta^*', '\\delta', 'A']
    """
    formula = re.sub(r"(\\math(?:bb|cal|bf))\s*\{?\s*(\w)\}?", r"\1{\2}", formula)
    formula = re.sub(r"\^\{?(?:\\top|\\ast)\}?", "", formula)
    formula = re.sub(
        r"_\{?(?:\\(?:rm|mathrm)\b\s*\{?)?\s*([QKVOUXc]|conf)\}{0,2}(?![a-z])",
        r"_<\1>",
        formula,
    )
    index = r"_(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\[A-Za-z]+|\w)"
    formula = re.sub(
        rf"(\^\{{?\*\}}?)?{index}(\^\{{?\*\}}?)?", lambda m: "^*" if m[1] or m[2] else " ", formula
    )
    formula = NO_SYMBOL.sub(" ", re.sub(r"\^\{\*\}", "^*", formula))
    return list(dict.fromkeys(SYMBOL.findall(formula)))


#: Words before a formula that introduce its first symbol.
LET = (
    r"\b(?:[Ll]et|[Ww]here|[Ww]ith|[Ff]or|[Ff]rom|some|any|every|each|all|no|is|are|be|called"
    r"|[Ww]rite|namely|say)"
)
#: An article, a number or a preposition, some words, the last of which is a noun: "the radius".
NOUN = (
    r"\b(?:[Tt]he|[Aa]n?|[Ii]ts|[Tt]heir|[Oo]ne|[Ss]ome|[Ee]ach|[Ee]very|[Aa]ny|[Tt]wo|[Oo]ur"
    r"|[Tt]hat|[Oo]f|in|at|by|with|[Ff]or|and)(?: [\w’'*-]+){0,4}? "
    r"(?!(?:of|in|by|than|at|to|from|and|or|is|are|with|for|times|the|an?|its|most|least)\b)"
    r"[\w’'*-]+\*?,?"
)
#: Words after a formula that say what its first symbol is.
AFTER = (
    r"(?:,? (?:is|are|be|denotes|bounds|counts|has|says|measures|means|stands|puts)\b"
    r"|,? (?:the|an?|two|four|its)\b|: )"
)
#: Sides of an equation that define the left one.
DEFINES = re.compile(r":=|=|\\in\b|\\sim\b|\\equiv\b")
RELATION = re.compile(r"=|\\[gl]eq?\b|[<>]|\\in\b|\\succeq|\\to\b|\\subset")


def without_arguments(formula: str) -> str:
    """A formula without what stands in brackets."""
    return re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", formula)


def introduced(block: str) -> set[str]:
    r"""The symbols that a paragraph introduces.

    >>> sorted(introduced(r"Draw $M$ heads. The risk $R$ is at most $C/M$, where $C$ is big."))
    ['C', 'M', 'R']
    >>> sorted(introduced(r"A head is $\theta=(W_Q,W_K)$, and $S=XW_Q$."))
    ['S', 'W_<K>', 'W_<Q>', '\\theta']
    >>> introduced(r"It is at most $C/\sqrt M$, and $\kappa/M$ in the end.")
    set()
    >>> introduced(r"A number [$\kappa$](#symbol-kappa) decides.")
    {'\\kappa'}
    """
    found = {
        name
        for words in re.findall(r"\[([^\]]*)\]\((?:notation\.\w+)?#symbol-[\w-]+\)", block)
        for formula in MATH.findall(words)
        for name in symbols(formula[0] or formula[1])
    }
    block = " ".join(plain(block).split())
    for match in MATH.finditer(block):
        formula = (match["shown"] or match["inline"]).strip()
        before, after = block[: match.start()].rstrip(" (*"), block[match.end() :]
        # each equation of a list, or of lines, has a left side of its own
        for part in re.split(r"\\\\|,\s*\\q?quad|,\\ ", formula):
            left, *right = DEFINES.split(part.replace("&", ""), maxsplit=1)
            defined = symbols(without_arguments(RELATION.split(left)[-1]))
            if right and len(defined) == 1:
                found |= set(defined)
                parts = re.fullmatch(r"\s*\\?[({]?\(?((?:[^,()]+,)+[^,()]+)\)\s*", right[0])
                found |= set(symbols(parts[1])) if parts else set()
            found |= set(symbols(part.split("=:")[1])[:1]) if "=:" in part else set()
            if re.fullmatch(r"(?:[^=]+=){2,}\s*\d+\s*", part):  # d = k = v = 1
                found |= set(symbols(part))
        left = RELATION.split(formula)[0]
        named = [name for name in symbols(left) if name not in UNIVERSAL]
        if not named or re.search(r"[/+]|\\(?:frac|int|sum|nabla|sqrt)", left):
            continue
        counted = formula == symbols(left)[0] and re.match(
            r" (?!times|is|has|was|as)[a-z]+s\b", after
        )
        if re.search(rf"(?:{LET}|{NOUN})$", before) or re.match(AFTER, after) or counted:
            listed = "," in left and ("(" not in left or left.startswith("("))
            found |= set(named if listed else named[:1])
            sides = map(symbols, map(without_arguments, RELATION.split(formula)))
            found |= {side[0] for side in sides if len(side) == 1}
    return found


def used(block: str) -> list[str]:
    """The symbols of a paragraph that not everyone knows, in their order."""
    formulas = [m["shown"] or m["inline"] for m in MATH.finditer(plain(block))]
    names = dict.fromkeys(name for formula in formulas for name in symbols(formula))
    return [name for name in names if name not in UNIVERSAL]


def rows(book: Path = BOOK) -> list[tuple[str, str, str]]:
    """The symbols of the page of notation: each with the anchor of its row and its chapter."""
    return [
        (name, anchor, chapter)
        for symbol, anchor, chapter in reading.symbols(book)
        for formula in MATH.finditer(symbol)
        for name in symbols(re.split(r"=|\\in\b", formula["inline"])[0])
    ]


def missing(piece: Piece, known: set[str]) -> list[str]:
    """The symbols that a section uses and that it does not introduce by then; adds to ``known``."""
    lacking: dict[str, None] = {}
    blocks = re.split(r"\n\s*\n", piece.text)
    for i, block in enumerate(blocks):
        # a displayed formula belongs to the sentence around it
        around = "\n\n".join(blocks[max(i - 1, 0) : i + 2]) if "$$" in block else block
        if i + 1 < len(blocks) and blocks[i + 1].lstrip().startswith("$$"):
            around = "\n\n".join(blocks[i : i + 3])
        known |= introduced(around)
        lacking.update((name, None) for name in used(block) if name not in known)
    return list(lacking)


# --- the paths ----------------------------------------------------------------------------------


@dataclass
class Step:
    """A step of a path: its link, what it says, and what is found at the place."""

    name: str
    anchor: str
    minutes: int
    rest: str
    page: str = ""
    found: float = 0.0
    missing: list[str] = field(default_factory=list)


def paths(book: Path = BOOK) -> dict[str, list[Step]]:
    """The paths of the first page, by their names."""
    source = (book / "index.md").read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"^### ", source, flags=re.MULTILINE)[1:]:
        name, _, inside = part.partition("\n")
        inside = HEADING.split(inside)[0]
        steps = [
            Step(m["words"] or m["page"], m["anchor"] or m["page"], int(m["minutes"]), m["rest"])
            for m in STEP.finditer(inside)
        ]
        if steps:
            found[name] = walk(steps, inside[: STEP.search(inside).start()], book)
    return found


def walk(steps: list[Step], opening: str, book: Path) -> list[Step]:
    """Read the steps of a path in their order."""
    known = introduced(opening)
    for step in steps:
        known |= introduced(step.rest)
        if (book / f"{step.anchor}.ipynb").exists() or (book / f"{step.anchor}.md").exists():
            step.page, piece = step.anchor, whole(step.anchor, book)
            # the head of a chapter has a link to the row of each symbol that enters there
            chapter = step.anchor.lstrip("0")[0].upper()
            known |= {name for name, _, here in rows(book) if here == chapter}
            for block in re.split(r"\n\s*\n", piece.text):
                known |= introduced(block)
        else:
            step.page, piece = where(step.anchor, book)
        step.found = minutes(piece)
        step.missing = missing(piece, known)
    return steps


def main(arguments: list[str]) -> None:
    """Print what is found; with ``--write`` put the minutes in."""
    table = {name for name, _, _ in rows()}
    source = (BOOK / "index.md").read_text(encoding="utf-8")
    for name, steps in paths().items():
        said, found = sum(step.minutes for step in steps), sum(step.found for step in steps)
        print(f"{name}: {said} minutes, found {found:.0f}")
        for step in steps:
            lacking = ", ".join(s if s in table else f"{s} (no row)" for s in step.missing)
            print(f"  {step.minutes:4} {step.found:5.1f}  {step.page}#{step.anchor}  {lacking}")
            new = max(1, round(step.found))
            if "--write" in arguments:
                link = f"](#{step.anchor})" if f"](#{step.anchor})" in source else f"`{step.name}`"
                old = f"{link} ({step.minutes} min)"
                source = source.replace(old, f"{link} ({new} min)", 1)
    if "--write" in arguments:
        (BOOK / "index.md").write_text(source, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
