r"""Two stacked attention layers with a residual stream, as one functional on labelled heads.

An atom is a head with a label that says in which layer it stands. The heads of layer 1 write into
the tokens, those of layer 2 read what has been written and predict:

.. math::
    X'&=X+2\int_{\text{layer }1}A(X)\,X\,W_VW_O\,d\mu,\\
    f(X;\mu)&=2\int_{\text{layer }2}A(X')\,X'\,W_VW_O\,W_U\,d\mu .

The factor 2 makes each integral a mean when both layers hold half of the mass. The functional is no
longer convex along mixtures: f is a nonlinear function of :math:`\mu`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from mfbook.attention import HeadShape, softmax
from mfbook.attention.features import loss
from mfbook.functional import Functional
from mfbook.measure import Measure


def label(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Labelled atoms (m + n, 1 + D) from heads of layer 1 (m, D) and of layer 2 (n, D).

    The label is the sign of coordinate 0: -1 for layer 1, +1 for layer 2.
    """
    heads = np.concatenate([first, second], dtype=float)
    signs = np.repeat([-1.0, 1.0], [len(first), len(second)])
    return np.column_stack([signs, heads])


def unlabel(atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads of layer 1 and of layer 2 from labelled atoms; the inverse of :func:`label`."""
    upper = atoms[:, 0].real > 0
    return atoms[~upper, 1:], atoms[upper, 1:]


@dataclass(frozen=True)
class HeadRidge(Functional):
    r"""Ridge on labelled heads, :math:`\frac\lambda2\int\|\theta\|^2d\mu`; labels are free."""

    lam: float

    def at(self, mu: Measure) -> SimpleNamespace:
        """The potential; only its integral depends on ``mu``."""

        def gradient(x):
            return self.lam * np.concatenate([0 * x[:, :1], x[:, 1:]], axis=1)

        def first_variation(x):
            return (x * gradient(x)).sum(axis=1) / 2

        value = mu.weights @ first_variation(mu.atoms)
        return SimpleNamespace(value=value, first_variation=first_variation, gradient=gradient)


@dataclass(frozen=True, eq=False)
class StackedRisk(Functional):
    """Cross-entropy risk of labelled heads in two layers, in nats per token."""

    X: np.ndarray
    Y: np.ndarray
    W_U: np.ndarray
    shape: HeadShape

    def __post_init__(self):
        for name in ("X", "Y", "W_U"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    def at(self, mu: Measure) -> StackedLocal:
        """Tokens after layer 1, logits, and what the loss asks of both, computed once."""
        (first, second), upper = unlabel(mu.atoms), mu.atoms[:, 0].real > 0
        lower_weights, upper_weights = 2 * mu.weights[~upper], 2 * mu.weights[upper]
        X = self.X + _Layer(first, self.X, self.shape).write(lower_weights)
        layer = _Layer(second, X, self.shape)
        f = layer.write(upper_weights) @ self.W_U
        Z = 2 * (softmax(f) - self.Y) @ self.W_U.T / (X.shape[0] * X.shape[1])
        asked = np.tensordot(upper_weights, layer.pull_tokens(Z), 1)
        return StackedLocal(self, loss(f, self.Y).mean(), f, X, (asked, Z))


@dataclass(frozen=True, eq=False)
class StackedLocal:
    """The risk at one measure. Made by :meth:`StackedRisk.at`."""

    risk: StackedRisk
    value: float
    logits: np.ndarray
    tokens: np.ndarray
    duals: tuple[np.ndarray, np.ndarray]

    def _each(self, x, quantity) -> np.ndarray:
        """A quantity of layer and dual for the heads of each layer, in the order of x."""
        upper = x[:, 0].real > 0
        layers = zip((~upper, upper), (self.risk.X, self.tokens), self.duals, strict=True)
        parts = [
            quantity(_Layer(x[here, 1:], X, self.risk.shape), dual) for here, X, dual in layers
        ]
        return np.concatenate(parts)[np.argsort(np.argsort(upper, kind="stable"))]

    def correlation(self, x) -> np.ndarray:
        r"""Matrix C of each labelled head's attention, with :math:`\Psi=\langle W_VW_O,C\rangle`.

        For layer 1 it correlates what the head attends to with what layer 2 asks of the stream,
        for layer 2 with the residual of the prediction. Shape (n, 1 + D) to (n, d, d).
        """
        return self._each(x, _Layer.correlation)

    def first_variation(self, x) -> np.ndarray:
        """First variation at labelled heads x (n, 1 + D), against the measure; shape (n,)."""
        return self._each(x, _Layer.value)

    def gradient(self, x) -> np.ndarray:
        """Its gradient in x, with zero for the label; shape (n, 1 + D)."""
        G = self._each(x, _Layer.pull_heads)
        return np.concatenate([np.zeros_like(G[:, :1]), G], axis=1)


class _Layer:
    """Attention of heads (n, D) on tokens (S, T, d), which may be complex, with its pull-backs."""

    def __init__(self, theta, X, shape):
        self.shape, self.X = shape, X
        self.W_Q, self.W_K, self.W_V, self.W_O = shape._split(theta)
        self.C = self.W_V @ self.W_O
        self.queries, self.keys = X @ self.W_Q[:, None], X @ self.W_K[:, None]
        scores = self.queries @ self.keys.swapaxes(-1, -2) / np.sqrt(shape.k)
        visible = np.tri(X.shape[1], dtype=bool)
        largest = np.where(visible, scores.real, -np.inf).max(axis=-1, keepdims=True)
        e = np.where(visible, np.exp(np.where(visible, scores - largest, 0)), 0)
        self.A = e / e.sum(axis=-1, keepdims=True)
        self.attended = self.A @ X

    def write(self, weights):
        """What the layer adds to the tokens, shape (S, T, d)."""
        return np.tensordot(weights, self.attended @ self.C[:, None], 1)

    def value(self, dual):
        """Sum over tokens of <dual, A X W_V W_O>, shape (n,)."""
        return (self.correlation(dual) * self.C).sum(axis=(1, 2))

    def correlation(self, dual):
        """Sum over tokens of (A X)_t dual_t^T, shape (n, d, d)."""
        n, d = len(self.C), self.X.shape[2]
        dual = dual.reshape(-1, d)
        return self.attended.reshape(n, len(dual), d).swapaxes(1, 2) @ dual

    def _pull_scores(self, dual):
        """Derivative in what is attended (n, S, T, d) and in the scores (n, S, T, T)."""
        P = dual @ self.C.swapaxes(1, 2)[:, None]
        dA = P @ self.X.swapaxes(1, 2)
        dA = self.A * (dA - (self.A * dA).sum(axis=-1, keepdims=True))
        return P, dA / np.sqrt(self.shape.k)

    def pull_heads(self, dual):
        """Gradient of :meth:`value` in the heads, shape (n, D)."""
        _, dS = self._pull_scores(dual)
        dC = self.correlation(dual)
        x = self.X.swapaxes(1, 2)
        parts = (
            (x @ (dS @ self.keys)).sum(axis=1),
            (x @ (dS.swapaxes(2, 3) @ self.queries)).sum(axis=1),
            dC @ self.W_O.swapaxes(1, 2),
            self.W_V.swapaxes(1, 2) @ dC,
        )
        return self.shape._join(parts)

    def pull_tokens(self, dual):
        """Gradient of :meth:`value` in the tokens, shape (n, S, T, d)."""
        P, dS = self._pull_scores(dual)
        W_Q, W_K = self.W_Q.swapaxes(1, 2)[:, None], self.W_K.swapaxes(1, 2)[:, None]
        return (
            self.A.swapaxes(2, 3) @ P
            + dS @ self.keys @ W_Q
            + dS.swapaxes(2, 3) @ self.queries @ W_K
        )
