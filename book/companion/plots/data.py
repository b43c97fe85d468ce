"""The data behind a figure, read from what is drawn and written as one long table."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter
from numpy.typing import ArrayLike

from companion.plots.artists import DECORATION, ORDER, Series, _in, read

__all__ = [
    "Axis",
    "Contents",
    "Panel",
    "contents",
    "record",
    "table",
]

#: Largest number of rows in the table of one picture, and of all pictures under a slider.
ROWS, ROWS_OF_FRAMES = 700, 1500


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
    """Say what an artist shows where that cannot be read from it."""
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
                item = read(axes, artist)
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
    """A number with five significant digits, without minus zero; nothing for nan."""
    if isinstance(value, str):
        return _line(value)
    if np.isnan(value):
        return ""
    text = f"{value:.5g}"
    return "0" if text == "-0" else text


def share(sizes: Sequence[int], limit: int) -> int:
    """The largest number c such that no more than ``limit`` remain if at most c of each do."""
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
