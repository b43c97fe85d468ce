r"""Distances between measures: optimal transport, its dual, and cheaper bounds on both sides.

The theorems of the book bound :math:`W_1` and :math:`W_2`. Exact distances between n atoms cost
up to :math:`O(n^3)`, so this package chooses the solver: sorting on the line, assignment for equal
weights, the network simplex of POT otherwise. `sliced_w2` bounds the
distance from below, :func:`coupled_distance` from above, all three with linear memory.
"""

from mfbook.transport.estimates import SlicedDistance, coupled_distance, sliced_w2
from mfbook.transport.plans import Plan, displacement, optimal_plan, wasserstein

__all__ = [
    "Plan",
    "SlicedDistance",
    "coupled_distance",
    "displacement",
    "optimal_plan",
    "sliced_w2",
    "wasserstein",
]
