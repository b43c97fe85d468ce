"""The attention risk against a naive program, automatic differentiation and exact properties."""

import tracemalloc

import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from hypothesis import given
from hypothesis import strategies as st
from reference import Program, differences, heads, leak, make, measure, relative

from mfbook.measure import Measure, mixture
from mfbook.models.attention import (
    AttentionRisk,
    HeadShape,
    attention_weights,
    cross_entropy,
    features,
    softmax,
    softmax_jacobian,
)

seeds = st.integers(0, 10**6)
TINY = 1e-30  # of complex steps: no subtraction, so no rounding


def complex_step(f, x):
    """Derivatives of a function of one point, one column for each coordinate."""
    return np.stack([np.imag(f(x + 1j * TINY * e)) / TINY for e in np.eye(len(x))], axis=-1)


# ---------------------------------------------------------------------------------------------
# against a naive program


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"T": 1},
        {"S": 1, "T": 6, "V": 2},
        {"d": 1, "k": 1, "v": 1},
        {"d": 2, "k": 3, "v": 4, "V": 3},
        {"d": 4, "k": 1, "v": 3, "V": 7, "T": 3},
    ],
)
def test_everything_agrees_with_the_naive_program(sizes, soft, weighted):
    R, program = make(soft=soft, **sizes)
    mu = measure(1, 4, R.shape, weighted)
    x = heads(2, 3, R.shape)  # not the atoms of mu
    for quantity, error in differences(R, program, mu, x).items():
        assert error < 1e-10, quantity


def test_features_and_attention_agree_with_the_naive_program():
    R, program = make(T=5)
    theta = heads(3, 4, R.shape)
    assert relative(features(theta, R.X, R.W_U, R.shape), program.features(theta)) < 1e-12
    A = attention_weights(theta, R.X, R.shape)
    expected = [[program.attention(h, X) for X in R.X] for h in theta]
    assert relative(A, expected) < 1e-12
    assert (A[..., ~np.tri(5, dtype=bool)] == 0).all()
    np.testing.assert_allclose(A.sum(axis=-1), 1, rtol=1e-14)


def test_two_tokens_by_hand():
    """With d = k = v = 1 the attention of the second token is a logistic function."""
    q, key, value, out, u = 0.7, -1.1, 0.9, 1.3, np.array([0.4, -0.2, 1.0])
    x1, x2 = 0.5, -1.5
    first = 1 / (1 + np.exp(x2 * q * key * (x2 - x1)))
    attended = np.array([x1, first * x1 + (1 - first) * x2])
    expected = attended[:, None] * value * out * u
    got = features([[q, key, value, out]], [[[x1], [x2]]], u[None], HeadShape(1, 1, 1))[0, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.parametrize("soft", [False, True])
def test_gradient_of_the_risk_in_the_heads_is_weight_times_gradient(soft):
    """M dR/dtheta_i = G(theta_i; mu_M), with autograd through the whole risk."""
    R, program = make(4, soft=soft)
    mu = measure(5, 3, R.shape)
    total = grad(program.risk)(np.array(mu.atoms), mu.weights)
    assert relative(mu.weights[:, None] * R.gradient(mu.atoms, mu), total) < 1e-10


def test_complex_steps_agree_with_the_gradient():
    R, _ = make(6)
    mu, x = measure(7, 4, R.shape), heads(8, 2, R.shape)
    for point, expected in zip(x, R.gradient(x, mu), strict=True):
        moved = point + 1j * TINY * np.eye(len(point))
        assert relative(np.imag(R.first_variation(moved, mu)) / TINY, expected) < 1e-10

    direction = heads(9, 4, R.shape)
    slope = np.imag(R(Measure(mu.atoms + 1j * TINY * direction, mu.weights))) / TINY
    expected = mu.weights @ (R.gradient(mu.atoms, mu) * direction).sum(axis=1)
    assert relative(slope, expected) < 1e-10


def test_finite_differences_agree_with_the_gradient():
    R, _ = make(6)
    mu, x = measure(7, 4, R.shape), heads(8, 1, R.shape)
    step = 1e-5
    up, down = (R.first_variation(x + s * step * np.eye(R.shape.size), mu) for s in (1, -1))
    assert relative((up - down) / (2 * step), R.gradient(x, mu)[0]) < 1e-8


def test_hessian_of_the_risk_of_one_head():
    """H + K, as the complex step of the gradient with the measure moving along."""
    R, program = make(10)
    theta = heads(11, 1, R.shape)[0]
    stepped = complex_step(lambda h: R.gradient(h[None], Measure.dirac(h))[0], theta)
    expected = hessian(lambda h: program.risk([h], [1.0]))(theta)
    assert relative(stepped, expected) < 1e-9


def test_hessian_of_the_first_variation():
    """H, with the measure held fixed; its W_V and W_O diagonal blocks vanish."""
    R, program = make(10)
    mu, theta = measure(12, 3, R.shape), heads(11, 1, R.shape)[0]
    local = R.at(mu)
    stepped = complex_step(lambda h: local.gradient(h[None])[0], theta)
    residual = program.residual(np.array(mu.atoms), mu.weights)
    assert relative(stepped, hessian(lambda h: program.psi(h, residual))(theta)) < 1e-9
    start = np.cumsum((0, *R.shape.blocks))
    for block in (slice(start[2], start[3]), slice(start[3], start[4])):
        assert np.abs(stepped[block, block]).max() < 1e-14 * np.abs(stepped).max()


def test_complex_heads_give_the_analytic_continuation():
    R, program = make(13)
    atoms = heads(14, 3, R.shape) + 0.1j * heads(15, 3, R.shape)
    x = heads(16, 2, R.shape) + 0.1j * heads(17, 2, R.shape)
    mu = Measure(atoms, [0.5, 0.2, 0.3])
    residual = program.residual(atoms, mu.weights)
    assert relative(R.logits(mu), program.logits(atoms, mu.weights)) < 1e-10
    assert relative(R(mu), program.risk(atoms, mu.weights)) < 1e-10
    for points in (x, x.real):
        expected = [program.psi(h, residual) for h in points]
        assert relative(R.first_variation(points, mu), expected) < 1e-10
    assert relative(features(x, R.X, R.W_U, R.shape), program.features(x)) < 1e-10


def test_correlation_gives_the_first_variation_and_is_the_stated_matrix():
    R, program = make(18)
    mu, x = measure(19, 3, R.shape), heads(20, 2, R.shape)
    local = R.at(mu)
    C = local.correlation(x)
    _, _, W_V, W_O = R.shape.split(x)
    assert relative(((W_V @ W_O) * C).sum(axis=(1, 2)), local.first_variation(x)) < 1e-12
    Z = program.residual(mu.atoms, mu.weights) @ program.W_U.T
    expected = np.zeros_like(C)
    for n, s in np.ndindex(2, len(R.X)):
        attended = program.attention(x[n], R.X[s]) @ R.X[s]
        expected[n] += attended.T @ Z[s] / (len(R.X) * len(attended))
    assert relative(C, expected) < 1e-10


def test_conserved_quantities_have_zero_derivative():
    """W_Q^T G_Q = (G_K^T W_K), W_V^T G_V = G_O W_O^T: balancedness is conserved by the flow."""
    R, _ = make(21)
    mu, x = measure(22, 3, R.shape), heads(23, 2, R.shape)
    t = (0, 2, 1)
    W_Q, W_K, W_V, W_O = R.shape.split(x)
    G_Q, G_K, G_V, G_O = R.shape.split(R.gradient(x, mu))
    assert relative(W_Q.transpose(t) @ G_Q, G_K.transpose(t) @ W_K) < 1e-12
    assert relative(W_V.transpose(t) @ G_V, G_O @ W_O.transpose(t)) < 1e-12


# ---------------------------------------------------------------------------------------------
# properties of the risk


@given(seeds, st.booleans(), st.floats(0, 1))
def test_risk_is_convex_along_mixtures(seed, soft, s):
    R, _ = make(seed, soft=soft)
    mu, nu = measure(seed + 1, 3, R.shape, scale=1.5), measure(seed + 2, 2, R.shape, scale=1.5)
    chord = (1 - s) * R(mu) + s * R(nu)
    assert R(mixture(mu, nu, s)) <= chord + 1e-14 * abs(chord)
    # and above the tangent
    slope = nu.integrate(R.first_variation(nu.atoms, mu)) - mu.integrate(
        R.first_variation(mu.atoms, mu)
    )
    assert R(nu) >= R(mu) + slope - 1e-13


@given(seeds, st.booleans(), st.floats(0, 1))
def test_first_variation_is_the_derivative_along_mixtures(seed, soft, s):
    """Equation (12), with autograd in the mixing parameter."""
    R, program = make(seed, soft=soft)
    mu, nu = measure(seed + 1, 2, R.shape), measure(seed + 2, 3, R.shape)
    atoms = np.concatenate([mu.atoms, nu.atoms])
    start = np.concatenate([mu.weights, np.zeros(3)])
    end = np.concatenate([np.zeros(2), nu.weights])
    expected = grad(lambda r: program.risk(atoms, (1 - r) * start + r * end))(s)
    psi = R.first_variation(atoms, mixture(mu, nu, s))
    assert abs((end - start) @ psi - expected) < 1e-10 * np.abs(psi).max()


@given(seeds, st.permutations(range(5)))
def test_order_of_heads_does_not_matter(seed, order):
    R, _ = make(seed)
    mu, x = measure(seed, 5, R.shape), heads(seed + 1, 5, R.shape)
    nu = Measure(mu.atoms[order], mu.weights[order])
    assert relative(R(nu), R(mu)) < 1e-13
    assert relative(R.gradient(x[order], nu), R.gradient(x, mu)[order]) < 1e-12


@given(seeds)
def test_gauge_changes_nothing_and_gradients_transform(seed):
    R, _ = make(seed, k=2, v=3)
    rng = np.random.default_rng(seed)
    G, H = (np.eye(n) + 0.2 * rng.uniform(-1, 1, (n, n)) for n in (2, 3))
    inverse_G, inverse_H = np.linalg.inv(G), np.linalg.inv(H)

    def move(theta):
        W_Q, W_K, W_V, W_O = R.shape.split(theta)
        return R.shape.join(W_Q @ G, W_K @ inverse_G.T, W_V @ H, inverse_H @ W_O)

    mu, x = measure(seed, 3, R.shape), heads(seed + 1, 2, R.shape)
    assert relative(R(mu.map(move)), R(mu)) < 1e-12
    psi = R.first_variation(x, mu)
    assert relative(R.first_variation(move(x), mu.map(move)), psi) < 1e-11
    g_Q, g_K, g_V, g_O = R.shape.split(R.gradient(x, mu))
    expected = R.shape.join(g_Q @ inverse_G.T, g_K @ G, g_V @ inverse_H.T, H.T @ g_O)
    assert relative(R.gradient(move(x), mu), expected) < 1e-11


@given(seeds, st.floats(-10, 10))
def test_adding_a_constant_to_all_logits_changes_nothing(seed, size):
    R, _ = make(seed)
    column = size * np.random.default_rng(seed).normal(size=(3, 1))
    shifted = AttentionRisk(R.X, R.Y, R.W_U + column, R.shape)
    mu, x = measure(seed, 3, R.shape), heads(seed + 1, 2, R.shape)
    assert relative(shifted(mu), R(mu)) < 1e-11
    assert relative(shifted.residual(mu), R.residual(mu)) < 1e-11
    assert relative(shifted.gradient(x, mu), R.gradient(x, mu)) < 1e-10


@given(seeds, st.floats(0, 1))
def test_splitting_an_atom_changes_nothing(seed, share):
    R, _ = make(seed)
    mu, x = measure(seed, 3, R.shape), heads(seed + 1, 2, R.shape)
    w = mu.weights
    split = Measure(mu.atoms[[0, 0, 1, 2]], [share * w[0], (1 - share) * w[0], w[1], w[2]])
    assert relative(R(split), R(mu)) < 1e-13
    assert relative(R.gradient(x, split), R.gradient(x, mu)) < 1e-12


def test_atoms_without_weight_change_nothing():
    R, _ = make(24)
    mu, x = measure(25, 3, R.shape), heads(26, 2, R.shape)
    far = 100 * heads(27, 2, R.shape)
    nu = Measure(np.concatenate([far[:1], mu.atoms, far[1:]]), [0, *mu.weights, 0])
    assert relative(R(nu), R(mu)) < 1e-14
    assert relative(R.gradient(x, nu), R.gradient(x, mu)) < 1e-13
    # and they still have a first variation and a gradient of their own
    assert relative(R.gradient(nu.atoms, nu)[1:-1], R.gradient(mu.atoms, mu)) < 1e-12


def test_later_tokens_change_nothing_before_them():
    R, _ = make(28, T=5)
    mu = measure(29, 3, R.shape)
    rng = np.random.default_rng(30)

    def logits(X):
        return AttentionRisk(X, R.Y, R.W_U, R.shape).logits(mu)

    def phi(X):
        return features(mu.atoms, X, R.W_U, R.shape)

    assert leak(logits, np.array(R.X), rng) < 1e-15
    assert leak(phi, np.array(R.X), rng) < 1e-15


def test_first_token_attends_to_itself():
    R, _ = make(31)
    theta = heads(32, 3, R.shape, scale=5.0)
    _, _, W_V, W_O = R.shape.split(theta)
    expected = np.einsum("sd,nde,eV->nsV", R.X[:, 0], W_V @ W_O, R.W_U)
    assert relative(features(theta, R.X, R.W_U, R.shape)[:, :, 0], expected) < 1e-13


def test_one_token_needs_no_queries():
    R, _ = make(33, T=1)
    mu = measure(34, 3, R.shape)
    g_Q, g_K, g_V, g_O = R.shape.split(R.gradient(mu.atoms, mu))
    assert (g_Q == 0).all() and (g_K == 0).all()
    assert np.abs(g_V).min() > 0 and np.abs(g_O).min() > 0


def test_one_head_on_one_sequence():
    R, program = make(35, S=1, T=1)
    mu = measure(36, 1, R.shape, weighted=False)
    errors = differences(R, program, mu, np.array(mu.atoms))
    assert max(errors.values()) < 1e-10


def test_zero_heads_predict_the_uniform_law():
    R, _ = make(37, V=5)
    mu = Measure(np.zeros((2, R.shape.size)))
    assert relative(R(mu), np.log(5)) < 1e-15
    assert (R.gradient(mu.atoms, mu) == 0).all()


def test_teacher_is_optimal_and_the_excess_is_a_divergence():
    """Soft labels from mu*: Psi(.; mu*) = 0 and R(mu) - R(mu*) is the mean divergence."""
    R, _ = make(38)
    teacher, mu = measure(39, 3, R.shape), measure(40, 3, R.shape)
    y = softmax(R.logits(teacher))
    task = AttentionRisk(R.X, y, R.W_U, R.shape)
    x = heads(41, 4, R.shape)
    assert np.abs(task.first_variation(x, teacher)).max() < 1e-15
    assert np.abs(task.gradient(x, teacher)).max() < 1e-15
    p = softmax(task.logits(mu))
    divergence = (y * (np.log(y) - np.log(p))).sum(axis=-1).mean()
    assert divergence > 1e-3
    assert relative(task(mu) - task(teacher), divergence) < 1e-12


# ---------------------------------------------------------------------------------------------
# large numbers, precision, blocks, memory


@pytest.mark.parametrize("size", [1e4, 1e-4, 0.0])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_logits_of_any_size_are_right(size, share):
    """One token x = 1: the logits are (size, -size), the loss 2 size (1-share) + log1p(...)."""
    shape = HeadShape(1, 1, 1)
    R = AttentionRisk([[[1.0]]], [[[share, 1 - share]]], [[1.0, -1.0]], shape)
    theta = np.array([[3.0, -2.0, size, 1.0]])
    mu = Measure(theta)
    np.testing.assert_allclose(R.logits(mu)[0, 0], [size, -size], rtol=1e-15)
    expected = 2 * size * (1 - share) + np.log1p(np.exp(-2 * size))
    np.testing.assert_allclose(R(mu), expected, rtol=1e-14)
    p = 1 / (1 + np.exp(-2 * size))
    slope = (p - share) - ((1 - p) - (1 - share))
    np.testing.assert_allclose(R.gradient(theta, mu), [[0, 0, slope, slope * size]], atol=1e-15)
    stepped = np.imag(R.first_variation(theta + 1j * TINY * np.eye(4), mu)) / TINY
    np.testing.assert_allclose(stepped, [0, 0, slope, slope * size], atol=1e-15)


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_of_any_size_are_right(sign):
    """Scores of +-1e4: attention is a point mass on the visible tokens of the largest score."""
    x = np.array([1.0, -1.0, -1.0, 1.0])
    theta = np.array([[100.0, sign * 100.0, 1.0, 1.0]])  # scores sign * 1e4 * x_t x_u
    shape = HeadShape(1, 1, 1)
    X = x[None, :, None]
    A = attention_weights(theta, X, shape)[0, 0]
    if sign == 1:  # each token attends to the visible tokens of its own sign
        expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5]]
    else:  # to those of the other sign if there are any
        expected = [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0.5, 0.5, 0]]
    np.testing.assert_array_equal(A, expected)
    attended = np.asarray(expected) @ x
    W_U = np.array([[1.0, -1.0]])
    R = AttentionRisk(X, np.full((1, 4, 2), 0.5), W_U, shape)
    mu = Measure(theta)
    np.testing.assert_array_equal(R.logits(mu)[0], attended[:, None] * W_U)
    np.testing.assert_array_equal(features(theta, X, W_U, shape)[0, 0], attended[:, None] * W_U)
    slope = (np.tanh(attended) * attended).mean()  # p - y = (tanh, -tanh)/2 at logits (a, -a)
    # the tokens with the largest score are equal, so moving the scores moves nothing
    np.testing.assert_allclose(R.gradient(theta, mu), [[0, 0, slope, slope]], atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 30.0, 340.0, 360.0, 700.0, 720.0, 2e3, 1e6])
@pytest.mark.parametrize("sign", [1, -1])
def test_two_opposite_tokens_by_hand(size, sign):
    """x = (1, -1): the second token's scores differ by 2 size, the most that the norms allow."""
    theta = np.array([[1.0, -sign * size, 1.0, 1.0]])
    R = AttentionRisk([[[1.0], [-1.0]]], [[[1, 0], [1, 0]]], [[1.0, -1.0]], HeadShape(1, 1, 1))
    logits = R.logits(Measure(theta))[0, :, 0]
    np.testing.assert_allclose(logits, [1, np.tanh(sign * size)], rtol=1e-14)
    assert np.isfinite(R.gradient(theta, Measure(theta))).all()


def test_large_scores_in_general_position_agree_with_a_hard_maximum():
    R, _ = make(42, S=4, T=6)
    theta = heads(43, 3, R.shape)
    W_Q, W_K, W_V, W_O = R.shape.split(theta)
    big = R.shape.join(3e3 * W_Q, 3e3 * W_K, W_V, W_O)
    B = W_Q @ W_K.transpose(0, 2, 1)
    expected = np.empty((3, 4, 6, R.W_U.shape[1]))
    for n, s, t in np.ndindex(3, 4, 6):
        best = np.argmax(R.X[s, t] @ B[n] @ R.X[s, : t + 1].T)
        expected[n, s, t] = R.X[s, best] @ W_V[n] @ W_O[n] @ R.W_U
    assert relative(features(big, R.X, R.W_U, R.shape), expected) < 1e-12
    mu = Measure(big)
    assert relative(R.logits(mu), expected.mean(axis=0)) < 1e-12
    assert np.isfinite(R.gradient(big, mu)).all()


@pytest.mark.parametrize("size", [3.0, 30.0, 80.0, 200.0, 350.0, 400.0, 700.0, 1e3, 1e5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_from_small_to_large(size, dtype):
    """The largest score is ``size``: an exponential overflows at 709, in float32 at 88."""
    R, _ = make(72, S=5, T=5, dtype=dtype)
    theta = heads(73, 3, R.shape)
    W_Q, W_K, W_V, W_O = R.shape.split(theta)
    X = np.asarray(R.X, dtype=float)
    queries, keys = X @ W_Q[:, None], X @ W_K[:, None]
    largest = np.abs(queries @ keys.swapaxes(-1, -2) / np.sqrt(R.shape.k)).max(axis=(1, 2, 3))
    scale = np.sqrt(size / largest)[:, None, None]
    big = R.shape.join(scale * W_Q, scale * W_K, W_V, W_O)
    # float32 rounds scores of this size by size * eps, and a weight by as much
    tolerance = 1e-11 if dtype == np.float64 else min(30 * size * np.finfo(dtype).eps, 1.0)
    for atoms in (big, np.concatenate([theta, big])):  # also beside heads with small scores
        mu = Measure(atoms)
        phi = features(atoms, R.X, R.W_U, R.shape)
        assert relative(R.logits(mu), phi.mean(axis=0)) < tolerance
        gradient = R.gradient(atoms, mu)
        assert np.isfinite(gradient).all()
        if dtype == np.float64:
            local = R.at(mu)
            for h, g in zip(atoms, gradient, strict=True):
                moved = features(h + 1j * TINY * np.eye(len(h)), R.X, R.W_U, R.shape).imag / TINY
                slope = (local.residual * moved).sum(axis=-1).mean(axis=(1, 2))
                assert relative(g, slope) < 1e-10


@pytest.mark.parametrize("soft", [False, True])
def test_float32_agrees_to_its_accuracy(soft):
    R, _ = make(44, S=8, T=6, d=4, soft=soft)
    single = AttentionRisk(R.X, R.Y, R.W_U, R.shape, dtype=np.float32)
    mu, x = measure(45, 70, R.shape), heads(46, 5, R.shape)
    assert {single.X.dtype, single.Y.dtype, single.W_U.dtype} == {np.dtype(np.float32)}
    tolerance = 50 * np.finfo(np.float32).eps
    for name in ("logits", "residual"):
        value = getattr(single, name)(mu)
        assert value.dtype == np.float32
        assert relative(value, getattr(R, name)(mu)) < tolerance
    assert relative(single(mu), R(mu)) < tolerance
    for name in ("first_variation", "gradient"):
        value = getattr(single, name)(x, mu)
        assert value.dtype == np.float32
        assert relative(value, getattr(R, name)(x, mu)) < tolerance


def test_float32_labels_do_not_spoil_float64():
    R, _ = make(47)
    rounded = AttentionRisk(R.X, R.Y.astype(np.float32), R.W_U, R.shape)
    np.testing.assert_allclose(rounded.Y.sum(axis=-1), 1, rtol=1e-15)
    mu = measure(48, 3, R.shape)
    assert relative(rounded(mu), R(mu)) < 1e-6


@pytest.mark.parametrize("n", [1, 63, 64, 65, 127, 128, 129, 257])
@pytest.mark.parametrize("S", [1, 63, 64, 65, 129])
def test_blocks_of_heads_and_sequences_join_without_a_seam(n, S):
    R, _ = make(49, S=S, T=3, d=2, k=1, v=1, V=3)
    mu = measure(50, n, R.shape)
    phi = features(mu.atoms, R.X, R.W_U, R.shape)
    assert relative(R.logits(mu), np.tensordot(mu.weights, phi, 1)) < 1e-12
    psi = np.einsum("stV,nstV->n", R.residual(mu), phi) / (3 * S)
    local = R.at(mu)
    assert relative(local.first_variation(mu.atoms), psi) < 1e-12
    gradient = local.gradient(mu.atoms)
    assert relative(local.gradient(np.array(mu.atoms)), gradient) < 1e-12
    assert relative(local.gradient(mu.atoms[::-1]), gradient[::-1]) < 1e-12
    direction = heads(51, n, R.shape)
    moved = features(mu.atoms + 1j * TINY * direction, R.X, R.W_U, R.shape).imag / TINY
    slope = np.einsum("stV,nstV->n", R.residual(mu), moved) / (3 * S)
    assert np.abs((gradient * direction).sum(axis=1) - slope).max() < 1e-12 * np.abs(gradient).max()


def test_one_local_serves_many_points():
    R, _ = make(52)
    mu, x = measure(53, 5, R.shape), heads(54, 130, R.shape)
    local = R.at(mu)
    together = local.gradient(x)
    alone = np.concatenate([local.gradient(h[None]) for h in x])
    assert relative(together, alone) < 1e-12
    assert relative(local.gradient(mu.atoms), local.gradient(np.array(mu.atoms))) < 1e-13
    assert local.value == R(mu)
    np.testing.assert_array_equal(local.residual, R.residual(mu))


@given(seeds)
def test_risk_as_a_function_of_the_weights(seed):
    """Value and slope agree with the risk of the measure, and the slope with autograd."""
    R, program = make(seed)
    mu = measure(seed + 1, 4, R.shape)
    value, slope = R.over_weights(mu.atoms)(mu.weights)
    assert relative(value, R(mu)) < 1e-13
    assert relative(slope, R.first_variation(mu.atoms, mu)) < 1e-11
    expected = grad(lambda w: program.risk(np.array(mu.atoms), w))(np.array(mu.weights))
    assert relative(slope, expected) < 1e-10


def test_memory_is_linear_in_the_heads_and_does_not_grow_with_the_sequences():
    """At d = 8, T = 8, V = 16: at most 6 KB for each head beyond the data and a fixed cache."""
    shape, M = HeadShape(8, 4, 4), 8192
    mu = Measure(heads(55, M, shape, scale=0.3))
    rng = np.random.default_rng(56)

    def peak(S):
        X, W_U = rng.normal(size=(S, 8, 8)), rng.normal(size=(8, 16))
        R = AttentionRisk(X, np.eye(16)[rng.integers(16, size=(S, 8))], W_U, shape)
        tracemalloc.start()
        R.gradient(mu.atoms, mu)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used - 10 * S * 8 * (16 + 8) * 8  # a few arrays like logits and tokens

    cache = 2**26
    assert peak(8) < 6000 * M + cache
    few, many = peak(64), peak(128)  # whole blocks: the buffers are full in both
    assert few < 6000 * M
    assert many < 1.05 * few


# ---------------------------------------------------------------------------------------------
# inputs, shapes, sampling


def test_head_shape_splits_and_joins():
    shape = HeadShape(3, 2, 1)
    theta = np.arange(36.0).reshape(2, 18)
    W_Q, W_K, W_V, W_O = shape.split(theta)
    np.testing.assert_array_equal(W_Q[0], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(W_K[1], [[24, 25], [26, 27], [28, 29]])
    np.testing.assert_array_equal(W_V[0], [[12], [13], [14]])
    np.testing.assert_array_equal(W_O[0], [[15, 16, 17]])
    np.testing.assert_array_equal(shape.join(W_Q, W_K, W_V, W_O), theta)
    np.testing.assert_array_equal(shape.join(*shape.split(theta[0])), theta[0])
    assert shape.size == sum(shape.blocks) == shape.ball(2.0).dim == 18
    assert shape.ball(2.0).blocks == shape.blocks and shape.ball(2.0).radius == 2.0


def test_complex_heads_are_split_joined_and_weighed():
    R, _ = make(1, d=3, k=2, v=1)
    theta = heads(1, 4, R.shape) * (1 + 0.1j)
    np.testing.assert_array_equal(R.shape.join(*R.shape.split(theta)), theta)
    w = np.array([0.1, 0.2, 0.3, 0.4])
    value, slope = R.over_weights(theta)(w)
    mu = Measure(theta, w)
    assert value == pytest.approx(R(mu), rel=1e-12)
    np.testing.assert_allclose(slope, R.first_variation(theta, mu), rtol=1e-11)


def test_kinds_of_input_do_not_matter():
    R, _ = make(57)
    mu, x = measure(58, 3, R.shape), heads(59, 2, R.shape)
    expected = R.gradient(x, mu)

    strided = np.zeros((6, 4, 6))
    strided[::2, :, ::2] = R.X
    kinds = {
        "lists": (R.X.tolist(), R.Y.tolist(), R.W_U.tolist(), x.tolist()),
        "strided": (strided[::2, :, ::2], R.Y, R.W_U, np.repeat(x, 2, axis=0)[::2]),
        "fortran": tuple(np.asfortranarray(a) for a in (R.X, R.Y, R.W_U, x)),
    }
    assert not strided[::2, :, ::2].flags.c_contiguous
    for kind, (X, Y, W_U, points) in kinds.items():
        other = AttentionRisk(X, Y, W_U, R.shape)
        nu = Measure(np.asfortranarray(mu.atoms), list(mu.weights))
        assert relative(other.gradient(points, nu), expected) < 1e-13, kind
    one_hot = np.eye(5, dtype=int)[[[0, 1, 2, 3]] * 3]
    whole = AttentionRisk(np.ones((3, 4, 3), dtype=int), one_hot, np.ones((3, 5), int), R.shape)
    assert whole.X.dtype == whole.Y.dtype == np.float64


def test_whole_numbers_and_truth_values_are_numbers():
    """Integer heads must not wrap around, boolean ones not be multiplied as logic."""
    shape = HeadShape(2, 1, 2)
    X, W_U = [[[1, 2], [3, 4]]], [[1, 0], [0, 1]]
    for theta in (np.full((1, 12), 2**33), np.ones((1, 12), dtype=bool)):
        real = features(theta.astype(float), X, W_U, shape)
        np.testing.assert_array_equal(features(theta, X, W_U, shape), real)
        assert real[0, 0, 0, 0] == 2 * float(theta[0, 0]) ** 2 * 3


def test_callers_arrays_stay_as_they_are():
    R, _ = make(60)
    X, Y, W_U, x = np.array(R.X), np.array(R.Y), np.array(R.W_U), heads(61, 3, R.shape)
    copies = [a.copy() for a in (X, Y, W_U, x)]
    for a in (X, Y, W_U, x):
        a.flags.writeable = False  # writing to it would raise
    mu = Measure(x)
    risk = AttentionRisk(X, Y, W_U, R.shape)
    risk(mu), risk.gradient(x, mu), risk.first_variation(x, mu), features(x, X, W_U, R.shape)
    softmax(X), softmax_jacobian(X), cross_entropy(X @ W_U, Y)
    for a, copy in zip((X, Y, W_U, x), copies, strict=True):
        np.testing.assert_array_equal(a, copy)
        a.flags.writeable = True
    before = risk(mu)
    X[:] = 0  # the risk has copies of its own
    Y[:] = 0
    W_U[:] = 0
    assert risk(mu) == before
    with pytest.raises(ValueError, match="read-only"):
        risk.X[0] = 1


def test_results_are_independent_of_each_other():
    R, _ = make(62)
    mu = measure(63, 3, R.shape)
    first, second = R.gradient(mu.atoms, mu), R.gradient(mu.atoms, mu)
    np.testing.assert_array_equal(first, second)
    first[:] = 0
    np.testing.assert_array_equal(R.gradient(mu.atoms, mu), second)


def test_space_of_the_risk():
    R, _ = make(64)
    ball = R.shape.ball(2.0)
    assert AttentionRisk(R.X, R.Y, R.W_U, R.shape, ball).space == ball
    assert AttentionRisk(R.X, R.Y, R.W_U, R.shape, ball).sample(0, 2).space == ball


def test_sample_repeats_with_the_seed_and_draws_from_the_population():
    R, _ = make(65, S=4, soft=False)
    first, second = R.sample(3, 20), R.sample(np.random.default_rng(3), 20)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.Y, second.Y)
    assert (R.sample(4, 20).X != first.X).any()
    rng = np.random.default_rng(3)
    assert (R.sample(rng, 20).X != R.sample(rng, 20).X).any()
    # with hard labels each draw is one of the stored pairs
    for X, Y in zip(first.X, first.Y, strict=True):
        s = np.flatnonzero((R.X == X).all(axis=(1, 2)))
        assert len(s) == 1
        np.testing.assert_array_equal(R.Y[s[0]], Y)


def test_sample_is_unbiased():
    """Risk, gradient and label frequencies of many draws, within Hoeffding's bound.

    Each statement is wrong by chance with probability at most 2e-9; the seed is fixed.
    """
    S, n = 3, 20_000
    R, _ = make(66, S=S, T=2, V=3)
    mu, x = measure(67, 2, R.shape), heads(68, 1, R.shape)
    drawn = R.sample(69, n)
    assert set(np.unique(drawn.Y)) == {0.0, 1.0} and (drawn.Y.sum(axis=-1) == 1).all()

    width = np.sqrt(np.log(1e9) / (2 * n))
    index = (drawn.X[:, None] == R.X).all(axis=(2, 3)).argmax(axis=1)
    chosen = np.eye(S)[index]
    assert np.abs(chosen.mean(axis=0) - 1 / S).max() < width
    joint = np.einsum("ns,ntV->stV", chosen, drawn.Y) / n
    assert np.abs(joint - R.Y / S).max() < width

    # range of one draw's risk and first variation, over all sequences and labels
    f, phi = R.logits(mu), features(x, R.X, R.W_U, R.shape)[0]
    losses = np.stack([cross_entropy(f, np.eye(3)[c]) for c in range(3)])  # (V, S, T)
    values = np.stack([((softmax(f) - np.eye(3)[c]) * phi).sum(axis=-1) for c in range(3)])
    assert abs(drawn(mu) - R(mu)) < width * np.ptp(losses)
    error = drawn.first_variation(x, mu) - R.first_variation(x, mu)
    assert abs(error[0]) < width * np.ptp(values)
    assert np.ptp(losses) * width < 0.2 * R(mu)  # the bound says something


def test_sample_of_one_sequence_averages_to_the_risk_exactly():
    """All equally likely outcomes of one sequence with one token and labels of halves."""
    shape = HeadShape(1, 1, 1)
    R = AttentionRisk([[[1.0]], [[2.0]]], [[[0.5, 0.5]], [[1.0, 0.0]]], [[1.0, -1.0]], shape)
    mu = Measure([[0.0, 0.0, 0.3, 1.0]])
    outcomes = [R.sample(seed, 1) for seed in range(40)]
    values = {(float(r.X[0, 0, 0]), float(r.Y[0, 0, 0])): r(mu) for r in outcomes}
    assert set(values) == {(1.0, 0.0), (1.0, 1.0), (2.0, 1.0)}
    expected = (values[1.0, 0.0] + values[1.0, 1.0]) / 4 + values[2.0, 1.0] / 2
    assert relative(R(mu), expected) < 1e-14


# ---------------------------------------------------------------------------------------------
# softmax and cross-entropy


@given(seeds, st.floats(-1e4, 1e4))
def test_softmax_is_a_law_and_ignores_shifts(seed, shift):
    f = np.random.default_rng(seed).normal(size=(2, 3, 5))
    p = softmax(f)
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-14)
    np.testing.assert_allclose(p, np.exp(f) / np.exp(f).sum(-1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(softmax(f + shift), p, rtol=1e-11)
    np.testing.assert_allclose(softmax(f + 0j), p, rtol=1e-14)


def test_softmax_and_loss_of_large_logits():
    f = np.array([1e4, -1e4, 0.0])
    for x in (f, f + 0j):
        np.testing.assert_array_equal(softmax(x), [1, 0, 0])
        np.testing.assert_array_equal(softmax_jacobian(x), np.zeros((3, 3)))
        np.testing.assert_array_equal(cross_entropy(x, np.eye(3)), [0, 2e4, 1e4])
    np.testing.assert_array_equal(softmax([1e4, 1e4]), [0.5, 0.5])
    np.testing.assert_allclose(cross_entropy([1e4, 1e4], [0.5, 0.5]), np.log(2), rtol=1e-15)
    np.testing.assert_allclose(cross_entropy([-1e4, -1e4], [0.5, 0.5]), np.log(2), rtol=1e-15)


def test_softmax_jacobian_is_the_derivative():
    f = np.random.default_rng(70).normal(size=5)
    J = softmax_jacobian(f)
    assert relative(complex_step(softmax, f), J) < 1e-14
    program = Program(None, None, None, 1, 1, 1)
    assert relative(jacobian(program.law)(f), J) < 1e-13
    stack = softmax_jacobian(np.stack([f, 2 * f]))
    assert stack.shape == (2, 5, 5)
    np.testing.assert_allclose(stack[0], J, rtol=1e-14)


@given(seeds)
def test_gradient_of_the_loss_is_the_residual(seed):
    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=4), rng.dirichlet(np.ones(4))
    assert relative(complex_step(lambda g: cross_entropy(g, y), f), softmax(f) - y) < 1e-12


def test_labels_broadcast_over_logits():
    f = np.random.default_rng(71).normal(size=(2, 3, 4))
    y = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(cross_entropy(f, y), cross_entropy(f, np.tile(y, (2, 3, 1))))


def test_risk_says_its_sizes():
    R, _ = make(S=2, T=3, d=2, k=1, v=1, V=4)
    assert repr(R) == f"AttentionRisk(2 sequences of 3 tokens, vocabulary 4, {R.shape})"
