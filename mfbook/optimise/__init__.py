"""Optimisation over measures: the Frank-Wolfe gap, boosting, weights, laws at rest.

Knows the idea; no model.
"""

from mfbook.optimise.certificate import Boosting, Gap, boost, frank_wolfe_gap, optimal_weights
from mfbook.optimise.stationary import Rest, stationary_head, stationary_near

__all__ = [
    "Boosting", "Gap", "Rest", "boost", "frank_wolfe_gap", "optimal_weights", "stationary_head",
    "stationary_near",
]  # fmt: skip
