"""Tables in the output of a cell: as text, as HTML, and as data."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from companion.report.digits import number

MIME = "application/vnd.mfbook.check+json"


def grid(header, rows) -> tuple[str, str]:
    """Lay the strings out as text and as an HTML table."""
    widths = [max(len(line[j]) for line in [header, *rows]) for j in range(len(header))]
    text = "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in [header, ["-" * w for w in widths], *rows]
    )
    head = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows
    )
    return text, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"


def show(text: str, markup: str, data: Mapping | None = None) -> None:
    """Display one output in every form at once (text in a terminal, HTML on a page)."""
    from IPython import display, get_ipython

    if get_ipython() is None:
        print(text)
        return
    bundle: dict[str, object] = {"text/plain": text, "text/html": markup}
    display.display(bundle | ({} if data is None else {MIME: dict(data)}), raw=True)


def table(rows: Mapping | Sequence[Mapping], caption: str = "") -> None:
    """Print a small table; all rows have the keys of the first."""
    rows = [rows] if isinstance(rows, Mapping) else list(rows)
    header = list(rows[0])
    text, body = grid([str(key) for key in header], [[number(r[k]) for k in header] for r in rows])
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    text = f"{caption}\n{text}" if caption else text
    show(text, f'<table class="mf-table">{title}{body}</table>')
