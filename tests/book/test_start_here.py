"""What newcomers meet first: pages of code that print what they say, paths that lead on."""

import codeop
import doctest
import re

import pytest

from tools.chapters import BOOK, ROOT, chapters, read, text

PAGE = BOOK / "start-here.md"


@pytest.mark.parametrize("name", ["start-here", "extend"])
def test_a_page_runs_as_it_is_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a task saves a picture
    done = doctest.testfile(str(BOOK / f"{name}.md"), module_relative=False)
    assert done.failed == 0 and done.attempted >= 25


def test_its_lines_can_be_typed_one_after_another():
    """A block that is open when the next statement begins is a SyntaxError in Python's console."""
    so_far = []
    for prompt, line in re.findall(r"^(>>>|\.\.\.) ?(.*)$", PAGE.read_text(encoding="utf-8"), re.M):
        assert (prompt == ">>>") == (not so_far), line
        so_far.append(line)
        if codeop.compile_command("\n".join(so_far)) is not None:
            so_far = []


def test_each_task_is_short():
    tasks = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(tasks) == 5
    for task in tasks:
        lines = re.findall(r"^(?:>>>|\.\.\.) .*$", task, re.MULTILINE)
        assert 1 <= len(lines) <= 15, task.partition("\n")[0]
        assert max(map(len, lines)) <= 130


def test_the_page_is_found():
    assert "{doc}`start-here`" in (BOOK / "index.md").read_text(encoding="utf-8")
    assert "book/start-here.md" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name, most", [("ten minutes", 6), ("one hour", 14)])
def test_each_step_of_a_path_links_to_the_next(name, most):
    index = (BOOK / "index.md").read_text(encoding="utf-8")
    part = index.partition(f"(path-{name.replace(' ', '-')})=")[2].partition("\n(")[0]
    steps = re.findall(r"^1\. \[([^]]+)\]\(#([\w-]+)\) \((\d+) min\)", part, re.M)
    assert 6 <= len(steps) <= most
    minutes = sum(int(time) for *_, time in steps)
    assert minutes <= {"ten minutes": 10, "one hour": 60}[name]
    cells = [text(c["source"]) for path in chapters() for c in read(path)["cells"]]
    lines = " ".join(cell for cell in cells if "*Paths.*" in cell)
    found = re.findall(
        rf"(?i){name}, step (\d+) of {len(steps)}, next: \[[^]]+\]\(#([\w-]+)\)", lines
    )
    assert sorted((int(k), label) for k, label in found) == [
        (k, label) for k, (_, label, _) in enumerate([*steps[1:], ("", "paths", "")], 1)
    ]
