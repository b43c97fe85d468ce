"""The pages on a reader's own model, confinement and activation run as they are printed."""

import doctest

import pytest

from tools.chapters import BOOK

PAGES = sorted(BOOK.glob("extend-*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page):
    done = doctest.testfile(str(page), module_relative=False)
    assert done.failed == 0 and done.attempted >= 5


def test_there_are_three():
    assert [page.stem for page in PAGES] == [
        "extend-activation", "extend-confinement", "extend-model",
    ]  # fmt: skip
