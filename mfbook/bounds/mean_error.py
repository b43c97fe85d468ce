r"""The constant of the 1/M mean error over time (Appendix D2).

M heads are drawn independently from a law :math:`\mu` and follow the gradient flow. With the risk
:math:`U_t(\mu)=R(\mu_t)` as a functional of the initial law, and i.i.d. :math:`\theta,\theta'`,

.. math:: \mathbb E\,U_t(\hat\mu_M)-U_t(\mu)=\frac1{2M}\int_0^1\!\!\int_0^1
          s\,\mathbb E\,D^2U_t(\mu_{s,v})[\delta_\theta-\delta_{\theta'}]^2\,dv\,ds,

where the :math:`\mu_{s,v}` are laws on the support of :math:`\mu`. What follows bounds the right
side, computes its limit, and sums the left side over all draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.bounds.features import (
    feature_bound,
    hessian_bound,
    jacobian_bound,
    score_bound,
    third_moment_constant,
)
from mfbook.bounds.loss import loss_lipschitz
from mfbook.flow.influence import influence
from mfbook.functional import Functional
from mfbook.measure import Measure

__all__ = [
    "mean_error_bound",
    "mean_error_coefficient",
    "mean_over_draws",
    "third_derivative_bound",
]

#: The third derivative of log-sum-exp along a unit vector, at most c_3 (1/sqrt 2)^3; attained.
SOFTMAX_CURVATURE = math.sqrt(2) / (3 * math.sqrt(3))


def third_derivative_bound(R_X: float, R_U: float, r: float, k: int) -> float:
    r"""Bound T on the third derivative of the feature map.

    .. math:: \|\nabla_\theta^3\varphi_t\|\le T=\frac{\sqrt2R_XR_U}r\Big[3g^2+\tfrac{26}3g^3
              +\tfrac4{\sqrt3}\big(g+c_3g^2\big)\Big],\qquad c_3=\tfrac4{3\sqrt3}

    In the manner of :func:`~mfbook.bounds.hessian_bound`: a direction of size n in (W_Q, W_K) and w
    in (W_V, W_O) gives at most :math:`\sqrt2R_XR_U/r` times
    :math:`(3g^2+\frac{26}3g^3)n^3+3(g+2c_3g^2)n^2w+3g\,nw^2`. Derived in Appendix D2.

    Parameters
    ----------
    R_X, R_U, r : float
        Largest token norm, operator norm of ``W_U``, radius of the head's matrices.
    k : int
        Query and key dimension.

    Returns
    -------
    float
        T.

    Raises
    ------
    TypeError, ValueError
        If a radius is not a finite positive number or ``k`` is not a positive integer.

    Examples
    --------
    >>> round(third_derivative_bound(R_X=1.0, R_U=1.0, r=1.0, k=1), 4)
    22.2793
    """
    g = score_bound(R_X, r, k)
    R_X, R_U, r = float(R_X), validate.positive(R_U, "R_U"), float(r)
    over_r = R_X * R_X * r / math.sqrt(k)  # g / r
    mixed = 4 / math.sqrt(3) * (1 + third_moment_constant() * g)
    return math.sqrt(2) * R_X * R_U * over_r * (3 * g + 26 / 3 * g * g + mixed)


def mean_error_bound(
    R_X: float,
    R_U: float,
    k: int,
    times: ArrayLike,
    *,
    radius: float | Callable[[float], float],
    kappa: Callable[[float], float] | None = None,
    diameter: Callable[[float], float] | None = None,
) -> np.ndarray:
    r"""Decimal logarithm of a constant C(t) with mean risk error at most C(t)/M for every M.

    .. math:: |\mathbb E\,R(\hat\mu_{M,t})-R(\mu_t)|\le\frac{C(t)}M,\qquad
              C=\tfrac14\big[\tfrac12f^2+\sqrt2\,(2p+He+Lz)\big],

    with B, L, H, T of heads of radius r(t), :math:`\Delta=\min(2B,L\delta)`,
    :math:`f=\Delta+L\sqrt e`, :math:`\omega=\sqrt{e\Lambda}`,
    :math:`p=\min(2L\omega,H\delta\omega+L\nu)`, and from 0

    .. math:: \dot e&=2\kappa e+\tfrac14\Delta^2,\qquad\dot\Lambda=L^2,\qquad
              \dot\nu=\kappa\nu+\sqrt2T\delta\omega+\tfrac12H\delta f,\\
              \dot z&=\kappa z+\sqrt2T\omega\sqrt e+H\sqrt e\,f
              +L\big(\tfrac{\sqrt6}9f^2+p+\tfrac12He\big).

    Appendix D2 proves it for the gradient flow of the risk, with a ridge or an anchor or without,
    when, whatever law on the support of :math:`\mu` starts, heads stay within the radius, any two
    within the diameter :math:`\delta(t)`, and :math:`\nabla^2\Psi\succeq-\kappa` at all of them.

    Parameters
    ----------
    R_X, R_U : float
        Largest token norm, operator norm of ``W_U``.
    k : int
        Query and key dimension.
    times : array_like, shape (n_t,)
        Rescaled times, at least 0.
    radius : float or callable
        r, or r(t): largest operator norm of a matrix of a head at time t.
    kappa : callable, optional
        :math:`\kappa(t)`. Default: :math:`\sqrt2H`.
    diameter : callable, optional
        :math:`\delta(t)`. Default: infinite, so that :math:`\Delta=2B` and :math:`p=2L\omega`.

    Returns
    -------
    array, shape (n_t,)
        :math:`\log_{10}C(t)`; infinite beyond the range of floating-point numbers.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.
    RuntimeError
        If the integration fails.

    Examples
    --------
    At time 0 it is half of the square of the bound on a feature.

    >>> round(float(10 ** mean_error_bound(1.0, 1.0, 1, [0.0], radius=2.0)[0]), 12)
    8.0
    """
    R_X, R_U = validate.positive(R_X, "R_X"), validate.positive(R_U, "R_U")
    k = validate.count(k, "k")
    times = validate.array(times, "times", ("n_t",)).astype(float)
    if (times < 0).any():
        raise ValueError(f"times: expected numbers >= 0, got {times.min()}")
    for name, function in (("kappa", kappa), ("diameter", diameter)):
        if function is not None and not callable(function):
            raise TypeError(f"{name}: expected a function of the time, got {function!r}")
    if not callable(radius):
        radius = partial(_always, validate.positive(radius, "radius"))
    c = loss_lipschitz()

    def constants(t):
        r = validate.positive(radius(t), "radius")
        B, L = feature_bound(R_X, R_U, r), jacobian_bound(R_X, R_U, r, k)
        H, T = hessian_bound(R_X, R_U, r, k), third_derivative_bound(R_X, R_U, r, k)
        growth = c * H if kappa is None else validate.finite(kappa(t), "kappa")
        return B, L, H, T, growth

    # kept: e / E^2, Lambda, nu / E, z / E^2 and log E, with E the exponential of the integral of
    # the positive part of kappa; small = 1 / E
    def pieces(t, state):
        e, lam = math.sqrt(max(state[0], 0.0)), math.sqrt(state[1])
        nu, z = float(state[2]), float(state[3])
        B, L, H, T, growth = constants(t)
        small, omega, delta = math.exp(-state[4]), e * lam, math.inf
        Delta, p, nu_slope = 2 * B, 2 * L * omega, 0.0
        if diameter is not None:
            delta = validate.positive(diameter(t), "diameter", allow_zero=True)
            Delta = min(Delta, L * delta)
            p = min(p, H * delta * omega + L * nu)
        f = small * Delta + L * e
        if diameter is not None:
            nu_slope = c * T * delta * omega + H * delta * f / 2
        p *= small
        forced = c * T * omega * e + H * e * f
        forced += L * (SOFTMAX_CURVATURE * f * f + p + H * e * e / 2)
        total = f * f / 2 + c * (2 * p + H * e * e + L * z)
        return growth, L, small * Delta * small * Delta / 4, nu_slope, forced, total

    def slope(t, state):
        growth, L, e_slope, nu_slope, forced, _ = pieces(t, state)
        state = [float(x) for x in state]
        down = min(growth, 0.0)
        return [
            2 * down * state[0] + e_slope,
            L * L,
            down * state[2] + nu_slope,
            -abs(growth) * state[3] + forced,
            growth - down,
        ]

    def logarithm(t, state):
        total = pieces(t, state)[-1]
        return (2 * state[4] + math.log(total / 4)) / math.log(10) if total > 0 else -math.inf

    # nothing has changed yet at times so short that their products underflow
    times = np.where(times < 1e-100, 0.0, times)
    grid = np.unique(np.append(0.0, times))
    finite = np.array([bool(np.isfinite(slope(t, np.zeros(5))).all()) for t in grid])
    n = len(grid) if finite.all() else int(finite.argmin())  # the integral reaches grid[n - 1]
    states = np.zeros((5, 1))
    if n > 1:
        # all is zero at time 0, where a relative error means nothing: the first piece by hand
        first = 1e-6 * min(grid[1], 1 / (1 + abs(constants(0.0)[-1])))
        begin = np.maximum(first * np.array(slope(0.0, np.zeros(5))), 0.0)
        run = scipy.integrate.solve_ivp(
            slope, (first, grid[n - 1]), begin, "LSODA", grid[1:n], rtol=1e-6, atol=1e-200
        )
        if not run.success:
            raise RuntimeError(f"the integration of the bound failed: {run.message}")
        states = np.hstack([states, run.y])
    found = [logarithm(t, states[:, i]) if i < n else math.inf for i, t in enumerate(grid)]
    return np.array(found)[np.searchsorted(grid, times)]


def _always(size: float, t: float) -> float:
    """A radius that does not change."""
    return size


def mean_error_coefficient(
    F: Functional, mu: Measure, times: ArrayLike, *, step: float = 0.01, rtol: float = 1e-6
) -> np.ndarray:
    r"""Coefficient of 1/M in the mean error of the flow from M heads drawn from a measure.

    .. math:: \mathbb E\,U_t(\hat\mu_M)-U_t(\mu)=\frac{\beta_t}M+O(M^{-2}),\qquad
              \beta_t=\tfrac12\sum_iw_i\,D^2U_t(\mu)[\delta_{\theta_i}-\mu]^2
              =\tfrac12\Big(\sum_iw_i\partial_{ii}U_t-\sum_{il}w_iw_l\partial_{il}U_t\Big)

    Here :math:`U_t(\mu)=F(\mu_t)` along its gradient flow. Each second derivative is a central
    difference of the first variation of :func:`~mfbook.flow.influence.influence`. Appendix D2.

    Parameters
    ----------
    F : functional
        On all of R^D; accepts complex atoms.
    mu : Measure
        Initial measure; every weight positive.
    times : array_like, shape (n_t,)
        Increasing rescaled times, at least 0.
    step : float
        Share of the mass that is moved for the difference, below 1.
    rtol : float
        Relative tolerance of the backward integration.

    Returns
    -------
    array, shape (n_t,)
        :math:`\beta_t`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    A potential moves each head alone: the risk is linear in the law, and sampling costs nothing.

    >>> from mfbook.models.confinement import Ridge
    >>> mu = Measure([[1.0], [2.0]])
    >>> bool(abs(mean_error_coefficient(Ridge(1.0), mu, [0.5])[0]) < 1e-6)
    True
    """
    validate.instance(mu, "mu", Measure)
    w, step = mu.weights, validate.positive(step, "step")
    if w.min() <= 0:
        raise ValueError("mu: expected positive weights, got one that is zero")
    if step >= 1:
        raise ValueError(f"step: expected a number below 1, got {step}")
    total = 0.0
    for i in range(mu.size):
        h = (np.arange(mu.size) == i) - w
        move = step * min(1.0, w[i])  # keeps all weights positive
        up, down = (
            influence(F, Measure(mu.atoms, w + side * h), times, rtol=rtol)
            for side in (move, -move)
        )
        total = total + w[i] * ((up - down) @ h) / (4 * move)
    return np.asarray(total)


def mean_over_draws(values: Callable, weights: ArrayLike, M: int) -> np.ndarray:
    r"""Exact mean, over M independent draws from finitely many atoms, of a quantity of their law.

    .. math:: \mathbb E\,U(\hat\mu_M)=\sum_{n_1+\dots+n_m=M}\frac{M!}{n_1!\cdots n_m!}
              \,w_1^{n_1}\cdots w_m^{n_m}\;U\Big(\frac{n_1}M,\dots,\frac{n_m}M\Big)

    For two atoms it is Bernstein's polynomial of degree M. There are
    :math:`\binom{M+m-1}{m-1}` terms. Appendix D2.

    Parameters
    ----------
    values : callable
        ``values(counts)`` returns :math:`U` (a number or an array) for a tuple of m counts.
    weights : array_like, shape (m,)
        Weights of the atoms.
    M : int
        Number of draws.

    Returns
    -------
    array
        The mean, of the shape of U.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, or weights are not a probability vector.

    Examples
    --------
    The mean of a square is the square of the mean and a variance.

    >>> round(float(mean_over_draws(lambda n: (n[0] / 8) ** 2, [0.5, 0.5], 8)) - 0.25, 12)
    0.03125
    """
    if not callable(values):
        raise TypeError(f"values: expected a function of the counts, got {values!r}")
    w = validate.probabilities(weights, "weights", ("m",))
    M, m = validate.count(M, "M"), len(w)
    total: np.ndarray | float = 0.0
    for bars in combinations(range(M + m - 1), m - 1):
        edges = np.array([-1, *bars, M + m - 1])
        n = np.diff(edges) - 1
        if (w[n > 0] == 0).any():
            continue
        log = math.lgamma(M + 1) - sum(math.lgamma(c + 1) for c in n)
        chance = math.exp(log + float(n[n > 0] @ np.log(w[n > 0])))
        value = validate.array(values(tuple(int(c) for c in n)), "values", (...,))
        total = total + chance * value
    return np.asarray(total)
