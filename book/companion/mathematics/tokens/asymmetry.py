"""Is a field of particles a gradient? How far its kernel is from a symmetric one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.measure import Measure, check_measure

#: Least weight with which masses are varied.
LIGHTEST = 1e-8

#: Central differences of order six: values at these multiples of the step, and their coefficients.
STENCIL = ((-3, -1 / 60), (-2, 3 / 20), (-1, -3 / 4), (1, 3 / 4), (2, -3 / 20), (3, 1 / 60))


# ------------------------------------------------------------------------- is it a gradient flow?
def asymmetry(A: ArrayLike) -> float:
    r"""Relative size of the antisymmetric part, :math:`\|A-A^\top\|/\|A\|` in Frobenius norms.

    Between 0 and 2; 0 for the zero matrix.
    """
    A = np.asarray(A, dtype=float)
    size = np.linalg.norm(A)
    return float(np.linalg.norm(A - A.T) / size) if size > 0 else 0.0


@dataclass(frozen=True, eq=False)
class CentredKernel:
    """The doubly centred derivative of a potential in the masses: see :func:`centred_kernel`."""

    matrix: np.ndarray
    asymmetry: float


def centred_kernel(potential: Callable, mu: Measure) -> CentredKernel:
    r"""Test whether a potential can be a first variation: symmetry of its derivative in the masses.

    .. math:: B_{ij}=\frac{d}{ds}\Big[\Psi\big(x_i;\mu^j_s\big)-\int\Psi(\cdot\,;\mu^j_s)\,d\mu\Big]
              _{s=0},\qquad \mu^j_s=(1-s)\mu+s\,\delta_{x_j}

    If :math:`\Psi=\delta F/\delta\mu+c(\mu)`, then B is the second derivative of F along two
    mixtures, hence symmetric. A velocity :math:`\nabla\Psi` knows :math:`\Psi` only up to
    :math:`c(\mu)`, and masses sum to one: both freedoms add a function of i or of j alone, and
    both are removed here. Without that, gradient flows fail the test.
    """
    x, w = mu.atoms, mu.weights
    if not (w >= LIGHTEST).all():
        raise ValueError(f"mu: expected positive weights, at least {LIGHTEST:g}, got {w.min():g}")
    B = np.zeros((mu.size, mu.size))
    for j in range(mu.size):
        h, unit = w[j] / 100, np.eye(mu.size)[j]
        for k, coefficient in STENCIL:
            nu = Measure(x, (1 - k * h) * w + k * h * unit)
            B[:, j] += coefficient / h * potential(x, nu)
    B -= w @ B
    return CentredKernel(B, asymmetry(B))


def particle_jacobian(field: Callable, mu: Measure) -> np.ndarray:
    r"""Jacobian of the motion of all tokens, rows weighted: symmetric for a gradient flow.

    .. math:: J_{(i,a),(j,b)}=w_i\,\frac{\partial v_a(x_i;\mu)}{\partial x_{j,b}},\qquad
              \mu=\sum_jw_j\delta_{x_j}

    If :math:`v=-\nabla\,\delta F/\delta\mu`, then :math:`w_iv(x_i)=-\partial F/\partial x_i` and
    J is minus a Hessian. Constants :math:`c(\mu)` do not enter, and a field without a potential
    can be tested too.
    """
    x = _real(mu)
    h = 1e-3 / max(1.0, float(np.linalg.norm(x, axis=1).max()))
    J = np.zeros((x.size, x.size))
    for column in range(x.size):
        step = h * np.eye(x.size)[column].reshape(x.shape)
        for k, coefficient in STENCIL:
            nu = Measure(x + k * step, mu.weights)
            v = field(nu.atoms, nu)
            v = np.asarray(v, dtype=float)
            J[:, column] += coefficient / h * (mu.weights[:, None] * v).ravel()
    return J


def _real(mu: Measure) -> np.ndarray:
    """Atoms of a measure, which must be real."""
    return check_measure(mu, largest=validate.LARGEST).atoms
