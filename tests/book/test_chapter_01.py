"""The checks of Chapter 1 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

import numpy as np
from chapter_runner import Chapter, computing

from mfbook.models.attention import ensemble
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "01-introduction.ipynb"), also=("sentences", "train"))
# The same cells in smaller portions: fewer heads in the law, fewer draws and runs, shorter flows.
SMALLER = [
    ("train", "rtol=1e-8", "rtol=1e-6"),
    ("parameters", "law_heads = 256", "law_heads = 96"),
    ("static", "2000", "600"),
    ("training", "n=24", "n=12"),
    ("dissipation", "60, 2000)", "60, 300)"),
    ("dissipation", "rtol=1e-6", "rtol=1e-4"),
    ("dissipation", "geomspace(1, until, 81)", "geomspace(1, until, 121)"),  # of a shorter time
    ("stability", "[0.6, 0.8, 0.9, 1.1, 1.2, 1.35, 2.1]", "[0.8, 0.9, 1.1, 1.2, 2.1]"),
    ("stability", "60, 400], rtol=1e-4", "60, 300], rtol=1e-3"),
    ("stability", "starts=4, pool=32", "starts=1, pool=16"),
]


def trained_for_half_the_time(names):
    """SGD on a clock without the factor 2."""

    def sgd_ensemble(R, heads, times, epsilon, *arguments):
        return ensemble.sgd_ensemble(R, heads, times / 2, epsilon / 2, *arguments)

    return {"sgd_ensemble": sgd_ensemble}


def frobenius_norm(names):
    """All singular values of the correlation matrix in the threshold, not the largest."""
    past, missing = names["past"], names["missing"]
    G = np.einsum("std,ste->de", past, missing) / past[..., 0].size
    return {"lam_c": np.linalg.norm(G)}


# Name of the mistake; the cells to run again, the last of them a check; words of the row that has
# to fail; the mistakes: a cell with what is written there and what should be, or replaced names.
WRONG = [
    ("probabilities of the heads averaged instead of their logits",
     "static check-static", "limit κ",
     ("static", "f = (weights @ phi).reshape(600, 3, T, V)",
      "f = np.log(np.tensordot(weights, softmax(phi.reshape(96, 3, T, V)), 1))")),
    ("heads summed instead of averaged", "static check-static", "sharpened",
     ("static", "size=600) / M", "size=600)")),
    ("half as many heads drawn", "static check-static", "limit κ",
     ("static", "rng.multinomial(M, mu.weights, size=600) / M",
      "rng.multinomial(M // 2, mu.weights, size=600) / (M // 2)")),
    ("variance averaged over words instead of summed", "static check-static", "sharpened, σ²/4M",
     ("static", "bounds.feature_variance(R, mu)", "bounds.feature_variance(R, mu) / V")),
    ("dearest head instead of the cheapest", "static check-static", "4.3: dR/ds",
     ("static", "psi.argmin()", "psi.argmax()")),
    ("prices of heads at the law before training", "check-static", "4.3: dR/ds",
     lambda names: {"psi": names["R"].first_variation(names["many"].atoms, names["many"])}),
    ("step of training that does not shrink with M", "training check-training", "ε = 2/M",
     ("training", "M: runs(M, 2 / M)", "M: runs(M, 1.0)")),
    ("clock of training without its factor 2", "training check-training", "slope of log error",
     trained_for_half_the_time),
    ("runs with a shrinking step in place of those with a fixed one", "check-training", "ε = 1/32",
     lambda names: {"stalled": names["errors"]}),
    ("dissipation with the factor 2 of physical time",
     "dissipation check-dissipation", "6.1: largest",
     ("dissipation", "training.dissipation[::k])", "2 * training.dissipation[::k])")),
    ("mean over one position too few", "dissipation check-dissipation", "6.10 at λ_c: slope",
     ("dissipation", "/ (3 * T), 2)", "/ (3 * T - 1), 2)")),
    ("excess over a limit that is off by 1e-6",
     "dissipation check-dissipation", "6.10 at 1.5 λ_c: the same",
     ("dissipation", "run.value - R(zero)", "run.value - R(zero) + 1e-6")),
    ("ridge forgotten in the Hessian", "check-stability", "7.5: least eigenvalue",
     ("check-stability", "R + Ridge(1.2 * lam_c)", "R")),
    ("Frobenius norm instead of the largest singular value in λ_c",
     "check-stability", "7.5: least eigenvalue", frobenius_norm),
    ("growth per row of the table instead of per unit of time",
     "check-stability", "growth at 0.8 λ_c",
     lambda names: {"growth": {share: 20 * g for share, g in names["growth"].items()}}),
    ("heads started near zero instead of trained ones",
     "check-stability", "size of the trained heads",
     lambda names: {"from_trained": names["from_zero"]}),
    ("λ* for attention that stays uniform", "check-stability", "λ* found",
     lambda names: {"lam_star": names["lam_c"]}),
    ("ridge without its one half", "stability check-stability", "simulated threshold",
     ("stability", "F = R + Ridge(share * lam_c)", "F = R + Ridge(2 * share * lam_c)"),
     ("stability", "descend(trained, share * lam_c)", "trained")),
    # claims that go one step too far
    ("claim: the mean excess falls like 1/√M", "check-static", "limit κ",
     ("check-static", "2048 * excess[-1],", "np.sqrt(2048) * excess[-1],")),
    ("claim: a trained law is optimal", "check-static", "of that head, 0 at an optimum",
     ("check-static", "psi.min() - psi.mean(), -0.1)", "psi.mean() - psi.min(), 0.1)")),
    ("claim: the error of SGD falls like 1/M", "check-training", "slope of log error",
     ("check-training", "trend, -0.5, 0.1", "trend, -1, 0.1")),
    ("claim: more heads are enough, whatever the step", "check-training", "slope with ε = 1 kept",
     ("check-training", "kept_trend - trend, 0.15", "trend - kept_trend, 0")),
    ("claim: α = ½ at λ_c", "check-dissipation", "6.10 at λ_c: slope",
     ("check-dissipation", 'critical["fit"].slope, 1.5,', 'critical["fit"].slope, 1.0,')),
    ("claim: the rate of heads for that of E", "check-dissipation", "rate of E",
     ("check-dissipation", "(t[-1] - t[0]) / lam_c, 1,", "(t[-1] - t[0]) / lam_c, 0.5,")),
    ("claim: stable means optimal", "check-stability", "better than none",
     ("check-stability", "(advantage[1.1] > 1e-3).sum(), 9", "(advantage[1.1] <= 1e-3).sum(), 12")),
    ("claim: optimal from λ_c on", "check-stability", "λ* found",
     ("check-stability", "above(lam_star / lam_c, 1.9), 1.1", "-lam_star / lam_c, -1.1")),
]  # fmt: skip


class TestIntroduction(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
