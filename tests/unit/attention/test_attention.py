"""The attention risk against a naive program, automatic differentiation and exact properties."""

import tracemalloc

import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from hypothesis import given
from hypothesis import strategies as st
from reference import Program, differences, heads, leak, make, measure, relative

from mfbook.attention import (
    AttentionRisk,
    HeadShape,
    attention_weights,
    cross_entropy,
    features,
    softmax,
)
from mfbook.measure import Measure, mixture

seeds = st.integers(0, 10**6)
sizes = st.fixed_dictionaries(
    {name: st.integers(1, n) for name, n in dict(S=3, T=6, d=4, k=3, v=4).items()},
)
LINE = HeadShape(1, 1, 1)
TINY = 1e-30  # of complex steps: no subtraction, so no rounding


def complex_step(f, x):
    """Derivatives of a function of one point, one column for each coordinate."""
    return np.stack([np.imag(f(x + 1j * TINY * e)) / TINY for e in np.eye(len(x))], axis=-1)


@given(seeds, sizes, st.integers(2, 7), st.booleans(), st.booleans())
def test_everything_agrees_with_the_naive_program(seed, given_, V, soft, weighted):
    R, program = make(seed, V=V, soft=soft, **given_)
    mu = measure(seed + 1, 4, R.shape, weighted)
    x = heads(seed + 2, 3, R.shape)  # not the atoms of mu
    for quantity, error in differences(R, program, mu, x).items():
        assert error < 1e-10, quantity
    assert relative(features(x, R.X, R.W_U, R.shape), program.features(x)) < 1e-12
    A = attention_weights(x, R.X, R.shape)
    assert relative(A, [[program.attention(h, X) for X in R.X] for h in x]) < 1e-12
    assert (A[..., ~np.tri(R.X.shape[1], dtype=bool)] == 0).all()


def test_hessians():
    """H + K with the measure moving along; H with it held fixed, its W_V and W_O blocks vanish."""
    R, program = make(10)
    mu, theta = measure(12, 3, R.shape), heads(11, 1, R.shape)[0]
    both = complex_step(lambda h: R.gradient(h[None], Measure.dirac(h))[0], theta)
    assert relative(both, hessian(lambda h: program.risk([h], [1.0]))(theta)) < 1e-9
    local = R.at(mu)
    fixed = complex_step(lambda h: local.gradient(h[None])[0], theta)
    residual = program.residual(np.array(mu.atoms), mu.weights)
    assert relative(fixed, hessian(lambda h: program.psi(h, residual))(theta)) < 1e-9
    start = np.cumsum((0, *R.shape.blocks))
    for block in (slice(start[2], start[3]), slice(start[3], start[4])):
        assert np.abs(fixed[block, block]).max() < 1e-14 * np.abs(fixed).max()


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
    value, slope = R.over_weights(atoms)(mu.weights)
    assert relative(value, R(mu)) < 1e-12
    assert relative(slope, R.first_variation(atoms, mu)) < 1e-11


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


@given(seeds, st.booleans(), st.floats(0, 1))
def test_risk_is_convex_and_its_first_variation_the_derivative(seed, soft, s):
    """Along mixtures, equation (12), with autograd in the mixing parameter."""
    R, program = make(seed, soft=soft)
    mu, nu = measure(seed + 1, 3, R.shape, scale=1.5), measure(seed + 2, 2, R.shape, scale=1.5)
    chord = (1 - s) * R(mu) + s * R(nu)
    assert R(mixture(mu, nu, s)) <= chord + 1e-14 * abs(chord)
    slope = nu.integrate(R.first_variation(nu.atoms, mu)) - mu.integrate(
        R.first_variation(mu.atoms, mu)
    )
    assert R(nu) >= R(mu) + slope - 1e-13
    atoms = np.concatenate([mu.atoms, nu.atoms])
    start, end = np.append(mu.weights, [0, 0]), np.append([0, 0, 0], nu.weights)
    expected = grad(lambda r: program.risk(atoms, (1 - r) * start + r * end))(s)
    psi = R.first_variation(atoms, mixture(mu, nu, s))
    assert abs((end - start) @ psi - expected) < 1e-10 * np.abs(psi).max()


@given(seeds, st.permutations(range(4)), st.floats(0, 1))
def test_order_splitting_and_atoms_without_weight_do_not_matter(seed, order, share):
    R, _ = make(seed)
    mu, x, far = (heads(seed + i, 4, R.shape) for i in range(3))
    w = np.random.default_rng(seed).dirichlet(np.ones(4))
    other = Measure(
        np.concatenate([100 * far[:1], mu[[*order, order[0]]]]),
        [0, share * w[order[0]], *w[order[1:]], (1 - share) * w[order[0]]],
    )
    mu = Measure(mu, w)
    assert relative(R(other), R(mu)) < 1e-13
    assert relative(R.gradient(x[order], other), R.gradient(x, mu)[order]) < 1e-12
    own = R.gradient(other.atoms, other)[1:5]
    assert relative(own, R.gradient(mu.atoms, mu)[order]) < 1e-12


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
    # what the flow conserves has derivative zero: W_Q^T G_Q = G_K^T W_K, W_V^T G_V = G_O W_O^T
    W_Q, W_K, W_V, W_O = R.shape.split(x)
    t = (0, 2, 1)
    assert relative(W_Q.transpose(t) @ g_Q, g_K.transpose(t) @ W_K) < 1e-11
    assert relative(W_V.transpose(t) @ g_V, g_O @ W_O.transpose(t)) < 1e-11


def test_later_tokens_change_nothing_before_them():
    R, _ = make(28, T=5)
    mu = measure(29, 3, R.shape)
    for phi in (
        lambda X: AttentionRisk(X, R.Y, R.W_U, R.shape).logits(mu),
        lambda X: features(mu.atoms, X, R.W_U, R.shape),
    ):
        assert leak(phi, np.array(R.X), np.random.default_rng(30)) < 1e-15


def unaligned(a):
    """The same numbers, one byte off: as a message from another process may hold them."""
    raw = np.empty(a.nbytes + 9, np.uint8)
    start = -raw.__array_interface__["data"][0] % 8 + 1
    moved = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    moved[...] = a
    return moved


def test_numbers_that_are_not_aligned():
    R, _ = make(93, S=8, T=5)
    mu, x = measure(94, 4, R.shape), heads(95, 3, R.shape)
    for points in (x, x + 1j):
        off = unaligned(points)
        assert not off.flags.aligned
        assert (R.gradient(off, mu) == R.gradient(points, mu)).all()
        assert (R.logits(Measure(off)) == R.logits(Measure(points))).all()


@pytest.mark.parametrize("size", [3.0, 80.0, 350.0, 700.0, 1e3, 1e5])
@pytest.mark.parametrize("copies", [1, 200])
def test_scores_from_small_to_large(size, copies):
    """The largest score is ``size``: an exponential overflows at 709."""
    R, _ = make(72, S=5, T=5)
    theta = heads(73, 3, R.shape)
    W_Q, W_K, W_V, W_O = R.shape.split(theta)
    queries, keys = R.X @ W_Q[:, None], R.X @ W_K[:, None]
    largest = np.abs(queries @ keys.swapaxes(-1, -2) / np.sqrt(R.shape.k)).max(axis=(1, 2, 3))
    scale = np.sqrt(size / largest)[:, None, None]
    big = R.shape.join(scale * W_Q, scale * W_K, W_V, W_O)
    atoms = np.concatenate([theta, big])
    mu = Measure(np.tile(atoms, (copies, 1)))
    phi = features(atoms, R.X, R.W_U, R.shape)
    assert relative(R.logits(mu), phi.mean(axis=0)) < 1e-11
    gradient = R.gradient(mu.atoms, mu)[: len(atoms)]
    assert np.isfinite(gradient).all()
    residual = R.residual(mu)
    for h, g in zip(atoms, gradient, strict=True):
        moved = features(h + 1j * TINY * np.eye(len(h)), R.X, R.W_U, R.shape).imag / TINY
        assert relative(g, (residual * moved).sum(axis=-1).mean(axis=(1, 2))) < 1e-10


def test_labels_in_single_precision_sum_to_one():
    R, _ = make(44, S=8, T=6, d=4, soft=True)
    rounded = AttentionRisk(R.X, R.Y.astype(np.float32), R.W_U, R.shape)
    np.testing.assert_allclose(rounded.Y.sum(axis=-1), 1, rtol=1e-15)


@pytest.mark.parametrize("n", [1, 64, 257])
@pytest.mark.parametrize("S", [1, 63, 129])
def test_many_heads_and_sequences_are_sums(n, S):
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
    assert relative(np.concatenate([local.gradient(h[None]) for h in mu.atoms]), gradient) < 1e-12
    direction = heads(51, n, R.shape)
    moved = features(mu.atoms + 1j * TINY * direction, R.X, R.W_U, R.shape).imag / TINY
    slope = np.einsum("stV,nstV->n", R.residual(mu), moved) / (3 * S)
    assert np.abs((gradient * direction).sum(axis=1) - slope).max() < 1e-12 * np.abs(gradient).max()


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

    few, many = peak(64), peak(128)
    assert few < 6000 * M + 2**26 and many < 1.05 * few


def test_head_shape_splits_and_joins():
    shape = HeadShape(3, 2, 1)
    theta = np.arange(36.0).reshape(2, 18)
    W_Q, W_K, W_V, W_O = shape.split(theta)
    assert W_Q[0].tolist() == [[0, 1], [2, 3], [4, 5]] and W_V[0].tolist() == [[12], [13], [14]]
    assert W_K[1].tolist() == [[24, 25], [26, 27], [28, 29]] and W_O[0].tolist() == [[15, 16, 17]]
    for x in (theta, theta[0], theta * (1 + 0.1j)):
        np.testing.assert_array_equal(shape.join(*shape.split(x)), x)
    assert shape.size == sum(shape.blocks) == shape.ball(2.0).dim == 18
    assert shape.ball(2.0).blocks == shape.blocks and shape.ball(2.0).radius == 2.0


def test_whole_numbers_and_truth_values_are_numbers():
    """Integer heads must not wrap around, boolean ones not be multiplied as logic."""
    shape = HeadShape(2, 1, 2)
    X, W_U = [[[1, 2], [3, 4]]], [[1, 0], [0, 1]]
    for theta in (np.full((1, 12), 2**33), np.ones((1, 12), dtype=bool)):
        real = features(theta.astype(float), X, W_U, shape)
        np.testing.assert_array_equal(features(theta, X, W_U, shape), real)
        assert real[0, 0, 0, 0] == 2 * float(theta[0, 0]) ** 2 * 3


def test_callers_arrays_stay_as_they_are_and_results_are_theirs():
    R, _ = make(60)
    X, Y, W_U, x = np.array(R.X), np.array(R.Y), np.array(R.W_U), heads(61, 3, R.shape)
    for a in (X, Y, W_U, x):
        a.flags.writeable = False  # writing to it would raise
    mu, risk = Measure(x), AttentionRisk(X, Y, W_U, R.shape)
    features(x, X, W_U, R.shape), softmax(X), cross_entropy(X @ W_U, Y)
    value, gradient, local = risk(mu), risk.gradient(x, mu), risk.at(mu)
    for a in (X, Y, W_U):
        a.flags.writeable = True
        a[:] = 0  # the risk has copies of its own
    local.gradient(mu.atoms)[:] = 0
    assert risk(mu) == value and np.array_equal(local.gradient(mu.atoms), gradient)


def test_sample_repeats_with_the_seed_and_draws_from_the_population():
    R, _ = make(65, S=4, soft=False, space=HeadShape(3, 2, 2).ball(2.0))
    first, second = R.sample(3, 20), R.sample(np.random.default_rng(3), 20)
    assert np.array_equal(first.X, second.X) and np.array_equal(first.Y, second.Y)
    assert first.space == R.space == R.shape.ball(2.0)
    rng = np.random.default_rng(3)
    assert (R.sample(rng, 20).X != R.sample(rng, 20).X).any()
    # with hard labels each draw is one of the stored pairs
    for X, Y in zip(first.X, first.Y, strict=True):
        (s,) = np.flatnonzero((R.X == X).all(axis=(1, 2)))
        assert np.array_equal(R.Y[s], Y)


def test_sample_is_unbiased():
    """Risk, first variation and frequencies of many draws, within Hoeffding's bound.

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


@given(seeds, st.floats(-1e4, 1e4))
def test_softmax_and_its_derivatives(seed, shift):
    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=(3, 5)), rng.dirichlet(np.ones(5))
    p = softmax(f)
    np.testing.assert_allclose(p, np.exp(f) / np.exp(f).sum(-1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(softmax(f + shift), p, rtol=1e-11)
    law = Program(None, None, None, 1, 1, 1).law
    for i, g in enumerate(f):
        assert relative(complex_step(softmax, g), jacobian(law)(g)) < 1e-13
        slope = complex_step(lambda h: cross_entropy(h, y), g)
        assert relative(slope, p[i] - y) < 1e-12
        assert relative(cross_entropy(f, y)[i], -np.log(law(g)) @ y) < 1e-13


def test_softmax_and_loss_of_large_logits():
    f = np.array([1e4, -1e4, 0.0])
    for x in (f, f + 0j):
        np.testing.assert_array_equal(softmax(x), [1, 0, 0])
        np.testing.assert_array_equal(cross_entropy(x, np.eye(3)), [0, 2e4, 1e4])
    for size in (1e4, -1e4):
        np.testing.assert_allclose(softmax([size, size]), [0.5, 0.5], rtol=1e-15)
        np.testing.assert_allclose(cross_entropy([size] * 2, [0.5] * 2), np.log(2), rtol=1e-15)
