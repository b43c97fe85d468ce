"""Run the benchmarks part by part, keep what is finished, and write the performance page.

Every step runs in a process of its own, and joblib keeps its result in ``.cache/bench``: an
interrupted run goes on where it stopped, if neither the machine nor the code has changed. When all
chosen steps are done, they replace those in ``book/data/performance.json``, and the page and its
figures are made from that file alone.
"""

import argparse
import json
import sys
import traceback

import joblib

from . import page
from . import steps as known
from .machine import describe

UNFINISHED = known.ROOT / ".cache" / "bench"  # not in _build, which `make book` empties


def fingerprint(machine: dict) -> str:
    """Changes with the machine, the libraries and the code that is measured or measures."""
    files = [sorted((known.ROOT / name).rglob("*.py")) for name in ("mfbook", "benchmarks")]
    return joblib.hash([machine, [path.read_bytes() for path in sum(files, [])]])[:16]


def forecast(entries: list[dict]) -> str:
    """What steps cost when they were measured."""
    took, memory = sum(e["took"] for e in entries), max(e["memory"] for e in entries)
    return f"{page.duration(took)} on one core and up to {page.size(memory)} of memory"


def main(arguments=None) -> int:
    """Run what is asked for; the status is 0 if everything was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(known.PARTS))
    parts = parser.parse_args(arguments).parts
    if unknown := [part for part in parts if part not in known.PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(known.PARTS)}")
    try:
        return run(known.steps(parts))
    except KeyboardInterrupt:
        print("\nInterrupted. Finished steps are kept; the same command goes on from here.")
        return 130


def run(steps: list[str]) -> int:
    """Some steps in turn; then the page."""
    machine, before, entries = describe(), known.results(), {}
    code = fingerprint(machine)
    measured = joblib.Memory(UNFINISHED, verbose=0).cache(known.measure_apart)
    print("Other programs that run meanwhile disturb the times.")
    if old := [before[step] for step in steps if step in before]:
        print(f"When last measured, all steps took {forecast(old)}.")
    left = {step: why for step in steps if (why := known.missing(step))}
    for i, step in enumerate(steps, 1):
        if step in left:
            print(f"[{i} of {len(steps)}] {step}, left out: {left[step]}")
            continue
        kept = measured.check_call_in_cache(step, code)
        print(f"[{i} of {len(steps)}] {step}{', kept from an earlier run' * kept}", flush=True)
        try:
            entries[step] = {**measured(step, code), "machine": machine}
        except Exception:
            traceback.print_exc()
        else:
            print(f"    {forecast([entries[step]])}")
    if failed := [step for step in steps if step not in entries and step not in left]:
        print(f"Failed: {', '.join(failed)}. The page stays as it was.")
        return 1
    entries = before | entries
    ordered = {step: entries[step] for step in known.steps() if step in entries}
    text = json.dumps({"steps": ordered}, indent=1, ensure_ascii=False)
    known.RESULTS.write_text(text + "\n", encoding="utf-8")
    if missing := [step for step in known.steps() if step not in ordered]:
        print(f"Stored. The page needs {', '.join(missing)} too.")
    else:
        page.write()
        print(f"The page: {page.PAGE}")
    for step in entries.keys() & set(steps) - set(left):
        measured.call_and_shelve(step, code).clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
