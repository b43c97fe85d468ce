"""Random rounding changes last bits, and the digits that depend on them are found."""

import os
import subprocess
import sys

import nbformat
import pytest

from tools import rounding
from tools.chapters import BOOK, ROOT

# Runs in a process of its own: rounding stays changed to the end of a process.
ROUNDED = """
import sys
import numpy as np
plain = {name: getattr(np, name) for name in ("exp", "matmul")}
from tools import rounding
rounding.install(int(sys.argv[1]))
from companion.mathematics.tokens import TokenEnergy  # its operators are rewritten
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
                             env={**os.environ, "PYTHONPATH": str(BOOK)},
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
    found = [rounding.differences(path, seed) for seed in (1, 2)]
    assert [set(cells) for cells in found] == [{"unknown", "error"}] * 2
    assert found[0]["unknown"] != found[1]["unknown"]


@pytest.mark.weekly
@pytest.mark.parametrize("name", ["09-splitting", "a3-minimisers"])
def test_a_chapter_shows_the_same_digits(name):
    """Of the shortest; ``make rounding`` has all chapters."""
    assert not rounding.differences(BOOK / f"{name}.ipynb", 1)
