"""The data behind the figures: what a figure is given is what is written, for all of the book."""

import csv
import re

import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

from companion import plots
from companion.plots.data import ROWS, ROWS_OF_FRAMES
from companion.plots.picture import DATA_MIME
from tools import chapters as book
from tools import nbval_comparison, run_notebooks
from tools.chapters import BOOK, cells_for, figures
from tools.compare_outputs import table_difference
from tools.nbval_comparison import data_difference, without_data

X, Y = np.array([0.1, 0.2, 0.4]), np.array([3.0, -1.0, 2.0])
GRID = np.arange(20.0).reshape(4, 5)


@plots.drawing
def drawn(data, look=None, **more):
    """A figure that is given data, and says little about them."""
    figure, axes = plots.new_figure(3, 2)
    axes.set(**(look or {}))
    return figure


def comments(picture):
    return [line for line in picture.data.splitlines() if line.startswith("#")]


def dictionaries(text):
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def rows(picture):
    """The rows of a table, by series, without the cells that are empty."""
    found = {}
    for row in dictionaries(picture.data):
        filled = {name: cell for name, cell in row.items() if cell and name != "series"}
        found.setdefault(row["series"], []).append(filled)
    return found


def test_a_notebook_gets_the_picture_and_its_data():
    picture = plots.curves([{"x": X, "y": Y, "label": 'a, "b"\n# c'}], xlabel="x", ylabel="y")
    frames = plots.frames(lambda v: picture, [1, 2], name="n", alt=str, caption="c")
    for item, shown in ((picture, "image/png"), (frames, "text/html")):
        kinds, _ = DisplayFormatter().format(item)
        assert set(kinds) == {"text/plain", shown, DATA_MIME} and kinds[DATA_MIME] == item.data
    # any program reads the table
    assert [row["series"] for row in dictionaries(picture.data)] == ['a, "b" # c'] * 3


LINE = [{"x": "0.1", "y": "3"}, {"x": "0.2", "y": "-1"}, {"x": "0.4", "y": "2"}]
#: What a figure is given, and the rows that have to be written.
GIVEN = {
    "arrays of one length": ({"x": X, "y": Y}, {"data": LINE}),
    "lists and words": (
        {"words": ["a", "b, c"], "ok": [True, False], "n": range(2)},
        {"data": [{"words": "a", "ok": "yes", "n": "0"},
                  {"words": "b, c", "ok": "no", "n": "1"}]}),
    "a number": ({"risk": 0.5, "role": "bound"}, {"data": [{"risk": "0.5"}]}),
    "what is nothing to read": ({"f": np.sin, "said": "word", "none": None, "size": X}, {}),
    "items by their labels": (
        [{"label": "one", "x": X, "y": Y, "role": "found"}, {"x": [7], "y": [8]}],
        {"one": LINE, "data 2": [{"x": "7", "y": "8"}]}),
    "panels": (
        [{"title": name, "series": [{"label": "a", "x": X, "y": Y}]} for name in "AB"],
        {"A: a": LINE, "B: a": LINE}),
    "items of one name": (
        [{"label": "a", "x": X, "y": Y}] * 2, {"a": LINE, "a (2)": LINE}),
    "coordinates with a name": ([(X, Y, "bound", "limit", "o")], {"limit": LINE}),
    "lists of several lengths": (
        [X[:1], X[:2]],
        {"data 1": [{"data": "0.1"}], "data 2": [{"data": "0.1"}, {"data": "0.2"}]}),
    "points and their weights": (
        {"points": np.eye(2), "w": [5, 6]},
        {"data": [{"points 1": "1", "points 2": "0", "w": "5"},
                  {"points 1": "0", "points 2": "1", "w": "6"}]}),
    "a gap": ({"x": X, "y": [1, np.nan, 2]},
              {"data": [{"x": "0.1", "y": "1"}, {"x": "0.2"}, {"x": "0.4", "y": "2"}]}),
    "a mask": (
        {"A": np.ma.masked_where(~np.eye(4, dtype=bool), 3 * np.ones((4, 4)))},
        {"data": [{"i": str(i), "j": str(i), "A": "3"} for i in range(4)]}),
}  # fmt: skip


@pytest.mark.parametrize("what", GIVEN)
def test_what_is_given_is_written(what):
    data, expected = GIVEN[what]
    assert rows(drawn(data)) == expected


def test_comments_name_panels_axes_and_units():
    figure = plots.panels(
        [{"title": title, "xlabel": "time\nin seconds", "ylabel": "risk (nats)", "yscale": "linear",
          "series": [{"label": "a", "x": X, "y": Y}]} for title in ("Left", "Right")])  # fmt: skip
    assert comments(figure) == [
        "# panel 1: Left", "# panel 1, x: time in seconds; log",
        "# panel 1, y: risk (nats); linear",
        "# panel 2: Right", "# panel 2, x: time in seconds; log",
    ]  # fmt: skip
    cells = plots.grid_map(
        GRID + 1, rows="abcd", columns="abcde", label="error (nats)", frame=GRID > 9, **LABELS
    )
    assert comments(cells)[-1] == "# colours: error (nats); log"


LABELS = {"xlabel": "x", "ylabel": "y"}


def test_numbers_have_five_digits_and_no_minus_zero():
    (found,) = drawn({"x": [np.pi * 1e6, -1e-300], "y": [-0.0, 1 / 3]}).data.split("\n", 1)[1:]
    assert found == "data,3.1416e+06,0\ndata,-1e-300,0.33333\n"


# --------------------------------------------------------------------------------------- thinning


def test_long_series_and_grids_are_thinned_evenly_and_short_ones_are_not():
    x = np.arange(3 * ROWS)
    picture = drawn([{"label": "long", "x": x, "y": 2 * x}, {"label": "short", "x": X, "y": Y}])
    found = rows(picture)
    at = np.array([float(row["x"]) for row in found["long"]])
    assert len(at) == ROWS - 3 and found["short"] == LINE
    assert at[0] == 0 and at[-1] == x[-1] and np.ptp(np.diff(at)) <= 1
    assert comments(picture) == [f"# thinned: {ROWS - 3} of {3 * ROWS} rows of long: x, y"]
    (found,) = rows(drawn({"map": np.arange(120.0 * 200).reshape(120, 200)})).values()
    i, j, value = (np.array([float(row[name]) for row in found]) for name in ("i", "j", "map"))
    assert ROWS / 2 < len(i) <= ROWS
    assert all(np.ptp(np.diff(np.unique(index))) == 0 for index in (i, j))
    np.testing.assert_allclose(value, 200 * i + j, rtol=1e-4)


def slider(n=4, count=ROWS):
    def draw(value):
        x = np.linspace(0, 1, count)
        return drawn({"x": x, "y": value * x}, {"title": f"slope {value}"}, common=GRID)

    return plots.frames(
        draw, range(1, n + 1), name="slope", label=lambda v: f"slope, {v}", alt=str, caption="C"
    )


def test_frames_have_a_column_of_their_labels_and_what_all_share_once():
    shown = slider()
    assert "# frame slope, 2; panel 1: slope 2" in shown.data.splitlines()
    found = dictionaries(shown.data)
    assert 0 < len(found) <= ROWS_OF_FRAMES
    common = [float(row["common"]) for row in found if row["frame"] == "all"]
    assert common == GRID.ravel().tolist()
    for row in found[len(common) :]:
        slope = float(row["frame"].removeprefix("slope, "))
        assert float(row["y"]) == pytest.approx(slope * float(row["x"]), rel=3e-4)


# ------------------------------------------------------------------------------------- comparison


HEADS = 2.0 ** np.arange(3, 12)


def rates(x=HEADS, y=1 / HEADS, label="mean gap", **look):
    look = {"xlabel": "heads", "ylabel": "nats", "xscale": "log", "yscale": "log", **look}
    return drawn([{"x": x, "y": y, "label": label}], look).data


def test_the_comparison_accepts_what_cannot_be_seen():
    assert table_difference("# figure: fig-a; chapter b, cell c\n" + rates(), rates()) is None
    assert table_difference(rates(), rates(y=(1 + 1e-4) / HEADS)) is None
    assert table_difference(rates(X, Y), rates(X, Y + 1e-4)) is None
    # a number in the name of a series is a printed number
    assert table_difference(rates(label="loss 0.123"), rates(label="loss 0.124")) is None
    # of numbers that hardly differ, rounding; what is smaller is noise
    assert table_difference(rates(X, 1 + 1e-9 * Y), rates(X, 1 - 1e-9 * Y)) is None
    deep = [rates(X, [1, 0.1, least]) for least in (1e-15, 3e-17)]
    assert table_difference(*deep) is None


def test_the_comparison_rejects_another_figure():
    for changes in (
        {"x": 1 / HEADS, "y": HEADS}, {"y": 1.05 / HEADS}, {"y": 1 / HEADS[::-1]},
        {"y": np.r_[1 / HEADS[:-1], 1.1 / HEADS[-1]]}, {"x": HEADS[:-1], "y": 1 / HEADS[:-1]},
        {"y": np.r_[1 / HEADS[:-1], 0]}, {"y": np.r_[1 / HEADS[:-1], np.nan]},
        {"label": "gap"}, {"xlabel": "layers"}, {"title": "now with a title"},
    ):  # fmt: skip
        assert table_difference(rates(), rates(**changes)) is not None
        if "x" not in changes:  # without numbers the structure is compared
            structure = table_difference(rates(), rates(**changes), numbers=False)
            assert (structure is None) == ("y" in changes)
    assert table_difference(rates(X, Y), rates(X, Y + [0, 0, 0.01])) is not None


def test_frames_and_words_are_compared():
    one = slider(count=10).data
    assert table_difference(one, one) is None
    assert table_difference(one, slider(n=3, count=10).data) is not None
    assert table_difference(one, one.replace("slope, 2", "slope, 7")) is not None
    assert table_difference(one, re.sub("(slope, 2.*),1,2$", r"\1,1,1.9", one, flags=re.M))

    def regimes(flipped):
        words = np.full((20, 20), "stable", dtype="<U6")
        words.flat[:flipped] = "open"
        return drawn({"word": words}).data

    assert table_difference(regimes(0), regimes(4)) is None
    assert "open" in table_difference(regimes(0), regimes(5))


def test_nbval_compares_with_the_stored_table(tmp_path, monkeypatch):
    monkeypatch.setattr(nbval_comparison, "BOOK", tmp_path)
    cell = nbformat.v4.new_code_cell("draw()", metadata={"mystnb": {"figure": {"name": "fig-a"}}})
    outputs = [{"output_type": "execute_result", "data": {DATA_MIME: rates(), "image/png": "A"}}]
    shown, data = without_data(outputs)
    assert shown == [{"output_type": "execute_result", "data": {"image/png": "A"}}]
    chapter, stored = tmp_path / "01-one.ipynb", tmp_path / "figures" / "fig-a.csv"
    assert data_difference(chapter, cell, data) is not None
    stored.parent.mkdir()
    stored.write_text("# figure: fig-a; chapter 01-one, cell a\n" + rates())
    assert data_difference(chapter, cell, data) is None
    stored.write_text(rates(y=2 / HEADS))
    assert "fig-a.csv" in data_difference(chapter, cell, data)
    cell.metadata["tags"] = ["rounding"]
    assert data_difference(chapter, cell, data) is None
    # elsewhere there is nothing to compare with, and cells without figures have no data
    assert data_difference(tmp_path / "other" / "x.ipynb", cell, data) is None
    assert data_difference(chapter, cell, []) is None


# -------------------------------------------------------------------------------- the whole book

DRAWN = [item for path in book.chapters() for item in figures(path) if book.is_stored(item.name)]


def test_every_figure_has_a_light_table():
    for item in DRAWN:
        assert item.csv is not None, f"{item.name}: run the chapter with `make run`"
        text = item.csv.read_text(encoding="utf-8")
        first, *lines = text.splitlines()
        assert first == f"# figure: {item.name}; chapter {item.chapter}"
        header, *lines = csv.reader(line for line in lines if not line.startswith("#"))
        front = ["frame"] * (item.kind == "frames") + ["series"]
        assert header[: len(front)] == front and len(header) > len(front), item.name
        most = ROWS_OF_FRAMES if item.kind == "frames" else ROWS
        assert 0 < len(lines) <= most, f"{item.name}: run the chapter with `make run`"
        assert all(len(row) == len(header) for row in lines), item.name
        cells = {cell for row in lines for cell in row[len(front) :]}
        assert not cells & {"nan", "-nan", "inf", "-inf"}, item.name
    files = list((BOOK / "figures").glob("*"))
    assert {path.stem for path in files} == {item.name for item in DRAWN}
    sizes = [path.stat().st_size for path in files]
    assert sum(sizes) < 1e5 * len(book.chapters()) and max(sizes) < 2e5
    for path in book.chapters():
        assert DATA_MIME not in path.read_text(encoding="utf-8"), path.name


CURVE = '[{"x": x, "y": k * x, "label": "y"}], xlabel="x", ylabel="y"'
CELLS = {
    "begin": "import numpy as np\nfrom companion import plots\nx, k = np.arange(4.0), 1",
    "a": f"plots.curves({CURVE})",
    "view": f"draw = lambda k: plots.curves({CURVE})\n"
    "plots.frames(draw, [1, 2], name='k', alt=str, caption='C')",
}


@pytest.mark.slow
def test_a_chapter_that_runs_writes_its_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(BOOK))  # its folder is not the book's
    path, folder = tmp_path / "01-one.ipynb", tmp_path / "figures"
    monkeypatch.setattr(run_notebooks, "FIGURES", folder)
    monkeypatch.setattr(run_notebooks, "chapters", lambda: [path])
    shown = {"mystnb": {"figure": {"name": "fig-a", "caption": "C"}, "image": {"alt": "A"}}}
    cells = [
        nbformat.v4.new_code_cell(
            source, id=name, metadata={"tags": ["hide-input"]} | (shown if name == "a" else {})
        )
        for name, source in CELLS.items()
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    folder.mkdir()
    (folder / "fig-old.csv").write_text("x\n")
    run_notebooks.run(path)
    names = ["fig-a", "frames-01-one-view"]
    assert sorted(file.stem for file in folder.iterdir()) == names
    files = [path, *sorted(folder.iterdir())]
    once = [file.read_bytes() for file in files]
    assert DATA_MIME.encode() not in once[0] and once[1].startswith(b"# f")
    run_notebooks.run(path)
    assert [file.read_bytes() for file in files] == once


# ------------------------------------------------------------------------------ one figure again


def code(name, source, *tags):
    return {"cell_type": "code", "id": name, "source": source, "metadata": {"tags": list(tags)}}


def test_cells_for_a_figure():
    cells = [
        code("a", "import math\nx = 1\ndef square():\n    return u * u"),
        {"cell_type": "markdown", "id": "m", "source": "text", "metadata": {}},
        code("b", "[y := i for i in range(3)]\ndef height():\n    return x", "hide-input"),
        code("c", "z = 3", "hide-input"),
        code("d", "w = x\nfor y in range(3):\n    print(y)"),
        code("ex-1", "v = [z for z in (4, 5)]"),
        code("e", "def show():\n    return z + w\nshow()", "hide-input"),
        code("f", "u = 1", "hide-input"),
        code("g", "z = 1\nprint(z, square(), y)", "hide-input"),
    ]
    assert cells_for({"cells": cells}, "b") == [0, 2]
    assert cells_for({"cells": cells}, "e") == [0, 3, 4, 6]  # c, whose z is read by a function
    # f, since a function reads its u; not c, since z is assigned again; not b, since y is
    assert cells_for({"cells": cells}, "g") == [0, 4, 7, 8]
    with pytest.raises(ValueError, match="cell_id"):
        cells_for({"cells": cells}, "m")
