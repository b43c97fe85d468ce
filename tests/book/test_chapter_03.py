"""Chapter 3: its checks fail for plausible wrong programs, and its words agree with its numbers.

The cells of the notebook are run here as they stand. For a wrong program one thing is replaced
before a check cell runs: the cell has to end in its assertion, for the stated rows.
"""

import math
import re

import numpy as np
import pytest
from chapter_runner import Story, mistaken

from mfbook import bounds
from mfbook.bounds import derivatives
from tools.chapters import BOOK, read, text

pytestmark = [pytest.mark.slow, pytest.mark.wrong_program]

STORY = Story(read(BOOK / "03-assumptions.ipynb"))
caption = STORY.caption


@pytest.fixture(scope="module")
def before():
    """What is defined before each code cell, figures and exercises left out."""
    return STORY.states()


def failing(before, *names, changes=(), **replaced):
    """The rows that fail when the cells run; the last one ends in its assertion."""
    return STORY.failing(names, before[names[0]] | replaced, changes)


# ---------------------------------------------------------------- wrong programs


def test_clock_without_its_factor_two(before):
    profiles = {
        name: (xi, lambda t, clock=clock: clock(t) / 2, *sizes)
        for name, (xi, clock, *sizes) in before["profile-check"]["profiles"].items()
    }
    rows = failing(before, "profile-check", profiles=profiles)
    for name in profiles:
        assert {f"{name}: clock at t = 20", f"{name}: risk at t = 20"} <= rows


def test_warm_up_left_out_of_the_velocity(before):
    state = before["profile-check"]
    late = state["descend"](lambda t: state["warm_cosine"](max(t, state["rise"])))
    end = state["risk_of"](late.y[:, -1])
    risks = state["risks"] | {"warm-up, cosine": np.array([end])}
    assert failing(before, "profile-check", risks=risks) == {"warm-up, cosine: risk at t = 20"}


def test_bounds_without_the_projection(before):
    rows = failing(before, "features-check", R_U=1.0)
    assert rows == {"largest feature, against B"}


def test_remainder_with_its_linear_term(before):
    changes = [("features-check", "linear = phi.imag / 1e-30", "linear = 0 * phi.real")]
    rows = failing(before, "features-check", changes=changes)
    assert rows == {"remainder per distance² / 2, against H"}


def test_growth_rate_without_the_square_root_of_two(before):
    changes = [("growth-check", "c = np.sqrt(2) * R_X * R_U", "c = R_X * R_U")]
    rows = failing(before, "growth-check", changes=changes)
    assert rows == {"rate of growth in the worst case"}


def test_mean_over_tokens_taken_twice(before):
    state = before["growth-check"]
    C = np.array([p["C"] for p in state["path"]]) / state["X"].shape[1]
    factor = np.cumprod(1 + state["step"] * np.concatenate([0 * C[:1], C[:-1]]), axis=0)
    rows = failing(before, "growth-check", posterior=factor * state["values"][0])
    assert rows == {"the same, a posteriori"}


def test_radius_of_the_start(before):
    old = "radius = max(max(bound.values, bound.queries) for bound in grown)"
    changes = [("remark-check", old, "radius = norms[0].max()")]
    rows = failing(before, "remark-check", changes=changes)
    assert rows == {"largest matrix up to time 0.25, against the radius"}


def hessian_without_cross_term(R_X, R_U, r, k):
    g = bounds.score_bound(R_X, r, k)
    return R_X * R_U * max(1, g + 2 * bounds.third_moment_constant() * g**2)


def hessian_with_half_the_third_moment(R_X, R_U, r, k):
    g = bounds.score_bound(R_X, r, k)
    a = g + bounds.third_moment_constant() * g**2
    return R_X * R_U * (1 + a + math.hypot(1 - a, 4 * g)) / 2


def jacobian_without_scores(R_X, R_U, r, k):
    return math.sqrt(2) * R_X * R_U * r


@pytest.mark.parametrize(
    ("name", "wrong", "rows"),
    [
        ("hessian_bound", hessian_without_cross_term, {"H at g = 1"}),
        ("hessian_bound", hessian_with_half_the_third_moment, {"H at g = 4"}),
        ("jacobian_bound", jacobian_without_scores, {"L at g = 4"}),
    ],
)
def test_wrong_constants(before, monkeypatch, name, wrong, rows):
    monkeypatch.setattr(f"mfbook.bounds.features.{name}", wrong)
    failed = failing(before, "prop-check")
    assert failed == {f"{row}, largest found" for row in rows}


def test_trace_of_the_covariance_bounded_without_the_mean(before, monkeypatch):
    monkeypatch.setattr(bounds, "sharp_jacobian_bound", bounds.jacobian_bound)
    rows = failing(before, "sharp-check")
    short = {f"k = 1, g = {g}: {n} tokens opposite to the query, against 0.999 L"
             for g, n in ((2, 55), (4, 2981))}  # fmt: skip
    assert rows == {f"L found at g = {g}, against sharp L" for g in ("0.1", "1", "4")} | short


class UnitVariance:
    """Tokens of unit variance in each coordinate instead of norm one."""

    def sample(self, rng, n, dim):
        return rng.normal(size=(n, dim))


def test_tokens_of_unit_variance(before):
    rows = failing(before, "sizes", "sizes-run", "sizes-check", Sphere=UnitVariance)
    assert rows >= {"first derivative, random heads of all sizes"}


def test_attention_without_normalisation(before):
    with mistaken(derivatives, "    A = A / A.sum(axis=-1, keepdims=True)\n", ""):
        rows = failing(before, "sizes-run", "sizes-check")
    assert {
        "two groups, all sizes, against H",
        "two groups at T = 256, against T to infinity",
    } <= rows


# ---------------------------------------------------------------- wrong claims


#: A statement that is false, written into its check: the cells to run, what the last of them says,
#: what it says instead, and words of the row that has to fail.
CLAIMS = {
    "a profile that stops sooner": (
        "profile-check", '["too fast"][1](1e4), 2)', '["too fast"][1](1e4), 1.9)',
        "too fast: clock at t = 10000"),
    "the profile changes the path": (
        "profile-check", "risk_of(same_path(clock(20.0))), 1e-6)",
        "risk_of(same_path(20.0)), 1e-6)", "decaying: risk at t = 20"),
    "a bound below the largest feature": (
        "features-check", "axis=-1).max(), C.B)", "axis=-1).max(), 0.75 * C.B)",
        "largest feature"),
    "features that are linear": (
        "features-check", "(2 * bend / distance**2).max(), C.H)",
        "(2 * bend / distance**2).max(), 0.1)", "remainder per distance"),
    "remainder of third order": (
        "features-check", "(2 * bend / distance**2).max(), C.H)",
        "(6 * bend / distance**3).max(), 10 * C.H)", "remainder per distance"),
    "heads grow at half the rate": (
        "growth-check", "rate, c, 1e-9)", "rate, c / 2, 1e-9)", "rate of growth"),
    "one ball for all time": (
        "remark-check", "coarse(matrix[3], 3), coarse(1.3 * matrix[2], 3))",
        "coarse(-matrix[3], 3), coarse(-1.05 * matrix[2], 3))", "at time 512, against 1.3"),
    "a tenth less than the attained L": (
        "prop-check", "rows.append(at_most(what, largest, bound, 1e-9))",
        "rows.append(at_most(what, largest, 0.9 * bound, 1e-9))", "L at g = 4"),
    "the sharp L attained by two tokens for k = 1 too": (
        "sharp-check", "largest_of(r * a, r * b, pairs, r), 0.71 * L)",
        "-largest_of(r * a, r * b, pairs, r), -L)", "k = 1, g = 2: two tokens"),
    "the sharp L linear in g below 1": (
        "sharp-check", "bounds.sharp_jacobian_bound(1, 1, r, 2), 1e-7)",
        "bounds.sharp_jacobian_bound(1, 1, r, 2) * min(g, 1), 1e-7)", "L found at g = 0.1"),
    "H attained everywhere": (
        "sharp-check", "looseness(worst), 1.62)", "looseness(worst), 1)",
        "H / attained, largest over g"),
    "bounds that fall with the length": (
        "sizes-check", "max(groups.values()), C.H)", "max(groups.values()), C.H / 2)",
        "two groups, all sizes"),
    "a worst head that d and V make smoother": (
        "sizes-check", "groups[16, 8, 64], groups[16, 2, 2], 1e-9)",
        "groups[16, 8, 64], groups[16, 2, 2] / 2, 1e-9)", "the same, d = 8"),
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS)
def test_wrong_claim(before, claim):
    STORY.refuses(before, *CLAIMS[claim])


# ---------------------------------------------------------------- words against the numbers


def words(name):
    return " ".join(text(STORY.cells[name]["source"]).split())


def test_every_check_says_what_it_catches():
    """Under each check cell a line names the wrong programs that are tried here."""
    below = STORY.lines_below_checks()
    assert len(below) == 7
    for check, line in below.items():
        assert line.startswith("*This check fails"), check


def test_words_about_the_profiles(before):
    end = before["end"]
    assert "stops at $\\tau=2$" in caption("profile-figure")
    clocks = {name: clock(1e6) for name, (_, clock, *_) in end["profiles"].items()}
    assert abs(clocks.pop("too fast") - 2) < 1e-9
    assert min(clocks.values()) > 25


def test_words_about_growth(before):
    end = before["end"]
    i = end["values"][-1].argmax()
    assert "ten to the tenth" in caption("growth-figure")
    assert 1e10 <= end["growth"](end["steps"], i).values < 1e11
    assert "about seven, the measured norm to about five" in caption("growth-figure")
    assert abs(end["posterior"][-1, i] - 7) < 0.5 and abs(end["values"][-1, i] - 5) < 0.5
    i = end["queries"][64].argmax()
    assert "it has 26 digits" in words("growth-meaning") and 64 * end["step"] == 1
    assert len(str(int(end["growth"](64, i).queries))) == 26


def test_words_about_the_constants(before):
    end = before["end"]
    two = end["found"][4.0, 2].value / end["sampled"][4.0].second.max()
    assert "between 1.5 and 2.4 at $g=4$" in words("prop-after") and 1.4 < two < 2.5
    assert abs(min(end["ten"]) - 1.5) < 0.05 and abs(max(end["ten"]) - 2.4) < 0.05
    wrong = 1 + 2 * bounds.third_moment_constant()
    assert "Sampling alone would not notice the first" in words("prop-after")
    assert end["sampled"][1.0].second.max() < wrong < end["found"][1.0, 2].value


def test_words_about_where_curvature_lives(before):
    state = dict(before["end"])
    rng, shares, reached = np.random.default_rng(0), {}, {}
    for g in (0.1, 8):
        norms = state["derivative_norms"](*state["random_heads"](g, rng), np.eye(2), state["small"])
        shares[g] = np.median(norms.share)
        reached[g] = norms.second.max() / bounds.hessian_bound(1, 1, state["radius_for"](g), 2)
    assert shares[0.1] < 0.05 and reached[0.1] > 0.9
    assert shares[8] > 0.7 and reached[8] < 0.6


def test_words_about_large_heads(before):
    end = before["end"]
    median = end["columns"]["median of 200, second"]
    assert end["radii"][np.argmax(median)] == 4 and abs(max(median) - 4) < 0.5
    np.testing.assert_allclose(median[-2:], 1, atol=0.02)


def test_words_about_the_jump():
    (output,) = STORY.cells["ex-jump-code"]["outputs"]
    rows = re.findall(r"^([\d.]+) +([\d.]+) +([\d.]+)$", text(output["data"]["text/plain"]), re.M)
    constant = np.array([float(row[2]) for row in rows])
    assert len(constant) == 5
    assert np.ptp(constant[::2]) < 0.01 and np.ptp(constant[1::2]) < 0.01
    assert constant[1] > 1.5 * constant[0]
