"""Explicit bounds on clusters of the sphere's energy: masses, single clusters, heavy atoms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mfbook import _validate as validate
from mfbook.sphere.kernel import _angle

__all__ = [
    "anticoncentration",
    "heavy_atom_bound",
]


def anticoncentration(beta: float, gamma: float = 0.5) -> tuple[float, float]:
    r"""Constants a and b of Theorem 3.5, exact for every :math:`\beta`.

    .. math:: a=-\max_{|u|\le\gamma/\sqrt\beta}\frac{h''(u)}\beta,\qquad
              b=\max_u\frac{h''(u)}\beta

    With :math:`c=\cos u` one has :math:`h''/\beta=g(c)=e^{\beta(c-1)}(\beta(1-c^2)-c)` and
    :math:`g'=e^{\beta(c-1)}(\beta^2-1-3\beta c-\beta^2c^2)`. One root of the bracket is below -1.
    The other, :math:`c_+=(\sqrt{5+4\beta^2}-3)/(2\beta)`, is below 1, and at least -1 if and only
    if :math:`\beta\ge\frac13`. So g increases up to :math:`c_+` and decreases beyond it:

    .. math:: b=\begin{cases}e^{\beta(c_+-1)}(2c_++1/\beta)&\beta\ge\frac13\\
              e^{-2\beta}&\beta\le\frac13\end{cases}

    and the largest value near 0 is at the end of the interval, or b if the interval reaches
    :math:`c_+`. As :math:`\beta\to\infty`: :math:`a\to(1-\gamma^2)e^{-\gamma^2/2}`, which is
    0.6619 for :math:`\gamma=\frac12`, and :math:`b\to2e^{-3/2}`.

    The theorem says something only if a > 0, that is if :math:`\gamma/\sqrt\beta<u_*`. Since
    :math:`\beta=\cos u_*/\sin^2u_*`, and :math:`u^2\cos u/\sin^2u` decreases from 1 to 0 on
    :math:`(0,\frac\pi2)`, this holds if and only if :math:`\gamma<1` and :math:`\beta` is above a
    threshold: about 0.1183 for :math:`\gamma=\frac12`. For :math:`\gamma\ge1` it never holds.

    - ``beta``: Inverse temperature, positive.
    - ``gamma``: Size of a cluster in units of :math:`1/\sqrt\beta`, positive; the paper has one
      half.

    Returns b is positive; a may have either sign, and a >= -b.
    """
    beta, gamma = validate.scale(beta, "beta"), validate.scale(gamma, "gamma")
    reach = min(gamma / math.sqrt(beta), math.pi)
    if beta >= 1 / 3:
        # beta (1 - c_+), rationalised
        drop = (6 * beta + 2) / (2 * beta + 3 + math.hypot(math.sqrt(5), 2 * beta))
        b = math.exp(-drop) * (2 + (1 - 2 * drop) / beta)
        if reach >= _angle(drop / beta):
            return -b, b
    else:
        b = math.exp(-2 * beta)
    sine, half = math.sin(reach), math.sin(reach / 2)
    return math.exp(-2 * beta * half * half) * (math.cos(reach) - beta * sine * sine), b


def heavy_atom_bound(
    beta: float,
    kappa: float,
    m_bar: float,
    gamma: float = 0.5,
    arcs: float | Sequence[float] = 2 * math.pi,
) -> tuple[float, float]:
    r"""Number of atoms of mass at least :math:`\kappa`: Corollary 3.6 and the trivial bound.

    .. math::
        \#\{i:m_i\ge\kappa\}&\le N\,\frac{\max(\bar m,\kappa)}\kappa,\quad
        N=\sum_l\Big\lceil\frac{\ell_l\sqrt\beta}\gamma\Big\rceil,\\
        \#\{i:m_i\ge\kappa\}&\le\frac1\kappa

    for a measure as in Theorem 3.5 whose support lies in arcs of lengths :math:`\ell_l`. The
    arcs are cut into N pieces shorter than a cluster; each holds a single atom, or mass at most
    :math:`\bar m`.

    The first bound is smaller than the second if and only if :math:`N\max(\bar m,\kappa)<1`. For
    :math:`\gamma=\frac12` the bound on clusters is never below 0.3838 (its value at
    :math:`\beta=1.618` and no perceptron), so that needs :math:`N\le2`. On the whole circle with
    :math:`\beta\ge1` it is always weaker, since there :math:`N\ge13`.

    - ``beta``: Inverse temperature, positive.
    - ``kappa``: Mass of a heavy atom, in (0, 1].
    - ``m_bar``: Bound on the mass of a cluster, in (0, 1]:
      :math:`(b+\operatorname{Lip}(\sigma)\|\omega\|_1) /(a+b)` with the constants of
      :func:`anticoncentration`, by Theorem 3.5.
    - ``gamma``: Size of a cluster in units of :math:`1/\sqrt\beta`, the same as for ``m_bar``.
    - ``arcs``: Lengths of the arcs that hold the support, in radians; at most one turn in total.

    Returns neither is rounded down to an integer.
    """
    beta, gamma = validate.scale(beta, "beta"), validate.scale(gamma, "gamma")
    kappa, m_bar = validate.scale(kappa, "kappa"), validate.scale(m_bar, "m_bar")
    for name, value in (("kappa", kappa), ("m_bar", m_bar)):
        if value > 1:
            raise ValueError(f"{name}: expected a mass in (0, 1], got {value:g}")
    lengths = validate.array(np.atleast_1d(validate.plain(arcs, "arcs")), "arcs", ("n",))
    if (lengths <= 0).any():
        raise ValueError(f"arcs: expected positive lengths, got {lengths.min():g}")
    if lengths.sum() > 2 * math.pi * (1 + 1e-12):
        raise ValueError(f"arcs: expected at most one turn in total, got {lengths.sum():g}")
    pieces = np.ceil(lengths * math.sqrt(beta) / gamma).sum()
    return float(pieces) * max(m_bar, kappa) / kappa, 1 / kappa
