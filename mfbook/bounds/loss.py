"""Constants of softmax and loss (Chapter 2)."""

from __future__ import annotations

import math

__all__ = [
    "loss_lipschitz",
    "loss_smoothness",
    "softmax_lipschitz",
]


def softmax_lipschitz() -> float:
    r"""Lipschitz constant 1/2 of the softmax.

    .. math:: 0\preceq J(f)=\operatorname{diag}(p)-pp^\top\preceq\tfrac12 I

    :math:`u^\top Ju` is the variance of :math:`u_I`, I drawn from p. It is at most
    :math:`(\max u-\min u)^2/4\le\|u\|^2/2`; equality at two equally likely words. Sharpens
    Lemma 2.1 of the paper, which has 1; derived in Chapter 2.
    """
    return 0.5


def loss_lipschitz() -> float:
    r"""Lipschitz constant of the loss in the logits, the largest norm of a residual.

    .. math:: \|\nabla_f\ell(f,y)\|=\|p-y\|_2\le\sqrt2

    The distance of two probability vectors; it is approached by a certain and wrong prediction.
    Used in Theorem 4.1 of the paper; derived in Chapter 2.
    """
    return math.sqrt(2)


def loss_smoothness() -> float:
    r"""Lipschitz constant 1/2 of the gradient of the loss in the logits.

    .. math:: \nabla_f^2\ell(f,y)=J(f)\preceq\tfrac12 I

    The same bound as :func:`softmax_lipschitz`, since the gradient is p - y; derived in Chapter 2.
    """
    return softmax_lipschitz()
