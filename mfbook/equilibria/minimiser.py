r"""The minimiser of the descent problem on the circle, with a certificate.

For a positive definite B the energy :math:`E=E_\beta+\frac12\int v` is strictly convex in the
measure, so it has one minimiser, and

.. math:: E(\mu)-\min E\le\int f\,d\mu-\min f,\qquad f=\delta E(\cdot;\mu).

The right side is computed with a proved lower bound of min f over the whole circle
(``mfbook.models.sphere.search``). The minimiser is found by a fully corrective Frank-Wolfe
method:

1. the weights of a coarse grid by an active-set method; neighbours merged;
2. Newton steps on positions and weights together, which keep E falling;
3. every local minimum of f, polished by Newton, joins the atoms; weights again; back to 2.

Where the potential is a trigonometric polynomial (no perceptron, or a linear one), or close to one,
the minimiser can be a density. It is then in closed form, and equally spaced atoms stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.models.sphere import forces
from mfbook.models.sphere.energy import SphereEnergy
from mfbook.models.sphere.kernel import SHARPEST
from mfbook.models.sphere.on_circle import (
    local_minima,
)
from mfbook.models.sphere.search import (
    CircleVariation,
    least_on_circle,
    unit_vectors,
)
from mfbook.optimise.simplex import simplex_qp

__all__ = [
    "CircleMinimum",
    "minimise_on_circle",
]

#: Weights up to this are dropped.
NEGLIGIBLE = 1e-13

#: Most work in Newton steps, each counted as 1e5 plus the cube of the number of atoms: seconds.
EFFORT = 4e8

#: Most atoms to begin with: beyond a beta of about 16000 they are farther apart than the kernel is
#: wide, and the certificate says how much that costs.
COARSE = 1024

#: Distances within which atoms are merged, in lengths of the kernel, tried in this order.
MERGING = (0.75, 0.4, 0.15, 0.02)
#: Atoms at this distance are one: Newton's method may lead two to the same place, up to rounding.
COINCIDING = 1e-8


@dataclass(frozen=True, eq=False)
class CircleMinimum:
    r"""The minimiser of the energy on the circle, up to a certified gap.

    Attributes
    ----------
    measure : Measure
        Unit vectors in the plane, sorted by angle, all with positive weight.
    gap : float
        Proved upper bound on :math:`E(\mu)-\min E` (up to the allowance for rounding).
    value : float
        :math:`E(\mu)`.
    multiplier : float
        :math:`\int\delta E\,d\mu`; at the minimiser the common value of :math:`\delta E` on the
        support and its least value.
    converged : bool
        Whether the gap is within the tolerance.
    rounds : int
        Times that atoms were added.
    evaluations : int
        Points at which a first variation was evaluated.
    """

    measure: Measure
    gap: float
    value: float
    multiplier: float
    converged: bool
    rounds: int
    evaluations: int


def minimise_on_circle(
    F: SphereEnergy, *, tolerance: float = 1e-13, maxiter: int = 50
) -> CircleMinimum:
    r"""Minimise :math:`E_\beta+\frac12\int v` over all probability measures on the circle.

    Parameters
    ----------
    F : SphereEnergy
        On the circle; B must be positive definite, or there may be several minimisers.
    tolerance : float
        Gap to stop at. Rounding limits it to about 1e-14 times the size of the potential.
    maxiter : int
        Most rounds.

    Returns
    -------
    CircleMinimum
        The best measure of all rounds, whether or not it converged.

    Raises
    ------
    TypeError, ValueError
        If F is no energy on the circle or B is not positive definite.

    Examples
    --------
    A linear unit with a large negative weight holds the tokens at its two ends:

    >>> from mfbook.models.sphere import SphereEnergy
    >>> found = minimise_on_circle(SphereEnergy(5.0, [[1.0, 0.0]], [-4.0], "linear"))
    >>> found.measure.weights.round(6), found.converged, found.gap < 1e-13
    (array([0.5, 0.5]), True, True)
    """
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    parts = _Problem(_checked(F))
    evaluations, lowest = 0, np.inf
    best: Any = None
    density = _density(parts, tolerance)
    theta, w = density or _polish(parts, *_coarse(parts))
    for round_ in count():
        x = unit_vectors(theta)
        f = parts.at(x, w)
        nodes = parts.grid(64 + int(16 / parts.spacing))
        minima, values = local_minima(f, nodes)
        mean = float(w @ f(theta)[0])
        twice = mean + float(w @ parts.potential(x, _turned(x))[0])
        found = mean - values.min()
        # finite only for small ones, so that the order below is that of what was found
        gap = _gap(f, mean) if found <= tolerance else np.inf
        evaluations += f.evaluations
        if best is None or (gap, found) < best[:2]:
            best, stalled = (gap, found, theta, w, mean, twice), 0
        else:
            stalled += 1
        # the gap is not monotone; E is, and while it falls there is progress
        if twice < lowest - 2e-14 * parts.scale:
            lowest, stalled = twice, 0
        if gap <= tolerance or stalled >= 4 or round_ == maxiter or parts.work > EFFORT:
            break
        if density is not None and round_ == 0:
            theta, w = _polish(parts, *_coarse(parts))
            continue
        new = minima[values < mean - 0.01 * found]
        denser = _denser(parts, theta, w, new)
        if denser is not None:
            theta, w = denser
        else:
            theta, w = _polish(parts, *_correct(parts, theta, w, minima[values < mean]))
    gap, found, theta, w, mean, twice = best
    if not np.isfinite(gap):
        f = parts.at(unit_vectors(theta), w)
        gap = _gap(f, mean)
        evaluations += f.evaluations
    merged = _tidy(theta, w, COINCIDING)
    if len(merged[1]) < len(w):
        theta, w = merged
    order = np.argsort(np.mod(theta, 2 * np.pi))
    theta, w = theta[order], w[order]
    return CircleMinimum(
        Measure(unit_vectors(theta), w),
        gap,
        (twice + parts.offset) / 2,
        mean + parts.offset,
        gap <= tolerance,
        round_,
        evaluations,
    )


def _gap(f, mean):
    return max(mean - least_on_circle(f, tolerance=1e-15).lower_bound, 0.0)


def _checked(F):
    for name in ("beta", "a", "omega", "activation", "at"):
        if not hasattr(F, name):
            raise TypeError(f"F: expected a SphereEnergy, got {type(F).__name__}")
    if F.dim not in (None, 2):
        raise ValueError(f"F: expected an energy on the circle (d = 2), got d = {F.dim}")
    if F.B is not None and np.linalg.eigvalsh(F.B)[0] <= 0:
        raise ValueError(
            "F: expected a positive definite B (E is convex), got least eigenvalue "
            f"{np.linalg.eigvalsh(F.B)[0]:.3g}"
        )
    if F.beta > SHARPEST:
        raise ValueError(f"F: expected beta of at most {SHARPEST:g}, got {F.beta:g}")
    return F


class _Problem(CircleVariation):
    """The functions of the problem, and the work that Newton's method has spent."""

    work = 0


def _turned(x):
    return np.stack([-x[:, 1], x[:, 0]], axis=1)


def _density(parts, tolerance):
    r"""Atoms for a minimiser that is a density, or None.

    With :math:`\frac12v=\operatorname{Re}\sum_kv_ke^{ik\theta}` and kernel coefficients
    :math:`c_k/\beta`, the first variation of :math:`\rho=\frac1{2\pi}(1+\operatorname{Re}
    \sum_{k\ge1}\rho_ke^{ik\theta})` is constant if :math:`\rho_k=-2\beta v_k/c_k` (here
    :math:`c_k` multiplies :math:`\cos ku`); if :math:`\rho\ge0` this is the minimiser. For a
    linear activation there are two terms. For other analytic ones the series may be cut where the
    rest is below the tolerance. Equally spaced atoms weighted with :math:`\rho` have the same
    Fourier coefficients up to the degree that the kernel resolves.
    """
    units = parts.units
    if parts.B is not None or (units.kinked and len(units.omega)):
        return None
    points = 1024
    fine = unit_vectors(2 * np.pi * np.arange(points) / points)
    v = 2 * np.fft.rfft(parts.potential(fine, _turned(fine))[0]) / points
    tail = np.cumsum(np.abs(v)[::-1])[::-1]
    # rounding of the transform looks like a tail
    short = tail <= max(tolerance / 8, 1e-14 * parts.scale)
    degree = max(int(np.argmax(short)) - 1, 0)
    c = forces.fourier(parts.beta)
    if not short.any() or degree >= len(c):
        return None
    k = np.arange(1, degree + 1)
    amplitude = -2 * parts.beta * v[1 : degree + 1] / c[1 : degree + 1]
    # rho is real, so it is the value of a polynomial of this degree
    series = np.zeros(points, complex)
    series[1 : degree + 1] = amplitude
    least = 1 + points * np.fft.ifft(series).real.min()
    n = len(c) + degree + 4
    theta = 2 * np.pi * np.arange(n) / n
    rho = 1 + (np.exp(1j * np.outer(theta, k)) @ amplitude).real
    if least < 0 or rho.min() <= 0:
        return None
    return theta, rho / rho.sum()


def _coarse(parts):
    """Optimal weights of atoms at kinks and equally spaced, closer than a length of the kernel.

    At most ``COARSE`` of them: the matrix is dense.
    """
    n = min(16 + int(np.ceil(8 / parts.spacing)), COARSE)
    theta = 2 * np.pi * np.arange(n) / n
    theta = np.unique(np.concatenate([theta, np.mod(parts.kinks, 2 * np.pi)]))
    x = unit_vectors(theta)
    v = parts.potential(x, _turned(x))[0]
    w = np.zeros(len(theta))
    w[np.argmin(v)] = 1.0
    return _weighted(parts, theta, w)


def _correct(parts, theta, w, new):
    """Optimal weights of the atoms and new ones."""
    theta = np.concatenate([theta, new])
    return _weighted(parts, theta, np.concatenate([w, np.zeros(len(new))]))


def _weighted(parts, theta, w):
    """Optimal weights, found from w on; atoms without weight are dropped."""
    x = unit_vectors(theta)
    v = parts.potential(x, _turned(x))[0]
    w = simplex_qp(parts.kernel(x, _turned(x), x)[0], v, w)
    keep = w > NEGLIGIBLE
    return theta[keep], w[keep] / w[keep].sum()


def _polish(parts, theta, w):
    """Merge and move atoms; the widest merging that ends below the energy of the start wins.

    Optimal weights on a grid put two atoms where the minimiser has one, and a new atom often is an
    old one that should move: merging makes Newton's method see the right number. Too much of it
    loses atoms, and then the energy says so.
    """
    start = _derivatives(parts, theta, w)[0]
    best: Any = None
    size = None
    for near in MERGING:
        merged = _tidy(theta, w, near * parts.spacing)
        if len(merged[1]) == size:
            continue
        size = len(merged[1])
        moved = _newton(parts, *merged)
        value = _derivatives(parts, *moved)[0]
        if best is None or value < best[0]:
            best = value, moved
        if value < start:
            break
    return best[1]


def _unrolled(theta, w):
    """Increasing angles that begin after the widest gap, so that no group crosses the end."""
    theta = np.mod(theta, 2 * np.pi)
    order = np.argsort(theta)
    theta, w = theta[order], w[order]
    first = int(np.diff(theta, prepend=theta[-1] - 2 * np.pi).argmax())
    return np.concatenate([theta[first:], theta[:first] + 2 * np.pi]), np.roll(w, -first)


def _tidy(theta, w, near):
    """Merge neighbours into groups no wider than ``near``; the rest is sorted."""
    theta, w = _unrolled(theta, w)
    label = np.zeros(len(w), int)
    begin = theta[0]
    for i in range(1, len(w)):
        fresh = theta[i] - begin > near
        label[i] = label[i - 1] + fresh
        if fresh:
            begin = theta[i]
    mass = np.bincount(label, w)
    return np.bincount(label, w * theta) / mass, mass


def _denser(parts, theta, w, new):
    """Chains of atoms with one atom more each (more for long chains), if that lowers E; else None.

    Where the potential is flat (all units off) the minimiser is a chain of nearly equally spaced
    atoms. A new atom between two of them does not find its place by descending: the others would
    all have to move. So positions and weights are interpolated to one atom more.
    """
    theta, w = _unrolled(theta, w)
    breaks = np.flatnonzero(np.diff(theta) > 3 * parts.spacing) + 1
    new = theta[0] + np.mod(new - theta[0], 2 * np.pi)
    positions, masses, changed = [], [], False
    for t, m in zip(np.split(theta, breaks), np.split(w, breaks), strict=True):
        n = len(t)
        # a minimum close to an atom (by at most a quarter of the way to the next one) asks for a
        # split or a move of that atom, not for a new one; beyond the ends the share is zero
        share = np.interp(new, t, np.arange(n)) % 1
        if n > 2 and np.any(np.abs(share - 0.5) < 0.25):
            more = n + max(1, n // 40)
            at = np.linspace(0, n - 1, more)
            t, m = np.interp(at, np.arange(n), t), np.interp(at, np.arange(n), m) * n / more
            changed = True
        positions.append(t)
        masses.append(m)
    if not changed:
        return None
    m = np.concatenate(masses)
    moved = _newton(parts, np.concatenate(positions), m / m.sum(), maxiter=120)
    lower = _derivatives(parts, *moved)[0] < _derivatives(parts, theta, w)[0]
    return moved if lower else None


def _newton(parts, theta, w, *, maxiter: int = 40):
    r"""Newton steps on positions and weights together.

    E is a smooth function of (theta, w) on the set :math:`\sum w=1`. Its second derivative is made
    positive by taking absolute values of its eigenvalues in the coordinates
    :math:`(\sqrt{w_i}\theta_i,w_i)`, with a floor that rises when a step fails to descend and
    falls when it does not. A step that would make a weight negative is cut there, and the atom
    dropped.
    """
    state = _derivatives(parts, theta, w)
    floor = 1e-9
    size = np.inf
    for _ in range(maxiter):
        value, slope, hessian = state
        parts.work += len(w) ** 3 + 1e5
        if parts.work > EFFORT:
            break
        basis = _basis(w)
        eigenvalues, vectors = np.linalg.eigh(basis.T @ hessian @ basis)
        vectors = basis @ vectors
        curvature, along = np.abs(eigenvalues), vectors.T @ slope
        if not curvature.any():
            break  # one atom on a floor that is flat: every place is as good
        for _ in range(12):
            part = along / np.maximum(curvature, floor * curvature.max())
            trial, whole = _step(parts, theta, w, -(vectors @ part))
            outcome = _derivatives(parts, *trial)
            if outcome[0] <= value + 1e-16 * parts.scale:
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


def _basis(w):
    """Scaled positions and an orthonormal basis of the changes of weight that keep their sum."""
    n = len(w)
    Q = np.zeros((2 * n, 2 * n - 1))
    Q[:n, :n] = np.diag(1 / np.sqrt(w))
    Q[n:, n:] = scipy.linalg.helmert(n).T
    return Q


def _step(parts, theta, w, step):
    """Move by at most half a length of the kernel and not past a weight of zero."""
    n = len(w)
    most = parts.spacing / 2
    t = most / max(np.abs(step[:n]).max(), most)
    falling = w + t * step[n:] <= 0
    if falling.any():
        t = float((-w[falling] / step[n:][falling]).min())
    moved = w + t * step[n:]
    keep = moved > NEGLIGIBLE
    trial = theta[keep] + t * step[:n][keep], moved[keep] / moved[keep].sum()
    return trial, t == 1 and keep.all()


def _derivatives(parts, theta, w):
    """E up to its constant, its gradient and its Hessian in (theta, w)."""
    n = len(w)
    x = unit_vectors(theta)
    tangent = _turned(x)
    v = parts.potential(x, tangent)
    K = parts.kernel(x, tangent, x)
    f = v + np.stack([k @ w for k in K])
    slope = np.concatenate([w * f[1], f[0]])
    H = np.empty((2 * n, 2 * n))
    H[:n, :n] = np.diag(w * f[2]) + w[:, None] * w * parts.mixed(x, tangent)
    H[:n, n:] = np.diag(f[1]) + w[:, None] * K[1]
    H[n:, :n] = H[:n, n:].T
    H[n:, n:] = K[0]
    return float(w @ (f[0] + v[0])) / 2, slope, H
