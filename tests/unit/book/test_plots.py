"""Figures: deterministic, in style, without side effects, and usable by keyboard and ear."""

import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image

from mfbook.book import plots
from mfbook.book.plots.spheres import EYE

RNG = np.random.default_rng(0)
M = 2.0 ** np.arange(2, 8)
LINES = [
    {"x": M, "y": 1 / M, "low": 0.8 / M, "high": 1.2 / M, "label": "mean gap"},
    {"x": M, "y": 2 / np.sqrt(M), "label": "bound", "role": "bound"},
]


def rates(lines=LINES):
    return plots.rates(lines, xlabel="heads", ylabel="nats", slopes=[(M, 1 / M, "slope −1")])


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))


def colours(picture) -> int:
    """Number of different colours; one number for a pixel, since sorting rows takes seconds."""
    return len(np.unique(pixels(picture).astype(int) @ [1, 256, 65536]))


def shown(item) -> tuple[dict, dict]:
    """What a notebook gets, and what it is told about it."""
    return DisplayFormatter().format(item)


# ------------------------------------------------------------------------------------- the style


def test_style_and_data_decide_every_byte():
    """The same data give the same bytes whatever the reader's settings, which stay."""
    before, picture = dict(mpl.rcParams), rates()
    with mpl.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        assert rates().png == picture.png
        assert mpl.rcParams["font.size"] == 31
    assert dict(mpl.rcParams) == before
    assert rates([{**LINES[0], "y": 3 / M}, LINES[1]]).png != picture.png
    # direct labels stay inside, and the picture is displayed at half its size
    edge = pixels(picture)
    border = [edge[:2], edge[-2:], edge[:, :2], edge[:, -2:]]
    assert (np.concatenate([part.ravel() for part in border]) == 255).all()
    height, width, _ = edge.shape
    assert shown(picture)[1]["image/png"] == {"width": width // 2, "height": height // 2}
    assert b"matplotlib" not in picture.png.lower()


def luminance(colour):
    linear = np.where(colour <= 0.03928, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_roles_differ_without_colour_and_are_readable():
    """Contrast of at least 3:1 on white, and on black after the inversion of dark mode."""
    looks = [(str(role.dash), role.marker) for role in plots.ROLES.values()]
    assert len(set(looks)) == len(looks)
    for role in plots.ROLES.values():
        colour = np.array(mpl.colors.to_rgb(role.colour))
        assert 1.05 / (luminance(colour) + 0.05) >= 3
        assert (luminance(1 - colour) + 0.05) / 0.05 >= 3


# ---------------------------------------------------------------------------------------- charts

X, TIMES, TURN = np.linspace(0, 1, 30), np.arange(4.0), np.linspace(-180, 179, 120)
PANEL = {"title": "one", "xlabel": "x", "ylabel": "y", "series": LINES}
WHERE = {"xlabel": "x", "ylabel": "y"}
PATH = RNG.normal(size=(4, 9, 2)).cumsum(axis=0)
RATE = {"x": X, "y": 0.5 - X, "label": "rate", "role": "bound"}
SIZE = {"y": np.exp(-TIMES), "label": "mean", "role": "measured"}
DOTS = [{**RATE, "label": "seen", "marker": "o"}]
REGIME = (X[:, None] < 0.6).astype(int) + (X[:, None] < 0.3) + 0 * X.astype(int)
NAMES, SHADES = ["stable", "splitting", "translation"], {"holds": 0, "open": 1, "fails": 2}
STATE = {"label": "now", "values": [0.1, 0.2], "weights": [0.5, 0.5], "best": -0.1}
GROUND = {"degrees": TURN, "v": np.sin(np.radians(TURN)), "dead": np.abs(TURN) < 30}
CLOUD = {"degrees": RNG.uniform(-180, 180, 50), "weights": RNG.dirichlet(np.ones(50))}
PATHS = {
    "t": TIMES, "degrees": (np.linspace(-170, 170, 9) + 20 * TIMES[:, None]) % 360 - 180,
    "title": "descent", "landscape": GROUND,
}  # fmt: skip
LINE = {"x": TIMES, "y": TIMES - 2, "label": "rate", "role": "measured"}
LEVEL = {"t": TIMES, "y": np.exp(-TIMES), "label": "energy", "role": "bound"}
BALL = RNG.normal(size=(300, 3))
BALL /= np.linalg.norm(BALL, axis=1, keepdims=True)
MASSES = RNG.dirichlet(np.ones(300))
RUN = {"y": np.array([3, 500]), "start": [5, 7], "label": "β = 1", "role": "measured"}
ANGLE, AT = np.linspace(-np.pi, np.pi, 200, endpoint=False), np.array([-1.0, 0.5])
CIRCLE = {
    "angle": ANGLE, "v": np.sin(ANGLE), "edges": [0.0, 3.0], "tops": [AT, np.sin(AT)],
    "best": [[0.5], [0.5]],
}  # fmt: skip
MAP = np.meshgrid(np.linspace(-np.pi, np.pi, 40), np.linspace(-1.5, 1.5, 20))
WALLS = [(np.linspace(-3, 3, 9), np.zeros(9))]
SPHERE = {"grid": MAP, "v": np.sin(MAP[0]), "walls": WALLS, "best": [[1.0], [0.0]]}
TWO = np.array([0.3, 0.7])
ITEM = {"title": "ReLU", "beta": [1, 2], "angle": [AT, AT], "mass": [TWO, TWO]}
LONG = np.logspace(0, 3, 20)
STALLED = {"title": "GeLU", "t": LONG, "gap": 1 / LONG, "excess": 0.5 / LONG, "speed": LONG**-2}
GAPS = {"gap": 1 / M, "excess": 0.5 / M, "label": "seen", "marker": "o", "role": "found"}
GROUP = {"angle": [-90.0, 20.0], "mass": [0.2, 0.8], "label": "end", "role": "measured"}
ROOTS, DONE = np.array([1.0, 2.0, 3.0]), np.array([True, False, True])
WAITS, CLOCK = np.array([2.0, 30.0, 500.0]), [([1.0, 10.0, 100.0], [5, 3, 1])]
SCORES = np.where(np.tri(3, dtype=bool), RNG.normal(size=(3, 3)), -np.inf)
WEIGHTS = np.tri(3) / np.tri(3).sum(axis=1, keepdims=True)
WORDS, THREE = ("a", "small", "cat"), np.array([3.0, 1.0, 2.0])
BLOW = {"t": np.arange(4), "length": np.arange(4) / 2, "end": 3.5, "label": "one", "role": "second"}
ANGLES = np.array([[0.0, 170.0], [20.0, -170.0], [40.0, -160.0]])


def hill(y):
    return y[:, 2] ** 3


def clusters(stopped):
    panels = [[{"title": "ascent", "series": [{**RUN, "stopped": np.array(stopped)}]}]]
    return plots.cluster_counts(panels, dimensions=(3, 4), particles=500)


def scene(landscape=hill, kinks=((1, 0, 0),), towards=(1, -1, 0.6)):
    options = {"title": "t", "kinks": kinks, "towards": towards}
    return plots.sphere_scene(BALL[:30], MASSES[:30], landscape, **options)


def counted(settled):
    lines = {"none": (ROOTS, 3 * ROOTS, settled), "relu": (ROOTS, ROOTS, settled)}
    return plots.count_panels([[lines]], titles=["circle"], rows=["descent"], log=[True])


def limits(name):
    masses = {"none": (ROOTS, 0.1 * ROOTS), "gelu": (ROOTS, 0.2 * ROOTS)}
    panel = {"title": "masses", "masses": masses, "bounds": [(ROOTS, 1 / ROOTS, name, "limit")]}
    return plots.mass_panels([panel], xlabels=["√β"], xscales=["linear"])


#: A chart as a function of something that it has to show, and two values of that.
CHARTS = {
    "curves": (lambda y: plots.curves(LINES, **WHERE, yscale="log", hline=y), 0.1, 0.3),
    "legend": (lambda d: plots.curves(LINES, **WHERE, direct=d, ylim=(0, 1)), True, False),
    "attention": (
        lambda A: plots.attention_maps(A, tokens=WORDS, titles=["one"]), WEIGHTS[None],
        np.eye(3)[None]),
    "particles": (
        lambda i: plots.particles(PATH, i, TIMES, 2 / (1 + TIMES), limit=0.3), 2, 3),
    "panels": (
        lambda lines: plots.panels([PANEL, {**PANEL, "lines": lines}]), [(0.1, "bound")], []),
    "panel": (
        lambda end: plots.panels(
            [{**PANEL, "xscale": "linear", "ylim": (0.01, end)}], base=None, legend=False), 2, 3),
    "grid": (
        lambda frame: plots.grid_map(
            M.reshape(2, 3), rows=["4", "8"], columns=list("abc"), **WHERE, label="error",
            frame=frame), M.reshape(2, 3) > 9, None),
    "bound": (
        lambda x: plots.bound_cloud([{**LINE, "marker": "o"}], line=(x, x, "C err"), **WHERE),
        X + 0.1, X + 1),
    "regimes": (
        lambda at: plots.regimes([RATE], DOTS, borders=at, names=NAMES[::-1], **WHERE),
        [0.05, 0.5], [0.2, 0.5]),
    "phases": (
        lambda r: plots.phase_diagram(
            X, X, r, borders=[RATE], dots=DOTS, names=NAMES, **WHERE), REGIME, 0 * REGIME),
    "cloud": (lambda r: plots.cloud(PATH, TIMES, [SIZE], limit=r, **WHERE), 2.0, 3.0),
    "verdicts": (
        lambda said: plots.verdicts(["a", "b"], ["c"], [[said], ["open here"]], shades=SHADES),
        "holds", "fails"),
    "imbalance": (
        lambda k: plots.imbalance(
            [PATH[:, 0], PATH[:, k]], 0, [TIMES] * 2, [SIZE["y"]] * 2, labels="ab"), 1, 2),
    "support": (
        lambda best: plots.support_values(
            [{"title": "copy", "states": [{**STATE, "best": best}]}]), -0.1, -0.2),
    "phase space": (
        lambda at: plots.phase_space(
            PATH[0], PATH[1], [{**SIZE, "label": "risk"}], at=at, times=TIMES, least=0.1), 1, 2),
    "predictors": (
        lambda y: plots.predictors([{"title": "one", "x": X, "y": y, "xlabel": "x"}], ylabel="y"),
        X + 1, X**2),
    "histograms": (
        lambda v: plots.angle_histograms([{**CLOUD, "title": "start", "landscape": v}], GROUND),
        GROUND, {}),
    "paths": (lambda v: plots.angle_paths([{**PATHS, "landscape": v}]), GROUND, {}),
    "ring": (
        lambda w: plots.energy_and_ring(
            [{**CLOUD, "weights": w, "title": "end", "role": "found"}], [LEVEL], GROUND),
        CLOUD["weights"], 3 * CLOUD["weights"]),
    "orbits": (
        lambda rest: plots.planar_orbits(
            [LINE], [{**LINE, "label": "orbit"}], rest, xlabel="share", titles=("rates", "orbits")),
        (1, 1), (2, 1)),
    "sphere histograms": (
        lambda kinks: plots.sphere_histograms(
            [{"points": BALL[:30], "weights": MASSES[:30], "title": "end"}] * 2, landscape=hill,
            kinks=kinks), np.eye(3)[:1], np.eye(3)[1:2]),
    "sphere": (lambda kinks: scene(kinks=kinks), np.eye(3)[:1], ()),
    "eye": (lambda towards: scene(towards=towards), (1, -1, 0.6), (-1, 1, 0.6)),
    "flat": (lambda v: scene(landscape=v), lambda y: 0 * y[:, 0], hill),
    "clusters": (clusters, [True, False], [True, True]),
    "landscapes": (
        lambda best: plots.landscapes({**CIRCLE, "best": best}, SPHERE), CIRCLE["best"],
        [[1.5], [1.0]]),
    "minimiser": (
        lambda also: plots.circle_minimiser(
            ANGLE, np.sin(ANGLE), AT, TWO, title="minimiser", ylim=(-0.1, 1), also=also),
        (AT[:1], np.ones(1), ("atoms", "other"), np.cos(ANGLE), "flow"), None),
    "splitting": (
        lambda more: plots.splitting([{**ITEM, **more}]), {"lines": [([1, 2], AT)]}, {}),
    "stalled": (lambda stop: plots.stalled([{**STALLED, "stop": stop}]), 100.0, 10.0),
    "gaps": (lambda end: plots.gap_cloud([GAPS], limits=(1e-3, end)), 1, 10),
    "atoms": (
        lambda kinks: plots.atoms_on_circle(
            TURN, np.cos(TURN), [GROUP], dead=np.abs(TURN) > 150, kinks=kinks, ylabel="$v$"),
        (0.0, 45.0), ()),
    "cluster bounds": (
        lambda mid: plots.cluster_bounds(X, X * np.exp(-(X**2)), mid, X[1:], X[1:] / 4, X[1:] / 2),
        0.5, 0.6),
    "counts": (counted, DONE, DONE | True),
    "bars": (lambda n: plots.count_bars([("ascent", {1: n, 2: 10})]), 40, 30),
    "masses": (limits, "bound", "found"),
    "clock": (lambda last: plots.merging_clock(CLOCK, WAITS, WAITS / 2, last), DONE, ~DONE),
    "scores": (
        lambda t: plots.scores_and_weights(SCORES, WEIGHTS, WORDS, titles=(t, "W")), "S", "T"),
    "mirror": (
        lambda A: plots.mirror([{"matrix": A, "title": "one"}]), np.arange(9.0).reshape(3, 3),
        np.eye(3)),
    "blow-up": (
        lambda end: plots.blow_up(
            [{**BLOW, "end": end}], THREE / 2, THREE, 2 * THREE, titles=("a", "b")), 3.5, 3.0),
    "tokens on a circle": (
        lambda at: plots.tokens_on_circle(THREE.cumsum(), ANGLES, [3, 2, 1], [(at, "stop")]),
        4.0, 5.0),
    "tokens on a sphere": (
        lambda to: plots.tokens_on_sphere(BALL[:3], THREE / 6, title="time 1", towards=to),
        (1, -1, 0.6), (1, 1, 1)),
}  # fmt: skip
EVERY_DAY, SELDOM = ("curves", "blow-up"), [pytest.mark.weekly, pytest.mark.slow]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EVERY_DAY else SELDOM) for name in CHARTS]
)
def test_charts_show_what_they_are_given(name):
    draw, value, other = CHARTS[name]
    picture = draw(value)
    assert colours(picture) > 20
    assert picture.png != draw(other).png


def test_paths_on_the_circle_do_not_cross_the_picture():
    """A token that passes 180 degrees is drawn in two pieces, not by a line through all angles."""
    ink = []
    for ends in ((170.0, -170.0), (80.0, -80.0)):
        item = {"t": np.arange(2.0), "title": "one", "degrees": np.array(ends)[:, None]}
        ink.append((pixels(plots.angle_paths([item])) < 250).any(axis=-1).sum())
    assert ink[0] < ink[1]
    data = plots.tokens_on_circle(THREE.cumsum(), ANGLES, [3, 2, 1], []).contents
    paths = [item.columns["y"] for item in data.series if item.name.startswith("token")]
    assert sorted(int(np.isnan(path).sum()) for path in paths) == [0, 1]


def test_perspective_of_the_sphere():
    """Seen from the eye: the outline has radius 1, and near is what the sphere does not hide."""
    towards, up = np.array([2.0, -1.0, 0.6]), np.array([0.0, 0.0, 1.0])
    data = plots.sphere_scene(BALL, MASSES, hill, title="t", towards=towards).contents
    for panel, sign in ((1, 1), (2, -1)):
        eye = sign * EYE * towards / np.linalg.norm(towards)
        right = np.cross(up, eye) / np.linalg.norm(np.cross(up, eye))
        frame = np.array([right, np.cross(eye / EYE, right)])
        near, far, ground = (
            np.stack([np.ravel(item.columns[c]) for c in "xyz"], axis=1)
            for name in ("near particles", "far particles", "potential")
            for item in data.series
            if (item.panel, item.name) == (panel, name)
        )
        visible = (BALL * (eye - BALL)).sum(axis=1) >= 0
        assert (near == BALL[visible]).all() and (far == BALL[~visible]).all()
        # each pixel shows the point behind it; a tangent of the sphere ends on the outline
        side = np.linspace(-1, 1, round(len(ground) ** 0.5))
        pixel = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
        inside = (pixel**2).sum(axis=1) < 1
        seen = ground[inside]
        ray = seen - eye
        screen = (ray @ frame.T) / (-ray @ eye / EYE)[:, None] * np.sqrt(EYE**2 - 1)
        assert np.allclose(np.linalg.norm(seen, axis=1), 1)
        assert np.allclose(screen, pixel[inside])
    # the near sides of both views do not cover the sphere: the far sides are drawn as well
    data = plots.tokens_on_sphere(BALL, MASSES, title="all").contents
    for panel in (1, 2):
        found = {item.name: len(item) for item in data.series if item.panel == panel}
        assert found.keys() == {"near tokens", "far tokens"} and sum(found.values()) == 300


def test_data_of_tokens():
    """Times are in order with their own bounds; masked scores are empty, weights complete."""
    data = plots.blow_up([BLOW], THREE / 2, THREE, 2 * THREE).contents
    named = {item.name: item.columns["y"] for item in data.series if item.panel == 2}
    for name, factor in (("measured", 1), ("lower bound", 0.5), ("upper bound", 2)):
        np.testing.assert_allclose(named[name], factor * np.arange(1, 4))
    data = plots.scores_and_weights(SCORES, WEIGHTS, WORDS).contents
    scores, weights = (item.columns["value"].reshape(3, 3) for item in data.series)
    assert (np.isnan(scores) == ~np.tri(3, dtype=bool)).all() and (weights == WEIGHTS).all()


# ---------------------------------------------------------------------------------------- frames


def slider(**changes):
    def draw(value):
        return plots.curves([{"x": [0, 1], "y": [0, value], "label": "y"}], xlabel="x", ylabel="y")

    settings = {
        "name": "slope", "label": "slope {}".format, "caption": "Lines.",
        "alt": "A line of slope {} & nothing <else>".format, **changes,
    }  # fmt: skip
    return plots.frames(draw, [1, 2, 3], **settings)


def test_frames_show_one_picture_name_all_and_are_light():
    markup = shown(slider(start=1))[0]["text/html"]
    images = re.findall(r"<img [^>]*>", markup)
    assert [" hidden" in i for i in images] == [True, False, True]
    assert all("slope" in re.search(r'alt="([^"]*)"', i)[1] for i in images)
    assert "&lt;else&gt;" in markup and "<else>" not in markup
    assert 'aria-label="slope"' in markup and 'aria-valuetext="slope 2"' in markup
    assert "http" not in markup and len(markup) / 3 < 40_000  # a dozen stay under a megabyte


def test_frames_live_draw_on_demand():
    control = slider(live=True).children[0]
    assert [label for label, _ in control.options] == ["slope 1", "slope 2", "slope 3"]
    with pytest.raises(ValueError, match="start"):
        slider(start=3)
