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


def test_measure_is_a_copy_that_cannot_be_changed():
    atoms = np.arange(6.0).reshape(3, 2)
    mu = Measure(atoms)
    atoms[:] = 9
    np.testing.assert_array_equal(mu.atoms, np.arange(6.0).reshape(3, 2))
    assert (mu.size, mu.dim) == (3, 2) and mu.weights.tolist() == [1 / 3] * 3
    for array in (mu.atoms, mu.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        mu.atoms = atoms


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("f4", "f8"), (">f8", "f8"), ("c8", "c16"), (">c16", "c16"), ("i1", "f8"),
     (np.longdouble, "f8"), (np.clongdouble, "c16")],
)  # fmt: skip
def test_atoms_are_in_double_precision(kind, expected):
    atoms = np.array([[1], [2]], kind)
    for mu in (Measure(atoms), Measure.dirac(atoms[0])):
        assert mu.atoms.dtype == np.dtype(expected) and mu.atoms.dtype.isnative
        np.testing.assert_array_equal(mu.atoms, atoms[: mu.size])
        assert mu.weights.dtype == np.float64


def test_rounded_weights_sum_to_one():
    """float32 weights do to 1e-7 only."""
    weights = np.full(3, 1 / 3, np.float32)
    assert abs(weights.astype(float).sum() - 1) > 1e-8
    mu = Measure(np.zeros((3, 1)), weights)
    assert abs(mu.weights.sum() - 1) < 1e-14


@given(seeds, st.floats(0, 1))
def test_integrals(seed, s):
    """Weighted sums: complex values, push-forwards by composition, mixtures by linearity."""
    mu, nu = random_measure(seed), random_measure(seed + 1, 4)
    values = np.random.default_rng(seed + 1).normal(size=(5, 2, 3)) * (1 + 2j)
    expected = sum(w * v for w, v in zip(mu.weights, values, strict=True))
    np.testing.assert_allclose(mu.integrate(values), expected, rtol=1e-13, atol=1e-15)

    moved = mu.map(lambda x: np.stack([x[:, 0] * x[:, 1], x[:, 0], np.sin(x[:, 1])], axis=1))
    assert moved.dim == 3
    expected = mu.integrate(np.exp(mu.atoms[:, 0] * mu.atoms[:, 1]))
    assert moved.integrate(np.exp(moved.atoms[:, 0])) == pytest.approx(expected, rel=1e-14)

    both = mixture(mu, nu, s)
    for f in (np.sin, np.exp):
        expected = (1 - s) * mu.integrate(f(mu.atoms)) + s * nu.integrate(f(nu.atoms))
        np.testing.assert_allclose(both.integrate(f(both.atoms)), expected, rtol=1e-13, atol=1e-15)


def test_draws_have_the_law_of_the_measure():
    """Equal weights, atoms of the measure, in the shares of their weights (Hoeffding)."""
    mu = Measure([[0.0], [1.0], [2.0]], [0.2, 0.8, 0.0])
    drawn = mu.draw(4000, 1)
    assert drawn.size == 4000 and np.ptp(drawn.weights) == 0
    assert set(drawn.atoms.ravel()) == {0.0, 1.0}
    assert drawn.integrate(drawn.atoms)[0] == pytest.approx(0.8, abs=0.05)
    np.testing.assert_array_equal(drawn.atoms, mu.draw(4000, np.random.default_rng(1)).atoms)


@given(seeds, st.integers(1, 12))
def test_merging_equal_atoms_changes_no_integral(seed, n):
    rng = np.random.default_rng(seed)
    mu = Measure(rng.integers(2, size=(n, 2)), rng.dirichlet(np.ones(n)))
    merged = mu.merge()
    assert merged.size == len(np.unique(mu.atoms, axis=0)) == merged.merge().size
    for f in (lambda x: x @ [1.0, 2.0], lambda x: np.exp(x[:, 0] - x[:, 1])):
        assert merged.integrate(f(merged.atoms)) == pytest.approx(mu.integrate(f(mu.atoms)))


@given(seeds, st.floats(1e-3, 1.0))
def test_merging_keeps_mass_and_barycentre(seed, tolerance):
    mu = random_measure(seed, 12)
    merged = mu.merge(tolerance)
    np.testing.assert_allclose(
        merged.integrate(merged.atoms), mu.integrate(mu.atoms), rtol=1e-12, atol=1e-14
    )
    far = np.linalg.norm(mu.atoms[:, None] - mu.atoms, axis=2) + 9 * np.eye(12)
    assert (merged.size == mu.size) == (far.min() > tolerance)


def test_merging_joins_chains_and_drops_atoms_without_weight():
    mu = Measure([[0.0], [0.9], [1.8], [9.0], [0.45]], [0.2, 0.2, 0.4, 0.2, 0.0])
    merged = mu.merge(1.0)
    np.testing.assert_allclose(merged.atoms, [[1.125], [9.0]])
    np.testing.assert_allclose(merged.weights, [0.8, 0.2])
    assert mu.merge().size == mu.merge(0.5).size == 4  # the atom without weight is no bridge
