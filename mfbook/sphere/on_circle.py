"""Least value of a first variation on the circle, between proved bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mfbook._blocks import blocks
from mfbook.sphere import forces
from mfbook.sphere.units import BLOCK, SLACK, Units, deepest_fall

# --------------------------------------------------------------------------------- the circle


def unit_vectors(theta) -> np.ndarray:
    """Points of the circle at the given angles, shape (..., 2)."""
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


class CircleVariation:
    r"""First variations on the circle as functions of an angle, with derivatives.

    The constant :math:`e^0/\beta` (kernel at its peak) is left out, so that values are of the size
    of their variation for small :math:`\beta` too: the kernel here is
    :math:`K(\theta,\phi)=(e^{\beta(\langle x,By\rangle-s)}-1)/\beta`.
    """

    def __init__(self, F):
        self.F, self.beta, self.shift = F, F.beta, F.shift
        self.B = F.B
        self.units = Units.of(F, 2)
        self.offset = 1 / F.beta
        self.curvature = self.shift + self.units.curvature
        self.third = self.shift * np.sqrt(1 + 3 * self.beta * self.shift) + self.units.third
        self.scale = min(2 * self.shift, self.offset) + self.units.size
        self.direction = np.arctan2(self.units.a[:, 1], self.units.a[:, 0])

    @property
    def spacing(self) -> float:
        """Length over which the kernel changes by a factor of order one."""
        return 1 / np.sqrt(1 + self.beta * self.shift)

    @cached_property
    def kinks(self) -> np.ndarray:
        """Angles where a unit's argument vanishes and its activation has a kink."""
        if not self.units.kinked:
            return np.zeros(0)
        b = self.units.bias
        crossing = (np.abs(b) < 1) & (self.units.omega != 0)
        half = np.arccos(-b[crossing])
        return np.concatenate([self.direction[crossing] + half, self.direction[crossing] - half])

    def grid(self, points: int) -> np.ndarray:
        """Increasing nodes from 0 to 2 pi: equally spaced ones and all kinks."""
        nodes = 2 * np.pi / points * np.arange(points + 1)
        return np.unique(np.concatenate([nodes, np.mod(self.kinks, 2 * np.pi)]))

    def potential(self, x, tangent) -> np.ndarray:
        r""":math:`\frac12v`, its first and second derivative, shape (3, n)."""
        units = self.units
        if len(units.omega) == 0:
            return np.zeros((3, len(x)))
        p, q = x @ units.a.T, tangent @ units.a.T
        z = p + units.bias
        sigma, slope = units.activation.sigma(z), units.activation.slope(z)
        rows = units.activation.primitive(z) / 2, sigma * q, slope * q * q - sigma * p
        return np.stack([row @ units.omega for row in rows])

    def kernel(self, x, tangent, y):
        """Kernel and its first two derivatives in the first angle, each of shape (n, m)."""
        w = y if self.B is None else y @ self.B
        p, q = x @ w.T, tangent @ w.T
        less = np.expm1(self.beta * (p - self.shift))
        e = less + 1
        return less / self.beta, q * e, (self.beta * q * q - p) * e

    def mixed(self, x, tangent):
        """Second derivative of the kernel in both angles, at all pairs of points (n, n)."""
        w, dw = (x, tangent) if self.B is None else (x @ self.B, tangent @ self.B)
        p = x @ w.T
        e = np.exp(self.beta * (p - self.shift))
        return (self.beta * (tangent @ w.T) * (x @ dw.T) + tangent @ dw.T) * e

    def at(self, atoms, weights) -> CircleLandscape:
        """First variation at a measure: atoms are unit vectors (n, 2)."""
        return CircleLandscape(self, np.asarray(atoms, float), np.asarray(weights, float))


class CircleLandscape:
    r"""One function :math:`\theta\mapsto f(\theta)` with two derivatives; counts its evaluations.

    Sums over few atoms are direct. Over many, with B the identity, they are Fourier series.
    """

    def __init__(self, parts: CircleVariation, y, w):
        self.parts, self.y, self.w = parts, y, w
        self.evaluations = 0
        self._rows = None
        if parts.B is None:
            c = forces.fourier(parts.beta)
            if len(w) > 3 * len(c):
                self._rows = self._series(c)

    def _series(self, c):
        powers = forces.Powers(self.y[:, 0] - 1j * self.y[:, 1], len(c))
        moments = powers.moments(self.w)
        c = np.pad(c, (0, len(moments) - len(c))) / self.parts.beta
        # the coefficients sum to one: this is c_0 - 1 without cancellation
        c[0] = -c[1:].sum()
        c = c * moments
        k = np.arange(len(c))
        return np.stack([c, 1j * k * c, -(k * k) * c])

    @property
    def cost(self) -> int:
        """Pairs evaluated for one point."""
        atoms = len(self.w) if self._rows is None else self._rows.shape[1]
        return atoms + len(self.parts.units.omega)

    @cached_property
    def third(self) -> float:
        r"""Bound on :math:`|f'''|` away from kinks: that of all measures, or by the series of this.

        Of a measure that makes f flat the series is short, whatever the kernel.
        """
        if self.parts.B is not None:
            return self.parts.third
        c = self._series(forces.fourier(self.parts.beta))[0]
        series = float(np.abs(c) @ np.arange(len(c)) ** 3.0) + self.parts.units.third
        return min(self.parts.third, series + SLACK * self.parts.third)

    def __call__(self, theta) -> np.ndarray:
        """Return f, f' and f'' at the angles, shape (3, n)."""
        self.evaluations += len(theta)
        parts = [self._block(theta[part]) for part in blocks(len(theta), BLOCK // self.cost)]
        return np.concatenate(parts, axis=1)

    def _block(self, theta):
        x = unit_vectors(theta)
        tangent = np.stack([-x[:, 1], x[:, 0]], axis=1)
        f = self.parts.potential(x, tangent)
        if self._rows is not None:
            powers = forces.Powers(x[:, 0] + 1j * x[:, 1], self._rows.shape[1])
            return f + powers.polynomial(self._rows)
        for row, K in zip(f, self.parts.kernel(x, tangent, self.y), strict=True):
            row += K @ self.w
        return f

    def mean(self) -> float:
        """Integral of f against the measure itself."""
        return float(self.w @ self(np.arctan2(self.y[:, 1], self.y[:, 0]))[0])


@dataclass(frozen=True)
class Bracket:
    """The minimum of a function on the circle, from both sides; ``value`` is at ``theta``."""

    theta: float
    value: float
    lower_bound: float
    converged: bool
    evaluations: int


def local_minima(f, nodes, values=None) -> tuple[np.ndarray, np.ndarray]:
    """Local minima of a function on the circle between the nodes of a grid.

    Newton's method for f' = 0 in every bracket where f' changes sign from - to +, with bisection
    where it would leave the bracket; f' must be continuous, f'' may jump.

    - ``f``: Angles to (3, n).
    - ``nodes`` (n,): Increasing, from 0 to 2 pi.
    - ``values`` (3, n): ``f(nodes)``.
    """
    values = f(nodes) if values is None else values
    slope = values[1]
    i = np.flatnonzero((slope[:-1] < 0) & (slope[1:] >= 0))
    if len(i) == 0:
        best = int(values[0].argmin())
        return nodes[[best]], values[0][[best]]
    low, high = nodes[i], nodes[i + 1]
    t = low + (high - low) * (slope[i] / (slope[i] - slope[i + 1]))
    for _ in range(40):
        value, first, second = f(t)
        low, high = np.where(first < 0, t, low), np.where(first < 0, high, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = t - first / second
        inside = (second > 0) & (new > low) & (new < high)
        new = np.where(inside, new, (low + high) / 2)
        # after a Newton step of this size the error of the value is far below rounding
        done = (np.abs(new - t) <= 1e-9) | (first == 0)
        t = np.where(first == 0, t, new)
        if done.all():
            break
    return t, f(t)[0]


def least_on_circle(
    f: CircleLandscape, *, tolerance: float = 1e-14, budget: int = 20_000_000, points: int = 0
) -> Bracket:
    r"""Bracket the minimum of a first variation on the circle.

    On an interval of half-width h around c that holds no kink, with :math:`|f'''|\le L`,

    .. math:: f(c+t)\ge f(c)+f'(c)t+\tfrac12f''(c)t^2-\tfrac16Lh^3 ;

    and if the minimum is in the interval, it is not below :math:`f(c)` by more than
    ``deepest_fall`` says, which uses a bound on :math:`|f''|` alone. The larger bound counts.
    Intervals whose bound is below the best value found are cut in four, until none is left. Near a
    minimum with :math:`f''=m>0` about :math:`\sqrt{Lh/m}` intervals survive a cut, which falls
    with h.

    - ``tolerance``: Relative to the bound on second derivatives,
      :math:`s+\sum_j|\omega_j|(\ell_j+|\sigma(b_j)|)`.
    - ``budget``: Most pairs to evaluate.
    - ``points``: Intervals to begin with; default: 64 and 16 for each length of the kernel in a
      radian.
    """
    parts, spent = f.parts, f.evaluations
    nodes = parts.grid(points or 64 + int(16 / parts.spacing))
    centre, half = (nodes[1:] + nodes[:-1]) / 2, np.diff(nodes) / 2
    at_nodes = f(nodes)
    minima, values = local_minima(f, nodes, at_nodes)
    best = int(values.argmin())
    theta, value = float(minima[best]), float(values[best])
    if at_nodes[0].min() < value:
        best = int(at_nodes[0].argmin())
        theta, value = float(nodes[best]), float(at_nodes[0][best])
    room = tolerance * parts.curvature
    dropped = _fourier_bound(f)
    done = dropped >= value - room
    while not done:
        lower, values = _taylor_bound(f, centre, half)
        best = int(values.argmin())
        if values[best] < value:
            theta, value = float(centre[best]), float(values[best])
        open_ = lower < value - room
        dropped = max(dropped, min(value - room, lower.min()))
        done = not open_.any()
        more = 4 * np.count_nonzero(open_)
        if done or (f.evaluations - spent + more) * f.cost > budget:
            break
        offsets = np.array([-0.75, -0.25, 0.25, 0.75])
        centre = (centre[open_, None] + half[open_, None] * offsets).ravel()
        half = np.repeat(half[open_] / 4, 4)
    bound = dropped - SLACK * parts.scale
    return Bracket(theta, value, float(bound), bool(done), f.evaluations - spent)


def _taylor_bound(f, centre, half):
    """Lower bounds of the minimum, were it in these intervals, and the values at their centres."""
    parts = f.parts
    value, first, second = f(centre)
    first = np.abs(first)
    lower = value - deepest_fall(first, parts.curvature, half)
    if np.isfinite(f.third):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (second > 0) & (first <= second * half)
            vertex = first * first / (2 * second)
        edge = half * (first - second * half / 2)
        taylor = value - np.where(inside, vertex, edge) - f.third * half**3 / 6
        lower = np.maximum(lower, taylor)
    return lower, value


def _fourier_bound(f) -> float:
    r"""Lower bound :math:`\min f\ge\hat f_0-\sum_{k\ne0}|\hat f_k|` where f is a short series.

    With B the identity and no perceptron, or a linear one, f is the kernel's series plus terms of
    degree at most two; for a measure close to the minimiser it may be constant up to rounding,
    and no Taylor polynomial is short there. Else minus infinity.
    """
    parts = f.parts
    units = parts.units
    if parts.B is not None or not units.linear:
        return -np.inf
    c = f._series(forces.fourier(parts.beta))[0]
    c = np.pad(c, (0, max(3 - len(c), 0)))
    c[:3] += linear_series(units)
    return float(c[0].real - np.abs(c[1:]).sum())


def linear_series(units) -> np.ndarray:
    r"""Coefficients of :math:`\frac12v=\operatorname{Re}\sum_{k=0}^2v_ke^{ik\theta}` (linear)."""
    z = units.a[:, 0] - 1j * units.a[:, 1]
    w, b = units.omega / 2, units.bias
    return np.array([w @ (0.5 + b * b), 2 * w @ (b * z), w @ (z * z) / 2])
