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

from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
import scipy

from mfbook._work import blocks

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
    c = scipy.special.ive(k, beta) * np.where(k == 0, 1.0, 2.0)
    # potentials need c_k, forces k c_k / beta
    small = c * np.maximum(1, k / beta) < 1e-17
    c = c[: int(np.argmax(small)) if small.any() else len(c)]
    c.flags.writeable = False
    return c


class Powers:
    """Powers 1, z, z^2, ... of unit complex numbers as products of few small and few large ones.

    With ``s`` small powers (rows of ``low``) and ``t`` large ones, ``high[j] = z^(s j)``, the sums
    over all points and the values of a polynomial are matrix products. Points are taken in chunks
    that use one piece of memory: to ask for it again costs as much as a chunk.
    """

    def __init__(self, z: np.ndarray, count: int, chunk: int | None = None):
        self.z, self.s = z, int(np.ceil(np.sqrt(count)))
        self.t = -(-count // self.s)
        self.chunk = min(len(z), chunk or CHUNKS[len(z) > 16 * CHUNKS[0]])
        # the last small power is the first large one; the third is for products
        self._memory = [
            np.empty((rows, self.chunk), complex) for rows in (self.s + 1, self.t, self.t)
        ]
        self._filled = slice(0, 0)

    def _tables(self):
        """Each chunk with its small and large powers and memory for a product."""
        for part in blocks(len(self.z), self.chunk):
            rows, high, work = (table[:, : part.stop - part.start] for table in self._memory)
            if part != self._filled:
                powers(self.z[part], rows)
                powers(rows[self.s], high)
                self._filled = part
            yield part, rows[: self.s], high, work

    def moments(self, w: np.ndarray) -> np.ndarray:
        """Sums over points of w z^k, shape (s t,)."""
        total = np.zeros((self.t, self.s), complex)
        for part, low, high, work in self._tables():
            total += np.multiply(high, w[part], out=work) @ low.T
        return total.ravel()

    def polynomial(self, c: np.ndarray) -> np.ndarray:
        """Real parts of sum_k c_k z^k for each row of ``c``, shape (rows, n)."""
        out = np.empty((len(c), len(self.z)))
        rows = np.zeros((len(c), self.s * self.t), complex)
        rows[:, : c.shape[1]] = c
        for part, low, high, work in self._tables():
            for value, row in zip(out, rows, strict=True):
                product = np.matmul(row.reshape(self.t, self.s), low, out=work)
                product *= high
                product.real.sum(axis=0, out=value[part])
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


@lru_cache(maxsize=64)
def _factors(beta: float) -> dict[str, np.ndarray]:
    """What Fourier moments are multiplied with for each of the sums of :class:`CircleSums`."""
    c = fourier(beta)
    k = np.arange(len(c))
    # h cos u has the mean of the neighbouring coefficients of the series over all integers
    whole = np.where(k == 0, c, c / 2)
    up = np.append(whole[1:], 0.0)
    down = np.append(up[0], whole[:-1])
    radial = np.where(k == 0, 1.0, 2.0) * (up + down) / 2
    return {"Z": c, "r": radial, "t": 1j * k * c / beta, "c": -(k * k) * c / beta}


class CircleSums:
    """Sums over a measure on the circle, from its Fourier moments."""

    def __init__(self, x: np.ndarray, w: np.ndarray, beta: float):
        self.beta, count = beta, len(fourier(beta))
        self.own = Powers(as_complex(x), count)
        self.moments = np.conj(self.own.moments(w)[:count])

    def __call__(self, rows: str, x: np.ndarray | None = None) -> np.ndarray:
        r"""Sums at the points ``x``, by default the atoms; one row for each letter of ``rows``.

        ``Z``: :math:`\sum w_jh`; ``r``, ``t``: radial and tangential part of
        :math:`\sum w_jhy_j`; ``c``: derivative of the tangential part along the circle.
        """
        points = self.own if x is None else Powers(as_complex(x), len(self.moments))
        factors = _factors(self.beta)
        return points.polynomial(np.array([factors[row] * self.moments for row in rows]))


def turned(x: np.ndarray) -> np.ndarray:
    """Directions of increasing angle at unit vectors (n, 2)."""
    return np.stack([-x[:, 1], x[:, 0]], axis=1)


def as_complex(x: np.ndarray) -> np.ndarray:
    """Points of the plane as complex numbers."""
    return np.ascontiguousarray(x, dtype=float).view(complex).ravel()


def direct(x, y, w, beta, B=None, s=1.0, *, shift=False):
    """Return Z and N at the points ``x``, shapes (n,) and (n, d), by visiting every pair.

    With ``shift`` both are divided by the largest exponential of each point, so that the quotient
    survives far away from all particles.
    """
    left, exponent, right = _matrices(x, y, w, beta, B, s)
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
    n = len(y)
    left, exponent, right = _matrices(y, y, w, beta, B, s)
    if n <= BLOCK:
        e = left @ exponent
        out = np.exp(e, out=e) @ right
        return out[:, -1], out[:, :-1]
    out = np.zeros_like(right)
    # one piece of memory for all blocks: to ask for it again costs as much as a block
    work = np.empty(BLOCK**2, right.dtype)
    for a, b in combinations_with_replacement(blocks(n, BLOCK), 2):
        rows, columns = a.stop - a.start, b.stop - b.start
        e = work[: rows * columns].reshape(rows, columns)
        np.matmul(left[a], exponent[:, b], out=e)
        np.exp(e, out=e)
        out[a] += e @ right[b]
        if a != b:
            out[b] += e.T @ right[a]
    return out[:, -1], out[:, :-1]


def _matrices(x, y, w, beta, B, s):
    """Matrices (x, 1), (beta B y, -beta s)^T and w (B y, 1): exponents are products of two."""
    yB = y if B is None else y @ B
    right = np.concatenate([w[:, None] * yB, w[:, None]], axis=1)
    exponent = np.concatenate([beta * yB, np.full((len(y), 1), -beta * s)], axis=1).T
    return np.concatenate([x, np.ones((len(x), 1))], axis=1), exponent, right


def fast_on_circle(n: int, atoms: int, beta: float) -> bool:
    """Whether the series is cheaper than n x atoms exponentials."""
    return n * atoms > 2 * (n + atoms) * terms_needed(beta) + 4096
