"""Functions with Lipschitz constant 1: what they see of a distance, and the one that sees all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook._blocks import blocks
from mfbook.measure import Measure
from mfbook.transport import BLOCK, check_pair, mean_length, scaled, simplex

__all__ = [
    "TestFunction",
    "Witness",
    "direction",
    "discrepancy",
    "distance_to",
    "dual_witness",
    "saturated",
]


@dataclass(frozen=True, eq=False)
class TestFunction:
    """A smooth or piecewise smooth function with Lipschitz constant 1, and its gradient."""

    __test__ = False  # pytest, this is no test

    name: str
    function: Callable = field(repr=False)
    gradient: Callable = field(repr=False)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values at the points ``x``, shape (n,)."""
        return self.function(x)


def _unit(u):
    u = np.asarray(u, dtype=float)
    u = u / np.abs(u).max()
    return u / np.linalg.norm(u)


def _named(name, default: str) -> str:
    return default if name is None else name


def _points(x, dim: int):
    return np.asarray(x, dtype=float)


def direction(u: np.ndarray, name: str | None = None) -> TestFunction:
    r"""Linear test function :math:`x\mapsto\langle u,x\rangle/|u|`: it sees the mean.

    The vector u, shape (D,), must not be zero.
    """
    u = _unit(u)
    return TestFunction(
        _named(name, "direction"),
        lambda x: _points(x, len(u)) @ u,
        lambda x: np.tile(u, (len(_points(x, len(u))), 1)),
    )


def distance_to(point: ArrayLike, name: str | None = None) -> TestFunction:
    r"""Test function :math:`x\mapsto|x-a|` of a point a, shape (D,): it sees the spread.

    At the point itself, where there is no gradient, zero is returned.
    """
    a = np.asarray(point, dtype=float)

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

    return TestFunction(_named(name, "distance"), function, gradient)


def saturated(
    u: np.ndarray, offset: float = 0.0, width: float = 1.0, name: str | None = None
) -> TestFunction:
    r"""Bounded smooth step :math:`x\mapsto w\tanh((\langle u,x\rangle/|u|-b)/w)`.

    The vector u is not zero, the offset b is where the step is, and the width w, positive, is
    also its height.
    """
    u, width = _unit(u), width

    def level(x):
        with np.errstate(over="ignore"):  # far away is at the bound
            return np.tanh((_points(x, len(u)) @ u - offset) / width)

    return TestFunction(
        _named(name, "saturated"),
        lambda x: width * level(x),
        lambda x: (1 - level(x)[:, None] ** 2) * u,
    )


def discrepancy(f: Callable, mu: Measure, nu: Measure) -> float:
    r"""How far two measures differ on f, :math:`|\int f\,d\mu-\int f\,d\nu|`.

    The function takes points (n, D) and returns values (n,). If its Lipschitz constant is 1, as
    that of every :class:`TestFunction` is, the discrepancy is at most :math:`W_1(\mu,\nu)`.
    """
    check_pair(mu, nu)
    mean = [m.integrate(np.asarray(f(m.atoms), dtype=float)) for m in (mu, nu)]
    return float(abs(mean[0] - mean[1]))


def _mcshane(x, centres, potential):
    parts = blocks(len(x), BLOCK // len(centres))
    return np.concatenate(
        [(scipy.spatial.distance.cdist(x[p], centres) - potential).min(axis=1) for p in parts]
    )


@dataclass(frozen=True, eq=False)
class Witness:
    """A function with Lipschitz constant 1 that attains :math:`W_1`; call it on points (n, D)."""

    value: float
    distance: float
    centres: np.ndarray = field(repr=False)
    potential: np.ndarray = field(repr=False)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values at the points ``x``, shape (n,)."""
        x = _points(x, self.centres.shape[1])
        # a power of two is taken out, so that squares of large or small differences are numbers
        exponent = int(np.frexp(max(np.abs(x).max(), np.abs(self.centres).max()))[1])
        parts = (np.ldexp(part, -exponent) for part in (x, self.centres, self.potential))
        return np.ldexp(_mcshane(*parts), exponent)


def dual_witness(mu: Measure, nu: Measure, *, memory: float = 2**31) -> Witness:
    r"""Function that sees the whole distance: the maximiser in Kantorovich–Rubinstein duality.

    .. math:: W_1(\mu,\nu)=\max_{\mathrm{Lip}(f)\le1}\int f\,d\mu-\int f\,d\nu,
        \qquad f(x)=\min_j\,|x-y_j|-v_j

    The :math:`v_j` are the dual potentials at the atoms of :math:`\nu`. McShane's formula (1934)
    extends them to all of :math:`\mathbb R^D`; a minimum of functions with Lipschitz constant 1
    has it too.
    """
    check_pair(mu, nu)
    (_, x, a), (_, y, b), exponent = scaled(mu, nu)
    i, j, mass, v = simplex(x, a, y, b, 1, memory)
    value = a @ _mcshane(x, y, v) - b @ _mcshane(y, y, v)
    value, cost = (
        math.ldexp(float(c), exponent) for c in (value, mean_length(x[i] - y[j], mass, 1))
    )
    centres, potential = (np.ldexp(c, exponent) for c in (y, v))
    return Witness(value, cost, centres, potential)
