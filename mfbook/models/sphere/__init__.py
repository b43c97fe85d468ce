"""Attention and a perceptron on the sphere (Appendix A): energy, velocity, linearisation.

Tokens are unit vectors; their law flows up or down an energy that couples the exponential kernel
of attention with the potential of a perceptron. Points are unit vectors of R^d everywhere, on the
circle too.
"""

from mfbook.models.sphere.energy import Field, SphereEnergy
from mfbook.models.sphere.kernel import funk_hecke, inflection, kernel
from mfbook.models.sphere.linearised import Linearised, frames

__all__ = [
    "Field",
    "Linearised",
    "SphereEnergy",
    "frames",
    "funk_hecke",
    "inflection",
    "kernel",
]
