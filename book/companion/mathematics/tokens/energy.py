"""Unnormalised attention of tokens: its energy, and when its flow blows up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import exp1

from companion.mathematics.tokens.asymmetry import _real
from mfbook import _validate as validate
from mfbook._work import blocks
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure

#: Pairs whose scores are held at a time.
PAIRS = 2**20


def log_mean(scores, weights, y):
    """Sum over the last axis of w e^s as a logarithm, and the mean of y under it.

    ``scores(rows)`` gives the scores of some points with all atoms. Any size of real part is
    allowed; the shift is real, so that derivatives by complex step pass through.
    """
    count, at = scores(None), np.flatnonzero(weights > 0)
    w, y = weights[at], y[at]
    logs, means = [], []
    for part in blocks(count, PAIRS // len(at)):
        s = scores(part)[:, at]
        top = s.real.max(axis=1)
        e = w * np.exp(s - top[:, None])
        total = e.sum(axis=1)
        logs.append(top + np.log(total))
        means.append(e @ y / total[:, None])
    return np.concatenate(logs), np.concatenate(means)


def inner_products(a, b):
    """Scores <a_i, b_j> for :func:`log_mean`."""
    return lambda rows: len(a) if rows is None else a[rows] @ b.T


@dataclass(frozen=True)
class TokenEnergy(Functional):
    r"""Interaction energy of tokens in :math:`\mathbb R^d`, unnormalised attention's own.

    .. math:: \begin{aligned}
              F(\mu)&=-\frac1{2\beta}\iint e^{\beta\langle x,y\rangle}d\mu\,d\mu,\\
              \frac{\delta F}{\delta\mu}(x)&=-\frac1\beta\int e^{\beta\langle x,y\rangle}d\mu(y),
              \qquad -\nabla\frac{\delta F}{\delta\mu}(x)=\int e^{\beta\langle x,y\rangle}y\,d\mu(y)
              \end{aligned}

    It is not bounded from below, and its flow reaches infinity in finite time: see
    :func:`blow_up_bounds`. On the sphere it is :math:`-e^\beta` times the energy of
    :class:`mfbook.sphere.SphereEnergy`.
    """

    beta: float = 1.0

    def at(self, mu: Measure) -> _Local:
        """The energy at ``mu``; the pairs of its atoms are summed when they are asked for."""
        return _Local(self.beta, check_measure(mu, real=False, largest=validate.LARGEST))


@dataclass(frozen=True)
class _Local:
    beta: float
    mu: Measure

    def _sums(self, x):
        mu = self.mu
        return log_mean(inner_products(self.beta * x, mu.atoms), mu.weights, mu.atoms)

    @property
    def value(self):
        mu = self.mu
        logs, _ = self._sums(mu.atoms)
        # weights of zero would meet infinite exponentials
        total, _ = log_mean(_row(logs), mu.weights, mu.atoms)
        return -_exp(total[0]) / (2 * self.beta)

    def first_variation(self, x):
        return -_exp(self._sums(np.asarray(x))[0]) / self.beta

    def gradient(self, x):
        logs, mean = self._sums(np.asarray(x))
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(mean == 0, 0, -_exp(logs)[:, None] * mean)


def _exp(a):
    with np.errstate(over="ignore"):
        return np.exp(a)


def _row(logs):
    """One row of scores for :func:`log_mean`."""
    return lambda rows: 1 if rows is None else logs[None]


def blow_up_bounds(mu: Measure, beta: float = 1.0) -> tuple[float, float]:
    r"""Bracket of the time at which unnormalised attention in :math:`\mathbb R^d` ends.

    The flow of :class:`TokenEnergy` from :math:`\mu` exists up to a time :math:`t^*` with

    .. math:: \frac12E_1\big(\beta\max_i\|x_i\|^2\big)\;\le\;t^*\;\le\;
              \frac{\beta\int\|x\|^2d\mu}{2L}\,E_1(L),

    where :math:`L=\log\iint e^{\beta\langle x,y\rangle}d\mu\,d\mu` and
    :math:`E_1(s)=\int_s^\infty e^{-r}dr/r`. Both are equal for a point mass. Only the point mass at
    the origin never leaves: there both are infinite.
    """
    x = _real(mu)
    w, square = mu.weights, (x * x).sum(axis=1)
    scores = beta * x @ x.T
    if np.abs(scores).max() < 1:
        L = np.log1p(w @ np.expm1(scores) @ w)  # small exponents keep their digits
    else:
        logs, _ = log_mean(inner_products(beta * x, x), w, x)
        L = log_mean(_row(logs), w, x)[0][0]
    lower = exp1(beta * square[w > 0].max()) / 2
    upper = beta * (w @ square) / (2 * L) * exp1(L) if L > 0 else np.inf
    return float(lower), float(upper)
