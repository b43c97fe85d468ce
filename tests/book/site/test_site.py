"""The rendered site in a headless browser: links, indexes, search, the switch, and from disk.

What holds for each page is in test_access.py.
"""

import re
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

import pytest
from rendered import LISTINGS, OPEN_FIGURES, PAGES, SITE

pytestmark = pytest.mark.browser


def built_pages():
    return {
        str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts
    }


def test_pages_are_those_of_the_sources():
    """What the tests know from the sources and visit is what is built."""
    found = built_pages()
    assert {path for path in found if not path.startswith("_modules/")} == set(PAGES)
    assert found - set(PAGES) <= set(LISTINGS)
    assert len(found & set(LISTINGS)) > 60


class Targets(HTMLParser):
    """The anchors of a page and where its links lead."""

    def __init__(self, page: str):
        super().__init__()
        self.anchors, self.links = set(), set()
        # single words of code have neither, and are most elements of a page
        self.feed(re.sub(r'<span class="\w+">|</span>', "", page))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag == "a" and attributes.get("href"):
            self.links.add(attributes["href"])


def test_links_and_anchors_lead_somewhere():
    pages = {path: Targets((SITE / path).read_text(encoding="utf-8")) for path in built_pages()}
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


@pytest.mark.by_turn
def test_index_links_to_the_check_cells(visit):
    page = visit("statements.html")
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


@pytest.mark.by_turn
def test_the_switch_turns_the_page_dark(browser, site):
    with browser.new_context(color_scheme="light") as context:
        page = context.new_page()
        page.goto(site + "index.html")
        ground = "() => getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        for _ in range(3):
            if page.evaluate("() => document.documentElement.dataset.theme") == "dark":
                break
            page.locator("button.theme-switch-button:visible").first.click()
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        assert page.evaluate(ground) != light
        page.reload()
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


@pytest.fixture
def open_file(browser):
    """Open a page from disk, as from a USB stick; nothing may go wrong there either."""
    wrong = []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
        page.on("console", lambda m: m.type in ("error", "warning") and wrong.append(m.text))

        def open_page(address: str):
            page.goto(SITE.as_uri() + "/" + address)
            page.evaluate("() => window.MathJax?.startup?.promise")
            return page

        yield open_page
    assert not wrong, "\n".join(wrong)


# the first page, and one with an interactive figure in a fold
@pytest.mark.by_turn(one=1)
@pytest.mark.parametrize("path", ["index.html", "02-model.html", "a-sphere-circle.html"])
def test_page_works_from_disk(path, open_file):
    page = open_file(path)
    assert page.locator(".math:not(:has(mjx-container))").count() == 0
    page.evaluate("() => document.fonts.ready")
    state = """() => [...document.fonts].filter(f => f.status === 'error').map(f => f.family)"""
    assert not page.evaluate(state), "fonts that did not load"
    broken = "() => [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert not page.evaluate(broken)
    page.evaluate(OPEN_FIGURES)
    for figure in page.locator("figure.mf-frames").all():
        before = figure.locator("img:visible").get_attribute("alt")
        slider = figure.locator("input[type=range]")
        slider.focus()
        page.keyboard.press("End" if slider.input_value() == "0" else "Home")
        assert figure.locator("img:visible").get_attribute("alt") != before


@pytest.mark.by_turn(always={"batch size-q-batch"})
@pytest.mark.parametrize(
    "words, question",
    [
        ("batch size", "q-batch"),
        ("double the learning rate", "q-learning-rate"),
        ("How many heads", "q-how-many-heads"),
        ("scale my tokens", "q-scale-tokens"),
        ("is my trained head stable", "q-stable-head"),
        ("does weight decay kill heads?", "q-decay-kills"),
        ("label smoothing", "q-smooth-labels"),
        ("All my heads start equal", "q-equal-start"),
    ],
)
def test_search_finds_a_question_first(words, question, visit):
    page = visit(f"search.html?q={quote(words)}")
    page.wait_for_selector("#search-results li > a")
    found = page.locator("#search-results li > a").first.get_attribute("href")
    address, _, anchor = found.partition("#")
    assert address.partition("?")[0] == "questions.html"
    page = visit("questions.html")
    assert page.locator(f"section:has(> #{question}):has(#{anchor}) > h3").count() == 1


@pytest.mark.by_turn(always={"Theorem 7.5-07-stability.html#hy-theorem-7-5"})
@pytest.mark.parametrize("words, place", [
    ("Theorem 7.5", "07-stability.html#hy-theorem-7-5"),
    ("lemma 2.1", "02-model.html#hy-lemma-2-1"),
    ("Equation (8)", "02-model.html#hy-equation-8"),
    ("Structure 2", "02-model.html#check-mf-gauge"),
    ("λ_c", "notation.html#symbol-lambda-c"),
    ("mode collapse", "questions.html#how-many-clusters"),
])  # fmt: skip
def test_search_finds_a_place_first(words, place, visit):
    """A statement by its number, a symbol as one types it, and a word that others use."""
    page = visit(f"search.html?q={quote(words)}")
    page.wait_for_selector("#search-results li > a")
    found = page.locator("#search-results li > a").first.get_attribute("href")
    assert re.sub(r"\?[^#]*", "", found).startswith(place)


@pytest.mark.by_turn
def test_search_works_from_disk(open_file):
    page = open_file("search.html?q=softmax")
    page.wait_for_selector("#search-results li a")
