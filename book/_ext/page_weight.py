"""Keep pages light: of the theme's icons only those in use, no styles for what no page contains.

The theme brings Font Awesome as a script (1.5 MB) and as fonts of 2000 icons. From the same fonts
this extension cuts two with the icons that the pages and the theme's styles name, and writes
``_static/icons/icons.css``; ``_templates/static/webpack-macros.html`` links it. The styles
of MyST-NB have rules for 256 colours of terminals, which are taken out where no page uses them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from fontTools import subset
from formulas import BOXES, finished
from sphinx.application import Sphinx

TEMPLATES = Path(__file__).resolve().parents[1] / "_templates"

#: The theme names a family of version 5 in one place.
FAMILIES = {
    "solid": ("fa-solid-900.ttf", ("Font Awesome 6 Free", "Font Awesome 5 Free"), 900),
    "brands": ("fa-brands-400.ttf", ("Font Awesome 6 Brands",), 400),
}
ICON = re.compile(r"\.fa-([a-z0-9-]+):before(?=[,{])")
#: A block of code in a page.
CODE = re.compile(r'(<div class="highlight"><pre>).*?(</pre>)', re.DOTALL)
RULES = """\
.fa, .fas, .fa-solid, .fab, .fa-brands {
  display: inline-block; font-style: normal; font-variant: normal; line-height: 1;
  text-rendering: auto; -webkit-font-smoothing: antialiased;
}
.fa, .fas, .fa-solid { font-family: "Font Awesome 6 Free"; font-weight: 900; }
.fab, .fa-brands { font-family: "Font Awesome 6 Brands"; font-weight: 400; }
.fa-lg { font-size: 1.25em; line-height: 0.05em; vertical-align: -0.075em; }
"""


def codes(style: str) -> dict[str, str]:
    """The code point of each icon in Font Awesome's style sheet.

    >>> codes(r'.fa-a:before,.fa-b:before{content:"\\\\f001"}.fa-c{color:red}')
    {'a': 'f001', 'b': 'f001'}
    """
    found = {}
    for names, code in re.findall(
        r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}', style
    ):
        found.update(dict.fromkeys(ICON.findall(names + "{"), code))
    return found


def write_icons(app: Sphinx, exception: Exception | None) -> None:
    """Write the icons that are used, and remove those of the theme."""
    if exception or app.builder.name != "html":
        return
    static = Path(app.outdir) / "_static"
    vendor = static / "vendor" / "fontawesome"
    if not vendor.exists():  # an incremental build copied nothing
        return
    (source,) = vendor.iterdir()
    known = codes((source / "css" / "all.min.css").read_text())
    pages = [page.read_text() for page in Path(app.outdir).rglob("*.html")]
    named = {name for page in pages for name in re.findall(r"\bfa-([a-z0-9-]+)", page)}
    used = {name: known[name] for name in sorted(named & set(known))}
    theme = "".join(style.read_text() for style in (static / "styles").glob("*.css"))
    # what the theme's own styles draw: private characters, written out or escaped
    private = set(re.findall("[\ue000-\uf8ff]", theme))
    private |= {chr(int(code, 16)) for code in re.findall(r'"\\(f[0-9a-f]{3})"', theme)}
    characters = private | {chr(int(code, 16)) for code in used.values()}

    folder = static / "icons"
    folder.mkdir(exist_ok=True)
    faces, drawn = [], set()
    for name, (file, families, weight) in FAMILIES.items():
        options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True)
        font = subset.load_font(str(source / "webfonts" / file), options)
        drawn |= characters & set(map(chr, font.getBestCmap()))
        cut = subset.Subsetter(options)
        cut.populate(text="".join(characters))
        cut.subset(font)
        subset.save_font(font, str(folder / f"{name}.woff"), options)
        faces += [
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-display: block;'
            f' src: url("{name}.woff") format("woff"); }}\n'
            for family in families
        ]
    if missing := characters - drawn:
        raise ValueError(f"icons: in no font: {sorted(map(hex, map(ord, missing)))}")
    # the empty second text is what a screen reader says of the icon
    glyphs = [
        f'.fa-{name}::before {{ content: "\\{code}"; content: "\\{code}" / ""; }}\n'
        for name, code in used.items()
    ]
    shutil.copy(source / "LICENSE.txt", folder / "LICENSE.txt")
    (folder / "icons.css").write_text(
        "/* Icons of Font Awesome Free 6 by Fonticons; see LICENSE.txt. */\n"
        + "".join(faces) + RULES + "".join(glyphs)
    )  # fmt: skip
    shutil.rmtree(vendor)


def without_colours(styles: str, pages: list[str]) -> str:
    """Styles without the colours of terminals that no page has.

    >>> styles = "p { a: b }\\n\\ndiv.highlight .-Color[class*=-C75] {\\n  color: red\\n}\\n"
    >>> without_colours(styles, ["<p>plain</p>"])
    'p { a: b }\\n\\n'
    >>> without_colours(styles, ['<span class="-Color -C75">']) == styles
    True
    """
    if any(re.search(r'class="[^"]*-Color', page) for page in pages):
        return styles
    return re.sub(r"div\.highlight \.-Color[^{}]*\{[^{}]*\}\n*", "", styles)


def write_colours(app: Sphinx, exception: Exception | None) -> None:
    """Take the colours of terminals out of the styles of MyST-NB."""
    if exception or app.builder.name != "html":
        return
    pages = [page.read_text(encoding="utf-8") for page in Path(app.outdir).rglob("*.html")]
    for file in (Path(app.outdir) / "_static").glob("mystnb.*.css"):
        styles = file.read_text(encoding="utf-8")
        file.write_text(without_colours(styles, pages), encoding="utf-8")


def drop_unused(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Leave out styles and scripts of sphinx-design and Thebe, which no page uses, and the style
    that sphinxcontrib-katex adds to KaTeX's own."""
    if re.search(r'class="[^"]*\bsd-(?!none)', context.get("body", "")):
        raise ValueError(f"{pagename}: sphinx-design is in use, and its styles are left out")
    for kind in ("css_files", "script_files"):
        context[kind] = [
            file
            for file in context[kind]
            if not re.search(r"sphinx-design|design-tabs|thebe|katex-math", str(getattr(file, "filename", "")))
        ]


def configure(app: Sphinx, config) -> None:
    """Let the book's templates come before the theme's, and its search order results."""
    config.templates_path.append(str(TEMPLATES))
    config.html_search_scorer = str(TEMPLATES / "search-scorer.js")


def without_code(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Hide code and boxes of formulas from sphinx-tippy: no preview shows any, and both are long."""
    if doctree:
        context["whole_body"] = finished(context["body"])
        context["body"] = BOXES.sub("", CODE.sub(r"\1\2", context["body"]))


def with_code(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Undo :func:`without_code`."""
    if doctree:
        context["body"] = context.pop("whole_body")


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    app.connect("config-inited", configure)
    app.connect("html-page-context", without_code, priority=449)  # sphinx-tippy: 450
    app.connect("html-page-context", with_code, priority=451)
    app.connect("html-page-context", drop_unused, priority=900)
    app.connect("build-finished", write_icons)
    app.connect("build-finished", write_colours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
