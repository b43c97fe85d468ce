"""Energies, clusters, runs and arrangements on the sphere: edges, defaults, small exact cases."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from test_sphere import PRIMITIVE, SIGMA, energy, matrix, measure, on_circle, points, reference

from mfbook.equilibria.clusters import Clusters, clusters, link
from mfbook.equilibria.settle import settle
from mfbook.flow.rosenbrock import Rosenbrock
from mfbook.functional import Minimum
from mfbook.landscape import arrangement
from mfbook.landscape.arrangement import cells, flats, lines, sign_regions
from mfbook.landscape.closed_forms import collinear_maximum, diagonal_maximum, nonnegative_maximum
from mfbook.landscape.degeneracy import is_analytic_potential, nondegenerate_normalised
from mfbook.landscape.extremal import maximise_potential, minimise_potential
from mfbook.measure import Measure
from mfbook.models import activations
from mfbook.models.sphere import SphereEnergy, forces
from mfbook.space import Sphere

# the package gives its name to the function
settle_module = importlib.import_module("mfbook.equilibria.settle")

SPHERE = Sphere()


def unit(x):
    x = np.asarray(x, float)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# ------------------------------------------------------------------------------- activations


@pytest.mark.parametrize("name", ["RELU", "LEAKY_RELU", "GELU", "TANH", "LINEAR"])
def test_named_activations_are_those_of_a_textbook(name):
    f = getattr(activations, name)
    assert f.name == name.lower() and activations.NAMED[f.name].name == f.name
    s = np.array([-2.0, -0.5, 0.0, 0.7, 3.0])
    for g in (f, activations.activation(f.name)):
        np.testing.assert_allclose(g.sigma(s), SIGMA[f.name](s), rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(g.primitive(s), PRIMITIVE[f.name](s), rtol=1e-12, atol=1e-15)
        assert g.analytic is (name in ("GELU", "TANH", "LINEAR"))
    grid = np.linspace(-3, 3, 60_001)
    # the steepest points are listed: the bound is attained
    assert f.lipschitz(3.0) == pytest.approx(np.abs(f.slope(grid)).max(), rel=1e-7)
    kinks = np.array([-1e-300, 0.0, 1e-300])
    if "RELU" in name:  # at its kink a unit counts as off
        off = f.slope(-np.ones(1))[0]
        assert f.slope(kinks).tolist() == [off, off, 1.0]


def test_gelu_is_steepest_where_its_second_derivative_vanishes():
    s, h = activations.GELU_STEEPEST, 1e-5
    slopes = activations.GELU.slope(np.array([s - h, s, s + h, -s - h, -s, -s + h]))
    assert slopes[1] > max(slopes[0], slopes[2]) and slopes[4] < min(slopes[3], slopes[5])


def test_lipschitz_constant_may_be_attained_at_the_left_end():
    f = activations.Activation("falling", lambda s: -np.exp(-s), None, lambda s: np.exp(-s))
    assert f.lipschitz(2.0) == np.exp(2.0) and f.lipschitz() == np.e


def test_leak_by_default():
    assert activations.leaky_relu().sigma(np.array([-100.0]))[0] == -1.0
    assert activations.leaky_relu().name == "leaky_relu"


# ------------------------------------------------------------------------------------- energy


def test_arguments_of_the_energy_are_kept_as_plain_values():
    F = SphereEnergy(1, normalised=np.True_)
    assert F.normalised is True and type(F.beta) is float
    assert SphereEnergy(1.0).normalised is False and SphereEnergy(1.0).activation.name == "relu"
    a = [[1.0, 0.0], [0.0, -1.0]]
    G = SphereEnergy(2.0, a, [1, 2], "tanh", True, [0, 1], [[2, 0], [0, -1]])
    assert repr(G) == "SphereEnergy(beta=2, 2 tanh units with biases, general B, normalised)"
    for array in (G.a, G.omega, G.bias, G.B):
        assert array.dtype == float
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_matrix_is_symmetric_and_invertible_up_to_rounding():
    B = np.array([[1.0, 1.0], [1.0, -1.0]])
    skew = np.array([[0.0, 1.0], [0.0, 0.0]])
    assert SphereEnergy(1.0, B=B + 0.9e-12 * skew).dim == 2
    with pytest.raises(ValueError, match="^B: expected a symmetric matrix"):
        SphereEnergy(1.0, B=B + 1.1e-12 * skew)
    assert SphereEnergy(1.0, B=1e20 * (B + 0.9e-12 * skew)).dim == 2  # relative to its size
    for size in (1.0, 1e5):
        assert SphereEnergy(1.0, B=size * np.diag([1.0, -1.1e-14])).shift == size
        with pytest.raises(ValueError, match="^B: expected an invertible matrix"):
            SphereEnergy(1.0, B=size * np.diag([1.0, 0.9e-14]))


def test_unit_vectors_in_single_precision():
    """Four roundings of the type are accepted, and not five."""
    eps = np.finfo(np.float32).eps
    F = SphereEnergy(1.0)
    for steps, fits in ((4, True), (-4, True), (5, False)):
        x = np.array([[0.0, 1 + steps * eps]], np.float32)
        if fits:
            assert np.isfinite(F(Measure(x)))
        else:
            with pytest.raises(ValueError, match=r"^mu: .*at index 0"):
                F(Measure(x))
    x = on_circle(0.1, 0.2, 0.3)
    x[1] *= 1.001
    with pytest.raises(ValueError, match=r"^x: expected unit vectors, got length 1.001 at index 1"):
        F.potential(x)


def test_a_measure_is_asked_for_and_checked():
    F = SphereEnergy(1.0)
    x = on_circle(0.0, 1.0)
    with pytest.raises(TypeError, match="^mu: "):
        F.at(x)
    with pytest.raises(ValueError, match="^mu: expected unit vectors"):
        F.field().linearised(Measure(2 * x))
    with pytest.raises(TypeError, match="mu: "):
        F.field().linearised(x)
    with pytest.raises(ValueError, match="^x: expected an energy with units"):
        F.scores(x)
    flat = np.array([[1.0]])
    with pytest.raises(ValueError, match="^mu: .* d = at least 2, got 1"):
        F.at(Measure(flat))
    with pytest.raises(ValueError, match="^a: expected unit vectors, got length 2 at index 1"):
        SphereEnergy(1.0, x * [[1.0], [2.0]], [1.0, 1.0])
    G = energy(1.0, "tanh", 2)
    for call in (G.scores, G.potential, G.perceptron):
        with pytest.raises(ValueError, match="^x: expected unit vectors"):
            call(2 * x)
        with pytest.raises(ValueError, match="^x: .* d = 2, got 3"):
            call(np.eye(3))
        assert np.isfinite(call(x + 0j)).all()
    assert G.scores(x).tolist() == (x @ G.a.T).tolist()


def test_fields_descend_unless_they_are_asked_to_ascend():
    F, mu = energy(2.0, "tanh", 3), measure(0, 5, 3)
    u = F.velocity(mu.atoms, mu)
    assert F.field().sign == -1.0 and F.field(True).sign == F.field(np.True_).sign == 1.0
    for sign, field in ((-1, F.field()), (1, F.field(ascent=True))):
        np.testing.assert_array_equal(field(mu.atoms, mu), sign * u)
        np.testing.assert_array_equal(field.at_atoms(mu.atoms, mu.weights), sign * u)


def test_linearised_energy_is_never_normalised():
    F, mu = energy(2.0, "tanh", 3, normalised=True), measure(0, 5, 3)
    plain = replace(F, normalised=False)
    b = F.velocity(mu.atoms, mu)
    local = F.at(mu).linearised(-1.0).solve(0.3, b)
    np.testing.assert_allclose(local, plain.field().linearised(mu).solve(0.3, b), atol=1e-14)
    assert np.abs(local - F.field().linearised(mu).solve(0.3, b)).max() > 1e-3


def test_search_of_the_first_variation_knows_no_ridge():
    local = SphereEnergy(1.0).at(measure(0, 4, 2))
    assert isinstance(local.minimise(0), Minimum)
    assert local.minimise(0, ridge=1e-3) is NotImplemented
    with pytest.raises(ValueError, match="^ridge: "):
        local.minimise(0, ridge=-1.0)


def test_potential_takes_complex_points():
    F, x = energy(1.0, "gelu", 3, bias=True), points(0, 6, 3)
    t = SPHERE.tangent(x, np.ones_like(x))
    moved = SPHERE.retract(x, 1e-30j * t)
    slope = 2 * (F.perceptron(x) * t).sum(axis=1)
    np.testing.assert_allclose(F.potential(moved).imag / 1e-30, slope, atol=1e-13)
    np.testing.assert_allclose(F.perceptron(moved).real, F.perceptron(x), atol=1e-14)


# ------------------------------------------------------------------------------------- forces


def test_powers_are_few_small_and_few_large_ones():
    z = np.exp(1j * np.arange(3.0))
    for count in range(1, 40):
        found = forces.Powers(z, count)
        assert found.s == int(np.ceil(np.sqrt(count)))
        assert found.s * (found.t - 1) < count <= found.s * found.t
        k = np.arange(found.s * found.t)
        np.testing.assert_allclose(found.moments(np.ones(3)), (z[:, None] ** k).sum(axis=0))


def test_sums_without_a_matrix_are_those_of_the_identity():
    mu, x = measure(3, 9, 3), points(1, 5, 3)
    for at, found in (
        (x, forces.direct(x, mu.atoms, mu.weights, 2.0)),
        (mu.atoms, forces.symmetric(mu.atoms, mu.weights, 2.0)),
    ):
        Z, N, _ = reference(SphereEnergy(2.0), at, mu)
        np.testing.assert_allclose(found[0], Z, rtol=1e-13)
        np.testing.assert_allclose(found[1], N, atol=1e-14)


@pytest.mark.parametrize("kind", ["identity", "indefinite"])
def test_shifted_sums_have_the_same_quotient(kind):
    B = matrix(kind, 3)
    F, mu, x = SphereEnergy(5.0, B=B), measure(4, 300, 3), points(2, 7, 3)
    Z, N = forces.direct(x, mu.atoms, mu.weights, 5.0, B, F.shift, shift=True)
    exponent = 5.0 * x @ (mu.atoms if B is None else mu.atoms @ B).T
    # the largest exponential is one
    share = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    np.testing.assert_allclose(Z, share @ mu.weights, rtol=1e-13)
    np.testing.assert_allclose(N / Z[:, None], reference(F, x, mu)[2], atol=1e-13)


# ----------------------------------------------------------------------------------- clusters


def group_of(x, spread, threshold):
    """One cluster of all particles with a stated spread."""
    n = len(x)
    return Clusters(1, np.zeros(n, int), np.ones(1), x[:1], np.array([spread]), threshold)


def test_distances_within_a_cluster_are_exact():
    """Between any two of its particles, also when they are hardly apart."""
    close = on_circle(0.0, 1e-9)
    assert not group_of(close, 0.6e-9, 0.99e-9).within(close)
    assert group_of(close, 0.6e-9, 1.01e-9).within(close)
    # the first one is in the middle
    three = on_circle(0.0, -0.1, 0.1)
    assert not group_of(three, 0.11, 0.199).within(three)
    assert group_of(three, 0.11, 0.201).within(three)
    # a distance that is the threshold up to rounding is within it
    pair = on_circle(0.0, 0.3)
    assert group_of(pair, 0.2, 0.3 * (1 - 5e-13)).within(pair)
    assert not group_of(pair, 0.2, 0.3 * (1 - 1e-11)).within(pair)
    one = on_circle(0.7)
    assert group_of(one, 1e-16, 0.0).within(one)
    # antipodal particles are as far apart as any
    ends = on_circle(0.2, 0.2 + np.pi)
    assert group_of(ends, 2.0, np.pi).within(ends) and not group_of(ends, 2.0, 3.1).within(ends)


def test_only_clusters_that_may_be_wide_are_looked_at():
    x = on_circle(0.0, 0.1, 2.0, 2.5)
    found = Clusters(2, np.array([0, 0, 1, 1]), np.full(2, 0.5), x[::2], np.array([0.06, 0.3]), 0.4)
    assert found.widest == 0.3 and found.tight and not found.within(x)
    assert replace(found, threshold=0.51).within(x)
    for name in ("labels", "masses", "centres", "spread"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[...] = 0
    assert replace(found, threshold=0.3).tight and not replace(found, threshold=0.29).tight


@pytest.mark.parametrize("d", [2, 3])
def test_centres_of_light_and_of_balanced_clusters(d):
    x = np.zeros((5, d))
    x[:, :2] = on_circle(0.0, 0.2, 2.0, 2.1, 4.0)
    for size in (1e-14, 1e-200, 1e-300, 2.0**-1070):
        w = np.array([size, 3 * size, 0.0, 0.0, 1.0])
        found = clusters(Measure(x, w), threshold=0.3)
        assert found.count == 3 and found.masses[0] == pytest.approx(4 * size, rel=1e-12)
        np.testing.assert_allclose(found.centres[0], unit(x[0] + 3 * x[1]), atol=1e-15)
        np.testing.assert_allclose(found.centres[1], unit(x[2] + x[3]), atol=1e-15)
    # the mean of two nearly opposite particles has half the angle between one and minus the other
    for angle, placed in ((3e-12, True), (1e-12, False)):
        pair = np.zeros((2, d))
        pair[:, 1], pair[0, 0], pair[1, 0] = angle / 2, 1.0, -1.0
        found = clusters(pair, threshold=4.0)
        assert np.isfinite(found.centres).all() == placed
        assert found.spread[0] == pytest.approx(np.pi / 2 if placed else np.pi, abs=1e-9)
    both = clusters(np.stack([x[0], -x[0]]), threshold=4.0)  # balanced exactly
    assert both.count == 1 and np.isnan(both.centres).all() and both.spread.tolist() == [np.pi]


@pytest.mark.parametrize("d", [2, 3])
def test_half_a_turn_reaches_everything(d):
    x = np.zeros((2, d))
    x[:, 0] = 1 + 1e-9, -1 - 1e-9
    assert clusters(x, threshold=np.pi).count == 1
    assert clusters(x, threshold=3.1).count == 2


@pytest.mark.parametrize("d", [3, 4])
def test_crowds_are_linked_by_one_pair(d):
    """Each crowd has more particles than the neighbours that are looked up at once."""
    rng = np.random.default_rng(d)
    # crowds of width 0.01, gaps of 0.1 between the first three, of 0.2 to the last
    angles = np.concatenate([at + 0.01 * rng.random(15) for at in (0.0, 0.1, 0.2, 0.4)])
    angles = np.append(angles, 0.3)
    x = np.zeros((len(angles), d))
    x[:, :2] = on_circle(*angles)
    order = rng.permutation(len(x))
    for threshold in (0.011, 0.095, 0.1, 0.15, 0.25):
        gaps = np.diff(np.sort(angles)) > threshold
        part = np.empty(len(x), int)
        part[np.argsort(angles)] = np.append(0, np.cumsum(gaps))
        count, labels = link(x[order], threshold)
        assert count == gaps.sum() + 1
        assert np.array_equal(labels[:, None] == labels, part[order][:, None] == part[order])
        assert labels[0] == 0 and np.array_equal(np.unique(labels), np.arange(count))


def test_linkages_by_name():
    for bad in ("complete", None, ["single"]):
        with pytest.raises(ValueError, match=r"^linkage: expected one of \['single', 'arcs'\]"):
            clusters(np.eye(2), threshold=1.0, linkage=bad)
    turned = on_circle(*(1.0 + np.array([0.0, 0.1, 0.25, 0.3, 1.0, 1.15])))[[2, 0, 5, 1, 4, 3]]
    labels = clusters(turned, threshold=0.2, linkage="arcs").labels
    assert labels.tolist() == [0, 1, 2, 1, 2, 0]


def test_neighbours_at_exactly_the_threshold():
    x = on_circle(0.0, np.pi / 2)
    assert clusters(x, threshold=np.pi / 2).count == 1
    assert clusters(x, threshold=np.pi / 2 * (1 - 1e-12)).count == 2
    assert clusters(x, threshold=np.pi / 2, linkage="arcs").count == 1
    corner = np.eye(3)
    assert clusters(corner, threshold=np.pi / 2).count == 1
    assert clusters(corner, threshold=np.pi / 2 * (1 - 1e-12)).count == 3
    same = np.repeat(corner[:1], 12, axis=0)
    assert clusters(np.concatenate([same, corner]), threshold=0.0).count == 3


# ------------------------------------------------------------------------ arrangements, maxima


@pytest.mark.parametrize(("J", "d", "regions"), [(5, 3, 22), (3, 3, 8), (4, 2, 8), (2, 3, 4)])
def test_regions_are_refused_beyond_the_limit(J, d, regions, monkeypatch):
    a = points(J, J, d)
    monkeypatch.setattr(arrangement, "MOST_FACES", regions)
    assert len(sign_regions(a)) == len(sign_regions(np.concatenate([a, -a]))) == regions
    monkeypatch.setattr(arrangement, "MOST_FACES", regions - 1)
    with pytest.raises(ValueError, match="^a: "):
        sign_regions(a)


def test_no_hyperplanes_leave_one_region():
    signs, inside = cells(np.empty((0, 3)))
    assert signs.shape == (1, 0) and inside.shape == (1, 3) and np.linalg.norm(inside) == 1
    bases, through = flats(np.eye(3)[:2], 0)
    np.testing.assert_array_equal(bases, np.eye(3)[None])
    assert through.tolist() == [[False, False]]


def test_lines_up_to_a_distance():
    """A vector goes to the first line it is close to; closeness is not handed on."""
    a = on_circle(0.0, 0.1, 0.2, np.pi, np.pi + 0.2)
    first, which, side = lines(a, np.linalg.norm(a[1] - a[0]))  # equality is close
    np.testing.assert_array_equal(first, a[[0, 2]])
    assert which.tolist() == [0, 0, 1, 0, 1] and side.tolist() == [1, 1, 1, -1, -1]
    assert lines(a)[1].tolist() == [0, 1, 2, 0, 2]
    near = np.array([[1.0, 0.0], [1.0, 0.9e-9], [-1.0, 3e-9]])
    assert lines(near)[1].tolist() == [0, 0, 1]


def potential(x, a, omega):
    return np.maximum(x @ a.T, 0) ** 2 @ omega


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


def test_cells_of_rows_of_any_length():
    a = points(3, 4, 3)
    signs, inside = cells(a)
    for lengths in ([1e-3, 2.0, 5.0, 1e4], [7.0, 7.0, 7.0, 7.0]):
        longer = cells(np.array(lengths)[:, None] * a)
        assert set(map(tuple, longer[0])) == set(map(tuple, signs)) and len(signs) == 14
    np.testing.assert_array_equal(np.sign(inside @ a.T), signs)
    parallel, _ = cells(np.array([[1.0, 0.0], [3.0, 0.0], [-2.0, 0.0], [0.0, 5.0]]))
    assert sorted(map(tuple, parallel)) == [(x, x, -x, y) for x in (-1, 1) for y in (-1, 1)]


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


def test_messages_of_the_closed_forms():
    for signs in ([1, 0, -1], [0, 1, 2], [-1, 0, 1]):
        with pytest.raises(ValueError, match=r"^signs: expected entries 1 or -1, got 0$"):
            collinear_maximum([1.0, 0.0], signs, [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="^a1: .* got d = 1"):
        collinear_maximum([1.0], [1], [1.0])
    with pytest.raises(ValueError, match="^omega: expected a positive weight, got .* 0$"):
        diagonal_maximum([0.0, -1.0])
    assert diagonal_maximum([0.5, -1.0]).value == 0.5
    with pytest.raises(ValueError, match="^d: "):
        diagonal_maximum([1.0, 1.0, 1.0], 2)
    with pytest.raises(ValueError, match="^d: "):
        diagonal_maximum([1.0])
    assert diagonal_maximum([1.0], 2).points.tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="^omega: expected positive weights, got 0"):
        nonnegative_maximum(np.eye(2), [1.0, 0.0])
    with pytest.raises(ValueError, match="^a: expected entries >= 0, got -0.6"):
        nonnegative_maximum([[0.8, -0.6]], [1.0])


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


# -------------------------------------------------------------------------------- settled runs


def watched(monkeypatch):
    """Stiff solvers that are made from now on, with their options and steps."""
    made = []

    class Watched(Rosenbrock):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.options, self.taken = options, []
            made.append(self)

        def step(self):
            before = self.t
            message = super().step()
            self.taken.append((before, self.t - before))
            return message

    monkeypatch.setattr(settle_module, "Rosenbrock", Watched)
    return made


def same_run(one, other):
    assert (one.reason, one.steps, one.evaluations) == (
        other.reason,
        other.steps,
        other.evaluations,
    )
    for name in ("times", "value", "speed", "dissipation", "count", "labels"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.measure.atoms, other.measure.atoms)


def test_defaults_of_a_run_are_the_documented_ones():
    F, mu = energy(5.0, "gelu", 2), Measure(points(1, 12, 2))
    rule = {"ascent": False, "step": 0.1, "horizon": 2e4, "tolerance": 1e-4, "window": 5,
            "merge": 1e-8, "record": 0, "linkage": "arcs", "most": 200_000,
            "threshold": 1 / (2 * np.sqrt(5.0)), "progress": False}  # fmt: skip
    run = settle(F, mu)
    assert run.stopped and run.method == "rosenbrock" and run.atoms.shape == (0, 12, 2)
    same_run(run, settle(F, mu, method="rosenbrock", atol=1e-3, **rule))
    short = {"method": "euler", "horizon": 3.0}
    same_run(settle(F, mu, **short), settle(F, mu, **rule | short))
    three = Measure(on_circle(0.0, 0.5, 1.5))
    slow = settle(SphereEnergy(1.0), three, ascent=True, method="euler")
    assert slow.times[-1] == 10 and 2e-4 > slow.speed[-2] > 1e-4 > slow.speed[-1]
    with pytest.raises(ValueError, match="read-only"):
        run.speed[...] = 0
    # the rule: five snapshots after the start
    still = settle(SphereEnergy(1.0), Measure(on_circle(0.3)))
    assert still.stopped and len(still.times) == 6
    near = Measure(on_circle(0.0, 1.5e-8, 1.0))
    once = {"method": "euler", "horizon": 0.1}
    assert settle(F, near, **once).measure.size == 3
    assert settle(F, near, merge=2e-8, **once).measure.size == 2


def ring_that_never_settles(n=5):
    """A stationary ring is one chain that is wider than the threshold."""
    return {"F": SphereEnergy(1.0), "mu": Measure(on_circle(*(2 * np.pi * np.arange(n) / n))),
            "linkage": "single", "threshold": 1.3}  # fmt: skip


def test_stiff_steps_grow_with_the_time(monkeypatch):
    made = watched(monkeypatch)
    run = settle(**ring_that_never_settles())
    assert not run.stopped and run.reason == "the horizon is reached" and run.times[-1] == 2e4
    assert (run.count == 1).all() and run.speed.max() < 1e-12
    (solver,) = made
    start, length = np.array(solver.taken).T
    limit = np.maximum(1.0, 0.25 * start)
    assert (length <= limit * (1 + 1e-12)).all()
    # nothing moves: the only limits are growth at the start and the end of the run
    np.testing.assert_allclose(length[15:-1], limit[15:-1], rtol=1e-12)
    assert solver.options["rtol"] == 0 and solver.options["atol"] == 1e-3
    assert run.steps == len(start) and run.evaluations == solver.nfev
    # a snapshot at the first end of a step that is at least 1 later
    seen, ends = [0.0], start + length
    for t in ends:
        if t - seen[-1] >= 1 or t == ends[-1]:
            seen.append(t)
    np.testing.assert_array_equal(run.times, seen)


def test_stiff_steps_are_short_where_only_time_is_missing(monkeypatch):
    made = watched(monkeypatch)
    run = settle(SphereEnergy(1.0), Measure(on_circle(0.3)), window=60)
    (solver,) = made
    _, length = np.array(solver.taken).T
    assert run.stopped and length.max() <= 1 + 1e-12
    assert len(run.times) == 61 and run.count.tolist() == [1] * 61
    assert (np.diff(run.times) >= 1).all() and (np.diff(run.times) < 2).all()


def test_particles_are_merged_on_the_way(monkeypatch):
    made = watched(monkeypatch)
    mu = Measure(on_circle(0.0, 0.5, 1.5), [0.5, 0.2, 0.3])
    run = settle(SphereEnergy(1.0), mu, ascent=True, merge=1e-2, tolerance=1e-9, atol=1e-5)
    assert run.stopped and run.measure.size == 1 and run.labels.tolist() == [0, 0, 0]
    assert run.measure.weights.tolist() == pytest.approx([1.0])
    assert [len(solver.y) for solver in made] == [6, 4, 2]
    assert made[0].options["first_step"] is None
    for before, after in zip(made, made[1:], strict=False):
        # the next one goes on with the step that this one would take, at its time
        first = min(before.h_abs, 2e4 - before.t)
        assert after.options["first_step"] == first
        assert after.taken[0][0] == before.t
    assert run.evaluations == sum(solver.nfev for solver in made)
    assert run.steps == sum(len(solver.taken) for solver in made)
    assert all(solver.options["atol"] == 1e-5 for solver in made)
    # the snapshots go on through the mergers
    assert (np.diff(run.times) >= 1).all() and (np.diff(run.count) <= 0).all()
    twins = settle(SphereEnergy(1.0), Measure(on_circle(0.0, 0.0, 1.0)), ascent=True, horizon=3.0)
    assert len(made[3].y) == 4 and twins.labels.tolist() == [0, 0, 1]
    assert twins.measure.weights.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_a_merger_keeps_the_barycentre():
    mu = Measure(on_circle(0.0, 1e-3, 2.0), [0.1, 0.3, 0.6])
    run = settle(SphereEnergy(1.0), mu, method="euler", step=1e-12, horizon=1e-12, merge=1e-2)
    np.testing.assert_allclose(
        run.measure.atoms, unit([mu.atoms[0] + 3 * mu.atoms[1], mu.atoms[2]]), atol=1e-11
    )
    np.testing.assert_allclose(run.measure.weights, [0.4, 0.6], rtol=1e-14)
    assert run.clusters.masses == pytest.approx([0.4, 0.6])


def test_limits_of_a_run():
    F, mu = SphereEnergy(1.0), Measure(on_circle(0.0, 1.0))
    assert settle(F, mu, method="euler", step=0.1, horizon=0.1).steps == 1
    assert settle(F, mu, method="euler", step=0.1, horizon=0.26).steps == 3
    assert settle(F, mu, method="euler", step=0.1, horizon=5.0, most=4).steps == 4
    assert settle(F, mu, method="euler", step=0.1, horizon=0.2, most=4).steps == 2
    with pytest.raises(ValueError, match="^horizon: "):
        settle(F, mu, step=0.1, horizon=0.04)
    with pytest.raises(ValueError, match="^horizon: "):
        settle(F, mu, step=1.0, horizon=2.0**53)
    with pytest.raises(ValueError, match="^horizon: "):
        settle(F, mu, step=0.1, horizon=2.0**53 / 5)
    with pytest.raises(ValueError, match="^merge: "):
        settle(F, mu, threshold=0.25, merge=0.25)
    assert settle(F, mu, threshold=0.25, merge=0.249, most=1).steps == 1
    most = settle(**ring_that_never_settles(), most=7)
    assert most.reason == "7 steps are done" and most.steps == 7 and not most.stopped


def test_every_snapshot_is_kept_on_demand():
    options = ring_that_never_settles() | {"most": 12}
    for every in (1, 2, 3):
        run = settle(record=every, **options)
        n = len(run.times)
        assert run.recorded.tolist() == sorted({*range(0, n, every), n - 1})
        assert run.atoms.shape == (len(run.recorded), 5, 2)


@pytest.mark.parametrize("method", ["euler", "rosenbrock"])
def test_progress_counts_steps(monkeypatch, method):
    bars = []

    class Bar:
        def __init__(self, **options):
            self.options, self.n, self.seen = options, 0, [0]
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def set_postfix_str(self, *_):
            pass

        def update(self, more):
            self.n += more
            self.seen.append(self.n)

    monkeypatch.setattr(settle_module, "tqdm", Bar)
    mu = Measure(points(1, 12, 2))
    run = settle(SphereEnergy(5.0), mu, method=method, most=35)
    (bar,) = bars
    assert bar.n == run.steps and bar.seen == sorted(bar.seen) and len(bar.seen) > 3
    assert (bar.options["total"], bar.options["disable"]) == (35, True)
