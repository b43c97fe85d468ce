"""The book's page on performance, its figures and its numbers, all made from the stored results.

    python -m benchmarks.page

writes ``book/performance.md`` and its figures again without measuring anything. Prose, captions and
columns of tables are in ``page.md``, a template for Jinja; here is what it may name. A test
compares the committed page with what this module makes of the committed results.
"""

import hashlib
import io
import json
from functools import partial
from pathlib import Path

import jinja2
import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mfbook.book import plots
from mfbook.models.attention import kernel
from mfbook.models.sphere import forces

from . import steps
from .scale import TASK

PAGE = steps.ROOT / "book" / "performance.md"
STATIC = steps.ROOT / "book" / "_static"
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
SPACE = "\u00a0"  # that does not break a line between a number and its unit
#: Units: name, factor, and from where on they are used.
SIZES = (("bytes", 1, 0), ("KB", 1e3, 1e3), ("MB", 1e6, 1e6), ("GB", 1e9, 1e9))
TIMES = (
    ("µs", 1e-6, 0), ("ms", 1e-3, 1e-3), ("s", 1, 1),
    ("min", 60, 120), ("h", 3600, 120 * 60), ("days", 86400, 120 * 3600),
)  # fmt: skip


def digits(value: float) -> str:
    """Two or three significant digits without an exponent.

    >>> digits(12345.6), digits(0.98765), digits(2.0), digits(22.349), digits(0)
    ('12,300', '0.99', '2', '22', '0')
    """
    rounded = float(f"{value:.{3 if abs(value) >= 100 else 2}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:.12g}"


def in_units(value: float, units) -> str:
    """A quantity in the last unit that is used for it.

    >>> [text.split() for text in (size(435_000), duration(3.2e-5), duration(754), duration(7.4e6))]
    [['435', 'KB'], ['32', 'µs'], ['13', 'min'], ['86', 'days']]
    """
    name, factor = [(name, factor) for name, factor, first in units if value >= first][-1]
    return f"{digits(value / factor)}{SPACE}{name}"


size, duration = partial(in_units, units=SIZES), partial(in_units, units=TIMES)


class Results:
    """The stored results of all steps; names of steps as in :func:`benchmarks.steps.steps`."""

    def __init__(self, entries: dict):
        self.entries = entries
        if missing := [step for step in steps.steps() if step not in entries]:
            raise ValueError(f"results: {', '.join(missing)} not measured yet (make bench)")
        self.limits = [self[f"scale/limits-{when}"]["rates"] for when in ("before", "after")]
        self.rates = {name: max(rates[name] for rates in self.limits) for name in self.limits[0]}

    def __getitem__(self, step: str) -> dict:
        return self.entries[step]["result"]

    def rows(self, what: str, normalised: bool | None = False) -> list[dict]:
        """Rows of one table of growth, plain or normalised or, if None, both."""
        result = self[f"scale/{what}"]
        chosen = [r for r in result["rows"] if normalised in (None, r.get("normalised", False))]
        return [derived(row, result["per"], self.rates) for row in chosen]

    def growth(self, what: str, normalised: bool = False) -> str:
        """Growth of time as a power of the size, by least squares from a size on."""
        large = [row for row in self.rows(what, normalised) if row["size"] >= FROM[what]]
        x, y = np.log([[row["size"], row["time"]] for row in large]).T
        return f"{np.polyfit(x, y, 1)[0]:.2f}"

    def kernels(self) -> dict[str, dict]:
        """The evaluations whose closeness to the limits is shown."""
        (first, *_, last), circle, sphere = (self.rows(what) for what in FROM)
        return {
            f"heads, M = {first['size']:,}": first,
            f"heads, M = {last['size']:,}": last,
            f"circle, N = {circle[-1]['size']:,}": circle[-1],
            "the same, normalised": self.rows("circle", True)[-1],
            f"sphere, N = {sphere[-1]['size']:,}": sphere[-1],
        }

    def programs(self, *prefixes: str) -> list[dict]:
        """All programs of the comparisons of some steps; this package is the first of each."""
        chosen = [step for step in steps.steps() if step.startswith(prefixes)]
        comparisons = [one for step in chosen for one in self[step].get("comparisons", ())]
        return [beside(one, program) for one in comparisons for program in one["programs"]]

    def machines(self) -> list[dict]:
        """Machine and date of steps, those together that were measured by the same code."""
        found: dict[str, dict] = {}
        for step, entry in self.entries.items():
            same = {name: entry[name] for name in ("machine", "date", "code")}
            found.setdefault(json.dumps(same), {**same, "steps": []})["steps"].append(step)
        return list(found.values())


def derived(row: dict, per: int, rates: dict) -> dict:
    """A row with its median time, what follows from it, and the shares of each kind of work.

    These are the parts of the time that the work would take at the machine's own rates.
    """
    time, work = float(np.median(row["seconds"])), row["work"]
    passes = work["product"] / rates["product"] + work["complex"] / rates["complex product"]
    peers = row.get("peers", {"usual": np.nan, "direct": np.nan})
    return row | {
        "time": time,
        "ns": time / row["size"] / per * 1e9,
        "usual": np.median(peers["usual"]) / time,
        "direct": np.median(peers["direct"]) / time,
        "shares": {
            "flops": work["flops"] / rates["flops"] / time,
            "exp": work["exp"] / rates["exp"] / time,
            "passes": passes / time,
            "bytes": work["bytes"] / rates["copy"] / time,
        },
    }


def beside(comparison: dict, program: dict) -> dict:
    """A program with its comparison, time and ratio.

    Ratios time / mfbook are taken within each round; low, ratio and high are their quartiles.
    """
    ours, goal = comparison["programs"][0], program["goal"]
    ratios = np.divide(program["seconds"], ours["seconds"])
    low, ratio, high = np.quantile(ratios, (0.25, 0.5, 0.75)).tolist()
    title = comparison["title"].replace("beta=", "β=")
    what, _, sizes = title.partition("; ")
    shared, _, own = sizes.rpartition(", ")  # what problems share goes into the caption
    return comparison | program | {
        "ours": program is ours, "low": low, "ratio": ratio, "high": high,
        "met": goal is not None and ratio >= goal, "title": title, "shared": shared,
        "problem": f"{what}, {own}" if own else what,
        "value": np.median(program["seconds"]) * comparison["per"],
    }  # fmt: skip


def limits_figure(results: Results) -> dict:
    """Arguments of the figure of limits."""
    return {"bars": {name: row["shares"] for name, row in results.kernels().items()}}


def growth_figure(results: Results) -> dict:
    """Arguments of the figure of growth; a name is on the left where another line passes."""
    roles = {"heads": "measured", "circle": "second", "sphere": "fluctuation"}
    series = [
        {
            "x": [row["size"] for row in results.rows(what)],
            "y": [row["time"] for row in results.rows(what)],
            "label": what,
            "role": role,
            "side": "left" if what == "sphere" else "right",
        }
        for what, role in roles.items()
    ]
    return {"series": series, "slopes": [1, 1, 2]}


@plots.drawing
def lines(series, slopes):
    """Log-log lines, each with a dashed line of exact slope through its last point."""
    figure, axes = plots.new_figure(7.0, 4.2)
    for item, slope in zip(series, slopes, strict=True):
        x, y = np.array(item["x"], dtype=float), np.array(item["y"])
        role, right = plots.ROLES[item["role"]], item["side"] == "right"
        axes.plot(x, y[-1] * (x / x[-1]) ** slope, **plots.ROLES["reference"].line)
        axes.plot(x, y, **role.line)
        axes.annotate(
            f"{item['label']}\nslope {slope}", (x[-1], y[-1]), xytext=(8 if right else -8, 0),
            textcoords="offset points", ha="left" if right else "right", va="center", fontsize=9,
            color=role.colour,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="number of heads $M$ or particles $N$")
    axes.set_ylabel("seconds for one evaluation")
    axes.minorticks_off()
    axes.margins(x=0.14)
    return figure


@plots.drawing
def stacked(bars):
    """Horizontal bars of shares of a time, what is left of one in grey."""
    figure, axes = plots.new_figure(7.4, 0.55 * len(bars) + 1.5)
    names, left = list(bars), np.zeros(len(bars))
    style = {"height": 0.62, "edgecolor": "white"}
    for key, label, colour in SHARES:
        width = np.array([bars[name][key] for name in names])
        axes.barh(names, width, left=left, color=colour, label=label, **style)
        for y, (x, w) in enumerate(zip(left, width, strict=True)):
            if w >= 0.05:
                axes.text(x + w / 2, y, f"{100 * w:.0f}%", color="white", ha="center", va="center")
        left += width
    axes.barh(names, np.maximum(1 - left, 0), left=left, color=REST, label="the rest", **style)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set(xlim=(0, max(1.0, left.max())), xlabel="share of the measured time")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)
    return figure


FIGURES = {
    "performance-growth.png": (growth_figure, lines),
    "performance-limits.png": (limits_figure, stacked),
}


def numbers(arguments: dict) -> str:
    """Fingerprint of what a figure shows."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def draw(name: str, results: Results) -> None:
    """Write a figure as PNG in 256 colours; it carries the fingerprint of its numbers."""
    collect, plot = FIGURES[name]
    arguments, info = collect(results), PngInfo()
    image = Image.open(io.BytesIO(plot(**arguments).png)).convert("RGB")
    image = image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    info.add_text(NUMBERS, numbers(arguments))
    image.save(STATIC / name, optimize=True, pnginfo=info)


def text(results: Results) -> str:
    """The page: its prose is page.md, with these names and filters."""
    environment = jinja2.Environment(
        variable_start_string="[[", variable_end_string="]]",
        block_start_string="[%", block_end_string="%]", trim_blocks=True,
        keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        "digits": digits, "size": size, "duration": duration, "median": np.median,
        "count": lambda number: f"{number:,.0f}", "giga": lambda rate: digits(rate / 1e9),
        "percent": lambda share, places=0: f"{100 * share:.{places}f}{SPACE}%",
        "plain": lambda number: number.replace(SPACE, " "),
    }  # fmt: skip
    template = environment.from_string(PROSE.read_text(encoding="utf-8"))
    return template.render(results=results, task=TASK, kernel=kernel, forces=forces)


def write() -> None:
    """Write the page and its figures."""
    results = Results(steps.results())
    PAGE.write_text(text(results), encoding="utf-8")
    for name in FIGURES:
        draw(name, results)


if __name__ == "__main__":
    write()
