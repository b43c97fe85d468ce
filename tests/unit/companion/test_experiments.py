"""The experiments whose results are stored: what they are made of, and, weekly, more rows again."""

import inspect

import numpy as np
import pytest

from companion.experiments import propagation, sphere
from mfbook.flow import Euler, gradient_flow
from mfbook.measure import Measure
from mfbook.space import Sphere


@pytest.fixture(scope="module")
def stored():
    return propagation.load()


# --------------------------------------------------------------------- propagation of chaos


def test_the_table_covers_its_heads_and_steps(stored):
    heads, steps = len(propagation.HEADS), len(propagation.STEPS)
    for name in ("descent_largest", "flow_largest", "noise_largest"):
        errors = stored[name][..., 0].ravel()
        assert np.isfinite(errors).all()
        # no two runs have the same error: every row had seeds of its own
        assert len(np.unique(errors)) == len(errors)
    assert stored["descent_largest"].shape[:2] == (heads, steps)
    start = propagation.observe(propagation.law())
    assert np.allclose(stored["reference"][0], start, rtol=1e-12)
    # an influence has mean zero, and no eigenvalue is larger than the norm
    assert np.abs(stored["influence"].mean(axis=1)).max() < 1e-9
    assert (stored["lipschitz"][:, 0] <= stored["lipschitz"][:, 1]).all()


@pytest.mark.parametrize("M", [16, 4096])
def test_draws_are_counted(M):
    """From M = 1024 on, equal heads are one of their total weight: the same measure and run."""
    atoms, weights = propagation.draw(M, np.random.default_rng(M))
    n = propagation.counts(M, np.random.default_rng(M))
    assert n.sum() == M
    mu, law = Measure(atoms, weights), Measure(propagation.law().atoms, n / M)
    assert np.allclose(propagation.observe(mu), propagation.observe(law), rtol=1e-12, atol=0)
    apart = Measure(np.repeat(atoms, np.rint(weights * M).astype(int), axis=0))
    ends = [
        gradient_flow(propagation.risk(), start, [0, 0.25], solver=Euler(0.25)).end
        for start in (mu, apart)
    ]
    assert np.allclose(*map(propagation.observe, ends), rtol=1e-12, atol=0)


@pytest.mark.weekly
@pytest.mark.parametrize("M, j, seed", [(16, 4, 49), (64, 7, 10), (2048, 0, 7)])
def test_descent_rows_are_not_stale(stored, M, j, seed):
    epsilon, i = propagation.STEPS[j], propagation.HEADS.index(M)
    signed = propagation.descent_row(M, epsilon, seed)
    assert np.allclose(np.abs(signed).max(axis=0), stored["descent_largest"][i, j, seed], atol=1e-9)
    if j == 0:  # a cell is its rows
        cell = propagation.descent_cell(M, epsilon, (3, seed))
        assert np.allclose(cell[1], signed, rtol=0, atol=1e-12)


@pytest.mark.weekly
def test_constants_of_the_trajectory_are_not_stale(stored):
    assert np.allclose(propagation.lipschitz_row(2), stored["lipschitz"][2], rtol=1e-7)


# -------------------------------------------------------------------------------- the sphere


def degrees(x):
    return np.degrees(np.arctan2(x[..., 1], x[..., 0]))


def test_the_source_s_draw_is_the_published_one():
    """Units at 175.38 and -128.31 degrees, a dead zone, one local maximum with ReLU."""
    draw = sphere.source_draw(2)
    assert degrees(draw.a) == pytest.approx([175.38, -128.31], abs=5e-3)
    assert draw.omega == pytest.approx([0.6325, -0.4697], abs=5e-5)
    grid = np.radians(np.arange(-180, 180, 0.1) + 0.05)
    x = np.stack([np.cos(grid), np.sin(grid)], axis=1)
    dead = np.degrees(grid[draw.asleep(x)])
    assert (dead.min(), dead.max()) == pytest.approx((-38.3, 85.4), abs=0.1)
    v = draw.energy(1.0, "relu").potential(x)
    rises = (v >= np.roll(v, 1)) & (v > np.roll(v, -1)) & ~draw.asleep(x)
    assert np.degrees(grid[rises]) == pytest.approx([161.3], abs=0.1)
    # L = Lip(sigma) |omega|_1 in Theorem 3.5
    assert np.abs(draw.omega).sum() == pytest.approx(1.102, abs=5e-4)
    assert np.abs(sphere.source_draw(3).omega).sum() == pytest.approx(2.656, abs=5e-4)
    angle = np.random.default_rng(42).uniform(0, 2 * np.pi, 1000)
    assert np.allclose(draw.start.atoms, np.stack([np.cos(angle), np.sin(angle)], 1), atol=1e-15)


@pytest.mark.parametrize("d", [2, 3])
def test_further_draws_of_the_source(d):
    """A start has a seed of its own, whatever is asked for beside it; scale and size do change."""
    first, other = sphere.source_draw(d), sphere.source_draw(d, start=4)
    assert (other.a == first.a).all() and (other.omega == first.omega).all()
    rng = np.random.default_rng(int(np.random.default_rng(42).integers(0, 2**31 - 1, size=9)[3]))
    if d == 2:
        angle = rng.uniform(0, 2 * np.pi, 1000)
        drawn = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        drawn = Sphere().project(rng.normal(size=(500, d)))
    assert np.allclose(other.start.atoms, drawn, atol=1e-15)
    units = sphere.source_draw(d, perceptron=2)
    assert (units.start.atoms == first.start.atoms).all() and (units.a != first.a).all()
    weak = sphere.source_draw(d, scale=0.25, n=7)
    assert np.allclose(weak.omega, 0.25 * first.omega, atol=1e-16) and weak.start.size == 7


def test_stored_runs_are_those_of_the_sweep():
    """Every cell once; beside each repulsion with a perceptron on the sphere one without."""
    settled, published = sphere.load(), sphere.load("source")
    source = sphere.source_cells()
    both = source + sphere.beside_cells(source, published["steps"][: len(source)])
    for cells, stored, run in (
        (sphere.second_cells(), settled, sphere.second),
        (both, published, sphere.published),
    ):
        assert all(set(cell) == set(inspect.signature(run).parameters) for cell in cells)
        assert len({tuple(sorted(cell.items())) for cell in cells}) == len(cells)
        for name in cells[0]:
            assert (stored[name] == np.array([cell[name] for cell in cells])).all(), name
    # the figures: 13 temperatures, both signs, three perceptrons, plain and normalised
    for d, free in ((2, 0), (3, 26)):
        assert (
            sphere.select(settled, d=d).sum() == sphere.select(published, d=d).sum() + free == 156
        )
        assert sphere.select(published, d=d, rule="stiff").sum() == 156
    for units in ("relu", "gelu"):
        assert sphere.select(published, d=3, beside=units).sum() == 26
    beside = published["beside"] != ""
    most = published["most"][beside]
    assert (published["steps"][beside] == most).all() and most.max() <= sphere.BESIDE_MOST


def test_counts_that_are_known_of_the_published_program():
    """Published protocol: ascent 1, 4, 7 without perceptron, and so on."""
    published = sphere.load("source")
    known = {
        ("ascent", "none"): (1, 4, 7), ("ascent", "relu"): (1, 2, 4), ("ascent", "gelu"): (2, 2, 2),
        ("descent", "none"): (13, 38, 82),
    }  # fmt: skip
    for (direction, units), counts in known.items():
        for beta, count in zip((1.0, 10.0, 50.0), counts, strict=True):
            chosen = sphere.select(
                published, d=2, beta=beta, direction=direction, units=units, normalised=False
            )
            assert published["count"][chosen].tolist() == [count]
    wanted = {"d": 2, "direction": "descent", "units": "none", "normalised": False}
    for rule, counts in (("source", [8, 8, 8]), ("uncapped", [2, 3, 4])):
        runs = [sphere.select(published, beta=b, rule=rule, **wanted) for b in (0.01, 0.05, 0.1)]
        assert [int(published["count"][run].item()) for run in runs] == counts
    # where the published animations end; the last frame's label may be a snapshot early
    ends = {("ascent", "none", False): 78, ("ascent", "none", True): 25,
            ("descent", "relu", True): 421}  # fmt: skip
    for (direction, units, normalised), time in ends.items():
        shown = sphere.select(
            published, d=2, beta=1.0, direction=direction, units=units, normalised=normalised
        )
        assert published["time"][shown] == pytest.approx([time])


@pytest.mark.weekly
@pytest.mark.parametrize("run, rule, cell", [
    (sphere.published, {"rule": "source"}, (2, 10.0, "ascent", "relu", True)),
    (sphere.published, {"rule": "uncapped"}, (2, 0.05, "descent", "none", False)),
    (sphere.published, {"rule": "source"}, (3, 5.0, "descent", "relu", False)),
    (sphere.published, {"rule": "stiff"}, (2, 1.0, "descent", "gelu", False)),
    (sphere.second, {}, (3, 1.0, "descent", "none", True)),
])  # fmt: skip
def test_stored_runs_are_not_stale(run, rule, cell):
    stored = sphere.load("source" if rule else "second")
    names = ("d", "beta", "direction", "units", "normalised")
    (i,) = np.flatnonzero(sphere.select(stored, **dict(zip(names, cell, strict=True)), **rule))
    row = run(*cell, **rule)
    assert (row["count"], row["stopped"]) == (stored["count"][i], stored["stopped"][i])
    assert row["value"] == pytest.approx(stored["value"][i], rel=1e-9)
    if rule:
        part = slice(stored["first"][i], stored["first"][i + 1])
        assert np.allclose(np.sort(stored["masses"][part]), np.sort(row["masses"]), atol=1e-6)
        if rule["rule"] != "stiff":
            assert abs(row["steps"] - stored["steps"][i]) <= 10
