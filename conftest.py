"""How outputs of chapters are compared: as ``tools/nbval_comparison.py`` says."""

import os

from tools import nbval_comparison

# POT imports every array library that it finds, here and in the kernels: seconds for torch and jax.
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
os.environ.setdefault("POT_BACKEND_DISABLE_JAX", "1")
# figures of the chapters give their data, too
os.environ.setdefault("MFBOOK_FIGURE_DATA", "1")


def pytest_configure(config):
    """Put the comparison in place of nbval's."""
    nbval_comparison.install()
