"""`make test` in a copy without a history, in a folder with a space: it runs the same tests."""

import os
import shutil
import subprocess
import sys

import pytest

from tools.chapters import ROOT

#: What a copy is not given: what was built, and what belongs to one machine.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "_build", ".cache", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"
)


@pytest.fixture
def copy(tmp_path):
    """The files of the repository, with a link to the environment and a book that seems built."""
    place = tmp_path / "a folder"
    shutil.copytree(ROOT, place, ignore=LEFT_OUT, symlinks=True)
    (place / ".venv").symlink_to(sys.prefix)
    (place / "_build" / "html").mkdir(parents=True)
    for name in ("html/index.html", ".book"):
        (place / "_build" / name).touch()
    return place


def collected(folder, *overrides) -> list[str]:
    """What `make test` would run there, by pytest's own list."""
    listing = f"PYTEST={sys.executable} -m pytest --collect-only -q --nbval --nbval-current-env"
    stamps = ["-o", ".venv/.book", "-o", ".venv/.test", "-o", "_build/.book"]
    done = subprocess.run(
        ["make", "--no-print-directory", *stamps, "test", listing, *overrides],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_a_path_with_a_space_and_no_history(copy):
    found = collected(copy, "SPREAD=")
    assert len(found) > 500
    here = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not weekly", "tests/book"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    of_book = [line for line in here.stdout.splitlines() if "::" in line]
    assert [line for line in found if line.startswith("tests/book/")] == of_book
