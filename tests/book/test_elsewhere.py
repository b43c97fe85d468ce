"""Other machines made on this one: random rounding, older processors, and a chapter on them."""

import json
import platform
import subprocess
import sys

import nbformat
import pytest

from tools import rounding
from tools.chapters import ROOT, chapters
from tools.elsewhere import Machine, Outcome, compare, machines, table
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
print(repr(float(TokenEnergy()(Measure(rng.normal(size=(40, 3)))))))
"""


@pytest.mark.slow
def test_random_rounding_changes_last_bits_and_nothing_else():
    one, again, other = (
        float(subprocess.run([sys.executable, "-c", ROUNDED, seed], cwd=ROOT, check=True,
                             capture_output=True, text=True, timeout=300).stdout)
        for seed in "112"
    )  # fmt: skip
    assert one == again, "the same seed, the same errors"
    assert 0 < abs(other / one - 1) < 1e-13, "the package computes with other last bits"


def test_rounding_comes_before_the_package():
    import mfbook  # noqa: F401

    with pytest.raises(RuntimeError, match="mfbook is imported already"):
        rounding.install(1)


#: Digits that are known, digits that are not, a bound on those, and an error.
CELLS = {
    "known": ("import numpy as np\nprint(f'{np.exp(1.0):.6f}')", "2.718282\n"),
    "unknown": ("x = np.exp(np.linspace(1, 2, 50))\n"
                "print(f'{abs(np.log(x) - np.linspace(1, 2, 50)).sum():.3e}')", "1.234e-15\n"),
    "bound": ("print(abs(np.log(x) - np.linspace(1, 2, 50)).max() <= 1e-14)", "True\n"),
    "error": ("print(np.nothing)", "0.5\n"),
}  # fmt: skip


@pytest.mark.slow
def test_digits_that_rounding_changes_and_errors_are_found(tmp_path):
    path, new = tmp_path / "99-x.ipynb", nbformat.v4
    nbformat.write(new.new_notebook(cells=[
        new.new_code_cell(source, id=name, execution_count=i,
                          outputs=[new.new_output("stream", name="stdout", text=text)])
        for i, (name, (source, text)) in enumerate(CELLS.items(), 1)
    ]), path)  # fmt: skip
    found = [compare(path, Machine("rounding", seed=seed)) for seed in (1, 2)]
    assert [set(outcome.differences) for outcome in found] == [{"unknown", "error"}] * 2
    assert found[0].differences["unknown"] != found[1].differences["unknown"]
    assert found[0].cells == 4


@pytest.mark.slow
def test_cells_on_another_text_are_executed_and_not_compared(tmp_path, monkeypatch):
    path, new = tmp_path / "99-x.ipynb", nbformat.v4
    sources = {"here": "print(0.5)", "text": "print(0.7)", "broken": "print(0.5 / 0)"}
    nbformat.write(new.new_notebook(cells=[
        new.new_code_cell(source, id=name, execution_count=i,
                          metadata={} if name == "here" else {"tags": ["corpus"]},
                          outputs=[new.new_output("stream", name="stdout", text="0.5\n")])
        for i, (name, source) in enumerate(sources.items(), 1)
    ]), path)  # fmt: skip
    for reason, differing, cells in ((None, {"text", "broken"}, 3), ("another", {"broken"}, 1)):
        monkeypatch.setattr("tools.elsewhere.corpus_difference", lambda reason=reason: reason)
        found = compare(path, Machine("here"))
        assert (set(found.differences), found.cells) == (differing, cells)


def test_machines_have_names_of_their_own():
    found = {machine.name: machine for machine in machines()}
    assert len(found) == len(machines()) and found["here"] == Machine("here")
    assert [found[f"rounding {seed}"].seed for seed in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates processors of this kind")
def test_numpy_takes_the_processor_that_is_named():
    code = "import json, numpy; print(json.dumps(numpy.show_config('dicts')['SIMD Extensions']))"
    old = [m for m in machines() if "NPY_DISABLE_CPU_FEATURES" in m.variables]
    for machine in old:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], env=machine.variables,
            capture_output=True, text=True,
        )  # fmt: skip
        without = machine.variables["NPY_DISABLE_CPU_FEATURES"].split()
        assert done.returncode == 0, done.stderr
        assert not set(without) & set(json.loads(done.stdout).get("found", []))


def test_the_table_counts_cells():
    outcomes = {
        ("02-x", "here"): Outcome(3, {}), ("02-x", "SSE"): Outcome(3, {"a": "b", "c": "d"}),
        ("01-y", "here"): Outcome(4, {}), ("01-y", "SSE"): Outcome(4, {"a": "b"}),
    }  # fmt: skip
    assert table(["here", "SSE"], outcomes).splitlines()[2:] == [
        "| 01-y | 4 | 0 | 1 |", "| 02-x | 3 | 0 | 2 |", "| all | 7 | 0 | 3 |",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_chapter_shows_the_same_digits_elsewhere():
    """By turns one of the shortest on the oldest processor, or Chapter 2 under random rounding.

    ``make elsewhere`` has all chapters on all machines.
    """
    round_of, third = divmod(turn() or 0, 3)
    if third == 0:
        name, machine = "02-model", Machine("rounding", seed=1 + round_of % 3)
    else:
        name = ("d3-splitting", "d5-two-layers", "d6-atoms")[round_of % 3]
        machine = machines()[-1]
    path = next(path for path in chapters() if path.stem == name)
    found = compare(path, machine, pictures=False).differences
    assert not found, f"{name}, {machine}: {found}"
