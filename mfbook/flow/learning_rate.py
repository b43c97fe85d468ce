r"""Learning-rate profiles :math:`\xi(t)` and their clock :math:`\tau(t)=\int_0^t2\xi`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = ["LearningRate", "constant", "custom", "polynomial_decay", "warmup_cosine"]


@dataclass(frozen=True, eq=False)
class LearningRate:
    r"""A profile :math:`\xi:[0,\infty)\to[0,\infty)` with its clock :math:`\tau(t)=\int_0^t2\xi`.

    - ``profile``: :math:`\xi`, from an array of times to an array, or one number.
    - ``clock``: :math:`\tau` in closed form; where there is none it is computed by quadrature.
    - ``breaks``: Times at which the profile is not smooth, for the quadrature.

    >>> xi = constant(0.5)
    >>> xi(3.0), xi.tau(3.0)
    (0.5, 3.0)
    """

    name: str
    profile: Callable
    clock: Callable | None = None
    breaks: tuple[float, ...] = ()
    _known: dict = field(default_factory=dict, repr=False)

    def __call__(self, t: ArrayLike) -> Any:
        r"""Value :math:`\xi(t)`; raises ValueError where it is negative or not finite."""
        return self._values(self.profile, _times(t), 0.0)

    def tau(self, t: ArrayLike) -> Any:
        r"""Rescaled time :math:`\tau(t)=\int_0^t2\xi`."""
        t = _times(t)
        if self.clock is not None:
            return self._values(self.clock, t, -np.inf)
        flat = [self._quadrature(float(s)) for s in t.ravel()]
        return np.reshape(flat, t.shape) if t.ndim else flat[0]

    def _values(self, f, t, least):
        """What a function of the user says at the times t: finite, at least ``least``."""
        with np.errstate(all="ignore"):
            value = validate.plain(f(t), "xi")
        if value.dtype.kind not in "biuf":
            raise TypeError(f"xi: expected real numbers, got dtype {value.dtype} ({self.name})")
        if value.shape not in ((), t.shape):
            raise ValueError(f"xi: expected shape {t.shape}, got {value.shape} ({self.name})")
        value = np.broadcast_to(value, t.shape).astype(float)
        if (bad := ~(np.isfinite(value) & (value >= least))).any():
            i = tuple(np.argwhere(bad)[0])
            wanted = "finite numbers >= 0" if least == 0 else "a finite clock"
            raise ValueError(f"xi: expected {wanted}, got {value[i]} at time {t[i]} ({self.name})")
        return value if value.ndim else float(value)

    def _quadrature(self, t: float) -> float:
        """Integral from the largest smaller time that is known already."""
        start = max((s for s in self._known if s <= t), default=0.0)
        edges = [start, *(b for b in self.breaks if start < b < t), t]
        options = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 200}
        self._known[t] = self._known.get(start, 0.0) + sum(
            scipy.integrate.quad(lambda s: 2 * self(s), a, b, **options)[0]
            for a, b in itertools.pairwise(edges)
        )
        return self._known[t]


def _times(t) -> np.ndarray:
    t = validate.plain(t, "t")
    if t.dtype.kind not in "iuf":
        raise TypeError(f"t: expected real numbers, got dtype {t.dtype}")
    if not (np.isfinite(t) & (t >= 0)).all():
        raise ValueError(f"t: expected finite times >= 0, got {t}")
    return t.astype(float)


def constant(value: float = 0.5) -> LearningRate:
    r"""Profile :math:`\xi(t)=c>0`; at the default 1/2 rescaled time is time."""
    c = validate.positive(value, "value", largest=validate.LARGEST)
    return LearningRate(f"constant {c:g}", lambda t: np.full_like(t, c), lambda t: 2 * c * t)


def polynomial_decay(start: float, scale: float, power: float) -> LearningRate:
    r"""Profile :math:`\xi(t)=a\,(1+t/s)^{-p}`; its integral diverges iff :math:`p\le1`."""
    a = validate.positive(start, "start", largest=validate.LARGEST)
    s = validate.scale(scale, "scale")
    p = validate.positive(power, "power", allow_zero=True)

    def clock(t):
        log = np.log1p(t / s)
        # (e^{(1-p) log} - 1)/(1-p), which tends to log as p tends to 1
        return 2 * a * s * (log if p == 1 else np.expm1((1 - p) * log) / (1 - p))

    return LearningRate(f"{a:g} (1 + t/{s:g})^-{p:g}", lambda t: a * (1 + t / s) ** -p, clock)


def warmup_cosine(peak: float, warmup: float, end: float, floor: float) -> LearningRate:
    r"""Linear rise to a peak p, half a cosine down to a floor f, constant afterwards.

    :math:`\xi` rises from 0 to p on [0, w], falls to f at e as
    :math:`f+\frac{p-f}2(1+\cos\pi\frac{t-w}{e-w})` and stays there. With floor 0 the clock
    stops and Assumption 3.1 fails.
    """
    p = validate.positive(peak, "peak", largest=validate.LARGEST)
    e = validate.positive(end, "end", largest=validate.LARGEST)
    w = validate.positive(warmup, "warmup", allow_zero=True)
    f = validate.positive(floor, "floor", allow_zero=True)
    if w >= e:
        raise ValueError(f"end: expected a time after the warm-up ({w}), got {e}")
    if f > p:
        raise ValueError(f"floor: expected at most the peak {p}, got {f}")
    mean, half, width = (p + f) / 2, (p - f) / 2, e - w

    def profile(t):
        falling = mean + half * np.cos(np.pi * np.clip((t - w) / width, 0, 1))
        return np.where(t < w, p * t / (w or 1), falling)

    def clock(t):
        rise, s = np.minimum(t, w), np.clip(t - w, 0, width)
        fall = mean * s + half * width / np.pi * np.sin(np.pi * s / width)
        return (p * rise**2 / w if w else 0) + 2 * (fall + f * np.maximum(t - e, 0))

    return LearningRate(f"warm-up {w:g}, cosine {p:g} to {f:g} at {e:g}", profile, clock, (w, e))


def custom(
    function: Callable, *, clock: Callable | None = None, breaks: Sequence[float] = ()
) -> LearningRate:
    r"""Profile of your own, with its clock in closed form, or by quadrature between its breaks."""
    validate.function(function, "function")
    validate.function(function if clock is None else clock, "clock")
    if not np.iterable(breaks):
        raise TypeError(f"breaks: expected a sequence of times, got {breaks!r}")
    breaks = tuple(sorted(validate.positive(b, "breaks", allow_zero=True) for b in breaks))
    return LearningRate("custom", function, clock, breaks)


def as_profile(xi) -> LearningRate:
    """``None`` means rescaled time, a callable becomes a profile."""
    if isinstance(xi, LearningRate):
        return xi
    if xi is not None and not callable(xi):
        raise TypeError(f"xi: expected a LearningRate, a callable or None, got {xi!r}")
    return constant(0.5) if xi is None else custom(xi)
