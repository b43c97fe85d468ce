r"""Run the flow on the sphere until it has settled: the source's protocol, and a stiff integrator.

The source stops a run when three things hold at a snapshot: the number of clusters has been the
same for five snapshots, no two particles of a cluster are farther apart than the threshold, and no
particle is faster than 1e-4. On the circle its clusters are arcs, for which the second always
holds; in higher dimension they are chains of neighbours, for which it need not. The rule is a
statement about the run, not about a limit: what has stopped may move on much later
(metastability).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mfbook import _progress
from mfbook import _validate as validate
from mfbook.measure import Measure
from mfbook.sphere.clusters import (
    Clusters,
    barycentres,
    check_linkage,
    default_threshold,
    group,
    link,
)
from mfbook.sphere.energy import SphereEnergy

__all__ = ["Explicit", "Settled", "Stiff", "settle"]

#: Least time from one snapshot to the next with the stiff integrator, as with steps of 0.1.
APART = 1.0
#: Longest stiff step as a part of the time so far, so that times are known to this accuracy.
LONGEST = 0.25


@dataclass(frozen=True)
class Stiff:
    r"""Stiff steps whose length an error estimate chooses (:class:`mfbook.flow.Rosenbrock`).

    Snapshots are at the ends of steps at least 1 apart, and particles are merged on the way. Steps
    are at most a quarter of the time so far (or 1), so a change is dated to that accuracy only; and
    at most 1 where nothing but constant numbers of clusters is missing.

    - ``tolerance``: Largest speed of a settled state.
    - ``horizon``: Time at which a run ends that has not settled.
    - ``atol``: Root mean square, over all coordinates, of the error of a step. A relative tolerance
      would depend on the axes.
    - ``window``: Snapshots with the same number of clusters.
    - ``threshold``: Of clusters, in radians. Default: that of :func:`mfbook.sphere.clusters` for
      ``F.beta``.
    - ``linkage``: As in :func:`mfbook.sphere.clusters`. Default: that of the source, ``"arcs"`` on
      the circle and ``"single"`` in higher dimension. With ``"single"`` particles all around the
      circle are one wide cluster and never settle.
    - ``merge``: Particles connected by geodesic steps of at most this length in radians become one
      at their barycentre, projected on the sphere; the error in the velocities is of second order
      in it. 0 merges only what coincides.
    - ``most``: Steps after which a run ends. Default: none.
    """

    tolerance: float = 1e-4
    horizon: float = 2e4
    atol: float = 1e-3
    window: int = 5
    threshold: float | None = None
    linkage: str | None = None
    merge: float = 1e-8
    most: int | None = None

    def __post_init__(self):
        for name in ("tolerance", "horizon", "atol"):
            object.__setattr__(self, name, validate.positive(getattr(self, name), name))
        for name in ("window", "most"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, validate.count(getattr(self, name), name))
        if self.threshold is not None:
            threshold = validate.positive(self.threshold, "threshold")
            object.__setattr__(self, "threshold", threshold)
        merge = validate.positive(self.merge, "merge", allow_zero=True)
        object.__setattr__(self, "merge", merge)

    def rule(self, beta: float, d: int) -> tuple:
        """Threshold, linkage, tolerance and window of the stopping rule."""
        threshold = default_threshold(beta, d) if self.threshold is None else self.threshold
        if self.merge >= threshold:
            raise ValueError(
                f"merge: expected less than the threshold {threshold:g}, got {self.merge:g}"
            )
        linkage = ("arcs" if d == 2 else "single") if self.linkage is None else self.linkage
        return threshold, check_linkage(linkage, d), self.tolerance, self.window


@dataclass(frozen=True)
class Explicit:
    r"""Explicit steps of one length; the defaults are the rules of the second paper's program.

    A particle moves by ``step`` times its velocity, as an angle on the circle, else followed by a
    division by its length. Some of the rules are stated in the paper, others only in the program
    that is published with it: the cap of the threshold on the circle, and the two about repulsion
    without a perceptron. For it, d = 3, the program asks for no rule at all: it takes as many steps
    as the run with a perceptron beside it. That is ``most`` here, for who knows the number.

    - ``step``: Length of a step in time.
    - ``between``: Steps from one snapshot to the next.
    - ``window``: Snapshots with the same number of clusters, the start not among them.
    - ``tolerance``: Largest speed of a settled state.
    - ``reach``: Threshold of clusters, in radians, times :math:`\sqrt\beta`.
    - ``cap``: Whether the threshold is at most :math:`\pi/(2d)`.
    - ``most``: Steps after which a run ends that has not settled.
    - ``repelled``: The same for descent without a perceptron in more than three dimensions.
    - ``collapse``: Particles connected by geodesic steps of at most this length in radians become
      one at snapshots. The program does not do this; it saves time and changes positions by no
      more.
    """

    step: float = 0.1
    between: int = 10
    window: int = 5
    tolerance: float = 1e-4
    reach: float = 0.5
    cap: bool = True
    most: int = 200_000
    repelled: int = 1000
    collapse: float = 0.0

    def __post_init__(self):
        for name in ("step", "tolerance", "reach"):
            object.__setattr__(self, name, validate.positive(getattr(self, name), name))
        for name in ("between", "window", "most", "repelled"):
            object.__setattr__(self, name, validate.count(getattr(self, name), name))
        object.__setattr__(self, "cap", validate.flag(self.cap, "cap"))
        collapse = validate.positive(self.collapse, "collapse", allow_zero=True)
        object.__setattr__(self, "collapse", collapse)

    #: Particles of the result that are closer than this are one.
    merge = 1e-8

    def threshold(self, beta: float, d: int) -> float:
        """Largest geodesic distance of particles of one cluster, in radians."""
        reach = self.reach / math.sqrt(beta)
        return min(reach, math.pi / (2 * d)) if self.cap else reach

    def rule(self, beta: float, d: int) -> tuple:
        """Threshold, linkage, tolerance and window of the stopping rule."""
        linkage = "arcs" if d == 2 else "single"
        return self.threshold(beta, d), linkage, self.tolerance, self.window


@dataclass(frozen=True, eq=False)
class Settled:
    r"""Where a run has ended, and what was seen on the way.

    - ``t`` (n_t,): Times of the snapshots.
    - ``end``: The last state, coincident particles merged.
    - ``completed``: Whether the stopping rule holds at the end.
    - ``reason``: Why the run ended.
    - ``labels`` (N,): Atom of ``end`` that holds each particle of the start.
    - ``clusters``: Clusters of ``end``, with the linkage of the stopping rule.
    - ``value`` (n_t,): Energy E. With normalised attention and a perceptron it is no Lyapunov
      function.
    - ``speed`` (n_t,): Largest :math:`\|u\|` of all particles.
    - ``dissipation`` (n_t,): :math:`\int\|u\|^2d\mu`.
    - ``count`` (n_t,): Number of clusters.
    - ``recorded`` (n_r,): Snapshots with positions.
    - ``atoms`` (n_r, N, d): Positions of all particles of the start at ``t[recorded]``.
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

    def __post_init__(self):
        arrays = ("labels", "t", "value", "speed", "dissipation", "count", "recorded", "atoms")
        for name in arrays:
            object.__setattr__(self, name, validate.frozen(getattr(self, name)))

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
    ``window`` of them, no two particles of a cluster are farther apart than the threshold, and
    :math:`\max_i\|u(x_i;\mu)\|` is at most ``tolerance``.

    - ``F``: Its field u is normalised if F is.
    - ``mu``: Start, of unit vectors.
    - ``solver``: How particles move, and the numbers of the rule. Default: ``Stiff()``;
      ``Explicit()`` is the second paper's program.
    - ``ascent``: Whether to move along +u rather than -u.
    - ``record``: Keep positions at every ``record``-th snapshot, and at the last. Default: none.
    - ``progress``: Show a progress bar; it is full if the run does not settle. Default: after two
      seconds, on a terminal or in a notebook.

    Examples
    --------
    Attention pulls three particles together:

    >>> angle = np.array([0.0, 0.5, 1.5])
    >>> mu = Measure(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    >>> run = settle(SphereEnergy(1.0), mu, ascent=True)
    >>> run.completed, run.clusters.count, bool(run.speed[-1] <= 1e-4)
    (True, 1, True)

    By the rules of the second paper's program:

    >>> run = settle(SphereEnergy(1.0), mu, Explicit(), ascent=True)
    >>> run.completed, run.clusters.count
    (True, 1)
    """
    solver = Stiff() if solver is None else validate.instance(solver, "solver", (Stiff, Explicit))
    validate.instance(F, "F", SphereEnergy)
    F.at(mu)  # refuses what is not a measure on the sphere
    if np.iscomplexobj(mu.atoms):
        raise TypeError("mu: expected real atoms, got complex ones")
    ascent, record = validate.flag(ascent, "ascent"), validate.count(record, "record", least=0)
    run = _Run(F, mu, F.field(ascent), solver.rule(F.beta, mu.dim), record)
    free = not ascent and F.a is None and mu.dim > 3  # repulsion alone
    limit: Any = solver.most
    if free and isinstance(solver, Explicit):
        limit = min(limit, solver.repelled)
    bar = _progress.bar(
        progress, total=limit, unit="step",
        desc=f"{'ascent' if ascent else 'descent'} of {mu.size} particles",
    )  # fmt: skip
    with bar, np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        try:
            if isinstance(solver, Explicit):
                _explicit(run, solver, limit, bar)
            else:
                _stiff(run, solver, bar)
        except KeyboardInterrupt:
            if not run.rows:
                raise
            run.completed, run.reason = False, f"interrupted at t = {run.t:g}"
    run.merge(solver.merge)
    return run.result()


class _Run:
    """The particles, merged so far, and what has been seen of them."""

    def __init__(self, F, mu, field, rule, every):
        self.F, self.field, self.every = F, field, every
        self.threshold, self.linkage, self.tolerance, self.window = rule
        self.x, self.w = _unit(mu.atoms.astype(float)), mu.weights
        self.labels = np.arange(mu.size)
        self.t, self.steps, self.evaluations = 0.0, 0, 0
        self.rows, self.recorded, self.kept = [], [], []
        self.slow, self.completed, self.reason = False, False, ""

    def snapshot(self, u, bar) -> None:
        """Look at the state, at which the velocities are ``u``; note whether the rule holds."""
        count, _ = link(self.x, self.threshold, self.linkage)
        square = (u * u).sum(axis=1)
        speed = float(np.sqrt(square.max()))
        value = self.F.at(Measure(self.x, self.w)).value
        self.rows.append((self.t, value, speed, self.w @ square, count))
        if self.every and (len(self.rows) - 1) % self.every == 0:
            self._keep()
        counts = {row[-1] for row in self.rows[-self.window :]}
        self.slow = speed <= self.tolerance and self.clusters().within(self.x)
        if self.slow and len(self.rows) > self.window and len(counts) == 1:
            self.completed, self.reason = True, "the stopping rule holds"
        bar.set_postfix_str(f"t = {self.t:.4g}, speed {speed:.1e}, {count} clusters", False)
        bar.update(self.steps - bar.n)

    def clusters(self) -> Clusters:
        return group(self.x, self.w, self.threshold, self.linkage)

    def _keep(self):
        self.recorded.append(len(self.rows) - 1)
        self.kept.append(self.x[self.labels])

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
        if self.every and self.recorded[-1] != len(self.rows) - 1:
            self._keep()
        t, value, speed, dissipation, count = map(np.array, zip(*self.rows, strict=True))
        shape = (len(self.kept), len(self.labels), self.x.shape[1])
        return Settled(
            t, Measure(self.x, self.w), self.completed, self.reason, self.labels, self.clusters(),
            value, speed, dissipation, count, np.array(self.recorded, dtype=np.int64),
            np.reshape(self.kept, shape), self.steps, self.evaluations,
        )  # fmt: skip


def _unit(x):
    return x / np.sqrt(np.einsum("nd,nd->n", x, x))[:, None]


def _explicit(run, solver, limit, bar) -> None:
    """Explicit steps of fixed length."""
    circle, step = run.x.shape[1] == 2, solver.step
    while True:
        u = run.field.at_atoms(run.x, run.w)
        run.evaluations += 1
        if run.steps % solver.between == 0 or run.steps == limit:
            run.t = run.steps * step
            run.snapshot(u, bar)
            if run.completed:
                return
            if run.steps == limit:
                run.reason = "the horizon is reached"
                return
            run.x = _unit(run.x)  # rotations keep the length up to rounding only
            if solver.collapse and run.merge(solver.collapse):
                u = run.field.at_atoms(run.x, run.w)
        run.x = _rotate(run.x, step * u) if circle else _unit(run.x + step * u)
        run.steps += 1


def _rotate(x, v):
    """On the circle: add to each angle the tangential component of v."""
    turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    angle = np.einsum("nd,nd->n", turned, v)
    return np.cos(angle)[:, None] * x + np.sin(angle)[:, None] * turned


def _stiff(run, solver, bar) -> None:
    """Stiff steps; after each the particles are put back on the sphere."""
    rules, first, evaluations = solver, None, 0
    run.merge(rules.merge)
    while True:
        solver = _solver(run, rules.horizon, rules.atol, first)
        if first is None:
            run.snapshot(solver.f.reshape(run.x.shape), bar)
        last = run.t
        merged = False
        while not (run.completed or run.reason or merged):
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
                merged = not run.completed and run.merge(rules.merge)
        evaluations += solver.nfev
        run.evaluations = evaluations
        if run.completed or run.reason:
            return
        first = min(solver.h_abs, rules.horizon - run.t)


def _solver(run, horizon, atol, first):
    # here: with SciPy's solvers, a quarter of a second that only a computation needs
    from mfbook.flow.rosenbrock import Rosenbrock

    shape, w = run.x.shape, run.w

    def velocity(_, y):
        return run.field.at_atoms(_unit(y.reshape(shape)), w).ravel()

    def linearised(_, y):
        return _Flat(run.field.linearised(Measure(y.reshape(shape), w)), shape)

    return Rosenbrock(
        velocity, run.t, run.x.ravel(), horizon, linearised, rtol=0.0, atol=atol, first_step=first
    )


class _Flat:
    """A linearised system for the vectors of the integrator."""

    def __init__(self, linear, shape):
        self.linear, self.shape = linear, shape

    def solve(self, c, b):
        return self.linear.solve(c, b.reshape(self.shape)).ravel()
