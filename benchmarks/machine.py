"""What is measured on, and what the machine can do at best, with one thread."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .timing import seconds

PACKAGES = {"NumPy": "numpy", "SciPy": "scipy", "PyTorch": "torch", "JAX": "jax"}
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
#: Bytes of one array that no cache holds, where the caches are unknown.
LARGE = 2**28


def describe() -> dict:
    """Processor, caches, memory, libraries and their versions; what is unknown is left out."""
    config = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "memory": _memory(),
        "system": f"{platform.system()} on {platform.machine()}",
        "simd": config["SIMD Extensions"].get("found", []),
        "blas": f"{blas['name']} {blas['version']}",
        "versions": {"Python": platform.python_version(), **_versions()},
    }


def _processor() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine()


def _caches() -> dict[str, int]:
    """Bytes of the first core's data caches by level."""
    found = {}
    for index in sorted(CACHES.glob("index*")):
        kind, size = ((index / name).read_text().strip() for name in ("type", "size"))
        if kind != "Instruction" and size.endswith("K"):
            found[f"L{(index / 'level').read_text().strip()}"] = 1024 * int(size[:-1])
    return found


def _memory() -> int | None:
    """Bytes of memory, to a tenth of a gigabyte: the kernel keeps a varying rest."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return round(total / 1e8) * 10**8


def _versions() -> dict[str, str]:
    found = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return found


def array_bytes(caches: dict[str, int], memory: int | None) -> int:
    """Size of the arrays for memory bandwidth: four times all caches, a sixteenth of the memory."""
    wanted = max(4 * sum(caches.values()), LARGE)
    return min(wanted, memory // 16) if memory else wanted


def limits(n: int = 2048, size: int | None = None, inside: int = 2**15, rounds: int = 5) -> dict:
    """Rates that the machine reaches with one thread, the best of several rounds each.

    Parameters
    ----------
    n : int
        Size of the square matrices whose product is timed.
    size : int, optional
        Bytes of each of three arrays that are copied, added and combined; by default more than
        the caches hold.
    inside : int
        Numbers in arrays that stay in cache.

    Returns
    -------
    dict
        ``flops``: of the matrix product. ``copy``, ``add``, ``triad``: bytes of memory read and
        written in a second; the triad a + s b is two passes in NumPy. ``exp``, ``product``,
        ``complex product``: numbers in a second, of arrays in cache.
    """
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, n, n))
    c = np.empty_like(a)
    best = {"flops": 2 * n**3 / _least(lambda: np.matmul(a, b, out=c), rounds)}
    count = (size or array_bytes(_caches(), _memory())) // 8
    x, y, z = (np.full(count, value) for value in (1.0, 2.0, 0.0))  # every page is touched

    def triad():
        np.multiply(y, 3.0, out=z)
        np.add(x, z, out=z)

    passes = {
        "copy": (16, lambda: np.copyto(z, x)),
        "add": (24, lambda: np.add(x, y, out=z)),
        "triad": (40, triad),
    }
    best |= {name: moved * count / _least(run, rounds) for name, (moved, run) in passes.items()}
    u, v = rng.uniform(-20, 0, size=inside), np.ones(inside)
    w, p = np.empty(inside), np.exp(1j * u[: inside // 2])
    q = np.empty_like(p)
    short = {
        "exp": (inside, lambda: np.exp(u, out=w)),
        "product": (inside, lambda: np.multiply(u, v, out=w)),
        "complex product": (inside // 2, lambda: np.multiply(p, p, out=q)),
    }
    return best | {name: k / _least(run, rounds, 0.02) for name, (k, run) in short.items()}


def _least(run, rounds: int, least: float = 0.0) -> float:
    """Shortest time of a call; the first is not counted."""
    run()
    return min(seconds(run, least) for _ in range(rounds))
