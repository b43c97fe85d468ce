"""Random rounding: what another processor does to the numbers of a program, on this one.

Two processors give different last bits of sums, of transcendental functions and of decompositions,
for they have other instructions and other libraries. :func:`install` does the same on purpose, as
Verrou and CADNA do for compiled programs: from then on

- results of NumPy's and SciPy's transcendental functions, matrix products and decompositions are
  multiplied by ``1 + u 2**-52`` with ``u`` in {-1, 0, 1};
- matrix products are summed in another order, so that what cancels leaves another rest.

``u`` is a hash of the seed and of the size of the result. So a function stays a function (equal
arguments give equal results), odd and even functions stay so, and symmetric matrices symmetric.
Exact results of functions (``exp(0)``, ``2**-6``) stay exact, as they are on every processor.

Operators of arrays cannot be replaced from outside. In the package and in cells of notebooks they
are rewritten when the source is read: ``a @ b`` into ``matmul(a, b)``, ``a ** b`` into
``power(a, b)``. Nothing of the package is known here by name, and nothing of it is patched.

A kernel that is started with ``--IPKernelApp.exec_lines`` set to :func:`first_line` runs so; see
tools/elsewhere.py, which executes the chapters.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import operator
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

#: Names of functions whose last bits depend on the processor, by module.
ELEMENTWISE = {
    "numpy": (
        "exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 sin cos tan arcsin arccos arctan "
        "arctan2 sinh cosh tanh arcsinh arccosh arctanh power float_power cbrt hypot"
    ).split(),
    "scipy.special": (
        "betainc betaincinv erf erfc erfcinv erfinv eval_gegenbauer eval_legendre exp1 expi expit "
        "gamma gammaincc gammaln i0 i0e i1e iv ive lambertw log_ndtr logsumexp ndtr ndtri softmax "
        "log_softmax xlogy entr rel_entr kl_div roots_gegenbauer roots_legendre"
    ).split(),
}
PRODUCTS = {
    "numpy": "matmul dot vdot inner tensordot einsum convolve correlate".split(),
    "numpy.linalg": "norm matrix_norm vector_norm".split(),
    "scipy.linalg": ["norm"],
}
#: Products of two factors over the last axis of one and the first but one of the other.
REORDERED = ("matmul", "dot")
DECOMPOSITIONS = {
    "numpy.linalg": (
        "eig eigh eigvals eigvalsh svd svdvals solve inv pinv lstsq qr cholesky det slogdet cond "
        "multi_dot matrix_power"
    ).split(),
    "numpy.fft": "fft ifft rfft irfft fft2 ifft2".split(),
    "scipy.linalg": (
        "eig eigh eigvals eigvalsh svd svdvals solve inv pinv lstsq qr cholesky cho_factor "
        "cho_solve lu_factor lu_solve det expm logm sqrtm eigh_tridiagonal solve_triangular "
        "null_space orth polar schur"
    ).split(),
    "scipy.fft": "fft ifft rfft irfft dct idct".split(),
}

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def _few_bits(x) -> np.ndarray:
    """Whether numbers have at most 26 binary digits: results that are exact, not rounded."""
    real, imaginary = (np.frexp(part)[0] * 2.0**26 for part in (np.real(x), np.imag(x)))
    return (real == np.rint(real)) & (imaginary == np.rint(imaginary))


class Rounding:
    """Rounding errors that are a function of a seed and of the size of a number."""

    def __init__(self, seed: int):
        self._key = np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        self._seed = seed
        self._orders: dict[int, np.ndarray] = {}

    def units(self, x: np.ndarray) -> np.ndarray:
        """For every number -1, 0 or 1."""
        if np.iscomplexobj(x):
            real, imaginary = (self._bits(part) for part in (x.real, x.imag))
            bits = real ^ (imaginary * np.uint64(3))
        else:
            bits = self._bits(x)
        mixed = (bits ^ self._key) * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        mixed *= _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        return (mixed % np.uint64(3)).astype(float).reshape(np.shape(x)) - 1.0

    @staticmethod
    def _bits(x) -> np.ndarray:
        # the sum with 0 makes the memory contiguous and one zero of two
        return np.atleast_1d(np.abs(x) + 0.0).view(np.uint64)

    def __call__(self, value, exact: bool = False):
        """A result, or a tuple of results, with other last bits."""
        if isinstance(value, tuple):
            parts = [self(part, exact) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, float):
            value = np.float64(value)
        if not isinstance(value, (np.ndarray, np.float64, np.complex128)):
            return value
        if value.dtype not in (np.float64, np.complex128) or value.size == 0:
            return value
        units = self.units(np.asarray(value))
        if exact:
            units = np.where(_few_bits(value), 0.0, units)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            changed = value * (1.0 + units * 2.0**-52)
            if np.iscomplexobj(value):  # inf * complex gives NaN
                changed = np.where(np.isfinite(value), changed, value)
        if isinstance(value, np.ndarray):
            return np.asarray(changed).reshape(value.shape)
        return value.dtype.type(changed)

    def order(self, length: int) -> np.ndarray:
        """In which order a sum of so many terms is taken."""
        if length not in self._orders:
            rng = np.random.default_rng([self._seed, length])
            self._orders[length] = rng.permutation(length)
        return self._orders[length]


class Rounded:
    """A function whose results are rounded otherwise; in all else it is the function."""

    def __init__(self, function, rounding: Rounding, exact: bool = False):
        functools.update_wrapper(self, function, updated=())
        self._function, self._rounding, self._exact = function, rounding, exact

    def __call__(self, *args, **kwargs):
        """The result of the function with other last bits, in ``out`` if that is given."""
        result = self._function(*args, **kwargs)
        changed = self._rounding(result, self._exact)
        out = kwargs.get("out")
        if out is None:
            return changed
        if isinstance(out, np.ndarray):
            out[...] = changed
        return result

    def __getattr__(self, name):
        return getattr(self._function, name)

    def __repr__(self):
        return repr(self._function)

    def __reduce__(self):
        # what a pickle names is found in its module, rounded there or not
        return self._function.__reduce__()


class Reordered:
    """A product whose sums are taken in another order; in all else it is the product."""

    def __init__(self, product, rounding: Rounding):
        functools.update_wrapper(self, product, updated=())
        self._product, self._rounding = product, rounding

    def __call__(self, a, b, *args, **kwargs):
        """The product of two arrays."""
        return self._product(*self._factors(a, b), *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._product, name)

    def _factors(self, a, b):
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        if not arrays or 0 in (a.ndim, b.ndim) or not {a.dtype.kind, b.dtype.kind} <= set("fc"):
            return a, b
        order = self._rounding.order(a.shape[-1])
        if len(order) < 2 or b.shape[-2 if b.ndim > 1 else 0] != len(order):
            return a, b
        first = a[..., order]
        if (
            a.ndim == b.ndim == 2 and a.strides == b.strides[::-1]
            and a.__array_interface__["data"] == b.__array_interface__["data"]
        ):  # fmt: skip
            return first, first.T  # a matrix with its transpose gives a symmetric one
        return first, b[order] if b.ndim == 1 else b[..., order, :]


class Products(ast.NodeTransformer):
    """Operators written as functions, which can be replaced."""

    NAMES = {ast.MatMult: "_rounded_matmul", ast.Pow: "_rounded_power"}

    def visit_BinOp(self, node):
        """``a @ b`` and ``a ** b``; squares and square roots are the same everywhere."""
        self.generic_visit(node)
        name = self.NAMES.get(type(node.op))
        exponent = getattr(node.right, "value", None)
        if name is None or (isinstance(node.op, ast.Pow) and exponent in (0, 1, 2, 0.5)):
            return node
        call = ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_AugAssign(self, node):
        """``a @= b`` is ``a = a @ b`` for all that is written here."""
        self.generic_visit(node)
        if type(node.op) not in self.NAMES or not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        assign = ast.Assign([node.target], self.visit_BinOp(ast.copy_location(value, node)))
        return ast.fix_missing_locations(ast.copy_location(assign, node))


class _Loader(importlib.machinery.SourceFileLoader):
    """Modules with the operators rewritten; never from compiled files."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = Products().visit(ast.parse(self.get_data(path), path))
        return compile(tree, path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """The modules of a package."""

    def __init__(self, package: str):
        self._package = package

    def find_spec(self, fullname, path=None, target=None):
        """Where a module of the package is, with the loader above."""
        if fullname.partition(".")[0] != self._package:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path or [str(ROOT)], target)
        if spec is not None and spec.origin and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install(seed: int, package: str = "mfbook") -> None:
    """Round otherwise from now on, in this process; before the package is imported.

    Parameters
    ----------
    seed : int
        Another seed gives other errors.
    package : str
        The package whose operators are rewritten.

    Raises
    ------
    RuntimeError
        If the package is imported already.
    """
    if package in sys.modules:
        raise RuntimeError(f"package: {package} is imported already")
    import builtins

    rounding = Rounding(seed)
    for table, exact in ((ELEMENTWISE, True), (PRODUCTS, True), (DECOMPOSITIONS, False)):
        for name, functions in table.items():
            module = importlib.import_module(name)
            for function in filter(functools.partial(hasattr, module), functions):
                plain = getattr(module, function)
                if module is np and function in REORDERED:
                    plain = Reordered(plain, rounding)
                setattr(module, function, Rounded(plain, rounding, exact))

    def times(a, b):
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        return np.matmul(a, b) if arrays else operator.matmul(a, b)

    def to_the(a, b):
        return rounding(operator.pow(a, b), exact=True)

    # names that the rewritten sources use
    builtins._rounded_matmul, builtins._rounded_power = times, to_the
    sys.meta_path.insert(0, _Finder(package))
    try:
        shell = get_ipython()  # type: ignore[name-defined]
    except NameError:
        return
    shell.ast_transformers.append(Products())


def first_line(seed: int) -> str:
    """What a kernel has to run first."""
    return (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"import tools.rounding; tools.rounding.install({seed})"
    )
