"""Figures and formulas in the rendered book: enlarged, played, and fitted to a phone."""

import pytest
from rendered import CHAPTER_PAGES

pytestmark = pytest.mark.browser

PHONE = {"has_touch": True, "is_mobile": True, "device_scale_factor": 2}
SHOWN = "e => [...e.querySelectorAll(':scope > img')].map(i => i.alt)"
# Faces that come with what was opened, the frame after them, and what follows it.
SETTLE = """async () => {
    for (let i = 0; i < 2; i++) {
        await new Promise(done => requestAnimationFrame(() => setTimeout(done, 150)));
        await document.fonts.ready;
    }
}"""
UNFOLD = """() => {
    document.querySelectorAll('details').forEach(e => e.open = true);
    document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
}"""

# Rows of checks whose verdict is not in the window, and formulas that are cut off without a sign.
CUT = """() => {
    const verdicts = [...document.querySelectorAll('table.mf-check tbody tr')]
        .map(row => row.lastElementChild.getBoundingClientRect())
        .filter(box => box.width && box.right > innerWidth);
    const wide = e => e.matches('[display], .mf-wide')
        ? e.scrollWidth > e.clientWidth + 3
        : e.getBoundingClientRect().width > e.closest('p, li, td, dd, div').clientWidth + 1;
    const formulas = [...document.querySelectorAll('article mjx-container')].filter(e =>
        e.checkVisibility() && wide(e) &&
        !(e.classList.contains('mf-more') && e.tabIndex === 0));
    return [verdicts.length, formulas.map(e => e.textContent.slice(0, 60))];
}"""


@pytest.mark.by_turn(one=3)
@pytest.mark.parametrize("path", CHAPTER_PAGES)
def test_every_figure_can_be_enlarged(path, visit):
    """By keyboard, at the width that it was drawn for; Escape closes, and the focus is back."""
    page = visit(path)
    page.set_viewport_size({"width": 390, "height": 700})
    page.evaluate(UNFOLD)
    pictures = page.locator(
        "article :is(.cell_output, figure) img:not(.mf-frames-all img, .mf-explore img)"
    )
    buttons = page.locator(".mf-enlarge")
    assert buttons.count() == pictures.count() > 0
    for index in {0, buttons.count() - 1}:
        picture = pictures.nth(index)
        drawn = picture.evaluate("e => parseFloat(e.style.width) || e.getAttribute('width')")
        buttons.nth(index).focus()
        page.keyboard.press("Enter")
        large = page.locator(".mf-dialog img")
        large.wait_for()
        assert large.get_attribute("alt") == picture.get_attribute("alt")
        assert large.bounding_box()["width"] >= max(float(drawn or 0), 350) - 1
        page.keyboard.press("Escape")
        large.wait_for(state="hidden")
        assert page.evaluate("() => document.activeElement.className") == "mf-enlarge"


@pytest.mark.by_turn
def test_an_interactive_figure_plays_pauses_and_shows_all_pictures(visit):
    page = visit("02-model.html")
    figure = page.locator("figure.mf-frames").first
    slider, play = figure.locator("input"), figure.locator(".mf-play")
    last = int(slider.get_attribute("max"))
    slider.fill("0")
    (before,) = figure.evaluate(SHOWN)
    play.press("Enter")
    assert play.inner_text() == "Pause"
    page.wait_for_function("e => Number(e.value) >= 1", arg=slider.element_handle())
    assert figure.evaluate(SHOWN) != [before]
    play.press("Enter")
    assert play.inner_text() == "Play" and int(slider.input_value()) < last
    figure.locator("summary").click()
    assert figure.locator("details img:visible").count() == last + 1
    assert not figure.locator(".mf-frames-hint").is_visible()


@pytest.mark.by_turn
def test_reduced_motion_leaves_the_slider(browser, site):
    with browser.new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(site + "02-model.html")
        assert page.locator("figure.mf-frames input").first.is_visible()
        assert not page.locator(".mf-play").first.is_visible()


@pytest.mark.by_turn(one=3)
@pytest.mark.parametrize("path", CHAPTER_PAGES)
def test_on_a_phone_verdicts_are_seen_and_wide_formulas_say_so(path, browser, site):
    """With everything opened: a formula fits, or fades at its edge and scrolls by keyboard."""
    for width in (390, 320):
        with browser.new_context(viewport={"width": width, "height": 700}, **PHONE) as context:
            page = context.new_page()
            page.goto(site + path)
            page.evaluate("() => window.MathJax?.startup?.promise")
            page.evaluate(UNFOLD)
            page.evaluate(SETTLE)
            verdicts, formulas = page.evaluate(CUT)
            assert verdicts == 0
            assert not formulas


@pytest.mark.by_turn
def test_escape_closes_a_preview_that_has_the_focus(visit):
    page = visit("05-dynamics.html")
    link = page.locator(
        "article.bd-article p a.reference.internal[href*='bibliography.html#']"
    ).first
    link.focus()
    tip = page.locator(".tippy-box[data-theme~=mfbook]")
    tip.wait_for()
    page.keyboard.press("Escape")
    tip.wait_for(state="detached")
    assert link.evaluate("e => e === document.activeElement")
