r"""A two-layer network whose neurons are particles, and its squared loss.

A neuron is :math:`\theta=(a,w,b)\in\mathbb R^{d+2}`; on an input :math:`x\in\mathbb R^d` it answers
:math:`a\,\sigma(\langle w,x\rangle+b)`. A measure :math:`\mu` over neurons answers with the mean,

.. math:: f(x;\mu)=\int a\,\sigma(\langle w,x\rangle+b)\,d\mu(a,w,b),

which is the network :math:`\frac1m\sum_ja_j\sigma(\langle w_j,x\rangle+b_j)` if :math:`\mu` has m
equal atoms. Neurons take the place that heads have in :mod:`mfbook.attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook._validate import Seed
from mfbook._work import blocks
from mfbook.activations import Activation, activation
from mfbook.functional import Functional
from mfbook.measure import Measure

#: Entries of one block of neurons times inputs: memory stays linear in the number of neurons.
BLOCK = 2**20


def neurons(theta: ArrayLike, X: ArrayLike, sigma: str | Activation = "tanh") -> np.ndarray:
    r"""Answers :math:`a\,\sigma(\langle w,x\rangle+b)` of neurons on inputs."""
    X = np.asarray(X, dtype=float)
    theta = np.asarray(theta)
    sigma = activation(sigma)
    return theta[:, :1] * sigma.sigma(_scores(theta, X))


def _scores(theta, X) -> np.ndarray:
    """Numbers <w, x> + b of neurons (m, d + 2) on inputs (n, d); shape (m, n)."""
    return theta[:, 1:-1] @ X.T + theta[:, -1:]


@dataclass(frozen=True, eq=False)
class TwoLayerRisk(Functional):
    r"""Squared loss of a measure over neurons, half the mean over the data.

    .. math:: \begin{aligned}
              L(\mu)&=\frac1{2n}\sum_{i\le n}\big(f(x_i;\mu)-y_i\big)^2,\\
              \frac{\delta L}{\delta\mu}(\theta;\mu)
              &=\frac1n\sum_{i\le n}\big(f(x_i;\mu)-y_i\big)\,a\,\sigma(\langle w,x_i\rangle+b)
              \end{aligned}

    The population is the finite set of data. L is convex along mixtures, because f is linear in
    :math:`\mu`. Often the loss is written as the sum :math:`\sum_i(f(x_i)-y_i)^2`, which is
    :math:`2nL`: its flow runs through the same states 2n times faster.
    """

    X: ArrayLike  # (n, d)
    Y: ArrayLike  # (n,)
    activation: str | Activation = "tanh"

    def __post_init__(self):
        object.__setattr__(self, "X", np.asarray(self.X, dtype=float))
        object.__setattr__(self, "Y", np.asarray(self.Y, dtype=float))
        object.__setattr__(self, "activation", activation(self.activation))

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"TwoLayerRisk({n} inputs in R^{d}, {self.activation.name})"

    @property
    def jumps(self) -> bool:
        """Whether the activation has a kink: the gradient holds its slope, and jumps."""
        return not self.activation.analytic

    def at(self, mu: Measure) -> TwoLayerLocal:
        """Output and residual at ``mu``, computed once."""
        f = np.zeros(len(self.X), np.result_type(mu.atoms, self.X))
        for block, s in self._blocks(mu.atoms):
            f += (mu.weights[block] * mu.atoms[block, 0]) @ self.activation.sigma(s)
        return TwoLayerLocal(self, f)

    def output(self, mu: Measure) -> np.ndarray:
        r"""Output :math:`f(x_i;\mu)` on the data, shape (n,)."""
        return self.at(mu).output

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return the function ``w -> (L, dL/dw)`` of the weights; the neurons answer once."""
        answers = neurons(atoms, self.X, self.activation)

        def evaluate(w):
            r = w @ answers - self.Y
            return (r * r).mean() / 2, answers @ r / len(r)

        return evaluate

    def sample(self, rng: Seed, n: int) -> TwoLayerRisk:
        """Return the loss of n data drawn with replacement."""
        index = np.random.default_rng(rng).integers(len(self.X), size=n)
        return TwoLayerRisk(self.X[index], self.Y[index], self.activation)

    def _blocks(self, theta) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of neurons with their scores on all inputs."""
        for block in blocks(len(theta), BLOCK // len(self.X)):
            yield block, _scores(theta[block], self.X)


@dataclass(frozen=True, eq=False)
class TwoLayerLocal:
    """The loss at one measure. Made by :meth:`TwoLayerRisk.at`."""

    risk: TwoLayerRisk
    output: np.ndarray

    @property
    def residual(self) -> np.ndarray:
        r"""Residual :math:`f(x_i;\mu)-y_i`, shape (n,)."""
        return self.output - self.risk.Y

    @property
    def value(self) -> float:
        """Loss."""
        r = self.residual  # a product, not an absolute value: complex steps go through it
        return (r * r).mean() / 2

    def first_variation(self, x: np.ndarray) -> np.ndarray:
        """First variation at neurons x (n, d + 2), against the measure; shape (n,)."""
        sigma, r = self.risk.activation.sigma, self.residual / len(self.risk.X)
        parts = [x[block, 0] * (sigma(s) @ r) for block, s in self.risk._blocks(x)]
        return np.concatenate(parts)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of the first variation in x; shape (n, d + 2)."""
        r = self.residual / len(self.risk.X)
        f, parts = self.risk.activation, []
        for block, s in self.risk._blocks(x):
            slope = x[block, :1] * f.slope(s) * r
            rest = slope @ self.risk.X, slope.sum(axis=1)
            parts.append(np.column_stack([f.sigma(s) @ r, *rest]))
        return np.concatenate(parts)
