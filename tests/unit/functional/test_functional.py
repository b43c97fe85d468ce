"""Functionals: arithmetic, spaces, and a check that passes the right ones and no wrong one."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from reference import heads, make, measure, relative

from mfbook.functional import Combination, Functional, FunctionalCheck, Local, check_functional
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk
from mfbook.models.confinement import Anchor, Ridge
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
        return _InteractionLocal(mu, mu.integrate(mu.atoms**2))


@dataclass(frozen=True)
class _InteractionLocal:
    mu: Measure
    mean: np.ndarray

    @property
    def value(self):
        return (self.mean**2).sum()

    def first_variation(self, x):
        return 2 * (x**2) @ self.mean

    def gradient(self, x):
        return 4 * x * self.mean


def same(right, *_):
    """No mistake."""
    return right


@dataclass(frozen=True)
class Planted(Functional):
    """A right functional with mistakes: each function gets the right answer and may spoil it."""

    F: Functional
    wrong_value: object = same
    wrong_first_variation: object = same
    wrong_gradient: object = same

    @property
    def space(self):
        return self.F.space

    def at(self, mu):
        return _PlantedLocal(self, mu, self.F.at(mu))


@dataclass(frozen=True)
class _PlantedLocal:
    planted: Planted
    mu: Measure
    local: Local

    @property
    def value(self):
        return self.planted.wrong_value(self.local.value, self.mu)

    def first_variation(self, x):
        return self.planted.wrong_first_variation(self.local.first_variation(x), x)

    def gradient(self, x):
        return self.planted.wrong_gradient(self.local.gradient(x), x)


# ---------------------------------------------------------------------------------------------
# check_functional


RIGHT = {
    "attention": (R, INSIDE),
    "attention in a ball": (R.on(BALL), INSIDE),
    "attention on the boundary of a ball": (R.on(BALL), ON_BOUNDARY),
    "attention with ridge": (R + Ridge(0.3), INSIDE),
    "attention with anchor": (2 * R - Anchor(0.1, INSIDE.atoms[0]), INSIDE),
    "one head": (R, Measure.dirac(INSIDE.atoms[0])),
    "ridge": (Ridge(0.5), INSIDE),
    "interaction": (Interaction(), INSIDE),
    "interaction on the sphere": (
        Interaction(Sphere()),
        Measure(Sphere().sample(2, 5, 3), [0.1, 0.2, 0.3, 0.4, 0.0]),
    ),
    "interaction in a ball": (Interaction(Ball(1.0, (2, 1))), Measure([[0.6, 0.8, 0.5]])),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_functionals_pass(name, seed):
    F, mu = RIGHT[name]
    result = check_functional(F, mu, seed)
    assert result.ok
    assert result.complex_step_x < 1e-12 and result.complex_step_mu < 1e-12
    assert result.first_variation < 1e-8 and result.gradient < 1e-8


def through_absolute_values(right, x):
    """Right for real x; the complex step sees no derivative."""
    return np.abs(right)


def through_real_parts(right, x):
    return right.real


WRONG = {
    "gradient doubled": (
        Planted(R, wrong_gradient=lambda g, x: 2 * g),
        {"gradient", "complex_step_x", "complex_step_mu"},
    ),
    "gradient of the wrong sign": (
        Planted(R, wrong_gradient=lambda g, x: -g),
        {"gradient", "complex_step_x", "complex_step_mu"},
    ),
    "gradient wrong in one block": (
        Planted(R, wrong_gradient=lambda g, x: g * (np.arange(g.shape[1]) < g.shape[1] - 3)),
        {"gradient", "complex_step_x", "complex_step_mu"},
    ),
    "first variation of the wrong sign": (
        Planted(R, wrong_first_variation=lambda p, x: -p),
        {"first_variation", "gradient", "complex_step_x"},
    ),
    "first variation and gradient doubled": (
        Planted(R, wrong_first_variation=lambda p, x: 2 * p, wrong_gradient=lambda g, x: 2 * g),
        {"first_variation", "complex_step_mu"},
    ),
    "first variation of another functional": (
        Planted(R, wrong_first_variation=lambda p, x: p + (x**2).sum(axis=1)),
        {"first_variation", "gradient", "complex_step_x"},
    ),
    "value doubled": (
        Planted(R, wrong_value=lambda f, mu: 2 * f),
        {"first_variation", "complex_step_mu"},
    ),
    "value of another functional": (
        Planted(R, wrong_value=lambda f, mu: f + Ridge(1.0)(mu)),
        {"first_variation", "complex_step_mu"},
    ),
    "value that forgets the weights": (
        Planted(R, wrong_value=lambda f, mu: R(Measure(mu.atoms))),
        {"first_variation", "complex_step_mu"},
    ),
    "first variation through abs": (
        Planted(Ridge(1.0), wrong_first_variation=through_absolute_values),
        {"complex_step_x"},
    ),
    "first variation through the real part": (
        Planted(R, wrong_first_variation=through_real_parts),
        {"complex_step_x"},
    ),
    "value through abs": (
        Planted(R, wrong_value=lambda f, mu: np.abs(f)),
        {"complex_step_mu"},
    ),
    "value through norm": (
        Planted(
            Ridge(2.0), wrong_value=lambda f, mu: mu.weights @ np.linalg.norm(mu.atoms, axis=1) ** 2
        ),
        {"complex_step_mu"},
    ),
    "value that is not a number": (
        Planted(R, wrong_value=lambda f, mu: f * np.nan),
        {"first_variation", "complex_step_mu"},
    ),
    "gradient that is not a number": (
        Planted(R, wrong_gradient=lambda g, x: g * np.nan),
        {"gradient", "complex_step_x", "complex_step_mu"},
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_wrong_functionals_fail_where_they_are_wrong(name, seed):
    F, expected = WRONG[name]
    result = check_functional(F, INSIDE, seed)
    assert not result.ok
    errors = {
        field: getattr(result, field)
        for field in ("first_variation", "gradient", "complex_step_x", "complex_step_mu")
    }
    assert {field for field, error in errors.items() if not error <= 1e-3} == expected
    assert all(error < 1e-6 for field, error in errors.items() if field not in expected)


def test_a_wrong_gradient_on_the_boundary_is_noticed():
    F = Planted(R.on(BALL), wrong_gradient=lambda g, x: 1.1 * g)
    result = check_functional(F, ON_BOUNDARY, 0)
    assert not result.ok and result.gradient > 1e-3


def test_normal_part_of_a_gradient_on_the_sphere_does_not_matter():
    F, mu = RIGHT["interaction on the sphere"]
    assert check_functional(Planted(F, wrong_gradient=lambda g, x: g + 3 * x), mu, 0).ok


def test_every_error_counts():
    names = ("first_variation", "gradient", "complex_step_x", "complex_step_mu")
    assert FunctionalCheck(0.0, 0.0, 0.0, 0.0).ok
    for bad in (1e-5, np.nan, np.inf):
        for name in names:
            errors = dict.fromkeys(names, 0.0) | {name: bad}
            assert not FunctionalCheck(**errors).ok
    assert FunctionalCheck(1e-5, 0.0, 0.0, 0.0, tolerance=1e-4).ok
    assert check_functional(R, INSIDE, 0, tolerance=1e-20).ok is False


def test_check_repeats_with_the_seed():
    first = check_functional(R, INSIDE, 5)
    assert first == check_functional(R, INSIDE, np.random.default_rng(5))
    assert first != check_functional(R, INSIDE, 6)


def test_constant_functional_passes_with_absolute_errors():
    """Where every derivative vanishes there is no scale to be relative to."""
    zero = 0.0 * Ridge(1.0)
    result = check_functional(zero, INSIDE, 0)
    assert result.ok and result.gradient == 0


# ---------------------------------------------------------------------------------------------
# arithmetic and spaces


def test_conveniences_agree_with_the_local():
    mu, x = measure(3, 3, R.shape), heads(4, 2, R.shape)
    for F in (R, Ridge(0.2), R + Ridge(0.2), Interaction()):
        local = F.at(mu)
        assert isinstance(local, Local)
        assert F(mu) == local.value
        np.testing.assert_array_equal(F.first_variation(x, mu), local.first_variation(x))
        np.testing.assert_array_equal(F.gradient(x, mu), local.gradient(x))


def test_combinations_are_linear():
    mu, x = measure(5, 3, R.shape), heads(6, 2, R.shape)
    F, G, H = R, Ridge(0.7), Interaction()
    combinations = [
        (F + G, (1, 1, 0)),
        (F - G, (1, -1, 0)),
        (-F, (-1, 0, 0)),
        (2 * F, (2, 0, 0)),
        (F * 2, (2, 0, 0)),
        (np.float64(0.5) * F + np.float32(0.25) * G, (0.5, 0.25, 0)),
        (np.int64(3) * F, (3, 0, 0)),
        (2 * (F - 3 * (G + H)), (2, -6, -6)),
        (-(F - G) + H, (-1, 1, 1)),
        (F.on(BALL) + G - 0 * H, (1, 1, 0)),
        (0.5 * F + 0.5 * F, (1, 0, 0)),
    ]
    for K, c in combinations:
        parts = [(a, L) for a, L in zip(c, (F, G, H), strict=True)]
        assert relative(K(mu), sum(a * L(mu) for a, L in parts)) < 1e-14
        for name in ("first_variation", "gradient"):
            expected = sum(a * getattr(L, name)(x, mu) for a, L in parts)
            assert relative(getattr(K, name)(x, mu), expected) < 1e-13


def test_only_a_multiple_of_one_term_is_linearised():
    class Linearised(Functional):
        def at(self, mu):
            return SimpleNamespace(linearised=lambda scale: ("scaled", scale))

    mu = Measure([[1.0]])
    assert (3.0 * Linearised()).at(mu).linearised(2.0) == ("scaled", 6.0)
    assert (Linearised() + Linearised()).at(mu).linearised(2.0) is NotImplemented
    assert (2 * Ridge(1.0)).at(mu).linearised(2.0) is NotImplemented


def test_nested_combinations_are_flat():
    K = 2 * (R - 3 * (Ridge(1.0) + Ridge(2.0)))
    assert [a for a, _ in K.terms] == [2, -6, -6]
    assert all(not isinstance(F, Combination) for _, F in K.terms)


def test_arithmetic_with_anything_else_is_refused():
    for wrong in (lambda: R + 1, lambda: R - "x", lambda: 1 + R, lambda: R * R, lambda: [2] * R):
        with pytest.raises(TypeError):
            wrong()


def test_spaces_of_combinations():
    other = R.shape.ball(3.0)
    confined = AttentionRisk(R.X, R.Y, R.W_U, R.shape, BALL)
    assert R.space == Euclidean()
    assert R.on(BALL).space == confined.space == BALL
    for K in (confined + Ridge(1.0), Ridge(1.0) + confined, -confined, 2 * R.on(BALL) - Ridge(1.0)):
        assert K.space == BALL
    assert (confined + R.on(R.shape.ball(1.5))).space == BALL
    assert confined.on(other).space == (confined + Ridge(1.0)).on(other).space == other
    with pytest.raises(ValueError, match="terms: expected one space"):
        confined + R.on(other)
    with pytest.raises(ValueError, match="terms: expected one space"):
        R.on(BALL) + Interaction(Sphere())
    assert Combination(((1, confined), (1, R.on(other))), other).space == other


def test_change_of_space_changes_no_number():
    mu, x = measure(7, 3, R.shape), heads(8, 2, R.shape)
    assert R.on(BALL)(mu) == R(mu)
    np.testing.assert_array_equal(R.on(BALL).gradient(x, mu), R.gradient(x, mu))


def test_samples_of_combinations():
    F = 2 * R.on(BALL) + Ridge(0.5)
    sampled = F.sample(0, 3)
    assert sampled.space == BALL
    assert [a for a, _ in sampled.terms] == [2.0, 1.0]
    assert sampled.terms[1][1] is F.terms[1][1]  # no data: itself
    expected = R.sample(0, 3)
    np.testing.assert_array_equal(sampled.terms[0][1].X, expected.X)
    np.testing.assert_array_equal(sampled.terms[0][1].Y, expected.Y)
    # one generator serves both terms, one after the other
    rng = np.random.default_rng(0)
    first, second = R.sample(rng, 3), R.sample(rng, 3)
    two = (R + R).sample(0, 3)
    np.testing.assert_array_equal(two.terms[0][1].X, first.X)
    np.testing.assert_array_equal(two.terms[1][1].X, second.X)
    assert Ridge(1.0).sample(0, 5) == Ridge(1.0)


def test_a_functional_without_at_says_so():
    class Empty(Functional):
        pass

    with pytest.raises(NotImplementedError, match="Empty does not define at"):
        Empty()(INSIDE)
