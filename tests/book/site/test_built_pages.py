"""All pages of the rendered book without a browser: what stands where, and where links lead."""

import html
import json
import re
import tomllib
from collections import Counter
from functools import cache
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from rendered import LISTINGS, PAGES, SITE, parsed
from sphinxcontrib import katex

from tools.chapters import (
    BOOK,
    ROOT,
    anchor,
    chapters,
    check_cells,
    figures,
    is_stored,
    own_row,
    read,
    statements,
    text,
    wrong_programs,
)

NOTEBOOKS = chapters()
#: Left in the text where the markup of a formula, a role or a citation was not understood.
LITERAL = re.compile(r"\$|\\[(\[]|\{(prf:|ref|eq|cite|doc|numref)")


def words_of(element) -> str:
    return " ".join(element.get_text().split())


def bare(text: str) -> str:
    """Words without the marks of indices and powers, which a page sets."""
    return re.sub(r"[_^()]", "", " ".join(text.split()))


@cache
def ids(name):
    """Elements of a page by their ids; a search for each would read the page each time."""
    return {element["id"]: element for element in reversed(parsed(name).find_all(id=True))}


def built_pages():
    found = (path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    return {str(path.relative_to(SITE)) for path in found}


def test_pages_are_those_of_the_sources():
    """What the tests know from the sources and visit is what is built."""
    found = built_pages()
    assert {path for path in found if not path.startswith("_modules/")} == set(PAGES)
    assert set(LISTINGS) <= found


def test_links_and_anchors_lead_somewhere():
    pages = {path: (SITE / path).read_text(encoding="utf-8") for path in built_pages()}
    anchors = {p: set(re.findall(r'\s(?:id|name)="([^"]+)"', page)) for p, page in pages.items()}
    broken = []
    for path, page in pages.items():
        for link in map(html.unescape, set(re.findall(r'<a\s[^>]*?href="([^"]+)"', page))):
            target, place = urldefrag(urljoin(f"/{path}", link))
            if urlsplit(target).scheme:
                continue
            target = unquote(target.split("?")[0]).lstrip("/")
            if not (SITE / target).is_file():
                broken.append(f"{path}: no file for {link}")
            elif place and target in anchors and unquote(place) not in anchors[target]:
                broken.append(f"{path}: no anchor for {link}")
    assert not broken, "\n".join(broken)


def is_heading(element) -> bool:
    """Within a box a heading of the source is a rubric."""
    return re.fullmatch("h[1-6]", element.name) or "rubric" in (element.get("class") or ())


def is_box(element) -> bool:
    boxes = {"admonition", "proof", "exercise", "solution"}
    return element.name == "details" or bool(boxes & set(element.get("class") or ()))


def is_literal(element) -> bool:
    """Whether its text is code. Formulas are set, so that their TeX would be seen."""
    classes = element.get("class") or ()
    return element.name in ("pre", "code", "script") or "sig" in classes


def complaints(path: str):
    """What is wrong with the markup of a page."""
    soup = parsed(path.removesuffix(".html"))
    # the theme's, twice on its search page
    repeated = Counter(e["id"] for e in soup.find_all(id=True) if e["id"] != "search-input")
    yield from (f"the id {name} is there twice" for name, n in repeated.items() if n > 1)
    yield from (f"no alt text: {e.get('src')}" for e in soup.find_all("img", alt=None))
    article = soup.find("article") or soup.body
    for heading in article.find_all(is_heading):
        if any(map(is_box, heading.parents)):
            yield f"a heading in a box: {words_of(heading)}"
    for figure in article.find_all("figure"):
        shown = [e for e in figure.find_all("img") if not e.find_parent("details", "mf-frames-all")]
        if len(shown) != 1 or len(figure.find_all("figcaption")) != 1:
            yield f"not one picture and one caption: {words_of(figure)[:80]}"
    for piece in article.find_all(string=LITERAL):
        if not any(map(is_literal, piece.parents)):
            yield f"markup is left: {piece.strip()[:80]}"


def test_markup_of_every_page():
    """Ids, alt texts, headings, captions, and no markup left in the text."""
    found = [f"{path}: {what}" for path in PAGES for what in complaints(path)]
    assert not found, "\n".join(found)


# Every numbered item of the two papers, as their texts have them.
PAPERS = {
    "hy-": {
        "Lemma": "2.1", "Assumption": "3.1 3.2", "Proposition": "3.4 6.9", "Definition": "5.1",
        "Theorem": "4.1 4.3 5.2 6.1 6.3 6.6 6.10 7.1 7.5 7.8",
        "Remark": "3.3 3.5 4.2 5.3 6.2 6.4 6.5 6.7 6.8 6.11 6.12 6.13 7.2 7.3 7.4 7.6 7.7 7.9",
    },
    "agr-": {
        "Theorem": "3.1 3.2 3.3 3.5", "Corollary": "3.6", "Proposition": "3.7 6.1",
        "Lemma": "5.1 5.3", "Remark": "3.4 5.2 5.4 5.5 5.6 6.2",
        "Figure": "1 3 4 5 6 7 8 9 10 11 12",
    },
}  # fmt: skip


@pytest.mark.parametrize("paper", PAPERS)
def test_every_numbered_item_of_the_papers_is_a_statement(paper):
    """The titles of statements.yml, 'Remarks 6.7 and 6.8' among them, name every item."""
    titles = [s.number.partition(",")[0] for s in statements() if s.id.startswith(paper)]
    listed = {
        (match[1], number)
        for title in titles
        if (match := re.match(r"(\w+?)s? \d", title))
        for number in re.findall(r"\d+(?:\.\d+)?", title)
    }
    wanted = {(kind, n) for kind, numbers in PAPERS[paper].items() for n in numbers.split()}
    assert not wanted - listed


def test_every_statement_has_its_box_its_check_and_its_place_in_the_indexes():
    # the map above the tables leads to checks too
    links = parsed("statements").find_all("a", href=re.compile("#check-"))
    rows = {a["href"]: [words_of(td) for td in row("td")]
            for a in links if (row := a.find_parent("tr"))}  # fmt: skip
    numbers = {(a.get("href"), a.get_text()) for a in parsed("index").find_all("a")}
    listed = {a.get("href") for a in parsed("figures").find("table").find_all("a")}
    for statement in statements():
        here, check = ids(statement.chapter), anchor(statement.id, 1)
        box, link = here[statement.id], f"{statement.chapter}.html#{check}"
        if box.name == "div":
            assert {"proof", "admonition"} & set(box["class"])
            permalink = box.find("a", string="Permalink")["href"].removeprefix("#")
            assert permalink in here, "the permanent address leads nowhere"
        else:  # what follows the anchor is the cell
            order = list(reversed(here))
            after = order[order.index(statement.id) :]
            assert next(name for name in after if name.startswith("check-")) == check
        assert rows[link][2] not in ("", "not run"), statement.id
        assert (link, statement.number) in numbers, f"{statement.id} is not on the first page"
        if statement.number.startswith("Figure "):
            assert statement.figures, f"{statement.id} names no figure of ours"
            for name in (statement.id, *statement.figures):
                assert f"{statement.chapter}.html#{name}" in listed


def test_mathematics_in_tables_is_set():
    """No letter has its index after an underscore."""
    raw = re.compile(r"(?<![\w])[^\W\d_]_\w|\^[\w(]")
    places = "table[class*=mf-], details > summary"
    for path in PAGES:
        for place in parsed(path.removesuffix(".html")).select(places):
            words = (s for s in place.find_all(string=raw) if not s.find_parent("code"))
            assert not (found := list(map(str, words))), (path, found)


def test_formulas_are_set_by_the_katex_whose_style_is_vendored():
    style = (BOOK / "_vendor" / "katex" / "katex.min.css").read_text()
    assert f'"{katex.katex_version}"' in style


def test_figures_are_listed_with_their_data():
    rows = {
        a["href"]: a.find_parent("tr") for a in parsed("figures").select("tr a[href*='.html#']")
    }
    for figure in (figure for notebook in NOTEBOOKS for figure in figures(notebook)):
        row = rows[f"{figure.chapter}.html#{figure.name}"]
        assert figure.name in ids(figure.chapter)
        if is_stored(figure.name):
            data = f"data/{figure.name}.csv"
            assert row.find("a", href=data) and parsed(figure.chapter).find("a", href=data)


def test_symbols_are_linked_both_ways():
    """Rows of the notation page lead to chapters, and chapters to the rows of their symbols."""
    rows = {row["id"]: row for row in parsed("notation").find_all("tr", id=re.compile("^symbol-"))}
    links = [a for path in NOTEBOOKS for a in parsed(path.stem).select(".mf-symbols a")]
    assert rows and {a["href"].removeprefix("notation.html#") for a in links} == set(rows)
    assert all(row("td")[4].a for row in rows.values())


def test_chapters_say_where_they_come_from_and_can_be_had():
    """Commit, versions and time; the notebook as it is; a launch link where there is an address."""
    times = json.loads((BOOK / "timings.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for path in NOTEBOOKS:
        origin = words_of(parsed(path.stem).find(class_="mf-origin"))
        assert re.search(r"Built from commit ([0-9a-f]{10}\+?|unknown)", origin)
        assert f"{times[path.stem]['seconds']:.2g} s in all" in origin and "numpy" in origin.lower()
        links = " ".join(a.get("href", "") for a in parsed(path.stem).find_all("a"))
        launched = re.search(r"mybinder\.org|colab\.research", links)
        assert bool(launched) == bool(project.get("urls")) and "/OWNER/" not in links
        assert json.loads((SITE / "_sources" / path.name).read_text(encoding="utf-8")) == read(path)


# --- what a chapter folds -------------------------------------------------------------------------


def code_cells(path):
    """The code cells of a chapter that its page shows."""
    hidden = {"hide-cell", "remove-cell"}  # solutions are folded as a whole, with their exercise
    return [
        cell for cell in read(path)["cells"]
        if cell["cell_type"] == "code" and not hidden & set(cell["metadata"].get("tags", ()))
    ]  # fmt: skip


def is_to_try(cell):
    shown = (text(o.get("data", {}).get("text/html", "")) for o in cell["outputs"])
    return any('class="mf-try-it"' in markup for markup in shown)


def test_a_statement_shows_its_cell_its_table_and_a_line_with_its_own_row():
    """The line says what the stored check says; under it is what the check refuses."""
    numbers = {s.id: s.number for s in statements()}
    for path in NOTEBOOKS:
        cells, refused = read(path)["cells"], wrong_programs(read(path))
        mistakes = parsed(path.stem).select("details.mf-check > p.mf-mistakes")
        written = sum(text(cell["source"]).startswith("*This check fails") for cell in cells)
        assert len(mistakes) == written, f"{path.stem}: paragraphs in the folds of checks"
        for cell in check_cells(path):
            place, where = ids(path.stem)[cell.anchor], f"{path.stem}: {cell.cell_id}"
            shown = place.find("table", class_="mf-check")
            for part in (place.find("div", class_="cell_input"), shown):
                assert part and not part.find_parent("details"), where
            names = [bare(words_of(row.td)) for row in shown.tbody("tr")]
            assert names == [bare(row["what"]) for row in cell.check["rows"]], where
            fold = place.find("details", class_="mf-check")
            verdict = "holds" if cell.check["holds"] else "fails"
            what, sides, ratio = own_row(cell.check)
            line = f"{numbers[cell.statement]} · {what}: {sides}{ratio and f' ({ratio})'}"
            assert bare(words_of(fold.summary)) == bare(f"{line} · {verdict}"), where
            wrong = fold.select("details.mf-caught tbody tr")
            pairs = [[words_of(td) for td in row("td")] for row in wrong]
            assert [bare(name) for name, _ in pairs] == [
                bare(w.name) for w in refused.get(cell.cell_id, ())
            ]
            for _, row in pairs:
                several = re.fullmatch(r"one of (\d+) rows with “(.*)”", row)
                count = sum(bare(several[2]) in name for name in names) if several else 0
                assert bare(row) in names or (several and count == int(several[1]) > 1), (
                    where,
                    row,
                )


def test_code_is_folded_unless_it_is_the_mathematics_and_says_what_it_does():
    """A cell to try is folded under what it does in JupyterLab; what one can touch here is not."""
    for path in NOTEBOOKS:
        soup, cells = parsed(path.stem), code_cells(path)
        own = [(cell["metadata"].get("mfbook", {}), is_to_try(cell)) for cell in cells]
        lines = [words_of(fold.summary) for fold in soup.find_all("details", class_="mf-code")]
        lines.remove(next(line for line in lines if line.startswith("Setup: ")))  # one fold
        own = [(mine, tried) for mine, tried in own if not mine.get("setup")]
        assert len(lines) == sum(not mine.get("open") for mine, _ in own), path.stem
        said = [re.fullmatch(r"(.*?) ?\d+ lines? of code", line)[1] for line in lines]
        does = [m["does"] for m, tried in own if m.get("does") and not tried and not m.get("open")]
        said, does = (sorted(map(bare, filter(None, lines))) for lines in (said, does))
        assert said == does, path.stem  # some stand below their picture
        folds = soup.find_all("details", class_="mf-try")
        tries = [mine["does"] for mine, tried in own if tried]
        lines = [words_of(fold.summary) for fold in folds]
        wanted = [bare(f"Try it in JupyterLab: {d[0].lower()}{d[1:]}") for d in tries]
        assert [bare(line) for line in lines] == wanted, path.stem
        pictures = soup.find_all("figure", class_="mf-try-it")
        assert [p.find_parent("details", class_="mf-fold") for p in pictures] == folds
        assert not any(fold.has_attr("open") or fold.find(class_="mf-explore") for fold in folds)


def test_scripts_of_figures_are_loaded_where_they_are_needed():
    scripts = {path.stem for path in (BOOK / "_static" / "explore").glob("*.js")}
    placed = set()
    for path in PAGES:
        soup = parsed(path.removesuffix(".html"))
        own = {figure["data-explore"] for figure in soup.select("[data-explore]")}
        placed |= own
        asked = set(re.findall(r"explore/([\w-]+)\.js", str(soup.find_all("script", src=True))))
        assert asked == (own and own | {"mathematics", "drawing"}), path
    assert placed == scripts - {"mathematics", "drawing"}
