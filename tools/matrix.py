"""Does the package compute the same with the oldest and the newest versions that it allows?

    python tools/matrix.py [--pythons python3.11 /path/to/python3.13] [--only oldest] [--quick]

Makes environments in .cache/matrix: the lower bounds of pyproject.toml with the oldest Python that
is found, and the newest versions with every newer one (or the same, if there is no other). In
each, tools/reproduce.py runs with one and with two threads, and once as an older processor would
run it; then, unless ``--quick``, the unit tests and doctests, and the chapters, of which every
printed digit is compared (tools/elsewhere.py). What is done is kept, so an
interrupted run goes on where it stopped; a change of the code or of the requirements starts the
part again that it concerns. ``--fresh`` forgets everything. The table of largest deviations
(tools/reproduce.py says in which norm) is printed and written to .cache/matrix/matrix.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache" / "matrix"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOLERANCE = 1e-8
#: What makes NumPy and OpenBLAS take the instructions of a processor of 2008.
OLD_PROCESSOR = {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"}
#: Columns of the table: the threads of linear algebra and other variables.
RUNS = {"1 thread": ("1", {}), "2 threads": ("2", {}), "older processor": ("1", OLD_PROCESSOR)}
#: Of the time of the oldest versions, where newer ones warn.
CONTEMPORARY = ("pyparsing<3.3",)
#: What numbers depend on, and what tests depend on beside.
NUMBERS = ("mfbook/**/*.py", "tools/reproduce.py")
UNITS = ("tests/**/*.py", "tools/*.py", "conftest.py")
CHAPTERS = ("mfbook/**/*.py", "tools/*.py", "book/*.ipynb")
#: Units and doctests of the package; tests of the book need what builds it.
TESTS = ["-m", "not slow and not weekly", "tests/unit", "tests/oracles", "tests/properties"]
TESTS += ["mfbook", "--numprocesses", "logical", "--ignore=tests/oracles/test_mutants.py"]


@dataclass(frozen=True)
class Environment:
    """A Python with versions of what the package needs."""

    name: str
    interpreter: Path
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where it is."""
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def interpreters(names: list[str]) -> dict[tuple[int, int], Path]:
    """Python interpreters by version, oldest first, of the given names or of those in the path."""
    if not names:
        names = [f"python3.{minor}" for minor in range(11, 20)]
        names += map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    least = tuple(map(int, re.findall(r"\d+", PROJECT["requires-python"])))
    found = {}
    for name in names:
        code = "import sys; print(*sys.version_info[:2]); print(sys.executable)"
        try:
            done = subprocess.run([name, "-c", code], capture_output=True, text=True, timeout=60)
        except OSError:
            continue
        if done.returncode == 0:  # a shim of pyenv may lead nowhere
            first, path = done.stdout.splitlines()
            found.setdefault(tuple(map(int, first.split())), Path(path))
    return {version: found[version] for version in sorted(found) if version >= least}


def lowest(requirement: str) -> str:
    """The least version that a requirement allows, as a requirement."""
    name, bound = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    return f"{name}=={bound}"


def environments(pythons: dict[tuple[int, int], Path]) -> list[Environment]:
    """The oldest versions with the oldest Python, the newest with the newer ones."""
    needed = PROJECT["dependencies"]
    tools = [line for extra in ("run", "test") for line in PROJECT["optional-dependencies"][extra]]
    first, *newer = pythons
    made = [Environment("oldest", pythons[first], (*map(lowest, needed), *CONTEMPORARY, *tools))]
    for version in newer or [first]:
        name = "newest-" + ".".join(map(str, version))
        made.append(Environment(name, pythons[version], (*needed, *tools)))
    return made


def digest(*parts: str) -> str:
    """Short hash."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def code(*patterns: str) -> str:
    """Hash of the files whose change may change a result."""
    files = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    return digest(*(path.read_text() for path in files))


def known(stamp: Path, key: str) -> bool:
    """Whether the stamp says that this is done already."""
    return stamp.exists() and stamp.read_text() == key


def install(env: Environment) -> None:
    """Create the environment; the package itself is taken from the working tree."""
    stamp, key = env.folder / "installed", digest(str(env.interpreter), *env.requirements)
    if known(stamp, key):
        return
    print(f"installing {env.name}", flush=True)
    shutil.rmtree(env.folder, ignore_errors=True)
    subprocess.run([env.interpreter, "-m", "venv", env.folder], check=True)
    pip = [env.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *env.requirements], check=True)
    stamp.write_text(key)


def run(env: Environment, *arguments, threads: str = "1", **variables) -> int:
    """Run the environment's Python on the working tree; the exit code."""
    plain = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": "0"}
    path = {"PYTHONPATH": str(ROOT), "PATH": f"{env.python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [env.python, *arguments], cwd=ROOT, env={**os.environ, **plain, **path, **variables}
    )
    return done.returncode


def deviation(env: Environment, label: str) -> float:
    """Largest deviation from the stored numbers."""
    from tools.reproduce import deviations, load

    threads, variables = RUNS[label]
    output, key = env.folder / f"{label.replace(' ', '-')}.json", code(*NUMBERS)
    stamp = output.with_suffix(".done")
    if not known(stamp, key):
        print(f"numbers of {env.name}, {label}", flush=True)
        quiet = ["-W", "ignore::ImportWarning"]  # of NumPy, which says that it obeys
        if run(env, *quiet, "tools/reproduce.py", "--output", output, threads=threads, **variables):
            sys.exit(f"{env.name}: no numbers")
        stamp.write_text(key)
    return max(deviations(load(output), load()).values())


def units(env: Environment) -> bool:
    """Whether the unit tests pass."""
    passed, key = env.folder / "units.passed", code(*NUMBERS, *UNITS)
    if not known(passed, key):
        print(f"unit tests of {env.name}", flush=True)
        if run(env, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS):
            return False
        passed.write_text(key)
    return True


def chapters(env: Environment) -> int:
    """In how many cells of the chapters a printed digit differs."""
    folder, key = env.folder / "elsewhere", code(*CHAPTERS)
    stamp = env.folder / "chapters.done"
    if not known(stamp, key):
        print(f"chapters of {env.name}", flush=True)
        run(env, "tools/elsewhere.py", "--only", "here", "--folder", folder, "--workers", "2")
        stamp.write_text(key)
    *_, sums = (folder / "table.md").read_text().splitlines()
    return int(sums.split("|")[-2])


def versions(env: Environment) -> dict[str, str]:
    """Versions of Python and of what the package needs, as noted beside the numbers."""
    text = (env.folder / "1-thread.json").read_text()
    return json.loads(text)["versions"]


def table(rows: list[tuple[dict, list[str]]], last: list[str]) -> str:
    """The matrix in Markdown."""
    names = [name for name in rows[0][0] if name != "matplotlib"]
    head = [*names, *RUNS, *last]
    lines = [head, ["---"] * len(head)]
    lines += [[*(found[name] for name in names), *cells] for found, cells in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    """Make the matrix; fail if a number deviates or a test fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="*", default=[], help="interpreters; default: all found")
    parser.add_argument("--only", help="environments whose name begins so")
    parser.add_argument("--quick", action="store_true", help="numbers only")
    parser.add_argument("--fresh", action="store_true", help="make the environments again")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.fresh:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows, good = [], True
    for env in environments(interpreters(options.pythons)):
        if not env.name.startswith(options.only or ""):
            continue
        install(env)
        found = [deviation(env, label) for label in RUNS]
        cells = [f"{value:.0e}" for value in found]
        good &= max(found) <= TOLERANCE
        if not options.quick:
            passed = units(env)
            good &= passed
            cells.append("pass" if passed else "FAIL")
            differ = chapters(env)
            good &= differ == 0
            cells.append(str(differ))
        rows.append((versions(env), cells))
    text = table(rows, [] if options.quick else ["unit tests", "cells that differ"])
    (FOLDER / "matrix.md").write_text(text)
    print(text)
    if not good:
        sys.exit(f"a number deviates by more than {TOLERANCE:g}, a test fails, or a digit differs")


if __name__ == "__main__":
    main()
