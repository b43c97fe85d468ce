"""Tokens as particles: attention as a motion, and when it is a gradient flow."""

from companion.mathematics.tokens.asymmetry import asymmetry, centred_kernel, particle_jacobian
from companion.mathematics.tokens.energy import TokenEnergy, blow_up_bounds
from companion.mathematics.tokens.sinkhorn import sinkhorn_field, sinkhorn_potential
from companion.mathematics.tokens.softmax import softmax_field, softmax_potential

__all__ = [
    "TokenEnergy", "asymmetry", "blow_up_bounds", "centred_kernel", "particle_jacobian",
    "sinkhorn_field", "sinkhorn_potential", "softmax_field", "softmax_potential",
]  # fmt: skip
