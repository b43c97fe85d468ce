"""The checks of Chapter 8 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

from types import SimpleNamespace

import numpy as np
from chapter_runner import Chapter, computing, mistaken

from mfbook.functional import check_functional
from mfbook.measure import Measure, mixture
from mfbook.models import layers
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "08-discussion.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("scaling", "partitions=3", "partitions=2"),
    ("trained", "2.0, 100, 20", "2.0, 50, 20"),
    ("trained-corpus", "sequences=192", "sequences=48"),
    ("trained-corpus", "held_out=192", "held_out=48"),
    ("trained-corpus", "R_text, 1.5, 80", "R_text, 1.5, 40"),
    ("necessary", "[0, 1600.0]", "[0, 1000.0]"),
]


# ---------------------------------------------------------------- replaced names


def heads_added_without_correction(names):
    """Boosting that adds random heads at a fixed share."""

    def boost(F, mu, rng, rounds, **options):
        heads = Measure(F.space.sample(np.random.default_rng(rng), rounds))
        return SimpleNamespace(measure=mixture(mu, heads, 0.2))

    return {"boost": boost}


def mean_over_words(names):
    """The squared distance of features averaged over the 29 characters, not summed."""
    return {"text_pair": [{**e, "sure": 29 * e["sure"]} for e in names["text_pair"]]}


def boosted_for_trained(names):
    """Values of psi of the boosted heads at the weights before."""
    first = names["text_pair"][0]
    return {"text_pair": [first, first]}


def speed_summed_over_heads(names):
    return {"integral": 16 * names["integral"]}


def layer_changed(old, new):
    """The gradient against finite differences, with another program of a layer."""

    def replace(names):
        with mistaken(layers, old, new):
            return {"consistent": check_functional(names["two"], names["stacked"], 872)}

    return replace


values_alone = layer_changed(
    "            + dS @ self.keys @ W_Q\n            + dS.swapaxes(2, 3) @ self.queries @ W_K\n", ""
)
no_scale = layer_changed("return P, dA / np.sqrt(self.shape.k)", "return P, dA")


def same_errors_for_all(names):
    errors = np.array(names["layer_errors"])
    sizes = names["layer_sizes"]
    x = np.log(sizes) - np.log(sizes).mean()
    summed = errors[:, 0] * sizes  # the risk of the sum of the heads of a group
    return {"layer_slope": x @ np.log(summed) / (x @ x)}


def layers_exchanged(names):
    """The excess of one layer where that of two should stand."""
    return {"less": names["excess_of"][:, 1] < names["excess_of"][:, 0]}


def rate_for_time(names):
    """Correlations with the speed of convergence instead of its time."""
    return {"verdicts": {k: (-a, -c, -b) for k, (a, b, c) in names["verdicts"].items()}}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("heads taken before the end of training", "general check-general", "one trained head: largest",
     ("general", "stationarity(R, mu) for", "stationarity(R, runs.measure(1)) for")),
    ("gain reached instead of the gap", "check-general", "one trained head: gap",
     ("check-general", "alone[name].found", "alone[name].gain")),
    ("heads that write the other way", "tiny check-60", "by hand, no head zero",
     ("tiny", "tiny.join(0 * W, 0 * W, W, W)", "tiny.join(0 * W, 0 * W, W, -W)")),
    ("three laws inside the balls", "tiny check-general", "by hand, three laws",
     ("tiny", '"no head zero": [1.0]', '"no head zero": [0.9]')),
    ("claim: by hand, a law that stands still is optimal", "check-60", "by hand, half",
     ("check-60", "violation, 0.5)", "violation * -1, -1e-12)")),
    ("factor r forgotten in W_V", "echo check-60", "optimum: largest violation",
     ("echo", "r * b[:, :, None]", "b[:, :, None]")),
    ("labels shifted by one word", "echo check-60", "optimum: largest violation",
     ("echo", "np.repeat(np.eye(V)[:", "np.repeat(np.roll(np.eye(V), 1, 0)[:")),
    ("weights of the heads ignored", "echo check-60", "unequal weights: violation",
     ("echo", "[0.6, 0.2, 0.2]", "[1 / 3, 1 / 3, 1 / 3]")),
    ("central difference over one step instead of two", "check-60", "unequal weights: dR",
     ("check-60", "/ (2 * step)", "/ step")),
    ("gain and gap exchanged", "check-trained", "teacher, trained: gain / gap found",
     ("check-trained", "gain / max(found, 1e-10)", "found / max(gain, 1e-10)")),
    ("heads on the boundary counted instead of those inside",
     "trained trained-starts check-trained", "teacher, trained: heads",
     ("trained", "< (1 - 1e-6)", "> (1 - 1e-6)")),
    ("training stopped while heads are still inside",
     "trained trained-starts check-trained", "copy, trained: heads",
     ("trained", "ball(2.0)), 2.0, 50", "ball(2.0)), 2.0, 1")),
    ("boosting that adds random heads at a fixed share",
     "trained check-trained", "boosted: spread of Ψ",
     heads_added_without_correction),
    ("features averaged over characters in the guarantee",
     "check-trained-text", "guarantees", mean_over_words),
    ("law before boosting used for the one after",
     "check-trained-text", "boosted: spread of Ψ", boosted_for_trained),
    ("constant c doubled", "check-pl", "one time to the next",
     ("check-pl", "c = kl_constant(", "c = 2 * kl_constant(")),
    ("dissipation summed over heads instead of averaged",
     "check-pl", "∫ D/E", speed_summed_over_heads),
    ("slope of D/E halved", "check-pl", "slope of D/E in their size",
     ("check-pl", "np.log(small_quotient)", "np.log(small_quotient) / 2")),
    ("lower bound 2ab|P − Q| doubled", "check-pl", "2ab|P − Q|",
     ("check-pl", "2 * least_A * least_B * imbalance", "4 * least_A * least_B * imbalance")),
    ("largest probability instead of the least",
     "identify check-identifiability-teacher", "E p_min",
     ("identify", "np.minimum(softmax(f), R.Y).min(", "np.maximum(softmax(f), R.Y).max(")),
    ("distance of logits averaged over words instead of summed",
     "identify check-identifiability-teacher",
     "largest quotient",
     ("identify", "((f - target) ** 2).sum(", "((f - target) ** 2).mean(")),
    ("logits not centred", "identify check-identifiability-teacher", "centred",
     ("identify", "R.logits(teacher.teacher)\n", "R.logits(teacher.teacher) + 1\n")),
    ("κ from the largest probability", "identify check-identifiability", "along the flow",
     ("identify", "np.minimum(softmax(f), R.Y).min(", "np.maximum(softmax(f), R.Y).max(")),
    ("hand-made head that looks back two tokens instead of one",
     "identify check-identifiability", "hard labels, R^D: R",
     ("identify", "tokens=6, lag=1", "tokens=6, lag=2")),
    ("W_V kept where W_V and W_O should be zero", "sufficient check-sufficient", "write nothing",
     ("sufficient", "0 * W_V, 0 * W_O", "W_V, 0 * W_O")),
    ("signs of W_V and W_O both turned", "sufficient check-sufficient", "Ψ(−W_O)",
     ("sufficient", "W_K, W_V, -W_O", "W_K, -W_V, -W_O")),
    ("first singular value included in the bound", "sufficient check-sufficient", "by descent",
     ("sufficient", "[1][1:] ** 2", "[1] ** 2")),
    ("weight moved the other way", "necessary check-necessary", "dR / d(weight)",
     ("necessary", "[[dear, cheap]] = -1, 1", "[[dear, cheap]] = 1, -1")),
    ("flow of the weights stopped too early", "necessary check-necessary", "projected step",
     ("necessary", "[0, 1000.0]", "[0, 4.0]")),
    ("force with the other sign", "kinetic check-momentum", "kinetic equation",
     ("kinetic", "(gamma * p + G) @ w", "(gamma * p - G) @ w")),
    ("friction halved in the balance of energy", "kinetic check-momentum", "energy: largest defect",
     ("kinetic", "-gamma * mu.integrate((p * p)", "-gamma * mu.integrate(0.5 * (p * p)")),
    ("momentum driven by the gradient at the start", "kinetic check-momentum", "order",
     ("kinetic", "p = p - h * (gamma * p + layer_gradients(theta, N))",
      "p = p - h * (gamma * p + layer_gradients(law.atoms, N))")),
    ("error multiplied by M, as for a sum of heads", "check-momentum", "mean risk error",
     ("check-momentum", "mean_fit[0]", "mean_fit[0] + 1")),
    ("momentum forgotten in the field of Adam", "adam check-adam", "Adam's steps",
     ("adam", "velocity = -m / (np", "velocity = -G / (np")),
    ("ε not divided by M with the gradients", "adam check-adam", "gradients G/M with ε/M",
     ("adam", "(1 / N, EPS / N)", "(1 / N, EPS)")),
    ("dissipation instead of the power ⟨G, velocity⟩", "check-adam", "fall of R −",
     ("check-adam", "spent - falls[0]", "spent - falls[1]")),
    ("gradient that passes the values of layer 2, not its scores",
     "check-layers", "first_variation",
     values_alone),
    ("√k forgotten in the pull-back of a layer",
     "check-layers", "gradient", no_scale),
    ("both laws of the mixture with the same sign", "layers check-layers", "mixture",
     ("layers", "mixture(by_hand(s, 1), by_hand(s, -1)", "mixture(by_hand(s, 1), by_hand(s, 1)")),
    ("sign turned in one of the two layers only", "layers check-layers", "two hand-made",
     ("layers", "K2[n + 3:, :n] = sign * np.eye(n)", "K2[n + 3:, :n] = np.eye(n)")),
    ("two layers trained for half the time", "layers-train check-layers", "of the figure: R",
     ("layers-train", "two, stacked, grid", "two, stacked, grid / 2")),
    ("excess of one layer in place of that of two",
     "check-layers", "starts of ten", layers_exchanged),
    ("excess of one layer in place of two, on fresh sequences",
     "check-layers", "the same on fresh sequences",
     layers_exchanged),
    ("training sequences in place of fresh ones",
     "layers-train check-layers", "fresh sequences / training",
     ("layers-train", "two_fresh(deep.measure(i)) - floor_fresh",
      "two(deep.measure(i)) - floor_seen")),
    ("heads of a group summed instead of averaged", "check-layers", "slope", same_errors_for_all),
    ("speed of convergence instead of its time", "check-early", "curvature: rank", rate_for_time),
    ("largest eigenvalue instead of the least", "early-predict check-early", "curvature: rank",
     ("early-predict", "collective[0]", "collective[-1]")),
    ("gradient followed upwards", "general-flows check-general", "risk at the start − at the end",
     ("general-flows", "retract(theta, -step * G", "retract(theta, step * G")),
    ("two heads stopped too early", "sufficient-holds check-sufficient", "v = 1, two heads: next",
     ("sufficient-holds", "side_by_side(R_echo, 2, 845, 2.0, 400)",
      "side_by_side(R_echo, 2, 845, 2.0, 4)")),
    ("ridge left out of the radial force", "sufficient-holds check-sufficient", "1 holds, ridge",
     ("sufficient-holds", "(growing**2).sum(axis=1) + 2 * lam_bar",
      "(growing**2).sum(axis=1)")),
    ("singular values not shared between W_V and W_O", "sufficient-holds check-sufficient",
     "2 holds, echo", ("sufficient-holds", "np.sqrt(middle)[:, None] * right", "right")),
    ("bound of the ridge taken for half the ridge", "pl-ridge pl check-pl", "ridge: E at the end",
     ("pl-ridge", "R + Ridge(2 * lam_bar), Measure", "R + Ridge(lam_bar), Measure")),
    # claims that go one step too far
    ("claim: limits of the flow are optimal", "check-general", "of the ten ends: not optimal",
     ("check-general", 'at_least("least R − inf R of the ten ends: not optimal", min(ends), 0.05)',
      'at_most("least R − inf R of the ten ends: not optimal", min(ends), 1e-3)')),
    ("claim: one limit for all starts", "check-general", "no single limit",
     ("check-general", 'at_least("spread of R over the ten ends: no single limit", np.ptp(ends), '
      "0.01)", 'at_most("spread of R over the ten ends: no single limit", np.ptp(ends), 1e-3)')),
    ("claim: at an optimum Ψ = 0 on the support", "check-60", "optimum: Ψ on the support",
     ("check-60", "exact.values.max(), -0.1)", "-exact.values.max(), 1e-6)")),
    ("claim: adding the best head gains the gap", "check-trained", "copy, trained: gain against",
     ("check-trained", 'coarse(e["sure"], 2), 1e-10', "coarse(found, 2), 1e-10")),
    ("claim: on text too it gains the gap", "check-trained-text", "text, trained: gain against",
     ("check-trained-text", 'coarse(e["sure"], 2)', "coarse(found, 2)")),
    ("claim: E falls like exp(−2cτ)", "check-pl", "one time to the next",
     ("check-pl", "* np.exp(c * np.diff", "* np.exp(2 * c * np.diff")),
    ("claim: with the ridge eight times the constant", "pl-ridge check-pl",
     "against c known before",
     ("pl-ridge", "before = 2 * lam_bar**2", "before = 16 * lam_bar**2")),
    ("claim: PL near the empty layer", "check-pl", "slope of D/E in their size",
     ("check-pl", "slope, 2, 0.02", "slope, 0, 0.5")),
    ("claim: p_min without its half", "check-identifiability-teacher", "near uniform",
     ("check-identifiability-teacher", "faint[-1], 1, 0.01", "faint[-1], 2, 0.01")),
    ("claim: the upper bound without a teacher", "check-identifiability-teacher", "no upper bound",
     ("check-identifiability-teacher",
      'at_least("echo: largest (R − R(optimum)) / E‖f − f*‖², no upper bound", max(few), 100)',
      'at_most("echo: largest (R − R(optimum)) / E‖f − f*‖², no upper bound", max(few), 0.25)')),
    ("claim: logits converge where labels are certain", "check-identifiability",
     "hard labels, R^D: its logits",
     ("check-identifiability", "hard_logits[-1] / hard_logits[-2], 2",
      "hard_logits[-2] / hard_logits[-1], 0.9")),
    ("claim: any ridge makes the empty layer optimal", "pl-ridge sufficient-holds check-sufficient",
     "so optimal: |value", ("pl-ridge", "R + Ridge(2 * lam_bar), Measure", "R + Ridge(0.02), "
                                     "Measure")),
    ("claim: a convex set of features is enough", "check-sufficient", "E of the empty layer",
     ("check-sufficient", "R_full(idle) - echo_least, 0.1", "echo_least - R_full(idle), -1e-6")),
    ("claim: v = 1 and stationary is enough", "check-sufficient", "least E of ten",
     ("check-sufficient", "min(excess_two), 0.01", "-min(excess_two), -1e-6")),
    ("claim: Ψ is constant at every stationary law", "check-necessary", "echo: spread of Ψ",
     ("check-necessary", "np.ptp(psi), 0.05", "-np.ptp(psi), -1e-6")),
    ("claim: a constant Ψ is enough", "check-necessary", "one trained head: violation",
     ("check-necessary", "above(silent.violation, 1.3), 0.1", "-silent.violation, -1e-6")),
    ("claim: with momentum a mean risk error of order 1/√M", "check-momentum",
     "mean risk error in M: −1", ("check-momentum", "mean_fit[0], -1,", "mean_fit[0], -0.5,")),
    ("claim: with momentum a deviation of order 1/M", "check-momentum", "deviation in M: −½",
     ("check-momentum", "deviation_fit[0], -0.5,", "deviation_fit[0], -1,")),
    ("claim: the risk falls with momentum, too", "check-momentum", "R rises for a while",
     ("check-momentum", "(light_rises > 1e-3).sum(), 7", "(light_rises <= 1e-3).sum(), 10")),
    ("claim: with Adam a mean risk error of order 1/√M", "check-adam", "mean risk error in M: −1",
     ("check-adam", "adam_mean[0], -1,", "adam_mean[0], -0.5,")),
    ("claim: with Adam a deviation of order 1/M", "check-adam", "deviation in M: −½",
     ("check-adam", "adam_deviation[0], -0.5,", "adam_deviation[0], -1,")),
    ("claim: Adam loses what the dissipation says", "check-adam", "fall of R / ∫",
     ("check-adam", "spent / falls[1], 2)", "falls[1] / spent, 1)")),
    ("claim: with two layers a mean risk error of order 1/√M", "check-layers",
     "mean risk error in M: −1", ("check-layers", "layer_slope, -1,", "layer_slope, -0.5,")),
    ("claim: two layers are convex along mixtures", "check-layers", "their mixture",
     ("check-layers", "ends[2, 2] - ends[2, :2].mean(), 0.1",
      "ends[2, :2].mean() - ends[2, 2], 0")),
    ("claim: less curvature, longer training", "check-early", "curvature: rank",
     ("check-early", 'verdicts["curvature"][1],\n             0)',
      '-verdicts["curvature"][2],\n             0)')),
]  # fmt: skip


class TestDiscussion(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
