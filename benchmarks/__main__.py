"""Run every benchmark: ``python -m benchmarks``."""

from . import heads, sphere, training

heads.main()
training.main()
sphere.main()
