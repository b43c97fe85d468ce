"""What a chapter prints: small tables, and checks that put a bound beside a measurement.

Nothing here computes mathematics. A :class:`Check` knows the statement it belongs to, the rows
that were compared and the verdict; it shows itself as text, as an HTML table and as data, so that
a reader, a notebook test and the statement index all read the same numbers.
"""

from __future__ import annotations

import html
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from . import _validate as validate

__all__ = [
    "Check", "Row", "above", "at_least", "at_most", "below", "check", "coarse", "equal", "show",
    "table",
]  # fmt: skip

#: Below this size a number is rounding noise and is printed as ``<1e-12``.
NOISE = 1e-12

MIME = "application/vnd.mfbook.check+json"


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
    >>> table([{"error": below(3.1e-9, 1e-8)}, {"error": below(3.1e-7, 1e-8)}])
    error
    -------
    ≤ 1e-08
    3.1e-07
    """
    x, bound = _float(value, "value"), validate.finite(limit, "limit")
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
    >>> table({"largest found": above(0.3054, 0.3)})
    largest found
    -------------
    ≥ 0.3
    """
    x, bound = _float(value, "value"), validate.finite(limit, "limit")
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
    >>> table({"drift": coarse(0.04193, 2)})
    drift
    -----
    0.042
    """
    x, n = _float(value, "value"), validate.count(digits, "digits")
    if n > DIGITS:
        raise ValueError(f"digits: expected at most {DIGITS}, got {digits}")
    return Shown(x, "", x, n)


def _float(value, name: str) -> float:
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


def _as_shown(x: float, digits: int = DIGITS) -> float:
    """The number that a reader of a page has."""
    if isinstance(x, Shown):
        return _as_shown(x.shown, min(digits, x.digits))
    return float(f"{x:.{digits}g}") if math.isfinite(x) else x


def _grid(header, rows) -> tuple[str, str]:
    """Lay the strings out as text and as an HTML table."""
    widths = [max(len(line[j]) for line in [header, *rows]) for j in range(len(header))]
    text = "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in [header, ["-" * w for w in widths], *rows]
    )
    head = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows
    )
    return text, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"


def show(text: str, markup: str, data: Mapping | None = None) -> None:
    """Display one output in every form at once (text in a terminal, HTML on a page).

    Parameters
    ----------
    text, markup : str
        The output as text and as HTML.
    data : mapping, optional
        The output as data.

    Examples
    --------
    >>> show("two words", "<b>two words</b>")
    two words
    """
    validate.instance(text, "text", str)
    validate.instance(markup, "markup", str)
    if data is not None:
        validate.instance(data, "data", Mapping)
    try:
        from IPython import get_ipython
    except ImportError:
        get_ipython = lambda: None  # noqa: E731
    if get_ipython() is None:
        print(text)
        return
    from IPython.display import display

    bundle: dict[str, object] = {"text/plain": text, "text/html": markup}
    if data is not None:
        bundle[MIME] = dict(data)
    display(bundle, raw=True)


def table(rows: Mapping | Sequence[Mapping], caption: str = "") -> None:
    """Print a small table.

    Parameters
    ----------
    rows : mapping, or sequence of mappings
        One mapping is one row; the keys are the column names and must agree between rows.
    caption : str, optional
        A line above the table.

    Raises
    ------
    TypeError, ValueError
        If there is no row, a row is not a mapping or the rows have different columns.

    Examples
    --------
    >>> table([{"M": 4, "gap": 0.25}, {"M": 16, "gap": 0.0625}])
    M   gap
    --  ------
    4   0.25
    16  0.0625
    """
    validate.instance(caption, "caption", str)
    rows = [rows] if isinstance(rows, Mapping) else validate.items(rows, "rows")
    if not rows:
        raise ValueError("rows: expected at least one row, got none")
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"rows[{i}]: expected a mapping, got {row!r}")
        if list(row) != list(rows[0]):
            raise ValueError(f"rows[{i}]: expected columns {list(rows[0])}, got {list(row)}")
    header = [str(key) for key in rows[0]]
    text, body = _grid(header, [[number(v) for v in row.values()] for row in rows])
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    text = f"{caption}\n{text}" if caption else text
    show(text, f'<table class="mf-table">{title}{body}</table>')


@dataclass(frozen=True)
class Row:
    """One comparison: a measured number against the number that a statement gives.

    ``relation`` is ``"<="``, ``">="`` or ``"="``; ``tolerance`` is absolute. What is shown has to
    support the verdict: that a number is at least 0.3 does not say that it is at most 0.7.

    Attributes
    ----------
    what : str
        What is compared.
    measured, reference : float
        The two sides.
    relation : str
        ``"<="``, ``">="`` or ``"="``.
    tolerance : float
        Absolute.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, the relation is another word, or a side is shown as a
        bound that does not support the relation.
    """

    what: str
    measured: float
    relation: Literal["<=", ">=", "="]
    reference: float
    tolerance: float = 0.0

    def __post_init__(self):
        validate.instance(self.what, "what", str)
        if not isinstance(self.relation, str) or self.relation not in ("<=", ">=", "="):
            raise ValueError(f"relation: expected '<=', '>=' or '=', got {self.relation!r}")
        numbers = {
            "measured": _float(self.measured, "measured"),
            "reference": _float(self.reference, "reference"),
            "tolerance": _float(self.tolerance, "tolerance"),
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)
        # the sign with which a bound says nothing, for each side
        idle = {"<=": ("≥", "≤"), ">=": ("≤", "≥")}.get(self.relation, ("", ""))
        for name, sign in zip(("measured", "reference"), idle, strict=True):
            if sign and getattr(value := numbers[name], "sign", "") == sign:
                raise ValueError(
                    f"{name}: {self.what!r} shows {number(value)!r}, which does not support "
                    f"{self.relation!r}; show the other bound, or coarse(...)"
                )

    @property
    def holds(self) -> bool:
        """Whether the comparison is true. A number that is not finite never passes."""
        if not all(map(math.isfinite, (self.measured, self.reference, self.tolerance))):
            return False
        excess = self.measured - self.reference
        if self.relation == "<=":
            return excess <= self.tolerance
        if self.relation == ">=":
            return -excess <= self.tolerance
        return abs(excess) <= self.tolerance

    @property
    def ratio(self) -> float | None:
        """Bound over measurement for an upper bound, measurement over bound for a lower one.

        It is at least 1 when the statement holds, and says how much room the bound leaves. It is
        shown with no more digits than its two numbers, and as a bound where one of them is. It is
        ``None`` for equalities and where the denominator is rounding noise.
        """
        if self.relation == "=":
            return None
        top, bottom = self.reference, self.measured
        if self.relation == ">=":
            top, bottom = bottom, top
        above, under = (getattr(x, "shown", x) for x in (top, bottom))
        # below 1e-9 the denominator depends on the processor's order of summation
        if not (under > 1e-9 and 0 <= above < math.inf):
            return None
        turned = {"": "", "≤": "≥", "≥": "≤"}
        # a row refuses two bounds that pull the ratio apart
        sign = getattr(top, "sign", "") or turned[getattr(bottom, "sign", "")]
        least = min(getattr(top, "digits", RATIO_DIGITS), getattr(bottom, "digits", RATIO_DIGITS))
        value = above / under
        return Shown(value, sign, value, min(least, RATIO_DIGITS)) if sign or least < 3 else value


def at_most(what: str, measured: float, bound: float, tolerance: float = 0.0) -> Row:
    """Row stating that ``measured <= bound`` (up to an absolute ``tolerance``).

    Parameters
    ----------
    what : str
        What is compared.
    measured, bound : float
        The two sides.
    tolerance : float
        Absolute.

    Returns
    -------
    Row
        For :func:`check`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, or ``measured`` is shown as a bound from the wrong side,
        by :func:`above`: the row would not show why it holds.

    Examples
    --------
    >>> at_most("eigenvalue", 0.498, 0.5).ratio
    1.0040160642570282
    """
    return Row(what, measured, "<=", _float(bound, "bound"), tolerance)


def at_least(what: str, measured: float, bound: float, tolerance: float = 0.0) -> Row:
    """Row stating that ``measured >= bound`` (up to an absolute ``tolerance``).

    Parameters
    ----------
    what : str
        What is compared.
    measured, bound : float
        The two sides.
    tolerance : float
        Absolute.

    Returns
    -------
    Row
        For :func:`check`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, or ``measured`` is shown as a bound from the wrong side,
        by :func:`below`: the row would not show why it holds.

    Examples
    --------
    >>> at_least("eigenvalue", -1e-17, 0.0).holds, at_least("gap", 0.1, 0.0).holds
    (False, True)
    """
    return Row(what, measured, ">=", _float(bound, "bound"), tolerance)


def equal(what: str, measured: float, expected: float, tolerance: float) -> Row:
    """Row stating that ``|measured - expected| <= tolerance``.

    Parameters
    ----------
    what : str
        What is compared.
    measured, expected : float
        The two sides.
    tolerance : float
        Absolute.

    Returns
    -------
    Row
        For :func:`check`.

    Examples
    --------
    >>> equal("slope", 1.003, 1.0, tolerance=0.01).holds
    True
    """
    return Row(what, measured, "=", _float(expected, "expected"), tolerance)


@dataclass(frozen=True)
class Check:
    """The outcome of a statement's check: its rows, the verdict and the tightest ratio.

    Attributes
    ----------
    statement : str
        Its identifier in the index of statements.
    rows : tuple of Row
        The comparisons.
    note : str
        What is said after the verdict.

    Examples
    --------
    >>> result = Check("hy-lemma-2-1", (at_most("slope", 0.2, 0.5),))
    >>> result.holds, result.verdict, result.ratio, result.as_dict()["holds"]
    (True, 'holds', 2.5, True)
    >>> result.show()
    quantity  measured     stated  ratio  holds
    --------  --------  -  ------  -----  -----
    slope     0.2       ≤  0.5     2.5    yes
    hy-lemma-2-1: holds
    """

    statement: str
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether every row holds."""
        return all(row.holds for row in self.rows)

    @property
    def ratio(self) -> float | None:
        """The smallest ratio of the rows that have one: how tight the statement is here."""
        ratios = [row.ratio for row in self.rows if row.ratio is not None]
        return min(ratios, default=None)

    @property
    def verdict(self) -> str:
        """``holds`` or ``fails``, followed by the note of the check."""
        word = "holds" if self.holds else "fails"
        return f"{word}; {self.note}" if self.note else word

    def as_dict(self) -> dict:
        """The check as plain data, with the digits that are shown (the index reads it)."""

        def plain(x, digits=DIGITS):  # JSON has no word for NaN or infinity
            if x is None or not math.isfinite(x):
                return None
            shown = _as_shown(x, digits)
            return shown if abs(shown) >= NOISE else 0.0

        return {
            "statement": self.statement,
            "holds": self.holds,
            "verdict": self.verdict,
            "ratio": plain(self.ratio, RATIO_DIGITS),
            "rows": [
                {
                    "what": row.what,
                    "measured": plain(row.measured),
                    "relation": row.relation,
                    "reference": plain(row.reference),
                    "tolerance": plain(row.tolerance),
                    "holds": row.holds,
                }
                for row in self.rows
            ],
        }

    def show(self) -> None:
        """Display the rows and the verdict."""
        sign = {"<=": "≤", ">=": "≥", "=": "="}
        lines = []
        for row in self.rows:
            reference = number(row.reference)
            if row.tolerance:
                reference += f" ± {number(row.tolerance)}"
            ratio = "" if row.ratio is None else number(row.ratio, RATIO_DIGITS)
            lines.append(
                [
                    row.what,
                    number(row.measured),
                    sign[row.relation],
                    reference,
                    ratio,
                    "yes" if row.holds else "NO",
                ]
            )
        text, body = _grid(["quantity", "measured", "", "stated", "ratio", "holds"], lines)
        foot = f"{self.statement}: {self.verdict}"
        show(
            f"{text}\n{foot}",
            f'<table class="mf-check">{body}'
            f'<tfoot><tr><td colspan="6">{html.escape(foot)}</td></tr></tfoot></table>',
            self.as_dict(),
        )


def check(statement: str, *rows: Row, note: str = "") -> Check:
    """Compare, show the comparison, and return it for the ``assert`` that ends the cell.

    Parameters
    ----------
    statement : str
        Identifier of the statement, for example ``"hy-theorem-4-1"``.
    *rows : Row
        Made by :func:`at_most`, :func:`at_least` and :func:`equal`; at least one.
    note : str, optional
        What the reader should know of the verdict, for example ``"sharpened: 1/2 for 1"``.

    Returns
    -------
    Check
        With ``.holds``, ``.ratio`` and ``.verdict``.

    Raises
    ------
    TypeError, ValueError
        If there is no row (a check that compares nothing is not a check), or one is not a Row.

    Examples
    --------
    >>> result = check("hy-lemma-2-1", at_most("eigenvalue of J", 0.498, 0.5))
    quantity         measured     stated  ratio  holds
    ---------------  --------  -  ------  -----  -----
    eigenvalue of J  0.498     ≤  0.5     1.0    yes
    hy-lemma-2-1: holds
    >>> result.holds
    True
    """
    validate.instance(statement, "statement", str)
    validate.instance(note, "note", str)
    if not rows:
        raise ValueError(f"rows: check {statement!r} compares nothing")
    for row in rows:
        if not isinstance(row, Row):
            raise TypeError(f"rows: expected at_most, at_least or equal, got {row!r}")
    result = Check(statement, tuple(rows), note)
    result.show()
    return result
