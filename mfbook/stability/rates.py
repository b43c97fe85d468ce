r"""Rates of convergence from a Kurdyka-Lojasiewicz inequality (Theorem 6.10).

With :math:`E=F(\mu_\tau)-F_\infty` and the dissipation :math:`\mathcal D=-dE/d\tau`, the inequality
is :math:`\mathcal D\ge cE^{2\alpha}` with :math:`\alpha\in[\frac12,1)`. The exponent decides the
rate: exponential for :math:`\alpha=\frac12`, algebraic above.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = ["KLFit", "kl_fit"]


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
