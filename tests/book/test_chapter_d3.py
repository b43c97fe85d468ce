"""The checks of Appendix D3 fail for wrong programs and for wrong claims."""

from types import SimpleNamespace

from chapter_runner import Chapter, computing, mistaken

from mfbook.book.experiments import cascade
from mfbook.landscape import uniform
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "d3-splitting.ipynb"))
SMALLER = [
    ("stairs", "stairs(lam, 4, other_draws)", "stairs(lam, 2, other_draws)"),
    ("stairs", "values[9 * n + 8]", "values[-1]"),
    ("far", "rtol=1e-6", "rtol=1e-4"),
    ("near-laws", "range(300)", "range(60)"),
    ("near", "range(random_tasks)", "range(2)"),
]


# ---------------------------------------------------------------- replaced names


def wrong_law(old, new):
    """The best uniform law, by a module with one change."""

    def called(*arguments, **options):
        with mistaken(uniform, old, new):
            return uniform.best_uniform(*arguments, **options)

    return lambda names: {"best_uniform": called}


def wrong_cascade(old, new):
    """Cascades that are trained again by a module with one change."""

    def again(*arguments, **options):
        with mistaken(cascade, old, new):
            return cascade.cascade(*arguments, **options)

    there = {name: getattr(cascade, name) for name in ("load", "SHARES", "HEADS")}
    return lambda names: {"cascade": SimpleNamespace(cascade=again, **there)}


def nothing_better(names):
    """The infimum over uniform laws in the place of that over all."""
    return {"least_of_all": lambda lam: names["best_uniform"](names["pair"], lam).value}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    # stable is optimal
    ("claim: W₂ grows at twice the proved rate", "check-optimal", "rate of W₂",
     ("check-optimal", "min(far_rates) / (2 * rho)", "min(far_rates) / (4 * rho)")),
    ("ridge forgotten in ϱ", "far check-optimal", "rate of W₂",
     ("far", "local = F.at(", "local = pair.at(")),
    ("‖z‖² taken for the size of a head, so that ϱ is twice too large", "far check-optimal",
     "rate of W₂", ("far", "/ (2 * size_far)", "/ size_far")),
    ("far head with the sign of W_O turned", "far check-optimal", "distance reached, least",
     ("far", "far_head = heads(q_far, size_far)",
      "far_head = heads(q_far, size_far) * [1, 1, 1, -1]")),
    ("hypothesis dropped: a far head that attends as all others do", "far check-optimal",
     "distance reached, least", ("far", "middle_ridge, 2.5, 400.0", "middle_ridge, 0.0, 400.0")),
    ("claim: the distance reached shrinks like a fourth root of the mass", "check-optimal",
     "mass 1e-10 / mass 1e-6", ("check-optimal", "far_w2[1e-6].max(), 2), 1, 0.1",
                                "far_w2[1e-6].max(), 2), 0.1, 0.01")),
    ("ridge forgotten for the near heads", "far check-optimal", "near heads",
     ("far", "near = gradient_flow(F,", "near = gradient_flow(pair,")),
    ("claim: the best uniform law is optimal", "check-optimal", "what the infimum",
     nothing_better),
    ("claim: the empty layer contracts at 2(λ − λ_c)", "empty check-optimal", "4 laws",
     ("empty", "np.exp(2 * (above_star - 0.5) * clock_0)",
      "np.exp(2 * (above_star - 0.25) * clock_0)")),
    ("claim: the empty layer contracts at twice the rate", "empty check-optimal", "4 laws",
     ("empty", "np.exp(2 * (above_star - 0.5) * clock_0)",
      "np.exp(4 * (above_star - 0.5) * clock_0)")),
    ("square of the norm forgotten: half the rate", "empty check-optimal", "attends sharply",
     ("empty", "-np.log(writes[1] / writes[0])", "-np.log(writes[1] / writes[0]) / 2")),
    ("claim: stable in W₂ above λ_c", "empty check-optimal", "λ = 0.45",
     ("empty", "pair + Ridge(strength)", "pair + Ridge(strength + 0.1)")),
    ("ridge halved at the threshold", "empty check-optimal", "λ = 0.5",
     ("empty", "pair + Ridge(strength)", "pair + Ridge(strength - 0.05)")),
    # where splitting ends
    ("√k forgotten in Γ", "near check-near", "spectrum",
     wrong_law("(ridge * np.sqrt(risk.shape.k))", "ridge")),
    ("second moment in the place of the covariance", "gamma near check-near", "spectrum",
     wrong_law("- risk.X[:, : t + 1].mean(axis=1, keepdims=True)", "")),
    ("covariance summed and not averaged", "gamma near check-near", "formula above",
     wrong_law("seen, seen) / (t + 1)", "seen, seen)")),
    ("residual of the empty layer", "gamma near check-near", "by hand: Γ",
     wrong_law("content_matrix(risk, _uniform(N, risk.shape), N)",
               "content_matrix(risk, _uniform(0 * N, risk.shape), N)")),
    ("the mask dropped in the formula", "gamma check-near", "formula above",
     ("gamma", "task.X[:, : t + 1] - task.X[:, : t + 1].mean(", "task.X - task.X.mean(")),
    ("claim: a head may have the size 4", "near check-near", "by hand: Γ",
     ("near", "(2 * (1 + np.exp(2)))", "(2 * (1 + np.exp(4)))")),
    ("claim: the mean size decides", "check-near", "sizes 1.0 and 2.32",
     ("check-near", "1 - (2 * mean - 1) / 2", "1 - mean / 2")),
    ("claim: the eigenvalue falls like the square root of the size", "check-near",
     "sizes 1.0 and 2.32",
     ("check-near", "1 - (2 * mean - 1) / 2", "1 - ((2 * mean - 1) / 2) ** 0.5")),
    ("claim: half the share is enough", "near-laws check-near", "share 1.02",
     ("near-laws", "(1 + side) * mean / 2", "(1 + side) * mean / 4")),
    ("claim: a share of Γ is not enough", "near-laws check-near", "share 0.98",
     ("near-laws", "(1 + side) * mean / 2", "(1.1 + side) * mean / 2")),
    ("another mean: heads that are not at rest", "near-laws check-near", "largest gradient",
     ("near-laws", "[a, 2 * mean - a]", "[a, 2.1 * mean - a]")),
    ("claim: content heads rest at q² = log ς", "near-laws check-near", "log(ς − 1): largest",
     ("near-laws", "np.sqrt(np.log(size - 1))", "np.sqrt(np.log(size))")),
    ("claim: what is stable for the mean cannot be split", "near-laws check-near",
     "largest of their least", ("near-laws", "report.deviations.min()", "report.collective.min()")),
    ("claim: equal heads are better by 0.01 than all near laws", "check-near", "laws within 0.1",
     ("check-near", "below(-lowest, 1e-9), 1e-9)", "below(-lowest, 1e-9), -1e-2)")),
    # cascades
    ("ridge on queries and keys forgotten", "stored check-cascades", "again",
     wrong_cascade("np.stack([attend, write], axis=-1)", "np.stack([0 * write, write], axis=-1)")),
    ("hair a hundred times as large", "stored check-cascades", "again",
     wrong_cascade("split + HAIR * noise(M)", "split + 100 * HAIR * noise(M)")),
    ("claim: no cascade ends where Γ > ½", "check-cascades", "Γ > 1",
     ("check-cascades", "alike & (pull > 1)", "alike & (pull > 0.5)")),
    ("claim: Γ ≤ 1 ends every cascade", "check-cascades", "Γ ≤ 1",
     ("check-cascades", "alike[pull <= 1].mean(), 0.75", "alike[pull <= 1].mean(), 1")),
    ("claim: what goes on can rest too", "check-cascades", "minus the least",
     ("check-cascades", "-least[alike].min()", "-least.min()")),
    ("excess over the best uniform law", "stored check-cascades", "(end − U)",
     ("stored", "(value - I[:, None])", "(value - U[:, None])")),
    ("claim: content heads have H ≽ 0", "check-cascades", "that go on: largest",
     ("check-cascades", "least[gone].max()", "least.max()")),
    ("claim: the best uniform law is the infimum", "stored check-cascades", "lower end",
     ("stored", 'stored["infimum_low"]', 'stored["uniform"]')),
    ("claim: the infimum is known without a search", "stored check-cascades", "width",
     ("stored", 'stored["infimum_low"]', '0 * stored["infimum_low"]')),
    ("claim: 32 heads do ten times as well as one", "check-cascades", "with one",
     ("check-cascades", "for i in range(len(S))), 2), 0.6)", "for i in range(len(S))), 2), 0.1)")),
    ("claim: 32 heads miss half", "check-cascades", "least median",
     ("check-cascades", "for i in range(len(S))), 2), 0.2)", "for i in range(len(S))), 2), 0.5)")),
]  # fmt: skip


class TestSplitting(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
