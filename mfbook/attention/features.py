r"""The readable formulas: attention, features, softmax and loss, written as the paper writes them.

The kernel computes the same for many heads at once, and is tested against this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.attention.shape import HeadShape

__all__ = ["attention_weights", "cross_entropy", "features", "softmax"]


def attention_weights(theta: ArrayLike, X: ArrayLike, shape: HeadShape) -> np.ndarray:
    r"""Causal attention matrices A of heads on sequences (equations (5) and (6)).

    - ``theta`` (n, D), ``X`` (S, T, d): Heads of this ``shape``, and tokens.

    Returns shape (n, S, T, T): Row t holds the weights of tokens u <= t; rows sum to one,
    the rest is zero.

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

    - ``theta`` (n, D), ``X`` (S, T, d): Heads of this ``shape``, and tokens.
    - ``W_U`` (d, V): Fixed projection to the vocabulary.

    Returns shape (n, S, T, V): One logit vector for every head, sequence and position. It is
    stored in full: for many heads use :class:`AttentionRisk`, which never stores it.

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


def softmax(f: ArrayLike) -> np.ndarray:
    r"""Predicted law :math:`p_i=e^{f_i}/\sum_je^{f_j}` over the last axis (equation (3)).

    - ``f`` (..., V): Logits of any size; complex ones are allowed.

    Unlike ``scipy.special.softmax`` it takes complex logits, for derivatives by complex step.

    >>> softmax([0.0, 1e4])
    array([0., 1.])
    """
    f = validate.array(f, "f", (..., "V"), allow_complex=True)
    e = np.exp(f - f.real.max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    return e


def cross_entropy(f: ArrayLike, y: ArrayLike) -> np.ndarray:
    r"""Loss :math:`\ell(f,y)=\log\sum_ie^{f_i}-\langle y,f\rangle` in nats (equation (9)).

    - ``f`` (..., V): Logits; complex ones are allowed.
    - ``y`` (..., V): One-hot labels or probability vectors; leading axes broadcast.
    """
    f = validate.array(f, "f", (..., "V"), allow_complex=True)
    y = validate.probabilities(y, "y", (..., f.shape[-1]))
    try:
        np.broadcast_shapes(f.shape, y.shape)
    except ValueError:
        raise ValueError(f"y: expected shape {f.shape} as f has, got {y.shape}") from None
    return loss(f, y)


def loss(f, y) -> np.ndarray:
    """Cross-entropy of logits f and the soft labels y of a risk, which were checked before."""
    f = f - f.real.max(axis=-1, keepdims=True)
    return np.log(np.exp(f).sum(axis=-1)) - (y * f).sum(axis=-1)
