"""What the simulations of Appendix A start from: energies, particles, perceptrons of both draws."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere.energy import SphereEnergy

#: Particles on the circle and on spheres.
PARTICLES = {2: 1000, 3: 500}
#: Seeds of the published simulations: particles; perceptron on the circle and on spheres.
PARTICLE_SEED, PERCEPTRON_SEED = 42, {2: 777, 3: 111}


@dataclass(frozen=True, eq=False)
class Draw:
    """Particles and perceptron of one simulation."""

    start: Measure
    a: np.ndarray = field(repr=False)
    omega: np.ndarray = field(repr=False)

    def energy(self, beta: float, units: str = "none", normalised: bool = False) -> SphereEnergy:
        """Energy of one setup; ``units`` is ``"none"`` or the name of an activation."""
        perceptron = () if units == "none" else (self.a, self.omega, units)
        return SphereEnergy(beta, *perceptron, normalised=normalised)

    def asleep(self, x: np.ndarray) -> np.ndarray:
        """Whether no unit is active at the points x (n, d): the dead zone of ReLU."""
        return (np.asarray(x) @ self.a.T <= 0).all(axis=1)


def perceptron(d: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Perceptron of our second draw, the same in every run; seed 0: nothing was selected."""
    return _units(np.random.default_rng(0), d, scale)


def _units(rng: np.random.Generator, d: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """d units: normal vectors divided by their lengths, and normal weights times ``scale``."""
    a = rng.normal(size=(d, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, scale * rng.normal(size=d)


def start(d: int = 2, seed: int = 0, n: int | None = None) -> Measure:
    """Particles of our second draw, uniform on the sphere: 1000 on the circle, else 500."""
    n = n or PARTICLES[min(d, 3)]
    return Measure(Sphere().sample(np.random.default_rng([7, seed, d]), n, d))


def energy(
    beta: float, units: str = "none", normalised: bool = False, d: int = 2, scale: float = 1.0
) -> SphereEnergy:
    """Energy of one setup with our second perceptron."""
    return Draw(start(d, n=1), *perceptron(d, scale)).energy(beta, units, normalised)


def source_draw(
    d: int, *, start: int = 0, perceptron: int = 0, n: int | None = None, scale: float = 1.0
) -> Draw:
    r"""Return what the published simulations drew, number by number.

    The particles have seed 42, the perceptron 777 on the circle and 111 on spheres; NumPy's default
    generator. On the circle n angles are uniform on :math:`[0,2\pi)` radians, on spheres n standard
    normal vectors are divided by their lengths. Further draws have seeds of their own, integers
    below :math:`2^{31}-1` from a generator with the first seed.

    The seeds are named in the program's text for the circle and :math:`S^2`; that the second one
    was used for d > 3 too is our reading.
    """
    n, rng = n or PARTICLES[min(d, 3)], _generator(PARTICLE_SEED, start)
    if d == 2:
        angle = rng.uniform(0.0, 2 * np.pi, n)
        x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        x = rng.normal(size=(n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    units = _units(_generator(PERCEPTRON_SEED[min(d, 3)], perceptron), d, scale)
    return Draw(Measure(x), *units)


def _generator(seed: int, index: int) -> np.random.Generator:
    """Generator of the draw of this index."""
    rng = np.random.default_rng(seed)
    return np.random.default_rng(int(rng.integers(0, 2**31 - 1, size=index)[-1])) if index else rng
