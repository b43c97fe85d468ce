r"""Run the flow on the sphere until it has settled: the source's protocol, and a stiff integrator.

The source stops a run when three things hold at a snapshot: the number of clusters has been the
same for five snapshots, no two particles of a cluster are farther apart than the threshold, and no
particle is faster than 1e-4. On the circle its clusters are arcs, for which the second always
holds; in higher dimension they are chains of neighbours, for which it need not. The rule is a
statement about the run, not about a limit: what has stopped may move on much later
(metastability).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mfbook import _progress, flow
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
from mfbook.sphere.protocol import Protocol

__all__ = ["Settled", "settle"]

#: Euler steps from one snapshot to the next.
BETWEEN = 10
#: Least time from one snapshot to the next with the stiff integrator, as with Euler's step 0.1.
APART = 1.0
#: Longest stiff step as a part of the time so far, so that times are known to this accuracy.
LONGEST = 0.25


@dataclass(frozen=True, eq=False)
class Settled:
    r"""Where a run has ended, and what was seen on the way.

    - ``measure``: The last state, coincident particles merged.
    - ``labels`` (N,): Atom of ``measure`` that holds each particle of the start.
    - ``clusters``: Clusters of ``measure``, with the linkage of the stopping rule.
    - ``times`` (n_t,): Times of the snapshots.
    - ``value`` (n_t,): Energy E. With normalised attention and a perceptron it is no Lyapunov
      function.
    - ``speed`` (n_t,): Largest :math:`\|u\|` of all particles.
    - ``dissipation`` (n_t,): :math:`\int\|u\|^2d\mu`.
    - ``count`` (n_t,): Number of clusters.
    - ``recorded`` (n_r,): Snapshots with positions.
    - ``atoms`` (n_r, N, d): Positions of all particles of the start at ``times[recorded]``.
    - ``stopped``: Whether the stopping rule holds at the end.
    - ``reason``: Why the run ended.
    - ``steps, evaluations``: Steps taken, and evaluations of the velocities.
    """

    measure: Measure
    labels: np.ndarray
    clusters: Clusters
    times: np.ndarray
    value: np.ndarray
    speed: np.ndarray
    dissipation: np.ndarray
    count: np.ndarray
    recorded: np.ndarray
    atoms: np.ndarray = field(repr=False)
    stopped: bool
    reason: str
    steps: int
    evaluations: int
    method: str

    def __post_init__(self):
        arrays = ("labels", "times", "value", "speed", "dissipation", "count", "recorded", "atoms")
        for name in arrays:
            object.__setattr__(self, name, validate.frozen(getattr(self, name)))

    def __repr__(self) -> str:
        state = "settled" if self.stopped else "not settled"
        return (
            f"Settled({state} at t = {self.times[-1]:.4g}: {self.reason}; {self.clusters.count} "
            f"clusters, speed {self.speed[-1]:.2g}, {self.steps} steps, {self.method})"
        )


def settle(
    F: SphereEnergy,
    mu: Measure,
    *,
    ascent: bool = False,
    method: str = "rosenbrock",
    step: float = 0.1,
    horizon: float = 2e4,
    most: int | None = None,
    tolerance: float = 1e-4,
    window: int = 5,
    threshold: float | None = None,
    linkage: str | None = None,
    merge: float = 1e-8,
    atol: float = 1e-3,
    record: int = 0,
    progress: bool | None = None,
    protocol: Protocol | None = None,
) -> Settled:
    r"""Move particles along :math:`\dot x=\pm u(x;\mu)` until the stopping rule holds.

    The rule, at a snapshot after the start: the number of clusters has been the same for the last
    ``window`` of them, no two particles of a cluster are farther apart than the threshold, and
    :math:`\max_i\|u(x_i;\mu)\|` is at most ``tolerance``.

    - ``F``: Its field u is normalised if F is.
    - ``mu``: Start, of unit vectors.
    - ``ascent``: Whether to move along +u rather than -u.
    - ``method``: ``"euler"`` is the source's protocol: explicit steps of fixed length, a snapshot
      every 10 steps. On the circle a step adds ``step * u`` radians to the angle, in higher
      dimension a particle is divided by its length after the step. ``"rosenbrock"`` takes stiff
      steps of length chosen by an error estimate (:class:`mfbook.flow.Rosenbrock`), takes snapshots
      at the ends of steps at least 1 apart, and merges particles on the way. Its steps are at most
      a quarter of the time so far (or 1), so a change is dated to that accuracy only; and at most 1
      where nothing but constant numbers of clusters is missing.
    - ``step``: Length of Euler's steps.
    - ``horizon``: Time at which a run ends that has not settled.
    - ``most``: Steps after which it ends. Default: ``horizon / step``, for either method.
    - ``tolerance``: Largest speed of a settled state.
    - ``window``: Snapshots with the same number of clusters.
    - ``threshold``: Of clusters, in radians. Default: that of :func:`mfbook.sphere.clusters` for
      ``F.beta``.
    - ``linkage``: As in :func:`mfbook.sphere.clusters`. Default: that of the source, ``"arcs"`` on
      the circle and ``"single"`` in higher dimension. With ``"single"`` particles all around the
      circle are one wide cluster and never settle.
    - ``merge``: Particles connected by geodesic steps of at most this length in radians become one
      at their barycentre, projected on the sphere; the error in the velocities is of second order
      in it. Euler's method merges in the result only. 0 merges only what coincides.
    - ``atol``: Root mean square, over all coordinates, of the error of a stiff step. A relative
      tolerance would depend on the axes.
    - ``record``: Keep positions at every ``record``-th snapshot, and at the last. Default: none.
    - ``progress``: Show a progress bar; it is full if the run does not settle. Default: after two
      seconds, on a terminal or in a notebook.
    - ``protocol``: Rules of the run: Euler's method with all of them, instead of ``method``,
      ``step``, ``horizon``, ``most``, ``tolerance``, ``window``, ``threshold`` and ``linkage``,
      which are not given with it.

    Returns ``stopped`` says whether the rule holds; ``reason`` why the run ended.

    Examples
    --------
    Attention pulls three particles together:

    >>> angle = np.array([0.0, 0.5, 1.5])
    >>> mu = Measure(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    >>> run = settle(SphereEnergy(1.0), mu, ascent=True)
    >>> run.stopped, run.clusters.count, bool(run.speed[-1] <= 1e-4)
    (True, 1, True)

    By the rules of the second paper's program:

    >>> run = settle(SphereEnergy(1.0), mu, ascent=True, protocol=Protocol())
    >>> run.stopped, run.clusters.count, run.method
    (True, 1, 'euler')
    """
    given = (method, step, horizon, most, tolerance, window, threshold, linkage)
    if protocol is not None:
        validate.instance(protocol, "protocol", Protocol)
        if given != ("rosenbrock", 0.1, 2e4, None, 1e-4, 5, None, None):
            raise ValueError("protocol: expected no other rule with it, got some as arguments")
    validate.instance(F, "F", SphereEnergy)
    F.at(mu)  # refuses what is not a measure on the sphere
    if np.iscomplexobj(mu.atoms):
        raise TypeError("mu: expected real atoms, got complex ones")
    between, collapse = BETWEEN, 0.0
    if protocol is not None:
        method, step, window, tolerance = (
            "euler", protocol.step, protocol.window, protocol.tolerance,
        )  # fmt: skip
        between, collapse = protocol.between, protocol.collapse
        most = protocol.limit(mu.dim, ascent, F.a is not None)
        horizon, threshold = most * step, protocol.threshold(F.beta, mu.dim)
    if not isinstance(method, str) or method not in ("euler", "rosenbrock"):
        raise ValueError(f"method: expected 'euler' or 'rosenbrock', got {method!r}")
    step, horizon = validate.positive(step, "step"), validate.positive(horizon, "horizon")
    limit = int(round(horizon / step)) if horizon / step < 2**53 else 0
    if limit < 1:
        raise ValueError(
            f"horizon: expected 1 or more steps of {step} and below 2^53, got {horizon}"
        )
    limit = limit if most is None else min(limit, validate.count(most, "most"))
    if threshold is None:
        threshold = default_threshold(F.beta, mu.dim)
    else:
        threshold = validate.positive(threshold, "threshold")
    if linkage is None:
        linkage = "arcs" if mu.dim == 2 else "single"
    merge = validate.positive(merge, "merge", allow_zero=True)
    if merge >= threshold:
        raise ValueError(f"merge: expected less than the threshold {threshold:g}, got {merge:g}")
    rule = (
        threshold,
        check_linkage(linkage, mu.dim),
        validate.positive(tolerance, "tolerance"),
        validate.count(window, "window"),
    )
    atol = validate.positive(atol, "atol")
    run = _Run(F, mu, F.field(ascent), rule, validate.count(record, "record", least=0))
    bar = _progress.bar(
        progress, total=limit, unit="step",
        desc=f"{'ascent' if ascent else 'descent'} of {mu.size} particles, {method}",
    )  # fmt: skip
    with bar, np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        if method == "euler":
            _euler(run, step, limit, between, collapse, bar)
        else:
            _rosenbrock(run, horizon, limit, merge, atol, bar)
    run.merge(merge)
    return run.result(method)


class _Run:
    """The particles, merged so far, and what has been seen of them."""

    def __init__(self, F, mu, field, rule, every):
        self.F, self.field, self.every = F, field, every
        self.threshold, self.linkage, self.tolerance, self.window = rule
        self.x, self.w = _unit(mu.atoms.astype(float)), mu.weights
        self.labels = np.arange(mu.size)
        self.t, self.steps, self.evaluations = 0.0, 0, 0
        self.rows, self.recorded, self.kept = [], [], []
        self.slow, self.stopped, self.reason = False, False, ""

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
            self.stopped, self.reason = True, "the stopping rule holds"
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

    def result(self, method: str) -> Settled:
        if self.every and self.recorded[-1] != len(self.rows) - 1:
            self._keep()
        times, value, speed, dissipation, count = map(np.array, zip(*self.rows, strict=True))
        shape = (len(self.kept), len(self.labels), self.x.shape[1])
        return Settled(
            Measure(self.x, self.w), self.labels, self.clusters(),
            times, value, speed, dissipation, count,
            np.array(self.recorded, dtype=np.int64), np.reshape(self.kept, shape),
            self.stopped, self.reason, self.steps, self.evaluations, method,
        )  # fmt: skip


def _unit(x):
    return x / np.sqrt(np.einsum("nd,nd->n", x, x))[:, None]


def _euler(run, step, limit, between, collapse, bar) -> None:
    """Explicit steps of fixed length."""
    circle = run.x.shape[1] == 2
    while True:
        u = run.field.at_atoms(run.x, run.w)
        run.evaluations += 1
        if run.steps % between == 0 or run.steps == limit:
            run.t = run.steps * step
            run.snapshot(u, bar)
            if run.stopped:
                return
            if run.steps == limit:
                run.reason = "the horizon is reached"
                return
            run.x = _unit(run.x)  # rotations keep the length up to rounding only
            if collapse and run.merge(collapse):
                u = run.field.at_atoms(run.x, run.w)
        run.x = _rotate(run.x, step * u) if circle else _unit(run.x + step * u)
        run.steps += 1


def _rotate(x, v):
    """On the circle: add to each angle the tangential component of v."""
    turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    angle = np.einsum("nd,nd->n", turned, v)
    return np.cos(angle)[:, None] * x + np.sin(angle)[:, None] * turned


def _rosenbrock(run, horizon, limit, merge, atol, bar) -> None:
    """Stiff steps; after each the particles are put back on the sphere."""
    first, evaluations = None, 0
    run.merge(merge)
    while True:
        solver = _solver(run, horizon, atol, first)
        if first is None:
            run.snapshot(solver.f.reshape(run.x.shape), bar)
        last = run.t
        merged = False
        while not (run.stopped or run.reason or merged):
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
            elif run.steps == limit:
                run.reason = f"{limit} steps are done"
            if run.t - last >= APART or run.reason:
                last = run.t
                run.snapshot(solver.f.reshape(run.x.shape), bar)
                merged = not run.stopped and run.merge(merge)
        evaluations += solver.nfev
        run.evaluations = evaluations
        if run.stopped or run.reason:
            return
        first = min(solver.h_abs, horizon - run.t)


def _solver(run, horizon, atol, first) -> flow.Rosenbrock:
    shape, w = run.x.shape, run.w

    def velocity(_, y):
        return run.field.at_atoms(_unit(y.reshape(shape)), w).ravel()

    def linearised(_, y):
        return _Flat(run.field.linearised(Measure(y.reshape(shape), w)), shape)

    return flow.Rosenbrock(
        velocity, run.t, run.x.ravel(), horizon, linearised, rtol=0.0, atol=atol, first_step=first
    )


class _Flat:
    """A linearised system for the vectors of the integrator."""

    def __init__(self, linear, shape):
        self.linear, self.shape = linear, shape

    def solve(self, c, b):
        return self.linear.solve(c, b.reshape(self.shape)).ravel()
