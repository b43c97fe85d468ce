r"""The least value of the first variation on the sphere, found and bounded from below.

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
the third derivative by their geometric mean. Attention therefore contributes at most

.. math:: M_{\mathrm{att}}=s,\qquad L_{\mathrm{att}}=s\sqrt{1+3\beta s}

to the second and third derivative of f along great circles.

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

from __future__ import annotations

import numpy as np

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.functional import Minimum
from mfbook.sphere.kernel import SHARPEST
from mfbook.sphere.on_circle import CircleVariation, least_on_circle, unit_vectors
from mfbook.sphere.on_sphere import least_on_sphere
from mfbook.sphere.units import SLACK


def least(
    F,
    atoms: np.ndarray,
    weights: np.ndarray,
    rng: Seed,
    *,
    starts: int = 8,
    tolerance: float = 1e-14,
    budget: int = 20_000_000,
) -> Minimum:
    """Least value of the first variation of a :class:`SphereEnergy` at a checked measure."""
    rng, starts = validate.generator(rng), validate.count(starts, "starts")
    tolerance = validate.positive(tolerance, "tolerance")
    budget = validate.count(budget, "budget")
    atoms = validate.array(atoms, "atoms", ("n", "d"))
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
    return least_on_sphere(F, atoms, np.asarray(weights, float), rng, starts, tolerance, budget)
