"""Heads and laws brought to rest: where gradients vanish, and what is said where none is found."""

import numpy as np
import pytest
from examples import Energy
from reference import make, measure

from mfbook.confinement import Anchor, Ridge
from mfbook.flow import Adaptive, gradient_flow
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.optimise import stationary_head, stationary_near
from mfbook.space import Ball, Sphere
from mfbook.sphere import SphereEnergy, Stiff, settle
from mfbook.stability import dirac_stability
from mfbook.transport import coupled_distance


@pytest.mark.parametrize("seed", range(3))
def test_the_end_is_stationary_and_lower(seed):
    R, _ = make(seed)
    F = R + Ridge(0.05)
    start = measure(seed, 1, R.shape).atoms[0]
    end = stationary_head(F, start)
    assert end.completed and end.reason == "at rest" and end.speed < 1e-7
    slope = F.gradient(end.measure.atoms, end.measure)
    assert np.linalg.norm(slope) == pytest.approx(end.speed, abs=1e-12)
    assert end.value == F(end.measure) < F(Measure.dirac(start))
    dirac_stability(F, end.measure.atoms[0])  # does not refuse it
    with pytest.raises(ValueError, match="^theta: .*stationary_head"):
        dirac_stability(F, start)


def test_an_exact_end():
    end = stationary_head(Anchor(0.5, [1.0, -2.0, 0.0]), np.zeros(3))
    np.testing.assert_allclose(end.measure.atoms, [[1.0, -2.0, 0.0]], atol=1e-12)
    E = SphereEnergy(3.0, [[1.0, 0.0, 0.0]], [1.0], "gelu")
    up = stationary_head(-E, [0.6, 0.8, 0.0])
    assert up.completed and up.measure.atoms[0] == pytest.approx([1.0, 0.0, 0.0], abs=1e-7)


class Slope(Functional):
    """A plane: no point is stationary, and a descent never ends."""

    def at(self, mu):
        return Line(mu)


class Line:
    def __init__(self, mu):
        self.value = (mu.weights @ mu.atoms)[0]

    def first_variation(self, x):
        return x[:, 0]

    def gradient(self, x):
        return np.eye(x.shape[1])[:1] + 0 * x


def test_what_does_not_converge_says_so():
    end = stationary_head(Slope(), [1.0, 2.0], maxiter=3)
    assert not end.completed and end.speed == 1.0 and "not at rest" in repr(end)
    # on the boundary of a ball nothing more is allowed: it rests there
    pulled = stationary_head(Energy(np.zeros((2, 2)), -np.eye(2), Ball(1.0, (2,))), [0.3, 0.4])
    assert pulled.completed and np.linalg.norm(pulled.measure.atoms) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_law_at_rest_near_the_end_of_a_flow(seed):
    """Weights stay, positions move little, and other weights lead to another law."""
    R, _ = make(seed)
    F = R + Anchor(0.3, np.random.default_rng(seed).normal(size=R.shape.size))
    end = gradient_flow(F, measure(seed, 3, R.shape), [0, 999], solver=Adaptive(method="BDF")).end
    rest = stationary_near(F, end)
    assert rest.completed and rest.reason == "at rest" and rest.speed < 1e-12
    assert rest.value == F(rest.measure) and np.abs(F.gradient(end.atoms, end)).max() > rest.speed
    np.testing.assert_array_equal(rest.measure.weights, end.weights)
    assert 0 < coupled_distance(rest.measure, end) < 1e-2
    inside = stationary_near(F.on(R.shape.ball(20.0)), end)
    np.testing.assert_allclose(inside.measure.atoms, rest.measure.atoms, rtol=1e-8, atol=1e-9)


def test_a_law_at_rest_on_the_sphere():
    F = SphereEnergy(2.0, [[1.0, 0.0, 0.0]], [0.5], "gelu")
    end = settle(F, Measure(Sphere().sample(1, 4, 3)), Stiff(tolerance=1e-3)).end
    rest = stationary_near(F, end)
    assert rest.completed and F.space.contains(rest.measure.atoms, 1e-14).all()
    assert 0 < coupled_distance(rest.measure, end) < 0.1


def test_where_newtons_method_ends_otherwise():
    falling = stationary_near(Slope(), Measure([[1.0, 2.0]]), steps=2)
    assert not falling.completed and falling.reason == "not at rest after 2 steps"
    F = Energy(np.zeros((2, 2)), np.eye(2), Ball(1.0, (2,)))
    edge = stationary_near(F, Measure([[0.6, 0.8], [0.1, 0.0]]))
    assert not edge.completed and "edge" in edge.reason
    with pytest.raises(ValueError, match="^mu: "):
        stationary_near(F, Measure([[2.0, 0.0]]))
