"""Figures of the introduction: heads that move and what they predict, a layer with two states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from companion.plots.charts import falling_risk
from companion.plots.picture import drawing
from companion.plots.stability import name_regimes
from companion.plots.style import INK, ROLES, new_figure


@drawing
def heads_at_work(
    path: np.ndarray,
    at: int,
    times: np.ndarray,
    law: np.ndarray,
    words: Sequence[str],
    risk: np.ndarray,
    *,
    names: tuple[str, str],
    sentence: str,
    limit: float,
    right: int = 0,
) -> Figure:
    """Heads as points that move, what they predict together, and the risk."""
    figure, whole = new_figure(6.0, 6.0)
    whole.remove()
    axes = figure.subplot_mosaic([["heads", "heads"], ["law", "risk"]], height_ratios=(1.5, 1))
    top, bars, curve = axes["heads"], axes["law"], axes["risk"]
    grey, blue = ROLES["reference"].colour, ROLES["measured"].colour
    way = path[: at + 1].transpose(2, 0, 1)
    top.plot(*way, color=grey, alpha=0.5, linewidth=0.8)
    top.plot(*path[at].T, **{**ROLES["found"].line, "markersize": 6, "alpha": 0.75})
    top.axhline(0, color=INK, linewidth=0.8)
    top.set_yscale("asinh", linear_width=0.5)
    reach, low = 1.6 * path[..., 1].max(), min(-0.5, 1.2 * path[..., 1].min())
    top.set(
        xlabel=names[0], ylabel=names[1], xlim=(-0.03, 1.05), ylim=(low, reach),
        title=f"{path.shape[1]} heads, one dot each",
    )  # fmt: skip
    ticks = [tick for tick in (-100, -10, -1, 0, 1, 10, 100, 1000) if low <= tick <= reach]
    top.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    top.set_xticks([0, 1 / 3, 2 / 3, 1], ["0", "⅓", "⅔", "1"])
    top.minorticks_off()

    places = np.arange(len(words))
    colours = [blue if i == right else grey for i in places]
    drawn = bars.barh(places, law, color=colours, alpha=0.85, height=0.68)
    for patch, value in zip(drawn, law, strict=True):
        bars.annotate(
            f"{value:.2f}", (patch.get_width(), patch.get_y() + patch.get_height() / 2),
            xytext=(4, 0), textcoords="offset points", va="center", fontsize=9,
        )  # fmt: skip
    bars.set_yticks(places, words)
    bars.invert_yaxis()
    bars.grid(False)
    bars.tick_params(axis="y", length=0)
    bars.set(xlim=(0, 1.17), xticks=[], title=f"“{sentence} …”")
    bars.set(xlabel="predicted probability", ylabel="next word")
    bars.spines["bottom"].set_visible(False)

    falling_risk(
        curve, times, risk, at, limit, xlabel=r"training time $\tau$",
        ylabel="risk\n(nats per token)", ylim=(0, 1.08 * np.max(risk)),
    )  # fmt: skip
    return figure


@drawing
def two_starts(
    series: Sequence[Mapping],
    *,
    borders: Sequence,
    names: Sequence[str],
    xlim: tuple[float, float],
    xlabel: str,
    ylabel: str,
) -> Figure:
    """Where flows from two starts end, against one parameter, over named regimes."""
    figure, axes = new_figure(6.4, 3.9)
    top = 1.3 * max(np.max(item["y"]) for item in series)
    name_regimes(axes, [xlim[0], *(border for border, _ in borders), xlim[1]], names)
    for border, name in borders:
        axes.axvline(border, color=INK, linewidth=1.2)
        axes.annotate(
            name, (border, 0.78 * top), xytext=(5, 0), textcoords="offset points", fontsize=11
        )
    for item in series:
        role = ROLES[item["role"]]
        axes.plot(
            item["x"], item["y"], label=item["label"], color=role.colour, linestyle="",
            marker=role.marker, markersize=9 if role.marker == "o" else 6, clip_on=False,
        )  # fmt: skip
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=xlim, ylim=(-0.03 * top, top))
    figure.legend(loc="outside lower center", ncols=len(series))
    return figure
