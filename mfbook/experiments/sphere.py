r"""Where the flows of Appendix A stop: every setup of the simulations, for every temperature.

``python -m mfbook.experiments.sphere`` computes the file ``sphere.npz`` of ``book/data``.
"""

from __future__ import annotations

import numpy as np

from .. import _validate as validate
from ..measure import Measure
from ..space import Sphere
from ..sphere import SphereEnergy

__all__ = ["BETAS", "PARTICLES", "SCALES", "energy", "perceptron", "start"]

#: Inverse temperatures of the simulations.
BETAS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0, 25.0, 35.0, 50.0)
#: Particles on the circle and on spheres.
PARTICLES = {2: 1000, 3: 500}
#: Factors of the perceptron's weights whose effect on the time to converge is measured.
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def perceptron(d: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the perceptron of Appendix A in dimension d: d random units, the same in every run.

    Directions are standard normal vectors, normalised; weights are standard normal numbers times
    ``scale``. The seed is 0: nothing was selected.

    Returns
    -------
    a : array, shape (d, d)
    omega : array, shape (d,)

    Examples
    --------
    >>> a, omega = perceptron(2)
    >>> omega.round(2)
    array([-0.54,  0.36])
    """
    d = validate.count(d, "d", least=2)
    rng = np.random.default_rng(0)
    a = rng.normal(size=(d, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, validate.positive(scale, "scale", allow_zero=True) * rng.normal(size=d)


def energy(
    beta: float, units: str = "none", normalised: bool = False, d: int = 2, scale: float = 1.0
) -> SphereEnergy:
    """Energy of one setup; ``units`` is ``"none"`` or the name of an activation.

    Examples
    --------
    >>> energy(5.0, "gelu")
    SphereEnergy(beta=5, 2 gelu units)
    """
    if units == "none":
        return SphereEnergy(beta, normalised=normalised)
    return SphereEnergy(beta, *perceptron(d, scale), units, normalised)


def start(d: int = 2, seed: int = 0, n: int | None = None) -> Measure:
    """Particles drawn uniformly from the sphere, all of one mass: 1000 on the circle, else 500.

    Examples
    --------
    >>> start().size, start(3).size
    (1000, 500)
    """
    n = PARTICLES.get(d, PARTICLES[3]) if n is None else validate.count(n, "n")
    return Measure(Sphere().sample(np.random.default_rng([7, seed, d]), n, d))
