"""What Binder builds: the pip lines of environment.yml, in a fresh environment, run a chapter."""

import json
import os
import shutil
import subprocess
import sys
import venv

import pytest
import yaml

from tools.chapters import BOOK, ROOT, chapters

EXECUTE = """
import sys, nbformat, jupyterlab_myst, ipywidgets, mfbook
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, kernel_name="python3", timeout=600,
               resources={"metadata": {"path": "book"}}).execute()
"""


def pip_lines() -> list[str]:
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    return next(entry["pip"] for entry in dependencies if isinstance(entry, dict))


def test_environment_takes_its_versions_from_the_constraints():
    assert pip_lines() == ["-c constraints.txt", "-e .[run]"]


@pytest.mark.weekly
@pytest.mark.slow
def test_environment_installs_and_runs_a_chapter(tmp_path):
    home = tmp_path / "env"
    venv.create(home)
    python = home / "bin" / "python"
    # As conda does it: the lines become a requirements file beside environment.yml.
    requirements = tmp_path / "requirements.txt"
    lines = "\n".join(pip_lines()) + "\n"
    requirements.write_text(lines.replace("constraints.txt", str(ROOT / "constraints.txt")))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile",
         "--disable-pip-version-check", "--requirement", requirements],
        cwd=ROOT, check=True, timeout=900,
    )  # fmt: skip
    # and as postBuild does it, with this Python alone
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for name in ("_toc.yml", "mfbook", "postBuild"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(BOOK, tmp_path / "book")
    subprocess.run(
        ["bash", "postBuild"], cwd=tmp_path, check=True, timeout=120,
        env={"PATH": f"{home / 'bin'}:/usr/bin:/bin"},
    )  # fmt: skip
    assert "{term}" not in (tmp_path / "book" / "01-introduction.ipynb").read_text()
    seconds = json.loads((BOOK / "timings.json").read_text())
    chapter = min(chapters(), key=lambda path: seconds[path.stem]["seconds"])
    done = subprocess.run(
        [python, "-c", EXECUTE, chapter], cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "PATH": f"{home / 'bin'}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
