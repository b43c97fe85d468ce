"""Do chapters show the same digits under random rounding, as another processor would round?

    python tools/rounding.py [book/06-long-time.ipynb ...]

Two processors give different last bits of sums, of transcendental functions and of decompositions,
for they have other instructions and other libraries. :func:`install` does the same on purpose, as
Verrou and CADNA do for compiled programs: from then on

- results of NumPy's and SciPy's transcendental functions, matrix products and decompositions are
  multiplied by ``1 + u 2**-52`` with ``u`` in {-1, 0, 1}, a hash of the seed and of the size of the
  result: so functions stay functions, odd or even, and symmetric matrices symmetric;
- matrix products are summed in another order, so that what cancels leaves another rest.

Exact results of functions stay exact. Operators of arrays cannot be replaced from outside: in the
package and in cells ``a @ b`` and ``a ** b`` become calls when the source is read. Every printed
digit and the points of the figures are compared.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.machinery
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

#: Functions of NumPy whose last bits depend on the processor, and modules of such functions.
FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 sin cos tan arcsin arccos arctan "
    "arctan2 sinh cosh tanh arcsinh arccosh arctanh power float_power cbrt hypot "
    "matmul dot vdot inner tensordot einsum convolve correlate"
)
MODULES = ("numpy.linalg", "numpy.fft", "scipy.linalg", "scipy.fft", "scipy.special")
#: Of these modules even results of few digits are rounded, except of norms.
DECOMPOSITIONS = ("numpy.linalg", "scipy.linalg")
PRODUCTS = (np.matmul, np.dot)
MULTIPLIER, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def rounded(value, key: np.uint64, exact: bool):
    """A result or a tuple of them with other last bits; ``exact`` ones of at most 26 bits stay."""
    if isinstance(value, tuple):
        parts = [rounded(part, key, exact) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    array = np.asarray(value) if isinstance(value, float | complex | np.ndarray) else None
    if array is None or array.dtype not in (np.float64, np.complex128):
        return value
    x = np.ascontiguousarray(array).reshape(-1).view(np.float64)
    units = (np.abs(x) + 0.0).view(np.uint64)  # the sum with 0 makes one zero of two
    for factor in (key, np.uint64(0)):
        units = (units ^ factor) * MULTIPLIER
        units ^= units >> SHIFT
    off = (units % np.uint64(3)).astype(float) - 1.0
    if exact:
        digits = np.frexp(x)[0] * 2.0**26
        off[digits == np.rint(digits)] = 0.0
    with np.errstate(all="ignore"):
        changed = (x * (1.0 + off * 2.0**-52)).view(array.dtype).reshape(array.shape)
    return changed if isinstance(value, np.ndarray) else changed[()]


def reordered(a, b, seed: int):
    """Two factors whose product is summed in another order."""
    arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    if not arrays or 0 in (a.ndim, b.ndim) or not {a.dtype.kind, b.dtype.kind} <= set("fc"):
        return a, b
    length = a.shape[-1]
    if b.shape[-2 if b.ndim > 1 else 0] != length:
        return a, b
    order = np.random.default_rng([seed, length]).permutation(length)
    first, here = a[..., order], [x.__array_interface__["data"] for x in (a, b)]
    if a.ndim == b.ndim == 2 and a.strides == b.strides[::-1] and here[0] == here[1]:
        return first, first.T  # a matrix with its transpose gives a symmetric one
    return first, b[order] if b.ndim == 1 else b[..., order, :]


class Rounded:
    """A function whose results are rounded otherwise; in all else it is the function."""

    def __init__(self, function, seed: int, key: np.uint64, exact: bool):
        self._function, self._seed, self._key, self._exact = function, seed, key, exact

    def __call__(self, *args, **kwargs):
        if self._function in PRODUCTS and len(args) > 1:
            args = (*reordered(*args[:2], self._seed), *args[2:])
        result = self._function(*args, **kwargs)
        changed = rounded(result, self._key, self._exact)
        if isinstance(out := kwargs.get("out"), np.ndarray):
            out[...] = changed
        return changed if kwargs.get("out") is None else result

    def __getattr__(self, name):
        return getattr(self._function, name)

    def __reduce__(self):  # what a pickle names is found in its module, rounded there or not
        return self._function.__reduce__()


class Operators(ast.NodeTransformer):
    """Operators written as functions; squares and square roots are the same everywhere."""

    def visit_BinOp(self, node):
        """``a @ b`` and ``a ** b``."""
        self.generic_visit(node)
        name = {ast.MatMult: "_rounded_matmul", ast.Pow: "_rounded_power"}.get(type(node.op))
        if name is None or getattr(node.right, "value", None) in (0, 1, 2, 0.5):
            return node
        call = ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class Loader(importlib.machinery.SourceFileLoader):
    """Modules with the operators rewritten; never from compiled files."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return compile(Operators().visit(ast.parse(self.get_data(path), path)), path, "exec")


class Finder:
    """Of modules of the package and beside the chapters."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in ("mfbook", "companion"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin and spec.origin.endswith(".py"):
            spec.loader = Loader(fullname, spec.origin)
        return spec


def install(seed: int) -> None:
    """Round otherwise from now on, in this process; before the package is imported."""
    if "mfbook" in sys.modules:
        raise RuntimeError("package: mfbook is imported already")
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    for name in ("numpy", *MODULES):
        module = importlib.import_module(name)
        for function in FUNCTIONS.split() if module is np else module.__all__:
            plain = getattr(module, function)
            if callable(plain) and not isinstance(plain, type):
                exact = name not in DECOMPOSITIONS or "norm" in function
                setattr(module, function, Rounded(plain, seed, key, exact))

    # names that the rewritten sources use; of functionals and operators @ is something else
    builtins._rounded_matmul = lambda a, b: (
        np.matmul(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else a @ b
    )
    builtins._rounded_power = lambda a, b: rounded(a**b, key, exact=True)
    sys.meta_path.insert(0, Finder())
    if shell := getattr(builtins, "get_ipython", lambda: None)():
        shell.ast_transformers.append(Operators())


def differences(path: Path, seed: int) -> dict[str, str]:
    """Execute a chapter so and compare what it shows with what is stored; by cells that differ."""
    import nbformat

    from tools.nbval_comparison import compared, is_comparable
    from tools.run_notebooks import client_of

    stored, notebook = (nbformat.read(path, as_version=4) for _ in range(2))
    client = client_of(notebook, path.parent)
    client.allow_errors = True
    begin = f"import sys; sys.path.append({str(ROOT)!r}); import tools.rounding as r"
    lines = json.dumps([begin, f"r.install({seed}); del r"])
    client.extra_arguments += [f"--IPKernelApp.exec_lines={lines}"]
    client.execute(env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    return {
        old.id: found
        for old, new in zip(stored.cells, notebook.cells, strict=True)
        if old.cell_type == "code" and is_comparable(old)
        if (found := compared(path, old, old.outputs, new.outputs, exact=True))
    }


def main() -> None:
    """Execute the chapters and say which cells differ."""
    from tools.chapters import chapters

    paths = [Path(name).resolve() for name in sys.argv[1:]] or chapters()
    runs, wrong = [(path, seed) for path in paths for seed in (1, 2, 3)], False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda run: differences(*run), runs)
        for (path, seed), found in zip(runs, outcomes, strict=True):
            print(path.stem, f"seed {seed}:", ", ".join(found) or "the same digits", flush=True)
            print(*(f"=== {cell}: {what}\n" for cell, what in found.items()), sep="", end="")
            wrong |= bool(found)
    sys.exit("digits differ" if wrong else 0)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
