"""The figures that compute in the page: text, keyboard, play and reset.

Time is that of the test: it passes when the test says so, however busy the machine is. The fixture
sees that nothing goes wrong on a page and that it asks no other host.
"""

import re
from functools import partial

import numpy as np
import pytest
from rendered import CHAPTER, becomes_empty, daily, watched

from tools.chapters import chapters, read, text

pytestmark = pytest.mark.browser
#: The page of each placed figure, by its script.
PLACED = {
    name: f"{path.stem}.html"
    for path in chapters()
    for cell in read(path)["cells"]
    if cell["cell_type"] == "code"
    for name in re.findall(r"plots\.explorable\(\s*\"([\w-]+)\"", text(cell["source"]))
}
WIDTHS, SAYS = (1280, 390, 320), ".mf-explore-says"
#: Milliseconds: its text is told at most once in a second; with reduced motion, a step in each.
SECOND = 1000

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
# Whether an element is what a pointer finds at its middle.
IN_VIEW = """e => {
    const box = e.getBoundingClientRect();
    return e.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2));
}"""
# What the tab key reaches: labels.
REACHED = """(root) => [...root.querySelectorAll('input, select, button, [tabindex]')]
    .filter(e => e.checkVisibility() && !e.disabled && e.tabIndex >= 0).map(e =>
        (e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent).trim())"""


@pytest.fixture(
    scope="module",
    params=daily(PLACED, *(name for name, path in PLACED.items() if path == CHAPTER)),
)
def opened(request, browser, site):
    """The page of each figure in turn, its clock stopped; in the end nothing went wrong on it."""
    with browser.new_context() as context, watched(context, site) as visit:
        context.clock.install(time=0)
        page = visit(PLACED[request.param])
        context.clock.pause_at(3600)
        yield page, page.locator(f"[data-explore='{request.param}']")


@pytest.fixture
def figure(opened):
    """The figure as it begins, in a wide window, its text told."""
    page, root = opened
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(reduced_motion="no-preference")
    root.get_by_role("button", name="Reset").click()
    page.clock.run_for(SECOND + 100)
    return page, root


def press(page, *ways: str):
    for way in ways:
        page.keyboard.press(f"Shift+Arrow{way}")


def change(page, root, what: str, act):
    """Do something; the text below changes within the second that it may take."""
    before = root.locator(SAYS).inner_text()
    act()
    page.clock.run_for(SECOND + 100)
    assert root.locator(SAYS).inner_text() != before, f"{what}: the text below is the same"


def test_play_moves_pause_stops_and_reset_restores(figure):
    page, root = figure
    start, words = root.evaluate(DRAWN), root.locator(SAYS).inner_text()
    page.clock.run_for(SECOND)
    assert root.evaluate(DRAWN) == start, "it moves without being asked to"
    play = root.get_by_role("button", name="Play")
    if play.count():
        change(page, root, "play", lambda: play.press("Enter"))
        root.get_by_role("button", name="Pause").press("Enter")
        page.clock.run_for(SECOND)
        stopped = root.evaluate(DRAWN)
        assert stopped != start
        page.clock.run_for(SECOND)
        assert root.evaluate(DRAWN) == stopped, "it goes on after pause"
    for control in root.locator("input[type=range]").all():
        control.press("End")
    root.get_by_role("button", name="Reset").press("Enter")
    page.clock.run_for(SECOND + 100)
    assert root.evaluate(DRAWN) == start and root.locator(SAYS).inner_text() == words
    # enlarged it is larger, and Escape brings it back
    width = root.locator(".mf-explore-panels").bounding_box()["width"]
    root.get_by_role("button", name="Enlarge").press("Enter")
    dialog = page.locator("dialog[open]")
    assert dialog.locator(".mf-explore-panels").bounding_box()["width"] > width
    page.keyboard.press("Escape")
    root.locator(".mf-explore-live").wait_for()  # the dialog closes in a later task
    assert not dialog.count()


def test_text_is_large_and_nothing_is_cut_off(figure):
    page, root = figure
    for width in WIDTHS:  # downwards: what is not laid out again is outside
        page.set_viewport_size({"width": width, "height": 900})
        becomes_empty(page, BAD, root.element_handle())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not root.locator("img").is_visible() and root.locator("svg").count()


def test_play_is_above_what_plays_and_each_preset_shows_something_else(figure):
    page, root = figure
    first, below = (
        root.locator(f".mf-explore-{part}").bounding_box() for part in ("play", "panels")
    )
    assert first["y"] + first["height"] <= below["y"] + 1
    presets = root.locator(".mf-explore-presets button").all()
    assert len(presets) >= 2
    seen = set()
    for preset in presets:
        preset.press("Enter")
        page.clock.run_for(2 * SECOND)
        seen.add(root.evaluate(DRAWN))
    assert len(seen) == len(presets), "two presets show the same"


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_close_is_in_view_in_the_enlarged_figure(figure, size):
    page, root = figure
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    root.get_by_role("button", name="Enlarge").press("Enter")
    dialog = page.locator("dialog[open]")
    close, rows = (
        dialog.get_by_role("button", name="Close", exact=True),
        dialog.evaluate("e => e.scrollHeight"),
    )
    assert size[0] < 600 or rows <= size[1]  # all of it is seen in a wide window
    for place in (0, rows):
        dialog.evaluate("(e, y) => e.scrollTo(0, y)", place)
        assert close.evaluate(IN_VIEW)
    close.press("Enter")
    root.locator(".mf-explore-live").wait_for()


def test_paper_shows_the_stored_picture(figure):
    page, root = figure
    page.emulate_media(media="print")
    assert root.locator("img").is_visible() and not root.locator("svg").first.is_visible()
    page.emulate_media(media="screen")


@pytest.mark.weekly
def test_the_keyboard_reaches_and_moves_everything(figure):
    page, root = figure
    labels = root.evaluate(REACHED)
    assert all(labels), "a control without a name"
    root.locator("input, select, button, [tabindex='0']").first.focus()
    seen = 0
    while root.locator(":scope *:focus").count():
        seen += 1
        page.keyboard.press("Tab")
    assert seen == len(labels), f"{labels}, the tab key finds {seen}"
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
        assert root.locator(".ex-handle:focus").get_attribute("aria-valuetext") != place
    for cross in root.locator(".ex-over[tabindex='0']").all():
        cross.focus()
        found = set()
        for _ in range(3):
            press(page, "Right")
            found.add(cross.get_attribute("aria-valuetext"))
        assert len(found) >= 2, "the cross says the same everywhere"


@pytest.mark.weekly
def test_with_reduced_motion_it_goes_in_a_few_still_steps(figure):
    page, root = figure
    page.emulate_media(reduced_motion="reduce")
    play = root.get_by_role("button", name="Play")
    if not play.count():
        return
    play.click()
    seen, changes = root.evaluate(DRAWN), []
    for tenth in range(70):
        page.clock.run_for(SECOND // 10)
        before, seen = seen, root.evaluate(DRAWN)
        changes += [tenth] * (seen != before)
    assert 2 <= len(changes) <= 5 and play.count(), changes
    assert min(np.diff(changes)) >= 9, f"pictures follow each other fast, tenths: {changes}"
