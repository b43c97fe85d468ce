"""What a page shows at first, and the switch that opens the rest."""

import re

import pytest
from rendered import CHAPTER_PAGES, parsed

from tools.chapters import ROOT, chapters, check_cells, read, statements, text
from tools.turns import changed

NOTEBOOKS = chapters()


def is_to_try(cell):
    shown = (text(o.get("data", {}).get("text/html", "")) for o in cell["outputs"])
    return any('class="mf-try-it"' in markup for markup in shown)


@pytest.mark.by_turn(always=changed(), one=1)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_check_is_one_line_that_opens_to_its_table(notebook):
    """The line says what the stored check says."""
    numbers, soup = {s.id: s.number for s in statements()}, parsed(notebook.stem)
    for cell in check_cells(notebook):
        fold = soup.find(id=cell.anchor).find("details", class_="mf-check")
        assert not fold.has_attr("open")
        line, rows = fold.summary.get_text(), fold.find("table", class_="mf-check").tbody("tr")
        verdict = "holds" if cell.check["holds"] else "fails"
        assert line.startswith(f"Check of {numbers[cell.statement]}: {verdict} · ")
        assert f"{len(rows)} row" in line and len(rows) == len(cell.check["rows"])
        wrong = fold.find("details", class_="mf-caught")
        assert (
            (f"fails for {len(wrong.tbody('tr'))} wrong" in line) if wrong else "wrong" not in line
        )
        assert fold.find("details", class_="mf-code"), "the check's code is in the fold"


@pytest.mark.by_turn(always=changed(), one=1)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_code_is_folded_unless_it_is_the_mathematics(notebook):
    cells = {cell["id"]: cell for cell in read(notebook)["cells"] if cell["cell_type"] == "code"}
    # solutions are folded as a whole, with their exercise
    whole = {"hide-cell", "remove-cell"}
    kept_cells = [c for c in cells.values() if not whole & set(c["metadata"].get("tags", ()))]
    kept = [cell["metadata"] for cell in kept_cells]
    own = [metadata.get("mfbook", {}) for metadata in kept]
    tried = [o for o, cell in zip(own, kept_cells, strict=True) if is_to_try(cell)]
    soup = parsed(notebook.stem)
    folded = soup.find_all("details", class_="mf-code")
    assert len(folded) == len(own) - sum(bool(o.get("open")) for o in own)
    lines = [fold.summary.get_text() for fold in folded]
    words = [re.fullmatch(r"(.*?) ?\d+ lines? of code", line)[1] for line in lines]
    said = [o["does"] for o in own if o.get("does") and o not in tried]
    assert list(filter(None, words)) == said


@pytest.mark.by_turn(always=changed(), one=1)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_moves_only_in_jupyterlab_is_folded_under_what_it_does_there(notebook):
    """The question before it, the figures of the page and what one can touch are not."""
    soup = parsed(notebook.stem)
    does = [
        cell["metadata"]["mfbook"]["does"]
        for cell in read(notebook)["cells"]
        if cell["cell_type"] == "code" and is_to_try(cell)
    ]
    folds = soup.find_all("details", class_="mf-try")
    lines = [fold.summary.get_text(strip=True) for fold in folds]
    assert lines == [f"Try it in JupyterLab: {d[0].lower()}{d[1:]}" for d in does]
    pictures = soup.find_all("figure", class_="mf-try-it")
    assert [p.find_parent("details", class_="mf-fold") for p in pictures] == folds
    assert not any(fold.has_attr("open") for fold in folds)
    assert not any(fold.find(class_="mf-explore") for fold in folds)


@pytest.mark.by_turn(always=changed(), one=1)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_mistakes_that_a_check_notices_stand_in_its_fold(notebook):
    soup, written = parsed(notebook.stem), 0
    for cell in read(notebook)["cells"]:
        written += text(cell["source"]).startswith("*This check fails")
    found = soup.find_all("p", class_="mf-mistakes")
    assert len(found) == written
    assert all("mf-check" in line.parent["class"] for line in found)


@pytest.mark.browser
@pytest.mark.by_turn(one=3)
def test_the_switch_opens_all_and_is_remembered(site, browser):  # noqa: F811
    context = browser.new_context()
    tab = context.new_page()
    closed = "document.querySelectorAll('details.mf-fold:not([open])').length"
    tab.goto(site + CHAPTER_PAGES[-1])
    every = tab.evaluate("document.querySelectorAll('details.mf-fold').length")
    assert every > 5 and tab.evaluate(closed) == every
    # by keyboard: the switch is reached and pressed
    tab.get_by_role("button", name="With code").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate(closed) == 0
    pressed = tab.get_by_role("button", name="With code").get_attribute("aria-pressed")
    assert pressed == "true"
    tab.goto(site + CHAPTER_PAGES[-2])
    assert tab.evaluate(closed) == 0, "the next page remembers it"
    tab.get_by_role("button", name="Read").click()
    tab.reload()
    assert tab.evaluate(closed) == tab.evaluate(
        "document.querySelectorAll('details.mf-fold').length"
    )
    context.close()


@pytest.mark.browser
def test_a_link_to_a_check_opens_it(site, browser):  # noqa: F811
    cell = check_cells(ROOT / "book" / "04-static.ipynb")[0]
    tab = browser.new_page()
    tab.goto(f"{site}04-static.html#{cell.anchor}")
    assert tab.locator(f"[id='{cell.anchor}'] table.mf-check").first.is_visible()
    tab.close()


@pytest.mark.browser
def test_without_a_script_folds_open_by_hand_and_there_is_no_switch(site, browser):  # noqa: F811
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(site + CHAPTER_PAGES[0])
    assert not tab.locator(".mf-switch").is_visible()
    fold = tab.locator("details.mf-check").first
    fold.locator("summary").first.click()
    assert fold.locator("table.mf-check").is_visible()
    context.close()
