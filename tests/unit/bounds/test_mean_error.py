"""The mean error over draws: sums against brute force, the limit and the bound against the coin."""

import itertools
import math

import numpy as np
import pytest

from mfbook.bounds import feature_bounds, leading_coefficient
from mfbook.bounds.derivatives import directional_derivatives
from mfbook.bounds.mean_error import (
    mean_error_bound,
    mean_error_coefficient,
    mean_over_draws,
    third_derivative_bound,
)
from mfbook.flow import gradient_flow
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape
from mfbook.models.confinement import Ridge

ONE = HeadShape(1, 1, 1)
COIN = AttentionRisk([[[1.0]]], [[[0.5, 0.5]]], [[1.0, -1.0]], ONE)
PAIR = np.array([[0, 0, 1, 1], [0, 0, 1, -1.0]])


# ---------------------------------------------------------------- exact means


def test_sums_agree_with_all_sequences_of_draws():
    w = np.array([0.5, 0.3, 0.2])

    def U(counts):
        return np.array([counts[0] * counts[1] ** 2, math.exp(-counts[2])])

    brute = 0.0
    for draws in itertools.product(range(3), repeat=4):
        counts = tuple(draws.count(i) for i in range(3))
        brute = brute + np.prod(w[list(draws)]) * U(counts)
    assert np.allclose(mean_over_draws(U, w, 4), brute, rtol=1e-12)


@pytest.mark.parametrize("M", [1, 2, 7])
def test_two_atoms_give_the_polynomial_of_bernstein(M):
    w = 0.3
    cube = mean_over_draws(lambda n: (n[0] / M) ** 3, [w, 1 - w], M)
    central = w * (1 - w) * (1 - 2 * w) / M**2
    assert cube == pytest.approx(w**3 + 3 * w * w * (1 - w) / M + central, rel=1e-12)


def test_an_atom_without_mass_is_never_drawn():
    seen = []
    assert mean_over_draws(lambda n: seen.append(n) or 1.0, [0.0, 1.0], 5) == pytest.approx(1)
    assert seen == [(0, 5)]


# ---------------------------------------------------------------- the limit


def test_coefficient_of_the_coin_is_the_one_by_hand():
    times = np.array([0.0, 0.3, 1.0])
    beta = mean_error_coefficient(COIN, Measure(PAIR), times)
    assert np.allclose(beta, np.exp(-4 * times) / 2, rtol=2e-3)


def test_coefficient_is_that_of_chapter_4_at_the_start():
    shape, rng = HeadShape(2, 1, 1), np.random.default_rng(0)
    Y = rng.dirichlet(np.ones(3), size=(2, 3))
    R = AttentionRisk(rng.normal(size=(2, 3, 2)), Y, rng.normal(size=(2, 3)), shape)
    mu = Measure(rng.normal(size=(4, shape.size)), rng.dirichlet(np.ones(4)))
    found = mean_error_coefficient(R, mu, [0.0])[0]
    assert found == pytest.approx(leading_coefficient(R, mu), rel=1e-3)
    # a potential is linear in the law
    assert mean_error_coefficient(R + Ridge(0.7), mu, [0.0])[0] == pytest.approx(found, rel=1e-6)


# ---------------------------------------------------------------- third derivative


def norms(theta, h, X, shape):
    moved = directional_derivatives(theta + 1e-30j * h, h, X, np.eye(X.shape[-1]), shape)[2]
    return np.linalg.norm(moved.imag / 1e-30, axis=1)


@pytest.mark.parametrize("r", [0.1, 0.5, 1.0, 2.0])
def test_no_third_derivative_exceeds_its_bound(r):
    shape, n, rng = HeadShape(2, 1, 1), 20000, np.random.default_rng(1)
    theta = shape.ball(r).project(1e3 * rng.normal(size=(n, shape.size)))
    h = rng.normal(size=theta.shape)
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    X = rng.normal(size=(n, 3, 2))
    X[: n // 2, 1:] = X[: n // 2, :1] * rng.choice([-1, 1], size=(n // 2, 2, 1))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    found = norms(theta, h, X, shape).max()
    bound = third_derivative_bound(1.0, 1.0, r, 1)
    assert found <= bound
    if r <= 0.5:  # where it is nearly the least possible one
        assert found > 0.15 * bound
    # tokens and projection scaled: g is kept, features grow
    assert third_derivative_bound(2.0, 3.0, r / 2, 1) == pytest.approx(12 * bound)


def test_third_derivative_is_the_difference_of_second_ones():
    shape, rng = HeadShape(2, 1, 1), np.random.default_rng(2)
    theta, h = rng.normal(size=(2, 5, shape.size))
    X, e = rng.normal(size=(5, 3, 2)), 1e-5
    up, down = (directional_derivatives(theta + s * h, h, X, np.eye(2), shape)[2] for s in (e, -e))
    expected = np.linalg.norm(up - down, axis=1) / (2 * e)
    assert np.allclose(norms(theta, h, X, shape), expected, rtol=1e-6)


# ---------------------------------------------------------------- the bound


def by_steps(r, kappa, delta, times, n=40000):
    """The comparison equations by Euler's method, for k = 1 and unit data."""
    b, T = feature_bounds(1.0, 1.0, r, 1), third_derivative_bound(1.0, 1.0, r, 1)
    e = lam = nu = z = 0.0
    dt, out = times[-1] / n, []
    for i in range(n + 1):
        t = i * dt
        root, omega, d = math.sqrt(e), math.sqrt(e * lam), delta(t)
        spread = min(2 * b.B, b.L * d)
        f = spread + b.L * root
        p = min(2 * b.L * omega, b.H * d * omega + b.L * nu)
        if i % (n // (len(times) - 1)) == 0:
            total = f * f / 2 + math.sqrt(2) * (2 * p + b.H * e + b.L * z)
            out.append(math.log10(total / 4))
        k = kappa(t, b)
        z += dt * (
            k * z + math.sqrt(2) * T * omega * root + b.H * root * f
            + b.L * (math.sqrt(6) / 9 * f * f + p + b.H * e / 2)
        )  # fmt: skip
        nu += dt * (k * nu + math.sqrt(2) * T * d * omega + b.H * d * f / 2)
        e, lam = e + dt * (2 * k * e + spread**2 / 4), lam + dt * b.L**2
    return np.array(out)


TIMES = np.linspace(0, 2, 5)


def test_bound_solves_its_equations():
    found = mean_error_bound(1.0, 1.0, 1, TIMES, radius=0.7)
    expected = by_steps(0.7, lambda t, b: math.sqrt(2) * b.H, lambda t: 1e6, TIMES)
    assert np.allclose(found, expected, atol=2e-3)
    given = {"kappa": lambda t: 0.5 - t, "diameter": lambda t: 0.1 * math.exp(-t)}
    found = mean_error_bound(1.0, 1.0, 1, TIMES, radius=lambda t: 0.7, **given)
    expected = by_steps(0.7, lambda t, b: 0.5 - t, given["diameter"], TIMES)
    assert np.allclose(found, expected, atol=2e-3)


def test_order_of_times_does_not_matter_and_what_overflows_is_infinite():
    found = mean_error_bound(1.0, 1.0, 1, [2.0, 0.0, 1.0, 1.0], radius=0.7)
    assert np.allclose(found, mean_error_bound(1.0, 1.0, 1, TIMES, radius=0.7)[[4, 0, 2, 2]])
    grown = mean_error_bound(1.0, 1.0, 1, [0.0, 0.1, 1.0], radius=lambda t: 10.0 ** (100 * t**2))
    assert np.isfinite(grown[:2]).all() and grown[2] == math.inf
    assert mean_error_bound(1.0, 1.0, 1, [0.0, 1.0], radius=1.0, diameter=lambda t: 0.0)[0] == (
        -math.inf
    )


@pytest.mark.parametrize("lam", [0.0, 2.4])
def test_exact_mean_errors_of_the_coin_are_below(lam):
    """Heads (1, 1) and (1, -1): no entry grows faster than exp(t)."""
    times, F = np.array([0.0, 0.2, 0.5, 1.0]), COIN + Ridge(lam) if lam else COIN
    later = [
        [COIN(run.measure(i)) for i in range(len(times))]
        for run in (gradient_flow(F, Measure(PAIR, [n / 4, 1 - n / 4]), times) for n in range(5))
    ]
    error = mean_over_draws(lambda n: np.array(later[n[0]]), [0.5, 0.5], 4) - later[2]
    options = {"radius": lambda t: math.exp((1 - lam) * t)}
    if lam:
        r = options["radius"]
        options["kappa"] = lambda t: (
            math.sqrt(2) * feature_bounds(1.0, math.sqrt(2), r(t), 1).H - lam
        )
    C = 10 ** mean_error_bound(1.0, math.sqrt(2), 1, times, **options)
    assert (4 * np.abs(error) <= C).all()
    assert 4 * error[0] > 0.4 * C[0]


def test_arguments_are_named():
    mu = Measure(PAIR)
    for call, name in [
        (lambda: third_derivative_bound(1.0, 0.0, 1.0, 1), "R_U"),
        (lambda: mean_error_bound(1.0, 1.0, 1, [-1.0], radius=1.0), "times"),
        (lambda: mean_error_bound(1.0, 1.0, 1, [1.0], radius=0.0), "radius"),
        (lambda: mean_error_bound(1.0, 1.0, 1, [1.0], radius=1.0, kappa=1.0), "kappa"),
        (lambda: mean_error_bound(1.0, 1.0, 1, [1.0], radius=1.0, diameter=1.0), "diameter"),
        (lambda: mean_error_coefficient(COIN, Measure(PAIR, [0.0, 1.0]), [1.0]), "mu"),
        (lambda: mean_error_coefficient(COIN, mu, [1.0], step=1.0), "step"),
        (lambda: mean_error_coefficient(COIN, PAIR, [1.0]), "mu"),
        (lambda: mean_over_draws(1.0, [1.0], 2), "values"),
        (lambda: mean_over_draws(len, [0.7, 0.7], 2), "weights"),
        (lambda: mean_over_draws(len, [1.0], 0), "M"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"^{name}:"):
            call()
