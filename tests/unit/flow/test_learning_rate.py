"""Learning-rate profiles: closed forms against quadrature, Assumption 3.1, bad profiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from mfbook.flow import constant, custom, polynomial_decay, warmup_cosine

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


def by_quadrature(xi, t):
    """Integral of 2 xi, cut at every break, by SciPy and not by the package."""
    edges = [0.0, *(b for b in xi.breaks if b < t), t]
    return sum(
        quad(lambda s: 2 * float(xi.profile(np.asarray(s))), a, b, epsabs=1e-13, epsrel=1e-12)[0]
        for a, b in zip(edges, edges[1:], strict=False)
    )


@pytest.mark.parametrize("name", PROFILES)
def test_clock_is_the_integral_of_twice_the_rate(name):
    xi, times = PROFILES[name], np.array([[0.0, 0.3, 1.0], [1.7, 3.0, 5.5]])
    tau = xi.tau(times)
    for t, at, rate in zip(times.ravel(), tau.ravel(), xi(times).ravel(), strict=True):
        assert abs(at - by_quadrature(xi, t)) < 1e-11
        assert type(xi.tau(t)) is type(xi(t)) is float
        assert (xi.tau(t), xi(t)) == pytest.approx((at, rate), rel=1e-14)
    assert tau.shape == xi(times).shape == (2, 3) and tau[0, 0] == 0
    assert xi.tau([]).shape == xi([]).shape == (0,)
    assert xi.name in repr(xi)


def test_profiles_written_out():
    t = np.array([0.0, 0.3, 1.0, 2.5, 4.0, 7.0])
    np.testing.assert_allclose(polynomial_decay(0.7, 2.0, 1.5)(t), 0.7 / (1 + t / 2) ** 1.5)
    p, w, e, f = 1.3, 1.0, 4.0, 0.2
    cosine = [f + (p - f) / 2 * (1 + np.cos(np.pi * (s - w) / (e - w))) for s in t]
    rates = np.where(t < w, p * t / w, np.where(t < e, cosine, f))
    np.testing.assert_allclose(warmup_cosine(p, warmup=w, end=e, floor=f)(t), rates, rtol=1e-14)
    assert PROFILES["cosine without warm-up"](0.0) == 1.5
    flat = custom(lambda t: 0.5, clock=lambda t: 3)  # constants take the shape of the times
    assert flat([1.0, 2.0]).tolist() == [0.5, 0.5] and flat.tau([[1.0], [2.0]]).shape == (2, 1)


@given(st.lists(st.floats(0, 5), max_size=12))
def test_order_in_which_times_are_asked_does_not_matter(times):
    """The integral of 2 (1 + t) up to 2, of 2 beyond, whatever is known already."""
    xi = custom(lambda t: np.where(t < 2, 1 + t, 1.0), breaks=[3.0, 2.0, 1.0])
    for t in times:
        assert xi.tau(t) == pytest.approx(2 * t + min(t, 2) ** 2, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("bad", [-1e-12, -1.0, np.nan, np.inf])
def test_rates_out_of_range_name_xi_and_the_time(bad):
    xi = custom(lambda t: np.where(t > 1, bad, 0.5))
    assert xi([0.0, 1.0]).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"^xi: .*1\.25.*custom"):
        xi([0.5, 1.25])
    with pytest.raises(ValueError, match="^xi:"):
        xi.tau(2.0)
