r"""Stochastic gradient descent on M heads, as in equation (19)."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook._types import Seed
from mfbook.flow.learning_rate import LearningRate
from mfbook.flow.run import Run, fixed, shown
from mfbook.flow.trajectory import Trajectory
from mfbook.functional import Functional
from mfbook.measure import Measure

__all__ = ["sgd"]


def sgd(
    F: Functional,
    mu: Measure,
    times: ArrayLike,
    epsilon: float,
    rng: Seed,
    *,
    batch: int = 1,
    xi: LearningRate | Callable | None = None,
    progress: bool | None = None,
) -> Trajectory:
    r"""Stochastic gradient descent (19): every step sees fresh samples, shared by all atoms.

    .. math:: \begin{aligned}
              \theta_i^{n+1}&=\theta_i^n-2\varepsilon\,\xi(n\varepsilon)\,g_i^n,\\
              g_i^n&=\nabla\frac{\delta F_n}{\delta\mu}(\theta_i^n;\mu^n),\qquad
              F_n=\texttt{F.sample(rng, batch)}
              \end{aligned}

    For an attention risk a sample is ``batch`` sequences drawn with replacement, with their labels
    drawn from the soft labels; then :math:`\mathbb E[g_i^n\mid\text{past}]=G(\theta_i^n;\mu^n)`.
    Without noise the steps are those of ``gradient_flow(..., solver=Euler(epsilon))``. Weights may
    differ, and M equal atoms of weight 1/M move as one of weight one.

    - ``mu``, ``times`` (n_t,): State at the first of the increasing multiples of ``epsilon``.
    - ``xi``: Learning-rate profile. Default: rescaled time, the factor :math:`2\xi` is one.
    - ``progress``: Show a bar. Default: after two seconds, on a terminal or in a notebook.

    ``value`` and ``dissipation`` are those of F, not of the samples. What was computed is returned
    in any case, also when interrupted; a run in which F rises far above its start is given up.

    >>> from mfbook.confinement import Ridge
    >>> run = sgd(Ridge(1.0), Measure([[1.0]]), [0.0, 1.0], epsilon=0.25, rng=0)
    >>> float(run.end.atoms[0, 0]) == 0.75**4
    True
    """
    validate.functional(F, methods=("at", "sample"))
    epsilon, batch = validate.positive(epsilon, "epsilon"), validate.count(batch, "batch")
    rng = validate.generator(rng)
    run = Run(None, mu, times, F.space, xi, (), F, draw=lambda: F.sample(rng, batch))
    with shown(progress, f"descent of {run.mu.size} atoms") as bar:
        return fixed(run, "sgd", epsilon, bar, "epsilon")
