r"""First and second derivatives of the feature map, and the heads at which they are largest.

The bounds L and H of Proposition 3.4 are worth what the comparison with true values shows. This
module has the derivatives in closed form (the formula from which Chapter 3 derives H), their
operator norms for given heads, and a search for the largest norm over all heads of radius r and
all tokens of norm :math:`R_X`.

Everything is at the last position, which sees every token: position t of a sequence is the last
one of its first t tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.attention import HeadShape
from mfbook.optimise.descent import descend
from mfbook.space import Euclidean

#: Twelve entries are multiplied and the product is squared: up to this size that is finite.
LARGEST = 1e10

__all__ = [
    "DerivativeNorms",
    "Extreme",
    "derivative_norms",
    "directional_derivatives",
    "largest_derivative",
]


def directional_derivatives(
    theta: ArrayLike,
    h: ArrayLike,
    X: ArrayLike,
    W_U: ArrayLike,
    shape: HeadShape,
    counts: ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Feature map at the last position and its first two derivatives along a direction.

    With scores :math:`s_u`, attention weights A and attended token :math:`m=\mathbb E_A[x]`, a head
    moving along :math:`h=(q,\kappa,a,b)` has, at time 0,

    .. math:: m'&=\operatorname{Cov}_A(s',x),\qquad
              m''=\operatorname{Cov}_A(s'',x)+\mathbb E_A[(s'-\bar s')^2(x-\bar x)],\\
              D\varphi[h]&=[m'W_VW_O+m(aW_O+W_Vb)]W_U,\\
              D^2\varphi[h,h]&=[m''W_VW_O+2m'(aW_O+W_Vb)+2m\,ab]W_U.

    Exact up to rounding: no finite difference is involved. Derived in Chapter 3.

    Parameters
    ----------
    theta, h : array_like, shape (n, D)
        Heads and directions; complex ones are allowed.
    X : array_like, shape (T, d) or (n, T, d)
        One sequence for all heads, or one for each; complex ones are allowed.
    W_U : array_like, shape (d, V)
        Projection to the vocabulary.
    shape : HeadShape
        Sizes of one head.
    counts : array_like, shape (T,) or (n, T), optional
        Token u stands for ``counts[u]`` equal tokens; any positive numbers. Default: ones.

    Returns
    -------
    tuple of three arrays, shape (n, V)
        The feature and its first and second derivative at 0 of ``theta + s * h``.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong shape or holds NaN or infinity.

    Examples
    --------
    One token: nothing depends on the scores, and the feature is bilinear in (W_V, W_O).

    >>> head, h = [[1.0, 1.0, 3.0, 2.0]], [[0.0, 0.0, 1.0, 1.0]]
    >>> directional_derivatives(head, h, [[1.0]], [[1.0]], HeadShape(1, 1, 1))
    (array([[6.]]), array([[5.]]), array([[2.]]))
    """
    validate.instance(shape, "shape", HeadShape)
    size, largest = ("n", shape.size), LARGEST
    theta = validate.array(theta, "theta", size, allow_complex=True, largest=largest)
    h = validate.array(h, "h", theta.shape, allow_complex=True, largest=largest)
    X = _tokens(X, len(theta), shape, allow_complex=True)
    W_U = validate.array(W_U, "W_U", (shape.d, "V"), largest=largest)
    log_counts = 0.0
    if counts is not None:
        counts = validate.plain(counts, "counts")
        sizes = X.shape[-2:-1] if counts.ndim == 1 else (len(theta), X.shape[-2])
        counts = validate.array(counts, "counts", sizes, allow_complex=True)
        if (counts.real <= 0).any():
            raise ValueError(f"counts: expected positive numbers, got {counts.real.min()}")
        log_counts = np.log(counts)[..., None, :]
    return _derivatives(theta, h, X, W_U, shape, log_counts)


def _tokens(X, n, shape, allow_complex=False) -> np.ndarray:
    """One sequence (T, d) for all heads, or one for each of n."""
    X = validate.plain(X, "X")
    sizes = ("T", shape.d) if X.ndim == 2 else (n, "T", shape.d)
    return validate.array(X, "X", sizes, allow_complex=allow_complex, largest=LARGEST)


def _derivatives(theta, h, X, W_U, shape, log_counts):
    """The formulas of :func:`directional_derivatives`, without checks."""
    W_Q, W_K, W_V, W_O = shape._split(theta)
    q, kappa, a, b = shape._split(h)
    query = X[..., -1:, :]
    tokens = np.swapaxes(X, -1, -2) / np.sqrt(shape.k)

    def scores(left, right):
        return (query @ left) @ (np.swapaxes(right, -1, -2) @ tokens)

    s = scores(W_Q, W_K) + log_counts
    A = np.exp(s - s.real.max(axis=-1, keepdims=True))
    A = A / A.sum(axis=-1, keepdims=True)

    def covariance(change):
        """Covariance of a score (n, 1, T) with the tokens under the attention weights."""
        weighted = A * change
        return (weighted - A * weighted.sum(axis=-1, keepdims=True)) @ X

    first = scores(q, W_K) + scores(W_Q, kappa)
    centred = first - (A * first).sum(axis=-1, keepdims=True)
    m, m1 = A @ X, covariance(first)
    m2 = covariance(2 * scores(q, kappa)) + covariance(centred * centred)
    C, C1, C2 = W_V @ W_O, a @ W_O + W_V @ b, 2 * (a @ b)
    moved = (m @ C, m1 @ C + m @ C1, m2 @ C + 2 * (m1 @ C1) + m @ C2)
    return tuple((z @ W_U)[..., 0, :] for z in moved)


@dataclass(frozen=True)
class DerivativeNorms:
    r"""Operator norms of the derivatives of the feature map of n heads.

    Attributes
    ----------
    value, first, second : array, shape (n,)
        :math:`\|\varphi\|`, :math:`\|\nabla\varphi\|_{op}` and :math:`\|\nabla^2\varphi\|_{op}`.
        The last is found by iteration from a few starts: attained, and so never too large.
    share : array, shape (n,)
        The part :math:`n^2=\|q\|^2+\|\kappa\|^2` of the unit direction in which the second
        derivative is largest.
    """

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray
    share: np.ndarray


def derivative_norms(
    theta: ArrayLike, X: ArrayLike, W_U: ArrayLike, shape: HeadShape, *, iterations: int = 100
) -> DerivativeNorms:
    r"""Operator norms of the first and second derivative of the feature map at given heads.

    The first is the largest singular value of the V × D Jacobian. The second is the maximum of
    :math:`\langle D^2\varphi[h,h],e\rangle` over unit vectors h and e: in turn, h is the leading
    eigenvector for given e and e is parallel to :math:`D^2\varphi[h,h]`; neither step can lower
    the value.

    Parameters
    ----------
    theta : array_like, shape (n, D)
        Heads.
    X : array_like, shape (T, d) or (n, T, d)
        Tokens of one sequence, or of one for each head.
    W_U : array_like, shape (d, V)
        Projection to the vocabulary.
    shape : HeadShape
        Sizes of one head.
    iterations : int
        At most so many for the second derivative; it stops when no head gains any more.

    Returns
    -------
    DerivativeNorms
        For each head.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong shape or holds NaN or infinity.

    Examples
    --------
    >>> norms = derivative_norms([[1.0, 1.0, 3.0, 4.0]], [[1.0]], [[1.0]], HeadShape(1, 1, 1))
    >>> norms.value, norms.first, norms.second.round(12)
    (array([12.]), array([5.]), array([1.]))
    """
    validate.instance(shape, "shape", HeadShape)
    theta = validate.array(theta, "theta", ("n", shape.size), largest=LARGEST)
    n, D = theta.shape
    X = _tokens(X, n, shape)
    W_U = validate.array(W_U, "W_U", (shape.d, "V"), largest=LARGEST)
    iterations = validate.count(iterations, "iterations")
    unit = np.eye(D)

    def along(directions):
        """Derivatives of every head along every direction, (n, p, V) each."""
        p = len(directions)
        heads, h = np.repeat(theta, p, axis=0), np.tile(directions, (n, 1))
        sequences = X if X.ndim == 2 else np.repeat(X, p, axis=0)
        parts = directional_derivatives(heads, h, sequences, W_U, shape)
        return (part.reshape(n, p, -1) for part in parts)

    value, J, diagonal = along(unit)
    # polarisation: D2[i, j] = (D2[i + j, i + j] - D2[i, i] - D2[j, j]) / 2, exact for a quadratic
    i, j = np.triu_indices(D, 1)
    *_, pairs = along(unit[i] + unit[j])
    second = np.zeros((n, D, D, diagonal.shape[-1]))
    second[:, i, j] = second[:, j, i] = (pairs - diagonal[:, i] - diagonal[:, j]) / 2
    second[:, np.arange(D), np.arange(D)] = diagonal

    rows = np.arange(n)

    def climb(e):
        """The best direction for given e, its value, and the next e."""
        e = e / np.maximum(np.linalg.norm(e, axis=-1, keepdims=True), np.finfo(float).tiny)
        values, vectors = np.linalg.eigh(np.einsum("nijv,nv->nij", second, e))
        h = vectors[rows, :, np.abs(values).argmax(axis=1)]
        e = np.einsum("nijv,ni,nj->nv", second, h, h)
        return h, np.linalg.norm(e, axis=-1), e

    # starts: directions of the logits, and the axes and pairs of axes that bend most
    starts = [np.tile(e, (n, 1)) for e in np.linalg.svd(W_U, full_matrices=False)[2][:4]]
    for bends in (diagonal, pairs):
        starts.append(bends[rows, np.linalg.norm(bends, axis=-1).argmax(axis=1)])
    reached = [climb(climb(e)[2]) for e in starts]
    winner = np.argmax([norm for _, norm, _ in reached], axis=0)
    h, best, e = (np.array(part)[winner, rows] for part in zip(*reached, strict=True))
    for _ in range(iterations):
        previous = best
        h, best, e = climb(e)
        if (best <= previous * (1 + 1e-9)).all():
            break
    share = (h[:, : 2 * shape.d * shape.k] ** 2).sum(axis=1)
    return DerivativeNorms(
        np.linalg.norm(value[:, 0], axis=-1), np.linalg.norm(J, ord=2, axis=(1, 2)), best, share
    )


@dataclass(frozen=True)
class Extreme:
    """Where :func:`largest_derivative` found the largest derivative.

    Attributes
    ----------
    value : float
        Norm of the derivative along ``direction``, attained at ``theta`` on these tokens.
    theta, direction : array, shape (D,)
    X : array, shape (T, d)
        Distinct tokens; the last is the query.
    counts : array, shape (T,)
        How often each token occurs, up to a common factor.
    agreeing : int
        How many of the starts ended within a relative 1e-6 of ``value``.
    converged : bool
        Whether the best search met its tolerance.
    """

    value: float
    theta: np.ndarray
    direction: np.ndarray
    X: np.ndarray
    counts: np.ndarray
    agreeing: int
    converged: bool


def largest_derivative(
    order: int,
    shape: HeadShape,
    r: float,
    rng: Seed,
    *,
    R_X: float = 1.0,
    R_U: float = 1.0,
    tokens: int = 3,
    starts: int = 8,
) -> Extreme:
    r"""Search for the largest derivative of the feature map over all heads and all tokens.

    Maximises :math:`\langle D^j\varphi[h,\dots,h],e\rangle` over heads of ``shape.ball(r)``, unit
    directions h and e, tokens of norm at most :math:`R_X`, and the numbers of times each token
    occurs, with :math:`W_U=R_UI`. Ascent by L-BFGS from random starts on the boundary of the balls;
    its gradient is a complex step of :func:`directional_derivatives`, exact up to rounding. What
    it returns is attained (in the numbers of times: approached by long sequences), so it bounds
    every valid constant from below.

    Parameters
    ----------
    order : int
        0, 1 or 2: the feature itself, its first or its second derivative.
    shape : HeadShape
        Sizes of one head.
    r : float
        Radius of the four balls.
    rng : numpy.random.Generator or int
        Draws the starts.
    R_X, R_U : float
        Token norm, and operator norm of ``W_U``.
    tokens : int
        Number of distinct tokens.
    starts : int
        Number of searches.

    Returns
    -------
    Extreme
        The largest found, and where.

    Raises
    ------
    TypeError, ValueError
        If ``order`` is not 0, 1 or 2, a radius is not positive, or a number is not a positive
        integer.

    Examples
    --------
    >>> round(largest_derivative(0, HeadShape(2, 1, 1), r=2.0, rng=0, starts=2).value, 9)
    4.0
    """
    order = validate.count(order, "order", least=0)
    if order > 2:
        raise ValueError(f"order: expected 0, 1 or 2, got {order}")
    validate.instance(shape, "shape", HeadShape)
    r, rng = validate.positive(r, "r", largest=LARGEST), validate.generator(rng)
    R_X = validate.positive(R_X, "R_X", largest=LARGEST)
    R_U = validate.positive(R_U, "R_U", largest=LARGEST)
    T, starts = validate.count(tokens, "tokens"), validate.count(starts, "starts")
    D, d = shape.size, shape.d
    ends = np.cumsum([*shape.blocks, T * d, D, d])
    W_U = R_U * np.eye(d)

    def unpack(z):
        *matrices, x, h, e, log_counts = np.split(z, ends, axis=-1)
        theta = np.concatenate([_into_ball(W, r) for W in matrices], axis=-1)
        X = _into_ball(x.reshape(*z.shape[:-1], T, d), R_X)
        return theta, h / _norm(h), X, e / _norm(e), log_counts

    def objective(z):
        # one complex step for each variable, all in one batch
        theta, h, X, e, log_counts = unpack(z + 1e-30j * np.eye(z.size))
        D_phi = _derivatives(theta, h, X, W_U, shape, log_counts[..., None, :])[order]
        value = (D_phi * e).sum(axis=-1)
        return -value[0].real, -value.imag[None] / 1e-30

    def start():
        # matrices and tokens on the boundary of their balls, every token equally often
        *matrices, x, h, e = np.split(rng.normal(size=ends[-1]), ends[:-1])
        on_boundary = [np.pi / 2 * W / _norm(W) for W in (*matrices, x.reshape(T, d))]
        return np.concatenate([*(W.ravel() for W in on_boundary), h, e, np.zeros(T)])[None]

    options = {"maxiter": 1000, "maxfun": 1000, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-8}
    found = descend(objective, Euclidean(), [start() for _ in range(starts)], **options)
    best = min(found, key=lambda end: end.value)
    theta, h, X, _, log_counts = unpack(best.point[0])
    counts = np.exp(log_counts - log_counts.max())
    return Extreme(
        value=-best.value,
        theta=theta,
        direction=h,
        X=X,
        counts=counts / counts.sum(),
        agreeing=int(sum(end.value <= best.value * (1 - 1e-6) for end in found)),
        converged=best.converged,
    )


def _norm(z):
    """Length of each row, as the analytic function sqrt(sum z^2)."""
    return np.sqrt((z * z).sum(axis=-1, keepdims=True))


def _into_ball(z, radius):
    """A smooth map onto the closed ball that reaches the boundary at finite arguments."""
    size = _norm(z)
    return radius * np.sin(size) / size * z
