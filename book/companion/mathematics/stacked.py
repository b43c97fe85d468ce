r"""When two empty layers are the best law under a ridge, although the risk is not convex.

Heads carry the label of their layer, half of the mass stands in each (``layers``).
With :math:`s_\ell=\int_\ell(\|W_V\|^2+\|W_O\|^2)d\mu` no logit is longer than
:math:`R_XR_U\,s_2(1+s_1)`, and the ridge costs at least :math:`\frac\lambda2(s_1+s_2)`.
"""

from __future__ import annotations

import math

import numpy as np

from mfbook import _validate as validate

__all__ = ["stacked_cost", "stacked_gain", "stacked_threshold"]


def stacked_gain(P: float, R_X: float, R_U: float, V: int) -> float:
    r"""Most by which a law with :math:`s_2(1+s_1)=P` lowers the risk of two empty layers.

    .. math:: h(P)=\log V-\log\big(1+(V-1)e^{-aP}\big),\qquad a=\sqrt{\tfrac V{V-1}}\,R_XR_U

    It is what logits of norm :math:`R_XR_UP` gain, all in favour of the right one of V words.

    Parameters
    ----------
    P : float
        Not negative.
    R_X, R_U : float
        Bounds of the data, as of :func:`~mfbook.bounds.data_radii`.
    V : int
        Number of words, at least 2.

    Returns
    -------
    float
        In nats per token, below :math:`\log V`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> stacked_gain(0.0, 1.0, 1.0, 2), round(stacked_gain(1.0, 1.0, 2**0.5, 2), 4)
    (0.0, 0.5662)
    """
    P, a, V = validate.positive(P, "P", allow_zero=True), *_steepness(R_X, R_U, V)
    return math.log(V) - math.log1p((V - 1) * math.exp(-a * P)) if P else 0.0


def stacked_cost(P: float) -> float:
    r"""Least :math:`s_1+s_2` for which :math:`s_2(1+s_1)=P`.

    .. math:: g(P)=P\text{ for }P\le1,\qquad g(P)=2\sqrt P-1\text{ for }P\ge1

    Up to 1 it is cheapest to leave layer 1 empty; above, :math:`s_2=1+s_1`.

    Parameters
    ----------
    P : float
        Not negative.

    Returns
    -------
    float
        The least sum.

    Raises
    ------
    TypeError, ValueError
        If ``P`` is negative or not finite.

    Examples
    --------
    >>> stacked_cost(0.5), stacked_cost(100.0)
    (0.5, 19.0)
    """
    P = validate.positive(P, "P", allow_zero=True)
    return P if P <= 1 else 2 * math.sqrt(P) - 1


def stacked_threshold(R_X: float, R_U: float, V: int) -> float:
    r"""Ridge above which two empty layers are the one best law of all.

    .. math:: \Lambda=\sup_{P>0}\frac{2h(P)}{g(P)},\qquad
              2\kappa\le\Lambda\le2\max\big(\kappa,\sqrt{\kappa\log V}\big),\quad
              \kappa=\sqrt{\tfrac{V-1}V}\,R_XR_U

    with :math:`h` of :func:`stacked_gain` and :math:`g` of :func:`stacked_cost`. For
    :math:`P\le1` the quotient falls and tends to :math:`2\kappa` at zero. Attained where all
    tokens of a sequence are equal and two words are told apart by their sign.

    Parameters
    ----------
    R_X, R_U, V
        As of :func:`stacked_gain`.

    Returns
    -------
    float
        The supremum, computed to about ten digits.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> [round(stacked_threshold(1.0, 2**0.5 * c, 2), 4) for c in (1.0, 0.02)]
    [2.0, 0.0875]
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
    R_X, R_U = validate.positive(R_X, "R_X"), validate.positive(R_U, "R_U")
    V = validate.count(V, "V")
    if V < 2:
        raise ValueError(f"V: expected at least two words, got {V}")
    return math.sqrt(V / (V - 1)) * R_X * R_U, V
