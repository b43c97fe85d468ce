"""Figures of tokens on the circle: histograms, paths of angles over time, the state on a ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, NullFormatter

from mfbook.book.plots.data import DECORATION, record
from mfbook.book.plots.style import ROLES, drawing, new_figure

__all__ = ["angle_histograms", "angle_paths", "energy_and_ring", "planar_orbits"]

#: Shades behind the data: the potential is positive, negative, or no unit is active.
POSITIVE, NEGATIVE, DEAD = "#dcefe4", "#fbe6d4", "#c9ccd3"


def shade(axes, landscape: Mapping, *, vertical: bool) -> None:
    """Shade the circle by the sign of the potential and by the dead zone.

    ``landscape`` has ``degrees`` (increasing), ``v`` and ``dead`` (bool), one for each angle.
    """
    degrees, v = np.asarray(landscape["degrees"]), np.asarray(landscape["v"])
    kind = np.where(landscape["dead"], 2, np.where(v > 0, 1, np.where(v < 0, 0, 3)))
    edges = np.flatnonzero(np.diff(kind)) + 1
    half = (degrees[1] - degrees[0]) / 2
    draw = axes.axvspan if vertical else axes.axhspan
    for part in np.split(np.arange(len(kind)), edges):
        colour = {0: NEGATIVE, 1: POSITIVE, 2: DEAD}.get(int(kind[part[0]]))
        if colour:
            low, high = degrees[part[0]] - half, degrees[part[-1]] + half
            draw(low, high, color=colour, linewidth=0, zorder=0)
    axes.grid(False)


@drawing
def angle_histograms(
    rows: Sequence[Mapping],
    landscape: Mapping,
    *,
    bins: int = 90,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Shares of the tokens in bins of the angle, one panel for each state, over the landscape.

    Parameters
    ----------
    rows : sequence of mappings
        Each with ``degrees`` (n,), optionally ``weights`` (n,), and ``title``; optionally its own
        ``landscape`` (an empty one for no shading).
    landscape : mapping
        ``degrees``, ``v`` and ``dead`` on a grid of angles.
    bins : int
        Number of bins of the circle.
    size : (width, height), optional
        Of the figure in inches.
    """
    n = len(rows)
    columns = 2 if n == 4 else min(n, 3)
    lines = -(-n // columns)
    figure, grid = new_figure(
        *(size or (8.0, 0.6 + 2.1 * lines)), nrows=lines, ncols=columns, sharex=True, squeeze=False
    )
    for axes, row in zip(grid.ravel(), rows, strict=False):
        ground = row.get("landscape", landscape)
        if ground:
            shade(axes, ground, vertical=True)
        share, edges = np.histogram(
            row["degrees"], bins=bins, range=(-180, 180), weights=row.get("weights")
        )
        share = share / share.sum()
        axes.bar(
            edges[:-1], share, width=np.diff(edges), align="edge", zorder=2,
            color=ROLES["measured"].colour, gid="share of the tokens",
        )  # fmt: skip
        axes.set(title=row["title"], xlim=(-180, 180))
        axes.xaxis.set_major_locator(MultipleLocator(90))
    for axes in grid[:, 0]:
        axes.set_ylabel("share of the tokens")
    for axes in grid[-1]:
        axes.set_xlabel("angle (degrees)")
    return figure


@drawing
def angle_paths(
    items: Sequence[Mapping], *, shown: int = 60, size: tuple[float, float] | None = None
) -> Figure:
    """Angles of tokens against time on a logarithmic axis, over the landscape.

    Parameters
    ----------
    items : sequence of mappings
        Each with ``t`` (n_t,), ``degrees`` (n_t, n) in [-180, 180), ``title`` and optionally
        ``landscape``. Time is drawn as 1 + t.
    shown : int
        Paths drawn in each panel, equally spaced among the particles.
    size : (width, height), optional
        Of the figure in inches.
    """
    columns = len(items) if len(items) < 4 else -(-len(items) // 2)
    lines = -(-len(items) // columns)
    figure, grid = new_figure(
        *(size or (8.0, 0.7 + 3.0 * lines)), nrows=lines, ncols=columns, sharey=True, squeeze=False
    )
    for axes, item in zip(grid.ravel(), items, strict=True):
        if item.get("landscape"):
            shade(axes, item["landscape"], vertical=False)
        t, degrees = np.asarray(item["t"]), np.array(item["degrees"], float)
        order = np.argsort(degrees[0])
        pick = order[np.linspace(0, len(order) - 1, min(shown, len(order))).astype(int)]
        path = degrees[:, pick]
        # a path that crosses the end of the axis is drawn in two pieces
        path[1:][np.abs(np.diff(path, axis=0)) > 180] = np.nan
        # not smoothed: smoothed crossing lines make the picture several times as large
        axes.plot(
            1 + t, path, color=ROLES["measured"].colour, linewidth=0.6, antialiased=False,
            gid="token",
        )  # fmt: skip
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
    """States on the ring, one for each direction of the flow, and their energies over time.

    Parameters
    ----------
    states : sequence of mappings
        Each with ``degrees`` (n,), ``weights`` (n,), ``title`` and ``role``; the area of a dot is
        its weight.
    series : sequence of mappings
        Each with ``t``, ``y``, ``label`` and ``role``; time is drawn as 1 + t.
    landscape : mapping
        As for :func:`angle_histograms`.
    """
    n = len(states)
    figure, grid = new_figure(8.2, 3.1, ncols=n + 1, width_ratios=(*[1] * n, 1.25))
    degrees, v = np.radians(landscape["degrees"]), np.asarray(landscape["v"])
    dead = np.asarray(landscape["dead"])
    for axes, state in zip(grid, states, strict=False):
        for part, colour in (
            (dead, DEAD),
            (~dead & (v > 0), POSITIVE),
            (~dead & (v < 0), NEGATIVE),
        ):
            axes.scatter(
                1.18 * np.cos(degrees[part]), 1.18 * np.sin(degrees[part]), color=colour, s=24,
                linewidths=0, gid=DECORATION,
            )  # fmt: skip
        angle = np.radians(state["degrees"])
        dots = axes.scatter(
            np.cos(angle), np.sin(angle), s=2 + 260 * np.asarray(state["weights"]),
            color=ROLES[state["role"]].colour, alpha=0.6, linewidths=0, zorder=3,
        )  # fmt: skip
        record(dots, "clusters", size=None, weight=state["weights"])
        axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal", xticks=[], yticks=[])
        axes.set_title(state["title"])
        for spine in axes.spines.values():
            spine.set_visible(False)
    last = grid[-1]
    for item in series:
        style = {**ROLES[item["role"]].line, "marker": ""}
        last.plot(1 + np.asarray(item["t"]), item["y"], label=item["label"], **style)
    last.set(xscale="log", xlabel="1 + time", ylabel="energy $E$", title="Energy")
    last.legend(loc="best")
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
    """Left: rates against a parameter, with the range of the wrong sign. Right: closed orbits.

    Parameters
    ----------
    curves : sequence of mappings
        Each with ``x``, ``y``, ``label`` and ``role``.
    orbits : sequence of mappings
        Each with ``x``, ``y`` (angles in degrees), ``label`` and ``role``; optionally ``line``
        (extra keywords).
    rest : (float, float)
        The rest state, marked by a cross.
    xlabel : str
        Of the left panel.
    titles : (str, str)
        Of the two panels.
    """
    figure, (left, right) = new_figure(8.0, 3.7, ncols=2)
    for item in curves:
        style = {**ROLES[item["role"]].line, "marker": ""}
        left.plot(item["x"], item["y"], label=item["label"], **style)
    x, y = np.asarray(curves[0]["x"]), np.asarray(curves[0]["y"])
    left.fill_between(
        x, np.minimum(y, 0), 0, color=ROLES[curves[0]["role"]].colour, alpha=0.2, gid=DECORATION
    )
    left.axhline(0, color=ROLES["reference"].colour, linewidth=0.9, gid=DECORATION)
    left.set(xlabel=xlabel, ylabel="rate", title=titles[0])
    left.legend(loc="best")
    for item in orbits:
        style = {**ROLES[item["role"]].line, "marker": "", "linewidth": 1.1, **item.get("line", {})}
        right.plot(item["x"], item["y"], label=item["label"], **style)
    right.plot(*rest, "x", color=ROLES["reference"].colour, markersize=7, label="rest state")
    right.set(xlabel="heavy token (degrees)", ylabel="light token (degrees)", title=titles[1])
    right.legend(loc="best")
    return figure
