r"""Run the flow on the sphere until it has settled: the source's protocol, and a stiff integrator.

On the circle the source's clusters are arcs, for which the second condition of its stopping rule
(see :func:`settle`) always holds; in higher dimension they are chains of neighbours, for which it
need not. The rule is a statement about the run, not about a limit: what has stopped may move on
much later (metastability).
"""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from mfbook import _validate as validate
from mfbook._work import bar as progress_bar
from mfbook.measure import Measure, check_measure
from mfbook.sphere import forces
from mfbook.sphere.clusters import Clusters, barycentres, default_threshold, group, link
from mfbook.sphere.energy import SphereEnergy

__all__ = ["Explicit", "Settled", "Stiff", "settle"]

#: Least time from one snapshot to the next with the stiff integrator, as with steps of 0.1.
APART = 1.0
#: Longest stiff step as a part of the time so far, so that times are known to this accuracy.
LONGEST = 0.25
#: Particles this close become one; the error in the velocities is of second order in it.
MERGE = 1e-8
#: Steps of the program for descent without a perceptron in more than three dimensions.
REPELLED = 1000


@dataclass(frozen=True)
class Stiff:
    r"""Stiff steps whose length an error estimate chooses (``mfbook.flow.rosenbrock``).

    Snapshots are at the ends of steps at least 1 apart, and particles are merged on the way. Steps
    are at most a quarter of the time so far (or 1), so a change is dated to that accuracy only; and
    at most 1 where nothing but constant numbers of clusters is missing.

    - ``tolerance``: Largest speed of a settled state.
    - ``horizon``: Time at which a run ends that has not settled.
    - ``atol``: Root mean square error of a step. A relative one would depend on the axes.
    - ``threshold``: Of clusters, in radians. Default: that of :func:`mfbook.sphere.clusters`.
    - ``most``: Steps after which a run ends. Default: none.
    """

    tolerance: float = 1e-4
    horizon: float = 2e4
    atol: float = 1e-3
    threshold: float | None = None
    most: int | None = None
    window: ClassVar[int] = 5

    def __post_init__(self):
        for name in ("tolerance", "horizon", "atol", "threshold"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, validate.positive(getattr(self, name), name))
        if self.most is not None:
            object.__setattr__(self, "most", validate.count(self.most, "most"))


@dataclass(frozen=True)
class Explicit:
    r"""Explicit steps of one length; the defaults are the rules of the second paper's program.

    A particle moves by ``step`` times its velocity, as an angle on the circle, else followed by a
    division by its length. Some of the rules are stated in the paper, others only in the program
    that is published with it: the cap of the threshold on the circle, and two about repulsion
    without a perceptron. For d > 3 it takes at most 1000 steps; for d = 3 it asks for no rule at
    all and takes as many steps as the run with a perceptron beside it: give that as ``most``.

    - ``between``: Steps from one snapshot to the next.
    - ``window``: Snapshots with the same number of clusters, the start not among them.
    - ``tolerance``: Largest speed of a settled state.
    - ``cap``: Whether the threshold is at most :math:`\pi/(2d)`.
    - ``most``: Steps after which a run ends that has not settled.
    - ``collapse``: Particles connected by geodesic steps of at most this length in radians become
      one at snapshots. The program does not do this; it saves time and moves them by no more.
    """

    step: float = 0.1
    between: int = 10
    window: int = 5
    tolerance: float = 1e-4
    cap: bool = True
    most: int = 200_000
    collapse: float = 0.0

    def __post_init__(self):
        keep = object.__setattr__
        for name in ("step", "tolerance"):
            keep(self, name, validate.positive(getattr(self, name), name))
        for name in ("between", "window", "most"):
            keep(self, name, validate.count(getattr(self, name), name))
        keep(self, "cap", validate.flag(self.cap, "cap"))
        keep(self, "collapse", validate.positive(self.collapse, "collapse", allow_zero=True))

    def threshold(self, beta: float, d: int) -> float:
        r"""Largest distance in one cluster, in radians: :math:`1/(2\sqrt\beta)`, capped."""
        reach = 0.5 / math.sqrt(beta)
        return min(reach, math.pi / (2 * d)) if self.cap else reach


@dataclass(frozen=True, eq=False)
class Settled:
    r"""Where a run has ended, and what was seen at its n_t snapshots.

    - ``t`` (n_t,), ``end``: Times; the last state, coincident particles merged.
    - ``completed, reason``: Whether the stopping rule holds at the end, and why the run ended.
    - ``labels`` (N,): Atom of ``end`` that holds each particle of the start.
    - ``clusters``: Clusters of ``end``; ``count`` (n_t,): their numbers on the way.
    - ``value, dissipation`` (n_t,): Energy E, and :math:`\int\|u\|^2d\mu`. With normalised
      attention and a perceptron E is no Lyapunov function.
    - ``speed`` (n_t,): Largest :math:`\|u\|` of all particles.
    - ``recorded`` (n_r,), ``atoms`` (n_r, N, d): Snapshots with positions, and these.
    - ``steps, evaluations``: Steps taken, and evaluations of the velocities.
    """

    t: np.ndarray
    end: Measure
    completed: bool
    reason: str
    labels: np.ndarray
    clusters: Clusters
    value: np.ndarray
    speed: np.ndarray
    dissipation: np.ndarray
    count: np.ndarray
    recorded: np.ndarray
    atoms: np.ndarray = field(repr=False)
    steps: int
    evaluations: int

    def __repr__(self) -> str:
        state = "settled" if self.completed else "not settled"
        return (
            f"Settled({state} at t = {self.t[-1]:.4g}: {self.reason}; {self.clusters.count} "
            f"clusters, speed {self.speed[-1]:.2g}, {self.steps} steps)"
        )


def settle(
    F: SphereEnergy,
    mu: Measure,
    solver: Stiff | Explicit | None = None,
    *,
    ascent: bool = False,
    record: int = 0,
    progress: bool | None = None,
) -> Settled:
    r"""Move particles along :math:`\dot x=\pm u(x;\mu)` until the stopping rule holds.

    The rule, at a snapshot after the start: the number of clusters has been the same for the last
    five of them (``window``), no two particles of a cluster are farther apart than the threshold,
    and :math:`\max_i\|u(x_i;\mu)\|` is at most ``tolerance``.

    - ``F, mu``: Its field u is normalised if F is; a start of unit vectors.
    - ``solver``: How particles move, and the numbers of the rule. Default: ``Stiff()``;
      ``Explicit()`` is the second paper's program.
    - ``ascent``: Whether to move along +u rather than -u.
    - ``record``: Keep positions at every ``record``-th snapshot, and at the last. Default: none.
    - ``progress``: Show a bar. Default: after two seconds, on a terminal or in a notebook.

    Attention pulls three particles together:

    >>> angle = np.array([0.0, 0.5, 1.5])
    >>> mu = Measure(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    >>> run = settle(SphereEnergy(1.0), mu, ascent=True)
    >>> run.completed, run.clusters.count, bool(run.speed[-1] <= 1e-4)
    (True, 1, True)
    """
    solver = Stiff() if solver is None else validate.instance(solver, "solver", (Stiff, Explicit))
    validate.instance(F, "F", SphereEnergy)
    F.at(check_measure(mu))  # refuses what is not on the sphere
    ascent, record = validate.flag(ascent, "ascent"), validate.count(record, "record", least=0)
    explicit = isinstance(solver, Explicit)
    run = _Run(F, mu, F.field(ascent), solver, record)
    limit: Any = solver.most
    if explicit and not ascent and F.a is None and mu.dim > 3:  # repulsion alone
        limit = min(limit, REPELLED)
    what = f"{'ascent' if ascent else 'descent'} of {mu.size} particles"
    bar = progress_bar(progress, total=limit, unit="step", desc=what)
    with bar, np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        try:
            _explicit(run, solver, limit, bar) if explicit else _stiff(run, solver, bar)
        except KeyboardInterrupt:
            if not run.rows:
                raise
            run.completed, run.reason = False, f"interrupted at t = {run.t:g}"
    run.merge(MERGE)
    return run.result()


class _Run:
    """The particles, merged so far, and what has been seen of them."""

    def __init__(self, F, mu, field, solver, every):
        self.F, self.field, self.solver, self.every = F, field, solver, every
        limit = solver.threshold
        if callable(limit):
            limit = limit(F.beta, mu.dim)
        self.threshold = default_threshold(F.beta, mu.dim) if limit is None else limit
        self.linkage = "arcs" if mu.dim == 2 else "single"
        self.x, self.w = _unit(mu.atoms.astype(float)), mu.weights
        self.labels = np.arange(mu.size)
        self.t, self.steps, self.evaluations = 0.0, 0, 0
        self.rows, self.kept = [], {}
        self.slow, self.completed, self.reason = False, False, ""

    def snapshot(self, u, bar) -> None:
        """Look at the state, at which the velocities are ``u``; note whether the rule holds."""
        count, _ = link(self.x, self.threshold, self.linkage)
        square = (u * u).sum(axis=1)
        speed = float(np.sqrt(square.max()))
        value = self.F.at(Measure(self.x, self.w)).value
        if self.every and len(self.rows) % self.every == 0:
            self.kept[len(self.rows)] = self.x[self.labels]
        self.rows.append((self.t, value, speed, self.w @ square, count))
        window = self.solver.window
        steady = len(self.rows) > window and len({row[-1] for row in self.rows[-window:]}) == 1
        self.slow = speed <= self.solver.tolerance and self.clusters().within(self.x)
        if self.slow and steady:
            self.completed, self.reason = True, "the stopping rule holds"
        bar.set_postfix_str(f"t = {self.t:.4g}, speed {speed:.1e}, {count} clusters", False)
        bar.update(self.steps - bar.n)

    def clusters(self) -> Clusters:
        return group(self.x, self.w, self.threshold, self.linkage)

    def merge(self, distance: float) -> bool:
        """Join particles that are close; whether there were any."""
        count, labels = link(self.x, distance)
        if count == len(self.x):
            return False
        self.x = _unit(barycentres(self.x, self.w, labels, count))
        self.w = np.bincount(labels, self.w, count)
        self.labels = labels[self.labels]
        return True

    def result(self) -> Settled:
        if self.every:
            self.kept.setdefault(len(self.rows) - 1, self.x[self.labels])
        t, value, speed, dissipation, count = map(np.array, zip(*self.rows, strict=True))
        shape = (len(self.kept), len(self.labels), self.x.shape[1])
        return Settled(
            t, Measure(self.x, self.w), self.completed, self.reason, self.labels, self.clusters(),
            value, speed, dissipation, count, np.array(list(self.kept), dtype=np.int64),
            np.reshape(list(self.kept.values()), shape), self.steps, self.evaluations,
        )  # fmt: skip


def _unit(x):
    return x / np.sqrt(np.einsum("nd,nd->n", x, x))[:, None]


def _explicit(run, solver, limit, bar) -> None:
    """Explicit steps of fixed length."""
    while True:
        u = run.field.at_atoms(run.x, run.w)
        run.evaluations += 1
        if run.steps % solver.between == 0 or run.steps == limit:
            run.t = run.steps * solver.step
            run.snapshot(u, bar)
            if not run.completed and run.steps == limit:
                run.reason = "the horizon is reached"
            if run.reason:
                return
            run.x = _unit(run.x)  # rotations keep the length up to rounding only
            if solver.collapse and run.merge(solver.collapse):
                u = run.field.at_atoms(run.x, run.w)
        v = solver.step * u
        run.x = _rotate(run.x, v) if run.x.shape[1] == 2 else _unit(run.x + v)
        run.steps += 1


def _rotate(x, v):
    """On the circle: add to each angle the tangential component of v."""
    turned = forces.turned(x)
    angle = np.einsum("nd,nd->n", turned, v)
    return np.cos(angle)[:, None] * x + np.sin(angle)[:, None] * turned


def _stiff(run, rules, bar) -> None:
    """Stiff steps; after each the particles are put back on the sphere."""
    first, last = None, 0.0
    run.merge(MERGE)
    while not run.reason:
        solver = _solver(run, rules, first)
        if first is None:
            run.snapshot(solver.f.reshape(run.x.shape), bar)
        merged = False
        while not (run.reason or merged):
            longest = APART if run.slow else max(APART, LONGEST * run.t)
            solver.h_abs = min(solver.h_abs, longest)
            message = solver.step()
            if solver.status == "failed":
                run.reason = f"the solver failed at t = {run.t:g}: {message}"
                break
            run.t, run.x = float(solver.t), _unit(solver.y.reshape(run.x.shape))
            solver.y = run.x.ravel()
            run.steps += 1
            if solver.status == "finished":
                run.reason = "the horizon is reached"
            elif run.steps == rules.most:
                run.reason = f"{rules.most} steps are done"
            if run.t - last >= APART or run.reason:
                last = run.t
                run.snapshot(solver.f.reshape(run.x.shape), bar)
                merged = not run.completed and run.merge(MERGE)
        run.evaluations += solver.nfev
        first = min(solver.h_abs, rules.horizon - run.t)


def _solver(run, rules, first):
    """The integrator from the present state on."""
    # here: with SciPy's solvers, a quarter of a second that only a computation needs
    from mfbook.flow.rosenbrock import Rosenbrock

    shape, w = run.x.shape, run.w

    def velocity(_, y):
        return run.field.at_atoms(_unit(y.reshape(shape)), w).ravel()

    def linearised(_, y):
        system = run.field.linearised(Measure(y.reshape(shape), w))
        return SimpleNamespace(solve=lambda c, b: system.solve(c, b.reshape(shape)).ravel())

    return Rosenbrock(
        velocity, run.t, run.x.ravel(), rules.horizon, linearised,
        rtol=0.0, atol=rules.atol, first_step=first,
    )  # fmt: skip
