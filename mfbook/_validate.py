"""Checks of arguments: every message names the argument, what was expected and what came."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

#: A source of randomness: a generator, or the seed of one.
Seed = np.random.Generator | int
#: How far weights may be from summing to one (accumulated rounding, not carelessness).
SUM_TOLERANCE = 1e-9
#: Entries beyond this have products of four that are not finite numbers.
LARGEST = 1e75


def array(
    value, name: str, shape: tuple, *, allow_complex: bool = False, largest: float = math.inf
) -> np.ndarray:
    """``value`` as a finite array of float64, or of complex128 if complex numbers are allowed.

    ``shape`` mixes integers (required sizes), strings (any size) and at most one ``...``.
    ``largest`` is for functions that multiply entries: the largest size of one.
    """
    a = plain(value, name)
    if a.dtype.kind not in "biufc" or (a.dtype.kind == "c" and not allow_complex):
        kind = "real or complex" if allow_complex else "real"
        raise TypeError(f"{name}: expected {kind} numbers, got dtype {a.dtype}")
    if not _fits(a.shape, shape):
        wanted = str(tuple(shape)).replace("'", "").replace("Ellipsis", "...")
        raise ValueError(f"{name}: expected shape {wanted}, got {a.shape}")
    if a.size == 0:
        raise ValueError(f"{name}: expected at least one entry, got shape {a.shape}")
    with np.errstate(over="ignore"):  # numbers that float64 cannot hold are refused below
        a = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64, copy=False)
    if within(a, largest):
        return a
    if not np.isfinite(a).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        raise ValueError(f"{name}: expected finite numbers, got {a[where]} at index {where}")
    raise ValueError(f"{name}: expected numbers up to {largest:g} in size, got {size(a):g}")


def _fits(found: tuple[int, ...], shape: tuple) -> bool:
    if ... in shape:
        at, free = shape.index(...), len(found) - len(shape) + 1
        shape = (*shape[:at], *["any"] * free, *shape[at + 1 :])
    return len(found) == len(shape) and all(
        n == s or isinstance(s, str) for n, s in zip(found, shape, strict=True)
    )


def within(a, largest: float) -> bool:
    """Whether all entries are finite, and at most ``largest`` in size."""
    # The sum of squares bounds them all, in a fraction of the time of two extremes. Some kernels of
    # BLAS end the process where numbers are not aligned, and vdot does not look.
    if a.flags.aligned and float(np.vdot(a, a).real) <= min(largest, LARGEST) ** 2:
        return True
    return size(a) <= min(largest, float(np.finfo(a.dtype).max))  # infinity is not finite


def size(a) -> float:
    """Largest absolute value of a real or imaginary part; NaN if there is one."""
    return float(np.maximum(np.abs(a.real).max(), np.abs(a.imag).max()))


def plain(value, name: str) -> np.ndarray:
    """``value`` as an array of whatever it holds, without a mask."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected a plain array, got a masked array")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected a rectangular array of numbers ({error})") from None


def probabilities(value, name: str, shape: tuple) -> np.ndarray:
    """An array whose last axis holds probability vectors."""
    p, single = array(value, name, shape), plain(value, name).dtype == np.float32
    total = p.sum(axis=-1)
    tolerance = 1e-6 * math.sqrt(p.shape[-1]) if single else SUM_TOLERANCE
    for what, wrong, got in (
        ("no negative entry, got", p < 0, p),
        ("to sum to 1, got sum", np.abs(total - 1) > tolerance, total),
    ):
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            place = f" at index {where}" if where else ""
            raise ValueError(f"{name}: expected {what} {got[where]:.12g}{place}")
    return p / total[..., None] if single else p


def real(value, name: str) -> float:
    """A real number, or NaN or infinity, as a float."""
    # a scalar array is a number too; strings, booleans and durations (integers to Python) are not
    number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not isinstance(number, numbers.Real) or isinstance(number, (bool, np.timedelta64)):
        raise TypeError(f"{name}: expected a real number, got {value!r}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def finite(value, name: str) -> float:
    """A finite number as a float."""
    if not math.isfinite(x := real(value, name)):
        raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return x


def positive(value, name: str, *, allow_zero: bool = False, largest: float = math.inf) -> float:
    """A finite positive number, at most ``largest``, as a float."""
    x = real(value, name)
    if not math.isfinite(x) or x < 0 or (x == 0 and not allow_zero):
        sign = ">=" if allow_zero else ">"
        raise ValueError(f"{name}: expected a finite number {sign} 0, got {value!r}")
    if x > largest:
        raise ValueError(f"{name}: expected at most {largest:g}, got {x:g}")
    return x


def scale(value, name: str) -> float:
    """A positive number whose square and its inverse are normal numbers."""
    x = positive(value, name, largest=LARGEST)
    if x < 1 / LARGEST:
        raise ValueError(f"{name}: expected at least {1 / LARGEST:g}, got {x:g}")
    return x


def count(value, name: str, least: int = 1, most: int = 2**63 - 1) -> int:
    """An integer that is at least ``least`` and fits 64 bits."""
    try:
        n = operator.index(value)
    except TypeError:
        n = None
    if n is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    if n < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {n}")
    if n > most:
        raise ValueError(f"{name}: expected an integer <= {most}, got {n}")
    return n


def _expect(holds: bool, value, name: str, expected: str):
    if not holds:
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    return value


def flag(value, name: str) -> bool:
    """A truth value; nothing else is read as one."""
    return bool(_expect(isinstance(value, (bool, np.bool_)), value, name, "True or False"))


def function(value, name: str):
    """``value`` if it can be called."""
    return _expect(callable(value), value, name, "a callable")


def functional(value, name: str = "F", methods: tuple[str, ...] = ("at",)):
    """``value`` if it is a functional with a space and these methods."""
    wanted = " and ".join([*(f"{m}(...)" for m in methods), "space"])
    holds = has(value, methods) and hasattr(value, "space")
    return _expect(holds, value, name, f"a functional with {wanted}")


def space(value, name: str = "space"):
    """``value`` if it can project velocities and retract steps."""
    wanted = "a space with tangent and retract"
    return _expect(has(value, ("tangent", "retract")), value, name, wanted)


def has(value, methods: tuple[str, ...]) -> bool:
    """Whether ``value``, not a class, has these methods."""
    return not isinstance(value, type) and all(callable(getattr(value, m, None)) for m in methods)


def generator(value, name: str = "rng") -> np.random.Generator:
    """A Generator, from a Generator or an integer seed; nothing else is accepted."""
    if isinstance(value, np.random.Generator):
        return value
    seed = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    wanted = "a numpy.random.Generator or an integer seed >= 0"
    return np.random.default_rng(int(_expect(seed and value >= 0, value, name, wanted)))


def instance(value, name: str, kind):
    """``value`` if it is an instance of ``kind``, a class or a tuple of them."""
    if not isinstance(value, kind):
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise TypeError(f"{name}: expected {names}, got {type(value).__name__}")
    return value


def options(given, function):
    """Search options, refused if ``function`` has no keyword-only argument of the name."""
    known = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name in given:
        if name not in known:
            listed = ", ".join(known[:-1]) + " and " + known[-1]
            raise TypeError(f"{name}: unknown option; the search of this functional has {listed}")
    return given


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let errors about a measure name the argument that the measure was made from."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not str(error).startswith("mu: "):
            raise
        raise type(error)(name + str(error).removeprefix("mu")) from None


def frozen(a: np.ndarray) -> np.ndarray:
    """A private, read-only, C-contiguous copy."""
    a = np.array(a, order="C", copy=True)
    a.flags.writeable = False
    return a
