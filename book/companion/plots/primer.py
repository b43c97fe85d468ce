"""Figures of the primer: neurons and what they answer, and two ways from one measure to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from companion.plots.picture import drawing
from companion.plots.style import DIVERGING, FAINT, INK, ROLES, new_figure

GREY = ROLES["reference"].colour


@drawing
def network_view(
    x: np.ndarray,
    answers: np.ndarray,
    data: tuple[np.ndarray, np.ndarray],
    atoms: np.ndarray,
    *,
    path: np.ndarray | None = None,
    limits: tuple[tuple[float, float], tuple[float, float]] | None = None,
    ylim: tuple[float, float] | None = None,
    scale: float | None = None,
    titles: tuple[str, str],
) -> Figure:
    """What a network answers beside the cloud of its neurons."""
    atoms = np.asarray(atoms)
    figure, (left, right) = new_figure(7.6, 3.5, ncols=2, width_ratios=(1.15, 1))
    left.plot(x, np.transpose(answers), color=GREY, linewidth=0.8, alpha=0.45)
    mean = {**ROLES["measured"].line, "marker": ""}
    left.plot(x, np.mean(answers, axis=0), **mean)
    left.plot(*data, "o", color=INK, markersize=3.5)
    low, high = min(data[1]), max(data[1])
    left.set(xlabel="input $x$", ylabel="answer", title=titles[0],
             ylim=ylim or (low - 1.1 * (high - low), high + 1.1 * (high - low)))  # fmt: skip
    if path is not None:
        way = np.transpose(path[:, :, 1:], (2, 0, 1))
        right.plot(*way, color=GREY, linewidth=0.7, alpha=0.5)
    limit = scale or np.abs(atoms[:, 0]).max()
    dots = right.scatter(
        atoms[:, 1], atoms[:, 2], c=atoms[:, 0], cmap=DIVERGING, vmin=-limit, vmax=limit,
        s=70, edgecolors=INK, linewidths=0.7, zorder=3,
    )  # fmt: skip
    right.set(xlabel="weight of the input $w$", ylabel="bias $b$", title=titles[1])
    if limits is not None:
        right.set(xlim=limits[0], ylim=limits[1])
    bar = figure.colorbar(dots, ax=right)
    bar.set_label("weight of the answer $a$")
    bar.outline.set_visible(False)
    return figure


def _cloud(axes, state, kind, colour, size):
    """Atoms of one interpolation as dots whose area is their mass."""
    atoms, weights = state[kind]
    axes.scatter(*np.transpose(atoms), s=size * np.asarray(weights), color=colour,
                        alpha=0.75, edgecolors="none")  # fmt: skip


def _named(state: Mapping) -> dict:
    """Both measures of a moment by name."""
    ways = ((kind, *state[kind]) for kind in ("mixture", "displacement"))
    title = f"s = {state['s']:g}"
    return {"title": title} | {kind: {"atoms": x, "mass": mass} for kind, x, mass in ways}


def _bare(axes, limits):
    axes.grid(False)
    axes.spines[:].set_color(FAINT)
    axes.spines[:].set_visible(True)
    axes.set(xticks=[], yticks=[], xlim=limits[0], ylim=limits[1], aspect="equal")


@drawing
def two_ways(
    states: Sequence[Mapping],
    *,
    limits: tuple[tuple[float, float], tuple[float, float]],
) -> tuple[Figure, dict]:
    """Mixture above, displacement below, at several times: mass that fades or mass that moves."""
    figure, grid = new_figure(7.6, 2.2, nrows=2, ncols=len(states))
    rows = (("mixture", "measured"), ("displacement", "second"))
    for column, state in enumerate(states):
        for line, (kind, role) in enumerate(rows):
            axes = grid[line, column]
            _cloud(axes, state, kind, ROLES[role].colour, 1000)
            _bare(axes, limits)
            if column == 0:
                axes.set_ylabel(kind)
        grid[0, column].set_title(f"$s={state['s']:g}$")
    return figure, {"states": [_named(state) for state in states]}


@drawing
def two_interpolations(
    state: Mapping,
    *,
    ends: tuple[np.ndarray, np.ndarray],
    pairs: np.ndarray,
    limits: tuple[float, float],
) -> tuple[Figure, dict]:
    """One moment of the two ways side by side, with the lines along which the plan moves mass."""
    figure, grid = new_figure(7.6, 2.6, ncols=2)
    start, end = ends
    share = 0.15 + 0.35 * np.asarray(pairs) / np.max(pairs)
    for first, last, alpha in zip(start, end, share, strict=True):
        grid[1].plot(*np.transpose([first, last]), color=GREY, linewidth=0.7, alpha=alpha)
    rows = (("mixture", "measured", "Mixture: mass fades"),
            ("displacement", "second", "Displacement: mass moves"))  # fmt: skip
    for axes, (kind, role, title) in zip(grid, rows, strict=True):
        _cloud(axes, state, kind, ROLES[role].colour, 4000)
        _bare(axes, limits)
        axes.set_title(title)
    return figure, {"state": _named(state), "from": start, "to": end, "plan": pairs}
