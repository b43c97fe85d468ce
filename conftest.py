"""How the tests run: which, in what order, how outputs are compared, and what is said meanwhile.

With pytest-xdist (``make test``, or ``pytest -n 4``) a file goes to one worker, whatever ``--dist``
says: the cells of a notebook share a kernel, the tests of a chapter run its cells once. The
pages in the browser are given out in eight parts.
"""

import os
import zlib

import pytest

from tools import nbval_comparison, telling, turns

# POT imports every array library that it finds, here and in the kernels: seconds for torch and jax.
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
os.environ.setdefault("POT_BACKEND_DISABLE_JAX", "1")


def pytest_addoption(parser):
    """What ``make test`` asks for."""
    group = parser.getgroup("mfbook")
    group.addoption("--turns", action="store_true", help="of what runs by turns, what is due today")
    group.addoption("--words", action="store_true", help="tell the progress in words")


def pytest_configure(config):
    """Put the comparison in place of nbval's, and tell what goes on in words."""
    turns.turn()  # before workers start: they have to agree
    nbval_comparison.install()
    if config.getoption("words") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(telling.Teller(config), "telling")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give out files in the order of collection; xdist's own begins with those of many tests."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            if not file.endswith("test_access.py"):
                return file
            # the longest of its part, and its pages do not need each other
            page = nodeid.removeprefix(file).partition("[")[2]
            return f"{file} {zlib.crc32(page.encode()) % 8}"

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(config, items):
    """Leave out what has to wait for its turn; begin with long files."""
    telling.note_cells(items)
    if config.getoption("turns"):
        wrong = {item for item in items if item.get_closest_marker("wrong_program")}
        chosen = {turns.wrong_programs_of(chapter) for chapter in turns.due()} if wrong else set()
        resting = {item for item in wrong if item.path not in chosen}
        resting |= turns.resting(items)
        config.hook.pytest_deselected(items=list(resting))
        items[:] = [item for item in items if item not in resting]
    if not hasattr(config, "workerinput"):
        return
    # long ones first, so that no worker is left alone with one; the book is built meanwhile
    long = {
        item.path for item in items
        if item.path.suffix == ".ipynb" or any(map(item.get_closest_marker, ("slow", "browser")))
    }  # fmt: skip
    items.sort(key=lambda item: (item.path not in long, item.path.parent.name == "site"))
