"""The rules of a simulated run by name: steps, snapshots, clusters, and when it stops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfbook import _validate as validate

__all__ = ["Protocol"]


@dataclass(frozen=True)
class Protocol:
    r"""Rules of a run with explicit steps; the defaults are those of the second paper's program.

    A particle moves by ``step`` times its velocity, as an angle on the circle, else followed by a
    division by its length. Every ``between`` steps there is a snapshot. The run stops at the first
    one at which the last ``window`` snapshots, the start not among them, have the same number of
    clusters, no two particles of a cluster are farther apart than the threshold
    :math:`\text{reach}/\sqrt\beta`, and no speed is above ``tolerance``.

    Some of the rules are stated in the paper, others only in the program that is published with
    it: the cap of the threshold on the circle, and the two about repulsion without a perceptron.
    For it, d = 3, the program asks for no rule at all: it takes as many steps as the run with a
    perceptron beside it. That is ``most`` here, for who knows the number.

    - ``step``: Length of a step in time.
    - ``between``: Steps from one snapshot to the next.
    - ``window``: Snapshots with the same number of clusters.
    - ``tolerance``: Largest speed of a settled state.
    - ``reach``: Threshold of clusters, in radians, times :math:`\sqrt\beta`.
    - ``cap``: Whether the threshold is at most :math:`\pi/(2d)`.
    - ``most``: Steps after which a run ends that has not settled.
    - ``repelled``: The same for descent without a perceptron in more than three dimensions.
    - ``collapse``: Particles connected by geodesic steps of at most this length in radians become
      one at snapshots. The program does not do this; it saves time and changes positions by no
      more.
    """

    step: float = 0.1
    between: int = 10
    window: int = 5
    tolerance: float = 1e-4
    reach: float = 0.5
    cap: bool = True
    most: int = 200_000
    repelled: int = 1000
    collapse: float = 0.0

    def __post_init__(self):
        for name in ("step", "tolerance", "reach"):
            object.__setattr__(self, name, validate.positive(getattr(self, name), name))
        for name in ("between", "window", "most", "repelled"):
            object.__setattr__(self, name, validate.count(getattr(self, name), name))
        object.__setattr__(self, "cap", validate.flag(self.cap, "cap"))
        collapse = validate.positive(self.collapse, "collapse", allow_zero=True)
        object.__setattr__(self, "collapse", collapse)

    def threshold(self, beta: float, d: int) -> float:
        """Largest geodesic distance of particles of one cluster, in radians."""
        beta, d = validate.scale(beta, "beta"), validate.count(d, "d", least=2)
        reach = self.reach / np.sqrt(beta)
        return float(min(reach, np.pi / (2 * d)) if self.cap else reach)

    def limit(self, d: int, ascent: bool, perceptron: bool) -> int:
        """Most steps of a run in dimension d."""
        d = validate.count(d, "d", least=2)
        free = not (validate.flag(ascent, "ascent") or validate.flag(perceptron, "perceptron"))
        return min(self.most, self.repelled) if free and d > 3 else self.most
