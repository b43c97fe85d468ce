"""Result files of the experiments: arrays, and what computed them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Memory, Parallel, delayed
from tqdm.auto import tqdm

#: The chapters' folder of results, in a checkout of the repository.
FOLDER = Path(__file__).resolve().parents[2] / "data"


def grid(**axes: Iterable) -> list[dict]:
    """Every combination of the values of several axes, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def evaluate(
    function: Callable, cells: list[dict], *, cache, n_jobs: int | None, cost=lambda cell: 0
) -> list:
    """``function(**cell)`` for every cell; what is finished is kept in the folder ``cache``.

    Cells of large ``cost`` start first, so that no process is left with one at the end.
    ``n_jobs=None`` leaves the number of processes to ``joblib.parallel_config``.
    """
    # absolute, since workers may have another working directory
    known = Memory(str(Path(cache).absolute()), verbose=0).cache(function)
    order = sorted(range(len(cells)), key=lambda i: -cost(cells[i]))
    calls = (delayed(known)(**cells[i]) for i in order)
    done = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    found = dict(zip(order, tqdm(done, total=len(cells), desc=function.__name__), strict=True))
    return [found[i] for i in range(len(cells))]


def load(file: Path) -> dict:
    """Arrays of a result file, and ``about``: its command and more."""
    with np.load(file) as data:
        arrays = {name: data[name] for name in data if name != "about"}
        return {**arrays, "about": json.loads(str(data["about"]))}


def main(name: str, cost: str, **about: str) -> None:
    """Command line of an experiment: say what it costs, compute, store."""
    # the module by its name, not __main__: so the cache knows its functions by one name
    module = import_module(f"companion.experiments.{name}")
    parser = argparse.ArgumentParser(prog=module.COMMAND, description=cost)
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    folder = f".cache/{name}"
    parser.add_argument("--cache", default=folder, help=f"finished cells (default {folder})")
    options = parser.parse_args()
    print(f"{cost}; interrupt and call again to go on", flush=True)
    start = time.perf_counter()
    arrays = module.compute(partial(evaluate, cache=options.cache, n_jobs=options.jobs))
    minutes = round((time.perf_counter() - start) / 60, 1)
    facts = {**about, "command": module.COMMAND, "numpy": np.__version__, "minutes": minutes}
    module.FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(module.FILE, about=json.dumps(facts), **arrays)
    print(f"{module.FILE.name}: {module.FILE.stat().st_size / 1e3:.0f} kB, {facts}")
