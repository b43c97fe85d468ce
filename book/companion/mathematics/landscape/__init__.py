"""Where potentials on the sphere are largest and least: regions of signs, closed forms, bounds.

Knows the sphere's energy and the idea; nothing here moves a particle.
"""

from companion.mathematics.landscape.arrangement import SignRegions, sign_regions
from companion.mathematics.landscape.closed_forms import (
    collinear_maximum,
    diagonal_maximum,
    nonnegative_maximum,
)
from companion.mathematics.landscape.degeneracy import (
    NormalisedCondition,
    is_analytic_potential,
    nondegenerate_normalised,
)
from companion.mathematics.landscape.extremal import (
    Extremal,
    RegionMaxima,
    maximise_potential,
    minimise_potential,
)

__all__ = [
    "Extremal",
    "NormalisedCondition",
    "RegionMaxima",
    "SignRegions",
    "collinear_maximum",
    "diagonal_maximum",
    "is_analytic_potential",
    "maximise_potential",
    "minimise_potential",
    "nondegenerate_normalised",
    "nonnegative_maximum",
    "sign_regions",
]
