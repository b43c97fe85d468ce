"""Sums in blocks, regions and extrema on the sphere: exact counts, nothing lost at a seam."""

from importlib import import_module
from math import comb

import numpy as np
import pytest
from scipy.special import ive

from mfbook.landscape import arrangement as planes
from mfbook.landscape import maximise_potential, minimise_potential, sign_regions
from mfbook.models.sphere import forces
from mfbook.space import Sphere

extremal = import_module("mfbook.landscape.extremal")
SPHERE = Sphere()


def on_circle(*angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# ---------------------------------------------------------------------------------------------
# sums over pairs


@pytest.mark.parametrize("beta", [1e-9, 0.3, 1.0, 30.0, 1e4])
def test_coefficients_are_those_of_bessel_up_to_rounding(beta):
    c = forces.fourier(beta)
    terms = [(1 + (k > 0)) * ive(k, beta) for k in range(forces.terms_needed(beta))]
    small = [t * max(1, k / beta) < 1e-17 for k, t in enumerate(terms)]
    assert len(c) == max(small.index(True), 2)
    np.testing.assert_array_equal(c, terms[: len(c)])
    # room for them, but hardly more
    assert len(c) < forces.terms_needed(beta) <= 1.15 * len(c) + 25


class Counting:
    """NumPy, with the shapes of exponentials noted."""

    def __init__(self):
        self.shapes = []

    def __getattr__(self, name):
        return getattr(np, name)

    def exp(self, e, out):
        self.shapes.append(e.shape)
        return np.exp(e, out=out)


@pytest.mark.parametrize("atoms", [1, 7, 100, 256, 300])
def test_pairs_come_in_the_largest_blocks_that_fit(monkeypatch, atoms):
    x, y = SPHERE.sample(0, 50, 3), SPHERE.sample(1, atoms, 3)
    w = np.full(atoms, 1 / atoms)
    whole = forces.direct(x, y, w, 2.0)
    monkeypatch.setattr(forces, "BLOCK", 16)
    monkeypatch.setattr(forces, "np", counting := Counting())
    found = forces.direct(x, y, w, 2.0)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-13)
    np.testing.assert_allclose(found[1], whole[1], atol=1e-13)
    rows = [n for n, m in counting.shapes if m == atoms]
    assert sum(rows) == 50 and len(rows) == len(counting.shapes)
    most = max(rows)
    # beyond 16^2 pairs by less than one row
    assert (most - 1) * atoms <= 256 and (most == 50 or most * atoms > 256)
    assert rows[:-1] == [most] * (len(rows) - 1)


def test_each_pair_of_blocks_is_visited_once(monkeypatch):
    monkeypatch.setattr(forces, "BLOCK", 4)
    monkeypatch.setattr(forces, "np", counting := Counting())
    y = SPHERE.sample(0, 10, 3)
    forces.symmetric(y, np.full(10, 0.1), 2.0)
    assert counting.shapes == [(4, 4), (4, 4), (4, 2), (4, 4), (4, 2), (2, 2)]


def test_powers_are_held_in_small_or_in_large_pieces(monkeypatch):
    monkeypatch.setattr(forces, "CHUNKS", (8, 20))
    for n, size in ((5, 8), (16, 8), (128, 8), (129, 20), (140, 20)):
        z = on_circle(*np.arange(n))
        parts = [(part.start, part.stop) for part, _ in forces._chunks(z, 5)]
        assert parts == [(i, min(i + size, n)) for i in range(0, n, size)]
        tables = [(p.low.shape, p.s * p.t >= 5) for _, p in forces._chunks(z, 5)]
        assert all(fits and s[1] <= size for s, fits in tables)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9, 10, 17])
def test_tables_of_powers_are_just_large_enough(count):
    z = np.exp(1j * np.array([0.3, 1.1, -2.0]))
    table = forces.Powers(z, count)
    # hardly more rows than a square of them, and no row in vain
    assert table.s * table.t >= count > table.s * (table.t - 1) and table.s <= count**0.5 + 1
    w = np.array([0.2, 0.3, 0.5])
    wanted = [(w * z**k).sum() for k in range(table.s * table.t)]
    np.testing.assert_allclose(table.moments(w), wanted, atol=1e-14)


def test_sums_at_points_and_at_the_particles():
    angles, w, at = np.array([0.3, 1.1, -2.0]), np.array([0.2, 0.3, 0.5]), np.array([0.7, 3.0])
    sums = forces.CircleSums.of(on_circle(*angles), w, 2.0)
    for points, own in ((at, {}), (angles, {}), (angles, {"own": True})):
        kernel = w * np.exp(2 * (np.cos(points[:, None] - angles) - 1))
        turn = np.sin(angles - points[:, None])
        wanted = [kernel.sum(axis=1), (kernel * turn).sum(axis=1)]
        np.testing.assert_allclose(sums(on_circle(*points), "Zt", **own), wanted, atol=1e-14)
        plain = forces.direct(on_circle(*points), on_circle(*angles), w, 2.0)[0]
        np.testing.assert_allclose(plain, wanted[0], rtol=1e-13)


# ---------------------------------------------------------------------------------------------
# regions and extrema


@pytest.mark.parametrize(("d", "J"), [(3, 5), (4, 6)])
def test_points_are_inside_their_regions(d, J):
    """General position, and hyperplanes through a common ray: the regions differ, none is lost."""
    rng = np.random.default_rng(d)
    a = SPHERE.sample(rng, J, d)
    a[:d, -1] = 0  # all through the last axis
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    regions = sign_regions(a)
    np.testing.assert_array_equal(np.sign(regions.points @ a.T), regions.signs)
    np.testing.assert_allclose(np.linalg.norm(regions.points, axis=1), 1, rtol=1e-14)
    x = SPHERE.sample(rng, 20_000, d)
    seen = np.unique(np.sign(x @ a.T).astype(np.int8), axis=0)
    known = {tuple(s) for s in regions.signs}
    assert len(known) == len(regions) and {tuple(s) for s in seen} <= known
    np.testing.assert_array_equal(regions.signs, sorted(known))


def test_regions_are_bounded_before_they_are_listed(monkeypatch):
    """By their number in general position, at different lines."""
    counts = []
    monkeypatch.setattr(planes, "refuse_many", counts.append)
    for J, d in ((1, 2), (4, 2), (5, 3), (7, 3), (6, 4)):
        a = SPHERE.sample(J, J, d)
        regions = sign_regions(np.concatenate([a, -a[:1]]))
        assert counts.pop() == len(regions) and not counts


def test_faces_in_general_position():
    for L in range(2, 8):
        assert extremal._count_faces(L, 2) == 4 * L  # sectors and rays
        if L >= 3:
            rays, arcs = 2 * comb(L, 2), 2 * L * (L - 1)
            # Euler's formula on the sphere
            assert extremal._count_faces(L, 3) == rays + arcs + (2 - rays + arcs)
    for d in range(2, 7):
        assert extremal._count_faces(d, d) == 3**d - 1  # signs of coordinates but for the origin
        for L in range(1, d):
            assert extremal._count_faces(L, d) >= 3**L


def test_extrema_do_not_depend_on_idle_units_or_blocks(monkeypatch):
    rng = np.random.default_rng(3)
    a, omega = SPHERE.sample(rng, 4, 3), rng.normal(size=4)
    for call in (maximise_potential, minimise_potential):
        one, idle = call(a, omega), call(np.concatenate([a, -a]), [*omega, 0, 0, 0, 0])
        with monkeypatch.context() as patch:
            patch.setattr(extremal, "BLOCK", len(one.candidates.regions) - 1)
            blocks = call(a, omega)
        assert one.value == pytest.approx(idle.value, rel=1e-13)
        np.testing.assert_allclose(one.points, idle.points, atol=1e-12)
        for other in (idle.candidates, blocks.candidates):
            np.testing.assert_array_equal(one.candidates.regions.signs, other.regions.signs[:, :4])
            np.testing.assert_allclose(one.candidates.values, other.values, atol=1e-13)
            np.testing.assert_array_equal(one.candidates.inside, other.inside)


def test_zero_has_no_sign():
    for call, omega in ((maximise_potential, [-2.0, -1.0]), (minimise_potential, [2.0, 1.0])):
        best = call([[1.0, 0.0], [0.0, 1.0]], omega)
        table = best.candidates
        zeros = [best.value, *table.values, *table.eigenvalues]
        zeros = [zero for zero in zeros if zero == 0]
        assert best.value == 0 and len(zeros) >= 3 and not np.signbit(zeros).any()


def test_the_series_is_used_where_it_costs_less():
    """For n points and m atoms: n m exponentials against K coefficients of each, and a start."""
    beta = 1e-9
    assert forces.terms_needed(beta) == 20
    # n m - 40 (n + m) = (n - 40)(m - 40) - 1600 is 4096 for the first pair, 4097 for the second
    assert not forces.fast_on_circle(104, 129, beta)
    assert forces.fast_on_circle(67, 251, beta)
    assert forces.terms_needed(100.0) == 92 + 20
