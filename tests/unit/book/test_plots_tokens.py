"""Figures of tokens: they draw, are deterministic, show what they are given and hold their data."""

import numpy as np
import pytest

from mfbook.book import plots
from mfbook.book.plots.data import contents

RNG = np.random.default_rng(0)
SCORES = np.where(np.tri(3, dtype=bool), RNG.normal(size=(3, 3)), -np.inf)
WEIGHTS = np.tri(3) / np.tri(3).sum(axis=1, keepdims=True)
WORDS = ("a", "small", "cat")
RUN = {"t": np.arange(4), "length": np.arange(4) / 2, "end": 3.5, "label": "one", "role": "second"}
TIMES = np.array([3.0, 1.0, 2.0])
ANGLES = np.array([[0.0, 170.0], [20.0, -170.0], [40.0, -160.0]])
POINTS = np.array([[1.0, 0, 0], [0, 0, 1.0], [-0.6, 0.8, 0]])

DRAW = {
    "scores": lambda **change: plots.scores_and_weights(
        SCORES, WEIGHTS, WORDS, **{"titles": ("S", "W"), **change}),
    "mirror": lambda **change: plots.mirror(
        [{"matrix": np.arange(9.0).reshape(3, 3), "title": "one", **change}]),
    "blow-up": lambda **change: plots.blow_up(
        [{**RUN, **change}], TIMES / 2, TIMES, 2 * TIMES, titles=("a", "b")),
    "circle": lambda **change: plots.tokens_on_circle(
        TIMES.cumsum(), ANGLES, [3, 2, 1], [(2.0, "stop")], **change),
    "sphere": lambda **change: plots.tokens_on_sphere(
        POINTS, [0.2, 0.3, 0.5], **{"title": "time 1", **change}),
}  # fmt: skip
CHANGES = {
    "scores": {"titles": ("T", "W")},
    "mirror": {"matrix": np.eye(3)},
    "blow-up": {"end": 3.0},
    "circle": {"titles": ("now", "")},
    "sphere": {"towards": (1, 1, 1)},
}


@pytest.mark.parametrize("name", DRAW)
def test_figures_draw_and_depend_on_what_they_are_given(name):
    draw = DRAW[name]
    assert draw().png == draw().png != draw(**CHANGES[name]).png


def drawn(function, *args, **options):
    """Data of a figure, read before it is turned into a picture."""
    return contents(function.__wrapped__(*args, **options))


def test_no_token_of_the_sphere_is_left_out():
    """The near sides of two perspective views do not cover the sphere."""
    x = RNG.normal(size=(300, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    data = drawn(plots.tokens_on_sphere, x, np.full(300, 1 / 300), title="all")
    for panel in (1, 2):
        series = [item for item in data.series if item.panel == panel]
        assert sum(map(len, series)) == 300
        assert {item.name for item in series} == {"near tokens", "far tokens"}
    assert not data.unread


def test_times_are_drawn_in_order_with_their_own_bounds():
    data = drawn(plots.blow_up, [RUN], TIMES / 2, TIMES, 2 * TIMES)
    named = {item.name: item.columns["y"] for item in data.series if item.panel == 2}
    np.testing.assert_array_equal(named["measured"], [1, 2, 3])
    np.testing.assert_array_equal(named["lower bound"], [0.5, 1, 1.5])
    np.testing.assert_array_equal(named["upper bound"], [2, 4, 6])
    assert not data.unread


def test_paths_across_the_end_of_the_axis_are_broken():
    data = drawn(plots.tokens_on_circle, TIMES.cumsum(), ANGLES, [3, 2, 1], [])
    paths = [item.columns["y"] for item in data.series if item.name.startswith("token")]
    assert sorted(int(np.isnan(path).sum()) for path in paths) == [0, 1]


def test_masked_scores_are_empty_and_weights_complete():
    data = drawn(plots.scores_and_weights, SCORES, WEIGHTS, WORDS)
    scores, weights = (item.columns["value"] for item in data.series)
    np.testing.assert_array_equal(np.isnan(scores.reshape(3, 3)), ~np.tri(3, dtype=bool))
    np.testing.assert_array_equal(weights.reshape(3, 3), WEIGHTS)
