"""What helps reading, in the browser: search, folds, previews of links, anchors, both modes."""

import re
from urllib.parse import quote

import pytest
from rendered import CHAPTER, CHAPTER_PAGES, becomes_empty, daily, parsed, watched

pytestmark = pytest.mark.browser
TIP = ".tippy-box[data-theme~=mfbook]"
#: Links of the text that lead to a statement, and to the bibliography.
STATEMENT = ",".join(
    f"article.bd-article p > a.reference.internal[href*='#{paper}-']"
    for paper in ("hy", "agr", "mf")
)
CITED = "article.bd-article p a.reference.internal[href*='bibliography.html#']"

# A statement by its number, a symbol as one types it, a word that others use, and questions.
SEARCHES = [
    ("Theorem 7.5", "07-stability.html#hy-theorem-7-5"),
    ("lemma 2.1", "02-model.html#hy-lemma-2-1"),
    ("Equation (8)", "02-model.html#hy-equation-8"),
    ("Structure 2", "02-model.html#check-mf-gauge"),
    ("λ_c", "notation.html#symbol-lambda-c"),
    ("mode collapse", "questions.html#how-many-clusters"),
    ("batch size", "questions.html#q-batch"),
    ("double the learning rate", "questions.html#q-learning-rate"),
    ("How many heads", "questions.html#q-how-many-heads"),
    ("scale my tokens", "questions.html#q-scale-tokens"),
    ("is my trained head stable", "questions.html#q-stable-head"),
    ("does weight decay kill heads?", "questions.html#q-decay-kills"),
    ("label smoothing", "questions.html#q-smooth-labels"),
    ("All my heads start equal", "questions.html#q-equal-start"),
]


@pytest.mark.parametrize("words, place", daily(SEARCHES, SEARCHES[0]))
def test_search_finds_a_place_first(words, place, visit):
    """The place itself, or the section that begins with it."""
    page = visit(f"search.html?q={quote(words)}")
    page.wait_for_selector("#search-results li > a")
    found = page.locator("#search-results li > a").first.get_attribute("href")
    (name, anchor), (wanted, target) = (
        re.sub(r"\?[^#]*", "", a).split("#") for a in (found, place)
    )
    assert name == wanted
    section = parsed(name.removesuffix(".html")).find(id=anchor)
    section = section if section.name == "section" else section.find_parent("section")
    assert anchor.startswith(target) or section.find(id=target), found


def test_search_quotes_sections_and_shows_no_tex_and_chapters_before_the_api(visit):
    page = visit("search.html?q=clusters+sqrt")
    page.wait_for_selector("#search-results .mf-found a[href*='#']")
    page.wait_for_function("() => /finished/.test(document.body.innerText)")
    assert "\\" not in page.locator("#search-results").inner_text()
    links = page.locator("#search-results ul.search > li > a").evaluate_all(
        "all => all.map(e => e.getAttribute('href').startsWith('api/'))"
    )
    assert any(links) and links == sorted(links)


@pytest.mark.weekly
def test_the_index_leads_to_a_check_and_opens_it(visit):
    page = visit("statements.html")
    page.locator(f"table.mf-index a[href^='{CHAPTER}#check-']").first.click()
    page.wait_for_url("**/*#check-*")
    anchor = page.url.partition("#")[2]
    page.locator(f"[id='{anchor}'] table.mf-check").first.wait_for()
    assert page.locator(f"[id='{anchor}'] details.mf-check").get_attribute("open") is not None


@pytest.mark.weekly
def test_the_switch_opens_all_and_is_remembered(browser, site):
    with browser.new_context() as context, watched(context, site) as visit:
        every = "details.mf-fold:not(.mf-check)"  # which hold what a check refuses
        closed = f"{every}:not([open])"
        page = visit(CHAPTER_PAGES[-1])
        assert page.locator(closed).count() == page.locator(every).count() > 5
        page.locator(".mf-switch").get_by_role("button", name="Code").press("Enter")
        assert page.locator(closed).count() == 0
        page = visit(CHAPTER_PAGES[-2])
        assert page.locator(closed).count() == 0, "the next page remembers it"
        page.get_by_role("button", name="Read").click()
        page.reload()
        assert page.locator(closed).count() == page.locator(every).count()


@pytest.mark.weekly
def test_without_a_script_folds_open_by_hand_and_pictures_stay(browser, site):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site + CHAPTER)
        assert not page.locator(".mf-switch").is_visible()
        fold = page.locator("details.mf-check").first
        fold.locator("summary").first.click()
        assert fold.locator(":scope > :not(summary)").first.is_visible()
        assert page.locator("[data-explore] img").first.is_visible()


@pytest.mark.weekly
def test_the_switch_turns_the_page_dark(browser, site):
    with browser.new_context(color_scheme="light") as context, watched(context, site) as visit:
        page = visit("index.html")
        ground = "() => getComputedStyle(document.body).backgroundColor"
        shown = "() => document.documentElement.dataset.theme"
        light = page.evaluate(ground)
        for _ in range(3):  # its three modes
            if page.evaluate(shown) != "dark":
                page.locator("button.theme-switch-button:visible").first.click()
        assert page.evaluate(shown) == "dark" and page.evaluate(ground) != light
        page.reload()
        assert page.evaluate(shown) == "dark"


@pytest.mark.weekly
def test_a_figure_plays_pauses_and_shows_all_pictures(browser, site):
    with browser.new_context() as context, watched(context, site) as visit:
        context.clock.install(time=0)
        page = visit(CHAPTER)
        context.clock.pause_at(3600)
        figure = page.locator("figure.mf-frames").first
        page.locator("details:has(figure.mf-frames) > summary").first.click()
        slider, play = figure.locator("input"), figure.locator(".mf-play")
        last = int(slider.get_attribute("max"))
        shown = figure.locator(".mf-scroll > img:visible")
        slider.fill("0")
        before = shown.get_attribute("alt")
        play.press("Enter")
        context.clock.run_for(1000)
        assert play.inner_text() == "Pause" and slider.input_value() == "1"
        assert shown.get_attribute("alt") != before
        play.press("Enter")
        context.clock.run_for(5000)
        assert play.inner_text() == "Play" and slider.input_value() == "1"
        figure.locator("summary").click()
        assert figure.locator("details img:visible").count() == last + 1
        assert not figure.locator(".mf-frames-hint").is_visible()
        page.emulate_media(reduced_motion="reduce")
        assert slider.is_visible() and not play.is_visible()


@pytest.mark.weekly
def test_a_link_to_a_statement_shows_it_under_the_pointer(visit):
    page = visit("05-dynamics.html")
    link = page.locator(STATEMENT).first
    link.scroll_into_view_if_needed()
    link.hover()
    tip = page.locator(TIP)
    tip.locator("math").first.wait_for()
    assert "admonition-title" in tip.inner_html()
    assert tip.locator("math").first.bounding_box()["width"] > 5
    assert "\\" not in tip.inner_text()
    page.mouse.move(0, 0)
    tip.wait_for(state="detached")


@pytest.mark.weekly
def test_a_reference_is_shown_on_focus_fits_a_phone_and_escape_closes_it(visit):
    page = visit("05-dynamics.html")
    page.set_viewport_size({"width": 320, "height": 640})
    link, tip = page.locator(CITED).first, page.locator(TIP)
    link.focus()
    tip.wait_for()
    assert "Huan" in tip.inner_text()
    assert link.get_attribute("aria-describedby") == tip.locator("..").get_attribute("id")
    becomes_empty(page, """tip => [document.querySelector(tip).getBoundingClientRect()]
        .filter(box => box.left < 0 || box.right > innerWidth + 1)""", TIP)  # fmt: skip
    page.keyboard.press("Escape")
    tip.wait_for(state="detached")
    assert link.evaluate("e => e === document.activeElement")


@pytest.mark.weekly
@pytest.mark.parametrize("address", [
    "07-stability.html#theorem-7-8", "c-audit.html#result-finite", "notation.html#notation-clashes",
])  # fmt: skip
def test_an_anchor_stays_in_view_while_the_page_is_laid_out(address, visit):
    """Formulas are set after the browser has gone to the anchor, and would move it away."""
    page = visit(address)
    becomes_empty(page, """async id => {
        await document.fonts.ready;
        const { top } = document.getElementById(id).getBoundingClientRect();
        return top < 0 || top > 300 ? [top] : [];
    }""", address.partition("#")[2])  # fmt: skip
