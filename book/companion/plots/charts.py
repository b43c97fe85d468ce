"""The charts that the book uses again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, SEQUENTIAL, new_figure


def draw_series(axes, series: Sequence[Mapping], *, direct: bool) -> None:
    """Draw lines with bands on axes, and name each at its end (or in a legend)."""
    for item in series:
        role = ROLES[item.get("role", "measured")]
        x, y = np.asarray(item["x"]), np.asarray(item["y"])
        if "low" in item:
            axes.fill_between(
                x, item["low"], item["high"], color=role.colour, alpha=0.18, linewidth=0,
            )  # fmt: skip
        axes.plot(x, y, label=item["label"], **{**role.line, **item.get("line", {})})
    if direct:
        name_ends(axes, series)
    else:
        axes.legend()


def plain_lines(axes, items: Sequence[Mapping], **style) -> None:
    """Draw lines without markers."""
    for item in items:
        look = {**ROLES[item["role"]].line, "marker": "", **style, **item.get("line", {})}
        axes.plot(item["x"], item["y"], label=item["label"], **look)


def name_ends(axes, series: Sequence[Mapping], gap: float = 13.0) -> None:
    """Write each line's name at its right end, moved apart (in points) where they collide."""
    figure = axes.figure
    axes.autoscale_view()
    figure.draw_without_rendering()
    height = axes.get_window_extent().height / figure.dpi * 72
    ends = []
    for item in series:
        x, y = float(np.asarray(item["x"])[-1]), float(np.asarray(item["y"])[-1])
        where = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
        ends.append([where[1] * height, x, y, item])
    ends.sort(key=lambda end: end[0])
    places = np.array([end[0] for end in ends])
    for i in range(1, len(places)):  # upwards, then down again from the top of the frame
        places[i] = max(places[i], places[i - 1] + gap)
    places[-1:] = np.minimum(places[-1:], max(height, ends[-1][0]))
    for i in range(len(places) - 2, -1, -1):
        places[i] = min(places[i], places[i + 1] - gap)
    for (at, x, y, item), place in zip(ends, places, strict=True):
        axes.annotate(
            item["label"],
            (x, y),
            xytext=(8, place - at),
            textcoords="offset points",
            va="center",
            color=ROLES[item.get("role", "measured")].colour,
            fontsize=9,
            annotation_clip=False,
        )


def label_two(axes) -> None:
    """On a logarithmic axis that shows one power of ten or none, label 2 and 5 times it too."""
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log" and low > 0 and getattr(axis.get_transform(), "base", 0) == 10:
            if np.floor(np.log10(high)) - np.ceil(np.log10(low)) < 1:
                axis.set_minor_locator(LogLocator(subs=(2, 5)))
                plain = FuncFormatter(lambda v, _: f"{v:g}")
                axis.set_minor_formatter(plain)
                axis.set_major_formatter(plain)


def falling_risk(axes, times, risk, at: int, least: float, **labels) -> None:
    """A risk over time, the moment shown beside it, and the least risk possible."""
    axes.plot(times, risk, **{**ROLES["measured"].line, "marker": ""})
    axes.plot(times[at], risk[at], **{**ROLES["found"].line, "markersize": 8})
    axes.axhline(least, **ROLES["reference"].line)
    axes.annotate(
        "least possible", (times[-1], least), xytext=(0, 4), textcoords="offset points",
        ha="right", fontsize=9, color=ROLES["reference"].colour,
    )  # fmt: skip
    axes.set(**labels)


def slope_triangle(axes, x, y, text: str) -> None:
    """Mark the slope of a line through (x, y) on logarithmic axes, with its text."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    slope = np.polyfit(np.log(x), np.log(y), 1)[0]
    middle = len(x) // 2
    x0, x1 = x[max(middle - 1, 0)], x[min(middle + 1, len(x) - 1)]
    y0 = 0.35 * np.exp(np.interp(np.log(x0), np.log(x), np.log(y)))
    y1 = y0 * (x1 / x0) ** slope
    axes.plot([x0, x1, x0, x0], [y0, y1, y1, y0], color=ROLES["reference"].colour, linewidth=1)
    axes.annotate(
        text,
        (x0, np.sqrt(y0 * y1)),
        xytext=(-5, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=9,
        color=ROLES["reference"].colour,
    )


@drawing
def curves(
    series: Sequence[Mapping],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    xscale: str = "linear",
    yscale: str = "linear",
    direct: bool = True,
    hline: float | None = None,
    ylim: tuple[float, float] | None = None,
    size: tuple[float, float] = (7.0, 3.6),
) -> Figure:
    """Lines over one axis."""
    figure, axes = new_figure(*size)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title, xscale=xscale, yscale=yscale)
    if ylim:
        axes.set_ylim(*ylim)
    draw_series(axes, series, direct=direct)
    if hline is not None:
        axes.axhline(hline, **{**ROLES["reference"].line, "linewidth": 1})
    label_two(axes)
    return figure


@drawing
def rates(
    series: Sequence[Mapping],
    *,
    xlabel: str,
    ylabel: str,
    slopes: Sequence[tuple] = (),
    base: int = 2,
    size: tuple[float, float] = (7.0, 4.0),
) -> Figure:
    """Log-log lines with slope triangles: how fast something falls."""
    figure, axes = new_figure(*size)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_xscale("log", base=base)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=base, numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())
    draw_series(axes, series, direct=True)
    for x, y, text in slopes:
        slope_triangle(axes, x, y, text)
    label_two(axes)
    return figure


def numbers(axes, image, text: Callable[[float], str], size: float = 8) -> None:
    """Write each cell's number into an image, light on dark; nothing where it is masked."""
    values = image.get_array()
    for i, j in np.ndindex(values.shape):
        if not np.ma.getmaskarray(values)[i, j]:
            red, green, blue, _ = image.cmap(image.norm(values[i, j]))
            dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.55
            colour = "white" if dark else INK
            axes.text(j, i, text(values[i, j]), ha="center", va="center", fontsize=size,
                      color=colour)  # fmt: skip


def causal_map(axes, A: np.ndarray, tokens: Sequence[str], **written) -> None:
    """The attention matrix of one head, the future masked."""
    T = len(A)
    hidden = np.ma.masked_where(~np.tri(T, dtype=bool), A)
    image = axes.imshow(hidden, cmap=SEQUENTIAL, vmin=0, vmax=1)
    numbers(axes, image, **written)
    axes.grid(False)
    axes.set_xticks(range(T), tokens)
    axes.set_yticks(range(T), tokens)
    axes.set_xlabel("looks at (key)")


@drawing
def attention_maps(
    A: np.ndarray,
    *,
    tokens: Sequence[str] | None = None,
    titles: Sequence[str] = (),
    width: float,
) -> Figure:
    """Attention matrices side by side, with the weight written in each visible cell."""
    n, T, _ = A.shape
    tokens = [str(t + 1) for t in range(T)] if tokens is None else tokens
    figure, axes = new_figure(width, 3.3, ncols=n, squeeze=False)
    for ax, matrix, title in zip(axes[0], A, titles, strict=True):
        size = 7 if T > 6 else 8
        causal_map(ax, matrix, tokens, text=lambda x: f"{x:.2f}".replace("0.", "."), size=size)
        ax.set_title(title)
    axes[0, 0].set_ylabel("position (query)")
    return figure
