"""nbval with this book's comparison: nbval executes the cells, compare_outputs judges them."""

from functools import cache

import pytest

from tools.chapters import BOOK
from tools.compare_outputs import difference


@cache
def corpus_difference() -> str | None:
    """Why outputs computed from the text corpus cannot be compared here, or ``None``."""
    from mfbook.tasks import corpus_hash

    recorded = (BOOK / "corpus_hash.txt").read_text().strip()
    here = corpus_hash()
    if recorded == here:
        return None
    return f"the text that ships with this Python ({here}) is not the recorded one ({recorded})"


def compare_outputs(self, test, ref, skip_compare=None) -> bool:
    """Compare fresh outputs with stored ones; takes the place of nbval's method of this name."""
    if "corpus" in self.cell.metadata.get("tags", []) and (reason := corpus_difference()):
        pytest.skip(f"executed, not compared: {reason}")
    found = difference(ref, test)
    self.comparison_traceback = [found] if found else []
    return found is None


def install() -> None:
    """Put the comparison in place, if nbval is there."""
    try:
        from nbval.plugin import IPyNbCell
    except ImportError:
        return
    IPyNbCell.compare_outputs = compare_outputs
