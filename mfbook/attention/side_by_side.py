"""Attention of many heads of many runs, forwards and backwards: the kernels of ``ensemble``."""

from __future__ import annotations

from math import prod

import numpy as np

from mfbook.attention.kernel import aligned

# Scores up to which no exponential, and no sum of them, overflows.
LARGEST = 600.0


def empty(*shape):
    """Array that starts on a cache line, at which arithmetic is up to twice as fast."""
    return aligned(prod(shape), float).reshape(shape)


class Block:
    """Some heads of R runs: their matrices, as views (column or row c, R, d, m)."""

    def __init__(self, shape, theta, out, weights):
        self.W, self.G = self.split(theta, shape), self.split(out, shape)
        self.weights, self.scale = weights, 1 / np.sqrt(shape.k)

    @staticmethod
    def split(theta, shape):
        """Columns of W_Q, W_K, W_V and rows of W_O."""
        d, sizes = shape.d, (shape.k, shape.k, shape.v)
        *inner, W_O = np.split(theta, np.cumsum(shape.blocks)[:-1])
        columns = [
            W.reshape(d, c, *theta.shape[1:]).transpose(1, 2, 0, 3)
            for W, c in zip(inner, sizes, strict=True)
        ]
        return [*columns, W_O.reshape(shape.v, d, *theta.shape[1:]).transpose(0, 2, 1, 3)]

    def averaged(self):
        """Rows of W_O times the weights of the heads, (v, R, m, d): what logits are summed with."""
        return (self.W[3] * self.weights[:, None]).swapaxes(2, 3)


class Pairs(Block):
    """Attention for short sequences: every pair of a query and an earlier token has a row.

    All pairs are treated by one call: products of small matrices give queries, keys and values of
    all pairs, and 0-1 matrices sum over the keys of a query. Keys and values are relative to the
    query's own token, which then has score 0. Arrays are (R, pair, head).
    """

    def __init__(self, shape, theta, out, weights, b, T):
        super().__init__(shape, theta, out, weights)
        R, m = theta.shape[1:]
        self.t, self.u = np.tril_indices(T, -1)
        self.sum = np.equal.outer(np.arange(1, T), self.t).astype(float)
        self.copy = np.ascontiguousarray(self.sum.T)
        n = b * len(self.t)
        self.q, self.k = empty(2, shape.k, R, n, m)
        self.v, self.g = empty(2, shape.v, R, n, m)
        self.A, self.D, self.E = empty(3, R, n, m)
        self.sums = empty(R, b, T - 1, m)
        # the queries' own tokens: in the layout of the gradients that they are added to
        self.own = self.split(empty(shape.size, R, m), shape)[2:]

    def pairs(self, a):
        """Rows of pairs (R, n, .) as (R, b, pair, .)."""
        return a.reshape(len(a), -1, len(self.t), a.shape[-1])

    def forward(self, X):
        """Sum over the heads of weight times A X W_V W_O, for tokens X (R, b, T, d)."""
        (W_Q, W_K, W_V, _), W_O, A = self.W, self.averaged(), self.A
        x, earlier = (X[:, :, i].reshape(len(X), -1, X.shape[-1]) for i in (self.t, self.u))
        self.X, self.x = X.reshape(len(X), -1, X.shape[-1]), x * self.scale
        self.relative = earlier - x
        np.matmul(self.x, W_Q, out=self.q)
        np.matmul(self.relative, W_K, out=self.k)
        np.matmul(self.relative, W_V, out=self.v)
        dot(self.q, self.k, self.E, out=A)
        own: float | np.ndarray = 1.0
        if not A.max() < LARGEST:
            starts = np.arange(1, X.shape[2]).cumsum() - np.arange(1, X.shape[2])
            top = np.maximum(np.maximum.reduceat(self.pairs(A), starts, axis=2), 0)
            A -= top[:, :, self.t - 1].reshape(A.shape)
            own = np.exp(-top)
        np.exp(A, out=A)
        total = np.matmul(self.sum, self.pairs(A), out=self.sums)
        total += own
        np.reciprocal(total, out=total)
        np.matmul(self.copy, total, out=self.pairs(self.E))
        A *= self.E
        self.v *= A
        z = (self.X @ (W_V @ W_O).sum(axis=0)).reshape(X.shape)
        z[:, :, 1:] += self.sum @ self.pairs((self.v @ W_O).sum(axis=0))
        return z

    def backward(self, dual):
        """Gradients for the residual seen from the tokens, (R, b, T, d)."""
        (_, _, W_V, W_O), (G_Q, G_K, G_V, G_O) = self.W, self.G
        A, D, E = self.A, self.D, self.E
        own = self.X.swapaxes(1, 2) @ dual.reshape(self.X.shape)
        dual = dual[:, :, self.t].reshape(self.x.shape)
        np.matmul(dual, W_O, out=self.g)
        dot(self.g, self.v, E, out=D)  # the derivative in A, times A
        self.g *= A
        np.matmul(self.sum, self.pairs(D), out=self.sums)
        np.matmul(self.copy, self.sums, out=self.pairs(E))
        E *= A
        D -= E
        self.q *= D
        self.k *= D
        relative = self.relative.swapaxes(1, 2)
        np.matmul(self.x.swapaxes(1, 2), self.k, out=G_Q)
        np.matmul(relative, self.q, out=G_K)
        np.matmul(relative, self.g, out=G_V)
        np.matmul(dual.swapaxes(1, 2), self.v, out=G_O)
        G_V += np.matmul(own, W_O, out=self.own[0])
        G_O += np.matmul(own.swapaxes(1, 2), W_V, out=self.own[1])


def dot(a, b, work, out):
    """Sum of a b over the first axis: twice as fast as ``einsum``, which has no wide arithmetic."""
    np.multiply(a[0], b[0], out=out)
    for x, y in zip(a[1:], b[1:], strict=True):
        out += np.multiply(x, y, out=work)


class Positions(Block):
    """Attention for long sequences: queries, keys and values stand once for each position.

    Arrays are (sequence, position, feature, head): a feature of a position is one contiguous
    slab, so sums over features and keys add slabs, and a loop over positions makes the mask free.
    """

    def __init__(self, shape, theta, out, weights, b, T):
        super().__init__(shape, theta, out, weights)
        R, m = theta.shape[1:]
        self.q, self.k, self.dq, self.dk = empty(4, b, T, shape.k, R * m)
        self.v, self.z, self.dz, self.dv = empty(4, b, T, shape.v, R * m)
        # attention weights and the derivative in the scores: key u <= t of query t
        self.A, self.B = empty(2, b, T, T, R * m)

    def columns(self, y):
        """A buffer as (c, R, b T, m)."""
        _, R, _, m = self.W[0].shape
        return y.reshape(-1, y.shape[2], R, m).transpose(1, 2, 0, 3)

    def forward(self, X):
        """Sum over the heads of weight times A X W_V W_O, for tokens X (R, b, T, d)."""
        self.x = X.reshape(len(X), -1, X.shape[-1])
        self.scaled = self.x * self.scale
        for y, x, W in zip(
            (self.q, self.k, self.v), (self.scaled, self.x, self.x), self.W[:3], strict=True
        ):
            np.matmul(x, W, out=self.columns(y))
        for s, t in np.ndindex(self.A.shape[:2]):
            A = self.A[s, t, : t + 1]
            np.einsum("kn,jkn->jn", self.q[s, t], self.k[s, : t + 1], out=A)
            A -= A.max(axis=0)
            np.exp(A, out=A)
            A *= 1 / A.sum(axis=0)
            np.einsum("jn,jvn->vn", A, self.v[s, : t + 1], out=self.z[s, t])
        return (self.columns(self.z) @ self.averaged()).sum(axis=0).reshape(X.shape)

    def backward(self, dual):
        """Gradients for the residual seen from the tokens, (R, b, T, d)."""
        dual = dual.reshape(self.x.shape)
        np.matmul(dual.swapaxes(1, 2), self.columns(self.z), out=self.G[3])
        np.matmul(dual, self.W[3], out=self.columns(self.dz))
        for s, t in np.ndindex(self.A.shape[:2]):
            A, B = self.A[s, t, : t + 1], self.B[s, t, : t + 1]
            np.einsum("vn,jvn->jn", self.dz[s, t], self.v[s, : t + 1], out=B)
            B -= np.einsum("jn,jn->n", A, B)
            B *= A
            np.einsum("jn,jkn->kn", B, self.k[s, : t + 1], out=self.dq[s, t])
        for s, u in np.ndindex(self.A.shape[:2]):
            np.einsum("tn,tkn->kn", self.B[s, u:, u], self.q[s, u:], out=self.dk[s, u])
            np.einsum("tn,tvn->vn", self.A[s, u:, u], self.dz[s, u:], out=self.dv[s, u])
        for dy, x, G in zip(
            (self.dq, self.dk, self.dv), (self.scaled, self.x, self.x), self.G[:3], strict=True
        ):
            np.matmul(x.swapaxes(1, 2), self.columns(dy), out=G)
