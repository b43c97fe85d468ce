"""The peers of the training benchmark compute what this package computes."""

import importlib.util
import os

import pytest

pytestmark = pytest.mark.slow

if not all(importlib.util.find_spec(name) for name in ("torch", "jax")):
    pytest.skip("PyTorch and JAX are an extra", allow_module_level=True)

TASKS = {
    "gradient": {},
    "descent": {"steps": 5, "rate": 0.1, "batch": 3},
    "flow": {"steps": 3, "rate": 0.1},
    "sweep": {"steps": 5, "rate": 0.1, "runs": 3},
}


@pytest.mark.parametrize("kind", TASKS)
def test_peers_find_the_same(kind):
    before = dict(os.environ)
    from benchmarks import heads, peers

    os.environ.clear()  # importing it fixes the threads, which is not for the other tests
    os.environ.update(before)
    import jax

    problem = heads.Problem(d=3, k=2, T=4, V=5, S=6, M=8, kind=kind, **TASKS[kind])
    forms = {"gradient": peers.HEADS, "sweep": peers.SWEEP}.get(kind, peers.TRAINING)
    with jax.enable_x64(True):
        for peer in (peer for own in forms.values() for peer in own.values()):
            for chunk in (8,) if kind == "sweep" else (4, 8):
                run, layout = peer(problem, chunk)
                assert problem.disagreement(*layout.read(run())) < 1e-12
