"""How many digits of a number a page shows."""

from __future__ import annotations

import math
import numbers
from typing import Self

from mfbook import _validate as validate

__all__ = [
    "above",
    "below",
    "coarse",
]

#: Below this size a number is rounding noise and is printed as ``<1e-12``.
NOISE = 1e-12

#: Digits of a number, and of a ratio of two.
DIGITS, RATIO_DIGITS = 4, 3


class Shown(float):
    """A number of which a page shows less than four digits, or only a bound.

    It computes as the number that it is. Made by :func:`below`, :func:`above` and :func:`coarse`.

    Attributes
    ----------
    sign : str
        ``"≤"`` or ``"≥"`` where a bound is shown, else empty.
    shown : float
        The number that is shown, or the bound.
    digits : int
        With how many digits.
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

    Parameters
    ----------
    value, limit : float
        The number and what it does not exceed.

    Returns
    -------
    float
        ``value``. Where it exceeds the limit, or is not a number, it is shown itself.

    Examples
    --------
    >>> from companion.report import table
    >>> table([{"error": below(3.1e-9, 1e-8)}, {"error": below(3.1e-7, 1e-8)}])
    error
    -------
    ≤ 1e-08
    3.1e-07
    """
    x, bound = as_float(value, "value"), validate.finite(limit, "limit")
    return Shown(x, "≤", bound, DIGITS) if x <= bound else x


def above(value: float, limit: float) -> float:
    """Return ``value``; pages show it as ``≥ limit``, as long as that is true.

    For what a search found that wants to go up: more effort, or another machine, finds a little
    more.

    Parameters
    ----------
    value, limit : float
        The number and what it is not less than.

    Returns
    -------
    float
        ``value``. Where it is less than the limit, or not a number, it is shown itself.

    Examples
    --------
    >>> from companion.report import table
    >>> table({"largest found": above(0.3054, 0.3)})
    largest found
    -------------
    ≥ 0.3
    """
    x, bound = as_float(value, "value"), validate.finite(limit, "limit")
    return Shown(x, "≥", bound, DIGITS) if x >= bound else x


def coarse(value: float, digits: int) -> float:
    """Return ``value``; pages show it with fewer digits than others.

    Parameters
    ----------
    value : float
        The number.
    digits : int
        How many digits another machine leaves as they are, at least 1 and at most 4.

    Returns
    -------
    float
        ``value``.

    Examples
    --------
    >>> from companion.report import table
    >>> table({"drift": coarse(0.04193, 2)})
    drift
    -----
    0.042
    """
    x, n = as_float(value, "value"), validate.count(digits, "digits")
    if n > DIGITS:
        raise ValueError(f"digits: expected at most {DIGITS}, got {digits}")
    return Shown(x, "", x, n)


def as_float(value, name: str) -> float:
    """A number, NaN and infinity and truth values included."""
    value = value.item() if getattr(value, "shape", None) == () else value  # numpy scalars
    if isinstance(value, Shown):
        return value
    return float(value) if isinstance(value, bool) else validate.real(value, name)


def number(value, digits: int = DIGITS) -> str:
    """Format one entry of a table: few digits, integers in full, rounding noise as ``<1e-12``.

    Examples
    --------
    >>> number(0.49812345), number(3), number(2.2e-16), number(0.0), number("any")
    ('0.4981', '3', '<1e-12', '0', 'any')
    >>> number(123456.7), number(1.25e-7), number(-4.0), number(1234.56)
    ('1.235e+05', '1.25e-07', '-4.0', '1235')
    >>> number(below(2e-9, 1e-8)), number(above(0.31, 0.3)), number(coarse(0.1234, 2))
    ('≤ 1e-08', '≥ 0.3', '0.12')
    """
    if isinstance(value, Shown):
        text = number(value.shown, min(digits, value.digits))
        return f"{value.sign} {text}" if value.sign else text
    value = value.item() if getattr(value, "shape", None) == () else value  # numpy scalars
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral) or not isinstance(value, numbers.Real):
        return str(value)
    x = float(value)
    if x == 0:
        return "0"
    if abs(x) < NOISE:
        return f"<{NOISE:.0e}"
    text = f"{x:.{digits}g}"
    # ".0" is a digit like others: 400 of three digits is not 400.0
    return text if any(c in text for c in ".en") or len(text.lstrip("-")) >= digits else text + ".0"


def as_shown(x: float, digits: int = DIGITS) -> float:
    """The number that a reader of a page has."""
    if isinstance(x, Shown):
        return as_shown(x.shown, min(digits, x.digits))
    return float(f"{x:.{digits}g}") if math.isfinite(x) else x
