"""A copy without a history, in a folder with a space: it has the same tests, and renders."""

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
    """The files of the repository, and a link to the environment."""
    place = tmp_path / "a folder"
    shutil.copytree(ROOT, place, ignore=LEFT_OUT, symlinks=True)
    (place / ".venv").symlink_to(sys.prefix)
    return place


def listed(printed: str) -> list[str]:
    """The tests that pytest lists."""
    return [line for line in printed.splitlines() if "::" in line]


def test_a_path_with_a_space_and_no_history(copy):
    listing = f"PYTEST={sys.executable} -m pytest --collect-only -q --nbval --nbval-current-env"
    done = subprocess.run(  # nothing is installed or built: the environment belongs to others
        ["make", "-o", ".venv/.test", "test", "BUILD=true", "SPREAD=", listing],
        cwd=copy, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    of_book = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not weekly", "tests/book"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = listed(done.stdout)
    assert len(found) > 500
    assert [line for line in found if line.startswith("tests/book/")] == listed(of_book.stdout)


@pytest.mark.weekly
def test_rendering_needs_only_what_make_book_installs(copy):
    (copy / ".venv").unlink()
    env = {**os.environ, "MAKEFLAGS": "", "PYTHONPATH": ""}
    done = subprocess.run(["make", "book"], cwd=copy, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
