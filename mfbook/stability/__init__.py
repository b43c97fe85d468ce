r"""Does a stationary measure stay, how fast is it reached, and is it optimal?

Everything here needs only ``F.at(mu)``: second derivatives of a functional are complex steps of
its gradient, exact to rounding. Section 6 of the paper asks for rates (:func:`kl_fit` and what
follows it) and for boundedness (:func:`radial_drift`), Section 7 for stability
(:func:`dirac_stability`, :func:`atomic_stability`, :func:`strong_monotonicity`), Section 8 for
optimality (:func:`stationarity`, :func:`best_alternative`).
"""

from mfbook.stability.atomic import AtomicStability, atomic_stability
from mfbook.stability.dirac import DiracStability, dirac_stability
from mfbook.stability.monotone import (
    CurvatureMargin,
    Monotonicity,
    curvature_margin,
    strong_monotonicity,
)
from mfbook.stability.rates import KLFit, RadialDrift, kl_fit, radial_drift
from mfbook.stability.support import Alternative, Stationarity, best_alternative, stationarity

__all__ = [
    "Alternative", "AtomicStability", "CurvatureMargin", "DiracStability", "KLFit", "Monotonicity",
    "RadialDrift", "Stationarity", "atomic_stability", "best_alternative", "curvature_margin",
    "dirac_stability", "kl_fit", "radial_drift", "stationarity",
    "strong_monotonicity",
]  # fmt: skip
