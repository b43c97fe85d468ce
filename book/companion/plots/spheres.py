"""Figures on the sphere in three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, SymLogNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from companion.plots.picture import drawing
from companion.plots.style import DIVERGING, INK, ROLES, SEQUENTIAL, new_figure

#: Distance of the eye from the centre of the sphere.
EYE = 4.0
#: Pixels of the landscape along one side of a view.
PIXELS = 240
#: Cells of a histogram around the axis and along it; all have the same area on the sphere.
CELLS = (24, 12)


class Camera:
    """Perspective view of the unit sphere from a direction; its outline has radius 1."""

    def __init__(self, towards):
        self.c = np.asarray(towards, float) / np.linalg.norm(towards)
        up = np.array([0.0, 0.0, 1.0]) if abs(self.c[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
        right = np.cross(up, self.c)
        self.right = right / np.linalg.norm(right)
        self.up = np.cross(self.c, self.right)
        self.slope = 1 / np.sqrt(EYE**2 - 1)

    def project(self, x):
        """Positions (n, 2) on the screen, and which points are on the near side."""
        height = x @ self.c
        scale = 1 / ((EYE - height) * self.slope)
        screen = np.stack([x @ self.right, x @ self.up], axis=1) * scale[:, None]
        return screen, height >= 1 / EYE

    def surface(self):
        """The point of the sphere behind each pixel, shape (PIXELS, PIXELS, 3); NaN beside it."""
        p, q = np.meshgrid(*2 * [np.linspace(-1, 1, PIXELS)])
        ray = -self.c + self.slope * (p[..., None] * self.right + q[..., None] * self.up)
        square, along = (ray * ray).sum(axis=-1), EYE * (ray @ self.c)
        with np.errstate(invalid="ignore"):
            t = (-along - np.sqrt(along**2 - square * (EYE**2 - 1))) / square
        return EYE * self.c + t[..., None] * ray


def _view(axes, camera, points, weights, landscape, norm, kinks):
    """Landscape, kinks and particles; what is on the far side is drawn faintly."""
    surface = camera.surface()
    inside = np.isfinite(surface[..., 0])
    values = np.full(inside.shape, np.nan)
    values[inside] = landscape(surface[inside])
    axes.imshow(
        values, extent=(-1, 1, -1, 1), origin="lower", cmap=DIVERGING, norm=norm, alpha=0.75
    )
    turn = np.linspace(0, 2 * np.pi, 200)
    for a in np.asarray(kinks).reshape(-1, 3):
        first = np.linalg.svd(a[None])[2][1:]
        screen, near = camera.project(np.stack([np.cos(turn), np.sin(turn)], axis=1) @ first)
        screen[~near] = np.nan
        axes.plot(*screen.T, color=INK, linewidth=0.8, linestyle=(0, (3, 2)), alpha=0.7)
    screen, near = camera.project(np.asarray(points))
    points, weights = np.asarray(points), np.asarray(weights)
    size = 9 + 260 * weights
    for side, alpha in ((~near, 0.4), (near, 0.9)):
        axes.scatter(
            *screen[side].T, s=size[side], color=ROLES["found"].colour, alpha=alpha,
            edgecolors="white", linewidths=0.4,
        )  # fmt: skip
    axes.plot(np.cos(turn), np.sin(turn), color=INK, linewidth=0.8)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes.axis("off")


def _norm(landscape):
    """Symmetric scale of a landscape, from a fixed set of directions."""
    height = np.linspace(-1, 1, 61)
    turn = 2 * np.pi * np.arange(120) / 120
    flat = np.sqrt(1 - height**2)[:, None]
    x = np.stack(
        [flat * np.cos(turn), flat * np.sin(turn), np.broadcast_to(height[:, None], (61, 120))],
        axis=-1,
    )
    largest = float(np.abs(landscape(x.reshape(-1, 3))).max())
    largest = largest or 1.0
    # low hills beside deep wells would not be seen on a linear scale
    return SymLogNorm(largest / 15, vmin=-largest, vmax=largest)


def _scale(figure, norm, axes):
    """Colour bar of the landscape."""
    ticks = [-1.0, -0.1, 0.0, 0.1, 1.0]
    ticks = [t for t in ticks if abs(t) <= norm.vmax]
    bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=axes, shrink=0.8, ticks=ticks)
    bar.ax.set_yticklabels([f"{t:g}" for t in ticks])
    bar.ax.minorticks_off()
    bar.set_label("potential $v$")
    bar.outline.set_visible(False)


@drawing
def sphere_histograms(
    states: Sequence[Mapping],
    *,
    landscape: Callable | None = None,
    kinks: ArrayLike = (),
    towards: ArrayLike = (1, -1, 0.6),
) -> tuple[Figure, dict]:
    """Histograms of clouds in spherical angles over cells of equal area, and the spheres below."""
    n = len(states)
    figure, grid = new_figure(2.9 * n, 5.0, nrows=2, ncols=n, height_ratios=(1, 1.25))
    camera = Camera(towards)
    lands = [state.get("landscape", landscape) for state in states]
    norms = [_norm(land) for land in lands]
    norm = max(norms, key=lambda item: item.vmax)
    shade, data = LogNorm(0.1, CELLS[0] * CELLS[1]), {}
    for axes, state in zip(grid[0], states, strict=True):
        x, w = np.asarray(state["points"]), np.asarray(state["weights"])
        # heights in equal steps are bands of equal area
        density, turn, height = np.histogram2d(
            np.arctan2(x[:, 1], x[:, 0]), x[:, 2], bins=CELLS, weights=w,
            range=((-np.pi, np.pi), (-1, 1)),
        )  # fmt: skip
        density = np.where(density > 0, density * CELLS[0] * CELLS[1], np.nan)
        data |= {"azimuth / π, edges": turn / np.pi, "height, edges": height}
        data[state["title"]] = {"points": x, "weights": w, "density / uniform": density}
        image = axes.pcolormesh(turn / np.pi, height, density.T, norm=shade, cmap=SEQUENTIAL)
        angles = np.array([0, 60, 90, 120, 180])
        axes.set_yticks(np.cos(np.deg2rad(angles)), [f"{angle}°" for angle in angles])
        axes.set_xticks([-1, 0, 1], ["−π", "0", "π"])
        axes.set(xlabel="azimuth (radians)", title=state["title"])
        axes.grid(False)
    grid[0, 0].set_ylabel("polar angle")
    bar = figure.colorbar(image, ax=grid[0])
    bar.set_label("density / uniform")
    bar.outline.set_visible(False)
    for axes, state, land in zip(grid[1], states, lands, strict=True):
        edges = state.get("kinks", kinks)
        _view(axes, camera, state["points"], state["weights"], land, norm, edges)
    _scale(figure, norm, grid[1])
    return figure, data
