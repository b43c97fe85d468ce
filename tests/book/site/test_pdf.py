"""The printed book: two pages of the site as one PDF, read back."""

import re

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


@pytest.mark.parametrize("names, said", [
    (["no-chapter"], "no-chapter"), (["02-model"], "02-model .run: make book."),
    ([], "no Chromium at /nowhere .apt-get install chromium"),
])  # fmt: skip
def test_what_is_missing_is_said(names, said, monkeypatch, tmp_path):
    monkeypatch.setattr(pdf, "CHROMIUM", pdf.CHROMIUM if names else "/nowhere")
    for page in listed() if not names else ():
        (tmp_path / page.name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{page.name}.html").touch()
    with pytest.raises(PdfError, match=said):
        print_book(tmp_path, names, tmp_path / "book.pdf")


@pytest.fixture(scope="module")
def printed(chromium, tmp_path_factory):
    """What was printed, its file, and the text of its pages."""
    file = tmp_path_factory.mktemp("pdf") / "part.pdf"
    result = print_book(pdf.SITE, NAMES, file)
    with PdfReader(file) as reader:
        texts = [re.sub(r"\s+", " ", page.extract_text()) for page in reader.pages]
        yield result, reader, texts


@pytest.mark.browser
@pytest.mark.weekly
class TestPart:
    def test_pages_are_counted_numbered_and_whole(self, printed):
        result, reader, texts = printed
        assert result.pages == len(reader.pages) > 20
        sizes = {tuple(round(float(n)) for n in page.mediabox[2:]) for page in reader.pages}
        assert sizes == {(595, 842)}
        assert all(re.search(rf"\b{n}\b", text) for n, text in enumerate(texts[1:], 2))
        assert result.clipped == () and all(size > 0.6 for _, size in result.smaller)

    def test_title_page_names_the_book(self, printed):
        _, reader, texts = printed
        for words in ("Attention heads as particles", "Version", "CC BY 4.0", "arXiv:2606.10469"):
            assert words in texts[0]
        assert reader.metadata.title == "Attention heads as particles" and reader.metadata.author
        assert reader.trailer["/Root"]["/Lang"] == "en"

    def test_contents_and_outline_give_the_pages_of_the_headings(self, printed):
        result, reader, texts = printed
        contents = " ".join(texts[1 : result.page_of[result.entries[1].anchor] - 1])
        headings = [e for e in result.entries if e.level and e.title.isascii()]
        assert len(headings) > 5
        for entry in headings:
            title, page = re.escape(entry.title), result.page_of[entry.anchor]
            numbers = [int(n) for n in re.findall(rf"{title}[ .…]*(\d+)(?!\d)", contents)]
            assert page in numbers, entry
            assert entry.title in texts[page - 1]
            assert not texts[page - 1].rstrip().endswith(entry.title), "a heading ends a page"

        def lines(items):
            for item in items:
                if isinstance(item, list):
                    yield from lines(item)
                else:
                    yield item.title, reader.get_destination_page_number(item) + 1

        pages = [(e.title, result.page_of[e.anchor]) for e in result.entries]
        assert list(lines(reader.outline)) == pages

    def test_links_lead_somewhere(self, printed):
        _, reader, _ = printed
        notes = [n.get_object() for page in reader.pages for n in page.get("/Annots", ())]
        links = [note for note in notes if note["/Subtype"] == "/Link"]
        inside = {note["/Dest"] for note in links if "/Dest" in note}
        assert len(inside) > 20 and inside <= set(reader.named_destinations)
        assert not [n for n in links if "/Dest" not in n and n["/A"]["/URI"].startswith(pdf.HOST)]

    def test_statements_are_there_and_the_index_gives_their_pages(self, printed):
        result, _, texts = printed
        index = " ".join(texts[result.page_of["page-statements"] - 1 :])
        book = " ".join(texts[result.page_of["page-04-static"] - 1 :])
        kind = re.compile(r"(Theorem|Proposition|Lemma|Remark) [\d.]+")
        numbers = [s.number for s in statements() if s.chapter == NAMES[0]]
        numbered = list(filter(kind.fullmatch, numbers))
        assert len(numbered) >= 3
        assert all(f"({number} of the paper)" in book for number in numbered)
        number_of = {s.id: s.number for s in statements()}
        for cell in check_cells(ROOT / "book" / f"{NAMES[0]}.ipynb"):
            page = result.page_of[cell.anchor]
            line = f"Check of {number_of[cell.statement]}: holds"
            assert line in texts[page - 1] + texts[page] + texts[page + 1]
            assert f"(p. {page})" in index

    def test_nothing_of_the_screen_is_printed(self, printed):
        book = " ".join(printed[2])
        for words in ("Show code", "Hide code", "Click to", "Permalink", "Report an error", "¶"):
            assert words not in book
        assert "In the web version this figure moves" in book
        assert re.search(r"fails for \d+ wrong programs", book)
        assert "lines of code" not in book
        assert f"are in the notebook book/{NAMES[0]}.ipynb" in book


@pytest.mark.browser
def test_what_is_too_wide_is_made_smaller_or_named(chromium, tmp_path):
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
