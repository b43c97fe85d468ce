"""Rates from an inequality: exact power laws, integrated equations, real flows."""

import numpy as np
import pytest
from scipy.stats import t as student

from mfbook.stability import kl_fit


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.75, 0.9])
def test_exact_power_laws(alpha):
    E = np.geomspace(3.0, 1e-7, 100)
    fit = kl_fit(E, 0.2 * E ** (2 * alpha))
    assert fit.alpha == pytest.approx(alpha, abs=1e-12)
    assert fit.slope == 2 * fit.alpha
    # two points for each of the eight blocks are enough
    assert kl_fit(E[:16], E[:16] ** (2 * alpha)).alpha == pytest.approx(alpha, abs=1e-9)
    np.testing.assert_allclose(fit.slopes, 2 * alpha, atol=1e-10)
    assert fit.interval[0] <= alpha + 1e-11 and fit.interval[1] >= alpha - 1e-11


def test_fit_is_that_of_its_blocks():
    rng = np.random.default_rng(0)
    E = np.geomspace(1.0, 1e-3, 12)
    D = 2 * E**1.4 * np.exp(0.1 * rng.normal(size=12))
    shuffled = rng.permutation(12)
    fit = kl_fit(E[shuffled], D[shuffled], blocks=3)
    x, y = np.log(E), np.log(D)
    slopes = [np.polyfit(x[i : i + 4], y[i : i + 4], 1)[0] for i in (0, 4, 8)]
    np.testing.assert_allclose(fit.slopes, slopes, rtol=1e-12)  # from the largest E on
    assert fit.slope == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-12)
    half = student.ppf(0.975, 2) * np.std(slopes, ddof=1) / np.sqrt(3)
    ends = (np.mean(slopes) - half) / 2, (np.mean(slopes) + half) / 2
    assert fit.interval == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("gap", lambda: kl_fit([1.0, 0.0], [1.0, 1.0])),
        ("gap", lambda: kl_fit(np.geomspace(1, 0.1, 15), np.ones(15))),
        ("gap", lambda: kl_fit(np.ones(16), np.ones(16))),
        ("gap", lambda: kl_fit([4.0, 3.0, 1.0, 1.0], np.ones(4), blocks=2)),
        ("dissipation", lambda: kl_fit(np.arange(1.0, 17), np.ones(15))),
        ("blocks", lambda: kl_fit(np.arange(1.0, 17), np.ones(16), blocks=1)),
    ],
)
def test_bad_input(name, call):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
