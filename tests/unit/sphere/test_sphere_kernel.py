"""Kernel on the sphere: coefficients by quadrature, constants by brute force.

The kernel and its derivatives are compared with numbers of 100 digits in ``tests/oracles``.
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_gegenbauer

from companion.mathematics.constants import inflection
from mfbook.sphere import anticoncentration, funk_hecke, kernel

BETAS = [1e-3, 0.1, 1 / 3, 1.0, 7.0, 50.0, 1e3, 1e6]


def angles(beta, n=2001):
    """Angles on the circle and, finer, within ten widths of the kernel."""
    near = np.linspace(0, min(10 / math.sqrt(beta), math.pi), n)
    return np.concatenate([near, np.linspace(0, math.pi, n)])


@pytest.mark.parametrize("beta", [0.05, 1.0, 12.0])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_funk_hecke_against_quadrature(d, beta):
    # law of <x, y> for uniform y, and the zonal harmonic with value 1 at 1
    order = d / 2 - 1

    def zonal(k, angle):
        if d == 2:
            return math.cos(k * angle)
        return eval_gegenbauer(k, order, math.cos(angle)) / eval_gegenbauer(k, order, 1.0)

    mass = quad(lambda s: math.sin(s) ** (d - 2), 0, math.pi)[0]
    for k in (0, 1, 2, 7):
        integral = quad(
            lambda s, k=k: kernel(s, beta)[0] * zonal(k, s) * math.sin(s) ** (d - 2),
            0, math.pi, epsabs=1e-13, limit=200,
        )[0]  # fmt: skip
        assert funk_hecke(beta, d, k) == pytest.approx(integral / mass, rel=1e-9, abs=1e-12)
    many = funk_hecke(beta, d, np.arange(60).reshape(3, 20)).ravel()
    assert (many > 0).all() and (np.diff(many) < 0).all()  # Lemma 5.1


# ---------------------------------------------------------------------------------------------
# concentration


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 1.0, 1.5, 5.0])
@pytest.mark.parametrize("beta", [*BETAS, 0.02, 0.118, 0.119, 0.3, 0.334, 0.4])
def test_anticoncentration_is_the_largest_value(beta, gamma):
    a, b = anticoncentration(beta, gamma)
    bend = kernel(angles(beta), beta)[2] / beta
    # a maximum is missed by the grid at second order in its step
    assert bend.max() <= b + 1e-15
    assert bend.max() == pytest.approx(b, rel=1e-4)
    if beta < 1 / 3:  # the kernel is most convex at the antipode
        assert b == pytest.approx(math.exp(-2 * beta), rel=1e-12)
    reach = min(gamma / math.sqrt(beta), math.pi)
    near = kernel(np.linspace(0, reach, 2001), beta)[2] / beta
    assert near.max() <= -a + 1e-12
    assert near.max() == pytest.approx(-a, abs=1e-5)
    assert a >= -b and (a > 0) == (reach < inflection(beta))


def test_limits_of_concentration():
    a, b = anticoncentration(1e10)
    assert a == pytest.approx(0.75 * math.exp(-1 / 8), abs=1e-9)
    assert b == pytest.approx(2 * math.exp(-1.5), abs=1e-9)
    below, above = anticoncentration(1 / 3 - 1e-9), anticoncentration(1 / 3 + 1e-9)
    np.testing.assert_allclose(below, above, atol=1e-8)
    # the least bound leaves two arcs
    pairs = [anticoncentration(beta) for beta in np.geomspace(0.12, 1e4, 1001)]
    assert min(b / (a + b) for a, b in pairs) == pytest.approx(0.3838, abs=1e-4)


def test_the_second_variation_obeys_the_estimate_of_the_theorem():
    rng = np.random.default_rng(0)
    for _ in range(200):
        beta, M = 10 ** rng.uniform(-0.7, 3), rng.uniform(0.05, 1)
        a, b = anticoncentration(beta)
        inside, outside = 4, 5
        theta = np.concatenate(
            [rng.uniform(0, 0.5 / math.sqrt(beta), inside), rng.uniform(0, 2 * np.pi, outside)]
        )
        m = rng.random(inside + outside)
        m[:inside] *= M / m[:inside].sum()
        m[inside:] *= (1 - M) / m[inside:].sum()
        eta = np.zeros(len(m))
        eta[:inside] = rng.normal(size=inside)
        eta[:inside] -= m[:inside] @ eta[:inside] / M
        # ReLU units at angles alpha: v''/2 almost everywhere
        alpha, omega = rng.uniform(0, 2 * np.pi, 3), rng.normal(size=3) / 5
        s = theta[:, None] - alpha
        bend = ((np.cos(s) > 0) * (np.sin(s) ** 2 - np.cos(s) ** 2)) @ omega
        pairs = kernel(theta[:, None] - theta, beta)[2] * np.outer(m, m)
        form = (pairs * (eta[:, None] - eta) ** 2).sum() / (2 * beta) + m @ (bend * eta**2)
        size = np.abs(omega).sum()
        assert form <= (-a * M + b * (1 - M) + size) * (m @ eta**2) + 1e-12
        if a > size and M > (b + size) / (a + b):  # Theorem 3.5
            assert form < 0
