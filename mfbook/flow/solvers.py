"""How a flow is computed: small objects that carry the options of one method each."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mfbook import _validate as validate

__all__ = ["RK4", "Adaptive", "Euler"]

EXPLICIT = ("RK23", "RK45", "DOP853")
METHODS = (*EXPLICIT, "Radau", "BDF", "LSODA")
#: SciPy's solvers replace a smaller relative tolerance by this one.
LEAST_RTOL = 100 * np.finfo(float).eps
#: Evaluations of the field that an adaptive solver may use where nothing is said.
BUDGET = 1_000_000
#: Method and tolerances where nothing is said. A low order passes over jumps of the velocity, with
#: tolerances that ask no more.
SMOOTH, OVER_KINKS = ("DOP853", 1e-8, 1e-10), ("RK23", 1e-4, 1e-7)


@dataclass(frozen=True)
class Adaptive:
    r"""Steps whose length an error estimate chooses, in rescaled time.

    - ``rtol, atol``: Tolerances, for the root mean square over all coordinates. Default: 1e-8 and
      1e-10, and 1e-4 and 1e-7 where the velocity jumps.
    - ``method``: One of SciPy's solvers, ``"RK23"``, ``"RK45"``, ``"DOP853"``, ``"Radau"``,
      ``"BDF"``, ``"LSODA"``. Default: ``"DOP853"``; ``"RK23"`` for a functional whose gradient
      ``jumps``, as that of a network with ReLU, from where an atom is held back by a ball, and
      where steps collapse; ``"LSODA"`` where ``"DOP853"`` would spend its budget.
    - ``budget``: Evaluations of the field after which the flow stops and says so.
    """

    rtol: float | None = None
    atol: float | None = None
    method: str | None = None
    budget: int = BUDGET

    def __post_init__(self):
        for name in ("rtol", "atol"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, validate.positive(value, name))
        if self.rtol is not None and self.rtol < LEAST_RTOL:
            raise ValueError(f"rtol: expected at least {LEAST_RTOL:.3g}, got {self.rtol!r}")
        if not isinstance(self.method, (str, type(None))) or self.method not in (None, *METHODS):
            raise ValueError(f"method: expected one of {list(METHODS)}, got {self.method!r}")
        object.__setattr__(self, "budget", validate.count(self.budget, "budget"))

    def settings(self, jumps: bool) -> tuple[str, float, float]:
        """Method, rtol and atol for a velocity that jumps, or does not."""
        given: Any = self.method, self.rtol, self.atol
        usual: Any = OVER_KINKS if jumps else SMOOTH
        method, rtol, atol = (u if g is None else g for g, u in zip(given, usual, strict=True))
        return method, rtol, atol


@dataclass(frozen=True)
class Euler:
    r"""Explicit steps of one length in the units of ``times``, which are multiples of it.

    The rate :math:`\xi` is that at the start of each step, as in stochastic descent.
    """

    step: float

    def __post_init__(self):
        object.__setattr__(self, "step", validate.positive(self.step, "step"))


@dataclass(frozen=True)
class RK4(Euler):
    """The classical Runge-Kutta method of order 4, with steps of one length as :class:`Euler`."""
