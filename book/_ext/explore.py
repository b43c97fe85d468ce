"""Figures that compute in the page: their scripts, on the pages that hold one and on no other.

A cell that calls ``companion.plots.explorable`` stores a picture in an element that names the
script of the live figure. Jupyter Book would load every script of ``_static`` on every page. Here
those of ``_static/explore`` are taken out again, and a page with such an element gets back the
style sheet, ``mathematics.js``, ``drawing.js`` and the scripts that it names. The line that tells
readers of the notebook where the figure is interactive is left out, since on the page it is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FOLDER = "explore"
#: What every figure needs, in the order in which it is run.
COMMON = ("mathematics.js", "drawing.js")
STYLE = "explore.css"
PLACED = re.compile(r'<div class="mf-explore" data-explore="([\w-]+)"')
HINT = re.compile(r'<p class="mf-explore-hint">.*?</p>')


def scripts(body: str) -> list[str]:
    """The scripts that a page needs, in their order.

    >>> scripts('<p>text</p>')
    []
    >>> scripts('<div class="mf-explore" data-explore="one-head" data-parameters="{}">')
    ['mathematics.js', 'drawing.js', 'one-head.js']
    """
    names = list(dict.fromkeys(PLACED.findall(body)))
    return [*COMMON, *(f"{name}.js" for name in names)] if names else []


class ExplorableOf(SphinxDirective):
    """The live figure that a chapter has stored, on another page: ``{explorable} chapter name``."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Take the figure out of the stored outputs; a name that is not there is an error."""
        chapter, name = self.arguments
        source = Path(self.env.srcdir) / f"{chapter}.ipynb"
        self.env.note_dependency(str(source))
        for cell in json.loads(source.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                html = "".join(output.get("data", {}).get("text/html", ""))
                if name in PLACED.findall(html):
                    return [nodes.raw("", html, format="html")]
        raise self.error(f"no figure {name} is stored in {source.name}")


def load(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Load what a page needs; a name without a script is an error of the book."""
    for kind in ("css_files", "script_files"):  # in place: what is added below goes to these lists
        context[kind][:] = [
            file
            for file in context[kind]
            if f"_static/{FOLDER}/" not in str(getattr(file, "filename", file) or "")
        ]
    body = context.get("body", "")
    needed = scripts(body)
    for name in needed:
        if not (Path(app.srcdir) / "_static" / FOLDER / name).is_file():
            raise FileNotFoundError(f"{pagename}: no script _static/{FOLDER}/{name}")
        app.add_js_file(f"{FOLDER}/{name}", loading_method="defer")
    if needed:
        app.add_css_file(f"{FOLDER}/{STYLE}")
        context["body"] = HINT.sub("", body)


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    app.add_directive("explorable", ExplorableOf)
    app.connect("html-page-context", load, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
