"""Figures of Section 5: heads that flow, errors against heads and steps, training on text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from companion.plots.charts import draw_series, falling_risk, label_two, numbers, slope_triangle
from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, SEQUENTIAL, new_figure


@drawing
def particles(
    path: np.ndarray, at: int, times: np.ndarray, risk: np.ndarray, *, limit: float
) -> Figure:
    """Heads in two principal coordinates with the way they came, and the risk beside."""
    figure, (left, right) = new_figure(7.4, 3.6, ncols=2, width_ratios=(1.15, 1))
    start, now = path[0], path[at]
    grey = ROLES["reference"].colour
    left.plot(*path[: at + 1].transpose(2, 0, 1), color=grey, alpha=0.25, linewidth=0.7)
    left.plot(*start.T, "o", color=grey, markersize=2, alpha=0.5)
    left.plot(*now.T, **{**ROLES["found"].line, "markersize": 3.5, "alpha": 0.8})
    low, high = path.min(axis=(0, 1)), path.max(axis=(0, 1))
    margin = 0.04 * (high - low)
    left.set(
        xlabel="first principal coordinate", ylabel="second principal coordinate",
        xlim=(low[0] - margin[0], high[0] + margin[0]),
        ylim=(low[1] - margin[1], high[1] + margin[1]), title="Heads",
    )  # fmt: skip
    labels = {"xlabel": r"rescaled time $\tau$", "ylabel": "risk (nats per token)"}
    falling_risk(right, times, risk, at, limit, title="Risk", **labels)
    return figure


@drawing
def panels(
    items: Sequence[Mapping],
    *,
    size: tuple[float, float] = (8.0, 3.7),
    sharey: bool = True,
    base: int | None = 2,
) -> Figure:
    """Several charts side by side, each with its legend below; one legend if they share it."""
    figure, grid = new_figure(*size, ncols=len(items), sharey=sharey, squeeze=False)
    names: list[dict] = []
    for axes, item in zip(grid[0], items, strict=True):
        axes.set(xlabel=item["xlabel"], title=item["title"])
        xscale, yscale = item.get("xscale", "log"), item.get("yscale", "log")
        axes.set_xscale(xscale, **({"base": base} if xscale == "log" and base else {}))
        axes.set_yscale(yscale)
        if xscale == "log" and base:
            axes.xaxis.set_major_locator(LogLocator(base=base**2, numticks=10))
        if yscale == "log":
            axes.yaxis.set_minor_formatter(NullFormatter())
        draw_series(axes, item["series"], direct=False)
        axes.get_legend().remove()
        for x, y, text in item.get("slopes", ()):
            slope_triangle(axes, x, y, text)
        for height, role in item.get("lines", ()):
            axes.axhline(height, **ROLES[role].line)
        if "ylim" in item:
            axes.set_ylim(*item["ylim"])
        if not sharey or axes is grid[0, 0]:
            axes.set_ylabel(item["ylabel"])
        label_two(axes)
        handles, labels = axes.get_legend_handles_labels()
        names.append(dict(zip(labels, handles, strict=True)))
    first = names[0]
    if all(set(own) <= set(first) for own in names):
        figure.legend(first.values(), first, loc="outside lower center", ncols=min(3, len(first)))
        return figure
    for axes, own in zip(grid[0], names, strict=True):
        axes.legend(
            own.values(), own, loc="upper left", bbox_to_anchor=(-0.05, -0.24), borderaxespad=0,
            ncols=2 if len(own) > 2 and len(items) < 3 else 1,
        )  # fmt: skip
    return figure


@drawing
def grid_map(
    values: np.ndarray,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    xlabel: str,
    ylabel: str,
    label: str,
    frame: np.ndarray,
) -> Figure:
    """A table of positive numbers as colours, with the numbers written in the cells."""
    values = np.asarray(values)
    figure, axes = new_figure(7.4, 4.3)
    image = axes.imshow(values, cmap=SEQUENTIAL, norm=LogNorm(), origin="lower", aspect="auto")
    axes.grid(False)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    numbers(axes, image, "{:.2g}".format)
    for i, j in np.argwhere(frame):
        axes.plot(
            np.array([-1, 1, 1, -1, -1]) * 0.46 + j, np.array([-1, -1, 1, 1, -1]) * 0.46 + i,
            color=INK, linewidth=1.2,
        )  # fmt: skip
    bar = figure.colorbar(image, ax=axes)
    bar.set_label(label)
    bar.outline.set_visible(False)
    return figure


@drawing
def bound_cloud(groups: Sequence[Mapping], *, bound: tuple, xlabel: str, ylabel: str) -> Figure:
    """Measured errors against a bound, on logarithmic axes: dots below the line are covered."""
    figure, axes = new_figure(7.0, 4.0)
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log")
    for group in groups:
        axes.plot(
            group["x"], group["y"], linestyle="", marker=group["marker"], markersize=3, alpha=0.35,
            color=ROLES[group["role"]].colour, label=group["label"], rasterized=True,
        )  # fmt: skip
    x, y, text = bound
    axes.plot(x, y, label=text, **ROLES["bound"].line)
    legend = axes.legend(loc="upper left")
    for handle in legend.legend_handles:
        handle.set_alpha(1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        if np.divide(*axis.get_view_interval()) > 1e-3:  # few powers of ten
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
    return figure
