r"""Clusters of particles on the sphere: chains of near neighbours, or arcs as the source counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.measure import Measure, check_measure, connected
from mfbook.space import Sphere
from mfbook.sphere.energy import on_sphere

__all__ = ["Clusters", "clusters", "default_threshold"]

#: A barycentre this close to the origin has no direction that means anything.
BALANCED = 1e-12
#: Nearest neighbours that are looked up for each particle at once.
NEIGHBOURS = 8
#: Up to so many particles all pairs that are close are listed.
FEW = 128


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of particles, numbered by the first particle of each.

    - ``count``: Number of clusters m.
    - ``threshold``: Geodesic distance of neighbours, or length of arcs, in radians.
    - ``masses`` (m,)
    - ``labels`` (n,): Cluster of each particle.
    - ``centres`` (m, d): Barycentres divided by their length; NaN where the barycentre is the
      origin, as for a ring of equally spaced particles.
    - ``spread`` (m,): Largest geodesic distance of a particle to the centre of its cluster, in
      radians; pi, which no distance exceeds, where there is no centre.
    """

    count: int
    threshold: float
    masses: np.ndarray
    labels: np.ndarray = field(repr=False)
    centres: np.ndarray = field(repr=False)
    spread: np.ndarray = field(repr=False)

    def within(self, x: np.ndarray) -> bool:
        """Whether any two of the particles ``x`` in one cluster are within the threshold."""
        if self.threshold >= np.pi:
            return True
        for k in np.flatnonzero(2 * self.spread > self.threshold):
            y = x[self.labels == k]
            y = y - y[0]  # small differences keep their digits
            square = (y * y).sum(axis=1)
            chord = np.sqrt(max(float((square[:, None] + square - 2 * y @ y.T).max()), 0.0))
            if 2 * np.arcsin(min(chord / 2, 1.0)) > self.threshold * (1 + 1e-12):
                return False
        return True


def default_threshold(beta: float, d: int) -> float:
    r"""Distance of interaction :math:`1/(2\sqrt\beta)`, for d > 2 at most :math:`\pi/(2d)`."""
    beta, d = validate.scale(beta, "beta"), validate.count(d, "d", least=2)
    reach = 1 / (2 * np.sqrt(beta))
    return float(reach if d == 2 else min(reach, np.pi / (2 * d)))


def clusters(
    mu: Measure | ArrayLike,
    beta: float | None = None,
    *,
    threshold: float | None = None,
    linkage: str = "single",
) -> Clusters:
    r"""Clusters of unit vectors by geodesic distance, in radians.

    With single linkage two particles within the threshold are in the same cluster, and chains
    count: a ring without gaps is one cluster, whatever its size; ``spread`` tells it from a tight
    one. With arcs the circle is covered from its largest gap on: each cluster takes all particles
    within the threshold of its first, so that a ring counts as many.

    - ``mu`` (n, d): Unit vectors; an array counts with equal weights. Particles without weight are
      clustered too, but move no centre unless the whole cluster has none.
    - ``beta``: Inverse temperature, which sets the threshold: :func:`default_threshold`.
    - ``threshold``: Geodesic distance in radians, at least 0; instead of ``beta``.
    - ``linkage``: ``"single"``, or ``"arcs"`` on the circle.

    >>> angle = np.array([0.1, -0.1, 3.0])
    >>> found = clusters(np.stack([np.cos(angle), np.sin(angle)], axis=1), beta=4.0)
    >>> found.count, found.labels, found.centres[0].round(12), round(found.spread[0], 12)
    (2, array([0, 0, 1]), array([1., 0.]), np.float64(0.1))
    """
    if not isinstance(mu, Measure):
        mu = Measure(validate.array(mu, "mu", ("n", "d"), largest=validate.LARGEST))
    x, d = check_measure(mu, largest=validate.LARGEST).atoms, mu.dim
    if d < 2:
        raise ValueError(f"mu: expected points in R^d with d >= 2, got d = {d}")
    on_sphere(x, "mu")
    if (beta is None) == (threshold is None):
        raise ValueError("threshold: expected either beta or a threshold")
    if threshold is None:
        threshold = default_threshold(validate.positive(beta, "beta"), d)
    known = ("single", "arcs") if d == 2 else ("single",)
    if not isinstance(linkage, str) or linkage not in known:
        raise ValueError(f"linkage: expected one of {list(known)} in R^{d}, got {linkage!r}")
    threshold = validate.positive(threshold, "threshold", allow_zero=True)
    return group(x, mu.weights, threshold, linkage)


def group(x, w, threshold: float, linkage: str = "single") -> Clusters:
    """Clusters of unit vectors x (n, d) with weights w (n,), without checks of arguments."""
    count, labels = link(x, threshold, linkage)
    centres = barycentres(x, w, labels, count)
    lost = np.isnan(centres).any(axis=1)
    spread, placed = np.where(lost, np.pi, 0.0), ~lost[labels]
    if placed.any():
        away = Sphere().distance(x[placed], centres[labels[placed]])
        np.maximum.at(spread, labels[placed], away)
    arrays = np.bincount(labels, w, count), labels, centres, spread
    return Clusters(count, threshold, *map(validate.frozen, arrays))


def barycentres(x, w, labels, count: int) -> np.ndarray:
    """Directions of the weighted means of groups, shape (count, d); NaN where there is none."""
    mass = np.bincount(labels, w, count)[labels]
    # shares of the group, which are normal numbers; in groups without mass all count the same
    share = np.where(mass > 0, w / np.where(mass > 0, mass, 1), 1.0)
    sums = np.stack([np.bincount(labels, share * part, count) for part in x.T], axis=1)
    mean = sums / np.bincount(labels, share, count)[:, None]
    size = np.linalg.norm(mean, axis=1, keepdims=True)
    return np.where(size > BALANCED, mean / np.where(size > 0, size, 1), np.nan)


def link(x, threshold: float, linkage: str = "single") -> tuple[int, np.ndarray]:
    """Number of groups, and labels in the order of their first particles."""
    if linkage == "arcs":
        count, labels = _arcs(x, threshold)
    elif len(x) == 1 or threshold >= np.pi:
        return 1, np.zeros(len(x), dtype=np.int64)
    else:
        count, labels = (_gaps if x.shape[1] == 2 else _tree)(x, threshold)
    _, first = np.unique(labels, return_index=True)
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(count)
    return count, rank[labels]


def _sorted(x):
    """Order of the particles by angle, the angles, and the gap after each."""
    angle = np.arctan2(x[:, 1], x[:, 0])
    order = np.argsort(angle)
    angle = angle[order]
    return order, angle, np.append(np.diff(angle), angle[0] + 2 * np.pi - angle[-1])


def arcs(angle, width: float) -> np.ndarray:
    """Labels of increasing angles: arcs of at most this width side by side, from the first on."""
    firsts = [0]
    while firsts[-1] < len(angle):
        firsts.append(int(np.searchsorted(angle, angle[firsts[-1]] + width, side="right")))
    return np.repeat(np.arange(len(firsts) - 1), np.diff(firsts))


def _arcs(x, threshold):
    """On the circle: arcs from the largest gap on."""
    order, angle, gap = _sorted(x)
    start = (int(np.argmax(gap)) + 1) % len(x)
    labels = np.empty(len(x), dtype=np.int64)
    angle = np.concatenate([angle[start:], angle[:start] + 2 * np.pi])
    labels[np.roll(order, -start)] = arcs(angle, threshold)
    return int(labels.max()) + 1, labels


def _gaps(x, threshold):
    """On the circle: cut where the gap between neighbours is larger than the threshold."""
    order, _, gap = _sorted(x)
    cuts = np.flatnonzero(gap > threshold)  # after these
    labels = np.empty(len(x), dtype=np.int64)
    # particles after the last cut belong to the first group: the circle closes
    labels[order] = np.searchsorted(cuts, np.arange(len(x))) % max(len(cuts), 1)
    return max(len(cuts), 1), labels


def _tree(x, threshold):
    """In any dimension: neighbours by chords, then connected components.

    All pairs within a tight cluster would be too many. The few nearest neighbours of each particle
    are enough, except between two particles that both have more: those are searched in rounds.
    """
    # the bound itself counts, and its square must not vanish
    n, reach = len(x), max(np.nextafter(2 * np.sin(threshold / 2), 4), 1e-150)
    if n <= FEW:
        return connected(scipy.spatial.cKDTree(x).query_pairs(reach, output_type="ndarray").T, n)
    near, index = scipy.spatial.cKDTree(x).query(
        x, k=min(n, NEIGHBOURS + 1), distance_upper_bound=reach
    )
    known = np.isfinite(near)
    pairs = [np.stack([np.nonzero(known)[0], index[known]])]
    left = np.flatnonzero(known[:, -1]) if n > NEIGHBOURS + 1 else np.empty(0, dtype=np.int64)
    while len(left):
        seed, found, left = left[0], left[:1], left[1:]
        while len(found) and len(left):
            near, _ = scipy.spatial.cKDTree(x[found]).query(x[left], distance_upper_bound=reach)
            far = near == np.inf
            found, left = left[~far], left[far]
            pairs.append(np.stack([np.full(len(found), seed), found]))
    return connected(np.concatenate(pairs, axis=1), n)
