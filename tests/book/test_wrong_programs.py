"""The wrong programs of the chapters are refused, each by its check and in the row that it names.

They stand in the metadata of the cells that they change (:class:`tools.chapters.WrongProgram`). The
cells of a chapter run once, as they are; for a wrong program the names before its cell are put
back, it runs with its mistake, and so does every cell up to the check that reads what differs.
"""

import builtins
import contextlib
import copy
import io
import warnings
from types import FunctionType

import numpy as np
import pytest
from matplotlib import pyplot

from tools.chapters import BOOK, cells_for, chapters, check_cells, names_of, read, text
from tools.chapters import wrong_programs as programs

PATHS = {path.stem: path for path in chapters()}
WRONG = [
    pytest.param(stem, wrong, id=f"{stem}: {check}: {wrong.name}")
    for stem, path in PATHS.items()
    for check, wrongs in programs(read(path)).items()
    for wrong in wrongs
]


def kept(value):
    """A copy of what cells change in place: containers and generators of random numbers."""
    if type(value) is dict:
        return {key: kept(item) for key, item in value.items()}
    if type(value) in (list, set):
        return type(value)(map(kept, value))
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value)
    return value


def alike(a, b):
    """Whether two values are surely the same."""
    if a is b or type(a) is not type(b):
        return a is b
    if type(a) is dict:
        return alike(list(a.items()), list(b.items()))
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, np.random.Generator):
        return alike(a.bit_generator.state, b.bit_generator.state)
    if isinstance(a, FunctionType):
        return a.__code__ == b.__code__ and not a.__closure__ and not a.__defaults__
    if isinstance(a, np.ndarray):
        return a.dtype != object and np.array_equal(a, b)
    return isinstance(a, (int, float, str, set)) and a == b


def differing(names, others):
    """The names that have no value, or another one, among the others."""
    return {name for name in names if name not in others or not alike(names[name], others[name])}


class Chapter:
    """The computing cells of a chapter, run once, and the names before and after each of them."""

    def __init__(self, notebook):
        last = max(programs(notebook), key=[cell["id"] for cell in notebook["cells"]].index)
        cells = [notebook["cells"][i] for i in cells_for(notebook, last)]
        self.sources = {cell["id"]: text(cell["source"]) for cell in cells}
        self.uses = {cell: names_of(source) for cell, source in self.sources.items()}
        self.names, self.before, self.after = {"__builtins__": builtins}, {}, {}
        for cell, source in self.sources.items():
            self.before[cell] = kept(self.names)
            self.run(cell, source)
            self.after[cell] = kept(self.names)

    def run(self, cell, source):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, cell, "exec"), self.names)

    def is_affected(self, cell):
        """Whether a cell reads what differs, itself or by functions of the cells before it."""
        changed = differing(self.names, self.before[cell])
        earlier = list(self.sources)[: list(self.sources).index(cell)]
        for uses in [self.uses[name] for name in earlier] * 2:
            changed |= uses.assigned if uses.later & changed else set()
        return bool(self.uses[cell].read & changed)

    def failed_rows(self, wrong):
        """The rows of the check that fail when a cell has its mistake."""
        order, refused = list(self.sources), False
        self.names.clear()
        self.names.update(kept(self.before[wrong.cell_id]))
        for cell in order[order.index(wrong.cell_id) : order.index(wrong.check) + 1]:
            if cell != wrong.cell_id and not self.is_affected(cell):
                made = differing(self.after[cell], self.before[cell])
                self.names.update(kept({name: self.after[cell][name] for name in made}))
                continue
            mistake = (wrong.replace, wrong.by) if cell == wrong.cell_id else ("", "")
            self.names["result"] = refused = None
            try:
                self.run(cell, self.sources[cell].replace(*mistake))
            except AssertionError:
                refused = self.names["result"]
            except Exception:  # a cell on the way may not survive the mistake
                if cell in (wrong.cell_id, wrong.check):
                    raise
        return [row.what for row in refused.rows if not row.holds] if refused else []


@pytest.fixture(scope="module")
def chapter(request):
    pyplot.switch_backend("agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(BOOK)  # some cells read what lies beside them
        yield Chapter(read(PATHS[request.param]))
    pyplot.close("all")


@pytest.mark.weekly
@pytest.mark.parametrize("chapter, wrong", WRONG, indirect=["chapter"], scope="module")
def test_wrong_program_is_refused(chapter, wrong, request):
    with warnings.catch_warnings(action="ignore"):  # a mistake may overflow
        failed = chapter.failed_rows(wrong)
    assert any(wrong.row in what for what in failed), (
        f"{request.node.callspec.id}: should fail in the row “{wrong.row}”, fails in {failed}"
    )


@pytest.mark.parametrize("stem", PATHS)
def test_a_check_has_at_most_two_wrong_programs_and_they_fit_the_cells(stem):
    notebook, checks = read(PATHS[stem]), check_cells(PATHS[stem])
    sources = {cell["id"]: text(cell["source"]) for cell in notebook["cells"]}
    assert set(programs(notebook)) <= {cell.cell_id for cell in checks}
    for cell in checks:
        wrongs = programs(notebook).get(cell.cell_id, [])
        assert len({wrong.name for wrong in wrongs}) == len(wrongs) <= 2, cell.cell_id
        for wrong in wrongs:
            assert sources[wrong.cell_id].count(wrong.replace) == 1, wrong
            assert list(sources).index(wrong.cell_id) <= list(sources).index(wrong.check), wrong
            assert any(wrong.row in row["what"] for row in cell.check["rows"]), wrong
