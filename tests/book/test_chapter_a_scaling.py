"""The checks of Appendix A, part 3 (scaling), fail for wrong programs.

The cells of the notebook run once, in their order and in smaller portions. For a wrong program a
plausible mistake is made in one of them; it and the cells that depend on it run again, and the
check has to end in its assertion, for the row that the mistake is about.
"""

from types import SimpleNamespace

import numpy as np
from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "a-sphere-scaling.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("snapshots", "(3, \"none\", 3.0, True),\n                           (3, \"relu\", 3.0, True), "
     "(2, \"gelu\", 10.0, False),\n                           (3, \"relu\", 10.0, False)):",
     "(3, \"none\", 3.0, True)):"),
    ("inside", "n=80", "n=50"),
    ("draws", "n=120", "n=60"),
    ("draws", "range(1, starts + 1)", "range(1, 5)"),
    ("many-draws", "range(starts)", "range(4)"),
    ("times", "range(starts)", "range(5)"),
]  # fmt: skip
SKIP = ("search",)


# ---------------------------------------------------------------- replaced names


def factor_of_curvature_lost(names):
    right = names["kernel"]

    def kernel(u, beta):
        h, first, _ = right(u, beta)
        return h, first, beta * (np.sin(u) ** 2 - np.cos(u)) * h

    return {"kernel": kernel}


def inflection_at_half_the_beta(names):
    right = names["inflection"]
    return {"inflection": lambda beta: right(beta / 2)}


def limits_for_every_beta(names):
    return {"b_all": np.full_like(names["b_all"], names["limit_b"])}


def arc_not_scaled(names):
    """The constant a on the arc of length γ/β."""
    right = names["anticoncentration"]
    arcs = [right(beta, 0.5 * min(1.0, beta**-0.5))[0] for beta in names["temperatures"]]
    return {"a_half": np.array(arcs)}


def with_strength(factor):
    """The bound of Theorem 3.5 with another L."""

    def replace(names):
        right = names["second_order_bound"]
        return {"second_order_bound": lambda beta, L, diameter: right(beta, factor * L, diameter)}

    return replace


def bound_too_small(names):
    right = names["second_order_bound"]
    return {"second_order_bound": lambda beta, L, diameter: right(beta, L, diameter) / 20}


def not_polished(names):
    states = {key: SimpleNamespace(measure=mu) for key, mu in names["stopped"].items()}
    return {"polished": states}


def kernel_alone(names):
    """The constant s without its second factor."""
    return {"chord": lambda beta, diameter, d=2: np.exp(beta * (np.cos(diameter) - 1))}


def kernel_at_zero(names):
    right = names["chord"]
    return {"chord": lambda beta, diameter, d=2: right(0.0, diameter, d)}


def radius_for_diameter(names):
    right = names["chord"]
    return {"chord": lambda beta, diameter, d=2: right(beta, 2 * diameter, d)}


def total_mass(names):
    right = names["two_body"]
    return {"two_body": lambda beta, M, far, near: right(beta, 1.0, far, near)}


def group_bound_a_third(names):
    right = names["first_order_bound"]
    return {"first_order_bound": lambda *arguments: right(*arguments) / 3}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("factor β of the curvature lost", "constants check-lemma-5-3", "complex step",
     factor_of_curvature_lost),
    ("exponent β cos u instead of β (cos u − 1)", "check-lemma-5-3", "complex step",
     ("check-lemma-5-3", "(np.cos(u) - 1))  #", "np.cos(u))  #")),
    ("point of inflection at another temperature", "constants check-lemma-5-3", "just inside u*",
     inflection_at_half_the_beta),
    ("claim: u* is of order 1/β", "check-lemma-5-3", "u* √β at β = 1e6",
     ("check-lemma-5-3", "inflection(1e6) * 1e3", "inflection(1e6) * 1e6")),
    ("limit for large β used for every β",
     "check-lemma-5-3", "b against a grid", limits_for_every_beta),
    ("arc of length γ/β instead of γ/√β", "check-lemma-5-3", "a against a grid", arc_not_scaled),
    ("perceptron dropped from the bound", "polish pair check-theorem-3-5",
     "their mass / bound, largest", with_strength(0)),
    ("perceptron counted twice in the bound", "polish pair check-theorem-3-5",
     "their mass / bound, smallest", with_strength(2)),
    ("bound twenty times too small",
     "polish pair check-theorem-3-5", "with its own diameter", bound_too_small),
    ("end states not polished by Newton's method",
     "polish pair check-theorem-3-5", "verified as second-order points",
     not_polished),
    ("claim: a run that has stopped is a second-order point", "polish check-theorem-3-5",
     "an eigenvalue below −1e-4",
     ("polish", "(stopped[units, scale, beta], end.measure)", "(end.measure, end.measure)")),
    ("claim: what has stopped does not move", "polish check-theorem-3-5",
     "stopped states: least speed",
     ("polish", "before.append((rough.gradient,", "before.append((fine.gradient,")),
    ("largest eigenvalue taken for the least", "polish check-theorem-3-5",
     "an eigenvalue below −1e-4",
     ("polish", "rough.gradient, rough.least))", "rough.gradient, rough.eigenvalues[-1]))")),
    ("claim: single atoms are bounded too", "check-theorem-3-5", "with its own diameter",
     ("check-theorem-3-5", "max(r for _, r in heaviest.values())", "max(over)")),
    ("claim: one atom is as stable as its halves", "single check-theorem-3-5", "one atom",
     ("single", "second_order(F, one).sopd()", "second_order(F, halves).sopd() and L < 0.9")),
    ("perceptron dropped from the pair", "pair check-theorem-3-5", "pairs with β ≤ 1/3",
     ("pair", "(q + L * np.cos(delta / 2))", "q")),
    ("claim: the pair is twice as stable", "pair check-theorem-3-5", "spread of the pair",
     ("pair", "delta**2 / (4 * (1 + q_0))", "delta**2 / (2 * (1 + q_0))")),
    ("claim: the bound is a tenth smaller", "check-theorem-3-5", "their mass / bound, largest",
     ("check-theorem-3-5", "max(r for r, _ in tight)", "max(r / 0.9 for r, _ in tight)")),
    ("kernel alone, without its second factor",
     "check-stationary", "stationary pairs: mass / bound, largest",
     kernel_alone),
    ("diameter of a group doubled", "check-stationary", "s − a", radius_for_diameter),
    ("kernel at β = 0", "states check-stationary", "random groups", kernel_at_zero),
    ("perceptron forgotten in the bound", "states check-stationary", "random groups",
     ("states", " - size(F))", ")")),
    ("tokens outside the group forgotten", "states check-stationary", "random groups",
     ("states", " - anticoncentration(F.beta)[1] * (1 - m)", "")),
    ("speed of the tokens halved", "states check-stationary", "random groups",
     ("states", "** 2).sum(axis=1)\n    return", "** 2).sum(axis=1) / 4\n    return")),
    ("speed halved in the snapshots", "snapshots check-stationary", "snapshots of flows: √V",
     ("snapshots", "found[2] / found[1], found[3]", "found[2] / found[1] / 2, found[3]")),
    ("claim: the variance V in place of its root", "spread states check-stationary",
     "nearly attained", ("spread", "return np.sqrt(w @ (log**2).sum(axis=1) / w.sum())",
      "return w @ (log**2).sum(axis=1) / w.sum()")),
    ("constant b dropped from the level",
     "heavy-atoms check-corollary-3-6", "distance of two atoms",
     ("heavy-atoms", "level = (anticoncentration(beta)[1] + L) / together - "
      "anticoncentration(beta)[1]", "level = L / together")),
    ("circle covered by too few arcs",
     "heavy-atoms check-corollary-3-6", "N m̄ on the whole circle",
     ("heavy-atoms", "np.ceil(2 * np.pi * np.sqrt(beta) / g)",
      "np.ceil(np.pi * np.sqrt(beta) / g / 4)")),
    ("bound twenty times too small, for heavy atoms",
     "heavy-atoms check-corollary-3-6", "heavy atoms in an arc",
     bound_too_small),
    ("claim: no short arc has two atoms of mass κ", "heavy-atoms check-corollary-3-6",
     "heavy atoms in an arc",
     ("heavy-atoms", "/ max(1.0, m_bar / kappa), 0))", "/ 1.0, 0))")),
    ("clusters of all later runs counted in",
     "stored strength check-figure-12", "no perceptron, both draws",
     ("stored", 'store["first"][i]:store["first"][i + 1]]', 'store["first"][i]:]')),
    ("clusters of ReLU taken for those of attention alone", "strength check-figure-12",
     "no perceptron, both draws",
     ("strength", "d=d, units=units, **common", 'd=d, units=units if d > 2 else "relu", **common')),
    ("weights of the units not scaled", "weak check-figure-12", "weak scales, circle",
     ("weak", "strength(\"relu\", d, scale=scale)", "strength(\"relu\", d, scale=scale / 100)")),
    ("claim: the perceptron counts with the factor exp(−β)", "weak check-figure-12",
     "weak scales, circle", ("weak", "second_order_bound(beta, L, reach)",
                             "second_order_bound(beta, L * np.exp(-beta), reach)")),
    ("claim: the published perceptron is weak enough for the theorem", "check-figure-12",
     "published perceptron: bound", ("check-figure-12", '(limit_b + strength("relu", d))',
                                     '(limit_b + strength("relu", d) * np.exp(-5))')),
    ("claim: the line of the program bounds masses on the circle", "check-figure-12",
     "circle, published, ReLU", ("check-figure-12", "by_beta[True, 2, \"relu\"]",
                                 "by_beta[True, 2, \"gelu\"]")),
    ("claim: masses respect the line whatever the draw", "check-figure-12",
     "S², published", ("check-figure-12", "top[True, 3, units]", "top[False, 3, units]")),
    ("bound of a group a third of what it is",
     "inside check-figure-12", "live: mass of a group", group_bound_a_third),
    ("claim: the count grows like β on the circle", "slopes-fit rulers check-figure-9",
     "R² of the line in √β", ("slopes-fit", "linregress(x, y)", "linregress(x**2, y)")),
    ("slope in β instead of √β", "slopes-fit rulers check-figure-9", "slope / 4π",
     ("slopes-fit", "linregress(x, y)", "linregress(x**2, y)")),
    ("normalisation of the stored run forgotten", "recompute check-figure-9", "the same: energy",
     ("recompute", "published(**cell)", 'published(**{**cell, "normalised": False})')),
    ("factor 2 lost in 4π√β", "rulers check-figure-9", "all runs of both draws",
     ("rulers", "(2 * np.pi / arc + 1)", "(np.pi / arc + 1)")),
    ("cap of the arcs forgotten", "slopes-fit rulers check-figure-9", "plateau with the cap",
     ("slopes-fit", '("source", "uncapped")', '("uncapped", "uncapped")')),
    ("claim: the text's rule counts 8 at small β too", "slopes-fit rulers check-figure-9",
     "without the cap", ("slopes-fit", '("source", "uncapped")', '("source", "source")')),
    ("claim: with ReLU descent grows with β: runs at the horizon counted in", "rulers "
     "check-figure-9", "runs that stopped", ("rulers", 'relu[theirs["stopped"][relu]]', "relu")),
    ("claim: on S² ascent follows √β", "slopes-normalised check-figure-9", "S², ascent",
     ("slopes-normalised", "d=3", "d=2")),
    ("descent counted for ascent", "draws check-figure-10", "different counts among 50 starts",
     ("draws", '"direction": way,', '"direction": "descent",')),
    ("masses of the clusters lost", "draws check-figure-10", "the same for masses",
     ("draws", "shares[name] = np.take", "shares[name] = 0 * np.take")),
    ("live run at another temperature", "draws check-figure-10", "ascent, no perceptron: mean of",
     ("draws", ".energy(sweep.DRAWS_BETA, units)", ".energy(sweep.DRAWS_BETA / 25, units)")),
    ("factor 1/2 of the formula lost", "two-body two-clusters check-merging",
     "two clusters: relative error", ("two-body", " / (2 * M)", " / M")),
    ("one integral of the formula dropped",
     "two-body two-clusters check-merging", "two clusters: relative error",
     ("two-body", "\n                + np.exp(2 * beta) * exp1(beta * (1 + np.cos(phi)))",
      "")),
    ("claim: lives are exponential in half of β (1 − cos g)", "two-clusters check-merging",
     "leading term", ("two-clusters", "np.exp(beta * (1 - np.cos(phi)))",
                      "np.exp(beta * (1 - np.cos(phi)) / 2)")),
    ("mass of one cluster instead of both", "many-draws check-merging", "last pair",
     ("many-draws", "w + np.roll(w, -1)", "w")),
    ("longest of the times instead of the shortest",
     "many-draws check-merging", "three clusters or more: life",
     ("many-draws", "bound = min(", "bound = max(")),
    ("total mass instead of that of the pair", "many-draws check-merging", "life / bound, median",
     total_mass),
    ("scale of the perceptron forgotten", "times check-times", "exponent of c",
     ("times", "n=30, scale=scale)", "n=30)")),
    ("claim: ReLU shortens the time as GeLU does", "times check-times",
     "ascent, ReLU: size of the exponent",
     ("times", "draw.energy(5.0, units, normalised)", 'draw.energy(5.0, "gelu", normalised)')),
    ("strength L of the perceptron with the other sign", "times check-times", "distance covered",
     ("times", "(top + size(F))", "(top - size(F))")),
    ("claim: normalising does not matter for the time", "times check-times", "normalised / plain",
     ("times", "draw.energy(5.0, units, normalised)", "draw.energy(5.0, units, False)")),
    ("ascent for both directions", "times check-times", "descent / ascent",
     ("times", 'ascent=way == "ascent"', "ascent=True")),
]  # fmt: skip


class TestScaling(Chapter):
    cells = CELLS
    smaller = SMALLER
    skip = SKIP
    wrong = WRONG
