r"""Attention and a perceptron on the sphere: one energy, its first variation, its flow.

.. math:: E(\mu)=\frac1{2\beta}\iint e^{\beta(\langle x,By\rangle-s)}d\mu\,d\mu
          +\frac12\int v\,d\mu,\qquad
          v(x)=\sum_j\omega_j\Phi(\langle a_j,x\rangle+b_j),\ \Phi'=2\sigma

with :math:`s=\|B\|_2`, so that no exponential overflows. Its gradient field

.. math:: u(x;\mu)=P_x\Big[\int e^{\beta(\langle x,By\rangle-s)}By\,d\mu(y)
          +\sum_j\omega_j\sigma(\langle a_j,x\rangle+b_j)a_j\Big]
          =\nabla\frac{\delta E}{\delta\mu}(x)

moves the tokens of the model: :math:`\dot x=u` ascends, :math:`\dot x=-u` descends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mfbook import _validate as validate
from mfbook.activations import Activation, activation
from mfbook.functional import Functional, Minimum
from mfbook.measure import Measure, check_measure
from mfbook.space import ON_TOLERANCE, Sphere
from mfbook.sphere import forces
from mfbook.sphere.linearised import Linearised
from mfbook.sphere.search import least

__all__ = ["Field", "SphereEnergy"]


@dataclass(frozen=True, eq=False)
class SphereEnergy(Functional):
    r"""The energy of attention and a perceptron on the sphere :math:`S^{d-1}`.

    - ``beta``: Inverse temperature, positive.
    - ``a`` (J, d): Directions of the units, unit vectors. Default: no perceptron.
    - ``omega`` (J,): Their weights; given if and only if ``a`` is.
    - ``activation``: ``"relu"``, ``"leaky_relu"``, ``"gelu"``, ``"tanh"``, ``"linear"``, or one of
      your own.
    - ``normalised``: Divide the attention part of the *velocity* by :math:`Z(x)=\int
      e^{\beta(\langle x,By\rangle-s)}d\mu`, as softmax does. The energy stays what it is; with a
      perceptron the velocity is then not its gradient in any fixed metric.
    - ``bias`` (J,): Biases :math:`b_j` (Remark 3.4 (i)). Default 0.
    - ``B`` (d, d): Symmetric invertible matrix of the kernel (Remark 3.4 (ii)). Default: the
      identity.

    A pair of antipodal particles repels without moving, and its energy is in closed form:

    >>> import numpy as np
    >>> F, mu = SphereEnergy(2.0), Measure([[1.0, 0.0], [-1.0, 0.0]])
    >>> bool(np.isclose(F(mu), (1 + np.exp(-4)) / 8)), F.velocity(mu.atoms, mu).tolist()
    (True, [[0.0, 0.0], [0.0, 0.0]])

    >>> F = SphereEnergy(1.0, [[1.0, 0.0]], [2.0])  # with a perceptron
    >>> F.potential(np.array([[0.6, 0.8]])), F.perceptron(np.array([[0.6, 0.8]]))
    (array([0.72]), array([[1.2, 0. ]]))
    """

    beta: float
    a: np.ndarray | None = field(default=None, repr=False)
    omega: np.ndarray | None = None
    activation: Activation = "relu"  # type: ignore[assignment]
    normalised: bool = False
    bias: np.ndarray | None = field(default=None, repr=False)
    B: np.ndarray | None = None

    space = Sphere()

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(
            self,
            beta: float,
            a: ArrayLike | None = None,
            omega: ArrayLike | None = None,
            activation: Activation | str = "relu",
            normalised: bool = False,
            bias: ArrayLike | None = None,
            B: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self):
        kept: dict[str, Any] = {
            "beta": validate.scale(self.beta, "beta"),
            "activation": activation(self.activation),
            "normalised": validate.flag(self.normalised, "normalised"),
        }
        if (self.a is None) != (self.omega is None):
            missing = "omega" if self.omega is None else "a"
            raise ValueError(
                f"{missing}: expected directions a and weights omega together, got one"
            )
        if self.a is None and self.bias is not None:
            raise ValueError("bias: expected none without units, got a bias")
        if self.a is not None:
            a = validate.array(self.a, "a", ("J", "d"))
            _dimension(a, "a")
            on_sphere(a, "a")
            kept["a"] = a
            for name in ("omega", "bias"):
                if getattr(self, name) is not None:
                    value = getattr(self, name)
                    kept[name] = validate.array(value, name, (len(a),), largest=validate.LARGEST)
        if self.B is not None:
            kept["B"] = validate.array(self.B, "B", ("d", "d"), largest=validate.LARGEST)
            _check_matrix(kept["B"], None if self.a is None else kept["a"].shape[1])
        for name, value in kept.items():
            if isinstance(value, np.ndarray):
                value = validate.frozen(value.astype(float))
            object.__setattr__(self, name, value)

    @cached_property
    def shift(self) -> float:
        """Spectral norm s of B: the largest value of <x, By> on the sphere."""
        return 1.0 if self.B is None else float(np.abs(np.linalg.eigvalsh(self.B)).max())

    @property
    def dim(self) -> int | None:
        """Ambient dimension d, where the parameters fix it."""
        known = self.a if self.a is not None else self.B
        return None if known is None else known.shape[1]

    def at(self, mu: Measure) -> _Local:
        """Everything that needs ``mu`` only once; its atoms are unit vectors, or complex."""
        validate.instance(mu, "mu", Measure)
        self._points(mu.atoms, "mu")
        return _Local(self, mu.atoms, mu.weights)

    def _points(self, x, name="x"):
        """Check that x holds points of the sphere, or complex ones."""
        _dimension(x, name, self.dim)
        if not np.iscomplexobj(x):
            on_sphere(x, name)
        return x

    def _scores(self, x):
        a: Any = self.a  # who asks has units
        return x @ a.T + (0.0 if self.bias is None else self.bias)

    def potential(self, x: np.ndarray) -> np.ndarray:
        """Potential v of the perceptron at points (n, d), shape (n,); 0 without a perceptron."""
        return self._v(self._points(validate.array(x, "x", ("n", "d"), allow_complex=True)))

    def _v(self, x):
        if self.a is None:
            return np.zeros(len(x), x.dtype)
        return self.activation.primitive(self._scores(x)) @ self.omega

    def perceptron(self, x: np.ndarray) -> np.ndarray:
        """Drift of the perceptron, half the ambient gradient of v, shape (n, d)."""
        return self._drift(self._points(validate.array(x, "x", ("n", "d"), allow_complex=True)))

    def _drift(self, x):
        if self.a is None:
            return np.zeros_like(x)
        return (self.activation.sigma(self._scores(x)) * self.omega) @ self.a

    def velocity(self, x: ArrayLike, mu: Measure) -> np.ndarray:
        r"""Field :math:`u(x;\mu)`, the velocity of ascent; x and the atoms are unit vectors (n, d).

        >>> F, mu = SphereEnergy(1.0), Measure([[1.0, 0.0]])
        >>> F.velocity([[0.0, 1.0]], mu).round(4)
        array([[0.3679, 0.    ]])
        """
        local = self.at(mu)
        if x is not mu.atoms:
            x = self._points(validate.array(x, "x", ("n", mu.dim)))
        return local.velocity(x)

    def field(self, ascent: bool = False) -> Field:
        """Velocity of the flow as a field for :func:`mfbook.flow.flow`: +u or -u."""
        return Field(self, 1.0 if validate.flag(ascent, "ascent") else -1.0)


def _dimension(x, name: str, d: int | None = None) -> None:
    if x.shape[1] < 2 or d not in (None, x.shape[1]):
        wanted = "at least 2" if d is None else d
        raise ValueError(f"{name}: expected points in R^d with d = {wanted}, got {x.shape[1]}")


def on_sphere(x, name: str) -> None:
    """Refuse points that are not unit vectors."""
    size = np.sqrt(np.einsum("nd,nd->n", x, x))
    error = np.abs(size - 1)
    if not error.max() <= ON_TOLERANCE:
        i = int(error.argmax())
        raise ValueError(f"{name}: expected unit vectors, got length {size[i]:.12g} at index {i}")


def _check_matrix(B, d: int | None) -> None:
    """Refuse a B that is not a symmetric invertible matrix of the right size."""
    if B.shape[0] != B.shape[1] or d not in (None, len(B)):
        wanted = "a square matrix" if d is None else f"shape {(d, d)} as a has"
        raise ValueError(f"B: expected {wanted}, got shape {B.shape}")
    skew = np.abs(B - B.T).max()
    if not skew <= 1e-12 * np.abs(B).max():
        raise ValueError(f"B: expected a symmetric matrix, got B - B^T up to {skew:.3g}")
    size = np.abs(np.linalg.eigvalsh(B.astype(float)))
    if not size.min() > 1e-14 * size.max():
        raise ValueError(f"B: expected an invertible matrix, got least |eigenvalue| {size.min()}")


@dataclass(frozen=True, eq=False)
class Field:
    """The velocity field of ascent (sign +1) or descent (-1), with its linearisation."""

    F: SphereEnergy
    sign: float

    def __call__(self, x: np.ndarray, mu: Measure) -> np.ndarray:
        """Velocities at the points ``x``, shape (n, d)."""
        return self.sign * self.F.velocity(x, mu)

    def at_atoms(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Velocities of the atoms ``x`` with weights ``w``, without checks of arguments."""
        return self.sign * _Local(self.F, x, w).velocity(x)

    def linearised(self, mu: Measure) -> Linearised:
        """Linearisation of the motion of all atoms, for implicit steps."""
        self.F.at(check_measure(mu))  # refuses atoms of another dimension or off the sphere
        return Linearised(self.F, mu.atoms, mu.weights, self.sign)


def _tangent(x, v):
    """Tangential part of v at unit vectors x, without checks of arguments."""
    return v - (x * v).sum(axis=-1, keepdims=True) * x


class _Local:
    """The energy at one measure; sums over pairs are computed when they are asked for."""

    def __init__(self, F: SphereEnergy, y, w):
        self.F, self.atoms, self.weights = F, y, w

    @cached_property
    def _series(self):
        return forces.CircleSums(self.atoms, self.weights, self.F.beta)

    def _fast(self, x):
        """Whether the series on the circle is known, and cheaper than all pairs."""
        plane = self.F.B is None and self.atoms.shape[1] == 2
        real = plane and not (np.iscomplexobj(self.atoms) or np.iscomplexobj(x))
        return real and forces.fast_on_circle(len(x), len(self.atoms), self.F.beta)

    @cached_property
    def _own(self):
        """Z and N at the atoms."""
        if self._fast(self.atoms):
            return self._from_series(self.atoms)
        return forces.symmetric(*self._problem())

    def _problem(self):
        F = self.F
        return self.atoms, self.weights, F.beta, F.B, F.shift

    def _from_series(self, x):
        Z, radial, tangential = self._series("Zrt", None if x is self.atoms else x)
        return Z, radial[:, None] * x + tangential[:, None] * forces.turned(x)

    def _sums(self, x):
        """Z and N at any points: by the series where it is cheaper, else directly."""
        if x is self.atoms:
            return self._own
        return self._from_series(x) if self._fast(x) else forces.direct(x, *self._problem())

    @property
    def value(self):
        attention = self.weights @ self._own[0] / (2 * self.F.beta)
        return attention + self.weights @ self.F._v(self.atoms) / 2

    def first_variation(self, x):
        x = self._checked(x)
        return self._sums(x)[0] / self.F.beta + self.F._v(x) / 2

    def gradient(self, x):
        """Ambient gradient; its tangential part is the field u of unnormalised attention."""
        x = self._checked(x)
        return self._sums(x)[1] + self.F._drift(x)

    def _checked(self, x):
        if x is self.atoms:
            return x
        shape = ("n", self.atoms.shape[1])
        return self.F._points(validate.array(x, "x", shape, allow_complex=True))

    def velocity(self, x):
        """Tangential field u, normalised if F is."""
        F = self.F
        if not self._fast(x):
            u = _tangent(x, self._attention(x) if F.normalised else self._sums(x)[1])
        else:
            turned, at = forces.turned(x), None if x is self.atoms else x
            if not F.normalised:
                part = self._series("t", at)[0]
            else:
                Z, part = self._series("Zt", at)
                # the quotient of two sums of size Z is accurate to rounding / Z
                far = np.flatnonzero(Z < forces.ACCURATE)
                part = part / np.where(Z > 0, Z, 1)
                if len(far):
                    part[far] = (turned[far] * self._attention(x[far])).sum(axis=1)
            u = part[:, None] * turned
        return u if F.a is None else u + _tangent(x, F._drift(x))

    def _attention(self, x):
        """Normalised attention N / Z, directly and without underflow."""
        Z, N = self._own if x is self.atoms else forces.direct(x, *self._problem())
        far = np.flatnonzero(~(Z > forces.SAFE))
        ratio = N / np.where(Z > forces.SAFE, Z, 1)[:, None]
        if len(far):
            Z, N = forces.direct(x[far], *self._problem(), shift=True)
            ratio[far] = N / Z[:, None]
        return ratio

    def minimise(self, rng, ridge: float = 0.0, space=None, **options) -> Minimum:
        """Least value of the first variation on the sphere, with a proved bound."""
        if validate.positive(ridge, "ridge", allow_zero=True):
            return NotImplemented
        options = validate.options(options, least)
        return least(self.F, self.atoms, self.weights, rng, **options)
