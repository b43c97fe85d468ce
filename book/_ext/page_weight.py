"""Keep pages light: no styles and scripts for what no page contains, and short previews.

The theme brings Font Awesome as a script (1.5 MB) and as fonts of 2000 icons. The few in use are in
``_vendor/icons``, which ``_templates/static/webpack-macros.html`` links.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from pathlib import Path

from formulas import BOXES, finished
from sphinx.application import Sphinx

TEMPLATES = Path(__file__).resolve().parents[1] / "_templates"
#: Files and scripts in the page of sphinx-design and Thebe, and what is added to KaTeX's own style.
UNUSED = re.compile(r"sphinx-design|design-tabs|thebe|katex-math", re.IGNORECASE)
#: A block of code in a page.
CODE = re.compile(r'(<div class="highlight"><pre>).*?(</pre>)', re.DOTALL)


def drop_unused(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Leave out styles and scripts that no page uses; Thebe's are an error on every page."""
    cards = re.search(r'class="[^"]*\bsd-(?!none)', context.get("body", ""))
    for kind in ("css_files", "script_files"):
        named = [
            (f, getattr(f, "filename", f), getattr(f, "attributes", "")) for f in context[kind]
        ]
        context[kind] = [
            f for f, *what in named
            if not UNUSED.search(str(what)) or (cards and "sphinx-design" in str(what))
        ]  # fmt: skip


def write_disk(app: Sphinx, exception: Exception | None) -> None:
    """Write the book's type into a style, for pages that are opened from a disk."""
    folder = Path(app.outdir) / "_static" / "fonts"
    if exception or not folder.is_dir():
        return
    ranges = {"latin": "", "latin-ext": "U+0100-024F, U+1E00-1EFF", "greek": "U+0370-03FF"}
    faces = [
        (name, f"{file}-{part}-wght-normal", f"unicode-range: {range_}; " if range_ else "")
        for name, file in (("Serif", "serif-4"), ("Sans", "sans-3"))
        for part, range_ in ranges.items()
    ] + [("Serif", "serif-4-latin-wght-italic", "font-style: italic; ")]
    rules = [
        f'@font-face {{ font-family: "Disk {name}"; font-weight: 200 900; {style}'
        f"src: url(data:font/woff2;base64,{b64encode(font.read_bytes()).decode()}); }}\n"
        for name, file, style in faces
        for font in [folder / f"source-{file}.woff2"]
    ]
    (folder.parent / "disk.css").write_text("".join(rules), encoding="utf-8")


def keep_places(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Give each picture that is a file its shape, so that its place is kept until it comes."""
    files = {name: path for path, name in getattr(app.builder, "images", {}).items()}

    def shape(found: re.Match) -> str:
        file = Path(app.srcdir) / files.get(found[1], "")
        if file.suffix != ".png":
            return found[0]
        width, height = struct.unpack(">II", file.read_bytes()[16:24])
        return f'<img width="{width}" height="{height}"{found[0][4:]}'

    context["body"] = re.sub(
        r'<img [^>]*src="[^"]*_images/([^"]+)"', shape, context.get("body", "")
    )


def configure(app: Sphinx, config) -> None:
    """Let the book's templates come before the theme's, and its search order results."""
    config.templates_path.append(str(TEMPLATES))
    config.html_search_scorer = str(TEMPLATES / "search-scorer.js")


def before_previews(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Hide code and boxes of formulas from sphinx-tippy: previews show neither."""
    if doctree:
        context["whole_body"] = finished(context["body"])
        context["body"] = BOXES.sub("", CODE.sub(r"\1\2", context["body"]))


def after_previews(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    if doctree:
        context["body"] = context.pop("whole_body")


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    app.connect("config-inited", configure)
    app.connect("html-page-context", before_previews, priority=449)  # sphinx-tippy: 450
    app.connect("html-page-context", after_previews, priority=451)
    app.connect("html-page-context", keep_places)
    app.connect("build-finished", write_disk)
    app.connect("html-page-context", drop_unused, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
