"""The fast attention: logits of many heads and what a residual gives back to them.

A row of scores may be shifted by a constant, so x_i^T B (x_j - x_i) serves as the score of key j
for query i, and the row averages x_i + sum_{j<i} A_ij (x_j - x_i). The query's own token then has
score 0 and needs neither an exponential nor a matrix product. Arrays are laid out (feature or key,
sequence, head): the head index is contiguous, so one product or one ufunc call serves all heads of
a block, and sums over keys or features add whole slabs.
"""

from collections.abc import Iterable
from itertools import product
from math import prod

import numpy as np

from mfbook._work import blocks

# One block of work holds this many heads and sequences: enough to hide the cost of a call, few
# enough for its buffers to stay in the cache, and no power of two, whose strides collide there.
HEADS, SEQUENCES = 192, 64

# Attention weights of the measure's own heads are kept for the gradient if they fit (bytes).
KEEP = 2**25


def _score_matrices(theta, risk) -> tuple[np.ndarray, bool]:
    """B = W_Q W_K^T / sqrt(k) of each head as (key feature, query feature, m); are scores small?

    Small means that the sum of a row of exponentials and its reciprocal are normal numbers. It is
    proved by |x_i^T B (x_j - x_i)| <= 2 max|x|^2 |B|; X is real, so only Re B enters the real part.
    """
    W_Q, W_K, _, _ = risk.shape._split(theta)
    B = W_Q @ W_K.transpose(0, 2, 1) / np.sqrt(risk.shape.k)
    with np.errstate(over="ignore", invalid="ignore"):
        bound = 2 * (risk.X**2).sum(-1).max() * np.sqrt((B.real**2).sum((1, 2)).max())
    small = bool(bound < np.log(np.finfo(B.dtype).max / (8 * risk.X.shape[1])))
    return np.ascontiguousarray(B.transpose(2, 1, 0)), small


def _value_matrices(theta, risk) -> np.ndarray:
    """C = W_V W_O of each head as (token feature, output feature, m)."""
    _, _, W_V, W_O = risk.shape._split(theta)
    return np.ascontiguousarray((W_V @ W_O).transpose(1, 2, 0))


def aligned(size, dtype) -> np.ndarray:
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
        self.query, self.attended = (aligned(block * d, dtype) for _ in range(2))
        self.scores, self.weights = (aligned(block * T, dtype) for _ in range(2))

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


def forward(risk, mu) -> tuple[np.ndarray, Iterable | None]:
    """Integral of A X W_V W_O over the heads (S, T, d), and what ``pull_back`` can use again.

    These are the attention weights, if they fit.
    """
    theta = mu.atoms
    S, T, d = risk.X.shape
    out, mean = np.zeros((S, T, d), theta.dtype), np.zeros((d, d), theta.dtype)
    work = _Work(risk, len(theta), theta.dtype)
    total = len(theta) * S * T * (T - 1) // 2
    # one allocation, small enough for malloc to reuse its pages in the next call
    store = aligned(total, theta.dtype) if total * theta.itemsize <= KEEP else None
    kept, used = [], 0
    for h in blocks(len(theta), HEADS):
        B, small = _score_matrices(theta[h], risk)
        C = _value_matrices(theta[h], risk) * mu.weights[h]
        mean += C.sum(axis=2)
        for s, i in product(blocks(S, SEQUENCES), range(1, T)):
            x, keys = work.split(s, i)
            A = _view(work.weights if store is None else store[used:], i, len(x), C.shape[2])
            _attend(x, keys, B, small, work, A)
            out[s, i] += (_average(keys, A, work) @ C.transpose(0, 2, 1)).sum(axis=0)
            if store is not None:
                kept.append(A)
                used += A.size
    return out + risk.X @ mean, None if store is None else kept


def pull_back(risk, theta, dual, scores=True, kept=None):
    """Derivatives of the sum over tokens of <A X C, dual> in B and C, both (m, d, d).

    Yields (heads, dB, dC) for one block of heads after the other. Without ``scores`` dB is None,
    and no derivative of the softmax is needed. ``kept`` is what ``forward`` returned with these
    heads: attention weights in the order of the loops.
    """
    S, T, d = risk.X.shape
    dtype = np.result_type(theta, dual)
    work = _Work(risk, len(theta), dtype)
    own = np.tensordot(risk.X, dual, ((0, 1), (0, 1)))  # the queries' own tokens: for every head
    known = iter(kept or ())
    for h in blocks(len(theta), HEADS):
        block = theta[h].astype(dtype, copy=False)
        B, small = _score_matrices(block, risk) if kept is None else (None, None)
        C = _value_matrices(block, risk)
        m = len(block)
        dB, dC = np.zeros((2, d, d, m), dtype)
        for s, i in product(blocks(S, SEQUENCES), range(1, T)):
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
