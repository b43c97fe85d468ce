"""How the tests run: notebooks are compared with tools/compare_outputs.py, and by whole files.

With pytest-xdist (``make test``, or ``pytest -n 4``) a file goes to one worker, whatever ``--dist``
says: the cells of a notebook share a kernel, the tests of a chapter run its cells once.
"""

import os

import pytest

from tools.nbval_comparison import install

# POT imports every array library that it finds, here and in the kernels: seconds for torch and jax.
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
os.environ.setdefault("POT_BACKEND_DISABLE_JAX", "1")


def pytest_configure(config):
    """Put the comparison in place of nbval's."""
    install()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give out files in the order of collection; xdist's own begins with those of many tests."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(config, items):
    """Begin with long files, so that no worker is left alone with one at the end."""
    if not hasattr(config, "workerinput"):
        return
    long = {
        item.path for item in items
        if item.path.suffix == ".ipynb" or any(map(item.get_closest_marker, ("slow", "browser")))
    }  # fmt: skip
    items.sort(key=lambda item: item.path not in long)
