"""The least value of the first variation on the sphere, found and bounded from below."""

from itertools import product
from typing import Any

import numpy as np

from mfbook import _validate as validate
from mfbook._work import blocks
from mfbook.functional import Minimum
from mfbook.optimise.descent import descend
from mfbook.space import Sphere
from mfbook.sphere import on_circle
from mfbook.sphere.caps import BLOCK, SLACK, Bends, branch_and_bound, cap_bounds
from mfbook.sphere.linearised import squares

#: Dimension above which cells have too many corners; the crude bound is left.
MOST_DIMENSIONS = 8


def least(
    F, y: np.ndarray, w: np.ndarray, rng: validate.Seed, *,
    starts: int = 8, tolerance: float = 1e-14, budget: int = 20_000_000,
) -> Minimum:  # fmt: skip
    """Least value of the first variation of a ``SphereEnergy`` at atoms y (n, d), weights w."""
    rng, starts = validate.generator(rng), validate.count(starts, "starts")
    tolerance = validate.positive(tolerance, "tolerance")
    budget = validate.count(budget, "budget")
    if y.shape[1] == 2:
        return on_circle.least(F, y, w, tolerance, budget)
    # descents from several points for the value, branch and bound for the proof
    f, d = SphereVariation(F, y, w), y.shape[1]
    seeds: Any = [y[rng.choice(len(y), size=starts, p=w)], Sphere().sample(rng, starts, d)]
    seeds = np.concatenate([*seeds, f.units.a, -f.units.a])
    order = np.argsort(f(seeds)[0], kind="stable")[:starts]
    value, point, success = min((f.descend(seeds[i]) for i in order), key=lambda run: run[0])
    bound, closed = -np.inf, False
    if d <= MOST_DIMENSIONS:
        # at first one cell is a face of the cube
        cells = np.arange(2 * d), np.zeros((2 * d, d - 1)), np.ones((2 * d, d - 1))
        value, point, bound, closed = branch_and_bound(
            f, cells, f.bound, _halves, value, point, tolerance, budget
        )
    bound = max(bound, f.jensen()) - SLACK * f.scale
    return Minimum(point, value, float(bound), success and closed, f.evaluations)


class SphereVariation:
    """A first variation on the sphere with its gradient and Hessian; counts its evaluations."""

    def __init__(self, F, y, w):
        self.y, self.w = y, w
        self.pull = y if F.B is None else y @ F.B
        self.beta, self.shift = F.beta, F.shift
        self.units = Bends(F, y.shape[1])
        self.curvature = self.units.curvature
        self.scale = 1 / self.beta + self.units.size
        self.cost = len(w) + len(self.units.omega)  # pairs for one point
        self.evaluations = 0

    def __call__(self, x, reach=None):
        r"""Value, tangential gradient and least eigenvalue of the Hessian at the points x (n, d).

        With radii ``reach`` of caps around the points (n,) the third result is the least eigenvalue
        without the units whose kink may be that near, less a bound on the second derivatives that
        those can have in the cap. Without radii it is None.
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
        attention = e @ self.pull
        ambient = attention + sigma @ units.a
        radial = (ambient * x).sum(axis=1)
        gradient = ambient - radial[:, None] * x
        if reach is None:
            return value, gradient, None
        slope = units.omega * units.activation.slope(z)
        missing = 0.0
        if not units.activation.analytic:
            near = np.abs(z) <= reach[:, None]
            missing = (near * self._worst(reach)).sum(axis=1)
            sigma, slope = np.where(near, 0, sigma), np.where(near, 0, slope)
            radial = ((attention + sigma @ units.a) * x).sum(axis=1)
        H = self.beta * (e @ squares(self.pull)) + slope @ squares(units.a)
        H = H.reshape(-1, d, d)
        # P H P - radial P on the tangent space; along x any large number
        Hx = np.einsum("nij,nj->ni", H, x)
        xHx = (Hx * x).sum(axis=1)
        cross = x[:, :, None] * Hx[:, None, :]
        H -= cross + cross.transpose(0, 2, 1)
        H += (xHx + radial + 4 * self.curvature)[:, None, None] * x[:, :, None] * x[:, None, :]
        return value, gradient, np.linalg.eigvalsh(H)[:, 0] - radial - missing

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
        lowest = self.units.ranges[0].sum()
        return float(np.exp(-self.beta * (mean + self.shift)) / self.beta + lowest)

    def bound(self, face, centre, half):
        r"""Centres, values there, and lower bounds for radial projections of boxes in cube faces.

        A cell is geodesically convex, so the cap around its centre that reaches its corners
        contains it: with the unit vectors :math:`c_i` at its corners its points are
        :math:`x=\sum\lambda_ic_i/\|\sum\lambda_ic_i\|` with :math:`\lambda\ge0,\sum\lambda_i=1`,
        and :math:`\langle x,c\rangle\ge\min_i\langle c_i,c\rangle` where that is positive.
        """
        x, square = _on_face(face, centre), np.zeros(len(face))
        for signs in product((1, -1), repeat=half.shape[1]):
            # the chord, not the scalar product: accurate for small cells
            chord = ((x - _on_face(face, centre + np.array(signs) * half)) ** 2).sum(axis=1)
            square = np.maximum(square, chord)
        reach = 2 * np.arcsin(np.sqrt(square) / 2) * (1 + 1e-6)
        value, gradient, least = self(x, reach)
        slope = np.linalg.norm(gradient, axis=1)
        lower = cap_bounds(value, slope, least, reach, self.curvature, self.units.third)
        return x, value, lower


def _on_face(face, u):
    """Radial projection of points of the cube's faces; face 2i or 2i + 1 has x_i = 1 or -1."""
    axis, sign = face // 2, 1 - 2.0 * (face % 2)
    x = np.empty((len(u), u.shape[1] + 1))
    rows = np.arange(len(u))
    for i in range(x.shape[1]):
        x[:, i] = u[rows, i - (i >= axis)]
    x[rows, axis] = sign
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def _halves(face, centre, half):
    """Cut every cell along its longest side."""
    longest = np.arange(len(half)), half.argmax(axis=1)
    half[longest] /= 2
    shift = np.zeros_like(half)
    shift[longest] = half[longest]
    centre = np.concatenate([centre - shift, centre + shift])
    return np.tile(face, 2), centre, np.tile(half, (2, 1))
