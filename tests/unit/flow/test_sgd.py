"""Stochastic gradient descent: its law, its clock, its bits, its interruptions."""

import warnings

import numpy as np
import pytest
from examples import same_bits
from reference import Program, make, measure, relative

from mfbook.confinement import Anchor, Ridge
from mfbook.flow import Euler, gradient_flow, polynomial_decay, sgd, warmup_cosine
from mfbook.measure import Measure
from mfbook.space import Sphere

R, PROGRAM = make(0, S=6)
MU = measure(1, 4, R.shape)
TIMES, EPS = [0.0, 0.25, 1.0], 0.125
XI = warmup_cosine(1.0, warmup=0.5, end=1.0, floor=0.1)
PROFILES = {"rescaled time": None, "decay": polynomial_decay(0.9, 0.5, 0.7), "warm-up": XI}


def by_hand(batch, first=0, seed=7):
    """The steps of equation (19), with the gradient of the naive program."""
    rng, x = np.random.default_rng(seed), np.array(MU.atoms)
    for n in range(first, 8):
        F = R.sample(rng, batch)
        p = Program(F.X, F.Y, F.W_U, PROGRAM.d, PROGRAM.k, PROGRAM.v)
        residual = p.residual(x, MU.weights)
        g = np.array([p.psi_gradient(h, residual) for h in x])
        x = x - 2 * EPS * XI(n * EPS) * g
    return x


@pytest.mark.parametrize("batch", [1, 3])
def test_against_the_naive_program(batch):
    run = sgd(R, MU, TIMES, EPS, 7, batch=batch, xi=XI)
    assert np.abs(run.end.atoms - by_hand(batch)).max() < 1e-12
    assert run.steps == 8 and run.completed
    # the first time says where the profile starts, not how many numbers were drawn
    later = sgd(R, MU, [0.25, 1.0], EPS, 7, batch=batch, xi=XI)
    assert np.abs(later.end.atoms - by_hand(batch, first=2)).max() < 1e-12 and later.steps == 6
    assert np.array_equal(sgd(R, MU, [0.5], EPS, 7).atoms, [MU.atoms])


def test_values_are_those_of_the_functional_not_of_the_samples():
    run = sgd(R, MU, TIMES, EPS, 7, xi=XI)
    for i in range(3):
        assert relative(run.value[i], R(run.measure(i))) < 1e-14
        g = R.gradient(run.atoms[i], run.measure(i))
        assert run.dissipation[i] == pytest.approx(MU.weights @ (g * g).sum(axis=1), rel=1e-13)
    assert np.allclose(run.tau, XI.tau(np.array(TIMES))) and run.t.tolist() == TIMES


@pytest.mark.parametrize("name", PROFILES)
def test_without_noise_it_is_euler(name):
    one, _ = make(2, S=1, soft=False)
    for F in (one, Ridge(0.7), one + Ridge(0.1)):
        noiseless = sgd(F, MU, TIMES, EPS, 0, xi=PROFILES[name])
        euler = gradient_flow(F, MU, TIMES, solver=Euler(EPS), xi=PROFILES[name])
        for field in ("t", "tau", "atoms", "value", "dissipation"):
            assert np.allclose(getattr(noiseless, field), getattr(euler, field), rtol=1e-13)


def test_on_spaces():
    north = Anchor(1.0, [0.0, 0.0, 1.0]).on(Sphere())
    run = sgd(north, Measure(Sphere().sample(0, 5, 3)), [0, 1.0, 5.0], 0.25, 0)
    assert np.abs(np.linalg.norm(run.atoms, axis=2) - 1).max() < 1e-12
    assert (np.diff(run.value) < 0).all() and run.end.atoms[:, 2].min() > 0.9
    ball = R.shape.ball(0.5)
    inside = sgd(R.on(ball), MU.map(ball.project), [0, 10.0], 0.5, 0)
    assert ball.contains(inside.end.atoms).all()


def test_seeds_reproduce_bit_for_bit(capsys):
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    a, b = sgd(R, MU, TIMES, EPS, 7, batch=2), sgd(R, MU, TIMES, EPS, 7, batch=2)
    assert capsys.readouterr().err == ""
    same_bits(a, b)
    same_bits(a, sgd(R, MU, TIMES, EPS, np.random.default_rng(7), batch=2, progress=True))
    assert "100%" in capsys.readouterr().err
    more = sgd(R, MU, np.arange(9) * EPS, EPS, 7, batch=2)
    assert np.array_equal(a.end.atoms, more.end.atoms), "what is recorded changes nothing"
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_blow_up_is_reported():
    """Beyond all numbers, or where F is only recorded far above its start."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = sgd(-Ridge(3.0), Measure([[1.0], [2.0]]), [0, 0.5, 1000.0], 0.25, 0)
        risk = sgd(-R, measure(0, 2, R.shape, scale=20.0), [0, 1e6], 50.0, 0)
        long = sgd(Ridge(10.0), Measure([[1.0]]), [0.0, 1.0, 2.0, 5.0], 0.5, 0)
    assert run.t.tolist() == [0.0, 0.5] and run.atoms.shape == (2, 2, 1)
    for r in (run, risk, long):
        assert not r.completed and "stopped" in repr(r)
        assert np.isfinite(r.atoms).all() and np.isfinite(r.value).all()
    assert "F rose from" in long.reason


def test_what_is_interrupted_is_not_lost():
    class Stopped(Ridge):
        def sample(self, rng, n):
            if rng.random() < 0.02:
                raise KeyboardInterrupt
            return self

    run = sgd(Stopped(0.1), Measure([[1.0]]), np.arange(200.0), 1.0, 3)
    assert not run.completed and 1 < len(run) < 200 and "interrupted" in run.reason
