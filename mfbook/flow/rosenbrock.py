r"""A stiff integrator that takes a linear solver instead of a matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import OdeSolver

__all__ = ["Rosenbrock"]

#: Coefficients of the pair.
D = 1 / (2 + np.sqrt(2))
E32 = 6 + np.sqrt(2)
#: Step control as in SciPy's Runge-Kutta methods: a margin, and bounds on the change of a step.
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0


class Rosenbrock(OdeSolver):
    r"""The modified Rosenbrock pair of order 2 with an error estimate, for :math:`\dot y=F(y)`.

    With :math:`W=I-hdJ` and :math:`d=1/(2+\sqrt2)`, :math:`e_{32}=6+\sqrt2`:

    .. math::
       Wk_1&=F(y),\qquad
       W(k_2-k_1)=F(y+\tfrac h2k_1)-k_1,\qquad y^+=y+hk_2,\\
       Wk_3&=F(y^+)-e_{32}\big(k_2-F(y+\tfrac h2k_1)\big)-2\big(k_1-F(y)\big),\\
       \text{error}&\approx\tfrac h6(k_1-2k_2+k_3).

    It is L-stable for the exact Jacobian :math:`J`, and of order 2 for any matrix in its place
    (so is the estimate). A step costs two evaluations of F, as the last one is the first of the
    next step, and three solutions with one matrix. This is MATLAB's ``ode23s`` (Shampine and
    Reichelt, SIAM J. Sci. Comput. 18, 1997) without the terms for explicit time, so F may not
    depend on it. One of SciPy's solvers, forward in time, without an interpolant, and not checked
    as these are; ``linearised(t, y)`` returns an object whose ``solve(c, b)`` solves
    :math:`(I-cJ(y))k=b`, and the root mean square of error / (atol + rtol \|y\|) stays below one.
    """

    t: float
    y: np.ndarray

    def __init__(
        self,
        fun: Callable,
        t0: float,
        y0: np.ndarray,
        t_bound: float,
        linearised: Callable,
        *,
        rtol: float = 1e-3,
        atol: float = 1e-6,
        first_step: float | None = None,
        vectorized: bool = False,
    ) -> None:
        super().__init__(fun, t0, np.asarray(y0, dtype=float), t_bound, vectorized)
        self.linearised, self.rtol, self.atol = linearised, rtol, atol
        self.f = self.fun(self.t, self.y)
        self.h_abs = self._first_step() if first_step is None else first_step

    def _size(self, error, y) -> float:
        """Norm of an error relative to what is allowed."""
        scaled = error / (self.atol + self.rtol * np.abs(y))
        return float(np.linalg.norm(scaled) / np.sqrt(scaled.size))

    def _first_step(self) -> float:
        """Step with an error of about a hundredth of the tolerance (Hairer, Norsett and Wanner)."""
        length = self.t_bound - self.t
        value, slope = self._size(self.y, self.y), self._size(self.f, self.y)
        small = min(1e-6 if min(value, slope) < 1e-5 else 0.01 * value / slope, length)
        moved = self.fun(self.t, self.y + small * self.f)
        bend = self._size(moved - self.f, self.y) / small if small else 0.0
        largest = max(slope, bend)
        step = (0.01 / largest) ** (1 / 3) if largest > 1e-15 else 1e-6
        return min(100 * small, step, length)

    def _step_impl(self):
        t, y, f = self.t, self.y, self.f
        least = 10 * np.spacing(t)
        h = max(self.h_abs, least)
        linear, shortened = self.linearised(t, y), False
        self.njev += 1
        while h >= least:
            t_new = min(t + h, self.t_bound)
            h = t_new - t
            c = h * D
            self.nlu += 1
            k1 = linear.solve(c, f)
            middle = self.fun(t + h / 2, y + h / 2 * k1)
            k2 = linear.solve(c, middle - k1) + k1
            y_new = y + h * k2
            f_new = self.fun(t_new, y_new)
            k3 = linear.solve(c, f_new - E32 * (k2 - middle) - 2 * (k1 - f))
            error = self._size(h / 6 * (k1 - 2 * k2 + k3), np.maximum(np.abs(y), np.abs(y_new)))
            if error < 1:
                break
            h *= max(SHRINK, SAFETY * error ** (-1 / 3)) if np.isfinite(error) else 0.5
            shortened = True
        else:
            return False, self.TOO_SMALL_STEP
        grow = GROW if error == 0 else min(GROW, max(SHRINK, SAFETY * error ** (-1 / 3)))
        self.h_abs = h * (min(1.0, grow) if shortened else grow)
        self.t, self.y, self.f = t_new, y_new, f_new
        return True, None
