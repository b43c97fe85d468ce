"""Long work: in blocks, so that it fits into memory or the cache, and with progress bars."""

import sys
from collections.abc import Iterator
from typing import Any


def bar(progress: bool | None, **options: Any):
    """Return a tqdm bar on standard error, or in a notebook the one that notebooks show.

    ``progress`` is True (from the start), False (never) or None: after two seconds, gone when
    done, and only in a terminal or a notebook that somebody runs.
    """
    from tqdm.auto import tqdm  # here: a twentieth of a second, and only computations need it

    if progress is None:
        options |= {"delay": 2.0, "leave": False, "disable": not _watched()}
    else:
        options["disable"] = not progress
    return tqdm(**options)


def _watched() -> bool:
    """Whether output goes to a terminal, or to a notebook with a person at it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:  # programs that run notebooks do not answer questions, people do
        return bool(getattr(kernel, "_allow_stdin", False))
    return sys.stderr is not None and sys.stderr.isatty()


def blocks(total: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size``, at least one, that cover ``range(total)``.

    >>> [(part.start, part.stop) for part in blocks(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    size = max(int(size), 1)
    return (slice(i, min(i + size, total)) for i in range(0, total, size))
