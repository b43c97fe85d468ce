"""The edition for JupyterLab: what each role becomes, what is collapsed, and what stays."""

import re
import shutil

import pytest

from tools import for_lab
from tools.chapters import BOOK, ROOT, chapters, read, text

NAMES = [path.name for path in chapters()]


#: What jupyterlab-myst renders in one file.
RENDERED = (
    r"prf:\w+|exercise|solution(-start|-end)?|admonition|grid(-item-card)?|figure|table|index|"
    r"math|note"
)


@pytest.fixture(scope="module")
def edition():
    return for_lab.Edition()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The whole edition."""
    folder = tmp_path_factory.mktemp("lab")
    for_lab.write(folder)
    return folder


ROLES = [
    ("{term}`atom`", "[atom](notation.md)"),
    ("{term}`atoms\n<atom>`", "[atoms](notation.md)"),
    ("{doc}`Chapter 4 <04-static>`", "[Chapter 4](04-static.ipynb)"),
    ("{cite:t}`huan2026`", "[Huan and Yuan (2026)](bibliography.md)"),
    ("{cite:p}`huan2026`", "([Huan and Yuan, 2026](bibliography.md))"),
    (
        "{cite}`alvarez2026,huan2026`",
        "([Álvarez-López et al., 2026](bibliography.md); [Huan and Yuan, 2026](bibliography.md))",
    ),
    ("{py:func}`~mfbook.flow.sgd`", "`sgd`"),
    ("{class}`mfbook.measure.Measure`", "`mfbook.measure.Measure`"),
    ("{download}`table <figures/x.csv>`", "[table](figures/x.csv)"),
    ("[$R_X$](#symbol-r-x)", "[$R_X$](notation.md)"),
    # links out of the book, pictures, and what is no role, stay
    ("[paper](https://arxiv.org/abs/2606.10469)", "[paper](https://arxiv.org/abs/2606.10469)"),
    ("`` `{term}` `` and `{term}` x `y`", "`` `{term}` `` and `{term}` x `y`"),
    ("$\\frac{a}{b}$ and `code`", "$\\frac{a}{b}$ and `code`"),
]


@pytest.mark.parametrize("role, expected", ROLES)
def test_a_role_becomes_a_link_or_words(role, expected, edition):
    assert edition.translated(role, "05-dynamics.ipynb") == expected


def test_a_label_leads_to_its_cell(edition):
    def seen(words, page):
        return re.fullmatch(
            r"\[(.*)\]\((.*)\.ipynb#cell-id=(.*)\)", edition.translated(words, page)
        )

    box = seen("[the criterion](#hy-theorem-4-3)", "07-stability.ipynb")
    assert box[1] == "the criterion" and box[2] == "04-static"
    cells = {cell["id"]: text(cell["source"]) for cell in read(BOOK / "04-static.ipynb")["cells"]}
    assert ":label: hy-theorem-4-3" in cells[box[3]]
    assert seen("{prf:ref}`hy-theorem-4-3`", "04-static.ipynb")[1] == "Theorem 4.3"
    check = seen("{ref}`the check <check-hy-theorem-4-3>`", "04-static.ipynb")
    assert cells[check[3]].splitlines()[-1].startswith("assert ")
    assert edition.translated("[x](#check-mf-near-in-w2)", "api/flow.md").count("(../") == 1


def test_numbers_of_figures_are_those_of_their_captions(edition):
    cells = edition.chapter(read(BOOK / "02-model.ipynb"), "02-model.ipynb")["cells"]
    for place, cell in enumerate(cells):
        if "figure" in cell["metadata"].get("mystnb", {}):
            figure = cell["metadata"]["mystnb"]["figure"]
            link = edition.translated(f"{{numref}}`{figure['name']}`", "02-model.ipynb")
            number = re.match(r"\[(Figure \d+)\]", link)[1]
            below = text(cells[place + 1]["source"])
            assert below.startswith(f"**{number}.** {figure['caption'][:20]}")


@pytest.mark.parametrize("words, said", [
    ("{nothing}`x`", "role nothing"), ("{doc}`05-none`", "05-none"),
    ("[x](#hy-theorem-0-0)", "hy-theorem-0-0"), ("{cite:t}`none2020`", "none2020"),
])  # fmt: skip
def test_what_is_unknown_or_leads_nowhere_is_refused(words, said, edition):
    with pytest.raises(ValueError, match=f"^05-dynamics.ipynb: .*{said}"):
        edition.translated(words, "05-dynamics.ipynb")


@pytest.mark.parametrize("tags, own, hidden", [
    ([], {}, {}),
    ([], {"does": "Draws.", "open": True}, {}),
    (["parameters"], {"does": "Sets the sizes."}, {}),
    ([], {"does": "Draws."}, {"source_hidden": True}),
    (["hide-input"], {}, {"source_hidden": True}),
    (["hide-cell"], {}, {"source_hidden": True, "outputs_hidden": True}),
])  # fmt: skip
def test_hidden_and_folded_cells_are_collapsed(tags, own, hidden, edition):
    cell = {"cell_type": "code", "id": "a", "source": "", "outputs": []}
    cell["metadata"] = {"tags": tags, "mfbook": own}
    (made,) = edition.chapter({"cells": [cell]}, "02-model.ipynb")["cells"]
    assert made["metadata"].get("jupyter", {}) == hidden and "jupyter" not in cell["metadata"]


def test_nothing_else_of_the_chapters_changes(written):
    """Their code and outputs are the same; their text but for roles and links."""
    role = r"\{[a-z:]+\}`[^`]+`|\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|[`(\[\]);,]"
    for name in NAMES:
        stored, made = read(BOOK / name), read(written / name)
        own = {cell["id"]: cell for cell in made["cells"]}
        assert len(own) == len(made["cells"])
        assert made["metadata"]["kernelspec"] == stored["metadata"]["kernelspec"]
        for cell in stored["cells"]:
            if "google.colab" in text(cell["source"]):
                assert cell["id"] not in own
                continue
            new = own.pop(cell["id"])
            if cell["cell_type"] == "code":
                kept = {k: v for k, v in new["metadata"].items() if k != "jupyter"}
                assert {**new, "metadata": kept} == cell
            else:
                assert new["metadata"] == cell["metadata"]
                # links that were put in the place of roles are taken out like them
                before, after = (re.sub(role, "", text(c["source"])).split() for c in (cell, new))
                assert before == after, (name, cell["id"])
        assert all(re.fullmatch(r"caption-(still-)?\d+", left) for left in own)


def test_every_link_leads_to_a_file_and_a_cell(written):
    """Of all pages and chapters; and nothing is left that needs Sphinx or another file."""
    ids = {name: {cell["id"] for cell in read(written / name)["cells"]} for name in NAMES}
    links = 0
    for path in for_lab.pages(written):
        page = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = read(path)["cells"]
            page = "\n".join(text(c["source"]) for c in cells if c["cell_type"] == "markdown")
        for target, fragment in re.findall(
            r"\]\(([\w./-]+\.(?:md|ipynb|png|csv))(#[^)]*)?\)", page
        ):
            links += 1
            assert (path.parent / target).is_file(), (path.name, target)
            if fragment:
                assert fragment.removeprefix("#cell-id=") in ids[target.rpartition("/")[2]]
        assert not re.search(r"(?<!`)\{(?!eq\})[a-z][\w:-]*\}`[^`]", page), path.name
        directives = re.findall(r"^ *(?:`{3,}|:{3,})\{([\w:-]+)\}", page, re.MULTILINE)
        assert all(re.fullmatch(RENDERED, name) for name in directives), path.name
        assert path.suffix == ".md" or "](#" not in page, path.name
    assert links > 1000


def test_the_edition_in_place_is_the_edition(tmp_path, written):
    """As postBuild does it, in a copy; a second time changes nothing."""
    shutil.copytree(BOOK, tmp_path / "book", ignore=shutil.ignore_patterns("_*", "data"))
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    for _ in range(2):
        for_lab.write(tmp_path / "book", tmp_path / "book")
        for name in (*NAMES, "notation.md", "bibliography.md"):
            expected = (written / name).read_text(encoding="utf-8")
            assert (tmp_path / "book" / name).read_text(encoding="utf-8") == expected


def test_binder_runs_it_and_opens_what_it_wrote():
    assert "tools/for_lab.py --in-place" in (ROOT / "postBuild").read_text()
    assert (ROOT / "postBuild").stat().st_mode & 0o111, "postBuild is not executable"
    listed = {path.name for path in for_lab.pages()}
    assert set(NAMES) <= listed  # the launch button leads to book/<chapter>.ipynb
