"""The sizes of a head, and the order of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mfbook import _validate as validate
from mfbook.space import Ball

__all__ = ["HeadShape"]


@dataclass(frozen=True)
class HeadShape:
    r"""Sizes of one head: token dimension d, query/key dimension k, value dimension v.

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

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the matrices lie in a head: ``H[s[2], s[3]]`` is the (W_V, W_O) of a Hessian."""
        ends = np.cumsum((0, *self.blocks)).tolist()
        return tuple(slice(*pair) for pair in pairwise(ends))

    def imbalances(self, theta: np.ndarray) -> np.ndarray:
        r"""What the bare flow conserves, heads (..., D) to the entries (..., k² + v²).

        They are those of :math:`W_Q^\top W_Q-W_K^\top W_K` and :math:`W_V^\top W_V-W_OW_O^\top`.
        """
        W_Q, W_K, W_V, W_O = self.split(theta)
        parts = (W_Q.mT @ W_Q - W_K.mT @ W_K, W_V.mT @ W_V - W_O @ W_O.mT)
        return np.concatenate([p.reshape(*p.shape[:-2], -1) for p in parts], axis=-1)
