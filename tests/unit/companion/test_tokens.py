"""Tokens in R^d: against formulas written out, other programs, and what theory says."""

import autograd.numpy as anp
import numpy as np
import ot
import pytest
from autograd import grad, jacobian
from scipy.integrate import quad
from scipy.special import logsumexp

from companion.mathematics.tokens import (
    TokenEnergy,
    asymmetry,
    blow_up_bounds,
    centred_kernel,
    particle_jacobian,
    sinkhorn_field,
    sinkhorn_potential,
    softmax_field,
    softmax_potential,
)
from mfbook.attention import HeadShape, attention_weights
from mfbook.flow import Adaptive, gradient_flow
from mfbook.functional import check_functional
from mfbook.measure import Measure

HUGE, TINY = 1e6, 1e-30


def cloud(seed, n=7, d=2, scale=1.0):
    rng = np.random.default_rng(seed)
    return Measure(scale * rng.normal(size=(n, d)), rng.dirichlet(np.full(n, 5.0)))


# ------------------------------------------------------------------------------- energy


def written_out(x, w, beta):
    return -anp.sum(anp.outer(w, w) * anp.exp(beta * anp.dot(x, x.T))) / (2 * beta)


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_energy_against_the_double_sum_and_autograd(beta, d):
    mu, F = cloud(d, d=d), TokenEnergy(beta)
    assert F(mu) == pytest.approx(written_out(mu.atoms, mu.weights, beta), rel=1e-13)
    in_x = grad(lambda x: written_out(x, mu.weights, beta))(mu.atoms)
    np.testing.assert_allclose(
        mu.weights[:, None] * F.gradient(mu.atoms, mu), in_x, rtol=1e-11, atol=1e-13
    )
    in_w = grad(lambda w: written_out(mu.atoms, w, beta))(mu.weights)
    np.testing.assert_allclose(F.first_variation(mu.atoms, mu), in_w, rtol=1e-12)
    assert check_functional(F, mu, 3).ok


def test_beyond_the_range_of_numbers_the_energy_is_infinite_and_nothing_warns():
    F, mu = TokenEnergy(), Measure([[HUGE, 0.0], [1.0, 1.0]], [0.25, 0.75])
    assert F(mu) == -np.inf and F(Measure.dirac([27.0, 0.0])) == -np.inf
    assert np.isfinite(F(Measure.dirac([26.6, 0.0])))
    assert F.first_variation([[1.0, 0.0]], mu).tolist() == [-np.inf]
    assert F.gradient([[1.0, 0.0]], mu).tolist() == [[-np.inf, 0.0]]
    expected = [[-0.75 / np.e, -0.75 / np.e]]
    np.testing.assert_allclose(F.gradient([[-1.0, 0.0]], mu), expected, rtol=1e-14)
    # a far atom without weight is no atom
    ghost = Measure([[HUGE, 0.0], [1.0, 1.0]], [0.0, 1.0])
    assert F(ghost) == F(Measure.dirac([1.0, 1.0]))


# ------------------------------------------------------------------------------- blow-up


def end_of(mu, beta=1.0):
    """Time at which beta |x|^2 reaches 16, after which at most about 1e-8 is left."""

    def far(t, nu):
        return np.linalg.norm(nu.atoms, axis=1).max() - 4 / np.sqrt(beta)

    far.terminal = True
    upper = blow_up_bounds(mu, beta)[1]
    run = gradient_flow(
        TokenEnergy(beta),
        mu,
        [0, 1.01 * upper],
        solver=Adaptive(rtol=1e-9, atol=1e-11),
        events=[far],
    )
    assert run.completed and run.t[-1] < 1.01 * upper
    return run.t[-1]


@pytest.mark.parametrize("r, beta", [(0.2, 1.0), (1.5, 0.7), (0.5, 2.0)])
def test_a_single_token_blows_up_when_the_closed_form_says(r, beta):
    mu = Measure.dirac([0.6 * r, 0.8 * r])
    exact = quad(lambda s: np.exp(-beta * s * s) / s, r, 30)[0]  # dt = dr / (r e^(beta r^2))
    np.testing.assert_allclose(blow_up_bounds(mu, beta), [exact, exact], rtol=1e-9)
    assert end_of(mu, beta) == pytest.approx(exact, rel=1e-6)


def test_blow_up_times_lie_between_their_bounds():
    for seed in (0, 2, 7):
        mu = cloud(20 + seed, n=2 + seed, d=1 + seed % 3, scale=0.3 + 0.04 * seed)
        lower, upper = blow_up_bounds(mu)
        assert lower < end_of(mu) < upper
    # two opposite tokens, in closed form
    pair = Measure([[0.5, 0.0], [-0.5, 0.0]])
    exact = quad(lambda s: 1 / (s * np.sinh(s * s)), 0.5, 20, epsabs=0, epsrel=1e-12)[0]
    lower, upper = blow_up_bounds(pair)
    assert lower < exact < upper and end_of(pair) == pytest.approx(exact, rel=1e-6)


# ------------------------------------------------------------------------------- softmax


def test_softmax_against_scipy_and_autograd():
    mu, x = cloud(8, d=3), cloud(9, n=4, d=3).atoms
    Q, K = np.random.default_rng(10).normal(size=(2, 2, 3))

    def psi(p, atoms):
        s = anp.dot(anp.dot(atoms, K.T), anp.dot(Q, p))
        return anp.log(anp.sum(mu.weights * anp.exp(s)))

    value = logsumexp(x @ Q.T @ K @ mu.atoms.T, b=mu.weights, axis=1)
    np.testing.assert_allclose(softmax_potential(x, mu, Q=Q, K=K), value, rtol=1e-13)
    slope = np.array([grad(psi)(p, mu.atoms) for p in x])
    field = softmax_field(x, mu, Q=Q, K=K, V=Q.T @ K)
    np.testing.assert_allclose(field, slope, rtol=1e-11, atol=1e-13)
    # complex steps in the atoms
    step = np.zeros(mu.atoms.shape)
    step[2, 1] = 1.0
    moved = softmax_potential(x[:1], Measure(mu.atoms + 1j * TINY * step, mu.weights), Q=Q, K=K)
    exact = grad(lambda atoms: psi(x[0], atoms))(mu.atoms)[2, 1]
    assert moved.imag[0] / TINY == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("name", ["softmax", "Sinkhorn"])
def test_fields_are_the_gradients_of_their_potentials(name):
    mu, x = cloud(11, d=2), cloud(12, n=5).atoms
    f = sinkhorn_potential(mu)
    potential = f if name == "Sinkhorn" else lambda x: softmax_potential(x, mu)
    field = f.field(x) if name == "Sinkhorn" else softmax_field(x, mu)
    for axis in range(2):
        step = potential(x + 1j * TINY * np.eye(2)[axis]).imag / TINY
        np.testing.assert_allclose(field[:, axis], step, rtol=1e-12)


def test_softmax_agrees_with_the_heads_of_the_book():
    """The last position of a head sees all tokens: W_Q = Q^T and so on, scores over sqrt(k)."""
    shape, rng = HeadShape(3, 2, 3), np.random.default_rng(13)
    W_Q, W_K, W_V = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 3))
    X = rng.normal(size=(6, 3))
    A = attention_weights(shape.join(W_Q, W_K, W_V, np.eye(3))[None], X[None], shape)[0, 0]
    field = softmax_field(X[-1:], Measure(X), Q=W_Q.T / np.sqrt(2), K=W_K.T, V=W_V.T)
    np.testing.assert_allclose(field[0], A[-1] @ X @ W_V, rtol=1e-12)


# ------------------------------------------------------------------------------- Sinkhorn


@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_sinkhorn_against_POT(scale):
    mu = cloud(15, n=9, scale=scale)
    f, w = sinkhorn_potential(mu), mu.weights
    plan = ot.sinkhorn(
        w, w, -mu.atoms @ mu.atoms.T, 1.0, method="sinkhorn_log", stopThr=1e-15, numItermax=100000
    )
    assert f.converged
    np.testing.assert_allclose(w[:, None] * f.matrix * w, plan, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 1e3, HUGE])
def test_sinkhorn_is_symmetric_and_stochastic_at_any_scale(scale):
    mu = cloud(16, n=20, scale=scale)
    f, x = sinkhorn_potential(mu), mu.atoms
    assert f.converged and f.error < 1e-12
    np.testing.assert_allclose(f.matrix @ mu.weights, 1, rtol=1e-12)
    assert asymmetry(f.matrix) < 1e-14
    np.testing.assert_allclose(f(x), f.excess + (x * x).sum(axis=1) / 2, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        f.field(x), f.matrix @ (mu.weights[:, None] * x), rtol=1e-9, atol=1e-12 * scale
    )


def test_sinkhorn_that_does_not_converge_says_so_and_ghosts_do_not_count():
    mu = cloud(19, n=12)
    f = sinkhorn_potential(mu, maxiter=5)
    assert not f.converged and f.error > 1e-6 and "not converged" in repr(f)
    with pytest.raises(RuntimeError, match="^mu:"):
        sinkhorn_field(mu.atoms, mu, maxiter=5)
    more = Measure(np.vstack([mu.atoms, [[2.0, 2.0]]]), np.append(mu.weights, 0.0))
    f, g = sinkhorn_potential(mu), sinkhorn_potential(more)
    np.testing.assert_allclose(g(more.atoms), f(more.atoms), rtol=1e-12)
    assert g.excess[-1] == pytest.approx(g(more.atoms)[-1] - 4.0, rel=1e-10)


# ------------------------------------------------------------------------- gradient flow or not


def sinkhorn(x, mu):
    return sinkhorn_potential(mu)(x)


def unnormalised(x, mu):
    return -TokenEnergy().first_variation(x, mu)


def centred(A, w):
    P = np.eye(len(w)) - w[None].repeat(len(w), 0)
    return P @ A @ P.T


def test_centred_kernels_against_exact_derivatives():
    mu = cloud(23, n=6)
    x, w = mu.atoms, mu.weights
    # softmax: d/dm_j log sum_k m_k e^<x_i, x_k>
    softmax = jacobian(lambda m: anp.log(anp.dot(np.exp(x @ x.T), m)))(w)
    # Sinkhorn: differentiate f = log sum_k m_k e^(<x_i, x_k> - f_k), (I + P M) df = P dm
    P = sinkhorn_potential(mu).matrix
    for potential, exact in (
        (softmax_potential, softmax), (sinkhorn, np.linalg.solve(np.eye(6) + P * w, P)),
        (unnormalised, np.exp(x @ x.T)),
    ):  # fmt: skip
        B = centred_kernel(potential, mu).matrix
        np.testing.assert_allclose(B, centred(exact, w), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(w @ B, 0, atol=1e-9)
        np.testing.assert_allclose(B @ w, 0, atol=1e-9)


def test_constants_do_not_matter_and_nothing_else_is_removed():
    mu = cloud(36)

    def shifted(x, nu):  # plus a constant that depends on the measure
        return unnormalised(x, nu) + 7 * np.sin(nu.weights @ nu.atoms[:, 0] ** 3)

    def twisted(x, nu):  # antisymmetric in x and y
        return x[:, 0] * (nu.weights @ nu.atoms[:, 1]) - x[:, 1] * (nu.weights @ nu.atoms[:, 0])

    assert centred_kernel(shifted, mu).asymmetry < 1e-8
    assert centred_kernel(twisted, mu).asymmetry == pytest.approx(2, abs=1e-9)


def test_particle_jacobian_against_autograd():
    mu = cloud(37, n=4)
    w = mu.weights

    def velocity(flat):
        x = anp.reshape(flat, (4, 2))
        e = anp.exp(anp.dot(x, x.T)) * w
        return anp.ravel(w[:, None] * anp.dot(e, x) / anp.sum(e, axis=1)[:, None])

    exact = jacobian(velocity)(mu.atoms.ravel())
    np.testing.assert_allclose(particle_jacobian(softmax_field, mu), exact, rtol=1e-8, atol=1e-11)
