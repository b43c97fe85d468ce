"""The files around the book: one public address, one version, and licences that are there."""

import base64
import tomllib

import pytest
import yaml

from tools.chapters import ROOT, figure
from tools.run_notebooks import README_FIGURE, README_SOURCE
from tools.set_address import COPIES, address, binder, rewrite

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_address_is_the_same_everywhere():
    readme, citation = (ROOT / "README.md").read_text(), (ROOT / "CITATION.cff").read_text()
    assert f"git clone {address()}" in readme
    assert binder(address()) in readme
    assert f"git clone {address()}" in (ROOT / "book" / "index.md").read_text()
    assert yaml.safe_load(citation)["repository-code"] == address()


def test_address_can_be_changed_and_changed_back(tmp_path):
    names = ["pyproject.toml", *COPIES]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    old, new = address(), "https://gitlab.com/someone/the-book"
    rewrite(tmp_path, new)
    assert address(tmp_path) == new
    for name in names:
        changed = (tmp_path / name).read_text()
        assert old not in changed and binder(old) not in changed
    assert binder(new) == "https://mybinder.org/v2/gl/someone%2Fthe-book"
    rewrite(tmp_path, old)
    for name in names:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()


@pytest.mark.parametrize("url", ["", "github.com/a/b", "https://github.com/a", "https://x.org/a/b"])
def test_a_bad_address_is_refused(url):
    with pytest.raises(ValueError, match="URL: expected"):
        rewrite(ROOT, url)


def test_version_is_one():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_licences_are_there():
    assert "BSD 3-Clause" in (ROOT / "LICENSE").read_text()
    assert "Attribution 4.0 International" in (ROOT / "LICENSE-text").read_text()
    assert "Apache License" in (ROOT / "book/_vendor/mathjax/LICENSE").read_text()


def test_constraints_pin_every_requirement():
    from packaging.requirements import Requirement

    pinned = {
        line.split("==")[0]
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    extras = PROJECT["optional-dependencies"]
    needed = [line for name in ("book", "run", "test", "pdf") for line in extras[name]]
    for line in [*PROJECT["dependencies"], *needed]:
        assert Requirement(line).name in pinned


def test_the_readme_shows_the_figure_of_the_book():
    assert str(README_FIGURE.relative_to(ROOT)) in (ROOT / "README.md").read_text()
    assert README_FIGURE.read_bytes() == base64.b64decode(figure(*README_SOURCE))
