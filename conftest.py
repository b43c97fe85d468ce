"""Notebooks are compared digit by digit but no further: see tools/compare_outputs.py."""

from tools.nbval_comparison import install


def pytest_configure(config):
    """Put the comparison in place of nbval's."""
    install()
