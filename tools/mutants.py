"""Run the unit tests against small wrong versions of the package, and count what they find.

``make mutants`` makes one change at a time (``tools/mutate.py``) and runs the unit tests that
execute the changed line, quick ones first, until one fails. A change that no test notices has
survived. The tests are collected once; each change runs in a forked process, where it replaces the
code of the functions that are already imported. Results are kept in ``.cache/mutants``, so that a
run that was interrupted goes on; a change is tried again when its function has changed, and a
survivor when the tests have.

Changes of amounts of work, of tolerances in the body of a function, of the most iterations, and of
what is only shown are left out, each as a class: ``tools/mutate.py`` says which and why. What is
left out is found from the text alone; no single change can be.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import fnmatch
import functools
import gc
import hashlib
import json
import math
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
import types
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "oracles")]

from wrong_mathematics import WRONG, Wrong  # noqa: E402

from tools.mutate import Changes, Mutant, mutants  # noqa: E402

FOLDER = ROOT / ".cache" / "mutants"
# The chapters' tests are not asked.
TESTS = ["tests/unit", "tests/properties", "tests/oracles", "mfbook"]
# Drawing and the stored experiments: their tests are those of the book, not unit tests.
LEFT_OUT = ("mfbook.book.plots*", "mfbook.book.experiments*")
#: Bytes of address space of one process: a change that asks for more has been noticed.
MEMORY = 16 * 2**30
#: Statuses of a change that was noticed: a test failed, did not end, or nothing could be defined.
FOUND = {"killed", "stopped", "undefined"}
#: Exit statuses of the process that tries one change.
NOTICED, UNDEFINED = 10, 11
#: Share of the mechanical mutants that unit tests have to notice.
ENOUGH = 0.9


def modules() -> dict[str, Path]:
    """Names and files of the modules that are changed."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in sorted((ROOT / "mfbook").rglob("*.py"))
        if path.name != "__init__.py"
    }
    return {n: p for n, p in files.items() if not any(fnmatch.fnmatch(n, x) for x in LEFT_OUT)}


class Runner:
    """A pytest plugin that replaces the loop over tests by a loop over mutants."""

    def __init__(self, todo, sources, results, budget=20.0, workers=2, known=None):
        self.todo, self.sources, self.budget = todo, sources, budget
        self.workers, self.results, self.known = workers, results, known
        self.failed = False
        self.changes = {m.module: None for m in todo if isinstance(m, Mutant)}

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self.items = session.items
        self.functions, self.caches = _functions()
        gc.collect()
        gc.freeze()
        self.names = [item.nodeid for item in self.items]
        if self.known is None:
            self.lines, self.seconds = self._executed_lines()
        self.groups = [(i.path, getattr(i, "originalname", None) or i.name) for i in self.items]
        killers = defaultdict(Counter)
        index = {name: i for i, name in enumerate(self.names)}
        for row in self.results.known:
            if row["killer"] in index:
                killers[row["module"], row["function"]][index[row["killer"]]] += 1
        running, todo = {}, iter(self.todo)
        with tqdm(total=len(self.todo), unit="mutant", mininterval=2) as bar:
            while True:
                while len(running) < self.workers and (mutant := next(todo, None)) is not None:
                    tests = self._tests(mutant, killers[mutant.module, mutant.function])
                    running.update(self._start(mutant, tests))
                if not running:
                    break
                mutant, status, killer, took = self._finished(running)
                if killer is not None:
                    killers[mutant.module, mutant.function][killer] += 1
                name = None if killer is None else self.names[killer]
                self.results.add(mutant, status, name, took)
                bar.update()
                bar.set_postfix(survived=self.results.survived, refresh=False)
        return True

    def _executed_lines(self):
        """Which tests execute which lines, and how long each takes; kept between runs."""
        stamp = [path.read_text() for path in sorted(ROOT.glob("tests/**/test_*.py"))]
        stamp += [*self.names, *(text for _, text in sorted(self.sources.items()))]
        file = FOLDER / "lines.pickle"
        if file.exists():
            old, lines, seconds = pickle.loads(file.read_bytes())
            if old == stamp:
                return lines, seconds
        print("which test executes which line: a few minutes", flush=True)
        # a file of tests stays in one process, for its fixtures
        files = sorted({item.path for item in self.items})
        parts, pids, shares = [], [], min(self.workers, len(files))
        for w in range(shares):
            mine = set(files[w::shares])
            parts.append(FOLDER / f"lines-{w}.pickle")
            pids.append(self._fork(lambda w=w, m=mine: self._measure(m, parts[w])))
        if any([os.waitpid(pid, 0)[1] for pid in pids]):
            raise RuntimeError("the tests could not be run")
        lines, seconds = defaultdict(dict), {}
        for part in parts:
            found, took, failing = pickle.loads(part.read_bytes())
            for name in failing:
                print(f"left out, it fails without any change: {name}")
            seconds |= took
            for name, by_line in found.items():
                for line, tests in by_line.items():
                    lines[name].setdefault(line, set()).update(tests)
            part.unlink()
        file.write_bytes(pickle.dumps((stamp, dict(lines), seconds)))
        return dict(lines), seconds

    def _measure(self, files, to):
        """In a process of its own: run the tests of some files and record the lines of each."""
        cov = coverage.Coverage(data_file=None, source=[str(ROOT / "mfbook")], config_file=False)
        cov.start()
        chosen = [i for i, item in enumerate(self.items) if item.path in files]
        seconds, failing = {}, []
        for i, after in _followed(chosen):
            cov.switch_context(str(i))
            start, self.failed = time.perf_counter(), False
            self._run(i, after)
            if self.failed:
                failing.append(self.names[i])
            else:
                seconds[i] = time.perf_counter() - start
        cov.stop()
        data, found = cov.get_data(), {}
        for file in data.measured_files():
            name = ".".join(Path(file).relative_to(ROOT).with_suffix("").parts)
            by_line = data.contexts_by_lineno(file)
            found[name] = {
                n: {int(c) for c in cs if c} & seconds.keys() for n, cs in by_line.items()
            }
        to.write_bytes(pickle.dumps((found, seconds, failing)))
        return 0

    def _run(self, i, after):
        item, following = self.items[i], None if after is None else self.items[after]
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except KeyboardInterrupt:  # let through by the test
            self.failed = True

    def _tests(self, mutant, killers) -> list[int]:
        """Tests that execute the changed line: recent killers, then one of each kind in turn."""
        if self.known is not None:
            return [self.names.index(name) for name in self.known[mutant.key]]
        by_line = self.lines.get(mutant.module, {})
        first, last = mutant.lines
        if not mutant.function:  # a constant of the module, read by any of its functions
            first, last = 0, 10**9
        covering = {test for n, tests in by_line.items() if first <= n <= last for test in tests}
        kinds = defaultdict(list)
        for test in sorted(covering, key=self.seconds.__getitem__):
            kinds[self.groups[test]].append(test)
        turn = {t: (n, self.seconds[t]) for tests in kinds.values() for n, t in enumerate(tests)}
        order = [t for t, _ in killers.most_common(8) if t in turn]
        order += sorted(turn.keys() - set(order), key=turn.__getitem__)
        chosen, total = [], 0.0
        for test in order:
            total += self.seconds[test]
            if chosen and total > self.budget:
                break
            chosen.append(test)
        return chosen

    def _start(self, mutant, tests):
        """Fork a process that makes the change and runs the tests; its number of the killer."""
        if isinstance(mutant, Mutant) and self.changes[mutant.module] is None:
            self.changes[mutant.module] = Changes(self.sources[mutant.module], mutant.module)
        read, write = os.pipe()

        def work():
            os.close(read)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            if not self._apply(mutant):
                return UNDEFINED
            for test, after in _followed(tests):
                # no handler: a loop in compiled code is ended too
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                expected = 1.0 if self.known is not None else self.seconds[test]
                # fixtures that several tests share are not in what was measured
                signal.setitimer(signal.ITIMER_REAL, 15 + 20 * expected)
                os.write(write, f"{test} ".encode())
                self._run(test, after)
                if self.failed:
                    return NOTICED
            return 0

        pid = self._fork(work)
        os.close(write)
        return {pid: (mutant, read, time.perf_counter())}

    def _finished(self, running):
        """Wait for one process: its mutant, status, killer and seconds."""
        while (found := os.wait())[0] not in running:
            pass
        pid, status = found
        mutant, read, start = running.pop(pid)
        with os.fdopen(read, "rb") as pipe:
            started = pipe.read().split()
        try:
            os.killpg(pid, signal.SIGKILL)  # what a test may have left
        except ProcessLookupError:
            pass
        took = time.perf_counter() - start
        killer = int(started[-1]) if started else None
        if os.WIFSIGNALED(status):
            return mutant, "stopped", killer, took
        match os.waitstatus_to_exitcode(status):
            case 0:
                return mutant, "survived" if started else "no test", None, took
            case code if code == NOTICED and started:
                return mutant, "killed", killer, took
            case code if code == UNDEFINED:
                return mutant, "undefined", None, took
        raise RuntimeError(f"could not try {mutant}: exit status {status}")

    def _fork(self, work):
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1):
                os.dup2(null, stream)
            if not os.environ.get("MUTANTS_DEBUG"):
                os.dup2(null, 2)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _apply(self, mutant):
        """Put the changed code in place of the imported one; whether it can be defined at all."""
        if isinstance(mutant, ByHand):
            tree = mutant.tree(self.sources[mutant.module])
        else:
            tree = self.changes[mutant.module].make(mutant.index)
        code = compile(
            tree, str(modules()[mutant.module]), "exec", __future__.annotations.compiler_flag
        )
        module = sys.modules[mutant.module]
        try:
            for inner in _inner_codes(code):
                key = (mutant.module, inner.co_qualname, inner.co_firstlineno)
                for function in self.functions.get(key, ()):
                    if len(function.__code__.co_freevars) == len(inner.co_freevars):
                        function.__code__ = inner
                        _defaults(function, tree)
            if not mutant.function:
                _constant(module, tree.body[0])
        except Exception:
            return False  # a default or a constant that raises
        for cache in self.caches:
            cache.cache_clear()
        return True


def _followed(tests):
    """Each test with the one after it, or None: fixtures that both use are kept."""
    return zip(tests, [*tests[1:], None][: len(tests)], strict=True)


def _functions():
    """Functions of the package by (module, qualified name, first line), and its caches."""
    found, caches = defaultdict(list), []
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper):
            if thing.__module__.startswith("mfbook"):
                caches.append(thing)
        elif isinstance(thing, types.FunctionType) and (thing.__module__ or "").startswith(
            "mfbook"
        ):
            code = thing.__code__
            found[thing.__module__, code.co_qualname, code.co_firstlineno].append(thing)
    return dict(found), caches


def _inner_codes(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inner_codes(constant)


def _defaults(function, tree):
    """Evaluate the defaults of a function's arguments anew, where they are simple constants."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != function.__name__:
            continue
        head = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        if head != function.__code__.co_firstlineno:
            continue

        def value(expression):
            return eval(
                compile(ast.Expression(expression), "default", "eval"), function.__globals__
            )

        if node.args.defaults:
            function.__defaults__ = tuple(value(d) for d in node.args.defaults)
        pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        named = {arg.arg: value(d) for arg, d in pairs if d is not None}
        if named:
            function.__kwdefaults__ = named


def _constant(module, statement):
    """Set a module's constant, in every module that has imported it."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    old = getattr(module, target.id)
    new = eval(compile(ast.Expression(statement.value), "constant", "eval"), dict(vars(module)))
    for name, other in list(sys.modules.items()):
        if name.startswith("mfbook") and vars(other).get(target.id) is old:
            setattr(other, target.id, new)


class Results:
    """What is known, one line of JSON for each mutant."""

    def __init__(self, file, again=False):
        self.file, self.rows = file, {}
        texts = [path.read_bytes() for path in sorted(ROOT.glob("tests/**/test_*.py"))]
        self.tests = hashlib.sha256(b"".join(texts)).hexdigest()[:16]
        lines = file.read_text().splitlines() if file.exists() else ()
        for row in map(json.loads, lines):
            # a survivor is tried again once the tests have changed
            current = row["status"] in FOUND or (row.get("tests") == self.tests and not again)
            if current:
                self.rows[row["key"]] = row
        self.survived = 0

    @property
    def known(self):
        return self.rows.values()

    def add(self, mutant, status, killer, seconds):
        self.survived += status not in FOUND
        row = {"key": mutant.key, "module": mutant.module, "function": mutant.function,
               "line": mutant.lines[0], "before": mutant.before, "after": mutant.after,
               "status": status, "killer": killer, "tests": self.tests,
               "seconds": round(seconds, 2)}  # fmt: skip
        self.rows[mutant.key] = row
        with self.file.open("a") as out:
            out.write(json.dumps(row) + "\n")


def run(runner: Runner, tests: list[str]) -> None:
    """Try the mutants with tests from these files or of these names."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "-p", "no:cacheprovider", "--capture=sys", "--no-header", "--no-summary",
                   f"--rootdir={ROOT}", f"--basetemp={folder}/t",
                   "-m", "not slow and not browser"]  # fmt: skip
        status = pytest.main([*options, *tests], plugins=[runner])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {status!r}")


def score(all_mutants, results) -> str:
    """A table: mutants and killed ones of each module, then the survivors."""
    rows, left = defaultdict(Counter), []
    for mutant in all_mutants:
        row = results.rows.get(mutant.key)
        status = "not tried" if row is None else row["status"]
        rows[mutant.module][status] += 1
        if status not in FOUND and status != "not tried":
            left.append(f"{mutant}   [{status}]")
    total = sum(rows.values(), Counter())
    text = [f"{'module':<36}{'mutants':>9}{'killed':>9}{'left':>7}{'untried':>9}{'score':>9}"]
    for name, c in [*sorted(rows.items()), ("all", total)]:
        killed, tried = sum(c[status] for status in FOUND), c.total() - c["not tried"]
        share = f"{100 * killed / tried:.1f} %" if tried else "-"
        text.append(
            f"{name:<36}{c.total():>9}{killed:>9}{tried - killed:>7}{c['not tried']:>9}{share:>9}"
        )
    return "\n".join([*text, "", *left, ""])


@dataclass(frozen=True)
class ByHand:
    """A mistake of ``tests/oracles/wrong_mathematics.py`` at its place in the source."""

    wrong: Wrong
    lines: tuple[int, int]
    function: str = "by hand"

    @property
    def before(self):
        return self.wrong.old

    @property
    def after(self):
        return self.wrong.new

    def __getattr__(self, name):
        return getattr(self.wrong, name)

    def __str__(self):
        return f"{self.module}:{self.lines[0]} {self.key}"


def by_hand(sources) -> list[ByHand]:
    return [ByHand(wrong, wrong.lines(sources[wrong.module])) for wrong in WRONG]


def _sources() -> dict[str, str]:
    return {name: path.read_text() for name, path in modules().items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modules", default="*", help="names such as mfbook.models.sphere.*")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="files of tests")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the mutants")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tests for one")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--hand", action="store_true", help="only the mistakes made by hand")
    options = parser.parse_args()
    sources = _sources()
    chosen = [name for name in sources if fnmatch.fnmatch(name, options.modules)]
    everything = [m for name in chosen for m in mutants(sources[name], name)]
    everything = [] if options.hand else everything
    hand = [m for m in by_hand(sources) if m.module in chosen]
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = Results(FOLDER / "results.jsonl", options.again)
    todo = [m for m in [*hand, *everything] if m.key not in results.rows]
    # keys are random, so what is done of a run that is stopped is a fair sample
    todo.sort(key=lambda mutant: mutant.key, reverse=True)
    todo = todo[: math.ceil(options.sample * len(todo))]
    if todo and not options.report:
        print(f"{len(todo)} of {len(everything) + len(hand)} mutants to try: at some five a second "
              f"about {len(todo) / 300:.0f} minutes", flush=True)  # fmt: skip
        runner = Runner(todo, sources, results, options.budget, options.workers)
        run(runner, [str(ROOT / test) for test in options.tests])
    report = score(everything, results)
    (FOLDER / "report.txt").write_text(report)
    tried = [m for m in everything if m.key in results.rows]
    noticed = sum(results.rows[m.key]["status"] in FOUND for m in tried)
    missed = [m for m in hand if results.rows.get(m.key, {}).get("status") not in FOUND]
    print(report, *(f"made by hand and not noticed: {m}" for m in missed), sep="\n")
    raise SystemExit(bool(missed) or noticed < ENOUGH * len(tried))


if __name__ == "__main__":
    main()
