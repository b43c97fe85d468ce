"""The perceptron's potential along arcs and caps: values, and bounds on its derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mfbook.activations import LINEAR, Activation

#: Units of rounding, relative to the size of all terms, subtracted from every lower bound.
SLACK = 8 * np.finfo(float).eps

#: Kernel evaluations held in memory at a time.
BLOCK = 1 << 18


def deepest_fall(slope, curvature: float, reach) -> np.ndarray:
    r"""How much lower than the centre of a cap the minimum of f can be, if it is in the cap.

    Let :math:`|f''|\le M` along great circles, :math:`\|\nabla f(c)\|=aM`, and let the minimum of
    f over the whole sphere be at the distance :math:`d\le r` from c. There the gradient is zero,
    so :math:`a\le d`, and along the arc that leads to it
    :math:`f'\ge-M\min(a+t,d-t)`. Hence

    .. math:: f(c)-\min f\le M\int_0^d\min(a+t,d-t)\,dt=\tfrac M4(d^2+2ad-a^2)
              \le\tfrac M4(r^2+2ar-a^2).

    If :math:`a>r` the minimum is not in this cap. Where the second derivative jumps from -M to M
    the bound is attained. (For the least value *on the cap*, which need not be a critical point,
    one has :math:`aMr+\tfrac12Mr^2`: without a slope twice as much.)

    - ``slope`` (n,): Lengths of the gradient at the centres.
    - ``curvature``: M.
    - ``reach`` (n,): Radii r.

    Returns shape (n,): Minus infinity where the minimum cannot be in the cap.
    """
    a = slope / curvature
    fall = curvature / 4 * (reach**2 + 2 * a * reach - a**2)
    return np.where(a > reach, -np.inf, fall)


@dataclass(frozen=True, eq=False)
class Units:
    r"""The perceptron's share of f with the constants of the module's text.

    - ``slope, centre`` (J,): :math:`\ell_j` and :math:`|\sigma(b_j)|`.
    - ``kappa``: Bound on :math:`|\sigma''|` away from kinks.
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
        return cls(a, omega, bias, f, slope, centre, f.curvature)

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
        each = self.kappa + 2 * self.slope + self.centre
        return float(np.abs(self.omega) @ np.where(self.omega == 0, 0, each))

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
