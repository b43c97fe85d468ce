"""The data behind the figures: what is drawn is what is written, for every figure of the book."""

import csv
import io
import json
import re

import numpy as np
import pytest
from matplotlib.patches import Circle
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from mfbook.book import plots
from mfbook.book.plots.data import DECORATION, ROWS, ROWS_OF_FRAMES, contents, record, share
from mfbook.book.plots.style import DATA_MIME, new_figure
from tools import chapters as book
from tools import figure as figure_tool
from tools.chapters import BOOK, cells_for, figures
from tools.compare_outputs import table_difference
from tools.nbval_comparison import data_difference, without_data

X = np.array([0.1, 0.2, 0.4])
Y = np.array([3.0, -1.0, 2.0])


def drawn(draw, **axes):
    """What a function draws on axes of its own, without the drawing."""
    figure, ax = new_figure(3, 2, **axes)
    draw(ax)
    return plots.Picture(b"", contents(figure))


def columns(picture, *names):
    """Columns of a table with one series, as numbers, and the name of the series."""
    rows = list(csv.DictReader(line for line in picture.data.splitlines() if line[0] != "#"))
    (series,) = {row["series"] for row in rows}
    return series, *(np.array([float(row[name]) for row in rows]) for name in names)


def comments(picture):
    return [line for line in picture.data.splitlines() if line.startswith("#")]


def same(picture, series, **expected):
    """Whether a picture has exactly these columns."""
    name, *found = columns(picture, *expected)
    assert name == series
    header = next(line for line in picture.data.splitlines() if line[0] != "#")
    assert header.split(",") == ["panel", "series", *expected]
    for array, values in zip(found, expected.values(), strict=True):
        np.testing.assert_allclose(array, np.ravel(values), rtol=1e-5)


def test_a_notebook_gets_the_picture_and_its_data():
    from IPython.core.formatters import DisplayFormatter

    picture = plots.curves([{"x": X, "y": Y, "label": "y"}], xlabel="x", ylabel="y")
    kinds, _ = DisplayFormatter().format(picture)
    assert set(kinds) == {"text/plain", "image/png", DATA_MIME}
    assert kinds[DATA_MIME] == picture.data and kinds["image/png"] == picture.png
    frames = plots.frames(lambda v: picture, [1, 2], name="n", alt=str, caption="c")
    kinds, _ = DisplayFormatter().format(frames)
    assert set(kinds) == {"text/plain", "text/html", DATA_MIME}
    assert kinds[DATA_MIME] == frames.data


# ------------------------------------------------------------------------------- kinds of artists


def test_lines_and_points():
    same(drawn(lambda ax: ax.plot(X, Y, label="a")), "a", x=X, y=Y)
    same(drawn(lambda ax: ax.plot(X, Y, "o", gid="b", label="a")), "b", x=X, y=Y)
    same(drawn(lambda ax: ax.scatter(X, Y)), "series 1", x=X, y=Y)
    same(drawn(lambda ax: ax.scatter(X, Y, c=[5, 6, 7], s=[1, 2, 3], label="dots")), "dots",
         x=X, y=Y, value=[5, 6, 7], size=[1, 2, 3])  # fmt: skip


def test_lines_across_the_axes_are_one_number():
    same(drawn(lambda ax: ax.axhline(0.3, gid="level")), "level", y=[0.3])
    same(drawn(lambda ax: ax.axvline(0.3, label="place")), "place", x=[0.3])
    ends = columns(drawn(lambda ax: ax.axline((0.5, 0.5), slope=2)), "x", "y")
    assert (ends[2][1] - ends[2][0]) / (ends[1][1] - ends[1][0]) == pytest.approx(2)


def test_steps_say_so():
    picture = drawn(lambda ax: ax.step(X, Y, where="post", label="count"))
    same(picture, "count", x=X, y=Y)
    assert "# panel 1: a line keeps each value until the next x" in comments(picture)


def test_a_gap_in_a_line_stays_a_gap():
    rows = drawn(lambda ax: ax.plot(X, [1, np.nan, 2])).data.splitlines()
    assert rows[-2] == "1,series 1,0.2,"


def test_bands_bars_and_error_bars():
    def band(ax):
        ax.plot(X, Y, label="mean")
        ax.fill_between(X, Y - 1, Y + 1, gid="mean")

    same(drawn(band), "mean", x=X, y=Y, low=Y - 1, high=Y + 1)
    alone = drawn(lambda ax: ax.fill_between(X, Y - 1, Y + 1, label="band"))
    same(alone, "band", x=X, low=Y - 1, high=Y + 1)
    across = drawn(lambda ax: ax.fill_betweenx(X, Y - 1, Y + 1, label="band"))
    same(across, "band", y=X, low=Y - 1, high=Y + 1)
    same(drawn(lambda ax: ax.bar(X, Y, width=0.05, label="bars")), "bars", x=X, y=Y)
    same(drawn(lambda ax: ax.barh(X, Y, height=0.05, label="bars")), "bars", x=Y, y=X)
    counts = drawn(lambda ax: ax.hist([1, 1, 3], bins=[0, 2, 4], gid="draws"))
    same(counts, "draws", x=[1, 3], y=[2, 1])
    errors = drawn(lambda ax: ax.errorbar(X, Y, yerr=[[1, 2, 3], [4, 5, 6]], label="runs"))
    same(errors, "runs", x=X, y=Y, low=Y - [1, 2, 3], high=Y + [4, 5, 6])
    lines = drawn(lambda ax: ax.vlines(X, 0, Y, label="masses"))
    same(lines, "masses", x=X, low=np.minimum(Y, 0), high=np.maximum(Y, 0))


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_images_in_both_orders(origin):
    values = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    picture = drawn(lambda ax: ax.imshow(values, origin=origin, gid="weights"))
    j, i = np.meshgrid(range(3), range(2))
    same(picture, "weights", x=j, y=i, value=values)
    wide = drawn(lambda ax: ax.imshow(values, origin=origin, extent=(0, 6, 0, 2), gid="weights"))
    heights = [[1.5] * 3, [0.5] * 3] if origin == "upper" else [[0.5] * 3, [1.5] * 3]
    same(wide, "weights", x=[1, 3, 5] * 2, y=heights, value=values)
    holes = np.ma.masked_where(values == 5, values)
    x, *_ = columns(drawn(lambda ax: ax.imshow(holes, gid="w")), "x")[1:]
    assert len(x) == 5


def test_meshes_contours_and_arrows():
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    mesh = drawn(lambda ax: ax.pcolormesh([0, 1, 3], [0, 2, 4], values, gid="v"))
    same(mesh, "v", x=[0.5, 2, 0.5, 2], y=[1, 1, 3, 3], value=values)
    smooth = drawn(lambda ax: ax.pcolormesh([0, 1], [0, 2], values, shading="gouraud", gid="v"))
    same(smooth, "v", x=[0, 1, 0, 1], y=[0, 0, 2, 2], value=values)
    arrows = drawn(lambda ax: ax.quiver(X, Y, Y, X))
    same(arrows, "series 1", x=X, y=Y, u=Y, v=X)
    x, y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5))
    rows = drawn(lambda ax: ax.contour(x, y, x + 2 * y, levels=[0.5, 1])).rows()
    assert {row["value"] for row in rows if "x" in row} == {0.5, 1.0}
    for row in rows:
        assert "x" not in row or row["x"] + 2 * row["y"] == pytest.approx(row["value"])


def test_three_dimensions():
    pytest.importorskip("mpl_toolkits.mplot3d")
    room = {"subplot_kw": {"projection": "3d"}}
    same(drawn(lambda ax: ax.plot(X, Y, X + Y, label="way"), **room), "way", x=X, y=Y, z=X + Y)
    same(drawn(lambda ax: ax.scatter(X, Y, X + Y), **room), "series 1", x=X, y=Y, z=X + Y)


@pytest.mark.parametrize(
    "kind, room, draw",
    [
        ("PolyCollection", None, lambda ax: ax.tripcolor([0, 1, 0], [0, 0, 1], [1, 2, 3])),
        ("AxesImage", None, lambda ax: ax.imshow(np.full((2, 2, 3), 0.5))),
        ("Circle", None, lambda ax: ax.add_patch(Circle((0.1, 0.1), 0.1))),
        ("Line2D", None, lambda ax: ax.errorbar(X, Y, xerr=0.1, yerr=1.0)),
        ("Poly3DCollection", "3d", lambda ax: ax.plot_trisurf([0, 1, 0], [0, 0, 1], [1, 2, 3])),
        ("Line3DCollection", "3d", lambda ax: ax.add_collection(Line3DCollection([np.eye(3)]))),
    ],
)
def test_what_cannot_be_read_is_named(kind, room, draw):
    picture = drawn(lambda ax: (ax.plot(X, Y), draw(ax)), subplot_kw={"projection": room})
    (line,) = (line for line in comments(picture) if line.startswith("# not in this table"))
    assert re.fullmatch(rf"# not in this table: panel 1: \w*{kind}", line)


def test_decorations_are_left_out():
    def draw(ax):
        ax.plot(X, Y, label="a")
        ax.plot(X, 2 * Y, gid=DECORATION)
        ax.axvspan(0.1, 0.2)
        ax.annotate("here", (0.1, 1), xytext=(0.2, 2), arrowprops={"arrowstyle": "->"})
        ax.plot([], [], label="for the legend only")
        ax.legend()

    same(drawn(draw), "a", x=X, y=Y)
    assert not any("not in this table" in line for line in comments(drawn(draw)))


def test_recorded_data_replace_what_is_drawn():
    picture = drawn(lambda ax: record(ax.scatter(X, Y, s=[1, 2, 3]), "p", size=None, mass=Y))
    same(picture, "p", x=X, y=Y, mass=Y)
    picture = drawn(lambda ax: record(ax.hlines(2.0, 0, 1), "best", x=[7], y=[2]))
    same(picture, "best", x=[7], y=[2])
    unreadable = drawn(lambda ax: record(ax.add_patch(Circle((7, 2), 1)), "disc", x=[7], y=[2]))
    same(unreadable, "disc", x=[7], y=[2])
    words = drawn(lambda ax: record(ax.imshow([[1, 2]]), "t", value=None, word=[["no", "a, b"]]))
    assert words.data.splitlines()[-2:] == ["1,t,0,0,no", '1,t,1,0,"a, b"']


# ----------------------------------------------------------------------------------- descriptions


def test_names_panels_axes_and_ticks():
    def two():
        figure, (left, right) = new_figure(5, 2, ncols=2, sharey=True)
        left.plot(X, Y, label="one"), left.plot(X, Y + 1, label="one"), left.plot(X, Y + 2)
        left.plot(X, Y, "o", label="dots"), left.plot(X, Y, "o", label="dots")
        left.set(title="Left", xlabel="time\nin seconds", ylabel="risk (nats)", xscale="log")
        right.imshow([[1, 2]], vmin=0, vmax=4, gid="weight")
        right.set_xticks([0, 1], ["cat", "mat"])
        figure.suptitle("Both")
        return plots.Picture(b"", contents(figure))

    lines = two().data.splitlines()
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


def test_six_significant_digits_and_no_minus_zero():
    rows = drawn(lambda ax: ax.plot([np.pi * 1e6, -1e-320], [-0.0, 1 / 3])).data.splitlines()
    assert rows[-2:] == ["1,series 1,3.14159e+06,0", "1,series 1,-9.99989e-321,0.333333"]


def test_a_table_reads_back_in_any_program():
    text = plots.curves([{"x": X, "y": Y, "label": 'a, "b"\n# c'}], xlabel="x", ylabel="y").data
    rows = list(csv.DictReader(line for line in io.StringIO(text) if not line.startswith("#")))
    assert [row["series"] for row in rows] == ['a, "b" # c'] * 3


def test_rows_are_not_thinned_and_exact():
    x = np.linspace(0, 1, 2 * ROWS)
    rows = drawn(lambda ax: ax.plot(x, np.sin(x))).rows()
    assert [row["y"] for row in rows] == np.sin(x).tolist()


# --------------------------------------------------------------------------------------- thinning


def test_share():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes, limit = rng.integers(1, 300, size=5), 400
        each = share(sizes.tolist(), limit)
        kept = np.minimum(sizes, each).sum()
        assert kept <= limit
        # one more would be too many, unless all are kept
        assert kept == sizes.sum() or np.minimum(sizes, each + 1).sum() > limit


def test_long_series_are_thinned_evenly_and_short_ones_are_not():
    x = np.arange(3 * ROWS)

    def draw(ax):
        ax.plot(x, 2 * x, label="long")
        ax.plot(X, Y, label="short")

    picture = drawn(draw)
    rows = [r for r in csv.reader(picture.data.splitlines()) if r[:2] == ["1", "long"]]
    assert len(rows) == ROWS - 3
    at = np.array([float(row[2]) for row in rows])
    assert at[0] == 0 and at[-1] == x[-1] and set(np.diff(at)) <= {3, 4}
    assert picture.data.count("1,short,") == 3
    (note,) = [line for line in comments(picture) if "thinned" in line]
    assert note == f"# thinned: panel 1, {ROWS - 3} of {3 * ROWS} rows of long"


def test_images_are_thinned_in_both_directions():
    picture = drawn(lambda ax: ax.imshow(np.arange(120.0 * 200).reshape(120, 200), gid="map"))
    _, x, y, value = columns(picture, "x", "y", "value")
    assert len(x) <= ROWS
    assert set(np.diff(np.unique(x))) == set(np.diff(np.unique(y))) == {3}
    np.testing.assert_array_equal(value, 200 * y + x)


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
    rows = list(csv.DictReader(line for line in lines if line[0] != "#"))
    assert len(rows) == ROWS_OF_FRAMES
    for row in rows:
        slope = float(row["frame"].removeprefix("slope, "))
        assert float(row["y"]) == pytest.approx(slope * float(row["x"]), rel=1e-5)
    assert f"# thinned: panel 1, {ROWS_OF_FRAMES // 4} of {ROWS} rows of y" in lines


# ------------------------------------------------------------------------------------- comparison


HEADS = 2.0 ** np.arange(3, 8)


def rates(x=HEADS, y=1 / HEADS, label="mean gap", **changes):
    def draw(ax):
        ax.plot(x, y, label=label)
        ax.set(**{"xlabel": "heads", "ylabel": "nats", "xscale": "log", "yscale": "log", **changes})

    return drawn(draw).data


def test_the_comparison_accepts_what_cannot_be_seen():
    assert table_difference(rates(), rates()) is None
    assert table_difference("# figure: fig-a; chapter b, cell c\n" + rates(), rates()) is None
    assert table_difference(rates(), rates(y=(1 + 1e-4) / HEADS)) is None
    flat = [drawn(lambda ax, y=y: ax.plot(X, y)).data for y in (Y, Y + 1e-14)]
    assert table_difference(*flat) is None
    # below the axis both are noise

    def falling(least):
        def draw(ax):
            ax.plot(X, [1, 0.1, least])
            ax.set(yscale="log", ylim=(1e-6, 2))

        return drawn(draw).data

    deep = [falling(least) for least in (1e-15, 3e-17)]
    assert table_difference(*deep) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"x": 1 / HEADS, "y": HEADS},  # x and y swapped
        {"y": 1.05 / HEADS},
        {"y": np.r_[1 / HEADS[:-1], 1.1 / HEADS[-1]]},
        {"y": 1 / HEADS[::-1]},
        {"x": HEADS[:-1], "y": 1 / HEADS[:-1]},
        {"label": "gap"},
        {"xlabel": "layers"},
        {"ylabel": "bits"},
        {"title": "now with a title"},
    ],
)
def test_the_comparison_rejects_another_figure(changes):
    assert table_difference(rates(), rates(**changes)) is not None


@pytest.mark.parametrize("changes", [{"label": "gap"}, {"xlabel": "layers"}, {"title": "new"}])
def test_without_numbers_the_structure_is_compared(changes):
    other = rates(y=3 / HEADS)
    assert table_difference(rates(), other) is not None
    assert table_difference(rates(), other, numbers=False) is None
    assert table_difference(rates(), rates(**changes), numbers=False) is not None


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
    import nbformat

    from tools import nbval_comparison

    monkeypatch.setattr(nbval_comparison, "BOOK", tmp_path)
    cell = nbformat.v4.new_code_cell("draw()", metadata={"mystnb": {"figure": {"name": "fig-a"}}})
    outputs = [{"output_type": "execute_result", "data": {DATA_MIME: rates(), "image/png": "A"}}]
    shown, data = without_data(outputs)
    assert shown == [{"output_type": "execute_result", "data": {"image/png": "A"}}]
    chapter = tmp_path / "01-one.ipynb"
    assert "does not exist" in data_difference(chapter, cell, data)
    (tmp_path / "figures").mkdir()
    stored = tmp_path / "figures" / "fig-a.csv"
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

DRAWN = [item for path in book.chapters() for item in figures(path)]


@pytest.mark.parametrize("item", [pytest.param(item, id=item.name) for item in DRAWN])
def test_every_figure_has_a_table(item):
    assert item.csv is not None, "run the chapter with `make run`"
    text = item.csv.read_text(encoding="utf-8")
    first, *lines = text.splitlines()
    assert first == f"# figure: {item.name}; chapter {item.chapter}, cell {item.cell_id}"
    assert not [line for line in lines if line.startswith("# not in this table")]
    header, *rows = csv.reader(line for line in lines if not line.startswith("#"))
    front = ["frame", "panel", "series"] if item.kind == "frames" else ["panel", "series"]
    assert header[: len(front)] == front and len(header) > len(front)
    assert rows and len(rows) <= (ROWS_OF_FRAMES if item.kind == "frames" else ROWS)
    assert all(len(row) == len(header) for row in rows)
    assert any(line.startswith("# panel 1, x: ") for line in lines) or "# frame" in text
    for row in rows:
        for cell in row[len(front) :]:
            assert not re.fullmatch(r"-?(nan|inf)", cell)
    unnamed = {row[len(front) - 1] for row in rows} & {f"series {k}" for k in range(1, 9)}
    assert not unnamed, "name it by a label or a gid"


def test_no_table_without_a_figure():
    assert {path.stem for path in (BOOK / "figures").glob("*")} == {item.name for item in DRAWN}


def test_tables_are_light():
    sizes = [path.stat().st_size for path in (BOOK / "figures").glob("*.csv")]
    assert sum(sizes) < 6e6 and max(sizes) < 6e5


def test_notebooks_hold_no_data():
    for path in book.chapters():
        assert DATA_MIME not in path.read_text(encoding="utf-8"), path.name


DRAWING = """
import numpy as np
from mfbook.book import plots
x = np.arange(4.0)
"""
SLIDER = """
plots.frames(lambda k: plots.curves([{"x": x, "y": k * x, "label": "y"}], xlabel="x", ylabel="y"),
             [1, 2], name="slope", alt=str, caption="C")
"""


@pytest.mark.slow
def test_a_chapter_that_runs_writes_its_tables(tmp_path, monkeypatch):
    import nbformat

    from tools import run_notebooks

    path, folder = tmp_path / "01-one.ipynb", tmp_path / "figures"
    monkeypatch.setattr(run_notebooks, "FIGURES", folder)
    monkeypatch.setattr(run_notebooks, "TIMINGS", tmp_path / "timings.json")
    monkeypatch.setattr(run_notebooks, "chapters", lambda: [path])
    shown = {"mystnb": {"figure": {"name": "fig-a", "caption": "C"}, "image": {"alt": "A"}}}
    cell = nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(cells=[
        cell(DRAWING, id="begin"),
        cell('plots.curves([{"x": x, "y": x, "label": "y"}], xlabel="x", ylabel="y")', id="a",
             metadata={**shown, "tags": ["hide-input"]}),
        cell(SLIDER, id="view", metadata={"tags": ["hide-input"]}),
    ])  # fmt: skip
    nbformat.write(notebook, path)
    folder.mkdir()
    (folder / "fig-old.csv").write_text("x\n")
    run_notebooks.run(path)
    names = ["fig-a", "frames-01-one-view"]
    assert sorted(file.stem for file in folder.iterdir()) == names
    times = json.loads((tmp_path / "timings.json").read_text())
    assert list(times["01-one"]["figures"]) == names
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


def test_a_misspelt_figure_is_answered_with_near_names():
    name = DRAWN[0].name
    assert figure_tool.find(name) == DRAWN[0]
    with pytest.raises(ValueError, match=name):
        figure_tool.find(name[:-1])
    with pytest.raises(SystemExit, match="no figure"):
        figure_tool.main(["fig-"])
    with pytest.raises(SystemExit, match="NAME="):
        figure_tool.main([])


def test_seconds_of_every_figure_are_known():
    assert not [item.name for item in DRAWN if figure_tool.expected(item) is None]


@pytest.mark.slow
def test_a_figure_is_drawn_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figure_tool, "TARGET", tmp_path)
    cheap = min(
        (item for item in DRAWN if item.kind == "figure" and figure_tool.expected(item)),
        key=figure_tool.expected,
    )
    figure_tool.main([cheap.name])
    said = capsys.readouterr().out
    assert "the data agree with" in said
    target = tmp_path / f"{cheap.name}.png"
    assert target.read_bytes().startswith(b"\x89PNG")
    assert target.with_suffix(".csv").read_text().count("\n") > 3
