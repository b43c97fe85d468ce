"""Every page, sound and for everyone: contrast, narrow and enlarged, by keyboard and by touch.

axe-core finds what is against the rules for names, roles, landmarks and the keyboard. For the
contrast of a page with formulas and code it needs many seconds, so a quick function of ours
measures the contrast of all text in both modes, and axe-core then sees the page without the inside
of its formulas and with plain code. axe-core looks at each page once, at the width of a phone.
"""

from collections import Counter

import pytest
from rendered import CHAPTER_PAGES, LISTINGS, OPEN_FIGURES, PAGES, SITE, watched

from tools.chapters import BOOK, read, text
from tools.turns import changed, touched
from tools.weights import EXCEPTIONS, LIMIT, weight

pytestmark = pytest.mark.browser

#: One page of each type, seen by axe-core on a wide screen too, with contrast, in both modes.
TYPES = {"index.html", "02-model.html", "notation.html", "api/flow.html", "search.html"}
#: Listings of sources, all from one template: two of them stand for the others, which are
#: visited in the weekly tests, and never by axe-core.
ALIKE = set(LISTINGS) - {"_modules/index.html", "_modules/mfbook/measure.html"}

# Shows what is folded away, so that it is looked at too.
UNFOLD = """() => {
    document.querySelectorAll('details').forEach(e => e.open = true);
    document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
}"""

# Observers of sizes are told after the next frame is laid out.
SETTLE = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

# The inside of formulas and the single words of code are many thousand elements. Formulas keep
# their size and, as text, their MathML, whose elements axe-core has no rules for; code keeps its
# text. Contrast is measured before.
LIGHTEN = """() => {
    const formulas = [...document.querySelectorAll('mjx-math')];
    const sizes = formulas.map(e => e.getBoundingClientRect());
    formulas.forEach((e, i) => {
        e.replaceChildren();
        e.style.cssText +=
            `;display:inline-block;width:${sizes[i].width}px;height:${sizes[i].height}px`;
    });
    const flat = '.highlight pre, mjx-assistive-mml math';
    document.querySelectorAll(flat).forEach(e => e.textContent = e.textContent);
}"""

# Text whose contrast to what is behind it is under 4.5, or under 3 if it is large.
FAINT = """() => {
    const pixel = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const known = new Map();
    const parse = colour => {
        if (!known.has(colour)) {
            pixel.clearRect(0, 0, 1, 1);
            pixel.fillStyle = colour;
            pixel.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
            known.set(colour, [r, g, b, a / 255]);
        }
        return known.get(colour);
    };
    const over = ([r, g, b, a], [R, G, B]) =>
        [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
    const grounds = new Map();
    const ground = e => {
        if (!e) return parse(getComputedStyle(document.documentElement).colorScheme === 'dark'
            ? 'black' : 'white').slice(0, 3);
        if (!grounds.has(e)) {
            const own = parse(getComputedStyle(e).backgroundColor);
            grounds.set(e, over(own, ground(e.parentElement)));
        }
        return grounds.get(e);
    };
    const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const shine = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const faint = new Map(), seen = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement;
        if (seen.has(e) || !walker.currentNode.data.trim()) continue;
        seen.add(e);
        if (e.closest('script, style, noscript, mjx-assistive-mml')) continue;
        if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        const style = getComputedStyle(e), behind = ground(e);
        const colour = [...parse(style.color)];
        for (let x = e; x; x = x.parentElement) colour[3] *= getComputedStyle(x).opacity;
        const a = shine(over(colour, behind)), b = shine(behind);
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        if (ratio < (large ? 3 : 4.5))
            faint.set(`${e.tagName}.${e.className} in ${e.parentElement.className}`,
                `${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)}`);
    }
    return [...faint].map(([where, what]) => `${what} (${where})`).slice(0, 8);
}"""

# Elements of the text that make the page wider than the window.
WIDE = """() => [...document.querySelectorAll('article *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1
        && !e.closest('pre, .output, .math, mjx-container, [class*=scroll]'))
    .map(e => e.tagName + '.' + e.className).slice(0, 5)"""


# How the figures are shown.
PICTURES = """() =>
    [...document.querySelectorAll('.cell_output img, article figure img')]
        .map(e => getComputedStyle(e)).map(s => [s.filter, s.mixBlendMode])"""

# What has the focus, whether it is marked, and what covers it.
FOCUS = """() => {
    const focused = document.activeElement, e = focused.querySelector('.toctree-toggle') || focused;
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    const where = `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 30)}`;
    const marked = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    const above = document.elementFromPoint(box.x + Math.min(box.width, 20) / 2,
        Math.max(box.y, 0) + Math.min(box.height, 10) / 2);
    const free = !above || e.contains(above) || above.contains(e);
    return [where, marked, free ? '' : above.tagName + '.' + above.className];
}"""


def width(page) -> int:
    return page.evaluate("() => document.documentElement.scrollWidth")


def mode(page, name: str):
    page.evaluate("name => { document.documentElement.dataset.theme = name; }", name)


def violations(page, contrast: bool) -> list[str]:
    """What axe-core calls serious or critical: rule, element, reason."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    rules = {"color-contrast": {"enabled": contrast}}
    # preloading would ask for style sheets at wrong addresses
    options = {"preload": False, "resultTypes": ["violations"], "rules": rules}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def obey_the_keyboard(page):
    """Each interactive figure shows one picture for each position, and says which."""
    figures = page.locator("figure.mf-frames").all()
    notebook = read(BOOK / page.path.replace(".html", ".ipynb"))
    stored = (o for cell in notebook["cells"] for o in cell.get("outputs", ()))
    assert len(figures) == sum(
        text(o.get("data", {}).get("text/html", "")).startswith('<figure class="mf-frames"')
        for o in stored
    )
    for figure in figures:
        slider = figure.locator("input[type=range]")
        assert slider.get_attribute("aria-label")
        slider.focus()
        outline = slider.evaluate("e => getComputedStyle(e).outlineStyle")
        assert outline != "none", "keyboard focus is not visible"
        last = int(slider.get_attribute("max"))
        seen = []
        for key in ["Home"] + ["ArrowRight"] * last:
            slider.press(key)
            (shown,) = figure.evaluate(
                """e => [...e.querySelectorAll(':scope > img')].filter(i => i.checkVisibility())
                    .map(i => [i.src, i.alt])"""
            )
            seen.append((*shown, slider.get_attribute("aria-valuetext")))
        assert slider.input_value() == str(last)
        assert [len(set(column)) for column in zip(*seen, strict=True)] == [last + 1] * 3


@pytest.fixture(
    scope="module",
    params=[pytest.param(path, marks=pytest.mark.weekly) if path in ALIKE else path
            for path in [*LISTINGS, *PAGES]],
)  # fmt: skip
def page(request, context, site):
    """Each page in turn, for both tests that follow."""
    if request.param in ALIKE and not (SITE / request.param).exists():
        pytest.skip("no name of this module is documented")
    with watched(context, site) as open_page:
        page = open_page(request.param)
        page.path, page.asked = request.param, open_page.asked
        yield page


@pytest.fixture
def path(page):
    return page.path


# The first page and what has changed, and one page of each type after a change of the style.
@pytest.mark.by_turn(
    always={
        "index.html",
        *(f"{chapter}.html" for chapter in changed()),
        *(TYPES if touched("book/_ext", "book/_static", "book/_templates", "_config.yml") else ()),
    },
    one=1,
)
def test_page_is_sound(page, path, site):
    """Mathematics, images, ids and weight; the fixture: no error and no request elsewhere."""
    assert page.locator("h1").count() >= 1
    raw = page.locator(".math:not(:has(mjx-container))")
    assert raw.count() == 0, raw.first.inner_text()
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    silent = page.locator("mjx-container:not(:has(mjx-assistive-mml math))")
    assert silent.count() == 0, "a formula without MathML"
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
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(e => e.id)")
    repeated = {name for name, times in Counter(ids).items() if times > 1}
    assert not repeated - {"search-input"}  # the theme's, twice on its search page
    undrawn = page.evaluate(
        """() => [...document.querySelectorAll('.fa, .fas, .fab, .fa-solid, .fa-brands')]
            .filter(e => getComputedStyle(e, '::before').content === 'none')
            .map(e => e.className)"""
    )
    assert not undrawn, "icons that _static/icons lacks"
    size, _ = weight(page.asked, site)
    assert size <= EXCEPTIONS.get(path, LIMIT), f"{size / 1e6:.2f} MB with all that it loads"
    if path in CHAPTER_PAGES:
        assert page.locator("mjx-container").count() > 10
        assert page.locator("div.proof, div.admonition").count() >= 1
        assert page.locator("table.mf-check").count() >= 1


# The first page shows what a change of the style does; the others follow by turns.
@pytest.mark.by_turn(always={"index.html"}, one=1)
def test_page_is_accessible(page, path):
    """axe-core, contrast in both modes, no sideways scrolling at 320 pixels and at 200 %."""
    page.emulate_media(reduced_motion="reduce")  # colours change at once
    page.evaluate(UNFOLD)
    if path in CHAPTER_PAGES:
        obey_the_keyboard(page)
    for name in ("light", "dark"):
        mode(page, name)
        assert not (faint := page.evaluate(FAINT)), f"{name}: contrast below 4.5: {faint}"
    turned = page.evaluate(PICTURES)
    assert all("invert(1)" in filter and blend == "screen" for filter, blend in turned)

    for window in (640, 320):  # 640: a window of 1280 pixels at 200 %
        page.set_viewport_size({"width": window, "height": 640})
        assert width(page) <= window, page.evaluate(WIDE)

    if path in ALIKE:
        return
    page.evaluate(SETTLE)
    page.evaluate(LIGHTEN)
    assert not (found := violations(page, contrast=False)), "\n".join(found)
    if path in TYPES:
        page.set_viewport_size({"width": 1280, "height": 720})
        for name in ("dark", "light"):
            mode(page, name)
            assert not (found := violations(page, contrast=True)), "\n".join(found)


@pytest.mark.by_turn
@pytest.mark.parametrize("path", ["02-model.html", "a-sphere-circle.html"])
def test_figures_on_a_phone(path, browser, site):
    """The picture fits, and a finger moves the slider."""
    phone = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
    with browser.new_context(**phone) as context:
        page = context.new_page()
        page.goto(site + path)
        page.evaluate("() => window.MathJax?.startup?.promise")
        page.evaluate(OPEN_FIGURES)
        assert width(page) <= 320
        figure = page.locator("figure.mf-frames").first
        slider = figure.locator("input[type=range]")
        slider.scroll_into_view_if_needed()
        place = slider.bounding_box()
        assert place["height"] >= 24 and place["width"] >= 120
        for end, value in ((0.98, slider.get_attribute("max")), (0.02, "0")):
            page.touchscreen.tap(
                place["x"] + end * place["width"], place["y"] + place["height"] / 2
            )
            assert slider.input_value() == value
        picture = figure.locator("img:visible").bounding_box()
        assert picture["x"] >= 0 and picture["x"] + picture["width"] <= 320
        assert picture["width"] >= 200


@pytest.mark.by_turn
def test_the_focus_is_seen(visit):
    """Everything the tab key reaches is marked, and the bar at the top does not cover it."""
    page = visit("02-model.html")
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 500})
    for key, steps in (("Tab", 60), ("Shift+Tab", 25)):
        for _ in range(steps):
            page.keyboard.press(key)
            where, marked, covered = page.evaluate(FOCUS)
            assert marked, f"the focus is not visible on {where}"
            assert not covered, f"{where} has the focus and is covered by {covered}"


@pytest.mark.by_turn
def test_forced_colours_show_the_figures_as_drawn(browser, site):
    with browser.new_context(forced_colors="active", color_scheme="dark") as context:
        page = context.new_page()
        page.goto(site + "02-model.html")
        mode(page, "dark")
        assert {tuple(style) for style in page.evaluate(PICTURES)} == {("none", "normal")}
