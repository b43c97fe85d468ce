"""The checks of Chapter 5b fail for wrong programs.

As in ``test_chapter_05.py``: a plausible mistake is made in one cell of the page, and the check has
to end in its assertion, for the row that the mistake is about.
"""

import numpy as np
import pytest
from chapter_runner import Chapter, changed, computing, execute, tags

from mfbook.book.experiments import text as text_experiment
from mfbook.book.tasks import corpus_hash
from tools.chapters import BOOK, read

NOTEBOOK = read(BOOK / "05b-measured.ipynb")
CELLS = computing(NOTEBOOK)
CORPUS = {cell["id"] for cell in NOTEBOOK["cells"] if "corpus" in tags(cell)}
# The same cells in smaller portions: the checks hold for any number of heads and steps.
SMALLER = [
    ("w1", "np.arange(4, 11)", "np.arange(4, 9)"),
    ("conserved", "for e in drift_steps\n]", "for e in drift_steps[:1]\n]"),
    ("conserved", "euler_drift, strict=True", "euler_drift, strict=False"),
]


def second_singular_value(names):
    C = names["R"].at(names["zero"]).correlation(names["zero"].atoms)[0]
    return {"sigma": np.linalg.svd(C, compute_uv=False)[1]}


def sum_of_rates(names):
    C = names["R"].at(names["zero"]).correlation(names["zero"].atoms)[0]
    return {"sigma": np.linalg.svd(C, compute_uv=False).sum()}


def another_block(names):
    """Distances from the heads of another block, as they are at the start."""
    heads = text_experiment.initial()
    apart = [heads[:M] - heads[M : 2 * M] for M in text_experiment.HEADS]
    distance = [np.sqrt((a**2).sum(axis=1).mean()) for a in apart]
    return {"apart": np.reshape(distance, (-1, 1, 1)) * np.ones((2, 4))}


# Each as Chapter.wrong says.
WRONG = [
    ("coupled distance computed instead of the Wasserstein distance", "w1 check-w1", "against −1/D",
     ("w1", "wasserstein(a, b, 1)", "coupled_distance(a, b)")),
    ("errors added instead of their squares", "add check-add", "median",
     ("add", "np.sqrt(alone[:, None] ** 2 + steps_alone**2 + noise_alone**2)",
      "alone[:, None] + steps_alone + noise_alone")),
    ("noise as if each head drew its own samples", "add check-add", "largest",
     ("add", "shared_part + own_part / heads_of[:, None, None]",
      "16 * (shared_part + own_part / 16) / heads_of[:, None, None]")),
    ("noise of 16 heads for all numbers of heads", "add check-add", "least",
     ("add", "own_part / heads_of[:, None, None]", "own_part / np.full((9, 1, 1), 16)")),
    ("error of finitely many heads forgotten", "add check-add", "largest",
     ("add", "alone[:, None] ** 2 +", "0 * alone[:, None] ** 2 +")),
    ("error of the noise forgotten", "add check-add", "largest",
     ("add", "+ noise_alone**2", "+ 0 * noise_alone**2")),
    ("mean instead of root mean square", "add check-add", "median",
     ("add", "root_mean_square(largest, 2)", "largest.mean(axis=2)")),
    ("Euler's error forgotten where steps are long", "check-add", "the same, largest",
     ("check-add", "size_alone", "(size_2 / predicted_size(of_steps=0))")),
    ("heads forgotten in the four experiments", "check-add", "the same, largest",
     ("check-add", "size_alone", "(size_2 / predicted_size(of_heads=0))")),
    ("noise forgotten in the four experiments", "check-add", "the same, largest",
     ("check-add", "size_alone", "(size_2 / predicted_size(of_noise=0))")),
    ("one test function instead of all", "w1 check-w1", "slope of W",
     ("w1", "wasserstein(a, b, 1)", "discrepancy(functions[0], a, b)")),
    ("one coordinate instead of all", "w1 check-w1", "slope of W",
     ("w1", "wasserstein(a, b, 1)",
      "wasserstein(Measure(a.atoms[:, :1]), Measure(b.atoms[:, :1]), 1)")),
    ("slope of the coupled distance instead of W₁", "check-w1", "slope of W",
     ("check-w1", "w1_slope", "coupled_slope")),
    ("test function chosen after the fact", "check-w1", "four test functions",
     ("check-w1", "f_slope", "w1_slope")),
    ("heads coupled with their start instead of the limit", "w1 check-w1", "coupled",
     ("w1", "limit.atoms[-1, index]", "limit.atoms[0, index]")),
    ("second singular value instead of the first",
     "check-saddle", "near the saddle", second_singular_value),
    ("sum of the singular values instead of the first",
     "check-saddle", "near the saddle", sum_of_rates),
    ("rate of separation doubled", "check-saddle", "near the saddle",
     lambda names: {"sigma": 2 * names["sigma"]}),
    ("rate of the squared distance", "check-saddle", "anywhere",
     lambda names: {"speed": 2 * names["speed"]}),
    ("a instead of a² in the drift", "conserved check-conserved", "one step",
     ("conserved", "a**2 *", "a *")),
    ("products of the matrices transposed", "conserved check-conserved", "along the flow",
     ("conserved", "W_Q.mT @ W_Q - W_K.mT @ W_K", "W_Q @ W_Q.mT - W_K @ W_K.mT")),
    ("sum instead of difference in the conserved matrix",
     "conserved check-conserved", "along the flow",
     ("conserved", "- W_O @ W_O.mT", "+ W_O @ W_O.mT")),
    ("variance of the drift instead of its deviation", "conserved check-conserved", "fluctuation",
     ("conserved", "np.sqrt(drifts.var", "1 * (drifts.var")),
    ("bound taken at time 0", "compact check-compact", "‖W_V‖",
     ("compact", "shape.k, times[i]", "shape.k, times[0]")),
    ("flow that stands still", "compact check-compact", "at the start",
     ("compact", "limit.atoms[i]", "limit.atoms[0]")),
    ("nats instead of bits", "text-fit check-text", "bits above 8192 heads, 2048",
     ("text-fit", "- reference_bits", "- np.log(2) * reference_bits")),
    ("nats instead of bits in the bigram model", "check-text", "bigram",
     ("check-text", "bigram_bits(task_of_text)", "np.log(2) * bigram_bits(task_of_text)")),
    ("distances from the heads of another block",
     "text-fit check-text", "100 steps", another_block),
    ("distances summed over the heads of a small layer", "text-fit check-text", "100 steps",
     lambda names: {"apart": names["apart"] * names["widths"][:, None, None] ** 0.5}),
    ("laws at the start instead of the end", "text-fit check-text", "law of the score map",
     ("text-fit", 'texts["reference_quantiles"][1]', 'texts["reference_quantiles"][0]')),
    ("quantiles of another statistic", "text-fit check-text", "law of the score map",
     ("text-fit", 'texts[f"quantiles_{M}"]', 'texts[f"quantiles_{M}"][:, ::-1]')),
    # ------------------------------------------------------------ wrong claims
    ("claim: the noise term is not needed", "check-add", "largest",
     ("check-add", "quotient", "(grid_size / np.sqrt(alone[:, None] ** 2 + steps_alone**2))")),
    ("claim: Euler's error is of order √ε", "check-add", "the same, largest",
     ("check-add", "size_alone", "(size_2 / predicted_size(order=0.5))")),
    ("claim: Euler's error is of order ε^(3/2)", "check-add", "experiments: measured / predicted",
     ("check-add", "size_alone", "(size_2 / predicted_size(order=1.5))")),
    ("claim: W₁ falls like M^(-1/2)", "check-w1", "against −1/D",
     ("check-w1", "w1_slope, -1 / D", "w1_slope, -1 / 2")),
    ("claim: fluctuation of the drift of order ε", "check-conserved", "fluctuation",
     ("check-conserved", "wander_fit, 1.5", "wander_fit, 1")),
    ("claim: with ridge the bound holds for steps of any length", "check-compact", "ridge, ελ = 2",
     ("check-compact", "decayed[0], 1)", "decayed[1], 1)")),
    ("claim: the laws approach each other like 1/M", "check-text", "law of the score map",
     ("check-text", "factor, 8)", "factor, 128)")),
    ("claim: the root mean square of single heads falls like M^(-1/2)", "check-text", "median",
     ("check-text", 'head_slopes["median, 100 steps"],',
      'head_slopes["root mean square, 100 steps"],')),
]  # fmt: skip


def same_text():
    """Whether the English text that ships with Python is that of the stored layers."""
    return text_experiment.load()["about"]["corpus"] == corpus_hash()


class TestMeasured(Chapter):
    cells = CELLS
    smaller = SMALLER
    skip = () if same_text() else CORPUS
    wrong = WRONG
    least = 2

    @pytest.mark.wrong_program
    def test_layer_of_another_block_is_noticed(self, book):
        """The cell that trains a layer once more compares it with what is stored."""
        if "text-live" not in book.before:
            pytest.skip("another version of the English text")
        names, other = {}, [("text-live", "text.train(8, block", "text.train(8, block + 1")]
        source = changed(CELLS, other)["text-live"]
        book.put(book.before["text-live"], names)
        with pytest.raises(AssertionError):
            execute(source, "text-live", names)
