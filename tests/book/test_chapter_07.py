"""The checks of Chapter 7 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them, or in the part of the package that it calls; the cells that depend on it run again,
and the check has to end in its assertion, for the row that the mistake is about.
"""

from types import SimpleNamespace

import numpy as np
from chapter_runner import Chapter, computing, flow_along
from stability_mistakes import (
    H_tr_for_H,
    K_twice,
    K_with_the_other_sign,
    K_without_weights,
    diagonal_for_J,
    identity_for_J,
    weighted_velocity,
)

from mfbook.measure import Measure
from mfbook.models.confinement import Anchor
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
    ("t78", "atol=1e-15", "rtol=1e-6, atol=1e-12"),
    ("bare", "range(6)),\n", "range(2)),\n"),
    ("splitting", "[0, 250], rtol=1e-8, atol=1e-14", "[0, 250], rtol=1e-7, atol=1e-13"),
    ("specialisation", "(0.1, 0.25)", "(0.25,)"),
    ("specialisation", "range(3)", "range(2)"),
    ("end", "rtol=1e-6", "rtol=1e-3, atol=1e-6"),
    ("parameters", "further_draws = 12", "further_draws = 3"),
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


@flow_along
def each_in_its_own_field(F, x, mu):
    return np.concatenate([F.gradient(p[None], Measure.dirac(p)) for p in x])


def in_the_field_at_rest(names):
    """The flow in the landscape of the stationary head: predictions do not move."""
    return flow_along(lambda F, x, mu: F.gradient(x, names["delta"]))(names)


def decay_without_one_half(names):
    """Anchored decay of strength 2 lam: the force as for lam |theta - a|^2."""
    R, theta, force = (names[name] for name in ("R", "theta", "force"))
    return {"anchored": lambda lam: R + Anchor(2 * lam, theta + force / (2 * lam))}


def verdicts_from_H(names):
    """The regimes with the threshold of H for both."""
    scales, split = names["scales"], names["thresholds"][:, 0]
    return {
        "predicted_regime": np.array(
            [2 * (lam < np.interp(c, scales, split)) for c, lam, *_ in names["seen"]]
        )
    }


def risk_alone(names):
    """The curve of the risk without the ridge for that of what descends."""
    run, (_, R) = names["race"], names["race_risk"].terms[0]
    value = np.array([R(run.measure(i)) for i in range(len(run.t))])
    return {"race": SimpleNamespace(value=value, increase=np.diff(value).max())}


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
     ("t75", "kappa_0, clock = report.deviations[0]",
      "kappa_0, clock = report.translations[0]")),
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
     ("end", "rng.normal(size=(copies, small.size))",
      "rng.normal(size=small.size) * np.ones((copies, 1))")),
    ("W_V alone instead of the product W_V W_O", "end check-end", "winner",
     ("end", "W_V @ W_O", "W_V")),
    ("share of the winner divided by eight once more", "check-end", "winner",
     ("check-end", "writes[-1, leader] /", "writes[-1, leader] / 8 /")),
    ("a tenth of the step", "end-draws check-end", "ends with one head at work",
     ("end-draws", "step=0.5", "step=0.05")),
    ("ridge forgotten in the descent", "end-draws check-end", "second largest",
     ("end-draws", "+ race_lam * x", "+ 0 * x")),
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
    # by hand, and by formulas
    ("two heads by hand: the difference moves with H + K", "two-heads-run check-linear",
     "two heads by hand", ("two-heads-run", "[H + K_hand, H]", "[H + K_hand, H + K_hand]")),
    ("two heads by hand: the mean moves with H", "two-heads-run check-linear",
     "two heads by hand", ("two-heads-run", "[H + K_hand, H]", "[H, H]")),
    ("two heads by hand: K without its factor 2", "two-heads two-heads-run check-linear",
     "two heads by hand", ("two-heads", "* 2 * x_rest**2", "* x_rest**2")),
    ("second term of J forgotten in the formula of K", "matrices check-linear", "by their formulas",
     ("matrices", " - p * (p * slopes).sum(axis=-1, keepdims=True)", "")),
    ("own token instead of the mean of past ones, in one pass", "threshold check-condensation",
     "in one pass",
     ("threshold", "R.X.cumsum(axis=1) / counts", "R.X")),
]  # fmt: skip


class TestStability(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
