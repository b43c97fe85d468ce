"""Optimisation over measures: the Frank-Wolfe gap, boosting, weights, quadratic programs.

Knows the idea and the flow; no model.
"""

from mfbook.optimise.certificate import Boosting, Gap, boost, frank_wolfe_gap, optimal_weights

__all__ = ["Boosting", "Gap", "boost", "frank_wolfe_gap", "optimal_weights"]
