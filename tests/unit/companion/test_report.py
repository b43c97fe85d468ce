"""What chapters print: numbers, tables, comparisons and verdicts."""

import itertools
import json
import math

import IPython
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from companion.report import (
    Check,
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
from companion.report.digits import number
from companion.report.tables import MIME

NAN, INF = math.nan, math.inf
MAKE = (at_most, at_least, equal)
finite = st.floats(-1e6, 1e6)

# ------------------------------------------------------------------------------------- numbers

WRITTEN = [
    (0, "0"), (-65536, "-65536"), (np.int64(12345678), "12345678"), (-0.0, "0"), (3.0, "3.0"),
    (-0.49816, "-0.4982"), (1234.56, "1235"), (123456.7, "1.235·10⁵"), (-1.25e-7, "-1.25·10⁻⁷"),
    (1e-12, "10⁻¹²"), (9.9e-13, "<10⁻¹²"), (-2.2e-16, "<10⁻¹²"), (NAN, "nan"), (-INF, "-inf"),
    (np.float32(0.1), "0.1"), (np.array(0.5), "0.5"), (np.array(7), "7"), (True, "yes"),
    (np.False_, "no"), (np.str_("copy task"), "copy task"), (None, "None"),
    # digits that are not known are not shown, and a bound that is false neither
    (below(3e-9, 1e-8), "≤ 10⁻⁸"), (above(0.317, 0.3), "≥ 0.3"), (below(1.0, 1.0), "≤ 1.0"),
    (coarse(0.04193, 2), "0.042"), (coarse(419.3, 2), "420"), (coarse(412.0, 3), "412"),
    (16384.0, "16380"),
    (below(3e-8, 1e-8), "3·10⁻⁸"), (above(0.25, 0.3), "0.25"), (below(NAN, 1.0), "nan"),
]  # fmt: skip


def test_numbers_are_written_as_a_reader_wants_them():
    for value, text in WRITTEN:
        assert number(value) == text
    assert number(1.23456, 2) == "1.2" and number(1.23456, 6) == "1.23456"


def test_numbers_of_which_little_is_shown_compute_as_what_they_are():
    assert below(3e-9, 1e-8) * 2 == 6e-9 and above(0.317, 0.3) > 0.31 and coarse(0.04193, 2) < 0.042
    assert at_most("x", below(0.9, 1.0), 0.95).holds
    assert not at_most("x", below(0.9, 1.0), 0.8).holds
    assert not at_least("x", above(0.9, 0.5), 0.95).holds


# ---------------------------------------------------------------------------------------- rows


@given(finite, finite, st.floats(0, 1e3))
@example(2.5, 2.0, 0.5)
@example(2.0 + 1e-15, 2.0, 0.0)
def test_rows_compare_and_numbers_that_are_not_finite_never_hold(a, b, tolerance):
    upper, lower = at_most("x", a, b, tolerance), at_least("x", a, b, tolerance)
    assert upper.holds is (a <= b + tolerance) and lower.holds is (a >= b - tolerance)
    assert equal("x", a, b, tolerance).holds is (abs(a - b) <= tolerance)
    if a > 0.1 and b > 0.1:
        assert upper.ratio == pytest.approx(b / a) and lower.ratio == pytest.approx(a / b)
    for make, bad in itertools.product(MAKE, (NAN, INF, -INF)):
        for pair in ((bad, b), (a, bad), (bad, bad)):
            assert not any(make("x", *pair, room).holds for room in (0.0, 1.0, INF, NAN))
        assert make("x", bad, b, 1.0).ratio in (None, 0.0, INF) and not make("x", a, a, NAN).holds


def test_a_ratio_that_would_say_nothing_is_left_out():
    assert equal("x", 1.0, 1.0, 0.1).ratio is None
    for measured, bound in ((1e-16, 1), (1e-9, 1), (0, 1), (-1, 1), (1, -1), (1, INF), (NAN, 1)):
        assert at_most("x", measured, bound).ratio is None
    assert [at_least("x", 1.0, bound).ratio for bound in (0.0, -1.0, NAN)] == [None] * 3


#: Rows, and how their ratio is written.
RATIOS = [
    (at_most("x", below(2e-9, 1e-8), 1e-6), "≥ 100"),
    (at_least("x", above(0.31, 0.3), 0.1), "≥ 3.0"),
    (at_least("x", 0.3, below(0.09, 0.1)), "≥ 3.0"),
    (at_most("x", below(0.2, 0.2), above(0.31, 0.3)), "≥ 1.5"),
    (at_most("x", 0.2, above(0.31, 0.3)), "≥ 1.5"), (at_most("x", coarse(0.03, 1), 0.1), "3"),
    (at_most("x", coarse(0.0312, 2), coarse(0.1, 1)), "3"),
]  # fmt: skip
#: Bounds from the wrong side: the row would hold, but what is shown does not say so.
NO_SUPPORT = [
    (at_most, above(0.31, 0.3), 0.7, "measured"), (at_least, below(0.31, 0.4), 0.1, "measured"),
    (at_most, 0.2, below(0.31, 0.4), "reference"), (at_least, 0.5, above(0.31, 0.3), "reference"),
]  # fmt: skip


def test_what_is_known_as_a_bound_is_compared_as_a_bound():
    for row, ratio in RATIOS:
        assert row.holds and number(row.ratio, 3) == ratio
    for make, measured, reference, side in NO_SUPPORT:
        with pytest.raises(ValueError, match=f"^{side}:"):
            make("gap", measured, reference)
        assert make("gap", float(measured), float(reference)).holds
        for shown in (measured, reference):  # an equality has a tolerance, and says how near
            equal("gap", shown, 0, 1)


# -------------------------------------------------------------------------------------- checks


def test_check_shows_itself_and_holds(capsys):
    rows = at_most("largest eigenvalue", 0.498, 0.5), equal("slope", 1.003, 1.0, tolerance=0.01)
    result = check("hy-lemma-2-1", *rows, note="sharpened: 1/2 for 1")
    assert result.holds and result.verdict == "holds; sharpened: 1/2 for 1"
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
    assert not Check("s", (bad, good)).holds and Check("s", (good, good)).holds
    assert (
        result.reason == "s: 1 of 2 rows fails: b: 1, stated >= 2" and not check("s", good).reason
    )
    # the ratio of a check is the tightest
    none = equal("c", 1, 1, 1)
    assert Check("s", (at_most("a", 1.0, 9.0), at_least("b", 3.0, 2.0), none)).ratio == 1.5
    assert Check("s", (none,)).ratio is None
    with pytest.raises(ValueError, match="^rows:"):  # one that compares nothing is refused
        check("s")


def test_data_of_a_check_is_plain_complete_and_has_the_digits_that_are_shown():
    rows = (
        at_most("a", 1 / 3, 1.0, 1e-9), equal("b", 2e-16, 0.0, 1e-12), at_most("c", NAN, INF),
        at_most("d", below(2e-9, 1e-8), 1.23456e-6), at_least("e", coarse(0.98765, 2), 1 / 3),
        at_most("f", 1e-12, 1.0), at_most("g", -0.9e-12, 1.0),
    )  # fmt: skip
    data = Check("s", rows, "note").as_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["statement"], data["holds"], data["verdict"]) == ("s", False, "fails; note")
    assert data["ratio"] == 3.0
    assert data["rows"][0] == {
        "what": "a", "measured": 0.3333, "relation": "<=", "reference": 1.0, "tolerance": 1e-9,
        "holds": True, "ratio": 3.0, "control": False,
    }  # fmt: skip
    # a control, whose threshold is ours, tells nothing of the statement's room
    data_with = Check("s", rows[:1], controls=(at_most("ours", 1.0, 1.5),)).as_dict()
    assert data_with["ratio"] == 3.0 and data_with["rows"][1]["ratio"] is None
    assert data_with["rows"][1]["control"] and not Check("s", rows[:1], "", rows[2:3]).holds
    # rounding noise is stored as zero, what is no number as nothing
    measured = [row["measured"] for row in data["rows"]]
    assert measured == [0.3333, 0.0, None, 1e-8, 0.99, 1e-12, 0.0]
    assert data["rows"][2]["reference"] is None and not data["rows"][2]["holds"]
    assert [row["reference"] for row in data["rows"][3:5]] == [1.235e-6, 0.3333]
    # a bound is stored also where the number itself is noise
    noise, large = (
        Check("a", (at_most("x", below(x, 1e-10), 1e-9),)).as_dict() for x in (0, 9e-11)
    )
    assert noise == large and noise["rows"][0]["measured"] == 1e-10


# -------------------------------------------------------------------------- tables and display


def test_table(capsys):
    table([{"M": 4, "gap": 0.25, "ok": True}, {"M": 4096, "gap": 2e-16, "ok": False}], "The gap")
    assert capsys.readouterr().out.splitlines() == [
        "The gap",
        "M     gap     ok",
        "----  ------  ---",
        "4     0.25    yes",
        "4096  <10⁻¹²  no",
    ]
    table({"R": 1.5})
    table(row for row in [{"a": 1}, {"a": 2}])
    assert capsys.readouterr().out.split() == ["R", "---", "1.5", "a", "-", "1", "2"]


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
    table([{"<x>": 1}, {"<x>": 2}], "x & y")
    show("text", "<p>markup</p>")
    assert capsys.readouterr().out == ""
    first, second, third = displayed
    assert set(first) == {"text/plain", "text/html", MIME}
    assert first[MIME] == result.as_dict()
    assert "a < b & c" in first["text/plain"]
    assert "a &lt; b &amp; c" in first["text/html"] and "a < b" not in first["text/html"]
    assert "d &lt; e &amp; f" in first["text/html"] and "d < e" not in first["text/html"]
    assert "<caption>x &amp; y</caption>" in second["text/html"]
    assert '<th scope="col">&lt;x&gt;</th>' in second["text/html"]
    assert third == {"text/plain": "text", "text/html": "<p>markup</p>"}
