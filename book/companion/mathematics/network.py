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
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._blocks import blocks
from mfbook._types import Seed
from mfbook.activations import Activation, activation
from mfbook.functional import Functional
from mfbook.measure import Measure, check_measure

__all__ = ["TwoLayerLocal", "TwoLayerRisk", "neurons"]

#: Entries of one block of neurons times inputs: memory stays linear in the number of neurons.
BLOCK = 2**20


def neurons(theta: ArrayLike, X: ArrayLike, sigma: str | Activation = "tanh") -> np.ndarray:
    r"""Answers :math:`a\,\sigma(\langle w,x\rangle+b)` of neurons on inputs.

    Parameters
    ----------
    theta : array_like, shape (m, d + 2)
        Neurons (a, w, b); complex ones are allowed.
    X : array_like, shape (n, d)
        Inputs.
    sigma : str or Activation
        As in :class:`TwoLayerRisk`.

    Returns
    -------
    array, shape (m, n)

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong shape or holds NaN or infinity, or the activation is unknown.

    Examples
    --------
    >>> neurons([[2.0, 1.0, -1.0]], [[0.0], [1.0], [3.0]], "relu")
    array([[0., 0., 4.]])
    """
    X = validate.array(X, "X", ("n", "d"), largest=validate.LARGEST)
    size = ("m", X.shape[1] + 2)
    theta = validate.array(theta, "theta", size, allow_complex=True)
    sigma = activation(sigma)
    with validate.bounded("theta"):
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

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs.
    Y : array_like, shape (n,)
        Targets.
    activation : str or Activation, optional
        ``"tanh"`` (default), ``"gelu"``, ``"linear"``, ``"relu"``, ``"leaky_relu"``, or an
        :class:`~mfbook.activations.Activation` of your own.

    Raises
    ------
    TypeError, ValueError
        If a shape is wrong, an entry is NaN or infinite, or the activation is unknown.

    Notes
    -----
    At a kink (``"relu"``, ``"leaky_relu"``) the slope from the left is used. The gradient jumps
    where :math:`\langle w,x_i\rangle+b=0`, second derivatives leave out what sits on the kink, and
    the flow is one of several possible ones there. ``jumps`` says so, and a gradient flow takes a
    solver that passes over kinks.

    Not to be confused with ``StackedRisk``, two layers of attention.

    Examples
    --------
    A linear neuron through two points: the residual is zero, and so is the loss.

    >>> L = TwoLayerRisk([[0.0], [1.0]], [1.0, 3.0], activation="linear")
    >>> line = Measure([[1.0, 2.0, 1.0]])
    >>> float(L(line)), L.output(line)
    (0.0, array([1., 3.]))
    >>> L.gradient([[1.0, 0.0, 0.0]], Measure([[0.0, 0.0, 0.0]]))
    array([[ 0. , -1.5, -2. ]])
    """

    X: np.ndarray
    Y: np.ndarray
    activation: Activation = "tanh"  # type: ignore[assignment]

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(
            self, X: ArrayLike, Y: ArrayLike, activation: Activation | str = "tanh"
        ) -> None: ...

    def __post_init__(self):
        X = validate.array(self.X, "X", ("n", "d"), largest=validate.LARGEST)
        Y = validate.array(self.Y, "Y", (len(X),), largest=validate.LARGEST)
        object.__setattr__(self, "X", validate.frozen(X.astype(np.float64)))
        object.__setattr__(self, "Y", validate.frozen(Y.astype(np.float64)))
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
        check_measure(mu, real=False)
        if mu.dim != self.X.shape[1] + 2:
            raise ValueError(
                f"mu: expected neurons (a, w, b) in R^{self.X.shape[1] + 2} for inputs in "
                f"R^{self.X.shape[1]}, got R^{mu.dim}"
            )
        f = np.zeros(len(self.X), np.result_type(mu.atoms, self.X))
        with validate.bounded("mu"):
            for block, s in self._blocks(mu.atoms):
                f += (mu.weights[block] * mu.atoms[block, 0]) @ self.activation.sigma(s)
        return TwoLayerLocal(self, f)

    def output(self, mu: Measure) -> np.ndarray:
        r"""Output :math:`f(x_i;\mu)` on the data, shape (n,)."""
        return self.at(mu).output

    def over_weights(self, atoms: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return the function ``w -> (L, dL/dw)`` of the weights; the neurons answer once."""
        size = ("m", self.X.shape[1] + 2)
        atoms = validate.array(atoms, "atoms", size, allow_complex=True)
        with validate.naming("atoms"):
            self(Measure(atoms))  # refuses numbers that are too large
        answers = neurons(atoms, self.X, self.activation)

        def evaluate(w):
            r = w @ answers - self.Y
            return (r * r).mean() / 2, answers @ r / len(r)

        return evaluate

    def sample(self, rng: Seed, n: int) -> TwoLayerRisk:
        """Return the loss of n data drawn with replacement.

        Parameters
        ----------
        rng : numpy.random.Generator or int
            Source of randomness, or a seed.
        n : int
            At least 1.

        Returns
        -------
        TwoLayerRisk
            Of these points.
        """
        rng, n = validate.generator(rng), validate.count(n, "n")
        index = rng.integers(len(self.X), size=n)
        return TwoLayerRisk(self.X[index], self.Y[index], self.activation)

    def _blocks(self, theta) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of neurons with their scores on all inputs."""
        for block in blocks(len(theta), BLOCK // len(self.X)):
            yield block, _scores(theta[block], self.X)


@dataclass(frozen=True, eq=False)
class TwoLayerLocal:
    """The loss at one measure. Made by :meth:`TwoLayerRisk.at`.

    Attributes
    ----------
    risk : TwoLayerRisk
    output : array, shape (n,)
        What the network answers on the data.

    Examples
    --------
    >>> local = TwoLayerRisk([[0.0], [1.0]], [1.0, 3.0]).at(Measure([[0.0, 0.0, 0.0]]))
    >>> float(local.value), local.residual
    (2.5, array([-1., -3.]))
    >>> local.first_variation([[2.0, 0.0, 0.0], [1.0, 0.0, 1.0]]).round(4)
    array([ 0.    , -1.5232])
    """

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
        with validate.bounded("mu"):
            return (r * r).mean() / 2

    def first_variation(self, x: np.ndarray) -> np.ndarray:
        """First variation at neurons x (n, d + 2), against the measure; shape (n,)."""
        x, r = self._points(x)
        sigma = self.risk.activation.sigma
        with validate.bounded("x"):
            parts = [x[block, 0] * (sigma(s) @ r) for block, s in self.risk._blocks(x)]
        return np.concatenate(parts)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of the first variation in x; shape (n, d + 2)."""
        x, r = self._points(x)
        f, parts = self.risk.activation, []
        with validate.bounded("x"):
            for block, s in self.risk._blocks(x):
                slope = x[block, :1] * f.slope(s) * r
                rest = slope @ self.risk.X, slope.sum(axis=1)
                parts.append(np.column_stack([f.sigma(s) @ r, *rest]))
        return np.concatenate(parts)

    def _points(self, x) -> tuple[np.ndarray, np.ndarray]:
        """Checked points, and the residual over the number of data."""
        shape = ("n", self.risk.X.shape[1] + 2)
        x = validate.array(x, "x", shape, allow_complex=True)
        return x, self.residual / len(self.risk.X)
