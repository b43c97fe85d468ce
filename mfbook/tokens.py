r"""Tokens as particles: attention as a motion, and when it is a gradient flow.

Here the atoms are tokens, not heads. With identity matrices attention moves them along one of

.. math:: \begin{aligned}
          &\int e^{\langle x,y\rangle}y\,d\mu(y)\quad\text{(unnormalised)},\qquad
          \frac{\int e^{\langle x,y\rangle}y\,d\mu(y)}{\int e^{\langle x,y\rangle}d\mu(y)}
          \quad\text{(softmax)},\\
          &\int e^{\langle x,y\rangle-f(x)-f(y)}y\,d\mu(y)\quad\text{(Sinkhorn)}.
          \end{aligned}

Each is the gradient in x of a potential :math:`\Psi(x;\mu)`. It is a Wasserstein gradient flow only
if :math:`-\Psi` is a first variation, up to a constant :math:`c(\mu)`: the first and the third
are, the second is not. :func:`centred_kernel` and :func:`particle_jacobian` tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exp1

from . import _validate as validate
from .functional import Functional
from .measure import Measure

__all__ = [
    "CentredKernel",
    "SinkhornPotential",
    "TokenEnergy",
    "asymmetry",
    "blow_up_bounds",
    "centred_kernel",
    "particle_jacobian",
    "sinkhorn_field",
    "sinkhorn_potential",
    "softmax_field",
    "softmax_potential",
]

#: Pairs whose scores are held at a time.
PAIRS = 2**20
#: Least weight with which masses are varied.
LIGHTEST = 1e-8
#: Central differences of order six: values at these multiples of the step, and their coefficients.
STENCIL = ((-3, -1 / 60), (-2, 3 / 20), (-1, -3 / 4), (1, 3 / 4), (2, -3 / 20), (3, 1 / 60))


def _log_mean(scores, weights, y):
    """Sum over the last axis of w e^s as a logarithm, and the mean of y under it.

    ``scores(rows)`` gives the scores of some points with all atoms. Any size of real part is
    allowed; the shift is real, so that derivatives by complex step pass through.
    """
    count, at = scores(None), np.flatnonzero(weights > 0)
    w, y = weights[at], y[at]
    rows = max(1, PAIRS // len(at))
    logs, means = [], []
    for start in range(0, count, rows):
        s = scores(slice(start, start + rows))[:, at]
        top = s.real.max(axis=1)
        e = w * np.exp(s - top[:, None])
        total = e.sum(axis=1)
        logs.append(top + np.log(total))
        means.append(e @ y / total[:, None])
    return np.concatenate(logs), np.concatenate(means)


def _product(a, b):
    """Scores <a_i, b_j> for :func:`_log_mean`."""
    return lambda rows: len(a) if rows is None else a[rows] @ b.T


def _points(x, mu: Measure):
    return validate.array(x, "x", ("n", mu.dim), allow_complex=True, largest=validate.LARGEST)


@dataclass(frozen=True)
class TokenEnergy(Functional):
    r"""Interaction energy of tokens in :math:`\mathbb R^d`, unnormalised attention's own.

    .. math:: \begin{aligned}
              F(\mu)&=-\frac1{2\beta}\iint e^{\beta\langle x,y\rangle}d\mu\,d\mu,\\
              \frac{\delta F}{\delta\mu}(x)&=-\frac1\beta\int e^{\beta\langle x,y\rangle}d\mu(y),
              \qquad -\nabla\frac{\delta F}{\delta\mu}(x)=\int e^{\beta\langle x,y\rangle}y\,d\mu(y)
              \end{aligned}

    It is not bounded from below, and its flow reaches infinity in finite time: see
    :func:`blow_up_bounds`. On the sphere it is :math:`-e^\beta` times the energy of
    :class:`mfbook.sphere.SphereEnergy`.

    Parameters
    ----------
    beta : float
        Inverse temperature, positive.

    Raises
    ------
    TypeError, ValueError
        If beta is not a finite positive number.

    Notes
    -----
    Numbers beyond the range of floating-point numbers are infinite, as NumPy rounds them: at
    :math:`\beta\langle x,y\rangle>710` the value is ``-inf``, and entries of the gradient that are
    not zero are infinite. Nothing raises, so that a flow can say that it has escaped.
    Time and memory grow with the square of the number of atoms, memory only up to a block.

    Examples
    --------
    >>> F = TokenEnergy()
    >>> float(F(Measure.dirac([0.0, 0.0]))), F.gradient([[1.0, 0.0]], Measure([[0.0, 2.0]]))
    (-0.5, array([[ 0., -2.]]))
    >>> float(F(Measure.dirac([100.0, 0.0])))
    -inf
    """

    beta: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "beta", validate.scale(self.beta, "beta"))

    def at(self, mu: Measure) -> _Local:
        """The energy at ``mu``; the pairs of its atoms are summed when they are asked for."""
        return _Local(self.beta, validate.measure(mu, real=False, largest=validate.LARGEST))


@dataclass(frozen=True)
class _Local:
    beta: float
    mu: Measure

    def _sums(self, x):
        mu = self.mu
        return _log_mean(_product(self.beta * x, mu.atoms), mu.weights, mu.atoms)

    @property
    def value(self):
        mu = self.mu
        logs, _ = self._sums(mu.atoms)
        # weights of zero would meet infinite exponentials
        total, _ = _log_mean(_row(logs), mu.weights, mu.atoms)
        return -_exp(total[0]) / (2 * self.beta)

    def first_variation(self, x):
        return -_exp(self._sums(_points(x, self.mu))[0]) / self.beta

    def gradient(self, x):
        logs, mean = self._sums(_points(x, self.mu))
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(mean == 0, 0, -_exp(logs)[:, None] * mean)


def _exp(a):
    with np.errstate(over="ignore"):
        return np.exp(a)


def _row(logs):
    """One row of scores for :func:`_log_mean`."""
    return lambda rows: 1 if rows is None else logs[None]


def blow_up_bounds(mu: Measure, beta: float = 1.0) -> tuple[float, float]:
    r"""Bracket of the time at which unnormalised attention in :math:`\mathbb R^d` ends.

    The flow of :class:`TokenEnergy` from :math:`\mu` exists up to a time :math:`t^*` with

    .. math:: \frac12E_1\big(\beta\max_i\|x_i\|^2\big)\;\le\;t^*\;\le\;
              \frac{\beta\int\|x\|^2d\mu}{2L}\,E_1(L),

    where :math:`L=\log\iint e^{\beta\langle x,y\rangle}d\mu\,d\mu` and
    :math:`E_1(s)=\int_s^\infty e^{-r}dr/r`. Both are equal for a point mass. Only the point mass at
    the origin never leaves: there both are infinite.

    Parameters
    ----------
    mu : Measure
        With real atoms.
    beta : float
        Inverse temperature, positive.

    Returns
    -------
    lower, upper : float
        Zero where a time is below the least floating-point number. ``upper`` is infinite, which is
        true but says nothing, where L is lost in rounding (all :math:`\beta\|x\|^2` below about
        1e-16).

    Raises
    ------
    TypeError, ValueError
        If ``mu`` is not a measure with real atoms, or beta not positive and finite.

    Examples
    --------
    >>> lower, upper = blow_up_bounds(Measure.dirac([0.6, 0.8]))
    >>> round(lower, 10) == round(upper, 10) == round(float(exp1(1.0)) / 2, 10)
    True
    """
    x, beta = _real(mu), validate.scale(beta, "beta")
    w, square = mu.weights, (x * x).sum(axis=1)
    scores = beta * x @ x.T
    if np.abs(scores).max() < 1:
        L = np.log1p(w @ np.expm1(scores) @ w)  # small exponents keep their digits
    else:
        logs, _ = _log_mean(_product(beta * x, x), w, x)
        L = _log_mean(_row(logs), w, x)[0][0]
    lower = exp1(beta * square[w > 0].max()) / 2
    upper = beta * (w @ square) / (2 * L) * exp1(L) if L > 0 else np.inf
    return float(lower), float(upper)


# ------------------------------------------------------------------------------- softmax


def softmax_potential(
    x: ArrayLike, mu: Measure, *, Q: ArrayLike | None = None, K: ArrayLike | None = None
) -> np.ndarray:
    r"""Potential of softmax attention.

    .. math:: \Psi(x;\mu)=\log\int e^{\langle Qx,Ky\rangle}d\mu(y)

    Its gradient is :math:`Q^\top K` times the attended mean, so :func:`softmax_field` is its
    gradient where :math:`V=Q^\top K`, in particular without matrices.

    Parameters
    ----------
    x : array_like, shape (n, d)
        Points, of any size; complex ones are allowed, as are complex atoms.
    mu : Measure
        Law of the tokens, in :math:`\mathbb R^d`.
    Q, K : array_like, shape (k, d), optional
        Query and key matrix, acting on columns (:math:`Q=W_Q^\top/k^{1/4}` in the notation of
        heads). Default: the identity.

    Returns
    -------
    array, shape (n,)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or shape or is not finite.

    Examples
    --------
    >>> softmax_potential([[1e4, 0.0]], Measure([[1e4, 0.0], [0.0, 1.0]], [0.5, 0.5]))
    array([99999999.30685282])
    """
    return _softmax(x, mu, Q, K)[0]


def softmax_field(
    x: ArrayLike,
    mu: Measure,
    *,
    Q: ArrayLike | None = None,
    K: ArrayLike | None = None,
    V: ArrayLike | None = None,
) -> np.ndarray:
    r"""Velocity of tokens under softmax attention, a mean of the tokens' values.

    .. math:: v(x;\mu)=V\,\frac{\int y\,e^{\langle Qx,Ky\rangle}d\mu(y)}
                              {\int e^{\langle Qx,Ky\rangle}d\mu(y)}

    Parameters
    ----------
    x : array_like, shape (n, d)
        Points, of any size; complex ones are allowed, as are complex atoms.
    mu : Measure
        Law of the tokens, in :math:`\mathbb R^d`.
    Q, K : array_like, shape (k, d), optional
        Query and key matrix, acting on columns. Default: the identity.
    V : array_like, shape (d, d), optional
        Value matrix. Default: the identity.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or shape or is not finite.

    Examples
    --------
    >>> softmax_field([[0.0, 0.0], [0.0, 1e5]], Measure([[1.0, 0.0], [0.0, 1.0]]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    mean = _softmax(x, mu, Q, K)[1]
    if V is None:
        return mean
    return mean @ validate.array(V, "V", (mu.dim, mu.dim), largest=validate.LARGEST).T


def _softmax(x, mu, Q, K):
    validate.measure(mu, real=False, largest=validate.LARGEST)
    x, y = _points(x, mu), mu.atoms
    if Q is not None:
        Q = validate.array(Q, "Q", ("k", mu.dim), largest=validate.LARGEST)
    if K is not None:
        K = validate.array(K, "K", ("k", mu.dim), largest=validate.LARGEST)
        if len(K) != (mu.dim if Q is None else len(Q)):
            rows = mu.dim if Q is None else len(Q)
            raise ValueError(f"K: expected shape {(rows, mu.dim)}, got {K.shape}")
    elif Q is not None and len(Q) != mu.dim:
        raise ValueError(f"Q: expected shape {(mu.dim, mu.dim)} without K, got {Q.shape}")
    queries, keys = x if Q is None else x @ Q.T, y if K is None else y @ K.T
    return _log_mean(_product(queries, keys), mu.weights, y)


# ------------------------------------------------------------------------------- Sinkhorn


@dataclass(frozen=True, eq=False)
class SinkhornPotential:
    r"""The potential f of Sinkhorn attention, found by :func:`sinkhorn_potential`.

    It is a function: ``f(x)`` is :math:`f(x)=\log\int e^{\langle x,y\rangle-f(y)}d\mu(y)`, shape
    (n, d) to (n,), and ``f.field(x)`` its gradient.

    Attributes
    ----------
    measure : Measure
    excess : array, shape (n,)
        :math:`f(x_i)-\frac12\|x_i\|^2` at the atoms.
    converged : bool
        Whether the error fell below the tolerance.
    error : float
        Largest :math:`|\log\int e^{\langle x_i,y\rangle-f(x_i)-f(y)}d\mu(y)|`: how far the rows of
        the attention matrix are from summing to one.
    iterations : int
    """

    measure: Measure
    excess: np.ndarray
    converged: bool
    error: float
    iterations: int

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"SinkhornPotential({state}: error {self.error:.2g} after {self.iterations} "
            f"iterations, {self.measure.size} atoms)"
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values at points x of shape (n, d), complex ones too; shape (n,)."""
        x = _points(x, self.measure)
        return self._sums(x)[0] + (x * x).sum(axis=1) / 2

    def field(self, x: np.ndarray) -> np.ndarray:
        r"""Gradient :math:`\int e^{\langle x,y\rangle-f(x)-f(y)}y\,d\mu(y)`; shape (n, d)."""
        return self._sums(_points(x, self.measure))[1]

    def _sums(self, x):
        y = self.measure.atoms
        return _log_mean(_gaussian(x, y, self.excess), self.measure.weights, y)

    @property
    def matrix(self) -> np.ndarray:
        r"""Attention of i to j, :math:`e^{\langle x_i,x_j\rangle-f(x_i)-f(x_j)}`; shape (n, n).

        A symmetric density: its rows integrate to one against the weights.
        """
        x = self.measure.atoms
        return np.exp(_gaussian(x, x, self.excess)(slice(None)) - self.excess[:, None])


def _gaussian(x, y, excess):
    """Scores -|x - y|^2/2 - excess(y): those of e^<x,y> with the squares of the lengths moved.

    The exponent stays small where it matters, however long the tokens are.
    """

    def scores(rows):
        if rows is None:
            return len(x)
        difference = x[rows, None] - y
        return -(difference * difference).sum(axis=2) / 2 - excess

    return scores


def sinkhorn_potential(
    mu: Measure, *, tolerance: float = 1e-14, maxiter: int = 2000
) -> SinkhornPotential:
    r"""Make attention symmetric and doubly stochastic: the potential f of Sinkformers.

    .. math:: \int e^{\langle x,y\rangle-f(x)-f(y)}d\mu(y)=1\quad\text{for every atom x of }\mu

    :math:`F(\mu)=-\int f\,d\mu` has the first variation :math:`-f` (up to a constant), so tokens
    that move along :math:`\nabla f` follow a Wasserstein gradient flow (Sander, Ablin, Blondel,
    Peyré 2022, for the limit of their iterations).

    Parameters
    ----------
    mu : Measure
        With real atoms.
    tolerance : float
        On the error, in multiples of the largest :math:`|f-\frac12\|x\|^2|` or of one.
    maxiter : int
        Most iterations.

    Returns
    -------
    SinkhornPotential
        ``converged`` says whether the tolerance was met.

    Raises
    ------
    TypeError, ValueError
        If ``mu`` is not a measure with real atoms or an option is out of range.

    Notes
    -----
    The iteration is :math:`f\leftarrow\frac12(f+Tf)`, in logarithms, with
    :math:`Tf=\log\int e^{\langle x,y\rangle-f(y)}d\mu(y)`. T does not increase distances in the
    maximum norm, so the averages converge; the kernel is positive semidefinite, so near the
    solution the error halves at least at each step.

    Examples
    --------
    >>> f = sinkhorn_potential(Measure([[1.0, 0.0], [0.0, 2.0]], [0.25, 0.75]))
    >>> f.converged, bool(np.allclose(f.matrix @ f.measure.weights, 1))
    (True, True)
    >>> f.field(f.measure.atoms).shape
    (2, 2)
    """
    x = _real(mu)
    tolerance = validate.positive(tolerance, "tolerance")
    maxiter = validate.count(maxiter, "maxiter")
    scores = _gaussian(x, x, 0.0)(slice(None))
    at = mu.weights > 0
    logs = scores[:, at] + np.log(mu.weights[at])
    g, iteration, converged = np.zeros(len(x)), 0, False
    new: Any = None
    while not converged and iteration < maxiter:
        g = g if new is None else (g + new) / 2
        new = _logsumexp(logs - g[at])
        error = float(np.abs(new - g)[at].max())
        converged = error <= tolerance * max(1.0, float(np.abs(g[at]).max()))
        iteration += 1
    g = np.where(mu.weights > 0, g, new)  # where there is no mass f is what its formula says
    return SinkhornPotential(mu, validate.frozen(g), converged, error, iteration)


def _logsumexp(s):
    top = s.max(axis=1)
    return top + np.log(np.exp(s - top[:, None]).sum(axis=1))


def sinkhorn_field(x: ArrayLike, mu: Measure, **options: Any) -> np.ndarray:
    r"""Velocity of tokens under Sinkhorn attention, for flows.

    Parameters
    ----------
    x : array_like, shape (n, d)
        Where.
    mu : Measure
        Law of the tokens.
    **options
        As in :func:`sinkhorn_potential`.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    RuntimeError
        If the iteration did not converge: a flow along half a solution would not say so.
    TypeError, ValueError
        As :func:`sinkhorn_potential`.

    Examples
    --------
    A point mass attends to itself:

    >>> sinkhorn_field([[3.0, 4.0]], Measure.dirac([3.0, 4.0]))
    array([[3., 4.]])
    """
    f = sinkhorn_potential(mu, **options)
    if not f.converged:
        raise RuntimeError(f"mu: expected an iteration that converges, got {f!r}")
    return f.field(_points(x, mu))


# ------------------------------------------------------------------------- is it a gradient flow?


def asymmetry(A: ArrayLike) -> float:
    r"""Relative size of the antisymmetric part, :math:`\|A-A^\top\|/\|A\|` in Frobenius norms.

    Between 0 and 2; 0 for the zero matrix.

    Parameters
    ----------
    A : array_like, shape (n, n)
        Scores of every token for every other.

    Returns
    -------
    float
        Between 0 and 2.

    Raises
    ------
    TypeError, ValueError
        If A is not a square matrix of finite real numbers.

    Examples
    --------
    >>> asymmetry([[1.0, 2.0], [2.0, 5.0]]), asymmetry([[0.0, 1.0], [-1.0, 0.0]])
    (0.0, 2.0)
    """
    A = validate.array(A, "A", ("n", "n"), largest=validate.LARGEST)
    if len(A) != A.shape[1]:
        raise ValueError(f"A: expected a square matrix, got shape {A.shape}")
    size = np.linalg.norm(A)
    return float(np.linalg.norm(A - A.T) / size) if size > 0 else 0.0


@dataclass(frozen=True, eq=False)
class CentredKernel:
    """The doubly centred derivative of a potential in the masses: see :func:`centred_kernel`.

    Attributes
    ----------
    matrix : array, shape (n, n)
    asymmetry : float
        Relative size of its antisymmetric part; 0 up to rounding for a gradient flow.
    """

    matrix: np.ndarray
    asymmetry: float

    def __repr__(self) -> str:
        return f"CentredKernel({len(self.matrix)} atoms, asymmetry {self.asymmetry:.3g})"


def centred_kernel(potential: Callable, mu: Measure) -> CentredKernel:
    r"""Test whether a potential can be a first variation: symmetry of its derivative in the masses.

    .. math:: B_{ij}=\frac{d}{ds}\Big[\Psi\big(x_i;\mu^j_s\big)-\int\Psi(\cdot\,;\mu^j_s)\,d\mu\Big]
              _{s=0},\qquad \mu^j_s=(1-s)\mu+s\,\delta_{x_j}

    If :math:`\Psi=\delta F/\delta\mu+c(\mu)`, then B is the second derivative of F along two
    mixtures, hence symmetric. A velocity :math:`\nabla\Psi` knows :math:`\Psi` only up to
    :math:`c(\mu)`, and masses sum to one: both freedoms add a function of i or of j alone, and
    both are removed here. Without that, gradient flows fail the test.

    Parameters
    ----------
    potential : callable
        ``potential(x, mu)`` returns values, shape (n,), at points x of shape (n, d).
    mu : Measure
        Real atoms with weights of at least 1e-8: smaller ones leave no digit of the differences.

    Returns
    -------
    CentredKernel

    Raises
    ------
    TypeError, ValueError
        If ``mu`` is no such measure, or the potential does not return n finite real numbers.

    Notes
    -----
    Central differences of order six in s, with a step of a hundredth of the weight: about eleven
    digits of a smooth potential. Symmetry at one measure is necessary, not sufficient.

    Examples
    --------
    >>> mu = Measure([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    >>> round(centred_kernel(softmax_potential, mu).asymmetry, 3)
    0.224
    >>> unnormalised = centred_kernel(lambda x, nu: TokenEnergy().first_variation(x, nu), mu)
    >>> unnormalised.asymmetry < 1e-9
    True
    """
    x, w, largest = _real(mu), mu.weights, validate.LARGEST
    validate.function(potential, "potential")
    if not (w >= LIGHTEST).all():
        raise ValueError(f"mu: expected positive weights, at least {LIGHTEST:g}, got {w.min():g}")
    B = np.zeros((mu.size, mu.size))
    for j in range(mu.size):
        h, unit = w[j] / 100, np.eye(mu.size)[j]
        for k, coefficient in STENCIL:
            nu = Measure(x, (1 - k * h) * w + k * h * unit)
            values = potential(x, nu)
            values = validate.array(values, "potential(x, mu)", (mu.size,), largest=largest)
            B[:, j] += coefficient / h * values
    B -= w @ B
    return CentredKernel(validate.frozen(B), asymmetry(B))


def particle_jacobian(field: Callable, mu: Measure) -> np.ndarray:
    r"""Jacobian of the motion of all tokens, rows weighted: symmetric for a gradient flow.

    .. math:: J_{(i,a),(j,b)}=w_i\,\frac{\partial v_a(x_i;\mu)}{\partial x_{j,b}},\qquad
              \mu=\sum_jw_j\delta_{x_j}

    If :math:`v=-\nabla\,\delta F/\delta\mu`, then :math:`w_iv(x_i)=-\partial F/\partial x_i` and
    J is minus a Hessian. Constants :math:`c(\mu)` do not enter, and a field without a potential
    can be tested too.

    Parameters
    ----------
    field : callable
        ``field(x, mu)`` returns velocities, shape (n, d), at points x of shape (n, d).
    mu : Measure
        Real atoms.

    Returns
    -------
    array, shape (n d, n d)

    Raises
    ------
    TypeError, ValueError
        If ``mu`` has complex atoms or the field does not return n finite velocities.

    Notes
    -----
    Central differences of order six with a step of :math:`10^{-3}/\max(1,\max\|x\|)`.

    Examples
    --------
    >>> mu = Measure([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    >>> round(asymmetry(particle_jacobian(softmax_field, mu)), 3)
    0.527
    """
    x = _real(mu)
    validate.function(field, "field")
    h = 1e-3 / max(1.0, float(np.linalg.norm(x, axis=1).max()))
    J = np.zeros((x.size, x.size))
    for column in range(x.size):
        step = h * np.eye(x.size)[column].reshape(x.shape)
        for k, coefficient in STENCIL:
            nu = Measure(x + k * step, mu.weights)
            v = field(nu.atoms, nu)
            v = validate.array(v, "field(x, mu)", x.shape, largest=validate.LARGEST)
            J[:, column] += coefficient / h * (mu.weights[:, None] * v).ravel()
    return J


def _real(mu: Measure) -> np.ndarray:
    """Atoms of a measure, which must be real."""
    return validate.measure(mu, largest=validate.LARGEST).atoms
