"""The checks of Chapter 5 fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

import inspect
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from chapter_runner import Chapter, computing, execute, flow_along, mistaken

from mfbook import HeadShape, gradient_flow
from mfbook.book.experiments import propagation
from mfbook.flow import constant
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, cross_entropy
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "05-dynamics.ipynb"))
# The same cells in smaller portions: the checks hold for any row and these numbers of heads.
SMALLER = [
    ("row", "rng.integers(len(heads_of))", "1"),
    ("row", "rng.integers(len(steps_of))", "0"),
    ("local", "np.arange(4, 9)", "np.arange(6, 9)"),
    ("hessian", "limit.atoms[8, :6]", "limit.atoms[8, :4]"),
    ("hessian", "D, n = shape.size, 6", "D, n = shape.size, 4"),
    ("lazy", "rtol=1e-6, atol=1e-8", "rtol=1e-3, atol=1e-5"),
]


# ---------------------------------------------------------------- replaced names


def unmasked(names):
    """Loss of attention that sees the future."""

    def loss(risk, mu):
        W_Q, W_K, W_V, W_O = risk.shape.split(mu.atoms)
        scores = (risk.X @ W_Q[:, None]) @ (risk.X @ W_K[:, None]).swapaxes(-1, -2)
        A = np.exp(scores / np.sqrt(risk.shape.k))
        A /= A.sum(axis=-1, keepdims=True)
        f = np.tensordot(mu.weights, A @ risk.X @ (W_V @ W_O @ risk.W_U)[:, None], 1)
        return cross_entropy(f, risk.Y).mean()

    return {"unmasked": loss}


def without_J(names):
    """The interaction with the identity for the Jacobian of the softmax."""

    def replaced(local):
        local.__dict__["Z"] = local.logits @ local.risk.W_U.T
        return local

    return {"without_J": replaced}


weighted = flow_along(lambda F, x, mu: mu.size * mu.weights[:, None] * F.gradient(x, mu))
equal_weights = flow_along(lambda F, x, mu: F.gradient(x, Measure(mu.atoms)))


@flow_along
def one_after_the_other(F, x, mu):
    """The second half of the heads sees the first half after its step."""
    n, G = len(x) // 2, F.gradient(x, mu)
    moved = Measure(np.concatenate([x[:n] - 0.125 * G[:n], x[n:]]), mu.weights)
    return np.concatenate([G[:n], F.gradient(x[n:], moved)])


def at_end(names):
    end = names["ends"][0.0]
    return names["R"].first_variation(end.atoms, end), names["functions"][2](end.atoms)


def without_adjoint(names):
    return dict(zip(("psi", "psi_f"), at_end(names), strict=True))


def integral_with_the_other_sign(names):
    psi, psi_f = at_end(names)
    return {"psi": 2 * psi - names["psi"], "psi_f": 2 * psi_f - names["psi_f"]}


def adjoint_changed(old, new):
    """The influence by another backward equation."""

    def replace(names):
        with mistaken(sys.modules["mfbook.flow.influence"], old, new):
            return {"psi": names["influence"](names["R"], names["small"], [4.0], rtol=1e-5)[0]}

    return replace


adjoint_of_heads_alone = adjoint_changed("Measure(x + 1j * tiny * q, w)", "Measure(x, w)")
adjoint_backwards = adjoint_changed("-np.concatenate([pulled", "np.concatenate([-pulled")


def rows_changed(old, new):
    """Rows of the grid by another program."""

    def replace(names):
        scope = dict(vars(propagation))
        source = inspect.getsource(propagation.descent_row)
        assert source.count(old) == 1
        R = propagation.risk()
        scope["constant"] = constant
        scope["hard"] = AttentionRisk(R.X, np.eye(5)[R.Y.argmax(axis=-1)], R.W_U, R.shape)
        exec(source.replace(old, new), scope)
        return {"propagation": SimpleNamespace(**scope)}

    return replace


rows_of_hard_labels = rows_changed("sgd(risk()", "sgd(hard")
rows_in_another_clock = rows_changed("epsilon, rng))", "epsilon, rng, xi=constant(1.0)))")


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("factor M of the mean over heads forgotten", "gradient check-17", "derivative",
     ("gradient", "M * sample(", "sample(")),
    ("gradient of the population instead of the sample", "gradient check-17", "derivative",
     ("gradient", "g = sample.", "g = R.")),
    ("mask dropped", "gradient check-17", "derivative",
     ("gradient", "M * sample(", "M * unmasked(sample, "), unmasked),
    ("heads summed in the logits", "gradient check-17", "derivative",
     ("gradient", "sample(Measure(few", "sample(Measure(M * few")),
    ("likeliest labels instead of drawn ones", "unbiased check-18", "20,000",
     ("unbiased", "R.labels(index, uniform)", "np.eye(5)[R.Y[index].argmax(-1)]")),
    ("likeliest labels in the mean over the population", "unbiased check-18", "population",
     ("unbiased", "R.Y[everything]", "np.eye(5)[R.Y[everything].argmax(-1)]")),
    ("labels of the next word", "unbiased check-18", "20,000",
     ("unbiased", "R.labels(index, uniform)", "np.roll(R.labels(index, uniform), 1, -1)")),
    ("last sequence never drawn", "unbiased check-18", "20,000",
     ("unbiased", "rng.integers(len(R.X),", "rng.integers(len(R.X) - 1,")),
    ("every sample from the first sequence", "unbiased check-18", "20,000",
     ("unbiased", "gradients(index, R.l", "gradients(0 * index, R.l")),
    ("factor 2 lost in equation (19)", "factor check-19", "by hand",
     ("factor", "- 2 * 0.125", "- 0.125")),
    ("step doubled without halving the profile ξ", "factor check-19", "ξ = ½",
     ("factor", "xi=half", "xi=one")),
    ("time τ = t instead of τ = 2t", "factor check-19", "τ = 2t",
     ("factor", "in (2, 1)", "in (1, 2)")),
    ("Euler steps at half the rate", "factor check-19", "τ = 2t",
     ("factor", "[0, 1], one, method", "[0, 1], half, method")),
    ("another sample drawn for each head", "factor check-19", "by hand",
     ("factor", "R.sample(53, 1).gradient(few.atoms, few)",
      "np.concatenate([R.sample(53 + i, 1).gradient(x[None], few) "
      "for i, x in enumerate(few.atoms)])")),
    ("factor 2 lost in the weak form", "weak check-weak", "defect",
     ("weak", "weight * 2 * xi(s)", "weight * xi(s)")),
    ("learning rate at the end of the step", "weak check-weak", "defect",
     ("weak", "2 * xi(s)", "2 * xi(b)")),
    ("drift in the field of the initial law", "weak check-weak", "defect",
     ("weak", "R.gradient(mu.atoms, mu)", "R.gradient(mu.atoms, heads)")),
    ("weights of the heads counted twice", "weak check-weak", "defect",
     ("weak", "R.gradient(mu.atoms, mu)", "R.gradient(mu.atoms, mu) / 64")),
    ("weights of the heads in their velocity", "finite check-finite", "double weight", weighted),
    ("logits that ignore the weights", "finite check-finite", "double weight", equal_weights),
    ("heads moved one half after the other",
     "finite check-finite", "permuted", one_after_the_other),
    ("tracers that act on the heads", "finite check-finite", "carry tracers",
     ("finite", "np.r_[heads.weights, np.zeros(half)]", "np.full(3 * half, 1 / 3 / half)")),
    ("heads of double weight given the weight of one", "finite check-finite", "double weight",
     ("finite", "np.full(8, 2)", "np.full(8, 1.25)"),
     ("finite", "np.ones(half - 8)", "np.full(half - 8, 1.25)")),
    ("term of first order forgotten", "local check-27", "order",
     ("local", "- law.atoms + e * G", "- law.atoms")),
    ("one step of twice the size", "local check-27", "order",
     ("local", "- law.atoms + e * G", "- law.atoms + 2 * e * G")),
    ("one half of Taylor's formula lost", "local check-27", "½ max",
     ("local", "/ 1e-5 / 2", "/ 1e-5")),
    ("gradient in the field of heads at rest", "local check-27", "½ max",
     ("local", "R.gradient(later.atoms, later)", "R.gradient(later.atoms, law)")),
    ("interaction with the other sign", "hessian check-onesided", "least eigenvalue of the inter",
     ("hessian", "= R.at(moved).gradient(six", "= -R.at(moved).gradient(six")),
    ("Jacobian J of the softmax omitted", "hessian check-onesided", "single heads",
     ("hessian", "R.at(moved).gradient(six", "without_J(R.at(moved)).gradient(six"), without_J),
    ("Euclidean Hessian, divided by the number of heads", "hessian check-onesided", "single heads",
     ("hessian", "= single[i]", "= single[i] / n")),
    ("largest eigenvalue instead of the least", "check-onesided", "least eigenvalue of D²R",
     ("check-onesided", "alone.min()", "alone.max()")),
    ("best of the heads instead of the worst", "check-onesided", "least eigenvalue of D²R",
     ("check-onesided", "alone.min()", "alone.min(axis=1).max()")),
    ("sign of κ: the least eigenvalue instead of minus it", "check-onesided", "growth exponent",
     ("check-onesided", "- trapezoid", "+ trapezoid")),
    ("largest eigenvalue in the exponent instead of the least", "check-onesided", "two-sided",
     ("check-onesided", "mean[0] /", "mean[4] /")),
    ("estimate without the noise term", "check-meansquare", "at τ = 1",
     ("check-meansquare", "posterior[", "u[")),
    ("noise of order ε instead of √ε", "check-meansquare", "at τ = 1",
     ("check-meansquare", "posterior[", "(u + np.sqrt(epsilon) * v)[")),
    ("errors of the heads summed instead of averaged", "check-meansquare", "at τ = 1",
     ("check-meansquare", "measured[", "(np.sqrt(M) * measured)[")),
    ("errors averaged over coordinates instead of summed", "check-meansquare", "noise alone",
     ("check-meansquare", "measured[", "(measured / np.sqrt(D))[")),
    ("distance from the start instead of from the limit", "check-meansquare", "at τ = 1",
     ("check-meansquare", "measured[",
      "np.sqrt(((ends - law.atoms[picks]) ** 2).sum(axis=-1).mean(axis=(1, 2)))[")),
    ("influence without the adjoint", "check-influence", "risk: finite", without_adjoint),
    ("adjoint integral with the other sign", "check-influence", "test function",
     integral_with_the_other_sign),
    ("adjoint without the interaction of heads",
     "check-influence", "risk: finite", adjoint_of_heads_alone),
    ("adjoint equation run in the wrong direction",
     "check-influence", "risk: finite", adjoint_backwards),
    ("central difference over h instead of 2h", "influence check-influence", "risk: finite",
     ("influence", "/ (2 * h)", "/ h")),
    ("deviation of a sum of heads instead of their mean", "sampling check-sampling", "slope in M",
     ("sampling", "slope(heads_of, sizes[:, q]", "slope(heads_of, sizes[:, q] * heads_of")),
    ("deviation multiplied by √M", "sampling check-sampling", "slope in M",
     ("sampling", "slope(heads_of, sizes[:, q]", "slope(heads_of, sizes[:, q] * heads_of**0.5")),
    ("variance instead of standard deviation", "sampling check-sampling", "predicted: risk",
     ("sampling", "psi[2:].std", "psi[2:].var")),
    ("influence on the risk taken at another time", "sampling check-sampling", "predicted: risk",
     ("sampling", "psi[2:].std(axis=1)", "psi[[0, 3, 4, 5, 6]].std(axis=1)")),
    ("heads that move independently of each other",
     "sampling check-sampling", "predicted: distance to 0",
     ("sampling", "psi[2:].std(axis=1)",
      "np.r_[psi[2].std(), [f(limit.atoms[-1]).std() for f in functions]]")),
    ("prediction too small by a sixth", "sampling check-sampling", "predicted: a direction",
     ("sampling", "psi[2:].std(axis=1)", "psi[2:].std(axis=1) / 1.2")),
    ("standard error of one sample instead of the mean", "unbiased check-18", "from below",
     ("unbiased", "/ np.sqrt(n)", "/ 1")),
    ("curvature κ doubled", "separation check-onesided", "κ of the six heads",
     ("separation", "return -np", "return -2 * np")),
    ("labels averaged instead of drawn in the noise",
     "check-meansquare", "summed", ("check-meansquare", "R.labels(k, u)", "R.Y[k]")),
    ("rate without its square roots", "coverage shape check-theorem", "loud corner",
     ("shape", "    constants, far", "    rate = rate**2\n    constants, far")),
    ("control variate of other draws", "mean check-mean", "spread",
     ("mean", "default_rng([M, seed])", "default_rng([M, seed + 1])")),
    ("influence that is not centred", "mean check-mean", "slope of the mean",
     ("mean", "psi[:3].T", "(psi[:3] + R.first_variation(law.atoms, law).mean()).T")),
    ("influence of a sum of heads instead of their mean", "mean check-mean", "spread",
     ("mean", "psi[:3].T / heads_of[:, None, None]", "psi[:3].T")),
    ("mean of absolute errors instead of errors", "mean check-mean", "slope of the mean",
     ("mean", "rest.mean(axis=1)", "np.abs(raw).mean(axis=1)")),
    ("factor one half of the coefficient lost", "check-mean", "Chapter 4",
     ("check-mean", "bounds.leading_coefficient(R, law)",
      "2 * bounds.leading_coefficient(R, law)")),
    ("spread of single draws not removed", "mean check-mean", "least |mean|",
     ("mean", "rest = raw - first_order", "rest = raw")),
    ("errors of the noise in place of those of Euler's method", "steps check-steps", "Euler, slope",
     ("steps", 'stored["euler_largest"]', 'stored["noise_largest"][0].transpose(1, 0, 2)')),
    ("errors of Euler's method in place of those of the noise",
     "steps check-steps", "noise with 16",
     ("steps", 'stored["noise_largest"]',
      'np.repeat(stored["euler_largest"].transpose(1, 0, 2)[None], 3, axis=0)')),
    ("variance of the noise instead of its deviation", "steps check-steps", "noise with 16",
     ("steps", 'stored["noise_largest"]', 'stored["noise_largest"] ** 2')),
    ("a sample of its own for each head", "steps check-steps", "− 4 s.e.",
     ("steps", 'noise_runs.mean(axis=2)',
      "noise_runs.mean(axis=2) * np.array([1, 0.5, 0.125])[:, None, None]")),
    ("sign of the queries turned without that of the keys", "check-steps", "symmetric",
     ("check-steps", "a * Q, a * K", "a * Q, K")),
    ("sign of W_V turned without that of W_O", "check-steps", "symmetric",
     ("check-steps", "b * V, b * O", "b * V, O")),
    ("rate without its term in M", "coverage shape check-theorem", "quiet corner",
     ("coverage", "propagation_rate(int(m), e", "propagation_rate(10**9, e"),
     ("shape", "assert np.allclose", "np.allclose")),
    ("rate that depends on neither M nor ε", "coverage shape check-theorem", "quiet corner",
     ("coverage", "propagation_rate(int(m), e", "propagation_rate(64, 0.01"),
     ("shape", "assert np.allclose", "np.allclose")),
    ("constant from the median row instead of the 23rd of 25",
     "coverage shape check-theorem", "coverage",
     ("coverage", "[:, enough(25)]", "[:, 12]")),
    ("constant fitted to the mean over cells instead of the largest",
     "coverage shape check-theorem", "coverage",
     ("coverage", "[:, enough(25)].max(axis=0)",
      "[:, enough(25)].mean(axis=0)")),
    ("one seed used for all rows", "row coverage shape check-theorem", "recomputed",
     ("row", "descent_row(M, epsilon, seed)", "descent_row(M, epsilon, 0)")),
    ("one stored number off by a millionth", "row coverage shape check-theorem", "recomputed",
     ("row", "largest[i, j, seed])", "largest[i, j, seed] * [1, 1, 1, 1, 1.000001])")),
    ("stored rows compared with runs on hard labels",
     "row coverage shape check-theorem", "recomputed", rows_of_hard_labels),
    ("stored rows compared with runs in another clock",
     "row coverage shape check-theorem", "recomputed",
     rows_in_another_clock),
    ("stored row of another step size", "row coverage shape check-theorem", "recomputed",
     ("row", "largest[i, j, seed]", "largest[i, j + 1, seed]")),
    ("run with the scaling 1/M in place of 1/√M", "check-lazy", "1/√M scaling",
     ("check-lazy", "lazy_slopes[1]", "lazy_slopes[0]"),
     ("check-lazy", "moved[-1, 1]", "moved[-1, 0]")),
    ("run with the scaling 1/√M in place of 1/M", "check-lazy", "1/M scaling",
     ("check-lazy", "lazy_slopes[0]", "lazy_slopes[1]")),
    ("lazy run in a clock that is not rescaled", "lazy check-lazy", "1/√M scaling",
     ("lazy", "/ alpha**2", "/ 1"), ("lazy", "[16, 64, 256, 1024]", "[16, 64]")),
    ("variance of one head not removed from the correlation", "check-lazy", "M · correlation",
     ("check-lazy", "var(axis=1) - single)", "var(axis=1))")),
    ("distance of the mean heads instead of the laws",
     "well-posed check-well-posed", "by what factor",
     ("well-posed", "wasserstein(a.measure(i), b.measure(i), 1)",
      "np.linalg.norm(a.atoms[i].mean(axis=0) - b.atoms[i].mean(axis=0))")),
    ("direction in which heads return to zero", "well-posed check-well-posed", "0.99 σ₁",
     ("well-posed", "= -right[0]", "= right[0]")),
    ("runs compared with the solution at half the clock",
     "followed check-theorem", "quiet corner, distance to the start",
     ("followed", '"the theorem": solution',
      '"the theorem": CubicSpline(times, solution)(times / 2)')),
    ("runs compared with a solution that stops at τ = 6",
     "followed check-theorem", "quiet corner, distance to the start",
     ("followed", '"the theorem": solution',
      '"the theorem": solution[np.minimum(np.arange(33), 24)]')),
    ("runs compared with a law at rest",
     "followed check-theorem", "quiet corner, distance to the start",
     ("followed", '"the theorem": solution', '"the theorem": solution[:1]')),
    ("heads that never move", "followed check-theorem", "quiet corner, risk",
     ("followed", '[wrong["the theorem"], runs', '[wrong["heads at rest"], runs')),
    ("one part of the warm-up's local error lost", "local check-27", "warm-up",
     ("local", "[0, e], warming", "[0, e]")),
    # ------------------------------------------------------------ wrong claims
    ("claim: laws part at most at nine tenths of σ₁", "check-well-posed", "against Λ",
     ("check-well-posed", "tiny_ball.head + tiny_ball.measure", "0.9 * sigma[0]")),
    ("claim: the solution depends on the initial law like a root",
     "check-well-posed", "by what factor",
     ("check-well-posed", "[-1, 1], 2, 0.02", "[-1, 1], np.sqrt(2), 0.02")),
    ("claim: a local error of order 3/2", "check-27", "order",
     ("check-27", "order[-1], 2, 0.02", "order[-1], 1.5, 0.02")),
    ("claim: the slope of the profile does not enter", "check-27", "warm-up",
     ("check-27", "** 2, fastest", "** 2, 2 * curvature")),
    ("claim: the risk is convex in the heads", "check-onesided", "least eigenvalue of D²R",
     ("check-onesided", "full[0], alone.min()", "full[0], 0")),
    ("claim: errors do not grow at all", "check-onesided", "largest growth",
     ("check-onesided", "np.max((growth - trapezoid)[1:])", "np.max(growth[1:])")),
    ("claim: half of the mean-square estimate", "check-meansquare", "at τ = 1",
     ("check-meansquare", "posterior[", "0.5 * posterior[")),
    ("claim: what a head does for the risk at the start is its influence",
     "check-influence", "risk: finite",
     ("check-influence", "(tilt @ psi)", "(tilt @ R.first_variation(small.atoms, small))")),
    ("claim: fluctuations of order 1/M", "check-sampling", "slope in M",
     ("check-sampling", "fits[q][0], -0.5", "fits[q][0], -1")),
    ("claim: mean error of order M^(-1/2)", "check-mean", "slope of the mean",
     ("check-mean", "mean_fits[j][0], -1", "mean_fits[j][0], -0.5")),
    ("claim: the coefficient of 1/M does not change in time", "check-mean", "second differences",
     ("check-mean", "drawn_beta[j] / beta[j]", "drawn_beta[j] / beta[0]")),
    ("claim: noise of order ε", "check-steps", "farthest",
     ("check-steps", "abs(a - 0.5)), 0.5, 0.15", "abs(a - 0.5)), 1, 0.15")),
    ("claim: more heads help for even functions too", "check-steps", "in units",
     ("check-steps", "for q in (1, 2))", "for q in (0, 3))")),
    ("claim: the constant of the loud corner serves every head", "check-theorem", "(36)",
     ("check-theorem", "cover_36[3]", 'quiet_cover["the theorem"][1][3]')),
    ("claim: heads are uncorrelated", "check-lazy", "distance to 0",
     ("check-lazy", "scaled[j], expected[j]", "scaled[j], 0.0")),
]  # fmt: skip


@pytest.mark.parametrize("label", [0, 1, -1])
def test_smallest_case_is_a_layer_of_the_package(label):
    """One token, two words: `hand` takes the steps of heads with W_V = W_O."""
    names, epsilon = {"np": np}, 0.25
    execute(CELLS["hand"], "hand", names)
    Y = np.array([[[1 + label, 1 - label]]]) / 2
    risk = AttentionRisk(np.ones((1, 1, 1)), Y, np.array([[1.0, -1.0]]), HeadShape(1, 1, 1))
    a = np.array([0.0, 1.0, 0.3])
    start = Measure(np.stack([0 * a, 0 * a, a, a], axis=1))
    run = gradient_flow(risk, start, np.arange(5) * epsilon, method="euler", step=epsilon)
    m = (run.atoms[:, :, 2] ** 2).mean(axis=1)
    np.testing.assert_allclose(names["hand"](a, epsilon, [label] * 4), m, rtol=1e-12)


class TestDynamics(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
    least = 2
