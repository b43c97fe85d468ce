"""The files around the book: one public address, pinned versions, and licences that are there."""

import base64
import re
import subprocess
import tomllib
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement

from tools.chapters import ROOT, figure
from tools.run_notebooks import README_FIGURE, README_SOURCE
from tools.set_address import PLACES, address, binder, main, rewrite, wording

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name, root=ROOT):
    return (root / name).read_text(encoding="utf-8")


@pytest.fixture
def copy(tmp_path):
    """The files that name the address, to be changed."""
    for name in {name for name, _, _ in PLACES}:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(read(name), encoding="utf-8")
    return tmp_path


def test_every_place_has_the_wording_that_the_address_asks_for():
    """The one with the address where there is one; else the one that promises nothing."""
    for name, without, with_ in PLACES:
        assert read(name).count(wording(without, with_, address())) == 1, name
    assert yaml.safe_load(read("CITATION.cff")).get("repository-code", "") == address()


def test_nothing_leads_to_an_owner_who_is_not_there():
    """In no file that is distributed stands the address of a placeholder."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in tracked.stdout.split() if not name.startswith("tests/")]
    for name in names or [name for name, _, _ in PLACES]:
        if (ROOT / name).suffix in {".md", ".ipynb", ".toml", ".cff", ".yml", ".html", ".js"}:
            assert not re.search(r"(?:github|gitlab)\.com/OWNER|gh/OWNER", read(name)), name


def test_an_address_is_put_in_everywhere_changed_and_taken_out_again(copy):
    before = {name: read(name, copy) for name, _, _ in PLACES}
    first, second = "https://github.com/someone/mfbook", "https://gitlab.com/some.one/the-book"
    for url in (first, second):
        assert set(rewrite(copy, url)) == set(before)
        assert address(copy) == url
        for name in before:
            assert read(name, copy).count(url) + read(name, copy).count(binder(url)) >= 1, name
        assert f"git clone {url}" in read("README.md", copy)
        assert f"]({binder(url)}/main?urlpath=" in read("README.md", copy)
        assert f"git clone {url}`" in read("book/index.md", copy)
        assert yaml.safe_load(read("CITATION.cff", copy))["repository-code"] == url
        (project,) = [tomllib.loads(read("pyproject.toml", copy))["project"]["urls"]]
        assert project == {"Repository": url}
        assert rewrite(copy, url) == []
    assert not any(first in read(name, copy) for name in before)
    rewrite(copy, "")
    assert address(copy) == ""
    assert not any(second in read(name, copy) for name in before)
    if not address():
        assert {name: read(name, copy) for name in before} == before


@pytest.mark.parametrize(
    "url",
    ["github.com/a/b", "https://github.com/a", "https://x.org/a/b", "https://github.com/OWNER/b"],
)
def test_what_is_no_public_address_is_refused(copy, url):
    with pytest.raises(ValueError, match="^URL:"):
        rewrite(copy, url)
    with pytest.raises(ValueError, match="^URL:"):
        main([""])


def test_a_place_whose_words_have_changed_is_named(copy):
    (copy / "README.md").write_text("# Nothing")
    with pytest.raises(ValueError, match=r"^README\.md: found 0 times"):
        rewrite(copy, "https://github.com/someone/mfbook")


@pytest.mark.parametrize("url", ["", "https://github.com/someone/mfbook"])
def test_pages_have_buttons_and_report_links_where_there_is_an_address(monkeypatch, url):
    """What the extensions write on a page, without a public address and with one."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import mfbook_ext
    import reading

    monkeypatch.setattr(reading, "address", lambda: url)
    monkeypatch.setattr(mfbook_ext, "address", lambda: url)
    line = reading.footnote("02-model", "lemma-2-1", "Lemma 2.1").pformat()
    assert "Permalink" in line and ("Report an error" in line) == bool(url)
    assert (f"{url}/issues/new" in line) == bool(url)
    context = {"body": ""}
    reading.origin(None, "02-model", "page.html", context, doctree=True)
    assert "Built from commit" in context["body"]
    assert ("Report an error" in context["body"]) == bool(url)
    assert ("href" in context["body"]) == bool(url)
    settings = yaml.safe_load(read("_config.yml"))
    options = {
        "use_repository_button": settings["html"]["use_repository_button"],
        "use_issues_button": settings["html"]["use_issues_button"],
        "launch_buttons": settings["launch_buttons"],
    }
    config = SimpleNamespace(html_theme_options=options, html_static_path=[])
    mfbook_ext.configure(None, config)
    assert options["repository_url"] == url
    for button in ("use_repository_button", "use_issues_button", "launch_buttons"):
        assert bool(options[button]) == bool(url), button


def test_licences_are_there():
    assert "BSD 3-Clause" in read("LICENSE")
    assert "Attribution 4.0 International" in read("LICENSE-text")
    assert "Apache License" in read("book/_vendor/mathjax/LICENSE")


def test_constraints_pin_every_requirement():
    pinned = {line.split("==")[0] for line in read("constraints.txt").splitlines()}
    extras = PROJECT["optional-dependencies"]
    needed = [line for name in ("book", "run", "test", "pdf") for line in extras[name]]
    assert {Requirement(line).name for line in (*PROJECT["dependencies"], *needed)} <= pinned


def test_the_readme_shows_the_figure_of_the_book():
    assert str(README_FIGURE.relative_to(ROOT)) in read("README.md")
    assert README_FIGURE.read_bytes() == base64.b64decode(figure(*README_SOURCE))
