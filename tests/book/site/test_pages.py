"""Each page in the browser, sound and for everyone: one visit for all that holds for every page.

The fixture sees that nothing goes wrong on the page and that it asks no other host. axe-core finds
what is against the rules for names, roles, landmarks and the keyboard. For the contrast of a page
with formulas and code it needs many seconds, so a quick function of ours measures the contrast of
all text in both modes, and axe-core sees the page without the inside of its formulas and with
plain code.
"""

from urllib.parse import unquote, urlsplit

import pytest
from rendered import (
    CHAPTER,
    CHAPTER_PAGES,
    DAILY,
    LISTINGS,
    PAGES,
    PHONE,
    SITE,
    SPHERE,
    UNFOLD,
    becomes_empty,
    daily,
    watched,
)

from tools.chapters import BOOK, check_cells, read, text

pytestmark = pytest.mark.browser
#: Bytes of a page with all that it loads.
LIMIT = 4_000_000

# Formulas that are not set, not set right or without MathML; images and icons that are not there.
UNSET = """() => {
    const all = selector => [...document.querySelectorAll(selector)];
    const found = {
        'a formula is not set': all('.math:not(:has(.katex-html))'),
        'a formula has an error': all('.katex-error'),
        'a formula without MathML': all('.katex:not(:has(.katex-mathml math))'),
        'an image did not load': all('img').filter(e => e.complete && !e.naturalWidth),
        'an icon that _static/icons lacks': all('.fa, .fas, .fab, .fa-solid, .fa-brands')
            .filter(e => getComputedStyle(e, '::before').content === 'none'),
        'a font did not load': [...document.fonts].filter(f => f.status === 'error'),
    };
    return Object.entries(found).filter(([, e]) => e.length)
        .map(([what, [e]]) => `${what}: ${(e.outerHTML ?? e.family).slice(0, 200)}`);
}"""

# axe-core takes longer for more elements. Formulas keep their size and, as text, their MathML,
# whose elements it has no rules for; code keeps its text, a table of numbers its first rows.
# Contrast is measured before.
LIGHTEN = """() => {
    const formulas = [...document.querySelectorAll('.katex-html')];
    const sizes = formulas.map(e => e.getBoundingClientRect());
    formulas.forEach((e, i) => {
        e.replaceChildren();
        e.style.cssText +=
            `;display:inline-block;width:${sizes[i].width}px;height:${sizes[i].height}px`;
    });
    const flat = '.highlight pre, .katex-mathml, svg text';
    document.querySelectorAll(flat).forEach(e => e.textContent = e.textContent);
    document.querySelectorAll('tbody tr:nth-child(n + 4):not(:has(p, pre, .math))')
        .forEach(e => e.remove());
}"""

# Text whose contrast to what is behind it is under 4.5, or under 3 if it is large.
FAINT = """() => {
    const pixel = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const known = new Map(), grounds = new Map(), veils = new Map();
    const faint = new Map(), seen = new Set();
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
    const ground = e => {
        if (!e) return parse(getComputedStyle(document.documentElement).colorScheme === 'dark'
            ? 'black' : 'white').slice(0, 3);
        if (!grounds.has(e)) {
            const own = parse(getComputedStyle(e).backgroundColor);
            grounds.set(e, over(own, ground(e.parentElement)));
        }
        return grounds.get(e);
    };
    const opacity = e => {
        if (!e) return 1;
        if (!veils.has(e)) veils.set(e, getComputedStyle(e).opacity * opacity(e.parentElement));
        return veils.get(e);
    };
    const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const shine = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement;
        if (seen.has(e) || !walker.currentNode.data.trim()) continue;
        seen.add(e);
        if (e.closest('script, style, noscript, .katex-mathml')) continue;
        if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        const style = getComputedStyle(e), behind = ground(e), colour = [...parse(style.color)];
        colour[3] *= opacity(e);
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

# Whether the page is wider than the window, and elements of the text that make it so.
WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : ['the page',
    ...[...document.querySelectorAll('article *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1
        && !e.closest('pre, .output, .math, [class*=scroll]'))
    .map(e => e.tagName + '.' + e.className).slice(0, 5)]"""

# How far the page has moved since it was first painted, and what moved most.
MOVED = """() => new Promise(done => new PerformanceObserver(list => {
    const shifts = list.getEntries().sort((a, b) => b.value - a.value);
    const name = ({node}) => node?.nodeName + '.' + (node?.className ?? '');
    done([shifts.reduce((sum, e) => sum + e.value, 0), ...shifts.slice(0, 2).flatMap(
        e => [e.value, Math.round(e.startTime), ...e.sources.slice(0, 3).map(name)])]);
}).observe({type: 'layout-shift', buffered: true}) || setTimeout(() => done([0]), 300))"""

# Permanent addresses in the page that something else covers.
COVERED = """() => [...document.querySelectorAll('a.mf-permalink')].filter(e => {
    if (!e.checkVisibility()) return false;
    e.scrollIntoView({block: 'center', behavior: 'instant'});
    const {x, y, width, height} = e.getBoundingClientRect();
    return document.elementFromPoint(x + width / 2, y + height / 2) !== e;
}).map(e => e.getAttribute('href'))"""

# How the figures are shown.
PICTURES = """() => [...document.querySelectorAll('.cell_output img, article figure img')]
    .map(e => getComputedStyle(e)).map(s => `${s.filter} ${s.mixBlendMode}`)"""

# Rows of checks whose verdict is not in the window, and formulas that are cut off without a sign.
CUT = """() => {
    const verdicts = [...document.querySelectorAll('table.mf-check tbody tr')]
        .filter(row => row.lastElementChild.getBoundingClientRect().width
            && row.lastElementChild.getBoundingClientRect().right > innerWidth);
    const width = e => e.getBoundingClientRect().width;
    const wide = e => e.matches('.katex-display, .mf-wide')
        ? e.scrollWidth > e.clientWidth + 3  // else a line is broken between the parts
        : [...e.querySelectorAll('.base')]
            .some(part => width(part) > e.closest('p, li, td, dd, div').clientWidth + 1);
    const all = 'article .katex-display, article .katex:not(.katex-display > *)';
    const formulas = [...document.querySelectorAll(all)].filter(e =>
        e.checkVisibility() && wide(e) &&
        !(e.classList.contains('mf-more') && e.tabIndex === 0));
    return [...verdicts, ...formulas].map(e => e.textContent.slice(0, 60));
}"""

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


def weight(addresses: set[str], site: str) -> int:
    """Bytes behind the addresses that a page asked for."""
    paths = {unquote(urlsplit(address).path) for address in addresses if address.startswith(site)}
    return sum((SITE / path.lstrip("/")).stat().st_size for path in paths)


def obey_the_keyboard(page, path: str):
    """Each figure with a slider shows one picture for each position, and says which."""
    outputs = (o for cell in read((BOOK / path).with_suffix(".ipynb"))["cells"]
               for o in cell.get("outputs", ()))  # fmt: skip
    figures = page.locator("figure.mf-frames").all()
    assert len(figures) == sum(
        text(o.get("data", {}).get("text/html", "")).startswith('<figure class="mf-frames"')
        for o in outputs
    )
    for figure in figures:
        slider = figure.locator("input[type=range]")
        assert slider.get_attribute("aria-label")
        slider.focus()
        assert slider.evaluate("e => getComputedStyle(e).outlineStyle") != "none"
        last, seen = int(slider.get_attribute("max")), []
        for key in ["Home"] + ["ArrowRight"] * last:
            slider.press(key)
            (shown,) = figure.evaluate(
                """e => [...e.querySelectorAll('.mf-scroll > img')].filter(i => i.checkVisibility())
                    .map(i => [i.src, i.alt])"""
            )
            seen.append((*shown, slider.get_attribute("aria-valuetext")))
        assert [len(set(column)) for column in zip(*seen, strict=True)] == [last + 1] * 3


@pytest.mark.parametrize("path", daily([*LISTINGS, *PAGES], *DAILY))
def test_page(path, context, site):
    with watched(context, site) as visit:
        page = visit(path)
        page.emulate_media(reduced_motion="reduce")  # colours change at once
        sidebar = page.locator(".bd-sidebar-primary nav a.reference.internal")
        assert sidebar.count() > len(CHAPTER_PAGES)
        if path in CHAPTER_PAGES:  # a link to a check opens it
            check = check_cells((BOOK / path).with_suffix(".ipynb"))[0].anchor
            page.evaluate("name => { location.hash = name; }", check)
            page.locator(f"[id='{check}'] table.mf-check").first.wait_for()
        page.evaluate(UNFOLD)
        becomes_empty(page, UNSET)
        assert weight(visit.asked, site) <= LIMIT
        if path in CHAPTER_PAGES:
            assert page.locator(".katex").count() > 10
            obey_the_keyboard(page, path)
        for name in ("light", "dark"):
            mode(page, name)
            assert not (faint := page.evaluate(FAINT)), f"{name}: contrast below 4.5: {faint}"
        assert all("invert(1) " in s and "screen" in s for s in page.evaluate(PICTURES))
        for window in (640, 320):  # 640: a window of 1280 pixels at 200 %
            page.set_viewport_size({"width": window, "height": 640})
            becomes_empty(page, WIDE)
        if path == SPHERE:  # long, and of the same templates as a chapter; weekly, see below
            return
        page.evaluate(UNFOLD)
        page.evaluate(LIGHTEN)
        assert not (found := violations(page, contrast=False)), "\n".join(found)


@pytest.mark.parametrize("path", daily(PAGES, *DAILY))
def test_page_stands_still(path, browser, site):
    """On a first visit nothing moves after the first paint; what one can click is not covered."""
    for window in ({"viewport": {"width": 1280, "height": 900}}, PHONE):
        for again in (True, True, False):  # on a busy machine a font may be late: a fault stays
            with browser.new_context(**window) as context, watched(context, site) as visit:
                page = visit(path)
                page.wait_for_timeout(500)
                moved, *what = page.evaluate(MOVED)
                assert not (covered := page.evaluate(COVERED)), covered
            if moved < 0.05 or not again:
                break
        assert moved < 0.05, (moved, what)


# Code of at most 92 columns, as a statement's cell has, that its frame cuts off.
CLIPPED = """() => [...document.querySelectorAll('article div.highlight pre')].filter(e =>
    e.checkVisibility() && Math.max(...e.innerText.split('\\n').map(line => line.length)) <= 92
    && e.scrollWidth > e.clientWidth + 1).map(e => e.innerText.slice(0, 60))"""


@pytest.mark.parametrize("path", daily(CHAPTER_PAGES, CHAPTER))
def test_the_cell_of_a_statement_is_seen_in_its_width(path, visit):
    page = visit(path)
    page.set_viewport_size({"width": 1280, "height": 900})
    becomes_empty(page, CLIPPED)


@pytest.mark.weekly
def test_the_sidebar_shows_the_current_page(visit):
    """Also after a page that had it elsewhere."""
    page = visit("index.html")
    page.evaluate("() => sessionStorage.setItem('sidebar-scroll-top', '0')")
    page.goto(page.url.replace("index.html", CHAPTER_PAGES[-1]))
    current = page.locator(".bd-sidebar-primary li.current.active > a").last
    box = current.bounding_box()
    assert 0 < box["y"] < page.viewport_size["height"]


@pytest.mark.weekly
@pytest.mark.parametrize("path", [*DAILY, "search.html"])
def test_axe_core_finds_the_same_on_a_wide_page_with_its_contrast(path, visit):
    page = visit(path)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(LIGHTEN)
    for name in ("dark", "light"):
        mode(page, name)
        assert not (found := violations(page, contrast=True)), "\n".join(found)


@pytest.mark.parametrize("path", daily(CHAPTER_PAGES, CHAPTER))
def test_on_a_phone(path, browser, site):
    """Verdicts are seen, wide formulas say so, a finger moves a slider, a figure is enlarged."""
    with browser.new_context(**PHONE) as context, watched(context, site) as visit:
        page = visit(path)
        page.evaluate(UNFOLD)
        for width in (390, 320):
            page.set_viewport_size({"width": width, "height": 700})
            becomes_empty(page, CUT)
            becomes_empty(page, WIDE)
        for figure in page.locator("figure.mf-frames").all():
            slider = figure.locator("input[type=range]")
            slider.scroll_into_view_if_needed()
            place = slider.bounding_box()
            assert place["height"] >= 24 and place["width"] >= 120
            for end, value in ((0.98, slider.get_attribute("max")), (0.02, "0")):
                page.touchscreen.tap(
                    place["x"] + end * place["width"], place["y"] + place["height"] / 2
                )
                assert slider.input_value() == value
            picture = figure.locator(".mf-scroll").bounding_box()
            assert picture["x"] >= 0 and 200 <= picture["width"] <= 320 - picture["x"]
        # by keyboard, at the width that it was drawn for; Escape closes, and the focus is back
        pictures = page.locator(
            "article :is(.cell_output, figure) img:not(.mf-frames-all img, .mf-explore img)"
        )
        buttons = page.locator(".mf-enlarge")
        assert buttons.count() == pictures.count() > 0
        # a picture has a hundred pixels an inch: letters of 8 points, the smallest, are 9 pixels
        shown = pictures.evaluate_all(
            "all => all.map(e => 2 * e.getBoundingClientRect().width / e.naturalWidth)"
        )
        assert min(shown) * 8 / 72 * 100 >= 9, shown
        picture, button = pictures.last, buttons.last
        drawn = picture.evaluate("e => parseFloat(e.style.width) || e.getAttribute('width')")
        button.press("Enter")
        large = page.locator(".mf-dialog img")
        large.wait_for()
        assert large.get_attribute("alt") == picture.get_attribute("alt")
        assert large.bounding_box()["width"] >= max(float(drawn or 0), 280) - 1
        page.keyboard.press("Escape")
        large.wait_for(state="hidden")
        assert button.evaluate("e => e === document.activeElement")


@pytest.mark.weekly
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


@pytest.mark.weekly
@pytest.mark.parametrize("path", [*DAILY, "search.html?q=softmax"])
def test_page_works_from_disk(path, browser):
    """As from a USB stick."""
    with browser.new_context() as context, watched(context, SITE.as_uri() + "/") as visit:
        page = visit(path)
        page.evaluate(UNFOLD)
        becomes_empty(page, UNSET)
        if path in CHAPTER_PAGES:
            obey_the_keyboard(page, path)
        if "?" in path:
            page.wait_for_selector("#search-results li a")
