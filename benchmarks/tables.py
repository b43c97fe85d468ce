"""Tables of the results, for the terminal and for the page: from stored numbers to strings."""

import numpy as np

from mfbook.book.report import table

GIGA = 1e9
#: What the machine does at best: name, unit and what it stands for.
RATES = {
    "flops": ("GFLOP/s", "product of two square matrices (DGEMM)"),
    "copy": ("GB/s", "memory: copy of an array"),
    "add": ("GB/s", "memory: sum of two arrays"),
    "triad": ("GB/s", "memory: a + s b, in NumPy two passes"),
    "exp": ("billion/s", "exponentials in cache"),
    "product": ("billion/s", "products of numbers in cache"),
    "complex product": ("billion/s", "products of complex numbers in cache"),
}


def machine_line(machine: dict) -> str:
    """The machine in one line."""
    parts = [f"{machine['processor']}, {machine['cores']} cores"]
    if caches := machine["caches"]:
        sizes = {k: f"{v >> 20} MB" if v >> 20 else f"{v >> 10} KB" for k, v in caches.items()}
        parts.append("caches " + ", ".join(" ".join(pair) for pair in sizes.items()))
    if machine["memory"]:
        parts.append(f"{machine['memory'] / GIGA:.0f} GB of memory")
    parts += [machine["system"], f"NumPy uses {', '.join(machine['simd']) or 'baseline SIMD'}"]
    parts.append(machine["blas"])
    parts += [f"{name} {number}" for name, number in machine["versions"].items()]
    return "; ".join(parts)


def size(count: float) -> str:
    """Bytes for a reader.

    >>> size(435_000), size(2.34e6), size(3.6e9)
    ('435 KB', '2.3 MB', '3.6 GB')
    """
    units = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("bytes", 0))
    unit, factor = next((u, f or 1) for u, f in units if count >= f)
    return f"{digits(count / factor)} {unit}"


def digits(value: float) -> str:
    """Two or three significant digits without an exponent.

    >>> digits(12345.6), digits(0.98765), digits(2.0), digits(22.349)
    ('12,300', '0.99', '2', '22')
    """
    if value == 0:
        return "0"
    places = 3 if abs(value) >= 100 else 2
    rounded = float(f"{value:.{places}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:.12g}"


def duration(value: float) -> str:
    """Seconds for a reader.

    >>> duration(3.2e-5), duration(0.0123), duration(9.13), duration(754), duration(7.4e6)
    ('32 µs', '12 ms', '9.1 s', '13 min', '86 days')
    """
    for unit, factor in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if value < 1000 * factor and not (unit == "s" and value >= 120):
            return f"{digits(value / factor)} {unit}"
    longer = (("min", 60), ("h", 3600), ("days", 86400))
    unit, factor = next((u, f) for u, f in longer if value < 120 * f or u == "days")
    return f"{digits(value / factor)} {unit}"


def ratio(comparison: dict, name: str) -> tuple[float, float, float]:
    """Quartiles of time / mfbook, taken within each round; the median is in the middle."""
    times = {program["name"]: program["seconds"] for program in comparison["programs"]}
    quotient = np.divide(times[name], times["mfbook"])
    return tuple(float(q) for q in np.quantile(quotient, (0.25, 0.5, 0.75)))


def comparison_rows(comparison: dict) -> list[dict]:
    """One row for each program."""
    rows = []
    for program in comparison["programs"]:
        own = program["name"] == "mfbook"
        low, middle, high = ratio(comparison, program["name"])
        value = np.median(program["seconds"]) * comparison["per"]
        goal, verdict = program["goal"], "met" if middle >= (program["goal"] or 0) else "missed"
        rows.append(
            {
                "program": program["name"],
                "form": program["form"],
                comparison["unit"]: digits(value),
                "time / mfbook": "1" if own else digits(middle),
                "quartiles": "" if own else f"{digits(low)} to {digits(high)}",
                "goal": "" if goal is None else f"{goal:,g}, {verdict}",
            }
        )
    return rows


def growth_rows(result: dict, letter: str) -> list[dict]:
    """One row for each size; ``letter`` names the size."""
    rows = []
    for row in result["rows"]:
        time = float(np.median(row["seconds"]))
        unit = "head and sequence" if letter == "M" else "particle"
        line = {letter: f"{row['size']:,}"}
        if any(other.get("normalised") for other in result["rows"]):
            line["attention"] = "normalised" if row["normalised"] else "plain"
        line |= {
            "time": duration(time),
            f"ns per {unit}": digits(time / row["size"] / result["per"] * 1e9),
            "memory": size(row["peak"]),
            "bytes each": f"{row['peak'] / row['size']:,.0f}",
        }
        # Beside other code the rate would make the table too wide; another table has it.
        if not any("peers" in other for other in result["rows"]):
            line["GFLOP/s"] = digits(row["work"]["flops"] / time / GIGA)
        else:
            for name in ("usual", "direct"):
                peers = row.get("peers")
                line[f"{name} / mfbook"] = digits(np.median(peers[name]) / time) if peers else ""
        rows.append(line)
    return rows


def minimiser_rows(result: dict) -> list[dict]:
    """One row for each problem."""
    return [
        {
            "perceptron": row["units"],
            "beta": f"{row['beta']:g}",
            "atoms": str(row["atoms"]),
            "certified gap": f"{row['gap']:.0e}",
            "time": duration(float(np.median(row["seconds"]))),
        }
        for row in result["rows"]
    ]


def limit_rows(*results: dict) -> list[dict]:
    """One row for each rate, the best of the results."""
    return [
        {
            "what": what,
            "rate": f"{digits(max(r['rates'][name] for r in results) / GIGA)} {unit}",
            "each time": ", ".join(digits(r["rates"][name] / GIGA) for r in results),
        }
        for name, (unit, what) in RATES.items()
    ]


def show(step: str, result: dict) -> None:
    """Print the tables of one step."""
    kind = result["kind"]
    if kind == "comparisons":
        for comparison in result["comparisons"]:
            table(comparison_rows(comparison), comparison["title"])
            print()
            for reason in comparison["skipped"]:
                print(f"skipped {reason}")
    elif kind == "growth":
        table(growth_rows(result, "M" if step.endswith("heads") else "N"), result["title"])
    else:
        rows = minimiser_rows(result) if kind == "minimisers" else limit_rows(result)
        table(rows, step)
