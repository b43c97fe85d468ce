"""Constants of Theorem 5.2: how far M heads under SGD can be from the solution (Chapter 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mfbook import _validate as validate
from mfbook.bounds.drift import drift_lipschitz
from mfbook.bounds.features import feature_bounds
from mfbook.bounds.loss import loss_lipschitz, softmax_lipschitz

__all__ = [
    "PropagationBound",
    "propagation_bound",
    "propagation_rate",
]


def propagation_rate(M: int, epsilon: float, delta: float, *, D: int, t_end: float) -> float:
    r"""Rate of Theorem 5.2, equation (23), without its constant.

    .. math:: \operatorname{err}=\varepsilon+\sqrt{\varepsilon\big(D+\log(MN/\delta)\big)}
              +\sqrt{\frac{1+\log(N/\delta)}M},\qquad N=\lceil t_{\rm end}/\varepsilon\rceil

    - ``M``: Number of heads.
    - ``epsilon``: Step, positive.
    - ``delta``: Probability with which the statement may fail, in (0, 1).
    - ``D``: Parameters of one head.
    - ``t_end``: Horizon, positive.
    """
    M, D = validate.count(M, "M"), validate.count(D, "D")
    epsilon, t_end = validate.positive(epsilon, "epsilon"), validate.positive(t_end, "t_end")
    delta = _probability(delta)
    steps = t_end / epsilon * (1 - 1e-13)  # 8 is 32 steps of 1/4, also if that is rounded
    log_n = math.log(max(1, math.ceil(steps)) if math.isfinite(steps) else t_end) - (
        0.0 if math.isfinite(steps) else math.log(epsilon)
    )
    noise = D + math.log(M) + log_n - math.log(delta)
    sampling = 1 + log_n - math.log(delta)
    return epsilon + math.sqrt(epsilon * noise) + math.sqrt(sampling / M)


@dataclass(frozen=True)
class PropagationBound:
    r"""The mean-square bound of Chapter 5 and the exponent that the paper's proof gives.

    - ``exponent``: :math:`\sqrt2H\tau`, curvature of one head without interaction, if
      ``one_sided``; else the paper's.
    - ``one_sided``: Whether the step is at most :math:`4/L^2`.
    - ``paper_exponent``: :math:`(\sqrt2H+\frac12L^2)\tau`, from the Lipschitz constant (26) of the
      drift.
    - ``euler, noise, sampling``: The three terms, before the factor :math:`e^{\text{exponent}}`.
    - ``log10``: Decimal logarithm of the whole bound, which may be too large for a float.
    """

    exponent: float
    one_sided: bool
    paper_exponent: float
    euler: float
    noise: float
    sampling: float

    @property
    def log10(self) -> float:
        """Logarithm to base 10 of exp(exponent) times the sum of the terms; -inf for zero."""
        terms = self.euler + self.noise + self.sampling
        return self.exponent / math.log(10) + math.log10(terms) if terms > 0 else -math.inf


def propagation_bound(
    R_X: float, R_U: float, r: float, k: int, *, M: int, epsilon: float, tau: float
) -> PropagationBound:
    r"""Mean-square distance of M heads under SGD from the nonlinear characteristics.

    With :math:`\xi=\frac12`, heads and characteristics in the product of balls of radius r, and
    :math:`|x|_M^2=\frac1M\sum_i\|x_i\|^2`,

    .. math:: \big(\mathbb E|\theta^n-\bar\theta(n\varepsilon)|_M^2\big)^{1/2}
              \le e^{\kappa\tau}\Big[\tfrac{LB}{2\sqrt M}\,\tau
              +\tfrac{\sqrt2}2L\big(\sqrt2H+\tfrac12L^2\big)\varepsilon\,\tau
              +\sqrt2\,L\sqrt{\varepsilon\,\tau}\Big]

    where :math:`\kappa=\sqrt2H` if :math:`\varepsilon\le4/L^2` and :math:`\sqrt2H+\frac12L^2` else.
    No dimension, number of steps or probability enters. A version of Theorem 5.2 in mean square,
    for one n; derived in Chapter 5.

    - ``R_X, R_U, r``: Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    - ``k``: Query and key dimension.
    - ``M``: Number of heads.
    - ``epsilon``: Step in rescaled time, positive.
    - ``tau``: Horizon in rescaled time, positive.

    Returns the terms of the bound and their exponents.
    """
    M = validate.count(M, "M")
    epsilon, tau = validate.positive(epsilon, "epsilon"), validate.positive(tau, "tau")
    bounds, drift = feature_bounds(R_X, R_U, r, k), drift_lipschitz(R_X, R_U, r, k)
    size = loss_lipschitz() * bounds.L  # of one gradient
    one_sided = epsilon * drift.measure <= 2
    return PropagationBound(
        exponent=(drift.head + (0.0 if one_sided else drift.measure)) * tau,
        one_sided=one_sided,
        paper_exponent=(drift.head + drift.measure) * tau,
        # the small factors first: the product may be a number where parts of it are not
        euler=epsilon * tau * size * ((drift.head + drift.measure) / 2),
        noise=size * math.sqrt(epsilon * tau),
        sampling=softmax_lipschitz() * bounds.L * bounds.B * tau / math.sqrt(M),
    )


def _probability(delta) -> float:
    delta = validate.positive(delta, "delta")
    if delta >= 1:
        raise ValueError(f"delta: expected a number in (0, 1), got {delta}")
    return delta
