r"""Attention and a perceptron on the sphere (Appendix A).

Tokens are unit vectors; their law flows up or down an energy that couples the exponential kernel
of attention with the potential of a perceptron. Points are unit vectors of :math:`\mathbb R^d`
everywhere, on the circle too.
"""

from .activations import (
    GELU,
    LEAKY_RELU,
    LINEAR,
    RELU,
    TANH,
    Activation,
    activation,
    leaky_relu,
)
from .energy import Field, SphereEnergy
from .linearised import Linearised, frames
from .second_order import Polished, SecondOrder, newton, second_order, velocity_jacobian

__all__ = [
    "GELU",
    "LEAKY_RELU",
    "LINEAR",
    "RELU",
    "TANH",
    "Activation",
    "Field",
    "Linearised",
    "Polished",
    "SecondOrder",
    "SphereEnergy",
    "activation",
    "frames",
    "leaky_relu",
    "newton",
    "second_order",
    "velocity_jacobian",
]
