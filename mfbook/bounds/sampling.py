"""Heads, steps and sequences in one bound: training on a sample (Appendix D4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mfbook import _validate as validate
from mfbook.bounds.drift import drift_lipschitz
from mfbook.bounds.features import feature_bounds
from mfbook.bounds.loss import loss_lipschitz, softmax_lipschitz

__all__ = ["TrainingBound", "finite_population", "training_bound"]


def finite_population(S: int, N: int) -> float:
    r"""Factor of the variance of a mean when S of N are drawn without replacement.

    .. math:: \mathbb E\Big\|\frac1S\sum_{\omega\in\text{sample}}v_\omega-\bar v\Big\|^2
              =\frac{1}{S}\,\frac{N-S}{N-1}\,\frac1N\sum_\omega\|v_\omega-\bar v\|^2

    Parameters
    ----------
    S : int
        Size of the sample, at most N.
    N : int
        Size of the population.

    Returns
    -------
    float
        (N - S)/(N - 1); zero if N is 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a positive integer or S exceeds N.

    Examples
    --------
    >>> finite_population(1, 27), finite_population(14, 27), finite_population(27, 27)
    (1.0, 0.5, 0.0)
    """
    S, N = validate.count(S, "S"), validate.count(N, "N")
    if S > N:
        raise ValueError(f"S: expected at most N = {N} without replacement, got {S}")
    return (N - S) / (N - 1) if N > 1 else 0.0


@dataclass(frozen=True)
class TrainingBound:
    r"""The terms of the bound on training with M heads, S sequences and steps of length epsilon.

    Attributes
    ----------
    kappa : float
        Exponent per unit of time: :math:`\sqrt2H` if ``one_sided``, else with the interaction.
    one_sided : bool
        Whether the step is at most :math:`4/L^2`.
    heads, sequences : float
        :math:`LB/(2\sqrt M)` and :math:`L\sqrt{2/S}`, with the factor of a finite population:
        mean-square sizes of two errors of the drift; the second is orthogonal to the first and
        to Euler's.
    euler : float
        :math:`\frac{\sqrt2}2L\Lambda\varepsilon`.
    noise : float
        :math:`\sqrt2L\sqrt{\varepsilon/b}`, zero for exact gradients of the sample.
    growth, noise_growth : float
        Natural logarithms of :math:`E_\kappa(\tau)` and :math:`\sqrt{E_{2\kappa}(\tau)}`.
    log10 : float
        Decimal logarithm of the whole bound, which may be too large for a float.
    gap_log10 : float
        That of the bound on the mean generalisation gap.
    """

    kappa: float
    one_sided: bool
    heads: float
    sequences: float
    euler: float
    noise: float
    growth: float
    noise_growth: float
    log10: float
    gap_log10: float


def training_bound(
    R_X: float,
    R_U: float,
    r: float,
    k: int,
    *,
    M: int,
    S: int,
    epsilon: float,
    tau: float,
    batch: int | None = None,
    population: int | None = None,
) -> TrainingBound:
    r"""Mean-square distance of training on a sample from the flow of the population.

    M heads, independent of each other and of the S sequences, are trained on these sequences in
    steps of length :math:`\varepsilon`. With :math:`E_a(\tau)=(e^{a\tau}-1)/a`, in balls of
    radius r,

    .. math:: \big(\mathbb E|\theta^n-\bar\theta(n\varepsilon)|_M^2\big)^{1/2}
              \le L\,E_\kappa(\tau)\sqrt{\Big(\tfrac B{2\sqrt M}
              +\tfrac{\sqrt2}2\Lambda\,\varepsilon\Big)^2+\tfrac2S}
              +\sqrt2\,L\sqrt{\tfrac\varepsilon b\,E_{2\kappa}(\tau)},

    :math:`\Lambda=\sqrt2H+\frac12L^2`, and :math:`\kappa=\sqrt2H` if :math:`\varepsilon\le4/L^2`,
    else :math:`\Lambda`. Without replacement from a population of N, 2/S carries the factor of
    :func:`finite_population`. With infinitely many heads and no steps, the mean generalisation gap
    is at most :math:`4L^2E_{\sqrt2H}(\tau)/S` for independent sequences. Derived in Appendix D4.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.
    M, S : int
        Number of heads and of sequences.
    epsilon : float
        Step in rescaled time, positive.
    tau : float
        Horizon in rescaled time, positive.
    batch : int, optional
        Sequences in a step, drawn from the sample with replacement. Default: all of the sample, as
        they are.
    population : int, optional
        Number N of sequences from which the sample is drawn without replacement. Default: it is
        drawn with replacement, or the population is infinite.

    Returns
    -------
    TrainingBound

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> numbers = {"M": 100, "epsilon": 0.01, "tau": 1.0}
    >>> bound = training_bound(1.0, 1.0, 1.0, 1, S=100, **numbers)
    >>> round(bound.heads, 3), round(bound.sequences, 3), round(bound.log10, 3)
    (0.1, 0.283, 1.203)
    >>> training_bound(1.0, 1.0, 1.0, 1, S=100, population=100, **numbers).sequences
    0.0
    """
    M, S = validate.count(M, "M"), validate.count(S, "S")
    epsilon, tau = validate.positive(epsilon, "epsilon"), validate.positive(tau, "tau")
    share = 1.0
    if population is not None:
        share = finite_population(S, validate.count(population, "population", least=S))
    draws = math.inf if batch is None else validate.count(batch, "batch")
    bounds, drift = feature_bounds(R_X, R_U, r, k), drift_lipschitz(R_X, R_U, r, k)
    size = loss_lipschitz() * bounds.L  # of one gradient
    one_sided = epsilon * drift.measure <= 2
    kappa = drift.head + (0.0 if one_sided else drift.measure)
    heads = softmax_lipschitz() * bounds.L * bounds.B / math.sqrt(M)
    sequences = size * math.sqrt(share / S)
    euler = epsilon * size * ((drift.head + drift.measure) / 2)
    noise = size * math.sqrt(epsilon / draws)
    growth, noise_growth = _growth(kappa, tau), _growth(2 * kappa, tau) / 2
    parts = [(math.hypot(heads + euler, sequences), growth), (noise, noise_growth)]
    logs = [math.log(a) + b if a > 0 else -math.inf for a, b in parts]
    top = max(logs)
    rest = min(logs)
    total = top + math.log1p(math.exp(rest - top)) if math.isfinite(top) else top
    gap = math.log(2 / S) + 2 * math.log(size) + _growth(drift.head, tau) if size > 0 else -math.inf
    return TrainingBound(
        kappa, one_sided, heads, sequences, euler, noise, growth, noise_growth,
        total / math.log(10), gap / math.log(10),
    )  # fmt: skip


def _growth(a: float, tau: float) -> float:
    """Logarithm of (e^(a tau) - 1) / a, for a >= 0."""
    power = a * tau
    if power < 1e-8 or not math.isfinite(power):
        return math.log(tau) + power / 2  # to first order; infinite where the exponent is
    return power + math.log(-math.expm1(-power)) - math.log(a)
