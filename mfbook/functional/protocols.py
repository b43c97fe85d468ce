"""What a functional is at one measure, and what it may be besides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mfbook._types import Seed
from mfbook.space import Space

__all__ = [
    "Centred",
    "Linearisable",
    "Local",
    "Minimisable",
    "Minimum",
]


@runtime_checkable
class Local(Protocol):
    """What a functional is at one measure: its value, and its first variation as a function.

    What it may be besides, and what for: :class:`Minimisable`, :class:`Linearisable`,
    :class:`Centred`.
    """

    @property
    def value(self) -> float:
        """The functional at the measure."""

    def first_variation(self, x: np.ndarray) -> np.ndarray:
        """Values at the points ``x``, shape (n, D) to (n,)."""

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradients in ``x``, shape (n, D) to (n, D)."""


@runtime_checkable
class Minimisable(Protocol):
    """A local that knows the least value of its first variation: certificates ask for it."""

    def minimise(
        self, rng: Seed, ridge: float = 0.0, space: Space | None = None, **options: Any
    ) -> Minimum:
        """Minimum of the first variation plus ``ridge/2`` times the squared norm over the space.

        - ``rng``: Draws where a search starts.
        - ``ridge``: Strength of what is added.
        - ``space``: Where the minimum is sought, if not in the space of the functional.
        - ``**options``: Of the search.

        Returns with a rigorous lower bound; ``NotImplemented`` where none is known.
        """


@runtime_checkable
class Linearisable(Protocol):
    """A local that stiff integrators can use."""

    def linearised(self, scale: float) -> Any:
        """Object whose ``solve(c, b)`` solves :math:`(I-cJ)k=b`.

        - ``scale``: J is ``scale`` times the Jacobian of the (tangential) gradients at all atoms in
          all atoms, and b is tangent, shape (n, D).

        Returns the system; ``NotImplemented`` where there is none.
        """


@runtime_checkable
class Centred(Protocol):
    """A local whose first variation is ``ridge/2`` times the squared norm, whatever the measure.

    Searches of a risk with such a term treat it in closed form.
    """

    @property
    def ridge(self) -> float:
        """Strength of the ridge."""


@dataclass(frozen=True)
class Minimum:
    """The outcome of a search for the least value of a first variation.

    ``value`` is attained at ``point``, so it bounds the minimum from above. ``lower_bound`` is
    proved and bounds it from below (minus infinity where nothing is proved). ``converged`` says
    whether the local searches met their tolerance.

    - ``point`` (D,): Where the least value was found.
    - ``value``: The value there: an upper bound.
    - ``lower_bound``: What no point is below.
    - ``converged``: Whether the searches met their tolerance.
    - ``evaluations``: Points at which the first variation was computed.
    """

    point: np.ndarray = field(repr=False)
    value: float
    lower_bound: float
    converged: bool
    evaluations: int
