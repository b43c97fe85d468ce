"""Run every benchmark: ``python -m benchmarks``."""

from .heads import main

main()
