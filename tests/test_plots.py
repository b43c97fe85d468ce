"""Figures: deterministic, in style, without side effects, and usable by keyboard and ear."""

import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from mfbook import plots

M = 2.0 ** np.arange(2, 8)
LINES = [
    {"x": M, "y": 1 / M, "low": 0.8 / M, "high": 1.2 / M, "label": "mean gap"},
    {"x": M, "y": 2 / np.sqrt(M), "label": "bound", "role": "bound"},
]


def rates():
    return plots.rates(LINES, xlabel="heads", ylabel="nats", slopes=[(M, 1 / M, "slope −1")])


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))


def colours(picture) -> int:
    """Number of different colours; one number for a pixel, since sorting rows takes seconds."""
    return len(np.unique(pixels(picture).astype(int) @ [1, 256, 65536]))


def test_same_data_same_bytes_and_other_data_other_bytes():
    assert rates().png == rates().png
    other = [{**LINES[0], "y": 3 / M}, LINES[1]]
    assert plots.rates(other, xlabel="heads", ylabel="nats").png != rates().png


def test_style_does_not_leak():
    before = dict(mpl.rcParams)
    with mpl.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        inside = rates().png
        assert mpl.rcParams["font.size"] == 31
    assert dict(mpl.rcParams) == before
    assert inside == rates().png


def test_picture_displays_at_half_its_pixel_size():
    png, metadata = rates()._repr_png_()
    width, height = Image.open(io.BytesIO(png)).size
    assert metadata == {"width": width // 2, "height": height // 2}
    assert b"matplotlib" not in png.lower()


def test_roles_differ_without_colour():
    looks = [(str(r.dash), r.marker) for name, r in plots.ROLES.items()]
    assert len(set(looks)) == len(looks)


def luminance(colour):
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("name", plots.ROLES)
def test_direct_labels_are_readable(name):
    """Contrast of at least 3:1 on white, and on black after the inversion of dark mode."""
    light = luminance(plots.ROLES[name].colour)
    assert (1 + 0.05) / (light + 0.05) >= 3
    inverted = 1 - np.array(mpl.colors.to_rgb(plots.ROLES[name].colour))
    assert (luminance(inverted) + 0.05) / 0.05 >= 3


def test_direct_labels_stay_inside_the_picture():
    edge = pixels(rates())
    border = np.concatenate([edge[:2].ravel(), edge[-2:].ravel(), edge[:, :2].ravel()])
    assert (border == 255).all() and (edge[:, -2:] == 255).all()


def test_every_chart_draws():
    A = np.tril(np.ones((2, 3, 3))) / np.arange(1, 4)[:, None]
    pictures = [
        plots.curves(LINES, xlabel="x", ylabel="y", yscale="log", hline=0.1),
        plots.curves(LINES, xlabel="x", ylabel="y", direct=False, ylim=(0, 1)),
        plots.scatter(M, 1 / M, xlabel="x", ylabel="y", lines=[(0.1, "bound", "bound")]),
        plots.attention_maps(A, tokens=list("abc"), titles=["one", "two"]),
    ]
    for picture in pictures:
        assert colours(picture) > 20


def test_charts_of_the_dynamics_draw():
    rng = np.random.default_rng(0)
    path, x = rng.normal(size=(4, 9, 2)).cumsum(axis=0), np.array([0.1, 1.0])
    panel = {"title": "one", "xlabel": "x", "ylabel": "y", "series": LINES}
    dots = {"x": x, "y": x / 2, "label": "runs", "marker": "o", "role": "measured"}
    table = {"rows": ["4", "8"], "columns": ["1/2", "1/4", "1/8"], "xlabel": "x", "ylabel": "y"}
    cells = 10.0 ** rng.normal(size=(2, 3))
    pictures = [
        plots.particles(path, 2, np.arange(4), 2 / np.arange(1, 5), limit=0.3),
        plots.panels([panel, {**panel, "slopes": [(M, 1 / M, "-1")], "lines": [(0.1, "bound")]}]),
        plots.panels([{**panel, "xscale": "linear", "ylim": (0.01, 2)}], base=None, legend=False),
        plots.grid_map(cells, **table, label="error", frame=cells > 1),
        plots.bound_cloud([dots], line=(x, x, "C err"), xlabel="err", ylabel="error"),
    ]
    for picture in pictures:
        assert colours(picture) > 20
    # what is marked, and what moves, is drawn
    assert plots.grid_map(cells, **table, label="error").png != pictures[3].png
    assert plots.particles(path, 3, np.arange(4), np.ones(4), limit=0.3).png != pictures[0].png


def test_charts_of_stability_and_optimality_draw():
    rng = np.random.default_rng(0)
    x, times = np.linspace(0, 1, 30), np.arange(4.0)
    rate = {"x": x, "y": 0.5 - x, "label": "rate", "role": "bound"}
    size = {"y": np.exp(-times), "label": "mean", "role": "measured"}
    where = {"xlabel": "x", "ylabel": "y"}
    path = rng.normal(size=(4, 5, 2))
    regime = (x[:, None] < 0.6).astype(int) + (x[:, None] < 0.3) + 0 * x.astype(int)
    names, shades = ["stable", "splitting", "translation"], {"holds": 0, "open": 1, "fails": 2}
    dots = [{**rate, "label": "seen", "marker": "o"}]
    state = {"label": "now", "values": [0.1, 0.2], "weights": [0.5, 0.5], "best": -0.1}
    risk = [{**size, "label": "risk"}]
    pictures = [
        plots.regimes([rate], dots, borders=[0.05, 0.5], names=names[::-1], **where),
        plots.phase_diagram(x, x, regime, borders=[rate], dots=dots, names=names, **where),
        plots.cloud(path, times, [size], limit=2.0, **where),
        plots.verdicts(["a", "b"], ["c"], [["holds"], ["open here"]], shades=shades),
        plots.imbalance([path[:, 0], path[:, 1]], 0, [times] * 2, [size["y"]] * 2, labels="ab"),
        plots.support_values([{"title": "copy", "states": [state]}]),
        plots.phase_space(path[0], path[1], risk, at=1, times=times, least=0.1),
        plots.predictors([{"title": "one", "x": x, "y": x + 1, "xlabel": "x"}], ylabel="y"),
    ]
    for picture in pictures:
        assert colours(picture) > 20
    # what is decided, and what moves, is drawn
    other = plots.verdicts(["a", "b"], ["c"], [["fails"], ["open here"]], shades=shades)
    assert other.png != pictures[3].png
    assert plots.phase_diagram(
        x, x, 0 * regime, borders=[rate], dots=dots, names=names, **where
    ).png != pictures[1].png


def slider(**changes):
    def draw(value):
        return plots.curves([{"x": [0, 1], "y": [0, value], "label": "y"}], xlabel="x", ylabel="y")

    settings = {
        "name": "slope",
        "label": lambda v: f"slope {v}",
        "alt": lambda v: f"A line of slope {v} & nothing <else>",
        "caption": "Lines.",
    }
    return plots.frames(draw, [1, 2, 3], **{**settings, **changes})


def test_frames_show_one_picture_and_name_all():
    markup = slider(start=1)._repr_html_()
    images = re.findall(r"<img [^>]*>", markup)
    assert len(images) == 3
    assert [" hidden" in i for i in images] == [True, False, True]
    assert all("slope" in re.search(r'alt="([^"]*)"', i)[1] for i in images)
    assert "&lt;else&gt;" in markup and "<else>" not in markup
    assert 'aria-label="slope"' in markup and 'aria-valuetext="slope 2"' in markup
    assert "http" not in markup


def test_frames_are_light():
    """A dozen frames must stay well under a megabyte."""
    assert len(slider()._repr_html_()) / 3 < 40_000


def test_frames_live_draw_on_demand():
    widget = slider(live=True)
    control = widget.children[0]
    assert [label for label, _ in control.options] == ["slope 1", "slope 2", "slope 3"]


def test_bad_frames():
    with pytest.raises(ValueError, match="start"):
        slider(start=3)
    with pytest.raises(ValueError, match="values"):
        plots.frames(None, [1], name="", alt=str, caption="")
