r"""How much one initial head matters later: the first variation of the flow itself.

The gradient flow maps an initial measure to :math:`\mu_t`. A quantity of the end, such as
:math:`U_t(\mu)=F(\mu_t)`, is then a functional of the initial measure, and its first variation
:math:`\psi_t` says what adding a little mass at one place changes. For M independent draws,

.. math:: U_t(\hat\mu_M)-U_t(\mu)=\frac1M\sum_i\Big(\psi_t(\theta_i)-\int\psi_t\,d\mu\Big)
          +O\Big(\frac1M\Big),

so :math:`\operatorname{Var}_\mu(\psi_t)/M` is the variance of one draw to leading order.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from companion.mathematics.lipschitz import TestFunction
from mfbook.flow import Adaptive, gradient_flow
from mfbook.functional import Functional
from mfbook.measure import Measure


def influence(
    F: Functional,
    mu: Measure,
    times: ArrayLike,
    terminal: TestFunction | None = None,
    *,
    rtol: float = 1e-6,
) -> np.ndarray:
    r"""First variation at ``mu`` of a quantity of the gradient flow at each of several times.

    With the velocity Jacobian :math:`(\mathcal Jq)_i=\nabla^2\delta F(\theta_i)q_i
    +\sum_lw_lK_{il}q_l` along the flow, the adjoint q runs backwards from :math:`q(t)=\nabla g`,
    and

    .. math:: \psi_t(\theta_i)=g(\theta_i(t))-\int_0^t\sum_lw_l\,
              \big\langle\partial_{w_i}\nabla\delta F(\theta_l(s)),q_l(s)\big\rangle\,ds,\qquad
              \frac{dq}{ds}=\mathcal Jq,

    where g is the first variation of the quantity at the end. The constant
    :math:`\int\psi_t\,d\mu` is subtracted. Both products come from one complex step.
    """
    times = np.asarray(times, dtype=float)
    grid = np.unique(np.append(0.0, times))
    run = gradient_flow(F, mu, grid, solver=Adaptive(rtol=rtol / 100, atol=rtol / 1e4), dense=True)
    if not run.completed:
        raise RuntimeError(f"the flow {run.reason}")
    return np.array([_backward(F, run, float(t), terminal, rtol) for t in times])


def _backward(F, run, t, terminal, rtol) -> np.ndarray:
    """Adjoint of the flow from time t to 0, and the integral along it."""
    end = run.at(t)
    x, w = end.atoms, end.weights
    if terminal is None:
        local = F.at(end)
        q, psi = local.gradient(x), local.first_variation(x)
    else:
        q, psi = terminal.gradient(x), terminal(x)
    scale = np.abs(q).max()
    if t > 0 and scale > 0:
        n, tiny = x.size, 1e-30 / scale

        def slope(s, state):
            x = run.at(t - s).atoms
            q = state[:n].reshape(x.shape)
            local = F.at(Measure(x + 1j * tiny * q, w))
            pulled = local.gradient(x + 1j * tiny * q).imag / tiny
            paid = local.first_variation(x).imag / tiny
            return -np.concatenate([pulled.ravel(), paid])

        start = np.concatenate([q.ravel(), np.zeros(len(x))])
        back = scipy.integrate.solve_ivp(
            slope, (0, t), start, "RK45", [t], rtol=rtol, atol=rtol * scale
        )
        if not back.success:
            raise RuntimeError(f"the backward integration failed: {back.message}")
        psi = psi + back.y[n:, -1]
    return psi - w @ psi
