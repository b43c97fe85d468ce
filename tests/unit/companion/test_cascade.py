"""Cascades of splits: the file, a row of it, and the programs behind it."""

import numpy as np
import pytest

from companion.experiments import cascade
from mfbook.confinement import Ridge
from mfbook.measure import Measure


@pytest.fixture(scope="module")
def stored():
    return cascade.load()


def test_the_file_covers_its_tasks_and_ridges(stored):
    shape = (len(cascade.SHARES), cascade.TASKS)
    assert stored["pull"].shape == shape and np.isfinite(stored["value"]).all()
    assert stored["value"].shape == (shape[0], len(cascade.HEADS), shape[1])


def test_values_fall_with_every_round_and_stay_above_the_infimum(stored):
    assert np.diff(stored["value"], axis=1).max() < 1e-9
    assert (stored["infimum_low"] <= stored["infimum"]).all()
    assert (stored["infimum"] < stored["uniform"]).all()
    assert (stored["value"] - stored["price"] > stored["infimum_low"][:, None]).all()


def test_layers_side_by_side_are_the_risk_with_ridge():
    tasks, rng = np.arange(cascade.TASKS), np.random.default_rng(0)
    x, lam = rng.normal(size=(len(tasks), 3, 8)), rng.uniform(0.1, 1, len(tasks))
    X, Y = cascade.data()
    value, slope = cascade.evaluate(x, X, Y, lam, lam)
    for i in (0, 31):
        F, mu = cascade.risk(i) + Ridge(lam[i]), Measure(x[i])
        assert abs(value[i] - F(mu)) < 1e-12
        assert np.abs(slope[i] - F.gradient(mu.atoms, mu)).max() < 1e-12
    free, _ = cascade.evaluate(x, X, Y, 0 * lam, lam)
    assert np.allclose(value - free, cascade.price(x, lam))
    zero = Measure(np.zeros((1, 8)))
    C = cascade.risk(5).at(zero).correlation(zero.atoms)[0]
    assert abs(cascade.critical()[5] - np.linalg.norm(C, 2)) < 1e-12
