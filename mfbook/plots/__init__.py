"""Figures in one style; the only package that imports matplotlib (and, on request, ipywidgets).

Every function takes named data, draws one figure and returns a :class:`Picture`, which shows itself
as a PNG. Colours and line styles mean the same thing throughout the book: see :data:`ROLES`.
"""

from .charts import attention_maps, curves, rates, scatter
from .frames import frames
from .style import ROLES, Picture, Role, drawing, new_figure

__all__ = [
    "ROLES",
    "Picture",
    "Role",
    "attention_maps",
    "curves",
    "drawing",
    "frames",
    "new_figure",
    "rates",
    "scatter",
]
