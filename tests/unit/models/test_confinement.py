"""Ridge and anchored decay: potentials, whatever the measure."""

import numpy as np
import pytest
from autograd import grad
from hypothesis import given
from hypothesis import strategies as st
from reference import relative

from mfbook.functional import check_functional
from mfbook.measure import Measure
from mfbook.models.confinement import Anchor, Ridge

ANCHOR = np.array([0.5, -1.0, 2.0])


def random_measure(seed, n=4):
    rng = np.random.default_rng(seed)
    return Measure(rng.normal(size=(n, 3)), rng.dirichlet(np.ones(n)))


def naive(lam, a, theta):
    total = 0.0
    for i in range(len(a)):
        total = total + lam * (theta[i] - a[i]) * (theta[i] - a[i]) / 2
    return total


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_potentials_agree_with_a_naive_program(seed, lam):
    mu, x = random_measure(seed), random_measure(seed + 1).atoms
    for F, a in ((Ridge(lam), np.zeros(3)), (Anchor(lam, ANCHOR), ANCHOR)):
        value = sum(w * naive(lam, a, t) for w, t in zip(mu.weights, mu.atoms, strict=True))
        assert relative(F(mu), value) < 1e-13
        assert relative(F.first_variation(x, mu), [naive(lam, a, t) for t in x]) < 1e-13
        expected = [grad(lambda t, a=a: naive(lam, a, t))(np.array(t)) for t in x]
        assert relative(F.gradient(x, mu), expected) < 1e-13


@pytest.mark.parametrize("F", [Ridge(0.3), Anchor(0.3, ANCHOR)], ids=["ridge", "anchor"])
def test_potentials_do_not_depend_on_the_measure(F):
    x = random_measure(0).atoms
    np.testing.assert_array_equal(
        F.gradient(x, random_measure(1)), F.gradient(x, random_measure(2, n=7))
    )
    assert check_functional(F, random_measure(3), 4).ok


def test_anchor_is_the_minimum():
    mu = Measure.dirac(ANCHOR)
    F = Anchor(2.0, ANCHOR)
    assert F(mu) == 0
    assert (F.gradient(mu.atoms, mu) == 0).all()


def test_ridge_is_an_anchor_at_the_origin():
    mu, x = random_measure(5), random_measure(6).atoms
    assert Ridge(0.7)(mu) == Anchor(0.7, np.zeros(3))(mu)
    np.testing.assert_array_equal(
        Ridge(0.7).gradient(x, mu), Anchor(0.7, np.zeros(3)).gradient(x, mu)
    )


def test_complex_points_continue_analytically():
    mu = random_measure(7)
    x = random_measure(8).atoms + 1j * random_measure(9).atoms
    expected = 0.35 * ((x - ANCHOR) * (x - ANCHOR)).sum(axis=1)
    assert relative(Anchor(0.7, ANCHOR).first_variation(x, mu), expected) < 1e-14
    assert relative(Anchor(0.7, ANCHOR).gradient(x, mu), 0.7 * (x - ANCHOR)) < 1e-14


def test_anchor_keeps_its_own_copy():
    a = ANCHOR.copy()
    F = Anchor(1.0, a)
    a[:] = 0
    np.testing.assert_array_equal(F.a, ANCHOR)
    with pytest.raises(ValueError, match="read-only"):
        F.a[0] = 1
