r"""Strong monotonicity of the gradient near a stationary measure (Theorem 7.1, Remark 7.2).

For a coupling of :math:`\mu` and :math:`\mu^*` the quotient of (45) is

.. math:: q=\frac{\mathbb E\langle\nabla\delta F(\theta;\mu)-\nabla\delta F(\theta^*;\mu^*),
          \theta-\theta^*\rangle}{\mathbb E\|\theta-\theta^*\|^2}.

If it is at least :math:`\lambda>0` for all :math:`\mu` near :math:`\mu^*` and all couplings, the
flow contracts at the rate :math:`\lambda`. A least value over finitely many couplings bounds that
constant from above: what is found here refutes, it does not prove.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.optimise.descent import descend
from mfbook.space import Ball
from mfbook.stability import atomic
from mfbook.stability.atomic import atomic_stability, rayleigh

__all__ = ["CurvatureMargin", "Monotonicity", "curvature_margin", "strong_monotonicity"]

#: Least distance of a coupling, as a share of the radius.
NEAREST = 1e-3
#: Share of its atom's mass that a lone particle has in the search.
LITTLE = 1e-6
#: Descents go on until rounding ends them: near the edge of a ball, or with light particles, they
#: are badly conditioned, and looser limits end far above a minimum.
DESCENT = {"ftol": 1e-15, "gtol": 1e-9, "maxls": 50, "maxcor": 30}


@dataclass(frozen=True, eq=False)
class Monotonicity:
    """Least quotient of (45) found near a measure: no larger constant satisfies (45) there.

    It is attained at ``worst``, where equally many particles follow each atom of the measure.
    """

    constant: float
    worst: Measure


def strong_monotonicity(
    F: Functional,
    mu: Measure,
    rng: validate.Seed,
    radius: float,
    *,
    near: str = "W2",
    parts: int = 4,
    couplings: int = 64,
    descents: int = 3,
    maxiter: int = 500,
) -> Monotonicity:
    r"""Least quotient of (45) over couplings of measures near ``mu`` with ``mu`` itself.

    Every atom is split into ``parts`` particles with random weights and displacements between
    ``radius / 1000`` and ``radius``, ``couplings`` times. ``descents`` go on from the lowest of
    these quotients, further ones from the lowest direction of the linearised flow and from one
    particle with a millionth of its atom's mass. There are many minima, and another SciPy may end
    at another one. Parts stay coupled to their atom: for a point mass these are all couplings, for
    several atoms it is a constant *at fixed weights* (over every coupling none is positive,
    Chapter 7). Quotients carry an error of about 1e-13 times the gradient over ``radius``.

    - ``F``: On a flat space, accepting complex points and atoms. Particles may leave a ball.
    - ``mu``: Positive weights.
    - ``near``: ``"W2"``: the root mean squared displacement is at most ``radius`` (Theorem 7.1), so
      a light particle may be far away. ``"Winf"``: every displacement is (Theorem 7.5).

    >>> from mfbook.confinement import Ridge
    >>> report = strong_monotonicity(Ridge(0.5), Measure([[0.0, 0.0]]), rng=0, radius=1.0)
    >>> round(report.constant, 12)
    0.5
    """
    atomic.functional(F, flat=True)
    atomic.check(F, mu)
    rng, radius = validate.generator(rng), validate.scale(radius, "radius")
    parts, couplings = validate.count(parts, "parts"), validate.count(couplings, "couplings")
    descents = validate.count(descents, "descents", least=0)
    maxiter = validate.count(maxiter, "maxiter")
    if not isinstance(near, str) or near not in ("W2", "Winf"):
        raise ValueError(f"near: expected 'W2' or 'Winf', got {near!r}")
    parent = np.repeat(np.arange(mu.size), parts)
    still = mu.atoms[parent]
    rest = F.at(mu).gradient(mu.atoms)[parent]

    def quotient(delta, w):
        """Value of the quotient, and its gradient in the displacements."""

        def force(delta):
            moved = Measure(still + delta, w)
            return F.at(moved).gradient(moved.atoms) - rest

        return rayleigh(force, delta, w)

    def extent(delta, w):
        squares = (delta * delta).sum(axis=1)
        return np.sqrt(w @ squares if near == "W2" else squares.max())

    def start(delta, w):
        return quotient(delta, w)[0], delta, w

    drawn = []
    for _ in range(couplings):
        w = mu.weights[parent] * rng.dirichlet(np.full(parts, 0.5), size=mu.size).ravel()
        delta = rng.normal(size=still.shape)
        size = radius * NEAREST ** rng.uniform()
        drawn.append(start(delta * (size / extent(delta, w)), w))
    drawn.sort(key=lambda start: start[0])
    tried = drawn[:descents]
    if descents:
        delta, w = _lowest(F, mu, parts)
        tried.append(start(delta * (radius * NEAREST / extent(delta, w)), w))
    if descents and parts > 1:
        delta, w = _lone(F, mu, rng, radius, near, parts, descents, maxiter)
        if extent(delta, w) >= radius * NEAREST:
            tried.append(start(delta, w))
    least, *worst = min([drawn[0], *tried], key=lambda start: start[0])
    for _, delta, w in tried:
        # in these coordinates the displacements that are near fill a ball, or one ball each
        root = np.sqrt(w)[:, None] if near == "W2" else np.ones((len(w), 1))
        ball = Ball(radius, (delta.size,) if near == "W2" else (mu.dim,) * len(w))

        def objective(y, root=root, w=w):
            value, slope = quotient(y.reshape(still.shape) / root, w)
            return value, (slope / root).reshape(1, -1)

        (run,) = descend(
            objective, ball, [(root * delta).reshape(1, -1)], **DESCENT, maxiter=maxiter
        )
        delta = run.point.reshape(still.shape) / root
        # closer to the measure a quotient is mostly rounding
        if run.value < least and extent(delta, w) >= radius * NEAREST:
            least, worst = run.value, [delta, w]
    return Monotonicity(least, Measure(still + worst[0], worst[1]))


def _lowest(F, mu, parts):
    """Displacements (m * parts, D) of mean square one with the least form (49), and weights."""
    report = atomic_stability(F, mu)
    w = np.repeat(mu.weights / parts, parts)
    if parts == 1 or report.collective[0] <= report.deviations.min():
        return np.repeat(report.modes[0], parts, axis=0), w
    # two particles of one atom move in opposite directions: their mean stays
    j = int(report.deviations[:, 0].argmin())
    delta = np.zeros((mu.size * parts, mu.dim))
    delta[j * parts] = np.linalg.eigh(report.H[j])[1][:, 0]
    delta[j * parts + 1] = -delta[j * parts]
    return delta / np.sqrt(w @ (delta * delta).sum(axis=1)), w


def _lone(F, mu, rng, radius, near, parts, descents, maxiter):
    """One particle of little weight, displaced to where the others' field holds it least."""
    j = int(rng.choice(mu.size, p=mu.weights))
    local, own = F.at(mu), mu.atoms[j : j + 1]
    rest = local.gradient(own)
    # within the radius in W2, a particle of small mass may be far away
    reach = radius if near == "Winf" else radius / np.sqrt(LITTLE)

    def objective(d):
        return rayleigh(lambda d: local.gradient(own + d) - rest, d, np.ones(1))

    directions = rng.normal(size=(2 * descents, mu.dim))
    directions *= 0.5 * reach / np.linalg.norm(directions, axis=1, keepdims=True)
    ball = Ball(reach, (mu.dim,))
    runs = descend(objective, ball, directions[:, None], **DESCENT, maxiter=maxiter)
    delta, w = np.zeros((mu.size * parts, mu.dim)), np.repeat(mu.weights / parts, parts)
    delta[j * parts] = min(runs, key=lambda run: run.value).point[0]
    w[j * parts : (j + 1) * parts] = mu.weights[j] * (1 - LITTLE) / (parts - 1)
    w[j * parts] = mu.weights[j] * LITTLE
    return delta, w


@dataclass(frozen=True)
class CurvatureMargin:
    r"""Both quantities of Remark 7.2 as sampled on a ball: its premise is a positive ``margin``.

    - ``m``: Least eigenvalue of :math:`\nabla^2\delta F(\theta;\mu)`: the true one is at most this.
    - ``ell``: Largest norm of :math:`K(\theta,\theta';\mu)`, the Lipschitz constant of the gradient
      in the measure: the true one is at least this.
    """

    m: float
    ell: float

    @property
    def margin(self) -> float:
        r""":math:`m-\ell`."""
        return self.m - self.ell


def curvature_margin(
    F: Functional, theta: ArrayLike, rng: validate.Seed, radius: float, *, samples: int = 16
) -> CurvatureMargin:
    r"""Sample the curvature and the measure dependence of :math:`\nabla\delta F` around a point.

    Remark 7.2: if on a neighbourhood :math:`\nabla^2\delta F\succeq mI` and
    :math:`\|\nabla\delta F(\theta;\mu)-\nabla\delta F(\theta;\nu)\|\le\ell\,W_2(\mu,\nu)` with
    :math:`\ell<m`, then (45) holds with :math:`\lambda=m-\ell`. Here points and the two atoms of
    ``samples`` measures are in the ball around ``theta`` (D,); the first sample is its centre.
    F is on a flat space and accepts complex points and atoms.
    """
    atomic.functional(F, flat=True)
    theta = validate.array(theta, "theta", ("D",), largest=validate.LARGEST).astype(float)
    rng, radius = validate.generator(rng), validate.scale(radius, "radius")
    samples = validate.count(samples, "samples")
    ball, m, ell = Ball(radius, (len(theta),)), np.inf, 0.0
    for i in range(samples):
        # at the first sample everything sits at the centre
        points = theta + (0 if i == 0 else 1) * ball.sample(rng, 3)
        with validate.naming("theta"):
            mu = Measure(points[1:], rng.dirichlet(np.ones(2)))
            (H,) = atomic.curvature(F.at(mu), points[:1])
            (K,) = atomic.response(F, mu, 0, points[:1])
        m = min(m, float(np.linalg.eigvalsh((H + H.T) / 2)[0]))
        ell = max(ell, float(np.linalg.norm(K, 2)))
    return CurvatureMargin(m, ell)
