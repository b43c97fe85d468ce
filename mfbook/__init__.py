"""mfbook: a mean-field theory of attention heads, made to run.

One idea: a functional F of probability measures mu = sum_i w_i delta(theta_i) has a first
variation, a function whose low points say where mass should go, and a gradient flow, in which
every atom theta_i walks down its slope. Attention heads are such atoms and their cross-entropy
risk is such an F; so are tokens on a sphere with their energy, and a model of your own.

>>> import numpy as np
>>> import mfbook as mf
>>> rng, shape = np.random.default_rng(0), mf.HeadShape(d=3, k=2, v=2)
>>> X, Y = rng.normal(size=(8, 5, 3)), np.eye(4)[rng.integers(4, size=(8, 5))]  # tokens, labels
>>> R = mf.AttentionRisk(X, Y, rng.normal(size=(3, 4)), shape) + mf.Ridge(0.1)
>>> heads = mf.Measure(rng.normal(size=(16, shape.size)))
>>> run = mf.gradient_flow(R, heads, [0.0, 20.0])
>>> bool(run.value[-1] < run.value[0])
True
>>> gap = mf.frank_wolfe_gap(R.on(shape.ball(4.0)), run.end, rng=0)  # how far from optimal?
>>> bool(0 < gap.found <= gap.rigorous)
True

measure, space, functional   the idea: measures, where their atoms live, what a functional says
attention, confinement       the risk of attention heads; what keeps heads near home
transport, flow, optimise    distances; flows and stochastic descent; certificates of optimality
stability, bounds, sphere    what small pushes do; the paper's constants; tokens on the sphere

The names of everyday use are here, the others in the rooms, which never import in a circle.
"""

from mfbook import bounds as bounds
from mfbook.attention import AttentionRisk, HeadShape, attention_weights, features
from mfbook.confinement import Anchor, Ridge
from mfbook.flow import Adaptive, Euler, gradient_flow, sgd
from mfbook.functional import Functional, check_functional
from mfbook.measure import Measure, mixture
from mfbook.optimise import boost, frank_wolfe_gap, stationary_head, stationary_near
from mfbook.space import Sphere
from mfbook.sphere import SphereEnergy, minimise_on_circle, settle
from mfbook.stability import atomic_stability, dirac_stability, stationarity
from mfbook.transport import wasserstein

__all__ = [
    "Adaptive", "Anchor", "AttentionRisk", "Euler", "Functional", "HeadShape", "Measure", "Ridge",
    "Sphere", "SphereEnergy", "atomic_stability", "attention_weights", "boost", "check_functional",
    "dirac_stability", "features", "frank_wolfe_gap", "gradient_flow", "minimise_on_circle",
    "mixture", "settle", "sgd", "stationarity", "stationary_head", "stationary_near", "wasserstein",
]  # fmt: skip
