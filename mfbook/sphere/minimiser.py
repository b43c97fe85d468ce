r"""The minimiser of the descent problem on the circle, with a certificate.

For a positive definite B the energy :math:`E=E_\beta+\frac12\int v` is strictly convex in the
measure, so it has one minimiser, and

.. math:: E(\mu)-\min E\le\int f\,d\mu-\min f,\qquad f=\delta E(\cdot;\mu).

The right side is computed with a proved lower bound of min f over the whole circle
(``mfbook.sphere.search``). In each round

1. an interior-point method finds the best weights on a grid, which may be many where f is flat;
2. neighbours are merged, and Newton steps move positions and weights together;
3. of the merged atoms, before and after Newton, and of the grid, what has the least gap is kept;
   its atoms and all local minima of f, each amid a finer grid, are the next grid.

Where the potential is a trigonometric polynomial (no perceptron, or a linear one), or close to one,
the minimiser can be a density. It is then in closed form, and equally spaced atoms stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.optimise.simplex import simplex_qp
from mfbook.sphere import forces
from mfbook.sphere.clusters import arcs
from mfbook.sphere.energy import SphereEnergy
from mfbook.sphere.on_circle import (
    CircleLandscape,
    CircleVariation,
    least_on_circle,
    local_minima,
    moving,
    unit_vectors,
)

__all__ = ["CircleMinimum", "minimise_on_circle"]

#: Weights up to this are dropped.
NEGLIGIBLE = 1e-13
#: Share of the largest weight of a grid up to which the interior-point method means zero.
LIGHT = 1e-5
#: Most points of a grid.
MOST = 1500
#: Most work of one call of Newton's method, each step counted as the cube of the number of atoms.
EFFORT = 2e8
#: Distances within which atoms are merged, in lengths of the kernel, tried in this order.
MERGING = (0.75, 0.3)
#: Atoms at this distance are one: Newton's method may lead two to the same place, up to rounding.
COINCIDING = 1e-8
#: Rounds after which it ends if in none the gap becomes less than half of the least before.
PATIENCE = 3


@dataclass(frozen=True, eq=False)
class CircleMinimum:
    r"""The minimiser of the energy on the circle, up to a certified gap.

    - ``measure``: Unit vectors in the plane, sorted by angle, all with positive weight.
    - ``gap``: Proved upper bound on :math:`E(\mu)-\min E` (up to the allowance for rounding).
    - ``value``, ``multiplier``: :math:`E(\mu)` and :math:`\int\delta E\,d\mu`; at the minimiser
      the latter is the common value of :math:`\delta E` on the support, and its least value.
    - ``converged``, ``reason``: Whether the gap is within the tolerance; why it is not.
    - ``rounds``: Grids whose weights were optimised; zero for a density in closed form.
    """

    measure: Measure
    gap: float
    value: float
    multiplier: float
    converged: bool
    reason: str
    rounds: int


def minimise_on_circle(
    F: SphereEnergy, *, tolerance: float = 1e-13, maxiter: int = 50
) -> CircleMinimum:
    r"""Minimise :math:`E_\beta+\frac12\int v` over all probability measures on the circle.

    - ``F``: On the circle; B must be positive definite, or there may be several minimisers.
    - ``tolerance``: Gap to stop at, relative to :math:`M=s+\sum_j|\omega_j|(\ell_j+|\sigma(b_j)|)`,
      by which no first variation bends more: s is the norm of B, :math:`\ell_j` the Lipschitz
      constant of :math:`\sigma` on :math:`[b_j-1,b_j+1]`. Rounding limits it to about 1e-14.
    - ``maxiter``: Most rounds.

    Returns the best measure of all rounds, whether or not it converged.

    A linear unit with a large negative weight holds the tokens at its two ends:

    >>> from mfbook.sphere import SphereEnergy
    >>> found = minimise_on_circle(SphereEnergy(5.0, [[1.0, 0.0]], [-4.0], "linear"))
    >>> found.measure.weights.round(6), found.converged, found.gap < 1e-13
    (array([0.5, 0.5]), True, True)
    """
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    parts = CircleVariation(_simplified(_checked(F)))
    goal = tolerance * parts.curvature
    density = _density(parts, goal)
    best = _Trial() if density is None else _judged(parts, density, goal)
    points = min(16 + int(16 / parts.spacing), MOST)
    grid, reach = parts.grid(points)[:-1], 2 * np.pi / points
    rounds, stalled, reason = 0, 0, ""
    while best.gap > goal and not reason:
        rounds += 1
        here = []
        for atoms in _attempts(parts, grid):
            here.append(_judged(parts, atoms, goal))
            if here[-1].gap <= goal:
                break
        found = min(here, key=itemgetter(0, 1))
        stalled = 0 if found.found < best.found / 2 else stalled + 1
        best = min(best, found, key=itemgetter(0, 1))
        grid = _finer(parts, found, reach)
        reach /= 4
        if rounds == maxiter:
            reason = f"maxiter = {maxiter} rounds"
        elif best.found + goal < best.gap < np.inf:
            reason = "the least first variation is not bounded closely enough"
        elif stalled == PATIENCE:
            reason = "no less in three rounds: atoms too close to be told apart, or rounding"
        elif len(grid) > MOST:
            reason = f"the next grid has {len(grid)} points: the kernel is too narrow"
    gap = best.gap if np.isfinite(best.gap) else _judged(parts, (best.theta, best.w), np.inf).gap
    theta, w = _grouped(best.theta, best.w, COINCIDING, 0.0)
    if len(w) == len(best.w):
        theta, w = best.theta, best.w  # not by rounding elsewhere
    order = np.argsort(np.mod(theta, 2 * np.pi))
    mu = Measure(unit_vectors(theta[order]), w[order])
    value, multiplier = (best.twice + parts.offset) / 2, best.mean + parts.offset
    reason = "" if gap <= goal else reason
    return CircleMinimum(mu, gap, value, multiplier, gap <= goal, reason, rounds)


class _Trial(NamedTuple):
    """Atoms and what is known of them; at first nothing."""

    gap: float = np.inf  # proved; infinite where the one found is too large already
    found: float = np.inf
    theta: np.ndarray = np.zeros(0)
    w: np.ndarray = np.zeros(0)
    mean: float = 0.0
    twice: float = 0.0
    minima: np.ndarray = np.zeros(0)


def _judged(parts, atoms, goal):
    """Gap of a measure, and the local minima below the mean of its first variation."""
    theta, w = atoms
    x, t = moving(theta)
    f = CircleLandscape(parts, x, w)
    minima, values = local_minima(f, parts.fine())
    mean = float(w @ f(theta)[0])
    twice = mean + float(w @ parts.potential(x, t)[0])
    gap, angle, least = np.inf, float(minima[0]), float(values[0])
    if mean - least <= goal:
        # the grid may have missed a minimum
        angle, least, lower, _ = least_on_circle(f, angle, least, tolerance=1e-15)
        gap = max(mean - lower, 0.0)
        minima, values = np.append(minima, angle), np.append(values, least)
    return _Trial(gap, mean - least, theta, w, mean, twice, minima[values < mean])


def _checked(F):
    validate.instance(F, "F", SphereEnergy)
    if F.dim not in (None, 2):
        raise ValueError(f"F: expected an energy on the circle (d = 2), got d = {F.dim}")
    least = 1.0 if F.B is None else np.linalg.eigvalsh(F.B)[0]
    if least <= 0:
        wanted = "a positive definite B (E is convex)"
        raise ValueError(f"F: expected {wanted}, got least eigenvalue {least:.3g}")
    return F


def _simplified(F):
    """The same energy with one unit for each direction and bias, none of weight zero."""
    if F.a is None:
        return F
    bias = np.zeros(len(F.a)) if F.bias is None else F.bias
    rows, unit = np.unique(np.column_stack([F.a, bias]), axis=0, return_inverse=True)
    omega = np.bincount(unit.ravel(), F.omega)
    if len(rows) == len(F.a) and omega.all():
        return F  # in its order
    a, omega, bias = rows[omega != 0, :2], omega[omega != 0], rows[omega != 0, 2]
    return replace(F, a=a, omega=omega, bias=bias) if len(a) else SphereEnergy(F.beta, B=F.B)


def _density(parts, goal):
    r"""Atoms for a minimiser that is a density, or None.

    With :math:`\frac12v=\operatorname{Re}\sum_kv_ke^{ik\theta}` and kernel coefficients
    :math:`c_k/\beta`, the first variation of :math:`\rho=\frac1{2\pi}(1+\operatorname{Re}
    \sum_{k\ge1}\rho_ke^{ik\theta})` is constant if :math:`\rho_k=-2\beta v_k/c_k` (here
    :math:`c_k` multiplies :math:`\cos ku`); if :math:`\rho\ge0` this is the minimiser. For a
    linear activation there are two terms. For others the series may be cut where the rest is below
    the gap to stop at. Equally spaced atoms weighted with :math:`\rho` have the same
    Fourier coefficients up to the degree that the kernel resolves.
    """
    if parts.B is not None:
        return None
    points = 1024
    fine = moving(2 * np.pi * np.arange(points) / points)
    v = 2 * np.fft.rfft(parts.potential(*fine)[0]) / points
    tail = np.cumsum(np.abs(v)[::-1])[::-1]
    # rounding of the transform looks like a tail
    short = tail <= max(goal / 8, 1e-14 * parts.scale)
    degree = max(int(np.argmax(short)) - 1, 0)
    c = forces.fourier(parts.beta)
    if not short.any() or degree >= len(c):
        return None
    # rho is real, so it is the value of a polynomial of this degree
    series = np.zeros(points, complex)
    series[1 : degree + 1] = -2 * parts.beta * v[1 : degree + 1] / c[1 : degree + 1]
    least = 1 + points * np.fft.ifft(series).real.min()
    n = len(c) + degree + 4
    theta = 2 * np.pi * np.arange(n) / n
    waves = np.exp(1j * np.outer(theta, np.arange(1, degree + 1)))
    rho = 1 + (waves @ series[1 : degree + 1]).real
    return None if least < 0 or rho.min() <= 0 else (theta, rho / rho.sum())


def _finer(parts, trial, reach):
    """Kinks, and finer grids around the atoms of a measure and the minima it leaves."""
    theta, _ = _grouped(trial.theta, trial.w, MERGING[-1] * parts.spacing)
    apart = np.abs(np.exp(1j * theta)[:, None] - np.exp(1j * trial.minima)) > reach / 2
    centres = np.concatenate([theta[apart.all(axis=1)], trial.minima])
    beside = reach * 0.2 ** np.arange(3)
    around = centres[:, None] + np.concatenate([-beside, [0], beside])
    return np.unique(np.mod(np.concatenate([around.ravel(), parts.kinks]), 2 * np.pi))


def _attempts(parts, grid):
    """Measures made of the best weights on a grid: merged, merged and moved, on few points, all."""
    x, t = moving(grid)
    kernel, v = parts.kernel(x, t, x)[0], parts.potential(x, t)[0]
    w = simplex_qp(kernel, v)
    yield _grouped(grid, w, MERGING[-1] * parts.spacing)
    size = None
    for near in MERGING:
        merged = _grouped(grid, w, near * parts.spacing)
        if len(merged[1]) != size:
            yield _newton(parts, *merged)
        size = len(merged[1])
    heavy, some = w > LIGHT * w.max(), w > NEGLIGIBLE
    yield grid[heavy], simplex_qp(kernel[np.ix_(heavy, heavy)], v[heavy])
    yield grid[some], w[some] / w[some].sum()


def _grouped(theta, w, near, light=LIGHT):
    """Merge neighbours into groups no wider than ``near``, which points without weight divide."""
    theta = np.mod(theta, 2 * np.pi)
    order = np.argsort(theta)
    theta, w = theta[order], w[order]
    heavy = w > light * w.max()
    # begin after a light point, or the widest distance, so that no group crosses the end
    apart = np.diff(theta, prepend=theta[-1] - 2 * np.pi) + 7.0 * ~np.roll(heavy, 1)
    first = int(apart.argmax())
    theta = np.concatenate([theta[first:], theta[:first] + 2 * np.pi])
    w, heavy = np.roll(w, -first), np.roll(heavy, -first)
    label = arcs((theta + 10.0 * np.cumsum(~heavy))[heavy], near)
    theta, w = theta[heavy], w[heavy]
    mass = np.bincount(label, w)
    return np.bincount(label, w * theta) / mass, mass / mass.sum()


def _newton(parts, theta, w):
    r"""Newton steps on positions and weights together.

    E is a smooth function of (theta, w) on the set :math:`\sum w=1`. Its second derivative is made
    positive by taking absolute values of its eigenvalues in the coordinates
    :math:`(\sqrt{w_i}\theta_i,w_i)`, with a floor that rises when a step fails to descend and
    falls when it does not. A step that would make a weight negative is cut there, and the atom
    dropped.
    """
    state, floor, size = _derivatives(parts, theta, w), 1e-9, np.inf
    for _ in range(min(40, int(EFFORT / len(w) ** 3))):
        value, slope, hessian = state
        # scaled positions, and an orthonormal basis of the changes of weight that keep their sum
        basis = np.zeros((2 * len(w), 2 * len(w) - 1))
        basis[: len(w), : len(w)] = np.diag(1 / np.sqrt(w))
        basis[len(w) :, len(w) :] = scipy.linalg.helmert(len(w)).T
        eigenvalues, vectors = np.linalg.eigh(basis.T @ hessian @ basis)
        vectors = basis @ vectors
        curvature, along = np.abs(eigenvalues), vectors.T @ slope
        if not curvature.any():
            break  # one atom on a floor that is flat: every place is as good
        for _ in range(12):
            part = along / np.maximum(curvature, floor * curvature.max())
            trial, whole = _step(parts, theta, w, -(vectors @ part))
            outcome = _derivatives(parts, *trial)
            if outcome[0] <= value + 2e-15 * parts.scale:
                break
            floor *= 30
        else:
            break
        floor = max(floor / (30 if whole else 1), 1e-15)
        theta, w = trial
        last, size, state = size, float(part @ along), outcome
        # twice the decrease that the step promised
        if whole and (size <= 1e-26 * parts.scale or 1e-20 * parts.scale >= size >= last):
            break
    return theta, w


def _step(parts, theta, w, step):
    """Move by at most half a length of the kernel and not past a weight of zero."""
    turn, change = np.split(step, 2)
    most = parts.spacing / 2
    t = most / max(np.abs(turn).max(), most)
    falling = w + t * change <= 0
    if falling.any():
        t = float((-w[falling] / change[falling]).min())
    moved = w + t * change
    keep = moved > NEGLIGIBLE
    return (theta[keep] + t * turn[keep], moved[keep] / moved[keep].sum()), t == 1 and keep.all()


def _derivatives(parts, theta, w):
    """E up to its constant, its gradient and its Hessian in (theta, w)."""
    x, t = moving(theta)
    v, K = parts.potential(x, t), parts.kernel(x, t, x)
    f = v + np.stack([k @ w for k in K])
    slope = np.concatenate([w * f[1], f[0]])
    n, H = len(w), np.empty((2 * len(w), 2 * len(w)))
    H[:n, :n] = np.diag(w * f[2]) + w[:, None] * w * parts.mixed(x, t)
    H[:n, n:] = np.diag(f[1]) + w[:, None] * K[1]
    H[n:, :n], H[n:, n:] = H[:n, n:].T, K[0]
    return float(w @ (f[0] + v[0])) / 2, slope, H
