"""The experiments whose results are stored: their rows, their files, and a file that is stale."""

import json
import re

import numpy as np
import pytest

from mfbook.experiments import propagation, text
from mfbook.flow import gradient_flow
from mfbook.measure import Measure
from mfbook.tasks import corpus_hash
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
@pytest.mark.parametrize("M, j, seed", [(16, 4, 49), (64, 7, 10), (256, 3, 31), (2048, 0, 7)])
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
