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

#: Below this a number is rounding: it may have any value, for sums are ordered differently on
#: different processors. That it is small is what the checks of the cells assert.
NOISE = 1e-9

#: Data of figures agree to this part of an axis: a page shows fewer points along it.
VISIBLE = 1e-3

#: Of words in the table of a figure (which regime a cell of a map lies in) so large a part may
#: differ: a cell at a border may fall to either side.
BORDER = 0.01

IMAGES = ("image/png", "image/jpeg")

# A number that is not part of a word or of an identifier such as fig-2, W2 or hy-theorem-4-1.
# The alternatives: noise (<1e-12, also escaped in HTML), then signed decimal or integer literals.
NUMBER = re.compile(
    r"""(?<![\w.])(?<!\w-)
        (?:(?P<noise>(?:<|&lt;)\d(?:\.\d+)?e[+-]?\d+)
          |(?P<number>[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?))
        (?![\w])""",
    re.VERBOSE,
)
DATA_URI = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/=\s]+")
#: What live figures compute with is rounded to six decimals at the most: one of them may differ.
LIVE = 2e-6
#: What a live figure computes with (mfbook.book.plots.explore).
PARAMETERS = re.compile(r'data-parameters="([^"]*)"')
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
#: Width and height of a picture: as it is printed, and as its element has them.
SIZE = re.compile(r'Picture\((\d+) x (\d+) pixels\)|width="(\d+)" height="(\d+)"')


def split(text: str) -> tuple[str, list[str]]:
    """Separate the words of an output from its numbers.

    Runs of spaces and of rules are shortened to one: the width of a column of a table follows the
    width of its numbers.

    Examples
    --------
    >>> split("M     gap\\n----  -----\\n1024  0.25")
    ('M gap\\n- -\\n# #', ['1024', '0.25'])
    """
    text = DATA_URI.sub("data:image", text)
    text = ADDRESS.sub("", text)
    numbers = [match.group() for match in NUMBER.finditer(text)]
    skeleton = NUMBER.sub("#", text)
    skeleton = re.sub(r"[ \t]+", " ", re.sub(r"-{2,}", "-", skeleton))
    return "\n".join(line.strip() for line in skeleton.strip().splitlines()), numbers


def _unit(literal: str) -> Decimal:
    """One unit in the last printed digit."""
    return Decimal(1).scaleb(Decimal(literal).as_tuple().exponent)


def _is_noise(literal: str, exact: bool) -> bool:
    if "<" in literal or "&lt;" in literal:
        return True
    return float(literal) == 0 if exact else abs(float(literal)) <= NOISE


def same_number(left: str, right: str, exact: bool = False) -> bool:
    """Whether two printed numbers agree.

    Integers agree when they are equal; other numbers when they differ by at most one unit of the
    last digit of the longer literal; noise agrees with noise. With ``exact`` no digit may differ,
    and noise is only what is printed as such, or 0.

    Examples
    --------
    >>> same_number("0.1234", "0.1235"), same_number("0.1234", "0.1244"), same_number("4", "5")
    (True, False, False)
    >>> same_number("0.4999", "0.5"), same_number("<1e-12", "0"), same_number("<1e-12", "0.1")
    (True, True, False)
    >>> same_number("0.1234", "0.1235", exact=True), same_number("<1e-12", "0", exact=True)
    (False, True)
    """
    if left == right:
        return True
    if _is_noise(left, exact) or _is_noise(right, exact):
        return _is_noise(left, exact) and _is_noise(right, exact)
    if exact:
        return False
    integer = re.compile(r"[+-]?\d+")
    if integer.fullmatch(left) and integer.fullmatch(right):
        return int(left) == int(right)
    unit = min(_unit(left), _unit(right))
    return abs(Decimal(left) - Decimal(right)) <= unit


def _sizes(text: str) -> list[int]:
    """Widths and heights of the pictures in a text."""
    return [int(side) for found in SIZE.findall(text) for side in found if side]


def text_difference(stored: str, fresh: str, exact: bool = False) -> str | None:
    """What differs between two printed texts, or ``None``."""
    sizes, new_sizes = _sizes(stored), _sizes(fresh)
    if len(sizes) == len(new_sizes):  # otherwise the words differ, too
        for left, right in zip(sizes, new_sizes, strict=True):
            if abs(left - right) > 1:
                return f"a side of a picture: stored {left}, fresh {right} pixels"
        stored, fresh = SIZE.sub("Picture", stored), SIZE.sub("Picture", fresh)
    words, numbers = split(stored)
    new_words, new_numbers = split(fresh)
    if words != new_words:
        return f"the text differs:\n--- stored\n{stored}\n--- fresh\n{fresh}"
    for left, right in zip(numbers, new_numbers, strict=True):
        if not same_number(left, right, exact):
            return f"stored {left}, fresh {right}, in\n{fresh}"
    return None


def data_difference(stored, fresh, where: str = "data", exact: bool = False) -> str | None:
    """What differs between two JSON values, or ``None``; numbers agree as printed ones do."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        if stored.keys() != fresh.keys():
            return f"{where}: keys {sorted(stored)} stored, {sorted(fresh)} fresh"
        parts = ((stored[key], fresh[key], f"{where}.{key}") for key in stored)
    elif isinstance(stored, list) and isinstance(fresh, list):
        if len(stored) != len(fresh):
            return f"{where}: {len(stored)} entries stored, {len(fresh)} fresh"
        parts = (
            (left, right, f"{where}[{i}]")
            for i, (left, right) in enumerate(zip(stored, fresh, strict=True))
        )
    elif float in (type(stored), type(fresh)) and {type(stored), type(fresh)} <= {int, float}:
        finite = math.isfinite(stored) and math.isfinite(fresh)
        close = finite and same_number(_written(stored), _written(fresh), exact)
        return None if close else f"{where}: stored {stored!r}, fresh {fresh!r}"
    elif type(stored) is type(fresh) and stored == fresh:
        return None
    else:
        return f"{where}: stored {stored!r}, fresh {fresh!r}"
    return next((found for part in parts if (found := data_difference(*part, exact))), None)


def _written(x: float) -> str:
    """A number of a page's data; they hold what the page shows, so all its digits count."""
    return repr(float(x))


def _taken_out(text: str) -> tuple[str, list]:
    """A text without what the live figures in it compute with, and that."""
    given = [json.loads(html.unescape(found)) for found in PARAMETERS.findall(text)]
    return PARAMETERS.sub("data-parameters", text), given


def live_difference(stored, fresh, where: str, size: float = 1.0) -> str | None:
    """What differs in what a live figure computes with, by more than rounding, or ``None``.

    Nobody reads these numbers: they agree if they differ by at most ``LIVE`` of ``size``, the
    largest number beside them.

    Examples
    --------
    >>> live_difference({"at": [3.0, 1e-17]}, {"at": [3.0 + 1e-12, -2e-17]}, "level")
    >>> live_difference({"at": [3.0, 0.0]}, {"at": [3.0, 1e-4]}, "level")
    'level.at[1]: stored 0.0, fresh 0.0001'
    """
    number = {type(stored), type(fresh)} <= {int, float}
    if isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        size = max([size, *(abs(x) for x in stored if type(x) in (int, float))])
        parts = [(*pair, f"{where}[{i}]") for i, pair in enumerate(zip(stored, fresh, strict=True))]
    elif isinstance(stored, dict) and isinstance(fresh, dict) and stored.keys() == fresh.keys():
        parts = [(stored[key], fresh[key], f"{where}.{key}") for key in stored]
    elif stored == fresh or (number and abs(stored - fresh) <= LIVE * max(size, abs(stored))):
        return None
    else:
        return f"{where}: stored {stored!r}, fresh {fresh!r}"
    return next((found for part in parts if (found := live_difference(*part, size))), None)


def _joined(value) -> str:
    return value if isinstance(value, str) else "".join(value)


def _coalesce(outputs: list[dict]) -> list[dict]:
    """Merge consecutive pieces of one stream: where they are cut is chance."""
    merged: list[dict] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output["output_type"] == last.get("output_type") == "stream" and (
            output["name"] == last["name"]
        ):
            last["text"] = _joined(last["text"]) + _joined(output["text"])
        else:
            merged.append(dict(output))
    return merged


def output_difference(stored: dict, fresh: dict, exact: bool = False) -> str | None:
    """What differs between two outputs of a cell, or ``None``."""
    if stored["output_type"] != fresh["output_type"]:
        return f"a {stored['output_type']} is stored, a {fresh['output_type']} came"
    if stored["output_type"] == "stream":
        if stored["name"] != fresh["name"]:
            return f"{stored['name']} is stored, {fresh['name']} came"
        return text_difference(_joined(stored["text"]), _joined(fresh["text"]), exact)
    if stored["output_type"] == "error":
        return text_difference(
            f"{stored['ename']}: {stored['evalue']}", f"{fresh['ename']}: {fresh['evalue']}"
        )
    kinds, new_kinds = set(stored["data"]), set(fresh["data"])
    if kinds != new_kinds:
        return f"{sorted(kinds)} are stored, {sorted(new_kinds)} came"
    for kind in sorted(kinds.difference(IMAGES)):
        left, right = stored["data"][kind], fresh["data"][kind]
        if kind.endswith("json"):
            found = data_difference(left, right, exact=exact)
        else:
            (left, given), (right, new) = _taken_out(_joined(left)), _taken_out(_joined(right))
            found = text_difference(left, right, exact) or live_difference(given, new, "parameters")
        if found:
            return f"{kind}: {found}"
    return None


def difference(stored: list[dict], fresh: list[dict], *, exact: bool = False) -> str | None:
    """What differs between the stored and the fresh outputs of a cell, or ``None``.

    Parameters
    ----------
    stored, fresh : list of dict
        Outputs as notebooks hold them.
    exact : bool
        No printed digit may differ; otherwise the last may, by one.
    """
    stored, fresh = _coalesce(stored), _coalesce(fresh)
    if len(stored) != len(fresh):
        return f"{len(stored)} outputs are stored, {len(fresh)} came"
    for i, (left, right) in enumerate(zip(stored, fresh, strict=True)):
        found = output_difference(left, right, exact)
        if found:
            return f"output {i}: {found}"
    return None


# ----------------------------------------------------------------------- the data behind figures

# What tools/run_notebooks.py writes above a table is no part of the figure.
ORIGIN = "# figure: "
COMMENT = re.compile(r"# (?:frame (?P<frame>.*?), )?(?P<text>(?:panel \d+|title|thinned|not in).*)")
AXIS = re.compile(
    r"panel (?P<panel>\d+), (?P<name>\w+): .*; (?P<scale>[\w-]+); (?P<low>\S+) to (?P<high>\S+)"
)


class _Table:
    """The table of a figure, as mfbook.book.plots.data writes it."""

    def __init__(self, text: str):
        lines = [line for line in text.splitlines() if not line.startswith(ORIGIN)]
        comments = [line for line in lines if line.startswith("#")]
        self.columns, *rows = csv.reader(line for line in lines if not line.startswith("#"))
        self.framed = self.columns[0] == "frame"
        self.rows = [dict(zip(self.columns, row, strict=True)) for row in rows]
        frames = dict.fromkeys(row.get("frame") for row in self.rows)
        #: (frame, panel, series): rows, in their order
        self.series: dict[tuple, list[dict]] = {}
        for row in self.rows:
            self.series.setdefault((row.get("frame"), row["panel"], row["series"]), []).append(row)
        #: frame: its comments, also those of all frames; and (frame, panel, name): an axis
        self.comments: dict = {frame: [] for frame in frames}
        self.axes: dict[tuple, tuple[str, float, float]] = {}
        for line in comments:
            found = COMMENT.fullmatch(line)
            if found is None:
                continue
            for frame in frames if found["frame"] is None else [found["frame"]]:
                axis = AXIS.fullmatch(found["text"])
                said = found["text"][: axis.start("low")] if axis else found["text"]
                self.comments.setdefault(frame, []).append(said)
                if axis:
                    ends = float(axis["low"]), float(axis["high"])
                    self.axes[frame, axis["panel"], axis["name"]] = (axis["scale"], *ends)


def _place(value: float, axis: tuple[str, float, float]) -> float:
    """Where along an axis a value is shown, from 0 to 1; what is outside lies at an end."""
    scale, low, high = axis
    if scale == "log":
        value, low, high = (math.log10(v) if v > 0 else -math.inf for v in (value, low, high))
    if not high > low or not math.isfinite(high - low):
        return 0.0
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _axis_of(column: str, row: dict) -> str:
    """The axis along which a column is drawn."""
    if column in ("low", "high"):
        return "x" if not row.get("x") else "y"
    return column


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _series_difference(where: str, column: str, key: tuple, old: _Table, new: _Table) -> str | None:
    """What differs in one column of one series of two figures, or ``None``."""
    before, after = old.series[key], new.series[key]
    frame, panel, _ = key
    words = 0
    largest = max((abs(float(row[column])) for row in before
                   if row[column] and _is_float(row[column])), default=0.0)  # fmt: skip
    for number, (one, other) in enumerate(zip(before, after, strict=True), 1):
        a, b = one[column], other[column]
        if a == b:
            continue
        if not (a and b and _is_float(a) and _is_float(b)):
            words += 1
            if not (a and b) or words > BORDER * len(before):
                return f"{where}, row {number}: {column} is {a!r} stored, {b!r} fresh"
            continue
        axis = old.axes.get((frame, panel, _axis_of(column, one)), ("linear", 0.0, largest))
        if not abs(_place(float(a), axis) - _place(float(b), axis)) <= VISIBLE:
            return f"{where}, row {number}: {column} is {a} stored, {b} fresh"
    return None


def table_difference(stored: str, fresh: str, *, numbers: bool = True) -> str | None:
    """What differs between the data of two figures, or ``None``.

    Panels, their titles and labels, the names of the series and the columns have to be the same.
    With ``numbers`` (which is right unless a figure shows what rounding can change), so have the
    numbers of rows, and no point may lie elsewhere on its axes by more than ``VISIBLE`` of them.

    Parameters
    ----------
    stored, fresh : str
        Tables of ``Picture.data`` or ``Frames.data``; the line that says where a stored table
        comes from is not compared.
    """
    old, new = _Table(stored), _Table(fresh)
    if old.columns != new.columns:
        return f"columns {old.columns} stored, {new.columns} fresh"
    if list(old.series) != list(new.series):
        gone = [key for key in old.series if key not in new.series]
        come = [key for key in new.series if key not in old.series]
        return f"series stored and not fresh: {gone}; fresh and not stored: {come}"
    if old.comments.keys() != new.comments.keys() or old.axes.keys() != new.axes.keys():
        return "panels or frames differ"
    for frame, lines in old.comments.items():
        here, there = ([line for line in of if numbers or not line.startswith("thinned")]
                       for of in (lines, new.comments[frame]))  # fmt: skip
        found = text_difference("\n".join(here), "\n".join(there))
        if found:
            return f"comments: {found}"
    if not numbers:
        return None
    for key, (scale, *ends) in old.axes.items():
        for end, fresh_end in zip(ends, new.axes[key][1:], strict=True):
            axis = (scale, *ends)
            wider = (scale, *new.axes[key][1:])
            if max(abs(_place(fresh_end, axis) - _place(end, axis)),
                   abs(_place(fresh_end, wider) - _place(end, wider))) > VISIBLE:  # fmt: skip
                return f"axis {key}: {old.axes[key]} stored, {new.axes[key]} fresh"
    for key, rows in old.series.items():
        where = ", ".join(part for part in key if part)
        if len(rows) != len(new.series[key]):
            return f"{where}: {len(rows)} rows stored, {len(new.series[key])} fresh"
        for column in old.columns[old.columns.index("series") + 1 :]:
            found = _series_difference(where, column, key, old, new)
            if found:
                return found
    return None
