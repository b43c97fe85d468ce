"""The best uniform law and its content matrix, against descents and differences."""

import numpy as np
import pytest
from scipy.optimize import minimize

from companion.mathematics.landscape.uniform import best_uniform, content_matrix
from mfbook.attention import AttentionRisk, HeadShape
from mfbook.confinement import Ridge
from mfbook.measure import Measure
from mfbook.stability import atomic_stability, stationarity


def risk_of(k=1, v=2, d=3, T=4, seed=0):
    rng = np.random.default_rng(seed)
    W_U = rng.normal(size=(d, 4))
    X, Y = rng.normal(size=(6, T, d)), rng.dirichlet(np.full(4, 0.5), size=(6, T))
    return AttentionRisk(X, Y, W_U - W_U.mean(axis=1, keepdims=True), HeadShape(d, k, v))


def critical(risk):
    zero = np.zeros((1, risk.shape.size))
    return np.linalg.norm(risk.at(Measure(zero)).correlation(zero)[0], 2)


@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
@pytest.mark.parametrize("k", [1, 2])
def test_it_is_the_least_value_of_heads_without_queries_and_keys(share, k):
    risk = risk_of(k=k, v=3)
    lam = share * critical(risk)
    law, F, shape = best_uniform(risk, lam), risk + Ridge(lam), risk.shape
    writes = np.arange(shape.size) >= 2 * shape.blocks[0]

    def objective(z):
        theta = np.zeros(shape.size)
        theta[writes] = z
        local = F.at(Measure(theta[None]))
        return local.value, local.gradient(theta[None])[0][writes]

    found = min(
        minimize(objective, z, jac=True, method="BFGS", options={"gtol": 1e-9}).fun
        for z in np.random.default_rng(1).normal(size=(3, writes.sum()))
    )
    assert abs(law.value - found) < 1e-8 and law.gap <= 1e-10
    assert abs(np.linalg.norm(law.C, 2) / lam - 1) < 1e-5
    mu = Measure(law.head(shape)[None])
    assert abs(F(mu) - law.value) < 1e-12 and stationarity(F, mu).worst < 1e-6
    W_Q, W_K, W_V, W_O = shape.split(mu.atoms[0])
    assert np.allclose(W_V @ W_O, law.N) and not W_Q.any() and not W_K.any()
    assert abs(law.size - (W_V**2).sum()) < 1e-12 and law.rank <= shape.v


@pytest.mark.parametrize("k", [1, 2])
def test_the_pull_is_in_the_spectrum_of_the_head(k):
    risk = risk_of(k=k, v=3)
    lam = 0.4 * critical(risk)
    law = best_uniform(risk, lam, tolerance=1e-14)
    spectrum = atomic_stability(
        risk + Ridge(lam), Measure(law.head(risk.shape)[None])
    ).deviations.ravel()
    values = np.linalg.svd(law.content, compute_uv=False) / np.sqrt(k)
    assert abs(values[0] / lam - law.pull) < 1e-12
    for value in np.r_[lam + values, lam - values]:
        assert (np.abs(spectrum - value) < 1e-6).sum() >= k


def test_content_is_the_slope_of_the_first_variation_in_the_scores():
    risk = risk_of(k=3, v=3)
    shape, rng = risk.shape, np.random.default_rng(3)
    mu = Measure(rng.normal(size=(4, shape.size)))
    N, B, tiny = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), 1e-30
    head = shape.join(1j * tiny * B * np.sqrt(3), np.eye(3) + 0j, N + 0j, np.eye(3) + 0j)
    slope = risk.at(mu).first_variation(head[None])[0].imag / tiny
    D = content_matrix(risk, mu, N)
    assert abs((D * B).sum() - slope) < 1e-12
    assert np.allclose(content_matrix(risk, mu, 2 * N), 2 * D)


def test_above_the_critical_ridge_nothing_is_written():
    risk = risk_of()
    law = best_uniform(risk, 1.01 * critical(risk))
    assert law.size == 0 and law.pull == 0 and law.rank == 0
    assert not law.head(risk.shape).any()
    assert best_uniform(risk, 0.99 * critical(risk)).size > 0


def test_few_steps_are_said_by_the_gap():
    risk = risk_of()
    lam = 0.2 * critical(risk)
    rough, fine = best_uniform(risk, lam, steps=21), best_uniform(risk, lam)
    assert 1e-8 < rough.value - fine.value <= rough.gap
