r"""One causal self-attention layer whose heads are particles, and its cross-entropy risk.

A head is :math:`\theta=(W_Q,W_K,W_V,W_O)`. On tokens :math:`X\in\mathbb R^{T\times d}` it
contributes the logits :math:`\varphi(X;\theta)=A\,X\,W_VW_OW_U`, with A the row-softmax of
:math:`XW_Q(XW_K)^\top/\sqrt k` under the causal mask; a measure :math:`\mu` over heads predicts
with :math:`f(X;\mu)=\int\varphi\,d\mu`. :func:`features` states this formula;
:class:`AttentionRisk` computes the risk, its first variation and its gradient for many heads at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax as _softmax

from . import _validate as validate
from ._types import Seed
from .functional import Functional, Minimum
from .measure import Measure
from .space import Ball, Euclidean, Space

__all__ = [
    "AttentionRisk",
    "HeadShape",
    "attention_weights",
    "cross_entropy",
    "features",
    "softmax",
    "softmax_jacobian",
]

# One block of work holds this many heads and sequences: enough to hide the cost of a call, few
# enough for its buffers to stay in the cache, and no power of two, whose strides collide there.
HEADS, SEQUENCES = 192, 64
# Attention weights of the measure's own heads are kept for the gradient if they fit (bytes).
KEEP = 2**25


@dataclass(frozen=True)
class HeadShape:
    r"""Sizes of one head: token dimension d, query/key dimension k, value dimension v.

    Parameters
    ----------
    d, k, v : int
        Positive.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    Examples
    --------
    >>> shape = HeadShape(d=3, k=2, v=1)
    >>> shape.size
    18
    >>> [W.shape for W in shape.split(np.zeros((5, 18)))]
    [(5, 3, 2), (5, 3, 2), (5, 3, 1), (5, 1, 3)]
    >>> shape.blocks, shape.ball(2.0).dim
    ((6, 6, 3, 3), 18)
    >>> theta = np.arange(18.0)
    >>> bool((shape.join(*shape.split(theta)) == theta).all())
    True
    """

    d: int
    k: int
    v: int

    def __post_init__(self):
        for name in ("d", "k", "v"):
            object.__setattr__(self, name, validate.count(getattr(self, name), name))
        validate.count(self.size, "size 2dk + 2dv")

    @property
    def blocks(self) -> tuple[int, int, int, int]:
        """Number of entries of W_Q, W_K, W_V, W_O."""
        return (self.d * self.k, self.d * self.k, self.d * self.v, self.v * self.d)

    @property
    def size(self) -> int:
        """Number of parameters of one head, D = 2dk + 2dv."""
        return sum(self.blocks)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Matrices W_Q, W_K (..., d, k), W_V (..., d, v), W_O (..., v, d) of heads (..., D)."""
        theta = validate.array(theta, "theta", (..., self.size), allow_complex=True)
        return self._split(theta)

    def _split(self, theta):
        d, k, v, heads = self.d, self.k, self.v, theta.shape[:-1]
        # plain slices, since the kernel comes here several times in each step
        W_Q = theta[..., : d * k].reshape(*heads, d, k)
        W_K = theta[..., d * k : 2 * d * k].reshape(*heads, d, k)
        W_V = theta[..., 2 * d * k : 2 * d * k + d * v].reshape(*heads, d, v)
        W_O = theta[..., 2 * d * k + d * v :].reshape(*heads, v, d)
        return W_Q, W_K, W_V, W_O

    def join(
        self, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray, W_O: np.ndarray
    ) -> np.ndarray:
        """Heads (..., D) from their matrices; the inverse of :meth:`split`."""
        d, k, v = self.d, self.k, self.v
        W_Q = validate.array(W_Q, "W_Q", (..., d, k), allow_complex=True)
        heads, matrices = W_Q.shape[:-2], [W_Q]
        for name, W, s in (("W_K", W_K, (d, k)), ("W_V", W_V, (d, v)), ("W_O", W_O, (v, d))):
            matrices.append(validate.array(W, name, (*heads, *s), allow_complex=True))
        return self._join(matrices)

    @staticmethod
    def _join(matrices):
        # not -1: there may be no heads
        flat = [W.reshape(*W.shape[:-2], W.shape[-2] * W.shape[-1]) for W in matrices]
        return np.concatenate(flat, axis=-1)

    def ball(self, radius: float) -> Ball:
        r"""The compact :math:`\Theta`: four Frobenius balls of one radius."""
        return Ball(radius, self.blocks)


def softmax(f: ArrayLike) -> np.ndarray:
    r"""Predicted law :math:`p_i=e^{f_i}/\sum_je^{f_j}` over the last axis (equation (3)).

    Parameters
    ----------
    f : array_like, shape (..., V)
        Logits of any size; complex ones are allowed.

    Returns
    -------
    array
        Of the shape of ``f``; the last axis sums to one.

    Examples
    --------
    >>> softmax([1e4, 1e4, -1e4])
    array([0.5, 0.5, 0. ])
    """
    f = validate.array(f, "f", (..., "V"), allow_complex=True)
    if np.iscomplexobj(f):
        e = np.exp(f - f.real.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
    return _softmax(f, axis=-1)


def softmax_jacobian(f: ArrayLike) -> np.ndarray:
    r"""Jacobian :math:`J(f)=\operatorname{diag}(p)-pp^\top` of the softmax (equation (4)).

    Parameters
    ----------
    f : array_like, shape (..., V)
        Logits.

    Returns
    -------
    array, shape (..., V, V)

    Examples
    --------
    >>> softmax_jacobian([0.0, 0.0])
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    p = softmax(f)
    return p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]


def cross_entropy(f: ArrayLike, y: ArrayLike) -> np.ndarray:
    r"""Loss :math:`\ell(f,y)=\log\sum_ie^{f_i}-\langle y,f\rangle` in nats (equation (9)).

    Parameters
    ----------
    f : array_like, shape (..., V)
        Logits; complex ones are allowed.
    y : array_like, shape (..., V)
        One-hot labels or probability vectors; leading axes broadcast.

    Returns
    -------
    array, shape (...)

    Raises
    ------
    TypeError, ValueError
        If an entry is NaN or infinite, or ``y`` does not hold probability vectors of V entries.

    Examples
    --------
    >>> cross_entropy([1e4, 0.0], [1.0, 0.0]), cross_entropy([1e4, 0.0], [0.0, 1.0])
    (np.float64(0.0), np.float64(10000.0))
    """
    f = validate.array(f, "f", (..., "V"), allow_complex=True)
    y = validate.probabilities(y, "y", (..., f.shape[-1])).astype(f.real.dtype, copy=False)
    try:
        np.broadcast_shapes(f.shape, y.shape)
    except ValueError:
        raise ValueError(f"y: expected shape {f.shape} as f has, got {y.shape}") from None
    f = f - f.real.max(axis=-1, keepdims=True)
    return np.log(np.exp(f).sum(axis=-1)) - (y * f).sum(axis=-1)


def attention_weights(theta: ArrayLike, X: ArrayLike, shape: HeadShape) -> np.ndarray:
    r"""Causal attention matrices A of heads on sequences (equations (5) and (6)).

    Parameters
    ----------
    theta : array_like, shape (n, D)
        Heads.
    X : array_like, shape (S, T, d)
        Tokens.
    shape : HeadShape
        Sizes of one head.

    Returns
    -------
    array, shape (n, S, T, T)
        Row t holds the weights of tokens u <= t; rows sum to one, the rest is zero.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong shape or holds NaN or infinity.

    Examples
    --------
    >>> shape = HeadShape(2, 1, 1)
    >>> attention_weights(np.zeros((1, 8)), np.ones((1, 2, 2)), shape)[0, 0]
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    theta, X = _heads_and_tokens(theta, X, shape)
    W_Q, W_K, _, _ = shape._split(theta)
    queries, keys = X @ W_Q[:, None], X @ W_K[:, None]
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(shape.k)
    visible = np.tri(X.shape[1]) > 0
    largest = np.where(visible, scores.real, -np.inf).max(axis=-1, keepdims=True)
    e = np.where(visible, np.exp(np.where(visible, scores - largest, 0)), 0)
    return e / e.sum(axis=-1, keepdims=True)


def features(theta: ArrayLike, X: ArrayLike, W_U: ArrayLike, shape: HeadShape) -> np.ndarray:
    r"""Feature map :math:`\varphi(X;\theta)=A\,X\,W_VW_OW_U` (equation (7)).

    Parameters
    ----------
    theta : array_like, shape (n, D)
        Heads.
    X : array_like, shape (S, T, d)
        Tokens.
    W_U : array_like, shape (d, V)
        Fixed projection to the vocabulary.
    shape : HeadShape
        Sizes of one head.

    Returns
    -------
    array, shape (n, S, T, V)
        One logit vector for every head, sequence and position. It is stored in full: for many
        heads use :class:`AttentionRisk`, which never stores it.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong shape or holds NaN or infinity.

    Examples
    --------
    >>> shape = HeadShape(1, 1, 1)
    >>> features([[0.0, 0.0, 1.0, 2.0]], [[[1.0], [3.0]]], [[1.0, -1.0]], shape)[0, 0]
    array([[ 2., -2.],
           [ 4., -4.]])
    """
    theta, X = _heads_and_tokens(theta, X, shape)
    W_U = validate.array(W_U, "W_U", (shape.d, "V"), largest=validate.LARGEST)
    _, _, W_V, W_O = shape._split(theta)
    return attention_weights(theta, X, shape) @ X @ (W_V @ W_O @ W_U)[:, None]


def _heads_and_tokens(theta, X, shape) -> tuple[np.ndarray, np.ndarray]:
    validate.instance(shape, "shape", HeadShape)
    largest = validate.LARGEST
    size = ("n", shape.size)
    theta = validate.array(theta, "theta", size, allow_complex=True, largest=largest)
    return theta, validate.array(X, "X", ("S", "T", shape.d), largest=largest)


@dataclass(frozen=True, eq=False)
class AttentionRisk(Functional):
    r"""Cross-entropy risk of a measure over attention heads.

    .. math:: R(\mu)=\frac1S\sum_{s\le S}\frac1T\sum_{t\le T}\ell\big(f_t(X_s;\mu),y_{s,t}\big),
              \qquad f_t(X;\mu)=\int\varphi_t(X;\theta)\,d\mu(\theta)

    in nats per token (equations (8) to (10)). The population is the finite set of sequences.
    Its first variation is
    :math:`\Psi(\theta;\mu)=\mathbb E\frac1T\sum_t\langle p_t-y_t,\varphi_t\rangle` (equation (11))
    and :math:`G=\nabla_\theta\Psi` its gradient (equation (13)).

    Parameters
    ----------
    X : array_like, shape (S, T, d)
        Tokens.
    Y : array_like, shape (S, T, V)
        Labels: one-hot, or a probability vector for each position (the label integrated out).
    W_U : array_like, shape (d, V)
        Fixed projection to the vocabulary.
    shape : HeadShape
        Sizes of one head.
    space : space, optional
        Where heads live: all of R^D (default) or ``shape.ball(radius)``.
    dtype : numpy.float64 or numpy.float32, optional
        Precision of data and of everything computed. Default float64. Complex heads are allowed
        in either and give complex results (for the complex step).

    Raises
    ------
    TypeError, ValueError
        If a shape is wrong, an entry is NaN or infinite, a label is not a probability vector, or
        the space has another dimension.

    Notes
    -----
    Written for speed: a head enters through :math:`B=W_QW_K^\top/\sqrt k` and :math:`C=W_VW_O`
    only; the head index is last and contiguous; a loop over the query position makes the mask
    free; tokens enter relative to the query's own; the residual is contracted with :math:`W_U`
    first; the attention weights are kept for the gradient while they fit in 32 MB, else
    recomputed. Beyond that, memory is linear in the number of heads with a constant of a few D
    numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shape = HeadShape(d=3, k=2, v=2)
    >>> Y = np.eye(4)[rng.integers(4, size=(5, 6))]
    >>> R = AttentionRisk(rng.normal(size=(5, 6, 3)), Y, rng.normal(size=(3, 4)), shape)
    >>> bool(np.isclose(R(Measure(np.zeros((1, shape.size)))), np.log(4)))
    True
    >>> zero = Measure(np.zeros((1, shape.size)))
    >>> R.logits(zero).shape, bool(np.allclose(R.residual(zero), 1 / 4 - R.Y))
    ((5, 6, 4), True)
    >>> index, uniform = R.draw(0, n=2)
    >>> R.labels(index, uniform).shape, R.sample(0, n=2).X.shape
    ((2, 6, 4), (2, 6, 3))
    """

    X: np.ndarray
    Y: np.ndarray
    W_U: np.ndarray
    shape: HeadShape
    space: Space = None  # type: ignore[assignment]
    dtype: type = np.float64

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(
            self,
            X: ArrayLike,
            Y: ArrayLike,
            W_U: ArrayLike,
            shape: HeadShape,
            space: Space | None = None,
            dtype: type = np.float64,
        ) -> None: ...

    def __post_init__(self):
        validate.instance(self.shape, "shape", HeadShape)
        try:
            dtype: np.dtype = np.dtype(self.dtype)
        except TypeError:
            dtype = np.dtype(object)
        if dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise TypeError(f"dtype: expected float64 or float32, got {self.dtype!r}")
        largest = _largest(dtype)
        X = validate.array(self.X, "X", ("S", "T", self.shape.d), largest=largest)
        W_U = validate.array(self.W_U, "W_U", (self.shape.d, "V"), largest=largest)
        Y = validate.probabilities(self.Y, "Y", (X.shape[0], X.shape[1], W_U.shape[1]))
        space = Euclidean() if self.space is None else validate.space(self.space)
        if getattr(space, "dim", self.shape.size) != self.shape.size:
            raise ValueError(
                f"space: expected dimension {self.shape.size} of {self.shape}, got {space.dim}"
            )
        for name, value in (("X", X), ("Y", Y), ("W_U", W_U)):
            object.__setattr__(self, name, validate.frozen(value.astype(dtype)))
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "dtype", dtype.type)

    def __repr__(self) -> str:
        S, T, V = self.Y.shape
        return f"AttentionRisk({S} sequences of {T} tokens, vocabulary {V}, {self.shape})"

    def at(self, mu: Measure) -> AttentionLocal:
        """Logits and residual at ``mu``, computed once."""
        validate.measure(mu, real=False, largest=_largest(self.dtype))
        if mu.dim != self.shape.size:
            raise ValueError(
                f"mu: expected heads of {self.shape.size} parameters for {self.shape}, got {mu.dim}"
            )
        attended, kept = _attended(self, mu)
        return AttentionLocal(self, mu, attended @ self.W_U, kept)

    def logits(self, mu: Measure) -> np.ndarray:
        r"""Mean-field logits :math:`f_t(X;\mu)` (equation (8)), shape (S, T, V)."""
        return self.at(mu).logits

    def residual(self, mu: Measure) -> np.ndarray:
        r"""Softmax residual :math:`r_t=p_t-y_t`, shape (S, T, V)."""
        return self.at(mu).residual

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return the function ``w -> (R, dR/dw)`` of the weights; attention is computed once."""
        size, largest = ("n", self.shape.size), _largest(self.dtype)
        atoms = validate.array(atoms, "atoms", size, allow_complex=True, largest=largest)
        A = attention_weights(atoms, self.X, self.shape)
        _, _, W_V, W_O = self.shape._split(atoms)
        # without W_U the features of one head are S x T x d numbers
        attended = (A @ self.X @ (W_V @ W_O)[:, None]).reshape(len(A), -1)

        def evaluate(w):
            f = (w @ attended).reshape(self.X.shape) @ self.W_U
            Z = (softmax(f) - self.Y) @ self.W_U.T
            slope = attended @ Z.ravel() / (Z.shape[0] * Z.shape[1])
            return cross_entropy(f, self.Y).mean(), slope

        return evaluate

    def sample(self, rng: Seed, n: int) -> AttentionRisk:
        """Return the risk of n fresh sequences, drawn with replacement, with labels drawn.

        Parameters
        ----------
        rng : numpy.random.Generator or int
            Source of randomness, or a seed.
        n : int
            Number of sequences, at least 1.

        Returns
        -------
        AttentionRisk
            Of these sequences.
        """
        rng, n = validate.generator(rng), validate.count(n, "n")
        index, uniform = self.draw(rng, n)
        labels = self.labels(index, uniform)
        return AttentionRisk(self.X[index], labels, self.W_U, self.shape, self.space, self.dtype)

    def draw(self, rng: Seed, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Random numbers of one sample: indices of n sequences, and a uniform number per label."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        return rng.integers(len(self.X), size=n), rng.random((n, self.Y.shape[1], 1))

    def labels(self, index: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """One-hot labels (..., T, V) of sequences ``index`` (...), drawn from their soft labels.

        The label is the first word at which the cumulative probability passes ``uniform``, shape
        (..., T, 1).

        Parameters
        ----------
        index : array of int, shape (...)
            Which sequences.
        uniform : array, shape (..., T, 1)
            Numbers in [0, 1).

        Returns
        -------
        array
            Shape (..., T, V).
        """
        index = validate.indices(index, "index", len(self.Y))
        uniform = validate.array(uniform, "uniform", (*index.shape, self.Y.shape[1], 1))
        return draw_labels(self.Y[index], uniform)


def draw_labels(Y, uniform) -> np.ndarray:
    """One-hot labels for soft labels Y (..., T, V) and uniform numbers (..., T, 1)."""
    passed = Y.cumsum(axis=-1) > uniform
    passed[..., -1] = True
    return np.eye(Y.shape[-1])[passed.argmax(axis=-1)]


@dataclass(frozen=True, eq=False)
class AttentionLocal:
    """The risk at one measure. Made by :meth:`AttentionRisk.at`.

    Attributes
    ----------
    risk : AttentionRisk
    mu : Measure
    logits : array, shape (S, T, V)
    """

    risk: AttentionRisk
    mu: Measure
    logits: np.ndarray
    _kept: list | None = None

    @cached_property
    def value(self) -> float:
        """Risk R(mu) in nats per token."""
        return cross_entropy(self.logits, self.risk.Y).mean()

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
        scale = np.sqrt(theta.real.dtype.type(shape.k))
        G = np.empty(theta.shape, np.result_type(theta, self._dual))
        t = (0, 2, 1)
        for h, dB, dC in _pull_back(self.risk, theta, self._dual, kept=kept):
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
        blocks = _pull_back(self.risk, self._heads(theta, "theta"), self._dual, scores=False)
        return np.concatenate([dC for _, _, dC in blocks])

    def minimise(self, rng, ridge: float = 0.0, space=None, **options) -> Minimum:
        """Least value of the first variation over the balls, with a rigorous lower bound.

        See :func:`mfbook.certificate.frank_wolfe_gap`, which calls this, for the method.
        """
        from ._best_head import best_head

        return best_head(self, rng, ridge, self.risk.space if space is None else space, **options)

    @property
    def _dual(self) -> np.ndarray:
        """Z divided by the number of tokens: the expectation's weights included."""
        S, T, _ = self.Z.shape
        return self.Z / self.Z.real.dtype.type(S * T)

    def _heads(self, x, name="x") -> np.ndarray:
        size, largest = ("n", self.risk.shape.size), _largest(self.risk.dtype)
        return _cast(validate.array(x, name, size, allow_complex=True, largest=largest), self.risk)


def _largest(dtype) -> float:
    """Size up to which products of four entries are finite numbers."""
    return validate.LARGEST if dtype == np.float64 else validate.LARGEST_SINGLE


def _cast(theta, risk):
    """Heads in the precision of the risk; complex stays complex."""
    kind = np.result_type(risk.dtype, np.complex64) if np.iscomplexobj(theta) else risk.dtype
    return np.asarray(theta, dtype=kind)


# The kernel. A row of scores may be shifted by a constant, so x_i^T B (x_j - x_i) serves as the
# score of key j for query i, and the row averages x_i + sum_{j<i} A_ij (x_j - x_i). The query's
# own token then has score 0 and needs neither an exponential nor a matrix product. Arrays are
# laid out (feature or key, sequence, head): the head index is contiguous, so one product or one
# ufunc call serves all heads of a block, and sums over keys or features add whole slabs.


def _blocks(total: int, size: int):
    """Slices of at most ``size`` that cover ``range(total)``."""
    return (slice(i, min(i + size, total)) for i in range(0, total, size))


def _score_matrices(theta, risk) -> tuple[np.ndarray, bool]:
    """B = W_Q W_K^T / sqrt(k) of each head as (key feature, query feature, m); are scores small?

    Small means that the sum of a row of exponentials and its reciprocal are normal numbers. It is
    proved by |x_i^T B (x_j - x_i)| <= 2 max|x|^2 |B|; X is real, so only Re B enters the real part.
    """
    W_Q, W_K, _, _ = risk.shape._split(theta)
    B = W_Q @ W_K.transpose(0, 2, 1) / np.sqrt(theta.real.dtype.type(risk.shape.k))
    with np.errstate(over="ignore", invalid="ignore"):
        bound = 2 * (risk.X**2).sum(-1).max() * np.sqrt((B.real**2).sum((1, 2)).max())
    small = bool(bound < np.log(np.finfo(B.dtype).max / (8 * risk.X.shape[1])))
    return np.ascontiguousarray(B.transpose(2, 1, 0)), small


def _value_matrices(theta, risk) -> np.ndarray:
    """C = W_V W_O of each head as (token feature, output feature, m)."""
    _, _, W_V, W_O = risk.shape._split(theta)
    return np.ascontiguousarray((W_V @ W_O).transpose(1, 2, 0))


def _aligned(size, dtype) -> np.ndarray:
    """Flat empty array that starts on a cache line: products into it are a tenth faster."""
    dtype = np.dtype(dtype)
    raw = np.empty(size * dtype.itemsize + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    return raw[start : start + size * dtype.itemsize].view(dtype)


def _view(buffer, *shape):
    """First entries of a flat buffer as a contiguous array."""
    return buffer[: prod(shape)].reshape(shape)


class _Work:
    """What one call needs: the tokens with position first, and buffers for one block."""

    def __init__(self, risk, heads, dtype):
        S, T, d = risk.X.shape
        self.tokens = np.ascontiguousarray(risk.X.transpose(1, 0, 2))
        block = min(SEQUENCES, S) * min(HEADS, heads)
        self.query, self.attended = (_aligned(block * d, dtype) for _ in range(2))
        self.scores, self.weights = (_aligned(block * T, dtype) for _ in range(2))

    def split(self, s, i) -> tuple[np.ndarray, np.ndarray]:
        """Query tokens i of sequences s (s, d), and earlier tokens relative to them (s, i, d)."""
        x = self.tokens[i, s]
        return x, (self.tokens[:i, s] - x).transpose(1, 0, 2)


def _pair(x, keys, W, work):
    """Products x^T W (x_j - x_i) for every earlier token and every head of W: (i, s, m)."""
    s, i, d = keys.shape
    m = W.shape[2]
    y = np.matmul(x, W, out=_view(work.query, d, s, m))
    out = _view(work.scores, i, s, m)
    np.matmul(keys, y.transpose(1, 0, 2), out=out.transpose(1, 0, 2))
    return out


def _attend(x, keys, B, small, work, out):
    """Attention weights (i, s, m) on the earlier tokens, into ``out``."""
    E = _pair(x, keys, B, work)
    own = 1
    if not small:
        top = np.maximum(E.real.max(axis=0), 0)
        E -= top
        own = np.exp(-top)
    np.exp(E, out=E)
    return np.multiply(E, 1 / (E.sum(axis=0) + own), out=out)


def _average(keys, A, work):
    """Sum of the relative tokens weighted by A (i, s, m): shape (d, s, m)."""
    _, s, m = A.shape
    out = _view(work.attended, keys.shape[2], s, m)
    if len(A) == 1:  # an outer product, at which BLAS is slow
        return np.multiply(keys.transpose(2, 0, 1), A, out=out)
    np.matmul(keys.transpose(0, 2, 1), A.transpose(1, 0, 2), out=out.transpose(1, 0, 2))
    return out


def _attended(risk, mu) -> tuple[np.ndarray, list | None]:
    """Integral of A X W_V W_O over the heads (S, T, d), and the attention weights if they fit."""
    theta = _cast(mu.atoms, risk)
    S, T, d = risk.X.shape
    out, mean = np.zeros((S, T, d), theta.dtype), np.zeros((d, d), theta.dtype)
    work = _Work(risk, len(theta), theta.dtype)
    total = len(theta) * S * T * (T - 1) // 2
    # one allocation, small enough for malloc to reuse its pages in the next call
    store = _aligned(total, theta.dtype) if total * theta.itemsize <= KEEP else None
    kept, used = [], 0
    for h in _blocks(len(theta), HEADS):
        B, small = _score_matrices(theta[h], risk)
        C = _value_matrices(theta[h], risk) * mu.weights[h].astype(theta.real.dtype)
        mean += C.sum(axis=2)
        for s, i in product(_blocks(S, SEQUENCES), range(1, T)):
            x, keys = work.split(s, i)
            A = _view(work.weights if store is None else store[used:], i, len(x), C.shape[2])
            _attend(x, keys, B, small, work, A)
            out[s, i] += (_average(keys, A, work) @ C.transpose(0, 2, 1)).sum(axis=0)
            if store is not None:
                kept.append(A)
                used += A.size
    return out + risk.X @ mean, None if store is None else kept


def _pull_back(risk, theta, dual, scores=True, kept=None):
    """Derivatives of the sum over tokens of <A X C, dual> in B and C, both (m, d, d).

    Yields (heads, dB, dC) for one block of heads after the other. Without ``scores`` dB is None,
    and no derivative of the softmax is needed. ``kept`` holds the attention weights of these heads
    in the order of the loops, if they are known.
    """
    S, T, d = risk.X.shape
    dtype = np.result_type(theta, dual)
    work = _Work(risk, len(theta), dtype)
    own = np.tensordot(risk.X, dual, ((0, 1), (0, 1)))  # the queries' own tokens: for every head
    known = iter(kept or ())
    for h in _blocks(len(theta), HEADS):
        block = theta[h].astype(dtype, copy=False)
        B, small = _score_matrices(block, risk) if kept is None else (None, None)
        C = _value_matrices(block, risk)
        m = len(block)
        dB, dC = np.zeros((2, d, d, m), dtype)
        for s, i in product(_blocks(S, SEQUENCES), range(1, T)):
            x, keys = work.split(s, i)
            u = dual[s, i]
            if kept is None:
                A = _attend(x, keys, B, small, work, _view(work.weights, i, len(x), m))
            else:
                A = next(known)
            dC += u.T @ _average(keys, A, work)
            if scores:  # derivative in the scores: A (D - sum A D)
                D = _pair(u, keys, C, work)
                D -= np.einsum("jsm,jsm->sm", A, D)
                D *= A
                dB += x.T @ _average(keys, D, work)
        # back to one contiguous matrix for each head
        dB = dB.transpose(2, 1, 0).copy() if scores else None
        yield h, dB, np.add(dC.transpose(2, 0, 1), own, order="C")
