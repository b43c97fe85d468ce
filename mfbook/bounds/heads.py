"""The bounds of Chapter 4 read backwards: how many heads an excess risk needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from mfbook import _validate as validate
from mfbook.bounds.approximation import monte_carlo_rate, sharp_rate, variance_rate
from mfbook.bounds.loss import loss_smoothness

__all__ = ["HeadsNeeded", "heads_needed"]

#: Beyond it neighbouring numbers of heads are the same floating-point number.
EXACT = 2**53


@dataclass(frozen=True)
class HeadsNeeded:
    r"""Least numbers of heads for which each bound is at most the excess.

    Attributes
    ----------
    theorem : int or None
        By Theorem 4.1, :math:`\sqrt2B/\sqrt M`. None where B was not given.
    sharp : int or None
        By :math:`B^2/(4M)`, beyond the paper.
    variance : int or None
        By :math:`\sigma^2/(4M)`: the mean of heads drawn from the measure. None without it.
    leading : int or None
        By :math:`\kappa/M`, the leading term of that mean: an estimate, not a bound.
    """

    theorem: int | None = None
    sharp: int | None = None
    variance: int | None = None
    leading: int | None = None


def heads_needed(
    excess: float,
    *,
    B: float | None = None,
    sigma2: float | None = None,
    kappa: float | None = None,
) -> HeadsNeeded:
    r"""Least number of heads that each bound of Chapter 4 asks for an excess risk.

    .. math:: M\ge\frac{2B^2}{\epsilon^2},\qquad M\ge\frac{B^2}{4\epsilon},\qquad
              M\ge\frac{\sigma^2}{4\epsilon},\qquad M\ge\frac{\kappa}{\epsilon}

    The inverses of :func:`~mfbook.bounds.monte_carlo_rate`, :func:`~mfbook.bounds.sharp_rate`,
    :func:`~mfbook.bounds.variance_rate` and of the leading term
    (:func:`~mfbook.bounds.leading_coefficient`): up to rounding with M heads the bound is at most
    the excess, and with M - 1 it is above.

    Parameters
    ----------
    excess : float
        Excess risk :math:`\epsilon` in nats per token, positive.
    B : float, optional
        Bound on the feature map, as of :func:`~mfbook.bounds.feature_bound`.
    sigma2 : float, optional
        Feature variance, as of :func:`~mfbook.bounds.feature_variance`.
    kappa : float, optional
        Leading coefficient.

    Returns
    -------
    HeadsNeeded
        At least 1 each, and None for what was not given.

    Raises
    ------
    TypeError, ValueError
        If a number is not finite or out of range, or none of the three is given.

    Examples
    --------
    >>> heads_needed(0.01, B=2.0, sigma2=1.0, kappa=0.2)
    HeadsNeeded(theorem=80000, sharp=100, variance=25, leading=20)
    """
    excess = validate.positive(excess, "excess")
    if B is None and sigma2 is None and kappa is None:
        raise ValueError("B: expected B, sigma2 or kappa, got none of them")
    e, half = Fraction(excess), Fraction(loss_smoothness()) / 2
    found: dict[str, int] = {}
    if B is not None:
        b = Fraction(B := validate.positive(B, "B"))
        found["theorem"] = _least(excess, 2 * b * b / (e * e), lambda M: monte_carlo_rate(B, M))
        found["sharp"] = _least(excess, half * b * b / e, lambda M: sharp_rate(B, M))
    if sigma2 is not None:
        s = Fraction(sigma2 := validate.positive(sigma2, "sigma2", allow_zero=True))
        found["variance"] = _least(excess, half * s / e, lambda M: variance_rate(sigma2, M))
    if kappa is not None:
        k = Fraction(kappa := validate.positive(kappa, "kappa", allow_zero=True))
        found["leading"] = _least(excess, k / e, lambda M: kappa / M)
    return HeadsNeeded(**found)


def _least(excess: float, exact: Fraction, bound: Callable[[int], float]) -> int:
    """Least M with bound(M) <= excess as they are computed, next to the exact one."""
    M = max(1, math.ceil(exact))
    if M < EXACT:
        while bound(M) > excess:
            M += 1
        while M > 1 and bound(M - 1) <= excess:
            M -= 1
    return M
