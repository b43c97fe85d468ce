r"""Numbers at the ends of the range, against arithmetic with 100 digits (mpmath) or a closed form.

Tolerances: a score that is a product of unit vectors carries a rounding error of a few eps, so an
exponential of beta times it has a relative error of a few beta * eps. Where an exponent z is
computed in one rounding, the exponential is right to z * eps.
"""

import math

import mpmath
import numpy as np
import pytest
from examples import on_circle
from mpmath import mp, mpf

from companion.mathematics.constants import hessian_attained, inflection
from mfbook import bounds
from mfbook.activations import GELU, TANH
from mfbook.attention import AttentionRisk, HeadShape, attention_weights, features
from mfbook.confinement import Ridge
from mfbook.flow import Adaptive, gradient_flow, polynomial_decay
from mfbook.flow.ensemble import ensemble_gradient
from mfbook.measure import Measure, mixture
from mfbook.sphere import (
    SphereEnergy,
    anticoncentration,
    funk_hecke,
    kernel,
    settle,
)
from mfbook.stability import atomic_stability
from mfbook.transport import optimal_plan, wasserstein

EPS = np.finfo(float).eps
BETAS = [1e-6, 1e-3, 1.0, 1e3, 1e6]
METHODS = ("RK45", "DOP853", "Radau", "BDF", "LSODA")
LEAST = 5e-324  # the smallest positive number


@pytest.fixture(autouse=True)
def digits():
    """A hundred digits, and any exponent."""
    with mp.workdps(100):
        yield


def exact(values):
    """Floating-point numbers as numbers of mpmath, without rounding."""
    return np.vectorize(lambda v: mpf(float(v)), otypes=[object])(np.asarray(values))


def close(found, expected, tolerance=1e-12):
    """Whether all is right relative to the largest entry, or lost below the normal numbers."""
    found, expected = np.ravel(exact(found)), np.ravel(expected)
    assert found.shape == expected.shape
    error, size = max(abs(found - expected)), max(abs(expected))
    assert error <= tolerance * size + mpf("1e-307"), mpmath.nstr(error / (size or 1))


def problem():
    """Two sequences of three tokens, heads (2, 8) of entries of size one, one of them twice."""
    rng, shape = np.random.default_rng(1), HeadShape(2, 1, 1)
    X, W_U = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3))
    X[1, 1] = X[1, 0]  # two equal tokens tie
    Y = rng.dirichlet(np.ones(3), size=(2, 3))
    return AttentionRisk(X, Y, W_U, shape), rng.normal(size=(2, shape.size))


def softmax(scores):
    e = np.array([mpmath.exp(s - max(scores)) for s in scores])
    return e / sum(e)


def head_logits(theta, X, W_U):
    """Features of one head (8,) with d = 2, k = v = 1 on one sequence, (T, V)."""
    W_Q, W_K, W_V, W_O = np.split(theta, 4)
    rows = []
    for t, x in enumerate(X):
        attended = softmax((x @ W_Q) * (X[: t + 1] @ W_K)) @ X[: t + 1]
        rows.append((attended @ W_V) * (W_O @ W_U))
    return np.array(rows)


def log_sum(f):
    top = max(f)
    return top + mpmath.log(sum(mpmath.exp(x - top) for x in f))


@pytest.mark.parametrize("size", [1e-300, 1e-6, 1.0, 1e3, 1e6])
def test_heads_of_any_size(size):
    R, theta = problem()
    theta = size * theta
    X, Y, W_U, heads = map(exact, (R.X, R.Y, R.W_U, theta))

    def all_logits(h):
        return np.array([head_logits(h, x, W_U) for x in X])

    phi = np.array([all_logits(h) for h in heads])
    f = np.tensordot(exact([0.25, 0.75]), phi, 1)
    p = np.array([[softmax(row) for row in rows] for rows in f])
    mu = Measure(theta, [0.25, 0.75])
    local = R.at(mu)
    close(features(theta, R.X, R.W_U, R.shape), phi)
    close(local.logits, f)
    close(local.value, sum(log_sum(f[i]) - f[i] @ Y[i] for i in np.ndindex(2, 3)) / 6)
    close(local.residual, p - Y)
    close(local.first_variation(theta), [((p - Y) * v).sum() / 6 for v in phi])
    assert np.abs(attention_weights(theta, R.X, R.shape).sum(axis=-1) - 1).max() <= 4 * EPS

    # derivatives: difference quotients with a step of 1e-50, of which all digits are right
    step, unit = mpf(float(size)) * mpf("1e-50"), np.eye(8, dtype=int)
    slope = np.array(
        [
            [((p - Y) * (all_logits(h + step * e) - v)).sum() / 6 / step for e in unit]
            for h, v in zip(heads, phi, strict=True)
        ]
    )
    # each matrix by itself: those of scores and of values differ by a power of the size
    stacked = local.gradient(theta)
    for part in np.split(np.arange(8), 4):
        close(stacked[:, part], slope[:, part], 1e-11)
    g = ensemble_gradient(theta.T[:, None], R.X[None], R.Y[None], R.W_U, R.shape)[:, 0].T
    equal = R.gradient(theta, Measure(theta))
    assert np.abs(g - equal).max() <= 1e-11 * np.abs(equal).max()


def pair_sums(x, y, w, beta):
    """Z and N of the kernel with sharpness beta, at points x for particles y."""
    x, y, w = exact(x), exact(y), exact(w)
    K = [[mpmath.exp(mpf(beta) * (p @ q - 1)) for q in y] for p in x]
    K = np.array(K) * w
    return K.sum(axis=1), K @ y


def tangent(x, v):
    x = exact(x)
    return v - (x * v).sum(axis=1)[:, None] * x


@pytest.mark.parametrize("beta", BETAS)
def test_energy_and_field_at_any_temperature(beta):
    width = min(1.0, 1 / math.sqrt(beta))  # neighbours at distances that the kernel sees
    x = on_circle(0.0, 0.0, width, 2.5 * width, 2.0)
    x = np.column_stack([x * np.cos(width), np.full(5, np.sin(width))])
    w = np.array([0.3, 0.1, 0.2, 0.15, 0.25])
    Z, N = pair_sums(x, x, w, beta)
    tolerance = 1e-13 + 8 * beta * EPS
    mu = Measure(x, w)
    F, G = SphereEnergy(beta), SphereEnergy(beta, normalised=True)
    close(F(mu), exact(w) @ Z / (2 * mpf(beta)), tolerance)
    close(F.first_variation(x, mu), Z / mpf(beta), tolerance)
    close(F.gradient(x, mu), N, tolerance)
    close(F.velocity(x, mu), tangent(x, N), tolerance * 10)
    close(G.velocity(x, mu), tangent(x, N / Z[:, None]), tolerance * 10)
    away = -x[[0]]  # at the other end there is nothing left of the kernel
    Z, N = pair_sums(away, x, w, beta)
    close(G.velocity(away, mu), tangent(away, N / Z[:, None]), tolerance * 10)


@pytest.mark.parametrize("beta", BETAS)
def test_kernel_and_its_constants(beta):
    b = mpf(beta)
    for u in (1e-9, min(1.0, 1 / math.sqrt(beta)), 1.0, 3.0):
        v = mpf(u)
        h = mpmath.exp(b * (mpmath.cos(v) - 1))
        slope = b * mpmath.sin(v) ** 2 - mpmath.cos(v)
        exponent = 1e-14 + 4 * EPS * float(b * (1 - mpmath.cos(v)))
        close(kernel(u, beta)[0], h, exponent)
        close(kernel(u, beta)[1], -b * mpmath.sin(v) * h, exponent)
        # the bracket cancels at the angle of inflection: relative to its terms
        error = abs(mpf(float(kernel(u, beta)[2])) - b * slope * h)
        assert error <= (exponent * (1 + b * v * v) + mpf("1e-300")) * b * h + mpf("1e-307")
    for d in (2, 3, 40, 400):
        nu = mpf(d) / 2 - 1
        for k in (0, 1, 5, 150):
            eigenvalue = mpmath.gamma(nu + 1) * (2 / b) ** nu * mpmath.besseli(k + nu, b)
            close(funk_hecke(beta, d, k), eigenvalue * mpmath.exp(-b), 1e-11)
    close(inflection(beta), mpmath.acos((mpmath.sqrt(1 + 4 * b * b) - 1) / (2 * b)), 1e-14)

    def g(c):
        return mpmath.exp(b * (c - 1)) * (b * (1 - c * c) - c)

    top = (mpmath.sqrt(5 + 4 * b * b) - 3) / (2 * b)
    near = mpmath.cos(min(1 / (2 * mpmath.sqrt(b)), mpmath.pi))
    a = -(g(near) if top < near else g(max(top, -1)))
    found = anticoncentration(beta)
    close(found, [a, g(max(top, mpf(-1)))])


@pytest.mark.parametrize("s", [1e-300, 1e-9, 1e-4, 0.3, 0.99, 1.01, 5.0, 40.0, 1e6])
def test_primitives_from_tiny_to_large(s):
    for sign in (1, -1):
        z = mpf(sign * s)
        below = mpmath.ncdf(z)
        gelu = z * z * below + z * mpmath.npdf(z) - below + mpf(0.5)
        # three terms of size s cancel to one of size s^2
        found = mpf(float(GELU.primitive(np.array(sign * s))))
        assert abs(found - gelu) <= 8 * EPS * min(s, 1 + s * s) + 8 * EPS * abs(gelu)
        if s < 1e5:
            close(TANH.primitive(np.array(sign * s)), 2 * mpmath.log(mpmath.cosh(z)), 1e-14)
    close(TANH.primitive(np.array(1e6)), 2e6 - 2 * mpmath.log(2), 1e-15)


@pytest.mark.parametrize("tiny", [1e-300, LEAST, 0.0])
def test_weights_that_are_nearly_nothing(tiny):
    R, theta = problem()
    one, both = Measure(theta[:1]), Measure(theta, [1 - tiny, tiny])
    assert R(both) == pytest.approx(R(one), rel=1e-15)
    assert np.abs(R.gradient(theta, both) - R.gradient(theta, one)).max() < 1e-15
    assert both.merge(1e-3).weights.tolist() == ([1.0, tiny] if tiny else [1.0])
    assert mixture(one, both, tiny).weights.tolist() == [1 - tiny, tiny, tiny * tiny]

    x = on_circle(0.3, 2.0)
    for F in (SphereEnergy(3.0, normalised=True), SphereEnergy(3.0)):
        mu = Measure(x, [1 - tiny, tiny])
        assert np.abs(F.velocity(x, mu) - F.velocity(x, Measure(x[:1]))).max() < 1e-15
        assert settle(F, mu, ascent=True).clusters.count == 1


@pytest.mark.parametrize("tiny", [1e-12, 1e-300, LEAST])
def test_stability_with_an_atom_that_is_nearly_nothing(tiny):
    """Its interaction with itself and with others does not depend on how little it is."""
    R, theta = problem()
    F = R + Ridge(0.1)
    report = atomic_stability(F, Measure(theta, [1 - tiny, tiny]))
    larger = atomic_stability(F, Measure(theta, [1 - 1e-9, 1e-9]))
    assert np.abs(report.K - larger.K).max() < 1e-7 * np.abs(larger.K).max()
    assert np.abs(report.collective - larger.collective).max() < 1e-6
    # without mass it is a test particle: its own Hessian joins those of the rest
    alone = atomic_stability(F, Measure(theta[:1]))
    expected = np.sort(np.concatenate([alone.collective, report.deviations[1]]))
    assert np.abs(report.collective - expected).max() < 1e-5


@pytest.mark.parametrize("tiny", [1e-17, 1e-300, LEAST])
def test_transport_of_nearly_nothing(tiny):
    """To a point mass every plan is the product, however little there is to move."""
    for dim in (1, 2):
        x = np.zeros((2, dim))
        x[1, 0] = 1e6
        mu, nu = Measure(x, [1 - tiny, tiny]), Measure(np.zeros((1, dim)))
        close(wasserstein(mu, nu, 1), mpf(tiny) * 10**6)
        close(wasserstein(nu, mu, 2), mpmath.sqrt(mpf(tiny)) * 10**6)
    plan = optimal_plan(Measure([[0.0], [1.0]], [1 - tiny, tiny]), Measure([[3.0], [5.0]]))
    assert plan.mass.sum() == pytest.approx(1) and (plan.mass > 0).all()


@pytest.mark.parametrize("rate", [1e-70, 1e6, 1e70])
@pytest.mark.parametrize("method", METHODS)
def test_rates_of_any_size(rate, method):
    """The flow knows no unit of time: exp(-rate t) up to a hundred times the tolerance."""
    times = np.array([0.0, 0.5, 2.0]) / rate
    run = gradient_flow(
        Ridge(rate), Measure([[1.0]]), times, solver=Adaptive(rtol=1e-7, method=method)
    )
    assert run.completed
    assert np.abs(run.atoms.ravel() - np.exp(-rate * times)).max() < 1e-5


@pytest.mark.parametrize("power", [0.0, 1 - 1e-16, 1.0, 1 + 3e-16, 1.5, 1e3])
@pytest.mark.parametrize("scale", [1e-74, 1.0, 1e74])
def test_clock_of_a_decaying_rate(scale, power):
    xi, p, s = polynomial_decay(0.5, scale, power), mpf(power), mpf(scale)
    for t in (0.0, 1e-200, 1e-12, 1.0, 1e6, 1e75):
        log = mpmath.log1p(mpf(t) / s)
        exponent = EPS * float(abs(1 - p) * log)
        # 1 + t/s is rounded before it is raised to a power
        close(xi(t), mpmath.exp(-p * log) / 2, 1e-14 + EPS * float(p * (1 + 4 * log)))
        tau = s * (log if p == 1 else mpmath.expm1((1 - p) * log) / (1 - p))
        close(xi.tau(t), tau, 1e-14 + 8 * exponent)


@pytest.mark.parametrize("R_X", [1e-30, 1.0, 1e25])
@pytest.mark.parametrize("r", [1e-30, 1.0, 1e25])
def test_bounds_from_tiny_to_huge(R_X, r):
    x, s, R_U, k = mpf(R_X), mpf(r), mpf("1e-3"), 3
    g = x**2 * s**2 / mpmath.sqrt(k)
    c = 4 / (3 * mpmath.sqrt(3))
    a = g + 2 * c * g * g
    B, L = x * R_U * s**2, mpmath.sqrt(2) * x * R_U * s * mpmath.sqrt(1 + g * g)
    H = x * R_U * (1 + a + mpmath.sqrt((1 - a) ** 2 + 16 * g * g)) / 2
    found = bounds.feature_bounds(R_X, 1e-3, r, k)
    for value, expected in ((found.B, B), (found.L, L), (found.H, H)):
        close(value, expected, 1e-14)
    attained = hessian_attained(R_X, 1e-3, r, k)
    assert attained <= found.H * (1 + 1e-12) and found.H <= 1.62 * attained
