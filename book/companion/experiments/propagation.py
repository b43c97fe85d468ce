r"""Propagation of chaos, measured: heads under SGD against the solution of the equation.

The initial law :math:`\rho_0` has 1024 atoms, so :math:`\rho_t` is computed without sampling error.
M heads are independent draws from it. Errors are those of Theorem 5.2: of the risk, and of the
integrals of four fixed 1-Lipschitz functions.

    python -m companion.experiments.propagation        (half an hour on two cores)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.spatial.distance import cdist

from companion.experiments import _stored
from companion.experiments._stored import grid
from companion.mathematics.influence import influence
from companion.mathematics.lipschitz import direction, distance_to, saturated
from companion.tasks import Task, teacher_student
from mfbook.attention import AttentionRisk, HeadShape, features
from mfbook.flow import Adaptive, Euler, Trajectory, gradient_flow, sgd
from mfbook.flow.ensemble import sgd_ensemble
from mfbook.measure import Measure

SHAPE = HeadShape(d=4, k=2, v=2)
RADIUS = 3.5
HEADS = tuple(2**j for j in range(4, 13))
STEPS = tuple(2.0**-j for j in range(2, 10))
#: Rescaled times at which every run is compared; multiples of the largest step.
TIMES = np.arange(33) / 4
REPETITIONS = 50
FLOWS = 100
#: Numbers of heads of the two experiments that fix one thing and vary the step.
EULER_HEADS, NOISE_HEADS = 64, (16, 64, 1024)
#: Part of the grid in which runs are also followed head by head: every second one of both.
FOLLOWED_HEADS, FOLLOWED_STEPS, FOLLOWED = HEADS[::2], STEPS[1::2], 24
#: Random signs for the second variation of the flow.
PROBES = 32
CONTINUOUS_HEADS, CONTINUOUS_REFERENCE = (64, 256, 1024), 2**14
#: Size of complex steps, and the solver of a solution without error.
TINY, FINE = 1e-30, Adaptive(rtol=1e-8, atol=1e-10)

FILE = _stored.FOLDER / "propagation.npz"
COMMAND = "python -m companion.experiments.propagation"


@cache
def task() -> Task:
    """Soft labels of a teacher with two heads; the optimum is known."""
    return teacher_student(SHAPE, sequences=16, tokens=5, vocabulary=5, heads=2, rng=50, scale=4.0)


@cache
def risk() -> AttentionRisk:
    """Its risk on all of R^D."""
    return task().risk(SHAPE)


@cache
def law() -> Measure:
    r"""Initial law :math:`\rho_0`: 1024 atoms, themselves drawn from the product of balls."""
    return Measure(SHAPE.ball(RADIUS).sample(1, 1024))


@cache
def functions() -> tuple:
    """Four 1-Lipschitz functions of a head: two linear or bounded, two distances."""
    rng = np.random.default_rng(2)
    u, w = rng.normal(size=(2, SHAPE.size))
    return (
        direction(u, name="a direction"),
        saturated(w, width=2.0, name="a bounded direction"),
        distance_to(np.zeros(SHAPE.size), name="distance to 0"),
        distance_to(task().teacher.atoms[0], name="distance to a head of the teacher"),
    )


def observe(mu: Measure) -> np.ndarray:
    """Risk, and the integral of each function; shape (5,)."""
    return np.array([risk()(mu), *(mu.integrate(f(mu.atoms)) for f in functions())])


def along(trajectory) -> np.ndarray:
    """What is observed of each state of a trajectory, shape (n_t, 5)."""
    return np.array([observe(trajectory.measure(i)) for i in range(len(trajectory))])


def counts(M: int, rng) -> np.ndarray:
    """How often each atom of the law is among M independent draws, shape (1024,)."""
    return np.bincount(rng.integers(law().size, size=M), minlength=law().size)


def draw(M: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """M independent heads as atoms and weights."""
    n = counts(M, rng)
    # heads that are drawn twice move together for ever: as one, they are less work
    if M < law().size:
        return np.repeat(law().atoms, n, axis=0), np.full(M, 1 / M)
    return law().atoms, n / M


def exact(mu: Measure, times=TIMES, solver=FINE) -> Trajectory:
    """The gradient flow from a measure."""
    return gradient_flow(risk(), mu, times, solver=solver)


@cache
def solution() -> Trajectory:
    r"""The solution :math:`\rho_t` at ``TIMES``; its atoms are the characteristics of all heads."""
    return exact(law())


@cache
def reference() -> np.ndarray:
    r"""What is observed of :math:`\rho_t` at ``TIMES``, shape (33, 5)."""
    return along(solution())


def flow_row(M: int, seed: int) -> np.ndarray:
    """Signed errors of the exact flow of M draws, shape (33, 5): the sampling error alone."""
    return along(exact(Measure(*draw(M, np.random.default_rng([M, seed]))))) - reference()


def together(starts: list[tuple], epsilon: float, rngs: list, see: Callable) -> np.ndarray:
    """What is seen of runs of SGD with one sequence a step at ``TIMES``, shape (runs, 33, q)."""
    atoms, weights = (np.array(part) for part in zip(*starts, strict=True))
    seen = sgd_ensemble(risk(), atoms, TIMES, epsilon, rngs, see, weights=weights)
    return seen.transpose(1, 0, 2)


def generator(M: int, epsilon: float, seed: int) -> np.random.Generator:
    """The one source of randomness of a row: it draws the heads, then the data."""
    return np.random.default_rng([M, round(1 / epsilon), seed])


def descent_cell(M: int, epsilon: float, seeds: tuple) -> np.ndarray:
    """Signed errors of SGD with one sequence a step, shape (len(seeds), 33, 5)."""
    rngs = [generator(M, epsilon, seed) for seed in seeds]
    return together([draw(M, rng) for rng in rngs], epsilon, rngs, observe) - reference()


def descent_row(M: int, epsilon: float, seed: int, times=TIMES) -> np.ndarray:
    """One row of :func:`descent_cell`, by :func:`mfbook.flow.sgd`; at other times no errors."""
    rng = generator(M, epsilon, seed)
    start = Measure(*draw(M, rng))
    seen = along(sgd(risk(), start, times, epsilon, rng))
    return seen - reference() if times is TIMES else seen


def way(atoms: np.ndarray) -> np.ndarray:
    r"""Distance of each head from the support of :math:`\rho_0`: how far it has moved; (n,).

    (As long as no head has come nearer to another's start than to its own.)
    """
    return cdist(atoms, law().atoms).min(axis=1)


def followed_cell(M: int, epsilon: float, seeds: tuple) -> np.ndarray:
    """The runs of :func:`descent_cell` head by head: at each time four numbers, (seeds, 33, 4).

    The risk, mean distances to zero and of :func:`way`, largest distance from a characteristic.
    """
    rngs, far = [generator(M, epsilon, seed) for seed in seeds], functions()[2]

    def see(mu):
        means = [risk()(mu), mu.integrate(far(mu.atoms)), mu.integrate(way(mu.atoms))]
        return np.concatenate([means, mu.atoms.ravel()])

    starts = [draw(M, rng) for rng in rngs]
    seen, apart = together(starts, epsilon, rngs, see), []
    for run, (atoms, weights) in zip(seen, starts, strict=True):
        own = solution().atoms[:, cdist(atoms, law().atoms).argmin(axis=1)]
        away = np.linalg.norm(run[:, 3:].reshape(own.shape) - own, axis=-1)
        apart.append(away[:, weights > 0].max(axis=1))  # heads of weight zero are none
    return np.concatenate([seen[:, :, :3], np.array(apart)[:, :, None]], axis=2)


def euler_row(seed: int) -> np.ndarray:
    """Largest error of Euler steps against the exact flow of the same heads, (steps, 5)."""
    start = Measure(*draw(EULER_HEADS, np.random.default_rng([EULER_HEADS, seed])))
    right, runs = along(exact(start)), (exact(start, solver=Euler(e)) for e in STEPS)
    return np.array([np.abs(along(run) - right).max(axis=0) for run in runs])


def noise_cell(M: int, epsilon: float) -> np.ndarray:
    """Largest difference of SGD and Euler steps from the same heads, (repetitions, 5)."""
    start = draw(M, np.random.default_rng([M, 0]))
    run = along(exact(Measure(*start), solver=Euler(epsilon)))
    n, seeds = round(1 / epsilon), range(REPETITIONS)
    rngs = [np.random.default_rng([M, n, seed, 1]) for seed in seeds]
    seen = together([start] * REPETITIONS, epsilon, rngs, observe)
    return np.abs(seen - run).max(axis=1)


def continuous_flow(rng, M: int) -> np.ndarray:
    """What is observed of the flow of M draws from the continuous law, shape (9, 5)."""
    start = Measure(SHAPE.ball(RADIUS).sample(rng, M))
    return along(exact(start, TIMES[::4], Adaptive(rtol=1e-6, atol=1e-8)))


@cache
def continuous_reference() -> np.ndarray:
    """The flow of 16384 draws from the continuous law: a reference with sampling error."""
    return continuous_flow(3, CONTINUOUS_REFERENCE)


def continuous_cell(M: int) -> np.ndarray:
    """Signed errors of M draws from the continuous law, (repetitions, 9, 5)."""
    rngs = [np.random.default_rng([M, seed, 2]) for seed in range(REPETITIONS)]
    return np.array([continuous_flow(rng, M) - continuous_reference() for rng in rngs])


def jacobians(theta: np.ndarray) -> np.ndarray:
    """Derivatives of the features in the entries of a head, (heads, S, T, V, D)."""
    steps = 1j * TINY * np.eye(SHAPE.size)
    moved = [features(theta + e, risk().X, risk().W_U, SHAPE).imag / TINY for e in steps]
    return np.stack(moved, axis=-1)


def lipschitz_row(time: int) -> np.ndarray:
    r"""Constants of the drift, measured on the atoms of :math:`\rho_t`; shape (5,).

    They are :math:`\max_i(-\lambda_{\min}\nabla^2\Psi(\theta_i))`,
    :math:`\max_i\|\nabla^2\Psi(\theta_i)\|`,
    :math:`\frac12\mathbb E\frac1T\sum_t\max_i\|\nabla\varphi_t(\theta_i)\|^2`, and the largest
    eigenvalues of the interaction and of the whole Hessian in the metric of the heads.
    """
    mu = solution().measure(4 * time)
    local, steps = risk().at(mu), 1j * TINY * np.eye(SHAPE.size)
    H = np.stack([local.gradient(mu.atoms + e).imag / TINY for e in steps], axis=1)
    eigenvalues = np.linalg.eigvalsh((H + H.transpose(0, 2, 1)) / 2)
    largest = np.zeros(risk().Y.shape[:2])
    for part in np.array_split(mu.atoms, 16):
        J = jacobians(part)
        square = np.linalg.eigvalsh(J @ J.mT)[..., -1]
        largest = np.maximum(largest, square.max(axis=0))
    single, lipschitz = np.array([-eigenvalues.min(), np.abs(eigenvalues).max()]), largest / 2
    # the Hessian acts on all heads at once; power iteration, shifted to make it positive
    shift, top = single[0], []
    for whole in (False, True):
        h, value = np.random.default_rng(4).normal(size=mu.atoms.shape), 0.0
        for _ in range(30):
            h /= np.sqrt(mu.integrate((h * h).sum(axis=1)))
            at = mu.atoms + 1j * TINY * h
            moved = risk().at(Measure(at, mu.weights))
            image = moved.gradient(at if whole else mu.atoms).imag / TINY + shift * h
            value = mu.integrate((h * image).sum(axis=1)) - shift
            h = image
        top.append(value)
    return np.array([*single, lipschitz.mean(), *top])


def noise_row(time: int) -> float:
    r"""Mean square :math:`\mathbb E|g-G|_M^2` of the noise of one sample at :math:`\rho_t`.

    Not sampled: a mean over sequences and labels, in which the gradient is linear.
    """
    mu, total = solution().measure(4 * time), 0.0
    local, Y, (n, T) = risk().at(mu), risk().Y, risk().X.shape[:2]
    G = local.gradient(mu.atoms)
    for part, mean in zip(np.array_split(mu.atoms, 16), np.array_split(G, 16), strict=True):
        J = jacobians(part) / T
        sequence = np.einsum("nstvd,stv->nsd", J, local.residual)  # its labels averaged
        total += ((sequence - mean[:, None]) ** 2).sum() / n
        square = np.einsum("nstvd,nstvd->stv", J, J)
        total += ((square * Y).sum() - (np.einsum("nstvd,stv->nstd", J, Y) ** 2).sum()) / n
    return total / mu.size


def influence_row(quantity: int) -> np.ndarray:
    """Influence of each atom on the risk at times 0, 4, 8, or on a function at time 8."""
    f = functions()[quantity - 1] if quantity else None
    times = [0.0, 4.0, 8.0] if f is None else [8.0]
    return influence(risk(), law(), times, f, rtol=1e-5)


def second_variation_row(seed: int) -> np.ndarray:
    r"""An unbiased estimate of the coefficient of 1/M in the mean risk at times 0, 4, 8; (3,).

    It is half the mean over the atoms of the second derivative of the flowed risk towards one
    atom, :math:`D^2U_t[\delta_{\theta_i}-\rho_0]^2`. Random signs take that mean: with
    :math:`h=\frac1n\sum_i\pm(\delta_{\theta_i}-\rho_0)` it is :math:`n\,\mathbb E D^2U_t[h,h]`.
    No head is sampled; the flows start from :math:`\rho_0\pm h/2`.
    """
    n, h, times = law().size, 0.5, [0.0, 4.0, 8.0]
    signs = np.random.default_rng([seed, 6]).choice([-1.0, 1.0], n)
    tilt = (signs - signs.mean()) / n
    up, down = (exact(Measure(law().atoms, law().weights + side * tilt), times) for side in (h, -h))
    return n / 2 * (up.value - 2 * reference()[[0, 16, 32], 0] + down.value) / h**2


def compute(every: Callable) -> dict[str, np.ndarray]:
    """Everything, the dearest cells first."""

    def rows(function, **axes):
        return np.array(every(function, grid(**axes)))

    def dear(cell):
        return min(cell["M"], law().size) / cell["epsilon"]

    half, sizes = REPETITIONS // 2, (len(HEADS), len(STEPS))
    batches = [tuple(range(half)), tuple(range(half, REPETITIONS))]
    cells = grid(M=HEADS, epsilon=STEPS, seeds=batches)
    signed = np.array(every(descent_cell, cells, cost=dear)).reshape(*sizes, REPETITIONS, -1, 5)
    flows = rows(flow_row, M=HEADS, seed=range(FLOWS)).reshape(len(HEADS), FLOWS, -1, 5)
    noise = rows(noise_cell, M=NOISE_HEADS, epsilon=STEPS)
    seeds = [tuple(range(FOLLOWED))]
    followed = rows(followed_cell, M=FOLLOWED_HEADS, epsilon=FOLLOWED_STEPS, seeds=seeds)
    sizes = (len(FOLLOWED_HEADS), len(FOLLOWED_STEPS))
    return {
        "descent_largest": np.abs(signed).max(axis=3),
        "flow_largest": np.abs(flows).max(axis=2),
        "flow_signed": flows[:, :, ::4].astype(np.float32),
        "euler_largest": rows(euler_row, seed=range(REPETITIONS)),
        "followed": followed.reshape(*sizes, *followed.shape[1:]).astype(np.float32),
        "noise_largest": noise.reshape(len(NOISE_HEADS), len(STEPS), REPETITIONS, 5),
        "continuous_signed": rows(continuous_cell, M=CONTINUOUS_HEADS).astype(np.float32),
        "lipschitz": rows(lipschitz_row, time=range(9)),
        "noise": rows(noise_row, time=range(9)),
        "influence": np.concatenate(every(influence_row, grid(quantity=range(5)))),
        "second_variation": rows(second_variation_row, seed=range(PROBES)),
        "reference": reference(),
    }


def load() -> dict:
    """The stored results: arrays, and ``about`` with the command.

    Axes: number of heads, step, repetition, (time: 0 to 8, of ``followed`` ``TIMES``,) quantity.
    """
    return _stored.load(FILE)


if __name__ == "__main__":
    _stored.main("propagation", "3600 descents and 900 flows: an hour of one core")
