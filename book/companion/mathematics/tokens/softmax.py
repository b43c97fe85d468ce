"""Softmax attention as a field, and the potential whose gradient it is under one more weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.tokens.energy import inner_products, log_mean
from mfbook import _validate as validate
from mfbook.measure import Measure, check_measure


# ------------------------------------------------------------------------------- softmax
def softmax_potential(
    x: ArrayLike, mu: Measure, *, Q: ArrayLike | None = None, K: ArrayLike | None = None
) -> np.ndarray:
    r"""Potential of softmax attention.

    .. math:: \Psi(x;\mu)=\log\int e^{\langle Qx,Ky\rangle}d\mu(y)

    Its gradient is :math:`Q^\top K` times the attended mean, so :func:`softmax_field` is its
    gradient where :math:`V=Q^\top K`, in particular without matrices.
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
    """
    mean = _softmax(x, mu, Q, K)[1]
    if V is None:
        return mean
    return mean @ np.asarray(V, dtype=float).T


def _softmax(x, mu, Q, K):
    check_measure(mu, real=False, largest=validate.LARGEST)
    x, y = np.asarray(x), mu.atoms
    queries = x if Q is None else x @ np.asarray(Q).T
    keys = y if K is None else y @ np.asarray(K).T
    return log_mean(inner_products(queries, keys), mu.weights, y)
