"""The checks of Appendix A, part 2 (higher dimensions), fail for wrong programs.

The cells of the notebook run once, in their order and in smaller portions. For a wrong program a
plausible mistake is made in one of them; it and the cells that depend on it run again, and the
check has to end in its assertion, for the row that the mistake is about.
"""

from dataclasses import replace

from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "a-sphere-higher.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("forces", "np.random.default_rng(401), 600", "np.random.default_rng(401), 300"),
    ("exponentials", "(100, 1000, 5000)", "(100, 1000)"),
]


# ---------------------------------------------------------------- replaced names


def another_primitive(names):
    """The activations with s added to their primitives."""
    right = names["SphereEnergy"]

    def energy(*arguments, **options):
        F = right(*arguments, **options)
        f = F.activation
        return replace(F, activation=replace(f, primitive=lambda s: f.primitive(s) + s))

    return {"SphereEnergy": energy}


def velocity_forgets(what):
    """Velocities of an energy in which something is forgotten."""

    def forget(names):
        right = names["SphereEnergy"]

        def energy(*arguments, **options):
            return Forgetful(right(*arguments, **options), right(*arguments, **options | what))

        return {"SphereEnergy": energy}

    return forget


class Forgetful:
    """One energy with the velocity of another."""

    def __init__(self, F, other):
        self.F, self.velocity = F, other.velocity

    def __call__(self, mu):
        return self.F(mu)


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("kernel with twice the exponent", "forces check-forces", "error above the bound",
     ("forces", "np.exp(-beta / 2 *", "np.exp(-beta *")),
    ("each pair counted in one direction only", "forces check-forces", "error above the bound",
     ("forces", "Z[i], N[i] = k.sum(), k @ x", "Z[i], N[i] = k[i:].sum(), k[i:] @ x[i:]")),
    ("denominator Z dropped", "forces check-forces", "error above the bound",
     ("forces", "SphereEnergy(beta, normalised=True)", "SphereEnergy(beta)")),
    ("projection on the sphere dropped", "forces check-forces", "error above the bound",
     ("forces", "S.tangent(y, soft)", "soft")),
    ("masses of the tokens dropped", "forces check-forces", "error above the bound",
     ("forces", "k = w * np.exp", "k = np.exp")),
    ("units not rotated with the tokens", "symmetry check-forces", "rotation: velocities",
     ("symmetry", "S.project(a @ Q.T), omega", "a, omega")),
    ("matrix B not rotated with the tokens", "symmetry check-forces", "rotation: E",
     ("symmetry", "B=(turned_B + turned_B.T) / 2", "B=B")),
    ("copies of a token given equal mass", "symmetry check-forces", "copies: E",
     ("symmetry", "copies / copies.sum()", "np.full(n, 1 / n)")),
    ("gradient not projected on the tangent space", "symmetry check-forces", "tangent",
     ("symmetry", "u, turned = F.velocity(mu.atoms, mu)", "u, turned = F.gradient(mu.atoms, mu)")),
    ("masses not permuted with the tokens", "symmetry check-forces", "permutation",
     ("symmetry", "mu.weights[order]", "mu.weights")),
    ("symmetry of the kernel not used", "exponentials check-forces", "½N(N+256)",
     ("exponentials", "velocity(mu.atoms, mu)", "velocity(mu.atoms.copy(), mu)")),
    ("first moment with the other sign", "biases check-remark-3-4", "b ≥ 1: gap of the density",
     ("biases", "return 1 - beta * omega * b", "return 1 + beta * omega * b")),
    ("factor 1/2 of the second moment lost", "biases check-remark-3-4", "b ≥ 1: gap of the density",
     ("biases", "/ (2 * second)", "/ second")),
    ("bias dropped", "biases check-remark-3-4", "b ≥ 1: gap of the density",
     ("biases", "bias=[b])", "bias=[0 * b])")),
    ("linear unit instead of ReLU", "biases check-remark-3-4", "most atoms",
     ("biases", '"relu", bias=[b]', '"linear", bias=[b]')),
    ("size of the eigenvalue instead of the eigenvalue",
     "matrices check-remark-3-4", "second difference",
     ("matrices", "np.sinh(beta * low)", "np.sinh(beta * abs(low))")),
    ("direction of another eigenvector", "matrices check-remark-3-4", "second difference",
     ("matrices", "rotate[:, 2]", "rotate[:, 0]")),
    ("energy without the matrix B", "matrices check-remark-3-4", "second difference",
     ("matrices", "SphereEnergy(beta, B=B)", "SphereEnergy(beta)")),
    ("bias dropped from the velocity", "identity check-remark-3-4", "with biases and B",
     velocity_forgets({"bias": None})),
    ("matrix B dropped from the velocity", "identity check-remark-3-4", "with biases and B",
     velocity_forgets({"B": None})),
    ("another primitive of the activation",
     "identity check-remark-3-4", "with biases and B", another_primitive),
    ("matrix B with the other sign", "minus check-remark-3-4", "E(uniform) − E(point mass)",
     ("minus", "B=-np.eye(2)", "B=np.eye(2)")),
    ("weights of the units with the other sign",
     "draw ascent-stored check-figure-4", "β = 1: E − largest possible",
     ("draw", "maximise_potential(a, omega)", "maximise_potential(a, -omega)")),
    ("one unit inactive taken for all inactive", "draw check-figure-4", "share of the dead zone",
     ("draw", "(x @ a.T <= 0).all(axis=1)", "(x @ a.T <= 0).any(axis=1)")),
    ("area of the polar triangle instead of the triangle",
     "draw check-figure-4", "share of the dead zone",
     ("draw", "(2 * np.pi - sum(sides))", "(sum(sides) - np.pi)")),
    ("descent instead of ascent", "ascent check-figure-4", "smallest change of E",
     ("ascent", "ascent=True,", "horizon=50,")),
    ("force counted twice", "check-figure-4", "angle to argmax v",
     ("check-figure-4", "2 * (rise.speed[-1] + pull)", "(rise.speed[-1] + pull)")),
    ("potential instead of its half", "check-figure-4", "E of its clusters",
     ("check-figure-4", "w @ F.potential(x) / 2", "w @ F.potential(x)")),
    ("potential instead of its half in the maximum", "ascent-stored check-figure-4",
     "β = 1: E − largest possible",
     ("ascent-stored", "1 / (2 * b) + top.value / 2", "1 / (2 * b) + top.value")),
    ("factor 1/2 of the uniform measure's energy lost", "check-figure-7",
     "no perceptron, end: excess", lambda names: {"E_uniform": 2 * names["E_uniform"]}),
    ("pairs of a point with itself forgotten", "independent check-figure-7", "mean excess",
     ("independent", "mean = (1 - one)", "mean = 1")),
    ("variance without the second moment", "independent check-figure-7", "their standard deviation",
     ("independent", "two - one**2", "one - one**2")),
    ("potential instead of its half at the bottom", "point-mass check-figure-7", "closed form",
     ("point-mass", "bottom.value / 2", "bottom.value")),
    ("maximum of the potential instead of its minimum",
     "point-mass check-figure-7", "certified gap of the point mass",
     ("point-mass", "bottom.points[:1]", "top.points[:1]")),
    ("curvature of all atoms instead of the lone one",
     "curvature check-figure-7", "deep well: curvature",
     ("curvature", "second_order(F, lone)", 'second_order(F, falls["gelu"].measure)')),
    ("one coordinate of the atom reflected", "curvature check-figure-7", "deep well: curvature",
     ("curvature", "newton(F, Measure(centre[None])).measure",
      "Measure(centre[None] * [[1, -1, 1]])")),
    ("push of a whole unit of mass instead of 1/n", "stragglers check-figure-7", "stragglers",
     ("stragglers", "/ n - slow", "- slow")),
    ("ascent instead of descent", "descent check-figure-7", "largest rise of E",
     ("descent", "record=1)", "record=1, ascent=True, horizon=20)")),
    ("area of the cap doubled", "linkage check-figure-11", "more than 5 linked pairs",
     ("linkage", "np.sin(r) ** 2) / 2", "np.sin(r) ** 2)")),
    ("caps of another dimension", "linkage check-figure-11", "nearest neighbour",
     ("linkage", "(d - 1) / 2, 0.5", "d / 2, 0.5")),
    ("ordered pairs instead of unordered ones",
     "linkage check-figure-11", "more than 5 linked pairs",
     ("linkage", "N * (N - 1) / 2, cap", "N * N, cap")),
    ("threshold of the circle in all dimensions", "linkage check-figure-11", "clusters by τ",
     ("linkage", "default_threshold(b, d)", "default_threshold(b, 2)")),
    ("pairs of a particle with itself counted", "linkage check-figure-11", "fewer expected",
     ("linkage", "near[np.triu_indices(N, 1)]", "near[np.triu_indices(N)]")),
    ("another run computed than the stored one", "again check-figure-11", "live run: E − stored",
     ("again", "sweep.run(**chosen)", 'sweep.run(**{**chosen, "units": "relu"})')),
    ("run at another temperature", "check-figure-11", "|E at the end − E at the start|",
     ("check-figure-11", "SphereEnergy(50.0), sweep.start(16)",
      "SphereEnergy(1.0), sweep.start(16)")),
]  # fmt: skip


class TestHigher(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
