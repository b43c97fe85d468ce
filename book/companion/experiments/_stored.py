"""Result files of the experiments: arrays, and what computed them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Memory, Parallel, delayed
from tqdm.auto import tqdm

#: The chapters' folder of results, in a checkout of the repository.
FOLDER = Path(__file__).resolve().parents[3] / "book" / "data"


def grid(**axes: Iterable) -> list[dict]:
    """Every combination of the values of several axes, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def evaluate(function: Callable, cells: list[dict], *, cache, n_jobs: int | None) -> list:
    """``function(**cell)`` for every cell; what is finished is kept in the folder ``cache``.

    ``n_jobs=None`` leaves the number of processes to ``joblib.parallel_config``.
    """
    # absolute, since workers may have another working directory
    known = Memory(str(Path(cache).absolute()), verbose=0).cache(function)
    done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(known)(**c) for c in cells)
    return list(tqdm(done, total=len(cells), desc=function.__name__))


def load(file: Path) -> dict:
    """Arrays of a result file, and ``about``: its command and more."""
    with np.load(file) as data:
        arrays = {name: data[name] for name in data if name != "about"}
        return {**arrays, "about": json.loads(str(data["about"]))}


def main(file: Path, command: str, cost: str, compute: Callable, **about: str) -> None:
    """Command line of an experiment: say what it costs, compute, store."""
    parser = argparse.ArgumentParser(prog=command, description=cost)
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    folder = f".cache/{file.stem}"
    parser.add_argument("--cache", default=folder, help=f"finished cells (default {folder})")
    arguments = parser.parse_args()
    print(f"{cost}; interrupt and call again to go on", flush=True)
    start = time.perf_counter()
    arrays = compute(arguments.cache, arguments.jobs)
    minutes = round((time.perf_counter() - start) / 60, 1)
    facts = {**about, "command": command, "numpy": np.__version__, "minutes": minutes}
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, about=json.dumps(facts), **arrays)
    print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB, {facts}")
