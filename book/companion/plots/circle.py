"""Figures of tokens on the circle: histograms, paths of angles over time, the state on a ring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from matplotlib.ticker import MultipleLocator, NullFormatter

from companion.plots.charts import plain_lines
from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, new_figure

#: Shades behind the data: the potential is positive, negative, or no unit is active.
POSITIVE, NEGATIVE, DEAD = "#dcefe4", "#fbe6d4", "#c9ccd3"
#: Bins of a histogram around the circle, and most paths of one panel.
BINS, PATHS = 120, 250


def _parts(landscape: Mapping) -> Iterator[tuple[float, float, str]]:
    """Arcs on which the potential has one sign, or no unit is active: both ends, and a shade.

    ``landscape`` has ``degrees`` (increasing), ``v`` and ``dead`` (bool), one for each angle.
    """
    degrees, v = np.asarray(landscape["degrees"]), np.asarray(landscape["v"])
    kind = np.where(landscape["dead"], 2, np.where(v > 0, 1, np.where(v < 0, 0, 3)))
    half = (degrees[1] - degrees[0]) / 2
    for part in np.split(np.arange(len(kind)), np.flatnonzero(np.diff(kind)) + 1):
        if kind[part[0]] < 3:
            colour = (NEGATIVE, POSITIVE, DEAD)[kind[part[0]]]
            yield degrees[part[0]] - half, degrees[part[-1]] + half, colour


def shade(axes, landscape: Mapping) -> None:
    """Shade angles on the vertical axis by the sign of the potential and by the dead zone."""
    for low, high, colour in _parts(landscape):
        axes.axhspan(low, high, color=colour, linewidth=0, zorder=0)
    axes.grid(False)


def _wedges(axes, edges, inner, outer, **style) -> PatchCollection:
    """Pieces of rings between consecutive angles in degrees."""
    parts = [
        Wedge((0, 0), out, low, high, width=out - inner)
        for low, high, out in zip(edges[:-1], edges[1:], outer, strict=True)
    ]
    return axes.add_collection(PatchCollection(parts, linewidths=0, **style))


def _ring(axes, row: Mapping, landscape: Mapping) -> dict:
    """Bars of a histogram around the circle, with the signs of the landscape inside; its data."""
    for low, high, colour in _parts(landscape) if landscape else ():
        _wedges(axes, [low, high], 0.8, [1.0], color=colour)
    share, edges = np.histogram(row["degrees"], BINS, (-180, 180), weights=row.get("weights"))
    share = share / share.sum()
    _wedges(
        axes, edges, 1.0, 1 + 0.55 * share / share.max(), color=ROLES["measured"].colour, zorder=2
    )
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color=INK, linewidth=0.8)
    for angle, words in ((0, "0°"), (90, "90°"), (180, "±180°"), (-90, "−90°")):
        at = 0.58 * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
        axes.annotate(words, at, ha="center", va="center", fontsize=8)
    axes.annotate(f"{100 * share.max():.2g}%", (0, 0), ha="center", va="center", weight="bold")
    axes.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal")
    axes.set_title(row["title"])
    axes.axis("off")
    return {"title": row["title"], "degrees": (edges[:-1] + edges[1:]) / 2, "share": share}


def _energies(axes, items: Sequence[Mapping]) -> None:
    """Energies over time."""
    plain_lines(axes, [{**item, "x": 1 + np.asarray(item["t"])} for item in items])
    axes.set(xscale="log", xlabel="1 + time", ylabel="energy $E$", title="Energy")
    axes.legend(loc="best")


@drawing
def angle_histograms(
    rows: Sequence[Mapping],
    landscape: Mapping,
    *,
    energies: Sequence[Mapping] = (),
    size: tuple[float, float] | None = None,
) -> tuple[Figure, dict]:
    """Shares of the tokens in bins of the angle, as bars around the circle; energies beside them.

    The longest bar of each panel has the same length; its share stands in the middle.
    """
    n = len(rows)
    columns = min(n, 3)
    lines = -(-n // columns)
    figure, grid = new_figure(
        *(size or (8.0, 2.9 * lines)), nrows=lines, ncols=columns, squeeze=False
    )
    shares = [
        _ring(axes, row, row.get("landscape", landscape))
        for axes, row in zip(grid.ravel(), rows, strict=False)
    ]
    for axes in grid.ravel()[n:]:
        axes.remove()
    if energies:
        _energies(figure.add_subplot(grid[0, 0].get_gridspec()[-1, 1:]), energies)
    return figure, {"shares": shares, "energies": energies}


def _wrapped(t, degrees) -> tuple[np.ndarray, np.ndarray]:
    """A path on the circle, split where it crosses ±180 degrees: both ends are reached."""
    step = np.diff(degrees)
    at = np.flatnonzero(np.abs(step) > 180)
    side = 180 * np.where(degrees[at] > 0, 1, -1)
    part = np.abs(side - degrees[at]) / np.maximum(360 - np.abs(step[at]), 1e-12)
    cross = t[at] + np.minimum(part, 1) * (t[at + 1] - t[at])
    ends = np.stack([side, np.full(len(at), np.nan), -side], axis=1)
    where = np.repeat(at + 1, 3)
    return np.insert(t, where, np.repeat(cross, 3)), np.insert(degrees, where, ends.ravel())


@drawing
def angle_paths(items: Sequence[Mapping], *, size: tuple[float, float] | None = None) -> Figure:
    """Angles of tokens against time on a logarithmic axis, over the landscape.

    A path that crosses ±180 degrees goes on at the other end of the axis.
    """
    columns = len(items) if len(items) < 4 else -(-len(items) // 2)
    lines = -(-len(items) // columns)
    figure, grid = new_figure(
        *(size or (8.0, 0.7 + 3.0 * lines)), nrows=lines, ncols=columns, sharey=True, squeeze=False
    )
    for axes, item in zip(grid.ravel(), items, strict=True):
        if item.get("landscape"):
            shade(axes, item["landscape"])
        t, degrees = np.asarray(item["t"], float), np.array(item["degrees"], float)
        paths = degrees[:, :: max(1, degrees.shape[1] // PATHS)].T
        pieces = [np.append(_wrapped(t, path), [[np.nan], [np.nan]], axis=1) for path in paths]
        x, y = np.concatenate(pieces, axis=1)
        # not smoothed: smoothed crossing lines make the picture several times as large
        axes.plot(1 + x, y, color=ROLES["measured"].colour, linewidth=0.4, antialiased=False)
        axes.set(title=item["title"], xscale="log", xlim=(1, 1 + t[-1]), ylim=(-180, 180))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_locator(MultipleLocator(90))
    for axes in grid[:, 0]:
        axes.set_ylabel("angle (degrees)")
    for axes in grid[-1]:
        axes.set_xlabel("1 + time")
    return figure


@drawing
def energy_and_ring(
    states: Sequence[Mapping], series: Sequence[Mapping], landscape: Mapping
) -> Figure:
    """States on the ring, one for each direction of the flow, and their energies over time."""
    n = len(states)
    figure, grid = new_figure(8.2, 3.1, ncols=n + 1, width_ratios=(*[1] * n, 1.25))
    for axes, state in zip(grid, states, strict=False):
        for low, high, colour in _parts(landscape):
            _wedges(axes, [low, high], 1.13, [1.23], color=colour)
        angle = np.radians(state["degrees"])
        axes.scatter(
            np.cos(angle), np.sin(angle), s=2 + 260 * np.asarray(state["weights"]),
            color=ROLES[state["role"]].colour, alpha=0.6, linewidths=0, zorder=3,
        )  # fmt: skip
        axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal", xticks=[], yticks=[])
        axes.set_title(state["title"])
        for spine in axes.spines.values():
            spine.set_visible(False)
    _energies(grid[-1], series)
    return figure


@drawing
def planar_orbits(
    curves: Sequence[Mapping],
    orbits: Sequence[Mapping],
    rest: tuple[float, float],
    *,
    xlabel: str,
    titles: tuple[str, str],
) -> Figure:
    """Left: rates against a parameter, with the range of the wrong sign. Right: closed orbits."""
    figure, (left, right) = new_figure(8.0, 3.7, ncols=2)
    plain_lines(left, curves)
    x, y = np.asarray(curves[0]["x"]), np.asarray(curves[0]["y"])
    left.fill_between(x, np.minimum(y, 0), 0, color=ROLES[curves[0]["role"]].colour, alpha=0.2)
    left.axhline(0, color=ROLES["reference"].colour, linewidth=0.9)
    left.set(xlabel=xlabel, ylabel="rate", title=titles[0])
    left.legend(loc="best")
    plain_lines(right, orbits, linewidth=1.1)
    right.plot(*rest, "x", color=ROLES["reference"].colour, markersize=7, label="rest state")
    right.set(xlabel="heavy token (degrees)", ylabel="light token (degrees)", title=titles[1])
    right.legend(loc="best")
    return figure
