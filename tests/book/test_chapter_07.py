"""The checks of Chapter 7 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them, or in the part of the package that it calls; the cells that depend on it run again,
and the check has to end in its assertion, for the row that the mistake is about.
"""

from dataclasses import replace
from types import FunctionType, SimpleNamespace

import numpy as np
from chapter_runner import Chapter, computing, flow_along
from scipy.linalg import block_diag

from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.models.attention import features, softmax
from mfbook.models.confinement import Anchor
from mfbook.stability import atomic_stability, dirac_stability, strong_monotonicity
from mfbook.stability import second_variation as right_variation
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "07-stability.ipynb"))
# The same cells in smaller portions: fewer clouds, tasks and starts, and only what is checked.
SMALLER = [
    ("linear", "[1e-2, 1e-3, 1e-4]", "[1e-3, 1e-4]"),
    ("spectra", "[0.03, 0.06, 0.15, 0.3, 0.42, 0.6, 0.8, 0.95]", "[0.03, 0.3, 0.8]"),
    ("phase", "np.linspace(0.0, 1.6, 65)", "np.linspace(0.0, 1.6, 33)"),
    ("phase", "(0.25, 0.7, 1.3)", "(0.7,)"),
    ("phase", "rtol=1e-10", "rtol=1e-7"),
    ("t75", "range(8)", "range(5, 8)"),
    ("t75", "clock, atol=1e-14", "clock, rtol=1e-4, atol=1e-8"),
    ("t78", "np.arange(2, 6)", "np.arange(3, 5)"),
    ("t78", "range(12)", "range(3)"),
    ("t71-ridge", "couplings=8, descents=2, maxiter=60", "couplings=3, descents=1, maxiter=20"),
    ("t78", "atol=1e-15", "rtol=1e-6, atol=1e-12"),
    ("t71", '"couplings": 8', '"couplings": 3'),
    ("t71", '"maxiter": 40', '"maxiter": 20'),
    ("t71", "normal(size=(3,", "normal(size=(2,"),
    ("t71", "3.0, 10.0, 30.0, 100.0", "100.0"),
    ("t71-flow", "range(8)", "range(4, 6)"),
    ("far", "rtol=1e-5", "rtol=1e-2, atol=1e-4"),
    ("far-head", "rtol=1e-5", "rtol=1e-2, atol=1e-4"),
    ("two-atoms", "rtol=1e-6", "rtol=1e-4"),
    ("two-masses", "rtol=1e-6", "rtol=1e-4"),
    ("r72", "couplings=16, descents=2,", "couplings=4, descents=1,"),
    ("r73", "range(50)", "range(25)"),
    ("bare", "range(6)),\n", "range(2)),\n"),
    ("splitting", "[0, 250], rtol=1e-8, atol=1e-14", "[0, 250], rtol=1e-7, atol=1e-13"),
    ("specialisation", "(0.1, 0.25)", "(0.25,)"),
    ("specialisation", "range(3)", "range(2)"),
    ("end", "rtol=1e-6", "rtol=1e-3, atol=1e-6"),
    ("end-draws", 'ridge_tasks["copy"], 12', 'ridge_tasks["copy"], 3'),
    ("condensation", "range(6)", "range(2)"),
    ("condensation", "rtol=1e-7", "rtol=1e-5"),
    ("order", "0.3, 0.45, 0.6, 0.75, 0.85, 0.93, 1.0, 1.07, 1.15, 1.3", "0.85, 1.3"),
    ("order", "rtol=1e-5", "rtol=1e-2"),
    ("check-condensation", "sizes[4]", "sizes[0]"),
    ("check-condensation", "sizes[9]", "sizes[1]"),
    ("global", "(2.0, 4.0, 8.0, 16.0)", "(16.0,)"),
    ("infimum", "range(2)", "range(1)"),
    ("infimum", "range(6)", "range(2)"),
    ("uniform", "(2.0, 4.0, 8.0)", "(8.0,)"),
]


# ---------------------------------------------------------------- replaced names


def other_matrices(change, *, weighted=True):
    """Both stability reports with ``change(F, mu, H, K)`` for H and K."""

    def atomic(F, mu):
        report = atomic_stability(F, mu)
        H, K = change(F, mu, report.H, report.K)
        m, D = mu.atoms.shape
        scale = np.repeat(np.sqrt(mu.weights if weighted else np.ones(m)), D)
        K_all = K.transpose(0, 2, 1, 3).reshape(m * D, m * D)
        blocks = block_diag(*H) + scale[:, None] * K_all * scale
        collective, vectors = np.linalg.eigh((blocks + blocks.T) / 2)
        modes = vectors.T.reshape(-1, m, D) / np.sqrt(mu.weights)[:, None]
        deviations = np.linalg.eigvalsh((H + H.transpose(0, 2, 1)) / 2)
        return replace(report, H=H, K=K, deviations=deviations, collective=collective, modes=modes)

    scope = {**dirac_stability.__globals__, "atomic_stability": atomic}
    dirac = FunctionType(dirac_stability.__code__, scope, "dirac_stability")
    dirac.__kwdefaults__ = dirac_stability.__kwdefaults__
    return lambda names: {"atomic_stability": atomic, "dirac_stability": dirac}


def interaction(form):
    """K with another matrix for the Jacobian J = diag(p) - pp^T of the softmax."""

    def change(F, mu, H, K):
        R = F.terms[0][1] if hasattr(F, "terms") else F
        (m, D), tiny = mu.atoms.shape, 1e-30
        moved = (mu.atoms[:, None] + 1j * tiny * np.eye(D)).reshape(m * D, D)
        g = features(moved, R.X, R.W_U, R.shape).imag / tiny
        p = softmax(R.logits(mu))
        S, T, _ = p.shape
        K = np.einsum("astv,bstv->ab", g, form(p, g)).reshape(m, D, m, D) / (S * T)
        return H, K.transpose(0, 2, 1, 3)

    return change


identity_for_J = other_matrices(interaction(lambda p, g: g))
diagonal_for_J = other_matrices(interaction(lambda p, g: p * g))
K_twice = other_matrices(lambda F, mu, H, K: (H, 2 * K))
K_with_the_other_sign = other_matrices(lambda F, mu, H, K: (H, -K))
K_forgotten = other_matrices(lambda F, mu, H, K: (H, 0 * K))
K_without_weights = other_matrices(lambda F, mu, H, K: (H, K), weighted=False)
H_tr_for_H = other_matrices(lambda F, mu, H, K: (H + K[range(mu.size), range(mu.size)], 0 * K))


@flow_along
def each_in_its_own_field(F, x, mu):
    return np.concatenate([F.gradient(p[None], Measure.dirac(p)) for p in x])


def in_the_field_at_rest(names):
    """The flow in the landscape of the stationary head: predictions do not move."""
    return flow_along(lambda F, x, mu: F.gradient(x, names["delta"]))(names)


uphill = flow_along(lambda F, x, mu: -F.gradient(x, mu))
weighted_velocity = flow_along(lambda F, x, mu: mu.weights[:, None] * F.gradient(x, mu))


def decay_without_one_half(names):
    """Anchored decay of strength 2 lam: the force as for lam |theta - a|^2."""
    R, theta, force = (names[name] for name in ("R", "theta", "force"))
    return {"anchored": lambda lam: R + Anchor(2 * lam, theta + force / (2 * lam))}


def half_the_decay(names):
    R, theta, force = (names[name] for name in ("R", "theta", "force"))
    return {"anchored": lambda lam: R + Anchor(lam / 2, theta + 2 * force / lam)}


def unweighted_distance(names):
    """Distances in W2 as if all heads had the same weight, for the last of the runs."""
    atoms = names["run"].atoms
    distance = np.sqrt(((atoms - names["theta"]) ** 2).sum(axis=2).mean(axis=1))
    return {"near": [*names["near"][:-1], distance]}


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


def verdicts_from_H(names):
    """The regimes with the threshold of H for both."""
    scales, split = names["scales"], names["thresholds"][:, 0]
    return {
        "predicted_regime": np.array(
            [2 * (lam < np.interp(c, scales, split)) for c, lam, *_ in names["seen"]]
        )
    }


def interaction_as_a_friend(names):
    """What Remark 7.2 needs with -m - ell for ell - m."""
    sampled = names["sampled"]
    key = next(name for name in names["needed"] if "Remark 7.2" in name)
    return {"needed": names["needed"] | {key: -sampled.ell - sampled.m}}


def risk_alone(names):
    """The curve of the risk without the ridge for that of what descends."""
    run, (_, R) = names["run"], names["F"].terms[0]
    value = np.array([R(run.measure(i)) for i in range(len(run.t))])
    return {"run": SimpleNamespace(value=value, increase=np.diff(value).max())}


def unmasked_features(names):
    """Features of attention that sees the future."""

    def unmasked(theta, X, W_U, shape):
        W_Q, W_K, W_V, W_O = shape.split(theta)
        scores = (X @ W_Q[:, None]) @ (X @ W_K[:, None]).swapaxes(-1, -2) / np.sqrt(shape.k)
        A = np.exp(scores)
        return (A / A.sum(axis=-1, keepdims=True)) @ X @ (W_V @ W_O @ W_U)[:, None]

    return {"features": unmasked}


def correlation(tokens=None, residual=None):
    """The matrix of condensation from other averages of tokens, or another residual."""

    def matrix(risk):
        T = risk.X.shape[1]
        seen = risk.X.cumsum(axis=1) / np.arange(1, T + 1)[:, None]
        x = seen if tokens is None else tokens(risk.X)
        r = (1 / risk.Y.shape[2] - risk.Y) if residual is None else residual(risk.Y)
        return np.einsum("sta,stb->ab", x, r @ risk.W_U.T) / risk.X.shape[0] / T

    return lambda names: {"condensation": matrix}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    # means and deviations
    ("deviations move with H + K instead of H", "linear check-linear", "deviations, stable",
     ("linear", "rest0 @ expm(-2 * report.H)", "rest0 @ expm(-2 * report.H_tr)")),
    ("half the time in the linear flow", "linear check-linear", "mean, translation",
     ("linear", "expm(-2 *", "expm(-")),
    ("velocity of a head multiplied by its weight", "linear check-linear", "deviations, splitting",
     weighted_velocity),
    ("decay without its one half", "spectra check-linear", "heads apart", decay_without_one_half),
    ("growth of the squared distance", "spectra check-linear", "heads apart",
     ("spectra", "distance = np.sqrt(", "distance = 1 * (")),
    ("states taken one time too early", "spectra check-linear", "heads apart",
     ("spectra", "run.atoms[1:]", "run.atoms[:-1]")),
    ("heads together taken to grow with H instead of H + K",
     "setup spectra check-linear", "the same, heads together",
     ("setup", "-bare.collective[0]", "-bare.deviations[0, 0]")),
    ("largest eigenvalue instead of the least", "setup spectra check-linear", "heads apart",
     ("setup", "-bare.deviations[0, 0]", "-bare.deviations[0, -1]")),
    ("both thresholds taken from H", "check-linear", "verdicts", verdicts_from_H),
    ("interaction K with the other sign", "setup check-linear", "eigenvalue of K",
     K_with_the_other_sign),
    # equal particles
    ("multiplicities of the two kinds of eigenvalues exchanged",
     "particles check-7-6", "spectrum of 4",
     ("particles", "np.repeat(bare.deviations[0], M - 1), bare.collective]",
      "bare.deviations[0], np.repeat(bare.collective, M - 1)]")),
    ("weights of the heads forgotten in the interaction", "particles check-7-6", "spectrum of 4",
     K_without_weights),
    ("factor 4 lost in a second difference", "particles check-7-6", "central differences",
     ("particles", "(4 * step**2)", "step**2")),
    ("first variation instead of the risk", "particles check-7-6", "central differences",
     ("particles", "R(Measure.dirac(theta + x))", "R.first_variation(theta + x[None], delta)[0]")),
    ("H instead of H + K", "check-7-6", "central differences",
     ("check-7-6", "- bare.K[0, 0]", "")),
    ("identity instead of the Jacobian J in K",
     "setup particles check-7-6", "central differences", identity_for_J),
    # Theorem 7.5
    ("confinement forgotten in the gradient", "check-7-5", "speed of a point mass",
     ("check-7-5", "stationarity(F, Measure.dirac(wrong))",
      "stationarity(R, Measure.dirac(wrong))")),
    ("rate of the mean instead of the deviations", "t75 check-7-5", "largest exp",
     ("t75", "kappa_0, clock, rng = report.deviations[0]",
      "kappa_0, clock, rng = report.translations[0]")),
    ("squared distance without its root", "t75 t75-rates check-7-5", "rate of the worst pair",
     ("t75", "np.sqrt(squares @ run.weights)", "(squares @ run.weights)")),
    ("velocity of a head multiplied by its weight, for a pair",
     "t75-rates check-7-5", "rate of the worst pair",
     weighted_velocity),
    ("norm over all heads instead of the largest", "t75 check-7-5", "bound by the bootstrap",
     ("t75", "run.atoms - theta, axis=2).max(axis=1)", "run.atoms - theta, axis=(1, 2))")),
    ("claim that a rate above κ₀ holds", "t75 check-7-5", "largest exp",
     ("t75", "np.exp(0.95 * kappa_0 * clock)", "np.exp(1.05 * kappa_0 * clock)")),
    ("claim that heads come nearer from the start", "t75 check-7-5", "bound by the bootstrap",
     ("t75", "(1 + 1.05 * push * t)", "1")),
    ("a head that the others pull instead of push", "t75 check-7-5", "pushed head",
     ("t75", "-report.K @ outwards", "report.K @ outwards")),
    ("a threshold that is a tenth too large", "t75-rates check-7-5", "at the threshold",
     ("t75-rates", "pair_rate(split_below)", "pair_rate(1.1 * split_below)")),
    # Remark 7.7
    ("H + K instead of H", "r77 check-7-7", "hᵀHh",
     H_tr_for_H),
    ("−K instead of K", "r77 check-7-7", "hᵀ(H + K)h", K_with_the_other_sign),
    ("H instead of H + K in the gradient", "check-7-7", "gradient at θ* + sh",
     ("check-7-7", "report.H_tr @ w), 0", "report.H @ w), 0")),
    ("gradient in the field of the law at rest", "r77 check-7-7", "gradient at θ* + sh",
     ("r77", "F.gradient(moved.atoms, moved)", "F.gradient(moved.atoms, delta)")),
    ("one head in the field of the law at rest", "r77 check-7-7", "one head", in_the_field_at_rest),
    ("two heads that do not see each other", "r77 check-7-7", "two heads", each_in_its_own_field),
    # Theorem 7.8
    ("lowest direction of H instead of H + K", "t78 check-7-8", "gᵀ(H + K)g of",
     ("t78", "report.translation_direction", "report.split_direction")),
    ("rate of the deviations instead of the mean", "t78 check-7-8", "last increase",
     ("t78", "report.translation_rate", "report.split_rate")),
    ("speed in the field of the law at rest", "t78 check-7-8", "largest error",
     in_the_field_at_rest),
    ("claim that H alone gives the speed", "t78 check-7-8", "largest error",
     ("t78", "[g @ report.H_tr @ g", "[g @ report.H @ g")),
    ("half the distance at the start", "t78 check-7-8", "least initial speed",
     ("t78", "/ s - 1)", "/ (2 * s) - 1)")),
    ("heads on both sides of the point instead of one", "t78 check-7-8", "last increase",
     ("t78", "Measure((theta + s_ * v)[None])", "Measure(theta + s_ * np.array([v, -v]))")),
    ("logarithm to base ten instead of the natural one", "t78 check-7-8", "last increase",
     ("t78", "np.log(10) / rate", "1 / rate")),
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
     lambda names: {"F": half_the_decay(names)["anchored"](0.6)}),
    ("heads of unequal weight counted equally in W₂",
     "check-near", "W₂ at the start", unweighted_distance),
    ("claim that the head is lost whatever its sign", "far-head check-near", "mirror image",
     ("far-head", "[head, head * flip]", "[head, head]")),
    ("a head that writes with the opposite sign", "far-head check-near", "least W₂ at τ = 60",
     ("far-head", "np.array([theta, head])", "np.array([theta, head * flip])")),
    ("risk of the head without its mass", "far-head check-near", "risk gained",
     ("far-head", "(F(delta) - F(mu)) / mass", "(F(delta) - F(Measure.dirac(head)))")),
    ("time a hundred times shorter", "far-head check-near", "least W₂ at τ = 60",
     ("far-head", "[0, 10, 30, 60]", "[0, 0.1, 0.3, 0.6]")),
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
     ("check-7-2", "coarse(0.8 + sampled.m - sampled.ell, 2), 0)",
      "-coarse(0.8 + sampled.m - sampled.ell, 2), 0)")),
    # Remark 7.3
    ("decay of the heads forgotten", "r73 check-7-3", "at θ*",
     ("r73", "F = anchored(0.8)", "F = R")),
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
    # bare heads
    ("block (W_V, W_V) of H + K instead of H", "bare check-bare", "(W_V, W_V)",
     ("bare", "single.H[n[j]", "single.H_tr[n[j]")),
    ("block (W_O, W_O) of H + K instead of H", "bare check-bare", "(W_O, W_O)",
     ("bare", "single.H[n[j]", "single.H_tr[n[j]")),
    ("spectrum of H + K instead of H", "bare check-bare", "λ_min(H) of", H_tr_for_H),
    ("rate of the copies over a wrong time", "bare check-bare", "rate at which",
     ("bare", "/ apart[1]) / 4", "/ apart[1]) / 6")),
    ("copies that do not see each other", "bare check-bare", "rate at which",
     each_in_its_own_field),
    ("interaction K with the other sign, for bare heads",
     "bare check-bare", "λ_min(H + K)", K_with_the_other_sign),
    ("H + K instead of H at the optimum", "check-bare", "exact optimum",
     ("check-bare", "np.abs(exact.H)", "np.abs(exact.H_tr)")),
    # splitting
    ("one half in the second-order term lost", "splitting check-splitting", "change of the risk",
     ("splitting", "(-gamma * s**2 / 2)", "(-gamma * s**2)")),
    ("one of two heads moved", "splitting check-splitting", "change of the risk",
     ("splitting", "np.array([w, -w])", "np.array([w, 0 * w])")),
    ("rate of the mean instead of the split", "splitting check-splitting", "increase of the time",
     ("splitting", "report.split_rate", "report.translation_rate")),
    ("logarithm of 10 instead of 100", "check-splitting", "increase of the time",
     ("check-splitting", "np.log(100)", "np.log(10)")),
    ("flow that ends too early", "splitting check-splitting", "largest difference",
     ("splitting", "[0, 250]", "[0, 50]")),
    ("distance at the start instead of the end", "splitting check-splitting", "nearer head",
     ("splitting", "run.end.atoms - theta", "run.atoms[0] - theta")),
    # specialisation
    ("queries alone instead of queries and keys", "specialisation check-specialisation", "|zᵀHz|",
     ("specialisation", "2 * shape.blocks[0]", "shape.blocks[0]")),
    ("ridge forgotten in H", "specialisation check-specialisation", "|zᵀHz|",
     ("specialisation", "z @ report.H @ z,", "z @ (report.H - lam * np.eye(D)) @ z,")),
    ("H + K instead of H, as for a single head", "specialisation check-specialisation", "|zᵀHz|",
     ("specialisation", "report.H @ z", "report.H_tr @ z")),
    ("factor 2 of Euler's relation lost", "specialisation check-specialisation", "|yᵀHz",
     ("specialisation", "+ 2 * lam", "+ lam")),
    ("curvature term with the other sign",
     "specialisation check-specialisation", "fall of the risk",
     ("specialisation", "- ratio**2 * (y @", "+ ratio**2 * (y @")),
    ("factor 4 doubled in γ₀", "specialisation check-specialisation", "fall of the risk",
     ("specialisation", "top = 4 * lam", "top = 8 * lam")),
    ("one of the two halves stays", "specialisation check-specialisation", "fall of the risk",
     ("specialisation", "np.array([u, -u])", "np.array([u, 0 * u])")),
    # the end of a split
    ("the same displacement for all eight heads", "end check-end", "minus the end",
     ("end", "rng.normal(size=(8, small.size))",
      "rng.normal(size=small.size) * np.ones((8, 1))")),
    ("W_V alone instead of the product W_V W_O", "end check-end", "winner",
     ("end", "W_V @ W_O", "W_V")),
    ("share of the winner divided by eight once more", "check-end", "winner",
     ("check-end", "writes[-1, leader] /", "writes[-1, leader] / 8 /")),
    ("a tenth of the step", "end-draws check-end", "ends with one head at work",
     ("end-draws", "step=0.5", "step=0.05")),
    ("ridge forgotten in the descent", "end-draws check-end", "second largest",
     ("end-draws", "+ lam * x", "+ 0 * x")),
    ("row of the table at another time", "check-end", "τ = 100",
     ("check-end", "at_work[10]", "at_work[100 // 2]")),
    ("risk without its ridge", "check-end", "largest increase", risk_alone),
    # condensation
    ("Frobenius norm instead of σ₁ in the threshold",
     "condensation check-condensation", "simulated threshold",
     ("condensation", "share * sigma[0]", "share * np.linalg.norm(sigma)"),
     ("condensation", "(times[2] - times[1]) / sigma[0]",
      "(times[2] - times[1]) / np.linalg.norm(sigma)")),
    ("second singular value instead of the first",
     "condensation check-condensation", "simulated threshold",
     ("condensation", "share * sigma[0]", "share * sigma[1]"),
     ("condensation", "(times[2] - times[1]) / sigma[0]", "(times[2] - times[1]) / sigma[1]")),
    ("singular values doubled", "condensation check-condensation", "spectrum of H",
     ("condensation", "np.r_[sigma, -sigma]", "2 * np.r_[sigma, -sigma]")),
    ("mask dropped in uniform attention", "condensation check-condensation",
     "spectrum of H", correlation(tokens=lambda X: X.mean(axis=1, keepdims=True) + 0 * X)),
    ("own token instead of the mean of past ones",
     "condensation check-condensation", "spectrum of H",
     correlation(tokens=lambda X: X)),
    ("labels instead of the residual", "condensation check-condensation", "spectrum of H",
     correlation(residual=lambda Y: np.eye(Y.shape[2])[Y.argmax(axis=2)])),
    ("growth of the squared size", "condensation check-condensation", "growth rate",
     ("condensation", "size = np.sqrt((", "size = (1 * (")),
    ("growth measured from the start", "condensation check-condensation", "growth rate",
     ("condensation", "np.log(size[2] / size[1])", "np.log(size[2] / size[0])")),
    ("ridge without its one half, at 0.85 λ_c", "order check-condensation", "0.85",
     ("order", "Ridge(share * lam_c)", "Ridge(2 * share * lam_c)")),
    ("half the strength of the ridge", "order check-condensation", "1.3",
     ("order", "Ridge(share * lam_c)", "Ridge(share * lam_c / 2)")),
    # the second threshold
    ("radius instead of its square", "global check-global", "proved bound",
     ("global", "/ r**2", "/ r")),
    ("search with attention that stays uniform", "global check-global", "λ* found / λ_c",
     ("global", "for r in (16.0,)", "for r in (0.01,)")),
    ("threshold λ* halved", "global check-global", "λ* found / λ_c",
     ("global", "/ r**2", "/ r**2 / 2")),
    ("ridge forgotten in the flow near zero", "global check-global", "four heads",
     ("global", "gradient_flow(risk + Ridge(lam)", "gradient_flow(risk")),
    ("ridge without its one half", "global check-global", "risk gained",
     ("global", "halves(run.point, small), risk + Ridge(lam)",
      "halves(run.point, small), risk + Ridge(2 * lam)")),
    ("a third of the proved bound", "global check-global", "proved bound",
     ("global", "(Z * seen).mean()", "(Z * seen).mean() / 3")),
    ("claim that zero is optimal wherever it is stable", "check-global", "1.6 λ_c: risk gained",
     ("check-global", "above(gains[0], 2e-3), 1e-3", "-gains[0], 0")),
    # the infimum
    ("the active head given the whole weight", "infimum check-infimum", "least fall",
     ("infimum", "np.full(n, 1 / M), rest", "np.full(n, 1 / n), 0 * np.array(rest)")),
    ("ridge summed over heads instead of averaged", "infimum check-infimum", "least fall",
     ("infimum", "local = F.at(mu)", "local = (risk + Ridge(M * lam)).at(mu)")),
    ("norm of W_V alone instead of the product W_V W_O", "infimum check-infimum", "power of M",
     ("infimum", "np.linalg.norm(write[2] @ write[3])", "np.linalg.norm(write[2])")),
    ("product W_V W_O divided by M", "infimum check-infimum", "power of M",
     ("infimum", "np.linalg.norm(write[2] @ write[3])",
      "np.linalg.norm(write[2] @ write[3]) / M")),
    ("norm ‖y‖ divided by √M", "infimum check-infimum", "growth of ‖y‖",
     ("infimum", '"‖y‖": np.linalg.norm(y)', '"‖y‖": np.linalg.norm(y) / np.sqrt(M)')),
    ("Frobenius norm instead of σ₁", "uniform check-infimum", "σ₁/λ at zero",
     ("uniform", "[0], 2) / lam", "[0]) / lam")),
    ("residual of an empty layer", "uniform check-infimum", "σ₁/λ at zero",
     ("uniform", "uniform = np.linalg.norm(risk.at(Measure(flat))",
      "uniform = np.linalg.norm(risk.at(Measure(0 * flat))")),
    ("largest σ₁ searched near uniform attention only", "uniform check-infimum", "largest σ₁/λ",
     ("uniform", "in (8.0,)", "in (0.01,)")),
    ("ridge forgotten where all heads move", "infimum check-infimum", "all heads from random",
     ("infimum", "local = F.at(mu)", "local = (F if n < M else risk).at(mu)")),
    ("means move with H instead of H + K", "linear check-linear", "mean, splitting",
     ("linear", "report.H_tr", "report.H")),
    ("predictions that do not move with the heads",
     "linear check-linear", "mean, stable", in_the_field_at_rest),
    ("identity instead of the Jacobian J of the softmax",
     "linear check-linear", "mean, stable", identity_for_J),
    ("Jacobian J of the softmax without its second term",
     "linear check-linear", "mean, stable", diagonal_for_J),
    ("interaction K counted twice", "linear check-linear", "mean, translation", K_twice),
    ("weights of the heads forgotten in W₂", "t75 check-7-5", "transport problem",
     ("t75", "squares @ run.weights", "squares.mean(axis=1)")),
    ("curvature without the interaction", "r73 check-7-3", "second difference /", K_forgotten),
    ("ends of the geodesic at twice the step", "r73 check-7-3", "second difference /",
     ("r73", "(-0.05, 0, 0.05)", "(-0.1, 0, 0.1)")),
    ("interaction with the other sign, for four particles", "check-7-4", "four particles",
     K_with_the_other_sign),
    ("factor 4 halved in γ₀", "specialisation check-specialisation", "fall of the risk",
     ("specialisation", "top = 4 * lam", "top = 2 * lam")),
    ("price of writing instead of attending", "infimum check-infimum", "price of attending",
     ("infimum", "y, z = halves", "z, y = halves")),
    # for which ridge there is a minimiser
    ("claim that attending costs like 1/√M", "check-infimum", "half the price",
     ("check-infimum", "(4 * heads)", "(4 * np.sqrt(heads))")),
    ("claim that zero is a minimiser between the thresholds",
     "check-infimum", "1.6 λ_c: saved, M = 1024",
     ("check-infimum", "coarse(saved[2], 2), 1e-3", "-saved[2], 0")),
    ("claim that one head suffices there", "regimes check-infimum", "1.6 λ_c: saved, M = 1024",
     ("regimes", "minimise_heads(M, np.sqrt(M / 1024)", "minimise_heads(1, np.sqrt(1 / 1024)")),
    ("positions of query and keys exchanged in D",
     "score-derivative random-tasks check-infimum", "growth of σ₁(C)",
     ("score-derivative", "Vt[0], risk.X[:, t], spread", "Vt[0], spread, risk.X[:, t]")),
    ("mask dropped in the covariance",
     "score-derivative random-tasks check-infimum", "growth of σ₁(C)",
     ("score-derivative", "risk.X[:, : t + 1] - risk.X[:, : t + 1].mean(axis=1, keepdims=True)",
      "risk.X[:, :] - risk.X.mean(axis=1, keepdims=True)")),
    ("claim of growth like the root of the size",
     "score-derivative random-tasks check-infimum", "growth of σ₁(C)",
     ("score-derivative", "/ (size * values[0])", "/ (np.sqrt(size) * values[0])")),
    ("tokens that do not repeat", "random-tasks check-infimum", "tokens that repeat",
     ("random-tasks", "np.repeat(X[:, :1], 5, axis=1)", "X")),
]  # fmt: skip


class TestStability(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
