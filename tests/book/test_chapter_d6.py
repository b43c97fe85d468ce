"""The checks of Appendix D6, on numbers and masses of atoms, fail for wrong programs."""

import importlib

import numpy as np
from chapter_runner import Chapter, computing, mistaken

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "d6-atoms.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("setup", "14.0, 20.0, 40.0)", "14.0, 20.0)"),
    ("parameters", "draws = 8", "draws = 3"),
]

COUNT = "counts check-count"
MASS = "curvature masses check-mass"


# ---------------------------------------------------------------- replaced names


def bounds_with(name, old, new):
    """A function of the package with one change of its module's text."""
    module = importlib.import_module("mfbook.bounds.atoms")

    def replace(names):
        def changed(*arguments):
            with mistaken(module, old, new):
                return getattr(module, name)(*arguments)

        return {name: changed}

    return replace


def count_with(old, new):
    return bounds_with("atom_count_bounds", old, new)


def mass_with(old, new):
    return bounds_with("local_mass_bound", old, new)


def regular_chains(names):
    """Equally many atoms at equal distances, with equal masses, on the same part of the floor."""

    def regular(end):
        n = len(end["theta"])
        chain = np.linspace(end["theta"][0], end["theta"][-1], n)
        return end | {"theta": chain, "mass": np.full(n, 1 / n)}

    ends = names["ends"]
    return {"ends": ends | {"valley": [regular(end) for end in ends["valley"]]}}


def first_chain_repeated(names):
    """Atoms in proportion to √β: the state at the first β, finer and finer."""
    first, ends = names["ends"]["valley"][0], []
    for k, end in enumerate(names["ends"]["valley"]):
        n = 1 + round((len(first["theta"]) - 1) * 2 ** (k / 2))
        theta = np.linspace(first["theta"][0], first["theta"][-1], n)
        ends.append(end | {"theta": theta, "mass": np.full(n, 1 / n)})
    return {"ends": names["ends"] | {"valley": ends}}


def coarse_minimisers(names):
    right = names["minimise_on_circle"]
    return {"minimise_on_circle": lambda F: right(F, tolerance=1e-4, maxiter=1)}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    # the number of atoms
    ("lower bound with half of the kernel's mass", COUNT, "valley: atoms / stated at least",
     count_with("flat / (2 * math.pi * lam0)", "flat / (math.pi * lam0)")),
    ("claim: an interval of length 1/√β on the floor holds an atom", COUNT,
     "valley: atoms / stated at least",
     count_with("flat / (2 * math.pi * lam0)", "flat * math.sqrt(beta)")),
    ("β forgotten beside the potential", COUNT, "published draw: atoms / stated at least",
     count_with("1 / (lam0 + beta * (mean - low))", "100 / (lam0 + (mean - low))")),
    ("growth of the kernel in the strip forgotten", COUNT, "valley: atoms / stated at most",
     count_with("beta * (np.cosh(tau) - 1) - math.log(beta)", "0 * tau - math.log(beta)")),
    ("nearest atom instead of the farthest", COUNT, "valley: atoms / stated at most",
     count_with("_farthest(x[known], place)", "_nearest(x[known], place)")),
    ("a zero at x for every pair of atoms: Green's function of a wider strip", COUNT,
     "weak: atoms / stated at most",
     count_with("arguments = (math.pi * d / (2 * tau)", "arguments = (math.pi * d / (200 * tau)")),
    ("Green's function of a strip twice as wide", "jensen check-count", "Jensen's formula allows",
     ("jensen", "np.pi * r / (4 * tau)", "np.pi * r / (8 * tau)")),
    ("each zero counted four times", "jensen check-count", "Jensen's formula allows",
     ("jensen", "(largest - here) / (2 * green)", "(largest - here) / (4 * green)")),
    ("kernel exp(−βu²)", "hand check-count", "by hand",
     ("hand", "np.sqrt(8 * np.log", "np.sqrt(4 * np.log")),
    ("mass of the two ends counted twice", "hand check-count", "by hand",
     ("hand", "q**3 + q**2 + q - 1", "q**3 + q**2 + q - 0.5")),
    ("floors half as long", "hand-circle check-count", "three atoms",
     ("hand-circle", "np.ptp(end[\"theta\"]) *", "0.5 * np.ptp(end[\"theta\"]) *")),
    ("mean of the potential instead of its least value", "random check-count", "(Λ − min v/2)",
     ("random", "100_001))).min()", "100_001))).mean()")),
    ("β forgotten in the level of the atoms", "random check-count", "½(v − min v)",
     ("random", "- low) * F.beta / 2", "- low) * F.beta**2 / 2")),
    ("minimisers that have not converged", COUNT, "certified gap", coarse_minimisers),
    ("claim: at most as many atoms as units", "check-count", "published draw: stated at most",
     ("check-count", "most[\"published draw\"].max(), 10)", "most[\"published draw\"].max(), 2)")),
    # the order
    ("regular chains", "bulk check-bulk", "gap in the middle / at the end", regular_chains),
    ("claim: atoms in proportion to √β", "bulk check-bulk", "mean gap", first_chain_repeated),
    ("claim: as many atoms as β", "check-bulk", "valley: exponent of β",
     ("check-bulk", "coarse(value, 2), 0.4)", "coarse(value, 2), 1)")),
    ("no room beside the floor", "bulk check-bulk", "atoms / bound with",
     ("bulk", "(flat + 2 * leak + 2 * t)", "flat")),
    ("claim: every K will do, K ≤ √β times anything", "bulk check-bulk", "atoms / bound with",
     ("bulk", "x = np.exp(-K * (K + 1) / (2 * beta))", "x = 0.5 + 0 * K")),
    ("a lower bound without the logarithm", "bulk check-bulk", "β = 1e24",
     ("bulk", "np.geomspace(0.05, 12, 300)", "np.geomspace(0.05, 1, 300)")),
    ("claim: the exponent is a quarter", "check-bulk", "both: exponent",
     ("check-bulk", "coarse(max(slope.values()), 2), 1)", "coarse(max(slope.values()), 2), 0.25)")),
    ("gaps in radians", "bulk check-bulk", "mean gap",
     ("bulk", "np.diff(theta) * root", "np.diff(theta) * root**2")),
    # masses
    ("curvature with the other sign", MASS, "atoms: mass / bound", mass_with(
        "min(max((b + kappa) /", "min(max((b - kappa) /")),
    ("curvature of v instead of v/2 halved again", MASS, "atoms: mass / bound", mass_with(
        "validate.finite(curvature, \"curvature\")",
        "0.5 * validate.finite(curvature, \"curvature\")")),
    ("claim: no atom is heavier than without a perceptron", MASS, "atoms: mass / bound", mass_with(
        "validate.finite(curvature, \"curvature\")",
        "0 * validate.finite(curvature, \"curvature\")")),
    ("a constant one per cent smaller", MASS, "the same, largest", mass_with(
        "min(max((b + kappa) / (s + b), 0.0), 1.0)",
        "min(max(0.99 * (b + kappa) / (s + b), 0.0), 1.0)")),
    ("pressure of the others forgotten", MASS, "the same, largest", mass_with(
        "(b + kappa) / (s + b)", "kappa / s")),
    ("a unit that pushes the pair apart", "check-mass", "their speed",
     ("check-mass", "[[1.0, 0.0]], [-L]", "[[1.0, 0.0]], [L]")),
    ("repulsion inside an atom forgotten", "masses check-mass", "least (δE)''",
     ("masses", "curved = kernel(t[:, None] - t, beta)[2] @ w / beta",
      "curved = -kernel(t[:, None] - t, beta)[2] @ w / beta * 3")),
    ("ascent instead of descent", MASS, "published draw: mass of a cluster",
     ("curvature", '"direction": "descent"', '"direction": "ascent"')),
    ("units counted where they are off", MASS, "atoms: mass / bound",
     ("curvature", "-(active * np.cos(2 * apart))", "-np.cos(2 * apart)")),
    ("claim: the bound with L says something", "check-mass", "published draw: L",
     ("check-mass", 'at_least("published draw: L", L, 1)',
      'at_most("published draw: L", L, 0.66)')),
]  # fmt: skip


class TestAtoms(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
