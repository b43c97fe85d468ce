"""Other machines made on this one: random rounding, older processors, and a chapter on them."""

import json
import platform
import subprocess
import sys

import nbformat
import pytest

from tools.chapters import ROOT, chapters
from tools.elsewhere import Machine, Outcome, compare, instructions, machines, table
from tools.turns import turn

# Runs in a process of its own: rounding stays changed to the end of a process.
ROUNDED = """
import sys
import numpy as np
plain = {name: getattr(np, name) for name in ("exp", "matmul")}
from tools import rounding
rounding.install(int(sys.argv[1]))
from mfbook.models.tokens import TokenEnergy  # its operators are rewritten
from mfbook.measure import Measure

rng = np.random.default_rng(0)
x = rng.normal(size=2000)
off = np.exp(x) / plain["exp"](x) - 1
assert 0 < np.abs(off).max() <= 2**-51, "last bits differ, and no others"
assert 0.5 < (off != 0).mean() < 0.8, "two results of three"
turned = np.ascontiguousarray(x[::-1])
assert (np.exp(x) == np.exp(turned)[::-1]).all(), "a function stays a function"
assert (np.sinh(-x) == -np.sinh(x)).all() and (np.cos(-x) == np.cos(x)).all()
assert np.power(2.0, -np.arange(9)).tolist() == [1 / 2**k for k in range(9)]
assert np.exp(0.0) == 1 and np.log(1.0) == 0 and np.cos(0.0) == 1, "what is exact stays exact"
assert np.exp(x.astype(np.float32)).dtype == np.float32
A = rng.normal(size=(7, 30))
for product in (np.matmul(A, A.T), np.dot(A, A.T), np.einsum("ik,jk->ij", A, A)):
    assert (product == product.T).all(), "a symmetric product stays symmetric"
    assert 0 < np.abs(product - plain["matmul"](A, A.T)).max() < 1e-13
# what cancels leaves another rest, of the size that the order of a sum gives
rest = np.matmul(A, np.linalg.qr(A.T, mode="complete")[0][:, 7:])
assert 1e-18 < np.abs(rest).max() < 1e-13
assert (np.matmul(np.arange(6.0).reshape(2, 3), np.eye(3)) == [[0, 1, 2], [3, 4, 5]]).all()
out = np.empty(3)
assert np.exp(x[:3], out=out) is out and (out == np.exp(x[:3])).all()
assert isinstance(np.exp(1.0), float) and np.exp(1 + 1j).imag != 0
assert np.exp.nin == 1 and repr(np.exp) == "<ufunc 'exp'>"
value = TokenEnergy()(Measure(rng.normal(size=(40, 3))))
print(repr(float(value)))
"""


def values(seeds):
    return [
        subprocess.run([sys.executable, "-c", ROUNDED, str(seed)], cwd=ROOT, check=True,
                       capture_output=True, text=True, timeout=300).stdout
        for seed in seeds
    ]  # fmt: skip


@pytest.mark.slow
def test_random_rounding_changes_last_bits_and_nothing_else():
    one, again, other = map(float, values([1, 1, 2]))
    assert one == again, "the same seed, the same errors"
    assert 0 < abs(other / one - 1) < 1e-13, "the package computes with other last bits"


def test_rounding_comes_before_the_package():
    import mfbook  # noqa: F401
    from tools import rounding

    with pytest.raises(RuntimeError, match="mfbook is imported already"):
        rounding.install(1)


@pytest.fixture
def notebook(tmp_path):
    """Three cells: digits that are known, digits that are not, and a bound on those."""
    cells = [
        ("known", "import numpy as np\nprint(f'{np.exp(1.0):.6f}')", "2.718282\n"),
        ("unknown", "x = np.exp(np.linspace(1, 2, 50))\n"
                    "print(f'{abs(np.log(x) - np.linspace(1, 2, 50)).sum():.3e}')", "1.234e-15\n"),
        ("bound", "print(abs(np.log(x) - np.linspace(1, 2, 50)).max() <= 1e-14)", "True\n"),
    ]  # fmt: skip
    nb = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_code_cell(
            source, id=name, execution_count=i,
            outputs=[nbformat.v4.new_output("stream", name="stdout", text=text)],
        )
        for i, (name, source, text) in enumerate(cells, 1)
    ])  # fmt: skip
    path = tmp_path / "99-x.ipynb"
    nbformat.write(nb, path)
    return path


@pytest.mark.slow
def test_digits_that_rounding_changes_are_found(notebook):
    found = [compare(notebook, Machine("rounding", seed=seed)) for seed in (1, 2)]
    assert [set(outcome.differences) for outcome in found] == [{"unknown"}] * 2
    assert found[0].differences["unknown"] != found[1].differences["unknown"]
    assert found[0].cells == 3


@pytest.mark.slow
def test_an_error_on_another_machine_is_a_difference(notebook):
    text = notebook.read_text().replace("abs(np.log(x)", "abs(np.unknown(x)")
    notebook.write_text(text)
    assert "unknown" in compare(notebook, Machine("here")).differences


def test_machines_have_names_of_their_own_and_old_ones_need_little():
    found = {machine.name: machine for machine in machines()}
    assert len(found) == len(machines()) and found["here"] == Machine("here")
    assert [found[f"rounding {seed}"].seed for seed in (1, 2, 3)] == [1, 2, 3]
    if platform.machine() == "x86_64":
        old = found["SSE"].variables
        assert set(instructions()) == set(old.get("NPY_DISABLE_CPU_FEATURES", "").split())
        assert "-AVX2" in old["GLIBC_TUNABLES"] and old["OPENBLAS_CORETYPE"] == "Prescott"
        assert len(found) >= 6


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates processors of this kind")
def test_numpy_takes_the_processor_that_is_named():
    code = "import json, numpy; print(json.dumps(numpy.show_config('dicts')['SIMD Extensions']))"
    for machine in machines():
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], env=machine.variables,
            capture_output=True, text=True,
        )  # fmt: skip
        without = machine.variables.get("NPY_DISABLE_CPU_FEATURES", "").split()
        assert done.returncode == 0, done.stderr
        assert not set(without) & set(json.loads(done.stdout).get("found", []))


def test_the_table_counts_cells():
    outcomes = {
        ("02-x", "here"): Outcome(3, {}),
        ("02-x", "SSE"): Outcome(3, {"a": "b", "c": "d"}),
        ("01-y", "here"): Outcome(4, {}),
        ("01-y", "SSE"): Outcome(4, {"a": "b"}),
    }
    assert table(["here", "SSE"], outcomes).splitlines() == [
        "| chapter | cells | here | SSE |",
        "| --- | ---: | ---: | ---: |",
        "| 01-y | 4 | 0 | 1 |",
        "| 02-x | 3 | 0 | 2 |",
        "| all | 7 | 0 | 3 |",
    ]


def same_digits(path, machine):
    found = compare(path, machine).differences
    assert not found, f"{path.name}, {machine}: " + "\n".join(
        f"{cell}: {what}" for cell, what in found.items()
    )


@pytest.mark.slow
def test_a_chapter_shows_the_same_digits_elsewhere():
    """By turns a short chapter on the oldest processor, or Chapter 2 under random rounding.

    ``make elsewhere`` has all chapters on all machines.
    """
    day = turn() or 0
    if day % 2:
        name = ("01-introduction", "03-assumptions", "04-static")[day // 2 % 3]
        machine = machines()[-1]
    else:
        name = "02-model"
        machine = Machine("rounding", seed=1 + day // 2 % 3)
    same_digits(next(path for path in chapters() if path.stem == name), machine)
