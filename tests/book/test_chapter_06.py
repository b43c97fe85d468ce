"""The checks of Chapter 6 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

import numpy as np
from chapter_runner import Chapter, computing

from mfbook.measure import Measure
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "06-long-time.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("leave", "(1e-1, 1e-3, 1e-5)", "(1e-3, 1e-5)"),
    ("barbalat", "np.arange(0, 160, 20)", "np.arange(0, 160, 40)"),
    ("interior", "pool=1000", "pool=300"),
    ("threshold", "[0.3, 1.0, 3.0, 5.5, 10.0, 17.0, 30.0]", "[1.0, 30.0]"),
    ("threshold", "(612, 613, 614)", "(612,)"),
    ("nondegenerate", "range(150)", "range(20)"),
    (
        "energy",
        "np.linspace(0, 16, 22), np.linspace(0, 8, 81)",
        "np.linspace(0, 12, 17), np.linspace(0, 4, 41)",
    ),
    ("leave", "rtol=1e-6, atol=1e-11", "rtol=1e-4, atol=1e-9"),
    ("confined", '"rtol": 1e-6}', '"rtol": 1e-4}'),
]


# ---------------------------------------------------------------- replaced names


def lost_again(name, functional, factor=1.0):
    """The loss of one of the four runs, with another dissipation or another clock."""

    def replace(names):
        _, run, xi = names["runs"][name]
        clock = None if xi is None else lambda t: factor * xi(t)
        lost, jump = names["dissipated"](functional(names), run, clock, 3)
        row = names["losses"][name] | {"defect": np.abs(-np.diff(run.value) - lost), "jump": jump}
        return {"losses": names["losses"] | {name: row}}

    return replace


factor_lost = lost_again("physical time", lambda names: names["R"], 0.5)
without_projection = lost_again("balls", lambda names: names["R"])
without_ridge = lost_again("ridge", lambda names: names["R"])


def norm_of_the_mean(names):
    """The square of the mean gradient for the mean of the squares."""

    def dissipation(F, mu):
        return float((F.gradient(mu.atoms, mu).mean(axis=0) ** 2).sum())

    return {"dissipation": dissipation}


def unpolished(names):
    return {"laws": names["laws"] | {"heads that look nowhere": names["trained"].end}}


def uniform_unpolished(names):
    return {"correlation": names["R"].at(names["trained"].end).correlation(np.zeros((1, 24)))[0]}


def gradient_elsewhere(names):
    """Stationarity asked of all heads, with weight or without."""
    return {"elsewhere": 0 * names["elsewhere"]}


def states_for_limits(names):
    return {"limits": {name: run.end for name, run in names["long"].items()}}


def half_way(names):
    rows = [
        row | {"D at the end": names["long"][row["confinement"]].dissipation[40]}
        for row in names["summary"]
    ]
    return {"summary": rows}


def without_derivative(names):
    """The threshold from C alone."""
    head = np.concatenate([names["worst"][:12], np.zeros(12)])[None]
    C = names["R"].at(names["start"]).correlation(head)[0]
    return {"lambda_conf": np.linalg.norm(C, 2)}


def mean_over_tokens_twice(names):
    return {"lambda_bar": names["lambda_bar"] / 4}


def other_net(names):
    return {"sizes": names["sizes"] | {"ridge": names["sizes"]["no confinement, words"][:120]},
            "followed": names["followed"] | {"ridge": names["runaway"]}}  # fmt: skip


def positions_held(names):
    """Weights changed, positions not solved for."""
    atoms = names["pair"].atoms
    family = [Measure(atoms, [w, 1 - w]) for w in names["weights"]]
    worst = [names["stationarity"](names["anchored"], mu).norms.max() for mu in family]
    return {"worst": worst}


def end_of_the_other_run(names):
    return {"ends": names["ends"] | {"anchor": names["ends"]["ridge"]}}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("factor 2 of physical time lost", "check-6-1", "physical time", factor_lost),
    ("gradient not projected on the balls", "check-6-1", "balls: sum", without_projection),
    ("ridge forgotten in the dissipation", "check-6-1", "ridge", without_ridge),
    ("square of the mean gradient instead of the mean square",
     "check-6-1", "complex step", norm_of_the_mean),
    ("dissipation summed over heads instead of averaged", "check-6-1", "complex step",
     ("check-6-1", "-dissipation(R, middle)", "-4 * dissipation(R, middle)")),
    ("central difference over h instead of 2h", "steepest check-6-2", "gradient flow",
     ("steepest", "/ (2 * h)", "/ h")),
    ("speed instead of its square", "steepest check-6-2", "gradient flow",
     ("steepest", "np.square(speed)", "speed")),
    ("one half in the energy balance lost", "steepest check-6-2", "gradient flow",
     ("steepest", "np.square(speed) / 2", "np.square(speed)")),
    ("path at twice the speed measured in the old clock", "steepest check-6-2", "twice the speed",
     ("steepest", "run.at(2 * s), 6.0", "run.at(s), 6.0")),
    ("speed of the fastest head instead of the root mean square", "rules check-6-2",
     "gradient: fall of R",
     ("rules", "wasserstein(behind, ahead)",
      "np.linalg.norm(ahead.atoms - behind.atoms, axis=1).max()")),
    ("claim: the mean speed of the heads counts, not the root mean square", "rules check-6-2",
     "gradient: fall of R",
     ("rules", "wasserstein(behind, ahead)", "wasserstein(behind, ahead, 1)")),
    ("claim: the fall at a given speed is at most D, not its root", "rules check-6-2",
     "gradient: fall of R", ("rules", "/ np.sqrt(D)", "/ D")),
    ("law at which the flow was stopped early taken as stationary", "stationary check-6-3",
     "heads that look nowhere", unpolished),
    ("law that is not yet the best with uniform attention",
     "check-6-3", "σ₁(C) there", uniform_unpolished),
    ("correlation at other queries and keys", "stationary check-6-3", "σ₁(C) there",
     ("stationary", ".correlation(zero.atoms)", ".correlation(task.teacher.atoms)")),
    ("dissipation taken as the speed instead of its root", "check-6-3", "almost: W₂ per time",
     ("check-6-3", 'np.sqrt(reports["almost"].dissipation)', 'reports["almost"].dissipation')),
    ("claim: a law that is almost stationary stays where it is", "check-6-3", "almost: way",
     ("check-6-3", 'moved["almost"] /', 'speed /')),
    ("gradient taken as zero at heads without mass", "check-6-3", "elsewhere", gradient_elsewhere),
    ("descent direction with the other sign", "check-6-4", "slope of R",
     ("check-6-4", 'slope / -rivals', 'slope / rivals')),
    ("fourth power of the radius instead of the square", "check-6-4", "r² σ₁",
     ("check-6-4", "(25 * np", "(625 * np")),
    ("claim: a stationary law can always be improved", "check-6-4", "zero: gap, found",
     ("check-6-4", "rivals[name].found, 0.01", 'rivals["teacher"].found, 0.01')),
    ("claim: no head is better than one with uniform attention", "check-6-4", "r² σ₁",
     ("check-6-4", 'rivals["zero"].found / (25', '25 * np.linalg.norm(C, 2) / (25')),
    ("wait for a push 10 times smaller instead of 100 times", "check-6-4", "wait",
     ("check-6-4", "np.log(100)", "np.log(10)")),
    ("rate from the largest eigenvalue instead of the least", "leave check-6-4", "wait",
     ("leave", "growth = -linear.collective[0]", "growth = linear.collective[-1]")),
    ("λ above the threshold found, not above the one proved", "interior check-6-5", "rigorous gap",
     ("interior", "1.02 * proved", "1.02 * found")),
    ("claim: zero is optimal where it is stable", "interior check-6-5", "pays in between",
     ("interior", "1.02 * proved", "1.02 * threshold")),
    ("Frobenius norm instead of the largest singular value", "check-6-5", "λ − λ_c",
     lambda names: {"threshold": np.linalg.norm(
         names["local"].correlation(names["zero"].atoms)[0])}),
    ("ridge with the other sign", "check-6-5", "λ − λ_c",
     ("check-6-5", '(a["value"] - threshold)', '(threshold - a["value"])')),
    ("last state of the flow taken as its limit",
     "check-6-6", "at the limit point", states_for_limits),
    ("flow stopped half-way", "check-6-6", "D at the end", half_way),
    ("square of the gap in the bound on D", "check-6-6", "largest D",
     ("check-6-6", "2 * largest * E", "2 * largest * E**2")),
    ("claim: on the balls all heads rest inside", "check-6-6", "on their spheres",
     ("check-6-6", "sum(on_sphere), 1)", "len(on_sphere) - sum(on_sphere), 1)")),
    ("claim: D ≤ ΛE, half the constant", "check-6-6", "ridge alone",
     ("check-6-6", "(2 * 0.3 * alone(start))", "(0.3 * alone(start))")),
    ("gradient on the balls not projected", "check-6-6", "projected velocity",
     ("check-6-6", "small.tangent(rest.atoms, -R.gradient(rest.atoms, rest))",
      "-R.gradient(rest.atoms, rest)")),
    ("claim: a flow in a compact set has one limit", "spiral check-6-6", "half a turn apart",
     ("spiral", "per_turn // 2", "per_turn")),
    ("potential that does not turn with the distance", "spiral check-6-6", "spiral: angle",
     ("spiral", "x[:, 1] * np.cos(chi) - x[:, 0] * np.sin(chi)", "x[:, 1]")),
    ("claim: without confinement a head stays bounded", "sign check-6-6", "one token: least gain",
     ("sign", "gradient_flow(sign,", "gradient_flow(sign + Ridge(0.1),")),
    ("claim: R ≤ (log 2)²/2ϖ₀τ²", "sign check-6-6", "one token: largest R",
     ("sign", "(2 * p_0 * until[1:])", "(2 * p_0 * until[1:] ** 2)")),
    ("one factor of the product forgotten in the clock", "sign check-6-6", "log ϖ + Ei",
     ("sign", "expi(2 * written)", "expi(written)")),
    ("run with a ridge where none should confine", "escape check-6-6", "gain of distance",
     ("escape", "gradient_flow(on_words,", "gradient_flow(on_words + Ridge(0.04),")),
    ("loss of the first position counted for all four",
     "first-tokens check-6-6", "floor of the first",
     ("first-tokens", ".mean() / 4", ".mean()")),
    ("Newton's method stopped early", "first-tokens check-6-6", "moments",
     ("first-tokens", "range(20)", "range(4)")),
    ("signs of W_V and W_O both flipped", "drift check-6-7", "W_O flipped",
     ("drift", "np.arange(24) < 18", "np.arange(24) < 12")),
    ("derivative of C forgotten in the threshold", "check-6-7", "worst head", without_derivative),
    ("mean over tokens taken twice in λ̄", "check-6-7", "against λ̄", mean_over_tokens_twice),
    ("Lambert's function of 3/e² instead of 3/e", "drift check-6-7", "saturation",
     ("drift", "np.arange(4) / np.e", "np.arange(4) / np.e**2")),
    ("derivative of C with the other sign", "rays check-6-7", "41 rays",
     ("rays", "+ C.imag", "- C.imag")),
    ("claim: any ridge keeps heads in their ball", "inward check-6-7", "six heads",
     ("inward", '("ridge 1.05 λ̄", strong)', '("ridge 1.05 λ̄", weak)'),
     ("inward", "lam - max(", "strong - max(")),
    ("claim: heads decay at the rate λ", "inward check-6-7", "six heads",
     ("inward", "(lam - max(bar(run.measure(i)) for i in range(21)))", "lam")),
    ("claim: bounded second moments converge in W₂", "check-6-7", "W₁ for n",
     ("check-6-7", "wasserstein(far[-1], origin, 1)", "wasserstein(far[-1], origin)")),
    ("mass 1/n² far away instead of 1/n", "nets check-6-9", "W₁ to δ₀",
     ("nets", "[1 - 1 / n, 1 / n]) for n in (10.0", "[1 - 1 / n**2, 1 / n**2]) for n in (10.0")),
    ("factor of the diameter forgotten", "check-6-9", "W₂² against",
     ("check-6-9", "across * wasserstein", "wasserstein")),
    ("claim: half the diameter is enough", "nets check-6-9", "mass 0.1 moved",
     ("nets", "across = 4.0", "across = 2.0")),
    ("run without confinement in place of one with a ridge", "check-6-9", "ridge", other_net),
    ("keys moved like queries instead of by the inverse", "gauge check-continua", "bare, teacher",
     ("gauge", "W_K @ np.linalg.inv(S).T", "W_K @ S")),
    ("W_O moved like W_V instead of by the inverse", "gauge check-continua", "bare, look nowhere",
     ("gauge", "np.linalg.inv(S) @ W_O", "S @ W_O")),
    ("conserved matrices of the values forgotten", "dimensions check-continua",
     "k = v = 2: dimension", ("dimensions", "W_V.T @ W_V - W_O @ W_O.T", "0 * W_V.T @ W_V")),
    ("claim: atoms need not be distinct", "check-continua", "W₂² to w = 0.45",
     ("check-continua", "apart[1] ** 2", "wasserstein(meeting, unequal) ** 2")),
    ("claim: W₂ grows like the mass moved, not like its root", "check-continua", "W₂² to w = 0.45",
     ("check-continua", "apart[1] ** 2", "apart[1]")),
    ("claim: with a ridge every gauge map will do", "gauge check-continua", "ridge, rotations",
     ("gauge", '("ridge, rotations", weak_ridge, one, True)',
      '("ridge, rotations", weak_ridge, one, False)')),
    ("positions held while the weights change",
     "check-continua", "largest |∇F| of the family", positions_held),
    ("factor 2 of the length lost", "length check-finite", "length left, against",
     ("length", "kl_length(E[i], c, 0.5)", "kl_length(E[i], c, 0.5) / 2")),
    ("gap E instead of its root", "length check-finite", "length left, against",
     ("length", "kl_length(E[i], c, 0.5)", "kl_length(E[i] ** 2, c, 0.5)")),
    ("claim: a head of weight zero is bounded by the energy", "weightless check-finite",
     "weight 0: rate", ("weightless", "R + Ridge(0.7 * threshold)", "R + Ridge(1.3 * threshold)")),
    ("claim: half of the bound on the length", "check-finite", "bare, τ = 40",
     ("check-finite", 'row["bound 2√(E/c)"])', 'row["bound 2√(E/c)"] / 2)')),
    ("eigenvalues of each head alone instead of all together",
     "length check-finite", "ridge: dimension of the kernel",
     ("length", ".collective)\n", ".deviations)\n")),
    ("slow directions counted as zero", "length check-finite", "ridge: dimension of the kernel",
     ("length", "< 1e-9).sum()", "< 0.05).sum()")),
    ("values read in place of queries", "length check-finite", "largest entry of W_Q",
     ("length", "block[:2])", "block[1:3])")),
    ("second singular value cut off as zero", "length check-finite", "rank of Σ",
     ("length", "tol=1e-9)", "tol=1.0)")),
    ("ridge ten times as strong, which lets every head fade", "starts check-finite",
     "a head keeps looking", ("starts", 'variants["ridge"]', "R + Ridge(0.4)")),
    ("limit of another run", "check-finite", "distance of the last state", end_of_the_other_run),
    ("rate 2c instead of c", "rates check-6-10", "largest E / bound",
     ("rates", "E[window[0]], c, 0.5)", "E[window[0]], 2 * c, 0.5)")),
    ("exponent α = ¾ with the constant of α = ½", "rates check-6-10", "particles",
     ("rates", "(0.75, 16.0)", "(0.75, 4.0)")),
    ("exponent fitted over the whole path", "rates check-6-10", "fitted from",
     ("rates", "run.t[window] >= 200", "run.t[window] >= 0")),
    ("slope 2α halved", "check-6-10", "fitted from",
     ("check-6-10", "late_fit.slope", "late_fit.slope / 2")),
    ("bound of 0.9 λ_min instead of 2λ_min", "check-6-10", "c of the path",
     ("check-6-10", "c, 2 * least", "c, 0.5 * 2 * least * 0.9")),
    ("exponent 1 instead of 3/2", "constants check-imbalance", "first bound",
     ("constants", "a * b) * E**1.5", "a * b) * E")),
    ("constants of the limit used at every size", "lemma check-imbalance", "Φ / ½",
     ("lemma", "kappa, eta = kappa_eta(span)", "kappa, eta = 1.0, 2.0")),
    ("logarithm of the sum instead of the mean", "lemma check-imbalance", "⟨∇Φ, f⟩ / ηΦ",
     ("lemma", "np.log(np.exp(f).mean(axis=1))", "np.log(np.exp(f).sum(axis=1))")),
    ("claim: the bounds with constants larger by 5 %", "constants check-imbalance",
     "with A of the path: least D / better bound",
     ("constants", '(D / path)[keep].min()', '(D / path)[keep].min() / 1.05')),
    ("claim: bounds with constants smaller by 5 % are reached as closely", "check-imbalance",
     "largest of the five", ("check-imbalance", "for r in slack), 3), 1.05",
                             "for r in slack) * 1.05, 3), 1.05")),
    ("claim: a balanced head has α = ½", "check-imbalance", "β = 0: slope of log D",
     ("check-imbalance", "balanced.slope, 1.5", "balanced.slope, 1.0")),
    ("claim: a balanced head decays like 1/τ", "check-imbalance", "β = 0: slope of log E",
     ("check-imbalance", "decay, -2", "decay, -1")),
    ("fits of balanced and unbalanced runs exchanged", "check-imbalance", "slope of log D",
     ("check-imbalance", "fits[0.0], fits[1.0]", "fits[1.0], fits[0.0]")),
    ("sum of the squares instead of their difference", "constants check-imbalance", "drift of β",
     ("constants", "np.abs(P - Q - beta)", "np.abs(P + Q - beta)")),
    ("rate of the logits instead of that of the gap",
     "exponents check-imbalance", "exponential rate",
     ("exponents", "predicted = 2 *", "predicted = 1 *")),
    ("upper envelope with α = ½", "exponents check-imbalance", "upper envelope",
     ("exponents", "* a * b), 0.75)", "* a * b), 0.5)")),
    ("residual without the Gram matrix", "gram check-6-11", "⟨r, Kr⟩",
     ("gram", "r @ K @ r", "r @ r")),
    ("weights forgotten in the Gram matrix", "check-6-11", "⟨r, Kr⟩",
     lambda names: {"rows": [row | {"⟨r, Kr⟩": 8 * row["⟨r, Kr⟩"]} for row in names["rows"]]}),
    ("λ_min instead of 2λ_min in the quotient", "check-6-11", "slowest direction",
     ("check-6-11", "(2 * slowest)", "slowest")),
    ("claim: D ≥ 2.1 mgE", "divergence check-6-11", "|r|² / (2mE)",
     ("divergence", "r / (2 * np", "r / (2.1 * np")),
    ("claim: D ≥ 1.3 p_min gE for all labels", "divergence check-6-11", "|r|² / (p_min E)",
     ("divergence", "r / (p.min", "r / (1.3 * p.min")),
    ("claim: 2mgE with the least prediction alone, whatever the labels are",
     "divergence check-6-11", "|r|² / (2mE), least",
     ("divergence", "m = np.minimum(y.min(axis=1), p.min(axis=1))", "m = p.min(axis=1)")),
    ("claim: many words do not lower the rank", "check-6-11", "five words",
     ("check-6-11", "(wordy > 1e-12).sum(), 27", "(wordy > 1e-12).sum(), 36")),
    ("rounding errors counted as rank", "check-6-11", "rank of K",
     lambda names: {"spectrum": np.maximum(names["spectrum"], 1e-3)}),
    ("factor 2 of the clock τ lost", "check-6-12", "power 1",
     ("check-6-12", "-40 * predicted", "-20 * predicted")),
    ("factor 2 lost in the integral of a decaying learning rate", "check-6-12", "power 3/2",
     ("check-6-12", "2 * 20.0 / 0.5", "20.0 / 0.5")),
    ("largest learning rate instead of the least", "check-6-12", "ξ ≥ ξ₀",
     ("check-6-12", "xi_0, start_at = 0.3, 14", "xi_0, start_at = 0.5, 14")),
    ("claim: α = ½ for the balanced head too", "check-6-12", "balanced head, ξ ≥ ξ₀",
     ("check-6-12", "c_balanced, 0.75", "c_balanced, 0.5")),
    ("largest learning rate for the balanced head", "check-6-12", "balanced head, ξ ≥ ξ₀",
     ("check-6-12", "2 * xi_0 * decades", "20 * xi_0 * decades")),
    ("claim: with ξ of order 1/t the balanced head falls like a power of t",
     "balanced-clocks check-6-12", "balanced head, power 1",
     ("balanced-clocks", "np.log(np.log1p(decades", "(np.log1p(decades")),
    ("claim: the inequality holds near a law that is optimal", "check-6-13",
     "anchor, optimal: largest D",
     lambda names: {"obstructions": names["obstructions"] | {"anchor, optimal": [
         row | {"D": names["c_arriving"] * row["F − F(μ*)"]}
         for row in names["obstructions"]["anchor, optimal"]]}}),
    ("first variation of the risk without the anchor", "certified-grid check-6-13",
     "bound on m − δF(θ*)", ("certified-grid", "cost[1:], cost[:-1]", "0 * cost[1:], cost[:-1]")),
    ("grid too coarse for the bound on the slope of C", "certified-grid check-6-13",
     "bound on m − δF(θ*)", ("certified-grid", "1 / close, 5001", "1 / close, 51")),
    ("claim: the law at rest at the other critical point is optimal", "certified-grid check-6-13",
     "bound on m − δF(θ*)", lambda names: {"value": float(
         names["held"].first_variation(names["rival"][None], names["best_law"])[0])}),
    ("claim: m is convex far from the optimum too", "certified-grid check-6-13", "bound on m″",
     ("certified-grid", ", 1e-3\n", ", 1e-2\n")),
    ("critical point taken for a rest of the whole law without solving",
     "obstructions check-6-13", "largest D",
     ("obstructions", "near = newton(F, Measure(two.atoms, [1 - s, s]))",
      "near = Measure(two.atoms, [1 - s, s])")),
    ("the two heads exchanged", "check-6-13", "dF/dw",
     ("check-6-13", "values[0] - values[1]", "values[1] - values[0]")),
    ("positions held near the stationary measure", "neighbourhood check-6-13", "its D",
     ("neighbourhood", "newton(anchored, Measure(center.atoms, [w, 1 - w]))",
      "Measure(center.atoms, [w, 1 - w])")),
]  # fmt: skip


class TestLongTime(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
