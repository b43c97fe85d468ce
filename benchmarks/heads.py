"""Logits and gradients of all heads: this package, PyTorch and JAX, in float64 with one thread.

A peer is a function ``peer(problem, chunk)`` that takes ``chunk`` heads at a time and returns a
function without arguments, which gives the logits and the gradient in the four matrices. It is
written as a user of the tool would write it. Its compilation and the conversion of the heads are
not counted. Gradients are those of the first variation, M times those in the parameters, so the
loss is multiplied by M.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

import mfbook as mf

from .timing import growth, interleaved, seconds

#: Largest difference of a peer from this package, relative to the largest entry.
TOLERANCE = 1e-10
ROUNDS = 9
CHUNKS = (4, 32, 128)


@dataclass(frozen=True)
class Problem:
    """A random task with random heads; k is also the value dimension."""

    d: int
    k: int
    T: int
    V: int
    S: int
    M: int

    def __str__(self) -> str:
        return (
            f"d = {self.d}, k = v = {self.k}, T = {self.T}, V = {self.V}, "
            f"S = {self.S}, M = {self.M:,}"
        )

    @cached_property
    def risk(self) -> mf.AttentionRisk:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.S, self.T, self.d))
        Y = np.eye(self.V)[rng.integers(self.V, size=(self.S, self.T))]
        W_U = rng.normal(size=(self.d, self.V)) / np.sqrt(self.d)
        return mf.AttentionRisk(X, Y, W_U, mf.HeadShape(self.d, self.k, self.k))

    @cached_property
    def mu(self) -> mf.Measure:
        rng = np.random.default_rng(1)
        return mf.Measure(rng.normal(scale=0.5, size=(self.M, self.risk.shape.size)))

    def chunks(self, chunk: int) -> list[np.ndarray]:
        """The four matrices, W_O as the others: (chunks, d, heads, k)."""
        Q, K, W_V, W_O = self.risk.shape.split(self.mu.atoms)
        parts = (Q, K, W_V, W_O.swapaxes(1, 2))
        shape = (self.M // chunk, chunk, self.d, self.k)
        return [np.ascontiguousarray(W.reshape(shape).swapaxes(1, 2)) for W in parts]

    def ours(self) -> tuple:
        local = self.risk.at(self.mu)
        return local.logits, local.gradient(self.mu.atoms)

    def error(self, found) -> float:
        """How far a peer is from this package."""
        flat = (np.asarray(g).swapaxes(1, 2).reshape(self.M, self.d, self.k) for g in found[1])
        dQ, dK, dV, dO = flat
        theirs = np.asarray(found[0]), self.risk.shape.join(dQ, dK, dV, dO.swapaxes(1, 2))
        pairs = zip(theirs, self.ours(), strict=True)
        return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def torch_peer(p: Problem, chunk: int, fused: bool = False):
    """PyTorch, eager: multi-head attention and autograd."""
    import torch
    from torch.nn.functional import log_softmax, scaled_dot_product_attention

    torch.set_num_threads(1)
    weights = [torch.tensor(W) for W in p.chunks(chunk)]
    X, Y, W_U = (torch.tensor(a) for a in (p.risk.X, p.risk.Y, p.risk.W_U))
    hidden = torch.ones(p.T, p.T, dtype=bool).triu(1)

    def attention(q, k, v):
        if fused:
            return scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.mT / p.k**0.5).masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, -1) @ v

    def layer(W_Q, W_K, W_V, W_O):
        projected = X @ torch.cat([W.flatten(1) for W in (W_Q, W_K, W_V)], 1)
        q, k, v = projected.unflatten(-1, (3, -1, p.k)).movedim(-3, 0).transpose(-2, -3)
        return attention(q, k, v).transpose(-2, -3).flatten(-2) @ W_O.flatten(1).T

    def run():
        W = [w.detach().requires_grad_() for w in weights]
        f = sum(layer(*block) for block in zip(*W, strict=True)) @ W_U / p.M
        loss = -p.M * (Y * log_softmax(f, -1)).sum(-1).mean()
        return f.detach(), torch.autograd.grad(loss, W)

    return run


def jax_peer(p: Problem, chunk: int, q: str = "hstk"):
    """JAX: ``jit`` of the gradient in a scan over chunks; ``q`` is the order of axes of queries."""
    import jax
    import jax.numpy as jnp

    weights = [jnp.asarray(W) for W in p.chunks(chunk)]
    X, Y, W_U = map(jnp.asarray, (p.risk.X, p.risk.Y, p.risk.W_U))
    key, A = q.replace("t", "u"), q.replace("k", "u")
    visible = np.tri(p.T, dtype=bool).reshape([p.T if axis in "tu" else 1 for axis in A])

    def layer(W_Q, W_K, W_V, W_O):
        queries, keys, values = (
            jnp.einsum(f"std,dhk->{q}", X, W) for W in (W_Q / p.k**0.5, W_K, W_V)
        )
        scores = jnp.where(visible, jnp.einsum(f"{q},{key}->{A}", queries, keys), -jnp.inf)
        attended = jnp.einsum(f"{A},{key}->{q}", jax.nn.softmax(scores, A.index("u")), values)
        return jnp.einsum(f"{q},dhk->std", attended, W_O)

    def loss(W):
        total, _ = jax.lax.scan(lambda f, w: (f + layer(*w), None), jnp.zeros_like(X), W)
        f = total @ W_U / p.M
        return -p.M * (Y * jax.nn.log_softmax(f)).sum(-1).mean(), f

    compiled = jax.jit(jax.grad(loss, has_aux=True))
    return lambda: jax.block_until_ready(compiled(weights)[::-1])


#: The forms of each peer, whose fastest is measured.
PEERS = {
    "PyTorch": {"softmax": torch_peer, "fused attention": partial(torch_peer, fused=True)},
    "JAX": {q: partial(jax_peer, q=q) for q in ("hstk", "stkh")},
}


def best(p: Problem, forms: dict, chunks=CHUNKS) -> tuple:
    """The fastest form and chunk size in short trials, and its description."""
    trials = []
    for form, peer in forms.items():
        for chunk in [chunk for chunk in chunks if chunk <= p.M] or [p.M]:
            run = peer(p, chunk)
            error = p.error(run())  # this also warms it up and compiles it
            if not error < TOLERANCE:
                raise AssertionError(f"{form}: differs by {error:.1e}")
            trials.append((min(seconds(run) for _ in range(3)), f"{form}, {chunk} heads", run))
    return min(trials, key=lambda trial: trial[0])[1:]


def compare(p: Problem, rounds: int = ROUNDS, peers=PEERS) -> dict:
    """Times of this package and its peers; those that are missing are named."""
    runs, forms, missing = {"mfbook": p.ours}, {}, []
    for name, own in peers.items():
        try:
            forms[name], runs[name] = best(p, own)
        except ImportError:
            missing.append(name)
    p.ours()
    times = interleaved(runs, rounds)
    return {"title": str(p), "forms": forms, "missing": missing, "times": times}


SMALL, WIDE = Problem(8, 4, 8, 16, 64, 1024), Problem(16, 8, 16, 32, 32, 1024)


def large(sizes=(4096, 65_536)) -> dict:
    """Time and memory of this package against the number of heads."""

    def make(M):
        p = Problem(8, 4, 8, 16, 64, M)
        _ = p.risk, p.mu  # made before memory is counted
        return p.ours

    return growth(make, sizes, title="heads, d = 8, S = 64")
