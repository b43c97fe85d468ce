"""Run the benchmarks: ``python -m benchmarks [part ...]``."""

import sys

from .run import main

sys.exit(main())
