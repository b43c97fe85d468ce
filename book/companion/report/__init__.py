"""What a chapter prints: small tables, and checks that put a bound beside a measurement.

Nothing here computes mathematics.
"""

from companion.report.checks import Check, Row, at_least, at_most, check, equal
from companion.report.digits import above, below, coarse, written
from companion.report.tables import show, table

__all__ = [
    "Check", "Row", "above", "at_least", "at_most", "below", "check", "coarse", "equal", "show",
    "table", "written",
]  # fmt: skip
