"""Where potentials on the sphere are largest and least: regions of signs, closed forms, bounds.

Knows the sphere's energy and the idea; nothing here moves a particle.
"""

from companion.mathematics.landscape.arrangement import sign_regions
from companion.mathematics.landscape.extremal import maximise_potential

__all__ = ["maximise_potential", "sign_regions"]
