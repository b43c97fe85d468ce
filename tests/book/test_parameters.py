"""Chapters run with other parameters; the tool that tries it can fail."""

import nbformat
import pytest
from nbformat import v4

from tools import vary
from tools.chapters import chapters

IDS = [path.stem for path in chapters()]


@pytest.mark.parametrize("path", chapters(), ids=IDS)
def test_a_chapter_has_parameters_and_settings_that_change_them(path):
    found = vary.parameters(path)
    assert found is not None and len(found.values) >= 2 and len(found.settings) >= 3
    for setting in found.settings:
        assert setting and all(found.values[name] != value for name, value in setting.items())
    assert len({name for setting in found.settings for name in setting}) >= 2


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("path", chapters(), ids=IDS)
def test_a_chapter_runs_with_other_parameters(path):
    for setting in vary.parameters(path).settings:
        faults = [failure for failure in vary.run(path, setting) if not failure.told]
        assert not faults, (setting, faults)


def book_of(tmp_path, *cells):
    head = v4.new_code_cell("heads = 4\nseed = 1", id="p", metadata={"tags": ["parameters"]})
    made = [
        v4.new_code_cell(source, id=f"c{i}", metadata={"mfbook": about})
        for i, (source, about) in enumerate(cells)
    ]
    path = tmp_path / "x.ipynb"
    nbformat.write(v4.new_notebook(cells=[head, *made]), path)
    return path


@pytest.mark.slow
def test_only_checks_that_say_why_may_fail(tmp_path):
    use = (
        "from mfbook.book.report import check, at_most\nresult = check('s', at_most('n', {}, 4))\n"
    )
    path = book_of(
        tmp_path,
        ("import numpy as np\nnp.zeros(4) + np.zeros(heads)", {}),
        (use.format("heads") + "assert result.holds, result.reason", {"statement": "s"}),
        (use.format("heads") + "assert result.holds", {"statement": "s"}),
        (use.format("seed") + "assert result.holds, result.reason", {"statement": "s"}),
    )
    assert not vary.run(path, {})
    failures = vary.run(path, {"heads": 8})
    assert [(failure.cell_id, failure.told) for failure in failures] == [
        ("c0", False), ("c1", True), ("c2", False),
    ]  # fmt: skip
    assert "1 of 1 rows fails: n: 8, stated <= 4" in failures[1].message


def test_parameters_are_plain_values(tmp_path):
    path = book_of(tmp_path)
    assert vary.parameters(path).values == {"heads": 4, "seed": 1}
    with pytest.raises(ValueError, match="no parameters"):
        vary.run(path, {"head": 8})
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = "heads = max(3, 4)"
    nbformat.write(notebook, path)
    with pytest.raises(ValueError, match="name = value"):
        vary.parameters(path)
