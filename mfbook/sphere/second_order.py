r"""Second-order points: the Hessian of the energy in the positions of all atoms, and Newton.

For :math:`\mu=\sum_iw_i\delta_{x_i}` the Wasserstein Hessian at fixed weights is the second
derivative of :math:`(x_i)\mapsto E(\mu)`. In the metric of :math:`L^2(\mu)` its matrix is
:math:`\sqrt{w_i}\,J_{il}/\sqrt{w_l}` with J the Jacobian of the gradient field. A stationary
measure is a *second-order point of descent* (SOPD) if no eigenvalue is negative, strictly if all
are positive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere.energy import SphereEnergy
from mfbook.sphere.linearised import _frames, jacobian

__all__ = ["Polished", "SecondOrder", "newton", "second_order", "velocity_jacobian"]

SPHERE = Sphere()


@dataclass(frozen=True, eq=False)
class SecondOrder:
    r"""First and second derivatives of the energy at a measure with m atoms.

    - ``gradient``: Largest :math:`\|u(x_i;\mu)\|`: 0 where the measure is stationary.
    - ``eigenvalues`` (m (d-1),): Of the Hessian in :math:`L^2(\mu)`, increasing.
    - ``modes`` (m (d-1), m, d): Its eigenvectors, tangent, with :math:`\sum_iw_i\|\eta_i\|^2=1`.
    """

    measure: Measure
    gradient: float
    eigenvalues: np.ndarray = field(repr=False)
    modes: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"SecondOrder({self.measure.size} atoms: least eigenvalue {self.least:.3g}, "
            f"|gradient| {self.gradient:.1g})"
        )

    @property
    def least(self) -> float:
        """Least eigenvalue."""
        return float(self.eigenvalues[0])

    def sopd(self, tolerance: float = 1e-9) -> bool:
        """Whether the measure is stationary without descending direction, up to rounding."""
        tolerance = validate.positive(tolerance, "tolerance", allow_zero=True)
        return self.gradient <= tolerance and self.least >= -tolerance


def velocity_jacobian(F: SphereEnergy, mu: Measure) -> np.ndarray:
    r"""Jacobian of the velocities of all atoms in their positions, in tangent frames.

    - ``F``: With ``normalised`` the Jacobian is that of the normalised velocity, not symmetric in
      any weights.
    - ``mu``: Real atoms.

    Returns shape (m (d-1), m (d-1)): On the circle: the matrix of :math:`\partial
    u_i/\partial\theta_l`.
    """
    _real(F, mu)
    return jacobian(F, mu.atoms, mu.weights, F.normalised)


def second_order(F: SphereEnergy, mu: Measure) -> SecondOrder:
    r"""Gradient and Hessian of the energy at fixed weights, in the geometry of :math:`L^2(\mu)`.

    - ``F``: The energy counts, not the normalisation of the velocity. For ascent take the negative
      of the eigenvalues.
    - ``mu``: Real atoms with positive weights.

    Examples
    --------
    Two antipodal particles are stable under repulsion:

    >>> from mfbook.sphere import SphereEnergy
    >>> report = second_order(SphereEnergy(1.0), Measure([[1.0, 0.0], [-1.0, 0.0]]))
    >>> report.eigenvalues.round(4), report.sopd()
    (array([0.    , 0.1353]), True)
    >>> round(report.least, 4) + 0.0
    0.0
    """
    _real(F, mu)
    if not (mu.weights > 0).all():
        raise ValueError(f"mu: expected positive weights, got {mu.weights.min():g}; see merge()")
    values, vectors = np.linalg.eigh(_hessian(F, mu.atoms, mu.weights))
    m, d = mu.atoms.shape
    vectors = vectors.T.reshape(-1, m, d - 1) / np.sqrt(mu.weights)[None, :, None]
    modes = np.einsum("idp,kip->kid", _frames(mu.atoms), vectors)
    return SecondOrder(mu, _speed(F, mu), values, modes)


def _hessian(F, x, w):
    root = np.repeat(np.sqrt(w), x.shape[1] - 1)
    H = root[:, None] * jacobian(F, x, w, normalised=False) / root
    return (H + H.T) / 2


def _gradient(F, mu):
    return SPHERE.tangent(mu.atoms, F.at(mu).gradient(mu.atoms))


def _speed(F, mu) -> float:
    return float(np.linalg.norm(_gradient(F, mu), axis=1).max())


@dataclass(frozen=True, eq=False)
class Polished:
    """The outcome of Newton's method on the positions of the atoms.

    - ``gradient``: Largest velocity of an atom.
    - ``least``: Least eigenvalue of the Hessian in L^2.
    - ``converged``: Whether the gradient and the descending curvature fell below the tolerance.
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
    - ``maxiter``: Most steps.
    """
    second_order(F, mu)  # refuses bad arguments
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    x, w = mu.atoms, mu.weights
    n, d = x.shape
    energy = F(mu)
    for iteration in range(maxiter + 1):
        state = Measure(x, w)
        u, T = _gradient(F, state), _frames(x)
        values, vectors = np.linalg.eigh(_hessian(F, x, w))
        speed, least = float(np.linalg.norm(u, axis=1).max()), float(values[0])
        if (speed <= tolerance and least >= -tolerance) or iteration == maxiter:
            break
        g = (np.einsum("idp,id->ip", T, u) * np.sqrt(w)[:, None]).ravel()
        along = vectors.T @ g
        shift = max(0.0, -2 * least) + 1e-12 * max(1.0, values[-1])
        step = -vectors @ (along / (values + shift))
        if speed <= max(tolerance, 1e-7) and least < -tolerance:
            first = vectors[:, 0] * (1.0 if along[0] <= 0 else -1.0)
            step = step + 1e-3 * first
        eta = np.einsum("idp,ip->id", T, step.reshape(n, d - 1) / np.sqrt(w)[:, None])
        # a particle moves by at most half a radian: the matrix knows nothing further away
        eta *= min(1.0, 0.5 / max(np.linalg.norm(eta, axis=1).max(), 1e-300))
        x, energy, moved = _backtrack(F, x, w, eta, energy, speed)
        if not moved:
            break
    return Polished(
        Measure(x, w), speed, least, speed <= tolerance and least >= -tolerance, iteration
    )


def _backtrack(F, x, w, eta, energy, speed):
    """Halve the step until the energy falls, or the velocities do where energies are rounded."""
    for _ in range(40):
        trial = Measure(SPHERE.retract(x, eta), w)
        value = F(trial)
        noise = 1e-13 * max(1.0, abs(energy))
        if value < energy - noise or (value <= energy + noise and _speed(F, trial) < speed):
            return trial.atoms, value, True
        eta = eta / 2
    return x, energy, False


def _real(F, mu) -> None:
    if not hasattr(F, "beta") or not hasattr(F, "activation"):
        raise TypeError(f"F: expected a SphereEnergy, got {F!r}")
    validate.instance(mu, "mu", Measure)
    if np.iscomplexobj(mu.atoms):
        raise TypeError("mu: expected real atoms, got complex ones")
    F.at(mu)  # refuses atoms of the wrong dimension or off the sphere
