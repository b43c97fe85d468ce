"""The checks of Chapter 4 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check at the end has to fail.
"""

import importlib

import numpy as np
from chapter_runner import Chapter, computing, mistaken

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "04-static.ipynb"))
# The same cells in smaller portions: the checks hold for any number of draws and rounds.
SMALLER = [
    ("draws", "np.arange(2, 13), 1000", "np.arange(2, 13), 80"),
    ("direction", "np.linspace(0, 1, 41)", "np.linspace(0, 1, 6)"),
    ("check-4-3", "size=50", "size=10"),
    ("boosting", "R, zero, seed, 6", "R, zero, seed, 1"),
    ("boosting", "silent, seed, 6", "silent, seed, 4"),
    ("boosting", "(451, 452, 453)", "(451, 452)"),
    ("boosting", "(453, 459, 460)", "(453, 459)"),
    ("check-shrunk", "silent, 457, 4", "silent, 457, 1"),
    ("brackets", "[1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]", "[1, 0.1]"),
    ("brackets", "for n in (1, 4, 16)]\ngaps", "for n in (4,)]\ngaps"),
    ("brackets", "for n in (1, 4, 16)]\nagain", "for n in (4,)]\nagain"),
    ("interior-run", "range(300)", "range(150)"),
    ("breaks-run", "[0.5, 1.0, 1.5, 2.0, 3.0]", "[1.0, 2.0]"),
]


def unmasked(names):
    """Features of attention that sees the future."""

    def features(theta, X, W_U, shape):
        W_Q, W_K, W_V, W_O = shape.split(theta)
        scores = (X @ W_Q[:, None]) @ (X @ W_K[:, None]).swapaxes(-1, -2) / np.sqrt(shape.k)
        A = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        return A @ X @ (W_V @ W_O @ W_U)[:, None]

    return {"features": features}


SIGMA, BY_HAND = "bounds-on-sigma tight-laws check-ingredients", "least of the four by hand"
LEAST = "return float(min(product(largest), centre + product(delta), centre + directional))"


def bound_on_sigma(old, new):
    """A replaced name: the gap with a mistake in the bound on the correlation."""
    module = importlib.import_module("mfbook.models.attention.best_head")

    def replace(names):
        right = names["frank_wolfe_gap"]

        def frank_wolfe_gap(*arguments, **options):
            with mistaken(module, old, new):
                return right(*arguments, **options)

        return {"frank_wolfe_gap": frank_wolfe_gap}

    return replace


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
    ("bound on σ₁ that is zero", SIGMA, "bound on σ₁ / found", bound_on_sigma(LEAST, "return 0.0")),
    ("bound on σ₁ half as large", SIGMA, "bound on σ₁ / found",
     bound_on_sigma(LEAST, LEAST.replace("float(", "0.5 * float("))),
    ("bound on σ₁ without its part for uniform attention", SIGMA,
     "bound on σ₁ / found, least of five",
     bound_on_sigma(LEAST, LEAST.replace("centre + product(delta)", "product(delta)"))),
    ("bound (i) four fifths as large", SIGMA, BY_HAND,
     bound_on_sigma(LEAST, LEAST.replace("product(largest)", "0.8 * product(largest)"))),
    ("attention part of (ii) a tenth as large", SIGMA, BY_HAND,
     bound_on_sigma(LEAST, LEAST.replace("product(delta)", "0.1 * product(delta)"))),
    ("attention part of (ii) four fifths as large", SIGMA, BY_HAND,
     bound_on_sigma(LEAST, LEAST.replace("product(delta)", "0.8 * product(delta)"))),
    ("attention part of (iii) a tenth as large", SIGMA, BY_HAND,
     bound_on_sigma(LEAST, LEAST.replace("directional)", "0.1 * directional)"))),
    ("attention part of (iii) four fifths as large", SIGMA, BY_HAND,
     bound_on_sigma(LEAST, LEAST.replace("directional)", "0.8 * directional)"))),
    ("g/4 instead of g/2 in the hyperbolic tangent of (ii) and (iii)", SIGMA, BY_HAND,
     bound_on_sigma("diameter / (4 * np.sqrt(k))", "diameter / (8 * np.sqrt(k))")),
    ("mean distance from the causal mean instead of the largest", SIGMA, BY_HAND,
     bound_on_sigma("np.where(seen, from_mean, 0).max(axis=2)",
                    "np.where(seen, from_mean, 0).mean(axis=2)")),
    ("second factor of Cauchy and Schwarz used twice", SIGMA, BY_HAND,
     bound_on_sigma("np.sqrt((weight * length).mean() * top(weight))", "top(weight)")),
    ("claim: a head never uses half of what a bound allows", "check-ingredients",
     "share of the bound",
     ("check-ingredients", "at_least(f\"share of the bound that a head uses: {name}\", "
      "coarse(case[\"share used\"], 2), 0.9)",
      "at_most(f\"share of the bound that a head uses: {name}\", "
      "coarse(case[\"share used\"], 2), 0.5)")),
    ("r instead of r²", "ingredients check-ingredients", "largest Ψ / (−r² σ₁)",
     ("ingredients", "/ (-(r**2) * largest)", "/ (-r * largest)")),
    ("second singular value instead of the first", "ingredients check-ingredients",
     "largest Ψ / (−r² σ₁)",
     ("ingredients", "correlation(scores))[1][:, 0]", "correlation(scores))[1][:, 1]")),
    ("best head with the other sign", "ingredients check-ingredients", "of the head in closed form",
     ("ingredients", "-r * u[0, :, 0]", "r * u[0, :, 0]")),
    ("range of scores g instead of 2g", "check-ingredients", "scores at the ends",
     ("check-ingredients", "np.tanh(g / 2)", "np.tanh(g / 4)")),
    ("bound on σ₁ that is zero", "brackets check-bracket", "largest found / rigorous",
     bound_on_sigma(LEAST, "return 0.0")),
    ("bound on σ₁ a third as large", "brackets check-bracket", "largest found / rigorous",
     bound_on_sigma(LEAST, LEAST.replace("float(", "0.33 * float("))),
    ("r instead of r² in the bound", "brackets check-bracket", "largest found / rigorous",
     ("brackets", "[g.rigorous for g in gaps]", "[g.rigorous / r for g in gaps]")),
    ("average price of heads forgotten in the gap", "brackets check-bracket",
     "largest true excess / found",
     ("brackets", "[g.found for g in gaps]", "[g.found - R(m) for g, m in zip(gaps, laws)]")),
    ("entropy in bits instead of nats", "shrink check-shrunk",
     "teacher: true excess − shrunk",
     ("shrink", "entr(q).sum(axis=-1).mean()", "entr(q).sum(axis=-1).mean() / np.log(2)")),
    ("price with the other sign when shrunk", "shrink check-shrunk",
     "teacher: true excess − shrunk",
     ("shrink", "- s * least", "+ s * least")),
    ("claim: nothing is gained between the ends", "shrink check-shrunk",
     "copy: shrunk / the better",
     ("shrink", "for s in (0.0, inner, 1.0)", "for s in (0.0, 1.0)")),
    ("weights of the heads not optimised", "check-support", "copy: spread of Ψ on the support",
     ("check-support", "local = R_copy.at(copy_run.measure)", "local = R_copy.at(Measure(atoms))")),
    ("Ψ on the support with the other sign", "check-support", "copy: largest Ψ on the support",
     ("check-support", "on_support = local", "on_support = -local")),
    ("signs of W_V and W_O both flipped", "check-interior", "|Ψ(W_O) + Ψ(−W_O)|",
     ("check-interior", "flipped[:, -copy_shape.blocks[3]:]",
      "flipped[:, -2 * copy_shape.blocks[3]:]")),
    ("radius instead of its square", "check-interior", "v = 3 as a mean of v = 1",
     ("check-interior", "(s[:, i] / 4)", "(s[:, i] / 2)")),
    ("only the leading of the three heads of rank one", "check-interior",
     "v = 3 as a mean of v = 1",
     ("check-interior", "for i in range(3)\n)", "for i in range(1)\n)")),
    ("r instead of r² in the price of room", "interior-run check-interior", "copy, radius 0.3",
     ("interior-run", "(risk.space.radius**2 / (a * b) - 1)",
      "(risk.space.radius / (a * b) - 1)")),
    ("claim: room costs twice as much", "check-interior", "one token, q = 0.9",
     ("check-interior", "paid_one, certified_one, 1e-9", "2 * paid_one, certified_one, 1e-9")),
    ("claim: no optimum has an atom inside", "check-interior", "teacher: room inside",
     ("check-interior", "room, 0.1)", "-room, 0)")),
    ("claim: one head fewer than N is enough", "check-breaks", "heads with a share",
     ("check-breaks", "len(few), N)", "len(few), N - 1)")),
    ("weights not absorbed into W_O", "breaks-run check-breaks", "12 heads against a law of 200",
     ("breaks-run", "N * c[few][:, None, None] * W_O", "W_O")),
    ("bound for another number of heads", "check-breaks", "64 groups of 16 equal heads",
     ("check-breaks", "heads[j])", "heads[i])")),
    ("floor of hard labels used everywhere", "breaks-run check-breaks", "largest one-hot floor",
     ("breaks-run", "np.where(hard, easy, np.log(V))", "np.where(hard, np.log(V), np.log(V))")),
]  # fmt: skip


class TestStatic(Chapter):
    cells = CELLS
    smaller = SMALLER
    skip = ("text-run",)
    wrong = WRONG
