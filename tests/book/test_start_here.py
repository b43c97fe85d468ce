"""Pages of code for newcomers: what they print is what comes, and each task is short."""

import doctest
import re

import pytest

from tools.chapters import BOOK, ROOT

PAGE = BOOK / "start-here.md"


@pytest.mark.parametrize("name", ["start-here", "extend"])
def test_a_page_runs_as_it_is_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a task saves a picture
    done = doctest.testfile(str(BOOK / f"{name}.md"), module_relative=False)
    assert done.failed == 0 and done.attempted >= 25


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
