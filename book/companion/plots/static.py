"""Figures of Section 4: how the excess falls, how one draw spreads, what boosting certifies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from companion.plots.charts import draw_series, name_ends, slope_triangle
from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, new_figure


@drawing
def excess_rates(panels: Sequence[Mapping]) -> Figure:
    """Excess risk of M drawn heads against M, with its bounds; one panel for each measure."""
    figure, grid = new_figure(8.4, 4.4, ncols=len(panels), sharey=True, squeeze=False)
    for axes, panel in zip(grid[0], panels, strict=True):
        axes.set(xlabel="number of heads $M$", title=panel["title"])
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(LogLocator(base=4, numticks=12))
        axes.yaxis.set_minor_formatter(NullFormatter())
        draw_series(axes, panel["series"], direct=False)
        axes.get_legend().remove()
        for x, y, text in panel["slopes"]:
            slope_triangle(axes, x, y, text)
        for x, y, text, role in panel["notes"]:
            axes.annotate(
                text, (x, y), xytext=(4, 9), textcoords="offset points", fontsize=9,
                color=ROLES[role].colour,
            )  # fmt: skip
    grid[0, 0].set_ylabel("nats per token")
    name_ends(grid[0, -1], panels[-1]["series"])
    return figure


@drawing
def excess_distribution(panels: Sequence[Mapping], *, bins: int) -> tuple[Figure, dict]:
    """Histograms of the excess risk of M drawn heads, scaled so that a limit law appears."""
    figure, grid = new_figure(7.4, 3.1, ncols=len(panels), squeeze=False)
    data = {}
    for axes, panel in zip(grid[0], panels, strict=True):
        low, high = panel["range"]
        draws, (x, density) = np.asarray(panel["draws"]), panel["limit"]
        bars, edges, _ = axes.hist(
            np.clip(draws, low, high), bins=np.linspace(low, high, bins + 1), density=True,
            color=ROLES["measured"].colour, alpha=0.35,
        )  # fmt: skip
        data[panel["title"]] = {
            "mean": draws.mean(), "draws": {"x": (edges[1:] + edges[:-1]) / 2, "density": bars},
            "limit law": {"x": x, "density": density},
        }  # fmt: skip
        axes.plot(x, density, **ROLES["reference"].line)
        axes.axvline(draws.mean(), color=ROLES["measured"].colour, linewidth=2)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set(
            xlabel=panel["xlabel"], title=panel["title"], xlim=(low, high),
            ylim=(0, 1.45 * np.max(density)), yticks=[],
        )  # fmt: skip
        axes.annotate(
            "mean", (draws.mean(), 1.36 * np.max(density)), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=9, color=ROLES["measured"].colour,
        )  # fmt: skip
    grid[0, 0].set_ylabel("density")
    return figure, data
