"""Figures of Chapter 3: learning-rate profiles, and where derivatives of a head are large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from companion.plots.picture import drawing
from companion.plots.style import INK, ROLES, new_figure

#: Learning-rate profiles are not one of the roles: four colours that differ in greyscale too.
PROFILES = (
    {"color": "#b07d00", "linestyle": "-", "linewidth": 5.0, "alpha": 0.35},
    {"color": "#0b5fa5", "linestyle": "-", "linewidth": 1.8},
    {"color": "#00805e", "linestyle": (0, (6, 3)), "linewidth": 2.2},
    {"color": "#1f2430", "linestyle": (0, (1, 1.2)), "linewidth": 2.6},
)


@drawing
def profile_runs(runs: Sequence[Mapping]) -> Figure:
    """Risk against time and against rescaled time, for several learning-rate profiles."""
    figure, (left, right) = new_figure(7.0, 3.7, ncols=2, sharey=True)
    left.set(xlabel="time $t$", ylabel="risk (nats per token)", title="Against time")
    right.set(xlabel=r"rescaled time $\tau$", title="Against rescaled time")
    left.margins(y=0.1)
    for run, style in zip(runs, PROFILES, strict=True):
        left.plot(run["t"], run["risk"], label=run["label"], **style)
        right.plot(run["tau"], run["risk"], **style)
        if run.get("stops"):
            right.plot(run["tau"][-1], run["risk"][-1], "o", color=style["color"], markersize=7)
            right.annotate(
                "stays here for ever",
                (run["tau"][-1], run["risk"][-1]),
                xytext=(10, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
    figure.legend(loc="outside upper center", ncols=4, handlelength=2.6)
    return figure


@drawing
def derivative_bounds(g: np.ndarray, panels: Sequence[Mapping]) -> tuple[Figure, dict]:
    """Bounds on derivatives of the feature map beside attained values, against the score bound."""
    figure, axes = new_figure(7.0, 3.9, ncols=len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        ax.set(xscale="log", yscale="log", title=panel["title"])
        ax.set_xlabel("largest score $g$")
        for values, label, role in panel["curves"]:
            ax.plot(g, values, label=label, **ROLES[role].line)
        for at, values, label, role, marker in panel["points"]:
            size = 11 if marker == "*" else 5
            colour = INK if marker == "*" else ROLES[role].colour
            style = {"linestyle": "", "marker": marker, "markersize": size, "color": colour}
            ax.plot(at, values, label=label, **style)
        ax.legend(loc="upper left")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel("norm, in units of $R_XR_U$")
    lines = [[(g, y, label) for y, label, _ in panel["curves"]] for panel in panels]
    return figure, {
        "panels": [{**panel, "curves": line} for panel, line in zip(panels, lines, strict=True)]
    }


@drawing
def curvature_shares(
    g: float,
    share: np.ndarray,
    value: np.ndarray,
    *,
    form: tuple[np.ndarray, np.ndarray],
    bound: float,
    attained: Mapping,
) -> Figure:
    """Second derivatives of heads, and the direction in which each is largest."""
    figure, axes = new_figure(7.0, 3.9)
    axes.set(
        xlabel=r"part of the direction that moves $(W_Q, W_K)$",
        ylabel="second derivative / H",
        title=f"Largest score g = {g:g}",
        xlim=(-0.02, 1.02),
        ylim=(0, 1.14),
    )
    axes.axhline(1, **ROLES["reference"].line)
    axes.plot(share, np.asarray(value) / bound, **{**ROLES["found"].line, "alpha": 0.35})
    x, y = form
    axes.plot(x, np.asarray(y) / bound, **ROLES["bound"].line)
    star = {"linestyle": "", "marker": "*", "markersize": 15, "color": INK}
    axes.plot(attained["share"], attained["value"] / bound, **star, markeredgecolor="white")
    axes.text(0.995, 1.012, "H", ha="right", va="bottom", color=ROLES["reference"].colour)
    names = (("bound", "bound for this direction"), ("found", f"{len(share)} random heads"))
    handles = [axes.plot([], [], label=label, **ROLES[role].line)[0] for role, label in names]
    handles += axes.plot([], [], label="largest found", **star)
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure
