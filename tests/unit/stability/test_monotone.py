"""Strong monotonicity: exact for quadratic energies, a quotient that is attained elsewhere."""

import numpy as np
import pytest
from examples import Energy, anchored, small, symmetric

from mfbook.confinement import Anchor
from mfbook.flow import gradient_flow
from mfbook.measure import Measure
from mfbook.stability import (
    atomic_stability,
    curvature_margin,
    dirac_stability,
    strong_monotonicity,
)


def held():
    """A risk whose point mass at the head is stationary, with 1/2 as its least eigenvalue."""
    R, _, theta = small(0)
    bare = atomic_stability(R, Measure.dirac(theta)).deviations[0, 0]
    return anchored(R, theta, 0.5 - bare), theta


def test_monotonicity_of_quadratic_energies_is_exact():
    rng = np.random.default_rng(3)
    for sign, m in ((1, 1), (-1, 1), (1, 2), (-1, 3)):
        A, B = sign * np.diag([0.3, 0.2, 0.1]), symmetric(rng, 3) + 3 * np.eye(3)
        F = Energy(A, B)
        mu = Measure(rng.normal(size=(m, 3)), rng.dirichlet(np.ones(m)))
        report = strong_monotonicity(F, mu, 0, 0.5, couplings=6, descents=1)
        exact = atomic_stability(F, mu).least
        assert report.constant == pytest.approx(exact, abs=1e-9)
        # one particle for each atom: only the collective spectrum
        one = strong_monotonicity(F, mu, 0, 0.5, parts=1, couplings=6, descents=1)
        collective = np.linalg.eigvalsh(A + B)[0]
        if m > 1:  # atoms may move in opposite directions
            collective = min(collective, np.linalg.eigvalsh(B)[0])
        assert one.constant == pytest.approx(collective, abs=1e-9)
        # Remark 7.2, with its exact constants
        margin = curvature_margin(F, np.zeros(3), 0, 1.0)
        assert margin.m == pytest.approx(np.linalg.eigvalsh(B)[0], abs=1e-12)
        assert margin.ell == pytest.approx(0.3, abs=1e-12)
        assert margin.margin == margin.m - margin.ell <= exact + 1e-12


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_monotonicity_constant_is_a_quotient_of_its_worst_measure(near):
    F, theta = held()
    for centre in (Measure.dirac(theta), Measure(np.stack([theta, -theta]), [0.3, 0.7])):
        few = {"couplings": 8, "descents": 1, "maxiter": 20}
        report = strong_monotonicity(F, centre, 1, 0.3, near=near, **few)
        worst = report.worst
        parent = np.repeat(np.arange(centre.size), worst.size // centre.size)
        still = centre.atoms[parent]
        delta = worst.atoms - still
        squares = (delta**2).sum(axis=1)
        below = worst.weights @ squares
        extent = np.sqrt(below if near == "W2" else squares.max())
        assert 0.3e-3 * (1 - 1e-9) <= extent <= 0.3 * (1 + 1e-9)
        np.testing.assert_allclose(np.bincount(parent, worst.weights), centre.weights, atol=1e-14)
        rest = F.gradient(centre.atoms, centre)[parent]
        force = F.gradient(worst.atoms, worst) - rest
        quotient = worst.weights @ (force * delta).sum(axis=1) / below
        assert report.constant == pytest.approx(quotient, rel=1e-9)
        drawn = strong_monotonicity(F, centre, 1, 0.3, near=near, couplings=8, descents=0)
        assert report.constant < drawn.constant


def test_monotonicity_near_a_point_mass_is_the_least_eigenvalue():
    """Between the two is the change of the Hessian inside the radius: of its order."""
    F, theta = held()
    report = dirac_stability(F, theta)
    assert report.deviations[0] == pytest.approx(0.5, abs=1e-12)
    below, few = [], {"parts": 2, "couplings": 2, "descents": 1, "maxiter": 60}
    for radius in (1e-2, 1e-3):
        found = strong_monotonicity(F, Measure.dirac(theta), 0, radius, near="Winf", **few)
        # a start at a thousandth of the radius reaches 1/2 up to so much of the third derivative
        assert found.constant <= 0.5 + 1e-3 * radius
        below.append(0.5 - found.constant)
    assert 0 < below[0] < 0.1
    assert below[1] < 0.3 * below[0]


@pytest.mark.parametrize("near", ["W2", "Winf"])
def test_a_lone_particle_far_away_counts(near):
    """With a millionth of the mass it may be a thousand radii away, as far as W2 can see."""
    R, _, theta = small(1)
    F, mu = R + Anchor(0.4, np.zeros(len(theta))), Measure.dirac(theta)
    few = {"near": near, "parts": 2, "couplings": 1, "descents": 1, "maxiter": 60}
    report = strong_monotonicity(F, mu, 0, 0.5, **few)
    rest, d = F.gradient(mu.atoms, mu), np.random.default_rng(1).normal(size=(4000, mu.dim))
    d *= np.random.default_rng(2).random((4000, 1)) ** 3 / np.linalg.norm(d, axis=1, keepdims=True)
    d *= 0.5 if near == "Winf" else 500.0
    force = F.gradient(theta + d, mu) - rest
    assert report.constant <= ((force * d).sum(axis=1) / (d * d).sum(axis=1)).min()


def test_contraction_is_at_least_the_constant():
    F, theta = held()
    few = {"near": "Winf", "parts": 2, "couplings": 4, "descents": 1}
    report = strong_monotonicity(F, Measure.dirac(theta), 0, 0.2, **few)
    constant, worst = report.constant, report.worst
    assert 0.2 < constant < 0.5
    times, rng = np.linspace(0, 4, 9), np.random.default_rng(5)
    for n in (1, 2, 6):
        delta = rng.normal(size=(n, len(theta)))
        delta *= 0.2 / np.sqrt((delta**2).sum(axis=1).max())
        run = gradient_flow(F, Measure(theta + delta), times)
        distance = np.sqrt(((run.atoms - theta) ** 2).sum(axis=2).mean(axis=1))
        assert (distance <= distance[0] * np.exp(-constant * times) * (1 + 1e-6)).all()
    # a rate above the constant is refuted from the worst measure itself
    run = gradient_flow(F, worst, [0, 1e-3])
    sizes = [np.sqrt(mu.weights @ ((mu.atoms - theta) ** 2).sum(axis=1))
             for mu in (run.measure(0), run.end)]  # fmt: skip
    assert np.log(sizes[0] / sizes[1]) / 1e-3 == pytest.approx(constant, rel=1e-3)


def test_margin_bounds_the_constant_of_attention():
    R, _, theta = small(0)
    F = anchored(R, theta, 6.0)
    margin = curvature_margin(F, theta, 0, 0.05, samples=6)
    few = {"near": "Winf", "parts": 2, "couplings": 4, "descents": 1, "maxiter": 100}
    found = strong_monotonicity(F, Measure.dirac(theta), 0, 0.02, **few)
    assert 0 < margin.margin <= found.constant
    report = dirac_stability(F, theta)
    # the first sample is the centre
    assert margin.m <= report.deviations[0] + 1e-12
    assert margin.ell >= np.linalg.norm(report.K, 2) - 1e-12
    centre = curvature_margin(F, theta, 0, 0.05, samples=1)
    assert centre.m == pytest.approx(report.deviations[0], abs=1e-12)
    assert centre.ell == pytest.approx(np.linalg.norm(report.K, 2), abs=1e-12)
