"""What artists of matplotlib show: lines, points, bands, bars, images, arrows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.collections import (
    Collection,
    LineCollection,
    PathCollection,
    PolyCollection,
    QuadMesh,
)
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import ContourSet
from matplotlib.image import AxesImage
from matplotlib.lines import AxLine, Line2D
from matplotlib.patches import FancyArrowPatch, Patch
from matplotlib.path import Path
from matplotlib.quiver import Quiver
from matplotlib.spines import Spine

__all__ = [
    "DECORATION",
    "Series",
]

#: ``gid`` of artists that only mark something and show no data: slope triangles, arrows, outlines.
DECORATION = "decoration"

#: Columns that are read from artists, in the order in which they are written.
ORDER = ("x", "y", "z", "u", "v", "value", "size", "low", "high")


@dataclass(frozen=True, eq=False)
class Series:
    """Columns of one line, band, cloud of points or grid, all of one length.

    ``kind`` is ``"line"``, ``"points"``, ``"band"`` or ``"grid"``; a grid has a ``shape``, of which
    the rows of its columns are the entries in C order.
    """

    panel: int
    name: str
    kind: str
    columns: dict[str, np.ndarray]
    shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def read(axes, artist) -> Series | None:
    """Data of an artist, without its name; ``None`` where it has none."""
    given: dict = getattr(artist, "mfbook_record", ("", {}))[1]
    try:
        item = _read_artist(axes, artist)
    except NotImplementedError:
        if not given:
            raise
        item = None
    if not given:
        return item
    new = {name: np.asarray(v) for name, v in given.items() if v is not None}
    size = max((v.size for v in new.values()), default=None)
    if item is not None and size in (None, len(item)):
        old = {name: v for name, v in item.columns.items() if name not in given}
        return replace(item, columns={**old, **{name: v.ravel() for name, v in new.items()}})
    kind = "line" if _joins(artist) else "points"
    return Series(0, "", kind, {name: v.ravel() for name, v in new.items()})


def _read_artist(axes, artist) -> Series | None:
    bars = next((c for c in axes.containers if _in(artist, c)), None)
    if isinstance(bars, BarContainer):
        return _bars(bars) if artist is bars.patches[0] else None
    if isinstance(bars, ErrorbarContainer):
        return _error_bars(bars) if artist is bars.lines[0] else None
    for kind, read in READERS:
        if isinstance(artist, kind):
            return read(axes, artist)
    return None


def _in(artist, container) -> bool:
    if isinstance(container, BarContainer):
        return artist in container.patches
    if isinstance(container, ErrorbarContainer):
        line, caps, bars = container.lines
        return any(artist is part for part in (line, *caps, *bars))
    return False


def _joins(artist) -> bool:
    """Whether an artist joins its points by a line."""
    return isinstance(artist, Line2D) and artist.get_linestyle() not in ("None", "", " ")


def _series(kind: str, shape: tuple[int, ...] = (), **columns) -> Series:
    flat: dict[str, np.ndarray] = {
        name: np.ma.filled(np.ma.asarray(v, dtype=float), np.nan).ravel()
        for name, v in columns.items() if v is not None
    }  # fmt: skip
    return Series(0, "", kind, flat, shape)


def _read_line(axes, line) -> Series | None:
    kind = "line" if _joins(line) else "points"
    if hasattr(line, "get_data_3d"):
        x, y, z = line.get_data_3d()
        return _series(kind, x=x, y=y, z=z)
    if isinstance(line, AxLine):
        ends = (line.get_transform() - axes.transData).transform([[0, 0], [1, 1]])
        return _series(kind, x=ends[:, 0], y=ends[:, 1])
    x, y = (np.ma.filled(np.ma.asarray(v, dtype=float), np.nan) for v in line.get_data(orig=False))
    in_x, in_y = line.get_transform().contains_branch_seperately(axes.transData)
    if in_x and in_y:
        return _series(kind, x=x, y=y)
    # a line across the axes is one number
    if in_y:
        return _series("points", y=y[:1])
    return _series("points", x=x[:1]) if in_x else None


def _read_points(axes, points) -> Series | None:
    sizes, values = points.get_sizes(), points.get_array()
    if hasattr(points, "_offsets3d"):
        x, y, z = points._offsets3d
    else:
        if not points.get_offset_transform().contains_branch(axes.transData):
            return None
        (x, y), z = np.ma.asarray(points.get_offsets()).T, None
    if len(np.unique(sizes)) < 2:
        sizes = None
    return _series("points", x=x, y=y, z=z, value=values, size=sizes)


def _read_polygons(axes, polygons) -> Series:
    """A band, whose polygons go along one of its edges and back along the other."""
    if hasattr(polygons, "do_3d_projection"):
        raise NotImplementedError
    parts: list[np.ndarray] = []
    along = None
    for path in polygons.get_paths():
        there = path.vertices[path.codes != Path.CLOSEPOLY] if path.codes is not None else (
            path.vertices)  # fmt: skip
        n = (len(there) - 2) // 2
        one, other = there[1 : n + 1], there[n + 2 : 2 * n + 2][::-1]
        along = next((k for k in (0, 1) if np.array_equal(one[:, k], other[:, k])), None)
        if along is None or n < 1:
            raise NotImplementedError
        ends = np.sort([one[:, 1 - along], other[:, 1 - along]], axis=0)
        parts.append(np.stack([one[:, along], *ends]))
    at, low, high = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    axis = "x" if along is None else "xy"[along]
    return _series("band", (), **{axis: at, "low": low, "high": high})


def _read_segments(axes, lines) -> Series:
    if hasattr(lines, "do_3d_projection"):
        raise NotImplementedError
    segments = lines.get_segments()
    ends = np.array(segments) if {len(s) for s in segments} == {2} else np.empty((0, 2, 2))
    if len(ends) and (ends[:, 0, 0] == ends[:, 1, 0]).all():
        low, high = np.sort(ends[:, :, 1], axis=1).T
        return _series("points", x=ends[:, 0, 0], low=low, high=high)
    return _series("line", **dict(zip("xy", _broken(segments), strict=True)))


def _broken(pieces: Sequence) -> np.ndarray:
    """Pieces of a curve with gaps between them, as two columns."""
    gap = np.full((1, 2), np.nan)
    parts = [part for piece in pieces if len(piece) for part in (np.asarray(piece), gap)]
    return np.concatenate(parts[:-1]).T if parts else np.empty((2, 0))


def _read_image(axes, image) -> Series:
    values = np.ma.asarray(image.get_array())
    if values.ndim != 2:
        raise NotImplementedError
    n, m = values.shape
    left, right, bottom, top = image.get_extent()
    if image.origin == "upper":
        bottom, top = top, bottom
    x = left + (np.arange(m) + 0.5) * (right - left) / m
    y = bottom + (np.arange(n) + 0.5) * (top - bottom) / n
    x, y = np.meshgrid(x, y)
    return _series("grid", (n, m), x=x, y=y, value=values)


def _read_mesh(axes, mesh) -> Series:
    corners, values = mesh.get_coordinates(), np.ma.asarray(mesh.get_array())
    n, m = corners.shape[:2]
    if values.size == n * m:  # shaded between the corners
        middle = corners
    else:
        middle = (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:]) / 4
    shape = middle.shape[:2]
    return _series("grid", shape, x=middle[..., 0], y=middle[..., 1], value=values)


def _read_contours(axes, contours) -> Series:
    levels = np.asarray(contours.levels)
    levels = (levels[:-1] + levels[1:]) / 2 if contours.filled else levels
    columns = []
    for level, path in zip(levels, contours.get_paths(), strict=True):
        if len(path.vertices):
            cuts = np.flatnonzero(path.codes == Path.MOVETO)[1:]
            x, y = _broken([*np.split(path.vertices, cuts), [[np.nan, np.nan]]])
            columns.append([x, y, np.full(len(x), level)])
    x, y, value = np.concatenate(columns, axis=1) if columns else np.empty((3, 0))
    return _series("line", x=x, y=y, value=value)


def _read_arrows(axes, arrows) -> Series:
    return _series("points", x=arrows.X, y=arrows.Y, u=arrows.U, v=arrows.V,
                   value=arrows.get_array())  # fmt: skip


def _read_patch(axes, patch) -> None:
    """Arrows, the frame and what is drawn in coordinates of the axes show no data."""
    in_data = all(patch.get_transform().contains_branch_seperately(axes.transData))
    if in_data and not isinstance(patch, (FancyArrowPatch, Spine)):
        raise NotImplementedError


def _read_other(axes, collection) -> None:
    raise NotImplementedError


def _bars(bars) -> Series:
    box = np.array([(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in bars.patches])
    across = bars.orientation == "horizontal"
    start, thick = (box[:, 1], box[:, 3]) if across else (box[:, 0], box[:, 2])
    base, length = (box[:, 0], box[:, 2]) if across else (box[:, 1], box[:, 3])
    low = base if base.any() else None
    at, to = ("y", "x") if across else ("x", "y")
    return _series("points", **{at: start + thick / 2, to: base + length, "low": low})


def _error_bars(bars) -> Series:
    line, _, collections = bars.lines
    if len(collections) != 1 or line is None:
        raise NotImplementedError
    x, y = line.get_data(orig=False)
    across = 1 if bars.has_yerr else 0
    low, high = np.sort([s[:, across] for s in collections[0].get_segments()], axis=1).T
    return _series("line" if _joins(line) else "points", x=x, y=y, low=low, high=high)


READERS = (
    (Line2D, _read_line),
    (PathCollection, _read_points),
    (ContourSet, _read_contours),
    (Quiver, _read_arrows),
    (QuadMesh, _read_mesh),
    (LineCollection, _read_segments),
    (PolyCollection, _read_polygons),
    (AxesImage, _read_image),
    (Patch, _read_patch),
    (Collection, _read_other),
)
