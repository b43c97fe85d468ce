r"""The least value of the first variation on the sphere, found and bounded from below.

The Frank-Wolfe gap of a measure needs :math:`\min f` for
:math:`f=\delta E=\frac1\beta\int e^{\beta(\langle x,By\rangle-s)}d\mu(y)+\frac12v`. A search gives
a value from above. The bound from below is branch and bound: the sphere is cut into cells, f is
bounded on each by a Taylor polynomial at its centre, cells that cannot hold the minimum are
dropped, the others are cut again.

**The constants.** Let :math:`x(t)` run along a great circle with unit speed. Then
:math:`\langle x(t),By\rangle=\rho\cos(t-t_0)` with :math:`0\le\rho\le s`, and
:math:`g(u)=e^{\beta(\rho\cos u-s)}` has Fourier coefficients :math:`c_k\ge0`, so that
:math:`|g^{(2j)}|\le\sum_kk^{2j}c_k=|g^{(2j)}(0)|`. That is :math:`\beta\rho e^{\beta(\rho-s)}` for
j = 1 and :math:`(\beta\rho+3\beta^2\rho^2)e^{\beta(\rho-s)}` for j = 2, and Cauchy-Schwarz bounds
the third derivative by their geometric mean. Attention therefore contributes at most

.. math:: M_{\mathrm{att}}=s,\qquad L_{\mathrm{att}}=s\sqrt{1+3\beta s}

to the second and third derivative of f along great circles.

A unit contributes :math:`g=\frac12\omega\Phi(z)` with :math:`z(t)=\rho\cos(t-t_0)+b` and
:math:`\rho\le1`, so that :math:`g'=\omega\sigma(z)z'`. With the Lipschitz constant
:math:`\ell` of :math:`\sigma` on :math:`[b-1,b+1]`,
:math:`|\sigma(z)|\le|\sigma(b)|+\ell|z-b|` and :math:`z''=-(z-b)`,

.. math:: |g''|\le|\omega|\big(\ell z'^2+|\sigma(z)||z-b|\big)\le|\omega|(\ell+|\sigma(b)|)=:m,

where :math:`\sigma` need not be differentiable: then g' is Lipschitz with this constant, which is
all that the first-order bound uses. Where :math:`|\sigma''|\le\kappa` also

.. math:: |g'''|\le|\omega|\big(\kappa+3\ell|z'||z-b|+|\sigma(z)||z'|\big)
          \le|\omega|(\kappa+2\ell+|\sigma(b)|).

A ReLU is linear on both sides of its kink, :math:`\kappa=0`; cells are cut at kinks on the circle,
and on spheres a unit whose kink may cross a cell enters with a bound on g'' alone.

Rounding is not tracked by interval arithmetic: an allowance of ``SLACK`` units of rounding of all
terms is subtracted from every bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .. import _validate as validate
from .._types import Seed
from ..functional import Minimum
from ..measure import Measure
from ..space import Sphere
from . import forces
from .activations import GELU, LINEAR, TANH, Activation
from .energy import SphereEnergy
from .kernel import SHARPEST

__all__ = ["least_first_variation"]

#: Units of rounding, relative to the size of all terms, subtracted from every lower bound.
SLACK = 8 * np.finfo(float).eps
#: Kernel evaluations held in memory at a time.
BLOCK = 1 << 18
#: Dimension above which cells have too many corners; the crude bound is left.
MOST_DIMENSIONS = 8
#: Bounds on the second derivative of activations: (2 - s^2) n(s), -2 tanh sech^2, 0.
CURVATURE = ((GELU, 2 / np.sqrt(2 * np.pi)), (TANH, 4 / (3 * np.sqrt(3))), (LINEAR, 0.0))


def least_first_variation(
    F: SphereEnergy,
    atoms: np.ndarray,
    weights: np.ndarray,
    rng: Seed,
    *,
    starts: int = 8,
    tolerance: float = 1e-14,
    budget: int = 20_000_000,
) -> Minimum:
    r"""Least value of the first variation of F at :math:`\sum_iw_i\delta_{x_i}`, with a bound.

    Branch and bound up to dimension 8; see the module's text for the inequalities. On the circle
    the bracket closes to rounding. On spheres the effort grows with the dimension: where the
    budget ends first, the bound is what has been proved until then, and ``converged`` is false.
    Beyond, the search gives the value and Jensen's inequality a crude bound.

    Parameters
    ----------
    F : SphereEnergy
        Whose first variation is minimised.
    atoms : array, shape (n, d)
        Unit vectors, real.
    weights : array, shape (n,)
        Of the atoms.
    rng : numpy.random.Generator or int
        Draws starting points for d > 2.
    starts : int
        Local descents for d > 2.
    tolerance : float
        Width of the bracket to stop at, relative to the bound on second derivatives,
        :math:`s+\sum_j|\omega_j|(\ell_j+|\sigma(b_j)|)`.
    budget : int
        Most pairs (point, atom or unit) to evaluate.

    Returns
    -------
    Minimum
        ``lower_bound`` is at most the minimum, ``value`` is attained at ``point``; ``converged``
        says whether they are within the tolerance and the allowance for rounding.

    Raises
    ------
    TypeError, ValueError
        If an option has the wrong type or is not positive, or atoms are not real.

    Examples
    --------
    >>> F = SphereEnergy(1.0)
    >>> x, w = np.array([[1.0, 0.0]]), np.ones(1)
    >>> found = least_first_variation(F, x, w, rng=0)
    >>> found.point.round(6) + 0.0, found.converged, bool(np.isclose(found.value, np.exp(-2)))
    (array([-1.,  0.]), True, True)
    """
    rng, starts = validate.generator(rng), validate.count(starts, "starts")
    tolerance = validate.positive(tolerance, "tolerance")
    budget = validate.count(budget, "budget")
    atoms = validate.array(atoms, "atoms", ("n", "d"))
    weights = validate.probabilities(weights, "weights", (len(atoms),))
    validate.instance(F, "F", SphereEnergy)
    with validate.naming("atoms"):
        F.at(Measure(atoms, weights))  # refuses other dimensions and points off the sphere
    if F.beta > SHARPEST:
        raise ValueError(f"F: expected beta of at most {SHARPEST:g}, got {F.beta:g}")
    if atoms.shape[1] == 2:
        landscape = CircleVariation(F).at(atoms, weights)
        bracket = least_on_circle(landscape, tolerance=tolerance, budget=budget)
        # the constant that the circle's functions leave out
        offset = landscape.parts.offset
        return Minimum(
            unit_vectors(bracket.theta),
            bracket.value + offset,
            bracket.lower_bound + offset - SLACK * offset,
            bracket.converged,
            bracket.evaluations,
        )
    return _least_on_sphere(F, atoms, np.asarray(weights, float), rng, starts, tolerance, budget)


@dataclass(frozen=True, eq=False)
class Units:
    r"""The perceptron's share of f with the constants of the module's text.

    Attributes
    ----------
    a, omega, bias : array, shapes (J, d), (J,), (J,)
    activation : Activation
    slope, centre : array, shape (J,)
        :math:`\ell_j` and :math:`|\sigma(b_j)|`.
    kappa : float
        Bound on :math:`|\sigma''|` away from kinks.
    """

    a: np.ndarray
    omega: np.ndarray
    bias: np.ndarray
    activation: Activation
    slope: np.ndarray
    centre: np.ndarray
    kappa: float

    @classmethod
    def of(cls, F, d: int) -> Units:
        """Collect the units of F; none are fine."""
        a = np.zeros((0, d)) if F.a is None else F.a
        omega = np.zeros(0) if F.omega is None else F.omega
        bias = np.zeros(len(a)) if F.bias is None else F.bias
        f = F.activation
        slope = np.array([f.lipschitz(1 + abs(b)) for b in bias])
        centre = np.abs(f.sigma(bias))
        return cls(a, omega, bias, f, slope, centre, _curvature(f))

    @property
    def linear(self) -> bool:
        """Whether the potential is a quadratic polynomial, or there is none."""
        return len(self.omega) == 0 or self.activation is LINEAR

    @property
    def kinked(self) -> bool:
        """Whether the activation has a kink; it is at zero."""
        return not self.activation.analytic

    @cached_property
    def each(self) -> np.ndarray:
        r"""The bounds :math:`m_j`, shape (J,)."""
        return np.abs(self.omega) * (self.slope + self.centre)

    @property
    def curvature(self) -> float:
        """Bound on second derivatives along great circles, the sum of all units."""
        return float(self.each.sum())

    @property
    def third(self) -> float:
        """Bound on third derivatives away from kinks; infinite where none is known."""
        return float(np.abs(self.omega) @ (self.kappa + 2 * self.slope + self.centre))

    @cached_property
    def _ranges(self):
        r"""Least and largest :math:`\frac12\omega_j\Phi` on :math:`[b_j-1,b_j+1]`, from a grid.

        Between neighbours at distance h a function with :math:`|g''|\le M` lies within
        :math:`Mh^2/8` of the chord; here :math:`M=|\omega_j|\ell_j`.
        """
        n = 513
        z = self.bias[:, None] + np.linspace(-1, 1, n)
        g = self.omega[:, None] * self.activation.primitive(z) / 2
        room = np.abs(self.omega) * self.slope * (2 / (n - 1)) ** 2 / 8
        return g.min(axis=1, initial=np.inf) - room, g.max(axis=1, initial=-np.inf) + room

    @property
    def least(self) -> float:
        r"""Lower bound on :math:`\frac12v`."""
        return float(self._ranges[0].sum())

    @property
    def size(self) -> float:
        r"""Bound on :math:`|\frac12v|`."""
        low, high = self._ranges
        return float(np.maximum(np.abs(low), np.abs(high)).sum())


def _curvature(f: Activation) -> float:
    r"""Bound on :math:`|\sigma''|` away from a kink at zero; infinite where none is known."""
    for known, bound in CURVATURE:
        if f is known:
            return bound
    # the family of leaky ReLUs is recognised by its name and checked for being what it says
    s = np.array([1e-9, 1e-3, 1.0, 1e3])
    two_lines = all(np.ptp(f.slope(t)) == 0 and f.slope(t)[0] >= 0 for t in (s, -s))
    return 0.0 if f.name.startswith(("relu", "leaky_relu")) and two_lines else np.inf


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

    def __call__(self, theta) -> np.ndarray:
        """Return f, f' and f'' at the angles, shape (3, n)."""
        self.evaluations += len(theta)
        step = max(BLOCK // self.cost, 1)
        if len(theta) <= step:
            return self._block(theta)
        blocks = [self._block(theta[i : i + step]) for i in range(0, len(theta), step)]
        return np.concatenate(blocks, axis=1)

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

    Parameters
    ----------
    f : callable
        Angles to (3, n).
    nodes : array, shape (n,)
        Increasing, from 0 to 2 pi.
    values : array, shape (3, n), optional
        ``f(nodes)``.

    Returns
    -------
    theta, value : array, shape (k,)
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

    On an interval of half-width h around c that holds no kink, with :math:`|f''|\le M` and
    :math:`|f'''|\le L`,

    .. math:: f(c+t)\ge f(c)+f'(c)t+\tfrac12f''(c)t^2-\tfrac16Lh^3,\qquad
              f(c+t)\ge f(c)-|f'(c)|h-\tfrac12Mh^2.

    The larger right side, minimised over :math:`|t|\le h`, bounds f on the interval. Intervals
    whose bound is below the best value found are cut in four, until none is left. Near a minimum
    with :math:`f''=m>0` about :math:`\sqrt{Lh/m}` intervals survive a cut, which falls with h.

    Parameters
    ----------
    f : CircleLandscape
    tolerance : float
        Relative to the bound on second derivatives (see :func:`least_first_variation`).
    budget : int
        Most pairs to evaluate.
    points : int
        Intervals to begin with; default: 64 and 16 for each length of the kernel in a radian.

    Returns
    -------
    Bracket
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
    bound = min(dropped, value) - SLACK * parts.scale
    return Bracket(theta, value, float(bound), bool(done), f.evaluations - spent)


def _taylor_bound(f, centre, half):
    """Lower bounds of f on intervals without kinks, and the values at their centres."""
    parts = f.parts
    value, first, second = f(centre)
    first = np.abs(first)
    lower = value - half * (first + parts.curvature * half / 2)
    if np.isfinite(parts.third):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (second > 0) & (first <= second * half)
            vertex = first * first / (2 * second)
        edge = half * (first - second * half / 2)
        taylor = value - np.where(inside, vertex, edge) - parts.third * half**3 / 6
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
    c[:3] += _linear_series(units)
    return float(c[0].real - np.abs(c[1:]).sum())


def _linear_series(units) -> np.ndarray:
    r"""Coefficients of :math:`\frac12v=\operatorname{Re}\sum_{k=0}^2v_ke^{ik\theta}` (linear)."""
    z = units.a[:, 0] - 1j * units.a[:, 1]
    w, b = units.omega / 2, units.bias
    return np.array([w @ (0.5 + b * b), 2 * w @ (b * z), w @ (z * z) / 2])


# ------------------------------------------------------------------------------ any dimension


def _least_on_sphere(F, y, w, rng, starts, tolerance, budget):
    """Descents from several points for the value, branch and bound for the proof."""
    f = SphereVariation(F, y, w)
    seeds: Any = [y[rng.choice(len(y), size=starts, p=w)], Sphere().sample(rng, starts, y.shape[1])]
    if len(f.units.omega):
        seeds += [f.units.a, -f.units.a]
    seeds = np.concatenate(seeds)
    value = f(seeds)[0]
    order = np.argsort(value, kind="stable")[:starts]
    runs = [f.descend(seeds[i]) for i in order]
    value, point, success = min(runs, key=lambda run: run[0])
    bound, closed = -np.inf, False
    if y.shape[1] <= MOST_DIMENSIONS:
        value, point, bound, closed = _branch_and_bound(f, value, point, tolerance, budget)
    bound = max(bound, f.jensen()) - SLACK * f.scale
    return Minimum(point, value, float(min(bound, value)), success and closed, f.evaluations)


class SphereVariation:
    """A first variation on the sphere with its gradient and Hessian; counts its evaluations."""

    def __init__(self, F, y, w):
        self.F, self.y, self.w = F, y, w
        self.pull = y if F.B is None else y @ F.B
        self.beta, self.shift = F.beta, F.shift
        self.units = Units.of(F, y.shape[1])
        self.curvature = self.shift + self.units.curvature
        self.third = self.shift * np.sqrt(1 + 3 * self.beta * self.shift) + self.units.third
        self.scale = 1 / self.beta + self.units.size
        self.evaluations = 0

    @property
    def cost(self) -> int:
        """Pairs evaluated for one point."""
        return len(self.w) + len(self.units.omega)

    def __call__(self, x, reach=None):
        r"""Value, tangential gradient and least eigenvalue of the Hessian.

        Parameters
        ----------
        x : array, shape (n, d)
        reach : array, shape (n,), optional
            Radius of a cap around each point; with it the third result is the least eigenvalue of
            the Hessian without the units whose kink may be that near, less a bound on the second
            derivatives that those can have in the cap. Without it, the third result is None.
        """
        self.evaluations += len(x)
        step = max(BLOCK // self.cost, 1)
        parts = [
            self._block(x[i : i + step], None if reach is None else reach[i : i + step])
            for i in range(0, len(x), step)
        ]
        value, gradient, bounds = zip(*parts, strict=True)
        least = None if reach is None else np.concatenate(bounds)
        return np.concatenate(value), np.concatenate(gradient), least

    def _block(self, x, reach):
        units, d = self.units, x.shape[1]
        e = self.w * np.exp(self.beta * (x @ self.pull.T - self.shift))
        z = x @ units.a.T + units.bias
        sigma = units.omega * units.activation.sigma(z)
        value = e.sum(axis=1) / self.beta + units.activation.primitive(z) @ (units.omega / 2)
        ambient = e @ self.pull + sigma @ units.a
        radial = (ambient * x).sum(axis=1)
        gradient = ambient - radial[:, None] * x
        if reach is None:
            return value, gradient, None
        slope = units.omega * units.activation.slope(z)
        missing = np.zeros(len(x))
        if units.kinked:
            near = np.abs(z) <= reach[:, None]
            missing = (near * self._worst(reach)).sum(axis=1)
            sigma, slope = np.where(near, 0, sigma), np.where(near, 0, slope)
            radial = (((e @ self.pull) + sigma @ units.a) * x).sum(axis=1)
        outer = (self.pull[:, :, None] * self.pull[:, None, :]).reshape(-1, d * d)
        H = self.beta * (e @ outer)
        H += slope @ (units.a[:, :, None] * units.a[:, None, :]).reshape(-1, d * d)
        H = H.reshape(-1, d, d)
        # P H P - radial P on the tangent space; along x any large number
        Hx = np.einsum("nij,nj->ni", H, x)
        xHx = (Hx * x).sum(axis=1)
        cross = x[:, :, None] * Hx[:, None, :]
        H -= cross + cross.transpose(0, 2, 1)
        H += (xHx + radial + 4 * self.curvature)[:, None, None] * x[:, :, None] * x[:, None, :]
        least = np.linalg.eigvalsh(H)[:, 0] - radial
        return value, gradient, least - missing

    def _worst(self, reach):
        r"""How negative a unit's second derivative can be in a cap that its kink may cross.

        It is :math:`\omega(\sigma'(z)z'^2-\sigma(z)(z-b))`, with :math:`|z|\le2r` in a cap of
        radius r whose centre has :math:`|z|\le r`. So :math:`|\sigma(z)|\le2r\ell`, and
        :math:`\omega\sigma'\ge-\max(-\omega,0)\ell` where :math:`\sigma` does not decrease.
        """
        units = self.units
        size = np.abs(units.omega) * units.slope
        first = np.maximum(-units.omega, 0) * units.slope
        return np.minimum(units.each, first + 2 * reach[:, None] * size)

    def descend(self, x):
        """Descend from one point with scipy's L-BFGS: value, point, success."""
        space = Sphere()

        def objective(q):
            x, back = space.chart(q[None])
            value, gradient, _ = self(x)
            return value[0], back(gradient)[0]

        # the value cannot be resolved below rounding, so a stop for lack of progress is fine
        options = {"maxiter": 500, "ftol": 0.0, "gtol": 1e-9}
        run = minimize(objective, x, jac=True, method="L-BFGS-B", options=options)
        x = space.project(run.x[None])
        value, gradient, _ = self(x)
        flat = np.linalg.norm(gradient) <= 1e-6 * self.curvature
        return float(value[0]), x[0], bool(run.success or flat)

    def jensen(self) -> float:
        r"""Crude bound :math:`f\ge\frac1\beta e^{-\beta(\|Bm\|+s)}+\min\frac12v`, m the mean of mu.

        The first term is Jensen's inequality for the exponential; the second bounds every unit
        alone.
        """
        mean = np.linalg.norm(self.w @ self.pull)
        return float(np.exp(-self.beta * (mean + self.shift)) / self.beta + self.units.least)


def _branch_and_bound(f, value, point, tolerance, budget):
    r"""Cut the sphere into cells until none can hold a value below the best one.

    A cell is the radial projection of a box in a face of the cube. It is geodesically convex, so
    the cap around its centre that reaches its corners contains it: with the unit vectors
    :math:`c_i` at its corners its points are :math:`x=\sum\lambda_ic_i/\|\sum\lambda_ic_i\|` with
    :math:`\lambda\ge0,\sum\lambda_i=1`, and :math:`\langle x,c\rangle\ge\min_i\langle c_i,c\rangle`
    where that is positive. On a cap of radius r, with :math:`|f''|\le M`, :math:`|f'''|\le L` and
    the least eigenvalue :math:`\lambda` of the Hessian at the centre,

    .. math:: f\ge f(c)-\|\nabla f(c)\|r-\tfrac12Mr^2,\qquad
              f\ge f(c)+\min_{0\le t\le r}\big(-\|\nabla f(c)\|t+\tfrac12\lambda t^2\big)
              -\tfrac16Lr^3.
    """
    d = f.y.shape[1]
    room = tolerance * f.curvature
    face = np.arange(2 * d)
    centre, half = np.zeros((2 * d, d - 1)), np.ones((2 * d, d - 1))
    proved, spent = -np.inf, f.evaluations
    while True:
        x, reach = _cells(face, centre, half)
        lower, values = _cap_bound(f, x, reach)
        best = int(values.argmin())
        if values[best] < value:
            value, point = float(values[best]), x[best]
        proved = max(proved, min(value - room, float(lower.min())))
        open_ = lower < value - room
        more = 2 * np.count_nonzero(open_)
        # a cut of every open cell along its longest side
        if more == 0 or (f.evaluations - spent + more) * f.cost > budget or reach.max() < 1e-8:
            return value, point, proved, more == 0
        face, centre, half = face[open_], centre[open_], half[open_]
        longest = np.arange(len(half)), half.argmax(axis=1)
        half[longest] /= 2
        shift = np.zeros_like(half)
        shift[longest] = half[longest]
        centre = np.concatenate([centre - shift, centre + shift])
        face, half = np.tile(face, 2), np.tile(half, (2, 1))


def _cells(face, centre, half):
    """Centres on the sphere and radii of the caps of boxes in faces of the cube."""
    x = _on_face(face, centre)
    d = x.shape[1]
    square = np.zeros(len(x))
    for corner in range(2 ** (d - 1)):
        signs = 1 - 2.0 * ((corner >> np.arange(d - 1)) & 1)
        other = _on_face(face, centre + signs * half)
        # the chord, not the scalar product: accurate for small cells
        square = np.maximum(square, ((x - other) ** 2).sum(axis=1))
    return x, 2 * np.arcsin(np.sqrt(square) / 2) * (1 + 1e-6)


def _on_face(face, u):
    """Radial projection of points of the cube's faces; face 2i or 2i + 1 has x_i = 1 or -1."""
    axis, sign = face // 2, 1 - 2.0 * (face % 2)
    x = np.empty((len(u), u.shape[1] + 1))
    rows = np.arange(len(u))
    for i in range(x.shape[1]):
        x[:, i] = u[rows, i - (i >= axis)]
    x[rows, axis] = sign
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def _cap_bound(f, x, reach):
    """Lower bounds of f on caps and the values at their centres."""
    value, gradient, least = f(x, reach)
    g = np.linalg.norm(gradient, axis=1)
    lower = value - reach * (g + f.curvature * reach / 2)
    if np.isfinite(f.third):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (least > 0) & (g <= least * reach)
            vertex = g * g / (2 * least)
        edge = reach * (g - least * reach / 2)
        taylor = value - np.where(inside, vertex, edge) - f.third * reach**3 / 6
        lower = np.maximum(lower, taylor)
    return lower, value
