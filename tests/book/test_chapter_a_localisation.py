"""The checks of Appendix A, part 4 (localisation), fail for wrong programs.

The cells of the notebook run once, in their order and in smaller portions. For a wrong program a
plausible mistake is made in one of them; it and the cells that depend on it run again, and the
check has to end in its assertion, for the row that the mistake is about.
"""

from chapter_runner import Chapter, computing

from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "a-sphere-localisation.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("refine", "(50, 100, 200, 400, 800, 1600, 3200)", "(50, 100, 400)"),
    ("check-3-1", "states[3200]", "states[400]"),
    ("exit", "walks=20_000", "walks=8_000"),
    ("leaky", "(50, 100, 200)", "(20, 40, 80)"),
    ("generic", "12 if mu is cloud", "5 if mu is cloud"),
    ("normalised", "(50, 100, 200, 400)", "(50, 100)"),
]


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
WRONG = [
    ("another family of polynomials", "funk-hecke check-5-1", "d = 3: largest |quadrature",
     ("funk-hecke", "roots_gegenbauer(n, (k - 2) / 2)", "roots_gegenbauer(n, (k - 1) / 2)")),
    ("kernel without its factor exp(−β)", "funk-hecke check-5-1", "d = 2: largest |quadrature",
     ("funk-hecke", "np.exp(beta * (x @ y.T - 1)) * w", "np.exp(beta * (x @ y.T)) * w")),
    ("eigenvalue counted twice", "lemma-cells check-5-1", "|f − polynomial|",
     ("lemma-cells", "density = 1 + 0.8 * Y(y)",
      "density = 1 + 0.8 * funk_hecke(beta, d, k) * Y(y)")),
    ("measure that is not mirrored", "lemma-cells check-5-1", "mirrored: odd part",
     ("lemma-cells", "mirrored = Measure(np.concatenate([triangle.atoms, -triangle.atoms]))",
      "mirrored = triangle")),
    ("even multiples counted too", "check-5-1", "triangle: odd part",
     ("check-5-1", "np.arange(n, 60, 2 * n)", "np.arange(n, 60, n)")),
    ("energy without the matrix B", "matrix check-5-2", "−I, d = 2: second difference",
     ("matrix", "F = SphereEnergy(beta, B=B)", "F = SphereEnergy(beta, B=np.eye(len(B)))")),
    ("size of the eigenvalue instead of the eigenvalue",
     "matrix check-5-2", "diag(1, −½): second difference",
     ("matrix", "np.sinh(beta * eigenvalue[0])", "np.sinh(beta * abs(eigenvalue[0]))")),
    ("measures that are symmetric after all", "matrix check-5-2", "measures without symmetry",
     ("matrix", "Measure(both.atoms, [0.6, 0.4])", "both")),
    ("points that coincide", "matrix check-5-2", "Gram matrices",
     ("matrix", "x = Sphere().sample(rng, 8, len(B))",
      "x = Sphere().sample(rng, 4, len(B)).repeat(2, axis=0)")),
    ("end of the flow not polished by Newton's method",
     "refine levels check-3-1", "largest velocity",
     ("refine", "tolerance=1e-12)", "tolerance=1e-12, maxiter=1)")),
    ("curvature with the other sign", "refine levels check-3-1", "least curvature",
     ("refine", "return (F.omega", "return -(F.omega")),
    ("factor 1/β lost in the linear program", "kink check-3-1", "best max |u|",
     ("kink", "[1] / F.beta\n", "[1]\n")),
    ("bound four times too large", "kink check-3-1", "best max |u|",
     ("kink", "np.sin(2 * delta) / 8", "np.sin(2 * delta) / 2")),
    ("weights of the units not scaled", "scales check-3-1", "atoms of the minimiser",
     ("scales", "s * omega", "omega")),
    ("another primitive of the squared ReLU", "leaky check-5-4", "squared relu: jump",
     ("leaky", "2 / 3 * s**3, 0 * s)", "s**3 / 3, 0 * s)")),
    ("factor 2 of the jump lost", "check-5-4", "leaky, α = 0.5: jump",
     ("check-5-4", "2 * abs(omega[0]) * (1 - alpha)", "abs(omega[0]) * (1 - alpha)")),
    ("ReLU instead of leaky ReLU", "vanish check-5-4", "α = 0.999",
     ("vanish", "leaky_relu(alpha)", "leaky_relu(0.0)")),
    ("factor 1/β of the kernel lost", "eigenvalues check-3-2", "pair: |quotient",
     ("eigenvalues", "m * (h2[0] - h2[1]) / F.beta", "m * (h2[0] - h2[1])")),
    ("half of the Fourier series forgotten", "eigenvalues check-3-2", "pair: |quotient",
     ("eigenvalues", "v2 = -2 * ((coefficient * k**2)", "v2 = -((coefficient * k**2)")),
    ("contour on the other side of the axis", "certificate check-3-2", "contour − real axis",
     ("certificate", "np.cos(t - 1j * taus[:, None])", "np.cos(t + 1j * taus[:, None])")),
    ("directions of the units forgotten", "certificate check-3-2", "moment of the certificate",
     ("certificate", "np.exp(-1j * np.outer(k, np.radians(degrees(a))))",
      "np.ones((len(k), 2))")),
    ("factor 1/2 of the certificate counted twice",
     "certificate check-3-2", "moment of the certificate",
     ("certificate", "np.log(b / 2) - funk_hecke", "np.log(b / 4) - funk_hecke")),
    ("overlap without its root", "certificate-sphere check-3-2", "certificates found",
     ("certificate-sphere", "np.sqrt(overlap) / (2 *", "overlap / (2e3 *")),
    ("σ(s) instead of σ(s) s", "refine check-5-6", "second difference of v/2",
     ("refine", "- F.activation.sigma(s) * s)", "- F.activation.sigma(s))")),
    ("slope of the units not squared", "refine check-5-6", "second difference of v/2",
     ("refine", "(turned @ F.a.T) ** 2\n", "(turned @ F.a.T)\n")),
    ("h″ instead of h″/β", "strict check-5-6", "β = 5: least h''",
     ("strict", "(kernel(angle, b)[2] / b)", "kernel(angle, b)[2]")),
    ("weaker weight, ω = −1.5 instead of −2", "check-5-6", "one unit, ω = −2",
     ("check-5-6", "[-2.0]", "[-1.5]")),
    ("factor 2 of the density lost", "continuum continuum-flow check-5-5", "largest speed on the",
     ("continuum", "mu_hat = -F.beta * v_hat / (2 *", "mu_hat = -F.beta * v_hat / (1 *")),
    ("density with the other sign",
     "continuum continuum-flow check-5-5", "largest speed on the circle",
     ("continuum", "mu_hat = -F.beta", "mu_hat = F.beta")),
    ("eigenvalues of another dimension", "continuum check-5-5", "largest speed on the circle",
     ("continuum", "funk_hecke(F.beta, 2, k)", "funk_hecke(F.beta, 3, k)")),
    ("density on the sphere halved", "check-5-5", "on S²: largest speed",
     ("check-5-5", "form = np.einsum", "form = 0.5 * np.einsum")),
    ("zeros counted without their sign", "zeros generic check-3-3", "draws with index 2",
     ("generic", "int(np.sign(det).sum())", "len(det)")),
    ("end of the flow on the sphere not polished",
     "sphere-states check-3-3", "particles on S², ReLU",
     ("sphere-states", "tolerance=1e-12)", "tolerance=1e-12, maxiter=1)")),
    ("slope of the perceptron with the other sign",
     "zeros check-3-3", "the continuum and its own weights",
     ("zeros", "own = own + np.einsum", "own = own - np.einsum")),
    ("ring at another temperature", "ring check-3-3", "left side of the equation",
     ("ring", "one = SphereEnergy(5.0,", "one = SphereEnergy(4.0,")),
    ("orthogonal units of one sign", "normalised check-6-1", "signs (+, −)",
     ("normalised", "np.array([1.0, -1.0])", "np.array([1.0, 1.0])")),
    ("degree m instead of 2m", "normalised check-6-1", "moment needed",
     ("normalised", "funk_hecke(b, 2, 2 * m, log=True)", "funk_hecke(b, 2, m, log=True)")),
    ("growth of the quadratic halved", "check-6-1", "growth of the quadratic",
     ("check-6-1", "beta / 2 * np.sinh(3) ** 2", "beta / 4 * np.sinh(3) ** 2")),
    ("Newton's step with the other sign", "normalised check-6-1", "largest speed of an atom",
     ("normalised", "        u = np.einsum", "        u = -np.einsum")),
    ("velocity that is not normalised", "normalised check-6-1", "the same from ∇log Z/β",
     ("normalised", "SphereEnergy(beta, axes_2, weights_2, normalised=True)",
      "SphereEnergy(beta, axes_2, weights_2)")),
    ("density for discs of half the radius", "exit check-6-2", "random walks − density",
     ("exit", "ive(0, beta * r) * np.exp(beta * r)",
      "ive(0, beta * r / 2) * np.exp(beta * r / 2)")),
    ("attention without the matrix B", "exit check-6-2", "largest force",
     ("exit", "on_circle(t) @ B @ on_circle(t).T", "on_circle(t) @ on_circle(t).T")),
    ("discs that leave the ellipse", "exit check-6-2", "random walks − density",
     ("exit", "r = least * (1 - np.linalg.norm(x @ inverse, axis=1))",
      "r = 1 - np.linalg.norm(x, axis=1)")),
    ("factor 2 lost where the bounds cross", "check-6-2", "where the two bounds cross",
     ("check-6-2", "1 + 2 * 1.0 / 1.0", "1 + 1.0 / 1.0")),
]  # fmt: skip


class TestLocalisation(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
