r"""Attention and a perceptron on the sphere (Appendix A).

Tokens are unit vectors; their law flows up or down an energy that couples the exponential kernel
of attention with the potential of a perceptron. Points are unit vectors of :math:`\mathbb R^d`
everywhere, on the circle too.
"""

from .activations import GELU, LEAKY_RELU, LINEAR, RELU, TANH, Activation, activation, leaky_relu
from .arrangement import SignRegions, sign_regions
from .closed_forms import collinear_maximum, diagonal_maximum, nonnegative_maximum
from .clusters import Clusters, clusters, default_threshold
from .degeneracy import NormalisedCondition, is_analytic_potential, nondegenerate_normalised
from .energy import Field, SphereEnergy
from .extremal import Extremal, RegionMaxima, maximise_potential, minimise_potential
from .kernel import (
    anticoncentration,
    cluster_mass_bound,
    fourier_coefficients,
    funk_hecke,
    heavy_atom_bound,
    inflection,
    kernel,
    single_cluster_excluded,
)
from .linearised import Linearised, frames
from .minimiser import CircleMinimum, minimise_on_circle
from .search import least_first_variation
from .second_order import Polished, SecondOrder, newton, second_order, velocity_jacobian
from .settle import Settled, settle

__all__ = [
    "GELU",
    "LEAKY_RELU",
    "LINEAR",
    "RELU",
    "TANH",
    "Activation",
    "CircleMinimum",
    "Clusters",
    "Extremal",
    "Field",
    "Linearised",
    "NormalisedCondition",
    "Polished",
    "RegionMaxima",
    "SecondOrder",
    "Settled",
    "SignRegions",
    "SphereEnergy",
    "activation",
    "anticoncentration",
    "cluster_mass_bound",
    "clusters",
    "collinear_maximum",
    "default_threshold",
    "diagonal_maximum",
    "fourier_coefficients",
    "frames",
    "funk_hecke",
    "heavy_atom_bound",
    "inflection",
    "is_analytic_potential",
    "kernel",
    "leaky_relu",
    "least_first_variation",
    "maximise_potential",
    "minimise_on_circle",
    "minimise_potential",
    "newton",
    "nondegenerate_normalised",
    "nonnegative_maximum",
    "second_order",
    "settle",
    "sign_regions",
    "single_cluster_excluded",
    "velocity_jacobian",
]
