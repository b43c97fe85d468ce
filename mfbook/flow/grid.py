"""Grids of time: validation, and which step a time is."""

from __future__ import annotations

import numpy as np

from mfbook import _validate as validate


def time_grid(times) -> np.ndarray:
    """Strictly increasing finite times, the first at least 0."""
    t = validate.array(times, "times", ("n",)).astype(float)
    if t[0] < 0:
        raise ValueError(f"times: expected times >= 0, got {t[0]}")
    if (np.diff(t) <= 0).any():
        i = int(np.flatnonzero(np.diff(t) <= 0)[0])
        raise ValueError(f"times: expected increasing times, got {t[i]} before {t[i + 1]}")
    return t


def step_numbers(times, step: float, name: str) -> np.ndarray:
    """How many steps lead to each time; every time has to be a multiple of the step."""
    t = time_grid(times)
    with np.errstate(over="ignore"):
        n = np.rint(t / step)
    if n[-1] > 2**53:
        raise ValueError(f"{name}: expected at most 2^53 steps to time {t[-1]}, got {n[-1]:g}")
    off = np.abs(n * step - t)
    if (off > 1e-9 * np.maximum(t, step)).any():
        i = int(off.argmax())
        raise ValueError(f"times: expected multiples of {name} = {step}, got {t[i]}")
    if (np.diff(n) == 0).any():
        raise ValueError(f"times: expected at least one step {name} = {step} between two times")
    return n.astype(np.int64)
