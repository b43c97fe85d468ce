"""Figures: deterministic, in style, without side effects, and usable by keyboard and ear."""

import io
import re

import matplotlib as mpl
import numpy as np
from IPython.core.formatters import DisplayFormatter
from PIL import Image

from companion import plots
from companion.plots.picture import DATA_MIME
from companion.plots.spheres import EYE, PIXELS, Camera

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

BALL = RNG.normal(size=(300, 3))
BALL /= np.linalg.norm(BALL, axis=1, keepdims=True)


def test_paths_on_the_circle_do_not_cross_the_picture():
    """A token that passes 180 degrees is drawn in two pieces, not by a line through all angles."""
    ink = []
    for ends in ((170.0, -170.0), (80.0, -80.0)):
        item = {"t": np.arange(2.0), "title": "one", "degrees": np.array(ends)[:, None]}
        ink.append((pixels(plots.angle_paths([item])) < 250).any(axis=-1).sum())
    assert ink[0] < ink[1]


def test_perspective_of_the_sphere():
    """Seen from the eye: the outline has radius 1, and near is what the sphere does not hide."""
    towards = np.array([2.0, -1.0, 0.6])
    for sign in (1, -1):
        camera, eye = Camera(sign * towards), sign * EYE * towards / np.linalg.norm(towards)
        screen, near = camera.project(BALL)
        assert (near == ((BALL * (eye - BALL)).sum(axis=1) >= 0)).all()
        assert np.linalg.norm(screen, axis=1).max() <= 1
        # each pixel shows the point behind it, on the near side
        side = np.linspace(-1, 1, PIXELS)
        pixel = np.stack(np.meshgrid(side, side), axis=-1)
        inside, seen = (pixel**2).sum(axis=-1) < 1, camera.surface()
        assert (np.isfinite(seen).all(axis=-1) == inside).all()
        again, near = camera.project(seen[inside])
        assert np.allclose(again, pixel[inside]) and near.all()
        assert np.allclose(np.linalg.norm(seen[inside], axis=-1), 1)


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
    first, fold, _ = re.split("<details|</details>", markup)
    every = re.findall(r"<img [^>]*>", fold)
    assert re.findall(r"<img [^>]*>", first) == [every[1]] and len(set(every)) == 3
    assert [re.search(r'alt="([^"]*)"', i)[1][16] for i in every] == ["1", "2", "3"]
    assert re.findall("<p>(slope .)</p>", fold) == ["slope 1", "slope 2", "slope 3"]
    assert "&lt;else&gt;" in markup and "<else>" not in markup
    assert 'aria-label="slope"' in markup and 'aria-valuetext="slope 2"' in markup
    assert "http" not in markup and len(markup) / 4 < 40_000  # a dozen stay under a megabyte


def test_frames_show_one_picture_where_scripts_are_taken_out():
    """What JupyterLab leaves of a stored figure: no script, and no ``hidden``."""
    markup = re.sub(
        r' (?:oninput|data-[a-z-]+)="[^"]*"| hidden', "", shown(slider())[0]["text/html"]
    )
    outside = re.sub("<details .*?</details>", "", markup, flags=re.S)
    assert outside.count("<img ") == 1 and "to move the slider" in outside
    assert " open" not in re.search("<details[^>]*>", markup)[0]


# ---------------------------------------------------------------------------------------- try it


def cell(run=None, **changes):
    def draw(slope, shape):
        if slope == 3:
            raise RuntimeError("too steep")
        y = [0, slope if shape == "line" else slope**2]
        return plots.curves([{"x": [0, 1], "y": y, "label": shape}], xlabel="x", ylabel="y")

    controls = {"slope": ("slope", [1, 2, 3], 2), "shape": ("form", ["line", "square"], "line")}
    said = {"alt": "A {shape} to {slope} & <more>".format, "caption": "Lines.", **changes}
    return plots.try_it(draw, controls, run=run, **said)


def parts(item):
    *controls, said, picture, _ = item.box().children
    return controls, said, picture


def test_a_cell_to_try_shows_its_picture_and_what_can_be_set():
    kinds = shown(cell())[0]
    assert "slope (2 here); form (line here)" in kinds["text/html"]
    assert 'alt="A line to 2 &amp; &lt;more&gt;"' in kinds["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in kinds
    assert "line,1,2" in kinds[DATA_MIME]


def test_moving_a_control_computes_again():
    (slope, form), said, picture = parts(cell())
    before = picture.value
    slope.value = 1
    once = picture.value
    form.value = "square"
    assert "A square to 1" in picture.value and "A line to 1" in once and before != once
    assert not said.outputs


def test_a_button_computes_when_it_is_pressed_and_lives_on_after_an_error():
    (slope, _, button), said, picture = parts(cell(run="Run (about 1 s)"))
    assert button.description == "Run (about 1 s)"
    before, slope.value = picture.value, 3
    button.click()  # what goes wrong is said, not raised
    assert picture.value == before and not button.disabled
    slope.value = 1
    button.click()
    assert "A line to 1" in picture.value
