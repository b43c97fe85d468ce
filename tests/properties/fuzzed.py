"""Fuzzing: valid arguments of every public callable of the package, as small as they can be."""

from __future__ import annotations

import atexit
import dataclasses
import inspect
import re
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
from fuzzing import (
    Case,
    array,
    count,
    documentation,
    fixed,
    flag,
    function,
    measure,
    number,
    other,
    rng,
    sequence,
)

import mfbook.optimise as certificate
from mfbook import bounds, equilibria, flow, functional, landscape, space, stability, transport
from mfbook.book import report, sweep, tasks
from mfbook.bounds import derivatives
from mfbook.flow import influence
from mfbook.measure import Measure, mixture
from mfbook.models import activations, attention, confinement, layers, network, sphere, tokens
from mfbook.models.attention import ensemble, parallel
from tools.chapters import ROOT

CASES: dict[str, Case] = {}


#: What a mapping of arguments may hold beside them.
OPTIONS = ("view", "also", "same", "share", "axes", "nan", "doc")


def add(name, call, /, **arguments) -> None:
    """Enter a case: arguments by their names, and options of a case."""
    options = {key: arguments.pop(key) for key in OPTIONS if key in arguments}
    CASES[name] = Case(call, arguments, **{"doc": documentation(call), **options})


def enter(module, **cases) -> None:
    """Enter functions of a module by their names."""
    for name, arguments in cases.items():
        rooms = (module, activations, landscape, equilibria, bounds)
        home = next(room for room in rooms if hasattr(room, name))
        add(f"{home.__name__.rpartition('.')[2]}.{name}", getattr(home, name), **arguments)


def methods(owner, base, **cases) -> None:
    """Enter methods of an object."""
    for name, arguments in cases.items():
        add(f"{base}.{name}", getattr(owner, name), **arguments)


DRAW = np.random.default_rng(0)
S, T, V = 2, 3, 3
SHAPE = attention.HeadShape(2, 1, 1)
D = SHAPE.size
X = DRAW.normal(size=(S, T, 2)).round(3)
Y = DRAW.dirichlet(np.ones(V), size=(S, T))
W_U = np.array([[1.0, -2.0, 1.0], [0.5, 0.25, -0.75]])
BALL = SHAPE.ball(2.0)
THETA = BALL.sample(DRAW, 3)
MU = Measure(THETA, [0.5, 0.25, 0.25])
WEIGHTS = np.array([0.5, 0.25, 0.25])
PLANE = Measure([[1.0, 0.0], [0.5, 2.0], [-1.0, 1.0]], WEIGHTS)
OTHER = Measure([[0.0, 1.0], [3.0, 2.0]], [0.25, 0.75])
LINE = Measure([[1.0], [2.0], [-0.5]], WEIGHTS)
RISK = attention.AttentionRisk(X, Y, W_U, SHAPE)
INSIDE = attention.AttentionRisk(X, Y, W_U, SHAPE, BALL)
RIDGE = confinement.Ridge(0.5)
ANCHOR = confinement.Anchor(0.5, [1.0, -1.0])

shape = lambda: other(SHAPE, (2, 1, 1), attention.HeadShape(3, 2, 1), attention.HeadShape)  # noqa
WRONG_FUNCTIONALS = (confinement.Ridge, confinement.Anchor(1.0, [0.0] * 5), MU, tokens.TokenEnergy)
WRONG_SPACES = (space.Ball(1.0, (5,)), space.Sphere(), space.Ball, "ball")


def risk_arguments():
    return {"X": array(X), "Y": array(Y), "W_U": array(W_U), "shape": shape()}


def evaluated(mu, x):
    """Everything that a functional says at one measure, as data."""

    def view(F):
        local = F.at(mu)
        return local.value, local.first_variation(x), local.gradient(x)

    return view


# --------------------------------------------------------------------------------------- attention

add("attention.HeadShape", attention.HeadShape, d=count(2), k=count(3), v=count(1), also=["size"])
methods(
    SHAPE,
    "attention.HeadShape",
    split={"theta": array(THETA), "axes": False},
    join={name: array(W) for name, W in zip(("W_Q", "W_K", "W_V", "W_O"), SHAPE.split(THETA))},  # noqa: B905
    ball={"radius": number(2.0)},
)
enter(
    attention,
    softmax={"f": array(X), "axes": False},
    softmax_jacobian={"f": array(X), "axes": False},
    cross_entropy={"f": array(X @ W_U), "y": array(Y), "axes": False},
    attention_weights={"theta": array(THETA), "X": array(X), "shape": shape()},
    features={"theta": array(THETA), "X": array(X), "W_U": array(W_U), "shape": shape()},
    AttentionRisk={
        **risk_arguments(),
        "space": other(BALL, *WRONG_SPACES, none=True),
        "dtype": other(np.float64, np.float16, int, "precise", same=[float, "f8"], none=True),
        "view": evaluated(MU, THETA),
    },
)


def value_of(local):
    return local.value


def weighed(F):
    """The functional and its slope at equal weights, by its function of the weights."""

    def call(atoms):
        evaluate = F.over_weights(atoms)
        n = len(np.asarray(atoms))
        return evaluate(np.full(n, 1 / n))

    return call


def functional_methods(F, base, mu, x, **more) -> None:
    """Methods that every functional has, and what it is at one measure."""
    doc = documentation(F.at)
    methods(
        F,
        base,
        at={"mu": measure(mu), "view": value_of},
        __call__={"mu": measure(mu), "doc": doc},
        first_variation={"x": array(x), "mu": measure(mu), "doc": doc},
        gradient={"x": array(x), "mu": measure(mu), "doc": doc},
        sample={"rng": rng(), "n": count(2), "view": evaluated(mu, x)},
        on={"space": other(space.Euclidean(), "ball", space.Ball), "view": evaluated(mu, x)},
    )
    add(f"{base}.over_weights", weighed(F), atoms=array(x), doc=doc)
    local = F.at(mu)
    methods(
        local,
        f"{base}.at()",
        first_variation={"x": array(x), "doc": doc},
        gradient={"x": array(x), "doc": doc},
    )
    methods(F, base, **more)


functional_methods(
    RISK,
    "attention.AttentionRisk",
    MU,
    THETA,
    logits={"mu": measure(MU)},
    residual={"mu": measure(MU)},
    draw={"rng": rng(), "n": count(2)},
    labels={"index": array([0, 1]), "uniform": array(np.full((2, T, 1), 0.5))},
)
methods(
    INSIDE.at(MU),
    "attention.AttentionRisk.at()",
    correlation={"theta": array(THETA)},
    minimise={
        "rng": rng(),
        "ridge": number(0.1),
        "space": other(BALL, *WRONG_SPACES, none=True),
        "starts": count(1),
        "pool": count(2),
        "maxiter": count(3),
        "share": 0.2,
    },
)

# ----------------------------------------------------------------------------------------- measure

add("measure.Measure", Measure, atoms=array(THETA), weights=array(WEIGHTS, none=True))
methods(
    PLANE,
    "measure.Measure",
    dirac={"theta": array([1.0, 2.0])},
    integrate={"values": array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "axes": False},
    map={"g": function(lambda x: 2 * x, lambda x: x[:1], lambda x: x[:, 0])},
    resample={"rng": rng(), "n": count(4)},
    merge={"tolerance": number(0.5)},
)
add("measure.mixture", mixture, mu=measure(PLANE), nu=measure(OTHER), s=number(0.25))

# ------------------------------------------------------------------------------------------ spaces

ON = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
STEP = np.array([[0.5, 2.0, -1.0], [1.0, 0.25, 0.0]])
add("space.Ball", space.Ball, radius=number(2.0), blocks=sequence([2, 1], 0, 2**70))
add("space.Euclidean", space.Euclidean)
add("space.Sphere", space.Sphere)
for place in (space.Euclidean(), space.Ball(1.0, (2, 1)), space.Sphere()):
    for name, arguments in {
        "tangent": {"x": array(ON), "v": array(STEP)},
        "retract": {"x": array(ON), "v": array(STEP)},
        "project": {"x": array(STEP)},
        "contains": {"x": array(ON), "tolerance": number(1e-8)},
        "distance": {"x": array(ON), "y": array(ON[::-1])},
        "chart": {"q": array(STEP), "view": lambda found: (found[0], found[1](found[0]))},
        "unchart": {"x": array(ON)},
        "hessian": {"x": array(ON[0]), "gradient": array(STEP[0]), "hessian": array(np.eye(3))},
    }.items():
        methods(place, f"space.{type(place).__name__}", **{name: {**arguments, "axes": False}})
methods(space.Ball(1.0, (2, 1)), "space.Ball", sample={"rng": rng(), "n": count(2)})
methods(space.Sphere(), "space.Sphere", sample={"rng": rng(), "n": count(2), "dim": count(3)})

# ------------------------------------------------------------------------------------- functionals


def centred(a):
    """A measure around a point."""
    return Measure([a, 2 * a])


enter(
    confinement,
    Anchor={
        "lam": number(0.5),
        "a": array([1.0, -1.0]),
        "view": lambda F: evaluated(centred(F.a), [F.a + 1])(F),
    },
    Ridge={"lam": number(0.5), "view": evaluated(PLANE, PLANE.atoms)},
)
functional_methods(ANCHOR, "confinement.Anchor", PLANE, PLANE.atoms)
functional_methods(RIDGE, "confinement.Ridge", PLANE, PLANE.atoms)
SUM = RIDGE + 2 * ANCHOR
add(
    "functional.Combination",
    functional.Combination,
    terms=sequence([(1.0, RIDGE), (2.0, ANCHOR)], (1.0,), (1.0, None), ("1", RIDGE), (True, RIDGE)),
    space=other(space.Euclidean(), "ball", space.Ball, none=True),
    view=evaluated(PLANE, PLANE.atoms),
)
functional_methods(SUM, "functional.Combination", PLANE, PLANE.atoms)
add(
    "functional.check_functional",
    functional.check_functional,
    F=other(ANCHOR, *WRONG_FUNCTIONALS),
    mu=measure(PLANE),
    rng=rng(),
    step=number(1e-5),
    tolerance=number(1e-6),
    same=1e-3,
)

# ------------------------------------------------------------------------------------- derivatives

SMALL = attention.HeadShape(1, 1, 1)
HEAD = np.array([[1.0, 0.5, 3.0, 4.0], [0.5, 1.0, -1.0, 2.0]])
WORDS = np.array([[1.0], [-2.0], [0.5]])
enter(
    derivatives,
    directional_derivatives={
        "theta": array(HEAD),
        "h": array(HEAD[::-1]),
        "X": array(WORDS),
        "W_U": array([[1.0, -1.0]]),
        "shape": other(SMALL, SHAPE),
        "counts": array([1.0, 2.0, 0.5], none=True),
    },
    derivative_norms={
        "theta": array(HEAD),
        "X": array(WORDS),
        "W_U": array([[1.0, -1.0]]),
        "shape": other(SMALL, SHAPE),
        "iterations": count(3),
    },
    largest_derivative={
        "order": count(1),
        "shape": other(SMALL, "shape"),
        "r": number(2.0),
        "rng": rng(),
        "R_X": number(1.0),
        "R_U": number(1.0),
        "tokens": count(1),
        "starts": count(1),
        "same": 1e-6,
        "share": 0.1,
    },
)

# -------------------------------------------------------------------------------------------- flow

TIMES = np.array([0.0, 0.5, 1.0])
RUN = flow.gradient_flow(RIDGE, PLANE, TIMES, dense=True, rtol=1e-3, atol=1e-3)


def profile_view(xi):
    return xi(TIMES), xi.tau(TIMES), xi.name, xi.breaks, xi.diverges


WRONG_PROFILES = (lambda t: -1.0 - t, lambda t: 0 * t + np.nan, lambda t: np.zeros(7))
FLOW = {
    "times": array(TIMES, effort=True),
    "xi": function(lambda t: 0.5 + 0 * t, *WRONG_PROFILES, none=True),
    "rtol": number(0.125, effort=True),
    "atol": number(0.125, effort=True),
}
enter(
    flow,
    dissipation={"F": other(RIDGE, *WRONG_FUNCTIONALS), "mu": measure(PLANE)},
    gradient_flow={
        "F": other(RIDGE, *WRONG_FUNCTIONALS),
        "mu": measure(PLANE, effort=True),
        **FLOW,
        "also": ["field", "method"],
    },
    flow={
        "field": function(lambda x, mu: -x, lambda x, mu: x[:1], lambda x, mu: x + 0j),
        "mu": measure(PLANE, effort=True),
        **FLOW,
        "space": other(space.Euclidean(), *WRONG_SPACES, none=True),
        "method": other("RK45", "rk45", "euler", "rosenbrock", text=True),
        "events": sequence([lambda t, mu: t - 0.3], lambda t, mu: np.nan, lambda t, mu: None),
        "functional": other(RIDGE, *WRONG_FUNCTIONALS, none=True),
        "dense": flag(False),
        "step": other(None, 0.1, none=True),
        "checkpoint": other(None, none=True, text=True),
        "also": ["event", "answers"],
    },
    sgd={
        "F": other(RISK, *WRONG_FUNCTIONALS),
        "mu": measure(MU),
        "times": array(TIMES, effort=True),
        "epsilon": number(0.5, effort=True),
        "rng": rng(),
        "batch": count(1),
        "xi": function(lambda t: 0.5 + 0 * t, *WRONG_PROFILES, none=True),
        "checkpoint": other(None, none=True, text=True),
    },
    constant={"value": number(0.5), "view": profile_view},
    polynomial_decay={
        "start": number(0.5),
        "scale": number(2.0),
        "power": number(1.0),
        "view": profile_view,
    },
    warmup_cosine={
        "peak": number(1.0),
        "warmup": number(0.25),
        "end": number(2.0),
        "floor": number(0.125),
        "view": profile_view,
    },
    custom={
        "function": function(lambda t: 0.5 + 0 * t, *WRONG_PROFILES),
        "clock": function(lambda t: t, lambda t: -t, none=True),
        "breaks": sequence([0.5, 0.75], -1.0, np.nan),
        "name": other("mine", text=True),
        "view": profile_view,
        "also": ["xi"],
    },
    check_profile={
        "xi": function(lambda t: 0.5 + 0 * t, *WRONG_PROFILES, none=True),
        "t_end": number(2.0),
        "samples": count(5),
        "share": 0.5,
    },
)
methods(
    flow.polynomial_decay(0.5, 1.0, 1.0),
    "flow.LearningRate",
    __call__={"t": array(TIMES, truth=False), "axes": False},
    tau={"t": array(TIMES, truth=False), "axes": False},
)
FOLDER = Path(tempfile.mkdtemp(prefix="mfbook-"))
atexit.register(shutil.rmtree, FOLDER)
RUN.save(FOLDER / "run.npz")
add(
    "flow.Trajectory.load",
    flow.Trajectory.load,
    path=other(FOLDER / "run.npz", FOLDER, FOLDER / "none", same=[str(FOLDER / "run.npz")]),
)
methods(
    RUN,
    "flow.Trajectory",
    save={"path": other(FOLDER / "saved.npz", text=True)},
    measure={"i": count(1)},
    at={"t": number(0.25)},
    integrate={"f": function(lambda x: x[:, 0])},
)


class Decay:
    """A linear system for the integrator."""

    def solve(self, c, b):
        return b / (1 + c)


def finish(solver):
    """The end of an integration."""
    while solver.status == "running":
        solver.step()
    return solver.t, solver.y, solver.status


add(
    "flow.Rosenbrock",
    flow.Rosenbrock,
    fun=fixed(lambda t, y: -y),
    t0=number(0.0, effort=True),
    y0=array([1.0, 2.0], effort=True),
    t_bound=number(1.0, effort=True),
    linearised=function(lambda t, y: Decay()),
    rtol=number(0.125, effort=True),
    atol=number(0.125, effort=True),
    norm=other("rms", "l2", text=True),
    max_step=number(1.0, effort=True),
    first_step=number(0.5, none=True, effort=True),
    vectorized=flag(False),
    view=finish,
    also=["t_bound", "first_step", "rtol"],
)

# --------------------------------------------------------------------------------------- transport

POINTS = np.array([[1.0, 0.0], [0.5, 2.0]])


def test_function_view(f):
    return f(POINTS), f.gradient(POINTS), f.name


PAIR = {"mu": measure(PLANE), "nu": measure(OTHER)}
enter(
    transport,
    wasserstein={**PAIR, "p": count(2), "memory": number(2.0**30)},
    optimal_plan={**PAIR, "p": count(1), "memory": number(2.0**30)},
    displacement={
        **PAIR,
        "s": number(0.25),
        "plan": other(transport.optimal_plan(PLANE, OTHER), "plan", none=True),
    },
    coupled_distance={"mu": measure(PLANE), "nu": measure(Measure(-PLANE.atoms, WEIGHTS))},
    sliced_w2={**PAIR, "rng": rng(), "projections": count(3)},
    direction={"u": array([0.0, 2.0]), "name": other("u", none=True, text=True)},
    distance_to={"point": array([0.0, 2.0]), "name": other("u", none=True, text=True)},
    saturated={
        "u": array([0.0, 2.0]),
        "offset": number(0.5),
        "width": number(0.5),
        "name": other("u", none=True, text=True),
    },
    random_functions={"rng": rng(), "dim": count(2), "n": count(3)},
    discrepancy={"f": function(lambda x: x[:, 0]), **PAIR},
    dual_witness={**PAIR, "memory": number(2.0**30)},
)
for name in ("direction", "distance_to", "saturated"):
    case = CASES[f"transport.{name}"]
    CASES[f"transport.{name}"] = replace(case, view=test_function_view, also=("x",))
methods(transport.direction([0.0, 2.0]), "transport.TestFunction", __call__={"x": array(POINTS)})
methods(transport.dual_witness(PLANE, OTHER), "transport.Witness", __call__={"x": array(POINTS)})

# --------------------------------------------------------------------------------------- stability

GAP = np.array([8.0, 5.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625])
AROUND = {"F": other(ANCHOR, *WRONG_FUNCTIONALS), "mu": measure(PLANE)}
enter(
    stability,
    atomic_stability=AROUND,
    second_variation={**AROUND, "eta": array(PLANE.atoms)},
    dirac_stability={
        "F": other(ANCHOR, *WRONG_FUNCTIONALS),
        "theta": array([1.0, -1.0]),
        "stationary": number(1e-7),
        "tolerance": number(1e-9),
    },
    curvature_margin={
        "F": other(ANCHOR, *WRONG_FUNCTIONALS),
        "theta": array([1.0, -1.0]),
        "rng": rng(),
        "radius": number(1.0),
        "samples": count(2),
        "parts": count(2),
    },
    strong_monotonicity={
        **AROUND,
        "rng": rng(),
        "radius": number(1.0),
        "near": other("W2", "W3", "Winf", text=True),
        "parts": count(2),
        "couplings": count(2),
        "descents": count(1),
        "maxiter": count(2),
        "share": 0.3,
    },
    radial_drift={
        **AROUND,
        "radii": array([1.0, 2.0]),
        "rng": rng(),
        "samples": count(3),
        "descents": count(1),
        "maxiter": count(3),
        "share": 0.5,
    },
    kl_fit={"gap": array(GAP), "dissipation": array(GAP**1.5), "blocks": count(2)},
    kl_constant={"gap": array(GAP), "dissipation": array(GAP**1.5), "alpha": number(0.75)},
    kl_envelope={
        "tau": array(TIMES),
        "E0": number(2.0),
        "c": number(0.5),
        "alpha": number(0.75),
    },
    kl_length={"E0": number(2.0), "c": number(0.5), "alpha": number(0.75)},
    stationarity=AROUND,
    best_alternative={
        "F": other(INSIDE, *WRONG_FUNCTIONALS),
        "mu": measure(MU),
        "rng": rng(),
        "starts": count(1),
        "pool": count(2),
        "maxiter": count(3),
        "share": 0.2,
    },
)

# ------------------------------------------------------------------------------------------ bounds

RADII = {"R_X": number(1.5), "R_U": number(2.0), "r": number(0.5)}
enter(
    bounds,
    feature_bound=RADII,
    score_bound={"R_X": number(1.5), "r": number(0.5), "k": count(2)},
    monte_carlo_rate={"B": number(2.0), "M": count(4)},
    sharp_rate={"B": number(2.0), "M": count(4)},
    variance_rate={"sigma2": number(2.0), "M": count(4)},
    feature_variance={"risk": other(RISK, RIDGE), "mu": measure(MU)},
    leading_coefficient={"risk": other(RISK, RIDGE), "mu": measure(MU)},
    growth_bound={
        "R_X": number(1.5),
        "R_U": number(2.0),
        "k": count(2),
        "tau": number(0.5),
        "values": number(2.0),
        "queries": number(1.0),
    },
    data_radii={"X": array(X), "W_U": array(W_U)},
    propagation_rate={
        "M": count(4),
        "epsilon": number(0.125),
        "delta": number(0.5),
        "D": count(8),
        "t_end": number(2.0),
    },
    propagation_bound={
        **RADII,
        "k": count(2),
        "M": count(4),
        "epsilon": number(0.125),
        "tau": number(2.0),
        "view": lambda bound: (bound, bound.log10),
    },
)
for name in (
    "jacobian_bound", "sharp_jacobian_bound", "hessian_bound", "hessian_attained",
    "feature_bounds", "drift_lipschitz",
):  # fmt: skip
    enter(bounds, **{name: {**RADII, "k": count(2)}})
for name in ("third_moment_constant", "loss_lipschitz", "loss_smoothness", "softmax_lipschitz"):
    enter(bounds, **{name: {}})

# ------------------------------------------------------------------------------------------- tasks

IDS = np.array([[-1, 0, 1], [-1, 2, 0]])
HELD = tasks.Task(X, Y, W_U, "held", IDS)
TASK = tasks.Task(X, Y, W_U, "fuzz", IDS, ("a", "b", "c"), held_out=HELD)
SIZES = {"sequences": count(2), "tokens": count(4), "vocabulary": count(3)}
TEXT = "the quick brown fox jumps over the lazy dog, again and again. " * 9
SPARE = attention.HeadShape(4, 2, 2)
enter(
    tasks,
    Task={
        "X": array(X),
        "Y": array(Y),
        "W_U": array(W_U),
        "name": other("fuzz", text=True),
        "tokens": array(IDS, none=True),
        "words": sequence(["a", "b", "c"], none=True),
        "teacher": measure(MU, none=True),
        "optimal_risk": number(0.5, none=True),
        "held_out": other(HELD, "task", none=True),
    },
    teacher_student={
        "shape": other(SHAPE, "shape"), **SIZES, "heads": count(2), "rng": rng(),
        "scale": number(2.0),
    },
    copy_task={**SIZES, "lag": count(1), "rng": rng()},
    copy_head={
        "shape": other(SPARE, SHAPE, "shape"), "tokens": count(4), "lag": count(1),
        "scale": number(2.0),
    },
    induction_task={**SIZES, "rng": rng()},
    induction_head={
        "shape": other(attention.HeadShape(3, 2, 1), SHAPE, "shape"), "scale": number(2.0),
    },
    text_task={
        "sequences": count(2), "tokens": count(4), "held_out": count(2), "rng": rng(),
        "text": other(TEXT, "", "?", "ab", none=True, text=True),
    },
    entropy={"Y": array(Y)},
    bits_per_character={"nats": number(1.5)},
    unigram_bits={"task": other(TASK, HELD), "smoothing": number(0.5)},
    bigram_bits={"task": other(TASK, HELD), "smoothing": number(0.5)},
    clean={"text": other("Some Text.", "", "\x00\ud800", "é" * 9, text=True)},
    prose={"document": other("Some Text.\n\nMore.", "", "\x00\ud800", text=True)},
    corpus_hash={},
    corpus={},
)  # fmt: skip
(FOLDER / "text.txt").write_text(TEXT)
add(
    "tasks.task_from_text",
    tasks.task_from_text,
    path=other(FOLDER / "text.txt", FOLDER / "none", FOLDER / "run.npz"),
    sequences=count(2),
    tokens=count(4),
    held_out=count(2),
    rng=rng(),
    also=["text"],
)
methods(
    TASK,
    "tasks.Task",
    risk={
        "shape": shape(),
        "space": other(BALL, *WRONG_SPACES, none=True),
        "dtype": other(np.float64, np.float16, int, "precise", same=[float, "f8"], none=True),
        "view": evaluated(MU, THETA),
    },
    held_out_risk={
        "shape": shape(),
        "space": other(BALL, *WRONG_SPACES, none=True),
        "dtype": other(np.float64, np.float16, int, "precise", same=[float, "f8"], none=True),
        "view": evaluated(MU, THETA),
    },
    sequence={"s": count(1)},
)

# ---------------------------------------------------------------------------------------- parallel

PARTS = [RISK, attention.AttentionRisk(-X, Y, W_U, SHAPE)]
add(
    "parallel.ParallelSum",
    parallel.ParallelSum,
    terms=sequence([(1.0, RIDGE), (2.0, ANCHOR)], (1.0,), (1.0, None), ("1", RIDGE)),
    space=other(space.Euclidean(), "ball", space.Ball, none=True),
    view=evaluated(PLANE, PLANE.atoms),
)
functional_methods(
    parallel.ParallelSum(((1.0, RIDGE), (2.0, ANCHOR))), "parallel.ParallelSum", PLANE, PLANE.atoms
)
add(
    "parallel.ShardedRisk",
    parallel.ShardedRisk,
    parts=sequence(PARTS, INSIDE, RIDGE),
    view=evaluated(MU, THETA),
)
functional_methods(parallel.ShardedRisk(PARTS), "parallel.ShardedRisk", MU, THETA)
add(
    "parallel.shards",
    parallel.shards,
    R=other(RISK, *WRONG_FUNCTIONALS),
    n=count(2),
    view=evaluated(MU, THETA),
)

# ------------------------------------------------------------- certificates, influence, ensembles

SEARCH = {"starts": count(1), "pool": count(2), "maxiter": count(3)}
enter(
    certificate,
    frank_wolfe_gap={
        "F": other(INSIDE, *WRONG_FUNCTIONALS), "mu": measure(MU), "rng": rng(), **SEARCH,
        "share": 0.2,
    },
    optimal_weights={
        "F": other(ANCHOR, *WRONG_FUNCTIONALS),
        "atoms": array(PLANE.atoms),
        "start": array(WEIGHTS, none=True),
        "tolerance": number(1e-6),
        "same": 1e-4,
    },
    boost={
        "F": other(INSIDE, *WRONG_FUNCTIONALS), "mu": measure(MU), "rng": rng(),
        "rounds": count(1), "tolerance": number(1e-3), "polish": count(1), **SEARCH,
        "same": 1e-4, "share": 0.1,
    },
)  # fmt: skip
enter(
    influence,
    influence={
        "F": other(ANCHOR, *WRONG_FUNCTIONALS),
        "mu": measure(PLANE, effort=True),
        "times": array(TIMES[1:], effort=True),
        "terminal": other(transport.direction([1.0, 0.0]), lambda x: x[:, 0], none=True),
        "rtol": number(0.01, effort=True),
        "same": 1e-6,
        "share": 0.2,
    },
)
RUNS = np.stack([THETA, -THETA])
enter(
    ensemble,
    sgd_ensemble={
        "F": other(RISK, *WRONG_FUNCTIONALS),
        "atoms": array(RUNS),
        "times": array(TIMES, effort=True),
        "epsilon": number(0.5, effort=True),
        "rngs": sequence([1, 2], -1),
        "observe": function(lambda mu: mu.atoms[:, 0].mean(keepdims=True)),
        "weights": array([WEIGHTS, WEIGHTS], none=True),
        "batch": count(1),
        "axes": False,
        "nan": True,
        "xi": function(lambda t: 0.5 + 0 * t, *WRONG_PROFILES, none=True),
    },
    ensemble_gradient={
        "theta": array(RUNS.transpose(2, 0, 1)),
        "X": array(np.stack([X, X])),
        "Y": array(np.stack([Y, Y])),
        "W_U": array(W_U),
        "shape": shape(),
    },
)

# ------------------------------------------------------------------------------ layers and networks

BOTH = layers.label(THETA[:1], THETA[1:])
LABELLED = Measure(BOTH, WEIGHTS)
enter(
    layers,
    label={"first": array(THETA[:1]), "second": array(THETA[1:])},
    unlabel={"atoms": array(BOTH)},
    StackedRisk={**risk_arguments(), "view": evaluated(LABELLED, BOTH)},
)
functional_methods(layers.StackedRisk(X, Y, W_U, SHAPE), "layers.StackedRisk", LABELLED, BOTH)

INPUTS, TARGETS = np.array([[0.5], [1.0], [-2.0]]), np.array([1.0, -1.0, 0.5])
NEURONS = np.array([[1.0, 0.5, 0.25], [-0.5, 2.0, 0.0], [0.25, -1.0, 1.0]])
WIDE = Measure(NEURONS, WEIGHTS)
choices = lambda: other("tanh", "relu", activations.GELU, "sigmoid", None, text=True)  # noqa: E731
enter(
    network,
    neurons={
        "theta": array(NEURONS),
        "X": array(INPUTS),
        "sigma": choices(),
        "also": ["activation"],
    },
    TwoLayerRisk={
        "X": array(INPUTS),
        "Y": array(TARGETS),
        "activation": choices(),
        "view": evaluated(WIDE, NEURONS),
        "also": ["mu"],
    },
)
functional_methods(
    network.TwoLayerRisk(INPUTS, TARGETS),
    "network.TwoLayerRisk",
    WIDE,
    NEURONS,
    output={"mu": measure(WIDE)},
)

# ------------------------------------------------------------------------------------------ tokens

MATRIX = np.array([[1.0, 0.5], [0.25, -1.0]])
ENERGY = tokens.TokenEnergy(0.5)
add("tokens.TokenEnergy", tokens.TokenEnergy, beta=number(0.5), view=evaluated(PLANE, PLANE.atoms))
functional_methods(ENERGY, "tokens.TokenEnergy", PLANE, PLANE.atoms)
for name in [name for name in CASES if name.startswith("tokens.TokenEnergy.")]:
    CASES[name] = replace(CASES[name], doc=tokens.TokenEnergy.__doc__)
enter(
    tokens,
    blow_up_bounds={"mu": measure(PLANE), "beta": number(0.5)},
    softmax_potential={
        "x": array(POINTS), "mu": measure(PLANE), "Q": array(MATRIX, none=True),
        "K": array(MATRIX, none=True),
    },
    softmax_field={
        "x": array(POINTS), "mu": measure(PLANE), "Q": array(MATRIX, none=True),
        "K": array(MATRIX, none=True), "V": array(MATRIX, none=True),
    },
    sinkhorn_potential={"mu": measure(PLANE), "tolerance": number(1e-3), "maxiter": count(20)},
    sinkhorn_field={
        "x": array(POINTS), "mu": measure(PLANE), "tolerance": number(1e-3), "maxiter": count(20),
    },
    asymmetry={"A": array(MATRIX)},
    centred_kernel={"potential": function(tokens.softmax_potential), "mu": measure(PLANE)},
    particle_jacobian={"field": function(tokens.softmax_field), "mu": measure(PLANE)},
)  # fmt: skip
methods(
    tokens.sinkhorn_potential(PLANE),
    "tokens.SinkhornPotential",
    __call__={"x": array(POINTS)},
    field={"x": array(POINTS)},
)

# ------------------------------------------------------------------------------------------ report


def checked(statement, row, note):
    return report.check(statement, row, note=note)


def judged(row):
    return row.holds, row.what


ROW = report.at_most("a", 1.0, 2.0)
COMPARED = {"what": other("a", text=True), "measured": number(1.0), "tolerance": number(0.25)}
enter(
    report,
    at_most={**COMPARED, "bound": number(2.0), "view": judged},
    at_least={**COMPARED, "bound": number(0.5), "view": judged},
    # a measured value that is not a number stays one, and no check holds with it
    below={"value": number(1e-9), "limit": number(1e-8), "nan": True},
    above={"value": number(0.31), "limit": number(0.3), "nan": True},
    coarse={"value": number(0.1234), "digits": count(2), "nan": True},
    equal={**COMPARED, "expected": number(1.0), "view": judged},
    Row={
        **COMPARED,
        "relation": other("<=", ">=", "<", text=True),
        "reference": number(2.0),
        "view": judged,
    },
    table={
        "rows": sequence([{"a": 1.0}, {"a": 2.0}], {"b": 1.0}),
        "caption": other("caption", text=True),
    },
    show={
        "text": other("a", text=True), "markup": other("<p>", text=True),
        "data": other({"a": 1}, none=True),
    },
)  # fmt: skip
add(
    "report.check",
    checked,
    statement=other("hy", text=True),
    row=other(ROW, "row"),
    note=other("note", text=True),
    doc=documentation(report.check),
    also=["rows"],
)

# ------------------------------------------------------------------------------------------ sweeps


def combined(a, b):
    return sweep.grid(a=a, b=b)


def hashed(module):
    return sweep.code_hash(module)


enter(
    sweep,
    sweep={
        "function": function(dict),
        "cells": sequence([{"a": 1}, {"a": 2}], {}, {1: 2}),
        "cache": other(None, none=True, text=True),
        "n_jobs": other(1, 0, -2, 2**70, "2", none=True),
        "progress": fixed(False),
        "view": len,
    },
)
add("sweep.grid", combined, a=sequence([1, 2]), b=sequence([3, 4]), also=["axes"], view=len)
add(
    "sweep.code_hash",
    hashed,
    module=other("measure", "..", "/etc", "", "\x00", text=True),
    also=["modules"],
)

# ------------------------------------------------------------------------------------------ sphere

ANGLES = np.array([0.1, 0.5, 2.0])
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
RING = Measure(CIRCLE, WEIGHTS)
UNITS, OMEGA = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0.5, -0.25])
ATTENTION = sphere.SphereEnergy(2.0)
MODEL = sphere.SphereEnergy(2.0, UNITS, OMEGA, "gelu")
GLOBE = Measure(ON, [0.25, 0.75])
WRONG_ENERGIES = (RIDGE, sphere.SphereEnergy, sphere.SphereEnergy(1.0, [[1.0, 0, 0]], [1.0]))
energy = lambda: other(MODEL, *WRONG_ENERGIES)  # noqa: E731
PERCEPTRON = {"a": array(UNITS), "omega": array(OMEGA)}
enter(
    sphere,
    SphereEnergy={
        "beta": number(2.0),
        **PERCEPTRON,
        "activation": other("gelu", "sigmoid", None, text=True),
        "normalised": flag(True),
        "bias": array([0.25, 0.5], none=True),
        "B": array([[1.0, 0.25], [0.25, 0.5]], none=True),
        "view": lambda F: (F(RING), F.velocity(CIRCLE, RING)),
    },
    kernel={"u": array(ANGLES), "beta": number(2.0), "axes": False},
    fourier_coefficients={"beta": number(2.0), "tolerance": number(1e-16)},
    funk_hecke={
        "beta": number(2.0), "d": count(3), "k": array([0, 1, 2]), "log": flag(False),
        "axes": False,
    },
    inflection={"beta": number(2.0)},
    anticoncentration={"beta": number(2.0), "gamma": number(0.5)},
    cluster_mass_bound={
        "beta": number(2.0), "lipschitz_omega": number(0.25), "gamma": number(0.5),
    },
    single_cluster_excluded={
        "beta": number(2.0), "lipschitz_omega": number(0.25), "gamma": number(0.5),
    },
    heavy_atom_bound={
        "beta": number(2.0), "kappa": number(0.25), "m_bar": number(0.5), "gamma": number(0.5),
        "arcs": array([1.0, 2.0]),
    },
    clusters={
        "mu": measure(RING), "beta": number(2.0, none=True), "threshold": other(None, none=True),
        "linkage": other("single", "arcs", "complete", text=True),
    },
    default_threshold={"beta": number(2.0), "d": count(2)},
    sign_regions={"a": array(UNITS)},
    maximise_potential=PERCEPTRON,
    minimise_potential=PERCEPTRON,
    is_analytic_potential={**PERCEPTRON, "tolerance": number(1e-9)},
    nondegenerate_normalised=PERCEPTRON,
    collinear_maximum={
        "a1": array([0.6, 0.8]), "signs": array([1.0, -1.0]), "omega": array(OMEGA),
    },
    diagonal_maximum={"omega": array(OMEGA), "d": count(3, none=True)},
    nonnegative_maximum={"a": array(UNITS), "omega": array([0.5, 0.25])},
    activation={
        "choice": other("gelu", activations.TANH, "sigmoid", None, text=True),
        "also": ["activation"],
    },
    leaky_relu={"slope": number(0.5), "view": lambda f: f.sigma(ANGLES)},
    frames={"x": array(CIRCLE)},
    velocity_jacobian={"F": energy(), "mu": measure(RING)},
    second_order={"F": energy(), "mu": measure(RING)},
    newton={
        "F": energy(), "mu": measure(RING), "tolerance": number(1e-3), "maxiter": count(2),
        "share": 0.5, "same": 1e-6,
    },
    minimise_on_circle={
        "F": energy(), "tolerance": number(1e-6), "maxiter": count(1), "share": 0.1, "same": 1e-6,
    },
    least_first_variation={
        "F": energy(), "atoms": array(CIRCLE), "weights": array(WEIGHTS), "rng": rng(),
        "starts": count(1), "tolerance": number(1e-6), "budget": count(1000), "share": 0.2,
        "same": 1e-6,
    },
    settle={
        "F": energy(), "mu": measure(RING), "ascent": flag(True),
        "method": other("rosenbrock", "euler", "rk4", text=True),
        "step": number(0.125, effort=True), "horizon": number(2.0, effort=True),
        "most": count(3, none=True), "tolerance": number(1e-4), "window": count(5),
        "threshold": number(0.25, none=True), "linkage": other("single", "arcs", "x", none=True),
        "merge": number(1e-8), "atol": number(1e-2, effort=True), "record": count(1),
        "share": 0.3, "same": 1e-6,
    },
)  # fmt: skip
functional_methods(
    MODEL,
    "sphere.SphereEnergy",
    RING,
    CIRCLE,
    scores={"x": array(CIRCLE)},
    potential={"x": array(CIRCLE)},
    perceptron={"x": array(CIRCLE)},
    energy_parts={"mu": measure(RING)},
    velocity={"x": array(CIRCLE), "mu": measure(RING)},
    field={"ascent": flag(True), "view": lambda field: field(CIRCLE, RING)},
)
methods(
    MODEL.at(RING),
    "sphere.SphereEnergy.at()",
    minimise={"rng": rng(), "budget": count(1000), "share": 0.1},
)
FIELD = MODEL.field()
methods(
    FIELD,
    "sphere.Field",
    __call__={"x": array(CIRCLE), "mu": measure(RING)},
    linearised={
        "mu": measure(RING),
        "view": lambda linear: linear.solve(0.1, np.zeros_like(linear.x)),
    },
)
methods(
    FIELD.linearised(RING),
    "sphere.Linearised",
    solve={"c": number(0.1), "b": array(CIRCLE), "nan": True},
)
methods(equilibria.clusters(RING, 2.0), "equilibria.Clusters", within={"x": array(CIRCLE)})
methods(landscape.sign_regions(UNITS), "landscape.SignRegions", matrices={"omega": array(OMEGA)})
methods(
    equilibria.second_order(MODEL, RING),
    "equilibria.SecondOrder",
    sopd={"tolerance": number(1e-9)},
)
methods(activations.GELU, "activations.Activation", lipschitz={"radius": number(1.0)})


# ------------------------------------------------------------------------------------ completeness

#: Public names without a case, and why.
EXCLUDED = {
    "flow.LearningRate": "a record of functions, made by functions that are called",
    "functional.Functional": "abstract: its methods are called on every functional",
    "functional.Local": "a protocol",
    "functional.Minimisable": "a protocol",
    "functional.Linearisable": "a protocol",
    "functional.Centred": "a protocol",
    "space.Space": "a protocol",
    "network.TwoLayerLocal": "made by TwoLayerRisk.at, under which its methods are called",
    "activations.Activation": "a record of functions, made by functions that are called",
    "equilibria.Clusters": "made by clusters",
    "equilibria.SecondOrder": "made by second_order",
    "sphere.Field": "made by SphereEnergy.field",
    "sphere.Field.at_atoms": "without checks of arguments, as it says, for the inner loop",
    "sphere.Linearised": "made by Field.linearised",
    "tokens.SinkhornPotential": "made by sinkhorn_potential",
    "transport.TestFunction": "a record of functions, made by functions that are called",
    "transport.Witness": "made by dual_witness",
    "report.Check": "made by check",
    "flow.Trajectory": "made by the flows and by Trajectory.load",
    "landscape.SignRegions": "made by sign_regions",
}


def records() -> set[str]:
    """Names of classes that are nothing but the results of functions: they hold what they get."""
    return {
        name
        for name in public_names()
        if name not in CASES
        and dataclasses.is_dataclass(item := _item(name))
        and not _methods(item)
    }


def _item(name):
    return public().get(name)


#: Classes whose methods are called under another name.
ABSTRACT = (
    functional.Functional, functional.Local, functional.Minimisable, functional.Linearisable,
    functional.Centred, network.TwoLayerLocal, space.Space,
)  # fmt: skip


@cache
def public() -> dict[str, object]:
    """What the pages on the interface document, by the names that cases have."""
    texts = (page.read_text() for page in sorted((ROOT / "book" / "api").glob("*.md")))
    names: dict[object, str] = {}
    for place in re.findall(r"automodule:: (\S+)", "".join(texts)):
        path = place.split(".")
        if {"plots", "experiments"} & set(path):
            continue
        module = import_module(place)
        for name in getattr(module, "__all__", ()):
            item = getattr(module, name)
            if callable(item) and getattr(item, "__module__", "").startswith("mfbook"):
                names.setdefault(item, f"{path[-1]}.{name}")
    return {name: item for item, name in names.items()}


def public_names() -> list[str]:
    """Public functions, classes and their methods with arguments, as cases are named."""
    found = []
    for name, item in public().items():
        found.append(name)
        if inspect.isclass(item) and item not in ABSTRACT:
            found += [f"{name}.{method}" for method in _methods(item)]
    return found


def _methods(kind) -> list[str]:
    """Public methods with arguments, inherited ones of the package included."""
    found = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("mfbook"):
            continue
        for name, item in vars(base).items():
            f = getattr(item, "__func__", item)
            if inspect.isfunction(f) and (name == "__call__" or not name.startswith("_")):
                arguments = len(inspect.signature(f).parameters) - (f is item)
                found.setdefault(name, arguments)
    return [name for name, arguments in found.items() if arguments]
