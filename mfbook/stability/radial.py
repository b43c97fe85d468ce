r"""What keeps particles bounded: the radial part of the gradient (Remark 6.7).

A characteristic moves with :math:`-\nabla\delta F(\theta;\mu)`, so

.. math:: \frac{d}{d\tau}\tfrac12\|\theta\|^2=-\langle\theta,\nabla\delta F(\theta;\mu)\rangle.

If for all laws met on the way :math:`\langle\theta,\nabla\delta F\rangle\ge0` on the boundary of a
ball, no head leaves it; if :math:`\langle\theta,\nabla\delta F\rangle\ge a\|\theta\|^2-b` with
a > 0 everywhere, second moments stay bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure
from mfbook.optimise.descent import descend
from mfbook.space import Sphere
from mfbook.stability.atomic import functional, rayleigh

__all__ = ["RadialDrift", "radial_drift"]


@dataclass(frozen=True, eq=False)
class RadialDrift:
    r"""Extremes of :math:`\langle\theta,\nabla\delta F(\theta;\mu)\rangle/\|\theta\|^2` on spheres.

    - ``least`` (n,): Least value found on the sphere of each radius, at ``points`` (n, D): the true
      one is at most this. Negative: heads there move outwards.
    """

    radii: np.ndarray
    least: np.ndarray
    points: np.ndarray = field(repr=False)


def radial_drift(
    F: Functional,
    mu: Measure,
    radii: ArrayLike,
    rng: Seed,
    *,
    samples: int = 256,
    descents: int = 4,
    maxiter: int = 200,
) -> RadialDrift:
    r"""Minimise :math:`\langle\theta,\nabla\delta F\rangle/\|\theta\|^2` on spheres around zero.

    For the field of this one law, the first criterion of Remark 6.7 holds at a radius where the
    minimum is not negative, the second with every a below the limit of the minima for large radii.
    From the lowest of ``samples`` random points ``descents`` go on; a minimum that is found
    refutes, it does not prove.

    - ``F``: On a flat space, accepting complex points.
    - ``radii`` (n,): Positive.
    """
    functional(F, flat=True)
    check_measure(mu, largest=validate.LARGEST)
    radii = validate.array(radii, "radii", ("n",), largest=validate.LARGEST)
    rng = validate.generator(rng)
    if not (radii >= 1 / validate.LARGEST).all():
        raise ValueError(f"radii: expected positive numbers, got {radii.min():g}")
    samples, descents = validate.count(samples, "samples"), validate.count(descents, "descents", 0)
    maxiter = validate.count(maxiter, "maxiter")
    local, points, least = F.at(mu), [], []
    for r in radii:

        def quotient(u, r=r):
            value, slope = rayleigh(local.gradient, r * u, np.ones(1))
            return value, r * slope

        u = Sphere().sample(rng, samples, mu.dim)
        values = (local.gradient(r * u) * u).sum(axis=1) / r
        order = np.argsort(values)
        runs = descend(quotient, Sphere(), u[order[:descents], None], maxiter=maxiter)
        ends = [(values[order[0]], u[order[0]]), *((run.value, run.point[0]) for run in runs)]
        value, best = min(ends, key=lambda end: end[0])
        points.append(r * best)
        least.append(value)
    return RadialDrift(radii, np.array(least), np.array(points))
