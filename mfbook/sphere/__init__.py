"""Attention and a perceptron on the sphere (Appendix A): energy, velocity, linearisation.

Tokens are unit vectors; their law flows up or down an energy that couples the exponential kernel
of attention with the potential of a perceptron. Points are unit vectors of R^d everywhere, on the
circle too.
"""

from mfbook.sphere.clusters import Clusters, clusters, default_threshold
from mfbook.sphere.energy import Field, SphereEnergy
from mfbook.sphere.kernel import anticoncentration, funk_hecke, kernel
from mfbook.sphere.linearised import Linearised
from mfbook.sphere.minimiser import CircleMinimum, minimise_on_circle
from mfbook.sphere.second_order import Polished, SecondOrder, newton, second_order
from mfbook.sphere.settle import Explicit, Settled, Stiff, settle

__all__ = [
    "CircleMinimum", "Clusters", "Explicit", "Field", "Linearised", "Polished", "SecondOrder",
    "Settled", "SphereEnergy", "Stiff", "anticoncentration", "clusters", "default_threshold",
    "funk_hecke", "kernel", "minimise_on_circle", "newton", "second_order", "settle",
]  # fmt: skip
