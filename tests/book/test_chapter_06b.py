"""The checks of the page beside Chapter 6 fail for wrong programs."""

import numpy as np
from chapter_runner import Chapter, computing

from mfbook.measure import Measure
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "06b-remarks.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("interior", "pool=1000", "pool=300"),
    ("threshold", "[0.3, 1.0, 3.0, 5.5, 10.0, 17.0, 30.0]", "[1.0, 30.0]"),
    ("threshold", "(612, 613, 614)", "(612,)"),
    ("nondegenerate", "range(150)", "range(20)"),
]


# ---------------------------------------------------------------- replaced names


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
    return {"forces": worst}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
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
    ("λ above the threshold found, not above the one proved", "interior check-6-5", "rigorous gap",
     ("interior", "1.02 * proved", "1.02 * found")),
    ("claim: zero is optimal where it is stable", "interior check-6-5", "pays in between",
     ("interior", "1.02 * proved", "1.02 * threshold")),
    ("Frobenius norm instead of the largest singular value", "check-6-5", "λ − λ_c",
     lambda names: {"threshold": np.linalg.norm(
         names["local"].correlation(names["zero"].atoms)[0])}),
    ("ridge with the other sign", "check-6-5", "λ − λ_c",
     ("check-6-5", '(a["value"] - threshold)', '(threshold - a["value"])')),
    ("signs of W_V and W_O both flipped", "drift check-6-7", "W_O flipped",
     ("drift", "np.arange(24) < 18", "np.arange(24) < 12")),
    ("derivative of C forgotten in the threshold", "check-6-7", "worst head", without_derivative),
    ("mean over tokens taken twice in λ̄", "check-6-7", "against λ̄", mean_over_tokens_twice),
    ("Lambert's function of 3/e² instead of 3/e", "drift check-6-7", "saturation",
     ("drift", "np.arange(4) / np.e", "np.arange(4) / np.e**2")),
    ("derivative of C with the other sign", "rays check-6-7", "41 rays",
     ("rays", "+ C.imag", "- C.imag")),
    ("claim: any ridge keeps heads in their ball", "inward check-6-7", "all heads",
     ("inward", '("ridge 1.05 λ̄", strong)', '("ridge 1.05 λ̄", weak)'),
     ("inward", "lam - max(", "strong - max(")),
    ("claim: heads decay at the rate λ", "inward check-6-7", "all heads",
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


class TestRemarks(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
