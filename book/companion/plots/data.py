"""The data behind a figure: the named arrays that it is given, written as one long table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number

import numpy as np

from companion.plots.style import ROLES

#: Largest number of rows in the table of one picture, and of all pictures under a slider.
ROWS, ROWS_OF_FRAMES = 700, 1500
#: What says how to draw, or marks something that is drawn: no data.
LOOK = {
    "base", "bins", "dash", "direct", "fill", "landscape", "legend", "limits", "line", "log",
    "marker", "names", "notes", "range", "role", "scale", "shades", "sharey", "shown", "size",
    "slopes", "title", "titles", "towards", "width", "xlim", "ylim",
}  # fmt: skip
#: Coordinates up to this many of a point are columns of one row.
COORDINATES = 3


@dataclass(frozen=True, eq=False)
class Block:
    """Columns of a series that have one shape; with several axes, a row for each index."""

    series: str
    columns: dict[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """The common shape."""
        return next(iter(self.columns.values())).shape

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    @property
    def key(self) -> tuple:
        """What two blocks of one name and one content have in common."""
        entries = ((name, v.dtype.str, v.tobytes()) for name, v in self.columns.items())
        return (self.series, self.shape, *entries)


@dataclass(frozen=True, eq=False)
class Given:
    """What a figure is given, and lines that say what its axes mean."""

    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()


def given(data: Mapping, figure) -> Given:
    """The arrays among named data, and the labels of the figure that shows them."""
    blocks: list[Block] = []
    for block in _blocks(data, ()):
        alike = sum(b.series == block.series and b.columns.keys() == block.columns.keys()
                    or b.series.startswith(f"{block.series} (") for b in blocks)  # fmt: skip
        name = f"{block.series} ({alike + 1})" if alike else block.series
        blocks.append(replace(block, series=name))
    return Given(tuple(blocks), tuple(_notes(figure)))


def _blocks(data: Mapping, path: tuple[str, ...]) -> Iterator[Block]:
    """Arrays of named data, those of one shape together; then what is nested in them."""
    shapes: dict[tuple, dict[str, np.ndarray]] = {}
    nested: list[tuple[str, Mapping]] = []
    for key, value in data.items():
        array = None if key in LOOK else _array(value)
        if array is not None:
            for name, column in _columns(key, array):
                shapes.setdefault(column.shape, {})[name] = column
        elif key not in LOOK:
            nested += _parts(key, value)
    for columns in shapes.values():
        if next(iter(columns.values())).size:
            yield Block(": ".join(path), columns)
    for name, part in nested:
        yield from _blocks(part, (*path, name) if name else path)


def _array(value) -> np.ndarray | None:
    """Numbers, truth values or words as an array; nothing for a string or what is not regular."""
    if isinstance(value, (np.ndarray, Number)):
        return np.ma.filled(np.ma.asarray(value).astype(float), np.nan) if np.ma.isMA(value) else (
            np.asarray(value))  # fmt: skip
    if isinstance(value, tuple) and any(np.ndim(v) for v in value if not isinstance(v, str)):
        return None  # coordinates
    if not isinstance(value, (list, tuple, range)):
        return None
    try:
        array = np.array(value)
    except ValueError:
        return None
    words = all(isinstance(v, str) for v in np.array(value, dtype=object).flat)
    return array if array.dtype.kind in "biuf" or (words and array.size) else None


def _columns(key: str, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """An array as columns: one for each coordinate of its points, if it has points."""
    if array.ndim > 1 and array.shape[-1] <= COORDINATES:
        for i in range(array.shape[-1]):
            yield f"{key} {i + 1}", array[..., i]
    else:
        yield key, array


def _parts(key: str, value) -> Iterator[tuple[str, Mapping]]:
    """Named data inside of named data: a mapping, a tuple of coordinates, a sequence of these."""
    if isinstance(value, Mapping):
        yield next((str(value[k]) for k in ("title", "label") if value.get(k)), key), value
    elif isinstance(value, tuple) and not any(isinstance(v, (Mapping, list)) for v in value):
        words = [v for v in value if isinstance(v, str) and v not in ROLES and len(v) > 1]
        numbers = [v for v in value if isinstance(v, (np.ndarray, Number, list))]
        names = "xyz" if len(numbers) > 1 else "y"
        yield (words or [key])[0], dict(zip(names, numbers, strict=False))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value, 1):
            if isinstance(part, Mapping):
                yield from _parts(f"{key} {i}", part)
            elif isinstance(part, tuple):
                yield from _parts(key, part)
            elif not isinstance(part, str) and part is not None:
                yield (f"{key} {i}", {key: part}) if _array(part) is not None else ("", {key: part})


def _line(text: str) -> str:
    """A text on one line."""
    return " ".join(str(text).split())


def _notes(figure) -> Iterator[str]:
    """What panels, axes and colours mean, units included: the labels that a reader sees."""
    panel = 0
    for axes in figure.axes:
        bar = axes.get_label() == "<colorbar>"
        panel += not bar
        where = "colours" if bar else f"panel {panel}"
        if title := _line(axes.get_title(loc="left") or axes.get_title()):
            yield f"{where}: {title}"
        for name in "xy":
            axis = getattr(axes, f"{name}axis")
            if label := _line(axis.get_label_text()):
                yield f"{where if bar else f'{where}, {name}'}: {label}; {axis.get_scale()}"


# --------------------------------------------------------------------------------------- writing
def _written(value) -> str:
    """A number with five significant digits, without minus zero; nothing if not finite."""
    if isinstance(value, (str, np.str_)):
        return _line(value)
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return str(value)
    if not np.isfinite(value):
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


def thinned(block: Block, keep: int) -> tuple[Block, tuple[np.ndarray, ...]]:
    """At most ``keep`` rows, evenly spaced along the longest axes, and their indices."""
    at = [np.arange(n) for n in block.shape]
    if len(at) == 1 and len(block) > keep:  # both ends stay
        at = [np.linspace(0, len(block) - 1, keep).round().astype(int)]
    steps = [1] * len(at)
    while np.prod([len(index) for index in at]) > keep and len(at) > 1:
        longest = max(range(len(at)), key=lambda k: len(at[k]))
        steps[longest] += 1
        at[longest] = np.arange(0, block.shape[longest], steps[longest])
    chosen = {name: values[np.ix_(*at)] if at else values for name, values in block.columns.items()}
    return replace(block, columns=chosen), tuple(at)


def table(data: Given, limit: int = ROWS) -> str:
    """Named arrays as CSV: a row for each index, below lines of comment that begin with ``#``."""
    return _table([("", block) for block in data.blocks], [("", data.notes)], limit)


def table_of_frames(frames: Iterable[tuple[str, Given]], limit: int = ROWS_OF_FRAMES) -> str:
    """The data of all pictures under a slider; the column ``frame`` is ``all`` for common ones."""
    frames = list(frames)
    keys = [{block.key for block in data.blocks} for _, data in frames]
    shared = set.intersection(*keys)
    blocks = [("all", block) for block in frames[0][1].blocks if block.key in shared]
    blocks += [(label, block) for label, data in frames for block in data.blocks
               if block.key not in shared]  # fmt: skip
    return _table(blocks, [(label, data.notes) for label, data in frames], limit)


def _table(blocks: list[tuple[str, Block]], notes: list[tuple], limit: int) -> str:
    text, lines = io.StringIO(), list(dict.fromkeys(line for _, part in notes for line in part))
    for line in lines:
        owners = [label for label, part in notes if line in part]
        frame = "" if len(owners) == len(notes) else f"frame {', '.join(owners)}; "
        text.write(f"# {frame}{line}\n")
    keep = share([len(block) for _, block in blocks], limit)
    names = list(dict.fromkeys(name for _, block in blocks for name in block.columns))
    axes = max((len(block.shape) for _, block in blocks), default=0)
    index = ["i", "j", "k", "l"][:axes] if axes > 1 else []
    rows = []
    for label, block in blocks:
        few, at = thinned(block, keep)
        if len(few) < len(block):
            frame = f"frame {label}; " if label not in ("", "all") else ""
            series = f"{_line(block.series)}: " if block.series else ""
            what = f"{len(few)} of {len(block)} rows of {series}{', '.join(block.columns)}"
            text.write(f"# {frame}thinned: {what}\n")
        for place in np.ndindex(few.shape):
            cells = [_written(few.columns[n][place]) if n in few.columns else ""
                     for n in names]  # fmt: skip
            if any(cells):  # a cell of a grid without a value is not a row
                where = [int(axis[i]) for axis, i in zip(at, place, strict=True)]
                where = [*where, *[""] * axes][: len(index)]
                rows.append([*([label] if label else []), _line(block.series), *where, *cells])
    writer = csv.writer(text, lineterminator="\n")
    front = ["frame"] if blocks and blocks[0][0] else []
    writer.writerows([[*front, "series", *index, *names], *rows])
    return text.getvalue()
