"""Bad input: a ValueError or TypeError that begins with the name of the argument."""

import numpy as np
import pytest

from mfbook.functional import Combination, check_functional
from mfbook.measure import Measure, mixture
from mfbook.models.attention import (
    AttentionRisk,
    HeadShape,
    attention_weights,
    cross_entropy,
    features,
    softmax,
    softmax_jacobian,
)
from mfbook.models.confinement import Anchor, Ridge
from mfbook.space import Ball, Sphere

S, T, V = 2, 3, 4
SHAPE = HeadShape(2, 1, 1)
D = SHAPE.size
X = np.arange(S * T * 2.0).reshape(S, T, 2)
Y = np.full((S, T, V), 1 / V)
W_U = np.arange(2.0 * V).reshape(2, V)
THETA = np.ones((2, D))
MU = Measure(THETA)
RISK = AttentionRisk(X, Y, W_U, SHAPE)
LOCAL = RISK.at(MU)
LINE = Measure([[0.0], [1.0]])


def with_entry(a, value):
    """A copy whose last entry is replaced."""
    a = np.array(a, dtype=float)
    a.flat[-1] = value
    return a


# What no array argument accepts, whatever its shape.
NEVER = {
    "None": (None, TypeError),
    "a string": ("abc", TypeError),
    "strings": ([["a", "b"]], TypeError),
    "objects": ([[object()]], TypeError),
    "a ragged list": ([[1.0, 2.0], [1.0]], ValueError),
    "dates": (np.zeros((1, 2), dtype="datetime64[s]"), TypeError),
    "a masked array": (np.ma.masked_array([[1.0, 2.0]], [[True, False]]), TypeError),
    "huge integers": ([[10**30]], TypeError),
    "nothing": ([], ValueError),
    "no rows": (np.zeros((0, D)), ValueError),
    "a scalar": (1.0, ValueError),
    "too many axes": (np.ones((1,) * 5), ValueError),
}

# name of the argument: a call with everything else in order
ARRAYS = {
    "atoms": (lambda a: Measure(a), THETA),
    "weights": (lambda a: Measure(THETA, a), [0.5, 0.5]),
    "theta": (lambda a: Measure.dirac(a), THETA[0]),
    "values": (lambda a: MU.integrate(a), [1.0, 2.0]),
    "g(atoms)": (lambda a: MU.map(lambda _: a), THETA),
    "X": (lambda a: AttentionRisk(a, Y, W_U, SHAPE), X),
    "Y": (lambda a: AttentionRisk(X, a, W_U, SHAPE), Y),
    "W_U": (lambda a: AttentionRisk(X, Y, a, SHAPE), W_U),
    "x": (lambda a: RISK.first_variation(a, MU), THETA),
    "x ": (lambda a: RISK.gradient(a, MU), THETA),
    "theta   ": (lambda a: LOCAL.correlation(a), THETA),
    "theta ": (lambda a: features(a, X, W_U, SHAPE), THETA),
    "X ": (lambda a: features(THETA, a, W_U, SHAPE), X),
    "W_U ": (lambda a: features(THETA, X, a, SHAPE), W_U),
    "theta  ": (lambda a: attention_weights(a, X, SHAPE), THETA),
    "X  ": (lambda a: attention_weights(THETA, a, SHAPE), X),
    "a": (lambda a: Anchor(1.0, a), THETA[0]),
    "x   ": (lambda a: Anchor(1.0, THETA[0]).first_variation(a, MU), THETA),
    "x    ": (lambda a: Anchor(1.0, THETA[0]).gradient(a, MU), THETA),
    "x     ": (lambda a: Ridge(1.0).first_variation(a, MU), THETA),
}
LOGITS = {
    "f": (lambda a: softmax(a), np.ones((2, 3))),
    "f ": (lambda a: softmax_jacobian(a), np.ones((2, 3))),
    "f  ": (lambda a: cross_entropy(a, [0.5, 0.5]), np.ones((3, 2))),
    "y": (lambda a: cross_entropy(np.ones((3, 2)), a), np.full((3, 2), 0.5)),
}


def refused(call, name, error):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"{name.strip()}: ")


@pytest.mark.parametrize("name", [*ARRAYS, *LOGITS])
def test_good_arrays_are_accepted(name):
    call, good = (ARRAYS | LOGITS)[name]
    call(good)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in ARRAYS
        for kind in NEVER
        if (name, kind) not in {("weights", "None"), ("values", "too many axes")}
    ],
)
def test_what_no_array_argument_accepts(name, kind):
    bad, error = NEVER[kind]
    refused(lambda: ARRAYS[name][0](bad), name, error)


@pytest.mark.parametrize("kind", [k for k in NEVER if k not in {"too many axes", "no rows"}])
@pytest.mark.parametrize("name", LOGITS)
def test_what_no_logits_accept(name, kind):
    bad, error = NEVER[kind]
    refused(lambda: LOGITS[name][0](bad), name, error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [*ARRAYS, *LOGITS])
def test_numbers_that_are_not_finite(name, value):
    call, good = (ARRAYS | LOGITS)[name]
    refused(lambda: call(with_entry(good, value)), name, ValueError)


@pytest.mark.parametrize("name", ["X", "X ", "X  ", "Y", "W_U", "W_U ", "weights", "a", "y"])
def test_complex_numbers_where_real_ones_are_expected(name):
    call, good = (ARRAYS | LOGITS)[name]
    refused(lambda: call(np.asarray(good) + 0j), name, TypeError)


@pytest.mark.parametrize("name", ["atoms", "x", "theta", "theta "])
def test_complex_numbers_that_are_not_finite(name):
    call, good = ARRAYS[name]
    bad = np.array(good, dtype=complex)
    bad.flat[0] = 1j * np.nan
    refused(lambda: call(bad), name, ValueError)


BAD_LABELS = {
    "negative": [1.1, -0.1, 0.0, 0.0],
    "sum too large": [0.5, 0.5, 0.5, 0.0],
    "sum too small": [0.25, 0.25, 0.25, 0.2],
    "all zero": [0.0, 0.0, 0.0, 0.0],
    "slightly off": [0.25, 0.25, 0.25, 0.25 + 1e-6],
}


@pytest.mark.parametrize("kind", BAD_LABELS)
@pytest.mark.parametrize("position", [(0, 0), (1, 2)])
def test_labels_that_are_not_probability_vectors(kind, position):
    labels = Y.copy()
    labels[position] = BAD_LABELS[kind]
    refused(lambda: AttentionRisk(X, labels, W_U, SHAPE), "Y", ValueError)
    refused(lambda: cross_entropy(np.zeros((S, T, V)), labels), "y", ValueError)
    with pytest.raises(ValueError, match=rf"at index \({position[0]}, {position[1]}[,)]"):
        AttentionRisk(X, labels, W_U, SHAPE)  # the message says where


def test_labels_given_as_word_numbers():
    refused(lambda: AttentionRisk(X, np.zeros((S, T), dtype=int), W_U, SHAPE), "Y", ValueError)


@pytest.mark.parametrize("bad", [[-0.5, 1.5], [0.5, 0.6], [0.0, 0.0], [0.5, 0.5 + 1e-6]])
def test_weights_that_are_not_a_probability_vector(bad):
    refused(lambda: Measure(THETA, bad), "weights", ValueError)


def test_weights_within_rounding_are_accepted():
    w = np.full(10, 0.1)
    assert w.cumsum()[-1] != 1
    Measure(np.zeros((10, 1)), w)
    Measure(np.zeros((10, 1)), w.astype(np.float32))


WRONG_SHAPES = {
    "weights, one too few": (lambda: Measure(THETA, [1.0]), "weights"),
    "weights, one too many": (lambda: Measure(THETA, [0.5, 0.25, 0.25]), "weights"),
    "weights as a column": (lambda: Measure(THETA, [[0.5], [0.5]]), "weights"),
    "one atom without its axis": (lambda: Measure([1.0, 2.0]), "atoms"),
    "atoms without coordinates": (lambda: Measure(np.zeros((2, 0))), "atoms"),
    "values, one too few": (lambda: MU.integrate([1.0]), "values"),
    "push-forward that drops atoms": (lambda: MU.map(lambda x: x[:1]), "g(atoms)"),
    "push-forward to numbers": (lambda: MU.map(lambda x: x[:, 0]), "g(atoms)"),
    "mixture across dimensions": (lambda: mixture(MU, LINE, 0.5), "nu"),
    "T mismatch": (lambda: AttentionRisk(X, Y[:, :2], W_U, SHAPE), "Y"),
    "S mismatch": (lambda: AttentionRisk(X, Y[:1], W_U, SHAPE), "Y"),
    "V mismatch": (lambda: AttentionRisk(X, Y, W_U[:, :3], SHAPE), "Y"),
    "d mismatch in X": (lambda: AttentionRisk(X[..., :1], Y, W_U, SHAPE), "X"),
    "d mismatch in W_U": (lambda: AttentionRisk(X, Y, W_U[:1], SHAPE), "W_U"),
    "W_U transposed": (lambda: AttentionRisk(X, Y, W_U.T, SHAPE), "W_U"),
    "one sequence without its axis": (lambda: AttentionRisk(X[0], Y[0], W_U, SHAPE), "X"),
    "features, heads of another size": (lambda: features(THETA[:, 1:], X, W_U, SHAPE), "theta"),
    "features, one head without its axis": (lambda: features(THETA[0], X, W_U, SHAPE), "theta"),
    "features, tokens of another size": (lambda: features(THETA, X[..., :1], W_U, SHAPE), "X"),
    "features, W_U of another size": (lambda: features(THETA, X, W_U[:1], SHAPE), "W_U"),
    "attention, heads of another size": (
        lambda: attention_weights(THETA[:, 1:], X, SHAPE),
        "theta",
    ),
    "measure of another size": (lambda: RISK(LINE), "mu"),
    "measure of another size, logits": (lambda: RISK.logits(LINE), "mu"),
    "measure of another size, residual": (lambda: RISK.residual(LINE), "mu"),
    "points of another size": (lambda: RISK.gradient(THETA[:, 1:], MU), "x"),
    "one point without its axis": (lambda: RISK.first_variation(THETA[0], MU), "x"),
    "space of another size": (lambda: AttentionRisk(X, Y, W_U, SHAPE, Ball(1, (3,))), "space"),
    "anchor of another size": (lambda: Anchor(1.0, [0.0])(MU), "mu"),
    "points of another size than the anchor": (
        lambda: Anchor(1.0, [0.0]).gradient(THETA, LINE),
        "x",
    ),
    "points of another size than the measure": (lambda: Ridge(1.0).gradient(THETA, LINE), "x"),
    "heads to split": (lambda: SHAPE.split(THETA[:, 1:]), "theta"),
    "a number to split": (lambda: SHAPE.split(1.0), "theta"),
    "labels for another vocabulary": (lambda: cross_entropy([1.0, 2.0, 3.0], [0.5, 0.5]), "y"),
    "one label for all words": (lambda: cross_entropy([1.0, 2.0, 3.0], [1.0]), "y"),
    "points in a ball": (lambda: Ball(1.0, (2, 1)).project(np.ones((2, 4))), "x"),
}


@pytest.mark.parametrize("kind", WRONG_SHAPES)
def test_wrong_shapes(kind):
    call, name = WRONG_SHAPES[kind]
    refused(call, name, ValueError)


@pytest.mark.parametrize("wrong", range(4))
def test_matrices_to_join(wrong):
    names = ("W_Q", "W_K", "W_V", "W_O")
    matrices = list(HeadShape(3, 2, 4).split(np.zeros((5, 36))))
    transposed = list(matrices)
    transposed[wrong] = transposed[wrong].swapaxes(1, 2)
    refused(lambda: HeadShape(3, 2, 4).join(*transposed), names[wrong], ValueError)
    fewer = list(matrices)
    fewer[wrong] = fewer[wrong][:4]
    blamed = names[wrong] if wrong else "W_K"  # the first one sets the number of heads
    refused(lambda: HeadShape(3, 2, 4).join(*fewer), blamed, ValueError)


# ---------------------------------------------------------------------------------------------
# numbers

POSITIVE = {
    "lam": lambda x: Ridge(x),
    "lam ": lambda x: Anchor(x, [0.0]),
    "radius": lambda x: Ball(x, (1,)),
    "radius ": lambda x: SHAPE.ball(x),
    "step": lambda x: check_functional(RISK, MU, 0, step=x),
}
NOT_A_NUMBER = [None, "1.0", True, np.True_, 1 + 0j, np.complex128(1), [1.0], np.array([1.0]), MU]


@pytest.mark.parametrize("value", [0, 0.0, -1.0, np.nan, np.inf, -np.inf, 10**400], ids=str)
@pytest.mark.parametrize("name", POSITIVE)
def test_numbers_that_are_not_positive_and_finite(name, value):
    refused(lambda: POSITIVE[name](value), name, ValueError)


@pytest.mark.parametrize("value", NOT_A_NUMBER, ids=repr)
@pytest.mark.parametrize("name", POSITIVE)
def test_what_is_no_number(name, value):
    refused(lambda: POSITIVE[name](value), name, TypeError)


@pytest.mark.parametrize("name", POSITIVE)
def test_numbers_of_any_real_kind(name):
    for value in (0.5, np.float32(0.5), np.array(0.5)):
        POSITIVE[name](value)
    if name != "step":
        POSITIVE[name](1), POSITIVE[name](np.int64(2))
    else:
        refused(lambda: POSITIVE[name](1), name, ValueError)


def test_mixing_parameter_and_tolerance():
    for bad in (-1e-9, 1 + 1e-9, np.nan, np.inf):
        refused(lambda bad=bad: mixture(MU, MU, bad), "s", ValueError)
    for bad in (-1e-9, np.nan, np.inf):
        refused(lambda bad=bad: MU.merge(bad), "tolerance", ValueError)
    for bad in NOT_A_NUMBER:
        refused(lambda bad=bad: mixture(MU, MU, bad), "s", TypeError)
        refused(lambda bad=bad: MU.merge(bad), "tolerance", TypeError)


COUNTS = {
    "d": lambda n: HeadShape(n, 1, 1),
    "k": lambda n: HeadShape(1, n, 1),
    "v": lambda n: HeadShape(1, 1, n),
    "blocks": lambda n: Ball(1.0, (2, n)),
    "n": lambda n: MU.resample(0, n),
    "n ": lambda n: RISK.sample(0, n),
    "n  ": lambda n: Ball(1.0, (2,)).sample(0, n),
    "n   ": lambda n: Sphere().sample(0, n, 3),
    "dim": lambda n: Sphere().sample(0, 3, n),
}


@pytest.mark.parametrize("value", [0, -1, -(2**70), np.int64(0), 2**70], ids=str)
@pytest.mark.parametrize("name", COUNTS)
def test_integers_out_of_range(name, value):
    refused(lambda: COUNTS[name](value), name, ValueError)


@pytest.mark.parametrize(
    "value", [1.0, 2.5, np.float64(2), True, np.True_, None, "2", [2]], ids=repr
)
@pytest.mark.parametrize("name", COUNTS)
def test_what_is_no_integer(name, value):
    refused(lambda: COUNTS[name](value), name, TypeError)


def test_integers_of_numpy_are_integers():
    assert HeadShape(np.int64(2), np.int32(1), np.uint8(1)) == SHAPE
    assert MU.resample(np.int64(3), np.int64(2)).size == 2


@pytest.mark.parametrize(
    "sizes", [(2**40, 2**40, 1), (1, 2**62, 1), (2**62, 1, 1), (2**31, 1, 2**32)]
)
def test_sizes_that_overflow(sizes):
    refused(lambda: HeadShape(*sizes), "size 2dk + 2dv", ValueError)


def test_sphere_needs_two_dimensions():
    refused(lambda: Sphere().sample(0, 3, 1), "dim", ValueError)


@pytest.mark.parametrize("bad", [(), None, 3, 2.5], ids=repr)
def test_blocks_of_a_ball(bad):
    refused(lambda: Ball(1.0, bad), "blocks", ValueError if bad == () else TypeError)


@pytest.mark.parametrize(
    "rng",
    [None, -1, 1.5, True, "seed", [1, 2], np.random.RandomState(0), np.random],
    ids=lambda rng: repr(rng).split(" at ")[0],  # without its address, which differs by worker
)
@pytest.mark.parametrize(
    "call",
    [
        lambda rng: MU.resample(rng, 2),
        lambda rng: RISK.sample(rng, 2),
        lambda rng: (RISK + Ridge(1.0)).sample(rng, 2),
        lambda rng: Ball(1.0, (2,)).sample(rng, 2),
        lambda rng: Sphere().sample(rng, 2, 2),
        lambda rng: check_functional(RISK, MU, rng),
    ],
)
def test_randomness_must_be_explicit(call, rng):
    refused(lambda: call(rng), "rng", TypeError)


# ---------------------------------------------------------------------------------------------
# objects


@pytest.mark.parametrize("bad", [None, THETA, "mu", [MU]], ids=lambda b: type(b).__name__)
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda m: RISK(m), "mu"),
        (lambda m: RISK.logits(m), "mu"),
        (lambda m: RISK.gradient(THETA, m), "mu"),
        (lambda m: Ridge(1.0)(m), "mu"),
        (lambda m: Anchor(1.0, THETA[0])(m), "mu"),
        (lambda m: (RISK + Ridge(1.0))(m), "mu"),
        (lambda m: mixture(m, MU, 0.5), "mu"),
        (lambda m: mixture(MU, m, 0.5), "nu"),
        (lambda m: check_functional(RISK, m, 0), "mu"),
    ],
)
def test_what_is_no_measure(call, name, bad):
    refused(lambda: call(bad), name, TypeError)


@pytest.mark.parametrize("bad", [None, (2, 1, 1), HeadShape, 2], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda shape: AttentionRisk(X, Y, W_U, shape),
        lambda shape: features(THETA, X, W_U, shape),
        lambda shape: attention_weights(THETA, X, shape),
    ],
)
def test_what_is_no_head_shape(call, bad):
    refused(lambda: call(bad), "shape", TypeError)


@pytest.mark.parametrize("bad", ["ball", 1.0, MU], ids=str)
def test_what_is_no_space(bad):
    refused(lambda: AttentionRisk(X, Y, W_U, SHAPE, bad), "space", TypeError)
    refused(lambda: RISK.on(bad), "space", TypeError)


@pytest.mark.parametrize("bad", [np.float16, int, complex, "precise", object, 3], ids=str)
def test_precision(bad):
    refused(lambda: AttentionRisk(X, Y, W_U, SHAPE, dtype=bad), "dtype", TypeError)


@pytest.mark.parametrize("name", ["X", "W_U"])
def test_numbers_that_float32_cannot_hold(name):
    data = {"X": X, "Y": Y, "W_U": W_U}
    data[name] = with_entry(data[name], 1e39)
    AttentionRisk(**data, shape=SHAPE)
    refused(lambda: AttentionRisk(**data, shape=SHAPE, dtype=np.float32), name, ValueError)


@pytest.mark.parametrize("bad", [True, "2", 1j, np.nan, np.inf, None], ids=repr)
def test_coefficients(bad):
    refused(lambda: Combination(((bad, RISK),)), "terms", TypeError)
    if bad is not None:
        refused(lambda: bad * RISK, "terms", TypeError)


def test_terms():
    refused(lambda: Combination(()), "terms", ValueError)
    refused(lambda: Combination(((1.0, "R"),)), "terms", TypeError)


def test_complex_atoms_where_real_ones_are_needed():
    complex_mu = Measure(THETA + 0j)
    refused(lambda: complex_mu.merge(), "atoms", ValueError)
    refused(lambda: check_functional(RISK, complex_mu, 0), "mu", TypeError)


def test_bad_input_is_found_before_any_work():
    """A call that is refused draws nothing from the generator."""
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    for call in (
        lambda: MU.resample(rng, 0),
        lambda: RISK.sample(rng, 0),
        lambda: Ball(1.0, (2,)).sample(rng, 0),
        lambda: Sphere().sample(rng, 2, 1),
        lambda: check_functional(RISK, MU, rng, step=0),
        lambda: check_functional(RISK, None, rng),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert rng.bit_generator.state == before
