"""The note on what is new: printed from the rendered pages, read back."""

import re

import pytest
from pypdf import PdfReader
from rendered import SITE

from tools.chapters import ROOT
from tools.note import LONGEST, print_note
from tools.pdf import PdfError

TAKEN = re.compile(r":class: mf-take\n\[[^\]]+\]\(#([\w-]+)\)")
pytestmark = [pytest.mark.browser, pytest.mark.by_turn(together=True)]


@pytest.fixture(scope="module")
def printed(chromium, tmp_path_factory):
    file = tmp_path_factory.mktemp("note") / "note.pdf"
    note = print_note(SITE, file)
    with PdfReader(file) as reader:
        yield note, re.sub(r"\s+", " ", " ".join(page.extract_text() for page in reader.pages))


def test_every_result_is_there_with_its_proof_and_credit(printed):
    note, words = printed
    named = TAKEN.findall((ROOT / "book" / "note.md").read_text(encoding="utf-8"))
    assert len(note.results) == len(named) >= 12
    assert words.count("Credit.") >= len(named) and words.count("∎") >= len(named)
    for title in note.results:  # signs such as ₂ need not be read back from the PDF as they are
        assert re.match(r"[ -~]+", title)[0].strip() in words


def test_it_fits_its_pages_and_cites_what_it_lists(printed):
    note, words = printed
    assert note.pages <= LONGEST and not note.clipped
    text, _, works = words.rpartition("References")
    years = set(re.findall(r"\b(?:19|20)\d\d\b", text))
    assert "Huan" in works and years <= set(re.findall(r"\b(?:19|20)\d\d\b", works))


def test_statement_proof_and_credit_follow_each_other(printed):
    """Words between a box and its proof stay in the book; the credit of the box comes after it."""
    _, words = printed
    start = words.index("Theorem: Training on a sample")
    end = words.index("Credit.", start)
    assert "∎" in words[start:end] and "Which errors are orthogonal" not in words[start:end]
    assert "In words." not in words


def test_a_result_that_is_not_there_is_said(chromium, tmp_path):
    for page in SITE.glob("*.html"):
        (tmp_path / page.name).symlink_to(page)
    (tmp_path / "_static").symlink_to(SITE / "_static")
    source = (SITE / "note.html").read_text(encoding="utf-8")
    (tmp_path / "note.html").unlink()
    (tmp_path / "note.html").write_text(source.replace("#result-thresholds", "#result-nowhere"))
    with pytest.raises(PdfError, match="has no result-nowhere"):
        print_note(tmp_path, tmp_path / "note.pdf")
