"""mfbook: a mean-field theory of attention heads, made to run.

The names of everyday use are here and imported when they are first asked for; the rest is in the
rooms. From the ground up, and each room imports only what lies below it:

``measure``, ``space``, ``functional``
    The idea: a functional on measures, its first variation, where its atoms live.
``attention``, ``confinement``
    The functionals of the paper: the risk of attention heads, and what keeps heads near home.
``flow``, ``transport``, ``optimise``, ``stability``
    What can be done with any functional.
``bounds``, ``sphere``
    The paper's constants; the second paper's tokens on the sphere.

Examples
--------
>>> import mfbook as mf
>>> F = mf.Ridge(1.0)
>>> float(mf.gradient_flow(F, mf.Measure([[1.0, 0.0]]), [0.0, 1.0]).value[-1].round(4))
0.0677
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

#: Names of everyday use, by the module that has them.
_PLACES = {
    "measure": ["Measure", "mixture"],
    "space": ["Ball", "Sphere"],
    "functional": ["Functional", "check_functional"],
    "attention": ["AttentionRisk", "HeadShape", "attention_weights", "features", "softmax"],
    "flow.ensemble": ["sgd_ensemble"],
    "confinement": ["Anchor", "Ridge"],
    "sphere": ["SphereEnergy", "clusters", "minimise_on_circle", "second_order", "settle"],
    "flow": ["Adaptive", "Euler", "dissipation", "gradient_flow", "sgd"],
    "optimise": ["boost", "frank_wolfe_gap", "stationary_head", "stationary_near"],
    "stability": ["atomic_stability", "dirac_stability", "stationarity"],
    "transport": ["coupled_distance", "wasserstein"],
}  # fmt: skip
_HOMES = {name: f"mfbook.{place}" for place, names in _PLACES.items() for name in names}
_ROOMS = {
    "activations", "attention", "bounds", "confinement", "flow", "functional", "measure",
    "optimise", "space", "sphere", "stability", "transport",
}  # fmt: skip

__all__ = [
    "Adaptive",
    "Anchor",
    "AttentionRisk",
    "Ball",
    "Euler",
    "Functional",
    "HeadShape",
    "Measure",
    "Ridge",
    "Sphere",
    "SphereEnergy",
    "atomic_stability",
    "attention_weights",
    "boost",
    "check_functional",
    "clusters",
    "coupled_distance",
    "dirac_stability",
    "dissipation",
    "features",
    "frank_wolfe_gap",
    "gradient_flow",
    "minimise_on_circle",
    "mixture",
    "second_order",
    "settle",
    "sgd",
    "sgd_ensemble",
    "softmax",
    "stationarity",
    "stationary_head",
    "stationary_near",
    "wasserstein",
]

if TYPE_CHECKING:
    from mfbook.attention import AttentionRisk, HeadShape, softmax
    from mfbook.attention.features import attention_weights, features
    from mfbook.confinement import Anchor, Ridge
    from mfbook.flow import (
        Adaptive,
        Euler,
        dissipation,
        gradient_flow,
    )
    from mfbook.flow.ensemble import sgd_ensemble
    from mfbook.flow.sgd import sgd
    from mfbook.functional import Functional, check_functional
    from mfbook.measure import Measure, mixture
    from mfbook.optimise import boost, frank_wolfe_gap, stationary_head, stationary_near
    from mfbook.space import Ball, Sphere
    from mfbook.sphere import SphereEnergy, minimise_on_circle
    from mfbook.sphere.clusters import clusters
    from mfbook.sphere.second_order import second_order
    from mfbook.sphere.settle import settle
    from mfbook.stability import (
        atomic_stability,
        dirac_stability,
        stationarity,
    )
    from mfbook.transport import coupled_distance, wasserstein


def __getattr__(name: str):
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"mfbook.{name}")
    raise AttributeError(f"module 'mfbook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
