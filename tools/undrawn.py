"""Figures without pixels: what a kernel runs whose pictures nobody will look at.

Drawing a picture, most of all finding room for its labels, takes longer than its numbers, and no
test compares pixels: of a figure, its data, size and texts are compared. So ``make test`` draws
the pictures of chapters that have changed and of a share of the others each day
(:func:`tools.turns.is_drawn`); in the other chapters pictures stay white.

A kernel that runs :func:`first_line` before anything else works so.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent


def _print_white(self, filename_or_obj, *, metadata=None, **_) -> None:
    """Instead of ``FigureCanvasAgg.print_png``: the same size, nothing on it."""
    if "draw" in vars(self.figure):
        # Matplotlib itself asks, to measure texts: it takes the renderer out of the drawing
        self.draw()
    Image.new("L", self.get_width_height(physical=True), 255).save(filename_or_obj, format="PNG")


def install() -> None:
    """Leave pictures white from now on, in this process."""
    FigureCanvasAgg.print_png = _print_white
    # asked for where texts are put beside each other, which nobody will see
    Figure.draw_without_rendering = lambda self: None


def first_line() -> str:
    """What a kernel has to run first."""
    return (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "import tools.undrawn; tools.undrawn.install(); sys.path.pop(0); del sys, tools"
    )
