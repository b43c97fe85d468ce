"""The checks of Chapter 4 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check at the end has to fail.
"""

import numpy as np
from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "04-static.ipynb"))
# The same cells in smaller portions: the checks hold for any number of draws and rounds.
SMALLER = [
    ("parameters", "repetitions = 1000", "repetitions = 80"),
    ("direction", "np.linspace(0, 1, 41)", "np.linspace(0, 1, 6)"),
    ("check-4-3", "size=50", "size=10"),
]


def unmasked(names):
    """Features of attention that sees the future."""

    def features(theta, X, W_U, shape):
        W_Q, W_K, W_V, W_O = shape.split(theta)
        scores = (X @ W_Q[:, None]) @ (X @ W_K[:, None]).swapaxes(-1, -2) / np.sqrt(shape.k)
        A = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        return A @ X @ (W_V @ W_O @ W_U)[:, None]

    return {"features": features}


# Each as Chapter.wrong says.
WRONG = [
    ("heads summed instead of averaged", "draws check-4-1", "mean excess + 4 s.e., M = 64",
     ("draws", "M, mu.weights, size=repetitions) / M", "M, mu.weights, size=repetitions)")),
    ("labels of another law", "task draws check-4-1", "R(optimum) against the entropy",
     ("task", "logits(optimum)", "logits(base.teacher)")),
    ("likeliest labels instead of soft ones", "task draws check-4-1", "least excess of all draws",
     ("task", "AttentionRisk(base.X, Y,", "AttentionRisk(base.X, np.eye(5)[Y.argmax(2)],")),
    ("constant B/100 instead of √2 B", "check-4-1", "mean excess + 4 s.e., M = 4",
     ("check-4-1", "upper[i], monte_carlo_rate(B, M)", "upper[i], monte_carlo_rate(B / 100, M)")),
    ("gradients given to the wrong heads", "few-heads check-4-1", "best heads found, M = 3",
     ("few-heads", "local.gradient(x) / M", "local.gradient(x[::-1]) / M")),
    ("distance averaged over words instead of summed", "draws slopes check-4-2", "M · mean square",
     ("draws", ".sum(axis=3).mean", ".mean(axis=3).mean")),
    ("mask dropped in the features", "draws slopes check-4-2", "M · mean square", unmasked),
    ("twice as many heads drawn", "draws slopes check-4-2", "M · mean square",
     ("draws", "rng.multinomial(M, mu.weights, size=repetitions)",
      "rng.multinomial(2 * M, mu.weights, size=repetitions) / 2")),
    ("variance summed over positions instead of averaged", "slopes check-4-2", "M · mean square",
     ("slopes", "feature_variance(R, mu)", "6 * feature_variance(R, mu)")),
    ("logarithms of two different bases", "slopes check-4-2", "slope of the deviation",
     ("slopes", "a @ np.log(value[late])", "a @ np.log2(value[late])")),
    ("bound of order 1/M for a single draw", "check-4-2", "mean |R(μ̂) − R(μ)|",
     ("check-4-2", 'np.sqrt(2 * sigma2["start"] / 4096)', 'sigma2["start"] / 4 / 4096')),
    ("Jacobian J of the softmax omitted", "rates check-rate", "mean of the limit law",
     ("rates", "leading_coefficient(R, optimum)", "feature_variance(R, optimum) / 2")),
    ("factor one half of κ lost", "rates check-rate", "M · mean excess at the start",
     ("rates", "leading_coefficient(R, start)", "2 * leading_coefficient(R, start)")),
    ("deviation of one draw instead of the mean", "rates check-rate",
     "slope of the mean at the start",
     ("rates", "mean_with_error(at_start[0] - at_start[1])", "deviation_with_error(at_start[0])")),
    ("claim: one draw fluctuates like 1/M", "check-4-2", "slope of the deviation",
     ("check-4-2", "fit, -0.5,", "fit, -1,")),
    ("claim: the mean falls like 1/√M", "check-rate", "slope of the mean at the optimum",
     ("check-rate", 'fits[name, "mean"][0], -1,', 'fits[name, "mean"][0], -0.5,')),
    ("claim: the fluctuation falls like 1/M at every law", "check-rate",
     "slope of the deviation at the optimum",
     ("check-rate", 'fits["optimum", "deviation"]', 'fits["start", "deviation"]')),
    ("signs of coins summed instead of averaged", "coin rates check-rate", "coins: mean excess",
     ("coin", "2 * ups / M - 1", "2 * ups - M")),
    ("claim: 0.9 of σ²/(4M) is enough", "check-rate", "coins: mean excess",
     ("check-rate", "(loss_of_coins * 2 * coins).max()",
      "(loss_of_coins * 2 * coins).max() / 0.9")),
    ("claim: a constant below σ²/4 is attained by coins", "check-rate",
     "coins: the same at M = 4096",
     ("check-rate", "loss_of_coins[-1] * 2 * 4096", "0.9 * loss_of_coins[-1] * 2 * 4096")),
    ("variance under p without centring", "kappa check-rate", "κ in NumPy",
     ("kappa", " - (p * centred).sum(axis=-1) ** 2", "")),
    ("copies not rescaled", "enough-law enough-run check-enough", "rescaled heads: largest excess",
     ("enough-law", "M * weights / copies * norm_V * norm_O", "norm_V * norm_O")),
    ("operator norm of W_U taken as 1", "enough-run check-enough", "two signs: excess",
     ("enough-run", "feature_bound(*data_radii(equal_words.X, equal_words.W_U), 1.0)",
      "feature_bound(1, 1, 1.0)")),
    ("claim: rounding is of order M^(-5/2)", "check-enough", "three atoms: slope",
     ("check-enough", "-2, 0.2)", "-2.5, 0.2)")),
    ("claim: rounding is of order M^(-3/2) only", "check-enough", "two signs: slope",
     ("check-enough", "-2, 0.05)", "-1.5, 0.05)")),
    ("claim: half of n² B² / (16 M²) is enough for rounding", "check-enough", "two signs: excess",
     ("check-enough", "excess_two * 16", "excess_two * 32")),
    ("claim: a tenth of n² B² / (16 M²) is attained", "check-enough",
     "two signs: the same, least", ("check-enough", "excess_two * 16", "excess_two * 1.6")),
    ("claim: rescaled heads fit from M = 1 on", "check-enough", "M from which they always fit",
     ("check-enough", "if M not in exact), sure)", "if M not in exact), 1)")),
    ("bound of order 1/M²", "check-rate", "mean excess + 4 s.e. at the optimum",
     ("check-rate", "variance_rate(sigma2[name], heads[i])",
      "variance_rate(sigma2[name], heads[i] ** 2)")),
    ("B/4 instead of B²", "check-rate", "σ² at the optimum",
     ("check-rate", "B**2", "B / 4")),
    ("limit law without centring", "rates check-rate", "M · deviation at the optimum",
     ("rates", "root = np.sqrt(p) * (centred - (p * centred)",
      "root = np.sqrt(p) * (phi - 0 * (p * centred)")),
    ("sign of W_O flipped", "direction check-4-3", "dR/ds towards the best head",
     ("direction", "best = Measure.dirac(gap.point)",
      "best = Measure.dirac(gap.point * np.repeat([1, 1, 1, -1], shape.blocks))")),
    ("average price of heads forgotten", "check-4-3", "dR/ds towards the best head",
     ("check-4-3", "-gap.found, 1e-5", "R.first_variation(best.atoms, start)[0], 1e-5")),
    ("first-order term doubled, with the other sign", "check-4-3", "least R(ν) − R(μ)",
     ("check-4-3", "w @ cost - psi.mean()", "2 * (psi.mean() - w @ cost)")),
    ("claim: Ψ vanishes at every minimiser", "check-4-3", "one token, q = 1: Ψ on both heads",
     ("check-4-3", "atoms) + 2 / (1 + np.exp(2))).max()", "atoms)).max()")),
    ("claim: the loss is 1/8-smooth", "check-4-3", "R(start) − R on the way",
     ("check-4-3", "gap.found**2 / jump", "4 * gap.found**2 / jump")),
    ("law short of the minimiser", "smallest direction check-4-3", "one token, q = 1",
     ("smallest", "[0.0, 0.7, -1.0, -1.0]", "[0.0, 0.7, -1.0, -0.8]")),
    ("claim: one head fewer than N is enough", "check-breaks", "heads with a share",
     ("check-breaks", "len(few), N)", "len(few), N - 1)")),
    ("weights not absorbed into W_O", "breaks-run check-breaks", "12 heads against a law of 200",
     ("breaks-run", "N * c[few][:, None, None] * W_O", "W_O")),
    ("bound for another number of heads", "check-breaks", "64 groups of 16 equal heads",
     ("check-breaks", "heads[j])", "heads[i])")),
]  # fmt: skip


class TestStatic(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
