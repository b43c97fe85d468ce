"""Influence: against finite differences, closed forms, and a wrong adjoint."""

import numpy as np
import pytest
from reference import heads, make

from companion.mathematics.influence import influence
from companion.mathematics.lipschitz import direction, distance_to, saturated
from mfbook.confinement import Anchor, Ridge
from mfbook.flow import Adaptive, gradient_flow
from mfbook.measure import Measure

R, _ = make(seed=3)
MU = Measure(heads(4, 5, R.shape), np.random.default_rng(5).dirichlet(np.ones(5)))
TILT = np.random.default_rng(6).dirichlet(np.ones(5)) - MU.weights
U = np.random.default_rng(7).normal(size=MU.dim)
QUANTITIES = {
    "risk": None,
    "direction": direction(U),
    "distance": distance_to(U),
    "saturated": saturated(U),
}


def slope(F, t, quantity, h=1e-3):
    """Derivative of a quantity of the flow along a mixture, by a central difference."""
    starts = [Measure(MU.atoms, MU.weights + s * TILT) for s in (h, -h)]
    ends = [
        gradient_flow(F, start, [0, t], solver=Adaptive(rtol=1e-9, atol=1e-11)).end
        for start in starts
    ]
    up, down = (F(e) if quantity is None else e.integrate(quantity(e.atoms)) for e in ends)
    return (up - down) / (2 * h)


@pytest.mark.parametrize(
    ("name", "confined"), [("risk", False), *((name, True) for name in QUANTITIES)]
)
def test_influence_is_the_derivative_along_a_mixture(name, confined):
    F, f = R + Ridge(0.2) if confined else R, QUANTITIES[name]
    (psi,) = influence(F, MU, [1.5], f, rtol=1e-5)
    expected = slope(F, 1.5, f)
    assert abs(TILT @ psi - expected) < 2e-4 * max(abs(expected), 1e-2)
    assert abs(MU.weights @ psi) < 1e-14
    if f is None:  # the first variation alone, without the adjoint, is noticed
        end = gradient_flow(F, MU, [0, 1.5]).end
        for wrong in (F.first_variation(MU.atoms, MU), F.first_variation(end.atoms, end)):
            assert abs(TILT @ wrong / expected - 1) > 0.01


def test_time_zero_is_the_first_variation():
    psi = influence(R, MU, [0.0])[0]
    value = R.first_variation(MU.atoms, MU)
    assert np.allclose(psi, value - MU.weights @ value, rtol=0, atol=1e-14)


def test_without_interaction_each_head_carries_its_own_value():
    """For a potential, U_t is linear: the influence is the value at the end."""
    F, mu = Anchor(0.7, [1.0, 0.0]), Measure([[3.0, 1.0], [0.0, -2.0], [1.0, 0.5]], [0.2, 0.5, 0.3])
    end = gradient_flow(F, mu, [0, 1.5]).end
    value = F.first_variation(end.atoms, end)
    assert np.allclose(influence(F, mu, [1.5])[0], value - mu.weights @ value, atol=1e-6)
