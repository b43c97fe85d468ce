"""The checks of Appendix B2, attention by hand and as a motion, fail for wrong programs.

The cells of the notebook run once, in their order. For a wrong program a plausible mistake is made
in one of them; it and the cells that depend on it run again, and the check has to end in its
assertion, for the row that the mistake is about.
"""

import numpy as np
from chapter_runner import Chapter, computing
from scipy.integrate import quad
from scipy.special import exp1

from mfbook.models.tokens import TokenEnergy
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "b2-attention.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("many-tokens", "[16, 32, 64, 128, 256]", "[16, 32, 64, 256]"),
    ("many-tokens", "range(40)", "range(20)"),
    ("many-tokens", "* np.sqrt(40)", "* np.sqrt(20)"),
    ("symmetry", "range(10)", "range(4)"),
    ("blow-up", "range(10)", "range(4)"),
    ("blow-up", "[r, 0.0]), 200)", "[r, 0.0]), 9)"),
    ("energy-identity", "met[5]", "met[3]"),
    ("energy-identity", "starts[5]", "starts[3]"),
    ("sphere-run", "sample(sphere_seed, 150, 3)", "sample(sphere_seed, 50, 3)"),
    ("circle-draws", "range(1, 10)", "range(1, 3)"),
]


# ---------------------------------------------------------------- replaced names


def bounded_by_mean_length(names):
    lower = [exp1(mu.integrate((mu.atoms**2).sum(axis=1))) / 2 for mu in names["starts"]]
    return {"bracket": np.stack([lower, names["bracket"][:, 1]], axis=1)}


def waiting(names, sine=lambda u: 1.0, factor=1.0):
    """The two clusters' waiting time by another formula."""
    beta, reach, apart = names["beta"], names["reach"], names["apart"]
    waits = quad(lambda u: np.exp(beta * (1 - np.cos(u))) / sine(u), reach, apart)[0]
    return {"waits": factor * waits}


# ---------------------------------------------------------------- wrong programs

HAND, LAYERS = "by-hand check-by-hand", "layers check-iteration"
MANY, SYMMETRY = "many-tokens check-iteration", "symmetry check-asymmetry"
WORK, CIRCLE = "energy-identity check-unnormalised", "circle-run check-sphere"

# Name of the mistake; the cells to run again, the last of them a check; words of the row that has
# to fail; the mistakes: a cell with what is written there and what should be, or replaced names.
WRONG = [
    ("mask dropped", HAND, "weight on later words",
     ("by-hand", "scores[np.triu_indices(7, 1)] = -np.inf", "pass")),
    ("mask hides the word itself", HAND, "all weights / the package",
     ("by-hand", "scores[np.triu_indices(7, 1)]",
      "scores[np.triu_indices(7, 1)[0][:-1] + 1, np.triu_indices(7, 1)[1][1:]]")),
    ("scores not divided by √k", HAND, "row of cat / pencil",
     ("by-hand", "queries @ keys.T / np.sqrt(2)", "queries @ keys.T")),
    ("scores divided by k instead of √k", HAND, "row of dog / pencil",
     ("by-hand", "queries @ keys.T / np.sqrt(2)", "queries @ keys.T / 2")),
    ("softmax over columns instead of rows", HAND, "sums of the rows",
     ("by-hand", "weights.sum(axis=1, keepdims=True)", "weights.sum(axis=0, keepdims=True)")),
    ("mask applied after the softmax", HAND, "sums of the rows",
     ("by-hand", "scores[np.triu_indices(7, 1)] = -np.inf", "pass"),
     ("by-hand", "received = weights", "weights = np.tril(weights)\nreceived = weights")),
    ("keys and queries exchanged", HAND, "row of sees / pencil",
     ("by-hand", "queries @ keys.T", "keys @ queries.T")),
    ("keys in place of values", HAND, "size that cat receives",
     ("by-hand", "X @ W_Q, X @ W_K, X @ W_V", "X @ W_Q, X @ W_K, X @ W_K")),
    ("root of the step instead of the step", LAYERS, "order of the last halving",
     ("layers", "new.append(x_i + h * V @ (weight @ X) / weight.sum())",
      "new.append(x_i + np.sqrt(h) * V @ (weight @ X) / weight.sum())")),
    ("token replaced instead of moved", LAYERS, "one layer with h = 1",
     ("layers", "x_i + h * V", "h * V")),
    ("steps that do not add up to the time", LAYERS, "order of the last halving",
     ("layers", "layer(X, 1 / n, *QKV)", "layer(X, 1.1 / n, *QKV)")),
    ("value matrix transposed", LAYERS, "one layer with h = 1",
     ("layers", "h * V @ (weight @ X)", "h * V.T @ (weight @ X)")),
    ("queries and keys exchanged", LAYERS, "one layer with h = 1",
     ("layers", "(Q @ x_i) @ (K @ x_j)", "(K @ x_i) @ (Q @ x_j)")),
    ("denominator forgotten in the layer", LAYERS, "one layer with h = 1",
     ("layers", " / weight.sum()", "")),
    ("potential without its logarithm", "check-iteration", "∇Ψ by complex steps",
     ("check-iteration", "softmax_potential(points + 1j * tiny * e, mu_12).imag / tiny",
      "np.exp(softmax_potential(points + 1j * tiny * e, mu_12)).imag / tiny")),
    ("factor 2 lost in the limit", MANY, "mean error / its standard error",
     ("many-tokens", "np.sqrt(1 - 2 * sigma**2)", "np.sqrt(1 - sigma**2)")),
    ("limit with a wrong variance", MANY, "slope of the error",
     ("many-tokens", "probe / np.sqrt(1 - 2 * sigma**2)", "probe")),
    ("the same sixteen tokens repeated", MANY, "slope of the error",
     ("many-tokens", "rng.normal(size=(N, 2))",
      "np.random.default_rng(N).normal(size=(16, 2))[np.arange(N) % 16]")),
    ("claim: the error falls like 1/N", "check-iteration", "slope of the error",
     ("check-iteration", "falls, -0.5, 0.15", "falls, -1.0, 0.15")),
    ("claim: the error of Euler's method falls like the root of h", "check-iteration",
     "order of the last halving", ("check-iteration", "order, 1, 0.05", "order, 0.5, 0.05")),
    ("Sinkhorn after three iterations", SYMMETRY, "Sinkhorn: centred kernel",
     ("symmetry", "lambda x, mu: sinkhorn_potential(mu)(x)",
      "lambda x, mu: sinkhorn_potential(mu, maxiter=3)(x)")),
    ("softmax attention in place of Sinkhorn's", SYMMETRY, "Sinkhorn: motion",
     ("symmetry", '"Sinkhorn": sinkhorn_field', '"Sinkhorn": softmax_field')),
    ("symmetry of the attention matrix instead of the motion", SYMMETRY, "balanced: motion",
     ("symmetry", "[asymmetry(particle_jacobian(field, mu)) for mu in draws[:4]]",
      "[asymmetry(attention_matrix(kind, mu)) for mu in draws[:4]]")),
    ("normalised by the rows only", SYMMETRY, "balanced: attention matrix",
     ("symmetry", "K / np.sqrt(Z[:, None] * Z)", "K / Z[:, None]")),
    ("softmax without denominator", SYMMETRY, "softmax: centred kernel",
     ("symmetry", '"softmax": softmax_potential,',
      '"softmax": lambda x, mu: np.exp(softmax_potential(x, mu)),')),
    ("two equal tokens instead of different ones", "check-asymmetry", "∂v₂/∂a",
     ("check-asymmetry", "[[0.0], [1.0]]", "[[0.0], [0.0]]")),
    ("rows of the kernel centred, not its columns", "check-asymmetry", "the same, centred",
     ("check-asymmetry", "centred_kernel(shifted, mu_8).asymmetry",
      "asymmetry(raw - raw @ mu_8.weights[:, None])")),
    ("each pair counted once", WORK, "energy lost / work done",
     lambda names: {"F_1": 0.5 * TokenEnergy(1.0)}),
    ("energy at another temperature", "check-unnormalised", "F of one token",
     lambda names: {"F_1": TokenEnergy(0.8)}),
    ("work with the speed, not its square", WORK, "energy lost / work done",
     ("energy-identity", "(v**2).sum(axis=1)", "np.sqrt((v**2).sum(axis=1))")),
    ("work of softmax attention", WORK, "energy lost / work done",
     ("energy-identity", "(mu.weights * np.exp(mu.atoms @ mu.atoms.T)) @ mu.atoms",
      "softmax_field(mu.atoms, mu)")),
    ("closed form without the factor 1/2", "check-unnormalised", "one token at 0.4",
     lambda names: {"ends": {r: exp1(r**2) for r in names["ends"]}}),
    ("length of the token instead of its square", "check-unnormalised", "one token at 0.7",
     lambda names: {"ends": {r: exp1(r) / 2 for r in names["ends"]}}),
    ("two opposite tokens taken for one", "check-unnormalised", "two opposite tokens",
     lambda names: {"by_quadrature": exp1(0.25)}),
    ("upper bound ten times too small", "check-unnormalised", "largest measured / upper bound",
     lambda names: {"bracket": names["bracket"] * [1, 0.1]}),
    ("claim: a thousand times less is left at the ends", "check-unnormalised", "share of the time",
     ("check-unnormalised", "below(remains.max(), 1e-10), 1e-10)", "remains.max(), 1e-13)")),
    ("claim: the weight of the long token does not matter", "check-unnormalised",
     "weight 0.001 on the long token",
     ("check-unnormalised", "[0.001, 0.999])", "[0.5, 0.5])")),
    ("lower bound with the mean length", "check-unnormalised", "least measured / lower bound",
     bounded_by_mean_length),
    ("energy F without its factor e^(−β)", "check-sphere", "F / E on the sphere",
     ("check-sphere", "-np.exp(-b) * ratio", "-ratio")),
    ("solid that is not regular", "saddles check-sphere", "states of rest: largest speed",
     ("saddles", "[-1, -1, 1]]) / np.sqrt(3)", "[-1, -1, -1]]) / np.sqrt(3)")),
    ("factor d − 1 lost in the bound", "saddles check-sphere", "least eigenvalue / bound",
     ("saddles", "@ mu.weights / (d - 1)", "@ mu.weights")),
    ("claim: a push stronger by a tenth", "saddles check-sphere", "least eigenvalue / bound",
     ("saddles", "@ mu.weights / (d - 1)", "@ mu.weights / (0.9 * (d - 1))")),
    ("bound with d instead of d − 2", "saddles check-sphere", "least eigenvalue / bound",
     ("saddles", "(d - 2 - c)", "(d - c)")),
    ("triangle taken for one point", "saddles check-sphere", "five tokens at one point",
     ("saddles", "second_order(SphereEnergy(1.0), together)",
      "second_order(SphereEnergy(1.0), resting['triangle'])")),
    ("hasty run in place of the patient one", CIRCLE, "clusters at the end, circle",
     ("circle-run",
      "settle(E_beta, tokens, ascent=True, tolerance=1e-14, horizon=1e12, atol=1e-5, record=1)",
      "settle(E_beta, tokens, ascent=True, record=1)"),
     ("circle-run", "step_of = {n: int(np.argmax(run.count == n)) for n in (2, 1)}",
      "step_of = {2: int(np.argmax(run.count == 2)), 1: len(run.count) - 1}")),
    ("waiting time without its sine",
     "check-sphere", "waiting time / two-cluster formula", waiting),
    ("waiting time doubled", "check-sphere", "waiting time / two-cluster formula",
     lambda names: waiting(names, np.sin, 2.0)),
    ("energy multiplied by β² instead of β", "check-sphere", "180 random measures",
     ("check-sphere", "energies = [2 * b *", "energies = [2 * b**2 *")),
    ("stopping rule that waits for one cluster", "check-sphere", "clusters when the rule stops",
     lambda names: {"hasty": names["patient"]}),
]  # fmt: skip


class TestAttention(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
