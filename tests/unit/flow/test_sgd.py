"""Stochastic gradient descent: its law, its clock, its bits, its interruptions."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import make, measure, relative

from mfbook.flow import checkpoint as checkpoint_module
from mfbook.flow import constant, custom, gradient_flow, polynomial_decay, sgd, warmup_cosine
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk
from mfbook.models.confinement import Ridge
from mfbook.space import Sphere

R, PROGRAM = make(0, S=6)
MU = measure(1, 4, R.shape)
TIMES, EPS = [0.0, 0.25, 1.0], 0.125
XI = warmup_cosine(1.0, warmup=0.5, end=1.0, floor=0.1)
PROFILES = {"rescaled time": None, "decay": polynomial_decay(0.9, 0.5, 0.7), "warm-up": XI}
NOTICED = 1e-3


def same_bits(a, b):
    for name in ("t", "tau", "atoms", "weights", "value", "dissipation"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    for name in ("completed", "reason", "steps", "evaluations"):
        assert getattr(a, name) == getattr(b, name), name


def by_hand(seed, batch, xi=None, gradient=None, late=0.0):
    """The steps of equation (19), with the gradient of the naive program."""
    rng, x = np.random.default_rng(seed), np.array(MU.atoms)
    for n in range(8):
        F = R.sample(rng, batch)
        g = F.gradient(x, Measure(x, MU.weights)) if gradient is None else gradient(F, x)
        rate = 1.0 if xi is None else 2 * xi(n * EPS + late)
        x = x - EPS * rate * g
    return x


# ---------------------------------------------------------------------------------------------
# what a step is


@pytest.mark.parametrize("batch", [1, 3])
def test_against_the_naive_program(batch):
    def naive(F, x):
        p = type(PROGRAM)(F.X, F.Y, F.W_U, PROGRAM.d, PROGRAM.k, PROGRAM.v)
        residual = p.residual(x, MU.weights)
        return np.array([p.psi_gradient(h, residual) for h in x])

    run = sgd(R, MU, TIMES, EPS, 7, batch=batch, xi=XI)
    assert np.abs(run.end.atoms - by_hand(7, batch, XI, naive)).max() < 1e-12
    assert run.steps == run.evaluations == 8 and run.method == "sgd" and run.completed


def test_values_are_those_of_the_functional_not_of_the_samples():
    run = sgd(R, MU, TIMES, EPS, 7, xi=XI)
    for i in range(3):
        assert run.value[i] == R(run.measure(i))
        g = R.gradient(run.atoms[i], run.measure(i))
        assert run.dissipation[i] == pytest.approx(MU.weights @ (g * g).sum(axis=1), rel=1e-13)
    assert np.array_equal(run.tau, XI.tau(np.array(TIMES))) and run.t.tolist() == TIMES


def test_stochastic_gradient_is_unbiased():
    """The mean of many first steps is the step of Euler, within five standard errors."""
    ends = np.array([sgd(R, MU, [0, EPS], EPS, s, batch=4).end.atoms for s in range(400)])
    euler = gradient_flow(R, MU, [0, EPS], method="euler", step=EPS).end.atoms
    error = ends.mean(axis=0) - euler
    assert (np.abs(error) < 5 * ends.std(axis=0) / np.sqrt(len(ends)) + 1e-15).all()
    assert ends.std(axis=0).max() > 1e-3


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("problem", ["one sequence", "ridge", "both"])
def test_without_noise_it_is_euler(name, problem):
    one, _ = make(2, S=1, soft=False)
    F = {"one sequence": one, "ridge": Ridge(0.7), "both": one + Ridge(0.1)}[problem]
    options = {"xi": PROFILES[name]}
    noiseless = sgd(F, MU, TIMES, EPS, 0, **options)
    euler = gradient_flow(F, MU, TIMES, method="euler", step=EPS, **options)
    for field in ("t", "tau", "atoms", "value", "dissipation"):
        assert np.array_equal(getattr(noiseless, field), getattr(euler, field))


@pytest.mark.parametrize("S", [1, 6])
def test_soft_labels_are_drawn(S):
    """With one sequence only the labels are random; a step sees one-hot labels."""
    soft, _ = make(2, S=S)
    a, b = (sgd(soft, MU, [0, EPS], EPS, seed).end.atoms for seed in (0, 1))
    assert np.abs(a - b).max() > 1e-4


def test_first_time_and_one_time():
    """The first time says where the profile starts, not how many numbers were drawn."""
    later = sgd(R, MU, [0.25, 1.0], EPS, 7, xi=XI)
    rng, x = np.random.default_rng(7), np.array(MU.atoms)
    for n in range(2, 8):
        x = x - EPS * 2 * XI(n * EPS) * R.sample(rng, 1).gradient(x, Measure(x, MU.weights))
    assert np.abs(later.end.atoms - x).max() < 1e-14 and later.completed
    for t in (0.0, 0.5):
        one = sgd(R, MU, [t], EPS, 7)
        assert np.array_equal(one.atoms, [MU.atoms]) and one.completed


def test_on_spaces():
    @dataclass(frozen=True)
    class North(Functional):
        space: object = Sphere()

        def at(self, mu):
            local = type("Local", (), {})()
            local.value = -mu.integrate(mu.atoms[:, 2])
            local.gradient = lambda x: np.broadcast_to([0.0, 0.0, -1.0], x.shape)
            return local

    run = sgd(North(), Measure(Sphere().sample(0, 5, 3)), [0, 1.0, 5.0], 0.25, 0)
    assert np.abs(np.linalg.norm(run.atoms, axis=2) - 1).max() < 1e-12
    assert (np.diff(run.value) < 0).all() and run.value[-1] < -0.99
    ball = R.shape.ball(0.5)
    inside = sgd(R.on(ball), MU.map(ball.project), [0, 10.0], 0.5, 0)
    assert ball.contains(inside.end.atoms).all()


# ---------------------------------------------------------------------------------------------
# randomness


def test_seeds_reproduce_bit_for_bit():
    a, b = sgd(R, MU, TIMES, EPS, 7, batch=2), sgd(R, MU, TIMES, EPS, 7, batch=2)
    same_bits(a, b)
    same_bits(a, sgd(R, MU, TIMES, EPS, np.random.default_rng(7), batch=2))
    assert np.abs(a.end.atoms - sgd(R, MU, TIMES, EPS, 8, batch=2).end.atoms).max() > 1e-3


def test_global_random_state_is_untouched():
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    sgd(R, MU, TIMES, EPS, 7)
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_outputs_do_not_change_the_run():
    a, b = sgd(R, MU, [0, 1.0], EPS, 7), sgd(R, MU, np.arange(9) * EPS, EPS, 7)
    assert np.array_equal(a.end.atoms, b.end.atoms)


def test_two_equal_particles_are_one_of_double_weight():
    twice = Measure(np.concatenate([MU.atoms, MU.atoms[:1]]), [0.1, 0.2, 0.3, 0.2, 0.2])
    a = sgd(R, twice, TIMES, EPS, 7)
    b = sgd(R, Measure(MU.atoms, [0.3, 0.2, 0.3, 0.2]), TIMES, EPS, 7)
    assert np.abs(a.end.atoms[:4] - b.end.atoms).max() < 1e-12
    assert np.abs(a.end.atoms[4] - a.end.atoms[0]).max() < 1e-14


@given(st.permutations(range(4)), st.integers(0, 99))
def test_permutation_of_heads_commutes(p, seed):
    a = sgd(R, MU, TIMES, EPS, seed)
    b = sgd(R, Measure(MU.atoms[p], MU.weights[p]), TIMES, EPS, seed)
    assert np.abs(a.end.atoms[p] - b.end.atoms).max() < 1e-12


# ---------------------------------------------------------------------------------------------
# blow-up


def test_blow_up_is_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = sgd(-Ridge(3.0), Measure([[1.0], [2.0]]), [0, 0.5, 1000.0], 0.25, 0)
        heads = measure(0, 2, R.shape, scale=20.0)
        risk = sgd(-R, heads, [0, 1e6], 50.0, 0)
    assert run.t.tolist() == [0.0, 0.5] and run.atoms.shape == (2, 2, 1)
    for r in (run, risk):
        assert not r.completed and r.reason.startswith("left the range") and "stopped" in repr(r)
        assert np.isfinite(r.atoms).all() and np.isfinite(r.value).all()


# ---------------------------------------------------------------------------------------------
# checkpoints


class Interrupted(Functional):
    """A functional that is interrupted in or after its n-th sample."""

    def __init__(self, n, inside=True, error=KeyboardInterrupt):
        self.left, self.inside, self.error = n, inside, error

    def at(self, mu):
        return R.at(mu)

    def sample(self, rng, n):
        self.left -= 1
        if self.left < 0 and not self.inside:
            raise self.error
        drawn = R.sample(rng, n)
        if self.left < 0:
            raise self.error
        return drawn


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_interrupted_and_resumed_gives_the_same_bits(kind, inside, tmp_path):
    path = tmp_path / "run.npz"

    def run(n, checkpoint=path):
        rng = np.random.Generator(kind(5))
        result = sgd(Interrupted(n, inside), MU, TIMES, EPS, rng, batch=2, xi=XI,
                     checkpoint=checkpoint)  # fmt: skip
        return result, rng.random()

    whole, after = run(99, None)
    for n in range(8):
        path.unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt):
            run(n)
        resumed, then = run(99)
        same_bits(resumed, whole)
        assert then == after
    path.unlink()
    for _ in range(3):  # again and again
        with pytest.raises(KeyboardInterrupt):
            run(2)
    same_bits(run(99)[0], whole)
    again, then = run(0)  # finished: nothing is sampled
    same_bits(again, whole)
    assert then == after and [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_saved_regularly_and_atomically(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    path, whole = tmp_path / "run.npz", sgd(R, MU, TIMES, EPS, 5)
    with pytest.raises(ZeroDivisionError):
        sgd(Interrupted(5, error=ZeroDivisionError), MU, TIMES, EPS, 5, checkpoint=path)
    before = path.read_bytes()

    def broken(*_, **__):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.np, "savez", broken)
        with pytest.raises(OSError, match="disk full"):
            sgd(R, MU, TIMES, EPS, 5, checkpoint=path)
    assert path.read_bytes() == before
    rest = Interrupted(99)
    same_bits(sgd(rest, MU, TIMES, EPS, 5, checkpoint=path), whole)
    assert 99 - rest.left == 3  # five of eight steps were saved


def test_interrupted_while_saving(tmp_path, monkeypatch):
    """The step before the saving is not lost and not done twice."""
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    path, whole, savez, calls = tmp_path / "run.npz", sgd(R, MU, TIMES, EPS, 5), np.savez, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        savez(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.np, "savez", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sgd(R, MU, TIMES, EPS, 5, checkpoint=path)
    same_bits(sgd(R, MU, TIMES, EPS, 5, checkpoint=path), whole)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    base = dict(F=R, mu=MU, times=[0, 0.5], epsilon=EPS, rng=5, batch=2, xi=constant(0.6))
    sgd(**base, checkpoint=path)
    sgd(**base, checkpoint=str(path))
    others = {
        "F": -R, "F ": make(1, S=6)[0], "F  ": R.on(R.shape.ball(9.0)),
        "mu": Measure(MU.atoms), "times": [0, 0.25, 0.5],
        "epsilon": EPS / 2, "rng": 6, "batch": 1, "xi": constant(0.61),
        "xi ": custom(lambda t: 0.6 + t * (0.5 - t)),
    }  # fmt: skip
    for name, value in others.items():
        with pytest.raises(ValueError, match="^checkpoint: .*other arguments"):
            sgd(**{**base, name.strip(): value}, checkpoint=path)
    gradient_flow(R, MU, [0, 0.5], checkpoint=tmp_path / "flow.npz")
    with pytest.raises(ValueError, match="^checkpoint: "):
        sgd(**base, checkpoint=tmp_path / "flow.npz")


def test_progress_is_shown_on_demand(capsys):
    sgd(R, MU, [0, 0.5], EPS, 0)
    assert capsys.readouterr().err == ""
    sgd(R, MU, [0, 0.5], EPS, 0, progress=True)
    assert "descent of 4 atoms: 100%" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------
# bad input

GOOD = dict(F=R, mu=MU, times=[0, 0.5], epsilon=0.25, rng=0, batch=1, xi=None, checkpoint=None)
BAD = {
    "F": [(None, TypeError), (np.sum, TypeError),
          (type("F", (), {"at": R.at, "sample": R.sample})(), TypeError)],
    "mu": [(MU.atoms, TypeError), (Measure(MU.atoms + 0j), TypeError),
           (Measure([[1.0]]), ValueError), (Measure(1e80 * MU.atoms), ValueError)],
    "times": [([], ValueError), ([0, 0.3], ValueError), ([0.5, 0.25], ValueError),
              ([-0.25, 0], ValueError), ([0, np.nan], ValueError), ("x", TypeError),
              (None, TypeError), ([0.25, 0.25 * (1 + 1e-12)], ValueError)],
    "epsilon": [(0.0, ValueError), (-0.25, ValueError), (np.nan, ValueError), (np.inf, ValueError),
                (None, TypeError), ("1", TypeError), ([0.25], TypeError), (1e-300, ValueError)],
    "rng": [(None, TypeError), (-1, TypeError), (1.5, TypeError), (np.random, TypeError)],
    "batch": [(0, ValueError), (-1, ValueError), (1.0, TypeError), (None, TypeError)],
    "xi": [(0.5, TypeError), ("fast", TypeError), (lambda t: -1 + 0 * t, ValueError),
           (lambda t: np.nan * t, ValueError), (lambda t: np.where(t == 0.25, -1, 1), ValueError)],
    "checkpoint": [(3, TypeError), ("/nowhere/run.npz", ValueError)],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    for value, error in BAD[name]:
        with pytest.raises(error) as caught:
            sgd(**{**GOOD, name: value})
        assert type(caught.value) is error
        assert str(caught.value).startswith(f"{name}: "), str(caught.value)


def test_bad_input_draws_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    for name in ("F", "mu", "times", "epsilon", "batch", "checkpoint"):
        for value, _ in BAD[name]:
            with pytest.raises((TypeError, ValueError)):
                sgd(**{**GOOD, "rng": rng, name: value})
    assert rng.bit_generator.state == before


# ---------------------------------------------------------------------------------------------
# wrong programs


def test_comparisons_notice_wrong_steps():
    run = sgd(R, MU, TIMES, EPS, 7, xi=XI)
    assert relative(run.end.atoms, by_hand(7, 1, XI)) < 1e-13

    def weighted(F, x):
        return MU.weights[:, None] * F.gradient(x, Measure(x, MU.weights))

    def other_sample_for_each_head(F, x):
        rng = np.random.default_rng(0)
        mu = Measure(x, MU.weights)
        return np.array([R.sample(rng, 1).gradient(h[None], mu)[0] for h in x])

    wrong = {
        "factor 2": by_hand(7, 1, lambda t: XI(t) / 2),
        "rate at the end": by_hand(7, 1, XI, late=EPS),
        "weights in the velocity": by_hand(7, 1, XI, weighted),
        "ascent": by_hand(7, 1, lambda t: -XI(t)),
        "one sample for each head": by_hand(7, 1, XI, other_sample_for_each_head),
        "another batch": by_hand(7, 2, XI),
    }
    for name, end in wrong.items():
        assert relative(run.end.atoms, end) > NOTICED, name


def test_labels_that_are_not_drawn_are_noticed():
    """With the soft labels themselves one sequence would give no noise at all."""
    soft, _ = make(2, S=1)

    class Undrawn(AttentionRisk):
        def sample(self, rng, n):
            return self

    same = Undrawn(soft.X, soft.Y, soft.W_U, soft.shape)
    a, b = (sgd(same, MU, [0, EPS], EPS, seed).end.atoms for seed in (0, 1))
    assert np.array_equal(a, b)
