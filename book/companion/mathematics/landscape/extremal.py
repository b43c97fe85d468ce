r"""Extremal points of the potential of a ReLU perceptron (Proposition 3.7, Section 3.3).

.. math:: v(x)=\sum_j\omega_j\max(\langle a_j,x\rangle,0)^2=x^\top A_Cx,\qquad
          A_C=\sum_{j\in C}\omega_ja_ja_j^\top,

where C holds the units that are active at x. The hyperplanes :math:`a_j^\perp` cut the sphere in
finitely many regions, each with one C. Ascent has the global maximisers :math:`\delta_x` with x
in argmax v, so they are found by finitely many eigenproblems.

Every maximiser lies in the interior of exactly one face: a region of the arrangement that the
hyperplanes cut in an intersection W of some of them. There v is a quadratic form, so the
maximiser is a top eigenvector of :math:`A_C` restricted to W. The search lists all faces and all
their top eigenvectors; it takes no starting point and misses nothing, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from companion.mathematics.landscape.arrangement import (
    ON_PLANE,
    SignRegions,
    cells,
    directions,
    flats,
    forms,
    lines,
    refuse_many,
    sign_regions,
)
from mfbook._blocks import blocks
from mfbook.sphere.energy import SphereEnergy

__all__ = ["Extremal", "RegionMaxima", "maximise_potential"]

#: Difference, in units of the sum of the weights, below which values or eigenvalues are equal.
TIE = 1e-12
#: Maximisers of equal value closer than this are one: v differs by TIE at about its square root.
SAME_POINT = 1e-5
#: Regions that are compared with all candidates at a time.
BLOCK = 256


@dataclass(frozen=True, eq=False)
class RegionMaxima:
    """The extremal candidates of Section 3.3, region by region."""

    regions: SignRegions
    values: np.ndarray
    points: np.ndarray


@dataclass(frozen=True, eq=False)
class Extremal:
    r"""All maximisers of a potential on the sphere.

    They form finitely many pieces: isolated points, and sets of positive dimension

    .. math::
        \{x\in\operatorname{span}(b_1,\dots,b_k):\ \|x\|=1,\
        &s_j\langle a_j,x\rangle\ge0\ \text{where}\ s_j\ne0,\\
        &\langle a_j,x\rangle=0\ \text{elsewhere}\}.
    """

    value: float
    points: np.ndarray
    signs: np.ndarray
    spans: tuple[np.ndarray, ...]
    candidates: RegionMaxima | None = None

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Dimension of each piece as a subset of the sphere."""
        return tuple(len(b) - 1 for b in self.spans)


def maximise_potential(a: ArrayLike | SphereEnergy, omega: ArrayLike | None = None) -> Extremal:
    r"""All global maximisers on the sphere of the potential of a ReLU perceptron.

    By Proposition 3.7 these are the points x for which :math:`\delta_x` maximises the energy.
    Every face of the arrangement gives the top eigenvectors of its form that lie in it; see the
    head of this module. A multiple eigenvalue whose eigenspace meets the face gives a piece of
    positive dimension: the region where all units are off, if 0 is the maximum.
    """
    a, omega = _perceptron(a, omega)
    scale = max(float(np.abs(omega).sum()), np.finfo(float).tiny)
    omega = omega / scale
    c, which, side = lines(a)
    refuse_many(_count_faces(*c.shape))
    # v = sum over lines of (W+ t_+^2 + W- t_-^2), t = <c, x>
    weights = np.zeros((2, len(c)))
    np.add.at(weights, ((side < 0).astype(int), which), omega)

    found = [_face_maxima(c, weights, *flat) for flat in _all_flats(c)]
    columns = [list(chain.from_iterable(f[i] for f in found)) for i in range(4)]
    signs, points, values = np.array(columns[0], np.int8), *map(np.array, columns[1:3])
    spans = columns[3]

    best = values.max()
    ties = np.flatnonzero(values >= best - TIE).tolist()
    chosen = _distinct(c, signs, points, spans, ties)
    regions = sign_regions(a)
    top = _region_maxima(regions, c, which, side, signs, values)
    return Extremal(
        float(best * scale) + 0.0,
        points[chosen],
        signs[chosen][:, which] * side,
        tuple(spans[i] for i in chosen),
        RegionMaxima(regions, values[top] * scale + 0.0, points[top]),
    )


def _all_flats(c) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All intersections of hyperplanes, as a basis (k, d) and which contain it, k >= 1."""
    L, d = c.shape
    for s in range(min(L, d - 1) + 1):
        bases, through = flats(c, s)
        yield from zip(bases, through, strict=True)


def _face_maxima(c, weights, basis, through):
    """Top eigenvectors in the open faces of one flat: signs, points, values and spans, as lists."""
    t = c[~through] @ basis.T
    k = len(basis)
    out: tuple[list, ...] = ([], [], [], [])
    if k == 1:
        # a ray and its opposite: two faces with one point each
        inner = np.array([[1.0], [-1.0]])
        faces = np.sign(inner * t[:, 0]).astype(np.int8)
    else:
        faces, inner = cells(t)
    values, vectors = np.linalg.eigh(forms(np.where(faces > 0, *weights[:, ~through]), t))
    multiple = (values[:, -1:] - values <= TIE).sum(axis=1)

    def keep(cell, x, value, span):
        signs = np.zeros(len(c), np.int8)
        signs[~through] = cell
        for column, entry in zip(out, (signs, x @ basis, value, span @ basis), strict=True):
            column.append(entry)

    top = vectors[:, :, -1]
    heights = faces * (top @ t.T)
    for end in (1, -1):
        for i in np.flatnonzero((end * heights > ON_PLANE).all(axis=1) & (multiple == 1)):
            keep(faces[i], end * top[i], values[i, -1], end * top[i : i + 1])
    for i in np.flatnonzero(multiple > 1):
        space = vectors[i, :, k - multiple[i] :]
        x = inner[i] @ space if multiple[i] == k else _point_in_cell(t @ space, faces[i])
        if x is not None:
            keep(faces[i], space @ x, values[i, -1], space.T)
    return out


def _point_in_cell(t, cell):
    """A unit vector x with the signs ``cell`` of t x, or None."""
    if (np.linalg.norm(t, axis=1) <= ON_PLANE).any():
        return None
    signs, points = cells(t)
    match = (signs == cell).all(axis=1)
    return points[match.argmax()] if match.any() else None


def _distinct(c, signs, points, spans, order):
    """Drop candidates that belong to the closure of another piece, or are the same point."""
    chosen: list[int] = []
    for i in sorted(order, key=lambda i: (-len(spans[i]), -np.count_nonzero(signs[i]))):
        for j in chosen:
            if len(spans[j]) == 1:
                inside = np.linalg.norm(points[i] - points[j]) <= SAME_POINT
            else:
                # signs of zero are hyperplanes that contain the span
                off = points[i] - (points[i] @ spans[j].T) @ spans[j]
                reach = (signs[j] * (c @ points[i])).min(initial=0.0)
                inside = np.linalg.norm(off) <= SAME_POINT and reach >= -SAME_POINT
            if inside:
                break
        else:
            chosen.append(i)
    return sorted(chosen)


def _region_maxima(regions, c, which, side, signs, values):
    """Best candidate in the closure of each region."""
    # signs of the lines; a candidate is in the closure if no sign is opposite
    on_lines = np.zeros((len(regions), len(c)), np.int8)
    on_lines[:, which] = regions.signs * side
    best, order = np.empty(len(regions), int), np.argsort(-values, kind="stable")
    weight = np.abs(signs[order]).sum(axis=1, dtype=int)
    ranked = signs[order].astype(np.float32).T
    for block in blocks(len(regions), BLOCK):
        closure = on_lines[block].astype(np.float32) @ ranked == weight
        own = closure & (weight == len(c))
        best[block] = order[np.where(own.any(axis=1), own.argmax(axis=1), closure.argmax(axis=1))]
    return best


def _count_faces(L, d):
    """Number of faces of L hyperplanes in general position in R^d: never fewer than there are."""
    return sum(
        comb(L, s) * 2 * sum(comb(max(L - s - 1, 0), i) for i in range(d - s)) for s in range(d)
    )


def _perceptron(a, omega) -> tuple[np.ndarray, np.ndarray]:
    """Directions and weights, from two arrays or an energy."""
    if isinstance(a, SphereEnergy) and omega is None:
        if a.a is None or a.omega is None or a.activation.name != "relu" or a.bias is not None:
            raise ValueError(f"a: expected an energy with ReLU units without biases, got {a!r}")
        return a.a, a.omega
    a = directions(a)
    return a, np.asarray(omega, dtype=float)
