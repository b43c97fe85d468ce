"""The rendered book, parsed and in a headless Chromium: what the tests of this folder share."""

import functools
import http.server
import os
import re
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tools.chapters import BOOK, ROOT, chapters

SITE = ROOT / "_build" / "html"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
#: One page of each type, which a browser visits in every run; the others are visited weekly.
CHAPTER, SPHERE = "04-static.html", "a1-figures.html"
DAILY = ("index.html", CHAPTER, SPHERE, "statements.html", "api/measure.html", "questions.html")
#: All pages but the listings of sources, and these two for them. From the sources of the book,
#: because it may be built while tests are collected.
PAGES = sorted([
    *(str(path.with_suffix(".html").relative_to(BOOK)) for path in BOOK.rglob("*")
      if path.suffix in (".md", ".ipynb") and not path.relative_to(BOOK).parts[0].startswith("_")),
    *("genindex.html", "prf-prf.html", "py-modindex.html", "search.html"),
])  # fmt: skip
LISTINGS = ("_modules/index.html", "_modules/mfbook/measure.html")
CHAPTER_PAGES = [f"{path.stem}.html" for path in chapters()]
#: How long a build may take, in seconds, and what a test waits for, in milliseconds.
PATIENCE, LONG = 1800, 120_000
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync""".split()
FLAGS.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
PHONE = {"viewport": {"width": 390, "height": 700}, "has_touch": True, "is_mobile": True}

# Shows what is folded away, and sets what depends on its size.
UNFOLD = """async () => {
    document.querySelectorAll('details').forEach(e => { e.open = true; });
    document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
    await document.fonts.ready;
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def daily(cases, *always):
    """Parameters of a test: those named run every day, the others weekly."""
    cases = list(cases)
    assert set(always) <= set(cases), f"not there (any more): {set(always) - set(cases)}"
    return [
        case if case in always
        else pytest.param(*case if isinstance(case, tuple) else [case], marks=pytest.mark.weekly)
        for case in cases
    ]  # fmt: skip


@functools.cache
def parsed(name: str) -> BeautifulSoup:
    """A rendered page; without pictures that are written into it and words of code, most of it."""
    whole = (SITE / f"{name}.html").read_text(encoding="utf-8")
    whole = re.sub(r'data:image/png;base64,[^"]*', "", whole)
    whole = re.sub(r'(<div class="highlight"><pre>).*?(</pre>)', r"\1\2", whole, flags=re.DOTALL)
    return BeautifulSoup(whole, "html.parser")


def becomes_empty(page, program: str, arg=None):
    """Wait until a program in the page finds nothing (more) to complain of; else say what."""
    try:
        # looking at each frame would leave the page no time
        done = f"async arg => !(await ({program})(arg)).length"
        page.wait_for_function(done, arg=arg, polling=200)
    except Exception:
        pytest.fail(str(page.evaluate(program, arg)))


def missing(reason: str):
    """Skip, or fail where skipping would hide that nothing is tested."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site(built):
    """The address at which the book is served."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(browser):
    """One for all tests, so that scripts and fonts are fetched once."""
    with browser.new_context(color_scheme="light") as context:
        yield context


@contextmanager
def watched(context, site):
    """A function that opens a page; in the end, nothing may have gone wrong on it.

    Its ``asked`` has the addresses of all that was loaded.
    """
    opened, wrong = [], []

    def note_console(message):
        if message.type in ("error", "warning"):
            wrong.append(f"console {message.type}: {message.text}")

    def note_response(response):
        if response.status >= 400:
            wrong.append(f"{response.status}: {response.url}")

    def note_failure(request):
        # what a page gives up because it is reloaded or left has not failed
        if request.failure != "net::ERR_ABORTED":
            wrong.append(f"failed: {request.url} ({request.failure})")

    def note_request(request):
        open_page.asked.add(request.url)
        if not request.url.startswith((site, "data:", "blob:")):
            wrong.append(f"asks another host: {request.url}")

    def open_page(path: str):
        page = context.new_page()
        page.set_default_timeout(LONG)
        opened.append(page)
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("requestfailed", note_failure)
        page.on("console", note_console)
        page.on("response", note_response)
        page.on("request", note_request)
        page.goto(site + path)
        page.evaluate("() => document.fonts.ready.then(() => {})")
        return page

    open_page.asked = set()
    yield open_page
    for page in opened:
        page.close()
    assert not wrong, "\n".join(dict.fromkeys(wrong))


@pytest.fixture
def visit(context, site):
    with watched(context, site) as open_page:
        yield open_page
