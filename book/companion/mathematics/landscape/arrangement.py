r"""Regions and faces that hyperplanes through the origin cut in the sphere.

Where no :math:`\langle a_j,x\rangle` changes sign, the potential of a ReLU perceptron is one
quadratic form. The regions are listed exactly, from the rays in which hyperplanes intersect.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from mfbook.sphere.energy import on_sphere

#: Distance below which a unit vector lies on a hyperplane, or two of them are parallel.
ON_PLANE = 1e-9
#: Faces that one call may list.
MOST_FACES = 2_000_000


@dataclass(frozen=True, eq=False)
class SignRegions:
    r"""Regions of the sphere on which no :math:`\langle a_j,x\rangle` changes sign."""

    signs: np.ndarray
    points: np.ndarray

    def __len__(self) -> int:
        return len(self.signs)


def sign_regions(a: ArrayLike) -> SignRegions:
    r"""All regions of the sphere cut by the hyperplanes :math:`a_j^\perp`, with their signs.

    Every region of hyperplanes that span the space is a cone with at least one extreme ray, and
    that ray is an intersection of hyperplanes. So the regions are those around the rays: signs
    off the ray's hyperplanes are those of the ray, the others come from the smaller arrangement
    of the hyperplanes through it. In general position that is every combination, and there are

    .. math:: 2\sum_{i<d}\binom{J-1}i

    regions. Hyperplanes through a common ray, repeated and opposite directions, and fewer
    directions than dimensions are dealt with. The sum of its rays is a point inside a region.
    """
    a = directions(a)
    L = len(lines(a)[0])
    refuse_many(2 * sum(comb(L - 1, i) for i in range(a.shape[1])))
    signs, points = cells(a)
    order = np.lexsort(signs.T[::-1])
    return SignRegions(signs[order], points[order])


def cells(a) -> tuple[np.ndarray, np.ndarray]:
    """Sign patterns (R, m) of all regions of the rows of ``a``, and a unit vector in each.

    The rows may be parallel, of any length but zero, and need not span the space.
    """
    m, d = a.shape
    if m == 0:
        return np.empty((1, 0), np.int8), np.eye(1, d)
    c, which, side = lines(a / np.linalg.norm(a, axis=1, keepdims=True))
    _, size, basis = np.linalg.svd(c, full_matrices=False)
    basis = basis[size > ON_PLANE]
    c = c @ basis.T
    L, r = c.shape
    if L == r:
        signs = _all_signs(r)
        points = np.linalg.solve(c, signs.T.astype(float)).T
    elif r == 2:
        signs, points = _cells_in_plane(c)
    else:
        signs, points = _cells_around_rays(c)
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    return signs[:, which] * side, points @ basis


def _all_signs(r):
    """All 2^r rows of signs."""
    bits = np.arange(2**r)[:, None] >> np.arange(r)[::-1] & 1
    return (2 * bits - 1).astype(np.int8)


def _cells_in_plane(c):
    """Sectors between lines through the origin of the plane."""
    turn = np.arctan2(c[:, 1], c[:, 0]) + np.pi / 2
    edges = np.sort(np.concatenate([turn, turn + np.pi]) % (2 * np.pi))
    middle = (edges + np.append(edges[1:], edges[0] + 2 * np.pi)) / 2
    points = np.stack([np.cos(middle), np.sin(middle)], axis=1)
    return np.sign(points @ c.T).astype(np.int8), points


def _cells_around_rays(c):
    """Regions of L > r > 2 different hyperplanes that span R^r."""
    L, r = c.shape
    rays, through = flats(c, r - 1)
    rays = rays[:, 0]
    simple = through.sum(axis=1) == r - 1
    signs: list[np.ndarray] = []
    sources: list[np.ndarray] = []

    def collect(ray, planes, local):
        """Both ends of rays (n, r) with hyperplanes (n, q), and local signs (P, q)."""
        for end in (1, -1):
            around = np.sign(end * ray @ c.T).astype(np.int8)
            around = np.repeat(around[:, None], len(local), axis=1)
            np.put_along_axis(around, planes[:, None], local[None], axis=2)
            signs.append(around.reshape(-1, L))
            sources.append(np.repeat(end * ray, len(local), axis=0))

    if simple.any():
        planes = np.nonzero(through[simple])[1].reshape(-1, r - 1)
        collect(rays[simple], planes, _all_signs(r - 1))
    for i in np.flatnonzero(~simple):
        through_ray = np.flatnonzero(through[i])
        collect(rays[i : i + 1], through_ray[None], cells(c[through_ray])[0])
    different, index = np.unique(np.concatenate(signs), axis=0, return_inverse=True)
    points = np.zeros((len(different), r))
    np.add.at(points, index.reshape(-1), np.concatenate(sources))
    return different, points


def flats(c, s) -> tuple[np.ndarray, np.ndarray]:
    """Intersections of s independent hyperplanes: bases (n, d - s, d), and which contain them."""
    L, d = c.shape
    subsets = np.array(list(combinations(range(L), s)), int).reshape(comb(L, s), s)
    if s == 0:
        return np.eye(d)[None], np.zeros((1, L), bool)
    _, size, basis = np.linalg.svd(c[subsets])
    independent = size[:, -1] > ON_PLANE
    subsets, basis = subsets[independent], basis[independent, s:]
    through = (np.abs(c @ basis.transpose(0, 2, 1)) <= ON_PLANE).all(axis=2)
    np.put_along_axis(through, subsets, True, axis=1)
    # a flat with more than s hyperplanes comes from several subsets
    through, first = np.unique(through, axis=0, return_index=True)
    return basis[first], through


def lines(a, tolerance=ON_PLANE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Different lines of unit rows: representatives (L, d), the line of each row, and its side."""
    which, side = np.full(len(a), -1), np.ones(len(a), np.int8)
    first: list[int] = []
    for i in range(len(a)):
        if which[i] < 0:
            same = np.linalg.norm(a - a[i], axis=1) <= tolerance
            opposite = np.linalg.norm(a + a[i], axis=1) <= tolerance
            new = (same | opposite) & (which < 0)
            which[new] = len(first)
            side[new & opposite] = -1
            first.append(i)
    return a[first], which, side


def forms(weights, c):
    """Matrices sum_j w_j c_j c_j^T for rows of weights (R, J) and vectors (J, k)."""
    J, k = c.shape
    return (weights @ (c[:, :, None] * c[:, None]).reshape(J, k * k)).reshape(-1, k, k)


def refuse_many(faces):
    if faces > MOST_FACES:
        raise ValueError(
            f"a: expected directions with at most {MOST_FACES} faces, got up to {faces:.3g}"
        )


def directions(a) -> np.ndarray:
    a = np.asarray(a, dtype=float)
    if a.shape[1] < 2:
        raise ValueError(f"a: expected directions in R^d with d >= 2, got d = {a.shape[1]}")
    on_sphere(a, "a")
    return a
