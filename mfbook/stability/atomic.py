r"""Stability at fixed weights of a stationary measure with finitely many atoms.

Let :math:`\mu=\sum_jw_j\delta_{\theta_j}` be stationary. Split every atom into particles that start
near it. With :math:`H_j=\nabla^2\delta F(\theta_j;\mu)` and :math:`w_lK_{jl}` the derivative of
:math:`\nabla\delta F(\theta_j;\cdot)` in the l-th atom, the linearised flow is

.. math:: \dot\eta_{j}=-H_j\eta_{j}-\sum_lw_lK_{jl}\bar\eta_l,

where :math:`\bar\eta_l` is the mean displacement of the particles of atom l. So means move with the
block matrix :math:`(H_j\delta_{jl}+w_lK_{jl})` and deviations from them with :math:`H_j` alone.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure, check_start
from mfbook.space import Ball, Euclidean, Sphere

__all__ = ["AtomicStability", "atomic_stability"]

#: Size of complex steps. They have no cancellation, so the square is far below rounding.
TINY = 1e-20
#: Relative error of one rounding.
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class AtomicStability:
    r"""Second derivatives of a functional at a measure with m atoms, and their spectra.

    - ``gradient`` (m, D): :math:`\nabla\delta F` at the atoms, as far as the space allows: zero
      where the measure is stationary.
    - ``H`` (m, D, D), ``K`` (m, m, D, D): :math:`H_j` and :math:`K_{jl}=K_{lj}^\top`.
    - ``deviations`` (m, n): Eigenvalues of each :math:`H_j` on its tangent space, increasing.
    - ``collective`` (m n,): Eigenvalues of the block matrix :math:`(H_j\delta_{jl}+w_lK_{jl})`.
    - ``modes`` (m n, m, D): Its eigenvectors :math:`\eta`, with :math:`\sum_jw_j\|\eta_j\|^2=1`.
    """

    measure: Measure
    gradient: np.ndarray = field(repr=False)
    H: np.ndarray = field(repr=False)
    K: np.ndarray = field(repr=False)
    deviations: np.ndarray = field(repr=False)
    collective: np.ndarray = field(repr=False)
    modes: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"AtomicStability({self.measure.size} atoms: least eigenvalue {self.least:.3g}, all "
            f"together {self.collective[0]:.3g}; |gradient| {np.abs(self.gradient).max():.1g})"
        )

    @property
    def least(self) -> float:
        r"""Least value of the form (49) over random directions of mean square one.

        The mean of a direction meets the block matrix, the rest the :math:`H_j` alone.
        """
        return float(min(self.deviations.min(), self.collective.min()))


def atomic_stability(F: Functional, mu: Measure) -> AtomicStability:
    r"""Blocks and spectra of the linearised flow around a measure with finitely many atoms.

    The measure need not be stationary. It costs m D evaluations of ``F.at`` with complex atoms.

    - ``F``: Accepting complex points and atoms.
    - ``mu``: Positive weights, real atoms, inside the balls if ``F.space`` has some.

    >>> from mfbook.confinement import Ridge
    >>> report = atomic_stability(Ridge(2.0), Measure([[1.0, 0.0], [0.0, 3.0]], [0.25, 0.75]))
    >>> report.deviations.tolist(), report.least
    ([[2.0, 2.0], [2.0, 2.0]], 2.0)
    """
    check(F, mu)
    x, w = mu.atoms, mu.weights
    space: Any = F.space
    m, D = x.shape
    local = F.at(mu)
    gradient = local.gradient(x)
    H = curvature(local, x)
    # weights so small that the step times them is none get a little mass, far below rounding
    lifted = Measure(x, np.maximum(w, EPS**2))
    K = np.stack([response(F, lifted, j, x) for j in range(m)], axis=1)
    _compare(F, mu, H, K)

    H = np.array([space.hessian(p, g, h) for p, g, h in zip(x, gradient, H, strict=True)])
    bases = [_basis(space, p) for p in x]
    P = np.array([B @ B.T for B in bases])
    K = P[:, None] @ K @ P[None]
    B = scipy.linalg.block_diag(*bases)
    root = np.repeat(np.sqrt(w), D)
    blocks = scipy.linalg.block_diag(*H) + root[:, None] * _square(K) * root
    values, vectors = np.linalg.eigh(_symmetric(B.T @ blocks @ B))
    modes = (B @ vectors).T.reshape(-1, m, D) / np.sqrt(w)[:, None]
    inner = [_symmetric(b.T @ h @ b) for b, h in zip(bases, H, strict=True)]
    deviations = np.array([np.linalg.eigvalsh(h) for h in inner])
    return AtomicStability(mu, -space.tangent(x, -gradient), H, K, deviations, values, modes)


def curvature(local, x) -> np.ndarray:
    r""":math:`\nabla^2\delta F` at the points x (n, D), shape (n, D, D)."""
    steps = x[:, None] + 1j * TINY * np.eye(x.shape[1])
    columns = local.gradient(steps.reshape(-1, x.shape[1])).imag / TINY
    return columns.reshape(steps.shape)


def response(F, mu: Measure, j: int, x) -> np.ndarray:
    r""":math:`K(x,\theta_j;\mu)`: how gradients at x (n, D) move with atom j, shape (n, D, D)."""
    columns = []
    for e in np.eye(mu.dim):
        moved = mu.atoms.astype(complex)
        moved[j] += 1j * TINY * e
        columns.append(F.at(Measure(moved, mu.weights)).gradient(x).imag / TINY / mu.weights[j])
    return np.stack(columns, axis=-1)


def rayleigh(force, delta, w):
    r"""Quotient :math:`\mathbb E\langle f(\delta),\delta\rangle/\mathbb E\|\delta\|^2`.

    And its gradient, for a force f whose derivative at :math:`\delta` is symmetric in the mean.
    """
    f, along = force(delta), force(delta * (1 + 1j * TINY)).imag / TINY
    below = w @ (delta * delta).sum(axis=1)
    value = w @ (f * delta).sum(axis=1) / below
    return float(value), w[:, None] * (f + along - 2 * value * delta) / below


def functional(F, *, flat: bool = False) -> None:
    """Refuse what is no functional and, if asked, a functional on a curved space."""
    validate.functional(F)
    if flat and isinstance(F.space, Sphere):
        raise ValueError(f"F: expected a functional on a flat space, got one on {F.space}")


def check(F, mu) -> None:
    functional(F)
    check_start(mu, F.space)
    if not (mu.weights > 0).all():
        raise ValueError(f"mu: expected positive weights, got {mu.weights.min():g}; see merge()")
    # a point is inside a ball if it stays allowed when every block grows a little
    if isinstance(F.space, Ball) and not (inside := F.space.contains(mu.atoms * (1 + 1e-6))).all():
        raise ValueError(
            f"mu: expected atoms inside {F.space}, atom {int(np.argmin(inside))} is on its "
            "boundary, where the projected flow has no linearisation"
        )


def _basis(space, x) -> np.ndarray:
    """Orthonormal basis (D, n) of the tangent space at one point."""
    if isinstance(space, (Euclidean, Ball)):
        return np.eye(len(x))
    P = space.tangent(np.broadcast_to(x, (len(x), len(x))), np.eye(len(x)))
    values, vectors = np.linalg.eigh(_symmetric(P))
    return vectors[:, values > 0.5]


def _symmetric(A) -> np.ndarray:
    return (A + A.T) / 2


def _square(K) -> np.ndarray:
    """Blocks (m, m, D, D) as one matrix."""
    return K.transpose(0, 2, 1, 3).reshape(K.shape[0] * K.shape[2], -1)


def _compare(F, mu, H, K) -> None:
    """Refuse second derivatives that are not symmetric, or that differences do not confirm.

    A program that takes absolute values or conjugates has wrong complex steps. So the derivative of
    the gradient along one motion of all atoms is compared with central differences.
    """
    x, w, space = mu.atoms, mu.weights, F.space
    gradient = F.at(mu).gradient(x)
    h, v = np.cbrt(EPS), np.random.default_rng(0).uniform(-1, 1, size=x.shape)
    # on a sphere a functional may be defined there only; in a ball it is asked a step outside
    place = space if isinstance(space, Sphere) else Euclidean()
    v = place.tangent(x, v)
    up, down = (F.at(Measure(y, w)).gradient(y) for y in (place.retract(x, s * v) for s in (h, -h)))
    stated = np.einsum("jab,ja->jb", H, v) + np.einsum("l,jlab,lb->ja", w, K, v)
    error = float(np.abs((up - down) / (2 * h) - stated).max())
    skew = max(np.abs(A - A.swapaxes(-1, -2)).max() for A in (H, _square(K)))
    size = max(np.abs(H).max(), np.abs(K).max()) * np.sqrt(mu.dim)
    # the differences lose digits where points or gradients are large beside their step; and where
    # everything cancels, as for labels that a measure explains, both sides are rounding
    lost = EPS * (1 + np.abs(x).max()) / h
    allowed = (1e-4 + 100 * np.sqrt(EPS) + lost) * size
    allowed += 1e3 * EPS * (1 + np.abs(gradient).max() / h)
    for what, by in (
        ("complex steps and central differences of its gradient disagree", error),
        ("its gradient is no functional's: second derivatives are not symmetric", skew),
    ):
        if not by <= allowed:
            raise ValueError(f"F: {what}, by {by:.3g} (size {size:.3g}); see check_functional")
