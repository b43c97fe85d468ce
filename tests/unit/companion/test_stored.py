"""Stored results are those of the program: a row of each file is computed again, every time."""

import numpy as np
import pytest

from companion.experiments import cascade, propagation, sphere, text
from companion.tasks import corpus_hash
from tools.chapters import ROOT


def of_cascade(stored):
    """A cascade of three rounds and its infimum."""
    share, task = 0.5, 0
    i, one = cascade.SHARES.index(share), np.array([task])
    _, values = cascade.cascade(share, one, rounds=3)
    upper, lower = cascade.infimum(share, one)
    yield "value", values[:, 0], stored["value"][i, :3, task], 1e-6
    yield "infimum", upper[0], stored["infimum"][i, task], 1e-6
    yield "infimum_low", lower[0], stored["infimum_low"][i, task], 1e-6


def of_propagation(stored):
    """A descent and a flow of 16 heads, and the solution that both are compared with."""
    M, j, seed = 16, 0, 7
    i, descent = propagation.HEADS.index(M), propagation.descent_row(M, propagation.STEPS[j], seed)
    flow = propagation.flow_row(M, seed)
    yield "reference", propagation.reference(), stored["reference"], 1e-8
    yield "descent_largest", abs(descent).max(axis=0), stored["descent_largest"][i, j, seed], 1e-8
    yield "flow_largest", abs(flow).max(axis=0), stored["flow_largest"][i, seed], 1e-7
    yield "flow_signed", flow[::4], stored["flow_signed"][i, seed], 1e-6


def of_text(stored):
    """A layer of eight heads."""
    if stored["about"]["corpus"] != corpus_hash():
        pytest.skip("this Python ships another text")
    row = text.row(8, 3)
    yield "bits_8", row["bits"], stored["bits_8"][3], 1e-6
    yield "quantiles_8", row["quantiles"], stored["quantiles_8"][3], 1e-5


def of_sphere(stored):
    """A run of the published draw, the clusters at its end, and a run of the second draw."""
    cell = {"d": 2, "beta": 5.0, "direction": "ascent", "units": "gelu", "normalised": False}
    (i,) = np.flatnonzero(sphere.select(stored, **cell))
    for name, found in sphere.second(**cell).items():
        yield name, found, stored[name][i], 1e-6
    source = sphere.load("source")
    (i,) = np.flatnonzero(sphere.select(source, **cell))
    row, part = sphere.published(**cell), slice(source["first"][i], source["first"][i + 1])
    for name in ("count", "time", "steps", "stopped", "value", "dead_start", "dead"):
        yield name, row[name], source[name][i], 1e-6
    for name in ("masses", "centres", "asleep"):
        yield name, row[name], source[name][part], 1e-5


ROWS = {
    cascade: of_cascade, propagation: of_propagation, text: of_text, sphere: of_sphere,
}  # fmt: skip


@pytest.mark.parametrize("experiment", ROWS, ids=lambda module: module.FILE.name)
def test_a_row_computed_again_is_the_stored_one(experiment):
    for name, found, kept, tolerance in ROWS[experiment](experiment.load()):
        found, kept = np.asarray(found, float), np.asarray(kept, float)
        scale = max(1.0, np.abs(kept).max())
        assert found.shape == kept.shape and np.abs(found - kept).max() <= tolerance * scale, (
            f"{name} in {experiment.FILE.name} is not what the program computes: "
            f"{experiment.COMMAND} computes the file again"
        )


def test_every_file_has_a_row():
    files = {path.name for path in propagation.FILE.parent.glob("*.npz")}
    assert files == {module.FILE.name for module in ROWS}
    for module in ROWS:
        assert module.load()["about"]["command"] == module.COMMAND
        assert module.COMMAND.removeprefix("python ") in (ROOT / "Makefile").read_text()
