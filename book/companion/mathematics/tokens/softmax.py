"""Softmax attention as a field, and the potential whose gradient it is under one more weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.tokens.energy import inner_products, log_mean, points
from mfbook import _validate as validate
from mfbook.measure import Measure, check_measure

__all__ = [
    "softmax_field",
    "softmax_potential",
]


# ------------------------------------------------------------------------------- softmax
def softmax_potential(
    x: ArrayLike, mu: Measure, *, Q: ArrayLike | None = None, K: ArrayLike | None = None
) -> np.ndarray:
    r"""Potential of softmax attention.

    .. math:: \Psi(x;\mu)=\log\int e^{\langle Qx,Ky\rangle}d\mu(y)

    Its gradient is :math:`Q^\top K` times the attended mean, so :func:`softmax_field` is its
    gradient where :math:`V=Q^\top K`, in particular without matrices.

    Parameters
    ----------
    x : array_like, shape (n, d)
        Points, of any size; complex ones are allowed, as are complex atoms.
    mu : Measure
        Law of the tokens, in :math:`\mathbb R^d`.
    Q, K : array_like, shape (k, d), optional
        Query and key matrix, acting on columns (:math:`Q=W_Q^\top/k^{1/4}` in the notation of
        heads). Default: the identity.

    Returns
    -------
    array, shape (n,)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or shape or is not finite.

    Examples
    --------
    >>> softmax_potential([[1e4, 0.0]], Measure([[1e4, 0.0], [0.0, 1.0]], [0.5, 0.5]))
    array([99999999.30685282])
    """
    return _softmax(x, mu, Q, K)[0]


def softmax_field(
    x: ArrayLike,
    mu: Measure,
    *,
    Q: ArrayLike | None = None,
    K: ArrayLike | None = None,
    V: ArrayLike | None = None,
) -> np.ndarray:
    r"""Velocity of tokens under softmax attention, a mean of the tokens' values.

    .. math:: v(x;\mu)=V\,\frac{\int y\,e^{\langle Qx,Ky\rangle}d\mu(y)}
                              {\int e^{\langle Qx,Ky\rangle}d\mu(y)}

    Parameters
    ----------
    x : array_like, shape (n, d)
        Points, of any size; complex ones are allowed, as are complex atoms.
    mu : Measure
        Law of the tokens, in :math:`\mathbb R^d`.
    Q, K : array_like, shape (k, d), optional
        Query and key matrix, acting on columns. Default: the identity.
    V : array_like, shape (d, d), optional
        Value matrix. Default: the identity.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or shape or is not finite.

    Examples
    --------
    >>> softmax_field([[0.0, 0.0], [0.0, 1e5]], Measure([[1.0, 0.0], [0.0, 1.0]]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    mean = _softmax(x, mu, Q, K)[1]
    if V is None:
        return mean
    return mean @ validate.array(V, "V", (mu.dim, mu.dim), largest=validate.LARGEST).T


def _softmax(x, mu, Q, K):
    check_measure(mu, real=False, largest=validate.LARGEST)
    x, y = points(x, mu), mu.atoms
    if Q is not None:
        Q = validate.array(Q, "Q", ("k", mu.dim), largest=validate.LARGEST)
    if K is not None:
        K = validate.array(K, "K", ("k", mu.dim), largest=validate.LARGEST)
        if len(K) != (mu.dim if Q is None else len(Q)):
            rows = mu.dim if Q is None else len(Q)
            raise ValueError(f"K: expected shape {(rows, mu.dim)}, got {K.shape}")
    elif Q is not None and len(Q) != mu.dim:
        raise ValueError(f"Q: expected shape {(mu.dim, mu.dim)} without K, got {Q.shape}")
    queries, keys = x if Q is None else x @ Q.T, y if K is None else y @ K.T
    return log_mean(inner_products(queries, keys), mu.weights, y)
