"""Fuzzing of every public callable: the same answer to the same question, or a clear refusal."""

import random
import time
import zlib
from collections import Counter

import fuzzing
import numpy as np
import pytest
from fuzzed import CASES, EXCLUDED, MISSING, case, public
from fuzzing import Case, array, problem, valid

from mfbook.measure import Measure

#: Examples of one callable: among the units, and in the full run for each of its arguments.
FEW, MANY = 4, 16
#: Examples of the full run, as the project promises them.
PROMISED = 10_000


def fuzz(name: str, examples: int) -> int:
    """Try so many changes of the arguments of one case, one or two at a time."""
    changes, draw = CASES[name].changes(), random.Random(zlib.crc32(name.encode()))
    for _ in range(examples):
        changed = draw.sample(changes, draw.choice((1, 1, 2)))
        # where two fail together, one may fail alone
        for tried in [[c] for c in changed] if problem(CASES[name], dict(changed)) else []:
            assert_right(name, tried)
        assert_right(name, changed)
    return examples


def assert_right(name, changed):
    wrong = problem(CASES[name], dict(changed))
    described = {argument: change.name for argument, change in changed}
    assert wrong is None, f"{name}({described}): {wrong}"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A text may be taken for a path: nothing is written where the tests run."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_some_changes(name):
    valid(CASES[name])
    if CASES[name].arguments:
        fuzz(name, FEW)


def test_no_argument_may_be_an_object_of_no_kind():
    for name, one in CASES.items():
        for argument, change in one.changes():
            if change.name.startswith("Opaque <"):
                assert_right(name, [(argument, change)])


def checked(theta):
    return Measure.dirac(theta).atoms[0]


def grows(theta):
    theta = np.asarray(theta, float)
    theta += 1
    return theta.sum()


def draws(theta):
    return np.random.permutation(checked(theta)).sum()


def undefined(theta):
    return np.sqrt(np.abs(theta)).sum() * (np.nan if theta[0] > 2 else 1)


#: Functions with one fault each, and what is said of it.
FAULTY = {
    "no check": (lambda theta: np.sum(theta), "names no argument"),
    "another exception": (lambda theta: {3: 1.0}[len(checked(theta))], "KeyError"),
    "a warning": (lambda theta: (checked(theta) ** 4).sum(), "RuntimeWarning"),
    "not a number": (undefined, "not a number"),
    "another type": (
        lambda theta: checked(theta).sum() if theta[0] > 0 else None,
        "a NoneType for",
    ),
    "layout": (lambda theta: np.frombuffer(np.asarray(theta).data.tobytes()[:8]).sum(), " for "),
    "the caller's array": (grows, "theta was changed"),
    "global randomness": (draws, "state of the process"),
    "a hang": (lambda theta: time.sleep(60), "longer than"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faults_are_noticed(fault, monkeypatch):
    monkeypatch.setattr(fuzzing, "LIMIT", 0.2)
    call, said = FAULTY[fault]
    one = Case(call, {"theta": array([1.0, 2.0, 4.0])})
    found = set()
    for name, change in one.changes()[:: 1 if fault != "a hang" else 1000]:
        try:
            found.add(problem(one, {name: change}))
        except AssertionError as error:  # the valid call shows it already
            found.add(str(error))
    assert any(said in str(text) for text in found)


def test_a_function_without_faults_has_none():
    one = Case(lambda theta: float(checked(theta).real.max()), {"theta": array([1.0, 2.0, 4.0])})
    assert {problem(one, {name: change}) for name, change in one.changes()} == {None}


def test_every_public_name_is_fuzzed():
    assert not MISSING, "\n".join(MISSING)
    assert not EXCLUDED.keys() & CASES.keys()
    for name in EXCLUDED:
        assert name in public() or name.rpartition(".")[0].removesuffix(".at()") in public()
    new = case("stability.new", lambda F, mu, tolerance=1e-3: F(mu) > tolerance, None)
    assert new.arguments.keys() == {"F", "mu", "tolerance"} and valid(new) is not None
    with pytest.raises(LookupError, match="stability.new: no valid 'nonsense'; add one to VALUES"):
        case("stability.new", lambda nonsense: nonsense, None)


@pytest.mark.slow
@pytest.mark.by_turn
def test_ten_thousand_changes(capsys):
    counts = Counter()
    for name, one in CASES.items():
        if one.arguments:
            counts[name] = fuzz(name, max(1, round(MANY * one.share * len(one.arguments))))
    with capsys.disabled():
        print(f"\n{counts.total()} examples of {len(counts)} callables", end=" ")
    assert counts.total() >= PROMISED
