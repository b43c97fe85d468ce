r"""Certificates of optimality: the Frank-Wolfe gap as a bracket, and head boosting.

The risk is convex along mixtures, so (Theorem 4.3, made quantitative)

.. math:: F(\mu)-\inf F\le\operatorname{gap}(\mu)=\int\frac{\delta F}{\delta\mu}d\mu
          -\min_\Theta\frac{\delta F}{\delta\mu}.

The minimum over heads is not convex. A search gives ``found``, a lower bound on the gap; a proof
gives ``rigorous``, an upper bound. Only ``rigorous`` certifies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._work import bar as progress_bar
from mfbook.functional import Functional, Minimum
from mfbook.measure import Measure, check_start, mixture
from mfbook.optimise.descent import descend, downhill

#: A descent ends where rounding ends it.
PRECISE = {"ftol": 1e-15, "gtol": 1e-10}
#: Relative rounding of both ends of a gap, which are sums.
ROUNDING = 1e-12

__all__ = ["Boosting", "Gap", "boost", "frank_wolfe_gap", "optimal_weights"]


@dataclass(frozen=True)
class Gap:
    """The Frank-Wolfe gap of a measure, bracketed.

    - ``found``: Gap with respect to the best point found: at most the true gap.
    - ``rigorous``: Proved upper bound on the true gap, so on ``F(mu) - inf F``; infinite where none
      is known. A bound that is wrong shows as ``rigorous < found``.
    - ``point`` (D,): The best point found; adding it to ``mu`` lowers F at the rate ``found``.
    - ``converged``: Whether every local search met its tolerance; no matter for ``rigorous``.
    """

    found: float
    rigorous: float
    point: np.ndarray = field(repr=False)
    converged: bool


def frank_wolfe_gap(F: Functional, mu: Measure, rng: validate.Seed, **options: Any) -> Gap:
    r"""Bracket the Frank-Wolfe gap :math:`\int\delta F\,d\mu-\min_\Theta\delta F` of a measure.

    For an attention risk on ``shape.ball(radius)``, alone or with a ``Ridge``, the minimum over
    (W_V, W_O) is in closed form, (W_Q, W_K) are searched (``starts``, ``pool``, ``maxiter``), and
    the rigorous end bounds the largest singular value for all of them (Chapter 4). For the energy
    on a sphere branch and bound proves it (``starts``, ``tolerance``, ``budget``; Appendix A). For
    any other functional atoms descend (``starts``, ``maxiter``), and nothing is proved.

    F is convex along mixtures and ``F.space`` compact; ``rng`` draws where the search starts.

    >>> from mfbook.sphere import SphereEnergy
    >>> gap = frank_wolfe_gap(SphereEnergy(1.0), Measure([[1.0, 0.0]]), rng=0)
    >>> bool(gap.found <= gap.rigorous < gap.found + 1e-6)
    True
    """
    validate.functional(F)
    rng, space = validate.generator(rng), F.space
    check_start(mu, space)
    local = F.at(mu)
    least = getattr(local, "minimise", lambda rng, **_: NotImplemented)(rng, **options)
    if least is NotImplemented:
        least = _search(local, mu, space, rng, **validate.options(options, _search))
    values = local.first_variation(mu.atoms)
    mean, own = mu.weights @ values, int(values.argmin())
    ends = (least.value, least.point), (values[own], mu.atoms[own])
    value, point = min(ends, key=lambda end: end[0])
    found, rigorous = max(float(mean - value), 0.0), float(mean - least.lower_bound)
    # rounding must not turn the bracket inside out, and a bound that is wrong must not be hidden
    rounding = ROUNDING * max(1.0, abs(float(mean)), abs(float(value)))
    if found - rounding <= rigorous < found:
        rigorous = found
    return Gap(found, rigorous, point, least.converged)


def _search(local, mu, space, rng, *, starts: int = 16, maxiter: int = 500) -> Minimum:
    """Descend from perturbed atoms, and prove nothing."""
    starts, maxiter = validate.count(starts, "starts"), validate.count(maxiter, "maxiter")
    x = mu.atoms[rng.choice(mu.size, size=starts, p=mu.weights)]
    noise = rng.normal(size=x.shape) * np.sqrt((x**2).mean() + 1e-3)
    x = space.retract(x, space.tangent(x, noise))

    def objective(x):
        return local.first_variation(x)[0], local.gradient(x)

    runs = descend(objective, space, x[:, None], maxiter=maxiter, **PRECISE)
    best = min(runs, key=lambda run: run.value)
    converged, evaluations = (r.converged for r in runs), (r.evaluations for r in runs)
    return Minimum(best.point[0], best.value, -np.inf, all(converged), sum(evaluations))


def optimal_weights(
    F: Functional, atoms: ArrayLike, start: ArrayLike | None = None, *, tolerance: float = 1e-12
) -> tuple[Measure, bool]:
    r"""Minimise :math:`w\mapsto F(\sum_iw_i\delta_{\theta_i})` over the simplex, atoms held fixed.

    SciPy's SLSQP from the weights ``start`` (default uniform), until F, convex along mixtures,
    improves by less than ``tolerance``. Returns all atoms with their optimal weights, many of them
    zero, and whether the solver succeeded.
    """
    validate.functional(F, methods=("at", "over_weights"))
    atoms = validate.array(atoms, "atoms", ("n", "D"))
    tolerance = validate.positive(tolerance, "tolerance")
    n = len(atoms)
    start = np.full(n, 1 / n) if start is None else validate.probabilities(start, "start", (n,))
    evaluate = F.over_weights(atoms)

    def objective(w):
        value, slope = evaluate(np.maximum(w, 0) / np.maximum(w, 0).sum())
        # the first variation is defined up to a constant: this one keeps F constant on rays
        return value, slope - w @ slope

    whole = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    run = scipy.optimize.minimize(
        objective, start, jac=True, method="SLSQP", bounds=[(0, 1)] * n, constraints=whole,
        options={"ftol": tolerance, "maxiter": 500},
    )  # fmt: skip
    w = np.maximum(run.x, 0)
    return Measure(atoms, w / w.sum()), bool(run.success)


@dataclass(frozen=True)
class Boosting:
    """The outcome of head boosting.

    - ``measure``: The last one, without atoms of zero weight.
    - ``value, found, rigorous, atoms`` (n,): F, both ends of the gap and the number of atoms with
      weight, before each round and at the end.
    - ``converged``: Whether the found gap fell below the tolerance; otherwise the rounds ran out.
    """

    measure: Measure
    value: np.ndarray = field(repr=False)
    found: np.ndarray = field(repr=False)
    rigorous: np.ndarray = field(repr=False)
    atoms: np.ndarray = field(repr=False)
    converged: bool


def boost(
    F: Functional,
    mu: Measure,
    rng: validate.Seed,
    rounds: int,
    *,
    tolerance: float = 1e-8,
    polish: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Boosting:
    r"""Head boosting: add the best head found, re-optimise all weights, repeat.

    Fully corrective Frank-Wolfe. Each round lowers F unless the search finds no better head; an
    interrupt (Ctrl-C) returns what has been reached.

    - ``rounds, tolerance``: Most heads to add; stop when the found gap is below.
    - ``polish``: Steps of descent on the positions after each correction (0: weights only).
    - ``progress``: Show a bar. Default: after two seconds, on a terminal or in a notebook.
    - ``**options``: Of the search, as for :func:`frank_wolfe_gap`.

    >>> from mfbook.sphere import SphereEnergy
    >>> F, mu = SphereEnergy(1.0), Measure([[1.0, 0.0]])
    >>> bool(F(boost(F, mu, rng=0, rounds=1).measure) < F(mu))
    True
    """
    rng, rounds = validate.generator(rng), validate.count(rounds, "rounds")
    tolerance = validate.positive(tolerance, "tolerance")
    polish = validate.count(polish, "polish", least=0)
    history, converged = [], False
    with progress_bar(progress, total=rounds, desc="boosting") as bar:
        try:
            for round_ in range(rounds + 1):  # pragma: no branch: the last round breaks
                gap = frank_wolfe_gap(F, mu, rng, **options)
                history.append((F(mu), gap.found, gap.rigorous, mu.size))
                bar.set_postfix(refresh=False, value=history[-1][0], gap=gap.found)
                converged = gap.found <= tolerance
                if converged or round_ == rounds:
                    break
                more = mixture(mu, Measure.dirac(gap.point), 1 / (mu.size + 1))
                mu = _weigh(F, more)
                if polish:
                    moved = downhill(F, mu, maxiter=polish, **PRECISE)
                    mu = _weigh(F, min(mu, moved, key=F))
                bar.update()
        except KeyboardInterrupt:
            if not history:
                raise
    value, found, rigorous, atoms = (np.array(column) for column in zip(*history, strict=True))
    return Boosting(mu, value, found, rigorous, atoms, converged)


def _weigh(F, mu: Measure) -> Measure:
    """With the best weights, and without atoms whose weight is negligible."""
    mu, _ = optimal_weights(F, mu.atoms, mu.weights)
    keep = mu.weights > 1e-9
    return Measure(mu.atoms[keep], mu.weights[keep] / mu.weights[keep].sum())
