"""Softmax, its Jacobian, and the cross-entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = [
    "cross_entropy",
    "softmax",
    "softmax_jacobian",
]


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
    e = np.exp(f - f.real.max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    return e


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
    return loss(f, y)


def loss(f, y) -> np.ndarray:
    """Cross-entropy of logits f and the soft labels y of a risk, which were checked before."""
    f = validate.array(f, "f", (..., "V"), allow_complex=True)
    f = f - f.real.max(axis=-1, keepdims=True)
    return np.log(np.exp(f).sum(axis=-1)) - (y * f).sum(axis=-1)


def draw_labels(Y, uniform) -> np.ndarray:
    """One-hot labels for soft labels Y (..., T, V) and uniform numbers (..., T, 1)."""
    passed = Y.cumsum(axis=-1) > uniform
    passed[..., -1] = True
    return np.eye(Y.shape[-1])[passed.argmax(axis=-1)]
