"""Checks of arguments: every message names the argument, what was expected and what came."""

from __future__ import annotations

import math
import numbers
import operator

import numpy as np

#: How far weights may be from summing to one (accumulated rounding, not carelessness).
SUM_TOLERANCE = 1e-9


def array(value, name: str, shape: tuple, *, allow_complex: bool = False) -> np.ndarray:
    """Return ``value`` as a finite floating array of the given shape.

    ``shape`` mixes integers (required sizes) and strings (any size, the name is for the message);
    one ``...`` stands for any number of axes.
    Integers become float64; float32 and float64 (and their complex kin, if allowed) are kept.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected a plain array, got a masked array")
    try:
        a = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected a rectangular array of numbers ({error})") from None
    if a.dtype.kind not in "biufc" or (a.dtype.kind == "c" and not allow_complex):
        kind = "real or complex" if allow_complex else "real"
        raise TypeError(f"{name}: expected {kind} numbers, got dtype {a.dtype}")
    parts = ["..." if s is ... else str(s) for s in shape]
    wanted = "(" + ", ".join(parts) + ("," if len(shape) == 1 else "") + ")"
    if ... in shape:
        at, free = shape.index(...), max(a.ndim - len(shape) + 1, 0)
        shape = (*shape[:at], *["any"] * free, *shape[at + 1 :])
    if a.ndim != len(shape) or any(
        isinstance(s, int) and s != n for s, n in zip(shape, a.shape, strict=True)
    ):
        raise ValueError(f"{name}: expected shape {wanted}, got {a.shape}")
    if a.size == 0:
        raise ValueError(f"{name}: expected at least one entry, got shape {a.shape}")
    if a.dtype.char not in "fdFD":
        a = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    if not np.isfinite(a).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        raise ValueError(f"{name}: expected finite numbers, got {a[where]} at index {where}")
    return a


def probabilities(value, name: str, shape: tuple) -> np.ndarray:
    """Return an array whose last axis holds probability vectors (not negative, sum one).

    The result is float64: vectors given in float32 are normalised to the accuracy of float64.
    """
    p = array(value, name, shape)
    if (p < 0).any():
        where = tuple(int(i) for i in np.argwhere(p < 0)[0])
        raise ValueError(f"{name}: expected no negative entry, got {p[where]} at index {where}")
    total = p.sum(axis=-1, dtype=np.float64)
    error = np.abs(total - 1)
    # float32 vectors carry rounding of their own
    if error.max() > max(SUM_TOLERANCE, 4 * p.shape[-1] * float(np.finfo(p.dtype).eps)):
        worst = np.unravel_index(int(error.argmax()), error.shape)
        where = f" at index {tuple(int(i) for i in worst)}" if error.ndim else ""
        raise ValueError(f"{name}: expected to sum to 1, got sum {total[worst]:.12g}{where}")
    return p if p.dtype == np.float64 else p / total[..., None]


def positive(value, name: str, *, allow_zero: bool = False) -> float:
    """Return a finite positive number as a float."""
    # a scalar array is a number too; strings, booleans and complex numbers are not
    number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not isinstance(number, numbers.Real) or isinstance(number, bool):
        raise TypeError(f"{name}: expected a real number, got {value!r}")
    try:
        x = float(number)
    except OverflowError:
        x = math.inf
    if not math.isfinite(x) or x < 0 or (x == 0 and not allow_zero):
        kind = "a finite number >= 0" if allow_zero else "a finite number > 0"
        raise ValueError(f"{name}: expected {kind}, got {value!r}")
    return x


def count(value, name: str, least: int = 1) -> int:
    """Return an integer that is at least ``least``."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None
    if n < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {n}")
    if n > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: expected an integer that fits 64 bits, got {n}")
    return n


def generator(value, name: str = "rng") -> np.random.Generator:
    """Return a Generator, from a Generator or an integer seed; nothing else is accepted."""
    if isinstance(value, np.random.Generator):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return np.random.default_rng(int(value))
    raise TypeError(
        f"{name}: expected a numpy.random.Generator or an integer seed >= 0, got {value!r}"
    )


def instance(value, name: str, kind: type):
    """Return ``value`` if it is an instance of ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected a {kind.__name__}, got {type(value).__name__}")
    return value


def space(value, name: str = "space"):
    """Return ``value`` if it can project velocities and retract steps."""
    if not all(callable(getattr(value, method, None)) for method in ("tangent", "retract")):
        raise TypeError(f"{name}: expected a space with tangent and retract, got {value!r}")
    return value


def frozen(a: np.ndarray) -> np.ndarray:
    """Return a private, read-only, C-contiguous copy."""
    a = np.array(a, order="C", copy=True)
    a.flags.writeable = False
    return a
