"""The list, on the page on trust, of mistakes that the unit tests are seen to notice."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

TESTS = Path(__file__).resolve().parents[2] / "tests" / "oracles"
sys.path.insert(0, str(TESTS))

from wrong_mathematics import WRONG  # noqa: E402


class MistakesByHand(SphinxDirective):
    """The mistakes in the mathematics that the unit tests are seen to notice."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(TESTS / "wrong_mathematics.py"))
        result = nodes.bullet_list()
        for wrong in WRONG:
            result += nodes.list_item("", nodes.paragraph(text=wrong.what))
        return [result]


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("mistakes-by-hand", MistakesByHand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
