"""The book's page on performance, its figures and its numbers, all made from the stored results.

    python -m benchmarks.page

writes ``book/performance.md`` and its figures again without measuring anything. Its prose is
``page.md``; measured numbers are put in here. A test compares the committed page with what this
module makes of the committed results.
"""

import hashlib
import io
import json
from pathlib import Path
from string import Template

import numpy as np
from matplotlib.ticker import NullLocator, PercentFormatter
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mfbook.book import plots
from mfbook.models.attention import kernel
from mfbook.models.sphere import forces

from . import scale, tables
from .run import RESULTS, ROOT, read_json, steps
from .tables import GIGA, digits, duration, size

PAGE = ROOT / "book" / "performance.md"
STATIC = ROOT / "book" / "_static"
PROSE = Path(__file__).with_name("page.md")
#: Key under which a figure carries the fingerprint of its numbers.
NUMBERS = "Numbers"
#: Smallest sizes from which growth is fitted: there costs of calls no longer matter.
FROM = {"heads": 4096, "circle": 10_000, "sphere": 10_000}
#: What an evaluation consists of, in the order of the bars: rate, name, colour.
SHARES = (
    ("flops", "matrix products", "#0b5fa5"),
    ("exp", "exponentials", "#c8500a"),
    ("passes", "passes over arrays", "#00805e"),
    ("bytes", "memory", "#8a5a9e"),
)
REST = "#c9cdd6"

CAPTIONS = {
    "largest": "The largest sizes: one evaluation of all logits and gradients, or of all "
    "velocities. Memory is what the call holds at most beyond heads or particles, its results "
    "included.",
    "growth": "Time of one evaluation against its size, on logarithmic axes. Heads and particles "
    "on the circle grow in proportion (fitted exponents {} and {}), particles on the sphere, "
    "where every pair is visited, as the square ({}). Dashed lines have slopes 1 and 2 exactly.",
    "heads": "Heads ({}): time and memory of one evaluation. A head has {} parameters, so that "
    "its gradient alone is {} bytes.",
    "circle": "Particles on the circle: time and memory of one evaluation, and the time of other "
    "code for the same numbers. Usual code takes sines and cosines of all differences, direct "
    "code one exponential of every pair; for many particles both are timed on a few, and "
    "multiplied.",
    "sphere": "Particles on the sphere: time and memory of one evaluation, which visits every "
    "pair once, beside other code that is timed as on the circle.",
    "rates": "What this machine does at best with one thread, measured with NumPy before and "
    "after the evaluations above. Bytes are those that a program reads and writes, in arrays "
    "larger than the caches.",
    "closeness": "How close evaluations come to these limits. GFLOP/s counts matrix products "
    "only, GB/s what has to come from memory or go there. The last columns are shares of the "
    "measured time: exponentials, passes over arrays, and the sum of all four kinds of work, each "
    "at its best rate.",
    "limits": "How much of the measured time each kind of work would take at the machine's best "
    "rates, one after the other. The rest, in grey, goes into products of thin matrices, which "
    "run below the rate of large square ones, into passes that the count leaves out, and into "
    "calls.",
    "peers": "Logits and gradients of all heads beside NumPy, PyTorch and JAX, each in its "
    "fastest form.",
    "training": "Training beside PyTorch and JAX, which end at the same heads.",
    "velocities": "One evaluation of all velocities beside usual and direct code.",
    "runs": "Whole runs on the circle, from uniform particles to the stopping rule. The usual "
    "time is the number of its Euler steps times one step, because the run itself takes minutes.",
    "minimisers": "The certified minimiser on the circle.",
}
ALT = {
    "growth": "Log-log plot of seconds against the number of heads or particles. Heads and "
    "particles on the circle follow lines of slope 1, particles on the sphere a steeper line of "
    "slope 2.",
    "limits": "Horizontal bars, one for each evaluation, divided into the shares of its time that "
    "the counted kinds of work would take.",
}


class Results:
    """The stored results; names of steps as in :func:`benchmarks.run.steps`."""

    def __init__(self, stored: dict):
        self.entries = stored.get("steps", {})
        missing = [step for step in steps() if step not in self.entries]
        if missing:
            raise ValueError(f"results: {', '.join(missing)} not measured yet (make bench)")

    def __getitem__(self, step: str) -> dict:
        return self.entries[step]["result"]

    @property
    def rates(self) -> dict[str, float]:
        """The machine's rates, the best of before and after."""
        both = [self[f"scale/limits-{when}"]["rates"] for when in ("before", "after")]
        return {name: max(rates[name] for rates in both) for name in tables.RATES}

    def rows(self, what: str, normalised: bool = False) -> list[dict]:
        """Rows of one table of growth."""
        rows = self[f"scale/{what}"]["rows"]
        return [row for row in rows if row.get("normalised", False) == normalised]

    def comparisons(self, *names: str) -> list[dict]:
        """All comparisons of some steps."""
        return [one for name in names for one in self[name]["comparisons"]]


def time_of(row: dict) -> float:
    """Median time of a row."""
    return float(np.median(row["seconds"]))


def exponent(rows, first: int) -> float:
    """Growth of time as a power of the size, by least squares from a size on."""
    large = [row for row in rows if row["size"] >= first]
    x, y = np.log([[row["size"], time_of(row)] for row in large]).T
    return float(np.polyfit(x, y, 1)[0])


def shares(row: dict, rates: dict) -> dict[str, float]:
    """Parts of the measured time that each kind of work would take at the machine's own rate."""
    work, time = row["work"], time_of(row)
    return {
        "flops": work["flops"] / rates["flops"] / time,
        "exp": work["exp"] / rates["exp"] / time,
        "passes": (work["product"] / rates["product"] + work["complex"] / rates["complex product"])
        / time,
        "bytes": work["bytes"] / rates["copy"] / time,
    }


def kernels(results: Results) -> dict[str, dict]:
    """The evaluations whose closeness to the limits is shown."""
    kept = results.rows("heads")[0]
    return {
        f"heads, M = {kept['size']:,}": kept,
        f"heads, M = {results.rows('heads')[-1]['size']:,}": results.rows("heads")[-1],
        f"circle, N = {results.rows('circle')[-1]['size']:,}": results.rows("circle")[-1],
        "the same, normalised": results.rows("circle", True)[-1],
        f"sphere, N = {results.rows('sphere')[-1]['size']:,}": results.rows("sphere")[-1],
    }


# --- figures -------------------------------------------------------------------------------------


def growth_figure(results: Results) -> dict:
    """Arguments of the figure of growth."""
    roles = {"heads": "measured", "circle": "second", "sphere": "fluctuation"}
    left = {"sphere"}  # named on the left: on the right another line passes
    series = [
        {
            "x": [row["size"] for row in results.rows(what)],
            "y": [time_of(row) for row in results.rows(what)],
            "label": what,
            "role": role,
            "side": "left" if what in left else "right",
        }
        for what, role in roles.items()
    ]
    return {"series": series, "slopes": [1, 1, 2]}


def limits_figure(results: Results) -> dict:
    """Arguments of the figure of limits."""
    return {"bars": {name: shares(row, results.rates) for name, row in kernels(results).items()}}


@plots.drawing
def lines(series, slopes):
    """Log-log lines, each with a dashed line of exact slope through its last point."""
    figure, axes = plots.new_figure(7.0, 4.2)
    for item, slope in zip(series, slopes, strict=True):
        x, y = np.array(item["x"], dtype=float), np.array(item["y"])
        role = plots.ROLES[item["role"]]
        axes.plot(x, y[-1] * (x / x[-1]) ** slope, **plots.ROLES["reference"].line)
        axes.plot(x, y, **role.line)
        right = item["side"] == "right"
        axes.annotate(
            f"{item['label']}\nslope {slope}", (x[-1], y[-1]), xytext=(8 if right else -8, 0),
            textcoords="offset points", ha="left" if right else "right", va="center", fontsize=9,
            color=role.colour,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="number of heads $M$ or particles $N$")
    axes.set_ylabel("seconds for one evaluation")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.14)
    return figure


@plots.drawing
def stacked(bars):
    """Horizontal bars of shares of a time, what is left of one in grey."""
    figure, axes = plots.new_figure(7.4, 0.55 * len(bars) + 1.5)
    names = list(bars)
    left = np.zeros(len(names))
    for key, label, colour in SHARES:
        width = np.array([bars[name][key] for name in names])
        axes.barh(
            names, width, left=left, color=colour, label=label, height=0.62, edgecolor="white"
        )
        for y, (x, w) in enumerate(zip(left, width, strict=True)):
            if w >= 0.05:
                axes.text(x + w / 2, y, f"{100 * w:.0f}%", color="white", ha="center", va="center")
        left += width
    rest = np.maximum(1 - left, 0)
    axes.barh(names, rest, left=left, color=REST, label="the rest", height=0.62, edgecolor="white")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set(xlim=(0, max(1.0, left.max())), xlabel="share of the measured time")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)
    return figure


FIGURES = {
    "performance-growth.png": (growth_figure, lines),
    "performance-limits.png": (limits_figure, stacked),
}


def numbers(arguments: dict) -> str:
    """Fingerprint of what a figure shows."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def draw(name: str, results: Results) -> bytes:
    """A figure as PNG in 256 colours; it carries the fingerprint of its numbers."""
    collect, plot = FIGURES[name]
    arguments = collect(results)
    image = Image.open(io.BytesIO(plot(**arguments).png)).convert("RGB")
    image = image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    info, file = PngInfo(), io.BytesIO()
    info.add_text(NUMBERS, numbers(arguments))
    image.save(file, format="PNG", optimize=True, pnginfo=info)
    return file.getvalue()


# --- text ----------------------------------------------------------------------------------------


def markdown(rows: list[dict], caption: str, name: str, words: int = 1) -> str:
    """A table; the first ``words`` columns hold words, the rest numbers that do not wrap."""
    header = list(rows[0])
    rows = [
        {k: v if i < words else v.replace(" ", "\u00a0") for i, (k, v) in enumerate(row.items())}
        for row in rows
    ]
    rule = ["---"] * words + ["---:"] * (len(header) - words)
    lines = [header, rule, *(list(row.values()) for row in rows)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"```{{table}} {caption}\n:name: {name}\n:class: mf-compact\n\n{body}\n```"


def picture(name: str, alt: str, caption: str) -> str:
    """A figure with its caption."""
    stem = name.removesuffix(".png")
    return f"```{{figure}} _static/{name}\n:alt: {alt}\n:name: fig-{stem}\n\n{caption}\n```"


def measured_on(results: Results) -> str:
    """Machine and date, or several if parts were measured apart."""
    groups: dict[tuple, list[str]] = {}
    for step, entry in results.entries.items():
        key = (tables.machine_line(entry["machine"]), entry["date"], entry["code"])
        groups.setdefault(key, []).append(step)
    if len(groups) == 1:
        ((line, day, _),) = groups
        return f"*Machine.* {line}. Measured on {day}, all by the same code."
    parts = [f"- {line}; {day}: {', '.join(names)}." for (line, day, _), names in groups.items()]
    return "*Machines.* The parts were measured apart:\n\n" + "\n".join(parts)


def goals(results: Results) -> tuple[list[tuple], list[tuple]]:
    """Goals that are met and missed: (program, title, ratio, goal)."""
    met, missed = [], []
    for step in steps():
        if results[step]["kind"] != "comparisons":
            continue
        for one in results[step]["comparisons"]:
            for program in one["programs"]:
                if program["goal"] is not None:
                    middle = tables.ratio(one, program["name"])[1]
                    entry = (program["name"], one["title"], middle, program["goal"])
                    (met if middle >= program["goal"] else missed).append(entry)
    return met, missed


def beside(comparisons: list[dict], caption: str, name: str) -> str:
    """One table of several comparisons of the same unit."""
    rows, sizes = [], {}
    for one in comparisons:
        problem, *size = one["title"].split("; ")
        if size:  # what the problems share goes into the caption
            shared, last = size[0].rsplit(", ", 1)
            problem = f"{problem}, {last}"
            sizes[shared] = None
        for row in tables.comparison_rows(one):
            own = row["program"] == "mfbook"
            quartiles = "" if own else f" ({row['quartiles']})"
            form = f" ({row['form']})" if row["form"] else ""
            rows.append(
                {
                    "problem": nice(problem) if own else "",
                    "program": row["program"] + form,
                    one["unit"]: row[one["unit"]],
                    "time / mfbook (quartiles)": row["time / mfbook"] + quartiles,
                    "goal": row["goal"],
                }
            )
    caption += f" Sizes: {'; '.join(sizes)}." if sizes else ""
    return markdown(rows, caption, name, words=2)


def closeness(results: Results) -> str:
    """The table of shares."""
    rates, rows = results.rates, []
    for name, row in kernels(results).items():
        part, time = shares(row, rates), time_of(row)
        flops, moved = row["work"]["flops"] / time, row["work"]["bytes"] / time
        rows.append(
            {
                "evaluation": name,
                "GFLOP/s": digits(flops / GIGA),
                "of DGEMM": f"{100 * flops / rates['flops']:.0f} %",
                "GB/s": digits(moved / GIGA),
                "of the copy": f"{100 * moved / rates['copy']:.1f} %",
                "exponentials": f"{100 * part['exp']:.0f} %",
                "passes": f"{100 * part['passes']:.0f} %",
                "sum": f"{100 * sum(part.values()):.0f} %",
            }
        )
    return markdown(rows, CAPTIONS["closeness"], "tab-closeness")


def summary(results: Results) -> str:
    """The table of the largest sizes."""
    rows = []
    for what, letter, name in (
        ("heads", "M", "heads"),
        ("circle", "N", "particles on the "),
        ("sphere", "N", "particles on the "),
    ):
        title, row = results[f"scale/{what}"]["title"], results.rows(what)[-1]
        rows.append(
            {
                # the sizes of the task stand with the table of heads
                "what": f"heads, {title.split(', ')[-1]}" if letter == "M" else name + nice(title),
                "largest": f"{row['size']:,}",
                "one evaluation": duration(time_of(row)),
                "memory": size(row["peak"]),
                "bytes each": f"{row['peak'] / row['size']:,.0f}",
                "time grows as": f"${letter}^{{{growth(results, what):.2f}}}$",
            }
        )
    return markdown(rows, CAPTIONS["largest"], "tab-largest")


def nice(title: str) -> str:
    """A title of the terminal, for a page."""
    return title.replace("beta=", "β=").replace("R^3", "R³")


def growth(results: Results, what: str, normalised: bool = False) -> float:
    """Fitted exponent of one table of growth."""
    return exponent(results.rows(what, normalised), FROM[what])


def goals_text(results: Results) -> str:
    """How many goals are met, and which are not."""
    met, missed = goals(results)
    count = f"{len(met)} of {len(met) + len(missed)} goals are met."
    if not missed:
        return count
    # 3.98 is not 4: small ratios with three digits
    lines = [
        f"- {name}; {nice(title)}: {f'{ratio:.2f}' if ratio < 10 else digits(ratio)} for {goal:,g}"
        for name, title, ratio, goal in missed
    ]
    return f"{count} Missed:\n\n" + "\n".join(lines)


def absent(results: Results) -> str:
    """What was left out because it is not installed."""
    reasons = {
        reason
        for step in steps()
        if results[step]["kind"] == "comparisons"
        for one in results[step]["comparisons"]
        for reason in one["skipped"]
    }
    return "".join(f" Left out: {reason}." for reason in sorted(reasons))


def text(results: Results) -> str:
    """The page: its prose is page.md, with these values."""
    circle, sphere = results.rows("circle")[-1], results.rows("sphere")[-1]
    usual, direct = (
        float(np.median(row["peers"][peer]))
        for row, peer in ((circle, "usual"), (sphere, "direct"))
    )
    task, pairs = scale.TASK, scale.TASK.T * (scale.TASK.T - 1) // 2
    accounted = " ".join(
        f"{name}: {100 * sum(shares(row, results.rates).values()):.0f} percent accounted for."
        for name, row in kernels(results).items()
    )
    caption = CAPTIONS | {
        "growth": CAPTIONS["growth"].format(
            *(f"{growth(results, what):.2f}" for what in ("heads", "circle", "sphere"))
        ),
        "heads": CAPTIONS["heads"].format(
            results["scale/heads"]["title"], 4 * task.d * task.k, f"{32 * task.d * task.k:,}"
        ),
    }
    tables_of = {
        what: markdown(
            tables.growth_rows(results[f"scale/{what}"], "M" if what == "heads" else "N"),
            caption[what],
            f"tab-{what}",
            words=1 + (what == "circle"),
        )
        for what in ("heads", "circle", "sphere")
    }
    training = [step for step in steps() if step.startswith("training/")]
    limits = [results[f"scale/limits-{when}"] for when in ("before", "after")]
    values = {
        **tables_of,
        "machine": measured_on(results),
        "largest": summary(results),
        "growth_figure": picture("performance-growth.png", ALT["growth"], caption["growth"]),
        "block_heads": kernel.HEADS,
        "block_circle": f"{forces.CHUNKS[1]:,}",
        "block_sphere": forces.BLOCK,
        "process": size(max(entry["memory"] for entry in results.entries.values())),
        "kept": f"{kernel.KEEP // (8 * task.S * pairs):,}",
        "keep": f"{kernel.KEEP // 2**20} MB",
        "heads_exponent": f"{growth(results, 'heads'):.2f}",
        "circle_exponent": f"{growth(results, 'circle'):.2f}",
        "normalised_exponent": f"{growth(results, 'circle', True):.2f}",
        "circle_size": f"{circle['size']:,}",
        "circle_ratio": digits(usual / time_of(circle)),
        "circle_usual": duration(usual),
        "sphere_exponent": f"{growth(results, 'sphere'):.2f}",
        "sphere_size": f"{sphere['size']:,}",
        "sphere_time": duration(time_of(sphere)),
        "sphere_next": duration(100 * time_of(sphere)),
        "sphere_ratio": digits(direct / time_of(sphere)),
        "rates": markdown(tables.limit_rows(*limits), caption["rates"], "tab-rates"),
        "closeness": closeness(results),
        "limits_figure": picture(
            "performance-limits.png", f"{ALT['limits']} {accounted}", caption["limits"]
        ),
        "absent": absent(results),
        "goals": goals_text(results),
        "peers": beside(
            results.comparisons("heads/small", "heads/wide"), caption["peers"], "tab-peers"
        ),
        "training": beside(results.comparisons(*training), caption["training"], "tab-training"),
        "velocities": beside(
            results.comparisons("sphere/circle-1000", "sphere/circle-10000", "sphere/higher"),
            caption["velocities"],
            "tab-velocities",
        ),
        "runs": beside(results.comparisons("sphere/whole-runs"), caption["runs"], "tab-runs"),
        "minimisers": markdown(
            tables.minimiser_rows(results["sphere/minimisers"]),
            caption["minimisers"],
            "tab-minimisers",
        ),
        "took": duration(sum(entry["took"] for entry in results.entries.values())),
    }
    return Template(PROSE.read_text(encoding="utf-8")).substitute(values)


def write(path: Path = RESULTS) -> None:
    """Write the page and its figures."""
    results = Results(read_json(path))
    PAGE.write_text(text(results), encoding="utf-8")
    for name in FIGURES:
        (STATIC / name).write_bytes(draw(name, results))


if __name__ == "__main__":
    write()
