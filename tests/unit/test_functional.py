"""Functionals: arithmetic, spaces, and a check that passes the right ones and no wrong one."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from reference import heads, make, measure, relative

from mfbook.attention import AttentionRisk
from mfbook.confinement import Anchor, Ridge
from mfbook.functional import Combination, Functional, check_functional
from mfbook.measure import Measure
from mfbook.space import Ball, Euclidean, Sphere

R, _ = make(0, k=1, v=1)
BALL = R.shape.ball(1.5)
INSIDE = Measure(BALL.sample(1, 4), [0.1, 0.2, 0.3, 0.4])
ON_BOUNDARY = INSIDE.map(lambda x: BALL.project(100 * x))


@dataclass(frozen=True)
class Interaction(Functional):
    """Squared length of the mean of x^2: nonlinear in the measure, smooth on every space."""

    space: object = Euclidean()

    def at(self, mu):
        mean = mu.integrate(mu.atoms**2)
        return SimpleNamespace(
            value=(mean**2).sum(),
            first_variation=lambda x: 2 * (x**2) @ mean,
            gradient=lambda x: 4 * x * mean,
        )


def same(right, *_):
    """No mistake."""
    return right


@dataclass(frozen=True)
class Planted(Functional):
    """A right functional with mistakes: each function gets the right answer and may spoil it."""

    F: Functional
    f: object = same  # of the value
    p: object = same  # of the first variation
    g: object = same  # of its gradient

    @property
    def space(self):
        return self.F.space

    def at(self, mu):
        local = self.F.at(mu)
        return SimpleNamespace(
            value=self.f(local.value, mu),
            first_variation=lambda x: self.p(local.first_variation(x), x),
            gradient=lambda x: self.g(local.gradient(x), x),
        )


# ---------------------------------------------------------------------------------------------
# check_functional


ROUND = Measure(Sphere().sample(2, 5, 3), [0.1, 0.2, 0.3, 0.4, 0.0])
RIGHT = {
    "attention": (R, INSIDE),
    "attention in a ball": (R.on(BALL), INSIDE),
    "attention on the boundary of a ball": (R.on(BALL), ON_BOUNDARY),
    "attention with ridge": (R + Ridge(0.3), INSIDE),
    "attention with anchor": (2 * R - Anchor(0.1, INSIDE.atoms[0]), INSIDE),
    "one head": (R, Measure.dirac(INSIDE.atoms[0])),
    "interaction": (Interaction(), INSIDE),
    "interaction on the sphere": (Interaction(Sphere()), ROUND),
    "interaction in a ball": (Interaction(Ball(1.0, (2, 1))), Measure([[0.6, 0.8, 0.5]])),
    "the normal part of a gradient does not matter": (
        Planted(Interaction(Sphere()), g=lambda g, x: g + 3 * x),
        ROUND,
    ),
    "zero, where errors are absolute": (0.0 * Ridge(1.0), INSIDE),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1])
def test_right_functionals_pass(name, seed):
    F, mu = RIGHT[name]
    result = check_functional(F, mu, seed)
    assert result.ok and result == check_functional(F, mu, np.random.default_rng(seed))
    assert result.complex_step_x < 1e-12 and result.complex_step_mu < 1e-12
    assert result.first_variation < 1e-8 and result.gradient < 1e-8


BY_GRADIENT, BY_VALUE = {"gradient", "complex_step_x"}, {"first_variation", "complex_step_mu"}
ALL_OF_GRADIENT = BY_GRADIENT | {"complex_step_mu"}
WRONG = {
    "gradient doubled": ({"g": lambda g, x: 2 * g}, ALL_OF_GRADIENT),
    "gradient wrong in one block": (
        {"g": lambda g, x: g * (np.arange(g.shape[1]) < g.shape[1] - 3)},
        ALL_OF_GRADIENT,
    ),
    "gradient that is not a number": ({"g": lambda g, x: g * np.nan}, ALL_OF_GRADIENT),
    "first variation of the wrong sign": (
        {"p": lambda p, x: -p},
        {"first_variation", *BY_GRADIENT},
    ),
    "first variation and gradient doubled": (
        {"p": lambda p, x: 2 * p, "g": lambda g, x: 2 * g},
        BY_VALUE,
    ),
    "first variation of another functional": (
        {"p": lambda p, x: p + (x**2).sum(axis=1)},
        {"first_variation", *BY_GRADIENT},
    ),
    "first variation through the real part": ({"p": lambda p, x: p.real}, {"complex_step_x"}),
    "value doubled": ({"f": lambda f, mu: 2 * f}, BY_VALUE),
    "value that forgets the weights": ({"f": lambda f, mu: R(Measure(mu.atoms))}, BY_VALUE),
    "value through abs": ({"f": lambda f, mu: np.abs(f)}, {"complex_step_mu"}),
    "value that is not a number": ({"f": lambda f, mu: f * np.nan}, BY_VALUE),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", [0, 1])
def test_wrong_functionals_fail_where_they_are_wrong(name, seed):
    mistake, expected = WRONG[name]
    result = check_functional(Planted(R, **mistake), INSIDE, seed)
    assert not result.ok
    errors = {field: getattr(result, field) for field in {*BY_VALUE, *BY_GRADIENT}}
    assert {field for field, error in errors.items() if not error <= 1e-3} == expected
    assert all(error < 1e-6 for field, error in errors.items() if field not in expected)


def test_errors_count_where_they_are_above_the_tolerance():
    boundary = Planted(R.on(BALL), g=lambda g, x: 1.1 * g)
    result = check_functional(boundary, ON_BOUNDARY, 0)
    assert not result.ok and result.gradient > 1e-3
    assert check_functional(boundary, ON_BOUNDARY, 0, tolerance=0.2).ok
    assert not check_functional(R, INSIDE, 0, tolerance=1e-20).ok
    for size in (1e-9, 1e9):  # relative to the size of the functional
        doubled = check_functional(Planted(size * R, g=lambda g, x: 2 * g), INSIDE, 0)
        assert 0.1 < doubled.gradient < 10


# ---------------------------------------------------------------------------------------------
# arithmetic and spaces


def test_combinations_are_linear():
    mu, x = measure(5, 3, R.shape), heads(6, 2, R.shape)
    F, G, H = R, Ridge(0.7), Interaction()
    combinations = [
        (F - G, (1, -1, 0)),
        (-F, (-1, 0, 0)),
        (F * 2, (2, 0, 0)),
        (np.float64(0.5) * F + np.float32(0.25) * G, (0.5, 0.25, 0)),
        (2 * (F - np.int64(3) * (G + H)), (2, -6, -6)),
        (-(F - G) + H, (-1, 1, 1)),
        (F.on(BALL) + G - 0 * H, (1, 1, 0)),
        (0.5 * F + 0.5 * F, (1, 0, 0)),
    ]
    for K, c in combinations:
        parts, local = list(zip(c, (F, G, H), strict=True)), K.at(mu)
        assert relative(K(mu), sum(a * L(mu) for a, L in parts)) < 1e-14
        assert local.value == pytest.approx(K(mu), rel=1e-14)
        for name in ("first_variation", "gradient"):
            expected = sum(a * getattr(L, name)(x, mu) for a, L in parts)
            assert relative(getattr(K, name)(x, mu), expected) < 1e-13
            assert relative(getattr(local, name)(x), expected) < 1e-13


def test_samples_of_combinations():
    """One generator serves the terms, one after the other; what has no data stays."""
    F = (2 * R.on(BALL) + Ridge(0.5) + 3 * R).sample(0, 3)
    rng = np.random.default_rng(0)
    expected = 2 * R.sample(rng, 3) + Ridge(0.5) + 3 * R.sample(rng, 3)
    assert F.space == BALL and F(INSIDE) == pytest.approx(expected(INSIDE), rel=1e-13)


def test_spaces_of_combinations():
    other = R.shape.ball(3.0)
    confined = AttentionRisk(R.X, R.Y, R.W_U, R.shape, BALL)
    assert R.space == Euclidean()
    assert R.on(BALL).space == confined.space == BALL
    for K in (confined + Ridge(1.0), Ridge(1.0) + confined, -confined, 2 * R.on(BALL) - Ridge(1.0)):
        assert K.space == BALL
    assert (confined + R.on(R.shape.ball(1.5))).space == BALL
    assert confined.on(other).space == (confined + Ridge(1.0)).on(other).space == other
    with pytest.raises(ValueError, match="^terms: "):
        confined + R.on(other)
    with pytest.raises(ValueError, match="^terms: "):
        R.on(BALL) + Interaction(Sphere())
    assert Combination(((1, confined), (1, R.on(other))), other).space == other
