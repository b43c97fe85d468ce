"""The same computations written with other tools, the way their users write them.

A peer is a function ``peer(problem, chunk)`` that takes ``chunk`` heads at a time. It returns a
function without arguments that does what the problem says, and the :class:`Layout` that reads its
result. Attention weights are never computed twice: every peer keeps what it needs. Gradients are
those of the first variation, M times those in the parameters, so the loss is multiplied by M.
"""

from functools import partial

import numpy as np


class Layout:
    """How a peer stores heads: axes of W_Q, W_K, W_V and of W_O.

    They are runs r (none if there is but one), chunks c, heads h of a chunk, d and k. The default
    is the multi-head layer of the textbooks, with a matrix of all queries, keys or values in a row.
    """

    def __init__(self, problem, chunk, inner="dhk", outer="hkd", front="cr"):
        runs = "r" if problem.kind == "sweep" else ""
        self.problem, front = problem, front.replace("r", runs)
        self.axes = [front + own for own in (inner, inner, inner, outer)]
        self.plain = [f"{runs}ch{own}" for own in ("dk", "dk", "dk", "kd")]
        self.count = {"r": problem.runs, "c": problem.M // chunk, "h": chunk}
        self.count |= {"d": problem.d, "k": problem.k}

    def moved(self, arrays, old, new) -> list[np.ndarray]:
        """Arrays with their axes in another order."""
        parts = zip(arrays, old, new, strict=True)
        return [np.einsum(f"{a}->{b}", W.reshape([self.count[x] for x in a])) for W, a, b in parts]

    def weights(self) -> list[np.ndarray]:
        """The four matrices of all heads."""
        return self.moved(self.problem.risk.shape.split(self.problem.start), self.plain, self.axes)

    def heads(self, weights) -> np.ndarray:
        """The inverse of :meth:`weights`: heads (R, M, D)."""
        p, parts = self.problem, self.moved(map(np.asarray, weights), self.axes, self.plain)
        return p.risk.shape.join(*(W.reshape(p.runs, p.M, *W.shape[-2:]) for W in parts))

    def read(self, found) -> tuple:
        """A peer's result as this package has it: logits and gradients, or heads at the end."""
        if self.problem.kind != "gradient":
            return (self.heads(found),)
        return np.asarray(found[0]), self.heads(found[1])[0]


def down(W, factor, gradient) -> list:
    """Weights after a step against the gradient."""
    return [w - factor * g for w, g in zip(W, gradient, strict=True)]


def runge_kutta(gradient, W, h) -> list:
    """One classical step of the gradient flow."""
    a = gradient(W)
    b = gradient(down(W, h / 2, a))
    c = gradient(down(W, h / 2, b))
    d = gradient(down(W, h, c))
    for factor, g in ((h / 6, a), (h / 3, b), (h / 3, c), (h / 6, d)):
        W = down(W, factor, g)
    return W


def numpy_peer(p, chunk):
    """Logits and gradients by batched ``numpy.matmul``, with the backward pass by hand."""
    F, layout = p.risk, Layout(p, chunk)
    weights = layout.weights()
    x, hidden = F.X.reshape(-1, p.d), np.where(np.tri(p.T, dtype=bool), 0, -np.inf)

    def split(y):
        return np.ascontiguousarray(y.reshape(p.S, p.T, -1, p.k).swapaxes(1, 2))

    def merge(y):
        return y.swapaxes(1, 2).reshape(p.S * p.T, -1)

    def softmax(A):
        A -= A.max(axis=-1, keepdims=True)
        np.exp(A, out=A)
        A /= A.sum(axis=-1, keepdims=True)
        return A

    def layer(W_Q, W_K, W_V, W_O):
        """The output, and the function that takes its gradient to those of the weights."""
        q, key, v = (split(x @ W.reshape(p.d, -1)) for W in (W_Q / np.sqrt(p.k), W_K, W_V))
        A, flat = q @ key.mT, W_O.reshape(-1, p.d)
        A += hidden
        o = merge(softmax(A) @ v)

        def backward(Z):
            g = split(Z @ flat.T)
            D = g @ v.mT
            D -= (D * A).sum(axis=-1, keepdims=True)
            D *= A
            dQ, dK, dV = (x.T @ merge(dy) for dy in (D @ key, D.mT @ q, A.mT @ g))
            return dQ / np.sqrt(p.k), dK, dV, o.T @ Z

        return o @ flat, backward

    def run():
        outputs, backward = zip(*map(layer, *weights), strict=True)
        f = sum(outputs) @ F.W_U / p.M
        Z = (softmax(f.copy()) - F.Y.reshape(f.shape)) @ F.W_U.T / (p.S * p.T)
        gradients = zip(*(one(Z) for one in backward), strict=True)
        return f.reshape(F.Y.shape), [np.stack(g) for g in gradients]

    return run, layout


def torch_peer(p, chunk, fused=False):
    """PyTorch, eager: multi-head attention, autograd, ``torch.optim.SGD``."""
    import torch
    from torch.nn.functional import cross_entropy, log_softmax, scaled_dot_product_attention

    torch.set_num_threads(1)
    layout, sweep = Layout(p, chunk), p.kind == "sweep"
    weights = [torch.tensor(W) for W in layout.weights()]
    X, Y, W_U = (torch.tensor(a) for a in (p.risk.X, p.risk.Y, p.risk.W_U))
    index, words = (torch.tensor(a if sweep else a[:, 0]) for a in p.data)
    hidden = torch.ones(p.T, p.T, dtype=bool).triu(1)

    def attention(q, k, v):
        if fused:
            return scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.mT / p.k**0.5).masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, -1) @ v

    def layer(x, W_Q, W_K, W_V, W_O):
        projected = x @ torch.cat([W_Q, W_K, W_V], -2).flatten(-2)
        q, k, v = projected.unflatten(-1, (3, -1, p.k)).movedim(-3, 0).transpose(-2, -3)
        return attention(q, k, v).transpose(-2, -3).flatten(-2) @ W_O.flatten(-3, -2)

    def logits(x, W):
        return sum(layer(x, *block) for block in zip(*W, strict=True)) @ W_U / p.M

    def gradient(W):
        W = [w.detach().requires_grad_() for w in W]
        f = logits(X, W)
        loss = -p.M * (Y * log_softmax(f, -1)).sum(-1).mean()
        return f.detach(), torch.autograd.grad(loss, W)

    def flow(W):
        for _ in range(p.steps):
            W = runge_kutta(lambda W: gradient(W)[1], W, p.rate)
        return W

    def descend(W):
        W = [w.clone().requires_grad_() for w in W]
        descent = torch.optim.SGD(W, lr=p.rate)
        for i, word in zip(index, words, strict=True):
            f = logits(X[i[:, 0] if sweep else i], W)
            loss = p.M * p.runs * cross_entropy(f.flatten(0, -2), word.flatten())
            descent.zero_grad()
            loss.backward()
            descent.step()
        return [w.detach() for w in W]

    return partial({"gradient": gradient, "flow": flow}.get(p.kind, descend), weights), layout


def jax_peer(p, chunk, q, many="vmap"):
    """JAX: ``jit`` of the gradient of the loss, in a scan over chunks and one over steps.

    Queries are laid out as ``q``, a permutation of t, k, h and, where there are several, s; heads
    come last in the weights, too, if they do there. Runs go side by side by ``vmap`` or ``map``.
    """
    import jax
    import jax.numpy as jnp

    sweep, (X, Y, W_U) = p.kind == "sweep", map(jnp.asarray, (p.risk.X, p.risk.Y, p.risk.W_U))
    x, key, A = "td" if sweep else "std", q.replace("t", "u"), q.replace("k", "u")
    inner, outer = ("dkh", "kdh") if q.endswith("h") else ("hdk", "hkd")
    visible = np.tri(p.T, dtype=bool).reshape([p.T if axis in "tu" else 1 for axis in A])

    def layer(tokens, W_Q, W_K, W_V, W_O):
        queries, keys, values = (
            jnp.einsum(f"{x},{inner}->{q}", tokens, W) for W in (W_Q / p.k**0.5, W_K, W_V)
        )
        scores = jnp.where(visible, jnp.einsum(f"{q},{key}->{A}", queries, keys), -jnp.inf)
        attended = jnp.einsum(f"{A},{key}->{q}", jax.nn.softmax(scores, A.index("u")), values)
        return jnp.einsum(f"{q},{outer}->{x}", attended, W_O)

    def logits(tokens, W):
        if chunk == p.M:
            return layer(tokens, *(w[0] for w in W)) @ W_U / p.M
        start = jnp.zeros_like(tokens)
        return jax.lax.scan(lambda f, w: (f + layer(tokens, *w), None), start, W)[0] @ W_U / p.M

    def loss(W, tokens, labels):
        f = logits(tokens, W)
        return -p.M * (labels * jax.nn.log_softmax(f)).sum(-1).mean(), f

    def gradient(W, tokens=X, labels=Y):
        return jax.grad(loss, has_aux=True)(W, tokens, labels)[::-1]

    def scan(move, W, samples=None):
        return jax.lax.scan(lambda W, sample: (move(W, sample), None), W, samples, p.steps)[0]

    def flow(W):
        return scan(lambda W, _: runge_kutta(lambda W: gradient(W)[1], W, p.rate), W)

    def descend(W, index, words):
        def move(W, sample):
            labels = jax.nn.one_hot(sample[1], p.V, dtype=X.dtype)
            return down(W, p.rate, gradient(W, X[sample[0]], labels)[1])

        return scan(move, W, (index, words))

    def in_turn(*runs):
        return jax.lax.map(lambda one: descend(*one), runs)

    layout = Layout(p, chunk, inner, outer, "rc")
    arguments = [[jnp.asarray(W) for W in layout.weights()]]
    if p.kind in ("descent", "sweep"):
        data = (a[:, :, 0].swapaxes(0, 1) if sweep else a[:, 0] for a in p.data)
        arguments += map(jnp.asarray, data)
    runs = {"gradient": gradient, "flow": flow, "descent": descend}
    compiled = jax.jit(runs.get(p.kind, jax.vmap(descend) if many == "vmap" else in_turn))
    return lambda: jax.block_until_ready(compiled(*arguments)), layout


FUSED = partial(torch_peer, fused=True)
#: The forms of each peer, whose fastest is measured.
HEADS = {
    "NumPy": {"multi-head": numpy_peer},
    "PyTorch": {"multi-head": torch_peer},
    "PyTorch, fused attention": {"multi-head": FUSED},
    "JAX": {f"einsum {q}": partial(jax_peer, q=q) for q in ("hstk", "shtk", "stkh")},
}
TRAINING = {"PyTorch": {"multi-head, fused": FUSED}, "JAX": HEADS["JAX"]}
SWEEP = {
    "PyTorch": {"multi-head": torch_peer},
    "JAX": {f"einsum tkh, {how}": partial(jax_peer, q="tkh", many=how) for how in ("vmap", "map")},
}
