"""Figures of Section 6: two quantities in a plane, and a gap that falls between two envelopes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from companion.plots.picture import drawing
from companion.plots.style import ROLES, new_figure


@drawing
def imbalance(
    paths: Sequence[np.ndarray],
    at: int,
    tau: Sequence[np.ndarray],
    gap: Sequence[np.ndarray],
    *,
    labels: Sequence[str],
    envelope: tuple[np.ndarray, str],
    xlim: tuple[float, float],
    ylim: tuple[float, float],
) -> Figure:
    """Sizes of the value matrices along several flows, one of them marked, and its gap beside."""
    figure, (left, right) = new_figure(7.6, 3.6, ncols=2, width_ratios=(1, 1.15))
    grey = ROLES["reference"].colour
    for path in paths:  # in grey all flows, of which the marked one is drawn again
        left.plot(*np.asarray(path).T, color=grey, alpha=0.4, linewidth=1)
    shown = np.asarray(paths[at])
    left.plot(*shown.T, **{**ROLES["measured"].line, "marker": ""})
    left.plot(*shown[0], **{**ROLES["found"].line, "markersize": 5})
    left.plot(*shown[-1], **{**ROLES["found"].line, "markersize": 8})
    left.plot(xlim, xlim, **{**ROLES["reference"].line, "linewidth": 1})
    left.set(
        xlabel=r"$\|W_V\|$", ylabel=r"$\|W_O\|$", xlim=xlim, ylim=xlim, title="Where the head goes",
        aspect="equal",
    )  # fmt: skip
    for time, other in zip(tau, gap, strict=True):
        right.plot(time, other, color=grey, alpha=0.4, linewidth=1)
    right.plot(tau[at], gap[at], **{**ROLES["measured"].line, "marker": ""}, label=labels[at])
    right.plot(tau[at], envelope[0], **ROLES["bound"].line, label=envelope[1])
    right.set(
        xlabel=r"rescaled time $\tau$", ylabel="excess $E$ (nats per token)", xscale="log",
        yscale="log", ylim=ylim, title="How fast",
    )  # fmt: skip
    right.legend(loc="lower left")
    return figure
