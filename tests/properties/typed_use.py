"""Calls as users write them; the type checker reads this file, nobody runs it.

Hints that are too narrow fail here: lists where arrays are welcome, seeds where generators are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from companion.mathematics.network import TwoLayerRisk
from mfbook.attention import AttentionRisk, HeadShape, features, softmax
from mfbook.confinement import Anchor, Ridge
from mfbook.flow import Adaptive, constant, flow, gradient_flow, sgd
from mfbook.functional import Functional, Local, check_functional
from mfbook.measure import Measure, mixture
from mfbook.optimise import boost, frank_wolfe_gap
from mfbook.space import Ball, Space, Sphere
from mfbook.sphere import SphereEnergy, settle
from mfbook.stability import atomic_stability
from mfbook.transport import wasserstein

mu = Measure([[0.0, 1.0], [2.0, 3.0]], [0.25, 0.75])
other: Measure = mixture(mu, Measure.dirac([0, 1]), 0.5).map(lambda x: x + 1).merge()
moved: np.ndarray = mu.integrate([1.0, 2.0])

shape = HeadShape(d=3, k=2, v=2)
risk = AttentionRisk([[[1, 0, 0]]], [[[0, 1]]], [[1, -1]] * 3, shape, shape.ball(2.0))
value: float = risk(Measure(np.zeros((1, shape.size))))
logits: np.ndarray = softmax(features([[0.0] * shape.size], [[[1, 0, 0]]], [[1, -1]] * 3, shape))
F: Functional = risk.on(Ball(1.0, shape.blocks)) + 0.5 * Ridge(0.1) - Anchor(1.0, [0.0] * 3)
local: Local = F.at(mu)
slopes: np.ndarray = local.gradient(mu.atoms)

run = gradient_flow(F, mu, [0, 1, 2], xi=constant(0.5), solver=Adaptive(rtol=1e-6, method="LSODA"))
steps = sgd(risk, mu, np.arange(3), 1.0, 0, batch=1)
turned = flow(lambda x, nu: x @ [[0, 1], [-1, 0]], mu, (0.0, 1.0), Sphere(), events=[])
ends: tuple[Measure, Measure] = run.end, steps.end

found: float = frank_wolfe_gap(risk, mu, rng=np.random.default_rng(0)).found
rounds = boost(risk, mu, 1, 2)
passed: bool = check_functional(Ridge(0.5), mu, rng=0).ok
rates: np.ndarray = atomic_stability(F, mu).deviations

energy = SphereEnergy(2.0, [[1.0, 0.0]], [-1.0], "relu", normalised=True)
settled = settle(energy, mu)
loss = TwoLayerRisk([[0.0], [1.0]], [1.0, 3.0], activation="linear")
distance: float = wasserstein(mu, other, p=1)


class Line:
    """A space of one's own."""

    def tangent(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return v

    def retract(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return x + v


@dataclass
class Quartic(Functional):
    """A functional of one's own."""

    space: Space = Line()

    def at(self, mu: Measure) -> QuarticLocal:
        return QuarticLocal(mu)


@dataclass
class QuarticLocal:
    """It at one measure."""

    mu: Measure

    @property
    def value(self) -> float:
        return float(self.mu.weights @ self.first_variation(self.mu.atoms))

    def first_variation(self, x: np.ndarray) -> np.ndarray:
        return (x**4).sum(axis=1)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return 4 * x**3


mine = gradient_flow(Quartic(), mu, [0.0, 1.0]).end
