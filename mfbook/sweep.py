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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from joblib import Memory, Parallel, delayed
from tqdm.auto import tqdm

from . import _validate as validate

__all__ = ["code_hash", "grid", "sweep"]


def grid(**axes) -> list[dict]:
    """Every combination of the values of several axes, the last axis fastest.

    Examples
    --------
    >>> grid(M=[16, 32], seed=range(2))
    [{'M': 16, 'seed': 0}, {'M': 16, 'seed': 1}, {'M': 32, 'seed': 0}, {'M': 32, 'seed': 1}]
    """
    cells: list[dict] = [{}]
    for name, values in axes.items():
        cells = [{**cell, name: value} for cell in cells for value in values]
    return cells


def sweep(
    function: Callable,
    cells: Sequence[Mapping],
    *,
    cache=None,
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

    Examples
    --------
    >>> sweep(dict, grid(a=[1, 2]), progress=False)
    [{'a': 1}, {'a': 2}]
    """
    if not callable(function):
        raise TypeError(f"function: expected a callable, got {function!r}")
    cells = list(cells)
    if not cells:
        raise ValueError("cells: expected at least one, got none")
    for i, cell in enumerate(cells):
        if not isinstance(cell, Mapping) or not all(isinstance(key, str) for key in cell):
            raise TypeError(f"cells[{i}]: expected keyword arguments, got {cell!r}")
        if not cell:
            raise ValueError(f"cells[{i}]: expected keyword arguments, got {dict(cell)}")
    if n_jobs is not None and n_jobs != -1:
        validate.count(n_jobs, "n_jobs")
    call, known = function, 0
    if cache is not None:
        if not isinstance(cache, (str, os.PathLike)):
            raise TypeError(f"cache: expected a path or None, got {cache!r}")
        call = Memory(cache, verbose=0).cache(function)
        known = sum(call.check_call_in_cache(**cell) for cell in cells)
    name = f"{function.__name__}: {len(cells)} cells"
    if known:
        name += f", {known} of them known"
    results = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(call)(**c) for c in cells)
    return list(tqdm(results, total=len(cells), desc=name, disable=not progress))


def code_hash(*modules: str) -> str:
    """Hash of the code of some modules of this package, without comments and docstrings.

    It says which version of the code computed a stored result: layout and words do not count.

    Parameters
    ----------
    *modules : str
        Names of modules or subpackages of mfbook, for example ``"attention"``.

    Examples
    --------
    >>> code_hash("measure") == code_hash("measure"), len(code_hash("measure"))
    (True, 16)
    """
    root, digest = Path(__file__).resolve().parent, hashlib.sha256()
    for name in modules:
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
