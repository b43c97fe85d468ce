"""The pages on a reader's own model, confinement and activation run as they are printed."""

import doctest

import pytest

from tools.chapters import BOOK


@pytest.mark.parametrize("name", ["activation", "confinement", "model"])
def test_page_runs(name):
    done = doctest.testfile(str(BOOK / f"extend-{name}.md"), module_relative=False)
    assert done.failed == 0 and done.attempted >= 5
