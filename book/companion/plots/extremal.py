"""Figures of extremal points: the potential on circle and sphere, the minimiser, trapped flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from companion.plots.picture import drawing
from companion.plots.style import DIVERGING, FAINT, INK, ROLES, new_figure

#: Angles on the circle, from -180 to 180 degrees, with round ticks.
DEGREES = MultipleLocator(90)


def degrees(angle) -> np.ndarray:
    """Angles in [-180, 180) degrees."""
    return (np.degrees(angle) + 180) % 360 - 180


def on_degrees(axes, **labels) -> None:
    """Set the horizontal axis to the whole circle."""
    axes.set(xlim=(-180, 180), xlabel="angle (degrees)", **labels)
    axes.xaxis.set_major_locator(DEGREES)


@drawing
def landscapes(circle: Mapping, sphere: Mapping) -> tuple[Figure, dict]:
    """A potential on the circle by its sign regions, and one on the sphere as a map."""
    figure, _ = new_figure(8.2, 3.5)
    figure.clear()
    grid = figure.add_gridspec(1, 2, width_ratios=(1, 1.25))
    left, right = figure.add_subplot(grid[0]), figure.add_subplot(grid[1], projection="mollweide")
    order = np.argsort(degrees(circle["angle"]))
    x, v = degrees(circle["angle"])[order], np.asarray(circle["v"])[order]
    tops, best = ((degrees(circle[name][0]), circle[name][1]) for name in ("tops", "best"))
    edges = np.sort(degrees(circle["edges"]))
    for low, high in zip(np.append(-180, edges)[::2], np.append(edges, 180)[::2], strict=False):
        left.axvspan(low, high, color=FAINT, alpha=0.5, linewidth=0)
    left.plot(x, v, color=INK, linewidth=1.6)
    left.plot(*tops, label="best of its region", **{**ROLES["found"].line, "markersize": 4})
    left.plot(*best, "*", color=ROLES["bound"].colour, markersize=13, label="maximiser")
    on_degrees(left, ylabel="potential $v$", title="Circle")
    left.legend(loc="best")
    # the two signs have scales of their own: the maximum may be far smaller than the depth
    low, high = min(np.min(sphere["v"]), -1e-9), max(np.max(sphere["v"]), 1e-9)
    image = right.pcolormesh(
        *sphere["grid"], sphere["v"], cmap=DIVERGING, norm=TwoSlopeNorm(0, low, high),
        shading="gouraud", rasterized=True,
    )  # fmt: skip
    for wall in sphere["walls"]:
        right.plot(*wall, ".", color=INK, markersize=0.8)
    right.plot(*sphere["best"], "*", color=ROLES["bound"].colour, markersize=13)
    right.set(xticklabels=[], yticklabels=[], title="Sphere")
    right.grid(False)
    bar = figure.colorbar(image, ax=right, shrink=0.8)
    bar.set_label("potential $v$")
    bar.set_ticks([low, low / 2, 0, high / 2, high])
    bar.ax.yaxis.set_major_formatter("{x:.2f}")
    bar.outline.set_visible(False)
    return figure, {
        "circle": {"degrees": x, "v": v, "best of each region": tops, "maximiser": best},
        "sphere": {k: sphere[k] for k in ("v", "walls", "best")}
        | dict(zip(("longitude", "latitude"), sphere["grid"], strict=True)),
    }  # fmt: skip


@drawing
def circle_minimiser(
    angle: np.ndarray,
    f: np.ndarray,
    atoms: np.ndarray,
    masses: np.ndarray,
    *,
    title: str,
    also: tuple,
) -> tuple[Figure, dict]:
    """First variations of two measures above their means, and the measures themselves."""
    figure, (top, bottom) = new_figure(7.2, 4.2, nrows=2, sharex=True, height_ratios=(1.5, 1))
    order = np.argsort(degrees(angle))
    x, blue, orange = degrees(angle)[order], ROLES["measured"].colour, ROLES["bound"].colour
    places, weights, label, g, name = also
    f, g = np.asarray(f)[order], np.asarray(g)[order]
    atoms, places = degrees(atoms), degrees(places)
    top.axhline(0, **ROLES["reference"].line)
    top.plot(x, f, color=blue, linewidth=1.8, label=label[0])
    at = np.interp(atoms, x, f)
    top.plot(atoms, at, **{**ROLES["found"].line, "markersize": 6})
    top.plot(x, g, color=orange, linewidth=1.4, label=name)
    top.set(ylabel=r"$\delta E-\int\delta E\,d\mu$", title=title)
    top.legend()
    bottom.vlines(atoms, 0, masses, color=blue, linewidth=3)
    bottom.plot(atoms, masses, **{**ROLES["found"].line, "markersize": 5})
    bottom.vlines(places, 0, weights, color=orange, linewidth=2)
    bottom.plot(places, weights, "s", color=orange, markersize=5)
    on_degrees(bottom, ylabel="mass")
    bottom.set_ylim(0, 1.05 * max(np.max(masses), np.max(weights), 0.5))
    return figure, {
        "degrees": x, label[0]: f, name: g, "atoms": {
            label[0]: {"degrees": atoms, "δE": at, "mass": masses},
            name: {"degrees": places, "mass": weights}},
    }  # fmt: skip


@drawing
def splitting(items: Sequence[Mapping]) -> tuple[Figure, dict]:
    """Atoms of the minimiser against the inverse temperature; a dot's area is the mass."""
    figure, axes = new_figure(8.0, 3.6, ncols=len(items), sharey=True, squeeze=False)
    data: dict = {}
    for ax, item in zip(axes[0], items, strict=True):
        beta = np.repeat(item["beta"], [len(angle) for angle in item["angle"]])
        angle, mass = degrees(np.concatenate(item["angle"])), np.concatenate(item["mass"])
        dots = {"color": ROLES["found"].colour, "alpha": 0.7, "linewidth": 0}
        ax.scatter(beta, angle, s=60 * mass, **dots)
        forms = [(beta, degrees(angle), "closed form") for beta, angle in item["lines"]]
        for x, y, _ in forms:
            ax.plot(x, y, **{**ROLES["sharpened"].line, "linewidth": 1.5})
        atoms = {"beta": beta, "degrees": angle, "mass": mass}
        data[item["title"]] = {"atoms": atoms, "closed forms": forms}
        ax.set(xscale="log", xlabel=r"$\beta$", title=item["title"], ylim=(-180, 180))
        ax.yaxis.set_major_locator(DEGREES)
    axes[0, 0].set_ylabel("angle of the atoms (degrees)")
    return figure, data
