"""Learning-rate profiles: closed forms against quadrature, Assumption 3.1, bad profiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from mfbook.flow import (
    LearningRate,
    check_profile,
    constant,
    custom,
    polynomial_decay,
    warmup_cosine,
)
from mfbook.flow.learning_rate import as_profile

PROFILES = {
    "constant": constant(0.7),
    "decay, integral diverges": polynomial_decay(0.5, 2.0, 0.6),
    "decay, power one": polynomial_decay(0.5, 2.0, 1.0),
    "decay, nearly one": polynomial_decay(0.5, 2.0, 1 + 1e-12),
    "decay, integral converges": polynomial_decay(0.5, 2.0, 2.5),
    "no decay": polynomial_decay(0.5, 2.0, 0.0),
    "warm-up and cosine": warmup_cosine(1.5, warmup=1.0, end=3.0, floor=0.2),
    "cosine to zero": warmup_cosine(1.5, warmup=0.5, end=3.0, floor=0.0),
    "cosine without warm-up": warmup_cosine(1.5, warmup=0.0, end=3.0, floor=0.1),
    "no cosine": warmup_cosine(1.5, warmup=1.0, end=3.0, floor=1.5),
    "custom": custom(lambda t: np.exp(-t)),
    "custom with a jump": custom(lambda t: np.where(t < 1.3, 0.3, 1.1), breaks=[1.3]),
    "custom with a clock": custom(lambda t: t, clock=lambda t: t**2),
}
CLOSED = [name for name, xi in PROFILES.items() if xi.clock is not None]


def by_quadrature(xi, t):
    """Integral of 2 xi, cut at every break, by SciPy and not by the package."""
    edges = [0.0, *(b for b in xi.breaks if b < t), t]
    return sum(
        quad(lambda s: 2 * float(xi.profile(np.asarray(s))), a, b, epsabs=1e-13, epsrel=1e-12)[0]
        for a, b in zip(edges, edges[1:], strict=False)
    )


@pytest.mark.parametrize("name", PROFILES)
def test_clock_is_the_integral_of_twice_the_rate(name):
    xi = PROFILES[name]
    for t in (0.0, 0.3, 1.0, 1.7, 3.0, 5.5):
        assert abs(xi.tau(t) - by_quadrature(xi, t)) < 1e-11


@pytest.mark.parametrize("name", PROFILES)
def test_derivative_of_the_clock(name):
    xi, t, h = PROFILES[name], np.array([0.4, 1.6, 2.2, 4.0]), 1e-5
    assert np.allclose((xi.tau(t + h) - xi.tau(t - h)) / (2 * h), 2 * xi(t), atol=1e-8)


@pytest.mark.parametrize("name", PROFILES)
def test_arrays_scalars_and_time_zero(name):
    xi, t = PROFILES[name], np.array([[0.0, 0.5], [2.0, 4.0]])
    for f in (xi, xi.tau):
        assert f(t).shape == (2, 2) and type(f(0.5)) is float and type(f(3)) is float
        assert f(np.array([])).shape == (0,)
        each = [f(float(s)) for s in t.ravel()]
        assert np.allclose(f(t).ravel(), each, rtol=1e-14, atol=0)
    assert xi.tau(0.0) == 0.0
    assert (np.diff(xi.tau(np.linspace(0, 6, 500))) >= -1e-14).all()


def test_values_at_the_corners_of_the_warm_up():
    xi = PROFILES["warm-up and cosine"]
    assert xi([0.0, 0.5, 1.0, 2.0, 3.0, 9.0]) == pytest.approx([0, 0.75, 1.5, 0.85, 0.2, 0.2])
    assert PROFILES["cosine without warm-up"](0.0) == 1.5


def test_profiles_written_out():
    t = np.array([0.0, 0.3, 1.0, 2.5, 4.0, 7.0])
    np.testing.assert_allclose(polynomial_decay(0.7, 2.0, 1.5)(t), 0.7 / (1 + t / 2) ** 1.5)
    p, w, e, f = 1.3, 1.0, 4.0, 0.2
    cosine = [f + (p - f) / 2 * (1 + np.cos(np.pi * (s - w) / (e - w))) for s in t]
    rates = np.where(t < w, p * t / w, np.where(t < e, cosine, f))
    np.testing.assert_allclose(warmup_cosine(p, warmup=w, end=e, floor=f)(t), rates, rtol=1e-14)


def test_rates_and_clocks_that_are_constants_take_the_shape_of_the_times():
    xi = custom(lambda t: 0.5, clock=lambda t: 3)
    assert np.array_equal(xi([1.0, 2.0]), [0.5, 0.5])
    assert np.array_equal(xi.tau([[1.0], [2.0]]), [[3.0], [3.0]])
    for clock, error in ((lambda t: "a", TypeError), (lambda t: np.ones(3), ValueError),
                         (lambda t: np.nan, ValueError), (lambda t: 1j, TypeError)):  # fmt: skip
        with pytest.raises(error, match="^xi: "):
            custom(lambda t: 0.5, clock=clock).tau([1.0, 2.0])


def test_default_is_rescaled_time():
    t = np.linspace(0, 5, 11)
    for xi in (constant(), as_profile(None)):
        assert np.array_equal(xi.tau(t), t) and (xi(t) == 0.5).all()
    assert as_profile(xi) is xi
    assert as_profile(lambda t: 0.5).tau(2.0) == pytest.approx(2.0, abs=1e-13)


@given(st.lists(st.floats(0, 5), max_size=12))
def test_order_in_which_times_are_asked_does_not_matter(times):
    """The integral of 2 (1 + t) up to 2, of 2 beyond, whatever is known already."""
    xi = custom(lambda t: np.where(t < 2, 1 + t, 1.0), breaks=[3.0, 2.0, 1.0])
    for t in times:
        assert xi.tau(t) == pytest.approx(2 * t + min(t, 2) ** 2, rel=1e-12, abs=1e-300)


@given(st.floats(0.01, 5), st.floats(0.05, 20), st.floats(0, 3), st.floats(0, 50))
def test_decay_at_random(start, scale, power, t):
    xi = polynomial_decay(start, scale, power)
    assert xi.diverges == (power <= 1)
    assert xi.tau(t) == pytest.approx(custom(xi.profile).tau(t), rel=1e-9, abs=1e-12)


WARMUP = st.just(0.0) | st.floats(1e-3, 3)


@given(st.floats(0.01, 5), WARMUP, st.floats(0.1, 9), st.floats(0, 1), st.floats(0, 20))
def test_warm_up_at_random(peak, warmup, width, ratio, t):
    xi = warmup_cosine(peak, warmup, warmup + width, ratio * peak)
    assert xi.tau(t) == pytest.approx(by_quadrature(xi, t), rel=1e-9, abs=1e-11)
    assert 0 <= xi(t) <= peak * (1 + 1e-12)


@pytest.mark.parametrize("name", PROFILES)
def test_assumption_on_a_horizon(name):
    xi = PROFILES[name]
    report = check_profile(xi, t_end=4.0)
    assert report.clock_error < 1e-10 and report.diverges is xi.diverges
    assert report.holds is (
        name not in ("decay, integral converges", "cosine to zero", "decay, nearly one")
    )
    assert report.tau == xi.tau(4.0)
    t = np.linspace(0, 4, 4097)
    assert report.largest == xi(t).max() and report.least == xi(t).min()


def test_a_rate_that_reaches_zero_stops_the_clock():
    xi = warmup_cosine(1.0, warmup=1.0, end=3.0, floor=0.0)
    assert xi.diverges is False and not check_profile(xi, t_end=2.0).holds
    assert xi.tau(3.0) == xi.tau(1000.0) == pytest.approx(3.0)


def test_slope_shows_a_jump_and_a_wrong_clock_is_found():
    smooth, jump = PROFILES["warm-up and cosine"], PROFILES["custom with a jump"]
    few, many = (check_profile(smooth, 4.0, samples=n).slope for n in (65, 4097))
    assert many == pytest.approx(few, rel=0.05)
    few, many = (check_profile(jump, 4.0, samples=n).slope for n in (65, 4097))
    assert many > 30 * few
    halved = custom(lambda t: 1.0 + 0 * t, clock=lambda t: t)  # the factor 2 is missing
    assert not check_profile(halved, 1.0).holds
    assert check_profile(lambda t: 1.0 + 0 * t, 1.0).holds


def test_report_on_a_profile():
    report = check_profile(custom(lambda t: 1 + t * t, clock=lambda t: 2 * t + t**3), 3.0, 4)
    assert (report.largest, report.least, report.slope) == pytest.approx((10, 1, 5))
    assert report.tau == pytest.approx(33) and report.diverges is None and not report.holds
    assert report.clock_error == pytest.approx(33 - 24, rel=1e-12)


# ---------------------------------------------------------------------------------------------
# bad profiles


@pytest.mark.parametrize("bad", [-1e-12, -1.0, np.nan, np.inf])
def test_rates_out_of_range_name_xi_and_the_time(bad):
    xi = custom(lambda t: np.where(t > 1, bad, 0.5), name="mine")
    assert xi([0.0, 1.0]).tolist() == [0.5, 0.5]
    for call in (
        lambda: xi([0.5, 1.25]),
        lambda: xi(1.25),
        lambda: check_profile(xi, 1.25, samples=2),
    ):
        with pytest.raises(ValueError, match=r"^xi: .*at time 1\.25 \(mine\)"):
            call()
    with pytest.raises(ValueError, match="^xi: "):
        xi.tau(2.0)


@pytest.mark.parametrize(("value", "error"), [("a", TypeError), (1j, TypeError), (None, TypeError),
                                              (np.ones(3), ValueError)])  # fmt: skip
def test_profiles_that_return_nonsense(value, error):
    with pytest.raises(error, match="^xi: "):
        custom(lambda t: value)([0.0, 1.0])


@pytest.mark.parametrize("bad", [-1e-9, np.nan, np.inf, [0.0, -1.0]], ids=str)
@pytest.mark.parametrize("name", ["constant", "custom"])
def test_times_out_of_range(name, bad):
    for f in (PROFILES[name], PROFILES[name].tau):
        with pytest.raises(ValueError, match="^t: "):
            f(bad)
        for wrong in ("1", None, True, 1j):
            with pytest.raises(TypeError, match="^t: "):
                f(wrong)


ARGUMENTS = {
    "value": lambda x: constant(x),
    "start": lambda x: polynomial_decay(x, 1.0, 1.0),
    "scale": lambda x: polynomial_decay(1.0, x, 1.0),
    "power": lambda x: polynomial_decay(1.0, 1.0, x),
    "peak": lambda x: warmup_cosine(x, 1.0, 2.0, 0.0),
    "warmup": lambda x: warmup_cosine(1.0, x, 2.0, 0.0),
    "end": lambda x: warmup_cosine(1.0, 1.0, x, 0.0),
    "floor": lambda x: warmup_cosine(1.0, 1.0, 2.0, x),
    "breaks": lambda x: custom(np.exp, breaks=[x]),
    "t_end": lambda x: check_profile(constant(), x),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_bad_arguments(name):
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"^{name}: "):
            ARGUMENTS[name](bad)
    for bad in (None, "1", True, 1j, [1.0]):
        with pytest.raises(TypeError, match=f"^{name}: "):
            ARGUMENTS[name](bad)


def test_more_bad_arguments():
    for call, name, error in (
        (lambda: warmup_cosine(1.0, 2.0, 2.0, 0.0), "end", ValueError),
        (lambda: warmup_cosine(1.0, 1.0, 2.0, 1.1), "floor", ValueError),
        (lambda: custom(None), "function", TypeError),
        (lambda: custom(0.5), "function", TypeError),
        (lambda: custom(np.exp, clock=3.0), "clock", TypeError),
        (lambda: custom(np.exp, name=3), "name", TypeError),
        (lambda: as_profile(0.5), "xi", TypeError),
        (lambda: check_profile("fast", 1.0), "xi", TypeError),
        (lambda: check_profile(constant(), 1.0, samples=1), "samples", ValueError),
        (lambda: check_profile(constant(), 1.0, samples=10.0), "samples", TypeError),
    ):
        with pytest.raises(error, match=f"^{name}: "):
            call()


def test_profiles_are_described():
    for xi in PROFILES.values():
        assert isinstance(xi, LearningRate) and xi.name in repr(xi)
