"""Least value of a first variation on the circle, between proved bounds."""

from functools import cached_property
from typing import Any

import numpy as np

from mfbook._work import blocks
from mfbook.activations import LINEAR
from mfbook.functional import Minimum
from mfbook.sphere import forces
from mfbook.sphere.caps import BLOCK, SLACK, Bends, branch_and_bound, cap_bounds
from mfbook.sphere.forces import turned


def unit_vectors(theta) -> np.ndarray:
    """Points of the circle at the given angles, shape (..., 2)."""
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


def moving(theta):
    """Points of the circle and their derivatives in the angle, both (n, 2)."""
    x = unit_vectors(theta)
    return x, turned(x)


class CircleVariation:
    r"""The parts of first variations on the circle as functions of angles, with derivatives.

    The constant :math:`e^0/\beta` (kernel at its peak) is left out, so that values are of the size
    of their variation for small :math:`\beta` too: the kernel here is
    :math:`K(\theta,\phi)=(e^{\beta(\langle x,By\rangle-s)}-1)/\beta`.
    """

    def __init__(self, F):
        self.beta, self.shift, self.B = F.beta, F.shift, F.B
        self.units = Bends(F, 2)
        self.curvature = self.units.curvature
        self.offset = 1 / F.beta
        self.scale = min(2 * self.shift, self.offset) + self.units.size
        #: Length over which the kernel changes by a factor of order one.
        self.spacing = 1 / np.sqrt(1 + self.beta * self.shift)
        #: Angles where a unit's argument vanishes and its activation has a kink.
        self.kinks = np.zeros(0)
        if not F.activation.analytic:
            crossing = (np.abs(self.units.bias) < 1) & (self.units.omega != 0)
            half = np.arccos(-self.units.bias[crossing])
            a = self.units.a[crossing]
            direction = np.arctan2(a[:, 1], a[:, 0])
            self.kinks = np.concatenate([direction + half, direction - half])

    def grid(self, points: int) -> np.ndarray:
        """Increasing nodes from 0 to 2 pi: equally spaced ones and all kinks."""
        nodes = 2 * np.pi / points * np.arange(points + 1)
        return np.unique(np.concatenate([nodes, np.mod(self.kinks, 2 * np.pi)]))

    def fine(self) -> np.ndarray:
        """A grid that sees every kernel: 64 nodes and 16 for each of its lengths in a radian."""
        return self.grid(64 + int(16 / self.spacing))

    def potential(self, x, t) -> np.ndarray:
        r""":math:`\frac12v`, its first and second derivative at moving points, shape (3, n)."""
        units = self.units
        if len(units.omega) == 0:
            return np.zeros((3, len(x)))
        p, q = x @ units.a.T, t @ units.a.T
        z = p + units.bias
        sigma, slope = units.activation.sigma(z), units.activation.slope(z)
        rows = units.activation.primitive(z) / 2, sigma * q, slope * q * q - sigma * p
        return np.stack([row @ units.omega for row in rows])

    def kernel(self, x, t, y):
        """Kernel of moving points and y, its first two derivatives in the angle; each (n, m)."""
        w = y if self.B is None else y @ self.B
        p, q = x @ w.T, t @ w.T
        less = np.expm1(self.beta * (p - self.shift))
        e = less + 1
        return less / self.beta, q * e, (self.beta * q * q - p) * e

    def mixed(self, x, t):
        """Second derivative of the kernel in both angles, at all pairs of moving points (n, n)."""
        w, dw = (x, t) if self.B is None else (x @ self.B, t @ self.B)
        e = np.exp(self.beta * (x @ w.T - self.shift))
        return (self.beta * (t @ w.T) * (x @ dw.T) + t @ dw.T) * e


class CircleLandscape:
    r"""First variation :math:`f(\theta)` at atoms y (n, 2) of weights w; counts its evaluations.

    Sums over few atoms are direct. Over many, with B the identity, they are Fourier series.
    """

    def __init__(self, parts: CircleVariation, y, w):
        self.parts, self.y, self.w = parts, y, w
        self.curvature, self.evaluations = parts.curvature, 0
        many = parts.B is None and len(w) > 3 * len(forces.fourier(parts.beta))
        self._rows: Any = None
        if many:
            c = self._series
            k = np.arange(len(c))
            self._rows = np.stack([c, 1j * k * c, -(k * k) * c])
        #: Pairs evaluated for one point.
        self.cost = (self._rows.shape[1] if many else len(w)) + len(parts.units.omega)

    @cached_property
    def _series(self):
        """Coefficients of the attention part, without its constant."""
        c = forces.fourier(self.parts.beta) / self.parts.beta
        moments = forces.Powers(self.y[:, 0] - 1j * self.y[:, 1], len(c)).moments(self.w)
        # the coefficients sum to one: this is c_0 - 1 without cancellation
        c[0] = -c[1:].sum()
        return c * moments[: len(c)]

    @cached_property
    def third(self) -> float:
        r"""Bound on :math:`|f'''|` away from kinks: that of all measures, or by the series of this.

        Of a measure that makes f flat the series is short, whatever the kernel. A linear unit is
        part of the series: :math:`\frac12v=\operatorname{Re}\sum_{k=0}^2v_ke^{ik\theta}`.
        """
        units = self.parts.units
        if self.parts.B is not None:
            return units.third
        c, rest = self._series, units.own_third
        if units.activation is LINEAR:
            c, rest = np.pad(c, (0, max(3 - len(c), 0))), 0.0
            z, b, w = units.a[:, 0] - 1j * units.a[:, 1], units.bias, units.omega / 2
            c[:3] += [w @ (0.5 + b * b), 2 * w @ (b * z), w @ (z * z) / 2]
        series = float(np.abs(c) @ np.arange(len(c)) ** 3.0) + rest
        return min(units.third, series + SLACK * units.third)

    def __call__(self, theta) -> np.ndarray:
        """Return f, f' and f'' at the angles, shape (3, n)."""
        self.evaluations += len(theta)
        parts = [self._block(theta[part]) for part in blocks(len(theta), BLOCK // self.cost)]
        return np.concatenate(parts, axis=1)

    def _block(self, theta):
        x, t = moving(theta)
        f = self.parts.potential(x, t)
        if self._rows is not None:
            powers = forces.Powers(forces.as_complex(x), self._rows.shape[1])
            return f + powers.polynomial(self._rows)
        for row, K in zip(f, self.parts.kernel(x, t, self.y), strict=True):
            row += K @ self.w
        return f

    def bound(self, centre, half):
        """Centres of intervals, values there, lower bounds of min f were it in the intervals."""
        value, first, second = self(centre)
        lower = cap_bounds(value, np.abs(first), second, half, self.curvature, self.third)
        return centre, value, lower


def local_minima(f, nodes) -> tuple[np.ndarray, np.ndarray]:
    """Local minima of a function on the circle between nodes, and their values; the least first.

    Newton's method for f' = 0 in every bracket where f' changes sign from - to +, with bisection
    where it would leave the bracket; f' must be continuous, f'' may jump.

    - ``f``: Angles to (3, n).
    - ``nodes`` (n,): Increasing, from 0 to 2 pi.
    """
    value, slope, _ = f(nodes)
    i = np.flatnonzero((slope[:-1] < 0) & (slope[1:] >= 0))
    best = [int(value.argmin())]
    if len(i) == 0:
        return nodes[best], value[best]
    low, high = nodes[i], nodes[i + 1]
    t = low + (high - low) * (slope[i] / (slope[i] - slope[i + 1]))
    for _ in range(40):
        _, first, second = f(t)
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
    values = f(t)[0]
    order = np.argsort(values)
    return t[order], values[order]


def least(F, y, w, tolerance: float, budget: int) -> Minimum:
    """Least value of the first variation of F at atoms y (n, 2) of weights w."""
    f = CircleLandscape(CircleVariation(F), y, w)
    minima, values = local_minima(f, f.parts.fine())
    theta, value, lower, proved = least_on_circle(f, minima[0], float(values[0]), tolerance, budget)
    offset = f.parts.offset  # the constant that the circle's functions lack
    lower += offset - SLACK * offset
    return Minimum(unit_vectors(theta), value + offset, lower, proved, f.evaluations)


def least_on_circle(f, start, value, tolerance: float = 1e-14, budget: int = 20_000_000):
    r"""Bracket the minimum of a first variation: angle, value, lower bound, whether it is proved.

    Intervals without kinks are cut in four until none can hold a value below the best. Near a
    minimum with :math:`f''=m>0` about :math:`\sqrt{Lh/m}` of those of half-width h survive a cut,
    which falls with h.

    - ``start``, ``value``: The best angle that is known, and f there.
    - ``tolerance``: Relative to the bound M on second derivatives.
    - ``budget``: Most pairs to evaluate.
    """
    nodes = f.parts.fine()
    cells = (nodes[1:] + nodes[:-1]) / 2, np.diff(nodes) / 2
    value, theta, lower, proved = branch_and_bound(
        f, cells, f.bound, _quarters, value, start, tolerance, budget
    )
    return theta, value, lower - SLACK * f.parts.scale, proved


def _quarters(centre, half):
    offsets = np.array([-0.75, -0.25, 0.25, 0.75])
    return (centre[:, None] + half[:, None] * offsets).ravel(), np.repeat(half / 4, 4)
