"""The checks of Appendix C fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again. The check has to end in its
assertion, for the row that the mistake is about, and the entry of the audit has to say that it is
not confirmed.
"""

import numpy as np
import pytest
from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "c-audit.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("static", "rtol=1e-7", "rtol=1e-3"),
    ("escape", "rtol=1e-8", "rtol=1e-6"),
    ("minimiser", "[0, 600], rtol=1e-8", "[0, 600], rtol=1e-6"),
    ("constants", "samples=64", "samples=16"),
    ("constants", "descents=8", "descents=1"),
    ("radial", "samples=128, descents=8", "samples=8, descents=1"),
    ("minimiser", "space=shape.ball(r))", "space=shape.ball(r), starts=2)"),
    ("monotone", "samples=64", "samples=16"),
    ("families", "[0, 400], rtol=1e-6", "[0, 400], rtol=1e-3"),
    ("families", "[0, 150], rtol=1e-6", "[0, 150], rtol=1e-3"),
    ("families", "np.arange(1, 5)", "np.arange(1, 4)"),
]


# ---------------------------------------------------------------- replaced names


def force_with_the_other_sign(names):
    theta, force = names["theta"], names["force"]
    return {"anchor": lambda lam: theta - force / lam}


def summed_over_heads(names):
    right = names["dissipation"]
    return {"dissipation": lambda F, mu: mu.size * right(F, mu)}


def frobenius_norm(names):
    """The Frobenius norm of the correlation matrix for its largest singular value."""
    zero = names["Measure"].dirac(names["zero"])
    return {"lam_c": np.linalg.norm(names["R"].at(zero).correlation(names["zero"][None])[0])}


def stored_with(name, **changes):
    """Another stored check of a chapter."""
    return lambda names: {"stored": names["stored"] | {name: names["stored"][name] | changes}}


def equality_moved(names):
    data = names["stored"]["mf-linear-theory"]
    rows = [row | {"measured": row["measured"] + (row["relation"] == "=")} for row in data["rows"]]
    return stored_with("mf-linear-theory", rows=rows)(names)


# ---------------------------------------------------------------- wrong programs

FINITE, ALL, EXISTS = ("5.2: compact, finite horizon", "6.6, 6.9: compact, all times",
                       "a minimiser exists")  # fmt: skip
FALLS, STILL = "6.1: dissipation (concludes)", "6.3: still ⇔ 𝒟 = 0 (concludes)"
INWARD, ISOLATED, KL = ("6.7: inward or confining field", "6.6 (5): totally disconnected",
                        "6.10: KL on a neighbourhood")  # fmt: skip
MONOTONE, POSITIVE, UNSTABLE = ("7.1: strong monotonicity", "7.5: H ≻ 0",
                                "7.8: translation instability")  # fmt: skip
PL, SPURIOUS = "8: PL, global", "8: no spurious critical point"
BOUNDED, CONVEX, NO_RESIDUAL, LOGITS = ("4.1: bounded features", "8: convex features",
                                        "8: zero dual residual", "8: identifiability")  # fmt: skip

# Each as Chapter.wrong says; before the mistakes the entry of the audit, None if there is none.
WRONG = [
    ("anchor at the origin", "one-head one-head-numbers check-static", "one head, anchored", None,
     ("one-head", "[0.0, 0.0, 2.0, 2.0]", "[0.0, 0.0, 0.0, 0.0]")),
    ("half of the ridge", "one-head one-head-numbers check-static", "one head, ridge", None,
     ("one-head", "Ridge(strength)", "Ridge(strength / 2)")),
    ("ball of another radius", "one-head one-head-numbers check-static", "one head, balls", None,
     ("one-head", "ball(1.0)", "ball(1.1)")),
    ("claim: the bare head stops", "check-static", "one head, bare", None,
     ("check-static", 'head_sizes["bare"][-1] - head_sizes["bare"][40], 0.1)',
      '-(head_sizes["bare"][-1] - head_sizes["bare"][40]), -1e-9)')),
    ("bound taken at time 0", "static check-static", "bare: largest ‖W_V‖", (FINITE, "bare"),
     ("static", "shape.k, times[1], N_V", "shape.k, 0.0, N_V")),
    ("radius of the balls halved", "static check-static", "balls: largest ‖W_V‖", (FINITE, "balls"),
     ("static", "2 * radius if", "radius if")),
    ("value not divided by the strength of the ridge",
     "static check-static", "ridge: largest ‖θ − a‖", (ALL, "ridge"),
     ("static", "runs[name].value[0] / ridge_lam", "runs[name].value[0]")),
    ("projection on the balls forgotten",
     "static check-static", "balls: largest norm", (ALL, "balls"),
     ("static", '"balls": balls}', '"balls": R}')),
    ("Ei(p) instead of Ei(2p)", "escape check-static", "τ from the formula", (ALL, "bare"),
     ("escape", "expi(2 * p)", "expi(p)")),
    ("risk at another time", "escape check-static", "bare, sign: risk", (EXISTS, "bare"),
     ("escape", "one.value[-1]", "one.value[1]")),
    ("minimisation stopped too early",
     "minimiser check-static", "1 at the best law", (EXISTS, "ridge"),
     ("minimiser", "[0, 600]", "[0, 5]")),
    ("radius of the search not squared", "minimiser check-static", "largest σ₁(C) found, at θ*",
     (EXISTS, "anchored"), ("minimiser", ".value / r**2", ".value")),
    ("certificate of another law", "minimiser check-static", "gap of the teacher",
     (EXISTS, "balls"), ("minimiser", "task.teacher))", "delta))")),
    ("velocity not projected", "dissipation check-long", "balls: −dF/dτ", (FALLS, "balls"),
     ("dissipation", "F.space.tangent(mu.atoms, -F.at(mu).gradient(mu.atoms))",
      "-F.at(mu).gradient(mu.atoms)")),
    ("dissipation summed over heads instead of averaged",
     "dissipation check-long", "bare: −dF/dτ", (FALLS, "bare"),
     summed_over_heads),
    ("slope with the factor 2 of physical time",
     "dissipation check-long", "ridge: −dF/dτ", (FALLS, "ridge"),
     ("dissipation", "-slope / dissipation", "-2 * slope / dissipation")),
    ("anchor on the other side of the head",
     "dissipation check-long", "anchored: 𝒟 at", (STILL, "anchored"),
     force_with_the_other_sign),
    ("start at the anchor instead of the stationary head",
     "dissipation check-long", "anchored: its motion",
     (STILL, "anchored"), ("dissipation", "(anchored(ridge_lam), theta)",
                           "(anchored(ridge_lam), anchor(ridge_lam))")),
    ("signs of W_V and W_O both turned",
     "radial check-long", "at the mirror image", (INWARD, "bare"),
     ("radial", "np.repeat([1, 1, 1, -1]", "np.repeat([1, 1, -1, -1]")),
    ("decay of half the strength", "radial check-long", "ridge: least", (INWARD, "ridge"),
     ("radial", "R + Ridge(large)", "R + Ridge(large / 2)")),
    ("anchored decay forgotten", "radial check-long", "anchored: the same", (INWARD, "anchored"),
     ("radial", '("anchored", anchored(large))', '("anchored", R)')),
    ("field not projected on the balls", "radial check-long", "outward speed", (INWARD, "balls"),
     ("radial", "balls.space.tangent(edge := balls.space.project(100 * heads), "
      "-R.gradient(edge, delta))",
      "-R.gradient(edge := balls.space.project(100 * heads), delta)")),
    ("sign of W_O turned without that of W_V",
     "families continua check-long", "bare: gradient norm along",
     (ISOLATED, "bare"), ("families", "sign=(1, 1, -1, -1)", "sign=(1, 1, 1, -1)")),
    ("another head in place of the mirror image", "families continua check-long",
     "ridge: gradient norm along", (ISOLATED, "ridge"),
     ("families", "Measure([head, mirror(head)]", "Measure([head, start.atoms[0]]")),
    ("atoms not moved while the weights change",
     "families continua check-long", "anchored: gradient norm along",
     (ISOLATED, "anchored"),
     ("families", "settle(F, Measure(path[name][-1].atoms, [w, 1 - w]), 6)",
      "Measure(path[name][-1].atoms, [w, 1 - w])")),
    ("weights that stay the same along the family",
     "families continua check-long", "anchored: mass moved",
     (ISOLATED, "anchored"), ("families", "[w, 1 - w]), 6)", "mu.weights), 6)")),
    ("values kept where the head should be silent",
     "continua check-long", "balls: gradient norm at 50", (ISOLATED, "balls"),
     ("continua", "np.repeat([1, 1, 0, 0]", "np.repeat([1, 1, 1, 1]")),
    ("family along which no weight moves", "kl check-long",
     "ridge: derivative of the value", (KL, "ridge"),
     ("kl", "[w + s, 1 - w - s]), 6)", "[w, 1 - w]), 6)")),
    ("atoms not followed by Newton's method", "families kl check-long", "anchored: 𝒟 along",
     (KL, "anchored"),
     ("families", "settle(F, Measure(path[name][-1].atoms, [w, 1 - w]), 6)",
      "Measure(path[name][-1].atoms, [w, 1 - w])")),
    ("flow that has not reached its end", "kl check-long", "bare: largest |Ψ|", (KL, "bare"),
     ("kl", "settle(R, gradient_flow(R, Measure(flat), [0, 300], rtol=1e-6).end)",
      "gradient_flow(R, Measure(flat), [0, 300], rtol=1e-6).end")),
    ("optimum in place of a law that is only stationary",
     "kl check-long", "bare: its excess", (KL, "bare"),
     ("kl", "settle(R, gradient_flow(R, Measure(flat), [0, 300], rtol=1e-6).end)",
      "task.teacher")),
    ("decay equal to the bound, not twice", "monotone check-stability", "field of another law",
     (MONOTONE, "ridge"), ("monotone", "R + Ridge(large)", "R + Ridge(lam_bar)")),
    ("head that is not far away",
     "monotone check-stability", "of a far head", (MONOTONE, "anchored"),
     ("monotone", "0.0, 1e4)", "0.0, 1.0)")),
    ("sign of W_V not chosen", "monotone check-stability", "of a far head",
     (MONOTONE, "anchored"), ("monotone", "quotient(ray).argmin()", "quotient(ray).argmax()")),
    ("blocks of W_Q and W_O instead of W_V and W_O",
     "stability check-stability", "bare, 7.1: blocks",
     (MONOTONE, "bare"), ("stability", "for i in (2, 3))", "for i in (0, 3))")),
    ("interaction K added to H", "stability check-stability", "balls, 7.5: blocks",
     (POSITIVE, "balls"), ("stability", "bare_delta.H[0][block, block]",
                           "(bare_delta.H[0] + bare_delta.K[0, 0])[block, block]")),
    ("Frobenius norm instead of σ₁ in λ_c", "stability check-stability", "ridge: (λ − λ_min(H))",
     (POSITIVE, "ridge"), frobenius_norm),
    ("H + K instead of H", "stability check-stability", "anchored: (λ − λ_min(H))",
     (POSITIVE, "anchored"), ("stability", ".deviations[0]) / threshold",
                              ".translations[0]) / threshold")),
    ("H instead of H + K", "instability check-stability", "anchored: −λ_min(H_tr)",
     (UNSTABLE, "anchored"), ("instability", ".translation_rate / rate", ".split_rate / rate")),
    ("rate over half the time", "instability check-stability", "ridge: rate at which",
     (UNSTABLE, "ridge"), ("instability", "distance[1]) / 4", "distance[1]) / 2")),
    ("ridge of strength λ_c instead of half of it",
     "instability check-stability", "ridge: −λ_min(H_tr)",
     (UNSTABLE, "ridge"), ("instability", "R + Ridge(lam_c / 2)", "R + Ridge(lam_c)")),
    ("Frobenius norm instead of σ₁ in the rate", "instability check-stability",
     "bare: −λ_min(H_tr)", (UNSTABLE, "bare"), frobenius_norm),
    ("head that writes with the residual instead of against it",
     "optimality check-optimality", "bare: fall of the value",
     (PL, "bare"), ("optimality", "-s * U[:, :1]", "s * U[:, :1]")),
    ("ridge above both thresholds", "optimality check-optimality", "ridge: fall of the value",
     (PL, "ridge"), ("optimality", "R + Ridge(lam_c / 2)", "R + Ridge(3 * lam_c)")),
    ("speed instead of its square", "optimality check-optimality", "ridge: 𝒟/E", (PL, "ridge"),
     ("optimality", "dissipation(\n            F, other) / excess",
      "dissipation(\n            F, other) ** 0.5 / excess")),
    ("anchor on the other side of the point mass", "optimality check-optimality", "anchored: 𝒟 at",
     (PL, "anchored"), force_with_the_other_sign),
    ("gradient at another head", "spurious check-optimality", "bare: gradient of Ψ",
     (SPURIOUS, "bare"), ("spurious", "F.gradient(zero[None], start)",
                          "F.gradient(theta[None], start)")),
    ("values at the zero head", "spurious check-optimality", "ridge: least Ψ",
     (SPURIOUS, "ridge"), ("spurious", "first_variation(start.atoms,",
                           "first_variation(0 * start.atoms,")),
    ("decay above the threshold", "spurious check-optimality", "anchored: λ_min(∇²Ψ)",
     (SPURIOUS, "anchored"), ("spurious", "saddle = dirac_stability(anchored(0.4)",
                              "saddle = dirac_stability(anchored(0.8)")),
    ("features at the same heads", "bounded check-static", "largest feature with z",
     (BOUNDED, "bare"), ("bounded", "for x in (write, grown)]", "for x in (write, write)]")),
    ("bound B without the norm of W_U", "bounded check-static", "against B", (BOUNDED, "balls"),
     ("bounded", "bounds.feature_bound(R_X, R_U, radius)",
      "bounds.feature_bound(R_X, 1, radius / 2)")),
    ("another basis than that of the cube", "kl check-long", "balls, echo: projected",
     (KL, "balls"), ("kl", "axes = 1.5 * np.eye(3)",
                     "axes = 1.5 * np.linalg.qr(heads[:3, :3])[0]")),
    ("heads inside the balls", "kl check-long", "balls, echo: certified", (KL, "balls"),
     ("kl", "axes = 1.5 *", "axes = 1.4 *")),
    ("first singular value included", "convex-features check-optimality", "average of two",
     (CONVEX, "balls"), ("convex-features", "[1][1:] ** 2", "[1] ** 2")),
    ("claim: twice the distance of the average from a head's feature",
     "convex-features check-optimality", "average of two", (CONVEX, "balls"),
     ("convex-features", "closest, least_apart, 1e-6)", "closest, 2 * least_apart, 1e-6)")),
    ("convexity at half the strength", "flattest logits check-optimality",
     "ridge: the same for four laws",
     (LOGITS, "ridge"), ("flattest", "same + confine(lam, x +", "same + confine(lam / 2, x +")),
    ("anchor of another strength", "flattest logits check-optimality",
     "anchored: the same for four laws",
     (LOGITS, "anchored"), ("flattest", "[0] / lam)", "[0] / (2 * lam))")),
    ("claim: with ridge p_min without its half", "logits check-optimality",
     "ridge: the same for four laws",
     (LOGITS, "ridge"), ("logits", "2 * (F(mu) - F(best))", "(F(mu) - F(best))")),
    ("claim: with an anchor p_min without its half", "logits check-optimality",
     "anchored: the same for four laws",
     (LOGITS, "anchored"), ("logits", "2 * (F(mu) - F(best))", "(F(mu) - F(best))")),
    ("claim: the bound is attained on random laws too", "logits check-optimality",
     "ridge: nearly attained", (LOGITS, "ridge"),
     ("logits", "least_ratio(F, same, best, beside)", "least_ratio(F, same, best, trials)")),
    ("price at the law before training", "convex-features check-optimality", "teacher: largest |Ψ|",
     (NO_RESIDUAL, "bare"), ("convex-features", "R.first_variation(heads, task.teacher)",
                             "R.first_variation(heads, start)")),
    ("penalty forgotten", "convex-features check-optimality", "ridge: spread",
     (NO_RESIDUAL, "ridge"), ("convex-features", "np.ptp(variants[name]", "np.ptp(R")),
    ("logits of the other law in the distance", "logits check-optimality",
     "balls: least excess", (LOGITS, "balls"),
     ("logits", "((f - goal) ** 2)", "((f - 9 * goal) ** 2)")),
    # claims that go one step too far
    ("claim: features are bounded with a ridge", "bounded check-static", "largest feature with z",
     (BOUNDED, "ridge"),
     ("bounded", "size[1] / size[0], 100, 1e-9", "size[1] / size[0], 1, 0.5")),
    ("claim: a minimiser exists for every ridge", "minimiser check-static",
     "ridge: largest σ₁(C(·; ν))/λ", (EXISTS, "ridge"),
     ("minimiser", 'at_least("ridge: largest', 'at_most("ridge: largest'),
     ("minimiser", "above(\n            hungriest(nu, 103) / ridge_lam, 10.0), 1.05)",
      "hungriest(nu, 103) / ridge_lam, 1)")),
    ("claim: KL near an optimum on the balls", "kl check-long",
     "balls, echo: projected", (KL, "balls"),
     ("kl", "max(stationarity(echo, mu).dissipation for mu in uneven), 0, 1e-20",
      "-min(stationarity(echo, mu).dissipation for mu in uneven), -1e-6")),
    ("claim: the value is constant along families", "kl check-long", "ridge: derivative of the",
     (KL, "ridge"),
     ("kl", "(values[0] - values[1]), 1, 1e-3)", "(values[0] - values[1]), 0, 1e-3)")),
    ("claim: the field is inward without confinement", "radial check-long", "bare: least",
     (INWARD, "bare"), ("radial", "below(least[\"bare\"].min(), -1.4), -1e-3",
                        "-least[\"bare\"].min(), 0")),
    ("claim: 7.1 with an anchor for every head", "monotone check-stability", "of a far head",
     (MONOTONE, "anchored"), ("monotone", "quotient(far)[0], -10", "-quotient(far)[0], 2")),
    ("claim: 7.1 with an anchor for no head", "monotone check-stability", "y* = 0: least",
     (MONOTONE, "anchored"), ("monotone", "quotient(many, uniform).min(), -1.0), -2",
                              "-quotient(many, uniform).min(), -1.0), 2")),
    ("claim: H ≻ 0 from λ_t on", "stability check-stability", "anchored: (λ − λ_min(H))",
     (POSITIVE, "anchored"), ("stability", "anchored(lam), theta, lam_s", "anchored(lam), theta, "
                              "lam_t")),
    ("claim: identifiability with ten times the constant", "logits check-optimality",
     "balls: least excess",
     (LOGITS, "balls"), ("logits", "2 * (F(mu) - F(best))", "0.2 * (F(mu) - F(best))")),
    ("claim: the logits converge without a minimiser", "logits check-optimality",
     "bare, sign: its logits", (LOGITS, "bare"),
     ("logits", "p[-1] / p[1], 1.3", "p[1] / p[-1], 0.99")),
    ("stored check that fails", "check-results", "stored checks", None,
     stored_with("mf-forces-dirac", holds=False)),
    ("stored bound that is exceeded", "check-results", "tightest bound", None,
     stored_with("mf-specialisation", ratio=0.98)),
    ("stored equality that is off by one", "check-results", "equalities", None, equality_moved),
    ("result without a check", "results check-results", "results without", None,
     ("results", '"C.11": ["mf-identifiability-teacher"]', '"C.11": []')),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def in_book():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(BOOK)  # one cell reads the chapters that lie beside it
        yield


class TestAudit(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
    least = 4

    @pytest.mark.wrong_program
    def test_right_program_confirms_every_entry(self, book):
        names = book.names
        assert all(not word.startswith("not confirmed") for word in names["audit"].values())
        assert len(names["audit"]) == len(names["theorems"]) * len(names["VARIANTS"])

    @pytest.mark.wrong_program
    def test_wrong_program_fails(self, book, mistake):
        name, cells, row, entry, *changes = mistake
        kept = {}

        def own_audit(names):
            """The cells write into these two: a wrong program gets copies."""
            if "audit" not in names:  # a mistake before the first entry
                return {}
            kept["audit"] = dict(names["audit"])
            rows = {name: list(rows) for name, rows in names["evidence"].items()}
            return kept | {"evidence": rows}

        super().test_wrong_program_fails(book, (name, cells, row, own_audit, *changes))
        if entry:
            assert kept["audit"][entry].startswith("not confirmed"), kept["audit"][entry]
