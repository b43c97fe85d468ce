"""The data behind the figures: what is drawn is what is written, for every figure of the book."""

import csv
import re

import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.patches import Circle
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from companion import plots
from companion.plots.data import DECORATION, ROWS, ROWS_OF_FRAMES, contents, record
from companion.plots.style import DATA_MIME, new_figure
from tools import chapters as book
from tools import nbval_comparison, run_notebooks
from tools.chapters import BOOK, cells_for, figures
from tools.compare_outputs import table_difference
from tools.nbval_comparison import data_difference, without_data

X, Y = np.array([0.1, 0.2, 0.4]), np.array([3.0, -1.0, 2.0])
GRID = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def drawn(draw, **axes):
    """What a function draws on axes of its own, without the drawing."""
    figure, ax = new_figure(3, 2, **axes)
    draw(ax)
    return plots.Picture(b"", contents(figure))


def comments(picture):
    return [line for line in picture.data.splitlines() if line.startswith("#")]


def dictionaries(text):
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def same(picture, series, **expected):
    """Whether a picture has exactly these columns, of one series."""
    rows = dictionaries(picture.data)
    assert {row["series"] for row in rows} == {series}
    assert list(rows[0]) == ["panel", "series", *expected]
    for name, values in expected.items():
        found = [float(row[name] or "nan") for row in rows]
        np.testing.assert_allclose(found, np.ravel(values), rtol=1e-5)


def test_a_notebook_gets_the_picture_and_its_data():
    picture = plots.curves([{"x": X, "y": Y, "label": 'a, "b"\n# c'}], xlabel="x", ylabel="y")
    frames = plots.frames(lambda v: picture, [1, 2], name="n", alt=str, caption="c")
    for item, shown in ((picture, "image/png"), (frames, "text/html")):
        kinds, _ = DisplayFormatter().format(item)
        assert set(kinds) == {"text/plain", shown, DATA_MIME} and kinds[DATA_MIME] == item.data
    # any program reads the table
    assert [row["series"] for row in dictionaries(picture.data)] == ['a, "b" # c'] * 3


# ------------------------------------------------------------------------------- kinds of artists


def band(ax):
    ax.plot(X, Y, label="mean")
    ax.fill_between(X, Y - 1, Y + 1, gid="mean")


def decorated(ax):
    ax.plot(X, Y, label="a")
    ax.plot(X, 2 * Y, gid=DECORATION)
    ax.axvspan(0.1, 0.2)
    ax.annotate("here", (0.1, 1), xytext=(0.2, 2), arrowprops={"arrowstyle": "->"})
    ax.plot([], [], label="for the legend only")
    ax.legend()


EDGES = {"low": Y - 1, "high": Y + 1}
LOW_HIGH = {"low": np.minimum(Y, 0), "high": np.maximum(Y, 0)}
RUNS = {"x": X, "y": Y, "low": Y - [1, 2, 3], "high": Y + [4, 5, 6]}
DOTS = {"x": X, "y": Y, "value": [5, 6, 7], "size": [1, 2, 3]}
SQUARE = GRID[:, :2]
#: What is drawn, and the series and columns that have to be read.
ARTISTS = {
    "line": (lambda ax: ax.plot(X, Y, label="a"), "a", {"x": X, "y": Y}),
    "gid": (lambda ax: ax.plot(X, Y, "o", gid="b", label="a"), "b", {"x": X, "y": Y}),
    "gap": (lambda ax: ax.plot(X, [1, np.nan, 2]), "series 1", {"x": X, "y": [1, np.nan, 2]}),
    "points": (lambda ax: ax.scatter(X, Y), "series 1", {"x": X, "y": Y}),
    "dots": (lambda ax: ax.scatter(X, Y, c=[5, 6, 7], s=[1, 2, 3], label="dots"), "dots", DOTS),
    "level": (lambda ax: ax.axhline(0.3, gid="level"), "level", {"y": [0.3]}),
    "place": (lambda ax: ax.axvline(0.3, label="place"), "place", {"x": [0.3]}),
    "steps": (lambda ax: ax.step(X, Y, where="post", label="count"), "count", {"x": X, "y": Y}),
    "band of a line": (band, "mean", {"x": X, "y": Y, **EDGES}),
    "band": (lambda ax: ax.fill_between(X, Y - 1, Y + 1, gid="b"), "b", {"x": X, **EDGES}),
    "band of x": (lambda ax: ax.fill_betweenx(X, Y - 1, Y + 1, gid="b"), "b", {"y": X, **EDGES}),
    "bars": (lambda ax: ax.bar(X, Y, width=0.05, label="bars"), "bars", {"x": X, "y": Y}),
    "bars of x": (lambda ax: ax.barh(X, Y, height=0.05, label="bars"), "bars", {"x": Y, "y": X}),
    "histogram": (
        lambda ax: ax.hist([1, 1, 3], bins=[0, 2, 4], gid="n"), "n", {"x": [1, 3], "y": [2, 1]}),
    "error bars": (
        lambda ax: ax.errorbar(X, Y, yerr=[[1, 2, 3], [4, 5, 6]], label="runs"), "runs", RUNS),
    "stems": (lambda ax: ax.vlines(X, 0, Y, label="masses"), "masses", {"x": X, **LOW_HIGH}),
    "mesh": (
        lambda ax: ax.pcolormesh([0, 1, 3], [0, 2, 4], SQUARE, gid="v"), "v",
        {"x": [0.5, 2, 0.5, 2], "y": [1, 1, 3, 3], "value": SQUARE}),
    "smooth mesh": (
        lambda ax: ax.pcolormesh([0, 1], [0, 2], SQUARE, shading="gouraud", gid="v"), "v",
        {"x": [0, 1, 0, 1], "y": [0, 0, 2, 2], "value": SQUARE}),
    "arrows": (
        lambda ax: ax.quiver(X, Y, Y, X), "series 1", {"x": X, "y": Y, "u": Y, "v": X}),
    "decorations are left out": (decorated, "a", {"x": X, "y": Y}),
    # what is recorded replaces what is drawn
    "recorded points": (
        lambda ax: record(ax.scatter(X, Y, s=[1, 2, 3]), "p", size=None, mass=Y), "p",
        {"x": X, "y": Y, "mass": Y}),
    "recorded line": (
        lambda ax: record(ax.hlines(2.0, 0, 1), "best", x=[7], y=[2]), "best",
        {"x": [7], "y": [2]}),
    "recorded patch": (
        lambda ax: record(ax.add_patch(Circle((7, 2), 1)), "disc", x=[7], y=[2]), "disc",
        {"x": [7], "y": [2]}),
}  # fmt: skip


@pytest.mark.parametrize("what", ARTISTS)
def test_what_is_drawn_is_read(what):
    draw, series, expected = ARTISTS[what]
    picture = drawn(draw)
    same(picture, series, **expected)
    assert not any("not in this table" in line for line in comments(picture))
    steps = "# panel 1: a line keeps each value until the next x" in comments(picture)
    assert steps == (what == "steps")


def test_images_contours_sloping_lines_and_three_dimensions():
    j, i = np.meshgrid(range(3), range(2))
    for origin, heights in (("upper", [1.5, 0.5]), ("lower", [0.5, 1.5])):
        image = drawn(lambda ax, o=origin: ax.imshow(GRID, origin=o, gid="weights"))
        same(image, "weights", x=j, y=i, value=GRID)
        wide = {"origin": origin, "extent": (0, 6, 0, 2), "gid": "w"}
        image = drawn(lambda ax, wide=wide: ax.imshow(GRID, **wide))
        same(image, "w", x=[1, 3, 5] * 2, y=np.repeat(heights, 3), value=GRID)
    holes = drawn(lambda ax: ax.imshow(np.ma.masked_where(GRID == 5, GRID), gid="w"))
    assert [float(row["value"]) for row in dictionaries(holes.data)] == [1, 2, 3, 4, 6]
    words = drawn(lambda ax: record(ax.imshow([[1, 2]]), "t", value=None, word=[["no", "a, b"]]))
    assert words.data.splitlines()[-2:] == ["1,t,0,0,no", '1,t,1,0,"a, b"']
    ends = drawn(lambda ax: ax.axline((0.5, 0.5), slope=2)).rows()
    assert (ends[1]["y"] - ends[0]["y"]) / (ends[1]["x"] - ends[0]["x"]) == pytest.approx(2)
    x, y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5))
    rows = drawn(lambda ax: ax.contour(x, y, x + 2 * y, levels=[0.5, 1])).rows()
    assert {row["value"] for row in rows if "x" in row} == {0.5, 1.0}
    for row in rows:
        assert "x" not in row or row["x"] + 2 * row["y"] == pytest.approx(row["value"])
    room = {"subplot_kw": {"projection": "3d"}}
    same(drawn(lambda ax: ax.plot(X, Y, X + Y, label="way"), **room), "way", x=X, y=Y, z=X + Y)
    same(drawn(lambda ax: ax.scatter(X, Y, X + Y), **room), "series 1", x=X, y=Y, z=X + Y)


UNREADABLE = {
    "PolyCollection": lambda ax: ax.tripcolor([0, 1, 0], [0, 0, 1], [1, 2, 3]),
    "AxesImage": lambda ax: ax.imshow(np.full((2, 2, 3), 0.5)),
    "Circle": lambda ax: ax.add_patch(Circle((0.1, 0.1), 0.1)),
    "Line2D": lambda ax: ax.errorbar(X, Y, xerr=0.1, yerr=1.0),
    "Poly3DCollection": lambda ax: ax.plot_trisurf([0, 1, 0], [0, 0, 1], [1, 2, 3]),
    "Line3DCollection": lambda ax: ax.add_collection(Line3DCollection([np.eye(3)])),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_named(kind):
    room = {"projection": "3d" if "3D" in kind else None}
    picture = drawn(lambda ax: (ax.plot(X, Y), UNREADABLE[kind](ax)), subplot_kw=room)
    (line,) = (line for line in comments(picture) if line.startswith("# not in this table"))
    assert re.fullmatch(rf"# not in this table: panel 1: \w*{kind}", line)


def test_names_panels_axes_and_ticks():
    figure, (left, right) = new_figure(5, 2, ncols=2, sharey=True)
    left.plot(X, Y, label="one"), left.plot(X, Y + 1, label="one"), left.plot(X, Y + 2)
    left.plot(X, Y, "o", label="dots"), left.plot(X, Y, "o", label="dots")
    left.set(title="Left", xlabel="time\nin seconds", ylabel="risk (nats)", xscale="log")
    right.imshow([[1, 2]], vmin=0, vmax=4, gid="weight")
    right.set_xticks([0, 1], ["cat", "mat"])
    figure.suptitle("Both")
    lines = plots.Picture(b"", contents(figure)).data.splitlines()
    assert lines[:2] == ["# title: Both", "# panel 1: Left"]
    assert lines[2].startswith("# panel 1, x: time in seconds; log; ")
    assert any(line.startswith("# panel 2, y: risk (nats); linear; ") for line in lines)
    assert "# panel 2, ticks of x: 0 is cat, 1 is mat" in lines
    assert "# panel 2, value: weight; linear; 0 to 4" in lines
    names = [tuple(row[:2]) for row in csv.reader(lines) if row[0] in "12"]
    assert list(dict.fromkeys(names)) == [
        ("1", "one (1)"), ("1", "one (2)"), ("1", "series 1"), ("1", "dots"), ("2", "weight")
    ]  # fmt: skip
    assert names.count(("1", "dots")) == 6


def test_rows_have_all_digits_and_the_table_those_that_a_page_shows():
    rows = dictionaries(drawn(lambda ax: ax.plot([np.pi * 1e6, -1e-320], [-0.0, 1 / 3])).data)
    for row, x, y in zip(rows, (np.pi * 1e6, -1e-320), (0, 1 / 3), strict=True):
        assert float(row["x"]) == pytest.approx(x, rel=2e-4)
        assert float(row["y"]) == pytest.approx(y, rel=1e-4) and not row["y"].startswith("-")
    x = np.linspace(0, 1, 2 * ROWS)
    rows = drawn(lambda ax: ax.plot(x, np.sin(x))).rows()
    assert [row["y"] for row in rows] == np.sin(x).tolist()


# --------------------------------------------------------------------------------------- thinning


def test_long_series_and_images_are_thinned_evenly_and_short_ones_are_not():
    x = np.arange(3 * ROWS)
    picture = drawn(lambda ax: (ax.plot(x, 2 * x, label="long"), ax.plot(X, Y, label="short")))
    rows = dictionaries(picture.data)
    at = np.array([float(row["x"]) for row in rows if row["series"] == "long"])
    assert len(at) == ROWS - 3 and len(rows) == ROWS
    assert at[0] == 0 and at[-1] == x[-1] and np.ptp(np.diff(at)) <= 1
    (note,) = [line for line in comments(picture) if "thinned" in line]
    assert note == f"# thinned: panel 1, {ROWS - 3} of {3 * ROWS} rows of long"
    picture = drawn(lambda ax: ax.imshow(np.arange(120.0 * 200).reshape(120, 200), gid="map"))
    rows = dictionaries(picture.data)
    x, y, value = (np.array([float(r[name]) for r in rows]) for name in ("x", "y", "value"))
    steps = set(np.diff(np.unique(x))) | set(np.diff(np.unique(y)))
    assert len(x) <= ROWS and len(steps) == 1
    np.testing.assert_allclose(value, 200 * y + x, rtol=1e-4)


def slider(n=4, rows=ROWS):
    def draw(value):
        def line(ax):
            ax.plot(np.linspace(0, 1, rows), value * np.linspace(0, 1, rows), label="y")
            ax.set(xlabel="x", ylabel="y")

        return drawn(line)

    return plots.frames(
        draw, range(1, n + 1), name="slope", label=lambda v: f"slope, {v}", alt=str, caption="C"
    )


def test_frames_have_a_column_of_their_labels():
    shown = slider()
    lines = shown.data.splitlines()
    assert "# panel 1, x: x; linear; -0.05 to 1.05" in lines
    assert "# frame slope, 2, panel 1, y: y; linear; -0.1 to 2.1" in lines
    rows = dictionaries(shown.data)
    assert 0 < len(rows) <= ROWS_OF_FRAMES
    for row in rows:
        slope = float(row["frame"].removeprefix("slope, "))
        assert float(row["y"]) == pytest.approx(slope * float(row["x"]), rel=3e-4)


# ------------------------------------------------------------------------------------- comparison


HEADS = 2.0 ** np.arange(3, 8)


def rates(x=HEADS, y=1 / HEADS, label="mean gap", **changes):
    def draw(ax):
        ax.plot(x, y, label=label)
        ax.set(**{"xlabel": "heads", "ylabel": "nats", "xscale": "log", "yscale": "log", **changes})

    return drawn(draw).data


def test_the_comparison_accepts_what_cannot_be_seen():
    assert table_difference("# figure: fig-a; chapter b, cell c\n" + rates(), rates()) is None
    assert table_difference(rates(), rates(y=(1 + 1e-4) / HEADS)) is None
    flat = [drawn(lambda ax, y=y: ax.plot(X, y)).data for y in (Y, Y + 1e-14)]
    assert table_difference(*flat) is None
    # below the axis both are noise
    deep = [rates(X, [1, 0.1, least], ylim=(1e-6, 2)) for least in (1e-15, 3e-17)]
    assert table_difference(*deep) is None


def test_the_comparison_rejects_another_figure():
    for changes in (
        {"x": 1 / HEADS, "y": HEADS}, {"y": 1.05 / HEADS}, {"y": 1 / HEADS[::-1]},
        {"y": np.r_[1 / HEADS[:-1], 1.1 / HEADS[-1]]}, {"x": HEADS[:-1], "y": 1 / HEADS[:-1]},
        {"label": "gap"}, {"xlabel": "layers"}, {"title": "now with a title"},
    ):  # fmt: skip
        assert table_difference(rates(), rates(**changes)) is not None
        if "x" not in changes:  # without numbers the structure is compared
            structure = table_difference(rates(), rates(**changes), numbers=False)
            assert (structure is None) == ("y" in changes)


def test_frames_and_words_are_compared():
    one = slider(rows=10).data
    assert table_difference(one, one) is None
    assert table_difference(one, slider(n=3, rows=10).data) is not None
    assert table_difference(one, one.replace("slope, 2", "slope, 7")) is not None
    assert table_difference(one, re.sub(r'"slope, 2",1,y,1,2', '"slope, 2",1,y,1,1.9', one))

    def regimes(flipped):
        names = np.full((20, 20), "stable", dtype=object)
        names.flat[:flipped] = "open"
        grid = np.zeros((20, 20))
        return drawn(lambda ax: record(ax.imshow(grid), "m", value=None, word=names)).data

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
        assert first == f"# figure: {item.name}; chapter {item.chapter}, cell {item.cell_id}"
        assert "# not in this table" not in text, item.name
        header, *rows = csv.reader(line for line in lines if not line.startswith("#"))
        front = ["frame"] * (item.kind == "frames") + ["panel", "series"]
        assert header[: len(front)] == front and len(header) > len(front), item.name
        most = ROWS_OF_FRAMES if item.kind == "frames" else ROWS
        assert 0 < len(rows) <= most, f"{item.name}: run the chapter with `make run`"
        assert all(len(row) == len(header) for row in rows), item.name
        cells = {cell for row in rows for cell in row[len(front) :]}
        assert not cells & {"nan", "-nan", "inf", "-inf"}, item.name
        unnamed = {row[len(front) - 1] for row in rows} & {f"series {k}" for k in range(1, 9)}
        assert not unnamed, f"{item.name}: name it by a label or a gid"
    files = list((BOOK / "figures").glob("*"))
    assert {path.stem for path in files} == {item.name for item in DRAWN}
    sizes = [path.stat().st_size for path in files]
    assert sum(sizes) < 1e5 * len(book.chapters()) and max(sizes) < 2e5
    for path in book.chapters():
        assert DATA_MIME not in path.read_text(encoding="utf-8"), path.name


LINE = '[{"x": x, "y": k * x, "label": "y"}], xlabel="x", ylabel="y"'
CELLS = {
    "begin": "import numpy as np\nfrom companion import plots\nx, k = np.arange(4.0), 1",
    "a": f"plots.curves({LINE})",
    "view": f"plots.frames(lambda k: plots.curves({LINE}), [1, 2], name='k', alt=str, caption='C')",
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
