r"""Lower bounds of a first variation on caps of the sphere, and the cutting that proves one.

The Frank-Wolfe gap of a measure needs :math:`\min f` for
:math:`f=\delta E=\frac1\beta\int e^{\beta(\langle x,By\rangle-s)}d\mu(y)+\frac12v`. A search gives
a value from above. The bound from below is branch and bound: the sphere is cut into cells, f is
bounded on each from its value and derivatives at the centre, cells that cannot hold the minimum
are dropped, the others are cut again. A bound is never replaced by the value found: if it were
above it, it would be wrong, and should be seen to be.

**The constants.** Let :math:`x(t)` run along a great circle with unit speed. Then
:math:`\langle x(t),By\rangle=\rho\cos(t-t_0)` with :math:`0\le\rho\le s`, and
:math:`g(u)=e^{\beta(\rho\cos u-s)}` has Fourier coefficients :math:`c_k\ge0`, so that
:math:`|g^{(2j)}|\le\sum_kk^{2j}c_k=|g^{(2j)}(0)|`. That is :math:`\beta\rho e^{\beta(\rho-s)}` for
j = 1 and :math:`(\beta\rho+3\beta^2\rho^2)e^{\beta(\rho-s)}` for j = 2, and Cauchy-Schwarz bounds
the third derivative by their geometric mean. Attention therefore contributes at most s to the
second derivative of f along great circles and :math:`s\sqrt{1+3\beta s}` to the third.

A unit contributes :math:`g=\frac12\omega\Phi(z)` with :math:`z(t)=\rho\cos(t-t_0)+b` and
:math:`\rho\le1`, so that :math:`g'=\omega\sigma(z)z'`. With the Lipschitz constant
:math:`\ell` of :math:`\sigma` on :math:`[b-1,b+1]`,
:math:`|\sigma(z)|\le|\sigma(b)|+\ell|z-b|` and :math:`z''=-(z-b)`,

.. math:: |g''|\le|\omega|\big(\ell z'^2+|\sigma(z)||z-b|\big)\le|\omega|(\ell+|\sigma(b)|)=:m,

where :math:`\sigma` need not be differentiable: then g' is Lipschitz with this constant, which is
all that the bound without third derivatives uses. Where :math:`|\sigma''|\le\kappa` also

.. math:: |g'''|\le|\omega|\big(\kappa+3\ell|z'||z-b|+|\sigma(z)||z'|\big)
          \le|\omega|(\kappa+2\ell+|\sigma(b)|).

A ReLU is linear on both sides of its kink, :math:`\kappa=0`; cells are cut at kinks on the circle,
and on spheres a unit whose kink may cross a cell enters with a bound on g'' alone.

Rounding is not tracked by interval arithmetic: an allowance of ``SLACK`` units of rounding of all
terms is subtracted from every bound.
"""

from functools import cached_property

import numpy as np

from mfbook.sphere.forces import SHARPEST

#: Units of rounding, relative to the size of all terms, subtracted from every lower bound.
SLACK = 8 * float(np.finfo(float).eps)
#: Kernel evaluations held in memory at a time.
BLOCK = 1 << 18


class Bends:
    """The units of an energy, and the bounds of the module's text: M = curvature, L = third."""

    def __init__(self, F, d: int):
        if F.beta > SHARPEST:
            raise ValueError(f"F: expected beta of at most {SHARPEST:g}, got {F.beta:g}")
        self.a = np.zeros((0, d)) if F.a is None else F.a
        self.omega = np.zeros(0) if F.omega is None else F.omega
        self.bias = np.zeros(len(self.a)) if F.bias is None else F.bias
        self.activation = sigma = F.activation
        #: The constants l_j and m_j, shape (J,).
        self.slope = np.array([sigma.lipschitz(1 + abs(b)) for b in self.bias])
        centre = np.abs(sigma.sigma(self.bias))
        self.each = np.abs(self.omega) * (self.slope + centre)
        self.curvature = F.shift + float(self.each.sum())
        third = np.where(self.omega == 0, 0, sigma.curvature + 2 * self.slope + centre)
        self.own_third = float(np.abs(self.omega) @ third)  # without attention
        self.third = F.shift * np.sqrt(1 + 3 * F.beta * F.shift) + self.own_third

    @cached_property
    def ranges(self) -> np.ndarray:
        r"""Bounds of each :math:`\frac12\omega_j\Phi` on :math:`[b_j-1,b_j+1]`, shape (2, J).

        Between neighbours on a grid, at distance h, a function with :math:`|g''|\le M` lies within
        :math:`Mh^2/8` of the chord; here :math:`M=|\omega_j|\ell_j`.
        """
        n = 513
        z = self.bias[:, None] + np.linspace(-1, 1, n)
        g = self.omega[:, None] * self.activation.primitive(z) / 2
        room = np.abs(self.omega) * self.slope * (2 / (n - 1)) ** 2 / 8
        return np.stack([g.min(axis=1) - room, g.max(axis=1) + room])

    @property
    def size(self) -> float:
        r"""Bound on :math:`|\frac12v|`."""
        return float(np.abs(self.ranges).max(axis=0).sum())


def cap_bounds(value, slope, least, reach, M: float, L: float) -> np.ndarray:
    r"""Lower bounds of min f, were it in caps of radii r: the larger of two; all arrays (n,).

    *Without third derivatives.* Let :math:`|f''|\le M` along great circles,
    :math:`\|\nabla f(c)\|=aM` at the centre, and the minimum over the whole sphere at the distance
    :math:`d\le r` from c. There the gradient is zero, so :math:`a\le d`, and along the arc that
    leads to it :math:`f'\ge-M\min(a+t,d-t)`. Hence

    .. math:: f(c)-\min f\le M\int_0^d\min(a+t,d-t)\,dt=\tfrac M4(d^2+2ad-a^2)
              \le\tfrac M4(r^2+2ar-a^2).

    If :math:`a>r` the minimum is not in this cap. Where the second derivative jumps from -M to M
    the bound is attained.

    *With* :math:`|f'''|\le L` and the least eigenvalue :math:`\lambda` of the Hessian at c,

    .. math:: f\ge f(c)+\min_{0\le t\le r}\big(-\|\nabla f(c)\|t+\tfrac12\lambda t^2\big)
              -\tfrac16Lr^3.
    """
    a = slope / M
    lower = np.where(a > reach, np.inf, value - M / 4 * (reach**2 + 2 * a * reach - a**2))
    if np.isfinite(L):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (least > 0) & (slope <= least * reach)
            vertex = slope * slope / (2 * least)
        edge = reach * (slope - least * reach / 2)
        lower = np.maximum(lower, value - np.where(inside, vertex, edge) - L * reach**3 / 6)
    return lower


def branch_and_bound(f, cells, bound, cut, value, point, tolerance, budget):
    """Cut the cells that may hold a value below the best by more than the tolerance times M.

    - ``cells``: Arrays of one length, the last of them sizes.
    - ``bound``: From cells to centres, values of f there and lower bounds of the minimum of f.
    - ``cut``: From cells to smaller ones.

    Returns the best value, its point, what is proved, and whether no cell is left.
    """
    room, proved, spent = tolerance * f.curvature, -np.inf, f.evaluations
    while True:
        x, values, lower = bound(*cells)
        best = int(values.argmin())
        if values[best] < value:
            value, point = float(values[best]), x[best]
        proved = max(proved, min(value - room, float(lower.min())))
        open_ = lower < value - room
        if not open_.any():
            return value, point, proved, True
        cells = cut(*(part[open_] for part in cells))
        cost = (f.evaluations - spent + len(cells[0])) * f.cost
        if cost > budget or cells[-1].max() < 1e-9:
            return value, point, proved, False
