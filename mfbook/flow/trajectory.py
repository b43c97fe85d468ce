"""What a flow returns: states at the requested times, and how the computation went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy

from mfbook import _validate as validate
from mfbook.measure import Measure

__all__ = ["Trajectory"]


@dataclass(frozen=True, eq=False)
class Trajectory:
    r"""A curve of measures with fixed weights, at the times that were asked for.

    - ``t``, ``tau`` (n_t,): Times reached, fewer than asked for if the computation stopped early;
      rescaled, :math:`\int_0^t2\xi`. ``atoms`` (n_t, n, D), ``weights`` (n,): The states.
    - ``value`` (n_t,): The functional along the curve; NaN for a field without one.
    - ``dissipation`` (n_t,): :math:`\int\|v\|^2d\mu_t` of the velocity in rescaled time; for a
      gradient flow :math:`\int\|\nabla\delta F\|^2d\mu_t`.
    - ``completed, reason``: Whether the last requested time (or a terminal event) was reached, and
      why the computation stopped; ``steps, evaluations`` of the field, by the ``method``.
    - ``increase``: The largest increase of the functional in one step beyond what the integrator's
      tolerance explains; 0 for a gradient flow that is computed as it should be.
    - ``events``: Times at which each event function vanished.

    >>> from mfbook.confinement import Ridge
    >>> from mfbook.flow import gradient_flow
    >>> run = gradient_flow(Ridge(1.0), Measure([[1.0]]), [0, 1, 2], dense=True)
    >>> run.end.atoms.round(4), run.measure(0).atoms, run.at(0.5).atoms.round(4)
    (array([[0.1353]]), array([[1.]]), array([[0.6065]]))
    """

    t: np.ndarray
    tau: np.ndarray
    atoms: np.ndarray
    weights: np.ndarray
    value: np.ndarray
    dissipation: np.ndarray
    completed: bool
    reason: str
    method: str
    steps: int
    evaluations: int
    increase: float = 0.0
    events: tuple = ()
    _dense: Callable | None = field(default=None, repr=False)

    def __post_init__(self):
        for name in ("t", "tau", "atoms", "weights", "value", "dissipation"):
            object.__setattr__(self, name, validate.frozen(getattr(self, name)))

    def __repr__(self) -> str:
        n_t, n, D = self.atoms.shape
        state = "" if self.completed else f", stopped: {self.reason}"
        rises = f", increases by up to {self.increase:.2g}" if self.increase > 0 else ""
        if self.value[-1] > self.value[0]:
            rises += f", ends above its start ({self.value[0]:.3g} to {self.value[-1]:.3g})"
        return (
            f"Trajectory({n} atoms in R^{D} at {n_t} times up to t = {self.t[-1]:g}, "
            f"{self.method}, {self.evaluations} evaluations{rises}{state})"
        )

    def __len__(self) -> int:
        return len(self.t)

    def measure(self, i: int) -> Measure:
        """The state at ``t[i]``."""
        return Measure(self.atoms[validate.count(i, "i", -len(self), len(self) - 1)], self.weights)

    @property
    def end(self) -> Measure:
        """The last state."""
        return self.measure(-1)

    def at(self, t: float) -> Measure:
        """State at any time of the interval, from the integrator's interpolant."""
        if self._dense is None:
            raise ValueError("t: this trajectory has no interpolant; compute it with dense=True")
        t = validate.positive(t, "t", allow_zero=True)
        if not self.t[0] <= t <= self.t[-1]:
            raise ValueError(f"t: expected a time in [{self.t[0]}, {self.t[-1]}], got {t}")
        return Measure(self._dense(t), self.weights)

    def dissipated(self) -> np.ndarray:
        r"""What is dissipated up to each time, :math:`\int_{\tau_0}^{\tau}\mathcal D\,d\tau'`.

        By a cubic spline through the recorded values: as accurate as these are dense. For a
        gradient flow it is what the functional has lost (Theorem 6.1).
        """
        tau, first = np.unique(self.tau, return_index=True)  # a clock may stand still
        if len(tau) == 1:
            return np.zeros(len(self))
        spline = scipy.interpolate.CubicSpline(tau, self.dissipation[first])
        return spline.antiderivative()(self.tau)
