"""Bounds on W_2 from both sides with linear memory: coupled from above, sliced from below."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mfbook import _validate as validate
from mfbook._blocks import blocks
from mfbook._types import Seed
from mfbook.measure import Measure
from mfbook.transport.solvers import BLOCK, check_pair, mean_length, monotone, scaled

__all__ = ["SlicedDistance", "coupled_distance", "sliced_w2"]


def coupled_distance(mu: Measure, nu: Measure) -> float:
    r"""Distance of atoms paired as they come, :math:`(\sum_iw_i|x_i-y_i|^2)^{1/2}\ge W_2`.

    The right distance for two runs from the same atoms: it needs no solver, and it does not
    suffer from the dimension as the distance of independent samples does.

    - ``mu, nu``: In the same space.

    Examples
    --------
    >>> coupled_distance(Measure([[0.0], [1.0]]), Measure([[1.0], [0.0]]))
    1.0
    """
    check_pair(mu, nu)
    if mu.size != nu.size:
        raise ValueError(f"nu: expected {mu.size} atoms as mu has, got {nu.size}")
    error = np.abs(mu.weights - nu.weights).max()
    if error > 1e-12:
        raise ValueError(f"nu: expected the weights of mu, got weights that differ by {error:.3g}")
    return mean_length(mu.atoms.astype(np.float64) - nu.atoms, mu.weights, 2)


@dataclass(frozen=True)
class SlicedDistance:
    """Estimate of the sliced distance, and its standard error over the random directions.

    - ``distance, error``: The estimate, and its standard error.
    """

    distance: float
    error: float


def sliced_w2(mu: Measure, nu: Measure, rng: Seed, projections: int = 100) -> SlicedDistance:
    r"""Sliced distance: the root mean square of :math:`W_2` over random lines, at most W_2.

    .. math:: SW_2^2(\mu,\nu)=\mathbb E_u\,W_2^2(\langle u,\cdot\rangle_\#\mu,
        \langle u,\cdot\rangle_\#\nu),\qquad u\text{ uniform on the unit sphere}

    A translation by c in dimension D has :math:`SW_2=|c|/\sqrt D`.

    - ``mu, nu``: With real atoms in the same space.
    - ``rng``: Source of the directions, or a seed.
    - ``projections``: Number of directions K; the error falls as :math:`K^{-1/2}` and is infinite
      for one.

    Notes
    -----
    Bonneel, Rabin, Peyré and Pfister (2015). The error is that of the mean of squares, divided
    by twice the distance (delta method).

    Examples
    --------
    >>> sliced_w2(Measure([[0.0], [1.0]]), Measure([[2.0], [3.0]]), 0, projections=2)
    SlicedDistance(distance=2.0, error=0.0)
    """
    check_pair(mu, nu)
    rng = validate.generator(rng)
    projections = validate.count(projections, "projections")
    (_, x, a), (_, y, b), exponent = scaled(mu, nu)
    values = []
    for part in blocks(projections, BLOCK // (len(x) + len(y))):
        u = rng.normal(size=(part.stop - part.start, mu.dim))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        for left, right in zip(u @ x.T, u @ y.T, strict=True):
            i, j, mass = monotone(left, a, right, b)
            values.append(mean_length((left[i] - right[j])[:, None], mass, 2))
    scale = max(values) or 1.0
    square = (np.array(values) / scale) ** 2
    root = math.sqrt(square.mean())
    deviation = square.std(ddof=1) if projections > 1 else math.inf
    error = deviation / math.sqrt(projections) / (2 * root or 1.0)
    return SlicedDistance(*(math.ldexp(scale * float(v), exponent) for v in (root, error)))
