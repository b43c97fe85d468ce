"""Influence: against finite differences, closed forms, and a wrong adjoint."""

from types import SimpleNamespace

import numpy as np
import pytest
from reference import heads, make

from mfbook.flow import gradient_flow
from mfbook.flow import influence as module
from mfbook.flow.influence import influence
from mfbook.measure import Measure
from mfbook.models.confinement import Anchor, Ridge
from mfbook.transport import direction, distance_to, saturated


def slope(F, mu, tilt, t, quantity, h=1e-3):
    """Derivative of a quantity of the flow along a mixture, by a central difference."""
    starts = [Measure(mu.atoms, mu.weights + s * tilt) for s in (h, -h)]
    ends = [gradient_flow(F, start, [0, t], rtol=1e-9, atol=1e-11).end for start in starts]
    up, down = (F(e) if quantity is None else e.integrate(quantity(e.atoms)) for e in ends)
    return (up - down) / (2 * h)


@pytest.fixture(scope="module")
def problem():
    R, _ = make(seed=3)
    mu = Measure(heads(4, 5, R.shape), np.random.default_rng(5).dirichlet(np.ones(5)))
    tilt = np.random.default_rng(6).dirichlet(np.ones(5)) - mu.weights
    return R, mu, tilt


@pytest.mark.parametrize("confined", [False, True])
@pytest.mark.parametrize("name", ["risk", "direction", "distance", "saturated"])
def test_influence_is_the_derivative_along_a_mixture(problem, name, confined):
    R, mu, tilt = problem
    F = R + Ridge(0.2) if confined else R
    u = np.random.default_rng(7).normal(size=mu.dim)
    f = {
        "risk": None,
        "direction": direction(u),
        "distance": distance_to(u),
        "saturated": saturated(u),
    }[name]
    (psi,) = influence(F, mu, [1.5], f, rtol=1e-6)
    expected = slope(F, mu, tilt, 1.5, f)
    assert abs(tilt @ psi - expected) < 2e-4 * max(abs(expected), 1e-2)
    assert abs(mu.weights @ psi) < 1e-14


def test_time_zero_is_the_first_variation(problem):
    R, mu, _ = problem
    psi = influence(R, mu, [0.0])[0]
    value = R.first_variation(mu.atoms, mu)
    assert np.allclose(psi, value - mu.weights @ value, rtol=0, atol=1e-14)


def test_without_interaction_each_head_carries_its_own_value():
    """For a potential, U_t is linear: the influence is the value at the end."""
    F, mu = Anchor(0.7, [1.0, 0.0]), Measure([[3.0, 1.0], [0.0, -2.0], [1.0, 0.5]], [0.2, 0.5, 0.3])
    end = gradient_flow(F, mu, [0, 1.5]).end
    value = F.first_variation(end.atoms, end)
    assert np.allclose(influence(F, mu, [1.5])[0], value - mu.weights @ value, atol=1e-6)


class Squares:
    """c times the squared length."""

    def __init__(self, c):
        self.c = c

    def __call__(self, x):
        return self.c * (x**2).sum(axis=1)

    def gradient(self, x):
        return 2 * self.c * x


def test_influence_is_linear_in_what_is_asked_at_any_scale():
    R, _ = make(2, S=2, T=3, d=2, k=1, v=1, V=3)
    mu = Measure(np.random.default_rng(3).normal(size=(3, R.shape.size)))
    one = influence(R, mu, [0.5], Squares(1.0))
    assert np.abs(one).max() > 0.1
    for c in (1e-150, 1e150):
        np.testing.assert_allclose(influence(R, mu, [0.5], Squares(c)) / c, one, rtol=1e-6)
    assert np.array_equal(influence(R, mu, [0.0, 0.5], Squares(0.0)), np.zeros((2, 3)))


def test_the_flow_matters(problem):
    """The first variation alone, without the adjoint, is noticed."""
    R, mu, tilt = problem
    expected = slope(R, mu, tilt, 2.0, None)
    end = gradient_flow(R, mu, [0, 2.0]).end
    for wrong in (R.first_variation(mu.atoms, mu), R.first_variation(end.atoms, end)):
        assert abs(tilt @ wrong / expected - 1) > 0.01


def test_permutation_of_heads_permutes_the_influence(problem):
    R, mu, _ = problem
    order = np.random.default_rng(8).permutation(mu.size)
    there = influence(R, Measure(mu.atoms[order], mu.weights[order]), [1.0], rtol=1e-8)
    assert np.allclose(there, influence(R, mu, [1.0], rtol=1e-8)[:, order], atol=1e-8)


@pytest.mark.slow
def test_deviation_of_draws_is_predicted():
    """Statistical: 200 draws, four standard errors of their deviation."""
    R, _ = make(seed=9)
    law = Measure(heads(10, 40, R.shape))
    psi = influence(R, law, [1.0])[0]
    M, n = 400, 200
    rng = np.random.default_rng(11)
    values = []
    for _ in range(n):
        counts = rng.multinomial(M, law.weights)
        start = Measure(law.atoms, counts / M)
        # the error of these steps is far below a standard error, and nearly the same in all draws
        end = gradient_flow(R, start, [0, 1.0], method="rk4", step=0.25).end
        values.append(R(end))
    assert abs(np.std(values) * np.sqrt(M) / psi.std() - 1) < 4 / np.sqrt(2 * n)


@pytest.mark.parametrize(
    "arguments, options, error, name",
    [
        ((3, [1.0]), {}, TypeError, "mu"),
        ((Measure([[1.0]]), [-1.0]), {}, ValueError, "times"),
        ((Measure([[1.0]]), [[1.0]]), {}, ValueError, "times"),
        ((Measure([[1.0]]), [1.0]), {"rtol": 0.0}, ValueError, "rtol"),
        ((Measure([[1.0]]), [1.0], np.sin), {}, TypeError, "terminal"),
    ],
)
def test_bad_input_is_named(arguments, options, error, name):
    with pytest.raises(error, match=name):
        influence(Ridge(1.0), *arguments, **options)


def test_a_flow_or_an_adjoint_that_stops_is_no_result(problem, monkeypatch):
    R, mu, _ = problem
    failed = SimpleNamespace(success=False, message="step size too small")
    with monkeypatch.context() as patch:
        patch.setattr(module, "solve_ivp", lambda *args, **options: failed)
        with pytest.raises(RuntimeError, match="backward integration failed: step size"):
            influence(R, mu, [0.5])
    stopped = SimpleNamespace(completed=False, reason="was interrupted")
    monkeypatch.setattr(module, "gradient_flow", lambda *args, **options: stopped)
    with pytest.raises(RuntimeError, match="the flow was interrupted"):
        influence(R, mu, [0.5])
