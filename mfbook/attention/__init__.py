r"""One causal self-attention layer whose heads are particles, and its cross-entropy risk.

A head is :math:`\theta=(W_Q,W_K,W_V,W_O)`. On tokens :math:`X\in\mathbb R^{T\times d}` it
contributes the logits :math:`\varphi(X;\theta)=A\,X\,W_VW_OW_U`, with A the row-softmax of
:math:`XW_Q(XW_K)^\top/\sqrt k` under the causal mask; a measure :math:`\mu` over heads predicts
with :math:`f(X;\mu)=\int\varphi\,d\mu`. :func:`features` states this formula;
:class:`AttentionRisk` computes the risk, its first variation and its gradient for many heads at
once.
"""

from mfbook.attention.features import attention_weights, cross_entropy, features, softmax
from mfbook.attention.risk import AttentionRisk
from mfbook.attention.shape import HeadShape

__all__ = [
    "AttentionRisk", "HeadShape", "attention_weights", "cross_entropy", "features", "softmax",
]  # fmt: skip
