"""Execute chapters with other parameters: no cell may fail but a check that says why.

Each chapter begins with a cell of parameters (tag ``parameters``), which a reader may change. Its
metadata hold at least three settings to try, ``"mfbook": {"settings": [{"heads": 8}, ...]}``. With
each of them the chapter is executed to its end in a fresh kernel. What it prints may be anything; a
check may fail, if it names its statement and its rows; any other error is a fault of the chapter,
which then holds a number in two places. The notebooks are not changed.

    python tools/vary.py book/03-assumptions.ipynb [...]      all settings of these chapters
    python tools/vary.py book/03-assumptions.ipynb --set "heads=8, seed=3"
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # this environment's kernel, not one in the home folder

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402

from tools.chapters import chapters, read, statement_of, text  # noqa: E402

TAG = "parameters"


@dataclass(frozen=True)
class Parameters:
    """The cell of a chapter that a reader may change: its names, and settings to try."""

    cell_id: str
    values: dict[str, object]
    settings: tuple[dict[str, object], ...]


@dataclass(frozen=True)
class Failure:
    """A cell that raised: its id, the statement that it checks if it does, and the last line."""

    cell_id: str
    statement: str | None
    message: str

    @property
    def told(self) -> bool:
        """Whether it is a check that names its statement and the rows that fail."""
        return self.statement is not None and self.message.startswith(
            f"AssertionError: {self.statement}: "
        )


def parameters(path: Path) -> Parameters | None:
    """The parameters of a chapter, or ``None`` where no cell has the tag.

    Raises
    ------
    ValueError
        If two cells have the tag, or the cell does more than give names to plain values.
    """
    cells = [c for c in read(path)["cells"] if TAG in c["metadata"].get("tags", [])]
    if not cells:
        return None
    if len(cells) > 1:
        raise ValueError(f"{path.name}: two cells of parameters")
    (cell,) = cells
    try:
        values = {
            line.targets[0].id: ast.literal_eval(line.value)  # type: ignore[attr-defined]
            for line in ast.parse(text(cell["source"])).body
        }
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{path.name}: parameters: expected lines name = value") from error
    settings = cell["metadata"].get("mfbook", {}).get("settings", [])
    return Parameters(cell["id"], values, tuple(settings))


def run(path: Path, setting: dict[str, object]) -> list[Failure]:
    """The cells that fail when a chapter is executed with these parameters.

    Raises
    ------
    ValueError
        If the chapter has no such parameter.
    """
    found = parameters(path)
    if found is None or not set(setting) <= set(found.values):
        raise ValueError(f"{path.name}: no parameters {sorted(setting)}")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.id == found.cell_id:
            cell.source += "".join(f"\n{name} = {value!r}" for name, value in setting.items())
    NotebookClient(
        notebook, kernel_name="python3", timeout=600, allow_errors=True, store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()  # fmt: skip
    return [
        Failure(cell.id, statement_of(cell.metadata), f"{output.ename}: {output.evalue}")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]


def main(arguments: list[str] | None = None) -> int:
    """Execute chapters with other parameters; 1 if a cell fails that is not a check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", type=Path)
    parser.add_argument("--set", help="one setting, as in Python: heads=8, seed=3")
    given = parser.parse_args(arguments)
    faults = 0
    for path in given.chapters or chapters():
        found = parameters(path)
        settings = found.settings if found else ()
        if given.set:
            call = ast.parse(f"dict({given.set})", mode="eval").body
            settings = ({k.arg: ast.literal_eval(k.value) for k in call.keywords},)  # type: ignore
        for setting in settings:
            shown = ", ".join(f"{name} = {value!r}" for name, value in setting.items())
            failures = run(path, setting)
            told = sum(failure.told for failure in failures)
            faults += len(failures) - told
            print(f"{path.stem}, {shown}: {told} checks fail and say why, "
                  f"{len(failures) - told} other errors", flush=True)  # fmt: skip
            for failure in failures:
                print(f"    {'check' if failure.told else 'ERROR'} {failure.cell_id}: "
                      f"{failure.message[:300]}", flush=True)  # fmt: skip
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
