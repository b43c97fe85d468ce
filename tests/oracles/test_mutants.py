"""Wrong versions of the package are found by the unit tests (``tools/mutants.py``)."""

import ast
import subprocess
import sys

import pytest
from wrong_mathematics import WRONG

from tools.chapters import ROOT
from tools.mutants import modules
from tools.mutate import Changes, mutants


@pytest.mark.weekly
@pytest.mark.slow
def test_mistakes_made_by_hand_are_noticed():
    done = subprocess.run(
        [sys.executable, "tools/mutants.py", "--hand"],
        cwd=ROOT, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_mistake_changes_one_place():
    assert len({wrong.what for wrong in WRONG}) == len(WRONG) >= 30
    for wrong in WRONG:
        source = modules()[wrong.module].read_text()
        assert ast.dump(wrong.tree(source)) != ast.dump(ast.parse(source))


SOURCE = '''
LIMIT = 3


def f(x, y=0.5):
    """Words with 1 < 2 are left alone."""
    if x < 0:
        raise ValueError(f"x: expected >= {0}, got {x - 1}")
    a = g(x, y) + x.T
    a += 2 * x
    show(a)
    return [i for i in range(x) if not i]
'''


def test_changes_that_are_made_where_they_are_said_to_be():
    found = mutants(SOURCE, "module")
    assert {(m.before, m.after) for m in found} == {
        ("3", "4"), ("0.5", "1.0"), ("x < 0", "x <= 0"), ("0", "1"),
        ("g(x, y) + x.T", "g(x, y) - x.T"), ("g(x, y) + x.T", "g(x, y)"),
        ("g(x, y)", "g(y, x)"), ("x.T", "x"), ("a += 2 * x", "a -= 2 * x"),
        ("2 * x", "2 / x"), ("2 * x", "2"), ("2", "3"), ("show(a)", "(deleted)"),
        ("range(x)", "range(x - 1)"), ("not i", "i"),
    }  # fmt: skip
    trees = [ast.dump(Changes(SOURCE, "module").make(m.index)) for m in found]
    assert len({ast.dump(ast.parse(SOURCE)), *trees}) == 1 + len(found)
    deleted = next(m for m in found if m.after == "(deleted)")
    assert deleted.lines == (11, 11) and deleted.function == "f"
    # results are kept by key, which other functions do not change
    more = SOURCE.replace("LIMIT = 3", "def g(x):\n    return x + 1")
    assert {m.key for m in found if m.function} <= {m.key for m in mutants(more, "module")}


LEFT_OUT = """
BLOCK, TIE = 64, 1
BLOCK = 64
NOISE = 1e-12


def f(x, bar, tolerance=1e-8, steps=0):
    for part in blocks(len(x), BLOCK // (2 * steps)):
        bar.update(part - bar.n)
    for _ in range(40):
        y = g(x, maxiter=7, options={"maxiter": 100, "size": 3})
    if y.size:
        wrong = y[0]
        raise ValueError(f"x: {wrong}")
    if y <= 4 * np.finfo(float).eps or y == NOISE:
        y = z < NOISE
    return y <= tolerance, steps > 0, y < 1e-9 * z
"""


def test_classes_of_changes_that_make_no_difference_are_left_out():
    assert {(m.before, m.after) for m in mutants(LEFT_OUT, "module")} == {
        ("1e-08", "2e-08"), ("0", "1"), ("7", "8"), ("3", "4"), ("y.size", "not y.size"),
        ("1e-09 * z", "1e-09 / z"), ("1e-09 * z", "1e-09"), ("y == NOISE", "y != NOISE"),
        ("4 * np.finfo(float).eps", "4 / np.finfo(float).eps"), ("4 * np.finfo(float).eps", "4"),
        ("blocks(len(x), BLOCK // (2 * steps))", "blocks(BLOCK // (2 * steps), len(x))"),
        ("y <= 4 * np.finfo(float).eps or y == NOISE",
         "y <= 4 * np.finfo(float).eps and y == NOISE"),
        ("y <= tolerance", "y < tolerance"), ("steps > 0", "steps >= 0"),
    }  # fmt: skip


def test_a_method_is_compiled_in_its_class():
    source = "class A:\n    x = 1\n\n    def f(self):\n        return self.x + 1\n"
    tree = Changes(source, "module").make(0)
    assert ast.unparse(tree).split() == "class A: def f(self): return self.x - 1".split()
