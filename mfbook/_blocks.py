"""Long axes in blocks, so that work fits into memory or the cache."""

from collections.abc import Iterator


def blocks(total: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size``, at least one, that cover ``range(total)``.

    >>> [(part.start, part.stop) for part in blocks(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    size = max(int(size), 1)
    return (slice(i, min(i + size, total)) for i in range(0, total, size))
