r"""Heads trained on English text: does a finite layer follow the limit?

All runs see the same sequences in the same order, so that only the number of heads differs. The
heads of a small layer are some of the heads that the largest layer starts from: head by head, one
can ask how far the small layer's head ends from where it would be among 8192.

    python -m companion.experiments.text               (half an hour of one core)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from companion.experiments import _stored
from companion.experiments._stored import grid
from companion.tasks import Task, bits_per_character, corpus_hash, text_task
from mfbook.attention import AttentionRisk, HeadShape, attention_weights
from mfbook.flow import LearningRate, warmup_cosine
from mfbook.flow.ensemble import sgd_ensemble
from mfbook.measure import Measure

SHAPE = HeadShape(d=32, k=4, v=4)
HEADS = (8, 32, 128, 512, 2048)
REFERENCE = 8192
#: Blocks of the reference's heads that serve as starts of smaller layers.
BLOCKS = {8: 16, 32: 16, 128: 8, 512: 4, 2048: 2}
BATCH, STEPS = 16, 800
TIMES = np.array([0.0, 50.0, 100.0, 200.0, 400.0, 600.0, 800.0])
#: Another order of the data, for layers of this size.
ORDERS, ORDER_HEADS = 8, 128
QUANTILES = (np.arange(64) + 0.5) / 64
#: Times (as indices) at which heads are compared one by one, and quantiles of their distances.
COMPARED, SHARES = (2, 6), (0.1, 0.5, 0.9)

FILE = _stored.FOLDER / "text.npz"
COMMAND = "python -m companion.experiments.text"


@cache
def task() -> Task:
    """Next character after 8, from 16,384 windows; 512 windows of other text held out."""
    return text_task(sequences=16384, tokens=8, held_out=512, rng=500)


@cache
def risks() -> tuple[AttentionRisk, AttentionRisk]:
    """Risk on the windows for training, and on those held out."""
    return task().risk(SHAPE), task().held_out_risk(SHAPE)


def profile() -> LearningRate:
    """Half a cosine from 1/2 to a tenth of it."""
    return warmup_cosine(0.5, warmup=0.0, end=float(STEPS), floor=0.05)


@cache
def initial() -> np.ndarray:
    """Heads that the reference starts from: independent Gaussian entries."""
    return np.random.default_rng(501).normal(scale=0.7, size=(REFERENCE, SHAPE.size))


def train(M: int, block: int, order: int = 0, times=TIMES) -> np.ndarray:
    """Heads (n_t, M, D) of a layer that starts from one block of the reference's heads."""
    start = initial()[None, block * M : (block + 1) * M]
    rngs = [np.random.default_rng([502, order])]
    options = {"batch": BATCH, "xi": profile()}
    seen = sgd_ensemble(risks()[0], start, times, 1.0, rngs, lambda mu: mu.atoms.ravel(), **options)
    return seen.reshape(len(times), M, SHAPE.size)


def bits(heads) -> np.ndarray:
    """Held-out bits per character of layers (n_t, M, D)."""
    return np.array([bits_per_character(risks()[1](Measure(h))) for h in heads])


def quantiles(heads) -> np.ndarray:
    """Quantiles (3, 64) of the sizes of score and value maps, and of attention to oneself.

    The last is the mean weight that the last position gives to its own token, over 64 windows.
    """
    W_Q, W_K, W_V, W_O = SHAPE.split(heads)
    size = [np.linalg.norm(a @ b, axis=(1, 2)) for a, b in ((W_Q, W_K.mT), (W_V, W_O))]
    X, parts = risks()[1].X[:64], np.array_split(heads, max(1, len(heads) // 256))
    own = [attention_weights(part, X, SHAPE)[:, :, -1, -1].mean(axis=1) for part in parts]
    every = np.array([*size, np.concatenate(own)])
    return np.quantile(every, QUANTILES, axis=1, method="inverted_cdf").T


def reference_run() -> dict:
    """The layer with 8192 heads."""
    heads = train(REFERENCE, 0)
    return {
        "bits": bits(heads),
        "quantiles": np.array([quantiles(heads[i]) for i in (0, -1)]),
        "heads": heads[list(COMPARED)].astype(np.float32),
        "moved": _distances(heads, heads[:1]),
    }


def row(M: int, block: int, heads=None) -> dict:
    """One smaller layer; ``heads`` are those of the reference when compared, if at hand."""
    run = train(M, block)
    own = slice(block * M, (block + 1) * M)
    apart = np.nan if heads is None else _distances(run[list(COMPARED)], heads[:, own])
    return {"bits": bits(run), "quantiles": quantiles(run[-1]), "apart": apart}


def order_row(order: int) -> np.ndarray:
    """Bits of one layer that sees the data in another order."""
    return bits(train(ORDER_HEADS, 0, order))


def _distances(one, other) -> np.ndarray:
    """Distances of each head from its counterpart: root mean square and quantiles, (n_t, 4)."""
    d = np.linalg.norm(one - other, axis=-1)
    return np.column_stack([np.sqrt((d**2).mean(axis=1)), *np.quantile(d, SHARES, axis=1)])


def compute(every: Callable) -> dict[str, np.ndarray]:
    """The reference first, then all smaller layers."""
    out = {"order_bits": np.array(every(order_row, grid(order=range(ORDERS))))}
    (reference,) = every(reference_run, [{}])
    heads = reference.pop("heads")
    out |= {f"reference_{name}": values for name, values in reference.items()}
    for M in HEADS:
        rows = every(row, grid(M=[M], block=range(BLOCKS[M]), heads=[heads]))
        out |= {f"{name}_{M}": np.array([r[name] for r in rows]) for name in rows[0]}
    return out


def load() -> dict:
    """The stored results: arrays, and ``about`` with the command and the hash of the text."""
    return _stored.load(FILE)


if __name__ == "__main__":
    cost = "46 layers of 8 to 2048 heads and one of 8192, 800 steps each: half an hour of one core"
    _stored.main("text", cost, corpus=corpus_hash())
