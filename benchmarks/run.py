"""Run the benchmarks part by part, keep what is finished, and write the performance page.

    python -m benchmarks [part ...]

Every step runs in a process of its own and its result is stored at once in ``.cache/bench``. An
interrupted run goes on where it stopped, if neither the machine nor the code has changed. When all
chosen steps are done, they replace those in ``book/data/performance.json``, and the page and its
figures are made from that file alone.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
from datetime import date
from pathlib import Path
from time import perf_counter

from . import heads, scale, sphere, tables, training
from .machine import describe

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "book" / "data" / "performance.json"
UNFINISHED = ROOT / ".cache" / "bench"  # not in _build, which `make book` empties
PARTS = {
    "scale": scale.STEPS,
    "heads": heads.STEPS,
    "training": training.STEPS,
    "sphere": sphere.STEPS,
}


def steps(parts=()) -> list[str]:
    """Names of the steps of some parts, or of all."""
    return [f"{part}/{name}" for part in parts or PARTS for name in PARTS[part]]


def fingerprint(machine: dict) -> str:
    """Changes with the machine, the libraries and the code that is measured or measures."""
    digest = hashlib.sha256(json.dumps(machine, sort_keys=True).encode())
    for folder in ("mfbook", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def rounded(value):
    """Four significant digits: no time is known better."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list) else value


def write_json(path: Path, value) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    new.replace(path)


def read_json(path: Path) -> dict:
    """What a file holds, or nothing."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def measure(step: str, mark: str) -> None:
    """Run one step in this process, print its tables and store it."""
    part, name = step.split("/")
    begin = perf_counter()
    result = rounded(PARTS[part][name]())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    entry = {
        "date": date.today().isoformat(),
        "code": mark,
        "took": round(perf_counter() - begin, 1),
        "memory": peak * (1 if sys.platform == "darwin" else 1024),
        "result": result,
    }
    tables.show(step, result)
    write_json(stored(step), {"fingerprint": mark, "entry": entry})


def stored(step: str) -> Path:
    """The file of a finished step."""
    return UNFINISHED / f"{step.replace('/', '-')}.json"


def finished(chosen, mark: str) -> dict:
    """Results of those steps that an interrupted run has left and that still hold."""
    found = {step: read_json(stored(step)) for step in chosen}
    return {k: v["entry"] for k, v in found.items() if v.get("fingerprint") == mark}


def forecast(chosen, known: dict) -> str:
    """What the steps will cost, as far as they were measured before."""
    entries = [known[step] for step in chosen if step in known]
    if not entries:
        return "what they cost was not measured yet"
    minutes, memory = sum(e["took"] for e in entries) / 60, max(e["memory"] for e in entries)
    return (
        f"when last measured they took {minutes:.0f} minutes on one core and up to "
        f"{memory / 1e9:.0f} GB of memory"
    )


def main(arguments=None) -> int:
    """Run what is asked for; the status is 0 if everything was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--mark", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    try:
        if not options.step:
            return run(options.parts)
        measure(options.step, options.mark)
        return 0
    except KeyboardInterrupt:
        if not options.step:  # the process of the step was interrupted too
            print("\nInterrupted. Finished steps are kept; the same command goes on from here.")
        return 130


def run(parts) -> int:
    """All steps of the parts in turn, each in a fresh process; then the page."""
    machine = describe()
    mark, chosen, results = fingerprint(machine), steps(parts), read_json(RESULTS)
    done = finished(chosen, mark)
    left = [step for step in chosen if step not in done]
    print(tables.machine_line(machine))
    print(f"{len(left)} steps to measure: {forecast(left, results.get('steps', {}))}.")
    if done:
        print(f"{len(done)} steps are kept from a run that was interrupted.")
    print("Other programs that run meanwhile disturb the times.", flush=True)
    command = [sys.executable, "-m", "benchmarks", "--mark", mark, "--step"]
    failed = []
    for i, step in enumerate(left, 1):
        print(f"\n[{i} of {len(left)}] {step}: {forecast_step(step, results)}", flush=True)
        if subprocess.run([*command, step], cwd=ROOT, env=os.environ, check=False).returncode:
            failed.append(step)
    if failed:
        print(f"\nFailed: {', '.join(failed)}. The page stays as it was.")
        return 1
    entries = {k: {**v, "machine": machine} for k, v in finished(chosen, mark).items()}
    kept = {k: v for k, v in results.get("steps", {}).items() if k in steps()}
    merged = {**kept, **entries}
    write_json(RESULTS, {"steps": {k: merged[k] for k in steps() if k in merged}})
    from . import page  # needs matplotlib, which a step should not load

    missing = [step for step in steps() if step not in merged]
    if missing:
        print(f"\nStored. The page needs {', '.join(missing)} too.")
        return 0
    page.write()
    for step in chosen:
        stored(step).unlink()
    print(f"\nThe page: {page.PAGE.relative_to(ROOT)}")
    return 0


def forecast_step(step: str, results: dict) -> str:
    """How long a step took when it was last measured."""
    entry = results.get("steps", {}).get(step)
    return f"about {max(entry['took'], 1):.0f} s" if entry else "not measured before"
