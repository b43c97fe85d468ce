"""Fuzzing of every public callable: the same answer to the same question, or a clear refusal."""

import time
import zlib
from collections import Counter

import fuzzing
import numpy as np
import pytest
from fuzzed import CASES, EXCLUDED, public_names, records
from fuzzing import Case, array, problem, valid
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mfbook import _validate as validate

#: Examples of one callable: among the units, and in the full run for each of its arguments.
FEW, MANY = 4, 16
#: Examples of the full run, as the project promises them.
PROMISED = 10_000


def fuzz(name: str, examples: int) -> int:
    """Try so many changes of the arguments of one case, one or two at a time."""
    case, count = CASES[name], 0
    change = st.sampled_from(case.changes())
    changes = st.one_of(st.tuples(change), st.tuples(change), st.tuples(change, change))

    # explaining takes as long as finding: the changes of a failure are few anyway
    @settings(
        max_examples=examples, phases=(Phase.generate, Phase.shrink), deadline=None,
        suppress_health_check=list(HealthCheck), database=None,
    )  # fmt: skip
    @seed(zlib.crc32(name.encode()))
    @given(changes)
    def run(changed):
        nonlocal count
        count += 1
        wrong = problem(case, dict(changed))
        described = {argument: change.name for argument, change in changed}
        assert wrong is None, f"{name}({described}): {wrong}"

    run()
    return count


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A text may be taken for a path: nothing is written where the tests run."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_some_changes(name):
    valid(CASES[name])
    if CASES[name].arguments:
        fuzz(name, FEW)


def _grows(x):
    x = np.asarray(x, float)
    x += 1
    return x.sum()


def _draws(x):
    return np.random.permutation(checked(x)).sum()


def _sleeps(x):
    time.sleep(60)


def checked(x):
    return validate.array(x, "x", ("n",))


#: Functions with one fault each, and what is said of it.
FAULTY = {
    "no check": (lambda x: np.sum(x), "names no argument"),
    "another exception": (lambda x: {3: 1.0}[len(checked(x))], "KeyError"),
    "a warning": (lambda x: (checked(x) ** 4).sum(), "RuntimeWarning"),
    "not a number": (lambda x: np.sqrt(np.abs(x)).sum() * (np.nan if x[0] > 2 else 1), "not a n"),
    "another type": (lambda x: checked(x).sum() if x[0] > 0 else None, "a NoneType for"),
    "layout": (lambda x: np.frombuffer(np.asarray(x).data.tobytes()[:8]).sum(), " for "),
    "the caller's array": (_grows, "x was changed"),
    "global randomness": (_draws, "state of the process"),
    "a hang": (_sleeps, "longer than"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faults_are_noticed(fault, monkeypatch):
    monkeypatch.setattr(fuzzing, "LIMIT", 0.2)
    call, said = FAULTY[fault]
    case = Case(call, {"x": array([1.0, 2.0, 4.0])}, "")
    found = set()
    for name, change in case.changes()[:: 1 if fault != "a hang" else 1000]:
        try:
            found.add(problem(case, {name: change}))
        except AssertionError as error:  # the valid call shows it already
            found.add(str(error))
    assert any(said in str(text) for text in found)


def test_a_function_without_faults_has_none():
    case = Case(lambda x: float(checked(x).max()), {"x": array([1.0, 2.0, 4.0])}, "")
    assert {problem(case, {name: change}) for name, change in case.changes()} == {None}


def test_every_public_name_is_fuzzed():
    missing = set(public_names()) - CASES.keys() - EXCLUDED.keys() - records()
    assert not missing
    assert not EXCLUDED.keys() & CASES.keys()
    assert EXCLUDED.keys() <= set(public_names())


@pytest.mark.slow
@pytest.mark.by_turn
def test_ten_thousand_changes(capsys):
    counts = Counter()
    for name, case in CASES.items():
        if case.arguments:
            counts[name] = fuzz(name, max(1, round(MANY * case.share * len(case.arguments))))
    with capsys.disabled():
        print(f"\n{counts.total()} examples of {len(counts)} callables", end=" ")
    assert counts.total() >= PROMISED
