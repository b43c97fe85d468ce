"""Run every benchmark: ``python -m benchmarks``."""

from . import heads, training

heads.main()
training.main()
