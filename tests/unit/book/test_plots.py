"""Figures: deterministic, in style, without side effects, and usable by keyboard and ear."""

import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from mfbook.book import plots
from mfbook.book.plots.spheres import EYE, _Camera

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
        plots.attention_maps(A, tokens=list("abc"), titles=["one", "two"]),
    ]
    for picture in pictures:
        assert colours(picture) > 20


@pytest.mark.weekly
@pytest.mark.slow
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


@pytest.mark.weekly
@pytest.mark.slow
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
    assert (
        plots.phase_diagram(x, x, 0 * regime, borders=[rate], dots=dots, names=names, **where).png
        != pictures[1].png
    )


@pytest.mark.weekly
@pytest.mark.slow
def test_charts_of_the_circle_draw():
    rng = np.random.default_rng(0)
    turn, times = np.linspace(-180, 179, 120), np.arange(6.0)
    ground = {"degrees": turn, "v": np.sin(np.radians(turn)), "dead": np.abs(turn) < 30}
    cloud = {"degrees": rng.uniform(-180, 180, 50), "weights": rng.dirichlet(np.ones(50))}
    paths = {"t": times, "degrees": (np.linspace(-170, 170, 9) + 20 * times[:, None]) % 360 - 180}
    line = {"x": times, "y": times - 2, "label": "rate", "role": "measured"}
    level = {"t": times, "y": np.exp(-times), "label": "energy", "role": "bound"}
    state = {**cloud, "title": "end", "role": "found"}
    named = {"xlabel": "share", "titles": ("rates", "orbits")}
    pictures = [
        plots.angle_histograms([{**cloud, "title": "start"}], ground),
        plots.angle_paths([{**paths, "title": "descent", "landscape": ground}]),
        plots.energy_and_ring([state], [level], ground),
        plots.planar_orbits([line], [{**line, "label": "orbit"}], (1, 1), **named),
    ]
    for picture in pictures:
        assert colours(picture) > 20
    # the landscape, the weights and the rest state are drawn
    bare = plots.angle_histograms([{**cloud, "title": "start", "landscape": {}}], ground)
    assert bare.png != pictures[0].png
    heavier = {**state, "weights": 3 * cloud["weights"]}
    assert plots.energy_and_ring([heavier], [level], ground).png != pictures[2].png
    other = plots.planar_orbits([line], [{**line, "label": "orbit"}], (2, 1), **named)
    assert other.png != pictures[3].png


def test_paths_on_the_circle_do_not_cross_the_picture():
    """A token that passes 180 degrees is drawn in two pieces, not by a line through all angles."""
    item = {"t": np.arange(2.0), "title": "one"}
    wraps = plots.angle_paths([{**item, "degrees": np.array([[170.0], [-170.0]])}])
    stays = plots.angle_paths([{**item, "degrees": np.array([[170.0], [179.0]])}])
    crosses = plots.angle_paths([{**item, "degrees": np.array([[80.0], [-80.0]])}])
    ink = [int((pixels(picture) < 250).any(axis=-1).sum()) for picture in (wraps, stays, crosses)]
    assert ink[0] < ink[1] < ink[2]


@pytest.mark.weekly
@pytest.mark.slow
def test_charts_on_spheres_draw():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights, kinks = rng.dirichlet(np.ones(30)), np.eye(3)[:1]

    def hill(y):
        return y[:, 2] ** 3

    state = {"points": x, "weights": weights, "title": "end"}
    ends = {"y": np.array([3, 500]), "start": [5, 7], "stopped": np.array([True, False])}
    curve = {**ends, "label": "β = 1", "role": "measured"}
    panels = [[{"title": "ascent", "series": [curve]}]]
    scene = {"title": "t = 0", "kinks": kinks}
    pictures = [
        plots.sphere_histograms([state, state], landscape=hill, kinks=kinks),
        plots.sphere_scene(x, weights, hill, **scene),
        plots.cluster_counts(panels, dimensions=(3, 4), particles=500),
    ]
    for picture in pictures:
        assert colours(picture) > 20
    # a flat landscape, kinks, the side of the eye, and runs that did not stop can be told
    assert colours(plots.sphere_scene(x, weights, lambda y: 0 * y[:, 0], title="flat")) > 20
    others = [{"kinks": ()}, {"towards": (-1, 1, 0.6)}]
    for other in others:
        assert plots.sphere_scene(x, weights, hill, **{**scene, **other}).png != pictures[1].png
    done = [[{"title": "ascent", "series": [{**curve, "stopped": np.array([True, True])}]}]]
    assert plots.cluster_counts(done, dimensions=(3, 4), particles=500).png != pictures[2].png


def test_perspective_of_the_sphere():
    """The outline has radius 1, near points are in front, and each pixel shows a unit vector."""
    camera = _Camera((1, -1, 0.6))
    c = camera.c
    screen, near = camera.project(np.array([c, -c]))
    assert np.allclose(screen, 0) and near.tolist() == [True, False]
    turn = np.linspace(0, 2 * np.pi, 50)[:, None]
    rim = np.sqrt(1 - EYE**-2) * (np.cos(turn) * camera.right + np.sin(turn) * camera.up) + c / EYE
    assert np.allclose(np.linalg.norm(camera.project(rim)[0], axis=1), 1)
    surface = camera.surface()
    seen = surface[np.isfinite(surface[..., 0])]
    assert np.allclose(np.linalg.norm(seen, axis=1), 1)
    back, near = camera.project(seen)
    p, q = np.meshgrid(*2 * [np.linspace(-1, 1, surface.shape[0])])
    pixel = np.stack([p, q], axis=-1)[np.isfinite(surface[..., 0])]
    assert near.all() and np.allclose(back, pixel)


@pytest.mark.weekly
@pytest.mark.slow
def test_charts_of_extremal_points_draw():
    angle = np.linspace(-np.pi, np.pi, 200, endpoint=False)
    at = np.array([-1.0, 0.5])
    circle = {
        "angle": angle, "v": np.sin(angle), "edges": [0.0, 3.0], "tops": [at, np.sin(at)],
        "best": [[0.5], [0.5]],
    }  # fmt: skip
    grid = np.meshgrid(np.linspace(-np.pi, np.pi, 40), np.linspace(-1.5, 1.5, 20))
    walls = [(np.linspace(-3, 3, 9), np.zeros(9))]
    sphere = {"grid": grid, "v": np.sin(grid[0]), "walls": walls, "best": [[1.0], [0.0]]}
    masses = np.array([0.3, 0.7])
    minimum = {"title": "minimiser", "ylim": (-0.1, 1)}
    item = {"title": "ReLU", "beta": [1, 2], "angle": [at, at], "mass": [masses, masses]}
    times = np.logspace(0, 3, 20)
    run = {
        "title": "GeLU", "t": times, "gap": 1 / times, "excess": 0.5 / times, "speed": times**-2,
        "stop": 100.0,
    }  # fmt: skip
    points = {"gap": 1 / M, "excess": 0.5 / M, "label": "seen", "marker": "o", "role": "found"}
    also = (at[:1], np.ones(1), ("atoms", "other"), np.cos(angle), "flow")
    pictures = [
        plots.landscapes(circle, sphere),
        plots.circle_minimiser(angle, np.sin(angle), at, masses, **minimum),
        plots.splitting([{**item, "lines": [([1, 2], at)]}]),
        plots.stalled([run]),
        plots.gap_cloud([points], limits=(1e-3, 1)),
    ]
    for picture in pictures:
        assert colours(picture) > 20
    # the second measure, the dashed curves and the time of the rule are drawn
    second = plots.circle_minimiser(angle, np.sin(angle), at, masses, **minimum, also=also)
    assert second.png != pictures[1].png
    assert plots.splitting([item]).png != pictures[2].png
    assert plots.stalled([{**run, "stop": 10.0}]).png != pictures[3].png


@pytest.mark.weekly
@pytest.mark.slow
def test_chart_of_localisation_draws():
    turn = np.linspace(-180, 180, 60)
    group = {"angle": [-90.0, 20.0], "mass": [0.2, 0.8], "label": "end", "role": "measured"}

    def chart(**changes):
        settings = {"dead": np.abs(turn) > 150, "kinks": (0.0, 45.0), "ylabel": "$v$"}
        return plots.atoms_on_circle(turn, np.cos(turn), [group], **{**settings, **changes})

    assert colours(chart()) > 20
    assert chart(dead=None).png != chart().png
    assert chart(kinks=()).png != chart().png


@pytest.mark.weekly
@pytest.mark.slow
def test_charts_of_scaling_draw():
    x, roots = np.linspace(0, 2, 50), np.array([1.0, 2.0, 3.0])
    settled = np.array([True, False, True])
    lines = {"none": (roots, 3 * roots, settled), "relu": (roots, roots, settled)}
    clouds = {"none": (roots, 0.1 * roots), "gelu": (roots, 0.2 * roots)}
    masses = {"title": "masses", "masses": clouds, "bounds": [(roots, 1 / roots, "bound", "limit")]}
    columns = {"titles": ["circle"], "rows": ["descent"], "log": [True]}
    waits, last = np.array([2.0, 30.0, 500.0]), np.array([False, False, True])
    clock = [([1.0, 10.0, 100.0], [5, 3, 1])]
    pictures = [
        plots.cluster_bounds(x, x * np.exp(-(x**2)), 0.5, x[1:] / 2, 0.5 + x[1:] / 4, x[1:] / 2),
        plots.count_panels([[lines]], **columns),
        plots.count_bars([("ascent", {1: 40, 2: 10})]),
        plots.mass_panels([masses], xlabels=["√β"], xscales=["linear"]),
        plots.merging_clock(clock, waits, waits / 2, last),
    ]
    for picture in pictures:
        assert colours(picture) > 20
    # whether a run settled, and whether a bound is exact, can be told
    done = {name: (*line[:2], settled | True) for name, line in lines.items()}
    assert plots.count_panels([[done]], **columns).png != pictures[1].png
    assert plots.merging_clock(clock, waits, waits / 2, ~last).png != pictures[4].png


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
