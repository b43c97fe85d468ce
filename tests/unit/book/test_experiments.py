"""The experiments whose results are stored: their rows, their files, and a file that is stale."""

import inspect
import json
import re
import sys
from functools import cache

import numpy as np
import pytest

from mfbook.book.experiments import propagation, sphere, text
from mfbook.book.tasks import corpus_hash
from mfbook.equilibria import second_order
from mfbook.flow import gradient_flow
from mfbook.measure import Measure
from mfbook.space import Sphere
from tools.chapters import ROOT

EXPERIMENTS = (propagation, sphere, text)


@pytest.fixture(scope="module")
def stored():
    return propagation.load()


@pytest.fixture(scope="module")
def texts():
    return text.load()


@pytest.fixture(scope="module")
def settled():
    return sphere.load()


@pytest.fixture
def sizes(monkeypatch):
    """Makes an experiment small."""
    return lambda module, **values: [
        monkeypatch.setattr(module, name, value) for name, value in values.items()
    ]


# ------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("module", EXPERIMENTS)
def test_files_are_small_and_name_their_command_and_code(module):
    about = module.load()["about"]
    assert re.fullmatch("[0-9a-f]{16}", about["code"]) and module.FILE.stat().st_size < 2e6
    assert about["command"] == module.COMMAND
    assert module.COMMAND.removeprefix("python ") in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("module", EXPERIMENTS)
def test_command_line_stores_the_results(module, tmp_path, monkeypatch, capsys, sizes):
    file, asked = tmp_path / "data" / "small.npz", []

    def compute(folder, jobs):
        asked.append((folder, jobs))
        return {"x": np.arange(3)}

    sizes(module, FILE=file, compute=compute)
    monkeypatch.setattr(sys, "argv", ["small", "--jobs", "3"])
    module.main()
    assert asked == [(".cache/small", 3)] and "of one core" in capsys.readouterr().out
    data = module.load()
    assert data["x"].tolist() == [0, 1, 2] and data["about"]["command"] == module.COMMAND
    assert json.loads(str(np.load(file)["about"])) == data["about"]


# --------------------------------------------------------------------- propagation of chaos


def test_shapes_cover_what_the_chapter_promises(stored):
    heads, steps, runs = len(propagation.HEADS), len(propagation.STEPS), 50
    assert (propagation.HEADS[0], propagation.HEADS[-1], heads) == (16, 4096, 9)
    assert (propagation.STEPS[0], propagation.STEPS[-1], steps) == (2**-2, 2**-9, 8)
    shapes = {
        "descent_largest": (heads, steps, runs, 5), "descent_end": (heads, steps, runs, 5),
        "flow_signed": (heads, propagation.FLOWS, 9, 5), "euler_largest": (runs, steps, 5),
        "flow_largest": (heads, propagation.FLOWS, 5), "noise_largest": (3, steps, runs, 5),
        "continuous_signed": (3, runs, 9, 5), "lipschitz": (9, 5),
        "influence": (7, propagation.law().size), "reference": (33, 5),
    }  # fmt: skip
    assert {name: a.shape for name, a in stored.items() if name != "about"} == shapes
    assert all(np.isfinite(stored[name]).all() for name in shapes)
    # no two runs have the same error: every row had seeds of its own
    for name in ("descent_largest", "flow_largest", "noise_largest"):
        errors = stored[name][..., 0].ravel()
        assert len(np.unique(errors)) == len(errors)
    start = propagation.observe(propagation.law())
    assert np.allclose(stored["reference"][0], start, rtol=1e-12)


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
        gradient_flow(propagation.risk(), start, [0, 0.25], method="euler", step=0.25).end
        for start in (mu, apart)
    ]
    assert np.allclose(*map(propagation.observe, ends), rtol=1e-12, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "M, j, seed",
    [(16, 0, 0), (16, 4, 49), pytest.param(64, 7, 10, marks=pytest.mark.weekly), (256, 3, 31),
     (2048, 0, 7)],
)  # fmt: skip
def test_descent_rows_are_not_stale(stored, M, j, seed):
    epsilon, i = propagation.STEPS[j], propagation.HEADS.index(M)
    signed = propagation.descent_row(M, epsilon, seed)
    assert np.allclose(np.abs(signed).max(axis=0), stored["descent_largest"][i, j, seed], atol=1e-9)
    assert np.allclose(signed[-1], stored["descent_end"][i, j, seed], atol=1e-9)
    if j == 0:  # a cell is its rows
        cell = propagation.descent_cell(M, epsilon, (3, seed))
        assert np.allclose(cell[1], signed, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("M, seed", [(32, 50), (512, 3)])
def test_flow_rows_are_not_stale(stored, M, seed):
    signed = propagation.flow_row(M, seed)
    i = propagation.HEADS.index(M)
    assert np.allclose(signed[::4], stored["flow_signed"][i, seed], rtol=1e-6, atol=1e-8)
    assert np.allclose(np.abs(signed).max(axis=0), stored["flow_largest"][i, seed], atol=1e-9)


@pytest.mark.weekly
@pytest.mark.slow
def test_constants_of_the_trajectory_are_not_stale(stored):
    assert np.allclose(propagation.lipschitz_row(2), stored["lipschitz"][2], rtol=1e-7)


@pytest.mark.weekly
@pytest.mark.slow
def test_results_of_a_sweep_are_its_rows(sizes):
    """With a law of sixteen heads, and few cells."""
    law = Measure(propagation.law().atoms[:16])
    references = {
        name: cache(getattr(propagation, name).__wrapped__)
        for name in ("reference", "continuous_reference")
    }
    sizes(
        propagation, law=lambda: law, HEADS=(4, 16), STEPS=(0.25,), REPETITIONS=2, FLOWS=2,
        EULER_HEADS=4, NOISE_HEADS=(4,), CONTINUOUS_HEADS=(4,), CONTINUOUS_REFERENCE=16,
        **references,
    )  # fmt: skip
    data = propagation.compute(None, 1)
    assert np.array_equal(data["reference"], propagation.reference())
    for (i, M), seed in ((i_M, seed) for i_M in enumerate((4, 16)) for seed in range(2)):
        row = propagation.descent_row(M, 0.25, seed)
        assert np.allclose(data["descent_end"][i, 0, seed], row[-1], rtol=0, atol=1e-12)
        largest = np.abs(row).max(axis=0)
        assert np.allclose(data["descent_largest"][i, 0, seed], largest, rtol=0, atol=1e-12)
        row = propagation.flow_row(M, seed)
        assert np.allclose(data["flow_signed"][i, seed], row[::4], rtol=1e-6, atol=1e-12)
        assert np.allclose(data["flow_largest"][i, seed], np.abs(row).max(axis=0), rtol=1e-12)
    for name, shape in {"euler_largest": (2, 1, 5), "noise_largest": (1, 1, 2, 5)}.items():
        assert data[name].shape == shape and (data[name] > 0).all()
    assert data["continuous_signed"].shape == (1, 2, 9, 5)
    # an influence has mean zero, and no eigenvalue is larger than the norm
    assert data["influence"].shape == (7, 16)
    assert np.abs(data["influence"].mean(axis=1)).max() < 1e-12
    assert data["lipschitz"].shape == (9, 5)
    assert (data["lipschitz"][:, 0] <= data["lipschitz"][:, 1]).all()


# -------------------------------------------------------------------------------------- text


def test_layers_on_text_share_heads_and_data():
    """A small layer starts with heads of the large one, and sees the same windows."""
    times = np.array([0.0, 1.0])
    run = text.train(8, 5, times=times)
    assert np.array_equal(run[0], text.initial()[40:48])
    assert np.array_equal(run, text.train(8, 5, times=times))
    assert np.abs(run[1] - text.train(8, 5, order=1, times=times)[1]).max() > 1e-3


@pytest.mark.slow
def test_text_rows_are_not_stale(texts):
    if texts["about"]["corpus"] != corpus_hash():
        pytest.skip(f"the stored results belong to the text {texts['about']['corpus']}")
    row = text.row(32, 11)
    assert np.allclose(row["bits"], texts["bits_32"][11], atol=1e-6)
    assert np.allclose(row["quantiles"], texts["quantiles_32"][11], rtol=1e-5)


def test_layers_of_a_sweep_are_parts_of_the_reference(sizes):
    times, train = np.array([0.0, 1.0, 2.0]), text.train
    sizes(
        text, REFERENCE=16, HEADS=(8,), BLOCKS={8: 2}, ORDERS=2, ORDER_HEADS=8, COMPARED=(0, 2),
        initial=cache(text.initial.__wrapped__),
        train=lambda M, block, order=0: train(M, block, order, times),
    )  # fmt: skip
    data = text.compute(None, 1)
    assert data["reference_bits"].shape == (3,) and data["quantiles_8"].shape == (2, 3, 64)
    # the first order is the one of all other layers
    assert np.allclose(data["order_bits"][0], data["bits_8"][0], rtol=1e-12)
    assert np.abs(data["order_bits"][0] - data["order_bits"][1]).max() > 1e-6
    # heads start together, up to the rounding of the stored ones, and go apart
    assert (data["reference_moved"][0] == 0).all()
    assert data["apart_8"][:, 0].max() < 1e-6 < 1e-3 < data["apart_8"][:, 1].min()


# -------------------------------------------------------------------------------- the sphere


@pytest.mark.parametrize("d", [2, 3, 16])
def test_perceptron_and_particles_are_the_same_in_every_run(d):
    a, omega = sphere.perceptron(d)
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(d, d))
    assert np.allclose(a, directions / np.sqrt((directions**2).sum(axis=1))[:, None], atol=1e-15)
    assert (omega == rng.normal(size=d)).all()
    b, scaled = sphere.perceptron(d, 4.0)
    assert (a == b).all() and (scaled == 4 * omega).all()
    F = sphere.energy(5.0, "gelu", True, d, 0.5)
    assert (F.beta, F.activation.name, F.normalised, F.dim) == (5.0, "gelu", True, d)
    assert (F.omega == 0.5 * omega).all() and sphere.energy(1.0).a is None
    mu = sphere.start(d)
    assert (mu.size, mu.dim) == (1000 if d == 2 else 500, d)
    assert Sphere().contains(mu.atoms, 1e-14).all() and (sphere.start(d).atoms == mu.atoms).all()
    assert np.abs(mu.weights @ mu.atoms).max() < 4 / np.sqrt(mu.size)
    assert np.abs(sphere.start(d, 1).atoms - mu.atoms).max() > 0.1
    assert sphere.start(d, 0, 7).size == 7


def test_arguments_of_a_setup():
    for name, call in {
        "d": lambda: sphere.perceptron(1), "scale": lambda: sphere.perceptron(2, -1.0),
        "beta": lambda: sphere.energy(0.0), "activation": lambda: sphere.energy(1.0, "swish"),
        "n": lambda: sphere.start(n=0), "direction": lambda: sphere.run(2, 1.0, "up", "none"),
        "wanted": lambda: sphere.select({"beta": 0, "seed": 0, "scale": 1}, colour=1),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"^{name}:"):
            call()


def test_every_setup_is_a_cell_once():
    cells = sphere.cells()
    names = set(inspect.signature(sphere.run).parameters)
    assert all(set(cell) == names for cell in cells)
    assert len({tuple(sorted(cell.items())) for cell in cells}) == len(cells)
    table = {name: np.array([cell[name] for cell in cells]) for name in names}
    # 13 temperatures, two directions, three units, normalised or not
    assert [sphere.select(table, d=d).sum() for d in (2, 3)] == [156, 156]
    assert [np.sum(table["d"] == d) for d in sphere.HIGHER] == [18] * 3
    for direction, units in (("ascent", "none"), ("ascent", "gelu"), ("descent", "gelu")):
        wanted = {"d": 2, "direction": direction, "units": units, "normalised": False}
        seeds = [s for s in range(60) if sphere.select(table, beta=25.0, seed=s, **wanted).any()]
        assert seeds == list(range(50))
        scales = [
            s for s in np.arange(65) / 8 if sphere.select(table, beta=5.0, scale=s, **wanted).any()
        ]
        assert scales == (sorted(sphere.SCALES) if units == "gelu" else [1.0])


@pytest.mark.parametrize("direction", ["ascent", "descent"])
@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_run_is_what_it_says(d, direction, sizes):
    sizes(sphere, PARTICLES={2: 20, 3: 15}, HIGHER_HORIZON=3.0)
    row = sphere.run(d, 3.0, direction, "gelu")
    F, m = sphere.energy(3.0, "gelu", d=d), row["count"]
    assert row["masses"].shape == (m,) and row["centres"].shape == (m, d)
    assert row["masses"].sum() == pytest.approx(1, abs=1e-12) and (row["masses"] > 0).all()
    assert Sphere().contains(row["centres"], 1e-12).all()
    assert (row["value"] > F(sphere.start(d))) == (direction == "ascent")
    assert np.isnan(row["gap"]) == (direction == "ascent")
    assert np.isnan(row["least"]) == (d == 4)
    if direction == "descent":
        assert 0 <= row["gap_found"] <= row["gap"] < 1
    if d < 4:
        # four particles in a wide chain are at rest, but do not satisfy the rule
        assert row["stopped"] != (d == 3 and direction == "descent") and row["speed"] <= 1e-4
        assert row["steps"] < sphere.MOST
        # of the energy that the flow descends, at a state near rest
        centres = Measure(row["centres"], row["masses"] / row["masses"].sum())
        spectrum = second_order(F, centres).eigenvalues
        near = -spectrum[-1] if direction == "ascent" else spectrum[0]
        assert row["least"] == pytest.approx(near, abs=0.05) or m < 20
    else:
        assert row["time"] == pytest.approx(3.0) and row["steps"] == 30


def test_the_table_keeps_the_order_of_the_cells(sizes):
    """Costly runs go first, and their rows still stand beside their cells."""
    rest = {"normalised": False, "seed": 0, "scale": 1.0}
    cells = [
        {"d": d, "beta": beta, "direction": direction, "units": units, **rest}
        for d, beta, direction, units in (
            (2, 1.0, "ascent", "none"), (3, 0.5, "descent", "relu"), (2, 5.0, "descent", "gelu"),
            (4, 1.0, "ascent", "relu"),
        )
    ]  # fmt: skip
    cells += [{**cells[2], "seed": 1}, {**cells[2], "scale": 2.0}, {**cells[2], "normalised": True}]
    sizes(sphere, PARTICLES={2: 20, 3: 15}, HIGHER_HORIZON=3.0, cells=lambda: cells)
    data = sphere.compute(None, 1)
    check_table(data)
    assert data["centres"].shape[1] == 4
    for i, cell in enumerate(cells):
        row = sphere.run(**cell)
        part = slice(data["first"][i], data["first"][i + 1])
        assert all(data[name][i] == value for name, value in cell.items())
        assert data["value"][i] == row["value"] and data["steps"][i] == row["steps"]
        assert np.allclose(data["masses"][part], row["masses"], atol=1e-6)
        assert np.allclose(data["centres"][part, : cell["d"]], row["centres"], atol=1e-6)
    # seed, scale and projection make other runs; none but the first are chosen unless asked for
    assert len(set(data["value"])) == len(cells)
    chosen = sphere.select(data, d=2, units="gelu", normalised=False)
    assert chosen.tolist() == [False, False, True, False, False, False, False]
    assert sphere.select(data, seed=2).sum() == 0


def check_table(data):
    """What every table of runs has to be, whatever the runs."""
    runs, first = len(data["beta"]), data["first"]
    columns = ("d", "direction", "units", "normalised", "seed", "scale", "count", "time", "steps")
    columns += ("stopped", "speed", "value", "least", "gap_found", "gap")
    assert all(data[name].shape == (runs,) for name in columns)
    assert first[0] == 0 and (np.diff(first) == data["count"]).all() and (data["count"] > 0).all()
    assert len(data["masses"]) == len(data["centres"]) == first[-1]
    assert np.abs(np.add.reduceat(data["masses"].astype(float), first[:-1]) - 1).max() < 1e-5
    assert np.abs(np.linalg.norm(data["centres"], axis=1) - 1).max() < 1e-5
    ascent, low = data["direction"] == "ascent", data["d"] <= 3
    assert (np.isnan(data["gap"]) == ascent).all() and (np.isnan(data["least"]) == ~low).all()
    gap, found = data["gap"][~ascent], data["gap_found"][~ascent]
    assert ((0 <= found) & (found <= gap) & (gap < np.inf)).all()
    assert (data["speed"][data["stopped"]] <= 1e-4).all() and (data["time"] >= 0).all()


def test_stored_runs_are_those_of_the_sweep(settled):
    check_table(settled)
    cells = sphere.cells()
    for name in cells[0]:
        assert (settled[name] == np.array([cell[name] for cell in cells])).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell", [(2, 5.0, "ascent", "gelu", False), (3, 1.0, "descent", "none", True)]
)
def test_stored_runs_are_not_stale(settled, cell):
    names = ("d", "beta", "direction", "units", "normalised")
    (i,) = np.flatnonzero(sphere.select(settled, **dict(zip(names, cell, strict=True))))
    row = sphere.run(*cell)
    assert row["count"] == settled["count"][i]
    assert row["value"] == pytest.approx(settled["value"][i], rel=1e-9)
    part = slice(settled["first"][i], settled["first"][i + 1])
    assert np.allclose(np.sort(settled["masses"][part]), np.sort(row["masses"]), atol=1e-6)
