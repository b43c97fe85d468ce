"""What is measured on, and what the machine can do at best, with one thread."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .timing import seconds

CPUINFO, CACHES = Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpu0/cache")


def describe() -> dict:
    """Processor, caches, memory, libraries and their versions; what is unknown is left out."""
    config = np.show_config(mode="dicts")
    blas, versions = config["Build Dependencies"]["blas"], {"Python": platform.python_version()}
    for name in ("NumPy", "SciPy", "PyTorch", "JAX"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name.lower().removeprefix("py"))
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "caches": caches(),
        "memory": round(memory() / 1e8) * 10**8,  # the kernel keeps a varying rest
        "system": f"{platform.system()} on {platform.machine()}",
        "simd": config["SIMD Extensions"].get("found", []),
        "blas": f"{blas['name']} {blas['version']}",
        "versions": versions,
    }


def processor() -> str:
    """The processor's name; on Linux the platform module does not know it."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def caches() -> dict[str, int]:
    """Bytes of the first core's data caches by level."""
    found = {}
    for index in sorted(CACHES.glob("index*")):
        level, kind, size = ((index / f).read_text().strip() for f in ("level", "type", "size"))
        if kind != "Instruction" and size.endswith("K"):
            found[f"L{level}"] = 1024 * int(size[:-1])
    return found


def memory() -> int:
    """Bytes of memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def limits(n: int = 2048, size: int | None = None, inside: int = 2**15, rounds: int = 5) -> dict:
    """Rates that the machine reaches with one thread, the best of several rounds each.

    ``flops`` are those of a product of n x n matrices. ``copy``, ``add`` and ``triad`` are bytes
    read and written in a second, in arrays of ``size`` bytes, by default four times all caches; the
    triad a + s b is two passes in NumPy. ``exp``, ``product`` and ``complex product`` are numbers
    in a second, of ``inside`` numbers that stay in cache.
    """
    size = size or min(max(4 * sum(caches().values()), 2**28), memory() // 16)
    rng, count = np.random.default_rng(0), size // 8
    a, b = rng.normal(size=(2, n, n))
    x, y, z = (np.full(count, value) for value in (1.0, 2.0, 0.0))  # every page is touched
    u, v = rng.uniform(-20, 0, size=inside), np.ones(inside)
    p = np.exp(1j * u[::2])
    c, w, q = np.empty_like(a), np.empty_like(u), np.empty_like(p)

    def triad():
        np.multiply(y, 3.0, out=z)
        np.add(x, z, out=z)

    work = {
        "flops": (2 * n**3, lambda: np.matmul(a, b, out=c)),
        "copy": (16 * count, lambda: np.copyto(z, x)),
        "add": (24 * count, lambda: np.add(x, y, out=z)),
        "triad": (40 * count, triad),
        "exp": (inside, lambda: np.exp(u, out=w)),
        "product": (inside, lambda: np.multiply(u, v, out=w)),
        "complex product": (len(p), lambda: np.multiply(p, p, out=q)),
    }
    times = {
        name: [seconds(run, 0.02) for _ in range(rounds + 1)] for name, (_, run) in work.items()
    }
    return {name: amount / min(times[name][1:]) for name, (amount, _) in work.items()}
