"""The checks of Appendix D5, on two layers, fail for wrong programs and for wrong claims."""

import importlib

import numpy as np
from chapter_runner import Chapter, computing, flow_along, mistaken

from mfbook.functional import Functional
from mfbook.models import layers
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "d5-two-layers.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("hand", "np.array([0.15, 0.3, 0.7, 1.2, 2.2])", "np.array([0.3, 1.2])"),
    ("thresholds", "np.geomspace(0.05, 0.99, 12)", "np.geomspace(0.5, 0.99, 2)"),
    ("forms", "draws=700", "draws=400"),
    ("audit-runs", "[0, 250]", "[0, 150]"),
]

WAKING, BEST, CONSERVED = "spectra check-waking", "check-best", "balance check-conserved"
LINES = "audit audit-more check-audit"
AUDIT = f"audit-runs audit-others {LINES}"


# ---------------------------------------------------------------- replaced names


class Mistaken(Functional):
    """A risk that computes with one change of the text of its module."""

    def __init__(self, risk, old, new):
        self.risk, self.Y, self.change = risk, risk.Y, (layers, old, new)

    def at(self, mu):
        with mistaken(*self.change):
            local = self.risk.at(mu)
            value, duals = local.value, local.duals
        return type(local)(self.risk, value, local.logits, local.tokens, duals)


def stack_with(old, new):
    """The risk of the task with one change of the text of its module."""
    return lambda names: {"R": Mistaken(names["R"], old, new)}


def bound_with(old, new):
    """The bound for two empty layers with one change of its text."""
    module = importlib.import_module("mfbook.bounds.stacked")

    def stacked_threshold(*arguments):
        with mistaken(module, old, new):
            return module.stacked_threshold(*arguments)

    return lambda names: {"stacked_threshold": stacked_threshold}


uphill_in_one_layer = flow_along(lambda F, x, mu: np.where(x[:, :1] < 0, -1, 1) * F.gradient(x, mu))


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    # who wakes first
    ("weight decay forgotten in layer 1", "hand check-waking", "by hand, c = 1",
     ("hand", "F = sign_task(1.0) + HeadRidge(strength)",
      "F = sign_task(1.0) + HeadRidge(strength / 2)")),
    ("means of the tokens instead of means of means", "check-waking", "G₁ from the flow",
     ("check-waking", "G_1 - 2 * asks(N)[1]", "G_1 - 2 * asks(N)[0]")),
    ("factor 2 of half the mass forgotten", "check-waking", "G₁ from the flow",
     ("check-waking", "G_1 - 2 * asks", "G_1 - asks")),
    ("layers exchanged", WAKING, "both empty, layer 2",
     ("spectra", "H_second = report.H[1]", "H_second = report.H[0]")),
    ("ridge forgotten in the rate of layer 1", "thresholds spectra check-waking",
     "rate of a small head", ("thresholds", "s[0] - strength", "s[0]")),
    ("a direction other than the top pair", "thresholds spectra check-waking",
     "rate of a small head", ("thresholds", "-U[None, :, :1], Wt", "U[None, :, :1], Wt")),
    ("a head of layer 1 that is not empty", WAKING, "its interaction K",
     ("spectra", "H_first, K_first, _ = of_first_layer(0.3, mu)",
      "H_first, K_first, _ = of_first_layer(0.3, Measure(mu.atoms + 0.1, mu.weights))")),
    ("singular values with one sign only", WAKING, "layer 1 empty: eigenvalues",
     ("spectra", "np.r_[0.3 + sigma, 0.3 - sigma", "np.r_[0.3 + sigma, 0.3 + sigma")),
    ("residual path left out of what layer 2 asks", "spectra check-waking", "G₁ from the flow",
     stack_with("self.A.swapaxes(2, 3) @ P\n", "0 * self.A.swapaxes(2, 3) @ P\n")),
    ("claim: both layers wake together", "check-waking", "λ₁/λ_c",
     ("check-waking", 'at_most("λ₁/λ_c", lam_1 / lam_c, 1)',
      'at_least("λ₁/λ_c", lam_1 / lam_c, 1)')),
    ("claim: at λ_c layer 1 feels a pull of the size of λ", "check-waking", "λ = 0.99 λ_c",
     ("check-waking", 'at_most("λ = 0.99 λ_c: σ₁(G₁)/λ", quotients[-1], 0.05)',
      'at_least("λ = 0.99 λ_c: σ₁(G₁)/λ", quotients[-1], 0.5)')),
    ("claim: layer 1 wakes below 2 λ₁", "check-waking", "this rate; layer 1 sleeps",
     ("check-waking", 'rates["2 λ₁"][0], -0.01', '-rates["2 λ₁"][0], -0.01')),
    ("claim: with equal tokens layer 1 wakes at σ₁(N)² = 1", "check-waking", "equal tokens",
     ("check-waking", "(0.3 * np.linalg.norm(N_same, 2))",
      "(0.3 * np.linalg.norm(N_same, 2) ** 2)")),
    # two empty layers at their best
    ("cheapest law with layer 1 empty", "scaling check-best", "slope of Λ",
     bound_with("return P if P <= 1 else 2 * math.sqrt(P) - 1", "return P")),
    ("gain of the square root of the norm", "scaling check-best", "slope of Λ",
     bound_with("math.exp(-a * P)", "math.exp(-a * math.sqrt(P))")),
    ("residual connection forgotten in the size of the logits", "barrier scaling check-best",
     "Λ attained", bound_with("2 * math.sqrt(P) - 1", "2 * math.sqrt(P)")),
    ("half the ridge", "scaling check-best", "Λ attained",
     ("scaling", "attained = (2 * (np.log(2)", "attained = ((np.log(2)")),
    ("layer 2 alone", "scaling check-best", "Λ attained",
     ("scaling", "q * (1 + p))))", "q)))")),
    ("claim: two empty layers are best wherever they are stable", BEST, "F of the law at rest",
     ("check-best", '''at_most("F of the law at rest with both awake, against two empty layers"''',
      '''at_least("F of the law at rest with both awake, against two empty layers"''')),
    ("claim: no barrier between the valleys", BEST, "F at the barrier",
     ("check-best", 'at_least("F at the barrier', 'at_most("F at the barrier')),
    ("claim: (60) fails at two empty layers", BEST, "(60): least",
     ("check-best", "coarse(price.min(), 2),\n             lam / 2 - kappa",
      "-coarse(price.min(), 2), 0")),
    ("claim: a share of Λ is of the order of c", BEST, "slope of Λ",
     ("check-best", "np.log10(gaps[0] / gaps[1]), 0.5,", "np.log10(gaps[0] / gaps[1]), 1.0,")),
    ("claim: two thirds of Λ are enough", BEST, "Λ attained",
     ("check-best", "attained / Lam, 1, 1e-3", "attained / (2 * Lam / 3), 1, 1e-3")),
    ("task with a larger W_U", "scaling check-best", "attention, W_U/10⁴",
     ("scaling", "faint = 1e-4", "faint = 1e-1")),
    ("claim: layer 2 fades at twice its linear rate", BEST, "the same four",
     ("check-best", "np.exp(-3)),\n    equal(\"a flow", "np.exp(-12)),\n    equal(\"a flow")),
    ("ridge forgotten in four flows", "barrier scaling check-best", "four flows",
     ("barrier", "run = gradient_flow(F, Measure(label(x[:4]",
      "run = gradient_flow(sign_task(small), Measure(label(x[:4]")),
    ("a start on the near side of the barrier", "barrier scaling check-best",
     "a flow from beyond", ("barrier", "pair(1.2 * u_low - 1, 1.2 * u_low)",
                            "pair(0.9 * u_low - 1, 0.9 * u_low)")),
    # what is conserved
    ("residual connection dropped", "forms balance check-conserved", "quadratic forms conserved",
     ("forms", '"with residual", 1.0', '"with residual", 0.0')),
    ("half a residual connection instead of none", "forms balance check-conserved",
     "without the residual", ("forms", '("without", 0.0)', '("without", 0.5)')),
    ("gradient of the second layer only", "forms balance check-conserved",
     "quadratic forms conserved",
     ("forms", "outer = theta[:, :, None] * g[:, None]",
      "outer = theta[:, :, None] * (g * (np.arange(g.shape[1]) >= 12))[:, None]")),
    ("claim: there is a balance across the layers", "check-conserved", "quadratic forms",
     ("check-conserved", "2 * per_head, 0),\n    equal(\"without",
      "2 * per_head + 3, 0),\n    equal(\"without")),
    ("keys with the sign of queries", CONSERVED, "drift of the balances",
     ("balance", "Q.mT @ Q - K.mT @ K", "Q.mT @ Q + K.mT @ K")),
    ("outputs with the sign of values", CONSERVED, "drift of the balances",
     ("balance", "Vv.mT @ Vv - O @ O.mT", "Vv.mT @ Vv + O @ O.mT")),
    ("layer 1 that moves uphill", CONSERVED, "one token: drift", uphill_in_one_layer),
    ("decay of norms instead of squares", CONSERVED, "ridge: balances",
     ("balance", "np.exp(2 * 0.1 * 2)", "np.exp(0.1 * 2)")),
    ("queries and keys left out of the balance across layers", CONSERVED, "rate of the balance",
     ("balance", "-(Q @ dQ.T + K @ dK.T + Vv @ dV.T)", "-(Vv @ dV.T)")),
    ("what layer 1 writes counted as the direct path", CONSERVED, "rate of the balance",
     ("balance", '"sta,stb->ab", X, local', '"sta,stb->ab", local.tokens, local')),
    ("claim: p − q is conserved", "check-conserved", "one token: change of p − q",
     ("check-conserved", 'at_least("one token: change of p − q"',
      'at_most("one token: change of p − q"')),
    ("claim: p + 2 log p − q is conserved", "check-conserved", "one token: drift",
     ("check-conserved", "p + np.log(p) - q", "p + 2 * np.log(p) - q")),
    # the audit
    ("heads not settled by Newton's method", AUDIT,
     "gradient at the limit", ("audit-runs", "rounds=6", "rounds=0")),
    ("layers of the mixture exchanged", AUDIT, "layer 1 mixed",
     ("audit-others", "label([[0, 0, 1, m]], [[W_Q, -W_Q, 1, 1]])",
      "label([[W_Q, -W_Q, 1, 1]], [[0, 0, 1, m]])")),
    ("twice the ridge at the heads that attend", AUDIT, "zᵀHz",
     ("audit-runs", "ended, split = settle(G, trained.end)",
      "ended, split = settle(G, trained.end)\n"
      "split = atomic_stability(R + HeadRidge(2 * teacher_lam), ended)")),
    ("claim: yᵀHz is −λ‖y‖²", LINES, "yᵀHz",
     ("audit-more", "(-2 * teacher_lam * yy[j])", "(-teacher_lam * yy[j])")),
    ("dissipation of the bare flow with half the speed", AUDIT, "−dR/dτ",
     ("audit-others", "- 1e-30j * R.gradient", "- 0.5e-30j * R.gradient")),
    ("claim: the bound of C.6 is four times as large", LINES, "against C.6",
     ("audit-more", "stated_split[j]))", "4 * stated_split[j]))")),
    ("claim: the law of layer 1 has a convex risk", LINES, "layer 1 mixed",
     ("audit", 'bend(2.0), 0.05), at_most(', '-bend(2.0), 0), at_most(')),
    ("claim: K is not negative in layer 1", LINES, "layer 1: least eigenvalue of K",
     ("audit", "coarse(min(curved[:2]), 2), -1e-3), at_least(",
      "-coarse(min(curved[:2]), 2), -1e-3), at_least(")),
    ("claim: the pull on layer 1 is bounded", LINES, "layer 1: pull on its heads",
     ("audit-more", "pulled[1] / pulled[0], 5)", "pulled[0] / pulled[1], 5)")),
    ("claim: minimisers have the same logits", LINES, "its logits",
     ("audit-more", "small * u_tie**2, 0.1)", "-small * u_tie**2, 0.1)")),
    ("claim: W₂ is at most a quarter of √(τR(ρ₀))", LINES, "W₂ from the start",
     ("audit-more", "np.sqrt(t * bare.value[0]))", "np.sqrt(t * bare.value[0]) / 4)")),
]  # fmt: skip


class TestTwoLayers(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
