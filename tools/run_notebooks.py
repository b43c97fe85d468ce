"""Execute chapters in fresh kernels and store their outputs in place.

    python tools/run_notebooks.py [--check | --times] book/03-assumptions.ipynb [...]

Only what changed is written. What varies from run to run is kept out of the file (times, the
version of Python, the kernel's name), and where an unchanged cell shows the same digits, points and
pictures as before, on whatever processor, its stored outputs stay. The data of the figures, which
come with their pictures, are written to book/figures, one table for each figure.

With ``--check`` nothing is written: it says whether the same bytes would be. With ``--times`` the
seconds that the pages show are written to book/timings.json, too.
"""

from __future__ import annotations

import argparse
import base64
import copy
import io
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "book")]
os.environ["MFBOOK_FIGURE_DATA"] = "1"  # figures give their data with their pictures
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # this environment's kernel, not one in the home folder

import nbformat  # noqa: E402
import numpy as np  # noqa: E402
from nbclient import NotebookClient  # noqa: E402
from PIL import Image  # noqa: E402

from tools.chapters import (  # noqa: E402
    BOOK,
    DATA_MIME,
    WIDGET_MIME,
    chapters,
    figure,
    figure_name,
    figures,
    is_stored,
    statement_of,
)
from tools.compare_outputs import DATA_URI, difference, table_difference  # noqa: E402

TIMINGS = BOOK / "timings.json"
FIGURES = BOOK / "figures"
CORPUS_RECORD = BOOK / "corpus_hash.txt"

#: The figure that README.md shows: the chapter and the name of the figure there.
README_FIGURE = BOOK / "_static" / "readme-figure.png"
README_SOURCE = (BOOK / "04-static.ipynb", "fig-static-rates")
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
#: Two pictures are the same if fewer than this part of their pixels differ by more than this many
#: levels of 256: rounding moves the shades at edges, a changed line or letter shows more.
FEW, LEVELS = 3e-4, 16


class TimedClient(NotebookClient):
    """A client that remembers how long each cell took."""

    def __init__(self, notebook, **options):
        options |= {"on_cell_start": self._start, "on_cell_executed": self._stop}
        super().__init__(notebook, **options)
        self.seconds: dict[int, float] = {}

    def _start(self, cell, cell_index):
        self._started = time.perf_counter()

    def _stop(self, cell, cell_index, execute_reply):
        self.seconds[cell_index] = time.perf_counter() - self._started


def client_of(notebook, folder: Path) -> TimedClient:
    """A client that executes a notebook in a fresh kernel, in a folder."""
    return TimedClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(folder)}},
    )


def normalise(notebook) -> None:
    """Bring metadata and outputs into the one form in which they are stored."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        for key in ("execution", "ExecuteTime", "collapsed", "trusted", "scrolled"):
            cell.metadata.pop(key, None)
        for output in cell.get("outputs", []):
            output.get("metadata", {}).pop("filenames", None)
            data = output.get("data", {})
            data.pop(WIDGET_MIME, None)
            if "image/png" in data:
                data["image/png"] = light(data["image/png"])


# --- pictures ------------------------------------------------------------------------------------


def opened(picture: str) -> Image.Image:
    """A picture that is stored in base64."""
    return Image.open(io.BytesIO(base64.b64decode(picture)))


def light(picture: str) -> str:
    """A picture in 256 colours, which nobody sees in a chart and which is a third of the size."""
    image = opened(picture)
    if image.mode == "P":
        return picture
    colours = {"method": Image.Quantize.MEDIANCUT, "dither": Image.Dither.NONE}
    file = io.BytesIO()
    image.convert("RGB").quantize(256, **colours).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode() + picture[len(picture.rstrip()) :]


def alike(left: str, right: str) -> bool:
    """Whether two pictures look the same."""
    if left == right:
        return True
    one, other = (np.asarray(opened(p).convert("RGB"), dtype=int) for p in (left, right))
    return one.shape == other.shape and (abs(one - other).max(axis=-1) > LEVELS).mean() < FEW


def pictures(outputs: list[dict]) -> list[str]:
    """The pictures of a cell, in order."""
    shown = [output.get("data", {}) for output in outputs]
    drawn = [data["image/png"] for data in shown if "image/png" in data]
    return drawn + DATA_URI.findall("".join(data.get("text/html", "") for data in shown))


# --- one chapter ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Executed:
    """A chapter after a run: what is stored, with the data of its figures, and seconds by cell."""

    notebook: nbformat.NotebookNode
    text: str
    tables: dict[str, str]
    seconds: dict[int, float]


def take_table(chapter: str, cell) -> dict[str, str]:
    """Take the data of its figure out of the outputs of a cell; by the figure's name, if any."""
    data = [output["data"].pop(DATA_MIME) for output in cell.outputs
            if DATA_MIME in output.get("data", {})]  # fmt: skip
    name = figure_name(chapter, cell)
    if not data or not is_stored(name):
        return {}
    if len(data) > 1:
        raise ValueError(f"cell {cell.id} of {chapter}: one figure with data for each cell")
    return {name: f"# figure: {name}; chapter {chapter}\n{data[0]}"}


def unchanged(stored: list[dict], fresh: list[dict], tables: dict[str, str]) -> bool:
    """Whether a cell shows what is stored: the same digits, points and pictures."""
    if difference(stored, fresh, exact=True) is not None:
        return False
    for name, table in tables.items():
        file = FIGURES / f"{name}.csv"
        if not file.exists() or table_difference(file.read_text(encoding="utf-8"), table):
            return False
    return all(map(alike, pictures(stored), pictures(fresh)))


def execute(path: Path) -> Executed:
    """Execute one chapter."""
    stored = nbformat.read(path, as_version=4)
    before = {cell.get("id"): cell for cell in stored.cells if cell.cell_type == "code"}
    notebook = copy.deepcopy(stored)
    normalise(notebook)
    client = client_of(notebook, path.parent)
    client.execute()
    normalise(notebook)
    tables: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        drawn, old = take_table(path.stem, cell), before.get(cell.id)
        if old and old.source == cell.source and unchanged(old.outputs, cell.outputs, drawn):
            for output in old.outputs:
                if output.output_type == "execute_result":
                    output["execution_count"] = cell.execution_count
            cell.outputs = old.outputs
            drawn = {name: (FIGURES / f"{name}.csv").read_text(encoding="utf-8") for name in drawn}
        tables |= drawn
    nbformat.validate(notebook)
    return Executed(notebook, nbformat.writes(notebook) + "\n", tables, client.seconds)


def times(done: Executed) -> dict:
    """The seconds of a chapter and of its check cells, two digits of them."""

    def entry(seconds: float) -> dict[str, float]:
        return {"seconds": max(float(f"{seconds:.2g}"), 0.01)}

    checks: dict[str, dict] = {}
    for index, cell in enumerate(done.notebook.cells):
        if name := statement_of(cell.metadata):
            checks.setdefault(name, {})[cell.id] = entry(done.seconds[index])
    return {**entry(sum(done.seconds.values())), "checks": checks}


def write_if_changed(path: Path, content: str | bytes) -> bool:
    """Write a file unless it has this content already."""
    content = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == content:
        return False
    path.write_bytes(content)
    return True


def run(path: Path, timed: bool = False) -> None:
    """Execute one chapter in place, and store the data of its figures."""
    done = execute(path)
    changed = write_if_changed(path, done.text)
    FIGURES.mkdir(exist_ok=True)
    for name, table in done.tables.items():
        write_if_changed(FIGURES / f"{name}.csv", table)
    names = {item.name for chapter in chapters() for item in figures(chapter)}
    for file in FIGURES.glob("*.csv"):
        if file.stem not in names:
            file.unlink()
    if timed:
        known = json.loads(TIMINGS.read_text()) if TIMINGS.exists() else {}
        known[path.stem] = times(done)
        write_if_changed(TIMINGS, json.dumps(known, indent=1, sort_keys=True) + "\n")
    if path == README_SOURCE[0]:
        write_if_changed(README_FIGURE, base64.b64decode(figure(*README_SOURCE)))
    total = sum(done.seconds.values())
    print(f"{path.name}: {total:.1f} s, {'stored' if changed else 'unchanged'}", flush=True)


def check(path: Path) -> list[str]:
    """Execute one chapter and name the files that would change."""
    done = execute(path)
    files = {path: done.text}
    files |= {FIGURES / f"{name}.csv": table for name, table in done.tables.items()}
    differ = [
        file.name for file, text in files.items()
        if not file.exists() or file.read_bytes() != text.encode()
    ]  # fmt: skip
    state = f"differs in {', '.join(differ)}" if differ else f"{len(files)} files, the same bytes"
    print(f"{path.name}: {state}", flush=True)
    return differ


def record_corpus(executed: list[Path]) -> None:
    """Note which text the outputs of cells tagged ``corpus`` were computed from."""
    users = {
        path for path in chapters() for cell in nbformat.read(path, as_version=4).cells
        if "corpus" in cell.metadata.get("tags", [])
    }  # fmt: skip
    if not users & set(executed):
        return
    from companion.tasks import corpus_hash

    here, left = corpus_hash(), sorted(path.name for path in users - set(executed))
    if left and CORPUS_RECORD.exists() and CORPUS_RECORD.read_text().strip() != here:
        sys.exit(f"the text corpus has changed: run {', '.join(left)} as well")
    write_if_changed(CORPUS_RECORD, here + "\n")


def main(arguments: list[str] | None = None) -> None:
    """Run or check the named chapters."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing: same bytes?")
    parser.add_argument("--times", action="store_true", help="write timings.json, too")
    given = parser.parse_args(arguments)
    paths = [path.resolve() for path in given.chapters]
    if missing := [str(path) for path in paths if not path.is_file()]:
        sys.exit(f"no such chapter: {', '.join(missing)}")
    if given.check:
        if any([check(path) for path in paths]):
            sys.exit("a chapter gives other bytes than the stored ones")
        return
    for path in paths:
        run(path, given.times)
    record_corpus(paths)


if __name__ == "__main__":
    main()
