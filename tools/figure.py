"""Draw one figure of the book again, with its data, in a fresh kernel.

Only the cells that the figure needs are run: those before it, without the other figures.

    python tools/figure.py fig-static-rates
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nbformat  # noqa: E402

from tools.chapters import (  # noqa: E402
    BOOK,
    DATA_MIME,
    ROOT,
    Figure,
    cells_for,
    chapters,
    figures,
    text,
)
from tools.compare_outputs import table_difference  # noqa: E402
from tools.run_notebooks import TIMINGS, client_of  # noqa: E402

TARGET = ROOT / "_build" / "figures"
PAGE = '<!doctype html>\n<meta charset="utf-8">\n<title>{}</title>\n{}\n'


def find(name: str) -> Figure:
    """The figure of a name.

    Raises
    ------
    ValueError
        If there is none; the message names those that are spelt nearly so.
    """
    known = {item.name: item for path in chapters() for item in figures(path)}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.4) or sorted(known)
    raise ValueError(f"no figure {name!r}; perhaps {', '.join(near)}")


def expected(figure: Figure) -> float | None:
    """The seconds that a figure takes, as far as they were measured."""
    timings = json.loads(TIMINGS.read_text()) if TIMINGS.exists() else {}
    entry = timings.get(figure.chapter, {}).get("figures", {}).get(figure.name, {})
    return entry.get("seconds")


def draw(figure: Figure) -> tuple[dict, float]:
    """Run the cells that a figure needs; what its cell shows, by kind, and the seconds."""
    notebook = nbformat.read(BOOK / f"{figure.chapter}.ipynb", as_version=4)
    notebook.cells = [notebook.cells[i] for i in cells_for(notebook, figure.cell_id)]
    client = client_of(notebook, BOOK)
    client.execute()
    (shown,) = [o["data"] for o in notebook.cells[-1].outputs if DATA_MIME in o.get("data", {})]
    return shown, sum(client.seconds.values())


def main(arguments: list[str]) -> None:
    """Draw the named figure."""
    if len(arguments) != 1 or not arguments[0]:
        sys.exit("say which figure, for example: make figure NAME=fig-static-rates")
    try:
        figure = find(arguments[0])
    except ValueError as error:
        sys.exit(str(error))
    seconds = expected(figure)
    time = "not measured yet" if seconds is None else f"about {seconds:.2g} s"
    print(f"{figure.name}: chapter {figure.chapter}, cell {figure.cell_id}, {time}", flush=True)
    shown, spent = draw(figure)
    TARGET.mkdir(parents=True, exist_ok=True)
    table = TARGET / f"{figure.name}.csv"
    table.write_text(shown[DATA_MIME], encoding="utf-8")
    if figure.kind == "figure":
        picture = table.with_suffix(".png")
        picture.write_bytes(base64.b64decode(shown["image/png"]))
    else:
        picture = table.with_suffix(".html")
        picture.write_text(PAGE.format(figure.name, text(shown["text/html"])), encoding="utf-8")
    for path in (picture, table):
        print(os.path.relpath(path, ROOT))
    if figure.csv is not None:
        found = table_difference(figure.csv.read_text(encoding="utf-8"), shown[DATA_MIME])
        stored = figure.csv.relative_to(ROOT)
        print(f"the data agree with {stored}" if found is None else f"{stored} differs: {found}")
    print(f"{spent:.2g} s")


if __name__ == "__main__":
    main(sys.argv[1:])
