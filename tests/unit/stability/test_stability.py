"""Stationarity, stability, optimality: against a naive program, exact formulas, real flows."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import hessian, jacobian
from examples import Energy, EnergyLocal, small, symmetric
from reference import heads, make, measure, relative
from scipy.integrate import solve_ivp
from scipy.special import rel_entr
from scipy.stats import t as student

from mfbook.book.tasks import copy_task, teacher_student
from mfbook.bounds.derivatives import directional_derivatives
from mfbook.flow import gradient_flow
from mfbook.functional import Functional
from mfbook.measure import Measure, mixture
from mfbook.models.attention import AttentionRisk, HeadShape, softmax_jacobian
from mfbook.models.confinement import Anchor, Ridge
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Ball, Sphere
from mfbook.stability import (
    atomic_stability,
    best_alternative,
    curvature_margin,
    dirac_stability,
    kl_constant,
    kl_envelope,
    kl_fit,
    kl_length,
    radial_drift,
    second_variation,
    stationarity,
    strong_monotonicity,
)


def anchored(R, theta, lam):
    """R with the anchor that makes the point mass at theta stationary."""
    G = R.gradient(theta[None], Measure.dirac(theta))[0]
    return R + Anchor(lam, theta + G / lam)


def naive(program, mu):
    """Blocks H_j and K_jl written out: autograd, and one sum over sequences and tokens."""
    atoms, weights = np.array(mu.atoms), np.array(mu.weights)
    residual = program.residual(atoms, weights)
    H = np.array([hessian(lambda t: program.psi(t, residual))(x) for x in atoms])

    def feature(theta):
        return anp.array([program.feature(theta, X) for X in program.X])

    J = np.array([jacobian(feature)(x) for x in atoms])  # (m, S, T, V, D)
    f = program.logits(atoms, weights)
    K = np.zeros((len(atoms), len(atoms), mu.dim, mu.dim))
    S, T, _ = f.shape
    for s in range(S):
        for t in range(T):
            p = np.exp(f[s, t]) / np.exp(f[s, t]).sum()
            middle = np.diag(p) - np.outer(p, p)
            K += np.einsum("jva,vw,lwb->jlab", J[:, s, t], middle, J[:, s, t]) / (S * T)
    return H, K


# ---------------------------------------------------------------------------------------------
# second derivatives


@pytest.mark.parametrize("m", [1, 3])
def test_blocks_agree_with_automatic_differentiation(m):
    R, program = make(m)
    mu = measure(m, m, R.shape)
    report = atomic_stability(R, mu)
    H, K = naive(program, mu)
    assert relative(report.H, H) < 1e-9
    assert relative(report.K, K) < 1e-9
    assert relative(report.gradient, R.gradient(mu.atoms, mu)) < 1e-14


@pytest.mark.parametrize("seed", range(3))
def test_translation_hessian_is_that_of_the_risk_of_one_head(seed):
    R, program, theta = small(seed, k=2, v=2)
    report = dirac_stability(anchored(R, theta, 0.7), theta)
    exact = hessian(lambda t: program.risk(anp.array([t]), [1.0]))(theta)
    assert relative(report.H_tr, exact + 0.7 * np.eye(len(theta))) < 1e-9
    np.testing.assert_array_equal(report.H_tr, report.H + report.K)
    values = np.linalg.eigvalsh(report.K)
    assert values[0] >= -1e-12 * values[-1] and values[-1] > 1e-3
    # eigenvalues are increasing, and the named directions belong to the lowest
    assert (np.diff(report.deviations) >= 0).all() and (np.diff(report.translations) >= 0).all()
    for M, values, direction in (
        (report.H, report.deviations, report.split_direction),
        (report.H_tr, report.translations, report.translation_direction),
    ):
        np.testing.assert_allclose(np.linalg.eigvalsh(M), values, atol=1e-12)
        np.testing.assert_allclose(M @ direction, values[0] * direction, atol=1e-12)
        assert direction @ direction == pytest.approx(1, abs=1e-12)
    assert report.split_rate == -report.deviations[0]
    assert report.translation_rate == -report.translations[0]


def test_blocks_of_the_value_and_output_matrices_are_exactly_zero():
    R, _ = make(0)
    report = atomic_stability(R, measure(0, 2, R.shape))
    ends = np.cumsum([0, *R.shape.blocks])
    for i in (2, 3):
        own = slice(ends[i], ends[i + 1])
        assert (report.H[:, own, own] == 0.0).all()
    # and not because everything is
    assert np.abs(report.H[:, ends[2] : ends[3], ends[3] :]).max() > 1e-2
    assert np.abs(report.H[:, : ends[1], ends[1] : ends[2]]).max() > 1e-3


def jacobian_of(field, y, h=1e-5):
    """Central differences, one column for each coordinate."""
    columns = [(field(y + h * e) - field(y - h * e)) / (2 * h) for e in np.eye(len(y))]
    return np.array(columns).T


def test_spectra_are_those_of_the_linearised_velocity():
    R, _ = make(4, d=2, k=1, v=1)
    F, mu = R + Ridge(0.3), measure(4, 3, R.shape)
    report = atomic_stability(F, mu)

    def linearised(mu):
        def field(y):
            moved = Measure(y.reshape(mu.atoms.shape), mu.weights)
            return F.gradient(moved.atoms, moved).ravel()

        return jacobian_of(field, mu.atoms.ravel())

    M = linearised(mu)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(M).real), report.collective, atol=1e-8)
    for value, mode in zip(report.collective, report.modes, strict=True):
        np.testing.assert_allclose(M @ mode.ravel(), value * mode.ravel(), atol=1e-8)
        assert mu.weights @ (mode * mode).sum(axis=1) == pytest.approx(1, abs=1e-12)
    # two unequal particles in the place of each atom: means and deviations
    share = np.array([0.3, 0.7])
    split = Measure(np.repeat(mu.atoms, 2, axis=0), np.outer(mu.weights, share).ravel())
    both = np.sort(np.concatenate([report.collective, report.deviations.ravel()]))
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(linearised(split)).real), both, atol=1e-8)
    again = atomic_stability(F, split)
    np.testing.assert_allclose(again.deviations, report.deviations.repeat(2, axis=0), atol=1e-12)
    np.testing.assert_allclose(again.collective, both, atol=1e-12)
    assert again.least == pytest.approx(report.least, abs=1e-12)


def test_least_form_needs_both_spectra():
    rng = np.random.default_rng(0)
    B = symmetric(rng, 3)
    mu = Measure(rng.normal(size=(2, 3)), [0.4, 0.6])
    for sign in (1, -1):  # a repulsive interaction bends the means further down
        A = sign * np.eye(3)
        report = atomic_stability(Energy(A, B), mu)
        exact = min(np.linalg.eigvalsh(B)[0], np.linalg.eigvalsh(A + B)[0])
        assert report.least == pytest.approx(exact, abs=1e-12)
        assert np.allclose(report.H, B) and np.allclose(report.K, A)


def test_second_variation_is_the_second_derivative_along_a_direction():
    R, _ = make(5)
    F, mu = R + Ridge(0.2), measure(5, 3, R.shape)
    eta = heads(6, 3, R.shape)
    curvature, interaction = second_variation(F, mu, eta)

    def along(s):
        return F(Measure(mu.atoms + s * eta, mu.weights))

    h = 1e-3  # fourth order: error about h^4 and 1e-16 / h^2
    second = (-along(2 * h) + 16 * along(h) - 30 * along(0) + 16 * along(-h) - along(-2 * h)) / (
        12 * h**2
    )
    assert curvature + interaction == pytest.approx(second, abs=1e-8)
    report = atomic_stability(F, mu)
    w = mu.weights
    form = np.einsum("j,ja,jab,jb->", w, eta, report.H, eta)
    mixed = np.einsum("j,l,ja,jlab,lb->", w, w, eta, report.K, eta)
    assert curvature == pytest.approx(form, rel=1e-11)
    assert interaction == pytest.approx(mixed, rel=1e-11)
    assert interaction > 1e-3


def test_interaction_is_the_variance_of_the_change_of_logits():
    R, _ = make(7)
    mu, eta = measure(7, 3, R.shape), heads(8, 3, R.shape)
    J, total = softmax_jacobian(R.logits(mu)), 0.0
    S, T, _ = R.X.shape
    for s in range(S):
        for t in range(T):
            _, change, _ = directional_derivatives(mu.atoms, eta, R.X[s, : t + 1], R.W_U, R.shape)
            u = mu.weights @ change
            total += u @ J[s, t] @ u / (S * T)
    assert second_variation(R, mu, eta)[1] == pytest.approx(total, rel=1e-11)


def test_random_directions_interact_through_their_mean():
    R, _ = make(9)
    theta, eta = heads(9, 1, R.shape)[0], heads(10, 1, R.shape)[0]
    twice = Measure(np.stack([theta, theta]))
    curvature, interaction = second_variation(R, twice, np.stack([eta, -eta]))
    assert curvature == pytest.approx(second_variation(R, Measure.dirac(theta), eta[None])[0])
    assert interaction == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("weights", [[1.0], [0.7, 0.3]])
def test_spectra_on_a_sphere(weights):
    """Against the flow in tangent coordinates; curvature of the sphere is the hard part."""
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    A = Q @ np.diag([0.8, -0.5, 0.4]) @ Q.T
    middle = np.zeros((3, 3))
    middle[0, 0], middle[1:, 1:] = 1.3, symmetric(rng, 2)
    F = Energy(A, Q @ middle @ Q.T, Sphere())
    x = np.array([Q[:, 0], -Q[:, 0]])[: len(weights)]
    mu = Measure(x, weights)
    assert stationarity(F, mu).worst < 1e-14
    report = atomic_stability(F, mu)
    assert report.deviations.shape == (len(x), 2) and report.collective.shape == (2 * len(x),)

    def linearised(x, weights):
        frame = Q[:, 1:]  # tangent at both poles

        def field(y):
            raw = x + y.reshape(-1, 2) @ frame.T
            size = np.linalg.norm(raw, axis=1, keepdims=True)
            place = raw / size
            v = F.space.tangent(place, F.gradient(place, Measure(place, weights)))
            # coordinates are central projections from the centre: y = <frame, x> / <x0, x>
            height = (place * x).sum(axis=1, keepdims=True)
            rate = v @ frame / height
            return (rate - (place @ frame) * (v * x).sum(1, keepdims=True) / height**2).ravel()

        return np.sort(np.linalg.eigvals(jacobian_of(field, np.zeros(2 * len(x)))).real)

    np.testing.assert_allclose(linearised(x, weights), report.collective, atol=1e-8)
    halves = np.repeat(x, 2, axis=0), np.repeat(weights, 2) / 2
    both = np.sort(np.concatenate([report.collective, report.deviations.ravel()]))
    np.testing.assert_allclose(linearised(*halves), both, atol=1e-8)
    assert np.abs((report.modes * x).sum(axis=2)).max() < 1e-14


def test_blocks_on_a_sphere_are_tangent_and_give_the_second_derivative():
    rng = np.random.default_rng(6)
    F = Energy(symmetric(rng, 4), symmetric(rng, 4), Sphere())
    mu = Measure(Sphere().sample(rng, 3, 4), [0.5, 0.3, 0.2])
    x, w, report = mu.atoms, mu.weights, atomic_stability(F, mu)
    P = np.eye(4) - x[:, :, None] * x[:, None, :]
    raw = F.gradient(x, mu)
    normal = (raw * x).sum(axis=1)
    np.testing.assert_allclose(report.gradient, raw - normal[:, None] * x, atol=1e-14)
    np.testing.assert_allclose(report.K, np.einsum("jab,bc,lcd->jlad", P, F.A, P), atol=1e-13)
    np.testing.assert_allclose(report.H, P @ F.B @ P - normal[:, None, None] * P, atol=1e-13)
    # the form is the second derivative along great circles
    eta = Sphere().tangent(x, rng.normal(size=x.shape))
    form = sum(second_variation(F, mu, eta + 5 * x))  # the normal part does not count
    size = np.linalg.norm(eta, axis=1, keepdims=True)

    def along(s):
        return F(Measure(np.cos(s * size) * x + np.sin(s * size) * eta / size, w))

    h = 1e-3
    assert form == pytest.approx((along(h) - 2 * along(0) + along(-h)) / h**2, abs=1e-4)
    blocks = np.einsum("j,ja,jab,jb->", w, eta, report.H, eta)
    blocks += np.einsum("j,l,ja,jlab,lb->", w, w, eta, report.K, eta)
    assert form == pytest.approx(blocks, abs=1e-12)
    # the tangent space has one dimension less
    assert report.deviations.shape == (3, 3) and report.modes.shape == (9, 3, 4)


def test_invariances():
    R, _ = make(11)
    F, mu = R + Ridge(0.1), measure(11, 3, R.shape)
    report = atomic_stability(F, mu)
    # the order of atoms
    order = [2, 0, 1]
    moved = atomic_stability(F, Measure(mu.atoms[order], mu.weights[order]))
    np.testing.assert_allclose(moved.collective, report.collective, atol=1e-13)
    np.testing.assert_allclose(moved.deviations, report.deviations[order], atol=1e-13)
    np.testing.assert_allclose(moved.K, report.K[np.ix_(order, order)], atol=1e-13)
    # an orthogonal gauge conjugates every block
    rng = np.random.default_rng(0)
    k, v = R.shape.k, R.shape.v
    S, U = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (k, v))

    def gauge(theta):
        W_Q, W_K, W_V, W_O = R.shape.split(theta)
        return R.shape.join(W_Q @ S, W_K @ S, W_V @ U, U.T @ W_O)

    P = gauge(np.eye(mu.dim)).T
    np.testing.assert_allclose(P @ P.T, np.eye(mu.dim), atol=1e-14)
    turned = atomic_stability(F, mu.map(gauge))
    np.testing.assert_allclose(turned.H, P @ report.H @ P.T, atol=1e-13)
    np.testing.assert_allclose(turned.K, P @ report.K @ P.T, atol=1e-13)
    # the same constant on all logits
    shifted = AttentionRisk(R.X, R.Y, R.W_U + rng.normal(size=(R.shape.d, 1)), R.shape)
    same = atomic_stability(shifted + Ridge(0.1), mu)
    np.testing.assert_allclose(same.H, report.H, atol=1e-13)
    np.testing.assert_allclose(same.K, report.K, atol=1e-13)


def test_single_precision():
    R, _, theta = small(0)
    rough = AttentionRisk(R.X, R.Y, R.W_U, R.shape, dtype=np.float32)
    fine = dirac_stability(anchored(R, theta, 2.0), theta)
    coarse = dirac_stability(anchored(rough, theta, 2.0), theta)
    np.testing.assert_allclose(coarse.H, fine.H, atol=1e-5)
    np.testing.assert_allclose(coarse.K, fine.K, atol=1e-5)
    assert coarse.verdict == fine.verdict and coarse.tolerance > 1e3 * fine.tolerance
    # weights that are small in single precision still have their derivative
    mu = Measure(np.stack([theta, -theta]), [1e-7, 1 - 1e-7])
    near = atomic_stability(rough, mu)
    np.testing.assert_allclose(near.K, atomic_stability(R, mu).K, atol=1e-5)


# ---------------------------------------------------------------------------------------------
# the verdict, the rates and the flow


def growth(F, mu, centre, t_end):
    """Fitted rate of the logarithm of the distance to a centre."""
    times = np.linspace(0, t_end, 9)
    run = gradient_flow(F, mu, times, rtol=1e-11, atol=1e-14)
    distance = np.linalg.norm(run.atoms - centre, axis=2).max(axis=1)
    return np.polyfit(times, np.log(distance), 1)[0]


@pytest.mark.parametrize("verdict", ["stable", "splitting", "translation"])
def test_linear_rates_are_those_of_the_flow(verdict):
    R, _, theta = small(9)
    bare = atomic_stability(R, Measure.dirac(theta))
    split, move = -bare.deviations[0, 0], -bare.collective[0]
    assert split > 1.2 * move > 0  # the task has all three regimes
    lam = {"stable": 1.5 * split, "splitting": (split + move) / 2, "translation": 0.5 * move}
    F = anchored(R, theta, lam[verdict])
    report = dirac_stability(F, theta)
    assert report.verdict == verdict
    s = 1e-6
    for rate, direction, signs in (
        (report.split_rate, report.split_direction, [1, -1]),
        (report.translation_rate, report.translation_direction, [1]),
    ):
        start = Measure(theta + s * np.array(signs)[:, None] * direction)
        measured = growth(F, start, theta, 1 / abs(rate))
        assert measured == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("own", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("shared", [-1.0, 0.0, 1.0])
def test_verdicts_of_quadratic_energies(own, shared, size):
    """From the two least eigenvalues; what is small beside the largest, or beside one, is zero."""
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    B = U @ np.diag([own, 1.0, 2.0]) @ U.T * size
    A = U @ np.diag([shared - own, 0.5, 0.0]) @ U.T * size
    if shared < 0:
        verdict = "translation"
    else:
        verdict = "splitting" if own < 0 else "stable" if own * shared > 0 else "neutral"
    report = dirac_stability(Energy(A, B), np.zeros(3))
    assert report.verdict == verdict
    assert report.split_rate == pytest.approx(-own * size, abs=1e-10 * size)
    assert report.translation_rate == pytest.approx(-shared * size, abs=1e-10 * size)
    faint = dirac_stability(Energy(1e-13 * A, 1e-13 * B), np.zeros(3))
    loose = dirac_stability(Energy(A, B), np.zeros(3), tolerance=2.0)
    assert faint.verdict == loose.verdict == "neutral"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, pytest.param(9, marks=pytest.mark.weekly)])
def test_splitting_is_a_nonlinear_instability(seed):
    """However close two particles start, they end at the same distance, at a lower value."""
    R, _, theta = small(seed)
    bare = atomic_stability(R, Measure.dirac(theta))
    F = anchored(R, theta, -(bare.deviations[0, 0] + bare.collective[0]) / 2)
    report = dirac_stability(F, theta)
    assert report.verdict == "splitting"
    ends = []
    for s in (1e-2, 1e-5):
        w = s * report.split_direction
        t_end = 60 / report.split_rate + np.log(1 / s) / report.split_rate
        start = Measure(np.stack([theta + w, theta - w]))
        run = gradient_flow(F, start, [0, t_end], rtol=1e-5, atol=1e-9)
        ends.append(np.linalg.norm(run.end.atoms - theta, axis=1).max())
        assert run.value[-1] < F(Measure.dirac(theta)) - 1e-8
    assert min(ends) > 0.02
    np.testing.assert_allclose(ends, ends[0], rtol=0.02)


def tasks_at_zero(name):
    if name == "teacher":
        shape = HeadShape(3, 2, 2)
        task = teacher_student(shape, sequences=12, tokens=5, vocabulary=5, heads=2, rng=1)
        return task.risk(shape)
    if name == "copy":
        task = copy_task(sequences=16, tokens=6, vocabulary=4, lag=1, rng=2)
        return task.risk(HeadShape(5, 1, 2))
    return make(int(name), V=4)[0]


@pytest.mark.parametrize("name", ["teacher", "copy", "1", "2", "3"])
def test_critical_ridge(name):
    R = tasks_at_zero(name)
    zero = np.zeros(R.shape.size)
    G = R.at(Measure.dirac(zero)).correlation(zero[None])[0]
    # written out: causal means against the residual of the uniform law
    S, T, V = R.Y.shape
    mean = np.cumsum(R.X, axis=1) / np.arange(1, T + 1)[:, None]
    Z = (1 / V - R.Y) @ R.W_U.T
    np.testing.assert_allclose(G, np.einsum("sta,stb->ab", mean, Z) / (S * T), atol=1e-14)
    sigma = np.linalg.svd(G)[1]
    repeated = np.repeat(np.concatenate([sigma, -sigma]), R.shape.v)
    exact = np.sort(np.concatenate([repeated, np.zeros(2 * R.shape.d * R.shape.k)]))
    critical = sigma[0]
    for share, verdict in ((1.1, "stable"), (0.9, "translation")):
        F = R + Ridge(share * critical)
        report = dirac_stability(F, zero)
        np.testing.assert_allclose(report.deviations, exact + share * critical, atol=1e-14)
        assert (report.K == 0).all() and report.verdict == verdict
        # the flow from a small random head falls back or leaves
        head = 1e-5 * np.random.default_rng(0).normal(size=len(zero))
        run = gradient_flow(F, Measure.dirac(head), [0, 150 / critical])
        away = np.linalg.norm(run.end.atoms) / np.linalg.norm(head)
        assert away < 1e-3 if share > 1 else away > 1e3
        # and along the lowest direction at the rate itself
        start = Measure.dirac(1e-6 * report.split_direction)
        rate = growth(F, start, zero, 1 / abs(report.split_rate))
        assert rate == pytest.approx((1 - share) * critical, rel=1e-3)


def test_verdict_where_first_order_decides_nothing():
    R = make(0)[0]
    S, T, V = R.Y.shape
    zero = np.zeros(R.shape.size)
    # each sequence twice, with labels that are uniform in the mean: everything cancels up to
    # rounding, and what is left has both signs
    tilt = R.Y / V - 1 / V**2
    X, Y = np.concatenate([R.X, R.X]), np.concatenate([1 / V + tilt, 1 / V - tilt])
    balanced = dirac_stability(AttentionRisk(X, Y, R.W_U, R.shape), zero)
    assert -1e-14 < balanced.deviations[0] < 0
    assert balanced.verdict == "neutral"
    singular = Energy(np.zeros((2, 2)), np.diag([0.0, 1.0]))
    assert dirac_stability(singular, [0.0, 0.0]).verdict == "neutral"
    # deviations decay and the mean is free
    free = Energy(-np.eye(2), np.eye(2))
    assert dirac_stability(free, [0.0, 0.0]).verdict == "neutral"
    # neither H nor the size of F decides: repelling means
    leaves = Energy(-2 * np.eye(2), np.eye(2))
    assert dirac_stability(leaves, [0.0, 0.0]).verdict == "translation"


def test_point_that_is_not_stationary_is_refused_with_its_gradient():
    R, _, theta = small(1)
    norm = np.linalg.norm(R.gradient(theta[None], Measure.dirac(theta)))
    with pytest.raises(ValueError, match=f"^theta: expected a stationary .*norm {norm:.3g}$"):
        dirac_stability(R, theta)
    F = anchored(R, theta, 1.0)
    assert dirac_stability(F, theta).gradient_norm < 1e-14
    with pytest.raises(ValueError, match="gradient norm 1e-0?5|gradient norm 9"):
        dirac_stability(F + Anchor(1e-5, theta + heads(0, 1, R.shape, 1)[0] / np.linalg.norm(
            heads(0, 1, R.shape, 1))), theta)  # fmt: skip


def test_boundary_of_a_ball_is_refused():
    R, _, theta = small(2)
    size = max(np.linalg.norm(W) for W in R.shape.split(theta))
    F, mu = anchored(R, theta, 1.0), Measure.dirac(theta)
    assert dirac_stability(F.on(R.shape.ball(1.01 * size)), theta).gradient_norm < 1e-14
    for radius, message in ((size, "on its boundary"), (0.99 * size, "is outside")):
        G = F.on(R.shape.ball(radius))
        with pytest.raises(ValueError, match=f"^theta: .*{message}"):
            dirac_stability(G, theta)
        for call in (
            lambda: atomic_stability(G, mu),  # noqa: B023
            lambda: second_variation(G, mu, theta[None]),  # noqa: B023
            lambda: strong_monotonicity(G, mu, 0, 0.1),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=f"^mu: .*{message}"):
                call()


class Wrong(Energy):
    """A quadratic energy whose gradient passes through a function of ours."""

    def __init__(self, change):
        super().__init__(np.eye(2), np.eye(2))
        self.change = change

    def at(self, mu):
        return WrongLocal(self, mu)


class WrongLocal(EnergyLocal):
    def gradient(self, x):
        return self.F.change(super().gradient(x), x, self.mean)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g, x, m: g + x * np.abs(x), "disagree in H"),
        (lambda g, x, m: np.conj(g), "disagree in [HK]"),
        (lambda g, x, m: g + 0 * x + np.conj(m) - m, "disagree in K"),
        (lambda g, x, m: g.real + 0j if np.iscomplexobj(g) else g, "disagree in H"),
        (lambda g, x, m: g + x @ [[0.0, 1.0], [-1.0, 0.0]], "not symmetric"),
        (lambda g, x, m: g + 0 * x + m @ np.array([[0.0, 1.0], [0.0, 0.0]]), "not symmetric"),
    ],
)
def test_functionals_that_no_complex_step_can_differentiate_are_refused(change, message):
    F, mu = Wrong(change), Measure([[1.0, 0.5], [-0.5, 2.0]], [0.25, 0.75])
    with pytest.raises(ValueError, match=message):
        atomic_stability(F, mu)
    atomic_stability(Wrong(lambda g, x, m: g), mu)


# ---------------------------------------------------------------------------------------------
# strong monotonicity


def test_monotonicity_of_quadratic_energies_is_exact():
    rng = np.random.default_rng(3)
    for sign, m in ((1, 1), (-1, 1), (1, 2), (-1, 3)):
        A, B = sign * np.diag([0.3, 0.2, 0.1]), symmetric(rng, 3) + 3 * np.eye(3)
        F = Energy(A, B)
        mu = Measure(rng.normal(size=(m, 3)), rng.dirichlet(np.ones(m)))
        report = strong_monotonicity(F, mu, 0, 0.5, couplings=16, descents=1)
        exact = atomic_stability(F, mu).least
        assert report.constant == pytest.approx(exact, abs=1e-9)
        assert (report.quotients >= exact - 1e-9).all()
        # one particle for each atom: only the collective spectrum
        one = strong_monotonicity(F, mu, 0, 0.5, parts=1, couplings=16, descents=1)
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
    R, _, theta = small(0)
    bare = atomic_stability(R, Measure.dirac(theta)).deviations[0, 0]
    F = anchored(R, theta, 0.5 - bare)
    for centre in (Measure.dirac(theta), Measure(np.stack([theta, -theta]), [0.3, 0.7])):
        few = {"couplings": 16, "descents": 1, "maxiter": 20}
        report = strong_monotonicity(F, centre, 1, 0.3, near=near, **few)
        still, worst = centre.atoms[report.parent], report.worst
        delta = worst.atoms - still
        squares = (delta**2).sum(axis=1)
        below = worst.weights @ squares
        extent = np.sqrt(below if near == "W2" else squares.max())
        assert 0.3e-3 * (1 - 1e-9) <= extent <= 0.3 * (1 + 1e-9)
        np.testing.assert_allclose(
            np.bincount(report.parent, worst.weights), centre.weights, atol=1e-14
        )
        rest = F.gradient(centre.atoms, centre)[report.parent]
        force = F.gradient(worst.atoms, worst) - rest
        quotient = worst.weights @ (force * delta).sum(axis=1) / below
        assert report.constant == pytest.approx(quotient, rel=1e-9)
        # the same number as a mean of the form (49) along the segment
        node, weight = np.polynomial.legendre.leggauss(40)
        forms = [
            sum(second_variation(F, Measure(still + (1 + s) / 2 * delta, worst.weights), delta))
            for s in node
        ]
        # a lone particle has a millionth of the mass: so many digits cancel in its mean
        assert report.constant == pytest.approx(weight @ forms / 2 / below, rel=1e-6)
        assert report.constant < report.quotients.min()
        assert (report.distances <= 0.3).all() and (report.distances >= 0.3e-3).all()


def test_descent_of_the_quotient_ends_at_a_minimum():
    """Moves of the worst measure, drawn back to the radius, gain nothing to first order."""
    R, _, theta = small(0)
    bare = atomic_stability(R, Measure.dirac(theta)).deviations[0, 0]
    F = anchored(R, theta, 0.5 - bare)
    few = {"parts": 2, "couplings": 8, "descents": 1, "maxiter": 1000}
    report = strong_monotonicity(F, Measure.dirac(theta), 0, 0.3, **few)
    w, delta = report.worst.weights, report.worst.atoms - theta

    def quotient(delta):
        delta = delta * min(1.0, 0.3 / np.sqrt(w @ (delta**2).sum(axis=1)))
        moved = Measure(theta + delta, w)
        force = F.gradient(moved.atoms, moved)
        return w @ (force * delta).sum(axis=1) / (w @ (delta**2).sum(axis=1))

    assert quotient(delta) == pytest.approx(report.constant, rel=1e-9) and report.converged
    few["maxiter"] = 3
    cut = strong_monotonicity(F, Measure.dirac(theta), 0, 0.3, **few)
    assert not cut.converged and cut.constant > report.constant
    without = strong_monotonicity(F, Measure.dirac(theta), 0, 0.3, **few | {"descents": 0})
    assert not without.converged
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(40):
        move = rng.normal(size=delta.shape)
        move *= 1e-3 / np.sqrt(w @ (move**2).sum(axis=1))
        gains.append(report.constant - quotient(delta + move))
    assert max(gains) < 1e-6


def test_monotonicity_near_a_point_mass_is_the_least_eigenvalue():
    """Between the two is the change of the Hessian inside the radius: of its order."""
    R, _, theta = small(0)
    bare = atomic_stability(R, Measure.dirac(theta)).deviations[0, 0]
    F = anchored(R, theta, 0.5 - bare)
    report = dirac_stability(F, theta)
    assert report.deviations[0] == pytest.approx(0.5, abs=1e-12)
    below, few = [], {"couplings": 8, "descents": 1}
    for radius in (1e-2, 1e-3):
        found = strong_monotonicity(F, Measure.dirac(theta), 0, radius, near="Winf", **few)
        # a start at a thousandth of the radius reaches 1/2 up to so much of the third derivative
        assert found.constant <= 0.5 + 1e-3 * radius
        below.append(0.5 - found.constant)
    assert 0 < below[0] < 0.1
    assert below[1] < 0.3 * below[0]


def test_one_coupling_of_one_particle():
    """It moves the particle as a whole, and sees both matrices."""
    F, mu = Energy(np.diag([0.5, -0.2]), np.diag([1.0, 2.0])), Measure([[0.0, 0.0]])
    one = strong_monotonicity(F, mu, 0, 1.0, parts=1, couplings=1, descents=0, maxiter=1)
    moved = one.worst.atoms[0]
    assert one.quotients.shape == (1,)
    assert one.constant == pytest.approx(moved @ (F.A + F.B) @ moved / (moved @ moved), rel=1e-9)


class Waves(Energy):
    """The sum of cos(x) and 5 m^2, with m the mean: held at odd multiples of pi only."""

    def __init__(self):
        super().__init__(10 * np.eye(1), np.zeros((1, 1)))

    def at(self, mu):
        local = super().at(mu)
        first, gradient = local.first_variation, local.gradient
        local.value += mu.weights @ np.cos(mu.atoms[:, 0])
        local.first_variation = lambda x: first(x) + np.cos(x[:, 0])
        local.gradient = lambda x: gradient(x) - np.sin(x)
        return local


@pytest.mark.parametrize(("j", "parts"), [(0, 2), (1, 2), (0, 3), (1, 3)])
def test_the_atom_that_is_held_least_is_found(j, parts):
    """Splitting the atom at 0 has the form -1; whatever moves the mean or the other has more."""
    mu = Measure(np.pi * np.array([[j], [1 - j]]), [0.3, 0.7])
    few = {"near": "Winf", "parts": parts, "couplings": 1, "descents": 1}
    report = strong_monotonicity(Waves(), mu, 0, 1e-2, **few)
    assert report.constant == pytest.approx(-1, abs=1e-3)
    far = np.abs(report.worst.atoms - mu.atoms[report.parent]).max()
    assert 1e-5 * (1 - 1e-9) <= far <= 1e-2 * (1 + 1e-9)


def test_contraction_is_at_least_the_constant():
    R, _, theta = small(0)
    bare = atomic_stability(R, Measure.dirac(theta)).deviations[0, 0]
    F = anchored(R, theta, 0.5 - bare)
    few = {"near": "Winf", "couplings": 16, "descents": 1}
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
    margin = curvature_margin(F, theta, 0, 0.05, samples=12)
    few = {"near": "Winf", "couplings": 8, "descents": 1}
    found = strong_monotonicity(F, Measure.dirac(theta), 0, 0.02, **few)
    assert 0 < margin.margin <= found.constant
    report = dirac_stability(F, theta)
    # the first sample is the centre
    assert margin.m <= report.deviations[0] + 1e-12
    assert margin.ell >= np.linalg.norm(report.K, 2) - 1e-12
    centre = curvature_margin(F, theta, 0, 0.05, samples=1)
    assert centre.m == pytest.approx(report.deviations[0], abs=1e-12)
    assert centre.ell == pytest.approx(np.linalg.norm(report.K, 2), abs=1e-12)


# ---------------------------------------------------------------------------------------------
# rates


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.75, 0.9])
def test_exact_power_laws(alpha):
    E = np.geomspace(3.0, 1e-7, 100)
    fit = kl_fit(E, 0.2 * E ** (2 * alpha))
    assert fit.alpha == pytest.approx(alpha, abs=1e-12)
    assert fit.c == pytest.approx(0.2, rel=1e-10)
    assert fit.slope == 2 * fit.alpha
    np.testing.assert_allclose(fit.slopes, 2 * alpha, atol=1e-10)
    assert fit.interval[0] <= alpha + 1e-11 and fit.interval[1] >= alpha - 1e-11


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    E = np.geomspace(1.0, 1e-6, 80)
    covered, runs = 0, 500
    for _ in range(runs):
        fit = kl_fit(E, E**1.5 * np.exp(0.2 * rng.normal(size=len(E))))
        covered += fit.interval[0] <= 0.75 <= fit.interval[1]
        assert abs(fit.alpha - 0.75) < 0.05
    # 95 % up to three standard deviations of the count
    assert abs(covered / runs - 0.95) < 3 * np.sqrt(0.95 * 0.05 / runs)


def test_blocks_show_a_change_of_exponent():
    E = np.geomspace(1.0, 1e-6, 120)
    fit = kl_fit(E, np.where(E > 1e-3, E, 1e3**0.5 * E**1.5), blocks=4)
    np.testing.assert_allclose(fit.slopes[[0, 3]], [1, 1.5], atol=1e-10)
    assert fit.interval[1] - fit.interval[0] > 0.2
    assert fit.interval[0] < fit.alpha < fit.interval[1]


def test_fit_is_that_of_its_blocks():
    rng = np.random.default_rng(0)
    E = np.geomspace(1.0, 1e-3, 12)
    D = 2 * E**1.4 * np.exp(0.1 * rng.normal(size=12))
    shuffled = rng.permutation(12)
    fit = kl_fit(E[shuffled], D[shuffled], blocks=3)
    x, y = np.log(E), np.log(D)
    slopes = [np.polyfit(x[i : i + 4], y[i : i + 4], 1)[0] for i in (0, 4, 8)]
    np.testing.assert_allclose(fit.slopes, slopes, rtol=1e-12)  # from the largest E on
    assert fit.slope == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-12)
    half = student.ppf(0.975, 2) * np.std(slopes, ddof=1) / np.sqrt(3)
    ends = (np.mean(slopes) - half) / 2, (np.mean(slopes) + half) / 2
    assert fit.interval == pytest.approx(ends, rel=1e-9)
    assert fit.c == pytest.approx(kl_constant(E, D, fit.alpha), rel=1e-12)


def test_constant_is_the_largest_with_the_inequality():
    rng = np.random.default_rng(1)
    E, D = rng.uniform(0.1, 2, size=(2, 30))
    for alpha in (0.5, 0.8, 0.49):
        c = kl_constant(E, D, alpha)
        assert (D >= c * E ** (2 * alpha) * (1 - 1e-12)).all()
        assert not (D >= 1.001 * c * E ** (2 * alpha)).all()
    # powers that underflow on the way
    assert kl_constant([1e-250], [2e-250], 0.75) == pytest.approx(2e125, rel=1e-12)
    assert kl_constant([1e-290], [1e-300], 0.9) == pytest.approx(1e-300 / 1e-261 / 1e-261)


@pytest.mark.parametrize("alpha", [0.5, 0.5 + 1e-9, 0.6, 0.75, 0.95])
def test_envelope_solves_its_equation_and_length_is_attained(alpha):
    E0, c = 0.7, 1.3
    tau = np.linspace(0, 5, 11)

    def slope(_, y):
        D = c * y[0] ** (2 * alpha)
        return [-D, np.sqrt(D)]

    run = solve_ivp(slope, (0, 5), [E0, 0.0], t_eval=tau, rtol=1e-11, atol=1e-14)
    envelope = kl_envelope(tau, E0, c, alpha)
    np.testing.assert_allclose(envelope, run.y[0], rtol=1e-7)
    # length so far and the bound on what is left make the bound from the start
    left = [kl_length(E, c, alpha) for E in envelope]
    np.testing.assert_allclose(run.y[1] + left, kl_length(E0, c, alpha), rtol=1e-8)


def test_envelope_at_the_ends_of_the_numbers():
    tau = [0.0, 1e-300, 1.0, 1e300]
    for alpha in (0.5, 0.75, 0.99):
        for E0 in (1e-300, 1.0, 1e300):
            for c in (1e-300, 1.0, 1e308):
                E = kl_envelope(tau, E0, c, alpha)
                assert np.isfinite(E).all() and (E >= 0).all()
                assert E[0] == E0 and (np.diff(E) <= 0).all()
    assert kl_envelope([1e150], 1e-300, 1.0, 0.75)[0] == pytest.approx(1e-300 / 1.5**2)


def test_no_flow_crosses_its_envelope():
    R, _ = make(3)
    F = R + Ridge(0.5)
    zero = Measure.dirac(np.zeros(R.shape.size))
    run = gradient_flow(F, measure(3, 2, R.shape), np.linspace(0, 20, 41))
    gap = run.value - F(zero)
    keep = gap > 1e-8
    gap, D, tau = gap[keep], run.dissipation[keep], run.t[keep]
    assert keep.sum() > 12
    for alpha in (0.5, 0.6):
        c = kl_constant(gap, D, alpha)
        envelope = kl_envelope(tau, gap[0], c, alpha)
        assert (gap <= envelope * (1 + 1e-9)).all()
        assert not (gap <= kl_envelope(tau, gap[0], 2 * c, alpha)).all()
        steps = np.sqrt(((run.atoms[1:] - run.atoms[:-1]) ** 2).sum(axis=2).mean(axis=1))
        assert steps[: keep.sum() - 1].sum() <= kl_length(gap[0], c, alpha)


@pytest.mark.parametrize(("W_V", "W_O", "alpha"), [(1.0, 1.0, 0.75), (1.0, 0.4, 0.5)])
def test_exponents_of_balanced_and_unbalanced_heads(W_V, W_O, alpha):
    """Uniform labels: the gap is about (W_V W_O)^2 / 2, and W_V^2 - W_O^2 is conserved."""
    rng = np.random.default_rng(0)
    X, W_U = rng.normal(size=(4, 3, 1)), rng.normal(size=(1, 5))
    R = AttentionRisk(X, np.full((4, 3, 5), 0.2), W_U, HeadShape(1, 1, 1))
    times = np.geomspace(1, 2000 if alpha > 0.5 else 25, 200)
    run = gradient_flow(R, Measure.dirac([0.0, 0.0, W_V, W_O]), times - 1, rtol=1e-10, atol=1e-14)
    gap = run.value - np.log(5)
    keep = (gap < 1e-2) & (gap > 1e-9)
    assert gap[keep].max() > 100 * gap[keep].min()
    fit = kl_fit(gap[keep], run.dissipation[keep])
    # the power law holds up to terms of the relative size of the gap's root
    assert abs(fit.alpha - alpha) < 0.02
    assert fit.interval[0] - 0.02 < alpha < fit.interval[1] + 0.02
    assert abs(fit.slopes[-1] / 2 - alpha) < min(abs(fit.slopes[0] / 2 - alpha), 0.005)


# ---------------------------------------------------------------------------------------------
# stationarity and optimality


def test_stationarity_is_the_dissipation():
    R, _ = make(2)
    mu = measure(2, 3, R.shape)
    report = stationarity(R, mu)
    norms = np.linalg.norm(R.gradient(mu.atoms, mu), axis=1)
    np.testing.assert_allclose(report.norms, norms, rtol=1e-14)
    assert report.dissipation == pytest.approx(mu.weights @ norms**2, rel=1e-13)
    assert report.worst == norms.max()
    # an atom without weight is off the support
    for i in range(3):
        light = stationarity(R, Measure(mu.atoms, np.eye(3)[i]))
        assert light.worst == light.norms[i]
    # on the boundary of a ball only what is allowed counts
    pulled = Energy(np.zeros((2, 2)), -np.eye(2), Ball(1.0, (2,)))
    assert stationarity(pulled, Measure([[1.0, 0.0], [0.0, -1.0]])).worst < 1e-15
    assert stationarity(pulled, Measure([[0.5, 0.0]])).worst == 0.5


def teacher_risk(seed, radius=2.0):
    shape = HeadShape(3, 1, 1)
    task = teacher_student(
        shape, sequences=8, tokens=4, vocabulary=4, heads=2, rng=seed, scale=radius
    )
    return task.risk(shape, shape.ball(radius)), task.teacher


@pytest.mark.parametrize("seed", range(3))
def test_certificate_bounds_the_true_gap(seed):
    R, teacher = teacher_risk(seed)
    rng = np.random.default_rng(seed)
    for n in (1, 2, 5):
        mu = Measure(R.space.sample(rng, n), rng.dirichlet(np.ones(n)))
        report = best_alternative(R, mu, rng, starts=1, pool=16)
        p, y = R.residual(mu) + R.Y, R.Y
        excess = rel_entr(y, p).sum(axis=-1).mean()
        assert 0 < excess <= report.rigorous and report.found <= report.rigorous
        # what one head gains is at most what is there, and at most the linear rate
        assert 0 < report.gain <= min(excess, report.found) + 1e-12
        psi = R.first_variation(mu.atoms, mu)
        np.testing.assert_allclose(report.values, psi, atol=1e-14)
        assert report.spread == pytest.approx(np.ptp(psi), abs=1e-14)
        assert report.violation == pytest.approx(psi.max() - report.least, abs=1e-14)
        at = R.first_variation(report.point[None], mu)[0]
        assert report.least == pytest.approx(at, abs=1e-14) and at <= psi.min()
        assert R.space.contains(report.point[None]).all()


def test_nothing_to_gain_at_the_teacher():
    R, teacher = teacher_risk(0)
    report = best_alternative(R, teacher, 0)
    assert report.violation < 1e-13 and report.gain < 1e-13 and report.spread < 1e-13
    beside = mixture(teacher, Measure(R.space.sample(0, 1)), 0.2)
    assert best_alternative(R, beside, 0).violation > 1e-3


def test_gain_is_that_of_the_best_mixture():
    R, _ = teacher_risk(1)
    mu = Measure(R.space.sample(1, 3), [0.5, 0.3, 0.2])
    few = {"starts": 1, "pool": 16}
    for F in (R, R + Ridge(0.01)):
        report = best_alternative(F, mu, 0, **few)
        shares = np.linspace(0, 1, 101)
        point = Measure.dirac(report.point)
        line = np.array([F(mixture(mu, point, s)) for s in shares])
        # the line is convex and flat at its minimum: the grid misses half a step squared of it
        bend = np.diff(line, 2).max()
        assert 0 <= report.gain - (F(mu) - line.min()) <= bend
        assert report.gain == pytest.approx(F(mu) - F(mixture(mu, point, report.share)), abs=1e-14)
        assert abs(report.share - shares[line.argmin()]) <= 1 / 100
        assert report.found == frank_wolfe_gap(F, mu, 0, **few).found
    # weightless atoms are off the support: they are no part of the violation
    light = Measure(np.concatenate([mu.atoms, R.space.sample(5, 4)]), [0.5, 0.3, 0.2, 0, 0, 0, 0])
    own, more = (best_alternative(R, nu, 0, **few) for nu in (mu, light))
    assert more.spread == pytest.approx(own.spread, abs=1e-12)
    assert more.values.shape == (7,) and np.ptp(more.values) > more.spread


def test_best_head_of_a_ridge_takes_all_the_weight():
    F = Ridge(2.0).on(Ball(5.0, (1,)))
    for mu, spread, violation, gain in (
        (Measure([[1.0], [3.0]], [1.0, 0.0]), 0.0, 1.0, 1.0),  # the second is off the support
        (Measure([[1.0], [2.0]]), 3.0, 4.0, 2.5),
        (Measure([[0.0]]), 0.0, 0.0, 0.0),
    ):
        best = best_alternative(F, mu, 0)
        assert (best.spread, best.least) == pytest.approx((spread, 0), abs=1e-12)
        assert (best.violation, best.gain) == pytest.approx((violation, gain), abs=1e-9)
        assert best.share == (gain > 0)


def test_best_share_inside_the_interval():
    """F = m^2 / 2 - m / 2 with m the mean: a head at r in the mixture with 0 is best at 1 / 2r."""

    class Linear(Energy):
        def at(self, mu):
            local = super().at(mu)
            first, gradient = local.first_variation, local.gradient
            local.value -= 0.5 * local.mean[0]
            local.first_variation = lambda x: first(x) - 0.5 * x[:, 0]
            local.gradient = lambda x: gradient(x) - 0.5
            return local

        def over_weights(self, atoms):
            return lambda w: (self(Measure(atoms, w)), None)

    report = best_alternative(
        Linear(np.eye(1), np.zeros((1, 1)), Ball(2.0, (1,))), Measure([[0.0]]), 0
    )
    assert report.point == pytest.approx([2.0]) and report.least == pytest.approx(-1.0)
    assert report.share == pytest.approx(0.25, abs=1e-7)
    assert report.gain == pytest.approx(0.125, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_certificate_bounds_the_true_gap_of_many_measures(seed):
    shape = HeadShape(4, 2, 2)
    task = teacher_student(shape, sequences=16, tokens=5, vocabulary=6, heads=3, rng=seed)
    R, rng = task.risk(shape, shape.ball(4.0)), np.random.default_rng(seed)
    for n in rng.integers(1, 30, size=25):
        mu = Measure(R.space.sample(rng, n), rng.dirichlet(np.ones(n)))
        near = mixture(task.teacher, mu, float(10 ** rng.uniform(-4, 0)))
        for nu in (mu, near):
            report = best_alternative(R, nu, rng, starts=1, pool=32)
            excess = R(nu) - task.optimal_risk
            assert 0 < excess <= report.rigorous
            assert -1e-12 <= report.gain <= min(excess, report.found) + 1e-12


# ---------------------------------------------------------------------------------------------
# radial drift


def test_radial_drift_of_a_quadratic_energy_is_its_least_eigenvalue():
    rng = np.random.default_rng(4)
    B = symmetric(rng, 4)
    report = radial_drift(Energy(np.zeros((4, 4)), B), Measure(np.zeros((1, 4))), [0.1, 7.0], 0)
    np.testing.assert_allclose(report.least, np.linalg.eigvalsh(B)[0], atol=1e-6)
    assert (report.sampled > report.least + 1e-3).all()
    np.testing.assert_allclose(np.linalg.norm(report.points, axis=1), report.radii, rtol=1e-12)


def test_radial_drift_at_the_ends_of_the_range():
    F, mu = Energy(np.zeros((2, 2)), np.diag([1.0, 2.0])), Measure([[0.0, 0.0]])
    report = radial_drift(F, mu, [1e-74, 1.0, 1e74], 0, samples=5, descents=1)
    np.testing.assert_allclose(report.least, 1.0, atol=1e-5)
    # without descents: the best of the samples, at its point
    report = radial_drift(F, mu, [2.0, 3.0], 0, descents=0)
    drift = (report.points @ F.B * report.points).sum(axis=1) / report.radii**2
    np.testing.assert_allclose(report.least, drift, rtol=1e-12)
    np.testing.assert_allclose(report.sampled, report.least, rtol=1e-12)


def test_radial_drift_beats_a_cloud_and_is_odd():
    R = make(6, d=2, k=1, v=1, soft=False)[0]
    mu, radii = measure(6, 2, R.shape), np.array([0.5, 2.0])
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(5_000, R.shape.size))
    cloud /= np.linalg.norm(cloud, axis=1, keepdims=True)
    few = {"samples": 64, "descents": 2}
    up, down = (radial_drift(s * R, mu, radii, 0, **few) for s in (1, -1))
    for i, r in enumerate(radii):
        values = (R.gradient(r * cloud, mu) * cloud).sum(axis=1) / r
        assert up.least[i] <= values.min() and values.max() <= -down.least[i]
        # D is small: the cloud comes close
        assert up.least[i] >= 2 * values.min()
        at = up.points[i]
        quotient = R.gradient(at[None], mu)[0] @ at / r**2
        assert up.least[i] == pytest.approx(quotient, rel=1e-10)
    # the first variation is odd in W_O: as low as it is high, so no sphere of the bare model
    # has an inward field
    np.testing.assert_allclose(up.least, down.least, rtol=1e-5)
    assert (up.least < 0).all()
    # a ridge shifts everything
    shifted = radial_drift(R + Ridge(0.7), mu, radii, 0, **few)
    np.testing.assert_allclose(shifted.least, up.least + 0.7, rtol=1e-5)


# ---------------------------------------------------------------------------------------------
# bad input

RIDGE, MU = Ridge(1.0), Measure([[0.0, 1.0]])
ON_SPHERE = Energy(np.eye(2), np.eye(2), Sphere())
TAKES_F = {
    "dirac_stability": lambda F, mu: dirac_stability(F, mu.atoms[0]),
    "atomic_stability": atomic_stability,
    "second_variation": lambda F, mu: second_variation(F, mu, mu.atoms),
    "strong_monotonicity": lambda F, mu: strong_monotonicity(F, mu, 0, 1.0),
    "curvature_margin": lambda F, mu: curvature_margin(F, mu.atoms[0], 0, 1.0),
    "stationarity": stationarity,
    "best_alternative": lambda F, mu: best_alternative(F, mu, 0),
    "radial_drift": lambda F, mu: radial_drift(F, mu, [1.0], 0),
}
TAKES_MU = [n for n in TAKES_F if n not in ("dirac_stability", "curvature_margin")]
NEEDS_REAL = [n for n in TAKES_MU if n not in ("stationarity", "best_alternative")]
FLAT = ["strong_monotonicity", "curvature_margin", "radial_drift"]


class Untouched(Ridge):
    """A functional at which nothing may be computed."""

    def at(self, mu):
        raise AssertionError("work before the arguments were checked")


NEVER = Untouched(1.0)
REFUSED = {
    "theta, text": ("theta", TypeError, lambda: dirac_stability(NEVER, "x")),
    "theta, matrix": ("theta", ValueError, lambda: dirac_stability(NEVER, [[1.0]])),
    "theta, nan": ("theta", ValueError, lambda: dirac_stability(NEVER, [np.nan])),
    "theta, complex": ("theta", TypeError, lambda: dirac_stability(NEVER, [1j])),
    "stationary": (
        "stationary", ValueError, lambda: dirac_stability(NEVER, [1.0], stationary=0.0)
    ),
    "tolerance": ("tolerance", TypeError, lambda: dirac_stability(NEVER, [1.0], tolerance="1")),
    "eta, shape": ("eta", ValueError, lambda: second_variation(NEVER, MU, [1.0, 2.0])),
    "eta, complex": ("eta", TypeError, lambda: second_variation(NEVER, MU, [[1j, 2.0]])),
    "rng": ("rng", TypeError, lambda: strong_monotonicity(NEVER, MU, None, 1.0)),
    "radius, zero": ("radius", ValueError, lambda: strong_monotonicity(NEVER, MU, 0, 0.0)),
    "radius, list": ("radius", TypeError, lambda: strong_monotonicity(NEVER, MU, 0, [1.0])),
    "parts": ("parts", ValueError, lambda: strong_monotonicity(NEVER, MU, 0, 1.0, parts=0)),
    "couplings": (
        "couplings", TypeError, lambda: strong_monotonicity(NEVER, MU, 0, 1.0, couplings=1.5)
    ),
    "near": ("near", ValueError, lambda: strong_monotonicity(NEVER, MU, 0, 1.0, near="W1")),
    "descents": (
        "descents", ValueError, lambda: strong_monotonicity(NEVER, MU, 0, 1.0, descents=-1)
    ),
    "maxiter": ("maxiter", ValueError, lambda: strong_monotonicity(NEVER, MU, 0, 1.0, maxiter=0)),
    "margin, theta": ("theta", ValueError, lambda: curvature_margin(NEVER, 1.0, 0, 1.0)),
    "margin, rng": ("rng", TypeError, lambda: curvature_margin(NEVER, [1.0], 0.5, 1.0)),
    "margin, radius": ("radius", ValueError, lambda: curvature_margin(NEVER, [1.0], 0, -1)),
    "samples": ("samples", ValueError, lambda: curvature_margin(NEVER, [1.0], 0, 1, samples=0)),
    "margin, parts": ("parts", TypeError, lambda: curvature_margin(NEVER, [1.0], 0, 1, parts=None)),
    "alternative, rng": ("rng", TypeError, lambda: best_alternative(NEVER, MU, None)),
    "radii, zero": ("radii", ValueError, lambda: radial_drift(NEVER, MU, [1.0, 0.0], 0)),
    "radii, number": ("radii", ValueError, lambda: radial_drift(NEVER, MU, 1.0, 0)),
    "radii, text": ("radii", TypeError, lambda: radial_drift(NEVER, MU, ["1"], 0)),
    "drift, rng": ("rng", TypeError, lambda: radial_drift(NEVER, MU, [1.0], "0")),
    "drift, samples": (
        "samples", ValueError, lambda: radial_drift(NEVER, MU, [1.0], 0, samples=0)
    ),
    "drift, descents": (
        "descents", TypeError, lambda: radial_drift(NEVER, MU, [1.0], 0, descents=True)
    ),
    "drift, maxiter": (
        "maxiter", ValueError, lambda: radial_drift(NEVER, MU, [1.0], 0, maxiter=-3)
    ),
    "gap, zero": ("gap", ValueError, lambda: kl_fit([1.0, 0.0], [1.0, 1.0])),
    "gap, negative": ("gap", ValueError, lambda: kl_constant([-1.0], [1.0], 0.5)),
    "gap, short": ("gap", ValueError, lambda: kl_fit(np.arange(1, 16), np.ones(15))),
    "gap, constant": ("gap", ValueError, lambda: kl_fit(np.ones(16), np.ones(16))),
    "gap, plateau": (
        "gap", ValueError, lambda: kl_fit([4.0, 3.0, 1.0, 1.0], np.ones(4), blocks=2)
    ),
    "dissipation, length": ("dissipation", ValueError, lambda: kl_fit(np.ones(16), np.ones(15))),
    "dissipation, zero": ("dissipation", ValueError, lambda: kl_constant([1.0], [0.0], 0.5)),
    "blocks": ("blocks", ValueError, lambda: kl_fit(np.ones(16), np.ones(16), blocks=1)),
    "alpha, zero": ("alpha", ValueError, lambda: kl_constant([1.0], [1.0], 0.0)),
    "alpha, small": ("alpha", ValueError, lambda: kl_envelope([0.0], 1.0, 1.0, 0.49)),
    "alpha, one": ("alpha", ValueError, lambda: kl_length(1.0, 1.0, 1.0)),
    "tau": ("tau", ValueError, lambda: kl_envelope([-1.0], 1.0, 1.0, 0.5)),
    "E0": ("E0", ValueError, lambda: kl_envelope([0.0], 0.0, 1.0, 0.5)),
    "E0, length": ("E0", TypeError, lambda: kl_length(None, 1.0, 0.5)),
    "c": ("c", ValueError, lambda: kl_length(1.0, -1.0, 0.5)),
}  # fmt: skip


def refused(call, name, error):
    with pytest.raises(error, match=f"^{name}: ") as caught:
        call()
    assert type(caught.value) is error


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input(case):
    name, error, call = REFUSED[case]
    refused(call, name, error)


@pytest.mark.parametrize("name", TAKES_F)
def test_what_is_no_functional(name):
    for bad in (None, 3.0, lambda mu: 0.0, RIDGE.at(MU)):
        refused(lambda: TAKES_F[name](bad, MU), "F", TypeError)  # noqa: B023


@pytest.mark.parametrize("name", FLAT)
def test_what_needs_a_flat_space(name):
    refused(lambda: TAKES_F[name](ON_SPHERE, MU), "F", ValueError)


@pytest.mark.parametrize("name", TAKES_MU)
def test_what_is_no_measure(name):
    class Atoms:
        atoms = MU.atoms

    refused(lambda: TAKES_F[name](NEVER, Atoms()), "mu", TypeError)


@pytest.mark.parametrize("name", NEEDS_REAL)
def test_measures_that_are_not_real(name):
    refused(lambda: TAKES_F[name](NEVER, Measure(MU.atoms + 1j)), "mu", TypeError)


@pytest.mark.parametrize("name", ["atomic_stability", "second_variation", "strong_monotonicity"])
def test_atoms_without_weight(name):
    light = Measure([[0.0, 1.0], [1.0, 1.0]], [0.0, 1.0])
    refused(lambda: TAKES_F[name](NEVER, light), "mu", ValueError)


def test_heads_of_another_size_are_named_as_they_were_given():
    R = make(0)[0]
    refused(lambda: dirac_stability(R, [1.0, 2.0]), "theta", ValueError)
    refused(lambda: curvature_margin(R, [1.0, 2.0], 0, 1.0), "theta", ValueError)
    refused(lambda: atomic_stability(R, MU), "mu", ValueError)
    confined = R.on(R.shape.ball(1.0))
    refused(lambda: dirac_stability(confined, [1.0, 2.0]), "theta", ValueError)
    refused(lambda: atomic_stability(confined, MU), "mu", ValueError)
    refused(lambda: best_alternative(RIDGE.on(Ball(1.0, (2,))), Measure([[3.0, 0.0]]), 0),
            "mu", ValueError)  # fmt: skip


def test_couplings_without_descents():
    R, _ = make(seed=2)
    mu = Measure(heads(1, 2, R.shape))
    few = strong_monotonicity(R, mu, 0, 0.5, couplings=4, descents=0)
    more = strong_monotonicity(R, mu, 0, 0.5, couplings=4, descents=1, maxiter=3)
    assert few.constant == few.quotients.min() and more.constant <= few.constant


# ---------------------------------------------------------------------------------------------
# which second derivatives are refused


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e6])
def test_disagreements_count_relative_to_the_size(size):
    mu = Measure([[1.0, 0.5], [-0.5, 2.0]], [0.25, 0.75])

    def F(error, skew=0.0):
        def change(g, x, m):
            wrong = 1 + error if np.iscomplexobj(g) else 1.0
            return size * (g.real + 1j * wrong * g.imag if np.iscomplexobj(g) else g) + (
                size * x @ np.array([[0.0, skew], [0.0, 0.0]])
            )

        return Wrong(change)

    atomic_stability(F(1e-6), mu), atomic_stability(F(0.0, 1e-6), mu)
    if size > 1e-9:  # there the rounding of the gradients allows for more
        for wrong in (F(1e-2), F(0.0, 1e-2)):
            with pytest.raises(ValueError, match="disagree|symmetric"):
                atomic_stability(wrong, mu)


def test_a_tolerated_asymmetry_is_halved_on_both_sides():
    for B in ([[0.0, 5e-5], [0.0, 0.0]], [[0.0, 0.0], [5e-5, 0.0]]):
        F = Wrong(lambda g, x, m, B=B: g + x @ np.array(B))
        found = atomic_stability(F, Measure([[1.0, 0.5]])).deviations[0]
        np.testing.assert_allclose(found, [1 - 2.5e-5, 1 + 2.5e-5], rtol=1e-12)


def test_atoms_must_stay_inside_a_ball_that_is_a_little_smaller():
    F = Energy(np.zeros((2, 2)), np.eye(2), Ball(1.0, (2,)))
    atomic_stability(F, Measure([[0.0, 1 - 1.5e-6]]))
    with pytest.raises(ValueError, match="^mu: .*boundary"):
        atomic_stability(F, Measure([[0.0, 0.5], [0.0, 1 - 0.5e-6]]))


class Single(Functional):
    """Half the square of the mean, in single precision."""

    dtype = np.dtype(np.float32)

    def at(self, mu):
        kind = np.complex64 if np.iscomplexobj(mu.atoms) else np.float32
        mean = mu.weights.astype(np.float32) @ mu.atoms.astype(kind)
        return type("Local", (), {"gradient": lambda _, x: mean + 0 * x.astype(np.float32)
                                  if not np.iscomplexobj(x) else mean + 0 * x})()  # fmt: skip


def test_steps_times_tiny_weights_are_normal_numbers_in_single_precision():
    report = atomic_stability(Single(), Measure([[1.0, 0.5], [0.25, 2.0]], [1 - 1e-22, 1e-22]))
    np.testing.assert_allclose(report.K, np.eye(2) + np.zeros((2, 2, 1, 1)), atol=1e-6)
