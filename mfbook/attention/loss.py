"""Softmax and cross-entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = ["cross_entropy", "softmax"]


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
