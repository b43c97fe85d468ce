"""Figures of the scaling page: forces and bounds, counts, masses, and merging clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from mfbook.book.plots.data import DECORATION
from mfbook.book.plots.style import FAINT, INK, ROLES, drawing, new_figure

__all__ = ["cluster_bounds", "count_bars", "count_panels", "mass_panels", "merging_clock"]

#: Role of each perceptron in the figures of this page.
UNITS = {"none": "reference", "relu": "second", "gelu": "measured"}
NAMES = {"none": "no perceptron", "relu": "ReLU", "gelu": "GeLU"}
MARKS = {"none": "s", "relu": "^", "gelu": "o"}


@drawing
def cluster_bounds(
    x: np.ndarray,
    force: np.ndarray,
    gamma: float,
    sizes: np.ndarray,
    theorem: np.ndarray,
    ours: np.ndarray,
) -> Figure:
    r"""Tangent and chord of the repulsive force, and the bounds on a mass that follow.

    Parameters
    ----------
    x, force : array, shape (n,)
        Angle times root beta, and the force :math:`-h'/\sqrt\beta` in the same unit.
    gamma : float
        Size of the cluster.
    sizes : array, shape (m,)
        Strength L of the perceptron.
    theorem, ours : array, shape (m,)
        Bounds on the mass.
    """
    figure, (left, right) = new_figure(7.6, 3.5, ncols=2)
    at, slope = np.interp(gamma, x, force), np.interp(gamma, x, np.gradient(force, x))
    left.axvspan(0, gamma, color=FAINT, alpha=0.6, linewidth=0)
    left.plot(x, force, **{**ROLES["measured"].line, "marker": ""}, label="force")
    near = np.array([gamma - 0.55, gamma + 0.55])
    left.plot(near, at + slope * (near - gamma), **ROLES["bound"].line, label="tangent, a")
    left.plot([0, gamma], [0, at], **ROLES["sharpened"].line, label="chord, s")
    left.plot(gamma, at, **{**ROLES["found"].line, "markersize": 6}, gid="edge of the cluster")
    left.set(
        xlabel="distance times √β", ylabel="repulsion times √β", xlim=(0, x[-1]), ylim=(0, 0.75),
        title="Force",
    )  # fmt: skip
    left.legend(loc="upper right")
    right.plot(sizes, theorem, **ROLES["bound"].line, label="Theorem 3.5")
    right.plot(sizes, ours, **ROLES["sharpened"].line, label="proposition")
    right.set(
        xlabel=r"strength of the perceptron $L$", ylabel="largest mass of a cluster",
        xlim=(0, 1), ylim=(0.25, 1.03), title="Bound",
    )  # fmt: skip
    right.legend(loc="lower right")
    return figure


def _hollow(axes, item: Mapping, x, y, settled, **style) -> None:
    """Points, filled where a run has stopped by its rule."""
    for mask, late in ((settled, ""), (~settled, ", not stopped")):
        face = "white" if late else style["color"]
        axes.plot(
            x[mask], y[mask], linestyle="", markerfacecolor=face, gid=f"{item['label']}{late}",
            **style,
        )  # fmt: skip


@drawing
def count_panels(
    panels: Sequence[Sequence[Sequence[Mapping]]],
    *,
    titles: Sequence[str],
    rows: Sequence[str],
    log: Sequence[bool],
) -> Figure:
    """Numbers of clusters against the square root of beta, hollow where a run has not stopped.

    Parameters
    ----------
    panels : nested sequence of mappings
        Rows of panels, each a sequence of lines with ``x``, ``y``, ``settled`` (bool), arrays of
        shape (n,), ``label``, ``role``, and optionally ``marker`` and ``dash``.
    titles : sequence of str
        Of the columns.
    rows : sequence of str
        Names of the rows.
    log : sequence of bool
        Columns with a logarithmic vertical axis.
    """
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
                    item["x"], item["y"], color=role.colour, linewidth=1.2, gid=DECORATION,
                    linestyle=item.get("dash", "-"),
                )  # fmt: skip
                _hollow(axes, item, item["x"], item["y"], item["settled"], **look)
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
    return figure


@drawing
def count_bars(groups: Sequence[tuple[str, Mapping[int, int]]]) -> Figure:
    """Shares of draws that end with each number of clusters, one panel for each setup.

    Parameters
    ----------
    groups : sequence of (title, mapping)
        The mapping goes from the number of clusters to the number of draws.
    """
    figure, grid = new_figure(7.6, 3.0, ncols=len(groups), sharey=True, squeeze=False)
    for axes, (title, counts) in zip(grid[0], groups, strict=True):
        keys = np.array(sorted(counts))
        shares = np.array([counts[k] for k in keys]) / sum(counts.values())
        axes.bar(
            keys, shares, width=0.8, color=ROLES["measured"].colour, alpha=0.85,
            gid="share of the draws",
        )  # fmt: skip
        for k, share in zip(keys, shares, strict=True):
            axes.annotate(
                f"{100 * share:.0f}%", (k, share), xytext=(0, 2), textcoords="offset points",
                ha="center", fontsize=8, color=INK,
            )  # fmt: skip
        axes.set_xticks(range(keys.min() - 1, keys.max() + 2))
        axes.set(title=title, xlabel="clusters at the end", ylim=(0, 1.1))
        axes.grid(False, axis="x")
    grid[0, 0].set_ylabel("share of the draws")
    return figure


@drawing
def mass_panels(panels: Sequence[Mapping]) -> Figure:
    """Masses of clusters against bounds, a line through the heaviest, three panels in a row.

    Parameters
    ----------
    panels : sequence of mappings
        Each with ``title``, ``xlabel``, ``xscale``, ``masses`` (units to (x, mass, settled), arrays
        of shape (n,); hollow where a run has not stopped) and ``bounds`` (sequence of
        (x, bound, role, label)).
    """
    columns = min(len(panels), 3)
    lines = -(-len(panels) // columns)
    figure, grid = new_figure(
        8.2, 2.7 * lines + 0.5, nrows=lines, ncols=columns, sharey=True, squeeze=False
    )
    names: dict = {}
    for axes, item in zip(grid.ravel(), panels, strict=False):
        for units, (x, mass, settled) in item["masses"].items():
            name, x, mass = {"label": NAMES[units]}, np.asarray(x), np.asarray(mass)
            look = {"marker": MARKS[units], "color": ROLES[UNITS[units]].colour, "markersize": 3.8}
            _hollow(axes, name, x, mass, np.asarray(settled), **look)
            (names[NAMES[units]],) = axes.plot([], [], linestyle="", **look)
            heaviest = [(at, np.max(mass[x == at])) for at in np.unique(x)]
            axes.plot(*np.transpose(heaviest), color=look["color"], linewidth=1, gid=DECORATION)
        for x, bound, role, label in item["bounds"]:
            (names[label],) = axes.plot(x, bound, **ROLES[role].line, label=label)
        axes.set(xlabel=item["xlabel"], xscale=item["xscale"], title=item["title"])
        axes.set_ylim(-0.03, 1.05)
    for axes in grid[:, 0]:
        axes.set_ylabel("mass of a cluster")
    figure.legend(names.values(), names, loc="outside lower center", ncols=4)
    return figure


@drawing
def merging_clock(
    runs: Sequence[tuple], waits: np.ndarray, bounds: np.ndarray, last: np.ndarray
) -> Figure:
    """Numbers of clusters on a logarithmic clock, and waiting times against a lower bound.

    Parameters
    ----------
    runs : sequence of (times, count)
        One step function for each draw.
    waits, bounds : array, shape (n,)
        Time that each metastable state lasted, and the bound.
    last : array of bool, shape (n,)
        States with two clusters, for which the bound is exact.
    """
    figure, (left, right) = new_figure(7.8, 3.6, ncols=2)
    for times, count in runs:
        left.step(
            times, count, where="post", color=ROLES["measured"].colour, alpha=0.35, linewidth=1,
            gid="draw",
        )  # fmt: skip
    left.set(
        xlabel="time", ylabel="clusters", xscale="log", yscale="log", title="Every draw",
    )  # fmt: skip
    left.set_yticks([1, 2, 3, 5, 10, 20, 40])
    left.yaxis.set_major_formatter("{x:g}")
    left.yaxis.set_minor_formatter("")
    line = np.array([bounds.min() / 2, bounds.max() * 2])
    right.plot(line, line, **ROLES["bound"].line, label="lower bound")
    for mask, role, marker, label in (
        (~last, "measured", "o", "three clusters or more"), (last, "second", "^", "two clusters"),
    ):  # fmt: skip
        right.plot(
            bounds[mask], waits[mask], linestyle="", marker=marker, markersize=4.5, alpha=0.7,
            color=ROLES[role].colour, label=label,
        )  # fmt: skip
    right.set(
        xlabel="bound on the life of the state", ylabel="time until two meet", xscale="log",
        yscale="log", title="Life of metastable states",
    )  # fmt: skip
    right.legend(loc="upper left")
    return figure
