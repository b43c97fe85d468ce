"""The figures that compute in the page: text, keyboard, play, reset, weight, and without a script.

The fixture sees that nothing goes wrong on a page and that it asks no other host.
"""

import re
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from rendered import watched

from tools.chapters import ROOT, chapters, read, text
from tools.turns import touched

pytestmark = pytest.mark.browser

SCRIPTS = ROOT / "book" / "_static" / "explore"
#: Each placed figure: its page and its script.
PLACED = [
    (path.stem, name)
    for path in chapters()
    for cell in read(path)["cells"]
    if cell["cell_type"] == "code"
    for name in re.findall(r"plots\.explorable\(\s*\"([\w-]+)\"", text(cell["source"]))
]
#: Looked at after each change of the scripts; the others by turns.
FIRST = {"one-head"} if touched("book/_static/explore", "book/_ext/explore.py") else set()
WIDTHS, SAYS = (320, 390, 1280), ".mf-explore-says"

# Text of the live figure that is small, or that its drawing or the window cuts off.
BAD = """(root) => [...root.querySelectorAll('*')].flatMap(e => {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility()) return [];
    const box = e.getBoundingClientRect(), found = [];
    const size = parseFloat(getComputedStyle(e).fontSize);
    const svg = e.closest('svg')?.getBoundingClientRect();
    const scale = svg ? svg.width / e.closest('svg').viewBox.baseVal.width : 1;
    if (size * scale < 10.99) found.push(`${size * scale} px: ${e.textContent}`);
    if (box.left < -0.5 || box.right > innerWidth + 0.5) found.push(`outside: ${e.textContent}`);
    if (svg && (box.left < svg.left - 1.5 || box.right > svg.right + 1.5 || box.top < svg.top - 1.5
        || box.bottom > svg.bottom + 1.5)) found.push(`cut off: ${e.textContent}`);
    return found;
})"""
# Whatever is drawn: the outlines, places and words of all that is not a control.
DRAWN = """(root) => [...root.querySelectorAll('svg path, svg text, .ex-handle, output')]
    .map(e => [e.getAttribute('d'), e.getAttribute('transform'), e.textContent].join()).join('|')"""
# What the keyboard reaches by the tab key, and by Page down within a group of points.
REACHED = """(root) => [...root.querySelectorAll('input, select, button, [tabindex]')]
    .filter(e => e.checkVisibility() && !e.disabled).map(e => {
        const label = e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent;
        return [e.tagName, e.type || '', e.getAttribute('class') || '', label.trim(), e.tabIndex];
    })"""


def test_there_are_figures_and_each_has_its_script():
    assert PLACED
    here = {path.stem for path in SCRIPTS.glob("*.js")} - {"mathematics", "drawing"}
    assert here == {name for _, name in PLACED}, "scripts and placed figures"
    assert sum(len(path.read_text().splitlines()) for path in SCRIPTS.glob("*.js")) <= 1500


@pytest.fixture(scope="module", params=PLACED, ids=[name for _, name in PLACED])
def opened(request, context, site):
    """The page of each figure in turn, for all tests of it; in the end nothing went wrong on it."""
    page_name, name = request.param
    with watched(context, site) as visit:
        page = visit(f"{page_name}.html")
        yield page, page.locator(f"[data-explore='{name}']")


@pytest.fixture
def figure(opened):
    """The figure as it begins, in a wide window, its text told."""
    page, root = opened
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(reduced_motion="no-preference")
    root.get_by_role("button", name="Reset").click()
    page.wait_for_function("e => e.innerText", arg=root.locator(SAYS).element_handle())
    page.wait_for_timeout(1100)  # what stands in the text is of now
    return page, root


def says(root) -> str:
    return root.locator(SAYS).inner_text()


def press(page, *ways: str):
    for way in ways:
        page.keyboard.press(f"Shift+Arrow{way}")


def change(page, root, what: str, act) -> str:
    """Do something; the text below changes within the second that it may take."""
    before = says(root)
    act()
    try:
        page.wait_for_function(
            "([e, before]) => e.innerText !== before",
            arg=[root.locator(SAYS).element_handle(), before],
            timeout=3000,
        )
    except Exception:
        pytest.fail(f"{what}: the text below still says {before!r}")
    return says(root)


@pytest.mark.by_turn(always=FIRST, one=3)
def test_text_is_large_and_nothing_is_cut_off(figure):
    page, root = figure
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.evaluate("t => { document.documentElement.dataset.theme = t; }", theme)
            page.wait_for_timeout(200)
            assert not (bad := root.evaluate(BAD)), f"{width} {theme}: {bad}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert not root.locator("img").is_visible() and root.locator("svg").count()
    name = root.get_attribute("data-explore")
    assert page.evaluate("n => explore.frames[n].length", name) >= 1


@pytest.mark.by_turn
def test_the_keyboard_reaches_and_moves_everything(figure):
    page, root = figure
    parts = root.evaluate(REACHED)
    assert all(label for *_, label, _ in parts), "a control without a name"
    root.locator("input, select, button, [tabindex='0']").first.focus()
    inside, seen = ":scope *:focus", 0
    stops = sum(tab >= 0 for *_, tab in parts)
    while root.locator(inside).count():
        seen += 1
        page.keyboard.press("Tab")
    assert seen == stops, f"{stops} stops, the tab key finds {seen}"
    for control in root.locator("input[type=range], select, input[type=checkbox]").all():
        label, kind, last = control.evaluate(
            """e => [e.labels[0].innerText, e.type,
                e.options ? e.selectedIndex === e.options.length - 1 : e.value === e.max]"""
        )
        keys = {"checkbox": ("Space", "Space"), "range": ("End", "Home")}
        key = keys.get(kind, ("ArrowDown", "ArrowUp"))[last]
        change(page, root, label, partial(control.press, key))
    for handle in root.locator(".ex-handle[tabindex='0']").all():
        handle.focus()
        place = handle.get_attribute("aria-valuetext")
        assert place and handle.get_attribute("aria-label")
        change(page, root, place, partial(press, page, "Left", "Up", "Up"))
        moved = root.locator(".ex-handle:focus").get_attribute("aria-valuetext")
        assert moved != place
    for cross in root.locator(".ex-over[tabindex='0']").all():
        cross.focus()
        found = set()
        for _ in range(3):
            page.keyboard.press("Shift+ArrowRight")
            found.add(cross.get_attribute("aria-valuetext"))
        assert len(found) >= 2, "the cross says the same everywhere"


@pytest.mark.by_turn(always=FIRST, one=3)
def test_play_moves_pause_stops_and_reset_restores(figure):
    page, root = figure
    start, words = root.evaluate(DRAWN), says(root)
    page.wait_for_timeout(300)
    assert root.evaluate(DRAWN) == start, "it moves without being asked to"
    play = root.get_by_role("button", name="Play")
    if play.count():
        change(page, root, "play", lambda: play.press("Enter"))
        root.get_by_role("button", name="Pause").press("Enter")
        page.wait_for_timeout(100)
        stopped = root.evaluate(DRAWN)
        assert stopped != start
        page.wait_for_timeout(300)
        assert root.evaluate(DRAWN) == stopped, "it goes on after pause"
    for control in root.locator("input[type=range]").all():
        control.press("End")
    root.get_by_role("button", name="Reset").press("Enter")
    page.wait_for_timeout(1200)
    assert root.evaluate(DRAWN) == start and says(root) == words
    # enlarged it is larger, and Escape brings it back
    width = root.locator(".mf-explore-panels").bounding_box()["width"]
    root.get_by_role("button", name="Enlarge").press("Enter")
    dialog = page.locator("dialog[open]")
    assert dialog.locator(".mf-explore-panels").bounding_box()["width"] > width
    page.keyboard.press("Escape")
    assert root.locator(".mf-explore-live").is_visible() and not dialog.count()


@pytest.mark.by_turn
def test_with_reduced_motion_it_goes_in_a_few_still_steps(figure):
    page, root = figure
    page.emulate_media(reduced_motion="reduce")
    play = root.get_by_role("button", name="Play")
    if not play.count():
        return
    page.wait_for_timeout(200)
    play.click()
    seen = {root.evaluate(DRAWN)}
    for _ in range(12):
        page.wait_for_timeout(100)
        seen.add(root.evaluate(DRAWN))
    assert 2 <= len(seen) <= 4, f"{len(seen)} pictures in 1.2 seconds"


@pytest.mark.by_turn
@pytest.mark.parametrize("page_name, name", PLACED)
def test_without_its_script_the_picture_stays(page_name, name, browser, site):
    blocked = browser.new_context()
    blocked.route(f"**/explore/{name}.js*", lambda route: route.abort())
    for context in (browser.new_context(java_script_enabled=False), blocked):
        page = context.new_page()
        page.goto(site + f"{page_name}.html")
        picture = page.locator(f"[data-explore='{name}'] img")
        assert picture.is_visible() and len(picture.get_attribute("alt")) > 40
        assert page.locator(f"[data-explore='{name}'] .mf-explore-live").count() == 0
        context.close()


@pytest.mark.by_turn
def test_scripts_are_light_and_only_where_they_are_needed(visit):
    pages = {page for page, _ in PLACED}
    for page_name in [*sorted(pages), "notation"]:
        visit.asked.clear()
        visit(f"{page_name}.html")
        asked = {Path(urlsplit(a).path) for a in visit.asked if "/explore/" in a}
        own = {name for page, name in PLACED if page == page_name}
        needed = {*own, "mathematics", "drawing"} if own else set()
        assert {path.stem for path in asked if path.suffix == ".js"} == needed
        assert sum((SCRIPTS / f"{name}.js").stat().st_size for name in needed) <= 150_000
