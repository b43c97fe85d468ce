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
    return {"limits": names["limits"] | {"anchor": names["limits"]["ridge"]}}


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
    ("other rules not given the same speed", "rules check-6-2", "best other rule",
     ("rules", "np.sqrt((v**2).sum(axis=1).mean() * D)", "D")),
    ("law at which the flow was stopped early taken as stationary", "stationary check-6-3",
     "heads that look nowhere", unpolished),
    ("law that is not yet the best with uniform attention",
     "check-6-3", "σ₁(C) there", uniform_unpolished),
    ("correlation at other queries and keys", "stationary check-6-3", "σ₁(C) there",
     ("stationary", ".correlation(zero.atoms)", ".correlation(task.teacher.atoms)")),
    ("root of the dissipation instead of the dissipation", "check-6-3", "almost: D",
     ("check-6-3", 'reports["almost"].dissipation', 'np.sqrt(reports["almost"].dissipation)')),
    ("gradient taken as zero at heads without mass", "check-6-3", "elsewhere", gradient_elsewhere),
    ("descent direction with the other sign", "check-6-4", "slope of R",
     ("check-6-4", 'slope / -rivals', 'slope / rivals')),
    ("fourth power of the radius instead of the square", "check-6-4", "r² σ₁",
     ("check-6-4", "(25 * np", "(625 * np")),
    ("wait for a push 10 times smaller instead of 100 times", "check-6-4", "wait",
     ("check-6-4", "np.log(100)", "np.log(10)")),
    ("rate from the largest eigenvalue instead of the least", "leave check-6-4", "wait",
     ("leave", "growth = -linear.collective[0]", "growth = linear.collective[-1]")),
    ("λ above the threshold found, not above the one proved", "interior check-6-5", "rigorous gap",
     ("interior", "1.02 * proved", "1.02 * found")),
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
    ("factor 2 lost in the change of the second moment", "moment check-6-7", "d/dτ",
     ("moment", "- 1j * tiny * G)", "- 0.5j * tiny * G)")),
    ("mass 1/n² far away instead of 1/n", "nets check-6-9", "W₁ to δ₀",
     ("nets", "[1 - 1 / n, 1 / n]) for n in (10.0", "[1 - 1 / n**2, 1 / n**2]) for n in (10.0")),
    ("factor of the diameter forgotten", "check-6-9", "W₂² against",
     ("check-6-9", "across * wasserstein", "wasserstein")),
    ("run without confinement in place of one with a ridge", "check-6-9", "ridge", other_net),
    ("keys moved like queries instead of by the inverse", "gauge check-continua", "bare, teacher",
     ("gauge", "W_K @ np.linalg.inv(S).T", "W_K @ S")),
    ("W_O moved like W_V instead of by the inverse", "gauge check-continua", "bare, look nowhere",
     ("gauge", "np.linalg.inv(S) @ W_O", "S @ W_O")),
    ("conserved matrices of the values forgotten", "dimensions check-continua",
     "k = v = 2: dimension", ("dimensions", "W_V.T @ W_V - W_O @ W_O.T", "0 * W_V.T @ W_V")),
    ("positions held while the weights change",
     "check-continua", "largest |∇F| of the family", positions_held),
    ("factor 2 of the length lost", "length check-finite", "length left, against",
     ("length", "kl_length(E[i], c, 0.5)", "kl_length(E[i], c, 0.5) / 2")),
    ("gap E instead of its root", "length check-finite", "length left, against",
     ("length", "kl_length(E[i], c, 0.5)", "kl_length(E[i] ** 2, c, 0.5)")),
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
    ("constants of the limit used at every size", "lemma check-imbalance", "Λ / ½",
     ("lemma", "kappa, eta = kappa_eta(span)", "kappa, eta = 1.0, 2.0")),
    ("logarithm of the sum instead of the mean", "lemma check-imbalance", "⟨∇Λ, f⟩ / ηΛ",
     ("lemma", "np.log(np.exp(f).mean(axis=1))", "np.log(np.exp(f).sum(axis=1))")),
    ("fits of balanced and unbalanced runs exchanged", "check-imbalance", "slope of log D",
     ("check-imbalance", "fits[0.0], fits[1.0]", "fits[1.0], fits[0.0]")),
    ("sum of the squares instead of their difference", "constants check-imbalance", "drift of c",
     ("constants", "np.abs(P - Q - c)", "np.abs(P + Q - c)")),
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
    ("rounding errors counted as rank", "check-6-11", "rank of K",
     lambda names: {"spectrum": np.maximum(names["spectrum"], 1e-3)}),
    ("factor 2 of the clock τ lost", "check-6-12", "power 1",
     ("check-6-12", "-40 * predicted", "-20 * predicted")),
    ("factor 2 lost in the integral of a decaying learning rate", "check-6-12", "power 3/2",
     ("check-6-12", "2 * 20.0 / 0.5", "20.0 / 0.5")),
    ("largest learning rate instead of the least", "check-6-12", "ξ ≥ ξ₀",
     ("check-6-12", "xi_0, start_at = 0.3, 14", "xi_0, start_at = 0.5, 14")),
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
