"""Weights on heads and sequences: against samples written out, and against differences."""

import numpy as np
import pytest
from reference import heads, make

from companion.mathematics import weighted as module
from companion.mathematics.weighted import weighted_gradient
from mfbook.attention import AttentionRisk
from mfbook.measure import Measure

SIZES = {
    "plain": dict(),
    "one of everything": dict(S=1, T=1, d=1, k=1, v=1, V=2),
    "wide": dict(d=4, k=3, v=2, V=3),
    "long": dict(T=9, d=2, k=1, v=1),
}


def case(name, runs=3, m=4):
    R, program = make(seed=5, **SIZES[name])
    rng = np.random.default_rng(6)
    theta = heads(7, runs * m, R.shape).reshape(runs, m, -1)
    return R, program, theta, rng.dirichlet(np.ones(m), runs), rng


@pytest.mark.parametrize("name", SIZES)
def test_counts_of_a_sample_are_the_sample_written_out(name):
    R, _, theta, a, rng = case(name)
    index = rng.integers(len(R.X), size=(3, 7))
    counts = np.array([np.bincount(i, minlength=len(R.X)) for i in index])
    losses, G = weighted_gradient(R, theta, a, counts / 7)
    for r, chosen in enumerate(index):
        mu = Measure(theta[r], a[r])
        sample = AttentionRisk(R.X[chosen], R.Y[chosen], R.W_U, R.shape)
        assert np.isclose(counts[r] @ losses[r] / 7, sample(mu), rtol=1e-13)
        assert np.allclose(G[r], sample.gradient(mu.atoms, mu), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", SIZES)
def test_losses_are_those_of_the_naive_program(name):
    R, program, theta, a, _ = case(name)
    losses, _ = weighted_gradient(R, theta, a, np.ones((3, len(R.X))))
    for r in range(3):
        p = program.law(program.logits(theta[r], a[r]))
        assert np.allclose(losses[r], -(R.Y * np.log(p)).sum(axis=2).mean(axis=1), rtol=1e-12)


def test_a_complex_step_is_the_derivative_in_each_argument():
    R, _, theta, a, rng = case("plain")
    c, h = rng.dirichlet(np.ones(len(R.X)), 3), 1e-6
    arguments = [theta, a, c]
    for i, x in enumerate(arguments):
        step = rng.normal(size=x.shape)

        def moved(size, i=i, step=step):
            now = [y + size * step if i == j else y for j, y in enumerate(arguments)]
            return weighted_gradient(R, *now)

        for up, down, exact in zip(moved(h), moved(-h), moved(1e-30j), strict=True):
            assert np.allclose((up - down) / (2 * h), exact.imag / 1e-30, rtol=1e-6, atol=1e-9)


def test_runs_do_not_feel_each_other_nor_the_blocks():
    m = 5
    R, _, theta, a, rng = case("plain", runs=2 * module.BLOCK // m + 3, m=m)
    c = rng.dirichlet(np.ones(len(R.X)), len(theta))
    losses, G = weighted_gradient(R, theta, a, c)
    for r in (0, module.BLOCK // m, len(theta) - 1):
        loss, g = weighted_gradient(R, theta[[r]], a[[r]], c[[r]])
        assert np.allclose(losses[r], loss[0], rtol=1e-13)
        assert np.allclose(G[r], g[0], rtol=1e-11, atol=1e-13)
