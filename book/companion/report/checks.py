"""Checks: rows that put a bound beside a measurement, and a verdict.

A :class:`Check` knows the statement it belongs to, the rows that were compared and the verdict; it
shows itself as text, as an HTML table and as data, so that a reader, a notebook test and the
statement index all read the same numbers.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from companion.report.digits import (
    DIGITS,
    NOISE,
    RATIO_DIGITS,
    Shown,
    as_shown,
    number,
    plain,
    written,
)
from companion.report.tables import grid, show

#: How a relation is written.
SIGNS = {"<=": "≤", ">=": "≥", "=": "="}
#: The other side of a bound.
TURNED = {"": "", "≤": "≥", "≥": "≤"}


@dataclass(frozen=True)
class Row:
    """One comparison: a measured number against the number that a statement gives.

    ``tolerance`` is absolute. What is shown has to support the verdict: that a number is at least
    0.3 does not say that it is at most 0.7.
    """

    what: str
    measured: float
    relation: Literal["<=", ">=", "="]
    reference: float
    tolerance: float = 0.0

    def __post_init__(self):
        for name in ("measured", "reference", "tolerance"):
            value = plain(getattr(self, name))
            object.__setattr__(self, name, float(value) if isinstance(value, bool) else value)
        if self.relation == "=":
            return
        given = SIGNS[self.relation]
        # a measured number may be shown as a bound from this side, its reference from the other
        for name, wrong in (("measured", TURNED[given]), ("reference", given)):
            if getattr(value := getattr(self, name), "sign", "") == wrong:
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
        excess = {"<=": excess, ">=": -excess, "=": abs(excess)}[self.relation]
        return excess <= self.tolerance

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
        # a row refuses two bounds that pull the ratio apart
        sign = getattr(top, "sign", "") or TURNED[getattr(bottom, "sign", "")]
        digits = min(RATIO_DIGITS, *(getattr(x, "digits", RATIO_DIGITS) for x in (top, bottom)))
        value = above / under
        return Shown(value, sign, value, digits) if sign or digits < RATIO_DIGITS else value


def at_most(what: str, measured: float, bound: float, tolerance: float = 0.0) -> Row:
    """Row stating that ``measured <= bound`` (up to an absolute ``tolerance``)."""
    return Row(what, measured, "<=", bound, tolerance)


def at_least(what: str, measured: float, bound: float, tolerance: float = 0.0) -> Row:
    """Row stating that ``measured >= bound`` (up to an absolute ``tolerance``)."""
    return Row(what, measured, ">=", bound, tolerance)


def equal(what: str, measured: float, expected: float, tolerance: float) -> Row:
    """Row stating that ``|measured - expected| <= tolerance``."""
    return Row(what, measured, "=", expected, tolerance)


@dataclass(frozen=True)
class Check:
    """The outcome of a statement's check: its own rows, controls of ours, verdict and room."""

    statement: str
    own: tuple[Row, ...]
    note: str = ""
    controls: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The statement's rows, then the controls."""
        return self.own + self.controls

    @property
    def holds(self) -> bool:
        """Whether every row holds."""
        return all(row.holds for row in self.rows)

    @property
    def ratio(self) -> float | None:
        """The room of the statement: the smallest ratio of bound to measurement of its own rows."""
        return min((row.ratio for row in self.own if row.ratio is not None), default=None)

    @property
    def reason(self) -> str:
        """Which rows fail, and how: the message of the ``assert`` that ends a cell; empty if none.

        ``hy-lemma-2-1: 1 of 2 rows fails: slope: 0.7, stated <= 0.5``
        """
        failing = [
            f"{row.what}: {written(row.measured)}, stated {row.relation} {written(row.reference)}"
            for row in self.rows
            if not row.holds
        ]
        if not failing:
            return ""
        verb = "fails" if len(failing) == 1 else "fail"
        count = f"{len(failing)} of {len(self.rows)} rows {verb}"
        return f"{self.statement}: {count}: {'; '.join(failing)}"

    @property
    def verdict(self) -> str:
        """``holds`` or ``fails``, followed by the note of the check."""
        word = "holds" if self.holds else "fails"
        return f"{word}; {self.note}" if self.note else word

    def as_dict(self) -> dict:
        """The check as plain data, with the digits that are shown (the index reads it)."""

        def digits(x, most=DIGITS):  # JSON has no word for NaN or infinity
            if x is None or not math.isfinite(x):
                return None
            shown = as_shown(x, most)
            return shown if abs(shown) >= NOISE else 0.0

        return {
            "statement": self.statement,
            "holds": self.holds,
            "verdict": self.verdict,
            "ratio": digits(self.ratio, RATIO_DIGITS),
            "rows": [
                {
                    "what": row.what,
                    "measured": digits(row.measured),
                    "relation": row.relation,
                    "reference": digits(row.reference),
                    "tolerance": digits(row.tolerance),
                    "holds": row.holds,
                    "ratio": digits(row.ratio, RATIO_DIGITS) if place < len(self.own) else None,
                    "control": place >= len(self.own),
                }
                for place, row in enumerate(self.rows)
            ],
        }

    def show(self) -> None:
        """Display the rows and the verdict."""
        lines = []
        for place, row in enumerate(self.rows):
            room = f" ± {number(row.tolerance)}" if row.tolerance else ""
            control = row.ratio is None or place >= len(self.own)
            ratio = "" if control else number(row.ratio, RATIO_DIGITS)
            sides = number(row.measured), SIGNS[row.relation], number(row.reference) + room
            lines.append([row.what, *sides, ratio, "yes" if row.holds else "NO"])
        text, body = grid(["quantity", "measured", "", "stated", "ratio", "holds"], lines)
        foot = f"{self.statement}: {self.verdict}"
        show(
            f"{text}\n{foot}",
            f'<table class="mf-check">{body}'
            f'<tfoot><tr><td colspan="6">{html.escape(foot)}</td></tr></tfoot></table>',
            self.as_dict(),
        )


def check(statement: str, *rows: Row, note: str = "", controls: Iterable[Row] = ()) -> Check:
    """Compare, show the comparison, and return it for the ``assert`` that ends the cell.

    ``rows`` are the statement's own; ``controls``, with thresholds of ours, have no ratio.
    """
    if not rows:
        raise ValueError(f"rows: check {statement!r} compares nothing")
    result = Check(statement, rows, note, tuple(controls))
    result.show()
    return result
