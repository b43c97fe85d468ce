"""Processor times in interleaved rounds, the memory of one call, and how comparisons are stored.

Times are CPU time of the process, all its threads together, so that another process on the
machine, or a second thread, changes no ratio.
"""

import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from time import process_time, sleep

PROGRAM = ("name", "form", "seconds", "error", "goal")


def seconds(run: Callable, least: float = 0.0) -> float:
    """CPU time of one call, from as many as take ``least`` seconds together."""
    count, begin = 0, process_time()
    while count == 0 or process_time() - begin < least:
        run()
        count += 1
    return (process_time() - begin) / count


def interleaved(runs: Mapping, rounds: int, least=0.0, rest=0.0) -> dict[object, list]:
    """Times of all runs, round after round, so that a drift of the clock rate cancels in ratios.

    After each the process rests, in seconds: the threads of a runtime free their memory, which is
    not for the next one's account.
    """
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run, least))
            sleep(rest)
    return times


def peak_memory(run: Callable) -> tuple[object, int]:
    """What a call returns, and the bytes that NumPy holds at most beyond what exists before."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def comparison(title: str, unit: str, per: float, programs: Iterable, skipped=()) -> dict:
    """Several programs for one problem, as it is stored; each is a tuple of ``PROGRAM``."""
    named = [dict(zip(PROGRAM, program, strict=True)) for program in programs]
    return {"title": title, "unit": unit, "per": per, "programs": named, "skipped": list(skipped)}
