"""The same logits and gradients written with other tools, the way their users write them.

A peer is a function ``peer(problem)`` that returns ``{form: step}``. A form is one way to write the
layer; ``step(chunk)`` returns a function without arguments that takes ``chunk`` heads at a time
and returns the logits (S, T, V) and the gradients in W_Q, W_K, W_V, W_O, each (M, ., .), as arrays
of the tool. Attention weights are never computed twice: every peer keeps what it needs.
"""

from functools import partial

import numpy as np


def numpy_peer(problem):
    """Batched ``numpy.matmul`` with the backward pass by hand."""
    X, Y, W_U = problem.risk.X, problem.risk.Y, problem.risk.W_U
    W_Q, W_K, W_V, W_O = problem.heads
    (S, T, d), M, k = X.shape, len(W_Q), W_Q.shape[-1]
    x = X.reshape(-1, d)
    hidden = np.where(np.tri(T, dtype=bool), 0, -np.inf)

    def residual(f):
        p = np.exp(f - f.max(axis=-1, keepdims=True))
        return ((p / p.sum(axis=-1, keepdims=True) - Y) @ W_U.T) * (1 / (S * T))

    def attention(q, key):
        A = q @ key.swapaxes(-1, -2)
        A += hidden
        A -= A.max(axis=-1, keepdims=True)
        np.exp(A, out=A)
        A /= A.sum(axis=-1, keepdims=True)
        return A

    def attention_backward(A, q, key, v, g):
        D = g @ v.swapaxes(-1, -2)
        D -= (D * A).sum(axis=-1, keepdims=True)
        D *= A
        return D @ key, D.swapaxes(-1, -2) @ q, A.swapaxes(-1, -2) @ g

    def head_first(chunk):
        """Every head is a batch entry: (m, S, T, k)."""

        def step():
            f, kept, gradients = 0, [], []
            blocks = [slice(i, i + chunk) for i in range(0, M, chunk)]
            for h in blocks:
                q, key, v = (X @ W[h, None] for W in (W_Q / np.sqrt(k), W_K, W_V))
                A = attention(q, key)
                o = A @ v
                f = f + (o @ W_O[h, None]).sum(axis=0)
                kept.append((A, q, key, v, o))
            f = f @ W_U / M
            Z = residual(f)
            for h, (A, q, key, v, o) in zip(blocks, kept, strict=True):
                g = Z @ W_O[h, None].swapaxes(-1, -2)
                dq, dkey, dv = attention_backward(A, q, key, v, g)
                XT = X.swapaxes(-1, -2)
                dQ, dK, dV = ((XT @ dy).sum(axis=1) for dy in (dq / np.sqrt(k), dkey, dv))
                gradients.append((dQ, dK, dV, (o.swapaxes(-1, -2) @ Z).sum(axis=1)))
            return f, [np.concatenate(g) for g in zip(*gradients, strict=True)]

        return step

    def multi_head(chunk):
        """One wide projection for all heads, then (S, m, T, k): the layer of the textbooks."""

        def flat(W):
            return W.transpose(1, 0, 2).reshape(d, -1)

        def split(y):
            return np.ascontiguousarray(y.reshape(S, T, -1, k).transpose(0, 2, 1, 3))

        def merge(y):
            return y.transpose(0, 2, 1, 3).reshape(S * T, -1)

        def step():
            f, kept, gradients = 0, [], []
            blocks = [slice(i, i + chunk) for i in range(0, M, chunk)]
            for h in blocks:
                q, key, v = (split(x @ flat(W[h])) for W in (W_Q / np.sqrt(k), W_K, W_V))
                A = attention(q, key)
                o = merge(A @ v)
                f = f + o @ W_O[h].reshape(-1, d)
                kept.append((A, q, key, v, o))
            f = (f @ W_U / M).reshape(S, T, -1)
            Z = residual(f).reshape(-1, d)
            for h, (A, q, key, v, o) in zip(blocks, kept, strict=True):
                g = split(Z @ W_O[h].reshape(-1, d).T)
                wide = [x.T @ merge(dy) for dy in attention_backward(A, q, key, v, g)]
                dQ, dK, dV = (w.reshape(d, -1, k).transpose(1, 0, 2) for w in wide)
                gradients.append((dQ / np.sqrt(k), dK, dV, (o.T @ Z).reshape(-1, k, d)))
            return f, [np.concatenate(g) for g in zip(*gradients, strict=True)]

        return step

    return {"head first": head_first, "multi-head": multi_head}


def torch_peer(problem, fused=False):
    """PyTorch, eager, with its automatic differentiation."""
    import torch
    from torch.nn.functional import log_softmax, scaled_dot_product_attention

    torch.set_num_threads(1)
    X, Y, W_U = (torch.tensor(a) for a in (problem.risk.X, problem.risk.Y, problem.risk.W_U))
    heads = [torch.tensor(W, requires_grad=True) for W in problem.heads]
    (S, T, d), M, k = X.shape, len(heads[0]), heads[0].shape[-1]
    hidden = torch.ones(T, T, dtype=bool).triu(1)

    def attention(q, key, v):
        if fused:
            return scaled_dot_product_attention(q, key, v, is_causal=True)
        scores = (q @ key.mT / k**0.5).masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, -1) @ v

    def layer(W_Q, W_K, W_V, W_O):
        wide = torch.cat([W.transpose(0, 1).reshape(d, -1) for W in (W_Q, W_K, W_V)], 1)
        q, key, v = (X @ wide).view(S, T, 3, -1, k).permute(2, 0, 3, 1, 4)
        return attention(q, key, v).transpose(1, 2).reshape(S, T, -1) @ W_O.reshape(-1, d)

    def step(chunk):
        def run():
            blocks = zip(*(W.split(chunk) for W in heads), strict=True)
            f = sum(layer(*block) for block in blocks) @ W_U / M
            loss = -(Y * log_softmax(f, -1)).sum(-1).mean()
            # the gradient of the first variation is M times the gradient in the parameters
            return f.detach(), [M * g for g in torch.autograd.grad(loss, heads)]

        return run

    return {"multi-head": step}


def jax_peer(problem):
    """JAX: ``jit`` of ``value_and_grad`` of a scan over the chunks."""
    import jax
    import jax.numpy as jnp

    X, Y, W_U = problem.risk.X, problem.risk.Y, problem.risk.W_U
    heads = [jnp.asarray(W) for W in problem.heads]
    (S, T, d), M, k = X.shape, len(heads[0]), heads[0].shape[-1]

    def form(q):
        """The layer with queries laid out as ``q``, a permutation of s, t, k, h."""
        key, A = q.replace("t", "u"), q.replace("k", "u")
        visible = np.tri(T, dtype=bool).reshape([T if axis in "tu" else 1 for axis in A])

        def layer(W_Q, W_K, W_V, W_O):
            queries, keys, values = (
                jnp.einsum(f"std,hdk->{q}", X, W) for W in (W_Q / k**0.5, W_K, W_V)
            )
            scores = jnp.where(visible, jnp.einsum(f"{q},{key}->{A}", queries, keys), -jnp.inf)
            weights = jax.nn.softmax(scores, axis=A.index("u"))
            attended = jnp.einsum(f"{A},{key}->{q}", weights, values)
            return jnp.einsum(f"{q},hkd->std", attended, W_O)

        def step(chunk):
            def risk(heads):
                blocks = [W.reshape(M // chunk, chunk, *W.shape[1:]) for W in heads]
                start = jnp.zeros((S, T, d))
                f, _ = jax.lax.scan(lambda f, W: (f + layer(*W), None), start, blocks)
                f = f @ W_U / M
                return M * -(Y * jax.nn.log_softmax(f)).sum(-1).mean(), f

            compiled = jax.jit(jax.value_and_grad(risk, has_aux=True))

            def run():
                (_, f), gradients = jax.block_until_ready(compiled(heads))
                return f, gradients

            return run

        return step

    return {f"einsum {q}": form(q) for q in ("hstk", "shtk", "stkh")}


PEERS = {
    "NumPy": numpy_peer,
    "PyTorch": torch_peer,
    "PyTorch, fused attention": partial(torch_peer, fused=True),
    "JAX": jax_peer,
}
