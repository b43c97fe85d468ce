"""Result files of the experiments: arrays, and what computed them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mfbook.book.sweep import code_hash

#: The chapters' folder of results, in a checkout of the repository.
FOLDER = Path(__file__).resolve().parents[3] / "book" / "data"


def load(file: Path) -> dict:
    """Arrays of a result file, and ``about``: its command, the hash of the code and more."""
    with np.load(file) as data:
        arrays = {name: data[name] for name in data if name != "about"}
        return {**arrays, "about": json.loads(str(data["about"]))}


def main(
    file: Path, command: str, modules: tuple, cost: str, compute: Callable, **about: str
) -> None:
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
    facts = {
        **about, "command": command, "code": code_hash(*modules), "numpy": np.__version__,
        "minutes": minutes,
    }  # fmt: skip
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, about=json.dumps(facts), **arrays)
    print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB, {facts}")
