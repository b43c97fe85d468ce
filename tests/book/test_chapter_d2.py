"""The checks of Appendix D2 fail for wrong programs and for wrong claims."""

import math
from itertools import combinations

import numpy as np
from chapter_runner import Chapter, computing

from mfbook.bounds.mean_error import third_derivative_bound
from mfbook.measure import Measure
from mfbook.models.attention import softmax
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "d2-mean-error.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("parameters", "most = 32", "most = 16"),
    ("hand", "np.array([0, 0.5, 1, 2.0])", "np.array([0, 0.5, 1])"),
]


# ---------------------------------------------------------------- replaced names


def all_counts_alike(names):
    """Every composition of M as likely as every other."""

    def mean_over_draws(values, weights, M):
        m = len(weights)
        counts = [
            tuple(int(c) for c in np.diff([-1, *bars, M + m - 1]) - 1)
            for bars in combinations(range(M + m - 1), m - 1)
        ]
        return np.mean([values(n) for n in counts], axis=0)

    return {"mean_over_draws": mean_over_draws}


def diagonal_dropped(names):
    """At time 0, without the sum of w_i ∂_ii: minus half of the variance of the mean logits."""
    R, mu = names["R"], Measure(names["three"], names["weights"])
    f = R.logits(mu)
    p = softmax(f)
    variance = (p * (f - (p * f).sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1).mean()
    return {"beta_three": np.array([-variance / 2, names["beta_three"][1]])}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    # the mean error
    ("all numbers of heads of a kind equally likely", "hand check-expansion", "coin: 32",
     all_counts_alike),
    ("a coin whose heads all move alike", "hand check-expansion", "coin: 32",
     ("hand", "(1 - w) * np.exp(-2 * z)", "(1 - w) * np.exp(2 * z)")),
    ("claim: the error falls like 1/√M", "check-expansion", "last slope",
     ("check-expansion", "slopes[-1, j], -1, 0.1", "slopes[-1, j], -0.5, 0.1")),
    ("claim: the error falls like M^(−3/2)", "check-expansion", "last slope",
     ("check-expansion", "slopes[-1, j], -1, 0.1", "slopes[-1, j], -1.5, 0.1")),
    ("claim: half of the constant is enough", "check-expansion", "bound from second differences",
     ("check-expansion", "(np.abs(scaled) / sharp).max(), 1)",
      "(np.abs(scaled) / (sharp / 2)).max(), 1)")),
    ("second differences at the law instead of their supremum", "check-expansion",
     "bound from second differences",
     lambda names: {"sharp": names["share"] * (1 - names["share"]) / 2
                    * np.abs(names["differences"][names["here"] - 1])}),
    ("diagonal of the second derivative dropped", "check-expansion", "κ of Chapter 4",
     diagonal_dropped),
    ("coefficient of the start for all times", "check-expansion", "error / β",
     lambda names: {"beta": np.full_like(names["beta"], names["beta"][0])}),
    ("coefficient without the half", "check-expansion", "second differences of the later risk",
     lambda names: {"beta_three": 2 * names["beta_three"]}),
    ("claim: more heads help on average at all times", "check-expansion", "largest over M",
     ("check-expansion", "scaled[3:, -1].max(), -0.004", "-scaled[3:, -1].min(), -0.004")),
    ("claim: fewer heads are better at the start", "check-expansion", "largest change",
     ("check-expansion", "rising.max(), -1e-5", "-rising.min(), -1e-5")),
    # the constant
    ("T with a quarter of its size", "third check-constant", "three radii",
     lambda names: {"third_derivative_bound": lambda *a: third_derivative_bound(*a) / 4}),
    ("T with one power of the score too many", "third check-constant", "from below",
     lambda names: {"third_derivative_bound": lambda X, U, r, k: third_derivative_bound(X, U, r, k)
                    / r}),
    ("half of B² lost", "check-constant", "½B²",
     ("check-constant", ".B ** 2 / 2)", ".B ** 2 / 4)")),
    ("claim: the coefficient at the law bounds every time", "check-constant", "a posteriori",
     lambda names: {"posterior": np.log10(np.full(len(names["clock"]), names["beta"][0]))}),
    ("claim: a posteriori with the curvature of the ball and more", "check-constant",
     "a posteriori / C a priori", lambda names: {"posterior": names["prior"] + 1}),
    ("a third of the projection", "check-constant", "coin without bias",
     ("check-constant", "np.sqrt(2), 1, by_hand", "np.sqrt(2) / 3, 1, by_hand")),
    # uniform in time
    ("ridge forgotten in the flow of the coin", "uniform check-uniform", "largest norm",
     ("uniform", "exact(one_token + Ridge(lam),", "exact(one_token,")),
    ("balls of a quarter of the size", "uniform check-uniform", "ridge: largest M × |error| / C",
     ("uniform", "threshold, np.sqrt(0.5), long)", "threshold, np.sqrt(0.5) / 4, long)")),
    ("claim: C falls at the rate c", "check-uniform", "rate at which",
     ("check-uniform", "tail, 2, 0.05", "tail, 1, 0.05")),
    ("curvature with the other sign near the point mass", "near-point check-uniform", "C(100)",
     ("near-point", "kappa=lambda t: -c_near", "kappa=lambda t: c_near")),
    ("heads near the point mass a hundred times nearer in the bound", "near-point check-uniform",
     "point mass: largest M × |error| / C(t)",
     ("near-point", "diameter=lambda t: 2 * rho_0", "diameter=lambda t: 0.02 * rho_0")),
    ("one draw fewer for the missing kind", "check-uniform", "bare coin, M = 4",
     ("check-uniform", "((1 - 1 / M) ** M * gap), 1, 1e-3)",
      "((1 - 1 / M) ** (M - 1) * gap), 1, 1e-3)")),
    ("claim: M × error stays bounded in the bare model", "check-uniform", "M = 16 / M = 4",
     ("check-uniform", "16 * missing[16] / (4 * missing[4]), 3.5",
      "missing[16] / missing[4], 3.5")),
    ("claim: at the jump the error falls like 1/M", "check-uniform", "the same: error at M =",
     ("check-uniform", "basin[most] / basin[2], 0.8", "basin[most] / basin[2] * 2 / most, 0.8")),
    ("a ridge under which all heads die", "basin check-uniform", "risk after the jump",
     ("basin", "weak, critical = 0.1", "weak, critical = 0.4")),
    ("heads of two kinds that cannot see their own token", "basin check-uniform",
     "flow of the heads / two numbers",
     ("basin", "[[[-1.0], [1.0]], [[1.0], [-1.0]]]", "[[[1.0], [1.0]], [[-1.0], [-1.0]]]")),
]  # fmt: skip


class TestMeanError(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG


def test_unlucky_draws_of_the_coin_are_slow_as_the_exercise_says():
    """At fixed M the error falls like 2^(1 - M) / (8 t²)."""
    names = {}
    exec(CELLS["imports"], names)
    exec(CELLS["hand"], names)
    t = np.array([0.0, 100.0, 200.0])
    later = [names["coin"](n / 4, t) for n in range(5)]
    error = names["mean_over_draws"](lambda n: later[n[0]], [0.5, 0.5], 4) - later[2]
    assert math.isclose(error[2] * 8 * t[2] ** 2 * 2**3, 1, rel_tol=0.1)
    assert math.isclose(error[1] / error[2], 4, rel_tol=0.1)
