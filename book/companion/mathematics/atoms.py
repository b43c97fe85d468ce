r"""How many atoms the minimiser on the circle has, with ReLU units, and how heavy they can be.

The energy is :math:`E(\mu)=\frac1{2\beta}\iint h\,d\mu\,d\mu+\frac12\int v\,d\mu` with
:math:`h(u)=e^{\beta(\cos u-1)}`, whose Fourier coefficients are :math:`\lambda_k=e^{-\beta}
I_k(\beta)`. Between two kinks, on the arc C, the potential is
:math:`v_C=c_0+\operatorname{Re}(c_2e^{2i\theta})`. At the minimiser :math:`\delta E\ge\Lambda`,
with equality at the atoms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ive

from mfbook.sphere import SphereEnergy, anticoncentration

#: Nodes on the circle: enough cells for the length 1/√β of the kernel.
NODES = 1440

#: Kinks closer than this are one; coefficients below it, relative to the weights, are zero.
SAME = 1e-12

#: What rounding may add to a difference of first variations, relative to the size of its terms.
ROUNDING = 1e-14


@dataclass(frozen=True)
class AtomCount:
    """Bounds on the number of atoms of the minimiser."""

    least: float
    most: float
    arcs: tuple[tuple[float, float, float], ...]


class _Arc(NamedTuple):
    left: float
    right: float
    active: np.ndarray
    c0: float
    c2: complex


def atom_count_bounds(F: SphereEnergy) -> AtomCount:
    r"""Bounds from both sides on the number of atoms of the minimiser, for ReLU units.

    *From below.* With the mean :math:`\bar v` of the potential, and the length :math:`\ell` of the
    arcs on which it is constant and least,

    .. math:: N\ge\max\Big\{\frac1{\lambda_0+\beta(\bar v-\min v)},\frac\ell{2\pi\lambda_0}\Big\}.

    *From above.* On the closed arc C the function :math:`F_C=\frac1\beta h*\mu+\frac12v_C` equals
    :math:`\delta E`, is entire, and :math:`F_C-\Lambda` has a zero of order two at each atom. If
    :math:`|F_C(x)-\Lambda|\ge\epsilon` at one real point x, and :math:`|F_C-\Lambda|\le M(\tau)`
    for :math:`|\operatorname{Im}z|\le\tau`, Jensen's formula in this strip gives

    .. math:: n_C\le\frac{\log(M(\tau)/\epsilon)}{2G_\tau(d)},\qquad
              G_\tau(d)=\log\coth\frac{\pi d}{4\tau}+\log\coth\frac{\pi(2\pi-d)}{4\tau},

    where d is the largest distance from x to a place of C where atoms can be. Those are the places
    with :math:`\frac12v\le\Lambda_+`, as :math:`\Lambda_-\le\Lambda\le\Lambda_+` with

    .. math:: \Lambda_-=\tfrac{\lambda_0}\beta+\tfrac12\min v,\qquad\Lambda_+=\min\Big\{
              \tfrac1\beta+\tfrac12\min v,\ \tfrac{\lambda_0}\beta+\tfrac12\bar v,\
              \tfrac{2\pi\lambda_0}{\ell\beta}+\tfrac12\min v\Big\}.

    For :math:`\epsilon` the largest is taken of :math:`\frac12v_C-\Lambda_+`,
    :math:`\frac12(v_C-v)` and :math:`\Lambda_--\frac12v_C-\frac1\beta e^{\beta(\cos D-1)}` at x, D
    the distance from x to the nearest place where atoms can be; or of two bounds by Fourier
    coefficients for an x that is not known, with :math:`d=\pi`. The best x on a grid and the best
    :math:`\tau` are taken. The largest number is the sum over the arcs.
    """
    angle, omega, beta = _units(F)
    arcs = _arcs(angle, omega)
    weight = float(np.abs(omega).sum())
    low, mean = min(_lowest(arc) for arc in arcs), float(omega.sum()) / 4
    flat = sum(
        arc.right - arc.left
        for arc in arcs
        if abs(arc.c2) <= SAME * weight and arc.c0 - low <= SAME * weight
    )
    lam0 = float(ive(0, beta))
    least = max(1 / (lam0 + beta * (mean - low)), flat / (2 * math.pi * lam0))
    above = [1 / beta + low / 2, lam0 / beta + mean / 2]
    if flat:
        above.append(2 * math.pi * lam0 / (flat * beta) + low / 2)
    upper, lower = min(above), lam0 / beta + low / 2

    nodes = NODES + math.ceil(40 * math.sqrt(beta))
    x = 2 * math.pi * np.arange(nodes) / nodes
    v = np.maximum(np.cos(x[:, None] - angle), 0) ** 2 @ omega
    places = [_places(arc, upper, weight, nodes) for arc in arcs]
    apart = np.min([_nearest(x, place) for place in places if place], axis=0)
    far = lower - np.exp(-2 * beta * np.sin(apart / 2) ** 2) / beta
    tau = np.geomspace(0.1 / math.sqrt(beta), 4.0, 120)
    rows = []
    for arc, place in zip(arcs, places, strict=True):
        if place is None:
            rows.append((arc.left, arc.right, 0.0))
            continue
        v_C = arc.c0 + (arc.c2 * np.exp(2j * x)).real
        size = np.max([v_C / 2 - upper, (v_C - v) / 2, far - v_C / 2], axis=0)
        size -= ROUNDING * (weight + 1 / beta)
        known = size > 0
        size = np.append(size[known], _by_fourier(arc, angle, omega, beta))
        distance = np.append(_farthest(x[known], place), math.pi)
        # |Λ - c0/2| is largest at one of its two ends
        shift = max(abs(lower - arc.c0 / 2), abs(upper - arc.c0 / 2))
        rest = shift + abs(arc.c2) * np.cosh(2 * tau) / 2
        with np.errstate(divide="ignore"):
            log_M = np.logaddexp(beta * (np.cosh(tau) - 1) - math.log(beta), np.log(rest))
            gain = log_M - np.log(size[:, None])
        most = float((gain / (2 * _green(distance[:, None], tau))).min())
        rows.append((arc.left, arc.right, math.floor(most) if most < math.inf else math.inf))
    return AtomCount(least, sum(row[2] for row in rows), tuple(rows))


def local_mass_bound(beta: float, curvature: float, diameter: float = 0.0) -> float:
    r"""Largest mass of a cluster, from the curvature of the potential where it is.

    .. math:: m(C)\le\frac{b+\kappa}{s+b},\qquad
              s=e^{\beta(\cos\delta-1)}\frac{\sin\delta}\delta,\quad
              \kappa=\max_{\operatorname{conv}C}\tfrac12v''

    for two or more atoms of a stationary measure in an arc of length :math:`\delta`, b as in
    :func:`~mfbook.sphere.anticoncentration`; and with :math:`\delta=0`, :math:`s=1` for one atom x
    at which :math:`\delta E` is convex, :math:`\kappa=\frac12v''(x)`. Unlike
    :math:`\operatorname{Lip}(\sigma)\|\omega\|_1` the number :math:`\kappa` has a sign.
    """
    b = anticoncentration(beta)[1]
    kappa, delta = curvature, diameter
    if delta >= math.pi:
        raise ValueError(f"diameter: expected below pi, got {delta:g}")
    s = math.exp(-2 * beta * math.sin(delta / 2) ** 2) * float(np.sinc(delta / math.pi))
    return min(max((b + kappa) / (s + b), 0.0), 1.0)


def _units(F):
    """Angles and weights of the units, and beta, of an energy that the bounds are for."""
    plain = F.activation.name == "relu" and not F.normalised and F.bias is None and F.B is None
    if F.dim != 2 or F.a is None or not plain:
        raise ValueError(f"F: expected ReLU units on the circle and plain attention, got {F!r}")
    return np.arctan2(F.a[:, 1], F.a[:, 0]), F.omega, F.beta


def _arcs(angle, omega):
    """Arcs between neighbouring kinks."""
    kinks = np.sort(np.mod(np.concatenate([angle - math.pi / 2, angle + math.pi / 2]), 2 * math.pi))
    ends = np.append(kinks, kinks[0] + 2 * math.pi)
    out = []
    for left, right in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if right - left > SAME:
            active = np.cos((left + right) / 2 - angle) > 0
            on = omega * active
            c2 = complex(on @ np.exp(-2j * angle)) / 2
            out.append(_Arc(left, right, active, float(on.sum()) / 2, c2))
    return out


def _lowest(arc):
    """Least value of v on the closed arc: at an end, or where the cosine is -1."""
    inside = (math.pi - np.angle(arc.c2)) / 2 + math.pi * np.arange(-1, 6)
    inside = inside[(inside > arc.left) & (inside < arc.right)]
    at = np.concatenate([[arc.left, arc.right], inside])
    return float((arc.c0 + (arc.c2 * np.exp(2j * at)).real).min())


def _places(arc, upper, weight, nodes):
    """Ends of an interval that holds all points of the arc with v/2 <= upper, or None.

    The second derivative of v/2 is at most the sum of the weights, so between two nodes v/2 is not
    lower than at the lower one by more than an eighth of that times the square of their distance.
    """
    t = np.linspace(arc.left, arc.right, 2 + math.ceil((arc.right - arc.left) * nodes / 6))
    half = (arc.c0 + (arc.c2 * np.exp(2j * t)).real) / 2
    cells = np.minimum(half[1:], half[:-1]) - weight * (t[1] - t[0]) ** 2 / 8 <= upper
    if not cells.any():
        return None
    found = np.flatnonzero(cells)
    return float(t[found[0]]), float(t[found[-1] + 1])


def _distance(x, y):
    return np.abs(np.mod(x - y + math.pi, 2 * math.pi) - math.pi)


def _nearest(x, place):
    """Distance on the circle to an interval."""
    inside = np.mod(x - place[0], 2 * math.pi) <= place[1] - place[0]
    return np.where(inside, 0.0, np.minimum(_distance(x, place[0]), _distance(x, place[1])))


def _farthest(x, place):
    """Largest distance on the circle to a point of an interval."""
    opposite = np.mod(x + math.pi - place[0], 2 * math.pi) <= place[1] - place[0]
    return np.where(opposite, math.pi, np.maximum(_distance(x, place[0]), _distance(x, place[1])))


def _green(d, tau):
    """Green's function of the strip between two real points, with one periodic copy."""
    arguments = (math.pi * d / (2 * tau), math.pi * (2 * math.pi - d) / (2 * tau))
    # log coth(z/2) = log(1 + 2/(e^z - 1)); the cut only makes it smaller than 1e-260
    with np.errstate(divide="ignore"):
        return sum(np.log1p(2 / np.expm1(np.minimum(z, 600.0))) for z in arguments)


def _by_fourier(arc, angle, omega, beta):
    r"""Two lower bounds of max |F_C - Λ| over the circle, the larger, or 0.

    If the maximum is ε, then :math:`|\lambda_k\hat\mu_k+\frac\beta2\hat v_{C,k}|\le\beta\epsilon`
    for :math:`k\ge1`, while :math:`|\hat\mu_2|\le1`, and :math:`|\int q\,d\mu|\le\epsilon` for
    :math:`q=\frac12(v-v_C)`. Of odd degree k, :math:`\max(\cos,0)^2` has coefficients of size
    :math:`2/(\pi k|k^2-4|)`, whose sum over odd :math:`k\ge m` is :math:`1/(2\pi m(m-2))`.
    """
    m = np.arange(3, 202, 2)
    k = m - 2
    lam = ive(np.append(k, 2), beta)
    odd = np.abs(np.exp(-1j * np.outer(k, angle)) @ omega) / (math.pi * k * np.abs(k**2 - 4))
    share = omega * (1 / 8 - arc.active / 4)
    q2 = complex(share @ np.exp(-2j * angle)) / 2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        moment = -beta * np.conj(arc.c2) / (4 * lam[-1]) if arc.c2 else 0.0
        main = abs(share.sum() + 2 * (q2 * moment).real)
        tail = np.abs(omega).sum() / (2 * math.pi * m * (m - 2))
        cost = 1 + 2 * beta * (np.cumsum(odd / lam[:-1]) + abs(q2) / lam[-1])
        bounds = np.nan_to_num((main - tail) / cost, nan=0.0)
    return max(float(bounds.max()), abs(arc.c2) / 4 - float(lam[-1]) / beta, 0.0)
