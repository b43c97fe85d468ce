r"""Many layers side by side, with weights on their heads and on their sequences.

Drawing M heads from a law on m atoms puts weights :math:`a` on these atoms, and drawing S sequences
from a population of N puts weights :math:`c` on these sequences. Both draws are then numbers in one
formula, and so is every sample: the population itself, one step of stochastic descent, a sequence
left out. Weights may be complex, so the derivative of a whole training run in a weight is one
complex step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mfbook._work import blocks
from mfbook.attention.features import loss, softmax
from mfbook.attention.risk import AttentionRisk

# Heads of one block of work: enough to hide the cost of a call, few enough for the cache.
BLOCK = 96


def weighted_gradient(
    risk: AttentionRisk, theta: ArrayLike, heads: ArrayLike, sequences: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    r"""Losses and gradients of many layers, each with weights of its own.

    With weights a of the heads and c of the sequences of one run,

    .. math:: f=\sum_ia_i\,\varphi(X_\omega;\theta_i),\qquad
              \ell_\omega=\frac1T\sum_t\ell(f_t,y_{\omega,t}),\qquad
              G_i=\sum_\omega\frac{c_\omega}T\sum_t\nabla\varphi_t(X_\omega;\theta_i)^\top(p_t-y_t).

    With c = 1/N this is the gradient of :class:`~mfbook.attention.AttentionRisk`; with the
    counts of a sample over
    its size, that of the risk of the sample; with the unit vector of one sequence minus 1/N, how
    the gradient of this sequence differs from the mean. Heads of weight zero are carried along.
    """
    theta, heads, sequences = map(np.asarray, (theta, heads, sequences))
    runs, m, _ = theta.shape
    kind = np.result_type(theta, heads, sequences, np.float64)
    losses, gradient = np.empty(sequences.shape, kind), np.empty(theta.shape, kind)
    for r in blocks(runs, max(1, BLOCK // m)):
        losses[r], gradient[r] = _block(risk, theta[r], heads[r], sequences[r])
    return losses, gradient


def _block(risk, theta, heads, sequences):
    """The same for a few runs: positions first, all heads in one contiguous last axis."""
    X, shape = risk.X.transpose(1, 0, 2), risk.shape
    (runs, m, D), (T, N, d) = theta.shape, X.shape
    n = runs * m
    W_Q, W_K, W_V, W_O = shape._split(theta.reshape(n, D))
    # scores of all pairs u <= t and values of all tokens, each by one product
    pairs = np.concatenate([X[t, None, :, :, None] * X[: t + 1, :, None, :] for t in range(T)])
    pairs, flat = pairs.reshape(-1, d * d), X.reshape(-1, d)
    B = (W_Q @ W_K.mT / np.sqrt(shape.k)).reshape(n, d * d)
    scores = (pairs @ B.T).reshape(-1, N, n)
    values = (flat @ (W_V @ W_O).transpose(1, 2, 0).reshape(d, d * n)).reshape(T, N, d, n)
    rows = [slice(t * (t + 1) // 2, (t + 1) * (t + 2) // 2) for t in range(T)]
    attended = np.empty((T, N, d, n), values.dtype)
    for t in range(T):
        w = np.exp(scores[rows[t]] - scores[rows[t]].real.max(axis=0))
        scores[rows[t]] = w / w.sum(axis=0)  # attention weights from here on
        attended[t] = np.einsum("unj,undj->ndj", scores[rows[t]], values[: t + 1])

    f = np.einsum("tndrm,rm->tndr", attended.reshape(T, N, d, runs, m), heads)
    f = f.transpose(3, 1, 0, 2) @ risk.W_U
    dual = (softmax(f) - risk.Y) @ risk.W_U.T * (sequences / T)[:, :, None, None]
    dual = np.repeat(dual.transpose(2, 1, 3, 0), m, axis=3)
    # backwards: through the softmax of the scores, and to the values
    d_scores = np.empty(scores.shape, np.result_type(scores, dual))
    d_values = np.zeros(dual.shape, d_scores.dtype)
    for t in range(T):
        pull = np.einsum("undj,ndj->unj", values[: t + 1] - attended[t], dual[t])
        d_scores[rows[t]] = scores[rows[t]] * pull
        d_values[: t + 1] += scores[rows[t], :, None] * dual[t]
    dB = (pairs.T @ d_scores.reshape(-1, n)).T.reshape(n, d, d) / np.sqrt(shape.k)
    dC = (flat.T @ d_values.reshape(-1, d * n)).reshape(d, d, n).transpose(2, 0, 1)
    G = shape._join([dB @ W_K, dB.mT @ W_Q, dC @ W_O.mT, W_V.mT @ dC])
    return loss(f, risk.Y).mean(axis=-1), G.reshape(theta.shape)
