"""The published rules of a run, against a program written out pair by pair."""

import numpy as np
import pytest

from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere import Explicit, SphereEnergy, settle


def written_out(x, F, sign, rules, limit):
    """Positions at snapshots, numbers of clusters and steps, from the definition of the rules."""
    d, n = x.shape[1], len(x)
    tau = min(0.5 / np.sqrt(F.beta), np.pi / (2 * d) if rules.cap else np.inf)
    seen, counts = [x], []
    for k in range(1, limit + 1):
        u = sign * velocity(x, F)
        if d == 2:
            angle = np.arctan2(x[:, 1], x[:, 0]) + rules.step * (
                x[:, 0] * u[:, 1] - x[:, 1] * u[:, 0]
            )
            x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        else:
            x = x + rules.step * u
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        if k % rules.between == 0 or k == limit:
            seen.append(x)
            groups = (arcs if d == 2 else chains)(x, tau)
            counts.append(groups.max() + 1)
            inner = np.clip(x @ x.T, -1, 1)
            wide = any(
                np.arccos(inner[np.ix_(groups == g, groups == g)].min()) > tau + 1e-7
                for g in range(counts[-1])
            )
            fast = np.linalg.norm(velocity(x, F), axis=1).max() > rules.tolerance
            last = counts[-rules.window :]
            if len(last) == rules.window and len(set(last)) == 1 and not wide and not fast:
                return np.array(seen), counts, k, True
    assert n == len(x)
    return np.array(seen), counts, limit, False


def velocity(x, F):
    """The field u of ascent, every pair and every unit."""
    h = np.exp(F.beta * (x @ x.T - 1))
    u = h @ x / (h.sum(axis=1, keepdims=True) if F.normalised else len(x))
    if F.a is not None:
        u = u + (np.maximum(x @ F.a.T, 0) * F.omega) @ F.a
    return u - (x * u).sum(axis=1, keepdims=True) * x


def arcs(x, tau):
    angle = np.sort(np.mod(np.arctan2(x[:, 1], x[:, 0]), 2 * np.pi))
    order = np.argsort(np.mod(np.arctan2(x[:, 1], x[:, 0]), 2 * np.pi))
    gap = np.append(angle[1:], angle[0] + 2 * np.pi) - angle
    first = int(np.argmax(gap)) + 1
    angle = np.concatenate([angle, angle + 2 * np.pi])[first : first + len(x)]
    order, group, begin = np.roll(order, -first), [0], angle[0]
    for one in angle[1:]:
        new = one - begin > tau
        begin = one if new else begin
        group.append(group[-1] + int(new))
    labels = np.empty(len(x), dtype=int)
    labels[order] = group
    return labels


def chains(x, tau):
    near = np.linalg.norm(x[:, None] - x, axis=2) <= 2 * np.sin(tau / 2)
    labels, count = np.full(len(x), -1), 0
    for i in range(len(x)):
        if labels[i] < 0:
            stack = [i]
            while stack:
                j = stack.pop()
                if labels[j] < 0:
                    labels[j] = count
                    stack += list(np.flatnonzero(near[j] & (labels < 0)))
            count += 1
    return labels


def setup(d, units, normalised, beta, n=40, seed=5):
    rng = np.random.default_rng(seed)
    x = Sphere().sample(rng, n, d)
    if units == "none":
        return Measure(x), SphereEnergy(beta, normalised=normalised)
    a, omega = Sphere().sample(rng, d, d), rng.normal(size=d)
    return Measure(x), SphereEnergy(beta, a, omega, units, normalised)


@pytest.mark.parametrize("d, units, normalised, ascent, beta, changes", [
    (2, "none", False, True, 3.0, {}), (2, "relu", False, True, 3.0, {}),
    (2, "relu", True, False, 1.0, {}), (3, "none", True, True, 3.0, {}),
    (3, "relu", False, False, 1.0, {}), (4, "none", False, False, 5.0, {}),
    (2, "none", False, True, 3.0, {"between": 1}), (2, "none", False, True, 3.0, {"window": 99}),
    (2, "none", False, True, 3.0, {"step": 0.05}), (2, "none", False, True, 0.01, {"most": 14}),
    (2, "none", False, True, 0.01, {"cap": False}), (3, "relu", False, True, 3, {"collapse": 1e-9}),
    (2, "none", False, True, 3.0, {"tolerance": 1e-2}),
])  # fmt: skip
def test_a_run_follows_the_rules_step_by_step(d, units, normalised, ascent, beta, changes):
    mu, F = setup(d, units, normalised, beta)
    rules = Explicit(**{"most": 1500, **changes})
    limit = 1000 if d == 4 else rules.most
    seen, counts, steps, stopped = written_out(mu.atoms, F, 1 if ascent else -1, rules, limit)
    run = settle(F, mu, ascent=ascent, solver=rules, record=1)
    assert (run.steps, run.completed) == (steps, stopped)
    assert run.count[1:].tolist() == counts and run.atoms.shape == seen.shape
    assert np.abs(run.atoms - seen).max() < 1e-8
    assert run.clusters.threshold == rules.threshold(beta, d)
    snapshots = np.minimum(np.arange(len(run.t)) * rules.between, steps) * rules.step
    assert run.t == pytest.approx(snapshots)
    for k in (0, len(seen) // 2, -1):
        u, x = velocity(seen[k], F), Measure(seen[k])
        assert run.value[k] == pytest.approx(F(x), abs=1e-9)
        assert run.speed[k] == pytest.approx(np.linalg.norm(u, axis=1).max(), abs=1e-7)
        assert run.dissipation[k] == pytest.approx((u * u).sum() / len(u), abs=1e-7)
    if d == 4:
        assert run.reason == "the horizon is reached" and steps == 1000
