"""The bound on training with a sample: against enumerated draws and the bounds of Chapter 5."""

import itertools
import math

import numpy as np
import pytest

from mfbook import bounds
from mfbook.bounds import finite_population, training_bound

NUMBERS = {"M": 50, "S": 40, "epsilon": 0.002, "tau": 1.5}
RADII = (1.2, 0.8, 1.1, 2)


@pytest.mark.parametrize("N, S", [(5, 1), (5, 2), (5, 4), (5, 5), (1, 1)])
def test_the_factor_is_that_of_all_samples(N, S):
    v = np.random.default_rng(0).normal(size=(N, 3))
    means = [v[list(s)].mean(axis=0) for s in itertools.combinations(range(N), S)]
    spread = np.mean([((x - v.mean(axis=0)) ** 2).sum() for x in means])
    one = ((v - v.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert spread == pytest.approx(finite_population(S, N) * one / S, abs=1e-15)


def test_a_sample_of_everything_leaves_the_bound_of_chapter_5():
    """Exact gradients, and SGD that draws from the whole population."""
    everything = training_bound(*RADII, **NUMBERS, population=40, batch=1)
    known = bounds.propagation_bound(*RADII, M=50, epsilon=0.002, tau=1.5)
    assert everything.sequences == 0 and everything.one_sided == known.one_sided
    assert everything.heads * 1.5 == pytest.approx(known.sampling)
    assert everything.euler * 1.5 == pytest.approx(known.euler)
    # (e^a - 1)/a <= e^a: never above the bound that was there
    assert everything.log10 < known.log10


@pytest.mark.parametrize("epsilon", [1e-4, 0.5])
@pytest.mark.parametrize("batch", [None, 3])
def test_the_terms_add_up(epsilon, batch):
    small = (0.5, 0.5, 0.6, 2)
    b = training_bound(*small, M=7, S=9, epsilon=epsilon, tau=2.0, batch=batch)
    f = bounds.feature_bounds(*small)
    L, H = f.L, f.H
    Lambda = math.sqrt(2) * H + L * L / 2
    kappa = math.sqrt(2) * H if epsilon <= 4 / L**2 else Lambda

    def E(a):
        # a Riemann sum of the integral of e^(a s)
        s = (np.arange(20000) + 0.5) / 10000
        return np.exp(a * s).sum() / 10000

    own = f.B / math.sqrt(28) + Lambda * epsilon / math.sqrt(2)
    drift = L * math.sqrt(own**2 + 2 / 9)
    noise = 0 if batch is None else L * math.sqrt(2 * epsilon / batch * E(2 * kappa))
    assert 10**b.log10 == pytest.approx(E(kappa) * drift + noise, rel=1e-6)
    assert 10**b.gap_log10 == pytest.approx(4 * L**2 * E(math.sqrt(2) * H) / 9, rel=1e-6)


def test_each_cause_has_its_order():
    def size(name, **changed):
        return getattr(training_bound(*RADII, **(NUMBERS | {"batch": 2} | changed)), name)

    assert size("heads") / size("heads", M=200) == pytest.approx(2)
    assert size("sequences") / size("sequences", S=160) == pytest.approx(2)
    assert size("euler") / size("euler", epsilon=0.001) == pytest.approx(2)
    assert size("noise") / size("noise", epsilon=0.0005) == pytest.approx(2)
    assert size("noise") / size("noise", batch=8) == pytest.approx(2)


def test_growth_without_curvature_and_beyond_floats():
    flat = training_bound(1e-9, 1.0, 1e-3, 1, M=1, S=1, epsilon=0.5, tau=3.0)
    assert flat.growth == pytest.approx(math.log(3))
    huge = training_bound(10.0, 10.0, 10.0, 1, M=1, S=1, epsilon=0.5, tau=100.0)
    assert math.isfinite(huge.log10) and huge.log10 > 308 and not huge.one_sided


@pytest.mark.parametrize("change, name", [
    ({"M": 0}, "M"), ({"S": 0}, "S"), ({"epsilon": 0.0}, "epsilon"), ({"tau": -1.0}, "tau"),
    ({"batch": 0}, "batch"), ({"population": 39}, "population"),
])  # fmt: skip
def test_a_wrong_argument_is_named(change, name):
    with pytest.raises((TypeError, ValueError), match=name):
        training_bound(*RADII, **(NUMBERS | change))


def test_a_sample_is_not_larger_than_its_population():
    with pytest.raises(ValueError, match="S: expected at most N = 4"):
        finite_population(5, 4)
