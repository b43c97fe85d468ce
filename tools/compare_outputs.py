"""Compare stored outputs of a notebook with fresh ones, digit by digit but no further.

Rounding differs between machines, so numbers agree when the digits that are printed agree up to
one unit in the last of them. Everything else has to be the same: the words, the integers, the
number and order of outputs, the pictures' number and descriptions, and their sizes up to one pixel,
for versions of matplotlib round them differently. Pixels are not compared.
"""

from __future__ import annotations

import csv
import html
import json
import math
import re
from decimal import Decimal

from tools.chapters import text as joined

#: Below this a number is rounding, and may have any value. That it is small is what checks assert.
NOISE = 1e-9
#: What live figures compute with is rounded to six decimals at the most: one of them may differ.
LIVE = 2e-6
#: Data of figures agree to this part of an axis: a page shows fewer points along it.
VISIBLE = 1e-3
#: Of words in the table of a figure (which regime a cell of a map lies in) so large a part may
#: differ: a cell at a border may fall to either side.
BORDER = 0.01
IMAGES = ("image/png", "image/jpeg")

# A number that is not part of a word or of an identifier such as fig-2, W2 or hy-theorem-4-1;
# noise is printed as <1e-12, in HTML escaped.
NUMBER = re.compile(
    r"(?<![\w.])(?<!\w-)(?:(?:<|&lt;)\d(?:\.\d+)?e[+-]?\d+"
    r"|[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?!\w)"
)
INTEGER = re.compile(r"[+-]?\d+")
DATA_URI = re.compile(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/=\s]+)")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
#: What a live figure computes with, in the element that it lives in.
PARAMETERS = re.compile(r'data-parameters="([^"]*)"')
#: Width and height of a picture: as it is printed, and as its element has them.
SIZE = re.compile(r'Picture\((\d+) x (\d+) pixels\)|width="(\d+)" height="(\d+)"')


# ------------------------------------------------------------------------------- texts and numbers


def split(text: str) -> tuple[str, list[str]]:
    """Separate the words of an output from its numbers.

    Runs of spaces and rules are shortened to one: a column is as wide as its numbers.

    >>> split("M     gap\\n----  -----\\n1024  0.25")
    ('M gap\\n- -\\n# #', ['1024', '0.25'])
    """
    text = ADDRESS.sub("", DATA_URI.sub("data:image", text))
    words = re.sub(r"[ \t]+", " ", re.sub(r"-{2,}", "-", NUMBER.sub("#", text)))
    return "\n".join(line.strip() for line in words.strip().splitlines()), NUMBER.findall(text)


def same_number(left: str, right: str, exact: bool = False) -> bool:
    """Whether two printed numbers agree.

    Integers agree when they are equal; other numbers when they differ by at most one unit of the
    last digit of the longer literal; noise agrees with noise. With ``exact`` no digit may differ,
    and noise is only what is printed as such, or 0.

    >>> same_number("0.1234", "0.1235"), same_number("0.1234", "0.1244"), same_number("4", "5")
    (True, False, False)
    >>> same_number("0.4999", "0.5"), same_number("<1e-12", "0"), same_number("<1e-12", "0.1")
    (True, True, False)
    >>> same_number("0.1234", "0.1235", exact=True), same_number("<1e-12", "0", exact=True)
    (False, True)
    """

    def noise(literal: str) -> bool:
        small = 0 if exact else NOISE
        return "<" in literal or "&lt;" in literal or abs(float(literal)) <= small

    if left == right or noise(left) or noise(right):
        return left == right or (noise(left) and noise(right))
    one, other = Decimal(left), Decimal(right)
    if exact or (INTEGER.fullmatch(left) and INTEGER.fullmatch(right)):
        return not exact and one == other
    unit = min(one.as_tuple().exponent, other.as_tuple().exponent)
    return abs(one - other) <= Decimal(1).scaleb(unit)


def text_difference(stored: str, fresh: str, exact: bool = False) -> str | None:
    """What differs between two printed texts, or ``None``."""
    sizes = [[int(side) for found in SIZE.findall(text) for side in found if side]
             for text in (stored, fresh)]  # fmt: skip
    if len(sizes[0]) == len(sizes[1]):  # otherwise the words differ, too
        for left, right in zip(*sizes, strict=True):
            if abs(left - right) > 1:
                return f"a side of a picture: stored {left}, fresh {right} pixels"
        stored, fresh = SIZE.sub("Picture", stored), SIZE.sub("Picture", fresh)
    (words, numbers), (new_words, new_numbers) = split(stored), split(fresh)
    if words != new_words:
        return f"the text differs:\n--- stored\n{stored}\n--- fresh\n{fresh}"
    for left, right in zip(numbers, new_numbers, strict=True):
        if not same_number(left, right, exact):
            return f"stored {left}, fresh {right}, in\n{fresh}"
    return None


# ---------------------------------------------------------------------------------- outputs, JSON


def data_difference(
    stored, fresh, where: str = "data", *, exact: bool = False, live: bool = False
) -> str | None:
    """What differs between two JSON values, or ``None``; numbers agree as printed ones do.

    With ``live`` they are what a figure computes with: nobody reads them, and they agree up to
    ``LIVE``, absolutely or relatively.

    >>> data_difference({"at": [3.0, 1e-17]}, {"at": [3.0 + 1e-12, -2e-17]}, live=True)
    >>> data_difference({"at": [3.0, 0.0]}, {"at": [3.0, 1e-4]}, "level", live=True)
    'level.at[1]: stored 0.0, fresh 0.0001'
    """
    if isinstance(stored, dict) and isinstance(fresh, dict) and stored.keys() == fresh.keys():
        parts = [(stored[key], fresh[key], f"{where}.{key}") for key in stored]
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        parts = [(*pair, f"{where}[{i}]") for i, pair in enumerate(zip(stored, fresh, strict=True))]
    else:
        types = {type(stored), type(fresh)}
        if types <= {int, float} and (live or float in types):
            same = math.isfinite(stored) and math.isfinite(fresh) and (
                math.isclose(stored, fresh, rel_tol=LIVE, abs_tol=LIVE) if live
                else same_number(repr(float(stored)), repr(float(fresh)), exact)
            )  # fmt: skip
        else:
            same = len(types) == 1 and stored == fresh
        return None if same else f"{where}: stored {stored!r}, fresh {fresh!r}"
    found = (data_difference(*part, exact=exact, live=live) for part in parts)
    return next(filter(None, found), None)


def coalesced(outputs: list[dict]) -> list[dict]:
    """Outputs with consecutive pieces of one stream merged: where they are cut is chance."""
    merged: list[dict] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output["output_type"] == "stream" and output["name"] == last.get("name"):
            last["text"] = joined(last["text"]) + joined(output["text"])
        else:
            merged.append(dict(output))
    return merged


def output_difference(stored: dict, fresh: dict, exact: bool = False) -> str | None:
    """What differs between two outputs of a cell, or ``None``."""
    kinds = [(o["output_type"], o.get("name"), *sorted(o.get("data", ()))) for o in (stored, fresh)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]} is stored, {kinds[1]} came"
    if stored["output_type"] == "stream":
        return text_difference(joined(stored["text"]), joined(fresh["text"]), exact)
    if stored["output_type"] == "error":
        old, new = (f"{o['ename']}: {o['evalue']}" for o in (stored, fresh))
        return text_difference(old, new)
    for kind in sorted(set(stored["data"]).difference(IMAGES)):
        old, new = stored["data"][kind], fresh["data"][kind]
        if kind.endswith("json"):
            found = data_difference(old, new, exact=exact)
        else:
            old, new = joined(old), joined(new)
            live = [[json.loads(html.unescape(found)) for found in PARAMETERS.findall(text)]
                    for text in (old, new)]  # fmt: skip
            old, new = (PARAMETERS.sub("data-parameters", text) for text in (old, new))
            found = text_difference(old, new, exact)
            found = found or data_difference(*live, "parameters", live=True)
        if found:
            return f"{kind}: {found}"
    return None


def difference(stored: list[dict], fresh: list[dict], *, exact: bool = False) -> str | None:
    """What differs between the stored and the fresh outputs of a cell, or ``None``.

    With ``exact`` no printed digit may differ; otherwise the last may, by one.
    """
    stored, fresh = coalesced(stored), coalesced(fresh)
    if len(stored) != len(fresh):
        return f"{len(stored)} outputs are stored, {len(fresh)} came"
    for i, (left, right) in enumerate(zip(stored, fresh, strict=True)):
        if found := output_difference(left, right, exact):
            return f"output {i}: {found}"
    return None


# ------------------------------------------------------------------------ the data behind figures

AXIS = re.compile(r"(?P<name>.*panel \d+, \w+): .*; (?P<scale>[\w-]+); (?P<ends>\S+ to \S+)")


class _Table:
    """The table of a figure: its rows by series, its comments, and the axes that these name."""

    def __init__(self, text: str):
        lines = text.splitlines()
        self.columns, *rows = csv.reader(line for line in lines if not line.startswith("#"))
        self.data = self.columns.index("series") + 1
        #: (frame, if there are any, panel, series): rows, in their order
        self.series: dict[tuple, list[dict]] = {}
        for row in rows:
            named = dict(zip(self.columns, row, strict=True))
            self.series.setdefault(tuple(row[: self.data]), []).append(named)
        #: (frame, panel, name) as it is written: scale and ends
        self.axes: dict[str, tuple[str, float, float]] = {}
        self.comments: list[str] = []
        # the line that says where a stored table comes from is no part of the figure
        for line in lines:
            if line.startswith("# ") and not line.startswith("# figure: "):
                if axis := AXIS.fullmatch(line[2:]):
                    low, high = map(float, axis["ends"].split(" to "))
                    self.axes[axis["name"]] = (axis["scale"], low, high)
                    line = line.removesuffix(axis["ends"])
                self.comments.append(line)

    def axis(self, series: tuple, column: str, row: dict) -> tuple[str, float, float]:
        """The axis along which a column of a series is drawn, or one as long as its values."""
        *frame, panel, _ = series
        along = column if column not in ("low", "high") else "y" if row.get("x") else "x"
        for before in (f"frame {frame[0]}, " if frame else "", ""):
            if found := self.axes.get(f"{before}panel {panel}, {along}"):
                return found
        return "linear", 0.0, max(abs(_number(row[column]) or 0.0) for row in self.series[series])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _place(value: float, axis: tuple[str, float, float]) -> float:
    """Where along an axis a value is shown, from 0 to 1; what is outside lies at an end."""
    scale, low, high = axis
    if scale == "log":
        value, low, high = (math.log10(v) if v > 0 else -math.inf for v in (value, low, high))
    if not high > low or not math.isfinite(high - low):
        return 0.0
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _apart(one: float, other: float, axis: tuple[str, float, float]) -> bool:
    return not abs(_place(one, axis) - _place(other, axis)) <= VISIBLE


def _series_difference(old: _Table, new: _Table, series: tuple) -> str | None:
    """What differs between the rows of a series in two tables, or ``None``."""
    before, after = old.series[series], new.series[series]
    if len(before) != len(after):
        return f"{len(before)} rows stored, {len(after)} fresh"
    for column in old.columns[old.data :]:
        words = 0
        for i, (row, other) in enumerate(zip(before, after, strict=True), 1):
            left, right = row[column], other[column]
            if left == right:
                continue
            x, y = _number(left), _number(right)
            if x is None or y is None:
                words += 1
                differs = not (left and right) or words > BORDER * len(before)
            else:
                differs = _apart(x, y, old.axis(series, column, row))
            if differs:
                return f"row {i}: {column} is {left!r} stored, {right!r} fresh"
    return None


def table_difference(stored: str, fresh: str, *, numbers: bool = True) -> str | None:
    """What differs between the data of two figures, or ``None``.

    Panels, their titles and labels, the names of the series and the columns have to be the same.
    With ``numbers`` (which is right unless a figure shows what rounding can change), so have the
    numbers of rows, and no point may lie elsewhere on its axes by more than ``VISIBLE`` of them.
    """
    old, new = _Table(stored), _Table(fresh)
    for what in ("columns", "series", "axes"):
        one, other = list(getattr(old, what)), list(getattr(new, what))
        if one != other:
            return f"{what}: {one} stored, {other} fresh"
    here, there = (
        "\n".join(line for line in table.comments if numbers or "thinned: " not in line)
        for table in (old, new)
    )
    if found := text_difference(here, there):
        return f"comments: {found}"
    if not numbers:
        return None
    for name, axis in old.axes.items():
        wider = new.axes[name]
        ends = zip(axis[1:], wider[1:], strict=True)
        if any(_apart(*pair, axis) or _apart(*pair, wider) for pair in ends):
            return f"axis {name}: {axis} stored, {wider} fresh"
    for series in old.series:
        if found := _series_difference(old, new, series):
            return f"{', '.join(series)}, {found}"
    return None
