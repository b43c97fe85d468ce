"""The experiments whose results are stored: their rows, their files, and a file that is stale."""

import inspect
import json
import re
import sys
from functools import cache

import numpy as np
import pytest

from mfbook.book.experiments import _stored, propagation, sphere, text
from mfbook.book.tasks import corpus_hash
from mfbook.equilibria import second_order
from mfbook.flow import gradient_flow
from mfbook.measure import Measure
from mfbook.space import Sphere
from tools.chapters import ROOT


@pytest.fixture(scope="module")
def stored():
    return propagation.load()


@pytest.fixture(scope="module")
def texts():
    return text.load()


def test_shapes_cover_what_the_chapter_promises(stored):
    heads, steps, repetitions = len(propagation.HEADS), len(propagation.STEPS), 50
    assert (propagation.HEADS[0], propagation.HEADS[-1], heads) == (16, 4096, 9)
    assert (propagation.STEPS[0], propagation.STEPS[-1], steps) == (2**-2, 2**-9, 8)
    assert stored["descent_largest"].shape == (heads, steps, repetitions, 5)
    assert stored["descent_end"].shape == (heads, steps, repetitions, 5)
    assert stored["flow_signed"].shape == (heads, propagation.FLOWS, 9, 5)
    assert stored["flow_largest"].shape == (heads, propagation.FLOWS, 5)
    assert stored["euler_largest"].shape == (repetitions, steps, 5)
    assert stored["noise_largest"].shape == (3, steps, repetitions, 5)
    assert stored["continuous_signed"].shape == (3, repetitions, 9, 5)
    assert stored["lipschitz"].shape == (9, 5)
    assert stored["influence"].shape == (7, propagation.law().size)
    assert all(np.isfinite(a).all() for name, a in stored.items() if name != "about")


def test_rows_are_independent(stored):
    """No two runs have the same error: every row had seeds of its own."""
    for name in ("descent_largest", "flow_largest", "noise_largest"):
        errors = stored[name][..., 0].ravel()
        assert len(np.unique(errors)) == len(errors)


def test_files_name_their_command_and_code(stored, texts):
    makefile = (ROOT / "Makefile").read_text()
    for about in (stored["about"], texts["about"]):
        assert re.fullmatch("[0-9a-f]{16}", about["code"])
        assert about["command"].removeprefix("python ") in makefile


def test_stored_files_are_small():
    for module in (propagation, text):
        assert module.FILE.stat().st_size < 2e6
        assert json.loads(str(np.load(module.FILE)["about"]))


def test_draws_are_counted():
    for M in (16, 4096):
        rng = np.random.default_rng(M)
        atoms, weights = propagation.draw(M, rng)
        n = propagation.counts(M, np.random.default_rng(M))
        assert n.sum() == M
        mu = Measure(atoms, weights)
        law = Measure(propagation.law().atoms, n / M)
        assert np.allclose(propagation.observe(mu), propagation.observe(law), rtol=1e-12, atol=0)


def test_a_cell_is_its_rows():
    seeds = (0, 3)
    cell = propagation.descent_cell(16, 0.25, seeds)
    rows = [propagation.descent_row(16, 0.25, seed) for seed in seeds]
    assert np.allclose(cell, rows, rtol=0, atol=1e-12)


def test_many_heads_as_weighted_atoms_are_the_same_run():
    """From M = 1024 on, equal heads are run as one of their total weight."""
    M, rng = 1024, np.random.default_rng(0)
    atoms, weights = propagation.draw(M, rng)
    apart = np.repeat(atoms, np.rint(weights * M).astype(int), axis=0)
    runs = [
        gradient_flow(propagation.risk(), mu, [0, 0.5], method="euler", step=0.25).end
        for mu in (Measure(atoms, weights), Measure(apart))
    ]
    values = [propagation.observe(run) for run in runs]
    assert np.allclose(*values, rtol=1e-12, atol=0)


def test_observation_at_the_start_is_the_law(stored):
    assert np.allclose(stored["reference"][0], propagation.observe(propagation.law()), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "M, j, seed",
    [(16, 4, 49), pytest.param(64, 7, 10, marks=pytest.mark.weekly), (256, 3, 31), (2048, 0, 7)],
)
def test_descent_rows_are_not_stale(stored, M, j, seed):
    signed = propagation.descent_row(M, propagation.STEPS[j], seed)
    i = propagation.HEADS.index(M)
    assert np.allclose(np.abs(signed).max(axis=0), stored["descent_largest"][i, j, seed], atol=1e-9)
    assert np.allclose(signed[-1], stored["descent_end"][i, j, seed], atol=1e-9)


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


def test_layers_on_text_share_heads_and_data():
    """A small layer starts with heads of the large one, and sees the same windows."""
    run = text.train(8, 5, times=np.array([0.0, 1.0]))
    assert np.array_equal(run[0], text.initial()[40:48])
    again = text.train(8, 5, times=np.array([0.0, 1.0]))
    assert np.array_equal(run, again)
    other = text.train(8, 5, order=1, times=np.array([0.0, 1.0]))
    assert np.abs(run[1] - other[1]).max() > 1e-3


@pytest.mark.slow
def test_text_rows_are_not_stale(texts):
    if texts["about"]["corpus"] != corpus_hash():
        pytest.skip(f"the stored results belong to the text {texts['about']['corpus']}")
    row = text.row(32, 11)
    assert np.allclose(row["bits"], texts["bits_32"][11], atol=1e-6)
    assert np.allclose(row["quantiles"], texts["quantiles_32"][11], rtol=1e-5)


# ---------------------------------------------------------------------------------------------
# the sphere


@pytest.fixture(scope="module")
def settled():
    if not sphere.FILE.exists():
        pytest.skip("the sweep of the sphere has not been run")
    return sphere.load()


@pytest.fixture
def few(monkeypatch):
    """Few particles, and little time in higher dimension."""
    monkeypatch.setattr(sphere, "PARTICLES", {2: 20, 3: 15})
    monkeypatch.setattr(sphere, "HIGHER_HORIZON", 3.0)


@pytest.mark.parametrize("d", [2, 3, 16])
def test_perceptron_is_the_same_in_every_run(d):
    a, omega = sphere.perceptron(d)
    assert a.shape == (d, d) and np.allclose(np.linalg.norm(a, axis=1), 1, rtol=0, atol=1e-15)
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(d, d))
    assert np.allclose(a, directions / np.sqrt((directions**2).sum(axis=1))[:, None], atol=1e-15)
    assert (omega == rng.normal(size=d)).all()
    b, scaled = sphere.perceptron(d, 4.0)
    assert (a == b).all() and (scaled == 4 * omega).all()
    assert (sphere.perceptron(d, 0)[1] == 0).all()


def test_arguments_of_a_setup():
    F = sphere.energy(5.0, "gelu", True, 3, 0.5)
    assert (F.beta, F.activation.name, F.normalised, F.dim) == (5.0, "gelu", True, 3)
    assert (F.omega == 0.5 * sphere.perceptron(3)[1]).all()
    assert sphere.energy(1.0).a is None and sphere.energy(1.0, normalised=True).normalised
    calls = {
        "d": lambda: sphere.perceptron(1),
        "scale": lambda: sphere.perceptron(2, -1.0),
        "beta": lambda: sphere.energy(0.0),
        "activation": lambda: sphere.energy(1.0, "swish"),
        "n": lambda: sphere.start(n=0),
        "direction": lambda: sphere.run(2, 1.0, "up", "none"),
        "wanted": lambda: sphere.select({"beta": 0, "seed": 0, "scale": 1}, colour=1),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            call()


def test_particles_at_the_start():
    for d, n in ((2, 1000), (3, 500), (8, 500)):
        mu = sphere.start(d)
        assert (mu.size, mu.dim) == (n, d) and Sphere().contains(mu.atoms, 1e-14).all()
        assert (sphere.start(d).atoms == mu.atoms).all()
        assert np.abs(mu.weights @ mu.atoms).max() < 4 / np.sqrt(n)
    assert np.abs(sphere.start(2, 1).atoms - sphere.start(2).atoms).max() > 0.1
    assert sphere.start(5, 0, 7).size == 7


def test_every_setup_is_a_cell_once():
    cells = sphere.cells()
    keys = [tuple(sorted(cell.items())) for cell in cells]
    assert len(set(keys)) == len(keys)
    names = set(inspect.signature(sphere.run).parameters)
    assert all(set(cell) == names for cell in cells)
    table = {name: np.array([cell[name] for cell in cells]) for name in names}
    plain = sphere.select(table)
    # 13 temperatures, two directions, three units, normalised or not
    assert [np.sum(plain & (table["d"] == d)) for d in (2, 3)] == [156, 156]
    assert [np.sum(table["d"] == d) for d in sphere.HIGHER] == [18] * 3
    for direction, units in (("ascent", "none"), ("ascent", "gelu"), ("descent", "gelu")):
        drawn = (table["direction"] == direction) & (table["units"] == units)
        drawn &= (table["d"] == 2) & (table["beta"] == 25) & (table["scale"] == 1)
        seeds = np.sort(table["seed"][drawn & ~table["normalised"]])
        assert (seeds == np.arange(50)).all()
    for units in ("relu", "gelu"):
        for normalised in (False, True):
            wanted = {"d": 2, "direction": "descent", "units": units, "normalised": normalised}
            scales = [
                c["scale"]
                for c in cells
                if c["seed"] == 0
                and c["beta"] == 5.0
                and all(c[name] == value for name, value in wanted.items())
            ]
            assert sorted(scales) == sorted(sphere.SCALES)


@pytest.mark.parametrize("direction", ["ascent", "descent"])
@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_run_is_what_it_says(d, direction, few):
    row = sphere.run(d, 3.0, direction, "gelu")
    F, m = sphere.energy(3.0, "gelu", d=d), row["count"]
    assert row["masses"].shape == (m,) and row["centres"].shape == (m, d)
    assert row["masses"].sum() == pytest.approx(1, abs=1e-12) and (row["masses"] > 0).all()
    assert Sphere().contains(row["centres"], 1e-12).all()
    before = F(sphere.start(d))
    assert (row["value"] > before) == (direction == "ascent")
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


def test_runs_differ_in_their_draws_and_scales(few):
    runs = [
        sphere.run(2, 3.0, "descent", "gelu", **how)
        for how in ({}, {"seed": 1}, {"scale": 2.0}, {"normalised": True})
    ]
    assert len({run["value"] for run in runs}) == 4


def test_the_table_keeps_the_order_of_the_cells(few, monkeypatch):
    """Costly runs go first, and their rows still stand beside their cells."""
    small = [
        {"d": d, "beta": beta, "direction": direction, "units": units, "normalised": False,
         "seed": 0, "scale": 1.0}
        for d, beta, direction, units in (
            (2, 1.0, "ascent", "none"), (3, 0.5, "descent", "relu"),
            (2, 5.0, "descent", "gelu"), (4, 1.0, "ascent", "relu"),
        )
    ]  # fmt: skip
    monkeypatch.setattr(sphere, "cells", lambda: small)
    data = sphere.compute(None, 1)
    check_table(data)
    assert data["centres"].shape[1] == 4
    for i, cell in enumerate(small):
        row = sphere.run(**cell)
        part = slice(data["first"][i], data["first"][i + 1])
        assert all(data[name][i] == value for name, value in cell.items())
        assert data["value"][i] == row["value"] and data["steps"][i] == row["steps"]
        assert np.allclose(data["masses"][part], row["masses"], atol=1e-6)
        assert np.allclose(data["centres"][part, : cell["d"]], row["centres"], atol=1e-6)
    chosen = sphere.select(data, d=2, units="gelu")
    assert chosen.tolist() == [False, False, True, False]
    assert sphere.select(data, seed=1).sum() == 0


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
    assert settled["about"]["command"] == sphere.COMMAND
    assert re.fullmatch("[0-9a-f]{16}", settled["about"]["code"])
    assert sphere.FILE.stat().st_size < 2e6


@pytest.mark.slow
def test_stored_runs_are_not_stale(settled):
    for cell in (
        {"d": 2, "beta": 5.0, "direction": "ascent", "units": "gelu", "normalised": False},
        {"d": 3, "beta": 1.0, "direction": "descent", "units": "none", "normalised": True},
    ):
        (i,) = np.flatnonzero(sphere.select(settled, **cell))
        row = sphere.run(**cell)
        assert row["count"] == settled["count"][i]
        assert row["value"] == pytest.approx(settled["value"][i], rel=1e-9)
        part = slice(settled["first"][i], settled["first"][i + 1])
        assert np.allclose(np.sort(settled["masses"][part]), np.sort(row["masses"]), atol=1e-6)


def test_the_command_is_in_the_makefile():
    assert sphere.COMMAND.removeprefix("python ") in (ROOT / "Makefile").read_text()


# ---------------------------------------------------------------------------------------------
# the whole computations, in small


@pytest.fixture
def few_heads(monkeypatch):
    """A law of sixteen heads, and few cells."""
    law = Measure(propagation.law().atoms[:16])
    monkeypatch.setattr(propagation, "law", lambda: law)
    for name in ("reference", "continuous_reference"):
        monkeypatch.setattr(propagation, name, cache(getattr(propagation, name).__wrapped__))
    sizes = {
        "HEADS": (4, 16), "STEPS": (0.25,), "REPETITIONS": 2, "FLOWS": 2, "EULER_HEADS": 4,
        "NOISE_HEADS": (4,), "CONTINUOUS_HEADS": (4,), "CONTINUOUS_REFERENCE": 16,
    }  # fmt: skip
    for name, value in sizes.items():
        monkeypatch.setattr(propagation, name, value)


@pytest.mark.weekly
@pytest.mark.slow
def test_results_of_a_sweep_are_its_rows(few_heads):
    data = propagation.compute(None, 1)
    assert np.array_equal(data["reference"], propagation.reference())
    for i, M in enumerate((4, 16)):
        for seed in range(2):
            row = propagation.descent_row(M, 0.25, seed)
            assert np.allclose(data["descent_end"][i, 0, seed], row[-1], rtol=0, atol=1e-12)
            largest = np.abs(row).max(axis=0)
            assert np.allclose(data["descent_largest"][i, 0, seed], largest, rtol=0, atol=1e-12)
            row = propagation.flow_row(M, seed)
            assert np.array_equal(data["flow_signed"][i, seed], row[::4].astype(np.float32))
            assert np.array_equal(data["flow_largest"][i, seed], np.abs(row).max(axis=0))
    assert data["euler_largest"].shape == (2, 1, 5) and (data["euler_largest"] > 0).all()
    assert data["noise_largest"].shape == (1, 1, 2, 5) and (data["noise_largest"] > 0).all()
    assert data["continuous_signed"].shape == (1, 2, 9, 5)
    # an influence has mean zero, and no eigenvalue is larger than the norm
    assert data["influence"].shape == (7, 16)
    assert np.abs(data["influence"].mean(axis=1)).max() < 1e-12
    assert data["lipschitz"].shape == (9, 5)
    assert (data["lipschitz"][:, 0] <= data["lipschitz"][:, 1]).all()


def test_layers_of_a_sweep_are_parts_of_the_reference(monkeypatch):
    times, train = np.array([0.0, 1.0, 2.0]), text.train
    sizes = {
        "REFERENCE": 16, "HEADS": (8,), "BLOCKS": {8: 2}, "ORDERS": 2, "ORDER_HEADS": 8,
        "COMPARED": (0, 2), "initial": cache(text.initial.__wrapped__),
        "train": lambda M, block, order=0: train(M, block, order, times),
    }  # fmt: skip
    for name, value in sizes.items():
        monkeypatch.setattr(text, name, value)
    data = text.compute(None, 1)
    assert data["reference_bits"].shape == (3,) and data["quantiles_8"].shape == (2, 3, 64)
    # the first order is the one of all other layers
    assert np.allclose(data["order_bits"][0], data["bits_8"][0], rtol=1e-12)
    assert np.abs(data["order_bits"][0] - data["order_bits"][1]).max() > 1e-6
    # heads start together, up to the rounding of the stored ones, and go apart
    assert (data["reference_moved"][0] == 0).all()
    assert data["apart_8"][:, 0].max() < 1e-6 < 1e-3 < data["apart_8"][:, 1].min()


def test_command_line_stores_the_results(tmp_path, monkeypatch, capsys):
    file, asked = tmp_path / "data" / "small.npz", []

    def compute(folder, jobs):
        asked.append((folder, jobs))
        return {"x": np.arange(3)}

    monkeypatch.setattr(sys, "argv", ["small", "--jobs", "3"])
    _stored.main(file, "python -m small", ("measure",), "a moment", compute, corpus="abc")
    assert asked == [(".cache/small", 3)]
    assert "a moment; interrupt and call again to go on" in capsys.readouterr().out
    data = _stored.load(file)
    assert data["x"].tolist() == [0, 1, 2]
    about = {"command": "python -m small", "code": _stored.code_hash("measure"), "corpus": "abc"}
    assert about.items() <= data["about"].items()


@pytest.mark.parametrize("module", [propagation, sphere, text])
def test_command_says_what_it_stores_and_costs(module, monkeypatch):
    called = []
    monkeypatch.setattr(_stored, "main", lambda *args, **about: called.append(args))
    module.main()
    ((file, command, modules, cost, compute),) = called
    assert (file, command, compute) == (module.FILE, module.COMMAND, module.compute)
    assert modules == module.MODULES and "of one core" in cost
