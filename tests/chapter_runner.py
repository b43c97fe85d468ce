"""Run the cells of a chapter, once as they are and then with mistakes in some of them.

A test of a chapter makes one :class:`Book` of its cells. For a wrong program a plausible mistake
is made in one cell, or a name of the program is replaced; the cells that depend on it run again,
the last of them a check, and :meth:`Book.failed_rows` says which rows of the check failed.
"""

import contextlib
import io
from types import FunctionType

import pytest

from mfbook.flow import flow
from tools.chapters import text


def tags(cell):
    return cell["metadata"].get("tags", [])


def computing(notebook, also=()):
    """Sources of the cells that compute: all but drawings and exercises, and ``also`` these."""
    return {
        cell["id"]: text(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
        and ("hide-input" not in tags(cell) or cell["id"] in also)
        and not cell["id"].startswith("ex-")
    }


def checks(cells):
    return [name for name in cells if name.startswith("check-")]


def changed(sources, changes):
    """Sources with changes: (cell, what is written there, what should be)."""
    sources = dict(sources)
    for cell, old, new in changes:
        assert old in sources[cell], f"the cell {cell} does not contain {old!r}"
        sources[cell] = sources[cell].replace(old, new)
    return sources


def execute(source, cell, names):
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, cell, "exec"), names)


def flow_along(field):
    """A replaced name: the flow of the heads along another field, ``field(F, x, mu)``."""

    def gradient_flow(F, mu, times, xi=None, **options):
        return flow(
            lambda x, nu: -field(F, x, nu), mu, times, F.space, xi=xi, functional=F, **options
        )

    return lambda names: {"gradient_flow": gradient_flow}


class Book:
    """The right program: what is defined before each cell, and what each cell defines.

    ``smaller`` are changes that let the cells run in smaller portions, ``skip`` the cells that do
    not run.
    """

    def __init__(self, cells, smaller=(), skip=()):
        self.sources, self.checks = changed(cells, smaller), checks(cells)
        self.names, self.before, self.made, self.holds = {}, {}, {}, {}
        for cell in [name for name in cells if name not in skip]:
            self.before[cell] = dict(self.names)
            try:
                execute(self.sources[cell], cell, self.names)
            except AssertionError:
                if cell not in self.checks:
                    raise
            if cell in self.checks:
                self.holds[cell] = self.names["result"].holds
            old, nothing = self.before[cell], object()
            self.made[cell] = {
                name: value for name, value in self.names.items()
                if old.get(name, nothing) is not value
            }  # fmt: skip

    def put(self, known, names):
        """Put what is known into other names; functions of the cells look there from now on."""
        for name, value in known.items():
            if isinstance(value, FunctionType) and value.__globals__ is self.names:
                attributes = vars(value)
                value = FunctionType(
                    value.__code__, names, name, value.__defaults__, value.__closure__
                )
                vars(value).update(attributes)
            names[name] = value

    def failed_rows(self, cells, changes):
        """Run some cells again, the last of them a check, with changes; the rows that fail.

        A change is one of :func:`changed`, or a function of the names before the first cell that
        returns names to replace.
        """
        sources = changed(self.sources, [c for c in changes if not callable(c)])
        order, names = list(self.before), {}
        self.put(self.before[cells[0]], names)
        for replace in filter(callable, changes):
            names |= replace(names)
        for cell in order[order.index(cells[0]) : order.index(cells[-1])]:
            if cell in cells:
                execute(sources[cell], cell, names)
            else:
                self.put(self.made[cell], names)
        with pytest.raises(AssertionError):
            names.pop("result", None)
            execute(sources[cells[-1]], cells[-1], names)
        return [row.what for row in names["result"].rows if not row.holds]
