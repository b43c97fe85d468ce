"""The checks of Appendix A, part 1 (the circle), fail for wrong programs.

The cells of the notebook run once, in their order and in smaller portions. For a wrong program a
plausible mistake is made in one of them; it and the cells that depend on it run again, and the
check has to end in its assertion, for the row that the mistake is about.
"""

from dataclasses import replace

import numpy as np
from chapter_runner import Chapter, computing
from scipy.special import ndtr

from mfbook.models.activations import GELU
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "a-sphere-circle.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("identity", "start(n=60)", "start(n=20)"),
    ("fourier", "uniform(-np.pi, np.pi, 5000)", "uniform(-np.pi, np.pi, 1000)"),
    ("fourier", "np.ones(5000)", "np.ones(1000)"),
    ("figure-1", "rtol=1e-7, atol=1e-9", "rtol=1e-5, atol=1e-7"),
    ("figure-5", "(1.0, particles)", "(1.0, 300)"),
    ("figure-5", "(10.0, particles)", "(10.0, 300)"),
    ("figure-8-draws", "n=50", "n=30"),
]
SKIP = ("view", "try")


# ---------------------------------------------------------------- replaced names


def published(names):
    """GeLU with the primitive s² N(s) + s n(s), from which N(s) has not been subtracted."""
    return {"published": replace(GELU, primitive=lambda s: GELU.primitive(s) + ndtr(s) / 2)}


def jacobian_without_Z(names):
    J = names["velocity_jacobian"](names["plain"], names["state"])
    return {"eigenvalues": np.linalg.eigvals(J)}


# ---------------------------------------------------------------- wrong programs

# Each as Chapter.wrong says.
ORBIT = "orbit period check-normalised"
WRONG = [
    ("factor 1/2 of the double sum lost", "formulas belong check-2-5", "E against the double sum",
     ("formulas", "E, u = w @ h @ w / (2 * F.beta)", "E, u = w @ h @ w / F.beta")),
    ("factor 2 of Φ′ = 2σ counted in the velocity",
     "formulas belong check-2-5", "u against the sum over pairs",
     ("formulas", "u -= (F", "u -= 2 * (F")),
    ("another primitive of GeLU", "belong check-2-5", "GeLU: largest error", published,
     ("belong", '("GeLU", "gelu")', '("GeLU", published)')),
    ("velocity of attention without the perceptron", "stationary check-2-5",
     "largest speed on the support",
     ("stationary", "F.velocity(best.measure.atoms, best.measure)",
      "energy(5.0).velocity(best.measure.atoms, best.measure)")),
    ("minimiser of another activation", "stationary check-2-5", "largest speed on the support",
     ("stationary", "minimise_on_circle(F)", 'minimise_on_circle(energy(5.0, "gelu"))')),
    ("pair of tokens at a right angle instead of opposite",
     "stationary check-2-5", "antipodal pair",
     ("stationary", "0.3 + np.pi", "0.3 + np.pi / 2")),
    ("∫∫|u|² halved", "gelu check-identity", "the same defect",
     ("gelu", "change, done = work(gentle, run, sign)",
      "change, done = work(gentle, run, sign / 2)")),
    ("descent taken with the sign of ascent", "identity check-identity", "none: largest |change",
     ("identity", "sign * half * (D @ gauss)", "half * (D @ gauss)")),
    ("constant of the primitive taken at its mean",
     "rise gelu check-identity", "published energy, ascent",
     ("rise", "mu.weights @ (ndtr(F.scores(mu.atoms)) - 0.5) @ F.omega / 2", "F.omega.sum() / 4")),
    ("term N(s) subtracted twice instead of not at all",
     "rise check-identity", "rise of the published energy",
     ("rise", "return F(mu) + mu", "return F(mu) - mu")),
    ("one token followed uphill", "rise check-identity", "one token",
     ("rise", "one.field()", "one.field(True)")),
    ("normalised field with the energy of the plain one", "gelu check-identity", "the same defect",
     ("gelu", "flow(gentle.field(sign > 0)",
      'flow(energy(1.0, "gelu", True).field(sign > 0)')),
    ("denominator Z dropped", "random-states check-normalised", "no perceptron: |dE/dt",
     ("random-states", "rates(F, Measure(on_circle(angle)))",
      "rates(F, Measure(on_circle(angle)))[[0, 1, 1, 3]]")),
    ("velocity not normalised", "random-states check-normalised", "the same with 1 for Z",
     ("random-states", "energy(beta, units, normalised=True), []", "energy(beta, units), []")),
    ("1/Z − 1 instead of its square", "two-tokens check-normalised", "its bound",
     ("two-tokens", "(1 / Z - 1) ** 2", "(1 / Z - 1)")),
    ("perceptron counted as attention", "two-tokens check-normalised", "its bound",
     ("two-tokens", "t = g - space.tangent(mu.atoms, F.perceptron(mu.atoms))", "t = g")),
    ("denominator Z dropped for two tokens", "two-tokens check-normalised", "closed form",
     ("two-tokens", "(2 * h / (1 + h) + weights)", "(h + weights)")),
    ("perceptron that supports attention instead of opposing it",
     "two-tokens check-normalised", "the same state: change of E",
     ("two-tokens", "lowest = -(h", "lowest = (h")),
    ("attention not normalised in the runs", "normalised-runs check-normalised",
     "GeLU, ascent", ("normalised-runs", "energy(beta, units, normalised=True)",
                      "energy(beta, units)")),
    ("direction of the energy with the other sign",
     "normalised-runs check-normalised", "E against the direction",
     ("normalised-runs", "against = -sign", "against = sign")),
    ("start near another state of rest",
     ORBIT, "start -0.1", ("orbit", "[0.18, -0.02]", "[-0.02, -0.18]")),
    ("state compared with itself half a period later",
     "period check-normalised", "one period later",
     ("period", "run.at(t) for t in crossings", "run.at(t) for t in (crossings[0], "
      "crossings.mean())")),
    ("Jacobian of the field that is not normalised",
     "check-normalised", "imaginary part", jacobian_without_Z),
    ("terms k and −k of the series not both counted", "fourier check-fourier", "Z, series",
     ("fourier", "np.where(k == 0, 1, 2)", "1")),
    ("factor 1/β of the tangential pull t lost", "fourier check-fourier", "t, series",
     ("fourier", ".real / beta", ".real")),
    ("pull with the other sign", "fourier check-fourier", "t, series",
     ("fourier", "-(e * np.sin(apart)) @ w", "(e * np.sin(apart)) @ w")),
    ("series with too few terms", "fourier check-fourier", "Z, series",
     ("fourier", "< 1e-16)", "< 1e-8)")),
    ("remainder of the series too small", "truncated check-fourier", "error of Z /",
     ("truncated", "2 * c[K:].sum()", "c[K:].sum() / 10")),
    ("attention not normalised", "far check-fourier", "error of the package",
     ("far", "F = SphereEnergy(beta, normalised=True)", "F = SphereEnergy(beta)")),
    ("ascent in place of descent", "figure-1 check-figure-1", "with perceptron: largest rise",
     ("figure-1", "whole = settle(F, tokens, protocol=rules, record=1)",
      "whole = settle(F, tokens, ascent=True, protocol=rules, record=1)")),
    ("GeLU instead of ReLU", "figure-1 check-figure-1", "velocity against that of attention alone",
     ("figure-1", 'F, free = energy(beta, "relu")', 'F, free = energy(beta, "gelu")')),
    ("factor 1/2 of the uniform law's energy lost", "figure-1 check-figure-1", "E(uniform)",
     ("figure-1", "ive(0, beta) / (2 * beta)", "ive(0, beta) / beta")),
    ("step not halved", "figure-1 check-figure-1", "Euler",
     ("figure-1", "for step in (0.1, 0.2))", "for step in (0.2, 0.2))")),
    ("descent in place of ascent", "figure-3 check-figure-3", "largest fall",
     ("figure-3", "ascent=True, protocol=rules,", "horizon=50,")),
    ("second difference divided by the step, not its square",
     "figure-3 check-figure-3", "curvature",
     ("figure-3", "/ step**2", "/ step")),
    ("dead zone and its opposite exchanged",
     "landscape figure-3 figure-3-draws check-figure-3", "outside the dead zone",
     ("landscape", "(x @ a.T <= 0)", "(x @ a.T >= 0)")),
    ("potential of the perceptron dropped",
     "figure-3 figure-3-draws check-figure-3", "the potential holds them too",
     ("figure-3", "groups, local = run.clusters, F.at(run.measure)",
      'groups, local = run.clusters, energy(beta).at(run.measure)')),
    ("difference on one side instead of a central one", "figure-3 check-figure-3", "slope",
     ("figure-3", "for s in (-step, 0, step))", "for s in (0, 0, step))")),
    ("one unit inactive taken for all inactive",
     "landscape figure-5 check-figure-5", "β = 10: share at t = 3000",
     ("landscape", "(x @ a.T <= 0).all(axis=-1)", "(x @ a.T <= 0).any(axis=-1)")),
    ("edge of the dead zone counted as a maximum of the potential", "landscape check-figure-3",
     "strict local maxima",
     ("landscape", "(v > np.roll(v, 1)) & (v >", "(v > np.roll(v, 1)) & (v >=")),
    ("animation run by attention of another kind", "animations check-figure-3", "our stop",
     ("animations", "energy(1.0, units, soft)", "energy(1.0, units, not soft)")),
    ("perceptron of half the weights in the animations", "animations check-figure-3", "our stop",
     ("animations", "energy(1.0, units, soft)",
      "sweep.source_draw(2, scale=0.5).energy(1.0, units, soft)")),
    ("our second draw of the tokens in the animations", "animations check-figure-8",
     "clusters, from those in the frames", ("animations", "tokens, ascent=up", "sweep.start(), "
                                            "ascent=up")),
    ("threshold without the cap and forty times as long", "figure-3 check-figure-3",
     "clusters, live and stored",
     ("figure-3", "protocol=rules", "protocol=Protocol(reach=20.0, cap=False)")),
    ("attention ten times as strong", "figure-3-phases check-figure-3", "attention over perceptron",
     ("figure-3-phases", "attention = energy(beta)", "attention = 10 * energy(beta)")),
    ("clusters of the stored runs read at ascent", "figure-5-draws check-figure-5",
     "mean share there", ("figure-5-draws", '10.0, direction, "relu"', '10.0, "ascent", "relu"')),
    ("GeLU in place of ReLU", "figure-5 check-figure-5", "t = 3000",
     ("figure-5", 'energy(beta, "relu"), start(n=n)', 'energy(beta, "gelu"), start(n=n)')),
    ("linear units instead of GeLU", "figure-6 check-figure-6", "distance from the least v",
     ("figure-6", 'F = energy(beta, "gelu")', 'F = energy(beta, "linear")')),
    ("ascent in place of the descent", "figure-6 check-figure-6", "largest rise",
     ("figure-6", "settle(F, tokens, protocol=rules",
      "settle(F, tokens, ascent=True, protocol=rules")),
    ("least energy of other units", "figure-6 check-figure-6", "against the gap at the stop",
     ("figure-6", "least = minimise_on_circle(F)",
      'least = minimise_on_circle(energy(beta, "relu"))')),
    ("excess over the energy at the start", "figure-6 check-figure-6", "E − least E",
     ("figure-6", "run.value[-1] - least.value", "run.value[-1] - run.value[0]")),
    ("denominator Z dropped in the comparison",
     "figure-8-draws check-figure-8", "β = 50: median gain",
     ("figure-8-draws", "energy(beta, units, normalised=soft)", "energy(beta, units)")),
    ("descent instead of ascent", "figure-8 check-figure-8", "clusters, live and stored",
     ("figure-8", "ascent=True,\n                        protocol=rules",
      "protocol=Protocol(most=1000)")),
    # wrong claims: the program is right, a row says more than is found
    ("claim: the published energy gains nothing", "check-identity", "one token",
     ("check-identity", "(0.5 - ndtr(-0.5)) / 2", "0")),
    ("claim: it rises by a tenth of its way", "check-identity", "rise of the published energy",
     ("check-identity", "3e-3)", "8e-3)")),
    ("claim: attention is below a hundredth of the perceptron's force", "check-figure-3",
     "attention over perceptron", ("check-figure-3", "for row in phases), 0.1)",
                                   "for row in phases), 0.01)")),
    ("claim: all clusters lock at the maximum of v", "check-figure-3",
     "runs with one cluster outside the dead zone",
     ("check-figure-3", 'row["outside"].count(1)', 'row["clusters"].count(1)')),
    ("claim: nine tenths of the mass leave the dead zone", "check-figure-5", "mean share there",
     ("check-figure-5", "0.7 * sleepers", "0.1 * sleepers")),
    ("claim: one cluster for each minimum", "check-figure-6", "most clusters",
     ("check-figure-6", 'max(row["clusters"] for row in gaps), 6)',
      'max(row["clusters"] for row in gaps), 2)')),
    ("claim: normalisation changes no count", "check-figure-8", "as many clusters with as without",
     ("check-figure-8", "(steps == 0).sum(), 25)", "(steps == 0).sum(), 60)")),
]  # fmt: skip


class TestCircle(Chapter):
    cells = CELLS
    smaller = SMALLER
    skip = SKIP
    wrong = WRONG
