"""The same numbers: asked together or in parts, and in a chapter that runs again."""

import nbformat
import numpy as np
import pytest

from companion.mathematics.network import TwoLayerRisk
from companion.mathematics.tokens import TokenEnergy
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere import SphereEnergy
from tools import run_notebooks

NETWORK = TwoLayerRisk(np.random.default_rng(2).normal(size=(500, 4)), np.arange(500) / 500)


def attention() -> AttentionRisk:
    """Heads of 60 numbers on 8 sequences of 5 tokens."""
    rng = np.random.default_rng(3)
    X, W_U = rng.normal(size=(8, 5, 5)), rng.normal(size=(5, 6))
    return AttentionRisk(X, rng.dirichlet(np.ones(6), (8, 5)), W_U, HeadShape(5, 3, 3))


@pytest.mark.parametrize("name", ["attention", "network", "sphere", "tokens"])
def test_many_points_and_atoms_are_sums_over_few(name):
    """More than is computed at once, asked together and in parts."""
    rng = np.random.default_rng(0)
    n, F, draw = {
        "attention": (150, attention(), lambda n: rng.normal(size=(n, 60)) / 2),
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
