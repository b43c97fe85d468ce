r"""When two empty layers are the best law under a ridge, although the risk is not convex.

Heads carry the label of their layer, half of the mass stands in each (``layers``).
With :math:`s_\ell=\int_\ell(\|W_V\|^2+\|W_O\|^2)d\mu` no logit is longer than
:math:`R_XR_U\,s_2(1+s_1)`, and the ridge costs at least :math:`\frac\lambda2(s_1+s_2)`.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["stacked_cost", "stacked_gain", "stacked_threshold"]


def stacked_gain(P: float, R_X: float, R_U: float, V: int) -> float:
    r"""Most by which a law with :math:`s_2(1+s_1)=P` lowers the risk of two empty layers.

    .. math:: h(P)=\log V-\log\big(1+(V-1)e^{-aP}\big),\qquad a=\sqrt{\tfrac V{V-1}}\,R_XR_U

    It is what logits of norm :math:`R_XR_UP` gain, all in favour of the right one of V words.
    """
    P, a, V = P, *_steepness(R_X, R_U, V)
    return math.log(V) - math.log1p((V - 1) * math.exp(-a * P)) if P else 0.0


def stacked_cost(P: float) -> float:
    r"""Least :math:`s_1+s_2` for which :math:`s_2(1+s_1)=P`.

    .. math:: g(P)=P\text{ for }P\le1,\qquad g(P)=2\sqrt P-1\text{ for }P\ge1

    Up to 1 it is cheapest to leave layer 1 empty; above, :math:`s_2=1+s_1`.
    """
    return P if P <= 1 else 2 * math.sqrt(P) - 1


def stacked_threshold(R_X: float, R_U: float, V: int) -> float:
    r"""Ridge above which two empty layers are the one best law of all.

    .. math:: \Lambda=\sup_{P>0}\frac{2h(P)}{g(P)},\qquad
              2\kappa\le\Lambda\le2\max\big(\kappa,\sqrt{\kappa\log V}\big),\quad
              \kappa=\sqrt{\tfrac{V-1}V}\,R_XR_U

    with :math:`h` of :func:`stacked_gain` and :math:`g` of :func:`stacked_cost`. For
    :math:`P\le1` the quotient falls and tends to :math:`2\kappa` at zero. Attained where all
    tokens of a sequence are equal and two words are told apart by their sign.
    """
    from scipy.optimize import minimize_scalar

    a, V = _steepness(R_X, R_U, V)
    kappa = (V - 1) / V * a
    if a == 0:  # a product below the range of floating-point numbers
        return 0.0

    def quotient(log_P):
        P = math.exp(log_P)
        return 2 * stacked_gain(P, R_X, R_U, V) / stacked_cost(P)

    # above the top of the grid the gain is log V up to rounding, and the cost still rises
    top = min(max(1.0, math.log(80) - math.log(a)), 700.0)
    grid = np.linspace(0.0, top, 200)
    i = int(np.argmax([quotient(x) for x in grid]))
    ends = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    best = minimize_scalar(
        lambda x: -quotient(x), bounds=ends, method="bounded", options={"xatol": 1e-9}
    )
    return max(2 * kappa, quotient(grid[i]), -float(best.fun))


def _steepness(R_X, R_U, V) -> tuple[float, int]:
    R_X, R_U = R_X, R_U
    return math.sqrt(V / (V - 1)) * R_X * R_U, V
