"""The stored notebooks: executed, complete, normalised, and one check for every statement.

Whether the stored numbers are right is nbval's question; here the question is whether there is
anything for it to compare.
"""

import importlib
import pkgutil
import re

import pytest
import yaml
from prose import shown

import mfbook
from tools.chapters import (
    BOOK,
    CHECK_MIME,
    ROOT,
    chapters,
    check_cells,
    read,
    statements,
    stored_checks,
    text,
)
from tools.run_notebooks import METADATA

CHAPTERS = {path.stem: read(path) for path in chapters()}
#: All code cells, by chapter and name.
CODE = {
    f"{name}, {cell['id']}": cell
    for name, notebook in CHAPTERS.items()
    for cell in notebook["cells"]
    if cell["cell_type"] == "code"
}
LISTED = statements()
#: What the metadata of a cell say about it.
KEYS = {
    "derived",
    "does",
    "names",
    "numbers",
    "open",
    "settings",
    "setup",
    "statement",
    "table",
    "wrong",
}
KINDS = {"text/plain", "text/html", "image/png", CHECK_MIME}


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def rendered(output) -> str:
    """Everything a reader can see of an output, as text."""
    if output["output_type"] == "stream":
        return text(output["text"])
    return "\n".join(text(output["data"].get(kind, "")) for kind in ("text/plain", "text/html"))


def images(cell) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell["outputs"])


def test_every_chapter_is_in_the_table_of_contents():
    toc = yaml.safe_load((BOOK.parent / "_toc.yml").read_text())
    files = {entry["file"] for part in toc["parts"] for entry in part["chapters"]}
    assert set(CHAPTERS) <= files


#: What makes nbval look away: in the source of a cell, or among its tags.
LOOKS_AWAY = re.compile(r"\b(?:NBVAL_\w+|nbval-[\w-]+|raises-exception|skip-execution)\b")


def test_cells_were_run_and_say_what_they_print():
    for where, cell in CODE.items():
        source = text(cell["source"])
        assert source.strip(), f"{where}: an empty cell"
        assert cell["execution_count"], f"{where}: never run, it would always pass nbval"
        for output in cell["outputs"]:
            assert output["output_type"] != "error", where
            assert output.get("name") != "stderr", (where, text(output.get("text", "")))
            assert set(output.get("data", {})) <= KINDS, where
        if re.search(r"\b(print|table|check|display)\(", source):
            assert cell["outputs"], f"{where}: the cell prints, but nothing is stored"
        assert not LOOKS_AWAY.search(" ".join([source, *cell["metadata"].get("tags", [])])), where


def test_figure_cells_have_alt_texts_captions_and_one_image():
    for where, cell in CODE.items():
        figure = cell["metadata"].get("mystnb", {})
        if images(cell) or figure:
            assert images(cell) == len(cell["outputs"]) == 1, where
            assert len(figure["image"]["alt"]) >= 30, f"{where}: say what is to be seen"
            assert len(figure["figure"]["caption"]) >= 30, where
            assert figure["figure"]["name"].startswith("fig-"), where


def test_figures_have_names_of_their_own():
    cells = [cell for notebook in CHAPTERS.values() for cell in code_cells(notebook)]
    figures = [cell["metadata"].get("mystnb", {}).get("figure") for cell in cells]
    names = [figure["name"] for figure in figures if figure]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


def test_pictures_inside_html_have_alt_texts():
    for where, cell in CODE.items():
        for output in cell["outputs"]:
            for tag in re.findall(r"<img\b[^>]*>", rendered(output)):
                assert re.search(r'\balt="[^"]{10,}"', tag), (where, tag[:60])


def test_code_fits_the_page_and_a_screen():
    for where, cell in CODE.items():
        lines = text(cell["source"]).splitlines()
        assert max(map(len, lines)) <= 100 and len(lines) <= 46, where


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_in_order(name):
    """Executed from the top, with metadata that mean something, and no path of a machine."""
    notebook = CHAPTERS[name]
    counts = [cell["execution_count"] for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert notebook["metadata"] == METADATA
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    for cell in notebook["cells"]:
        assert set(cell["metadata"]) <= {"mfbook", "mystnb", "tags"}
        own = cell["metadata"].get("mfbook", {})
        assert set(own) <= KEYS

    here = re.escape(str(ROOT))
    for pattern in (r"/home/\w", r"/Users/\w", r"/tmp/", r"/root/", r"\.venv", here):
        assert not re.search(pattern, str(notebook)), pattern


def test_every_chapter_has_an_interactive_figure():
    for name, notebook in CHAPTERS.items():
        outputs = [output for cell in code_cells(notebook) for output in cell["outputs"]]
        assert any(re.search('class="mf-(frames|explore)', rendered(out)) for out in outputs), name


def test_numbers_in_prose_come_from_outputs():
    """A text cell lists the computed numbers it quotes; each stands in it and in an output."""
    for name, notebook in CHAPTERS.items():
        for cell in notebook["cells"]:
            for number in cell["metadata"].get("mfbook", {}).get("numbers", []):
                literal = re.compile(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)")
                where = f"{number}, {name}, {cell['id']}"
                assert literal.search(text(cell["source"])), f"{where}: not in the text"
                assert shown(BOOK / f"{name}.ipynb", number), f"{where}: in no output"


def test_statements_are_listed_once():
    ids = [statement.id for statement in LISTED]
    assert len(ids) == len(set(ids))
    assert {statement.chapter for statement in LISTED} <= set(CHAPTERS)


def test_every_statement_has_a_cell_whose_check_holds():
    checked = {name: check_cells(BOOK / f"{name}.ipynb") for name in CHAPTERS}
    for statement in LISTED:
        cells = [cell for cell in checked[statement.chapter] if cell.statement == statement.id]
        assert cells, f"no cell in {statement.chapter} has the metadata of {statement.id}"
        for cell in cells:
            where = f"{statement.id}, {cell.cell_id}"
            assert cell.check is not None, f"{where} stores no check"
            assert cell.check["statement"] == statement.id and cell.check["rows"], where
            assert cell.check["holds"] is True or "not met" in cell.check["verdict"], where


def test_check_cells_are_listed_assert_and_store_one_check():
    known = {statement.id for statement in LISTED}
    for where, cell in CODE.items():
        name = cell["metadata"].get("mfbook", {}).get("statement")
        stored = stored_checks(cell)
        if name is None:
            assert not stored, f"{where}: a check outside a statement's cell is in no index"
            continue
        assert name in known and len(stored) == 1, where
        assert text(cell["source"]).strip().splitlines()[-1].startswith("assert "), where


def test_names_on_the_notation_page_exist():
    symbols, _, _ = (BOOK / "notation.md").read_text().partition("(glossary)=")
    column = re.findall(r"`([^`]+)`", symbols)
    names = {name for code in column for name in re.findall(r"\b([a-z]\w+)\(", code)}
    public = {name for path in (ROOT / "mfbook").rglob("*.py")
              for name in re.findall(r"def (\w+)\(", path.read_text())}  # fmt: skip
    assert "frank_wolfe_gap" in names
    assert names <= public


def test_api_pages_cover_every_public_name():
    """What a room offers at its door stands on a page, and each page in the list of pages."""
    pages = sorted((BOOK / "api").glob("*.md"))
    documented = [
        importlib.import_module(name)
        for page in pages
        for name in re.findall(r"automodule:: (\S+)", page.read_text())
    ]
    shown = {id(getattr(m, name)) for m in documented for name in getattr(m, "__all__", ())}
    rooms = [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(mfbook.__path__, "mfbook.")
        if info.ispkg or info.name.count(".") == 1
    ]
    for room in [mfbook, *rooms]:
        missing = [n for n in getattr(room, "__all__", ()) if id(getattr(room, n)) not in shown]
        assert not missing, f"{room.__name__}: {missing}"
    listed = (BOOK / "api.md").read_text()
    for page in pages:
        assert f"(api/{page.name})" in listed


def named(cell: str) -> set[str]:
    """The pages that a cell of a table names: Chapters 2 to 4, 6, Appendix A, the primer."""
    found = {"b-primer"} if "primer" in cell else set()
    for letter in re.findall(r"Appendix ([A-D])\b", cell):
        found |= {name for name in CHAPTERS if name.startswith(f"{letter.lower()}-")}
    for numbers in re.findall(r"Chapters? ((?:\d(?:, | and | to )?)+)", cell):
        chosen = set(map(int, re.findall(r"\d", numbers)))
        for first, last in re.findall(r"(\d) to (\d)", numbers):
            chosen |= set(range(int(first), int(last) + 1))
        found |= {name for name in CHAPTERS if name[:2].isdigit() and int(name[:2]) in chosen}
    return found


def part_of(page: str) -> str:
    """The number of a chapter, or the letter of an appendix, of a page."""
    return re.match(r"\d+|[a-d]", page)[0]


def test_letters_that_clash_stand_where_the_page_says():
    formulas = {
        name: " ".join(
            part
            for cell in notebook["cells"]
            if cell["cell_type"] == "markdown"
            for part in re.findall(r"\$\$.*?\$\$|\$[^$]+\$", text(cell["source"]), re.DOTALL)
        )
        for name, notebook in CHAPTERS.items()
    }
    table = (BOOK / "notation.md").read_text(encoding="utf-8").partition("(notation-clashes)=")[2]
    rows = re.findall(r"^\| \$([^$]+)\$ \| (.*) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 40
    assert len({letters for letters, *_ in rows}) == len(rows), "a letter has one row"
    for letters, *cells in rows:
        for letter in letters.split(", "):
            used = re.compile(rf"(?<![A-Za-z\\]){re.escape(letter)}(?![A-Za-z])")
            for place in set().union(*map(named, cells)):
                # a page beside a chapter belongs to it, as the pages of Appendix A to each other
                alike = [n for n in CHAPTERS if part_of(n) == part_of(place)]
                assert any(used.search(formulas[n]) for n in alike), (letter, place)
