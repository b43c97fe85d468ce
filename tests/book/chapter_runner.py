"""Run the cells of a chapter, once as they are and then with mistakes in some of them.

A test of a chapter makes one :class:`Book` of its cells. For a wrong program a plausible mistake
is made in one cell, or a name of the program is replaced; the cells that depend on it run again,
the last of them a check, and :meth:`Book.failed_rows` says which rows of the check failed.

:class:`Chapter` holds the tests. That of a chapter derives from it, and says which cells, in which
smaller portions, and which mistakes::

    class TestLongTime(Chapter):
        cells = computing(read(BOOK / "06-long-time.ipynb"))
        wrong = WRONG
"""

import contextlib
import io
from pathlib import Path
from types import FunctionType

import numpy as np
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


@contextlib.contextmanager
def mistaken(module, old, new):
    """A module of the package with one change of its text, for its own functions and for others."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r}: expected once, found {source.count(old)} times"
    right = dict(vars(module))
    exec(compile(source.replace(old, new), module.__file__, "exec"), vars(module))
    try:
        yield
    finally:
        vars(module).clear()
        vars(module).update(right)


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


class Chapter:
    """The tests of one chapter: its checks pass, and fail for each of the wrong programs.

    Attributes
    ----------
    cells : dict
        Sources by cell, from :func:`computing`.
    smaller, skip
        The cells in smaller portions, and those that do not run: see :class:`Book`.
    wrong : list of tuple
        Name of the mistake; the cells to run again, the last of them a check; words of the row that
        has to fail; the mistakes: a cell with what is written there and what should be, or a
        function that replaces names.
    least : int
        How many wrong programs each check has to be tried with.
    """

    pytestmark = pytest.mark.slow
    cells, smaller, skip, wrong, least = {}, (), (), (), 2

    @pytest.fixture(scope="class")
    @classmethod
    def book(cls):
        return Book(cls.cells, cls.smaller, cls.skip)

    @pytest.fixture(autouse=True)
    def wrong_programs_may_overflow(self):
        with np.errstate(all="ignore"):
            yield

    def pytest_generate_tests(self, metafunc):
        if "check" in metafunc.fixturenames:
            metafunc.parametrize("check", checks(self.cells))
        if "mistake" in metafunc.fixturenames:
            metafunc.parametrize("mistake", [pytest.param(w, id=w[0]) for w in self.wrong])

    @pytest.mark.wrong_program
    def test_right_program_passes(self, book, check):
        if check not in book.holds:
            pytest.skip("its cells do not run here")
        assert book.holds[check]

    @pytest.mark.wrong_program
    def test_wrong_program_fails(self, book, mistake):
        _, cells, row, *changes = mistake
        cells = cells.split()
        if cells[-1] not in book.holds:
            pytest.skip("its cells do not run here")
        failed = book.failed_rows(cells, changes)
        assert any(row in what for what in failed), f"failed for other reasons: {failed}"

    def test_every_check_is_seen_to_fail(self):
        last = [cells.split()[-1] for _, cells, *_ in self.wrong]
        seen = {check: last.count(check) for check in checks(self.cells)}
        assert set(last) <= set(seen)
        assert min(seen.values()) >= self.least, seen


class Story:
    """A chapter whose tests are written one by one: its cells, run as they stand or changed.

    Attributes
    ----------
    notebook : dict
    cells : dict
        The cells by their names.
    """

    def __init__(self, notebook):
        self.notebook = notebook
        self.cells = {cell["id"]: cell for cell in notebook["cells"]}

    def run(self, names, namespace, changes=()):
        """Run cells in a namespace, quietly, with ``changes``: those of :func:`changed`."""
        sources = {name: text(self.cells[name]["source"]) for name in names}
        for cell, old, _ in changes:
            assert sources[cell].count(old) == 1, old
        sources = changed(sources, changes)
        for name in names:
            execute(sources[name], name, namespace)

    def states(self):
        """What is defined before each code cell, figures and exercises left out, and at the end."""
        namespace, states = {}, {}
        for name in computing(self.notebook):
            states[name] = dict(namespace)
            self.run([name], namespace)
        return states | {"end": namespace}

    def failing(self, names, namespace, changes=()):
        """The rows that fail when the cells run; the last one ends in its assertion."""
        with pytest.raises(AssertionError):
            self.run(names, namespace, changes)
        return {row.what for row in namespace["result"].rows if not row.holds}

    def refuses(self, states, cells, right, wrong, row):
        """A false statement, written into the first of some cells, fails a row of the last."""
        first, *_ = names = cells.split()
        failed = self.failing(names, dict(states[first]), [(first, right, wrong)])
        assert any(row in what for what in failed), failed

    def caption(self, name):
        """The caption of a figure and its alternative text."""
        figure = self.cells[name]["metadata"]["mystnb"]
        return figure["figure"]["caption"] + figure["image"]["alt"]

    def lines_below_checks(self):
        """The first text under each check, by the name of the check."""
        cells = self.notebook["cells"]
        return {
            cell["id"]: text(below["source"])
            for cell, below in zip(cells, cells[1:], strict=False)
            if "statement" in cell["metadata"].get("mfbook", {})
        }
