"""Pictures: what a drawing function gives, with the data that it was given."""

from __future__ import annotations

import base64
import functools
import html
import inspect
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ParamSpec

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from companion.plots.data import Given, given, table
from companion.plots.style import STYLE

P = ParamSpec("P")

#: The data of a figure beside its picture in the output of a cell; `make run` makes a file of it.
DATA_MIME = "application/vnd.mfbook.data+csv"
#: Twice the width at which a page shows a figure: sharp on dense screens.
DPI = 200


def as_output(data: str) -> dict[str, str]:
    """The data as a part of the output; for `make run` and `make test`, which ask for it.

    Nobody else does: notebooks do not store it, and what stock nbval compares has the same fields.
    """
    return {DATA_MIME: data} if os.environ.get("MFBOOK_FIGURE_DATA") else {}


@dataclass(frozen=True)
class Picture:
    """A finished figure as PNG bytes; in a notebook it displays itself.

    ``figure.data`` is the table of what it was given as CSV in long form.
    """

    png: bytes
    given: Given = field(default=Given(), repr=False, compare=False)

    @property
    def data(self) -> str:
        """What the figure was given, as CSV: its arrays by name, comments on panels and axes."""
        return table(self.given)

    def _repr_png_(self):
        # at half its pixel size
        return self.png, {"width": self.size[0] // 2, "height": self.size[1] // 2}

    def _repr_mimebundle_(self, include=None, exclude=None):
        return as_output(self.data)

    def image(self, alt: str, png: bytes | None = None, more: str = "") -> str:
        """The picture, or a lighter one of the same, as an element of HTML with its description."""
        data, (width, height) = base64.b64encode(png or self.png).decode(), self.size
        return (
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" {more}'
            f'width="{width // 2}" height="{height // 2}" style="max-width:100%;height:auto">'
        )

    def __repr__(self) -> str:
        return "Picture({} x {} pixels)".format(*self.size)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, read from the PNG header."""
        width, height = (int.from_bytes(self.png[i : i + 4], "big") for i in (16, 20))
        return width, height


def drawing(function: Callable[P, Figure | tuple[Figure, Mapping]]) -> Callable[P, Picture]:
    """Decorator: run a function that draws a figure in the book's style; return the picture.

    The style holds inside the call only: a reader's own matplotlib settings stay untouched. The
    picture's data are the arrays among the arguments, by their names. A function that draws what
    it computes from them (a histogram) returns the figure and these arrays by name.
    """

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Picture:
        with mpl.rc_context({**mpl.rcParamsDefault, "backend": mpl.rcParams["backend"], **STYLE}):
            file, drawn = io.BytesIO(), function(*args, **kwargs)
            data: Mapping = inspect.signature(function).bind(*args, **kwargs).arguments
            figure, data = drawn if isinstance(drawn, tuple) else (drawn, data)
            figure.dpi = DPI
            # not savefig, which draws once more, for the layout; and no software name or date
            # inside: the same data give the same bytes
            FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
            return Picture(file.getvalue(), given(data, figure))

    return draw
