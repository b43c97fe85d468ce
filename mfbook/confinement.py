r"""Confinement: potentials that keep heads from escaping to infinity.

Both are potential energies :math:`F(\mu)=\int U\,d\mu`, so their first variation is :math:`U`
itself, whatever the measure. Added to a risk (``R + Ridge(0.1)``) they bound the trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional, Local
from mfbook.measure import Measure, check_measure

__all__ = ["Anchor", "Ridge"]


@dataclass(frozen=True, eq=False)
class Anchor(Functional):
    r"""Anchored decay :math:`F(\mu)=\frac\lambda2\int\|\theta-a\|^2d\mu(\theta)`.

    - ``lam``: Strength :math:`\lambda>0`.
    - ``a`` (D,): The anchor.

    >>> F = Anchor(2.0, [1.0, 0.0])
    >>> mu = Measure([[3.0, 0.0], [1.0, 1.0]])
    >>> float(F(mu)), F.first_variation(mu.atoms, mu)
    (2.5, array([4., 1.]))
    """

    lam: float
    a: np.ndarray

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(self, lam: float, a: ArrayLike) -> None: ...

    def __post_init__(self):
        lam = validate.positive(self.lam, "lam", largest=validate.LARGEST)
        object.__setattr__(self, "lam", lam)
        a = validate.array(self.a, "a", ("D",), largest=validate.LARGEST)
        object.__setattr__(self, "a", validate.frozen(a))

    def at(self, mu: Measure) -> Local:
        """The potential; only its integral depends on ``mu``."""
        check_measure(mu, real=False, largest=validate.LARGEST)
        if mu.dim != len(self.a):
            raise ValueError(f"mu: expected atoms in R^{len(self.a)} as the anchor, got R^{mu.dim}")
        return _Potential(self.lam, self.a, mu)


@dataclass(frozen=True)
class Ridge(Functional):
    r"""Ridge :math:`F(\mu)=\frac\lambda2\int\|\theta\|^2d\mu(\theta)`: weight decay in practice.

    >>> float(Ridge(0.5)(Measure([[2.0, 0.0], [0.0, 4.0]])))
    2.5
    """

    lam: float

    def __post_init__(self):
        lam = validate.positive(self.lam, "lam", largest=validate.LARGEST)
        object.__setattr__(self, "lam", lam)

    def at(self, mu: Measure) -> Local:
        """The potential; only its integral depends on ``mu``."""
        check_measure(mu, real=False, largest=validate.LARGEST)
        return _Centred(self.lam, np.zeros(mu.dim), mu)


@dataclass(frozen=True)
class _Potential:
    lam: float
    a: np.ndarray
    mu: Measure

    @property
    def value(self):
        return self.mu.weights @ self.first_variation(self.mu.atoms)

    def first_variation(self, x):
        # a product, not a norm: the complex step needs an analytic function
        return self.lam / 2 * (self._away(x) ** 2).sum(axis=1)

    def gradient(self, x):
        return self.lam * self._away(x)

    def _away(self, x):
        size, largest = ("n", len(self.a)), validate.LARGEST
        return validate.array(x, "x", size, allow_complex=True, largest=largest) - self.a


@dataclass(frozen=True)
class _Centred(_Potential):
    @property
    def ridge(self) -> float:
        """Strength, read by searches that treat a ridge in closed form."""
        return self.lam
