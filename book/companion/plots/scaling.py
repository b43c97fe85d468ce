"""Figures of the scaling page: forces and bounds, counts, masses, and merging clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from companion.plots.picture import drawing
from companion.plots.style import ROLES, new_figure

#: Role of each perceptron in the figures of this page.
UNITS = {"none": "reference", "relu": "second", "gelu": "measured"}
NAMES = {"none": "no perceptron", "relu": "ReLU", "gelu": "GeLU"}
MARKS = {"none": "s", "relu": "^", "gelu": "o"}


def _hollow(axes, x, y, settled, **style) -> None:
    """Points, filled where a run has stopped by its rule."""
    for mask, face in ((settled, style["color"]), (~settled, "white")):
        axes.plot(x[mask], y[mask], linestyle="", markerfacecolor=face, **style)


@drawing
def count_panels(
    panels: Sequence[Sequence[Sequence[Mapping]]],
    *,
    titles: Sequence[str],
    rows: Sequence[str],
    log: Sequence[bool],
) -> tuple[Figure, dict]:
    """Numbers of clusters against the square root of beta, hollow where a run has not stopped."""
    figure, grid = new_figure(
        8.2, 2.5 * len(panels) + 0.5, nrows=len(panels), ncols=len(titles), squeeze=False
    )
    names: dict = {}
    ticks = np.outer(10.0 ** np.arange(3), [1, 2, 5]).ravel()
    for cells, row, word in zip(grid, panels, rows, strict=True):
        for axes, panel, logarithmic in zip(cells, row, log, strict=True):
            for item in panel:
                role = ROLES[item["role"]]
                look = {"color": role.colour, "marker": item.get("marker", "o"), "markersize": 4.2}
                axes.plot(
                    item["x"], item["y"], color=role.colour, linewidth=1.2,
                    linestyle=item.get("dash", "-"),
                )  # fmt: skip
                _hollow(axes, item["x"], item["y"], item["settled"], **look)
                (names[item["label"]],) = axes.plot(
                    [], [], linestyle=item.get("dash", "-"), linewidth=1.2, **look
                )
            if logarithmic:
                axes.set_yscale("log")
                low, high = 0.8, 1.3 * max(np.max(item["y"]) for item in panel)
                axes.yaxis.set_major_locator(FixedLocator(ticks[ticks < high]))
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_locator(NullLocator())
                axes.set_ylim(low, high)
            else:
                axes.set_ylim(0, None)
            axes.set_xlabel("√β")
        cells[0].set_ylabel(f"clusters, {word}" if word else "clusters")
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, fontsize=9)
    grey = ROLES["reference"].colour
    (names["not stopped"],) = axes.plot(
        [], [], linestyle="", marker="o", color=grey, markerfacecolor="white"
    )
    figure.legend(names.values(), names, loc="outside lower center", ncols=4)
    return figure, {"panels": [
        {"title": f"{word}, {title}", "counts": panel}
        for word, row in zip(rows, panels, strict=True)
        for title, panel in zip(titles, row, strict=True)
    ]}  # fmt: skip


@drawing
def mass_panels(panels: Sequence[Mapping]) -> tuple[Figure, dict]:
    """Masses of clusters against bounds, a line through the heaviest, three panels in a row."""
    columns = min(len(panels), 3)
    lines = -(-len(panels) // columns)
    figure, grid = new_figure(
        8.2, 2.7 * lines + 0.5, nrows=lines, ncols=columns, sharey=True, squeeze=False
    )
    names: dict = {}
    data: dict = {}
    for axes, item in zip(grid.ravel(), panels, strict=False):
        for units, (x, mass, settled) in item["masses"].items():
            x, mass, settled = np.asarray(x), np.asarray(mass), np.asarray(settled, bool)
            look = {"marker": MARKS[units], "color": ROLES[UNITS[units]].colour, "markersize": 3.8}
            _hollow(axes, x, mass, settled, **look)
            (names[NAMES[units]],) = axes.plot([], [], linestyle="", **look)
            heaviest = [(at, np.max(mass[x == at])) for at in np.unique(x)]
            axes.plot(*np.transpose(heaviest), color=look["color"], linewidth=1)
            name = f"{item['title']}, {NAMES[units]}"
            data[name] = {"x": x, "mass": mass, "settled": settled}
        data[f"{item['title']}, bounds"] = item["bounds"]
        for x, bound, role, label in item["bounds"]:
            (names[label],) = axes.plot(x, bound, **ROLES[role].line, label=label)
        axes.set(xlabel=item["xlabel"], xscale=item["xscale"], title=item["title"])
        axes.set_ylim(-0.03, 1.05)
    for axes in grid[:, 0]:
        axes.set_ylabel("mass of a cluster")
    figure.legend(names.values(), names, loc="outside lower center", ncols=4)
    return figure, data
