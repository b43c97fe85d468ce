"""Every activation that has a name: its primitive, slope and constants, by other ways to them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from mfbook.activations import NAMED, TANH, Activation, activation, leaky_relu

ALL = {**NAMED, "leaky_relu(0.3)": leaky_relu(0.3)}
S = np.concatenate([-np.geomspace(1e-6, 30, 25)[::-1], np.geomspace(1e-6, 30, 25)])
#: As in a textbook.
SIGMA = {
    "relu": lambda s: np.maximum(s, 0),
    "leaky_relu": lambda s: np.where(s > 0, s, s / 100),
    "leaky_relu(0.3)": lambda s: np.where(s > 0, s, 0.3 * s),
    "gelu": lambda s: s * ndtr(s),
    "tanh": np.tanh,
    "linear": lambda s: s,
}


@pytest.fixture(params=ALL.values(), ids=ALL)
def f(request) -> Activation:
    return request.param


def error_of_primitive(f) -> float:
    """Largest error relative to the integral of 2 sigma from zero; absolute where that is zero."""
    sigma = SIGMA[f.name]
    exact = np.array([2 * quad(lambda t: float(sigma(t)), 0, s, epsabs=0)[0] for s in S])
    return (np.abs(f.primitive(S) - exact) / np.where(exact == 0, 1, np.abs(exact))).max()


def test_sigma_and_its_primitive(f):
    np.testing.assert_allclose(f.sigma(S), SIGMA[f.name](S), rtol=1e-12, atol=1e-300)
    assert f.primitive(np.zeros(1))[0] == 0
    assert error_of_primitive(f) < 1e-9
    # a wrong primitive is noticed
    assert error_of_primitive(replace(f, primitive=lambda s: f.primitive(s) / 2)) > 0.4
    assert error_of_primitive(replace(f, primitive=lambda s: f.primitive(s) + 1e-8)) > 1e-8


def test_slope_and_sigma_are_derivatives_by_complex_step(f):
    step = 1e-30j
    np.testing.assert_allclose(f.sigma(S + step).imag / 1e-30, f.slope(S), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        f.primitive(S + step).imag / 1e-30, 2 * f.sigma(S), rtol=1e-9, atol=1e-14
    )
    assert f.slope(S.reshape(-1, 1)).shape == f.primitive(S.reshape(-1, 1)).shape == (len(S), 1)


def test_nothing_overflows(f):
    s = np.array([-1e8, -1e4, 1e4, 1e8])
    with np.errstate(over="raise", invalid="raise"):
        for part in (f.sigma, f.primitive, f.slope):
            assert np.isfinite(part(s)).all() and np.isfinite(part(s + 1e-30j)).all()


@pytest.mark.parametrize("radius", [0.3, 1.0, 5.0, 20.0])
def test_lipschitz_constant_is_attained_and_not_exceeded(f, radius):
    s = np.linspace(-radius, radius, 20_001)
    chords = np.abs(np.diff(SIGMA[f.name](s)) / np.diff(s)).max()
    assert chords * (1 - 1e-9) <= f.lipschitz(radius) <= chords * (1 + 1e-3)


def test_curvature_bounds_the_second_derivative_on_both_sides_of_a_kink(f):
    seconds = []
    for s in (np.linspace(1e-9, 12, 200_001), np.linspace(-12, -1e-9, 200_001)):
        seconds.append(np.abs(np.diff(f.slope(s)) / np.diff(s)).max())
    assert max(seconds) <= f.curvature + 1e-6
    assert max(seconds) >= 0.999 * f.curvature, "a bound that is larger than need be"
    jump = abs(float(f.slope(np.array(1e-9)) - f.slope(np.array(-1e-9))))
    assert (jump > 1e-3) == (not f.analytic), "a kink is at zero or nowhere"


def test_names_and_edges():
    for name in NAMED:
        assert activation(name).name == name
    assert activation(TANH) is TANH and leaky_relu().name == "leaky_relu"
    assert leaky_relu(0).name == "relu" and leaky_relu(1.0).analytic
    # the largest slope may be at the left end; a unit is off at its kink
    falling = Activation("falling", lambda s: -np.exp(-s), None, lambda s: np.exp(-s))
    assert falling.lipschitz(2.0) == pytest.approx(np.exp(2.0))
    for leak in (0.0, 0.01, 0.3):
        assert leaky_relu(leak).slope(np.array([-1e-300, 0.0, 1e-300])).tolist() == [leak, leak, 1]
    for bad in (-0.1, 1.5):
        with pytest.raises(ValueError, match="^slope:"):
            leaky_relu(bad)
    with pytest.raises(ValueError, match="^activation:"):
        activation("swish")
