"""Figures that compute in the page: the picture that stands for one where no script runs."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass

from companion.plots.picture import Picture, as_output

#: What readers of the notebook are told; the rendered page leaves it out.
HINT = "Interactive on the rendered page."


@dataclass(frozen=True)
class Explorable:
    """A picture in the place of a live figure; shows itself as a self-contained HTML figure."""

    name: str
    figure: Picture
    says: str
    caption: str
    parameters: str

    @property
    def data(self) -> str:
        """What the picture shows, as CSV."""
        return self.figure.data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return as_output(self.data)

    def _repr_html_(self) -> str:
        return (
            f'<figure class="mf-explore-figure"><div class="mf-explore" data-explore="{self.name}" '
            f'data-parameters="{html.escape(self.parameters)}">'
            f'{self.figure.image(self.says)}<p class="mf-explore-hint">{HINT}</p></div>'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )

    def __repr__(self) -> str:
        return f"Explorable({self.name})"


def explorable(
    name: str,
    figure: Picture,
    *,
    says: str,
    caption: str,
    parameters: Mapping | None = None,
) -> Explorable:
    """Place a figure that computes in the page, with the picture that stands for it elsewhere.

    The rendered page runs ``book/_static/explore/<name>.js`` and puts the live figure in the place
    of the picture. A notebook, the PDF and a page without scripts show the picture.
    """
    stored = json.dumps(dict(parameters or {}), ensure_ascii=False, allow_nan=False)
    return Explorable(name, figure, says, caption, stored)
