r"""Probability measures with finitely many atoms, :math:`\mu=\sum_{i\le n} w_i\,\delta_{\theta_i}`.

Everything in the book is a functional of a measure, and for its flows this form is exact: a measure
with finitely many atoms keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate

__all__ = ["Measure", "mixture"]


@dataclass(frozen=True, eq=False)
class Measure:
    r"""A probability measure :math:`\mu=\sum_i w_i\,\delta_{\theta_i}` on :math:`\mathbb R^D`.

    - ``atoms`` (n, D): Positions; complex ones are allowed (for derivatives by complex step).
    - ``weights`` (n,): Not negative, sum one. Default: the empirical measure (2), :math:`w_i=1/n`.

    Both are copied once and read-only.

    >>> mu = Measure([[0.0, 0.0], [1.0, 2.0]], [0.25, 0.75])
    >>> mu.size, mu.dim, mu.integrate(mu.atoms)
    (2, 2, array([0.75, 1.5 ]))
    >>> Measure([[1.0], [3.0]]).map(lambda x: x + 1).atoms.ravel()
    array([2., 4.])
    """

    atoms: np.ndarray
    weights: np.ndarray = None  # type: ignore[assignment]

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(self, atoms: ArrayLike, weights: ArrayLike | None = None) -> None: ...

    def __post_init__(self):
        atoms = validate.array(self.atoms, "atoms", ("n", "D"), allow_complex=True)
        n, w = len(atoms), self.weights
        weights = np.full(n, 1 / n) if w is None else validate.probabilities(w, "weights", (n,))
        object.__setattr__(self, "atoms", validate.frozen(atoms))
        object.__setattr__(self, "weights", validate.frozen(weights))

    def __repr__(self) -> str:
        kind = "uniform" if np.ptp(self.weights) == 0 else "weighted"
        return f"Measure({self.size} atoms in R^{self.dim}, {kind})"

    @property
    def size(self) -> int:
        """Number of atoms n."""
        return self.atoms.shape[0]

    @property
    def dim(self) -> int:
        """Dimension D of the space the atoms live in."""
        return self.atoms.shape[1]

    @staticmethod
    def dirac(theta: ArrayLike) -> Measure:
        r"""Point mass :math:`\delta_\theta` at a point (D,)."""
        return Measure(validate.array(theta, "theta", ("D",), allow_complex=True)[None])

    def integrate(self, values: ArrayLike) -> np.ndarray:
        r"""Integral :math:`\int f\,d\mu=\sum_i w_i f(\theta_i)`, from the values (n, ...)."""
        values = validate.array(values, "values", (self.size, ...), allow_complex=True)
        return np.tensordot(self.weights, values, axes=1)

    def map(self, g: Callable) -> Measure:
        r"""Push-forward :math:`g_\#\mu`: g takes all atoms (n, D) to (n, E), the weights stay."""
        validate.function(g, "g")
        moved = validate.array(g(self.atoms), "g(atoms)", (self.size, "E"), allow_complex=True)
        return Measure(moved, self.weights)

    def draw(self, M: int, rng: validate.Seed) -> Measure:
        r"""Empirical measure :math:`\hat\mu_M` of M atoms drawn from :math:`\mu` independently.

        >>> Measure([[0.0], [1.0]], [0.0, 1.0]).draw(3, rng=0).atoms.ravel()
        array([1., 1., 1.])
        """
        M, rng = validate.count(M, "M"), validate.generator(rng)
        return Measure(self.atoms[rng.choice(self.size, size=M, p=self.weights)])

    def merge(self, tolerance: float = 0.0) -> Measure:
        r"""Join atoms that are within ``tolerance`` into their weighted barycentre.

        Chains count: atoms are joined when a path of steps of at most ``tolerance`` connects
        them. Atoms without weight are dropped. With ``tolerance=0`` the measure is unchanged;
        only its description becomes shorter.

        >>> mu = Measure([[0.0], [1.0], [0.0]]).merge()
        >>> mu.atoms.ravel(), mu.weights
        (array([0., 1.]), array([0.66666667, 0.33333333]))
        """
        tolerance = validate.positive(tolerance, "tolerance", allow_zero=True)
        if np.iscomplexobj(self.atoms):
            raise ValueError("atoms: merging needs real atoms, got complex ones")
        keep = self.weights > 0
        atoms, weights = self.atoms[keep], self.weights[keep]
        if tolerance == 0:
            # first occurrence decides the order, so that merging is idempotent
            _, first, inverse = np.unique(atoms, axis=0, return_index=True, return_inverse=True)
            rank = np.argsort(np.argsort(first))
            label, n = rank[inverse.ravel()], len(first)
            return Measure(atoms[np.sort(first)], np.bincount(label, weights, n))
        pairs = scipy.spatial.cKDTree(atoms).query_pairs(tolerance, output_type="ndarray")
        n, label = connected(pairs.T, len(atoms))
        mass = np.bincount(label, weights, n)
        centre = np.zeros((n, self.dim))
        # shares of the mass of an atom: products of tiny weights and positions would vanish
        np.add.at(centre, label, (weights / mass[label])[:, None] * atoms)
        return Measure(centre, mass)


def mixture(mu: Measure, nu: Measure, s: float) -> Measure:
    r"""Mixture :math:`(1-s)\,\mu+s\,\nu`, s in [0, 1]: the line along which the risk is convex.

    >>> mixture(Measure([[0.0]]), Measure([[1.0]]), 0.25).weights
    array([0.75, 0.25])
    """
    check_pair(mu, nu, real=False)
    s = validate.positive(s, "s", allow_zero=True, largest=1)
    weights = np.concatenate([(1 - s) * mu.weights, s * nu.weights])
    return Measure(np.concatenate([mu.atoms, nu.atoms]), weights)


def connected(pairs, n: int):
    """Number and labels of the components of the graph of n points with these edges (2, E)."""
    if pairs.size == 0:
        return n, np.arange(n)
    graph = scipy.sparse.csr_array((np.ones(pairs.shape[1], np.int8), pairs), shape=(n, n))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)


def check_measure(value, name: str = "mu", *, real: bool = True, largest: float = math.inf):
    """``value`` if it is a measure, with atoms that are real and not larger."""
    validate.instance(value, name, Measure)
    if real and value.atoms.dtype.kind == "c":
        raise TypeError(f"{name}: expected real atoms, got complex ones")
    if largest < math.inf and not validate.within(value.atoms, largest):
        size = validate.size(value.atoms)
        raise ValueError(f"{name}: expected atoms up to {largest:g} in size, got {size:g}")
    return value


def check_pair(mu, nu, real: bool = True) -> None:
    """Refuse what is not two measures in the same space."""
    check_measure(mu, "mu", real=real, largest=validate.LARGEST)
    check_measure(nu, "nu", real=real, largest=validate.LARGEST)
    if mu.dim != nu.dim:
        raise ValueError(f"nu: expected atoms in R^{mu.dim} as mu has, got R^{nu.dim}")


def check_start(mu, space) -> None:
    """Refuse a start that is not a measure with real atoms in the space."""
    check_measure(mu, largest=validate.LARGEST)
    if getattr(space, "dim", mu.dim) != mu.dim:
        raise ValueError(f"mu: expected atoms in R^{space.dim} for {space}, got R^{mu.dim}")
    contains = getattr(space, "contains", None)
    inside = np.ones(mu.size, bool) if contains is None else np.asarray(contains(mu.atoms))
    if not inside.all():
        raise ValueError(f"mu: expected atoms in {space}, atom {int(inside.argmin())} is outside")
