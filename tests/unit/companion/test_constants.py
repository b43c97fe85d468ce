"""Bounds that one page shows, against the equations that they solve."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from companion.mathematics.constants import inflection, kl_envelope
from mfbook.sphere import kernel


@pytest.mark.parametrize("alpha", [0.5, 0.5 + 1e-9, 0.6, 0.75, 0.95])
def test_envelope_solves_its_equation(alpha):
    tau = np.linspace(0, 5, 11)
    run = solve_ivp(
        lambda _, E: -1.3 * E ** (2 * alpha), (0, 5), [0.7], t_eval=tau, rtol=1e-11, atol=1e-14
    )
    np.testing.assert_allclose(kl_envelope(tau, 0.7, 1.3, alpha), run.y[0], rtol=1e-7)


@pytest.mark.parametrize("beta", [1e-3, 0.1, 1.0, 50.0, 1e6])
def test_inflection(beta):
    u = inflection(beta)
    assert 0 < u < math.pi / 2 and beta == pytest.approx(math.cos(u) / math.sin(u) ** 2)
    assert (kernel(np.linspace(0, u * (1 - 1e-6), 1000), beta)[2] < 0).all()
    assert kernel(u * (1 + 1e-6), beta)[2] > 0
