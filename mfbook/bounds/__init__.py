r"""Explicit constants: one function for every constant that the paper leaves unnamed.

The letters are those of the book. Tokens have norm at most :math:`R_X`, the projection to the
vocabulary has operator norm at most :math:`R_U`, each of the four matrices of a head has operator
norm at most r (so a head of ``shape.ball(r)`` qualifies), and attention scores are at most
:math:`g=R_X^2r^2/\sqrt k` in absolute value. Norms of parameters are Euclidean (Frobenius).
Constants beyond the range of floating-point numbers are infinite.
"""

from mfbook.bounds.approximation import (
    feature_variance,
    leading_coefficient,
    monte_carlo_rate,
    sharp_rate,
    variance_rate,
)
from mfbook.bounds.drift import DriftLipschitz, GrowthBound, drift_lipschitz, growth_bound
from mfbook.bounds.features import (
    FeatureBounds,
    data_radii,
    feature_bound,
    feature_bounds,
    hessian_attained,
    hessian_bound,
    jacobian_bound,
    score_bound,
    sharp_jacobian_bound,
    third_moment_constant,
)
from mfbook.bounds.loss import loss_lipschitz, loss_smoothness, softmax_lipschitz
from mfbook.bounds.propagation import PropagationBound, propagation_bound, propagation_rate

__all__ = [
    "DriftLipschitz",
    "FeatureBounds",
    "GrowthBound",
    "PropagationBound",
    "data_radii",
    "drift_lipschitz",
    "feature_bound",
    "feature_bounds",
    "feature_variance",
    "growth_bound",
    "hessian_attained",
    "hessian_bound",
    "jacobian_bound",
    "leading_coefficient",
    "loss_lipschitz",
    "loss_smoothness",
    "monte_carlo_rate",
    "propagation_bound",
    "propagation_rate",
    "score_bound",
    "sharp_jacobian_bound",
    "sharp_rate",
    "softmax_lipschitz",
    "third_moment_constant",
    "variance_rate",
]
