"""The checks of Chapter 4 fail for wrong programs.

The cells are taken from the notebook. In one of them a plausible mistake is made, the cells that
depend on it are run again, and the check at the end must fail. Without the mistake it must pass.
"""

import contextlib
import io

import numpy as np
import pytest

from tools.chapters import BOOK, read, text

pytestmark = pytest.mark.slow

CELLS = {
    cell["id"]: text(cell["source"])
    for cell in read(BOOK / "04-static.ipynb")["cells"]
    if cell["cell_type"] == "code"
}
# The same cells in smaller portions: the checks hold for any number of draws and rounds.
SMALLER = [
    ("draws", "np.arange(2, 13), 1000", "np.arange(2, 13), 80"),
    ("direction", "np.linspace(0, 1, 41)", "np.linspace(0, 1, 6)"),
    ("check-4-3", "size=50", "size=10"),
    ("boosting", "R, zero, 451, 6", "R, zero, 451, 1"),
    ("boosting", "silent, 453, 6", "silent, 453, 3"),
    ("check-shrunk", "silent, 457, 4", "silent, 457, 1"),
    ("brackets", "[1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]", "[1, 0.1]"),
    ("brackets", "for n in (1, 4, 16)]\ngaps", "for n in (4,)]\ngaps"),
    ("brackets", "for n in (1, 4, 16)]\ntable", "for n in (4,)]\ntable"),
    ("interior-run", "range(300)", "range(150)"),
    ("breaks-run", "[0.5, 1.0, 1.5, 2.0, 3.0]", "[1.0, 2.0]"),
]
PREPARE = [
    "imports", "task", "draws", "slopes", "rates", "direction", "check-4-3", "ingredients",
    "brackets", "shrink", "boosting", "check-shrunk", "check-support", "interior-run",
    "check-interior", "breaks-run",
]  # fmt: skip


def changed(sources, changes):
    sources = dict(sources)
    for cell, old, new in changes:
        assert old in sources[cell], f"the cell {cell} does not contain {old!r}"
        sources[cell] = sources[cell].replace(old, new)
    return sources


def execute(sources, cells, names):
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            exec(compile(sources[cell], cell, "exec"), names)


@pytest.fixture(scope="module")
def prepared():
    names = {}
    execute(changed(CELLS, SMALLER), PREPARE, names)
    return names


CHECKS = [
    "check-4-1", "check-4-2", "check-rate", "check-4-3", "check-ingredients", "check-bracket",
    "check-shrunk", "check-support", "check-interior", "check-breaks",
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_right_program_passes(prepared, check):
    execute(changed(CELLS, SMALLER), [check], dict(prepared))


# Name of the mistake, the cell where it is made, what is written there, what should be, and the
# cells to run again; the last of them holds the check.
WRONG = [
    ("sum of heads for their mean", "draws", "M, mu.weights, size=repetitions) / M",
     "M, mu.weights, size=repetitions)", ["draws", "check-4-1"]),
    ("labels of another law", "task", "logits(optimum)", "logits(base.teacher)",
     ["task", "draws", "check-4-1"]),
    ("hard labels in the risk", "task", "AttentionRisk(base.X, Y,",
     "AttentionRisk(base.X, np.eye(5)[Y.argmax(2)],", ["task", "draws", "check-4-1"]),
    ("mean over words in the distance", "draws", ".sum(axis=3).mean", ".mean(axis=3).mean",
     ["draws", "slopes", "check-4-2"]),
    ("twice as many draws", "draws", "rng.multinomial(M, mu.weights, size=repetitions)",
     "rng.multinomial(2 * M, mu.weights, size=repetitions) / 2", ["draws", "slopes", "check-4-2"]),
    ("variance summed over tokens", "slopes", "feature_variance(R, mu)",
     "6 * feature_variance(R, mu)", ["slopes", "check-4-2"]),
    ("logarithms of two bases", "slopes", "a @ np.log(value[late])", "a @ np.log2(value[late])",
     ["slopes", "check-4-2"]),
    ("bound of order 1/M for one draw", "check-4-2", 'np.sqrt(2 * sigma2["start"] / 4096)',
     'sigma2["start"] / 4 / 4096', ["check-4-2"]),
    ("J omitted", "rates", "leading_coefficient(R, optimum)", "feature_variance(R, optimum) / 2",
     ["rates", "check-rate"]),
    ("factor one half lost", "rates", "leading_coefficient(R, start)",
     "2 * leading_coefficient(R, start)", ["rates", "check-rate"]),
    ("one draw for the mean", "rates", "mean_with_error(at_start[0] - at_start[1])",
     "deviation_with_error(at_start[0])", ["rates", "check-rate"]),
    ("bound of order 1/M^2", "check-rate", "variance_rate(sigma2[name], heads[i])",
     "variance_rate(sigma2[name], heads[i] ** 2)", ["check-rate"]),
    ("B for its square", "check-rate", "B**2", "B / 4", ["check-rate"]),
    ("limit law without centring", "rates", "root = np.sqrt(p) * (centred - (p * centred)",
     "root = np.sqrt(p) * (phi - 0 * (p * centred)", ["rates", "check-rate"]),
    ("sign of W_O flipped", "direction", "best = Measure.dirac(gap.point)",
     "best = Measure.dirac(gap.point * np.repeat([1, 1, 1, -1], shape.blocks))",
     ["direction", "check-4-3"]),
    ("average cost forgotten", "check-4-3", "-gap.found, 1e-5",
     "R.first_variation(best.atoms, start)[0], 1e-5", ["check-4-3"]),
    ("slope twice", "check-4-3", "w @ cost - psi.mean()", "2 * (psi.mean() - w @ cost)",
     ["check-4-3"]),
    ("r for r squared", "ingredients", "/ (-(r**2) * largest)", "/ (-r * largest)",
     ["ingredients", "check-ingredients"]),
    ("second singular value", "ingredients", "correlation(scores))[1][:, 0]",
     "correlation(scores))[1][:, 1]", ["ingredients", "check-ingredients"]),
    ("wrong sign of the best head", "ingredients", "-r * u[0, :, 0]", "r * u[0, :, 0]",
     ["ingredients", "check-ingredients"]),
    ("range of scores g for 2g", "check-ingredients", "np.tanh(g / 2)", "np.tanh(g / 4)",
     ["check-ingredients"]),
    ("r for r squared in the bound", "brackets", "[g.rigorous for g in gaps]",
     "[g.rigorous / r for g in gaps]", ["brackets", "check-bracket"]),
    ("average cost forgotten in the gap", "brackets", "[g.found for g in gaps]",
     "[g.found - R(m) for g, m in zip(gaps, laws)]", ["brackets", "check-bracket"]),
    ("entropy in bits", "shrink", "entr(q).sum(axis=-1).mean()",
     "entr(q).sum(axis=-1).mean() / np.log(2)", ["shrink", "check-shrunk"]),
    ("cost not shrunk with the residual", "shrink", "- s * least", "+ s * least",
     ["shrink", "check-shrunk"]),
    ("weights not optimised", "check-support", "local = R_copy.at(copy_run.measure)",
     "local = R_copy.at(Measure(atoms))", ["check-support"]),
    ("Psi with the wrong sign", "check-support", "on_support = local", "on_support = -local",
     ["check-support"]),
    ("both value matrices flipped", "check-interior", "flipped[:, -copy_shape.blocks[3]:]",
     "flipped[:, -2 * copy_shape.blocks[3]:]", ["check-interior"]),
    ("radius for its square", "check-interior", "(s[:, i] / 4)", "(s[:, i] / 2)",
     ["check-interior"]),
    ("only the leading rank-one head", "check-interior", "for i in range(3)\n)",
     "for i in range(1)\n)",
     ["check-interior"]),
    ("weights not absorbed", "breaks-run", "N * c[few][:, None, None] * W_O", "W_O",
     ["breaks-run", "check-breaks"]),
    ("bound for 64 heads", "check-breaks", "heads[j])", "heads[i])", ["check-breaks"]),
    ("floor of hard labels everywhere", "breaks-run", "np.where(hard, easy, np.log(V))",
     "np.where(hard, np.log(V), np.log(V))", ["breaks-run", "check-breaks"]),
]  # fmt: skip


@pytest.mark.parametrize(
    "cell, right, wrong, cells", [pytest.param(*w[1:], id=w[0]) for w in WRONG]
)
def test_wrong_program_fails(prepared, cell, right, wrong, cells):
    with pytest.raises(AssertionError):
        execute(changed(changed(CELLS, SMALLER), [(cell, right, wrong)]), cells, dict(prepared))


def unmasked(theta, X, W_U, shape):
    """Features of attention that sees the future."""
    W_Q, W_K, W_V, W_O = shape.split(theta)
    scores = (X @ W_Q[:, None]) @ (X @ W_K[:, None]).swapaxes(-1, -2) / np.sqrt(shape.k)
    A = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return A @ X @ (W_V @ W_O @ W_U)[:, None]


def test_mask_dropped_in_the_features_fails(prepared):
    names = {**prepared, "features": unmasked}
    with pytest.raises(AssertionError):
        execute(changed(CELLS, SMALLER), ["draws", "slopes", "check-4-2"], names)


def test_every_check_has_a_wrong_program():
    checks = {name for name in CELLS if name.startswith("check-")}
    assert checks == set(CHECKS) == {w[-1][-1] for w in WRONG}
