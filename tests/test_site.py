"""The rendered site in a headless browser: every page, offline, by keyboard, narrow and dark."""

import functools
import http.server
import os
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from tools.chapters import ROOT, chapters

pytestmark = pytest.mark.browser

SITE = ROOT / "_build" / "html"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PAGES = sorted(
    str(path.relative_to(SITE))
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts
)  # fmt: skip
CHAPTER_PAGES = [f"{path.stem}.html" for path in chapters()]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def missing(reason: str):
    """Skip, or fail where skipping would hide that nothing is tested."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").exists():
        missing("the site is not built: make book")
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    if not Path(CHROMIUM).exists():
        missing(f"no Chromium at {CHROMIUM} (apt-get install chromium, or set CHROMIUM)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(browser):
    """One for all tests, so that scripts and fonts are fetched once."""
    context = browser.new_context(color_scheme="light")
    yield context
    context.close()


@pytest.fixture
def visit(context, site):
    """Open a page; when the test is over, nothing may have gone wrong on it."""
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
        if not request.url.startswith((site, "data:", "blob:")):
            wrong.append(f"asks another host: {request.url}")

    def open_page(path: str):
        page = context.new_page()
        opened.append(page)
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("requestfailed", note_failure)
        page.on("console", note_console)
        page.on("response", note_response)
        page.on("request", note_request)
        page.goto(site + path, wait_until="load")
        page.evaluate("() => window.MathJax?.startup?.promise")
        return page

    yield open_page
    for page in opened:
        page.close()
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def test_there_are_pages():
    if not (SITE / "index.html").exists():
        missing("the site is not built: make book")
    assert {"index.html", "notation.html", "bibliography.html", "api.html"} <= set(PAGES)
    assert set(CHAPTER_PAGES) <= set(PAGES)


@pytest.mark.parametrize("path", PAGES)
def test_page_is_sound(path, visit):
    """No error, no request elsewhere (the fixture); mathematics, images and ids; 320 pixels."""
    page = visit(path)
    assert page.locator("h1").count() >= 1
    raw = page.locator(".math:not(:has(mjx-container))")
    assert raw.count() == 0, raw.first.inner_text()
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    words = page.evaluate(
        """() => {
            const main = (document.querySelector('article') || document.body).cloneNode(true);
            const literal = 'pre, code, script, .sig, mjx-container';
            main.querySelectorAll(literal).forEach(e => e.remove());
            return main.textContent;
        }"""
    )
    for sign in ("$", "\\(", "\\[", "{prf:", "{ref}", "{eq}", "{cite"):
        assert sign not in words, f"{sign} is left in the text: …{words.partition(sign)[0][-80:]}"
    without = page.evaluate(
        "() => [...document.images].filter(i => !i.hasAttribute('alt')).map(i => i.src)"
    )
    assert not without
    repeated = page.evaluate(
        """() => {
            const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
            return [...new Set(ids.filter((id, i) => ids.indexOf(id) !== i))];
        }"""
    )
    assert not set(repeated) - {"search-input"}  # the theme's, twice on its search page

    page.set_viewport_size({"width": 320, "height": 640})
    wide = page.evaluate(
        """() => [...document.querySelectorAll('article *')]
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1
                && !e.closest('pre, .output, .math, mjx-container, [class*=scroll]'))
            .map(e => e.tagName + '.' + e.className).slice(0, 5)"""
    )
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 320, wide


@pytest.mark.parametrize("path", CHAPTER_PAGES)
def test_chapter_has_mathematics_and_a_theorem_box(path, visit):
    page = visit(path)
    assert page.locator("mjx-container").count() > 10
    assert page.locator("div.proof").count() >= 1
    assert page.locator("table.mf-check").count() >= 1


class Targets(HTMLParser):
    """The anchors of a page and where its links lead."""

    def __init__(self, page: str):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag == "a" and attributes.get("href"):
            self.links.add(attributes["href"])


def test_links_and_anchors_lead_somewhere():
    pages = {path: Targets((SITE / path).read_text(encoding="utf-8")) for path in PAGES}
    broken = []
    for path, targets in pages.items():
        for link in targets.links:
            target, anchor = urldefrag(urljoin(f"/{path}", link))
            if urlsplit(target).scheme:
                continue
            target = unquote(target.split("?")[0]).lstrip("/")
            if not (SITE / target).is_file():
                broken.append(f"{path}: no file for {link}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                broken.append(f"{path}: no anchor for {link}")
    assert not broken, "\n".join(broken)


def test_index_links_to_the_check_cells(visit):
    page = visit("index.html")
    links = page.locator("table.mf-index a[href*='#check-']")
    assert links.count() >= 1
    href = links.first.get_attribute("href")
    links.first.click()
    page.wait_for_url("**/*#check-*")
    assert page.locator(f"[id='{urldefrag(href)[1]}'] table.mf-check").count() == 1


def test_search_finds_softmax(visit):
    page = visit("search.html?q=softmax")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").count() >= 1


@pytest.mark.parametrize("path", CHAPTER_PAGES)
def test_interactive_figures_obey_the_keyboard(path, visit):
    page = visit(path)
    figures = page.locator("figure.mf-frames")
    assert figures.count() >= 1
    for i in range(figures.count()):
        figure = figures.nth(i)
        slider = figure.locator("input[type=range]")
        visible = figure.locator("img:visible")
        assert visible.count() == 1
        last = int(slider.get_attribute("max"))
        sources, descriptions, spoken = set(), set(), set()
        slider.focus()
        for key in ["Home"] + ["ArrowRight"] * last:
            page.keyboard.press(key)
            assert visible.count() == 1
            sources.add(visible.get_attribute("src"))
            descriptions.add(visible.get_attribute("alt"))
            spoken.add(slider.get_attribute("aria-valuetext"))
        assert slider.input_value() == str(last)
        assert len(sources) == len(descriptions) == len(spoken) == last + 1
        outline = slider.evaluate("e => getComputedStyle(e).outlineStyle")
        assert outline != "none", "keyboard focus is not visible"


@pytest.mark.parametrize("path", ["index.html", *CHAPTER_PAGES])
def test_dark_mode(path, visit):
    """The switch works, text stays readable, and figures are turned to the page's ground."""
    page = visit(path)
    page.evaluate("() => localStorage.clear()")
    page.reload()
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(3):
        if page.evaluate("() => document.documentElement.dataset.theme") == "dark":
            break
        page.locator("button.theme-switch-button:visible").first.click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(ground) != light
    faint = page.evaluate(
        """() => {
            const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
            const parse = c => c.match(/[\\d.]+/g).map(Number);
            const shine = ([r, g, b]) =>
                0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
            const behind = e => {
                for (; e; e = e.parentElement) {
                    const c = parse(getComputedStyle(e).backgroundColor);
                    if (c.length === 3 || c[3] > 0.5) return c;
                }
                return [255, 255, 255];
            };
            const words = 'article :is(p, td, th, caption, figcaption, label, li)';
            return [...document.querySelectorAll(words)]
                .filter(e => e.offsetParent && e.textContent.trim())
                .filter(e => {
                    const a = shine(parse(getComputedStyle(e).color)), b = shine(behind(e));
                    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
                })
                .map(e => e.tagName + ': ' + e.textContent.trim().slice(0, 40)).slice(0, 5);
        }"""
    )
    assert not faint, "contrast below 4.5"
    filters = page.evaluate(
        "() => [...document.querySelectorAll('.cell_output img')]"
        ".map(e => getComputedStyle(e).filter + getComputedStyle(e).mixBlendMode)"
    )
    assert all("invert(1)" in f and "screen" in f for f in filters)
