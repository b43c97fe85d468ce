"""Checks of arguments: every message names the argument, what was expected and what came."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

#: How far weights may be from summing to one (accumulated rounding, not carelessness).
SUM_TOLERANCE = 1e-9
#: Entries beyond this have products of four that are not finite numbers, in float64 and float32.
LARGEST, LARGEST_SINGLE = 1e75, 1e9


def array(
    value, name: str, shape: tuple, *, allow_complex: bool = False, largest: float = math.inf
) -> np.ndarray:
    """Return ``value`` as a finite floating array of the given shape.

    ``shape`` mixes integers (required sizes) and strings (any size, the name is for the message);
    one ``...`` stands for any number of axes.
    Integers become float64; float32 and float64 (and their complex kin, if allowed) are kept.
    ``largest`` is for functions that multiply entries: the largest size of one.
    """
    a = plain(value, name)
    if a.dtype.kind not in "biufc" or (a.dtype.kind == "c" and not allow_complex):
        kind = "real or complex" if allow_complex else "real"
        raise TypeError(f"{name}: expected {kind} numbers, got dtype {a.dtype}")
    if not _fits(a.shape, shape):
        parts = ["..." if s is ... else str(s) for s in shape]
        wanted = "(" + ", ".join(parts) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"{name}: expected shape {wanted}, got {a.shape}")
    if a.size == 0:
        raise ValueError(f"{name}: expected at least one entry, got shape {a.shape}")
    if a.dtype.char not in "fdFD":
        # numbers that float64 cannot hold become infinite here and are refused
        with np.errstate(over="ignore"):
            a = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    elif not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    if within(a, largest):
        return a
    if not np.isfinite(a).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        raise ValueError(f"{name}: expected finite numbers, got {a[where]} at index {where}")
    raise ValueError(f"{name}: expected numbers up to {largest:g} in size, got {size(a):g}")


def _fits(found: tuple[int, ...], shape: tuple) -> bool:
    """Whether an array has a shape as :func:`array` describes it."""
    if ... in shape:
        at, free = shape.index(...), max(len(found) - len(shape) + 1, 0)
        shape = (*shape[:at], *["any"] * free, *shape[at + 1 :])
    if len(found) != len(shape):
        return False
    for n, s in zip(found, shape, strict=True):  # a loop: half of the time of all()
        if n != s and isinstance(s, int):
            return False
    return True


def within(a, largest: float) -> bool:
    """Whether all entries are finite, and at most ``largest`` in size."""
    # The sum of squares bounds them all, in a fraction of the time of two extremes. Some kernels of
    # BLAS end the process where numbers are not aligned, and vdot does not look.
    if a.flags.aligned and float(np.vdot(a, a).real) <= min(largest, LARGEST) ** 2:
        return True
    # infinity is not finite
    return size(a) <= min(largest, float(np.finfo(a.dtype).max))


def size(a) -> float:
    """Largest absolute value of a real or imaginary part; NaN if there is one."""
    parts = (a.real, a.imag) if a.dtype.kind == "c" else (a,)
    sizes = [x for part in parts for x in (float(part.max()), -float(part.min()))]
    return max(sizes) if all(x == x for x in sizes) else math.nan


def plain(value, name: str) -> np.ndarray:
    """Return ``value`` as an array of whatever it holds, without a mask."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected a plain array, got a masked array")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected a rectangular array of numbers ({error})") from None


def indices(value, name: str, size: int) -> np.ndarray:
    """Return an integer array of any shape with entries from 0 to size - 1."""
    a = plain(value, name)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got dtype {a.dtype}")
    if a.size == 0:
        raise ValueError(f"{name}: expected at least one entry, got shape {a.shape}")
    if a.min() < 0 or a.max() >= size:
        raise ValueError(f"{name}: expected 0 to {size - 1}, got {a.min()} to {a.max()}")
    return a


def probabilities(value, name: str, shape: tuple) -> np.ndarray:
    """Return an array whose last axis holds probability vectors (not negative, sum one).

    The result is float64: vectors given in float32 are normalised to the accuracy of float64.
    """
    p = array(value, name, shape)
    if p.min() < 0:
        where = tuple(int(i) for i in np.argwhere(p < 0)[0])
        raise ValueError(f"{name}: expected no negative entry, got {p[where]} at index {where}")
    total = p.sum(axis=-1, dtype=np.float64)
    error = np.abs(total - 1)
    # float32 vectors carry rounding of their own
    if error.max() > max(SUM_TOLERANCE, 4 * p.shape[-1] * float(np.finfo(p.dtype).eps)):
        worst = np.unravel_index(int(error.argmax()), error.shape)
        place = f" at index {tuple(int(i) for i in worst)}" if error.ndim else ""
        raise ValueError(f"{name}: expected to sum to 1, got sum {total[worst]:.12g}{place}")
    return p if p.dtype == np.float64 else p / total[..., None]


def positive(value, name: str, *, allow_zero: bool = False, largest: float = math.inf) -> float:
    """Return a finite positive number, at most ``largest``, as a float."""
    x = real(value, name)
    if not math.isfinite(x) or x < 0 or (x == 0 and not allow_zero):
        kind = "a finite number >= 0" if allow_zero else "a finite number > 0"
        raise ValueError(f"{name}: expected {kind}, got {_shown(value)}")
    if x > largest:
        raise ValueError(f"{name}: expected at most {largest:g}, got {x:g}")
    return x


def real(value, name: str) -> float:
    """Return a real number, or NaN or infinity, as a float."""
    # a scalar array is a number too; strings, booleans and complex numbers are not
    number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    # durations count as integers
    if not isinstance(number, numbers.Real) or isinstance(number, (bool, np.timedelta64)):
        raise TypeError(f"{name}: expected a real number, got {_shown(value)}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def finite(value, name: str) -> float:
    """Return a finite number as a float."""
    x = real(value, name)
    if not math.isfinite(x):
        raise ValueError(f"{name}: expected a finite number, got {_shown(value)}")
    return x


def _shown(value) -> str:
    """Text of a value for a message; integers of thousands of digits have none."""
    try:
        return repr(value)
    except ValueError:
        return f"an integer of {value.bit_length()} bits"


def scale(value, name: str) -> float:
    """Return a positive number whose square and its inverse are normal numbers."""
    x = positive(value, name, largest=LARGEST)
    if x < 1 / LARGEST:
        raise ValueError(f"{name}: expected at least {1 / LARGEST:g}, got {x:g}")
    return x


def index(value, name: str, size: int) -> int:
    """Return an integer from -size to size - 1."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    try:
        i = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None
    if not -size <= i < size:
        raise ValueError(f"{name}: expected an integer from {-size} to {size - 1}, got {_shown(i)}")
    return i


def count(value, name: str, least: int = 1) -> int:
    """Return an integer that is at least ``least``."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None
    if n < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {_shown(n)}")
    if n > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: expected an integer that fits 64 bits, got {_shown(n)}")
    return n


def flag(value, name: str) -> bool:
    """Return a truth value; nothing else is read as one."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def function(value, name: str):
    """Return ``value`` if it can be called."""
    if not callable(value):
        raise TypeError(f"{name}: expected a callable, got {value!r}")
    return value


def functional(value, name: str = "F", methods: tuple[str, ...] = ("at",)):
    """Return ``value`` if it is a functional with a space and these methods."""
    missing = [m for m in methods if not callable(getattr(value, m, None))]
    if isinstance(value, type) or missing or not hasattr(value, "space"):
        wanted = " and ".join([*(f"{m}(...)" for m in methods), "space"])
        raise TypeError(f"{name}: expected a functional with {wanted}, got {value!r}")
    return value


def generator(value, name: str = "rng") -> np.random.Generator:
    """Return a Generator, from a Generator or an integer seed; nothing else is accepted."""
    if isinstance(value, np.random.Generator):
        return value
    seed = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    if seed and value >= 0:
        return np.random.default_rng(int(value))
    raise TypeError(
        f"{name}: expected a numpy.random.Generator or an integer seed >= 0, got {_shown(value)}"
    )


def items(value, name: str) -> list:
    """Return what a sequence holds; a string is not one."""
    if isinstance(value, (str, bytes)) or not np.iterable(value):
        raise TypeError(f"{name}: expected a sequence, got {value!r}")
    return list(value)


def instance(value, name: str, kind):
    """Return ``value`` if it is an instance of ``kind``, a class or a tuple of them."""
    if not isinstance(value, kind):
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise TypeError(f"{name}: expected {names}, got {type(value).__name__}")
    return value


def options(given, function):
    """Refuse a search option that ``function`` does not have; its keyword-only names are all."""
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for name in given:
        if name not in known:
            listed = " and ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
            raise TypeError(f"{name}: unknown option; the search of this functional has {listed}")
    return given


def space(value, name: str = "space"):
    """Return ``value`` if it can project velocities and retract steps."""
    methods = ("tangent", "retract")
    if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
        raise TypeError(f"{name}: expected a space with tangent and retract, got {value!r}")
    return value


@contextmanager
def bounded(name: str) -> Iterator[None]:
    """Let an overflow be an error about the argument whose numbers are too large."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            yield
    except FloatingPointError as error:
        raise ValueError(f"{name}: expected smaller numbers, got an {error}") from None


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let errors about a measure name the argument that the measure was made from."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        if not message.startswith("mu: "):
            raise
        raise type(error)(name + message.removeprefix("mu")) from None


def frozen(a: np.ndarray) -> np.ndarray:
    """Return a private, read-only, C-contiguous copy."""
    a = np.array(a, order="C", copy=True)
    a.flags.writeable = False
    return a
