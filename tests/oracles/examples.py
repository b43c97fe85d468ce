"""Tasks and functionals that several files of tests take."""

import numpy as np
from reference import heads, make

from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape, features, softmax
from mfbook.space import Euclidean

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
