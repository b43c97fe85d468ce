"""Wrong matrices and wrong flows, for the tests of Chapter 7 and of the page beside it."""

from dataclasses import replace
from types import FunctionType

import numpy as np
from chapter_runner import flow_along
from scipy.linalg import block_diag

from mfbook.models.attention import features, softmax
from mfbook.stability import atomic_stability, dirac_stability


def other_matrices(change, *, weighted=True):
    """Both stability reports with ``change(F, mu, H, K)`` for H and K."""

    def atomic(F, mu):
        report = atomic_stability(F, mu)
        H, K = change(F, mu, report.H, report.K)
        m, D = mu.atoms.shape
        scale = np.repeat(np.sqrt(mu.weights if weighted else np.ones(m)), D)
        K_all = K.transpose(0, 2, 1, 3).reshape(m * D, m * D)
        blocks = block_diag(*H) + scale[:, None] * K_all * scale
        collective, vectors = np.linalg.eigh((blocks + blocks.T) / 2)
        modes = vectors.T.reshape(-1, m, D) / np.sqrt(mu.weights)[:, None]
        deviations = np.linalg.eigvalsh((H + H.transpose(0, 2, 1)) / 2)
        return replace(report, H=H, K=K, deviations=deviations, collective=collective, modes=modes)

    scope = {**dirac_stability.__globals__, "atomic_stability": atomic}
    dirac = FunctionType(dirac_stability.__code__, scope, "dirac_stability")
    dirac.__kwdefaults__ = dirac_stability.__kwdefaults__
    return lambda names: {"atomic_stability": atomic, "dirac_stability": dirac}


def interaction(form):
    """K with another matrix for the Jacobian J = diag(p) - pp^T of the softmax."""

    def change(F, mu, H, K):
        R = F.terms[0][1] if hasattr(F, "terms") else F
        (m, D), tiny = mu.atoms.shape, 1e-30
        moved = (mu.atoms[:, None] + 1j * tiny * np.eye(D)).reshape(m * D, D)
        g = features(moved, R.X, R.W_U, R.shape).imag / tiny
        p = softmax(R.logits(mu))
        S, T, _ = p.shape
        K = np.einsum("astv,bstv->ab", g, form(p, g)).reshape(m, D, m, D) / (S * T)
        return H, K.transpose(0, 2, 1, 3)

    return change


identity_for_J = other_matrices(interaction(lambda p, g: g))
diagonal_for_J = other_matrices(interaction(lambda p, g: p * g))
K_twice = other_matrices(lambda F, mu, H, K: (H, 2 * K))
K_with_the_other_sign = other_matrices(lambda F, mu, H, K: (H, -K))
K_forgotten = other_matrices(lambda F, mu, H, K: (H, 0 * K))
K_without_weights = other_matrices(lambda F, mu, H, K: (H, K), weighted=False)
H_tr_for_H = other_matrices(lambda F, mu, H, K: (H + K[range(mu.size), range(mu.size)], 0 * K))


uphill = flow_along(lambda F, x, mu: -F.gradient(x, mu))
weighted_velocity = flow_along(lambda F, x, mu: mu.weights[:, None] * F.gradient(x, mu))
