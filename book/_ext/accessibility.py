"""Repairs of what the theme leaves open for keyboards and screen readers.

Names for the arrows of the sidebar, no empty table headers, no wrong roles. The rest is in
``_static/accessibility.js`` (Jupyter Book loads it), which lets the keyboard scroll what is wider
than the page; in ``_templates``, the landmarks; and in ``_static/mfbook.css``, colours and the mark
of the focus.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

ARROW = re.compile(
    r"(?P<link><a [^>]*>(?P<title>.*?)</a>)(?P<open><details[^>]*>)"
    r'<summary><span class="toctree-toggle" role="presentation">'
)


def name_arrows(tree: str) -> str:
    """Give the arrow beside a chapter a name: what it opens.

    >>> name_arrows('<a href="#">API</a><details><summary><span class="toctree-toggle" '
    ...             'role="presentation">')
    '<a href="#">API</a><details><summary aria-label="Pages of API"><span class="toctree-toggle">'
    """

    def repair(match: re.Match) -> str:
        title = re.sub(r"<[^>]*>", "", match["title"])
        return (
            f'{match["link"]}{match["open"]}<summary aria-label="Pages of {title}">'
            '<span class="toctree-toggle">'
        )

    return ARROW.sub(repair, tree)


def repair(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Repair the page's tree of contents and its tables."""
    if "body" in context:
        # the corner of a table is not a header of anything
        body = re.sub(r"<th(?: [^>]*)?></th>", "<td></td>", context["body"])
        # roles that docutils and numpydoc give to lists of references, against the rules for them
        context["body"] = re.sub(r' role="(list|doc-biblioentry)"(?=[ >])', "", body)
    tree = context.get("generate_toctree_html")
    if tree is not None:
        context["generate_toctree_html"] = lambda *args, **options: name_arrows(
            str(tree(*args, **options))
        )


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    app.connect("html-page-context", repair, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
