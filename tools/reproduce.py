"""Numbers of the whole package, each with a name, to compare between environments.

    python tools/reproduce.py                  compare with tests/oracles/reference_numbers.json
    python tools/reproduce.py --output FILE    write this environment's numbers instead
    python tools/reproduce.py --write          make them the reference

A deviation is the largest absolute difference in an entry, divided by the largest absolute value
of the stored entry: entries hold numbers of one kind (a gradient, a spectrum), so the maximum norm
is the right one. All numbers are well conditioned. Those that are nothing but rounding are left
out (the gap of a converged minimiser), and so are points at which an optimiser stopped, since a
value at a minimum is known to the square of their error. Adaptive solvers run at tolerances far
below the accuracy that is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# POT imports every array library that it finds: seconds for torch and jax.
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
os.environ.setdefault("POT_BACKEND_DISABLE_JAX", "1")

import numpy as np  # noqa: E402

from mfbook import bounds, equilibria, landscape, stability, transport  # noqa: E402  # noqa: E402
from mfbook import flow as flows  # noqa: E402
from mfbook.book import tasks  # noqa: E402
from mfbook.bounds import derivatives  # noqa: E402
from mfbook.flow.influence import influence  # noqa: E402
from mfbook.measure import Measure, mixture  # noqa: E402
from mfbook.models import sphere as sph  # noqa: E402
from mfbook.models import tokens  # noqa: E402
from mfbook.models.attention import AttentionRisk, HeadShape, attention_weights, features  # noqa: E402
from mfbook.models.attention.ensemble import ensemble_gradient, sgd_ensemble  # noqa: E402
from mfbook.models.confinement import Anchor, Ridge  # noqa: E402
from mfbook.models.layers import StackedRisk as TwoLayers  # noqa: E402
from mfbook.models.layers import label  # noqa: E402
from mfbook.models.network import TwoLayerRisk as Network  # noqa: E402
from mfbook.optimise import certificate  # noqa: E402
from mfbook.space import Sphere  # noqa: E402

REFERENCE = ROOT / "tests" / "oracles" / "reference_numbers.json"
COMMAND = "python tools/reproduce.py --write"
PACKAGES = ("numpy", "scipy", "pot", "matplotlib", "joblib", "tqdm")
#: What two environments may differ by.
TOLERANCE = 1e-8

GROUPS: dict[str, Callable[[], dict]] = {}


def group(function: Callable[[], dict]) -> Callable[[], dict]:
    """Enter a function that returns named numbers."""
    GROUPS[function.__name__] = function
    return function


def numbers(names: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Numbers of some groups, default all, as flat arrays."""
    found = {}
    for name in names or GROUPS:
        for key, value in GROUPS[name]().items():
            found[f"{name}: {key}"] = np.asarray(value, dtype=float).ravel()
    return found


def deviations(found: dict, stored: dict) -> dict[str, float]:
    """Deviation of every entry; infinite where a name, a shape or finiteness differs."""
    errors = {}
    for name in {**stored, **found}:
        a, b = (np.asarray(source.get(name, ()), dtype=float) for source in (found, stored))
        if a.shape != b.shape or not np.isfinite(a).all():
            errors[name] = np.inf
        else:
            error, scale = np.abs(a - b).max(), np.abs(b).max()
            errors[name] = float(error / scale) if scale > 0 else float(error)
    return errors


# ------------------------------------------------------------------------------------ problems


@cache
def risk() -> AttentionRisk:
    """A risk on random data with soft labels."""
    rng, shape = np.random.default_rng(1), HeadShape(6, 3, 2)
    X, W_U = rng.normal(size=(40, 8, shape.d)) / 2, rng.normal(size=(shape.d, 12))
    return AttentionRisk(X, rng.dirichlet(np.ones(12), size=X.shape[:2]), W_U, shape)


@cache
def heads(n=300, seed=2) -> Measure:
    """Heads for :func:`risk`."""
    rng = np.random.default_rng(seed)
    return Measure(rng.normal(size=(n, risk().shape.size)), rng.dirichlet(np.ones(n)))


@cache
def small() -> tuple[AttentionRisk, Measure]:
    """A risk with few heads, for what needs many evaluations."""
    rng, shape = np.random.default_rng(3), HeadShape(3, 2, 1)
    X, W_U = rng.normal(size=(6, 4, 3)), rng.normal(size=(3, 5))
    Y = rng.dirichlet(np.ones(5), size=(6, 4))
    mu = Measure(rng.normal(size=(4, shape.size)) / 2, [0.1, 0.2, 0.3, 0.4])
    return AttentionRisk(X, Y, W_U, shape), mu


@cache
def cloud(n, d, seed=4, weighted=True) -> Measure:
    """Points of the sphere."""
    rng = np.random.default_rng(seed)
    x = Sphere().sample(rng, n, d)
    return Measure(x, rng.dirichlet(np.ones(n)) if weighted else None)


def energy(beta, d, J=5, **options) -> sph.SphereEnergy:
    """Attention with a perceptron."""
    rng = np.random.default_rng(5)
    return sph.SphereEnergy(beta, Sphere().sample(rng, J, d), rng.normal(size=J), **options)


def spread(values, count=6) -> np.ndarray:
    """A few entries of a long array, evenly spaced."""
    flat = np.ravel(values)
    return flat[np.linspace(0, len(flat) - 1, count).astype(int)]


# -------------------------------------------------------------------------------------- groups


@group
def measures() -> dict:
    mu, nu = cloud(30, 3), cloud(20, 3, seed=6)
    return {
        "moments": mu.integrate(mu.atoms),
        "mixture": mixture(mu, nu, 0.3).integrate(np.append(mu.atoms, nu.atoms, axis=0)),
        "merged within 0.3": mu.merge(0.3).atoms.sum(axis=0),
    }


@group
def attention() -> dict:
    R, mu = risk(), heads()
    local = R.at(mu)
    other = heads(7, seed=8).atoms
    A = attention_weights(other, R.X, R.shape)
    value, slope = R.over_weights(other)(np.full(7, 1 / 7))
    return {
        "risk": local.value,
        "logits": spread(local.logits, 10),
        "residual": spread(local.residual),
        "first variation": local.first_variation(other),
        "gradient of the measure's heads": local.gradient(mu.atoms)[::100],
        "gradient elsewhere": local.gradient(other)[::3],
        "correlation": local.correlation(other[:1]),
        "attention weights": spread(A[:, :, -1], 10),
        "features": spread(features(other, R.X, R.W_U, R.shape), 10),
        "over weights": [value, *slope],
        "sampled risk": R.sample(9, 16)(mu),
        "feature variance": bounds.feature_variance(R, mu),
        "leading coefficient": bounds.leading_coefficient(R, mu),
        "saturated risk": R(Measure(40 * other)),
    }


@group
def two_layers() -> dict:
    R, mu = small()
    F = TwoLayers(R.X, R.Y, R.W_U, R.shape)
    both = Measure(label(mu.atoms, mu.atoms[::-1]))
    local = F.at(both)
    return {
        "risk": local.value,
        "logits": spread(local.logits),
        "first variation": local.first_variation(both.atoms),
        "gradient": local.gradient(both.atoms)[[0, -1]],
    }


@group
def second_derivatives() -> dict:
    R, mu = small()
    h = np.roll(mu.atoms, 1, axis=1)
    value, first, second = derivatives.directional_derivatives(mu.atoms, h, R.X[0], R.W_U, R.shape)
    norms = derivatives.derivative_norms(mu.atoms, R.X[0], R.W_U, R.shape)
    found = derivatives.largest_derivative(1, HeadShape(2, 1, 1), r=1.2, rng=0, starts=3)
    return {
        "feature": value[0],
        "first": first[0],
        "second": second[0],
        "norms of the first": norms.first,
        "norms of the second": norms.second,
        "largest first": found.value,
    }


@group
def certificates() -> dict:
    R, mu = small()
    F = (R + Ridge(0.01)).on(R.shape.ball(2.0))
    gap = certificate.frank_wolfe_gap(F, mu, rng=0)
    best, _ = certificate.optimal_weights(F, mu.atoms, tolerance=1e-15)
    run = certificate.boost(F, mu, rng=0, rounds=1)
    report = stability.best_alternative(F, mu, rng=0)
    return {
        "gap found": gap.found,
        "gap proved": gap.rigorous,
        "risk of the best weights": F(best),
        "boosted values": run.value,
        "gain of the best head": report.gain,
    }


@group
def integrators() -> dict:
    R, mu = small()
    F, few = R + Ridge(0.05), Measure(mu.atoms[:2])
    times, found = [0.0, 0.1, 0.4], {}
    # tolerances at which the low orders take a few hundred steps
    rtols = {"RK23": 1e-7, "RK45": 1e-11, "DOP853": 1e-12, "Radau": 1e-9, "BDF": 1e-8}
    for method, rtol in {**rtols, "LSODA": 1e-11}.items():
        run = flows.gradient_flow(F, few, times, method=method, rtol=rtol, atol=rtol / 10)
        found[method] = [*run.value, *run.end.atoms.ravel()]
    for method in ("euler", "rk4"):
        run = flows.gradient_flow(F, mu, times, method=method, step=0.05)
        found[method] = [*run.value, *run.dissipation, *spread(run.end.atoms)]
    decay = flows.polynomial_decay(0.5, 1.0, 0.7)
    run = flows.gradient_flow(F, mu, times, xi=decay, rtol=1e-11, atol=1e-12)
    found["decaying rate"] = [*run.value, *run.dissipation, *run.tau]
    tied = R.on(R.shape.ball(0.9))
    start = Measure(tied.space.project(mu.atoms), mu.weights)
    found["in balls"] = flows.gradient_flow(tied, start, times, method="rk4", step=0.05).value
    F, mu = energy(4.0, 3), cloud(40, 3)
    run = flows.gradient_flow(F, mu, [0.0, 1.0], method="rosenbrock", rtol=1e-5, atol=1e-6)
    found["rosenbrock"] = [*run.value, *spread(run.end.atoms)]
    found["dissipation"] = flows.dissipation(F, mu)
    return found


@group
def learning_rates() -> dict:
    t = [0.0, 0.3, 1.0, 2.5, 40.0]
    profiles = {
        "constant": flows.constant(0.3),
        "decay": flows.polynomial_decay(0.5, 2.0, 1.3),
        "cosine": flows.warmup_cosine(1.0, 0.5, 3.0, 0.1),
        "by quadrature": flows.custom(lambda t: 1 / (1 + t * t)),
    }
    return {name: [*xi(np.array(t)), *xi.tau(np.array(t))] for name, xi in profiles.items()}


@group
def descent() -> dict:
    R, mu = small()
    run = flows.sgd(R, mu, [0.0, 1.0, 2.0], 0.05, rng=1, batch=2)
    found = {"sgd": [*run.value, *spread(run.end.atoms)]}
    rng = np.random.default_rng(2)
    # short sequences, then ones with more features than the kernel of pairs takes
    for name, F in (("pairs", R), ("positions", risk())):
        start = rng.normal(size=(3, 40, F.shape.size))
        seen = sgd_ensemble(F, start, [0.0, 0.2, 0.5], 0.05, [1, 2, 3], lambda m, F=F: [F(m)])
        found[f"ensemble, {name}"] = seen
        X, Y = F.X[:6].reshape(3, 2, *F.X.shape[1:]), F.Y[:6].reshape(3, 2, *F.Y.shape[1:])
        g = ensemble_gradient(start.transpose(2, 0, 1), X, Y, F.W_U, F.shape)
        found[f"ensemble gradient, {name}"] = spread(g, 10)
    F = R + Ridge(0.1)
    found["influence"] = influence(F, mu, [0.2, 0.5], rtol=1e-9)
    found["influence of a distance"] = influence(
        F, mu, [0.2], transport.direction(np.ones(R.shape.size)), rtol=1e-9
    )
    return found


@group
def distances() -> dict:
    rng = np.random.default_rng(3)
    x, y, z = rng.normal(size=(60, 4)), rng.normal(size=(60, 4)) + 0.3, rng.normal(size=(45, 4))
    mu, nu, xi = Measure(x), Measure(y), Measure(z, rng.dirichlet(np.ones(45)))
    lines = [Measure(m.atoms[:, :1], m.weights) for m in (mu, xi)]
    found = {
        f"W{p}": [transport.wasserstein(*pair, p) for pair in ((mu, nu), (mu, xi), lines)]
        for p in (1, 2)
    }
    sliced = transport.sliced_w2(mu, xi, 0)
    witness = transport.dual_witness(mu, xi)
    middle = transport.displacement(mu, xi, 0.4)
    return {
        **found,
        "coupled": transport.coupled_distance(mu, nu),
        "sliced": [sliced.distance, sliced.error],
        "witness": [witness.value, witness.distance],
        "displacement": middle.integrate(middle.atoms**2),
    }


@group
def linear_stability() -> dict:
    R, mu = small()
    F = R + Ridge(0.05)
    dirac = stability.dirac_stability(F, np.zeros(R.shape.size))
    atomic = stability.atomic_stability(F, mu)
    eta = np.roll(mu.atoms, 1, axis=0)
    E = np.geomspace(1.0, 1e-5, 60)
    fit = stability.kl_fit(E, 2 * E**1.4 * (1 + 0.1 * np.cos(np.arange(60))))
    drift = stability.radial_drift(F, mu, [0.5, 5.0], rng=0, samples=64, descents=2)
    monotone = stability.strong_monotonicity(
        F, mu, rng=0, radius=0.1, couplings=16, descents=1, maxiter=20
    )
    margin = stability.curvature_margin(F, np.zeros(R.shape.size), rng=0, radius=0.5, samples=4)
    return {
        "H at zero": dirac.deviations,
        "H + K at zero": dirac.translations,
        "H": atomic.deviations,
        "blocks": atomic.collective,
        "second variation": stability.second_variation(F, mu, eta),
        "stationarity": stability.stationarity(F, mu).norms,
        "radial drift, sampled": drift.sampled,
        "radial drift, least": drift.least,
        "monotonicity": np.sort(monotone.quotients)[:4],
        "curvature": [margin.m, margin.ell],
        "power law": [fit.alpha, fit.c, *fit.interval],
        "envelope": stability.kl_envelope([0.0, 1.0, 10.0], 2.0, 0.5, 0.8),
        "length": stability.kl_length(2.0, 0.5, 0.8),
    }


@group
def kernels() -> dict:
    u, found = np.linspace(0.01, 3.1, 6), {}
    for beta in (0.05, 2.0, 60.0):
        found[f"kernel at {beta:g}"] = sph.kernel(u, beta)[0]
        found[f"slope at {beta:g}"] = sph.kernel(u, beta)[1]
        found[f"eigenvalues at {beta:g}"] = sph.funk_hecke(beta, 5, range(5), log=True)
        found[f"concentration at {beta:g}"] = [
            sph.inflection(beta), *bounds.anticoncentration(beta),
        ]  # fmt: skip
    return found


@group
def sphere() -> dict:
    found = {}
    B2, B3 = np.diag([1.0, 0.4]), np.array([[1.0, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, -0.7]])
    cases = {
        "circle, series": (energy(8.0, 2), cloud(700, 2)),
        "circle, directly": (energy(8.0, 2, activation="gelu"), cloud(20, 2)),
        "circle, normalised": (energy(30.0, 2, normalised=True), cloud(700, 2)),
        "circle, matrix": (energy(3.0, 2, B=B2, activation="tanh"), cloud(300, 2)),
        "sphere": (energy(5.0, 3, activation="tanh"), cloud(700, 3)),
        "sphere, normalised": (energy(40.0, 3, normalised=True), cloud(700, 3)),
        "sphere, matrix": (energy(2.0, 3, B=B3, bias=np.linspace(-1, 1, 5)), cloud(300, 3)),
        "dimension 16": (energy(2.0, 16), cloud(900, 16)),
    }
    for name, (F, mu) in cases.items():
        local, away = F.at(mu), cloud(400, mu.dim, seed=9).atoms
        found |= {
            f"{name}: energy": F.energy_parts(mu),
            f"{name}: first variation": spread(local.first_variation(away)),
            f"{name}: gradient": spread(local.gradient(away)),
            f"{name}: velocity of the atoms": spread(F.velocity(mu.atoms, mu)),
            f"{name}: velocity elsewhere": spread(F.velocity(away, mu)),
        }
        b = Sphere().tangent(mu.atoms, np.roll(mu.atoms, 1, axis=0))
        if mu.size * (mu.dim - 1) <= 1500:
            solved = F.field().linearised(mu).solve(0.1, b)
            found[f"{name}: implicit step"] = spread(solved)
    return found


@group
def second_order() -> dict:
    F, mu = energy(3.0, 3, activation="tanh"), cloud(5, 3)
    report = equilibria.second_order(F, mu)
    end = equilibria.newton(F, mu)
    return {
        "eigenvalues": report.eigenvalues,
        "speed": report.gradient,
        "jacobian": equilibria.velocity_jacobian(F, mu)[0],
        "Newton: energy": F(end.measure),
        "Newton: least eigenvalue": end.least,
    }


@group
def minimiser() -> dict:
    found = {}
    for beta, name in ((2.0, "relu"), (20.0, "gelu"), (5.0, "linear")):
        F = energy(beta, 2, activation=name)
        best = equilibria.minimise_on_circle(F)
        found[f"value, {name} at {beta:g}"] = [best.value, best.multiplier]
        # second moments: first ones vanish where the minimiser is symmetric
        squares = best.measure.atoms[:, :, None] * best.measure.atoms[:, None]
        found[f"moments, {name} at {beta:g}"] = best.measure.integrate(squares)
        gap = certificate.frank_wolfe_gap(F, cloud(9, 2), rng=0)
        found[f"gap of nine atoms, {name} at {beta:g}"] = [gap.found, gap.rigorous]
    local = energy(2.0, 3, activation="tanh").at(cloud(6, 3))
    least = local.minimise(0, starts=3, tolerance=1e-4)
    found["least value on the sphere"] = least.value
    return found


@group
def settling() -> dict:
    found = {}
    for name, d, options in (
        ("circle, euler", 2, {"method": "euler", "most": 100}),
        ("circle, stiff", 2, {"ascent": True}),
        ("sphere, stiff", 3, {"ascent": True}),
    ):
        run = equilibria.settle(energy(9.0, d), cloud(60, d, weighted=False), record=5, **options)
        found |= {
            f"{name}: energies": run.value,
            f"{name}: times": run.times,
            f"{name}: clusters": run.count,
            f"{name}: masses": run.clusters.masses,
            f"{name}: positions": spread(run.atoms, 10),
        }
    for linkage in ("single", "arcs"):
        seen = equilibria.clusters(cloud(50, 2), beta=200.0, linkage=linkage)
        found[f"clusters, {linkage}"] = [seen.count, *seen.masses, *seen.spread]
    seen = equilibria.clusters(cloud(90, 3), threshold=0.4)
    found["clusters, sphere"] = [seen.count, *seen.masses]
    return found


@group
def potentials() -> dict:
    F = energy(1.0, 3, J=6)
    top, bottom = landscape.maximise_potential(F), landscape.minimise_potential(F)
    positive = np.abs(F.a)
    return {
        "regions": len(landscape.sign_regions(F.a)),
        "maximum": [top.value, len(top.points)],
        "maxima of the regions": np.sort(top.candidates.values),
        "minimum": [bottom.value, len(bottom.points)],
        "at a maximiser": F.potential(top.points[:1]),
        "nonnegative": landscape.nonnegative_maximum(positive, np.abs(F.omega)).value,
        "collinear": landscape.collinear_maximum(F.a[0], np.sign(F.omega), F.omega).value,
        "diagonal": landscape.diagonal_maximum(np.abs(F.omega)).value,
        "conditions": [
            landscape.is_analytic_potential(F.a, F.omega),
            landscape.nondegenerate_normalised(F.a, F.omega).holds,
        ],
    }


@group
def constants() -> dict:
    R = risk()
    R_X, R_U = bounds.data_radii(R.X, R.W_U)
    growth = bounds.growth_bound(1.1, 1.2, 3, tau=0.4, values=2.0, queries=1.5)
    bound = bounds.propagation_bound(1.0, 1.2, 0.9, 3, M=500, epsilon=1e-3, tau=0.5)
    B, k = bounds.feature_bounds(1.1, 1.2, 0.9, 3), 3
    drift = bounds.drift_lipschitz(1.1, 1.2, 0.9, k)
    rates = bounds.propagation_rate(500, 1e-3, 0.1, D=36, t_end=2.0)
    return {
        "radii": [R_X, R_U],
        "features": [B.B, B.L, B.H],
        "sharp": [bounds.sharp_jacobian_bound(1.1, 1.2, 0.9, k)],
        "attained": bounds.hessian_attained(1.1, 1.2, 0.9, k),
        "drift": [drift.head, drift.measure],
        "growth": [growth.values, growth.query_slope, growth.queries],
        "propagation": [bound.exponent, bound.euler, bound.noise, bound.sampling, bound.log10],
        "rates": [
            rates, bounds.monte_carlo_rate(2.0, 50), bounds.sharp_rate(2.0, 50),
            bounds.variance_rate(3.0, 50),
        ],
    }  # fmt: skip


@group
def network() -> dict:
    rng = np.random.default_rng(6)
    X, mu = rng.normal(size=(300, 5)), Measure(rng.normal(size=(400, 7)))
    found = {}
    for name in ("tanh", "gelu", "relu"):
        L = Network(X, np.sin(X[:, 0]), name)
        local = L.at(mu)
        found |= {
            f"{name}: loss": local.value,
            f"{name}: output": spread(local.output),
            f"{name}: first variation": spread(local.first_variation(mu.atoms)),
            f"{name}: gradient": spread(local.gradient(mu.atoms), 10),
        }
    return found


@group
def token_flows() -> dict:
    rng = np.random.default_rng(7)
    mu = Measure(rng.normal(size=(500, 4)) / 2, rng.dirichlet(np.ones(500)))
    x, few = rng.normal(size=(300, 4)), Measure(mu.atoms[:6])
    F, f = tokens.TokenEnergy(0.7), tokens.sinkhorn_potential(few)
    Q, K = rng.normal(size=(2, 3, 4)) / 2
    return {
        "energy": F(mu),
        "first variation": spread(F.first_variation(x, mu)),
        "gradient": spread(F.gradient(x, mu)),
        "softmax potential": spread(tokens.softmax_potential(x, mu, Q=Q, K=K)),
        "softmax field": spread(tokens.softmax_field(x, mu, Q=Q, K=K)),
        "Sinkhorn potential": f(few.atoms),
        "Sinkhorn field": spread(tokens.sinkhorn_field(few.atoms, few)),
        "blow-up": tokens.blow_up_bounds(mu, 0.7),
        "asymmetry of softmax": tokens.centred_kernel(tokens.softmax_potential, few).asymmetry,
        "Jacobian": tokens.particle_jacobian(tokens.softmax_field, few)[0],
        "anchored": Anchor(0.3, np.ones(4))(mu),
    }


@group
def exercises() -> dict:
    shape = HeadShape(4, 2, 2)
    teacher = tasks.teacher_student(
        shape, sequences=9, tokens=5, vocabulary=6, heads=3, rng=1, scale=3.0
    )
    copy = tasks.copy_task(sequences=8, tokens=7, vocabulary=5, lag=2, rng=2)
    head = tasks.copy_head(HeadShape(6, 2, 4), tokens=7, lag=2, scale=4.0)
    induction = tasks.induction_task(sequences=5, tokens=8, vocabulary=6, rng=3)
    words = "the heads of a layer are particles and training moves them downhill. " * 40
    text = tasks.text_task(sequences=40, tokens=8, held_out=10, rng=4, text=words)
    return {
        "teacher: labels": spread(teacher.Y),
        "teacher: optimal risk": teacher.optimal_risk,
        "copy: tokens": spread(copy.X),
        "copy: risk of the head": copy.risk(HeadShape(6, 2, 4))(Measure.dirac(head)),
        "induction: tokens": spread(induction.X),
        "induction: optimal risk": induction.optimal_risk,
        "text: tokens": spread(text.X),
        "text: bits": [tasks.unigram_bits(text), tasks.bigram_bits(text)],
    }


# ------------------------------------------------------------------------------------- command


def environment() -> dict[str, str]:
    """Versions that matter."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def load(path: Path = REFERENCE) -> dict[str, list[float]]:
    """Numbers of a file."""
    return json.loads(path.read_text())["numbers"]


def report(found: dict) -> str:
    """The file of some numbers, one entry for each line."""
    about = {"command": COMMAND, "versions": environment()}
    lines = [f"{json.dumps(name)}: {json.dumps(found[name].tolist())}" for name in found]
    head = json.dumps(about, indent=1).removesuffix("\n}")
    return head + ',\n "numbers": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n"


def main() -> None:
    """Compute, then compare or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the numbers to this file")
    parser.add_argument("--write", action="store_true", help="make them the reference")
    parser.add_argument("--seconds", action="store_true", help="print what each group takes")
    options = parser.parse_args()
    found, total = {}, 0.0
    for name in GROUPS:
        start = time.process_time()
        found |= numbers([name])
        spent = time.process_time() - start
        total += spent
        if options.seconds:
            print(f"{spent:7.2f} s  {name}")
    count = sum(map(len, found.values()))
    print(f"{count} numbers in {len(found)} entries, {total:.1f} s")
    output = REFERENCE if options.write else options.output
    if output is not None:
        output.write_text(report(found))
        return
    errors = deviations(found, load())
    for name in sorted(errors, key=errors.get, reverse=True)[:5]:
        print(f"{errors[name]:9.2e}  {name}")
    if max(errors.values()) > TOLERANCE:
        sys.exit(f"numbers deviate from {REFERENCE.name} by more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
