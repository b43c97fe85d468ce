"""Do the chapters show the same digits on other machines? Other machines are made on this one.

    python tools/elsewhere.py [--only NAME ...] [--list] [--fresh] [book/06-long-time.ipynb ...]

Executes chapters in kernels that work as another machine would (``--list`` says as which), and
compares what they show with what is stored: every printed digit, and the points of the figures.

- ``rounding 1`` to ``rounding 3``: random rounding errors (tools/rounding.py);
- processors without the newest instructions, down to those that NumPy and the C library need:
  ``OPENBLAS_CORETYPE`` for products and decompositions, ``NPY_DISABLE_CPU_FEATURES`` for NumPy's
  functions, ``GLIBC_TUNABLES`` for those of the C library;
- two threads in linear algebra.

What is done is kept in .cache/elsewhere until the package, a tool or the chapter changes, so an
interrupted run goes on where it stopped. Cells tagged ``corpus`` are executed, and not compared
where this Python ships another text. The table of cells that differ is printed and written to
.cache/elsewhere/table.md, the differences to .cache/elsewhere/differences.txt. The exit code is
not 0 if there is one.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nbformat  # noqa: E402
import numpy as np  # noqa: E402
import scipy  # noqa: E402

from tools import rounding, undrawn  # noqa: E402
from tools.chapters import ROOT, chapters  # noqa: E402
from tools.compare_outputs import difference  # noqa: E402
from tools.nbval_comparison import corpus_difference, data_difference, without_data  # noqa: E402
from tools.run_notebooks import client_of, normalise  # noqa: E402

FOLDER = ROOT / ".cache" / "elsewhere"
#: One thread and a fixed hash seed, as ``make`` sets them.
PLAIN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
#: The C library takes the functions of a processor without these.
OLD_LIBRARY = "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable"


@dataclass(frozen=True)
class Machine:
    """A machine that this one can stand for.

    Attributes
    ----------
    name : str
        In the table.
    variables : dict of str
        Of the environment of its kernels.
    seed : int or None
        Of random rounding.
    """

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    seed: int | None = None


def instructions() -> list[str]:
    """Sets of instructions that this processor has and that NumPy can do without."""
    return np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])


def machines() -> list[Machine]:
    """The machines that this one can stand for, this one first."""
    found = [Machine("here"), *(Machine(f"rounding {seed}", seed=seed) for seed in (1, 2, 3))]
    found.append(Machine("2 threads", {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}))
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return found  # the emulations below are of x86 processors

    def processor(name: str, core: str, without: list[str], *, old: bool, **more: str) -> Machine:
        variables = {"OPENBLAS_CORETYPE": core, **more}
        if without:
            variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(without)
        if old:
            variables["GLIBC_TUNABLES"] = OLD_LIBRARY
        return Machine(name, variables)

    here = instructions()
    wide = [name for name in here if name == "X86_V4" or name.startswith("AVX512")]
    if wide:
        found.append(processor("AVX-512 of 2017", "SkylakeX", [], old=False))
    if {"X86_V3", "AVX2"} & set(here):
        found.append(processor("AVX2", "Haswell", wide, old=False))
        found.append(processor("AVX2, AMD", "Zen", wide, old=False, OPENBLAS_NUM_THREADS="2"))
        found.append(processor("AVX", "Sandybridge", here, old=True))
    found.append(processor("SSE", "Prescott", here, old=True))
    return found


@dataclass(frozen=True)
class Outcome:
    """A chapter on a machine: what differs, by cell.

    Attributes
    ----------
    cells : int
        Cells with outputs that are compared.
    differences : dict of str
        By the identifier of the cell.
    """

    cells: int
    differences: dict[str, str]


def _shown(cell) -> bool:
    return cell.cell_type == "code" and bool(cell.outputs)


def _on_another_text(cell) -> bool:
    return "corpus" in cell.metadata.get("tags", []) and corpus_difference() is not None


def _failed(cell) -> str | None:
    errors = (o for o in cell.outputs if o.output_type == "error")
    return next((f"{o.ename}: {o.evalue}" for o in errors), None)


def compare(path: Path, machine: Machine, *, pictures: bool = True) -> Outcome:
    """Execute a chapter on a machine, perhaps without pixels, and compare with what is stored."""
    stored = nbformat.read(path, as_version=4)
    notebook = copy.deepcopy(stored)
    normalise(notebook)
    client = client_of(notebook, path.parent)
    client.allow_errors = True
    lines = [] if machine.seed is None else [rounding.first_line(machine.seed)]
    if not pictures:
        lines.append(undrawn.first_line())
    if lines:
        client.extra_arguments = [
            *client.extra_arguments, f"--IPKernelApp.exec_lines={json.dumps(lines)}"
        ]  # fmt: skip
    client.execute(env={**os.environ, **PLAIN, **machine.variables})
    found = {}
    for old, new in zip(stored.cells, notebook.cells, strict=True):
        if old.cell_type != "code":
            continue
        if _on_another_text(old):
            differs = _failed(new)
        else:
            shown, data = without_data(new.outputs)
            differs = difference(old.outputs, shown, exact=True)
            differs = differs or data_difference(path, new, data)
        if differs:
            found[old.id] = differs
    compared = [cell for cell in stored.cells if _shown(cell) and not _on_another_text(cell)]
    return Outcome(len(compared), found)


def _key(path: Path) -> str:
    """Hash of what an outcome depends on."""
    files = [*sorted((ROOT / "mfbook").rglob("*.py")), path, *map(ROOT.joinpath, (
        "tools/rounding.py", "tools/elsewhere.py", "tools/compare_outputs.py",
        "tools/nbval_comparison.py", "constraints.txt",
    ))]  # fmt: skip
    versions = f"{sys.version} {np.__version__} {scipy.__version__}".encode()
    return hashlib.sha256(versions.join(file.read_bytes() for file in files)).hexdigest()[:16]


def _file(folder: Path, machine: Machine, path: Path) -> Path:
    return folder / machine.name.replace(" ", "-") / f"{path.stem}.json"


def outcome(
    path: Path, machine: Machine, folder: Path = FOLDER, *, pictures: bool = True
) -> Outcome:
    """The same, kept from an earlier run if nothing has changed."""
    file = _file(folder, machine, path)
    key = _key(path)
    if file.exists():
        kept = json.loads(file.read_text())
        if kept["key"] == key:
            return Outcome(kept["cells"], kept["differences"])
    done = compare(path, machine, pictures=pictures)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"key": key, **vars(done)}))
    return done


def table(names: list[str], outcomes: dict[tuple[str, str], Outcome]) -> str:
    """Cells that differ, by chapter and machine, in Markdown."""
    lines = [["chapter", "cells", *names]]
    stems = sorted({stem for stem, _ in outcomes})
    for stem in stems:
        row = [outcomes[stem, name] for name in names]
        lines.append([stem, str(row[0].cells), *(str(len(o.differences)) for o in row)])
    sums = [sum(len(outcomes[stem, name].differences) for stem in stems) for name in names]
    cells = sum(outcomes[stem, names[0]].cells for stem in stems)
    lines += [["all", str(cells), *map(str, sums)]]
    lines.insert(1, ["---", *["---:"] * (len(names) + 1)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: list[str]) -> None:
    """Execute the chapters on the machines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="names of machines, or their starts")
    parser.add_argument("--list", action="store_true", help="say which machines there are")
    parser.add_argument("--fresh", action="store_true", help="forget what is done")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where results are kept")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--white", action="store_true", help="leave pictures white: faster, no digit is lost"
    )
    options = parser.parse_args(arguments)
    chosen = [m for m in machines() if not options.only or m.name.startswith(tuple(options.only))]
    if not chosen:
        sys.exit(f"no such machine: {options.only}")
    if options.list:
        for machine in chosen:
            print(machine.name, *(f"{k}={v!r}" for k, v in machine.variables.items()))
        return
    paths = [path.resolve() for path in options.chapters] or chapters()
    if options.fresh:
        for machine in chosen:
            for path in paths:
                _file(options.folder, machine, path).unlink(missing_ok=True)
    print(f"{len(paths)} chapters on {len(chosen)} machines, about half a minute each")
    outcomes: dict[tuple[str, str], Outcome] = {}
    with ThreadPoolExecutor(options.workers) as pool:
        runs = {
            pool.submit(outcome, path, machine, options.folder, pictures=not options.white):
                (path.stem, machine.name)
            for machine in chosen for path in paths
        }  # fmt: skip
        for run in as_completed(runs):
            stem, name = runs[run]
            outcomes[stem, name] = run.result()
            differing = outcomes[stem, name].differences
            said = ", ".join(differing) if differing else "the same digits"
            print(f"{len(outcomes)}/{len(runs)} {name}: {stem}: {said}", flush=True)
    text = table([machine.name for machine in chosen], outcomes)
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "table.md").write_text(text + "\n")
    said = [f"=== {stem}, cell {cell}, {name}\n{what}\n"
            for (stem, name), done in sorted(outcomes.items())
            for cell, what in done.differences.items()]  # fmt: skip
    (options.folder / "differences.txt").write_text("\n".join(said))
    print(text)
    if any(done.differences for done in outcomes.values()):
        sys.exit(f"digits differ: {options.folder / 'differences.txt'} says which")


if __name__ == "__main__":
    main(sys.argv[1:])
