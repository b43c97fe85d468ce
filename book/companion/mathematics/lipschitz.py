"""Functions with Lipschitz constant 1: what they see of a distance, and the one that sees all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook.measure import Measure
from mfbook.transport import mean_length, simplex


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
    return np.asarray(u, dtype=float) / np.linalg.norm(u)


def direction(u: np.ndarray, name: str = "direction") -> TestFunction:
    r"""Linear test function :math:`x\mapsto\langle u,x\rangle/|u|`: it sees the mean."""
    u = _unit(u)
    return TestFunction(name, lambda x: x @ u, lambda x: np.tile(u, (len(x), 1)))


def distance_to(point: ArrayLike, name: str = "distance") -> TestFunction:
    r"""Test function :math:`x\mapsto|x-a|` of a point a, shape (D,): it sees the spread.

    At the point itself, where there is no gradient, zero is returned.
    """
    a = np.asarray(point, dtype=float)

    def gradient(x):
        size = np.linalg.norm(x - a, axis=1, keepdims=True)
        return (x - a) / np.where(size > 0, size, 1)

    return TestFunction(name, lambda x: np.linalg.norm(x - a, axis=1), gradient)


def saturated(
    u: np.ndarray, offset: float = 0.0, width: float = 1.0, name: str = "saturated"
) -> TestFunction:
    r"""Bounded smooth step :math:`x\mapsto w\tanh((\langle u,x\rangle/|u|-b)/w)`.

    The offset b is where the step is, and the width w, positive, is also its height.
    """
    u = _unit(u)

    def level(x):
        return np.tanh((x @ u - offset) / width)

    return TestFunction(
        name, lambda x: width * level(x), lambda x: (1 - level(x)[:, None] ** 2) * u
    )


def discrepancy(f: Callable, mu: Measure, nu: Measure) -> float:
    r"""How far two measures differ on f, :math:`|\int f\,d\mu-\int f\,d\nu|`.

    At most :math:`W_1(\mu,\nu)` if the Lipschitz constant of f is 1.
    """
    return float(abs(mu.integrate(f(mu.atoms)) - nu.integrate(f(nu.atoms))))


@dataclass(frozen=True, eq=False)
class Witness:
    """A function with Lipschitz constant 1 that attains :math:`W_1`; call it on points (n, D)."""

    value: float
    distance: float
    centres: np.ndarray = field(repr=False)
    potential: np.ndarray = field(repr=False)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values at the points ``x``, shape (n,)."""
        return (scipy.spatial.distance.cdist(x, self.centres) - self.potential).min(axis=1)


def dual_witness(mu: Measure, nu: Measure) -> Witness:
    r"""Function that sees the whole distance: the maximiser in Kantorovich–Rubinstein duality.

    .. math:: W_1(\mu,\nu)=\max_{\mathrm{Lip}(f)\le1}\int f\,d\mu-\int f\,d\nu,
        \qquad f(x)=\min_j\,|x-y_j|-v_j

    The :math:`v_j` are the dual potentials at the atoms of :math:`\nu`. McShane's formula (1934)
    extends them to all of :math:`\mathbb R^D`; a minimum of functions with Lipschitz constant 1
    has it too.
    """
    x, a, y, b = mu.atoms, mu.weights, nu.atoms, nu.weights
    i, j, mass, v = simplex(x, a, y, b, 1)
    f = Witness(0.0, mean_length(x[i] - y[j], mass, 1), y, v)
    return replace(f, value=float(a @ f(x) - b @ f(y)))
