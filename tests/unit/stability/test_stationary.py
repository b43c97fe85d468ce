"""A head brought to rest: where the gradient vanishes, and what is said where none is found."""

import numpy as np
import pytest
from examples import Energy, symmetric
from reference import make, measure

from mfbook.confinement import Anchor, Ridge
from mfbook.functional import Functional
from mfbook.measure import Measure
from mfbook.space import Ball
from mfbook.sphere import SphereEnergy
from mfbook.stability import dirac_stability, stationary_head


@pytest.mark.parametrize("seed", range(3))
def test_the_end_is_stationary_and_lower(seed):
    R, _ = make(seed)
    F = R + Ridge(0.05)
    start = measure(seed, 1, R.shape).atoms[0]
    end = stationary_head(F, start)
    assert end.converged and end.gradient_norm < 1e-7
    slope = F.gradient(end.theta[None], Measure.dirac(end.theta))
    assert np.linalg.norm(slope) == pytest.approx(end.gradient_norm, abs=1e-12)
    assert end.value == F(Measure.dirac(end.theta)) < F(Measure.dirac(start))
    dirac_stability(F, end.theta)  # does not refuse it
    with pytest.raises(ValueError, match="^theta: .*stationary_head"):
        dirac_stability(F, start)


def test_an_exact_end():
    end = stationary_head(Anchor(0.5, [1.0, -2.0, 0.0]), np.zeros(3))
    np.testing.assert_allclose(end.theta, [1.0, -2.0, 0.0], atol=1e-12)
    E = SphereEnergy(3.0, [[1.0, 0.0, 0.0]], [1.0], "gelu")
    up = stationary_head(-E, [0.6, 0.8, 0.0])
    assert up.converged and up.theta == pytest.approx([1.0, 0.0, 0.0], abs=1e-7)


class Slope(Functional):
    """A plane: no point is stationary, and a descent never ends."""

    def at(self, mu):
        return Line(mu)


class Line:
    def __init__(self, mu):
        self.value = (mu.weights @ mu.atoms)[0]

    def first_variation(self, x):
        return x[:, 0]

    def gradient(self, x):
        return np.eye(x.shape[1])[:1] + 0 * x


def test_what_does_not_converge_says_so():
    end = stationary_head(Slope(), [1.0, 2.0], maxiter=3)
    assert not end.converged and end.gradient_norm == 1.0
    # on the boundary of a ball nothing more is allowed: it rests there
    pulled = stationary_head(Energy(np.zeros((2, 2)), -np.eye(2), Ball(1.0, (2,))), [0.3, 0.4])
    assert pulled.converged and np.linalg.norm(pulled.theta) == pytest.approx(1.0, abs=1e-6)


def test_arguments():
    F = Energy(symmetric(np.random.default_rng(0), 2), np.eye(2), Ball(1.0, (2,)))
    for name, arguments in (
        ("start", ([2.0, 0.0],)), ("start", ([[0.1, 0.2]],)), ("tolerance", ([0.1, 0.2],)),
        ("maxiter", ([0.1, 0.2],)),
    ):  # fmt: skip
        options = {} if name == "start" else {name: 0}
        with pytest.raises(ValueError, match=f"^{name}:"):
            stationary_head(F, *arguments, **options)
