"""Attention and a perceptron on the sphere: forces, energies and their first two derivatives."""

from dataclasses import replace

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad, jacobian
from autograd.scipy.special import erf
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, simpson
from scipy.special import ndtr

from mfbook.equilibria import (
    SecondOrder,
    minimise_on_circle,
    newton,
    second_order,
    settle,
    velocity_jacobian,
)
from mfbook.flow import flow, gradient_flow
from mfbook.functional import check_functional
from mfbook.measure import Measure
from mfbook.models.activations import (
    GELU,
    LEAKY_RELU,
    LINEAR,
    RELU,
    TANH,
    Activation,
    activation,
    leaky_relu,
)
from mfbook.models.sphere import SphereEnergy, forces, frames, linearised
from mfbook.optimise import frank_wolfe_gap
from mfbook.space import Sphere
from mfbook.stability import atomic_stability

SPHERE = Sphere()
LONG = np.longdouble
ACTIVATIONS = [RELU, LEAKY_RELU, leaky_relu(0.3), GELU, TANH, LINEAR]
NAMES = ["relu", "leaky_relu", "gelu", "tanh", "linear"]
MATRICES = {"identity": None, "definite": [1.0, 0.4, 2.0], "indefinite": [-1.5, 0.4, 1.0]}

# activations and primitives as in a textbook, for NumPy and autograd
SIGMA = {
    "relu": lambda s: anp.where(s > 0, s, 0 * s),
    "leaky_relu": lambda s: anp.where(s > 0, s, s / 100),
    "leaky_relu(0.3)": lambda s: anp.where(s > 0, s, 0.3 * s),
    "gelu": lambda s: s * (1 + erf(s / anp.sqrt(2.0))) / 2,
    "tanh": anp.tanh,
    "linear": lambda s: s,
}
PRIMITIVE = {
    "relu": lambda s: anp.where(s > 0, s, 0 * s) ** 2,
    "leaky_relu": lambda s: anp.where(s > 0, s**2, s**2 / 100),
    "gelu": lambda s: (
        (s**2 - 1) * (1 + erf(s / anp.sqrt(2.0))) / 2
        + s * anp.exp(-(s**2) / 2) / anp.sqrt(2 * anp.pi)
        + 0.5
    ),
    "tanh": lambda s: 2 * anp.log(anp.cosh(s)),
    "linear": lambda s: s**2,
}


def points(seed, n, d):
    """Uniform unit vectors."""
    return SPHERE.sample(seed, n, d)


def on_circle(*angles):
    """Unit vectors at angles."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def measure(seed, n, d):
    """Random atoms with random weights."""
    rng = np.random.default_rng(seed)
    return Measure(points(rng, n, d), rng.dirichlet(np.ones(n)))


def matrix(kind, d, seed=0):
    """A symmetric matrix in general position with eigenvalues of the given kind."""
    if MATRICES[kind] is None:
        return None
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    B = Q @ np.diag(np.resize(MATRICES[kind], d)) @ Q.T
    return (B + B.T) / 2


def energy(beta, units="gelu", d=3, *, seed=0, J=4, bias=False, **options):
    """An energy with J random units."""
    rng = np.random.default_rng([seed, J, d])
    b = rng.normal(size=J) / 2 if bias else None
    return SphereEnergy(beta, points(rng, J, d), rng.normal(size=J), units, bias=b, **options)


def reference(F, x, mu):
    """Z, N and N / Z at the points x, by visiting every pair in extended precision."""
    w = mu.weights
    x, y = x.astype(LONG), mu.atoms[w > 0].astype(LONG)
    z = y if F.B is None else y @ F.B.astype(LONG)
    size = LONG(1) if F.B is None else LONG(np.linalg.norm(F.B, 2))
    exponent = LONG(F.beta) * (x @ z.T - size)
    e = np.exp(exponent) * w[w > 0]
    logs = exponent + np.log(w[w > 0].astype(LONG))
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    parts = e.sum(axis=1), e @ z, share @ z / share.sum(axis=1, keepdims=True)
    return tuple(part.astype(float) for part in parts)


def drift(F, x):
    """Drift of the perceptron."""
    if F.a is None:
        return 0.0 * x
    scores = x @ F.a.T + (0 if F.bias is None else F.bias)
    return (SIGMA[F.activation.name](scores) * F.omega) @ F.a


def velocity(F, x, mu):
    """The field u, from the reference."""
    _, N, quotient = reference(F, x, mu)
    total = (quotient if F.normalised else N) + drift(F, x)
    return total - (x * total).sum(axis=1, keepdims=True) * x


def raw_energy(F, x, w):
    """The energy as a program for autograd, for atoms and weights that need not be normalised."""
    z = x if F.B is None else anp.dot(x, F.B)
    s = 1.0 if F.B is None else np.linalg.norm(F.B, 2)
    pairs = anp.exp(F.beta * (anp.dot(x, z.T) - s))
    interaction = anp.dot(w, anp.dot(pairs, w)) / (2 * F.beta)
    scores = anp.dot(x, F.a.T) + (0 if F.bias is None else F.bias)
    v = anp.dot(PRIMITIVE[F.activation.name](scores), F.omega)
    return interaction + anp.dot(w, v) / 2


def raw_field(F, x, w):
    """The tangential field at the atoms as a program for autograd."""
    z = x if F.B is None else anp.dot(x, F.B)
    s = 1.0 if F.B is None else np.linalg.norm(F.B, 2)
    pairs = anp.exp(F.beta * (anp.dot(x, z.T) - s)) * w
    G = anp.dot(pairs, z)
    if F.normalised:
        G = G / anp.sum(pairs, axis=1)[:, None]
    if F.a is not None:
        scores = anp.dot(x, F.a.T) + (0 if F.bias is None else F.bias)
        G = G + anp.dot(SIGMA[F.activation.name](scores) * F.omega, F.a)
    return G - anp.sum(x * G, axis=1)[:, None] * x


def raw_jacobian(F, mu):
    """Jacobian of the field in the frames of the package, by automatic differentiation."""
    x, T = mu.atoms, frames(mu.atoms)
    J = jacobian(lambda x: raw_field(F, x, mu.weights))(x)
    n, _, k = T.shape
    return np.einsum("idp,idje,jeq->ipjq", T, J, T).reshape(n * k, n * k)


# ---------------------------------------------------------------------------------------------
# activations


@pytest.mark.parametrize("f", ACTIVATIONS, ids=lambda f: f.name)
def test_activation_primitive_and_slope(f):
    """The primitive is twice the integral; the slope is a derivative; each is finite far out."""
    s = np.concatenate([np.linspace(-6, 6, 25), [1e-9, -1e-9, 30.0, -30.0]])
    np.testing.assert_allclose(f.sigma(s), SIGMA[f.name](s), rtol=1e-13, atol=1e-16)
    assert f.primitive(np.zeros(1))[0] == 0
    for end in s:
        integral = quad(lambda t: float(SIGMA[f.name](t)), 0, end, epsabs=1e-13, epsrel=1e-13)[0]
        assert f.primitive(np.array([end]))[0] == pytest.approx(2 * integral, rel=1e-12, abs=1e-13)
    away = s[np.abs(s) > 1e-3]
    h = 1e-6
    central = (SIGMA[f.name](away + h) - SIGMA[f.name](away - h)) / (2 * h)
    np.testing.assert_allclose(f.slope(away), central, atol=1e-8)
    step = 1e-30
    np.testing.assert_allclose(f.sigma(away + 1j * step).imag / step, f.slope(away), atol=1e-14)
    twice = f.primitive(away + 1j * step).imag / step
    np.testing.assert_allclose(twice, 2 * f.sigma(away), rtol=1e-12, atol=1e-14)
    far = np.array([1e4, -1e4])
    for part in (f.sigma, f.primitive, f.slope):
        assert np.isfinite(part(far)).all() and np.isfinite(part(far + 1e-30j)).all()
        assert part(s.reshape(-1, 1)).shape == (len(s), 1)


def test_primitives_far_out():
    far = np.array([1e4, -1e4])
    np.testing.assert_allclose(GELU.primitive(far), [1e8 - 0.5, 0.5], rtol=1e-15)
    np.testing.assert_allclose(TANH.primitive(far), 2 * (1e4 - np.log(2)), rtol=1e-15)
    np.testing.assert_allclose(RELU.primitive(far), [1e8, 0])
    np.testing.assert_allclose(LEAKY_RELU.primitive(far), [1e8, 1e6])
    # the left tail keeps its relative accuracy
    assert GELU.sigma(np.array([-30.0]))[0] == pytest.approx(-30 * ndtr(-30), rel=1e-12)
    np.testing.assert_allclose(TANH.slope(np.array([20.0, -20.0])), 4 * np.exp(-40), rtol=1e-12)


@pytest.mark.parametrize("radius", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("f", ACTIVATIONS, ids=lambda f: f.name)
def test_lipschitz_is_the_largest_slope(f, radius):
    s = np.linspace(-radius, radius, 20001)
    chords = np.abs(np.diff(SIGMA[f.name](s)) / np.diff(s))
    assert f.lipschitz(radius) == pytest.approx(chords.max(), rel=1e-3)
    assert f.lipschitz(radius) >= chords.max() * (1 - 1e-9)


def test_names_of_activations():
    for name in NAMES:
        assert activation(name).name == name
    assert activation(TANH) is TANH and repr(leaky_relu(0.3)) == "Activation('leaky_relu(0.3)')"
    assert (leaky_relu(0).name, leaky_relu(0.01).name) == ("relu", "leaky_relu")
    assert [f.analytic for f in (*ACTIVATIONS, leaky_relu(1.0))] == [False] * 3 + [True] * 4
    for bad, error in (("swish", ValueError), (None, TypeError), (np.tanh, TypeError)):
        with pytest.raises(error, match="^activation: "):
            activation(bad)
    for bad in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match="^slope: "):
            leaky_relu(bad)
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="^radius: "):
            TANH.lipschitz(bad)


# ---------------------------------------------------------------------------------------------
# forces


def awkward(rng, n):
    """Weights of which some are zero and some tiny."""
    w = rng.dirichlet(np.ones(n))
    if n >= 7:
        w[3::7], w[5::7] = 0, 1e-250
    return w / w.sum()


SIZES = [
    (2, 1), (2, 7), (2, 300), (2, 5000), (3, 1), (3, 2), (3, 300), (3, 5000), (5, 40), (5, 600),
    (16, 3), (16, 257),
]  # fmt: skip


@pytest.mark.parametrize("d, n", SIZES)
def test_forces_are_the_sum_over_pairs(d, n):
    """To 1e-12, at the particles and elsewhere, normalised or not, for all temperatures."""
    rng = np.random.default_rng([d, n])
    mu = Measure(points(rng, n, d), awkward(rng, n))
    # on the circle so many other points that the series serves them too
    other = points(rng, 700 if d == 2 else 40, d)
    other[:2] = mu.atoms[0], -mu.atoms[-1]
    own = rng.permutation(n)[:25]
    few = np.r_[:20, 600:605] % len(other)
    for beta in (1e-3, 0.3, 50.0, 1e4) if n <= 600 else (1e-3, 50.0, 1e4)[:: d - 1]:
        F = SphereEnergy(beta)
        local = F.at(mu)
        for x, at, rows in ((mu.atoms, mu.atoms[own], own), (other, other[few], few)):
            Z, N, quotient = reference(F, at, mu)
            assert np.abs(local.first_variation(x)[rows] * beta - Z).max() < 1e-12
            assert np.abs(local.gradient(x)[rows] - N).max() < 1e-12
            u = F.velocity(x, mu)[rows]
            assert np.abs(u - SPHERE.tangent(at, N)).max() < 1e-12
            u = replace(F, normalised=True).velocity(x, mu)[rows]
            assert np.abs(u - SPHERE.tangent(at, quotient)).max() < 1e-12


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("name", NAMES)
def test_forces_with_a_perceptron_and_a_matrix(name, kind, normalised):
    for d, n in ((2, 9), (2, 500), (3, 20)):
        F = energy(3.0, name, d, bias=n != 20, B=matrix(kind, d), normalised=normalised, seed=d)
        mu, x = measure(n, n, d), points(1, 400, d)
        for y in (mu.atoms, x):
            at, local = y[:20], F.at(mu)
            assert np.abs(F.velocity(y, mu)[:20] - velocity(F, at, mu)).max() < 1e-12
            np.testing.assert_allclose(F.perceptron(at), drift(F, at), rtol=0, atol=1e-13)
            scores = at @ F.a.T + (0 if F.bias is None else F.bias)
            v = PRIMITIVE[name](scores) @ F.omega
            np.testing.assert_allclose(F.potential(at), v, rtol=0, atol=1e-13)
            Z, N, _ = reference(F, at, mu)
            assert np.abs(local.first_variation(y)[:20] - Z / F.beta - v / 2).max() < 1e-12
            assert np.abs(local.gradient(y)[:20] - N - drift(F, at)).max() < 1e-12


@pytest.mark.parametrize("beta", [1e-3, 2.0, 300.0])
def test_the_series_and_the_pairs_agree(beta, monkeypatch):
    """Both ways for the same question, whatever the choice between them."""
    rng = np.random.default_rng(0)
    mu = Measure(points(rng, 120, 2), awkward(rng, 120))
    other = points(1, 50, 2)
    for normalised in (False, True):
        F, values = energy(beta, "tanh", 2, normalised=normalised), {}
        for fast in (True, False):
            monkeypatch.setattr(forces, "fast_on_circle", lambda *_, fast=fast: fast)
            local = F.at(mu)
            values[fast] = [local.value * beta]
            for x in (mu.atoms, other):
                u, delta = F.velocity(x, mu), local.first_variation(x)
                values[fast] += [u, local.gradient(x), delta * beta]
                assert np.abs(u - velocity(F, x, mu)).max() < 1e-12
        for fast, slow in zip(values[True], values[False], strict=True):
            assert np.abs(fast - slow).max() < 1e-12


def test_the_choice_between_series_and_pairs():
    """The series is chosen for many pairs, never for few; both sides were tested above."""
    for beta in (1e-3, 1.0, 1e4):
        terms = forces.terms_needed(beta)
        assert not forces.fast_on_circle(1, 10**6, beta)
        assert not forces.fast_on_circle(10, 10, beta)
        assert not forces.fast_on_circle(terms, terms, beta)
        assert forces.fast_on_circle(20 * terms, 20 * terms, beta)


def test_there_are_enough_coefficients():
    """The series is cut where it is small, not where the memory for it ends."""
    for beta in (1e-9, 1e-8, 1e-3, 0.1, 1.0, 7.0, 50.0, 1e3, 1e4, 1e6):
        c = forces.fourier(beta)
        assert 2 <= len(c) < forces.terms_needed(beta) and (c > 0).all()
        u = np.linspace(0, np.pi, 7) / max(1, np.sqrt(beta))
        series = np.cos(np.outer(u, np.arange(len(c)))) @ c
        np.testing.assert_allclose(series, np.exp(-2 * beta * np.sin(u / 2) ** 2), 0, 1e-13)
        slope = np.sin(np.outer(u, np.arange(len(c)))) @ (np.arange(len(c)) * c) / beta
        exact = np.sin(u) * np.exp(-2 * beta * np.sin(u / 2) ** 2)
        np.testing.assert_allclose(slope, exact, 0, 1e-13)
        with pytest.raises(ValueError, match="read-only"):
            c[0] = 0


def series_error(n, m, beta=2.0):
    """Errors of the series for n particles, at themselves and at m other points."""
    mu, other = measure(n, n, 2), points(m, m, 2)
    worst = 0.0
    for own, x in ((True, mu.atoms), (False, mu.atoms), (False, other)):
        few = np.unique(np.r_[:3, len(x) // 2, len(x) - 3 : len(x)] % len(x))
        sums = forces.CircleSums.of(mu.atoms, mu.weights, beta)
        Z, r, t, c = sums(x, "Zrtc", own=own)[:, few]
        turned = np.stack([-x[few, 1], x[few, 0]], axis=1)
        exact = reference(SphereEnergy(beta), x[few], mu)
        along = x[few] @ mu.atoms.T
        second = np.exp(beta * (along - 1)) * (beta * (1 - along**2) - along) @ mu.weights
        for found, wanted in (
            (Z, exact[0]),
            (r, (exact[1] * x[few]).sum(axis=1)),
            (t, (exact[1] * turned).sum(axis=1)),
            (c, second),
        ):
            worst = max(worst, np.abs(found - wanted).max())
    return worst


@pytest.mark.parametrize("n", [1023, 1024, 1025, 16384, 16385])
def test_chunks_of_the_series(n):
    assert (forces.CHUNKS, forces.BLOCK) == ((1024, 8192), 256)  # else choose other sizes
    assert series_error(n, 50) < 1e-12
    assert series_error(50, n) < 1e-12


def test_small_chunks_of_the_series(monkeypatch):
    monkeypatch.setattr(forces, "CHUNKS", (8, 20))
    for n in (1, 7, 8, 9, 16, 17, 128, 129, 140, 141):
        assert series_error(n, 3) < 1e-12 and series_error(3, n) < 1e-12


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 512, 513])
def test_blocks_of_pairs(n):
    for d, kind in ((3, "identity"), (2, "definite"), (4, "indefinite")):
        B = matrix(kind, d)
        F, mu = SphereEnergy(4.0, B=B), measure(n, n, d)
        rows = np.unique(np.r_[0, n // 2, np.arange(-4, 4) + 256, np.arange(-4, 0)] % n)
        Z, N, quotient = reference(F, mu.atoms[rows], mu)
        problem = mu.atoms, mu.weights, 4.0, B, F.shift
        for found in (forces.symmetric(*problem), forces.direct(mu.atoms, *problem)):
            assert np.abs(found[0][rows] - Z).max() < 1e-12
            assert np.abs(found[1][rows] - N).max() < 1e-12
        Z, N = forces.direct(mu.atoms, *problem, shift=True)
        assert np.abs((N / Z[:, None])[rows] - quotient).max() < 1e-12


@pytest.mark.parametrize("beta", [50.0, 1000.0])
def test_normalised_attention_far_from_all_particles(beta):
    """Where Z is just above and just below what the series and the plain sum can divide by."""
    F = SphereEnergy(beta, normalised=True)
    n = 1300
    w = np.arange(1.0, n + 1)
    mu = Measure(on_circle(*np.linspace(-0.2, 0.2, n)), w / w.sum())
    x = on_circle(*np.linspace(-3, 3, n))
    assert forces.fast_on_circle(n, n, beta)
    few = x[::10]
    Z, _, _ = reference(F, few, mu)
    for edge in (forces.ACCURATE, forces.SAFE if beta > 500 else forces.ACCURATE):
        assert ((Z > edge) & (Z < edge * 1e30)).any() and ((Z < edge) & (Z > edge / 1e30)).any()
    assert np.abs(F.velocity(x, mu)[::10] - velocity(F, few, mu)).max() < 1e-12
    few = few[::10]
    assert not forces.fast_on_circle(len(few), n, beta)
    assert np.abs(F.velocity(few, mu) - velocity(F, few, mu)).max() < 1e-12


def test_normalised_attention_does_not_see_particles_without_weight():
    """They may be nearer than all others, by more than an exponential holds."""
    F = SphereEnergy(1000.0, normalised=True)
    mu = Measure(on_circle(0.0, 3.0, -3.0), [0.0, 0.25, 0.75])
    only = Measure(mu.atoms[1:], mu.weights[1:])
    x = on_circle(0.0, 0.1, 3.0)
    for at in (mu.atoms, x):
        assert np.abs(F.velocity(at, mu) - velocity(F, at, only)).max() < 1e-12
    J = velocity_jacobian(F, mu)
    assert np.isfinite(J).all() and (J[:, 0] == [J[0, 0], 0, 0]).all()
    h = 1e-6
    moved = [Measure(on_circle(s, 3.0, -3.0), mu.weights) for s in (h, -h)]
    slope = np.subtract(*[F.velocity(nu.atoms, nu)[0, 1] for nu in moved]) / (2 * h)
    assert J[0, 0] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("normalised", [False, True])
def test_extreme_temperatures(normalised):
    x = on_circle(0.3, 2.0, 4.5)
    mu = Measure(x, [0.2, 0.3, 0.5])
    mean = mu.weights @ x
    hot = SphereEnergy(1e-8, normalised=normalised)
    # to first order in beta the particles see their mean; the energy has a large constant
    assert np.abs(hot.velocity(x, mu) - SPHERE.tangent(x, mean)).max() < 1e-7
    assert hot(mu) - 0.5e8 == pytest.approx((mean @ mean - 1) / 2, abs=1e-6)
    cold = SphereEnergy(1e8, normalised=normalised)
    assert np.abs(cold.velocity(x, mu)).max() < 1e-12
    assert cold(mu) == pytest.approx(mu.weights @ mu.weights / 2e8, rel=1e-12)
    at = on_circle(0.4)
    nearest = SPHERE.tangent(at, x[:1]) if normalised else 0
    assert np.abs(cold.velocity(at, mu) - nearest).max() < 1e-12
    spectrum = second_order(cold, mu).eigenvalues
    assert np.abs(spectrum).max() < 1e-7  # rounding of beta
    assert second_order(hot, mu).least == pytest.approx(0, abs=1e-7)
    many = measure(0, 200, 2)
    for F in (hot, cold):
        assert np.abs(F.velocity(many.atoms, many) - velocity(F, many.atoms, many)).max() < 1e-7


# ---------------------------------------------------------------------------------------------
# symmetries


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]), st.booleans(), st.booleans())
def test_rotations(seed, d, normalised, general):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    B = matrix("indefinite", d, seed) if general else None
    F = energy(rng.uniform(0.1, 20), "gelu", d, seed=seed, bias=True, B=B, normalised=normalised)
    turned = Q.T @ B @ Q if general else None
    turned = None if turned is None else (turned + turned.T) / 2
    G = replace(F, a=SPHERE.project(F.a @ Q), B=turned)
    mu, x = measure(rng, 1 + seed % 9, d), points(rng, 3, d)
    nu = mu.map(lambda y: SPHERE.project(y @ Q))
    assert G(nu) == pytest.approx(F(mu), abs=1e-12)
    y = SPHERE.project(x @ Q)
    assert np.abs(G.velocity(y, nu) - F.velocity(x, mu) @ Q).max() < 1e-11
    assert np.abs(G.first_variation(y, nu) - F.first_variation(x, mu)).max() < 1e-11
    spectra = [second_order(f, m).eigenvalues for f, m in ((F, mu), (G, nu))]
    assert np.abs(spectra[0] - spectra[1]).max() < 1e-10


@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.booleans())
def test_permutations(seed, d, normalised):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    F, mu = energy(rng.uniform(0.1, 20), "relu", d, normalised=normalised), measure(rng, n, d)
    order, units = rng.permutation(n), rng.permutation(4)
    nu = Measure(mu.atoms[order], mu.weights[order])
    G = replace(F, a=F.a[units], omega=F.omega[units])
    assert G(nu) == pytest.approx(F(mu), abs=1e-13)
    u = F.velocity(mu.atoms, mu)
    assert np.abs(G.velocity(nu.atoms, nu) - u[order]).max() < 1e-13


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_weights_are_duplicates(d, normalised):
    """Particles at one place are one with their total weight; in any number."""
    rng = np.random.default_rng(d)
    for n, most in ((5, 4), (300, 30)):
        copies = rng.integers(1, most, size=n)
        x, total = points(rng, n, d), copies.sum()
        apart, merged = Measure(np.repeat(x, copies, axis=0)), Measure(x, copies / total)
        for beta in (0.1, 20.0):
            F = energy(beta, "leaky_relu", d, normalised=normalised)
            assert F(apart) == pytest.approx(F(merged), rel=1e-12)
            assert F(apart.merge()) == pytest.approx(F(merged), rel=1e-12)
            u = F.velocity(merged.atoms, merged)
            assert np.abs(F.velocity(apart.atoms, apart) - np.repeat(u, copies, 0)).max() < 1e-12
            at = points(rng, 4, d)
            assert np.abs(F.velocity(at, apart) - F.velocity(at, merged)).max() < 1e-12


@pytest.mark.parametrize("normalised", [False, True])
def test_one_particle_and_pairs(normalised):
    for d in (2, 3, 16):
        x = points(d, 1, d)
        pure = SphereEnergy(2.0, normalised=normalised)
        one, pair, both = Measure(x), Measure([x[0], -x[0]]), Measure([x[0], x[0]])
        assert pure(one) == pytest.approx(1 / 4, rel=1e-15)
        assert pure(both) == pytest.approx(1 / 4, rel=1e-15)
        assert pure(pair) == pytest.approx((1 + np.exp(-4)) / 8, rel=1e-14)
        for mu in (one, pair, both):
            assert np.abs(pure.velocity(mu.atoms, mu)).max() < 1e-15
        F = energy(2.0, "tanh", d, normalised=normalised)
        expected = SPHERE.tangent(x, drift(F, x))
        assert np.abs(F.velocity(one.atoms, one) - expected).max() < 1e-14
        # translations see no attention, deviations do
        slopes = np.linalg.eigvalsh(velocity_jacobian(pure, both))
        expected = np.repeat([-1.0, 0.0], d - 1)
        np.testing.assert_allclose(slopes, expected, atol=1e-14)


# ---------------------------------------------------------------------------------------------
# the energy and its first derivatives


def slope_in_weights(F, x, w):
    """Derivatives of the energy in the weights."""
    return grad(lambda w: raw_energy(F, x, w))(w)


def slope_in_atoms(F, x, w):
    """Derivatives of the energy in the atoms."""
    return grad(lambda x: raw_energy(F, x, w))(x)


def slope_of_variation(F, x, w, y):
    """Derivatives of the first variation in a point y, a particle without weight."""

    def variation(y):
        return slope_in_weights(F, anp.concatenate([x, y]), np.append(w, 0))[-1]

    return grad(variation)(y)


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("name", NAMES)
def test_energy_and_derivatives_against_autograd(name, kind):
    for d, bias in ((2, True), (4, False)):
        F = energy(1.7, name, d, bias=bias, B=matrix(kind, d, 3), seed=2)
        mu, y = measure(5, 6, d), points(9, 1, d)
        x, w = mu.atoms, mu.weights
        local, pure = F.at(mu), replace(F, omega=0 * F.omega)
        assert local.value == pytest.approx(raw_energy(F, x, w), rel=1e-13)
        parts = F.energy_parts(mu)
        assert sum(parts) == pytest.approx(local.value, rel=1e-13)
        assert parts[0] == pytest.approx(raw_energy(pure, x, w), rel=1e-13)
        close = {"rtol": 0, "atol": 1e-13}
        np.testing.assert_allclose(local.first_variation(x), slope_in_weights(F, x, w), **close)
        slope = slope_in_atoms(F, x, w)
        np.testing.assert_allclose(w[:, None] * local.gradient(x), slope, **close)
        slope = slope_in_weights(F, np.concatenate([x, y]), np.append(w, 0))[-1:]
        np.testing.assert_allclose(local.first_variation(y), slope, **close)
        np.testing.assert_allclose(local.gradient(y), slope_of_variation(F, x, w, y), **close)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_against_differences(name):
    for d, kind in ((2, "indefinite"), (3, "definite"), (4, "identity")):
        F = energy(5.0, name, d, bias=d == 3, B=matrix(kind, d))
        check = check_functional(F, measure(1, 5, d), rng=0)
        assert check.ok, check
    F = energy(2.0, name, 2)
    assert check_functional(F, measure(2, 200, 2), rng=1).ok  # the series on the real side


def test_parts_of_the_energy_without_units():
    F, mu = SphereEnergy(3.0), measure(0, 5, 3)
    assert F.energy_parts(mu) == (pytest.approx(F(mu), rel=1e-14), 0.0)
    assert (F.potential(mu.atoms) == 0).all() and (F.perceptron(mu.atoms) == 0).all()
    assert F.dim is None and energy(1.0).dim == 3 and SphereEnergy(1.0, B=np.eye(4)).dim == 4
    assert F.shift == 1.0 and SphereEnergy(1.0, B=np.diag([-3.0, 2.0])).shift == 3.0


def test_normalisation_changes_the_velocity_only():
    F, mu = energy(4.0, "gelu", 3), measure(0, 6, 3)
    G = replace(F, normalised=True)
    x = mu.atoms
    assert G(mu) == F(mu) and (G.first_variation(x, mu) == F.first_variation(x, mu)).all()
    assert (G.gradient(x, mu) == F.gradient(x, mu)).all()
    assert np.abs(G.velocity(x, mu) - F.velocity(x, mu)).max() > 0.1


def along_flow(F, mu, ascent, t=0.3, count=61):
    """Change of the energy on a short flow, and the integral of the dissipation."""
    times = np.linspace(0, t, count)
    run = flow(F.field(ascent), mu, times, F.space, rtol=1e-11, atol=1e-12)
    states = [Measure(SPHERE.project(x), mu.weights) for x in run.atoms]
    rates = [s.weights @ (velocity(F, s.atoms, s) ** 2).sum(axis=1) for s in states]
    return F(states[-1]) - F(states[0]), simpson(rates, x=times), states


@pytest.mark.parametrize("ascent", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_energy_identity(name, ascent):
    """dE/dt is plus or minus the integral of |u|^2; kinks cost the quadrature some digits."""
    for d, bias in ((2, False), (3, True)):
        F, mu = energy(6.0, name, d, bias=bias), measure(3, 5, d)
        change, dissipated, _ = along_flow(F, mu, ascent)
        assert dissipated > 1e-4
        sign = 1 if ascent else -1
        tolerance = 1e-4 if "relu" in name else 1e-8
        assert change == pytest.approx(sign * dissipated, rel=tolerance)


def test_energy_identity_fails_for_a_wrong_primitive():
    """GeLU without its term -N(s): the flow is the same, its energy is another."""
    wrong = Activation(
        "gelu", GELU.sigma, lambda s: GELU.primitive(s) + ndtr(s) - 0.5, GELU.slope, GELU.steepest
    )
    assert wrong.primitive(np.zeros(1)) == 0
    F, mu = energy(6.0, "gelu", 2), measure(3, 5, 2)
    G = replace(F, activation=wrong)
    assert (G.velocity(mu.atoms, mu) == F.velocity(mu.atoms, mu)).all()
    change, dissipated, _ = along_flow(F, mu, True)
    spoilt, _, _ = along_flow(G, mu, True)
    assert abs(change / dissipated - 1) < 1e-8 and abs(spoilt / dissipated - 1) > 0.05
    assert not check_functional(G, mu, rng=0).ok


@pytest.mark.parametrize("ascent", [False, True])
def test_energy_identity_of_normalised_attention(ascent):
    """Without units the flow is one of E in another metric; with units of no energy."""
    mu, sign = measure(3, 5, 2), 1 if ascent else -1
    F = SphereEnergy(6.0, normalised=True)
    change, _, states = along_flow(F, mu, ascent)
    rates = []
    for s in states:
        Z, _, _ = reference(F, s.atoms, s)
        rates.append((s.weights * Z) @ (velocity(F, s.atoms, s) ** 2).sum(axis=1))
    dissipated = simpson(rates, x=np.linspace(0, 0.3, len(rates)))
    assert change == pytest.approx(sign * dissipated, rel=1e-8)
    change, dissipated, _ = along_flow(energy(6.0, "gelu", 2, normalised=True), mu, ascent)
    assert abs(sign * change / dissipated - 1) > 1e-2


def test_gradient_flow_ascends_and_descends():
    """The flows of F and -F are those of the fields, with either kind of integrator."""
    F, mu = energy(4.0, "tanh", 2), measure(0, 6, 2)
    for ascent in (False, True):
        G = -F if ascent else F
        exact = flow(F.field(ascent), mu, [0, 1.0], F.space, rtol=1e-9, atol=1e-10).end.atoms
        run = gradient_flow(G, mu, [0, 1.0], rtol=1e-9, atol=1e-10)
        stiff = gradient_flow(G, mu, [0, 1.0], method="rosenbrock", rtol=1e-6, atol=1e-6)
        assert np.abs(run.end.atoms - exact).max() < 1e-8
        assert np.abs(stiff.end.atoms - exact).max() < 1e-4
        assert run.value[-1] < run.value[0] and stiff.increase == 0


# ---------------------------------------------------------------------------------------------
# second derivatives


@pytest.mark.parametrize("d", [2, 3, 6])
def test_frames(d):
    x = np.concatenate([points(0, 20, d), np.eye(d), -np.eye(d)])
    T = frames(x)
    assert T.shape == (len(x), d, d - 1)
    np.testing.assert_allclose(
        np.einsum("nda,ndb->nab", T, T), np.eye(d - 1)[None] + 0 * T[:, :1, :1], atol=1e-15
    )
    assert np.abs(np.einsum("nda,nd->na", T, x)).max() < 1e-15
    if d == 2:
        assert (T[:, :, 0] == np.stack([-x[:, 1], x[:, 0]], axis=1)).all()


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("d", [2, 3, 5])
def test_jacobian_against_autograd(d, kind, normalised):
    for name in ("gelu", "relu") if d == 3 else ("tanh",):
        F = energy(2.5, name, d, bias=d == 3, B=matrix(kind, d), normalised=normalised)
        mu = measure(4, 5, d)
        np.testing.assert_allclose(velocity_jacobian(F, mu), raw_jacobian(F, mu), 0, 1e-12)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_jacobian_against_differences(name, normalised):
    """Along geodesics of all particles, the frames being carried along."""
    h = 1e-5
    for d in (2, 3):
        F, mu = energy(3.0, name, d, bias=True, normalised=normalised), measure(6, 4, d)
        x, T = mu.atoms, frames(mu.atoms)
        eta = np.random.default_rng(d).normal(size=(4, d - 1))
        step = np.einsum("ndp,np->nd", T, eta)
        fields = []
        for s in (h, -h):
            y = SPHERE.retract(x, s * step)
            fields.append(velocity(F, y, Measure(y, mu.weights)))
        found = np.einsum("ndp,nd->np", T, fields[0] - fields[1]) / (2 * h)
        stated = (velocity_jacobian(F, mu) @ eta.ravel()).reshape(eta.shape)
        np.testing.assert_allclose(stated, found, atol=1e-8)


@pytest.mark.parametrize("name", ["gelu", "relu", "tanh"])
@pytest.mark.parametrize("d, kind", [(2, "identity"), (3, "indefinite"), (4, "definite")])
def test_second_order_is_atomic_stability(d, kind, name):
    """Two independent ways to the Hessian in the metric of L^2."""
    F, mu = energy(2.0, name, d, B=matrix(kind, d), bias=d == 4), measure(7, 4, d)
    ours, other = second_order(F, mu), atomic_stability(F, mu)
    np.testing.assert_allclose(ours.eigenvalues, other.collective, atol=1e-11)
    assert ours.gradient == pytest.approx(np.linalg.norm(other.gradient, axis=1).max(), rel=1e-12)
    assert ours.least == ours.eigenvalues[0] and not ours.sopd()
    assert second_order(replace(F, normalised=True), mu).least == ours.least
    assert ours.measure is mu


def test_modes_are_second_derivatives_of_the_energy():
    F, mu = energy(3.0, "gelu", 3, seed=1), measure(8, 4, 3)
    report = second_order(F, mu)
    x, w, h = mu.atoms, mu.weights, 1e-3
    assert report.modes.shape == (8, 4, 3) and (np.diff(report.eigenvalues) >= 0).all()
    gram = np.einsum("i,aid,bid->ab", w, report.modes, report.modes)
    np.testing.assert_allclose(gram, np.eye(8), atol=1e-13)
    assert np.abs((report.modes * x).sum(axis=2)).max() < 1e-14
    for value, mode in zip(report.eigenvalues, report.modes, strict=True):
        angle = np.linalg.norm(mode, axis=1, keepdims=True)

        def along(s, mode=mode, angle=angle):
            return F(Measure(np.cos(s * angle) * x + np.sin(s * angle) * mode / angle, w))

        # differences at two steps, extrapolated
        found = [(along(k * h) - 2 * along(0) + along(-k * h)) / (k * h) ** 2 for k in (1, 2)]
        assert (4 * found[0] - found[1]) / 3 == pytest.approx(value, abs=1e-6)


def dense_solve(F, mu, scale, c, b):
    """Solution of (I - c J) k = b in the frames."""
    T = frames(mu.atoms)
    J = scale * velocity_jacobian(F, mu)
    inside = np.einsum("ndp,nd->np", T, b)
    k = np.linalg.solve(np.eye(len(J)) - c * J, inside.ravel()).reshape(inside.shape)
    return np.einsum("ndp,np->nd", T, k)


def is_low_rank(monkeypatch, F, mu):
    """Whether the linearisation uses the low rank of the interaction."""
    used = []
    real = linearised._low_rank
    with monkeypatch.context() as patch:
        patch.setattr(linearised, "_low_rank", lambda *a: used.append(True) or real(*a))
        F.field().linearised(mu)
    return bool(used)


@pytest.mark.parametrize("ascent", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("units", [None, "gelu"])
@pytest.mark.parametrize("beta", [0.05, 5.0])
def test_linear_systems_on_the_circle(beta, units, normalised, ascent, monkeypatch):
    """A diagonal plus low rank gives what the dense matrix gives."""
    F = SphereEnergy(beta, normalised=normalised)
    if units:
        F = energy(beta, units, 2, normalised=normalised, bias=True)
    mu = measure(1, 110, 2)
    assert is_low_rank(monkeypatch, F, mu)
    b = SPHERE.tangent(mu.atoms, np.random.default_rng(2).normal(size=(110, 2)))
    linear = F.field(ascent).linearised(mu)
    first = linear.solve(0.01, b)
    for c in (0.3, 0.01):
        wanted = dense_solve(F, mu, 1 if ascent else -1, c, b)
        assert np.abs(linear.solve(c, b) - wanted).max() < 1e-11 * np.abs(wanted).max()
    assert (linear.solve(0.01, b) == first).all()


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("d, kind", [(2, "definite"), (3, "identity"), (5, "indefinite")])
def test_linear_systems_in_general(d, kind, normalised):
    F = energy(3.0, "tanh", d, normalised=normalised, B=matrix(kind, d))
    mu = measure(2, 12, d)
    b = np.random.default_rng(3).normal(size=(12, d))
    normal = b - SPHERE.tangent(mu.atoms, b)
    for ascent in (False, True):
        found = F.field(ascent).linearised(mu).solve(0.4, b)
        wanted = dense_solve(F, mu, 1 if ascent else -1, 0.4, b) + normal
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    # of the functional: the energy's own field, whatever the normalisation
    found = F.at(mu).linearised(-2.0).solve(0.4, b)
    wanted = dense_solve(replace(F, normalised=False), mu, -2.0, 0.4, b) + normal
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_size_from_which_low_rank_is_used(monkeypatch):
    """On both sides of the threshold the systems have the same solutions."""
    F = energy(0.5, "gelu", 2)
    rank = 2 * (len(forces.fourier(0.5)) - 1)
    for n in (2 * rank, 2 * rank + 1):
        mu = measure(n, n, 2)
        assert is_low_rank(monkeypatch, F, mu) == (n > 2 * rank)
        b = SPHERE.tangent(mu.atoms, np.ones((n, 2)))
        wanted = dense_solve(F, mu, -1, 0.5, b)
        assert np.abs(F.field().linearised(mu).solve(0.5, b) - wanted).max() < 1e-12
    assert not is_low_rank(monkeypatch, replace(F, B=np.diag([1.0, 0.5])), measure(0, 100, 2))


@pytest.mark.parametrize("normalised", [False, True])
def test_linear_systems_of_many_particles(normalised):
    """More than one table of powers; the product with J by differences of the field."""
    n, c, h = 8200, 0.5, 1e-5
    F, mu = energy(1.0, "tanh", 2, normalised=normalised), measure(0, n, 2)
    x = mu.atoms
    b = SPHERE.tangent(x, np.random.default_rng(1).normal(size=(n, 2)))
    k = F.field(True).linearised(mu).solve(c, b)
    ends = [Measure(SPHERE.retract(x, s * k), mu.weights) for s in (h, -h)]
    change = np.subtract(*[F.velocity(nu.atoms, nu) for nu in ends]) / (2 * h)
    assert np.abs(k - c * SPHERE.tangent(x, change) - b).max() < 1e-7


def test_dense_systems_have_a_limit():
    F = SphereEnergy(1.0)
    with pytest.raises(ValueError, match="^mu: expected at most 5000 coordinates"):
        F.field().linearised(measure(0, 2501, 3))


# ---------------------------------------------------------------------------------------------
# Newton's method and the certificate


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("units", [None, "gelu", "tanh", "relu"])
def test_newton_ends_at_second_order_points(units, d):
    F = SphereEnergy(5.0) if units is None else energy(5.0, units, d, seed=3)
    for seed in range(3):
        mu = measure(seed, 6, d)
        end = newton(F, mu)
        assert end.converged and (end.measure.weights == mu.weights).all()
        assert np.abs(velocity(F, end.measure.atoms, end.measure)).max() <= 1e-10
        assert F(end.measure) < F(mu)
        report = second_order(F, end.measure)
        assert report.sopd() and report.least == pytest.approx(end.least, abs=1e-12)
        assert end.gradient == pytest.approx(report.gradient, abs=1e-14)


def test_newton_from_the_end_of_a_flow():
    """What has stopped is no second-order point; Newton's method makes it one."""
    F = energy(10.0, "gelu", 2)
    run = settle(F, measure(0, 40, 2))
    before, end = second_order(F, run.measure), newton(F, run.measure)
    assert not before.sopd() and end.converged and end.gradient <= 1e-10
    assert F(end.measure) <= F(run.measure)


def test_newton_leaves_saddles():
    """A cluster is stationary under repulsion, and has a descending direction."""
    F = SphereEnergy(1.0)
    for d in (2, 3):
        start = Measure(np.repeat(points(d, 1, d), 2, axis=0))
        assert second_order(F, start).gradient < 1e-15 and not second_order(F, start).sopd()
        end = newton(F, start)
        assert end.converged
        assert end.measure.atoms[0] @ end.measure.atoms[1] == pytest.approx(-1, abs=1e-9)


def test_newton_is_honest():
    F, mu = energy(5.0, "gelu", 2), measure(1, 8, 2)
    short = newton(F, mu, maxiter=1)
    assert not short.converged and short.iterations == 1 and F(short.measure) <= F(mu)
    report = second_order(F, short.measure)
    assert short.gradient == pytest.approx(report.gradient) and short.gradient > 1e-10
    assert newton(F, mu, tolerance=1e-3).gradient > newton(F, mu).gradient
    done = newton(F, mu)
    again = newton(F, done.measure)
    assert again.converged and again.iterations == 0
    # every further iteration lowers the energy
    energies = [F(newton(F, mu, maxiter=k).measure) for k in range(1, done.iterations + 1)]
    assert (np.diff([F(mu), *energies]) <= 1e-13).all()


@pytest.mark.parametrize("d", [2, 3])
def test_gap_is_a_bracket(d):
    for name, seed in (("gelu", 0), ("relu", 1))[: 4 - d]:
        F, mu = energy(3.0, name, d, seed=seed), measure(seed, 7, d)
        gap = frank_wolfe_gap(F, mu, rng=0)
        assert 0 <= gap.found <= gap.rigorous < np.inf
        local = F.at(mu)
        seen = (
            mu.weights @ local.first_variation(mu.atoms)
            - local.first_variation(points(1, 20000, d)).min()
        )
        assert seen <= gap.found + 1e-12
        assert gap.found <= seen + 1e-2
        if d == 2:
            assert gap.rigorous >= F(mu) - minimise_on_circle(F).value > 0


# ---------------------------------------------------------------------------------------------
# arguments


def test_representation():
    assert repr(SphereEnergy(2)) == "SphereEnergy(beta=2, no perceptron)"
    F = energy(0.5, "tanh", 2, bias=True, normalised=True, B=np.diag([1.0, 2.0]))
    text = "SphereEnergy(beta=0.5, 4 tanh units with biases, general B, normalised)"
    assert repr(F) == text


def test_arrays_are_copied_and_read_only():
    a, omega, bias = points(0, 3, 2), np.ones(3), np.zeros(3)
    B, x = np.diag([1.0, 2.0]), points(1, 2000, 2)
    given = [a, omega, bias, B, x]
    copies = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    F = SphereEnergy(2.0, a, omega, "gelu", bias=bias, B=B)
    G, mu = replace(F, B=None), Measure(x)
    for f in (F, G, replace(G, normalised=True)):
        small = Measure(x[:50])
        f.velocity(x, small), f.velocity(x, mu) if f.B is None else 0, f.potential(x)
        second_order(f, small), newton(f, Measure(x[:3])), f.field().linearised(small)
    assert all((array == copy).all() for array, copy in zip(given, copies, strict=True))
    for array in (F.a, F.omega, F.bias, F.B):
        assert not array.flags.writeable
        assert not any(np.shares_memory(array, other) for other in given)
    velocities = F.velocity(x, small)
    velocities[:] = 0  # belongs to the caller
    assert np.abs(F.velocity(x, small)).max() > 0


def test_results_are_nobody_elses():
    """Two calls never share the memory of the tables of powers."""
    F, mu = SphereEnergy(1.0), measure(0, 500, 2)
    local = F.at(mu)
    first = local.first_variation(mu.atoms)
    kept = first.copy()
    local.gradient(mu.atoms), local.velocity(points(1, 900, 2)), F(measure(1, 600, 2))
    assert (first == kept).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, int])
def test_types_of_numbers(dtype):
    x = np.array([[1, 0], [0, -1], [-1, 0]], dtype)
    F = SphereEnergy(dtype(2), np.array([[0, 1]], dtype), np.array([1], dtype), "tanh")
    G = SphereEnergy(2.0, [[0.0, 1.0]], [1.0], "tanh")
    mu, nu = Measure(x), Measure(x.astype(float))
    assert F(mu) == pytest.approx(G(nu), rel=1e-15)
    assert F.velocity(mu.atoms, mu).dtype == float
    assert np.abs(F.velocity(x, mu) - G.velocity(nu.atoms, nu)).max() < 1e-15
    assert (F.potential(x) == G.potential(x.astype(float))).all()


def test_single_precision_is_rounded_only():
    """Unit vectors in float32 have lengths that are wrong in the eighth digit."""
    x = points(0, 500, 3).astype(np.float32)
    F = energy(3.0, "gelu", 3)
    single, double = Measure(x), Measure(SPHERE.project(x.astype(float)))
    u = F.velocity(single.atoms, single)
    assert np.abs(u - F.velocity(double.atoms, double)).max() < 1e-5
    assert F(single) == pytest.approx(F(double), rel=1e-6)
    with pytest.raises(ValueError, match="^mu: expected unit vectors"):
        F(Measure(x * np.float32(1.00001)))


def test_complex_points_are_derivatives():
    for normalised in (False, True):
        F, mu = energy(2.0, "gelu", 2, normalised=normalised), measure(0, 4, 2)
        x = mu.atoms
        T = frames(x)[:, :, 0]
        moved = Measure(SPHERE.retract(x, 1e-30j * T), mu.weights)
        slope = F.velocity(moved.atoms, moved).imag / 1e-30
        rows = velocity_jacobian(F, mu).sum(axis=1)
        np.testing.assert_allclose((slope * T).sum(axis=1), rows, atol=1e-13)


GOOD = {"a": [[1.0, 0.0], [0.6, 0.8]], "omega": [1.0, -2.0]}
MU = Measure([[1.0, 0.0], [0.0, 1.0]])
F2 = SphereEnergy(1.0, **GOOD)
COMPLEX = Measure(SPHERE.retract(MU.atoms, 0.1j * np.array([[0, 1.0], [1.0, 0]])))
NAN = [[1.0, np.nan], [0.0, 1.0]]
BAD = {
    "beta: zero": lambda: SphereEnergy(0.0),
    "beta: negative": lambda: SphereEnergy(-1.0),
    "beta: nan": lambda: SphereEnergy(np.nan),
    "beta: infinite": lambda: SphereEnergy(np.inf),
    "beta: a string": lambda: SphereEnergy("1"),
    "beta: an array": lambda: SphereEnergy([1.0, 2.0]),
    "beta: complex": lambda: SphereEnergy(1j),
    "beta: a truth value": lambda: SphereEnergy(True),
    "omega: missing": lambda: SphereEnergy(1.0, GOOD["a"]),
    "a: missing": lambda: SphereEnergy(1.0, omega=[1.0]),
    "a: off the sphere": lambda: SphereEnergy(1.0, [[1.0, 0.0], [1.0, 1e-3]], [1.0, 1.0]),
    "a: nan": lambda: SphereEnergy(1.0, NAN, [1.0, 1.0]),
    "a: a vector": lambda: SphereEnergy(1.0, [1.0, 0.0], [1.0]),
    "a: d = 1": lambda: SphereEnergy(1.0, [[1.0]], [1.0]),
    "a: complex": lambda: SphereEnergy(1.0, [[1.0 + 0j, 0.0]], [1.0]),
    "a: empty": lambda: SphereEnergy(1.0, np.zeros((0, 2)), []),
    "omega: too few": lambda: SphereEnergy(1.0, GOOD["a"], [1.0]),
    "omega: a matrix": lambda: SphereEnergy(1.0, GOOD["a"], [[1.0, 2.0]]),
    "omega: infinite": lambda: SphereEnergy(1.0, GOOD["a"], [1.0, np.inf]),
    "omega: complex": lambda: SphereEnergy(1.0, GOOD["a"], [1.0, 1j]),
    "activation: unknown": lambda: SphereEnergy(1.0, activation="swish"),
    "activation: a function": lambda: SphereEnergy(1.0, activation=np.tanh),
    "normalised: a number": lambda: SphereEnergy(1.0, normalised=1),
    "normalised: a string": lambda: SphereEnergy(1.0, normalised="yes"),
    "bias: without units": lambda: SphereEnergy(1.0, bias=[1.0]),
    "bias: too many": lambda: SphereEnergy(1.0, **GOOD, bias=[1.0, 2.0, 3.0]),
    "bias: nan": lambda: SphereEnergy(1.0, **GOOD, bias=[1.0, np.nan]),
    "B: not square": lambda: SphereEnergy(1.0, B=[[1.0, 0.0]]),
    "B: not symmetric": lambda: SphereEnergy(1.0, B=[[1.0, 2.0], [0.0, 1.0]]),
    "B: singular": lambda: SphereEnergy(1.0, B=[[1.0, 1.0], [1.0, 1.0]]),
    "B: zero": lambda: SphereEnergy(1.0, B=np.zeros((2, 2))),
    "B: nan": lambda: SphereEnergy(1.0, B=NAN),
    "B: another dimension": lambda: SphereEnergy(1.0, **GOOD, B=np.eye(3)),
    "B: complex": lambda: SphereEnergy(1.0, B=np.eye(2) * 1j),
    "mu: off the sphere": lambda: F2(Measure([[1.0, 1e-3]])),
    "mu: another dimension": lambda: F2(Measure([[1.0, 0.0, 0.0]])),
    "mu: d = 1": lambda: SphereEnergy(1.0)(Measure([[1.0]])),
    "mu: a list": lambda: F2([[1.0, 0.0]]),
    "mu: a list for velocities": lambda: F2.velocity([[1.0, 0.0]], [[1.0, 0.0]]),
    "mu: dimension of B": lambda: SphereEnergy(1.0, B=np.eye(3))(MU),
    "mu: complex parts": lambda: F2.energy_parts(COMPLEX),
    "mu: complex for its Hessian": lambda: second_order(F2, COMPLEX),
    "mu: complex for its Jacobian": lambda: velocity_jacobian(F2, COMPLEX),
    "mu: off the sphere for its Jacobian": lambda: velocity_jacobian(F2, Measure([[1.0, 1e-3]])),
    "mu: dimension for its Jacobian": lambda: velocity_jacobian(F2, measure(0, 3, 3)),
    "mu: without weight": lambda: second_order(F2, Measure(MU.atoms, [1.0, 0.0])),
    "mu: without weight for Newton": lambda: newton(F2, Measure(MU.atoms, [1.0, 0.0])),
    "mu: no measure": lambda: newton(F2, MU.atoms),
    "F: no energy": lambda: second_order(lambda mu: 0.0, MU),
    "F: no energy for Newton": lambda: newton(None, MU),
    "tolerance: zero": lambda: newton(F2, MU, tolerance=0.0),
    "maxiter: zero": lambda: newton(F2, MU, maxiter=0),
    "maxiter: no integer": lambda: newton(F2, MU, maxiter=1.5),
    "x: off the sphere": lambda: F2.velocity([[1.0, 1e-3]], MU),
    "x: nan": lambda: F2.velocity(NAN, MU),
    "x: a vector": lambda: F2.velocity([1.0, 0.0], MU),
    "x: another dimension": lambda: F2.velocity([[1.0, 0.0, 0.0]], MU),
    "x: dimension of mu": lambda: SphereEnergy(1.0).velocity(points(0, 900, 3), measure(0, 900, 2)),
    "x: complex": lambda: F2.velocity(COMPLEX.atoms, MU),
    "x: off the sphere for a potential": lambda: F2.potential([[2.0, 0.0]]),
    "x: nan for a perceptron": lambda: F2.perceptron(NAN),
    "x: dimension for a potential": lambda: F2.potential([[1.0, 0.0, 0.0]]),
    "x: off the sphere for a first variation": lambda: F2.first_variation([[2.0, 0.0]], MU),
    "x: nan for a gradient": lambda: F2.gradient(NAN, MU),
    "x: dimension for a gradient": lambda: SphereEnergy(1.0).gradient([[1.0, 0.0, 0.0]], MU),
    "ascent: a number": lambda: F2.field(1),
    "ascent: a string": lambda: F2.field("up"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    name = case.split(":")[0]
    with pytest.raises((TypeError, ValueError), match=f"^{name}: .*(expected|got)"):
        BAD[case]()


def test_boundaries_of_what_is_accepted():
    """Rounding is accepted, and every sign of a definite or indefinite matrix."""
    off = np.array([[1.0 + 5e-9, 0.0]])
    assert np.isfinite(F2(Measure(off)))
    with pytest.raises(ValueError, match="^mu: expected unit vectors, got length 1.00000005"):
        F2(Measure(off + [[4.5e-8, 0.0]]))
    for signs in ([1, 1], [-1, 1], [-1, -1]):
        assert SphereEnergy(1.0, B=np.diag(signs)).shift == 1.0
    with pytest.raises(ValueError, match=r"got least \|eigenvalue\| 0"):
        SphereEnergy(1.0, B=np.diag([-1.0, 0.0]))


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_powers_by_doubling(count):
    z = np.exp(1j * np.arange(3.0))
    rows = np.empty((count, 3), complex)
    forces.powers(z, rows)
    # each power is a product of at most 1 + log2(count) factors, each rounded
    assert np.abs(rows - z ** np.arange(count)[:, None]).max() < 1e-14


# ---------------------------------------------------------------------------------------------
# second order: what is reported, where Newton's method ends


@pytest.mark.parametrize("tolerance", [1e-9, 1e-3, 0.0])
def test_descending_directions_are_those_beyond_the_tolerance(tolerance):
    given = {} if tolerance == 1e-9 else {"tolerance": tolerance}

    def sopd(gradient, least):
        values = np.array([least, 7.0])
        return SecondOrder(measure(0, 2, 3), gradient, values, np.zeros((2, 2, 3))).sopd(**given)

    more = np.nextafter(tolerance, 1)
    assert sopd(tolerance, -tolerance) and sopd(0.0, 1.0)
    assert not sopd(more, 0.0) and not sopd(0.0, -more)


def test_modes_are_eigenvectors_of_the_jacobian_even_for_tiny_weights():
    for d, w in ((2, [0.2, 0.3, 0.5]), (3, [1e-9, 0.3, 0.7 - 1e-9])):
        F, mu = energy(3.0, "tanh", d, bias=True), Measure(points(0, 3, d), w)
        report, J = second_order(F, mu), velocity_jacobian(F, mu)
        eta = np.einsum("ndp,knd->knp", frames(mu.atoms), report.modes).reshape(len(J), -1)
        np.testing.assert_allclose(eta @ J.T, report.eigenvalues[:, None] * eta, atol=1e-7)
        gram = np.einsum("i,aid,bid->ab", mu.weights, report.modes, report.modes)
        np.testing.assert_allclose(gram, np.eye(len(J)), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.5, 20.0])
def test_newton_descends_and_is_quadratic_in_the_end(beta, seed):
    """Runs of 1, 2, ... steps: E never rises, weights stay, the last speeds are squared."""
    F, mu = energy(beta, ("gelu", "tanh")[seed % 2], 2 + seed // 2, seed=seed), measure(seed, 4, 3)
    mu = Measure(points(seed, 4, 2 + seed // 2), mu.weights)
    end = newton(F, mu)
    assert end.converged and end.gradient <= 1e-10 and end.least >= -1e-10
    values, speeds = [F(mu)], []
    for k in range(1, end.iterations + 1):
        run = newton(F, mu, maxiter=k)
        assert run.iterations == k and run.converged == (k == end.iterations)
        assert (run.measure.weights == mu.weights).all()
        values.append(F(run.measure)), speeds.append(run.gradient)
    assert np.diff(values).max(initial=-1) <= 2e-13 * max(1, abs(values[0]))
    if second_order(F, end.measure).least > 1e-3 and len(speeds) > 1:
        assert speeds[-1] <= 1e-14 + 1e3 * beta * speeds[-2] ** 2


def test_a_pair_that_repels_ends_antipodal_up_to_rounding():
    """Where energies are rounded, the velocities decide."""
    end = newton(SphereEnergy(1.0), Measure([[1.0, 0.0], [0.6, 0.8]]), tolerance=1e-15)
    assert end.converged
    np.testing.assert_allclose(end.measure.atoms[0], -end.measure.atoms[1], atol=1e-14)


def test_normalised_attention_far_from_all_weight():
    """A particle without weight sees the other alone, however far and whatever the temperature."""
    for beta in (1.0, 1e4):
        F = SphereEnergy(beta, normalised=True)
        J = velocity_jacobian(F, Measure(on_circle(0.0, 3.0), [1.0, 0.0]))
        np.testing.assert_allclose(J, [[0, 0], [np.cos(3), -np.cos(3)]], atol=1e-12)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("scale", [2.5, -0.3])
def test_scaled_systems_of_many_particles(units, scale):
    F = energy(3.0, "tanh", 2, bias=True) if units else SphereEnergy(3.0)
    mu = measure(2, 110, 2)
    b = SPHERE.tangent(mu.atoms, np.random.default_rng(2).normal(size=(110, 2)))
    linear = F.at(mu).linearised(scale)
    for c in (0.4, -1.3, 0.4):
        np.testing.assert_allclose(linear.solve(c, b), dense_solve(F, mu, scale, c, b), atol=1e-11)
    with pytest.raises(ValueError, match="^b: "):
        linear.solve(0.5, b[:2])
    with pytest.raises(ValueError, match="^b: "):
        linear.solve(0.5, b + 0j)


@pytest.mark.parametrize("n", [8, 110])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(n, bad):
    F, x = SphereEnergy(1.0), points(0, n, 2)
    b = SPHERE.tangent(x, np.ones((n, 2)))
    b[3] = bad
    linear = F.field().linearised(Measure(x))
    assert not np.isfinite(linear.solve(0.5, b)).any()
    b[3] = 0
    assert np.isfinite(linear.solve(0.5, b)).all()


def test_matrix_is_symmetric_and_invertible_up_to_rounding():
    B = np.array([[1.0, 1.0], [1.0, -1.0]])
    skew = np.array([[0.0, 1.0], [0.0, 0.0]])
    assert SphereEnergy(1.0, B=B + 0.9e-12 * skew).dim == 2
    with pytest.raises(ValueError, match="^B: expected a symmetric matrix"):
        SphereEnergy(1.0, B=B + 1.1e-12 * skew)
    assert SphereEnergy(1.0, B=1e20 * (B + 0.9e-12 * skew)).dim == 2  # relative to its size
    for size in (1.0, 1e5):
        assert SphereEnergy(1.0, B=size * np.diag([1.0, -1.1e-14])).shift == size
        with pytest.raises(ValueError, match="^B: expected an invertible matrix"):
            SphereEnergy(1.0, B=size * np.diag([1.0, 0.9e-14]))


def test_fields_descend_unless_they_are_asked_to_ascend():
    F, mu = energy(2.0, "tanh", 3), measure(0, 5, 3)
    u = F.velocity(mu.atoms, mu)
    assert F.field().sign == -1.0 and F.field(True).sign == F.field(np.True_).sign == 1.0
    for sign, field in ((-1, F.field()), (1, F.field(ascent=True))):
        np.testing.assert_array_equal(field(mu.atoms, mu), sign * u)
        np.testing.assert_array_equal(field.at_atoms(mu.atoms, mu.weights), sign * u)
