"""Figures of Section 2: one prediction, one head, the two ways between measures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

from companion.plots.charts import causal_map, numbers
from companion.plots.picture import drawing
from companion.plots.style import DIVERGING, INK, ROLES, SEQUENTIAL, new_figure


def strip(axes, values, columns, rows, *, cmap, low, high, digits, top=False):
    """Draw a matrix as coloured cells with its numbers written in them."""
    values = np.atleast_2d(values)
    image = axes.imshow(values, cmap=cmap, vmin=low, vmax=high, aspect="auto")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_yticks(range(len(rows)), rows)
    if top:
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(columns)), columns)
    else:
        axes.set_xticks([])
    numbers(  # without minus zero
        axes, image, lambda x: f"{x.round(digits) + 0.0:.{digits}f}".replace("-", "−"), 8.5
    )


@drawing
def prediction_map(
    tokens: Sequence[str],
    words: Sequence[str],
    attention: np.ndarray,
    logits: np.ndarray,
    mean: np.ndarray,
    law: np.ndarray,
    *,
    loss: float,
    target: str,
) -> Figure:
    """One prediction from the tokens to the loss, with every number of it."""
    M, T, V = len(logits), len(tokens), len(words)
    figure, grid = new_figure(
        7.6, 1.5 + 0.42 * (M + 2), nrows=3, ncols=2, width_ratios=(T, V), height_ratios=(M, 1, 1)
    )
    heads = [f"head {i + 1}" for i in range(M)]
    reach = np.abs(logits).max()
    strip(grid[0, 0], attention, tokens, heads, cmap=SEQUENTIAL, low=0, high=1, digits=2, top=True)
    for axes, values, rows in (
        (grid[0, 1], logits, [""] * M),
        (grid[1, 1], mean, ["mean"]),
    ):
        strip(
            axes, values, words, rows, cmap=DIVERGING, low=-reach, high=reach, digits=1,
            top=axes is grid[0, 1],
        )  # fmt: skip
    strip(grid[2, 1], law, words, ["softmax"], cmap=SEQUENTIAL, low=0, high=1, digits=2)
    grid[0, 0].set_title("1  each head attends", pad=8)
    grid[0, 1].set_title("2  and writes logits", pad=8)
    note = {"ha": "right", "va": "center", "fontsize": 10.5, "fontweight": "bold"}
    for axes, text in ((grid[1, 0], "3  logits are averaged"), (grid[2, 0], "4  softmax predicts")):
        axes.axis("off")
        axes.text(0.72, 0.5, text, transform=axes.transAxes, **note)
    text = f"5  loss: −log p({target}) = {loss:.4f} nats"
    grid[2, 1].set_xlabel(text, fontweight="bold", labelpad=8)
    return figure


@drawing
def head_view(
    lags: np.ndarray, score: np.ndarray, seen: np.ndarray, A: np.ndarray, *, tokens: Sequence[str]
) -> Figure:
    """A head that looks back by a fixed lag: its score against the lag, and its attention."""
    figure, (left, right) = new_figure(7.0, 3.3, ncols=2, width_ratios=(1.25, 1))
    left.plot(lags, score, **{**ROLES["reference"].line, "linestyle": "-"})
    past, grey = seen[:, 0] >= 0, ROLES["reference"].colour
    left.plot(*seen[past].T, **ROLES["found"].line)
    left.plot(*seen[~past].T, color=grey, marker="x", linestyle="", markersize=6)
    left.axvspan(lags.min(), -0.5, color=grey, alpha=0.1, linewidth=0)
    left.annotate("masked", (0.01, 1.02), xycoords="axes fraction", color=grey, fontsize=9)
    left.set(xlabel="tokens back (lag)", ylabel="score", xlim=(lags.min(), lags.max()))
    left.set_xticks(range(int(np.ceil(lags.min())), int(lags.max()) + 1))
    causal_map(right, A, tokens, text="{:.2f}".format)
    right.set_ylabel("position (query)")
    return figure


@drawing
def sensitivity(
    entropy: np.ndarray,
    largest: np.ndarray,
    envelope: Sequence[tuple],
    *,
    paper: float,
    sharp: float,
) -> Figure:
    """Largest eigenvalue of the softmax Jacobian against the entropy of the prediction."""
    figure, axes = new_figure(7.0, 3.9)
    axes.plot(entropy, largest, **{**ROLES["found"].line, "markersize": 2.2, "alpha": 0.4})
    for (x, y, label, at), role in zip(envelope, ("leading", "second"), strict=True):
        axes.plot(x, y, **{**ROLES[role].line, "marker": "", "linewidth": 1.6})
        axes.annotate(label, at, color=ROLES[role].colour, fontsize=9)
    right = float(np.max(entropy))
    for height, text, role in ((paper, "paper: 1", "bound"), (sharp, "sharp: 1/2", "sharpened")):
        axes.axhline(height, **ROLES[role].line)
        axes.annotate(
            text, (right, height), xytext=(0, 5), textcoords="offset points", ha="right",
            color=ROLES[role].colour, fontsize=9,
        )  # fmt: skip
    axes.set(
        xlabel="entropy of the prediction (nats)",
        ylabel="largest eigenvalue of $J$",
        ylim=(0, 1.12 * paper),
    )
    return figure


@drawing
def hessian_blocks(H: np.ndarray, sizes: Sequence[int], names: Sequence[str]) -> Figure:
    """A Hessian with its parameter blocks marked; cells that are exactly zero are grey."""
    figure, axes = new_figure(4.9, 4.2)
    reach = np.abs(H).max()
    norm = SymLogNorm(reach / 100, vmin=-reach, vmax=reach)
    axes.set_facecolor("#c3c7cf")
    image = axes.imshow(np.ma.masked_where(H == 0, H), cmap=DIVERGING, norm=norm)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    for edge in edges[1:-1] - 0.5:
        axes.axhline(edge, color=INK, linewidth=1)
        axes.axvline(edge, color=INK, linewidth=1)
    middle = (edges[1:] + edges[:-1] - 1) / 2
    axes.set_xticks(middle, names)
    axes.set_yticks(middle, names)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(True)
    for i, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        if not H[a:b, a:b].any():
            axes.text(middle[i], middle[i], "0", ha="center", va="center", fontsize=18)
    bar = figure.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label("entry (symmetric logarithmic scale)")
    bar.outline.set_visible(False)
    return figure
