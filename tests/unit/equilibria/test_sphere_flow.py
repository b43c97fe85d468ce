"""Flows on the sphere: the stiff integrator, clusters, and runs until they have settled."""

import importlib
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.sparse.csgraph import connected_components

from mfbook.equilibria import Clusters
from mfbook.equilibria.clusters import clusters, link
from mfbook.equilibria.settle import settle
from mfbook.flow import flow, gradient_flow
from mfbook.flow.rosenbrock import Rosenbrock
from mfbook.measure import Measure
from mfbook.models.confinement import Ridge
from mfbook.models.sphere import SphereEnergy
from mfbook.space import Sphere

# the package gives its name to the function
settle_module = importlib.import_module("mfbook.equilibria.settle")

START = Measure([[1.0, 0.5], [-0.3, 2.0], [0.2, -0.7]], [0.5, 0.2, 0.3])
A = np.array([[-0.5, 1.0], [-1.0, -0.2]])
B = np.array([[0.1, 0.3], [-0.2, 0.4]])
EXACT = {"rtol": 1e-12, "atol": 1e-13}


class Dense:
    """Linear solver for a matrix, for vectors of any shape."""

    def __init__(self, J):
        self.J = np.atleast_2d(J)

    def solve(self, c, b):
        return np.linalg.solve(np.eye(len(self.J)) - c * self.J, b.ravel()).reshape(b.shape)


class Linear:
    """Every particle turns, and is drawn along by the mean; with its exact Jacobian."""

    uses = 10**9

    def __call__(self, x, mu):
        self.uses -= 1
        if self.uses < 0:
            raise KeyboardInterrupt
        return x @ A + mu.integrate(mu.atoms) @ B

    def linearised(self, mu):
        pulled = np.kron(np.ones((mu.size, 1)) * mu.weights, B.T)
        return Dense(np.kron(np.eye(mu.size), A.T) + pulled)


def linear_solution(mu, t):
    """Closed form: the mean solves m' = m (A + B), deviations from it solve y' = y A."""
    mean = mu.weights @ mu.atoms
    return (mu.atoms - mean) @ expm(t * A) + mean @ expm(t * (A + B))


def points(seed, n, d):
    """Uniform unit vectors."""
    return Sphere().sample(seed, n, d)


def on_circle(*angles):
    """Unit vectors at angles."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def energy(seed, beta, d=2, activation="gelu", **options):
    """An energy with d units drawn at random, as the source draws them."""
    rng = np.random.default_rng([seed, 7])
    return SphereEnergy(beta, points(rng, d, d), rng.normal(size=d), activation, **options)


def fixed_steps(field, mu, t, step, solve=None):
    """The pair with a fixed step; particles are put back on the sphere after each."""
    shape, w = mu.atoms.shape, mu.weights

    def measure(y):
        return Measure(Sphere().project(y.reshape(shape)), w)

    def velocity(_, y):
        state = measure(y)
        return field(state.atoms, state).ravel()

    def linearised(_, y):
        linear = field.linearised(measure(y))
        flat = type("Flat", (), {})()
        flat.solve = solve or (lambda c, b: linear.solve(c, b.reshape(shape)).ravel())
        return flat

    solver = Rosenbrock(
        velocity, 0.0, mu.atoms.ravel(), t, linearised, atol=1e9, first_step=step, max_step=step
    )
    while solver.status == "running":
        solver.step()
        solver.y = measure(solver.y).atoms.ravel()
    assert solver.status == "finished"
    return solver.y.reshape(shape)


# ---------------------------------------------------------------------------------------------
# the integrator


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("d", [2, 3])
def test_order_on_the_sphere(d, exact):
    """Order two with the Jacobian, and with zero in its place; normalised attention as well."""
    F = energy(1, 3.0, d, "tanh", normalised=d == 3)
    mu = Measure(points(2, 5, d), [0.1, 0.3, 0.2, 0.15, 0.25])
    field = F.field(ascent=True)
    end = flow(field, mu, [0, 2.0], F.space, **EXACT).end.atoms
    steps = 2 / np.array([16, 32, 64])
    solve = None if exact else lambda c, b: b
    errors = [np.abs(fixed_steps(field, mu, 2.0, h, solve) - end).max() for h in steps]
    slope, intercept = np.polyfit(np.log(steps), np.log(errors), 1)
    bend = np.abs(slope * np.log(steps) + intercept - np.log(errors)).max() / np.ptp(np.log(steps))
    # the next term of the expansion bends the line; the bend bounds the error of the slope
    assert abs(slope - 2) < 0.05 + 4 * bend and bend < 0.06


def test_error_estimate_is_of_third_order():
    """Steps chosen at two tolerances: their number grows with the power -1/3."""
    counts, errors = [], []
    for tolerance in (1e-5, 1e-8):
        run = flow(Linear(), START, [0, 3.0], method="rosenbrock", rtol=1e-13, atol=tolerance)
        counts.append(run.steps)
        errors.append(np.abs(run.end.atoms - linear_solution(START, 3.0)).max())
    assert counts[1] / counts[0] == pytest.approx(10, rel=0.3)
    assert errors[1] < errors[0] / 30 and errors[0] < 1e-3


def test_a_stiff_component_is_damped_at_once():
    """L-stability: the factor of one step vanishes as the rate grows, and large steps stay stable.

    An explicit pair would take millions of steps of 2.5 over the rate.
    """
    for rate in (1e3, 1e6, 1e9):
        solver = Rosenbrock(lambda t, y, r=rate: -r * y, 0.0, [1.0], 10.0,
                            lambda t, y, r=rate: Dense(-r), atol=1e9, first_step=1.0)  # fmt: skip
        solver.step()
        assert abs(solver.y[0]) < 20 / rate

    def slow(t, y):
        return np.array([-1e6 * (y[0] - np.cos(y[1])), 1.0])

    def linearised(t, y):
        return Dense([[-1e6, -1e6 * np.sin(y[1])], [0.0, 0.0]])

    run = solve_ivp(slow, (0, 10), [2.0, 0.0], method=Rosenbrock, linearised=linearised,
                    rtol=1e-4, atol=1e-6, dense_output=True)  # fmt: skip
    assert run.success and run.nfev < 2000 and run.njev <= run.nlu
    # the interpolant does not enlarge what is left of the stiff component
    t = np.linspace(1, 10, 301)
    assert np.abs(run.sol(t)[0] - np.cos(t)).max() < 1e-3


def test_stiff_flow_on_the_circle():
    """200 particles on their way to rest: an explicit solver stays at its limit of stability."""
    F, mu = energy(3, 50.0), Measure(points(4, 200, 2))
    stiff, explicit = (
        flow(F.field(), mu, [0, 100.0], F.space, method=m, rtol=1e-3, atol=1e-3, functional=F)
        for m in ("rosenbrock", "RK23")
    )
    assert stiff.completed and stiff.steps < explicit.steps / 2
    assert stiff.value[-1] == pytest.approx(explicit.value[-1], rel=1e-3)
    assert stiff.dissipation[-1] < 1e-6
    assert np.abs(np.linalg.norm(stiff.atoms, axis=2) - 1).max() < 1e-12


@pytest.mark.parametrize("d", [2, 3])
def test_gradient_flow_uses_the_linearisation_of_the_functional(d):
    F, mu = energy(5, 4.0, d), Measure(points(6, 8, d), np.arange(1, 9) / 36)
    for G in (F, -2 * F.on(Sphere())):
        run = gradient_flow(G, mu, [0, 0.5, 1.5], method="rosenbrock", rtol=1e-5, atol=1e-6)
        exact = gradient_flow(G, mu, [0, 0.5, 1.5])
        assert np.abs(run.atoms - exact.atoms).max() < 1e-3
        assert run.increase == 0 and run.completed and run.method == "rosenbrock"
        # the linearisation is the right one: a wrong sign or scale costs many steps
        far = gradient_flow(G, mu, [0, 1e4], method="rosenbrock", rtol=1e-3, atol=1e-4)
        assert far.completed and far.steps < 300


def test_methods_without_a_linearisation_are_refused():
    mu = Measure(points(0, 3, 2))
    plain = SphereEnergy(1.0)
    calls = [
        lambda: gradient_flow(Ridge(1.0), START, [0, 1.0], method="rosenbrock"),
        lambda: gradient_flow(plain + energy(0, 1.0), mu, [0, 1.0], method="rosenbrock"),
        lambda: flow(lambda x, m: -x, START, [0, 1.0], method="rosenbrock"),
        lambda: flow(lambda x, m: -x, START, [0.0], method="rosenbrock"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="^method: 'rosenbrock' needs a linearisation"):
            call()
    with pytest.raises(ValueError, match="^step: "):
        flow(Linear(), START, [0, 1.0], method="rosenbrock", step=0.1)


def test_dense_output_and_events():
    def crossing(t, mu):
        return mu.atoms[0, 0] - 0.2

    def end(t, mu):
        return t - 1.25

    end.terminal = True
    run = flow(Linear(), START, [0, 0.3, 2.0], method="rosenbrock", dense=True, rtol=1e-8,
               atol=1e-10, events=[crossing, end])  # fmt: skip
    assert run.completed and run.t.tolist() == [0.0, 0.3, pytest.approx(1.25, abs=1e-9)]
    assert np.abs(run.atoms[1] - linear_solution(START, 0.3)).max() < 1e-5
    for t in np.linspace(0, 1.25, 21):
        assert np.abs(run.at(t).atoms - linear_solution(START, t)).max() < 1e-5
    (hit,) = run.events[0]
    assert linear_solution(START, hit)[0, 0] == pytest.approx(0.2, abs=1e-5)


def test_interrupted_and_resumed_gives_the_same_bits(tmp_path):
    path, times = tmp_path / "run.npz", [0.0, 0.25, 1.0, 2.0]

    def run(uses, checkpoint=path):
        field = Linear()
        field.uses = uses
        return flow(field, START, times, method="rosenbrock", rtol=1e-5, atol=1e-7,
                    checkpoint=checkpoint)  # fmt: skip

    whole = run(10**9, None)
    for uses in range(0, whole.evaluations, 23):
        path.unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt):
            run(uses)
        again = run(10**9)
        assert np.array_equal(again.atoms, whole.atoms)
        assert (again.steps, again.evaluations) == (whole.steps, whole.evaluations)


class Scalar:
    """x' = f(x) for one particle on the line."""

    def __init__(self, f, slope):
        self.f, self.slope = f, slope

    def __call__(self, x, mu):
        return self.f(x)

    def linearised(self, mu):
        return Dense(self.slope(mu.atoms))


def test_failures_are_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, options = Measure([[1.0]]), {"method": "rosenbrock", "rtol": 1e-5}
        run = flow(Scalar(lambda x: -1 / x, lambda x: 1 / x**2), one, [0, 0.25, 1.0], **options)
        assert not run.completed and run.t.tolist() == [0.0, 0.25]
        assert run.reason.startswith("the solver failed at t = 0.5")
        assert "Required step size is less than spacing" in run.reason
        run = flow(Scalar(lambda x: x**2, lambda x: 2 * x), one, [0, 0.5, 9.0], **options)
        assert not run.completed and run.t.tolist() == [0.0, 0.5]
        assert run.reason.startswith(("the solver failed at t = 0.99", "left the range"))
    solver = Rosenbrock(lambda t, y: y + np.nan, 0.0, [1.0], 1.0, lambda t, y: Dense(1.0),
                        first_step=0.1)  # fmt: skip
    message = solver.step()
    assert solver.status == "failed" and "step size" in message


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("linearised", {"linearised": None}),
        ("t_bound", {"t_bound": -1.0}),
        ("norm", {"norm": "l1"}),
        ("max_step", {"max_step": 0.0}),
        ("rtol", {"rtol": 0.0, "atol": 0.0}),
        ("first_step", {"first_step": 2.0}),
        ("first_step", {"first_step": 0.0}),
    ],
)
def test_bad_arguments_of_the_integrator(name, options):
    good = {"t_bound": 1.0, "linearised": lambda t, y: Dense(0.0)}
    with pytest.raises((TypeError, ValueError), match=f"^{name}"):
        Rosenbrock(lambda t, y: y, 0.0, [1.0], **{**good, **options})


def test_both_norms_control_the_error():
    for norm in ("rms", "max"):
        solver = Rosenbrock(lambda t, y: -y, 0.0, [1.0, 0.0], 1.0, lambda t, y: Dense(-np.eye(2)),
                            rtol=1e-6, atol=1e-6, norm=norm, max_step=0.1)  # fmt: skip
        while solver.status == "running":
            solver.step()
            assert solver.step_size <= 0.1 + 1e-15
        assert solver.y == pytest.approx([np.exp(-1), 0], abs=1e-4)


# ---------------------------------------------------------------------------------------------
# clusters


def brute_force(x, threshold):
    """Components of the graph of all pairs within the threshold."""
    distance = 2 * np.arcsin(np.minimum(np.linalg.norm(x[:, None] - x, axis=2) / 2, 1))
    return connected_components(distance <= threshold, directed=False)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 70))
def test_single_linkage_against_all_pairs(seed, d, n):
    rng = np.random.default_rng(seed)
    centres, width = points(rng, 4, d), rng.choice([0.0, 0.03, 1.0])
    x = Sphere().project(centres[rng.integers(4, size=n)] + width * rng.normal(size=(n, d)))
    threshold = 10 ** rng.uniform(-3, 0.5)
    count, labels = brute_force(x, threshold)
    found = clusters(x, threshold=threshold)
    assert found.count == count and np.array_equal(found.labels, labels)
    assert found.masses == pytest.approx(np.bincount(labels) / n)
    if d == 2:  # the tree, on the circle inside a sphere
        flat = np.concatenate([x, np.zeros((n, 1))], axis=1)
        assert np.array_equal(link(flat, threshold)[1], labels)


def test_clusters_close_the_circle():
    x = on_circle(3.1, -3.1, 0.0, 0.2)
    found = clusters(x, threshold=0.25)
    assert found.count == 2 and found.labels.tolist() == [0, 0, 1, 1]
    assert found.centres == pytest.approx(on_circle(np.pi, 0.1))
    assert found.spread == pytest.approx([np.pi - 3.1, 0.1]) and found.tight
    assert found.widest == found.spread.max() and "2 within 0.25" in repr(found)
    assert clusters(x, threshold=0.15).count == 3
    assert clusters(on_circle(-np.pi, np.pi, 1.0), threshold=1e-9).count == 2


@pytest.mark.parametrize("d", [2, 3])
def test_rings_chains_and_single_particles(d):
    pad = np.zeros((40, d - 2))
    ring = np.concatenate([on_circle(*(2 * np.pi * np.arange(40) / 40)), pad], axis=1)
    whole = clusters(ring, threshold=0.16)
    assert whole.count == 1 and whole.spread[0] == np.pi and np.isnan(whole.centres).all()
    assert not whole.tight and not whole.within(ring)
    chain = clusters(ring[:20], threshold=0.16)  # one gap only
    assert chain.count == 1 and chain.spread[0] == pytest.approx(19 * np.pi / 40)
    assert not chain.within(ring[:20]) and clusters(ring, threshold=0.15).count == 40
    one = clusters(ring[:1], threshold=0.0)
    assert (one.count, one.masses.tolist(), one.spread[0]) == (1, [1.0], 0.0) and one.within(ring)
    pair = ring[[0, 20]]
    assert clusters(pair, threshold=3.0).count == 2
    both = clusters(pair, threshold=4.0)
    assert both.count == 1 and np.isnan(both.centres).all() and both.spread[0] == np.pi
    same = clusters(np.repeat(ring[:2], 15, axis=0), threshold=0.0)
    assert same.count == 2 and same.widest < 1e-15
    pairwise = clusters(ring[:3], threshold=0.3)  # spread 0.157 around the centre, 0.314 across
    assert pairwise.count == 1 and pairwise.tight and not pairwise.within(ring[:3])
    assert clusters(ring[:3], threshold=0.32).within(ring[:3])


def test_arcs_count_as_the_source_does():
    """A particle joins while it is within the threshold of its cluster's first."""
    x = on_circle(*(2 * np.pi * np.arange(40) / 40))
    found = clusters(x, threshold=0.32, linkage="arcs")
    assert found.count == 14 and found.widest <= 0.32 / 2 + 1e-12 and found.within(x)
    # from the largest gap on, whatever the origin of angles
    for turn in np.linspace(0, 6, 7):
        angles = turn + np.array([0.0, 0.1, 0.25, 0.3, 1.0, 1.15])
        assert clusters(on_circle(*angles), threshold=0.2, linkage="arcs").labels.tolist() == [
            0, 0, 1, 1, 2, 2
        ]  # fmt: skip
    assert clusters(x[:1], threshold=0.1, linkage="arcs").count == 1
    assert clusters(x, threshold=7.0, linkage="arcs").count == 1


def test_weights_permutations_and_rotations():
    rng = np.random.default_rng(8)
    for d in (2, 3):
        x = Sphere().project(points(rng, 3, d)[rng.integers(3, size=30)]
                             + 0.02 * rng.normal(size=(30, d)))  # fmt: skip
        w = rng.dirichlet(np.ones(30)) * (np.arange(30) % 3 > 0)
        mu = Measure(x, w / w.sum())
        found = clusters(mu, beta=9.0)
        assert found.masses.sum() == pytest.approx(1) and found.labels[0] == 0
        for k in range(found.count):
            mean = mu.weights[found.labels == k] @ x[found.labels == k]
            assert found.centres[k] == pytest.approx(mean / np.linalg.norm(mean))
        order = rng.permutation(30)
        other = clusters(Measure(x[order], mu.weights[order]), beta=9.0)
        same = found.labels[:, None] == found.labels
        assert np.array_equal(same[np.ix_(order, order)], other.labels[:, None] == other.labels)
        Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
        turned = clusters(Measure(Sphere().project(x @ Q), mu.weights), beta=9.0)
        assert np.array_equal(turned.labels, found.labels)
        assert turned.centres == pytest.approx(found.centres @ Q, abs=1e-12)
        assert turned.spread == pytest.approx(found.spread, abs=1e-12)
    empty = clusters(Measure(on_circle(0.0, 0.1, 3.0), [0.0, 0.0, 1.0]), threshold=0.5)
    assert empty.masses.tolist() == [0.0, 1.0]
    assert empty.centres[0] == pytest.approx(on_circle(0.05)[0])


def test_default_threshold_of_clusters():
    for d, beta, expected in ((2, 0.01, 5.0), (2, 25.0, 0.1), (3, 0.01, np.pi / 6), (3, 25.0, 0.1)):
        assert clusters(np.eye(d), beta).threshold == pytest.approx(expected)


X = on_circle(0.0, 1.0)
BAD_CLUSTERS = {
    "mu": [
        (lambda: clusters(2 * X, 1.0), ValueError),
        (lambda: clusters(Measure(2 * X), 1.0), ValueError),
        (lambda: clusters(Measure(X + 0j), 1.0), TypeError),
        (lambda: clusters(X[0], 1.0), ValueError),
        (lambda: clusters(np.ones((3, 1)), 1.0), ValueError),
        (lambda: clusters(X * np.nan, 1.0), ValueError),
    ],
    "threshold": [
        (lambda: clusters(X), ValueError),
        (lambda: clusters(X, 1.0, threshold=1.0), ValueError),
        (lambda: clusters(X, threshold=-1.0), ValueError),
        (lambda: clusters(X, threshold="1"), TypeError),
    ],
    "beta": [(lambda: clusters(X, 0.0), ValueError), (lambda: clusters(X, np.nan), ValueError)],
    "linkage": [
        (lambda: clusters(X, 1.0, linkage="complete"), ValueError),
        (lambda: clusters(np.eye(3), 1.0, linkage="arcs"), ValueError),
    ],
}


@pytest.mark.parametrize("name", BAD_CLUSTERS)
def test_bad_arguments_of_clusters(name):
    for call, error in BAD_CLUSTERS[name]:
        with pytest.raises(error, match=f"^{name}: "):
            call()


# ---------------------------------------------------------------------------------------------
# the source's protocol


def source_angles(theta, beta, a, omega, step, sign, n):
    """Explicit Euler on angles with all pairs and trigonometry, as it is usually written."""
    for _ in range(n):
        difference = theta[None, :] - theta[:, None]
        kernel = np.exp(beta * (np.cos(difference) - 1))
        u = (kernel * np.sin(difference)).mean(axis=1)
        for direction, size in zip(a, omega, strict=True):
            unit = np.maximum(direction @ [np.cos(theta), np.sin(theta)], 0)
            u = u + size * unit * (direction @ [-np.sin(theta), np.cos(theta)])
        theta = theta + sign * step * u
    return theta


@pytest.mark.parametrize("ascent", [True, False])
def test_euler_is_the_protocol_of_the_source(ascent):
    F = energy(9, 7.0, activation="relu")
    theta = np.random.default_rng(10).uniform(0, 2 * np.pi, 60)
    mu = Measure(on_circle(*theta))
    run = settle(F, mu, ascent=ascent, method="euler", horizon=4.0, record=1)
    assert run.steps == 40 and run.evaluations == 41
    assert run.times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] and not run.stopped
    assert run.reason == "the horizon is reached" and run.atoms.shape == (5, 60, 2)
    sign = 1 if ascent else -1
    for k, x in enumerate(run.atoms):
        angles = source_angles(theta, 7.0, F.a, F.omega, 0.1, sign, 10 * k)
        assert np.abs(x - on_circle(*angles)).max() < 1e-10
        assert run.value[k] == pytest.approx(F(Measure(x)), abs=1e-12)
        u = F.velocity(x, Measure(x))
        assert run.speed[k] == pytest.approx(np.linalg.norm(u, axis=1).max(), abs=1e-10)
        assert run.dissipation[k] == pytest.approx((u * u).sum() / 60, abs=1e-10)
        assert run.count[k] == clusters(x, 7.0, linkage="arcs").count


def test_euler_in_higher_dimension():
    F, mu = energy(11, 5.0, 3), Measure(points(12, 20, 3), np.full(20, 0.05))
    run = settle(F, mu, method="euler", step=0.05, horizon=1.0)
    x = mu.atoms
    for _ in range(20):
        x = Sphere().retract(x, -0.05 * F.velocity(x, Measure(x)))
    assert np.abs(run.measure.atoms - x).max() < 1e-12 and run.times.tolist() == [0.0, 0.5, 1.0]
    uneven = settle(F, mu, method="euler", horizon=1.4)
    assert uneven.times.tolist() == pytest.approx([0.0, 1.0, 1.4])


def test_the_rule_of_the_source():
    """Stopped at the first snapshot where all three conditions hold, and not before."""
    F, mu = energy(13, 5.0), Measure(points(14, 80, 2))
    run = settle(F, mu, ascent=True, method="euler")
    assert run.stopped and run.reason == "the stopping rule holds"
    constant = [len(set(run.count[k - 4 : k + 1])) == 1 for k in range(5, len(run.count))]
    holds = np.array(constant) & (run.speed[5:] <= 1e-4)
    assert holds[-1] and not holds[:-1].any()
    longer = settle(F, mu, ascent=True, method="euler", window=20)
    stricter = settle(F, mu, ascent=True, method="euler", tolerance=1e-8)
    assert len(longer.times) > 20 and stricter.speed[-1] <= 1e-8 < run.speed[-1]


def test_a_ring_is_many_arcs_but_one_chain():
    """Without a perceptron descent spreads particles evenly: single linkage never lets it stop."""
    F, mu = SphereEnergy(2.0), Measure(points(15, 100, 2))
    run = settle(F, mu)
    assert run.stopped and run.count[-1] > 10
    chain = settle(F, mu, linkage="single", horizon=500.0)
    assert not chain.stopped and chain.count[-1] == 1 and chain.speed[-1] < 1e-4
    assert chain.reason == "the horizon is reached" and chain.times[-1] == 500.0


# ---------------------------------------------------------------------------------------------
# settled states


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("ascent", [True, False])
@pytest.mark.parametrize(("d", "activation"), [(2, None), (2, "relu"), (2, "gelu"), (3, "relu")])
def test_energy_is_monotone_and_particles_stay_on_the_sphere(d, activation, ascent, normalised):
    if activation is None:
        F = SphereEnergy(5.0, normalised=normalised)
    else:
        F = energy(16, 5.0, d, activation, normalised=normalised)
    run = settle(F, Measure(points(17, 40, d)), ascent=ascent, horizon=300.0, record=1)
    assert np.abs(np.linalg.norm(run.atoms, axis=2) - 1).max() < 1e-12
    assert np.abs(np.linalg.norm(run.measure.atoms, axis=1) - 1).max() < 1e-12
    assert run.atoms.shape == (len(run.times), 40, d)
    if not normalised:  # with a perceptron it is not a gradient flow of E
        assert ((1 if ascent else -1) * np.diff(run.value)).min() > -1e-6
    assert run.speed[-1] < 1e-2


def compare(F, mu, **options):
    """Both methods stop with the same particles together, and the stiff one is cheaper."""
    slow, fast = (settle(F, mu, method=m, **options) for m in ("euler", "rosenbrock"))
    assert slow.stopped and fast.stopped
    assert fast.evaluations < slow.evaluations
    # two runs to 1e-4 stop at different times; wide clusters are then cut differently
    assert abs(fast.clusters.count - slow.clusters.count) <= 1
    apart = Sphere().distance(fast.measure.atoms[fast.labels], slow.measure.atoms[slow.labels])
    assert np.quantile(apart, 0.97) < 0.1 and np.median(apart) < 0.02
    assert fast.value[-1] == pytest.approx(slow.value[-1], rel=5e-3)
    return slow, fast


@pytest.mark.parametrize(
    ("activation", "ascent"), [("relu", True), ("gelu", True), ("gelu", False), (None, True)]
)
def test_both_methods_end_in_the_same_clusters(activation, ascent):
    F = SphereEnergy(5.0) if activation is None else energy(16, 5.0, activation=activation)
    slow, fast = compare(F, Measure(points(19, 60, 2)), ascent=ascent)
    assert fast.clusters.count == slow.clusters.count
    assert np.sort(fast.clusters.masses) == pytest.approx(np.sort(slow.clusters.masses), abs=0.05)


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("ascent", [True, False])
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_both_methods_agree_at_size(activation, ascent, d):
    if d == 3 and not ascent and activation != "gelu":
        return  # evenly spread particles are one chain; with ReLU neither is fast
    few = activation == "gelu" and not ascent  # Euler's method takes long
    mu = Measure(points(0, (200 if few else 500) if d == 2 else (50 if few else 100), d))
    for beta in (1.0, 10.0):
        F = SphereEnergy(beta) if activation is None else energy(20, beta, d, activation)
        compare(F, mu, ascent=ascent)


def test_merged_particles_carry_their_weight():
    F, mu = energy(21, 8.0), Measure(points(22, 30, 2))
    run = settle(F, mu, ascent=True, tolerance=1e-9)
    assert run.stopped and run.measure.size == run.clusters.count < 30
    masses = np.bincount(run.labels) / 30
    assert run.measure.weights == pytest.approx(masses)
    apart = settle(F, mu, ascent=True, tolerance=1e-9, merge=0.0)
    assert apart.clusters.count == run.clusters.count
    centres = apart.clusters.centres[apart.clusters.labels[apart.labels]]
    assert np.abs(run.measure.atoms[run.labels] - centres).max() < 1e-5


@pytest.mark.parametrize("method", ["rosenbrock", "euler"])
@pytest.mark.parametrize("ascent", [True, False])
def test_duplicates_are_weights(ascent, method):
    F, x = energy(23, 6.0), points(24, 12, 2)
    times = np.arange(12) % 3 + 1
    options = {"ascent": ascent, "method": method, "horizon": 20.0, "record": 1}
    twice = settle(F, Measure(np.repeat(x, times, axis=0)), **options)
    weighted = settle(F, Measure(x, times / times.sum()), **options)
    same = np.repeat(weighted.atoms, times, axis=1)
    assert np.abs(twice.atoms - same).max() < 1e-9
    assert twice.value == pytest.approx(weighted.value, abs=1e-10)


@pytest.mark.parametrize("d", [2, 3])
def test_permutation_and_rotation(d):
    F, x, rng = energy(25, 6.0, d), points(26, 15, d), np.random.default_rng(27)
    options = {"horizon": 10.0, "record": 1}
    run = settle(F, Measure(x), **options)
    order = rng.permutation(15)
    other = settle(F, Measure(x[order]), **options)
    assert np.abs(other.atoms - run.atoms[:, order]).max() < 1e-8
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    turned = SphereEnergy(6.0, Sphere().project(F.a @ Q), F.omega, "gelu")
    other = settle(turned, Measure(Sphere().project(x @ Q)), **options)
    assert np.abs(other.atoms - run.atoms @ Q).max() < 1e-8


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("method", ["rosenbrock", "euler"])
def test_few_particles(method, d):
    plain = SphereEnergy(2.0)
    x = points(28, 1, d)
    one = settle(plain, Measure(x), method=method)
    assert one.stopped and one.count.tolist() == [1] * 6
    assert np.abs(one.measure.atoms - x).max() < 1e-14
    for ascent in (True, False):
        pair = settle(plain, Measure(np.concatenate([x, -x])), ascent=ascent, method=method)
        assert pair.stopped and pair.count[-1] == 2 and pair.measure.size == 2
        assert pair.speed.max() < 1e-15 and pair.clusters.masses.tolist() == [0.5, 0.5]
    same = settle(plain, Measure(np.repeat(x, 5, axis=0)), method=method)
    assert same.stopped and same.measure.size == 1 and same.labels.tolist() == [0] * 5
    # one particle with a perceptron goes to the nearest maximum or minimum of v
    F = SphereEnergy(2.0, [np.eye(d)[0]], [1.0], "linear")
    up = settle(F, Measure(Sphere().project(x + 0.1)), ascent=True, method=method, tolerance=1e-8)
    assert np.abs(np.abs(up.measure.atoms[0, 0]) - 1) < 1e-12
    assert up.value[-1] == pytest.approx(0.25 + 0.5 * F.potential(np.eye(d)[:1])[0], abs=1e-10)


def test_particles_without_weight_are_carried_along():
    F, x = energy(29, 4.0), points(30, 10, 2)
    w = np.append(np.full(8, 0.125), [0.0, 0.0])
    ghosts = settle(F, Measure(x, w), horizon=20.0, record=1)
    exact = flow(F.field(), Measure(x, w), [0, ghosts.times[-1]], F.space, rtol=1e-9)
    assert np.abs(ghosts.atoms[-1] - exact.end.atoms).max() < 0.03
    assert np.abs(ghosts.atoms[-1, 8:] - x[8:]).max() > 0.05


@pytest.mark.parametrize("method", ["rosenbrock", "euler"])
@pytest.mark.parametrize("ascent", [True, False])
def test_extreme_temperatures(ascent, method):
    for beta in (1e-3, 1e4):
        F, mu = energy(31, beta), Measure(points(32, 40, 2))
        run = settle(F, mu, ascent=ascent, method=method, horizon=100.0)
        assert np.isfinite(run.value).all() and np.isfinite(run.measure.atoms).all()
        assert run.speed[-1] < run.speed[0]
        none = settle(SphereEnergy(beta), mu, ascent=ascent, method=method, horizon=20.0)
        assert np.isfinite(none.value).all() and none.measure.weights.sum() == pytest.approx(1)


def test_records_labels_and_the_last_snapshot():
    F, mu = energy(33, 5.0), Measure(points(34, 25, 2))
    run = settle(F, mu, ascent=True, record=4)
    n = len(run.times)
    assert run.recorded.tolist() == sorted({*range(0, n, 4), n - 1})
    assert np.abs(run.atoms[0] - mu.atoms).max() < 1e-15
    assert np.abs(run.atoms[-1] - run.measure.atoms[run.labels]).max() < 1e-7
    assert (np.diff(run.times) >= 1 - 1e-12).all()
    plain = settle(F, mu, ascent=True)
    assert plain.atoms.shape == (0, 25, 2) and len(plain.recorded) == 0
    assert np.array_equal(plain.value, run.value) and "settled at t" in repr(plain)
    for name in ("labels", "times", "value", "atoms"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(run, name)[...] = 0


def test_reasons(monkeypatch):
    F, mu = energy(35, 5.0), Measure(points(36, 25, 2))
    few = settle(F, mu, step=2.0, horizon=10.0)
    assert few.reason == "5 steps are done" and few.steps == 5 and not few.stopped
    assert "not settled" in repr(few)
    broken = type("Broken", (), {"solve": lambda self, c, b: b * np.nan})
    monkeypatch.setattr(settle_module, "_Flat", lambda *_: broken())
    failed = settle(F, mu)
    assert failed.reason.startswith("the solver failed at t = 0: ") and not failed.stopped
    assert np.abs(failed.measure.atoms - mu.atoms).max() < 1e-15


@pytest.mark.parametrize("method", ["rosenbrock", "euler"])
def test_interruption_is_not_a_result(method, monkeypatch):
    F, mu = SphereEnergy(5.0), Measure(points(37, 25, 2))
    calls = iter(range(20))

    def interrupted(self, *_):
        if next(calls) > 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(settle_module._Run, "snapshot", interrupted)
    with pytest.raises(KeyboardInterrupt):
        settle(F, mu, method=method)


def test_progress_on_demand(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # a narrow bar is cut off
    F, mu = SphereEnergy(5.0), Measure(points(38, 25, 2))
    settle(F, mu, ascent=True)
    assert capsys.readouterr().err == ""
    settle(F, mu, ascent=True, progress=True)
    settle(F, mu, method="euler", horizon=5.0, progress=True)
    shown = capsys.readouterr().err
    assert "ascent of 25 particles, rosenbrock" in shown and "clusters" in shown
    assert "descent of 25 particles, euler: 100%" in shown


F2, MU2 = SphereEnergy(5.0), Measure(points(39, 5, 2))
BAD_SETTLE = {
    "F": [(lambda: settle(Ridge(1.0), MU2), TypeError)],
    "mu": [
        (lambda: settle(F2, MU2.atoms), TypeError),
        (lambda: settle(F2, Measure(2 * MU2.atoms)), ValueError),
        (lambda: settle(F2, Measure(MU2.atoms + 0j)), TypeError),
        (lambda: settle(energy(0, 1.0, 3), MU2), ValueError),
    ],
    "ascent": [(lambda: settle(F2, MU2, ascent="up"), TypeError)],
    "method": [
        (lambda: settle(F2, MU2, method="RK45"), ValueError),
        (lambda: settle(F2, MU2, method=None), ValueError),
    ],
    "step": [
        (lambda: settle(F2, MU2, step=0.0), ValueError),
        (lambda: settle(F2, MU2, step="1"), TypeError),
    ],
    "horizon": [
        (lambda: settle(F2, MU2, horizon=-1.0), ValueError),
        (lambda: settle(F2, MU2, horizon=0.01), ValueError),
        (lambda: settle(F2, MU2, horizon=1e300), ValueError),
        (lambda: settle(F2, MU2, horizon=np.inf), ValueError),
    ],
    "tolerance": [(lambda: settle(F2, MU2, tolerance=0.0), ValueError)],
    "window": [
        (lambda: settle(F2, MU2, window=0), ValueError),
        (lambda: settle(F2, MU2, window=2.5), TypeError),
    ],
    "threshold": [(lambda: settle(F2, MU2, threshold=0.0), ValueError)],
    "linkage": [
        (lambda: settle(F2, MU2, linkage="complete"), ValueError),
        (lambda: settle(F2, Measure(np.eye(3)), linkage="arcs"), ValueError),
    ],
    "merge": [
        (lambda: settle(F2, MU2, merge=-1.0), ValueError),
        (lambda: settle(F2, MU2, merge=0.5), ValueError),
    ],
    "atol": [(lambda: settle(F2, MU2, atol=0.0), ValueError)],
    "record": [(lambda: settle(F2, MU2, record=-1), ValueError)],
}


@pytest.mark.parametrize("name", BAD_SETTLE)
def test_bad_arguments_of_settle(name):
    for call, error in BAD_SETTLE[name]:
        with pytest.raises(error, match=f"^{name}: "):
            call()


# ---------------------------------------------------------------------------------------------
# edges of clusters and of runs


def unit(x):
    return Sphere().project(np.asarray(x, float))


def ring_that_never_settles(n=5):
    """A stationary ring is one chain that is wider than the threshold."""
    mu = Measure(on_circle(*(2 * np.pi * np.arange(n) / n)))
    return {"F": SphereEnergy(1.0), "mu": mu, "linkage": "single", "threshold": 1.3}


def group_of(x, spread, threshold):
    """One cluster of all particles with a stated spread."""
    n = len(x)
    return Clusters(1, np.zeros(n, int), np.ones(1), x[:1], np.array([spread]), threshold)


def test_distances_within_a_cluster_are_exact():
    """Between any two of its particles, also when they are hardly apart."""
    close = on_circle(0.0, 1e-9)
    assert not group_of(close, 0.6e-9, 0.99e-9).within(close)
    assert group_of(close, 0.6e-9, 1.01e-9).within(close)
    # the first one is in the middle
    three = on_circle(0.0, -0.1, 0.1)
    assert not group_of(three, 0.11, 0.199).within(three)
    assert group_of(three, 0.11, 0.201).within(three)
    # a distance that is the threshold up to rounding is within it
    pair = on_circle(0.0, 0.3)
    assert group_of(pair, 0.2, 0.3 * (1 - 5e-13)).within(pair)
    assert not group_of(pair, 0.2, 0.3 * (1 - 1e-11)).within(pair)
    one = on_circle(0.7)
    assert group_of(one, 1e-16, 0.0).within(one)
    # antipodal particles are as far apart as any
    ends = on_circle(0.2, 0.2 + np.pi)
    assert group_of(ends, 2.0, np.pi).within(ends) and not group_of(ends, 2.0, 3.1).within(ends)


@pytest.mark.parametrize("d", [2, 3])
def test_centres_of_light_and_of_balanced_clusters(d):
    x = np.zeros((5, d))
    x[:, :2] = on_circle(0.0, 0.2, 2.0, 2.1, 4.0)
    for size in (1e-14, 1e-200, 1e-300, 2.0**-1070):
        w = np.array([size, 3 * size, 0.0, 0.0, 1.0])
        found = clusters(Measure(x, w), threshold=0.3)
        assert found.count == 3 and found.masses[0] == pytest.approx(4 * size, rel=1e-12)
        np.testing.assert_allclose(found.centres[0], unit(x[0] + 3 * x[1]), atol=1e-15)
        np.testing.assert_allclose(found.centres[1], unit(x[2] + x[3]), atol=1e-15)
    # the mean of two nearly opposite particles has half the angle between one and minus the other
    for angle, placed in ((3e-12, True), (1e-12, False)):
        pair = np.zeros((2, d))
        pair[:, 1], pair[0, 0], pair[1, 0] = angle / 2, 1.0, -1.0
        found = clusters(pair, threshold=4.0)
        assert np.isfinite(found.centres).all() == placed
        assert found.spread[0] == pytest.approx(np.pi / 2 if placed else np.pi, abs=1e-9)
    both = clusters(np.stack([x[0], -x[0]]), threshold=4.0)  # balanced exactly
    assert both.count == 1 and np.isnan(both.centres).all() and both.spread.tolist() == [np.pi]


@pytest.mark.parametrize("d", [2, 3])
def test_half_a_turn_reaches_everything(d):
    x = np.zeros((2, d))
    x[:, 0] = 1 + 1e-9, -1 - 1e-9
    assert clusters(x, threshold=np.pi).count == 1
    assert clusters(x, threshold=3.1).count == 2


@pytest.mark.parametrize("d", [3, 4])
def test_crowds_are_linked_by_one_pair(d):
    """Each crowd has more particles than the neighbours that are looked up at once."""
    rng = np.random.default_rng(d)
    # crowds of width 0.01, gaps of 0.1 between the first three, of 0.2 to the last
    angles = np.concatenate([at + 0.01 * rng.random(15) for at in (0.0, 0.1, 0.2, 0.4)])
    angles = np.append(angles, 0.3)
    x = np.zeros((len(angles), d))
    x[:, :2] = on_circle(*angles)
    order = rng.permutation(len(x))
    for threshold in (0.011, 0.095, 0.1, 0.15, 0.25):
        gaps = np.diff(np.sort(angles)) > threshold
        part = np.empty(len(x), int)
        part[np.argsort(angles)] = np.append(0, np.cumsum(gaps))
        found = clusters(x[order], threshold=threshold)
        count, labels = found.count, found.labels
        assert count == gaps.sum() + 1
        assert np.array_equal(labels[:, None] == labels, part[order][:, None] == part[order])
        assert labels[0] == 0 and np.array_equal(np.unique(labels), np.arange(count))


def test_neighbours_at_exactly_the_threshold():
    x = on_circle(0.0, np.pi / 2)
    assert clusters(x, threshold=np.pi / 2).count == 1
    assert clusters(x, threshold=np.pi / 2 * (1 - 1e-12)).count == 2
    assert clusters(x, threshold=np.pi / 2, linkage="arcs").count == 1
    corner = np.eye(3)
    assert clusters(corner, threshold=np.pi / 2).count == 1
    assert clusters(corner, threshold=np.pi / 2 * (1 - 1e-12)).count == 3
    same = np.repeat(corner[:1], 12, axis=0)
    assert clusters(np.concatenate([same, corner]), threshold=0.0).count == 3


def test_a_merger_keeps_the_barycentre():
    mu = Measure(on_circle(0.0, 1e-3, 2.0), [0.1, 0.3, 0.6])
    run = settle(SphereEnergy(1.0), mu, method="euler", step=1e-12, horizon=1e-12, merge=1e-2)
    np.testing.assert_allclose(
        run.measure.atoms, unit([mu.atoms[0] + 3 * mu.atoms[1], mu.atoms[2]]), atol=1e-11
    )
    np.testing.assert_allclose(run.measure.weights, [0.4, 0.6], rtol=1e-14)
    assert run.clusters.masses == pytest.approx([0.4, 0.6])


def test_limits_of_a_run():
    F, mu = SphereEnergy(1.0), Measure(on_circle(0.0, 1.0))
    assert settle(F, mu, method="euler", step=0.1, horizon=0.1).steps == 1
    assert settle(F, mu, method="euler", step=0.1, horizon=0.26).steps == 3
    assert settle(F, mu, method="euler", step=0.1, horizon=5.0, most=4).steps == 4
    assert settle(F, mu, method="euler", step=0.1, horizon=0.2, most=4).steps == 2
    with pytest.raises(ValueError, match="^horizon: "):
        settle(F, mu, step=0.1, horizon=0.04)
    with pytest.raises(ValueError, match="^horizon: "):
        settle(F, mu, step=1.0, horizon=2.0**53)
    with pytest.raises(ValueError, match="^horizon: "):
        settle(F, mu, step=0.1, horizon=2.0**53 / 5)
    with pytest.raises(ValueError, match="^merge: "):
        settle(F, mu, threshold=0.25, merge=0.25)
    assert settle(F, mu, threshold=0.25, merge=0.249, most=1).steps == 1
    most = settle(**ring_that_never_settles(), most=7)
    assert most.reason == "7 steps are done" and most.steps == 7 and not most.stopped


def test_stiff_steps_end_with_the_horizon_and_date_changes_to_a_quarter():
    """Nothing moves: snapshots are at least 1 and at most a quarter of the time apart."""
    run = settle(**ring_that_never_settles())
    assert not run.stopped and run.reason == "the horizon is reached" and run.times[-1] == 2e4
    gap, start = np.diff(run.times), run.times[:-1]
    assert (gap[:-1] >= 1 - 1e-12).all() and (gap < 1 + np.maximum(1, 0.25 * (start + 1))).all()
    assert (run.count == 1).all() and run.speed.max() < 1e-12


def test_particles_are_merged_on_the_way():
    mu = Measure(on_circle(0.0, 0.5, 1.5), [0.5, 0.2, 0.3])
    run = settle(SphereEnergy(1.0), mu, ascent=True, merge=1e-2, tolerance=1e-9, atol=1e-5)
    assert run.stopped and run.measure.size == 1 and run.labels.tolist() == [0, 0, 0]
    assert run.measure.weights.tolist() == pytest.approx([1.0])
    assert (np.diff(run.times) >= 1).all() and (np.diff(run.count) <= 0).all()
    twins = settle(SphereEnergy(1.0), Measure(on_circle(0.0, 0.0, 1.0)), ascent=True, horizon=3.0)
    assert twins.labels.tolist() == [0, 0, 1]
    assert twins.measure.weights.tolist() == pytest.approx([2 / 3, 1 / 3])
