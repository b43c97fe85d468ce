"""Interactive figures: a slider over pictures, with a kernel or without one."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image

from companion.plots.data import table_of_frames
from companion.plots.picture import Picture, as_output

#: What is read where scripts are taken out of the figure, as JupyterLab does before a run.
HINT = "Run this cell, and the cells above it, to move the slider."

# Shows picture number `value`, and tells screen readers and the label what it is.
_MOVE = (
    "const f=this.closest('figure'),i=f.querySelector('img'),"
    "c=f.querySelectorAll(':scope details img')[this.value];"
    "i.src=c.src;i.alt=c.alt;i.dataset.label=c.dataset.label;"
    "this.setAttribute('aria-valuetext',c.dataset.label);"
    "f.querySelector('output').textContent=c.dataset.label"
)


@dataclass(frozen=True)
class Frames:
    """Precomputed pictures under one slider; shows itself as a self-contained HTML figure.

    ``figure.data`` is the table behind the pictures as CSV, with a column for the slider's label.
    """

    pictures: tuple[Picture, ...]
    labels: tuple[str, ...]
    alts: tuple[str, ...]
    name: str
    caption: str
    start: int

    @property
    def data(self) -> str:
        """What the pictures are given, as CSV, with the slider's label."""
        given = (picture.given for picture in self.pictures)
        return table_of_frames(zip(self.labels, given, strict=True))

    def _repr_mimebundle_(self, include=None, exclude=None):
        return as_output(self.data)

    def _repr_html_(self) -> str:
        images = [
            picture.image(alt, _small(picture.png), f'data-label="{html.escape(label)}" ')
            for picture, label, alt in zip(self.pictures, self.labels, self.alts, strict=True)
        ]
        return _markup(self.name, self.labels, images, self.start, self.caption)

    def __repr__(self) -> str:
        return f"Frames({len(self.pictures)} pictures, {self.name})"


def _markup(
    name: str, labels: Sequence[str], images: Sequence[str], start: int, caption: str
) -> str:
    """The figure: its slider, the picture shown first, and all pictures in a closed fold.

    Where a front end takes out scripts and ``hidden``, one picture is left, with :data:`HINT`. In
    JupyterLab the attribute ``data-lm-suppress-shortcuts`` leaves the arrow keys to the slider.
    """
    every = "".join(
        f"<p>{html.escape(label)}</p>{image}" for label, image in zip(labels, images, strict=True)
    )
    name, label = html.escape(name), html.escape(labels[start])
    return (
        '<figure class="mf-frames"><label style="display:flex;gap:.75em;align-items:center">'
        f'<span>{name}</span><input type="range" min="0" max="{len(images) - 1}" step="1" '
        f'value="{start}" aria-label="{name}" aria-valuetext="{label}" '
        'data-lm-suppress-shortcuts="true" '
        f'style="flex:1;max-width:22em" oninput="{html.escape(_MOVE)}">'
        f"<output>{label}</output></label>{images[start]}"
        f'<p class="mf-frames-hint" hidden>{HINT}</p>'
        f'<details class="mf-frames-all"><summary>All {len(images)} pictures</summary>{every}'
        f"</details><figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _small(png: bytes) -> bytes:
    """The picture at half size in 96 colours: a dozen frames must not weigh down a page."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image = image.resize((image.width * 2 // 3, image.height * 2 // 3), Image.Resampling.LANCZOS)
    image = image.quantize(96, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return file.getvalue()


def frames(
    draw: Callable[..., Picture],
    values: Sequence,
    *,
    name: str,
    label: Callable[[object], str] = str,
    alt: Callable[[object], str],
    caption: str,
    start: int = 0,
) -> Frames:
    """Draw a figure for each value and put the pictures under one slider.

    The slider is a plain range input: it works in a page without a kernel, by keyboard (arrow
    keys) and with a screen reader. Below it a fold holds all pictures. In a stored notebook that
    JupyterLab does not trust the slider rests: one picture is shown, with a line that says so.
    :func:`try_it` draws on demand, where a kernel runs.
    """
    values = list(values)
    return Frames(
        tuple(draw(value) for value in values),
        tuple(label(value) for value in values),
        tuple(alt(value) for value in values),
        name,
        caption,
        start,
    )
