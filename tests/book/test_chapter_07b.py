"""The checks of the page beside Chapter 7 fail for wrong programs."""

from types import SimpleNamespace

import numpy as np
from chapter_runner import Chapter, computing
from stability_mistakes import (
    H_tr_for_H,
    K_forgotten,
    K_with_the_other_sign,
    K_without_weights,
    uphill,
    weighted_velocity,
)

from mfbook.functional import Functional
from mfbook.models.confinement import Anchor
from mfbook.stability import second_variation as right_variation
from mfbook.stability import strong_monotonicity
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "07b-criterion.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("t71-ridge", "couplings=8, descents=2, maxiter=60", "couplings=3, descents=1, maxiter=20"),
    ("t71", '"couplings": 8', '"couplings": 3'),
    ("t71", '"maxiter": 40', '"maxiter": 20'),
    ("t71", "normal(size=(3,", "normal(size=(2,"),
    ("t71", "3.0, 10.0, 30.0, 100.0", "100.0"),
    ("t71-flow", "range(clouds)", "range(4, 6)"),
    ("far", "rtol=1e-5", "rtol=1e-2, atol=1e-4"),
    ("far-head", "rtol=1e-5", "rtol=1e-2, atol=1e-4"),
    ("two-atoms", "rtol=1e-6", "rtol=1e-4"),
    ("two-masses", "rtol=1e-6", "rtol=1e-4"),
    ("r72", "couplings=16, descents=2,", "couplings=4, descents=1,"),
    ("r73", "range(50)", "range(25)"),
]


# ---------------------------------------------------------------- replaced names


def half_the_decay(names):
    R, theta, force = (names[name] for name in ("R", "theta", "force"))
    return {"anchored": lambda lam: R + Anchor(lam / 2, theta + 2 * force / lam)}


def unweighted_distance(names):
    """Distances in W2 as if all heads had the same weight, for the last of the runs."""
    atoms = names["far_run"].atoms
    distance = np.sqrt(((atoms - names["theta"]) ** 2).sum(axis=2).mean(axis=1))
    return {"far_w2": [*names["far_w2"][:-1], distance]}


def far_along(names, scaled, times):
    """The quotient q_0 on a ray: ``scaled`` is the scale of each parameter."""
    theta, q_0 = names["theta"], names["q_0"]
    rays = [sign * names["parts_0"] for sign in (1, names["flip"])]
    far = [[scaled(s) * ray - theta for s in names["scale"]] for ray in rays]
    return {"falls": np.min([[q_0(d)[0] * times(d) for d in ray] for ray in far], axis=0)}


def terms_changed(change):
    """The two terms of (49), changed."""
    return lambda names: {
        "second_variation": lambda F, mu, eta: change(*right_variation(F, mu, eta))
    }


def enemy_in_45(names):
    """The quotient of (45) with the interaction reversed: H - K for H + K along the mean."""

    class Reversed(Functional):
        def __init__(self, F, mu):
            self.F, self.rest = F, F.at(mu)

        def at(self, mu):
            local = self.F.at(mu)
            return SimpleNamespace(gradient=lambda x: 2 * self.rest.gradient(x) - local.gradient(x))

    def changed_quotient(F, mu, *arguments, **options):
        return strong_monotonicity(Reversed(F, mu), mu, *arguments, **options)

    return {"strong_monotonicity": changed_quotient}


def interaction_as_a_friend(names):
    """What Remark 7.2 needs with -m - ell for ell - m."""
    sampled = names["sampled"]
    key = next(name for name in names["needed"] if "Remark 7.2" in name)
    return {"needed": names["needed"] | {key: -sampled.ell - sampled.m}}


def unmasked_features(names):
    """Features of attention that sees the future."""

    def unmasked(theta, X, W_U, shape):
        W_Q, W_K, W_V, W_O = shape.split(theta)
        scores = (X @ W_Q[:, None]) @ (X @ W_K[:, None]).swapaxes(-1, -2) / np.sqrt(shape.k)
        A = np.exp(scores)
        return (A / A.sum(axis=-1, keepdims=True)) @ X @ (W_V @ W_O @ W_U)[:, None]

    return {"features": unmasked}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    # Theorem 7.1
    ("search among point masses only", "t71 t71-flow check-7-1", "the same argument",
     ("t71", '"parts": 3', '"parts": 1')),
    ("interaction with the other sign in the quotient of (45)",
     "t71 t71-flow check-7-1", "constant", enemy_in_45),
    ("decay forgotten in q₀", "t71 t71-rays check-7-1", "least q₀ within 1 /",
     ("t71", "value + lam", "value")),
    ("a random ray instead of the steepest", "t71-rays check-7-1", "within 100",
     ("t71-rays", "far.append(best.fun", "far.append(on_ray(rays[0], r - size)[0]")),
    ("light head that is not far", "t71-rays check-7-1", "light far head",
     ("t71-rays", "d = (radii[-1] - size) *", "d = 5 *")),
    ("sum over heads instead of the mean", "t71-flow check-7-1", "minus the quotient",
     ("t71-flow", "run.measure(j).integrate(", "np.sum(")),
    ("distance instead of its square", "t71-flow check-7-1", "minus the quotient",
     ("t71-flow", "/ distance[j] ** 2", "/ distance[j]")),
    ("decay forgotten in the flow of the clouds", "t71-flow check-7-1", "gets farther",
     ("t71-flow", "run = gradient_flow(F,", "run = gradient_flow(R,")),
    ("rate of the squared distance", "t71-flow check-7-1", "largest exp",
     ("t71-flow", "np.exp(constant * clock)", "np.exp(2 * constant * clock)")),
    ("decay forgotten in the quotient", "t71-flow check-7-1", "least quotient",
     ("t71-flow", "(F.gradient(x, run", "(R.gradient(x, run")),
    ("claim that λ_min(H) serves on W₂-balls too", "check-7-1", "against λ̄",
     ("check-7-1", "coarse(missing.max(), 1), lam_bar", "coarse(missing.max(), 1), lam_c")),
    ("ridge forgotten in the quotient of the far head",
     "t71-ridge check-7-1", "this quotient",
     ("t71-ridge", "quotient_far = F.gradient", "quotient_far = R.gradient")),
    ("a far head that attends uniformly", "t71-ridge check-7-1", "quotient of the far head",
     ("t71-ridge", "2 * shape.blocks[0], 1, 20)", "2 * shape.blocks[0], 0, 20)")),
    # near in W2
    ("distance instead of its square in q₀", "check-near", "power of s",
     lambda names: far_along(names, lambda s: s, lambda d: np.linalg.norm(d))),
    ("keys and queries that do not grow along the ray", "check-near", "power of s",
     lambda names: far_along(names, lambda s: np.where(np.arange(12) < 6, 1, s), lambda d: 1)),
    ("half the strength of decay", "check-near", "λ_min(H)",
     lambda names: {"weak": half_the_decay(names)["anchored"](0.6)}),
    ("heads of unequal weight counted equally in W₂",
     "check-near", "W₂ at the start", unweighted_distance),
    ("claim that the head is lost whatever its sign", "far-head check-near", "mirror image",
     ("far-head", "[head, head * flip]", "[head, head]")),
    ("a head that writes with the opposite sign", "far-head check-near", "least W₂ at τ = 60",
     ("far-head", "np.array([theta, head])", "np.array([theta, head * flip])")),
    ("risk of the head without its mass", "far-head check-near", "risk gained",
     ("far-head", "(weak(delta) - weak(mu)) / mass", "(weak(delta) - weak(Measure.dirac(head)))")),
    ("time a hundred times shorter", "far-head check-near", "least W₂ at τ = 60",
     ("far-head", "40, 50, 60.0])", "40, 50, 60.0]) / 100")),
    ("a head that is not far enough on the ray", "far check-near", "quotient of (45) of a law",
     ("far", "1e3 * np.r_", "10 * np.r_")),
    # point masses only
    ("two atoms not settled by Newton's method", "two-atoms check-dirac", "largest gradient",
     ("two-atoms", "two = settle(rough)", "two = rough")),
    ("gradient of the risk without the decay", "two-atoms check-dirac", "independent couplings",
     ("two-atoms", "G = F.gradient(x", "G = R.gradient(x")),
    ("field of the point mass instead of the two atoms",
     "two-atoms check-dirac", "independent couplings",
     ("two-atoms", "F.gradient(x, Measure(x, two.weights))", "F.gradient(x, delta)")),
    ("moved mass counted in the denominator alone", "two-masses check-dirac", "power of ε",
     ("two-masses", "/ (gap @ gap)", "/ (mass * gap @ gap)")),
    ("moved mass counted twice", "two-masses check-dirac", "power of ε",
     ("two-masses", "@ gap / (gap", "@ gap * mass / (gap")),
    ("claim that the flow restores the weights", "two-masses check-dirac", "weights changed",
     ("two-masses", "settle(gradient_flow(F, shifted, [0, 100], rtol=1e-4).end)", "two")),
    # fixed weights
    ("weights of the atoms forgotten in the interaction",
     "fixed check-fixed", "collective", K_without_weights),
    ("interaction K forgotten", "fixed check-fixed", "collective", K_forgotten),
    ("H + K instead of H inside an atom", "fixed check-fixed", "inside atom 1", H_tr_for_H),
    ("eigenvalue of the other atom", "fixed check-fixed", "inside atom 2",
     ("fixed", "report.deviations[j, 0]", "report.deviations[1 - j, 0]")),
    ("velocity of an atom multiplied by its weight", "fixed check-fixed", "inside atom 1",
     weighted_velocity),
    ("interaction with the other sign, for fixed weights",
     "fixed check-fixed", "min over all", K_with_the_other_sign),
    ("particles of an atom that do not see the landscape of the units",
     "several check-fixed", "circle, atom 1 as two particles",
     ("several", "run = gradient_flow(energy, Measure(on_circle(places), parts_j)",
      "run = gradient_flow(SphereEnergy(5.0), Measure(on_circle(places), parts_j)")),
    ("second difference over half the step", "several check-fixed",
     "circle, atom 2 as two particles", ("several", "/ small_step**2", "/ (2 * small_step) ** 2")),
    ("claim: the law with two atoms is asymptotically stable", "check-fixed",
     "it does not come back",
     ("check-fixed", "above(least_end[0], 0.03), 0.01", "-least_end[0], -1e-4")),
    ("claim: the distance stays of the order of the share", "check-fixed",
     "circle, share 0.0001", ("check-fixed", "most, 2.2 * share**0.5), 3 * share**0.5)",
                              "most, 2.2 * share**0.5), 3 * share)")),
    # Remark 7.2
    ("m + ℓ instead of m − ℓ", "r72 check-7-2", "constant of (45)",
     ("r72", "lam + sampled.m - sampled.ell", "lam + sampled.m + sampled.ell")),
    ("decay that makes H positive instead of m > ℓ", "r72 check-7-2", "m − ℓ",
     ("r72", "lam = 1.4", "lam = 1.1 * split_below")),
    ("interaction counted in favour, −m − ℓ instead of ℓ − m",
     "check-7-2", "λ that Remark 7.2 needs", interaction_as_a_friend),
    ("half of ℓ", "check-7-2", "what a head at θ* feels",
     ("check-7-2", "felt,\n            coarse(sampled.ell, 2)",
      "felt,\n            coarse(sampled.ell / 2, 2)")),
    ("heads sampled around zero instead of θ*", "r72 check-7-2", "what a head at θ* feels",
     ("r72", "curvature_margin(R, theta,", "curvature_margin(R, 0 * theta,")),
    ("claim that ℓ < m is necessary", "check-7-2", "where clouds contract",
     ("check-7-2", "coarse(decay + sampled.m - sampled.ell, 2), 0)",
      "-coarse(decay + sampled.m - sampled.ell, 2), 0)")),
    # Remark 7.3
    ("decay of the heads forgotten", "r73 check-7-3", "at θ*",
     ("r73", "F = anchored(decay)", "F = R")),
    ("H − K instead of H + K", "r73 check-7-3", "at θ*", K_with_the_other_sign),
    ("factor 2 lost in the second difference", "r73 check-7-3", "second difference",
     ("r73", "- 2 * F(ends[1])", "- F(ends[1])")),
    ("two solutions that move uphill", "r73 check-7-3", "two solutions", uphill),
    # Remark 7.4
    ("Jacobian J of the softmax forgotten", "r74 check-7-4", "interaction from features",
     ("r74", "((p * u**2).sum(axis=-1) - (p * u).sum(axis=-1) ** 2)", "(u**2).sum(axis=-1)")),
    ("second term of the Jacobian J forgotten", "r74 check-7-4", "interaction from features",
     ("r74", "- (p * u).sum(axis=-1) ** 2", "")),
    ("mask dropped", "r74 check-7-4", "interaction from features", unmasked_features),
    ("features summed over heads instead of averaged", "r74 check-7-4", "interaction from features",
     ("r74", "u = pairs.integrate(features", "u = 4 * pairs.integrate(features")),
    ("second difference halved as in Taylor's formula", "r74 check-7-4", "second differences",
     ("r74", "/ h**2 /", "/ h**2 / 2 /")),
    ("interaction counted twice", "r74 check-7-4", "second differences",
     terms_changed(lambda c, i: (c, 2 * i))),
    ("interaction omitted", "r74 check-7-4", "second differences",
     terms_changed(lambda c, i: (c, 0.0))),
    ("interaction with the other sign in the quadratic form", "r74 check-7-4", "least interaction",
     terms_changed(lambda c, i: (c, -i))),
    ("collective spectrum instead of the blocks of H", "check-7-4", "form along",
     ("check-7-4", "fall.deviations.min()", "fall.collective.min()")),
    ("lowest direction of another atom", "r74 check-7-4", "form along",
     ("r74", "fall.H[0]", "fall.H[1]")),
    ("weights of the heads forgotten in the norm", "r74 check-7-4", "form along",
     ("r74", "size = pairs.integrate((eta**2).sum(axis=1))", "size = (eta**2).sum()")),
    ("curvature without the interaction", "r73 check-7-3", "second difference /", K_forgotten),
    ("ends of the geodesic at twice the step", "r73 check-7-3", "second difference /",
     ("r73", "(-0.05, 0, 0.05)", "(-0.1, 0, 0.1)")),
    ("interaction with the other sign, for four particles", "check-7-4", "four particles",
     K_with_the_other_sign),
]  # fmt: skip


class TestCriterion(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
