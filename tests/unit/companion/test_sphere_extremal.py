"""Regions and extremal points of ReLU potentials: brute force, closed forms and symmetry."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from examples import circle, points

from companion.mathematics.landscape import maximise_potential, sign_regions


def unit(x):
    x = np.asarray(x, dtype=float)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def potential(x, a, omega):
    return np.maximum(x @ np.transpose(a), 0) ** 2 @ np.asarray(omega, dtype=float)


def draw(seed, J, d):
    rng = np.random.default_rng(seed)
    return unit(rng.normal(size=(J, d))), rng.normal(size=J)


def turn(seed, d):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def ascend(a, omega, starts, steps=500):
    """Ends of x <- grad(v / 2 + s |x|^2 / 2) / |...|, with s so that this function is convex."""
    x = starts
    for _ in range(steps):
        g = (np.maximum(x @ a.T, 0) * omega) @ a
        x = unit(g + (np.abs(omega).sum() or 1.0) * x)
    return x


# ---------------------------------------------------------------------------------------------
# regions


def assert_regions(a, count, samples=5000):
    """So many, all different, each with a point inside, and none that a sample lies in is lost."""
    regions = sign_regions(a)
    known = {tuple(s) for s in regions.signs}
    assert len(regions) == len(known) == count
    np.testing.assert_array_equal(np.sign(regions.points @ a.T), regions.signs)
    assert np.abs(regions.points @ a.T).min() > 1e-9
    np.testing.assert_allclose(np.linalg.norm(regions.points, axis=1), 1, rtol=1e-14)
    seen = np.sign(points(0, samples, a.shape[1]) @ a.T).astype(np.int8)
    assert {tuple(s) for s in np.unique(seen, axis=0)} <= known


@pytest.mark.parametrize(
    "J, d",
    [(1, 2), (2, 2), (7, 2), (200, 2), (1, 3), (3, 3), (25, 3), (8, 4), (8, 5), (2, 6), (9, 7)],
)
def test_regions_in_general_position(J, d):
    assert_regions(draw(J, J, d)[0], 2 * sum(comb(J - 1, i) for i in range(d)))


def reflections(n, signed=False):
    """Hyperplanes x_i = x_j: their regions are the orderings of the coordinates, or with signs."""
    e, pairs = np.eye(n), list(combinations(range(n), 2))
    plus = [*e, *(e[i] + e[j] for i, j in pairs)] if signed else []
    return [e[i] - e[j] for i, j in pairs] + plus


@pytest.mark.parametrize(
    "a, count",
    [
        ([[1, 0], [1, 0], [-1, 0], [0, 1]], 4),  # repeated and opposite directions
        ([[1, 0, 0], [-1, 0, 0]], 2),
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, -1, 0]], 8),  # planes through one axis
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 12),
        (reflections(3), 6),
        (reflections(5), 120),
        (reflections(2, True), 8),
        (reflections(4, True), 384),
    ],
)
def test_regions_in_special_position(a, count):
    assert_regions(unit(a), count)


# ---------------------------------------------------------------------------------------------
# the global search


@pytest.mark.parametrize("J, d", [(1, 2), (2, 2), (6, 2), (20, 2), (3, 3), (20, 3), (9, 4)])
@pytest.mark.parametrize("seed", range(2))
def test_extrema_against_many_starts(seed, J, d):
    a, omega = draw(100 * seed + 10 * J + d, J, d)
    starts = points(1, 100, d)
    for weights in (omega, -omega, np.abs(omega), -np.abs(omega)):
        best = maximise_potential(a, weights)
        ends = ascend(a, weights, starts)
        v = potential(ends, a, weights)
        assert v.max() <= best.value + 1e-12
        assert v.max() == pytest.approx(best.value, abs=1e-5)
        if best.value > 1e-9:  # isolated: every end that is as high is one of the points
            apart = np.linalg.norm(ends[v >= best.value - 1e-13, None] - best.points, axis=2)
            assert apart.min(axis=1).max(initial=0) < 1e-3
        # every point is a maximiser, and stationary
        np.testing.assert_allclose(potential(best.points, a, weights), best.value, atol=1e-12)
        for x in best.points:
            g = (np.maximum(a @ x, 0) * weights) @ a
            np.testing.assert_allclose(g, (g @ x) * x, atol=1e-10)


@pytest.mark.parametrize("J, d", [(5, 2), (6, 3)])
def test_table_of_regions(J, d):
    """The best point of each closed region: it lies there, and no sample of it is above."""
    a, omega = draw(40 + J, J, d)
    table, regions = maximise_potential(a, omega).candidates, sign_regions(a)
    x = points(0, 20_000, d)
    np.testing.assert_allclose(potential(table.points, a, omega), table.values, atol=1e-12)
    signs, v = np.sign(x @ a.T), potential(x, a, omega)
    for pattern, point, value in zip(regions.signs, table.points, table.values, strict=True):
        assert (pattern * (a @ point) >= -1e-9).all()
        assert v[(signs == pattern).all(axis=1)].max(initial=-np.inf) <= value + 1e-12


TIES = {  # directions, weights, value, number of points where all are isolated
    "equal kinks, on the boundary": ([[1, 0, 0], [-1, 0, 0]], [-1.0, -2.0], 0, None),
    "two points of the equator": ([[1, 0], [-1, 0]], [-1.0, -2.0], 0, 2),
    "a dead zone": (np.eye(3), [-1.0, -2.0, -3.0], 0, None),
    "a constant": (np.concatenate([np.eye(2), -np.eye(2)]), np.ones(4), 1, None),
    "no weights": (np.eye(2), np.zeros(2), 0, None),
    "a quarter of the equator": (np.eye(3), [1.0, 1.0, -1.0], 1, None),
    "kinks that cancel": ([[1, 0, 0], [-1, 0, 0], [0, 1, 0]], [2.0, 2.0, 1.0], 2, 2),
    "three units": (circle(3), np.ones(3), 1, 3),
    "an arc where all are active": (
        [[1, s * (k == 1), s * (k == 2), s * (k == 3)] for k in (1, 2, 3) for s in (1, -1)],
        np.repeat([3.0, 1.0, -1.0], 2), 3, None),
    "one unit in four dimensions": (np.eye(4)[:1], [-1.0], 0, None),
}  # fmt: skip


@pytest.mark.parametrize("case", TIES)
def test_maximisers_of_potentials_that_tie(case):
    a, omega, value, count = TIES[case]
    a, omega = unit(a), np.asarray(omega)
    for Q in (np.eye(a.shape[1]), turn(2, a.shape[1])):
        best = maximise_potential(a @ Q, omega)
        assert best.value == pytest.approx(value, abs=1e-12)
        assert not np.signbit(best.value) and count in (None, len(best.points))
        np.testing.assert_allclose(potential(best.points, a @ Q, omega), value, atol=1e-12)
        x = ascend(a @ Q, omega, points(3, 500, a.shape[1]))
        assert potential(x, a @ Q, omega).max() <= value + 1e-12


def test_rotation_permutation_repetition_idle_units_and_scale():
    rng, find = np.random.default_rng(5), maximise_potential
    a, omega = draw(7, 6, 3)
    best, Q, order = find(a, omega), turn(5, 3), rng.permutation(6)
    mixed = find(a[order] @ Q.T, omega[order])
    assert mixed.value == pytest.approx(best.value, rel=1e-12)
    np.testing.assert_allclose(mixed.points, best.points @ Q.T, atol=1e-9)
    more = [find(np.concatenate([a, a]), np.concatenate([0.3 * omega, 0.7 * omega]))]
    more.append(find(np.concatenate([a, -a]), np.concatenate([omega, 0 * omega])))
    for factor, scaled in ((1, more[0]), (1, more[1]), *(
        (factor, find(a, factor * omega)) for factor in (1e-12, 1e12)
    )):  # fmt: skip
        assert scaled.value == pytest.approx(factor * best.value, rel=1e-12)
        np.testing.assert_allclose(scaled.points, best.points, atol=1e-9)
    np.testing.assert_allclose(more[1].candidates.values, best.candidates.values, atol=1e-13)
