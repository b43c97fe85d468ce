r"""Distances between measures: optimal transport, its dual, and cheaper bounds on both sides.

The theorems of the book bound :math:`W_1` and :math:`W_2`. Exact distances between n atoms cost
up to :math:`O(n^3)`, so this module chooses the solver: sorting on the line, assignment for equal
weights, the network simplex of POT otherwise. :func:`sliced_w2` and :func:`discrepancy` bound the
distance from below, :func:`coupled_distance` from above, all three with linear memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from . import _validate as validate
from .measure import Measure

__all__ = [
    "Plan",
    "SlicedDistance",
    "TestFunction",
    "Witness",
    "coupled_distance",
    "direction",
    "discrepancy",
    "displacement",
    "distance_to",
    "dual_witness",
    "optimal_plan",
    "random_functions",
    "saturated",
    "sliced_w2",
    "wasserstein",
]

#: Pivots the network simplex may take; a backstop, as problems that fit need far fewer.
MAX_PIVOTS = 10**8
#: Matrices as large as the cost that a solver holds at its peak (measured), the cost included.
MATRICES = {"assignment": 1, "simplex": 4}
#: Entries of a block of distances or projections.
BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class Plan:
    r"""A transport plan :math:`\sum_k m_k\,\delta_{(x_{i_k},\,y_{j_k})}`, pair by pair.

    Attributes
    ----------
    source, target : int array, shape (K,)
        Atoms of the first and of the second measure.
    mass : array, shape (K,)
        The mass each pair moves, positive, sum one.
    cost : float
        The distance :math:`W_p`, not its p-th power.
    """

    source: np.ndarray
    target: np.ndarray
    mass: np.ndarray
    cost: float


def _check(mu, nu) -> None:
    for name, m in (("mu", mu), ("nu", nu)):
        validate.instance(m, name, Measure)
        if np.iscomplexobj(m.atoms):
            raise TypeError(f"{name}: expected real atoms, got complex ones")
    if mu.dim != nu.dim:
        raise ValueError(f"nu: expected atoms in R^{mu.dim} as mu has, got R^{nu.dim}")


def _scaled(mu, nu):
    """Index, position and mass of atoms that have some; positions times 2^-exponent, exactly."""
    largest = max(np.abs(mu.atoms).max(), np.abs(nu.atoms).max())
    exponent = int(np.frexp(np.float64(largest))[1])
    parts = []
    for m in (mu, nu):
        index = np.flatnonzero(m.weights)
        mass = m.weights[index]
        atoms = np.ldexp(m.atoms[index].astype(np.float64), -exponent)
        parts.append((index, atoms, mass / mass.sum()))
    return *parts, exponent


def _mean(difference, mass, p: int) -> float:
    """(sum_k m_k |d_k|^p)^(1/p) of rows d_k, without overflow or underflow of the powers."""
    scale = np.abs(difference).max()
    if scale == 0:
        return 0.0
    square = ((difference / scale) ** 2).sum(axis=1)
    return float(scale) * float(mass @ square ** (p / 2)) ** (1 / p)


def _resolution(n: int) -> float:
    """Mass that rounding alone can make when n weights are added and subtracted."""
    return 4 * np.finfo(np.float64).eps * math.sqrt(n)


def _uniform(a, b) -> bool:
    return len(a) == len(b) and np.ptp(a) == 0 and np.ptp(b) == 0


def _monotone(x, a, y, b):
    """Optimal plan on the line, which couples equal quantiles."""
    i, j = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    if _uniform(a, b):
        return i, j, a
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left, right = left / left[-1], right / right[-1]
    level = np.sort(np.concatenate([left, right]))
    # levels that differ by rounding are one level
    level = level[np.diff(level, append=2) > _resolution(len(level))]
    mass = np.diff(level, prepend=0)
    middle = level - mass / 2
    return i[np.searchsorted(left, middle)], j[np.searchsorted(right, middle)], mass


def _cost(x, y, p: int, memory: float, solver: str):
    # differences, not the expanded square: that one cancels for clouds far from the origin
    needed = 8 * len(x) * len(y) * MATRICES[solver]
    if needed > memory:
        raise ValueError(
            f"memory: {len(x)} times {len(y)} atoms need {needed / 1e9:.3g} GB, more than the "
            f"{memory / 1e9:.3g} GB allowed; use sliced_w2, or fewer atoms (Measure.resample)"
        )
    return cdist(x, y, "euclidean" if p == 1 else "sqeuclidean")


def _simplex(x, a, y, b, p: int, memory: float):
    """Optimal plan and the potential of the targets, by the network simplex."""
    # here, not at the top: POT imports every array library it finds (seconds for torch and jax)
    from ot.lp import emd

    cost = _cost(x, y, p, memory, "simplex")
    scale = cost.max() or 1.0
    cost /= scale
    with warnings.catch_warnings():
        # what POT warns of is raised below
        warnings.simplefilter("ignore")
        flow, log = emd(a, b, cost, numItermax=MAX_PIVOTS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"optimal transport was not solved: {log['warning']}")
    i, j = np.nonzero(flow > _resolution(len(a) + len(b)))
    return i, j, flow[i, j], scale * log["v"]


def optimal_plan(mu: Measure, nu: Measure, p: int = 2, *, memory: float = 2**31) -> Plan:
    r"""Cheapest way to move one measure to another: a minimiser of the problem that defines W_p.

    .. math:: W_p^p(\mu,\nu)=\min_{\pi}\;\int|x-y|^p\,d\pi(x,y)
        \quad\text{over }\pi\text{ with marginals }\mu,\nu

    Parameters
    ----------
    mu, nu : Measure
        With real atoms in the same space.
    p : {1, 2}
        Order.
    memory : float
        Bytes the matrices of a solver may take; the line needs none.

    Raises
    ------
    TypeError
        If ``mu`` or ``nu`` is not a measure with real atoms.
    ValueError
        If the dimensions differ, p is not 1 or 2, or the problem exceeds ``memory``.
    RuntimeError
        If the network simplex does not reach the optimum.

    Notes
    -----
    On the line the quantiles are coupled (Villani, *Topics in Optimal Transportation*, 2003,
    Theorem 2.18). Equal numbers of equal weights go to ``scipy.optimize.linear_sum_assignment``,
    all else to ``ot.emd``. Atoms without weight are dropped; so are pairs whose mass is rounding,
    about 1e-15. The distance is computed from the differences of the chosen pairs.

    Examples
    --------
    >>> plan = optimal_plan(Measure([[0.0], [4.0]]), Measure([[3.0], [1.0]]))
    >>> plan.source, plan.target, plan.cost
    (array([0, 1]), array([1, 0]), 1.0)
    """
    _check(mu, nu)
    p = validate.count(p, "p")
    if p > 2:
        raise ValueError(f"p: expected 1 or 2, got {p}")
    memory = validate.positive(memory, "memory")
    (first, x, a), (second, y, b), exponent = _scaled(mu, nu)
    if mu.dim == 1:
        i, j, mass = _monotone(x[:, 0], a, y[:, 0], b)
    elif _uniform(a, b):
        i, j = linear_sum_assignment(_cost(x, y, p, memory, "assignment"))
        mass = a
    else:
        i, j, mass, _ = _simplex(x, a, y, b, p, memory)
    cost = math.ldexp(_mean(x[i] - y[j], mass, p), exponent)
    return Plan(*map(validate.frozen, (first[i], second[j], mass)), cost)


def wasserstein(mu: Measure, nu: Measure, p: int = 2, *, memory: float = 2**31) -> float:
    r"""Wasserstein distance :math:`W_p(\mu,\nu)`, exact up to rounding.

    The cost of :func:`optimal_plan`, which says how it is found and what raises.

    Examples
    --------
    >>> mu = Measure([[0.0, 0.0], [1.0, 0.0]])
    >>> wasserstein(mu, mu.map(lambda x: x + [3.0, 4.0]))
    5.0
    """
    return optimal_plan(mu, nu, p, memory=memory).cost


def coupled_distance(mu: Measure, nu: Measure) -> float:
    r"""Distance of atoms paired as they come, :math:`(\sum_iw_i|x_i-y_i|^2)^{1/2}\ge W_2`.

    The right distance for two runs from the same atoms: it needs no solver, and it does not
    suffer from the dimension as the distance of independent samples does.

    Raises
    ------
    TypeError, ValueError
        If the measures differ in dimension, in size, or by more than 1e-12 in a weight.

    Examples
    --------
    >>> coupled_distance(Measure([[0.0], [1.0]]), Measure([[1.0], [0.0]]))
    1.0
    """
    _check(mu, nu)
    if mu.size != nu.size:
        raise ValueError(f"nu: expected {mu.size} atoms as mu has, got {nu.size}")
    error = np.abs(mu.weights - nu.weights).max()
    if error > 1e-12:
        raise ValueError(f"nu: expected the weights of mu, got weights that differ by {error:.3g}")
    return _mean(mu.atoms.astype(np.float64) - nu.atoms, mu.weights, 2)


@dataclass(frozen=True)
class SlicedDistance:
    """Estimate of the sliced distance, and its standard error over the random directions."""

    distance: float
    error: float


def sliced_w2(mu: Measure, nu: Measure, rng, projections: int = 100) -> SlicedDistance:
    r"""Sliced distance: the root mean square of :math:`W_2` over random lines, at most W_2.

    .. math:: SW_2^2(\mu,\nu)=\mathbb E_u\,W_2^2(\langle u,\cdot\rangle_\#\mu,
        \langle u,\cdot\rangle_\#\nu),\qquad u\text{ uniform on the unit sphere}

    A translation by c in dimension D has :math:`SW_2=|c|/\sqrt D`.

    Parameters
    ----------
    mu, nu : Measure
        With real atoms in the same space.
    rng : numpy.random.Generator or int
        Source of the directions, or a seed.
    projections : int
        Number of directions K; the error falls as :math:`K^{-1/2}` and is infinite for one.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above.

    Notes
    -----
    Bonneel, Rabin, Peyré and Pfister (2015). The error is that of the mean of squares, divided
    by twice the distance (delta method).

    Examples
    --------
    >>> sliced_w2(Measure([[0.0], [1.0]]), Measure([[2.0], [3.0]]), 0, projections=2)
    SlicedDistance(distance=2.0, error=0.0)
    """
    _check(mu, nu)
    rng = validate.generator(rng)
    projections = validate.count(projections, "projections")
    (_, x, a), (_, y, b), exponent = _scaled(mu, nu)
    values, block = [], max(BLOCK // (len(x) + len(y)), 1)
    for start in range(0, projections, block):
        u = rng.normal(size=(min(block, projections - start), mu.dim))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        for left, right in zip(u @ x.T, u @ y.T, strict=True):
            i, j, mass = _monotone(left, a, right, b)
            values.append(_mean((left[i] - right[j])[:, None], mass, 2))
    scale = max(values) or 1.0
    square = (np.array(values) / scale) ** 2
    root = math.sqrt(square.mean())
    deviation = square.std(ddof=1) if projections > 1 else math.inf
    error = deviation / math.sqrt(projections) / (2 * root or 1.0)
    return SlicedDistance(*(math.ldexp(scale * float(v), exponent) for v in (root, error)))


@dataclass(frozen=True, eq=False)
class TestFunction:
    """A smooth or piecewise smooth function with Lipschitz constant 1, and its gradient.

    Attributes
    ----------
    name : str
        For tables and legends.
    function, gradient : callable
        Take points (n, D); return values (n,) and gradients (n, D).
    """

    __test__ = False  # pytest, this is no test

    name: str
    function: Callable = field(repr=False)
    gradient: Callable = field(repr=False)

    def __call__(self, x):
        """Values at the points ``x``, shape (n,)."""
        return self.function(x)


def _unit(u):
    u = validate.array(u, "u", ("D",)).astype(np.float64)
    if not u.any():
        raise ValueError("u: expected a direction, got zero")
    u = u / np.abs(u).max()
    return u / np.linalg.norm(u)


def _points(x, dim: int):
    return validate.array(x, "x", ("n", dim)).astype(np.float64)


def direction(u, name: str | None = None) -> TestFunction:
    r"""Linear test function :math:`x\mapsto\langle u,x\rangle/|u|`: it sees the mean.

    The vector u, shape (D,), must not be zero.

    Examples
    --------
    >>> direction([0.0, 2.0])([[5.0, 7.0]])
    array([7.])
    """
    u = _unit(u)
    return TestFunction(
        name or "direction",
        lambda x: _points(x, len(u)) @ u,
        lambda x: np.tile(u, (len(_points(x, len(u))), 1)),
    )


def distance_to(point, name: str | None = None) -> TestFunction:
    r"""Test function :math:`x\mapsto|x-a|` of a point a, shape (D,): it sees the spread.

    At the point itself, where there is no gradient, zero is returned.

    Examples
    --------
    >>> distance_to([0.0, 0.0])([[3.0, 4.0]])
    array([5.])
    """
    a = validate.array(point, "point", ("D",)).astype(np.float64)

    def split(x):
        difference = _points(x, len(a)) - a
        scale = np.abs(difference).max(axis=1, keepdims=True)
        difference = difference / np.where(scale > 0, scale, 1)
        return scale, difference, np.linalg.norm(difference, axis=1, keepdims=True)

    def function(x):
        scale, _, size = split(x)
        return (scale * size)[:, 0]

    def gradient(x):
        _, difference, size = split(x)
        return difference / np.where(size > 0, size, 1)

    return TestFunction(name or "distance", function, gradient)


def saturated(u, offset=0.0, width=1.0, name: str | None = None) -> TestFunction:
    r"""Bounded smooth step :math:`x\mapsto w\tanh((\langle u,x\rangle/|u|-b)/w)`.

    The vector u is not zero, the offset b is where the step is, and the width w, positive, is
    also its height.

    Examples
    --------
    >>> saturated([1.0], width=0.5)([[-9.0], [0.0], [1e300]])
    array([-0.5,  0. ,  0.5])
    """
    u, width = _unit(u), validate.positive(width, "width")
    offset = float(validate.array(offset, "offset", ()))

    def level(x):
        with np.errstate(over="ignore"):  # far away is at the bound
            return np.tanh((_points(x, len(u)) @ u - offset) / width)

    return TestFunction(
        name or "saturated",
        lambda x: width * level(x),
        lambda x: (1 - level(x)[:, None] ** 2) * u,
    )


def random_functions(rng, dim: int, n: int) -> tuple[TestFunction, ...]:
    """Draw n test functions on R^dim: in turn a direction, a distance and a saturated step.

    Examples
    --------
    >>> [f.name for f in random_functions(0, 3, 4)]
    ['direction 0', 'distance 1', 'saturated 2', 'direction 3']
    """
    rng = validate.generator(rng)
    dim, n = validate.count(dim, "dim"), validate.count(n, "n")
    functions = []
    for k in range(n):
        v = rng.normal(size=dim)
        if k % 3 == 0:
            functions.append(direction(v, f"direction {k}"))
        elif k % 3 == 1:
            functions.append(distance_to(v, f"distance {k}"))
        else:
            offset, width = rng.normal(), rng.uniform(0.5, 2)
            functions.append(saturated(v, offset, width, f"saturated {k}"))
    return tuple(functions)


def discrepancy(f: Callable, mu: Measure, nu: Measure) -> float:
    r"""How far two measures differ on f, :math:`|\int f\,d\mu-\int f\,d\nu|`.

    The function takes points (n, D) and returns values (n,). If its Lipschitz constant is 1, as
    that of every :class:`TestFunction` is, the discrepancy is at most :math:`W_1(\mu,\nu)`.

    Examples
    --------
    >>> discrepancy(direction([1.0]), Measure([[0.0], [2.0]]), Measure([[5.0]]))
    4.0
    """
    _check(mu, nu)
    if not callable(f):
        raise TypeError(f"f: expected a function of points, got {f!r}")
    mean = [m.integrate(validate.array(f(m.atoms), "f(atoms)", (m.size,))) for m in (mu, nu)]
    return float(abs(mean[0] - mean[1]))


def _mcshane(x, centres, potential):
    rows = max(BLOCK // len(centres), 1)
    blocks = [cdist(x[k : k + rows], centres) - potential for k in range(0, len(x), rows)]
    return np.concatenate([block.min(axis=1) for block in blocks])


@dataclass(frozen=True, eq=False)
class Witness:
    r"""A function with Lipschitz constant 1 that attains :math:`W_1`; call it on points (n, D).

    Attributes
    ----------
    value : float
        The difference of integrals :math:`\int f\,d\mu-\int f\,d\nu`.
    distance : float
        The cost of the optimal plan, :math:`W_1(\mu,\nu)`; equal to ``value`` by duality.
    centres, potential : array, shapes (m, D) and (m,)
        What f is made of, see :func:`dual_witness`.
    """

    value: float
    distance: float
    centres: np.ndarray = field(repr=False)
    potential: np.ndarray = field(repr=False)

    def __call__(self, x):
        """Values at the points ``x``, shape (n,)."""
        return _mcshane(_points(x, self.centres.shape[1]), self.centres, self.potential)


def dual_witness(mu: Measure, nu: Measure, *, memory: float = 2**31) -> Witness:
    r"""Function that sees the whole distance: the maximiser in Kantorovich–Rubinstein duality.

    .. math:: W_1(\mu,\nu)=\max_{\mathrm{Lip}(f)\le1}\int f\,d\mu-\int f\,d\nu,
        \qquad f(x)=\min_j\,|x-y_j|-v_j

    The :math:`v_j` are the dual potentials at the atoms of :math:`\nu`. McShane's formula (1934)
    extends them to all of :math:`\mathbb R^D`; a minimum of functions with Lipschitz constant 1
    has it too.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As in :func:`optimal_plan`.

    Notes
    -----
    Villani, *Topics in Optimal Transportation* (2003), Theorem 1.14.

    Examples
    --------
    >>> f = dual_witness(Measure([[0.0], [1.0]]), Measure([[3.0]]))
    >>> f.value, f([[0.0], [9.0]]) - f([[3.0]])
    (2.5, array([3., 6.]))
    """
    _check(mu, nu)
    memory = validate.positive(memory, "memory")
    (_, x, a), (_, y, b), exponent = _scaled(mu, nu)
    i, j, mass, v = _simplex(x, a, y, b, 1, memory)
    value = a @ _mcshane(x, y, v) - b @ _mcshane(y, y, v)
    both = (math.ldexp(float(c), exponent) for c in (value, _mean(x[i] - y[j], mass, 1)))
    return Witness(*both, *(validate.frozen(np.ldexp(c, exponent)) for c in (y, v)))


def displacement(mu: Measure, nu: Measure, s: float, plan: Plan | None = None) -> Measure:
    r"""McCann's interpolation, :math:`((1-s)x+sy)_\#\pi`: the geodesic of :math:`W_2`.

    Each pair of the optimal plan moves at constant speed along a straight line, so
    :math:`W_2(\mu,\mu_s)=s\,W_2(\mu,\nu)`; unlike :func:`mfbook.measure.mixture`, where mass
    vanishes here and appears there.

    Parameters
    ----------
    mu, nu : Measure
        The ends, with real atoms in the same space.
    s : float
        In [0, 1].
    plan : Plan, optional
        The optimal plan for p=2, to use it for many s. Default: computed.

    Raises
    ------
    TypeError, ValueError
        If s is outside [0, 1], or the plan does not have the marginals ``mu`` and ``nu``.

    Notes
    -----
    McCann (1997); Villani, *Topics in Optimal Transportation* (2003), Section 5.1.

    Examples
    --------
    >>> displacement(Measure([[0.0]]), Measure([[1.0], [3.0]]), 0.5).atoms.ravel()
    array([0.5, 1.5])
    """
    _check(mu, nu)
    s = validate.positive(s, "s", allow_zero=True)
    if s > 1:
        raise ValueError(f"s: expected a number in [0, 1], got {s}")
    plan = optimal_plan(mu, nu) if plan is None else validate.instance(plan, "plan", Plan)
    for name, m, index in (("mu", mu, plan.source), ("nu", nu, plan.target)):
        marginal = np.bincount(index, plan.mass, m.size)
        if len(marginal) != m.size or np.abs(marginal - m.weights).max() > validate.SUM_TOLERANCE:
            raise ValueError(f"plan: expected the weights of {name} as a marginal, got others")
    return Measure((1 - s) * mu.atoms[plan.source] + s * nu.atoms[plan.target], plan.mass)
