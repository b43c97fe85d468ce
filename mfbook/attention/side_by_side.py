"""Attention of many heads of many runs, forwards and backwards: the kernels of ``ensemble``."""

from math import prod

import numpy as np

from mfbook.attention.kernel import aligned


def empty(*shape):
    """Array that starts on a cache line, at which arithmetic is up to twice as fast."""
    return aligned(prod(shape), float).reshape(shape)


class Layer:
    """Attention of some heads of R runs: reads theta (D, R, m), writes gradients into ``out``.

    Queries, keys and values stand once for each position, in arrays (sequence, position, feature,
    head): a feature of a position is one contiguous slab, so sums over features and keys add
    slabs, and a loop over positions makes the mask free.
    """

    def __init__(self, shape, theta, out, weights, b, T):
        R, m = theta.shape[1:]
        self.W, self.G = self.split(theta, shape), self.split(out, shape)
        self.weights, self.scale = weights, 1 / np.sqrt(shape.k)
        self.q, self.k, self.dq, self.dk = empty(4, b, T, shape.k, R * m)
        self.v, self.z, self.dz, self.dv = empty(4, b, T, shape.v, R * m)
        # attention weights and the derivative in the scores: key u <= t of query t
        self.A, self.B = empty(2, b, T, T, R * m)

    @staticmethod
    def split(theta, shape):
        """Columns of W_Q, W_K, W_V and rows of W_O: (column or row, R, d, m), as views."""
        d, sizes = shape.d, (shape.k, shape.k, shape.v)
        *inner, W_O = np.split(theta, np.cumsum(shape.blocks)[:-1])
        columns = [
            W.reshape(d, c, *theta.shape[1:]).transpose(1, 2, 0, 3)
            for W, c in zip(inner, sizes, strict=True)
        ]
        return [*columns, W_O.reshape(shape.v, d, *theta.shape[1:]).transpose(0, 2, 1, 3)]

    def columns(self, y):
        """A buffer as (c, R, b T, m)."""
        _, R, _, m = self.W[0].shape
        return y.reshape(-1, y.shape[2], R, m).transpose(1, 2, 0, 3)

    def forward(self, X):
        """Sum over the heads of weight times A X W_V W_O, for tokens X (R, b, T, d)."""
        rows = (self.W[3] * self.weights[:, None]).swapaxes(2, 3)
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
        return (self.columns(self.z) @ rows).sum(axis=0).reshape(X.shape)

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
