"""The checks of Appendix A, part 5 (extremal states), fail for wrong programs.

The cells of the notebook run once, in their order and in smaller portions. For a wrong program a
plausible mistake is made in one of them; it and the cells that depend on it run again, and the
check has to end in its assertion, for the row that the mistake is about.
"""

from dataclasses import replace

from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "a-sphere-extremal.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("tops", "range(tries)", "range(100)"),
    ("quadratic", '("relu", 1.0), ("relu", 50.0), ("gelu", 50.0)', '("relu", 1.0), ("gelu", 50.0)'),
    ("check-circle-minimiser", "for row in programs), 3, 0)", "for row in programs), 2, 0)"),
    ("threshold", "(0.2, 0.5, 1.0, 1.5, 1.9, 2.5, 5.0, 20.0)", "(0.5, 1.5, 5.0)"),
    ("gaps", "range(60)", "range(15)"),
    ("gaps", "uniform(0.5, 5, 60)", "uniform(0.5, 5, 15)"),
    ("higher", "(3, 4, 5, 8)", "(3, 4)"),
    ("higher", "range(30)", "range(5)"),
    ("runs", '("relu", 0.1), ("relu", 1.0), ("relu", 5.0), ("gelu", 0.1), ("gelu", 1.0),',
     '("relu", 1.0), ("gelu", 1.0),'),
    ("runs", '\n          ("gelu", 10.0), ("gelu", 50.0))', ")"),
    ("check-converged", "for r in rows), 8, 0)", "for r in rows), 3, 0)"),
    ("wells", "np.geomspace(0.05, 60, 70)", "np.geomspace(0.05, 60, 20)"),
]  # fmt: skip
SKIP = ("runs-table", "history")


# ---------------------------------------------------------------- replaced names


def loose_minimiser(names):
    right = names["minimise_on_circle"]
    return {"minimise_on_circle": lambda F: right(F, tolerance=1e-3)}


def loose_gap(names):
    """The value found for its proved bound."""
    right = names["frank_wolfe_gap"]

    def gap(F, mu, rng, **options):
        found = right(F, mu, rng, **options)
        return replace(found, rigorous=0.9 * found.found)

    return {"frank_wolfe_gap": gap}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("factor 1/2 of the interaction lost", "tops check-3-7", "E at the point mass",
     ("tops", "top, at = 1 / (2 * F.beta)", "top, at = 1 / F.beta")),
    ("factor 1/2 of the potential lost", "tops check-3-7", "ascent from a cap",
     ("tops", "+ best.value / 2, Measure", "+ best.value, Measure")),
    ("weights of the units with the other sign", "tops check-3-7", "d = 3: E at the point mass",
     ("tops", "maximise_potential(F)", "maximise_potential(F.a, -F.omega)")),
    ("interaction forgotten in the stated maximum", "tops check-3-7", "d = 2: largest E",
     ("tops", "top, at = 1 / (2 * F.beta) + ", "top, at = ")),
    ("whole energy instead of its interaction", "tops check-3-7", "two or more atoms",
     ("tops", "F.energy_parts(m)[0]", "F(m)")),
    ("sum of the measures instead of their difference", "symmetry check-3-7", "circle, one unit",
     ("symmetry", "-turned.weights", "turned.weights")),
    ("s(1 − s) instead of its half", "symmetry check-3-7", "sphere, two units: reflection",
     ("symmetry", "(8 * F.beta)", "(4 * F.beta)")),
    ("unit on another axis", "symmetry check-3-7", "sphere, one unit: rotation",
     ("symmetry", "[[0, 0, 1.0]], [0.7]", "[[0, 1.0, 0]], [0.7]")),
    ("control whose units are symmetric after all", "symmetry check-3-7", "control",
     ("symmetry", "[[0.6, 0.0, 0.8], [-0.28, 0.0, 0.96]]", "[[0, 0, 1.0], [0, 0, -1.0]]")),
    ("units that are not symmetric", "rings check-3-7", "asymmetry",
     ("rings", "[0.5, -0.4, -0.4]", "[0.5, -0.4, -0.3]")),
    ("Bessel function of another order", "rings meridian check-3-7", "gap of the rings",
     ("rings", "ive(0,", "ive(1,")),
    ("factor 1/2 of the rings' interaction lost", "rings meridian check-3-7", "gap of the rings",
     ("rings", "/ (2 * beta) + unit", "/ beta + unit")),
    ("regions counted as all vectors of signs", "brute check-3-3", "d = 3, J = 7: regions",
     ("brute", "J * J - J + 2", "2**J")),
    ("all units active everywhere", "brute check-3-3", "least max v",
     ("brute", "np.maximum(x @ a.T, 0) ** 2", "(x @ a.T) ** 2")),
    ("fourth power of the distance instead of the square", "brute check-3-3", "room of the cover",
     ("brute", "room = found.candidates, reach**2", "room = found.candidates, reach**4")),
    ("signs of the weights dropped", "brute check-3-3", "v at the point",
     ("brute", "maximise_potential(units, w)", "maximise_potential(units, np.abs(w))")),
    ("regions on the other side of each unit", "brute check-3-3", "in a region",
     ("brute", "points @ units.T > 0", "points @ units.T < 0")),
    ("inside and outside exchanged", "brute check-3-3", "eigenvector inside",
     ("brute", "[t.inside]).max(initial=0)", "[~t.inside]).max(initial=0)")),
    ("sides of collinear units ignored", "closed-forms check-3-3", "closed forms: |value",
     ("closed-forms", "collinear_maximum(line, signs, w)",
      "collinear_maximum(line, np.abs(signs), w)")),
    ("weights squared", "closed-forms check-3-3", "distance of the maximisers",
     ("closed-forms", "nonnegative_maximum(positive, w)", "nonnegative_maximum(positive, w**2)")),
    ("minimiser stopped early", "minimisers check-circle-minimiser", "largest certified gap",
     loose_minimiser),
    ("potential counted twice off the support", "minimisers check-circle-minimiser",
     "distance below the mean",
     ("minimisers", "F.first_variation(grid, found.measure)",
      "F.first_variation(grid, found.measure) + F.potential(grid) / 2")),
    ("masses of the atoms ignored", "minimisers check-circle-minimiser", "largest spread",
     ("minimisers", "F.first_variation(found.measure.atoms, found.measure)",
      "F.first_variation(found.measure.atoms, Measure(found.measure.atoms))")),
    ("potential instead of its half",
     "quadratic check-circle-minimiser", "quadratic programs between",
     ("quadratic", "F.potential(x) / 2", "F.potential(x)")),
    ("neighbours lost when refining", "quadratic check-circle-minimiser",
     "quadratic programs between", ("quadratic", "np.arange(-4, 5)", "np.arange(-1, 2)")),
    ("room without the kernel's curvature", "quadratic check-circle-minimiser",
     "quadratic programs between",
     ("quadratic", "room = M * h**2 / 8 + (1 + 3 * beta) * (h**2 / 8) ** 2 / 2 + w @ slope - "
      "slope.min()", "room = 0 * M")),
    ("splitting of the atom forgotten in the threshold",
     "threshold check-circle-minimiser", "threshold κ_c",
     ("threshold", "max(1.0, 2 / beta * (1 - np.exp(-2 * beta)))",
      "2 / beta * (1 - np.exp(-2 * beta))")),
    ("claim: the threshold is 1 for every β", "threshold check-circle-minimiser", "threshold κ_c",
     ("threshold", "stated = max(1.0, 2 / beta * (1 - np.exp(-2 * beta)))", "stated = 1.0")),
    ("equator instead of the opposite pole", "threshold check-circle-minimiser", "just above κ_c",
     ("threshold", "np.exp(-2 * beta)", "np.exp(-beta)")),
    ("threshold doubled", "threshold check-circle-minimiser", "just below κ_c",
     ("threshold", "stated = max(", "stated = 2 * max(")),
    ("other eigenvalue of the region forgotten", "pairs check-circle-minimiser", "pair: largest",
     ("pairs", "kappa, alpha = high - low,", "kappa, alpha = -low,")),
    ("angle of the pair not halved", "pairs check-circle-minimiser", "pair: largest",
     ("pairs", "np.log(kappa) / beta) / 2", "np.log(kappa) / beta)")),
    ("weights of the units not changed", "wells check-circle-minimiser", "weights times 0.1",
     ("wells", ", scale=s)", ")")),
    ("excess energy doubled", "gaps check-gap", "circle: largest (excess",
     ("gaps", "F(mu) - best.value", "2 * (F(mu) - best.value)")),
    ("sum of the measures instead of the difference", "gaps check-gap", "over excess",
     ("gaps", "-best.measure.weights", "best.measure.weights")),
    ("factor 1/2 of the square lost", "gaps check-gap", "over excess",
     ("gaps", "/ (2 * beta)))", "/ beta))")),
    ("certified gap below the gap found", "gaps check-gap", "circle: least rigorous", loose_gap),
    ("least energy of another perceptron", "gaps check-gap", "circle: least excess",
     ("gaps", 'least[units, beta]', 'least["gelu" if units == "relu" else "relu", beta]')),
    ("curvature of the perceptron forgotten", "brackets check-gap", "|f''| / M",
     ("brackets", "M = 1 + F.activation.lipschitz() * np.abs(omega).sum()", "M = 1.0")),
    ("sum of the weights instead of their sizes", "brackets check-gap", "|f''| / M",
     ("brackets", ".lipschitz() * np.abs(omega)", ".lipschitz() * omega")),
    ("radial instead of tangential derivative", "brackets check-gap", "|f''| / M",
     ("brackets", "circle(t + np.pi / 2)).sum", "circle(t)).sum")),
    ("masses of the atoms ignored in the mean", "brackets check-gap", "gap by lower_bound",
     ("brackets", "mean = mu.weights @ F.first_variation(mu.atoms, mu)",
      "mean = F.first_variation(mu.atoms, mu).mean()")),
    ("values at midpoints instead of a bound for the interval",
     "meridian brackets check-gap", "gap by lower_bound",
     ("meridian", "low = f - slope * h - M * h * h / 2", "low = f")),
    ("excess energy doubled on the sphere", "higher check-gap", "sphere: largest excess",
     ("higher", "F_rings(mu) - ring_least", "2 * (F_rings(mu) - ring_least)")),
    ("search with too few cells from d = 4 on", "higher check-gap", "closed for d = 3 and 4",
     ("higher", "budget=300_000)\n        wide", "budget=3 * 10 ** (8 - d))\n        wide")),
    ("share not squared", "two-wells-numbers check-converged", "two wells: |excess",
     ("two-wells-numbers", "(shares - 0.5) ** 2", "(shares - 0.5)")),
    ("units that are twice as strong", "two-wells two-wells-numbers check-converged",
     "two wells: |certificate",
     ("two-wells", "[-1.0, -1.0])", "[-2.0, -1.0])")),
    ("claim: the certificate is the excess", "two-wells-numbers check-converged",
     "two wells: |certificate",
     ("two-wells-numbers", "gain * shares * (2 * shares - 1)", "gain * (shares - 0.5) ** 2")),
    ("stopping rule that allows a large speed",
     "runs basin barrier remedy check-converged", "largest speed then",
     ("runs", "settle(F, sphere.start(), record=1)",
      "settle(F, sphere.start(), record=1, tolerance=1e-1)")),
    ("runs started at the minimiser",
     "runs basin barrier remedy check-converged", "least certified gap",
     ("runs", "settle(F, sphere.start(), record=1)", "settle(F, best.measure, record=1)")),
    ("curvature with the other sign", "runs basin barrier remedy check-converged", "(1): least f''",
     ("runs", "second(F, end.measure,", "-second(F, end.measure,")),
    ("atoms that do not move", "barrier remedy check-converged", "barrier on the geodesic",
     ("barrier", "circle(angles(mu.atoms)[i] + x * turn[i, j])", "circle(angles(mu.atoms)[i])")),
    ("geodesic instead of the mixture", "barrier remedy check-converged", "mixture: highest",
     ("barrier", "mixture(mu, nu, x)",
      "Measure(circle(angles(mu.atoms)[i] + x * turn[i, j]), w)")),
    ("change of energy with the other sign", "barrier check-converged", "a jump of 1e-4",
     ("barrier", "(F(moved) - F(mu))", "(F(mu) - F(moved))")),
    ("mass added at the opposite point", "remedy check-converged", "the same, least",
     ("remedy", 'Measure.dirac(r["gap"].point), share))\n    grown',
      'Measure.dirac(-r["gap"].point), share))\n    grown')),
    ("fall of energy doubled", "remedy check-converged", "mass added: largest fall",
     ("remedy", '(share * r["gap"].found),\n        "gap after',
      '(share * r["gap"].found / 2),\n        "gap after')),
    ("one round of boosting instead of five", "remedy check-converged", "five rounds",
     ("remedy", "boost(F, end, 0, 5,", "boost(F, end, 0, 1,")),
    ("factor 4 of the inequality lost", "basin check-converged", "least rise of E",
     ("basin", "rise / (lam / 4)", "rise / lam")),
    ("arcs laid around the minimiser instead of the end",
     "basin check-converged", "flows that end in the arcs",
     ("basin", "angles(end.atoms)))))", 'angles(r["best"].measure.atoms)))))')),
    ("plain and normalised attention exchanged", "sweep check-sweep", "the runs above: least",
     ("sweep", "normalised=normalised)", "normalised=not normalised)")),
    ("runs not in the order of β", "sweep check-sweep", "the runs above",
     ("sweep", '[np.argsort(stored["beta"][i])]', "[::-1]")),
    ("minimisers of the other activation", "sweep check-sweep", "with units: least excess",
     ("sweep", "lowest[units, beta].value",
      'lowest["gelu" if units == "relu" else "relu", beta].value')),
    ("another run computed than the stored one", "again check-sweep", "computed again: gap",
     ("again", '"seed", "scale")})', '"seed", "scale")} | {"units": "relu"})')),
]  # fmt: skip


class TestExtremal(Chapter):
    cells = CELLS
    smaller = SMALLER
    skip = SKIP
    wrong = WRONG
