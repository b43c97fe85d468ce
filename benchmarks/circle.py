"""Particles on the circle: one evaluation of all forces, and whole runs to a stopping rule.

*Usual* is how the second paper's programs do it, written again here: sines and cosines of all
differences of angles. *Direct* is the best we know that visits every pair: one matrix product, one
exponential in place, one more product, in blocks that stay in cache.
"""

from functools import partial

import numpy as np

import mfbook as mf
from mfbook.sphere import Stiff

from .timing import growth, interleaved

#: Largest difference of velocities.
TOLERANCE = 1e-12
#: Rows of pairs that usual code holds at a time, and pairs that direct code does: half a megabyte.
ROWS, BLOCK = 500, 2**16
#: The run ends where no particle is faster; Euler's step.
SLOW, STEP = 1e-4, 0.1


def start(n: int, seed: int = 0) -> np.ndarray:
    """Angles of n uniform particles."""
    return np.random.default_rng(seed).uniform(0, 2 * np.pi, size=n)


def points(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def usual(angles: np.ndarray, beta: float) -> np.ndarray:
    """Angular velocities of ascent, by the differences of all pairs."""
    found = []
    for i in range(0, len(angles), ROWS):
        u = angles[i : i + ROWS, None] - angles
        found.append(-(np.exp(beta * (np.cos(u) - 1)) * np.sin(u)).mean(axis=1))
    return np.concatenate(found)


def direct(x: np.ndarray, beta: float) -> np.ndarray:
    """Velocities of ascent, by matrix products and one exponential of every pair."""
    found, rows = [], max(1, BLOCK // len(x))
    for i in range(0, len(x), rows):
        e = (beta * x[i : i + rows]) @ x.T
        e -= beta
        np.exp(e, out=e)
        found.append(e @ x / len(x))
    return mf.Sphere().tangent(x, np.concatenate(found))


def forces(n: int, beta: float, rounds: int) -> dict:
    """One evaluation of all velocities; the three agree to rounding."""
    angles = start(n)
    x, F = points(angles), mf.SphereEnergy(beta)
    mu = mf.Measure(x)
    ours = F.velocity(x, mu)
    across = np.stack([-x[:, 1], x[:, 0]], axis=1)
    for theirs in (usual(angles, beta)[:, None] * across, direct(x, beta)):
        error = float(np.abs(theirs - ours).max())
        if not error < TOLERANCE:
            raise AssertionError(f"velocities differ by {error:.1e}")
    runs = {
        "mfbook": partial(F.velocity, x, mu),
        "usual": partial(usual, angles, beta),
        "direct": partial(direct, x, beta),
    }
    times = interleaved(runs, rounds)
    return {"title": f"N = {n:,}, β = {beta:g}", "times": times}


def descend(angles: np.ndarray, beta: float, ascent: bool, most: int = 100_000):
    """Euler steps with usual forces until no particle is fast: angles, and how many steps."""
    sign = 1 if ascent else -1
    for count in range(most):
        velocity = sign * usual(angles, beta)
        if np.abs(velocity).max() <= SLOW:
            return angles, count
        angles = angles + STEP * velocity
    raise RuntimeError(f"no rest after {most} steps")


def whole_run(n: int, beta: float, ascent: bool, rounds: int) -> dict:
    """From uniform particles to rest; the energies at the end say whether it is the same."""
    angles, F = start(n), mf.SphereEnergy(beta)
    mu = mf.Measure(points(angles))
    ours, ends = partial(mf.settle, F, mu, Stiff(tolerance=SLOW), ascent=ascent), []
    settled = ours()  # once, before it is timed: SciPy imports what it needs
    times = interleaved(
        {"mfbook": ours, "usual": lambda: ends.append(descend(angles, beta, ascent))}, rounds
    )
    end, steps = ends[0]
    energies = [float(F(settled.end)), float(F(mf.Measure(points(end))))]
    title = f"{'ascent' if ascent else 'descent'}, N = {n:,}, β = {beta:g}"
    return {"title": title, "steps": [settled.steps, steps], "energies": energies, "times": times}


def large(sizes=(10_000, 1_000_000), beta: float = 10.0) -> dict:
    """Time and memory of this package against the number of particles."""

    def make(n):
        mu = mf.Measure(points(start(n)))
        return partial(mf.SphereEnergy(beta).velocity, mu.atoms, mu)

    return growth(make, sizes, title=f"particles on the circle, β = {beta:g}")
