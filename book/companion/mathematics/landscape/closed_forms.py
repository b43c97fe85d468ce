r"""Maxima of the potential of a ReLU perceptron in closed form (Section 3.3).

Three families of directions whose maximisers are known without a search; the search of
``extremal`` finds the same.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from companion.mathematics.landscape.arrangement import ON_PLANE, directions, forms
from companion.mathematics.landscape.extremal import TIE, Extremal
from mfbook.sphere.energy import on_sphere

__all__ = ["collinear_maximum", "diagonal_maximum", "nonnegative_maximum"]


def collinear_maximum(a1: ArrayLike, signs: ArrayLike, omega: ArrayLike) -> Extremal:
    r"""Maximum of v for units on one line, Section 3.3 (i).

    With :math:`a_j=\varepsilon_ja_1` and :math:`\Omega_\pm=\sum_{\varepsilon_j=\pm1}\omega_j`,

    .. math:: v(x)=\begin{cases}\Omega_+\langle a_1,x\rangle^2&\langle a_1,x\rangle\ge0\\
              \Omega_-\langle a_1,x\rangle^2&\langle a_1,x\rangle\le0\end{cases},\qquad
              \max v=\max(\Omega_+,\Omega_-,0).

    A positive maximum is taken at :math:`+a_1` or :math:`-a_1`, at both in a tie. Otherwise v
    vanishes on :math:`a_1^\perp`. These are all maximisers if both sums are negative; where a sum
    is zero, its closed half-sphere maximises, which the paper does not say.
    """
    a1 = np.asarray(a1, dtype=float)
    if len(a1) < 2:
        raise ValueError(f"a1: expected a vector in R^d with d >= 2, got d = {len(a1)}")
    on_sphere(a1[None], "a1")
    side = np.asarray(signs, dtype=float)
    if not np.isin(side, (-1, 1)).all():
        wrong = side[~np.isin(side, (-1, 1))][0]
        raise ValueError(f"signs: expected entries 1 or -1, got {wrong:g}")
    omega = np.asarray(omega, dtype=float)
    equal = TIE * np.abs(omega).sum()
    sums = {end: float(omega[side == end].sum()) for end in (1, -1)}
    best = max(sums.values())
    if best > equal:
        ends = [end for end, total in sums.items() if total >= best - equal]
        return _extremal(best, [(end * a1, end * side, end * a1[None]) for end in ends])
    if best >= -equal:
        ends = [end for end, total in sums.items() if total >= -equal]
        return _extremal(0.0, [(end * a1, end * side, np.eye(len(a1))) for end in ends])
    equator = np.linalg.svd(a1[None])[2][1:]
    off = np.zeros(len(side))
    if len(equator) == 1:
        return _extremal(0.0, [(end * equator[0], off, end * equator) for end in (1, -1)])
    return _extremal(0.0, [(equator[0], off, equator)])


def diagonal_maximum(omega: ArrayLike, d: int | None = None) -> Extremal:
    r"""Maximum of v for units along the coordinate axes, Section 3.3 (ii).

    With :math:`a_j=e_j` for :math:`j\le J\le d` and :math:`\max_j\omega_j>0`,

    .. math::
        \max v&=\max_j\omega_j,\\
        \operatorname{argmax}v&=\{x\in S^{d-1}:\ x_j\ge0\text{ if }\omega_j=\max\omega,\
        x_j=0\text{ otherwise}\}.

    Indeed :math:`v=\sum_{x_j>0}\omega_jx_j^2\le\max\omega\,\|x\|^2`. The coordinates
    :math:`x_j` with j > J are among those that vanish. It needs no sign of the smaller weights.
    """
    omega = np.asarray(omega, dtype=float)
    J = len(omega)
    d = J if d is None else d
    best = omega.max()
    if best <= 0:
        raise ValueError(f"omega: expected a positive weight, got largest weight {best:g}")
    top = np.flatnonzero(omega >= best - TIE * np.abs(omega).sum())
    span = np.eye(d)[top]
    point = span.sum(axis=0) / np.sqrt(len(top))
    return _extremal(best, [(point, point[:J] > 0, span)])


def nonnegative_maximum(a: ArrayLike, omega: ArrayLike) -> Extremal:
    r"""Maximum of v for entrywise nonnegative directions and positive weights, Section 3.3 (iii).

    With the matrix A whose rows are :math:`\sqrt{\omega_j}a_j`,

    .. math:: v(x)\le\|Ax\|^2\le\sigma_1(A)^2=\max v,

    with equality if and only if x is a top right singular vector with :math:`Ax\ge0`. By Perron
    and Frobenius there is one with nonnegative entries; it is the only one if :math:`\sigma_1` is
    simple. Otherwise :math:`A^\top A` splits in blocks of coordinates, and each block that
    has :math:`\sigma_1` contributes one nonnegative singular vector; the maximisers are the unit
    vectors among their nonnegative combinations.
    """
    a = directions(a)
    if (a < 0).any():
        raise ValueError(f"a: expected entries >= 0, got {a.min():g}")
    omega = np.asarray(omega, dtype=float)
    if (omega <= 0).any():
        raise ValueError(f"omega: expected positive weights, got {omega.min():g}")
    gram = forms(omega[None], a)[0]
    blocks = scipy.sparse.csgraph.connected_components(gram > 0, directed=False)[1]
    tops = []
    for block in range(blocks.max() + 1):
        at = np.flatnonzero(blocks == block)
        values, vectors = np.linalg.eigh(gram[np.ix_(at, at)])
        x = np.zeros(a.shape[1])
        # the top eigenvector of an irreducible block has one sign
        x[at] = np.abs(vectors[:, -1])
        tops.append((values[-1], x))
    best = max(value for value, _ in tops)
    span = np.array([x for value, x in tops if value >= best - TIE * omega.sum()])
    point = span.sum(axis=0) / np.sqrt(len(span))
    return _extremal(best, [(point, a @ point > ON_PLANE, span)])


def _extremal(value, pieces) -> Extremal:
    """Result from pieces (point, signs, span)."""
    points, signs, spans = zip(*pieces, strict=True)
    return Extremal(
        float(value),
        np.array(points),
        np.array(signs, np.int8),
        tuple(span for span in spans),
    )
