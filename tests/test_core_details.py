"""Promises of measures, spaces, functionals and certificates that other tests see from afar."""

from types import SimpleNamespace

import numpy as np
import pytest
from reference import heads, make
from spies import watch
from test_best_head import bounds as three_bounds
from test_certificate import Linear

from mfbook import _validate as validate
from mfbook import functional
from mfbook.bounds import PropagationBound, drift_lipschitz, propagation_bound
from mfbook.flow.influence import influence
from mfbook.functional import Combination, Functional, FunctionalCheck, Minimum, check_functional
from mfbook.measure import Measure
from mfbook.models import layers, network
from mfbook.models.attention import (
    AttentionRisk,
    HeadShape,
    ensemble,
)
from mfbook.models.attention.best_head import _least, correlation_bound
from mfbook.models.attention.loss import (
    draw_labels,
)
from mfbook.models.confinement import Anchor, Ridge
from mfbook.optimise import Gap, boost, certificate, frank_wolfe_gap, optimal_weights
from mfbook.space import Ball, Euclidean, Sphere

# ------------------------------------------------------------------------------- arguments


def refused(error, message, function, *arguments, **options):
    with pytest.raises(error, match=message):
        function(*arguments, **options)


def test_numbers_at_the_ends_of_their_ranges():
    L = validate.LARGEST
    assert validate.positive(L, "x", largest=L) == L
    refused(ValueError, "x: expected at most", validate.positive, np.nextafter(L, 2 * L), "x",
            largest=L)  # fmt: skip
    assert validate.positive(0, "x", allow_zero=True) == 0
    refused(ValueError, "finite number > 0, got 0", validate.positive, 0, "x")
    refused(ValueError, "finite number >= 0, got -1", validate.positive, -1, "x", allow_zero=True)
    assert [validate.scale(x, "x") for x in (1 / L, L)] == [1 / L, L]
    refused(ValueError, "x: expected at least", validate.scale, np.nextafter(1 / L, 0), "x")
    assert [validate.index(i, "i", 3) for i in (-3, 2)] == [-3, 2]
    for i in (-4, 3):
        refused(ValueError, "from -3 to 2", validate.index, i, "i", 3)
    assert validate.count(2**63 - 1, "n") == 2**63 - 1
    refused(ValueError, "fits 64 bits", validate.count, 2**63, "n")
    assert validate.count(4, "n", least=4) == 4
    refused(ValueError, "n: expected an integer >= 4", validate.count, 3, "n", least=4)
    np.testing.assert_array_equal(validate.indices([0, 2], "i", 3), [0, 2])
    refused(ValueError, "0 to 2, got 0 to 3", validate.indices, [0, 3], "i", 3)
    refused(ValueError, "0 to 2, got -1 to 0", validate.indices, [0, -1], "i", 3)
    assert [validate.real(x, "x") for x in (10**400, -(10**400))] == [np.inf, -np.inf]
    assert validate.generator(0).random() == np.random.default_rng(0).random()


def test_arrays_at_the_ends_of_their_ranges():
    L = validate.LARGEST
    for top in ([L, -L], [1j * L, -L]):
        assert validate.array(top, "x", (2,), allow_complex=True, largest=L) is not None
    for high in (np.array([0, -2 * L]), np.array([2 * L, 0]), np.array([0, -2j * L])):
        refused(ValueError, "x: expected numbers up to 1e.75 in size, got 2e.75", validate.array,
                high, "x", (2,), allow_complex=True, largest=L)  # fmt: skip
        refused(ValueError, "mu: expected atoms up to", validate.measure, Measure(high[None]),
                real=False, largest=L)  # fmt: skip
    assert validate.measure(Measure([[L]]), largest=L).size == 1
    refused(ValueError, r"got nan at index \(0, 1\)", validate.array, [[0, np.nan]], "x",
            ("n", 2), largest=L)  # fmt: skip
    refused(TypeError, "x: expected real numbers", validate.array, [1j], "x", (1,))
    refused(TypeError, "x: expected real or complex numbers", validate.array, ["a"], "x", (1,),
            allow_complex=True)  # fmt: skip
    refused(ValueError, r"x: expected shape \(n,\), got \(1, 1\)", validate.array, [[1.0]], "x",
            ("n",))  # fmt: skip
    refused(ValueError, r"expected shape \(2, ..., 3\), got \(2,\)", validate.array, [1.0, 2.0],
            "x", (2, ..., 3))  # fmt: skip
    for middle in ((), (1,), (4, 5)):
        x = validate.array(np.ones((2, *middle, 3)), "x", (2, ..., 3))
        assert x.shape == (2, *middle, 3)
    for kind, expected in ((">f4", "f4"), (">c16", "c16"), ("f2", "f8"), ("i1", "f8"),
                           (np.longdouble, "f8"), (np.clongdouble, "c16")):  # fmt: skip
        x = validate.array(np.array([1, 2], kind), "x", (2,), allow_complex=True)
        assert x.dtype == np.dtype(expected) and x.dtype.isnative
        np.testing.assert_array_equal(x, [1, 2])


def test_float32_may_be_off_by_four_roundings_of_each_entry():
    n = 10_000
    eps = float(np.finfo(np.float32).eps)
    p = np.full(n, 1 / n)
    for share, right in ((3.9, True), (-3.9, True), (4.1, False), (-4.1, False)):
        q = p * (1 + share * n * eps)
        if right:
            assert validate.probabilities(q.astype(np.float32), "p", (n,)).sum() == pytest.approx(1)
        else:
            refused(ValueError, "p: expected to sum to 1", validate.probabilities,
                    q.astype(np.float32), "p", (n,))  # fmt: skip


def test_only_errors_about_the_measure_are_renamed():
    def raises(message):
        with validate.naming("atoms"):
            raise ValueError(message)

    refused(ValueError, "^atoms: expected mu: more", raises, "mu: expected mu: more")
    refused(ValueError, "^rng: none", raises, "rng: none")


# ------------------------------------------------------------------------------- measures


def test_measures_may_be_moved_into_the_complex_numbers():
    moved = Measure([[1.0], [2.0]], [0.25, 0.75]).map(lambda x: x + 1j)
    np.testing.assert_array_equal(moved.atoms, [[1 + 1j], [2 + 1j]])
    np.testing.assert_array_equal(moved.weights, [0.25, 0.75])
    assert Measure.dirac([1j]).dim == 1


def test_atoms_as_far_apart_as_the_tolerance_are_joined():
    mu = Measure([[0.0], [1.0]], [0.25, 0.75])
    np.testing.assert_array_equal(mu.merge(1.0).atoms, [[0.75]])
    assert mu.merge(np.nextafter(1, 0)).size == 2


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("dim", [1, 2, 20])
def test_merging_at_any_size_and_in_many_dimensions(size, dim):
    corner = np.full(dim, size)
    mu = Measure([corner, 0 * corner, -corner], [0.25, 0.25, 0.5])
    # opposite corners are 2 sqrt(dim) apart, neighbours half of that
    apart = np.sqrt(dim) * size
    merged = mu.merge(1.01 * apart)
    assert merged.size == 1
    np.testing.assert_allclose(merged.atoms[0], -corner / 4, rtol=1e-14)
    assert mu.merge(0.99 * apart).size == 3
    two = Measure([corner, -corner])
    assert [two.merge(t * apart).size for t in (1.99, 2.01, 1e7)] == [2, 1, 1]


# ------------------------------------------------------------------------------- spaces

BALL = Ball(1.5, (3, 1, 2))


@pytest.mark.parametrize("space", [Euclidean(), BALL, Sphere()], ids=lambda s: type(s).__name__)
def test_charts_pull_gradients_back(space):
    rng = np.random.default_rng(0)
    q, c = 0.6 * rng.normal(size=(5, 6)), rng.normal(size=6)
    x, back = space.chart(q)
    assert space.contains(x).all()
    # f(x) = <c, x> + |x|^4 / 4 / 4 is no function of single blocks, and complex steps go through it
    stated = back(c + (x**2).sum(axis=1, keepdims=True) * x / 4)

    def f(q):
        y = space.chart(q)[0]
        return y @ c + (y * y).sum(axis=1) ** 2 / 16

    for k in range(6):
        slope = np.imag(f(q + 1e-30j * np.eye(6)[k])) / 1e-30
        np.testing.assert_allclose(stated[:, k], slope, rtol=1e-12, atol=1e-14)


def test_coordinates_of_points_in_a_ball():
    x = BALL.sample(0, 200)
    x[0] = 0
    inside = np.all([np.linalg.norm(b, axis=1) < 1.4998 for b in np.split(x, [3, 4], 1)], axis=0)
    assert inside.sum() > 150
    q = BALL.unchart(x)
    np.testing.assert_allclose(BALL.chart(q)[0][inside], x[inside], rtol=1e-11, atol=1e-15)
    assert all((np.linalg.norm(b, axis=1) < 1).all() for b in np.split(q, [3, 4], axis=1))
    # on the boundary, and as far outside as one likes: inside by a part in ten thousand
    for size in (1, 1.01, 7):
        out = BALL.project(1e6 * x[1:]) * size
        np.testing.assert_allclose(
            BALL.chart(BALL.unchart(out))[0], out / size * (1 - 1e-4), rtol=1e-10
        )
    # the map is folded at the sphere of radius one: q and its inversion are one point
    for b in np.split(q[1:], [3, 4], axis=1):
        ball = Ball(1.5, (b.shape[1],))
        turned = b / (b**2).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(ball.chart(turned)[0], ball.chart(b)[0], rtol=1e-9)


def test_what_points_out_of_a_ball_is_dropped_at_its_boundary_only():
    v = np.array([[1.0, 1.0]])
    ball = Ball(2.0, (2,))
    for size, expected in ((1, [[0, 1]]), (1 - 1e-8, [[0, 1]]), (1 - 2e-8, v), (3, [[0, 1]])):
        x = np.array([[2.0 * size, 0.0]])
        np.testing.assert_allclose(ball.tangent(x, v), expected, atol=1e-15)
        np.testing.assert_array_equal(ball.tangent(-x, v), v)
    np.testing.assert_array_equal(ball.tangent([[2.0, 0.0]], [[0.0, 1.0]]), [[0, 1]])


def test_points_as_far_off_as_the_tolerance_are_contained():
    ball, sphere = Ball(2.0, (1, 1)), Sphere()
    for x, inside in ((3.0, True), (-3.0, True), (np.nextafter(3, 4), False)):
        assert ball.contains([[x, 0.0]], 0.5).tolist() == [inside]
        assert ball.contains([[0.0, x]], 0.5).tolist() == [inside]
    for x, inside in ((1.5, True), (0.5, True), (1.5000001, False), (0.4999999, False)):
        assert sphere.contains([[x, 0.0]], 0.5).tolist() == [inside]
    for space in (Euclidean(), ball, sphere):
        assert space.contains([[1.0, 0.0]], 0.0).all()
        refused(ValueError, "tolerance", space.contains, [[1.0, 0.0]], -1e-9)


def test_complex_points_go_through_the_spaces():
    x, v = np.array([[0.6, 0.8]]), np.array([[1.0, 2.0]])
    for space in (Euclidean(), Ball(1.5, (2,)), Sphere()):
        t = space.tangent(x, 1j * v)
        np.testing.assert_allclose(t, 1j * space.tangent(x, v), rtol=1e-15)
        assert np.iscomplexobj(space.retract(x + 0j, v)) and np.iscomplexobj(space.unchart(x + 0j))
    refused(ValueError, "^x: the origin", Sphere().project, np.zeros((1, 2), complex))
    refused(ValueError, "^q: the origin", Sphere().chart, np.zeros((1, 2), complex))
    refused(ValueError, "^q: the origin", Sphere().chart, np.array([[1.0, 0], [0, 0]]))
    refused(ValueError, "^dim: expected an integer >= 2", Sphere().sample, 0, 3, 1)
    assert Sphere().sample(0, 3, 2).shape == (3, 2)


def test_steps_that_do_not_belong_to_the_points():
    for space in (Euclidean(), Ball(1.5, (2,)), Sphere()):
        for call in (space.tangent, space.retract, space.distance):
            name = "y" if call == space.distance else "v"
            refused(ValueError, f"^{name}: expected shape", call, np.eye(2), np.ones((3, 2)))
            refused(ValueError, f"^{name}: expected shape", call, np.eye(2), np.ones((2, 3)))


def test_all_steps_of_a_check_start_at_the_atoms():
    asked = []

    class Watched(Euclidean):
        def retract(self, x, v):
            asked.append(x)
            return x + v

    mu = Measure([[1.0, 2.0], [3.0, 5.0]])
    assert check_functional(Ridge(1.0).on(Watched()), mu, 0).ok
    assert len(asked) == 4 and all((x == mu.atoms).all() for x in asked)


@pytest.mark.parametrize("space", [Euclidean(), BALL, Sphere()], ids=lambda s: type(s).__name__)
def test_points_in_tables_of_any_shape(space):
    """Rows in a table (2, 3, D): the same as row by row."""
    rng = np.random.default_rng(0)
    x, v = (space.project(rng.normal(size=(2, 3, 6)) * 3) for _ in range(2))

    def both(x, v):
        point, back = space.chart(v)
        yield from (space.project(3 * x), space.tangent(x, v), space.retract(x, v))
        yield from (space.contains(3 * x), space.distance(x, v), space.unchart(x))
        yield from (point, back(x))

    rows = both(x.reshape(6, 6), v.reshape(6, 6))
    for table, flat in zip(both(x, v), rows, strict=True):
        np.testing.assert_allclose(table, flat.reshape(2, 3, *flat.shape[1:]), rtol=1e-14)


# ------------------------------------------------------------------------------- attention


def test_labels_are_the_first_words_that_the_sum_passes():
    Y = np.array([[0.0, 0.5, 0.0, 0.5]])
    for uniform, word in ((0.0, 1), (np.nextafter(0.5, 0), 1), (0.5, 3), (np.nextafter(1, 0), 3)):
        np.testing.assert_array_equal(draw_labels(Y, np.array([[uniform]]))[0], np.eye(4)[word])
    # a sum that rounding leaves below one: the last word
    np.testing.assert_array_equal(draw_labels(Y * 0.9, np.array([[0.95]]))[0], np.eye(4)[3])


def test_complex_heads_are_split_joined_and_weighed():
    R, _ = make(1, d=3, k=2, v=1)
    theta = heads(1, 4, R.shape) * (1 + 0.1j)
    np.testing.assert_array_equal(R.shape.join(*R.shape.split(theta)), theta)
    w = np.array([0.1, 0.2, 0.3, 0.4])
    value, slope = R.over_weights(theta)(w)
    mu = Measure(theta, w)
    assert value == pytest.approx(R(mu), rel=1e-12)
    np.testing.assert_allclose(slope, R.first_variation(theta, mu), rtol=1e-11)


def test_runs_one_after_the_other_are_in_their_order(monkeypatch):
    R, _ = make(1, d=1, k=1, v=1)
    start = heads(2, 6, R.shape).reshape(3, 2, -1)
    monkeypatch.setattr(ensemble, "BLOCK", 2)
    seen = ensemble.sgd_ensemble(R, start, [0.0, 0.5], 0.25, [1, 2, 3], lambda mu: mu.atoms[:, 0])
    assert seen.shape == (2, 3, 2)
    np.testing.assert_array_equal(seen[0], start[:, :, 0])


def test_precision_may_be_named_in_any_way():
    R, _ = make(1, d=1, k=1, v=1)
    for name in ("float32", np.float32, np.dtype("f4")):
        risk = AttentionRisk(R.X, R.Y, R.W_U, R.shape, dtype=name)
        assert risk.dtype is np.float32 and risk.X.dtype == np.float32


def test_heads_with_more_parameters_than_integers_count():
    assert HeadShape(1, 2, 3).size == 2 * 2 + 2 * 3
    refused(ValueError, "size 2dk", HeadShape, 2**40, 2**30, 1)
    refused(ValueError, "size 2dk", HeadShape, 2**40, 1, 2**30)


@pytest.mark.parametrize("space", [Euclidean(), BALL, Sphere()], ids=lambda s: type(s).__name__)
def test_a_gradient_and_a_matrix_belong_to_one_point(space):
    x = np.ones(6)
    for wrong in (np.ones(5), np.ones((6, 1))):
        refused(ValueError, r"^gradient: expected shape \(6,\)", space.hessian, x, wrong, np.eye(6))
    refused(ValueError, r"^hessian: expected shape \(6, 6\)", space.hessian, x, x, np.eye(5))
    refused(ValueError, r"^x: expected shape \(D,\)", space.hessian, x[None], x, np.eye(6))


def test_data_of_two_layers_are_private_arrays():
    X, Y, W_U = [[[1.0], [2.0]]], [[[1, 0], [0, 1]]], [[1, -1]]
    data = [np.array(a, float) for a in (X, Y, W_U)]
    for risk in (layers.StackedRisk(X, Y, W_U, HeadShape(1, 1, 1)),
                 layers.StackedRisk(*data, HeadShape(1, 1, 1))):  # fmt: skip
        for a, right in zip((risk.X, risk.Y, risk.W_U), (X, Y, W_U), strict=True):
            np.testing.assert_array_equal(a, right)
            assert a.dtype == float and not a.flags.writeable
    for a in data:
        a[:] = 0
    assert risk.X.any() and risk.Y.any() and risk.W_U.any()


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_scores_of_any_size_in_two_layers(size):
    """A first layer that writes nothing: the second is one layer of attention."""
    one, _ = make(3, d=2, k=1, v=1)
    two = layers.StackedRisk(one.X, one.Y, one.W_U, one.shape)
    theta = heads(4, 3, one.shape) * np.repeat([size, 1.0], [4, 4])
    mu = Measure(layers.label(0 * theta, theta))
    assert two(mu) == pytest.approx(one(Measure(theta)), rel=1e-12)
    G = two.gradient(mu.atoms, mu)[3:, 1:]
    np.testing.assert_allclose(G, 2 * one.gradient(theta, Measure(theta)), rtol=1e-8, atol=1e-10)


def test_weights_of_complex_neurons_and_of_too_large_ones():
    L = network.TwoLayerRisk([[0.5], [1.0]], [1.0, 3.0], activation="tanh")
    atoms, w = np.array([[2.0, 1.0, 0.1], [1j, 0.5, 0.2]]), np.array([0.25, 0.75])
    value, slope = L.over_weights(atoms)(w)
    assert value == pytest.approx(L(Measure(atoms, w)), rel=1e-14)
    np.testing.assert_allclose(slope, L.first_variation(atoms, Measure(atoms, w)), rtol=1e-13)
    linear = network.TwoLayerRisk([[0.5], [1.0]], [1.0, 3.0], activation="linear")
    refused(ValueError, "^atoms: expected smaller", linear.over_weights, [[1e200, 1e200, 0.0]])
    refused(ValueError, "^atoms: expected smaller", linear.over_weights, [[1e160, 1.0, 0.0]])


def test_what_does_not_depend_on_the_place_has_no_influence():
    class Constant:
        def __call__(self, x):
            return np.full(len(x), 2.0)

        def gradient(self, x):
            return np.zeros_like(x)

    mu = Measure([[1.0], [2.0]], [0.25, 0.75])
    np.testing.assert_array_equal(influence(Ridge(1.0), mu, [0.0, 0.5], Constant()), 0)


@pytest.mark.parametrize("radius", [0.05, 0.5, 1.2, 8.0])
def test_bound_on_the_correlation_in_three_dimensions_and_at_any_scale(radius):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 5, 3))
    X[..., 2] *= 0.1
    bound = correlation_bound(X, Z, radius, 2)
    assert bound == pytest.approx(min(three_bounds(X, Z, radius, 2)), rel=1e-12)
    # scores have the product of two tokens and of two matrices
    for c in (1e-3, 1e3):
        other = correlation_bound(c * X, Z, radius / c, 2)
        assert other == pytest.approx(c * bound, rel=1e-12)
        assert correlation_bound(X, c * Z, radius, 2) == pytest.approx(c * bound, rel=1e-12)
    # a residual of zero counts like one that is small
    Z[1, 2] = 0
    zero = correlation_bound(X, Z, radius, 2)
    Z[1, 2] = 1e-14
    assert zero == pytest.approx(correlation_bound(X, Z, radius, 2), rel=1e-9)
    assert correlation_bound(X, 0 * Z, radius, 2) == 0


def test_a_ridge_between_two_singular_values_leaves_the_first():
    R, _ = make(0, d=2, k=1, v=1)
    local = R.at(Measure(heads(1, 3, R.shape)))
    scores = heads(2, 1, R.shape)[:, :4]
    C = local.correlation(np.concatenate([scores, np.zeros((1, 4))], axis=1))
    first, second = np.linalg.svd(C[0])[1]
    ridge = (first + second) / 2
    (least,), head = _least(local, scores, ridge, 1.5)
    value = local.first_variation(head)[0] + ridge / 2 * (head**2).sum()
    assert value == pytest.approx(least, rel=1e-12)
    assert least == pytest.approx(-2.25 * (first - ridge) + ridge / 2 * (scores**2).sum())


# ------------------------------------------------------------------------------- functionals


def test_least_value_of_one_model_with_ridges():
    R, _ = make(0, d=2, k=1, v=1)
    ball = R.shape.ball(1.5)
    mu = Measure(ball.sample(1, 3), [0.2, 0.3, 0.5])
    options = {"starts": 2, "pool": 8, "maxiter": 20}
    F = (2 * R).on(ball) + Ridge(0.01) + 3 * Ridge(0.02)
    one = R.at(mu).minimise(0, ridge=0.1 / 2, space=ball, **options)
    for found in (
        F.at(mu).minimise(0, ridge=0.03, **options),
        (F + Ridge(0.03)).at(mu).minimise(0, **options),
    ):
        np.testing.assert_allclose(found.point, one.point, rtol=1e-9, atol=1e-12)
        assert found.value == pytest.approx(2 * one.value, rel=1e-12)
        assert found.lower_bound == pytest.approx(2 * one.lower_bound, rel=1e-12)
        assert (found.converged, found.evaluations) == (one.converged, one.evaluations)
    plain = (R.at(mu).minimise(0, space=ball, **o, **options) for o in ({}, {"ridge": 0.0}))
    assert len({least.value for least in plain}) == 1
    for unknown in (-1 * R, 0.0 * R, R + R, R + Anchor(0.1, np.zeros(mu.dim)), Ridge(1.0) * 2):
        assert unknown.on(ball).at(mu).minimise(0) is NotImplemented


def test_linearisation_of_one_term_alone():
    class Linearised(Functional):
        def at(self, mu):
            return SimpleNamespace(linearised=lambda scale: ("scaled", scale))

    mu = Measure([[1.0]])
    assert (3.0 * Linearised()).at(mu).linearised(2.0) == ("scaled", 6.0)
    assert (Linearised() + Linearised()).at(mu).linearised(2.0) is NotImplemented
    assert (2 * Ridge(1.0)).at(mu).linearised(2.0) is NotImplemented


def test_combinations_weigh_their_terms():
    F = Combination(((2.0, Ridge(1.0)), (-0.5, Anchor(2.0, [1.0]))))
    mu, x = Measure([[3.0], [1.0]], [0.25, 0.75]), np.array([[2.0]])
    # x^2 - (x - 1)^2 / 2
    assert F(mu) == 0.25 * (9 - 2) + 0.75 * 1
    assert F.first_variation(x, mu) == [3.5] and F.gradient(x, mu) == [[3.0]]
    value, slope = F.over_weights(mu.atoms)(mu.weights)
    assert value == F(mu)
    np.testing.assert_array_equal(slope, [7, 1])
    refused(ValueError, "^atoms: expected", F.over_weights, [[1.0, 2.0]])


def test_strengths_are_floats_and_errors_are_relative_to_any_size():
    assert type(Ridge(2).lam) is float and type(Anchor(np.int64(2), [1.0]).lam) is float
    for size in (1e-9, 0.5, 2.0):
        assert functional._relative(2.0, 1.5, size) == 0.5 / size
    assert functional._relative([1.0, 4.0], [2.0, 2.0], [0.5, 0.25]) == 4
    assert functional._relative(2.0, 1.5, 0.0) == 0.5


def test_errors_of_a_check_may_be_as_large_as_the_tolerance():
    assert FunctionalCheck(0.5, 0.5, 0.5, 0.5, 0.5).ok
    for i in range(4):
        for wrong in (0.51, np.nan, np.inf):
            errors = [0.5] * 4
            errors[i] = wrong
            assert not FunctionalCheck(*errors, 0.5).ok
    mu = Measure([[1.0, 2.0], [0.0, 1.0]])
    assert check_functional(Ridge(0.5), mu, 0, step=0.5).ok
    refused(ValueError, "step", check_functional, Ridge(0.5), mu, 0, step=np.nextafter(0.5, 1))


def test_errors_of_a_gradient_in_one_dimension_are_those_of_its_length():
    class Steep(Functional):
        """Half the mean square, whose stated gradient is three times too long."""

        def at(self, mu):
            return SimpleNamespace(
                value=(mu.weights * mu.atoms[:, 0] ** 2).sum() / 2,
                first_variation=lambda x: x[:, 0] ** 2 / 2,
                gradient=lambda x: 3 * x,
            )

    for seed in range(3):
        report = check_functional(Steep(), Measure([[1.5]]), seed)
        errors = (report.gradient, report.complex_step_x, report.complex_step_mu)
        assert errors == pytest.approx((2 / 3,) * 3, rel=1e-8)
        assert report.first_variation < 1e-9 and report.tolerance == 1e-6


# ------------------------------------------------------------------------------- bounds


def test_steps_up_to_four_over_the_square_of_the_slope_are_one_sided():
    measure = drift_lipschitz(1.0, 1.0, 1.0, 1).measure  # L^2 / 2
    edge = 2 / measure
    assert edge * measure == 2
    for epsilon, right in ((edge, True), (edge * (1 + 1e-12), False), (edge / 2, True)):
        bound = propagation_bound(1.0, 1.0, 1.0, 1, M=5, epsilon=epsilon, tau=0.5)
        assert bound.one_sided is right
        assert (bound.exponent < bound.paper_exponent) is right
    assert PropagationBound(1.0, True, 1.0, 0.0, 0.0, 0.0).log10 == -np.inf
    assert PropagationBound(0.0, True, 0.0, 1.0, 2.0, 7.0).log10 == 1


# ------------------------------------------------------------------------------- certificates


class Known(Functional):
    """First variation x^2, with a stated minimum."""

    def __init__(self, least):
        self.least, self.asked = least, []

    def at(self, mu):
        def minimise(rng, **options):
            self.asked.append(options)
            return self.least

        return SimpleNamespace(first_variation=lambda x: x[:, 0] ** 2, minimise=minimise)


def test_both_ends_of_the_gap_exactly():
    mu = Measure([[2.0], [0.5], [1.0]], [0.25, 0.25, 0.5])
    mean, own = 0.25 * 4 + 0.25 * 0.25 + 0.5, 0.25
    for value, lower, point, found, rigorous in (
        (-1.0, -2.0, 9.0, mean + 1, mean + 2),
        (0.125, 0.0625, 9.0, mean - 0.125, mean - 0.0625),
        (own, own, 9.0, mean - own, mean - own),
        (0.75, -1.0, 0.5, mean - own, mean + 1),  # an atom is better than what was found
        (0.75, 0.5, 0.5, mean - own, mean - own),  # rounding has put the bound above it
    ):
        for converged in (True, False):
            F = Known(Minimum(np.array([9.0]), value, lower, converged, 7))
            gap = frank_wolfe_gap(F, mu, 0, starts=3)
            assert (gap.found, gap.rigorous) == (found, rigorous)
            assert gap.point == [point] and gap.converged is converged
            assert gap.evaluations == 7 + 3 and F.asked == [{"starts": 3}]
    closed = Known(Minimum(np.array([1.0]), 1.0 + 1e-15, 1.0 + 1e-15, True, 1))
    gap = frank_wolfe_gap(closed, Measure([[1.0]]), 0)
    assert (gap.found, gap.rigorous) == (0, 0)


def test_searches_without_a_closed_form_descend_and_report_what_they_did(monkeypatch):
    seen = watch(monkeypatch, certificate)
    mu = Measure([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.25, 0.75])
    for maxiter in (40, 1):
        seen.clear()
        gap = frank_wolfe_gap(Linear(np.array([3.0, 0.0, 4.0])), mu, 0, starts=5, maxiter=maxiter)
        assert len(seen) == 5
        for search in seen:
            assert search.difference == pytest.approx(search.slope, rel=1e-6, abs=1e-8)
            assert search.options == {"maxiter": maxiter, "ftol": 1e-15, "gtol": 1e-10}
        best = min(seen, key=lambda search: search.run.fun).run
        assert gap.found == pytest.approx(0.75 - best.fun, rel=1e-12)
        np.testing.assert_allclose(gap.point, best.x / np.linalg.norm(best.x), rtol=1e-12)
        assert gap.evaluations == sum(search.run.nfev for search in seen) + 2
        assert gap.converged is all(search.run.success for search in seen)
    assert not gap.converged


@pytest.mark.parametrize("size", [0.0, 1.0, 100.0])
def test_searches_start_beside_the_atoms_at_their_own_scale(size):
    asked = []

    class Watched(Euclidean):
        def tangent(self, x, v):
            asked.append(v)
            return v

        def retract(self, x, v):
            asked.append(x)
            return x + v

    F = Ridge(1.0) + Anchor(0.1, np.zeros(4000))  # whose minimum is in no closed form
    frank_wolfe_gap(F.on(Watched()), Measure(np.full((1, 4000), size)), 0, starts=1, maxiter=1)
    # of 4000 normal numbers: five standard errors of their deviation
    assert (asked[1] == size).all()
    assert np.std(asked[0]) == pytest.approx(np.sqrt(size**2 + 1e-3), rel=5 / np.sqrt(8000))


def test_weights_are_sought_from_the_uniform_ones_along_the_right_slope(monkeypatch):
    asked = []

    def spy(objective, start, **options):
        asked.append(options)
        np.testing.assert_array_equal(start, np.full(3, 1 / 3))
        rng = np.random.default_rng(0)
        for w in (start, np.array([0.2, 0.3, 0.5]), np.array([0.9, 0.05, 0.05])):
            value, slope = objective(w)
            assert value == F(Measure(atoms, w / w.sum()))
            d = rng.normal(size=3)
            up, down = (objective(w + s * 1e-5 * d)[0] for s in (1, -1))
            # F does not change along rays: the slope is right in every direction
            assert slope @ d == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-8)
            assert slope @ w == pytest.approx(0, abs=1e-14)
        # a negative weight counts as none
        assert objective(np.array([0.5, 0.5, -1.0]))[0] == F(Measure(atoms[:2]))
        only = options["constraints"]
        assert only["type"] == "eq" and only["fun"](np.array([0.5, 0.25, 0.5])) == 0.25
        np.testing.assert_array_equal(only["jac"](start), [1, 1, 1])
        return SimpleNamespace(x=np.array([0.5, 0.25, -0.1]), success=False)

    monkeypatch.setattr(certificate, "minimize", spy)
    R, _ = make(2, d=2, k=1, v=1)
    F, atoms = R + Ridge(0.3), heads(3, 3, R.shape)
    mu, done = optimal_weights(F, atoms, tolerance=1e-7)
    np.testing.assert_allclose(mu.weights, [2 / 3, 1 / 3, 0], rtol=1e-15)
    assert done is False
    (options,) = asked
    assert options["options"]["ftol"] == 1e-7
    np.testing.assert_array_equal(options["bounds"], [(0, 1)] * 3)


def test_rounds_of_boosting_one_by_one(monkeypatch, capsys):
    mu, gaps, starts = Measure([[1.0], [2.0]], [0.25, 0.75]), iter([0.5, 0.25, 0.125]), []

    def gap(F, nu, rng, **options):
        assert options == {"pool": 3}
        return Gap(next(gaps), 1.0, np.array([5.0]), True, 1)

    def weights(F, atoms, start, **options):
        starts.append((atoms.ravel().tolist(), start))
        return Measure(atoms, start), True

    monkeypatch.setattr(certificate, "frank_wolfe_gap", gap)
    monkeypatch.setattr(certificate, "optimal_weights", weights)
    F = Ridge(2.0)
    run = boost(F, mu, 0, 4, tolerance=0.125, progress=True, pool=3)
    assert run.converged  # a gap as large as the tolerance is small enough
    assert run.found.tolist() == [0.5, 0.25, 0.125] and run.atoms.tolist() == [2, 3, 4]
    assert [atoms for atoms, _ in starts] == [[1, 2, 5], [1, 2, 5, 5]]
    np.testing.assert_allclose(starts[0][1], [1 / 6, 1 / 2, 1 / 3], rtol=1e-14)
    np.testing.assert_allclose(starts[1][1], [1 / 8, 3 / 8, 1 / 4, 1 / 4], rtol=1e-14)
    values = [1 / 4 + 3, 1 / 6 + 2 + 25 / 3, 1 / 8 + 3 / 2 + 25 / 2]
    np.testing.assert_allclose(run.value, values, rtol=1e-14)
    shown = capsys.readouterr().err
    assert "boosting" in shown and "2/4" in shown and "gap=0.125" in shown
    assert shown.endswith("\n")  # the bar is closed
    gaps = iter([0.5, 0.25])
    run = boost(F, mu, 0, 1, tolerance=0.125, pool=3)
    assert not run.converged and len(run.value) == 2 and capsys.readouterr().err == ""


def test_atoms_of_a_billionth_are_dropped():
    mu = Measure([[1.0], [2.0], [3.0]], [1 - 3e-9, 2e-9, 1e-9])
    kept = certificate._drop(mu)
    np.testing.assert_array_equal(kept.atoms, [[1], [2]])
    assert abs(kept.weights.sum() - 1) < 1e-15


def test_positions_are_polished_downhill_or_left(monkeypatch):
    R, _ = make(1, d=2, k=1, v=1)
    F = R.on(R.shape.ball(1.5))
    mu = Measure(F.space.sample(2, 3), [0.2, 0.3, 0.5])
    with monkeypatch.context() as patch:
        seen = watch(patch, certificate)
        moved = certificate._polish(F, mu, 7)
        (search,) = seen
        assert search.options["maxiter"] == 7
        assert search.difference == pytest.approx(search.slope, rel=1e-5, abs=1e-9)
        assert F(moved) == pytest.approx(search.run.fun, rel=1e-12) and F(moved) < F(mu)
        np.testing.assert_array_equal(moved.weights, mu.weights)
    stays = lambda objective, q, **options: SimpleNamespace(x=q)  # noqa: E731
    monkeypatch.setattr(certificate, "minimize", stays)
    nu = Measure([[1.0], [2.0]])
    assert certificate._polish(Ridge(1.0), nu, 3) is nu


def test_labels_of_no_sequence_are_refused():
    risk, _ = make(0)
    with pytest.raises(ValueError, match=r"index: expected at least one entry, got shape \(0,\)"):
        risk.labels(np.empty(0, int), np.empty((0, risk.Y.shape[1], 1)))
