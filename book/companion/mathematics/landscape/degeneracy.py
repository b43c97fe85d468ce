"""When a ReLU perceptron is degenerate: conditions of Theorems 3.1, 3.3 and Proposition 6.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.landscape.arrangement import (
    SignRegions,
    directions,
    forms,
    lines,
    sign_regions,
)
from companion.mathematics.landscape.extremal import TIE

__all__ = ["NormalisedCondition", "is_analytic_potential", "nondegenerate_normalised"]


def is_analytic_potential(a: ArrayLike, omega: ArrayLike, tolerance: float = 1e-9) -> bool:
    r"""Whether the potential of a ReLU perceptron is real-analytic on the sphere.

    Theorems 3.1 and 3.3 exclude this case. It occurs if and only if on every line the kinks
    cancel,

    .. math:: \sum_{a_j=c}\omega_j=\sum_{a_j=-c}\omega_j\qquad\text{for all }c,

    and then :math:`v(x)=\frac12\sum_j\omega_j\langle a_j,x\rangle^2`, a quadratic form.

    *Proof.* Let :math:`W_\pm(c)` be the two sums and t the inner product with c. The units on the
    line of c contribute :math:`W_+t^2` for t > 0 and :math:`W_-t^2` for t < 0. There is a point of
    the sphere in :math:`c^\perp` and in no other hyperplane; near it all other terms are smooth, so
    the second derivative of v across :math:`c^\perp` jumps by :math:`2(W_+-W_-)`. If v is analytic
    every jump is zero. If every jump is zero, :math:`v=\sum_cW_+(c)\langle c,x\rangle^2`. ∎
    """
    a = directions(a)
    omega = np.asarray(omega, dtype=float)
    _, which, side = lines(a, tolerance)
    jumps = np.bincount(which, weights=side * omega)
    return bool(np.abs(jumps).max() <= tolerance * np.abs(omega).sum())


@dataclass(frozen=True, eq=False)
class NormalisedCondition:
    """The two forms of the non-degeneracy condition of Proposition 6.1, region by region."""

    regions: SignRegions
    difference_is_multiple: np.ndarray
    active_is_multiple: np.ndarray
    constant: bool

    @property
    def holds(self) -> bool:
        """Whether the condition with signs holds: no region has a multiple of the identity."""
        return not self.difference_is_multiple.any()


def nondegenerate_normalised(a: ArrayLike, omega: ArrayLike) -> NormalisedCondition:
    r"""Check the hypothesis of Proposition 6.1, for normalised attention with a ReLU perceptron.

    The proposition says that a stationary measure has a Lebesgue-null support, finite on the
    circle. Suppose not. Then on some region C, by analyticity,
    :math:`Z(x)=\int e^{\beta\langle x,y\rangle}d\mu=c\,e^{-\frac\beta2x^\top A_Cx}` on the whole
    sphere. Three conditions on the weights are to be kept apart:

    *With signs*: no region has :math:`\sum_j\omega_j\operatorname{sgn}\langle a_j,x\rangle
    a_ja_j^\top=\alpha I`. Sufficient by the paper's argument: Z is even, so :math:`\mu` is
    symmetric (Lemma 5.1 (ii)), the same holds on -C where the other units are active, and the
    quotient of the two identities is a quadratic form that is constant on the sphere.

    *On the active units*: no region has :math:`A_C=\alpha I`. The paper's argument does not give
    this: for a = (e₁, e₂), :math:`\omega=(1,-1)` and the region (+, -), :math:`A_C` is no multiple
    of the identity while the matrix with signs is. Neither condition implies the other. Three
    units at 120° with :math:`\omega=(1,1,-1)` satisfy only this one; :math:`\omega=(1,2)` in the
    first example only the one before, since :math:`A_C=0` where no unit is active.

    *v is not constant on the sphere* (beyond the paper). Necessary and sufficient, and implied by
    each of the other two. *Proof.* Let e, f be orthonormal eigenvectors of :math:`A_C`
    with eigenvalues that differ by :math:`\delta\ne0`, and put :math:`x=e\cos z+f\sin z` with
    complex z. Both sides of the identity are entire in z and agree for real z, hence everywhere.
    With :math:`\tau=\operatorname{Im}z` the left side is at most :math:`e^{\beta\cosh\tau}`;
    the right side, for the best real part of z, is a constant times
    :math:`e^{\frac\beta4|\delta|\cosh2\tau}`, which is larger for large :math:`\tau`. So
    :math:`A_C=\alpha I` and Z is constant, and :math:`\mu` is uniform (Lemma 5.1). Its
    support is the sphere, so v is constant on every region, and by continuity on the sphere. If v
    is constant, conversely, the uniform measure is stationary. ∎ So each of the other conditions
    is sufficient for the conclusion, and neither is necessary.

    v is constant if and only if it is analytic (:func:`is_analytic_potential`) and
    :math:`\sum_j\omega_ja_ja_j^\top` is a multiple of the identity.
    """
    regions = sign_regions(a)
    a = regions.a
    omega = np.asarray(omega, dtype=float)
    scale = np.abs(omega).sum()
    total = forms(omega[None], a)
    return NormalisedCondition(
        regions,
        _is_multiple(forms(regions.signs * omega, a), scale),
        _is_multiple(regions.matrices(omega), scale),
        is_analytic_potential(a, omega) and bool(_is_multiple(total, scale)[0]),
    )


def _is_multiple(matrices, scale):
    """Which matrices are multiples of the identity."""
    d = matrices.shape[-1]
    mean = np.trace(matrices, axis1=1, axis2=2) / d
    rest = matrices - mean[:, None, None] * np.eye(d)
    return np.abs(rest).max(axis=(1, 2)) <= TIE * scale
