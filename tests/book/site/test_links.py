"""Links: previews of what they lead to, by mouse, keyboard and on a phone; anchors that stay."""

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.by_turn(together=True)]

TIP = ".tippy-box[data-theme~=mfbook]"


#: Links of the text that lead to a statement, and to the bibliography.
STATEMENT = ",".join(
    f"article.bd-article p > a.reference.internal[href*='#{paper}-']"
    for paper in ("hy", "agr", "mf")
)
CITED = "article.bd-article p a.reference.internal[href*='bibliography.html#']"


def first(page, selector):
    link = page.locator(selector).first
    link.scroll_into_view_if_needed()
    return link


def test_statement_is_shown_under_the_pointer(visit):
    page = visit("05-dynamics.html")
    first(page, STATEMENT).hover()
    tip = page.locator(TIP)
    tip.wait_for()
    page.wait_for_function(f"() => document.querySelector('{TIP} mjx-container')")
    assert "admonition-title" in tip.inner_html()
    assert page.locator(f"{TIP} .math:not(:has(mjx-container))").count() == 0
    page.mouse.move(0, 0)
    tip.wait_for(state="detached")


def test_reference_is_shown_on_focus_and_fits_a_phone(visit):
    page = visit("05-dynamics.html")
    page.set_viewport_size({"width": 320, "height": 640})
    link = first(page, CITED)
    link.focus()
    tip = page.locator(TIP)
    tip.wait_for()
    assert "Huan" in tip.inner_text()
    assert link.get_attribute("aria-describedby") == tip.locator("..").get_attribute("id")
    page.wait_for_timeout(300)
    box = tip.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 321
    link.blur()
    tip.wait_for(state="detached")


@pytest.mark.parametrize("address", [
    "07-stability.html#theorem-7-8", "c-audit.html#result-finite", "notation.html#notation-clashes",
])  # fmt: skip
def test_anchor_stays_in_view_while_the_page_is_laid_out(address, visit):
    """Formulas are set after the browser has gone to the anchor, and would move it away."""
    page = visit(address)
    name = address.partition("#")[2]
    page.wait_for_timeout(500)
    top = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", name)
    assert 0 <= top <= 300, top
