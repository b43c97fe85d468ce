"""The printed book: two pages of the site as one PDF, read back."""

import re
import subprocess
import sys

import pytest
from pypdf import PdfReader

from tools.chapters import ROOT


@pytest.mark.browser
@pytest.mark.weekly
def test_pages_are_joined_with_an_outline_and_links_that_lead_inside(chromium, tmp_path):
    file = tmp_path / "part.pdf"
    command = [sys.executable, ROOT / "tools" / "pdf.py", file, "04-static", "statements"]
    subprocess.run(command, check=True, timeout=300)
    with PdfReader(file) as reader:
        first, second = (reader.get_destination_page_number(item) for item in reader.outline)
        assert first == 0 < second < len(reader.pages)
        words = " ".join(page.extract_text() for page in reader.pages[:second])
        assert re.search(r"Theorem 4\.1 · [^·]* · holds", words)
        assert not any(said in words for said in ("Show code", "Hide code", "Permalink"))
        notes = [n.get_object() for page in reader.pages for n in page.get("/Annots", ())]
        assert len(notes) > 20
        assert not any(n.get("/A", {}).get("/URI", "").startswith("file:") for n in notes)


def test_what_is_not_rendered_is_said(tmp_path):
    command = [sys.executable, ROOT / "tools" / "pdf.py", tmp_path / "book.pdf", "no-chapter"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode and "no-chapter" in done.stderr and "make book" in done.stderr
