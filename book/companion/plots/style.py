"""The one figure style: palette, roles, and pictures that show themselves."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from companion.plots.data import Contents, contents, table

__all__ = ["DATA_MIME", "ROLES", "Picture", "Role", "drawing", "new_figure"]

P = ParamSpec("P")

INK, FAINT = "#1f2430", "#d9dce3"

#: The data of a figure beside its picture in the output of a cell; `make run` makes a file of it.
DATA_MIME = "application/vnd.mfbook.data+csv"


def as_output(data: str) -> dict[str, str]:
    """The data as a part of the output; for `make run` and `make test`, which ask for it.

    Nobody else does: notebooks do not store it, and what stock nbval compares has the same fields.
    """
    return {DATA_MIME: data} if os.environ.get("MFBOOK_FIGURE_DATA") else {}


#: Twice the width at which a page shows a figure: sharp on dense screens.
DPI = 200


@dataclass(frozen=True)
class Role:
    """What a line stands for: its colour (safe for colour-blind readers), dash and marker.

    No two roles share a dash and a marker, so that they also differ in greyscale.
    """

    colour: str
    dash: object = "-"
    marker: str = ""
    width: float = 1.8

    @property
    def line(self) -> dict:
        """Keyword arguments for ``Axes.plot``."""
        return {
            "color": self.colour,
            "linestyle": self.dash,
            "marker": self.marker,
            "linewidth": self.width,
        }


#: The visual vocabulary of the book.
ROLES = {
    "measured": Role("#0b5fa5", "-", "o"),
    "found": Role("#0b5fa5", "", "o"),
    "bound": Role("#c8500a", "-", "", 2.2),
    "sharpened": Role("#00805e", (0, (6, 2)), "", 2.2),
    "leading": Role("#8a5a9e", (0, (1, 1.5)), "", 2.2),
    "fluctuation": Role("#8a5a9e", "-", "s"),
    "second": Role("#b07d00", "-", "^"),
    "reference": Role("#5c6370", (0, (4, 3)), "", 1.3),
}

#: Sequential colour map for weights and densities: dark means more, in greyscale too.
SEQUENTIAL = "YlGnBu"
#: Diverging colour map, symmetric around zero.
DIVERGING = "PuOr"

STYLE: dict[Any, object] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#8b919c",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.minor.visible": False,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "mathtext.fontset": "dejavusans",
}


@dataclass(frozen=True)
class Picture:
    """A finished figure as PNG bytes, with its data; in a notebook it displays itself.

    ``figure.data`` is the table behind the picture as CSV in long form, ``figure.rows()`` the same
    with full precision and every row.
    """

    png: bytes
    contents: Contents = field(default=Contents(), repr=False, compare=False)

    @property
    def data(self) -> str:
        """What the figure shows, as CSV: one row for each point, comments on panels and axes."""
        return table(self.contents)

    def rows(self) -> list[dict]:
        """What the figure shows: a dictionary for each point, with full precision."""
        return self.contents.rows()

    def _repr_png_(self):
        # at half its pixel size
        return self.png, {"width": self.size[0] // 2, "height": self.size[1] // 2}

    def _repr_mimebundle_(self, include=None, exclude=None):
        return as_output(self.data)

    def __repr__(self) -> str:
        return "Picture({} x {} pixels)".format(*self.size)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, read from the PNG header."""
        width, height = (int.from_bytes(self.png[i : i + 4], "big") for i in (16, 20))
        return width, height


def new_figure(width: float = 7.0, height: float = 3.6, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure of the given size in inches and its axes; ``grid`` goes to ``subplots``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)


def drawing(function: Callable[P, Figure]) -> Callable[P, Picture]:
    """Decorator: run a function that draws a figure in the book's style; return the picture.

    The style holds inside the call only: a reader's own matplotlib settings stay untouched. The
    picture's data are read from what was drawn; series are named by the ``gid`` of an artist or by
    its label, and what has the ``gid`` ``"decoration"`` is left out.
    """

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Picture:
        with mpl.rc_context({**mpl.rcParamsDefault, "backend": mpl.rcParams["backend"], **STYLE}):
            file = io.BytesIO()
            figure = function(*args, **kwargs)
            figure.dpi = DPI
            # not savefig, which draws once more, for the layout; and no software name or date
            # inside: the same data give the same bytes
            FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
            # after it was drawn, so that reading cannot change the picture
            return Picture(file.getvalue(), contents(figure))

    return draw
