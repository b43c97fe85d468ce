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


def replace_perceptron(names):
    """The published particles with the perceptron of the circle's seed."""
    rng, P = names["np"].random.default_rng(777), names["P"]
    units = rng.normal(size=(3, 3))
    units /= names["np"].linalg.norm(units, axis=1, keepdims=True)
    return replace(P, a=units, omega=rng.normal(size=3))


# ---------------------------------------------------------------- wrong programs

# The cells of two long checks.
ASCENT = "rows-figure-4 check-figure-4"
DESCENT = "rows-figure-7 rows-circle rows-second check-figure-7"

# Each as Chapter.wrong says.
WRONG = [
    ("kernel with twice the exponent", "forces check-forces", "error above the bound",
     ("forces", "np.exp(-beta / 2 *", "np.exp(-beta *")),
    ("each pair counted in one direction only", "forces check-forces", "error above the bound",
     ("forces", "Z[i], vectors[i] = k.sum(), k @ x",
      "Z[i], vectors[i] = k[i:].sum(), k[i:] @ x[i:]")),
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
    ("weights of the units with the other sign", "draw " + ASCENT,
     "β = 1: E − largest possible",
     ("draw", "hill = maximise_potential(P.a, P.omega)",
      "hill = maximise_potential(P.a, -P.omega)")),
    ("one unit inactive taken for all inactive", "draw " + ASCENT,
     "share of the dead zone, published",
     ("draw", "(x @ a.T <= 0).all(axis=1)", "(x @ a.T <= 0).any(axis=1)")),
    ("area of the polar triangle instead of the triangle",
     "draw " + ASCENT, "share of the dead zone, second",
     ("draw", "(2 * np.pi - sum(sides))", "(sum(sides) - np.pi)")),
    ("another corner of the triangle", "draw ascent " + ASCENT, "degrees to the corner",
     ("draw", "np.cross(P.a[0], P.a[2])", "np.cross(P.a[1], P.a[2])")),
    ("descent instead of ascent", "ascent " + ASCENT, "smallest change of E",
     ("ascent", "ascent=True, ", "")),
    ("another seed of the perceptron", "ascent " + ASCENT, "stored: E − E of this run",
     lambda names: {"P": replace_perceptron(names)}),
    ("window of eight snapshots", "ascent " + ASCENT, "stored: time − time of this run",
     ("ascent", "Protocol(collapse=1e-10)", "Protocol(collapse=1e-10, window=8)")),
    ("potential instead of its half", ASCENT, "E of its clusters",
     ("rows-figure-4", "w @ F.potential(x) / 2", "w @ F.potential(x)")),
    ("masses of the two clusters exchanged", "continued " + ASCENT, "continued: degrees",
     ("continued", "ends.centres, ends.masses)", "ends.centres, ends.masses[::-1])")),
    ("claim: the small cluster rests", "continued " + ASCENT, "clusters after 2500",
     ("continued", "most=25_000", "most=10_000")),
    ("claim: the hill is where the positive unit points", "ascent " + ASCENT,
     "angle to argmax v",
     ("ascent", "S.distance(ends.centres, hill.points[:1])", "S.distance(ends.centres, P.a[1:2])")),
    ("claim: every draw lets a cluster go where units are off with GeLU too", ASCENT,
     "ten further draws",
     ("check-figure-4", 'further["ascent", "relu"]', 'further["ascent", "gelu"]')),
    ("claim: attention does what the perceptron does", ASCENT, "by the perceptron alone",
     ("check-figure-4", "alone[6]", "pulled.count[6]")),
    ("claim: counts without perceptron are those of the integrator, too", ASCENT,
     "equal counts of 52", ("check-figure-4", 'units != "none"', 'units != "gelu"')),
    ("claim: the frames are those of 500 particles", "frames " + ASCENT,
     "largest difference of times",
     ("frames", "particles=1000", "particles=0")),
    ("polar angle counted from the equator", "frames " + ASCENT, "farthest place",
     ("frames", "np.stack([np.sin(polar)", "np.stack([np.cos(polar)")),
    ("azimuth and polar angle exchanged", "frames " + DESCENT, "farthest place",
     ("frames", "azimuth, polar = ", "polar, azimuth = ")),
    ("potential instead of its half in the maximum", ASCENT,
     "β = 1: E − largest possible",
     ("check-figure-4", "1 / 2 + hill.value / 2", "1 / 2 + hill.value")),
    ("shares with another factor", "minimiser " + DESCENT, "two atoms by hand",
     ("minimiser", "b / 4 *", "b / 5 *")),
    ("shares exchanged", "minimiser " + DESCENT, "two atoms by hand",
     ("minimiser", "(v[1] - v[0])", "(v[0] - v[1])")),
    ("claim: the shares of the basins are the best ones", "minimiser " + DESCENT,
     "two atoms by hand",
     ("minimiser", "m = 0.5 + b / 4 * (v[1] - v[0])", "m = 0.55")),
    ("two atoms left at the bottoms of the wells", "minimiser " + DESCENT, "two polished atoms",
     ("minimiser", "return newton(F, Measure(bottoms[name], [m, 1 - m])).measure",
      "return Measure(bottoms[name], [m, 1 - m])")),
    ("one value of δE not asked for", "minimiser " + DESCENT, "two polished atoms",
     ("minimiser", "m = brentq(difference, 0.01, 0.99, xtol=1e-14)", "m = 0.5")),
    ("least value taken near the circle, too", "ring " + DESCENT, "away from the circle",
     ("ring", "[*P.omega, 200.0]", "[*P.omega, 0.0]")),
    ("circle with the radius of half the mass", "ring " + DESCENT, "largest gap of the circle",
     ("ring", "ring_angle(-P.omega[2], 1.0, b)", "ring_angle(-P.omega[2], 1.2, b)")),
    ("claim: the minimiser is the point", "ring " + DESCENT, "largest gap of the circle",
     ("ring", "R = ring_angle(-P.omega[2], 1.0, b)", "R = 0.0")),
    ("potential instead of its half in the Hessian", DESCENT, "least eigenvalue / κ",
     ("rows-circle", '/ row["κ"] - 1', '/ (row["κ"] / 2) - 1')),
    ("claim: a point mass is the minimiser from κ = ½ on", DESCENT,
     "largest gap of the point mass",
     ("rows-circle", 'if row["κ"] > row["minimiser from κ ="])', 'if row["κ"] > 0.5)')),
    ("claim: at every β a point mass is the minimiser from κ = 1 on", DESCENT,
     "largest gap of the point mass",
     ("rows-circle", 'if row["κ"] > row["minimiser from κ ="])', 'if row["κ"] > 1)')),
    ("far side of the sphere forgotten", "collapse " + DESCENT, "largest gap of the point mass",
     ("collapse", "2 / b * (1 - np.exp(-2 * b))", "1 / b * (1 - np.exp(-2 * b))")),
    ("claim: a second-order point has no gap", DESCENT, "least gap of the point mass",
     ("rows-circle", 'if row["κ"] < row["minimiser from κ ="])',
      'if row["κ"] > row["minimiser from κ ="])')),
    ("claim: a well holds any mass", DESCENT, "least curvature of a well",
     ("rows-figure-7", "/ masses[k].max()", "/ 1.0")),
    ("claim: the run with GeLU decides nothing for the one beside it", DESCENT,
     "depends on the run beside it",
     ("rows-circle", "none_counts[:, 0] != none_counts[:, 1]",
      "none_counts[:, 0] != none_counts[:, 0]")),
    ("claim: normalised descents agree as well", DESCENT, "equal counts of 26",
     ("rows-circle", 'agree["descent", k, False]', 'agree["descent", k, True]')),
    ("factor 1/2 of the uniform measure's energy lost", DESCENT,
     "no perceptron, end: excess", lambda names: {"E_uniform": 2 * names["E_uniform"]}),
    ("pairs of a point with itself forgotten", "independent " + DESCENT, "mean excess",
     ("independent", "mean = (1 - one)", "mean = 1")),
    ("variance without the second moment", "independent " + DESCENT, "their standard deviation",
     ("independent", "two - one**2", "one - one**2")),
    ("potential instead of its half at the bottom", "point-mass " + DESCENT, "closed form",
     ("point-mass", "bottom.value / 2", "bottom.value")),
    ("maximum of the potential instead of its minimum",
     "point-mass " + DESCENT, "certified gap of the point mass",
     ("point-mass", "bottom.points[:1]", "-bottom.points[:1]")),
    ("curvature of all atoms instead of the lone one",
     "curvature " + DESCENT, "deep well: curvature",
     ("curvature", "second_order(F, lone)", 'second_order(F, falls["gelu"].measure)')),
    ("one coordinate of the atom reflected", "curvature " + DESCENT, "deep well: curvature",
     ("curvature", "newton(F, Measure(centre[None])).measure",
      "Measure(centre[None] * [[1, -1, 1]])")),
    ("push of a whole unit of mass instead of 1/n", "stragglers " + DESCENT, "stragglers",
     ("stragglers", "/ n - slow", "- slow")),
    ("ascent instead of descent in the second draw", "second-descent " + DESCENT,
     "largest rise of E",
     ("second-descent", "record=1)", "record=1, ascent=True, horizon=20)")),
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
     ("again", "sweep.published(**chosen)", 'sweep.published(**{**chosen, "beta": 10.0})')),
    ("run at another temperature", "check-figure-11", "|E at the end − E at the start|",
     ("check-figure-11", "SphereEnergy(50.0), sweep.source_draw(16)",
      "SphereEnergy(1.0), sweep.source_draw(16)")),
    ("claim: with ReLU, too, at most two clusters are left by ascent", "check-figure-11",
     "ascent with GeLU: most clusters",
     ("check-figure-11", '"ascent", "gelu")', '"ascent", "relu")')),
    ("claim: with ReLU, too, at most six clusters are left by descent", "check-figure-11",
     "descent with GeLU: most clusters",
     ("check-figure-11", '"descent", "gelu")', '"descent", "relu")')),
]  # fmt: skip


class TestHigher(Chapter):
    cells = CELLS
    skip = ("try",)
    smaller = SMALLER
    wrong = WRONG
