"""Figures of Section 7: rates against confinement, phase diagrams, clouds of heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.ndimage import distance_transform_edt

from companion.plots.charts import plain_lines
from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, new_figure

#: Shades of the regimes, from the most stable on; each also carries its name.
SHADES = ("#dcebf7", "#fbe3c4", "#e9d5e6")


def name_regimes(axes, edges: Sequence[float], names: Sequence[str]) -> None:
    """Shade and name the ranges between the edges; the last is the most stable."""
    for i, name in enumerate(names):
        low, high = edges[i : i + 2]
        shade = SHADES[len(names) - 1 - i]
        axes.axvspan(low, high, color=shade, alpha=0.6, linewidth=0, zorder=0)
        narrow = high - low < 0.15 * (edges[-1] - edges[0])
        axes.annotate(
            name, (low if narrow else (low + high) / 2, 1), xycoords=("data", "axes fraction"),
            xytext=(5 if narrow else 0, -11), textcoords="offset points",
            ha="left" if narrow else "center", fontsize=9, color=INK,
        )  # fmt: skip


@drawing
def regimes(
    lines: Sequence[Mapping],
    dots: Sequence[Mapping],
    *,
    borders: Sequence[float],
    names: Sequence[str],
    xlabel: str,
    ylabel: str,
) -> Figure:
    """Predicted rates as lines, measured ones as dots, over shaded and named regimes."""
    figure, axes = new_figure(7.4, 4.0)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    plain_lines(axes, lines)
    for item in dots:
        role = ROLES[item["role"]]
        axes.plot(
            item["x"], item["y"], label=item["label"], color=role.colour, linestyle="",
            marker=item.get("marker", "o"), markersize=6, markerfacecolor="white",
        )  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.8)
    left, right = np.min(lines[0]["x"]), np.max(lines[0]["x"])
    name_regimes(axes, [left, *borders, right], names)
    axes.set_xlim(left, right)
    axes.margins(y=0.14)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@drawing
def phase_diagram(
    x: np.ndarray,
    y: np.ndarray,
    regime: np.ndarray,
    *,
    borders: Sequence[Mapping],
    dots: Sequence[Mapping],
    names: Sequence[str],
    xlabel: str,
    ylabel: str,
) -> tuple[Figure, dict]:
    """Predicted regimes as shaded regions, simulated verdicts as markers."""
    figure, axes = new_figure(7.4, 4.3)
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    axes.grid(False)
    colours = ListedColormap(SHADES[: len(names)])
    axes.pcolormesh(x, y, regime, cmap=colours, vmin=-0.5, vmax=len(names) - 0.5, rasterized=True)
    plain_lines(axes, borders)
    for item in dots:
        axes.plot(
            item["x"], item["y"], label=item["label"], linestyle="", marker=item["marker"],
            markersize=6, markerfacecolor="white", color=INK,
        )  # fmt: skip
    # each name stands where its region is widest: farthest from any border
    for i, name in enumerate(names):
        room = distance_transform_edt(np.pad(regime == i, 1), sampling=(3, 1))[1:-1, 1:-1]
        if room.max() > 3:
            row, column = np.unravel_index(int(room.argmax()), room.shape)
            axes.annotate(
                name, (x[column], y[row]), ha="center", va="center", fontsize=9.5,
                fontweight="bold", color=INK,
            )  # fmt: skip
    figure.legend(loc="outside lower center", ncols=3)
    return figure, {
        "y of row i": y, "x of column j": x, "predicted regime": np.asarray(names)[regime],
        "borders": borders, "dots": dots,
    }  # fmt: skip


@drawing
def cloud(
    path: np.ndarray,
    times: np.ndarray,
    sizes: Sequence[Mapping],
    *,
    limit: float,
    xlabel: str,
    ylabel: str,
    title: str = "",
) -> Figure:
    """Heads moving near a stationary point, and how the parts of their spread grow or decay."""
    figure, (left, right) = new_figure(7.6, 3.7, ncols=2, width_ratios=(1, 1.1))
    grey = ROLES["reference"].colour
    left.plot(*path.transpose(2, 0, 1), color=grey, alpha=0.5, linewidth=0.8)
    left.plot(*path[0].T, "o", color=grey, markersize=3.5, label="start")
    left.plot(*path[-1].T, **{**ROLES["found"].line, "markersize": 5}, label="end")
    left.plot(0, 0, "+", color=INK, markersize=11, label="stationary head")
    left.set(xlabel=xlabel, ylabel=ylabel, xlim=(-limit, limit), ylim=(-limit, limit), title=title)
    plain_lines(right, [{**item, "x": times} for item in sizes])
    right.set(xlabel=r"rescaled time $\tau$", ylabel="distance", yscale="log")
    handles = [axes.get_legend_handles_labels() for axes in (left, right)]
    figure.legend(
        handles[0][0] + handles[1][0], handles[0][1] + handles[1][1],
        loc="outside lower center", ncols=3,
    )  # fmt: skip
    return figure


@drawing
def verdicts(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    shades: Mapping[str, int],
) -> Figure:
    """A table of short verdicts on coloured cells; the words say what the colours say."""
    figure, axes = new_figure(7.6, 0.42 * len(rows) + 1.0)
    shade = [[shades[text.split()[0]] for text in line] for line in cells]
    axes.imshow(shade, cmap=ListedColormap(SHADES), vmin=-0.5, vmax=2.5, aspect="auto")
    axes.grid(False)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    for edge in range(1, len(rows)):
        axes.axhline(edge - 0.5, color="white", linewidth=2)
    for edge in range(1, len(columns)):
        axes.axvline(edge - 0.5, color="white", linewidth=2)
    for (i, j), _ in np.ndenumerate(np.array(shade)):
        axes.text(j, i, cells[i][j], ha="center", va="center", fontsize=9, color=INK)
    return figure
