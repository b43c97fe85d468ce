"""How many digits of a number a page shows."""

from __future__ import annotations

import math
import numbers
from typing import Self

#: Below this size a number is rounding noise and is printed as ``<10⁻¹²``.
NOISE = 1e-12

#: Digits of a number, and of a ratio of two.
DIGITS, RATIO_DIGITS = 4, 3
#: Powers of ten from which numbers are no longer written out.
LARGE = 5
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Shown(float):
    """A number of which a page shows less than four digits, or only a bound.

    It computes as the number that it is. Made by :func:`below`, :func:`above` and :func:`coarse`.
    """

    sign: str
    shown: float
    digits: int

    def __new__(cls, value: float, sign: str, shown: float, digits: int) -> Self:
        x = super().__new__(cls, value)
        x.sign, x.shown, x.digits = sign, shown, digits
        return x


def below(value: float, limit: float) -> float:
    """Return ``value``; pages show it as ``≤ limit``, as long as that is true.

    For rounding errors, errors of solvers, and what a search found that wants to go down: their
    digits differ from machine to machine, the bound does not.
    """
    x = plain(value)
    return Shown(x, "≤", limit, DIGITS) if x <= limit else x


def above(value: float, limit: float) -> float:
    """Return ``value``; pages show it as ``≥ limit``, as long as that is true.

    For what a search found that wants to go up: more effort, or another machine, finds a little
    more.
    """
    x = plain(value)
    return Shown(x, "≥", limit, DIGITS) if x >= limit else x


def coarse(value: float, digits: int) -> float:
    """Return ``value``; pages show it with fewer digits than others."""
    x = plain(value)
    return Shown(x, "", x, digits)


def plain(value):
    """NumPy's scalars as Python's; truth values as they are."""
    return value.item() if getattr(value, "shape", None) == () else value


def written(x: float, digits: int = DIGITS) -> str:
    """A number of so many digits: 0.0001 to 99,999 as it is, beyond with a power of ten.

    >>> [written(x, 3) for x in (0.00012345, 1312.0, 65536.0, 2e-12, 1e-08, 123456.0)]
    ['0.000123', '1310', '65500', '2·10⁻¹²', '10⁻⁸', '1.23·10⁵']
    """
    mantissa, _, power = f"{x:.{digits}g}".partition("e")
    if not power:
        return mantissa
    if 0 < int(power) < LARGE:
        return f"{float(f'{mantissa}e{power}'):.0f}"
    power = "10" + str(int(power)).translate(SUPERSCRIPTS)
    return {"1": "", "-1": "-"}.get(mantissa, f"{mantissa}·") + power


def number(value, digits: int = DIGITS) -> str:
    """Format one entry of a table: few digits, integers in full, rounding noise as ``<10⁻¹²``."""
    if isinstance(value, Shown):
        text = number(value.shown, min(digits, value.digits))
        return f"{value.sign} {text}" if value.sign else text
    value = plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral) or not isinstance(value, numbers.Real):
        return str(value)
    x = float(value)
    if x == 0:
        return "0"
    if abs(x) < NOISE:
        return f"<{written(NOISE)}"
    text = written(x, digits)
    # ".0" is a digit like others: 400 of three digits is not 400.0
    whole = text.lstrip("-").isdecimal() and len(text.lstrip("-")) < digits
    return f"{text}.0" if whole else text


def as_shown(x: float, digits: int = DIGITS) -> float:
    """The number that a reader of a page has."""
    if isinstance(x, Shown):
        return as_shown(x.shown, min(digits, x.digits))
    return float(f"{x:.{digits}g}") if math.isfinite(x) else x
