"""Tasks whose best answer is known: a teacher, copying, induction."""

from __future__ import annotations

import numpy as np

from companion.tasks.embedding import join, names, positions, tied, words
from companion.tasks.task import Task, entropy
from mfbook._validate import Seed
from mfbook.attention import AttentionRisk, HeadShape, softmax
from mfbook.measure import Measure
from mfbook.space import Ball


def teacher_student(
    shape: HeadShape, *, sequences: int, tokens: int, vocabulary: int, heads: int, rng: Seed,
    scale: float = 4.0,
) -> Task:  # fmt: skip
    r"""Soft labels made by a known measure: the optimum is known exactly.

    Tokens are uniform in the unit ball of :math:`\mathbb R^d`, ``W_U`` is Gaussian with its rows
    centred, and the teacher :math:`\mu^*` has heads with each matrix uniform in the Frobenius ball
    of radius ``scale``, so :math:`\mu^*` lies in ``shape.ball(scale)``. With

    .. math:: y_t=\operatorname{softmax}(f_t(X;\mu^*)),\qquad
              R(\mu)-R(\mu^*)=\mathbb E\,\frac1T\sum_t\mathrm{KL}(y_t\,\|\,p_t)\ge0,

    the optimal risk :math:`R(\mu^*)` is the mean entropy of the labels, and
    :math:`\Psi(\cdot;\mu^*)=0` for every head.
    """
    S, T, V = sequences, tokens, vocabulary
    rng = np.random.default_rng(rng)
    X = Ball(1.0, (shape.d,)).sample(rng, S * T).reshape(S, T, shape.d)
    W_U = rng.normal(size=(shape.d, V))
    W_U -= W_U.mean(axis=1, keepdims=True)
    teacher = Measure(shape.ball(scale).sample(rng, heads))
    anything = np.full((S, T, V), 1 / V)  # logits do not depend on the labels
    Y = softmax(AttentionRisk(X, anything, W_U, shape).logits(teacher))
    return Task(X, Y, W_U, "teacher", teacher=teacher, optimal_risk=entropy(Y))


def copy_task(*, sequences: int, tokens: int, vocabulary: int, lag: int, rng: Seed) -> Task:
    r"""Copy the word ``lag`` positions ago: one head can do it by position.

    Position 0 holds no word; the others hold independent uniform words. The label at position
    t is the word at t - ``lag``, and uniform where that is position 0 or earlier.

    A token is a pair :math:`x_t=(e,p_t)`. Words e are the corners of a regular simplex on the unit
    sphere of :math:`\mathbb R^{V-1}` (no word is the centre 0), and
    :math:`p_t=(\cos\frac{\pi t}T,\sin\frac{\pi t}T)` runs along a half-circle; so d = V + 1 and
    :math:`\|x_t\|\le\sqrt2`. ``W_U`` holds the words again (tied embeddings): its rows sum to zero
    and its operator norm is :math:`\sqrt{V/(V-1)}`.

    One head solves it (:func:`copy_head`): W_Q turns :math:`p_t` back by ``lag`` steps, so the
    score :math:`\propto\cos\frac{\pi(t-u-\mathrm{lag})}T` is largest at u = t - ``lag``, or at the
    empty position 0 where that is negative; W_V W_O passes the word on. As its norm grows the risk
    falls to the mean entropy of the labels, which no measure attains.
    """
    S, T, V = sequences, tokens, vocabulary
    ids = np.random.default_rng(rng).integers(V, size=(S, T))
    ids[:, 0] = -1
    Y = np.full((S, T, V), 1 / V)
    Y[:, lag + 1 :] = np.eye(V)[ids[:, 1 : T - lag]]
    X = join(words(V)[ids], positions(T, 1))
    return Task(X, Y, tied(V, 2), f"copy, lag {lag}", ids, names(V), optimal_risk=entropy(Y))


def copy_head(shape: HeadShape, *, tokens: int, lag: int, scale: float) -> np.ndarray:
    r"""The hand-made head that solves :func:`copy_task`; its matrices grow with ``scale``.

    Attention to the right position beats its neighbours by
    :math:`\text{scale}^2(1-\cos\frac\pi T)/\sqrt k` in score; the logit of the right word is
    :math:`\text{scale}^2V/(V-1)` above the others.
    """
    content, angle = shape.d - 2, np.pi * lag / tokens
    W_Q, W_K, W_V, W_O = (W.copy() for W in shape.split(np.zeros(shape.size)))
    # a row times this matrix is the row turned back by the angle
    W_Q[content:, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    W_K[content:, :2] = np.eye(2)
    W_V[:content, :content] = W_O[:content, :content] = np.eye(content)
    return scale * shape.join(W_Q, W_K, W_V, W_O)


def induction_task(*, sequences: int, tokens: int, vocabulary: int, rng: Seed) -> Task:
    r"""Say what followed the last time: one head can do it by content.

    Each sequence draws a map :math:`\pi` from words to words, all values independent and uniform,
    and follows it from a uniform first word: :math:`w_{t+1}=\pi(w_t)`, with no word at position 0.
    The label at t is the law of :math:`w_{t+1}` given the words so far: if :math:`w_t` occurred
    before, what followed it then, with certainty; otherwise (and at position 0) uniform.

    A token is :math:`x_t=(e_t,e_{t-1},b_t)`: the word, the word before it (what a first layer
    would supply) and a mark, :math:`b_0=1` and -1 elsewhere. Words are the corners of a regular
    simplex as in :func:`copy_task`, and so is ``W_U``; d = 2V - 1 and :math:`\|x_t\|\le\sqrt3`.

    One head solves it: the score
    :math:`\propto\langle e_t,e_{u-1}\rangle-\frac14b_tb_u` is largest where the word before u is
    the word at t, next at the empty position 0, and lower elsewhere; W_V W_O passes the word at u
    on. As its norm grows the risk falls to the mean entropy of the labels, which no measure
    attains.
    """
    S, T, V = sequences, tokens, vocabulary
    rng = np.random.default_rng(rng)
    follows = rng.integers(V, size=(S, V))
    ids = np.full((S, T), -1)
    word = rng.integers(V, size=S)
    Y = np.full((S, T, V), 1 / V)
    seen, every = np.zeros((S, V), dtype=bool), np.arange(S)
    for t in range(1, T):
        ids[:, t] = word
        known = seen[every, word]
        seen[every, word] = True
        word = follows[every, word]
        Y[known, t] = np.eye(V)[word[known]]
    previous = np.concatenate([ids[:, :1], ids[:, :-1]], axis=1)
    mark = np.full((T, 1), -1.0)
    mark[0] = 1
    X = join(np.concatenate([words(V)[ids], words(V)[previous]], axis=-1), mark)
    return Task(X, Y, tied(V, V), "induction", ids, names(V), optimal_risk=entropy(Y))
