"""All steps by part, and the measurement of one: what a step's own process imports."""

import json
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from . import beside, published, scale, sphere

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "book" / "data" / "performance.json"
PARTS = {
    "scale": scale.STEPS,
    **beside.PARTS,
    "sphere": sphere.STEPS,
    "published": {"runs": published.compare},
}


def steps(parts=()) -> list[str]:
    """Names of the steps of some parts, or of all."""
    return [f"{part}/{name}" for part in parts or PARTS for name in PARTS[part]]


def missing(step: str) -> str:
    """Why a step cannot be measured here, or an empty string."""
    return published.missing() if step.startswith("published/") else ""


def results() -> dict[str, dict]:
    """What is stored of every step."""
    return json.loads(RESULTS.read_text(encoding="utf-8"))["steps"] if RESULTS.exists() else {}


def measure(step: str, code: str) -> dict:
    """Run one step here; four significant digits are kept, since no time is known better."""
    part, name = step.split("/")
    begin = perf_counter()
    text = json.dumps(PARTS[part][name]())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "date": date.today().isoformat(),
        "code": code,
        "took": round(perf_counter() - begin, 1),
        "memory": peak * (1 if sys.platform == "darwin" else 1024),
        "result": json.loads(text, parse_float=lambda digits: float(f"{float(digits):.4g}")),
    }


def measure_apart(step: str, code: str) -> dict:
    """The same in a fresh process, whose memory is the step's own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, step, code).result()
