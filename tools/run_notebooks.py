"""Execute chapters in fresh kernels and store their outputs in place.

A second run of unchanged chapters writes the same bytes. What varies from run to run is kept out
of the file (times, the version of Python, the kernel's name) or kept as it was: an output that
shows the same digits as the stored one is not replaced, and the seconds of a cell in
timings.json are measured again only when its source has changed.

The data of the figures, which come with their pictures, are taken out of the outputs and written
to book/figures, one table for each figure.

    python tools/run_notebooks.py [--check] book/03-assumptions.ipynb [...]

With ``--check`` nothing is written: it says whether the same bytes would be.
"""

from __future__ import annotations

import base64
import copy
import io
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # this environment's kernel, not one in the home folder

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402
from PIL import Image  # noqa: E402

from tools.chapters import (  # noqa: E402
    BOOK,
    DATA_MIME,
    WIDGET_MIME,
    cells_for,
    chapters,
    figure,
    figure_name,
    figures,
    is_stored,
    source_hash,
    statement_of,
)
from tools.compare_outputs import IMAGES, difference  # noqa: E402

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


def normalise(notebook) -> None:
    """Bring metadata, cell ids and outputs into the one form in which they are stored."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken: set[str] = set()
    for i, cell in enumerate(notebook.cells):
        if cell.get("id") in taken or not cell.get("id"):
            cell["id"] = f"cell-{i:03d}"
            while cell["id"] in taken:
                cell["id"] += "x"
        taken.add(cell["id"])
        for key in ("execution", "ExecuteTime", "collapsed", "trusted", "scrolled"):
            cell.metadata.pop(key, None)
        for output in cell.get("outputs", []):
            output.get("metadata", {}).pop("filenames", None)
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = light(data["image/png"])


def light(picture: str) -> str:
    """A picture in 256 colours, which nobody sees in a chart and which is a third of the size."""
    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    if image.mode == "P":
        return picture
    image = image.convert("RGB").quantize(
        256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
    )
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode() + picture[len(picture.rstrip()) :]


def has_image(output: dict) -> bool:
    """Whether an output holds a picture, which is always stored as it was drawn last."""
    data = output.get("data", {})
    return any(kind in data for kind in IMAGES) or ";base64," in str(data.get("text/html", ""))


def keep_unchanged(cell, stored: dict | None) -> None:
    """Put back the stored outputs where the fresh ones show the same digits."""
    if stored is None or stored.get("source") != cell.source:
        return
    if any(map(has_image, cell.outputs)):
        return
    if difference(stored["outputs"], cell.outputs, exact=True) is None:
        for output in stored["outputs"]:
            if output.output_type == "execute_result":
                output["execution_count"] = cell.execution_count
        cell.outputs = stored["outputs"]


def take_data(notebook, chapter: str) -> dict[str, str]:
    """Take data of figures and controls out of the outputs of a chapter; data by figure's name."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_MIME, None)
            data = output.get("data", {}).pop(DATA_MIME, None)
            if data is None:
                continue
            name = figure_name(chapter, cell)
            if not is_stored(name):
                continue
            if name in found:
                raise ValueError(f"cell {cell.id} of {chapter}: one figure with data for each cell")
            found[name] = f"# figure: {name}; chapter {chapter}, cell {cell.id}\n{data}"
    return found


def store_data(tables: dict[str, str]) -> None:
    """Write the data of figures, and remove the data of those that are no more."""
    FIGURES.mkdir(exist_ok=True)
    for name, data in tables.items():
        write_if_changed(FIGURES / f"{name}.csv", data)
    names = {f.name for path in chapters() for f in figures(path) if is_stored(f.name)}
    for path in FIGURES.glob("*.csv"):
        if path.stem not in names:
            path.unlink()


def rounded(seconds: float) -> float:
    """Two significant digits, at least a hundredth."""
    return max(float(f"{seconds:.2g}"), 0.01)


def kept(entry: dict, before: dict | None) -> dict:
    """The earlier entry if it was measured on the same source, else the new one."""
    return before if before and before["source"] == entry["source"] else entry


def times(
    notebook, seconds: dict[int, float], before: dict, drawn: dict[str, str] | None = None
) -> dict:
    """The seconds of a chapter, of its check cells and of its figures.

    Those of unchanged sources are as before. The seconds of a figure are those of all cells that
    tools/figure.py runs; ``drawn`` are the cells of the figures by their names.
    """
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    whole = {"source": source_hash(*code), "seconds": rounded(sum(seconds.values()))}
    checks: dict[str, dict] = {}
    for index, cell in enumerate(notebook.cells):
        name = statement_of(cell.metadata)
        if name is not None:
            entry = {"source": source_hash(cell.source), "seconds": rounded(seconds[index])}
            earlier = before.get("checks", {}).get(name, {}).get(cell.id)
            checks.setdefault(name, {})[cell.id] = kept(entry, earlier)
    whole = kept(whole, before)
    pictures = {}
    for name, cell_id in (drawn or {}).items():
        run = cells_for(notebook, cell_id)
        entry = {
            "source": source_hash(*(notebook.cells[i].source for i in run)),
            "seconds": rounded(sum(seconds[i] for i in run)),
        }
        pictures[name] = kept(entry, before.get("figures", {}).get(name))
    return {**whole, "checks": checks, "figures": pictures}


def write_if_changed(path: Path, text: str) -> bool:
    """Write a file unless it has this content already."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


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


@dataclass(frozen=True)
class Executed:
    """A chapter after a run in a fresh kernel, in the form in which it is stored.

    Attributes
    ----------
    notebook : NotebookNode
    text : str
        What belongs in its file.
    tables : dict of str
        The data of its figures.
    seconds : dict of float
        Of each cell.
    rounded : int
        Cells whose outputs differed from the stored ones by rounding, and were replaced by them.
    """

    notebook: nbformat.NotebookNode
    text: str
    tables: dict[str, str]
    seconds: dict[int, float]
    rounded: int


def execute(path: Path) -> Executed:
    """Execute one chapter."""
    stored = nbformat.read(path, as_version=4)
    before = {cell.get("id"): cell for cell in stored.cells if cell.cell_type == "code"}
    notebook = copy.deepcopy(stored)
    normalise(notebook)
    client = client_of(notebook, path.parent)
    client.execute()
    normalise(notebook)
    tables = take_data(notebook, path.stem)
    changed = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outputs = copy.deepcopy(cell.outputs)
            keep_unchanged(cell, before.get(cell.id))
            changed += outputs != cell.outputs
    nbformat.validate(notebook)
    return Executed(notebook, nbformat.writes(notebook) + "\n", tables, client.seconds, changed)


def run(path: Path) -> None:
    """Execute one chapter in place, store the data of its figures, and enter its times."""
    done = execute(path)
    changed = write_if_changed(path, done.text)
    store_data(done.tables)
    timings = json.loads(TIMINGS.read_text()) if TIMINGS.exists() else {}
    drawn = {item.name: item.cell_id for item in figures(path)}
    before = timings.get(path.stem, {})
    timings[path.stem] = times(done.notebook, done.seconds, before, drawn)
    write_if_changed(TIMINGS, json.dumps(timings, indent=1, sort_keys=True) + "\n")
    total = sum(done.seconds.values())
    print(f"{path.name}: {total:.1f} s, {'stored' if changed else 'unchanged'}", flush=True)


def check(path: Path) -> list[str]:
    """Execute one chapter and name the files that would change."""
    done = execute(path)
    files = {path: done.text}
    files |= {FIGURES / f"{name}.csv": data for name, data in done.tables.items()}
    differ = [
        file.name for file, text in files.items()
        if not file.exists() or file.read_bytes() != text.encode()
    ]  # fmt: skip
    state = f"differs in {', '.join(differ)}" if differ else f"{len(files)} files, the same bytes"
    if done.rounded:
        state += f"; {done.rounded} outputs up to rounding"
    print(f"{path.name}: {state}", flush=True)
    return differ


def uses_corpus(path: Path) -> bool:
    """Whether a chapter has cells whose outputs depend on the text that ships with Python."""
    notebook = nbformat.read(path, as_version=4)
    return any("corpus" in cell.metadata.get("tags", []) for cell in notebook.cells)


def record_corpus(executed: list[Path]) -> None:
    """Note which text the stored outputs were computed from."""
    users = [path for path in chapters() if uses_corpus(path)]
    if not set(users) & {path.resolve() for path in executed}:
        return
    from mfbook.book.tasks import corpus_hash

    here = corpus_hash()
    recorded = CORPUS_RECORD.read_text().strip() if CORPUS_RECORD.exists() else None
    left = [path.name for path in users if path not in {p.resolve() for p in executed}]
    if here != recorded and left and recorded is not None:
        sys.exit(f"the text corpus has changed: run {', '.join(left)} as well")
    write_if_changed(CORPUS_RECORD, here + "\n")


def main(arguments: list[str]) -> None:
    """Run or check the named chapters."""
    only_check = "--check" in arguments
    paths = [Path(argument).resolve() for argument in arguments if argument != "--check"]
    for path in paths:
        if not path.is_file():
            sys.exit(f"no such chapter: {path}")
    if only_check:
        if any([check(path) for path in paths]):
            sys.exit("a chapter gives other bytes than the stored ones")
        return
    for path in paths:
        run(path)
    record_corpus(paths)
    picture = base64.b64decode(figure(*README_SOURCE))
    if not README_FIGURE.exists() or README_FIGURE.read_bytes() != picture:
        README_FIGURE.write_bytes(picture)


if __name__ == "__main__":
    main(sys.argv[1:])
