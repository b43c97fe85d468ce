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
#: Data of figures agree to this part of the range of their column, which nobody sees, or of its
#: largest number, where digits end.
VISIBLE, WRITTEN = 1e-3, 2e-4
#: Positive numbers that differ by this factor are compared by their logarithms.
DECADES = 100
#: Of words in the table of a figure (which regime a cell of a map lies in) so large a part may
#: differ: a cell at a border may fall to either side.
BORDER = 0.01
IMAGES = ("image/png", "image/jpeg")

# A number that is not part of a word or of an identifier such as fig-2, W2 or hy-theorem-4-1;
# noise is printed as <10⁻¹², in HTML escaped; powers of ten are read as 1e-12.
NUMBER = re.compile(
    r"(?<![\w.])(?<!\w-)(?:(?:<|&lt;)\d(?:\.\d+)?e[+-]?\d+"
    r"|[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?!\w)"
)
POWER = re.compile(r"(?<![\d.])(?:(\d+(?:\.\d+)?)·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
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
    >>> split("<10⁻¹² and 1.3·10⁵")[1]
    ['<1e-12', '1.3e5']
    """
    text = POWER.sub(lambda m: f"{m[1] or 1}e{m[2].translate(PLAIN)}", text)
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


def _table(text: str) -> tuple[str, dict[tuple, list[dict[str, str]]]]:
    """The table of a figure: its comments, and its rows by frame (if there are any) and series."""
    lines = text.splitlines()
    rows: dict[tuple, list[dict[str, str]]] = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        rows.setdefault((row.get("frame", ""), row["series"]), []).append(row)
    # the line that says where a stored table comes from is no part of the figure
    notes = [line for line in lines if line[:1] == "#" and not line.startswith("# figure: ")]
    return "\n".join(notes), rows


def _numbers(column: list[str]) -> list[float] | None:
    """A column as numbers, or ``None`` if it holds words."""
    try:
        return [float(cell or "nan") for cell in column]
    except ValueError:
        return None


def _column_difference(stored: list[str], fresh: list[str]) -> str | None:
    """What differs between two columns of a series, or ``None``."""
    if [not cell for cell in stored] != [not cell for cell in fresh]:
        return "a cell is empty"
    old, new = _numbers(stored), _numbers(fresh)
    if old is None or new is None:
        words = [pair for pair in zip(stored, fresh, strict=True) if pair[0] != pair[1]]
        few = len(words) <= BORDER * len(stored)
        return None if few else "{!r} stored, {!r} fresh".format(*words[-1])
    known = [x for x in old if not math.isnan(x)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    log = 0 < low * DECADES < high
    visible = VISIBLE * (math.log(high / low) if log else high - low)
    small = NOISE if log else max(NOISE, WRITTEN * max(abs(low), abs(high)))
    for x, y in zip(old, new, strict=True):
        same = max(abs(x), abs(y)) <= NOISE or abs(x - y) <= small or math.isnan(x)
        if log and y > 0:
            same = same or abs(math.log(x / y)) <= visible
        elif not log:
            same = same or abs(x - y) <= visible
        if not same:
            return f"{x:g} stored, {y:g} fresh"
    return None


def table_difference(stored: str, fresh: str, *, numbers: bool = True) -> str | None:
    """What differs between the data of two figures, or ``None``.

    Labels, the names of the series and the columns have to be the same. With ``numbers`` (which is
    right unless a figure shows what rounding can change), so have the numbers of rows, and no
    number may differ visibly.
    """
    (notes, old), (new_notes, new) = _table(stored), _table(fresh)
    if not numbers:
        notes, new_notes = (
            "\n".join(line for line in text.splitlines() if "thinned: " not in line)
            for text in (notes, new_notes)
        )
    if found := text_difference(notes, new_notes):
        return f"comments: {found}"
    names, new_names = ([", ".join(filter(None, key)) for key in table] for table in (old, new))
    if found := text_difference("\n".join(names), "\n".join(new_names)):
        return f"series: {found}"
    for name, before, after in zip(names, old.values(), new.values(), strict=True):
        if list(before[0]) != list(after[0]):
            return f"columns: {list(before[0])} stored, {list(after[0])} fresh"
        if numbers and len(before) != len(after):
            return f"{name}: {len(before)} rows stored, {len(after)} fresh"
        for column in before[0].keys() - {"frame", "series"} if numbers else ():
            cells = ([row[column] for row in rows] for rows in (before, after))
            if found := _column_difference(*cells):
                return f"{name}, {column}: {found}"
    return None
