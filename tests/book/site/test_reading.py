"""What helps reading, in the rendered book: addresses, indexes, origins, reports, launch links."""

import json
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlsplit

import pytest
from rendered import SITE, parsed

from tools import anchors
from tools.chapters import (
    BOOK,
    anchor,
    chapters,
    check_cells,
    figures,
    is_stored,
    read,
    statements,
    text,
)
from tools.set_address import address, binder
from tools.wrong_programs import stored

NOTEBOOKS = chapters()
pytestmark = pytest.mark.slow

# Every numbered item of the two papers, as their texts have them.
PAPER = {
    "Lemma": "2.1",
    "Assumption": "3.1 3.2",
    "Proposition": "3.4 6.9",
    "Theorem": "4.1 4.3 5.2 6.1 6.3 6.6 6.10 7.1 7.5 7.8",
    "Definition": "5.1",
    "Remark": "3.3 3.5 4.2 5.3 6.2 6.4 6.5 6.7 6.8 6.11 6.12 6.13 7.2 7.3 7.4 7.6 7.7 7.9",
}
SECOND_PAPER = {
    "Theorem": "3.1 3.2 3.3 3.5",
    "Corollary": "3.6",
    "Proposition": "3.7 6.1",
    "Lemma": "5.1 5.3",
    "Remark": "3.4 5.2 5.4 5.5 5.6 6.2",
    "Figure": "1 3 4 5 6 7 8 9 10 11 12",
}


@cache
def ids(name):
    """Elements of a page by their ids; a search for each would read the page each time."""
    return {element["id"]: element for element in reversed(parsed(name).find_all(id=True))}


@pytest.mark.parametrize("prefix, items", [("hy-", PAPER), ("agr-", SECOND_PAPER)])
def test_every_numbered_item_of_the_papers_is_listed(prefix, items):
    """The titles of statements.yml, 'Remarks 6.7 and 6.8' among them, name every item."""
    listed = {
        (match[1], number)
        for statement in statements()
        if statement.id.startswith(prefix)
        for match in [re.match(r"(\w+?)s? \d", statement.number.partition(",")[0])]
        if match
        for number in re.findall(r"\d+(?:\.\d+)?", statement.number.partition(",")[0])
    }
    wanted = {(kind, number) for kind, numbers in items.items() for number in numbers.split()}
    assert not wanted - listed


def test_permanent_addresses_stay_and_lead_to_the_statement():
    """What follows an anchor is the box, or the cell, of that statement."""
    here = set(anchors.present())
    assert not set(anchors.promised()) - here, "an address that was promised is gone"
    assert not here - set(anchors.promised()), "new addresses: run tools/anchors.py"
    for statement in statements():
        check = anchor(statement.id, 1)
        assert {f"{statement.chapter}.html#{name}" for name in (statement.id, check)} <= here
        target = ids(statement.chapter).get(statement.id)
        if target.name == "div":
            assert {"proof", "admonition"} & set(target["class"])
        else:
            order = list(reversed(ids(statement.chapter)))
            after = order[order.index(statement.id) :]
            assert next(name for name in after if name.startswith("check-")) == check


def test_indexes_are_complete():
    index, first, listed = parsed("statements"), parsed("index"), parsed("figures")
    for statement in statements():
        link = f"{statement.chapter}.html#{anchor(statement.id, 1)}"
        # the map above the tables leads to statements too
        places = [a.find_parent("tr") for a in index.find_all("a", href=link)]
        row = next(filter(None, places)).find_all("td")
        row = [cell.get_text().strip() for cell in row]
        assert row[2] not in ("", "not run") and row[4].endswith("s"), statement.id
        assert statement.number in {a.get_text() for a in first.find_all("a", href=link)}
        if statement.number.startswith("Figure "):
            assert statement.figures, f"{statement.id} names no figure of ours"
            table = listed.find("table")
            for name in (anchor(statement.id, 1), *statement.figures):
                assert table.find("a", href=f"{statement.chapter}.html#{name}")


def test_figures_are_listed_with_their_anchors_and_data():
    listed = parsed("figures")
    for notebook in NOTEBOOKS:
        links = {a["href"] for a in parsed(notebook.stem).find_all("a", string="Data (CSV)")}
        for figure in figures(notebook):
            row = listed.find_all("a", href=f"{figure.chapter}.html#{figure.name}")[-1]
            row = row.find_parent("tr")
            assert f"make figure NAME={figure.name}" in row.get_text()
            assert re.search(r"\d s$", row.find_all("td")[1].get_text().strip()), figure.name
            assert figure.name in ids(notebook.stem)
            if not is_stored(figure.name):
                continue
            assert (SITE / row.find_all("td")[2].a["href"]).is_file()
            assert f"data/{figure.name}.csv" in links
            assert (SITE / "data" / f"{figure.name}.csv").is_file()


def test_every_statement_can_be_cited_and_reported():
    """The links under a statement: its address; where there is one to report to, the place."""
    for statement in statements():
        found = ids(statement.chapter)
        box = found[statement.id]
        if box.name == "div":
            here = box.find("a", string="Permalink")["href"].removeprefix("#")
            assert here in found, "the permanent address leads nowhere"
        link = found[anchor(statement.id, 1)].find("a", string="Report an error")
        if not address():
            assert link is None, "an error can be reported nowhere yet"
            continue
        assert link["href"].startswith(f"{address()}/issues/new?")
        filled = parse_qs(urlsplit(link["href"]).query)
        assert statement.number in filled["title"][0]
        assert f"{statement.chapter}.html#{anchor(statement.id, 1)}" in filled["body"][0]
        assert "Built from commit" in filled["body"][0]
        if box.name == "div":
            assert box.find("a", string="Report an error")


def test_wrong_programs_are_named_under_the_checks():
    """Each with a row of the table above it, or with words that several rows have."""
    caught = stored()
    for notebook in NOTEBOOKS:
        named = {}
        for cell in check_cells(notebook):
            place = ids(notebook.stem).get(cell.anchor)
            shown = place.find("details", class_="mf-caught")
            if shown is None:
                continue
            named[cell.cell_id] = [line.td.get_text() for line in shown.tbody.find_all("tr")]
            count = len(named[cell.cell_id])
            assert shown.summary.get_text().split()[4] == (str(count) if count > 1 else "one")
            table = place.find("table", class_="mf-check")
            rows = [line.td.get_text() for line in table.tbody.find_all("tr")]
            for line in shown.tbody.find_all("tr"):
                fails = line.find_all("td")[1].get_text()
                words = re.fullmatch(r"one of \d+ rows with “(.*)”", fails)
                several = words and sum(words[1] in row for row in rows) > 1
                assert fails in rows or several, (cell.cell_id, fails)
        assert named == {cell: list(wrong) for cell, wrong in caught.get(notebook.stem, {}).items()}


@pytest.mark.parametrize("name", ["index", "notation", *(path.stem for path in NOTEBOOKS)])
def test_page_says_where_it_comes_from_and_a_chapter_can_be_launched(name):
    origin = parsed(name).find(class_="mf-origin").get_text()
    assert re.search(r"Built from commit ([0-9a-f]{10}\+?|unknown)", origin)
    assert "mfbook" in origin and "Sphinx" in origin
    if name in ("index", "notation"):
        return
    seconds = json.loads((BOOK / "timings.json").read_text())[name]["seconds"]
    assert f"{seconds:.2g} s in all" in origin and "numpy" in origin.lower()
    links = [a.get("href", "") for a in parsed(name).find_all("a")]
    colab = any(link.startswith("https://colab.research.google.com/") for link in links)
    if address():
        assert colab
        assert binder(address()) + f"/main?urlpath=lab/tree/book/{name}.ipynb" in links
    else:
        assert not colab and not any(re.search("mybinder|/OWNER/", link) for link in links)
    assert f"_sources/{name}.ipynb" in links
    stored = json.loads((SITE / "_sources" / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert stored == read(BOOK / f"{name}.ipynb")


def test_symbols_are_linked_both_ways():
    """Rows of the notation page lead to chapters, and chapters to the rows of their symbols."""
    rows = parsed("notation").find_all("tr", id=re.compile("^symbol-"))
    assert len(rows) > 80
    from_chapters = {
        a["href"].removeprefix("notation.html#")
        for path in NOTEBOOKS
        for line in parsed(path.stem).find_all(class_="mf-symbols")
        for a in line.find_all("a")
    }
    assert from_chapters <= {row["id"] for row in rows}
    for row in rows:
        assert row.find_all("td")[4].a is not None and row["id"] in from_chapters, row["id"]


def test_first_cell_prepares_colab_and_nothing_else(monkeypatch, tmp_path):
    """On Colab it fetches the book and goes to its chapters; elsewhere it does nothing.

    While there is no public address it says so; with one, the same cell clones it.
    """
    first = [next(c for c in read(path)["cells"] if c["cell_type"] == "code") for path in NOTEBOOKS]
    assert all(cell["metadata"]["tags"] == ["remove-cell"] for cell in first)
    (source,) = {text(cell["source"]) for cell in first}
    called = []

    def run(command, **options):
        called.append(command)
        if command[0] == "git":
            (tmp_path / command[-1] / "book").mkdir(parents=True)

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.chdir(tmp_path)
    exec(compile(source, "colab", "exec"), {})
    assert not called and Path.cwd() == tmp_path
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    if not address():
        with pytest.raises(RuntimeError, match="no public address yet"):
            exec(compile(source, "colab", "exec"), {})
    url = address() or "https://github.com/someone/mfbook"
    source = source.replace('ADDRESS = ""', f'ADDRESS = "{url}"')
    exec(compile(source, "colab", "exec"), {})
    assert called[0][:2] == ["git", "clone"] and url in called[0]
    assert called[1][1:4] == ["-m", "pip", "install"]
    assert Path.cwd() == tmp_path / "mfbook" / "book"
    (Path.cwd() / "statements.yml").touch()
    exec(compile(source, "colab", "exec"), {})
    assert len(called) == 2, "a second run fetches nothing"
