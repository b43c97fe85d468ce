"""Speed beside other programs. Importing this package fixes one thread for everyone.

The variables are read when NumPy, PyTorch and JAX are first imported, so they are set here.
"""

import os

LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
os.environ |= dict.fromkeys(LIMITS, "1") | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_X64": "1",
    "JAX_PLATFORMS": "cpu",
}
