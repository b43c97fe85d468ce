"""Figures that compute in the page: what is stored in their place."""

import base64
import html
import json
import re

from IPython.core.formatters import DisplayFormatter

from companion import plots
from companion.plots.picture import DATA_MIME

LINE = [{"x": [0, 1], "y": [1, 0], "label": "risk"}]
PICTURE = plots.curves(LINE, xlabel="time", ylabel="nats")
SETTINGS = {"says": "A line & nothing <else>.", "caption": 'It "falls" < 1.'}


def place(name="one-head", figure=PICTURE, **changes):
    return plots.explorable(name, figure, **{**SETTINGS, **changes})


def markup(item) -> str:
    return DisplayFormatter().format(item)[0]["text/html"]


def test_one_picture_its_texts_and_the_parameters_are_stored():
    parameters = {"start": [1.0, 0.5], "words": "the 'cat' \"sat\" <on> β"}
    item = place(parameters=parameters)
    shown = DisplayFormatter().format(item)[0]
    assert shown[DATA_MIME] == PICTURE.data and "image/png" not in shown
    (image,) = re.findall(r"<img [^>]*>", shown["text/html"])
    assert base64.b64decode(re.search(r"base64,([^\"]*)", image)[1]) == PICTURE.png
    assert html.unescape(re.search(r' alt="([^"]*)"', image)[1]) == SETTINGS["says"]
    (stored,) = re.findall(r'data-explore="one-head" data-parameters="([^"]*)"', shown["text/html"])
    assert json.loads(html.unescape(stored)) == parameters
    caption = re.search(r"<figcaption>(.*)</figcaption>", shown["text/html"])[1]
    assert "<" not in caption and html.unescape(caption) == SETTINGS["caption"]
    assert "Interactive on the rendered page." in shown["text/html"]


def test_nothing_is_run_or_fetched_by_what_is_stored():
    """An untrusted notebook shows it as it is."""
    assert not re.search(r"<script|\son\w+=|https?:|<link|javascript:", markup(place()))
