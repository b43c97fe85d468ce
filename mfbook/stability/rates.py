r"""What Section 6 asks of a flow: its rate of convergence, and what keeps heads bounded.

*Rates* come from a Kurdyka-Lojasiewicz inequality (Theorem 6.10). With
:math:`E=F(\mu_\tau)-F_\infty` and the dissipation :math:`\mathcal D=-dE/d\tau`, it is
:math:`\mathcal D\ge cE^{2\alpha}` with :math:`\alpha\in[\frac12,1)`. The exponent decides the rate:
exponential for :math:`\alpha=\frac12`, algebraic above.

*Boundedness* is in the radial part of the gradient (Remark 6.7). A characteristic moves with
:math:`-\nabla\delta F(\theta;\mu)`, so

.. math:: \frac{d}{d\tau}\tfrac12\|\theta\|^2=-\langle\theta,\nabla\delta F(\theta;\mu)\rangle.

If for all laws met on the way :math:`\langle\theta,\nabla\delta F\rangle\ge0` on the boundary of a
ball, no head leaves it; if :math:`\langle\theta,\nabla\delta F\rangle\ge a\|\theta\|^2-b` with
a > 0 everywhere, second moments stay bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure
from mfbook.optimise.descent import descend
from mfbook.space import Sphere
from mfbook.stability.atomic import functional, rayleigh

__all__ = ["KLFit", "RadialDrift", "kl_fit", "radial_drift"]


@dataclass(frozen=True, eq=False)
class KLFit:
    r"""Exponent of :math:`\mathcal D\approx cE^{2\alpha}` along a trajectory.

    - ``interval``: 95 % t-interval of ``alpha`` from the slopes of the blocks.
    - ``slopes`` (blocks,): Slope of log D on log E in each block; a trend among them says that
      there is no power law yet.
    """

    alpha: float
    interval: tuple[float, float]
    slopes: np.ndarray = field(repr=False)

    @property
    def slope(self) -> float:
        r"""Slope of log D on log E, :math:`2\alpha`."""
        return 2 * self.alpha


def kl_fit(gap: ArrayLike, dissipation: ArrayLike, *, blocks: int = 8) -> KLFit:
    r"""Fit :math:`\log\mathcal D=\log c+2\alpha\log E` along a trajectory.

    Points of one trajectory are no independent sample: residuals of the fit are curvature, not
    noise. So the interval comes from the slopes in ``blocks`` of equally many points, sorted by E:
    it is wide where the exponent still changes. A jump between blocks moves ``alpha`` and not the
    interval.

    - ``gap, dissipation`` (n,): :math:`E>0` and :math:`\mathcal D>0`; at least two points a block.
    """
    E = validate.array(gap, "gap", ("n",))
    D = validate.array(dissipation, "dissipation", (len(E),))
    for name, values in (("gap", E), ("dissipation", D)):
        if not (values > 0).all():
            raise ValueError(f"{name}: expected positive numbers, got {values.min():g}")
    blocks = validate.count(blocks, "blocks", least=2)
    if len(E) < 2 * blocks:
        raise ValueError(f"gap: expected at least {2 * blocks} points, got {len(E)}")
    x, y = np.log(E), np.log(D)
    parts = np.array_split(np.argsort(-x, kind="stable"), blocks)
    for i, part in enumerate(parts):
        if np.ptp(x[part]) == 0:
            raise ValueError(f"gap: expected different values, all are {E[part[0]]:g} in block {i}")
    slopes = np.array([np.polyfit(x[part], y[part], 1)[0] for part in parts])
    half = scipy.stats.t.ppf(0.975, blocks - 1) * slopes.std(ddof=1) / np.sqrt(blocks)
    interval = (float(slopes.mean() - half) / 2, float(slopes.mean() + half) / 2)
    return KLFit(float(np.polyfit(x, y, 1)[0]) / 2, interval, slopes)


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
    rng: validate.Seed,
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
