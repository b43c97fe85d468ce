"""The one figure style: palette, and roles of what is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

INK, FAINT = "#1f2430", "#d9dce3"


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


def new_figure(width: float = 7.0, height: float = 3.6, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure of the given size in inches and its axes; ``grid`` goes to ``subplots``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)
