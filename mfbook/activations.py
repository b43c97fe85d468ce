r"""Activations of the perceptron, each with the primitive that its potential needs.

The perceptron :math:`\sum_j\omega_j\sigma(\langle a_j,x\rangle+b_j)a_j` is half the gradient of
:math:`v(x)=\sum_j\omega_j\Phi(\langle a_j,x\rangle+b_j)` if :math:`\Phi'=2\sigma`. A wrong
primitive leaves the flow untouched and spoils the energy, so the two are defined side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from mfbook import _validate as validate

__all__ = ["GELU", "LINEAR", "RELU", "TANH", "Activation", "activation", "leaky_relu"]


@dataclass(frozen=True)
class Activation:
    r"""An activation :math:`\sigma`, its primitive :math:`\Phi=2\int_0^s\sigma` and its slope.

    - ``sigma, primitive, slope``: :math:`\sigma`, :math:`\Phi` with :math:`\Phi(0)=0`, and
      :math:`\sigma'`, from arrays to arrays of the same shape; real or complex (for derivatives by
      complex step).
    - ``steepest``: Where :math:`|\sigma'|` has interior maxima.
    - ``analytic``: Whether :math:`\sigma` is real-analytic; otherwise it has a kink, at zero.
    - ``curvature``: Bound on :math:`|\sigma''|` away from a kink; infinite where none is known. It
      enters the proved bounds on least first variations, which then use the slope alone.
    """

    name: str
    sigma: Callable
    primitive: Callable
    slope: Callable
    steepest: tuple[float, ...] = ()
    analytic: bool = True
    curvature: float = np.inf

    def lipschitz(self, radius: float = 1.0) -> float:
        r"""Lipschitz constant of :math:`\sigma` on :math:`[-r,r]`; without biases r is 1."""
        r = validate.positive(radius, "radius", largest=validate.LARGEST)
        points = [-r, r, *(s for s in self.steepest if -r < s < r)]
        return float(np.abs(self.slope(np.array(points))).max())

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"


def _on(s):
    """Where a unit is active; a complex number is where its real part is."""
    return np.real(s) > 0


def leaky_relu(slope: float = 0.01) -> Activation:
    r"""Leaky ReLU: s for s > 0, else :math:`\alpha s` with a slope in [0, 1]; 0 is ReLU."""
    alpha = validate.positive(slope, "slope", allow_zero=True, largest=1)
    return Activation(
        "relu" if alpha == 0 else "leaky_relu" if alpha == 0.01 else f"leaky_relu({alpha:g})",
        lambda s: np.where(_on(s), s, alpha * s + 0.0),
        lambda s: np.where(_on(s), s * s, alpha * s * s),
        lambda s: np.where(_on(s), 1.0, alpha),
        analytic=alpha == 1,
        curvature=0.0,
    )


def _normal(s):
    """Density of the standard normal law."""
    return np.exp(-s * s / 2) / np.sqrt(2 * np.pi)


def _below(s):
    """Distribution function of the standard normal law, accurate in the left tail."""
    return scipy.special.erfc(-s / np.sqrt(2)) / 2


def _size(s):
    """Absolute value, as an analytic function on both sides of zero."""
    return np.where(np.real(s) < 0, -s, s)


def _log_cosh(s):
    r = _size(s)
    large = r + np.log1p(np.exp(-2 * r)) - np.log(2)
    # near zero that cancels
    small = np.real(r) < 1
    return np.where(small, np.log1p(2 * np.sinh(np.where(small, s, 0) / 2) ** 2), large)


def _sech_squared(s):
    t = np.exp(-2 * _size(s))
    return 4 * t / (1 + t) ** 2


RELU = leaky_relu(0.0)
#: 2 int_0^s t N(t) dt = s^2 N(s) + s n(s) - N(s) + 1/2, and N(s) - 1/2 is half an error function.
GELU = Activation(
    "gelu",
    lambda s: s * _below(s),
    lambda s: s * s * _below(s) + s * _normal(s) - scipy.special.erf(s / np.sqrt(2)) / 2,
    lambda s: _below(s) + s * _normal(s),
    (-np.sqrt(2.0), np.sqrt(2.0)),  # where the second derivative (2 - s^2) n(s) vanishes
    curvature=2 / np.sqrt(2 * np.pi),  # (2 - s^2) n(s) at zero
)
TANH = Activation(
    "tanh",
    np.tanh,
    lambda s: 2 * _log_cosh(s),
    _sech_squared,
    (0.0,),
    curvature=4 / (3 * np.sqrt(3)),  # -2 tanh sech^2 where tanh^2 = 1/3
)
LINEAR = Activation("linear", lambda s: 1 * s, lambda s: s * s, lambda s: 1 + 0 * s, curvature=0.0)

#: All that have a name; tests run over them.
NAMED = {f.name: f for f in (RELU, leaky_relu(), GELU, TANH, LINEAR)}


def activation(choice: str | Activation) -> Activation:
    """Return an activation, from itself or its name, in any case ("GELU", "GeLU")."""
    if isinstance(choice, Activation):
        return choice
    if not isinstance(choice, str):
        raise TypeError(f"activation: expected a name or an Activation, got {choice!r}")
    if choice.lower() not in NAMED:
        raise ValueError(f"activation: expected one of {sorted(NAMED)}, got {choice!r}")
    return NAMED[choice.lower()]
