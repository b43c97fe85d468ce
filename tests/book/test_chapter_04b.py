"""The checks of the certificates, Chapter 4b, fail for wrong programs.

As test_chapter_04.py: a plausible mistake is made in one cell; it and the cells that depend on it
run again, and the check at the end has to fail.
"""

import importlib

from chapter_runner import Chapter, computing, mistaken

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "04b-certificates.ipynb"))
# The same cells in smaller portions: the checks hold for any number of laws and rounds.
SMALLER = [
    ("boosting", "R, zero, seed, boost_rounds", "R, zero, seed, 1"),
    ("boosting", "silent, seed, boost_rounds", "silent, seed, 4"),
    ("boosting", "(451, 452, 453)", "(451, 452)"),
    ("boosting", "(453, 459, 460)", "(453, 459)"),
    ("check-shrunk", "silent, 457, 4", "silent, 457, 1"),
    ("brackets", "[1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]", "[1, 0.1]"),
    ("brackets", "for n in (1, 4, 16)]\ngaps", "for n in (4,)]\ngaps"),
    ("brackets", "for n in (1, 4, 16)]\nagain", "for n in (4,)]\nagain"),
    ("interior-run", "range(300)", "range(150)"),
    ("radius-run", "[0.5, 1.0, 1.5, 2.0, 3.0]", "[1.0, 2.0]"),
]

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
    ("best head with the other sign", "closed-form ingredients check-ingredients",
     "of the head in closed form",
     ("closed-form", "-r * u[0, :, 0]", "r * u[0, :, 0]")),
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
    ("floor of hard labels used everywhere", "radius-run check-radius", "largest one-hot floor",
     ("radius-run", "np.where(hard, easy, np.log(V))", "np.where(hard, np.log(V), np.log(V))")),
    ("claim: nothing is gained between the ends", "shrink radius-run check-radius",
     "largest bound on the grid of s",
     ("shrink", "for s in (0.0, inner, 1.0)", "for s in (0.0, 1.0)")),
    ("claim: the gap is the best of these bounds", "radius-run check-radius",
     "largest bound on the grid of s",
     ("radius-run", "shrunk(risk, run.measure, run.rigorous[-1])", "run.rigorous[-1]")),
    ("cost of a head taken as its size", "hand one-token check-bracket", "one token, first word",
     ("hand", "c * q + abs(c)", "abs(c)")),
    ("claim: the gap is within twice the true excess", "check-bracket", "gap / true excess",
     ("check-bracket", "by_hand(0.1, 0, 0)[1], 20)", "by_hand(0.1, 0, 0)[1] / 2, 20)")),
    ("cost of the heads of the law a fifth too high", "check-support",
     "against 0.9 of the best found",
     ("check-support", "on_support = local.first_variation(atoms)",
      "on_support = 0.8 * local.first_variation(atoms)")),
]  # fmt: skip


class TestCertificates(Chapter):
    cells = CELLS
    smaller = SMALLER
    skip = ("text-run",)
    wrong = WRONG
