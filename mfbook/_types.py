"""Names for what arguments may be."""

from __future__ import annotations

import numpy as np

#: A source of randomness: a generator, or the seed of one.
Seed = np.random.Generator | int
