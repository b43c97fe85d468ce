"""The printed book: two pages of the site as one PDF, read back."""

import os
import re
from pathlib import Path

import pytest
from pypdf import PdfReader

from tools import pdf
from tools.chapters import ROOT, check_cells, statements
from tools.pdf import PdfError, listed, print_book

NAMES = ["04-static", "statements"]


def test_every_page_of_the_site_is_listed_once():
    names = [page.name for page in listed()]
    assert names[0] == "index" and len(names) == len(set(names))
    sources = {path.stem for path in (ROOT / "book").iterdir() if path.suffix in (".ipynb", ".md")}
    assert sources == {name for name in names if "/" not in name}
    assert {page.level for page in listed() if "/" in page.name} == {2}


@pytest.mark.parametrize(
    "names, chromium, message",
    [
        (["no-chapter"], pdf.CHROMIUM, "_toc.yml does not list no-chapter"),
        (["02-model"], pdf.CHROMIUM, "not rendered in .*: 02-model .run: make book."),
        ([], "/nowhere/chromium", "no Chromium at /nowhere/chromium .apt-get install chromium"),
    ],
)
def test_what_is_missing_is_said(names, chromium, message, monkeypatch, tmp_path):
    monkeypatch.setattr(pdf, "CHROMIUM", chromium)
    for page in listed() if not names else ():
        file = tmp_path / f"{page.name}.html"
        file.parent.mkdir(exist_ok=True)
        file.touch()
    with pytest.raises(PdfError, match=message):
        print_book(tmp_path, names, tmp_path / "book.pdf")


@pytest.fixture(scope="module")
def ready():
    """Skip, or fail where skipping would hide that nothing is tested."""
    for path, remedy in (
        (pdf.SITE / "index.html", "the site is not built: make book"),
        (Path(pdf.CHROMIUM), "no Chromium (apt-get install chromium, or set CHROMIUM)"),
    ):
        if not path.exists():
            (pytest.fail if os.environ.get("CI") else pytest.skip)(remedy)


@pytest.fixture(scope="module")
def printed(ready, tmp_path_factory):
    """What was printed, its file, and the text of its pages."""
    file = tmp_path_factory.mktemp("pdf") / "part.pdf"
    result = print_book(pdf.SITE, NAMES, file)
    with PdfReader(file) as reader:
        texts = [re.sub(r"\s+", " ", page.extract_text()) for page in reader.pages]
        yield result, reader, texts


@pytest.mark.browser
@pytest.mark.weekly
class TestPart:
    def test_pages_are_counted_and_numbered(self, printed):
        result, reader, texts = printed
        assert result.pages == len(reader.pages) > 20
        assert {tuple(round(float(n)) for n in page.mediabox[2:]) for page in reader.pages} == {
            (595, 842)
        }
        for number, text in enumerate(texts[1:], 2):
            assert re.search(rf"\b{number}\b", text)

    def test_nothing_is_clipped(self, printed):
        result, _, _ = printed
        assert result.clipped == ()
        assert all(size > 0.6 for _, size in result.smaller)

    def test_title_page_names_the_book(self, printed):
        _, reader, texts = printed
        for words in ("Attention heads as particles", "Version", "CC BY 4.0", "arXiv:2606.10469"):
            assert words in texts[0]
        assert reader.metadata.title == "Attention heads as particles"
        assert reader.metadata.author
        assert reader.trailer["/Root"]["/Lang"] == "en"

    def test_contents_give_the_pages_of_the_headings(self, printed):
        result, _, texts = printed
        contents = " ".join(texts[1 : result.page_of[result.entries[1].anchor] - 1])
        checked = 0
        for entry in result.entries:
            if entry.level and entry.title.isascii():
                title = re.escape(entry.title)
                numbers = [int(n) for n in re.findall(rf"{title}[ .…]*(\d+)(?!\d)", contents)]
                assert result.page_of[entry.anchor] in numbers, entry
                assert entry.title in texts[result.page_of[entry.anchor] - 1]
                checked += 1
        assert checked > 5

    def test_no_heading_ends_a_page(self, printed):
        result, _, texts = printed
        for entry in result.entries:
            if entry.level and entry.title.isascii():
                assert not texts[result.page_of[entry.anchor] - 1].rstrip().endswith(entry.title)

    def test_outline_is_the_table_of_contents(self, printed):
        result, reader, _ = printed
        lines = []

        def walk(items):
            for item in items:
                if isinstance(item, list):
                    walk(item)
                else:
                    lines.append((item.title, reader.get_destination_page_number(item) + 1))

        walk(reader.outline)
        assert lines == [(e.title, result.page_of[e.anchor]) for e in result.entries]

    def test_links_lead_somewhere(self, printed):
        _, reader, _ = printed
        known = set(reader.named_destinations)
        inside = 0
        for page in reader.pages:
            for note in page.get("/Annots", ()):
                note = note.get_object()
                if note["/Subtype"] != "/Link":
                    continue
                if "/Dest" in note:
                    assert note["/Dest"] in known
                    inside += 1
                else:
                    assert not note["/A"]["/URI"].startswith(pdf.HOST)
        assert inside > 30

    def test_statements_are_there_and_the_index_gives_their_pages(self, printed):
        result, _, texts = printed
        index = " ".join(texts[result.page_of["page-statements"] - 1 :])
        book = " ".join(texts[result.page_of["page-04-static"] - 1 :])
        numbered = [
            statement.number
            for statement in statements()
            if statement.chapter == NAMES[0]
            and re.fullmatch(r"(Theorem|Proposition|Lemma|Remark) [\d.]+", statement.number)
        ]
        assert len(numbered) >= 3
        assert all(f"({number} of the paper)" in book for number in numbered)
        for cell in check_cells(ROOT / "book" / f"{NAMES[0]}.ipynb"):
            page = result.page_of[cell.anchor]
            assert f"{cell.statement}: holds" in texts[page - 1] + texts[page] + texts[page + 1]
            assert f"(p. {page})" in index

    def test_nothing_of_the_screen_is_printed(self, printed):
        _, _, texts = printed
        book = " ".join(texts)
        for words in ("Show code", "Hide code", "Click to", "Permalink", "Report an error", "¶"):
            assert words not in book
        assert "In the web version this figure moves" in book
        assert re.search(r"Seen to fail for \d+ wrong programs: \w", book)


@pytest.mark.browser
def test_what_is_too_wide_is_made_smaller_or_named(ready, tmp_path):
    """A page with an equation, a table and a box that are wider than paper."""
    page = (pdf.SITE / "glossary.html").read_text(encoding="utf-8")
    cells = "".join(f"<td>word{i}</td>" for i in range(20))
    wide = (
        f'<div class="math notranslate">\\[{"+".join(f"x_{{{i}}}" for i in range(40))}\\]</div>'
        f'<table class="mf-table"><tbody><tr>{cells}</tr></tbody></table>'
        '<pre style="white-space: pre; overflow: hidden">' + "long " * 60 + "</pre>"
    )
    (tmp_path / "glossary.html").write_text(page.replace("</article>", wide + "</article>"))
    (tmp_path / "_static").symlink_to(pdf.SITE / "_static")
    result = print_book(tmp_path, ["glossary"], tmp_path / "wide.pdf")
    names = [what.split(": ")[1].split(".")[0] for what, _ in result.smaller]
    assert names == ["mjx-container", "table"]
    assert all(0.6 < size < 0.95 for _, size in result.smaller)
    assert [what.split(": ")[1].split(".")[0] for what in result.clipped] == ["pre"]
