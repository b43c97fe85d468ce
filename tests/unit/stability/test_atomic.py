"""Second derivatives and what they say of a stationary measure: a naive program, real flows."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import hessian, jacobian
from examples import Energy, anchored, small, symmetric
from reference import heads, make, measure, relative

from mfbook.confinement import Anchor, Ridge
from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.stability import (
    atomic_stability,
    dirac_stability,
    strong_monotonicity,
)


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


def test_blocks_agree_with_automatic_differentiation():
    R, program = make(3)
    mu = measure(3, 3, R.shape)
    report = atomic_stability(R, mu)
    H, K = naive(program, mu)
    assert relative(report.H, H) < 1e-9
    assert relative(report.K, K) < 1e-9
    assert relative(report.gradient, R.gradient(mu.atoms, mu)) < 1e-14


def test_translation_hessian_is_that_of_the_risk_of_one_head():
    R, program, theta = small(0, k=2, v=2)
    report = dirac_stability(anchored(R, theta, 0.7), theta)
    exact = hessian(lambda t: program.risk(anp.array([t]), [1.0]))(theta)
    assert relative(report.H_tr, exact + 0.7 * np.eye(len(theta))) < 1e-9
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


def form(report, eta):
    """The form (49) in a direction, from the blocks."""
    w = report.measure.weights
    own = np.einsum("j,ja,jab,jb->", w, eta, report.H, eta)
    return own + np.einsum("j,l,ja,jlab,lb->", w, w, eta, report.K, eta)


def test_blocks_give_the_second_derivative_along_a_direction():
    R, _ = make(5)
    F, mu = R + Ridge(0.2), measure(5, 3, R.shape)
    eta = heads(6, 3, R.shape)

    def along(s):
        return F(Measure(mu.atoms + s * eta, mu.weights))

    h = 1e-3  # fourth order: error about h^4 and 1e-16 / h^2
    second = (-along(2 * h) + 16 * along(h) - 30 * along(0) + 16 * along(-h) - along(-2 * h)) / (
        12 * h**2
    )
    assert form(atomic_stability(F, mu), eta) == pytest.approx(second, abs=1e-8)


def test_blocks_on_a_sphere_are_tangent_and_give_the_second_derivative():
    rng = np.random.default_rng(6)
    F = Energy(symmetric(rng, 4), symmetric(rng, 4), Sphere())
    mu = Measure(Sphere().sample(rng, 3, 4), [0.5, 0.3, 0.2])
    x, report = mu.atoms, atomic_stability(F, mu)
    P = np.eye(4) - x[:, :, None] * x[:, None, :]
    raw = F.gradient(x, mu)
    normal = (raw * x).sum(axis=1)
    np.testing.assert_allclose(report.gradient, raw - normal[:, None] * x, atol=1e-14)
    np.testing.assert_allclose(report.K, np.einsum("jab,bc,lcd->jlad", P, F.A, P), atol=1e-13)
    np.testing.assert_allclose(report.H, P @ F.B @ P - normal[:, None, None] * P, atol=1e-13)
    # the form is the second derivative along great circles
    eta = Sphere().tangent(x, rng.normal(size=x.shape))
    size = np.linalg.norm(eta, axis=1, keepdims=True)

    def along(s):
        return F(Measure(np.cos(s * size) * x + np.sin(s * size) * eta / size, mu.weights))

    h = 1e-3
    second = (along(h) - 2 * along(0) + along(-h)) / h**2
    assert form(report, eta) == pytest.approx(second, abs=1e-4)
    # the tangent space has one dimension less
    assert report.deviations.shape == (3, 3) and report.modes.shape == (9, 3, 4)
    assert np.abs((report.modes * x).sum(axis=2)).max() < 1e-13


@pytest.mark.parametrize("distance", [0.0, 1e3, 1e6, 1e9])
def test_the_origin_does_not_matter(distance):
    """Differences of points far away lose digits, which is no fault of the functional."""
    a = distance + np.array([1.0, -0.5, 2.0])
    report = dirac_stability(Anchor(2.0, a), a)
    np.testing.assert_allclose(report.deviations, 2, rtol=1e-12)
    assert report.verdict == "stable"


# ---------------------------------------------------------------------------------------------
# the verdict


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
    assert report.tolerance == pytest.approx(1e-9 * max(1, *np.abs(report.deviations),
                                                        *np.abs(report.translations)))  # fmt: skip
    faint = dirac_stability(Energy(1e-13 * A, 1e-13 * B), np.zeros(3))
    loose = dirac_stability(Energy(A, B), np.zeros(3), tolerance=2.0)
    assert faint.verdict == loose.verdict == "neutral"


@pytest.mark.parametrize("seed", [1, 2])
def test_critical_ridge(seed):
    """At zero all eigenvalues are singular values of one matrix, and a ridge shifts them."""
    R = make(seed, V=4)[0]
    (S, T, V), shape = R.Y.shape, R.shape
    mean = np.cumsum(R.X, axis=1) / np.arange(1, T + 1)[:, None]
    sigma = np.linalg.svd(np.einsum("sta,stb->ab", mean, (1 / V - R.Y) @ R.W_U.T) / (S * T))[1]
    repeated = np.repeat(np.concatenate([sigma, -sigma]), shape.v)
    exact = np.sort(np.concatenate([repeated, np.zeros(2 * shape.d * shape.k)]))
    for share, verdict in ((1.1, "stable"), (0.9, "translation")):
        report = dirac_stability(R + Ridge(share * sigma[0]), np.zeros(shape.size))
        np.testing.assert_allclose(report.deviations, exact + share * sigma[0], atol=1e-14)
        assert (report.K == 0).all() and report.verdict == verdict


# ---------------------------------------------------------------------------------------------
# what is refused


def refused(name, call, error=ValueError):
    with pytest.raises(error, match=f"^{name}: "):
        call()


def test_what_is_not_stationary_or_not_inside_is_refused():
    R, _, theta = small(2)
    away, size = np.eye(len(theta))[0], max(np.linalg.norm(W) for W in R.shape.split(theta))
    F, mu = anchored(R, theta, 1.0), Measure.dirac(theta)
    for G in (F, F.on(R.shape.ball(1.01 * size))):
        assert dirac_stability(G, theta).gradient_norm < 1e-14
    near = F + Anchor(1e-5, theta + away)
    assert dirac_stability(near, theta, stationary=1e-4).gradient_norm == pytest.approx(1e-5)
    for G in (R, near):
        refused("theta", lambda: dirac_stability(G, theta))  # noqa: B023
    for radius in (size, 0.99 * size):
        G = F.on(R.shape.ball(radius))
        refused("theta", lambda: dirac_stability(G, theta))  # noqa: B023
        refused("mu", lambda: atomic_stability(G, mu))  # noqa: B023
        refused("mu", lambda: strong_monotonicity(G, mu, 0, 0.1))  # noqa: B023


class Wrong(Energy):
    """A quadratic energy of some size whose gradient passes through a function of ours."""

    def __init__(self, change, size=1.0):
        super().__init__(size * np.eye(2), size * np.eye(2))
        self.change, self.size = change, size

    def at(self, mu):
        local = super().at(mu)
        right = local.gradient
        local.gradient = lambda x: self.size * self.change(right(x) / self.size, x, local.mean)
        return local


def skew(a, b):
    return np.array([[0.0, a], [b, 0.0]])


@pytest.mark.parametrize("size", [1e-3, 1e6])
@pytest.mark.parametrize(
    "change",
    [
        lambda g, x, m: g + x * np.abs(x),
        lambda g, x, m: g + 0 * x + np.conj(m) - m,
        lambda g, x, m: g.real + 1.01j * g.imag if np.iscomplexobj(g) else g,
        lambda g, x, m: g + x @ skew(1e-2, 0.0),
        lambda g, x, m: g + 0 * x + m @ skew(1.0, 0.0),
    ],
)
def test_functionals_that_no_complex_step_can_differentiate_are_refused(change, size):
    """Errors count relative to the size of the second derivatives."""
    mu = Measure([[1.0, 0.5], [-0.5, 2.0]], [0.25, 0.75])
    refused("F", lambda: atomic_stability(Wrong(change, size), mu))
    atomic_stability(Wrong(lambda g, x, m: g + x @ skew(1e-6, 0.0), size), mu)
