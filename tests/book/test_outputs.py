"""The comparison of notebook outputs: it accepts rounding and rejects everything else."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.compare_outputs import (
    data_difference,
    difference,
    same_number,
    split,
    text_difference,
)

TABLE = """\
quantity         measured     stated  ratio  holds
---------------  --------  -  ------  -----  -----
eigenvalue of J  0.4984    ≤  0.5     1.003  yes
noise            <1e-12    ≤  1.0            yes
heads            1024      =  1024           yes
hy-lemma-2-1: holds"""


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def display(**data):
    kinds = {key.replace("__", "/"): value for key, value in data.items()}
    return {"output_type": "display_data", "data": kinds, "metadata": {}}


@pytest.mark.parametrize(
    "stored, fresh",
    [
        ("0.4984", "0.4985"),  # one unit of the last digit
        ("0.4984", "0.4983"),
        ("1.003", "1.002"),
        ("<1e-12", "0     "),  # noise is noise
        ("0.5     1.003", "0.5000  1.003"),  # trailing digits
    ],
)
def test_rounding_is_accepted(stored, fresh):
    assert text_difference(TABLE, TABLE.replace(stored, fresh, 1)) is None


@pytest.mark.parametrize(
    "stored, fresh",
    [
        ("0.4984", "0.4994"),
        ("0.4984", "0.4986"),
        ("0.4984", "-0.4984"),
        ("1024 ", "1025 "),
        ("<1e-12", "2e-9 "),
        ("≤", "≥"),
        ("yes", "NO "),
        ("hy-lemma-2-1", "hy-lemma-2-2"),
        ("0.5     1.003", "0.5     nan"),
        ("noise", "nose"),
        ("holds\n-", "holds\n\n-"),
    ],
)
def test_corruption_is_rejected(stored, fresh):
    assert stored in TABLE
    assert text_difference(TABLE, TABLE.replace(stored, fresh, 1)) is not None


def test_html_tables_are_compared_cell_by_cell():
    row = "<td>gap</td><td>0.1234</td><td>&lt;1e-12</td>"
    assert text_difference(row, row.replace("0.1234", "0.1235")) is None
    assert text_difference(row, row.replace("&lt;1e-12", "0")) is None
    assert text_difference(row, row.replace("0.1234", "0.1244")) is not None
    assert text_difference(row, row.replace("<td>gap", "<th>gap")) is not None


def test_width_of_a_column_does_not_matter():
    assert text_difference("gap\n----\n0.25\n", "gap\n------\n0.2503\n") is not None
    assert text_difference("gap\n----\n0.25\n", "gap\n------\n0.2500\n") is None


def test_exactly_means_every_digit():
    for stored, fresh in (("0.4984", "0.4985"), ("0.5     1.003", "0.5000  1.003")):
        assert text_difference(TABLE, TABLE.replace(stored, fresh, 1), exact=True) is not None
    assert text_difference(TABLE, TABLE.replace("<1e-12", "0     "), exact=True) is None
    assert text_difference("error 2e-12", "error 3e-12") is None
    assert text_difference("error 2e-12", "error 3e-12", exact=True) is not None
    one, other = (display(text__plain=f"gap {gap}") for gap in ("0.25", "0.26"))
    assert difference([one], [other]) is None
    assert difference([one], [other], exact=True) is not None


@given(st.floats(1e-6, 1e6), st.integers(2, 8))
def test_a_number_agrees_with_itself_rounded_either_way(x, digits):
    literal = f"{x:.{digits}e}"
    mantissa, exponent = literal.split("e")
    unit = 10.0 ** (int(exponent) - digits)
    assert same_number(literal, f"{x * (1 + 1e-13):.{digits}e}")
    assert not same_number(literal, f"{x + 12 * unit:.{digits}e}")


@given(st.integers(-(10**9), 10**9), st.integers(1, 5))
def test_integers_are_exact(n, off):
    assert same_number(str(n), str(n))
    assert not same_number(str(n), str(n + off))


def test_words_with_digits_are_words():
    assert split("W2 fig-2 v1.2 x_1 0x7f3a")[1] == []
    assert split("M=4, gap 0.25 (12%)")[1] == ["4", "0.25", "12"]


def test_addresses_of_objects_are_ignored():
    assert text_difference("<A at 0x7f12>", "<A at 0x9a34>") is None


CHECK = {
    "statement": "hy-lemma-2-1",
    "holds": True,
    "ratio": None,
    "rows": [{"what": "gap", "measured": 0.1234, "reference": 1}],
}


def test_data_agree_as_printed_numbers_do():
    close = copy.deepcopy(CHECK)
    close["rows"][0]["measured"] = 0.1235
    assert data_difference(CHECK, close) is None
    assert data_difference(CHECK, close, exact=True) is not None
    tiny = {"measured": 0.0}
    assert data_difference(tiny, {"measured": 5e-13}) is None


@pytest.mark.parametrize(
    "path, value",
    [
        (["rows", 0, "measured"], 0.1236),
        (["rows", 0, "measured"], float("nan")),
        (["rows", 0, "reference"], 2),
        (["rows", 0, "reference"], True),
        (["rows", 0, "what"], "Gap"),
        (["rows"], []),
        (["holds"], False),
        (["holds"], 1),
        (["ratio"], 1.0),
        (["more"], 1),
    ],
)
def test_corrupted_data_are_rejected(path, value):
    fresh = copy.deepcopy(CHECK)
    place = fresh
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert data_difference(CHECK, fresh) is not None


def test_pictures_count_but_their_pixels_do_not():
    png = display(image__png="AAAA", text__plain="Picture(10 x 10 pixels)")
    other = display(image__png="BBBB", text__plain="Picture(10 x 10 pixels)")
    assert difference([png], [other]) is None
    assert difference([png], [png, png]) is not None
    assert difference([png], [display(text__plain="Picture(10 x 10 pixels)")]) is not None


def test_frames_may_change_pixels_but_not_descriptions_or_number():
    frame = '<img src="data:image/png;base64,{}" alt="slope {}">'
    stored = display(text__html=frame.format("AA+/=", 1) + frame.format("BB", 2))
    same = display(text__html=frame.format("CC", 1) + frame.format("DD", 2))
    assert difference([stored], [same]) is None
    assert difference([stored], [display(text__html=frame.format("CC", 1))]) is not None
    renamed = display(text__html=frame.format("CC", 1) + frame.format("DD", 3))
    assert difference([stored], [renamed]) is not None


def test_streams_are_joined_and_kept_apart_by_name():
    assert difference([stream("a\nb\n")], [stream("a\n"), stream("b\n")]) is None
    assert difference([stream("a")], [stream("a", "stderr")]) is not None
    assert difference([stream("a")], []) is not None
    assert difference([], [stream("a")]) is not None


def test_order_and_kind_of_outputs_matter():
    one, two = display(text__plain="one"), display(text__plain="two")
    assert difference([one, two], [two, one]) is not None
    assert difference([one], [{**one, "output_type": "execute_result"}]) is not None
    assert difference([stream("one")], [one]) is not None


pytest_plugins = "pytester"


@pytest.mark.slow
def test_nbval_uses_this_comparison(pytester, monkeypatch):
    """Planted numbers fail, rounding passes, foreign text is reported as skipped."""
    from nbformat import write
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    from tools import nbval_comparison

    monkeypatch.setattr(nbval_comparison, "corpus_difference", lambda: "another text")
    cells = [("0.1234", []), ("0.1244", []), ("0.9", ["corpus"])]
    notebook = new_notebook(
        cells=[
            new_code_cell(
                "print('0.1235')",
                execution_count=i,
                metadata={"tags": tags},
                outputs=[new_output("stream", name="stdout", text=text + "\n")],
            )
            for i, (text, tags) in enumerate(cells, 1)
        ]
    )
    write(notebook, pytester.path / "planted.ipynb")
    result = pytester.runpytest("--nbval", "--nbval-current-env", "planted.ipynb", "-rs")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*stored 0.1244, fresh 0.1235*"])
    result.stdout.fnmatch_lines(["*executed, not compared: another text*"])
