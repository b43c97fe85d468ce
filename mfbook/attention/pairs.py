"""Attention of a few heads on short sequences: all pairs of a query and an earlier token at once.

The same numbers as the kernel's, which takes one position after the other: with few heads and
sequences a call of NumPy costs more than the arithmetic in it, and here there are about twenty
calls, whatever the length. Arrays are (head, sequence, pair); 0-1 matrices sum over the pairs of a
query, and copy what belongs to a query to its pairs. Keys are relative to the query's own token,
which then has score 0.
"""

from __future__ import annotations

from functools import cache

import numpy as np

# With more numbers than this in the work of one position, on average, the kernel is faster.
FEW = 2**12


def suits(risk, heads: int) -> bool:
    """Whether this is the faster way for so many heads."""
    return heads * risk.X.size <= 2 * FEW


@cache
def _indices(T: int, dtype: type) -> tuple[np.ndarray, ...]:
    """Query and key of each pair, first pair of each query but the first, and who is whose."""
    query, key = np.tril_indices(T, -1)
    positions = np.arange(1, T)
    sums: np.ndarray = np.equal.outer(positions, query).astype(dtype)
    return query, key, np.searchsorted(query, positions), sums


def _matrices(theta, risk) -> tuple[np.ndarray, np.ndarray]:
    """B = W_Q W_K^T / sqrt(k) and C = W_V W_O of each head, both (m, d, d)."""
    W_Q, W_K, W_V, W_O = risk.shape._split(theta)
    B = W_Q @ W_K.transpose(0, 2, 1)
    B /= np.sqrt(theta.real.dtype.type(risk.shape.k))
    return B, W_V @ W_O


class _Pairs:
    """The tokens X in pairs: queries, and earlier tokens relative to them, both (S pair, d)."""

    def __init__(self, X):
        S, T, d = X.shape
        self.query, key, self.first, self.sums = _indices(T, X.dtype.type)
        x = X.take(self.query, axis=1)
        self.keys = X.take(key, axis=1) - x
        self.x, self.shape = x.reshape(-1, d), (S, len(key))

    def products(self, x, W):
        """x^T W (x_j - x_i) for all pairs and matrices: (m, S, pair)."""
        y = (x @ W).reshape(len(W), *self.keys.shape)
        return np.vecdot(self.keys, y)  # which conjugates what is real

    def averages(self, A):
        """Sums of the relative keys of each query, weighted by A: (m, S (T - 1), d)."""
        return (self.sums @ (A[..., None] * self.keys)).reshape(len(A), -1, self.keys.shape[2])

    def attend(self, B):
        """Attention weights on the earlier tokens (m, S, pair)."""
        A = self.products(self.x, B)
        own: float | np.ndarray = 1.0
        if not A.real.max(initial=0) < np.log(np.finfo(A.dtype).max / (8 * len(self.sums) + 8)):
            top = np.maximum(np.maximum.reduceat(A.real, self.first, axis=2), 0)
            A -= top[..., self.query - 1]
            own = np.exp(-top)
        np.exp(A, out=A)
        total = A @ self.sums.T
        total += own
        A *= np.reciprocal(total, out=total) @ self.sums
        return A


def forward(theta, weights, risk):
    """Integral of A X W_V W_O over the heads (S, T, d), and what ``pull_back`` can use again."""
    pairs = _Pairs(risk.X)
    B, C = _matrices(theta, risk)
    A = pairs.attend(B)
    averages = pairs.averages(A)
    C *= weights[:, None, None]
    # dot gives the same bits where tokens from another process are not aligned, matmul does not
    out = np.dot(risk.X, C.sum(axis=0))
    earlier = out[:, 1:]
    earlier += (averages @ C).sum(axis=0).reshape(earlier.shape)
    return out, (pairs, A, averages)


def pull_back(theta, dual, risk, scores=True, kept=None):
    """Derivatives of the sum over tokens of <A X C, dual> in B and C, both (m, d, d).

    Without ``scores`` the first is None. ``kept`` is what ``forward`` has computed of these heads.
    """
    B, C = _matrices(theta, risk)
    if kept is None:
        pairs = _Pairs(risk.X)
        A = pairs.attend(B)
        averages = pairs.averages(A)
    else:
        pairs, A, averages = kept
    d = risk.X.shape[2]
    dC = averages.swapaxes(1, 2) @ dual[:, 1:].reshape(-1, d)
    dC += np.dot(risk.X.reshape(-1, d).T, dual.reshape(-1, d))  # the queries' own tokens
    if not scores:
        return None, dC
    D = pairs.products(dual.take(pairs.query, axis=1).reshape(-1, d), C.swapaxes(1, 2))
    # through the softmax: A (D - sum A D)
    D *= A
    D -= A * (D @ pairs.sums.T @ pairs.sums)
    return risk.X[:, 1:].reshape(-1, d).T @ pairs.averages(D), dC
