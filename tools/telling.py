"""What ``make test`` says: what it will do, how far it is, and what is wrong with which statement.

Instead of a dot for each test there is a line for each part of the work, now and then. A failure
is told when it happens, in the words of the book: the chapter, the statement, what is stored and
what came, and the command that runs only this again.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from fnmatch import fnmatch

import pytest

from tools.chapters import chapters, check_cells, statement_of, statements
from tools.turns import due, wrong_programs_of

#: Seconds between two lines about one part.
PAUSE = 8.0


def title(chapter: str) -> str:
    """What the book calls a chapter.

    >>> title("06-long-time"), title("04b-certificates"), title("a-sphere-circle")
    ('Chapter 6', 'Chapter 4b', 'Appendix A, circle')
    >>> title("b-primer"), title("b2-attention")
    ('Appendix B', 'Appendix B2')
    """
    first, *rest = chapter.split("-")
    if first[0].isdigit():
        return f"Chapter {first.lstrip('0')}"
    return f"Appendix {first.upper()}" + (f", {rest[-1]}" if first == "a" else "")


def part(nodeid: str) -> str:
    """The part of the work that a test belongs to.

    >>> part("book/06-long-time.ipynb::Cell 3")
    'Chapter 6, outputs'
    >>> part("tests/properties/test_fuzz.py::test_some_changes[f]")
    'wrong arguments'
    >>> part("tests/book/test_chapter_06.py::TestLongTime::test_wrong_program_fails[x]")
    'Chapter 6, wrong programs'
    """
    file = nodeid.split("::")[0]
    if fnmatch(file, "book/*.ipynb"):
        return f"{title(file.removeprefix('book/').removesuffix('.ipynb'))}, outputs"
    if "test_chapter_" in file:
        for path in chapters():
            if file.endswith(wrong_programs_of(path.stem).name):
                return f"{title(path.stem)}, wrong programs"
    if "book/site/" in file:
        return "the site"
    if file.endswith("test_fuzz.py"):
        return "wrong arguments"
    return "units and long tests"


def plan(counts: Counter) -> list[str]:
    """What will be done, in sentences."""
    outputs = [name for name in counts if name.endswith(", outputs")]
    lines = []
    if outputs:
        lines.append(
            f"{len(outputs)} chapters run again; {sum(counts[name] for name in outputs)} cells are "
            "compared with what is stored"
        )
    chosen = {f"{title(chapter)}, wrong programs": why for chapter, why in due().items()}
    todays = [
        f"{name.removesuffix(', wrong programs')} ({chosen.get(name, 'asked for')})"
        for name in counts
        if name.endswith(", wrong programs") and counts[name] > 3
    ]
    if todays:
        lines.append(f"wrong programs that checks have to refuse: {', '.join(todays)}")
    for name in ("units and long tests", "wrong arguments", "the site"):
        if counts[name]:
            lines.append(f"{name}: {counts[name]} tests")
    if len(outputs) > 5:
        lines.append("on two quiet cores about six minutes")
    return lines


def clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock(75.4)
    ' 1:15'
    """
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


def again(nodeid: str) -> str:
    """The command that runs this again, and no more than it needs."""
    file = nodeid.split("::")[0]
    if file.endswith(".ipynb"):
        return f"make test ONLY={file}"
    name = re.sub(r"\[.*", "", nodeid)
    return f"make test ONLY='{name}'"


def note_cells(items: list) -> None:
    """Let the report of a cell say which it is, and which statement it checks."""
    names = {statement.id: f"{statement.number} ({statement.title})" for statement in statements()}
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is None:
            continue
        known = names.get(statement_of(cell.metadata))
        item.user_properties.append(("cell", cell.get("id", "")))
        if known:
            item.user_properties.append(("statement", known))


def gist(traceback: str) -> str:
    """The line of a traceback that says what is wrong.

    >>> gist("def f():\\n>   assert 1 == 2\\nE   assert 1 == 2\\n\\nx.py:3: AssertionError")
    'assert 1 == 2'
    >>> gist("Traceback:\\n\\x1b[31mValueError\\x1b[39m: x: expected 2\\n")
    'ValueError: x: expected 2'
    """
    lines = re.sub("\x1b\\[[0-9;]*m", "", traceback).strip().splitlines()
    marked = [line[2:].strip() for line in lines if line.startswith("E ")]
    errors = [line for line in lines if re.match(r"\w*(Error|Exception|Interrupt)\b", line)]
    return (marked[:1] or errors[-1:] or lines[:1] or ["it failed"])[0]


class Teller:
    """Tells the progress of a run; one for each run, in the process that the user sees."""

    def __init__(self, config):
        self._config = config
        self._start = time.monotonic()
        self._all: Counter = Counter()
        self._done: Counter = Counter()
        self._told: dict[str, float] = {}
        self._held: Counter = Counter()
        self._checks = {f"{title(p.stem)}, outputs": len(check_cells(p)) for p in chapters()}
        self._wrong: list[tuple[str, str, str]] = []

    @property
    def _writer(self):
        return self._config.get_terminal_writer()

    # ------------------------------------------------------------------ what there is

    def pytest_collection_finish(self, session):
        """Without workers: what was collected here."""
        if session.items:
            self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        """With workers, which all collect the same."""
        if not self._all:
            self._begin([nodeid.split("@")[0] for nodeid in ids])

    def _begin(self, nodeids: list[str]) -> None:
        self._all = Counter(map(part, nodeids))
        self._writer.line()
        for line in plan(self._all):
            self._writer.line(f"  - {line}")
        self._start = time.monotonic()

    # ------------------------------------------------------------------ how far it is

    def pytest_report_teststatus(self, report, config):
        """No letters."""
        if report.when != "call" and report.passed:
            return "", "", ""
        word = "error" if report.failed and report.when != "call" else report.outcome
        return word, "", word.upper()

    def pytest_runtest_logreport(self, report):
        """Count it, and tell from time to time."""
        if report.failed:
            self._tell_failure(report)
        if report.when != "call" and not (report.when == "setup" and report.skipped):
            return
        name, facts = part(report.nodeid), dict(report.user_properties)
        self._done[name] += 1
        if "statement" in facts:
            self._held[name] += report.passed
        now = time.monotonic()
        if self._done[name] == self._all[name] or now - self._told.get(name, 0.0) > PAUSE:
            self._told[name] = now
            self._writer.line(f"{clock(now - self._start)}  {self._state(name)}")
            self._writer.flush()

    def _state(self, name: str) -> str:
        done, whole = self._done[name], self._all[name]
        what = "cells" if name.endswith("outputs") else "tests"
        text = f"{name}: {done} of {whole} {what}"
        if name in self._checks:
            text += f", {self._held[name]} of {self._checks[name]} checks hold"
        return text

    # ------------------------------------------------------------------ what is wrong

    def _tell_failure(self, report) -> None:
        facts = dict(report.user_properties)
        where = part(report.nodeid)
        if "cell" in facts:
            where = f"{where.removesuffix(', outputs')}, {facts.get('statement', 'cell')}"
            where += f" [{facts['cell']}]"
        else:
            where = f"{where}: {report.nodeid.split('::')[-1]}"
        what = facts.get("difference") or gist(report.longreprtext)
        said = " ".join(what.split())[:300]
        self._wrong.append((where, said, again(report.nodeid)))
        self._writer.line(f"WRONG  {where}: {self._wrong[-1][1]}", red=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter):
        """Before all details: what is wrong, and how to see only this again."""
        if self._wrong:
            terminalreporter.section("what is wrong", bold=True)
            for where, what, command in dict.fromkeys(self._wrong):
                terminalreporter.line(f"{where}\n    {what}\n    again: {command}")
        return (yield)
