"""Figures of the localisation page: atoms against the landscape, states against their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, new_figure

#: Where no unit is active.
DEAD = "#e9e2d0"


@drawing
def atoms_on_circle(
    angle: np.ndarray,
    landscape: np.ndarray,
    groups: Sequence[Mapping],
    *,
    dead: np.ndarray,
    kinks: Sequence[float],
    ylabel: str,
    ylim: tuple[float, float],
) -> Figure:
    """Masses of atomic measures over the angle, below the landscape that holds them."""
    figure, (top, low) = new_figure(7.4, 4.4, nrows=2, sharex=True, height_ratios=(1, 1.3))
    top.plot(angle, landscape, color=INK, linewidth=1.6)
    top.set(ylabel=ylabel)
    low.set(
        xlabel="angle (degrees)", ylabel="mass of the atom", yscale="log", ylim=ylim,
        xlim=(angle[0], angle[-1]),
    )  # fmt: skip
    for axes in (top, low):
        for kink in kinks:
            axes.axvline(kink, **ROLES["reference"].line)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(dead, int), [0]])))
        for first, last in edges.reshape(-1, 2):
            axes.axvspan(angle[first], angle[last - 1], color=DEAD, linewidth=0, zorder=0)
    for group in groups:
        role = ROLES[group["role"]]
        low.vlines(group["angle"], ylim[0], group["mass"], color=role.colour, linewidth=1.2)
        low.plot(
            group["angle"], group["mass"], linestyle="", color=role.colour, markersize=6,
            marker=group.get("marker", "o"), label=group["label"],
            markerfacecolor=group.get("fill", role.colour),
        )  # fmt: skip
    handles, labels = low.get_legend_handles_labels()
    handles, labels = [*handles, Patch(color=DEAD)], [*labels, "no unit active"]
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
