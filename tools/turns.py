"""What runs by turns: wrong programs whose cells have not changed, and pages in the browser.

That a check fails for a wrong program (``tests/book/test_chapter_*.py``) depends on the cells of
its chapter, on the test, and on the modules of the package that they import. ``seen.json`` beside
them holds a hash of all this for each chapter, from the last time that all its wrong programs were
seen to fail. Where the hash is another one, they all run; where it is the same, they run when it is
the turn of the chapter, one chapter a day, and every week in the weekly tests. ``make wrong`` runs
all of them and writes the file.

Pictures of a chapter that has not changed are drawn on one day of a week. Other tests that run by
turns have the marker ``by_turn``: each of them on one day of a fortnight, or (``one=3``) one of
its cases every three days; ``together=True`` puts all such tests of a file on the same day, where
what they share takes longer than they do. What is named in ``always`` runs every day;
:func:`changed` and :func:`touched` say what the last commit has changed.

    python tools/turns.py            which chapters are due today, and why
    python tools/turns.py --write    write seen.json (make wrong does, when all have failed)
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import mfbook  # noqa: E402
from tools.chapters import BOOK, ROOT, chapters, read, text  # noqa: E402

SEEN = ROOT / "tests" / "book" / "seen.json"
#: A number of a day, or ``all``; set once, so that a run that lasts past midnight stays one run.
VARIABLE = "MFBOOK_TURN"
#: Of the tests that are marked ``by_turn``.
SHARES = 14


def turn() -> int | None:
    """The number of the day, or ``None`` where all are due."""
    today = os.environ.setdefault(VARIABLE, str(datetime.date.today().toordinal()))
    return None if today == "all" else int(today)


def wrong_programs_of(chapter: str) -> Path:
    """The tests with the wrong programs of a chapter.

    >>> wrong_programs_of("06-long-time").name, wrong_programs_of("a-sphere-circle").name
    ('test_chapter_06.py', 'test_chapter_a_circle.py')
    """
    first, *_, last = chapter.split("-")
    name = f"a_{last}" if chapter.startswith("a-sphere") else first
    return ROOT / "tests" / "book" / f"test_chapter_{name}.py"


def has_turn(name: str) -> bool:
    """Whether a test of this name, marked ``by_turn``, runs today: once in fourteen days."""
    day = turn()
    return day is None or (zlib.crc32(name.encode()) + day) % SHARES == 0


def case_of(name: str, count: int, days: int) -> int | None:
    """Which of so many cases of a test with ``by_turn(one=days)`` runs today; -1: none, None: all.

    The name of the test decides on which days one does, so that long tests take turns.
    """
    if (day := turn()) is None:
        return None
    number, rest = divmod(zlib.crc32(name.encode()) % days + day, days)
    return -1 if rest else number % count


def is_drawn(chapter: str) -> bool:
    """Whether the pictures of a chapter are drawn today: if it has changed, and once a week."""
    day, names = turn(), [path.stem for path in chapters()]
    if day is None or chapter not in names or chapter in changed():
        return True
    return names.index(chapter) % 7 == day % 7


def resting(items: list) -> set:
    """Those of pytest's items that are marked ``by_turn`` and wait for another day.

    Only pytest's option ``--turns`` asks (``conftest.py``); without it all run.
    """
    found: set = set()
    series: dict[tuple[str, int], list] = {}
    for item in items:
        mark = item.get_closest_marker("by_turn")
        if mark is None or turn() is None:
            continue
        always = mark.kwargs.get("always")  # names of parameters
        if item.get_closest_marker("weekly"):
            found.add(item)
        elif always and item.callspec.id in always:
            continue
        elif days := mark.kwargs.get("one"):
            series.setdefault((item.nodeid.partition("[")[0], days), []).append(item)
        elif not has_turn(item.path.name if mark.kwargs.get("together") else item.nodeid):
            found.add(item)
    for (name, days), cases in series.items():
        due = case_of(name, len(cases), days)
        found.update(item for number, item in enumerate(cases) if number != due)
    return found


@cache
def _differing() -> tuple[str, ...]:
    """Files that are changed, or were by the last commit; of a copy without a history, none."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "HEAD~1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return tuple(found.splitlines())


def changed() -> frozenset[str]:
    """Chapters that are changed, or were by the last commit."""
    stems = {Path(name).stem for name in _differing() if name.startswith("book/")}
    return frozenset(stems & {chapter.stem for chapter in chapters()})


def touched(*places: str) -> bool:
    """Whether one of these files or folders is changed, or was by the last commit."""
    return any(f"{name}/".startswith(f"{place}/") for name in _differing() for place in places)


@cache
def _code(chapter: Path) -> tuple[str, ...]:
    """Sources of the code cells of a chapter."""
    cells = read(chapter)["cells"]
    return tuple(text(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Files of the package that a file imports, directly."""
    return _imports(path.read_text(encoding="utf-8"), path)


def _statements(body: list) -> Iterator[ast.AST]:
    """Statements and what they contain, without expressions: most of a tree, and no imports."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, part, []))


@cache
def _imports(source: str, path: Path) -> frozenset[Path]:
    found: set[Path] = set()
    if "import" not in source:  # as in most cells
        return frozenset()
    for node in _statements(ast.parse(source).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name != "mfbook"]
        elif isinstance(node, ast.ImportFrom) and node.module == "mfbook" and not node.level:
            # a name of everyday use counts as the module that has it
            homes = {name: getattr(mfbook, name).__module__ for name in mfbook.__all__}
            names = [homes.get(a.name, f"mfbook.{a.name}") for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.parents[node.level - 1].relative_to(ROOT).parts
                base = ".".join([*package, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            place = ROOT.joinpath(*name.split("."))
            if name.startswith("mfbook"):
                found |= set(filter(Path.exists, (place.with_suffix(".py"), place / "__init__.py")))
    return frozenset(found)


def uses(chapter: str) -> list[Path]:
    """Files that the wrong programs of a chapter depend on, beside its cells."""
    return _uses(wrong_programs_of(chapter), BOOK / f"{chapter}.ipynb")


@cache
def _uses(tests: Path, chapter: Path) -> list[Path]:
    cells = (_imports(code, chapter.with_name("cell.py")) for code in _code(chapter))
    waiting = set(_imported(tests)).union(*cells)
    found: set[Path] = set()
    while waiting:
        file = waiting.pop()
        # drawings are replaced or left out where wrong programs run
        if file not in found and "plots" not in file.parts:
            found.add(file)
            waiting |= _imported(file)
    return sorted([tests, ROOT / "tests" / "book" / "chapter_runner.py", *found])


def fingerprint(chapter: str) -> str:
    """Hash of all that the wrong programs of a chapter depend on."""
    code = _code(BOOK / f"{chapter}.ipynb")
    sources = [*code, *(file.read_text(encoding="utf-8") for file in uses(chapter))]
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]


def seen() -> dict[str, str]:
    """The hashes of the last time that all wrong programs failed."""
    return json.loads(SEEN.read_text()) if SEEN.exists() else {}


def due() -> dict[str, str]:
    """Chapters whose wrong programs run, with the reason."""
    known, day, found = seen(), turn(), {}
    for number, path in enumerate(chapters()):
        if known.get(path.stem) != fingerprint(path.stem):
            found[path.stem] = "changed"
        elif day is None or number == day % len(chapters()):
            found[path.stem] = "its turn"
    return found


def main(arguments: list[str]) -> None:
    """Say which are due, or write what has been seen."""
    if "--write" in arguments:
        marks = {path.stem: fingerprint(path.stem) for path in chapters()}
        SEEN.write_text(json.dumps(marks, indent=1) + "\n")
        return
    for chapter, why in due().items():
        print(f"{chapter}: {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
