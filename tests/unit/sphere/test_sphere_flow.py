"""Flows on the sphere: runs until they have settled."""

from dataclasses import replace

import numpy as np
import pytest
from examples import circle, on_circle, points
from examples import sphere_energy as energy

from mfbook.activations import TANH
from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere import Explicit, SphereEnergy, Stiff, settle


def test_a_slope_that_is_lost_is_not_taken_for_a_result():
    lost = SphereEnergy(1.0, np.eye(2), [1.0, 1.0], replace(TANH, slope=lambda s: s * np.nan))
    mu = Measure(points(36, 25, 2))
    failed = settle(lost, mu)
    assert "failed at t = 0" in failed.reason and not failed.completed
    assert np.abs(failed.end.atoms - mu.atoms).max() < 1e-15


# ---------------------------------------------------------------------------------------------
# settled states


def test_snapshots_where_nothing_moves():
    """At least 1 and at most a quarter of the time apart; a chain around the circle is not one."""
    run = settle(SphereEnergy(1.0), Measure(circle(5)))
    assert run.completed and (np.diff(run.t) >= 1 - 1e-12).all() and run.t[-1] < 10
    short = settle(energy(5.0), Measure(points(14, 80, 2)), solver=Stiff(most=7))
    assert short.steps == 7 and not short.completed and "7" in short.reason


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("ascent", [True, False])
@pytest.mark.parametrize(("d", "activation"), [(2, None), (2, "relu"), (2, "gelu"), (3, "relu")])
def test_energy_is_monotone_and_particles_stay_on_the_sphere(d, activation, ascent, normalised):
    F = SphereEnergy(5.0) if activation is None else energy(5.0, activation, d)
    F, mu = replace(F, normalised=normalised), Measure(points(17, 40, d))
    run = settle(F, mu, ascent=ascent, solver=Stiff(horizon=100.0), record=4)
    assert np.abs(np.linalg.norm(run.atoms, axis=2) - 1).max() < 1e-12
    n = len(run.t)
    assert run.recorded.tolist() == sorted({*range(0, n, 4), n - 1})
    assert np.abs(run.atoms[0] - mu.atoms).max() < 1e-15
    assert np.abs(run.atoms[-1] - run.end.atoms[run.labels]).max() < 1e-7
    if not normalised:  # with a perceptron it is not a gradient flow of E
        assert ((1 if ascent else -1) * np.diff(run.value)).min() > -1e-6
    assert run.speed[-1] < 2e-2


def compare(F, mu, ascent):
    """Both methods stop with the same particles together, and the stiff one is cheaper."""
    slow, fast = (settle(F, mu, kind(), ascent=ascent) for kind in (Explicit, Stiff))
    assert slow.completed and fast.completed
    assert fast.evaluations < slow.evaluations
    # two runs to 1e-4 stop at different times; wide clusters are then cut differently
    assert abs(fast.clusters.count - slow.clusters.count) <= 1
    apart = Sphere().distance(fast.end.atoms[fast.labels], slow.end.atoms[slow.labels])
    assert np.quantile(apart, 0.97) < 0.1 and np.median(apart) < 0.02
    assert fast.value[-1] == pytest.approx(slow.value[-1], rel=5e-3)


@pytest.mark.parametrize(
    ("activation", "ascent"), [("relu", True), ("gelu", True), ("gelu", False), (None, True)]
)
def test_both_methods_end_in_the_same_clusters(activation, ascent):
    F = SphereEnergy(5.0) if activation is None else energy(5.0, activation, J=2)
    compare(F, Measure(points(19, 60, 2)), ascent=ascent)


def test_merged_particles_carry_their_weight():
    F, mu = energy(8.0), Measure(points(22, 30, 2))
    run = settle(F, mu, ascent=True, solver=Stiff(tolerance=1e-9))
    assert run.completed and run.end.size == run.clusters.count < 30
    assert run.end.weights == pytest.approx(np.bincount(run.labels) / 30)
    # a merger keeps the barycentre
    mu = Measure(on_circle(0.0, 5e-9, 2.0), [0.1, 0.3, 0.6])
    run = settle(SphereEnergy(1.0), mu, Stiff(horizon=1e-12))
    means = Sphere().project(np.array([mu.atoms[0] + 3 * mu.atoms[1], mu.atoms[2]]))
    np.testing.assert_allclose(run.end.atoms, means, atol=1e-11)
    np.testing.assert_allclose(run.end.weights, [0.4, 0.6], rtol=1e-14)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", [Stiff, Explicit])
def test_duplicates_permutations_and_rotations(kind, d):
    F, x, rng = energy(6.0, d=d), points(24, 12, d), np.random.default_rng(27)
    for ascent in (True, False):
        rules = Stiff(horizon=10.0) if kind is Stiff else Explicit(most=100)
        options = {"solver": rules, "ascent": ascent, "record": 1}
        times = np.arange(12) % 3 + 1
        run = settle(F, Measure(x, times / times.sum()), **options)
        twice = settle(F, Measure(np.repeat(x, times, axis=0)), **options)
        assert np.abs(twice.atoms - np.repeat(run.atoms, times, axis=1)).max() < 1e-9
        assert twice.value == pytest.approx(run.value, abs=1e-10)
        order, Q = rng.permutation(12), np.linalg.qr(rng.normal(size=(d, d)))[0]
        turned = replace(F, a=Sphere().project(F.a @ Q))
        mu = Measure(Sphere().project(x @ Q)[order], times[order] / times.sum())
        assert np.abs(settle(turned, mu, **options).atoms - (run.atoms @ Q)[:, order]).max() < 1e-8


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", [Stiff, Explicit])
def test_few_particles(kind, d):
    plain, x = SphereEnergy(2.0), points(28, 1, d)
    one = settle(plain, Measure(x), kind())
    assert one.completed and one.count.tolist() == [1] * 6
    assert np.abs(one.end.atoms - x).max() < 1e-14
    for ascent in (True, False):
        pair = settle(plain, Measure(np.concatenate([x, -x])), kind(), ascent=ascent)
        assert pair.completed and pair.end.size == 2 and pair.speed.max() < 1e-15
    same = settle(plain, Measure(np.repeat(x, 5, axis=0)), kind())
    assert same.completed and same.end.size == 1 and same.labels.tolist() == [0] * 5
    # one particle with a perceptron goes to the nearest maximum or minimum of v
    F = SphereEnergy(2.0, [np.eye(d)[0]], [1.0], "linear")
    up = settle(F, Measure(Sphere().project(x + 0.1)), kind(tolerance=1e-8), ascent=True)
    assert np.abs(np.abs(up.end.atoms[0, 0]) - 1) < 1e-12
    assert up.value[-1] == pytest.approx(0.25 + 0.5 * F.potential(np.eye(d)[:1])[0], abs=1e-10)


@pytest.mark.parametrize("kind", [Stiff, Explicit])
def test_interruption_is_no_result(kind):
    calls = iter(range(1000))

    def interrupted(s):
        if next(calls) > 50:
            raise KeyboardInterrupt
        return np.tanh(s)

    F = replace(energy(5.0), activation=replace(TANH, sigma=interrupted))
    run = settle(F, Measure(points(37, 25, 2)), kind())
    assert not run.completed and "interrupted" in run.reason and np.isfinite(run.end.atoms).all()


def test_limits_of_a_run_and_what_is_refused():
    F, mu = SphereEnergy(1.0), Measure(on_circle(0.0, 1.0))
    assert settle(F, mu, Explicit(most=4)).steps == settle(F, mu, Stiff(most=4)).steps == 4
    for name, options in (
        ("mu", {"mu": Measure(2 * mu.atoms)}), ("mu", {"mu": Measure(mu.atoms + 0j)}),
        ("mu", {"F": energy(1.0, d=3)}), ("solver", {"solver": "euler"}),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"^{name}:"):
            settle(**{"F": F, "mu": mu, **options})
