r"""Propagation of chaos, measured: heads under SGD against the solution of the equation.

The initial law :math:`\rho_0` has 1024 atoms, so :math:`\rho_t` is computed without sampling error.
M heads are independent draws from it. Errors are those of Theorem 5.2: of the risk, and of the
integrals of four fixed 1-Lipschitz functions.

    python -m companion.experiments.propagation        (half an hour on two cores)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from companion.experiments import _stored
from companion.experiments._stored import evaluate, grid
from companion.mathematics.influence import influence
from companion.mathematics.lipschitz import direction, distance_to, saturated
from companion.tasks import Task, teacher_student
from mfbook.attention import AttentionRisk, HeadShape, features
from mfbook.flow import Adaptive, Euler, gradient_flow, sgd
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
TOLERANCE: dict[str, Any] = {"solver": Adaptive(rtol=1e-8, atol=1e-10)}

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


@cache
def solution() -> np.ndarray:
    """Atoms of the solution at ``TIMES``, shape (33, 1024, D): the characteristics of all heads."""
    return gradient_flow(risk(), law(), TIMES, **TOLERANCE).atoms


def way(atoms: np.ndarray) -> np.ndarray:
    r"""Distance of each head from the nearest atom of the initial law; shape (n,).

    A 1-Lipschitz function that is zero on the support of :math:`\rho_0`. As long as no head has
    come nearer to another's start than to its own, it is how far a head has moved.
    """
    return cdist(atoms, law().atoms).min(axis=1)


def followed_cell(M: int, epsilon: float, seeds: tuple) -> np.ndarray:
    """The runs of :func:`descent_cell` again, head by head; shape (len(seeds), 33, 4).

    Four numbers at each of ``TIMES``: the risk, the means of the distance to zero and of
    :func:`way`, and the largest distance of a head from its nonlinear characteristic.
    """
    rngs = [generator(M, epsilon, seed) for seed in seeds]
    # the indices that draw() picks, from generators in the same state
    picks = [np.repeat(np.arange(law().size), counts(M, generator(M, epsilon, s))) for s in seeds]
    atoms, weights = zip(*(draw(M, rng) for rng in rngs), strict=True)
    if M >= law().size:  # heads of weight zero are none
        picks = [np.arange(law().size)] * len(seeds)
    far = functions()[2]
    seen = sgd_ensemble(
        risk(), np.array(atoms), TIMES, epsilon, rngs,
        lambda mu: np.concatenate(
            [[risk()(mu), mu.integrate(far(mu.atoms)), mu.integrate(way(mu.atoms))],
             mu.atoms.ravel()]
        ),
        weights=np.array(weights),
    )  # fmt: skip
    heads = seen[:, :, 3:].reshape(len(TIMES), len(seeds), -1, SHAPE.size)
    apart = np.array(
        [
            np.linalg.norm(heads[:, i] - solution()[:, picks[i]], axis=-1)[:, w > 0].max(axis=1)
            for i, w in enumerate(weights)
        ]
    )
    return np.concatenate([seen[:, :, :3].transpose(1, 0, 2), apart[:, :, None]], axis=2)


def euler_row(seed: int) -> np.ndarray:
    """Largest error of Euler steps against the exact flow of the same heads, (steps, 5)."""
    start = Measure(*draw(EULER_HEADS, np.random.default_rng([EULER_HEADS, seed])))
    exact = along(gradient_flow(risk(), start, TIMES, **TOLERANCE))
    runs = (gradient_flow(risk(), start, TIMES, solver=Euler(e)) for e in STEPS)
    return np.array([np.abs(along(run) - exact).max(axis=0) for run in runs])


def noise_cell(M: int, epsilon: float) -> np.ndarray:
    """Largest difference of SGD and Euler steps from the same heads, (repetitions, 5)."""
    atoms, weights = draw(M, np.random.default_rng([M, 0]))
    run = gradient_flow(risk(), Measure(atoms, weights), TIMES, solver=Euler(epsilon))
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
    run = gradient_flow(risk(), many, TIMES[::4], solver=Adaptive(rtol=1e-6, atol=1e-8))
    return along(run)


def continuous_cell(M: int) -> np.ndarray:
    """Signed errors of M draws from the continuous law, (repetitions, 9, 5)."""
    ball, rows = SHAPE.ball(RADIUS), []
    for seed in range(REPETITIONS):
        start = Measure(ball.sample(np.random.default_rng([M, seed, 2]), M))
        run = gradient_flow(risk(), start, TIMES[::4], solver=Adaptive(rtol=1e-6, atol=1e-8))
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


def noise_row(time: int) -> float:
    r"""Mean square :math:`\mathbb E|g-G|_M^2` of the noise of one sample at :math:`\rho_t`.

    It is not sampled: the mean is over all sequences, and over the words that can be drawn at each
    position, in which the gradient is linear.
    """
    i, tiny, total = 4 * time, 1e-30, 0.0
    mu = Measure(solution()[i])
    local, Y, n = risk().at(mu), risk().Y, len(risk().X)
    G = local.gradient(mu.atoms)
    for part, mean in zip(np.array_split(mu.atoms, 16), np.array_split(G, 16), strict=True):
        J = (
            np.stack(
                [
                    features(part + 1j * tiny * e, risk().X, risk().W_U, SHAPE).imag / tiny
                    for e in np.eye(SHAPE.size)
                ],
                axis=-1,
            )
            / Y.shape[1]
        )  # (heads, sequences, positions, words, D)
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
    up, down = (
        gradient_flow(risk(), Measure(law().atoms, law().weights + side * tilt), times, **TOLERANCE)
        for side in (h, -h)
    )
    return n / 2 * (up.value - 2 * reference()[[0, 16, 32], 0] + down.value) / h**2


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
        zip(map(lambda c: tuple(c.values()), cells), evaluate(descent_cell, cells, **options),
            strict=True)
    )  # fmt: skip
    signed = np.array(
        [[np.concatenate([descents[M, e, b] for b in batches]) for e in STEPS] for M in HEADS]
    )
    cells = grid(M=HEADS, seed=range(FLOWS))
    flows = np.array(evaluate(flow_row, cells, **options)).reshape(len(HEADS), FLOWS, -1, 5)
    cells = grid(M=NOISE_HEADS, epsilon=STEPS)
    noise = np.array(evaluate(noise_cell, cells, **options))
    cells = grid(M=FOLLOWED_HEADS, epsilon=FOLLOWED_STEPS, seeds=[tuple(range(FOLLOWED))])
    followed = np.array(evaluate(followed_cell, cells, **options))
    shape = (len(FOLLOWED_HEADS), len(FOLLOWED_STEPS), *followed.shape[1:])
    return {
        "descent_largest": np.abs(signed).max(axis=3),
        "descent_end": signed[:, :, :, -1],
        "flow_largest": np.abs(flows).max(axis=2),
        "flow_signed": flows[:, :, ::4].astype(np.float32),
        "euler_largest": np.array(evaluate(euler_row, grid(seed=range(REPETITIONS)), **options)),
        "followed": followed.reshape(shape).astype(np.float32),
        "noise_largest": noise.reshape(len(NOISE_HEADS), len(STEPS), REPETITIONS, 5),
        "continuous_signed": np.array(
            evaluate(continuous_cell, grid(M=CONTINUOUS_HEADS), **options)
        ).astype(np.float32),
        "lipschitz": np.array(evaluate(lipschitz_row, grid(time=range(9)), **options)),
        "noise": np.array(evaluate(noise_row, grid(time=range(9)), **options)),
        "influence": np.concatenate(evaluate(influence_row, grid(quantity=range(5)), **options)),
        "second_variation": np.array(
            evaluate(second_variation_row, grid(seed=range(PROBES)), **options)
        ),
        "reference": reference(),
    }


def load() -> dict:
    """The stored results: arrays, and ``about`` with the command.

    Array axes: number of heads, step, repetition, quantity (risk, then the four functions);
    ``flow_signed`` and ``continuous_signed`` have the times 0, 1, ..., 8 before the last axis,
    ``followed`` has ``TIMES`` there, and values (not errors) of the quantities of
    :func:`followed_cell`.
    """
    return _stored.load(FILE)


def main() -> None:
    """Compute and store everything."""
    cost = (
        f"{len(HEADS) * len(STEPS)} cells of {REPETITIONS} descents and "
        f"{len(HEADS) * FLOWS} flows: an hour of one core"
    )
    _stored.main(FILE, COMMAND, cost, compute)


if __name__ == "__main__":
    # run as the module of this name, so that the cache knows the functions by one name
    from companion.experiments.propagation import main as run

    run()
