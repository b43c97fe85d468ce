"""The page on performance is made from its stored results, and every measurement runs.

No time is asserted: these tests say that the right things are measured and written, not how fast.
"""

import copy
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

before = dict(os.environ)
from benchmarks import heads, machine, page, run, scale, tables, timing  # noqa: E402

os.environ.clear()  # importing it fixes the threads, which is not for the other tests
os.environ.update(before)

from mfbook.models.attention import kernel  # noqa: E402
from mfbook.models.sphere import SphereEnergy, forces  # noqa: E402

STORED = run.read_json(run.RESULTS)
RESULTS = page.Results(STORED)
TINY = heads.Problem(3, 2, 4, 5, 6, 8)


# --- the committed page --------------------------------------------------------------------------


def test_the_page_is_what_the_results_make():
    assert page.PAGE.read_text(encoding="utf-8") == page.text(RESULTS), "python -m benchmarks.page"


@pytest.mark.parametrize("name", page.FIGURES)
def test_the_figures_show_the_results(name):
    picture = Image.open(page.STATIC / name)
    collect, _ = page.FIGURES[name]
    assert picture.text[page.NUMBERS] == page.numbers(collect(RESULTS)), "python -m benchmarks.page"
    assert picture.width > 1000


def test_the_page_follows_the_results():
    changed = copy.deepcopy(STORED)
    row = changed["steps"]["scale/sphere"]["result"]["rows"][-1]
    row["seconds"] = [10 * one for one in row["seconds"]]
    text = page.text(page.Results(changed))
    assert text != page.text(RESULTS)
    assert tables.duration(page.time_of(row)) in text
    collect, _ = page.FIGURES["performance-growth.png"]
    assert page.numbers(collect(page.Results(changed))) != page.numbers(collect(RESULTS))


def test_a_page_needs_every_step():
    lacking = {"steps": {k: v for k, v in STORED["steps"].items() if k != "scale/circle"}}
    with pytest.raises(ValueError, match="scale/circle not measured yet"):
        page.Results(lacking)


def test_parts_from_several_machines_are_told_apart():
    changed = copy.deepcopy(STORED)
    changed["steps"]["heads/wide"]["machine"]["processor"] = "another one"
    assert "all by the same code" not in page.measured_on(page.Results(changed))
    assert "another one" in page.measured_on(page.Results(changed))


def test_what_is_not_installed_is_named():
    changed = copy.deepcopy(STORED)
    for one in changed["steps"]["heads/small"]["result"]["comparisons"]:
        one["programs"] = [p for p in one["programs"] if p["name"] != "JAX"]
        one["skipped"] = ["JAX: No module named 'jax'"]
    assert "Left out: JAX: No module named 'jax'." in page.text(page.Results(changed))


# --- the committed results -----------------------------------------------------------------------


def test_results_are_complete():
    assert list(STORED["steps"]) == run.steps()
    assert [row["size"] for row in RESULTS.rows("heads")] == list(scale.HEADS)
    for normalised in (False, True):
        found = [row["size"] for row in RESULTS.rows("circle", normalised)]
        assert found == list(scale.CIRCLE)
    assert [row["size"] for row in RESULTS.rows("sphere")] == list(scale.SPHERE)
    assert scale.HEADS[-1] >= 10**6 and scale.CIRCLE[-1] >= 10**7 and scale.SPHERE[-1] >= 10**5
    for entry in STORED["steps"].values():
        assert set(entry) == {"date", "code", "took", "memory", "result", "machine"}
        assert entry["machine"]["versions"]["NumPy"] and entry["took"] > 0


def test_results_agree_with_themselves():
    tolerance = {"heads": heads.TOLERANCE, "training": 1e-8, "sphere": scale.TOLERANCE}
    for step in run.steps():
        if RESULTS[step]["kind"] != "comparisons":
            continue
        for one in RESULTS[step]["comparisons"]:
            names = [program["name"] for program in one["programs"]]
            assert names[0] == "mfbook" and len(names) == len(set(names))
            assert len(names) >= 2 or one["skipped"]
            for program in one["programs"]:
                assert min(program["seconds"]) > 0
                assert (program["error"] or 0) <= tolerance[step.split("/")[0]]
    for what in ("heads", "circle", "sphere"):
        for row in RESULTS.rows(what):
            # the output alone: a gradient of D numbers, a velocity of d
            size = 8 * {"heads": 4 * scale.TASK.d * scale.TASK.k, "circle": 2, "sphere": 3}[what]
            assert row["peak"] >= size * row["size"] and min(row["seconds"]) > 0


@pytest.mark.parametrize("what", ["heads", "circle", "sphere"])
def test_stored_memory_is_linear(what):
    """Ten times the size takes at most ten times the memory, and a head or particle little."""
    first, last = (RESULTS.rows(what)[i] for i in (-2, -1))
    each = {"heads": 16 * 4 * scale.TASK.d * scale.TASK.k, "circle": 64, "sphere": 256}[what]
    assert last["peak"] / last["size"] <= min(1.1 * first["peak"] / first["size"], each)


def test_no_evaluation_is_faster_than_the_machine():
    for name, row in page.kernels(RESULTS).items():
        parts = page.shares(row, RESULTS.rates)
        assert 0 < sum(parts.values()) < 1, name
        assert min(parts.values()) >= 0
        assert parts["bytes"] < 0.2, "the page says that none is limited by memory"


# --- counts --------------------------------------------------------------------------------------


def counting(module, monkeypatch):
    """Count the numbers of which a module takes the exponential."""
    counted = SimpleNamespace(exp=0)

    class Counting:
        def __getattr__(self, name):
            return getattr(np, name)

        def exp(self, x, **options):
            counted.exp += np.size(x)
            return np.exp(x, **options)

    monkeypatch.setattr(module, "np", Counting())
    return counted


@pytest.mark.parametrize("keep", [0, kernel.KEEP])
def test_exponentials_of_heads_are_counted_rightly(keep, monkeypatch):
    monkeypatch.setattr(kernel, "KEEP", keep)
    problem = heads.Problem(3, 2, 4, 5, 70, 200)  # more than a block of each
    _ = problem.risk, problem.mu
    counted = counting(kernel, monkeypatch)
    problem.ours()
    assert counted.exp == scale.heads_work(problem).exp


@pytest.mark.parametrize("n", [5, 256, 600])
def test_exponentials_of_particles_are_counted_rightly(n, monkeypatch):
    mu = scale.start(3, n=n)
    counted = counting(forces, monkeypatch)
    SphereEnergy(5.0).velocity(mu.atoms, mu)
    assert counted.exp == scale.sphere_work(n, 3).exp


def test_work_grows_with_the_problem():
    one, two = (scale.circle_work(n, 10.0, False) for n in (1000, 2000))
    assert one.times(2) == two == one + one
    assert scale.circle_work(1000, 10.0, True).flops > one.flops
    assert scale.circle_work(1000, 100.0, False).flops > one.flops


# --- measuring, at tiny sizes --------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """One call for each time."""
    for module in (timing, scale, machine, heads):
        monkeypatch.setattr(module, "seconds", lambda call, least=0.0: (call(), 2.0)[1])
    monkeypatch.setattr(heads, "REST", 0)


def test_scale_at_tiny_sizes(quick, capsys):
    for result, name, count in (
        (scale.heads((2, 4), TINY), "scale/heads", 2),
        (scale.particles(2, 10.0, (20, 300), (False, True)), "scale/circle", 4),
        (scale.particles(3, 5.0, (20, 300)), "scale/sphere", 2),
    ):
        assert len(result["rows"]) == count
        assert all(row["seconds"][0] == 2.0 and row["peak"] > 0 for row in result["rows"])
        json.dumps(result)
        tables.show(name, result)
    assert "direct / mfbook" in capsys.readouterr().out


def test_a_wrong_velocity_is_noticed(quick, monkeypatch):
    monkeypatch.setattr(scale, "usual", lambda x, beta, count: 0 * x[:count])
    with pytest.raises(AssertionError, match="usual"):
        scale.particles(2, 10.0, (20,))


def test_limits_of_the_machine(quick, capsys):
    rates = machine.limits(n=8, size=1024, inside=64, rounds=1)
    assert set(rates) == set(tables.RATES)
    assert rates["flops"] == 2 * 8**3 / 2.0 and rates["copy"] == 16 * 128 / 2.0
    tables.show("scale/limits-before", {"kind": "limits", "rates": rates})
    assert "DGEMM" in capsys.readouterr().out


def test_arrays_for_bandwidth_fit_into_memory():
    assert machine.array_bytes({}, None) == machine.LARGE
    assert machine.array_bytes({"L3": 2**30}, 2**40) == 2**32
    assert machine.array_bytes({"L3": 2**30}, 2**30) == 2**26


def test_the_machine_is_described():
    found = machine.describe()
    json.dumps(found)
    line = tables.machine_line(found)
    assert found["processor"] in line and f"NumPy {np.__version__}" in line
    assert tables.machine_line({**found, "caches": {}, "memory": None, "simd": []})


def test_heads_beside_numpy_alone(quick, monkeypatch, capsys):
    def missing(problem):
        raise ImportError("No module named 'jax'")

    monkeypatch.setattr(heads, "PEERS", {"NumPy": heads.PEERS["NumPy"], "JAX": missing})
    heads.fastest.cache_clear()
    result = heads.measure((TINY, {"NumPy": 2.0}, 2))
    heads.fastest.cache_clear()
    (one,) = result["comparisons"]
    assert [program["name"] for program in one["programs"]] == ["mfbook", "NumPy"]
    assert one["skipped"] == ["JAX: No module named 'jax'"]
    assert 0 < one["programs"][1]["error"] <= heads.TOLERANCE
    tables.show("heads/small", result)
    assert "2, missed" in capsys.readouterr().out


def test_memory_of_a_call():
    result, peak = timing.peak_memory(lambda: np.ones(10**6))
    assert len(result) == 10**6 and 8e6 <= peak < 8.1e6


# --- running -------------------------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """Three steps that only say they ran; ``fail`` names one that fails or interrupts."""
    ran, fail = [], {}

    def step(name):
        def measured():
            ran.append(name)
            return {"kind": "limits", "rates": dict.fromkeys(tables.RATES, 1.23456789)}

        return measured

    def process(command, **options):
        name = command[-1]
        if name in fail:
            raise fail[name]
        run.measure(name, command[command.index("--mark") + 1])
        return SimpleNamespace(returncode=0)

    parts = {"one": {"a": step("a"), "b": step("b")}, "two": {"c": step("c")}}
    monkeypatch.setattr(run, "PARTS", parts)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(run, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(run.subprocess, "run", process)
    monkeypatch.setattr(page, "write", lambda: ran.append("page"))
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    return SimpleNamespace(ran=ran, fail=fail)


def test_an_interrupted_run_goes_on(bench, capsys):
    bench.fail["one/b"] = KeyboardInterrupt
    assert run.main([]) == 130 and bench.ran == ["a"]
    assert not run.RESULTS.exists()
    bench.fail.clear()
    assert run.main([]) == 0 and bench.ran == ["a", "b", "c", "page"]
    text = capsys.readouterr().out
    assert "[1 of 2] one/b: not measured before" in text and "Interrupted" in text
    stored = run.read_json(run.RESULTS)["steps"]
    assert list(stored) == ["one/a", "one/b", "two/c"]
    assert stored["one/a"]["result"]["rates"]["exp"] == 1.235
    # a finished run leaves nothing behind: the next one measures everything
    assert run.main([]) == 0 and bench.ran[4:] == ["a", "b", "c", "page"]
    assert "when last measured they took" in capsys.readouterr().out


def test_one_part_replaces_its_own_results(bench, capsys):
    assert run.main(["two"]) == 0 and bench.ran == ["c"]
    assert "The page needs one/a, one/b too" in capsys.readouterr().out
    assert run.main(["one"]) == 0 and bench.ran == ["c", "a", "b", "page"]


def test_steps_of_other_code_are_measured_again(bench, tmp_path):
    bench.fail["one/b"] = KeyboardInterrupt
    run.main([])
    (tmp_path / "mfbook").mkdir()
    (tmp_path / "mfbook" / "new.py").write_text("")
    (tmp_path / "mfbook" / "new.py").write_text("changed")
    bench.fail.clear()
    assert run.main([]) == 0 and bench.ran == ["a", "a", "b", "c", "page"]


def test_a_failed_step_keeps_the_page(bench, monkeypatch, capsys):
    monkeypatch.setattr(run.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=1))
    assert run.main(["two"]) == 1 and bench.ran == []
    assert "Failed: two/c. The page stays as it was." in capsys.readouterr().out
    assert not run.RESULTS.exists()


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.main(["nothing"])
    assert "no part nothing; there are scale, heads, training, sphere" in capsys.readouterr().err
