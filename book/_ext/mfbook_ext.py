"""What this book adds to Sphinx: anchors on check cells, and some repairs.

* A cell with metadata ``mfbook.statement`` gets the HTML id ``check-<statement>`` and is a target
  for ``{ref}``.
* The repository's address is taken from pyproject.toml; without one, no button leads there.
* Repairs. The vendored files must be copied but not loaded one by one, which is what Jupyter Book
  does with a static folder it knows. sphinx-proof and sphinx-exercise give several elements of a
  page the same id, and the former names the kind of a statement whose title names it. docutils and
  numpydoc give lists of references wrong roles, and the corner of a table is no header. Of
  dataclasses autodoc shows what is not there.
"""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reading import address  # noqa: E402

from tools import chapters as book  # noqa: E402


def forget_drafts(app: Sphinx, doctree: nodes.document) -> None:
    """Let all nodes of a page name it as their document.

    Those of an ``eval-rst`` block name the draft that they were read into, which knows Sphinx's
    whole environment, so that it would be stored with every such page: 24 MB instead of one.
    """
    for node in doctree.findall():
        node.document = doctree


def anchor_check_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Give the check cells their HTML ids and register them as reference targets."""
    labels = app.env.domains["std"]
    seen: dict[str, int] = {}
    for cell in doctree.findall(nodes.container):
        name = book.statement_of(cell.get("cell_metadata", {}) or {})
        if name is None:
            continue
        seen[name] = seen.get(name, 0) + 1
        anchor = book.anchor(name, seen[name])
        cell["ids"].append(anchor)
        # a reference looks for its target in small letters
        labels.anonlabels[anchor.lower()] = app.env.docname, anchor
        labels.labels[anchor.lower()] = app.env.docname, anchor, f"check of {name}"


def label_theorem_boxes(app: Sphinx, doctree: nodes.document) -> None:
    """Make the label of an unnumbered theorem box a target of ``[text](#label)`` and ``{ref}``.

    sphinx-proof makes only its numbered boxes referable, and the paper's numbers are in our titles.
    """
    domain = app.env.domains["std"]
    for box in doctree.findall(nodes.Element):
        if "realtype" in box and box["ids"]:
            label = box["ids"][0]
            domain.anonlabels[label] = app.env.docname, label
            domain.labels[label] = app.env.docname, label, box["title"]


#: What is wrong in a page, and what is put in its place.
REPAIRS = {
    r' id="(proof|exercise|solution)-content"': "",
    r'( id="([^"]+)">\s*<p class="admonition-title") id="\2"': r"\1",
    r'<span class="caption-number">(\w+) </span>(?=\1 )': "",
    r"<th(?: [^>]*)?></th>": "<td></td>",
    r' role="(list|doc-biblioentry)"(?=[ >])': "",
}


def repair(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    for wrong, right in REPAIRS.items():
        context["body"] = re.sub(wrong, right, context.get("body", ""))


def write_defaults_readably(app, what, name, obj, options, signature, returns):
    """Show a default that is a class by its name, not by its representation."""
    if signature is not None:
        return re.sub(r"<class '([\w.]+)'>", r"\1", signature), returns


def skip_fields_that_are_classes(app, what, name, obj, skip, options):
    """Leave out a dataclass field whose default is a class; autodoc takes it for a nested class."""
    return True if what == "class" and isinstance(obj, type) else None


def configure(app: Sphinx, config) -> None:
    """Put in the repository's address, if it has one, and the vendored files."""
    options = config.html_theme_options
    options["repository_url"] = address()
    if not address():
        options["use_repository_button"] = options["use_issues_button"] = False
        options["launch_buttons"] = {}
    config.html_static_path.append("_vendor")


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    # A build makes millions of nodes and keeps most of them: looking for garbage as often as Python
    # does takes a fifth of its time. Not at all would be faster still, but takes 2.7 GB.
    gc.set_threshold(100_000, 50, 1000)
    app.connect("config-inited", configure)
    app.connect("doctree-read", anchor_check_cells)
    app.connect("doctree-read", label_theorem_boxes)
    app.connect("doctree-read", forget_drafts, priority=900)
    app.connect("html-page-context", repair, priority=900)
    app.connect("autodoc-process-signature", write_defaults_readably)
    app.connect("autodoc-skip-member", skip_fields_that_are_classes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
