"""The checks of Chapter 6 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

import numpy as np
from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "06-long-time.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("leave", "(1e-1, 1e-2, 1e-3, 1e-4, 1e-5)", "(1e-3, 1e-5)"),
    ("barbalat", "np.arange(0, 160, 20)", "np.arange(0, 160, 40)"),
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
    ("claim: a stationary law can always be improved", "check-6-4", "empty layer: gap, found",
     ("check-6-4", "rivals[name].found, 0.01", 'rivals["teacher"].found, 0.01')),
    ("claim: no head is better than one with uniform attention", "check-6-4", "r² σ₁",
     ("check-6-4", 'rivals["empty layer"].found / (25', '25 * np.linalg.norm(C, 2) / (25')),
    ("wait for a push 10 times smaller instead of 100 times", "check-6-4", "wait",
     ("check-6-4", "np.log(100)", "np.log(10)")),
    ("rate from the largest eigenvalue instead of the least", "leave check-6-4", "wait",
     ("leave", "growth = -linear.collective[0]", "growth = linear.collective[-1]")),
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
     ("length", "tol=1e-9)", "tol=4.0)")),
    ("ridge ten times as strong, which lets every head fade", "starts check-finite",
     "a head keeps looking", ("starts", 'variants["ridge"]', "R + Ridge(0.4)")),
    ("limit of another run", "check-finite", "distance of the last state", end_of_the_other_run),
    ("rate 2c instead of c", "rates check-6-10", "largest E / bound",
     ("rates", "E[window[0]], c, 0.5)", "E[window[0]], 2 * c, 0.5)")),
    ("exponent α = ¾ with the constant of α = ½", "rates check-6-10", "particles",
     ("rates", "(0.75, 16.0)", "(0.75, 4.0)")),
    ("exponent fitted over the whole path", "rates check-6-10", "fitted from",
     ("rates", "run.t[window] >= late_from", "run.t[window] >= 0")),
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
    ("claim: a balanced head falls like 1/(4τ²)", "check-imbalance", "8τ²E at τ = 50",
     ("check-imbalance", "8 * 50**2", "4 * 50**2")),
    ("claim: E falls like e^{−βτ}", "check-imbalance", "exponential rate over 2β",
     ("check-imbalance", "/ 2 / 4, 1", "/ 2 / 2, 1")),
    ("claim: the bounds with constants larger by 0.5 % in the smallest case too",
     "smallest-theorem check-imbalance", "smallest case: least D",
     ("smallest-theorem", "= D / max(", "= D / 1.005 / max(")),
    ("second number moved by its own size", "smallest smallest-theorem check-imbalance",
     "exponential rate over 2β", ("smallest", "-a * np.tanh(a * b)\n", "-b * np.tanh(a * b)\n")),
    ("both numbers in W_V", "smallest-theorem check-imbalance", "smallest case: E and D",
     ("smallest-theorem", "z / np.sqrt(P)]", "z]")),
    ("upper envelope with α = ½", "exponents check-imbalance", "upper envelope",
     ("exponents", "* a * b), 0.75)", "* a * b), 0.5)")),
]  # fmt: skip


class TestLongTime(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
