r"""Second-order points: the Hessian of the energy in the positions of all atoms, and Newton.

For :math:`\mu=\sum_iw_i\delta_{x_i}` the Wasserstein Hessian at fixed weights is the second
derivative of :math:`(x_i)\mapsto E(\mu)`. In the metric of :math:`L^2(\mu)` its matrix is
:math:`\sqrt{w_i}\,J_{il}/\sqrt{w_l}` with J the Jacobian of the gradient field. A stationary
measure is a *second-order point of descent* (SOPD) if no eigenvalue is negative, strictly if all
are positive.
"""

from dataclasses import dataclass, field

import numpy as np

from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere.energy import SphereEnergy
from mfbook.sphere.linearised import frames, jacobian
from mfbook.stability.atomic import check

__all__ = ["Polished", "SecondOrder", "newton", "second_order"]


@dataclass(frozen=True, eq=False)
class SecondOrder:
    r"""First and second derivatives of the energy at a measure with m atoms.

    - ``gradient``: Largest :math:`\|u(x_i;\mu)\|`: 0 where the measure is stationary.
    - ``eigenvalues`` (m (d-1),), ``least``: Of the Hessian in :math:`L^2(\mu)`, increasing.
    """

    gradient: float
    least: float
    eigenvalues: np.ndarray = field(repr=False)

    def sopd(self, tolerance: float = 1e-9) -> bool:
        """Whether the measure is stationary without descending direction, up to rounding."""
        tolerance = validate.positive(tolerance, "tolerance", allow_zero=True)
        return self.gradient <= tolerance and self.least >= -tolerance


def second_order(F: SphereEnergy, mu: Measure) -> SecondOrder:
    r"""Gradient and Hessian of the energy at fixed weights, in the geometry of :math:`L^2(\mu)`.

    - ``F``: The energy counts, not the normalisation of the velocity. For ascent take the negative
      of the eigenvalues.
    - ``mu``: Real atoms with positive weights.

    Two antipodal particles are stable under repulsion:

    >>> from mfbook.sphere import SphereEnergy
    >>> report = second_order(SphereEnergy(1.0), Measure([[1.0, 0.0], [-1.0, 0.0]]))
    >>> report.eigenvalues.round(4), report.sopd()
    (array([0.    , 0.1353]), True)
    """
    _check(F, mu)
    values = np.linalg.eigvalsh(_hessian(F, mu.atoms, mu.weights))
    return SecondOrder(_derivative(F, mu)[2], float(values[0]), values)


def _hessian(F, x, w):
    root = np.repeat(np.sqrt(w), x.shape[1] - 1)
    H = root[:, None] * jacobian(F, x, w, normalised=False) / root
    return (H + H.T) / 2


def _derivative(F, mu):
    """Energy, field u at the atoms, and its largest norm."""
    local = F.at(mu)
    u = Sphere().tangent(mu.atoms, local.gradient(mu.atoms))
    return float(local.value), u, float(np.linalg.norm(u, axis=1).max())


@dataclass(frozen=True, eq=False)
class Polished:
    """The outcome of Newton's method on the positions of the atoms, as in :class:`SecondOrder`.

    ``converged``: whether ``gradient`` and the negative part of ``least`` are within the tolerance.
    """

    measure: Measure
    gradient: float
    least: float
    converged: bool
    iterations: int


def newton(
    F: SphereEnergy, mu: Measure, *, tolerance: float = 1e-10, maxiter: int = 200
) -> Polished:
    r"""Descend to a second-order point: Newton steps on the positions, weights fixed.

    Each step solves :math:`(H+\lambda)\eta=-\nabla E` with the least shift that makes the matrix
    positive, and is halved until E falls; where the gradient vanishes and H has a negative
    eigenvalue the step follows its eigenvector. States at which a simulation stopped become points
    at which second-order theorems can be tested.

    - ``F``: To minimise.
    - ``mu``: Real atoms with positive weights; at most a thousand or so, the matrix is dense.
    - ``tolerance``: On the largest velocity, and on the negative part of the spectrum.
    """
    _check(F, mu)
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    energy, u, speed = _derivative(F, mu)
    for iteration in range(maxiter + 1):
        x, w, T = mu.atoms, mu.weights, frames(mu.atoms)
        values, vectors = np.linalg.eigh(_hessian(F, x, w))
        least = float(values[0])
        converged = speed <= tolerance and least >= -tolerance
        if converged or iteration == maxiter:
            break
        along = vectors.T @ (np.einsum("idp,id->ip", T, u) * np.sqrt(w)[:, None]).ravel()
        shift = max(0.0, -2 * least) + 1e-12 * max(1.0, values[-1])
        step = -vectors @ (along / (values + shift))
        if speed <= max(tolerance, 1e-7) and least < -tolerance:
            step += vectors[:, 0] * (1e-3 if along[0] <= 0 else -1e-3)
        eta = np.einsum("idp,ip->id", T, step.reshape(len(x), -1) / np.sqrt(w)[:, None])
        # a particle moves by at most half a radian: the matrix knows nothing further away
        eta *= min(1.0, 0.5 / max(np.linalg.norm(eta, axis=1).max(), 1e-300))
        noise = 1e-13 * max(1.0, abs(energy))
        for _ in range(40):
            moved = Measure(Sphere().retract(x, eta), w)
            value, velocity, fastest = _derivative(F, moved)
            # the energy falls, or the velocities do where energies are rounded
            if value < energy - noise or (value <= energy + noise and fastest < speed):
                break
            eta = eta / 2
        else:
            break
        mu, energy, u, speed = moved, value, velocity, fastest
    return Polished(mu, speed, least, converged, iteration)


def _check(F, mu) -> None:
    check(validate.instance(F, "F", SphereEnergy), mu)
    F.at(mu)  # refuses atoms of the wrong dimension
