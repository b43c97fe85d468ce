"""Sweeps: one function over many cells, in parallel, with progress, cached and resumable.

Nothing here is our own: joblib runs and caches. So a reader moves to a cluster by choosing a
backend, without a change of the sweep::

    with joblib.parallel_config(backend="dask"):
        results = sweep(function, cells, cache="cache")
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from joblib import Memory, delayed
from joblib.memory import extract_first_line
from tqdm.auto import tqdm

from mfbook import _validate as validate
from mfbook._jobs import run

__all__ = ["code_hash", "grid", "sweep"]


def grid(**axes: Iterable) -> list[dict]:
    """Every combination of the values of several axes, the last axis fastest.

    Parameters
    ----------
    **axes : sequences
        Values of each axis.

    Returns
    -------
    list of dict
        One dictionary for each combination.

    Examples
    --------
    >>> grid(M=[16, 32], seed=range(2))
    [{'M': 16, 'seed': 0}, {'M': 16, 'seed': 1}, {'M': 32, 'seed': 0}, {'M': 32, 'seed': 1}]
    """
    cells: list[dict] = [{}]
    for name, values in axes.items():
        known = validate.items(values, f"axes: {name}")
        cells = [{**cell, name: value} for cell in cells for value in known]
    return cells


def sweep(
    function: Callable,
    cells: Sequence[Mapping],
    *,
    cache: str | PathLike | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> list:
    """Evaluate ``function(**cell)`` for every cell.

    Parameters
    ----------
    function : callable
        Defined in a module (not in a notebook or a local scope), so that workers can import it
        and the cache recognises it. Randomness comes from a seed in the cell.
    cells : sequence of mappings
        Keyword arguments of each call; :func:`grid` makes them.
    cache : path, optional
        Folder in which every finished cell is kept (``joblib.Memory``). A sweep that was
        interrupted goes on where it stopped. The cache notices a change of the function itself,
        not of what it calls: give a new folder after such a change. On a cluster the folder has
        to be one that all workers see.
    n_jobs : int, optional
        Processes. Default: what ``joblib.parallel_config`` says, else one.
    progress : bool
        Show how many cells are done and how long the rest takes.

    Returns
    -------
    list
        One result for each cell, in their order.

    Raises
    ------
    TypeError, ValueError
        If the function cannot be called or there is no cell.
    Exception
        What a call raises, with a note that names its cell. A lost worker is the backend's
        affair: Dask runs its cells again on others, and raises ``KilledWorker`` for a cell that
        has cost several; on one machine joblib raises ``TerminatedWorkerError``.

    Examples
    --------
    >>> sweep(dict, grid(a=[1, 2]), progress=False)
    [{'a': 1}, {'a': 2}]
    """
    validate.function(function, "function")
    cells = validate.items(cells, "cells")
    if not cells:
        raise ValueError("cells: expected at least one, got none")
    for i, cell in enumerate(cells):
        if not isinstance(cell, Mapping) or not all(isinstance(key, str) for key in cell):
            raise TypeError(f"cells[{i}]: expected keyword arguments, got {cell!r}")
        if not cell:
            raise ValueError(f"cells[{i}]: expected keyword arguments, got {dict(cell)}")
    if n_jobs is not None and not (isinstance(n_jobs, int) and n_jobs == -1):
        validate.count(n_jobs, "n_jobs")
    call, known = function, 0
    if cache is not None:
        if not isinstance(cache, (str, os.PathLike)):
            raise TypeError(f"cache: expected a path or None, got {cache!r}")
        # absolute: a worker may have another working directory
        call = _remembering(function, Path(cache).absolute())
        known = sum(call.check_call_in_cache(**cell) for cell in cells)
    name = f"{function.__name__}: {len(cells)} cells"
    if known:
        name += f", {known} of them known"
    tasks = (delayed(_evaluate)(call, **cell) for cell in cells)
    results = run(tasks, n_jobs=n_jobs, return_as="generator")
    try:
        return list(tqdm(results, total=len(cells), desc=name, disable=not progress))
    except Exception as error:
        if cache is not None:
            error.add_note(f"what is finished is kept in {str(cache)!r}: the same call goes on")
        raise


def _remembering(function, folder: Path):
    """The function with a cache, in a folder that holds results of this code of it only.

    joblib compares the code once in a process, for the first folder. In another one it would serve
    what other code has left there, or take for unknown what this code has.
    """
    # by its name: joblib puts results under a Path elsewhere
    call = Memory(str(folder), verbose=0).cache(function)
    try:
        stored, _ = extract_first_line(call.store_backend.get_cached_func_code([call.func_id]))
    except OSError:
        stored = None
    if stored != call.func_code_info[0]:
        call.clear()
    return call


def _evaluate(function, /, **cell):
    """``function(**cell)``; an error says in which cell."""
    try:
        return function(**cell)
    except Exception as error:
        error.add_note(f"in the cell {cell!r} of a sweep")
        raise


def code_hash(*modules: str) -> str:
    """Hash of the code of some modules of this package, without comments and docstrings.

    It says which version of the code computed a stored result: layout and words do not count.

    Parameters
    ----------
    *modules : str
        Names of modules or subpackages of mfbook, for example ``"attention"``.

    Returns
    -------
    str
        Sixteen hexadecimal digits.

    Examples
    --------
    >>> code_hash("measure") == code_hash("measure"), len(code_hash("measure"))
    (True, 16)
    """
    root, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    for name in modules:
        if not re.fullmatch(r"\w+(/\w+)*", validate.instance(name, "modules", str)):
            raise ValueError(f"modules: expected modules of mfbook, got {name!r}")
        files = sorted((root / name).rglob("*.py")) or [root / f"{name}.py"]
        for file in files:
            if not file.is_file():
                raise ValueError(f"modules: expected modules of mfbook, got {name!r}")
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                    if isinstance(getattr(body[0].value, "value", None), str):
                        body[:1] = [ast.Pass()]
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]
