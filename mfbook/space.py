r"""Where atoms live: the whole space, a product of balls, a sphere.

A space knows how to turn an ambient vector into a permitted velocity (``tangent``) and how to take
a step along it without leaving (``retract``). That is all an integrator needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mfbook import _validate as validate
from mfbook._types import Seed

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


def _norm(x: np.ndarray) -> np.ndarray:
    """Euclidean norm of each row, as the analytic function sqrt(sum x^2)."""
    return np.sqrt((x * x).sum(axis=-1, keepdims=True))


def _rows(x, name: str, width="D") -> np.ndarray:
    """Points or vectors as rows, real or complex."""
    return validate.array(x, name, (..., width), allow_complex=True, largest=validate.LARGEST)


def _beside(x, v, name: str, largest: float = validate.LARGEST) -> np.ndarray:
    """Vectors that belong to the points ``x``."""
    shape = (..., x.shape[-1])
    v = validate.array(v, name, shape, allow_complex=True, largest=largest)
    if v.shape != x.shape:
        try:
            np.broadcast_shapes(v.shape, x.shape)
        except ValueError:
            raise ValueError(f"{name}: expected shape {x.shape}, got {v.shape}") from None
    return v


def _square(x, gradient, hessian) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One point, and a gradient and a matrix there."""
    x = validate.array(x, "x", ("D",), largest=validate.LARGEST)
    shape = (len(x), len(x))
    return (
        x,
        validate.array(gradient, "gradient", x.shape, largest=validate.LARGEST),
        validate.array(hessian, "hessian", shape, largest=validate.LARGEST),
    )


@dataclass(frozen=True)
class Euclidean:
    r"""The space :math:`\mathbb R^D`: every vector is tangent, every point is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> Euclidean().retract(np.zeros((1, 2)), np.ones((1, 2)))
    array([[1., 1.]])
    >>> x = np.array([[3.0, 4.0]])
    >>> space = Euclidean()
    >>> space.contains(x), space.distance(x, 0 * x), space.hessian(x[0], x[0], np.eye(2)).tolist()
    (array([ True]), array([5.]), [[1.0, 0.0], [0.0, 1.0]])
    >>> point, back = space.chart(space.unchart(x))
    >>> point, back(x)
    (array([[3., 4.]]), array([[3., 4.]]))
    """

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return ``v``: every direction is allowed."""
        return _beside(_rows(x, "x"), v, "v", largest=math.inf)

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return ``x + v``."""
        x = _rows(x, "x")
        return x + _beside(x, v, "v")

    def project(self, x: np.ndarray) -> np.ndarray:
        """Return ``x``: nothing is outside."""
        return _rows(x, "x")

    def contains(self, x: np.ndarray, tolerance: float = ON_TOLERANCE) -> np.ndarray:
        """Whether each row of ``x`` is in the space: always."""
        validate.positive(tolerance, "tolerance", allow_zero=True)
        return np.ones(_rows(x, "x").shape[:-1], dtype=bool)

    def distance(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Euclidean distance between the rows of ``x`` and of ``y``, shape (n,)."""
        x = _rows(x, "x")
        return np.linalg.norm(x - _beside(x, y, "y"), axis=-1)

    def chart(self, q: np.ndarray) -> tuple[np.ndarray, Callable]:
        """Unconstrained coordinates: the point of ``q``, and the pull-back of gradients."""
        return _rows(q, "q"), lambda gradient: gradient

    def unchart(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of the point ``x``."""
        return _rows(x, "x")

    def hessian(self, x: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """Riemannian Hessian from the ambient gradient and Hessian: here the ambient one."""
        return _square(x, gradient, hessian)[2]


@dataclass(frozen=True)
class Ball:
    r"""A product of Euclidean balls of one radius, :math:`\prod_b\{\|x_b\|\le r\}`.

    For heads this is the compact :math:`\Theta` of Assumption 3.2, one Frobenius ball for each of
    the four matrices; :meth:`mfbook.attention.HeadShape.ball` builds it.

    - ``radius``: Common radius r, positive.
    - ``blocks``: Sizes of consecutive coordinate blocks, one ball each.

    Examples
    --------
    >>> import numpy as np
    >>> space = Ball(1.0, (2, 1))
    >>> space.project(np.array([[3.0, 4.0, 0.5]]))
    array([[0.6, 0.8, 0.5]])
    >>> x = np.array([[0.6, 0.8, 0.5]])
    >>> space.dim, space.contains(2 * x), space.distance(x, -x).round(4)
    (3, array([False]), array([2.2361]))
    >>> space.tangent(x, np.array([[0.6, 0.8, 1.0]])).round(12) + 0.0
    array([[0., 0., 1.]])
    >>> bool(space.contains(space.sample(0, n=5)).all())
    True
    >>> point, back = space.chart(space.unchart(np.array([[0.3, 0.4, 0.5]])))
    >>> point.round(12)
    array([[0.3, 0.4, 0.5]])
    >>> space.hessian(x[0], x[0], np.eye(3)).shape
    (3, 3)
    """

    radius: float
    blocks: tuple[int, ...]

    def __post_init__(self):
        radius = validate.positive(self.radius, "radius", largest=validate.LARGEST)
        object.__setattr__(self, "radius", radius)
        if not isinstance(self.blocks, Sequence):
            raise TypeError(f"blocks: expected a sequence of integers, got {self.blocks!r}")
        sizes = tuple(validate.count(b, "blocks") for b in self.blocks)
        if not sizes:
            raise ValueError("blocks: expected at least one block, got none")
        object.__setattr__(self, "blocks", sizes)

    @property
    def dim(self) -> int:
        """Ambient dimension, the sum of the blocks."""
        return sum(self.blocks)

    def _split(self, x):
        return np.split(x, np.cumsum(self.blocks)[:-1], axis=-1)

    def project(self, x: np.ndarray) -> np.ndarray:
        """Nearest point of the product, row by row."""
        parts = []
        for b in self._split(_rows(x, "x", self.dim)):
            size = np.linalg.norm(b, axis=-1, keepdims=True)
            parts.append(b * (self.radius / np.maximum(size, self.radius)))
        return np.concatenate(parts, axis=-1)

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Project ``v`` on the tangent cone: at the boundary of a ball, drop what points out."""
        x = _rows(x, "x", self.dim)
        v = _beside(x, v, "v")
        parts = []
        for b, u in zip(self._split(x), self._split(v), strict=True):
            square = (b * b).sum(axis=-1, keepdims=True)
            outward = (b * u).sum(axis=-1, keepdims=True)
            active = (square >= (self.radius * (1 - ON_TOLERANCE)) ** 2) & (outward > 0)
            parts.append(np.where(active, u - outward / np.where(active, square, 1) * b, u))
        return np.concatenate(parts, axis=-1)

    def active(self, x: np.ndarray, v: np.ndarray, near: float = 0.0) -> np.ndarray:
        """Which balls (n, blocks) the velocities ``v`` at ``x`` would leave, or are ``near`` to."""
        pairs = zip(self._split(x), self._split(v), strict=True)
        least = max(self.radius * (1 - ON_TOLERANCE) - near, 0) ** 2
        return np.stack(
            [((b * b).sum(-1) >= least) & ((b * u).sum(-1) > 0) for b, u in pairs], axis=-1
        )

    def along(self, x: np.ndarray, v: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Velocities without what points out of the balls that are ``active``; continuous."""
        parts = []
        for b, u, on in zip(self._split(x), self._split(v), active.T[..., None], strict=True):
            square = np.where(on, (b * b).sum(-1, keepdims=True), 1)
            outward = np.maximum((b * u).sum(-1, keepdims=True), 0)
            parts.append(np.where(on, u - outward / square * b, u))
        return np.concatenate(parts, axis=-1)

    def pin(self, x: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Points with the parts in the balls that are ``active`` moved to their boundary."""
        parts = []
        for b, on in zip(self._split(x), active.T[..., None], strict=True):
            size = np.where(on, np.linalg.norm(b, axis=-1, keepdims=True), self.radius)
            parts.append(b * (self.radius / size))
        return np.concatenate(parts, axis=-1)

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the projection of ``x + v``."""
        x = _rows(x, "x", self.dim)
        return self.project(x + _beside(x, v, "v"))

    def contains(self, x: np.ndarray, tolerance: float = ON_TOLERANCE) -> np.ndarray:
        """Whether each row of ``x`` is in the product, up to a relative tolerance."""
        limit = self.radius * (1 + validate.positive(tolerance, "tolerance", allow_zero=True))
        blocks = self._split(_rows(x, "x", self.dim))
        return np.all([np.linalg.norm(b, axis=-1) <= limit for b in blocks], axis=0)

    def distance(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Euclidean distance between the rows of ``x`` and of ``y``, shape (n,)."""
        x = _rows(x, "x", self.dim)
        return np.linalg.norm(x - _beside(x, y, "y"), axis=-1)

    def sample(self, rng: Seed, n: int) -> np.ndarray:
        """Draw n points uniformly from the product; shape (n, D)."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        parts = []
        for size in self.blocks:
            direction = rng.normal(size=(n, size))
            direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
            parts.append(self.radius * rng.random((n, 1)) ** (1 / size) * direction)
        return np.concatenate(parts, axis=-1)

    def chart(self, q: np.ndarray) -> tuple[np.ndarray, Callable]:
        r"""Unconstrained coordinates, block by block :math:`x=2rq/(1+\|q\|^2)`.

        The map folds at the boundary, :math:`\|q\|=1`, so a minimum there is an ordinary
        stationary point in q and needs no constraint.

        - ``q`` (n, D): Coordinates.

        Returns x : array, shape (n, D): Points of the product of balls.
        Returns takes gradients in x and returns gradients in q.
        """
        blocks = self._split(_rows(q, "q", self.dim))
        scale = [1 / (1 + (b * b).sum(axis=-1, keepdims=True)) for b in blocks]
        x = [2 * self.radius * s * b for s, b in zip(scale, blocks, strict=True)]

        def back(gradient):
            parts = []
            for s, b, g in zip(scale, blocks, self._split(gradient), strict=True):
                along = (b * g).sum(axis=-1, keepdims=True)
                parts.append(2 * self.radius * s * (g - 2 * s * along * b))
            return np.concatenate(parts, axis=-1)

        return np.concatenate(x, axis=-1), back

    def unchart(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of the point ``x``; points on the boundary are moved inside by 1e-4.

        Exactly on the fold no gradient would point inwards.

        - ``x`` (n, D): Points of the product.
        """
        parts = []
        for b in self._split(_rows(x, "x", self.dim)):
            size = np.linalg.norm(b, axis=-1, keepdims=True) / self.radius
            inside = np.minimum(size, 1 - 1e-4)
            # |q| = s / (1 + sqrt(1 - s^2)) solves 2|q| / (1 + |q|^2) = s
            stretch = inside / (1 + np.sqrt(1 - inside**2)) / np.where(size > 0, size, 1)
            parts.append(stretch * b / self.radius)
        return np.concatenate(parts, axis=-1)

    def hessian(self, x: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """Riemannian Hessian from the ambient gradient and Hessian: here the ambient one."""
        return _square(x, gradient, hessian)[2]


@dataclass(frozen=True)
class Sphere:
    r"""The unit sphere :math:`S^{d-1}`; points are unit vectors of :math:`\mathbb R^d`.

    Examples
    --------
    >>> import numpy as np
    >>> Sphere().tangent(np.array([[1.0, 0.0]]), np.array([[2.0, 3.0]]))
    array([[0., 3.]])
    >>> space, x = Sphere(), np.array([[1.0, 0.0]])
    >>> space.retract(x, np.array([[0.0, 1.0]])).round(4), space.distance(x, -x).round(4)
    (array([[0.7071, 0.7071]]), array([3.1416]))
    >>> bool(space.contains(space.sample(0, n=5, dim=3)).all())
    True
    >>> point, back = space.chart(2 * space.unchart(x))
    >>> point, back(np.array([[1.0, 1.0]]))
    (array([[1., 0.]]), array([[0. , 0.5]]))

    The function :math:`x_1` has its maximum here, with curvature -1 along the circle:

    >>> space.hessian(x[0], np.array([1.0, 0.0]), np.zeros((2, 2)))
    array([[ 0.,  0.],
           [ 0., -1.]])
    """

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        r"""Project on the tangent space, :math:`P_xv=v-\langle x,v\rangle x`."""
        x = _rows(x, "x")
        v = _beside(x, v, "v")
        return v - (x * v).sum(axis=-1, keepdims=True) * x

    def project(self, x: np.ndarray) -> np.ndarray:
        """Nearest point of the sphere, row by row; the origin has none and raises ValueError."""
        x = _rows(x, "x")
        size = _norm(x)
        if (np.abs(size) == 0).any():
            raise ValueError("x: the origin has no nearest point on the sphere")
        return x / size

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return ``x + v`` divided by its length."""
        x = _rows(x, "x")
        return self.project(x + _beside(x, v, "v"))

    def contains(self, x: np.ndarray, tolerance: float = ON_TOLERANCE) -> np.ndarray:
        """Whether each row of ``x`` is a unit vector, up to the tolerance."""
        tolerance = validate.positive(tolerance, "tolerance", allow_zero=True)
        return np.abs(np.linalg.norm(_rows(x, "x"), axis=-1) - 1) <= tolerance

    def distance(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Geodesic distance (an angle, in radians) between rows, accurate for small angles."""
        x = _rows(x, "x")
        y = _beside(x, y, "y")
        half = np.linalg.norm(x - y, axis=-1) / 2
        other = np.linalg.norm(x + y, axis=-1) / 2
        return 2 * np.arctan2(half, other)

    def sample(self, rng: Seed, n: int, dim: int) -> np.ndarray:
        """Draw n points uniformly from the sphere in ``dim`` dimensions; shape (n, dim)."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        return self.project(rng.normal(size=(n, validate.count(dim, "dim", least=2))))

    def chart(self, q: np.ndarray) -> tuple[np.ndarray, Callable]:
        r"""Unconstrained coordinates :math:`x=q/\|q\|`, and the pull-back of gradients."""
        q = _rows(q, "q")
        size = _norm(q)
        if (np.abs(size) == 0).any():
            raise ValueError("q: the origin has no nearest point on the sphere")
        x = q / size
        return x, lambda gradient: self.tangent(x, gradient) / size

    def unchart(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of the point ``x``."""
        return _rows(x, "x")

    def hessian(self, x: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        r"""Riemannian Hessian :math:`P_x\nabla^2P_x-\langle x,\nabla\rangle P_x` at one point.

        - ``x, gradient`` (d,): A unit vector, and the ambient gradient there.
        - ``hessian`` (d, d): The ambient Hessian.
        """
        x, gradient, hessian = _square(x, gradient, hessian)
        P = np.eye(len(x)) - np.outer(x, x)
        return P @ hessian @ P - (x @ gradient) * P
