"""The parts of the minimiser on the circle, each against a statement of its own.

The result is certified by its gap, so that a wrong part only makes it slower or the gap wider.
"""

from itertools import chain, combinations, repeat

import numpy as np
import pytest
from scipy.special import ive

from mfbook.equilibria import minimiser
from mfbook.equilibria.minimiser import EFFORT, NEGLIGIBLE, minimise_on_circle, simplex_qp
from mfbook.models.activations import Activation
from mfbook.models.sphere import SphereEnergy, forces
from mfbook.models.sphere.on_circle import (
    CircleLandscape,
)
from mfbook.models.sphere.search import (
    CircleVariation,
    unit_vectors,
)

TURN = 2 * np.pi


def problem(beta, *args, **options):
    return minimiser._Problem(SphereEnergy(beta, *args, **options))


def gelu(beta=3.0, size=1.0):
    directions = unit_vectors(np.array([0.4, 2.5]))
    return SphereEnergy(beta, directions, size * np.array([1.0, -0.7]), "gelu", bias=[0.3, -0.2])


def spy(monkeypatch, name, function=None):
    """Record copies of the arguments of one function, and replace it if asked to."""
    calls, function = [], function or getattr(minimiser, name)

    def recorded(*args, **options):
        calls.append([np.copy(a) if isinstance(a, np.ndarray) else a for a in args])
        return function(*args, **options)

    monkeypatch.setattr(minimiser, name, recorded)
    return calls


def energy(parts, theta, w):
    """E up to its constant, by double sums of the kernel (exp(beta (<x, By> - s)) - 1) / beta."""
    B = np.eye(2) if parts.B is None else parts.B
    s, x, units = np.abs(np.linalg.eigvalsh(B)).max(), unit_vectors(theta), parts.units
    total = 0.0
    for i in range(len(w)):
        for j in range(len(w)):
            total += w[i] * w[j] * np.expm1(parts.beta * (x[i] @ B @ x[j] - s)) / parts.beta / 2
        for a, omega, b in zip(units.a, units.omega, units.bias, strict=True):
            total += w[i] * omega * units.activation.primitive(x[i] @ a + b) / 2
    return total


# ------------------------------------------------------------------------------ quadratic program


def by_supports(G, c):
    """The minimum over the simplex: the best among the critical points of all faces."""
    n, best = len(c), (np.inf, ())
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            i = list(support)
            K = np.block([[G[np.ix_(i, i)], np.ones((size, 1))], [np.ones((1, size)), 0]])
            w = np.zeros(n)
            w[i] = np.linalg.solve(K, [*-c[i], 1.0])[:size]
            if w.min() >= 0:
                best = min(best, (w @ G @ w / 2 + c @ w, tuple(w)))
    return np.array(best[1])


def instance(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return A @ A.T + 0.1 * np.eye(n), rng.normal(size=n) * 3, rng.dirichlet(np.ones(n))


# in the last two the multiplier rises although the energy falls
@pytest.mark.parametrize(
    ("seed", "n"), [(s, n) for s in range(4) for n in (1, 2, 4, 6)] + [(39, 3), (141, 3)]
)
def test_quadratic_program_against_all_supports(seed, n):
    G, c, start = instance(seed, n)
    expected, kept = by_supports(G, c), start.copy()
    for w in (start, np.eye(n)[0], np.eye(n)[-1]):
        np.testing.assert_allclose(simplex_qp(G, c, w), expected, atol=1e-12)
        for size in (1e-24, 1e12):
            np.testing.assert_allclose(simplex_qp(size * G, size * c, w), expected, atol=1e-12)
        # a constant, in c or in G, changes nothing on the simplex
        np.testing.assert_allclose(simplex_qp(G, c + 50, w), expected, atol=1e-11)
        np.testing.assert_allclose(simplex_qp(G - 50, c, w), expected, atol=1e-11)
    assert np.array_equal(start, kept)


def faces(G, c, w):
    """Supports that an active-set method solves for, the solutions by the inverse of G's part."""
    w, free, supports = w.copy(), set(np.flatnonzero(w > 0).tolist()), []

    def solve():
        i = sorted(free)
        supports.append(i)
        inverse = np.linalg.inv(G[np.ix_(i, i)])
        target = np.zeros(len(c))
        target[i] = inverse @ ((1 + inverse.sum(axis=0) @ c[i]) / inverse.sum() - c[i])
        return target

    while True:
        target = solve()
        while any(target[i] < 0 for i in free):
            times = {i: w[i] / (w[i] - target[i]) for i in free if target[i] < 0}
            first = min(times, key=times.__getitem__)
            w = (1 - times[first]) * w + times[first] * target
            w[first] = 0
            free.remove(first)
            target = solve()
        w = target
        slope = G @ w + c
        i = min(range(len(c)), key=lambda i: np.inf if i in free else slope[i])
        if i in free or slope[i] >= w @ slope - 1e-12:
            return supports
        free.add(i)


@pytest.mark.parametrize("n", (3, 8, 12))
def test_quadratic_program_walks_from_face_to_face(monkeypatch, n):
    """Walks that start inside lose one weight after the other; those from a corner gain them."""
    calls = spy(monkeypatch, "_equality")
    for seed in range(12):
        G, c, start = instance(seed, n)
        for w in (start, np.full(n, 1 / n), np.eye(n)[1]):
            calls.clear()
            simplex_qp(G, c, w)
            assert [np.flatnonzero(call[2]).tolist() for call in calls] == faces(G, c, w)


def test_weights_that_end_together_are_dropped_together(monkeypatch):
    """Exact numbers: on all three atoms the target is (5, -2, -2)."""
    calls = spy(monkeypatch, "_equality")
    c, w = np.array([-7.0, 0.0, 0.0]), np.array([0.5, 0.25, 0.25])
    assert simplex_qp(np.eye(3), c, w).tolist() == [1, 0, 0]
    assert [call[2].tolist() for call in calls] == [[True] * 3, [True, False, False]]


def test_a_weight_whose_target_is_zero_stays_free(monkeypatch):
    calls = spy(monkeypatch, "_equality")
    assert simplex_qp(np.eye(2), np.array([0.0, 1.0]), np.array([0.5, 0.5])).tolist() == [1, 0]
    assert len(calls) == 1


@pytest.mark.parametrize("size", (1e-6, 1.0, 1e6))
def test_quadratic_program_ends_on_nearly_equal_atoms(monkeypatch, size):
    """Sixty atoms within a tenth of the kernel's length: in floating point G is singular."""
    calls = spy(monkeypatch, "_equality")
    t = np.linspace(0, 0.1, 60)
    G, c = size * np.exp(-((t[:, None] - t) ** 2) / 2), size * 1e-3 * np.cos(40 * t)
    w = simplex_qp(G, c, np.eye(60)[0])
    slope = G @ w + c
    assert slope.min() >= w @ slope - 1e-12 * size
    assert len(calls) < 100


@pytest.mark.parametrize("size", (1e-3, 1.0, 1e3))
@pytest.mark.parametrize(
    ("multiplier", "weight", "solved"),
    [(-0.9e-15, 0.5, 1), (-1.1e-15, 0.5, 2), (-1e-3, 0.9e-14, 2), (-1e-3, 1.1e-14, 3)],
)
def test_quadratic_program_ends_where_rounding_begins(
    monkeypatch, size, multiplier, weight, solved
):
    """At multipliers of -1e-15 and falls of the energy by 1e-17, both of the largest entry.

    The solutions are given: all weight on the first atom, then some on the second. The energy is
    the product with the multiplier; where it matters the third atom always asks for weight.
    """
    solutions = iter([[1.0, 0.0, 0.0], [1.0, weight, 0.0], [1.0, 0.0, 0.0]])
    calls = spy(monkeypatch, "_equality", lambda G, c, free: np.array(next(solutions)))
    c = size * np.array([0.0, multiplier, 2 * multiplier * (weight < 0.1)])
    simplex_qp(np.diag([0.0, 0.0, size]), c, np.eye(3)[0], maxiter=3)
    assert len(calls) == solved


# ------------------------------------------------------------------------------------ the density


def coefficients(F, count):
    """Of half the potential as sum_k Re(v_k exp(i k theta)), by a rule exact to rounding."""
    t = TURN * np.arange(600) / 600
    k = np.arange(count)
    v = F.potential(unit_vectors(t)) / 2 @ np.exp(-1j * np.outer(t, k)) / 300
    return np.where(k == 0, v / 2, v)


WEAK = SphereEnergy(100.0, [[0.6, 0.8]], [2e-4], "tanh", bias=[0.5])


def test_the_density_has_the_coefficients_that_make_the_variation_constant():
    parts = minimiser._Problem(WEAK)
    theta, w = minimiser._density(parts, 1e-13)
    kernel = len(forces.fourier(100.0)) - 1
    v = coefficients(WEAK, 90)
    degree = len(theta) - kernel - 5
    assert 5 < degree < 60
    k = np.arange(1, degree + 1)
    # of the probability density: 1 + sum_k Re(rho_k exp(i k theta)), and rho_k = 2 times its moment
    moments = 2 * w @ np.exp(-1j * np.outer(theta, k))
    expected = -2 * 100.0 * v[k] / (2 * ive(k, 100.0))
    np.testing.assert_allclose(moments, expected, atol=1e-10)
    # equally spaced atoms stand for a density if no product of kernel and density is aliased
    np.testing.assert_allclose(theta, TURN / len(theta) * np.arange(len(theta)), atol=1e-14)
    assert kernel + degree < len(theta) < kernel + degree + 8
    t = np.linspace(0, TURN, 1000)
    assert np.ptp(parts.at(unit_vectors(theta), w)(t)[0]) <= 1e-13
    assert w.sum() == pytest.approx(1, abs=1e-15) and w.min() > 0


@pytest.mark.parametrize("degree", (2, 5, 8))
@pytest.mark.parametrize("by", ("tolerance", "rounding"))
def test_the_series_is_cut_where_the_rest_is_negligible(degree, by):
    """Negligible: an eighth of the tolerance, or 1e-14 times the scale."""
    tail = np.abs(coefficients(WEAK, 40))[degree + 1 :].sum()
    kernel = len(forces.fourier(100.0))
    for factor, expected in ((1.001, degree), (0.999, degree + 1)):
        parts, tolerance = minimiser._Problem(WEAK), 1e-16
        if by == "tolerance":
            tolerance = 8 * tail * factor
        else:
            parts.scale = 1e14 * tail * factor
        assert len(minimiser._density(parts, tolerance)[0]) == kernel + expected + 4


def test_no_density_where_there_is_none():
    assert minimiser._density(problem(2.0, B=[[2.0, 0.0], [0.0, 1.0]]), 1e-13) is None
    assert minimiser._density(problem(2.0, [[1.0, 0.0]], [1e-3], "relu"), 1e-13) is None
    # without units there is no kink, whatever the activation
    theta, w = minimiser._density(problem(2.0, activation="relu"), 1e-13)
    assert np.ptp(w) == 0 and w.sum() == pytest.approx(1)
    assert len(w) == len(forces.fourier(2.0)) + 4
    # the kernel has no coefficient of the degree that the potential has
    F = SphereEnergy(1e-3, [[0.6, 0.8]], [1e-3], "tanh", bias=[0.5])
    degree = len(forces.fourier(1e-3))
    tail = np.abs(coefficients(F, 40))[degree + 1 :].sum()
    assert minimiser._density(minimiser._Problem(F), 8 * 1.001 * tail) is None


@pytest.mark.parametrize("angle", np.linspace(0, 0.2, 5))
def test_a_density_that_is_negative_only_between_the_atoms_is_refused(angle):
    """A linear unit: the density is 1 + A cos(2 (theta - alpha)), and A = 1 is the limit."""
    beta = 2.0
    limit = 2 * ive(2, beta) * 2 / beta
    a = [[np.cos(angle), np.sin(angle)]]
    for A, is_density in ((0.999, True), (1.001, False)):
        for sign in (1, -1):
            parts = problem(beta, a, [sign * A * limit], "linear")
            assert (minimiser._density(parts, 1e-13) is not None) == is_density


def test_a_series_that_is_not_short_is_no_density():
    """A steep activation of one's own, at a beta where the kernel has more terms than are tried."""
    k = 1000.0
    steep = Activation(
        "steep",
        lambda z: np.tanh(k * z),
        lambda z: 2 * np.logaddexp(k * z, -k * z) / k - 2 * np.log(2) / k,
        lambda z: k / np.cosh(np.clip(k * z, -300, 300)) ** 2,
        (0.0,),
    )
    assert minimiser._density(problem(1e5, [[1.0, 0.0]], [1.0], steep, bias=[0.3]), 1e-13) is None


# ------------------------------------------------------------------------------- coarse and correct


def returned(weights):
    """A stand-in for the quadratic program."""
    return lambda G, c, w: weights(len(c))


@pytest.mark.parametrize("beta", (1e-2, 10.0, 1e3, 1e6))
def test_coarse_atoms_are_dense_and_at_kinks(monkeypatch, beta):
    alpha, bias = 1.0, 0.3
    a = unit_vectors(np.array([alpha]))
    parts = problem(beta, a, [2.0], "relu", bias=[bias])
    calls = spy(monkeypatch, "simplex_qp", returned(lambda n: np.full(n, 3.0)))
    theta, w = minimiser._coarse(parts)
    (G, c, start), x = calls[0], unit_vectors(theta)
    assert np.all(w == 1 / len(w)) and theta[0] == 0 and theta[-1] < TURN
    step = np.diff(theta, append=TURN).max()
    assert step < 1 / np.sqrt(1 + beta) or len(theta) > 1024
    assert step <= TURN / 16 and len(theta) <= 1024 + 2
    for kink in (alpha + np.arccos(-bias), alpha - np.arccos(-bias) + TURN):
        assert np.abs(theta - kink).min() < 1e-14
    some = slice(None, None, 10)
    expected = np.expm1(beta * (x @ x[some].T - 1)) / beta
    np.testing.assert_allclose(G[:, some], expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(c, np.maximum(x @ a[0] + bias, 0) ** 2, atol=1e-15)
    # from the atom where the potential is least
    assert start.sum() == 1 and c[start == 1].tolist() == [c.min()]


def test_coarse_and_correct_drop_what_has_no_weight(monkeypatch):
    parts = minimiser._Problem(gelu())
    weights = np.array([0.4, NEGLIGIBLE, 0.2, 0.0, 0.2])
    calls = spy(monkeypatch, "simplex_qp", returned(lambda n: weights))
    theta, w, new = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.25, 0.25]), np.array([3.0, 4.0])
    found = minimiser._correct(parts, theta, w, new)
    assert found[0].tolist() == [0, 2, 4]
    np.testing.assert_allclose(found[1], [0.5, 0.25, 0.25], rtol=1e-15)
    G, c, start = calls[0]
    x = unit_vectors(np.arange(5.0))
    assert start.tolist() == [0.5, 0.25, 0.25, 0, 0]
    np.testing.assert_allclose(G, np.expm1(3.0 * (x @ x.T - 1)) / 3, atol=1e-15)
    np.testing.assert_allclose(c, gelu().potential(x) / 2, atol=1e-15)


# ------------------------------------------------------------------------------------------ merging


def test_groups_begin_after_the_widest_gap():
    """Angles outside of a turn and out of order, with the widest gap inside or at the end."""
    theta, w = np.array([0.2, 6.2, -0.1, 0.1 + TURN, 5.5]), np.arange(1.0, 6.0)
    for shift in (0.0, 0.5, 3.0):
        angles, weights = minimiser._unrolled(theta + shift, w)
        expected = np.array([5.5, TURN - 0.1, 6.2, TURN + 0.1, TURN + 0.2]) + shift
        first = np.mod(expected[0], TURN)
        np.testing.assert_allclose(angles, expected - expected[0] + first, atol=1e-14)
        assert weights.tolist() == [5, 3, 2, 4, 1]
    alone = minimiser._unrolled(np.array([-1.0]), np.ones(1))
    assert alone[0] == pytest.approx(TURN - 1) and alone[1] == 1
    # gaps of 3, 2.9 and the rest: the end is not the widest
    angles, _ = minimiser._unrolled(np.array([0.0, 2.9, 5.9]), np.ones(3))
    np.testing.assert_allclose(angles, [5.9, TURN, TURN + 2.9], atol=1e-14)


def test_merged_groups_have_the_mass_and_the_barycentre():
    """Groups begin at their first atom; at most as wide as asked for, to the bit."""
    theta = np.array([1.0, 1.25, 1.5, 1.75, 3.0, 3.5, 4.25])
    w = np.array([1.0, 2.0, 1.0, 4.0, 3.0, 1.0, 2.0]) / 16
    found = minimiser._tidy(theta, w, 0.5)
    np.testing.assert_allclose(found[0], [1.25, 1.75, 3.125, 4.25], rtol=1e-15)
    assert found[1].tolist() == [4 / 16, 4 / 16, 4 / 16, 2 / 16]
    # across the end of the turn
    found = minimiser._tidy(np.array([0.25, 2.0, TURN - 0.25]), np.array([0.25, 0.25, 0.5]), 0.6)
    np.testing.assert_allclose(found[0], [TURN - 1 / 12, TURN + 2], rtol=1e-14)
    np.testing.assert_allclose(found[1], [0.75, 0.25])


def by_number(monkeypatch, energies):
    """Energies by the number of atoms, instead of derivatives."""

    def derivatives(parts, theta, w):
        assert isinstance(parts, minimiser._Problem) and len(theta) == len(w)
        return energies(len(w)), None, None

    monkeypatch.setattr(minimiser, "_derivatives", derivatives)


PAIRS = (0.6, 0.3, 0.1, 0.01)


def polish(monkeypatch, distances, energies):
    """Pairs at some distances, in lengths of the kernel, with energies by the number of atoms."""
    parts = problem(8.0)
    theta = np.concatenate([[i, i + d * parts.spacing] for i, d in enumerate(distances)])
    # what is moved is marked by its weights
    moves = spy(monkeypatch, "_newton", lambda parts, theta, w: (theta, 2 * w))
    by_number(monkeypatch, energies.get)
    theta, w = minimiser._polish(parts, theta, np.full(len(theta), 1 / len(theta)))
    assert w.sum() == pytest.approx(2) and len(theta) == len(w)
    return len(w), [len(move[2]) for move in moves]


@pytest.mark.parametrize(
    ("distances", "energies", "number", "tried"),
    [
        # the widest that ends below the start, though a narrower one would be better
        (PAIRS, {8: 1.0, 4: 0.9, 5: 0.0, 6: 0.0, 7: 0.0}, 4, [4]),
        (PAIRS, {8: 1.0, 4: 1.1, 5: 1.0, 6: 0.5, 7: 0.0}, 6, [4, 5, 6]),
        # none does: the best, and of two that are as good the wider
        (PAIRS, {8: 0.0, 4: 3.0, 5: 2.0, 6: 1.0, 7: 4.0}, 6, [4, 5, 6, 7]),
        (PAIRS, {8: 0.0, 4: 3.0, 5: 1.0, 6: 1.0, 7: 4.0}, 5, [4, 5, 6, 7]),
        # the same number again is not tried again
        (PAIRS[2:] * 2, {8: 0.0, 4: 2.0, 6: 1.0}, 6, [4, 6]),
    ],
)
def test_the_widest_merging_below_the_start_wins(monkeypatch, distances, energies, number, tried):
    assert polish(monkeypatch, distances, energies) == (number, tried)


def denser(monkeypatch, theta, w, new, *, energies=lambda n: -n):
    """Without Newton's method; energies by the number of atoms."""
    parts = problem(15.0)
    assert parts.spacing == 0.25
    moves = spy(monkeypatch, "_newton", lambda parts, theta, w, maxiter: (theta, w))
    by_number(monkeypatch, energies)
    theta, w, new = (np.asarray(a, float) for a in (theta, w, new))
    found = minimiser._denser(parts, theta, w, new)
    assert all(len(move[1]) > len(theta) for move in moves)
    return found


CHAIN = np.array([1.0, 1.25, 1.5, 1.75])


@pytest.mark.parametrize("shift", (0.0, 4.75, -1.4))
def test_a_minimum_between_two_atoms_of_a_chain_asks_for_one_more(monkeypatch, shift):
    """The chain keeps its ends, equal distances and its mass; a far atom keeps all."""
    theta = np.mod(np.append(CHAIN, 4.0) + shift, TURN)
    w = np.array([0.15, 0.15, 0.15, 0.15, 0.4])
    for new in (1.125, 1.375 + TURN, 1.34, 1.4, 1.625):
        found, weights = denser(monkeypatch, theta[::-1], w[::-1], [new + shift, 5.0 + shift])
        found = found - found[0] + 1
        if weights[0] > 0.3:  # the far atom is first
            found, weights = np.roll(found, -1), np.roll(weights, -1)
            found = found - found[0] + 1
            found[-1] += TURN
        np.testing.assert_allclose(found, [*np.linspace(1, 1.75, 5), 4], atol=1e-13)
        np.testing.assert_allclose(weights, [0.12] * 5 + [0.4], rtol=1e-14)


def test_positions_and_masses_are_interpolated(monkeypatch):
    """Masses are interpolated at fractions of the index: here 3/4, 3/2 and 9/4 of four atoms."""
    theta, w = np.array([1.0, 1.2, 1.5, 1.9]), np.array([0.1, 0.2, 0.3, 0.4])
    found, weights = denser(monkeypatch, theta, w, [1.1])
    np.testing.assert_allclose(found, [1.0, 1.15, 1.35, 1.6, 1.9], rtol=1e-14)
    np.testing.assert_allclose(weights, np.array([4, 7, 10, 13, 16]) / 50, rtol=1e-14)


def test_only_chains_are_made_denser(monkeypatch):
    # close to an atom: that one should move
    w = np.full(4, 0.25)
    for new in ([], [1.25], [1.3], [1.2], [1.0625], [1.7], [0.9], [1.85], [3.0], [1.0], [1.75]):
        assert denser(monkeypatch, CHAIN, w, new) is None
    # a pair is no chain, nor are atoms at more than three lengths of the kernel
    assert denser(monkeypatch, [1.0, 1.25, 3.0, 3.25], w, [1.125]) is None
    assert denser(monkeypatch, [1.0, 1.8, 2.6], np.full(3, 1 / 3), [1.4]) is None
    assert denser(monkeypatch, [1.0, 1.75, 2.5], np.full(3, 1 / 3), [1.35])[0].size == 4
    # two chains, and only one has a new minimum
    theta, w = np.concatenate([CHAIN, CHAIN + 2]), np.full(8, 0.125)
    found, weights = denser(monkeypatch, theta, w, [3.125])
    assert len(found) == 9 and weights.sum() == pytest.approx(1)
    second = np.sort(found % TURN)[4:]
    np.testing.assert_allclose(second, np.linspace(3, 3.75, 5), atol=1e-13)


def test_long_chains_get_more_atoms_and_only_a_lower_energy_counts(monkeypatch):
    theta, w = np.linspace(1, 5, 80), np.full(80, 1 / 80)
    middle = [(theta[40] + theta[41]) / 2]
    found, weights = denser(monkeypatch, theta, w, middle)
    assert len(found) == 82 and weights.sum() == pytest.approx(1)
    # masses that are not equal do not keep their sum when they are interpolated
    uneven = np.random.default_rng(0).dirichlet(np.ones(80))
    assert denser(monkeypatch, theta, uneven, middle)[1].sum() == pytest.approx(1, abs=1e-14)
    assert denser(monkeypatch, theta, w, middle, energies=lambda n: n) is None
    assert denser(monkeypatch, theta, w, middle, energies=lambda n: 0) is None


# --------------------------------------------------------------------------------- Newton's method


@pytest.mark.parametrize(
    "F",
    [
        gelu(),
        gelu(0.5, 30.0),
        SphereEnergy(4.0, [[0.6, 0.8]], [0.7], "tanh", B=[[1.5, 0.4], [0.4, 0.8]]),
    ],
)
def test_derivatives_in_angles_and_weights(F):
    parts = minimiser._Problem(F)
    z = np.array([0.3, 1.5, 2.2, 5.0, 0.4, 0.3, 0.2, 0.1])
    value, slope, hessian = minimiser._derivatives(parts, z[:4], z[4:])
    size = parts.scale + parts.curvature
    assert value == pytest.approx(energy(parts, z[:4], z[4:]), abs=1e-15 * size)
    h = 1e-5
    for i, e in enumerate(h * np.eye(8)):
        up, down = z + e, z - e
        by_value = energy(parts, up[:4], up[4:]) - energy(parts, down[:4], down[4:])
        assert slope[i] == pytest.approx(by_value / (2 * h), abs=1e-8 * size)
        by_slope = [minimiser._derivatives(parts, y[:4], y[4:])[1] for y in (up, down)]
        np.testing.assert_allclose(
            hessian[i], (by_slope[0] - by_slope[1]) / (2 * h), atol=1e-8 * size
        )


@pytest.mark.parametrize("n", (1, 2, 5))
def test_basis_is_orthonormal_and_keeps_the_mass(n):
    w = np.random.default_rng(n).dirichlet(np.ones(n))
    Q = minimiser._basis(w)
    assert Q.shape == (2 * n, 2 * n - 1)
    # in the metric where an angle counts with its weight
    np.testing.assert_allclose(Q.T * np.append(w, np.ones(n)) @ Q, np.eye(2 * n - 1), atol=1e-14)
    np.testing.assert_allclose(Q[n:].sum(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(Q[:n, :n], np.diag(w**-0.5))
    assert not Q[:n, n:].any() and not Q[n:, :n].any()


W = np.array([0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("turn", "change", "angles", "weights", "whole"),
    [
        ([0.1, -0.125, 0.0], [0.25, -0.125, -0.125], [1.1, 1.875, 3], [0.75, 0.125, 0.125], True),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1, 2, 3], W, True),
        # half a length of the kernel is allowed; three halves are cut to a third
        ([0.0, -0.125, 0.1], [0.0, 0.0, 0.0], [1, 1.875, 3.1], W, True),
        ([0.15, -0.375, 0.0], [0.3, -0.6, 0.3], [1.05, 1.875, 3], [0.6, 0.05, 0.35], False),
        # the second weight reaches zero at half the step, the third would at the end
        ([0.1, 0.1, -0.1], [0.75, -0.5, -0.25], [1.05, 2.95], [0.875, 0.125], False),
        ([0.1, 0.1, -0.1], [0.25, -0.25, 0.0], [1.1, 2.9], [0.75, 0.25], False),
        # cut twice: first to half, then to a quarter
        ([0.25, 0.0, 0.0], [0.5, -1.0, 0.5], [1.0625, 3], [0.625, 0.375], False),
        # a sum that is not one is scaled back
        ([0.0, 0.0, 0.0], [0.5, 0.25, 0.25], [1, 2, 3], W, True),
    ],
)
def test_a_step_is_cut(turn, change, angles, weights, whole):
    step, parts = np.append(turn, change), problem(15.0)
    (theta, w), full = minimiser._step(parts, np.arange(1.0, 4.0), W, step)
    np.testing.assert_allclose(theta, angles, rtol=1e-15)
    np.testing.assert_allclose(w, weights, rtol=1e-14)
    assert full == whole


def test_a_negligible_weight_is_dropped_by_a_step():
    (theta, w), full = minimiser._step(
        problem(1.0), np.array([1.0, 2.0]), np.array([1.0, NEGLIGIBLE]), np.zeros(4)
    )
    assert (theta.tolist(), w.tolist(), full) == ([1.0], [1.0], False)


def start(seed, n):
    rng = np.random.default_rng(seed)
    return rng.uniform(-5, 8, n), rng.dirichlet(np.ones(n))


def test_newton_converges_quadratically_to_a_critical_point():
    F = gelu()
    parts, at = minimiser._Problem(F), (np.array([2.3, 5.1]), np.array([0.5, 0.5]))
    end = minimiser._newton(parts, *at)
    steps = parts.work / (2**3 + 1e5)
    assert steps == int(steps) <= 6
    _, slope, _ = minimiser._derivatives(parts, *end)
    assert np.abs(slope[:2]).max() <= 1e-15 and np.ptp(slope[2:]) <= 1e-15
    errors = []
    for k in range(1, 4):
        near = minimiser._newton(parts, *at, maxiter=k)
        errors.append(np.abs(np.concatenate(near) - np.concatenate(end)).max())
    assert errors[1] <= 4 * errors[0] ** 2 and errors[2] <= 4 * errors[1] ** 2 <= 1e-5
    assert parts.work == (steps + 1 + 2 + 3) * (2**3 + 1e5)


@pytest.mark.parametrize("beta", (1.0, 30.0))
@pytest.mark.parametrize("seed", range(4))
def test_newton_descends_from_anywhere(beta, seed):
    """Far from convex: energies of 1, 2, ... steps do not rise."""
    parts = minimiser._Problem(gelu(beta))
    values = [energy(parts, *start(seed, 5))]
    for k in range(1, 12):
        values.append(energy(parts, *minimiser._newton(parts, *start(seed, 5), maxiter=k)))
    assert np.diff(values).max() <= 1e-15 * parts.scale and values[-1] < values[0]
    theta, w = minimiser._newton(parts, *start(seed, 5))
    assert w.min() > 0 and w.sum() == pytest.approx(1)
    slope = minimiser._derivatives(parts, theta, w)[1]
    assert np.abs(slope[: len(w)]).max() <= 1e-15 and np.ptp(slope[len(w) :]) <= 1e-15


def test_work_is_counted_and_limited():
    parts = minimiser._Problem(gelu())
    theta, w = start(0, 10)
    minimiser._newton(parts, theta, w, maxiter=1)
    assert parts.work == 1e5 + 1000
    for room, moves in ((1e5 + 1000, True), (1e5 + 999, False)):
        parts.work = EFFORT - room
        assert np.array_equal(minimiser._newton(parts, theta, w, maxiter=1)[0], theta) != moves


class Scripted:
    """Newton's method with given values, slopes and fates of the steps; what it does is watched."""

    def __init__(self, monkeypatch, states, whole, *, scale=1.0):
        self.parts = problem(1.0)
        self.parts.scale = scale
        rest, fates = iter(states), iter(whole)
        self.steps = spy(
            monkeypatch,
            "_step",
            lambda parts, theta, w, step: ((theta + 1, w), next(fates, True)),
        )
        monkeypatch.setattr(minimiser, "_derivatives", lambda parts, theta, w: next(rest))

    def run(self, n, **options):
        return minimiser._newton(self.parts, np.arange(float(n)), np.full(n, 1 / n), **options)


@pytest.mark.parametrize("size", (1e-3, 1.0, 1e3))
def test_the_floor_rises_when_a_step_fails_and_falls_when_it_is_whole(monkeypatch, size):
    """The second angle has no curvature: its step is one over the floor, if that is relative."""
    hessian, slope = np.diag([size, 0.0, 0.0, 0.0]), size * np.array([1.0, 1.0, 0.0, 0.0])
    # 6 is refused; the step to 3 is cut
    states = [(value, slope, hessian) for value in (5.0, 6.0, 4.0, 3.0, 2.0, 1.0)]
    script = Scripted(monkeypatch, states, [True, True, False, True, True])
    script.run(2, maxiter=4)
    floor = np.array([-1 / call[3][1] for call in script.steps])
    np.testing.assert_allclose(floor[[2, 3]], floor[0])
    assert 0 < floor[0] <= 1e-6 and floor[1] > 10 * floor[0]
    assert floor[4] == pytest.approx(floor[0] ** 2 / floor[1])


@pytest.mark.parametrize("scale", (1e-3, 1.0, 1e3))
@pytest.mark.parametrize(("rise", "taken"), [(-1.0, True), (0.0, True), (0.9, True), (1.1, False)])
def test_a_step_is_taken_if_the_energy_does_not_rise(monkeypatch, scale, rise, taken):
    """Up to rounding, 1e-16 of the scale."""
    slope, hessian = np.array([1.0, 0.0]), np.diag([1.0, 0.0])
    states = chain([(0.0, slope, hessian)], repeat((rise * 1e-16 * scale, slope, hessian)))
    script = Scripted(monkeypatch, states, [], scale=scale)
    assert script.run(1, maxiter=1)[0] == (1.0 if taken else 0.0)


@pytest.mark.parametrize("scale", (1e-3, 1.0, 1e3))
@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        # at most 1e-26
        ([1.0, 1.1e-26, 0.9e-26], None),
        # at most 1e-20 and no less than the last one
        ([1.0, 1.2e-26, 1.1e-26, 1.1e-26], None),
        ([1.0, 1.1e-20, 1.2e-20, 0.9e-20, 0.95e-20], None),
        # a step that is cut is not the last one
        ([1.0, 0.9e-26, 0.9e-26], 1),
        ([1.0, 0.9e-21, 0.9e-21, 0.9e-21], 2),
    ],
)
def test_newton_ends_where_the_promised_decrease_is_rounding(monkeypatch, scale, sizes, cut):
    """Relative to the scale; with curvature one the promise is the square of the slope."""
    hessian = np.diag([1.0, 0.0])
    slopes = np.sqrt(scale * np.array([*sizes, 1.0, 1.0]))
    states = [(0.0, np.array([slope, 0.0]), hessian) for slope in slopes]
    script = Scripted(monkeypatch, states, [i != cut for i in range(len(sizes))], scale=scale)
    script.run(1, maxiter=len(sizes) + 1)
    assert len(script.steps) == len(sizes)


# ------------------------------------------------------------------------------------ bookkeeping


class Script:
    """The measures of all rounds are given; what is done with them is watched."""

    def __init__(self, monkeypatch, F, measures, *, density=None, scale=None, work=0):
        self.F, self.measures, self.points = F, measures, 0
        self.rest = iter(measures)

        def create(F):
            self.parts = parts = problem_class(F)
            parts.scale = parts.scale if scale is None else scale
            return parts

        def polish(parts, theta, w):
            parts.work += work
            return next(self.rest, measures[-1])

        def call(landscape, theta):
            self.points += len(theta)
            return evaluate(landscape, theta)

        problem_class, evaluate = minimiser._Problem, CircleLandscape.__call__
        monkeypatch.setattr(minimiser, "_Problem", create)
        monkeypatch.setattr(CircleLandscape, "__call__", call)
        monkeypatch.setattr(minimiser, "_polish", polish)
        self.density = spy(
            monkeypatch, "_density", lambda parts, tolerance: density if parts.beta else None
        )
        self.coarse = spy(monkeypatch, "_coarse", lambda parts: (None, None))
        self.correct = spy(monkeypatch, "_correct", lambda parts, theta, w, new: (theta, w))
        self.denser = spy(monkeypatch, "_denser", lambda parts, theta, w, new: None)
        self.gaps = spy(monkeypatch, "_gap")
        self.minima = spy(monkeypatch, "local_minima")

    def run(self, **options):
        self.rest = iter(self.measures)
        for calls in (self.density, self.coarse, self.correct, self.denser, self.gaps, self.minima):
            calls.clear()
        self.points = 0
        found = minimise_on_circle(self.F, **options)
        assert found.evaluations == self.points
        return found

    def is_measure(self, found, i):
        theta, w = self.measures[i]
        order = np.argsort(np.mod(theta, TURN))
        np.testing.assert_array_equal(found.measure.atoms, unit_vectors(theta[order]))
        np.testing.assert_allclose(found.measure.weights, w[order], rtol=1e-15)
        local = self.F.at(found.measure)
        on = found.measure.weights @ local.first_variation(found.measure.atoms)
        least = local.first_variation(unit_vectors(np.linspace(0, TURN, 6000))).min()
        assert on - least - 1e-14 <= found.gap <= on - least + 1e-6
        assert found.value == pytest.approx(self.F(found.measure), rel=1e-14)
        assert found.multiplier == pytest.approx(on, rel=1e-14)
        return True


def drawn(F, count, keep):
    """Random measures with (E, gap), each of which ``keep`` accepts after the last one."""
    parts, t, measures, last = CircleVariation(F), np.linspace(0, TURN, 200), [], None
    for seed in range(2000):
        theta, w = start(seed, 5)
        theta = theta - 2
        x = unit_vectors(theta)
        f = parts.at(x, w)
        mean = w @ f(theta)[0]
        at = (mean + w @ F.potential(x) / 2) / 2, mean - f(t)[0].min()
        if last is None or keep(last, at):
            measures.append((theta, w))
            last = at
        if len(measures) == count:
            return measures
    raise AssertionError("too few")


@pytest.mark.parametrize("beta", (3.0, 3000.0))
def test_a_run_that_gets_nowhere_ends_after_four_more_rounds(monkeypatch, beta):
    F = gelu(beta)
    script = Script(monkeypatch, F, drawn(F, 1, None))
    found = script.run()
    assert script.is_measure(found, 0)
    assert (found.rounds, found.converged) == (4, False)
    calls = script.density, script.coarse, script.denser, script.correct, script.minima
    assert [len(c) for c in calls] == [1, 1, 4, 4, 5]
    # one certificate, for the best
    assert len(script.gaps) == 1
    for (_, nodes), _ in zip(script.minima, range(5), strict=True):
        assert np.diff(nodes).max() <= script.parts.spacing / 2
        assert nodes[0] == 0 and nodes[-1] == TURN


def test_progress_of_the_gap_counts(monkeypatch):
    """The gap falls while E rises: at the second measure, and then never again."""
    F = gelu()
    first, second = drawn(F, 2, lambda old, new: new[0] > old[0] and new[1] < old[1])
    script = Script(monkeypatch, F, [first, first, first, first, second])
    found = script.run()
    assert found.rounds == 8 and script.is_measure(found, 4)


def test_progress_of_the_energy_counts(monkeypatch):
    """E falls while the gap rises: the first measure is best, and the last ones are tried."""
    F = gelu()
    a, b, c = drawn(F, 3, lambda old, new: new[0] < old[0] and new[1] > old[1])
    script = Script(monkeypatch, F, [a, a, a, a, b, b, b, b, c])
    found = script.run()
    assert found.rounds == 12 and script.is_measure(found, 0)
    # nor does the last round count more than the best one
    for maxiter in (1, 10):
        found = script.run(maxiter=maxiter)
        assert found.rounds == maxiter and script.is_measure(found, 0)


def test_progress_within_rounding_does_not_count(monkeypatch):
    """Rounding is 1e-14 of the scale, which is set so that this is about the change of E."""
    F = gelu()
    a, b = drawn(F, 2, lambda old, new: new[0] < old[0] and new[1] > old[1])
    parts = minimiser._Problem(F)
    change = energy(parts, *a) - energy(parts, *b)
    for factor, rounds in ((0.99, 7), (1.01, 4)):
        with monkeypatch.context() as context:
            script = Script(context, F, [a, a, a, b], scale=1e14 * factor * change)
            assert script.run().rounds == rounds


def test_the_tolerance_is_reached_exactly(monkeypatch):
    F = gelu()
    measures = drawn(F, 2, lambda old, new: new[1] < old[1] / 2)
    with monkeypatch.context() as context:
        first = Script(context, F, measures[:1]).run()
    script = Script(monkeypatch, F, measures)
    best = script.run()
    assert best.rounds == 5 and script.is_measure(best, 1)
    for goal, rounds in ((first.gap, 0), (np.nextafter(first.gap, 0), 1), (best.gap, 1)):
        found = script.run(tolerance=goal)
        assert (found.rounds, found.converged) == (rounds, True)
    found = script.run(tolerance=np.nextafter(best.gap, 0))
    assert (found.rounds, found.converged, found.gap) == (5, False, best.gap)


def test_a_certificate_is_computed_when_the_search_finds_no_more(monkeypatch):
    """The tolerance is what the search finds, to the bit; the certified gap is a little more."""
    F = gelu()
    script = Script(monkeypatch, F, drawn(F, 1, None))
    with monkeypatch.context() as context:
        bound = spy(context, "local_minima")
        script.run(maxiter=1)
        (f, nodes), (theta, w) = bound[0], script.measures[0]
        goal = w @ f(theta)[0] - minimiser.local_minima(f, nodes)[1].min()
    gap = script.run().gap
    assert 0 < gap - goal < 1e-12
    assert script.run(tolerance=goal).rounds == 4 and len(script.gaps) == 5
    assert script.run(tolerance=np.nextafter(goal, 0)).rounds == 4 and len(script.gaps) == 1


def test_the_effort_is_limited(monkeypatch):
    F = gelu()
    for work, rounds in ((EFFORT / 2, 2), (EFFORT, 1), (EFFORT + 1, 0)):
        with monkeypatch.context() as context:
            script = Script(context, F, drawn(F, 1, None), work=work)
            assert script.run().rounds == rounds


def test_a_density_that_is_not_good_enough_is_followed_by_atoms(monkeypatch):
    F = gelu()
    measures = drawn(F, 2, lambda old, new: new[1] < old[1])
    script = Script(monkeypatch, F, measures[1:], density=measures[0])
    found = script.run(maxiter=1)
    assert found.rounds == 1 and script.is_measure(found, 0)
    assert len(script.coarse) == 1 and not script.denser and not script.correct
    assert script.run().rounds == 5
    assert (len(script.coarse), len(script.denser), len(script.correct)) == (1, 4, 4)
    # without a density the coarse grid is the start, and not used again
    script = Script(monkeypatch, F, measures)
    assert script.run(maxiter=1).rounds == 1
    assert (len(script.coarse), len(script.denser), len(script.correct)) == (1, 1, 1)


def test_minima_that_matter_make_chains_denser_and_all_below_the_mean_get_weight(monkeypatch):
    """Those within a hundredth of the gap below the mean are close to atoms."""
    F = gelu()
    script = Script(monkeypatch, F, drawn(F, 1, None))
    theta, w = script.measures[0]
    mean = w @ minimiser._Problem(F).at(unit_vectors(theta), w)(theta)[0]
    below = np.array([0.2, 0.0021, 0.0019, 1e-5, 0.0, -0.1])
    monkeypatch.setattr(minimiser, "local_minima", lambda f, nodes: (np.arange(6.0), mean - below))
    script.run(maxiter=1)
    assert script.denser[0][3].tolist() == [0, 1]
    assert script.correct[0][3].tolist() == [0, 1, 2, 3]
    assert all(np.array_equal(call[1], theta) for call in script.denser + script.correct)


def test_a_denser_chain_replaces_the_correction(monkeypatch):
    F = gelu()
    a, b = drawn(F, 2, lambda old, new: new[1] < old[1])
    script = Script(monkeypatch, F, [a])
    monkeypatch.setattr(minimiser, "_denser", lambda parts, theta, w, new: b)
    found = script.run()
    assert found.rounds == 5 and not script.correct
    x = unit_vectors(np.sort(b[0] % TURN))
    np.testing.assert_allclose(found.measure.atoms, x, atol=1e-14)


def test_the_largest_beta_and_the_least_definite_matrix():
    largest = minimiser.SHARPEST
    assert minimiser._checked(SphereEnergy(largest)).beta == largest
    with pytest.raises(ValueError, match="beta"):
        minimiser._checked(SphereEnergy(np.nextafter(largest, np.inf)))
    least = SphereEnergy(1.0, B=[[1e-3, 0.0], [0.0, 1.0]])
    assert minimiser._checked(least) is least
    with pytest.raises(ValueError, match="positive definite"):
        minimiser._checked(SphereEnergy(1.0, B=[[-1e-3, 0.0], [0.0, 1.0]]))
