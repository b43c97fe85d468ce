"""Bad input that has to be refused: an error of the right type that begins with a name.

That any other wrong argument is refused or answered: test_bad_arguments.py.
"""

import numpy as np
import pytest

import mfbook as mf
from mfbook.space import Ball

S, T, V = 2, 3, 4
SHAPE = mf.HeadShape(2, 1, 1)
X = np.arange(S * T * 2.0).reshape(S, T, 2)
Y = np.full((S, T, V), 1 / V)
W_U = np.arange(2.0 * V).reshape(2, V)
THETA = np.ones((2, SHAPE.size))
MU, LINE = mf.Measure(THETA), mf.Measure([[0.0], [1.0]])
RISK = mf.AttentionRisk(X, Y, W_U, SHAPE)


def refused(call, name, error=ValueError):
    with pytest.raises(error, match=f"^{name}") as caught:
        call()
    assert type(caught.value) is error


def label(*y):
    labels = Y.copy()
    labels[1, 2] = y
    return labels


def risk(X=X, Y=Y, W_U=W_U, shape=SHAPE, **more):
    return mf.AttentionRisk(X, Y, W_U, shape, **more)


# Arguments that do not belong together, or are out of range.
RELATIONS = {
    "negative strength": (lambda: mf.Anchor(-1.0, [0.0]), "lam"),
    "a step beyond the segment": (lambda: mf.check_functional(RISK, MU, 0, step=0.75), "step"),
    "no head": (lambda: mf.HeadShape(0, 1, 1), "d"),
    "more draws than integers": (lambda: RISK.sample(0, 2**70), "n"),
    "negative label": (lambda: risk(Y=label(1.1, -0.1, 0, 0)), "Y"),
    "labels that sum to more": (lambda: risk(Y=label(0.25, 0.25, 0.25, 0.25 + 1e-6)), "Y"),
    "labels given as word numbers": (lambda: risk(Y=np.zeros((S, T), int)), "Y"),
    "negative weights": (lambda: mf.Measure(THETA, [-0.5, 1.5]), "weights"),
    "weights that sum to more": (lambda: mf.Measure(THETA, [0.5, 0.5 + 1e-6]), "weights"),
    "map that drops atoms": (lambda: MU.map(lambda x: x[:1]), "g"),
    "mixture across dimensions": (lambda: mf.mixture(MU, LINE, 0.5), "nu"),
    "mixture beyond its ends": (lambda: mf.mixture(MU, MU, 1 + 1e-9), "s"),
    "another V": (lambda: risk(W_U=W_U[:, :3]), "Y"),
    "W_U transposed": (lambda: risk(W_U=W_U.T), "W_U"),
    "space of another size": (lambda: risk(space=Ball(1, (3,))), "space"),
    "tokens of another size": (lambda: mf.features(THETA, X[..., :1], W_U, SHAPE), "X"),
    "points of another size": (lambda: mf.Ridge(1.0).gradient(THETA, LINE), "x"),
    "anchor of another size": (lambda: mf.Anchor(1.0, [0.0])(MU), "mu"),
    "the sphere of a line": (lambda: mf.Sphere().sample(0, 3, 1), "dim"),
    "no term": (lambda: mf.functional.Combination(()), "terms"),
}


@pytest.mark.parametrize("what", RELATIONS)
def test_arguments_that_do_not_belong_together(what):
    refused(*RELATIONS[what])


def test_masks_are_not_dropped_in_silence():
    refused(lambda: risk(X=np.ma.masked_array(X, X > 3)), "X", TypeError)


def test_kinds_of_objects():
    for shape in (None, (2, 1, 1), mf.HeadShape):
        refused(lambda shape=shape: risk(shape=shape), "shape", TypeError)
    for place in ("ball", 1.0, MU):
        refused(lambda place=place: RISK.on(place), "space", TypeError)
    for a in (True, 1j):
        refused(lambda a=a: a * RISK, "terms", TypeError)
    for a in (np.nan, np.inf):
        refused(lambda a=a: a * RISK, "terms")
    refused(lambda: mf.functional.Combination(((1.0, "R"),)), "terms", TypeError)
    for rng in (None, -1, True, "seed", np.random):  # randomness is explicit
        refused(lambda rng=rng: (RISK + mf.Ridge(1.0)).sample(rng, 2), "rng", TypeError)
    refused(lambda: risk(X=X + 0j), "X", TypeError)
    refused(lambda: risk(Y=label(0.5, 0.5, 0.5, 0)), r"Y: .* at index \(1, 2")  # it says where
    refused(lambda: mf.check_functional(RISK, mf.Measure(THETA + 0j), 0), "mu", TypeError)


def test_what_is_within_rounding_is_accepted():
    w = np.full(10, 0.1)
    assert w.cumsum()[-1] != 1
    mf.Measure(np.zeros((10, 1)), w), mf.Measure(np.zeros((10, 1)), w.astype(np.float32))
    assert mf.HeadShape(np.int64(2), np.int32(1), np.uint8(1)) == SHAPE
