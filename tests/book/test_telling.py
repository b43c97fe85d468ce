"""What ``make test`` says, and which wrong programs it runs."""

import datetime

import pytest

from tools import turns
from tools.chapters import BOOK, ROOT, chapters, read, text

pytest_plugins = "pytester"


@pytest.fixture
def book(pytester, monkeypatch):
    """A folder with one chapter of five cells and one test, run as ``make test`` runs them."""
    from nbformat import write
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest((ROOT / "conftest.py").read_text())
    markers = "wrong_program: w\n    slow: s\n    browser: b\n    weekly: y"
    pytester.makeini(f"[pytest]\nmarkers =\n    {markers}")
    folder = pytester.mkdir("book")
    outputs = [
        ("x = 3\nprint(x)", "3"),
        ("print(0.25)", "0.75"),
        ("assert x == 4, 'not four'", ""),
        ("from mfbook.book.report import Check, at_most", ""),
        ("result = Check('a', (at_most('gap', 3, 2), at_most('ok', 1, 2)))\n"
         "assert result.holds", ""),
    ]  # fmt: skip
    cells = [
        new_code_cell(
            source, execution_count=i, id=f"cell-{i}",
            metadata={"mfbook": {"statement": "hy-theorem-4-1"}} if i in (2, 5) else {},
            outputs=[new_output("stream", name="stdout", text=shown + "\n")] if shown else [],
        )
        for i, (source, shown) in enumerate(outputs, 1)
    ]  # fmt: skip
    write(new_notebook(cells=cells), folder / "04-static.ipynb")
    pytester.makepyfile(test_one="def test_one():\n    assert 1 == 2, 'one is not two'\n")
    return pytester


@pytest.mark.slow
@pytest.mark.by_turn
@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.weekly)])
def test_failures_are_told_by_statement_with_the_command_that_shows_them_again(book, workers):
    options = ("--words", "--nbval", "--nbval-current-env", "-q", "-n", workers)
    done = book.runpytest_subprocess(*options, "book", "test_one.py")
    out = done.stdout.str()
    done.assert_outcomes(passed=2, failed=4)
    done.stdout.fnmatch_lines([
        "*1 chapters run again; 5 cells are compared with what is stored",
        "*units and long tests: 1 tests",
    ])  # fmt: skip
    first = out[out.index("what is wrong =") :]
    assert first.index("Chapter 4, Theorem 4.1") < first.index("FAILURES")
    assert "[cell-2]" in first and "stored 0.75, fresh 0.25" in first
    assert "again: make test ONLY=book/04-static.ipynb" in first
    assert "AssertionError: not four" in first
    assert "gap: 3, stated <= 2" in first and "ok:" not in first
    assert "WRONG  units and long tests: test_one: AssertionError: one is not two" in out
    assert "again: make test ONLY='test_one.py::test_one'" in first
    assert "Chapter 4, outputs: 5 of 5 cells" in out


@pytest.fixture
def all_seen(monkeypatch, tmp_path):
    """A file that says that every wrong program was seen to fail."""
    monkeypatch.setattr(turns, "SEEN", tmp_path / "seen.json")
    turns.main(["--write"])
    return tmp_path / "seen.json"


def test_what_has_not_changed_is_due_one_chapter_a_day(all_seen, monkeypatch):
    today = datetime.date(2026, 11, 22).toordinal()
    found = []
    for day in range(today, today + len(chapters())):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        (chapter,) = turns.due()
        assert turns.due()[chapter] == "its turn"
        found.append(chapter)
    assert sorted(found) == [path.stem for path in chapters()]
    monkeypatch.setenv(turns.VARIABLE, "all")
    assert len(turns.due()) == len(found)


def test_other_turns_come_once_a_week(monkeypatch):
    names = [f"tests/book/site/test_access.py::test_page[{i}.html]" for i in range(70)]
    counts = dict.fromkeys(names, 0)
    for day in range(100, 100 + turns.SHARES):
        monkeypatch.setenv(turns.VARIABLE, str(day))
        todays = list(filter(turns.has_turn, names))
        assert len(todays) < 25
        for name in todays:
            counts[name] += 1
    assert set(counts.values()) == {1}
    monkeypatch.setenv(turns.VARIABLE, "all")
    assert all(map(turns.has_turn, names))


def test_what_has_changed_is_due(all_seen, monkeypatch):
    monkeypatch.setenv(turns.VARIABLE, "0")
    before = set(turns.due())
    marks = turns.seen()
    marks["06-long-time"] = "another"
    all_seen.write_text(str(marks).replace("'", '"'))
    assert turns.due() == dict.fromkeys(before, "its turn") | {"06-long-time": "changed"}


def test_wrong_programs_depend_on_their_cells_tests_and_modules():
    used = {str(path.relative_to(ROOT)) for path in turns.uses("06-long-time")}
    assert {
        "tests/book/test_chapter_06.py", "tests/book/chapter_runner.py",
        "mfbook/models/attention/kernel.py",
        "mfbook/flow/engine.py", "mfbook/flow/rosenbrock.py", "mfbook/book/report/checks.py",
    } <= used  # fmt: skip
    assert not any(path.startswith(("mfbook/book/plots", "mfbook/equilibria")) for path in used)
    assert "mfbook/equilibria/settle.py" in map(
        str, (path.relative_to(ROOT) for path in turns.uses("a-sphere-circle"))
    )


def test_a_changed_cell_changes_the_fingerprint(tmp_path, monkeypatch):
    source = BOOK / "06-long-time.ipynb"
    before = turns.fingerprint("06-long-time")
    monkeypatch.setattr(turns, "BOOK", tmp_path)
    (tmp_path / source.name).write_text(source.read_text())
    assert turns.fingerprint("06-long-time") == before
    cell = next(c for c in read(source)["cells"] if c["cell_type"] == "code" and c["outputs"])
    line = text(cell["source"]).splitlines()[0]
    changed = tmp_path / "changed"
    changed.mkdir()
    monkeypatch.setattr(turns, "BOOK", changed)
    (changed / source.name).write_text(source.read_text().replace(line, line + " # more", 1))
    assert turns.fingerprint("06-long-time") != before
