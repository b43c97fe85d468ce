"""Tasks and functionals that several files of tests take."""

import sys
from contextlib import contextmanager

import numpy as np
from reference import heads, make

import mfbook
from mfbook.activations import Activation
from mfbook.attention import AttentionRisk, HeadShape, features, softmax
from mfbook.confinement import Anchor
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.space import Euclidean, Sphere
from mfbook.sphere import SphereEnergy

TWO_BY_TWO = HeadShape(3, 2, 2)


def small_risk(seed, S=4, T=5, d=3, V=4, shape=TWO_BY_TWO):
    rng = np.random.default_rng(seed)
    X, W_U = rng.normal(size=(S, T, d)), rng.normal(size=(d, V))
    Y = np.eye(V)[rng.integers(V, size=(S, T))]
    return AttentionRisk(X, Y, W_U, shape), rng


def problem(seed, d=3, k=2, v=2, T=5, V=6, S=12, radius=1.5, heads=3):
    """A teacher task in the balls: the risk and the teacher, which is optimal."""
    rng = np.random.default_rng(seed)
    shape = HeadShape(d, k, v)
    X = rng.normal(size=(S, T, d))
    W_U = rng.normal(size=(d, V))
    space = shape.ball(radius)
    teacher = Measure(space.sample(rng, heads), rng.dirichlet(np.ones(heads)))
    Y = softmax(teacher.integrate(features(teacher.atoms, X, W_U, shape)))
    return AttentionRisk(X, Y, W_U, shape, space), teacher


def hard(seed, **sizes):
    """The same tokens with random one-hot labels: the residual does not vanish."""
    R, _ = problem(seed, **sizes)
    S, T, V = R.Y.shape
    Y = np.eye(V)[np.random.default_rng(seed).integers(V, size=(S, T))]
    return AttentionRisk(R.X, Y, R.W_U, R.shape, R.space)


def random_laws(R, seed, sizes):
    """Laws of so many heads in the space of a risk."""
    rng = np.random.default_rng(seed)
    for n in sizes:
        yield Measure(R.space.sample(rng, n), rng.dirichlet(np.ones(n)))


def zero(R):
    """The point mass at the head without scores and values."""
    return Measure(np.zeros((1, R.shape.size)))


class Energy(Functional):
    r"""Quadratic energy, half of :math:`\int x\cdot Bx\,d\mu+\iint x\cdot Ay\,d\mu d\mu`."""

    def __init__(self, A, B, space=None):
        self.A, self.B = np.asarray(A), np.asarray(B)
        self.space = Euclidean() if space is None else space

    def at(self, mu):
        return EnergyLocal(self, mu)


class EnergyLocal:
    def __init__(self, F, mu):
        self.F, self.mean = F, mu.weights @ mu.atoms
        own = ((mu.atoms @ F.B) * mu.atoms).sum(axis=1)
        self.value = (mu.weights @ own + self.mean @ F.A @ self.mean) / 2

    def first_variation(self, x):
        return ((x @ self.F.B) * x).sum(axis=1) / 2 + x @ self.F.A @ self.mean

    def gradient(self, x):
        return x @ self.F.B + self.F.A @ self.mean


def symmetric(rng, n):
    A = rng.normal(size=(n, n))
    return A + A.T


def small(seed, d=3, k=1, v=1):
    """A task with clear curvature, its program, and a head of size one."""
    R, program = make(seed, d=d, k=k, v=v, soft=False)
    return R, program, heads(seed, 1, R.shape)[0]


@contextmanager
def interrupted(line, error=KeyboardInterrupt):
    """Raise an error at the n-th line of the package that runs in this block."""
    home, left = mfbook.__path__[0], line

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(home):
            return None
        left -= event == "line"
        if left < 0:
            raise error
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def same_bits(a, b):
    """Whether two trajectories agree in everything that was computed."""
    for name in ("t", "tau", "atoms", "weights", "value", "dissipation"):
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name
    for name in ("completed", "reason", "method", "steps", "evaluations", "increase"):
        assert getattr(a, name) == getattr(b, name), name
    assert list(map(list, a.events)) == list(map(list, b.events))


# ---------------------------------------------------------------------------------------------
# circles and spheres


def points(seed, n, d):
    """Uniform unit vectors."""
    return Sphere().sample(seed, n, d)


def on_circle(*angles):
    """Unit vectors in the plane at angles."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def circle(n):
    """Equally spaced unit vectors in the plane."""
    return on_circle(*(2 * np.pi * np.arange(n) / n))


def on_sphere(seed, n, d):
    """Random unit vectors with random weights."""
    rng = np.random.default_rng(seed)
    return Measure(points(rng, n, d), rng.dirichlet(np.ones(n)))


def sphere_energy(beta, activation="gelu", d=2, *, seed=0, J=3, scale=1.0, bias=False, **options):
    """An energy on the sphere with J random units."""
    rng = np.random.default_rng([seed, J, d])
    a, omega = points(rng, J, d), scale * rng.normal(size=J)
    b = rng.normal(size=J) / 2 if bias else None
    return SphereEnergy(beta, a, omega, activation, bias=b, **options)


def bend(F):
    """The bound M on second derivatives of a first variation, to which tolerances are relative.

    Units of one direction and bias count as one.
    """
    size, weight = 1.0 if F.B is None else np.abs(np.linalg.eigvalsh(F.B)).max(), {}
    for j, omega in enumerate([] if F.omega is None else F.omega):
        unit = (*F.a[j], 0.0 if F.bias is None else F.bias[j])
        weight[unit] = weight.get(unit, 0.0) + omega
    for (*_, b), omega in weight.items():
        sigma = np.abs(F.activation.sigma(np.array(b)))
        size += abs(omega) * (F.activation.lipschitz(1 + abs(b)) + sigma)
    return size


#: No bound on its second derivative is known.
SINE = Activation(
    "sine", np.sin, lambda s: 2 - 2 * np.cos(s), np.cos, tuple(np.pi * np.arange(-3, 4))
)


def anchored(R, theta, lam):
    """R with the anchor that makes the point mass at theta stationary."""
    G = R.gradient(theta[None], Measure.dirac(theta))[0]
    return R + Anchor(lam, theta + G / lam)
