"""The cross-entropy risk of a measure over heads, for many heads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.attention.best_head import best_head
from mfbook.attention.features import attention_weights, loss, softmax
from mfbook.attention.kernel import forward, pull_back
from mfbook.attention.shape import HeadShape
from mfbook.functional import Functional, Minimum
from mfbook.measure import Measure, check_measure
from mfbook.space import Euclidean, Space

__all__ = ["AttentionRisk"]


@dataclass(frozen=True, eq=False)
class AttentionRisk(Functional):
    r"""Cross-entropy risk of a measure over attention heads.

    .. math:: R(\mu)=\frac1S\sum_{s\le S}\frac1T\sum_{t\le T}\ell\big(f_t(X_s;\mu),y_{s,t}\big),
              \qquad f_t(X;\mu)=\int\varphi_t(X;\theta)\,d\mu(\theta)

    in nats per token (equations (8) to (10)). The population is the finite set of sequences.
    Its first variation is
    :math:`\Psi(\theta;\mu)=\mathbb E\frac1T\sum_t\langle p_t-y_t,\varphi_t\rangle` (equation (11))
    and :math:`G=\nabla_\theta\Psi` its gradient (equation (13)).

    - ``X`` (S, T, d): Tokens.
    - ``Y`` (S, T, V): Labels: one-hot, or a probability vector for each position (the label
      integrated out).
    - ``W_U`` (d, V), ``shape``: Fixed projection to the vocabulary; sizes of one head.
    - ``space``: Where heads live: all of R^D (default) or ``shape.ball(radius)``.

    The attention weights are kept for the gradient while they fit in 32 MB, else recomputed; beyond
    that, memory is a few D numbers for each head. Complex heads give complex results, for
    derivatives by complex step.

    >>> rng = np.random.default_rng(0)
    >>> shape = HeadShape(d=3, k=2, v=2)
    >>> Y = np.eye(4)[rng.integers(4, size=(5, 6))]
    >>> R = AttentionRisk(rng.normal(size=(5, 6, 3)), Y, rng.normal(size=(3, 4)), shape)
    >>> zero = Measure(np.zeros((1, shape.size)))
    >>> bool(np.isclose(R(zero), np.log(4))), bool(np.allclose(R.residual(zero), 1 / 4 - R.Y))
    (True, True)
    >>> R.logits(zero).shape, R.sample(0, n=2).X.shape
    ((5, 6, 4), (2, 6, 3))
    """

    X: np.ndarray
    Y: np.ndarray
    W_U: np.ndarray
    shape: HeadShape
    space: Space = Euclidean()

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(
            self,
            X: ArrayLike,
            Y: ArrayLike,
            W_U: ArrayLike,
            shape: HeadShape,
            space: Space = ...,
        ) -> None: ...

    def __post_init__(self):
        validate.instance(self.shape, "shape", HeadShape)
        largest = validate.LARGEST
        X = validate.array(self.X, "X", ("S", "T", self.shape.d), largest=largest)
        W_U = validate.array(self.W_U, "W_U", (self.shape.d, "V"), largest=largest)
        Y = validate.probabilities(self.Y, "Y", (X.shape[0], X.shape[1], W_U.shape[1]))
        dim = getattr(validate.space(self.space), "dim", self.shape.size)
        if dim != self.shape.size:
            raise ValueError(
                f"space: expected dimension {self.shape.size} of {self.shape}, got {dim}"
            )
        for name, value in (("X", X), ("Y", Y), ("W_U", W_U)):
            object.__setattr__(self, name, validate.frozen(value))

    def __repr__(self) -> str:
        S, T, V = self.Y.shape
        return f"AttentionRisk({S} sequences of {T} tokens, vocabulary {V}, {self.shape})"

    def at(self, mu: Measure) -> AttentionLocal:
        """Logits and residual at ``mu``, computed once."""
        check_measure(mu, real=False, largest=validate.LARGEST)
        if mu.dim != self.shape.size:
            raise ValueError(
                f"mu: expected heads of {self.shape.size} parameters for {self.shape}, got {mu.dim}"
            )
        attended, kept = forward(self, mu)
        return AttentionLocal(self, mu, attended @ self.W_U, kept)

    def logits(self, mu: Measure) -> np.ndarray:
        r"""Mean-field logits :math:`f_t(X;\mu)` (equation (8)), shape (S, T, V)."""
        return self.at(mu).logits

    def residual(self, mu: Measure) -> np.ndarray:
        r"""Softmax residual :math:`r_t=p_t-y_t`, shape (S, T, V)."""
        return self.at(mu).residual

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return the function ``w -> (R, dR/dw)`` of the weights; attention is computed once."""
        size, largest = ("n", self.shape.size), validate.LARGEST
        atoms = validate.array(atoms, "atoms", size, allow_complex=True, largest=largest)
        A = attention_weights(atoms, self.X, self.shape)
        _, _, W_V, W_O = self.shape._split(atoms)
        # without W_U the features of one head are S x T x d numbers
        attended = (A @ self.X @ (W_V @ W_O)[:, None]).reshape(len(A), -1)

        def evaluate(w):
            f = (w @ attended).reshape(self.X.shape) @ self.W_U
            Z = (softmax(f) - self.Y) @ self.W_U.T
            slope = attended @ Z.ravel() / (Z.shape[0] * Z.shape[1])
            return loss(f, self.Y).mean(), slope

        return evaluate

    def sample(self, rng: validate.Seed, n: int) -> AttentionRisk:
        """Return the risk of n fresh sequences, drawn with replacement, with labels drawn."""
        index, uniform = self.draw(rng, n)
        labels = self.labels(index, uniform)
        return AttentionRisk(self.X[index], labels, self.W_U, self.shape, self.space)

    def draw(self, rng: validate.Seed, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Random numbers of one sample: indices of n sequences, and a uniform number per label."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        return rng.integers(len(self.X), size=n), rng.random((n, self.Y.shape[1], 1))

    def labels(self, index: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """One-hot labels (..., T, V) of the sequences ``index`` (...), drawn from their soft ones.

        The first word at which the cumulative probability passes ``uniform`` (..., T, 1) in [0, 1).
        """
        passed = self.Y[index].cumsum(axis=-1) > uniform
        passed[..., -1] = True
        return np.eye(self.Y.shape[-1])[passed.argmax(axis=-1)]


@dataclass(frozen=True, eq=False)
class AttentionLocal:
    """The risk at one measure, with its logits (S, T, V). Made by :meth:`AttentionRisk.at`."""

    risk: AttentionRisk
    mu: Measure
    logits: np.ndarray
    _kept: Iterable | None = None

    @cached_property
    def value(self) -> float:
        """Risk R(mu) in nats per token."""
        return loss(self.logits, self.risk.Y).mean()

    @cached_property
    def residual(self) -> np.ndarray:
        """Softmax residual p - y, shape (S, T, V)."""
        return softmax(self.logits) - self.risk.Y

    @cached_property
    def Z(self) -> np.ndarray:
        """Residual seen from the tokens, Z_t = W_U r_t, shape (S, T, d)."""
        return self.residual @ self.risk.W_U.T

    def first_variation(self, x) -> np.ndarray:
        r"""First variation :math:`\Psi(x;\mu)` (equation (11)) at heads x (n, D); shape (n,)."""
        theta = self._heads(x)
        _, _, W_V, W_O = self.risk.shape._split(theta)
        return ((W_V @ W_O) * self.correlation(theta)).sum(axis=(1, 2))

    def gradient(self, x) -> np.ndarray:
        r"""Gradient :math:`G(x;\mu)=\nabla_\theta\Psi` (equation (13)) at heads x; shape (n, D)."""
        theta = self._heads(x)
        shape = self.risk.shape
        # measures are immutable: the same array means the same heads
        kept = self._kept if x is self.mu.atoms else None
        scale = np.sqrt(shape.k)
        G = np.empty(theta.shape, np.result_type(theta, self._dual))
        t = (0, 2, 1)
        for h, dB, dC in pull_back(self.risk, theta, self._dual, kept=kept):
            W_Q, W_K, W_V, W_O = shape._split(theta[h])
            G_Q, G_K, G_V, G_O = shape._split(G[h])  # views
            dB /= scale
            np.matmul(dB, W_K, out=G_Q)
            np.matmul(dB.transpose(t), W_Q, out=G_K)
            np.matmul(dC, W_O.transpose(t), out=G_V)
            np.matmul(W_V.transpose(t), dC, out=G_O)
        return G

    def correlation(self, theta) -> np.ndarray:
        r"""Matrix :math:`C=\mathbb E\frac1T\sum_t(AX)_t^\top Z_t^\top` of each head's attention.

        It gives :math:`\Psi(\theta;\mu)=\langle W_VW_O,C\rangle`: the first variation is linear in
        the value map once (W_Q, W_K) is fixed. Shape (n, D) to (n, d, d).
        """
        blocks = pull_back(self.risk, self._heads(theta, "theta"), self._dual, scores=False)
        return np.concatenate([dC for _, _, dC in blocks])

    def minimise(self, rng, ridge: float = 0.0, space=None, **options) -> Minimum:
        """Least value of the first variation over the balls, with a rigorous lower bound.

        See :func:`mfbook.optimise.frank_wolfe_gap`, which calls this, for the method.
        """
        space = self.risk.space if space is None else space
        return best_head(self, rng, ridge, space, **validate.options(options, best_head))

    @property
    def _dual(self) -> np.ndarray:
        """Z divided by the number of tokens: the expectation's weights included."""
        S, T, _ = self.Z.shape
        return self.Z / (S * T)

    def _heads(self, x, name="x") -> np.ndarray:
        size, largest = ("n", self.risk.shape.size), validate.LARGEST
        return validate.array(x, name, size, allow_complex=True, largest=largest)
