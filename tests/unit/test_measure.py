"""Measures: integrals, push-forwards, mixtures, draws and merging."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfbook.measure import Measure, mixture

seeds = st.integers(0, 10**6)


def random_measure(seed, n=5, dim=2):
    rng = np.random.default_rng(seed)
    return Measure(rng.normal(size=(n, dim)), rng.dirichlet(np.ones(n)))


def test_default_weights_are_uniform():
    mu = Measure([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(mu.weights, [1 / 3] * 3)
    assert (mu.size, mu.dim) == (3, 2)
    assert mu.atoms.dtype == np.float64
    assert repr(mu) == "Measure(3 atoms in R^2, uniform)"
    assert repr(Measure([[1.0], [2.0]], [0.1, 0.9])) == "Measure(2 atoms in R^1, weighted)"


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_precision_of_atoms_is_kept(dtype):
    atoms = np.ones((2, 3), dtype=dtype)
    assert Measure(atoms).atoms.dtype == dtype
    assert Measure(atoms).weights.dtype == np.float64
    assert Measure.dirac(atoms[0]).atoms.dtype == dtype


def test_measure_is_a_copy_that_cannot_be_changed():
    atoms, weights = np.arange(6.0).reshape(3, 2), np.array([0.2, 0.3, 0.5])
    mu = Measure(atoms, weights)
    atoms[:], weights[:] = 9, 9
    np.testing.assert_array_equal(mu.atoms, np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(mu.weights, [0.2, 0.3, 0.5])
    for array in (mu.atoms, mu.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        mu.atoms = atoms


def test_numbers_of_other_machines_are_made_native():
    for kind, expected in ((">f4", "f4"), (">c16", "c16"), ("f2", "f8"), ("i1", "f8"),
                           (np.longdouble, "f8"), (np.clongdouble, "c16")):  # fmt: skip
        mu = Measure(np.array([[1], [2]], kind))
        assert mu.atoms.dtype == np.dtype(expected) and mu.atoms.dtype.isnative
        np.testing.assert_array_equal(mu.atoms, [[1], [2]])


def test_strided_read_only_and_listed_input():
    big = np.arange(24.0).reshape(4, 6)
    big.flags.writeable = False
    mu = Measure(big[::2, ::3])
    np.testing.assert_array_equal(mu.atoms, [[0, 3], [12, 15]])
    assert mu.atoms.flags.c_contiguous
    np.testing.assert_array_equal(Measure([[0, 3], [12, 15]]).atoms, mu.atoms)
    np.testing.assert_array_equal(Measure(np.asfortranarray(big)).atoms, big)


@pytest.mark.parametrize("seed", range(20))
def test_rounded_weights_are_good_enough_to_draw_from(seed):
    """float32 weights sum to one to 1e-7 only; drawing wants 1e-8."""
    weights = np.random.default_rng(seed).dirichlet(np.ones(1000)).astype(np.float32)
    mu = Measure(np.zeros((1000, 1)), weights)
    assert abs(mu.weights.sum() - 1) < 1e-14
    np.testing.assert_allclose(mu.weights, weights, rtol=1e-5)
    assert mu.resample(0, 3).size == 3


def test_dirac():
    mu = Measure.dirac([1.0, 2.0])
    assert (mu.size, mu.dim) == (1, 2)
    np.testing.assert_array_equal(mu.integrate(mu.atoms), [1, 2])


@given(seeds)
def test_integral_is_the_weighted_sum(seed):
    mu = random_measure(seed)
    values = np.random.default_rng(seed + 1).normal(size=(5, 2, 3))
    expected = sum(w * v for w, v in zip(mu.weights, values, strict=True))
    np.testing.assert_allclose(mu.integrate(values), expected, rtol=1e-13, atol=1e-15)
    assert mu.integrate(np.ones(5)) == pytest.approx(1, rel=1e-14)
    np.testing.assert_allclose(mu.integrate(1j * values), 1j * expected, rtol=1e-13, atol=1e-15)


@given(seeds)
def test_push_forward_integrates_the_composition(seed):
    mu = random_measure(seed)
    moved = mu.map(lambda x: np.stack([x[:, 0] * x[:, 1], x[:, 0], np.sin(x[:, 1])], axis=1))
    assert moved.dim == 3
    np.testing.assert_array_equal(moved.weights, mu.weights)
    expected = mu.integrate(np.exp(mu.atoms[:, 0] * mu.atoms[:, 1]))
    assert moved.integrate(np.exp(moved.atoms[:, 0])) == pytest.approx(expected, rel=1e-14)


@given(seeds, st.floats(0, 1))
def test_mixture_integrates_linearly(seed, s):
    mu, nu = random_measure(seed, 3), random_measure(seed + 1, 4)
    both = mixture(mu, nu, s)
    assert both.size == 7
    for f in (np.sin, np.exp):
        expected = (1 - s) * mu.integrate(f(mu.atoms)) + s * nu.integrate(f(nu.atoms))
        np.testing.assert_allclose(both.integrate(f(both.atoms)), expected, rtol=1e-13, atol=1e-15)


def test_ends_of_a_mixture():
    mu, nu = random_measure(0, 3), random_measure(1, 2)
    np.testing.assert_array_equal(mixture(mu, nu, 0).weights, [*mu.weights, 0, 0])
    np.testing.assert_array_equal(mixture(mu, nu, 1).weights, [0, 0, 0, *nu.weights])


def test_resampling_repeats_with_the_seed():
    mu = random_measure(2, 50)
    first = mu.resample(7, 20)
    np.testing.assert_array_equal(first.atoms, mu.resample(np.random.default_rng(7), 20).atoms)
    assert (first.atoms != mu.resample(8, 20).atoms).any()
    rng = np.random.default_rng(7)
    assert (mu.resample(rng, 20).atoms != mu.resample(rng, 20).atoms).any()
    np.testing.assert_array_equal(first.weights, [1 / 20] * 20)
    assert (first.atoms[:, None] == mu.atoms).all(axis=2).any(axis=1).all()


def test_resampling_follows_the_weights():
    """Hoeffding: a frequency is off by more than `width` with probability below 2e-9."""
    n = 20_000
    mu = Measure(np.arange(4.0)[:, None], [0.1, 0.0, 0.3, 0.6])
    drawn = mu.resample(3, n).atoms.ravel()
    width = np.sqrt(np.log(1e9) / (2 * n))
    frequencies = np.bincount(drawn.astype(int), minlength=4) / n
    assert np.abs(frequencies - mu.weights).max() < width < 0.03
    assert frequencies[1] == 0


@given(seeds, st.integers(1, 12))
def test_merging_equal_atoms_changes_no_integral(seed, n):
    rng = np.random.default_rng(seed)
    mu = Measure(rng.integers(2, size=(n, 2)), rng.dirichlet(np.ones(n)))
    merged = mu.merge()
    assert merged.size == len(np.unique(mu.atoms, axis=0))
    for f in (lambda x: x @ [1.0, 2.0], lambda x: np.exp(x[:, 0] - x[:, 1])):
        assert merged.integrate(f(merged.atoms)) == pytest.approx(mu.integrate(f(mu.atoms)))
    again = merged.merge()
    np.testing.assert_array_equal(again.atoms, merged.atoms)
    np.testing.assert_array_equal(again.weights, merged.weights)


@given(seeds, st.floats(1e-3, 1.0))
def test_merging_keeps_mass_and_barycentre(seed, tolerance):
    mu = random_measure(seed, 12)
    merged = mu.merge(tolerance)
    assert merged.size <= mu.size
    np.testing.assert_allclose(
        merged.integrate(merged.atoms), mu.integrate(mu.atoms), rtol=1e-12, atol=1e-14
    )
    far = np.linalg.norm(mu.atoms[:, None] - mu.atoms, axis=2) + 9 * np.eye(12)
    if far.min() > tolerance:
        assert merged.size == mu.size


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("dim", [1, 2, 20])
def test_merging_at_any_size_and_in_many_dimensions(size, dim):
    corner = np.full(dim, size)
    mu = Measure([corner, 0 * corner, -corner], [0.25, 0.25, 0.5])
    apart = np.sqrt(dim) * size  # of neighbours; opposite corners twice as far
    merged = mu.merge(1.01 * apart)
    assert merged.size == 1 and mu.merge(0.99 * apart).size == 3
    np.testing.assert_allclose(merged.atoms[0], -corner / 4, rtol=1e-14)
    two = Measure([corner, -corner])
    assert [two.merge(t * apart).size for t in (1.99, 2.01, 1e7)] == [2, 1, 1]


def test_merging_joins_chains_and_drops_atoms_without_weight():
    mu = Measure([[0.0], [0.9], [1.8], [9.0], [0.45]], [0.2, 0.2, 0.4, 0.2, 0.0])
    merged = mu.merge(1.0)
    np.testing.assert_allclose(merged.atoms, [[1.125], [9.0]])
    np.testing.assert_allclose(merged.weights, [0.8, 0.2])
    assert mu.merge().size == 4
    assert mu.merge(0.5).size == 4  # the atom without weight is no bridge
    one = Measure([[1.0], [1.0]], [0.0, 1.0]).merge(0.1)
    assert one.size == 1


def test_merging_within_a_small_tolerance_averages():
    merged = Measure([[0.0, 0.0], [1e-9, 0.0], [1.0, 1.0]], [0.25, 0.25, 0.5]).merge(1e-8)
    np.testing.assert_allclose(merged.atoms, [[5e-10, 0.0], [1.0, 1.0]], rtol=1e-12)
    np.testing.assert_array_equal(merged.weights, [0.5, 0.5])
