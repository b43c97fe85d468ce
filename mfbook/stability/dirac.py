r"""Synchronised heads: when a point mass is stationary, and what happens near it.

At :math:`\delta_{\theta^*}` two matrices decide everything,

.. math:: H=\nabla^2\frac{\delta F}{\delta\mu}(\theta^*;\delta_{\theta^*}),\qquad
          K=\partial_\mu\nabla\frac{\delta F}{\delta\mu}\succeq0,\qquad
          H+K=\nabla^2_\theta F(\delta_\theta)\big|_{\theta^*}.

Particles near :math:`\theta^*` satisfy :math:`\dot\eta_i=-H\eta_i-K\bar\eta` to first order: their
mean moves with H + K, their deviations from the mean with H.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.stability.atomic import EPS, atomic_stability, functional

__all__ = ["DiracStability", "dirac_stability"]


@dataclass(frozen=True, eq=False)
class DiracStability:
    """The linear theory of a stationary point mass, with H and K (D, D) as above.

    - ``deviations, translations`` (n,): Eigenvalues of H and of H + K on the tangent space,
      increasing; ``split_direction, translation_direction`` (D,): unit eigenvectors of the least.
    - ``tolerance``: An eigenvalue of at most this size counts as zero.
    """

    theta: np.ndarray
    H: np.ndarray
    K: np.ndarray
    deviations: np.ndarray
    translations: np.ndarray
    split_direction: np.ndarray
    translation_direction: np.ndarray
    gradient_norm: float
    tolerance: float

    def __repr__(self) -> str:
        split, mean = self.split_rate, self.translation_rate
        return (
            f"DiracStability({self.verdict}: copies {'part' if split > 0 else 'meet'} at rate "
            f"{abs(split):.3g}, the mean {'leaves' if mean > 0 else 'returns'} at {abs(mean):.3g};"
            f" |gradient| {self.gradient_norm:.1g})"
        )

    @property
    def H_tr(self) -> np.ndarray:
        """Translation Hessian H + K (equation (59))."""
        return self.H + self.K

    @property
    def split_rate(self) -> float:
        """Rate at which deviations grow, minus the least eigenvalue of H (negative: decay)."""
        return -float(self.deviations[0])

    @property
    def translation_rate(self) -> float:
        """Rate at which the mean leaves, minus the least eigenvalue of H + K."""
        return -float(self.translations[0])

    @property
    def verdict(self) -> str:
        """What the linear theory says: the first of these that applies.

        ``"translation"``: H + K has a negative direction (Theorem 7.8). ``"splitting"``: H has
        one. ``"neutral"``: one of them is singular, and first order decides nothing. ``"stable"``:
        H is positive definite (Theorem 7.5).
        """
        own, mean = self.deviations[0], self.translations[0]
        if min(own, mean) < -self.tolerance:
            return "translation" if mean < -self.tolerance else "splitting"
        return "stable" if min(own, mean) > self.tolerance else "neutral"


def dirac_stability(
    F: Functional, theta: ArrayLike, *, stationary: float = 1e-7, tolerance: float = 1e-9
) -> DiracStability:
    r"""Stability of the point mass at ``theta`` under the gradient flow of F (Section 7.2).

    The rates are those of the linear theory; Theorem 7.5 gives every one below ``-split_rate``.

    - ``F``: Accepting complex points and atoms.
    - ``theta`` (D,): Where :math:`\nabla\delta F(\theta;\delta_\theta)=0`; such a point is found
      by :func:`~mfbook.optimise.stationary_head`.
    - ``stationary, tolerance``: Relative to the largest eigenvalue and 1, and at least a hundred
      roundings: gradient norm that is accepted, and size of an eigenvalue that counts as zero.

    >>> from mfbook.confinement import Anchor
    >>> report = dirac_stability(Anchor(2.0, [1.0, 0.0]), [1.0, 0.0])
    >>> report.verdict, report.split_rate, report.translation_rate
    ('stable', -2.0, -2.0)
    """
    functional(F)
    theta = validate.array(theta, "theta", ("D",), largest=validate.LARGEST).astype(float)
    stationary = validate.positive(stationary, "stationary")
    tolerance = validate.positive(tolerance, "tolerance")
    with validate.naming("theta"):
        report = atomic_stability(F, Measure.dirac(theta))
    H, K = report.H[0], report.K[0, 0]
    # not below 1: where everything cancels the eigenvalues are roundings, and all of one size
    size = max(1.0, np.abs(report.deviations).max(), np.abs(report.collective).max())
    norm = float(np.linalg.norm(report.gradient[0]))
    if not norm <= max(stationary, 100 * EPS) * size:
        raise ValueError(
            f"theta: expected a stationary point, where the gradient of the first variation "
            f"vanishes, got gradient norm {norm:.3g}; stationary_head(F, theta) seeks one"
        )
    # normal directions of a curved space have eigenvalue zero and are left out
    basis = report.modes[:, 0]
    split = np.linalg.eigh(basis @ H @ basis.T)[1][:, 0] @ basis
    return DiracStability(
        validate.frozen(theta), H, K, report.deviations[0], report.collective, split,
        basis[0], norm, float(max(tolerance, 100 * EPS) * size),
    )  # fmt: skip
