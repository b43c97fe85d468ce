"""What ``make test`` says, which wrong programs it runs, and how files are given to workers."""

import datetime
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools import turns, undrawn
from tools.chapters import BOOK, ROOT, chapters, read, text

pytest_plugins = "pytester"
CONFTEST = (ROOT / "conftest.py").read_text()
INI = "[pytest]\nmarkers =\n    " + "\n    ".join(
    f"{name}: m" for name in ("wrong_program", "slow", "browser", "weekly", "usual")
)
#: Of a chapter: what is run and what is stored.
CELLS = [
    ("x = 3\nprint(x)", "3"),
    ("print(0.25)", "0.75"),
    ("assert x == 4, 'not four'", ""),
    ("from mfbook.book.report import Check, at_most", ""),
    (
        "result = Check('a', (at_most('gap', 3, 2), at_most('ok', 1, 2)))\n"
        "assert result.holds, result.reason",
        "",
    ),
]


@pytest.mark.slow
@pytest.mark.by_turn
@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.weekly)])
def test_failures_are_told_by_statement_with_the_command_that_shows_them_again(
    pytester, monkeypatch, workers
):
    from nbformat import v4, write

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    cells = [
        v4.new_code_cell(
            source, execution_count=i, id=f"cell-{i}",
            metadata={"mfbook": {"statement": "hy-theorem-4-1"}} if i in (2, 5) else {},
            outputs=[v4.new_output("stream", name="stdout", text=shown + "\n")] if shown else [],
        )
        for i, (source, shown) in enumerate(CELLS, 1)
    ]  # fmt: skip
    write(v4.new_notebook(cells=cells), pytester.mkdir("book") / "04-static.ipynb")
    pytester.makepyfile(test_one="def test_one():\n    assert 1 == 2, 'one is not two'\n")
    options = ("--words", "--nbval", "--nbval-current-env", "-q", "-n", workers)
    done = pytester.runpytest_subprocess(*options, "book", "test_one.py")
    out = done.stdout.str()
    done.assert_outcomes(passed=2, failed=4)
    first = out[out.index("what is wrong =") :]
    assert first.index("Chapter 4, Theorem 4.1") < first.index("FAILURES")
    for words in (
        "[cell-2]", "stored 0.75, fresh 0.25", "again: make test ONLY=book/04-static.ipynb",
        "AssertionError: not four", "gap: 3, stated <= 2",
        "again: make test ONLY='test_one.py::test_one'",
    ):  # fmt: skip
        assert words in first
    assert "ok:" not in first
    assert "WRONG  units and long tests: test_one: AssertionError: one is not two" in out
    assert "Chapter 4, outputs: 5 of 5 cells" in out


TRACE = """
import os, time, pytest

pytestmark = pytest.mark.{mark}


@pytest.mark.parametrize("i", range(3))
def test_leaves_a_trace(i):
    with open("{folder}/trace", "a") as file:
        file.write(f"{name} {{os.environ['PYTEST_XDIST_WORKER']}} {{i}}\\n")
    time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.by_turn
def test_files_stay_together_and_long_ones_come_first(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    marks = {"test_a": "usual", "test_b": "usual", "test_c": "slow", "test_d": "slow"}
    for name, mark in marks.items():
        code = TRACE.format(mark=mark, folder=pytester.path, name=name)
        pytester.makepyfile(**{name: code})
    pytester.runpytest("-n", "2").assert_outcomes(passed=12)
    rows = [line.split() for line in (pytester.path / "trace").read_text().splitlines()]
    for name in marks:
        assert [i for file, _, i in rows if file == name] == ["0", "1", "2"]
        assert len({worker for file, worker, _ in rows if file == name}) == 1
    first = {worker: file for file, worker, _ in reversed(rows)}
    assert sorted(first.values()) == ["test_c", "test_d"]


def test_wrong_programs_are_due_when_they_have_changed_and_one_chapter_a_day(monkeypatch, tmp_path):
    monkeypatch.setattr(turns, "SEEN", tmp_path / "seen.json")
    turns.main(["--write"])
    today, found = datetime.date(2026, 11, 22).toordinal(), []
    for day in range(today, today + len(chapters())):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        assert list((due := turns.due()).values()) == ["its turn"]
        found += due
    assert sorted(found) == [path.stem for path in chapters()]
    (tmp_path / "seen.json").write_text(str(turns.seen() | {found[0]: "another"}).replace("'", '"'))
    assert turns.due() == {found[0]: "changed", found[-1]: "its turn"}
    monkeypatch.setenv(turns.VARIABLE, "all")
    assert len(turns.due()) == len(found)


def test_other_turns_come_once_a_fortnight(monkeypatch):
    names = [f"tests/book/site/test_access.py::test_page[{i}.html]" for i in range(70)]
    found = []
    for day in range(100, 100 + turns.SHARES):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        found += (todays := list(filter(turns.has_turn, names)))
        assert len(todays) < 15
    assert sorted(found) == sorted(names)
    monkeypatch.setenv(turns.VARIABLE, "all")
    assert all(map(turns.has_turn, names)) and turns.case_of("test_page", 26, 1) is None


@pytest.mark.parametrize("together, most", [(True, {0, 6}), (False, {0, 1, 2, 3})])
def test_what_belongs_together_comes_on_one_day(monkeypatch, together, most):
    @dataclass(frozen=True)
    class Item:
        nodeid: str
        path: Path = Path("test_note.py")

        def get_closest_marker(self, name):
            return pytest.mark.by_turn(together=together).mark if name == "by_turn" else None

    items = [Item(f"test_note.py::test_{i}") for i in range(6)]
    found = []
    for day in range(100, 100 + turns.SHARES):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        found.append(len(items) - len(turns.resting(items)))
    assert sum(found) == len(items) and set(found) <= most


@pytest.mark.parametrize("days", [1, 3])
def test_one_case_comes_in_so_many_days(monkeypatch, days):
    found = []
    for day in range(1000, 1000 + 26 * days):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        found.append(turns.case_of("test_page", 26, days))
    assert sorted(found) == [-1] * 26 * (days - 1) + list(range(26))
    due = [day for day, case in enumerate(found) if case >= 0]
    assert due == list(range(due[0], len(found), days))


def test_pictures_are_drawn_once_a_week_and_where_chapters_changed(monkeypatch):
    names, found = [path.stem for path in chapters()], []
    changed = turns.changed()
    for day in range(200, 207):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        todays = set(filter(turns.is_drawn, names))
        assert changed <= todays
        found += todays - changed
    assert sorted(found) == sorted(set(names) - changed)
    assert turns.is_drawn("no-chapter")
    monkeypatch.setenv(turns.VARIABLE, "all")
    assert all(map(turns.is_drawn, names))


def test_a_picture_that_is_not_drawn_has_its_size_its_data_and_nothing_on_it(tmp_path):
    draw = (
        "from mfbook.book.plots import curves; "
        "p = curves([{'x': [0, 1], 'y': [2.0, 3.0], 'label': 'risk'}], xlabel='t', ylabel='R'); "
        "import io; from PIL import Image; "
        "image = Image.open(io.BytesIO(p.png)).convert('L'); "
        "print(image.size, p.size, p.data); print(image.getextrema())"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", line], capture_output=True, text=True, check=True, cwd=tmp_path
        ).stdout.rsplit("\n", 2)
        for line in (draw, f"{undrawn.first_line()}; {draw}")
    ]
    assert shown[0][0] == shown[1][0]
    assert shown[1][1] == "(255, 255)" != shown[0][1]


def test_wrong_programs_depend_on_their_cells_tests_and_modules(tmp_path, monkeypatch):
    used = {str(path.relative_to(ROOT)) for path in turns.uses("06-long-time")}
    assert {"tests/book/test_chapter_06.py", "mfbook/flow/engine.py"} <= used
    assert not any(path.startswith(("mfbook/book/plots", "mfbook/equilibria")) for path in used)
    assert ROOT / "mfbook/equilibria/settle.py" in turns.uses("a-sphere-circle")
    source = BOOK / "06-long-time.ipynb"
    before = turns.fingerprint("06-long-time")
    cell = next(c for c in read(source)["cells"] if c["cell_type"] == "code" and c["outputs"])
    line = text(cell["source"]).splitlines()[0]
    for more, same in (("", True), (" # more", False)):
        folder = tmp_path / str(same)
        folder.mkdir()
        (folder / source.name).write_text(source.read_text().replace(line, line + more, 1))
        monkeypatch.setattr(turns, "BOOK", folder)
        assert (turns.fingerprint("06-long-time") == before) == same
