"""Ridge and anchored decay: potentials, whatever the measure."""

import numpy as np
import pytest
from autograd import grad
from hypothesis import given
from hypothesis import strategies as st
from reference import relative

from mfbook.confinement import Anchor, Ridge
from mfbook.functional import check_functional
from mfbook.measure import Measure

ANCHOR = np.array([0.5, -1.0, 2.0])


def naive(lam, a, theta):
    total = 0.0
    for i in range(len(a)):
        total = total + lam * (theta[i] - a[i]) * (theta[i] - a[i]) / 2
    return total


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_potentials_agree_with_a_naive_program(seed, lam):
    rng = np.random.default_rng(seed)
    mu, x = Measure(rng.normal(size=(4, 3)), rng.dirichlet(np.ones(4))), rng.normal(size=(5, 3))
    for F, a in ((Ridge(lam), np.zeros(3)), (Anchor(lam, ANCHOR), ANCHOR)):
        value = sum(w * naive(lam, a, t) for w, t in zip(mu.weights, mu.atoms, strict=True))
        assert relative(F(mu), value) < 1e-13
        for points in (x, x + 1j * mu.atoms[0]):  # an analytic function of complex points
            expected = [naive(lam, a, t) for t in points]
            assert relative(F.first_variation(points, mu), expected) < 1e-12
            assert relative(F.gradient(points, mu), lam * (points - a)) < 1e-13
        expected = [grad(lambda t, a=a: naive(lam, a, t))(np.array(t)) for t in x]
        assert relative(F.gradient(x, mu), expected) < 1e-13
    assert check_functional(Anchor(lam, ANCHOR), mu, seed).ok
    assert Anchor(lam, ANCHOR)(Measure.dirac(ANCHOR)) == 0


def test_anchor_keeps_its_own_copy():
    a = ANCHOR.copy()
    F = Anchor(1.0, a)
    a[:] = 0
    assert F.a.tolist() == ANCHOR.tolist()
    with pytest.raises(ValueError, match="read-only"):
        F.a[0] = 1
