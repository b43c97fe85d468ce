"""Cells to play with: controls over a computation where a kernel runs, its picture elsewhere."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from companion.plots.picture import Picture, as_output

#: What readers of the stored notebook are told; the rendered page leaves it out.
HINT = "Run this cell, and the cells above it, to set"


@dataclass(frozen=True)
class Control:
    """One thing that a reader may set: its label, the values it can have, and the first one."""

    label: str
    values: Sequence
    start: Any

    @property
    def shown(self) -> str:
        """The first value, as it stands beside its control."""
        return _word(self.start)

    def widget(self):
        """The control itself, from ipywidgets: a list, for its sliders have no name to read out."""
        import ipywidgets

        return ipywidgets.Dropdown(
            options=[(_word(value), value) for value in self.values],
            value=self.start,
            description=self.label,
            style={"description_width": "14em"},
            layout={"width": "36em", "max_width": "100%"},
        )


def _word(value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


@dataclass(frozen=True)
class TryIt:
    """A computation with controls; shows itself as widgets and as the picture of its start.

    A front end with a kernel takes the widgets. What is stored is the picture, with a line that
    says what can be set.
    """

    draw: Callable[..., Picture]
    controls: Mapping[str, Control]
    alt: Callable[..., str]
    caption: str
    run: str | None
    picture: Picture

    @property
    def data(self) -> str:
        """What the first picture shows, as CSV."""
        return self.picture.data

    @property
    def start(self) -> dict[str, Any]:
        """The values of the first picture."""
        return {name: control.start for name, control in self.controls.items()}

    def box(self):
        """The controls above the picture, which follows them."""
        import ipywidgets

        widgets = {name: control.widget() for name, control in self.controls.items()}
        picture = ipywidgets.HTML(self.picture.image(self.alt(**self.start)))
        said = ipywidgets.Output()  # progress, and what goes wrong
        button = ipywidgets.Button(description=self.run or "", layout={"width": "auto"})

        def recompute(_):
            said.clear_output()
            button.disabled = True
            with said, contextlib.ExitStack() as end:
                end.callback(setattr, button, "disabled", False)
                values = {name: widget.value for name, widget in widgets.items()}
                picture.value = self.draw(**values).image(self.alt(**values))

        if self.run:
            button.on_click(recompute)
        else:
            for widget in widgets.values():
                widget.observe(recompute, "value")
        rows = [*widgets.values(), *([button] if self.run else []), said, picture]
        return ipywidgets.VBox([*rows, ipywidgets.HTML(f"<p>{html.escape(self.caption)}</p>")])

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {**as_output(self.data), **self.box()._repr_mimebundle_()}

    def _repr_html_(self) -> str:
        what = "; ".join(f"{c.label} ({c.shown} here)" for c in self.controls.values())
        return (
            f'<figure class="mf-try-it">{self.picture.image(self.alt(**self.start))}'
            f'<p class="mf-try-it-hint">{html.escape(f"{HINT}: {what}.")}</p>'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )

    def __repr__(self) -> str:
        return f"TryIt({', '.join(control.label for control in self.controls.values())})"


def try_it(
    draw: Callable[..., Picture],
    controls: Mapping[str, tuple[str, Sequence, Any]],
    *,
    alt: Callable[..., str],
    caption: str,
    run: str | None = None,
) -> TryIt:
    """Let a reader set the parameters of a computation and see it done again.

    In JupyterLab with a kernel, lists stand above the picture, and each choice calls ``draw``. The
    stored notebook, the rendered page and the PDF show the picture of the start.
    """
    set_by = {name: Control(*control) for name, control in controls.items()}
    picture = draw(**{name: control.start for name, control in set_by.items()})
    return TryIt(draw, set_by, alt, caption, run, picture)
