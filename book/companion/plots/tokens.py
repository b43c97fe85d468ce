"""Figures of tokens that attend and move: scores, symmetry, blow-up, clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MultipleLocator, NullFormatter

from companion.plots.charts import numbers
from companion.plots.picture import drawing
from companion.plots.spheres import Camera
from companion.plots.style import DIVERGING, INK, ROLES, SEQUENTIAL, new_figure

GREY = ROLES["reference"].colour


@drawing
def scores_and_weights(
    scores: np.ndarray,
    weights: np.ndarray,
    words: Sequence[str],
    *,
    titles: tuple[str, str],
) -> Figure:
    """Two heat maps with the number in each cell; a masked score is empty and marked."""
    T = len(words)
    figure, pair = new_figure(8.2, 4.1, ncols=2)
    seen = np.isfinite(scores)
    size = 1.25 * np.abs(np.asarray(scores)[seen]).max()  # the darkest colours hide the numbers
    norm = TwoSlopeNorm(0, -size, size)
    for axes, values, title, style in (
        (pair[0], np.ma.masked_where(~seen, scores), titles[0], {"cmap": DIVERGING, "norm": norm}),
        (pair[1], np.ma.masked_array(weights), titles[1],
         {"cmap": SEQUENTIAL, "vmin": 0, "vmax": 1}),
    ):  # fmt: skip
        image = axes.imshow(values, **style)
        axes.grid(False)
        axes.set_xticks(range(T), words, rotation=45)
        axes.set_yticks(range(T), words)
        axes.set(xlabel="looks at", title=title)
        numbers(axes, image, "{:.2f}".format)
        for t, u in np.argwhere(np.ma.getmaskarray(values)):
            axes.text(u, t, "−∞", ha="center", va="center", fontsize=8, color=GREY)
    pair[0].set_ylabel("word")
    return figure


@drawing
def mirror(panels: Sequence[Mapping]) -> Figure:
    """Entries of matrices against their mirror images: a symmetric matrix lies on the diagonal."""
    figure, row = new_figure(2.75 * len(panels), 3.0, ncols=len(panels), squeeze=False)
    for axes, item in zip(row[0], panels, strict=True):
        A = np.asarray(item["matrix"])
        above = np.triu_indices(len(A), 1)
        a, b = A[above], A.T[above]
        low, high = min(a.min(), b.min()), max(a.max(), b.max())
        margin = 0.06 * (high - low) or 1.0
        ends = (low - margin, high + margin)
        axes.plot(ends, ends, **ROLES["reference"].line)
        axes.plot(a, b, **{**ROLES["found"].line, "markersize": 4, "alpha": 0.75})
        axes.set(xlim=ends, ylim=ends, aspect="equal", title=item["title"], xlabel="$B_{ij}$")
    row[0, 0].set_ylabel("$B_{ji}$")
    return figure


@drawing
def blow_up(
    runs: Sequence[Mapping],
    lower: np.ndarray,
    time: np.ndarray,
    upper: np.ndarray,
    *,
    titles: tuple[str, str],
) -> Figure:
    """Left: lengths of tokens that reach infinity. Right: times of the blow-up, and two bounds."""
    figure, (left, right) = new_figure(8.0, 3.6, ncols=2)
    for item in runs:
        role = ROLES[item["role"]]
        left.axvline(item["end"], **ROLES["reference"].line)
        left.plot(item["t"], item["length"], **{**role.line, "marker": ""}, label=item["label"])
    left.set(xlabel="time", ylabel="length $|x|$ of the token", title=titles[0], ylim=(0, 5.2))
    left.legend(loc="upper center", bbox_to_anchor=(0.64, 0.98), title="start")
    order = np.argsort(time)
    rank = np.arange(1, len(order) + 1)
    style = {**ROLES["bound"].line, "linestyle": "", "markersize": 6}
    for values, marker, name in ((upper, "v", "upper bound"), (lower, "^", "lower bound")):
        right.plot(rank, np.asarray(values)[order], **{**style, "marker": marker}, label=name)
    right.vlines(rank, np.asarray(lower)[order], np.asarray(upper)[order], color=GREY,
                 linewidth=0.6, alpha=0.6)  # fmt: skip
    right.plot(rank, np.asarray(time)[order], **{**ROLES["found"].line, "markersize": 3.5},
               label="measured")  # fmt: skip
    right.set(yscale="log", xlabel="start, in order of its time",
              ylabel="time $t^*$ of the blow-up", title=titles[1])  # fmt: skip
    right.legend(loc="upper left")
    return figure


@drawing
def tokens_on_circle(
    t: np.ndarray,
    degrees: np.ndarray,
    count: np.ndarray,
    marks: Sequence[tuple],
    *,
    titles: tuple[str, str],
) -> Figure:
    """Left: angles of tokens over time. Right: the number of clusters, with moments marked."""
    figure, (left, right) = new_figure(8.0, 3.6, ncols=2)
    path = np.array(degrees, float)
    path[1:][np.abs(np.diff(path, axis=0)) > 180] = np.nan  # across the end of the axis
    left.plot(1 + t, path, color=ROLES["measured"].colour, linewidth=0.6, antialiased=False)
    left.set(xscale="log", ylim=(-180, 180), xlabel="1 + time", ylabel="angle (degrees)",
             title=titles[0])  # fmt: skip
    left.yaxis.set_major_locator(MultipleLocator(90))
    right.step(1 + t, count, where="post", color=ROLES["measured"].colour, linewidth=1.6)
    for time, text in marks:
        right.axvline(1 + time, **ROLES["reference"].line)
        right.annotate(
            text, (1 + time, 0.97), xycoords=("data", "axes fraction"), xytext=(-4, 0),
            textcoords="offset points", rotation=90, ha="right", va="top", fontsize=8.5, color=GREY,
        )  # fmt: skip
    ticks = [1, 2, 3, 5, 10, 20]
    right.set(xscale="log", yscale="log", xlabel="1 + time", ylabel="clusters", title=titles[1])
    right.yaxis.set_major_locator(FixedLocator(ticks))
    right.yaxis.set_minor_formatter(NullFormatter())
    right.set_yticks(ticks, [str(k) for k in ticks])
    for axes in (left, right):
        axes.set_xlim(1, 3 * (1 + t[-1]))  # room beyond the last change
        axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


@drawing
def tokens_on_sphere(points: np.ndarray, weights: np.ndarray, *, title: str) -> Figure:
    """Tokens on the sphere from two sides; the area of a dot is its weight, far ones are faint."""
    figure, pair = new_figure(7.0, 3.5, ncols=2)
    turn = np.linspace(0, 2 * np.pi, 200)
    ring = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1)
    points, weights = np.asarray(points), np.asarray(weights)
    for axes, sign, name in zip(pair, (1, -1), ("from the front", "from behind"), strict=True):
        camera = Camera(sign * np.array([1, -1, 0.6]))
        for circle in (ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]):
            screen, near = camera.project(circle)
            screen[~near] = np.nan
            axes.plot(*screen.T, color=GREY, linewidth=0.6, alpha=0.6)
        axes.plot(np.cos(turn), np.sin(turn), color=INK, linewidth=0.8)
        screen, near = camera.project(points)
        # what is near the rim is on the far side of both views: it must not be left out
        for side, alpha in ((~near, 0.35), (near, 0.9)):
            axes.scatter(
                *screen[side].T, s=9 + 420 * weights[side], color=ROLES["found"].colour,
                alpha=alpha, edgecolors="white", linewidths=0.4,
            )  # fmt: skip
        axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
        axes.set_title(f"{title}, {name}", fontsize=9.5)
        axes.axis("off")
    return figure
