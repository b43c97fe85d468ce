r"""Flows of measures: learning-rate profiles, gradient flow, stochastic gradient descent.

One engine moves the atoms of a measure along any velocity field; the Wasserstein gradient flow of
a functional is one of its uses. Times are rescaled times :math:`\tau` unless a profile
:math:`\xi` is given; then they are physical, :math:`\tau(t)=\int_0^t2\xi`.
"""

from mfbook.flow.engine import dissipation, flow, gradient_flow, sgd
from mfbook.flow.learning_rate import (
    LearningRate,
    constant,
    custom,
    polynomial_decay,
    warmup_cosine,
)
from mfbook.flow.solvers import RK4, Adaptive, Euler
from mfbook.flow.trajectory import Trajectory

__all__ = [
    "RK4", "Adaptive", "Euler", "LearningRate", "Trajectory", "constant", "custom", "dissipation",
    "flow", "gradient_flow", "polynomial_decay", "sgd", "warmup_cosine",
]  # fmt: skip
