"""A call with one wrong argument works, or it raises an error that names an argument.

Never another exception, a warning, a changed array of the caller (all are read-only here) or a
result with NaN. Hypothesis draws what is wrong: a thing of another kind, or the valid value
changed. Two things are requests, not mistakes, and left out: counts that fit 64 bits, and extreme
numbers where they only say how long to compute.
"""

import dataclasses
import inspect
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import mfbook as mf
from mfbook.flow import dissipation
from mfbook.flow.ensemble import sgd_ensemble
from mfbook.space import Ball, Euclidean
from mfbook.sphere import Explicit, Stiff, clusters, second_order
from mfbook.transport import coupled_distance

rng = np.random.default_rng(0)
SHAPE = mf.HeadShape(2, 1, 1)
X, Y = rng.normal(size=(2, 3, 2)), rng.dirichlet(np.ones(3), size=(2, 3))
W_U, THETA = rng.normal(size=(2, 3)), rng.normal(size=(3, SHAPE.size))
WEIGHTS, TIMES = np.array([0.5, 0.25, 0.25]), np.array([0.0, 0.5, 1.0])
RISK = mf.AttentionRisk(X, Y, W_U, SHAPE, SHAPE.ball(4.0))
ANYWHERE = mf.AttentionRisk(X, Y, W_U, SHAPE)
MU, FLAT = mf.Measure(THETA, WEIGHTS), mf.Measure(rng.normal(size=(3, 2)), WEIGHTS)
RING = mf.Measure(mf.Sphere().sample(0, 3, 2), WEIGHTS)
UNITS, OMEGA = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0.5, -0.25])
MODEL, RIDGE = mf.SphereEnergy(2.0, UNITS, OMEGA, "gelu"), mf.Ridge(0.5)


def asked(F):
    """A functional by what it says at one point of as many dimensions as it has."""
    sizes = {
        mf.AttentionRisk: lambda: F.shape.size,
        mf.Anchor: lambda: len(F.a),
        mf.SphereEnergy: lambda: 2 if F.a is None else F.a.shape[1],
    }
    mu = mf.Measure(np.eye(sizes.get(type(F), lambda: 2)())[:1])
    return F(mu), F.gradient(mu.atoms, mu)


def call(f, use=lambda result: result, **valid):
    return f, use, valid


#: What is called, how its result is used, and valid arguments.
CALLS = {
    "Measure": call(mf.Measure, atoms=THETA, weights=WEIGHTS),
    "Measure.integrate": call(FLAT.integrate, values=THETA),
    "Measure.map": call(FLAT.map, g=lambda x: 2 * x),
    "Measure.draw": call(FLAT.draw, M=3, rng=0),
    "Measure.merge": call(FLAT.merge, tolerance=0.5),
    "mixture": call(mf.mixture, mu=FLAT, nu=RING, s=0.25),
    "HeadShape": call(mf.HeadShape, d=2, k=1, v=1),
    "HeadShape.split": call(SHAPE.split, theta=THETA),
    "HeadShape.join": call(SHAPE.join, **dict(zip(
        ("W_Q", "W_K", "W_V", "W_O"), SHAPE.split(THETA), strict=True))),
    "features": call(mf.features, theta=THETA, X=X, W_U=W_U, shape=SHAPE),
    "attention_weights": call(mf.attention_weights, theta=THETA, X=X, shape=SHAPE),
    "AttentionRisk": call(mf.AttentionRisk, asked, X=X, Y=Y, W_U=W_U, shape=SHAPE,
                          space=RISK.space),
    "AttentionRisk.gradient": call(RISK.gradient, x=THETA, mu=MU),
    "AttentionRisk.sample": call(RISK.sample, asked, rng=0, n=2),
    "SphereEnergy": call(mf.SphereEnergy, asked, beta=2.0, a=UNITS, omega=OMEGA, activation="gelu",
                         normalised=True, bias=OMEGA, B=np.eye(2)),
    "SphereEnergy.velocity": call(MODEL.velocity, x=RING.atoms, mu=RING),
    "SphereEnergy.gradient": call(MODEL.gradient, x=RING.atoms, mu=RING),
    "Ridge": call(mf.Ridge, asked, lam=0.5),
    "Anchor": call(mf.Anchor, asked, lam=0.5, a=OMEGA),
    "Euclidean": call(Euclidean().retract, x=UNITS, v=UNITS[::-1]),
    "Ball": call(Ball, radius=2.0, blocks=(2, 1)),
    "Ball.project": call(Ball(1.0, (2,)).project, x=UNITS),
    "Sphere": call(mf.Sphere().retract, x=UNITS, v=0 * UNITS),
    "check_functional": call(mf.check_functional, F=RISK, mu=MU, rng=0, step=1e-5),
    "Adaptive": call(mf.Adaptive, rtol=1e-6, atol=1e-8, method="RK45", budget=10),
    "Euler": call(mf.Euler, step=0.5),
    "gradient_flow": call(mf.gradient_flow, F=RIDGE, mu=FLAT, times=TIMES, xi=lambda t: 0.5 + 0 * t,
                          solver=mf.Adaptive(rtol=1e-6), dense=True),
    "sgd": call(mf.sgd, F=RISK, mu=MU, times=TIMES, epsilon=0.5, rng=0, batch=2),
    "sgd_ensemble": call(sgd_ensemble, F=ANYWHERE, atoms=THETA[None], times=TIMES, epsilon=0.5,
                         rngs=[1], observe=lambda mu: mu.atoms[:, 0], batch=2),
    "dissipation": call(dissipation, F=RIDGE, mu=FLAT),
    "frank_wolfe_gap": call(mf.frank_wolfe_gap, F=RISK, mu=MU, rng=0, starts=1, pool=2, maxiter=3),
    "boost": call(mf.boost, F=RISK, mu=MU, rng=0, rounds=1, starts=1, pool=2, maxiter=3),
    "dirac_stability": call(mf.dirac_stability, F=RIDGE, theta=0 * OMEGA, tolerance=1e-9),
    "stationary_head": call(mf.stationary_head, F=RIDGE, start=OMEGA, maxiter=5),
    "stationary_near": call(mf.stationary_near, F=RIDGE, mu=FLAT, tolerance=1e-9, rcond=1e-6,
                            steps=3),
    "atomic_stability": call(mf.atomic_stability, F=RIDGE, mu=FLAT),
    "stationarity": call(mf.stationarity, F=RIDGE, mu=FLAT),
    "coupled_distance": call(coupled_distance, mu=FLAT, nu=mf.Measure(-FLAT.atoms, WEIGHTS)),
    "wasserstein": call(mf.wasserstein, mu=FLAT, nu=RING, p=2),
    "clusters": call(clusters, mu=RING, beta=2.0, linkage="single"),
    "settle": call(mf.settle, F=MODEL, mu=RING, solver=Stiff(horizon=2.0), ascent=True, record=1),
    "Stiff": call(Stiff, tolerance=1e-4, horizon=2.0, atol=1e-2, most=3),
    "Explicit": call(Explicit, step=0.125, tolerance=1e-4, most=3, window=2),
    "second_order": call(second_order, F=MODEL, mu=RING),
    "minimise_on_circle": call(mf.minimise_on_circle, F=MODEL, tolerance=1e-6, maxiter=1),
}  # fmt: skip
#: Arguments that say how long to compute.
LENGTHS = {"times", "horizon", "step", "rtol", "atol", "epsilon"}
#: What a message may blame beside parameters: what an argument was made into or answered.
BLAMED = {"size", "field", "answers", "dim", "text", "terms", "index", "mu", "x"}
SCALES = [0.0, -1.0, 1e-320, 1e-160, 1e20, 1e150, 1e300]
NUMBERS = st.sampled_from([np.nan, np.inf, -np.inf, *SCALES]) | st.floats()
MEASURES = [MU, RING, *(mf.Measure(a) for a in (
    FLAT.atoms[:1], FLAT.atoms + 0j, FLAT.atoms.astype("f4"), *(s * FLAT.atoms for s in SCALES)
))]  # fmt: skip
OTHERS = st.one_of(
    st.sampled_from([
        None, "abc", b"abc", object(), dict, {"a": 1}, [], [[]], [[1.0], [1.0, 2.0]], ..., 1j, True,
        -(10**400), np.nan, np.inf, -1, -1.5, Decimal(1), np.datetime64(1, "s"), lambda *a: None,
        lambda *a: np.nan, RIDGE, MODEL, mf.HeadShape(3, 2, 1), Ball(1.0, (5,)),
        np.ma.masked_array([1.0, 2.0], [True, False]), (1.0, None), ["a", "b"], *MEASURES,
    ]),
    st.integers(max_value=0) | st.integers(min_value=2**63) | st.text(max_size=3),
    arrays.arrays(st.sampled_from([float, bool, complex, "i1", "f2", "f4", ">f8", "U1", "M8[s]"]),
                  arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)),
)  # fmt: skip


@st.composite
def changed(draw, a, sizes):
    """An array with another entry, scale, shape or type."""
    a, axis = np.array(a), draw(st.integers(0, a.ndim - 1))
    how = draw(st.sampled_from(["entry", "shape", "type"] + ["scale"] * sizes))
    if how == "entry":
        extreme = NUMBERS if sizes else st.sampled_from([np.nan, np.inf, -1.0])
        a.flat[draw(st.integers(0, a.size - 1))] = draw(extreme)
        return a
    if how == "scale":
        return a * draw(st.sampled_from(SCALES))
    if how == "type":
        return a.astype(draw(st.sampled_from(["c16", "f2", "f4", ">f8", "g", "O", "U", "i8", "?"])))
    return draw(st.sampled_from([
        a[None], a[..., None], a.T, a.ravel(), a.take([], axis), a.take([0], axis), a[0],
        np.delete(a, -1, axis), np.concatenate([a, a.take([0], axis)], axis), a.tolist(),
    ]))  # fmt: skip


def wrong(name, value):
    """What may come in the place of a valid argument."""
    if isinstance(value, np.ndarray):
        return OTHERS | changed(value, name not in LENGTHS)
    number = isinstance(value, float) and name not in LENGTHS
    return OTHERS | NUMBERS if number else OTHERS


def whole(x, depth=0) -> bool:
    """Whether nothing that a result is made of is NaN."""
    if dataclasses.is_dataclass(x) and not isinstance(x, type) and depth < 4:
        x = [getattr(x, field.name) for field in dataclasses.fields(x)]
    if isinstance(x, (list, tuple)):
        return all(whole(item, depth + 1) for item in x)
    x = np.asarray(x)
    return x.dtype.kind not in "fc" or not np.isnan(x).any()


@pytest.mark.parametrize("name, argument", [(n, a) for n in CALLS for a in CALLS[n][2]])
@settings(max_examples=30)
@given(data=st.data())
def test_one_wrong_argument(name, argument, data):
    f, use, valid = CALLS[name]
    value = data.draw(wrong(argument, valid[argument]))
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    try:
        assert whole(use(f(**{**valid, argument: value})))
    except (TypeError, ValueError) as error:
        assert type(error) in (TypeError, ValueError), repr(error)
        named = {*inspect.signature(f).parameters, *valid, *BLAMED}
        assert re.match(r"\w*", str(error)).group() in named, repr(error)


@pytest.mark.parametrize("name", CALLS)
def test_the_valid_call(name):
    f, use, valid = CALLS[name]
    assert whole(use(f(**valid)))


def test_every_name_of_everyday_use_is_called():
    assert set(mf.__all__) <= {"Functional", *(name.partition(".")[0] for name in CALLS)}
