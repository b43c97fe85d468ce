r"""Stability at fixed weights of a stationary measure with finitely many atoms.

Let :math:`\mu=\sum_jw_j\delta_{\theta_j}` be stationary. Split every atom into particles that start
near it. With :math:`H_j=\nabla^2\delta F(\theta_j;\mu)` and :math:`w_lK_{jl}` the derivative of
:math:`\nabla\delta F(\theta_j;\cdot)` in the l-th atom, the linearised flow is

.. math:: \dot\eta_{j}=-H_j\eta_{j}-\sum_lw_lK_{jl}\bar\eta_l,

where :math:`\bar\eta_l` is the mean displacement of the particles of atom l. So means move with the
block matrix :math:`(H_j\delta_{jl}+w_lK_{jl})` and deviations from them with :math:`H_j` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure
from mfbook.space import Ball, Euclidean, Sphere

__all__ = ["AtomicStability", "atomic_stability", "second_variation"]

#: Size of complex steps. They have no cancellation, so the square is far below rounding; and small
#: weights or gradients times the step are still normal numbers in float32.
TINY = 1e-20


@dataclass(frozen=True, eq=False)
class AtomicStability:
    r"""Second derivatives of a functional at a measure with m atoms, and their spectra.

    - ``gradient`` (m, D): :math:`\nabla\delta F` at the atoms, in the directions that the space
      allows; zero where the measure is stationary.
    - ``H`` (m, D, D): :math:`H_j=\nabla^2\delta F(\theta_j;\mu)`.
    - ``K`` (m, m, D, D): Interaction :math:`K_{jl}`, with :math:`K_{lj}=K_{jl}^\top`.
    - ``deviations`` (m, n): Eigenvalues of each :math:`H_j`, increasing; n is the dimension of the
      tangent space.
    - ``collective`` (m * n,): Eigenvalues of the block matrix :math:`(H_j\delta_{jl}+w_lK_{jl})`,
      increasing.
    - ``modes`` (m * n, m, D): Its eigenvectors :math:`\eta`, with :math:`\sum_jw_j\|\eta_j\|^2=1`.
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

        A random direction may differ between particles at the same place: its mean meets the
        block matrix, the rest the :math:`H_j` alone. The interaction is not negative for a
        functional that is convex along mixtures; then this is :math:`\min_j\lambda_{\min}(H_j)`.
        """
        return float(min(self.deviations.min(), self.collective.min()))


def atomic_stability(F: Functional, mu: Measure) -> AtomicStability:
    r"""Blocks and spectra of the linearised flow around a measure with finitely many atoms.

    It costs m D evaluations of ``F.at`` with complex atoms. The measure need not be stationary:
    ``gradient`` says how far it is from it.

    - ``F``: Accepting complex points and atoms.
    - ``mu``: Real atoms, all with positive weight; inside the balls if ``F.space`` is a ball.

    Examples
    --------
    >>> from mfbook.confinement import Ridge
    >>> report = atomic_stability(Ridge(2.0), Measure([[1.0, 0.0], [0.0, 3.0]], [0.25, 0.75]))
    >>> report.deviations, report.collective
    (array([[2., 2.],
           [2., 2.]]), array([2., 2., 2., 2.]))
    >>> float(report.least)
    2.0
    """
    _check(F, mu)
    x, w = mu.atoms, mu.weights
    space: Any = F.space
    m, D = x.shape
    local = F.at(mu)
    gradient = local.gradient(x)
    steps = x[:, None] + 1j * TINY * np.eye(D)
    H = local.gradient(steps.reshape(m * D, D)).imag.reshape(m, D, D) / TINY
    K = np.empty((m, m, D, D))
    # weights so small that the step times them is none get a little mass, far below rounding
    lifted = np.maximum(w, precision(F, gradient.dtype) ** 2)
    for index in np.ndindex(m, D):
        moved = x.astype(complex)
        moved[index] += 1j * TINY
        slope = F.at(Measure(moved, lifted)).gradient(x).imag / TINY
        K[:, index[0], :, index[1]] = slope / lifted[index[0]]
    _compare(F, mu, H, K)

    bases = [_basis(space, p) for p in x]
    H = np.array([space.hessian(p, g, h) for p, g, h in zip(x, gradient, H, strict=True)])
    P = np.array([B @ B.T for B in bases])
    K = P[:, None] @ K @ P[None]
    allowed = -space.tangent(x, -gradient)
    B = scipy.linalg.block_diag(*bases)
    root = np.repeat(np.sqrt(w), D)
    blocks = (
        scipy.linalg.block_diag(*H)
        + root[:, None] * K.transpose(0, 2, 1, 3).reshape(m * D, m * D) * root
    )
    inner = [b.T @ h @ b for b, h in zip(bases, H, strict=True)]
    values, vectors = np.linalg.eigh(_symmetric(B.T @ blocks @ B))
    modes = (B @ vectors).T.reshape(-1, m, D) / np.sqrt(w)[:, None]
    deviations = np.array([np.linalg.eigvalsh(_symmetric(h)) for h in inner])
    return AtomicStability(mu, allowed, H, K, deviations, values, modes)


def second_variation(F: Functional, mu: Measure, eta: ArrayLike) -> tuple[float, float]:
    r"""Return the two terms of the second-order form (49) in one direction.

    .. math:: \int\eta^\top\nabla^2\delta F(\theta;\mu)\,\eta\,d\mu,\qquad
              \iint\eta(\theta)^\top K(\theta,\theta';\mu)\,\eta(\theta')\,d\mu\,d\mu

    For the risk of attention heads the second is :math:`\mathbb E\frac1T\sum_tu_t^\top Ju_t` with
    :math:`u=\int\nabla\varphi\,\eta\,d\mu` (Remark 7.4). In a flat space their sum is the second
    derivative of F along :math:`\theta\mapsto\theta+s\,\eta(\theta)`. Two complex steps.

    - ``F``: Whose second variation.
    - ``mu``: As in :func:`atomic_stability`. Repeated atoms with different directions are a random
      direction.
    - ``eta`` (m, D): One direction for each atom; only its tangent part counts.

    Returns curvature of the first variation, and of its dependence on the law.
    """
    _check(F, mu)
    x = mu.atoms
    space: Any = F.space
    eta = F.space.tangent(x, validate.array(eta, "eta", x.shape, largest=validate.LARGEST))
    local = F.at(mu)
    second = local.gradient(x + 1j * TINY * eta).imag / TINY
    # what curvature of the space adds to the ambient Hessian: nothing where it is flat
    flat = np.zeros((mu.dim, mu.dim))
    bent = [space.hessian(p, g, flat) for p, g in zip(x, local.gradient(x), strict=True)]
    curvature = (second * eta).sum(axis=1) + np.einsum("ja,jab,jb->j", eta, bent, eta)
    moved = F.at(Measure(x + 1j * TINY * eta, mu.weights)).gradient(x).imag / TINY
    return float(mu.weights @ curvature), float(mu.weights @ (moved * eta).sum(axis=1))


def functional(F, *, flat: bool = False) -> None:
    """Refuse what is no functional and, if asked, a functional on a curved space."""
    validate.functional(F)
    if flat and isinstance(F.space, Sphere):
        raise ValueError(f"F: expected a functional on a flat space, got one on {F.space}")


def precision(F, dtype) -> float:
    """Relative rounding error of a gradient of this type: that of the roughest term of F."""
    terms = [G for _, G in getattr(F, "terms", ((1.0, F),))]
    return max(float(np.finfo(getattr(G, "dtype", dtype)).eps) for G in terms)


def _check(F, mu) -> None:
    functional(F)
    check_measure(mu, largest=validate.LARGEST)
    if not (mu.weights > 0).all():
        raise ValueError(f"mu: expected positive weights, got {mu.weights.min():g}; see merge()")
    space = F.space
    if getattr(space, "dim", mu.dim) != mu.dim:
        raise ValueError(f"mu: expected atoms in R^{space.dim} for {space}, got R^{mu.dim}")
    allowed = space.contains(mu.atoms)
    if not allowed.all():
        raise ValueError(
            f"mu: expected atoms in {space}, atom {int(np.argmin(allowed))} is outside"
        )
    if isinstance(space, Ball):
        # a point is inside if it stays allowed when every block grows a little
        inside = space.contains(mu.atoms * (1 + 1e-6))
        if not inside.all():
            raise ValueError(
                f"mu: expected atoms inside {space}, atom {int(np.argmin(inside))} is on its "
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


def _compare(F, mu, H, K) -> None:
    """Refuse second derivatives that central differences along one direction do not confirm.

    Also refuse derivatives that are not symmetric: they would be symmetrised in silence.
    """
    x, w = mu.atoms, mu.weights
    local = F.at(mu)
    gradient = local.gradient(x)
    eps = precision(F, gradient.dtype)
    v = np.random.default_rng(0).uniform(-1, 1, size=x.shape)
    h = np.cbrt(eps)
    ahead, behind = x + h * v, x - h * v
    if isinstance(F.space, Sphere):  # a functional may be defined there only
        v = F.space.tangent(x, v)
        ahead, behind = F.space.retract(x, h * v), F.space.retract(x, -h * v)
    curved = (local.gradient(ahead) - local.gradient(behind)) / (2 * h)
    up, down = (F.at(Measure(y, w)).gradient(x) for y in (ahead, behind))
    pairs = {
        "H": (curved, np.einsum("jab,ja->jb", H, v)),
        "K": ((up - down) / (2 * h), np.einsum("l,jlab,lb->ja", w, K, v)),
    }
    size = max(np.abs(H).max(), np.abs(K).max()) * np.sqrt(mu.dim)
    # the differences lose digits where points or gradients are large beside their step; and where
    # everything cancels, as for labels that a measure explains, both sides are rounding
    lost = eps * (1 + np.abs(x).max()) / h
    noise = 1e3 * eps * (1 + np.abs(gradient).max() / h)
    allowed = (1e-4 + 100 * np.sqrt(eps) + lost) * size + noise
    for name, (found, stated) in pairs.items():
        error = float(np.abs(found - stated).max())
        if not error <= allowed:
            raise ValueError(
                f"F: complex steps and central differences of its gradient disagree in {name} "
                f"by {error:.3g} (size {size:.3g}); see check_functional"
            )
    skew = max(
        float(np.abs(H - H.transpose(0, 2, 1)).max()),
        float(np.abs(K - K.transpose(1, 0, 3, 2)).max()),
    )
    if not skew <= allowed:
        raise ValueError(
            f"F: second derivatives are not symmetric, by {skew:.3g} (size {size:.3g}): its "
            "gradient is not that of a functional; see check_functional"
        )
