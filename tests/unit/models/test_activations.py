"""Every activation that has a name: its primitive, slope and constants, by other ways to them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from mfbook.models.activations import NAMED, Activation, leaky_relu

ALL = {**NAMED, "leaky_relu(0.3)": leaky_relu(0.3)}
S = np.concatenate([-np.geomspace(1e-6, 30, 25)[::-1], np.geomspace(1e-6, 30, 25)])


@pytest.fixture(params=ALL.values(), ids=ALL)
def f(request) -> Activation:
    return request.param


def error_of_primitive(f) -> float:
    """Largest error relative to the integral of 2 sigma from zero; absolute where that is zero."""
    exact = np.array([2 * quad(lambda t: f.sigma(np.array(t)), 0, s, epsabs=0)[0] for s in S])
    return (np.abs(f.primitive(S) - exact) / np.where(exact == 0, 1, np.abs(exact))).max()


def test_primitive_is_twice_the_integral(f):
    assert error_of_primitive(f) < 1e-9


def test_a_wrong_primitive_is_noticed(f):
    once = replace(f, primitive=lambda s: f.primitive(s) / 2)
    assert error_of_primitive(once) > 0.4
    shifted = replace(f, primitive=lambda s: f.primitive(s) + 1e-8)
    assert error_of_primitive(shifted) > 1e-8


def test_slope_and_sigma_are_derivatives_by_complex_step(f):
    step = 1e-30j
    np.testing.assert_allclose(f.sigma(S + step).imag / 1e-30, f.slope(S), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        f.primitive(S + step).imag / 1e-30, 2 * f.sigma(S), rtol=1e-9, atol=1e-14
    )


def test_nothing_overflows(f):
    s = np.array([-1e8, -800.0, 800.0, 1e8])
    with np.errstate(over="raise", invalid="raise"):
        for values in (f.sigma(s), f.primitive(s), f.slope(s)):
            assert np.isfinite(values).all()


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0, 20.0])
def test_lipschitz_constant_is_attained_and_not_exceeded(f, radius):
    slopes = np.abs(f.slope(np.linspace(-radius, radius, 200_001)))
    assert slopes.max() <= f.lipschitz(radius) * (1 + 1e-14)
    assert slopes.max() >= f.lipschitz(radius) * (1 - 1e-8)


def test_curvature_bounds_the_second_derivative_on_both_sides_of_a_kink(f):
    for s in (np.linspace(1e-9, 12, 400_001), np.linspace(-12, -1e-9, 400_001)):
        second = np.abs(np.diff(f.slope(s)) / np.diff(s))
        assert second.max() <= f.curvature + 1e-6
    if f.curvature:
        s = np.linspace(-3, 3, 400_001)
        attained = np.abs(np.diff(f.slope(s)) / np.diff(s)).max()
        assert attained >= 0.999 * f.curvature, "a bound that is larger than need be"


def test_a_kink_is_at_zero_or_nowhere(f):
    jump = abs(float(f.slope(np.array(1e-9)) - f.slope(np.array(-1e-9))))
    assert (jump > 1e-3) == (not f.analytic)


def test_edges():
    """The largest slope may be at the left end; a unit is off at its kink; the default leak."""
    falling = Activation("falling", lambda s: -np.exp(-s), None, lambda s: np.exp(-s))
    assert falling.lipschitz(2.0) == np.exp(2.0) and falling.lipschitz() == np.e
    for leak in (0.0, 0.01, 0.3):
        f = leaky_relu(leak)
        assert f.slope(np.array([-1e-300, 0.0, 1e-300])).tolist() == [leak, leak, 1.0]
    assert leaky_relu().sigma(np.array([-100.0]))[0] == -1.0 and leaky_relu().name == "leaky_relu"
