"""Attention made doubly stochastic: its potential and its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.tokens.asymmetry import _real
from companion.mathematics.tokens.energy import log_mean
from mfbook.measure import Measure


# ------------------------------------------------------------------------------- Sinkhorn
@dataclass(frozen=True, eq=False)
class SinkhornPotential:
    r"""The potential f of Sinkhorn attention, found by :func:`sinkhorn_potential`.

    It is a function: ``f(x)`` is :math:`f(x)=\log\int e^{\langle x,y\rangle-f(y)}d\mu(y)`, shape
    (n, d) to (n,), and ``f.field(x)`` its gradient.
    """

    measure: Measure
    excess: np.ndarray
    converged: bool
    error: float
    iterations: int

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"SinkhornPotential({state}: error {self.error:.2g} after {self.iterations} "
            f"iterations, {self.measure.size} atoms)"
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values at points x of shape (n, d), complex ones too; shape (n,)."""
        x = np.asarray(x)
        return self._sums(x)[0] + (x * x).sum(axis=1) / 2

    def field(self, x: np.ndarray) -> np.ndarray:
        r"""Gradient :math:`\int e^{\langle x,y\rangle-f(x)-f(y)}y\,d\mu(y)`; shape (n, d)."""
        return self._sums(np.asarray(x))[1]

    def _sums(self, x):
        y = self.measure.atoms
        return log_mean(_gaussian(x, y, self.excess), self.measure.weights, y)

    @property
    def matrix(self) -> np.ndarray:
        r"""Attention of i to j, :math:`e^{\langle x_i,x_j\rangle-f(x_i)-f(x_j)}`; shape (n, n).

        A symmetric density: its rows integrate to one against the weights.
        """
        x = self.measure.atoms
        return np.exp(_gaussian(x, x, self.excess)(slice(None)) - self.excess[:, None])


def _gaussian(x, y, excess):
    """Scores -|x - y|^2/2 - excess(y): those of e^<x,y> with the squares of the lengths moved.

    The exponent stays small where it matters, however long the tokens are.
    """

    def scores(rows):
        if rows is None:
            return len(x)
        difference = x[rows, None] - y
        return -(difference * difference).sum(axis=2) / 2 - excess

    return scores


def sinkhorn_potential(
    mu: Measure, *, tolerance: float = 1e-14, maxiter: int = 2000
) -> SinkhornPotential:
    r"""Make attention symmetric and doubly stochastic: the potential f of Sinkformers.

    .. math:: \int e^{\langle x,y\rangle-f(x)-f(y)}d\mu(y)=1\quad\text{for every atom x of }\mu

    :math:`F(\mu)=-\int f\,d\mu` has the first variation :math:`-f` (up to a constant), so tokens
    that move along :math:`\nabla f` follow a Wasserstein gradient flow (Sander, Ablin, Blondel,
    Peyré 2022, for the limit of their iterations).
    """
    x = _real(mu)
    scores = _gaussian(x, x, 0.0)(slice(None))
    at = mu.weights > 0
    logs = scores[:, at] + np.log(mu.weights[at])
    g, iteration, converged = np.zeros(len(x)), 0, False
    new: Any = None
    while not converged and iteration < maxiter:
        g = g if new is None else (g + new) / 2
        new = _logsumexp(logs - g[at])
        error = float(np.abs(new - g)[at].max())
        converged = error <= tolerance * max(1.0, float(np.abs(g[at]).max()))
        iteration += 1
    g = np.where(mu.weights > 0, g, new)  # where there is no mass f is what its formula says
    return SinkhornPotential(mu, g, converged, error, iteration)


def _logsumexp(s):
    top = s.max(axis=1)
    return top + np.log(np.exp(s - top[:, None]).sum(axis=1))


def sinkhorn_field(x: ArrayLike, mu: Measure, **options: Any) -> np.ndarray:
    """Velocity of tokens under Sinkhorn attention, for flows."""
    f = sinkhorn_potential(mu, **options)
    if not f.converged:
        raise RuntimeError(f"mu: expected an iteration that converges, got {f!r}")
    return f.field(x)
