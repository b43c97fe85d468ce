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
from dataclasses import dataclass
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
#: Sizes of numbers, and those that leave the length of a computation as it is.
SIZES, SHORT = (1e-320, 1e-200, 1e-30, 1e20, 1e150, 1e300), (1e-320, 1e-30)


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
    changes: tuple[Change, ...] = ()


class Opaque:
    """An object that is nothing that a function could want."""


class Wrapped:
    """Something that only knows how to become an array."""

    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return np.array(self.a, dtype=dtype)


class Subclass(np.ndarray):
    """A subclass of arrays as other packages have them."""


def label(x) -> str:
    """Name of a value in a report."""
    try:
        return f"{type(x).__name__} {x!r:.40}".split(" at 0x")[0]
    except ValueError:  # too long to be printed
        return f"{'a positive' if x > 0 else 'a negative'} integer without end"


def as_it_is(*values) -> dict:
    named = {}
    for x in values:
        name = label(x)
        named[name if name not in named else f"{name}, value {len(named)}"] = lambda x=x: x
    return named


def kind(value, same, wrong, *, none=False, text=False, nothing=()) -> Argument:
    """An argument that ``value`` makes, its harmless and harmful changes, objects of no kind.

    ``none`` and ``text`` say that None and strings are choices, ``nothing`` which of the other
    objects may be right.
    """
    wrong |= as_it_is(Opaque(), Opaque, {"a": 1}, {1.5, 2.5}, b"abc", ..., NotImplemented)
    wrong |= as_it_is(*[None] * (not none), *["abc"] * (not text))
    changes = [Change(name, new, True) for name, new in same.items()]
    changes += [Change(name, new) for name, new in wrong.items() if name not in nothing]
    return Argument(value, tuple(changes))


def nested_tuple(x):
    return tuple(map(nested_tuple, x)) if isinstance(x, list) else x


def copied(a, out, writeable=True):
    """The array in other memory."""
    out[...] = a
    out.flags.writeable = writeable
    return out


def replaced(a, entry, at=-1):
    """An array with another last entry, or another first one."""
    a = np.array(a, dtype=np.result_type(a, type(entry)))
    a.flat[at] = entry
    return a


def array(value, *, none=False, effort=False, truth=True) -> Argument:
    """An array_like; ``truth`` says whether truth values count as numbers, as in NumPy."""
    a = np.asarray(value)
    whole, integral = np.rint(a.real), a.dtype.kind in "iu"
    same = {
        "read-only": lambda: copied(a, np.empty_like(a), False),
        "in Fortran order": lambda: np.array(a, order="F"),
        "a list": a.tolist,
        "a tuple": lambda: nested_tuple(a.tolist()),
        "big-endian": lambda: a.astype(a.dtype.newbyteorder(">")),
        "an array-like object": lambda: Wrapped(a),
        "an array of a subclass": lambda: a.copy().view(Subclass),
        "unaligned": lambda: copied(
            a, np.empty(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
        ),
    }
    if not integral:
        same["long doubles"] = lambda: a.astype(np.longdouble)
    if a.ndim:
        same["a list of arrays"] = lambda: list(a)
        same["every second entry"] = lambda: np.repeat(a, 2, axis=-1)[..., ::2]
        same["negative strides"] = lambda: a[::-1].copy()[::-1]
    if a.ndim == 2:
        same["transposed"] = lambda: a.T.copy().T
    plain = None if integral else whole.copy
    rounded = [
        Change(f"integers {to}", lambda to=to: whole.astype(to), True, plain)
        for to in ("i8", "i1", ">i4")
    ]
    if truth and not integral:
        ones = (whole != 0).astype(float)
        rounded.append(Change("truth values", lambda: whole != 0, True, ones.copy))

    wrong = {
        f"of type {to}": lambda to=to: (whole if to[0] in "mM" else a).astype(to)
        for to in ("c16", "f2", "f4", "O", "U", "M8[s]", "m8[s]")
    }
    wrong |= {
        "structured": lambda: np.zeros(a.shape, [("x", float)]),
        "masked": lambda: np.ma.masked_array(a, np.zeros(a.shape, bool)),
        "sparse": lambda: scipy.sparse.csr_array(a.real.reshape(len(np.atleast_1d(a)), -1)),
        "one more axis": lambda: a[None],
        "one more axis at the end": lambda: a[..., None],
        "an empty array": lambda: np.zeros((0, *a.shape[1:])),
        "a generator": lambda: (x for x in (1.0, 2.0)),
        "all zero": lambda: np.zeros(a.shape),
        "all equal": lambda: np.full(a.shape, 0.5),
        "the opposite": lambda: -1 * a,
    }
    wrong |= as_it_is([], 1.5, np.array(1.5), [[1.0, 2.0], [1.0]], [None, 1.0], [10**400])
    for entry in (math.nan, math.inf, -math.inf, 1j * math.nan):
        wrong[f"{entry} at the end"] = lambda x=entry: replaced(a, x)
        wrong[f"{entry} at the start"] = lambda x=entry: replaced(a, x, 0)
    for s in SHORT if effort else SIZES:
        wrong[f"times {s:g}"] = lambda s=s: a * s
        wrong[f"an entry of {s:g}"] = lambda s=s: replaced(a, s)
        wrong[f"an entry of {-s:g}"] = lambda s=s: replaced(a, -s, 0)
    for i in range(a.ndim):
        wrong[f"one less along axis {i}"] = lambda i=i: np.delete(a, -1, i)
        wrong[f"one more along axis {i}"] = lambda i=i: np.concatenate([a, a.take([0], i)], i)
        wrong[f"one along axis {i}"] = lambda i=i: a.take([0], i)
        wrong[f"none along axis {i}"] = lambda i=i: a.take([], i)
    if a.ndim > 1:
        wrong["axes exchanged"] = lambda: a.swapaxes(0, -1)
        wrong |= {"one axis less": lambda: a[0], "flat": a.ravel}
    made = kind(a.copy, same, wrong, none=none)
    return Argument(made.value, (*rounded, *made.changes))


def number(value: float, *, none=False, effort=False) -> Argument:
    """A real number."""
    same = [np.float64(value), np.array(value), Fraction(value), np.longdouble(value)]
    if abs(value) < 64 and value * 64 == int(value * 64):  # exact in half precision
        same += [np.float32(value), np.float16(value)]
    if value == int(value):
        same += [int(value), np.int64(value)]
    wrong = [math.nan, math.inf, -math.inf, 0, -0.0, -value, True, np.True_, 1j, value + 0j]
    wrong += [np.float32("nan"), np.float64("inf"), -(10**400), Fraction(-1, 3), Decimal("1.5")]
    wrong += [[value], (value,), np.array([value]), np.array([[value]]), np.array("a"), "1.5"]
    wrong += [np.datetime64(1, "s"), np.timedelta64(1, "s"), np.array(None)]
    wrong += [np.ma.array(value, mask=True)]
    if not effort:
        wrong += [1e300, 1e150, 1e20, 1e-20, 1e-150, 1e-300, 5e-324, 10**400, np.float64(1.7e308)]
        wrong += [value * (1 + 1e-15), value / 2]
    return kind(lambda: value, as_it_is(*same), as_it_is(*wrong), none=none)


def count(value: int, *, none=False) -> Argument:
    """An integer."""
    wrong = [0, -1, value + 1, 2**63, 2**70, -(2**70), 10**400, -(10**400), 10**5000, -(10**5000)]
    wrong += [float(value), np.float64(value), 0.5, True, np.True_, 1j, math.nan, math.inf, "2"]
    wrong += [[value], (value,), np.array([value]), np.array(float(value)), np.timedelta64(1, "s")]
    wrong += [Fraction(value), Decimal(value)]
    same = as_it_is(np.int64(value), np.uint16(value), np.array(value))
    return kind(lambda: value, same, as_it_is(*wrong), none=none)


def rng(seed: int) -> Argument:
    """A Generator or a seed."""
    same = as_it_is(np.int64(seed), np.uint8(seed))
    same["a generator"] = lambda: np.random.default_rng(seed)
    wrong = as_it_is(-1, 1.5, True, np.True_, [1, 2], np.random, np.random.PCG64(0))
    wrong |= as_it_is(2**200, -(2**70), np.random.RandomState(0))
    return kind(lambda: seed, same, wrong)


def measure(mu: Measure, *, none=False, effort=False) -> Argument:
    """A measure, or what looks like one."""
    x, w, first = mu.atoms, mu.weights, np.eye(mu.size)[0]
    same = {
        "from lists": lambda: Measure(x.tolist(), w.tolist()),
        "from big-endian arrays": lambda: Measure(x.astype(">f8"), w.astype(">f8")),
        "from strided arrays": lambda: Measure(np.repeat(x, 2, axis=1)[:, ::2], w[::-1][::-1]),
    }
    wrong = {
        "its atoms": x.copy,
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
    for s in SHORT if effort else (*SIZES, 2.0):
        wrong[f"atoms times {s:g}"] = lambda s=s: Measure(s * x, w)
        wrong[f"an entry of {s:g}"] = lambda s=s: Measure(replaced(x, s), w)
    return kind(lambda: mu, same, wrong, none=none)


def other(value, *wrong, same=(), none=False, text=False) -> Argument:
    """A functional, a shape, a space, a choice; with more wrong ones."""
    wrong = (0, 1.5, 1j, True, np.zeros(2), [value], type(value), *wrong)
    return kind(lambda: value, as_it_is(*same), as_it_is(*wrong), none=none, text=text)


def function(value, *wrong, none=False) -> Argument:
    """A callable; ``wrong`` ones answer what they should not."""

    def wrapped(*arguments, **options):
        return value(*arguments, **options)

    answers = (None, "abc", math.nan, [], [[1.0], [1.0, 2.0]], 1j, Opaque(), np.zeros((2, 2, 2, 2)))
    bad = as_it_is(0, 1.5, True, np.zeros(2), [value])
    bad |= {f"answers {x!r:.30}": lambda x=x: lambda *a, **k: x for x in answers}
    bad |= {f"wrong function {i}": lambda f=f: f for i, f in enumerate(wrong)}
    same = {"a function around it": lambda: wrapped}
    # a class can be called, with whatever result
    return kind(lambda: value, same, bad, none=none, nothing={label(Opaque)})


def flag(value: bool) -> Argument:
    """A truth value."""
    wrong = as_it_is(not value, 0, 1, 2, "no", [], np.zeros(2), math.nan)
    return kind(lambda: value, as_it_is(np.bool_(value)), wrong, text=True)


def sequence(value, *wrong, none=False) -> Argument:
    """A list of things, of which one may be wrong."""
    bad = [[], *([*value[:-1], x] for x in (None, "abc", 1.5, Opaque(), *wrong))]
    bad += [1.5, [*value, value[0]]]
    return kind(lambda: list(value), as_it_is(tuple(value)), as_it_is(*bad), none=none)


def argument(value, wrong, hint: str, *, none: bool, effort: bool) -> Argument:
    """The argument that a valid value is: what is done to it follows from it and the hint."""
    if isinstance(value, Argument):
        return value
    if hint == "Seed" or isinstance(value, bool):
        return (rng if hint == "Seed" else flag)(value)
    if isinstance(value, int) and hint != "float":
        return count(value, none=none)
    if isinstance(value, (int, float)):
        return number(float(value), none=none, effort=effort)
    if isinstance(value, (np.ndarray, Measure)):
        make = array if isinstance(value, np.ndarray) else measure
        return make(value, none=none, effort=effort)
    if inspect.isfunction(value) or value is dict:
        return function(value, *wrong, none=none)
    return other(value, *wrong, none=none or value is None, text="str" in hint)


@dataclass(frozen=True, eq=False)
class Case:
    """A callable with valid arguments.

    ``view`` makes data of a result and the arguments; ``also`` are names that a message may begin
    with beside those of the parameters; ``same`` is the tolerance of harmless changes; ``share`` is
    the part of the usual number of examples; ``axes`` says whether results have a fixed number of
    axes, ``nan`` that NaN is answered with NaN.
    """

    call: Callable
    arguments: dict[str, Argument]
    doc: str = ""
    view: Callable = lambda result, arguments: result
    also: tuple[str, ...] = ()
    same: float = SAME
    share: float = 1.0
    axes: bool = True
    nan: bool = False

    def changes(self) -> list[tuple[str, Change]]:
        """All changes of one argument."""
        return [(name, c) for name, a in self.arguments.items() for c in a.changes]


def documentation(*functions) -> str:
    """Docstrings of callables, with those of their objects and of the package they belong to."""
    parts = []
    for f in functions:
        package = ".".join((getattr(f, "__module__", None) or "").split(".")[:2])
        owner = getattr(f, "__self__", None)
        parts += [f, type(owner)] if owner is not None else [f]
        parts += [sys.modules[package]] if hasattr(sys.modules.get(package), "__path__") else []
    return "\n".join(inspect.getdoc(part) or "" for part in parts)


def leaves(x, path="", depth=0):
    """Arrays, numbers, texts and types that a result is made of, with their places."""
    if isinstance(x, (np.ndarray, str, bytes, bool, np.bool_, type(None))):
        yield path, x
    elif isinstance(x, NUMBERS):
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


def form(leaf, axes=True) -> str:
    """What two results of the same structure have in common."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
        return f"numbers with {leaf.ndim} axes" if axes else "numbers"
    if isinstance(leaf, (bool, np.bool_)):
        return "a truth value" if axes else "numbers"
    return type(leaf).__name__


def floating(leaf) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"


def different(expected, got, tolerance) -> str | None:
    """Where two results that should be the same are not."""
    a, b = dict(leaves(expected)), dict(leaves(got))
    if type(expected) is not type(got) or list(a) != list(b):
        return f"another structure: {type(got).__name__}, {list(b)[:5]}"
    for path, x in a.items():
        y = b[path]
        if form(x) != form(y) or np.shape(x) != np.shape(y):
            return f"{path}: {form(y)} {np.shape(y)} for {form(x)} {np.shape(x)}"
        if floating(x):
            size = np.abs(x[np.isfinite(x)]).max(initial=0)
            equal = np.allclose(y, x, rtol=tolerance, atol=tolerance * size, equal_nan=True)
        else:
            equal = np.all(x == y)
        if not equal:
            return f"{path}: {y!r} for {x!r}"
    return None


def unlike(valid, got, case) -> str | None:
    """Why a result is not like that of the valid call."""
    if type(got) is not type(valid) and not (
        isinstance(got, NUMBERS) and isinstance(valid, NUMBERS)
    ):
        return f"a {type(got).__name__} for a {type(valid).__name__}"
    known = dict(leaves(valid))
    numbers = [x for x in known.values() if floating(x)]
    whole = all(np.isfinite(x).all() for x in numbers)
    nan = case.nan or any(np.isnan(x).any() for x in numbers)
    doc = f"{case.doc}\n{type(got).__doc__ if dataclasses.is_dataclass(got) else ''}"
    infinite = case.nan or re.search(r"[Ii]nfinit(e|y)|-inf", doc)
    for path, x in leaves(got):
        before = known.get(path, x)
        if before is not None and x is not None and form(x, case.axes) != form(before, case.axes):
            return f"{path}: {form(x)} for {form(before)}"
        if floating(x) and np.isnan(x).any() and not nan:
            return f"{path}: not a number, {x!r}"
        if floating(x) and whole and not np.isfinite(x).all() and not infinite:
            return f"{path}: infinite, {x!r}"
    return None


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


def outcome(case: Case, **changed):
    """Result of a call as data, or the exception it raised; and what went wrong otherwise."""
    arguments = {name: a.value() for name, a in case.arguments.items()} | changed
    before, around = {k: snapshot(x) for k, x in arguments.items()}, surroundings()
    problem, result = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with within(LIMIT):
                result = case.view(case.call(**arguments), arguments)
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
    if re.match(r"\w*", str(error)).group() in {*case.arguments, *case.also}:
        return None
    return f"{type(error).__name__} that names no argument: {error}"


@cache
def valid(case: Case):
    """The result of the valid call."""
    result, wrong = outcome(case)
    if wrong or isinstance(result, Exception):
        raise AssertionError(f"the valid call fails: {wrong or repr(result)}")
    return result


def problem(case: Case, changes: dict[str, Change]) -> str | None:
    """What is wrong with the answer to a call with these changes; None if nothing is."""
    plain = {name: c.plain() for name, c in changes.items() if c.plain is not None}
    expected, wrong = outcome(case, **plain) if plain else (valid(case), None)
    if not wrong:
        got, wrong = outcome(case, **{name: c.new() for name, c in changes.items()})
    if not wrong and isinstance(got, Exception):
        wrong = refusal(case, got)
    if wrong:
        return wrong
    refused = isinstance(got, Exception) or isinstance(expected, Exception)
    if not all(c.harmless for c in changes.values()):
        return None if refused else unlike(expected, got, case)
    if refused:
        same = type(expected) is type(got)
        return None if same else f"{got!r:.300} for {expected!r:.300}"
    return different(expected, got, case.same)
