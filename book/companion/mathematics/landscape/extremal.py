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
    cells,
    directions,
    flats,
    forms,
    lines,
    refuse_many,
    sign_regions,
)
from mfbook._work import blocks
from mfbook.sphere.energy import SphereEnergy

#: Difference, in units of the sum of the weights, below which values or eigenvalues are equal.
TIE = 1e-12
#: Maximisers of equal value closer than this are one: v differs by TIE at about its square root.
SAME_POINT = 1e-5
#: Regions that are compared with all candidates at a time.
BLOCK = 256


@dataclass(frozen=True, eq=False)
class RegionMaxima:
    """The extremal candidates of Section 3.3: the best point of each of the ``sign_regions``."""

    values: np.ndarray
    points: np.ndarray


@dataclass(frozen=True, eq=False)
class Extremal:
    """Maximisers of a potential on the sphere: all that are isolated, some of each other piece."""

    value: float
    points: np.ndarray
    candidates: RegionMaxima


def maximise_potential(a: ArrayLike | SphereEnergy, omega: ArrayLike | None = None) -> Extremal:
    r"""All global maximisers on the sphere of the potential of a ReLU perceptron.

    By Proposition 3.7 these are the points x for which :math:`\delta_x` maximises the energy.
    Every face of the arrangement gives the top eigenvector of its form, if it lies there; see the
    head of this module. An eigenspace that meets a face in more than a point ends in smaller faces,
    unless it is the whole face: the region where all units are off, if 0 is the maximum.
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
    parts = (chain.from_iterable(part) for part in zip(*found, strict=True))
    signs, points, values = (np.array(list(part)) for part in parts)
    best, chosen = values.max(), []
    for i in np.flatnonzero(values >= best - TIE):
        if (np.linalg.norm(points[chosen] - points[i], axis=1) > SAME_POINT).all():
            chosen.append(i)
    top = _region_maxima(sign_regions(a), c, which, side, signs, values)
    regions = RegionMaxima(values[top] * scale + 0.0, points[top])
    return Extremal(float(best * scale) + 0.0, points[chosen], regions)


def _all_flats(c) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All intersections of hyperplanes, as a basis (k, d) and which contain it, k >= 1."""
    L, d = c.shape
    for s in range(min(L, d - 1) + 1):
        bases, through = flats(c, s)
        yield from zip(bases, through, strict=True)


def _face_maxima(c, weights, basis, through):
    """Top eigenvectors in the open faces of one flat: signs, points and values, as lists."""
    t = c[~through] @ basis.T
    k = len(basis)
    out: tuple[list, ...] = ([], [], [])
    if k == 1:
        # a ray and its opposite: two faces with one point each
        inner = np.array([[1.0], [-1.0]])
        faces = np.sign(inner * t[:, 0]).astype(np.int8)
    else:
        faces, inner = cells(t)
    values, vectors = np.linalg.eigh(forms(np.where(faces > 0, *weights[:, ~through]), t))
    multiple = (values[:, -1:] - values <= TIE).sum(axis=1)

    def keep(cell, x, value):
        signs = np.zeros(len(c), np.int8)
        signs[~through] = cell
        for column, entry in zip(out, (signs, x @ basis, value), strict=True):
            column.append(entry)

    top = vectors[:, :, -1]
    heights = faces * (top @ t.T)
    for end in (1, -1):
        for i in np.flatnonzero((end * heights > ON_PLANE).all(axis=1) & (multiple == 1)):
            keep(faces[i], end * top[i], values[i, -1])
    for i in np.flatnonzero((multiple == k) & (k > 1)):
        keep(faces[i], inner[i], values[i, -1])
    return out


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
