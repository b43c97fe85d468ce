"""The checks of Appendix B, networks as measures, fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

from dataclasses import replace

import numpy as np
from chapter_runner import Chapter, computing

from mfbook.transport import Plan
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "b-primer.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("flows", "np.geomspace(1, 400, 24)", "np.geomspace(1, 400, 6)"),
    ("lift", "range(random_pairs)", "range(20)"),
    ("geodesic", "range(908, 918)", "range(911, 913)"),
    ("geodesic", "others[4]", "others[1]"),
    ("ridge", "range(100)", "range(10)"),
    ("own-motion", "np.geomspace(100, 2000, 64)", "np.geomspace(100, 400, 24)"),
    ("own-motion", "range(909, 919)", "range(909, 914)"),
    ("own-stability", '"couplings": 16', '"couplings": 4'),
    ("own-stability", '"maxiter": 30', '"maxiter": 2'),
    ("own-optimal", '"starts": 16, "maxiter": 100', '"starts": 4, "maxiter": 60'),
    ("own-optimal", "nobody, seed, 4,", "nobody, seed, 3,"),
]


# ---------------------------------------------------------------- replaced names


def everything_everywhere(names):
    """The independent coupling in the place of the optimal plan."""

    def optimal_plan(mu, nu):
        i, j = (index.ravel() for index in np.indices((mu.size, nu.size)))
        mass = mu.weights[i] * nu.weights[j]
        lengths = ((mu.atoms[i] - nu.atoms[j]) ** 2).sum(axis=1)
        return Plan(i, j, mass, float(np.sqrt(mass @ lengths)))

    return {"optimal_plan": optimal_plan}


def gradient_of_the_sum(names):
    """The loss differentiated as if it were not halved."""
    right = names["slope"]
    return {"slope": lambda theta: 2 * right(theta)}


def gradient_without_the_bend(names):
    """The derivative of the activation forgotten."""
    x, y = names["x"], names["y"]

    def slope(theta):
        a, w, b = theta.T
        S = np.tanh(np.outer(x, w) + b)
        r = S @ a / len(theta) - y
        inner = np.tile(a, (len(x), 1))
        return np.stack([r @ S, (r * x) @ inner, r @ inner], axis=1) / (len(x) * len(theta))

    return {"slope": slope}


def not_rescaled(names):
    """The parameters at the time of the measure."""
    distances = names["distances"]
    return {"distances": distances | {"parameters at time mτ": distances["parameters at time τ"]}}


def rescaled_after_all(names):
    distances = names["distances"]
    return {"distances": distances | {"parameters at time τ": distances["parameters at time mτ"]}}


def time_of_half_as_many(names):
    """Each neuron twice, at the time of m neurons."""
    states = names["train"](np.repeat(names["start"], 2, axis=0), names["m"] * names["tau"])
    return {"distances": names["distances"] | {"each neuron twice": names["distance_of"](states)}}


def radius_forgotten(names):
    return {"proved": names["proved"] / 8}


def mean_over_data_twice(names):
    return {"gap": replace(names["gap"], found=names["gap"].found / len(names["x"]))}


# ---------------------------------------------------------------- wrong programs

LIFT, GEODESIC = "lift check-lift", "geodesic ridge check-geodesic"
OWN = "own own-motion check-own"

# Name of the mistake; the cells to run again, the last of them a check; words of the row that has
# to fail; the mistakes: a cell with what is written there and what should be, or replaced names.
WRONG = [
    ("sum over neurons instead of the mean", "network lift check-lift", "answer of the measure",
     ("network", " in theta) / len(theta)", " in theta)")),
    ("parameters averaged instead of measures mixed", LIFT, "formula for chord",
     ("lift", "L(mixture(Measure(first), Measure(second), r))",
      "L(Measure((1 - r) * first + r * second))")),
    ("ends of the chord exchanged", LIFT, "formula for chord",
     ("lift", "(1 - s) * mixed[0] + s * mixed[-1]", "s * mixed[0] + (1 - s) * mixed[-1]")),
    ("one half in the formula lost", "check-lift", "formula for chord",
     ("check-lift", "s * (1 - s) / 2 * apart", "s * (1 - s) * apart")),
    ("shares of the mixture exchanged", "check-lift", "defect of linearity",
     ("check-lift", "mixture(mu, nu, 0.25)", "mixture(mu, nu, 0.75)")),
    ("geodesics instead of mixtures", "check-lift", "300 random mixtures",
     ("check-lift", "L(mixture(p, q, r))", "L(displacement(p, q, r))")),
    ("the same order of neurons twice", LIFT, "two orders: height",
     ("lift", "three[[1, 2, 0]]", "three")),
    ("time not multiplied by m", "check-correspondence", "largest W₂ between", not_rescaled),
    ("time for m neurons used for 2m", "check-correspondence", "each neuron twice",
     time_of_half_as_many),
    ("gradient of a loss that is not halved",
     "check-correspondence", "written-out gradient", gradient_of_the_sum),
    ("derivative of the activation forgotten", "check-correspondence", "written-out gradient",
     gradient_without_the_bend),
    ("gradient of a parameter without the factor m", "check-correspondence", "m ∂L/∂θ",
     ("check-correspondence", "np.abs(m * slope(start)", "np.abs(slope(start)")),
    ("mean of the first variation not taken off", "check-correspondence", "reaction to a mass",
     ("check-correspondence", " - law.integrate(L.first_variation(start, law))", "")),
    ("flow with the other sign", "check-correspondence", "weak form",
     ("check-correspondence", "weak = -(", "weak = (")),
    ("factor m kept where the example forgets it", "check-correspondence", "factor m forgotten",
     rescaled_after_all),
    ("W₁ instead of W₂", "check-geodesic", "W₂ by hand",
     ("check-geodesic", "wasserstein(left, right) ** 2", "wasserstein(left, right, 1) ** 2")),
    ("a coupling that is not optimal", GEODESIC, "W₂ between points", everything_everywhere),
    ("s instead of its root", "check-geodesic", "along the mixture",
     ("check-geodesic", "/ r**0.5 /", "/ r /")),
    ("mixture instead of the geodesic", GEODESIC, "one neuron: loss half-way",
     ("geodesic", "L(displacement(mu, nu, r, plan))", "L(mixture(mu, nu, r))")),
    ("geodesic instead of the mixture", GEODESIC, "mixtures above",
     ("geodesic", "L(mixture(mu, nu, r))", "L(displacement(mu, nu, r, plan))")),
    ("loss of a silent network not halved", GEODESIC, "one neuron: loss half-way",
     ("geodesic", "nothing = (y**2).mean() / 2", "nothing = (y**2).mean()")),
    ("curvature without the second term", "check-geodesic", "second derivative half-way",
     ("check-geodesic", "(curved + spread)", "(curved)")),
    ("ridge without its one half", "ridge check-geodesic", "what a ridge takes off",
     ("ridge", "s * (1 - s) / 2 *", "s * (1 - s) *")),
    ("sum over the data instead of the mean", OWN, "first variation",
     ("own", "(bent(z) @ r) / n", "(bent(z) @ r)")),
    ("value of the loss not halved", OWN, "value against",
     ("own", "(r**2).mean() / 2", "(r**2).mean()")),
    ("absolute value, which complex steps do not see through", OWN, "check_functional",
     ("own", "(r**2).mean() / 2", "(np.abs(r) ** 2).mean() / 2")),
    ("sign of the input lost in the gradient", OWN, "gradient",
     ("own", "inner @ self.X", "inner @ np.abs(self.X)")),
    ("samples always from the first data", OWN, "SGD",
     ("own", "i = rng.integers(len(self.Y), size=n)", "i = np.arange(n)")),
    ("dissipation summed over neurons", "own-motion check-own", "fall of L",
     ("own-motion", "weight @ own_run.dissipation", "weight @ (m * own_run.dissipation)")),
    ("the two flows compared at different times", "own-motion check-own", "two flows",
     ("own-motion", "same_run = gradient_flow(theirs, law, [0, 40]",
      "same_run = gradient_flow(theirs, law, [0, 20]")),
    ("threshold squared", "check-own", "λ = 0.5",
     lambda names: {"threshold": names["threshold"] ** 2}),
    ("radius of the ball forgotten in the bound", "check-own", "proved bound", radius_forgotten),
    ("mean over the data taken twice", "check-own", "gain of boosting", mean_over_data_twice),
    ("the same ridge tried twice", "own-stability own-table check-own", "tools that gave",
     ("own-stability", "for share in (0.5, 1.5)", "for share in (1.5, 1.5)")),
]  # fmt: skip


class TestPrimer(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
