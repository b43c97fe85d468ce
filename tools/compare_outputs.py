"""Compare stored outputs of a notebook with fresh ones, digit by digit but no further.

Rounding differs between machines, so numbers agree when the digits that are printed agree up to
one unit in the last of them. Everything else has to be the same: the words, the integers, the
number and order of outputs, the pictures' number and descriptions. Pixels are not compared.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

#: Below this a number is rounding: it may have any value, for sums are ordered differently on
#: different processors. That it is small is what the checks of the cells assert.
NOISE = 1e-9

#: Data tolerances for JSON outputs, which carry full precision.
RELATIVE, ABSOLUTE = 1e-6, NOISE

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
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


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


def _is_noise(literal: str) -> bool:
    return "<" in literal or "&lt;" in literal or abs(float(literal)) <= NOISE


def same_number(left: str, right: str) -> bool:
    """Whether two printed numbers agree.

    Integers agree when they are equal; other numbers when they differ by at most one unit of the
    last digit of the longer literal; noise agrees with noise.

    Examples
    --------
    >>> same_number("0.1234", "0.1235"), same_number("0.1234", "0.1244"), same_number("4", "5")
    (True, False, False)
    >>> same_number("0.4999", "0.5"), same_number("<1e-12", "0"), same_number("<1e-12", "0.1")
    (True, True, False)
    """
    if left == right:
        return True
    if _is_noise(left) or _is_noise(right):
        return _is_noise(left) and _is_noise(right)
    integer = re.compile(r"[+-]?\d+")
    if integer.fullmatch(left) and integer.fullmatch(right):
        return int(left) == int(right)
    unit = min(_unit(left), _unit(right))
    return abs(Decimal(left) - Decimal(right)) <= unit


def text_difference(stored: str, fresh: str) -> str | None:
    """What differs between two printed texts, or ``None``."""
    words, numbers = split(stored)
    new_words, new_numbers = split(fresh)
    if words != new_words:
        return f"the text differs:\n--- stored\n{stored}\n--- fresh\n{fresh}"
    for left, right in zip(numbers, new_numbers, strict=True):
        if not same_number(left, right):
            return f"stored {left}, fresh {right}, in\n{fresh}"
    return None


def data_difference(stored, fresh, where: str = "data") -> str | None:
    """What differs between two JSON values, or ``None``."""
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
        close = math.isclose(stored, fresh, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        return None if close else f"{where}: stored {stored!r}, fresh {fresh!r}"
    elif type(stored) is type(fresh) and stored == fresh:
        return None
    else:
        return f"{where}: stored {stored!r}, fresh {fresh!r}"
    return next((found for part in parts if (found := data_difference(*part))), None)


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


def output_difference(stored: dict, fresh: dict) -> str | None:
    """What differs between two outputs of a cell, or ``None``."""
    if stored["output_type"] != fresh["output_type"]:
        return f"a {stored['output_type']} is stored, a {fresh['output_type']} came"
    if stored["output_type"] == "stream":
        if stored["name"] != fresh["name"]:
            return f"{stored['name']} is stored, {fresh['name']} came"
        return text_difference(_joined(stored["text"]), _joined(fresh["text"]))
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
            found = data_difference(left, right)
        else:
            found = text_difference(_joined(left), _joined(right))
        if found:
            return f"{kind}: {found}"
    return None


def difference(stored: list[dict], fresh: list[dict]) -> str | None:
    """What differs between the stored and the fresh outputs of a cell, or ``None``.

    Parameters
    ----------
    stored, fresh : list of dict
        Outputs as notebooks hold them.
    """
    stored, fresh = _coalesce(stored), _coalesce(fresh)
    if len(stored) != len(fresh):
        return f"{len(stored)} outputs are stored, {len(fresh)} came"
    for i, (left, right) in enumerate(zip(stored, fresh, strict=True)):
        found = output_difference(left, right)
        if found:
            return f"output {i}: {found}"
    return None
