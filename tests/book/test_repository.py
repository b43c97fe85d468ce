"""The files around the book: one public address, pinned versions, and licences that are there."""

import base64
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from tools.chapters import ROOT, figure
from tools.run_notebooks import README_FIGURE, README_SOURCE
from tools.set_address import COPIES, address, binder, rewrite

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name, root=ROOT):
    return (root / name).read_text(encoding="utf-8")


def test_address_is_the_same_everywhere_and_can_be_changed(tmp_path):
    assert f"git clone {address()}" in read("README.md") and binder(address()) in read("README.md")
    assert f"git clone {address()}" in read("book/index.md")
    assert yaml.safe_load(read("CITATION.cff"))["repository-code"] == address()
    names = ["pyproject.toml", *COPIES]
    (tmp_path / "book").mkdir()
    for name in names:
        (tmp_path / name).write_text(read(name))
    old, new = address(), "https://gitlab.com/someone/the-book"
    rewrite(tmp_path, new)
    assert address(tmp_path) == new
    assert binder(new) == "https://mybinder.org/v2/gl/someone%2Fthe-book"
    for name in names:
        assert old not in read(name, tmp_path) and binder(old) not in read(name, tmp_path)
    rewrite(tmp_path, old)
    assert all(read(name, tmp_path) == read(name) for name in names)
    for url in ("", "github.com/a/b", "https://github.com/a", "https://x.org/a/b"):
        with pytest.raises(ValueError, match="^URL:"):
            rewrite(tmp_path, url)


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
