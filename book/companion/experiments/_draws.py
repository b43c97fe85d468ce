"""What the simulations of Appendix A start from: energies, particles, perceptrons of both draws."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere.energy import SphereEnergy

__all__ = [
    "Draw", "PARTICLES", "PARTICLE_SEED", "PERCEPTRON_SEED", "energy", "perceptron", "source_draw",
    "start",
]  # fmt: skip

#: Particles on the circle and on spheres.
PARTICLES = {2: 1000, 3: 500}
#: Seeds of the published simulations: particles; perceptron on the circle and on spheres.
PARTICLE_SEED, PERCEPTRON_SEED = 42, {2: 777, 3: 111}


def perceptron(d: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the perceptron of Appendix A in dimension d: d random units, the same in every run.

    Directions are standard normal vectors, normalised; weights are standard normal numbers times
    ``scale``. The seed is 0: nothing was selected.
    """
    rng = np.random.default_rng(0)
    a = rng.normal(size=(d, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, scale * rng.normal(size=d)


def energy(
    beta: float, units: str = "none", normalised: bool = False, d: int = 2, scale: float = 1.0
) -> SphereEnergy:
    """Energy of one setup; ``units`` is ``"none"`` or the name of an activation."""
    if units == "none":
        return SphereEnergy(beta, normalised=normalised)
    return SphereEnergy(beta, *perceptron(d, scale), units, normalised)


def start(d: int = 2, seed: int = 0, n: int | None = None) -> Measure:
    """Particles drawn uniformly from the sphere, all of one mass: 1000 on the circle, else 500."""
    n = PARTICLES.get(d, PARTICLES[3]) if n is None else n
    return Measure(Sphere().sample(np.random.default_rng([7, seed, d]), n, d))


@dataclass(frozen=True, eq=False)
class Draw:
    """Particles and perceptron of one simulation."""

    start: Measure
    a: np.ndarray = field(repr=False)
    omega: np.ndarray = field(repr=False)

    def energy(self, beta: float, units: str = "none", normalised: bool = False) -> SphereEnergy:
        """Energy of one setup; ``units`` is ``"none"`` or the name of an activation."""
        if units == "none":
            return SphereEnergy(beta, normalised=normalised)
        return SphereEnergy(beta, self.a, self.omega, units, normalised)

    def asleep(self, x: np.ndarray) -> np.ndarray:
        """Whether no unit is active at the points x (n, d): the dead zone of ReLU."""
        return (np.asarray(x) @ self.a.T <= 0).all(axis=1)


def source_draw(
    d: int, *, start: int = 0, perceptron: int = 0, n: int | None = None, scale: float = 1.0
) -> Draw:
    r"""Return what the published simulations drew, number by number.

    The particles have seed 42, the perceptron 777 on the circle and 111 on spheres; NumPy's default
    generator. On the circle n angles are uniform on :math:`[0,2\pi)` radians, on spheres n standard
    normal vectors are divided by their lengths. The perceptron has d units: standard normal
    directions, divided by their lengths, then d weights, normal with deviation ``scale``. Further
    draws have seeds of their own, integers below :math:`2^{31}-1` from a generator with the first
    seed.

    The seeds are named in the program's text for the circle and :math:`S^2`; that the second one
    was used for d > 3 too is our reading.
    """
    n = PARTICLES.get(d, PARTICLES[3]) if n is None else n
    rng = _source_generator(PARTICLE_SEED, start, "start")
    if d == 2:
        angle = rng.uniform(0.0, 2 * np.pi, n)
        x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        x = rng.normal(size=(n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    rng = _source_generator(PERCEPTRON_SEED[min(d, 3)], perceptron, "perceptron")
    a = rng.normal(size=(d, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    omega = scale * rng.normal(size=d)
    return Draw(Measure(x), a, omega)


def _source_generator(seed: int, index: int, name: str) -> np.random.Generator:
    """Generator of the draw of this index."""
    rng = np.random.default_rng(seed)
    if index == 0:
        return rng
    return np.random.default_rng(int(rng.integers(0, 2**31 - 1, size=index)[-1]))
