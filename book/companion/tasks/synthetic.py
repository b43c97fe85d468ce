"""Tasks whose best answer is known: a teacher, copying, induction."""

from __future__ import annotations

import numpy as np

from companion.tasks.embedding import join, names, positions, tied, words
from companion.tasks.task import Task, entropy
from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.attention import AttentionRisk, HeadShape, softmax
from mfbook.measure import Measure
from mfbook.space import Ball


def teacher_student(
    shape: HeadShape,
    *,
    sequences: int,
    tokens: int,
    vocabulary: int,
    heads: int,
    rng: Seed,
    scale: float = 4.0,
) -> Task:
    r"""Soft labels made by a known measure: the optimum is known exactly.

    Tokens are uniform in the unit ball of :math:`\mathbb R^d`, ``W_U`` is Gaussian with its rows
    centred, and the teacher :math:`\mu^*` has heads with each matrix uniform in the Frobenius ball
    of radius ``scale``, so :math:`\mu^*` lies in ``shape.ball(scale)``. With

    .. math:: y_t=\operatorname{softmax}(f_t(X;\mu^*)),\qquad
              R(\mu)-R(\mu^*)=\mathbb E\,\frac1T\sum_t\mathrm{KL}(y_t\,\|\,p_t)\ge0,

    the optimal risk :math:`R(\mu^*)` is the mean entropy of the labels, and
    :math:`\Psi(\cdot;\mu^*)=0` for every head.

    Parameters
    ----------
    shape : HeadShape
        Sizes of a head.
    sequences, tokens, vocabulary, heads : int
        S, T, V (at least 2) and the number of heads of the teacher.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.
    scale : float
        Radius, positive. At 4 and d = 4 the labels are clearly not uniform; they sharpen with
        ``scale**2`` and flatten with more dimensions and more heads.

    Returns
    -------
    Task
        With the teacher and the least risk.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> shape = HeadShape(3, 2, 2)
    >>> task = teacher_student(shape, sequences=8, tokens=4, vocabulary=5, heads=2, rng=0)
    >>> R = task.risk(shape, shape.ball(4.0))
    >>> bool(abs(R(task.teacher) - task.optimal_risk) < 1e-14)
    True
    """
    validate.instance(shape, "shape", HeadShape)
    S, T = validate.count(sequences, "sequences"), validate.count(tokens, "tokens")
    V = validate.count(vocabulary, "vocabulary", least=2)
    heads = validate.count(heads, "heads")
    ball = shape.ball(validate.positive(scale, "scale", largest=validate.LARGEST))
    rng = validate.generator(rng)
    X = Ball(1.0, (shape.d,)).sample(rng, S * T).reshape(S, T, shape.d)
    W_U = rng.normal(size=(shape.d, V))
    W_U -= W_U.mean(axis=1, keepdims=True)
    teacher = Measure(ball.sample(rng, heads))
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

    Parameters
    ----------
    sequences, tokens, vocabulary : int
        S, T (at least 3) and V (at least 2).
    lag : int
        From 1 to T - 2.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> copy_task(sequences=16, tokens=8, vocabulary=7, lag=2, rng=0)
    Task('copy, lag 2': 16 sequences of 8 tokens in R^8, vocabulary 7)
    """
    S, T = validate.count(sequences, "sequences"), validate.count(tokens, "tokens", least=3)
    V, lag = validate.count(vocabulary, "vocabulary", least=2), _lag(lag, T)
    ids = validate.generator(rng).integers(V, size=(S, T))
    ids[:, 0] = -1
    Y = np.full((S, T, V), 1 / V)
    Y[:, lag + 1 :] = np.eye(V)[ids[:, 1 : T - lag]]
    X = join(words(V)[ids], positions(T, 1))
    name = f"copy, lag {lag}"
    return Task(X, Y, tied(V, 2), name, ids, names(V), optimal_risk=entropy(Y))


def copy_head(shape: HeadShape, *, tokens: int, lag: int, scale: float) -> np.ndarray:
    r"""The hand-made head that solves :func:`copy_task`; its matrices grow with ``scale``.

    Attention to the right position beats its neighbours by
    :math:`\text{scale}^2(1-\cos\frac\pi T)/\sqrt k` in score; the logit of the right word is
    :math:`\text{scale}^2V/(V-1)` above the others.

    Parameters
    ----------
    shape : HeadShape
        With d = V + 1, k at least 2, v at least V - 1.
    tokens, lag : int
        T and the lag of the task.
    scale : float
        Operator norm of each matrix, positive.

    Returns
    -------
    array, shape (D,)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> shape = HeadShape(8, 2, 6)
    >>> task = copy_task(sequences=16, tokens=8, vocabulary=7, lag=2, rng=0)
    >>> head = copy_head(shape, tokens=8, lag=2, scale=16.0)
    >>> bool(task.risk(shape)(Measure.dirac(head)) - task.optimal_risk < 1e-3)
    True
    """
    validate.instance(shape, "shape", HeadShape)
    T = validate.count(tokens, "tokens", least=3)
    lag, scale = _lag(lag, T), validate.positive(scale, "scale")
    content = shape.d - 2
    if content < 1 or shape.k < 2 or shape.v < content:
        raise ValueError(f"shape: expected d >= 3, k >= 2 and v >= d - 2, got {shape}")
    angle = np.pi * lag / T
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

    Parameters
    ----------
    sequences, tokens, vocabulary : int
        S, T (at least 2) and V (at least 2). A sequence meets about :math:`\sqrt{\pi V/2}`
        different words; T should be larger.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> task = induction_task(sequences=1, tokens=9, vocabulary=6, rng=2)
    >>> task, "".join(task.sequence(0))
    (Task('induction': 1 sequences of 9 tokens in R^11, vocabulary 6), 'cafecafe')
    """
    S, T = validate.count(sequences, "sequences"), validate.count(tokens, "tokens", least=2)
    V, rng = validate.count(vocabulary, "vocabulary", least=2), validate.generator(rng)
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


def _lag(lag, T: int) -> int:
    lag = validate.count(lag, "lag")
    if lag > T - 2:
        raise ValueError(f"lag: expected at most {T - 2} for {T} tokens, got {lag}")
    return lag
