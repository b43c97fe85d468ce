"""The same numbers again: on other versions, with other threads and workers; with equal seeds.

Deviations are largest absolute differences within an entry over its largest absolute value, see
tools/reproduce.py. What may differ is the order of sums, so 1e-8 is far above rounding (largest
deviation seen: 1e-12) and far below any change of a formula. ``make matrix`` does the same in
environments with the oldest and the newest versions.
"""

import os
import subprocess
import sys

import nbformat
import numpy as np
import pytest

from mfbook.measure import Measure
from mfbook.models.network import TwoLayerRisk
from mfbook.models.sphere import SphereEnergy
from mfbook.models.tokens import TokenEnergy
from mfbook.space import Sphere
from tools import reproduce, run_notebooks
from tools.chapters import ROOT

NETWORK = TwoLayerRisk(np.random.default_rng(2).normal(size=(500, 4)), np.arange(500) / 500)

#: Groups whose numbers come from seeds.
SEEDED = ("measures", "descent", "distances", "exercises", "minimiser")


@pytest.fixture(scope="module")
def here() -> dict:
    """Numbers of this environment, as the tests run: with one thread."""
    return reproduce.numbers()


def worst(found: dict, stored: dict) -> str:
    """The entry that deviates most, with its deviation; empty if all agree."""
    errors = reproduce.deviations(found, stored)
    name = max(errors, key=errors.get)
    return f"{name}: {errors[name]:.2g}" if errors[name] > reproduce.TOLERANCE else ""


def test_numbers_are_the_stored_ones(here):
    assert sum(map(len, here.values())) > 500
    assert worst(here, reproduce.load()) == ""


def test_a_deviation_is_found():
    stored = {"a": [3.0, 4.0], "b": [0.0], "c": [1.0]}
    assert worst({**stored, "a": [3.0, 4.0 + 2e-8]}, stored) == ""
    for name, change in (("a", [3.0 + 8e-8, 4.0]), ("b", [2e-8]), ("c", [np.nan]),
                         ("c", [1.0, 1.0]), ("c", []), ("new", [1.0])):  # fmt: skip
        assert worst({**stored, name: change}, stored).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["attention", "network", "sphere", "tokens"])
def test_many_points_and_atoms_are_sums_over_few(name):
    """More than is computed at once, asked together and in parts."""
    rng = np.random.default_rng(0)
    n, F, draw = {
        "attention": (150, reproduce.risk(), lambda n: rng.normal(size=(n, 60)) / 2),
        "network": (3000, NETWORK, lambda n: rng.normal(size=(n, 6))),
        "sphere": (3000, SphereEnergy(3.0), lambda n: Sphere().sample(rng, n, 3)),
        "tokens": (700, TokenEnergy(0.5), lambda n: rng.normal(size=(n, 3)) / 2),
    }[name]
    mu, x = Measure(draw(n), rng.dirichlet(np.ones(n))), draw(n)
    local = F.at(mu)
    parts = np.array_split(x, 7)
    for ask in (local.first_variation, local.gradient):
        few = np.concatenate([ask(part) for part in parts])
        assert np.abs(ask(x) - few).max() < 1e-12 * np.abs(few).max()
    order = rng.permutation(n)
    other = F.at(Measure(mu.atoms[order], mu.weights[order]))
    assert other.value == pytest.approx(local.value, rel=1e-11)
    own = local.gradient(mu.atoms)[order]
    assert np.abs(other.gradient(mu.atoms[order]) - own).max() < 1e-10 * np.abs(own).max()


def test_the_same_seeds_give_the_same_bytes(here):
    for name, again in reproduce.numbers(SEEDED).items():
        assert again.tobytes() == here[name].tobytes(), name


def test_check_of_notebooks_sees_a_change(tmp_path, capsys):
    path = tmp_path / "01-x.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1", id="sum")])
    path.write_text(nbformat.writes(notebook) + "\n")
    path.write_text(run_notebooks.execute(path).text)
    before = path.read_bytes()
    assert run_notebooks.check(path) == []
    path.write_bytes(wrong := before.replace(b'"2"', b'"3"'))
    with pytest.raises(SystemExit):
        run_notebooks.main(["--check", str(path)])
    assert path.read_bytes() == wrong, "a check writes nothing"
    assert "differs in 01-x.ipynb" in capsys.readouterr().out


@pytest.mark.weekly
@pytest.mark.slow
def test_threads_of_linear_algebra_do_not_matter(tmp_path):
    """The stored numbers were made with one thread."""
    two = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run(
        [sys.executable, "tools/reproduce.py", "--output", tmp_path / "two"],
        cwd=ROOT, env={**os.environ, **two}, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert worst(reproduce.load(tmp_path / "two"), reproduce.load()) == ""
