"""mfbook: a mean-field theory of attention heads, made to run.

The names of everyday use are here and imported when they are first asked for; the rest is in the
rooms. From the ground up, and each room imports only what lies below it:

``measure``, ``space``, ``functional``
    The idea: a functional on measures, its first variation, where its atoms live.
``transport``, ``flow``, ``optimise``, ``stability``
    What can be done with any functional. None of them knows a model.
``models``
    The functionals of the book: attention heads, two-layer networks, tokens, the sphere.
``bounds``, ``landscape``, ``equilibria``
    What is proved or computed about particular models.
``book``
    What only the book needs: tasks, experiments, tables, figures.

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
    "space": ["Ball", "Euclidean", "Sphere"],
    "functional": ["Functional", "check_functional"],
    "models.attention": ["AttentionRisk", "HeadShape", "attention_weights", "features"],
    "models.attention.ensemble": ["sgd_ensemble"],
    "models.confinement": ["Anchor", "Ridge"],
    "models.layers": ["StackedRisk"],
    "models.network": ["TwoLayerRisk"],
    "models.sphere": ["SphereEnergy"],
    "models.tokens": ["TokenEnergy"],
    "flow": ["LearningRate", "Trajectory", "dissipation", "gradient_flow", "sgd"],
    "flow.influence": ["influence"],
    "optimise": ["boost", "frank_wolfe_gap"],
    "stability": [
        "atomic_stability", "dirac_stability", "stationarity", "stationary_head",
        "strong_monotonicity",
    ],
    "transport": ["coupled_distance", "sliced_w2", "wasserstein"],
    "equilibria": ["clusters", "minimise_on_circle", "second_order", "settle"],
    "book.tasks": ["Task", "copy_task", "teacher_student", "text_task"],
}  # fmt: skip
_HOMES = {name: f"mfbook.{place}" for place, names in _PLACES.items() for name in names}
_ROOMS = {
    "book", "bounds", "equilibria", "flow", "functional", "landscape", "measure", "models",
    "optimise", "space", "stability", "transport",
}  # fmt: skip

__all__ = [
    "Anchor",
    "AttentionRisk",
    "Ball",
    "Euclidean",
    "Functional",
    "HeadShape",
    "LearningRate",
    "Measure",
    "Ridge",
    "Sphere",
    "SphereEnergy",
    "StackedRisk",
    "Task",
    "TokenEnergy",
    "Trajectory",
    "TwoLayerRisk",
    "atomic_stability",
    "attention_weights",
    "boost",
    "check_functional",
    "clusters",
    "copy_task",
    "coupled_distance",
    "dirac_stability",
    "dissipation",
    "features",
    "frank_wolfe_gap",
    "gradient_flow",
    "influence",
    "minimise_on_circle",
    "mixture",
    "second_order",
    "settle",
    "sgd",
    "sgd_ensemble",
    "sliced_w2",
    "stationarity",
    "stationary_head",
    "strong_monotonicity",
    "teacher_student",
    "text_task",
    "wasserstein",
]

if TYPE_CHECKING:
    from mfbook.book.tasks import Task, copy_task, teacher_student, text_task
    from mfbook.equilibria.clusters import clusters
    from mfbook.equilibria.minimiser import minimise_on_circle
    from mfbook.equilibria.second_order import second_order
    from mfbook.equilibria.settle import settle
    from mfbook.flow import LearningRate, Trajectory, dissipation, gradient_flow, sgd
    from mfbook.flow.influence import influence
    from mfbook.functional import Functional, check_functional
    from mfbook.measure import Measure, mixture
    from mfbook.models.attention import AttentionRisk, HeadShape, attention_weights, features
    from mfbook.models.attention.ensemble import sgd_ensemble
    from mfbook.models.confinement import Anchor, Ridge
    from mfbook.models.layers import StackedRisk
    from mfbook.models.network import TwoLayerRisk
    from mfbook.models.sphere import SphereEnergy
    from mfbook.models.tokens import TokenEnergy
    from mfbook.optimise import boost, frank_wolfe_gap
    from mfbook.space import Ball, Euclidean, Sphere
    from mfbook.stability import (
        atomic_stability,
        dirac_stability,
        stationarity,
        stationary_head,
        strong_monotonicity,
    )
    from mfbook.transport import coupled_distance, sliced_w2, wasserstein


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
