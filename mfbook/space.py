r"""Where atoms live: the whole space, a product of balls, a sphere.

A space knows how to turn an ambient vector into a permitted velocity (``tangent``) and how to take
a step along it without leaving (``retract``). That is all an integrator needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import _validate as validate

__all__ = ["Ball", "Euclidean", "Sphere"]

#: How far a point may be from a sphere or outside a ball and still count as on it.
ON_TOLERANCE = 1e-8


def _norm(x: np.ndarray) -> np.ndarray:
    """Euclidean norm of each row, as the analytic function sqrt(sum x^2)."""
    return np.sqrt((x * x).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Euclidean:
    r"""The space :math:`\mathbb R^D`: every vector is tangent, every point is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> Euclidean().retract(np.zeros((1, 2)), np.ones((1, 2)))
    array([[1., 1.]])
    """

    def tangent(self, x, v):
        """Return ``v``: every direction is allowed."""
        return v

    def retract(self, x, v):
        """Return ``x + v``."""
        return np.add(x, v)

    def project(self, x):
        """Return ``x``: nothing is outside."""
        return x

    def contains(self, x, tolerance: float = ON_TOLERANCE):
        """Whether each row of ``x`` is in the space: always."""
        return np.ones(len(x), dtype=bool)

    def distance(self, x, y):
        """Euclidean distance between the rows of ``x`` and of ``y``, shape (n,)."""
        return np.linalg.norm(np.asarray(x) - np.asarray(y), axis=-1)

    def chart(self, q):
        """Unconstrained coordinates: the point of ``q``, and the pull-back of gradients."""
        return q, lambda gradient: gradient

    def unchart(self, x):
        """Coordinates of the point ``x``."""
        return np.asarray(x)

    def hessian(self, x, gradient, hessian):
        """Riemannian Hessian from the ambient gradient and Hessian: here the ambient one."""
        return hessian


@dataclass(frozen=True)
class Ball:
    r"""A product of Euclidean balls of one radius, :math:`\prod_b\{\|x_b\|\le r\}`.

    For heads this is the compact :math:`\Theta` of Assumption 3.2, one Frobenius ball for each of
    the four matrices; :meth:`mfbook.attention.HeadShape.ball` builds it.

    Parameters
    ----------
    radius : float
        Common radius r, positive.
    blocks : tuple of int
        Sizes of consecutive coordinate blocks, one ball each.

    Raises
    ------
    TypeError, ValueError
        If the radius is not positive and finite or a block is not a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> space = Ball(1.0, (2, 1))
    >>> space.project(np.array([[3.0, 4.0, 0.5]]))
    array([[0.6, 0.8, 0.5]])
    """

    radius: float
    blocks: tuple[int, ...]

    def __post_init__(self):
        object.__setattr__(self, "radius", validate.positive(self.radius, "radius"))
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
        x = np.asarray(x)
        if x.shape[-1] != self.dim:
            raise ValueError(f"x: expected {self.dim} coordinates, got {x.shape[-1]}")
        return np.split(x, np.cumsum(self.blocks)[:-1], axis=-1)

    def project(self, x):
        """Nearest point of the product, row by row."""
        parts = []
        for b in self._split(x):
            size = np.linalg.norm(b, axis=-1, keepdims=True)
            parts.append(b * (self.radius / np.maximum(size, self.radius)))
        return np.concatenate(parts, axis=-1)

    def tangent(self, x, v):
        """Project ``v`` on the tangent cone: at the boundary of a ball, drop what points out."""
        parts = []
        for b, u in zip(self._split(x), self._split(v), strict=True):
            square = (b * b).sum(axis=-1, keepdims=True)
            outward = (b * u).sum(axis=-1, keepdims=True)
            active = (square >= (self.radius * (1 - ON_TOLERANCE)) ** 2) & (outward > 0)
            parts.append(np.where(active, u - outward / np.where(active, square, 1) * b, u))
        return np.concatenate(parts, axis=-1)

    def retract(self, x, v):
        """Return the projection of ``x + v``."""
        return self.project(np.add(x, v))

    def contains(self, x, tolerance: float = ON_TOLERANCE):
        """Whether each row of ``x`` is in the product, up to a relative tolerance."""
        limit = self.radius * (1 + tolerance)
        return np.all([np.linalg.norm(b, axis=-1) <= limit for b in self._split(x)], axis=0)

    def distance(self, x, y):
        """Euclidean distance between the rows of ``x`` and of ``y``, shape (n,)."""
        return np.linalg.norm(np.asarray(x) - np.asarray(y), axis=-1)

    def sample(self, rng, n: int):
        """Draw n points uniformly from the product; shape (n, D)."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        parts = []
        for size in self.blocks:
            direction = rng.normal(size=(n, size))
            direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
            parts.append(self.radius * rng.random((n, 1)) ** (1 / size) * direction)
        return np.concatenate(parts, axis=-1)

    def chart(self, q):
        r"""Unconstrained coordinates, block by block :math:`x=2rq/(1+\|q\|^2)`.

        The map folds at the boundary, :math:`\|q\|=1`, so a minimum there is an ordinary
        stationary point in q and needs no constraint.

        Parameters
        ----------
        q : array, shape (n, D)

        Returns
        -------
        x : array, shape (n, D)
            Points of the product of balls.
        back : callable
            Takes gradients in x and returns gradients in q.
        """
        blocks = self._split(q)
        scale = [1 / (1 + (b * b).sum(axis=-1, keepdims=True)) for b in blocks]
        x = [2 * self.radius * s * b for s, b in zip(scale, blocks, strict=True)]

        def back(gradient):
            parts = []
            for s, b, g in zip(scale, blocks, self._split(gradient), strict=True):
                along = (b * g).sum(axis=-1, keepdims=True)
                parts.append(2 * self.radius * s * (g - 2 * s * along * b))
            return np.concatenate(parts, axis=-1)

        return np.concatenate(x, axis=-1), back

    def unchart(self, x):
        """Coordinates of the point ``x``; points on the boundary are moved inside by 1e-4.

        Exactly on the fold no gradient would point inwards.
        """
        parts = []
        for b in self._split(x):
            size = np.linalg.norm(b, axis=-1, keepdims=True) / self.radius
            inside = np.minimum(size, 1 - 1e-4)
            # |q| = s / (1 + sqrt(1 - s^2)) solves 2|q| / (1 + |q|^2) = s
            stretch = inside / (1 + np.sqrt(1 - inside**2)) / np.where(size > 0, size, 1)
            parts.append(stretch * b / self.radius)
        return np.concatenate(parts, axis=-1)

    def hessian(self, x, gradient, hessian):
        """Riemannian Hessian from the ambient gradient and Hessian: here the ambient one."""
        return hessian


@dataclass(frozen=True)
class Sphere:
    r"""The unit sphere :math:`S^{d-1}`; points are unit vectors of :math:`\mathbb R^d`.

    Examples
    --------
    >>> import numpy as np
    >>> Sphere().tangent(np.array([[1.0, 0.0]]), np.array([[2.0, 3.0]]))
    array([[0., 3.]])
    """

    def tangent(self, x, v):
        r"""Project on the tangent space, :math:`P_xv=v-\langle x,v\rangle x`."""
        x, v = np.asarray(x), np.asarray(v)
        return v - (x * v).sum(axis=-1, keepdims=True) * x

    def project(self, x):
        """Nearest point of the sphere, row by row; the origin has none and raises ValueError."""
        size = _norm(np.asarray(x))
        if (np.abs(size) == 0).any():
            raise ValueError("x: the origin has no nearest point on the sphere")
        return x / size

    def retract(self, x, v):
        """Return ``x + v`` divided by its length."""
        return self.project(np.add(x, v))

    def contains(self, x, tolerance: float = ON_TOLERANCE):
        """Whether each row of ``x`` is a unit vector, up to the tolerance."""
        return np.abs(np.linalg.norm(x, axis=-1) - 1) <= tolerance

    def distance(self, x, y):
        """Geodesic distance (an angle, in radians) between rows, accurate for small angles."""
        x, y = np.asarray(x), np.asarray(y)
        half = np.linalg.norm(x - y, axis=-1) / 2
        other = np.linalg.norm(x + y, axis=-1) / 2
        return 2 * np.arctan2(half, other)

    def sample(self, rng, n: int, dim: int):
        """Draw n points uniformly from the sphere in ``dim`` dimensions; shape (n, dim)."""
        rng, n = validate.generator(rng), validate.count(n, "n")
        return self.project(rng.normal(size=(n, validate.count(dim, "dim", least=2))))

    def chart(self, q):
        r"""Unconstrained coordinates :math:`x=q/\|q\|`, and the pull-back of gradients."""
        q = np.asarray(q)
        size = _norm(q)
        x = self.project(q)
        return x, lambda gradient: self.tangent(x, gradient) / size

    def unchart(self, x):
        """Coordinates of the point ``x``."""
        return np.asarray(x)

    def hessian(self, x, gradient, hessian):
        r"""Riemannian Hessian :math:`P_x\nabla^2P_x-\langle x,\nabla\rangle P_x` at one point.

        Parameters
        ----------
        x, gradient : array, shape (d,)
        hessian : array, shape (d, d)
        """
        P = np.eye(len(x)) - np.outer(x, x)
        return P @ hessian @ P - (x @ gradient) * P
