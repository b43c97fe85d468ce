"""Second-order points: the Hessian of all positions, Newton's method, and what it ends at."""

from dataclasses import replace

import numpy as np
import pytest
from examples import on_sphere, points
from examples import sphere_energy as energy

from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere import SphereEnergy, newton, second_order
from mfbook.stability import atomic_stability


@pytest.mark.parametrize("name", ["gelu", "relu", "tanh"])
@pytest.mark.parametrize("d, B", [(2, None), (3, np.diag([1.0, -2.0, 0.5])), (4, 0.3 * np.eye(4))])
def test_second_order_is_atomic_stability(d, B, name):
    """Two independent ways to the Hessian in the metric of L^2."""
    F, mu = energy(2.0, name, d, B=B, bias=d == 4), on_sphere(7, 4, d)
    ours, other = second_order(F, mu), atomic_stability(F, mu)
    np.testing.assert_allclose(ours.eigenvalues, other.collective, atol=1e-11)
    assert ours.gradient == pytest.approx(np.linalg.norm(other.gradient, axis=1).max(), rel=1e-12)
    assert ours.least == ours.eigenvalues.min() and not ours.sopd()
    least = second_order(replace(F, normalised=True), mu).least
    assert least == pytest.approx(ours.least, rel=1e-14)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("units", [None, "gelu", "tanh", "relu"])
def test_newton_descends_to_second_order_points(units, d):
    """Runs of 1, 2, ... steps: E never rises, weights stay, the last speeds are squared."""
    for seed, beta in enumerate((0.5, 5.0, 20.0)):
        F = SphereEnergy(beta) if units is None else energy(beta, units, d, seed=seed)
        mu = on_sphere(seed, 5, d)
        end = newton(F, mu)
        report = second_order(F, end.measure)
        assert end.converged and report.sopd() and F(end.measure) < F(mu)
        assert max(end.gradient, report.gradient, -report.least) <= 1e-10
        assert report.least == pytest.approx(end.least, abs=1e-12)
        values, speeds = [F(mu)], []
        for k in range(1, end.iterations + 1):
            run = newton(F, mu, maxiter=k)
            assert run.iterations == k and run.converged == (k == end.iterations)
            assert (run.measure.weights == mu.weights).all()
            speeds.append(second_order(F, run.measure).gradient)
            assert run.gradient == pytest.approx(speeds[-1], rel=1e-6, abs=1e-14)
            values.append(F(run.measure))
        assert np.diff(values).max() <= 2e-13 * max(1, abs(values[0]))
        if report.least > 1e-3 and len(speeds) > 1:
            assert speeds[-1] <= 1e-14 + 1e3 * beta * speeds[-2] ** 2
        again = newton(F, end.measure)
        assert again.converged and again.iterations == 0


@pytest.mark.parametrize("d", [2, 3])
def test_newton_leaves_saddles_and_ends_antipodal_up_to_rounding(d):
    """A cluster is stationary under repulsion, and has a descending direction."""
    F = SphereEnergy(1.0)
    start = Measure(np.repeat(points(d, 1, d), 2, axis=0))
    assert second_order(F, start).gradient < 1e-15 and not second_order(F, start).sopd()
    end = newton(F, start)
    assert end.converged and end.measure.atoms[0] @ end.measure.atoms[1] < -1 + 1e-9
    # where energies are rounded, the velocities decide
    fine = newton(F, Measure(points(3, 2, d)), tolerance=1e-15)
    assert fine.converged
    np.testing.assert_allclose(fine.measure.atoms[0], -fine.measure.atoms[1], atol=1e-14)


MU = on_sphere(0, 3, 2)
COMPLEX = Measure(Sphere().retract(MU.atoms, 0.1j * MU.atoms[:, ::-1] * [-1, 1]))


@pytest.mark.parametrize("call", [second_order, newton])
def test_measures_that_do_not_fit_are_refused(call):
    ghost = Measure(MU.atoms, [0.5, 0.5, 0.0])
    for mu in (COMPLEX, ghost, on_sphere(0, 3, 3), Measure(MU.atoms * (1 + 1e-3))):
        with pytest.raises((TypeError, ValueError), match="^mu:"):
            call(energy(1.0), mu)
