"""The edition for JupyterLab: what each role becomes, what is collapsed, and what stays."""

import contextlib
import copy
import io
import json
import re
import shutil

import pytest

from tools import for_lab
from tools.chapters import BOOK, ROOT, chapters, read, text

NAMES = [path.name for path in chapters()]


@pytest.fixture(scope="module")
def edition():
    return for_lab.collect()


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The whole edition, written into a folder by the command, and what the command said."""
    folder, said = tmp_path_factory.mktemp("lab"), io.StringIO()
    with contextlib.redirect_stdout(said):
        assert for_lab.main([str(folder)]) == 0
    return folder, said.getvalue()


@pytest.fixture(scope="module")
def written(command):
    return command[0]


ROLES = [
    ("{term}`atom`", "[atom](glossary.md)"),
    ("{term}`atoms\n<atom>`", "[atoms](glossary.md)"),
    ("{doc}`Chapter 4 <04-static>`", "[Chapter 4](04-static.ipynb)"),
    ("{doc}`glossary`", "[Glossary](glossary.md)"),
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
    ("```python\n{'a'}`b` [c](#d)\n```\n", "```python\n{'a'}`b` [c](#d)\n```\n"),
    ("$\\frac{a}{b}$ and `code`", "$\\frac{a}{b}$ and `code`"),
]


@pytest.mark.parametrize("role, expected", ROLES)
def test_a_role_becomes_a_link_or_words(role, expected, edition):
    assert for_lab.translated(role, "05-dynamics.ipynb", edition) == expected


def test_a_label_leads_to_its_cell_and_says_in_which_chapter(edition):
    def seen(words, page):
        return re.fullmatch(
            r"\[(.*)\]\((.*)\.ipynb#cell-id=(.*)\)", for_lab.translated(words, page, edition)
        )

    box = seen("[the criterion](#hy-theorem-4-3)", "07-stability.ipynb")
    assert box[1] == "the criterion, Theorem 4.3, Chapter 4" and box[2] == "04-static"
    cells = {cell["id"]: text(cell["source"]) for cell in read(BOOK / "04-static.ipynb")["cells"]}
    assert ":label: hy-theorem-4-3" in cells[box[3]]
    own = seen("[the criterion](#hy-theorem-4-3)", "04-static.ipynb")
    assert own[1] == "the criterion" and own[3] == box[3]
    known = seen("[Theorem 4.3 in Chapter 4](#hy-theorem-4-3)", "errata.md")
    assert known[1] == "Theorem 4.3 in Chapter 4"
    check = seen("{ref}`the check <check-hy-theorem-4-3>`", "04-static.ipynb")
    assert cells[check[3]].splitlines()[-1].startswith("assert ")
    assert (
        for_lab.translated("[x](#check-mf-near-in-w2)", "api/flow.md", edition).count("(../") == 1
    )


def test_numbers_of_figures_are_those_of_their_captions(edition):
    notebook = for_lab.chapter(read(BOOK / "02-model.ipynb"), "02-model.ipynb", edition)
    cells = notebook["cells"]
    for place, cell in enumerate(cells):
        if "figure" in cell["metadata"].get("mystnb", {}):
            figure = cell["metadata"]["mystnb"]["figure"]
            link = for_lab.translated(f"{{numref}}`{figure['name']}`", "02-model.ipynb", edition)
            number = re.match(r"\[(Figure \d+)\]", link)[1]
            below = text(cells[place + 1]["source"])
            assert below.startswith(f"**{number}.** {figure['caption'][:20]}")


@pytest.mark.parametrize("words, said", [
    ("{nothing}`x`", "unknown role 'nothing'"), ("{doc}`05-none`", "no page '05-none'"),
    ("[x](#hy-theorem-0-0)", "label 'hy-theorem-0-0'"), ("{cite:t}`none2020`", "none2020"),
    ("```{gallery}\n```\n", "unknown directive 'gallery'"),
])  # fmt: skip
def test_what_is_unknown_or_leads_nowhere_is_refused(words, said, edition):
    with pytest.raises(ValueError, match=f"^05-dynamics.ipynb: .*{said}"):
        for_lab.translated(words, "05-dynamics.ipynb", edition)


@pytest.mark.parametrize("tags, own, hidden", [
    ([], {}, {}),
    ([], {"does": "Draws.", "open": True}, {}),
    (["parameters"], {"does": "Sets the sizes."}, {}),
    ([], {"does": "Draws."}, {"source_hidden": True}),
    (["hide-input"], {}, {"source_hidden": True}),
    (["hide-cell"], {}, {"source_hidden": True, "outputs_hidden": True}),
])  # fmt: skip
def test_hidden_and_folded_cells_are_collapsed(tags, own, hidden):
    metadata = {"tags": tags, "mfbook": own}
    before = copy.deepcopy(metadata)
    assert for_lab.collapsed(metadata).get("jupyter", {}) == hidden
    assert metadata == before


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_of_a_chapter_changes(name, written):
    """Its code and outputs are the same; its text but for roles and links."""
    stored, made = read(BOOK / name), read(written / name)
    own = {cell["id"]: cell for cell in made["cells"]}
    assert len(own) == len(made["cells"])
    first = next(cell for cell in made["cells"] if cell["cell_type"] == "code")
    assert "google.colab" not in text(first["source"])
    for cell in stored["cells"]:
        if for_lab.prepares_colab(cell):
            assert cell["id"] not in own
            continue
        new = own.pop(cell["id"])
        if cell["cell_type"] == "code":
            kept = {k: v for k, v in new["metadata"].items() if k != "jupyter"}
            assert {**new, "metadata": kept} == cell
        else:
            assert new["metadata"] == cell["metadata"]
            role = r"\{[a-z:]+\}`[^`]+`|\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|[`(\[\]);,]"
            before, after = (re.sub(role, "", text(c["source"])).split() for c in (cell, new))
            # links that were put in the place of roles are taken out like them
            assert before == after
    assert all(re.fullmatch(r"caption-\d+", name) for name in own)
    assert made["metadata"] == stored["metadata"]


def test_every_link_leads_to_a_file_and_a_cell(written):
    """Of all pages and chapters; and no role is left that needs another file."""
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
        assert path.suffix == ".md" or "](#" not in page, path.name
    assert links > 1000


def test_the_edition_in_place_is_the_edition(tmp_path, written):
    """As postBuild does it, in a copy; a second time changes nothing."""
    shutil.copytree(BOOK, tmp_path / "book", ignore=shutil.ignore_patterns("_*", "data"))
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    for _ in range(2):
        for_lab.write(tmp_path / "book", tmp_path / "book")
        for name in (*NAMES, "glossary.md", "bibliography.md"):
            expected = (written / name).read_text(encoding="utf-8")
            assert (tmp_path / "book" / name).read_text(encoding="utf-8") == expected


def test_binder_runs_it_and_opens_what_it_wrote():
    assert "tools/for_lab.py --in-place" in (ROOT / "postBuild").read_text()
    assert (ROOT / "postBuild").stat().st_mode & 0o111, "postBuild is not executable"
    listed = {path.name for path in for_lab.pages()}
    assert set(NAMES) <= listed  # the launch button leads to book/<chapter>.ipynb


def test_the_command_line_says_how_to_open_it_and_what_is_wrong(command):
    folder, said = command
    assert f"jupyter lab {folder}/01-introduction.ipynb" in said
    json.loads((folder / "01-introduction.ipynb").read_text(encoding="utf-8"))
    with pytest.raises(SystemExit):
        for_lab.main([])
