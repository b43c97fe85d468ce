"""Attention and a perceptron on the sphere: forces, energies, derivatives, linear systems."""

from dataclasses import replace

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from autograd.scipy.special import erf
from examples import on_circle, on_sphere, points
from examples import sphere_energy as energy
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import simpson

from mfbook.activations import NAMED
from mfbook.flow import Adaptive, flow
from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere import SphereEnergy

SPHERE = Sphere()
LONG = np.longdouble
MATRICES = {"identity": None, "definite": [1.0, 0.4, 2.0], "indefinite": [-1.5, 0.4, 1.0]}

# primitives as in a textbook, for autograd
PRIMITIVE = {
    "relu": lambda s: anp.where(s > 0, s, 0 * s) ** 2,
    "gelu": lambda s: (
        (s**2 - 1) * (1 + erf(s / anp.sqrt(2.0))) / 2
        + s * anp.exp(-(s**2) / 2) / anp.sqrt(2 * anp.pi)
        + 0.5
    ),
    "tanh": lambda s: 2 * anp.log(anp.cosh(s)),
}


def matrix(kind, d, seed=0):
    """A symmetric matrix in general position with eigenvalues of the given kind."""
    if MATRICES[kind] is None:
        return None
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    B = Q @ np.diag(np.resize(MATRICES[kind], d)) @ Q.T
    return (B + B.T) / 2


def scores(F, x):
    return anp.dot(x, F.a.T) + (0 if F.bias is None else F.bias)


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
    return 0.0 * x if F.a is None else (F.activation.sigma(scores(F, x)) * F.omega) @ F.a


def velocity(F, x, mu):
    """The field u, from the reference."""
    _, N, quotient = reference(F, x, mu)
    return SPHERE.tangent(x, (quotient if F.normalised else N) + drift(F, x))


def raw_energy(F, x, w):
    """The energy as a program for autograd, for atoms and weights that need not be normalised."""
    z = x if F.B is None else anp.dot(x, F.B)
    s = 1.0 if F.B is None else np.linalg.norm(F.B, 2)
    pairs = anp.exp(F.beta * (anp.dot(x, z.T) - s))
    v = anp.dot(PRIMITIVE[F.activation.name](scores(F, x)), F.omega)
    return anp.dot(w, anp.dot(pairs, w)) / (2 * F.beta) + anp.dot(w, v) / 2


def turned(x):
    """Directions of increasing angle on the circle."""
    return np.stack([-x[:, 1], x[:, 0]], axis=1)


# ---------------------------------------------------------------------------------------------
# forces


def assert_forces(F, mu, x, rows, tolerance=1e-12):
    """First variation, gradient and both velocities at some of the points x."""
    at, local = x[rows], F.at(mu)
    Z, N, quotient = reference(F, at, mu)
    v = 0 if F.a is None else F.activation.primitive(scores(F, at)) @ F.omega
    pull = drift(F, at)
    delta = local.first_variation(x)[rows]
    assert np.abs(delta * F.beta - Z - F.beta * v / 2).max() < tolerance * max(1, F.beta)
    assert np.abs(local.gradient(x)[rows] - N - pull).max() < tolerance
    for normalised, total in ((False, N + pull), (True, quotient + pull)):
        u = replace(F, normalised=normalised).velocity(x, mu)[rows]
        assert np.abs(u - SPHERE.tangent(at, total)).max() < tolerance
    if F.a is not None:
        assert np.abs(F.potential(at) - v).max() < 1e-13
        assert np.abs(F.perceptron(at) - pull).max() < 1e-13


#: Dimension, particles, other points: few and many of each, so that every way to sum is taken.
SIZES = [
    (2, 1, 700), (2, 7, 50), (2, 300, 40), (2, 513, 700), (2, 1025, 60), (2, 40, 1024),
    (2, 16385, 60), (2, 60, 16385), (3, 1, 5), (3, 255, 40), (3, 257, 40), (3, 1500, 300),
    (5, 600, 40), (16, 257, 40),
]  # fmt: skip


@pytest.mark.parametrize("d, n, m", SIZES)
def test_forces_are_the_sum_over_pairs(d, n, m):
    """At the particles and elsewhere, normalised or not, for all temperatures."""
    rng = np.random.default_rng([d, n])
    w = rng.dirichlet(np.ones(n))
    w[3::7], w[5::7] = 0, 1e-250
    mu, x = Measure(points(rng, n, d), w / w.sum()), points(rng, m, d)
    x[:2] = mu.atoms[0], -mu.atoms[-1]
    own, other = (np.unique(np.r_[:3, rng.permutation(k)[:20], k - 1] % k) for k in (n, m))
    for beta in (1e-3, 0.3, 50.0, 1e4)[:: 1 if n + m < 2000 else 2]:
        F = SphereEnergy(beta)
        assert_forces(F, mu, mu.atoms, own)
        assert_forces(F, mu, x, other)


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("name", NAMED)
def test_forces_with_a_perceptron_and_a_matrix(name, kind):
    for d, n in ((2, 9), (2, 500), (3, 20)):
        F = energy(3.0, name, d, bias=n != 20, B=matrix(kind, d), seed=d)
        mu = on_sphere(n, n, d)
        for x in (mu.atoms, points(1, 400, d)):
            assert_forces(F, mu, x, slice(20))


def test_normalised_attention_far_from_all_particles():
    """Where Z has hardly any digits, or none, for many points and for few."""
    n = 1300
    w = np.arange(1.0, n + 1)
    mu = Measure(on_circle(*np.linspace(-0.2, 0.2, n)), w / w.sum())
    x = on_circle(*np.linspace(-3, 3, n))
    for beta in (50.0, 1000.0):
        F = SphereEnergy(beta, normalised=True)
        assert np.abs(F.velocity(x, mu)[::10] - velocity(F, x[::10], mu)).max() < 1e-12
        assert np.abs(F.velocity(x[::100], mu) - velocity(F, x[::100], mu)).max() < 1e-12


def test_normalised_attention_does_not_see_particles_without_weight():
    """They may be nearer than all others, by more than an exponential holds."""
    F = SphereEnergy(1000.0, normalised=True)
    mu = Measure(on_circle(0.0, 3.0, -3.0), [0.0, 0.25, 0.75])
    only = Measure(mu.atoms[1:], mu.weights[1:])
    for at in (mu.atoms, on_circle(0.0, 0.1, 3.0)):
        assert np.abs(F.velocity(at, mu) - velocity(F, at, only)).max() < 1e-12
    for beta in (1.0, 1e4):
        G, two = replace(F, beta=beta), Measure(on_circle(0.0, 3.0), [1.0, 0.0])
        T = turned(two.atoms)
        k = G.field(True).linearised(two).solve(-1.0, T * [[1.0], [0.0]])
        expected = [1, -np.cos(3) / (1 - np.cos(3))]
        np.testing.assert_allclose((k * T).sum(axis=1), expected, atol=1e-12)


# ---------------------------------------------------------------------------------------------
# symmetries


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]), st.booleans(), st.booleans())
def test_rotations_and_permutations(seed, d, normalised, general):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    B = matrix("indefinite", d, seed) if general else None
    name = ("gelu", "relu")[seed % 2]
    F = energy(rng.uniform(0.1, 20), name, d, seed=seed, bias=True, B=B, normalised=normalised)
    turned = Q.T @ B @ Q if general else None
    turned = None if turned is None else (turned + turned.T) / 2
    units = rng.permutation(len(F.a))
    a = SPHERE.project(F.a @ Q)[units]
    G = replace(F, a=a, omega=F.omega[units], bias=F.bias[units], B=turned)
    mu, x = on_sphere(rng, int(rng.integers(1, 60)), d), points(rng, 3, d)
    order = rng.permutation(mu.size)
    nu = Measure(SPHERE.project(mu.atoms @ Q)[order], mu.weights[order])
    assert G(nu) == pytest.approx(F(mu), abs=1e-12)
    y = SPHERE.project(x @ Q)
    assert np.abs(G.velocity(y, nu) - F.velocity(x, mu) @ Q).max() < 1e-11
    own = F.velocity(mu.atoms, mu) @ Q
    assert np.abs(G.velocity(nu.atoms, nu) - own[order]).max() < 1e-11
    assert np.abs(G.first_variation(y, nu) - F.first_variation(x, mu)).max() < 1e-11


# ---------------------------------------------------------------------------------------------
# the energy and its first derivatives


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("name", PRIMITIVE)
def test_energy_and_derivatives_against_autograd(name, kind):
    for d, bias in ((2, True), (4, False)):
        F = energy(1.7, name, d, bias=bias, B=matrix(kind, d, 3), seed=2)
        mu, y = on_sphere(5, 6, d), points(9, 1, d)
        x, w = mu.atoms, mu.weights
        local = F.at(mu)
        assert local.value == pytest.approx(raw_energy(F, x, w), rel=1e-13)
        close = {"rtol": 0, "atol": 1e-13}

        def in_weights(x, w, F=F):
            return grad(lambda w: raw_energy(F, x, w))(w)

        # a point is a particle without weight
        def variation(y, x=x, w=w):
            return in_weights(anp.concatenate([x, y]), np.append(w, 0))[-1]

        np.testing.assert_allclose(local.first_variation(x), in_weights(x, w), **close)
        np.testing.assert_allclose(local.first_variation(y), [variation(y)], **close)
        slope = grad(lambda x, F=F, w=w: raw_energy(F, x, w))(x)
        np.testing.assert_allclose(w[:, None] * local.gradient(x), slope, **close)
        np.testing.assert_allclose(local.gradient(y), grad(variation)(y), **close)


def test_energies_without_units_and_normalised_ones():
    F, mu = SphereEnergy(3.0), on_sphere(0, 5, 3)
    assert F.dim is None and energy(1.0, d=3).dim == SphereEnergy(1.0, B=np.eye(3)).dim == 3
    assert F.shift == 1.0 and SphereEnergy(1.0, B=np.diag([-3.0, 2.0])).shift == 3.0
    F = energy(4.0, "gelu", 3)
    G, x = replace(F, normalised=True), mu.atoms
    assert G(mu) == F(mu)
    np.testing.assert_allclose(G.gradient(x, mu), F.gradient(x, mu), rtol=1e-14)
    assert np.abs(G.velocity(x, mu) - F.velocity(x, mu)).max() > 0.1
    for ascent, sign in ((False, -1), (np.True_, 1)):
        field, u = F.field(ascent), F.velocity(x, mu)
        np.testing.assert_allclose(field(x, mu), sign * u, rtol=1e-14)
        np.testing.assert_allclose(field.at_atoms(x, mu.weights), sign * u, rtol=1e-14)


def along_flow(F, mu, ascent, t=0.3, count=61, weigh=lambda s: 1):
    """Change of the energy on a short flow, and the integral of the dissipation."""
    times = np.linspace(0, t, count)
    run = flow(F.field(ascent), mu, times, F.space, solver=Adaptive(rtol=1e-11, atol=1e-12))
    states = [Measure(SPHERE.project(x), mu.weights) for x in run.atoms]
    rates = [(weigh(s) * s.weights) @ (velocity(F, s.atoms, s) ** 2).sum(axis=1) for s in states]
    return (1 if ascent else -1) * (F(states[-1]) - F(states[0])) / simpson(rates, x=times)


@pytest.mark.parametrize("ascent", [False, True])
@pytest.mark.parametrize("name", NAMED)
def test_energy_identity(name, ascent):
    """dE/dt is plus or minus the integral of |u|^2; kinks cost the quadrature some digits."""
    for d, bias in ((2, False), (3, True)):
        F, mu = energy(6.0, name, d, bias=bias), on_sphere(3, 5, d)
        assert along_flow(F, mu, ascent) == pytest.approx(1, abs=1e-4 if "relu" in name else 1e-7)


@pytest.mark.parametrize("ascent", [False, True])
def test_energy_identity_of_normalised_attention(ascent):
    """Without units the flow is one of E in another metric; with units of no energy."""
    F, mu = SphereEnergy(6.0, normalised=True), on_sphere(3, 5, 2)
    ratio = along_flow(F, mu, ascent, weigh=lambda s: reference(F, s.atoms, s)[0])
    assert ratio == pytest.approx(1, abs=1e-7)
    assert abs(along_flow(energy(6.0, normalised=True), mu, ascent) - 1) > 1e-2


# ---------------------------------------------------------------------------------------------
# second derivatives


def test_complex_points_are_derivatives():
    """Of the velocity at the particles, and of the first variation at any points, few and many."""
    for n in (4, 600):
        F, mu, x = energy(2.0, "gelu", 2), on_sphere(n, n, 2), points(1, n, 2)
        T = turned(x)
        slope = F.at(mu).first_variation(x + 1e-30j * T).imag / 1e-30
        np.testing.assert_allclose(slope, (F.gradient(x, mu) * T).sum(axis=1), atol=1e-13)


def jacobian(F, mu):
    """Of the field at all atoms in all atoms, by complex steps."""
    x, columns = mu.atoms, []
    for e in np.eye(x.size):
        step = SPHERE.tangent(x, e.reshape(x.shape))
        moved = Measure(SPHERE.retract(x, 1e-30j * step), mu.weights)
        u = F.velocity(moved.atoms, moved).imag / 1e-30
        columns.append(SPHERE.tangent(x, u).ravel())
    return np.array(columns).T


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("d, n, kind, beta", [
    (2, 12, "identity", 3.0), (2, 60, "identity", 0.5), (2, 110, "identity", 0.05),
    (2, 110, "identity", 5.0), (2, 110, "definite", 5.0), (3, 12, "identity", 3.0),
    (5, 12, "indefinite", 3.0), (3, 5, "definite", 2.0), (4, 5, "indefinite", 1.0),
])  # fmt: skip
def test_linear_systems_are_those_of_the_jacobian(d, n, kind, beta, normalised):
    """With units and without; on the circle few particles and many; what is normal stays."""
    mu, b = on_sphere(n, n, d), np.random.default_rng(3).normal(size=(n, d))
    plain = SphereEnergy(beta, B=matrix(kind, d), normalised=normalised)
    name = "tanh" if n > 100 else ("relu", "gelu")[n % 2]
    units = energy(beta, name, d, bias=True, B=plain.B, normalised=normalised)
    for F in (plain, units):
        u = jacobian(F, mu)
        for linear, J in ((F.field().linearised(mu), -u), (F.field(True).linearised(mu), u)):
            for c in (0.3, -1.3, 0.3):
                wanted = np.linalg.solve(np.eye(len(J)) - c * J, b.ravel()).reshape(b.shape)
                error = np.abs(linear.solve(c, b) - wanted).max()
                assert error < 1e-11 * max(1, np.abs(wanted).max())
    # integrators try steps that are too long: the answer is not finite, and the next one is
    bad = np.where(np.arange(n)[:, None] == 3, np.inf, b)
    assert not np.isfinite(linear.solve(0.5, bad)).any() and np.isfinite(linear.solve(0.5, b)).all()


@pytest.mark.parametrize("normalised", [False, True])
def test_linear_systems_of_many_particles(normalised):
    """The product with J by differences of the field."""
    n, c, h = 8200, 0.5, 1e-5
    F, mu = energy(1.0, "tanh", 2, normalised=normalised), on_sphere(0, n, 2)
    b = SPHERE.tangent(mu.atoms, np.random.default_rng(1).normal(size=(n, 2)))
    k = F.field(True).linearised(mu).solve(c, b)
    ends = [Measure(SPHERE.retract(mu.atoms, s * k), mu.weights) for s in (h, -h)]
    change = np.subtract(*[F.velocity(nu.atoms, nu) for nu in ends]) / (2 * h)
    assert np.abs(k - c * SPHERE.tangent(mu.atoms, change) - b).max() < 1e-7
    with pytest.raises(ValueError, match="^mu:"):  # too large for a dense matrix
        SphereEnergy(1.0).field().linearised(on_sphere(0, n, 3))


# ---------------------------------------------------------------------------------------------
# arguments


def test_arguments_are_copied():
    a, omega, bias, B = points(0, 3, 2), np.ones(3), np.zeros(3), np.diag([1.0, 2.0])
    F, mu = SphereEnergy(2.0, a, omega, "gelu", bias=bias, B=B), on_sphere(1, 500, 2)
    before = F(mu)
    for array in (a, omega, bias, B):
        array[:] = 0
    assert F(mu) == before
    assert not any(array.flags.writeable for array in (F.a, F.omega, F.bias, F.B))


UNITS = {"a": [[1.0, 0.0], [0.6, 0.8]], "omega": [1.0, -2.0]}
MU = Measure([[1.0, 0.0], [0.0, 1.0]])
F2 = SphereEnergy(1.0, **UNITS)
BAD = {  # relations between arguments; fuzzing tries the kinds of each
    "omega: missing": lambda: SphereEnergy(1.0, UNITS["a"]),
    "a: off the sphere": lambda: SphereEnergy(1.0, [[1.0, 1e-3]], [1.0]),
    "omega: too few": lambda: SphereEnergy(1.0, UNITS["a"], [1.0]),
    "bias: without units": lambda: SphereEnergy(1.0, bias=[1.0]),
    "B: not symmetric": lambda: SphereEnergy(1.0, B=[[1.0, 1e-9], [0.0, 1.0]]),
    "B: singular": lambda: SphereEnergy(1.0, B=np.diag([-1.0, 0.0])),
    "B: another dimension": lambda: SphereEnergy(1.0, **UNITS, B=np.eye(3)),
    "mu: off the sphere": lambda: F2(Measure([[1.0, 1e-3]])),
    "mu: another dimension": lambda: F2(Measure([[1.0, 0.0, 0.0]])),
    "x: off the sphere": lambda: F2.velocity([[1.0, 1e-3]], MU),
    "x: dimension of mu": lambda: SphereEnergy(1.0).velocity(points(0, 900, 3), MU),
    "x: off the sphere for a potential": lambda: F2.potential([[2.0, 0.0]]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused(case):
    with pytest.raises((TypeError, ValueError), match=f"^{case.split(':')[0]}:"):
        BAD[case]()
    assert np.isfinite(F2(Measure([[1.0 + 5e-9, 0.0]])))  # rounding is accepted
    for signs in ([1, 1], [-1, 1], [-1, -1]):
        assert SphereEnergy(1.0, B=np.diag(signs)).shift == 1.0
