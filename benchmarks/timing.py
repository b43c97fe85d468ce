"""Processor times in interleaved rounds, the memory of one call, and the machine.

Times are CPU time of the process, all its threads together, so that another process on the
machine, or a second thread of a peer, changes no ratio.
"""

import os
import platform
import statistics
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from time import process_time

import numpy as np


def seconds(run: Callable, least: float = 0.0) -> float:
    """CPU time of one call, the mean of as many as take ``least`` seconds together."""
    count, begin = 0, process_time()
    while count == 0 or process_time() - begin < least:
        run()
        count += 1
    return (process_time() - begin) / count


def interleaved(runs: dict[str, Callable], rounds: int, least: float = 0.05) -> dict:
    """Times of all runs, round after round, so that a drift of the clock rate cancels in ratios.

    Four digits are kept: no time is known better.
    """
    times: dict[str, list] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(float(f"{seconds(run, least):.4g}"))
    return times


def ratios(times: dict, peer: str) -> tuple[float, float, float]:
    """Median, least and largest of peer over mfbook, each taken within one round."""
    found = [a / b for a, b in zip(times[peer], times["mfbook"], strict=True)]
    return statistics.median(found), min(found), max(found)


def growth(make: Callable, sizes, **more) -> dict:
    """CPU seconds, and bytes that NumPy holds at most beyond what exists, of ``make(size)()``."""
    rows = []
    for size in sizes:
        run = make(size)
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        best = min(seconds(run) for _ in range(3))
        rows.append({"size": size, "seconds": float(f"{best:.4g}"), "bytes": peak})
    return {**more, "rows": rows}


def machine() -> str:
    """The machine in general terms, and the versions."""
    config = np.show_config(mode="dicts")
    simd = [*config["SIMD Extensions"]["baseline"], *config["SIMD Extensions"].get("found", [])]
    blas = config["Build Dependencies"]["blas"]
    parts = [
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores of which one is used",
        f"{'AVX-512' if any('512' in x or x == 'X86_V4' for x in simd) else simd[-1]}",
        f"Python {platform.python_version()}, {blas['name']} {blas['version']}",
    ]
    for name, package in (("NumPy", "numpy"), ("PyTorch", "torch"), ("JAX", "jax")):
        with suppress(PackageNotFoundError):
            parts.append(f"{name} {version(package)}")
    return "; ".join(parts)
