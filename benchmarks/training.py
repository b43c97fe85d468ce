"""Training: descent, flow and a sweep of this package beside PyTorch and JAX.

Everybody starts from the same heads, sees the same sequences in the same order, makes the same
steps in float64 with one thread, and has to end at the same heads. The peers are given the indices
and labels that this package draws for itself, and their compilation and the conversion of the heads
are not counted; this package's checks, and what it records at the start and at the end, are.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from mfbook.flow import gradient_flow, sgd
from mfbook.measure import Measure
from mfbook.models.attention.ensemble import sgd_ensemble

from .heads import REST, Problem
from .timing import interleaved, seconds

TOLERANCE = 1e-8
TRIAL = {"descent": 4, "flow": 1, "sweep": 4}  # steps with which a peer's forms are compared


@dataclass(frozen=True)
class Task:
    """One thing to train.

    ``kind`` is "descent" (one run), "flow" (Runge-Kutta steps of the gradient flow on all
    sequences) or "sweep" (many runs of descent with one sequence in each step).
    """

    kind: str
    problem: Problem
    steps: int
    rate: float
    batch: int = 1
    runs: int = 1

    def __str__(self) -> str:
        what = {
            "descent": f"descent, {self.batch} sequences a step",
            "flow": "flow by Runge-Kutta steps",
            "sweep": f"{self.runs} runs of descent, 1 sequence a step",
        }[self.kind]
        return f"{what}, {self.steps} steps; {self.problem}"

    @property
    def work(self) -> int:
        """Heads times sequences times steps; a Runge-Kutta step counts once, not four times."""
        sequences = self.problem.S if self.kind == "flow" else self.batch
        return self.runs * self.problem.M * sequences * self.steps

    @property
    def times(self) -> list[float]:
        """Start and end."""
        return [0.0, self.rate * self.steps]

    @cached_property
    def start(self) -> np.ndarray:
        """Heads of all runs, (R, M, D)."""
        shape = (self.runs, self.problem.M, self.problem.risk.shape.size)
        return np.random.default_rng(2).normal(scale=0.5, size=shape)

    @cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices (steps, R, b) and label words (steps, R, b, T) of every run's samples."""
        F, rngs = self.problem.risk, [np.random.default_rng(r) for r in range(self.runs)]
        draws = [[F.draw(rng, self.batch) for rng in rngs] for _ in range(self.steps)]
        index, uniform = (np.array([[a[i] for a in row] for row in draws]) for i in (0, 1))
        return index, F.labels(index, uniform).argmax(axis=-1)

    def ours(self) -> np.ndarray:
        """Heads at the end, by this package."""
        F, heads = self.problem.risk, self.start
        if self.kind == "flow":
            run = gradient_flow(F, Measure(heads[0]), self.times, method="rk4", step=self.rate)
            return run.atoms[-1:]
        if self.kind == "descent":
            run = sgd(F, Measure(heads[0]), self.times, self.rate, 0, batch=self.batch)
            return run.atoms[-1:]
        seen = sgd_ensemble(F, heads, self.times, self.rate, range(self.runs), lambda mu: [0.0])
        return seen  # the heads themselves would cost time: see `ends`

    @cached_property
    def ends(self) -> np.ndarray:
        """Heads at the end, (R, M, D), by :meth:`ours`."""
        if self.kind != "sweep":
            return self.ours()
        F, rngs = self.problem.risk, range(self.runs)
        seen = sgd_ensemble(F, self.start, self.times, self.rate, rngs, lambda mu: mu.atoms.ravel())
        return seen[-1].reshape(self.start.shape)


def runge_kutta(velocity, x, h, plus):
    """One classical step for a state that ``plus(x, factor, y)`` adds to."""
    a = velocity(x)
    b = velocity(plus(x, h / 2, a))
    c = velocity(plus(x, h / 2, b))
    d = velocity(plus(x, h, c))
    for factor, y in ((h / 6, a), (h / 3, b), (h / 3, c), (h / 6, d)):
        x = plus(x, factor, y)
    return x


def torch_peer(task, fused):
    """PyTorch, eager: the multi-head layer of the textbooks, autograd, ``torch.optim.SGD``."""
    import torch
    from torch.nn.functional import cross_entropy, log_softmax, scaled_dot_product_attention

    torch.set_num_threads(1)
    p, F = task.problem, task.problem.risk
    X, Y, W_U = (torch.tensor(a) for a in (F.X, F.Y, F.W_U))
    hidden = torch.ones(p.T, p.T, dtype=bool).triu(1)
    sweep = task.kind == "sweep"

    def attention(q, k, v):
        if fused:
            return scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.mT / p.k**0.5).masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, -1) @ v

    def layer(x, W_Q, W_K, W_V, W_O):
        wide = x @ torch.cat([W_Q, W_K, W_V], -1)
        q, k, v = wide.unflatten(-1, (3, -1, p.k)).movedim(-3, 0).transpose(-2, -3)
        return attention(q, k, v).transpose(-2, -3).flatten(-2) @ W_O

    def parameters(chunk):
        """W_Q, W_K, W_V (..., d, chunk k) and W_O (..., chunk k, d), chunk after chunk."""
        lists = []
        for i in range(0, p.M, chunk):
            *inner, W_O = F.shape.split(task.start[:, i : i + chunk])
            lists += [W.transpose(0, 2, 1, 3).reshape(task.runs, p.d, -1) for W in inner]
            lists.append(W_O.reshape(task.runs, -1, p.d))
        return [torch.tensor(W if sweep else W[0], requires_grad=True) for W in lists]

    def heads(parameters):
        blocks = []
        W = [w.detach().numpy().reshape(task.runs, *w.shape[-2:]) for w in parameters]
        for *inner, W_O in zip(*(W[i::4] for i in range(4)), strict=True):
            split = [w.reshape(task.runs, p.d, -1, p.k).transpose(0, 2, 1, 3) for w in inner]
            blocks.append(F.shape.join(*split, W_O.reshape(task.runs, -1, p.k, p.d)))
        return np.concatenate(blocks, axis=1)

    def logits(x, W):
        return sum(layer(x, *W[i : i + 4]) for i in range(0, len(W), 4)) @ W_U / p.M

    def descend(W):
        index, words = (torch.tensor(a if sweep else a[:, 0]) for a in task.data)
        # the gradient of the first variation is M times the gradient in the parameters
        descent = torch.optim.SGD(W, lr=task.rate * p.M)
        for i, word in zip(index, words, strict=True):
            f = logits(X[i[:, 0] if sweep else i], W)
            loss = cross_entropy(f.flatten(0, -2), word.flatten()) * task.runs
            descent.zero_grad()
            loss.backward()
            descent.step()
        return W

    def velocity(W):
        W = [w.detach().requires_grad_() for w in W]
        loss = -(Y * log_softmax(logits(X, W), -1)).sum(-1).mean()
        return torch.autograd.grad(loss, W)

    def plus(W, factor, direction):
        return [w - factor * p.M * g for w, g in zip(W, direction, strict=True)]

    def flow(W):
        W = [w.detach() for w in W]
        for _ in range(task.steps):
            W = runge_kutta(velocity, W, task.rate, plus)
        return W

    def step(chunk):
        W = parameters(chunk)

        def run():
            if task.kind == "flow":
                return flow(W)
            return descend([w.detach().clone().requires_grad_() for w in W])

        return run, heads

    return {"multi-head" + ", fused" * fused: step}


def jax_peer(task, inner):
    """JAX: ``jit`` of a scan over the steps, with the gradient of the loss."""
    import jax
    import jax.numpy as jnp

    p, F = task.problem, task.problem.risk
    X, Y, W_U = (jnp.asarray(a) for a in (F.X, F.Y, F.W_U))
    sweep = task.kind == "sweep"

    def form(q, runs):
        """Queries laid out as ``q``, a permutation of t, k, h and, where there are several, s."""
        x, key, A = "std" if "s" in q else "td", q.replace("t", "u"), q.replace("k", "u")
        last = q.endswith("h")
        W_in, W_out = ("dkh", "kdh") if last else ("hdk", "hkd")
        visible = np.tri(p.T, dtype=bool).reshape([p.T if axis in "tu" else 1 for axis in A])
        axes = (2, 3, 1) if last else (1, 2, 3)  # of (R, M, ., .), after the axis of the runs

        def layer(tokens, W_Q, W_K, W_V, W_O):
            queries, keys, values = (
                jnp.einsum(f"{x},{W_in}->{q}", tokens, W) for W in (W_Q / p.k**0.5, W_K, W_V)
            )
            scores = jnp.where(visible, jnp.einsum(f"{q},{key}->{A}", queries, keys), -jnp.inf)
            weights = jax.nn.softmax(scores, axis=A.index("u"))
            attended = jnp.einsum(f"{A},{key}->{q}", weights, values)
            return jnp.einsum(f"{q},{W_out}->{x}", attended, W_O)

        def logits(tokens, W):
            if len(W[0]) == 1:  # one chunk
                return layer(tokens, *(w[0] for w in W)) @ W_U / p.M
            start = jnp.zeros_like(tokens)
            f, _ = jax.lax.scan(lambda f, w: (f + layer(tokens, *w), None), start, W)
            return f @ W_U / p.M

        def risk(W, tokens, labels):
            return -(labels * jax.nn.log_softmax(logits(tokens, W))).sum(-1).mean()

        def plus(W, factor, direction):
            return jax.tree.map(lambda w, g: w - factor * p.M * g, W, direction)

        def descend(W, index, words):
            def move(W, sample):
                i, word = sample
                direction = jax.grad(risk)(W, X[i], jax.nn.one_hot(word, p.V, dtype=X.dtype))
                return plus(W, task.rate, direction), None

            return jax.lax.scan(move, W, (index, words))[0]

        def flow(W):
            def move(W, _):
                return runge_kutta(lambda W: jax.grad(risk)(W, X, Y), W, task.rate, plus), None

            return jax.lax.scan(move, W, length=task.steps)[0]

        def step(chunk):
            split = (np.moveaxis(W, (1, 2, 3), np.argsort(axes) + 1) for W in parts())
            split = (w[:, None] if chunk == p.M else chunks(w, chunk) for w in split)
            W = [jnp.asarray(w if sweep else w[0]) for w in split]
            index, words = (jnp.asarray(a) for a in task.data)
            if task.kind == "flow":
                compiled, arguments = jax.jit(flow), (W,)
            elif not sweep:
                compiled, arguments = jax.jit(descend), (W, index[:, 0], words[:, 0])
            else:
                arguments = (W, index[:, :, 0].swapaxes(0, 1), words[:, :, 0].swapaxes(0, 1))
                if runs == "vmap":
                    compiled = jax.jit(jax.vmap(descend))
                else:
                    compiled = jax.jit(lambda *a: jax.lax.map(lambda one: descend(*one), a))
            return lambda: jax.block_until_ready(compiled(*arguments)), heads

        def parts():
            return F.shape.split(task.start)

        def chunks(w, chunk):
            """A chunk axis after the axis of the runs."""
            at = 3 if last else 1
            w = w.reshape(*w.shape[:at], -1, chunk, *w.shape[at + 1 :])
            return np.ascontiguousarray(np.moveaxis(w, at, 1))

        def heads(W):
            blocks = []
            for w in W:
                w = np.asarray(w if sweep else w[None])
                at = 4 if last else 2  # the heads of a chunk
                w = np.moveaxis(np.moveaxis(w, at, 2), 1, 1)
                blocks.append(w.reshape(task.runs, p.M, *w.shape[3:]))
            return F.shape.join(*blocks)

        return step

    return {f"einsum {q}{', ' + runs if runs else ''}": form(q, runs) for q, runs in inner}


SINGLE = [(q, "") for q in ("hstk", "shtk", "stkh")]
MANY = [(q, runs) for q in ("htk", "tkh") for runs in ("vmap", "map")]
SIZE = Problem(8, 4, 8, 16, 64, 1024)
GOALS = {"PyTorch": 8, "JAX": 3}
COMPARISONS = {
    "descent": ([Task("descent", SIZE, 64, 2**-6, batch=16)], GOALS, (128, 1024), SINGLE),
    "flow": ([Task("flow", SIZE, 4, 2**-4)], GOALS, (128, 1024), SINGLE),
    "sweep": (
        [
            Task("sweep", Problem(4, 2, 5, 5, 16, M), 64, 2**-4, runs=50)
            for M in (16, 64, 256, 1024)
        ],
        {"PyTorch": None, "JAX": 2},
        (),
        MANY,
    ),
}  # fmt: skip


def disagreement(task, run, heads) -> float:
    """Largest difference of the heads at the end, relative to the longest way of an entry."""
    return float(abs(heads(run()) - task.ends).max() / abs(task.ends - task.start).max())


def best(task, peer, chunks):
    """The fastest form and chunk size in a few steps; its run, description and disagreement."""
    trials, short = [], replace(task, steps=TRIAL[task.kind])
    for form, step in peer(short).items():
        for chunk in chunks or (task.problem.M,):
            run, heads = step(chunk)
            error = disagreement(short, run, heads)  # also warms up and compiles
            if not error <= TOLERANCE:
                raise AssertionError(f"{form}, chunk {chunk}: differs by {error:.1e}")
            trials.append((min(seconds(run) for _ in range(2)), form, chunk))
    _, form, chunk = min(trials)
    run, heads = peer(task)[form](chunk)
    error = disagreement(task, run, heads)
    if not error <= TOLERANCE:
        raise AssertionError(f"{task}: {form}, chunk {chunk} differs by {error:.1e}")
    return run, form + (f", {chunk} heads" if chunks else ""), error


def forms(peer, *choices):
    """One peer with the forms of several."""
    return lambda task: {k: v for choice in choices for k, v in peer(task, choice).items()}


def compare(kind, rounds) -> dict:
    """One comparison for each size, and one for all sizes together if there are several."""
    tasks, goals, chunks, inner = COMPARISONS[kind]
    peers = {"PyTorch": forms(torch_peer, False, True), "JAX": partial(jax_peer, inner=inner)}
    runs, skipped = {"mfbook": [(task.ours, "", 0.0) for task in tasks]}, []
    for name, peer in peers.items():
        try:
            runs[name] = [best(task, peer, chunks) for task in tasks]
        except ImportError as error:
            skipped.append(f"{name}: {error}")
    for task in tasks:
        task.ours()
    flat = {
        (name, i): own[0] for name, all_sizes in runs.items() for i, own in enumerate(all_sizes)
    }
    measured = interleaved(flat, rounds, rest=REST)
    times = {name: np.array([measured[name, i] for i in range(len(tasks))]) for name in runs}
    sizes = [(str(task), task.work, slice(i, i + 1)) for i, task in enumerate(tasks)]
    if len(tasks) > 1:
        sizes.append(("all sizes together", sum(t.work for t in tasks), slice(None)))
    found = []
    for title, work, which in sizes:
        goal = goals if which.stop in (None, len(sizes)) else {}
        found.append(
            {
                "title": title,
                "unit": "ns per head, sequence and step",
                "per": 1e9 / work,
                "programs": [
                    {
                        "name": name,
                        "form": own[which][0][1] if len(own[which]) == 1 else "",
                        "seconds": times[name][which].sum(axis=0).tolist(),
                        "error": max(error for *_, error in own[which]),
                        "goal": goal.get(name),
                    }
                    for name, own in runs.items()
                ],
                "skipped": skipped,
            }
        )
    return {"kind": "comparisons", "comparisons": found}


STEPS = {kind: partial(compare, kind, 3) for kind in COMPARISONS}
