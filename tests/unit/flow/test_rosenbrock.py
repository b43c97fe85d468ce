"""The stiff integrator: its order, its estimate, its damping, for any Jacobian."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from mfbook.flow.rosenbrock import Rosenbrock


class Dense:
    """(I - c J) k = b for a matrix J."""

    def __init__(self, J):
        self.J = np.atleast_2d(J)

    def solve(self, c, b):
        return np.linalg.solve(np.eye(len(self.J)) - c * self.J, b)


def pendulum(t, y):
    """A pendulum, and a fast coordinate that follows its angle."""
    return np.array([y[1], -9 * np.sin(y[0]) - 0.3 * y[1], -400 * (y[2] - np.cos(y[0]))])


def slopes(t, y):
    return Dense([[0, 1, 0], [-9 * np.cos(y[0]), -0.3, 0], [-400 * np.sin(y[0]), 0, -400]])


SPAN, BEGIN = (0.5, 2.5), [2.0, 0.5, -1.0]
EXACT = solve_ivp(pendulum, SPAN, BEGIN, "Radau", rtol=1e-11, atol=1e-12).y[:, -1]


def steps_and_error(h=None, linearised=slopes, **options):
    """With steps of length h, or of the solver's own."""
    solver = Rosenbrock(pendulum, SPAN[0], BEGIN, SPAN[1], linearised, first_step=h, **options)
    n = 0
    while solver.status == "running":
        solver.h_abs = h or solver.h_abs
        solver.step()
        n += 1
    return n, np.abs(solver.y - EXACT).max()


@pytest.mark.parametrize("exact", [True, False])
def test_order_two(exact):
    """With the Jacobian, and with zero in its place, where the steps are stable."""
    linearised = slopes if exact else lambda t, y: Dense(np.zeros((3, 3)))
    h = 1 / np.array([64, 128, 256] if exact else [512, 1024, 2048])
    errors = [steps_and_error(step, linearised, atol=1e9)[1] for step in h]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.2)


def test_error_estimate_is_of_third_order():
    """Steps chosen at two tolerances: their number grows with the power -1/3."""
    (few, coarse), (many, fine) = (steps_and_error(rtol=1e-13, atol=a) for a in (1e-5, 1e-8))
    assert many / few == pytest.approx(10, rel=0.3)
    assert fine < coarse / 30 and coarse < 1e-2


def test_a_stiff_component_is_damped_at_once():
    """L-stability: the factor of one step vanishes as the rate grows, and large steps stay stable.

    An explicit pair would take millions of steps of 2.5 over the rate.
    """
    for rate in (1e3, 1e6, 1e9):
        solver = Rosenbrock(lambda t, y, r=rate: -r * y, 0.0, [1.0], 10.0,
                            lambda t, y, r=rate: Dense(-r), atol=1e9, first_step=1.0)  # fmt: skip
        solver.step()
        assert abs(solver.y[0]) < 20 / rate

    def slow(t, y):
        return np.array([-1e6 * (y[0] - np.cos(y[1])), 1.0])

    def linearised(t, y):
        return Dense([[-1e6, -1e6 * np.sin(y[1])], [0.0, 0.0]])

    run = solve_ivp(slow, (0, 10), [2.0, 0.0], method=Rosenbrock, linearised=linearised,
                    rtol=1e-4, atol=1e-6)  # fmt: skip
    assert run.success and run.nfev < 2000
    assert np.abs(run.y[0] - np.cos(run.t))[run.t > 1].max() < 1e-3


def test_a_solution_that_ends_is_a_failure():
    """x' = -1/x reaches zero at t = 1/2."""
    with np.errstate(all="ignore"):
        run = solve_ivp(lambda t, y: -1 / y, (0, 9), [1.0], method=Rosenbrock,
                        linearised=lambda t, y: Dense(1 / y**2))  # fmt: skip
    assert not run.success and run.t[-1] == pytest.approx(0.5, abs=1e-2)
