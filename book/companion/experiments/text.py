r"""Heads trained on English text: does a finite layer follow the limit?

All runs see the same sequences in the same order, so that only the number of heads differs. The
heads of a small layer are some of the heads that the largest layer starts from: head by head, one
can ask how far the small layer's head ends from where it would be among 8192.

    python -m companion.experiments.text               (half an hour of one core)
"""

from __future__ import annotations

from functools import cache

import numpy as np

from companion.experiments import _stored
from companion.experiments._stored import evaluate, grid
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
    start = initial()[block * M : (block + 1) * M]
    rng = np.random.default_rng([502, order])
    seen = sgd_ensemble(
        risks()[0], start[None], times, 1.0, [rng], lambda mu: mu.atoms.ravel(),
        batch=BATCH, xi=profile(),
    )  # fmt: skip
    return seen.reshape(len(times), M, SHAPE.size)


def bits(heads) -> np.ndarray:
    """Held-out bits per character of layers (n_t, M, D)."""
    return np.array([bits_per_character(risks()[1](Measure(h))) for h in heads])


def statistics(heads) -> np.ndarray:
    """What a head does, shape (3, M): size of the score map, of the value map, attention to itself.

    The last is the mean weight that the last position gives to its own token, over 64 windows.
    """
    W_Q, W_K, W_V, W_O = SHAPE.split(heads)
    size = [np.linalg.norm(a @ b, axis=(1, 2)) for a, b in ((W_Q, W_K.mT), (W_V, W_O))]
    X = risks()[1].X[:64]
    parts = np.array_split(heads, max(1, len(heads) // 256))
    own = [attention_weights(part, X, SHAPE)[:, :, -1, -1].mean(axis=1) for part in parts]
    return np.array([*size, np.concatenate(own)])


def quantiles(heads) -> np.ndarray:
    """Quantiles (3, 64) of the law of each statistic."""
    return np.quantile(statistics(heads), QUANTILES, axis=1, method="inverted_cdf").T


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


def compute(cache_folder, jobs: int) -> dict[str, np.ndarray]:
    """The reference first, then all smaller layers."""
    options = {"cache": cache_folder, "n_jobs": jobs}
    orders = np.array(evaluate(order_row, grid(order=range(ORDERS)), **options))
    (reference,) = evaluate(reference_run, [{}], **options)
    out = {
        "reference_bits": reference["bits"], "reference_quantiles": reference["quantiles"],
        "reference_moved": reference["moved"], "order_bits": orders,
    }  # fmt: skip
    for M in HEADS:
        cells = [{"M": M, "block": b, "heads": reference["heads"]} for b in range(BLOCKS[M])]
        rows = evaluate(row, cells, **options)
        for name in ("bits", "quantiles", "apart"):
            out[f"{name}_{M}"] = np.array([r[name] for r in rows])
    return out


def load() -> dict:
    """The stored results: arrays, and ``about`` with the command and the hash of the text."""
    return _stored.load(FILE)


def main() -> None:
    """Compute and store everything."""
    cost = (
        f"{sum(BLOCKS.values()) + ORDERS} layers of 8 to 2048 heads and one of {REFERENCE}, "
        f"{STEPS} steps each: half an hour of one core"
    )
    _stored.main(FILE, COMMAND, cost, compute, corpus=corpus_hash())


if __name__ == "__main__":
    # run as the module of this name, so that the cache knows the functions by one name
    from companion.experiments.text import main as run

    run()
