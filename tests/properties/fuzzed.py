"""Fuzzing: a case for every public callable, made from its signature.

``VALUES`` has valid arguments by the names of parameters, as small as they can be, and what holds
in one room, for one class or for one function only. Their kind, and so what is done to them,
follows from the value and the hint. ``OBJECTS`` and ``RESULTS`` have an object of each class with
methods. A new function whose arguments have the usual names needs nothing here.
"""

from __future__ import annotations

import atexit
import dataclasses
import importlib
import inspect
import pkgutil
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from fuzzing import Argument, Case, argument, array, documentation, function, other, sequence

import mfbook
from mfbook import bounds, equilibria, flow, functional, landscape, space, transport
from mfbook.book import report, tasks
from mfbook.bounds.reach import head_reach
from mfbook.landscape.uniform import best_uniform
from mfbook.measure import Measure
from mfbook.models import activations, attention, confinement, layers, network, sphere, tokens
from mfbook.models.attention import parallel

DRAW = np.random.default_rng(0)
S, T, V = 2, 3, 3
SHAPE = attention.HeadShape(2, 1, 1)
X = DRAW.normal(size=(S, T, 2)).round(3)
Y = DRAW.dirichlet(np.ones(V), size=(S, T))
W_U = np.array([[1.0, -2.0, 1.0], [0.5, 0.25, -0.75]])
BALL = SHAPE.ball(2.0)
THETA = BALL.sample(DRAW, 3)
WEIGHTS = np.array([0.5, 0.25, 0.25])
MU = Measure(THETA, WEIGHTS)
PLANE = Measure([[1.0, 0.0], [0.5, 2.0], [-1.0, 1.0]], WEIGHTS)
OTHER = Measure([[0.0, 1.0], [3.0, 2.0]], [0.25, 0.75])
RISK = attention.AttentionRisk(X, Y, W_U, SHAPE)
INSIDE = attention.AttentionRisk(X, Y, W_U, SHAPE, BALL)
RIDGE, ANCHOR = confinement.Ridge(0.5), confinement.Anchor(0.5, [1.0, -1.0])
POINTS = np.array([[1.0, 0.0], [0.5, 2.0]])
ON = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
STEP = np.array([[0.5, 2.0, -1.0], [1.0, 0.25, 0.0]])
TIMES = np.array([0.0, 0.5, 1.0])
RUN = flow.gradient_flow(RIDGE, PLANE, TIMES, dense=True, rtol=1e-3, atol=1e-3)
RUNS = np.stack([THETA, -THETA])
GAP = np.array([8.0, 5.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625])
BOTH = layers.label(THETA[:1], THETA[1:])
INPUTS, TARGETS = np.array([[0.5], [1.0], [-2.0]]), np.array([1.0, -1.0, 0.5])
NEURONS = np.array([[1.0, 0.5, 0.25], [-0.5, 2.0, 0.0], [0.25, -1.0, 1.0]])
HEAD, WORDS = (
    np.array([[1.0, 0.5, 3.0, 4.0], [0.5, 1.0, -1.0, 2.0]]),
    np.array([[1.0], [-2], [0.5]]),
)
MATRIX = np.array([[1.0, 0.5], [0.25, -1.0]])
IDS = np.array([[-1, 0, 1], [-1, 2, 0]])
HELD = tasks.Task(X, Y, W_U, "held", IDS)
TASK = tasks.Task(X, Y, W_U, "fuzz", IDS, ("a", "b", "c"), held_out=HELD)
TEXT = "the quick brown fox jumps over the lazy dog, again and again. " * 9
ANGLES = np.array([0.1, 0.5, 2.0])
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
RING = Measure(CIRCLE, WEIGHTS)
UNITS, OMEGA = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0.5, -0.25])
MODEL = sphere.SphereEnergy(2.0, UNITS, OMEGA, "gelu")
ENERGIES = (RIDGE, sphere.SphereEnergy, sphere.SphereEnergy(1.0, [[1.0, 0, 0]], [1.0]))
PROFILES = (lambda t: -1.0 - t, lambda t: 0 * t + np.nan, lambda t: np.zeros(7))
FOLDER = Path(tempfile.mkdtemp(prefix="mfbook-"))
atexit.register(shutil.rmtree, FOLDER)
RUN.save(FOLDER / "run.npz")
(FOLDER / "text.txt").write_text(TEXT)


class Decay:
    """A linear system for the integrator."""

    def solve(self, c, b):
        return b / (1 + c)


def fixed(value) -> Argument:
    """An argument that stays."""
    return Argument(lambda: value)


#: Valid arguments by name. Below, what holds in a room, for a class, for a function.
VALUES: dict[str, dict] = {
    "": {
        # data and measures
        "X": X, "Y": Y, "W_U": W_U, "shape": SHAPE, "theta": THETA, "mu": PLANE, "nu": OTHER,
        "F": ANCHOR, "risk": RISK, "R": RISK, "x": PLANE.atoms, "atoms": PLANE.atoms,
        "weights": WEIGHTS, "space": BALL, "dtype": other(
            np.float64, np.float16, int, "precise", same=[float, "f8"], none=True),
        "activation": "gelu", "a": UNITS, "omega": OMEGA, "teacher": MU, "task": TASK,
        # randomness, sizes, searches
        "rng": 0, "n": 2, "d": 2, "k": 2, "v": 1, "dim": 2, "M": 4, "D": 8, "p": 2, "s": 0.25,
        "batch": 1, "starts": 1, "pool": 2, "maxiter": 3, "descents": 1, "samples": 2, "parts": 2,
        "budget": 1000, "options": ("starts", "pool", "maxiter"), "tolerance": 1e-3, "radius": 1.0,
        "ridge": 0.1, "memory": 2.0**30,
        "sequences": 2, "tokens": 4, "vocabulary": 3, "held_out": 2, "heads": 2, "lag": 1,
        # flows
        "times": TIMES, "epsilon": 0.5, "xi": lambda t: 0.5 + 0 * t, "rtol": 0.125, "atol": 0.125,
        "checkpoint": None, "dense": False, "progress": fixed(False), "field": lambda x, mu: -x,
        "t_end": 2.0, "t": TIMES, "method": "RK45", "step": None, "function": dict,
        # formulas
        "beta": 2.0, "gamma": 0.5, "alpha": 0.75, "R_X": 1.5, "R_U": 2.0, "r": 0.5, "B": 2.0,
        "lam": 0.5, "scale": 2.0, "c": 0.5, "E0": 2.0, "lipschitz_omega": 0.25, "smoothing": 0.5,
        "gap": GAP, "dissipation": GAP**1.5, "u": np.array([0.0, 2.0]), "threshold": 0.25,
        "linkage": "single", "value": 0.5,
        # texts
        "name": "mine", "text": TEXT, "path": FOLDER / "saved.npz",
    },
    "attention": {"mu": MU, "x": THETA, "f": X, "space": BALL},
    "attention.HeadShape": {"k": 3, "radius": 2.0} | dict(
        zip(("W_Q", "W_K", "W_V", "W_O"), SHAPE.split(THETA), strict=True)),
    "attention.cross_entropy": {"f": X @ W_U, "y": Y},
    "attention.AttentionRisk": {
        "atoms": THETA, "index": np.array([0, 1]), "uniform": np.full((S, T, 1), 0.5)},
    "measure.Measure": {
        "atoms": THETA, "theta": np.array([1.0, 2.0]), "n": 4, "tolerance": 0.5,
        "values": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "g": function(lambda x: 2 * x, lambda x: x[:1], lambda x: x[:, 0])},
    "space": {
        "x": ON, "v": STEP, "q": STEP, "y": ON[::-1], "dim": 3, "radius": 2.0, "tolerance": 1e-8,
        "blocks": sequence([2, 1], 0, 2**70)},
    **{f"space.{name}.project": {"x": STEP} for name in ("Euclidean", "Ball", "Sphere")},
    **{
        f"space.{name}.hessian": {"x": ON[0], "gradient": STEP[0], "hessian": np.eye(3)}
        for name in ("Euclidean", "Ball", "Sphere")},
    "confinement.Anchor": {"a": np.array([1.0, -1.0])},
    "functional": {
        "terms": sequence(
            [(1.0, RIDGE), (2.0, ANCHOR)], (1.0,), (1.0, None), ("1", RIDGE), (True, RIDGE)),
        "space": space.Euclidean(), "step": 1e-5, "tolerance": 1e-6},
    "derivatives": {
        "theta": HEAD, "h": HEAD[::-1], "X": WORDS, "W_U": np.array([[1.0, -1.0]]),
        "shape": attention.HeadShape(1, 1, 1), "counts": np.array([1.0, 2.0, 0.5]), "order": 1,
        "iterations": 3, "r": 2.0, "R_X": 1.0, "R_U": 1.0, "tokens": 1},
    "reach": {"Z": X[::-1], "slope": 0.5, "tolerance": 0.5, "budget": 200, "rounds": 1, "cells": 2},
    "mean_error": {
        "F": RIDGE, "mu": PLANE, "times": np.array([0.5, 1.0]), "step": 0.01, "rtol": 1e-3,
        "radius": fixed(0.5), "M": 3, "values": function(lambda n: 0.5 * n[0], lambda n: None),
        "kappa": function(lambda t: 0.5 - t, lambda t: np.nan, none=True),
        "diameter": function(lambda t: 0.5 + t, lambda t: -1.0, none=True)},
    "flow": {
        "F": RIDGE, "value": 0.5, "start": 0.5, "power": 1.0, "peak": 1.0, "warmup": 0.25,
        "end": 2.0, "floor": 0.125, "clock": function(lambda t: t, lambda t: -t, none=True),
        "breaks": sequence([0.5, 0.75], -1.0, np.nan), "samples": 5, "space": space.Euclidean(),
        "events": sequence([lambda t, mu: t - 0.3], lambda t, mu: np.nan, lambda t, mu: None),
        "functional": RIDGE},
    "flow.gradient_flow": {"options": ("rtol", "atol")},
    "flow.sgd": {"F": RISK, "mu": MU},
    "flow.custom": {"function": function(lambda t: 0.5 + 0 * t, *PROFILES)},
    "flow.LearningRate": {"t": array(TIMES, truth=False)},
    "flow.Trajectory": {"i": 1, "t": 0.25, "f": lambda x: x[:, 0]},
    "flow.Trajectory.load": {"path": other(
        FOLDER / "run.npz", FOLDER, FOLDER / "none", same=[str(FOLDER / "run.npz")])},
    "flow.Rosenbrock": {
        "fun": fixed(lambda t, y: -y), "t0": 0.0, "y0": np.array([1.0, 2.0]), "t_bound": 1.0,
        "linearised": lambda t, y: Decay(), "norm": "rms", "max_step": 1.0, "first_step": 0.5,
        "vectorized": False},
    "transport": {
        "x": POINTS, "plan": transport.optimal_plan(PLANE, OTHER), "projections": 3, "n": 3,
        "point": np.array([0.0, 2.0]), "offset": 0.5, "width": 0.5, "f": lambda x: x[:, 0]},
    "transport.optimal_plan": {"p": 1},
    "transport.coupled_distance": {"nu": Measure(-PLANE.atoms, WEIGHTS)},
    "stability": {
        "theta": np.array([1.0, -1.0]), "eta": PLANE.atoms, "radii": np.array([1.0, 2.0]),
        "near": "W2", "couplings": 2, "blocks": 2, "tau": TIMES, "stationary": 1e-7,
        "tolerance": 1e-9, "start": np.array([1.0, -1.0])},
    "stability.best_alternative": {"F": INSIDE, "mu": MU},
    "bounds": {
        "mu": MU, "sigma2": 2.0, "tau": 2.0, "values": 2.0, "queries": 1.0, "epsilon": 0.125,
        "delta": 0.5, "kappa": 0.25, "excess": 0.125, "m_bar": 0.5, "arcs": np.array([1.0, 2.0])},
    "bounds.growth_bound": {"tau": 0.5},
    "bounds.atom_count_bounds": {
        "F": other(sphere.SphereEnergy(2.0, UNITS, OMEGA), MODEL, *ENERGIES)},
    "bounds.local_mass_bound": {"curvature": 0.25, "diameter": 0.5},
    "bounds.training_bound": {"S": 2, "population": 4},
    "bounds.finite_population": {"S": 2, "N": 4},
    **{f"bounds.stacked_{name}": {"P": 2.0, "V": 3} for name in ("cost", "gain", "threshold")},
    "tasks": {
        "mu": MU, "x": THETA, "document": other(
            "Some Text.\n\nMore.", "", "\x00\ud800", text=True), "nats": 1.5,
        "path": other(FOLDER / "text.txt", FOLDER / "none", FOLDER / "run.npz")},
    "tasks.Task": {
        "sentences": sequence(["a b c", "a c"], 3, "a"), "projection": "random", "end": ".",
        "tokens": IDS, "words": sequence(["a", "b", "c"], none=True), "optimal_risk": 0.5,
        "held_out": HELD, "s": 1},
    "tasks.copy_head": {"shape": attention.HeadShape(4, 2, 2)},
    "tasks.induction_head": {"shape": attention.HeadShape(3, 2, 1)},
    "tasks.clean": {"text": other("Some Text.", "", "\x00\ud800", "é" * 9, text=True)},
    "parallel": {
        "terms": sequence([(1.0, RIDGE), (2.0, ANCHOR)], (1.0,), (1.0, None), ("1", RIDGE)),
        "parts": sequence([RISK, attention.AttentionRisk(-X, Y, W_U, SHAPE)], INSIDE, RIDGE),
        "space": space.Euclidean()},
    "parallel.ShardedRisk": {"space": BALL, "mu": MU, "x": THETA, "atoms": THETA},
    "parallel.shards": {"mu": MU, "x": THETA},
    "optimise": {"F": INSIDE, "mu": MU, "rounds": 1, "polish": 1},
    "optimise.optimal_weights": {"F": ANCHOR, "start": WEIGHTS, "tolerance": 1e-6},
    "influence": {
        "times": TIMES[1:], "rtol": 0.01,
        "terminal": other(transport.direction([1.0, 0.0]), lambda x: x[:, 0], none=True)},
    "ensemble": {
        "F": RISK, "mu": MU, "atoms": RUNS, "rngs": sequence([1, 2], -1),
        "observe": lambda mu: mu.atoms[:, 0].mean(keepdims=True),
        "weights": np.array([WEIGHTS, WEIGHTS])},
    "ensemble.ensemble_gradient": {
        "theta": RUNS.transpose(2, 0, 1), "X": np.stack([X, X]), "Y": np.stack([Y, Y])},
    "weighted": {
        "risk": RISK, "theta": RUNS, "heads": np.array([WEIGHTS, WEIGHTS]),
        "sequences": np.array([[0.5, 0.5], [1.0, -1.0]])},
    "layers": {
        "first": THETA[:1], "second": THETA[1:], "atoms": BOTH, "x": BOTH,
        "mu": Measure(BOTH, WEIGHTS)},
    "network": {
        "theta": NEURONS, "X": INPUTS, "Y": TARGETS, "sigma": "tanh", "activation": "tanh",
        "mu": Measure(NEURONS, WEIGHTS), "x": NEURONS, "atoms": NEURONS},
    "tokens": {
        "beta": 0.5, "x": POINTS, "Q": MATRIX, "K": MATRIX, "V": MATRIX, "A": MATRIX,
        "maxiter": 20, "potential": tokens.softmax_potential},
    "tokens.TokenEnergy": {"x": PLANE.atoms},
    "tokens.sinkhorn_field": {"options": ("tolerance", "maxiter")},
    "tokens.particle_jacobian": {"field": tokens.softmax_field},
    "report": {
        "what": "a", "measured": 1.0, "bound": 2.0, "tolerance": 0.25, "expected": 1.0,
        "digits": 2, "value": 1e-9, "limit": 1e-8,
        "rows": sequence([{"a": 1.0}, {"a": 2.0}], {"b": 1.0}), "caption": "caption",
        "text": "a", "markup": "<p>", "statement": "hy", "note": "note",
        "data": other({"a": 1}, none=True)},
    "report.Row": {"relation": "<=", "reference": 2.0},
    "report.at_least": {"bound": 0.5},
    "report.above": {"value": 0.31, "limit": 0.3},
    "report.coarse": {"value": 0.1234},
    "report.check": {"rows": other(report.at_most("a", 1.0, 2.0), "row")},
    "sweep": {
        "cells": sequence([{"a": 1}, {"a": 2}], {}, {1: 2}), "cache": None,
        "n_jobs": other(1, 0, -2, 2**70, "2", none=True), "axes": ("a", "b"),
        "a": sequence([1, 2]), "b": sequence([3, 4]),
        "modules": other("measure", "..", "/etc", "", "\x00", text=True)},
    "sphere": {
        "F": MODEL, "mu": RING, "x": CIRCLE, "atoms": CIRCLE, "normalised": True, "ascent": True,
        "bias": np.array([0.25, 0.5]), "B": np.array([[1.0, 0.25], [0.25, 0.5]]), "log": False,
        "u": ANGLES, "b": CIRCLE, "c": 0.1, "space": space.Sphere(),
        "ridge": fixed(0.0),
        "options": ("budget",)},
    "sphere.fourier_coefficients": {"tolerance": 1e-16},
    "sphere.funk_hecke": {"d": 3, "k": np.array([0, 1, 2])},
    "landscape": {
        "F": other(MODEL, *ENERGIES), "atoms": CIRCLE, "a1": UNITS[1], "tolerance": 1e-9,
        "signs": np.array([1.0, -1.0])},
    "landscape.diagonal_maximum": {"d": 3},
    "landscape.nonnegative_maximum": {"omega": np.array([0.5, 0.25])},
    "landscape.least_first_variation": {"tolerance": 1e-6},
    "uniform": {"N": MATRIX, "mu": MU, "tolerance": 1e-6, "steps": 50, "shape": SHAPE},
    "equilibria": {
        "F": other(MODEL, *ENERGIES), "mu": RING, "x": CIRCLE, "ascent": True,
        "method": "rosenbrock", "step": 0.125, "horizon": 2.0, "most": 3, "window": 5,
        "merge": 1e-8, "atol": 1e-2, "record": 1},
    "equilibria.clusters": {"threshold": None},
    "equilibria.newton": {"maxiter": 2},
    "equilibria.minimise_on_circle": {"tolerance": 1e-6, "maxiter": 1},
    # with a protocol no other rule is allowed: tests/unit/equilibria
    "equilibria.settle": {"tolerance": 1e-4, "protocol": fixed(None)},
    "equilibria.Protocol": {"between": 1, "window": 1, "most": 2, "repelled": 1, "reach": 0.5,
                            "cap": True, "collapse": 0.0, "step": 0.1, "perceptron": True},
    "equilibria.SecondOrder": {"tolerance": 1e-9},
    "activations": {"choice": "gelu", "slope": 0.5},
}  # fmt: skip

#: Wrong values by name, beside those of the kind.
FUNCTIONALS = (confinement.Ridge, confinement.Anchor(1.0, [0.0] * 5), MU, tokens.TokenEnergy)
SHAPES = ((2, 1, 1), attention.HeadShape(3, 2, 1), attention.HeadShape, "shape")
ACTIVATIONS = (activations.GELU, activations.TANH, "relu", "sigmoid")
WRONG = {
    "F": FUNCTIONALS, "R": FUNCTIONALS, "risk": (RIDGE,), "functional": FUNCTIONALS,
    "space": (space.Ball(1.0, (5,)), space.Sphere(), space.Ball, "ball"), "shape": SHAPES,
    "xi": PROFILES,
    "field": (lambda x, mu: x[:1], lambda x, mu: x + 0j), "method": ("rk45", "euler", "rosenbrock"),
    "step": (0.1,), "norm": ("l2",), "near": ("W3", "Winf"), "relation": (">=", "<"),
    "linkage": ("arcs", "complete"), "activation": ACTIVATIONS, "sigma": ACTIVATIONS,
    "choice": ACTIVATIONS, "plan": ("plan",), "task": (HELD,), "held_out": ("task",),
    "text": ("", "?", "ab"),
}  # fmt: skip
#: What sets the length of a computation, in functions that have one of the first.
LONG = {"times", "horizon", "t_bound"}
EFFORT = LONG | {"rtol", "atol", "step", "t0", "y0", "max_step", "first_step"}

#: Classes whose constructor is called, and an object for their methods.
OBJECTS = {
    "attention.HeadShape": SHAPE, "attention.AttentionRisk": INSIDE, "measure.Measure": PLANE,
    "space.Euclidean": space.Euclidean(), "space.Ball": space.Ball(1.0, (2, 1)),
    "space.Sphere": space.Sphere(), "confinement.Anchor": ANCHOR, "confinement.Ridge": RIDGE,
    "functional.Combination": RIDGE + 2 * ANCHOR,
    "parallel.ParallelSum": parallel.ParallelSum(((1.0, RIDGE), (2.0, ANCHOR))),
    "parallel.ShardedRisk": parallel.shards(RISK, 2),
    "layers.HeadRidge": layers.HeadRidge(0.5),
    "layers.StackedRisk": layers.StackedRisk(X, Y, W_U, SHAPE),
    "network.TwoLayerRisk": network.TwoLayerRisk(INPUTS, TARGETS),
    "tokens.TokenEnergy": tokens.TokenEnergy(0.5), "tasks.Task": TASK, "sphere.SphereEnergy": MODEL,
}  # fmt: skip
#: Classes of which functions make objects, and one of them.
RESULTS = {
    "flow.LearningRate": flow.polynomial_decay(0.5, 1.0, 1.0), "flow.Trajectory": RUN,
    "transport.TestFunction": transport.direction([0.0, 2.0]),
    "transport.Witness": transport.dual_witness(PLANE, OTHER),
    "tokens.SinkhornPotential": tokens.sinkhorn_potential(PLANE),
    "equilibria.Protocol": equilibria.Protocol(),
    "sphere.Field": MODEL.field(), "sphere.Linearised": MODEL.field().linearised(RING),
    "equilibria.Clusters": equilibria.clusters(RING, 2.0),
    "equilibria.SecondOrder": equilibria.second_order(MODEL, RING),
    "landscape.SignRegions": landscape.sign_regions(UNITS),
    "activations.Activation": activations.GELU,
    "uniform.UniformLaw": best_uniform(RISK, 0.1),
    "reach.Reach": head_reach(X, 1.0, 1, tolerance=0.5, budget=200),
}  # fmt: skip
#: Public names without a case, and why.
EXCLUDED = {
    "functional.Functional": "abstract: its methods are called on every functional",
    "functional.Local": "a protocol",
    "functional.Minimisable": "a protocol",
    "functional.Linearisable": "a protocol",
    "functional.Centred": "a protocol",
    "space.Space": "a protocol",
    "network.TwoLayerLocal": "made by TwoLayerRisk.at, under which its methods are called",
    "functional.Combination.at().minimise": "NotImplemented without one model with a search",
    "parallel.ParallelSum.at().minimise": "as of a combination",
    "sphere.Field.at_atoms": "without checks of arguments, as it says, for the inner loop",
}
#: What is particular to rooms, classes and functions; see ``fuzzing.Case``.
OPTIONS = {
    "axes": dict.fromkeys((
        "attention.HeadShape.split", "attention.softmax", "attention.softmax_jacobian",
        "attention.cross_entropy", "measure.Measure.integrate", "space", "flow.LearningRate",
        "ensemble.sgd_ensemble", "mean_error.mean_over_draws", "sphere.kernel",
        "sphere.funk_hecke"), False),
    # a measured value that is not a number stays one, and no check holds with it
    "nan": dict.fromkeys((
        "ensemble.sgd_ensemble", "report.below", "report.above", "report.coarse",
        "sphere.Linearised.solve"), True),
    "also": {
        "attention.HeadShape": ("size",), "flow.gradient_flow": ("field", "method"),
        "flow.flow": ("event", "answers"), "flow.custom": ("xi",), "transport.direction": ("x",),
        "transport.distance_to": ("x",), "transport.saturated": ("x",),
        "tasks.task_from_text": ("text",), "network.neurons": ("activation",),
        "network.TwoLayerRisk": ("mu",), "activations.activation": ("activation",)},
    "same": {
        "functional.check_functional": 1e-3, "optimise.optimal_weights": 1e-4,
        "optimise.boost": 1e-4, "derivatives.largest_derivative": 1e-6,
        "influence.influence": 1e-6, "mean_error.mean_error_coefficient": 1e-3,
        "mean_error.mean_error_bound": 1e-4, "reach": 0.1, "landscape.least_first_variation": 1e-6,
        "equilibria.newton": 1e-6, "equilibria.minimise_on_circle": 1e-6,
        "equilibria.settle": 1e-6},
    "share": {
        "attention.AttentionRisk.at().minimise": 0.2, "parallel.ShardedRisk.at().minimise": 0.2,
        "derivatives.largest_derivative": 0.1, "flow.check_profile": 0.5,
        "stability.strong_monotonicity": 0.3, "stability.radial_drift": 0.5,
        "stability.best_alternative": 0.2, "optimise.frank_wolfe_gap": 0.2, "optimise.boost": 0.1,
        "influence.influence": 0.2, "mean_error.mean_error_coefficient": 0.1,
        "mean_error.mean_error_bound": 0.3, "reach": 0.3, "sphere.SphereEnergy.at().minimise": 0.1,
        "landscape.least_first_variation": 0.2, "equilibria.newton": 0.5,
        "equilibria.minimise_on_circle": 0.1, "equilibria.settle": 0.3},
}  # fmt: skip

# -------------------------------------------------------------------------------- what is public


@cache
def public() -> dict[str, object]:
    """Functions and classes that modules offer, by the last part of the module and their name."""
    names: dict[object, str] = {}
    for module in pkgutil.walk_packages(mfbook.__path__, "mfbook."):
        parts = module.name.split(".")
        if any(part.startswith("_") or part in ("plots", "experiments") for part in parts):
            continue
        room = importlib.import_module(module.name)
        for name in getattr(room, "__all__", ()):
            item = getattr(room, name)
            if callable(item) and getattr(item, "__module__", "").startswith("mfbook"):
                names.setdefault(item, f"{parts[-1]}.{name}")
    return {name: item for item, name in names.items()}


def methods(kind: type) -> list[str]:
    """Public methods with arguments, inherited ones of the package included."""
    found = {}
    for base in kind.__mro__:
        for name, item in vars(base).items() if base.__module__.startswith("mfbook") else ():
            f = getattr(item, "__func__", item)
            if inspect.isfunction(f) and (name == "__call__" or not name.startswith("_")):
                found.setdefault(name, len(inspect.signature(f).parameters) - (f is item))
    return [name for name, arguments in found.items() if arguments]


def callables():
    """Every public callable, its name, and the object it belongs to."""
    for name, item in public().items():
        if name in EXCLUDED:
            continue
        record = dataclasses.is_dataclass(item) and not methods(item) and name not in VALUES
        if name not in RESULTS and not record:  # what a function makes is not called
            yield name, item, None
        if not inspect.isclass(item) or not methods(item):
            continue
        owner = (OBJECTS | RESULTS).get(name)
        for method in methods(item):
            if f"{name}.{method}" not in EXCLUDED:
                yield f"{name}.{method}", getattr(owner, method, None), owner
        if isinstance(owner, functional.Functional):
            local = owner.at(lookup(f"{name}.at()", "mu"))
            for method in ("first_variation", "gradient", "correlation", "minimise"):
                if hasattr(local, method) and f"{name}.at().{method}" not in EXCLUDED:
                    yield f"{name}.at().{method}", getattr(local, method), owner


# ------------------------------------------------------------------------------------------ cases


def within(path: str) -> list[str]:
    """A callable, its class, its room, everything."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), -1, -1)]


def lookup(path: str, name: str):
    """The most particular value for a parameter of a callable."""
    for place in within(path):
        if name in VALUES.get(place, ()):
            return VALUES[place][name]
    raise LookupError(f"{path}: no valid {name!r}; add one to VALUES in tests/properties/fuzzed.py")


def costly(name: str, names) -> bool:
    """Whether extreme values of a parameter set the length of a computation."""
    if "times" in names and name == ("epsilon" if "epsilon" in names else "mu"):
        return True
    return name in EFFORT and not LONG.isdisjoint(names)


def case(path: str, f, owner) -> Case:
    """A callable with valid arguments of all its parameters."""
    signature, arguments, packed = inspect.signature(f), {}, {}
    for name, parameter in signature.parameters.items():
        names = (name,)
        if parameter.kind is parameter.VAR_KEYWORD:
            packed[name] = names = lookup(path, name)
        hint = str(parameter.annotation)
        none = "None" in hint or parameter.default is None
        for part in names:
            arguments[part] = argument(
                lookup(path, part), WRONG.get(part, ()), "Seed" if part == "rng" else hint,
                none=none, effort=costly(part, signature.parameters),
            )  # fmt: skip

    def call(**given):
        bound = inspect.BoundArguments(signature, {})
        for name, parameter in signature.parameters.items():
            if name in packed:
                bound.arguments[name] = {part: given[part] for part in packed[name]}
            else:
                one = parameter.kind is not parameter.VAR_POSITIONAL
                bound.arguments[name] = given[name] if one else (given[name],)
        return f(*bound.args, **bound.kwargs)

    options = {}
    for field, values in OPTIONS.items():
        found = [values[place] for place in within(path) if place in values]
        options |= {field: found[0]} if found else {}
    options["also"] = (*options.get("also", ()), *packed)
    doc = documentation(f, *([owner.at] if isinstance(owner, functional.Functional) else []))
    return Case(call, arguments, doc, lambda got, given: data(path, got, given), **options)


def evaluated(path, F, mu=None, x=None):
    """A functional by what it says at one measure."""
    local = F.at(mu or lookup(path, "mu"))
    x = lookup(path, "x") if x is None else x
    return local.value, local.first_variation(x), local.gradient(x)


def finished(solver):
    """An integration by its end."""
    while solver.status == "running":
        solver.step()
    return solver.t, solver.y, solver.status


#: What can be compared of results: functions by their values.
VIEWS = {
    confinement.Anchor: lambda got: evaluated("", got, Measure([got.a, 2 * got.a]), [got.a + 1]),
    flow.LearningRate: lambda got: (got(TIMES), got.tau(TIMES), got.name, got.breaks, got.diverges),
    flow.Rosenbrock: finished,
    transport.TestFunction: lambda got: (got(POINTS), got.gradient(POINTS), got.name),
    activations.Activation: lambda got: (got.name, got.sigma(ANGLES)),
    bounds.PropagationBound: lambda got: (got, got.log10),
    sphere.Field: lambda got: got(CIRCLE, RING),
    sphere.Linearised: lambda got: got.solve(0.1, np.zeros_like(got.x)),
    report.Row: lambda got: (got.holds, got.what),
    list: len,
}


def data(path: str, got, given):
    if type(got) in VIEWS:
        return VIEWS[type(got)](got)
    if isinstance(got, functional.Functional):
        return evaluated(path, got)
    if isinstance(got, tuple) and inspect.isfunction(got[-1]):  # coordinates and their map
        return got[0], got[1](got[0])
    if inspect.isfunction(got):  # of the weights of atoms
        return got(Measure(given["atoms"]).weights)
    return got


#: Cases by name, and why there is none.
CASES: dict[str, Case] = {}
MISSING: list[str] = []
for name, f, owner in callables():
    if f is None:
        MISSING.append(f"{name}: no object; add one to OBJECTS in tests/properties/fuzzed.py")
        continue
    try:
        CASES[name] = case(name, f, owner)
    except LookupError as error:
        MISSING.append(str(error))
