"""The data behind a figure, read from what is drawn and written as one long table."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.artist import Artist
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
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter
from numpy.typing import ArrayLike

__all__ = ["DECORATION", "Axis", "Contents", "Panel", "Series", "contents", "record", "table"]

#: ``gid`` of artists that only mark something and show no data: slope triangles, arrows, outlines.
DECORATION = "decoration"

#: Largest number of rows in the table of one picture, and of all pictures under a slider.
ROWS, ROWS_OF_FRAMES = 4000, 8000

#: Columns that are read from artists, in the order in which they are written.
ORDER = ("x", "y", "z", "u", "v", "value", "size", "low", "high")


@dataclass(frozen=True)
class Axis:
    """What a column of a panel means: its label with units, scale, range shown, and named ticks."""

    name: str
    label: str
    scale: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Panel:
    """Title and axes of one panel; ``notes`` say how its series are to be read."""

    title: str
    axes: tuple[Axis, ...]
    notes: tuple[str, ...] = ()


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


@dataclass(frozen=True, eq=False)
class Contents:
    """All data of a figure; ``unread`` names the artists whose data could not be read."""

    title: str = ""
    panels: tuple[Panel, ...] = ()
    series: tuple[Series, ...] = ()
    unread: tuple[str, ...] = ()

    def rows(self) -> list[dict]:
        """Every row, not thinned: panel, series and the numbers that there are."""
        return [
            {"panel": item.panel, "series": item.name}
            | {name: values[i] for name, values in item.columns.items() if _known(values[i])}
            for item in self.series
            for i in range(len(item))
        ]


# ------------------------------------------------------------------------------- reading artists


def record(artist: Artist, name: str = "", **columns: ArrayLike | None) -> None:
    """Say what an artist shows where that cannot be read from it.

    Parameters
    ----------
    artist : matplotlib artist
        What was drawn.
    name : str
        Of the series; otherwise its ``gid`` or its label.
    **columns : array
        Arrays of one size, numbers or words. If the artist shows as many points, they come beside
        the columns that are read from it or replace them (``None`` removes one); otherwise
        they are all.
    """
    vars(artist)["mfbook_record"] = (name, columns)


def contents(figure) -> Contents:
    """Read the data of a finished figure from its artists.

    Lines, points, bands, bars, error bars, images, meshes, contours and arrows are read, in three
    dimensions lines and points. What is drawn in coordinates of the axes (shaded ranges) shows no
    data and is left out, as are artists with the ``gid`` ``"decoration"``; of lines across the axes
    (``axhline``) the one number is kept.
    """
    panels: list[Panel] = []
    series: list[Series] = []
    unread: list[str] = []
    every = [part for axes in figure.axes for part in (axes, *axes.child_axes)]
    every = [axes for axes in every if axes.get_label() != "<colorbar>" and axes.get_visible()]
    for axes in every:
        number = len(panels) + 1
        found: list[Series] = []
        notes: list[str] = []
        values: list = []
        for artist in axes.get_children():
            if artist.get_gid() == DECORATION or not artist.get_visible():
                continue
            try:
                item = _read(axes, artist)
            except NotImplementedError:
                unread.append(f"panel {number}: {type(artist).__name__}")
                continue
            if item is None or not len(item):
                continue
            name = _name(artist, axes)
            found.append(replace(item, panel=number, name=name))
            notes += _steps(artist)
            if "value" in item.columns and not values:
                values = [_colours(artist, every, name)]
        if found:
            series += _named(_banded(found))
            title = _line(axes.get_title(loc="left") or axes.get_title())
            axis = (*_axes(axes, figure.axes), *filter(None, values))
            panels.append(Panel(title, axis, tuple(dict.fromkeys(notes))))
    heading = figure.get_suptitle()
    return Contents(_line(heading), tuple(panels), tuple(series), tuple(unread))


def _read(axes, artist) -> Series | None:
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


# ------------------------------------------------------------------------------ names and axes


def _line(text: str) -> str:
    """A text on one line."""
    return " ".join(str(text).split())


def _name(artist, axes) -> str:
    given = getattr(artist, "mfbook_record", ("",))[0]
    bars = next((c for c in axes.containers if _in(artist, c)), artist)
    for name in (given, artist.get_gid(), bars.get_label()):
        if name and not str(name).startswith("_"):
            return _line(name)
    return ""


def _banded(found: list[Series]) -> list[Series]:
    """Series with the band of the same name and the same places as two columns more."""
    result: list[Series] = []
    bands = [item for item in found if item.kind == "band"]
    for item in found:
        if item.kind == "band":
            continue
        for band in bands:
            if (
                item.name
                and band.name == item.name
                and np.array_equal(band.columns.get("x", ()), item.columns.get("x", ()))
            ):
                ends = {name: band.columns[name] for name in ("low", "high")}
                item = replace(item, columns={**item.columns, **ends})
                bands = [other for other in bands if other is not band]
                break
        result.append(item)
    return result + bands


def _named(found: list[Series]) -> list[Series]:
    """Series with a name each: points of one name are one series, lines are numbered."""
    unnamed = 0
    result: list[Series] = []
    for item in found:
        if not item.name:
            unnamed += 1
            item = replace(item, name=f"series {unnamed}")
        same = next((k for k, other in enumerate(result) if _one_cloud(other, item)), None)
        if same is None:
            result.append(item)
        else:
            columns = {name: np.concatenate([values, item.columns[name]])
                       for name, values in result[same].columns.items()}  # fmt: skip
            result[same] = replace(result[same], columns=columns)
    several = Counter(item.name for item in result)
    seen: Counter = Counter()
    for k, item in enumerate(result):
        if several[item.name] > 1:
            seen[item.name] += 1
            result[k] = replace(item, name=f"{item.name} ({seen[item.name]})")
    return result


def _one_cloud(one: Series, other: Series) -> bool:
    return one.kind == other.kind == "points" and (one.name, one.columns.keys()) == (
        other.name, other.columns.keys())  # fmt: skip


def _steps(artist) -> list[str]:
    style = artist.get_drawstyle() if isinstance(artist, Line2D) else "default"
    meaning = {
        "steps-post": "a line keeps each value until the next x",
        "steps": "a line has each value from the x before on",
        "steps-pre": "a line has each value from the x before on",
        "steps-mid": "a line changes its value half-way between two x",
    }
    return [meaning[style]] if style in meaning else []


def _axes(axes, others) -> tuple[Axis, ...]:
    result = []
    for name in (n for n in "xyz" if hasattr(axes, f"{n}axis")):
        axis = getattr(axes, f"{name}axis")
        label = _label(axis) or _neighbour(axes, others, name)
        low, high = sorted(getattr(axes, f"get_{name}lim")())
        result.append(Axis(name, label, axis.get_scale(), low, high, _ticks(axis)))
    return tuple(result)


def _label(axis) -> str:
    return "" if axis.label.get_gid() == DECORATION else _line(axis.get_label_text())


def _neighbour(axes, others, name: str) -> str:
    """Label of the axes beside (for y) or below (for x), where one label serves several."""
    place = axes.get_subplotspec()
    if place is None or not axes.axison:
        return ""
    span = "rowspan" if name == "y" else "colspan"
    for other in others if name == "y" else reversed(others):
        beside = other.get_subplotspec()
        if beside is None or other.get_label() == "<colorbar>" or not hasattr(other, f"{name}axis"):
            continue
        if beside.get_gridspec() is place.get_gridspec() and (
            getattr(beside, span) == getattr(place, span)
        ):
            label = _label(getattr(other, f"{name}axis"))
            if label:
                return label
    return ""


def _ticks(axis) -> tuple[tuple[float, str], ...]:
    """Ticks with words instead of numbers."""
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    named = isinstance(locator, FixedLocator) and axis.axes.axison
    if not named or not isinstance(formatter, (FixedFormatter, FuncFormatter)):
        return ()
    places = [float(place) for place in locator()]
    words = [_line(text) for text in formatter.format_ticks(places)]
    plain = ["", *(f"{place:g}" for place in places)]
    if all(word.replace("−", "-") in plain for word in words):
        return ()
    return tuple((place, word) for place, word in zip(places, words, strict=True) if word)


def _colours(artist, every, name: str) -> Axis | None:
    """What the values of an artist mean: from a colour bar of its scale, else from its name."""
    norm, bar = getattr(artist, "norm", None), getattr(artist, "colorbar", None)
    if norm is None or norm.vmin is None:
        return None
    for axes in every if bar is None else ():
        for other in (*axes.images, *axes.collections):
            if other.colorbar is not None and other.norm is norm:
                bar = other.colorbar
    kind = {"Normalize": "linear", "TwoSlopeNorm": "linear", "LogNorm": "log",
            "SymLogNorm": "symlog"}.get(type(norm).__name__, type(norm).__name__)  # fmt: skip
    label = "" if bar is None else _line(bar.ax.get_ylabel() or bar.ax.get_xlabel())
    return Axis("value", label or name, kind, float(norm.vmin), float(norm.vmax))


# --------------------------------------------------------------------------------------- writing


def _known(value) -> bool:
    return isinstance(value, str) or bool(np.isfinite(value))


def _written(value) -> str:
    """A number with six significant digits, without minus zero; nothing for nan."""
    if isinstance(value, str):
        return _line(value)
    if np.isnan(value):
        return ""
    text = f"{value:.6g}"
    return "0" if text == "-0" else text


def share(sizes: Sequence[int], limit: int) -> int:
    """The largest number c such that no more than ``limit`` remain if at most c of each do.

    Examples
    --------
    >>> share([10, 100, 100], 110), share([10, 20], 100)
    (50, 20)
    """
    left, largest = limit, max(sizes, default=0)
    for done, size in enumerate(sorted(sizes)):
        each = left // (len(sizes) - done)
        if size > each:
            return max(each, 2)
        left -= size
    return largest


def thinned(item: Series, keep: int) -> Series:
    """At most ``keep`` rows, evenly spaced: of a grid, every s-th in both directions."""
    if len(item) <= keep:
        return item
    if item.shape:
        step = 1
        while np.prod([-(-n // step) for n in item.shape]) > keep:
            step += 1
        index = np.arange(len(item)).reshape(item.shape)[::step, ::step]
        shape, at = index.shape, index.ravel()
    else:
        shape, at = (), np.linspace(0, len(item) - 1, keep).round().astype(int)
    return replace(item, columns={n: v[at] for n, v in item.columns.items()}, shape=shape)


def _described(drawn: Contents) -> list[str]:
    """Lines that say what the panels are."""
    lines = [f"title: {drawn.title}"] if drawn.title else []
    for number, panel in enumerate(drawn.panels, 1):
        lines += [f"panel {number}: {panel.title}"] if panel.title else []
        for axis in panel.axes:
            ends = f"{_written(axis.low)} to {_written(axis.high)}"
            label = axis.label or "(no label)"
            lines.append(f"panel {number}, {axis.name}: {label}; {axis.scale}; {ends}")
            if axis.ticks:
                names = ", ".join(f"{_written(at)} is {word}" for at, word in axis.ticks)
                lines.append(f"panel {number}, ticks of {axis.name}: {names}")
        lines += [f"panel {number}: {note}" for note in panel.notes]
    return lines + [f"not in this table: {what}" for what in drawn.unread]


def _kept(drawn: Contents, limit: int) -> tuple[list[Series], list[str]]:
    """Series within a number of rows, and lines that say what was thinned."""
    keep = share([len(item) for item in drawn.series], limit)
    result, lines = [], []
    for item in drawn.series:
        few = thinned(item, keep)
        if few is not item:
            lines.append((item.panel, f"{len(few)} of {len(item)}", item.name))
        result.append(few)
    said: dict[tuple, list[str]] = {}
    for panel, how, name in lines:
        said.setdefault((panel, how), []).append(name)
    return result, [
        f"thinned: panel {panel}, {how} rows of "
        + (f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0])
        for (panel, how), names in said.items()
    ]


def table(drawn: Contents, limit: int = ROWS) -> str:
    """The data of a figure as CSV in long form, below lines of comment that begin with ``#``."""
    return _table([("", drawn)], limit)


def table_of_frames(frames: Iterable[tuple[str, Contents]], limit: int = ROWS_OF_FRAMES) -> str:
    """The data of all pictures under a slider, with a first column ``frame``."""
    return _table(list(frames), limit)


def _table(frames: list[tuple[str, Contents]], limit: int) -> str:
    series, comments = [], []
    for label, drawn in frames:
        kept, notes = _kept(drawn, limit // len(frames))
        comments.append([*_described(drawn), *notes])
        series += [(label, item) for item in kept]
    used = list(dict.fromkeys(name for _, item in series for name in item.columns))
    columns = [name for name in ORDER if name in used] + [n for n in used if n not in ORDER]
    text = io.StringIO()
    for line in comments[0] if comments else ():
        if all(line in other for other in comments):
            text.write(f"# {line}\n")
    for (label, _), lines in zip(frames, comments, strict=True):
        for line in lines:
            if not all(line in other for other in comments):
                text.write(f"# frame {label}, {line}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(["frame"] if frames[0][0] else []), "panel", "series", *columns])
    for label, item in series:
        front = [*([label] if label else []), item.panel, item.name]
        cells = [[_written(v) for v in item.columns[name]] if name in item.columns
                 else [""] * len(item) for name in columns]  # fmt: skip
        for row in zip(*cells, strict=True):
            # a cell of a grid without a value, or a point nowhere, is not a row; a gap in a line is
            if item.kind == "line" or _holds(item, row, columns):
                writer.writerow([*front, *row])
    return text.getvalue()


def _holds(item: Series, row: Sequence[str], columns: Sequence[str]) -> bool:
    return all(cell for name, cell in zip(columns, row, strict=True) if name in item.columns)
