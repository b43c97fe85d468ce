"""The tests of this folder look at the rendered book, and wait until it is built."""

import os
import time
from pathlib import Path

import pytest
from rendered import CHROMIUM, SITE, browser, context, missing, site, visit  # noqa: F401

#: Seconds; a build takes minutes.
PATIENCE = 1800


@pytest.fixture(scope="session", autouse=True)
def built():
    """The rendered book.

    ``make test`` builds it while other tests run. It names the file that the build leaves in the
    end, with its exit status, and says itself what is wrong with a build that failed.
    """
    if status := os.environ.get("MFBOOK_BUILD"):
        end = time.monotonic() + PATIENCE
        while not (text := Path(status).read_text() if Path(status).exists() else "").strip():
            if time.monotonic() > end:
                pytest.fail(f"the book is not built after {PATIENCE // 60} minutes")
            time.sleep(0.2)
        if int(text):
            pytest.skip("the book could not be built")
    if not (SITE / "index.html").exists():
        missing("the site is not built: make book")


@pytest.fixture(scope="session")
def chromium():
    """Where the browser is."""
    if not Path(CHROMIUM).exists():
        missing(f"no Chromium at {CHROMIUM} (apt-get install chromium, or set CHROMIUM)")
    return CHROMIUM
