"""The least value of the first variation of the sphere's energy, with a proved bound."""

from __future__ import annotations

import numpy as np

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.functional import Minimum
from mfbook.measure import Measure
from mfbook.models.sphere.energy import SphereEnergy

__all__ = ["least_first_variation"]


def least_first_variation(
    F: SphereEnergy,
    atoms: np.ndarray,
    weights: np.ndarray,
    rng: Seed,
    *,
    starts: int = 8,
    tolerance: float = 1e-14,
    budget: int = 20_000_000,
) -> Minimum:
    r"""Least value of the first variation of F at :math:`\sum_iw_i\delta_{x_i}`, with a bound.

    Branch and bound up to dimension 8; the inequalities are in ``mfbook.models.sphere.search``.
    On the circle the bracket closes to rounding. On spheres the effort grows with the dimension:
    where the budget ends first, the bound is what has been proved until then, and ``converged`` is
    false. Beyond, the search gives the value and Jensen's inequality a crude bound.

    Parameters
    ----------
    F : SphereEnergy
        Whose first variation is minimised.
    atoms : array, shape (n, d)
        Unit vectors, real.
    weights : array, shape (n,)
        Of the atoms.
    rng : numpy.random.Generator or int
        Draws starting points for d > 2.
    starts : int
        Local descents for d > 2.
    tolerance : float
        Width of the bracket to stop at, relative to the bound on second derivatives,
        :math:`s+\sum_j|\omega_j|(\ell_j+|\sigma(b_j)|)`.
    budget : int
        Most pairs (point, atom or unit) to evaluate.

    Returns
    -------
    Minimum
        ``lower_bound`` is at most the minimum, ``value`` is attained at ``point``; ``converged``
        says whether they are within the tolerance and the allowance for rounding.

    Raises
    ------
    TypeError, ValueError
        If an option has the wrong type or is not positive, or atoms are not real.

    Examples
    --------
    >>> F = SphereEnergy(1.0)
    >>> x, w = np.array([[1.0, 0.0]]), np.ones(1)
    >>> found = least_first_variation(F, x, w, rng=0)
    >>> found.point.round(6) + 0.0, found.converged, bool(np.isclose(found.value, np.exp(-2)))
    (array([-1.,  0.]), True, True)
    """
    validate.instance(F, "F", SphereEnergy)
    atoms = validate.array(atoms, "atoms", ("n", "d"))
    weights = validate.probabilities(weights, "weights", (len(atoms),))
    with validate.naming("atoms"):
        local = F.at(Measure(atoms, weights))  # refuses other dimensions and points off the sphere
    return local.minimise(rng, starts=starts, tolerance=tolerance, budget=budget)
