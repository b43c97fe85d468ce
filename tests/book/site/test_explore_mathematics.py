"""The mathematics of the figures that compute in the page, against the package.

Each group has programs in JavaScript, what they are given, and what mfbook says. They run in a
headless Chromium with ``mathematics.js``.
"""

import math
from itertools import product

import numpy as np
import pytest

import mfbook as mf
from companion.mathematics.network import TwoLayerRisk
from companion.tasks import teacher_student
from mfbook import Measure
from mfbook.attention import softmax
from mfbook.flow import flow
from mfbook.sphere import Explicit, clusters
from mfbook.transport import displacement
from tools.chapters import BOOK

pytestmark = pytest.mark.browser
SCRIPT = BOOK / "_static" / "explore" / "mathematics.js"
PRELUDE = """const { ring, transport, oneHead } = mfbook, f64 = (x) => Float64Array.from(x.flat(9));
const plain = (key, x) => ArrayBuffer.isView(x) ? Array.from(x) : x, { task } = mfbook;
const law = ({ X, Y, W_U, k, v, theta }) => [task(X, Y, W_U, k, v), f64(theta)];"""


@pytest.fixture(scope="module")
def run(browser):
    """Run the body of a function in a page with the script; its arguments are given by name."""
    with browser.new_context() as context:
        page = context.new_page()
        page.add_script_tag(path=SCRIPT)

        def run(body, **given):
            given = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in given.items()}
            body = f"const {{ {', '.join(given)} }} = given; {body}"
            value = f"JSON.parse(JSON.stringify((() => {{ {body} }})(), plain))"
            return page.evaluate(f"(given) => {{ {PRELUDE} return {value}; }}", given)

        yield run


def error(found, expected):
    """Largest difference, relative to the largest expected number; infinite if not a number."""
    found, expected = (np.ravel(np.array(x, dtype=float)) for x in (found, expected))
    fits = found.shape == expected.shape and np.isfinite(found).all()
    return np.abs(found - expected).max() / np.abs(expected).max() if fits else np.inf


def on_circle(angle):
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def given(R, theta):
    return {"X": R.X, "Y": R.Y, "W_U": R.W_U, "k": R.shape.k, "v": R.shape.v, "theta": theta}


def layer():
    rng, shape = np.random.default_rng(5), mf.HeadShape(4, 3, 2)
    for soft in (True, False):
        X, W_U = rng.normal(size=(3, 5, 4)), rng.normal(size=(4, 6))
        Y = softmax(rng.normal(size=(3, 5, 6))) if soft else np.eye(6)[rng.integers(6, size=(3, 5))]
        R, x = mf.AttentionRisk(X, Y, W_U, shape), rng.normal(size=(3, shape.size))
        mu = Measure(rng.normal(size=(7, shape.size)), rng.dirichlet(np.ones(7)))
        a, f = rng.normal(size=shape.size), R.logits(mu)
        F, A = R + mf.Anchor(0.3, a), mf.attention_weights(mu.atoms, X, shape)[2, 1]
        inputs = {**given(R, mu.atoms), "w": mu.weights, "x": x, "a": a}
        yield """const [task, heads] = law(given), local = mfbook.at(task, heads, w);
            const others = mfbook.forces(task, local, f64(x), { lambda: 0.3, anchor: a });
            return [local.value, local.logits, local.p, others.psi, others.gradient,
                mfbook.risk(task, heads, { weights: w, lambda: 0.3, anchor: a }),
                mfbook.attention(task, heads, 2, 1), mfbook.features(task, heads)];""", inputs, [
            R(mu), f, softmax(f), F.first_variation(x, mu), F.gradient(x, mu), F(mu), A,
            mf.features(mu.atoms, X, W_U, shape)]  # fmt: skip


def bounds():
    names = {
        "monteCarlo": lambda B, M: math.sqrt(2) * B / math.sqrt(M),
        "sharp": lambda B, M: B**2 / (4 * M),
        "variance": lambda sigma2, M: sigma2 / (4 * M),
    }
    body = "return [mfbook.bounds[name](B, 12), mfbook.headsNeeded(name, B, excess)];"
    for name, B, excess in product(names, (0.3, 1.0, 4.0), (1.0, 0.1, 0.05)):
        inputs = {"name": name, "B": B, "excess": excess}
        least = next(M for M in range(1, 10**5) if names[name](B, M) <= excess)
        yield body, inputs, [names[name](B, 12), least]


def dirac():
    shape, lam, eye = mf.HeadShape(3, 1, 1), 0.25, np.eye(12)
    R = teacher_student(shape, heads=2, sequences=8, tokens=5, vocabulary=4, scale=4.0, rng=33)
    R, theta = R.risk(shape), 0.9 * np.random.default_rng(133).normal(size=12)
    anchor = theta + R.gradient(theta[None], Measure.dirac(theta))[0] / lam
    report, zero = mf.dirac_stability(R + mf.Anchor(lam, anchor), theta), Measure.dirac(0 * theta)
    yield """const [task, head] = law(given), found = mfbook.dirac(task, head);
        const { name, split, translation } = mfbook.verdict(found, 0.25);
        return [found.H, found.K, found.deviations, found.translations, mfbook.criticalRidge(task),
            split, translation, name === "splitting"];""", given(R, theta), [
        report.H - lam * eye, report.K, report.deviations - lam, report.translations - lam,
        *np.linalg.norm(R.at(zero).correlation(zero.atoms), 2, (1, 2)),
        report.split_rate, report.translation_rate, report.verdict == "splitting"]  # fmt: skip


def ring():
    rng = np.random.default_rng(8)
    for units, (n, beta) in product((None, "relu", "gelu"), ((9, 0.05), (9, 300.0), (200, 20.0))):
        theta, a, omega = rng.uniform(0, 6, n), rng.uniform(0, 6, 2), rng.normal(size=2)
        theta[:3] = theta[0] + np.array([0, 0.3, 3.0]) / np.sqrt(beta + 1)
        w, grid = rng.dirichlet(np.ones(n)), np.arange(0, 6, 0.1)  # Z is tiny far from particles
        parts = () if units is None else (on_circle(a), omega, units)
        more = {} if units is None else {"a": list(a), "omega": list(omega), "activation": units}
        mu, x = Measure(on_circle(theta), w), on_circle(grid)
        for normalised in (False, True):
            F = mf.SphereEnergy(beta, *parts, normalised=normalised)
            u, field = ((F.velocity(on_circle(t), mu) * on_circle(t + np.pi / 2)).sum(axis=1)
                        for t in (theta, grid))  # fmt: skip
            gap = mf.frank_wolfe_gap(F, mu, 0).found
            same = {"beta": beta, "normalised": normalised, **more}
            inputs = {"F": same, "theta": theta, "w": w, "grid": grid}
            yield """return [ring.energy(F, theta, w), ring.firstVariation(F, theta, w, grid),
                ring.velocity({ ...F, ascent: true }, theta, w), ring.velocity(F, theta, w, grid),
                ring.step(F, theta, w, 0.5), ring.gap(F, theta, w).gap];""", inputs, [
                F(mu), F.first_variation(x, mu), u, -field, theta - 0.5 * u, gap]  # fmt: skip


def flows():
    """Trajectories: 1e-6 relative is asked of them."""
    rng, shape, times = np.random.default_rng(6), mf.HeadShape(3, 2, 2), np.linspace(0, 20, 6)
    R = teacher_student(shape, heads=2, sequences=4, tokens=4, vocabulary=4, scale=2.0, rng=1)
    R, start, tight = R.risk(shape), rng.normal(size=(4, 24)), {"solver": mf.Adaptive(1e-10, 1e-12)}
    heads = mf.gradient_flow(R + mf.Ridge(0.02), Measure(start), times, **tight).atoms
    F, x = mf.SphereEnergy(4.0, on_circle(np.array([2.0])), [0.8], "gelu"), rng.uniform(0, 6, 12)
    circle = flow(F.field(), Measure(on_circle(x)), times, F.space, **tight).atoms[:, :, 0]
    coin = mf.AttentionRisk([[[1.0]]], [[[0.5, 0.5]]], [[1.0, -1.0]], mf.HeadShape(1, 1, 1))
    falls = mf.gradient_flow(coin, Measure([[0, 0, 2, 0.5]]), times, **tight).value - np.log(2)
    inputs = {**given(R, start), "x": x, "times": times}
    yield """const [task, y] = law(given), tight = { rtol: 1e-9, atol: 1e-11 };
        const f = mfbook.velocity(task, { lambda: 0.02 }), run = mfbook.stepper(f, y, tight);
        const F = { beta: 4, a: [2], omega: [0.8], activation: "gelu" };
        const way = (f, y) => mfbook.integrate(f, y, times, tight).y.map((z) => Array.from(z));
        const head = way(oneHead.velocity, [2, 0.5]), along = (f) => head.map(([a, b]) => f(a, b));
        run.advance(7), run.advance(20);
        return [way(f, y), run.y, mfbook.rk4(f, y, 0.05, 400),
            way((x, out) => out.set(ring.velocity(F, x)), x).map((z) => z.map(Math.cos)),
            along(oneHead.energy), along(oneHead.conserved)];""", inputs, [
        heads, heads[-1], heads[-1], circle, falls, np.full(6, 3.75)]  # fmt: skip


def counts():
    rng = np.random.default_rng(9)
    for n, beta, cap in product((1, 2, 7, 40, 300), (0.01, 4.0, 50.0), (True, False)):
        theta = rng.uniform(-7, 7, n)
        theta[: n // 2] = theta[0] + 0.01 * rng.normal(size=n // 2)
        reach = Explicit(cap=cap).threshold(beta, 2)
        for rule in ("arcs", "single"):
            known = clusters(on_circle(theta), threshold=reach, linkage=rule)
            parts = {"theta": theta, "beta": beta, "cap": cap, "rule": rule}
            yield """const reach = ring.threshold(beta, cap);
                const { count, labels, masses } = ring.clusters(theta, undefined, reach, rule);
                return [reach, count, masses.sort((p, q) => p - q), new Set(labels).size];
                """, parts, [reach, known.count, np.sort(known.masses), known.count]  # fmt: skip


def plans():
    rng = np.random.default_rng(10)
    for dim, n, m in ((1, 5, 5), (1, 6, 4), (2, 5, 5), (2, 8, 8)):
        x, y = rng.normal(size=(n, dim)), rng.normal(size=(m, dim)) + 1
        w = {} if n == m else {"a": rng.dirichlet(np.ones(n)), "b": rng.dirichlet(np.ones(m))}
        mu, nu = Measure(x, w.get("a")), Measure(y, w.get("b"))
        way, both = displacement(mu, nu, 0.3), mf.mixture(mu, nu, 0.3)
        yield """const plan = transport.plan(x, given.a, y, given.b);
            const way = transport.displacement(plan, x, y, 0.3);
            const both = transport.mixture(x, given.a, y, given.b, 0.3);
            return [transport.distance(plan, x, y), ...[way, both].flatMap(Object.values)];
            """, {"x": x, "y": y, **w}, [
            mf.wasserstein(mu, nu), way.weights, way.atoms, both.atoms, both.weights]  # fmt: skip


def networks():
    rng = np.random.default_rng(8)
    x, y, neurons, w = rng.normal(size=7), rng.normal(size=7), rng.normal(size=(4, 2)), [0.25] * 4
    law = Measure(np.column_stack([neurons, np.zeros(4)]), w)  # without offsets
    body = "return [mfbook.networkLoss(x, y, neurons), mfbook.networkLoss(x, y, neurons, w)];"
    loss = TwoLayerRisk(x[:, None], y)(law)
    yield body, {"x": x, "y": y, "neurons": neurons, "w": w}, [loss, loss]


@pytest.mark.parametrize("group", [layer, bounds, dirac, ring, flows, counts, plans, networks])
def test_it_is_the_mathematics_of_the_package(run, group):
    errors = [
        error(*pair)
        for body, inputs, expected in group()
        for pair in zip(run(body, **inputs), expected, strict=True)
    ]
    assert max(errors) < (1e-6 if group is flows else 1e-10)


def test_a_head_is_moved_by_the_least_change(run):
    rng, inputs = np.random.default_rng(12), dict(next(layer())[1])
    A, x, target = rng.normal(size=(2, 6)), rng.normal(size=6), np.array([1.0, -2.0])
    straight, reads = run("""const times = (x) => A.map((row) =>
            row.reduce((sum, a, i) => sum + a * x[i], 0)), [task, heads] = law(given);
        const { attention, features } = mfbook;
        const read = (x) => [attention(task, x, 0, 1)[5], features(task, x)[8]];
        const head = heads.slice(0, task.D), moved = mfbook.reach(read, head, [0.3, 1.5]);
        return [mfbook.reach(times, x, target), read(moved)];""",
        **{**inputs, "A": A, "x": x, "target": target})  # fmt: skip
    assert error(straight, x + np.linalg.pinv(A) @ (target - A @ x)) < 1e-8
    assert error(reads, [0.3, 1.5]) < 1e-8


def test_large_numbers_stay_finite(run):
    rng, shape = np.random.default_rng(11), mf.HeadShape(2, 1, 1)
    X, Y = 300 * rng.normal(size=(1, 3, 2)), np.eye(2)[[[0, 1, 0]]]
    R, mu = mf.AttentionRisk(X, Y, 100 * np.eye(2), shape), Measure(rng.normal(size=(2, 8)))
    value, gradient, large, u = run("""const [task, heads] = law(given);
        const local = mfbook.at(task, heads), F = { beta: 1e4, normalised: true, ascent: true };
        return [local.value, mfbook.forces(task, local, heads).gradient, mfbook.logCosh(1e4),
            ring.velocity(F, [0, 3], [1, 0])];""", **given(R, mu.atoms))  # fmt: skip
    assert np.abs(R.logits(mu)).max() > 1e4 and large == pytest.approx(1e4 - np.log(2))
    assert error(value, R(mu)) < 1e-10 and error(gradient, R.gradient(mu.atoms, mu)) < 1e-10
    assert u[1] == pytest.approx(-np.sin(3))  # the pull of the nearest particle
