"""What a function asks of SciPy, recorded: options, starts, results, slopes against differences."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Search:
    """One call of ``scipy.optimize.minimize`` with ``jac=True``."""

    start: np.ndarray
    value: float
    slope: float  # the derivative along a random direction, as stated
    difference: float  # the same from central differences
    options: dict
    run: object


def watch(monkeypatch, module, step=1e-6) -> list[Search]:
    """Record the searches of a module from now on."""
    seen, minimize = [], module.minimize

    def spy(objective, q, *, options, **others):
        rng = np.random.default_rng(len(seen))
        value, gradient = objective(q)
        direction = rng.normal(size=np.shape(q))
        up, down = (objective(q + s * step * direction)[0] for s in (1, -1))
        run = minimize(objective, q, options=options, **others)
        difference = (up - down) / (2 * step)
        slope = float(np.ravel(gradient) @ direction)
        seen.append(Search(np.array(q), float(value), slope, difference, options, run))
        return run

    monkeypatch.setattr(module, "minimize", spy)
    return seen
