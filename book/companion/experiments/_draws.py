"""What the simulations of Appendix A start from: energies, particles, perceptrons of both draws."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mfbook import _validate as validate
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


@dataclass(frozen=True, eq=False)
class Draw:
    """Particles and perceptron of one simulation.

    Attributes
    ----------
    start : Measure
        Particles of equal mass.
    a : array, shape (d, d)
    omega : array, shape (d,)
        Directions and weights of the units.

    Examples
    --------
    >>> draw = source_draw(2)
    >>> draw.start.size, draw.energy(5.0, "relu"), draw.energy(5.0)
    (1000, SphereEnergy(beta=5, 2 relu units), SphereEnergy(beta=5, no perceptron))
    """

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

    Parameters
    ----------
    d : int
        Dimension of the ambient space.
    start, perceptron : int
        Which draw of the particles, and of the perceptron; 0 is the one of all figures but one.
    n : int, optional
        Number of particles. Default: 1000 on the circle, else 500.
    scale : float
        Factor of the weights.

    Returns
    -------
    Draw

    Raises
    ------
    TypeError, ValueError
        If an argument is not such a number.

    Examples
    --------
    >>> draw = source_draw(2)
    >>> np.degrees(np.arctan2(draw.a[:, 1], draw.a[:, 0])).round(2), draw.omega.round(4)
    (array([ 175.38, -128.31]), array([ 0.6325, -0.4697]))
    """
    d = validate.count(d, "d", least=2)
    n = PARTICLES.get(d, PARTICLES[3]) if n is None else validate.count(n, "n")
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
    omega = validate.positive(scale, "scale", allow_zero=True) * rng.normal(size=d)
    return Draw(Measure(x), validate.frozen(a), validate.frozen(omega))


def _source_generator(seed: int, index: int, name: str) -> np.random.Generator:
    """Generator of the draw of this index."""
    rng = np.random.default_rng(seed)
    if validate.count(index, name, least=0) == 0:
        return rng
    return np.random.default_rng(int(rng.integers(0, 2**31 - 1, size=index)[-1]))
