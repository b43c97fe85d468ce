"""What a chapter prints: small tables, and checks that put a bound beside a measurement.

Nothing here computes mathematics.
"""

from mfbook.book.report.checks import Check, Row, at_least, at_most, check, equal
from mfbook.book.report.digits import above, below, coarse
from mfbook.book.report.tables import show, table

__all__ = [
    "Check",
    "Row",
    "above",
    "at_least",
    "at_most",
    "below",
    "check",
    "coarse",
    "equal",
    "show",
    "table",
]
