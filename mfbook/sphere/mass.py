"""Constants of the bound on the mass of a cluster."""

from __future__ import annotations

import math

from mfbook import _validate as validate
from mfbook.sphere.kernel import _angle

__all__ = ["anticoncentration"]


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
