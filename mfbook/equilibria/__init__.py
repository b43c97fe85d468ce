"""States of rest on the sphere: running to them, counting their clusters, their stability.

Knows the sphere's energy, the flow and the optimisers.
"""

from mfbook.equilibria.clusters import Clusters, clusters, default_threshold
from mfbook.equilibria.minimiser import CircleMinimum, minimise_on_circle
from mfbook.equilibria.protocol import Protocol
from mfbook.equilibria.second_order import (
    Polished,
    SecondOrder,
    newton,
    second_order,
    velocity_jacobian,
)
from mfbook.equilibria.settle import Settled, settle

__all__ = [
    "CircleMinimum",
    "Clusters",
    "Polished",
    "Protocol",
    "SecondOrder",
    "Settled",
    "clusters",
    "default_threshold",
    "minimise_on_circle",
    "newton",
    "second_order",
    "settle",
    "velocity_jacobian",
]
