r"""Flows of measures: learning-rate profiles, gradient flow, stochastic gradient descent.

One engine moves the atoms of a measure along any velocity field; the Wasserstein gradient flow of
a functional is one of its uses. Times are rescaled times :math:`\tau` unless a profile
:math:`\xi` is given; then they are physical, :math:`\tau(t)=\int_0^t2\xi`.
"""

import importlib
from typing import TYPE_CHECKING

from mfbook.flow.engine import dissipation, flow, gradient_flow
from mfbook.flow.learning_rate import (
    LearningRate,
    constant,
    custom,
    polynomial_decay,
    warmup_cosine,
)
from mfbook.flow.sgd import sgd
from mfbook.flow.solvers import RK4, Adaptive, Euler
from mfbook.flow.trajectory import Trajectory

if TYPE_CHECKING:
    from mfbook.flow.rosenbrock import Rosenbrock

__all__ = [
    "RK4",
    "Adaptive",
    "Euler",
    "LearningRate",
    "Rosenbrock",
    "Trajectory",
    "constant",
    "custom",
    "dissipation",
    "flow",
    "gradient_flow",
    "polynomial_decay",
    "sgd",
    "warmup_cosine",
]


def __getattr__(name: str):
    if name == "Rosenbrock":  # a class of SciPy's kind: imported with SciPy's, when asked for
        return importlib.import_module("mfbook.flow.rosenbrock").Rosenbrock
    raise AttributeError(f"module 'mfbook.flow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
