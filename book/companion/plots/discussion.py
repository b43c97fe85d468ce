"""Figures of Section 8: equation (60) on trained heads, phase space, early predictors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from companion.plots.picture import drawing
from companion.plots.style import ROLES, new_figure


@drawing
def support_values(panels: Sequence[Mapping]) -> Figure:
    """First variation of the heads in use beside that of the best alternative head."""
    figure, grid = new_figure(8.2, 3.5, ncols=len(panels), squeeze=False)
    dots, bar = ROLES["found"], ROLES["second"]
    for axes, panel in zip(grid[0], panels, strict=True):
        for i, state in enumerate(panel["states"]):
            values, weights = np.asarray(state["values"]), np.asarray(state["weights"])
            shift = np.linspace(-0.16, 0.16, len(values))
            axes.scatter(
                i + shift, values, s=12 + 220 * weights, color=dots.colour, alpha=0.65,
                linewidth=0, label="heads in use" if i == 0 else None,
            )  # fmt: skip
            axes.hlines(
                state["best"], i - 0.3, i + 0.3, color=bar.colour, linewidth=bar.width,
                label="best alternative found" if i == 0 else None,
            )  # fmt: skip
        axes.set_xticks(range(len(panel["states"])), [s["label"] for s in panel["states"]])
        axes.set(title=panel["title"], xlim=(-0.6, len(panel["states"]) - 0.4))
    grid[0, 0].set_ylabel(r"$\Psi$ (nats per token)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


@drawing
def phase_space(
    limit: np.ndarray,
    few: np.ndarray,
    risk: Sequence[Mapping],
    *,
    at: int,
    times: np.ndarray,
    least: float,
) -> Figure:
    """Positions and momenta along one direction, many particles and few, and the risk beside."""
    figure, (left, right) = new_figure(7.6, 3.7, ncols=2, width_ratios=(1.15, 1))
    for cloud, role, size, alpha in ((limit, "found", 2, 0.35), (few, "second", 4.5, 0.9)):
        left.plot(
            *cloud[at].T, "o", color=ROLES[role].colour, markersize=size, alpha=alpha,
            label=f"{cloud.shape[1]} heads",
        )  # fmt: skip
    both = np.concatenate([limit.reshape(-1, 2), few.reshape(-1, 2)])
    low, high = both.min(axis=0), both.max(axis=0)
    margin = 0.06 * (high - low)
    left.set(
        xlabel="position along a direction", ylabel="momentum along it", title="Phase space",
        xlim=(low[0] - margin[0], high[0] + margin[0]),
        ylim=(low[1] - margin[1], high[1] + margin[1]),
    )  # fmt: skip
    left.legend(loc="upper right")
    for item in risk:
        style = ROLES[item["role"]]
        right.plot(times, item["y"], label=item["label"], **{**style.line, "markersize": 3})
        right.plot(times[at], item["y"][at], "o", color=style.colour, markersize=6)
    right.axhline(least, **ROLES["reference"].line)
    right.set(xlabel=r"time $\tau$", ylabel="risk (nats per token)", title="Risk")
    right.legend(loc="upper right")
    return figure
