"""What chapters print: numbers, tables, comparisons and verdicts."""

import json
import math
import sys

import IPython
import numpy as np
import pytest

from mfbook.book.report import (
    Check,
    Row,
    above,
    at_least,
    at_most,
    below,
    check,
    coarse,
    equal,
    show,
    table,
)
from mfbook.book.report.digits import (
    number,
)
from mfbook.book.report.tables import (
    MIME,
)

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (-65536, "-65536"),
        (np.int64(12345678), "12345678"),
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3.0"),
        (0.25, "0.25"),
        (0.49812345, "0.4981"),
        (-0.49816, "-0.4982"),
        (100.0, "100.0"),
        (1234.56, "1235"),
        (123456.7, "1.235e+05"),
        (1.25e-7, "1.25e-07"),
        (1e-12, "1e-12"),
        (9.9e-13, "<1e-12"),
        (-2.2e-16, "<1e-12"),
        (NAN, "nan"),
        (INF, "inf"),
        (-INF, "-inf"),
        (np.float32(0.1), "0.1"),
        (np.float64(2.5), "2.5"),
        (np.array(0.5), "0.5"),
        (np.array(7), "7"),
        (True, "yes"),
        (False, "no"),
        (np.True_, "yes"),
        (np.False_, "no"),
        ("copy task", "copy task"),
        (np.str_("copy task"), "copy task"),
        (None, "None"),
    ],
    ids=repr,
)
def test_numbers_are_written_as_a_reader_wants_them(value, text):
    assert number(value) == text


def test_digits_can_be_chosen():
    assert number(1.23456, 2) == "1.2"
    assert number(1.23456, 6) == "1.23456"


def test_digits_that_are_not_known_are_not_shown():
    assert number(below(3e-9, 1e-8)) == "≤ 1e-08" and number(above(0.317, 0.3)) == "≥ 0.3"
    assert number(coarse(0.04193, 2)) == "0.042" and number(coarse(419.3, 2)) == "4.2e+02"
    assert number(coarse(412.0, 3)) == "412", "no digit beyond the third"
    # data hold the bound too, also where the number itself is noise
    noise, large = (
        Check("a", (at_most("x", below(x, 1e-10), 1e-9),)).as_dict() for x in (0, 9e-11)
    )
    assert noise == large and noise["rows"][0]["measured"] == 1e-10
    # they compute as what they are
    assert below(3e-9, 1e-8) * 2 == 6e-9 and above(0.317, 0.3) > 0.31 and coarse(0.04193, 2) < 0.042


def test_a_bound_that_is_false_is_not_shown():
    assert number(below(3e-8, 1e-8)) == "3e-08" and number(above(0.25, 0.3)) == "0.25"
    assert number(below(NAN, 1.0)) == "nan"
    assert number(below(1.0, 1.0)) == "≤ 1.0" and number(above(1.0, 1.0)) == "≥ 1.0"


@pytest.mark.parametrize("make", [below, above])
@pytest.mark.parametrize("limit", [NAN, INF, -INF])
def test_a_bound_is_finite(make, limit):
    with pytest.raises(ValueError, match="limit: expected a finite number"):
        make(1.0, limit)


@pytest.mark.parametrize("digits", [0, 5, -1])
def test_digits_are_from_one_to_four(digits):
    with pytest.raises(ValueError, match="digits: expected"):
        coarse(1.0, digits)


# ---------------------------------------------------------------------------------------------
# rows


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (at_most("x", 1.0, 2.0), True),
        (at_most("x", 2.0, 2.0), True),
        (at_most("x", 2.0 + 1e-15, 2.0), False),
        (at_most("x", 2.1, 2.0), False),
        (at_most("x", 2.1, 2.0, tolerance=0.2), True),
        (at_most("x", 2.3, 2.0, tolerance=0.2), False),
        (at_least("x", 2.0, 1.0), True),
        (at_least("x", 1.0, 1.0), True),
        (at_least("x", 0.9, 1.0), False),
        (at_least("x", 0.9, 1.0, tolerance=0.2), True),
        (at_least("x", 0.7, 1.0, tolerance=0.2), False),
        (equal("x", 1.05, 1.0, 0.1), True),
        (equal("x", 0.95, 1.0, 0.1), True),
        (equal("x", 1.2, 1.0, 0.1), False),
        (equal("x", 0.8, 1.0, 0.1), False),
        (equal("x", 1.0, 1.0, 0.0), True),
    ],
)
def test_rows_compare(row, holds):
    assert row.holds is holds


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("tolerance", [0.0, 1.0, INF, NAN])
@pytest.mark.parametrize("make", [at_most, at_least, equal], ids=lambda f: f.__name__)
def test_numbers_that_are_not_finite_never_hold(make, tolerance, bad):
    assert not make("x", bad, 1.0, tolerance).holds
    assert not make("x", 1.0, bad, tolerance).holds
    assert not make("x", bad, bad, tolerance).holds
    assert make("x", bad, 1.0, tolerance).ratio in (None, 0.0, INF)


@pytest.mark.parametrize("make", [at_most, at_least, equal], ids=lambda f: f.__name__)
def test_a_tolerance_that_is_not_a_number_never_holds(make):
    assert not make("x", 1.0, 1.0, NAN).holds


def test_ratio_is_at_least_one_exactly_when_the_bound_holds():
    assert at_most("x", 2.0, 3.0).ratio == 1.5
    assert at_least("x", 3.0, 2.0).ratio == 1.5
    assert at_most("x", 3.0, 2.0).ratio == pytest.approx(2 / 3)
    assert at_least("x", 2.0, 3.0).ratio == pytest.approx(2 / 3)
    for a, b in np.random.default_rng(0).uniform(0.1, 1, (50, 2)):
        assert (at_most("x", a, b).ratio >= 1) == at_most("x", a, b).holds
        assert (at_least("x", a, b).ratio >= 1) == at_least("x", a, b).holds


@pytest.mark.parametrize(
    ("row", "ratio"),
    [
        (at_most("x", below(2e-9, 1e-8), 1e-6), "≥ 100"),
        (at_least("x", above(0.31, 0.3), 0.1), "≥ 3.0"),
        (at_least("x", 0.3, below(0.09, 0.1)), "≥ 3.0"),
        (at_most("x", below(0.2, 0.2), above(0.31, 0.3)), "≥ 1.5"),
        (at_most("x", 0.2, above(0.31, 0.3)), "≥ 1.5"),
        (at_most("x", coarse(0.03, 1), 0.1), "3"),
        (at_most("x", coarse(0.0312, 2), coarse(0.1, 1)), "3"),
    ],
)
def test_a_ratio_is_known_as_its_parts_are(row, ratio):
    assert row.holds and number(row.ratio, 3) == ratio


def test_a_row_compares_the_number_and_not_its_bound():
    assert at_most("x", below(0.9, 1.0), 0.95).holds
    assert not at_most("x", below(0.9, 1.0), 0.8).holds
    assert not at_least("x", above(0.9, 0.5), 0.95).holds


@pytest.mark.parametrize(
    ("make", "measured", "reference", "side"),
    [
        (at_most, above(0.31, 0.3), 0.7, "measured"),
        (at_least, below(0.31, 0.4), 0.1, "measured"),
        (at_most, 0.2, below(0.31, 0.4), "reference"),
        (at_least, 0.5, above(0.31, 0.3), "reference"),
    ],
)
def test_a_bound_that_does_not_support_the_row_is_refused(make, measured, reference, side):
    with pytest.raises(ValueError, match=f"^{side}: 'gap' shows '[≤≥] .*does not support"):
        make("gap", measured, reference)
    assert make("gap", float(measured), float(reference)).holds
    for number_ in (measured, reference):  # an equality has a tolerance, and says how near
        equal("gap", number_, 0, 1)


def test_data_have_the_digits_that_are_shown():
    rows = (at_most("a", below(2e-9, 1e-8), 1.23456e-6), at_least("b", coarse(0.98765, 2), 1 / 3))
    first, second = Check("s", rows).as_dict()["rows"]
    assert (first["measured"], first["reference"]) == (1e-8, 1.235e-6)
    assert (second["measured"], second["reference"]) == (0.99, 0.3333)
    assert Check("s", rows).as_dict()["ratio"] == 3.0


@pytest.mark.parametrize(
    "row",
    [
        equal("x", 1.0, 1.0, 0.1),
        at_most("x", 1e-16, 1.0),
        at_most("x", 0.0, 1.0),
        at_most("x", -1.0, 1.0),
        at_most("x", 1.0, -1.0),
        at_most("x", 1.0, INF),
        at_least("x", 1.0, 0.0),
        at_least("x", 1.0, -1.0),
        at_most("x", NAN, 1.0),
        at_most("x", 1.0, NAN),
    ],
)
def test_a_ratio_that_would_say_nothing_is_left_out(row):
    assert row.ratio is None


def test_measurements_of_any_numeric_kind():
    for value in (1, np.float32(1), np.int64(1), np.array(1.0)):
        row = at_most("x", value, value)
        assert type(row.measured) is type(row.reference) is float
    for bad in ("high", None):
        with pytest.raises((TypeError, ValueError)):
            at_most("x", bad, 1.0)


# ---------------------------------------------------------------------------------------------
# checks


def test_check_shows_itself_and_holds(capsys):
    result = check(
        "hy-lemma-2-1",
        at_most("largest eigenvalue", 0.498, 0.5),
        equal("slope", 1.003, 1.0, tolerance=0.01),
        note="sharpened: 1/2 for 1",
    )
    assert result.holds
    assert result.verdict == "holds; sharpened: 1/2 for 1"
    assert capsys.readouterr().out.splitlines() == [
        "quantity            measured     stated      ratio  holds",
        "------------------  --------  -  ----------  -----  -----",
        "largest eigenvalue  0.498     ≤  0.5         1.0    yes",
        "slope               1.003     =  1.0 ± 0.01         yes",
        "hy-lemma-2-1: holds; sharpened: 1/2 for 1",
    ]


def test_one_row_that_fails_fails_the_check(capsys):
    good, bad = at_most("a", 1.0, 2.0), at_least("b", 1.0, 2.0)
    result = check("s", good, bad)
    assert not result.holds and result.verdict == "fails"
    out = capsys.readouterr().out
    assert "NO" in out and "yes" in out and out.endswith("s: fails\n")
    assert not Check("s", (bad, good)).holds
    assert Check("s", (good, good)).holds


def test_ratio_of_a_check_is_the_tightest():
    loose, tight, none = at_most("a", 1.0, 9.0), at_least("b", 3.0, 2.0), equal("c", 1, 1, 1)
    assert Check("s", (loose, tight, none)).ratio == 1.5
    assert Check("s", (none,)).ratio is None


def test_data_of_a_check_is_plain_and_complete():
    rows = (at_most("a", 1 / 3, 1.0, 1e-9), equal("b", 2e-16, 0.0, 1e-12), at_most("c", NAN, INF))
    data = Check("s", rows, "note").as_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["statement"] == "s"
    assert data["holds"] is False and data["verdict"] == "fails; note"
    assert data["ratio"] == 3.0
    assert data["rows"][0] == {
        "what": "a",
        "measured": 0.3333,
        "relation": "<=",
        "reference": 1.0,
        "tolerance": 1e-9,
        "holds": True,
    }
    assert data["rows"][1]["measured"] == 0.0  # rounding noise is stored as zero
    assert data["rows"][2]["measured"] is data["rows"][2]["reference"] is None
    assert data["rows"][2]["holds"] is False


def test_a_check_that_compares_nothing_is_refused():
    with pytest.raises(ValueError, match="rows: check 's' compares nothing"):
        check("s")
    with pytest.raises(TypeError, match="rows: expected at_most, at_least or equal, got True"):
        check("s", 1 < 2)


# ---------------------------------------------------------------------------------------------
# tables and display


def test_table(capsys):
    table([{"M": 4, "gap": 0.25, "ok": True}, {"M": 4096, "gap": 2e-16, "ok": False}], "The gap")
    assert capsys.readouterr().out.splitlines() == [
        "The gap",
        "M     gap     ok",
        "----  ------  ---",
        "4     0.25    yes",
        "4096  <1e-12  no",
    ]
    table({"R": 1.5})
    assert capsys.readouterr().out.splitlines() == ["R", "---", "1.5"]
    table(row for row in [{"a": 1}, {"a": 2}])
    assert capsys.readouterr().out.splitlines() == ["a", "-", "1", "2"]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ValueError, "rows: expected at least one row"),
        ([{"a": 1}, {"b": 1}], ValueError, r"rows\[1\]: expected columns \['a'\], got \['b'\]"),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], ValueError, r"rows\[1\]: expected columns"),
        ([{"a": 1}, {"a": 1, "b": 2}], ValueError, r"rows\[1\]: expected columns"),
        ([{"a": 1}, [1]], TypeError, r"rows\[1\]: expected a mapping, got \[1\]"),
        ([1, 2], TypeError, r"rows\[0\]: expected a mapping, got 1"),
    ],
)
def test_tables_that_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        table(rows)


@pytest.fixture
def displayed(monkeypatch):
    """Pretend to be in a notebook and collect what is displayed."""
    bundles = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(
        IPython.display, "display", lambda bundle, raw: bundles.append(bundle) if raw else None
    )
    return bundles


def test_a_notebook_gets_every_form_at_once(displayed, capsys):
    result = check("s", at_most("a < b & c", 1.0, 2.0), note="d < e & f")
    table([{"<x>": 1}], "x & y")
    assert capsys.readouterr().out == ""
    first, second = displayed
    assert set(first) == {"text/plain", "text/html", MIME}
    assert first[MIME] == result.as_dict()
    assert "a < b & c" in first["text/plain"]
    assert "a &lt; b &amp; c" in first["text/html"] and "a < b" not in first["text/html"]
    assert "d &lt; e &amp; f" in first["text/html"] and "d < e" not in first["text/html"]
    assert set(second) == {"text/plain", "text/html"}
    assert "<caption>x &amp; y</caption>" in second["text/html"]
    assert '<th scope="col">&lt;x&gt;</th>' in second["text/html"]


def test_show_without_data(displayed):
    show("text", "<p>markup</p>")
    assert displayed == [{"text/plain": "text", "text/html": "<p>markup</p>"}]


def test_rows_cannot_be_changed_afterwards():
    row = at_most("a", 3.0, 2.0)
    with pytest.raises(AttributeError):
        row.measured = 1.0
    assert row == Row("a", 3.0, "<=", 2.0)


def test_without_ipython_the_text_is_printed(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", None)
    show("seen", "<p>not seen</p>")
    assert capsys.readouterr().out == "seen\n"


# ---------------------------------------------------------------------------------------------
# ends of what is allowed, and the exact page


def test_a_tolerance_that_is_just_used_up_is_enough():
    rows = [at_most("x", 2.5, 2.0, 0.5), at_least("x", 1.5, 2.0, 0.5), equal("x", 1.5, 1.0, 0.5)]
    assert all(row.holds for row in rows)
    assert not at_most("x", 2.5, 2.0).holds and not at_least("x", 1.5, 2.0).holds


@pytest.mark.parametrize(
    ("row", "ratio"),
    [
        (at_most("x", 1e-9, 1.0), None),
        (at_most("x", 1.5e-9, 3.0), 2e9),
        (at_most("x", 2.0, 0.0), 0.0),
        (at_most("x", 2.0, 0.5), 0.25),
        (at_least("x", 0.5, 2.0), 0.25),
        (at_least("x", INF, 2.0), None),
    ],
)
def test_ratios_at_the_edge(row, ratio):
    assert row.ratio == (None if ratio is None else pytest.approx(ratio, rel=1e-15))


def test_noise_is_below_what_is_stored():
    rows = at_most("a", 1e-12, 1.0), at_most("b", -0.9e-12, 1.0)
    stored = [row["measured"] for row in Check("s", rows).as_dict()["rows"]]
    assert stored == [1e-12, 0.0]


def test_the_page_of_a_check_and_of_a_table(displayed):
    check("s", at_most("a", 1.0, 1.23456), equal("b", 2.0, 1.0, 0.25))
    table([{"x": 1, "y": 0.123456}], "Some")
    table([{"x": 1}, {"x": 2}])
    first, second, third = (bundle["text/html"] for bundle in displayed)
    head = "".join(
        f'<th scope="col">{c}</th>'
        for c in ("quantity", "measured", "", "stated", "ratio", "holds")
    )
    lines = ["a|1.0|≤|1.235|1.23|yes", "b|2.0|=|1.0 ± 0.25||NO"]
    body = "".join(f"<tr><td>{line.replace('|', '</td><td>')}</td></tr>" for line in lines)
    assert first == (
        f'<table class="mf-check"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        '<tfoot><tr><td colspan="6">s: fails</td></tr></tfoot></table>'
    )
    assert second == (
        '<table class="mf-table"><caption>Some</caption><thead><tr><th scope="col">x</th>'
        '<th scope="col">y</th></tr></thead><tbody><tr><td>1</td><td>0.1235</td></tr></tbody>'
        "</table>"
    )
    assert third == (
        '<table class="mf-table"><thead><tr><th scope="col">x</th></tr></thead>'
        "<tbody><tr><td>1</td></tr><tr><td>2</td></tr></tbody></table>"
    )


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: show(3, "<p>"), "text"),
        (lambda: show("a", 3), "markup"),
        (lambda: show("a", "<p>", 3), "data"),
        (lambda: table([{"a": 1}], 3), "caption"),
        (lambda: check(3, at_most("x", 1, 1)), "statement"),
        (lambda: check("s", at_most("x", 1, 1), note=3), "note"),
        (lambda: at_most(3, 1, 1), "what"),
        (lambda: at_most("x", "a", 1), "measured"),
        (lambda: at_most("x", 1, "a"), "bound"),
        (lambda: at_least("x", 1, "a"), "bound"),
        (lambda: equal("x", 1, "a", 0.1), "expected"),
        (lambda: equal("x", 1, 1, "a"), "tolerance"),
    ],
)
def test_wrong_types_are_named(call, name):
    with pytest.raises(TypeError, match=f"^{name}: expected"):
        call()


@pytest.mark.parametrize("relation", ["<", None, 3, ["="], ""])
def test_relations_that_do_not_exist(relation):
    with pytest.raises(ValueError, match="^relation: expected '<=', '>=' or '='"):
        Row("x", 1.0, relation, 1.0)


def test_truth_values_are_numbers_in_a_row():
    row = equal("x", True, np.True_, 0.0)
    assert (row.measured, row.reference) == (1.0, 1.0) and row.holds
    assert type(row.measured) is type(row.reference) is float
