"""Fuzzing: what is done to the arguments of a call, and what the call may answer.

A case (``fuzzed.py``) is a public callable with valid arguments, each of a kind. A change replaces
one argument. *Harmless* changes describe the same value in another way: the answer has to be the
same. *Harmful* ones need not have an answer: it is either a ValueError or TypeError that begins
with the name of an argument, or a result like the valid one: of the same type, without NaN, and
finite unless the docstring says when it is infinite.

Two things are requests, not errors, and left out: counts within 64 bits (2^40 samples take what
they take) and, where ``effort`` is set, extreme numbers that set the length of a computation.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import random
import re
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from mfbook.measure import Measure

#: Seconds that one example may take.
LIMIT = 20
#: Largest difference of two answers to the same question, relative to the largest entry.
SAME = 1e-12
#: Types of which a result may be one or the other.
NUMBERS = (int, float, complex, np.number, np.ndarray, bool, np.bool_)


@dataclass(frozen=True)
class Change:
    """One replacement of an argument.

    A harmless one stands for the valid value itself, or for that which ``plain`` makes.
    """

    name: str
    new: Callable[[], Any]
    harmless: bool = False
    plain: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Argument:
    """A valid argument, made anew for each call, and its changes."""

    value: Callable[[], Any]
    changes: tuple[Change, ...]


class Opaque:
    """An object that is nothing that a function could want."""

    def __repr__(self):
        return "Opaque()"


class Wrapped:
    """Something that only knows how to become an array."""

    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return np.array(self.a, dtype=dtype)


class Subclass(np.ndarray):
    """A subclass of arrays as other packages have them."""


#: What no argument is, except where None or a string is a choice.
NOTHING = {
    "an opaque object": Opaque,
    "a class": lambda: Opaque,
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1.5, 2.5},
    "bytes": lambda: b"abc",
    "an ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
}


def _nothing(value, *, none=False, text=False):
    """Changes to objects of the wrong kind."""
    wrong = dict(NOTHING)
    if not none:
        wrong["None"] = lambda: None
    if not text:
        wrong["a string"] = lambda: "abc"
    return [Change(name, new) for name, new in wrong.items()]


# ------------------------------------------------------------------------------------------ kinds


def _tuple(nested):
    return tuple(map(_tuple, nested)) if isinstance(nested, list) else nested


def _unaligned(a):
    raw = np.empty(a.nbytes + 1, np.uint8)
    out = raw[1:].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def _read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def _matrix(a):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(a)


def _with(a, entry, at=-1):
    a = np.array(a, dtype=np.result_type(a, type(entry)))
    a.flat[at] = entry
    return a


def array(value, *, none=False, effort=False, truth=True) -> Argument:
    """An array_like of numbers; ``none``: None is a choice; ``effort``: see the module.

    ``truth`` says whether truth values count as numbers, as they do in NumPy.
    """
    a = np.asarray(value)
    whole = np.rint(a.real)
    same = {
        "a read-only array": lambda: _read_only(a),
        "an array in Fortran order": lambda: np.array(a, order="F"),
        "a list": a.tolist,
        "a tuple": lambda: _tuple(a.tolist()),
        "a big-endian array": lambda: a.astype(a.dtype.newbyteorder(">")),
        "an array-like object": lambda: Wrapped(a),
        "an array of a subclass": lambda: a.copy().view(Subclass),
        "an unaligned array": lambda: _unaligned(a),
    }
    if a.dtype.kind not in "iu":
        same["an array of long doubles"] = lambda: a.astype(np.longdouble)
    if a.ndim:
        same |= {
            "a list of arrays": lambda: list(a),
            "every second entry": lambda: np.repeat(a, 2, axis=-1)[..., ::2],
            "negative strides": lambda: a[::-1].copy()[::-1],
        }
    if a.ndim == 2:
        same["a matrix"] = lambda: _matrix(a)
        same["a transposed array"] = lambda: a.T.copy().T
    changes = [Change(name, new, True) for name, new in same.items()]
    plain = None if a.dtype.kind in "iu" else whole.copy
    for to in (np.int64, np.int8, ">i4"):
        changes.append(
            Change(f"integers {np.dtype(to)}", lambda to=to: whole.astype(to), True, plain)
        )
    if truth and a.dtype.kind not in "iu":
        ones = (whole != 0).astype(float)
        changes.append(Change("truth values", lambda: whole != 0, True, ones.copy))

    wrong = {
        "complex numbers": lambda: a + 0j,
        "half precision": lambda: a.astype(np.float16),
        "single precision": lambda: a.astype(np.float32),
        "objects": lambda: a.astype(object),
        "strings": lambda: a.astype(str),
        "dates": lambda: whole.astype("datetime64[s]"),
        "durations": lambda: whole.astype("timedelta64[s]"),
        "a structured array": lambda: np.zeros(a.shape, [("x", float)]),
        "a masked array": lambda: np.ma.masked_array(a, np.zeros(a.shape, bool)),
        "a sparse matrix": lambda: scipy.sparse.csr_array(
            a.real.reshape(len(np.atleast_1d(a)), -1)
        ),
        "one more axis": lambda: a[None],
        "one more axis at the end": lambda: a[..., None],
        "nothing": lambda: [],
        "an empty array": lambda: np.zeros((0, *a.shape[1:])),
        "a number": lambda: 1.5,
        "a scalar array": lambda: np.array(1.5),
        "a ragged list": lambda: [[1.0, 2.0], [1.0]],
        "a list with None": lambda: [None, 1.0],
        "a list of huge integers": lambda: [10**400],
        "a generator": lambda: (x for x in (1.0, 2.0)),
        "all zero": lambda: np.zeros(a.shape),
        "all equal": lambda: np.full(a.shape, 0.5),
        "the opposite": lambda: -1 * a,
    }
    for entry in (math.nan, math.inf, -math.inf, 1j * math.nan):
        wrong[f"{entry} at the end"] = lambda x=entry: _with(a, x)
        wrong[f"{entry} at the start"] = lambda x=entry: _with(a, x, 0)
    sizes = (1e-320, 1e-30) if effort else (1e-320, 1e-200, 1e-30, 1e20, 1e150, 1e300)
    for size in sizes:
        wrong[f"times {size:g}"] = lambda s=size: a * s
        wrong[f"an entry of {size:g}"] = lambda s=size: _with(a, s)
        wrong[f"an entry of {-size:g}"] = lambda s=size: _with(a, -s, 0)
    for axis in range(a.ndim):
        wrong[f"one entry less along axis {axis}"] = lambda i=axis: np.delete(a, -1, i)
        wrong[f"one entry more along axis {axis}"] = lambda i=axis: np.concatenate(
            [a, a.take([0], i)], i
        )
        wrong[f"one entry along axis {axis}"] = lambda i=axis: a.take([0], i)
        wrong[f"no entry along axis {axis}"] = lambda i=axis: a.take([], i)
    if a.ndim > 1:
        wrong["axes exchanged"] = lambda: a.swapaxes(0, -1)
        wrong["one axis less"] = lambda: a[0]
        wrong["flat"] = lambda: a.ravel()
    changes += [Change(name, new) for name, new in wrong.items()]
    return Argument(a.copy, (*changes, *_nothing(a, none=none)))


def number(value: float, *, none=False, text=False, effort=False) -> Argument:
    """A real number; ``effort``: extreme ones set the length of a computation."""
    same = {
        "float64": lambda: np.float64(value),
        "a scalar array": lambda: np.array(value),
        "a fraction": lambda: Fraction(value),
        "a long double": lambda: np.longdouble(value),
    }
    if abs(value) < 64 and value * 64 == int(value * 64):  # exact in half precision
        same["float32"] = lambda: np.float32(value)
        same["float16"] = lambda: np.float16(value)
    if value == int(value):
        same["an integer"] = lambda: int(value)
        same["int64"] = lambda: np.int64(value)
    changes = [Change(name, new, True) for name, new in same.items()]
    wrong = [math.nan, math.inf, -math.inf, 0, -0.0, -value, True, np.True_, 1j, value + 0j]
    wrong += [np.float32("nan"), np.float64("inf"), -(10**400), Fraction(-1, 3)]
    wrong += [[value], (value,), np.array([value]), np.array([[value]]), np.array("a")]
    wrong += [Decimal("1.5"), "1.5" if not text else 1.5j, np.datetime64(1, "s")]
    wrong += [np.timedelta64(1, "s"), np.array(None), np.ma.array(value, mask=True)]
    if not effort:
        wrong += [1e300, 1e150, 1e20, 1e-20, 1e-150, 1e-300, 5e-324, 10**400, np.float64(1.7e308)]
        wrong += [value * (1 + 1e-15), value / 2]
    changes += [Change(f"{x!r:.40}", lambda x=x: x) for x in wrong]
    return Argument(lambda: value, (*changes, *_nothing(value, none=none, text=text)))


def count(value: int, *, none=False) -> Argument:
    """An integer."""
    same = {
        "int64": lambda: np.int64(value),
        "uint16": lambda: np.uint16(value),
        "a scalar array": lambda: np.array(value),
    }
    changes = [Change(name, new, True) for name, new in same.items()]
    wrong = [0, -1, value + 1, 2**63, 2**70, -(2**70), float(value), np.float64(value), 0.5]
    wrong += [True, np.True_, 1j, math.nan, math.inf, "2", [value], (value,), np.array([value])]
    wrong += [Fraction(value), Decimal(value), np.array(float(value)), np.timedelta64(1, "s")]
    changes += [Change(f"{x!r:.40}", lambda x=x: x) for x in wrong]
    for exponent in (400, 5000):  # the second is too long to be printed
        changes.append(Change(f"10^{exponent}", lambda e=exponent: 10**e))
        changes.append(Change(f"-10^{exponent}", lambda e=exponent: -(10**e)))
    return Argument(lambda: value, (*changes, *_nothing(value, none=none)))


def rng(seed: int = 0) -> Argument:
    """A Generator or a seed."""
    same = {
        "a generator": lambda: np.random.default_rng(seed),
        "int64": lambda: np.int64(seed),
        "uint8": lambda: np.uint8(seed),
    }
    changes = [Change(name, new, True) for name, new in same.items()]
    wrong = [-1, 1.5, True, np.True_, [1, 2], np.random, np.random.PCG64(0), 2**200, -(2**70)]
    changes += [Change(f"{type(x).__name__} {str(x):.20}", lambda x=x: x) for x in wrong]
    changes.append(Change("a random state", lambda: np.random.RandomState(0)))
    return Argument(lambda: seed, (*changes, *_nothing(seed)))


def measure(mu: Measure, *, none=False, effort=False) -> Argument:
    """A measure, or what looks like one."""
    x, w = mu.atoms, mu.weights
    same = {
        "from lists": lambda: Measure(x.tolist(), w.tolist()),
        "from big-endian arrays": lambda: Measure(x.astype(">f8"), w.astype(">f8")),
        "from strided arrays": lambda: Measure(np.repeat(x, 2, axis=1)[:, ::2], w[::-1][::-1]),
    }
    changes = [Change(name, new, True) for name, new in same.items()]
    first = np.zeros(len(w))
    first[0] = 1
    wrong = {
        "its atoms": lambda: x.copy(),
        "a list of it": lambda: [mu],
        "its class": lambda: Measure,
        "complex atoms": lambda: Measure(x + 0j, w),
        "single precision": lambda: Measure(x.astype(np.float32), w),
        "another dimension": lambda: Measure(np.repeat(x, 2, axis=1), w),
        "one dimension": lambda: Measure(x[:, :1], w),
        "one atom": lambda: Measure(x[:1]),
        "one atom more": lambda: Measure(np.concatenate([x, x[:1]])),
        "equal atoms": lambda: Measure(np.repeat(x[:1], 3, axis=0)),
        "all the weight on one atom": lambda: Measure(x, first),
        "almost all the weight on one atom": lambda: Measure(x, 1e-300 + first),
        "atoms at zero": lambda: Measure(np.zeros_like(x), w),
    }
    sizes = (1e-320, 1e-30) if effort else (1e-320, 1e-200, 1e-30, 2.0, 1e20, 1e150, 1e300)
    for size in sizes:
        wrong[f"atoms times {size:g}"] = lambda s=size: Measure(s * x, w)
        wrong[f"an entry of {size:g}"] = lambda s=size: Measure(_with(x, s), w)
    changes += [Change(name, new) for name, new in wrong.items()]
    return Argument(lambda: mu, (*changes, *_nothing(mu, none=none)))


def other(value, *wrong, same=(), none=False, text=False) -> Argument:
    """A functional, a shape, a space, a choice; with more wrong ones."""
    changes = [Change(f"as {x!r:.40}", lambda x=x: x, True) for x in same]
    for x in (0, 1.5, 1j, True, np.zeros(2), [value], type(value), *wrong):
        name = f"{type(x).__name__} {x!r:.60}".split(" at 0x")[0]
        changes.append(Change(name, lambda x=x: x))
    return Argument(lambda: value, (*changes, *_nothing(value, none=none, text=text)))


def function(value, *wrong, none=False) -> Argument:
    """A callable; ``wrong`` ones answer what they should not."""

    def wrapped(*arguments, **options):
        return value(*arguments, **options)

    changes = [Change("a function around it", lambda: wrapped, True)]
    answers = (None, "abc", math.nan, [], [[1.0], [1.0, 2.0]], 1j, Opaque(), np.zeros((2, 2, 2, 2)))
    for x in answers:
        changes.append(Change(f"answers {x!r:.30}", lambda x=x: lambda *a, **k: x))
    changes += [Change(f"wrong function {i}", lambda f=f: f) for i, f in enumerate(wrong)]
    plain = (0, 1.5, True, np.zeros(2), [value])
    changes += [Change(f"{x!r:.20}", lambda x=x: x) for x in plain]
    # a class can be called, with whatever result
    rest = [c for c in _nothing(value, none=none) if c.name != "a class"]
    return Argument(lambda: value, (*changes, *rest))


def flag(value: bool) -> Argument:
    """A truth value."""
    changes = [Change("bool_", lambda: np.bool_(value), True)]
    wrong = [not value, 0, 1, 2, "no", [], np.zeros(2), math.nan]
    changes += [Change(f"{x!r:.20}", lambda x=x: x) for x in wrong]
    return Argument(lambda: value, (*changes, *_nothing(value, text=True)))


def sequence(value: list, *wrong, none=False) -> Argument:
    """A list of things, of which one may be wrong."""
    same = [Change("a tuple", lambda: tuple(value), True)]
    bad = [[], *([*value[:-1], x] for x in (None, "abc", 1.5, Opaque(), *wrong))]
    changes = [Change(f"{x!r:.60}".split(" at 0x")[0], lambda x=x: x) for x in bad]
    changes += [Change("a number", lambda: 1.5), Change("one more", lambda: [*value, value[0]])]
    return Argument(lambda: list(value), (*same, *changes, *_nothing(value, none=none)))


def fixed(value) -> Argument:
    """An argument that stays."""
    return Argument(lambda: value, ())


# ------------------------------------------------------------------------------------------ cases


@dataclass(frozen=True, eq=False)
class Case:
    """A callable with valid arguments.

    ``view`` makes data of a result; ``also`` are names that a message may begin with beside those
    of the parameters; ``same`` is the tolerance of harmless changes; ``share`` is the part of the
    usual number of examples; ``axes`` says whether results have a fixed number of axes, ``nan``
    that NaN is answered with NaN.
    """

    call: Callable
    arguments: dict[str, Argument]
    doc: str
    view: Callable = field(default=lambda result: result)
    also: tuple[str, ...] = ()
    same: float = SAME
    share: float = 1.0
    axes: bool = True
    nan: bool = False

    def changes(self) -> list[tuple[str, Change]]:
        """All changes of one argument."""
        return [(name, c) for name, a in self.arguments.items() for c in a.changes]


def documentation(f) -> str:
    """Docstring of a callable, with those of its class and of the package it belongs to."""
    parts = [inspect.getdoc(f) or ""]
    owner = getattr(f, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        parts.append(inspect.getdoc(type(owner)) or "")
    package = ".".join((getattr(f, "__module__", None) or "").split(".")[:2])
    if getattr(sys.modules.get(package), "__path__", None):
        parts.append(sys.modules[package].__doc__ or "")
    return "\n".join(parts)


# ----------------------------------------------------------------------------------------- answers


def leaves(x, path="", depth=0):
    """Arrays, numbers, texts and types that a result is made of, with their places."""
    if isinstance(x, np.ndarray):
        yield path, x
    elif isinstance(x, (str, bytes, bool, np.bool_, type(None))):
        yield path, x
    elif isinstance(x, (int, float, complex, np.number)):
        yield path, np.asarray(x)
    elif isinstance(x, (list, tuple)):
        for i, item in enumerate(x):
            yield from leaves(item, f"{path}[{i}]", depth + 1)
    elif isinstance(x, dict):
        for key, item in x.items():
            yield from leaves(item, f"{path}[{key!r}]", depth + 1)
    elif dataclasses.is_dataclass(x) and depth < 6:
        for f in dataclasses.fields(x):
            if not f.name.startswith("_"):
                yield from leaves(getattr(x, f.name), f"{path}.{f.name}", depth + 1)
    else:
        yield path, type(x)


def kind(leaf, axes=True) -> str:
    """What two results of the same structure have in common."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
        return f"numbers with {leaf.ndim} axes" if axes else "numbers"
    if isinstance(leaf, (bool, np.bool_)):
        return "a truth value" if axes else "numbers"
    return type(leaf).__name__


def different(expected, got, tolerance) -> str | None:
    """Where two results that should be the same are not."""
    a, b = dict(leaves(expected)), dict(leaves(got))
    if type(expected) is not type(got) or list(a) != list(b):
        return f"another structure: {type(got).__name__}, {list(b)[:5]}"
    for path, x in a.items():
        y = b[path]
        if kind(x) != kind(y) or np.shape(x) != np.shape(y):
            return f"{path}: {kind(y)} {np.shape(y)} for {kind(x)} {np.shape(x)}"
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
            if not np.all(x == y):
                return f"{path}: {y!r} for {x!r}"
        else:
            size = np.abs(x[np.isfinite(x)]).max(initial=0)
            if not np.allclose(y, x, rtol=tolerance, atol=tolerance * size, equal_nan=True):
                return f"{path}: {y!r} for {x!r}"
    return None


def unlike(valid, got, case) -> str | None:
    """Why a result is not like that of the valid call."""
    known = dict(leaves(valid))
    whole = all(map(np.all, map(np.isfinite, _floats(known))))
    nan = case.nan or any(np.isnan(x).any() for x in _floats(known))
    doc = f"{case.doc}\n{type(got).__doc__ if dataclasses.is_dataclass(got) else ''}"
    infinite = case.nan or re.search(r"[Ii]nfinit(e|y)|-inf", doc)
    if type(got) is not type(valid) and not (
        isinstance(got, NUMBERS) and isinstance(valid, NUMBERS)
    ):
        return f"a {type(got).__name__} for a {type(valid).__name__}"
    for path, x in leaves(got):
        before = known.get(path, x)
        if before is not None and x is not None and kind(x, case.axes) != kind(before, case.axes):
            return f"{path}: {kind(x)} for {kind(before)}"
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
            if np.isnan(x).any() and not nan:
                return f"{path}: not a number, {x!r}"
            if whole and not np.isfinite(x).all() and not infinite:
                return f"{path}: infinite, {x!r}"
    return None


def _floats(known):
    return [x for x in known.values() if isinstance(x, np.ndarray) and x.dtype.kind in "fc"]


# ------------------------------------------------------------------------------------- one example


class Hang(BaseException):
    """An example took longer than it may; no ``except Exception`` catches it."""


@contextmanager
def within(seconds):
    """Raise where the block takes longer."""

    def stop(*_):
        raise Hang

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def snapshot(x):
    """Everything of a caller's object that a call could change."""
    if isinstance(x, np.ndarray):
        return x.shape, x.strides, x.dtype.str, x.flags.writeable, x.tobytes()
    if isinstance(x, Measure):
        return snapshot(x.atoms), snapshot(x.weights)
    if isinstance(x, (list, tuple)):
        return tuple(map(snapshot, x))
    if isinstance(x, dict):
        return tuple((key, snapshot(item)) for key, item in x.items())
    return id(x)


def surroundings():
    """State of the process that no call may change."""
    legacy = np.random.get_state()
    return np.geterr(), legacy[1].tobytes(), legacy[2:], random.getstate(), np.get_printoptions()


def outcome(case: Case, arguments: dict):
    """Result of a call as data, or the exception it raised; and what went wrong otherwise."""
    before, around = {k: snapshot(x) for k, x in arguments.items()}, surroundings()
    problem, result = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with within(LIMIT):
                result = case.view(case.call(**arguments))
        except Hang:
            problem = f"took longer than {LIMIT} seconds"
        except Exception as error:
            result = error
    for name, x in arguments.items():
        if snapshot(x) != before[name]:
            problem = f"{name} was changed"
    if surroundings() != around:
        problem = "changed the state of the process"
    return result, problem


def refusal(case: Case, error: Exception) -> str | None:
    """Why an exception is not a clear refusal."""
    if type(error) not in (ValueError, TypeError):
        if type(error).__name__ in case.doc and not isinstance(error, Warning):
            return None
        return f"{type(error).__name__}: {error}"
    name = re.match(r"\w*", str(error)).group()
    if name in case.arguments or name in case.also:
        return None
    return f"{type(error).__name__} that names no argument: {error}"


@cache
def valid(case: Case):
    """The result of the valid call."""
    result, wrong = outcome(case, {name: a.value() for name, a in case.arguments.items()})
    if wrong or isinstance(result, Exception):
        raise AssertionError(f"the valid call fails: {wrong or repr(result)}")
    return result


def problem(case: Case, changes: dict[str, Change]) -> str | None:
    """What is wrong with the answer to a call with these changes; None if nothing is."""
    plain = {name: c.plain() for name, c in changes.items() if c.plain is not None}
    arguments = {name: a.value() for name, a in case.arguments.items()}
    expected, wrong = outcome(case, arguments | plain) if plain else (valid(case), None)
    if not wrong:
        arguments = {name: a.value() for name, a in case.arguments.items()}
        got, wrong = outcome(case, arguments | {name: c.new() for name, c in changes.items()})
    if wrong:
        return wrong
    if isinstance(got, Exception) and refusal(case, got):
        return refusal(case, got)
    if not all(c.harmless for c in changes.values()):
        refused = isinstance(got, Exception) or isinstance(expected, Exception)
        return None if refused else unlike(expected, got, case)
    if isinstance(expected, Exception) or isinstance(got, Exception):
        same = type(expected) is type(got)
        return None if same else f"{got!r:.300} for {expected!r:.300}"
    return different(expected, got, case.same)
