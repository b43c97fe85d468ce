"""The peers of the training benchmark compute what this package computes."""

import importlib.util
import os
from functools import partial

import pytest

pytestmark = pytest.mark.slow

if not all(importlib.util.find_spec(name) for name in ("torch", "jax")):
    pytest.skip("PyTorch and JAX are an extra", allow_module_level=True)

TASKS = {
    "descent": {"steps": 5, "rate": 0.1, "batch": 3},
    "flow": {"steps": 3, "rate": 0.1},
    "sweep": {"steps": 5, "rate": 0.1, "runs": 3},
}


@pytest.fixture(scope="module")
def training():
    """Imported here: only the process that runs these tests waits for torch and jax."""
    before = dict(os.environ)
    from benchmarks import training

    os.environ.clear()  # importing it fixes the threads, which is not for the other tests
    os.environ.update(before)
    import jax

    # compiling costs more than these few steps
    jax.config.update("jax_disable_most_optimizations", True)
    yield training
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("peer", ["PyTorch", "JAX"])
def test_peers_end_at_the_same_heads(training, kind, peer):
    import jax

    problem = training.Problem(d=3, k=2, T=4, V=5, S=6, M=8)
    task = training.Task(kind, problem, **TASKS[kind])
    forms = {
        "PyTorch": training.forms(training.torch_peer, False, True),
        "JAX": partial(training.jax_peer, inner=training.COMPARISONS[kind][3]),
    }[peer]
    with jax.enable_x64(True):
        for step in forms(task).values():
            for chunk in (8,) if kind == "sweep" else (4, 8):
                assert training.disagreement(task, *step(chunk)) < training.TOLERANCE
