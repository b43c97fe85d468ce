"""The page on trust and performance says what is stored, and every measurement runs."""

import json
import subprocess
import sys

from tools.chapters import ROOT

#: In a process of its own: importing the benchmarks fixes the threads.
TINY = """
import json
from benchmarks import __main__ as run, circle, heads
p = heads.Problem(3, 2, 4, 5, 6, 8)
found = {
    "machine": "here", "heads": [heads.compare(p, 1)], "forces": [circle.forces(60, 2.0, 1)],
    "runs": [circle.whole_run(12, 1.0, True, 1)], "large": [heads.large((4,)), circle.large((9,))],
}
print(json.dumps(["M = 8" in run.page(found), run.page(json.loads(run.RESULTS.read_bytes()))]))
"""


def test_the_page_is_what_the_results_make_and_measurements_run():
    run = subprocess.run(
        [sys.executable, "-c", TINY], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    works, page = json.loads(run.stdout.splitlines()[-1])
    stored = (ROOT / "book" / "trust.md").read_text(encoding="utf-8")
    assert works and f"follows -->\n{page}<!-- up" in stored, "python -m benchmarks --page"
