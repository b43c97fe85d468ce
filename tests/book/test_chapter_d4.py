"""The checks of Appendix D4 fail for wrong programs and for wrong claims."""

from chapter_runner import Chapter, computing, mistaken

from mfbook.bounds import sampling
from mfbook.models.attention import weighted
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "d4-sequences.ipynb"))
SMALLER = [("parameters", "runs = 60", "runs = 40")]


def wrong_module(function, module, old, new):
    """A replaced name: a function of the package whose module has one change."""

    def called(*arguments, **options):
        with mistaken(module, old, new):
            return getattr(module, function)(*arguments, **options)

    return lambda names: {function: called}


def wrong_gradient(old, new):
    return wrong_module("weighted_gradient", weighted, old, new)


# Each as Chapter.wrong says.
WRONG = [
    # the bound
    ("claim: the distance falls like 1/S", "check-bound", "slope in S",
     ("check-bound", "coarse(of_S[0], 3), -0.5", "coarse(of_S[0], 3), -1")),
    ("claim: the distance falls like 1/M", "check-bound", "slope in M",
     ("check-bound", "coarse(of_M[0], 2), -0.5", "coarse(of_M[0], 2), -1")),
    ("claim: the noise of steps is of order ε", "check-bound", "one sequence a step",
     ("check-bound", "coarse(of_noise[0], 2), 0.5", "coarse(of_noise[0], 2), 1")),
    ("claim: Euler's error is of order √ε", "check-bound", "exact gradients",
     ("check-bound", "coarse(of_steps[0], 2), 1,", "coarse(of_steps[0], 2), 0.5,")),
    ("claim: no exponent is needed", "hand check-bound", "near the empty layer",
     ("hand", "change / (grows * 6)", "change / ((grows - 1e-3) / 0.5)")),
    ("claim: half the exponent serves", "hand check-bound", "near the empty layer",
     ("hand", "change / (grows * 6)", "change / ((grows - 1e-3 * np.exp(0.75)) * 2)")),
    ("claim: half of √V serves", "check-bound", "pooled, + 2 s.e.",
     ("check-bound", "(pooled[2:] / grown(V_S)[2:])", "(pooled[2:] / grown(V_S / 4)[2:])")),
    ("two risks in the place of their difference: V without the mean", "rates check-bound",
     "estimate / first order at τ = 1",
     ("rates", "zeta = np.array([gradient(copies(x, N), a0, tilt_c)",
      "zeta = np.array([gradient(copies(x, N), a0, np.eye(N) + c0)")),
    ("Euler's error a step without the factor ½", "causes check-bound", "Euler: the same",
     ("causes", "finest = alone[-1] / steps[-1]", "finest = 4 * alone[-1] / steps[-1]")),
    ("noise of a step counted without its square root", "causes check-bound",
     "one sequence a step",
     ("causes", "now = c if batch is None else rng.multinomial(batch, c) / batch",
      "now = c if batch is None else c + np.sqrt(epsilon) * (rng.multinomial(batch, c) - c)")),
    # first order
    ("claim: a mean square without the variance of one sequence, 1/S",
     "check-response", "pooled", ("check-response", "pooled[-1] / np.sqrt(C_S[-1])",
                                  "pooled[-1]")),
    ("factor of the finite population forgotten", "check-response", "without replacement",
     ("check-response", "fpc = np.array([finite_population(S, N) for S in few])",
      "fpc = np.ones(len(few))")),
    ("(N − S)/N for (N − S)/(N − 1)", "check-response", "all 351",
     ("check-response", "finite_population(2, N)", "(1 - 2 / N)")),
    ("the same factor in the program", "check-response", "all 351",
     wrong_module("finite_population", sampling, "(N - S) / (N - 1) if", "(N - S) / N if")),
    ("claim: without replacement nothing changes", "check-response", "factor forgotten",
     ("check-response", "taken[-1, 0], 2), 2)", "(taken[-1, 0] / np.sqrt(fpc[-1])), 2), 2)")),
    ("claim: one left out moves the heads by −η/√N", "check-response", "each of them",
     ("check-response", "one_out = (N - 1) *", "one_out = np.sqrt(N) *")),
    ("one left out moves the heads towards it", "check-response", "each of them",
     ("check-response", "np.abs(one_out + eta[-1])", "np.abs(one_out - eta[-1])")),
    ("the flow forgotten: noise added up without carrying it", "rates check-response", "carried",
     ("rates", "a0, c0, horizon - s)[-1]\n     - train", "a0, c0, 0)[-1]\n     - train"),
     ("rates", "- h * zeta[s], a0, c0, horizon - s)[-1])", "- h * zeta[s], a0, c0, 0)[-1])")),
    ("attention does not learn in the derivative", "rates predict check-response", "pooled",
     ("rates", "eta = (up - down) / (2 * h)",
      "eta = np.where(np.arange(shape.size) < 8, 0, up - down) / (2 * h)")),
    ("gradient without the softmax of the scores", "rates check-response", "pooled",
     wrong_gradient("values[: t + 1] - attended[t], dual[t]", "values[: t + 1], dual[t]")),
    # the gap
    ("claim: the mean gap falls like S^(-1/2)", "check-gap", "slope of the mean gap",
     ("check-gap", "coarse(of_gap[0], 2), -1,", "coarse(of_gap[0], 2), -0.5,")),
    ("half the constant Γ", "check-gap", "pooled",
     ("check-gap", "gamma = -(zeta", "gamma = -0.5 * (zeta")),
    ("claim: the gap is that of two samples, 2Γ", "check-gap", "one left out",
     ("check-gap", "gamma = -(zeta", "gamma = -2 * (zeta")),
    ("the sample's risk minus the true one", "samples check-gap", "pooled",
     ("samples", "gaps.append(loss.mean(axis=1) - (loss * c).sum(axis=1))",
      "gaps.append((loss * c).sum(axis=1) - loss.mean(axis=1))"),
     ("samples", "(at_end.mean() - c @ at_end)", "(c @ at_end - at_end.mean())")),
    ("claim: one gap deviates like its mean, by Γ/S", "check-gap", "deviation of one gap",
     ("check-gap", "coarse(deviation / at_end.std(), 2)",
      "coarse(gaps[-1].std(ddof=1) * sizes[-1] / gamma, 2)")),
    ("risk of the population at weights of the sample", "check-gap", "one left out",
     ("check-gap", "(loss_out.mean(axis=1) -", "(loss_out.max(axis=1) -")),
    # together
    ("distances add, not their squares", "together check-together", "M = 64",
     ("together", "whole = np.sqrt(parts.sum())", "whole = np.sqrt(parts).sum()")),
    ("claim: the largest cause is all", "together check-together", "M = 64",
     ("together", "whole = np.sqrt(parts.sum())", "whole = np.sqrt(parts.max())")),
    ("noise that batches do not lower", "together check-together", "batch 8",
     ("together", "else e / batch", "else e")),
    ("variance of the heads forgotten", "together check-together", "M = 8,",
     ("together", "C_M[-1] / M, C_S", "0 / M, C_S")),
    ("sample of M sequences", "together check-together", "M = 512, S = 16",
     ("together", "C_S[-1] / S", "C_S[-1] / M")),
    ("claim: heads do not count", "check-together", "forgets the heads",
     ("check-together", "left.max(axis=0)", "quotients[:, 0].max() + 0 * left.max(axis=0)")),
    # one pass
    ("claim: a pass and the flow on its sample add up", "one-pass check-pass", "one pass",
     ("one-pass", "[C_S[-1], horizon * Q, C_S", "[C_S[-1], C_S[-1] + horizon * Q, C_S")),
    ("noise without the time of training", "one-pass check-pass", "one pass",
     ("one-pass", "C_S[-1], horizon * Q,", "C_S[-1], Q,")),
    ("claim: drawing again and again is a pass", "one-pass check-pass", "drawn again and again",
     ("one-pass", "again = root(distance2(descend(all_heads, c, e, 1, rng), a0, path[-1]))",
      "again = once_each")),
    ("half of the noise of the pass", "rates check-pass", "√(τQ / C)",
     ("rates", "Q = simpson @ size2(carried)", "Q = simpson @ size2(carried) / 2")),
]  # fmt: skip


class TestSequences(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
