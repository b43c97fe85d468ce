"""Extremal points of ReLU potentials: against brute force, closed forms and symmetry."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from mfbook.landscape.arrangement import sign_regions
from mfbook.landscape.closed_forms import collinear_maximum, diagonal_maximum, nonnegative_maximum
from mfbook.landscape.degeneracy import is_analytic_potential, nondegenerate_normalised
from mfbook.landscape.extremal import maximise_potential, minimise_potential
from mfbook.measure import Measure
from mfbook.models.sphere import SphereEnergy
from mfbook.models.sphere.kernel import funk_hecke
from mfbook.space import Sphere


def unit(x):
    x = np.asarray(x, dtype=float)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def potential(x, a, omega):
    return np.maximum(x @ np.transpose(a), 0) ** 2 @ np.asarray(omega, dtype=float)


def draw(seed, J, d):
    rng = np.random.default_rng(seed)
    return unit(rng.normal(size=(J, d))), rng.normal(size=J)


def circle(n):
    t = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(t), np.sin(t)], axis=1)


def ascend(a, omega, starts, steps=700):
    """Ends of x <- grad(v / 2 + s |x|^2 / 2) / |...|, with s so that this function is convex."""
    x = starts
    for _ in range(steps):
        g = (np.maximum(x @ a.T, 0) * omega) @ a
        x = unit(g + np.abs(omega).sum() * x)
    return x


def in_some_piece(best, a, x, tolerance=1e-6):
    """Whether each x belongs to one of the pieces, by their definition."""
    inside = np.zeros(len(x), bool)
    for signs, span in zip(best.signs, best.spans, strict=True):
        if len(span) == 1:
            inside |= np.linalg.norm(x - span, axis=1) <= tolerance
            continue
        off = np.linalg.norm(x - (x @ span.T) @ span, axis=1)
        height = x @ a.T
        right = np.where(signs == 0, np.abs(height) <= tolerance, signs * height >= -tolerance)
        inside |= (off <= tolerance) & right.all(axis=1)
    return inside


# ---------------------------------------------------------------------------------------------
# regions


@pytest.mark.parametrize(
    "J, d",
    [(1, 2), (2, 2), (7, 2), (200, 2), (1, 3), (2, 3), (3, 3), (6, 3), (25, 3), (8, 4), (8, 5)]
    + [(2, 6), (6, 6), (9, 7)],
)
def test_number_of_regions_in_general_position(J, d):
    a, omega = draw(J, J, d)
    regions = sign_regions(a)
    assert len(regions) == 2 * sum(comb(J - 1, i) for i in range(d))
    assert len(np.unique(regions.signs, axis=0)) == len(regions)
    np.testing.assert_array_equal(np.sign(regions.points @ a.T), regions.signs)
    np.testing.assert_allclose(np.linalg.norm(regions.points, axis=1), 1)
    x, A = regions.points, regions.matrices(omega)
    np.testing.assert_allclose(
        np.einsum("ri,rij,rj->r", x, A, x), potential(x, a, omega), atol=1e-13
    )


def reflections(n):
    """Hyperplanes x_i = x_j: their regions are the orderings of the coordinates."""
    return [np.eye(n)[i] - np.eye(n)[j] for i, j in combinations(range(n), 2)]


def signed_reflections(n):
    """All hyperplanes x_i = 0 and x_i = +-x_j: regions are orderings with signs."""
    plus = [np.eye(n)[i] + np.eye(n)[j] for i, j in combinations(range(n), 2)]
    return [*np.eye(n), *reflections(n), *plus]


@pytest.mark.parametrize(
    "a, count",
    [
        ([[1, 0], [1, 0], [-1, 0], [0, 1]], 4),  # repeated and opposite directions
        ([[1, 0, 0], [-1, 0, 0]], 2),
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, -1, 0]], 8),  # planes through one axis
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 12),
        (reflections(3), 6),
        (reflections(4), 24),
        (reflections(5), 120),
        (signed_reflections(2), 8),
        (signed_reflections(3), 48),
        (signed_reflections(4), 384),
    ],
)
def test_number_of_regions_in_special_position(a, count):
    a = unit(a)
    regions = sign_regions(a)
    assert len(regions) == count
    assert np.abs(regions.points @ a.T).min() > 1e-3
    np.testing.assert_array_equal(np.sign(regions.points @ a.T), regions.signs)


# ---------------------------------------------------------------------------------------------
# the global search


@pytest.mark.parametrize("J", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("seed", range(3))
def test_extrema_on_the_circle(seed, J):
    a, omega = draw(100 + seed, J, 2)
    x = circle(40_000)
    v = potential(x, a, omega)
    # |v''| is at most 2 sum |omega|, so half a step misses the extremum by no more than this
    missed = np.abs(omega).sum() * (np.pi / 40_000) ** 2
    high, low = maximise_potential(a, omega), minimise_potential(a, omega)
    assert v.max() - 1e-12 <= high.value <= v.max() + missed
    assert v.min() - missed <= low.value <= v.min() + 1e-12
    for best, far in ((high, v.max() - v), (low, v - v.min())):
        np.testing.assert_allclose(potential(best.points, a, omega), best.value, atol=1e-12)
        # every point of the grid that is nearly best is near a maximiser
        assert in_some_piece(best, a, x[far <= missed], 1e-2).all()


@pytest.mark.parametrize("J, d", [(2, 3), (3, 3), (8, 3), (20, 3), (4, 4), (9, 4)])
def test_maximum_on_spheres_against_many_starts(J, d):
    a, omega = draw(10 * J + d, J, d)
    starts = unit(np.random.default_rng(1).normal(size=(100, d)))
    for weights in (omega, -omega, np.abs(omega), -np.abs(omega)):
        best = maximise_potential(a, weights)
        ends = ascend(a, weights, starts)
        v = potential(ends, a, weights)
        assert v.max() <= best.value + 1e-12
        assert v.max() == pytest.approx(best.value, abs=1e-5)
        assert in_some_piece(best, a, ends[v >= best.value - 1e-13], 1e-3).all()
        # isolated maximisers are stationary, and every point is one
        np.testing.assert_allclose(potential(best.points, a, weights), best.value, atol=1e-12)
        for x in best.points:
            g = (np.maximum(a @ x, 0) * weights) @ a
            np.testing.assert_allclose(g, (g @ x) * x, atol=1e-10)


def test_the_maximum_at_equal_kinks_is_found_on_the_boundary():
    # the top eigenvector of every region is outside it; the maximum 0 is where both are off
    best = maximise_potential(unit([[1, 0, 0], [-1, 0, 0]]), [-1.0, -2.0])
    assert best.value == 0 and best.dimensions == (1,)
    assert (best.signs == 0).all()
    np.testing.assert_allclose(best.points[:, 0], 0, atol=1e-12)
    on_circle = maximise_potential([[1.0, 0.0], [-1.0, 0.0]], [-1.0, -2.0])
    assert on_circle.kind == "points" and len(on_circle.points) == 2


def test_a_dead_zone_is_a_continuum():
    a = unit([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    best = maximise_potential(a, [-1.0, -2.0, -3.0])
    assert best.value == 0 and best.kind == "continuum" and best.dimensions == (2,)
    assert (best.signs == -1).all()
    high = minimise_potential(a, [1.0, 2.0, 3.0])
    assert high.value == 0 and high.dimensions == (2,)
    assert repr(best) == "Extremal(value=0, pieces=1, kind='continuum')"


def test_a_constant_potential_is_maximal_everywhere():
    a = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    best = maximise_potential(a, np.ones(4))
    assert best.value == pytest.approx(1) and best.dimensions == (1,) * 4
    assert in_some_piece(best, a, circle(720)).all()
    flat = maximise_potential(a, np.zeros(4))
    assert flat.value == 0 and in_some_piece(flat, a, circle(720)).all()


def test_an_arc_of_maximisers_inside_a_sphere():
    # v = x^2 + y^2 where both are positive: a quarter of the equator
    a = np.eye(3)
    best = maximise_potential(a, [1.0, 1.0, -1.0])
    assert best.value == pytest.approx(1) and best.dimensions == (1,)
    assert best.signs.tolist() == [[1, 1, 0]]
    arc = np.linspace(0, np.pi / 2, 50)
    arc = np.stack([np.cos(arc), np.sin(arc), 0 * arc], axis=1)
    assert in_some_piece(best, a, arc).all()


def test_ties_return_all_maximisers():
    a = unit([[1, 0, 0], [-1, 0, 0], [0, 1, 0]])
    best = maximise_potential(a, [2.0, 2.0, 1.0])
    # the two kinks cancel: v = 2 x^2 + max(y, 0)^2
    assert sorted(best.points[:, 0].round(9)) == [-1, 1]
    triangle = circle(3)
    assert len(maximise_potential(triangle, np.ones(3)).points) == 3


def test_rotation_permutation_repetition_and_scale_of_the_units():
    rng = np.random.default_rng(5)
    a, omega = draw(7, 6, 3)
    best = maximise_potential(a, omega)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = maximise_potential(a @ turn.T, omega)
    assert turned.value == pytest.approx(best.value, rel=1e-12)
    np.testing.assert_allclose(turned.points, best.points @ turn.T, atol=1e-9)
    order = rng.permutation(6)
    mixed = maximise_potential(a[order], omega[order])
    np.testing.assert_allclose(mixed.points, best.points, atol=1e-9)
    np.testing.assert_array_equal(mixed.signs, best.signs[:, order])
    twice = maximise_potential(np.concatenate([a, a]), np.concatenate([0.3 * omega, 0.7 * omega]))
    np.testing.assert_allclose(twice.points, best.points, atol=1e-9)
    for factor in (1e-12, 1e12):
        scaled = maximise_potential(a, factor * omega)
        assert scaled.value == pytest.approx(factor * best.value, rel=1e-12)
        np.testing.assert_allclose(scaled.points, best.points, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_table_of_regions_on_the_circle(seed):
    a, omega = draw(40 + seed, 5, 2)
    x = circle(50_000)
    signs, v = np.sign(x @ a.T), potential(x, a, omega)
    for sign, best in ((1, maximise_potential(a, omega)), (-1, minimise_potential(a, omega))):
        table = best.candidates
        assert sign * best.value == pytest.approx((sign * table.values).max(), abs=1e-12)
        for r, pattern in enumerate(table.regions.signs):
            inside = (signs == pattern).all(axis=1)
            # the end of an arc may be one step away, where v is Lipschitz
            assert (sign * v[inside]).max() <= sign * table.values[r] + 1e-12
            assert (sign * v[inside]).max() >= sign * table.values[r] - 1e-3
            assert potential(table.points[r], a, omega) == pytest.approx(table.values[r])
            assert (pattern * (a @ table.points[r]) >= -1e-9).all()
            equal = abs(table.values[r] - table.eigenvalues[r]) <= 1e-10
            assert table.inside[r] == (equal and (pattern * (a @ table.points[r]) > 1e-9).all())


def test_table_of_regions_on_the_sphere():
    a, omega = draw(3, 6, 3)
    table = maximise_potential(a, omega).candidates
    x = unit(np.random.default_rng(0).normal(size=(20_000, 3)))
    signs, v = np.sign(x @ a.T), potential(x, a, omega)
    assert len(table.regions) == 32
    for r, pattern in enumerate(table.regions.signs):
        sampled = v[(signs == pattern).all(axis=1)].max(initial=-np.inf)
        assert sampled <= table.values[r] + 1e-12
        assert table.values[r] <= table.eigenvalues[r] + 1e-12


def test_an_energy_and_its_diracs():
    a, omega = draw(2, 3, 3)
    F = SphereEnergy(4.0, a, omega)
    best = maximise_potential(F)
    assert best.value == maximise_potential(a, omega).value
    energy = F(Measure.dirac(best.points[0]))
    assert energy == pytest.approx(1 / 8 + best.value / 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert F(Measure(unit(rng.normal(size=(4, 3))))) <= energy


# ---------------------------------------------------------------------------------------------
# closed forms


def same(closed, search, a):
    assert closed.value == pytest.approx(search.value, abs=1e-12)
    assert closed.kind == search.kind
    assert in_some_piece(closed, a, search.points).all()
    assert in_some_piece(search, a, closed.points).all()
    assert sorted(set(closed.dimensions)) == sorted(set(search.dimensions))


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize(
    "signs, omega, value, points",
    [
        ([1, -1, 1], [1.0, 4.0, 2.0], 4.0, 1),
        ([1, -1, 1], [1.0, 3.0, 2.0], 3.0, 2),  # a tie
        ([1, 1], [2.0, -1.0], 1.0, 1),
        ([1, -1], [-1.0, -2.0], 0.0, None),  # the equator
        ([1, 1], [-1.0, -2.0], 0.0, None),  # a half-sphere
        ([1, -1], [-1.0, 0.0], 0.0, None),
        ([1, -1], [0.0, 0.0], 0.0, None),  # everything
    ],
)
def test_collinear(signs, omega, value, points, d):
    a1 = unit(np.arange(1.0, d + 1))
    closed = collinear_maximum(a1, signs, omega)
    assert closed.value == value
    if points is not None:
        assert len(closed.points) == points and closed.kind == "points"
    a = np.outer(signs, a1)
    same(closed, maximise_potential(a, omega), a)


@pytest.mark.parametrize(
    "omega, d",
    [
        ([1.0, 3.0, 2.0], None),
        ([1.0, 3.0], 4),
        ([3.0, 3.0, 1.0], None),
        ([2.0, 2.0, 2.0], None),
        ([-1.0, 2.0, -7.0], 3),
        ([5.0], 2),
    ],
)
def test_diagonal(omega, d):
    closed = diagonal_maximum(omega, d)
    a = np.eye(d or len(omega))[: len(omega)]
    same(closed, maximise_potential(a, omega), a)
    assert closed.kind == ("points" if omega.count(max(omega)) == 1 else "continuum")


@pytest.mark.parametrize("J, d", [(1, 2), (3, 2), (2, 3), (5, 3), (4, 4), (3, 5)])
def test_nonnegative(J, d):
    rng = np.random.default_rng(J + d)
    a, omega = unit(rng.random((J, d))), rng.random(J) + 0.1
    closed = nonnegative_maximum(a, omega)
    assert (closed.points >= 0).all() and closed.kind == "points"
    top = np.linalg.svd(np.sqrt(omega)[:, None] * a)[1][0]
    assert closed.value == pytest.approx(top**2)
    same(closed, maximise_potential(a, omega), a)


def test_nonnegative_with_blocks_that_tie():
    a = unit([[1, 2, 0, 0], [2, 1, 0, 0], [0, 0, 1, 2], [0, 0, 2, 1]])
    closed = nonnegative_maximum(a, np.ones(4))
    assert closed.dimensions == (1,)
    same(closed, maximise_potential(a, np.ones(4)), a)
    single = nonnegative_maximum(a, [2.0, 2.0, 1.0, 1.0])
    assert single.kind == "points" and single.signs.tolist() == [[1, 1, 0, 0]]
    same(single, maximise_potential(a, [2.0, 2.0, 1.0, 1.0]), a)


# ---------------------------------------------------------------------------------------------
# conditions on the weights


def is_quadratic(a, omega):
    """Whether some quadratic form equals v at many points."""
    d = a.shape[1]
    x = unit(np.random.default_rng(0).normal(size=(20 * d * d, d)))
    monomials = np.stack([x[:, i] * x[:, j] for i in range(d) for j in range(i, d)], axis=1)
    v = potential(x, a, omega)
    fit = monomials @ np.linalg.lstsq(monomials, v)[0]
    return np.abs(fit - v).max() <= 1e-10


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("cancel", [True, False])
def test_analytic_potentials_are_quadratic_forms(cancel, d):
    a, omega = draw(d, 4, d)
    # each line three times: c with w, -c with w - 0.3 and with 0.3
    a = np.concatenate([a, -a, -a])
    omega = np.concatenate([omega, omega - 0.3, np.full(4, 0.3 if cancel else 0.31)])
    assert is_analytic_potential(a, omega) is cancel
    assert is_quadratic(a, omega) == cancel
    assert is_analytic_potential(a, 0 * omega)
    if cancel:
        x = unit(np.random.default_rng(1).normal(size=(50, d)))
        np.testing.assert_allclose(potential(x, a, omega), ((x @ a.T) ** 2 @ omega) / 2, atol=1e-12)


def test_tolerance_of_analyticity():
    a = unit([[1, 0], [-1, 1e-6]])
    assert not is_analytic_potential(a, [1.0, 1.0])
    assert is_analytic_potential(a, [1.0, 1.0], tolerance=1e-5)


def test_normalised_conditions_differ_both_ways():
    corner = nondegenerate_normalised(np.eye(2), [1.0, -1.0])
    at = corner.regions.signs.tolist().index([1, -1])
    assert corner.difference_is_multiple[at] and not corner.active_is_multiple[at]
    # the condition on active units holds on all regions, the one with signs does not
    star = nondegenerate_normalised(circle(3), [1.0, 1.0, -1.0])
    assert star.active_holds and not star.holds and not star.constant
    # and the other way round: a dead zone has A_C = 0
    dead = nondegenerate_normalised(np.eye(2), [1.0, 2.0])
    assert dead.holds and not dead.active_holds and not dead.constant


def test_a_constant_potential_breaks_all_conditions_and_keeps_the_uniform_measure():
    a, omega = np.concatenate([np.eye(2), -np.eye(2)]), np.full(4, 0.7)
    report = nondegenerate_normalised(a, omega)
    assert report.constant and not report.holds and not report.active_holds
    F = SphereEnergy(2.0, a, omega, normalised=True)
    uniform = Measure(circle(64))
    assert np.abs(F.velocity(circle(64), uniform)).max() <= 1e-14
    # cancelling kinks alone are not enough
    assert not nondegenerate_normalised(a, [0.7, 0.8, 0.7, 0.8]).constant


@pytest.mark.parametrize("beta", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_no_measure_has_a_gaussian_normalisation(beta, spread):
    # Z = c exp(-beta/2 x^T A x) on the circle, with eigenvalues of A that differ, asks of mu
    # Fourier coefficients I_k(beta spread / 4) / I_2k(beta), relative to the mean; those of a
    # probability are at most 1
    k = np.arange(2000)
    needed = funk_hecke(beta * spread / 4, 2, k, log=True) - funk_hecke(beta, 2, 2 * k, log=True)
    assert needed.max() > needed[0] + 1


# ---------------------------------------------------------------------------------------------
# bad input

A, OMEGA = np.eye(2), np.ones(2)


@pytest.mark.parametrize(
    "call, error, name",
    [
        (lambda: sign_regions([[1.0, 1.0]]), ValueError, "a"),
        (lambda: sign_regions([[1.0], [1.0]]), ValueError, "a"),
        (lambda: sign_regions([1.0, 0.0]), ValueError, "a"),
        (lambda: sign_regions([[np.nan, 0.0]]), ValueError, "a"),
        (lambda: sign_regions(draw(0, 60, 12)[0]), ValueError, "a"),
        (lambda: sign_regions(A).matrices([1.0]), ValueError, "omega"),
        (lambda: maximise_potential(A, [1.0]), ValueError, "omega"),
        (lambda: maximise_potential(A), TypeError, "omega"),
        (lambda: maximise_potential(2 * A, OMEGA), ValueError, "a"),
        (lambda: maximise_potential(draw(0, 40, 9)[0], np.ones(40)), ValueError, "a"),
        (lambda: maximise_potential(SphereEnergy(1.0)), ValueError, "a"),
        (lambda: maximise_potential(SphereEnergy(1.0, A, OMEGA, "gelu")), ValueError, "a"),
        (lambda: maximise_potential(SphereEnergy(1.0, A, OMEGA, bias=OMEGA)), ValueError, "a"),
        (lambda: minimise_potential(A, [1.0, np.inf]), ValueError, "omega"),
        (lambda: collinear_maximum([2.0, 0.0], [1], [1.0]), ValueError, "a1"),
        (lambda: collinear_maximum([1.0], [1], [1.0]), ValueError, "a1"),
        (lambda: collinear_maximum([1.0, 0.0], [1, 0], [1.0, 1.0]), ValueError, "signs"),
        (lambda: collinear_maximum([1.0, 0.0], [1, 1], [1.0]), ValueError, "omega"),
        (lambda: diagonal_maximum([-1.0, 0.0]), ValueError, "omega"),
        (lambda: diagonal_maximum([1.0, 1.0, 1.0], d=2), ValueError, "d"),
        (lambda: nonnegative_maximum([[0.6, -0.8]], [1.0]), ValueError, "a"),
        (lambda: nonnegative_maximum(A, [1.0, 0.0]), ValueError, "omega"),
        (lambda: is_analytic_potential(A, OMEGA, 0.0), ValueError, "tolerance"),
        (lambda: nondegenerate_normalised(A, [1.0]), ValueError, "omega"),
    ],
)
def test_bad_input(call, error, name):
    with pytest.raises(error, match=f"^{name}: expected"):
        call()


# ---------------------------------------------------------------------------------------------
# edges: ties, zeros, repeated lines


def points(seed, n, d):
    return Sphere().sample(seed, n, d)


def on_circle(*angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_table_of_regions_with_units_on_one_line():
    """Best candidates of each closed region, for units in both directions of a line."""
    rng = np.random.default_rng(5)
    a = points(rng, 4, 3)
    a = np.concatenate([-a[:2], a, -a[3:]])
    omega = rng.normal(size=len(a))
    best = maximise_potential(a, omega)
    table = best.candidates
    x = points(rng, 20_000, 3)
    signs, values = np.sign(x @ a.T), potential(x, a, omega)
    assert best.value >= values.max() and best.value == pytest.approx(table.values.max())
    np.testing.assert_allclose(potential(table.points, a, omega), table.values, atol=1e-12)
    for cell, at, value, inside in zip(
        table.regions.signs, table.points, table.values, table.inside, strict=True
    ):
        assert (cell * (a @ at) >= -1e-9).all()
        assert inside == (cell * (a @ at) > 1e-9).all()
        mine = values[(signs == cell).all(axis=1)]
        if len(mine):
            assert mine.max() <= value + 1e-12


def test_an_arc_of_maximisers_in_four_dimensions():
    """v = 3 (x_1^2 + x_2^2) + x_3^2 - x_4^2 where all units are active, in some frame."""
    q = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]
    a = unit([q[0] + s * q[k] for k in (1, 2, 3) for s in (1, -1)])
    omega = np.repeat([3.0, 1.0, -1.0], 2)
    best = maximise_potential(a, omega)
    assert best.value == pytest.approx(3, rel=1e-12)
    assert best.kind == "continuum" and best.dimensions == (1,)
    (point,), (span,) = best.points, best.spans
    np.testing.assert_allclose(span.T @ span, q[:2].T @ q[:2], atol=1e-12)
    np.testing.assert_allclose(span.T @ (span @ point), point, atol=1e-12)
    assert (a @ point > 0).all() and (best.signs == 1).all()
    assert potential(best.points, a, omega) == pytest.approx([3.0])
    single = maximise_potential(a, omega + np.arange(6))
    assert single.dimensions == (0,)
    np.testing.assert_array_equal(single.spans[0], single.points)


def test_zero_weights_and_signs_of_zero():
    zero = maximise_potential(np.eye(2), [0.0, 0.0])
    assert zero.value == 0 and zero.kind == "continuum"
    low = minimise_potential(np.eye(2), [2.0, 1.0])
    assert (low.candidates.values == 0).any()
    for table in (low.candidates, maximise_potential(np.eye(2), [-2.0, -1.0]).candidates):
        for values in (table.values, table.eigenvalues):
            assert not np.signbit(values[values == 0]).any()
    assert not np.signbit([low.value, maximise_potential(np.eye(2), [-2.0, -1.0]).value]).any()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_ties_are_relative_to_the_weights(size):
    for find in (diagonal_maximum, lambda omega: nonnegative_maximum(np.eye(2), omega)):
        tied = find(size * np.array([0.3, 0.1 + 0.2]))
        assert tied.kind == "continuum" and tied.dimensions == (1,)
        np.testing.assert_allclose(tied.points, [[np.sqrt(0.5)] * 2], rtol=1e-15)
        assert find(size * np.array([0.3, 0.3 - 1e-9])).kind == "points"
        assert find(size * np.array([0.1, 0.3])).points.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("seed", range(4))
def test_constant_potentials_of_any_frame(seed):
    """v = |x|^2: the one piece is all of the sphere; its point has the signs that are stated."""
    a = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    a = np.concatenate([a, -a])
    best = maximise_potential(a, np.ones(6))
    assert best.value == pytest.approx(1, rel=1e-12)
    assert set(best.dimensions) == {2}
    np.testing.assert_allclose(np.linalg.norm(best.points, axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.sign(best.points @ a.T), best.signs)


def test_kinks_cancel_relative_to_all_weights():
    a = [[1.0, 0.0], [-1.0, 0.0]]
    assert is_analytic_potential(a, [1e3, 1e3 + 1e-6])
    assert not is_analytic_potential(a, [1e3, 1e3 + 1e-5])
    assert not is_analytic_potential(a, [1e-3, 1e-3 + 1e-9])
    # a jump of 2 beside weights of 4
    assert is_analytic_potential(a, [3.0, 1.0], tolerance=0.5)
    assert not is_analytic_potential(a, [3.0, 1.0], tolerance=0.499)
    # both conditions see the sizes of the weights
    sizes = nondegenerate_normalised([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 2.0, 3.0])
    same = [len(set(cell)) == 1 for cell in sizes.regions.signs]
    assert sizes.difference_is_multiple.tolist() == same == sizes.active_is_multiple.tolist()
    # no weight, no kink: the potential is constant
    none = nondegenerate_normalised(np.eye(2), [0.0, 0.0])
    assert none.constant and not none.holds and not none.active_holds
    assert none.difference_is_multiple.all() and none.active_is_multiple.all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_conditions_do_not_depend_on_the_size_of_the_weights(size):
    a = on_circle(0.0, 2 * np.pi / 3, 4 * np.pi / 3)
    report = nondegenerate_normalised(a, size * np.array([1.0, 1.0, -1.0]))
    assert not report.holds and report.active_holds and not report.constant
    for cell, difference, active in zip(
        report.regions.signs,
        report.difference_is_multiple,
        report.active_is_multiple,
        strict=True,
    ):
        for weights, found in ((cell, difference), (cell > 0, active)):
            A = sum(w * s * np.outer(v, v) for w, s, v in zip([1, 1, -1], weights, a, strict=True))
            assert found == (np.abs(A - np.trace(A) / 2 * np.eye(2)).max() < 1e-12)
