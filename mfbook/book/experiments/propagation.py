r"""Propagation of chaos, measured: heads under SGD against the solution of the equation.

The initial law :math:`\rho_0` has 1024 atoms, so :math:`\rho_t` is computed without sampling error.
M heads are independent draws from it. Errors are those of Theorem 5.2: of the risk, and of the
integrals of four fixed 1-Lipschitz functions.

    python -m mfbook.book.experiments.propagation        (a quarter of an hour on two cores)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from mfbook.book.experiments import _stored
from mfbook.book.sweep import grid, sweep
from mfbook.book.tasks import Task, teacher_student
from mfbook.flow import gradient_flow, sgd
from mfbook.flow.influence import influence
from mfbook.measure import Measure
from mfbook.models.attention import AttentionRisk, HeadShape, features
from mfbook.models.attention.ensemble import sgd_ensemble
from mfbook.transport import direction, distance_to, saturated

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
CONTINUOUS_HEADS, CONTINUOUS_REFERENCE = (64, 256, 1024), 2**14
TOLERANCE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}

FILE = _stored.FOLDER / "propagation.npz"
COMMAND = "python -m mfbook.book.experiments.propagation"
MODULES = (
    "models/attention", "flow", "measure", "book/tasks", "transport",
)  # fmt: skip


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
    teacher: Any = task().teacher
    return (
        direction(u, name="a direction"),
        saturated(w, width=2.0, name="a bounded direction"),
        distance_to(np.zeros(SHAPE.size), name="distance to 0"),
        distance_to(teacher.atoms[0], name="distance to a head of the teacher"),
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
    """M independent heads as atoms and weights.

    Heads that are drawn twice move together for ever: from M = 1024 on, the atoms of the law with
    their counts as weights are the same measure and less work.
    """
    n = counts(M, rng)
    if M < law().size:
        return np.repeat(law().atoms, n, axis=0), np.full(M, 1 / M)
    return law().atoms, n / M


@cache
def reference() -> np.ndarray:
    r"""What is observed of the solution :math:`\rho_t` at ``TIMES``, shape (33, 5)."""
    return along(gradient_flow(risk(), law(), TIMES, **TOLERANCE))


def flow_row(M: int, seed: int) -> np.ndarray:
    """Signed errors of the exact flow of M draws, shape (33, 5): the sampling error alone."""
    start = Measure(*draw(M, np.random.default_rng([M, seed])))
    return along(gradient_flow(risk(), start, TIMES, **TOLERANCE)) - reference()


def descent_cell(M: int, epsilon: float, seeds: tuple) -> np.ndarray:
    """Signed errors of SGD with one sequence a step, shape (len(seeds), 33, 5)."""
    rngs = [generator(M, epsilon, seed) for seed in seeds]
    atoms, weights = zip(*(draw(M, rng) for rng in rngs), strict=True)
    seen = sgd_ensemble(
        risk(), np.array(atoms), TIMES, epsilon, rngs, observe, weights=np.array(weights)
    )
    return (seen - reference()[:, None]).transpose(1, 0, 2)


def generator(M: int, epsilon: float, seed: int) -> np.random.Generator:
    """The one source of randomness of a row: it draws the heads, then the data."""
    return np.random.default_rng([M, round(1 / epsilon), seed])


def descent_row(M: int, epsilon: float, seed: int, times=TIMES) -> np.ndarray:
    """One row of :func:`descent_cell`, by :func:`mfbook.flow.sgd`: signed errors (33, 5).

    With other ``times`` (multiples of the step): what is observed there, without a reference.
    """
    rng = generator(M, epsilon, seed)
    start = Measure(*draw(M, rng))
    seen = along(sgd(risk(), start, times, epsilon, rng))
    return seen - reference() if times is TIMES else seen


def euler_row(seed: int) -> np.ndarray:
    """Largest error of Euler steps against the exact flow of the same heads, (steps, 5)."""
    start = Measure(*draw(EULER_HEADS, np.random.default_rng([EULER_HEADS, seed])))
    exact = along(gradient_flow(risk(), start, TIMES, **TOLERANCE))
    runs = (gradient_flow(risk(), start, TIMES, method="euler", step=e) for e in STEPS)
    return np.array([np.abs(along(run) - exact).max(axis=0) for run in runs])


def noise_cell(M: int, epsilon: float) -> np.ndarray:
    """Largest difference of SGD and Euler steps from the same heads, (repetitions, 5)."""
    atoms, weights = draw(M, np.random.default_rng([M, 0]))
    run = gradient_flow(risk(), Measure(atoms, weights), TIMES, method="euler", step=epsilon)
    R = REPETITIONS
    rngs = [np.random.default_rng([M, round(1 / epsilon), seed, 1]) for seed in range(R)]
    seen = sgd_ensemble(
        risk(), np.repeat(atoms[None], R, axis=0), TIMES, epsilon, rngs, observe,
        weights=np.repeat(weights[None], R, axis=0),
    )  # fmt: skip
    return np.abs(seen - along(run)[:, None]).max(axis=0)


@cache
def continuous_reference() -> np.ndarray:
    """The flow of 16384 draws from the continuous law: a reference with sampling error."""
    many = Measure(SHAPE.ball(RADIUS).sample(3, CONTINUOUS_REFERENCE))
    run = gradient_flow(risk(), many, TIMES[::4], rtol=1e-6, atol=1e-8)
    return along(run)


def continuous_cell(M: int) -> np.ndarray:
    """Signed errors of M draws from the continuous law, (repetitions, 9, 5)."""
    ball, rows = SHAPE.ball(RADIUS), []
    for seed in range(REPETITIONS):
        start = Measure(ball.sample(np.random.default_rng([M, seed, 2]), M))
        run = gradient_flow(risk(), start, TIMES[::4], rtol=1e-6, atol=1e-8)
        rows.append(along(run) - continuous_reference())
    return np.array(rows)


def lipschitz_row(time: int) -> np.ndarray:
    r"""Constants of the drift, measured on the atoms of :math:`\rho_t`; shape (5,).

    They are :math:`\max_i(-\lambda_{\min}\nabla^2\Psi(\theta_i))`,
    :math:`\max_i\|\nabla^2\Psi(\theta_i)\|`,
    :math:`\frac12\mathbb E\frac1T\sum_t\max_i\|\nabla\varphi_t(\theta_i)\|^2`, and the largest
    eigenvalues of the interaction and of the whole Hessian in the metric of the heads.
    """
    mu = law()
    if time:
        mu = gradient_flow(risk(), mu, TIMES[: 4 * time + 1], **TOLERANCE).end
    local, eye, tiny = risk().at(mu), np.eye(SHAPE.size), 1e-30
    H = np.stack([local.gradient(mu.atoms + 1j * tiny * e).imag / tiny for e in eye], axis=1)
    eigenvalues = np.linalg.eigvalsh((H + H.transpose(0, 2, 1)) / 2)
    largest = np.zeros(risk().Y.shape[:2])
    for part in np.array_split(mu.atoms, 16):
        J = np.stack(
            [features(part + 1j * tiny * e, risk().X, risk().W_U, SHAPE).imag for e in eye], -1
        )
        square = np.linalg.eigvalsh(J / tiny @ (J / tiny).mT)[..., -1]
        largest = np.maximum(largest, square.max(axis=0))
    single, lipschitz = np.array([-eigenvalues.min(), np.abs(eigenvalues).max()]), largest / 2
    # the Hessian acts on all heads at once; power iteration, shifted to make it positive
    shift, top = single[0], []
    for whole in (False, True):
        h, value = np.random.default_rng(4).normal(size=mu.atoms.shape), 0.0
        for _ in range(30):
            h /= np.sqrt(mu.integrate((h * h).sum(axis=1)))
            moved = risk().at(Measure(mu.atoms + 1j * tiny * h, mu.weights))
            at = mu.atoms + 1j * tiny * h if whole else mu.atoms
            image = moved.gradient(at).imag / tiny + shift * h
            value = mu.integrate((h * image).sum(axis=1)) - shift
            h = image
        top.append(value)
    return np.array([*single, lipschitz.mean(), *top])


def influence_row(quantity: int) -> np.ndarray:
    """Influence of each atom on the risk at times 0, 4, 8, or on a function at time 8."""
    f = functions()[quantity - 1] if quantity else None
    times = [0.0, 4.0, 8.0] if f is None else [8.0]
    return influence(risk(), law(), times, f, rtol=1e-5)


def compute(cache_folder, jobs: int) -> dict[str, np.ndarray]:
    """Everything, the dearest cells first."""
    options = {"cache": cache_folder, "n_jobs": jobs}
    half = REPETITIONS // 2
    batches = [tuple(range(half)), tuple(range(half, REPETITIONS))]
    cells = sorted(
        grid(M=HEADS, epsilon=STEPS, seeds=batches),
        key=lambda c: min(c["M"], law().size) / c["epsilon"], reverse=True,
    )  # fmt: skip
    descents = dict(
        zip(map(lambda c: tuple(c.values()), cells), sweep(descent_cell, cells, **options),
            strict=True)
    )  # fmt: skip
    signed = np.array(
        [[np.concatenate([descents[M, e, b] for b in batches]) for e in STEPS] for M in HEADS]
    )
    cells = grid(M=HEADS, seed=range(FLOWS))
    flows = np.array(sweep(flow_row, cells, **options)).reshape(len(HEADS), FLOWS, -1, 5)
    cells = grid(M=NOISE_HEADS, epsilon=STEPS)
    noise = np.array(sweep(noise_cell, cells, **options))
    return {
        "descent_largest": np.abs(signed).max(axis=3),
        "descent_end": signed[:, :, :, -1],
        "flow_largest": np.abs(flows).max(axis=2),
        "flow_signed": flows[:, :, ::4].astype(np.float32),
        "euler_largest": np.array(sweep(euler_row, grid(seed=range(REPETITIONS)), **options)),
        "noise_largest": noise.reshape(len(NOISE_HEADS), len(STEPS), REPETITIONS, 5),
        "continuous_signed": np.array(
            sweep(continuous_cell, grid(M=CONTINUOUS_HEADS), **options)
        ).astype(np.float32),
        "lipschitz": np.array(sweep(lipschitz_row, grid(time=range(9)), **options)),
        "influence": np.concatenate(sweep(influence_row, grid(quantity=range(5)), **options)),
        "reference": reference(),
    }


def load() -> dict:
    """The stored results: arrays, and ``about`` with the command and the hash of the code.

    Array axes: number of heads, step, repetition, quantity (risk, then the four functions);
    ``flow_signed`` and ``continuous_signed`` have the times 0, 1, ..., 8 before the last axis.
    """
    return _stored.load(FILE)


def main() -> None:
    """Compute and store everything."""
    cost = (
        f"{len(HEADS) * len(STEPS)} cells of {REPETITIONS} descents and "
        f"{len(HEADS) * FLOWS} flows: half an hour of one core"
    )
    _stored.main(FILE, COMMAND, MODULES, cost, compute)


if __name__ == "__main__":
    # run as the module of this name, so that the cache knows the functions by one name
    from mfbook.book.experiments.propagation import main as run

    run()
