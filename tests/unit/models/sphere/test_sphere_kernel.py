"""Kernel on the sphere: derivatives, coefficients by quadrature, constants by brute force."""

import math
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_gegenbauer, gammaln, ive

from mfbook.bounds.clusters import (
    anticoncentration,
    cluster_mass_bound,
    heavy_atom_bound,
    single_cluster_excluded,
)
from mfbook.models.sphere.kernel import (
    _angle,
    _log_ratios,
    fourier_coefficients,
    funk_hecke,
    inflection,
    kernel,
)

BETAS = [1e-3, 0.1, 1 / 3, 1.0, 7.0, 50.0, 1e3, 1e6]


def angles(beta, n=2001):
    """Angles on the circle and, finer, within ten widths of the kernel."""
    near = np.linspace(0, min(10 / math.sqrt(beta), math.pi), n)
    return np.concatenate([near, np.linspace(0, math.pi, n)])


@pytest.mark.parametrize("beta", BETAS)
def test_derivatives_of_the_kernel(beta):
    u = angles(beta, 101)
    h, first, second = kernel(u, beta)
    size = np.exp(-2 * beta * np.sin(u / 2) ** 2)
    np.testing.assert_allclose(h, size, rtol=1e-13, atol=0)
    # complex steps of the definitions do not cancel; an exponent of -700 carries rounding of 1e-13
    z = u + 1e-30j
    value = np.exp(-2 * beta * np.sin(z / 2) ** 2)
    np.testing.assert_allclose(first, value.imag / 1e-30, rtol=5e-12, atol=1e-250)
    slope = (-beta * np.sin(z) * value).imag / 1e-30
    np.testing.assert_allclose(second, slope, rtol=5e-12, atol=1e-13 * beta)


def test_the_kernel_is_accurate_at_tiny_angles():
    # cos(1e-8) rounds to 1, but 1e12 * (cos(1e-8) - 1) is -5e-5
    assert kernel(1e-8, 1e12)[0] == pytest.approx(math.exp(-5e-5), rel=1e-14)


@pytest.mark.parametrize("beta", BETAS)
def test_fourier_coefficients(beta):
    c = fourier_coefficients(beta)
    assert (c > 0).all() and (np.diff(c) < 0).all()
    assert c[0] + 2 * c[1:].sum() == pytest.approx(1, abs=1e-12)
    # the next coefficient is the first that is small enough to be left out
    assert c[-1] >= 1e-16 > ive(len(c), beta)
    if beta <= 50:
        u = np.linspace(0, np.pi, 300)
        series = c[0] + 2 * np.cos(np.outer(u, np.arange(1, len(c)))) @ c[1:]
        np.testing.assert_allclose(series, kernel(u, beta)[0], rtol=0, atol=2e-15)


def test_a_coefficient_that_equals_the_tolerance_is_kept():
    for beta, last in ((1.0, 3), (300.0, 63), (300.0, 64)):
        c = fourier_coefficients(beta, tolerance=float(ive(last, beta)))
        np.testing.assert_array_equal(c, ive(np.arange(last + 1), beta))


def test_the_largest_temperature_and_degree_are_allowed(monkeypatch):
    # the package has a function of the same name
    kernel_module = sys.modules["mfbook.models.sphere.kernel"]
    assert kernel_module._countable(1e10) == 1e10
    with pytest.raises(ValueError, match="^beta: expected at most"):
        kernel_module._countable(1.01e10)
    monkeypatch.setattr(kernel_module, "HARMONICS", 70)
    assert funk_hecke(1.0, 3, 70) > 0
    with pytest.raises(ValueError, match="^k: expected degrees up to 70, got 71"):
        funk_hecke(1.0, 3, 71)


def test_a_coarse_tolerance_keeps_one_coefficient():
    assert len(fourier_coefficients(1.0, tolerance=10.0)) == 1


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
    for k in (0, 1, 2, 3, 7):
        integral = quad(
            lambda s, k=k: kernel(s, beta)[0] * zonal(k, s) * math.sin(s) ** (d - 2),
            0,
            math.pi,
            epsabs=1e-13,
            limit=200,
        )[0]
        assert funk_hecke(beta, d, k) == pytest.approx(integral / mass, rel=1e-9, abs=1e-12)


def test_funk_hecke_on_a_harmonic_of_the_sphere():
    # Gauss nodes in height, equidistant in longitude; Y = xy + xz - yz has degree 2
    t, w = np.polynomial.legendre.leggauss(40)
    phi = 2 * np.pi * np.arange(60) / 60
    r = np.sqrt(1 - t**2)[:, None]
    y = np.stack([r * np.cos(phi), r * np.sin(phi), t[:, None] + 0 * phi], axis=-1).reshape(-1, 3)
    weight = np.repeat(w / 2, 60) / 60
    x = np.array([[0.6, 0.0, 0.8], [-2, 1, 2] / np.sqrt(9)])

    def harmonic(p):
        return p[:, 0] * p[:, 1] + p[:, 0] * p[:, 2] - p[:, 1] * p[:, 2]

    image = np.exp(3.0 * (x @ y.T - 1)) @ (weight * harmonic(y))
    np.testing.assert_allclose(image, funk_hecke(3.0, 3, 2) * harmonic(x), rtol=1e-12)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("d", [2, 3, 5, 50])
def test_funk_hecke_against_bessel_functions(d, beta):
    k = np.arange(60)
    nu = k + d / 2 - 1
    bessel = ive(nu, beta)
    safe = bessel > 1e-290
    expected = gammaln(d / 2) + (d / 2 - 1) * math.log(2 / beta) + np.log(np.where(safe, bessel, 1))
    found = funk_hecke(beta, d, k, log=True)
    np.testing.assert_allclose(found[safe], expected[safe], rtol=1e-13, atol=5e-13)
    # Lemma 5.1: all positive, also where a float would be 0
    assert np.isfinite(found).all() and (np.diff(found) < 0).all()
    values = funk_hecke(beta, d, k)
    np.testing.assert_allclose(values, np.exp(found))


@pytest.mark.parametrize("beta", [2.0, 5.0, 25.0, 300.0])
@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_last_degree_is_as_accurate_as_the_others(d, beta):
    for last in (62, 63, 64, 99, 127):
        nu = last + d / 2 - 1
        expected = gammaln(d / 2) + (d / 2 - 1) * math.log(2 / beta) + math.log(ive(nu, beta))
        found = funk_hecke(beta, d, [0, last], log=True)[1]
        assert found == pytest.approx(expected, rel=1e-13, abs=5e-13)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_ratios_of_coefficients_start_with_the_first(d):
    nu = np.arange(40) + d / 2 - 1
    expected = np.log(ive(nu, 7.0) / ive(nu[0], 7.0))
    np.testing.assert_allclose(_log_ratios(7.0, d, 40), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("d, beta", [(2, 9.0), (3, 0.2), (7, 20.0), (300, 2.0)])
def test_multiplicities_times_coefficients_sum_to_the_kernel_at_zero(d, beta):
    k = range(120)
    count = [math.comb(i + d - 1, d - 1) - (math.comb(i + d - 3, d - 1) if i > 1 else 0) for i in k]
    logs = np.array([math.log(n) for n in count]) + funk_hecke(beta, d, k, log=True)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-11)


def test_funk_hecke_takes_one_degree_and_any_shape():
    assert funk_hecke(1.0, 3, 4).shape == ()
    grid = funk_hecke(1.0, 3, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(grid.ravel(), funk_hecke(1.0, 3, range(4)))


@pytest.mark.parametrize("beta", BETAS)
def test_inflection(beta):
    u = inflection(beta)
    assert 0 < u < math.pi / 2
    step = 1e-6 * u
    assert kernel(u - step, beta)[2] < 0 < kernel(u + step, beta)[2]
    assert (kernel(np.linspace(0, u - step, 1000), beta)[2] < 0).all()
    assert beta == pytest.approx(math.cos(u) / math.sin(u) ** 2, rel=1e-9)


def test_inflection_at_the_ends():
    assert inflection(1e12) * 1e6 == pytest.approx(1, abs=1e-9)
    assert inflection(1e-12) == pytest.approx(math.pi / 2, abs=1e-9)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 1.0, 1.5, 5.0])
@pytest.mark.parametrize("beta", [*BETAS, 0.02, 0.118, 0.119, 0.334])
def test_anticoncentration_is_the_largest_value(beta, gamma):
    a, b = anticoncentration(beta, gamma)
    bend = kernel(angles(beta), beta)[2] / beta
    # a maximum is missed by the grid at second order in its step
    assert bend.max() <= b + 1e-15
    assert bend.max() == pytest.approx(b, rel=1e-4)
    reach = min(gamma / math.sqrt(beta), math.pi)
    near = kernel(np.linspace(0, reach, 2001), beta)[2] / beta
    assert near.max() <= -a + 1e-12
    assert near.max() == pytest.approx(-a, abs=1e-5)
    assert a >= -b
    assert (a > 0) == (reach < inflection(beta))


def test_anticoncentration_limits():
    a, b = anticoncentration(1e10)
    assert a == pytest.approx(0.75 * math.exp(-1 / 8), abs=1e-9)
    assert b == pytest.approx(2 * math.exp(-1.5), abs=1e-9)
    below, above = anticoncentration(1 / 3 - 1e-9), anticoncentration(1 / 3 + 1e-9)
    np.testing.assert_allclose(below, above, atol=1e-8)


@pytest.mark.parametrize("beta", [0.26, 0.3, 0.33, 0.34, 0.4])
def test_the_kernel_is_most_convex_at_the_antipode_below_a_third(beta):
    bend = kernel(np.linspace(0, math.pi, 100_001), beta)[2] / beta
    b = anticoncentration(beta)[1]
    assert b == pytest.approx(bend.max(), rel=1e-8)
    assert (bend.argmax() == 100_000) == (beta < 1 / 3)
    assert (b == pytest.approx(math.exp(-2 * beta), rel=1e-12)) == (beta < 1 / 3)


def test_an_angle_is_at_most_pi():
    assert _angle(2.0) == _angle(2.0 + 2e-15) == math.pi
    assert _angle(1.0) == pytest.approx(math.pi / 2, rel=1e-15) and _angle(0.0) == 0


def test_no_bound_for_wide_clusters():
    for beta in BETAS:
        assert anticoncentration(beta, 1.0)[0] <= 0
        assert cluster_mass_bound(beta, 0.0, 1.0) == 1
        assert not single_cluster_excluded(beta, 0.0, 1.0)


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
        if M > cluster_mass_bound(beta, size):
            assert form < 0


def test_cluster_mass_bound_says_something_only_below_a():
    a, b = anticoncentration(20.0)
    assert cluster_mass_bound(20.0, 0.0) == b / (a + b)
    assert cluster_mass_bound(20.0, a * (1 - 1e-9)) < 1
    assert cluster_mass_bound(20.0, a) == 1
    assert single_cluster_excluded(20.0, a * (1 - 1e-9))
    assert not single_cluster_excluded(20.0, a)
    # a cluster as wide as the circle: a = -b
    assert anticoncentration(1.0, 100.0)[0] == -anticoncentration(1.0, 100.0)[1]
    assert cluster_mass_bound(1.0, 0.0, 100.0) == 1


def test_heavy_atoms():
    corollary, trivial = heavy_atom_bound(4.0, 0.1, 0.4)
    assert corollary == pytest.approx(math.ceil(8 * math.pi) * 4) and trivial == 10
    # two short arcs: the corollary is better
    corollary, trivial = heavy_atom_bound(100.0, 0.01, 0.4, arcs=[0.04, 0.05])
    assert corollary == pytest.approx(80) and trivial == pytest.approx(100)
    # mass of an interval with a single atom may exceed the bound on clusters
    assert heavy_atom_bound(100.0, 0.9, 0.4, arcs=0.01)[0] == pytest.approx(1)
    for beta in (1.0, 10.0, 1e4):
        for kappa in (0.5, 0.01):
            corollary, trivial = heavy_atom_bound(beta, kappa, cluster_mass_bound(beta, 0.0))
            assert corollary > trivial


def test_all_of_the_mass_and_all_of_the_circle_are_allowed():
    assert heavy_atom_bound(1.0, 1.0, 1.0, 1.0, arcs=0.5) == (1.0, 1.0)
    # equal arcs of the whole circle, whatever their lengths add up to after rounding
    for n in range(1, 60):
        assert heavy_atom_bound(1.0, 1.0, 0.5, 7.0, arcs=np.full(n, 2 * math.pi / n)) == (n, 1.0)
    with pytest.raises(ValueError, match="arcs"):
        heavy_atom_bound(1.0, 1.0, 0.5, 7.0, arcs=2 * math.pi + 1e-9)


def test_the_least_mass_bound_leaves_two_arcs():
    bounds = [cluster_mass_bound(beta, 0.0) for beta in np.geomspace(0.12, 1e4, 4001)]
    assert min(bounds) == pytest.approx(0.3838, abs=1e-4)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: kernel(0.0, 0.0), ValueError, "beta"),
        (lambda: kernel(np.nan, 1.0), ValueError, "u"),
        (lambda: fourier_coefficients(-1.0), ValueError, "beta"),
        (lambda: fourier_coefficients(1.0, 0.0), ValueError, "tolerance"),
        (lambda: funk_hecke(1.0, 1, 0), ValueError, "d"),
        (lambda: funk_hecke(1.0, 2, -1), ValueError, "k"),
        (lambda: funk_hecke(1.0, 2, 0.5), TypeError, "k"),
        (lambda: funk_hecke(1.0, 2, []), TypeError, "k"),
        (lambda: inflection("one"), TypeError, "beta"),
        (lambda: anticoncentration(1.0, 0.0), ValueError, "gamma"),
        (lambda: anticoncentration(np.inf), ValueError, "beta"),
        (lambda: cluster_mass_bound(1.0, -0.1), ValueError, "lipschitz_omega"),
        (lambda: single_cluster_excluded(1.0, np.nan), ValueError, "lipschitz_omega"),
        (lambda: heavy_atom_bound(1.0, 0.0, 0.5), ValueError, "kappa"),
        (lambda: heavy_atom_bound(1.0, 1.1, 0.5), ValueError, "kappa"),
        (lambda: heavy_atom_bound(1.0, 0.1, 1.5), ValueError, "m_bar"),
        (lambda: heavy_atom_bound(1.0, 0.1, 0.5, arcs=[1.0, -1.0]), ValueError, "arcs"),
        (lambda: heavy_atom_bound(1.0, 0.1, 0.5, arcs=[1.0, 0.0]), ValueError, "arcs"),
        (lambda: heavy_atom_bound(1.0, 0.1, 0.5, arcs=7.0), ValueError, "arcs"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=f"^{message}: expected"):
        call()
