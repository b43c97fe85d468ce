"""The page on performance is made from its stored results, and every measurement runs.

No time is asserted: these tests say that the right things are measured and written, not how fast.
"""

import copy
import json
import os

import numpy as np
import pytest
from PIL import Image

before = dict(os.environ)
from benchmarks import __main__ as run  # noqa: E402
from benchmarks import heads, page, published, scale, sphere, steps  # noqa: E402

os.environ.clear()  # importing it fixes the threads, which is not for the other tests
os.environ.update(before)

from mfbook.book.experiments.sphere import start  # noqa: E402
from mfbook.models.sphere import SphereEnergy  # noqa: E402

STORED = steps.results()
RESULTS = page.Results(STORED)


# --- what is committed ---------------------------------------------------------------------------


def test_the_page_and_its_figures_are_what_the_results_make():
    assert page.PAGE.read_text(encoding="utf-8") == page.text(RESULTS), "python -m benchmarks.page"
    changed = copy.deepcopy(STORED)
    row = changed["scale/sphere"]["result"]["rows"][-1]
    row["seconds"] = [10 * one for one in row["seconds"]]
    other = page.Results(changed)
    assert page.text(other) != page.text(RESULTS)
    assert page.duration(10 * RESULTS.rows("sphere")[-1]["time"]) in page.text(other)
    for name, (collect, _) in page.FIGURES.items():
        picture = Image.open(page.STATIC / name)
        assert picture.text[page.NUMBERS] == page.numbers(collect(RESULTS)), name
    del changed["scale/circle"]
    with pytest.raises(ValueError, match="scale/circle"):
        page.Results(changed)


def test_results_are_complete_and_agree_with_themselves():
    assert list(STORED) == steps.steps()
    assert scale.HEADS[-1] >= 10**6 and scale.CIRCLE[-1] >= 10**7 and scale.SPHERE[-1] >= 10**5
    tolerance = {"heads": 1e-10, "training": 1e-8, "sphere": sphere.TOLERANCE}
    for step in steps.steps():
        assert STORED[step]["machine"]["versions"]["NumPy"]
        for one in RESULTS[step].get("comparisons", ()):
            names = [program["name"] for program in one["programs"]]
            assert names[0] == "mfbook" and len(names) == len(set(names))
            assert len(names) >= 2 or one["skipped"]
            for program in one["programs"]:
                assert min(program["seconds"]) > 0
                assert (program["error"] or 0) <= tolerance[step.split("/")[0]]


@pytest.mark.parametrize("what, sizes, numbers", [
    ("heads", scale.HEADS, 4 * scale.TASK.d * scale.TASK.k), ("circle", scale.CIRCLE, 2),
    ("sphere", scale.SPHERE, 3),
])  # fmt: skip
def test_stored_memory_is_linear_and_no_evaluation_faster_than_the_machine(what, sizes, numbers):
    """Ten times the size takes at most ten times the memory; at least the output needs some."""
    rows = RESULTS.rows(what)
    assert [row["size"] for row in rows] == list(sizes)
    each = [row["peak"] / row["size"] for row in rows]
    assert min(each) >= 8 * numbers and each[-1] <= 1.1 * each[-2]
    for row in rows:
        parts = row["shares"]
        assert 0 < sum(parts.values()) and min(parts.values()) >= 0
    assert sum(parts.values()) < 1


# --- measuring, at tiny sizes --------------------------------------------------------------------


@pytest.mark.parametrize("peer", [sphere.usual, sphere.direct], ids=["usual", "direct"])
@pytest.mark.parametrize("d, n", [(2, 1), (2, 1201), (3, 501), (16, 60)])
def test_peers_agree_with_the_package(d, n, peer):
    mu = start(d, n=n)
    for beta in (0.1, 50.0):
        ours = SphereEnergy(beta).velocity(mu.atoms, mu)
        for count in (n, (n + 1) // 2):
            assert np.abs(peer(mu.atoms, beta, count) - ours[:count]).max() < sphere.TOLERANCE


def test_measurements_at_tiny_sizes():
    tiny = heads.Problem(3, 2, 4, 5, 6, 8)
    for result, count in (
        (scale.heads((2, 4), tiny), 2),
        (scale.particles(2, 10.0, (20, 300), (False, True)), 4),
        (scale.particles(3, 5.0, (20,)), 1),
    ):
        assert len(result["rows"]) == count and all(row["peak"] > 0 for row in result["rows"])
        json.dumps(result)


# --- running -------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_and_a_failed_one_keeps_the_page(monkeypatch, tmp_path, capsys):
    """Three steps that only say they ran."""
    ran, trouble = [], {"one/b": KeyboardInterrupt}

    def step(name):
        return lambda: ran.append(name) or {"kind": "limits", "rates": {"exp": 1.23456789}}

    def measure_here(step, code):
        if step in trouble:
            raise trouble[step]
        return steps.measure(step, code)

    parts = {"one": {"a": step("a"), "b": step("b")}, "two": {"c": step("c")}}
    for name, value in (("PARTS", parts), ("RESULTS", tmp_path / "r.json"),
                        ("measure_apart", measure_here)):  # fmt: skip
        monkeypatch.setattr(steps, name, value)
    monkeypatch.setattr(run, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(page, "write", lambda: ran.append("page"))
    assert run.main([]) == 130 and ran == ["a"] and not steps.RESULTS.exists()
    trouble["one/b"] = ValueError
    assert run.main([]) == 1 and "page" not in ran and not steps.RESULTS.exists()
    trouble.clear()
    ran.clear()
    assert run.main([]) == 0 and ran == ["b", "page"]  # the others were kept
    stored = steps.results()
    assert list(stored) == ["one/a", "one/b", "two/c"]
    assert stored["one/a"]["result"]["rates"]["exp"] == 1.235
    # a finished run leaves nothing behind: the next one measures everything, or one part
    ran.clear()
    assert run.main([]) == 0 and run.main(["two"]) == 0
    assert ran == ["a", "b", "c", "page", "c", "page"]
    with pytest.raises(SystemExit):
        run.main(["nothing"])
    assert "no part nothing" in capsys.readouterr().err


def test_the_published_program_is_left_out_with_a_message_where_it_is_not(
    monkeypatch, tmp_path, capsys
):
    """Its stored result stays, and the step counts neither as measured nor as failed."""
    stored = {"published/runs": {"took": 1.0, "memory": 10**6, "result": {"rows": []}}}
    (tmp_path / "r.json").write_text(json.dumps({"steps": stored}))
    for name, value in (("PARTS", {"published": {"runs": published.compare}}),
                        ("RESULTS", tmp_path / "r.json")):  # fmt: skip
        monkeypatch.setattr(steps, name, value)
    monkeypatch.setattr(run, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(page, "write", lambda: None)
    for folder, why in (("", "names no folder"), (str(tmp_path), "no wgf_circle")):
        monkeypatch.setenv(published.VARIABLE, folder)
        assert run.main(["published"]) == 0
        assert "published/runs, left out" in (said := capsys.readouterr().out) and why in said
        assert steps.results() == stored
    for name in ("wgf_circle", "wgf_sphere"):
        (tmp_path / name).mkdir()
    assert published.missing() == "" == steps.missing("published/runs")


def test_the_published_program_and_this_package_agree():
    """The stored rows: the same steps and clusters, and positions up to rounding."""
    for row in RESULTS["published/runs"]["rows"]:
        assert len(set(row["steps"])) == len(set(row["clusters"])) == len(set(row["stopped"])) == 1
        assert row["same"] and row["apart"] < 1e-7 and row["masses"] < 1e-12
