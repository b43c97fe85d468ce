r"""Where atoms live: the whole space, a product of balls, a sphere.

A space knows how to turn an ambient vector into a permitted velocity (``tangent``) and how to take
a step along it without leaving (``retract``). That is all an integrator needs. Points are rows,
(..., D), real or complex; what is analytic stays so, for derivatives by complex step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mfbook import _validate as validate

__all__ = ["Ball", "Euclidean", "Space", "Sphere"]

#: How far a point may be from a sphere or outside a ball and still count as on it.
ON_TOLERANCE = 1e-8


class Space(Protocol):
    """What a flow needs of the place where atoms live.

    A space may also offer ``dim``, ``contains``, ``project`` and, for searches over single points,
    ``chart``, ``unchart`` and ``hessian``, as the spaces of this module do.
    """

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Velocities at the points ``x`` that are allowed, nearest to ``v``; shape (n, D)."""

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Points reached from ``x`` by a step ``v``; shape (n, D)."""


def _beside(x, v, name: str, largest: float = validate.LARGEST) -> np.ndarray:
    """Vectors that belong to the points ``x``."""
    v = validate.array(v, name, (..., x.shape[-1]), allow_complex=True, largest=largest)
    try:
        np.broadcast_shapes(v.shape, x.shape)
    except ValueError:
        raise ValueError(f"{name}: expected shape {x.shape}, got {v.shape}") from None
    return v


def _sum(x: np.ndarray) -> np.ndarray:
    """Sum of each row, as a column: of x² an analytic square of the norm."""
    return x.sum(axis=-1, keepdims=True)


def _norm(x: np.ndarray) -> np.ndarray:
    """Norm of each row, as a column."""
    return np.linalg.norm(x, axis=-1, keepdims=True)


class _Place:
    """What the spaces have in common; where nothing else is said, space is flat."""

    def _rows(self, x, name: str = "x") -> np.ndarray:
        shape = (..., getattr(self, "dim", "D"))
        return validate.array(x, name, shape, allow_complex=True, largest=validate.LARGEST)

    def project(self, x: np.ndarray) -> np.ndarray:
        """Nearest point of the space, row by row."""
        return self._rows(x)

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Nearest point to ``x + v``."""
        x = self._rows(x)
        return self.project(x + _beside(x, v, "v"))

    def unchart(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of the points ``x``."""
        return self._rows(x)

    def hessian(self, x: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """Riemannian Hessian from the ambient gradient and Hessian: here the ambient one."""
        return hessian


@dataclass(frozen=True)
class Euclidean(_Place):
    r"""The space :math:`\mathbb R^D`: every vector is tangent, every point is allowed."""

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return ``v``: every direction is allowed."""
        return _beside(self._rows(x), v, "v", largest=math.inf)

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return ``x + v``."""
        x = self._rows(x)
        return x + _beside(x, v, "v")

    def contains(self, x: np.ndarray, tolerance: float = ON_TOLERANCE) -> np.ndarray:
        """Whether each row of ``x`` is in the space: always."""
        return np.ones(self._rows(x).shape[:-1], dtype=bool)

    def chart(self, q: np.ndarray) -> tuple[np.ndarray, Callable]:
        """Unconstrained coordinates: the points of ``q``, and the pull-back of gradients."""
        return self._rows(q, "q"), lambda gradient: gradient


@dataclass(frozen=True)
class Ball(_Place):
    r"""A product of Euclidean balls of one radius, :math:`\prod_b\{\|x_b\|\le r\}`.

    For heads this is the compact :math:`\Theta` of Assumption 3.2, one Frobenius ball for each of
    the four matrices; :meth:`mfbook.attention.HeadShape.ball` builds it.

    - ``radius``: Common radius r, positive.
    - ``blocks``: Sizes of consecutive coordinate blocks, one ball each.

    >>> Ball(1.0, (2, 1)).project([[3.0, 4.0, 0.5]])
    array([[0.6, 0.8, 0.5]])
    """

    radius: float
    blocks: tuple[int, ...]

    def __post_init__(self):
        radius = validate.positive(self.radius, "radius", largest=validate.LARGEST)
        if not isinstance(self.blocks, Sequence):
            raise TypeError(f"blocks: expected a sequence of integers, got {self.blocks!r}")
        sizes = tuple(validate.count(b, "blocks") for b in self.blocks)
        if not sizes:
            raise ValueError("blocks: expected at least one block, got none")
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "blocks", sizes)

    @property
    def dim(self) -> int:
        """Ambient dimension, the sum of the blocks."""
        return sum(self.blocks)

    def _each(self, f: Callable, *arrays: np.ndarray, flags=None) -> np.ndarray:
        """The rows f(block, ...) of all blocks, side by side; flags have one column for each."""
        cuts = np.cumsum(self.blocks)[:-1]
        split = [np.split(a, cuts, axis=-1) for a in arrays]
        split += [] if flags is None else [np.split(flags, len(self.blocks), axis=-1)]
        return np.concatenate([f(*parts) for parts in zip(*split, strict=True)], axis=-1)

    def project(self, x: np.ndarray) -> np.ndarray:
        """Nearest point of the product, row by row."""
        r = self.radius
        return self._each(lambda b: b * (r / np.maximum(_norm(b), r)), self._rows(x))

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Project ``v`` on the tangent cone: at the boundary of a ball, drop what points out."""
        x = self._rows(x)

        def inward(b, u):  # as `along` for what is active, in half of the time
            square, outward = _sum(b * b), _sum(b * u)
            active = (square >= (self.radius * (1 - ON_TOLERANCE)) ** 2) & (outward > 0)
            return np.where(active, u - outward / np.where(active, square, 1) * b, u)

        return self._each(inward, x, _beside(x, v, "v"))

    def active(self, x: np.ndarray, v: np.ndarray, near: float = 0.0) -> np.ndarray:
        """Which balls (n, blocks) the velocities ``v`` at ``x`` would leave, or are ``near`` to."""
        least = max(self.radius * (1 - ON_TOLERANCE) - near, 0) ** 2
        return self._each(lambda b, u: (_sum(b * b) >= least) & (_sum(b * u) > 0), x, v)

    def along(self, x: np.ndarray, v: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Velocities without what points out of the balls that are ``active``; continuous."""

        def kept(b, u, on):
            square = np.where(on, _sum(b * b), 1)
            return u - np.where(on, np.maximum(_sum(b * u), 0), 0) / square * b

        return self._each(kept, x, v, flags=active)

    def pin(self, x: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Points with the parts in the balls that are ``active`` moved to their boundary."""
        r = self.radius
        return self._each(lambda b, on: b * (r / np.where(on, _norm(b), r)), x, flags=active)

    def contains(self, x: np.ndarray, tolerance: float = ON_TOLERANCE) -> np.ndarray:
        """Whether each row of ``x`` is in the product, up to a relative tolerance."""
        limit = self.radius * (1 + tolerance)
        return np.all(self._each(_norm, self._rows(x)) <= limit, axis=-1)

    def sample(self, rng: validate.Seed, n: int) -> np.ndarray:
        """Draw n points uniformly from the product; shape (n, D)."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        parts = []
        for size in self.blocks:
            direction = rng.normal(size=(n, size))
            direction /= _norm(direction)
            parts.append(self.radius * rng.random((n, 1)) ** (1 / size) * direction)
        return np.concatenate(parts, axis=-1)

    def chart(self, q: np.ndarray) -> tuple[np.ndarray, Callable]:
        r"""Unconstrained coordinates, block by block :math:`x=2rq/(1+\|q\|^2)`.

        The map folds at the boundary, :math:`\|q\|=1`, so a minimum there is an ordinary
        stationary point in q and needs no constraint.
        """
        q, r = self._rows(q, "q"), self.radius

        def scale(b):
            return 1 / (1 + _sum(b * b))

        def pulled(b, g):
            s = scale(b)
            return 2 * r * s * (g - 2 * s * _sum(b * g) * b)

        point = self._each(lambda b: 2 * r * scale(b) * b, q)
        return point, lambda gradient: self._each(pulled, q, gradient)

    def unchart(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of the points ``x``; points on the boundary are moved inside by 1e-4.

        Exactly on the fold no gradient would point inwards.
        """

        def coordinates(b):
            size = _norm(b) / self.radius
            inside = np.minimum(size, 1 - 1e-4)
            # |q| = s / (1 + sqrt(1 - s^2)) solves 2|q| / (1 + |q|^2) = s
            stretch = inside / (1 + np.sqrt(1 - inside**2)) / np.where(size > 0, size, 1)
            return stretch * b / self.radius

        return self._each(coordinates, self._rows(x))


@dataclass(frozen=True)
class Sphere(_Place):
    r"""The unit sphere :math:`S^{d-1}`; points are unit vectors of :math:`\mathbb R^d`.

    >>> Sphere().tangent([[1.0, 0.0]], [[2.0, 3.0]])
    array([[0., 3.]])
    """

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        r"""Project on the tangent space, :math:`P_xv=v-\langle x,v\rangle x`."""
        x = self._rows(x)
        v = _beside(x, v, "v")
        return v - _sum(x * v) * x

    def project(self, x: np.ndarray, name: str = "x") -> np.ndarray:
        """Nearest point of the sphere, row by row; the origin has none and raises ValueError."""
        return self.chart(x, name)[0]

    def contains(self, x: np.ndarray, tolerance: float = ON_TOLERANCE) -> np.ndarray:
        """Whether each row of ``x`` is a unit vector, up to the tolerance."""
        return np.abs(np.linalg.norm(self._rows(x), axis=-1) - 1) <= tolerance

    def distance(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Geodesic distance (an angle, in radians) between rows, accurate for small angles."""
        x = self._rows(x)
        y = _beside(x, y, "y")
        return 2 * np.arctan2(*(np.linalg.norm(z, axis=-1) / 2 for z in (x - y, x + y)))

    def sample(self, rng: validate.Seed, n: int, dim: int) -> np.ndarray:
        """Draw n points uniformly from the sphere in ``dim`` dimensions; shape (n, dim)."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        return self.project(rng.normal(size=(n, validate.count(dim, "dim", least=2))))

    def chart(self, q: np.ndarray, name: str = "q") -> tuple[np.ndarray, Callable]:
        r"""Unconstrained coordinates :math:`x=q/\|q\|`, and the pull-back of gradients."""
        q = self._rows(q, name)
        size = np.sqrt(_sum(q * q))
        if (size == 0).any():
            raise ValueError(f"{name}: the origin has no nearest point on the sphere")
        x = q / size
        return x, lambda gradient: self.tangent(x, gradient) / size

    def hessian(self, x: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        r"""Riemannian Hessian :math:`P_x\nabla^2P_x-\langle x,\nabla\rangle P_x` at one point."""
        P = np.eye(len(x)) - np.outer(x, x)
        return P @ hessian @ P - (x @ gradient) * P
