"""Least value of a first variation on a sphere of any dimension, by branch and bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfbook._blocks import blocks
from mfbook.functional import Minimum
from mfbook.optimise.descent import descend
from mfbook.space import Sphere
from mfbook.sphere.units import BLOCK, SLACK, Units, deepest_fall

# ------------------------------------------------------------------------------ any dimension
#: Dimension above which cells have too many corners; the crude bound is left.
MOST_DIMENSIONS = 8


def least_on_sphere(F, y, w, rng, starts, tolerance, budget):
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
    return Minimum(point, value, float(bound), success and closed, f.evaluations)


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

        - ``x`` (n, d)
        - ``reach`` (n,): Radius of a cap around each point; with it the third result is the least
          eigenvalue of the Hessian without the units whose kink may be that near, less a bound on
          the second derivatives that those can have in the cap. Without it, the third result is
          None.
        """
        self.evaluations += len(x)
        parts = [
            self._block(x[part], None if reach is None else reach[part])
            for part in blocks(len(x), BLOCK // self.cost)
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

        def objective(x):
            value, gradient, _ = self(x)
            return value[0], gradient

        # the value cannot be resolved below rounding, so a stop for lack of progress is fine
        options = {"maxiter": 500, "ftol": 0.0, "gtol": 1e-9}
        (run,) = descend(objective, Sphere(), [x[None]], **options)
        value, gradient, _ = self(run.point)
        flat = np.linalg.norm(gradient) <= 1e-6 * self.curvature
        return float(value[0]), run.point[0], bool(run.converged or flat)

    def jensen(self) -> float:
        r"""Crude bound :math:`f\ge\frac1\beta e^{-\beta(\|Bm\|+s)}+\min\frac12v`, m the mean of mu.

        The first term is Jensen's inequality for the exponential; the second bounds every unit
        alone.
        """
        mean = np.linalg.norm(self.w @ self.pull)
        return float(np.exp(-self.beta * (mean + self.shift)) / self.beta + self.units.least)


def _branch_and_bound(f, value, point, tolerance, budget):
    r"""Cut the sphere into cells until none can hold a minimum below the best value.

    A cell is the radial projection of a box in a face of the cube. It is geodesically convex, so
    the cap around its centre that reaches its corners contains it: with the unit vectors
    :math:`c_i` at its corners its points are :math:`x=\sum\lambda_ic_i/\|\sum\lambda_ic_i\|` with
    :math:`\lambda\ge0,\sum\lambda_i=1`, and :math:`\langle x,c\rangle\ge\min_i\langle c_i,c\rangle`
    where that is positive. If the minimum of f is in a cap of radius r, it is not below
    :math:`f(c)` by more than ``deepest_fall`` says. And on the cap, with :math:`|f'''|\le L` and
    the least eigenvalue :math:`\lambda` of the Hessian at the centre,

    .. math:: f\ge f(c)+\min_{0\le t\le r}\big(-\|\nabla f(c)\|t+\tfrac12\lambda t^2\big)
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
    """Lower bounds of the minimum of f, were it in these caps, and the values at their centres."""
    value, gradient, least = f(x, reach)
    g = np.linalg.norm(gradient, axis=1)
    lower = value - deepest_fall(g, f.curvature, reach)
    if np.isfinite(f.third):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (least > 0) & (g <= least * reach)
            vertex = g * g / (2 * least)
        edge = reach * (g - least * reach / 2)
        taylor = value - np.where(inside, vertex, edge) - f.third * reach**3 / 6
        lower = np.maximum(lower, taylor)
    return lower, value
