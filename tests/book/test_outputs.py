"""The comparison of notebook outputs: it accepts rounding and rejects everything else."""

import copy
import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.compare_outputs import data_difference, difference, same_number, split, text_difference

pytest_plugins = "pytester"
TABLE = """\
quantity         measured     stated  ratio  holds
---------------  --------  -  ------  -----  -----
eigenvalue of J  0.4984    ≤  0.5     1.003  yes
noise            <10⁻¹²    ≤  1.0            yes
heads            1024      =  1024           yes
hy-lemma-2-1: holds"""
#: What is stored, what is found, and whether they agree: as rounded numbers, and exactly.
CHANGES = [
    # one unit of the last digit, noise, trailing digits
    ("0.4984", "0.4985", True, False), ("0.4984", "0.4983", True, False),
    ("<10⁻¹²", "0     ", True, True), ("0.5     1.003", "0.5000  1.003", True, False),
    ("0.4984", "0.4986", False, False), ("0.4984", "-0.4984", False, False),
    ("1024 ", "1025 ", False, False), ("<10⁻¹²", "2·10⁻⁹", False, False), ("≤", "≥", False, False),
    ("yes", "NO ", False, False), ("hy-lemma-2-1", "hy-lemma-2-2", False, False),
    ("0.5     1.003", "0.5     nan", False, False), ("holds\n-", "holds\n\n-", False, False),
]  # fmt: skip


@pytest.mark.parametrize("stored, fresh, rounded, exact", CHANGES)
def test_rounding_is_accepted_and_nothing_else(stored, fresh, rounded, exact):
    assert stored in TABLE
    fresh = TABLE.replace(stored, fresh, 1)
    for strict, accepted in ((False, rounded), (True, exact)):
        assert (text_difference(TABLE, fresh, exact=strict) is None) == accepted


def test_layout_and_addresses_do_not_matter_and_words_with_digits_are_words():
    row = "<td>gap</td><td>0.1234</td><td>&lt;10⁻¹²</td>"
    assert text_difference(row, row.replace("0.1234", "0.1235").replace("&lt;10⁻¹²", "0")) is None
    for old, new in (("0.1234", "0.1244"), ("<td>gap", "<th>gap")):
        assert text_difference(row, row.replace(old, new)) is not None
    assert text_difference("gap\n----\n0.25\n", "gap\n------\n0.2500\n") is None
    assert text_difference("<A at 0x7f12>", "<A at 0x9a34>") is None
    assert split("W2 fig-2 v1.2 x_1 0x7f3a")[1] == []
    assert split("M=4, gap 0.25 (12%)")[1] == ["4", "0.25", "12"]


@given(st.floats(1e-6, 1e6), st.integers(2, 8), st.integers(-(10**9), 10**9), st.integers(1, 5))
def test_numbers_agree_up_to_rounding_and_integers_exactly(x, digits, n, off):
    literal = f"{x:.{digits}e}"
    unit = 10.0 ** (int(literal.split("e")[1]) - digits)
    assert same_number(literal, f"{x * (1 + 1e-13):.{digits}e}")
    assert not same_number(literal, f"{x + 12 * unit:.{digits}e}")
    assert same_number(str(n), str(n)) and not same_number(str(n), str(n + off))


CHECK = {
    "statement": "hy-lemma-2-1", "holds": True, "ratio": None,
    "rows": [{"what": "gap", "measured": 0.1234, "reference": 1}],
}  # fmt: skip


def test_data_agree_as_printed_numbers_do():
    def changed(path, value):
        place = fresh = copy.deepcopy(CHECK)
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return fresh

    measured, reference = ["rows", 0, "measured"], ["rows", 0, "reference"]
    assert data_difference(CHECK, changed(measured, 0.1235)) is None
    assert data_difference(CHECK, changed(measured, 0.1235), exact=True) is not None
    assert data_difference({"measured": 0.0}, {"measured": 5e-13}) is None
    for path, value in (
        (measured, 0.1236), (measured, float("nan")), (reference, 2), (reference, True),
        (["rows", 0, "what"], "Gap"), (["rows"], []), (["holds"], False), (["holds"], 1),
        (["ratio"], 1.0), (["more"], 1),
    ):  # fmt: skip
        assert data_difference(CHECK, changed(path, value)) is not None


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def display(text="", **data):
    kinds = {key.replace("__", "/"): value for key, value in data.items()}
    kinds |= {"text/plain": text} if text else {}
    return {"output_type": "display_data", "data": kinds, "metadata": {}}


def frames(data, slopes=(1, 2)):
    frame = '<img src="data:image/png;base64,{}" alt="slope {}">'
    return [display(text__html="".join(map(frame.format, data, slopes)))]


PNG, ONE, TWO = display("Picture", image__png="AAAA"), display("one"), display("two")
SAME = [
    ([PNG], [display("Picture", image__png="BBBB")]),
    (frames(["AA+/=", "BB"]), frames(["CC", "DD"])),
    ([stream("a\nb\n")], [stream("a\n"), stream("b\n")]),
    ([display("gap 0.25")], [display("gap 0.26")]),
]
OTHER = [
    ([PNG], [PNG, PNG]), ([PNG], [display("Picture")]), (frames(["A", "B"]), frames(["C"])),
    (frames(["A", "B"]), frames(["C", "D"], (1, 3))), ([stream("a")], [stream("a", "stderr")]),
    ([stream("a")], []), ([], [stream("a")]), ([ONE, TWO], [TWO, ONE]), ([stream("one")], [ONE]),
    ([ONE], [{**ONE, "output_type": "execute_result"}]),
]  # fmt: skip


def test_pixels_and_pieces_of_a_stream_do_not_matter_but_number_order_and_kind_do():
    assert [difference(*pair) for pair in SAME] == [None] * len(SAME)
    assert None not in [difference(*pair) for pair in OTHER]
    assert difference(*SAME[-1], exact=True) is not None


def test_sizes_of_pictures_agree_up_to_one_pixel():
    element = '<img src="x" width="{}" height="{}" style="max-width:100%">'
    for text in ("Picture({} x {} pixels)", element):
        stored = text.format(820, 460)
        for width, height, agree in ((820, 459, True), (821, 461, True), (822, 460, False)):
            fresh = text.format(width, height)
            assert (text_difference(stored, fresh, exact=True) is None) == agree
    stored = element.format(820, 460)
    assert text_difference(stored, 2 * stored) is not None


@pytest.mark.slow
def test_nbval_uses_this_comparison(pytester, monkeypatch):
    """Planted numbers fail, rounding passes, foreign text is reported as skipped."""
    from nbformat import write
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    from tools import nbval_comparison

    monkeypatch.setattr(nbval_comparison, "corpus_difference", lambda: "another text")
    cells = [
        new_code_cell(
            "print('0.1235')", execution_count=i, metadata={"tags": tags},
            outputs=[new_output("stream", name="stdout", text=text + "\n")],
        )
        for i, (text, tags) in enumerate([("0.1234", []), ("0.1244", []), ("0.9", ["corpus"])], 1)
    ]  # fmt: skip
    write(new_notebook(cells=cells), pytester.path / "planted.ipynb")
    result = pytester.runpytest("--nbval", "--nbval-current-env", "planted.ipynb", "-rs")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*stored 0.1244, fresh 0.1235*", "*another text*"])


def explored(value: float) -> list[dict]:
    numbers = {"atoms": [[value, 0.5], [3.0, 0.5]], "gap": 1e-17 * value}
    shown = f'<div data-parameters="{html.escape(json.dumps(numbers))}"><p>12 heads</p></div>'
    return [{"output_type": "display_data", "data": {"text/html": shown}}]


def test_what_a_live_figure_computes_with_agrees_up_to_rounding_only():
    assert difference(explored(1 / 3), explored(1 / 3 + 1e-12)) is None
    assert "atoms[0][0]" in difference(explored(1 / 3), explored(1 / 3 + 1e-4))
    other = explored(1 / 3)
    other[0]["data"]["text/html"] = other[0]["data"]["text/html"].replace("12 heads", "13 heads")
    assert "stored 12, fresh 13" in difference(explored(1 / 3), other)
