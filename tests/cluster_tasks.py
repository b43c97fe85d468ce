"""What the workers of test_cluster.py compute. Every worker imports it, so it imports little."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def row(seed, folder, slow=0.0):
    """Random numbers; leaves a trace, and kills its process where a file of the folder says so."""
    order = Path(folder) / f"kill-{seed}"
    if order.exists():
        if order.read_text() == "once":
            order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(slow)
    with open(Path(folder) / "calls", "a") as file:
        file.write(f"{seed}\n")
    return np.random.default_rng(seed).normal(size=4)


class Mortal:
    """A functional; where the file ``order`` exists, its evaluation kills the process."""

    def __init__(self, F, order):
        self.F, self.order, self.space = F, order, F.space

    def at(self, mu):
        if self.order.exists():
            self.order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.F.at(mu)
