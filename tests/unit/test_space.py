"""Spaces: projections, tangents, distances, uniform draws and the Riemannian Hessian."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import relative

from mfbook.space import Ball, Euclidean, Sphere

seeds = st.integers(0, 10**6)
BALL = Ball(1.5, (3, 1, 2))


def points(seed, n=6, dim=6, scale=1.5):
    return scale * np.random.default_rng(seed).normal(size=(n, dim))


def on_boundary(x, blocks=(True, False, True)):
    """Put some blocks on the boundary, the others inside."""
    parts = np.split(x, [3, 4], axis=1)
    for i, (b, out) in enumerate(zip(parts, blocks, strict=True)):
        size = np.linalg.norm(b, axis=1, keepdims=True)
        parts[i] = b / size * (BALL.radius if out else 0.5 * BALL.radius)
    return np.concatenate(parts, axis=1)


@given(seeds, st.sampled_from([0.3, 1.5, 10.0]))
def test_projection_on_the_ball_is_the_nearest_point(seed, scale):
    """p is nearest to x in a convex set iff <x - p, z - p> <= 0 for all z in the set."""
    x = points(seed, scale=scale)
    p = BALL.project(x)
    assert BALL.contains(p).all()
    z = BALL.sample(seed, 50)
    assert ((x[:, None] - p[:, None]) * (z - p[:, None])).sum(axis=-1).max() <= 1e-12
    np.testing.assert_allclose(BALL.project(p), p, rtol=1e-14)
    inside = BALL.contains(x, tolerance=0)
    np.testing.assert_array_equal(p[inside], x[inside])


@given(seeds, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_tangent_of_the_ball_is_the_nearest_permitted_velocity(seed, blocks):
    """Moreau: v splits into a tangent and an outward normal part, orthogonal to each other."""
    x, v = on_boundary(points(seed), blocks), points(seed + 1)
    t = BALL.tangent(x, v)
    normal = v - t
    assert np.abs((t * normal).sum(axis=1)).max() < 1e-12
    for block, boundary in zip((slice(0, 3), slice(3, 4), slice(4, 6)), blocks, strict=True):
        along = (x[:, block] * normal[:, block]).sum(axis=1)
        if boundary:
            assert (along >= -1e-12).all()
            assert ((x[:, block] * t[:, block]).sum(axis=1) <= 1e-12).all()
        else:
            assert (normal[:, block] == 0).all()
    # a step stays inside, and begins along the tangent
    assert BALL.contains(BALL.retract(x, 5 * v)).all()
    assert np.abs((BALL.retract(x, 1e-7 * v) - x) / 1e-7 - t).max() < 1e-5


def test_draws_from_the_ball_are_uniform():
    """(size/r)^dim is uniform on [0, 1] (DKW bound), directions have mean zero (Hoeffding)."""
    n = 5000
    x = BALL.sample(1, n)
    assert x.shape == (n, 6) and BALL.contains(x, tolerance=0).all()
    width = np.sqrt(np.log(2e9) / (2 * n))
    for block in (slice(0, 3), slice(3, 4), slice(4, 6)):
        b = x[:, block]
        size = np.linalg.norm(b, axis=1)
        level = np.sort((size / BALL.radius) ** b.shape[1])
        assert np.abs(level - np.arange(1, n + 1) / n).max() < width + 1 / n < 0.06
        assert np.abs((b / size[:, None]).mean(axis=0)).max() < 2 * width
    np.testing.assert_array_equal(x, BALL.sample(np.random.default_rng(1), n))
    assert (x != BALL.sample(2, n)).any()


@given(seeds)
def test_tangent_and_retraction_on_the_sphere(seed):
    space = Sphere()
    x, v = space.sample(seed, 5, 4), points(seed, 5, 4)
    t = space.tangent(x, v)
    assert np.abs((x * t).sum(axis=1)).max() < 1e-14
    np.testing.assert_allclose(space.tangent(x, t), t, atol=1e-14)
    moved = space.retract(x, t)
    assert space.contains(moved).all()
    step = 1e-6
    np.testing.assert_allclose((space.retract(x, step * t) - x) / step, t, atol=1e-4)
    # a complex step through the retraction is the tangent vector
    np.testing.assert_allclose(
        np.imag(space.retract(x, 1e-30j * v)) / 1e-30, t, rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("angle", [0.0, 1e-150, 1e-12, 1e-8, 1e-4, 1.0, 3.1, np.pi])
def test_distance_on_the_sphere_is_the_angle(angle):
    """The arc cosine of the inner product would lose half of the digits below 1e-8."""
    x = np.array([[1.0, 0.0, 0.0]])
    y = np.array([[np.cos(angle), 0.0, np.sin(angle)]])
    np.testing.assert_allclose(Sphere().distance(x, y), [angle], rtol=1e-14)
    np.testing.assert_allclose(Sphere().distance(y, x), [angle], rtol=1e-14)


def test_draws_from_the_sphere():
    """Each coordinate has mean 0 and square 1/d: Hoeffding, wrong with probability below 1e-8."""
    n, dim = 20_000, 3
    x = Sphere().sample(3, n, dim)
    assert x.shape == (n, dim) and Sphere().contains(x, tolerance=1e-14).all()
    width = np.sqrt(np.log(1e9) / (2 * n))
    assert np.abs(x.mean(axis=0)).max() < 2 * width
    assert np.abs((x**2).mean(axis=0) - 1 / dim).max() < width
    np.testing.assert_array_equal(x, Sphere().sample(np.random.default_rng(3), n, dim))


@given(seeds)
def test_hessian_on_the_sphere_along_geodesics(seed):
    """The second derivative of f(cos(t) x + sin(t) v), against central differences."""
    space, rng = Sphere(), np.random.default_rng(seed)
    A, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    A = A + A.T
    x = space.sample(rng, 1, 4)[0]
    gradient, ambient = A @ x + b, A
    H = space.hessian(x, gradient, ambient)
    np.testing.assert_allclose(H, H.T, atol=1e-13)
    np.testing.assert_allclose(H @ x, 0, atol=1e-13)

    def f(y):
        return y @ A @ y / 2 + b @ y

    v = space.tangent(x, rng.normal(size=4))
    v /= np.linalg.norm(v)
    step = 1e-3
    line = [f(np.cos(t) * x + np.sin(t) * v) for t in step * np.arange(-2, 3)]
    second = np.dot([-1, 16, -30, 16, -1], line) / (12 * step**2)
    scale = np.abs(ambient).sum() + np.abs(gradient).sum()
    assert abs(v @ H @ v - second) < 1e-8 * scale
    # and it is not the ambient Hessian
    assert relative(H, ambient) > 1e-3


def test_euclidean_space_is_flat():
    space, x, v, H = Euclidean(), points(0), points(1), np.eye(6)
    for same in (space.project(x), space.unchart(x), space.chart(x)[0], space.tangent(v, x)):
        np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(space.retract(x, v), x + v)
    for flat in (space, BALL):
        np.testing.assert_array_equal(flat.hessian(x[0] / 9, v[0], H), H)


spaces = pytest.mark.parametrize("space", [Euclidean(), BALL, Sphere()],
                                 ids=lambda s: type(s).__name__)  # fmt: skip


@spaces
def test_charts_pull_gradients_back(space):
    rng = np.random.default_rng(0)
    q, c = 0.6 * rng.normal(size=(5, 6)), rng.normal(size=6)
    x, back = space.chart(q)
    assert space.contains(x).all()
    # f(x) = <c, x> + |x|^4 / 16 is no function of single blocks, and complex steps go through it
    stated = back(c + (x**2).sum(axis=1, keepdims=True) * x / 4)

    def f(q):
        y = space.chart(q)[0]
        return y @ c + (y * y).sum(axis=1) ** 2 / 16

    for k in range(6):
        slope = np.imag(f(q + 1e-30j * np.eye(6)[k])) / 1e-30
        np.testing.assert_allclose(stated[:, k], slope, rtol=1e-12, atol=1e-14)


def test_coordinates_of_points_in_a_ball():
    """They lead back; a point on the boundary or outside comes back just inside."""
    x = BALL.sample(0, 200)
    x[0] = 0
    sizes = np.array([np.linalg.norm(b, axis=1) for b in np.split(x, [3, 4], axis=1)])
    inside = (sizes < 0.9998 * 1.5).all(axis=0)
    np.testing.assert_allclose(BALL.chart(BALL.unchart(x))[0][inside], x[inside], rtol=1e-11)
    for size in (1, 1.01, 7):
        edge = BALL.project(1e6 * x[1:])
        back = BALL.chart(BALL.unchart(size * edge))[0]
        assert BALL.contains(back, tolerance=0).all()
        np.testing.assert_allclose(back, edge, rtol=2e-4)


@spaces
def test_points_in_tables_of_any_shape(space):
    """Rows in a table (2, 3, D): the same as row by row."""
    rng = np.random.default_rng(0)
    x, v = (space.project(rng.normal(size=(2, 3, 6)) * 3) for _ in range(2))

    def both(x, v):
        point, back = space.chart(v)
        yield from (space.project(3 * x), space.tangent(x, v), space.retract(x, v))
        yield from (space.contains(3 * x), space.unchart(x))
        yield from (point, back(x))

    rows = both(x.reshape(6, 6), v.reshape(6, 6))
    for table, flat in zip(both(x, v), rows, strict=True):
        np.testing.assert_allclose(table, flat.reshape(2, 3, *flat.shape[1:]), rtol=1e-14)


@spaces
def test_complex_points_and_steps(space):
    x, v = space.project(points(0, 4)), points(1, 4)
    np.testing.assert_allclose(space.tangent(x, 1j * v), 1j * space.tangent(x, v), rtol=1e-15)
    assert np.iscomplexobj(space.retract(x + 0j, v)) and np.iscomplexobj(space.unchart(x + 0j))
    for call, name in ((space.tangent, "v"), (space.retract, "v")):
        for wrong in (v[:3], v[:, :5]):
            with pytest.raises(ValueError, match=f"^{name}: "):
                call(x, wrong)


def test_the_origin_is_on_no_sphere():
    for call, name in ((Sphere().project, "x"), (Sphere().chart, "q")):
        for zero in (np.zeros((1, 2), complex), np.array([[1.0, 0], [0, 0]])):
            with pytest.raises(ValueError, match=f"^{name}: "):
                call(zero)
