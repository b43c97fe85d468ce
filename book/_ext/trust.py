"""Tables of the page on trust, from what the last full runs of the tests have found.

``tests/mutants.json`` is written by ``make mutants``, ``tests/survivors.txt`` is kept by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from docutils import nodes
from reading import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tools.mutate import survivors  # noqa: E402

TESTS = ROOT / "tests"
MUTANTS, SURVIVORS = TESTS / "mutants.json", TESTS / "survivors.txt"


class FoundMutants(SphinxDirective):
    """How many small changes of each module the unit tests notice."""

    COLUMNS = (("module", 46), ("changes", 18), ("noticed", 18), ("share", 18))

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(MUTANTS))
        scores = json.loads(MUTANTS.read_text())["scores"]
        total = [sum(column) for column in zip(*scores.values(), strict=True)]
        rows = [self.row(name, *scores[name]) for name in sorted(scores)]
        rows.append(self.row("all of them", *total))
        return [table(["mf-compact", "mf-numbers"], self.COLUMNS, rows)]

    @staticmethod
    def row(name, changes, noticed) -> list[list[nodes.Node]]:
        numbers = [changes, noticed, f"{100 * noticed / changes:.1f}\u00a0%"]
        name = nodes.literal(text=name.removeprefix("mfbook."))
        return [[name], *([nodes.Text(str(n))] for n in numbers)]


class MistakesByHand(SphinxDirective):
    """The mistakes in the mathematics that the unit tests are seen to notice."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(MUTANTS))
        names = json.loads(MUTANTS.read_text())["by hand"]
        result = nodes.bullet_list()
        for name in names:
            item = nodes.list_item()
            item += nodes.paragraph(text=name)
            result += item
        return [result]


class Survivors(SphinxDirective):
    """The changes that no unit test notices, each with its reason, by module."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(SURVIVORS))
        modules: dict[str, dict[tuple[str, str], list[str]]] = {}
        for place, change, reason in survivors(SURVIVORS.read_text()):
            module, function = place.split(":")
            modules.setdefault(module, {}).setdefault((change, reason), []).append(function)
        result: list[nodes.Node] = []
        for module, changes in modules.items():
            title = nodes.rubric(classes=["mf-survivors"])
            title += nodes.literal(text=module)
            result += [title, self.items(changes)]
        return result

    @staticmethod
    def items(changes: dict[tuple[str, str], list[str]]) -> nodes.bullet_list:
        result = nodes.bullet_list()
        for (change, reason), functions in changes.items():
            text = nodes.paragraph()
            for i, function in enumerate(functions):
                text += nodes.Text(", " if i else "")
                text += nodes.literal(text=function) if function else nodes.Text("at its top")
            text += nodes.Text(f": {change} ({reason})")
            result += nodes.list_item("", text)
        return result


def setup(app: Sphinx) -> dict:
    """Register the directives."""
    app.add_directive("found-mutants", FoundMutants)
    app.add_directive("mistakes-by-hand", MistakesByHand)
    app.add_directive("survivors", Survivors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
