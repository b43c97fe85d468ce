"""Measure, store ``book/data/performance.json``, and write ``book/performance.md`` from it.

``python -m benchmarks --page`` only writes the page again. Without PyTorch or JAX
(``pip install '.[bench]'``) the page says that they are missing.
"""

import json
import sys
from pathlib import Path

from . import circle, heads
from .timing import machine, ratios

BOOK = Path(__file__).resolve().parent.parent / "book"
RESULTS, PAGE = BOOK / "data" / "performance.json", BOOK / "trust.md"
#: What stands before and after the part of the page that is written here.
BEGIN, END = "<!-- make bench writes what follows -->\n", "<!-- up to here -->\n"
BETAS = (1.0, 10.0, 50.0)
TEMPLATE = Path(__file__).with_name("page.md")


def measure() -> dict:
    """Everything, in some ten minutes."""
    found = {"machine": machine()}
    for name, step in {
        "heads": lambda: [heads.compare(p) for p in (heads.SMALL, heads.WIDE)],
        "forces": lambda: [
            circle.forces(n, beta, rounds)
            for n, rounds, betas in ((100, 9, [10]), (1000, 9, BETAS), (10_000, 5, BETAS))
            for beta in betas
        ],
        "runs": lambda: [circle.whole_run(1000, 1.0, ascent, 3) for ascent in (True, False)],
        "large": lambda: [heads.large(), circle.large()],
    }.items():
        print(name, flush=True)
        found[name] = step()
    return found


def number(x: float) -> str:
    """Two significant digits."""
    digits = float(f"{x:.2g}")
    return f"{digits:,.0f}" if digits >= 10 else f"{digits:g}"


def duration(s: float) -> str:
    """Seconds in a unit that suits them."""
    unit, name = next(
        ((u, n) for u, n in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")) if s >= u), (1e-9, "ns")
    )
    return f"{number(s / unit)} {name}"


def row(one: dict, peers, more=lambda name: "") -> list[str]:
    """Line of a table: the median time of this package, and the ratio of each peer."""
    ours = sorted(one["times"]["mfbook"])
    line = [one["title"], duration(ours[len(ours) // 2]) + more("mfbook")]
    for name in peers:
        if name not in one["times"]:
            line.append("not installed")
            continue
        middle, least, most = map(number, ratios(one["times"], name))
        line.append(f"{middle} ({least}–{most}){more(name)}")
    return line


def table(lines: list[list]) -> str:
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def page(results: dict) -> str:
    """The page that says what is stored."""
    compared, runs = [], []
    for one in results["heads"]:
        forms = {name: f"; {form}" for name, form in one["forms"].items()}
        compared.append(row(one, heads.PEERS, lambda name, f=forms: f.get(name, "")))
    for one in results["runs"]:
        told = {
            name: f"; {steps:,} steps to {energy:.6f}"
            for name, steps, energy in zip(
                ("mfbook", "usual"), one["steps"], one["energies"], strict=True
            )
        }
        runs.append(row(one, ["usual"], told.get))
    large = [
        [
            part["title"],
            f"{one['size']:,}",
            *map(duration, (one["seconds"], one["seconds"] / one["size"])),
            number(one["bytes"] / one["size"]),
        ]
        for part in results["large"]
        for one in part["rows"]
    ]
    return TEMPLATE.read_text(encoding="utf-8").format(
        machine=results["machine"],
        heads=table(compared),
        forces=table([row(one, ["usual", "direct"]) for one in results["forces"]]),
        runs=table(runs),
        large=table(large),
    )


def main(arguments: list[str]) -> None:
    if arguments not in ([], ["--page"]):
        sys.exit(__doc__)
    if not arguments:
        text = json.dumps(measure(), indent=1, ensure_ascii=False)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    measured = page(json.loads(RESULTS.read_text(encoding="utf-8")))
    whole = before + BEGIN + measured + END + rest.partition(END)[2]
    PAGE.write_text(whole, encoding="utf-8")
    print(f"The page: {PAGE}")


if __name__ == "__main__":
    main(sys.argv[1:])
