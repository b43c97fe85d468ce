r"""Sums over all pairs: the attention field of N particles, exactly and fast.

With weights :math:`w_j` and a symmetric matrix B of spectral norm s,

.. math:: Z(x)=\sum_jw_je^{\beta(\langle x,By_j\rangle-s)},\qquad
          N(x)=\sum_jw_je^{\beta(\langle x,By_j\rangle-s)}By_j.

There are two ways. *Directly*, in blocks that stay in cache: a matrix product, an exponential in
place, a matrix product; for the particles themselves every pair is visited once. *On the circle*
(B = I) the kernel has the Fourier series
:math:`e^{\beta(\cos u-1)}=\sum_{k\in\mathbb Z}e^{-\beta}I_k(\beta)\cos ku`, whose coefficients fall
below rounding after :math:`K\approx9\sqrt\beta` terms, so both sums cost O(NK).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import ive

from mfbook._blocks import blocks

#: Largest inverse temperature whose Fourier coefficients are listed: a million.
SHARPEST = 1e10
#: Particles in one block of pairs: 256 x 256 numbers are half a megabyte.
BLOCK = 256
#: Points whose powers are held at a time, for few points and for many. Arrays of the first size are
#: small enough for an allocator to reuse; the second amortises calls.
CHUNKS = (1024, 8192)
#: Where a fast sum Z is smaller, its relative error is too large to divide by it.
ACCURATE = 1e-3
#: Where a direct sum Z is smaller, it has lost terms to underflow.
SAFE = 1e-200


def terms_needed(beta: float) -> int:
    """Number of Fourier coefficients, k = 0, 1, ..., beyond which all are below rounding."""
    # e^{-beta} I_k(beta) is about e^{-k^2/(2 beta)} / sqrt(2 pi beta) for k << beta
    return int(9.2 * np.sqrt(beta)) + 20


@lru_cache(maxsize=64)
def fourier(beta: float) -> np.ndarray:
    r"""Coefficients of :math:`e^{\beta(\cos u-1)}=\sum_{k\ge0}c_k\cos ku`, read-only."""
    k = np.arange(terms_needed(beta))
    c = ive(k, beta) * np.where(k == 0, 1.0, 2.0)
    # potentials need c_k, forces k c_k / beta
    small = c * np.maximum(1, k / beta) < 1e-17
    c = c[: int(np.argmax(small)) if small.any() else len(c)]
    c.flags.writeable = False
    return c


class Powers:
    """Powers 1, z, z^2, ... of unit complex numbers as products of few small and few large ones.

    With ``s`` small powers (rows of ``low``) and ``t`` large ones, ``high[j] = z^(s j)``, the sums
    over all points and the values of a polynomial are matrix products.
    """

    def __init__(self, z: np.ndarray, count: int):
        self.s = int(np.ceil(np.sqrt(count)))
        self.t = -(-count // self.s)
        # the last small power is the first large one; `work` is for products
        self._rows = np.empty((self.s + 1, len(z)), complex)
        self.low, self.high = self._rows[: self.s], np.empty((self.t, len(z)), complex)
        self._work = np.empty_like(self.high)
        self.refill(z)

    def refill(self, z: np.ndarray) -> None:
        """Powers of as many other points, in the same memory."""
        powers(z, self._rows)
        powers(self._rows[self.s], self.high)

    def moments(self, w: np.ndarray) -> np.ndarray:
        """Sums over points of w z^k, shape (s t,)."""
        return (np.multiply(self.high, w, out=self._work) @ self.low.T).ravel()

    def polynomial(self, c: np.ndarray) -> np.ndarray:
        """Real parts of sum_k c_k z^k for each row of ``c``, shape (rows, n)."""
        out = np.empty((len(c), self.low.shape[1]))
        for value, row in zip(out, c.reshape(len(c), self.t, self.s), strict=True):
            product = np.matmul(row, self.low, out=self._work)
            product *= self.high
            product.real.sum(axis=0, out=value)
        return out


def powers(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Fill ``rows`` with z^0, z^1, ..., by doubling."""
    count = len(rows)
    rows[0] = 1
    if count > 1:
        rows[1] = z
    have = 2
    while have < count:
        more = min(have - 1, count - have)
        np.multiply(rows[1 : 1 + more], rows[have - 1], out=rows[have : have + more])
        have += more
    return rows


@dataclass(frozen=True, eq=False)
class CircleSums:
    """The Fourier moments of a measure on the circle."""

    beta: float
    moments: np.ndarray
    own: Powers | None

    @staticmethod
    def of(x: np.ndarray, w: np.ndarray, beta: float) -> CircleSums:
        count = len(fourier(beta))
        total = np.zeros(1, complex)  # grows to as many moments as there are products
        for part, powers in _chunks(x, count):
            total = total + powers.moments(w[part])
        return CircleSums(beta, total, powers if len(x) <= CHUNKS[0] else None)

    def __call__(self, x: np.ndarray, rows: str, *, own: bool = False) -> np.ndarray:
        r"""Sums at the points ``x``, one row for each letter of ``rows``.

        ``Z``: :math:`\sum w_jh`; ``r``, ``t``: radial and tangential part of
        :math:`\sum w_jhy_j`; ``c``: derivative of the tangential part along the circle.
        """
        c = self._coefficients(rows)
        if own and self.own is not None:
            return self.own.polynomial(c)
        out = np.empty((len(c), len(x)))
        for part, powers in _chunks(x, len(fourier(self.beta))):
            out[:, part] = powers.polynomial(c)
        return out

    def _coefficients(self, rows):
        c = np.zeros(len(self.moments))
        known = fourier(self.beta)
        c[: len(known)] = known
        k, m = np.arange(len(c)), np.conj(self.moments)
        # h cos u has the mean of the neighbouring coefficients
        if "r" in rows:
            whole = np.where(k == 0, c, c / 2)  # over all integers
            up = np.append(whole[1:], 0.0)
            down = np.append(up[0], whole[:-1])
            radial = np.where(k == 0, 1.0, 2.0) * (up + down) / 2
        table = {
            "Z": lambda: c * m,
            "r": lambda: radial * m,
            "t": lambda: 1j * k * c / self.beta * m,
            "c": lambda: -(k * k) * c / self.beta * m,
        }
        return np.array([table[row]() for row in rows])


def _chunks(x, count):
    """Powers of the points, chunk by chunk; each overwrites the memory of the one before."""
    z, powers = as_complex(x), None
    size = CHUNKS[len(z) > 16 * CHUNKS[0]]
    for part in blocks(len(z), size):
        if powers is None or part.stop - part.start < size:
            powers = Powers(z[part], count)
        else:
            powers.refill(z[part])
        yield part, powers


def as_complex(x: np.ndarray) -> np.ndarray:
    """Points of the plane as complex numbers."""
    return np.ascontiguousarray(x, dtype=float).view(complex).ravel()


def direct(x, y, w, beta, B=None, s=1.0, *, shift=False):
    """Return Z and N at the points ``x``, shapes (n,) and (n, d), by visiting every pair.

    With ``shift`` both are divided by the largest exponential of each point, so that the quotient
    survives far away from all particles.
    """
    yB = y if B is None else y @ B
    right = np.concatenate([w[:, None] * yB, w[:, None]], axis=1)
    exponent = np.concatenate([beta * yB, np.full((len(y), 1), -beta * s)], axis=1).T
    left = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    out = np.empty((len(x), right.shape[1]), np.result_type(x, y, float))
    for part in blocks(len(x), BLOCK * BLOCK // len(y) + 1):
        e = left[part] @ exponent
        if shift:
            e -= e[:, w > 0].max(axis=1, keepdims=True)
            np.minimum(e, 0, out=e)  # of nearer particles without weight
        np.exp(e, out=e)
        out[part] = e @ right
    return out[:, -1], out[:, :-1]


def symmetric(y, w, beta, B=None, s=1.0):
    """As :func:`direct` at the particles themselves; every pair of blocks is visited once."""
    n, yB = len(y), y if B is None else y @ B
    right = np.concatenate([w[:, None] * yB, w[:, None]], axis=1)
    if n <= BLOCK:
        e = y @ (beta * yB).T
        e -= beta * s
        out = np.exp(e, out=e) @ right
        return out[:, -1], out[:, :-1]
    left = np.concatenate([y, np.ones((n, 1))], axis=1)
    exponent = np.concatenate([beta * yB, np.full((n, 1), -beta * s)], axis=1).T
    out = np.zeros_like(right)
    # one piece of memory for all blocks: to ask for it again costs as much as a block
    work = np.empty(min(n, BLOCK) ** 2, right.dtype)
    for a, b in combinations_with_replacement(blocks(n, BLOCK), 2):
        rows, columns = a.stop - a.start, b.stop - b.start
        e = work[: rows * columns].reshape(rows, columns)
        np.matmul(left[a], exponent[:, b], out=e)
        np.exp(e, out=e)
        out[a] += e @ right[b]
        if a != b:
            out[b] += e.T @ right[a]
    return out[:, -1], out[:, :-1]


def fast_on_circle(n: int, atoms: int, beta: float) -> bool:
    """Whether the series is cheaper than n x atoms exponentials."""
    return n * atoms > 2 * (n + atoms) * terms_needed(beta) + 4096
